#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { READ_BYTES = 4096, POLL_MS = 50, DRAIN_MS = 500 };

static void limit(int resource, rlim_t value)
{
    struct rlimit r;
    if (getrlimit(resource, &r) == 0) {
        r.rlim_cur = r.rlim_max < value ? r.rlim_max : value;
        (void)setrlimit(resource, &r); // a limit that cannot be set leaves the deadline
    }
}

/* In the child: never returns. An errno that stops the start goes through `report`. */
static void child_become(const struct child *c, char *const *argv, char *const *envp, int output,
                         int report, pid_t parent)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)setpgid(0, 0);                    // the group is for killing; without it one is killed
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // cannot fail for a valid signal
    bool orphan = getppid() != parent;
    limit(RLIMIT_CORE, 0);
    if (c->memory_max_bytes) {
        limit(RLIMIT_DATA, c->memory_max_bytes);
    }
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGBUS, SIG_DFL);
    if (!orphan && null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
        dup2(output, STDERR_FILENO) >= 0 && chdir(c->cwd ? c->cwd : "/") == 0) {
        (void)execve(c->path, argv, envp); // returns on failure only
    }
    int why = errno;
    ssize_t n = write(report, &why, sizeof why);
    (void)n; // the parent sees the status then
    _exit(127);
}

static char *const *environment(struct arena *a, const struct child *c)
{
    char **envp = arena_array(a, c->n_env + 1, sizeof *envp);
    for (size_t i = 0; i < c->n_env; i++) {
        envp[i] = arena_strdup(a, c->env[i]);
    }
    return envp;
}

static char *const *arguments(struct arena *a, const struct child *c)
{
    size_t n = 0;
    while (c->argv[n]) {
        n++;
    }
    char **argv = arena_array(a, n + 1, sizeof *argv);
    for (size_t i = 0; i < n; i++) {
        argv[i] = arena_strdup(a, c->argv[i]);
    }
    return argv;
}

/* Takes what the child wrote; false when nobody can write any more. */
static bool take_output(int fd, const struct child *c, char *kept, size_t *n)
{
    char buffer[READ_BYTES];
    ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0) {
        return errno == EINTR || errno == EAGAIN;
    }
    size_t room = c->output_max_bytes - *n;
    size_t take = (size_t)got < room ? (size_t)got : room;
    memcpy(kept + *n, buffer, take);
    *n += take;
    return got > 0;
}

/* Reads and waits until the child has ended and its output too. A grandchild that keeps the pipe
 * open is not waited for. False: somebody else took the child's status. */
static bool watch(const struct child *c, pid_t pid, int fd, char *kept, struct child_end *ret)
{
    size_t n = 0;
    int64_t start = clock_ms(), ended = 0;
    bool open = fd >= 0, lost = false;
    int status = 0;
    while (!ended || (open && clock_ms() - ended < DRAIN_MS)) {
        struct pollfd p = {.fd = open ? fd : -1, .events = POLLIN};
        if (poll(&p, 1, POLL_MS) > 0) {
            open = take_output(fd, c, kept, &n);
        }
        pid_t waited = ended ? 0 : waitpid(pid, &status, WNOHANG);
        lost |= waited < 0 && errno == ECHILD; // SIGCHLD is ignored, or another thread waited
        if (waited == pid || lost) {
            ended = ended ? ended : clock_ms();
        }
        if (!ended && c->deadline_ms && clock_ms() - start > c->deadline_ms) {
            ret->timed_out = true;
            (void)kill(-pid, SIGKILL);
            (void)kill(pid, SIGKILL); // should it have no group yet
        }
    }
    (void)kill(-pid, SIGKILL); // what it left behind
    ret->output = (struct str){kept, n};
    if (lost) {
        return false;
    }
    ret->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    ret->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return true;
}

int child_run(struct arena *a, const struct child *c, struct child_end *ret, struct gm_err *err)
{
    char *const *argv = arguments(a, c);
    char *const *envp = environment(a, c);
    char *kept = arena_alloc(a, c->output_max_bytes + 1); // before there is a child to be lost
    int output[2] = {-1, -1}, report[2];
    *ret = (struct child_end){.status = -1};
    if (pipe2(report, O_CLOEXEC) < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", c->path, strerror(errno));
    }
    if (!c->show && pipe2(output, O_CLOEXEC) < 0) {
        (void)close(report[0]);
        (void)close(report[1]);
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", c->path, strerror(errno));
    }
    pid_t parent = getpid(), pid = fork();
    int fork_errno = errno;
    if (pid == 0) {
        child_become(c, argv, envp, c->show ? STDERR_FILENO : output[1], report[1], parent);
    }
    (void)close(report[1]);
    if (output[1] >= 0) {
        (void)close(output[1]);
    }
    int why = fork_errno;
    bool started = pid > 0 && read(report[0], &why, sizeof why) == 0; // closed by execve
    bool known = pid > 0 && watch(c, pid, output[0], kept, ret);
    (void)close(report[0]);
    if (output[0] >= 0) {
        (void)close(output[0]);
    }
    if (started && !known) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: its exit status went to somebody else", c->path);
    }
    return started ? 0 : gm_err_set(err, GM_ERR_LOOK, "%s: %s", c->path, strerror(why));
}

const char *child_find(struct arena *a, const char *path, const char *name)
{
    struct str rest = str_of(path);
    while (rest.s) {
        struct str dir = str_cut(&rest, ':');
        const char *file = path_join(a, str_dup(a, dir), name);
        struct stat st;
        if (dir.n && dir.s[0] == '/' && stat(file, &st) == 0 && S_ISREG(st.st_mode) &&
            access(file, X_OK) == 0) {
            return file;
        }
    }
    return NULL;
}
