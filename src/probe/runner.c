#include "probe/runner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "probe/internal.h"
#include "probe/listen.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2) // linux/close_range.h, kernel 5.11
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U // linux/memfd.h, kernel 6.3
#endif

enum {
    READ_BYTES = 4096,
    TICK_MS = 20,   // between two looks at a child where the kernel has no pidfd
    GRACE_MS = 500, // between SIGTERM and SIGKILL
    REAP_MS = 2000, // after SIGKILL
    DRAIN_MS = 200, // for output that a grandchild holds open
    FIRST_FD = 16,  // descriptors of the parent are put above what the child counts on
};

/* ------------------------------------------------------------------ the image */

static bool pipe_write_all(int fd, const unsigned char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n <= 0) {
            return false;
        }
        data += n, size -= (size_t)n;
    }
    return true;
}

static int memory_file(void)
{
    int fd = memfd_create("gpumend-probe", MFD_CLOEXEC | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) { // before 6.3
        fd = memfd_create("gpumend-probe", MFD_CLOEXEC);
    }
    if (fd >= 0 && !pipe_write_all(fd, probe_helper_image, probe_helper_image_size)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static bool fds_are_same_file(int a, int b)
{
    struct stat one, other;
    return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* A file that has no name any more once it is open. The kernel runs nothing that is open for
 * writing, so it is opened twice. */
static int named_file(struct arena *a, const char *folder)
{
    char *path = arena_printf(a, "%s/gpumend-probe-XXXXXX", folder);
    int out = mkostemp(path, O_CLOEXEC), fd = -1;
    if (out < 0) {
        return -1;
    }
    if (pipe_write_all(out, probe_helper_image, probe_helper_image_size) &&
        fchmod(out, 0700) == 0) {
        fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    }
    /* Where others may write, another file can have taken its name meanwhile. */
    if (fd >= 0 && !fds_are_same_file(out, fd)) {
        (void)close(fd);
        fd = -1;
    }
    (void)unlink(path);
    (void)close(out);
    return fd;
}

void probe_helper_open(struct arena *a, const char *const *env, size_t n_env,
                       struct probe_helper *ret)
{
    *ret = PROBE_HELPER_EMPTY;
    if (probe_helper_image_size == 0) {
        ret->why = "this build of gpumend has no probe helper for this architecture";
        return;
    }
    const char *folders[] = {env_value(env, n_env, "XDG_RUNTIME_DIR"),
                             env_value(env, n_env, "TMPDIR"), "/tmp"};
    int fd = memory_file();
    for (size_t i = 0; fd < 0 && i < sizeof folders / sizeof *folders; i++) {
        if (folders[i] && folders[i][0] == '/') {
            fd = named_file(a, folders[i]);
        }
    }
    ret->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
    if (fd >= 0) {
        (void)close(fd);
    }
    ret->why = ret->fd < 0 ? "the probe helper cannot be started: there are neither memory files "
                             "nor a folder for temporary files"
                           : NULL;
}

void probe_helper_close(struct probe_helper *h)
{
    if (h->fd >= 0) {
        (void)close(h->fd);
    }
    h->fd = -1;
}

/* ------------------------------------------------------------------ the start */

struct pipes {
    int report[2], output[2], start[2]; // start: an errno, if it could not be started
};

static void pipes_close(struct pipes *p)
{
    int *const all[] = {p->report, p->output, p->start};
    for (size_t i = 0; i < 6; i++) {
        int *fd = &all[i / 2][i % 2];
        if (*fd >= 0) {
            (void)close(*fd);
        }
        *fd = -1;
    }
}

static void close_end(int *fd)
{
    (void)close(*fd);
    *fd = -1;
}

/* A pipe whose ends lie above the descriptors that the child gives away. */
static bool pipe_above(int ret[2])
{
    int low[2];
    if (pipe2(low, O_CLOEXEC) < 0) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        ret[i] = fcntl(low[i], F_DUPFD_CLOEXEC, FIRST_FD);
        (void)close(low[i]);
    }
    return ret[0] >= 0 && ret[1] >= 0;
}

/* argv[0] is the path of a program that is not the helper. */
static void execute(int fd, char *const *argv, char *const *envp)
{
    if (fd < 0) {
        (void)execve(argv[0], argv, envp); // returns on failure only
        return;
    }
    (void)syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH); // returns on failure only
    if (errno == ENOSYS || errno == EPERM) { // a sandbox that knows no execveat
        int first = errno; // the other call fails for a reason of its own where there is no /proc
        char path[48];
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        (void)execve(path, argv, envp);
        errno = first;
    }
}

/* In the child: never returns. */
static void child_become(int image, char *const *argv, char *const *envp, const struct pipes *p,
                         pid_t parent)
{
    struct rlimit none = {0, 0};
    sigset_t empty;
    (void)setpgid(0, 0);                    // the group is for ending it; without it one is ended
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // cannot fail for a valid signal
    (void)setrlimit(RLIMIT_CORE, &none);    // lowering is always allowed
    (void)sigemptyset(&empty);
    (void)sigprocmask(SIG_SETMASK, &empty, NULL);
    for (int s = 1; s < NSIG; s++) {
        (void)signal(s, SIG_DFL); // SIGKILL and SIGSTOP refuse, as they should
    }
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (getppid() == parent && null >= 0 && dup2(null, STDIN_FILENO) >= 0 &&
        dup2(p->output[1], STDOUT_FILENO) >= 0 && dup2(p->output[1], STDERR_FILENO) >= 0 &&
        dup2(p->report[1], 3) >= 0 && chdir("/") == 0) {
        // What the caller has open; kernels before 5.11 leave it.
        (void)syscall(SYS_close_range, 4, ~0U, CLOSE_RANGE_CLOEXEC);
        execute(image, argv, envp);
    }
    int why = errno;
    ssize_t n = write(p->start[1], &why, sizeof why);
    (void)n; // the parent sees the status then
    _exit(127);
}

static char **words(struct arena *a, const char *first, const char *const *items, size_t n)
{
    char **list = arena_array(a, n + 2, sizeof *list);
    size_t k = 0;
    if (first) {
        list[k++] = arena_strdup(a, first);
    }
    for (size_t i = 0; i < n; i++) {
        list[k++] = arena_strdup(a, items[i]);
    }
    return list;
}

/* ------------------------------------------------------------------ what it says */

/* Reads what is there; closes the descriptor when nobody can write any more. */
static void listen_to(struct listener *l, int *fd,
                      void (*take)(struct listener *l, const char *data, size_t n))
{
    char buffer[READ_BYTES];
    ssize_t n = read(*fd, buffer, sizeof buffer);
    if (n > 0) {
        take(l, buffer, (size_t)n);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        close_end(fd);
    }
}

/* ------------------------------------------------------------------ the wait */

struct watch {
    pid_t pid;
    int pidfd; // -1: none; also once it has told
    int status;
    bool gone;        // reaped
    int64_t ended;    // when it was reaped
    int64_t deadline; // of the next step against it
    enum { WATCH_RUNS, WATCH_TERMINATED, WATCH_KILLED, WATCH_LEFT } phase;
};

static void send_signal(const struct watch *w, int signal_number)
{
    (void)kill(-w->pid, signal_number);
    (void)kill(w->pid, signal_number); // should it have no group yet
}

/* Ends it by steps, each at its time. */
static void press(struct watch *w, int64_t now)
{
    if (w->gone || now < w->deadline) {
        return;
    }
    switch (w->phase) {
    case WATCH_RUNS:
        send_signal(w, SIGTERM);
        send_signal(w, SIGCONT); // a stopped one could not act on it
        w->phase = WATCH_TERMINATED;
        w->deadline = now + GRACE_MS;
        break;
    case WATCH_TERMINATED:
        send_signal(w, SIGKILL);
        w->phase = WATCH_KILLED;
        w->deadline = now + REAP_MS;
        break;
    case WATCH_KILLED:
    case WATCH_LEFT: w->phase = WATCH_LEFT; break;
    }
}

/* What it left behind in its group is ended while the number of the group is still its own. */
static void watch_reap(struct watch *w, int64_t now)
{
    siginfo_t seen = {.si_pid = 0};
    bool over = !w->gone && waitid(P_PID, (id_t)w->pid, &seen, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                seen.si_pid == w->pid;
    if (over) {
        (void)kill(-w->pid, SIGKILL); // there may be nothing left
        w->gone = waitpid(w->pid, &w->status, WNOHANG) == w->pid;
        w->ended = now;
    }
}

/* How long to sleep: to the next step, or a tick where the end of the child cannot be heard. */
static int patience(const struct watch *w, int64_t now)
{
    int64_t left = w->deadline > now ? w->deadline - now : 0;
    bool deaf = w->gone || w->pidfd < 0;
    return (int)(deaf && left > TICK_MS ? TICK_MS : left > 60000 ? 60000 : left);
}

static void watch_child(struct listener *l, struct pipes *p, struct watch *w, int stop_fd)
{
    while (w->phase != WATCH_LEFT) {
        int64_t now = clock_ms();
        bool open = p->report[0] >= 0 || p->output[0] >= 0;
        if (w->gone && (!open || now - w->ended >= DRAIN_MS)) {
            break;
        }
        struct pollfd fds[] = {{.fd = p->report[0], .events = POLLIN},
                               {.fd = p->output[0], .events = POLLIN},
                               {.fd = w->gone ? -1 : w->pidfd, .events = POLLIN},
                               {.fd = l->answer->stopped ? -1 : stop_fd, .events = POLLIN}};
        int ready = poll(fds, 4, patience(w, now));
        if (ready > 0 && fds[0].revents) {
            listen_to(l, &p->report[0], listener_take_report);
        }
        if (ready > 0 && fds[1].revents) {
            listen_to(l, &p->output[0], listener_take_output);
        }
        if (ready > 0 && fds[3].revents && w->phase == WATCH_RUNS) {
            l->answer->stopped = true;
            w->deadline = clock_ms();
        }
        watch_reap(w, clock_ms());
        if (ready > 0 && fds[2].revents && !w->gone) {
            close_end(&w->pidfd); // it ended and another holds it (a debugger): ask by the clock
        }
        press(w, clock_ms());
    }
}

/* ------------------------------------------------------------------ the result */

/* State and parent of a process, by /proc/PID/stat; '?' and 0: not known. */
static char process_state(pid_t pid, pid_t *ret_parent)
{
    char path[48], text[512];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) {
        (void)close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    const char *paren = strrchr(text, ')'); // "PID (NAME) STATE": a name may hold anything
    bool known = paren && paren[1] == ' ' && paren[2] && paren[3] == ' ';
    *ret_parent = known ? (pid_t)strtol(paren + 4, NULL, 10) : 0;
    return known ? paren[2] : '?';
}

/* ------------------------------------------------------------------ what it leaves behind */

/* Whether this process has no child, so that each it gets as a subreaper is of the stage. The first
 * of a container gets others' as well. */
static bool adopt_orphans(void)
{
    siginfo_t seen;
    bool none = waitid(P_ALL, 0, &seen, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
    return none && getpid() != 1 && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}

static void kill_children(void)
{
    DIR *folder = opendir("/proc");
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        pid_t parent = 0, pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && process_state(pid, &parent) != '?' && parent == getpid()) {
            (void)kill(pid, SIGKILL); // a child of ours that was not reaped: the number is its own
        }
    }
    if (folder) {
        (void)closedir(folder); // only read
    }
}

/* Processes that left the child's group (setsid) come here when their parent ends. */
static void end_orphans(bool child_is_left)
{
    const struct timespec tick = {.tv_nsec = 5000000};
    for (int64_t end = clock_ms() + REAP_MS; !child_is_left && clock_ms() < end;
         (void)nanosleep(&tick, NULL)) {
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
        }
        if (pid < 0) {
            break; // there is none
        }
        kill_children();
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); // cannot fail
}

static const char *left_text(struct arena *a, const struct probe_answer *r)
{
    return arena_printf(a,
                        "; process %d (state %c) could not be ended; gpumend does not wait for it",
                        (int)r->left, r->left_state);
}

/* SIGKILL and its like come from another process, or from a kernel that is short of memory. */
static bool is_sent(int number)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (number == faults[i]) {
            return false;
        }
    }
    return true;
}

/* What the end of the process says where the helper itself said nothing. */
static void answer_judge(struct arena *a, const struct watch *w, const struct listener *l,
                         const struct probe_child *c, struct probe_answer *ret)
{
    if (w->phase == WATCH_LEFT) {
        pid_t parent;
        ret->left = w->pid;
        ret->left_state = process_state(w->pid, &parent);
    }
    if (l->ended) {
        return; // what was said before its end counts, whatever became of it then
    }
    ret->signal = w->gone && WIFSIGNALED(w->status) ? WTERMSIG(w->status) : 0;
    if (ret->stopped) {
        ret->outcome = PROBE_UNKNOWN;
        ret->text = arena_printf(a, "it was interrupted%s", listener_during(l));
    } else if (w->phase != WATCH_RUNS) {
        ret->outcome = PROBE_TIMED_OUT;
        ret->signal = 0; // our own
        ret->text =
            arena_printf(a, "no answer within %g s%s", c->deadline_ms / 1000.0, listener_during(l));
    } else if (ret->signal) {
        ret->outcome = PROBE_CRASHED;
        ret->sent = is_sent(ret->signal);
        ret->text = arena_printf(a, "the process ended by signal %d (%s)%s", ret->signal,
                                 strsignal(ret->signal), listener_during(l));
    } else {
        ret->outcome = PROBE_CRASHED;
        ret->text = arena_printf(a, "the process ended with status %d%s and without an answer",
                                 WEXITSTATUS(w->status), listener_during(l));
    }
    if (ret->left) {
        ret->text = arena_printf(a, "%s%s", ret->text, left_text(a, ret));
    }
}

static const char *start_failure(struct arena *a, int why)
{
    if (why == ENOENT) {
        return "the probe helper needs glibc's loader, which this system does not have (a musl "
               "image, or one without a C library)";
    }
    return arena_printf(a, "the probe helper could not be started: %s", strerror(why));
}

static void unknown(struct probe_answer *ret, const char *text)
{
    *ret = (struct probe_answer){.outcome = PROBE_UNKNOWN, .text = text};
}

static bool pipes_open(struct pipes *p)
{
    *p = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}};
    if (pipe_above(p->report) && pipe_above(p->output) && pipe_above(p->start)) {
        return true;
    }
    int why = errno;
    pipes_close(p);
    errno = why;
    return false;
}

static void child_wait_for(struct arena *a, const struct probe_child *c, struct pipes *p, pid_t pid,
                           struct probe_answer *ret)
{
    struct listener l;
    listener_init(&l, a, ret);
    int64_t start = clock_ms();
    struct watch w = {.pid = pid,
                      .pidfd = (int)syscall(SYS_pidfd_open, pid, 0),
                      .deadline = start + c->deadline_ms};
    watch_child(&l, p, &w, c->stop_fd);
    if (w.pidfd >= 0) {
        (void)close(w.pidfd);
    }
    ret->ms = (unsigned)(clock_ms() - start);
    listener_end(&l);
    answer_judge(a, &w, &l, c, ret);
}

void probe_child_run(struct arena *a, const struct probe_helper *h, const struct probe_child *c,
                     struct probe_answer *ret)
{
    struct pipes p;
    *ret = (struct probe_answer){.outcome = PROBE_UNKNOWN};
    if (!c->program && h->fd < 0) {
        unknown(ret, h->why);
        return;
    }
    char **argv = words(a, c->program ? c->program : "gpumend-probe", c->arguments, c->n_arguments);
    char **envp = words(a, NULL, c->env, c->n_env);
    if (!pipes_open(&p)) {
        unknown(ret, arena_printf(a, "no pipe for the probe helper: %s", strerror(errno)));
        return;
    }
    bool adopts = adopt_orphans();
    pid_t parent = getpid(), pid = fork();
    int why = errno;
    if (pid == 0) {
        child_become(c->program ? -1 : h->fd, argv, envp, &p, parent);
    }
    close_end(&p.report[1]);
    close_end(&p.output[1]);
    close_end(&p.start[1]);
    bool started = pid > 0 && read(p.start[0], &why, sizeof why) == 0; // closed by the exec
    if (pid > 0) {
        child_wait_for(a, c, &p, pid, ret);
    }
    if (adopts) {
        end_orphans(ret->left != 0);
    }
    if (!started) {
        unknown(ret, c->program
                         ? arena_printf(a, "%s does not start: %s", c->program, strerror(why))
                         : start_failure(a, why));
    }
    pipes_close(&p);
}
