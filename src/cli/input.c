#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <unistd.h>

enum { WRITER_SECONDS = 10 };

static void on_time(int signal_number)
{
    (void)signal_number; // open() ends with EINTR
}

/* Opens a pipe, whose other end may be missing: then open() waits for it. */
static int open_pipe(const char *path)
{
    struct sigaction ours = {.sa_handler = on_time}, former;
    struct itimerval time = {.it_value = {.tv_sec = WRITER_SECONDS}}, before;
    (void)sigaction(SIGALRM, &ours, &former); // these cannot fail for valid arguments
    (void)setitimer(ITIMER_REAL, &time, &before);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int why = errno;
    (void)setitimer(ITIMER_REAL, &before, NULL);
    (void)sigaction(SIGALRM, &former, NULL);
    errno = why;
    return fd;
}

/* Disks, and what the kernel's memory devices give: all but /dev/null and the kernel's log. */
static bool is_endless(const struct stat *st)
{
    enum { MEMORY = 1, NUL = 3, KERNEL_LOG = 11 };
    unsigned number = minor(st->st_rdev);
    return S_ISBLK(st->st_mode) || (S_ISCHR(st->st_mode) && major(st->st_rdev) == MEMORY &&
                                    number != NUL && number != KERNEL_LOG);
}

int cli_open_input(const char *path, const char **ret_why)
{
    struct stat st;
    bool is_pipe = stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
    int fd = is_pipe ? open_pipe(path) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        *ret_why = is_pipe && errno == EINTR
                       ? "it is a pipe that no program opened for writing within 10 seconds"
                       : strerror(errno);
        return -1;
    }
    if (fstat(fd, &st) == 0 && is_endless(&st)) {
        (void)close(fd); // nothing was read
        *ret_why = "it is a device, not a file";
        return -1;
    }
    return fd;
}
