/*
 * What a root answered: a small file system of those paths that were asked about, with of each file
 * what was read of it. It fills itself from a real root while it records, and answers alone when it
 * is replayed; both through the same functions, so that they cannot disagree.
 *
 *   snap_init()  ->  root_record() (base/root.h)  ->  snap_finish()      recording
 *   snap_init()  ->  snap_put()...  ->  root_replay()                    replaying
 *
 * Nodes are known by their path without links. A path that was not asked about when it was
 * recorded is answered with SNAP_NOT_HELD, noted in `misses`, and never as absent, unless a folder
 * whose names were all listed does not name it. /proc/self is taken for the folder that it leads
 * to, so that no process id gets into the paths.
 *
 * Not held: times, numbers of inodes and devices (only which paths are one file), extended
 * attributes other than whether there are file capabilities.
 */
#ifndef GPUMEND_BASE_SNAP_H
#define GPUMEND_BASE_SNAP_H

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/pages.h"
#include "base/str.h"

/* The errno of what the snapshot does not hold. No file operation of a root gives it otherwise. */
#define SNAP_NOT_HELD ENODATA

/* An answer that was not asked for. Others are 0 (or a value) and negative errnos. */
#define SNAP_UNASKED INT_MIN

enum snap_type {
    SNAP_ERROR, // the lookup failed: `error`
    SNAP_DIR,
    SNAP_FILE,
    SNAP_LINK,
    SNAP_CHAR,
    SNAP_BLOCK,
    SNAP_OTHER, // FIFO, socket
};

struct snap_name {
    const char *name;
    bool kept; // a caller took it
};

struct snap_node {
    const char *path; // absolute, without links
    enum snap_type type;
    int error;   // negative errno
    mode_t mode; // permissions only
    uid_t uid;
    gid_t gid;
    uint64_t size;
    unsigned major, minor; // of a device node
    dev_t dev;             // with ino: two paths of one file have the same
    ino_t ino;
    int link_rc; // SNAP_LINK
    const char *link;
    int list_rc;                        // SNAP_DIR
    bool partly;                        // too many names: only those a caller took
    VEC(struct snap_name) names;        // sorted
    int open_rc, read_rc, capabilities; // SNAP_FILE
    struct str data;                    // the first bytes of the file
    bool has_data;
    bool whole;              // ... are all of it
    struct pages *pages;     // NULL: nothing is known of its pages
    struct pages *gpu_pages; // of a mapping for gpu_code_read(), where it has its own
    int access[8];           // by R_OK, W_OK, X_OK
};

struct root;

/* What of a real file's text or of a folder's names is recorded; may replace or drop. */
struct snap_edit {
    void (*text)(struct arena *a, const char *path, struct str *data);
    bool (*name)(struct root *from, struct arena *a, const char *dir, const char *name);
};

struct snap;

/* What of a file is asked for. */
enum snap_content {
    SNAP_FIRST,    // its first bytes, to be copied
    SNAP_ALL,      // a mapping
    SNAP_GPU_CODE, // a mapping for gpu_code_read(): what that does not look at may be zeros
};

/* Who knows a replayed file system and fills it in as it is asked: an archive. */
struct snap_source {
    /* Puts the node of a path without links that is not held, with all that is known but content;
     * false: there is none to put, and the path is not held. */
    bool (*fill)(void *arg, struct snap *s, const char *path);
    /* Is asked for a file's content where it is not held: its first bytes (SIZE_MAX: all), or a
     * mapping. Sets data, or pages, or for SNAP_GPU_CODE gpu_pages; it may leave both, and remember
     * that they are wanted. */
    void (*content)(void *arg, struct snap *s, struct snap_node *n, size_t first,
                    enum snap_content what);
    void *arg;
};

struct snap {
    struct arena *arena;
    struct root *from; // NULL: replayed
    struct snap_edit edit;
    struct snap_source source;
    struct snap_node **table; // open addressing by path
    size_t n, cap;
    VEC(const char *) misses; // "path: what was asked", each path once, at most SNAP_MISSES_MAX
    size_t n_misses;
};

enum { SNAP_MISSES_MAX = 100, SNAP_PATH_MAX = 4096 }; // Linux's PATH_MAX, on every system

void snap_init(struct snap *s, struct arena *a);

/* A new node of this path with nothing asked; NULL if there is one. The path is not copied. */
struct snap_node *snap_put(struct snap *s, const char *path);
struct snap_node *snap_find(const struct snap *s, const char *path);

/* A file that no file system has: it is held whole, in a folder of its own. */
void snap_hold(struct snap *s, const char *folder, const char *path, struct str data);

/* All nodes by path, byte for byte. */
struct snap_node **snap_sorted(const struct snap *s, struct arena *a);

/* Ends the recording: reads the pages that were touched into `ranges`. GM_ERR_LIMIT: a file has too
 * many single pages; GM_ERR_LOOK: a file changed meanwhile. */
int snap_finish(struct snap *s, struct gm_err *err) GM_CHECK;

/* After a replay: adds to `misses` the files of which pages were read that are not held. */
void snap_note_pages(struct snap *s);

#endif
