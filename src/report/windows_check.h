/* What `check` and `fix` print about a Windows tree: text, JSON
 * (docs/json/check-windows.schema.json) and the page. */
#ifndef GPUMEND_REPORT_WINDOWS_CHECK_H
#define GPUMEND_REPORT_WINDOWS_CHECK_H

#include "base/out.h"
#include "diag/windows.h"

struct report_windows {
    struct arena *arena;
    const struct host *host; // or NULL: not known
    const struct diag_windows *all;
    size_t n;
    const char *root;          // as given, for the page
    const char *const *unheld; // what was not read: a snapshot has it not, or a bound
    size_t n_unheld;
};

/* Whether a finding is an error. */
bool report_windows_is_broken(const struct report_windows *r);

void report_windows_check_text(const struct out *o, const struct report_windows *r);
json_t *report_windows_check_json(const struct report_windows *r);

/* The findings with their repairs alone; returns how many findings there are. */
size_t report_windows_plan_text(const struct out *o, const struct report_windows *r);

/* One repair of a finding, in lines that begin with four blanks. */
void report_windows_repair_text(const struct out *o, struct arena *a,
                                const struct diag_windows_repair *r);

json_t *report_windows_repair_json(struct arena *a, const struct diag_windows_repair *r);

/* The pages of `check` and `why` (report/html.h): new references. `models`: one or two processes
 * that performed the same loads; `document`: that of `why --json`, whose reference is taken over.
 */
json_t *report_html_windows_check(const struct report_windows *r);
json_t *report_html_windows_why(const struct winldr_process *const *models, size_t n,
                                json_t *document);

#endif
