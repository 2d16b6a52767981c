#include "image/layers.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pages.h"

enum {
    ENTRIES_MAX = 500000,
    DEPTH_MAX = PATH_MAX / 2,
    LINKS_MAX = 40,
    BLOCK = 1 << 20,
    WHOLE_MAX = 256 << 10, // files up to this size are kept whole where a part is wanted
    TEXT_MAX = 16 << 20,   // largest file that is kept because all of it is wanted
    WINDOW = 1 << 20,      // kept behind a page that is wanted
};

/* ------------------------------------------------------------------ the index */

static size_t node_slot(const struct image_layers *l, const struct image_layer_node *up,
                        const char *name)
{
    uint64_t h = str_hash(name, strlen(name)) ^ ((uint64_t)(uintptr_t)up * 0x9e3779b97f4a7c15u);
    return (h ^ h >> 29) & (l->cap - 1);
}

/* The child of this name, which may be a whiteout; NULL: there is none. */
static struct image_layer_node *child(const struct image_layers *l,
                                      const struct image_layer_node *up, const char *name)
{
    struct image_layer_node *n = l->table[node_slot(l, up, name)];
    while (n && (n->up != up || strcmp(n->name, name) != 0)) {
        n = n->chain;
    }
    return n && !n->gone ? n : NULL;
}

struct image_layer_node *layers_child(const struct image_layers *l,
                                      const struct image_layer_node *up, const char *name)
{
    return child(l, up, name);
}

static bool node_is_seen(const struct image_layer_node *n)
{
    return !n->gone && !n->whiteout;
}

static void nodes_grow(struct image_layers *l)
{
    struct image_layer_node **old = l->table;
    size_t n = l->cap;
    l->cap = n ? n * 2 : 4096;
    l->table = arena_array(l->arena, l->cap, sizeof(struct image_layer_node *));
    for (size_t i = 0; i < n; i++) {
        for (struct image_layer_node *k = old[i], *next; k; k = next) {
            size_t at = node_slot(l, k->up, k->name);
            next = k->chain;
            k->chain = l->table[at];
            l->table[at] = k;
        }
    }
}

/* Makes a node the first child of `up`. */
static void hang(struct image_layers *l, struct image_layer_node *up, struct image_layer_node *n)
{
    size_t at = node_slot(l, up, n->name);
    n->up = up;
    n->next = up->down;
    n->chain = l->table[at];
    up->down = n;
    l->table[at] = n;
}

/* The child of this name, a new folder if there is none; what was removed comes back empty. */
static struct image_layer_node *node_put(struct image_layers *l, struct image_layer_node *up,
                                         const char *name)
{
    struct image_layer_node *n = child(l, up, name);
    if (n) {
        return n;
    }
    if (l->n >= l->cap) {
        nodes_grow(l);
    }
    n = arena_alloc(l->arena, sizeof *n);
    *n = (struct image_layer_node){
        .name = arena_strdup(l->arena, name), .type = SNAP_DIR, .mode = 0755};
    hang(l, up, n);
    l->n++;
    return n;
}

/* Takes a node out of the table of names; its parent's list is the caller's. */
static void unchain(struct image_layers *l, const struct image_layer_node *n)
{
    struct image_layer_node **at = &l->table[node_slot(l, n->up, n->name)];
    while (*at != n) {
        at = &(*at)->chain;
    }
    *at = n->chain;
}

/* ------------------------------------------------------------------ one layer over the others */

/* Two folders become one, with what the upper one says of itself. */
static void node_take_folder(struct image_layer_node *lower, const struct image_layer_node *upper)
{
    lower->mode = upper->mode;
    lower->uid = upper->uid;
    lower->gid = upper->gid;
}

/* Lays the content of the folder `upper` over `lower`. Nodes that are new move; their children
 * stay theirs, and whiteouts among them are not seen (node_is_seen()). */
static void lay_over(struct image_layers *l, struct image_layer_node *lower,
                     struct image_layer_node *upper)
{
    for (struct image_layer_node *n = upper->down, *next; n; n = next) {
        next = n->next;
        unchain(l, n);
        if (n->gone) {
            continue;
        }
        struct image_layer_node *old = child(l, lower, n->name);
        if (old && old->type == SNAP_DIR && n->type == SNAP_DIR && !n->opaque) {
            l->n--;
            node_take_folder(old, n);
            lay_over(l, old, n);
            continue;
        }
        if (old) {
            old->gone = true;
        }
        if (node_is_seen(n)) {
            hang(l, lower, n);
        }
    }
}

/* ------------------------------------------------------------------ paths */

/* One entry's way through the layer that is read. */
struct walk {
    struct image_layers *l;
    struct arena scratch; // of one entry
    struct image_layer_node *top;
    uint16_t layer;
    int links;                  // that were followed
    bool dangling;              // one led nowhere
    VEC(const char *) replaced; // folders with an entry, below one that a later entry replaced
};

static struct image_layer_node *walk_descend(struct walk *w, struct image_layer_node *at,
                                             struct str path, bool make, unsigned depth);

/* Where a link leads to; NULL: nowhere, or to no folder. */
static struct image_layer_node *walk_follow(struct walk *w, struct image_layer_node *link,
                                            unsigned depth)
{
    struct str target = str_of(link->link);
    bool from_top = target.n && target.s[0] == '/';
    w->dangling |= ++w->links > LINKS_MAX;
    return w->dangling ? NULL : walk_descend(w, from_top ? w->top : link->up, target, false, depth);
}

/* The folder that a path leads to inside the layer, with `make` made where it is not there; NULL:
 * there is none, it leads through something that is no folder, or it is too deep. */
static struct image_layer_node *walk_descend(struct walk *w, struct image_layer_node *at,
                                             struct str path, bool make, unsigned depth)
{
    struct str rest = path;
    while (at && rest.n) {
        struct str part = str_cut(&rest, '/');
        if (part.n == 0 || str_is(part, ".")) {
            continue;
        }
        if (++depth > DEPTH_MAX) {
            return NULL;
        }
        if (str_is(part, "..")) {
            at = at->up ? at->up : at;
            continue;
        }
        const char *name = str_dup(&w->scratch, part);
        struct image_layer_node *next = make ? node_put(w->l, at, name) : child(w->l, at, name);
        w->dangling |= !next;
        next = next && next->type == SNAP_LINK ? walk_follow(w, next, depth) : next;
        at = next && next->type == SNAP_DIR ? next : NULL;
    }
    return at;
}

/* An entry's name without ".", ".." and empty parts: engines clean names by their text alone,
 * before any link (Go, path/filepath: Clean). */
struct clean_name {
    struct str folder;
    const char *last; // "": the top itself
    bool climbs;      // it leads above the top
    bool too_long;    // for any file system
};

static struct clean_name clean_name(struct arena *a, const char *raw)
{
    struct clean_name c = {0};
    char *to = arena_strdup(a, raw);
    size_t n = 0;
    struct str rest = str_of(raw);
    while (rest.n) {
        struct str part = str_cut(&rest, '/');
        if (str_is(part, "..")) {
            c.climbs |= n == 0;
            while (n && to[--n] != '/') {
            }
        } else if (part.n && !str_is(part, ".")) {
            if (n) {
                to[n++] = '/';
            }
            memcpy(to + n, part.s, part.n);
            n += part.n;
            c.too_long |= part.n > NAME_MAX || n >= PATH_MAX;
        }
    }
    size_t slash = n;
    while (slash && to[slash - 1] != '/') {
        slash--;
    }
    c.last = arena_strndup(a, to + slash, n - slash);
    c.folder = (struct str){to, slash ? slash - 1 : 0};
    return c;
}

static struct image_layer_node *find_below(const struct image_layers *l,
                                           struct image_layer_node *at, const char *path)
{
    struct arena scratch;
    struct str rest = str_of(path);
    arena_init(&scratch, 0, NULL, NULL);
    while (at && rest.n) {
        struct str part = str_cut(&rest, '/');
        at = part.n ? (at->type == SNAP_DIR ? child(l, at, str_dup(&scratch, part)) : NULL) : at;
    }
    arena_release(&scratch);
    return at && node_is_seen(at) ? at : NULL;
}

struct image_layer_node *image_layers_find(const struct image_layers *l, const char *path)
{
    return find_below(l, l->root, path);
}

/* ------------------------------------------------------------------ entries */

static enum snap_type entry_type(const struct archive_entry *e)
{
    switch (archive_entry_filetype((struct archive_entry *)(uintptr_t)e)) {
    case AE_IFDIR: return SNAP_DIR;
    case AE_IFREG: return SNAP_FILE;
    case AE_IFLNK: return SNAP_LINK;
    case AE_IFCHR: return SNAP_CHAR;
    case AE_IFBLK: return SNAP_BLOCK;
    default: return SNAP_OTHER;
    }
}

/* What engines say of an entry that they cannot unpack; they refuse the image for it. */
__attribute__((format(GM_PRINTF, 2, 3))) static void refuse(struct walk *w, const char *format, ...)
{
    va_list arguments;
    w->l->n_refused++;
    if (!w->l->refused) {
        va_start(arguments, format);
        w->l->refused = arena_printf(w->l->arena, "Layer %u %s.", w->layer + 1u,
                                     arena_vprintf(&w->scratch, format, arguments));
        va_end(arguments);
    }
}

static const char opaque_name[] = ".wh..wh..opq";

static void take_whiteout(struct walk *w, struct image_layer_node *folder, const char *name)
{
    static const char prefix[] = ".wh.";
    if (strcmp(name, opaque_name) == 0) {
        folder->opaque = true;
        return;
    }
    const char *hidden = name + sizeof prefix - 1;
    if (!*hidden || child(w->l, folder, hidden)) {
        refuse(w, "removes %s, which it has itself", str_printable(&w->scratch, hidden));
        return;
    }
    struct image_layer_node *n = node_put(w->l, folder, hidden);
    n->type = SNAP_CHAR;
    n->whiteout = true;
}

/* A hard link names an entry before it, of this layer. */
static const struct image_layer_node *linked(struct walk *w, const char *raw)
{
    struct clean_name c = clean_name(&w->scratch, raw);
    struct image_layer_node *up = *c.last ? walk_descend(w, w->top, c.folder, false, 0) : NULL;
    const struct image_layer_node *n = up ? child(w->l, up, c.last) : NULL;
    return n && n->type != SNAP_DIR ? n : NULL;
}

static void walk_take_content(struct walk *w, struct image_layer_node *n, struct archive_entry *e,
                              struct image_layer_file *content)
{
    const char *link = archive_entry_symlink(e);
    n->type = (uint8_t)entry_type(e);
    if (n->type == SNAP_FILE) {
        n->file = content;
    } else if (n->type == SNAP_LINK) {
        n->link = link ? arena_strdup(w->l->arena, link) : "";
    } else if (n->type == SNAP_CHAR || n->type == SNAP_BLOCK) {
        n->major = (unsigned)archive_entry_rdevmajor(e);
        n->minor = (unsigned)archive_entry_rdevminor(e);
        n->whiteout = n->type == SNAP_CHAR && n->major == 0 && n->minor == 0;
    }
    n->mode = (uint16_t)(archive_entry_mode(e) & 07777);
    n->uid = (uid_t)archive_entry_uid(e);
    n->gid = (gid_t)archive_entry_gid(e);
}

static void note_folders(struct walk *w, const struct image_layer_node *folder, const char *path)
{
    for (const struct image_layer_node *n = folder->down; n; n = n->next) {
        const char *own =
            n->type == SNAP_DIR && !n->gone ? path_join(w->l->arena, path, n->name) : NULL;
        if (own && n->named) {
            VEC_PUSH(w->l->arena, &w->replaced, own);
        }
        if (own) {
            note_folders(w, n, own);
        }
    }
}

/* Engines set the times of all folders of a layer at its end (containers/storage, Unpack()). */
static void check_replaced(struct walk *w)
{
    arena_init(&w->scratch, 0, NULL, NULL);
    for (size_t i = 0; i < w->replaced.n; i++) {
        struct clean_name c = clean_name(&w->scratch, w->replaced.items[i]);
        const struct image_layer_node *up = walk_descend(w, w->top, c.folder, false, 0);
        if (!up || !child(w->l, up, c.last)) {
            refuse(w, "has the folder %s, and then something else in its place",
                   str_printable(&w->scratch, w->replaced.items[i]));
        }
    }
    arena_release(&w->scratch);
}

/* An entry on its way into the index. */
struct entry {
    struct archive_entry *e;
    struct image_layer_file *file; // NULL: it is no regular file
    const char *shown;
    struct clean_name name;
    struct image_layer_node *up; // where it comes
    bool plain;                  // its name is the place itself: no link led there, nothing climbs
};

/* Removes what an earlier entry has put there, unless both are folders. */
static void make_way(struct walk *w, const struct entry *n, bool is_folder)
{
    struct image_layer_node *old = child(w->l, n->up, n->name.last);
    if (!old || (old->type == SNAP_DIR && is_folder)) {
        return;
    }
    old->gone = true;
    if (old->type == SNAP_DIR) {
        const char *folder = str_dup(&w->scratch, n->name.folder);
        note_folders(w, old, path_join(&w->scratch, folder, n->name.last));
    }
}

static void take_hard_link(struct walk *w, const struct entry *entry, const char *to)
{
    make_way(w, entry, false);
    const struct image_layer_node *from = linked(w, to);
    if (!from) {
        refuse(w, "has the hard link %s to %s, which is not in the same layer", entry->shown,
               str_printable(&w->scratch, to));
        return;
    }
    struct image_layer_node *n = node_put(w->l, entry->up, entry->name.last), copy = *from;
    copy.up = n->up;
    copy.next = n->next;
    copy.chain = n->chain;
    copy.name = n->name;
    copy.named = entry->plain;
    *n = copy;
}

/* Engines keep a list of the names of a layer and refuse a second entry of a name
 * (vbatts/tar-split, tar/storage: ErrDuplicatePath). A name that a link leads to is another name.
 */
static bool is_second(struct walk *w, const struct entry *n)
{
    const struct image_layer_node *old = child(w->l, n->up, n->name.last);
    return old && old->named && n->plain;
}

static void place_entry(struct walk *w, const struct entry *entry)
{
    const char *hard = archive_entry_hardlink(entry->e);
    if (starts_with(entry->name.last, ".wh.")) {
        take_whiteout(w, entry->up, entry->name.last);
    } else if (is_second(w, entry)) {
        refuse(w, "has two entries called %s", entry->shown);
    } else if (hard) {
        take_hard_link(w, entry, hard);
    } else {
        make_way(w, entry, entry_type(entry->e) == SNAP_DIR);
        struct image_layer_node *n = node_put(w->l, entry->up, entry->name.last);
        walk_take_content(w, n, entry->e, entry->file);
        n->named = entry->plain;
    }
}

/* Whether a whiteout without a folder does nothing: below a file there is nothing to be removed,
 * and a file is marked as opaque in vain. */
static bool is_idle(struct walk *w, const struct entry *n)
{
    if (strcmp(n->name.last, opaque_name) != 0) {
        return starts_with(n->name.last, ".wh.") && !w->dangling;
    }
    struct clean_name folder = clean_name(&w->scratch, str_dup(&w->scratch, n->name.folder));
    const struct image_layer_node *up = walk_descend(w, w->top, folder.folder, false, 0);
    const struct image_layer_node *file = up ? child(w->l, up, folder.last) : NULL;
    return file && file->type != SNAP_LINK;
}

static void walk_take_entry(struct walk *w, struct archive_entry *e, struct image_layer_file *file)
{
    const char *raw = archive_entry_pathname(e) ? archive_entry_pathname(e) : "";
    struct entry n = {e,    file, str_printable(&w->scratch, raw), clean_name(&w->scratch, raw),
                      NULL, false};
    w->l->n_outside += n.name.climbs;
    w->l->n_unnamed += !archive_entry_pathname(e);
    if (n.name.too_long) {
        refuse(w, "has the name %.60s..., which is too long for a file system", n.shown);
    } else if (*n.name.last) { // else it is the top
        w->links = 0;
        w->dangling = false;
        n.up = walk_descend(w, w->top, n.name.folder, true, 0);
        n.plain = w->links == 0 && raw[0] != '/' && !n.name.climbs;
        if (n.up) {
            place_entry(w, &n);
        } else if (!is_idle(w, &n)) {
            refuse(w, "has %s below something that is not a folder", n.shown);
        }
    }
}

/* ------------------------------------------------------------------ reading a layer */

struct source {
    struct image_layers *l;
    const struct image_layer_place *place;
    uint64_t at;
    unsigned char *block;
    struct image_digest_run digest; // where it is checked, nothing is skipped
};

/* The same where the archive is compressed as a whole. */
static la_ssize_t read_outer(struct archive *ar, struct source *s, uint64_t left, const void **ret)
{
    struct gm_err err;
    size_t n = 0;
    if (left && image_outer_read(s->place->outer, s->place->offset + s->at, ret, &n, &err) < 0) {
        archive_set_error(ar, EIO, "%s", err.text);
        return -1;
    }
    n = n < left ? n : (size_t)left;
    s->at += n;
    image_digest_take(&s->digest, *ret, n);
    return (la_ssize_t)n;
}

static la_ssize_t read_feed(struct archive *ar, struct source *s, const void **ret)
{
    size_t n = 0;
    if (!s->place->feed->next(s->place->feed->arg, ret, &n)) {
        archive_set_error(ar, EIO, "it cannot be put together");
        return -1;
    }
    s->at += n;
    return (la_ssize_t)n;
}

static void tell_progress(struct image_layers *l, uint64_t n)
{
    l->done += n;
    if (l->progress && l->to_read) {
        l->progress(l->progress_arg, l->done < l->to_read ? l->done : l->to_read, l->to_read);
    }
}

static la_ssize_t read_block(struct archive *ar, void *arg, const void **ret)
{
    struct source *s = arg;
    uint64_t left = s->place->size - s->at;
    ssize_t n;
    if (s->place->outer) {
        return read_outer(ar, s, left, ret);
    }
    if (s->place->feed) {
        return read_feed(ar, s, ret);
    }
    do {
        n = pread(s->place->fd, s->block, left < BLOCK ? (size_t)left : BLOCK,
                  (off_t)(s->place->offset + s->at));
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        archive_set_error(ar, errno, "%s", strerror(errno));
        return -1;
    }
    s->at += (uint64_t)n;
    tell_progress(s->l, (uint64_t)n);
    image_digest_take(&s->digest, s->block, (size_t)n);
    *ret = s->block;
    return n;
}

static la_int64_t skip_block(struct archive *ar, void *arg, la_int64_t wanted)
{
    struct source *s = arg;
    (void)ar;
    uint64_t left = s->place->size - s->at;
    uint64_t n = wanted > 0 && (uint64_t)wanted < left ? (uint64_t)wanted : left;
    n = s->digest.wanted || s->place->feed ? 0 : n;
    s->at += n;
    if (!s->place->outer) {
        tell_progress(s->l, n);
    }
    return (la_int64_t)n;
}

static int archive_broken(struct gm_err *err, struct archive *ar)
{
    const char *why = archive_error_string(ar);
    return gm_err_set(err, GM_ERR_FORMAT, "a layer is damaged: %s", why ? why : "no tar archive");
}

static struct archive *open_layer(struct source *s, struct gm_err *err)
{
    struct archive *ar = archive_read_new();
    if (!ar) {
        (void)gm_err_set(err, GM_ERR_LIMIT, "there is no memory for a layer");
        return NULL;
    }
    (void)archive_read_support_format_tar(ar); // each is compiled in
    (void)archive_read_support_filter_gzip(ar);
    (void)archive_read_support_filter_zstd(ar);
    (void)archive_read_set_read_callback(ar, read_block);
    (void)archive_read_set_skip_callback(ar, skip_block);
    (void)archive_read_set_callback_data(ar, s);
    if (archive_read_open1(ar) != ARCHIVE_OK) {
        (void)archive_broken(err, ar);
        (void)archive_read_free(ar);
        return NULL;
    }
    return ar;
}

/* Calls `each` for every entry; `each` may read its content. */
struct pass {
    struct walk walk;
    uint64_t before; // bytes unpacked when the layer began
    uint32_t number;
    size_t next; // of the wanted files
    bool done;   // there is nothing more to be read
    bool compressed;
    int (*each)(struct pass *p, struct archive *ar, struct archive_entry *e, struct gm_err *err);
};

static int account(struct pass *p, struct archive *ar, struct gm_err *err)
{
    struct image_layers *l = p->walk.l;
    l->unpacked = p->before + (uint64_t)archive_filter_bytes(ar, 0);
    return image_outer_bound(l->unpacked - l->pass_from, l->unpacked, l->packed, err);
}

/* The next bytes of an entry: 1; 0 at its end; an error. */
static int pass_next_bytes(struct pass *p, struct archive *ar, const void **ret, size_t *ret_n,
                           uint64_t *ret_offset, struct gm_err *err)
{
    la_int64_t offset = 0;
    int step = archive_read_data_block(ar, ret, ret_n, &offset);
    *ret_offset = (uint64_t)offset;
    if (step != ARCHIVE_OK) {
        return step == ARCHIVE_EOF ? 0 : archive_broken(err, ar);
    }
    int rc = account(p, ar, err);
    return rc < 0 ? rc : 1;
}

/* Unpacks what nobody wanted of an entry here, where there is a bound, and not in the library. */
static int pass_over_member(struct pass *p, struct archive *ar, struct gm_err *err)
{
    const void *bytes;
    size_t n;
    uint64_t offset;
    int rc = 1;
    while (p->compressed && !p->done && rc > 0) {
        rc = pass_next_bytes(p, ar, &bytes, &n, &offset, err);
    }
    return rc < 0 ? rc : account(p, ar, err);
}

static int run_pass(struct pass *p, struct archive *ar, struct gm_err *err)
{
    struct image_layers *l = p->walk.l;
    struct archive_entry *e;
    int rc = 0, step;
    p->before = l->unpacked;
    while (rc == 0 && !p->done && (step = archive_read_next_header(ar, &e)) != ARCHIVE_EOF) {
        if (step < ARCHIVE_WARN) {
            return archive_broken(err, ar);
        }
        if (++p->number > ENTRIES_MAX || l->n > ENTRIES_MAX) {
            return gm_err_set(err, GM_ERR_LIMIT, "the image has more than %d files", ENTRIES_MAX);
        }
        p->compressed = l->places.items[p->walk.layer].outer ||
                        archive_filter_code(ar, 0) != ARCHIVE_FILTER_NONE;
        arena_init(&p->walk.scratch, 0, NULL, NULL);
        rc = p->each(p, ar, e, err);
        arena_release(&p->walk.scratch);
        rc = rc < 0 ? rc : pass_over_member(p, ar, err);
    }
    return rc;
}

/* What lies behind the end of the archive counts as well; then the digest is known. */
static int check_digest(struct source *s, struct archive *ar, struct gm_err *err)
{
    const struct image_digest *d = s->digest.wanted;
    const void *bytes;
    la_ssize_t n = 1;
    if (!d || (d->of_unpacked && archive_filter_code(ar, 0) != ARCHIVE_FILTER_NONE)) {
        return 0;
    }
    while (n > 0) {
        n = read_block(ar, s, &bytes);
    }
    return n < 0 ? archive_broken(err, ar)
                 : image_digest_end(&s->digest, s->l->arena, s->place->name, err);
}

static int read_layer(struct pass *p, const struct image_layer_place *place,
                      const struct image_digest *digest, struct gm_err *err)
{
    struct source s = {.l = p->walk.l, .place = place, .block = malloc(BLOCK)};
    image_digest_begin(&s.digest, digest);
    struct archive *ar = s.block ? open_layer(&s, err) : NULL;
    int rc = ar ? 0 : s.block ? err->code : gm_err_set(err, GM_ERR_LIMIT, "out of memory");
    if (ar) {
        rc = run_pass(p, ar, err);
        rc = rc < 0 ? rc : check_digest(&s, ar, err);
        if (rc == GM_ERR_FORMAT && place->name && !strstr(err->text, place->name)) {
            rc = gm_err_wrap(err, "%.150s", str_printable(p->walk.l->arena, place->name));
        }
        (void)archive_read_free(ar); // what it says after reading does not matter
    }
    free(s.block);
    return rc;
}

/* ------------------------------------------------------------------ the first pass */

static int layers_keep_whole(struct image_layers *l, struct image_layer_file *f, struct archive *ar,
                             struct gm_err *err)
{
    char *data = arena_alloc(l->snap.arena, (size_t)f->size + 1);
    la_ssize_t n = archive_read_data(ar, data, (size_t)f->size);
    if (n < 0 || (uint64_t)n != f->size) {
        return archive_broken(err, ar);
    }
    f->held->data = (struct str){data, (size_t)n};
    f->held->read = true;
    return 0;
}

static bool more_of_kept(const void *arg, uint64_t offset, size_t n, unsigned char *to)
{
    return image_kept_read(arg, offset, n, to);
}

static bool gpu_code_of_kept(const void *arg, uint64_t offset, size_t n, unsigned char *to)
{
    return image_kept_gpu_code(arg, offset, n, to);
}

static struct pages *pages_of(struct image_layers *l, const struct image_layer_file *f)
{
    struct pages *p = arena_alloc(l->snap.arena, sizeof *p);
    p->size = (size_t)f->size;
    p->touched = arena_alloc(l->snap.arena, pages_bitmap_bytes(p->size));
    if (f->held->kept) {
        p->more = more_of_kept;
        p->more_arg = f->held->kept;
    }
    return p;
}

/* Copies what of a block lies in a range. */
static void copy_part(const struct pages_range *r, const void *block, size_t n, uint64_t offset)
{
    uint64_t from = offset > r->offset ? offset : r->offset;
    uint64_t to = offset + n < r->offset + r->n ? offset + n : r->offset + r->n;
    if (from < to) {
        memcpy((unsigned char *)(uintptr_t)r->bytes + (from - r->offset),
               (const unsigned char *)block + (from - offset), (size_t)(to - from));
    }
}

/* Reads the content of an entry into ranges, which hold nothing yet. */
static int pass_read_ranges(struct pass *p, struct archive *ar, const struct pages *wanted,
                            struct gm_err *err)
{
    const void *block;
    size_t n;
    uint64_t offset;
    int rc;
    while ((rc = pass_next_bytes(p, ar, &block, &n, &offset, err)) > 0) {
        for (size_t i = 0; i < wanted->n_ranges; i++) {
            copy_part(&wanted->ranges[i], block, n, offset);
        }
    }
    return rc;
}

/* A file's bytes, for image_keep_file(). */
struct entry_source {
    struct pass *pass;
    struct archive *ar;
};

static int next_block(void *arg, const void **ret, size_t *ret_n, uint64_t *ret_offset,
                      struct gm_err *err)
{
    const struct entry_source *s = arg;
    return pass_next_bytes(s->pass, s->ar, ret, ret_n, ret_offset, err);
}

/* Of a compressed layer what nearly every check wants is kept at once. */
static int keep_early(struct pass *p, struct image_layer_file *f, const char *path,
                      struct archive *ar, struct gm_err *err)
{
    struct image_layers *l = p->walk.l;
    struct entry_source entry = {p, ar};
    struct image_keep_source from = {next_block, &entry};
    struct image_kept *kept = NULL;
    int rc = image_keep_file(&l->keep, path, f->size, &from, &kept, err);
    if (kept) {
        f->held = arena_alloc(l->arena, sizeof *f->held);
        f->held->kept = kept;
    }
    return rc;
}

static int index_entry(struct pass *p, struct archive *ar, struct archive_entry *e,
                       struct gm_err *err)
{
    struct image_layers *l = p->walk.l;
    const char *path = archive_entry_pathname(e);
    struct image_layer_file *file = NULL;
    int rc = 0;
    if (entry_type(e) == SNAP_FILE && !archive_entry_hardlink(e)) {
        const struct image_layer_place *place = &l->places.items[p->walk.layer];
        int64_t size = archive_entry_size(e);
        file = arena_alloc(l->arena, sizeof *file);
        *file = (struct image_layer_file){
            .size = size > 0 ? (uint64_t)size : 0, .layer = p->walk.layer, .number = p->number};
        int64_t at = archive_filter_bytes(ar, 0);
        bool plain = !p->compressed && archive_entry_sparse_count(e) == 0 && at >= 0 &&
                     (uint64_t)at <= place->size && file->size <= place->size - (uint64_t)at;
        file->in_place = plain;
        file->offset = plain ? place->offset + (uint64_t)at : 0;
        rc = plain || !path || archive_entry_sparse_count(e) ? 0
                                                             : keep_early(p, file, path, ar, err);
    }
    walk_take_entry(&p->walk, e, file);
    return rc;
}

void image_layers_added(struct image_layers *l)
{
    image_keep_end(&l->keep);
}

/* The bytes of the archive that a layer brings: none where another layer is the same. */
static uint64_t packed_bytes(const struct image_layers *l, const struct image_layer_place *place)
{
    for (size_t i = 0; i < l->places.n; i++) {
        const struct image_layer_place *other = &l->places.items[i];
        if (place->outer || (other->ino == place->ino && other->offset == place->offset)) {
            return 0;
        }
    }
    return place->outer ? place->outer->size : place->size;
}

int layers_read(struct image_layers *l, const struct image_layer_place *place,
                struct image_layer_node *ret_top, struct gm_err *err)
{
    l->packed += packed_bytes(l, place);
    VEC_PUSH(l->arena, &l->places, *place);
    *ret_top = (struct image_layer_node){.name = "", .type = SNAP_DIR};
    struct pass p = {.walk = {.l = l, .top = ret_top, .layer = (uint16_t)(l->places.n - 1)},
                     .each = index_entry};
    int rc = read_layer(&p, place, &place->digest, err);
    if (rc == 0) {
        check_replaced(&p.walk);
    }
    return rc;
}

int image_layers_add(struct image_layers *l, const struct image_layer_place *place,
                     struct gm_err *err)
{
    struct image_layer_node top;
    int rc = layers_read(l, place, &top, err);
    if (rc == 0) {
        lay_over(l, l->root, &top);
    }
    return rc;
}

/* ------------------------------------------------------------------ layers that are folders */

/* Whether the folder hides what earlier layers have in it. Where attributes cannot be read it
 * counts as not hiding, as it does for an engine without the right to. */
static bool is_opaque(const struct image_layer_place *place, const char *path,
                      struct arena *scratch)
{
    static const char *const names[] = {"trusted.overlay.opaque", "user.overlay.opaque"};
    const char *full = arena_printf(scratch, "%s/%s", place->folder, path);
    char value[2];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (root_attribute(place->root, full, names[i], value, sizeof value) == 1 &&
            value[0] == 'y') {
            return true;
        }
    }
    return false;
}

static struct image_layer_file *file_of_folder(struct walk *w, const char *path, uint64_t size)
{
    struct image_layer_file *f = arena_alloc(w->l->arena, sizeof *f);
    *f = (struct image_layer_file){
        .size = size, .layer = w->layer, .in_place = true, .path = arena_strdup(w->l->arena, path)};
    return f;
}

/* One name of a layer's folder as the entry of an archive would be. Its whiteouts come as what they
 * are: character devices without a number. */
static void walk_take_name(struct walk *w, const struct image_layer_place *place, const char *path,
                           const struct stat *st, struct archive_entry *e)
{
    char *link = NULL;
    (void)archive_entry_clear(e);
    archive_entry_copy_stat(e, st);
    archive_entry_set_pathname(e, path);
    if (S_ISLNK(st->st_mode) &&
        root_readlink(place->root, &w->scratch, path_join(&w->scratch, place->folder, path),
                      &link) == 0) {
        archive_entry_set_symlink(e, link);
    }
    walk_take_entry(w, e,
                    S_ISREG(st->st_mode) ? file_of_folder(w, path, (uint64_t)st->st_size) : NULL);
    struct image_layer_node *n = S_ISDIR(st->st_mode) ? find_below(w->l, w->top, path) : NULL;
    if (n) {
        n->opaque = is_opaque(place, path, &w->scratch);
    }
}

struct folder_walk {
    struct walk walk;
    const struct image_layer_place *place;
    struct archive_entry *entry;
    uint32_t n;
    struct gm_err *err;
};

static int walk_folder(struct folder_walk *f, const char *path, unsigned depth)
{
    struct image_layers *l = f->walk.l;
    struct arena names_arena;
    struct root_dir names;
    int rc = 0;
    arena_init(&names_arena, 0, NULL, NULL);
    const char *folder = *path ? path_join(&names_arena, f->place->folder, path) : f->place->folder;
    int got = root_list(f->place->root, &names_arena, folder, ENTRIES_MAX, NULL, &names);
    if (got < 0) {
        rc = gm_err_set(f->err, GM_ERR_LOOK, "%s: %s", folder, strerror(-got));
    }
    for (size_t i = 0; rc == 0 && i < names.n; i++) {
        const char *child_path =
            *path ? path_join(&names_arena, path, names.names[i]) : names.names[i];
        struct stat st;
        if (++f->n > ENTRIES_MAX || l->n > ENTRIES_MAX || depth > DEPTH_MAX) {
            rc = gm_err_set(f->err, GM_ERR_LIMIT, "the image has more than %d files", ENTRIES_MAX);
        } else if (root_lstat(f->place->root, path_join(&names_arena, f->place->folder, child_path),
                              &st) == 0) {
            arena_init(&f->walk.scratch, 0, NULL, NULL);
            walk_take_name(&f->walk, f->place, child_path, &st, f->entry);
            arena_release(&f->walk.scratch);
            rc = S_ISDIR(st.st_mode) ? walk_folder(f, child_path, depth + 1) : 0;
        }
    }
    arena_release(&names_arena);
    return rc;
}

int layers_read_folder(struct image_layers *l, struct root *r, const char *folder,
                       struct image_layer_node *ret_top, struct gm_err *err)
{
    VEC_PUSH(l->arena, &l->places,
             (struct image_layer_place){.root = r, .folder = folder, .fd = -1});
    *ret_top = (struct image_layer_node){.name = "", .type = SNAP_DIR};
    struct folder_walk f = {.walk = {.l = l, .top = ret_top, .layer = (uint16_t)(l->places.n - 1)},
                            .place = &l->places.items[l->places.n - 1],
                            .entry = archive_entry_new(),
                            .err = err};
    if (!f.entry) {
        return gm_err_set(err, GM_ERR_LIMIT, "out of memory");
    }
    int rc = walk_folder(&f, "", 0);
    archive_entry_free(f.entry);
    return rc;
}

int image_layers_add_folder(struct image_layers *l, struct root *r, const char *folder,
                            struct gm_err *err)
{
    struct image_layer_node top;
    int rc = layers_read_folder(l, r, folder, &top, err);
    if (rc == 0) {
        lay_over(l, l->root, &top);
    }
    return rc;
}

/* ------------------------------------------------------------------ further passes */

typedef VEC(struct pages_range) layer_ranges;

static void drop_ranges(struct image_layer_file *f)
{
    struct pages *p = f->held->pages;
    for (size_t i = 0; i < p->n_ranges; i++) {
        free((void *)(uintptr_t)p->ranges[i].bytes); // of keep_pages()
    }
    p->n_ranges = 0;
}

/* Appends the range of the pages from `first` to `end`, which holds nothing yet. */
static bool add_range(struct image_layers *l, struct image_layer_file *f, layer_ranges *ranges,
                      uint64_t first, uint64_t end)
{
    size_t unit = pages_unit();
    uint64_t last = end * unit < f->size ? end * unit : f->size;
    struct pages_range r = {first * unit, (size_t)(last - first * unit), NULL};
    unsigned char *bytes = calloc(1, r.n);
    r.bytes = bytes;
    if (bytes) {
        VEC_PUSH(l->snap.arena, ranges, r);
    }
    return bytes != NULL;
}

static bool is_kept(const struct image_layer_file *f, uint64_t page)
{
    uint64_t at = page * pages_unit(), left = f->size - at;
    return f->held->kept &&
           image_kept_read(f->held->kept, at, left < pages_unit() ? (size_t)left : pages_unit(),
                           NULL);
}

/* The wanted pages of a large file, and a window behind each, become ranges. */
static int keep_pages(struct pass *pass, struct image_layer_file *f, struct archive *ar,
                      struct gm_err *err)
{
    struct image_layers *l = pass->walk.l;
    struct pages *p = f->held->pages;
    layer_ranges ranges = {0};
    size_t unit = pages_unit(), left = 0; // left: of the window
    uint64_t n_pages = (f->size + unit - 1) / unit, first = 0;
    bool good = true;
    drop_ranges(f);
    for (uint64_t i = 0; good && i < n_pages; i++) {
        bool was_in = left > 0, touched = p->touched[i / 8] >> (i & 7) & 1 && !is_kept(f, i);
        left = touched ? WINDOW / unit + 1 : left - was_in;
        if (left && !was_in) {
            first = i;
        } else if (!left && was_in) {
            good = add_range(l, f, &ranges, first, i);
        }
    }
    good = good && (!left || add_range(l, f, &ranges, first, n_pages));
    p->ranges = ranges.items;
    p->n_ranges = ranges.n;
    p->missing = false;
    return good ? pass_read_ranges(pass, ar, p, err)
                : gm_err_set(err, GM_ERR_LIMIT, "out of memory");
}

static int fetch_entry(struct pass *p, struct archive *ar, struct archive_entry *e,
                       struct gm_err *err)
{
    struct image_layers *l = p->walk.l;
    (void)e;
    if (p->next >= l->wanted.n || l->wanted.items[p->next]->layer != p->walk.layer ||
        l->wanted.items[p->next]->number != p->number) {
        return 0;
    }
    struct image_layer_file *f = l->wanted.items[p->next++];
    p->done = p->next >= l->wanted.n || l->wanted.items[p->next]->layer != p->walk.layer;
    return f->held->all_wanted ? layers_keep_whole(l, f, ar, err) : keep_pages(p, f, ar, err);
}

static int by_place(const void *x, const void *y)
{
    const struct image_layer_file *const *a = x, *const *b = y;
    return (*a)->layer != (*b)->layer     ? ((*a)->layer < (*b)->layer ? -1 : 1)
           : (*a)->number != (*b)->number ? ((*a)->number < (*b)->number ? -1 : 1)
                                          : 0;
}

bool image_layers_want_more(struct image_layers *l)
{
    for (size_t i = 0; i < l->paged.n; i++) {
        struct image_layer_file *f = l->paged.items[i];
        if (f->held->pages->missing && !f->wanted) {
            f->wanted = true;
            VEC_PUSH(l->arena, &l->wanted, f);
        }
    }
    return l->wanted.n > 0;
}

/* The next pass begins. */
static void begin_pass(struct image_layers *l)
{
    l->pass_from = l->unpacked;
    l->done = l->to_read = 0;
    for (size_t i = 0; i < l->wanted.n; i++) {
        if (i == 0 || l->wanted.items[i]->layer != l->wanted.items[i - 1]->layer) {
            l->to_read += l->places.items[l->wanted.items[i]->layer].size;
        }
    }
}

int image_layers_fetch(struct image_layers *l, struct gm_err *err)
{
    int rc = 0;
    qsort(l->wanted.items, l->wanted.n, sizeof *l->wanted.items, by_place);
    begin_pass(l);
    for (size_t i = 0; rc == 0 && i < l->wanted.n;) {
        uint16_t layer = l->wanted.items[i]->layer;
        struct pass p = {.walk = {.l = l, .layer = layer}, .each = fetch_entry, .next = i};
        rc = read_layer(&p, &l->places.items[layer], NULL, err);
        if (rc == 0 && p.next < l->wanted.n && l->wanted.items[p.next]->layer == layer) {
            rc = gm_err_set(err, GM_ERR_LOOK, "the image was changed while it was read");
        }
        i = p.next;
    }
    for (size_t i = 0; i < l->wanted.n; i++) {
        l->wanted.items[i]->wanted = false;
    }
    l->wanted.n = 0;
    l->snap.misses.n = l->snap.n_misses = 0;
    return rc;
}

/* ------------------------------------------------------------------ as a root reads it */

static int nodes_by_name(const void *x, const void *y)
{
    return strcmp(((const struct snap_name *)x)->name, ((const struct snap_name *)y)->name);
}

static void fill_folder(struct image_layers *l, struct snap_node *n,
                        const struct image_layer_node *dir)
{
    for (const struct image_layer_node *k = dir->down; k; k = k->next) {
        if (node_is_seen(k)) {
            VEC_PUSH(l->snap.arena, &n->names, (struct snap_name){.name = k->name});
        }
    }
    if (n->names.n) {
        qsort(n->names.items, n->names.n, sizeof *n->names.items, nodes_by_name);
    }
    n->list_rc = 0;
}

/* Who starts in an image is root, unless it says otherwise: modes keep out nobody but from
 * executing what is not executable. */
static void fill_answers(struct snap_node *n)
{
    for (int mode = 0; mode < 8; mode++) {
        bool runs = n->type == SNAP_DIR || (n->mode & 0111);
        n->access[mode] = mode & X_OK && !runs ? -EACCES : 0;
    }
    n->open_rc = 0;
    n->capabilities = 0;
}

static void fill_by_type(struct image_layers *l, struct snap_node *n,
                         const struct image_layer_node *from)
{
    switch (n->type) {
    case SNAP_DIR: fill_folder(l, n, from); break;
    case SNAP_FILE:
        n->size = from->file->size;
        n->ino = (ino_t)(uintptr_t)from->file; // one for all hard links
        break;
    case SNAP_LINK:
        n->link_rc = 0;
        n->link = from->link;
        break;
    case SNAP_CHAR:
    case SNAP_BLOCK:
        n->major = from->major;
        n->minor = from->minor;
        break;
    case SNAP_ERROR:
    case SNAP_OTHER: break;
    }
}

static bool layers_fill(void *arg, struct snap *s, const char *path)
{
    struct image_layers *l = arg;
    const struct image_layer_node *from = image_layers_find(l, path);
    struct snap_node *n = snap_put(s, arena_strdup(s->arena, path));
    n->error = from ? 0 : -ENOENT;
    if (!from) {
        return true;
    }
    n->type = (enum snap_type)from->type;
    n->mode = from->mode;
    n->uid = from->uid;
    n->gid = from->gid;
    n->dev = 1;
    n->ino = (ino_t)(uintptr_t)from;
    fill_by_type(l, n, from);
    fill_answers(n);
    return true;
}

/* The bytes of a file in a layer that is not compressed; NULL: they cannot be had. */
static const char *in_place(struct image_layers *l, const struct image_layer_file *f)
{
    struct image_layer_place *place = &l->places.items[f->layer];
    if (place->root) {
        struct image_layer_map m = {NULL, 0};
        struct stat st;
        const char *path = path_join(l->arena, place->folder, f->path);
        if (root_map(place->root, path, &m.data, &m.size, &st) < 0 || m.size != f->size) {
            return NULL;
        }
        VEC_PUSH(l->arena, &l->maps, m);
        return m.data;
    }
    if (!place->base) {
        size_t unit = pages_unit(), skip = (size_t)(place->offset % unit);
        void *base = mmap(NULL, (size_t)place->size + skip, PROT_READ, MAP_PRIVATE, place->fd,
                          (off_t)(place->offset - skip));
        if (base == MAP_FAILED) {
            return NULL;
        }
        place->base = (const char *)base + skip;
    }
    return place->base + (f->offset - place->offset);
}

static void file_want(struct image_layers *l, struct image_layer_file *f)
{
    if (!f->wanted) {
        f->wanted = true;
        VEC_PUSH(l->arena, &l->wanted, f);
    }
}

/* The first bytes of a file, or all, if they are held; copied, because a further pass holds others.
 */
static bool give_head(struct image_layers *l, struct image_layer_file *f, struct snap_node *n,
                      size_t first)
{
    const struct pages *p = f->held->pages;
    const struct pages_range *head = p && p->n_ranges ? &p->ranges[0] : NULL;
    size_t size = f->size < first ? (size_t)f->size : first;
    bool kept = f->held->kept && image_kept_read(f->held->kept, 0, size, NULL);
    if (!kept && (!head || head->offset != 0 || head->n < size)) {
        return false;
    }
    unsigned char *copy = arena_alloc(l->snap.arena, size + 1);
    if (!kept || !image_kept_read(f->held->kept, 0, size, copy)) {
        memcpy(copy, head->bytes, size);
    }
    n->data = (struct str){(const char *)copy, size};
    n->has_data = true;
    n->whole = size == f->size;
    return true;
}

/* What gpu_code_read() looks at in a file of a compressed layer, if that is held. */
static bool give_gpu_code(struct image_layers *l, struct image_layer_file *f, struct snap_node *n)
{
    if (!f->held->kept || !f->held->kept->gpu_code) {
        return false;
    }
    n->gpu_pages = arena_alloc(l->snap.arena, sizeof *n->gpu_pages);
    *n->gpu_pages = (struct pages){
        .size = (size_t)f->size,
        .touched = arena_alloc(l->snap.arena, pages_bitmap_bytes((size_t)f->size)),
        .more = gpu_code_of_kept,
        .more_arg = f->held->kept,
        .rest_is_zero = true,
    };
    return true;
}

static void content(void *arg, struct snap *s, struct snap_node *n, size_t first,
                    enum snap_content what)
{
    bool map = what != SNAP_FIRST;
    struct image_layers *l = arg;
    const struct image_layer_node *from = image_layers_find(l, n->path);
    struct image_layer_file *f = from && from->type == SNAP_FILE ? from->file : NULL;
    const char *bytes = f && f->in_place && f->size ? in_place(l, f) : NULL;
    if (!f || (f->size && f->in_place && !bytes)) {
        return;
    }
    if (!f->held && !bytes && f->size) {
        f->held = arena_alloc(l->arena, sizeof *f->held);
    }
    if (f->size == 0 || bytes || f->held->read) {
        n->data = bytes || f->size == 0 ? (struct str){bytes ? bytes : "", (size_t)f->size}
                                        : f->held->data;
        n->has_data = n->whole = true;
    } else if (!map && give_head(l, f, n, first)) {
        return;
    } else if (what == SNAP_GPU_CODE && give_gpu_code(l, f, n)) {
        return;
    } else if ((f->size <= WHOLE_MAX && !f->held->kept) || (!map && f->size <= TEXT_MAX)) {
        f->held->all_wanted = true;
        file_want(l, f);
    } else {
        if (!f->held->pages) {
            f->held->pages = pages_of(l, f);
            VEC_PUSH(l->arena, &l->paged, f);
        }
        n->pages = f->held->pages;
    }
    (void)s;
}

void image_layers_init(struct image_layers *l, struct arena *a)
{
    *l = (struct image_layers){.arena = a};
    nodes_grow(l);
    l->root = arena_alloc(a, sizeof *l->root);
    *l->root = (struct image_layer_node){.name = "", .type = SNAP_DIR, .mode = 0755};
    snap_init(&l->snap, a);
    image_keep_init(&l->keep, a);
    l->snap.source = (struct snap_source){layers_fill, content, l};
}

void image_layers_release(struct image_layers *l)
{
    image_keep_release(&l->keep);
    for (size_t i = 0; i < l->maps.n; i++) {
        (void)munmap((void *)(uintptr_t)l->maps.items[i].data, l->maps.items[i].size); // our own
    }
    for (size_t i = 0; i < l->paged.n; i++) {
        drop_ranges(l->paged.items[i]);
    }
    for (size_t i = 0; i < l->places.n; i++) {
        struct image_layer_place *p = &l->places.items[i];
        size_t skip = (size_t)(p->offset % pages_unit());
        if (p->base) {
            (void)munmap((void *)(uintptr_t)(p->base - skip), (size_t)p->size + skip); // our own
        }
    }
}
