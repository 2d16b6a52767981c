/* From findings to ways, and their order. */
#include <stdlib.h>
#include <string.h>

#include "plan/internal.h"

const char *plan_step_name(enum plan_step_kind kind)
{
    static const char *const names[] = {
        [PLAN_SET_ENV] = "env",       [PLAN_PRELOAD] = "preload", [PLAN_SHADOW] = "shadow",
        [PLAN_LINK] = "link",         [PLAN_HOOK] = "hook",       [PLAN_EDIT_ELF] = "edit",
        [PLAN_PACKAGES] = "packages", [PLAN_TEXT] = "text"};
    return names[kind];
}

const char *plan_reach_name(enum plan_reach reach)
{
    static const char *const names[] = {[PLAN_FOR_ONE_START] = "start",
                                        [PLAN_FILES] = "files",
                                        [PLAN_PIP] = "packages",
                                        [PLAN_BY_HAND] = "hand"};
    return names[reach];
}

/* ------------------------------------------------------------------ order */

static size_t mended(const struct plan_way *way, enum diag_severity severity)
{
    size_t n = 0;
    for (size_t i = 0; i < way->mends.n; i++) {
        n += way->mends.items[i]->severity == severity;
    }
    return n;
}

size_t plan_way_errors(const struct plan_way *way)
{
    return mended(way, DIAG_ERROR);
}

size_t plan_way_worth(const struct plan *plan, const struct plan_way *way)
{
    return mended(way, plan->for_warnings ? DIAG_WARNING : DIAG_ERROR);
}

int plan_select(struct plan *plan, size_t number, struct gm_err *err)
{
    if (number == 0 || plan->ways.n == 0) {
        return 0;
    }
    if (number > plan->ways.n) {
        return gm_err_set(err, GM_ERR_USAGE, "there is no repair %zu; there are %zu", number,
                          plan->ways.n);
    }
    plan->ways.items += number - 1;
    plan->ways.n = 1;
    return 0;
}

/* Whether `a` goes before `b`: reach, then errors mended, then warnings left, then all mended. */
static bool goes_before(const struct plan_way *a, const struct plan_way *b)
{
    if (a->reach != b->reach) {
        return a->reach < b->reach;
    }
    if (plan_way_errors(a) != plan_way_errors(b)) {
        return plan_way_errors(a) > plan_way_errors(b);
    }
    return a->leaves.n != b->leaves.n ? a->leaves.n < b->leaves.n : a->mends.n > b->mends.n;
}

/* Stable: ways of one rank stay in the order in which they were found, the milder first. */
static void put_in_order(struct plan *plan)
{
    for (size_t i = 1; i < plan->ways.n; i++) {
        for (size_t k = i; k > 0; k--) {
            struct plan_way *a = &plan->ways.items[k - 1], *b = &plan->ways.items[k];
            if (!goes_before(b, a)) {
                break;
            }
            struct plan_way moved = *a;
            *a = *b;
            *b = moved;
        }
    }
}

/* Whether `a`, tried and no more invasive, mends every error that `b` mends, and another one. */
static bool outdoes(const struct plan_way *a, const struct plan_way *b)
{
    for (size_t i = 0; i < b->mends.n; i++) {
        if (b->mends.items[i]->severity == DIAG_ERROR && !plan_way_mends(a, b->mends.items[i])) {
            return false;
        }
    }
    return !a->unproved && a->reach <= b->reach && plan_way_errors(a) > plan_way_errors(b);
}

/* Half a repair is not offered where a whole one is: it would be taken for one. What a person does,
 * and packages, stay: they may be combined. */
static void drop_halves(struct arena *a, struct plan *plan)
{
    struct plan all = *plan;
    plan->ways.items = NULL;
    plan->ways.n = plan->ways.cap = 0;
    for (size_t i = 0; i < all.ways.n; i++) {
        const struct plan_way *way = &all.ways.items[i];
        bool half = false;
        for (size_t k = 0; k < all.ways.n && !way->unproved; k++) {
            half |= outdoes(&all.ways.items[k], way);
        }
        if (!half) {
            VEC_PUSH(a, &plan->ways, *way);
        }
    }
}

const struct plan_way *plan_hook_way(const struct plan *plan)
{
    for (size_t i = 0; i < plan->ways.n; i++) {
        const struct plan_way *way = &plan->ways.items[i];
        if (way->steps.n == 1 && way->steps.items[0].kind == PLAN_HOOK) {
            return way;
        }
    }
    return NULL;
}

bool plan_way_is_better(const struct plan *plan, const struct plan_way *way,
                        const struct plan_way *best)
{
    size_t worth = plan_way_worth(plan, way), other = best ? plan_way_worth(plan, best) : 0;
    return !best || worth > other ||
           (worth == other && way->reach == best->reach && way->n_coming > best->n_coming);
}

const struct plan_way *plan_best(const struct plan *plan, enum plan_reach reach)
{
    const struct plan_way *best = NULL;
    for (size_t i = 0; i < plan->ways.n; i++) {
        const struct plan_way *way = &plan->ways.items[i];
        if (way->reach == reach && plan_way_is_better(plan, way, best)) {
            best = way;
        }
    }
    return best;
}

/* ------------------------------------------------------------------ what cannot be done */

static void say_secure(struct plan_work *x, const struct ldso_process *p)
{
    if (p->secure) {
        plan_cannot(x, "LD_LIBRARY_PATH and LD_PRELOAD of %s: %s.", p->main->path, p->secure_why);
    }
    if (p->loader.kind == LDSO_MUSL) {
        plan_cannot(x, "%s uses musl: no search path makes libraries for glibc run with it.",
                    p->main->path);
    }
    if (p->is_static) {
        plan_cannot(x,
                    "%s is a static program: it searches for no library, so no variable and no "
                    "preload changes anything.",
                    p->main->path);
    }
}

/* Whether other starts can be tried at all. */
static bool can_replay(struct plan_work *x)
{
    size_t modelled = 0;
    if (x->m->pid) {
        plan_cannot(x,
                    "Process %d runs already: nothing of its start can be changed. Plan for its "
                    "program and start it again.",
                    x->m->pid);
        return false;
    }
    for (size_t i = 0; i < x->m->processes.n; i++) {
        const struct ldso_process *p = x->m->processes.items[i]->ldso;
        modelled += p && !p->is_static && p->loader.kind != LDSO_MUSL;
        if (p) {
            say_secure(x, p);
        }
    }
    return modelled > 0;
}

/* ------------------------------------------------------------------ by hand */

static bool is_mended_by_packages(const struct plan_work *x, const struct diag_finding *f)
{
    for (size_t i = 0; i < x->plan->ways.n; i++) {
        const struct plan_way *way = &x->plan->ways.items[i];
        if (way->reach == PLAN_PIP && plan_way_mends(way, f)) {
            return true;
        }
    }
    return false;
}

/* What only a person can do, in the words of the finding: each repair is a way of its own. */
static void plan_by_hand(struct plan_work *x, const struct diag_finding *f)
{
    for (size_t i = 0; i < f->repairs.n; i++) {
        const struct diag_repair *r = &f->repairs.items[i];
        struct diag_variable v;
        bool advice = f->severity != DIAG_ERROR && !r->command;
        if (diag_repair_variable(x->a, r, &v) || advice ||
            (r->kind == DIAG_REPAIR_PACKAGE && is_mended_by_packages(x, f))) {
            continue;
        }
        struct plan_way *way = plan_way_new(x, PLAN_BY_HAND, r->text);
        VEC_PUSH(x->a, &way->steps,
                 (struct plan_step){.kind = PLAN_TEXT, .text = r->text, .command = r->command});
        VEC_PUSH(x->a, &way->mends, f);
        way->unproved = "it is done outside of what the model can try";
        plan_way_add(x, way);
    }
}

static void say_what_is_left(struct plan_work *x)
{
    for (size_t i = 0; i < x->report->findings.n; i++) {
        const struct diag_finding *f = x->report->findings.items[i];
        bool mended = f->severity != DIAG_ERROR;
        for (size_t k = 0; k < x->plan->ways.n && !mended; k++) {
            mended = plan_way_mends(&x->plan->ways.items[k], f);
        }
        if (!mended) {
            VEC_PUSH(x->a, &x->plan->left, f);
        }
    }
}

/* What is half done is taken back first: a plan for such files would be one for files that go. */
static bool plan_journal(struct plan_work *x)
{
    bool any = false;
    for (size_t i = 0; i < x->report->findings.n; i++) {
        const struct diag_finding *f = x->report->findings.items[i];
        if (f->cause == DIAG_REPAIR_INTERRUPTED) {
            plan_by_hand(x, f);
            any = true;
        }
    }
    if (any) {
        plan_cannot(x, "Nothing else is planned until the interrupted repair is undone.");
    }
    return any;
}

/* ------------------------------------------------------------------ the plan */

static bool find_failing(struct plan_work *x)
{
    bool any = false;
    x->failing = arena_array(x->a, x->m->processes.n + 1, sizeof *x->failing);
    for (size_t i = 0; i < x->report->findings.n; i++) {
        const struct diag_finding *f = x->report->findings.items[i];
        for (size_t k = 0; k < x->m->processes.n && f->severity != DIAG_NOTE; k++) {
            x->failing[k] |= diag_shows_in(x->m, f, x->m->processes.items[k]);
        }
        any |= f->severity != DIAG_NOTE;
    }
    return any;
}

/* Whether a way that was found and proved mends every error. */
static bool mends_all_errors(const struct plan_work *x)
{
    bool all = false;
    for (size_t i = 0; i < x->plan->ways.n && !all; i++) {
        const struct plan_way *way = &x->plan->ways.items[i];
        all = !way->unproved && plan_way_errors(way) == diag_count(x->report, DIAG_ERROR);
    }
    return all;
}

static void plan_what_can_be_tried(struct plan_work *x)
{
    struct plan_set set, shadowed;
    plan_find_preloads(x, &set, &shadowed);
    plan_add_environment(x, &set.paths);
    if (!x->o->first || !mends_all_errors(x)) {
        plan_add_preload(x, &set);
        plan_add_preload(x, &shadowed);
    }
    if (!x->o->launch_only) {
        plan_add_links(x);
    }
    if (!x->o->launch_only || x->o->hook) {
        plan_add_hook(x, &set.paths);
    }
    if (!x->o->launch_only) {
        plan_add_edit(x);
    }
}

void plan_make(struct model *m, const struct diag_report *report, const struct plan_options *o,
               struct plan *ret)
{
    *ret = (struct plan){.for_warnings = diag_count(report, DIAG_ERROR) == 0};
    struct plan_work x = {.m = m, .a = m->arena, .report = report, .o = o, .plan = ret};
    if (!find_failing(&x)) {
        return;
    }
    if (!o->launch_only && plan_journal(&x)) {
        return;
    }
    if (can_replay(&x)) {
        plan_what_can_be_tried(&x);
    }
    if (!o->launch_only) {
        plan_add_packages(m, report, ret);
    }
    for (size_t i = 0; i < report->findings.n && !o->launch_only; i++) {
        if (report->findings.items[i]->severity != DIAG_NOTE) {
            plan_by_hand(&x, report->findings.items[i]);
        }
    }
    drop_halves(x.a, ret);
    put_in_order(ret);
    say_what_is_left(&x);
}
