/* The operations of a root that is recorded, and of one that is replayed. */
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/root.h"
#include "base/snap.h"
#include "base/snap_internal.h"

enum { NAMES_MAX = 100000 };

/* ------------------------------------------------------------------ what a node answers */

static void give_stat(const struct snap_node *n, struct stat *ret)
{
    static const mode_t types[] = {
        [SNAP_DIR] = S_IFDIR,  [SNAP_FILE] = S_IFREG,  [SNAP_LINK] = S_IFLNK,
        [SNAP_CHAR] = S_IFCHR, [SNAP_BLOCK] = S_IFBLK, [SNAP_OTHER] = S_IFIFO};
    *ret = (struct stat){.st_mode = n->mode | types[n->type],
                         .st_uid = n->uid,
                         .st_gid = n->gid,
                         .st_size = (off_t)n->size,
                         .st_dev = n->dev,
                         .st_ino = n->ino,
                         .st_nlink = 1,
                         .st_rdev = makedev(n->major, n->minor)};
}

static int snap_stat(struct root *root, const char *path, bool follow, struct stat *ret)
{
    struct snap *s = root->snap;
    struct snap_node *n;
    int rc = snap_walk(s, path, follow, &n);
    if (rc == 0) {
        give_stat(n, ret);
    }
    return rc;
}

static void ask_for_content(struct snap *s, struct snap_node *n, size_t first,
                            enum snap_content what)
{
    if (!n->whole && s->source.content) {
        s->source.content(s->source.arg, s, n, first, what);
    }
}

/* A regular file that can be opened for reading. */
static int open_node(struct snap *s, const char *path, struct snap_node **ret)
{
    int rc = snap_walk(s, path, true, ret);
    struct snap_node *n = *ret;
    if (rc < 0) {
        return rc;
    }
    if (n->type != SNAP_FILE) {
        return n->type == SNAP_DIR ? -EISDIR : -ENOTSUP;
    }
    if (n->open_rc == SNAP_UNASKED && s->from) {
        int fd = root_open_file(s->from, path, NULL); // by the way that it was asked for
        n->open_rc = fd < 0 ? fd : 0;
        if (fd >= 0) {
            (void)close(fd); // nothing was written
        }
    }
    return n->open_rc == SNAP_UNASKED ? snap_miss(s, n->path, "open") : n->open_rc;
}

static void record_data(struct snap *s, struct snap_node *n, size_t max_bytes)
{
    struct str data;
    int rc = root_read(s->from, s->arena, n->path, max_bytes, &data);
    if (rc == -EFBIG) {
        return; // a larger limit may come
    }
    n->read_rc = rc;
    if (rc == 0) {
        if (s->edit.text) {
            s->edit.text(s->arena, n->path, &data);
        }
        n->data = data;
        n->has_data = n->whole = true;
    }
}

static void give_bytes(struct arena *a, struct str data, struct str *ret)
{
    char *copy = arena_alloc(a, data.n + 1);
    if (data.n) {
        memcpy(copy, data.s, data.n);
    }
    copy[data.n] = '\0';
    *ret = (struct str){copy, data.n};
}

static int snap_read(struct root *root, struct arena *a, const char *path, size_t max_bytes,
                     struct str *ret)
{
    struct snap *s = root->snap;
    struct snap_node *n;
    int rc = open_node(s, path, &n);
    if (rc < 0) {
        return rc;
    }
    if (n->size > max_bytes) {
        return -EFBIG;
    }
    ask_for_content(s, n, SIZE_MAX, SNAP_FIRST);
    if (s->from && !n->whole && n->read_rc == SNAP_UNASKED) {
        record_data(s, n, max_bytes);
        if (!n->whole && n->read_rc == SNAP_UNASKED) {
            return -EFBIG;
        }
    }
    if (n->read_rc != SNAP_UNASKED && n->read_rc < 0) {
        return n->read_rc;
    }
    if (!n->whole) {
        return snap_miss(s, n->path, "read");
    }
    if (n->data.n > max_bytes) {
        return -EFBIG;
    }
    give_bytes(a, n->data, ret);
    return 0;
}

static int snap_read_head(struct root *root, struct arena *a, const char *path, size_t max_bytes,
                          struct str *ret, bool *ret_all)
{
    struct snap *s = root->snap;
    struct snap_node *n;
    int rc = open_node(s, path, &n);
    if (rc < 0) {
        return rc;
    }
    size_t want = n->size < max_bytes ? (size_t)n->size : max_bytes;
    ask_for_content(s, n, want, SNAP_FIRST);
    if (s->from && !n->whole && (!n->has_data || n->data.n < want)) {
        struct str data;
        bool all = false;
        rc = root_read_head(s->from, s->arena, n->path, max_bytes, &data, &all);
        if (rc < 0) {
            n->read_rc = rc;
            return rc;
        }
        n->data = data;
        n->has_data = true;
        n->whole = all && n->size > 0; // files of /proc state no size
    }
    if (n->read_rc != SNAP_UNASKED && n->read_rc < 0) {
        return n->read_rc;
    }
    if (!n->whole && (!n->has_data || n->data.n < want)) {
        return snap_miss(s, n->path, "read");
    }
    give_bytes(a, (struct str){n->data.s, n->data.n < want ? n->data.n : want}, ret);
    if (ret_all) {
        *ret_all = n->size <= ret->n;
    }
    return 0;
}

static struct pages *new_pages(struct snap *s, const struct snap_node *n)
{
    struct pages *p = arena_alloc(s->arena, sizeof *p);
    p->size = (size_t)n->size;
    p->touched = arena_alloc(s->arena, pages_bitmap_bytes(p->size));
    return p;
}

/* When replaying, a file that was read is as good as one that was mapped. */
static void pages_of_data(struct snap *s, struct snap_node *n)
{
    struct pages_range *range = arena_alloc(s->arena, sizeof *range);
    size_t size = n->data.n < n->size ? n->data.n : (size_t)n->size;
    *range = (struct pages_range){0, size, (const unsigned char *)n->data.s};
    n->pages = new_pages(s, n);
    n->pages->ranges = range;
    n->pages->n_ranges = size ? 1 : 0;
}

static int map_node(struct snap *s, struct snap_node *n, enum snap_content what, const void **ret)
{
    if (!s->from) {
        if (what == SNAP_GPU_CODE && !n->gpu_pages) {
            ask_for_content(s, n, SIZE_MAX, SNAP_GPU_CODE);
        }
        if (what == SNAP_GPU_CODE && n->gpu_pages) {
            return pages_map(n->gpu_pages, -1, ret);
        }
        if (!n->pages) {
            ask_for_content(s, n, SIZE_MAX, SNAP_ALL);
        }
        if (!n->pages && n->whole) {
            pages_of_data(s, n);
        }
        if (!n->pages) {
            return snap_miss(s, n->path, "map");
        }
        if (!n->pages->touched) {
            n->pages->touched = arena_alloc(s->arena, pages_bitmap_bytes(n->pages->size));
        }
        return pages_map(n->pages, -1, ret);
    }
    struct stat st;
    int fd = root_open_file(s->from, n->path, &st);
    if (fd < 0) {
        return fd;
    }
    if (!n->pages) {
        n->pages = new_pages(s, n);
    }
    int rc = pages_map(n->pages, fd, ret);
    (void)close(fd); // the mapping holds the file
    return rc;
}

static int snap_map(struct root *root, const char *path, bool gpu_code, const void **ret_data,
                    size_t *ret_size, struct stat *ret_st)
{
    struct snap *s = root->snap;
    enum snap_content what = gpu_code ? SNAP_GPU_CODE : SNAP_ALL;
    struct snap_node *n;
    const void *data = NULL;
    int rc = open_node(s, path, &n);
    if (rc == 0 && n->size > SIZE_MAX / 2) {
        rc = -EFBIG;
    }
    if (rc == 0 && n->size) {
        rc = map_node(s, n, what, &data);
    }
    if (rc < 0) {
        return rc;
    }
    *ret_data = data;
    *ret_size = (size_t)n->size;
    give_stat(n, ret_st);
    return 0;
}

/* ------------------------------------------------------------------ folders */

static void record_list(struct snap *s, struct snap_node *n, const struct root_filter *filter)
{
    struct root_dir dir;
    n->list_rc = root_list(s->from, s->arena, n->path, NAMES_MAX, NULL, &dir);
    if (n->list_rc == 0 && dir.truncated) {
        n->partly = true;
        n->list_rc = root_list(s->from, s->arena, n->path, NAMES_MAX, filter, &dir);
    }
    for (size_t i = 0; n->list_rc == 0 && i < dir.n; i++) {
        if (!s->edit.name || s->edit.name(s->from, s->arena, n->path, dir.names[i])) {
            VEC_PUSH(s->arena, &n->names, (struct snap_name){.name = dir.names[i]});
        }
    }
}

static int snap_list(struct root *root, struct arena *a, const char *path, size_t max_entries,
                     const struct root_filter *filter, struct root_dir *ret)
{
    struct snap *s = root->snap;
    struct snap_node *n;
    int rc = snap_walk(s, path, true, &n);
    if (rc < 0) {
        return rc;
    }
    if (n->type != SNAP_DIR) {
        return -ENOTDIR;
    }
    if (s->from && n->list_rc == SNAP_UNASKED) {
        record_list(s, n, filter);
    }
    if (n->list_rc != 0) {
        return n->list_rc == SNAP_UNASKED ? snap_miss(s, n->path, "list") : n->list_rc;
    }
    VEC(char *) taken = {0};
    *ret = (struct root_dir){0};
    for (size_t i = 0; i < n->names.n && !ret->truncated; i++) {
        if (filter && !filter->keep(n->names.items[i].name, filter->arg)) {
            continue;
        }
        ret->truncated = taken.n == max_entries;
        if (!ret->truncated) {
            n->names.items[i].kept = true;
            VEC_PUSH(a, &taken, arena_strdup(a, n->names.items[i].name));
        }
    }
    ret->names = taken.items;
    ret->n = taken.n;
    return 0;
}

/* ------------------------------------------------------------------ the rest */

static int snap_readlink(struct root *root, struct arena *a, const char *path, char **ret)
{
    struct snap *s = root->snap;
    struct snap_node *n;
    int rc = snap_walk(s, path, false, &n);
    if (rc < 0) {
        return rc;
    }
    if (n->type != SNAP_LINK) {
        return -EINVAL;
    }
    if (n->link_rc == SNAP_UNASKED && s->from) {
        char *target = NULL;
        n->link_rc = root_readlink(s->from, s->arena, n->path, &target);
        n->link = target;
    }
    if (n->link_rc == SNAP_UNASKED) {
        return snap_miss(s, n->path, "readlink");
    }
    if (n->link_rc == 0) {
        *ret = arena_strdup(a, n->link);
    }
    return n->link_rc;
}

static int snap_realpath(struct root *root, struct arena *a, const char *path, char **ret)
{
    struct snap *s = root->snap;
    struct snap_node *n;
    int rc = snap_walk(s, path, true, &n);
    if (rc == 0) {
        *ret = arena_strdup(a, n->path);
    }
    return rc;
}

static int snap_has_capabilities(struct root *root, const char *path)
{
    struct snap *s = root->snap;
    struct snap_node *n;
    int rc = open_node(s, path, &n);
    if (rc < 0) {
        return rc;
    }
    if (n->capabilities == SNAP_UNASKED && s->from) {
        n->capabilities = root_has_capabilities(s->from, n->path);
    }
    return n->capabilities == SNAP_UNASKED ? snap_miss(s, n->path, "file capabilities")
                                           : n->capabilities;
}

static int snap_access(struct root *root, const char *path, int mode)
{
    struct snap *s = root->snap;
    struct snap_node *n;
    int rc = snap_walk(s, path, true, &n);
    if (rc < 0) {
        return rc;
    }
    int *answer = &n->access[mode & 7];
    if (*answer == SNAP_UNASKED && s->from) {
        *answer = root_access(s->from, n->path, mode);
    }
    return *answer == SNAP_UNASKED ? snap_miss(s, n->path, "access") : *answer;
}

/* ------------------------------------------------------------------ end of the recording */

static bool is_touched(const struct pages *p, size_t page)
{
    return p->touched[page / 8] >> (page & 7) & 1;
}

static int read_range(int fd, uint64_t offset, size_t n, unsigned char *bytes)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(fd, bytes + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? -errno : -EIO;
        }
        done += (size_t)got;
    }
    return 0;
}

/* Runs of touched pages become ranges. */
static int read_pages(struct snap *s, int fd, struct pages *p)
{
    size_t unit = pages_unit(), n_pages = (p->size + unit - 1) / unit;
    VEC(struct pages_range) ranges = {0};
    for (size_t page = 0; page < n_pages; page++) {
        size_t first = page;
        while (page < n_pages && is_touched(p, page)) {
            page++;
        }
        if (page == first) {
            continue;
        }
        size_t end = page * unit < p->size ? page * unit : p->size;
        struct pages_range range = {.offset = first * unit, .n = end - first * unit};
        unsigned char *bytes = arena_alloc(s->arena, range.n);
        int rc = read_range(fd, range.offset, range.n, bytes);
        if (rc < 0) {
            return rc;
        }
        range.bytes = bytes;
        VEC_PUSH(s->arena, &ranges, range);
    }
    p->ranges = ranges.items;
    p->n_ranges = ranges.n;
    return 0;
}

static int finish_node(struct snap *s, struct snap_node *n, struct gm_err *err)
{
    struct stat st;
    if (n->pages->failed) {
        return gm_err_set(err, GM_ERR_LIMIT, "%s: too many single pages of it were read", n->path);
    }
    int fd = root_open_file(s->from, n->path, &st);
    if (fd < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", n->path, strerror(-fd));
    }
    bool same = st.st_ino == n->ino && (uint64_t)st.st_size == n->size;
    int rc = same ? read_pages(s, fd, n->pages) : -ESTALE;
    (void)close(fd); // nothing was written
    return rc < 0 ? gm_err_set(err, GM_ERR_LOOK, "%s was changed while it was read", n->path) : 0;
}

/* ------------------------------------------------------------------ the operations of a root */

/* What is read through a descriptor cannot be seen. */
static int snap_open_file(struct root *root, const char *path, struct stat *ret_st)
{
    (void)root, (void)path, (void)ret_st;
    return -ENOTSUP;
}

static int snap_open_seen(struct root *root, const char *path)
{
    return snap_open_file(root, path, NULL);
}

#define SNAP_OPERATIONS                                                                            \
    .stat = snap_stat, .open_file = snap_open_file, .open_seen = snap_open_seen,                   \
    .read = snap_read, .read_head = snap_read_head, .map = snap_map, .list = snap_list,            \
    .readlink = snap_readlink, .realpath = snap_realpath,                                          \
    .has_capabilities = snap_has_capabilities, .access = snap_access

static const struct root_operations recording = {.is_here = true, SNAP_OPERATIONS};

static const struct root_operations replaying = {.is_here = false, SNAP_OPERATIONS};

void root_record(struct root *r, struct snap *s)
{
    struct root *from = arena_alloc(s->arena, sizeof *from);
    *from = *r;
    from->folder = NULL; // it stays with `r`, which closes it
    s->from = from;
    r->snap = s;
    r->operations = &recording;
}

void root_replay(struct root *r, struct snap *s, const char *path)
{
    *r = ROOT_EMPTY;
    r->path = path;
    r->is_host = strcmp(path, "/") == 0;
    r->snap = s;
    r->operations = &replaying;
    s->from = NULL;
}

int snap_finish(struct snap *s, struct gm_err *err)
{
    for (size_t i = 0; i < s->cap; i++) {
        struct snap_node *n = s->table[i];
        if (n && n->pages && n->whole && n->data.n == n->size) {
            n->pages = NULL; // all of it was read
        }
        int rc = n && n->pages ? finish_node(s, n, err) : 0;
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

void snap_note_pages(struct snap *s)
{
    for (size_t i = 0; i < s->cap; i++) {
        if (s->table[i] && s->table[i]->pages && s->table[i]->pages->missing) {
            (void)snap_miss(s, s->table[i]->path, "pages"); // the note is all that counts
        }
    }
}
