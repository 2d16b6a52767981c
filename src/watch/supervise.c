#include "watch/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TICK_MS = 50 };

static const int forwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

/* What is waited for by the descriptor; the child gets its mask back. */
static void watched(sigset_t *ret)
{
    (void)sigemptyset(ret); // these cannot fail for valid signals
    (void)sigaddset(ret, SIGCHLD);
    for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++) {
        (void)sigaddset(ret, forwarded[i]);
    }
}

static _Noreturn void become(const struct watch_child *c, const sigset_t *mask, int report)
{
    int error;
    if (c->restore) {
        c->restore();
    }
    (void)sigprocmask(SIG_SETMASK, mask, NULL); // cannot fail for a valid set
    (void)execvpe(c->argv[0], c->argv, c->env); // returns on failure only
    error = errno;
    (void)!write(report, &error, sizeof error); // else it ends with status 127, which is told too
    _exit(127);
}

/* The errno of an exec that failed; 0: it did not. */
static int exec_error(int report)
{
    int error = 0;
    ssize_t got;
    do {
        got = read(report, &error, sizeof error);
    } while (got < 0 && errno == EINTR);
    return got == sizeof error ? error : 0;
}

/* A signal of the terminal reaches the child without us; one that a process sent does not. */
static void forward(int signals, pid_t child)
{
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo != SIGCHLD && info.ssi_code != SI_KERNEL) {
            (void)kill(child, (int)info.ssi_signo); // gone: its end is met by waitpid
        }
    }
}

static void wait_for(const struct watch_child *c, pid_t child, int signals, struct watch_end *ret)
{
    int status = 0;
    pid_t got;
    while ((got = waitpid(child, &status, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
        struct pollfd p = {.fd = signals, .events = POLLIN};
        (void)poll(&p, 1, c->tick ? TICK_MS : -1); // interrupted: looked at again
        forward(signals, child);
        if (c->tick) {
            c->tick(c->tick_arg);
        }
    }
    ret->status = got == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    ret->signal = got == child && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    ret->core = ret->signal && WCOREDUMP(status);
    if (c->tick) {
        c->tick(c->tick_arg);
    }
}

int watch_supervise(const struct watch_child *c, struct watch_end *ret, struct gm_err *err)
{
    sigset_t set, before;
    int report[2];
    watched(&set);
    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0 || pipe2(report, O_CLOEXEC) < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "no process can be watched: %s", strerror(errno));
    }
    (void)sigprocmask(SIG_BLOCK, &set, &before); // cannot fail for a valid set
    pid_t child = fork();
    if (child == 0) {
        become(c, &before, report[1]);
    }
    int error = errno;
    (void)close(report[1]); // a pipe: nothing can be lost
    if (child > 0) {
        *ret = (struct watch_end){.not_started = exec_error(report[0])};
        wait_for(c, child, signals, ret);
    }
    (void)close(report[0]);
    (void)close(signals);
    (void)sigprocmask(SIG_SETMASK, &before, NULL); // cannot fail for a valid set
    return child < 0 ? gm_err_set(err, GM_ERR_LOOK, "no process can be made: %s", strerror(error))
                     : 0;
}
