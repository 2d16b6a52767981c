/*
 * The helper libraries of `run` are bytes of the executable and have to be files before a program
 * can load them: one folder for each content, below a folder of this user's own.
 */
#ifndef GPUMEND_WATCH_PLACE_H
#define GPUMEND_WATCH_PLACE_H

#include "base/arena.h"
#include "base/err.h"

struct watch_library {
    const char *name;           // of the file
    const unsigned char *image; // its content, of watch/images.h
    size_t n;
};

/*
 * Puts the library into CACHE/helpers/HASH/NAME, HASH being that of its bytes, and returns the
 * path, which lives in the arena. What is there already is believed only if it is a file of this
 * user's with these very bytes. `cache` is what folder_of_cache() names; where it is NULL or
 * cannot be written, $XDG_RUNTIME_DIR, $TMPDIR, /dev/shm and /tmp are tried, in a folder
 * gpumend-UID of this user's own.
 *
 * GM_ERR_LOOK: no folder will do. GM_ERR_UNSUPPORTED: there is no library for this machine (n is
 * 0), or every folder has a blank, a colon, a semicolon or a dollar sign in its path, with which
 * LD_PRELOAD and LD_AUDIT cannot name it.
 */
int watch_place(struct arena *a, const char *cache, const struct watch_library *library,
                const char **ret, struct gm_err *err) GM_CHECK;

/* An empty file of this user's own (mode 0600) in CACHE/traces or the folders from above, for what
 * the helpers record. The caller removes it. It is locked (flock(2)) while this process lives;
 * those that are not, whose makers were killed, are removed first. GM_ERR_LOOK: no folder will do.
 */
int watch_record(struct arena *a, const char *cache, const char **ret, struct gm_err *err) GM_CHECK;

/* Memory of `size` bytes, zeroed, that the helpers map by the path, which holds while this process
 * lives. GM_ERR_LOOK: no memory can be shared. */
int watch_shared(struct arena *a, size_t size, void **ret, const char **ret_path,
                 struct gm_err *err) GM_CHECK;

#endif
