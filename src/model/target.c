#include "model/target.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/env.h"
#include "model/live.h"
#include "py/dist.h"
#include "py/places.h"
#include "py/requirement.h"

static struct py_env_hints target_hints(const struct model_target *t,
                                        const struct model_target_options *o)
{
    return (struct py_env_hints){
        .path = env_value(o->env, o->n_env, "PATH"),
        .home = env_value(o->env, o->n_env, "HOME"),
        .virtual_env = env_value(o->env, o->n_env, "VIRTUAL_ENV"),
        .conda_prefix = env_value(o->env, o->n_env, "CONDA_PREFIX"),
        .pythonpath = env_value(o->env, o->n_env, "PYTHONPATH"),
        .pythonhome = env_value(o->env, o->n_env, "PYTHONHOME"),
        .pythonnousersite = env_value(o->env, o->n_env, "PYTHONNOUSERSITE"),
        .pythonuserbase = env_value(o->env, o->n_env, "PYTHONUSERBASE"),
        .pyenv_version = env_value(o->env, o->n_env, "PYENV_VERSION"),
        .pyenv_root = env_value(o->env, o->n_env, "PYENV_ROOT"),
        .cwd = t->model.config.cwd,
        .uid = o->uid,
    };
}

static void add_scripts(struct model_target *t, const struct model_target_options *o)
{
    struct arena *a = t->model.arena;
    VEC(const char *) imports = {0};
    for (struct str rest = str_of(o->imports); rest.s;) {
        struct str name = str_trim(str_cut(&rest, ','));
        if (name.n) {
            VEC_PUSH(a, &imports, str_dup(a, name));
        }
    }
    model_add_default_scripts(&t->model, imports.items, imports.n);
}

/* By its interpreter, where the prefix is the system's. */
static const char *target_name(const struct model *m)
{
    const struct py_env *env = m->env;
    return !env                                            ? m->target_file
           : env->kind == PY_ENV_SYSTEM && env->executable ? env->executable
                                                           : env->prefix;
}

const char *model_command(const struct model *m, const char *command, const char *options)
{
    struct arena *a = m->arena;
    const char *name = target_name(m), *text = arena_printf(a, "gpumend %s", command);
    if (name) {
        text = arena_printf(a, "%s %s", text, str_shell_word(a, name));
    }
    if (!m->root->is_host) {
        text = arena_printf(a, "%s --root %s", text, str_shell_word(a, m->root->path));
    }
    return arena_printf(a, "%s%s%s", text, *options ? " " : "", options);
}

static void find_hook(struct model *m)
{
    for (size_t i = 0; i < m->env->n_paths && !m->hook.file; i++) {
        const struct py_path *p = &m->env->paths[i];
        if (p->is_dir && p->origin == PY_PATH_SITE) {
            (void)model_hook_read(m->root, m->arena, p->dir, m->env->minor, &m->hook); // file says
        }
    }
    if (m->hook.file) {
        VEC_PUSH(m->arena, &m->notes,
                 arena_printf(m->arena,
                              "a start-up hook of gpumend loads %zu %s before the first "
                              "import of %s",
                              m->hook.n_libraries,
                              m->hook.n_libraries == 1 ? "library" : "libraries",
                              m->hook.n_modules ? m->hook.modules[0] : "nothing"));
    }
}

/* Repairs that were begun and have not ended: of the target's own folder, and of the system. */
static void find_unfinished(struct model *m)
{
    struct arena *a = m->arena;
    m->base = m->env           ? m->env->prefix
              : m->target_file ? path_dir(a, model_absolute(m, m->target_file))
                               : NULL;
    if (m->base) {
        (void)model_journal_open(m->root, a, path_join(a, m->base, ".gpumend/journal"),
                                 &m->unfinished, &m->unsure); // the folder says whether
    }
    (void)model_journal_open(m->root, a, "/var/lib/gpumend/journal", &m->unfinished_system,
                             &m->unsure);
}

/* A folder that is no environment, for one that is made there was interrupted. */
static int say_interrupted(struct model *m, const char *target, int rc, struct gm_err *err)
{
    struct model_journal journal;
    const char *unsure = NULL, *folder = path_join(m->arena, target, ".gpumend/journal");
    if (rc < 0 && model_journal_open(m->root, m->arena, folder, &journal, &unsure)) {
        struct gm_err first = *err;
        return gm_err_set(err, rc,
                          "%.200s. gpumend setup --apply began to make one there and has not ended "
                          "(%.200s): gpumend setup APP --undo --into takes it back",
                          first.text, journal.folder);
    }
    return rc;
}

/* An environment, an interpreter, or any other ELF file. */
static int find_target(struct model_target *t, const struct model_target_options *o,
                       struct gm_err *err)
{
    struct model *m = &t->model;
    struct py_env_hints hints = target_hints(t, o);
    const char *target = o->target;
    struct stat st;
    if (target && target[0] != '/') {
        const char *inside = path_join(m->arena, m->config.cwd, target);
        if (strchr(target, '/') || root_stat(&t->root, inside, &st) == 0) {
            target = inside;
        }
    }
    int rc = py_env_open(&t->root, m->arena, target, &hints, &t->py, err);
    if (rc == 0) {
        m->env = &t->py;
        t->kind = "environment";
        find_hook(m);
        for (size_t i = 0; i < t->py.n_notes; i++) {
            /* That its line runs code is the environment's hook itself, which is modelled. */
            bool own = strstr(t->py.notes[i], "/" MODEL_HOOK_PTH " ") ||
                       strstr(t->py.notes[i], "/" MODEL_HOOK_START " ");
            if (!m->hook.n_modules || !own) {
                VEC_PUSH(m->arena, &m->notes, t->py.notes[i]);
            }
        }
        return 0;
    }
    if (!o->target) {
        t->kind = "machine";
        VEC_PUSH(m->arena, &m->notes,
                 arena_printf(m->arena, "no Python environment: %s", err->text));
        return 0;
    }
    if (rc != GM_ERR_UNSUPPORTED && rc != GM_ERR_FORMAT) {
        return say_interrupted(m, target, rc, err);
    }
    t->kind = "file";
    m->target_file = target;
    return 0;
}

static int look_at_process(struct model_target *t, const struct model_target_options *o,
                           struct gm_err *err)
{
    struct model_live *now = arena_alloc(t->model.arena, sizeof *now);
    struct root host;
    t->kind = "process";
    int rc = o->live ? 0 : root_open(&host, "/", err);
    if (rc == 0 && !o->live) {
        rc = model_live_read(t->model.arena, &host, o->pid, now, err);
        root_close(&host);
    }
    return rc < 0 ? rc : model_add_live(&t->model, o->live ? o->live : now, err);
}

/* The first package of a place that the knowledge base knows as one of GPU programs; or NULL. */
static const char *gpu_package(const struct model *m, const struct py_place *place)
{
    for (size_t i = 0; i < m->imports.n; i++) {
        for (size_t k = 0; k < place->names.n; k++) {
            if (py_name_eq(str_of(m->imports.rows[i].package), str_of(place->names.items[k]))) {
                return m->imports.rows[i].package;
            }
        }
    }
    return NULL;
}

/* Judges another environment of the root; false if it cannot be opened. */
static bool judge_instead(struct model_target *t, const struct model_target_options *o,
                          const char *prefix)
{
    struct model *m = &t->model;
    struct py_env_hints hints = target_hints(t, o);
    struct gm_err err;
    struct py_env env;
    if (py_env_open(&t->root, m->arena, prefix, &hints, &env, &err) < 0 || !env.executable) {
        return false;
    }
    t->py = env;
    m->env = &t->py;
    t->kind = "environment";
    m->processes.n = 0;
    m->known.n = 0;
    find_hook(m);
    add_scripts(t, o);
    return true;
}

/* Where the Python that was found has no package of a GPU program: whether another place of the
 * root has. The first of them is judged, unless it is known what starts. */
static void look_elsewhere(struct model_target *t, const struct model_target_options *o)
{
    struct model *m = &t->model;
    struct arena *a = m->arena;
    const char *first = m->env ? m->env->prefix : NULL, *others = "", *judged = NULL;
    py_places places;
    bool whole = py_places_find(&t->root, a, o->cwd && o->entry_known ? o->cwd : NULL, &places);
    for (size_t i = 0; i < places.n; i++) {
        const struct py_place *place = &places.items[i];
        const char *package = gpu_package(m, place);
        if (!package || (first && strcmp(place->prefix, first) == 0)) {
            continue;
        }
        if (!judged && !o->entry_known && place->has_python && judge_instead(t, o, place->prefix)) {
            judged = place->prefix;
            VEC_PUSH(a, &m->notes,
                     arena_printf(a,
                                  "%s is judged: it has %s, and what starts here is unknown; "
                                  "name another as TARGET",
                                  judged, package));
            continue;
        }
        others =
            arena_printf(a, "%s%s%s (%s)", others, *others ? ", " : "", place->prefix, package);
    }
    if (*others) {
        m->unsure = arena_printf(a,
                                 "GPU packages are also installed in %s, which was not judged; "
                                 "if the program uses them, name it as TARGET",
                                 others);
    } else if (!judged && !whole) {
        m->unsure = "only part of the folders were searched for GPU packages; name the environment "
                    "that the program uses as TARGET";
    }
}

static int target_look(struct model_target *t, const struct model_target_options *o,
                       struct gm_err *err)
{
    struct model *m = &t->model;
    if (o->pid) {
        return look_at_process(t, o, err);
    }
    int rc = find_target(t, o, err);
    if (rc < 0 || o->only_open) {
        return rc;
    }
    find_unfinished(m);
    if (m->env) {
        add_scripts(t, o);
    } else if (m->target_file) {
        struct model_process *p = model_add_file(m);
        if (p->error && !p->ldso) {
            return gm_err_set(err, GM_ERR_LOOK, "%s", p->error);
        }
    }
    if (!m->known.n && (!o->target || o->entry_known) && o->root_path &&
        strcmp(o->root_path, "/") != 0) {
        look_elsewhere(t, o);
    }
    return 0;
}

/* The root of the machine that it will run on. */
static int open_host(const struct model_target_options *o, struct root *ret, struct gm_err *err)
{
    if (o->host_replay) {
        *ret = ROOT_EMPTY;
        root_replay(ret, o->host_replay, o->host_path);
        return 0;
    }
    return root_open(ret, o->host_path, err);
}

/* Variables of a captured tree are those of who captured it, where the caller names no other. */
static void look_at_host(struct model_target *t, const struct model_target_options *o)
{
    struct model *m = &t->model;
    struct root other = ROOT_EMPTY;
    struct gm_err err;
    int rc = o->host_path ? open_host(o, &other, &err) : 0;
    struct root *r = o->host_path ? &other : &t->root;
    rc = rc < 0 ? rc : host_collect(r, m->arena, &t->host, &err);
    if (rc < 0) {
        root_close(&other);
        m->host_why = arena_printf(m->arena, "%s", err.text);
        return;
    }
    bool whole = !o->root_path || t->root.is_host || o->host_path;
    m->host_elsewhere =
        o->host_path &&
        (o->host_replay || strcmp(o->host_path, o->root_path ? o->root_path : "/") != 0);
    host_set_environment(&t->host, m->arena, m->config.env, m->config.n_env, whole);
    host_unset(&t->host, o->unset, o->n_unset);
    host_judge(&t->host, m->arena);
    if (o->on_host) {
        o->on_host(r, m->arena, &t->host);
    }
    root_close(&other);
    m->host = &t->host;
}

static int open_knowledge(struct model_target *t, const struct model_target_options *o,
                          struct gm_err *err)
{
    struct arena *a = t->model.arena;
    const char *path =
        o->kb_path && o->kb_path[0] != '/' ? path_join(a, o->cwd, o->kb_path) : o->kb_path;
    t->kb_root = arena_alloc(a, sizeof *t->kb_root); // areas are read when a rule asks for them
    *t->kb_root = ROOT_EMPTY;
    int rc = root_open(t->kb_root, "/", err);
    rc = rc < 0 ? rc : kb_open(&t->kb, a, t->kb_root, path, err);
    rc = rc < 0 ? rc : kb_load_folder(&t->kb, err);
    return rc < 0 ? rc : model_open(&t->model, err);
}

static int open_root(struct model_target *t, const struct model_target_options *o, const char *path,
                     struct gm_err *err)
{
    if (o->replay) {
        root_replay(&t->root, o->replay, path);
        return 0;
    }
    int rc = root_open(&t->root, path, err);
    if (rc == 0 && o->record) {
        root_record(&t->root, o->record);
    }
    return rc;
}

/* The processor that is stated or that of the machine it will run on; NULL: that of the root. */
static int find_cpu(struct model_target *t, struct arena *a, const struct model_target_options *o,
                    const struct ldso_cpu **ret, struct gm_err *err)
{
    struct root host;
    *ret = o->cpu;
    int rc = o->host_path ? open_host(o, &host, err) : 0;
    if (rc < 0) {
        return rc;
    }
    if (!o->cpu && o->pid) {
        ldso_cpu_host(ldso_cpu_own_machine(), &t->cpu);
        *ret = &t->cpu;
    } else if (!o->cpu && o->host_path) {
        uint16_t machine = host_machine(&host, a);
        ldso_cpu_of(&host, a, machine ? machine : EM_X86_64, &t->cpu);
        *ret = &t->cpu;
    }
    if (o->host_path) {
        root_close(&host);
    }
    return 0;
}

int model_target_open(struct model_target *t, struct arena *a, const struct model_target_options *o,
                      struct gm_err *err)
{
    *t = (struct model_target){.root = ROOT_EMPTY};
    struct model *m = &t->model;
    const char *root_path = o->pid         ? arena_printf(a, "/proc/%d/root", o->pid)
                            : o->root_path ? o->root_path
                                           : "/";
    int rc = open_root(t, o, root_path, err);
    if (rc < 0 && o->pid && kill(o->pid, 0) < 0 && errno == ESRCH) {
        return gm_err_set(err, GM_ERR_LOOK, "there is no process %d", o->pid);
    }
    if (rc < 0) {
        return rc;
    }
    t->root.on_look = o->on_look;
    t->root.on_look_arg = o->on_look_arg;
    ldso_store_open(&t->store, &t->root, a);
    m->root = &t->root;
    m->arena = a;
    m->store = &t->store;
    m->kb = &t->kb;
    m->config = (struct ldso_config){.cwd = o->root_path ? "/" : o->cwd,
                                     .env = o->env,
                                     .n_env = o->n_env,
                                     .uid = o->uid,
                                     .glibc_minor = o->glibc_minor,
                                     .page_size = o->page_size};
    rc = find_cpu(t, a, o, &m->config.cpu, err);
    rc = rc < 0 ? rc : open_knowledge(t, o, err);
    if (rc < 0) {
        return rc;
    }
    rc = target_look(t, o, err);
    if (rc == 0) {
        look_at_host(t, o); // a live process brings its own environment
    }
    if (rc == 0 && !o->takes_windows && t->host.windows.is_windows.state == HOST_YES) {
        return gm_err_set(err, GM_ERR_LOOK,
                          "this is a Windows tree, which only check, fix, why, devices, choose, "
                          "setup and snapshot look at");
    }
    return rc;
}

static void close_knowledge(struct model_target *t)
{
    if (t->kb_root) {
        root_close(t->kb_root);
    }
    t->kb_root = NULL;
}

void model_target_close(struct model_target *t)
{
    ldso_store_close(&t->store);
    kb_close(&t->kb);
    close_knowledge(t);
    root_close(&t->root);
}

void model_target_leave(struct model_target *t)
{
    ldso_store_leave(&t->store);
    close_knowledge(t);
    root_close(&t->root);
}
