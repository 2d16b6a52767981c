#include "diag/finding.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "diag/internal.h"

const char *diag_repair_kind_name(enum diag_repair_kind kind)
{
    static const char *const names[] = {[DIAG_REPAIR_ENV] = "environment",
                                        [DIAG_REPAIR_PACKAGE] = "package",
                                        [DIAG_REPAIR_FILE] = "file",
                                        [DIAG_REPAIR_TEXT] = "advice"};
    return names[kind];
}

const char *diag_verdict_name(enum diag_verdict verdict)
{
    static const char *const names[] = {
        [DIAG_OK] = "ok", [DIAG_BROKEN] = "broken", [DIAG_CANNOT_TELL] = "unknown"};
    return names[verdict];
}

struct diag_finding *diag_add(struct diag *d, enum diag_cause cause, const char *key,
                              const char *culprit, const char *summary)
{
    for (size_t i = 0; i < d->report->findings.n; i++) {
        struct diag_keyed *k = (struct diag_keyed *)d->report->findings.items[i];
        if (k->finding.cause == cause && strcmp(k->key, key) == 0) {
            return &k->finding;
        }
    }
    struct diag_keyed *k = arena_alloc(d->a, sizeof *k);
    k->key = key;
    k->order = d->report->findings.n;
    k->finding.cause = cause;
    k->finding.class = diag_causes[cause].class;
    k->finding.severity = diag_causes[cause].severity;
    k->finding.culprit = culprit;
    k->finding.summary = summary;
    VEC_PUSH(d->a, &d->report->findings, &k->finding);
    return &k->finding;
}

static bool finding_is_about(const struct diag_finding *f, const char *library)
{
    bool named = strcmp(f->culprit, library) == 0;
    for (size_t k = 0; k < f->likewise.n && !named; k++) {
        named = strcmp(f->likewise.items[k], library) == 0;
    }
    return named;
}

struct diag_finding *diag_find(struct diag *d, enum diag_cause cause, const char *library)
{
    for (size_t i = 0; i < d->report->findings.n; i++) {
        struct diag_finding *f = d->report->findings.items[i];
        if (f->cause == cause && finding_is_about(f, library)) {
            return f;
        }
    }
    return NULL;
}

bool diag_knows(const struct diag *d, const char *library)
{
    for (size_t i = 0; i < d->report->findings.n; i++) {
        if (finding_is_about(d->report->findings.items[i], library)) {
            return true;
        }
    }
    return false;
}

void diag_evidence(struct diag *d, struct diag_finding *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(d->a, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < f->evidence.n; i++) {
        if (strcmp(f->evidence.items[i], text) == 0) {
            return;
        }
    }
    VEC_PUSH(d->a, &f->evidence, text);
}

void diag_repair(struct diag *d, struct diag_finding *f, enum diag_repair_kind kind,
                 const char *command, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(d->a, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < f->repairs.n; i++) {
        if (strcmp(f->repairs.items[i].text, text) == 0) {
            return;
        }
    }
    VEC_PUSH(d->a, &f->repairs,
             (struct diag_repair){.kind = kind, .text = text, .command = command});
}

const char *diag_imports_text(struct diag *d, const struct model_process *p)
{
    const char *text = "";
    for (size_t i = 0; i < model_n_imports(p); i++) {
        text = arena_printf(d->a, "%s%s%s", text, i ? ", " : "", model_import(p, i));
    }
    return text;
}

/* "import a, use a, import b, use b" */
static const char *steps_text(struct diag *d, const struct model_process *p)
{
    const char *text = "";
    for (size_t i = 0; i < p->n_script; i++) {
        text = arena_printf(d->a, "%s%s%s", text, i ? ", " : "", p->script[i]);
    }
    return text;
}

/* "a before b", "a, b and c in this order" */
static const char *order_text(struct diag *d, const struct model_process *p)
{
    const char *text = "";
    if (p->n_order == 2) {
        return arena_printf(d->a, "%s before %s", p->order[0], p->order[1]);
    }
    for (size_t i = 0; i < p->n_order; i++) {
        text = arena_printf(d->a, "%s%s%s", text,
                            i == 0               ? ""
                            : i + 1 < p->n_order ? ", "
                                                 : " and ",
                            p->order[i]);
    }
    return arena_printf(d->a, "%s in this order", text);
}

/* "import a, import b, then use them"; where the order of the uses makes a difference it is named,
 * so that no two processes have the same text. */
const char *diag_script_text(struct diag *d, const struct model_process *p)
{
    const char *imports = diag_imports_text(d, p);
    size_t n = model_n_imports(p);
    if (n == 0 || n == p->n_script) {
        return n ? imports : "start";
    }
    if (model_is_mixed(p) || (p->n_order > 1 && n == 1)) {
        return steps_text(d, p);
    }
    return arena_printf(d->a, "%s, then use %s", imports,
                        p->n_order > 1 ? order_text(d, p)
                        : n > 1        ? "them"
                                       : "it");
}

void diag_likewise(struct diag *d, struct diag_finding *f, const char *name)
{
    for (size_t i = 0; i < f->likewise.n; i++) {
        if (strcmp(f->likewise.items[i], name) == 0) {
            return;
        }
    }
    if (strcmp(f->culprit, name) != 0) {
        VEC_PUSH(d->a, &f->likewise, name);
    }
}

void diag_seen_in(struct diag *d, struct diag_finding *f, const struct model_process *p)
{
    const char *text = diag_script_text(d, p);
    for (size_t i = 0; i < f->scripts.n; i++) {
        if (strcmp(f->scripts.items[i], text) == 0) {
            return;
        }
    }
    VEC_PUSH(d->a, &f->scripts, text);
}

void diag_stops(struct diag *d, struct diag_finding *f, const struct diag_failure *x)
{
    const char *package = x->attempt ? x->attempt->package : NULL;
    for (size_t i = 0; package && i < f->askers.n; i++) {
        if (strcmp(f->askers.items[i], package) == 0) {
            return;
        }
    }
    if (package) {
        VEC_PUSH(d->a, &f->askers, package);
    }
}

size_t diag_count(const struct diag_report *r, enum diag_severity severity)
{
    size_t n = 0;
    for (size_t i = 0; i < r->findings.n; i++) {
        n += r->findings.items[i]->severity == severity;
    }
    return n;
}
