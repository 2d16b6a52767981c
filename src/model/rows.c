/* What loaded objects open by themselves (kb/dlopen), at their import and at their first use. */
#include <string.h>

#include "kb/libver.h"
#include "model/family.h"
#include "model/gpu.h"
#include "model/imports.h"
#include "model/run.h"
#include "py/owner.h"

static const char *object_version(struct model_run *r, const struct kb_dlopen *row,
                                  struct ldso_object *o)
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
static bool belongs_to(struct model_run *r, const struct ldso_object *o, const char *package,
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

/* The rows whose globs name the object. Every process and every replay asks this of the same few
 * hundred names, so that the answer is kept. */
typedef VEC(const struct kb_dlopen *) row_list;

static const row_list *rows_naming(struct model *m, const struct ldso_object *o)
{
    const char *file = path_base(o->path), *soname = o->soname ? o->soname : file;
    const char *key = arena_printf(m->arena, "rows of %s, %s", file, soname);
    row_list *kept = ldso_store_recall(m->store, key);
    if (kept) {
        return kept;
    }
    kept = arena_alloc(m->arena, sizeof *kept);
    for (size_t i = 0; i < m->dlopens.n; i++) {
        const struct kb_strs *globs = &m->dlopens.rows[i].objects;
        bool named = false;
        for (size_t k = 0; k < globs->n && !named; k++) {
            named = str_glob(globs->items[k], file) || str_glob(globs->items[k], soname);
        }
        if (named) {
            VEC_PUSH(m->arena, kept, &m->dlopens.rows[i]);
        }
    }
    ldso_store_remember(m->store, key, kept);
    return kept;
}

/* Of a row that names the object. */
static bool row_matches(struct model_run *r, const struct kb_dlopen *row, struct ldso_object *o)
{
    if (!belongs_to(r, o, row->package, row->package_versions)) {
        return false;
    }
    for (size_t i = 0; i < row->beside.n; i++) {
        if (!model_run_matching(r, row->beside.items[i])) {
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
static const char *fill_says(struct model_run *r, const struct kb_dlopen *row,
                             struct ldso_object *o, const struct kb_request *q, const char *name)
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

struct model_imported *model_run_imported(struct model_run *r, const struct py_dist *dist)
{
    for (size_t i = 0; i < r->imports.n; i++) {
        if (r->imports.items[i]->dist == dist) {
            return r->imports.items[i];
        }
    }
    return NULL;
}

/* Whether a package that this one uses before has had the object ask for the same. */
static bool row_is_repeated(struct model_run *r, const struct model_imported *by,
                            const struct model_opened *one)
{
    bool found = false;
    for (size_t i = 0; by->row && i < by->row->n_steps && !found; i++) {
        const struct kb_step *s = &by->row->steps[i];
        const struct kb_import *row = NULL;
        const struct py_dist *dist = s->kind == KB_STEP_IMPORT && !s->optional
                                         ? model_find_import(r->m, s->package, &row)
                                         : NULL;
        const struct model_imported *part = dist ? model_run_imported(r, dist) : NULL;
        for (size_t k = 0; part && k < part->opened.n && !found; k++) {
            found = part->opened.items[k].row == one->row &&
                    part->opened.items[k].object == one->object;
        }
    }
    return found;
}

static void run_row(struct model_run *r, struct model_imported *by, const struct kb_dlopen *row,
                    struct ldso_object *o)
{
    const struct model_opened one = {row, o};
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
        struct model_wanted w = {
            .source = MODEL_FROM_KB,
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
        (void)model_run_attempt(r, by, &w); // kept in the attempts
    }
}

typedef VEC(struct ldso_object *) object_list;

static void run_collect(struct model_run *r, struct ldso_object *o, unsigned mark, object_list *out,
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

void model_run_rows(struct model_run *r, struct model_imported *by, bool use)
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
        const row_list *rows = rows_naming(r->m, list.items[i]);
        for (size_t k = 0; k < rows->n; k++) {
            const struct kb_dlopen *row = rows->items[k];
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
