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

/* Whether the path is a link, and whose. Nobody else can replace a link in a sticky folder. */
static bool is_own_link(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) &&
           (st.st_uid == geteuid() || st.st_uid == 0);
}

/* Opens the file of an option and leaves what is in it; negative errno, -ELOOP: a link of another
 * user. */
static int open_output(const char *path, bool *ret_made)
{
    const int flags = O_WRONLY | O_CLOEXEC;
    int fd = open(path, flags | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
    *ret_made = fd >= 0;
    if (fd < 0 && errno == EEXIST) {
        fd = open(path, flags | O_NOFOLLOW);
    }
    if (fd < 0 && errno == ELOOP && is_own_link(path)) {
        fd = open(path, flags | O_CREAT, 0666);
    }
    return fd < 0 ? -errno : fd;
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

static int say_output(const char *command, const char *path, int rc)
{
    return cli_fail(CLI_CANNOT, "%s: %s: %s", command, path,
                    rc == -ELOOP ? "it is a link of another user" : strerror(-rc));
}

/* What the child has written whole becomes the file; its status is this one's. */
_Noreturn static void finish_output(const char *command, const char *path, int kept, pid_t child)
{
    int state = 0;
    struct stat st;
    bool made = false;
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
    int fd = open_output(path, &made);
    int rc = fd < 0 ? fd : lseek(kept, 0, SEEK_SET) < 0 ? -errno : fill_output(fd, kept);
    if (rc < 0) {
        if (made) {
            (void)unlink(path); // may stay: that is said
        }
        status = say_output(command, path, rc);
    }
    _exit(status);
}

/* Whether the file could be written, before anything is looked at. Negative errno. */
static int try_output(const char *path)
{
    bool made = false;
    int fd = open_output(path, &made);
    if (fd < 0) {
        return fd;
    }
    if (made && unlink(path) < 0) {
        int rc = -errno;
        (void)close(fd); // nothing was written
        return rc;
    }
    (void)close(fd); // nothing was written
    return 0;
}

int cli_redirect_output(const char *command, const char *path)
{
    if (strcmp(path, "-") == 0) {
        return CLI_OK;
    }
    struct stat st;
    int rc = stat(path, &st) < 0 || S_ISREG(st.st_mode) ? try_output(path) : 0;
    if (rc < 0) {
        return say_output(command, path, rc);
    }
    int kept = memfd_create("gpumend", MFD_CLOEXEC);
    pid_t child = kept < 0 ? -1 : fork();
    if (child < 0) {
        return say_output(command, path, -errno);
    }
    if (child > 0) {
        finish_output(command, path, kept, child);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // this cannot fail for a valid signal
    cli_limit_restart_below();
    return dup2(kept, STDOUT_FILENO) < 0 ? say_output(command, path, -errno) : CLI_OK;
}
