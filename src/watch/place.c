#include "watch/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "base/folder.h"

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
        base = base && base[0] == '/' ? folder_safe_path(a, base, NULL) : NULL;
        ret[i] = base ? arena_printf(a, "%s/gpumend-%u", base, (unsigned)geteuid()) : NULL;
    }
}

/* Opens FOLDER/PART, making what is missing, each of them this user's own. */
static int place_open_folder(struct arena *a, const char *folder, const char *part,
                             struct gm_err *err)
{
    int fd = folder_own(folder, err);
    if (fd < 0) {
        return fd;
    }
    (void)close(fd); // a folder: nothing can be lost
    return folder_own(path_join(a, folder, part), err);
}

static bool library_write(int fd, const unsigned char *bytes, size_t n)
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
static bool is_right(int folder, const struct watch_library *library)
{
    unsigned char piece[16384];
    struct stat st;
    int fd = openat(folder, library->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    bool right = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
                 !(st.st_mode & (S_IWGRP | S_IWOTH)) && (size_t)st.st_size == library->n;
    size_t at = 0;
    while (right && at < library->n) {
        size_t left = library->n - at;
        ssize_t got = read(fd, piece, left < sizeof piece ? left : sizeof piece);
        right = got > 0 && memcmp(piece, library->image + at, (size_t)got) == 0;
        at += right ? (size_t)got : 0;
    }
    (void)close(fd); // only read
    return right;
}

static int write_library(struct arena *a, int folder, const char *path,
                         const struct watch_library *library, struct gm_err *err)
{
    const char *temporary = arena_printf(a, ".%s.%ld", library->name, (long)getpid());
    (void)unlinkat(folder, temporary, 0); // of an earlier process with this id, or not there
    int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0500);
    if (fd < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(errno));
    }
    bool written = library_write(fd, library->image, library->n);
    written = close(fd) == 0 && written;
    if (!written || renameat(folder, temporary, folder, library->name) < 0) {
        int rc = gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(errno));
        (void)unlinkat(folder, temporary, 0); // the error from above is the one that counts
        return rc;
    }
    return 0;
}

static int place_in(struct arena *a, const char *base, const struct watch_library *library,
                    const char **ret, struct gm_err *err)
{
    uint64_t hash = str_hash(library->image, library->n);
    const char *part = arena_printf(a, "helpers/%016llx", (unsigned long long)hash);
    const char *path = arena_printf(a, "%s/%s/%s", base, part, library->name);
    if (!can_be_named(path)) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "%s cannot be named in LD_PRELOAD or LD_AUDIT: its path has a blank, a "
                          "colon, a semicolon or a dollar sign",
                          path);
    }
    int folder = place_open_folder(a, base, part, err);
    if (folder < 0) {
        return folder;
    }
    struct statvfs fs;
    if (fstatvfs(folder, &fs) == 0 && fs.f_flag & ST_NOEXEC) {
        (void)close(folder); // a folder: nothing can be lost
        return gm_err_set(err, GM_ERR_LOOK, "%s: nothing may be executed from that file system",
                          base);
    }
    int rc = is_right(folder, library) ? 0 : write_library(a, folder, path, library, err);
    if (rc == 0 && !is_right(folder, library)) {
        rc = gm_err_set(err, GM_ERR_LOOK, "%s does not hold what was written", path);
    }
    (void)close(folder); // a folder: nothing can be lost
    if (rc == 0) {
        *ret = path;
    }
    return rc;
}

int watch_place(struct arena *a, const char *cache, const struct watch_library *library,
                const char **ret, struct gm_err *err)
{
    const char *bases[PLACES];
    int rc = GM_ERR_LOOK;
    bool told = false;
    if (library->n == 0) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "this gpumend has no helper library for this machine");
    }
    places(a, cache, bases);
    for (size_t i = 0; i < PLACES; i++) {
        if (!bases[i]) {
            continue;
        }
        /* What stands against the first place is what the user can mend. */
        rc = place_in(a, bases[i], library, ret, told ? NULL : err);
        told = true;
        if (rc == 0) {
            return 0;
        }
    }
    return rc;
}

/* ------------------------------------------------------------------ records */

enum { RANDOM = 6, BOOT = 8, FOREIGN_MAX_S = 7 * 24 * 3600 };

static const char record_begins[] = "trace-";

/* What tells the records of this kernel, in which a lock is seen by all, from those of others: of
 * an earlier start, or of a virtual machine with which the folder is shared. */
static const char *boot_mark(struct arena *a)
{
    char id[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, id, sizeof id);
    if (fd >= 0) {
        (void)close(fd); // only read
    }
    return n <= 0 ? NULL
                  : arena_printf(a, "%0*llx", BOOT,
                                 (unsigned long long)(str_hash(id, (size_t)n) & 0xffffffffu));
}

/* Whether the file is still what the name in the folder stands for. */
static bool file_is_named(int folder, const char *name, const struct stat *st)
{
    struct stat now;
    return fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_dev == st->st_dev &&
           now.st_ino == st->st_ino;
}

/* Removes a record whose maker is gone, be it by SIGKILL: nobody has it locked. */
static void sweep_one(int folder, const char *name, const char *boot)
{
    struct stat st;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return;
    }
    bool ours = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
    bool here = boot && strncmp(name + sizeof record_begins - 1, boot, BOOT) == 0;
    if (ours && (here || time(NULL) - st.st_mtime > FOREIGN_MAX_S) &&
        flock(fd, LOCK_EX | LOCK_NB) == 0 && file_is_named(folder, name, &st)) {
        (void)unlinkat(folder, name, 0); // else it is met again by the next
    }
    (void)close(fd); // only read
}

static void sweep(int folder, const char *boot)
{
    int again = dup(folder);
    DIR *d = again < 0 ? NULL : fdopendir(again);
    if (!d) {
        if (again >= 0) {
            (void)close(again); // a folder: nothing can be lost
        }
        return;
    }
    for (struct dirent *e; (e = readdir(d));) {
        if (starts_with(e->d_name, record_begins) &&
            strlen(e->d_name) == sizeof record_begins - 1 + BOOT + 1 + RANDOM) {
            sweep_one(folder, e->d_name, boot);
        }
    }
    (void)closedir(d); // only read
}

/* A new file that is locked while this process lives; -1 with errno, EAGAIN: another's sweep was
 * faster than the lock. */
static int make_record(int folder, char *path)
{
    struct stat st;
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    /* A file system without locks has none that would let another take the file for left over. */
    (void)flock(fd, LOCK_EX);
    if (fstat(fd, &st) == 0 && file_is_named(folder, path_base(path), &st)) {
        return fd;
    }
    (void)close(fd); // empty
    errno = EAGAIN;
    return -1;
}

static int record_in(struct arena *a, const char *base, const char **ret, struct gm_err *err)
{
    const char *boot = boot_mark(a);
    char *path = NULL;
    int folder = place_open_folder(a, base, "traces", err), fd = -1;
    if (folder < 0) {
        return folder;
    }
    sweep(folder, boot);
    for (int i = 0; i < 8 && (i == 0 || (fd < 0 && errno == EAGAIN)); i++) {
        path =
            arena_printf(a, "%s/traces/%s%s-XXXXXX", base, record_begins, boot ? boot : "00000000");
        fd = make_record(folder, path);
    }
    int rc = fd < 0 ? gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(errno)) : 0;
    (void)close(folder); // a folder: nothing can be lost
    if (rc == 0) {
        *ret = path; // fd stays open: it is the lock
    }
    return rc;
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
    /* The program can open it too: were it to shrink, reading it would end this process. */
    int fd = memfd_create("gpumend-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *page = fd < 0 || ftruncate(fd, (off_t)size) < 0 ||
                         fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0
                     ? MAP_FAILED
                     : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        return gm_err_set(err, GM_ERR_LOOK, "no memory can be shared with the program: %s",
                          strerror(errno));
    }
    *ret = page;
    *ret_path = arena_printf(a, "/proc/%ld/fd/%d", (long)getpid(), fd); // stays open for the path
    return 0;
}
