/* What `check` prints as text: briefly, or with -v with all the evidence. */
#include "report/check_page.h"

static void finding_text(const struct report_page *p, const struct diag_finding *f)
{
    report_page_summary(p, f);
    for (size_t i = 0; i < f->repairs.n; i++) {
        report_page_repair(p, &f->repairs.items[i], i ? "or" : "to do");
    }
    for (size_t i = 0; i < f->evidence.n; i++) {
        report_page_item(p, i ? "" : "because", report_page_shorten(p, f->evidence.items[i]));
    }
    if (f->scripts.n && p->m->processes.n > 1) {
        report_page_item(
            p, "seen in",
            report_page_shorten(p, f->scripts.n > 1
                                       ? arena_printf(p->m->arena, "%s (and %zu more)",
                                                      f->scripts.items[0], f->scripts.n - 1)
                                       : f->scripts.items[0]));
    }
    report_page_item(p, "more",
                     arena_printf(p->m->arena, "gpumend explain %s", diag_causes[f->cause].id));
}

void report_check_text(const struct out *o, const struct model *m, const struct diag_report *r,
                       const struct report_target *target)
{
    struct report_page p = {.o = o, .m = m};
    report_page_head(&p, r, target);
    for (size_t i = 0; i < r->findings.n; i++) {
        finding_text(&p, r->findings.items[i]);
    }
    report_page_remarks(&p, r);
    report_page_verdict(&p, r, target);
}

void report_check_brief(const struct out *o, const struct model *m, const struct diag_report *r,
                        const struct report_target *target, const struct report_advice *advice)
{
    static const struct report_advice none = {0};
    advice = advice ? advice : &none;
    struct report_page p = {.o = o, .m = m, .brief = true, .advice = advice};
    report_page_head(&p, r, target);
    report_page_brief(&p, r, advice);
    report_page_remarks(&p, r);
    report_page_verdict(&p, r, target);
    report_page_advice(&p, "this start", &advice->start, r);
    report_page_advice(&p, "for good", &advice->good, r);
    report_page_first_repair(&p, r, target, advice);
}

void report_target_text(const struct out *o, const struct model *m,
                        const struct report_target *target)
{
    struct report_page p = {.o = o, .m = m};
    report_page_head(&p, NULL, target);
}
