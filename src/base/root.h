/*
 * Files below a root: the running system ("/"), a container's file system, or a captured tree.
 *
 * Every path is absolute *inside* the root; links, absolute ones and ".." too, are resolved
 * inside it and cannot leave it (openat2 with RESOLVE_IN_ROOT, else a walk of our own). Only
 * regular files are ever opened for reading: a FIFO, a device node or a socket is reported as
 * -ENOTSUP without being opened, so that looking has no side effect and cannot hang.
 *
 * Functions return 0 (or an fd) on success and a negative errno on failure, because *which*
 * errno it was is a fact that the loader model needs.
 */
#ifndef GPUMEND_BASE_ROOT_H
#define GPUMEND_BASE_ROOT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { ROOT_CUT_BYTES = 400 };

/* A folder that files were asked for through a link, and where it leads (root_private.c). */
struct root_link {
    char from[256], to[256];
    size_t n; // bytes of `from`; 0: none
    uid_t owner, user;
    bool leads, of_other;
};

struct root {
    int fd;           // O_PATH on the root folder, or -1
    const char *path; // as given; belongs to the caller and must outlive the root
    bool is_host;     // the root is "/": plain system calls will do
    bool no_openat2;  // kernel before 5.6 or a sandbox without it
    /* Told every path that is asked about, found or not; may be NULL. For whoever keeps an answer
     * and wants to know later whether it still holds. */
    void (*on_look)(void *arg, const char *path);
    void *on_look_arg;
    const struct root_operations *operations; // what answers; NULL: the file system itself
    struct snap *snap;                        // for what answers out of a record, or NULL
    struct root_folder *folder;               // see root_keep_folder(), or NULL
    struct root_link link;
    /* What is open while an answer goes into an arena: root_close() closes it where the arena came
     * to its end then, and did not return. */
    void *listing;   // DIR, or NULL
    int reading;     // fd,
    bool is_reading; // if there is one
    struct arena walked;
    /* The first bound that was reached below the root, one sentence (""; none was): what was found
     * out may be wrong then, and nothing may be called fine. A long one is kept in part. */
    char cut[ROOT_CUT_BYTES];
};

#define ROOT_EMPTY ((struct root){.fd = -1})

/*
 * The questions of this header as a table, one for each way in which they are answered: by the file
 * system (root_files.c), by one that records it, and out of a record (both snap.c).
 */
struct root_dir;
struct root_filter;
struct root_operations {
    bool is_here; // what is answered is so in the file system that gpumend runs in
    int (*stat)(struct root *r, const char *path, bool follow, struct stat *ret);
    int (*open_file)(struct root *r, const char *path, struct stat *ret_st);
    int (*open_seen)(struct root *r, const char *path);
    int (*read)(struct root *r, struct arena *a, const char *path, size_t max_bytes,
                struct str *ret);
    int (*read_head)(struct root *r, struct arena *a, const char *path, size_t max_bytes,
                     struct str *ret, bool *ret_all);
    int (*map)(struct root *r, const char *path, bool gpu_code, const void **ret_data,
               size_t *ret_size, struct stat *ret_st);
    int (*list)(struct root *r, struct arena *a, const char *path, size_t max_entries,
                const struct root_filter *filter, struct root_dir *ret);
    int (*readlink)(struct root *r, struct arena *a, const char *path, char **ret);
    int (*realpath)(struct root *r, struct arena *a, const char *path, char **ret);
    int (*has_capabilities)(struct root *r, const char *path);
    int (*access)(struct root *r, const char *path, int mode);
};
extern const struct root_operations
    root_files; // the file system: root_files.c, windows/root_files.c

/* The folder that was asked about last. */
struct root_folder {
    char path[256]; // n characters and a NUL
    size_t n;
    unsigned times; // in a row
    int fd;         // O_PATH, or -1
};

/*
 * From now on a folder of the host that is asked about several times in a row is kept open, until
 * another one is: the kernel then walks one name instead of all of the path. For a process that
 * looks around once and ends: a folder that is exchanged meanwhile is not seen. `folder` must
 * outlive the root.
 */
void root_keep_folder(struct root *r, struct root_folder *folder);

/* Opens a file of this system now, for readers below "/" that come when it can no longer be opened
 * (base/sandbox.h). One that cannot be opened is asked for again then. `path` stays the caller's.
 */
void root_open_early(const char *path);

/* Opens the folder `path` as a root. */
int root_open(struct root *r, const char *path, struct gm_err *err) GM_CHECK;
void root_close(struct root *r);

/* Whether it is the file system that gpumend runs in, and no record of another. */
bool root_is_here(const struct root *r);

/* From now on all answers of an open root go through `s`, and are recorded there. The real root
 * must stay open as long as `s` records; `r` is still to be closed. */
struct snap;
void root_record(struct root *r, struct snap *s);

/* A root without files: `s` answers. `path` is what the recorded root was called. */
void root_replay(struct root *r, struct snap *s, const char *path);

int root_stat(struct root *r, const char *path, struct stat *ret) GM_CHECK;
int root_lstat(struct root *r, const char *path, struct stat *ret) GM_CHECK;

/* Opens a regular file for reading; ret_st may be NULL. Close-on-exec, never blocks. -ENOTSUP for a
 * root that is recorded or replayed: what is read through a descriptor cannot be seen. */
int root_open_file(struct root *r, const char *path, struct stat *ret_st) GM_CHECK;

/* For a reader that reaches a bound: the sentence becomes the root's `cut`, unless it has one. What
 * root_list() and root_read() leave out is noted by themselves. */
void root_note_cut(struct root *r, const char *fmt, ...) __attribute__((format(GM_PRINTF, 2, 3)));

/* Reads a whole file into the arena, NUL-terminated behind its end. -EFBIG above max_bytes.
 * Files of /proc and /sys, whose size is said to be 0, are read to their end. */
int root_read(struct root *r, struct arena *a, const char *path, size_t max_bytes,
              struct str *ret) GM_CHECK;

/* The first bytes of a regular file, at most max_bytes and its stated size. *ret_all (may be NULL):
 * whether that is all of it. */
int root_read_head(struct root *r, struct arena *a, const char *path, size_t max_bytes,
                   struct str *ret, bool *ret_all) GM_CHECK;

/* A read-only private mapping of a whole regular file; unmap with munmap(). An empty file gives
 * NULL and size 0. */
int root_map(struct root *r, const char *path, const void **ret_data, size_t *ret_size,
             struct stat *ret_st) GM_CHECK;

/* The same for gpu_code_read() alone: what it does not look at may be zeros in the mapping. */
int root_map_gpu_code(struct root *r, const char *path, const void **ret_data, size_t *ret_size,
                      struct stat *ret_st) GM_CHECK;

/* root_open_file() for a path that root_stat() has just shown to be a regular file, without asking
 * again: if it was exchanged meanwhile, reads may fail, but do not block. */
int root_open_seen(struct root *r, const char *path) GM_CHECK;

struct root_dir {
    char **names; // sorted by byte value, without "." and ".."
    size_t n;
    bool truncated; // more than max_entries were there
};

/* Which names of a folder are wanted: those for which `keep` returns true. */
struct root_filter {
    bool (*keep)(const char *name, void *arg);
    void *arg;
};

/* A root_filter's keep, whose arg is a glob (str_glob()). */
bool root_fits_glob(const char *name, void *glob);

/* Lists a folder. Only the wanted names are kept and counted (NULL: all), so that a folder of a
 * million files costs time but no memory. */
int root_list(struct root *r, struct arena *a, const char *path, size_t max_entries,
              const struct root_filter *filter, struct root_dir *ret) GM_CHECK;

/* Target of a symbolic link, as written. */
int root_readlink(struct root *r, struct arena *a, const char *path, char **ret) GM_CHECK;

/* The path without links, inside the root. -ELOOP after 40 links, as the kernel counts. */
int root_realpath(struct root *r, struct arena *a, const char *path, char **ret) GM_CHECK;

/* Whether the file carries file capabilities (extended attribute security.capability):
 * 1 yes, 0 no, negative errno if it cannot be determined. */
int root_has_capabilities(struct root *r, const char *path) GM_CHECK;

/* The first `size` bytes of an extended attribute of the file itself, or of a link itself: how many
 * it has, or a negative errno, as lgetxattr(). Never part of a record. */
int root_attribute(struct root *r, const char *path, const char *name, void *value,
                   size_t size) GM_CHECK;

/* Whether this process may read (R_OK) or execute the file; 0 or negative errno. */
int root_access(struct root *r, const char *path, int mode) GM_CHECK;

#endif
