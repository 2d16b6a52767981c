/* What work.c and scan.c share; not for other files. */
#ifndef GPUMEND_APPLY_SCAN_H
#define GPUMEND_APPLY_SCAN_H

#include "apply/work.h"

/* Appends a record (journal.h: apply_journal_record) and syncs it. */
int apply_work_record(struct apply_work *w, const char *kind, const char *const *fields,
                      struct gm_err *err) GM_CHECK;

/* A change by a program that changes whatever it likes (scan.c). */
int apply_scan_check(struct apply_work *w, const struct apply_journal_change *c,
                     struct gm_err *err) GM_CHECK;
int apply_scan_undo(struct apply_work *w, const struct apply_journal_change *c,
                    struct gm_err *err) GM_CHECK;
/* Appends a record for each folder that others changed since. */
int apply_scan_theirs(struct apply_work *w, const struct apply_journal_change *c,
                      struct gm_err *err) GM_CHECK;

#endif
