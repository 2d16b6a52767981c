/* One request of a script: the names that are tried, who asks, and what is recorded of it. */
#include "kb/libver.h"
#include "model/run.h"
#include "py/module.h"

enum { ATTEMPTS_MAX = 5000 };

const char *model_source_name(enum model_source source)
{
    static const char *const names[] = {[MODEL_FROM_IMPORT] = "import",
                                        [MODEL_FROM_KB] = "knowledge base",
                                        [MODEL_FROM_NOTE] = ".note.dlopen",
                                        [MODEL_FROM_MAPS] = "maps",
                                        [MODEL_FROM_GUESS] = "guess"};
    return names[source];
}

struct ldso_object *model_run_interpreter(struct model_run *r)
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
struct ldso_object *model_run_ctypes(struct model_run *r)
{
    if (!r->ctypes) {
        struct py_module module;
        py_module_find(r->m->env, "_ctypes", &module);
        r->ctypes = model_run_interpreter(r);
        if (module.kind == PY_MODULE_EXTENSION) {
            const struct ldso_load *load = ldso_dlopen(r->p, r->ctypes, module.file, LDSO_NOW);
            r->ctypes = load && load->object ? load->object : r->ctypes;
        }
    }
    return r->ctypes;
}

void model_run_unsure(struct model_run *r, const char *text)
{
    r->out->unsure = true;
    VEC_PUSH(r->m->arena, &r->out->unknown, text);
}

static bool attempts_are_full(struct model_run *r)
{
    if (r->out->attempts.n < ATTEMPTS_MAX) {
        return false;
    }
    if (!r->full) {
        r->full = true;
        model_run_unsure(r, arena_printf(r->m->arena,
                                         "more than %d libraries are asked for in one process; the "
                                         "rest is not judged",
                                         ATTEMPTS_MAX));
    }
    return true;
}

struct ldso_object *model_run_attempt(struct model_run *r, struct model_imported *by,
                                      const struct model_wanted *w)
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
                               .variable = w->variable,
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

struct ldso_object *model_run_matching(struct model_run *r, const char *glob)
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
