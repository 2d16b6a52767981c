/*
 * Changes behind a journal, and taking them back.
 *
 *   apply_work_begin()  work_put_*() ...  apply_work_finish()      a repair, or, if one of them
 * fails: apply_work_undo()                                        everything as it was
 *   apply_work_recover()                                     what an earlier process left half done
 *
 * Each change is written down and synced before it happens, the new thing is made beside its
 * place under a name of ours, and comes to its place by one rename. So at any moment the journal
 * and the files together say what has happened, and taking back works from there: content, mode,
 * owner, extended attributes and times of what was replaced (the same inode returns), and the
 * times of the folders. Only the time of the last change of an inode (ctime) cannot be put back.
 */
#ifndef GPUMEND_APPLY_WORK_H
#define GPUMEND_APPLY_WORK_H

#include "apply/place.h"

struct apply_work {
    struct apply_place *place;
    struct apply_journal journal;
    int top, journals, folder, log; // fds
};

#define APPLY_WORK_EMPTY ((struct apply_work){.top = -1, .journals = -1, .folder = -1, .log = -1})

/* Starts a journal. Wants the lock and nothing half done (apply_work_recover()). */
int apply_work_begin(struct apply_work *w, struct apply_place *p, const char *what,
                     const char *title, struct gm_err *err) GM_CHECK;

/* Paths are relative to the base. A folder that is missing above is made first. What stood at the
 * path, if anything, is kept and replaced; a folder is never replaced. */
int apply_work_put_link(struct apply_work *w, const char *path, const char *target,
                        struct gm_err *err) GM_CHECK;
int apply_work_put_file(struct apply_work *w, const char *path, mode_t mode, struct str content,
                        struct gm_err *err) GM_CHECK;

/* A copy of the file with mode, owner and attributes of it is given to `edit` as the path of this
 * machine, and then takes the file's place. */
int apply_work_edit_file(struct apply_work *w, const char *path,
                         int (*edit)(const char *copy, void *arg, struct gm_err *err), void *arg,
                         struct gm_err *err) GM_CHECK;

/* Whatever `run` changes below the base: the tree before is kept, and is what comes back. */
int apply_work_run(struct apply_work *w, int (*run)(void *arg, struct gm_err *err), void *arg,
                   struct gm_err *err) GM_CHECK;

/* All changes are made: the journal is a repair that can be taken back. */
int apply_work_finish(struct apply_work *w, struct gm_err *err) GM_CHECK;
/* Notes how trying it out ended: "verified", or why it could not be tried. */
int apply_work_verified(struct apply_work *w, const char *how, struct gm_err *err) GM_CHECK;

void apply_work_close(struct apply_work *w);

/*
 * Takes back a journal, last change first, and removes it. It can be interrupted and called again.
 * GM_ERR_UNSUPPORTED: others changed something since (the sentence says what), and nothing was
 * done; or, if p->n_lost is not 0, all was done, but so many files have a content that no undo can
 * bring back. `id` 0: the latest. *ret_id is 0 if there is no journal at all.
 */
int apply_work_undo(struct apply_place *p, unsigned id, unsigned *ret_id,
                    struct gm_err *err) GM_CHECK;

/* Takes back every journal that is interrupted, the latest first, and sweeps. */
int apply_work_recover(struct apply_place *p, unsigned *ret_count, struct gm_err *err) GM_CHECK;

/* The journals, by number. Reads only, and wants no lock. A damaged one has `error`. */
struct apply_listed {
    unsigned id;
    struct apply_journal journal;
    const char *error;
};
struct apply_list {
    VEC(struct apply_listed) items;
};
int apply_work_list(struct apply_place *p, struct apply_list *ret, struct gm_err *err) GM_CHECK;

#endif
