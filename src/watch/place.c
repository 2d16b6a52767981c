#include "watch/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/str.h"
#include "mend/folder.h"

enum { PLACES = 5 };

/* ld.so splits LD_PRELOAD at blanks and colons, LD_AUDIT at colons, and expands $ in both. */
static bool can_be_named(const char *path)
{
    return strpbrk(path, " \t\n:;$") == NULL;
}

/* Where a folder of our own may be made, best first; NULL: not this one. */
static void places(struct arena *a, const char *cache, const char *ret[PLACES])
{
    const char *const bases[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/dev/shm", "/tmp"};
    ret[0] = cache;
    for (size_t i = 1; i < PLACES; i++) {
        const char *base = bases[i - 1];
        ret[i] = base && base[0] == '/'
                     ? arena_printf(a, "%s/gpumend-%u", base, (unsigned)geteuid())
                     : NULL;
    }
}

/* Opens FOLDER/PART, making what is missing, each of them this user's own. */
static int open_folder(struct arena *a, const char *folder, const char *part, struct gm_err *err)
{
    int fd = mend_own_folder(folder, err);
    if (fd < 0) {
        return fd;
    }
    (void)close(fd); // a folder: nothing can be lost
    return mend_own_folder(path_join(a, folder, part), err);
}

static bool write_all(int fd, const unsigned char *bytes, size_t n)
{
    while (n) {
        ssize_t got = write(fd, bytes, n);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        bytes += got;
        n -= (size_t)got;
    }
    return true;
}

/* Whether the file is this user's, no other's to write, and holds these bytes. */
static bool is_right(int folder, const char *name, const unsigned char *bytes, size_t n)
{
    unsigned char piece[16384];
    struct stat st;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    bool right = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
                 !(st.st_mode & (S_IWGRP | S_IWOTH)) && (size_t)st.st_size == n;
    size_t at = 0;
    while (right && at < n) {
        ssize_t got = read(fd, piece, n - at < sizeof piece ? n - at : sizeof piece);
        right = got > 0 && memcmp(piece, bytes + at, (size_t)got) == 0;
        at += right ? (size_t)got : 0;
    }
    (void)close(fd); // only read
    return right;
}

static int write_file(struct arena *a, int folder, const char *path, const char *name,
                      const unsigned char *bytes, size_t n, struct gm_err *err)
{
    const char *temporary = arena_printf(a, ".%s.%ld", name, (long)getpid());
    (void)unlinkat(folder, temporary, 0); // of an earlier process with this id, or not there
    int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0500);
    if (fd < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(errno));
    }
    bool written = write_all(fd, bytes, n);
    written = close(fd) == 0 && written;
    if (!written || renameat(folder, temporary, folder, name) < 0) {
        int rc = gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(errno));
        (void)unlinkat(folder, temporary, 0); // the error from above is the one that counts
        return rc;
    }
    return 0;
}

static int place_in(struct arena *a, const char *base, const char *name, const unsigned char *bytes,
                    size_t n, const char **ret, struct gm_err *err)
{
    const char *part = arena_printf(a, "helpers/%016llx", (unsigned long long)str_hash(bytes, n));
    const char *path = arena_printf(a, "%s/%s/%s", base, part, name);
    if (!can_be_named(path)) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "%s cannot be named in LD_PRELOAD or LD_AUDIT: its path has a blank, a "
                          "colon, a semicolon or a dollar sign", path);
    }
    int folder = open_folder(a, base, part, err);
    if (folder < 0) {
        return folder;
    }
    struct statvfs fs;
    if (fstatvfs(folder, &fs) == 0 && fs.f_flag & ST_NOEXEC) {
        (void)close(folder); // a folder: nothing can be lost
        return gm_err_set(err, GM_ERR_LOOK, "%s: nothing may be executed from that file system", base);
    }
    int rc = is_right(folder, name, bytes, n) ? 0
                                              : write_file(a, folder, path, name, bytes, n, err);
    if (rc == 0 && !is_right(folder, name, bytes, n)) {
        rc = gm_err_set(err, GM_ERR_LOOK, "%s does not hold what was written", path);
    }
    (void)close(folder); // a folder: nothing can be lost
    if (rc == 0) {
        *ret = path;
    }
    return rc;
}

int watch_place(struct arena *a, const char *cache, const char *name, const unsigned char *bytes,
                size_t n, const char **ret, struct gm_err *err)
{
    const char *bases[PLACES];
    int rc = GM_ERR_LOOK;
    bool told = false;
    if (n == 0) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "this gpumend has no helper library for this machine");
    }
    places(a, cache, bases);
    for (size_t i = 0; i < PLACES; i++) {
        if (!bases[i]) {
            continue;
        }
        /* What stands against the first place is what the user can mend. */
        rc = place_in(a, bases[i], name, bytes, n, ret, told ? NULL : err);
        told = true;
        if (rc == 0) {
            return 0;
        }
    }
    return rc;
}

static int record_in(struct arena *a, const char *base, const char **ret, struct gm_err *err)
{
    char *path = arena_printf(a, "%s/traces/XXXXXX", base);
    int folder = open_folder(a, base, "traces", err);
    if (folder < 0) {
        return folder;
    }
    (void)close(folder); // a folder: nothing can be lost
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(errno));
    }
    (void)close(fd); // empty
    *ret = path;
    return 0;
}

int watch_record(struct arena *a, const char *cache, const char **ret, struct gm_err *err)
{
    const char *bases[PLACES];
    bool told = false;
    int rc = GM_ERR_LOOK;
    places(a, cache, bases);
    for (size_t i = 0; i < PLACES; i++) {
        if (!bases[i]) {
            continue;
        }
        rc = record_in(a, bases[i], ret, told ? NULL : err);
        told = true;
        if (rc == 0) {
            return 0;
        }
    }
    return rc;
}

int watch_shared(struct arena *a, size_t size, void **ret, const char **ret_path,
                 struct gm_err *err)
{
    int fd = memfd_create("gpumend-page", MFD_CLOEXEC);
    void *page = fd < 0 || ftruncate(fd, (off_t)size) < 0
                     ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        return gm_err_set(err, GM_ERR_LOOK, "no memory can be shared with the program: %s",
                          strerror(errno));
    }
    *ret = page;
    *ret_path = arena_printf(a, "/proc/%ld/fd/%d", (long)getpid(), fd); // stays open for the path
    return 0;
}
