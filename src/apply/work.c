/*
 * Changing files with a journal: the old file is kept, the new one is put in its place, both are
 * synced.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apply/journals.h"
#include "apply/scan.h"
#include "apply/work.h"

static int make_journal(struct apply_work *w, const char *what, const char *title,
                        struct gm_err *err)
{
    const char *id = apply_work_number(w, w->journal.id);
    if (mkdirat(w->journals, id, 0700) < 0 ||
        (w->folder = apply_work_open_folder(w->journals, id)) < 0) {
        return apply_work_said(err, "the journal");
    }
    static const char *const parts[] = {"old", "scan", "farm"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (mkdirat(w->folder, parts[i], 0700) < 0) {
            return apply_work_said(err, "the journal");
        }
    }
    w->log = openat(w->folder, "log", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (w->log < 0) {
        return apply_work_said(err, "the journal");
    }
    const char *fields[] = {"version", "1",
                            "id",      id,
                            "what",    what,
                            "title",   title,
                            "base",    w->place->base_path,
                            "at",      apply_work_number(w, (uint64_t)time(NULL)),
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
    w->journals = apply_work_open_folder(w->top, "journal");
    if (w->journals < 0) {
        return apply_work_said(err, "the journals");
    }
    rc = apply_work_list_ids(p, w->journals, &ids, err);
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
    return symlinkat(how->link, dir, name) == 0 ? 0 : apply_work_said(err, name);
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
    return mkdirat(dir, name, how->mode) == 0 ? 0 : apply_work_said(err, name);
}

static int sync_named(int dir, const char *name, struct gm_err *err)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return apply_work_said(err, name);
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
    int old = apply_work_open_folder(w->folder, "old");
    if (old < 0) {
        return apply_work_said(err, "the journal");
    }
    int rc = 0;
    const char *kept = apply_work_number(w, c->n);
    if (linkat(dir, name, old, kept, 0) == 0) {
        c->kept = APPLY_KEPT_LINK;
    } else if (errno == EXDEV || errno == EPERM || errno == EMLINK || errno == EOPNOTSUPP) {
        c->kept = APPLY_KEPT_COPY;
        rc = c->before.type == 'l'
                 ? (symlinkat(c->before.link, old, kept) == 0 ? 0 : apply_work_said(err, name))
                 : apply_place_copy(dir, name, old, kept, err);
    } else {
        rc = apply_work_said(err, name);
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
    const char *fields[] = {"n",    apply_work_number(w, c->n),
                            "new",  apply_journal_sig_text(a, &c->after),
                            "link", c->after.link,
                            "kept", kept[c->kept],
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
            return apply_work_said(err, c->path);
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
    const char *fields[] = {"n",    apply_work_number(w, c->n),
                            "path", c->path,
                            "tmp",  c->tmp,
                            "old",  rc < 0 ? NULL : apply_journal_sig_text(a, &c->before),
                            "link", c->before.link,
                            NULL};
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
