/*
 * Launchers that choose a Python environment: uv, conda, pixi, poetry, pipenv, pdm. Sources:
 * `uv run --help` of uv 0.13 and uv's documentation "Running commands in projects", `conda run
 * --help` of conda 24, micromamba 2.0, pixi 0.40, poetry 1.8, pipenv 2024, pdm 2.22.
 */
#include <string.h>

#include "launch/launcher.h"
#include "launch/start.h"
#include "launch/uv.h"

static bool start_is_folder(struct launch_start *s, const char *path)
{
    struct stat st;
    return root_stat(s->root, path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool start_is_there(struct launch_start *s, const char *path)
{
    struct stat st;
    return root_stat(s->root, path, &st) == 0;
}

/* The nearest folder from `start` upwards that has one of these names; NULL: none. */
static const char *project_of(struct launch_start *s, const char *start, const char *const *names)
{
    const char *dir = start ? path_normal(s->a, start) : NULL;
    for (int i = 0; dir && i < 64; i++) {
        for (size_t k = 0; names[k]; k++) {
            if (start_is_there(s, path_join(s->a, dir, names[k]))) {
                return dir;
            }
        }
        dir = dir[1] ? path_dir(s->a, dir) : NULL;
    }
    return NULL;
}

/* A task of the project: its commands run in the environment. */
static int start_task(struct launch_start *s, const char *python)
{
    s->out->kind = LAUNCH_PYTHON;
    s->out->python = python;
    s->out->elf = NULL;
    return start_is_there(s, python) ? 0
                                     : launch_start_unseen(s, "its environment has no interpreter");
}

/* The words behind in an environment: a script of Python goes to its interpreter. Tools with tasks
 * run a task rather than a program of the same name elsewhere. */
static int start_in(struct launch_start *s, const char *prefix, bool has_tasks, launch_words *w)
{
    launch_words words = {0};
    const char *python = path_join(s->a, prefix, "bin/python");
    launch_start_enter(s, prefix);
    if (!w->n) {
        return launch_start_unseen(s, NULL);
    }
    const char *script = launch_start_path(s, w->items[0]);
    const char *found = NULL;
    if (script && ends_with(script, ".py") && start_is_there(s, script)) {
        VEC_PUSH(s->a, &words, python);
    } else if (w->items[0] != launch_unknown && launch_start_find(s, w->items[0], &found) < 0) {
        return start_task(s, python);
    }
    for (size_t i = 0; i < w->n; i++) {
        VEC_PUSH(s->a, &words, w->items[i]);
    }
    int rc = launch_start_by_words(s, &words);
    bool elsewhere = found && !strchr(w->items[0], '/') &&
                     strcmp(path_dir(s->a, found), path_dir(s->a, python)) != 0;
    return rc == 0 && has_tasks && elsewhere && s->out->kind == LAUNCH_ELF ? start_task(s, python)
                                                                           : rc;
}

static int no_environment(struct launch_start *s, const char *name, const char *where)
{
    return launch_start_unseen(
        s, arena_printf(s->a, "the environment that %s uses is not found: %s", name, where));
}

static const char *known_variable(struct launch_start *s, const char *name)
{
    const char *value = launch_start_variable(s, name);
    return value && value != launch_unknown && *value ? value : NULL;
}

/* As uv reads a flag (uv, EnvVars): what is not one of its words for yes is no. */
static bool uv_flag(struct launch_start *s, const char *name)
{
    const char *value = known_variable(s, name);
    return value && launch_option_is_in("1 y yes t true on Y YES Yes T TRUE True ON On", value);
}

/* Where uv makes the environment: beside the pyproject.toml of the project or of its workspace,
 * unless a variable says otherwise; without a project the active one, or the nearest .venv.
 * *ret_why: why it is not known, a clause. */
static const char *uv_environment(struct launch_start *s, const given_list *given,
                                  const char **ret_why)
{
    static const char *const project[] = {"pyproject.toml", NULL}, *const venv[] = {".venv", NULL};
    const char *asked = launch_given_value(given, "project", "project");
    asked = asked ? asked : known_variable(s, "UV_PROJECT");
    const char *from = launch_start_path(s, asked ? asked : ".");
    const char *active = known_variable(s, "VIRTUAL_ENV");
    const char *named = known_variable(s, "UV_PROJECT_ENVIRONMENT");
    bool no_project =
        launch_given_value(given, "no-project", "no-project") || uv_flag(s, "UV_NO_PROJECT");
    const char *dir = no_project ? NULL : project_of(s, from, project);
    *ret_why = NULL;
    if (dir && !(active && launch_given_value(given, "active", "active"))) {
        const char *root = launch_uv_root(s, dir);
        if (!root && !(named && named[0] == '/')) {
            *ret_why = arena_printf(
                s->a, "whether %s is a member of the workspace above it is not known", dir);
            return NULL;
        }
        return named && named[0] == '/' ? named : path_join(s->a, root, named ? named : ".venv");
    }
    dir = active ? NULL : project_of(s, from, venv);
    *ret_why = "neither pyproject.toml nor .venv is here or above";
    return active ? launch_start_path(s, active) : dir ? path_join(s->a, dir, ".venv") : NULL;
}

/* PEP 723: a script that names its own requirements gets an environment of its own. */
static bool has_own_requirements(struct launch_start *s, const launch_words *w)
{
    struct str text, line;
    const char *path = w->n ? launch_start_path(s, w->items[0]) : NULL;
    if (!path || !ends_with(path, ".py") ||
        root_read_head(s->root, s->a, path, LAUNCH_START_TEXT_MAX, &text, NULL) < 0) {
        return false;
    }
    while (str_line(&text, &line)) {
        if (str_is(str_trim(line), "# /// script")) {
            return true;
        }
    }
    return false;
}

/* Why uv runs the words in an environment that it makes for them, a clause; NULL: it does not. */
static const char *uv_makes_its_own(struct launch_start *s, const char *name,
                                    const given_list *given, const launch_words *w)
{
    static const char own[] = "with with-editable with-requirements w isolated script s";
    for (size_t i = 0; i < given->n; i++) {
        if (launch_option_is_in(own, given->items[i].name)) {
            return arena_printf(s->a, "%s makes an environment for this command (%s)", name,
                                given->items[i].name);
        }
    }
    if (uv_flag(s, "UV_ISOLATED")) {
        return arena_printf(s->a, "%s makes an environment for this command (UV_ISOLATED)", name);
    }
    return has_own_requirements(s, w) ? "uv makes an environment for this script, which names its "
                                        "own requirements"
                                      : NULL;
}

int launch_start_by_uv(struct launch_start *s, const char *name, const given_list *given,
                       launch_words *w)
{
    const char *folder = launch_given_value(given, "directory", "directory"), *why = NULL;
    folder = folder ? folder : known_variable(s, "UV_WORKING_DIR");
    folder = folder ? folder : known_variable(s, "UV_WORKING_DIRECTORY");
    s->cwd = folder && launch_start_path(s, folder) ? launch_start_path(s, folder) : s->cwd;
    const char *own = uv_makes_its_own(s, name, given, w);
    if (own) {
        return launch_start_unseen(s, own);
    }
    const char *prefix = uv_environment(s, given, &why);
    if (!prefix || !start_is_folder(s, prefix)) {
        return no_environment(s, name,
                              prefix ? arena_printf(s->a, "%s is not there", prefix) : why);
    }
    if (launch_given_value(given, "m", "module") && w->n) {
        s->out->kind = LAUNCH_PYTHON;
        s->out->python = path_join(s->a, prefix, "bin/python");
        s->out->module = w->items[0];
        launch_start_enter(s, prefix);
        return 0;
    }
    return start_in(s, prefix, false, w);
}

int launch_start_by_project(struct launch_start *s, const char *name, const given_list *given,
                            launch_words *w)
{
    static const char *const files[] = {"pyproject.toml", "Pipfile", "pdm.toml",
                                        "hatch.toml",     ".venv",   NULL};
    const char *asked = launch_given_value(given, "C", "directory");
    asked = asked ? asked : launch_given_value(given, "p", "project");
    const char *dir = project_of(s, launch_start_path(s, asked ? asked : "."), files);
    const char *active = known_variable(s, "VIRTUAL_ENV");
    const char *prefix = dir ? path_join(s->a, dir, ".venv") : NULL;
    bool hatch = strcmp(name, "hatch") == 0, own = prefix && !hatch && start_is_folder(s, prefix);
    if (active && !hatch && launch_start_path(s, active)) {
        return start_in(s, launch_start_path(s, active), true, w);
    }
    return own ? start_in(s, prefix, true, w)
               : no_environment(s, name, "it keeps it outside the project's folder");
}

int launch_start_by_pixi(struct launch_start *s, const char *name, const given_list *given,
                         launch_words *w)
{
    static const char *const files[] = {"pixi.toml", ".pixi", NULL};
    const char *asked = launch_given_value(given, "manifest-path", "manifest-path");
    const char *env = launch_given_value(given, "e", "environment");
    const char *dir = asked ? path_dir(s->a, asked) : NULL;
    dir = dir ? launch_start_path(s, dir) : project_of(s, launch_start_path(s, "."), files);
    const char *prefix =
        dir ? arena_printf(s->a, "%s/.pixi/envs/%s", dir, env ? env : "default") : NULL;
    return prefix && start_is_folder(s, prefix)
               ? start_in(s, prefix, true, w)
               : no_environment(s, name,
                                prefix ? arena_printf(s->a, "%s is not there", prefix)
                                       : "pixi.toml is neither here nor above");
}

/* The folder of a conda environment by its name: below the installation that the program belongs
 * to, or the user's own folders. */
static const char *conda_prefix(struct launch_start *s, const char *name)
{
    static const char *const homes[] = {".conda",    "miniconda3", "miniforge3",
                                        "anaconda3", "mambaforge", "micromamba"};
    const char *exe = known_variable(s, "CONDA_EXE"), *home = known_variable(s, "HOME"),
               *found = NULL;
    launch_words roots = {0};
    if (launch_start_find(s, "conda", &found) == 0 || (found = exe)) {
        VEC_PUSH(s->a, &roots, path_dir(s->a, path_dir(s->a, found)));
    }
    if (known_variable(s, "MAMBA_ROOT_PREFIX")) {
        VEC_PUSH(s->a, &roots, known_variable(s, "MAMBA_ROOT_PREFIX"));
    }
    VEC_PUSH(s->a, &roots, "/opt/conda");
    for (size_t i = 0; home && i < sizeof homes / sizeof *homes; i++) {
        VEC_PUSH(s->a, &roots, path_join(s->a, home, homes[i]));
    }
    for (size_t i = 0; i < roots.n; i++) {
        const char *prefix = strcmp(name, "base") == 0
                                 ? roots.items[i]
                                 : arena_printf(s->a, "%s/envs/%s", roots.items[i], name);
        if (start_is_folder(s, path_join(s->a, prefix, "conda-meta"))) {
            return prefix;
        }
    }
    return NULL;
}

int launch_start_by_conda(struct launch_start *s, const char *name, const given_list *given,
                          launch_words *w)
{
    const char *prefix = launch_given_value(given, "p", "prefix"),
               *env = launch_given_value(given, "n", "name");
    const char *folder = launch_given_value(given, "cwd", "cwd");
    if (env == launch_unknown || prefix == launch_unknown) {
        return launch_start_unseen(s, "the name of the environment is known only by running it");
    }
    s->cwd = folder && launch_start_path(s, folder) ? launch_start_path(s, folder) : s->cwd;
    prefix = prefix                    ? launch_start_path(s, prefix)
             : env && strchr(env, '/') ? launch_start_path(s, env)
             : env                     ? conda_prefix(s, env)
                                       : known_variable(s, "CONDA_PREFIX");
    return prefix && start_is_folder(s, prefix)
               ? start_in(s, prefix, false, w)
               : no_environment(s, name,
                                env ? arena_printf(s->a, "no folder of conda has envs/%s", env)
                                    : "no environment is named (-n, -p)");
}
