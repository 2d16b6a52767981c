/* Drivers, toolkits and cuDNN. */
#include "kb/ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "kb/serves.h"
#include "py/version.h"

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
    return row->kind == KB_DRIVER_TOOLKIT && strchr(cuda, '.') && ask_within(row->cuda, cuda) &&
           same && !(k->q->said & SAID_GA && update);
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
static const char *least_driver(const struct ask *k, const struct kb_driver *row)
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
    const char *own = toolkit ? least_driver(k, toolkit) : NULL;
    const char *least =
        floor ? least_driver(k, floor) : own; // before CUDA 11 there is its own alone
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
        windows ? newest_on_windows(&d, driver, &last) : kb_newest_toolkit(&d, driver);
    if (!best || (windows && k->q->said & SAID_LINUX)) {
        return 0;
    }
    HIT(k, KB_AREA_DRIVERS, best);
    ask_say(k, "%s %s is enough for %s and all before it.", windows ? "Windows driver" : "Driver",
            driver, best->title);
    if (last) {
        ask_say(k, "Of newer ones the driver for Windows was not read.");
    }
    for (size_t i = 0; i < d.n; i++) {
        const struct kb_driver *row = &d.rows[i];
        const char *least = least_driver(k, row);
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

static const struct kb_driver *driver_of_toolkit(const struct kb_drivers *d, const char *cuda);

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

/* The architectures that the question is about: one, or those of the cards of a generation. */
static int architectures_asked(struct ask *k, struct question_values *ret, struct gm_err *err)
{
    struct kb_gpus gpus;
    struct ask_arch arch;
    const char *generation = ask_given(k, KEY_GENERATION);
    int rc = ask_arch_find(k, &arch, err);
    rc = rc < 0 ? rc : kb_gpus(k->kb, &gpus, err);
    ret->n = 0;
    if (rc < 0 || k->missing || arch.gfx || (arch.sm && generation)) {
        return rc;
    }
    if (arch.sm) {
        ret->items[ret->n++] = arena_printf(k->a, "sm_%d", ask_arch_number(arch.sm));
    }
    for (size_t i = 0; generation && i < gpus.n; i++) {
        const struct kb_gpu *g = &gpus.rows[i];
        bool listed = g->kind != KB_GPU_CARD || !g->capability ||
                      strcmp(g->generation, generation) != 0 || ret->n == QUESTION_LIST_MAX;
        const char *sm =
            listed ? NULL : arena_printf(k->a, "sm_%d", ask_arch_number(g->capability));
        for (size_t s = 0; s < ret->n && !listed; s++) {
            listed = strcmp(ret->items[s], sm) == 0;
        }
        if (!listed) {
            ret->items[ret->n++] = sm;
        }
    }
    return 0;
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
                                     : toolkit ? driver_of_toolkit(d, toolkit->cuda)
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
    int rc = kb_drivers(k->kb, &d, err);
    rc = rc < 0 ? rc : kb_toolkits(k->kb, &t, err);
    rc = rc < 0 ? rc : architectures_asked(k, &sms, err);
    if (rc < 0 || k->missing || sms.n == 0 || does != (ask_given(k, KEY_DRIVER) != NULL) ||
        (!does && !bound) || (first && k->q->said & SAID_LAST)) {
        return rc < 0 ? rc : 0;
    }
    if (does && bound) {
        return say_driver_bounds(k, &d, &sms, first);
    }
    const char *unread = "";
    for (size_t i = 0; i < sms.n; i++) {
        const struct kb_driver *row =
            driver_bound(&d, first ? KB_DRIVER_FIRST : KB_DRIVER_LAST, sms.items[i]);
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
        ask_missing(k, "no driver branch that was read is the %s for %s", first ? "first" : "last",
                    unread);
    } else if (unread[0]) {
        ask_say(k, "For %s this was not read.", unread);
    }
    return k->answer->known;
}

/* ------------------------------------------------------------------ architectures */

static void say_toolkit(struct ask *k, const struct kb_toolkit *row)
{
    const char *note = row->origin.note;
    if (k->q->asked & ASKED_ARCH) {
        ask_say(k, "CUDA %s compiles for %s; its PTX ISA is %s.%s%s", row->cuda,
                ask_joined(k->a, row->sm), row->ptx, note ? " " : "", note ? note : "");
    } else {
        ask_say(k, "The PTX ISA of CUDA %s is %s.", row->cuda, row->ptx);
    }
}

/* "does CUDA 12.9 compile for sm_61" */
static int say_compiles(struct ask *k, const struct kb_toolkit *row, const struct ask_arch *arch)
{
    const char *sm = arena_printf(k->a, "sm_%d", ask_arch_number(arch->sm));
    bool has = ask_has_text(row->sm, sm);
    if (ask_arch_number(arch->sm) == 0) {
        return 0;
    }
    if (has && arch->gpu && arch->gpu->kind == KB_GPU_MODULE &&
        !question_has(k->q, "compile compiles")) {
        ask_missing(k,
                    "CUDA %s compiles for %s, but a Jetson runs the CUDA of its JetPack, and which "
                    "JetPack %s has was not read",
                    row->cuda, sm, arch->gpu->name);
        return 0;
    }
    ask_say(k, "%s: CUDA %s %s for %s.", has ? "Yes" : "No", row->cuda,
            has ? "compiles" : "does not compile", sm);
    return 1;
}

/* "CUDA 11.0 to 11.8": the toolkits within one that compile for an architecture, or that do not. */
static const char *toolkit_range(struct ask *k, const struct kb_toolkits *t, const char *sm,
                                 bool wanted, size_t *ret_n)
{
    const char *first = NULL, *last = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct kb_toolkit *row = &t->rows[i];
        if (ask_meets(row->cuda, ask_given(k, KEY_CUDA)) && ask_has_text(row->sm, sm) == wanted) {
            first = !first || ask_compare(row->cuda, first) < 0 ? row->cuda : first;
            last = !last || ask_compare(row->cuda, last) > 0 ? row->cuda : last;
            (*ret_n)++;
        }
    }
    return !first                     ? ""
           : strcmp(first, last) == 0 ? first
                                      : arena_printf(k->a, "%s to %s", first, last);
}

/* "does CUDA 12 compile for sm_120": of several toolkits in one sentence. An architecture that was
 * dropped has never come back. */
static int say_compiles_all(struct ask *k, const struct kb_toolkits *t, const struct ask_arch *arch)
{
    size_t with, without;
    const char *sm = arena_printf(k->a, "sm_%d", ask_arch_number(arch->sm));
    const char *compile = toolkit_range(k, t, sm, true, &with);
    const char *rest = toolkit_range(k, t, sm, false, &without);
    bool module = with > 0 && arch->gpu && arch->gpu->kind == KB_GPU_MODULE;
    if (with + without < 3 || module || ask_arch_number(arch->sm) == 0) {
        return 0;
    }
    if (with == 0) {
        ask_say(k, "No: CUDA %s do not compile for %s.", rest, sm);
    } else if (without == 0) {
        ask_say(k, "Yes: CUDA %s compile for %s.", compile, sm);
    } else {
        ask_say(k, "Yes, with some: CUDA %s compile%s for %s, %s do%s not.", compile,
                with == 1 ? "s" : "", sm, rest, without == 1 ? "es" : "");
    }
    return 1;
}

/* "lowest compute capability CUDA 12.x can compile for": over all rows within it. */
static int say_extreme_sm(struct ask *k, const struct kb_toolkits *t)
{
    const char *cuda = ask_given(k, KEY_CUDA), *best = NULL;
    const struct kb_toolkit *from = NULL;
    bool first = k->q->said & SAID_FIRST;
    for (size_t i = 0; i < t->n; i++) {
        const struct kb_toolkit *row = &t->rows[i];
        for (size_t s = 0; s < row->sm.n && ask_within(row->cuda, cuda); s++) {
            int number = ask_arch_number(row->sm.items[s]), had = best ? ask_arch_number(best) : 0;
            if (!best || (first ? number < had : number > had)) {
                best = row->sm.items[s];
                from = row;
            }
        }
    }
    if (!best) {
        return 0;
    }
    int number = ask_arch_number(best);
    HIT(k, KB_AREA_TOOLKITS, from);
    ask_say(k, "The %s architecture that CUDA %s compiles for is %s, compute capability %d.%d.",
            first ? "lowest" : "newest", cuda, best, number / 10, number % 10);
    return 1;
}

/* "does CUDA 12.6 support Blackwell": of all architectures of a generation's cards. */
static int say_compiles_generation(struct ask *k, const struct kb_toolkit *row,
                                   const struct question_values *sms)
{
    const char *with = "", *without = "";
    for (size_t i = 0; i < sms->n; i++) {
        const char **list = ask_has_text(row->sm, sms->items[i]) ? &with : &without;
        *list = arena_printf(k->a, "%s%s%s", *list, (*list)[0] ? ", " : "", sms->items[i]);
    }
    if (with[0]) {
        ask_say(k, "Yes: CUDA %s compiles for %s of %s%s%s.", row->cuda, with,
                ask_given(k, KEY_GENERATION), without[0] ? ", not for " : "", without);
    } else {
        ask_say(k, "No: CUDA %s does not compile for %s (%s).", row->cuda, without,
                ask_given(k, KEY_GENERATION));
    }
    return 1;
}

/* "which architectures does CUDA 12.8 compile for" */
int form_toolkit(struct ask *k, struct gm_err *err)
{
    struct kb_toolkits t;
    struct ask_arch arch;
    struct question_values sms = {.n = 0};
    int rc = kb_toolkits(k->kb, &t, err);
    rc = rc < 0 ? rc : ask_arch_find(k, &arch, err);
    rc = rc < 0 || !ask_given(k, KEY_GENERATION) ? rc : architectures_asked(k, &sms, err);
    if (rc < 0 || k->missing || arch.gfx || (sms.n > 0 && arch.sm)) {
        return rc < 0 ? rc : 0;
    }
    if (k->q->said & (SAID_FIRST | SAID_LAST) && !arch.sm) {
        return k->q->asked & ASKED_ARCH ? say_extreme_sm(k, &t) : 0;
    }
    const char *cuda = ask_given(k, KEY_CUDA);
    int found = 0;
    bool together = arch.sm && say_compiles_all(k, &t, &arch);
    for (size_t i = 0; i < t.n; i++) {
        const struct kb_toolkit *row = &t.rows[i];
        if (!ask_meets(row->cuda, cuda)) {
            continue;
        }
        HIT(k, KB_AREA_TOOLKITS, row);
        found = 1;
        if (together) {
            continue;
        }
        if (arch.sm) {
            found = say_compiles(k, row, &arch);
        } else if (sms.n > 0) {
            found = say_compiles_generation(k, row, &sms);
        } else {
            say_toolkit(k, row);
        }
    }
    return found;
}

const struct kb_toolkit *ask_first_toolkit(const struct kb_toolkits *t, const char *sm,
                                           bool *ret_oldest)
{
    const struct kb_toolkit *first = NULL, *oldest = NULL;
    for (size_t i = 0; i < t->n; i++) {
        const struct kb_toolkit *row = &t->rows[i];
        oldest = !oldest || ask_compare(row->cuda, oldest->cuda) < 0 ? row : oldest;
        if (ask_has_text(row->sm, sm)) {
            first = !first || ask_compare(row->cuda, first->cuda) < 0 ? row : first;
        }
    }
    *ret_oldest = first == oldest;
    return first;
}

/* The last toolkit that compiles for an architecture, and the one behind it: NULL if none is known.
 */
static const struct kb_toolkit *last_toolkit(const struct kb_toolkits *t, const char *sm,
                                             const struct kb_toolkit **ret_next)
{
    const struct kb_toolkit *last = NULL, *next = NULL;
    for (size_t i = 0; i < t->n; i++) {
        const struct kb_toolkit *row = &t->rows[i];
        if (ask_has_text(row->sm, sm)) {
            last = !last || ask_compare(row->cuda, last->cuda) > 0 ? row : last;
        }
    }
    for (size_t i = 0; last && i < t->n; i++) {
        const struct kb_toolkit *row = &t->rows[i];
        if (ask_compare(row->cuda, last->cuda) > 0) {
            next = !next || ask_compare(row->cuda, next->cuda) < 0 ? row : next;
        }
    }
    *ret_next = next;
    return last;
}

/* The driver that goes with a toolkit's first release. */
static const struct kb_driver *driver_of_toolkit(const struct kb_drivers *d, const char *cuda)
{
    for (size_t i = 0; i < d->n; i++) {
        if (d->rows[i].kind == KB_DRIVER_TOOLKIT && ask_within(d->rows[i].cuda, cuda)) {
            return &d->rows[i];
        }
    }
    return NULL;
}

static int say_first_toolkit(struct ask *k, const struct kb_toolkits *t, const char *sm)
{
    bool oldest;
    const struct kb_toolkit *first = ask_first_toolkit(t, sm, &oldest);
    HIT(k, KB_AREA_TOOLKITS, first);
    bool must = k->q->said & (SAID_FIRST | SAID_ADDED) || k->q->asked & ASKED_PTX;
    if (oldest && must) {
        ask_missing(k, "CUDA %s, the oldest that was read, compiles for %s already", first->cuda,
                    sm);
        return 0;
    }
    if (oldest) {
        return 1;
    }
    if (k->q->asked & ASKED_PTX) {
        ask_say(k, "PTX ISA %s, that of CUDA %s, is the first for %s.", first->ptx, first->cuda,
                sm);
    } else {
        ask_say(k, "CUDA %s is the first that compiles for %s.", first->cuda, sm);
    }
    return 1;
}

static int say_last_toolkit(struct ask *k, const struct kb_toolkits *t, const char *sm)
{
    const struct kb_toolkit *next, *last = last_toolkit(t, sm, &next);
    HIT(k, KB_AREA_TOOLKITS, last);
    if (next) {
        HIT(k, KB_AREA_TOOLKITS, next);
        ask_say(k, "CUDA %s is the last that compiles for %s; CUDA %s dropped it.", last->cuda, sm,
                next->cuda);
    } else if (k->q->said & SAID_DROPPED) {
        ask_say(k, "None that was read dropped %s: CUDA %s, the newest, compiles for it.", sm,
                last->cuda);
    } else {
        ask_say(k, "CUDA %s, the newest known here, compiles for %s.", last->cuda, sm);
    }
    return 1;
}

/* "which driver does an RTX 5090 need": the one of the first toolkit for it. */
static int say_first_driver(struct ask *k, const struct kb_toolkits *t, const char *sm,
                            struct gm_err *err)
{
    struct kb_drivers d;
    bool oldest;
    const struct kb_toolkit *first = ask_first_toolkit(t, sm, &oldest);
    int rc = kb_drivers(k->kb, &d, err);
    const struct kb_driver *driver = rc < 0 || oldest ? NULL : driver_of_toolkit(&d, first->cuda);
    if (!driver) {
        return rc;
    }
    HIT(k, KB_AREA_TOOLKITS, first);
    HIT(k, KB_AREA_DRIVERS, driver);
    ask_say(k, "CUDA %s, the first that compiles for %s, goes with Linux driver %s or later%s%s%s.",
            first->cuda, sm, driver->linux_min, driver->windows_min ? " (Windows " : "",
            driver->windows_min ? driver->windows_min : "", driver->windows_min ? ")" : "");
    return 1;
}

/* What is asked of the toolkits for one architecture. */
static int say_toolkits_of(struct ask *k, const struct kb_toolkits *t, const char *capability,
                           struct gm_err *err)
{
    bool oldest;
    int number = ask_arch_number(capability);
    const char *sm = arena_printf(k->a, "sm_%d", number);
    if (number == 0 || !ask_first_toolkit(t, sm, &oldest)) {
        return 0;
    }
    if (k->q->asked & ASKED_DRIVER) {
        return say_first_driver(k, t, sm, err);
    }
    bool only_last = k->q->said & (SAID_LAST | SAID_DROPPED);
    bool only_first = k->q->said & (SAID_FIRST | SAID_ADDED) || k->q->asked & ASKED_PTX;
    int rc = only_last && !only_first ? 1 : say_first_toolkit(k, t, sm);
    return rc == 1 && (!only_first || only_last) ? say_last_toolkit(k, t, sm) : rc;
}

/* Each architecture of a generation, of cards and not of modules. */
static int say_toolkits_of_generation(struct ask *k, const struct kb_toolkits *t,
                                      struct gm_err *err)
{
    struct question_values sms;
    int rc = architectures_asked(k, &sms, err);
    for (size_t i = 0; rc >= 0 && i < sms.n; i++) {
        rc = say_toolkits_of(k, t, sms.items[i], err);
        if (rc <= 0) {
            return rc;
        }
    }
    return rc < 0 ? rc : sms.n > 0;
}

/* "which toolkit compiles for sm_90": the first and the last of the rows. */
int form_toolkits_of_sm(struct ask *k, struct gm_err *err)
{
    struct kb_toolkits t;
    struct ask_arch arch;
    const char *generation = ask_given(k, KEY_GENERATION);
    int rc = kb_toolkits(k->kb, &t, err);
    rc = rc < 0 ? rc : ask_arch_find(k, &arch, err);
    if (rc < 0 || k->missing || arch.gfx || (arch.sm && generation)) {
        return rc < 0 ? rc : 0;
    }
    return arch.sm      ? say_toolkits_of(k, &t, arch.sm, err)
           : generation ? say_toolkits_of_generation(k, &t, err)
                        : 0;
}

/* "which CUDA has PTX ISA 8.5" */
int form_toolkits_of_ptx(struct ask *k, struct gm_err *err)
{
    struct kb_toolkits t;
    const char *ptx = ask_given(k, KEY_PTX), *list = "";
    const struct kb_toolkit *first = NULL, *last = NULL;
    int rc = kb_toolkits(k->kb, &t, err);
    for (size_t i = 0; rc == 0 && i < t.n; i++) {
        const struct kb_toolkit *row = &t.rows[i];
        if (!ask_within(row->ptx, ptx)) {
            continue;
        }
        HIT(k, KB_AREA_TOOLKITS, row);
        first = !first || ask_compare(row->cuda, first->cuda) < 0 ? row : first;
        last = !last || ask_compare(row->cuda, last->cuda) > 0 ? row : last;
        list = arena_printf(k->a, "%s%s%s", list, list[0] ? ", " : "", row->cuda);
    }
    if (rc < 0 || !first) {
        return rc;
    }
    const struct kb_toolkit *one = k->q->said & SAID_LAST    ? last
                                   : k->q->said & SAID_FIRST ? first
                                                             : NULL;
    if (one) {
        ask_say(k, "CUDA %s is the %s of the toolkits that were read with PTX ISA %s.", one->cuda,
                one == first && !(k->q->said & SAID_LAST) ? "first" : "last", ptx);
    } else {
        ask_say(k, "PTX ISA %s is that of CUDA %s.", ptx, list);
    }
    return 1;
}

/* ------------------------------------------------------------------ cuDNN */

static void say_cudnn_packages(struct ask *k, const struct kb_releases *r)
{
    const char *cudnn = ask_given(k, KEY_CUDNN);
    const struct kb_release *newest[3] = {NULL, NULL, NULL};
    static const char *const packages[] = {"nvidia-cudnn-cu11", "nvidia-cudnn-cu12",
                                           "nvidia-cudnn-cu13"};
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_release *row = &r->rows[i];
        for (size_t p = 0; p < 3; p++) {
            if (strcmp(row->package, packages[p]) == 0 && ask_within(row->version, cudnn) &&
                (!newest[p] || ask_compare(row->version, newest[p]->version) > 0)) {
                newest[p] = row;
            }
        }
    }
    for (size_t p = 0; p < 3; p++) {
        if (newest[p]) {
            HIT(k, KB_AREA_RELEASES, newest[p]);
            ask_say(k, "cuDNN %s is published for CUDA %s as %s %s.", cudnn, packages[p] + 15,
                    packages[p], newest[p]->version);
        }
    }
}

static void say_cudnn_members(struct ask *k, const struct kb_families *f)
{
    const char *id = arena_printf(k->a, "cudnn-%s", ask_major(k, ask_given(k, KEY_CUDNN)));
    for (size_t i = 0; i < f->n; i++) {
        const struct kb_family *row = &f->rows[i];
        if (strcmp(row->id, id) == 0) {
            HIT(k, KB_AREA_FAMILIES, row);
            ask_say(k, "%s consists of %s.", row->title, ask_joined(k->a, row->members));
        }
    }
}

/* Whether a matrix has the GPUs of the question: a capability, or all of a generation. */
static enum py_answer cudnn_has_gpu(struct ask *k, const struct kb_cudnn *row, const char *sm,
                                    const struct kb_gpus *gpus)
{
    const char *generation = ask_given(k, KEY_GENERATION);
    if (sm) {
        return ask_has_text(row->sm, sm) ? PY_YES : PY_NO;
    }
    for (size_t i = 0; generation && i < gpus->n; i++) {
        const struct kb_gpu *g = &gpus->rows[i];
        if (strcmp(g->generation, generation) == 0 && g->kind == KB_GPU_CARD && g->capability &&
            ask_has_text(row->sm, g->capability)) {
            return PY_YES;
        }
    }
    return generation ? PY_NO : PY_YES;
}

static bool cudnn_named(struct ask *k, const struct kb_cudnn *row)
{
    const char *cuda = ask_given(k, KEY_CUDA);
    return ask_within(row->cudnn, ask_given(k, KEY_CUDNN)) &&
           (!cuda ||
            (strchr(cuda, '.') ? ask_has_text(row->cuda, cuda) : atoi(cuda) == row->cuda_major));
}

/* Names the nearest that were read. */
static void say_matrix_not_read(struct ask *k, const struct kb_cudnns *c)
{
    const char *given = ask_given(k, KEY_CUDNN), *below = NULL, *above = NULL;
    for (size_t i = 0; i < c->n; i++) {
        const char *cudnn = c->rows[i].cudnn;
        if (ask_compare(cudnn, given) < 0) {
            below = !below || ask_compare(cudnn, below) > 0 ? cudnn : below;
        } else {
            above = !above || ask_compare(cudnn, above) < 0 ? cudnn : above;
        }
    }
    ask_missing(k, "the support matrix of cuDNN %s was not read; the nearest that were: %s%s%s",
                given, below ? below : "", below && above ? " and " : "", above ? above : "");
}

/* "does cuDNN 9.10.2 still list Pascal" */
static int say_cudnn_does(struct ask *k, const struct kb_cudnns *c, const char *sm,
                          const struct kb_gpus *gpus)
{
    const struct kb_cudnn *seen = NULL, *with = NULL;
    const char *cuda = ask_given(k, KEY_CUDA), *generation = ask_given(k, KEY_GENERATION);
    for (size_t i = 0; i < c->n; i++) {
        const struct kb_cudnn *row = &c->rows[i];
        if (!ask_within(row->cudnn, ask_given(k, KEY_CUDNN))) {
            continue;
        }
        seen = row;
        with =
            cudnn_named(k, row) && cudnn_has_gpu(k, row, sm, gpus) == PY_YES && !with ? row : with;
    }
    const char *given = ask_given(k, KEY_CUDNN);
    if (!seen) {
        say_matrix_not_read(k, c);
        return 0;
    }
    if (!with && !strchr(given, '.')) { // releases of a major differ in this
        ask_missing(k, "no support matrix of cuDNN %s that was read says so", given);
        return 0;
    }
    const struct kb_cudnn *row = with ? with : seen;
    HIT(k, KB_AREA_CUDNNS, row);
    ask_say(k, "%s: the support matrix of cuDNN %s %s%s%s%s%s.%s%s", with ? "Yes" : "No",
            row->cudnn, with ? "lists " : "does not list ",
            sm           ? arena_printf(k->a, "compute capability %s", sm)
            : generation ? generation
                         : "",
            (sm || generation) && cuda ? " with " : "", cuda ? "CUDA " : "", cuda ? cuda : "",
            with && row->origin.note ? " " : "", with && row->origin.note ? row->origin.note : "");
    return 1;
}

static void add_cudnn(struct ask *k, struct ask_table *t, const struct kb_cudnn *row)
{
    HIT(k, KB_AREA_CUDNNS, row);
    struct ask_line line = {
        .cells = {arena_printf(k->a, "cuDNN %s for CUDA %d", row->cudnn, row->cuda_major),
                  ask_joined(k->a, row->cuda), row->linux_min, row->windows_min,
                  ask_joined(k->a, row->sm)}};
    VEC_PUSH(k->a, &t->lines, line);
}

/* "which CUDA does cuDNN 9.17 support", "what does cuDNN 9.10.2 need for sm_120" */
int form_cudnn(struct ask *k, struct gm_err *err)
{
    struct kb_cudnns c;
    struct kb_releases r;
    struct kb_families f;
    struct kb_gpus gpus;
    struct ask_arch arch;
    struct ask_table t = {.heads = {"cuDNN", "CUDA", "Linux driver from", "Windows driver from",
                                    "compute capability"},
                          .columns = 5,
                          .named = 1};
    int rc = kb_cudnns(k->kb, &c, err);
    rc = rc < 0 ? rc : kb_releases(k->kb, &r, err);
    rc = rc < 0 ? rc : kb_families(k->kb, &f, err);
    rc = rc < 0 ? rc : kb_gpus(k->kb, &gpus, err);
    rc = rc < 0 ? rc : ask_arch_find(k, &arch, err);
    if (rc < 0 || k->missing || arch.gfx) {
        return rc < 0 ? rc : 0;
    }
    bool gpu = arch.sm || ask_given(k, KEY_GENERATION);
    if (k->q->asked & ASKED_PARTS) {
        size_t before = k->answer->hits.n;
        say_cudnn_members(k, &f);
        return k->answer->hits.n > before;
    }
    if (k->q->said & SAID_DOES) {
        return gpu || ask_given(k, KEY_CUDA) ? say_cudnn_does(k, &c, arch.sm, &gpus) : 0;
    }
    for (size_t i = 0; i < c.n; i++) {
        if (cudnn_named(k, &c.rows[i]) && cudnn_has_gpu(k, &c.rows[i], arch.sm, &gpus) == PY_YES) {
            add_cudnn(k, &t, &c.rows[i]);
        }
    }
    size_t before = k->answer->hits.n;
    if (t.lines.n > 0) {
        ask_say_table(
            k, arena_printf(k->a, "Support matrices of cuDNN %s", ask_given(k, KEY_CUDNN)), &t);
    }
    if (!(k->q->asked & (ASKED_DRIVER | ASKED_ARCH)) && !gpu) {
        say_cudnn_packages(k, &r);
    }
    if (t.lines.n == 0 && k->answer->hits.n == before) {
        say_matrix_not_read(k, &c);
    }
    return t.lines.n > 0 || k->answer->hits.n > before;
}

static int older_cudnn_first(const void *one, const void *two)
{
    const struct kb_cudnn *const *a = one, *const *b = two;
    return ask_compare((*a)->cudnn, (*b)->cudnn);
}

/* "which cuDNN goes with CUDA 12.4": of the support matrices that were read. */
int form_cudnn_of_cuda(struct ask *k, struct gm_err *err)
{
    struct kb_cudnns c;
    struct ask_arch arch;
    const char *cuda = ask_given(k, KEY_CUDA), *list = "", *first = NULL, *last = NULL;
    int rc = kb_cudnns(k->kb, &c, err);
    rc = rc < 0 ? rc : ask_arch_find(k, &arch, err);
    if (rc < 0 || k->missing || arch.gfx) {
        return rc < 0 ? rc : 0;
    }
    VEC(const struct kb_cudnn *) rows = {0};
    for (size_t i = 0; i < c.n; i++) {
        const struct kb_cudnn *row = &c.rows[i];
        bool has = true;
        if (cuda) {
            has = strchr(cuda, '.') ? ask_has_text(row->cuda, cuda) : atoi(cuda) == row->cuda_major;
        }
        if (has && (!arch.sm || ask_has_text(row->sm, arch.sm))) {
            VEC_PUSH(k->a, &rows, row);
        }
    }
    if (rows.n > 0) {
        qsort(rows.items, rows.n, sizeof *rows.items, older_cudnn_first);
    }
    for (size_t i = 0; i < rows.n; i++) {
        const char *version = rows.items[i]->cudnn;
        HIT(k, KB_AREA_CUDNNS, rows.items[i]);
        if (!last || strcmp(version, last) != 0) {
            list = arena_printf(k->a, "%s%s%s", list, list[0] ? ", " : "", version);
        }
        first = first ? first : version;
        last = version;
    }
    if (!first) {
        return 0;
    }
    const char *what = cuda ? arena_printf(k->a, "CUDA %s", cuda) : "";
    what = arch.sm
               ? arena_printf(k->a, "%s%scompute capability %s", what, cuda ? " for " : "", arch.sm)
               : what;
    if (k->q->said & (SAID_FIRST | SAID_LAST)) {
        ask_say(k,
                "Of the support matrices that were read that of cuDNN %s is the %s that lists %s.",
                k->q->said & SAID_FIRST ? first : last,
                k->q->said & SAID_FIRST ? "first" : "newest", what);
    } else {
        ask_say(k, "Of the support matrices that were read those of cuDNN %s list %s.", list, what);
    }
    return 1;
}
