/* run: starts a program with its repairs. What is found out is kept, so that the next start of the
 * same program asks only whether anything has changed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/limit.h"
#include "cli/probing.h"
#include "cli/run_watch.h"
#include "launch/cache.h"
#include "choose/device.h"
#include "base/folder.h"
#include "launch/launch.h"
#include "launch/program.h"
#include "probe/choice.h"
#include "probe/join.h"
#include "report/run.h"
#include "snapshot/snapshot.h"
#include "version.h"

enum {
    O_PRINT = 1,
    O_PRELOAD_ONLY,
    O_NO_PRELOAD,
    O_KEEP_ENV,
    O_DEVICE,
    O_REQUIRE_GPU,
    O_VERIFY,
    O_JSON
};
enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127, GROUPS_MAX = 1024, REMARKS_MAX = 3 };

static const struct cli_option options[] = {
    {"print", NULL, "print the changes to the environment instead of starting CMD", O_PRINT},
    {"preload-only", NULL, "repair with LD_PRELOAD only", O_PRELOAD_ONLY},
    {"no-preload", NULL, "repair with the search path only", O_NO_PRELOAD},
    {"keep-env", NULL, "do not change variables that are set", O_KEEP_ENV},
    {"device", "D", "auto, cuda, cuda:N, rocm, rocm:N or cpu: what the program may see", O_DEVICE},
    {"require-gpu", NULL, "do not start CMD where it could not use a GPU", O_REQUIRE_GPU},
    {"verify", NULL, "run the GPUs briefly first, and show CMD only those that work", O_VERIFY},
    {"json", NULL, "print JSON instead of starting CMD (docs/json.md)", O_JSON},
    RUN_WATCH_OPTIONS,
};

struct runner {
    struct arena arena;
    struct root host;
    struct cli_env env;
    struct model_target target;
    bool opened;  // target
    char **words; // CMD and its arguments, ended by NULL
    size_t n_words;
    struct launch_program program;
    int not_startable; // negative errno
    struct launch_options how;
    struct choose_device device;
    struct launch launch;
    struct run_watch watch;
    const char *cwd, *cache; // cache: folder, or NULL
    const char *cache_why;   // why the user's own folder is not it, or NULL
    bool print, json, require_gpu, verify, cached;
};

static int runner_take_option(struct runner *c, int id, const char *value)
{
    switch (id) {
    case O_PRINT: c->print = true; return CLI_OK;
    case O_PRELOAD_ONLY: c->how.preload_only = true; return CLI_OK;
    case O_NO_PRELOAD: c->how.no_preload = true; return CLI_OK;
    case O_KEEP_ENV: c->how.keep_env = true; return CLI_OK;
    case O_REQUIRE_GPU: c->require_gpu = true; return CLI_OK;
    case O_VERIFY: c->verify = true; return CLI_OK;
    case O_JSON: c->json = c->print = true; return CLI_OK;
    case O_DEVICE:
        return choose_device_parse(value, &c->device)
                   ? CLI_OK
                   : cli_fail(CLI_USAGE,
                              "run: --device expects auto, cuda, cuda:N, rocm, rocm:N "
                              "or "
                              "cpu, not %s",
                              str_printable(&c->arena, value));
    default: return run_watch_option(&c->watch, &c->arena, id, value);
    }
}

static int check_options(const struct runner *c)
{
    if (!c->n_words) {
        return cli_fail(CLI_USAGE, "run: which command? (gpumend run [options] -- CMD ARGS)");
    }
    if (c->how.preload_only && c->how.no_preload) {
        return cli_fail(CLI_USAGE, "run: --preload-only and --no-preload exclude one another");
    }
    if (c->require_gpu && c->device.kind == CHOOSE_DEVICE_CPU) {
        return cli_fail(CLI_USAGE, "run: --require-gpu and --device cpu exclude one another");
    }
    if (c->verify && c->device.kind == CHOOSE_DEVICE_CPU) {
        return cli_fail(CLI_USAGE, "run: --verify and --device cpu exclude one another");
    }
    return run_watch_check(&c->watch);
}

/* ------------------------------------------------------------------ the question */

/* What the kernel has loaded; /sys and /proc have no times by which a change could be seen. */
static const char *const marks[] = {"/sys/module/nvidia", "/sys/module/nvidia_uvm",
                                    "/sys/module/amdgpu", "/sys/module/i915", "/sys/module/xe"};
static const char *const mark_files[] = {"/proc/sys/kernel/random/boot_id",
                                         "/sys/module/nvidia/version"};

struct question {
    struct arena *a;
    char *text;
    size_t n, cap;
};

static void question_add(struct question *q, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    while (q->n + n + 32 > q->cap) {
        size_t cap = q->cap ? q->cap * 2 : 4096;
        char *more = arena_alloc(q->a, cap);
        if (q->n) {
            memcpy(more, q->text, q->n);
        }
        q->text = more, q->cap = cap;
    }
    q->n += (size_t)snprintf(q->text + q->n, 32, "%zd:", text ? (ssize_t)n : (ssize_t)-1);
    if (n) {
        memcpy(q->text + q->n, text, n);
    }
    q->n += n;
    q->text[q->n] = '\0';
}

static void question_add_number(struct question *q, uint64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%llx", (unsigned long long)value);
    question_add(q, text);
}

/* This very executable: its version and its knowledge base. False if it cannot be determined. */
static bool add_self(struct question *q)
{
    struct stat st;
    if (stat("/proc/self/exe", &st) < 0) {
        return false;
    }
    question_add(q, GPUMEND_VERSION);
    const uint64_t parts[] = {st.st_dev, st.st_ino, (uint64_t)st.st_size,
                              (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        question_add_number(q, parts[i]);
    }
    return true;
}

static void add_user(struct question *q)
{
    gid_t groups[GROUPS_MAX];
    int n = getgroups(GROUPS_MAX, groups);
    question_add_number(q, geteuid());
    question_add_number(q, getegid());
    for (int i = 0; i < n; i++) {
        question_add_number(q, groups[i]);
    }
}

static void add_machine(struct question *q, struct root *host)
{
    struct stat st;
    struct str text;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        question_add(q, root_stat(host, marks[i], &st) == 0 ? "y" : "n");
    }
    for (size_t i = 0; i < sizeof mark_files / sizeof *mark_files; i++) {
        question_add(q, root_read(host, q->a, mark_files[i], 4096, &text) == 0 ? str_dup(q->a, text)
                                                                               : "");
    }
}

/* Whether the answer may differ by the variable. The question is stored, so that the list of names
 * that may be stored decides. */
static bool entry_counts(const char *entry)
{
    return snapshot_keeps_variable(entry) || starts_with(entry, "XDG_CACHE_HOME=");
}

static void add_program(struct question *q, const struct launch_program *p)
{
    const char *const texts[] = {launch_program_kind_name(p->kind),
                                 p->file,
                                 p->python,
                                 p->script,
                                 p->module,
                                 p->code,
                                 p->clears,
                                 p->elf,
                                 p->cwd,
                                 p->lazy_imports,
                                 p->unseen};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        question_add(q, texts[i]);
    }
    for (size_t i = 0; i < p->n_sets; i++) {
        question_add(q, p->sets[i]);
    }
    question_add_number(q, p->n_sets);
    question_add_number(q, p->ignores_python_variables);
    question_add_number(q, p->no_user_site);
}

/* All that the answer depends on but for files; NULL if that cannot be determined. */
static const char *question_of(struct runner *c)
{
    struct question q = {.a = &c->arena};
    if (!add_self(&q)) {
        return NULL;
    }
    question_add_number(&q, c->how.preload_only);
    question_add_number(&q, c->how.no_preload);
    question_add_number(&q, c->how.keep_env);
    add_user(&q);
    add_machine(&q, &c->host);
    question_add(&q, c->cwd);
    add_program(&q, &c->program);
    for (size_t i = 0; i < c->env.vars.n; i++) {
        if (entry_counts(c->env.vars.items[i])) {
            question_add(&q, c->env.vars.items[i]);
        }
    }
    return q.text;
}

/* ------------------------------------------------------------------ the answer */

static void plan_new(struct runner *c, const char *question, const char *plans)
{
    struct launch_seen_set seen = {.a = &c->arena, .root = &c->host};
    struct gm_err err;
    struct model_target_options asked = {
        .env = c->env.vars.items, .n_env = c->env.vars.n, .cwd = c->cwd, .uid = getuid()};
    (void)clock_gettime(CLOCK_REALTIME, &seen.began); // cannot fail for this clock
    asked.on_look = launch_seen_add;
    asked.on_look_arg = &seen;
    launch_plan(&c->target, &c->arena, &asked, &c->program, &c->how, &c->launch);
    c->opened = true;
    if (question && plans) {
        /* Without a cache the next start takes as long as this one: nothing to trouble a user. */
        (void)launch_cache_write(&c->host, plans, question, &seen, &c->launch, &err);
    }
}

static void runner_plan(struct runner *c)
{
    const char *question = question_of(c);
    const char *plans = c->cache ? path_join(&c->arena, c->cache, "plans") : NULL;
    if (c->cache && question) {
        c->how.shadow_folder =
            arena_printf(&c->arena, "%s/shadow/%016llx", c->cache,
                         (unsigned long long)str_hash(question, strlen(question)));
    }
    c->cached =
        question && plans && launch_cache_read(&c->host, &c->arena, plans, question, &c->launch);
    if (!c->cached) {
        plan_new(c, question, plans);
    }
}

static void runner_make_folder(struct runner *c)
{
    struct gm_err err;
    if (!c->launch.links.n ||
        launch_folder(c->how.shadow_folder, c->launch.links.items, c->launch.links.n, &err) == 0) {
        return;
    }
    if (c->opened) {
        model_target_close(&c->target);
    }
    c->how.shadow_folder = NULL; // CMD is not led into a folder that is not ours
    plan_new(c, NULL, NULL);
    VEC_PUSH(&c->arena, &c->launch.remarks, arena_strdup(&c->arena, err.text));
}

/* ------------------------------------------------------------------ the device */

/* Never taken from the cache: whether a GPU can be used is a matter of this moment. */
static int choose_device(struct runner *c)
{
    const struct model_target_options start = {
        .env = c->env.vars.items, .n_env = c->env.vars.n, .cwd = c->cwd, .uid = getuid()};
    const struct choose_device_question q = {.device = c->device,
                                             .require_gpu = c->require_gpu,
                                             .keep_env = c->how.keep_env,
                                             .program = &c->program,
                                             .start = &start};
    const char *why = NULL;
    enum host_state state = choose_device_set(&c->arena, &q, &c->launch, &why);
    if (!c->require_gpu || state == HOST_YES) {
        return CLI_OK;
    }
    return state == HOST_NO
               ? cli_fail(CLI_FINDINGS, "run: not started: %s", str_printable(&c->arena, why))
               : cli_fail(CLI_CANNOT,
                          "run: not started: it cannot be determined whether a GPU is "
                          "usable: %s",
                          str_printable(&c->arena, why));
}

/* ------------------------------------------------------------------ the run before the start */

/* The stages up to a kernel, with the libraries and the variables that CMD will have. */
static int runner_run_stages(struct runner *c, struct model_target *t, struct probe_report *ret)
{
    struct gm_err err;
    const struct launch_program *p = &c->program;
    char **env = launch_env(&c->arena, c->env.vars.items, c->env.vars.n, c->launch.changes.items,
                            c->launch.changes.n);
    struct model_target_options asked = {
        .env = (const char *const *)env, .cwd = c->cwd, .uid = getuid()};
    while (env[asked.n_env]) {
        asked.n_env++;
    }
    asked.target = launch_program_target(p);
    int rc = model_target_open(t, &c->arena, &asked, &err);
    const struct cli_probing how = {.model = &t->model, .named = asked.target, .quick = true};
    rc = rc < 0 ? rc : cli_probing_run(&how, ret, &err);
    return rc < 0 ? cli_fail(CLI_CANNOT, "run: the GPUs cannot be tried: %s",
                             str_printable(&c->arena, err.text))
                  : CLI_OK;
}

static size_t count_passed(const struct probe_choice *ran)
{
    size_t n = 0;
    for (size_t i = 0; i < ran->items.n; i++) {
        n += ran->items.items[i].index >= 0 && ran->items.items[i].passed;
    }
    return n;
}

/* Who asked for a GPU does not get the CPU instead; others do, as with --device auto. */
static int take_verdict(struct runner *c, const struct probe_report *r,
                        const struct probe_choice *ran)
{
    const struct model_target_options start = {.env = c->env.vars.items, .n_env = c->env.vars.n};
    const struct choose_device_question q = {.keep_env = c->how.keep_env, .start = &start};
    const char *says = str_printable(&c->arena, probe_sentence(&c->arena, r));
    bool wanted = c->require_gpu || c->device.kind == CHOOSE_DEVICE_CUDA ||
                  c->device.kind == CHOOSE_DEVICE_ROCM;
    bool cannot = r->verdict == PROBE_CANNOT_TELL || r->verdict == PROBE_NO_DRIVER;
    size_t passed = count_passed(ran);
    if (r->verdict == PROBE_WORKS && passed) {
        return CLI_OK;
    }
    if (r->verdict == PROBE_WORKS && !wanted) {
        VEC_PUSH(&c->arena, &c->launch.remarks,
                 "--verify: CMD loads no library by which a GPU could be tried");
        return CLI_OK;
    }
    if (!passed && wanted) {
        return cli_fail(cannot ? CLI_CANNOT : CLI_FINDINGS,
                        "run: not started: no GPU passed the probe: %s", says);
    }
    if (!choose_device_show_passed(&c->arena, &q, ran->items.items, ran->items.n, &c->launch)) {
        return cli_fail(CLI_FINDINGS,
                        "run: not started: the variables that are kept show CMD a "
                        "GPU "
                        "that did not pass the probe: %s",
                        says);
    }
    VEC_PUSH(&c->arena, &c->launch.remarks,
             passed
                 ? arena_printf(&c->arena, "--verify: a GPU is hidden that did not pass: %s", says)
                 : arena_printf(&c->arena, "--verify: no GPU passed, the CPU is used: %s", says));
    return CLI_OK;
}

static int verify(struct runner *c)
{
    struct probe_report report;
    struct probe_choice ran;
    struct model_target t = {.root = ROOT_EMPTY};
    if (!c->verify) {
        return CLI_OK;
    }
    int rc = runner_run_stages(c, &t, &report);
    if (rc == CLI_OK) {
        probe_choice(&c->arena, &report, &ran);
        rc = take_verdict(c, &report, &ran);
    }
    model_target_close(&t);
    return rc;
}

/* ------------------------------------------------------------------ the start */

/* As shells have it: 127 for what is not there, 126 for what cannot be executed. */
static int not_started(struct runner *c, int error)
{
    (void)cli_fail(CLI_CANNOT, "run: %s: %s", str_printable(&c->arena, c->words[0]),
                   strerror(error));
    return error == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
}

/* "gpumend check /opt/v/bin/python" */
static const char *check_command(struct runner *c)
{
    const struct launch_program *p = &c->program;
    const char *target = p->python ? p->python : p->elf ? p->elf : p->file;
    return arena_printf(&c->arena, "gpumend check %s", str_shell_word(&c->arena, target));
}

static void runner_tell(struct runner *c)
{
    const struct launch *l = &c->launch;
    for (size_t i = 0; i < l->remarks.n && i < REMARKS_MAX; i++) {
        (void)cli_fail(CLI_OK, "run: %s", str_printable(&c->arena, l->remarks.items[i]));
    }
    if (l->left.n) {
        (void)cli_fail(CLI_OK, "run: variables do not repair this%s: %s (see %s)",
                       l->left.n > 1 ? arena_printf(&c->arena, ", one of %zu errors", l->left.n)
                                     : "",
                       str_printable(&c->arena, l->left.items[0].text),
                       str_printable(&c->arena, check_command(c)));
    }
}

static int runner_print(struct runner *c)
{
    struct report_run r = {.program = c->not_startable ? NULL : &c->program,
                           .launch = &c->launch,
                           .cached = c->cached};
    if (c->json) {
        if (out_json_dump(stdout, report_run_json(&c->arena, &r)) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
        return CLI_OK;
    }
    report_run_shell(stdout, &c->arena, &c->launch);
    return CLI_OK;
}

static struct run_watch_start watched(struct runner *c)
{
    return (struct run_watch_start){.a = &c->arena,
                                    .host = &c->host,
                                    .env = &c->env,
                                    .cwd = c->cwd,
                                    .cache = c->cache,
                                    .words = c->words,
                                    .program = c->not_startable ? NULL : &c->program,
                                    .launch = &c->launch};
}

static int runner_start(struct runner *c)
{
    if (run_watch_stays(&c->watch)) {
        const struct run_watch_start s = watched(c);
        int error = 0, rc = run_watch_start(&c->watch, &s, &error);
        return error ? not_started(c, error) : rc;
    }
    char **env = launch_env(&c->arena, c->env.vars.items, c->env.vars.n, c->launch.changes.items,
                            c->launch.changes.n);
    cli_restore_signals();
    (void)execvpe(c->words[0], c->words, env); // returns on failure only
    return not_started(c, errno);
}

static int find_program(struct runner *c)
{
    struct launch_command command = {.words = (const char *const *)c->words,
                                     .n = c->n_words,
                                     .path = cli_env_get(&c->env, "PATH"),
                                     .cwd = c->cwd,
                                     .env = c->env.vars.items,
                                     .n_env = c->env.vars.n};
    return launch_program_find(&c->host, &c->arena, &command, &c->program);
}

/* What another user could replace would decide what CMD loads, as long as it runs. */
static void take_cache(struct runner *c)
{
    struct gm_err err;
    const char *folder = folder_of_cache(&c->arena, cli_env_get(&c->env, "XDG_CACHE_HOME"),
                                         cli_env_get(&c->env, "HOME"));
    c->cache = folder ? folder_safe_path(&c->arena, folder, &err) : NULL;
    if (folder && !c->cache && err.code == GM_ERR_UNSUPPORTED) {
        c->cache_why = arena_strdup(&c->arena, err.text);
    }
}

static int runner_run_with(struct runner *c)
{
    struct gm_err err;
    c->cwd = cli_cwd(&c->arena);
    take_cache(c);
    if (root_open(&c->host, "/", &err) < 0) {
        return cli_fail(CLI_CANNOT, "run: %s", err.text);
    }
    c->not_startable = find_program(c);
    if (c->not_startable && c->print) {
        return not_started(c, -c->not_startable);
    }
    if (!c->not_startable) {
        runner_plan(c);
        runner_make_folder(c);
        int rc = choose_device(c);
        rc = rc != CLI_OK ? rc : verify(c);
        if (rc != CLI_OK) {
            return rc;
        }
    }
    const struct run_watch_start s = watched(c);
    int rc = run_watch_environment(&c->watch, &s, c->print);
    if (rc != CLI_OK) {
        return rc;
    }
    if (c->cache_why) {
        VEC_PUSH(&c->arena, &c->launch.remarks, c->cache_why);
    }
    runner_tell(c);
    return c->print ? runner_print(c) : runner_start(c);
}

static int run_run(const struct cli_command *self, int argc, char **argv)
{
    struct runner *c = calloc(1, sizeof *c);
    if (!c) {
        return cli_fail(CLI_CANNOT, "out of memory");
    }
    cli_arena_init(&c->arena);
    cli_env_init(&c->env, &c->arena);
    c->host = ROOT_EMPTY;
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    int rc = CLI_OK, id = CLI_END;
    while (rc == CLI_OK && (id = cli_next(&args)) >= 0) {
        rc = runner_take_option(c, id, args.value);
    }
    if (rc == CLI_OK && (id == CLI_ARGUMENT || id == CLI_END)) {
        c->n_words = id == CLI_ARGUMENT ? (size_t)(argc - args.next + 1) : 0;
        c->words = argv + (argc - (int)c->n_words);
        rc = check_options(c);
        rc = rc == CLI_OK ? runner_run_with(c) : rc;
    } else if (id == CLI_WRONG) {
        rc = CLI_USAGE;
    }
    if (c->opened) {
        model_target_close(&c->target);
    }
    root_close(&c->host);
    arena_release(&c->arena);
    free(c);
    return rc;
}

const struct cli_command cli_run = {
    .name = "run",
    .arguments = "[options] -- CMD [ARGS]",
    .summary = "starts a program with the search path and preloads that it needs",
    .text = "Works out in the model which libraries CMD would load, sets the variables that "
            "repair\n"
            "it, and becomes CMD: process id, standard streams, signals and exit status are those "
            "of\n"
            "CMD. CMD is a Python script, python -m MODULE, a console script such as uvicorn, a\n"
            "program, a shell script, or any of these behind a launcher (timeout, nice, env, uv "
            "run,\n"
            "conda run, torchrun, ...). run says on standard error, in one line, what can be "
            "known\n"
            "only by running CMD and what variables cannot repair. The exit status is 127 if CMD "
            "is\n"
            "not found and 126 if it cannot be executed.\n"
            "\n"
            "With --verify, the GPUs that CMD will see first run up to a kernel: CMD does not see\n"
            "those that fail. If none is left, CMD uses the CPU; if --device or --require-gpu "
            "asked\n"
            "for a GPU, CMD does not start (status 1, or 3 if gpumend cannot tell). --trace and\n"
            "--restart stay beside CMD until it ends, and end as it does. --trace-gpu and\n"
            "--guard-teardown put a small library into it.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = run_run,
};
