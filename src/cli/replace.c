#include "cli/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"

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

/* Negative errno; -ELOOP: a link of another user. */
static int redirect(const char *path)
{
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
    struct stat st;
    int fd = open(path, flags | O_NOFOLLOW, 0666);
    if (fd < 0 && errno == ELOOP && is_own_link(path)) {
        fd = open(path, flags, 0666);
    }
    if (fd < 0) {
        return -errno;
    }
    int rc = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? ftruncate(fd, 0) : 0;
    rc = rc == 0 && dup2(fd, STDOUT_FILENO) < 0 ? -1 : rc;
    rc = rc < 0 ? -errno : 0;
    (void)close(fd); // standard output is another
    return rc;
}

int cli_redirect_output(const char *command, const char *path)
{
    int rc = strcmp(path, "-") == 0 ? 0 : redirect(path);
    return rc == 0 ? CLI_OK
                   : cli_fail(CLI_CANNOT, "%s: %s: %s", command, path,
                              rc == -ELOOP ? "it is a link of another user" : strerror(-rc));
}
