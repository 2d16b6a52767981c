#include "apply/step.h"

#include <string.h>
#include <sys/mman.h>

#include "base/child.h"
#include "base/env.h"
#include "base/folder.h"
#include "elf/image.h"
#include "apply/hookfile.h"
#include "apply/imports.h"
#include "py/dist.h"

enum { PATCHELF_MS = 120000, OUTPUT_BYTES_MAX = 64 << 10 };

const char *apply_hook_site(struct model *m)
{
    const char *prefix = m->env ? model_real_path(m, m->env->prefix) : NULL;
    for (size_t i = 0; prefix && i < m->env->n_paths; i++) {
        const struct py_path *p = &m->env->paths[i];
        const char *real =
            p->origin == PY_PATH_SITE && p->is_dir ? model_real_path(m, p->dir) : NULL;
        if (real && starts_with(real, prefix) && real[strlen(prefix)] == '/') {
            return real;
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ links and the hook */

static int put_links(const struct apply_doing *d, struct gm_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < d->step->n_links; i++) {
        const struct plan_link *l = &d->step->links[i];
        const char *path;
        rc = apply_place_relative(d->w->place, d->m->root, l->path, &path, err);
        rc = rc < 0 ? rc : apply_work_put_link(d->w, path, l->target, err);
    }
    return rc;
}

static int put_in_site(const struct apply_doing *d, const char *site, const char *name,
                       struct str text, struct gm_err *err)
{
    const char *path;
    int rc = apply_place_relative(d->w->place, d->m->root, path_join(d->m->arena, site, name),
                                  &path, err);
    return rc < 0 ? rc : apply_work_put_file(d->w, path, 0644, text, err);
}

/* The module first: what imports it must never stand alone. */
static int put_hook(const struct apply_doing *d, struct gm_err *err)
{
    struct model *m = d->m;
    const struct plan_step *s = d->step;
    const char *site = apply_hook_site(m), *prefix = model_real_path(m, m->env->prefix);
    if (!site || !prefix) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED, "no site-packages folder inside %s",
                          m->env->prefix);
    }
    if (model_hook_stands(m->root, m->arena, site)) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "the environment has a hook already (%s takes "
                          "it "
                          "away)",
                          model_command(m, "disable", ""));
    }
    const struct apply_hook hook = {.prefix = prefix,
                                    .site = site,
                                    .modules = s->modules,
                                    .n_modules = s->n_modules,
                                    .paths = s->paths,
                                    .n_paths = s->n_paths};
    int rc = put_in_site(d, site, MODEL_HOOK_MODULE, apply_hook_module(m->arena, &hook), err);
    rc = rc < 0 ? rc : put_in_site(d, site, MODEL_HOOK_START, apply_hook_start(), err);
    return rc < 0 ? rc : put_in_site(d, site, MODEL_HOOK_PTH, apply_hook_pth(), err);
}

/* ------------------------------------------------------------------ RPATH and RUNPATH */

/* Why an editor of ELF files that is installed is not started; NULL: it would be, or none is. */
static const char *elf_objection(const struct apply_doing *d)
{
    struct gm_err err;
    const char *path = env_value(d->o->env, d->o->n_env, "PATH");
    const char *patchelf = path ? child_find(d->m->arena, path, "patchelf") : NULL;
    return patchelf && folder_safe_program(d->m->arena, patchelf, &err) < 0
               ? arena_strdup(d->m->arena, err.text)
               : NULL;
}

static bool texts_are_same(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

/* Whether the file's path in force is the one that is wanted. */
static bool file_has_path(const struct apply_doing *d, struct root *root, const char *file,
                          const char *path)
{
    const void *data;
    size_t size;
    struct stat st;
    struct elf_image image;
    if (root_map(root, file, &data, &size, &st) < 0 || !data) {
        return false;
    }
    elf_image_parse(d->m->arena, data, size, &image);
    const char *now = image.runpath ? image.runpath : image.rpath;
    bool same = image.state == ELF_STATE_OK && texts_are_same(now, path);
    (void)munmap((void *)data, size); // cannot fail for a mapping of ours
    return same;
}

static int run_patchelf(const char *copy, void *arg, struct gm_err *err)
{
    const struct apply_doing *d = arg;
    struct arena *a = d->m->arena;
    struct child_end end;
    struct root host;
    const char *path = env_value(d->o->env, d->o->n_env, "PATH");
    const char *patchelf = path ? child_find(a, path, "patchelf") : NULL;
    const struct plan_step *s = d->step;
    if (!patchelf) {
        return gm_err_set(err, GM_ERR_LOOK,
                          "patchelf is not installed, and %s cannot be edited "
                          "without it",
                          s->file);
    }
    const char *const set[] = {patchelf,
                               s->runpath ? "--set-rpath" : "--force-rpath",
                               s->runpath ? s->new_path : "--set-rpath",
                               s->runpath ? copy : s->new_path,
                               s->runpath ? NULL : copy,
                               NULL};
    const char *const remove[] = {patchelf, "--remove-rpath", copy, NULL};
    const struct child c = {.path = patchelf,
                            .argv = s->new_path && *s->new_path ? set : remove,
                            .env = d->o->env,
                            .n_env = d->o->n_env,
                            .deadline_ms = PATCHELF_MS,
                            .output_max_bytes = OUTPUT_BYTES_MAX};
    int rc = child_run(a, &c, &end, err);
    if (rc == 0 && end.status != 0) {
        rc = gm_err_set(err, GM_ERR_FORMAT, "patchelf: " STR_FMT, STR_ARG(str_trim(end.output)));
    }
    rc = rc < 0 ? rc : root_open(&host, "/", err);
    if (rc == 0) {
        bool done = file_has_path(d, &host, copy, s->new_path);
        root_close(&host);
        rc = done ? 0 : gm_err_set(err, GM_ERR_FORMAT, "patchelf did not write what was asked");
    }
    return rc;
}

static int edit_elf(const struct apply_doing *d, struct gm_err *err)
{
    const char *path, *real = model_real_path(d->m, d->step->file);
    if (!real || !file_has_path(d, d->m->root, real, d->step->old_path)) {
        return gm_err_set(err, GM_ERR_FORMAT, "%s is not what it was when the plan was made",
                          d->step->file);
    }
    int rc = apply_place_relative(d->w->place, d->m->root, real, &path, err);
    return rc < 0 ? rc : apply_work_edit_file(d->w, path, run_patchelf, (void *)d, err);
}

/* ------------------------------------------------------------------ packages */

typedef VEC(const char *) texts;

/* "python -m pip install", or uv's for environments without pip; 0 words if neither is there. */
static texts installer(const struct apply_doing *d)
{
    struct arena *a = d->m->arena;
    struct py_env *env = d->m->env;
    const char *path = env_value(d->o->env, d->o->n_env, "PATH");
    const char *uv = path ? child_find(a, path, "uv") : NULL;
    texts words = {0};
    static const char *const pip_words[] = {"-m", "pip", "install", "--no-input",
                                            "--disable-pip-version-check"};
    static const char *const uv_words[] = {"pip", "install", "--python"};
    if (env->executable && py_env_by_dist(env, "pip")) {
        VEC_PUSH(a, &words, env->executable);
        for (size_t i = 0; i < sizeof pip_words / sizeof *pip_words; i++) {
            VEC_PUSH(a, &words, pip_words[i]);
        }
    } else if (env->executable && uv) {
        VEC_PUSH(a, &words, uv);
        for (size_t i = 0; i < sizeof uv_words / sizeof *uv_words; i++) {
            VEC_PUSH(a, &words, uv_words[i]);
        }
        VEC_PUSH(a, &words, env->executable);
    }
    return words;
}

/* A package that is installed again as it is: an installer leaves it alone unless it is forced. */
static bool is_reinstall(const struct plan_package *p)
{
    return p->from ? p->to && strcmp(p->from, p->to) == 0 : !p->to && !p->requirement;
}

/* The words after the installer's own: pip and uv know the same options. */
static void words_add_packages(struct arena *a, const struct plan_step *step, texts *words)
{
    bool again = step->n_packages > 0;
    for (size_t i = 0; i < step->n_packages; i++) {
        again = again && is_reinstall(&step->packages[i]);
    }
    if (again) {
        VEC_PUSH(a, words, "--force-reinstall");
        VEC_PUSH(a, words, "--no-deps");
    }
    for (size_t i = 0; i < step->n_packages; i++) {
        const struct plan_package *p = &step->packages[i];
        const char *plain = p->requirement ? p->requirement : p->name;
        VEC_PUSH(a, words, p->to ? arena_printf(a, "%s==%s", p->name, p->to) : plain);
    }
}

/* What an installer that was not shown said last. */
static struct str last_line(struct str output)
{
    struct str line, last = STR("");
    while (str_line(&output, &line)) {
        last = str_trim(line).n ? str_trim(line) : last;
    }
    return last;
}

static int run_installer(void *arg, struct gm_err *err)
{
    const struct apply_doing *d = arg;
    struct arena *a = d->m->arena;
    struct child_end end;
    texts words = installer(d);
    words_add_packages(a, d->step, &words);
    VEC_PUSH(a, &words, NULL);
    const struct child c = {.path = words.items[0],
                            .argv = words.items,
                            .env = apply_start_env(a, d->o->env, d->o->n_env),
                            .n_env = d->o->n_env,
                            .show = !d->o->quiet,
                            .output_max_bytes = OUTPUT_BYTES_MAX};
    int rc = child_run(a, &c, &end, err);
    if (rc == 0 && end.status != 0) {
        struct str said = last_line(end.output);
        rc = gm_err_set(err, GM_ERR_LOOK, "the installer of packages ended with %s %d%s" STR_FMT,
                        end.signal ? "signal" : "status", end.signal ? end.signal : end.status,
                        said.n ? ": " : "", STR_ARG(said));
    }
    return rc;
}

static int packages_install(const struct apply_doing *d, struct gm_err *err)
{
    return apply_work_run(d->w, run_installer, (void *)d, err);
}

/* ------------------------------------------------------------------ the table */

static const char *packages_objection(const struct apply_doing *d)
{
    if (!d->o->packages) {
        return "it changes packages, which needs --packages";
    }
    if (!d->m->env || d->o->is_system || !d->m->root->is_host) {
        return "packages are changed in an environment of this machine only";
    }
    struct gm_err err;
    texts words = installer(d);
    if (!words.n) {
        return "the environment has no pip, and uv is not installed";
    }
    return folder_safe_program(d->m->arena, words.items[0], &err) < 0 ||
                   apply_start_check(d->m->arena, d->m->env, &err) < 0
               ? arena_strdup(d->m->arena, err.text)
               : NULL;
}

static const char *hook_objection(const struct apply_doing *d)
{
    return !d->m->env        ? "a start-up hook needs a Python environment"
           : d->o->is_system ? "a start-up hook belongs to an environment, not to the system"
                             : NULL;
}

static const struct {
    int (*carry_out)(const struct apply_doing *d, struct gm_err *err);
    const char *(*objection)(const struct apply_doing *d);
    const char *never;
} actions[] = {
    [PLAN_SET_ENV] = {.never =
                          "variables of the start environment belong to one start: gpumend run"},
    [PLAN_PRELOAD] = {.never = "a preload belongs to one start: gpumend run"},
    [PLAN_SHADOW] = {.carry_out = put_links},
    [PLAN_LINK] = {.carry_out = put_links},
    [PLAN_HOOK] = {.carry_out = put_hook, .objection = hook_objection},
    [PLAN_EDIT_ELF] = {.carry_out = edit_elf, .objection = elf_objection},
    [PLAN_PACKAGES] = {.carry_out = packages_install, .objection = packages_objection},
    [PLAN_TEXT] = {.never = "it has a step that only a person can do"},
};

bool apply_step_is_left(const struct plan_way *way, const struct plan_step *step)
{
    return way->reach == PLAN_PIP && step->kind == PLAN_SET_ENV;
}

const char *apply_step_objection(const struct apply_doing *d)
{
    const char *never = actions[d->step->kind].never;
    return never                              ? never
           : actions[d->step->kind].objection ? actions[d->step->kind].objection(d)
                                              : NULL;
}

int apply_step_carry_out(const struct apply_doing *d, struct gm_err *err)
{
    return actions[d->step->kind].carry_out(d, err);
}
