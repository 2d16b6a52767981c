/* Drivers: which one a toolkit or a GPU needs, and which CUDA a driver runs. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "kb/ask.h"
#include "kb/serves.h"

/* ------------------------------------------------------------------ drivers */

void ask_say_floor(struct ask *k, const struct kb_driver *floor)
{
    HIT(k, KB_AREA_DRIVERS, floor);
    ask_say(k, "By minor-version compatibility %s runs from Linux driver %s%s%s%s on, with limits.",
            floor->title, floor->linux_min, floor->windows_min ? " (Windows " : "",
            floor->windows_min ? floor->windows_min : "", floor->windows_min ? ")" : "");
}

/* The question may name an update of a toolkit, or its first release. */
static bool toolkit_asked(struct ask *k, const struct kb_driver *row)
{
    const char *cuda = ask_given(k, KEY_CUDA);
    bool update = strstr(row->title, " Update ") != NULL;
    bool same =
        !k->q->update || ends_with(row->title, arena_printf(k->a, " Update %s", k->q->update));
    return kb_driver_has_cuda(row) && strchr(cuda, '.') && ask_within(row->cuda, cuda) && same &&
           !(k->q->said & SAID_GA && update);
}

/* Whether a driver for Windows is among what would be said. */
static bool windows_known(const struct ask *k, const struct ask_table *t,
                          const struct kb_driver *floor)
{
    enum { WINDOWS_COLUMN = 2 };
    for (size_t i = 0; i < t->lines.n; i++) {
        if (t->lines.items[i].cells[WINDOWS_COLUMN]) {
            return true;
        }
    }
    return floor && floor->windows_min && !(k->q->said & SAID_NO_FLOOR);
}

/* "which driver does CUDA 12.4 need"; a major alone is answered with its floor. */
int form_driver(struct ask *k, struct gm_err *err)
{
    struct kb_drivers d;
    struct ask_table t = {
        .heads = {"toolkit", "Linux driver", "Windows driver"}, .columns = 3, .named = 1};
    int rc = kb_drivers(k->kb, &d, err);
    if (rc < 0) {
        return rc;
    }
    const char *cuda = ask_given(k, KEY_CUDA);
    bool only_floor = k->q->said & SAID_FLOOR && !(k->q->said & SAID_NO_FLOOR);
    for (size_t i = 0; i < d.n && !only_floor; i++) {
        const struct kb_driver *row = &d.rows[i];
        if (toolkit_asked(k, row)) {
            HIT(k, KB_AREA_DRIVERS, row);
            VEC_PUSH(k->a, &t.lines,
                     ((struct ask_line){.cells = {row->title, row->linux_min, row->windows_min}}));
        }
    }
    if (k->q->said & (SAID_WINDOWS | SAID_WSL) &&
        !windows_known(k, &t, kb_driver_minor(&d, cuda))) {
        ask_missing(k, "the Windows driver of CUDA %s was not read", cuda);
        return 0;
    }
    if (t.lines.n > 0) {
        ask_say_table(k, "The least drivers", &t);
    }
    const struct kb_driver *floor = kb_driver_minor(&d, cuda);
    bool asked = only_floor || strcmp(ask_major(k, cuda), cuda) == 0;
    if (k->q->said & SAID_WSL && (t.lines.n > 0 || (floor && asked))) {
        ask_say(k, "Under WSL the driver is that of Windows.");
    }
    if (floor && !(k->q->said & SAID_NO_FLOOR) && (t.lines.n > 0 || asked)) {
        ask_say_floor(k, floor);
        return 1;
    }
    if (t.lines.n == 0) {
        ask_missing(k, "the driver of CUDA %s was not read", cuda);
    }
    return t.lines.n > 0;
}

/* The least driver of a row, of the system that the question names; NULL: not read. */
static const char *ask_least_driver(const struct ask *k, const struct kb_driver *row)
{
    return k->q->said & (SAID_WINDOWS | SAID_WSL) ? row->windows_min : row->linux_min;
}

/* "does driver 535 run CUDA 12.4": by the driver of the toolkit, or by minor-version compatibility.
 */
int form_driver_runs(struct ask *k, struct gm_err *err)
{
    struct kb_drivers d;
    const struct kb_driver *toolkit = NULL;
    int rc = kb_drivers(k->kb, &d, err);
    if (rc < 0) {
        return rc;
    }
    const char *cuda = ask_given(k, KEY_CUDA), *driver = ask_given(k, KEY_DRIVER);
    const struct kb_driver *floor = kb_driver_minor(&d, cuda);
    for (size_t i = 0; i < d.n && !toolkit; i++) {
        toolkit = toolkit_asked(k, &d.rows[i]) ? &d.rows[i] : NULL;
    }
    bool windows = k->q->said & (SAID_WINDOWS | SAID_WSL);
    const char *os = windows ? "Windows" : "Linux";
    const char *own = toolkit ? ask_least_driver(k, toolkit) : NULL;
    const char *least =
        floor ? ask_least_driver(k, floor) : own; // before CUDA 11 there is its own alone
    floor = floor ? floor : toolkit;
    if (!least || (toolkit && !own) || (strchr(cuda, '.') && !toolkit) ||
        (windows && k->q->said & SAID_LINUX)) {
        ask_missing(k, "the %s driver of CUDA %s was not read", os, cuda);
        return 0;
    }
    HIT(k, KB_AREA_DRIVERS, toolkit ? toolkit : floor);
    bool needed = k->q->said & SAID_DOES &&
                  question_has(k->q, "need needs needed require requires required") &&
                  !kb_driver_reaches(least, driver);
    if (needed) {
        HIT(k, KB_AREA_DRIVERS, floor);
        ask_say(k,
                "No, not that one: by minor-version compatibility %s runs from %s driver %s on, "
                "with limits.",
                floor->title, os, least);
        if (own) {
            ask_say(k, "%s itself goes with %s driver %s.", toolkit->title, os, own);
        }
    } else if (own && kb_driver_reaches(driver, own)) {
        ask_say(k, "Yes: %s goes with %s driver %s or later.", toolkit->title, os, own);
    } else if (kb_driver_reaches(driver, least)) {
        HIT(k, KB_AREA_DRIVERS, floor);
        ask_say(k,
                "Yes, by minor-version compatibility, with limits: %s runs from %s driver %s on.",
                floor->title, os, least);
        if (own) {
            ask_say(k, "%s itself goes with %s driver %s.", toolkit->title, os, own);
        }
    } else {
        HIT(k, KB_AREA_DRIVERS, floor);
        ask_say(k, "No: %s needs %s driver %s or later.", floor->title, os, least);
    }
    return 1;
}

/* What a driver branch is, and when it ends; 1: it has a row. */
static int say_branch(struct ask *k, const struct kb_drivers *d, const char *driver)
{
    int found = 0;
    for (size_t i = 0; i < d->n; i++) {
        const struct kb_driver *row = &d->rows[i];
        if (row->kind == KB_DRIVER_BRANCH && ask_within(driver, row->linux_min)) {
            HIT(k, KB_AREA_DRIVERS, row);
            bool does = k->q->said & SAID_DOES; // as of the day when the row was read
            bool ended = does && strncmp(row->origin.date, row->ends, strlen(row->ends)) > 0;
            ask_say(k, "%sriver %s is of %s, which %s %s.",
                    !does   ? "D"
                    : ended ? "No: d"
                            : "Yes: d",
                    driver, row->title, ended ? "ended" : "ends", row->ends);
            if (row->origin.note) {
                ask_say(k, "%s", row->origin.note);
            }
            found = 1;
        }
    }
    return found;
}

/* "which driver branches are LTS": those that were read, of the kind that is asked for. */
int form_branches(struct ask *k, struct gm_err *err)
{
    struct kb_drivers d;
    const char *kind = question_branch_kind(k->q);
    struct ask_table t = {.heads = {"branch", "ends", ""}, .columns = 3, .named = 1};
    if (question_has(k->q, "supported maintained")) {
        ask_missing(k, "which branches are still supported depends on the day; \"driver branches\" "
                       "lists them with their ends");
        return 0;
    }
    int rc = kb_drivers(k->kb, &d, err);
    for (size_t i = 0; rc == 0 && i < d.n; i++) {
        const struct kb_driver *row = &d.rows[i];
        if (row->kind == KB_DRIVER_BRANCH && (!kind || ends_with(row->title, kind))) {
            const char *name = strstr(row->title, "R");
            struct ask_line line = {
                .cells = {name ? name : row->title, row->ends, row->origin.note}};
            HIT(k, KB_AREA_DRIVERS, row);
            VEC_PUSH(k->a, &t.lines, line);
        }
    }
    if (t.lines.n > 0) {
        ask_say_table(k,
                      arena_printf(k->a, "Driver branches that were read%s%s", kind ? ", " : "",
                                   kind ? kind : ""),
                      &t);
    }
    return rc < 0 ? rc : t.lines.n > 0;
}

/* "when does the driver branch 535 end" */
int form_branch(struct ask *k, struct gm_err *err)
{
    struct kb_drivers d;
    int rc = kb_drivers(k->kb, &d, err);
    if (rc < 0) {
        return rc;
    }
    rc = say_branch(k, &d, ask_given(k, KEY_DRIVER));
    if (rc == 0) {
        ask_missing(k, "when driver branch %s ends was not read", ask_given(k, KEY_DRIVER));
    }
    return rc;
}

/* The newest toolkit whose driver for Windows a driver reaches. */
static const struct kb_driver *newest_on_windows(const struct kb_drivers *d, const char *driver,
                                                 bool *ret_last)
{
    const struct kb_driver *best = NULL, *last = NULL;
    for (size_t i = 0; i < d->n; i++) {
        const struct kb_driver *row = &d->rows[i];
        if (row->kind != KB_DRIVER_TOOLKIT || !row->windows_min) {
            continue;
        }
        last = !last || ask_compare(row->cuda, last->cuda) > 0 ? row : last;
        if (kb_driver_reaches(driver, row->windows_min) &&
            (!best || ask_compare(row->cuda, best->cuda) > 0)) {
            best = row;
        }
    }
    *ret_last = best == last;
    return best;
}

/* "which CUDA does driver 535 run" */
int form_cuda_of_driver(struct ask *k, struct gm_err *err)
{
    struct kb_drivers d;
    int rc = kb_drivers(k->kb, &d, err);
    if (rc < 0) {
        return rc;
    }
    const char *driver = ask_given(k, KEY_DRIVER);
    bool windows = k->q->said & (SAID_WINDOWS | SAID_WSL), last = false;
    const struct kb_driver *best =
        windows ? newest_on_windows(&d, driver, &last) : kb_newest_cuda(&d, driver);
    if (!best || (windows && k->q->said & SAID_LINUX)) {
        return 0;
    }
    HIT(k, KB_AREA_DRIVERS, best);
    ask_say(k, "%s %s is enough for %s and all before it.", windows ? "Windows driver" : "Driver",
            driver, best->title);
    if (best->kind == KB_DRIVER_ALONE) {
        ask_say(k, "NVIDIA published no toolkit of %s.", best->title);
    }
    if (last) {
        ask_say(k, "Of newer ones the driver for Windows was not read.");
    }
    for (size_t i = 0; i < d.n; i++) {
        const struct kb_driver *row = &d.rows[i];
        const char *least = ask_least_driver(k, row);
        if (row->kind == KB_DRIVER_MINOR && least && kb_driver_reaches(driver, least) &&
            atoi(row->cuda) >= atoi(best->cuda)) {
            ask_say_floor(k, row);
        }
    }
    if (!windows) {
        (void)say_branch(k, &d, driver);
    }
    return 1;
}

/* The row of that kind for an architecture: its first driver, its last branch; or NULL. */
static const struct kb_driver *driver_bound(const struct kb_drivers *d, enum kb_driver_kind kind,
                                            const char *sm)
{
    for (size_t i = 0; i < d->n; i++) {
        if (d->rows[i].kind == kind && ask_has_text(d->rows[i].sm, sm)) {
            return &d->rows[i];
        }
    }
    return NULL;
}

/* "does driver 550 support the RTX 5090": by the first driver and the last branch for it, or the
 * driver of the first toolkit that compiles for it. */
static int say_driver_serves(struct ask *k, const struct kb_drivers *d, const struct kb_toolkits *t,
                             const char *sm)
{
    bool oldest;
    const char *driver = ask_given(k, KEY_DRIVER);
    const struct kb_driver *first = driver_bound(d, KB_DRIVER_FIRST, sm);
    const struct kb_driver *last = driver_bound(d, KB_DRIVER_LAST, sm);
    const struct kb_toolkit *toolkit = ask_first_toolkit(t, sm, &oldest);
    const struct kb_driver *enough = first     ? first
                                     : toolkit ? ask_driver_of_toolkit(d, toolkit->cuda)
                                               : NULL;
    if (last && atoi(driver) > atoi(last->linux_min)) {
        HIT(k, KB_AREA_DRIVERS, last);
        ask_say(k, "No: driver %s no longer knows %s; the last is %s.", driver, sm, last->title);
        return 1;
    }
    if (first && !kb_driver_reaches(driver, first->linux_min)) {
        HIT(k, KB_AREA_DRIVERS, first);
        ask_say(k, "No: driver %s does not know %s, which needs Linux driver %s or later.", driver,
                sm, first->linux_min);
        return 1;
    }
    if (!enough || !kb_driver_reaches(driver, enough->linux_min)) {
        ask_missing(k, "whether driver %s knows %s was not read%s%s", driver, sm,
                    enough ? "; certainly does " : "", enough ? enough->linux_min : "");
        return 0;
    }
    HIT(k, KB_AREA_DRIVERS, enough);
    ask_say(k, "Yes: drivers from %s on know %s%s%s.", enough->linux_min, sm,
            last ? "; the last that does is " : "", last ? last->title : "");
    if (last) {
        HIT(k, KB_AREA_DRIVERS, last);
    }
    return 1;
}

/* "which is the last driver branch for Pascal", "does driver 550 support the RTX 5090" */
/* "is driver 580 the last one for Pascal" */
static int say_driver_bounds(struct ask *k, const struct kb_drivers *d,
                             const struct question_values *sms, bool first)
{
    const char *driver = ask_given(k, KEY_DRIVER);
    const struct kb_driver *row = NULL;
    for (size_t i = 0; i < sms->n; i++) {
        const struct kb_driver *one =
            driver_bound(d, first ? KB_DRIVER_FIRST : KB_DRIVER_LAST, sms->items[i]);
        if (row && one && one != row) {
            return 0; // the architectures of a generation differ
        }
        row = one ? one : row;
    }
    if (!row) {
        return 0;
    }
    HIT(k, KB_AREA_DRIVERS, row);
    ask_say(k, "%s: it is %s.", ask_meets(driver, row->linux_min) ? "Yes" : "No", row->title);
    return 1;
}

int form_driver_of_gpu(struct ask *k, struct gm_err *err)
{
    struct kb_drivers d;
    struct kb_toolkits t;
    struct question_values sms;
    bool does = k->q->said & SAID_DOES, first = k->q->said & SAID_FIRST;
    bool bound = first || k->q->said & SAID_LAST;
    bool bare = !does && !bound && k->q->asked & ASKED_BRANCH; // "which branch for an RTX 5070"
    int rc = kb_drivers(k->kb, &d, err);
    rc = rc < 0 ? rc : kb_toolkits(k->kb, &t, err);
    rc = rc < 0 ? rc : ask_architectures(k, &sms, err);
    if (rc < 0 || k->missing || sms.n == 0 || does != (ask_given(k, KEY_DRIVER) != NULL) ||
        (!does && !bound && !bare) || (first && k->q->said & SAID_LAST)) {
        return rc < 0 ? rc : 0;
    }
    if (does && bound) {
        return say_driver_bounds(k, &d, &sms, first);
    }
    const char *unread = "";
    for (size_t i = 0; i < sms.n; i++) {
        const struct kb_driver *row =
            driver_bound(&d, first ? KB_DRIVER_FIRST : KB_DRIVER_LAST, sms.items[i]);
        if (bare) { // from the first on, up to the last; where one is not a bound, the other
            row = driver_bound(&d, KB_DRIVER_FIRST, sms.items[i]);
            row = row ? row : driver_bound(&d, KB_DRIVER_LAST, sms.items[i]);
        }
        if (does) {
            rc = say_driver_serves(k, &d, &t, sms.items[i]);
            if (rc == 0) {
                return 0;
            }
            continue;
        }
        if (!row) {
            unread = arena_printf(k->a, "%s%s%s", unread, unread[0] ? ", " : "", sms.items[i]);
            continue;
        }
        HIT(k, KB_AREA_DRIVERS, row);
        ask_say(k, "It is %s%s%s.", row->title, row->origin.note ? ". " : "",
                row->origin.note
                    ? arena_strndup(k->a, row->origin.note,
                                    strlen(row->origin.note) - ends_with(row->origin.note, "."))
                    : "");
    }
    if (unread[0] && !k->answer->known) {
        ask_missing(k, "no driver branch that was read is the %s for %s",
                    bare    ? "first or the last"
                    : first ? "first"
                            : "last",
                    unread);
    } else if (unread[0]) {
        ask_say(k, "For %s this was not read.", unread);
    }
    return k->answer->known;
}
