/* Which releases an asker may become, and which sets of versions the solver finds for it. */
#include <string.h>

#include "plan/knowledge.h"
#include "plan/packages.h"
#include "py/dist.h"

const char *plan_packages_imports_a_server(struct planner *p, const char *name, const char *version,
                                           const char *library)
{
    const struct kb_imports *rows = &p->m->imports;
    for (size_t i = 0; i < rows->n; i++) {
        const struct kb_import *row = &rows->rows[i];
        bool it =
            strcmp(row->package, name) == 0 && model_version_fits(p->a, row->versions, version);
        for (size_t s = 0; it && s < row->n_steps; s++) {
            const char *other = row->steps[s].kind == KB_STEP_IMPORT ? row->steps[s].package : NULL;
            const struct plan_solve_release *r =
                other ? plan_knowledge_package(&p->k, other)->solve.installed : NULL;
            for (size_t n = 0; r && n < r->n_needs; n++) {
                if (strcmp(r->needs[n].package, library) == 0) {
                    return other;
                }
            }
        }
    }
    return NULL;
}

static bool is_served_by_imports(struct planner *p, const struct asker *x,
                                 const struct plan_solve_release *r)
{
    for (size_t i = 0; i < r->n_needs; i++) {
        if (starts_with(r->needs[i].package, "nvidia-") &&
            !plan_packages_imports_a_server(p, x->name, r->version, r->needs[i].package)) {
            return false;
        }
    }
    return true;
}

static bool release_is_newer_than(const struct plan_solve_release *r,
                                  const struct plan_solve_release *than)
{
    struct py_version a, b;
    return py_version_parse(str_of(r->version), &a) &&
           py_version_parse(str_of(than->version), &b) && py_version_cmp(&a, &b) > 0;
}

/* Older releases count only where no newer one helps. */
static bool is_a_way_out(struct planner *p, const struct asker *x,
                         const struct plan_solve_release *r, bool any)
{
    const struct kb_compat *c = plan_knowledge_compat(&p->k, x->name, r->version);
    return any || (release_is_newer_than(r, x->p->solve.installed) &&
                   (x->must_move || (x->cudnn && c && !c->cudnn)));
}

/* Where some releases are known to have code for the GPUs, those of which it is not known are no
 * way out. */
static bool some_surely_run(struct planner *p, const struct asker *x, bool any)
{
    const struct plan_solve_package *s = &x->p->solve;
    for (size_t i = 0; x->must_move && i < s->n_releases; i++) {
        if (is_a_way_out(p, x, &s->releases[i], any) &&
            plan_knowledge_surely_runs(&p->k, x->name, s->releases[i].version)) {
            return true;
        }
    }
    return false;
}

/* Releases that need no folder made findable come first, each half newest first. */
static void find_moves(struct planner *p, struct asker *x, bool any)
{
    const struct plan_solve_package *s = &x->p->solve;
    bool sure = some_surely_run(p, x, any);
    VEC(struct plan_solve_release) out = {0};
    for (int second = 0; second < 2; second++) {
        for (size_t i = 0; i < s->n_releases; i++) {
            const struct plan_solve_release *r = &s->releases[i];
            if (is_a_way_out(p, x, r, any) && is_served_by_imports(p, x, r) == !second &&
                (!sure || plan_knowledge_surely_runs(&p->k, x->name, r->version))) {
                VEC_PUSH(p->a, &out, *r);
            }
        }
    }
    x->moves = out.items;
    x->n_moves = out.n;
    x->why = x->must_move       ? "the installed build does not run on this machine"
             : x->cudnn && !any ? "this release needs no cuDNN"
                                : "the installed release does not fit the others and this machine";
}

static const struct plan_solve_package *plan_packages_find(void *arg, const char *name)
{
    return &plan_knowledge_package(arg, name)->solve;
}

static void note_contradictions(struct planner *p, const struct plan_solve_answer *answer)
{
    for (size_t i = 0; i < answer->contradictions.n; i++) {
        bool known = false;
        for (size_t k = 0; k < p->against.n; k++) {
            known = known || strcmp(p->against.items[k], answer->contradictions.items[i]) == 0;
        }
        if (!known) {
            VEC_PUSH(p->a, &p->against, answer->contradictions.items[i]);
        }
    }
    if (answer->outcome == PLAN_SOLVE_BOUND) {
        VEC_PUSH(p->a, &p->against, "no set of versions was found within the bounds of the search");
    }
}

typedef VEC(struct plan_solve_need) need_list;

static bool is_needed(const need_list *needs, const char *package)
{
    for (size_t i = 0; i < needs->n; i++) {
        if (strcmp(needs->items[i].package, package) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_installed_by(const struct planner *p, const struct plan_solve_answer *answer,
                            const char *package)
{
    for (size_t i = 0; i < answer->changes.n; i++) {
        if (strcmp(answer->changes.items[i].package->name, package) == 0) {
            return true;
        }
    }
    return py_env_by_dist(p->m->env, package) != NULL;
}

/* Adds what the libraries that come open by name and nothing brings; false if there is nothing. It
 * is no need of one release, since an older one without it would be preferred then, which may not
 * know a newer GPU. */
static bool needs_opened(struct planner *p, const struct plan_solve_answer *answer,
                         need_list *needs)
{
    size_t before = needs->n;
    for (size_t i = 0; i < answer->changes.n; i++) {
        const struct plan_solve_change *c = &answer->changes.items[i];
        diag_opened_list opened = {0};
        if (plan_knowledge_folder(&p->k, c->package->name)) {
            opened = diag_opened_by(p->m, c->package->name, c->release->version);
        }
        for (size_t n = 0; n < opened.n; n++) {
            const struct diag_opened *o = &opened.items[n];
            const struct kb_provide *row = NULL;
            struct plan_solve_need need;
            (void)plan_knowledge_provider(&p->k, o->name, -1, &row);
            const char *set = row && strstr(o->package, "nvrtc")
                                  ? plan_packages_nvrtc_set(p, NULL, row->cuda_major)
                                  : NULL;
            const char *source = arena_printf(p->a, "knowledge base, dlopen/%s: %s opens %s",
                                              o->row, o->by, o->name);
            if (!is_needed(needs, o->package) && !is_installed_by(p, answer, o->package) &&
                !plan_knowledge_served_otherwise(&p->k, o->package) &&
                plan_solve_need_init(p->a, o->package, set, source, &need)) {
                need.strict = need.files = true;
                VEC_PUSH(p->a, needs, need);
            }
        }
    }
    return needs->n > before;
}

static void solve_for(struct planner *p, unsigned moved)
{
    struct plan_solve_goal goals[ASKERS_MAX];
    for (size_t i = 0; i < p->askers.n; i++) {
        const struct asker *x = &p->askers.items[i];
        bool moves = moved >> i & 1;
        if (moves ? !x->n_moves : x->must_move) {
            return;
        }
        goals[i] = (struct plan_solve_goal){&x->p->solve, !moves, x->moves, x->n_moves, x->why};
    }
    struct plan_solve_problem problem = {.find = plan_packages_find,
                                         .arg = &p->k,
                                         .installed = p->k.installed.items,
                                         .n_installed = p->k.installed.n,
                                         .goals = goals,
                                         .n_goals = p->askers.n};
    struct found f = {.moved = moved};
    need_list needs = {0};
    for (size_t i = 0; i < p->needs.n; i++) {
        VEC_PUSH(p->a, &needs, p->needs.items[i]);
    }
    do {
        problem.needs = needs.items;
        problem.n_needs = needs.n;
        f.answer = (struct plan_solve_answer){0};
        solve(p->a, &problem, &f.answer);
    } while (f.answer.outcome == PLAN_SOLVE_FOUND && needs_opened(p, &f.answer, &needs));
    if (f.answer.outcome != PLAN_SOLVE_FOUND) {
        note_contradictions(p, &f.answer);
    } else if (f.answer.changes.n) {
        VEC_PUSH(p->a, &p->found, f);
    }
}

void plan_packages_solve_all(struct planner *p, bool any)
{
    for (size_t i = 0; i < p->askers.n; i++) {
        find_moves(p, &p->askers.items[i], any);
    }
    for (unsigned moved = 0; moved < 1U << p->askers.n; moved++) {
        solve_for(p, moved);
    }
}

/* Whether every package that `a` changes is changed by `b` too. */
static bool is_part_of(const struct found *a, const struct found *b)
{
    for (size_t i = 0; i < a->answer.changes.n; i++) {
        bool there = false;
        for (size_t k = 0; k < b->answer.changes.n && !there; k++) {
            there = a->answer.changes.items[i].package == b->answer.changes.items[k].package;
        }
        if (!there) {
            return false;
        }
    }
    return true;
}

/* An answer that changes all that another one changes, and more, is none. */
bool plan_packages_is_dominated(const struct planner *p, size_t index)
{
    const struct found *f = &p->found.items[index];
    for (size_t i = 0; i < p->found.n; i++) {
        const struct found *o = &p->found.items[i];
        if (i != index && is_part_of(o, f) && (!is_part_of(f, o) || i < index)) {
            return true;
        }
    }
    return false;
}
