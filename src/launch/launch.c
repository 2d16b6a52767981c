#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "base/folder.h"
#include "launch/imports.h"
#include "launch/teardown.h"

char **launch_env(struct arena *a, const char *const *env, size_t n_env,
                  const struct launch_change *changes, size_t n)
{
    VEC(char *) out = {0};
    for (size_t i = 0; i < n_env; i++) {
        bool changed = false;
        for (size_t k = 0; k < n && !changed; k++) {
            changed = env_value_of(env[i], changes[k].name) != NULL;
        }
        if (!changed) {
            VEC_PUSH(a, &out, arena_strdup(a, env[i]));
        }
    }
    for (size_t k = 0; k < n; k++) {
        if (changes[k].value) {
            VEC_PUSH(a, &out, arena_printf(a, "%s=%s", changes[k].name, changes[k].value));
        }
    }
    VEC_PUSH(a, &out, NULL);
    return out.items;
}

/* ------------------------------------------------------------------ one way */

struct builder {
    struct arena *a;
    const char *const *env;
    size_t n_env;
    const struct launch_options *options;
    struct launch *out;
};

/* Sets a variable; a later step replaces what an earlier one has set. */
static const char *set_variable(struct builder *b, const char *name, const char *value)
{
    const char *old = env_value(b->env, b->n_env, name);
    if (old && b->options->keep_env) {
        return arena_printf(b->a, "%s is set, and --keep-env leaves it as it is", name);
    }
    for (size_t i = 0; i < b->out->changes.n; i++) {
        if (strcmp(b->out->changes.items[i].name, name) == 0) {
            b->out->changes.items[i].value = value;
            return NULL;
        }
    }
    VEC_PUSH(b->a, &b->out->changes, (struct launch_change){name, value});
    return NULL;
}

static const char *current(const struct builder *b, const char *name)
{
    for (size_t i = 0; i < b->out->changes.n; i++) {
        if (strcmp(b->out->changes.items[i].name, name) == 0) {
            return b->out->changes.items[i].value;
        }
    }
    return env_value(b->env, b->n_env, name);
}

/* LD_PRELOAD is split at blanks and colons, and has no way to quote them. */
static const char *preload(struct builder *b, const struct plan_step *s)
{
    const char *list = "";
    for (size_t i = 0; i < s->n_paths; i++) {
        if (strpbrk(s->paths[i], " :$\t\n")) {
            return arena_printf(b->a,
                                "LD_PRELOAD cannot name %s: it has a blank, a colon or a dollar "
                                "sign",
                                str_printable(b->a, s->paths[i]));
        }
        list = arena_printf(b->a, "%s%s%s", list, *list ? ":" : "", s->paths[i]);
    }
    const char *old = current(b, "LD_PRELOAD");
    return set_variable(b, "LD_PRELOAD",
                        old && *old ? arena_printf(b->a, "%s:%s", list, old) : list);
}

static bool names_folder(const char *list, const char *folder)
{
    for (struct str rest = str_of(list); rest.s;) {
        if (str_is(str_cut(&rest, ':'), folder)) {
            return true;
        }
    }
    return false;
}

/* The folder of links stands first in LD_LIBRARY_PATH, unless the way has put it there. */
static const char *shadow(struct builder *b, const struct plan_step *s)
{
    const char *old = current(b, "LD_LIBRARY_PATH");
    if (!b->options->shadow_folder || strcmp(s->folder, b->options->shadow_folder) != 0) {
        return "there is no folder of the user's own for links (XDG_CACHE_HOME, HOME)";
    }
    for (size_t i = 0; i < s->n_links; i++) {
        VEC_PUSH(b->a, &b->out->links, s->links[i]);
    }
    if (old && names_folder(old, s->folder)) {
        return NULL;
    }
    return set_variable(b, "LD_LIBRARY_PATH",
                        old && *old ? arena_printf(b->a, "%s:%s", s->folder, old) : s->folder);
}

static const char *take_step(struct builder *b, const struct plan_step *s)
{
    switch (s->kind) {
    case PLAN_SET_ENV:
        return b->options->preload_only ? "--preload-only" : set_variable(b, s->name, s->value);
    case PLAN_PRELOAD: return b->options->no_preload ? "--no-preload" : preload(b, s);
    case PLAN_SHADOW: return b->options->preload_only ? "--preload-only" : shadow(b, s);
    case PLAN_TEXT: return NULL;
    case PLAN_LINK:
    case PLAN_HOOK:
    case PLAN_EDIT_ELF:
    case PLAN_PACKAGES: break;
    }
    return "it cannot be done for a single start";
}

const char *launch_way(struct arena *a, const struct plan_way *way, const char *const *env,
                       size_t n_env, const struct launch_options *options, struct launch *ret)
{
    struct launch out = {0};
    struct builder b = {a, env, n_env, options, &out};
    for (size_t i = 0; i < way->steps.n; i++) {
        const char *why = take_step(&b, &way->steps.items[i]);
        if (why) {
            return why;
        }
    }
    *ret = out;
    return NULL;
}

/* ------------------------------------------------------------------ the choice */

static bool has_preload(const struct plan_way *way)
{
    for (size_t i = 0; i < way->steps.n; i++) {
        if (way->steps.items[i].kind == PLAN_PRELOAD) {
            return true;
        }
    }
    return false;
}

static struct launch_told told(const struct diag_finding *f)
{
    return (struct launch_told){diag_causes[f->cause].id, f->summary, f->scripts.n > 0};
}

/* Whether a start is changed for it: what only warnings ask for has to be proved. */
static bool is_worth_it(const struct plan *plan, const struct plan_way *way)
{
    return way->reach == PLAN_FOR_ONE_START && plan_way_worth(plan, way) != 0 &&
           !(plan->for_warnings && way->unproved);
}

/* Whether `a` goes before `b`: more mended, fewer warnings left, no preload; the plan's own order
 * decides the rest. */
static bool way_goes_before(const struct plan *plan, const struct plan_way *a,
                            const struct plan_way *b)
{
    if (!b || plan_way_worth(plan, a) != plan_way_worth(plan, b)) {
        return !b || plan_way_worth(plan, a) > plan_way_worth(plan, b);
    }
    return a->leaves.n != b->leaves.n ? a->leaves.n < b->leaves.n : has_preload(a) < has_preload(b);
}

static const struct plan_way *choose_way(const struct plan *plan, struct builder *b,
                                         struct launch *ret)
{
    const struct plan_way *best = NULL;
    const char *refused = NULL;
    for (size_t i = 0; i < plan->ways.n; i++) {
        const struct plan_way *way = &plan->ways.items[i];
        struct launch launch;
        if (!is_worth_it(plan, way) || !way_goes_before(plan, way, best)) {
            continue;
        }
        const char *why = launch_way(b->a, way, b->env, b->n_env, b->options, &launch);
        if (why) {
            refused = refused ? refused : why;
            continue;
        }
        best = way;
        *ret = launch;
    }
    if (!best && refused && refused[0] != '-') {
        VEC_PUSH(b->a, &ret->remarks, refused);
    }
    return best;
}

static void tell_left(struct model *m, const struct diag_report *report, const struct plan_way *way,
                      struct launch *ret)
{
    for (size_t i = 0; i < report->findings.n; i++) {
        const struct diag_finding *f = report->findings.items[i];
        if (f->severity == DIAG_ERROR && !plan_way_mends(way, f)) {
            VEC_PUSH(m->arena, &ret->left, told(f));
        }
    }
}

static void choose_and_tell(struct model *m, const struct diag_report *report,
                            const struct launch_options *options, struct launch *ret)
{
    const struct plan_options o = {
        .manner = PLAN_AT_START, .launch_only = true, .shadow_folder = options->shadow_folder};
    struct builder b = {m->arena, m->config.env, m->config.n_env, options, NULL};
    struct plan plan = {0};
    plan_make(m, report, &o, &plan);
    const struct plan_way *way = choose_way(&plan, &b, ret);
    for (size_t i = 0; way && i < way->mends.n; i++) {
        VEC_PUSH(m->arena, &ret->mends, told(way->mends.items[i]));
    }
    tell_left(m, report, way, ret);
    for (size_t i = 0; i < plan.cannot.n && ret->left.n; i++) {
        VEC_PUSH(m->arena, &ret->remarks, plan.cannot.items[i]);
    }
}

/* ------------------------------------------------------------------ the program in the model */

/* What stands in the way of every variable. */
static const char *hindrance(const struct model *m)
{
    for (size_t i = 0; i < m->processes.n; i++) {
        const struct ldso_process *p = m->processes.items[i]->ldso;
        if (p && p->is_static) {
            return "the program is linked statically: no library can be preloaded, and no search "
                   "path counts";
        }
        if (p && p->secure) {
            return arena_printf(m->arena,
                                "the program starts in secure mode (%s): the loader "
                                "ignores LD_PRELOAD and LD_LIBRARY_PATH",
                                p->secure_why ? p->secure_why : "AT_SECURE");
        }
    }
    return NULL;
}

/* Where the program loads a library that crashes at the end of its threads, the library that keeps
 * it from that is asked for. It comes by LD_PRELOAD. */
static void guard_teardown(struct model *m, const struct launch_program *p,
                           const struct launch_options *options, struct launch *ret)
{
    struct builder b = {m->arena, m->config.env, m->config.n_env, options, ret};
    const struct launch_teardown *known = NULL;
    const char *preloaded = env_value(b.env, b.n_env, "LD_PRELOAD");
    const struct ldso_object *o =
        p->kind == LAUNCH_STARTER || options->no_preload || (options->keep_env && preloaded)
            ? NULL
            : launch_teardown_guard(m, &known);
    if (o && !set_variable(&b, LAUNCH_GUARD_VARIABLE, "1")) {
        const char *says = arena_printf(m->arena, "%s: %s (%s); such destructors are run elsewhere",
                                        path_base(o->path), known->about, known->thread);
        VEC_PUSH(m->arena, &ret->mends,
                 (struct launch_told){diag_causes[DIAG_CRASH_ON_UNLOAD].id, says, true});
    }
}

/* The processes to judge: false if there are none. */
static bool add_processes(struct model *m, const struct launch_program *p)
{
    if (m->env && p->kind == LAUNCH_PYTHON) {
        launch_imports_add(m, p);
    } else if (m->env) {
        model_add_default_scripts(m, NULL, 0);
    } else if (m->target_file) {
        (void)model_add_file(m); // what goes wrong is said in the process
    } else {
        return false; // a starter, and no environment is active
    }
    return true;
}

/* Nothing is done for a program that nobody has seen, and that is said. */
static const char *nothing_seen(const struct model *m, const struct launch_program *p)
{
    return arena_printf(m->arena,
                        "no Python environment was seen behind %s (%s), and nothing is "
                        "changed; write gpumend run -- before the Python command itself, or "
                        "activate its environment first",
                        path_base(p->file), p->unseen);
}

static void launch_look(struct model_target *t, const struct launch_program *p,
                        const struct launch_options *options, struct launch *ret)
{
    struct model *m = &t->model;
    struct diag_report report;
    bool processes = add_processes(m, p);
    if (p->elsewhere) {
        VEC_PUSH(m->arena, &ret->remarks, p->elsewhere);
        return;
    }
    if (p->unseen && (p->clears || !m->known.n)) {
        VEC_PUSH(m->arena, &ret->remarks, nothing_seen(m, p));
        return;
    }
    if (!processes) {
        return;
    }
    if (!m->env && m->processes.items[0]->error) {
        VEC_PUSH(m->arena, &ret->remarks, m->processes.items[0]->error);
        return;
    }
    diag_run(m, &report);
    const char *why = p->clears ? p->clears : hindrance(m);
    if (why) {
        tell_left(m, &report, NULL, ret);
        if (ret->left.n || !p->clears) {
            VEC_PUSH(m->arena, &ret->remarks, why);
        }
        return;
    }
    choose_and_tell(m, &report, options, ret);
    if (p->kind == LAUNCH_STARTER && p->python && ret->changes.n + ret->left.n) {
        VEC_PUSH(m->arena, &ret->remarks,
                 arena_printf(m->arena, "what %s starts was not seen (%s); %s is assumed",
                              path_base(p->file), p->unseen, p->python));
    }
    guard_teardown(m, p, options, ret);
}

/* Variables of Python that do not count, by the interpreter's own options. */
static bool counts(const struct launch_program *p, const char *entry)
{
    bool replaced = p->lazy_imports && starts_with(entry, "PYTHON_LAZY_IMPORTS=");
    return !replaced && (!p->ignores_python_variables || !starts_with(entry, "PYTHON"));
}

static int launch_open_target(struct model_target *t, struct arena *a,
                              const struct model_target_options *o, const struct launch_program *p,
                              struct gm_err *err)
{
    struct model_target_options asked = *o;
    const char *const *start;
    size_t n_start;
    VEC(const char *) env = {0};
    launch_program_env(a, p, o->env, o->n_env, &start, &n_start);
    for (size_t i = 0; i < n_start; i++) {
        if (counts(p, start[i])) {
            VEC_PUSH(a, &env, start[i]);
        }
    }
    if (p->no_user_site) {
        VEC_PUSH(a, &env, "PYTHONNOUSERSITE=1");
    }
    if (p->lazy_imports) { // what its option says, in the variable of the same meaning
        VEC_PUSH(a, &env, arena_printf(a, "PYTHON_LAZY_IMPORTS=%s", p->lazy_imports));
    }
    asked.env = env.items;
    asked.n_env = env.n;
    asked.cwd = p->cwd ? p->cwd : o->cwd;
    asked.only_open = true;
    asked.target = launch_program_target(p);
    return model_target_open(t, a, &asked, err);
}

void launch_plan(struct model_target *t, struct arena *a, const struct model_target_options *o,
                 const struct launch_program *p, const struct launch_options *options,
                 struct launch *ret)
{
    struct gm_err err;
    *ret = (struct launch){0};
    if (launch_open_target(t, a, o, p, &err) < 0) {
        VEC_PUSH(a, &ret->remarks, arena_strdup(a, err.text));
        return;
    }
    launch_look(t, p, options, ret);
}

int launch_model(struct model_target *t, struct arena *a, const struct model_target_options *o,
                 const struct launch_program *p, struct gm_err *err)
{
    int rc = launch_open_target(t, a, o, p, err);
    if (rc == 0) {
        (void)add_processes(&t->model, p); // none: the model stays empty
    }
    return rc;
}

/* ------------------------------------------------------------------ the folder of links */

static int launch_make_link(int fd, const char *folder, const struct plan_link *link,
                            struct gm_err *err)
{
    char now[4096], fresh[64];
    const char *name = path_base(link->path);
    ssize_t n = readlinkat(fd, name, now, sizeof now);
    if (n >= 0 && (size_t)n == strlen(link->target) && memcmp(now, link->target, (size_t)n) == 0) {
        return 0;
    }
    (void)snprintf(fresh, sizeof fresh, ".new-%ld", (long)getpid());
    (void)unlinkat(fd, fresh, 0); // left by a process of that number that was killed
    if (symlinkat(link->target, fd, fresh) < 0 || renameat(fd, fresh, fd, name) < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s/%s: %s", folder, name, strerror(errno));
    }
    return 0;
}

int launch_folder(const char *folder, const struct plan_link *links, size_t n, struct gm_err *err)
{
    int fd = folder_own(folder, err);
    if (fd < 0) {
        return fd;
    }
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = launch_make_link(fd, folder, &links[i], err);
    }
    (void)close(fd); // a folder: nothing can be lost
    return rc;
}
