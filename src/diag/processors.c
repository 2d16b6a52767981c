/* A verdict for every processor that the program may run on, where it is not known which: what is
 * the same with all of them is found, what differs is told and not judged. */
#include <string.h>

#include "diag/internal.h"
#include "model/replay.h"

enum { CLAUSES_SHOWN = 3 };

/* A finding and the kinds of processors with which it shows. */
struct by_kind {
    struct diag_finding *finding;
    unsigned kinds; // a bit each
};
typedef VEC(struct by_kind) by_kind_list;
typedef VEC(const char *) text_list;

static bool list_contains(const char *const *texts, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(texts[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* The processor that is not known, or NULL, and in *ret what was met that depends on it. */
static const struct ldso_cpu *what_depends(struct diag *d, text_list *ret)
{
    const struct ldso_cpu *cpu = NULL;
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct ldso_process *p = d->m->processes.items[i]->ldso;
        if (!p || !ldso_cpu_is_unknown(&p->cpu)) {
            continue;
        }
        cpu = &p->cpu;
        for (size_t k = 0; k < p->by_cpu.n; k++) {
            if (!list_contains(ret->items, ret->n, p->by_cpu.items[k])) {
                VEC_PUSH(d->a, ret, p->by_cpu.items[k]);
            }
        }
    }
    const char *isa = diag_getenv(d, "CT2_FORCE_CPU_ISA");
    if (cpu && cpu->level == 0 && isa && *isa) {
        VEC_PUSH(d->a, ret, arena_printf(d->a, "CT2_FORCE_CPU_ISA requests %s", isa));
    }
    return cpu;
}

static bool finding_is_same(const struct diag_finding *a, const struct diag_finding *b)
{
    return a->cause == b->cause && a->severity == b->severity &&
           strcmp(a->culprit, b->culprit) == 0;
}

static void add_findings(struct diag *d, by_kind_list *all, const struct diag_report *r,
                         size_t kind)
{
    for (size_t i = 0; i < r->findings.n; i++) {
        struct diag_finding *f = r->findings.items[i];
        size_t k = 0;
        while (k < all->n && !finding_is_same(all->items[k].finding, f)) {
            k++;
        }
        if (k == all->n) {
            VEC_PUSH(d->a, all, (struct by_kind){.finding = f});
        }
        all->items[k].kinds |= 1u << kind;
    }
}

/* What is in order with every processor. */
static void keep_fine(struct diag_report *r, const struct diag_report *of_kind)
{
    size_t n = 0;
    for (size_t i = 0; i < r->fine.n; i++) {
        if (list_contains(of_kind->fine.items, of_kind->fine.n, r->fine.items[i])) {
            r->fine.items[n++] = r->fine.items[i];
        }
    }
    r->fine.n = n;
}

/* An entry that works with some processors and not with others is not known to. */
static void keep_entries(struct diag_report *r, const struct diag_report *of_kind)
{
    for (size_t i = 0; i < r->entries.n && i < of_kind->entries.n; i++) {
        struct diag_entry *e = &r->entries.items[i];
        if (e->verdict != of_kind->entries.items[i].verdict) {
            e->verdict = DIAG_CANNOT_TELL;
        }
    }
}

typedef VEC(const struct ldso_cpu_kind *) kind_list;

/* The kinds that the processor may be of, by what is known of it. */
static void possible_kinds(struct diag *d, const struct ldso_cpu *known, kind_list *ret)
{
    size_t n;
    const struct ldso_cpu_kind *all = ldso_cpu_kinds(known->machine, &n);
    for (size_t i = 0; i < n; i++) {
        const struct ldso_cpu *c = &all[i].cpu;
        if ((known->level == 0 || known->level == c->level) &&
            (known->page_size == 0 || known->page_size == c->page_size)) {
            VEC_PUSH(d->a, ret, &all[i]);
        }
    }
}

static const char *kind_names(struct diag *d, const kind_list *all, unsigned kinds)
{
    const char *text = "";
    for (size_t i = 0; i < all->n; i++) {
        if (kinds >> i & 1) {
            text = arena_printf(d->a, "%s%s%s", text, *text ? ", " : "", all->items[i]->name);
        }
    }
    return text;
}

/* "State it with --cpu LEVEL." */
static const char *how_to_state(const struct ldso_cpu *cpu)
{
    uint32_t sizes[LDSO_PAGE_SIZES];
    bool page = cpu->page_size == 0 && ldso_page_sizes(cpu->machine, sizes) > 1;
    return page && cpu->level == 0 ? "State it with --cpu LEVEL and --page-size BYTES."
           : page                  ? "State it with --page-size BYTES."
                                   : "State it with --cpu LEVEL.";
}

static void note_why(struct diag *d, const struct ldso_cpu *cpu, const text_list *clauses,
                     bool common)
{
    const char *what = cpu->level ? "page size" : "processor's level";

    const char *text = "";
    size_t n = clauses->n < CLAUSES_SHOWN ? clauses->n : CLAUSES_SHOWN;
    for (size_t i = 0; i < n; i++) {
        text = arena_printf(d->a, "%s%s%s", text, i ? "; " : "", clauses->items[i]);
    }
    if (n < clauses->n) {
        text = arena_printf(d->a, "%s; and %zu more", text, clauses->n - n);
    }
    VEC_PUSH(d->a, &d->report->notes,
             arena_printf(d->a, "the %s is not known (%s), and it decides: with some %s %s. %s",
                          what, cpu->why ? cpu->why : "it is not stated",
                          cpu->level ? "page sizes" : "processors", text,
                          !common      ? how_to_state(cpu)
                          : cpu->level ? "The findings are the same with every page size."
                                       : "The findings are the same with every processor."));
}

/* The report of the model with each kind of processor. */
static void judge_each(struct diag *d, const kind_list *kinds, struct diag_report *ret)
{
    for (size_t i = 0; i < kinds->n; i++) {
        struct model_change *change = arena_alloc(d->a, sizeof *change);
        struct model_replayed *other = arena_alloc(d->a, sizeof *other);
        *change = d->m->change ? *d->m->change : (struct model_change){0};
        change->overlay = NULL; // it is in the store already
        change->cpu = &kinds->items[i]->cpu;
        if (model_replay(d->m, change, NULL, other)) {
            diag_judge(&other->model, &ret[i]);
        } else { // a live process
            ret[i] = *d->report;
            ret[i].verdict = DIAG_CANNOT_TELL;
        }
    }
}

/* Leaves in the report what all have found, and says what not; false: there is such a thing. */
static bool keep_common(struct diag *d, const by_kind_list *all, const kind_list *kinds)
{
    bool common = true;
    d->report->findings.items = NULL;
    d->report->findings.n = d->report->findings.cap = 0;
    for (size_t i = 0; i < all->n; i++) {
        const struct by_kind *x = &all->items[i];
        if (x->kinds == (1u << kinds->n) - 1) {
            VEC_PUSH(d->a, &d->report->findings, x->finding);
            continue;
        }
        common = false;
        VEC_PUSH(d->a, &d->report->notes,
                 arena_printf(d->a, "only with %s: %s", kind_names(d, kinds, x->kinds),
                              x->finding->summary));
    }
    return common;
}

void diag_judge_processors(struct diag *d)
{
    struct diag_report *r = d->report, reports[LDSO_CPU_KINDS] = {0};
    text_list clauses = {0};
    by_kind_list all = {0};
    kind_list kinds = {0};
    const struct ldso_cpu *cpu = what_depends(d, &clauses);
    if (clauses.n == 0) {
        return;
    }
    possible_kinds(d, cpu, &kinds);
    judge_each(d, &kinds, reports);
    bool ok = true;
    for (size_t i = 0; i < kinds.n; i++) {
        add_findings(d, &all, &reports[i], i);
        keep_fine(r, &reports[i]);
        keep_entries(r, &reports[i]);
        ok &= reports[i].verdict == DIAG_OK;
    }
    bool common = keep_common(d, &all, &kinds);
    bool broken = r->findings.n && r->findings.items[0]->severity == DIAG_ERROR;
    note_why(d, cpu, &clauses, common);
    r->verdict = broken ? DIAG_BROKEN : ok ? DIAG_OK : DIAG_CANNOT_TELL;
}

void diag_run(struct model *m, struct diag_report *ret)
{
    diag_judge(m, ret);
    struct diag d = {.m = m, .a = m->arena, .report = ret};
    diag_judge_processors(&d);
    diag_join_foreseen(&d);
}
