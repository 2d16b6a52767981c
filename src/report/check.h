/* What `check` prints: the report of src/diag as text and as JSON (docs/json.md). */
#ifndef GPUMEND_REPORT_CHECK_H
#define GPUMEND_REPORT_CHECK_H

#include "base/out.h"
#include "diag/finding.h"
#include "plan/plan.h"

/* What was looked at, for the head of the report. */
struct report_target {
    const char *kind;     // "environment", "file", "process", "machine"
    const char *path;     // as asked for, or NULL
    const char *root;     // "/" or the folder given with --root
    const char *options;  // for a command with the same target (cli_target_options()), or NULL
    const char *snapshot; // file it came from, or NULL
    const char *made, *made_by; // with snapshot: date and version, or NULL
    const char *lines; // of an image: the command that prints the lines that repair it, or NULL
};

/* A repair that can be carried out here, and the command that does it. */
struct report_repair {
    const struct plan_way *way; // NULL: there is none
    size_t mends;               // errors; where there is none, warnings
    const char *command;        // can be pasted; COMMAND is the user's program
    const char *remark;         // or NULL
};

/* What to do now about what `check` found. */
struct report_advice {
    struct report_repair start; // for one start of the program
    struct report_repair good;  // for all its starts
};

json_t *report_check_json(const struct model *m, const struct diag_report *r,
                          const struct report_target *target);
/* With all the evidence and all repairs. */
void report_check_text(const struct out *o, const struct model *m, const struct diag_report *r,
                       const struct report_target *target);
/* What is wrong and what to do now, on one screen; `advice` may be NULL: then each finding's first
 * repair is printed, and the first finding's again at the end. */
void report_check_brief(const struct out *o, const struct model *m, const struct diag_report *r,
                        const struct report_target *target, const struct report_advice *advice);

/* Parts of it, for the other reports over a target: the lines that say what was looked at, the same
 * as JSON, one finding as JSON, and a text with the long folders written <env> and <site>. */
void report_target_text(const struct out *o, const struct model *m,
                        const struct report_target *target);
json_t *report_target_json(const struct model *m, const struct report_target *target);
json_t *report_finding_json(const struct model *m, const struct diag_finding *f);
const char *report_verdict_sentence(const struct model *m, const struct diag_report *r,
                                    const struct report_target *target); // behind the verdict
const char *report_shorten(const struct model *m, const char *text);

#endif
