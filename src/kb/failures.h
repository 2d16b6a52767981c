/*
 * The files of the rule base of `explain`: kb/failures/CAUSE.yaml, or those that --kb DIR adds.
 *
 * The same reader serves the build and run time. What a file says is checked by whoever decodes it
 * (log/log.h); here are names, bytes and the form of YAML (base/node.h).
 */
#ifndef GPUMEND_KB_FAILURES_H
#define GPUMEND_KB_FAILURES_H

#include "base/node.h"
#include "base/root.h"

enum { KB_FAILURES_MAX = 1000 }; // files

/* Reads DIR/failures/NAME.yaml, in the order of their names; DIR/NAME.yaml where DIR has no folder
 * `failures`. There may be none. Another file in `failures`, one of a form that is not read any
 * more, and one that cannot be read are errors that name it: GM_ERR_LOOK, GM_ERR_FORMAT,
 * GM_ERR_LIMIT. */
int kb_failures_read(struct root *root, struct arena *a, const char *folder, struct node_files *ret,
                     struct gm_err *err) GM_CHECK;

#endif
