/*
 * Ways that change packages: from findings to what is asked of whom, from there through the solver
 * to sets of versions, and to the words.
 */
#include <string.h>

#include "base/env.h"
#include "plan/knowledge.h"
#include "plan/plan.h"
#include "py/dist.h"
#include "py/requirement.h"

enum { ASKERS_MAX = 4, WAYS_MAX = 4, ALTERNATIVES_MAX = 6, TITLE_MAX = 4 };

/* A distribution that something stops. */
struct asker {
    const char *name;
    struct plan_knowledge_package *p;
    bool cudnn; // it is cuDNN that it does not get: a release without it is a way out
    bool must_move;
    struct plan_solve_release *moves; // what it may become, the best first
    size_t n_moves;
    const char *why; // it moves
};

struct found {
    struct plan_solve_answer answer;
    unsigned moved; // askers, one bit each
};

struct planner {
    struct model *m;
    struct arena *a;
    struct plan *plan;
    const struct diag_report *report;
    struct plan_knowledge k;
    VEC(struct asker) askers;
    VEC(struct plan_solve_need) needs; // of programs that belong to no distribution
    VEC(const struct diag_finding *) findings;
    VEC(const struct diag_finding *) again; // mended by installing again what is there
    VEC(struct found) found;
    VEC(const char *) against; // contradictions
};

/* ------------------------------------------------------------------ what the findings ask for */

static bool has_package_repair(const struct diag_finding *f)
{
    for (size_t i = 0; i < f->repairs.n; i++) {
        if (f->repairs.items[i].kind == DIAG_REPAIR_PACKAGE) {
            return true;
        }
    }
    return false;
}

static const struct diag_repair *reinstall_of(const struct diag_finding *f)
{
    for (size_t i = 0; i < f->repairs.n; i++) {
        if (f->repairs.items[i].reinstall) {
            return &f->repairs.items[i];
        }
    }
    return NULL;
}

/* Findings about code and driver, that only another release of the package mends. */
static bool is_about_the_build(const struct diag_finding *f)
{
    return strcmp(f->class, "arch-unsupported") == 0 || strcmp(f->class, "driver-too-old") == 0;
}

static bool names_cudnn(const struct diag_finding *f)
{
    bool it = strstr(f->culprit, "cudnn") != NULL;
    for (size_t i = 0; i < f->likewise.n && !it; i++) {
        it = strstr(f->likewise.items[i], "cudnn") != NULL;
    }
    return it;
}

static struct asker *asker_of(struct planner *p, const char *name)
{
    name = py_name_normal(p->a, str_of(name));
    for (size_t i = 0; i < p->askers.n; i++) {
        if (strcmp(p->askers.items[i].name, name) == 0) {
            return &p->askers.items[i];
        }
    }
    const struct py_dist *dist = py_env_by_dist(p->m->env, name);
    if (!dist || !dist->version || p->askers.n == ASKERS_MAX) {
        return NULL;
    }
    plan_knowledge_asks(&p->k, name);
    VEC_PUSH(p->a, &p->askers,
             (struct asker){.name = name, .p = plan_knowledge_package(&p->k, name)});
    return &p->askers.items[p->askers.n - 1];
}

/* Whether what the release asks for, by its row or its metadata, includes the package. */
static bool asks_for(const struct asker *x, const char *package)
{
    const struct plan_solve_release *r = x->p->solve.installed;
    for (size_t i = 0; i < r->n_needs; i++) {
        if (r->needs[i].strict && strcmp(r->needs[i].package, package) == 0) {
            return true;
        }
    }
    return false;
}

static int cuda_major_of(struct planner *p, const struct asker *x)
{
    const struct kb_compat *c =
        x ? plan_knowledge_compat(&p->k, x->name, x->p->solve.installed->version) : NULL;
    return c ? c->cuda_major : -1;
}

/* What NVRTC makes is PTX of its toolkit, which an older driver refuses; and it must know the GPU.
 */
static const char *nvrtc_set(struct planner *p, const struct asker *x, int major)
{
    const struct kb_build *b =
        x ? plan_knowledge_build(&p->k, x->name, x->p->solve.installed->version) : NULL;
    int most = plan_knowledge_toolkit_of_driver(&p->k, major);
    int least = plan_knowledge_toolkit_of_gpus(&p->k, major);
    const char *set = least > 0 ? arena_printf(p->a, ">=%d.%d", major, least) : "";
    if (most >= 0) {
        return arena_printf(p->a, "%s%s<%d.%d", set, *set ? "," : "", major, most + 1);
    }
    return b && b->cuda && strchr(b->cuda, '.') ? arena_printf(p->a, "==%s.*", b->cuda) : set;
}

/* A library that no row says who asks for: the package that brings it. False: none is known. */
static bool want_library(struct planner *p, const struct asker *x, const char *soname)
{
    const struct kb_provide *row = NULL;
    const struct kb_provider *v = plan_knowledge_provider(&p->k, soname, cuda_major_of(p, x), &row);
    if (!v || (x && asks_for(x, v->package))) {
        return v != NULL;
    }
    struct plan_solve_need need;
    bool nvrtc = strstr(v->package, "nvrtc") != NULL;
    const char *set = nvrtc ? nvrtc_set(p, x, row->cuda_major) : v->versions;
    const char *source =
        arena_printf(p->a, "knowledge base, provides/%s: it brings %s", row->id, soname);
    for (size_t i = 0; i < p->needs.n; i++) {
        if (strcmp(p->needs.items[i].package, v->package) == 0) {
            return true;
        }
    }
    if (plan_solve_need_init(p->a, v->package, set, source, &need)) {
        need.strict = need.files = true;
        VEC_PUSH(p->a, &p->needs, need);
    }
    return true;
}

/* Adds what the finding asks for to the search. False: it asks for nothing that a version of a
 * package can answer. */
static bool want_libraries(struct planner *p, const struct diag_finding *f)
{
    struct asker *x = NULL;
    bool any = false;
    for (size_t i = 0; i < f->askers.n; i++) {
        struct asker *one = asker_of(p, f->askers.items[i]);
        if (one) {
            one->cudnn = one->cudnn || names_cudnn(f);
            any = any || asks_for(one, f->culprit);
            x = one;
        }
    }
    any = want_library(p, x, f->culprit) || any;
    for (size_t i = 0; i < f->likewise.n; i++) {
        any = want_library(p, x, f->likewise.items[i]) || any;
    }
    return any;
}

static bool must_move(struct planner *p, const char *name)
{
    struct asker *x = asker_of(p, name);
    if (x && x->p->solve.known) {
        x->must_move = true;
    }
    return x != NULL;
}

/* The packages that the finding names; where it names the machine, those whose build is refused. */
static void want_build(struct planner *p, const struct diag_finding *f)
{
    bool named = must_move(p, f->culprit);
    for (size_t i = 0; i < f->askers.n; i++) {
        named = must_move(p, f->askers.items[i]) || named;
    }
    for (size_t i = 0; i < p->m->known.n && !named; i++) {
        const char *name = p->m->known.items[i]->name_normal;
        plan_knowledge_asks(&p->k, name);
        if (plan_knowledge_refuses_installed(&p->k, plan_knowledge_package(&p->k, name))) {
            (void)must_move(p, name);
        }
    }
}

/* Whether a release of an asking package for the same CUDA needs no cuDNN, where this one does. */
static bool may_do_without_cudnn(struct planner *p, const struct diag_finding *f)
{
    for (size_t i = 0; names_cudnn(f) && i < f->askers.n; i++) {
        const struct py_dist *dist = py_env_by_dist(p->m->env, f->askers.items[i]);
        const struct kb_compat *now =
            dist && dist->version ? plan_knowledge_compat(&p->k, dist->name_normal, dist->version)
                                  : NULL;
        for (size_t n = 0; now && now->cudnn && n < p->k.compats.n; n++) {
            const struct kb_compat *c = &p->k.compats.rows[n];
            if (strcmp(c->package, now->package) == 0 && !c->cudnn &&
                c->cuda_major == now->cuda_major) {
                return true;
            }
        }
    }
    return false;
}

/* An RPATH goes before LD_LIBRARY_PATH: a copy that pip brings is never looked at. */
static bool is_held_by_rpath(const struct planner *p, const struct diag_finding *f)
{
    for (size_t i = 0; f->cause == DIAG_LIBRARY_WRONG_COPY && i < p->m->processes.n; i++) {
        const struct ldso_process *l = p->m->processes.items[i]->ldso;
        for (size_t n = 0; l && n < l->requests.n; n++) {
            const struct ldso_object *o = l->requests.items[n]->object;
            const char *name = !o ? NULL : o->soname ? o->soname : path_base(o->path);
            if (name && o->via == LDSO_VIA_RPATH && strcmp(name, f->culprit) == 0) {
                return true;
            }
        }
    }
    return false;
}

static void read_findings(struct planner *p, const struct diag_report *report)
{
    for (size_t i = 0; i < report->findings.n; i++) {
        const struct diag_finding *f = report->findings.items[i];
        if ((f->severity != DIAG_ERROR && !f->behind) || is_held_by_rpath(p, f)) {
            continue;
        }
        if (reinstall_of(f)) {
            VEC_PUSH(p->a, &p->again, f);
        } else if (is_about_the_build(f)) {
            want_build(p, f);
            VEC_PUSH(p->a, &p->findings, f);
        } else if ((has_package_repair(f) || may_do_without_cudnn(p, f)) && want_libraries(p, f)) {
            VEC_PUSH(p->a, &p->findings, f);
        }
    }
}

/* ------------------------------------------------------------------ what an asker may become */

/* The installed package that an import of this release imports first, and whose own requirements
 * include the library package: what that one has loaded serves. */
static const char *imports_a_server(struct planner *p, const char *name, const char *version,
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
            !imports_a_server(p, x->name, r->version, r->needs[i].package)) {
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

/* ------------------------------------------------------------------ solving */

static const struct plan_solve_package *find_package(void *arg, const char *name)
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
            const char *set =
                row && strstr(o->package, "nvrtc") ? nvrtc_set(p, NULL, row->cuda_major) : NULL;
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
    struct plan_solve_problem problem = {.find = find_package,
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

static void solve_all(struct planner *p, bool any)
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
static bool is_dominated(const struct planner *p, size_t index)
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

/* ------------------------------------------------------------------ folders to make findable */

enum searched { NOT_ASKED, SEARCHED, PASSED_BY };

static bool step_is_in(struct planner *p, const struct ldso_request *r, const char *folder)
{
    for (size_t s = 0; s < r->steps.n; s++) {
        const char *path = r->steps.items[s].path;
        if (path &&
            strcmp(path_normal(p->a, path_dir(p->a, model_absolute(p->m, path))), folder) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the requests for libraries of the package that failed looked into the folder. */
static enum searched how_searched(struct planner *p, const char *package, const char *folder)
{
    enum searched how = NOT_ASKED;
    for (size_t i = 0; i < p->m->processes.n; i++) {
        const struct ldso_process *l = p->m->processes.items[i]->ldso;
        for (size_t n = 0; l && n < l->requests.n; n++) {
            const struct ldso_request *r = l->requests.items[n];
            const struct kb_provide *row = NULL;
            const struct kb_provider *v = r->outcome == LDSO_NOT_FOUND
                                              ? plan_knowledge_provider(&p->k, r->name, -1, &row)
                                              : NULL;
            if (v && strcmp(v->package, package) == 0) {
                if (!step_is_in(p, r, folder)) {
                    return PASSED_BY;
                }
                how = SEARCHED;
            }
        }
    }
    return how;
}

/* The site folder that pip will use. */
static const char *site_folder(const struct planner *p)
{
    const char *beside = NULL;
    for (size_t i = 0; i < p->askers.n && !beside; i++) {
        beside = p->askers.items[i].p->dist ? p->askers.items[i].p->dist->site : NULL;
    }
    return diag_pip_folder(p->m, beside);
}

/* Whether LD_LIBRARY_PATH of the start names the folder. */
static bool is_on_path(struct planner *p, const char *folder)
{
    for (struct str rest =
             str_of(env_value(p->m->config.env, p->m->config.n_env, "LD_LIBRARY_PATH"));
         rest.s;) {
        const char *element = str_dup(p->a, str_cut(&rest, ':'));
        if (*element && strcmp(path_normal(p->a, model_absolute(p->m, element)), folder) == 0) {
            return true;
        }
    }
    return false;
}

/* A folder that no request looked into; where none asked, that of a package that is new, or that
 * another release will ask for. */
static const char *with_folder(struct planner *p, const char *list, const char *package, bool new)
{
    const char *site = site_folder(p), *below = plan_knowledge_folder(&p->k, package);
    const char *folder = site && below ? path_normal(p->a, path_join(p->a, site, below)) : NULL;
    const char *fence = arena_printf(p->a, ":%s:", list);
    enum searched how = folder ? how_searched(p, package, folder) : SEARCHED;
    if (how == SEARCHED || (how == NOT_ASKED && (!new || is_on_path(p, folder))) ||
        strstr(fence, arena_printf(p->a, ":%s:", folder))) {
        return list;
    }
    return arena_printf(p->a, "%s%s%s", list, *list ? ":" : "", folder);
}

static const struct plan_solve_release *after(const struct found *f,
                                              const struct plan_solve_package *s)
{
    for (size_t i = 0; i < f->answer.changes.n; i++) {
        if (f->answer.changes.items[i].package == s) {
            return f->answer.changes.items[i].release;
        }
    }
    return s->installed;
}

static bool is_changed(const struct found *f, const char *package)
{
    for (size_t i = 0; i < f->answer.changes.n; i++) {
        if (strcmp(f->answer.changes.items[i].package->name, package) == 0) {
            return true;
        }
    }
    return false;
}

/* A library in a folder of LD_LIBRARY_PATH finds there alone what it opens by name itself. */
static const char *with_folders_opened(struct planner *p, const struct found *f, const char *list)
{
    for (size_t i = 0; i < f->answer.changes.n; i++) {
        const struct plan_solve_change *c = &f->answer.changes.items[i];
        const char *site = site_folder(p), *below = plan_knowledge_folder(&p->k, c->package->name);
        const char *own = site && below ? path_join(p->a, site, below) : "";
        if (!*own || !strstr(arena_printf(p->a, ":%s:", list), arena_printf(p->a, ":%s:", own))) {
            continue;
        }
        diag_opened_list opened = diag_opened_by(p->m, c->package->name, c->release->version);
        bool again = false;
        for (size_t n = 0; n < opened.n; n++) {
            const char *package = opened.items[n].package;
            const char *longer =
                is_changed(f, package) ? with_folder(p, list, package, true) : list;
            again = again || longer != list;
            list = longer;
        }
        if (again) {
            i = (size_t)-1; // its own may be among the packages before
        }
    }
    return list;
}

/* Folders of the libraries that the askers ask the loader for by name; "" if there are none. */
static const char *folders_of(struct planner *p, const struct found *f)
{
    const char *list = "";
    for (size_t i = 0; i < p->askers.n; i++) {
        const struct asker *x = &p->askers.items[i];
        const struct plan_solve_release *r = after(f, &x->p->solve);
        bool moves = r != x->p->solve.installed;
        for (size_t n = 0; n < r->n_needs; n++) {
            const char *library = r->needs[n].package;
            if (r->needs[n].strict && !imports_a_server(p, x->name, r->version, library)) {
                list = with_folder(p, list, library, moves || is_changed(f, library));
            }
        }
    }
    for (size_t i = 0; i < p->needs.n; i++) {
        list = with_folder(p, list, p->needs.items[i].package,
                           is_changed(f, p->needs.items[i].package));
    }
    return with_folders_opened(p, f, list);
}

/* ... and those of libraries that come back, in which their askers do not look. */
static const char *with_folders_of_again(struct planner *p, const char *list)
{
    for (size_t i = 0; i < p->again.n; i++) {
        for (struct str rest = str_of(reinstall_of(p->again.items[i])->folders); rest.s;) {
            const char *folder = str_dup(p->a, str_cut(&rest, ':'));
            const char *fence = arena_printf(p->a, ":%s:", list);
            if (*folder && !strstr(fence, arena_printf(p->a, ":%s:", folder))) {
                list = arena_printf(p->a, "%s%s%s", list, *list ? ":" : "", folder);
            }
        }
    }
    return list;
}

/* ------------------------------------------------------------------ words */

static bool is_move(const struct plan_solve_change *c)
{
    return c->package->installed != NULL;
}

/* "ctranslate2 from 4.5.0 to 4.8.5 and nvidia-cublas-cu12 to ..." for one of both kinds. */
static const char *changes_list(struct planner *p, const struct found *f, bool moves)
{
    const struct plan_solve_answer *s = &f->answer;
    const char *text = "";
    size_t n = 0, shown = 0;
    for (size_t i = 0; i < s->changes.n; i++) {
        n += is_move(&s->changes.items[i]) == moves;
    }
    for (size_t i = 0; i < s->changes.n && shown < TITLE_MAX; i++) {
        const struct plan_solve_change *c = &s->changes.items[i];
        if (is_move(c) == moves) {
            const char *joint = !shown ? "" : shown + 1 == n ? " and " : ", ";
            shown++;
            text = moves ? arena_printf(p->a, "%s%s%s from %s to %s", text, joint, c->package->name,
                                        c->package->installed->version, c->release->version)
                         : arena_printf(p->a, "%s%s%s %s", text, joint, c->package->name,
                                        c->release->version);
        }
    }
    return shown < n ? arena_printf(p->a, "%s and %zu more that go with %s", text, n - shown,
                                    shown > 1 ? "them" : "it")
                     : text;
}

/* "nvidia-cudnn-cu12 9.1.0.70 and ..." of what the steps so far install again. */
static const char *list_of_again(struct planner *p, const struct plan_way *way)
{
    const char *text = "";
    for (size_t i = 0; i < way->steps.n; i++) {
        const struct plan_package *one = way->steps.items[i].packages;
        const char *joint = !i ? "" : i + 1 < way->steps.n ? ", " : " and ";
        text = arena_printf(p->a, "%s%s%s%s%s", text, joint, one->name, one->to ? " " : "",
                            one->to ? one->to : "");
    }
    return text;
}

/* "Move a from 1 to 2; install b 3; install c 4 again." */
static const char *title_of(struct planner *p, const char *again, const struct found *f)
{
    const char *moves = f ? changes_list(p, f, true) : "",
               *new = f ? changes_list(p, f, false) : "";
    const char *text = *moves ? arena_printf(p->a, "Move %s", moves) : "";
    text = *new ? arena_printf(p->a, "%s%s %s", text, *text ? "; install" : "Install", new) : text;
    text = *again
               ? arena_printf(p->a, "%s%s %s again", text, *text ? "; install" : "Install", again)
               : text;
    return arena_printf(p->a, "%s.", text);
}

/* Why one package moves, with the row that says so. */
static const char *why_of(struct planner *p, const struct plan_solve_change *c)
{
    const struct kb_build *b = plan_knowledge_build(&p->k, c->package->name, c->release->version);
    const struct kb_compat *row =
        plan_knowledge_compat(&p->k, c->package->name, c->release->version);
    for (size_t i = 0; i < p->askers.n; i++) {
        const struct asker *x = &p->askers.items[i];
        if (&x->p->solve != c->package || c->why != x->why) {
            continue;
        }
        return x->must_move && b ? arena_printf(p->a,
                                                "%s; this one is for CUDA %s (knowledge base, "
                                                "builds/%s)",
                                                c->why, b->cuda, b->id)
               : row ? arena_printf(p->a, "%s (knowledge base, compat/%s)", c->why, row->id)
                     : c->why;
    }
    return c->why;
}

/* Other releases that would do. */
static const char *alternatives(struct planner *p, const struct found *f)
{
    const char *text = "";
    for (size_t i = 0; i < p->askers.n; i++) {
        const struct asker *x = &p->askers.items[i];
        const char *chosen = after(f, &x->p->solve)->version, *others = "";
        size_t shown = 0;
        for (size_t n = 0; f->moved >> i & 1 && n < x->n_moves; n++) {
            if (strcmp(x->moves[n].version, chosen) != 0 && shown++ < ALTERNATIVES_MAX) {
                others =
                    arena_printf(p->a, "%s%s%s", others, *others ? ", " : "", x->moves[n].version);
            }
        }
        if (shown) {
            text = arena_printf(p->a, "%s Other releases of %s that fit this machine: %s%s.", text,
                                x->name, others, shown > ALTERNATIVES_MAX ? " and more" : "");
        }
    }
    return text;
}

/* ------------------------------------------------------------------ ways */

static void add_reinstalls(struct planner *p, struct plan_way *way, const struct found *f)
{
    for (size_t i = 0; i < p->again.n; i++) {
        const struct diag_repair *r = reinstall_of(p->again.items[i]);
        size_t n = strcspn(r->reinstall, " ");
        bool done = false, plain = false;
        const char *command = diag_reinstall_command(p->m, r->reinstall, &plain);
        for (size_t k = 0; k < way->steps.n && !done; k++) {
            done = strcmp(way->steps.items[k].command, command) == 0;
        }
        for (size_t k = 0; f && k < f->answer.changes.n; k++) {
            done = done || py_name_eq(str_of(f->answer.changes.items[k].package->name),
                                      (struct str){r->reinstall, n});
        }
        VEC_PUSH(p->a, &way->mends, p->again.items[i]);
        if (done) {
            continue;
        }
        const char *version = r->reinstall[n] ? r->reinstall + n + 1 : NULL;
        struct plan_package *package = arena_alloc(p->a, sizeof *package);
        *package = (struct plan_package){arena_strndup(p->a, r->reinstall, n), version, version,
                                         p->again.items[i]->summary};
        VEC_PUSH(p->a, &way->steps,
                 (struct plan_step){.kind = plain ? PLAN_PACKAGES : PLAN_TEXT,
                                    .text = arena_printf(p->a, "Install %s again.", r->reinstall),
                                    .command = command,
                                    .packages = package,
                                    .n_packages = 1});
    }
}

/* What the versions were chosen for, and what of it is not known. */
static const char *checked_against(struct planner *p)
{
    const struct plan_knowledge_machine *k = &p->k.machine;
    const char *text = "one another";
    text = k->python ? arena_printf(p->a, "%s, Python %s", text, k->python) : text;
    text = k->glibc_minor ? arena_printf(p->a, "%s, glibc 2.%d", text, k->glibc_minor) : text;
    text = k->driver ? arena_printf(p->a, "%s, driver %s", text, k->driver) : text;
    for (size_t i = 0; i < k->gpus.n; i++) {
        text =
            arena_printf(p->a, "%s, sm_%u%u", text, k->gpus.items[i].major, k->gpus.items[i].minor);
    }
    return arena_printf(
        p->a, "These versions fit %s.%s", text,
        k->driver && k->gpus.n ? ""
        : k->gpus.n            ? " No NVIDIA driver is seen here: what it admits was not asked."
        : k->driver            ? " No NVIDIA GPU is seen here: what it admits was not asked."
                               : " No NVIDIA GPU and no driver of one are seen here: what they "
                                 "admit was not asked.");
}

static void way_add_packages(struct planner *p, struct plan_way *way, const struct found *f)
{
    const struct plan_solve_answer *s = &f->answer;
    struct plan_package *list = arena_array(p->a, s->changes.n, sizeof *list);
    const char *pins = "";
    for (size_t i = 0; i < s->changes.n; i++) {
        const struct plan_solve_change *c = &s->changes.items[i];
        list[i] = (struct plan_package){
            .name = c->package->name,
            .to = c->release->version,
            .why = why_of(p, c),
            .from = c->package->installed ? c->package->installed->version : NULL};
        const char *pin = arena_printf(p->a, "%s==%s", list[i].name, list[i].to);
        pins = arena_printf(p->a, "%s%s%s", pins, i ? " " : "", diag_shell_word(p->a, pin));
    }
    VEC_PUSH(p->a, &way->steps,
             (struct plan_step){
                 .kind = PLAN_PACKAGES,
                 .text = arena_printf(p->a, "%s%s", checked_against(p), alternatives(p, f)),
                 .command = diag_pip_command(p->m, pins),
                 .packages = list,
                 .n_packages = s->changes.n});
}

static void way_add_folders(struct planner *p, struct plan_way *way, const char *folders)
{
    const char *old = env_value(p->m->config.env, p->m->config.n_env, "LD_LIBRARY_PATH");
    const char *command = diag_prepend_folders(p->m, folders);
    VEC_PUSH(p->a, &way->steps,
             (struct plan_step){
                 .kind = PLAN_SET_ENV,
                 .name = "LD_LIBRARY_PATH",
                 .value = old && *old ? arena_printf(p->a, "%s:%s", folders, old) : folders,
                 .command = command,
                 .text = "Make the libraries findable before the program starts: nothing looks in "
                         "the folders where pip puts them."});
}

/* Whether the library that the finding is about comes from a package, in one of the folders. */
static bool is_in_folders(struct planner *p, const struct diag_finding *f, const char *folders)
{
    const struct kb_provide *row = NULL;
    const struct kb_provider *v = plan_knowledge_provider(&p->k, f->culprit, -1, &row);
    const char *site = site_folder(p), *below = v ? plan_knowledge_folder(&p->k, v->package) : NULL;
    const char *folder = site && below ? path_normal(p->a, path_join(p->a, site, below)) : NULL;
    return folder &&
           strstr(arena_printf(p->a, ":%s:", folders), arena_printf(p->a, ":%s:", folder));
}

/* Errors that no package was asked for, since the library is there, where nothing looks. */
static void add_found_by_folders(struct planner *p, struct plan_way *way, const char *folders)
{
    for (size_t i = 0; i < p->report->findings.n; i++) {
        const struct diag_finding *f = p->report->findings.items[i];
        if (f->severity == DIAG_ERROR && strcmp(f->class, "lib-not-on-path") == 0 &&
            !plan_way_mends(way, f) && is_in_folders(p, f, folders)) {
            VEC_PUSH(p->a, &way->mends, f);
        }
    }
}

static void packages_add_way(struct planner *p, const struct found *f)
{
    struct plan_way way = {.reach = PLAN_PIP};
    way.unproved = "packages that are not installed cannot be tried in the model; the versions are "
                   "from the knowledge base and the metadata of what is installed";
    add_reinstalls(p, &way, f);
    const char *again = list_of_again(p, &way);
    if (f) {
        way_add_packages(p, &way, f);
        for (size_t i = 0; i < p->findings.n; i++) {
            VEC_PUSH(p->a, &way.mends, p->findings.items[i]);
        }
    }
    const char *folders = with_folders_of_again(p, f ? folders_of(p, f) : "");
    if (*folders) {
        way_add_folders(p, &way, folders);
        add_found_by_folders(p, &way, folders);
    }
    way.title = title_of(p, again, f);
    VEC_PUSH(p->a, &p->plan->ways, way);
}

/* The fewest changes first; of as many, the one that moves most askers. */
static void add_ways(struct planner *p)
{
    size_t added = 0;
    for (size_t n = 1; n <= PLAN_SOLVE_CHOICES_MAX && added < WAYS_MAX; n++) {
        for (size_t i = p->found.n; i-- > 0 && added < WAYS_MAX;) {
            if (p->found.items[i].answer.changes.n == n && !is_dominated(p, i)) {
                packages_add_way(p, &p->found.items[i]);
                added++;
            }
        }
    }
    if (!added && p->again.n) {
        packages_add_way(p, NULL);
    }
}

/* ------------------------------------------------------------------ why not */

static void say_refusals(struct planner *p, const struct asker *x)
{
    const char *text = "";
    for (size_t i = 0; i < x->p->refusals.n; i++) {
        const struct plan_knowledge_refusal *r = &x->p->refusals.items[i];
        bool one = r->first == r->last;
        text = arena_printf(p->a, "%s%s%s %s%s%s: %s", text, *text ? "; " : "", x->name, r->first,
                            one ? "" : " to ", one ? "" : r->last, r->reason);
    }
    if (*text) {
        const char *others = plan_knowledge_other_builds(&p->k, x->name);
        VEC_PUSH(
            p->a, &p->plan->cannot,
            arena_printf(p->a, "%sThe releases of %s in the knowledge base: %s.%s%s%s",
                         x->n_moves ? "" : "No other release fits this machine. ", x->name, text,
                         *others ? " Builds that would fit, which the plain package index does "
                                   "not serve: "
                                 : "",
                         others, *others ? "." : ""));
    }
}

static void say_why_not(struct planner *p)
{
    bool none = p->found.n == 0;
    for (size_t i = 0; i < p->against.n; i++) {
        VEC_PUSH(p->a, &p->plan->cannot,
                 arena_printf(p->a, "%s: %s.",
                              none ? "No set of package versions fits"
                                   : "One set of package versions does not fit",
                              p->against.items[i]));
    }
    for (size_t i = 0; none && i < p->askers.n; i++) {
        say_refusals(p, &p->askers.items[i]);
    }
}

/* A package must move, and no newer release runs on this machine. */
static bool needs_an_older_one(const struct planner *p)
{
    for (size_t i = 0; i < p->askers.n; i++) {
        if (p->askers.items[i].must_move && !p->askers.items[i].n_moves) {
            return true;
        }
    }
    return false;
}

void plan_add_packages(struct model *m, const struct diag_report *report, struct plan *plan)
{
    struct planner p = {.m = m, .a = m->arena, .plan = plan, .report = report};
    if (!plan_knowledge_open(m, &p.k)) {
        return;
    }
    read_findings(&p, report);
    if (p.askers.n || p.needs.n) {
        plan_knowledge_all_installed(&p.k);
        solve_all(&p, false);
        if (p.found.n == 0 && (p.against.n || needs_an_older_one(&p))) {
            solve_all(&p, true);
        }
        say_why_not(&p);
    }
    add_ways(&p);
}
