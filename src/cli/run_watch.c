/* `run` with a helper in the program: options, the record, and what is said at the end. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/run_watch.h"
#include "report/trace.h"
#include "watch/compare.h"
#include "watch/restart.h"
#include "watch/supervise.h"

/* Digits alone, up to 9 of them; false: something else. */
static bool restarts_take_number(const char *text, unsigned *ret)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 9 || text[n]) {
        return false;
    }
    *ret = 0;
    for (; *text; text++) {
        *ret = *ret * 10 + (unsigned)(*text - '0');
    }
    return true;
}

/* "on-crash" or "on-crash:N" */
static int take_restart(struct run_watch *w, struct arena *a, const char *value)
{
    w->restart = true;
    if (strcmp(value, "on-crash") == 0) {
        w->restart_max = 0;
        return CLI_OK;
    }
    if (!starts_with(value, "on-crash:") ||
        !restarts_take_number(value + strlen("on-crash:"), &w->restart_max) || !w->restart_max) {
        return cli_fail(CLI_USAGE,
                        "run: --restart expects on-crash or on-crash:N, N from 1, not %s",
                        str_printable(a, arena_strdup(a, value)));
    }
    return CLI_OK;
}

int run_watch_option(struct run_watch *w, struct arena *a, int id, const char *value)
{
    switch (id) {
    case O_RESTART: return take_restart(w, a, value);
    case O_FORGIVE_TEARDOWN: w->forgive_teardown = true; return CLI_OK;
    case O_GUARD_TEARDOWN: w->guard_teardown = true; return CLI_OK;
    case O_NO_GUARD_TEARDOWN: w->no_guard_teardown = true; return CLI_OK;
    case O_TRACE: w->trace = true; return CLI_OK;
    case O_TRACE_GPU: w->trace_gpu = true; return CLI_OK;
    case O_TRACE_FILE: w->trace_file = value; return CLI_OK;
    default: return CLI_USAGE;
    }
}

int run_watch_check(const struct run_watch *w)
{
    if (w->trace_file && !w->trace && !w->trace_gpu) {
        return cli_fail(CLI_USAGE, "run: --trace-file needs a trace to write: (--trace, "
                                   "--trace-gpu)");
    }
    if (w->guard_teardown && w->no_guard_teardown) {
        return cli_fail(CLI_USAGE, "run: --guard-teardown and --no-guard-teardown exclude one "
                                   "another");
    }
    return CLI_OK;
}

bool run_watch_stays(const struct run_watch *w)
{
    return w->trace || w->restart || w->forgive_teardown;
}

/* ------------------------------------------------------------------ the start */

/* Ends as the child did, for whoever waits for this process. One core file is enough. */
static void end_by(int number)
{
    const struct rlimit none = {0, 0};
    sigset_t set;
    (void)sigemptyset(&set); // these cannot fail for valid signals
    (void)sigaddset(&set, number);
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)signal(number, SIG_DFL);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    (void)raise(number);
}

/* ------------------------------------------------------------------ the trace */

struct tracing {
    struct run_watch *w;
    const struct run_watch_start *start;
    char *const *env; // of the program
    struct arena *a;
    struct out out;
    struct watch_trace trace;
    bool opened; // trace
};

static void event_show(void *arg, const struct watch_event *event)
{
    const struct tracing *t = arg;
    report_trace_event(&t->out, event);
}

static void tick(void *arg)
{
    struct tracing *t = arg;
    watch_trace_read(&t->trace);
    (void)fflush(stderr); // gone: nothing better is left
}

static int begin_tracing(struct tracing *t, struct run_watch *w, const struct run_watch_start *s)
{
    struct gm_err err;
    *t = (struct tracing){.w = w, .start = s, .a = s->a};
    out_init(&t->out, stderr);
    if (!w->record || !w->trace) {
        return CLI_OK;
    }
    if (watch_trace_open(&t->trace, s->a, w->record, &err) < 0) {
        return cli_fail(CLI_CANNOT, "run: %s", str_printable(s->a, err.text));
    }
    t->opened = true;
    t->trace.losses = w->losses;
    if (!w->trace_file) {
        t->trace.show = event_show;
        t->trace.show_arg = t;
    }
    return CLI_OK;
}

struct appending {
    int fd;
    int error; // errno of the first line that was not written, or 0
};

/* One line of the trace, in one write. */
static void record_append(void *arg, const char *line, size_t n)
{
    struct appending *to = arg;
    ssize_t done = write(to->fd, line, n);
    if (done != (ssize_t)n && !to->error) {
        to->error = done < 0 ? errno : ENOSPC;
    }
}

/* Against what `check` foresees of the program with the variables that it had. */
static void compare_foreseen(struct tracing *t, struct arena *a, struct watch_comparison *c)
{
    struct model_target target = {.root = ROOT_EMPTY};
    struct model_target_options asked = {
        .env = (const char *const *)t->env, .cwd = t->start->cwd, .uid = getuid()};
    struct gm_err err;
    while (asked.env[asked.n_env]) {
        asked.n_env++;
    }
    if (!t->start->program) {
        return;
    }
    if (launch_model(&target, a, &asked, t->start->program, &err) == 0) {
        watch_compare_foreseen(&t->trace, a, &target.model, c);
    }
    model_target_close(&target);
}

static void show_differences(struct tracing *t, struct arena *a, struct root *host)
{
    struct watch_comparison c;
    watch_compare(&t->trace, a, host, &c);
    compare_foreseen(t, a, &c);
    if (!t->w->trace_file) {
        report_trace_text(&t->out, a, &c);
        return;
    }
    struct appending to = {
        .fd = open(t->w->record, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)};
    to.error = to.fd < 0 ? errno : 0;
    if (to.fd >= 0) {
        report_trace_json(a, &c, record_append, &to);
        (void)close(to.fd); // each line was one write
    }
    if (to.error || c.n_lost) {
        (void)cli_fail(CLI_OK, "run: the trace in %s is not complete: %s",
                       str_printable(a, arena_strdup(a, t->w->record)),
                       to.error ? strerror(to.error) : c.notes.items[0]);
    }
}

static void record_too_much(void *arg)
{
    longjmp(arg, 1);
}

/* In memory of its own: what the program ended with is to be passed on, however long the trace is.
 */
static void tell_differences(struct tracing *t)
{
    struct root host = ROOT_EMPTY;
    struct arena arena;
    struct gm_err err;
    jmp_buf out_of_memory;
    if (!t->opened || root_open(&host, "/", &err) < 0) {
        return;
    }
    watch_trace_end(&t->trace);
    arena_init(&arena, ARENA_LIMIT_DEFAULT, record_too_much, out_of_memory);
    if (setjmp(out_of_memory) == 0) {
        show_differences(t, &arena, &host);
    } else {
        (void)cli_fail(CLI_OK, "run: the trace is too long to be compared with the model");
    }
    arena_release(&arena);
    root_close(&host);
}

/* ------------------------------------------------------------------ start and end */

static void record_say(void *arg, const char *sentence)
{
    (void)arg;
    (void)cli_fail(CLI_OK, "run: %s", sentence);
}

/* GPUMEND_RESTART_DELAY: milliseconds before the first new start. */
static unsigned first_delay(const struct run_watch_start *s)
{
    const char *value = cli_env_get(s->env, "GPUMEND_RESTART_DELAY");
    unsigned ms = RESTART_DELAY_MS;
    if (value && (!restarts_take_number(value, &ms) || ms > RESTART_DELAY_MAX_MS)) {
        (void)cli_fail(CLI_OK,
                       "run: GPUMEND_RESTART_DELAY is a number of milliseconds up to %d, "
                       "not %s",
                       RESTART_DELAY_MAX_MS, str_printable(s->a, arena_strdup(s->a, value)));
        ms = RESTART_DELAY_MS;
    }
    return ms;
}

int run_watch_start(struct run_watch *w, const struct run_watch_start *s, int *ret_errno)
{
    struct gm_err err;
    struct watch_end end;
    struct watch_child child = {
        .argv = s->words,
        .env = launch_env(s->a, s->env->vars.items, s->env->vars.n, s->launch->changes.items,
                          s->launch->changes.n),
        .restore = cli_restore_signals,
        .page = w->page,
    };
    struct tracing t;
    struct restart restart = {.a = s->a,
                              .page = w->page,
                              .enabled = w->restart,
                              .max = w->restart_max,
                              .forgive = w->forgive_teardown,
                              .first_delay_ms = first_delay(s),
                              .says = record_say};
    if (w->restart || w->forgive_teardown) {
        child.again = restart_again;
        child.again_arg = &restart;
    }
    *ret_errno = 0;
    int rc = begin_tracing(&t, w, s);
    if (rc != CLI_OK) {
        return rc;
    }
    t.env = child.env;
    if (t.trace.show) {
        child.tick = tick;
        child.tick_arg = &t;
    }
    rc = watch_supervise(&child, &end, &err);
    if (rc == 0 && !end.not_started) {
        tell_differences(&t);
    }
    if (w->record_is_ours) {
        (void)unlink(w->record); // in a folder of our own: what stays is small
    }
    if (rc < 0) {
        return cli_fail(CLI_CANNOT, "run: %s", str_printable(s->a, err.text));
    }
    if (end.not_started) {
        *ret_errno = end.not_started;
        return CLI_CANNOT;
    }
    if (restart.forgiven) {
        return restart.last.status;
    }
    if (end.signal) {
        (void)cli_finish(CLI_OK); // nothing was printed there
        end_by(end.signal);
        return 128 + end.signal; // a signal that does not end a process
    }
    return end.status;
}
