#include "ldso/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>

void ldso_store_open(struct ldso_store *s, struct root *root, struct arena *arena)
{
    *s = (struct ldso_store){.root = root, .arena = arena};
}

void ldso_store_close(struct ldso_store *s)
{
    for (size_t i = 0; i < s->n_maps; i++) {
        (void)munmap((void *)(uintptr_t)s->maps[i].data, s->maps[i].size); // our own mapping
    }
    free(s->maps);
    s->maps = NULL;
    s->n_maps = s->cap_maps = 0;
}

void ldso_store_relax(struct ldso_store *s)
{
    for (size_t i = 0; i < s->n_maps; i++) {
        (void)madvise((void *)(uintptr_t)s->maps[i].data, s->maps[i].size, MADV_DONTNEED);
    }
}

/* The list is plain malloc memory so that closing works after an arena is gone. */
bool ldso_store_keep(struct ldso_store *s, const void *data, size_t size)
{
    if (!data) {
        return true;
    }
    if (s->n_maps == s->cap_maps) {
        size_t cap = s->cap_maps ? s->cap_maps * 2 : 64;
        void *more = realloc(s->maps, cap * sizeof *s->maps);
        if (!more) {
            (void)munmap((void *)(uintptr_t)data, size);
            return false;
        }
        s->maps = more;
        s->cap_maps = cap;
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
    size_t cap = s->cap_paths ? s->cap_paths * 2 : 1024;
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

/* The file of an inode that stat() has just named; opens and parses it at first sight. */
static int file_of(struct ldso_store *s, const char *path, const struct stat *st,
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
    const void *data = NULL;
    size_t size = 0;
    struct stat opened;
    int rc = root_map_seen(s->root, path, &data, &size, &opened);
    if (rc < 0) {
        return rc;
    }
    if (!ldso_store_keep(s, data, size)) {
        return -ENOMEM;
    }
    struct ldso_file *f = arena_alloc(s->arena, sizeof *f);
    f->dev = opened.st_dev;
    f->ino = opened.st_ino;
    f->mode = opened.st_mode;
    f->uid = opened.st_uid;
    f->gid = opened.st_gid;
    elf_image_parse(s->arena, data ? data : "", size, &f->image);
    s->files[at] = f;
    s->n_files++;
    *ret = f;
    return 0;
}

static void look(struct ldso_store *s, struct ldso_entry *e)
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
        rc = file_of(s, e->path, &st, &e->file);
        e->open_errno = rc < 0 ? -rc : 0;
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
    look(s, e);
    s->paths[at] = e;
    s->n_paths++;
    return e;
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
    for (size_t i = 0; i < s->memos.n; i++) {
        if (strcmp(s->memos.items[i].key, key) == 0) {
            return s->memos.items[i].value;
        }
    }
    return NULL;
}

void ldso_store_remember(struct ldso_store *s, const char *key, void *value)
{
    VEC_PUSH(s->arena, &s->memos, (struct ldso_memo){arena_strdup(s->arena, key), value});
}
