/*
 * Repairs that change packages: which packages with which versions, in words, and why there is
 * none.
 */
#include <string.h>

#include "base/env.h"
#include "plan/knowledge.h"
#include "plan/packages.h"
#include "plan/plan.h"
#include "py/dist.h"
#include "py/requirement.h"

enum {
    WAYS_MAX = 4,
    ALTERNATIVES_MAX = 6,
    TITLE_MAX = 4,
};

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

/* "torch 2.15.0 and vllm 0.11.0", of whose requirements some are missing. */
static const char *list_of_declaring(struct planner *p)
{
    const char *text = "";
    for (size_t i = 0; i < p->declared.n; i++) {
        const struct py_dist *dist = py_env_by_dist(p->m->env, p->declared.items[i]->declaring);
        const char *joint = !i ? "" : i + 1 < p->declared.n ? ", " : " and ";
        text = arena_printf(p->a, "%s%s%s%s%s", text, joint, dist->name_normal,
                            dist->version ? " " : "", dist->version ? dist->version : "");
    }
    return text;
}

/* "Move a from 1 to 2; install b 3; install c 4 again; install the missing requirements of d 5." */
static const char *way_title(struct planner *p, const char *again, const struct found *f)
{
    const char *moves = f ? changes_list(p, f, true) : "",
               *new = f ? changes_list(p, f, false) : "";
    const char *text = *moves ? arena_printf(p->a, "Move %s", moves) : "";
    text = *new ? arena_printf(p->a, "%s%s %s", text, *text ? "; install" : "Install", new) : text;
    text = *again
               ? arena_printf(p->a, "%s%s %s again", text, *text ? "; install" : "Install", again)
               : text;
    const char *declaring = list_of_declaring(p);
    text = *declaring ? arena_printf(p->a, "%s%s the missing requirements of %s", text,
                                     *text ? "; install" : "Install", declaring)
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
        const char *chosen = plan_packages_after(f, &x->p->solve)->version, *others = "";
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
        const struct diag_repair *r = plan_packages_reinstall_of(p->again.items[i]);
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
        *package = (struct plan_package){.name = arena_strndup(p->a, r->reinstall, n),
                                         .from = version,
                                         .to = version,
                                         .why = p->again.items[i]->summary};
        VEC_PUSH(p->a, &way->steps,
                 (struct plan_step){.kind = plain ? PLAN_PACKAGES : PLAN_TEXT,
                                    .text = arena_printf(p->a, "Install %s again.", r->reinstall),
                                    .command = command,
                                    .packages = package,
                                    .n_packages = 1});
    }
}

/* What packages declare, and what is not there: pip chooses among the versions that they admit. */
static void add_declared(struct planner *p, struct plan_way *way)
{
    for (size_t i = 0; i < p->declared.n; i++) {
        const struct diag_finding *f = p->declared.items[i];
        const struct diag_repair *r = &f->repairs.items[0];
        struct plan_package *list = arena_array(p->a, f->declared.n, sizeof *list);
        for (size_t k = 0; k < f->declared.n; k++) {
            const char *text = f->declared.items[k];
            list[k] = (struct plan_package){
                .name = arena_strndup(p->a, text, strcspn(text, "[<>=!~ ")),
                .why = arena_printf(p->a, "%s needs %s (its metadata)", f->declaring, text),
                .requirement = text};
        }
        VEC_PUSH(p->a, &way->mends, f);
        VEC_PUSH(p->a, &way->steps,
                 (struct plan_step){.kind = PLAN_PACKAGES,
                                    .text = "The installer chooses among the versions that the "
                                            "requirements admit.",
                                    .command = r->bare ? r->bare : r->command,
                                    .packages = list,
                                    .n_packages = f->declared.n});
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
    const struct py_env *env = p->m->env;
    const char *lock = env && env->project
                           ? arena_printf(p->a,
                                          " The command changes the lock of %s in %s as well; fix "
                                          "--apply changes the environment alone, until %s "
                                          "installs from its lock again.",
                                          env->manager, env->project, env->manager)
                           : "";
    VEC_PUSH(p->a, &way->steps,
             (struct plan_step){
                 .kind = PLAN_PACKAGES,
                 .text = arena_printf(p->a, "%s%s%s", checked_against(p), alternatives(p, f), lock),
                 .command = diag_pip_command(p->m, pins),
                 .packages = list,
                 .n_packages = s->changes.n});
}

static void way_add_folders(struct planner *p, struct plan_way *way, const char *folders)
{
    const char *old = env_value(p->m->config.env, p->m->config.n_env, "LD_LIBRARY_PATH");
    const char *again = diag_hook_again(p->m);
    VEC_PUSH(
        p->a, &way->steps,
        (struct plan_step){
            .kind = PLAN_SET_ENV,
            .name = "LD_LIBRARY_PATH",
            .value = old && *old ? arena_printf(p->a, "%s:%s", folders, old) : folders,
            .command = again ? again : diag_prepend_folders(p->m, folders),
            .text = again ? "Create the start-up hook again, so that it loads these libraries as "
                            "well: the loader does not search the folders where pip puts them."
                          : "Set the search path before the program starts: the loader does "
                            "not search the folders where pip puts them."});
}

/* Whether the library that the finding is about comes from a package, in one of the folders. */
static bool is_in_folders(struct planner *p, const struct diag_finding *f, const char *folders)
{
    const struct kb_provide *row = NULL;
    const struct kb_provider *v = plan_knowledge_provider(&p->k, f->culprit, -1, &row);
    const char *site = plan_packages_site_folder(p),
               *below = v ? plan_knowledge_folder(&p->k, v->package) : NULL;
    const char *folder = site && below ? path_normal(p->a, path_join(p->a, site, below)) : NULL;
    return folder &&
           strstr(arena_printf(p->a, ":%s:", folders), arena_printf(p->a, ":%s:", folder));
}

/* Whether to make it findable is what repairs it. */
static bool is_to_be_found(const struct diag_finding *f)
{
    for (size_t i = 0; i < f->repairs.n; i++) {
        if (f->repairs.items[i].kind == DIAG_REPAIR_ENV) {
            return true;
        }
    }
    return false;
}

/* Errors that no package was asked for, since the library is there, where nothing looks. */
static void add_found_by_folders(struct planner *p, struct plan_way *way, const char *folders)
{
    for (size_t i = 0; i < p->report->findings.n; i++) {
        const struct diag_finding *f = p->report->findings.items[i];
        if (f->severity == DIAG_ERROR && strcmp(f->class, "lib-not-on-path") == 0 &&
            is_to_be_found(f) && !plan_way_mends(way, f) && is_in_folders(p, f, folders)) {
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
    add_declared(p, &way);
    if (f) {
        way_add_packages(p, &way, f);
        for (size_t i = 0; i < p->findings.n; i++) {
            VEC_PUSH(p->a, &way.mends, p->findings.items[i]);
        }
    }
    const char *folders =
        plan_packages_with_folders_of_again(p, f ? plan_packages_folders_of(p, f) : "");
    if (*folders) {
        way_add_folders(p, &way, folders);
        add_found_by_folders(p, &way, folders);
    }
    way.title = way_title(p, again, f);
    VEC_PUSH(p->a, &p->plan->ways, way);
}

/* The fewest changes first; of as many, the one that moves most askers. */
static void add_ways(struct planner *p)
{
    size_t added = 0;
    for (size_t n = 1; n <= PLAN_SOLVE_CHOICES_MAX && added < WAYS_MAX; n++) {
        for (size_t i = p->found.n; i-- > 0 && added < WAYS_MAX;) {
            if (p->found.items[i].answer.changes.n == n && !plan_packages_is_dominated(p, i)) {
                packages_add_way(p, &p->found.items[i]);
                added++;
            }
        }
    }
    if (!added && (p->again.n || p->declared.n)) {
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
    plan_packages_read_findings(&p, report);
    if (p.askers.n || p.needs.n) {
        plan_knowledge_all_installed(&p.k);
        plan_packages_solve_all(&p, false);
        if (p.found.n == 0 && (p.against.n || needs_an_older_one(&p))) {
            plan_packages_solve_all(&p, true);
        }
        say_why_not(&p);
    }
    add_ways(&p);
}
