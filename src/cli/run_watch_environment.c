/*
 * The environment of a program that is watched: which helpers are put into it, and which do not
 * fit.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/run_watch.h"
#include "diag/cause.h"
#include "report/trace.h"
#include "watch/fit.h"
#include "watch/images.h"
#include "watch/place.h"
#include "watch/restart.h"
#include "watch/supervise.h"

/* The value that the program would get so far. */
static const char *value_now(const struct run_watch_start *s, const char *name)
{
    for (size_t i = s->launch->changes.n; i > 0; i--) {
        if (strcmp(s->launch->changes.items[i - 1].name, name) == 0) {
            return s->launch->changes.items[i - 1].value;
        }
    }
    return cli_env_get(s->env, name);
}

static void change_variable(const struct run_watch_start *s, const char *name, const char *value)
{
    for (size_t i = 0; i < s->launch->changes.n; i++) {
        if (strcmp(s->launch->changes.items[i].name, name) == 0) {
            s->launch->changes.items[i].value = value;
            return;
        }
    }
    VEC_PUSH(s->a, &s->launch->changes, (struct launch_change){.name = name, .value = value});
}

/* Puts `path` in front of what the list holds. */
static void put_in_front(const struct run_watch_start *s, const char *name, const char *path)
{
    const char *now = value_now(s, name);
    change_variable(s, name, now && *now ? arena_printf(s->a, "%s:%s", path, now) : path);
}

static int add_trace(const struct run_watch_start *s)
{
    const struct watch_library trace = {"gpumend-trace.so", watch_trace_image,
                                        watch_trace_image_size};
    struct gm_err err;
    const char *path = NULL;
    if (watch_place(s->a, s->cache, &trace, &path, &err) < 0) {
        return cli_fail(CLI_CANNOT, "run: %s", str_printable(s->a, err.text));
    }
    put_in_front(s, "LD_AUDIT", path);
    return CLI_OK;
}

static int place_guard(const struct run_watch_start *s, const char **ret, struct gm_err *err)
{
    const struct watch_library guard = {"gpumend-guard.so", watch_guard_image,
                                        watch_guard_image_size};
    return watch_place(s->a, s->cache, &guard, ret, err);
}

/* What the helpers and this process append to, each by an opening of its own, is a file or a
 * device: a pipe would stop the program where nobody reads. */
static int try_record(struct arena *a, const char *path)
{
    struct stat st;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    int error = fd < 0 ? errno : fstat(fd, &st) < 0 ? errno : 0;
    if (fd >= 0) {
        (void)close(fd); // nothing was written
    }
    if (error == ENXIO || (!error && !S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))) {
        return cli_fail(CLI_CANNOT, "run: %s: not a regular file: a trace is appended to a file",
                        str_printable(a, path));
    }
    return error ? cli_fail(CLI_CANNOT, "run: %s: %s", str_printable(a, path), strerror(error))
                 : CLI_OK;
}

/* The file that the helpers append to: the user's, or one of ours. */
static int open_record(struct run_watch *w, const struct run_watch_start *s, bool print)
{
    struct gm_err err;
    if (w->trace_file) {
        w->record =
            w->trace_file[0] == '/' ? w->trace_file : path_join(s->a, s->cwd, w->trace_file);
        if (print) {
            return CLI_OK;
        }
        return try_record(s->a, w->record);
    }
    if (print || !run_watch_stays(w)) {
        return CLI_OK;
    }
    if (watch_record(s->a, s->cache, &w->record, &err) < 0) {
        return cli_fail(CLI_CANNOT, "run: %s", str_printable(s->a, err.text));
    }
    w->record_is_ours = true;
    return CLI_OK;
}

/* A program with a shared ASan refuses to start behind a preload unless told that this is meant. */
static void let_asan_start(const struct run_watch_start *s)
{
    const char *now = value_now(s, "ASAN_OPTIONS"), *more = "verify_asan_link_order=0";
    if (!now || !strstr(now, "verify_asan_link_order")) {
        change_variable(s, "ASAN_OPTIONS",
                        now && *now ? arena_printf(s->a, "%s:%s", now, more) : more);
    }
}

/* Without the library a crash cannot be determined from a teardown: said, and no reason not to
 * start. */
static void add_end(struct run_watch *w, const struct run_watch_start *s)
{
    struct gm_err err;
    const char *path = NULL, *library = NULL;
    if (place_guard(s, &library, &err) < 0 || restart_page(s->a, &w->page, &path, &err) < 0) {
        VEC_PUSH(s->a, &s->launch->remarks,
                 arena_printf(s->a, "a crash at the end cannot be determined from others: %s",
                              err.text));
        return;
    }
    put_in_front(s, "LD_PRELOAD", library);
    let_asan_start(s);
    change_variable(s, END_VARIABLE, path);
}

/* Whether the plan asks for the guard: the program loads a library that needs it. */
static bool is_planned(const struct launch *l)
{
    for (size_t i = 0; i < l->changes.n; i++) {
        if (strcmp(l->changes.items[i].name, LAUNCH_GUARD_VARIABLE) == 0) {
            return true;
        }
    }
    return false;
}

/* Takes it out of the plan, with what it would have mended. */
static void drop_guard(struct launch *l)
{
    size_t changes = 0, mends = 0;
    for (size_t i = 0; i < l->changes.n; i++) {
        if (strcmp(l->changes.items[i].name, LAUNCH_GUARD_VARIABLE) != 0) {
            l->changes.items[changes++] = l->changes.items[i];
        }
    }
    for (size_t i = 0; i < l->mends.n; i++) {
        if (strcmp(l->mends.items[i].cause, diag_causes[DIAG_CRASH_ON_UNLOAD].id) != 0) {
            l->mends.items[mends++] = l->mends.items[i];
        }
    }
    l->changes.n = changes;
    l->mends.n = mends;
}

/* The library is the same for the guard and for what a supervisor is told. Where the plan alone
 * asks for it, its absence is said, and is no reason not to start. */
static int add_guard(struct run_watch *w, const struct run_watch_start *s, bool print)
{
    struct gm_err err;
    const char *library = NULL;
    if ((w->restart || w->forgive_teardown) && !print && !w->unfit) {
        add_end(w, s);
    }
    if (w->unfit || w->no_guard_teardown || (!w->guard_teardown && !is_planned(s->launch))) {
        drop_guard(s->launch);
        return CLI_OK;
    }
    if (!w->page) {
        if (place_guard(s, &library, &err) < 0) {
            const char *why = str_printable(s->a, arena_strdup(s->a, err.text));
            if (w->guard_teardown) {
                return cli_fail(CLI_CANNOT, "run: %s", why);
            }
            drop_guard(s->launch);
            VEC_PUSH(s->a, &s->launch->remarks,
                     arena_printf(s->a, "its teardown cannot be guarded: %s", why));
            return CLI_OK;
        }
        put_in_front(s, "LD_PRELOAD", library);
    }
    change_variable(s, LAUNCH_GUARD_VARIABLE, "1");
    let_asan_start(s);
    return CLI_OK;
}

/* At the end of a program under valgrind glibc frees what its loader has allocated for audit
 * libraries, any of them, before there was a malloc; valgrind takes that for faults of the program.
 */
static void spare_valgrind(const struct run_watch_start *s)
{
    const char *name = "VALGRIND_OPTS", *option = "--run-libc-freeres=no",
               *now = value_now(s, name);
    if (strcmp(path_base(s->words[0]), "valgrind") == 0) {
        change_variable(s, name, now ? arena_printf(s->a, "%s %s", option, now) : option);
    }
}

/* The driver has room for one injected library: one that is there already stays. */
static int add_gpucall(const struct run_watch *w, const struct run_watch_start *s)
{
    const struct watch_library gpucall = {"gpumend-gpucall.so", watch_gpucall_image,
                                          watch_gpucall_image_size};
    struct gm_err err;
    const char *path = NULL;
    if (watch_place(s->a, s->cache, &gpucall, &path, &err) < 0) {
        return cli_fail(CLI_CANNOT, "run: %s", str_printable(s->a, err.text));
    }
    spare_valgrind(s);
    put_in_front(s, "LD_AUDIT", path);
    change_variable(s, "GPUMEND_TRACE_GPU", w->trace_file ? w->record : "-");
    if (!value_now(s, "CUDA_INJECTION64_PATH")) {
        change_variable(s, "CUDA_INJECTION64_PATH", path);
    }
    return CLI_OK;
}

/* Without the page a loss is not seen: said, and no reason not to start. */
static void add_losses(struct run_watch *w, const struct run_watch_start *s)
{
    struct gm_err err;
    const char *path = NULL;
    void *memory = NULL;
    if (watch_shared(s->a, sizeof(struct loss_page), &memory, &path, &err) < 0) {
        VEC_PUSH(s->a, &s->launch->remarks,
                 arena_printf(s->a, "what is lost of the trace is not counted: %s", err.text));
        return;
    }
    struct loss_page *page = memory;
    page->magic = LOSS_MAGIC;
    w->losses = page;
    change_variable(s, LOSS_VARIABLE, path);
}

/* What was asked for that needs a library in the program, as a list; "" for nothing. */
static const char *needing(const struct run_watch *w, struct arena *a)
{
    const struct {
        bool on;
        const char *name;
    } asked[] = {{w->trace, "--trace"},
                 {w->trace_gpu, "--trace-gpu"},
                 {w->guard_teardown, "--guard-teardown"}};
    const char *list = "";
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        if (asked[i].on) {
            list = arena_printf(a, "%s%s%s", list, *list ? ", " : "", asked[i].name);
        }
    }
    return list;
}

/* The programs that a shell starts by themselves get the same variables: a 32-bit one's loader
 * complains about them, and musl's and none at all pass over them in silence. */
static void tell_unfit(const struct run_watch_start *s, const char *options)
{
    for (size_t i = 0; i < s->program->n_starts && *options; i++) {
        const char *path = s->program->starts[i], *why = watch_unfit(s->host, s->a, path);
        if (why) {
            VEC_PUSH(s->a, &s->launch->remarks,
                     arena_printf(s->a,
                                  "%s, which %s starts, is %s: what %s needs cannot be loaded into "
                                  "it, and it runs without%s",
                                  path_base(path), path_base(s->words[0]), why, options,
                                  strstr(why, "32-bit") ? " (its loader may say so itself)" : ""));
        }
    }
    if (*options && s->program->starts_more) {
        VEC_PUSH(
            s->a, &s->launch->remarks,
            arena_printf(s->a,
                         "%s starts more than %zu programs: whether what %s needs can be loaded "
                         "into the others was not looked at",
                         path_base(s->words[0]), s->program->n_starts, options));
    }
}

/* Turns that off where no library of ours can be loaded into the program. */
static void drop_unfit(struct run_watch *w, const struct run_watch_start *s)
{
    const char *path = s->program ? launch_program_target(s->program) : NULL;
    path = path || !s->program ? path : s->program->first;
    w->unfit = path ? watch_unfit(s->host, s->a, path) : NULL;
    const char *options = needing(w, s->a);
    if (!w->unfit) {
        if (s->program) {
            tell_unfit(s, options);
        }
        return;
    }
    if (*options) {
        VEC_PUSH(s->a, &s->launch->remarks,
                 arena_printf(s->a,
                              "%s is %s: what %s needs cannot be loaded into it, and it runs "
                              "without",
                              path_base(path), w->unfit, options));
    }
    w->trace = w->trace_gpu = w->guard_teardown = false;
}

int run_watch_environment(struct run_watch *w, const struct run_watch_start *s, bool print)
{
    if (w->trace || w->trace_gpu || w->guard_teardown || w->restart || w->forgive_teardown ||
        is_planned(s->launch)) {
        drop_unfit(w, s);
    }
    int rc = w->trace || w->trace_gpu || !w->unfit ? open_record(w, s, print) : CLI_OK;
    if (rc == CLI_OK && w->record) {
        change_variable(s, "GPUMEND_TRACE_FILE", w->record);
        if (run_watch_stays(w) && !print) {
            add_losses(w, s);
        }
    }
    if (rc == CLI_OK && w->trace) {
        change_variable(s, "GPUMEND_TRACE", "1");
        spare_valgrind(s);
        rc = add_trace(s);
    }
    if (rc == CLI_OK && w->trace_gpu) {
        rc = add_gpucall(w, s);
    }
    return rc == CLI_OK ? add_guard(w, s, print) : rc;
}
