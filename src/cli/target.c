#include "cli/target.h"

#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/str.h"
#include "cli/limit.h"
#include "cdi/files.h"

/* ------------------------------------------------------------------ values */

int cli_take_env(const char *command, struct cli_env *env, struct arena *a, const char *value)
{
    return cli_env_set(env, a, value)
               ? CLI_OK
               : cli_fail(CLI_USAGE, "%s: --env expects NAME=VALUE, not %s", command, value);
}

int cli_take_glibc(const char *command, const char *value, int *ret)
{
    return cli_parse_glibc(value, ret)
               ? CLI_OK
               : cli_fail(CLI_USAGE, "%s: --glibc expects a version such as 2.41, not %s", command,
                          value);
}

int cli_take_cpu(const char *command, const char *value, struct ldso_cpu *ret)
{
    return ldso_cpu_parse(value, ret)
               ? CLI_OK
               : cli_fail(CLI_USAGE,
                          "%s: --cpu expects x86-64-v1 to x86-64-v4, armv8.0-a or armv8.1-a, not "
                          "%s",
                          command, value);
}

int cli_take_page_size(const char *command, const char *value, uint32_t *ret)
{
    return ldso_page_parse(value, ret)
               ? CLI_OK
               : cli_fail(CLI_USAGE, "%s: --page-size expects 4096, 16384 or 65536, not %s",
                          command, value);
}

static int take_pid(struct cli_target *t, const char *value)
{
    uint64_t pid = 0;
    if (!str_u64(str_of(value), &pid) || pid == 0 || pid > 4194304) { // PID_MAX_LIMIT, 64 bits
        return cli_fail(CLI_USAGE, "%s: --pid expects a process id, not %s", t->command, value);
    }
    t->asked.pid = (int)pid;
    return CLI_OK;
}

static int take_target(struct cli_target *t, const char *value)
{
    if (t->asked.target) {
        return cli_fail(CLI_USAGE, "%s: one TARGET at a time (%s, %s)", t->command, t->asked.target,
                        value);
    }
    t->asked.target = value;
    return CLI_OK;
}

/* --env or --unset; both are kept, for cli_target_leave_shell(). */
static int take_variable(struct cli_target *t, int id, const char *value)
{
    int rc = CLI_OK;
    t->env_given = true;
    if (id == CLI_ENV) {
        rc = cli_take_env(t->command, &t->env, &t->arena, value);
    } else {
        cli_env_unset(&t->env, value);
    }
    if (rc == CLI_OK && (id == CLI_ENV || !strchr(value, '='))) {
        VEC_PUSH(&t->arena, &t->given, value);
    }
    return rc;
}

int cli_target_take(struct cli_target *t, int id, const char *value)
{
    switch (id) {
    case CLI_IMPORT: // given again: one after the other
        t->asked.imports =
            t->asked.imports ? arena_printf(&t->arena, "%s,%s", t->asked.imports, value) : value;
        return CLI_OK;
    case CLI_PID: return take_pid(t, value);
    case CLI_HOST: t->asked.host_path = value; return CLI_OK;
    case CLI_ROOT: t->asked.root_path = value; return CLI_OK;
    case CLI_ENV:
    case CLI_UNSET: return take_variable(t, id, value);
    case CLI_GLIBC: return cli_take_glibc(t->command, value, &t->asked.glibc_minor);
    case CLI_CPU:
        t->asked.cpu = &t->cpu;
        t->cpu_text = value;
        return cli_take_cpu(t->command, value, &t->cpu);
    case CLI_PAGE_SIZE: return cli_take_page_size(t->command, value, &t->asked.page_size);
    case CLI_KB: t->asked.kb_path = value; return CLI_OK;
    case CLI_JSON: t->json = true; return CLI_OK;
    case CLI_VERBOSE: t->verbose = true; return CLI_OK;
    case CLI_ARGUMENT: return take_target(t, value);
    default: return CLI_USAGE;
    }
}

static const char *with_option(struct arena *a, const char *words, const char *name,
                               const char *value)
{
    return value ? arena_printf(a, "%s%s%s %s", words, *words ? " " : "", name,
                                str_shell_word(a, value))
                 : words;
}

const char *cli_target_options(struct cli_target *t)
{
    struct arena *a = &t->arena;
    const struct model_target_options *o = &t->asked;
    const char *glibc = o->glibc_minor ? arena_printf(a, "2.%d", o->glibc_minor) : NULL;
    const char *page = o->page_size ? arena_printf(a, "%u", o->page_size) : NULL;
    const char *words = with_option(a, "", "--import", o->imports);
    words = with_option(a, words, "--host", o->host_path);
    words = with_option(a, words, "--glibc", glibc);
    words = with_option(a, words, "--cpu", t->cpu_text);
    words = with_option(a, words, "--page-size", page);
    words = with_option(a, words, "--kb", o->kb_path);
    for (size_t i = 0; i < t->given.n; i++) {
        const char *value = t->given.items[i];
        words = with_option(a, words, strchr(value, '=') ? "--env" : "--unset", value);
    }
    return words;
}

/* ------------------------------------------------------------------ the run */

/* Asked before the options are read, as --env may stand before it. */
static bool is_elsewhere(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--root") == 0 || starts_with(argv[i], "--root=") ||
            strcmp(argv[i], "--pid") == 0 || starts_with(argv[i], "--pid=")) {
            return true;
        }
    }
    return false;
}

static void start_with_path(struct cli_target *t)
{
    t->env = (struct cli_env){0};
    (void)cli_env_set(&t->env, &t->arena, // has its '='
                      CLI_PATH_ELSEWHERE);
}

/* What --unset names and no later --env sets again. */
static void ask_without(struct cli_target *t)
{
    VEC(const char *) names = {0};
    for (size_t i = 0; i < t->given.n; i++) {
        const char *name = t->given.items[i];
        if (!strchr(name, '=') && !env_value(t->env.vars.items, t->env.vars.n, name)) {
            VEC_PUSH(&t->arena, &names, name);
        }
    }
    t->asked.unset = names.items;
    t->asked.n_unset = names.n;
}

static void ask_with_env(struct cli_target *t)
{
    t->asked.env = t->env.vars.items;
    t->asked.n_env = t->env.vars.n;
    ask_without(t);
}

struct cli_env cli_target_given(struct cli_target *t)
{
    struct cli_env env = {0};
    for (size_t i = 0; i < t->given.n; i++) {
        (void)cli_env_set(&env, &t->arena, t->given.items[i]); // a name alone is that of --unset
    }
    return env;
}

void cli_target_leave_shell(struct cli_target *t)
{
    start_with_path(t);
    for (size_t i = 0; i < t->given.n; i++) {
        if (!cli_env_set(&t->env, &t->arena, t->given.items[i])) {
            cli_env_unset(&t->env, t->given.items[i]);
        }
    }
    ask_with_env(t);
}

static int target_run(struct cli_target *t, const struct cli_target_calls *calls, void *command)
{
    t->asked.cwd = cli_cwd(&t->arena);
    t->asked.uid = getuid();
    t->asked.on_host = cdi_files_note;
    ask_with_env(t);
    return calls->run(command);
}

int cli_target_run(struct cli_target *t, const struct cli_command *self, int argc, char **argv,
                   const struct cli_target_calls *calls, void *command)
{
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    int rc = CLI_OK, id = CLI_END;
    t->command = self->name;
    cli_arena_init(&t->arena);
    if (is_elsewhere(argc, argv)) {
        start_with_path(t);
    } else {
        cli_env_init(&t->env, &t->arena);
    }
    while (rc == CLI_OK && (id = cli_next(&args)) != CLI_END && id != CLI_HELP && id != CLI_WRONG) {
        rc =
            calls->take ? calls->take(command, id, args.value) : cli_target_take(t, id, args.value);
    }
    if (rc == CLI_OK && id == CLI_END) {
        rc = target_run(t, calls, command);
    } else if (id == CLI_WRONG) {
        rc = CLI_USAGE;
    }
    arena_release(&t->arena);
    return rc;
}
