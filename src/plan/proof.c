/* A change replayed over every process: what is gone, what appears, and where requests end. */
#include <stdlib.h>
#include <string.h>

#include "plan/internal.h"

/* ------------------------------------------------------------------ findings, before and after */

static bool finding_names(const struct diag_finding *f, const char *text)
{
    for (size_t i = 0; i < f->likewise.n; i++) {
        if (strcmp(f->likewise.items[i], text) == 0) {
            return true;
        }
    }
    return strcmp(f->culprit, text) == 0;
}

/* The finding of the report that says the same of the same culprit, or NULL. */
static const struct diag_finding *counterpart(const struct diag_report *r,
                                              const struct diag_finding *f)
{
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *g = r->findings.items[i];
        if (g->severity != DIAG_NOTE && g->cause == f->cause &&
            (finding_names(g, f->culprit) || finding_names(f, g->culprit))) {
            return g;
        }
    }
    return NULL;
}

/* Whether a defect of a library is met by programs that did not meet it before. */
static bool defect_spreads(const struct diag_finding *before, const struct diag_finding *after)
{
    bool all = after->cause != DIAG_LIBRARY_DEFECT || after->severity != DIAG_ERROR;
    for (size_t i = 0; !all && i < after->scripts.n; i++) {
        bool met = false;
        for (size_t k = 0; k < before->scripts.n && !met; k++) {
            met = strcmp(before->scripts.items[k], after->scripts.items[i]) == 0;
        }
        if (!met) {
            return true;
        }
    }
    return false;
}

static void compare_findings(struct plan_work *x, struct plan_verdict *v)
{
    for (size_t i = 0; i < x->report->findings.n; i++) {
        const struct diag_finding *f = x->report->findings.items[i];
        if (f->severity != DIAG_NOTE && !counterpart(&v->report, f)) {
            VEC_PUSH(x->a, &v->gone, f);
            v->n_errors += f->severity == DIAG_ERROR;
        }
    }
    for (size_t i = 0; i < v->report.findings.n; i++) {
        const struct diag_finding *f = v->report.findings.items[i];
        const struct diag_finding *before = counterpart(x->report, f);
        v->worse |= before && defect_spreads(before, f);
        if (f->severity == DIAG_NOTE || before) {
            continue;
        }
        VEC_PUSH(x->a, &v->appeared, f);
        v->worse |= f->severity == DIAG_ERROR || v->n_errors == 0;
    }
}

bool plan_is_better(const struct plan_verdict *v, const struct plan_verdict *than)
{
    if (v->worse) {
        return false;
    }
    if (v->n_errors != than->n_errors) {
        return v->n_errors > than->n_errors;
    }
    size_t left = v->appeared.n + than->gone.n, left_than = than->appeared.n + v->gone.n;
    return left < left_than;
}

bool plan_is_best(const struct plan_work *x, const struct plan_verdict *v)
{
    size_t all = x->report->findings.n - diag_count(x->report, DIAG_NOTE);
    for (size_t i = 0; i < x->report->findings.n; i++) {
        all -= x->report->findings.items[i]->behind != NULL; // nothing that is installed mends it
    }
    return !v->worse && v->gone.n == all && v->appeared.n == 0;
}

/* ------------------------------------------------------------------ requests, before and after */

/* Where one request ended. */
struct end {
    const struct ldso_file *caller;
    const char *caller_path;
    const char *name;             // as it is shown
    const char *key;              // its candidates
    const struct ldso_file *file; // NULL: it fails
    const char *path;
    bool counts; // its failure would be one of the program
};
typedef VEC(struct end) end_list;

static bool files_are_same(const struct ldso_file *a, const struct ldso_file *b)
{
    return a == b || (a && b && a->dev == b->dev && a->ino == b->ino);
}

static const char *candidates(struct arena *a, const struct model_attempt *at)
{
    const char *out = "";
    for (size_t i = 0; i < at->n_names; i++) {
        out = arena_printf(a, "%s%s ", out, at->names[i]);
    }
    return out;
}

/* "libcudnn_ops.so.9" rather than "libcudnn_ops.so.9.1.0": what served, else one number. */
static const char *shown_name(const struct model_attempt *at)
{
    if (!at->failed && at->load) {
        return at->load->name;
    }
    for (size_t i = 0; i < at->n_names; i++) {
        const char *so = strstr(at->names[i], ".so.");
        if (so && !strchr(so + 4, '.')) {
            return at->names[i];
        }
    }
    return at->names[0];
}

static void take_attempts(struct arena *a, const struct model_process *p, end_list *out)
{
    for (size_t i = 0; i < p->attempts.n; i++) {
        const struct model_attempt *at = &p->attempts.items[i];
        const struct ldso_object *o = at->failed || !at->load ? NULL : at->load->object;
        if (at->source == MODEL_FROM_GUESS || at->n_loads == 0) {
            continue;
        }
        VEC_PUSH(a, out,
                 (struct end){at->caller->file, at->caller->path, shown_name(at), candidates(a, at),
                              o ? o->file : NULL, o ? o->path : NULL, at->required});
    }
}

/* Where in the list the needs of a file begin; its end if there are none yet. */
static size_t needs_begin(const end_list *list, size_t first, const struct ldso_file *caller)
{
    while (first < list->n && list->items[first].caller != caller) {
        first++;
    }
    return first;
}

/* DT_NEEDED; of a load that was repeated the last counts. */
static void take_needs(struct arena *a, const struct model_process *p, end_list *out)
{
    size_t first = out->n, begin = first;
    const struct ldso_file *caller = NULL;
    for (size_t i = 0; i < p->ldso->requests.n; i++) {
        const struct ldso_request *r = p->ldso->requests.items[i];
        bool ok = r->outcome == LDSO_LOADED || r->outcome == LDSO_REUSED;
        if (r->kind != LDSO_NEEDED || !r->caller) {
            continue;
        }
        struct end e = {
            r->caller->file,     r->caller->path, r->name, r->name, ok ? r->object->file : NULL,
            ok ? r->path : NULL, r->load < 0};
        if (e.caller != caller) {
            caller = e.caller;
            begin = needs_begin(out, first, caller);
        }
        size_t k = begin;
        while (k < out->n &&
               (out->items[k].caller != e.caller || strcmp(out->items[k].name, e.name) != 0)) {
            k++;
        }
        if (k < out->n) {
            out->items[k] = e;
        } else {
            VEC_PUSH(a, out, e);
        }
    }
}

static end_list ends_of(struct arena *a, const struct model_process *p)
{
    end_list out = {0};
    take_attempts(a, p, &out);
    take_needs(a, p, &out);
    return out;
}

/* The same request in the other process: mostly near the same place in the list. */
static const struct end *same_request(const end_list *list, const struct end *e, size_t at)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct end *o = &list->items[(at + i) % list->n];
        if (files_are_same(o->caller, e->caller) && strcmp(o->key, e->key) == 0) {
            return o;
        }
    }
    return NULL;
}

/* Whether the request was wrong before: it ended at what a finding that is gone blames. */
static bool was_blamed(const struct plan_verdict *v, const struct end *e)
{
    for (size_t i = 0; i < v->gone.n; i++) {
        if (finding_names(v->gone.items[i], e->name) ||
            finding_names(v->gone.items[i], path_base(e->path)) ||
            strcmp(v->gone.items[i]->culprit, e->path) == 0) {
            return true;
        }
    }
    return false;
}

typedef VEC(uint64_t) key_list;

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static size_t count_distinct(key_list *list)
{
    size_t n = 0;
    if (list->n) {
        qsort(list->items, list->n, sizeof *list->items, by_value);
    }
    for (size_t i = 0; i < list->n; i++) {
        n += i == 0 || list->items[i] != list->items[i - 1];
    }
    return n;
}

static uint64_t end_key(const struct end *e)
{
    const uint64_t parts[] = {e->caller->dev, e->caller->ino, str_hash(e->key, strlen(e->key))};
    return str_hash(parts, sizeof parts);
}

static bool add_request(struct plan_work *x, struct plan_way *way, const struct plan_request *r)
{
    for (size_t i = 0; i < way->proof.n; i++) {
        const struct plan_request *o = &way->proof.items[i];
        bool before =
            o->before && r->before ? strcmp(o->before, r->before) == 0 : o->before == r->before;
        if (before && strcmp(o->name, r->name) == 0 && strcmp(o->caller, r->caller) == 0 &&
            strcmp(o->after ? o->after : "", r->after ? r->after : "") == 0) {
            return false;
        }
    }
    VEC_PUSH(x->a, &way->proof, *r);
    return true;
}

/* One process: false if a request that was right fails now. */
static bool proof_compare_process(struct plan_work *x, const struct plan_verdict *v,
                                  const struct model_process *before,
                                  const struct model_process *after, struct plan_way *way,
                                  key_list *kept)
{
    end_list was = ends_of(x->a, before), is = ends_of(x->a, after);
    for (size_t i = 0; i < was.n; i++) {
        const struct end *e = &was.items[i], *now = same_request(&is, e, i);
        if (!now || (!e->file && !now->file)) {
            continue;
        }
        if (e->file && files_are_same(e->file, now->file)) {
            VEC_PUSH(x->a, kept, end_key(e));
            continue;
        }
        bool blamed = e->file && was_blamed(v, e);
        if (e->file && !now->file && !blamed) {
            return false;
        }
        struct plan_request r = {diag_script_words(x->m, before), now->file ? now->name : e->name,
                                 e->caller_path, e->path, now->path};
        way->n_moved += add_request(x, way, &r) && e->file && !blamed;
    }
    return true;
}

plan_texts plan_names_appeared(struct plan_work *x, const struct plan_verdict *v)
{
    plan_texts names = {0};
    for (size_t i = 0; i < v->appeared.n; i++) {
        const struct diag_finding *f = v->appeared.items[i];
        if (f->cause == DIAG_LIBRARY_NOT_ON_PATH) {
            VEC_PUSH(x->a, &names, f->culprit);
            for (size_t k = 0; k < f->likewise.n; k++) {
                VEC_PUSH(x->a, &names, f->likewise.items[k]);
            }
        }
    }
    return names;
}

bool plan_prove(struct plan_work *x, const struct plan_verdict *v, struct plan_way *way)
{
    key_list kept = {0};
    if (v->worse || v->gone.n == 0) {
        return false;
    }
    for (size_t i = 0; i < v->replayed->model.processes.n; i++) {
        const struct model_process *after = v->replayed->model.processes.items[i];
        if (!proof_compare_process(x, v, after->again_of, after, way, &kept)) {
            return false;
        }
    }
    way->n_kept = count_distinct(&kept);
    way->after = &v->replayed->model;
    for (size_t i = 0; i < v->gone.n; i++) {
        VEC_PUSH(x->a, &way->mends, v->gone.items[i]);
    }
    for (size_t i = 0; i < v->appeared.n; i++) {
        VEC_PUSH(x->a, &way->leaves, v->appeared.items[i]);
    }
    for (size_t i = 0; i < x->report->findings.n; i++) {
        const struct diag_finding *f = x->report->findings.items[i];
        if (f->behind && f->severity == DIAG_WARNING && counterpart(&v->report, f)) {
            VEC_PUSH(x->a, &way->leaves, f);
        }
    }
    return true;
}

/* ------------------------------------------------------------------ replays */

static bool preload_failed(const struct model *m)
{
    for (size_t i = 0; i < m->processes.n; i++) {
        const struct model_process *p = m->processes.items[i];
        for (size_t k = 0; k < p->n_preloads; k++) {
            if (!p->ldso->loads.items[p->first_preload + k].object) {
                return true;
            }
        }
    }
    return false;
}

bool plan_judge(struct plan_work *x, const struct model_change *c, struct plan_verdict *ret)
{
    *ret = (struct plan_verdict){.replayed = arena_alloc(x->a, sizeof *ret->replayed)};
    if (!model_replay(x->m, c, NULL, ret->replayed)) {
        return false;
    }
    diag_run(&ret->replayed->model, &ret->report);
    compare_findings(x, ret);
    ret->worse |= preload_failed(&ret->replayed->model);
    return true;
}

/* What kept a preload from loading: the libraries that it needs and that are not found. */
static void preload_lacks(struct plan_work *x, const struct model_process *p, plan_lacks *out)
{
    for (size_t i = 0; i < p->ldso->requests.n; i++) {
        const struct ldso_request *r = p->ldso->requests.items[i];
        bool own = r->load >= 0 && (size_t)r->load >= p->first_preload &&
                   (size_t)r->load < p->first_preload + p->n_preloads;
        if (own && r->kind == LDSO_NEEDED && r->outcome == LDSO_NOT_FOUND) {
            VEC_PUSH(x->a, out, (struct plan_lack){{r->name, r, NULL}, p});
        }
    }
}

bool plan_still_lacks(struct plan_work *x, const struct model_change *c, plan_lacks *ret,
                      struct model_replayed **ret_replayed)
{
    struct model_replayed *replayed = arena_alloc(x->a, sizeof *replayed);
    if (!model_replay(x->m, c, x->failing, replayed)) {
        return false;
    }
    struct model *m = &replayed->model;
    for (size_t i = 0; i < m->processes.n; i++) {
        struct diag_lack *list = NULL;
        preload_lacks(x, m->processes.items[i], ret);
        size_t n = diag_lacks(m, m->processes.items[i], &list);
        for (size_t k = 0; k < n; k++) {
            VEC_PUSH(x->a, ret, (struct plan_lack){list[k], m->processes.items[i]});
        }
    }
    *ret_replayed = replayed;
    return true;
}
