/*
 * A change by a program that changes whatever it likes, such as an installer of packages: the
 * whole tree is listed before (scan) and every file of it gets a second name in the journal
 * (farm), so that whatever the program removes or replaces is still there. Files that a program
 * might write in place are copied; of the others it is checked afterwards that none was.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apply/scan.h"

enum { DEPTH_MAX = 64, ENTRIES_MAX = 2000000, COPIED_BYTES_MAX = 1 << 20 };

static int scan_said(struct gm_err *err, const char *what)
{
    return gm_err_set(err, GM_ERR_LOOK, "%s: %s", what, strerror(errno));
}

/* ------------------------------------------------------------------ listing */

static bool not_ours(const char *name, void *at_top)
{
    return !at_top || !starts_with(name, ".gpumend");
}

struct listing {
    const struct apply_place *place;
    dev_t device; // of the place: what is mounted in it is another place
    struct apply_journal_scan *scan;
};

static int list_below(const struct listing *l, int dir, const char *path, unsigned depth,
                      struct gm_err *err);

static int list_entry(const struct listing *l, int dir, const char *path, unsigned depth,
                      struct gm_err *err)
{
    const char *name = path_base(path);
    struct apply_journal_entry e = {.path = path};
    int rc = apply_place_sig(l->place, dir, name, &e.sig, err);
    if (rc < 0 || e.sig.type == '-') {
        return rc;
    }
    if (l->scan->entries.n == ENTRIES_MAX || depth == 0) {
        return gm_err_set(err, GM_ERR_LIMIT, "%s: too many files, or too deep",
                          l->place->base_path);
    }
    VEC_PUSH(l->place->arena, &l->scan->entries, e);
    if (e.sig.type != 'd') {
        return 0;
    }
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        rc = scan_said(err, path);
    } else if (st.st_dev == l->device) {
        rc = list_below(l, fd, path, depth - 1, err);
    }
    if (fd >= 0) {
        (void)close(fd); // only read from
    }
    return rc;
}

static int list_below(const struct listing *l, int dir, const char *path, unsigned depth,
                      struct gm_err *err)
{
    struct arena *a = l->place->arena;
    struct root here = {.fd = dir, .path = "."};
    struct root_dir found;
    bool top = strcmp(path, ".") == 0;
    int rc = root_list(&here, a, "/", ENTRIES_MAX,
                       &(struct root_filter){not_ours, top ? l->scan : NULL}, &found);
    if (rc < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(-rc));
    }
    if (found.truncated) {
        return gm_err_set(err, GM_ERR_LIMIT, "%s: too many files", path);
    }
    for (size_t i = 0; rc == 0 && i < found.n; i++) {
        const char *name = found.names[i];
        rc = list_entry(l, dir, top ? name : path_join(a, path, name), depth, err);
    }
    return rc;
}

static int entries_by_path(const void *a, const void *b)
{
    return strcmp(((const struct apply_journal_entry *)a)->path,
                  ((const struct apply_journal_entry *)b)->path);
}

static int list_tree(const struct apply_place *p, struct apply_journal_scan *ret,
                     struct gm_err *err)
{
    struct stat st;
    *ret = (struct apply_journal_scan){0};
    if (fstat(p->base, &st) < 0) {
        return scan_said(err, p->base_path);
    }
    struct apply_journal_entry base = {.path = ".", .sig = apply_journal_sig_of(&st, NULL)};
    VEC_PUSH(p->arena, &ret->entries, base);
    const struct listing listing = {.place = p, .device = st.st_dev, .scan = ret};
    int rc = list_below(&listing, p->base, ".", DEPTH_MAX, err);
    qsort(ret->entries.items, ret->entries.n, sizeof *ret->entries.items, entries_by_path);
    return rc;
}

/* ------------------------------------------------------------------ keeping */

static int open_part(const struct apply_work *w, const char *part, struct gm_err *err)
{
    int fd = openat(w->folder, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 ? fd : scan_said(err, "the journal");
}

static const char *numbered(const struct apply_work *w, uint64_t n, const char *suffix)
{
    return arena_printf(w->place->arena, "%" PRIu64 "%s", n, suffix);
}

/* Installers replace files by new ones; what some write in place is small. */
static bool wants_copy(const struct apply_journal_entry *e)
{
    return e->sig.size <= COPIED_BYTES_MAX &&
           (starts_with(e->path, "bin/") || ends_with(e->path, ".pth") ||
            strstr(e->path, ".dist-info/") || strstr(e->path, "conda-meta/"));
}

static int scan_open_parent(const struct apply_work *w, const char *path, struct gm_err *err)
{
    return apply_place_look(w->place, apply_place_parent(w->place, path), err);
}

static int keep_file(const struct apply_work *w, int farm, size_t i,
                     const struct apply_journal_entry *e, struct gm_err *err)
{
    const char *name = path_base(e->path), *kept = numbered(w, i, "");
    int dir = scan_open_parent(w, e->path, err);
    if (dir < 0) {
        return dir;
    }
    int rc = !wants_copy(e) && linkat(dir, name, farm, kept, 0) == 0
                 ? 0
                 : apply_place_copy(dir, name, farm, kept, err);
    (void)close(dir); // only read from
    return rc;
}

static int open_farm(const struct apply_work *w, unsigned n, bool make, struct gm_err *err)
{
    const char *name = numbered(w, n, "");
    int part = open_part(w, "farm", err);
    if (part < 0) {
        return part;
    }
    int farm = make && mkdirat(part, name, 0700) < 0
                   ? -1
                   : openat(part, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc = farm < 0 ? scan_said(err, "the journal") : farm;
    (void)close(part); // only read from
    return rc;
}

static int keep_all(const struct apply_work *w, unsigned n, const struct apply_journal_scan *scan,
                    struct gm_err *err)
{
    int farm = open_farm(w, n, true, err);
    int rc = farm < 0 ? farm : 0;
    for (size_t i = 0; rc == 0 && i < scan->entries.n; i++) {
        const struct apply_journal_entry *e = &scan->entries.items[i];
        rc = e->sig.type == 'f' ? keep_file(w, farm, i, e, err) : 0;
    }
    rc = rc < 0 ? rc : apply_place_sync(farm, "the journal", err);
    if (farm >= 0) {
        (void)close(farm); // synced
    }
    return rc;
}

static int write_scan(struct apply_work *w, unsigned n, const char *suffix, const char *kind,
                      const struct apply_journal_scan *scan, struct gm_err *err)
{
    struct str text = apply_journal_scan_text(w->place->arena, scan);
    int dir = open_part(w, "scan", err);
    int rc = dir < 0 ? dir : apply_place_write(dir, numbered(w, n, suffix), 0600, text, err);
    rc = rc < 0 ? rc : apply_place_sync(dir, "the journal", err);
    if (dir >= 0) {
        (void)close(dir); // synced
    }
    struct arena *a = w->place->arena;
    const char *fields[] = {"n",       numbered(w, n, ""),
                            "entries", numbered(w, scan->entries.n, ""),
                            "hash",    arena_printf(a, "%016" PRIx64, str_hash(text.s, text.n)),
                            NULL};
    return rc < 0 ? rc : apply_work_record(w, kind, fields, err);
}

/* The tree before or after a change, with as many entries and the hash that its record names. */
static int read_scan(const struct apply_work *w, const struct apply_journal_change *c, bool after,
                     struct apply_journal_scan *ret, struct gm_err *err)
{
    struct str text;
    const char *name = numbered(w, c->n, after ? ".after" : ".before");
    uint64_t entries = after ? c->entries_after : c->entries_before;
    uint64_t hash = after ? c->hash_after : c->hash_before;
    int dir = open_part(w, "scan", err);
    if (dir < 0) {
        return dir;
    }
    int rc = apply_place_read(w->place, dir, name, APPLY_JOURNAL_SCAN_BYTES_MAX, &text, err);
    (void)close(dir); // only read from
    return rc < 0 ? rc : apply_journal_scan_parse(w->place->arena, text, entries, hash, ret, err);
}

/* Whether nothing happened to it at all. */
static bool untouched(const struct apply_journal_sig *a, const struct apply_journal_sig *b)
{
    return apply_journal_sig_same(a, b) && a->inode == b->inode;
}

/* A kept file that is no copy was not written in place, and one that is still in its place needs
 * its second name no longer. */
static int settle_kept(const struct apply_work *w, int farm, size_t i,
                       const struct apply_journal_entry *e, const struct apply_journal_scan *after,
                       struct gm_err *err)
{
    struct apply_journal_sig kept;
    const struct apply_journal_entry *now = apply_journal_scan_find(after, e->path);
    int rc = apply_place_sig(w->place, farm, numbered(w, i, ""), &kept, err);
    if (rc < 0) {
        return rc;
    }
    if (!apply_journal_sig_same(&kept, &e->sig)) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "the installer rewrote %s in place, so this could not be undone later",
                          e->path);
    }
    return now && untouched(&now->sig, &e->sig) ? apply_place_remove(farm, numbered(w, i, ""), err)
                                                : 0;
}

static int settle_farm(const struct apply_work *w, unsigned n,
                       const struct apply_journal_scan *before,
                       const struct apply_journal_scan *after, struct gm_err *err)
{
    int farm = open_farm(w, n, false, err);
    int rc = farm < 0 ? farm : 0;
    for (size_t i = 0; rc == 0 && i < before->entries.n; i++) {
        const struct apply_journal_entry *e = &before->entries.items[i];
        rc = e->sig.type == 'f' ? settle_kept(w, farm, i, e, after, err) : 0;
    }
    if (farm >= 0) {
        (void)close(farm); // what is lost of this is only names that are too many
    }
    return rc;
}

int apply_work_run(struct apply_work *w, int (*run)(void *arg, struct gm_err *err), void *arg,
                   struct gm_err *err)
{
    struct apply_journal_scan before, after;
    unsigned n = (unsigned)w->journal.changes.n + 1;
    int base = apply_place_folder(w->place, ".", err); // may it be changed at all
    if (base < 0) {
        return base;
    }
    (void)close(base); // only asked
    int rc = list_tree(w->place, &before, err);
    rc = rc < 0 ? rc : keep_all(w, n, &before, err);
    rc = rc < 0 ? rc : write_scan(w, n, ".before", "packages", &before, err);
    if (rc < 0) {
        return rc;
    }
    struct apply_journal_change c = {.n = n, .path = ".", .packages = true};
    VEC_PUSH(w->place->arena, &w->journal.changes, c);
    rc = run(arg, err);
    rc = rc < 0 ? rc : list_tree(w->place, &after, err);
    rc = rc < 0 ? rc : write_scan(w, n, ".after", "packages-done", &after, err);
    return rc < 0 ? rc : settle_farm(w, n, &before, &after, err);
}

/* ------------------------------------------------------------------ taking back */

struct scans {
    struct apply_journal_scan before, after, now;
};

/* Everything the journal and the tree say of a change. */
static int scans_load(struct apply_work *w, const struct apply_journal_change *c, struct scans *ret,
                      struct gm_err *err)
{
    *ret = (struct scans){0};
    int rc = read_scan(w, c, false, &ret->before, err);
    if (rc == 0 && c->packages_done) {
        rc = read_scan(w, c, true, &ret->after, err);
    }
    return rc < 0 ? rc : list_tree(w->place, &ret->now, err);
}

/* What the change made of a path; after an interruption, whatever there is now. */
static const struct apply_journal_scan *made_scan(const struct apply_journal_change *c,
                                                  const struct scans *s)
{
    return c->packages_done ? &s->after : &s->now;
}

static bool same_entry(const struct apply_journal_entry *a, const struct apply_journal_entry *b)
{
    return a && b ? apply_journal_sig_same(&a->sig, &b->sig) : a == b;
}

/* Whether the folder above came with the change, so that it goes with all that is in it. */
static bool below_new_folder(struct apply_work *w, const struct apply_journal_change *c,
                             const struct scans *s, const char *path)
{
    const char *parent = apply_place_parent(w->place, path);
    return strcmp(parent, ".") != 0 && apply_journal_scan_find(made_scan(c, s), parent) &&
           !apply_journal_scan_find(&s->before, parent);
}

/* Bytecode that a program left in a folder of the change, since it was run. */
static bool is_bytecode(const char *path)
{
    return strstr(path, "__pycache__");
}

int apply_scan_check(struct apply_work *w, const struct apply_journal_change *c, struct gm_err *err)
{
    struct scans s;
    int rc = scans_load(w, c, &s, err);
    if (rc < 0 || !c->packages_done) {
        return rc;
    }
    for (size_t i = 0; i < s.now.entries.n; i++) {
        const struct apply_journal_entry *now = &s.now.entries.items[i];
        const struct apply_journal_entry *b = apply_journal_scan_find(&s.before, now->path);
        const struct apply_journal_entry *a = apply_journal_scan_find(&s.after, now->path);
        bool theirs = a ? !same_entry(a, b) && !same_entry(now, a) && !same_entry(now, b)
                        : !b && below_new_folder(w, c, &s, now->path) && !is_bytecode(now->path);
        if (theirs) {
            return gm_err_set(err, GM_ERR_UNSUPPORTED,
                              "%s was changed by others since; nothing was undone", now->path);
        }
    }
    return 0;
}

int apply_scan_theirs(struct apply_work *w, const struct apply_journal_change *c,
                      struct gm_err *err)
{
    struct scans s;
    int rc = scans_load(w, c, &s, err);
    for (size_t i = 0; rc == 0 && i < s.after.entries.n; i++) {
        const struct apply_journal_entry *a = &s.after.entries.items[i];
        const struct apply_journal_entry *now = apply_journal_scan_find(&s.now, a->path);
        if (a->sig.type == 'd' && now && !apply_journal_same_mtime(&now->sig, &a->sig)) {
            const char *fields[] = {"path", a->path, NULL};
            struct apply_journal_folder f = {.path = a->path, .theirs = true};
            rc = apply_work_record(w, "theirs", fields, err);
            VEC_PUSH(w->place->arena, &w->journal.folders, f);
        }
    }
    return rc;
}

static int remove_path(struct apply_work *w, const char *path, struct gm_err *err)
{
    struct gm_err looked;
    int dir = scan_open_parent(w, path, &looked);
    if (dir < 0) { // gone with the folder above
        return looked.code == GM_ERR_NONE ? 0 : gm_err_set(err, looked.code, "%s", looked.text);
    }
    int rc = apply_place_remove(dir, path_base(path), err);
    (void)close(dir);
    return rc;
}

/* Whether what stands there now has to go: it came with the change, or is of another type. */
static bool has_to_go(struct apply_work *w, const struct apply_journal_change *c,
                      const struct scans *s, const struct apply_journal_entry *now)
{
    const struct apply_journal_entry *before = apply_journal_scan_find(&s->before, now->path);
    if (before) {
        return before->sig.type != now->sig.type && before->sig.type != 'o';
    }
    return apply_journal_scan_find(made_scan(c, s), now->path) ||
           below_new_folder(w, c, s, now->path);
}

static int bring_back_folder(int dir, const struct apply_journal_entry *e, struct gm_err *err)
{
    const char *name = path_base(e->path);
    if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST) {
        return scan_said(err, e->path);
    }
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc = fd < 0 || fchown(fd, e->sig.uid, e->sig.gid) < 0 || fchmod(fd, e->sig.mode) < 0
                 ? scan_said(err, e->path)
                 : 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return rc;
}

static int bring_back_link(int dir, const struct apply_journal_entry *e, struct gm_err *err)
{
    const char *name = path_base(e->path);
    int rc = apply_place_remove(dir, name, err);
    if (rc == 0 && (symlinkat(e->sig.link, dir, name) < 0 ||
                    fchownat(dir, name, e->sig.uid, e->sig.gid, AT_SYMLINK_NOFOLLOW) < 0)) {
        rc = scan_said(err, e->path);
    }
    return rc < 0 ? rc : apply_place_times(dir, name, &e->sig, err);
}

/* A second name of a file that was written in place has the new content, too. */
static void note_lost(struct apply_place *p, const struct apply_journal_sig *kept,
                      const struct apply_journal_entry *e)
{
    if (!apply_journal_sig_same(kept, &e->sig)) {
        p->lost = p->lost ? p->lost : arena_strdup(p->arena, e->path);
        p->n_lost++;
    }
}

static int bring_back_file(struct apply_work *w, int dir, int farm, size_t i,
                           const struct apply_journal_entry *e, struct gm_err *err)
{
    struct apply_journal_sig kept;
    const char *name = path_base(e->path), *from = numbered(w, i, "");
    int rc = apply_place_sig(w->place, farm, from, &kept, err);
    if (rc == 0 && kept.type == '-') {
        return gm_err_set(err, GM_ERR_LOOK, "%s: what was kept of it is gone", e->path);
    }
    if (rc == 0) {
        note_lost(w->place, &kept, e);
    }
    if (rc < 0 || renameat(farm, from, dir, name) == 0) {
        return rc;
    }
    if (errno != EXDEV) {
        return scan_said(err, e->path);
    }
    const char *tmp = arena_printf(w->place->arena, ".gpumend-%s", from);
    rc = apply_place_remove(dir, tmp, err);
    rc = rc < 0 ? rc : apply_place_copy(farm, from, dir, tmp, err);
    return rc < 0 || renameat(dir, tmp, dir, name) == 0 ? rc : scan_said(err, e->path);
}

static int bring_back(struct apply_work *w, int farm, size_t i, const struct apply_journal_entry *e,
                      struct gm_err *err)
{
    int dir = scan_open_parent(w, e->path, err);
    if (dir < 0) {
        return GM_ERR_LOOK;
    }
    int rc = e->sig.type == 'd'   ? bring_back_folder(dir, e, err)
             : e->sig.type == 'l' ? bring_back_link(dir, e, err)
             : e->sig.type == 'f' ? bring_back_file(w, dir, farm, i, e, err)
                                  : 0;
    (void)close(dir);
    return rc;
}

/* Whether the path is as it was before, or not of this change's making. */
static bool entry_is_settled(const struct apply_journal_change *c, const struct scans *s,
                             const struct apply_journal_entry *before)
{
    const struct apply_journal_entry *now = apply_journal_scan_find(&s->now, before->path);
    const struct apply_journal_entry *after =
        apply_journal_scan_find(made_scan(c, s), before->path);
    if (same_entry(before, now)) {
        return true;
    }
    return c->packages_done && same_entry(before, after);
}

static bool is_theirs(const struct apply_work *w, const char *path)
{
    for (size_t i = 0; i < w->journal.folders.n; i++) {
        const struct apply_journal_folder *f = &w->journal.folders.items[i];
        if (f->theirs && strcmp(f->path, path) == 0) {
            return true;
        }
    }
    return false;
}

static int restore_times(struct apply_work *w, const struct apply_journal_scan *before,
                         struct gm_err *err)
{
    int rc = 0;
    for (size_t i = before->entries.n; rc == 0 && i > 0; i--) {
        const struct apply_journal_entry *e = &before->entries.items[i - 1];
        struct apply_journal_sig now;
        if (e->sig.type != 'd' || is_theirs(w, e->path)) {
            continue;
        }
        int dir = apply_place_look(w->place, e->path, err);
        rc = dir < 0 ? GM_ERR_LOOK : apply_place_sig(w->place, dir, ".", &now, err);
        if (rc == 0 && !apply_journal_same_mtime(&now, &e->sig)) {
            rc = apply_place_times(dir, ".", &e->sig, err);
        }
        if (dir >= 0) {
            (void)close(dir);
        }
    }
    return rc;
}

static int restore_tree(struct apply_work *w, const struct apply_journal_change *c,
                        const struct scans *s, int farm, struct gm_err *err)
{
    int rc = 0;
    for (size_t i = s->now.entries.n; rc == 0 && i > 0; i--) {
        const struct apply_journal_entry *e = &s->now.entries.items[i - 1];
        rc = has_to_go(w, c, s, e) ? remove_path(w, e->path, err) : 0;
    }
    for (size_t i = 0; rc == 0 && i < s->before.entries.n; i++) {
        const struct apply_journal_entry *e = &s->before.entries.items[i];
        rc = entry_is_settled(c, s, e) ? 0 : bring_back(w, farm, i, e, err);
    }
    return rc < 0 ? rc : restore_times(w, &s->before, err);
}

int apply_scan_undo(struct apply_work *w, const struct apply_journal_change *c, struct gm_err *err)
{
    struct scans s;
    int rc = scans_load(w, c, &s, err);
    int farm = rc < 0 ? -1 : open_farm(w, c->n, false, err);
    rc = rc < 0 ? rc : farm < 0 ? farm : restore_tree(w, c, &s, farm, err);
    if (farm >= 0) {
        (void)close(farm);
    }
    /* Once for the whole tree, before the journal goes. */
    return rc < 0 || syncfs(w->place->base) == 0 ? rc : scan_said(err, w->place->base_path);
}
