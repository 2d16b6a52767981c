/*
 * The journals of an environment: shared by the work that writes one (work.c) and by the undo that
 * reads them (undo.c).
 */
#ifndef GPUMEND_APPLY_JOURNALS_H
#define GPUMEND_APPLY_JOURNALS_H

#include "apply/place.h"
#include "apply/work.h"

struct ids {
    unsigned *items;
    size_t n;
};

/* Sets the error to what could not be done, and why. */
int apply_work_said(struct gm_err *err, const char *what);

/* A number as the name of a file. */
const char *apply_work_number(struct apply_work *w, uint64_t n);

/* Opens a folder that is not a link, or returns -1. */
int apply_work_open_folder(int dir, const char *name);

/* The numbers of the journals, in order. */
int apply_work_list_ids(struct apply_place *p, int journals, struct ids *ret, struct gm_err *err);

/* Opens the folders; without a journal yet *w has fds -1 and 0 is returned. */
int apply_work_open_journals(struct apply_work *w, struct apply_place *p, struct gm_err *err);

/* Opens the folder of a journal and reads it. */
int apply_work_open_journal(struct apply_work *w, unsigned id, int flags, struct gm_err *err);

/* Closes the folder and the log of the current journal. */
void apply_work_close_journal(struct apply_work *w);

#endif
