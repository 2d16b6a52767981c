/* Shared by the rule files; not for other rooms. */
#ifndef GPUMEND_DIAG_INTERNAL_H
#define GPUMEND_DIAG_INTERNAL_H

#include "diag/finding.h"

struct diag {
    struct model *m;
    struct arena *a;
    struct diag_report *report;
};

/* One thing that went wrong in one process: a request nobody could serve, or a defect of the set
 * that was chosen. */
struct diag_failure {
    const struct model_process *process;
    const struct model_attempt *attempt; // NULL: the start itself
    const struct ldso_request *request;  // the request that failed, or NULL
    const struct ldso_defect *defect;    // the defect, or NULL
    const char *name;                    // library in question, as a soname with one version number
    const char *says;                    // the words the user sees
};

/* A finding with this cause and culprit, new or merged with an earlier one of the same `key`. */
struct diag_finding *diag_add(struct diag *d, enum diag_cause cause, const char *key,
                              const char *culprit, const char *summary);
void diag_evidence(struct diag *d, struct diag_finding *f, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void diag_repair(struct diag *d, struct diag_finding *f, enum diag_repair_kind kind,
                 const char *command, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void diag_seen_in(struct diag *d, struct diag_finding *f, const struct model_process *p);
void diag_likewise(struct diag *d, struct diag_finding *f, const char *name);
const char *diag_script_text(struct diag *d, const struct model_process *p);

/* Collects what failed in a process; optional attempts and guesses are left out. */
size_t diag_failures(struct diag *d, const struct model_process *p, struct diag_failure **ret);

/* The rules. Each looks at the whole model and adds what it finds. */
void diag_rule_start(struct diag *d);
void diag_rule_failures(struct diag *d);
void diag_rule_families(struct diag *d);
void diag_rule_stub(struct diag *d);
void diag_rule_extension(struct diag *d);
void diag_rule_environment(struct diag *d);
void diag_rule_live(struct diag *d);

/* Adds the repairs for a library that is not found: search path, packages, order of imports. */
void diag_repair_missing(struct diag *d, struct diag_finding *f, const struct diag_failure *failure,
                         const struct model_library *elsewhere);

#endif
