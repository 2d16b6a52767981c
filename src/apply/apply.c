#include "apply/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/child.h"
#include "base/env.h"
#include "base/folder.h"
#include "elf/image.h"
#include "apply/hookfile.h"
#include "apply/imports.h"
#include "py/dist.h"

enum { PATCHELF_MS = 120000, OUTPUT_BYTES_MAX = 64 << 10, HOOK_LINE_BYTES_MAX = 4096 };

/* What a step needs while it is carried out. */
struct doing {
    struct model *m;
    const struct apply_options *o;
    struct apply_work *w;
    const struct plan_step *step;
};

/* ------------------------------------------------------------------ the target */

/* The folder that no change leaves: the environment's, or the one that holds the program. */
static const char *own_folder(struct model *m)
{
    return m->env           ? m->env->prefix
           : m->target_file ? path_dir(m->arena, model_absolute(m, m->target_file))
                            : NULL;
}

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

static int open_place(struct model *m, bool is_system, struct apply_place *ret, struct gm_err *err)
{
    const char *folder = own_folder(m);
    *ret = APPLY_PLACE_EMPTY;
    if (!folder && !is_system) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED, "the target has no folder of its own");
    }
    if (!is_system && m->env && m->env->kind == PY_ENV_SYSTEM) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "%s is the system's Python: its files are changed with --system only",
                          m->env->prefix);
    }
    return apply_place_open(ret, m->arena, m->root, folder, is_system, err);
}

/* ------------------------------------------------------------------ links and the hook */

static int put_links(const struct doing *d, struct gm_err *err)
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

static int put_in_site(const struct doing *d, const char *site, const char *name, struct str text,
                       struct gm_err *err)
{
    const char *path;
    int rc = apply_place_relative(d->w->place, d->m->root, path_join(d->m->arena, site, name),
                                  &path, err);
    return rc < 0 ? rc : apply_work_put_file(d->w, path, 0644, text, err);
}

/* The module first: what imports it must never stand alone. */
static int put_hook(const struct doing *d, struct gm_err *err)
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
static const char *elf_objection(const struct doing *d)
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
static bool file_has_path(const struct doing *d, struct root *root, const char *file,
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
    const struct doing *d = arg;
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

static int edit_elf(const struct doing *d, struct gm_err *err)
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
static texts installer(const struct doing *d)
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
    return p->from ? p->to && strcmp(p->from, p->to) == 0 : !p->to;
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
        VEC_PUSH(a, words, p->to ? arena_printf(a, "%s==%s", p->name, p->to) : p->name);
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
    const struct doing *d = arg;
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

static int packages_install(const struct doing *d, struct gm_err *err)
{
    return apply_work_run(d->w, run_installer, (void *)d, err);
}

/* ------------------------------------------------------------------ steps */

static const char *packages_objection(const struct doing *d)
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

static const char *hook_objection(const struct doing *d)
{
    return !d->m->env        ? "a start-up hook needs a Python environment"
           : d->o->is_system ? "a start-up hook belongs to an environment, not to the system"
                             : NULL;
}

static const struct {
    int (*carry_out)(const struct doing *d, struct gm_err *err);
    const char *(*objection)(const struct doing *d);
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

/* Why nothing may be written beside the path; NULL: it may. */
static const char *folder_objection_of(struct model *m, struct apply_place *p, const char *path)
{
    const char *relative;
    struct gm_err err;
    bool may = apply_place_relative(p, m->root, path, &relative, &err) == 0 &&
               apply_place_may_change(p, apply_place_parent(p, relative), &err) == 0;
    return may ? NULL : arena_strdup(m->arena, err.text);
}

/* Why the folders that a step writes into may not be changed; NULL: they may. */
static const char *step_place_objection(struct model *m, struct apply_place *p,
                                        const struct plan_step *s)
{
    const char *site = s->kind == PLAN_HOOK                 ? apply_hook_site(m)
                       : s->kind == PLAN_PACKAGES && m->env ? m->env->purelib
                                                            : NULL;
    const char *file = site ? path_join(m->arena, site, MODEL_HOOK_MODULE) : s->file;
    const char *why = file ? folder_objection_of(m, p, file) : NULL;
    for (size_t i = 0; !why && s->kind == PLAN_LINK && i < s->n_links; i++) {
        why = folder_objection_of(m, p, s->links[i].path);
    }
    return why;
}

/* Why nothing can be changed in the target's place, or in a folder that the way writes into, by
 * this user; NULL: it can, as far as can be seen without trying. */
static const char *place_objection(struct model *m, const struct plan_way *way,
                                   const struct apply_options *o)
{
    struct apply_place p = APPLY_PLACE_EMPTY;
    struct gm_err err;
    const char *why = NULL;
    int fd = open_place(m, o->is_system, &p, &err) < 0 ? -1 : apply_place_folder(&p, ".", &err);
    if (fd < 0) {
        why = arena_strdup(m->arena, err.text);
    } else if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0) {
        why = arena_printf(m->arena, "nothing can be written into %s: %s", p.base_path,
                           strerror(errno));
    }
    for (size_t i = 0; !why && i < way->steps.n; i++) {
        why = step_place_objection(m, &p, &way->steps.items[i]);
    }
    if (fd >= 0) {
        (void)close(fd); // only looked at
    }
    apply_place_close(&p);
    return why;
}

/* Why the steps themselves cannot be carried out, wherever they are; NULL: they can. */
static const char *steps_objection(struct model *m, const struct plan_way *way,
                                   const struct apply_options *o)
{
    const char *why = m->pid          ? "a running process cannot be changed; name its environment"
                      : !way->steps.n ? "it has no steps"
                                      : NULL;
    for (size_t i = 0; !why && i < way->steps.n; i++) {
        const struct doing d = {.m = m, .o = o, .step = &way->steps.items[i]};
        why = apply_step_is_left(way, d.step) ? NULL : actions[d.step->kind].never;
        if (!why && actions[d.step->kind].objection) {
            why = actions[d.step->kind].objection(&d);
        }
    }
    return why;
}

const char *apply_objection(struct model *m, const struct plan_way *way,
                            const struct apply_options *o)
{
    const char *why = steps_objection(m, way, o);
    return why ? why : place_objection(m, way, o);
}

const struct plan_way *apply_best(struct model *m, const struct plan *plan,
                                  const struct apply_options *o, const char **ret_why)
{
    const struct plan_way *best = NULL;
    const char *first = NULL;
    // Whether `first` is about the place: what another option permits fails there, too.
    bool of_place = false;
    for (size_t i = 0; i < plan->ways.n; i++) {
        const struct plan_way *way = &plan->ways.items[i];
        const char *steps = steps_objection(m, way, o);
        const char *why = steps ? steps : place_objection(m, way, o);
        bool nearer = why && !of_place && (!first || !steps || way->reach == PLAN_PIP);
        first = nearer ? why : first;
        of_place |= nearer && !steps;
        if (!why && plan_way_is_better(plan, way, best)) {
            best = way;
        }
    }
    if (ret_why) {
        *ret_why = first;
    }
    return best;
}

static int way_carry_out(struct doing *d, const struct plan_way *way, struct gm_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < way->steps.n; i++) {
        d->step = &way->steps.items[i];
        if (!apply_step_is_left(way, d->step)) {
            rc = actions[d->step->kind].carry_out(d, err);
        }
    }
    return rc;
}

int apply_take_back(struct apply_session *applied, struct gm_err *err)
{
    unsigned id;
    apply_work_close(&applied->work);
    return apply_work_undo(&applied->place, applied->id, &id, err);
}

/* After a failure: as it was, or the user learns that it is not. */
static void roll_back(struct model *m, const struct apply_options *o, struct apply_session *applied,
                      struct gm_err *err)
{
    struct gm_err again;
    unsigned count;
    apply_work_close(&applied->work);
    if (apply_work_recover(&applied->place, &count, &again) < 0) {
        struct gm_err first = *err;
        if (applied->place.n_lost) {
            (void)gm_err_set(err, first.code, "%.250s; %.250s", first.text, again.text);
            return;
        }
        (void)gm_err_set(err, first.code,
                         "%.120s; taking back what was done so far failed too "
                         "(%.100s): it is finished by %s",
                         first.text, again.text,
                         model_command(m, "fix", o->is_system ? "--system --undo" : "--undo"));
    }
}

int apply_way(struct model *m, const struct plan_way *way, const struct apply_options *o,
              struct apply_session *ret, struct gm_err *err)
{
    *ret = (struct apply_session){.place = APPLY_PLACE_EMPTY, .work = APPLY_WORK_EMPTY};
    const char *why = apply_objection(m, way, o);
    if (why) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED, "%s", why);
    }
    int rc = open_place(m, o->is_system, &ret->place, err);
    rc = rc < 0 ? rc : apply_place_lock(&ret->place, err);
    unsigned recovered;
    rc = rc < 0 ? rc : apply_work_recover(&ret->place, &recovered, err);
    if (rc < 0 || recovered) { // the plan was made of another tree
        return rc < 0 ? rc : gm_err_set(err, GM_ERR_LOOK, "the files have changed; try again");
    }
    struct doing d = {.m = m, .o = o, .w = &ret->work};
    rc = apply_work_begin(&ret->work, &ret->place, o->what, way->title, err);
    ret->id = ret->work.journal.id;
    rc = rc < 0 ? rc : way_carry_out(&d, way, err);
    rc = rc < 0 ? rc : apply_work_finish(&ret->work, err);
    if (rc < 0) {
        roll_back(m, o, ret, err);
    }
    return rc;
}

int apply_verified(struct apply_session *applied, const char *how, struct gm_err *err)
{
    return apply_work_verified(&applied->work, how, err);
}

void apply_close(struct apply_session *applied)
{
    apply_work_close(&applied->work);
    apply_place_close(&applied->place);
}

/* ------------------------------------------------------------------ taking back, listing */

/* The latest journal of a command; 0 if there is none. */
static int latest_of(struct apply_place *p, const char *what, unsigned *ret, struct gm_err *err)
{
    struct apply_list list;
    int rc = apply_work_list(p, &list, err);
    *ret = 0;
    for (size_t i = 0; rc == 0 && i < list.items.n; i++) {
        const struct apply_listed *l = &list.items.items[i];
        *ret = !l->error && l->journal.begun && strcmp(l->journal.what, what) == 0 ? l->id : *ret;
    }
    return rc;
}

int apply_undo(struct model *m, bool is_system, unsigned id, const char *what, unsigned *ret_id,
               struct gm_err *err)
{
    struct apply_place place;
    *ret_id = 0;
    int rc = open_place(m, is_system, &place, err);
    rc = rc < 0 ? rc : apply_place_lock(&place, err);
    rc = rc < 0 || !what ? rc : latest_of(&place, what, &id, err);
    bool none = what && id == 0;
    if (rc == 0) {
        rc = none ? apply_place_sweep(&place, err) : apply_work_undo(&place, id, ret_id, err);
    }
    apply_place_close(&place);
    return rc;
}

/* One file of the hook. */
static int remove_from(struct apply_place *p, struct root *root, const char *path,
                       struct gm_err *err)
{
    const char *relative;
    int rc = apply_place_relative(p, root, path, &relative, err);
    int dir = rc < 0 ? rc : apply_place_folder(p, apply_place_parent(p, relative), err);
    if (dir < 0) {
        return dir;
    }
    if (ends_with(relative, ".py")) {
        apply_place_remove_bytecode(p, dir, path_base(relative));
    }
    rc = apply_place_remove(dir, path_base(relative), err);
    (void)close(dir); // a folder
    return rc;
}

/* Whether one of the hook's two lines is absent or as gpumend writes it. */
static bool line_is_own(struct model *m, const char *path, struct str own)
{
    struct str line;
    bool all = false;
    int rc = root_read_head(m->root, m->arena, path, HOOK_LINE_BYTES_MAX, &line, &all);
    return rc == -ENOENT || (rc == 0 && all && str_eq(line, own));
}

int apply_remove_hook(struct model *m, const char **ret_site, struct gm_err *err)
{
    struct apply_place place;
    const char *site = apply_hook_site(m);
    *ret_site = NULL;
    if (!site || !model_hook_stands(m->root, m->arena, site)) {
        return 0;
    }
    const char *pth = path_join(m->arena, site, MODEL_HOOK_PTH);
    const char *start = path_join(m->arena, site, MODEL_HOOK_START);
    const char *module = path_join(m->arena, site, MODEL_HOOK_MODULE);
    const char *changed = !line_is_own(m, pth, apply_hook_pth())       ? pth
                          : !line_is_own(m, start, apply_hook_start()) ? start
                                                                       : NULL;
    if (changed) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "%s is not as gpumend writes it: remove it by "
                          "hand",
                          changed);
    }
    int rc = open_place(m, false, &place, err);
    rc = rc < 0 ? rc : apply_place_lock(&place, err);
    rc = rc < 0 ? rc : remove_from(&place, m->root, pth, err); // these must never stand alone
    rc = rc < 0 ? rc : remove_from(&place, m->root, start, err);
    rc = rc < 0 ? rc : remove_from(&place, m->root, module, err);
    apply_place_close(&place);
    *ret_site = rc < 0 ? NULL : site;
    return rc;
}

int apply_recover(struct model *m, bool is_system, unsigned *ret_count, struct gm_err *err)
{
    struct apply_place place;
    struct gm_err none; // said by apply_way(), should it come to that
    *ret_count = 0;
    if (open_place(m, is_system, &place, &none) < 0) {
        return 0;
    }
    int rc = apply_place_lock(&place, err);
    rc = rc < 0 ? rc : apply_work_recover(&place, ret_count, err);
    apply_place_close(&place);
    return rc;
}

int apply_list_journals(struct model *m, bool is_system, struct apply_list *ret, struct gm_err *err)
{
    struct apply_place place;
    *ret = (struct apply_list){0};
    int rc = open_place(m, is_system, &place, err);
    rc = rc < 0 ? rc : apply_work_list(&place, ret, err);
    apply_place_close(&place);
    return rc;
}
