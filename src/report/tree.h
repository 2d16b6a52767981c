/*
 * Who needs whom in a process, as a tree of lines for people: `gpumend why --tree`.
 */
#ifndef GPUMEND_REPORT_TREE_H
#define GPUMEND_REPORT_TREE_H

#include "base/out.h"
#include "ldso/process.h"

/* The program with what it asks for below it, each in the order of its requests. An object is
 * unfolded where it is met first; elsewhere it has the mark (*). */
void report_tree(const struct out *o, struct ldso_process *p);

/* The other way round: what answers to `name` (path, soname, file name, or a name that was asked
 * for in vain), with who asks for it below, up to the program. False: nothing does. */
bool report_tree_inverted(const struct out *o, struct ldso_process *p, const char *name);

#endif
