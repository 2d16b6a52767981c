/*
 * The words for pip and uv: which interpreter installs, into which folder, and what a Python that
 * the distribution manages needs first.
 */
#include <errno.h>
#include <string.h>

#include "diag/internal.h"
#include "diag/wanted.h"
#include "host/manager.h"
#include "kb/libver.h"
#include "kb/package.h"
#include "model/package.h"
#include "py/dist.h"

static bool uses_uv(const struct model *m)
{
    struct py_env *env = m->env;
    return env && env->kind != PY_ENV_SYSTEM && !py_env_by_dist(env, "pip");
}

static const char *python_of(struct model *m)
{
    const struct py_env *env = m->env;
    return diag_shell_word(m->arena, env && env->executable ? env->executable : "python3");
}

const char *diag_copy_command(struct arena *a, const char *words, const char *file)
{
    const char *from = diag_shell_word(a, file);
    const char *copy = diag_shell_word(a, arena_printf(a, "%s.gpumend-new", file));
    return arena_printf(a, "cp -p %s %s && %s %s && mv -f %s %s", from, copy, words, copy, copy,
                        from);
}

bool diag_has_path(struct model *m, const char *path)
{
    struct stat st;
    return root_stat(m->root, path, &st) == 0;
}

bool diag_is_managed(struct model *m)
{
    const struct py_env *env = m->env;
    bool is_base = env && env->base_prefix && strcmp(env->prefix, env->base_prefix) == 0;
    return is_base && env->stdlib && env->executable &&
           diag_has_path(m, path_join(m->arena, env->stdlib, "EXTERNALLY-MANAGED"));
}

bool diag_is_image(struct model *m)
{
    return diag_has_path(m, "/.dockerenv") || diag_has_path(m, "/run/.containerenv") ||
           m->host_elsewhere || (!m->root->is_host && !m->host);
}

/* What has to be installed first, by the distribution's own manager: "apt-get install -y X && ". */
static const char *first_install(struct model *m, bool venv)
{
    enum host_manager manager = host_manager(m->root, m->arena);
    const struct host_manager_words *w = host_manager_words(manager);
    const struct kb_provider *v =
        w ? kb_package_by_id(m->kb, venv ? "venv" : "pip", kb_manager_of(manager)) : NULL;
    return v ? arena_printf(m->arena, "%s %s && ", w->build, v->package) : "";
}

/* The distribution's own Python may have no pip, and pip may refuse it (PEP 668). What is thrown
 * away with an image is changed all the same; elsewhere an environment over it takes the packages.
 */
static const char *system_pip(struct model *m, const char *arguments)
{
    const char *python = python_of(m);
    bool managed = diag_is_managed(m), has_pip = py_env_by_dist(m->env, "pip") != NULL;
    if (!managed || diag_is_image(m)) {
        return arena_printf(m->arena, "%s%s -m pip install %s%s",
                            has_pip ? "" : first_install(m, false), python,
                            managed ? "--break-system-packages " : "", arguments);
    }
    bool can_make = diag_has_path(m, path_join(m->arena, m->env->stdlib, "ensurepip"));
    return arena_printf(m->arena,
                        "%s%s -m venv --system-site-packages " DIAG_NEW_VENV " && " DIAG_NEW_VENV
                        "/bin/python -m pip install %s",
                        can_make ? "" : first_install(m, true), python, arguments);
}

/* Whether the commands make an environment over the distribution's own Python. */
static bool makes_environment(struct model *m)
{
    return m->env && m->env->kind == PY_ENV_SYSTEM && diag_is_managed(m) && !diag_is_image(m);
}

const char *diag_pip_folder(struct model *m, const char *beside)
{
    if (makes_environment(m)) {
        return m->env->purelib;
    }
    return m->env ? py_env_pip_folder(m->env, beside) : NULL;
}

const char *diag_prepend_folders(struct model *m, const char *folders)
{
    struct arena *a = m->arena;
    bool moved = makes_environment(m);
    const char *words = "";
    for (struct str rest = str_of(folders); rest.s;) {
        const char *folder = str_dup(a, str_cut(&rest, ':'));
        size_t n =
            moved && m->env->purelib && !diag_has_path(m, folder) ? strlen(m->env->purelib) : 0;
        const char *below =
            n && strncmp(folder, m->env->purelib, n) == 0 && folder[n] == '/' ? folder + n : NULL;
        const char *word = below ? arena_printf(a, "\"$PWD\"/%s/lib/python%d.%d/site-packages%s",
                                                &DIAG_NEW_VENV[strlen("./")], m->env->major,
                                                m->env->minor, diag_shell_word(a, below))
                                 : diag_shell_word(a, folder);
        words = arena_printf(a, "%s%s%s", words, *words ? ":" : "", word);
    }
    return arena_printf(a, "export LD_LIBRARY_PATH=%s\"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\"",
                        words);
}

/* pixi's manifest is a file of its own or part of pyproject.toml (its documentation). */
static const char *pixi_manifest(struct model *m)
{
    const char *own = path_join(m->arena, m->env->project, "pixi.toml");
    return diag_shell_word(m->arena, diag_has_path(m, own)
                                         ? own
                                         : path_join(m->arena, m->env->project, "pyproject.toml"));
}

const char *diag_pixi_command(struct model *m, const char *packages)
{
    return m->env->project ? arena_printf(m->arena, "pixi add --manifest-path %s %s",
                                          pixi_manifest(m), packages)
                           : NULL;
}

/* Of an environment that a tool keeps by a lock: what another installer puts there is not in the
 * lock, and the tool's next sync takes it back. Only names can be added, no option of pip. Their
 * documentation: uv "add" (--project), poetry "Global options" (-C), pdm "add" (-p), pipenv
 * "install" (in the project's folder), pixi "add" (--manifest-path, --pypi). NULL: none. */
static const char *project_command(struct model *m, const char *arguments)
{
    static const struct {
        const char *tool, *words;
    } tools[] = {{"uv", "uv add --project {at} {names}"},
                 {"poetry", "poetry -C {at} add {names}"},
                 {"pdm", "pdm add -p {at} {names}"},
                 {"pipenv", "PIPENV_PIPFILE={at}/Pipfile pipenv install {names}"},
                 {"pixi", "pixi add --manifest-path {at} --pypi {names}"}};
    const struct py_env *env = m->env;
    if (!env || !env->project || m->host_elsewhere || *arguments == '-' ||
        strstr(arguments, " -")) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        if (strcmp(env->manager, tools[i].tool) == 0) {
            const char *at = strcmp(env->manager, "pixi") == 0
                                 ? pixi_manifest(m)
                                 : diag_shell_word(m->arena, env->project);
            const char *words = kb_fill(m->arena, tools[i].words, "{names}", arguments);
            return kb_fill(m->arena, words, "{at}", at);
        }
    }
    return NULL;
}

static const char *environment_command(struct model *m, const char *arguments)
{
    if (m->env && m->env->kind == PY_ENV_SYSTEM) {
        return system_pip(m, arguments);
    }
    return arena_printf(m->arena,
                        uses_uv(m) ? "uv pip install --python %s %s" : "%s -m pip install %s",
                        python_of(m), arguments);
}

const char *diag_pip_command(struct model *m, const char *arguments)
{
    const char *add = project_command(m, arguments);
    return add ? add : environment_command(m, arguments);
}

/* Each release of the others is for one of torch, and is built for the same CUDA or ROCm. */
static const char *const torch_family[] = {"torch", "torchvision", "torchaudio"};
enum { N_TORCH_FAMILY = sizeof torch_family / sizeof *torch_family };

bool diag_is_torch_family(const char *name)
{
    bool found = false;
    for (size_t i = 0; i < N_TORCH_FAMILY; i++) {
        found = found || strcmp(name, torch_family[i]) == 0;
    }
    return found;
}

static bool has_dist(const struct diag *d, const char *name)
{
    return d->m->env && py_env_by_dist(d->m->env, name);
}

/* torchvision's metadata name its torch; torchaudio's do not. */
const char *diag_torch_others(struct diag *d, const char *release)
{
    const char *audio = arena_printf(d->a, "torchaudio%s", model_torchaudio_pair(d->a, release));
    return arena_printf(d->a, "%s%s%s", has_dist(d, "torchvision") ? " torchvision" : "",
                        has_dist(d, "torchaudio") ? " " : "",
                        has_dist(d, "torchaudio") ? diag_quote(d, audio) : "");
}

/* uv knows where PyTorch serves each build from (its option --torch-backend; uv, "Using uv with
 * PyTorch"); pip would need the address. */
const char *diag_torch_command(struct diag *d, const char *release, const char *build)
{
    const char *again = "";
    for (size_t i = 0; i < N_TORCH_FAMILY; i++) {
        if (i == 0 || has_dist(d, torch_family[i])) {
            again = arena_printf(d->a, "%s --reinstall-package %s", again, torch_family[i]);
        }
    }
    return arena_printf(d->a, "uv pip install --python %s%s --torch-backend=%s torch==%s%s",
                        python_of(d->m), again, build, diag_quote(d, release),
                        diag_torch_others(d, release));
}

const char *diag_pip(struct diag *d, const char *arguments)
{
    return diag_pip_command(d->m, arguments);
}

const char *diag_pip_here(struct diag *d, const char *arguments)
{
    return environment_command(d->m, arguments);
}

const char *diag_pip_remove(struct diag *d, const char *packages)
{
    return arena_printf(d->a,
                        uses_uv(d->m) ? "uv pip uninstall --python %s %s"
                        : diag_is_managed(d->m) && diag_is_image(d->m)
                            ? "%s -m pip uninstall --break-system-packages -y %s"
                            : "%s -m pip uninstall -y %s",
                        python_of(d->m), packages);
}

const char *diag_reinstall_command(struct model *m, const char *owner, bool *ret_plain)
{
    struct arena *a = m->arena;
    struct str rest = str_of(owner);
    const char *name = str_dup(a, str_cut(&rest, ' ')), *version = rest.n ? rest.s : NULL;
    const struct py_dist *dist = m->env ? py_env_by_dist(m->env, name) : NULL;
    const char *build = version ? strchr(version, '+') : NULL;
    const char *pin = version ? arena_printf(a, "%s==%s", name, version) : name;
    *ret_plain = false;
    if (dist && dist->kind == PY_DIST_CONDA) {
        return arena_printf(
            a, "conda install -p %s --force-reinstall --no-deps %s",
            diag_shell_word(a, m->env->prefix),
            diag_shell_word(a, version ? arena_printf(a, "%s=%s", name, version) : name));
    }
    if (build && diag_is_torch_family(name)) { // "2.5.1+cu124" is not in pip's index
        return arena_printf(a,
                            "uv pip install --python %s --reinstall-package %s --no-deps "
                            "--torch-backend=%s %s",
                            python_of(m), name, diag_shell_word(a, build + 1),
                            diag_shell_word(a, pin));
    }
    *ret_plain = true;
    return diag_pip_command(
        m, arena_printf(a, "--force-reinstall --no-deps %s", diag_shell_word(a, pin)));
}

void diag_repair_reinstall(struct diag *d, struct diag_finding *f, const char *path)
{
    const char *owner = model_owner(d->m, path);
    if (!owner) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Replace or remove %s; no package of this environment records it.", path);
        return;
    }
    diag_evidence(d, f, "the file is recorded by %s", owner);
    for (size_t i = 0; i < f->repairs.n; i++) {
        const char *again = f->repairs.items[i].reinstall;
        if (again && strcmp(again, owner) == 0) {
            return; // its text may name a folder by now
        }
    }
    size_t before = f->repairs.n;
    bool plain = false;
    diag_repair(d, f, DIAG_REPAIR_PACKAGE, diag_reinstall_command(d->m, owner, &plain),
                "Install %s again.", owner);
    if (f->repairs.n > before) {
        f->repairs.items[before].reinstall = owner;
    }
}

const char *diag_prepend_command(struct diag *d, const char *folders)
{
    return diag_prepend_folders(d->m, folders);
}

const char *diag_hook_again(const struct model *m)
{
    return m->hook.file && m->root->is_host ? model_command(m, "enable", "") : NULL;
}

const char *diag_findable_command(struct diag *d, const char *install, const char *folders)
{
    const char *again = diag_hook_again(d->m);
    return arena_printf(d->a, "%s && %s", install,
                        again ? again : diag_prepend_command(d, folders));
}
