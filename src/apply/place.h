/*
 * The place where a repair happens: a base folder that no change leaves, and the home of its
 * journals. For an environment both are its prefix and the journals lie in <prefix>/.gpumend; for
 * the system the base is the root folder and the journals lie in /var/lib/gpumend.
 *
 *   apply_place_open()  apply_place_lock()  apply_place_sweep()  ...  apply_place_close()
 *
 * Every path is relative to the base and is walked component by component from the base's fd
 * without following any link, so that no link can lead a change elsewhere; whoever changes
 * something must own each folder on the way, none of which others may write to. All functions
 * return 0 (or an fd) or a negative gm_err_code with its sentence.
 */
#ifndef GPUMEND_APPLY_PLACE_H
#define GPUMEND_APPLY_PLACE_H

#include "base/root.h"
#include "apply/journal.h"

struct apply_place {
    struct arena *arena;
    const char *base_path; // on this machine, without links; for showing and for child processes
    int base, home;        // fds, or -1
    const char *top;       // the folder of journals in `home`
    bool is_system;
    const char *swap; // how another user could put another folder in place of the base, or NULL
    /* Files that an undo could not bring back, since an installer wrote into them: the first, and
     * how many. */
    const char *lost;
    size_t n_lost;
};

#define APPLY_PLACE_EMPTY ((struct apply_place){.base = -1, .home = -1})

/* `prefix` is a path inside the root. With is_system the root itself is the base. Nothing is
 * written. GM_ERR_LOOK: it cannot be opened. */
int apply_place_open(struct apply_place *p, struct arena *a, struct root *root, const char *prefix,
                     bool is_system, struct gm_err *err) GM_CHECK;
void apply_place_close(struct apply_place *p);

/* Waits for nobody: GM_ERR_LOOK if another gpumend is at work here. Kept until apply_place_close().
 */
int apply_place_lock(struct apply_place *p, struct gm_err *err) GM_CHECK;

/* The folder of journals: created without leaving a trace in the times of `home` (apply_place_top),
 * or opened if it is there (-1 and no error if it is not: apply_place_find_top). */
int apply_place_top(struct apply_place *p, struct gm_err *err) GM_CHECK;
int apply_place_find_top(struct apply_place *p, struct gm_err *err) GM_CHECK;

/* Removes journals that are done with, and the folder of journals once it is empty. Also finishes
 * what an earlier process left half done of either. Wants the lock. */
int apply_place_sweep(struct apply_place *p, struct gm_err *err) GM_CHECK;

/* A path of the plan (absolute inside the root, links in its folder part allowed as long as they
 * end inside the base) as a path relative to the base. GM_ERR_UNSUPPORTED: it lies outside. */
int apply_place_relative(struct apply_place *p, struct root *root, const char *path,
                         const char **ret, struct gm_err *err) GM_CHECK;

/* The folder, for reading (apply_place_look) or for changing something in it (apply_place_folder:
 * owners and modes are checked). "." is the base. apply_place_look gives -1 with GM_ERR_NONE in err
 * if it is absent. */
int apply_place_folder(const struct apply_place *p, const char *path, struct gm_err *err) GM_CHECK;
int apply_place_look(const struct apply_place *p, const char *path, struct gm_err *err) GM_CHECK;

/* Whether this user may change something in the folder, or it is absent: 0, or the objection. */
int apply_place_may_change(const struct apply_place *p, const char *path,
                           struct gm_err *err) GM_CHECK;

/* The folder part of a relative path; "." if it has none. */
const char *apply_place_parent(const struct apply_place *p, const char *path);

/* What stands at `name` in the folder; type '-' if nothing does. */
int apply_place_sig(const struct apply_place *p, int dir, const char *name,
                    struct apply_journal_sig *ret, struct gm_err *err) GM_CHECK;

int apply_place_sync(int fd, const char *what, struct gm_err *err) GM_CHECK;
int apply_place_write(int dir, const char *name, mode_t mode, struct str content,
                      struct gm_err *err) GM_CHECK; // a new file, synced
int apply_place_read(const struct apply_place *p, int dir, const char *name, size_t max_bytes,
                     struct str *ret, struct gm_err *err) GM_CHECK;

/* A new file with content, mode, owner, extended attributes and times of the old one, synced. */
int apply_place_copy(int from_dir, const char *from, int to_dir, const char *to,
                     struct gm_err *err) GM_CHECK;

/* Removes a file, a link, or a folder with all in it. Absent is fine. Stays on one file system. */
int apply_place_remove(int dir, const char *name, struct gm_err *err) GM_CHECK;

/* Removes what Pythons compiled from the file `name` ("x.py") of the folder, and their folder if
 * nothing else is in it. What cannot be removed stays: no Python reads it without its source. */
void apply_place_remove_bytecode(struct apply_place *p, int dir, const char *name);

/* Sets the times of modification and access. */
int apply_place_times(int dir, const char *name, const struct apply_journal_sig *sig,
                      struct gm_err *err) GM_CHECK;

#endif
