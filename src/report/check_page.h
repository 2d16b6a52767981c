/*
 * What `check` prints as text, in parts: the head (check_head.c), the findings in brief
 * (check_brief.c) or with all evidence (check_text.c), and the verdict (check_verdict.c).
 */
#ifndef GPUMEND_REPORT_CHECK_PAGE_H
#define GPUMEND_REPORT_CHECK_PAGE_H

#include "report/check.h"

/* Long folders are written in the head once and shortened below it; commands keep them whole. The
 * brief form is to fit on a screen: what is cut is counted, and -v prints it. */
struct report_page {
    const struct out *o;
    const struct model *m;
    const char *site, *prefix; // "<site>" and "<env>"; NULL: not shortened
    bool brief;
    const struct report_advice *advice; // at the end of the brief form; NULL: none
};

/* "LABEL       VALUE", wrapped. */
void report_page_line(const struct report_page *p, const char *label, const char *value);

/* The same, of a finding. */
void report_page_item(const struct report_page *p, const char *label, const char *value);

/* The folders that are written <env> and <site>; NULL: none is. And the text with one of them
 * written so. */
const char *report_folded_prefix(const struct model *m);
const char *report_folded_site(const struct model *m);
const char *report_fold(struct arena *a, const char *text, const char *folder, const char *name);

/* The text with the long folders written <env> and <site>. */
const char *report_page_shorten(const struct report_page *p, const char *text);

/* "a, b, c" */
const char *report_page_words(const struct model *m, const char *const *items, size_t n);

/* A repair: its words, and its command on a line of its own. */
void report_page_repair(const struct report_page *p, const struct diag_repair *r,
                        const char *label);

/* The first lines of a finding: how severe it is, what is wrong, and what else has it. */
void report_page_summary(const struct report_page *p, const struct diag_finding *f);

/* The head; r may be NULL: without a report. */
void report_page_head(struct report_page *p, const struct diag_report *r,
                      const struct report_target *t);

/* Whether no GPU was found, and what runs on the CPU needs none of what is missing. */
bool report_is_only_for_gpu(const struct model *m, const struct diag_report *r);

/* Whether the advice repairs the finding. */
bool report_is_in_advice(const struct diag_finding *f, const struct report_advice *advice);

/* The findings in brief. */
void report_page_brief(const struct report_page *p, const struct diag_report *r,
                       const struct report_advice *advice);

/* One command that repairs; nothing if there is none. */
void report_page_advice(const struct report_page *p, const char *label,
                        const struct report_repair *repair, const struct diag_report *r);

/* The repair of the first finding, where no command of the advice repairs anything. */
void report_page_first_repair(const struct report_page *p, const struct diag_report *r,
                              const struct report_target *target,
                              const struct report_advice *advice);

/* What is fine, the notes, and how to remove a start-up hook. */
void report_page_remarks(const struct report_page *p, const struct diag_report *r);

/* The verdict, and what it is about. */
void report_page_verdict(const struct report_page *p, const struct diag_report *r,
                         const struct report_target *t);

#endif
