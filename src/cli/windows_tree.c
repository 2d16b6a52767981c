#include "cli/windows_tree.h"

#include <string.h>

#include "winldr/path.h"
#include "winldr/syspath.h"

const char *cli_windows_target(const struct winldr_files *files, struct arena *a, const char *path)
{
    const char *name = path && path[0] == '/' ? winldr_files_name(files, a, path) : NULL;
    return name ? name : path;
}

/* The machine of the tree, or NULL. */
static const struct host *machine_of(struct arena *a, struct root *root)
{
    struct host *host = arena_alloc(a, sizeof *host);
    struct gm_err err;
    if (host_collect(root, a, host, &err) < 0 || host->windows.is_windows.state != HOST_YES) {
        return NULL;
    }
    host_judge(host, a);
    return host;
}

/* The user whose process it is: the one whose folder the environment is in; of another folder only
 * if there is one user. NULL: not known, or none. */
static const struct host_windows_user *user_of(struct arena *a, const struct host_windows *w,
                                               const char *folder)
{
    const struct host_windows_user *user = w->users.n == 1 ? &w->users.items[0] : NULL;
    for (size_t i = 0; i < w->users.n; i++) {
        const char *home = winldr_path_join(a, "C:\\Users", w->users.items[i].name);
        if (winldr_path_is_below(folder, home)) {
            user = &w->users.items[i];
        }
    }
    return user;
}

/* PATH: the system's, then the user's. NULL: not known. */
static const char *windows_path_value(struct arena *a, const struct host_windows *w,
                                      const struct host_windows_user *user)
{
    if (w->path.state != HOST_YES || (w->users.n && !user) ||
        (user && user->path.state == HOST_UNKNOWN)) {
        return NULL;
    }
    return user && user->path.state == HOST_YES
               ? arena_printf(a, "%s;%s", w->path.value, user->path.value)
               : w->path.value;
}

/* A user's own variable counts before that of all users. */
static const char *variable_for(const struct host *host, const struct host_windows_user *user,
                                const char *name)
{
    for (size_t i = 0; user && i < user->variables.n; i++) {
        if (strcmp(user->variables.items[i].name, name) == 0) {
            return user->variables.items[i].value;
        }
    }
    return host_variable(host, name);
}

/* Names of variables differ in nothing by their case there. */
static const char *variable_of(const struct cli_env *env, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; env && i < env->vars.n; i++) {
        struct str rest = str_of(env->vars.items[i]);
        if (winldr_name_part_is(str_cut(&rest, '='), (struct str){name, n})) {
            return rest.s;
        }
    }
    return NULL;
}

static const char *setting_named(const struct host_setting *settings, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(settings[i].name, name) == 0) {
            return settings[i].value;
        }
    }
    return NULL;
}

/* One of Python's own variables. */
static const char *python_variable(const struct host *host, const struct host_windows_user *user,
                                   const struct cli_env *env, const char *name)
{
    const char *value = variable_of(env, name);
    value = value || !user ? value : setting_named(user->python.items, user->python.n, name);
    return value || !host ? value
                          : setting_named(host->windows.python.items, host->windows.python.n, name);
}

/* What the registry adds to sys.path of this release: the user's entries come first. */
static host_texts registered_paths(struct arena *a, const struct host *host,
                                   const struct host_windows_user *user, const char *winver)
{
    host_texts found = {0};
    const char *tag = winver ? arena_printf(a, "%c.%s", winver[0], winver + 1) : NULL;
    for (size_t pass = 0; tag && host && pass < 2; pass++) {
        for (size_t i = 0; i < host->windows.pythons.n; i++) {
            const struct host_windows_python *x = &host->windows.pythons.items[i];
            bool counts = pass ? !x->user : user && x->user && strcmp(x->user, user->name) == 0;
            if (!counts || !winldr_name_is(x->company, "PythonCore") ||
                !winldr_name_is(x->tag, tag)) {
                continue;
            }
            for (size_t k = 0; k < x->paths.n; k++) {
                VEC_PUSH(a, &found, x->paths.items[k]);
            }
        }
    }
    return found;
}

/* The folder of the user who starts it, or NULL: not known. */
static const char *home_of(struct arena *a, struct winldr_files *f,
                           const struct host_windows_user *user, const char *folder)
{
    struct winldr_names users = winldr_files_list(f, "C:\\Users");
    for (size_t i = 0; i < users.n; i++) {
        const char *home = winldr_path_join(a, "C:\\Users", users.items[i]);
        if (winldr_path_is_below(folder, home)) {
            return home;
        }
    }
    return user ? winldr_path_join(a, "C:\\Users", user->name) : NULL;
}

static void set_syspath(struct arena *a, struct winldr_files *f, const struct host *host,
                        const struct cli_env *env, struct winldr_python *py)
{
    const struct host_windows_user *user = host ? user_of(a, &host->windows, py->folder) : NULL;
    host_texts registered = registered_paths(a, host, user, winldr_winver(f, py));
    const char *none = python_variable(host, user, env, "PYTHONNOUSERSITE");
    const struct winldr_syspath_hints hints = {
        .pythonpath = python_variable(host, user, env, "PYTHONPATH"),
        .user_base = python_variable(host, user, env, "PYTHONUSERBASE"),
        .no_user_site = none && *none,
        .app_data = variable_of(env, "APPDATA"),
        .home = home_of(a, f, user, py->folder),
        .registered = (const char *const *)registered.items,
        .n_registered = registered.n,
    };
    winldr_syspath_set(f, &hints, py);
}

/* Why the registry does not say all variables, or NULL. With APPDATA, they are those of a process
 * of Windows. */
static const char *variables_unseen(const struct host *host, const struct host_windows_user *user,
                                    const struct cli_env *env)
{
    const struct host_windows *w = host ? &host->windows : NULL;
    return variable_of(env, "APPDATA")               ? NULL
           : !w || w->registry.state != HOST_YES     ? "the registry could not be read"
           : w->is_dirty || (user && user->is_dirty) ? "the registry " HOST_DIRTY_HIVE
           : user && !user->is_read                  ? "the user's registry could not be read"
           : w->users.n && !user                     ? "which of the users starts it is not known"
                                                     : NULL;
}

static void set_environment(struct arena *a, const struct host *host, const struct cli_env *env,
                            struct winldr_python *py)
{
    if (host) {
        const struct host_windows_user *user = user_of(a, &host->windows, py->folder);
        py->path = windows_path_value(a, &host->windows, user);
        py->cuda_path = variable_for(host, user, "CUDA_PATH");
        py->hip_path = variable_for(host, user, "HIP_PATH");
        py->unsafe_search = host->windows.safe_search.state == HOST_NO;
        for (size_t i = 0; i < WINLDR_N_VARIABLES; i++) {
            py->variables[i] = variable_for(host, user, winldr_variable_names[i]);
        }
        py->known_dlls = host->windows.known_dlls.items; // NULL where there are none
        py->n_known_dlls = host->windows.known_dlls.n;
    }
    py->variables_unseen =
        variables_unseen(host, host ? user_of(a, &host->windows, py->folder) : NULL, env);
    const char *path = variable_of(env, "PATH"), *cuda = variable_of(env, "CUDA_PATH");
    const char *hip = variable_of(env, "HIP_PATH");
    for (size_t i = 0; i < WINLDR_N_VARIABLES; i++) {
        const char *value = variable_of(env, winldr_variable_names[i]);
        py->variables[i] = value ? value : py->variables[i];
    }
    py->path = path ? path : py->path;
    py->cuda_path = cuda ? cuda : py->cuda_path;
    py->hip_path = hip ? hip : py->hip_path;
}

int cli_windows_open(struct cli_windows_tree *t, struct arena *a, struct root *root,
                     const char *target, const struct cli_env *env, struct gm_err *err)
{
    struct winldr_pythons pythons;
    *t = (struct cli_windows_tree){0};
    winldr_files_open_root(&t->files, root, a);
    t->target = cli_windows_target(&t->files, a, target);
    if (!winldr_is_tree(&t->files, t->target)) {
        return 0;
    }
    t->host = machine_of(a, root);
    int rc = kb_open(&t->kb, a, root, NULL, err);
    if (rc < 0) {
        return rc;
    }
    winldr_find_pythons(&t->files, t->target, &pythons);
    for (size_t i = 0; !t->target && t->host && i < t->host->windows.pythons.n; i++) {
        if (t->host->windows.pythons.items[i].install) {
            winldr_add_python(&t->files, t->host->windows.pythons.items[i].install, &pythons);
        }
    }
    t->n = pythons.items.n;
    t->all = arena_array(a, t->n + 1, sizeof *t->all);
    for (size_t i = 0; i < t->n; i++) {
        struct winldr_python *py = &pythons.items.items[i];
        set_environment(a, t->host, env, py);
        set_syspath(a, &t->files, t->host, env, py);
        t->all[i] = (struct diag_windows){
            .arena = a, .files = &t->files, .py = py, .kb = &t->kb, .host = t->host};
    }
    return 1;
}

void cli_windows_judge(struct cli_windows_tree *t)
{
    for (size_t i = 0; i < t->n; i++) {
        diag_windows_judge(&t->all[i]);
    }
}

void cli_windows_close(struct cli_windows_tree *t)
{
    winldr_files_close(&t->files);
}
