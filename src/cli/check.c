#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"
#include "diag/finding.h"
#include "model/target.h"
#include "report/check.h"
#include "snapshot/snapshot.h"

enum { O_IMPORT = 1, O_PID, O_ROOT, O_ENV, O_UNSET, O_GLIBC, O_CPU, O_KB, O_SNAPSHOT, O_JSON };

static const struct cli_option options[] = {
    {"import", "A,B", "what the program imports, in this order (default: every order)", O_IMPORT},
    {"pid", "N", "look at a running process", O_PID},
    {"root", "DIR", "look at the file system below DIR (a container's, another machine's)", O_ROOT},
    {"env", "K=V", "set a variable of the start environment", O_ENV},
    {"unset", "K", "remove a variable of the start environment", O_UNSET},
    {"glibc", "VER", "behave as this glibc version, e.g. 2.41", O_GLIBC},
    {"cpu", "LEVEL", "x86-64-v1 to x86-64-v4 (default: this machine's)", O_CPU},
    {"kb", "DIR", "knowledge base files that replace the built-in ones", O_KB},
    {"snapshot", "FILE", "look at what gpumend snapshot wrote, or - for standard input", O_SNAPSHOT},
    {"json", NULL, "print JSON (docs/json.md)", O_JSON},
};

struct check {
    struct arena arena;
    struct model_target target;
    struct model_target_options asked;
    struct ldso_cpu cpu;
    struct cli_env env;
    const char *snapshot_file; // or NULL
    struct snapshot snapshot;
    bool env_given; // --env or --unset
    bool json;
};

static bool parse_pid(const char *text, int *ret)
{
    uint64_t pid = 0;
    if (!str_u64(str_of(text), &pid) || pid == 0 || pid > 4194304) {
        return false;
    }
    *ret = (int)pid;
    return true;
}

static int take_option(struct check *c, int id, const char *value)
{
    switch (id) {
    case O_IMPORT: c->asked.imports = value; return CLI_OK;
    case O_ROOT: c->asked.root_path = value; return CLI_OK;
    case O_KB: c->asked.kb_path = value; return CLI_OK;
    case O_JSON: c->json = true; return CLI_OK;
    case O_SNAPSHOT: c->snapshot_file = value; return CLI_OK;
    case O_UNSET:
        c->env_given = true;
        cli_env_unset(&c->env, value);
        return CLI_OK;
    case O_PID:
        return parse_pid(value, &c->asked.pid) ? CLI_OK
                                               : cli_fail(CLI_USAGE, "check: --pid wants a process id, not %s", value);
    case O_ENV:
        c->env_given = true;
        return cli_env_set(&c->env, &c->arena, value)
                   ? CLI_OK
                   : cli_fail(CLI_USAGE, "check: --env wants NAME=VALUE, not %s", value);
    case O_GLIBC:
        return cli_parse_glibc(value, &c->asked.glibc_minor)
                   ? CLI_OK
                   : cli_fail(CLI_USAGE, "check: --glibc wants a version such as 2.41, not %s", value);
    case O_CPU:
        if (!ldso_cpu_parse(value, &c->cpu)) {
            return cli_fail(CLI_USAGE, "check: --cpu wants x86-64-v1 to x86-64-v4, not %s", value);
        }
        c->asked.cpu = &c->cpu;
        return CLI_OK;
    case CLI_ARGUMENT:
        if (c->asked.target) {
            return cli_fail(CLI_USAGE, "check: one TARGET at a time (%s, %s)", c->asked.target, value);
        }
        c->asked.target = value;
        return CLI_OK;
    default: return CLI_USAGE;
    }
}

/* What this gpumend asked for and the snapshot does not hold: a newer one made or reads it. A page
 * of a file may be missing that only the report reads, so one is made first. */
static void note_misses(struct check *c, struct diag_report *report,
                        const struct report_target *shown)
{
    struct arena *a = &c->arena;
    struct snap *files = &c->snapshot.files;
    json_decref(report_check_json(&c->target.model, report, shown));
    snap_note_pages(files);
    for (size_t i = 0; i < files->misses.n; i++) {
        VEC_PUSH(a, &report->notes,
                 arena_printf(a, "not in the snapshot, so what depends on it cannot be told: %s",
                              files->misses.items[i]));
    }
    if (files->misses.n && report->verdict == DIAG_OK) {
        report->verdict = DIAG_CANNOT_TELL;
    }
}

static int print(struct check *c)
{
    struct diag_report report;
    struct report_target shown = {
        .kind = c->target.kind,
        .path = c->asked.target,
        .root = c->asked.root_path ? c->asked.root_path : "/",
        .snapshot = c->snapshot_file,
        .made = c->snapshot.made,
        .made_by = c->snapshot.gpumend,
    };
    diag_run(&c->target.model, &report);
    if (c->snapshot_file) {
        note_misses(c, &report, &shown);
    }
    if (c->json) {
        if (out_json_dump(stdout, report_check_json(&c->target.model, &report, &shown)) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else {
        struct out out;
        out_init(&out, stdout);
        report_check_text(&out, &c->target.model, &report, &shown);
    }
    static const enum cli_status status[] = {
        [DIAG_OK] = CLI_OK, [DIAG_BROKEN] = CLI_FINDINGS, [DIAG_CANNOT_TELL] = CLI_CANNOT};
    return status[report.verdict];
}

/* A whole file, or standard input, up to a limit above that of any document. */
static int read_all(struct arena *a, FILE *file, struct str *ret)
{
    enum { MORE = 1 << 20, BYTES_MAX = 256 << 20 };
    char *data = arena_alloc(a, MORE);
    size_t n = 0, cap = MORE;
    for (size_t got; (got = fread(data + n, 1, cap - n, file)) > 0;) {
        n += got;
        if (n == cap && cap < BYTES_MAX) {
            char *more = arena_alloc(a, cap * 2);
            memcpy(more, data, n);
            data = more;
            cap *= 2;
        }
    }
    *ret = (struct str){data, n};
    return ferror(file) ? -1 : 0;
}

static int open_snapshot(struct check *c)
{
    const char *name = c->snapshot_file;
    struct str text;
    struct gm_err err;
    const struct model_target_options *o = &c->asked;
    if (o->target || o->root_path || o->pid || o->imports || o->glibc_minor || o->cpu ||
        c->env_given) {
        return cli_fail(CLI_USAGE, "check: --snapshot brings TARGET and how it is looked at along");
    }
    FILE *file = strcmp(name, "-") == 0 ? stdin : fopen(name, "re");
    int rc = file ? read_all(&c->arena, file, &text) : -1;
    int saved = errno;
    if (file && file != stdin) {
        (void)fclose(file); // was only read
    }
    if (rc < 0) {
        return cli_fail(CLI_CANNOT, "check: %s: %s", name, strerror(saved));
    }
    rc = snapshot_decode(&c->snapshot, &c->arena, text.s, text.n, &err);
    if (rc < 0) {
        return cli_fail(CLI_CANNOT, "check: %s: %s", name, str_printable(&c->arena, err.text));
    }
    const char *kb = c->asked.kb_path; // of this machine, the rest of the other
    c->asked = snapshot_options(&c->snapshot, false);
    c->asked.kb_path = kb && kb[0] != '/' ? path_join(&c->arena, cli_cwd(&c->arena), kb) : kb;
    return CLI_OK;
}

static int look_and_print(struct check *c)
{
    struct gm_err err;
    int rc = model_target_open(&c->target, &c->arena, &c->asked, &err);
    rc = rc < 0 ? cli_fail(CLI_CANNOT, "check: %s", str_printable(&c->arena, err.text)) : print(c);
    model_target_close(&c->target);
    return rc;
}

static int run_with(struct check *c)
{
    if (c->asked.pid && (c->asked.target || c->asked.root_path || c->asked.imports)) {
        return cli_fail(CLI_USAGE, "check: --pid stands alone, without TARGET, --root and --import");
    }
    if (c->snapshot_file) {
        int rc = open_snapshot(c);
        rc = rc != CLI_OK ? rc : look_and_print(c);
        pages_stop();
        return rc;
    }
    c->asked.cwd = cli_cwd(&c->arena);
    c->asked.uid = getuid();
    c->asked.env = c->env.vars.items;
    c->asked.n_env = c->env.vars.n;
    return look_and_print(c);
}

static bool has_root_option(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--root") == 0 || starts_with(argv[i], "--root=") ||
            strcmp(argv[i], "--pid") == 0 || starts_with(argv[i], "--pid=")) {
            return true;
        }
    }
    return false;
}

static int check_run(const struct cli_command *self, int argc, char **argv)
{
    struct check *c = calloc(1, sizeof *c);
    if (!c) {
        return cli_fail(CLI_CANNOT, "out of memory");
    }
    arena_init(&c->arena, ARENA_LIMIT_DEFAULT, NULL, NULL);
    if (has_root_option(argc, argv)) {
        /* Another system's program does not start in this shell's environment. */
        (void)cli_env_set(&c->env, &c->arena,
                          "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    } else {
        cli_env_init(&c->env, &c->arena);
    }
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    int rc = CLI_OK, id = CLI_END;
    while (rc == CLI_OK && (id = cli_next(&args)) != CLI_END && id != CLI_HELP && id != CLI_WRONG) {
        rc = take_option(c, id, args.value);
    }
    if (rc == CLI_OK && id == CLI_END) {
        rc = run_with(c);
    } else if (id == CLI_WRONG) {
        rc = CLI_USAGE;
    }
    arena_release(&c->arena);
    free(c);
    return rc;
}

const struct cli_command cli_check = {
    .name = "check",
    .arguments = "[TARGET] [options]",
    .summary = "which library request fails or ends at the wrong file, why, and what to do",
    .text = "TARGET is a Python environment's folder, an interpreter, a program or a library; without\n"
            "it the active environment is looked at. For a Python environment every known GPU package\n"
            "is started in the model, alone and in pairs, from its import to its first use. With\n"
            "--root the start environment is empty but for PATH and what --env sets.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = check_run,
};
