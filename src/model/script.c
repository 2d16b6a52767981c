/* Scripts: imports and first uses as sequences of loads, by the rows of kb/imports and kb/dlopen.
 */
#include <errno.h>
#include <string.h>

#include "base/nearest.h"
#include "kb/libver.h"
#include "model/family.h"
#include "model/gpu.h"
#include "model/imports.h"
#include "model/orders.h"
#include "model/package.h"
#include "model/replay.h"
#include "py/dist.h"
#include "py/module.h"
#include "py/owner.h"
#include "py/requirement.h"
#include "py/version.h"

enum { DEPTH_MAX = 16, ATTEMPTS_MAX = 5000, FILES_MAX = 4096 };

/* What an object opens by itself, as it was asked for in a use. */
struct row_of_object {
    const struct kb_dlopen *row;
    const struct ldso_object *object;
};

/* One imported distribution and what it loaded by itself. */
struct imported {
    const struct py_dist *dist;
    const struct kb_import *row;
    VEC(struct ldso_object *) roots;
    bool begun, prepared;             // some, all of the steps of its first use are done
    VEC(const char *) within;         // ... those of these modules of it
    VEC(struct row_of_object) opened; // in its use
    bool used;
    bool acts;  // its own first use opens something, apart from the driver, or imports
    bool opens; // ... opens something
};

struct run {
    struct model *m;
    struct model_process *out;
    struct ldso_process *p;
    VEC(struct imported *) imports;
    struct ldso_object *ctypes; // the _ctypes extension, once it is loaded
    unsigned depth;
    unsigned wishes; // imports, one inside the other, whose failure is worth a warning only
    bool hooked;     // the environment's start-up hook has done its work
    bool full;       // ATTEMPTS_MAX was reached, and is said
};

const char *model_source_name(enum model_source source)
{
    static const char *const names[] = {[MODEL_FROM_IMPORT] = "import",
                                        [MODEL_FROM_KB] = "knowledge base",
                                        [MODEL_FROM_NOTE] = ".note.dlopen",
                                        [MODEL_FROM_MAPS] = "maps",
                                        [MODEL_FROM_GUESS] = "guess"};
    return names[source];
}

/* Whether the package is there, and what its import loads is known. */
static bool name_is_known(struct model *m, const char *name)
{
    const struct kb_import *row = NULL;
    return model_find_import(m, name, &row) && row;
}

/* ------------------------------------------------------------------ loading */

static struct ldso_object *interpreter(struct run *r)
{
    for (size_t i = 0; i < r->p->objects.n; i++) {
        const char *soname = r->p->objects.items[i]->soname;
        if (soname && starts_with(soname, "libpython3")) {
            return r->p->objects.items[i]; // its code calls dlopen
        }
    }
    return r->p->main;
}

/* ctypes calls dlopen from its extension module, or from the interpreter where it is built in. */
static struct ldso_object *ctypes_object(struct run *r)
{
    if (!r->ctypes) {
        struct py_module module;
        py_module_find(r->m->env, "_ctypes", &module);
        r->ctypes = interpreter(r);
        if (module.kind == PY_MODULE_EXTENSION) {
            const struct ldso_load *load = ldso_dlopen(r->p, r->ctypes, module.file, LDSO_NOW);
            r->ctypes = load && load->object ? load->object : r->ctypes;
        }
    }
    return r->ctypes;
}

struct wanted {
    enum model_source source;
    const char *row;
    enum model_phase phase;
    struct ldso_object *caller;
    const char *const *names;
    size_t n;
    bool required, recommended;
    bool repeated; // what it uses has asked the same just before
    unsigned mode;
    const char *feature, *family, *says, *in_program;
};

/* What an import loads is not known here: the process cannot be called fine. */
static void note_unsure(struct run *r, const char *text)
{
    r->out->unsure = true;
    VEC_PUSH(r->m->arena, &r->out->unknown, text);
}

static bool is_too_deep(struct run *r, const struct py_dist *dist)
{
    if (r->depth < DEPTH_MAX) {
        return false;
    }
    note_unsure(r,
                arena_printf(r->m->arena,
                             "imports are nested more than %d deep: what %s loads was not judged",
                             DEPTH_MAX, dist->name));
    return true;
}

static bool attempts_are_full(struct run *r)
{
    if (r->out->attempts.n < ATTEMPTS_MAX) {
        return false;
    }
    if (!r->full) {
        r->full = true;
        note_unsure(r, arena_printf(r->m->arena,
                                    "more than %d libraries are asked for in one process; the "
                                    "rest is not judged",
                                    ATTEMPTS_MAX));
    }
    return true;
}

/* Tries the candidates in order; returns the object, or NULL. */
static struct ldso_object *attempt(struct run *r, struct imported *by, const struct wanted *w)
{
    if (w->n == 0 || attempts_are_full(r)) {
        return NULL;
    }
    struct model_attempt at = {.source = w->source,
                               .row = w->row,
                               .package = by && by->dist ? by->dist->name : NULL,
                               .phase = w->phase,
                               .caller = w->caller,
                               .names = w->names,
                               .n_names = w->n,
                               .required = w->required && !r->wishes,
                               .recommended = w->recommended || (w->required && r->wishes),
                               .feature = w->feature,
                               .family = w->family,
                               .says = w->says,
                               .in_program = w->in_program,
                               .failed = true,
                               .first_load = r->p->loads.n};
    struct ldso_object *object = NULL;
    size_t n_objects = r->p->objects.n;
    for (size_t i = 0; i < w->n && !object; i++) {
        const struct ldso_load *load = ldso_dlopen(r->p, w->caller, w->names[i], w->mode);
        if (!load) {
            break; // the process is dead, or its model has ended
        }
        object = load->object;
        at.n_loads++;
    }
    if (r->p->limit) {
        return NULL; // it has not failed
    }
    bool driver = w->family && strcmp(w->family, "driver") == 0;
    if (by && w->phase == MODEL_USE && !driver &&
        (!w->repeated || r->p->objects.n != n_objects || r->p->dead)) {
        by->acts = by->opens = true;
    }
    at.failed = object == NULL;
    at.says = at.n_loads ? kb_fill(r->m->arena, w->says, "{loader}",
                                   r->p->loads.items[r->p->loads.n - 1].glibc_says)
                         : w->says;
    VEC_PUSH(r->m->arena, &r->out->attempts, at);
    if (object && by) {
        VEC_PUSH(r->m->arena, &by->roots, object);
    }
    return object;
}

static unsigned mode_of(const struct kb_step *s)
{
    return (s->lazy ? 0 : LDSO_NOW) | (s->global ? LDSO_GLOBAL_SCOPE : 0);
}

/* ------------------------------------------------------------------ steps of an import */

/* Whether the package says that the file is its own: without it another build is installed. */
static bool is_recorded(struct run *r, const struct imported *by, const char *path)
{
    return py_owner(r->m->env, path).dist == by->dist;
}

static enum model_phase phase_of(const struct kb_step *s)
{
    return s->phase == KB_PHASE_USE ? MODEL_USE : MODEL_IMPORT;
}

static bool do_import(struct run *r, const char *name);

static void note_foreign(struct model *m, const struct imported *by, const char *module,
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
static const char *recorded_module(struct run *r, const struct imported *by, const char *name)
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

static bool step_extension(struct run *r, struct imported *by, const struct kb_step *s)
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
            note_unsure(r, arena_printf(r->m->arena,
                                        "%s %s has no module %s, so that it is another "
                                        "build, and what it loads is not known",
                                        by->dist->name, by->dist->version, s->module));
        }
        return s->optional || !module.foreign;
    }
    const char **names = arena_array(r->m->arena, 1, sizeof *names);
    names[0] = file;
    bool warn = s->missing == KB_MISSING_WARN;
    struct wanted w = {.source = MODEL_FROM_IMPORT,
                       .row = by->row->id,
                       .phase = phase_of(s),
                       .caller = interpreter(r),
                       .names = names,
                       .n = 1,
                       .required = !s->optional && !warn,
                       .recommended = warn,
                       .feature = s->feature,
                       .says = s->says,
                       .mode = mode_of(s) | LDSO_NOW};
    return attempt(r, by, &w) || s->optional || warn;
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
static const char *release_of_torch(struct run *r, const struct release_form *form)
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
static const char *nearest_file(struct run *r, const struct imported *by, const char *file,
                                const struct release_form *form)
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
static const char *site_path(struct run *r, const struct imported *by, const char *file)
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
static const char *site_file(struct run *r, const struct imported *by, const char *file)
{
    const char *path = site_path(r, by, file);
    struct stat st;
    int rc = path ? root_stat(r->m->root, path, &st) : -ENOENT;
    return rc == 0 || rc == -EACCES ? path : NULL;
}

/* State between the cdll step and the preloads that follow it. */
struct cdll {
    bool done, failed;
    const char *file, *says;
    unsigned mode;
    size_t attempt; // its place among the attempts
};

static bool open_by_ctypes(struct run *r, struct imported *by, const struct kb_step *s,
                           const char *path, bool required, unsigned mode)
{
    const char **names = arena_array(r->m->arena, 1, sizeof *names);
    names[0] = path;
    struct wanted w = {.source = MODEL_FROM_KB,
                       .row = by->row->id,
                       .phase = phase_of(s),
                       .caller = ctypes_object(r),
                       .names = names,
                       .n = 1,
                       .required = required,
                       .recommended = s->missing == KB_MISSING_WARN,
                       .feature = s->feature,
                       .says = s->says,
                       .mode = mode};
    return attempt(r, by, &w) != NULL;
}

/* The file of a step, its fallbacks after it; where none is there, the one that the package
 * records. */
static const char *cdll_file(struct run *r, const struct imported *by, const struct kb_step *s)
{
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

static bool step_cdll(struct run *r, struct imported *by, const struct kb_step *s,
                      bool retry_follows, struct cdll *state)
{
    const char *path = cdll_file(r, by, s);
    *state = (struct cdll){.done = true, .file = path, .mode = mode_of(s) | LDSO_NOW};
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
static const char *preload_in(struct run *r, const struct kb_preload *lib, const char *dir)
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
static const char *variable_folder(struct run *r, const char *folder)
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
static const char *find_preload(struct run *r, const struct kb_preload *lib,
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
static bool open_preload(struct run *r, struct imported *by, const struct kb_step *s,
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

static bool path_loaded(struct run *r, const char *part)
{
    VEC_PUSH(r->m->arena, &r->out->looks, arena_printf(r->m->arena, "*%s*", part));
    for (size_t i = 0; i < r->p->objects.n; i++) {
        if (strstr(r->p->objects.items[i]->path, part)) {
            return true;
        }
    }
    return false;
}

static bool preload_applies(struct run *r, const struct kb_step *s, const struct cdll *state)
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
static bool fails_for_good(struct run *r, const struct cdll *state)
{
    if (state->failed && state->attempt < r->out->attempts.n) {
        struct model_attempt *at = &r->out->attempts.items[state->attempt];
        at->required = !r->wishes;
        at->recommended = r->wishes;
    }
    return state->failed;
}

static bool step_preload(struct run *r, struct imported *by, const struct kb_step *s,
                         struct cdll *state)
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

/* The first loaded object whose soname or file name matches. */
static struct ldso_object *object_matching(struct run *r, const char *glob)
{
    VEC_PUSH(r->m->arena, &r->out->looks, glob);
    for (size_t i = 0; i < r->p->objects.n; i++) {
        struct ldso_object *o = r->p->objects.items[i];
        if (str_glob(glob, path_base(o->path)) || (o->soname && str_glob(glob, o->soname))) {
            return o;
        }
    }
    return NULL;
}

/* What an import brings that may fail and is worth a warning: its requests are wishes. */
static bool step_import(struct run *r, const struct kb_step *s)
{
    r->wishes += s->missing == KB_MISSING_WARN;
    bool ok = do_import(r, s->package);
    r->wishes -= s->missing == KB_MISSING_WARN;
    return ok || s->optional;
}

/* The files of a row that the package brought: a release has some of them, and tries no others. */
static size_t without_absent(struct run *r, const char **names, size_t n)
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

static bool step_dlopen(struct run *r, struct imported *by, const struct kb_step *s)
{
    struct arena *a = r->m->arena;
    struct ldso_object *caller = strcmp(s->caller, "ctypes") == 0 ? ctypes_object(r)
                                 : strcmp(s->caller, "interpreter") == 0
                                     ? interpreter(r)
                                     : object_matching(r, s->caller);
    const char **names = arena_array(a, s->names.n, sizeof *names);
    size_t n = 0;
    for (size_t i = 0; i < s->names.n; i++) {
        const char *name = kb_fill(a, s->names.items[i], "{site}", by->dist->site);
        if (name) {
            names[n++] = name;
        }
    }
    bool required = !s->optional && s->missing == KB_MISSING_FAIL;
    if (!caller) {
        return true;
    }
    struct wanted w = {.source = MODEL_FROM_KB,
                       .row = by->row->id,
                       .phase = phase_of(s),
                       .caller = caller,
                       .names = names,
                       .n = without_absent(r, names, n),
                       .required = required,
                       .recommended = s->missing == KB_MISSING_WARN,
                       .feature = s->feature,
                       .says = s->says,
                       .mode = mode_of(s)};
    return attempt(r, by, &w) != NULL;
}

static bool retry_follows(const struct kb_import *row, size_t i)
{
    for (size_t k = i + 1; k < row->n_steps; k++) {
        if (row->steps[k].kind == KB_STEP_PRELOAD && row->steps[k].retry) {
            return true;
        }
    }
    return false;
}

static bool module_is_within(const struct imported *by, const char *module)
{
    bool found = false;
    for (size_t i = 0; module && i < by->within.n && !found; i++) {
        found = strcmp(by->within.items[i], module) == 0;
    }
    return found;
}

/* Whether a step of the first use is still to be done, or that of one module of the application. */
static bool is_due(const struct imported *by, const struct kb_step *s, const char *module)
{
    return s->within
               ? !module_is_within(by, s->within) && (!module || strcmp(s->within, module) == 0)
               : !by->begun;
}

/* Runs the steps of one phase; false if the import fails. Uses do not depend on each other. */
static bool run_steps(struct run *r, struct imported *by, enum kb_phase phase, const char *module)
{
    struct cdll state = {0};
    const char *stopped = NULL; // group that was given up
    for (size_t i = 0; i < by->row->n_steps && !r->p->dead; i++) {
        const struct kb_step *s = &by->row->steps[i];
        bool is_use = s->phase == KB_PHASE_USE;
        if (is_use != (phase == KB_PHASE_USE) || s->when == KB_WHEN_NO_GPU ||
            (is_use && !is_due(by, s, module)) ||
            (stopped && s->group && strcmp(s->group, stopped) == 0)) {
            continue;
        }
        bool ok = true;
        by->acts |= is_use && (s->kind != KB_STEP_IMPORT || name_is_known(r->m, s->package));
        switch (s->kind) {
        case KB_STEP_EXTENSION: ok = step_extension(r, by, s); break;
        case KB_STEP_CDLL: ok = step_cdll(r, by, s, retry_follows(by->row, i), &state); break;
        case KB_STEP_PRELOAD: ok = step_preload(r, by, s, &state); break;
        case KB_STEP_IMPORT: ok = step_import(r, s); break;
        case KB_STEP_DLOPEN:
            ok = step_dlopen(r, by, s);
            stopped = ok ? stopped : s->group;
            ok = ok || s->missing != KB_MISSING_FAIL;
            break;
        }
        if (!ok && !s->optional && !is_use) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ what objects open */

static const char *object_version(struct run *r, const struct kb_dlopen *row, struct ldso_object *o)
{
    switch (row->version_from) {
    case KB_VERSION_CUDNN: return model_object_version(r->m, o->file, o->path, KB_VERSION_CUDNN);
    case KB_VERSION_NVRTC: return model_object_version(r->m, o->file, o->path, KB_VERSION_NVRTC);
    case KB_VERSION_FILE_NAME:
        return model_object_version(r->m, o->file, o->path, KB_VERSION_FILE_NAME);
    case KB_VERSION_NONE:
    case KB_VERSION_PACKAGE:
    case KB_VERSION_VERDEF: break;
    }
    return NULL;
}

/* Whether the object lies in the site folder of the package, was not overwritten by another's, and
 * the package has a fitting version. */
static bool belongs_to(struct run *r, const struct ldso_object *o, const char *package,
                       const char *versions)
{
    const struct py_dist *dist = package && r->m->env ? py_env_by_dist(r->m->env, package) : NULL;
    if (!package) {
        return true;
    }
    return dist && starts_with(o->path, dist->site) &&
           model_version_fits(r->m->arena, versions, dist->version) &&
           !(o->file && py_overwritten_by(r->m->env, dist, o->path, o->file->image.size));
}

/* Whether the object is a build that does not make the requests of the row. */
static bool row_is_other_build(const struct kb_dlopen *row, const struct ldso_object *o)
{
    const char *build = row->not_builds.n ? model_build_name(model_build_of(o)) : "";
    for (size_t i = 0; i < row->not_builds.n; i++) {
        if (strcmp(row->not_builds.items[i], build) == 0) {
            return true;
        }
    }
    return false;
}

static bool row_matches(struct run *r, const struct kb_dlopen *row, struct ldso_object *o)
{
    bool named = false;
    for (size_t i = 0; i < row->objects.n && !named; i++) {
        named = str_glob(row->objects.items[i], path_base(o->path)) ||
                (o->soname && str_glob(row->objects.items[i], o->soname));
    }
    if (!named || !belongs_to(r, o, row->package, row->package_versions)) {
        return false;
    }
    for (size_t i = 0; i < row->beside.n; i++) {
        if (!object_matching(r, row->beside.items[i])) {
            return false;
        }
    }
    if (row_is_other_build(row, o)) {
        return false;
    }
    return !row->object_version ||
           model_version_fits(r->m->arena, row->object_version, object_version(r, row, o));
}

/* The message with the name that was asked for, the version of the object and the stem of the
 * library in it. */
static const char *fill_says(struct run *r, const struct kb_dlopen *row, struct ldso_object *o,
                             const struct kb_request *q, const char *name)
{
    struct arena *a = r->m->arena;
    const char *text = kb_fill(a, row->says, "{name}", name);
    const char *stem = q->names.n ? str_dup(a, model_stem(q->names.items[0])) : NULL;
    const char *version = object_version(r, row, o);
    static const char *const keys[] = {"{maj}", "{min}", "{pat}"};
    for (int rounds = 0; text && rounds < 8 && strstr(text, "libcudnn_SUB"); rounds++) {
        text = kb_fill(a, text, "libcudnn_SUB", stem);
    }
    struct str rest = str_of(version);
    for (size_t i = 0; i < 3; i++) {
        const char *part = rest.s ? str_dup(a, str_cut(&rest, '.')) : NULL;
        for (int rounds = 0; text && part && rounds < 8 && strstr(text, keys[i]); rounds++) {
            text = kb_fill(a, text, keys[i], part);
        }
    }
    return text;
}

static struct imported *find_imported(struct run *r, const struct py_dist *dist)
{
    for (size_t i = 0; i < r->imports.n; i++) {
        if (r->imports.items[i]->dist == dist) {
            return r->imports.items[i];
        }
    }
    return NULL;
}

/* Whether a package that this one uses before has had the object ask for the same. */
static bool row_is_repeated(struct run *r, const struct imported *by,
                            const struct row_of_object *one)
{
    bool found = false;
    for (size_t i = 0; by->row && i < by->row->n_steps && !found; i++) {
        const struct kb_step *s = &by->row->steps[i];
        const struct kb_import *row = NULL;
        const struct py_dist *dist = s->kind == KB_STEP_IMPORT && !s->optional
                                         ? model_find_import(r->m, s->package, &row)
                                         : NULL;
        const struct imported *part = dist ? find_imported(r, dist) : NULL;
        for (size_t k = 0; part && k < part->opened.n && !found; k++) {
            found = part->opened.items[k].row == one->row &&
                    part->opened.items[k].object == one->object;
        }
    }
    return found;
}

static void run_row(struct run *r, struct imported *by, const struct kb_dlopen *row,
                    struct ldso_object *o)
{
    const struct row_of_object one = {row, o};
    bool repeated = row->phase == KB_PHASE_USE && row_is_repeated(r, by, &one);
    if (row->phase == KB_PHASE_USE) {
        VEC_PUSH(r->m->arena, &by->opened, one);
    }
    for (size_t i = 0; i < row->n_requests && !r->p->dead; i++) {
        const struct kb_request *q = &row->requests[i];
        bool driver = q->family && strcmp(q->family, "driver") == 0;
        /* What a feature may or may not open is not loaded: it depends on what the program does. */
        if (!q->required && !q->warn && !driver && row->phase == KB_PHASE_USE) {
            continue;
        }
        const char **names = arena_array(r->m->arena, q->names.n, sizeof *names);
        size_t n = kb_request_names(r->m->arena, q, object_version(r, row, o),
                                    path_dir(r->m->arena, o->path), names);
        const char *name = n ? names[0] : NULL;
        struct wanted w = {.source = MODEL_FROM_KB,
                           .row = row->id,
                           .phase = row->phase == KB_PHASE_USE ? MODEL_USE : MODEL_IMPORT,
                           .caller = o,
                           .names = names,
                           .n = n,
                           .required = q->required,
                           .recommended = q->warn,
                           .repeated = repeated,
                           .feature = q->feature,
                           .family = q->family,
                           .says = q->required || q->warn ? fill_says(r, row, o, q, name) : NULL,
                           .in_program = row->in_program,
                           .mode = (q->lazy ? 0 : LDSO_NOW) | (q->global ? LDSO_GLOBAL_SCOPE : 0)};
        (void)attempt(r, by, &w); // kept in the attempts
    }
}

typedef VEC(struct ldso_object *) object_list;

static void run_collect(struct run *r, struct ldso_object *o, unsigned mark, object_list *out,
                        unsigned depth)
{
    if (o->mark == mark || depth > 200) {
        return;
    }
    o->mark = mark;
    VEC_PUSH(r->m->arena, out, o);
    for (size_t i = 0; i < o->deps.n; i++) {
        run_collect(r, o->deps.items[i], mark, out, depth + 1);
    }
}

/* Applies the rows of a phase to every object that the package brought, and to what these bring. */
static void run_rows(struct run *r, struct imported *by, bool use)
{
    unsigned mark = ++r->p->mark;
    object_list list = {0};
    size_t seen_roots = 0;
    for (size_t i = 0;; i++) {
        for (; seen_roots < by->roots.n; seen_roots++) {
            run_collect(r, by->roots.items[seen_roots], mark, &list, 0);
        }
        if (i >= list.n || r->p->dead) {
            return;
        }
        for (size_t k = 0; k < r->m->dlopens.n; k++) {
            const struct kb_dlopen *row = &r->m->dlopens.rows[k];
            if ((row->phase == KB_PHASE_USE) == use && row_matches(r, row, list.items[i])) {
                run_row(r, by, row, list.items[i]);
                mark = ++r->p->mark; // the loads have walked the graph themselves
                for (size_t j = 0; j < list.n; j++) {
                    list.items[j]->mark = mark;
                }
            }
        }
    }
}

/* ------------------------------------------------------------------ imports and uses */

/* Whether a distribution records a compiled file. A RECORD that cannot be read may list one. */
static bool has_compiled_file(struct model *m, const struct py_dist *dist)
{
    struct str text;
    struct py_record_row row;
    if (dist->kind != PY_DIST_INFO ||
        root_read(m->root, m->arena, path_join(m->arena, dist->info, "RECORD"), PY_RECORD_BYTES_MAX,
                  &text) < 0) {
        return true;
    }
    while (py_record_next(m->arena, &text, &row)) {
        if (str_ends(row.path, ".so") || str_find(row.path, ".so.") < row.path.n) {
            return true;
        }
    }
    return false;
}

/* Whether an installed requirement is a package whose imports the knowledge base knows. */
static bool requires_known(struct model *m, struct py_dist *dist)
{
    const struct py_metadata *meta = py_dist_metadata(m->env, dist);
    for (size_t i = 0; meta && i < meta->n_requires_dist; i++) {
        struct py_requirement q;
        struct gm_err err;
        const struct kb_import *row = NULL;
        if (py_requirement_parse(m->arena, meta->requires_dist[i], &q, &err) == 0 &&
            model_find_import(m, str_dup(m->arena, q.name), &row) && row) {
            return true;
        }
    }
    return !meta;
}

/* The installed distribution, or module of one, whose name is nearly this one; NULL: none. */
static const char *installed_near(struct model *m, const char *name)
{
    struct nearest n;
    nearest_init(&n, name);
    for (size_t i = 0; i < m->imports.n; i++) {
        if (py_env_by_dist(m->env, m->imports.rows[i].package)) {
            nearest_try(&n, m->imports.rows[i].module);
        }
    }
    for (size_t i = 0; i < m->env->n_dists; i++) {
        nearest_try(&n, m->env->dists[i].name);
    }
    return nearest_best(&n);
}

/* An import without a row: pure Python that needs no GPU package loads nothing of interest. */
static void import_unknown(struct run *r, const char *name)
{
    struct model *m = r->m;
    struct py_dist *dist = py_env_by_dist(m->env, name);
    struct py_module module;
    py_module_find(m->env, name, &module);
    if (!dist && module.kind == PY_MODULE_NONE) {
        const char *meant = installed_near(m, name);
        VEC_PUSH(m->arena, &r->out->unknown,
                 meant
                     ? arena_printf(m->arena, "%s is not installed; did you mean %s?", name, meant)
                     : arena_printf(m->arena, "%s is not installed", name));
    } else if (!dist || has_compiled_file(m, dist) || requires_known(m, dist)) {
        VEC_PUSH(m->arena, &r->out->unknown,
                 arena_printf(m->arena,
                              "%s is installed, but what its import loads is unknown; "
                              "name the GPU packages that it imports instead",
                              name));
    } else {
        VEC_PUSH(m->arena, &r->out->imported, dist->name);
    }
}

static bool is_module_of(const char *const *modules, size_t n_modules, const char *module)
{
    for (size_t i = 0; i < n_modules; i++) {
        size_t n = strlen(modules[i]);
        if (strncmp(module, modules[i], n) == 0 && (module[n] == '\0' || module[n] == '.')) {
            return true;
        }
    }
    return false;
}

/* What the environment's own start-up hook loads at this import. */
static void run_hook(struct run *r, const char *module)
{
    const struct model_hook *h = &r->m->hook;
    const char *off = ldso_getenv(r->p, "GPUMEND_HOOK");
    if (r->hooked || (off && strcmp(off, "0") == 0) ||
        !is_module_of(h->modules, h->n_modules, module)) {
        return;
    }
    r->hooked = true;
    for (size_t i = 0; i < h->n_libraries; i++) {
        if (!ldso_dlopen(r->p, ctypes_object(r), h->libraries[i], LDSO_NOW)) {
            return; // the process is dead
        }
    }
}

/* The start-up hook of a change loads right before the first import of one of its modules. */
static void preload_before(struct run *r, const char *module)
{
    const struct model_change *c = r->m->change;
    if (c && !r->out->n_preloads && is_module_of(c->modules, c->n_modules, module)) {
        model_preload(r->m, r->out, ctypes_object(r));
    }
}

static bool do_import(struct run *r, const char *name)
{
    const struct kb_import *row = NULL;
    const struct py_dist *dist = model_find_import(r->m, name, &row);
    run_hook(r, row ? row->module : name);
    preload_before(r, row ? row->module : name);
    if (!dist || !row) {
        if (r->depth == 0) {
            import_unknown(r, name);
        } else if (dist && model_import_is_known(r->m, name)) {
            note_unsure(r, arena_printf(r->m->arena, "what the import of %s %s loads is not known",
                                        dist->name, dist->version));
        }
        return true; // a requirement of a package is not judged here
    }
    bool known = find_imported(r, dist);
    VEC_PUSH(r->m->arena, &r->out->touches, (struct model_touch){dist, false, !known});
    if (known || is_too_deep(r, dist)) {
        return true;
    }
    struct imported *by = arena_alloc(r->m->arena, sizeof *by);
    by->dist = dist;
    by->row = row;
    VEC_PUSH(r->m->arena, &r->imports, by);
    VEC_PUSH(r->m->arena, &r->out->imported, dist->name);
    r->depth++;
    bool ok = run_steps(r, by, KB_PHASE_IMPORT, NULL);
    if (ok) {
        run_rows(r, by, false);
    }
    r->depth--;
    return ok;
}

/* What a first use does before it uses anything: of the whole package, or of one module of it. */
static bool prepare_use(struct run *r, struct imported *by, const char *module)
{
    bool ok = run_steps(r, by, KB_PHASE_USE, module);
    by->begun = true;
    by->prepared |= !module;
    if (module) {
        VEC_PUSH(r->m->arena, &by->within, module);
    }
    return ok;
}

static void do_use(struct run *r, const char *name)
{
    const struct kb_import *row = NULL;
    const struct py_dist *dist = model_find_import(r->m, name, &row);
    struct imported *by = dist ? find_imported(r, dist) : NULL;
    if (!by) {
        return;
    }
    VEC_PUSH(r->m->arena, &r->out->touches, (struct model_touch){dist, true, !by->used});
    if (by->used || is_too_deep(r, dist)) {
        return;
    }
    by->used = true;
    r->depth++;
    bool ok = by->prepared || prepare_use(r, by, NULL);
    for (size_t i = 0; i < by->row->n_steps && ok; i++) {
        const struct kb_step *s = &by->row->steps[i];
        /* What may be imported beside it is not used by it, unless using it imports that. */
        if (s->kind == KB_STEP_IMPORT && (!s->optional || s->phase == KB_PHASE_USE)) {
            do_use(r, s->package);
        }
    }
    if (ok) {
        run_rows(r, by, true);
    }
    r->depth--;
}

/* The part of a name below a row's module, "asr" of "whisperx.asr"; or NULL. */
static const char *module_below(const struct kb_import *row, const char *name)
{
    size_t n = strlen(row->module);
    return strncmp(name, row->module, n) == 0 && name[n] == '.' ? name + n + 1 : NULL;
}

/* "use PART in APPLICATION", or in a module of it: what this does in each case, and then of its
 * parts this one first. */
static void do_use_part(struct run *r, const char *part, const char *application)
{
    const struct kb_import *row = NULL;
    const struct py_dist *dist = model_find_import(r->m, application, &row);
    struct imported *by = dist ? find_imported(r, dist) : NULL;
    if (!by) {
        return;
    }
    const char *module = module_below(row, application);
    bool due = !by->prepared && !module_is_within(by, module);
    VEC_PUSH(r->m->arena, &r->out->touches, (struct model_touch){dist, true, due});
    if (due) {
        r->depth++;
        (void)prepare_use(r, by, module); // uses do not depend on each other
        r->depth--;
    }
    do_use(r, part);
}

/* The packages whose own first use this use is, in a fixed order: two uses with the same parts come
 * to the same, whichever is first. Follows do_use(). */
typedef VEC(const struct imported *) use_parts;

static void parts_of_use(struct run *r, const char *name, use_parts *seen, use_parts *out)
{
    const struct kb_import *row = NULL;
    const struct py_dist *dist = model_find_import(r->m, name, &row);
    struct imported *by = dist ? find_imported(r, dist) : NULL;
    for (size_t i = 0; by && i < seen->n; i++) {
        by = seen->items[i] == by ? NULL : by;
    }
    if (!by) {
        return;
    }
    VEC_PUSH(r->m->arena, seen, by);
    if (by->acts || !by->used) { // not reached: the process died before
        VEC_PUSH(r->m->arena, out, by);
    }
    for (size_t i = 0; i < by->row->n_steps; i++) {
        const struct kb_step *s = &by->row->steps[i];
        if (s->kind == KB_STEP_IMPORT && (!s->optional || s->phase == KB_PHASE_USE)) {
            parts_of_use(r, s->package, seen, out);
        }
    }
}

static bool same_parts(const use_parts *a, const use_parts *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->items, b->items, a->n * sizeof *a->items) == 0);
}

static size_t n_opening(const struct kb_import *row, const use_parts *parts)
{
    size_t n = 0;
    for (size_t i = 0; i < parts->n; i++) {
        n += parts->items[i]->row != row && parts->items[i]->opens;
    }
    return n;
}

/* "use torch in whisperx.asr" for what one module of an application uses, or (NULL) the whole. */
static void add_parts(struct run *r, const struct kb_import *row, const use_parts *parts,
                      const char *module)
{
    struct arena *a = r->m->arena;
    for (size_t i = 0; i < parts->n; i++) {
        if (parts->items[i]->row != row && parts->items[i]->opens) {
            VEC_PUSH(a, &r->out->choices,
                     arena_printf(a, "use %s in %s%s%s", parts->items[i]->row->module, row->module,
                                  module ? "." : "", module ? module : ""));
        }
    }
}

static void add_parts_within(struct run *r, const struct kb_import *row, const char *module)
{
    use_parts seen = {0}, mine = {0};
    for (size_t i = 0; i < row->n_steps; i++) {
        const struct kb_step *s = &row->steps[i];
        if (s->kind == KB_STEP_IMPORT && s->within && strcmp(s->within, module) == 0) {
            parts_of_use(r, s->package, &seen, &mine);
        }
    }
    add_parts(r, row, &mine, module);
}

static bool is_first_within(const struct kb_import *row, size_t step)
{
    const char *module = row->steps[step].within;
    bool first = module;
    for (size_t i = 0; i < step && first; i++) {
        first = !row->steps[i].within || strcmp(row->steps[i].within, module) != 0;
    }
    return first;
}

/* The steps that a use is made of: the parts of an application are used in the order that its
 * options and the program choose, and so are its modules that it imports at their first use. */
static void add_choice(struct run *r, const char *use, const use_parts *parts)
{
    const struct kb_import *row = NULL;
    (void)model_find_import(r->m, use, &row); // known: it has parts
    if (row && row->role == KB_ROLE_APPLICATION && n_opening(row, parts) > 1) {
        size_t n = r->out->choices.n;
        for (size_t i = 0; i < row->n_steps; i++) {
            if (is_first_within(row, i)) {
                add_parts_within(r, row, row->steps[i].within);
            }
        }
        if (r->out->choices.n == n) {
            add_parts(r, row, parts, NULL);
        }
    }
    VEC_PUSH(r->m->arena, &r->out->choices, arena_printf(r->m->arena, "use %s", use));
}

/* The uses of a script that has run which can make a difference: those that open something, the
 * first of those that open the same. */
static void note_order(struct run *r)
{
    struct model_process *out = r->out;
    struct arena *a = r->m->arena;
    use_parts *parts = arena_array(a, out->n_script, sizeof *parts);
    size_t n = 0;
    out->order = arena_array(a, out->n_script, sizeof *out->order);
    for (size_t i = 0; i < out->n_script && !out->fatal; i++) {
        use_parts seen = {0}, mine = {0};
        bool known = false;
        if (starts_with(out->script[i], "use ")) {
            parts_of_use(r, out->script[i] + strlen("use "), &seen, &mine);
        }
        for (size_t k = 0; k < n && !known; k++) {
            known = same_parts(&parts[k], &mine);
        }
        if (mine.n && !known) {
            parts[n] = mine;
            out->order[n++] = out->script[i] + strlen("use ");
            add_choice(r, out->order[n - 1], &mine);
        }
    }
    out->n_order = n;
}

static bool ready(struct run *r)
{
    return !r->p->start_failed && !r->p->is_static && !r->p->dead && !r->p->limit && !r->out->fatal;
}

/* Where the next step begins. */
static void push_mark(struct run *r)
{
    const struct ldso_process *p = r->p;
    struct model_process *out = r->out;
    VEC_PUSH(r->m->arena, &out->marks,
             (struct model_mark){.requests = p->requests.n,
                                 .objects = p->objects.n,
                                 .looks = out->looks.n,
                                 .touches = out->touches.n,
                                 .spread = p->global.n + p->defects.n});
}

void model_run_script(struct model *m, struct model_process *out, const struct ldso_config *config)
{
    struct gm_err err;
    struct run r = {.m = m, .out = out};
    if (!m->env->executable) {
        out->error = "the environment has no interpreter that could be started";
        return;
    }
    r.p = ldso_process_new(m->store, m->arena, config);
    if (ldso_start(r.p, m->env->executable, &err) < 0) {
        out->error = arena_strdup(m->arena, err.text);
        return;
    }
    out->ldso = r.p;
    if (m->change && m->change->n_preloads && !m->change->n_modules && ready(&r)) {
        model_preload(m, out, ctypes_object(&r));
    }
    for (size_t i = 0; i < out->n_script && ready(&r); i++) {
        push_mark(&r);
        if (starts_with(out->script[i], "import ")) {
            out->fatal = !do_import(&r, out->script[i] + 7);
        } else if (starts_with(out->script[i], "use ")) {
            const char *name = out->script[i] + 4, *in = strstr(name, " in ");
            if (in) {
                do_use_part(&r, arena_strndup(m->arena, name, (size_t)(in - name)), in + 4);
            } else {
                do_use(&r, name);
            }
        }
    }
    push_mark(&r);
    if (!out->order) {
        note_order(&r);
    }
    model_settle(out);
}

void model_preload(struct model *m, struct model_process *out, struct ldso_object *caller)
{
    const struct model_change *c = m->change;
    out->first_preload = out->ldso->loads.n;
    for (size_t i = 0; c && i < c->n_preloads; i++) {
        if (!ldso_dlopen(out->ldso, caller, c->preloads[i], LDSO_NOW)) {
            break; // the process is dead
        }
    }
    out->n_preloads = out->ldso->loads.n - out->first_preload;
}

/* The array of loads moves while it grows, so the pointers are set last. */
void model_settle(struct model_process *out)
{
    if (out->ldso->limit) {
        out->error = out->ldso->limit;
        out->unsure = true;
    }
    for (size_t i = 0; i < out->attempts.n; i++) {
        struct model_attempt *at = &out->attempts.items[i];
        if (at->n_loads) {
            at->load = &out->ldso->loads
                            .items[at->failed ? at->first_load : at->first_load + at->n_loads - 1];
        }
    }
}

/* Whether a loaded object is the package's own: below its module's folder, or that of its bundled
 * libraries (auditwheel's NAME.libs). */
static bool row_is_of(struct model *m, const struct kb_import *row, const struct py_dist *dist,
                      const struct ldso_object *o)
{
    const char *module = arena_strdup(m->arena, row->module);
    size_t top = strcspn(module, ".");
    const char *dir = arena_printf(m->arena, "%s/%.*s", dist->site, (int)top, module);
    size_t n = strlen(dir);
    return strncmp(o->path, dir, n) == 0 &&
           (o->path[n] == '/' || starts_with(o->path + n, ".libs/"));
}

static const struct py_dist *loaded_dist(struct model *m, const struct model_process *p,
                                         const struct kb_import *row)
{
    const struct py_dist *dist = m->env ? py_env_by_dist(m->env, row->package) : NULL;
    bool loaded = false;
    if (!dist || !dist->site || !model_version_fits(m->arena, row->versions, dist->version)) {
        return NULL;
    }
    for (size_t i = 0; i < p->ldso->objects.n && !loaded; i++) {
        loaded = row_is_of(m, row, dist, p->ldso->objects.items[i]);
    }
    return loaded ? dist : NULL;
}

const char *model_loaded_module(struct model *m, const struct model_process *p, size_t n)
{
    for (size_t i = 0; i < m->imports.n; i++) {
        if (loaded_dist(m, p, &m->imports.rows[i]) && n-- == 0) {
            return m->imports.rows[i].module;
        }
    }
    return NULL;
}

void model_use_loaded(struct model *m, struct model_process *out, const char *module)
{
    struct run r = {.m = m, .out = out, .p = out->ldso};
    for (size_t i = 0; i < m->imports.n; i++) {
        const struct kb_import *row = &m->imports.rows[i];
        const struct py_dist *dist = loaded_dist(m, out, row);
        if (!dist) {
            continue;
        }
        struct imported *by = arena_alloc(m->arena, sizeof *by);
        by->dist = dist;
        by->row = row;
        for (size_t k = 0; k < out->ldso->objects.n; k++) {
            if (row_is_of(m, row, dist, out->ldso->objects.items[k])) {
                VEC_PUSH(m->arena, &by->roots, out->ldso->objects.items[k]);
            }
        }
        VEC_PUSH(m->arena, &r.imports, by);
        VEC_PUSH(m->arena, &out->imported, dist->name);
        if (strcmp(row->module, module) == 0) {
            VEC_PUSH(m->arena, &m->known, dist);
        }
    }
    do_use(&r, module);
}

void model_run_object_rows(struct model *m, struct model_process *out)
{
    struct run r = {.m = m, .out = out, .p = out->ldso};
    struct imported all = {.dist = NULL};
    VEC_PUSH(m->arena, &all.roots, out->ldso->main);
    run_rows(&r, &all, false);
    run_rows(&r, &all, true);
}

struct model_process *model_new_process(struct model *m, const char *const *script, size_t n)
{
    struct model_process *out = arena_alloc(m->arena, sizeof *out);
    out->script = arena_array(m->arena, n, sizeof *out->script);
    for (size_t i = 0; i < n; i++) {
        out->script[i] = arena_strdup(m->arena, script[i]);
    }
    out->n_script = n;
    return out;
}

void model_add_process(struct model *m, struct model_process *out)
{
    VEC_PUSH(m->arena, &m->processes, out);
    model_run_script(m, out, &m->config);
}

struct model_process *model_add_script(struct model *m, const char *const *script, size_t n)
{
    struct model_process *out = model_new_process(m, script, n);
    out->group = m->processes.n;
    model_add_process(m, out);
    return out;
}

static bool line_is_import(const char *line)
{
    return starts_with(line, "import ");
}

size_t model_n_imports(const struct model_process *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_script; i++) {
        n += line_is_import(p->script[i]);
    }
    return n;
}
