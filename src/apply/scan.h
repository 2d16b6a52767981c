/* What work.c and scan.c share; not for other files. */
#ifndef GPUMEND_APPLY_SCAN_H
#define GPUMEND_APPLY_SCAN_H

#include "apply/work.h"

/* Appends a record (journal.h: journal_record) and syncs it. */
int work_record(struct mend_work *w, const char *kind, const char *const *fields,
                struct gm_err *err) GM_CHECK;

/* A change by a program that changes whatever it likes (scan.c). */
int scan_check(struct mend_work *w, const struct journal_change *c, struct gm_err *err) GM_CHECK;
int scan_undo(struct mend_work *w, const struct journal_change *c, struct gm_err *err) GM_CHECK;
/* Appends a record for each folder that others changed since. */
int scan_theirs(struct mend_work *w, const struct journal_change *c, struct gm_err *err) GM_CHECK;

#endif
