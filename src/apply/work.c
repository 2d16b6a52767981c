#include "apply/work.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apply/scan.h"

enum { JOURNALS_MAX = 100000, DIGITS_MAX = 9 };

static int work_said(struct gm_err *err, const char *what)
{
    return gm_err_set(err, GM_ERR_LOOK, "%s: %s", what, strerror(errno));
}

static const char *number(struct apply_work *w, uint64_t n)
{
    return arena_printf(w->place->arena, "%" PRIu64, n);
}

/* ------------------------------------------------------------------ the log */

static int work_open_folder(int dir, const char *name)
{
    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* "17" -> 17; 0 for what is no journal. */
static unsigned journal_id(const char *name)
{
    uint64_t id;
    struct str s = str_of(name);
    return s.n <= DIGITS_MAX && s.s[0] != '0' && str_u64(s, &id) ? (unsigned)id : 0;
}

static bool is_journal(const char *name, void *unused)
{
    (void)unused;
    return journal_id(name) != 0;
}

static int by_id(const void *a, const void *b)
{
    const unsigned *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

struct ids {
    unsigned *items;
    size_t n;
};

static int list_ids(struct apply_place *p, int journals, struct ids *ret, struct gm_err *err)
{
    struct root here = {.fd = journals, .path = "."};
    struct root_dir found;
    int rc = root_list(&here, p->arena, "/", JOURNALS_MAX,
                       &(struct root_filter){.keep = is_journal}, &found);
    if (rc < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "the journals: %s", strerror(-rc));
    }
    if (found.truncated) { // the newest may be among those that are left out
        return gm_err_set(err, GM_ERR_LIMIT, "there are more than %d journals", JOURNALS_MAX);
    }
    *ret = (struct ids){arena_array(p->arena, found.n + 1, sizeof *ret->items), found.n};
    for (size_t i = 0; i < found.n; i++) {
        ret->items[i] = journal_id(found.names[i]);
    }
    qsort(ret->items, ret->n, sizeof *ret->items, by_id);
    return 0;
}

/* Opens the folders; without a journal yet *w has fds -1 and 0 is returned. */
static int open_journals(struct apply_work *w, struct apply_place *p, struct gm_err *err)
{
    struct gm_err found = {.code = GM_ERR_NONE};
    *w = APPLY_WORK_EMPTY;
    w->place = p;
    w->top = apply_place_find_top(p, &found);
    if (w->top < 0) {
        return found.code == GM_ERR_NONE ? 0 : gm_err_set(err, found.code, "%s", found.text);
    }
    w->journals = work_open_folder(w->top, "journal");
    return w->journals >= 0 ? 0 : work_said(err, "the journals");
}

/* Opens the folder of a journal and reads it. */
static int open_journal(struct apply_work *w, unsigned id, int flags, struct gm_err *err)
{
    const char *name = number(w, id);
    struct str text;
    w->folder = work_open_folder(w->journals, name);
    w->log = w->folder < 0 ? -1 : openat(w->folder, "log", flags | O_NOFOLLOW | O_CLOEXEC);
    if (w->log < 0 && errno == ENOENT && w->folder >= 0) {
        w->journal = (struct apply_journal){.id = id}; // it never began
        return 0;
    }
    if (w->log < 0) {
        return work_said(err, "the journal");
    }
    int rc = apply_place_read(w->place, w->folder, "log", APPLY_JOURNAL_BYTES_MAX, &text, err);
    rc = rc < 0 ? rc : apply_journal_parse(w->place->arena, text, &w->journal, err);
    if (rc == 0 && w->journal.begun && w->journal.id != id) {
        rc = gm_err_set(err, GM_ERR_FORMAT, "it is the journal of another repair");
    }
    w->journal.id = id;
    return rc < 0 ? gm_err_wrap(err, "journal %u", id) : 0;
}

static void close_journal(struct apply_work *w)
{
    int *fds[] = {&w->folder, &w->log};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (*fds[i] >= 0) {
            (void)close(*fds[i]); // synced record by record
        }
        *fds[i] = -1;
    }
}

void apply_work_close(struct apply_work *w)
{
    close_journal(w);
    if (w->journals >= 0) {
        (void)close(w->journals); // only read from
    }
    if (w->top >= 0) {
        (void)close(w->top);
    }
    w->journals = w->top = -1;
}

static int make_journal(struct apply_work *w, const char *what, const char *title,
                        struct gm_err *err)
{
    const char *id = number(w, w->journal.id);
    if (mkdirat(w->journals, id, 0700) < 0 || (w->folder = work_open_folder(w->journals, id)) < 0) {
        return work_said(err, "the journal");
    }
    static const char *const parts[] = {"old", "scan", "farm"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (mkdirat(w->folder, parts[i], 0700) < 0) {
            return work_said(err, "the journal");
        }
    }
    w->log = openat(w->folder, "log", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (w->log < 0) {
        return work_said(err, "the journal");
    }
    const char *fields[] = {"version", "1",
                            "id",      id,
                            "what",    what,
                            "title",   title,
                            "base",    w->place->base_path,
                            "at",      number(w, (uint64_t)time(NULL)),
                            NULL};
    int rc = apply_work_record(w, "begin", fields, err);
    rc = rc < 0 ? rc : apply_place_sync(w->folder, "the journal", err);
    w->journal.begun = rc == 0;
    return rc < 0 ? rc : apply_place_sync(w->journals, "the journal", err);
}

int apply_work_begin(struct apply_work *w, struct apply_place *p, const char *what,
                     const char *title, struct gm_err *err)
{
    *w = APPLY_WORK_EMPTY;
    w->place = p;
    int rc = w->top = apply_place_top(p, err);
    if (rc < 0) {
        return rc;
    }
    struct ids ids;
    w->journals = work_open_folder(w->top, "journal");
    if (w->journals < 0) {
        return work_said(err, "the journals");
    }
    rc = list_ids(p, w->journals, &ids, err);
    w->journal = (struct apply_journal){.id = rc == 0 && ids.n ? ids.items[ids.n - 1] + 1 : 1};
    return rc < 0 ? rc : make_journal(w, what, title, err);
}

/* ------------------------------------------------------------------ one change */

/* Notes a folder with its times before the first change in it. */
static int note_folder(struct apply_work *w, const char *path, int dir, struct gm_err *err)
{
    for (size_t i = 0; i < w->journal.folders.n; i++) {
        if (strcmp(w->journal.folders.items[i].path, path) == 0) {
            return 0;
        }
    }
    struct apply_journal_folder f = {.path = path};
    int rc = apply_place_sig(w->place, dir, ".", &f.before, err);
    const char *fields[] = {"path", path, "sig",
                            rc < 0 ? NULL : apply_journal_sig_text(w->place->arena, &f.before),
                            NULL};
    rc = rc < 0 ? rc : apply_work_record(w, "folder", fields, err);
    if (rc == 0) {
        VEC_PUSH(w->place->arena, &w->journal.folders, f);
    }
    return rc;
}

/* How the new thing is made at `name` in `dir`. */
struct making {
    int (*make)(struct apply_work *w, int dir, const char *name, const struct making *how,
                struct gm_err *err);
    const char *link;
    struct str content;
    mode_t mode;
    const char *old; // name of the file in `dir` that is edited
    const char *folder;
    int (*edit)(const char *copy, void *arg, struct gm_err *err);
    void *arg;
};

static int work_make_link(struct apply_work *w, int dir, const char *name, const struct making *how,
                          struct gm_err *err)
{
    (void)w; // as the others
    return symlinkat(how->link, dir, name) == 0 ? 0 : work_said(err, name);
}

static int work_make_file(struct apply_work *w, int dir, const char *name, const struct making *how,
                          struct gm_err *err)
{
    (void)w; // as the others
    return apply_place_write(dir, name, how->mode, how->content, err);
}

static int work_make_folder(struct apply_work *w, int dir, const char *name,
                            const struct making *how, struct gm_err *err)
{
    (void)w; // as the others
    return mkdirat(dir, name, how->mode) == 0 ? 0 : work_said(err, name);
}

static int sync_named(int dir, const char *name, struct gm_err *err)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return work_said(err, name);
    }
    int rc = apply_place_sync(fd, name, err);
    (void)close(fd);
    return rc;
}

static int make_edited(struct apply_work *w, int dir, const char *name, const struct making *how,
                       struct gm_err *err)
{
    struct arena *a = w->place->arena;
    int rc = apply_place_copy(dir, how->old, dir, name, err);
    const char *folder = path_normal(a, path_join(a, w->place->base_path, how->folder));
    rc = rc < 0 ? rc : how->edit(path_join(a, folder, name), how->arg, err);
    return rc < 0 ? rc : sync_named(dir, name, err);
}

/* Keeps what stands at `name`: the inode itself where hard links can be, else a copy. */
static int keep_old(struct apply_work *w, struct apply_journal_change *c, int dir, const char *name,
                    struct gm_err *err)
{
    if (c->before.type == '-') {
        return 0;
    }
    int old = work_open_folder(w->folder, "old");
    if (old < 0) {
        return work_said(err, "the journal");
    }
    int rc = 0;
    const char *kept = number(w, c->n);
    if (linkat(dir, name, old, kept, 0) == 0) {
        c->kept = APPLY_KEPT_LINK;
    } else if (errno == EXDEV || errno == EPERM || errno == EMLINK || errno == EOPNOTSUPP) {
        c->kept = APPLY_KEPT_COPY;
        rc = c->before.type == 'l'
                 ? (symlinkat(c->before.link, old, kept) == 0 ? 0 : work_said(err, name))
                 : apply_place_copy(dir, name, old, kept, err);
    } else {
        rc = work_said(err, name);
    }
    rc = rc < 0 ? rc : apply_place_sync(old, "the journal", err);
    (void)close(old); // synced
    return rc;
}

static int commit(struct apply_work *w, struct apply_journal_change *c, int dir, struct gm_err *err)
{
    static const char *const kept[] = {
        [APPLY_KEPT_NONE] = "none", [APPLY_KEPT_LINK] = "link", [APPLY_KEPT_COPY] = "copy"};
    struct arena *a = w->place->arena;
    const char *tmp = path_base(c->tmp), *name = path_base(c->path);
    int rc = apply_place_sig(w->place, dir, tmp, &c->after, err);
    const char *fields[] = {"n",    number(w, c->n), "new",  apply_journal_sig_text(a, &c->after),
                            "link", c->after.link,   "kept", kept[c->kept],
                            NULL};
    rc = rc < 0 ? rc : apply_work_record(w, "commit", fields, err);
    if (rc < 0) {
        return rc;
    }
    c->committed = true;
    unsigned flags = c->before.type == '-' ? RENAME_NOREPLACE : 0;
    if (renameat2(dir, tmp, dir, name, flags) < 0) {
        bool no_flags = errno == EINVAL && flags; // file systems without it: looked a moment ago
        if (!no_flags || renameat(dir, tmp, dir, name) < 0) {
            return work_said(err, c->path);
        }
    }
    return apply_place_sync(dir, c->path, err);
}

/* A file of somebody else is not ours to replace; a folder is never replaced. */
static int may_replace(const struct apply_work *w, const char *path,
                       const struct apply_journal_sig *sig, struct gm_err *err)
{
    if (sig->type == '-') {
        return 0;
    }
    if (sig->type != 'f' && sig->type != 'l') {
        return gm_err_set(err, GM_ERR_UNSUPPORTED, "%s is neither a file nor a link", path);
    }
    if (sig->uid != geteuid() && !(w->place->is_system && sig->uid == 0)) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED, "%s belongs to user %u, and this is user %u",
                          path, sig->uid, geteuid());
    }
    return 0;
}

static int stage(struct apply_work *w, struct apply_journal_change *c, const char *path, int dir,
                 struct gm_err *err)
{
    struct arena *a = w->place->arena;
    const char *folder = apply_place_parent(w->place, path);
    *c = (struct apply_journal_change){.n = (unsigned)w->journal.changes.n + 1, .path = path};
    c->tmp = arena_printf(a, "%s%s.gpumend-%u-%u", strcmp(folder, ".") == 0 ? "" : folder,
                          strcmp(folder, ".") == 0 ? "" : "/", w->journal.id, c->n);
    int rc = apply_place_sig(w->place, dir, path_base(path), &c->before, err);
    rc = rc < 0 ? rc : may_replace(w, path, &c->before, err);
    rc = rc < 0 ? rc : note_folder(w, folder, dir, err);
    const char *fields[] = {
        "n",    number(w, c->n), "path", c->path,
        "tmp",  c->tmp,          "old",  rc < 0 ? NULL : apply_journal_sig_text(a, &c->before),
        "link", c->before.link,  NULL};
    return rc < 0 ? rc : apply_work_record(w, "stage", fields, err);
}

static int work_change(struct apply_work *w, const char *path, const struct making *how,
                       struct gm_err *err)
{
    struct apply_journal_change c;
    int dir = apply_place_folder(w->place, apply_place_parent(w->place, path), err);
    if (dir < 0) {
        return dir;
    }
    int rc = stage(w, &c, path, dir, err);
    if (rc == 0) {
        VEC_PUSH(w->place->arena, &w->journal.changes, c);
        struct apply_journal_change *kept = &w->journal.changes.items[w->journal.changes.n - 1];
        rc = how->make(w, dir, path_base(c.tmp), how, err);
        rc = rc < 0 ? rc : keep_old(w, kept, dir, path_base(path), err);
        rc = rc < 0 ? rc : commit(w, kept, dir, err);
    }
    (void)close(dir); // synced
    return rc;
}

/* Makes the folders above a path that are not there yet. */
static int make_parents(struct apply_work *w, const char *path, struct gm_err *err)
{
    const char *parent = apply_place_parent(w->place, path);
    struct gm_err looked;
    int fd = apply_place_look(w->place, parent, &looked);
    if (fd >= 0) {
        (void)close(fd); // only looked at
        return 0;
    }
    if (looked.code != GM_ERR_NONE) {
        return gm_err_set(err, looked.code, "%s", looked.text);
    }
    const struct making how = {.make = work_make_folder, .mode = 0755};
    int rc = make_parents(w, parent, err);
    return rc < 0 ? rc : work_change(w, parent, &how, err);
}

int apply_work_put_link(struct apply_work *w, const char *path, const char *target,
                        struct gm_err *err)
{
    const struct making how = {.make = work_make_link, .link = target};
    int rc = make_parents(w, path, err);
    return rc < 0 ? rc : work_change(w, path, &how, err);
}

int apply_work_put_file(struct apply_work *w, const char *path, mode_t mode, struct str content,
                        struct gm_err *err)
{
    const struct making how = {.make = work_make_file, .mode = mode, .content = content};
    int rc = make_parents(w, path, err);
    return rc < 0 ? rc : work_change(w, path, &how, err);
}

int apply_work_edit_file(struct apply_work *w, const char *path,
                         int (*edit)(const char *copy, void *arg, struct gm_err *err), void *arg,
                         struct gm_err *err)
{
    const struct making how = {.make = make_edited,
                               .old = path_base(path),
                               .edit = edit,
                               .arg = arg,
                               .folder = apply_place_parent(w->place, path)};
    return work_change(w, path, &how, err);
}

/* ------------------------------------------------------------------ the end of it */

int apply_work_finish(struct apply_work *w, struct gm_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->journal.folders.n; i++) {
        struct apply_journal_folder *f = &w->journal.folders.items[i];
        int dir = apply_place_folder(w->place, f->path, err);
        rc = dir < 0 ? dir : apply_place_sig(w->place, dir, ".", &f->left, err);
        if (dir >= 0) {
            (void)close(dir); // only looked at
        }
        const char *fields[] = {"path", f->path, "sig",
                                rc < 0 ? NULL : apply_journal_sig_text(w->place->arena, &f->left),
                                NULL};
        rc = rc < 0 ? rc : apply_work_record(w, "left", fields, err);
        f->has_left = rc == 0;
    }
    rc = rc < 0 ? rc : apply_work_record(w, "applied", NULL, err);
    w->journal.applied = rc == 0;
    return rc;
}

int apply_work_verified(struct apply_work *w, const char *how, struct gm_err *err)
{
    const char *fields[] = {"how", how, NULL};
    return apply_work_record(w, "verified", fields, err);
}

/* ------------------------------------------------------------------ taking back */

enum standing { IS_NEW, IS_OLD, IS_THEIRS };

/* What stands at the path of a change: what we put there, what was there before, or neither. */
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
    int old = work_open_folder(w->folder, "old");
    if (old < 0) {
        return work_said(err, "the journal");
    }
    int rc = 0;
    const char *kept = number(w, c->n);
    if (c->kept == APPLY_KEPT_LINK || c->before.type == 'l') {
        rc = renameat(old, kept, dir, name) == 0 ? 0 : -errno;
    }
    if (c->kept == APPLY_KEPT_COPY && c->before.type == 'f') {
        rc = apply_place_remove(dir, tmp, err);
        rc = rc < 0 ? rc : apply_place_copy(old, kept, dir, tmp, err);
        (void)close(old); // only read from
        return rc < 0 || renameat(dir, tmp, dir, name) == 0 ? rc : work_said(err, c->path);
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
        rc = unlinkat(dir, path_base(c->path), AT_REMOVEDIR) == 0 ? 0 : work_said(err, c->path);
    } else if (now == IS_NEW) {
        if (ends_with(c->path, ".py")) {
            apply_place_remove_bytecode(w->place, dir, path_base(c->path));
        }
        rc = unlinkat(dir, path_base(c->path), 0) == 0 ? 0 : work_said(err, c->path);
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
    const char *id = number(w, w->journal.id);
    if (renameat(w->journals, id, w->journals, arena_printf(w->place->arena, "gone-%s", id)) < 0) {
        return work_said(err, "the journal");
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
        int dir = work_open_folder(w->folder, parts[i][0]);
        if (dir < 0 && errno == ENOENT && !w->journal.begun) {
            continue; // it was not made completely
        }
        if (dir < 0) {
            return work_said(err, "the journal");
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
        return work_said(err, "the journals");
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
    rc = rc < 0 ? rc : open_journal(w, id, O_RDWR, err);
    rc = rc < 0 ? rc : undo_opened(w, err);
    close_journal(w);
    return rc;
}

int apply_work_undo(struct apply_place *p, unsigned id, unsigned *ret_id, struct gm_err *err)
{
    struct apply_work w;
    struct ids ids = {0};
    *ret_id = 0;
    int rc = apply_place_sweep(p, err);
    rc = rc < 0 ? rc : open_journals(&w, p, err);
    if (rc < 0 || w.journals < 0) {
        return rc;
    }
    rc = list_ids(p, w.journals, &ids, err);
    for (size_t i = 0; rc == 0 && i < ids.n; i++) {
        *ret_id = !id || ids.items[i] == id ? ids.items[i] : *ret_id;
    }
    rc = rc < 0 || !*ret_id ? rc : undo_one(&w, *ret_id, err);
    apply_work_close(&w);
    return rc < 0 ? rc : apply_place_sweep(p, err);
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

int apply_work_list(struct apply_place *p, struct apply_list *ret, struct gm_err *err)
{
    struct apply_work w;
    struct ids ids = {0};
    *ret = (struct apply_list){0};
    int rc = open_journals(&w, p, err);
    if (rc < 0 || w.journals < 0) {
        return rc;
    }
    rc = list_ids(p, w.journals, &ids, err);
    for (size_t i = 0; rc == 0 && i < ids.n; i++) {
        struct apply_listed l = {.id = ids.items[i]};
        struct gm_err wrong;
        if (open_journal(&w, l.id, O_RDONLY, &wrong) < 0) {
            l.error = arena_strdup(p->arena, wrong.text);
        }
        l.journal = w.journal;
        close_journal(&w);
        VEC_PUSH(p->arena, &ret->items, l);
    }
    apply_work_close(&w);
    return rc;
}
