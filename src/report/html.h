/*
 * A page about one check or one process: one HTML file that needs no network and no scripts, made
 * from src/report/page.html. Its content policy admits the style and the script that stand in it
 * and nothing else.
 *
 *   report_html_check() or report_html_why()  what the page shows, as one document
 *   report_html_redact()                      takes names and secrets out of it
 *   report_html()                             writes the page
 *
 * The document holds that of --json under "document" and, beside it, what a page has more: the text
 * of the verdict, commands, lookups before and after the repair ("ladders"), library families by
 * their origin. Every text of a target passes through one function that makes it printable and
 * escapes it.
 */
#ifndef GPUMEND_REPORT_HTML_H
#define GPUMEND_REPORT_HTML_H

#include "ldso/process.h"
#include "report/check.h"

/* `plan` may be NULL: there is nothing to repair. Both return a new reference. */
json_t *report_html_check(struct model *m, const struct diag_report *r,
                          const struct report_target *target, const struct report_advice *advice,
                          const struct plan *plan);

/* `document`: that of `why --json`, whose reference is taken over. The lookups that are shown are
 * those that failed, and the one of load number `own` (at least p->loads.n: there is none). */
json_t *report_html_why(const struct ldso_process *p, json_t *document, size_t own);

/* Each text becomes what `text_of` makes of it. Returns -1 where memory was lacking: the page must
 * not be shown then. */
int report_html_redact(json_t *page, const char *(*text_of)(void *ctx, const char *text),
                       void *ctx) GM_CHECK;

/* Returns 0, or -1: out of memory. A failed write shows in ferror(). What the document lacks is
 * left out. */
int report_html(FILE *file, struct arena *a, const json_t *page) GM_CHECK;

#endif
