/* One entry of a layer on its way into the index, as engines unpack it. */
#include "image/entries.h"

#include <archive_entry.h>
#include <limits.h>
#include <string.h>

#include "image/nodes.h"

enum { LINKS_MAX = 40 };

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
        if (++depth > ENTRY_DEPTH_MAX) {
            return NULL;
        }
        if (str_is(part, "..")) {
            at = at->up ? at->up : at;
            continue;
        }
        const char *name = str_dup(&w->scratch, part);
        struct image_layer_node *next =
            make ? layers_put(w->l, at, name) : layers_child(w->l, at, name);
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
    unsigned climbs;  // how many folders it leads above the top
    bool too_long;    // for any file system
};

static const char *whole_name(struct arena *a, const struct clean_name *c)
{
    return c->folder.n ? arena_printf(a, "%.*s/%s", (int)c->folder.n, c->folder.s, c->last)
                       : c->last;
}

static struct clean_name clean_name(struct arena *a, const char *raw)
{
    struct clean_name c = {0};
    char *to = arena_strdup(a, raw);
    size_t n = 0;
    struct str rest = str_of(raw);
    while (rest.n) {
        struct str part = str_cut(&rest, '/');
        if (str_is(part, "..")) {
            c.climbs += n == 0;
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

/* ------------------------------------------------------------------ entries */

enum snap_type walk_entry_type(const struct archive_entry *e)
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
    if (!*hidden || layers_child(w->l, folder, hidden)) {
        refuse(w, "removes %s, which it has itself", str_printable(&w->scratch, hidden));
        return;
    }
    struct image_layer_node *n = layers_put(w->l, folder, hidden);
    n->type = SNAP_CHAR;
    n->whiteout = true;
}

/* A hard link names an entry before it, of this layer. */
static const struct image_layer_node *linked(struct walk *w, const char *raw)
{
    struct clean_name c = clean_name(&w->scratch, raw);
    struct image_layer_node *up = *c.last ? walk_descend(w, w->top, c.folder, false, 0) : NULL;
    const struct image_layer_node *n = up ? layers_child(w->l, up, c.last) : NULL;
    return n && n->type != SNAP_DIR ? n : NULL;
}

static void walk_take_content(struct walk *w, struct image_layer_node *n, struct archive_entry *e,
                              struct image_layer_file *content)
{
    const char *link = archive_entry_symlink(e);
    n->type = (uint8_t)walk_entry_type(e);
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
            VEC_PUSH(w->l->arena, &w->moved, own);
        }
        if (own) {
            note_folders(w, n, own);
        }
    }
}

/* Whether there is something where a path leads to, links followed. */
static bool leads(struct walk *w, struct image_layer_node *at, const char *path)
{
    const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
    if (!*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0) {
        return walk_descend(w, at, str_of(path), false, 0);
    }
    struct str folder = {path, slash ? (size_t)(slash - path) : 0};
    struct image_layer_node *up = walk_descend(w, at, folder, false, 0);
    const struct image_layer_node *n = up ? layers_child(w->l, up, last) : NULL;
    if (!n || n->type != SNAP_LINK) {
        return n;
    }
    return ++w->links <= LINKS_MAX && leads(w, n->link[0] == '/' ? w->top : up, n->link);
}

void walk_check_moved(struct walk *w)
{
    arena_init(&w->scratch, 0, NULL, NULL);
    for (size_t i = 0; i < w->moved.n; i++) {
        w->links = 0;
        if (!leads(w, w->top, w->moved.items[i])) {
            refuse(w, "has the folder %s, and then something else in its place",
                   str_printable(&w->scratch, w->moved.items[i]));
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
    bool linked;                 // its name led through a link
};

/* Removes what an earlier entry has put there, unless both are folders. */
static void make_way(struct walk *w, const struct entry *n, bool is_folder)
{
    struct image_layer_node *old = layers_child(w->l, n->up, n->name.last);
    if (!old || (old->type == SNAP_DIR && is_folder)) {
        return;
    }
    old->gone = true;
    if (old->type == SNAP_DIR) {
        const char *path = arena_strdup(w->l->arena, whole_name(&w->scratch, &n->name));
        if (old->named) {
            VEC_PUSH(w->l->arena, &w->moved, path);
        }
        note_folders(w, old, path);
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
    struct image_layer_node *n = layers_put(w->l, entry->up, entry->name.last), copy = *from;
    copy.up = n->up;
    copy.next = n->next;
    copy.chain = n->chain;
    copy.name = n->name;
    copy.named = true;
    *n = copy;
}

static void grow_seen(struct walk *w)
{
    uint64_t *old = w->seen;
    size_t n = w->seen_cap;
    w->seen_cap = n ? n * 2 : 1024;
    w->seen = arena_array(w->l->arena, w->seen_cap, sizeof *w->seen);
    for (size_t i = 0; i < n; i++) {
        size_t at = old[i] & (w->seen_cap - 1);
        while (w->seen[at]) {
            at = (at + 1) & (w->seen_cap - 1);
        }
        w->seen[at] = old[i];
    }
}

/* Engines keep a list of the names of a layer, cleaned by their text alone, and refuse a second
 * entry of a name (vbatts/tar-split, tar/storage: ErrDuplicatePath). Of the list a hash is enough:
 * only an archive that was made for it has two names of one. */
static bool is_second(struct walk *w, const struct entry *n, bool absolute)
{
    const char *name = whole_name(&w->scratch, &n->name);
    uint64_t hash = str_hash(name, strlen(name)) + (absolute ? 1 : n->name.climbs * 2) + 1;
    hash += hash == 0;
    if (w->n_seen * 2 >= w->seen_cap) {
        grow_seen(w);
    }
    size_t at = hash & (w->seen_cap - 1);
    while (w->seen[at] && w->seen[at] != hash) {
        at = (at + 1) & (w->seen_cap - 1);
    }
    if (w->seen[at]) {
        return true;
    }
    w->seen[at] = hash;
    w->n_seen++;
    return false;
}

static void place_entry(struct walk *w, const struct entry *entry)
{
    const char *hard = archive_entry_hardlink(entry->e);
    if (starts_with(entry->name.last, ".wh.")) {
        take_whiteout(w, entry->up, entry->name.last);
    } else if (hard) {
        take_hard_link(w, entry, hard);
    } else {
        bool is_folder = walk_entry_type(entry->e) == SNAP_DIR;
        make_way(w, entry, is_folder);
        struct image_layer_node *n = layers_put(w->l, entry->up, entry->name.last);
        walk_take_content(w, n, entry->e, entry->file);
        n->named = true;
        if (is_folder && entry->linked) { // the link may lead elsewhere at the end
            VEC_PUSH(w->l->arena, &w->moved,
                     arena_strdup(w->l->arena, whole_name(&w->scratch, &entry->name)));
        }
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
    const struct image_layer_node *file = up ? layers_child(w->l, up, folder.last) : NULL;
    return file && file->type != SNAP_LINK;
}

void walk_take_entry(struct walk *w, struct archive_entry *e, struct image_layer_file *file)
{
    const char *raw = archive_entry_pathname(e) ? archive_entry_pathname(e) : "";
    struct entry n = {e,    file, str_printable(&w->scratch, raw), clean_name(&w->scratch, raw),
                      NULL, false};
    w->l->n_outside += n.name.climbs > 0;
    w->l->n_unnamed += !archive_entry_pathname(e);
    if (n.name.too_long) {
        refuse(w, "has the name %.60s..., which is too long for a file system", n.shown);
    } else if (*n.name.last) { // else it is the top
        w->links = 0;
        w->dangling = false;
        n.up = walk_descend(w, w->top, n.name.folder, true, 0);
        n.linked = w->links > 0;
        if (is_second(w, &n, raw[0] == '/')) {
            refuse(w, "has two entries called %s", n.shown);
        } else if (n.up) {
            place_entry(w, &n);
        } else if (!is_idle(w, &n)) {
            refuse(w, "has %s below something that is not a folder", n.shown);
        }
    }
}
