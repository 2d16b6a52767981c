#include "watch/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"

enum { TICK_MS = 50, STOPPED_MS = 10000, NUMBER_MAX = 16 };

static const int forwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

/* Those after which no new start is wanted. */
static const int ending[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

/* Variables whose value is the id of the process that they are for (sd_listen_fds(3),
 * sd_watchdog_enabled(3)). */
static const char *const for_process[] = {"LISTEN_PID=", "WATCHDOG_PID="};

struct watcher {
    const struct watch_child *child;
    int signals; // signalfd
    sigset_t before;
    struct termios terminal;
    bool has_terminal;
    int stopped_by; // the last signal that asks for the end, or 0
    int64_t stopped_at_ms;
};

static bool signal_is_one_of(const int *list, size_t n, int number)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i] == number) {
            return true;
        }
    }
    return false;
}

/* What is waited for by the descriptor; the child gets its mask back. */
static void watched_signals(sigset_t *ret)
{
    (void)sigemptyset(ret); // these cannot fail for valid signals
    (void)sigaddset(ret, SIGCHLD);
    for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++) {
        (void)sigaddset(ret, forwarded[i]);
    }
}

/* ------------------------------------------------------------------ in the child */

static void rename_process(char **env, pid_t parent)
{
    char was[NUMBER_MAX], is[NUMBER_MAX];
    (void)snprintf(was, sizeof was, "%ld", (long)parent);
    (void)snprintf(is, sizeof is, "%ld", (long)getpid());
    for (; *env; env++) {
        for (size_t i = 0; i < sizeof for_process / sizeof *for_process; i++) {
            size_t n = strlen(for_process[i]);
            if (strncmp(*env, for_process[i], n) == 0 && strcmp(*env + n, was) == 0) {
                char *mine = malloc(n + sizeof is);
                if (mine) { // else the variable stays: it names nobody
                    (void)snprintf(mine, n + sizeof is, "%s%s", for_process[i], is);
                    *env = mine;
                }
            }
        }
    }
}

static _Noreturn void become(const struct watcher *w, pid_t parent, int report)
{
    const struct watch_child *c = w->child;
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM); // cannot fail for a valid signal
    if (getppid() != parent) {
        _exit(127); // it died before
    }
    if (c->page) {
        c->page->pid = getpid();
    }
    rename_process((char **)c->env, parent); // our copy of the parent's memory
    if (c->restore) {
        c->restore();
    }
    (void)sigprocmask(SIG_SETMASK, &w->before, NULL); // cannot fail for a valid set
    (void)execvpe(c->argv[0], c->argv, c->env);       // returns on failure only
    int error = errno;
    (void)!write(report, &error, sizeof error); // else it ends with status 127, which is told too
    _exit(127);
}

/* ------------------------------------------------------------------ waiting */

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
static void take_signals(struct watcher *w, pid_t child)
{
    struct signalfd_siginfo info;
    while (read(w->signals, &info, sizeof info) == sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD) {
            continue;
        }
        if (signal_is_one_of(ending, sizeof ending / sizeof *ending, number)) {
            w->stopped_by = number;
            w->stopped_at_ms = clock_ms();
        }
        if (child > 0 && info.ssi_code != SI_KERNEL) {
            (void)kill(child, number); // gone: its end is met by waitpid
        }
    }
}

/* Reaps what has ended; true: the child has, with *ret as its status. */
static bool child_reap(pid_t child, int *ret)
{
    int status = 0;
    bool ended = false;
    pid_t got;
    while ((got = waitpid(-1, &status, WNOHANG)) > 0 || (got < 0 && errno == EINTR)) {
        if (got == child) {
            *ret = status;
            ended = true;
        }
    }
    return ended;
}

static void wait_for(struct watcher *w, pid_t child, struct watch_end *ret)
{
    const struct watch_child *c = w->child;
    int64_t began = clock_ms();
    int status = 0;
    while (!child_reap(child, &status)) {
        struct pollfd p = {.fd = w->signals, .events = POLLIN};
        (void)poll(&p, 1, c->tick ? TICK_MS : -1); // interrupted: looked at again
        take_signals(w, child);
        if (c->tick) {
            c->tick(c->tick_arg);
        }
    }
    ret->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    ret->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    ret->core = ret->signal && WCOREDUMP(status);
    ret->lived_ms = clock_ms() - began;
    if (c->tick) {
        c->tick(c->tick_arg);
    }
}

/* Whether the end is what a signal asked for. A program may outlive Ctrl-C, and a crash much later
 * has nothing to do with it. */
static bool end_is_wanted(const struct watcher *w)
{
    return w->stopped_by == SIGTERM ||
           (w->stopped_by && clock_ms() - w->stopped_at_ms < STOPPED_MS);
}

/* Settings that the child took are its own matter unless a signal kept it from putting them back.
 */
static void restore_terminal(const struct watcher *w)
{
    if (w->has_terminal && tcgetpgrp(STDIN_FILENO) == getpgrp()) {
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &w->terminal); // gone: nothing to put back
    }
}

/* False: a signal came that ends the waiting. */
static bool sleep_for(struct watcher *w, unsigned ms)
{
    int64_t until = clock_ms() + ms, now;
    int unused;
    while (!w->stopped_by && (now = clock_ms()) < until) {
        struct pollfd p = {.fd = w->signals, .events = POLLIN};
        (void)poll(&p, 1, (int)(until - now)); // interrupted: looked at again
        take_signals(w, 0);
        (void)child_reap(0, &unused); // orphans
    }
    return !w->stopped_by;
}

/* One start of the child and its end. */
static int run_once(struct watcher *w, struct watch_end *ret, struct gm_err *err)
{
    int report[2];
    if (pipe2(report, O_CLOEXEC) < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "no process can be watched: %s", strerror(errno));
    }
    if (w->child->page) {
        *w->child->page = (struct end_page){.magic = END_MAGIC};
    }
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        become(w, parent, report[1]);
    }
    int error = errno;
    (void)close(report[1]); // a pipe: nothing can be lost
    if (child > 0) {
        *ret = (struct watch_end){.not_started = exec_error(report[0])};
        wait_for(w, child, ret);
    }
    (void)close(report[0]);
    return child < 0 ? gm_err_set(err, GM_ERR_LOOK, "no process can be made: %s", strerror(error))
                     : 0;
}

static int run_until_done(struct watcher *w, struct watch_end *ret, struct gm_err *err)
{
    const struct watch_child *c = w->child;
    unsigned delay_ms = 0;
    while (true) {
        int rc = run_once(w, ret, err);
        if (rc < 0) {
            return rc;
        }
        if (ret->signal) {
            restore_terminal(w);
        }
        if (ret->not_started || end_is_wanted(w) || !c->again ||
            !c->again(c->again_arg, ret, &delay_ms)) {
            return 0;
        }
        w->stopped_by = 0;
        if (!sleep_for(w, delay_ms)) {
            *ret = (struct watch_end){.status = -1, .signal = w->stopped_by};
            return 0;
        }
    }
}

int watch_supervise(const struct watch_child *c, struct watch_end *ret, struct gm_err *err)
{
    struct watcher w = {.child = c};
    sigset_t set;
    watched_signals(&set);
    w.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (w.signals < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "no process can be watched: %s", strerror(errno));
    }
    w.has_terminal = tcgetattr(STDIN_FILENO, &w.terminal) == 0;
    (void)sigprocmask(SIG_BLOCK, &set, &w.before); // cannot fail for a valid set
    int rc = run_until_done(&w, ret, err);
    (void)close(w.signals);
    (void)sigprocmask(SIG_SETMASK, &w.before, NULL); // cannot fail for a valid set
    return rc;
}
