/* Scripts: imports and first uses as sequences of loads, by the rows of kb/imports and kb/dlopen.
 */
#include <string.h>

#include "model/imports.h"
#include "model/orders.h"
#include "model/replay.h"
#include "model/run.h"

enum { DEPTH_MAX = 16 };

/* Whether the package is there, and what its import loads is known. */
static bool name_is_known(struct model *m, const char *name)
{
    const struct kb_import *row = NULL;
    return model_find_import(m, name, &row) && row;
}

static bool is_too_deep(struct model_run *r, const struct py_dist *dist)
{
    if (r->depth < DEPTH_MAX) {
        return false;
    }
    model_run_unsure(
        r, arena_printf(r->m->arena,
                        "imports are nested more than %d deep: what %s loads was not judged",
                        DEPTH_MAX, dist->name));
    return true;
}

static bool do_import(struct model_run *r, const char *name);

/* What an import brings that may fail and is worth a warning: its requests are wishes. */
static bool step_import(struct model_run *r, const struct kb_step *s)
{
    r->wishes += s->missing == KB_MISSING_WARN;
    bool ok = do_import(r, s->package);
    r->wishes -= s->missing == KB_MISSING_WARN;
    return ok || s->optional;
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

static bool module_is_within(const struct model_imported *by, const char *module)
{
    bool found = false;
    for (size_t i = 0; module && i < by->within.n && !found; i++) {
        found = strcmp(by->within.items[i], module) == 0;
    }
    return found;
}

/* Whether a step of the first use is still to be done, or that of one module of the application. */
static bool is_due(const struct model_imported *by, const struct kb_step *s, const char *module)
{
    return s->within
               ? !module_is_within(by, s->within) && (!module || strcmp(s->within, module) == 0)
               : !by->begun;
}

/* Runs the steps of one phase; false if the import fails. Uses do not depend on each other. */
static bool run_steps(struct model_run *r, struct model_imported *by, enum kb_phase phase,
                      const char *module)
{
    struct model_cdll state = {0};
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
        case KB_STEP_EXTENSION: ok = model_step_extension(r, by, s); break;
        case KB_STEP_CDLL: ok = model_step_cdll(r, by, s, retry_follows(by->row, i), &state); break;
        case KB_STEP_PRELOAD: ok = model_step_preload(r, by, s, &state); break;
        case KB_STEP_IMPORT: ok = step_import(r, s); break;
        case KB_STEP_DLOPEN:
            ok = model_step_dlopen(r, by, s);
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

/* ------------------------------------------------------------------ imports and uses */

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
static void run_hook(struct model_run *r, const char *module)
{
    const struct model_hook *h = &r->m->hook;
    if (r->hooked || model_hook_is_off(ldso_getenv(r->p, "GPUMEND_HOOK")) ||
        !is_module_of(h->modules, h->n_modules, module)) {
        return;
    }
    r->hooked = true;
    for (size_t i = 0; i < h->n_libraries; i++) {
        if (!ldso_dlopen(r->p, model_run_ctypes(r), h->libraries[i], LDSO_NOW)) {
            return; // the process is dead
        }
    }
}

/* The start-up hook of a change loads right before the first import of one of its modules. */
static void preload_before(struct model_run *r, const char *module)
{
    const struct model_change *c = r->m->change;
    if (c && !r->out->n_preloads && is_module_of(c->modules, c->n_modules, module)) {
        model_preload(r->m, r->out, model_run_ctypes(r));
    }
}

static bool do_import(struct model_run *r, const char *name)
{
    const struct kb_import *row = NULL;
    const struct py_dist *dist = model_find_import(r->m, name, &row);
    run_hook(r, row ? row->module : name);
    preload_before(r, row ? row->module : name);
    if (!dist || !row) {
        if (r->depth == 0) {
            model_import_unknown(r, name);
        } else if (dist && model_import_is_known(r->m, name)) {
            model_run_unsure(r, arena_printf(r->m->arena,
                                             "what the import of %s %s loads is not known",
                                             dist->name, dist->version));
        }
        return true; // a requirement of a package is not judged here
    }
    bool known = model_run_imported(r, dist);
    VEC_PUSH(r->m->arena, &r->out->touches, (struct model_touch){dist, false, !known});
    if (known || is_too_deep(r, dist)) {
        return true;
    }
    struct model_imported *by = arena_alloc(r->m->arena, sizeof *by);
    by->dist = dist;
    by->row = row;
    VEC_PUSH(r->m->arena, &r->imports, by);
    VEC_PUSH(r->m->arena, &r->out->imported, dist->name);
    r->depth++;
    bool ok = run_steps(r, by, KB_PHASE_IMPORT, NULL);
    if (ok) {
        model_run_rows(r, by, false);
    }
    r->depth--;
    return ok;
}

/* What a first use does before it uses anything: of the whole package, or of one module of it. */
static bool prepare_use(struct model_run *r, struct model_imported *by, const char *module)
{
    bool ok = run_steps(r, by, KB_PHASE_USE, module);
    by->begun = true;
    by->prepared |= !module;
    if (module) {
        VEC_PUSH(r->m->arena, &by->within, module);
    }
    return ok;
}

static void do_use(struct model_run *r, const char *name)
{
    const struct kb_import *row = NULL;
    const struct py_dist *dist = model_find_import(r->m, name, &row);
    struct model_imported *by = dist ? model_run_imported(r, dist) : NULL;
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
        model_run_rows(r, by, true);
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
static void do_use_part(struct model_run *r, const char *part, const char *application)
{
    const struct kb_import *row = NULL;
    const struct py_dist *dist = model_find_import(r->m, application, &row);
    struct model_imported *by = dist ? model_run_imported(r, dist) : NULL;
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
typedef VEC(const struct model_imported *) use_parts;

static void parts_of_use(struct model_run *r, const char *name, use_parts *seen, use_parts *out)
{
    const struct kb_import *row = NULL;
    const struct py_dist *dist = model_find_import(r->m, name, &row);
    struct model_imported *by = dist ? model_run_imported(r, dist) : NULL;
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
static void add_parts(struct model_run *r, const struct kb_import *row, const use_parts *parts,
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

static void add_parts_within(struct model_run *r, const struct kb_import *row, const char *module)
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
static void add_choice(struct model_run *r, const char *use, const use_parts *parts)
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
static void note_order(struct model_run *r)
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

static bool ready(struct model_run *r)
{
    return !r->p->start_failed && !r->p->is_static && !r->p->dead && !r->p->limit && !r->out->fatal;
}

/* Where the next step begins. */
static void push_mark(struct model_run *r)
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
    struct model_run r = {.m = m, .out = out};
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
        model_preload(m, out, model_run_ctypes(&r));
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
    struct model_run r = {.m = m, .out = out, .p = out->ldso};
    for (size_t i = 0; i < m->imports.n; i++) {
        const struct kb_import *row = &m->imports.rows[i];
        const struct py_dist *dist = loaded_dist(m, out, row);
        if (!dist) {
            continue;
        }
        struct model_imported *by = arena_alloc(m->arena, sizeof *by);
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
    struct model_run r = {.m = m, .out = out, .p = out->ldso};
    struct model_imported all = {.dist = NULL};
    VEC_PUSH(m->arena, &all.roots, out->ldso->main);
    model_run_rows(&r, &all, false);
    model_run_rows(&r, &all, true);
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

const struct ldso_process *model_first_process(const struct model *m)
{
    for (size_t i = 0; i < m->processes.n; i++) {
        if (m->processes.items[i]->ldso) {
            return m->processes.items[i]->ldso;
        }
    }
    return NULL;
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
