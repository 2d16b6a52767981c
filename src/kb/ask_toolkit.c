/* CUDA toolkits: what they compile for, and which came first and last for a GPU or for PTX. */
#include <string.h>

#include "kb/ask.h"

int ask_architectures(struct ask *k, struct question_values *ret, struct gm_err *err)
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
    struct ask_range range = {0};
    *ret_n = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct kb_toolkit *row = &t->rows[i];
        if (ask_meets(row->cuda, ask_given(k, KEY_CUDA)) && ask_has_text(row->sm, sm) == wanted) {
            ask_range_add(&range, row->cuda, row->cuda);
            (*ret_n)++;
        }
    }
    const char *text = ask_range_text(k, &range);
    return text ? text : "";
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
    rc = rc < 0 || !ask_given(k, KEY_GENERATION) ? rc : ask_architectures(k, &sms, err);
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
const struct kb_driver *ask_driver_of_toolkit(const struct kb_drivers *d, const char *cuda)
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
    const struct kb_driver *driver =
        rc < 0 || oldest ? NULL : ask_driver_of_toolkit(&d, first->cuda);
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
    int rc = ask_architectures(k, &sms, err);
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
