#include "ldso/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* To read more than HEAD_MAX bytes takes longer than to map them. What comes after HEADS_MAX is
 * mapped, so that the memory is bounded. */
enum { HEAD_MAX = 16 << 10, HEADS_MAX = 4 << 20 };

void ldso_store_open(struct ldso_store *s, struct root *root, struct arena *arena)
{
    *s = (struct ldso_store){.root = root, .arena = arena};
}

void ldso_store_close(struct ldso_store *s)
{
    for (size_t i = 0; i < s->n_maps; i++) {
        (void)munmap((void *)(uintptr_t)s->maps[i].data, s->maps[i].size); // our own mapping
    }
    if (s->heads.memory) {
        (void)munmap(s->heads.memory, HEADS_MAX);
        s->heads.memory = NULL;
    }
    ldso_store_leave(s);
}

void ldso_store_leave(struct ldso_store *s)
{
    free(s->maps);
    s->maps = NULL;
    s->n_maps = s->cap_maps = 0;
}

void ldso_store_relax(struct ldso_store *s)
{
    if (s->root->snap) {
        return; // what was filled in would be gone
    }
    for (size_t i = 0; i < s->n_maps; i++) {
        (void)madvise((void *)(uintptr_t)s->maps[i].data, s->maps[i].size, MADV_DONTNEED);
    }
}

/* The list is plain malloc memory so that closing works after an arena is gone. */
static bool has_map_room(struct ldso_store *s)
{
    if (s->n_maps < s->cap_maps) {
        return true;
    }
    size_t cap = s->cap_maps ? s->cap_maps * 2 : 64;
    void *more = realloc(s->maps, cap * sizeof *s->maps);
    s->maps = more ? more : s->maps;
    s->cap_maps = more ? cap : s->cap_maps;
    return more != NULL;
}

/* Where nothing is open yet: a file whose bytes cannot be kept would be an unreadable one. */
static void need_map_room(struct ldso_store *s)
{
    if (!has_map_room(s->base ? s->base : s)) {
        arena_no_memory(s->arena);
    }
}

bool ldso_store_keep(struct ldso_store *s, const void *data, size_t size)
{
    s = s->base ? s->base : s;
    if (!data) {
        return true;
    }
    if (!has_map_room(s)) {
        (void)munmap((void *)(uintptr_t)data, size);
        return false;
    }
    s->maps[s->n_maps].data = data;
    s->maps[s->n_maps++].size = size;
    return true;
}

static uint64_t path_hash(const char *path)
{
    return str_hash(path, strlen(path));
}

static uint64_t inode_hash(dev_t dev, ino_t ino)
{
    return ((uint64_t)ino ^ (uint64_t)dev << 40) * 0x9e3779b97f4a7c15u;
}

static void grow_paths(struct ldso_store *s)
{
    size_t cap = s->cap_paths ? s->cap_paths * 2 : 256;
    struct ldso_entry **fresh = arena_array(s->arena, cap, sizeof(struct ldso_entry *));
    for (size_t i = 0; i < s->cap_paths; i++) {
        if (s->paths[i]) {
            size_t at = path_hash(s->paths[i]->path) & (cap - 1);
            while (fresh[at]) {
                at = (at + 1) & (cap - 1);
            }
            fresh[at] = s->paths[i];
        }
    }
    s->paths = fresh;
    s->cap_paths = cap;
}

static void grow_files(struct ldso_store *s)
{
    size_t cap = s->cap_files ? s->cap_files * 2 : 256;
    struct ldso_file **fresh = arena_array(s->arena, cap, sizeof(struct ldso_file *));
    for (size_t i = 0; i < s->cap_files; i++) {
        if (s->files[i]) {
            size_t at = (inode_hash(s->files[i]->dev, s->files[i]->ino) >> 20) & (cap - 1);
            while (fresh[at]) {
                at = (at + 1) & (cap - 1);
            }
            fresh[at] = s->files[i];
        }
    }
    s->files = fresh;
    s->cap_files = cap;
}

/* ------------------------------------------------------------------ bytes of files */

static bool has_head_room(struct ldso_store *s)
{
    if (!s->heads.memory) {
        void *memory =
            mmap(NULL, HEADS_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        s->heads.memory = memory == MAP_FAILED ? NULL : memory;
    }
    return s->heads.memory && HEADS_MAX - s->heads.used >= HEAD_MAX;
}

struct source {
    struct elf_source elf; // first
    struct ldso_store *store;
    const char *path;
    struct file_id {
        dev_t dev;
        ino_t ino;
        size_t size;
        struct timespec changed;
    } id;
    int fd; // while the image is parsed, then -1
};

static struct file_id id_of(const struct stat *st)
{
    return (struct file_id){st->st_dev, st->st_ino, (size_t)st->st_size, st->st_mtim};
}

static bool source_read_at(struct elf_source *elf, uint64_t offset, void *to, size_t n)
{
    const struct source *s = (const struct source *)elf;
    return offset <= INT64_MAX && pread(s->fd, to, n, (off_t)offset) == (ssize_t)n;
}

static bool file_ids_equal(struct file_id x, struct file_id y)
{
    return x.dev == y.dev && x.ino == y.ino && x.size == y.size &&
           x.changed.tv_sec == y.changed.tv_sec && x.changed.tv_nsec == y.changed.tv_nsec;
}

/* Of a file that is closed: one that was replaced meanwhile is not taken for the one whose head was
 * read. */
static const void *map_again(struct source *s, size_t *ret_size)
{
    const void *data = NULL;
    struct stat now;
    if (root_map(s->store->root, s->path, &data, ret_size, &now) < 0) {
        return NULL;
    }
    if (!file_ids_equal(id_of(&now), s->id)) {
        (void)munmap((void *)(uintptr_t)data, *ret_size);
        return NULL;
    }
    return data;
}

static const void *map_first(int fd, size_t n)
{
    void *data = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    return data == MAP_FAILED ? NULL : data;
}

static const unsigned char *map_bytes(struct elf_source *elf, size_t n)
{
    struct source *s = (struct source *)elf;
    if (s->fd < 0) {
        need_map_room(s->store);
    }
    const void *data = s->fd >= 0 ? map_first(s->fd, n) : map_again(s, &n);
    return data && ldso_store_keep(s->store, data, n) ? data : NULL;
}

/* Parses a file whose first bytes are read, and the others mapped once they are asked for. */
static void parse_by_head(struct ldso_store *s, const struct source *file, struct elf_image *ret)
{
    bool room = has_head_room(s);
    unsigned char *head = room ? s->heads.memory + s->heads.used : NULL;
    struct source *source = arena_alloc(s->arena, sizeof *source);
    *source = *file;
    source->elf = (struct elf_source){
        .read = source_read_at, .map = map_bytes, .head = head, .room = room ? HEAD_MAX : 0};
    elf_image_parse_source(s->arena, &source->elf, file->id.size, ret);
    source->fd = -1;
    if (room && ret->data == head) {
        s->heads.used += (ret->near + 63) & ~(size_t)63;
    }
}

/* Opens and parses a regular file, which stat() has just shown. */
static int read_image(struct ldso_store *s, const char *path, const struct stat *seen,
                      struct stat *ret_opened, struct elf_image *ret)
{
    need_map_room(s);
    struct source file = {.store = s, .path = path, .id = id_of(seen)};
    file.fd = root_open_seen(s->root, path);
    if (file.fd >= 0) {
        if (seen->st_size > 0) {
            parse_by_head(s, &file, ret);
        } else {
            elf_image_parse(s->arena, "", 0, ret);
        }
        (void)close(file.fd);
        *ret_opened = *seen;
        return 0;
    }
    if (file.fd != -ENOTSUP) {
        return file.fd;
    }
    const void *data = NULL;
    size_t size = 0;
    int rc = root_map(s->root, path, &data, &size, ret_opened);
    if (rc < 0) {
        return rc;
    }
    if (!ldso_store_keep(s, data, size)) {
        return -ENOMEM;
    }
    elf_image_parse(s->arena, data ? data : "", size, ret);
    return 0;
}

/* The file of an inode that stat() has just named; opens and parses it at first sight. */
static int inode_file(struct ldso_store *s, const char *path, const struct stat *st,
                      struct ldso_file **ret)
{
    if (s->n_files * 2 >= s->cap_files) {
        grow_files(s);
    }
    size_t mask = s->cap_files - 1;
    size_t at = (inode_hash(st->st_dev, st->st_ino) >> 20) & mask;
    for (; s->files[at]; at = (at + 1) & mask) {
        if (s->files[at]->dev == st->st_dev && s->files[at]->ino == st->st_ino) {
            *ret = s->files[at];
            return 0;
        }
    }
    struct ldso_file *f = arena_alloc(s->arena, sizeof *f);
    struct stat opened;
    int rc = read_image(s, path, st, &opened, &f->image);
    if (rc < 0) {
        return rc;
    }
    f->dev = opened.st_dev;
    f->ino = opened.st_ino;
    f->mode = opened.st_mode;
    f->uid = opened.st_uid;
    f->gid = opened.st_gid;
    s->files[at] = f;
    s->n_files++;
    *ret = f;
    return 0;
}

static void entry_look(struct ldso_store *s, struct ldso_entry *e)
{
    struct stat st;
    int rc = root_stat(s->root, e->path, &st);
    if (rc < 0) {
        e->open_errno = -rc;
    } else if (S_ISDIR(st.st_mode)) {
        e->is_dir = true; // the loader opens it like a file, and may not be allowed to
        e->open_errno = -root_access(s->root, e->path, R_OK);
    } else if (!S_ISREG(st.st_mode)) {
        e->is_special = true;
    } else {
        rc = inode_file(s, e->path, &st, &e->file);
        e->open_errno = rc < 0 ? -rc : 0;
    }
}

/* ------------------------------------------------------------------ layers */

unsigned ldso_store_mark(struct ldso_store *s)
{
    s = s->base ? s->base : s;
    return ++s->mark;
}

/* The path with the links of its folders resolved, as far as the folders are there. */
static const char *settled_path(struct ldso_store *s, const char *path)
{
    char *real = NULL;
    return root_realpath(s->root, s->arena, path_dir(s->arena, path), &real) == 0
               ? path_join(s->arena, real, path_base(path))
               : path_normal(s->arena, path);
}

static const struct ldso_layer_link *layer_link(struct ldso_store *s, const char *path)
{
    const char *base = path_base(path), *settled = NULL;
    for (size_t i = 0; i < s->layer_links.n; i++) {
        const struct ldso_layer_link *link = &s->layer_links.items[i];
        if (strcmp(link->base, base) == 0) {
            settled = settled ? settled : settled_path(s, path);
            if (strcmp(link->path, settled) == 0) {
                return link;
            }
        }
    }
    return NULL;
}

/* Whether a link lies below the path, which is then a folder. */
static bool holds_link(struct ldso_store *s, const char *path)
{
    const char *plain = path_normal(s->arena, path);
    size_t n = strlen(plain);
    for (size_t i = 0; i < s->layer_links.n; i++) {
        const char *link = s->layer_links.items[i].path;
        if (strncmp(link, plain, n) == 0 && link[n] == '/') {
            return true;
        }
    }
    return false;
}

static struct ldso_file *edited(const struct ldso_store *s, struct ldso_file *file)
{
    for (size_t i = 0; i < s->layer_edits.n; i++) {
        if (s->layer_edits.items[i].was == file) {
            return s->layer_edits.items[i].now;
        }
    }
    return file;
}

static void look_layered(struct ldso_store *s, struct ldso_entry *e)
{
    const char *path = e->path;
    const struct ldso_layer_link *link = layer_link(s, path);
    struct ldso_entry below = *ldso_store_get(s->base, link ? link->target : path);
    below.path = path;
    below.link_asked = false; // that was asked of another path
    *e = below;
    if (e->open_errno && holds_link(s, path)) {
        e->open_errno = 0;
        e->is_dir = true;
    }
    e->file = e->file ? edited(s, e->file) : NULL;
}

/* An edited file lives as long as the base: what the base remembers may point at it. */
static void layer_edit(struct ldso_store *s, const struct ldso_overlay_edit *edit)
{
    struct ldso_file *was = ldso_store_get(s->base, edit->file)->file;
    if (!was) {
        return;
    }
    struct ldso_file *now = arena_alloc(s->base->arena, sizeof *now);
    *now = (struct ldso_file){.dev = was->dev,
                              .ino = was->ino,
                              .image = was->image,
                              .mode = was->mode,
                              .uid = was->uid,
                              .gid = was->gid};
    now->image.rpath = edit->rpath;
    now->image.runpath = edit->runpath;
    VEC_PUSH(s->arena, &s->layer_edits, (struct ldso_layer_edit){was, now});
}

void ldso_store_layer(struct ldso_store *s, struct ldso_store *base,
                      const struct ldso_overlay *overlay)
{
    *s = (struct ldso_store){.root = base->root, .arena = base->arena, .base = base};
    for (size_t i = 0; i < overlay->links.n; i++) {
        const struct ldso_overlay_link *x = &overlay->links.items[i];
        const char *path = settled_path(s, x->path);
        const char *target = x->target[0] == '/'
                                 ? x->target
                                 : path_join(s->arena, path_dir(s->arena, path), x->target);
        VEC_PUSH(s->arena, &s->layer_links,
                 (struct ldso_layer_link){path, path_base(path), path_normal(s->arena, target)});
    }
    for (size_t i = 0; i < overlay->edits.n; i++) {
        layer_edit(s, &overlay->edits.items[i]);
    }
}

struct ldso_entry *ldso_store_get(struct ldso_store *s, const char *path)
{
    if (s->n_paths * 2 >= s->cap_paths) {
        grow_paths(s);
    }
    size_t mask = s->cap_paths - 1;
    size_t at = path_hash(path) & mask;
    for (; s->paths[at]; at = (at + 1) & mask) {
        if (strcmp(s->paths[at]->path, path) == 0) {
            return s->paths[at];
        }
    }
    struct ldso_entry *e = arena_alloc(s->arena, sizeof *e);
    e->path = arena_strdup(s->arena, path);
    if (s->base) {
        look_layered(s, e);
    } else {
        entry_look(s, e);
    }
    s->paths[at] = e;
    s->n_paths++;
    return e;
}

bool ldso_entry_is_link(struct ldso_store *s, struct ldso_entry *e)
{
    struct stat st;
    if (!e->link_asked) {
        e->is_link = root_lstat(s->root, e->path, &st) == 0 && S_ISLNK(st.st_mode);
        e->link_asked = true;
    }
    return e->is_link;
}

const struct ldso_cpu *ldso_store_cpu(struct ldso_store *s, uint16_t machine)
{
    if (s->base) {
        return ldso_store_cpu(s->base, machine);
    }
    if (!s->cpu_read || s->cpu.machine != machine) {
        ldso_cpu_of(s->root, s->arena, machine, &s->cpu);
        s->cpu_read = true;
    }
    return &s->cpu;
}

const struct elf_versions *ldso_file_versions(struct ldso_store *s, struct ldso_file *f)
{
    if (!f->versions_read) {
        elf_versions_read(s->arena, &f->image, &f->versions);
        f->versions_read = true;
    }
    return &f->versions;
}

void *ldso_store_recall(const struct ldso_store *s, const char *key)
{
    s = s->base ? s->base : s;
    uint64_t hash = path_hash(key);
    for (size_t i = 0; i < s->memos.n; i++) {
        if (s->memos.items[i].hash == hash && strcmp(s->memos.items[i].key, key) == 0) {
            return s->memos.items[i].value;
        }
    }
    return NULL;
}

void ldso_store_remember(struct ldso_store *s, const char *key, void *value)
{
    s = s->base ? s->base : s;
    VEC_PUSH(s->arena, &s->memos,
             (struct ldso_memo){path_hash(key), arena_strdup(s->arena, key), value});
}
