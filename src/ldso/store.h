/*
 * What the file system says, asked once: a path leads to a file (or an errno), a file to its
 * parsed ELF image. Process models share one store, so that the thousandth closure of a command
 * costs no system call for what an earlier one has seen; within one command the file system
 * counts as standing still.
 */
#ifndef GPUMEND_LDSO_STORE_H
#define GPUMEND_LDSO_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/root.h"
#include "elf/image.h"
#include "ldso/cpu.h"

/* A relocation that needs its symbol's object in the static TLS block. */
struct ldso_tls_use {
    uint32_t symbol; // 0: the object itself
    bool optional;   // TLS descriptor: it can do without
    uint64_t number; // see struct elf_relocation
};

/* One inode that can be opened for reading. */
struct ldso_file {
    dev_t dev;
    ino_t ino;
    struct elf_image image;
    struct elf_versions versions; // filled on first use, see ldso_file_versions()
    bool versions_read;
    mode_t mode;
    uid_t uid;
    gid_t gid;
    unsigned mark;  // scratch for walks over a symbol scope, see process.c
    unsigned seen;  // scratch for collecting, see symbols.c
    bool looked_up; // its symbols, in some process
    struct ldso_file *
        *providers; // by undefined symbol: who defined it last time; NULL before the second
    VEC(struct ldso_file *) served_by; // the providers of the last time, each once
    bool served_complete;              // ... and no symbol was missing
    VEC(struct ldso_tls_use) tls_uses; // see ldso_tls_uses()
    bool tls_uses_read;
};

/* What one path leads to. */
struct ldso_entry {
    const char *path;         // absolute inside the root
    int open_errno;           // 0, or why open() for reading fails
    bool link_asked, is_link; // see ldso_entry_is_link()
    bool is_dir;              // the path is a folder (open may succeed, read does not)
    bool is_special;        // FIFO, device, socket: never opened, the loader would block or read it
    struct ldso_file *file; // with open_errno 0 and neither of the above
};

struct ldso_memo {
    uint64_t hash; // of the key
    const char *key;
    void *value;
};

/* What the file system would say after a repair that is only thought of. */
struct ldso_overlay_link {
    const char *path;   // absolute
    const char *target; // as it would be written into the link
};
struct ldso_overlay_edit {
    const char *file;  // absolute
    const char *rpath; // both tags as they would then be; NULL: none
    const char *runpath;
};
struct ldso_overlay {
    VEC(struct ldso_overlay_link) links;
    VEC(struct ldso_overlay_edit) edits;
};

/* The same, looked up: a link by its last part and by its place without links in its folders. */
struct ldso_layer_link {
    const char *path;
    const char *base;
    const char *target; // absolute
};
struct ldso_layer_edit {
    struct ldso_file *was;
    struct ldso_file *now;
};

struct ldso_store {
    struct root *root;
    struct arena *arena;
    struct ldso_store *base;                 // what this one lies over, or NULL
    VEC(struct ldso_layer_link) layer_links; // with `base`
    VEC(struct ldso_layer_edit) layer_edits;
    struct ldso_entry **paths; // open addressing, n_paths of cap_paths used
    size_t n_paths, cap_paths;
    struct ldso_file **files; // by inode, the same way
    size_t n_files, cap_files;
    struct {
        const void *data;
        size_t size;
    } * maps; // unmapped by ldso_store_close()
    size_t n_maps, cap_maps;
    struct {
        unsigned char *memory; // unmapped by ldso_store_close()
        size_t used;
    } heads;             // first bytes of files: see struct elf_source
    unsigned mark;       // last value given out for ldso_file.mark
    struct ldso_cpu cpu; // see ldso_store_cpu()
    bool cpu_read;
    bool one_process;            // the only one to come: what it found is not kept for the next
    VEC(struct ldso_memo) memos; // what was learnt from one file: loaders, caches
};

/* root and arena must outlive the store. */
void ldso_store_open(struct ldso_store *s, struct root *root, struct arena *arena);
void ldso_store_close(struct ldso_store *s);
/* Closing for a process that ends: the mappings stay, since they go faster with the process. */
void ldso_store_leave(struct ldso_store *s);

/* A store that says what `base` says, with the changes of the overlay made. It shares all that the
 * base has read, and needs no closing. Folders of links that do not exist count as made. */
void ldso_store_layer(struct ldso_store *s, struct ldso_store *base,
                      const struct ldso_overlay *overlay);

/* A value for ldso_file.mark that was not given out before. */
unsigned ldso_store_mark(struct ldso_store *s);

/* ldso_cpu_of() the root, asked once: in a virtual machine each CPUID instruction costs
 * microseconds. */
const struct ldso_cpu *ldso_store_cpu(struct ldso_store *s, uint16_t machine);

/* Never NULL. `path` is absolute; it is copied. */
struct ldso_entry *ldso_store_get(struct ldso_store *s, const char *path);

const struct elf_versions *ldso_file_versions(struct ldso_store *s, struct ldso_file *f);

/* Takes over a mapping made by root_map(), to be unmapped when the store is closed. On failure
 * (no memory) it is unmapped at once and false returned. */
bool ldso_store_keep(struct ldso_store *s, const void *data, size_t size);

/* Whether the path itself is a link; asked of the root once. */
bool ldso_entry_is_link(struct ldso_store *s, struct ldso_entry *e);

/* What ldso_store_remember() was given for this key, or NULL. Keys name the kind and the path. */
void *ldso_store_recall(const struct ldso_store *s, const char *key);
void ldso_store_remember(struct ldso_store *s, const char *key, void *value);

/* Drops the pages of all mappings from this process's resident set; they come back on use. */
void ldso_store_relax(struct ldso_store *s);

#endif
