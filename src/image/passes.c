/* The passes over the archives: the first, which indexes them, and those that collect content. */
#include "image/passes.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pages.h"
#include "image/entries.h"
#include "image/nodes.h"

enum {
    BLOCK = 1 << 20,
    WINDOW = 1 << 20, // kept behind a page that is wanted
};

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

bool layers_kept_gpu_code(const void *arg, uint64_t offset, size_t n, unsigned char *to)
{
    return image_kept_gpu_code(arg, offset, n, to);
}

struct pages *layers_pages(struct image_layers *l, const struct image_layer_file *f)
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
    if (walk_entry_type(e) == SNAP_FILE && !archive_entry_hardlink(e)) {
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
        walk_check_moved(&p.walk);
    }
    return rc;
}

int image_layers_add(struct image_layers *l, const struct image_layer_place *place,
                     struct gm_err *err)
{
    struct image_layer_node top;
    int rc = layers_read(l, place, &top, err);
    if (rc == 0) {
        layers_lay_over(l, l->root, &top);
    }
    return rc;
}

/* ------------------------------------------------------------------ further passes */

typedef VEC(struct pages_range) layer_ranges;

void layers_drop_ranges(struct image_layer_file *f)
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
    layers_drop_ranges(f);
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
