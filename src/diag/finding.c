#include "diag/finding.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "diag/internal.h"

const char *diag_repair_kind_name(enum diag_repair_kind kind)
{
    static const char *const names[] = {
        [DIAG_REPAIR_ENV] = "environment", [DIAG_REPAIR_PACKAGE] = "package",
        [DIAG_REPAIR_FILE] = "file",       [DIAG_REPAIR_TEXT] = "advice"};
    return names[kind];
}

const char *diag_verdict_name(enum diag_verdict verdict)
{
    static const char *const names[] = {
        [DIAG_OK] = "ok", [DIAG_BROKEN] = "broken", [DIAG_CANNOT_TELL] = "unknown"};
    return names[verdict];
}

struct keyed {
    struct diag_finding finding; // first member: the report points at it
    const char *key;
    size_t order; // of discovery
};

struct diag_finding *diag_add(struct diag *d, enum diag_cause cause, const char *key,
                              const char *culprit, const char *summary)
{
    for (size_t i = 0; i < d->report->findings.n; i++) {
        struct keyed *k = (struct keyed *)d->report->findings.items[i];
        if (k->finding.cause == cause && strcmp(k->key, key) == 0) {
            return &k->finding;
        }
    }
    struct keyed *k = arena_alloc(d->a, sizeof *k);
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
    VEC_PUSH(d->a, &f->repairs, (struct diag_repair){kind, text, command});
}

const char *diag_script_text(struct diag *d, const struct model_process *p)
{
    const char *text = "";
    for (size_t i = 0; i < p->n_script; i++) {
        text = arena_printf(d->a, "%s%s%s", text, i ? ", " : "", p->script[i]);
    }
    return *text ? text : "start";
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

/* Errors before warnings before notes; within one severity in the order of the causes, which is
 * that of what has to be mended first. */
static int by_weight(const void *x, const void *y)
{
    const struct diag_finding *a = *(struct diag_finding *const *)x;
    const struct diag_finding *b = *(struct diag_finding *const *)y;
    if (a->severity != b->severity) {
        return (int)b->severity - (int)a->severity;
    }
    if (a->cause != b->cause) {
        return (int)a->cause - (int)b->cause;
    }
    size_t x_order = ((const struct keyed *)a)->order, y_order = ((const struct keyed *)b)->order;
    return (x_order > y_order) - (x_order < y_order);
}

static void say_what_is_fine(struct diag *d)
{
    struct model *m = d->m;
    for (size_t i = 0; i < m->processes.n; i++) {
        const struct model_process *p = m->processes.items[i];
        struct diag_failure *failures = NULL;
        if (!p->ldso || p->error || p->n_script == 0 || diag_failures(d, p, &failures)) {
            continue;
        }
        size_t loaded = 0;
        for (size_t k = 0; k < p->attempts.n; k++) {
            loaded += !p->attempts.items[k].failed;
        }
        VEC_PUSH(d->a, &d->report->fine,
                 arena_printf(d->a, "%s: %zu objects, every library it asks for is found",
                              diag_script_text(d, p), p->ldso->objects.n));
    }
}

void diag_run(struct model *m, struct diag_report *ret)
{
    static void (*const rules[])(struct diag *) = {
        diag_rule_start, diag_rule_failures,    diag_rule_families, diag_rule_stub,
        diag_rule_extension, diag_rule_environment, diag_rule_live,
    };
    struct diag_report report = {0};
    struct diag d = {.m = m, .a = m->arena, .report = &report};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        rules[i](&d);
    }
    if (report.findings.n) {
        qsort(report.findings.items, report.findings.n, sizeof *report.findings.items, by_weight);
    }
    say_what_is_fine(&d);
    bool looked = false;
    for (size_t i = 0; i < m->processes.n; i++) {
        looked |= m->processes.items[i]->ldso && !m->processes.items[i]->error;
    }
    report.verdict = report.findings.n && report.findings.items[0]->severity == DIAG_ERROR
                         ? DIAG_BROKEN
                     : looked ? DIAG_OK
                              : DIAG_CANNOT_TELL;
    *ret = report;
}
