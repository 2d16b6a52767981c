/* The steps of an import or first use that load something themselves (kb/imports). */
#include <errno.h>
#include <string.h>

#include "kb/libver.h"
#include "model/family.h"
#include "model/package.h"
#include "model/run.h"
#include "py/module.h"
#include "py/owner.h"

enum { FILES_MAX = 4096 };

static unsigned mode_of(const struct kb_step *s)
{
    return (s->lazy ? 0 : LDSO_NOW) | (s->global ? LDSO_GLOBAL_SCOPE : 0);
}

/* Whether the package says that the file is its own: without it another build is installed. */
static bool is_recorded(struct model_run *r, const struct model_imported *by, const char *path)
{
    return py_owner(r->m->env, path).dist == by->dist;
}

static enum model_phase phase_of(const struct kb_step *s)
{
    return s->phase == KB_PHASE_USE ? MODEL_USE : MODEL_IMPORT;
}

/* What a step says itself of its request; who asks, for which names, and whether it is required are
 * the kind's. */
static struct model_wanted wanted_of(const struct model_imported *by, const struct kb_step *s)
{
    return (struct model_wanted){.source = MODEL_FROM_KB,
                                 .row = by->row->id,
                                 .phase = phase_of(s),
                                 .recommended = s->missing == KB_MISSING_WARN,
                                 .feature = s->feature,
                                 .says = s->says,
                                 .mode = mode_of(s)};
}

static void want_file(struct model_run *r, struct model_wanted *w, const char *file)
{
    const char **names = arena_array(r->m->arena, 1, sizeof *names);
    names[0] = file;
    w->names = names;
    w->n = 1;
}

static void note_foreign(struct model *m, const struct model_imported *by, const char *module,
                         const char *file)
{
    for (size_t i = 0; i < m->foreign.n; i++) {
        if (strcmp(m->foreign.items[i].file, file) == 0) {
            return;
        }
    }
    VEC_PUSH(m->arena, &m->foreign, (struct model_foreign){by->dist->name, module, file});
}

/* The extension module of that name that the package records, whether it is there or not; or NULL.
 */
static const char *recorded_module(struct model_run *r, const struct model_imported *by,
                                   const char *name)
{
    const struct py_env *env = r->m->env;
    char *stem = path_join(r->m->arena, by->dist->site, name);
    for (char *c = stem + strlen(by->dist->site); *c; c++) {
        *c = *c == '.' ? '/' : *c;
    }
    for (size_t i = 0; i < env->n_suffixes; i++) {
        const char *file = arena_printf(r->m->arena, "%s%s", stem, env->suffixes[i]);
        if (is_recorded(r, by, file)) {
            return file;
        }
    }
    return NULL;
}

bool model_step_extension(struct model_run *r, struct model_imported *by, const struct kb_step *s)
{
    struct py_module module;
    py_module_find(r->m->env, s->module, &module);
    const char *file = module.kind == PY_MODULE_EXTENSION ? module.file
                       : module.denied                    ? module.denied
                       : module.foreign                   ? NULL
                                                          : recorded_module(r, by, s->module);
    if (!file) {
        if (module.foreign) {
            note_foreign(r->m, by, s->module, module.foreign);
        } else if (!s->optional && s->missing == KB_MISSING_FAIL) {
            model_run_unsure(r, arena_printf(r->m->arena,
                                             "%s %s has no module %s, so that it is another "
                                             "build, and what it loads is not known",
                                             by->dist->name, by->dist->version, s->module));
        }
        return s->optional || !module.foreign;
    }
    struct model_wanted w = wanted_of(by, s);
    w.source = MODEL_FROM_IMPORT;
    w.caller = model_run_interpreter(r);
    want_file(r, &w, file);
    w.required = !s->optional && !w.recommended;
    w.mode |= LDSO_NOW;
    return model_run_attempt(r, by, &w) || s->optional || w.recommended;
}

static long digits_number(struct str digits)
{
    long n = 0;
    for (size_t i = 0; i < digits.n && digits.n < 6; i++) {
        n = digits.s[i] >= '0' && digits.s[i] <= '9' ? n * 10 + digits.s[i] - '0' : -1000000;
    }
    return n > 0 ? n : 0;
}

/* How the release that torch was built for is written into names of files, without its dot. */
struct release_form {
    const char *exact, *nearest; // placeholders
    size_t major_digits;         // CUDA: 124 is 12.4; ROCm: 64 is 6.4, and 714 is 7.14
};

static const struct release_form release_forms[] = {{"{cuda}", "{cuda_nearest}", 2},
                                                    {"{rocm}", "{rocm_nearest}", 1}};

/* "124", "64"; NULL: torch is no such build, or is not known. "6.4.43482" is 6.4. */
static const char *release_of_torch(struct model_run *r, const struct release_form *form)
{
    const struct model_torch *t = model_torch(r->m);
    struct str rest = str_of(form == release_forms ? t->cuda : t->hip);
    struct str major = str_cut(&rest, '.'), minor = str_cut(&rest, '.');
    return major.n && minor.n
               ? arena_printf(r->m->arena, STR_FMT STR_FMT, STR_ARG(major), STR_ARG(minor))
               : NULL;
}

/* 1204 of "124"; 0: none. */
static long release_number(const struct release_form *form, struct str digits)
{
    size_t n = form->major_digits;
    return digits.n > n && digits_number(digits)
               ? digits_number((struct str){digits.s, n}) * 100 +
                     digits_number((struct str){digits.s + n, digits.n - n})
               : 0;
}

/* The number of a release in a file's name between two parts of a pattern; 0: none. */
static long release_of_file(const struct release_form *form, const char *name, struct str head,
                            const char *tail)
{
    struct str s = str_of(name);
    size_t n = strlen(tail);
    bool fits = s.n > head.n + n && memcmp(s.s, head.s, head.n) == 0 && str_ends(s, tail);
    return fits ? release_number(form, (struct str){s.s + head.n, s.n - head.n - n}) : 0;
}

/* bitsandbytes since 0.50, cextension.py: of the files for other releases of the same major, the
 * newest before that of torch, else the first after it. */
static const char *nearest_file(struct model_run *r, const struct model_imported *by,
                                const char *file, const struct release_form *form)
{
    struct arena *a = r->m->arena;
    const char *release = release_of_torch(r, form), *best = NULL;
    const char *dir = path_join(a, by->dist->site, path_dir(a, file)), *base = path_base(file);
    struct str head = {base, (size_t)(strstr(base, form->nearest) - base)};
    const char *tail = base + head.n + strlen(form->nearest);
    long want = release ? release_number(form, str_of(release)) : 0, found = 0;
    struct root_dir list;
    if (!want || root_list(r->m->root, a, dir, FILES_MAX, NULL, &list) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < list.n; i++) {
        long have = release_of_file(form, list.names[i], head, tail);
        bool before = have <= want;
        bool nearer =
            !found || (before ? found > want || have > found : found > want && have < found);
        if (have && have / 100 == want / 100 && nearer) {
            found = have;
            best = path_join(a, dir, list.names[i]);
        }
    }
    return best;
}

/* The path of a file below the site folder, whether it is there or not; NULL: not known. */
static const char *site_path(struct model_run *r, const struct model_imported *by, const char *file)
{
    struct arena *a = r->m->arena;
    for (size_t i = 0; i < sizeof release_forms / sizeof *release_forms && file; i++) {
        const struct release_form *form = &release_forms[i];
        if (strstr(path_base(file), form->nearest)) {
            return nearest_file(r, by, file, form);
        }
        if (strstr(file, form->exact)) {
            file = kb_fill(a, file, form->exact, release_of_torch(r, form));
        }
    }
    return file && !strchr(file, '{') ? path_join(a, by->dist->site, file) : NULL;
}

/* A file that this user may not see counts: the loader will say so. */
static const char *site_file(struct model_run *r, const struct model_imported *by, const char *file)
{
    const char *path = site_path(r, by, file);
    struct stat st;
    int rc = path ? root_stat(r->m->root, path, &st) : -ENOENT;
    return rc == 0 || rc == -EACCES ? path : NULL;
}

/* The file of a step for the release that its variable names, whether it is there or not; NULL:
 * it names none. It selects among the files for torch's own platform only. */
static const char *chosen_file(struct model_run *r, const struct model_imported *by,
                               const struct kb_step *s)
{
    const char *value = s->release ? ldso_getenv(r->p, s->release) : NULL;
    for (size_t i = 0; value && *value && i < sizeof release_forms / sizeof *release_forms; i++) {
        const struct release_form *form = &release_forms[i];
        if (strstr(s->file, form->exact) && release_of_torch(r, form)) {
            return site_path(r, by, kb_fill(r->m->arena, s->file, form->exact, value));
        }
    }
    return NULL;
}

static bool open_by_ctypes(struct model_run *r, struct model_imported *by, const struct kb_step *s,
                           const char *path, bool required, unsigned mode)
{
    struct model_wanted w = wanted_of(by, s);
    w.variable = chosen_file(r, by, s) ? s->release : NULL;
    w.caller = model_run_ctypes(r);
    want_file(r, &w, path);
    w.required = required;
    w.mode = mode;
    return model_run_attempt(r, by, &w) != NULL;
}

/* The file of a step, its fallbacks after it; where none is there, the one that the package
 * records. */
static const char *cdll_file(struct model_run *r, const struct model_imported *by,
                             const struct kb_step *s)
{
    const char *chosen = chosen_file(r, by, s);
    if (chosen) {
        return chosen;
    }
    const char *path = site_file(r, by, s->file), *missing = site_path(r, by, s->file);
    for (size_t i = 0; i < s->fallback.n && !path; i++) {
        path = site_file(r, by, s->fallback.items[i]);
    }
    return path                                              ? path
           : missing && is_recorded(r, by, missing)          ? missing
           : missing && s->missing == KB_MISSING_WARN        ? missing
           : missing && !s->optional && strchr(s->file, '{') ? missing // no other one is tried
                                                             : NULL;
}

/* Whether the file of a step is not opened, as a variable names another one. */
static bool is_elsewhere(struct model_run *r, const struct model_imported *by,
                         const struct kb_step *s)
{
    const char *value = s->unless ? ldso_getenv(r->p, s->unless) : NULL;
    if (value && *value) {
        model_run_unsure(r, arena_printf(r->m->arena,
                                         "%s is set, so that %s loads another library than its "
                                         "own, and what that loads is not known",
                                         s->unless, by->dist->name));
    }
    return value && *value;
}

bool model_step_cdll(struct model_run *r, struct model_imported *by, const struct kb_step *s,
                     bool retry_follows, struct model_cdll *state)
{
    const char *path = is_elsewhere(r, by, s) ? NULL : cdll_file(r, by, s);
    *state = (struct model_cdll){.done = true, .file = path, .mode = mode_of(s) | LDSO_NOW};
    if (!path) {
        return true; // another build (a CPU build has no such file): nothing to load
    }
    /* A failure that the preload step mends is none. */
    state->attempt = r->out->attempts.n;
    state->failed = !open_by_ctypes(r, by, s, path, !s->optional && !retry_follows, state->mode);
    if (state->failed && r->p->loads.n) {
        state->says = r->p->loads.items[r->p->loads.n - 1].glibc_says;
    }
    return !state->failed || s->optional || retry_follows;
}

/* The file of a preload in one folder, or NULL. */
static const char *preload_in(struct model_run *r, const struct kb_preload *lib, const char *dir)
{
    struct model *m = r->m;
    struct stat st;
    for (size_t i = 0; i < lib->names.n; i++) {
        const char *path = path_join(m->arena, dir, lib->names.items[i]);
        if (root_stat(m->root, path, &st) == 0) {
            return path;
        }
    }
    struct root_dir list;
    const struct root_filter fitting = {root_fits_glob, (void *)(uintptr_t)lib->glob};
    if (!lib->glob || root_list(m->root, m->arena, dir, FILES_MAX, &fitting, &list) < 0) {
        return NULL; // not there: the next one
    }
    return list.n ? path_join(m->arena, dir, list.names[0]) : NULL;
}

/* A folder that is not below sys.path, with the value of its variable; NULL if that has none. */
static const char *variable_folder(struct model_run *r, const char *folder)
{
    static const struct {
        const char *key, *names[2];
    } variables[] = {{"{CONDA_PREFIX}", {"CONDA_PREFIX"}},
                     {"{CUDA_PATH}", {"CUDA_PATH", "CUDA_HOME"}}};
    if (*folder == '/') {
        return folder;
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = NULL;
        for (size_t k = 0; k < 2 && (!value || !*value) && variables[i].names[k]; k++) {
            value = ldso_getenv(r->p, variables[i].names[k]);
        }
        if (starts_with(folder, variables[i].key) && value && *value) {
            return kb_fill(r->m->arena, folder, variables[i].key, value);
        }
    }
    return NULL;
}

static bool stands_alone(const char *folder)
{
    return *folder == '/' || starts_with(folder, "{C");
}

/* The first file that the folders yield along sys.path, then in those that a variable names. */
static const char *find_preload(struct model_run *r, const struct kb_preload *lib,
                                const struct kb_strs *folders)
{
    struct model *m = r->m;
    const char *cuda = model_torch(m)->cuda, *found = NULL;
    const char *major = cuda ? arena_strndup(m->arena, cuda, strcspn(cuda, ".")) : NULL;
    for (size_t i = 0; i < m->env->n_paths && !found; i++) {
        for (size_t k = 0; k < folders->n && !found && m->env->paths[i].is_dir; k++) {
            const char *folder = stands_alone(folders->items[k])
                                     ? NULL
                                     : kb_fill(m->arena, folders->items[k], "{cuda_major}", major);
            found = folder ? preload_in(r, lib, path_join(m->arena, m->env->paths[i].dir, folder))
                           : NULL;
        }
    }
    for (size_t k = 0; k < folders->n && !found; k++) {
        const char *folder = variable_folder(r, folders->items[k]);
        found = folder ? preload_in(r, lib, folder) : NULL;
    }
    return found;
}

/* Opens one library of a preload step: see struct kb_preload. */
static bool open_preload(struct model_run *r, struct model_imported *by, const struct kb_step *s,
                         const struct kb_preload *lib)
{
    unsigned mode = mode_of(s) | LDSO_NOW;
    for (size_t i = 0; i < lib->names.n; i++) {
        VEC_PUSH(r->m->arena, &r->out->looks, lib->names.items[i]);
        if (ldso_find_object(r->p, lib->names.items[i])) {
            return true;
        }
    }
    const char *path = find_preload(r, lib, &lib->folders);
    if (path) {
        return open_by_ctypes(r, by, s, path, false, mode);
    }
    for (size_t i = 0; i < lib->names.n; i++) {
        if (open_by_ctypes(r, by, s, lib->names.items[i], false, mode)) {
            return true;
        }
    }
    path = find_preload(r, lib, &lib->late);
    return path && open_by_ctypes(r, by, s, path, false, mode);
}

static bool names_failed_library(const struct kb_step *s, const char *says)
{
    for (size_t i = 0; says && i < s->n_libs; i++) {
        const struct kb_preload *lib = &s->libs[i];
        struct str stem = model_stem(lib->glob ? lib->glob : lib->names.items[0]);
        struct str text = str_of(says);
        char stem_so[256];
        if (stem.n + 4 < sizeof stem_so) {
            memcpy(stem_so, stem.s, stem.n);
            memcpy(stem_so + stem.n, ".so", 4);
            if (str_find(text, stem_so) < text.n) {
                return true;
            }
        }
    }
    return false;
}

static bool path_loaded(struct model_run *r, const char *part)
{
    VEC_PUSH(r->m->arena, &r->out->looks, arena_printf(r->m->arena, "*%s*", part));
    for (size_t i = 0; i < r->p->objects.n; i++) {
        if (strstr(r->p->objects.items[i]->path, part)) {
            return true;
        }
    }
    return false;
}

static bool preload_applies(struct model_run *r, const struct kb_step *s,
                            const struct model_cdll *state)
{
    switch (s->when) {
    case KB_WHEN_ALWAYS:
    case KB_WHEN_GPU: return true;
    case KB_WHEN_NO_GPU: return false;
    case KB_WHEN_AFTER_FAILURE: return state->failed && names_failed_library(s, state->says);
    case KB_WHEN_PATH_LOADED:
        return state->done && !state->failed && state->file && s->path && path_loaded(r, s->path);
    }
    return false;
}

/* A cdll that no preload is tried for has failed for good. */
static bool fails_for_good(struct model_run *r, const struct model_cdll *state)
{
    if (state->failed && state->attempt < r->out->attempts.n) {
        struct model_attempt *at = &r->out->attempts.items[state->attempt];
        at->required = !r->wishes;
        at->recommended = r->wishes;
    }
    return state->failed;
}

bool model_step_preload(struct model_run *r, struct model_imported *by, const struct kb_step *s,
                        struct model_cdll *state)
{
    if (!preload_applies(r, s, state)) {
        return !(s->retry && fails_for_good(r, state));
    }
    bool failed = false;
    for (size_t i = 0; i < s->n_libs && !failed; i++) {
        bool required = !s->libs[i].optional && s->missing == KB_MISSING_FAIL;
        bool ok = open_preload(r, by, s, &s->libs[i]);
        if (!ok && !s->libs[i].optional) {
            failed = s->missing != KB_MISSING_SKIP;
            if (required && s->when != KB_WHEN_AFTER_FAILURE) {
                failed = true;
            }
        }
    }
    if (!s->retry || !state->file) {
        return !failed || s->missing != KB_MISSING_FAIL;
    }
    state->failed = !open_by_ctypes(r, by, s, state->file, true, state->mode);
    return !state->failed;
}

/* The files of a row that the package brought: a release has some of them, and tries no others. */
static size_t without_absent(struct model_run *r, const char **names, size_t n)
{
    size_t kept = 0;
    struct stat st;
    for (size_t i = 0; i < n; i++) {
        if (*names[i] != '/' || root_stat(r->m->root, names[i], &st) != -ENOENT) {
            names[kept++] = names[i];
        }
    }
    return kept ? kept : n;
}

bool model_step_dlopen(struct model_run *r, struct model_imported *by, const struct kb_step *s)
{
    struct arena *a = r->m->arena;
    struct ldso_object *caller = strcmp(s->caller, "ctypes") == 0 ? model_run_ctypes(r)
                                 : strcmp(s->caller, "interpreter") == 0
                                     ? model_run_interpreter(r)
                                     : model_run_matching(r, s->caller);
    const char **names = arena_array(a, s->names.n, sizeof *names);
    size_t n = 0;
    for (size_t i = 0; i < s->names.n; i++) {
        const char *name = kb_fill(a, s->names.items[i], "{site}", by->dist->site);
        if (name) {
            names[n++] = name;
        }
    }
    if (!caller) {
        return true;
    }
    struct model_wanted w = wanted_of(by, s);
    w.caller = caller;
    w.names = names;
    w.n = without_absent(r, names, n);
    w.required = !s->optional && s->missing == KB_MISSING_FAIL;
    return model_run_attempt(r, by, &w) != NULL;
}
