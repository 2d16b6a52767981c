#include "image/layers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/pages.h"
#include "image/nodes.h"
#include "image/passes.h"

enum {
    WHOLE_MAX = 256 << 10, // files up to this size are kept whole where a part is wanted
    TEXT_MAX = 16 << 20,   // largest file that is kept because all of it is wanted
};

/* ------------------------------------------------------------------ as a root reads it */

static int nodes_by_name(const void *x, const void *y)
{
    return strcmp(((const struct snap_name *)x)->name, ((const struct snap_name *)y)->name);
}

static void fill_folder(struct image_layers *l, struct snap_node *n,
                        const struct image_layer_node *dir)
{
    for (const struct image_layer_node *k = dir->down; k; k = k->next) {
        if (layers_is_seen(k)) {
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
        .more = layers_kept_gpu_code,
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
            f->held->pages = layers_pages(l, f);
            VEC_PUSH(l->arena, &l->paged, f);
        }
        n->pages = f->held->pages;
    }
    (void)s;
}

void image_layers_init(struct image_layers *l, struct arena *a)
{
    *l = (struct image_layers){.arena = a};
    layers_grow(l);
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
        layers_drop_ranges(l->paged.items[i]);
    }
    for (size_t i = 0; i < l->places.n; i++) {
        struct image_layer_place *p = &l->places.items[i];
        size_t skip = (size_t)(p->offset % pages_unit());
        if (p->base) {
            (void)munmap((void *)(uintptr_t)(p->base - skip), (size_t)p->size + skip); // our own
        }
    }
}
