/* Taking changes back, the last first; a file that was changed since is left as it is. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "apply/journals.h"
#include "apply/scan.h"
#include "apply/work.h"

enum standing { IS_NEW, IS_OLD, IS_THEIRS };

/* What is now at the path of a change: what we put there, what was there before, or neither. */
static int change_standing(struct apply_work *w, const struct apply_journal_change *c,
                           enum standing *ret, struct gm_err *err)
{
    struct gm_err looked;
    struct apply_journal_sig now = {.type = '-'};
    int dir = apply_place_look(w->place, apply_place_parent(w->place, c->path), &looked);
    if (dir < 0 && looked.code != GM_ERR_NONE) {
        return gm_err_set(err, looked.code, "%s", looked.text);
    }
    int rc = dir < 0 ? 0 : apply_place_sig(w->place, dir, path_base(c->path), &now, err);
    if (dir >= 0) {
        (void)close(dir); // only looked at
    }
    *ret = c->committed && apply_journal_sig_same(&now, &c->after) ? IS_NEW
           : apply_journal_sig_same(&now, &c->before)              ? IS_OLD
                                                                   : IS_THEIRS;
    return rc;
}

static int conflict(const char *path, struct gm_err *err)
{
    return gm_err_set(err, GM_ERR_UNSUPPORTED, "%s was changed by others since; nothing was undone",
                      path);
}

struct expected {
    struct apply_work *w;
    const char *folder;
};

/* Whether a name in one of our folders is not ours. */
static bool is_stranger(const char *name, void *arg)
{
    const struct expected *e = arg;
    struct arena *a = e->w->place->arena;
    const char *path = path_join(a, e->folder, name);
    for (size_t i = 0; i < e->w->journal.changes.n; i++) {
        const struct apply_journal_change *c = &e->w->journal.changes.items[i];
        if (strcmp(c->path, path) == 0 || (c->tmp && strcmp(c->tmp, path) == 0)) {
            return false;
        }
    }
    return true;
}

/* A folder that we made holds nothing but what we put into it. */
static int check_own_folder(struct apply_work *w, const char *path, struct gm_err *err)
{
    struct expected e = {.w = w, .folder = path};
    struct root_dir found;
    int dir = apply_place_folder(w->place, path, err);
    if (dir < 0) {
        return dir;
    }
    struct root here = {.fd = dir, .path = "."};
    int rc =
        root_list(&here, w->place->arena, "/", 1, &(struct root_filter){is_stranger, &e}, &found);
    (void)close(dir); // only looked at
    if (rc < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(-rc));
    }
    return found.n ? conflict(path_join(w->place->arena, path, found.names[0]), err) : 0;
}

static int check_change(struct apply_work *w, const struct apply_journal_change *c,
                        struct gm_err *err)
{
    int rc = apply_place_may_change(w->place, apply_place_parent(w->place, c->path), err);
    if (rc < 0 || c->packages) {
        return rc < 0 ? rc : apply_scan_check(w, c, err);
    }
    enum standing now;
    rc = change_standing(w, c, &now, err);
    if (rc < 0 || now == IS_THEIRS) {
        return rc < 0 ? rc : conflict(c->path, err);
    }
    return now == IS_NEW && c->after.type == 'd' ? check_own_folder(w, c->path, err) : 0;
}

/* Folders that others changed since keep their times, for those are now about more than us. */
static int note_theirs(struct apply_work *w, struct gm_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->journal.folders.n; i++) {
        struct apply_journal_folder *f = &w->journal.folders.items[i];
        struct gm_err looked;
        struct apply_journal_sig now = {.type = '-'};
        int dir = apply_place_look(w->place, f->path, &looked);
        rc = dir < 0 ? 0 : apply_place_sig(w->place, dir, ".", &now, err);
        if (dir >= 0) {
            (void)close(dir); // only looked at
        }
        if (rc == 0 && f->has_left && !apply_journal_same_mtime(&now, &f->left)) {
            const char *fields[] = {"path", f->path, NULL};
            rc = apply_work_record(w, "theirs", fields, err);
            f->theirs = true;
        }
    }
    for (size_t i = 0; rc == 0 && i < w->journal.changes.n; i++) {
        const struct apply_journal_change *c = &w->journal.changes.items[i];
        rc = c->packages && c->packages_done ? apply_scan_theirs(w, c, err) : 0;
    }
    return rc;
}

/* Brings the kept one back by one rename; from a copy, by way of another copy. */
static int restore(struct apply_work *w, const struct apply_journal_change *c, int dir,
                   struct gm_err *err)
{
    const char *name = path_base(c->path), *tmp = path_base(c->tmp);
    int old = apply_work_open_folder(w->folder, "old");
    if (old < 0) {
        return apply_work_said(err, "the journal");
    }
    int rc = 0;
    const char *kept = apply_work_number(w, c->n);
    if (c->kept == APPLY_KEPT_LINK || c->before.type == 'l') {
        rc = renameat(old, kept, dir, name) == 0 ? 0 : -errno;
    }
    if (c->kept == APPLY_KEPT_COPY && c->before.type == 'f') {
        rc = apply_place_remove(dir, tmp, err);
        rc = rc < 0 ? rc : apply_place_copy(old, kept, dir, tmp, err);
        (void)close(old); // only read from
        return rc < 0 || renameat(dir, tmp, dir, name) == 0 ? rc : apply_work_said(err, c->path);
    }
    if (rc == -EXDEV) { // a link kept as a copy
        rc = apply_place_remove(dir, tmp, err) < 0 || symlinkat(c->before.link, dir, tmp) < 0 ||
                     renameat(dir, tmp, dir, name) < 0
                 ? -errno
                 : 0;
    }
    if (rc == 0 && c->before.type == 'l') {
        rc = apply_place_times(dir, name, &c->before, err) < 0 ? -errno : 0;
    }
    (void)close(old); // only read from
    return rc == 0 ? 0 : gm_err_set(err, GM_ERR_LOOK, "%s: %s", c->path, strerror(-rc));
}

static int change_take_back(struct apply_work *w, const struct apply_journal_change *c,
                            struct gm_err *err)
{
    enum standing now;
    struct gm_err looked;
    if (c->packages) {
        return apply_scan_undo(w, c, err);
    }
    int rc = change_standing(w, c, &now, err);
    int dir =
        rc < 0 ? -1 : apply_place_look(w->place, apply_place_parent(w->place, c->path), &looked);
    if (rc < 0 || dir < 0) { // its folder was ours, and is gone already
        return rc < 0 || looked.code == GM_ERR_NONE
                   ? rc
                   : gm_err_set(err, looked.code, "%s", looked.text);
    }
    if (now == IS_NEW && c->before.type != '-') {
        rc = restore(w, c, dir, err);
    } else if (now == IS_NEW && c->after.type == 'd') {
        rc = unlinkat(dir, path_base(c->path), AT_REMOVEDIR) == 0 ? 0
                                                                  : apply_work_said(err, c->path);
    } else if (now == IS_NEW) {
        if (ends_with(c->path, ".py")) {
            apply_place_remove_bytecode(w->place, dir, path_base(c->path));
        }
        rc = unlinkat(dir, path_base(c->path), 0) == 0 ? 0 : apply_work_said(err, c->path);
    } else if (now == IS_THEIRS) {
        rc = conflict(c->path, err);
    }
    rc = rc < 0 ? rc : apply_place_remove(dir, path_base(c->tmp), err);
    rc = rc < 0 ? rc : apply_place_sync(dir, c->path, err);
    (void)close(dir); // synced
    return rc;
}

/* After the last change; the deepest folder need not come first, since times do not spread. */
static int restore_folders(struct apply_work *w, struct gm_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->journal.folders.n; i++) {
        const struct apply_journal_folder *f = &w->journal.folders.items[i];
        struct gm_err looked;
        int dir = f->theirs ? -1 : apply_place_look(w->place, f->path, &looked);
        if (dir >= 0) {
            rc = apply_place_times(dir, ".", &f->before, err);
            rc = rc < 0 ? rc : apply_place_sync(dir, f->path, err);
            (void)close(dir); // synced
        } else if (!f->theirs && looked.code != GM_ERR_NONE) {
            rc = gm_err_set(err, looked.code, "%s", looked.text);
        }
    }
    return rc;
}

/* With the rename the journal is done with, whatever happens later (apply_place_sweep). */
static int discard(struct apply_work *w, struct gm_err *err)
{
    const char *id = apply_work_number(w, w->journal.id);
    if (renameat(w->journals, id, w->journals, arena_printf(w->place->arena, "gone-%s", id)) < 0) {
        return apply_work_said(err, "the journal");
    }
    return apply_place_sync(w->journals, "the journal", err);
}

struct unknown {
    uint64_t known; // changes of the log
    const char *suffix;
};

static bool is_unknown(const char *name, void *arg)
{
    const struct unknown *u = arg;
    struct str s = str_of(name);
    size_t end = strlen(u->suffix);
    uint64_t n;
    return str_ends(s, u->suffix) && str_u64((struct str){s.s, s.n - end}, &n) && n > u->known;
}

/* Nothing is kept before its record is on the disk. What is kept and not in the log means that the
 * end of the log was not torn but lost, and with it what the kept things are. */
static int check_kept(struct apply_work *w, struct gm_err *err)
{
    static const char *const parts[][2] = {{"old", ""}, {"scan", ".after"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct unknown u = {w->journal.changes.n, parts[i][1]};
        struct root_dir found;
        int dir = apply_work_open_folder(w->folder, parts[i][0]);
        if (dir < 0 && errno == ENOENT && !w->journal.begun) {
            continue; // it was not made completely
        }
        if (dir < 0) {
            return apply_work_said(err, "the journal");
        }
        struct root here = {.fd = dir, .path = "."};
        int rc = root_list(&here, w->place->arena, "/", 1, &(struct root_filter){is_unknown, &u},
                           &found);
        (void)close(dir); // only read from
        if (rc < 0) {
            return gm_err_set(err, GM_ERR_LOOK, "the journal: %s", strerror(-rc));
        }
        if (found.n) {
            return gm_err_set(err, GM_ERR_FORMAT,
                              "journal %u is damaged: it keeps %s/%s, of which "
                              "its log says nothing",
                              w->journal.id, parts[i][0], found.names[0]);
        }
    }
    return 0;
}

static int undo_opened(struct apply_work *w, struct gm_err *err)
{
    int rc = check_kept(w, err);
    for (size_t i = 0; rc == 0 && i < w->journal.changes.n; i++) {
        rc = check_change(w, &w->journal.changes.items[i], err);
    }
    if (rc == 0 && w->journal.applied && !w->journal.undoing) {
        rc = note_theirs(w, err);
        rc = rc < 0 ? rc : apply_work_record(w, "undo", NULL, err);
    }
    for (size_t i = w->journal.changes.n; rc == 0 && i > 0; i--) {
        rc = change_take_back(w, &w->journal.changes.items[i - 1], err);
    }
    rc = rc < 0 ? rc : restore_folders(w, err);
    return rc < 0 ? rc : discard(w, err);
}

/* Taken back only by the user who applied it: what comes back is his. */
static int check_owner(const struct apply_work *w, struct gm_err *err)
{
    struct stat st;
    if (fstat(w->journals, &st) < 0) {
        return apply_work_said(err, "the journals");
    }
    return st.st_uid == geteuid()
               ? 0
               : gm_err_set(err, GM_ERR_UNSUPPORTED,
                            "the journals belong to user %u, and this is user %u", st.st_uid,
                            geteuid());
}

static int undo_one(struct apply_work *w, unsigned id, struct gm_err *err)
{
    int rc = check_owner(w, err);
    rc = rc < 0 ? rc : apply_work_open_journal(w, id, O_RDWR, err);
    rc = rc < 0 ? rc : undo_opened(w, err);
    apply_work_close_journal(w);
    return rc;
}

/* Undone as far as it can be; whoever asked learns of what cannot. */
static int say_lost(const struct apply_place *p, unsigned id, struct gm_err *err)
{
    const char *more =
        p->n_lost > 1 ? arena_printf(p->arena, " and %zu more files", p->n_lost - 1) : "";
    return gm_err_set(err, GM_ERR_UNSUPPORTED,
                      "journal %u was undone, except for %.250s%s: an installer had rewritten it "
                      "in place, and the old content is lost; reinstall its package",
                      id, p->lost, more);
}

int apply_work_undo(struct apply_place *p, unsigned id, unsigned *ret_id, struct gm_err *err)
{
    struct apply_work w;
    struct ids ids = {0};
    *ret_id = 0;
    p->lost = NULL;
    p->n_lost = 0;
    int rc = apply_place_sweep(p, err);
    rc = rc < 0 ? rc : apply_work_open_journals(&w, p, err);
    if (rc < 0 || w.journals < 0) {
        return rc;
    }
    rc = apply_work_list_ids(p, w.journals, &ids, err);
    for (size_t i = 0; rc == 0 && i < ids.n; i++) {
        *ret_id = !id || ids.items[i] == id ? ids.items[i] : *ret_id;
    }
    rc = rc < 0 || !*ret_id ? rc : undo_one(&w, *ret_id, err);
    apply_work_close(&w);
    rc = rc < 0 ? rc : apply_place_sweep(p, err);
    return rc < 0 || !p->n_lost ? rc : say_lost(p, *ret_id, err);
}

int apply_work_recover(struct apply_place *p, unsigned *ret_count, struct gm_err *err)
{
    struct apply_list list;
    *ret_count = 0;
    int rc = apply_place_sweep(p, err);
    rc = rc < 0 ? rc : apply_work_list(p, &list, err);
    for (size_t i = rc < 0 ? 0 : list.items.n; rc == 0 && i > 0; i--) {
        const struct apply_listed *l = &list.items.items[i - 1];
        if (l->error) {
            return gm_err_set(err, GM_ERR_FORMAT, "%s", l->error);
        }
        if (apply_journal_state(&l->journal) != APPLY_JOURNAL_APPLIED) {
            unsigned id;
            rc = apply_work_undo(p, l->id, &id, err);
            *ret_count += rc == 0;
        }
    }
    return rc;
}
