#include "cli/check_watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/limit.h"
#include "launch/cache.h"

enum { EACH_S = 1, AGAIN_S = 30, ANSWER_MAX = 64 << 20 };

static volatile sig_atomic_t asked_to_end;

static void on_end(int signal_number)
{
    (void)signal_number;
    asked_to_end = 1;
}

/* ------------------------------------------------------------------ the child */

/* An answer is its text, a NUL, the status as a digit, and, once something has changed, its path.
 */
static void child_run(struct cli_target *t, int (*look)(void *command), void *command)
{
    struct root root = ROOT_EMPTY;
    struct gm_err err;
    struct launch_seen_set seen = {.a = &t->arena, .root = &root};
    const char *changed = NULL;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // this cannot fail for a valid signal
    cli_limit_restart();
    if (root_open(&root, t->asked.root_path ? t->asked.root_path : "/", &err) == 0) {
        t->asked.on_look = launch_seen_add;
        t->asked.on_look_arg = &seen;
    }
    int status = look(command);
    putchar('\0');
    putchar('0' + status);
    if (fflush(stdout) != 0) {
        _exit(CLI_CANNOT);
    }
    for (int s = 0; s < AGAIN_S && !changed; s += EACH_S) {
        (void)nanosleep(&(struct timespec){.tv_sec = EACH_S}, NULL);
        cli_limit_restart(); // asking is not looking
        changed = launch_seen_changed(&seen);
    }
    fputs(changed ? str_printable(&t->arena, changed) : "", stdout);
    _exit(fflush(stdout) == 0 ? status : CLI_CANNOT);
}

/* ------------------------------------------------------------------ the parent */

struct watcher {
    pid_t child;
    int fd;
    char *text; // what the child has said so far
    size_t n, cap;
    char *last; // the answer that was printed, or NULL
    int status;
    const char *why; // what had changed before this look
};

static int child_start(struct watcher *w, struct cli_target *t, int (*look)(void *command),
                       void *command)
{
    int fds[2];
    if (pipe(fds) < 0) {
        return -1;
    }
    (void)fflush(stdout); // else the child prints it once more
    w->child = fork();
    if (w->child == 0) {
        (void)dup2(fds[1], STDOUT_FILENO);
        (void)dup2(fds[1], STDERR_FILENO);
        (void)close(fds[0]);
        (void)close(fds[1]);
        (void)signal(SIGINT, SIG_DFL); // these cannot fail for valid signals
        (void)signal(SIGTERM, SIG_DFL);
        child_run(t, look, command);
    }
    (void)close(fds[1]); // the child's end
    w->fd = fds[0];
    w->n = 0;
    return w->child < 0 ? -1 : 0;
}

/* False at the end of the child's words, or when it is time to end. */
static bool read_more(struct watcher *w)
{
    if (w->n + 1 >= w->cap) {
        size_t cap = w->cap ? w->cap * 2 : 65536;
        char *more = cap <= ANSWER_MAX ? realloc(w->text, cap) : NULL;
        if (!more) {
            return false;
        }
        w->text = more;
        w->cap = cap;
    }
    ssize_t n = -1;
    while (!asked_to_end && n < 0) {
        n = read(w->fd, w->text + w->n, w->cap - w->n - 1);
        if (n < 0 && errno != EINTR) {
            break;
        }
    }
    w->n += n > 0 ? (size_t)n : 0;
    w->text[w->n] = '\0';
    return n > 0;
}

static int print_change(struct watcher *w)
{
    char when[32] = "";
    time_t now = time(NULL);
    struct tm parts;
    if (w->last && strcmp(w->last, w->text) == 0) {
        return 0;
    }
    if (w->last && localtime_r(&now, &parts) && strftime(when, sizeof when, "%H:%M:%S", &parts)) {
        printf("\n%s%s%s\n", when, w->why && *w->why ? "  changed: " : "", w->why ? w->why : "");
    }
    fputs(w->text, stdout);
    free(w->last);
    w->last = strdup(w->text);
    return fflush(stdout);
}

/* One look, up to the change that ends it; -1: no further one. */
static int watch_once(struct watcher *w, struct arena *a)
{
    bool printed = false, more = true;
    const char *end = NULL;
    while (more && !asked_to_end) {
        more = read_more(w);
        end = w->n ? memchr(w->text, '\0', w->n) : NULL;
        if (!printed && end && end + 1 < w->text + w->n) {
            printed = true;
            w->status = end[1] - '0';
            if (print_change(w) != 0) {
                return -1;
            }
        }
    }
    if (!printed && !asked_to_end && w->n) { // it has ended at its limit: its words say so
        w->status = CLI_CANNOT;
        if (print_change(w) != 0) {
            return -1;
        }
    }
    w->why = printed ? arena_strdup(a, end + 2) : "";
    return w->status == CLI_USAGE ? -1 : 0;
}

static void child_end(struct watcher *w)
{
    (void)close(w->fd); // was only read
    (void)kill(w->child, SIGKILL);
    while (waitpid(w->child, NULL, 0) < 0 && errno == EINTR) {
    }
}

int cli_check_watch(struct cli_target *t, int (*look)(void *command), void *command)
{
    struct sigaction action = {.sa_handler = on_end}; // without SA_RESTART: read() ends
    struct watcher w = {.fd = -1};
    struct arena a;
    int rc = 0;
    arena_init(&a, 0, NULL, NULL);
    (void)sigaction(SIGINT, &action, NULL); // these cannot fail for valid signals
    (void)sigaction(SIGTERM, &action, NULL);
    while (rc == 0 && !asked_to_end) {
        cli_limit_restart();
        rc = child_start(&w, t, look, command);
        if (rc < 0) {
            w.status = cli_fail(CLI_CANNOT, "check: no process could be started");
            break;
        }
        rc = watch_once(&w, &a);
        child_end(&w);
    }
    arena_release(&a);
    free(w.text);
    free(w.last);
    return w.status;
}
