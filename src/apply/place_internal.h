/*
 * Shared by the files of a place (place.c, place_top.c).
 */
#ifndef GPUMEND_APPLY_PLACE_INTERNAL_H
#define GPUMEND_APPLY_PLACE_INTERNAL_H

#include "apply/place.h"

/* Sets the error to what could not be done, and why. */
int apply_place_said(struct gm_err *err, const char *what);

/* Closes what is open. */
void apply_place_close_fd(int fd);

/* An error if nothing may be written into the folder: it is not ours, or others may write there. */
int apply_place_check_folder(const struct apply_place *p, int fd, const char *path,
                             struct gm_err *err);

/* The names in a folder that a filter keeps. */
int apply_place_names_in(struct apply_place *p, int dir, const struct root_filter *filter,
                         struct root_dir *ret, struct gm_err *err);

#endif
