/* What failed in a process, and the words for it. */
#include <string.h>

#include "diag/internal.h"

/* ------------------------------------------------------------------ collecting */

typedef VEC(struct diag_failure) failure_list;

static bool request_failed(const struct ldso_request *r)
{
    return r->outcome == LDSO_NOT_FOUND || r->outcome == LDSO_REFUSED;
}

/* "libcudnn_ops.so.9" rather than "libcudnn_ops.so.9.1.0" or "libcudnn_ops.so": one number. */
static bool has_one_number(const char *name)
{
    const char *so = strstr(name, ".so.");
    return so && so[4] && !strchr(so + 4, '.');
}

static const char *representative(const struct model_attempt *at)
{
    for (size_t i = 0; i < at->n_names; i++) {
        if (has_one_number(at->names[i])) {
            return at->names[i];
        }
    }
    return at->names[0];
}

/* The defect that ended a load, or the start (-1). */
static const struct ldso_defect *fatal_defect(const struct ldso_process *p, int load)
{
    for (size_t i = 0; i < p->defects.n; i++) {
        if (p->defects.items[i].load == load && p->defects.items[i].fatal) {
            return &p->defects.items[i];
        }
    }
    return NULL;
}

/* What really ended one load: a dependency that was not found, a defect, or the name itself. */
static void failure_of_load(struct diag *d, struct diag_failure f, size_t index, failure_list *out)
{
    const struct ldso_process *p = f.process->ldso;
    const struct ldso_load *load = &p->loads.items[index];
    const struct ldso_request *own = p->requests.items[load->request];
    f.says = load->glibc_says;
    f.defect = fatal_defect(p, (int)index);
    f.request = request_failed(own) ? own : NULL;
    for (size_t i = load->request + 1; i < p->requests.n && !f.request && !f.defect; i++) {
        const struct ldso_request *r = p->requests.items[i];
        if (r->load == (int)index && request_failed(r)) {
            f.request = r;
            f.name = r->name;
        }
    }
    if (f.defect && !f.request) {
        f.name = path_base(f.defect->object->path);
    }
    VEC_PUSH(d->a, out, f);
}

/* How many files a load found before it failed, with one that was refused. */
static size_t found_by(const struct ldso_process *p, size_t load)
{
    size_t n = 0;
    for (size_t i = p->loads.items[load].request; i < p->requests.n; i++) {
        n += p->requests.items[i]->load == (int)load &&
             p->requests.items[i]->outcome != LDSO_NOT_FOUND;
    }
    return n;
}

/* The load that tells most of an attempt whose candidates all failed: the one that came farthest,
 * else the candidate with one version number. */
static size_t telling_load(const struct ldso_process *p, const struct model_attempt *at)
{
    size_t best = at->first_load, most = 0;
    for (size_t i = at->first_load; i < at->first_load + at->n_loads; i++) {
        size_t n = found_by(p, i);
        bool represents = strcmp(p->loads.items[i].name, representative(at)) == 0;
        if (n > most || (n == most && represents)) {
            best = i;
            most = n;
        }
    }
    return best;
}

/* The driver's own libraries come with the driver: where none is installed that is a fact about
 * the machine, and no fault of the environment. What is missing besides is one. */
bool diag_is_driver_library(struct diag *d, const char *name)
{
    const struct kb_families *families = &d->m->families;
    for (size_t i = 0; i < families->n; i++) {
        const struct kb_family *f = &families->rows[i];
        if (strcmp(f->id, "driver") == 0 && kb_family_has(f, name)) {
            return true;
        }
    }
    return diag_is_driver_part(name);
}

bool diag_is_loaded(struct ldso_process *p, const char *name)
{
    for (size_t i = 0; i < p->requests.n; i++) {
        const struct ldso_request *r = p->requests.items[i];
        if (strcmp(r->name, name) == 0 &&
            (r->outcome == LDSO_LOADED || r->outcome == LDSO_REUSED)) {
            return true;
        }
    }
    return ldso_find_object(p, name) != NULL;
}

/* A library is findable for the asker if a copy lies where the failed search went, or where the
 * system's own are. */
bool diag_is_findable(struct diag *d, const struct ldso_request *r, const char *name)
{
    struct model_library *list = NULL;
    size_t n = model_libraries(d->m, name, &list);
    for (size_t i = 0; i < n; i++) {
        if (list[i].usable && strcmp(list[i].name, name) == 0 &&
            (strcmp(list[i].where, "system") == 0 ||
             diag_searched(d, r, path_dir(d->a, list[i].path)))) {
            return true;
        }
    }
    return false;
}

const struct ldso_request *diag_next_missing(struct diag *d, const struct diag_failure *x)
{
    const struct ldso_request *r = x->request;
    if (r->kind != LDSO_NEEDED || !r->caller) {
        return NULL;
    }
    const struct elf_image *image = &r->caller->file->image;
    for (size_t i = 0; i < image->n_needs; i++) {
        const char *name = image->needs[i].name;
        if (!strchr(name, '/') && !diag_is_driver_library(d, name) &&
            !diag_is_loaded(x->process->ldso, name) && !diag_is_findable(d, r, name)) {
            struct ldso_request *next = arena_alloc(d->a, sizeof *next);
            *next = *r;
            next->name = name;
            next->glibc_says = arena_printf(d->a,
                                            "%s: cannot open shared object file: No such "
                                            "file or directory",
                                            name);
            return next;
        }
    }
    return NULL;
}

static void keep_unless_driver(struct diag *d, failure_list *out)
{
    const struct diag_failure *last = out->n ? &out->items[out->n - 1] : NULL;
    if (!last || !last->request || last->request->outcome != LDSO_NOT_FOUND ||
        !diag_is_driver_library(d, last->request->name)) {
        return;
    }
    const struct ldso_request *next = diag_next_missing(d, last);
    out->n -= next ? 0 : 1;
    if (next) {
        out->items[out->n - 1].request = next;
        out->items[out->n - 1].name = next->name;
        out->items[out->n - 1].says = next->glibc_says;
    }
}

static void start_failures(struct diag *d, const struct model_process *p, failure_list *out)
{
    for (size_t i = 0; i < p->ldso->requests.n; i++) {
        const struct ldso_request *r = p->ldso->requests.items[i];
        if (r->load < 0 && r->kind == LDSO_NEEDED && request_failed(r)) {
            VEC_PUSH(d->a, out,
                     (struct diag_failure){
                         .process = p, .request = r, .name = r->name, .says = r->glibc_says});
            keep_unless_driver(d, out);
        }
    }
    const struct ldso_defect *defect = fatal_defect(p->ldso, -1);
    if (out->n == 0 && defect) {
        VEC_PUSH(d->a, out,
                 (struct diag_failure){.process = p,
                                       .defect = defect,
                                       .name = path_base(defect->object->path),
                                       .says = defect->text});
    }
}

static void attempt_failures(struct diag *d, const struct model_process *p, bool wishes,
                             failure_list *out)
{
    for (size_t i = 0; i < p->attempts.n; i++) {
        const struct model_attempt *at = &p->attempts.items[i];
        bool counts = wishes ? at->recommended && !at->required : at->required;
        if (!at->failed || !counts || at->source == MODEL_FROM_GUESS || at->n_loads == 0) {
            continue;
        }
        struct diag_failure f = {
            .process = p, .attempt = at, .name = representative(at), .wish = wishes};
        if (diag_is_for_absent_gpu(d, &f)) {
            continue;
        }
        failure_of_load(d, f, telling_load(p->ldso, at), out);
        keep_unless_driver(d, out);
    }
}

size_t diag_failures(struct diag *d, const struct model_process *p, struct diag_failure **ret)
{
    failure_list out = {0};
    if (p->ldso && p->ldso->start_failed) {
        start_failures(d, p, &out);
    }
    if (p->ldso) {
        attempt_failures(d, p, false, &out);
    }
    *ret = out.items;
    return out.n;
}

size_t diag_wishes(struct diag *d, const struct model_process *p, struct diag_failure **ret)
{
    failure_list out = {0};
    if (p->ldso) {
        attempt_failures(d, p, true, &out);
    }
    *ret = out.items;
    return out.n;
}

/* A wish that is not granted is one more failure where the wish is what is asked about. */
bool diag_fails_likewise(struct diag *d, const struct model_process *p,
                         const struct diag_failure *x)
{
    struct diag_failure *list = NULL;
    for (int wishes = 0; wishes <= (x->wish ? 1 : 0); wishes++) {
        size_t n = wishes ? diag_wishes(d, p, &list) : diag_failures(d, p, &list);
        for (size_t i = 0; i < n; i++) {
            if (strcmp(list[i].name, x->name) == 0) {
                return true;
            }
        }
    }
    return false;
}

const struct model_process *diag_works_used_otherwise(struct diag *d, const struct diag_failure *x)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        if (p != x->process && p->ldso && p->group == x->process->group &&
            !diag_fails_likewise(d, p, x)) {
            return p;
        }
    }
    return NULL;
}

/* An optional load that fails is a warning, whatever its cause; it becomes an error with the first
 * process that requires it. */
static void set_severity(struct diag_finding *f, const struct diag_failure *x)
{
    bool is_error = diag_causes[f->cause].severity == DIAG_ERROR;
    if (x->wish && f->scripts.n == 0 && f->severity == DIAG_ERROR) {
        f->severity = DIAG_WARNING;
    } else if (!x->wish && is_error && f->severity == DIAG_WARNING) {
        f->severity = DIAG_ERROR;
    }
}

void diag_failure_evidence(struct diag *d, struct diag_finding *f, const struct diag_failure *x)
{
    set_severity(f, x);
    if (!x->attempt || x->attempt->phase == MODEL_IMPORT) {
        f->stage = DIAG_STAGE_START;
    } else if (f->scripts.n == 0) { // not seen before
        f->stage = DIAG_STAGE_USE;
    }
    diag_seen_in(d, f, x->process);
    diag_stops(d, f, x);
    const struct model_process *works = diag_works_used_otherwise(d, x);
    if (works) {
        diag_evidence(d, f, "it depends on which package is used %s: \"%s\" finds it",
                      model_is_mixed(x->process) ? "when" : "first", diag_script_text(d, works));
    }
    if (x->request) {
        diag_evidence(d, f, "%s is asked for by %s", x->request->name,
                      path_normal(d->a, model_absolute(d->m, diag_caller(x))));
    }
    const char *says = x->defect && !x->request ? x->defect->text : x->says;
    bool cut = x->defect && x->defect->kind == LDSO_FILE_CUT;
    if (says) {
        diag_evidence(d, f, "%s: %s", cut ? "what happens" : "the loader says", says);
    }
    if (x->attempt && x->attempt->says && *x->attempt->says) {
        diag_evidence(d, f, "the program then says: %s", x->attempt->says);
    }
    if (x->attempt) {
        diag_source_evidence(d, f, x->attempt);
    }
}
