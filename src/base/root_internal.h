/*
 * Shared by the files of the real root (root_files.c, root_walk.c).
 */
#ifndef GPUMEND_BASE_ROOT_INTERNAL_H
#define GPUMEND_BASE_ROOT_INTERNAL_H

#include <setjmp.h>
#include <sys/types.h>

#include "base/root.h"

/*
 * The same without openat2 (Linux before 5.6, sandboxes): component by component. Each is opened
 * alone, in the folder that is open already and without following a link, so that nothing that is
 * exchanged meanwhile leads outside.
 */
struct walker {
    struct root *r;
    struct arena *a;
    char *done;       // without links
    const char *rest; // still to come
    int dir;          // folder of the last component; -1: `done` is to be opened
    const char *name; // that component in `dir`; NULL: `done` is the folder
    int links;
    /* Whether a link on the way was made by another user than these (all are trusted without it).
     */
    uid_t trusted[3];
    bool asks_owners, of_other;
};

/* Closes what is open. */
void root_close_path(int fd);

/* What an arena calls when memory is gone: back to the walk. */
void root_no_memory(void *arg);

/* walker_walk() that gives itself back without memory, too: -ENOMEM. */
int root_walk_safely(struct walker *w, jmp_buf *out_of_memory, const char *path);

/*
 * Whether an open regular file is none that a link may show. Of a file that is not shown to
 * everybody, because of its mode or a folder on the way, nothing is read
 *   - through a link of another user, if the file is ours or we are root, except for a program;
 *   - by another name, whoever made the link, if its own mode closes it, and it is neither a
 * program nor a script: an environment that was unpacked has links of our own.
 */
bool root_is_private(struct root *r, int fd, const struct stat *st, const char *path);

/* Opens a path folder by folder; links are resolved below the root. */
int root_open_by_walk(struct root *r, const char *path, int flags);

#endif
