#include "base/snap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/root.h"

enum { LINKS_MAX = 40, NAMES_MAX = 100000 };

void snap_init(struct snap *s, struct arena *a)
{
    *s = (struct snap){.arena = a};
}

/* ------------------------------------------------------------------ nodes */

static size_t path_slot(struct snap_node *const *table, size_t cap, const char *path)
{
    size_t at = str_hash(path, strlen(path)) & (cap - 1);
    while (table[at] && strcmp(table[at]->path, path) != 0) {
        at = (at + 1) & (cap - 1);
    }
    return at;
}

static void snap_grow(struct snap *s)
{
    size_t cap = s->cap ? s->cap * 2 : 1024;
    struct snap_node **fresh = arena_array(s->arena, cap, sizeof(struct snap_node *));
    for (size_t i = 0; i < s->cap; i++) {
        if (s->table[i]) {
            fresh[path_slot(fresh, cap, s->table[i]->path)] = s->table[i];
        }
    }
    s->table = fresh;
    s->cap = cap;
}

struct snap_node *snap_find(const struct snap *s, const char *path)
{
    return s->cap ? s->table[path_slot(s->table, s->cap, path)] : NULL;
}

struct snap_node *snap_put(struct snap *s, const char *path)
{
    if (s->n * 2 >= s->cap) {
        snap_grow(s);
    }
    size_t at = path_slot(s->table, s->cap, path);
    if (s->table[at]) {
        return NULL;
    }
    struct snap_node *n = arena_alloc(s->arena, sizeof *n);
    *n = (struct snap_node){.path = path,
                            .error = -SNAP_NOT_HELD,
                            .link_rc = SNAP_UNASKED,
                            .list_rc = SNAP_UNASKED,
                            .open_rc = SNAP_UNASKED,
                            .read_rc = SNAP_UNASKED,
                            .capabilities = SNAP_UNASKED};
    for (size_t i = 0; i < sizeof n->access / sizeof *n->access; i++) {
        n->access[i] = SNAP_UNASKED;
    }
    s->table[at] = n;
    s->n++;
    return n;
}

void snap_hold(struct snap *s, const char *folder, const char *path, struct str data)
{
    struct snap_node *dir = snap_put(s, folder), *n = snap_put(s, path);
    if (dir) {
        dir->type = SNAP_DIR;
        dir->mode = 0755;
    }
    if (n) {
        n->type = SNAP_FILE;
        n->mode = 0644;
        n->size = data.n;
        n->open_rc = n->read_rc = 0;
        n->data = data;
        n->has_data = n->whole = true;
    }
}

static int nodes_by_path(const void *x, const void *y)
{
    const struct snap_node *const *a = x, *const *b = y;
    return strcmp((*a)->path, (*b)->path);
}

struct snap_node **snap_sorted(const struct snap *s, struct arena *a)
{
    struct snap_node **all = arena_array(a, s->n + 1, sizeof(struct snap_node *));
    size_t n = 0;
    for (size_t i = 0; i < s->cap; i++) {
        if (s->table[i]) {
            all[n++] = s->table[i];
        }
    }
    qsort(all, n, sizeof *all, nodes_by_path);
    return all;
}

/* ------------------------------------------------------------------ lookup */

static int miss(struct snap *s, const char *path, const char *what)
{
    s->n_misses++;
    for (size_t i = 0; i < s->misses.n; i++) {
        if (starts_with(s->misses.items[i], path) && s->misses.items[i][strlen(path)] == ':') {
            return -SNAP_NOT_HELD;
        }
    }
    if (s->misses.n < SNAP_MISSES_MAX) {
        VEC_PUSH(s->arena, &s->misses, arena_printf(s->arena, "%s: %s", path, what));
    }
    return -SNAP_NOT_HELD;
}

static enum snap_type mode_type(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR: return SNAP_DIR;
    case S_IFREG: return SNAP_FILE;
    case S_IFLNK: return SNAP_LINK;
    case S_IFCHR: return SNAP_CHAR;
    case S_IFBLK: return SNAP_BLOCK;
    default: return SNAP_OTHER;
    }
}

static void take_stat(struct snap_node *n, const struct stat *st)
{
    n->type = mode_type(st->st_mode);
    n->error = 0;
    n->mode = st->st_mode & 07777;
    n->uid = st->st_uid;
    n->gid = st->st_gid;
    n->size = st->st_size > 0 ? (uint64_t)st->st_size : 0;
    n->major = major(st->st_rdev);
    n->minor = minor(st->st_rdev);
    n->dev = st->st_dev;
    n->ino = st->st_ino;
}

/* Links of /proc that lead to who asks. */
static bool is_own_link(const char *path)
{
    return strcmp(path, "/proc/self") == 0 || strcmp(path, "/proc/thread-self") == 0;
}

static struct snap_node *node_record(struct snap *s, const char *path)
{
    struct snap_node *n = snap_put(s, arena_strdup(s->arena, path));
    struct stat st;
    int rc = is_own_link(path) ? root_stat(s->from, path, &st) : root_lstat(s->from, path, &st);
    if (rc < 0) {
        n->error = rc;
    } else {
        take_stat(n, &st);
    }
    return n;
}

static int name_by_key(const void *key, const void *item)
{
    return strcmp(key, ((const struct snap_name *)item)->name);
}

static bool folder_names(const struct snap_node *dir, const char *name)
{
    return dir->names.n &&
           bsearch(name, dir->names.items, dir->names.n, sizeof *dir->names.items, name_by_key);
}

/* The node of a name in a folder that was looked up; a negative errno where it has none. */
static int snap_enter(struct snap *s, const struct snap_node *dir, const char *path,
                      struct snap_node **ret)
{
    struct snap_node *n = snap_find(s, path);
    if (!n && s->from) {
        n = node_record(s, path);
    }
    if (!n && s->source.fill && s->source.fill(s->source.arg, s, path)) {
        n = snap_find(s, path);
    }
    if (!n) {
        bool listed = dir && dir->list_rc == 0 && !dir->partly;
        return listed && !folder_names(dir, path_base(path)) ? -ENOENT : miss(s, path, "stat");
    }
    *ret = n;
    return n->type == SNAP_ERROR ? n->error : 0;
}

/* What is left of the path, and where the walk stands. */
struct way {
    struct snap *snap;
    struct arena *scratch;
    struct snap_node *at;
    char *rest;
    int links;
    bool follow_last;
};

static int step_up(struct way *w)
{
    const char *up = path_dir(w->scratch, w->at->path);
    return snap_enter(w->snap, NULL, up, &w->at);
}

static int step_link(struct way *w, struct snap_node *link)
{
    if (link->link_rc == SNAP_UNASKED && w->snap->from) {
        char *target = NULL;
        link->link_rc = root_readlink(w->snap->from, w->snap->arena, link->path, &target);
        link->link = target;
    }
    if (link->link_rc == SNAP_UNASKED) {
        return miss(w->snap, link->path, "readlink");
    }
    if (link->link_rc < 0 || ++w->links > LINKS_MAX) {
        return link->link_rc < 0 ? link->link_rc : -ELOOP;
    }
    if (strlen(link->link) + strlen(w->rest) >= 2 * SNAP_PATH_MAX) {
        return -ENAMETOOLONG;
    }
    w->rest = arena_printf(w->scratch, "%s%s", link->link, w->rest);
    return link->link[0] == '/' ? snap_enter(w->snap, NULL, "/", &w->at) : 0;
}

static int step_into(struct way *w, const char *name, bool last, bool wants_dir)
{
    if (w->at->type != SNAP_DIR) {
        return -ENOTDIR;
    }
    const char *slash = w->at->path[1] ? "/" : "";
    char *path = arena_printf(w->scratch, "%s%s%s", w->at->path, slash, name);
    struct snap_node *next = NULL;
    int rc = snap_enter(w->snap, w->at, path, &next);
    if (rc < 0) {
        return rc;
    }
    if (next->type == SNAP_LINK && (!last || wants_dir || w->follow_last)) {
        return step_link(w, next);
    }
    w->at = next;
    return (!last || wants_dir) && next->type != SNAP_DIR ? -ENOTDIR : 0;
}

static int snap_walk(struct snap *s, const char *path, bool follow_last, struct snap_node **ret)
{
    if (!path[0]) {
        return -ENOENT;
    }
    if (strlen(path) >= SNAP_PATH_MAX) {
        return -ENAMETOOLONG;
    }
    struct arena scratch;
    arena_init(&scratch, 0, NULL, NULL);
    struct way w = {.snap = s, .scratch = &scratch, .follow_last = follow_last};
    w.rest = arena_strdup(&scratch, path);
    int rc = snap_enter(s, NULL, "/", &w.at);
    while (rc == 0) {
        w.rest += strspn(w.rest, "/");
        if (!*w.rest) {
            break;
        }
        size_t n = strcspn(w.rest, "/");
        bool wants_dir = w.rest[n] == '/';
        bool last = w.rest[n + strspn(w.rest + n, "/")] == '\0';
        const char *name = arena_strndup(&scratch, w.rest, n);
        w.rest += n;
        if (strcmp(name, "..") == 0) {
            rc = step_up(&w);
        } else if (strcmp(name, ".") != 0) {
            rc = step_into(&w, name, last, wants_dir);
        }
    }
    *ret = w.at;
    arena_release(&scratch);
    return rc;
}

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
        int fd = root_open_file(s->from, n->path, NULL);
        n->open_rc = fd < 0 ? fd : 0;
        if (fd >= 0) {
            (void)close(fd); // nothing was written
        }
    }
    return n->open_rc == SNAP_UNASKED ? miss(s, n->path, "open") : n->open_rc;
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
        return miss(s, n->path, "read");
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
        return miss(s, n->path, "read");
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
            return miss(s, n->path, "map");
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
        return n->list_rc == SNAP_UNASKED ? miss(s, n->path, "list") : n->list_rc;
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
        return miss(s, n->path, "readlink");
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
    return n->capabilities == SNAP_UNASKED ? miss(s, n->path, "file capabilities")
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
    return *answer == SNAP_UNASKED ? miss(s, n->path, "access") : *answer;
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
            (void)miss(s, s->table[i]->path, "pages"); // the note is all that counts
        }
    }
}
