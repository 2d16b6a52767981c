/* Which tool keeps an environment, by what the tools leave there and beside it. */
#include <string.h>

#include "base/str.h"
#include "py/internal.h"

enum {
    PDM_FILE_BYTES_MAX = 4096,
    PROJECT_FILE_BYTES_MAX = 4096,
};

static bool beside(struct py_env *env, const char *folder, const char *name)
{
    return py_is_file(env, path_join(env->arena, folder, name));
}

/* The environment that pdm uses for a project: it writes its interpreter into .pdm-python (pdm's
 * documentation, "Working with Virtual Environments"). NULL: it names none. */
const char *py_manager_pdm(struct py_env *env, const char *project)
{
    struct arena *a = env->arena;
    struct str text;
    bool all = false;
    char *file = path_join(a, project, ".pdm-python");
    if (!py_is_file(env, file) || py_read_head(env, file, PDM_FILE_BYTES_MAX, &text, &all) < 0 ||
        !all) {
        return NULL;
    }
    const char *named = str_dup(a, str_trim(text));
    return *named == '/' ? path_dir(a, path_dir(a, named)) : NULL;
}

/* An environment in a project's folder: pdm by the file that names it, uv by pyvenv.cfg and its
 * lock, poetry by its lock (and by the prompt of its environments, anywhere). */
static const char *of_project(struct py_env *env, const char *project)
{
    const char *pdm = py_manager_pdm(env, project);
    return (pdm && strcmp(pdm, env->prefix) == 0) || beside(env, project, "pdm.lock") ? "pdm"
           : beside(env, project, "poetry.lock")                                      ? "poetry"
           : beside(env, project, "Pipfile.lock")                                     ? "pipenv"
                                                                                      : NULL;
}

/* poetry's own prompt, "NAME-py3.12" (its documentation, virtualenvs.prompt), in what virtualenv
 * made for that Python. */
static bool has_prompt_of_poetry(struct py_env *env)
{
    const char *prompt = env->prompt ? strrchr(env->prompt, '-') : NULL;
    return env->kind == PY_ENV_VIRTUALENV && prompt && prompt > env->prompt &&
           strcmp(prompt, arena_printf(env->arena, "-py%d.%d", env->major, env->minor)) == 0;
}

/* Folders of their own: poetry's "cache-dir"/virtualenvs, pdm's "venv.location", pipenv's
 * WORKON_HOME, in which it writes .project (their documentation). */
static const char *of_place(struct py_env *env)
{
    const char *parent = path_dir(env->arena, env->prefix);
    return ends_with(parent, "/pypoetry/virtualenvs")                                  ? "poetry"
           : ends_with(parent, "/pdm/venvs")                                           ? "pdm"
           : ends_with(parent, "/virtualenvs") && beside(env, env->prefix, ".project") ? "pipenv"
                                                                                       : NULL;
}

/* The project of an environment that its own tool keeps by a lock. pixi's default environment has
 * the packages of the default feature, to which `pixi add` adds; the features of the others are
 * named in the manifest alone. pipenv names the project in .project. */
static const char *project_of(struct py_env *env)
{
    static const char *const locks[][2] = {{"uv", "uv.lock"},
                                           {"poetry", "poetry.lock"},
                                           {"pdm", "pdm.lock"},
                                           {"pipenv", "Pipfile.lock"},
                                           {"pixi", "pixi.lock"}};
    struct arena *a = env->arena;
    const char *project = NULL;
    struct str text;
    bool all = false;
    if (ends_with(env->prefix, "/.pixi/envs/default")) {
        project = path_dir(a, path_dir(a, path_dir(a, env->prefix)));
    } else if (strcmp(path_base(env->prefix), ".venv") == 0) {
        project = path_dir(a, env->prefix);
    } else if (strcmp(env->manager, "pipenv") == 0 &&
               py_is_file(env, path_join(a, env->prefix, ".project")) &&
               py_read_head(env, path_join(a, env->prefix, ".project"), PROJECT_FILE_BYTES_MAX,
                            &text, &all) == 0 &&
               all) {
        project = str_dup(a, str_trim(text));
    }
    for (size_t i = 0; project && i < sizeof locks / sizeof *locks; i++) {
        if (strcmp(env->manager, locks[i][0]) == 0 && beside(env, project, locks[i][1])) {
            return project;
        }
    }
    return NULL;
}

static void name_manager(struct py_env *env)
{
    struct arena *a = env->arena;
    if (env->kind == PY_ENV_CONDA) {
        // pixi writes conda-meta/pixi (its documentation, "Environment Installation Metadata").
        bool pixi = beside(env, path_join(a, env->prefix, "conda-meta"), "pixi") ||
                    ends_with(path_dir(a, env->prefix), "/.pixi/envs");
        env->manager = pixi ? "pixi" : "conda";
        return;
    }
    if (env->kind != PY_ENV_VENV && env->kind != PY_ENV_VIRTUALENV) {
        return;
    }
    env->manager = of_place(env);
    if (!env->manager && strcmp(path_base(env->prefix), ".venv") == 0) {
        env->manager = of_project(env, path_dir(a, env->prefix));
    }
    if (!env->manager && env->made_by_uv) {
        env->manager = "uv";
    }
    if (!env->manager && has_prompt_of_poetry(env)) {
        env->manager = "poetry";
    }
}

void py_manager(struct py_env *env)
{
    name_manager(env);
    env->project = env->manager ? project_of(env) : NULL;
}

void py_manager_elsewhere(struct py_env *env, const char *project)
{
    static const struct {
        const char *file, *tool, *prints;
    } tools[] = {{"poetry.lock", "poetry", "poetry env info --path"},
                 {"Pipfile.lock", "pipenv", "pipenv --venv"},
                 {"pdm.lock", "pdm", "pdm info --python"},
                 {"uv.lock", "uv", NULL},
                 {"pixi.lock", "pixi", NULL}};
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        if (!beside(env, project, tools[i].file)) {
            continue;
        }
        if (tools[i].prints) {
            py_note(env,
                    "%s is in the working directory, and %s keeps the environment elsewhere: "
                    "name it as TARGET (%s prints it)",
                    tools[i].file, tools[i].tool, tools[i].prints);
        } else {
            py_note(env, "%s is in the working directory, and %s has not made its environment yet",
                    tools[i].file, tools[i].tool);
        }
        return;
    }
}
