/* The findings in brief, and what to do now. */
#include "report/check_page.h"

#include <string.h>

enum { BRIEF_FINDINGS_MAX = 6, NAMED_LESSER_MAX = 3 };

/* What the end says where no command of gpumend's repairs anything: the first error's repair, or
 * of the warnings' the first that is a command; NULL: it says something else. */
static const struct diag_finding *first_to_repair(const struct diag_report *r,
                                                  const struct report_advice *advice)
{
    const struct diag_finding *first = NULL;
    for (size_t i = 0; i < r->findings.n && !advice->start.way && !advice->good.way; i++) {
        const struct diag_finding *f = r->findings.items[i];
        if (f->severity == DIAG_NOTE || !f->repairs.n) {
            continue;
        }
        if (f->severity == DIAG_ERROR || f->repairs.items[0].command) {
            return first && first->severity == DIAG_ERROR ? first : f;
        }
        first = first ? first : f;
    }
    return first;
}

/* Beside an error a note is only counted: it does not say why something fails. A warning is a
 * line. */
static bool is_told_in_full(const struct diag_report *r, const struct diag_finding *f)
{
    return !f->behind && (r->verdict != DIAG_BROKEN || f->severity == DIAG_ERROR);
}

static size_t told_in_full(const struct diag_report *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->findings.n; i++) {
        n += is_told_in_full(r, r->findings.items[i]);
    }
    return n;
}

static const char *first_repair_words(const struct diag_finding *f)
{
    return f->at_once
               ? "Install what is missing, then set LD_LIBRARY_PATH before the program starts."
               : f->repairs.items[0].text;
}

/* A finding needs no repair of its own that the advice at the end repairs. The command of the first
 * one is the end; what it does is said there too where the finding is alone. */
static void brief_repair_text(const struct report_page *p, const struct diag_report *r,
                              const struct diag_finding *f, const struct report_advice *advice)
{
    bool left_out = p->m->for_cpu && f->severity == DIAG_NOTE && diag_is_only_for_gpu(p->m, f);
    if (!f->repairs.n || left_out || report_is_in_advice(f, advice)) {
        return;
    }
    const struct diag_finding *first = first_to_repair(r, advice);
    const struct diag_repair *repair = &f->repairs.items[0];
    bool at_end = f->behind && f->behind == first && first->at_once && repair->command;
    if (f != first && !at_end) {
        report_page_repair(p, repair, "to do");
    } else if (f == first && told_in_full(r) > 1 && repair->command) {
        report_page_item(p, "to do", report_page_shorten(p, first_repair_words(f)));
    }
}

/* With what is met once it is repaired: that is one cause, told in one place. */
static void brief_finding_text(const struct report_page *p, const struct diag_report *r,
                               const struct diag_finding *f, const struct report_advice *advice)
{
    report_page_summary(p, f);
    brief_repair_text(p, r, f, advice);
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *next = r->findings.items[i];
        if (next->behind == f) {
            report_page_item(p, "then", report_page_shorten(p, next->summary));
            brief_repair_text(p, r, next, advice);
        }
    }
}

/* "warning  TITLE: CULPRIT, CULPRIT (gpumend explain CAUSE)" for the warnings of a cause. */
static void lesser_line(const struct report_page *p, const struct diag_report *r,
                        enum diag_cause cause)
{
    struct arena *a = p->m->arena;
    const char *title = diag_causes[cause].title, *names = "";
    size_t n = 0;
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *f = r->findings.items[i];
        if (f->severity == DIAG_WARNING && !f->behind && f->cause == cause &&
            n++ < NAMED_LESSER_MAX) {
            names = arena_printf(a, "%s%s%s", names, *names ? ", " : "", f->culprit);
        }
    }
    if (n > NAMED_LESSER_MAX) {
        names = arena_printf(a, "%s and %zu more", names, n - NAMED_LESSER_MAX);
    }
    out_print(p->o, OUT_YELLOW, "warning");
    fprintf(p->o->file, "  ");
    out_wrap(p->o, 9,
             report_page_shorten(p, arena_printf(a, "%.*s: %s (gpumend explain %s)",
                                                 (int)strcspn(title, "."), title, names,
                                                 diag_causes[cause].id)));
}

/* Beside an error the warnings of one cause are one line. */
static void lesser_findings_text(const struct report_page *p, const struct diag_report *r)
{
    bool begun = false;
    for (size_t i = 0; i < r->findings.n && r->verdict == DIAG_BROKEN; i++) {
        const struct diag_finding *f = r->findings.items[i];
        bool told = f->severity != DIAG_WARNING || f->behind;
        for (size_t k = 0; k < i && !told; k++) {
            const struct diag_finding *g = r->findings.items[k];
            told = g->severity == DIAG_WARNING && !g->behind && g->cause == f->cause;
        }
        if (!told) {
            fputs(begun ? "" : "\n", p->o->file);
            lesser_line(p, r, f->cause);
            begun = true;
        }
    }
}

void report_page_brief(const struct report_page *p, const struct diag_report *r,
                       const struct report_advice *advice)
{
    size_t shown = 0, more = 0;
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *f = r->findings.items[i];
        if (!is_told_in_full(r, f)) {
            continue;
        }
        if (shown < BRIEF_FINDINGS_MAX) {
            brief_finding_text(p, r, f, advice);
            shown++;
        } else {
            more++;
        }
    }
    if (more) {
        fprintf(p->o->file, "\nand %zu more finding%s: -v prints them all\n", more,
                more == 1 ? "" : "s");
    }
    lesser_findings_text(p, r);
}

void report_page_advice(const struct report_page *p, const char *label,
                        const struct report_repair *repair, const struct diag_report *r)
{
    size_t errors = diag_count(r, DIAG_ERROR);
    size_t all = errors ? errors : diag_count(r, DIAG_WARNING);
    if (!repair->way) {
        return;
    }
    fprintf(p->o->file, "%-12s", label);
    out_print(p->o, OUT_BOLD, "%s", str_printable(p->m->arena, repair->command));
    if (repair->remark) {
        fprintf(p->o->file, "  (%s)", str_printable(p->m->arena, repair->remark));
    }
    fputc('\n', p->o->file);
    if (repair->mends < all) {
        fprintf(p->o->file, "            repairs %zu of the %zu %s\n", repair->mends, all,
                errors ? "errors" : "warnings");
    }
}

/* The commands of an image's repairs are for its build: in a shell of this host they would change,
 * or miss, what the host has at the same path. */
static bool is_of_build(const struct report_target *target, const struct diag_finding *f)
{
    enum diag_repair_kind kind = f->repairs.items[0].kind;
    return target->lines && f->stage != DIAG_STAGE_MACHINE &&
           (kind == DIAG_REPAIR_ENV || kind == DIAG_REPAIR_PACKAGE);
}

void report_page_first_repair(const struct report_page *p, const struct diag_report *r,
                              const struct report_target *target,
                              const struct report_advice *advice)
{
    const struct diag_finding *f = first_to_repair(r, advice);
    const struct diag_repair *first = f ? &f->repairs.items[0] : NULL;
    if (!first) {
        return;
    }
    fprintf(p->o->file, "%-12s", "to do now");
    if (is_of_build(target, f)) {
        out_print(p->o, OUT_BOLD, "%s", str_printable(p->m->arena, target->lines));
        fprintf(p->o->file, "  (prints the lines for its Dockerfile)\n");
        return;
    }
    bool alone = told_in_full(r) == 1;
    if (alone || !first->command) {
        out_wrap(p->o, 12, report_page_shorten(p, first_repair_words(f)));
    }
    if (first->command) {
        out_print(p->o, OUT_BOLD, "%s%s\n", alone ? "              " : "",
                  str_printable(p->m->arena, f->at_once ? f->at_once : first->command));
    }
}
