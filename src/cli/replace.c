#include "cli/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/limit.h"

static int write_whole(int fd, const char *text)
{
    size_t n = strlen(text), done = 0;
    while (done < n) {
        ssize_t got = write(fd, text + done, n - done);
        if (got < 0 && errno != EINTR) {
            return -1;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return fchmod(fd, 0644) == 0 && fsync(fd) == 0 ? 0 : -1;
}

/* A dot at its beginning: node_exporter and NFD pass such files over. */
static const char *name_beside(struct arena *a, const char *path)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) < 0) {
        number = (uint64_t)getpid(); // only avoids a clash, about which O_EXCL decides
    }
    return path_join(a, path_dir(a, path),
                     arena_printf(a, ".%s.%016" PRIx64, path_base(path), number));
}

int cli_replace_file(struct arena *a, const char *path, const char *text, struct gm_err *err)
{
    const char *beside = name_beside(a, path);
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", beside, strerror(errno));
    }
    int rc = write_whole(fd, text);
    int why = errno;
    (void)close(fd); // fsync() has said what there is to say
    if (rc == 0 && rename(beside, path) < 0) {
        why = errno;
        rc = -1;
    }
    if (rc < 0) {
        (void)unlink(beside); // may stay: no reader takes it
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(why));
    }
    return 0;
}

/* How a path of an option is written. Nobody else can replace what is the user's or root's in a
 * sticky folder. */
enum output {
    OUTPUT_THROUGH, // a link of the user or root, a pipe or a device: what is there is opened
    OUTPUT_BESIDE,  // a file, or nothing yet: a new file takes the name
};

/* Whether another user could have put the file there to read or keep what is written, as the kernel
 * judges where fs.protected_regular is set. */
static bool is_of_other(struct arena *a, const char *path, const struct stat *st)
{
    struct stat folder;
    return st->st_uid != geteuid() && stat(path_dir(a, path), &folder) == 0 &&
           folder.st_mode & S_ISVTX && folder.st_mode & (S_IWOTH | S_IWGRP) &&
           st->st_uid != folder.st_uid;
}

/* NULL, or why nothing is written there. */
static const char *output_refusal(struct arena *a, const char *path, enum output *ret,
                                  struct stat *ret_st)
{
    *ret = OUTPUT_BESIDE;
    if (lstat(path, ret_st) < 0) {
        ret_st->st_mode = 0;
        return errno == ENOENT ? NULL : strerror(errno);
    }
    *ret = S_ISREG(ret_st->st_mode) ? OUTPUT_BESIDE : OUTPUT_THROUGH;
    if (S_ISDIR(ret_st->st_mode)) {
        return strerror(EISDIR);
    }
    if (S_ISLNK(ret_st->st_mode)) {
        bool own = ret_st->st_uid == geteuid() || ret_st->st_uid == 0;
        return own ? NULL : "it is a link of another user";
    }
    return is_of_other(a, path, ret_st)
               ? "it belongs to another user, in a folder where anyone may put a file"
               : NULL;
}

/* Copies what was kept into the file. Negative errno. */
static int fill_output(int fd, int kept)
{
    char bytes[1 << 16];
    struct stat st;
    ssize_t n = 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(fd, 0) < 0) {
        return -errno;
    }
    while ((n = read(kept, bytes, sizeof bytes)) > 0) {
        for (ssize_t done = 0; done < n;) {
            ssize_t got = write(fd, bytes + done, (size_t)(n - done));
            if (got < 0 && errno != EINTR) {
                return -errno;
            }
            done += got > 0 ? got : 0;
        }
    }
    return n < 0 ? -errno : 0;
}

/* Opens what is there. Negative errno. */
static int open_through(const char *path, enum output how)
{
    int fd =
        open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | (how == OUTPUT_THROUGH ? O_CREAT : O_NOFOLLOW),
             0666);
    return fd < 0 ? -errno : fd;
}

static int write_through(const char *path, enum output how, int kept)
{
    int fd = open_through(path, how);
    int rc = fd < 0 ? fd : fill_output(fd, kept);
    if (fd >= 0 && close(fd) < 0 && rc == 0) {
        rc = -errno;
    }
    return rc;
}

static int open_beside(const char *beside)
{
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return fd < 0 ? -errno : fd;
}

/* A new file with the mode and, where that is allowed, the owner of the one that it replaces. */
static int write_beside(const char *path, const char *beside, const struct stat *old, int kept)
{
    int fd = open_beside(beside);
    if (fd < 0) {
        return fd;
    }
    int rc = fill_output(fd, kept);
    if (rc == 0 && old->st_mode) {
        bool given = fchown(fd, old->st_uid, old->st_gid) == 0;
        rc = fchmod(fd, old->st_mode & (given ? 0777 : 0755)) < 0 ? -errno : 0;
    }
    if (close(fd) < 0 && rc == 0) {
        rc = -errno;
    }
    if (rc == 0 && rename(beside, path) < 0) {
        rc = -errno;
    }
    if (rc < 0) {
        (void)unlink(beside); // may stay: that is said
    }
    return rc;
}

/* Whether what is there is written where it is: no file can be made in its folder, or another be
 * put in its place (it is mounted alone). */
static bool stays_in_place(int rc, enum output how, const struct stat *old)
{
    return how == OUTPUT_THROUGH ||
           (old->st_mode && (rc == -EACCES || rc == -EPERM || rc == -EROFS || rc == -EBUSY));
}

/* NULL, or why it could not be written. */
static const char *write_output(struct arena *a, const char *path, int kept)
{
    enum output how;
    struct stat old;
    const char *refusal = output_refusal(a, path, &how, &old);
    if (refusal) {
        return refusal;
    }
    int rc = how == OUTPUT_BESIDE ? write_beside(path, name_beside(a, path), &old, kept) : -EBUSY;
    if (rc < 0 && stays_in_place(rc, how, &old)) {
        rc = write_through(path, how, kept);
    }
    return rc < 0 ? strerror(-rc) : NULL;
}

/* NULL, or why the file could not be written, before anything is looked at. */
static const char *try_output(struct arena *a, const char *path)
{
    enum output how;
    struct stat old, st;
    const char *refusal = output_refusal(a, path, &how, &old);
    if (refusal || (how == OUTPUT_THROUGH && stat(path, &st) == 0 && !S_ISREG(st.st_mode))) {
        return refusal; // opening a pipe could wait
    }
    const char *beside = name_beside(a, path);
    int fd = how == OUTPUT_BESIDE ? open_beside(beside) : -EBUSY;
    if (fd >= 0 && unlink(beside) < 0) {
        int rc = errno;
        (void)close(fd); // nothing was written
        return strerror(rc);
    }
    if (fd < 0 && stays_in_place(fd, how, &old)) {
        fd = open_through(path, how);
    }
    if (fd < 0) {
        return strerror(-fd);
    }
    (void)close(fd); // nothing was written
    return NULL;
}

/* What the child has written whole becomes the file; its status is this one's. */
_Noreturn static void finish_output(const char *command, const char *path, int kept, pid_t child)
{
    int state = 0;
    struct stat st;
    struct arena a;
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(state)) {
        (void)signal(WTERMSIG(state), SIG_DFL);
        (void)raise(WTERMSIG(state));
    }
    int status = WIFEXITED(state) ? WEXITSTATUS(state) : CLI_CANNOT;
    if (status == CLI_LIMIT_STOPPED || fstat(kept, &st) < 0 || st.st_size == 0) {
        _exit(status == CLI_LIMIT_STOPPED ? CLI_CANNOT : status);
    }
    cli_arena_init(&a);
    const char *why = lseek(kept, 0, SEEK_SET) < 0 ? strerror(errno) : write_output(&a, path, kept);
    if (why) {
        status = cli_fail(CLI_CANNOT, "%s: %s: %s", command, path, why);
    }
    _exit(status);
}

int cli_redirect_output(const char *command, const char *path)
{
    if (strcmp(path, "-") == 0) {
        return CLI_OK;
    }
    struct arena a;
    cli_arena_init(&a);
    const char *why = try_output(&a, path);
    int rc = why ? cli_fail(CLI_CANNOT, "%s: %s: %s", command, path, why) : CLI_OK;
    arena_release(&a);
    if (rc != CLI_OK) {
        return rc;
    }
    int kept = memfd_create("gpumend", MFD_CLOEXEC);
    pid_t child = kept < 0 ? -1 : fork();
    if (child < 0) {
        return cli_fail(CLI_CANNOT, "%s: %s: %s", command, path, strerror(errno));
    }
    if (child > 0) {
        finish_output(command, path, kept, child);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // this cannot fail for a valid signal
    cli_limit_restart_below();
    return dup2(kept, STDOUT_FILENO) < 0
               ? cli_fail(CLI_CANNOT, "%s: %s: %s", command, path, strerror(errno))
               : CLI_OK;
}
