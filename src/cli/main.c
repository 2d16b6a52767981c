#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/licenses.h"
#include "cli/limit.h"
#include "version.h"

static const struct cli_command *const commands[] = {
    &cli_check, &cli_fix, &cli_enable, &cli_disable, &cli_run, &cli_why, &cli_explain,
    &cli_devices, &cli_probe, &cli_choose, &cli_container,
    &cli_snapshot, &cli_kb};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void usage(FILE *file)
{
    fprintf(file, "gpumend finds out why a GPU program does not load or run, and what to do.\n\n"
                  "usage: gpumend COMMAND [options]\n\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        fprintf(file, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    }
    fprintf(file, "\n  gpumend COMMAND --help    prints the help of one command\n"
                  "  gpumend --version         prints the version\n"
                  "  gpumend --licenses        prints the licences of gpumend and of what it contains\n\n"
                  "Looking executes nothing, changes nothing and sends nothing anywhere. Only fix --apply,\n"
                  "enable, disable, run, probe and --probe act, and they say what they do.\n"
                  "Exit status: 0 nothing wrong, 1 errors found, 2 wrong usage, 3 cannot tell.\n");
}

int cli_fail(enum cli_status status, const char *fmt, ...)
{
    va_list ap;
    char *text = NULL;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    struct arena scratch;
    arena_init(&scratch, 0, NULL, NULL);
    fprintf(stderr, "gpumend: %s\n", n < 0 ? "no memory" : str_printable(&scratch, text));
    arena_release(&scratch);
    free(n < 0 ? NULL : text);
    return status;
}

int cli_finish(enum cli_status status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return cli_fail(CLI_CANNOT, "cannot write the output");
    }
    return status;
}

void cli_help(const struct cli_command *c)
{
    printf("usage: gpumend %s %s\n\n%s\n", c->name, c->arguments, c->text);
    if (c->n_options) {
        fputs("\noptions:\n", stdout);
    }
    for (size_t i = 0; i < c->n_options; i++) {
        const struct cli_option *o = &c->options[i];
        char left[64];
        (void)snprintf(left, sizeof left, "--%s%s%s", o->name, o->value ? " " : "",
                       o->value ? o->value : "");
        printf("  %-24s %s\n", left, o->help);
    }
    printf("  %-24s %s\n", "--help", "print this");
}

static const struct cli_option *find_option(const struct cli_command *c, struct str name)
{
    for (size_t i = 0; i < c->n_options; i++) {
        if (str_is(name, c->options[i].name)) {
            return &c->options[i];
        }
    }
    return NULL;
}

static void unknown_option(const struct cli_command *c, struct str name, const char *word)
{
    char written[64]; // longer ones are near to no option
    struct nearest n;
    (void)snprintf(written, sizeof written, STR_FMT, STR_ARG(name));
    nearest_init(&n, written + strspn(written, "-"));
    for (size_t i = 0; i < c->n_options; i++) {
        nearest_try(&n, c->options[i].name);
    }
    const char *best = nearest_best(&n);
    (void)cli_fail(CLI_USAGE, "%s: unknown option %s%s%s%s (see gpumend %s --help)", c->name, word,
                   best ? "; did you mean --" : "", best ? best : "", best ? "?" : "", c->name);
}

int cli_next(struct cli_args *args)
{
    if (args->next >= args->argc) {
        return CLI_END;
    }
    char *word = args->argv[args->next++];
    args->value = word;
    if (args->only_arguments || word[0] != '-' || word[1] == '\0') {
        return CLI_ARGUMENT;
    }
    if (strcmp(word, "--") == 0) {
        args->only_arguments = true;
        return cli_next(args);
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        cli_help(args->command);
        return CLI_HELP;
    }
    struct str name = str_of(strcmp(word, "-v") == 0 ? "--verbose" : word);
    size_t equals = str_find_char(name, '=');
    const char *inline_value = equals < name.n ? word + equals + 1 : NULL;
    name.n = equals;
    const struct cli_option *o = NULL;
    if (str_starts(name, "--")) {
        o = find_option(args->command, (struct str){name.s + 2, name.n - 2});
    }
    if (!o) {
        unknown_option(args->command, name, word);
        return CLI_WRONG;
    }
    if (o->value && !inline_value && args->next >= args->argc) {
        (void)cli_fail(CLI_USAGE, "%s: --%s needs a value: %s", args->command->name, o->name, o->value);
        return CLI_WRONG;
    }
    if (!o->value && inline_value) {
        (void)cli_fail(CLI_USAGE, "%s: --%s takes no value", args->command->name, o->name);
        return CLI_WRONG;
    }
    args->value = !o->value ? NULL : inline_value ? inline_value : args->argv[args->next++];
    return o->id == CLI_LIMIT || o->id == CLI_LIMIT_LARGE ? cli_next(args) : o->id;
}

extern char **environ;

void cli_env_init(struct cli_env *env, struct arena *a)
{
    for (char **e = environ; e && *e; e++) {
        VEC_PUSH(a, &env->vars, *e);
    }
}

static bool names_variable(const char *entry, const char *name, size_t n)
{
    return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

void cli_env_unset(struct cli_env *env, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < env->vars.n; i++) {
        if (!names_variable(env->vars.items[i], name, strlen(name))) {
            env->vars.items[kept++] = env->vars.items[i];
        }
    }
    env->vars.n = kept;
}

bool cli_env_set(struct cli_env *env, struct arena *a, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment) {
        return false;
    }
    cli_env_unset(env, arena_strndup(a, assignment, (size_t)(equals - assignment)));
    VEC_PUSH(a, &env->vars, assignment);
    return true;
}

const char *cli_env_get(const struct cli_env *env, const char *name)
{
    for (size_t i = 0; i < env->vars.n; i++) {
        if (names_variable(env->vars.items[i], name, strlen(name))) {
            return env->vars.items[i] + strlen(name) + 1;
        }
    }
    return NULL;
}

const char *cli_cwd(struct arena *a)
{
    char *cwd = getcwd(NULL, 0);
    const char *copy = arena_strdup(a, cwd && cwd[0] == '/' ? cwd : "/");
    free(cwd);
    return copy;
}

bool cli_parse_glibc(const char *text, int *ret)
{
    uint64_t minor = 0;
    struct str s = str_of(text);
    if (!str_starts(s, "2.")) {
        return false;
    }
    s = (struct str){s.s + 2, s.n - 2};
    s.n = str_find_char(s, '.'); // 2.41.1 is 2.41
    if (!str_u64(s, &minor) || minor < 1 || minor > 999) {
        return false;
    }
    *ret = (int)minor;
    return true;
}

/* A mapped file that shrinks while it is read ends in SIGBUS: said in words, not a core dump. */
static void on_sigbus(int signal_number)
{
    (void)signal_number;
    static const char text[] = "gpumend: a file was changed while it was read; try again\n";
    ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
    (void)n; // nothing better can be done when even that fails
    _exit(CLI_CANNOT);
}

static void (*sigbus_before)(int) = SIG_DFL, (*sigxfsz_before)(int) = SIG_DFL;

static char **own_words; // what main() was called with

void cli_restore_signals(void)
{
    (void)signal(SIGBUS, sigbus_before); // these cannot fail for valid signals
    (void)signal(SIGXFSZ, sigxfsz_before);
}

/* Whether a path of the command line leads into another process. */
static bool names_process(void)
{
    for (char **word = own_words; word && *word; word++) {
        if (strstr(*word, "/proc/")) {
            return true;
        }
    }
    return false;
}

void cli_only_look(struct sandbox stays)
{
    stays.processes |= names_process();
    root_open_early("/proc/1/environ"); // says which container this is
    sandbox_enter(&stays);
}

static int unknown_command(const char *word)
{
    struct nearest n;
    nearest_init(&n, word);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        nearest_try(&n, commands[i]->name);
    }
    if (nearest_best(&n)) {
        return cli_fail(CLI_USAGE, "unknown command %s; did you mean %s? (gpumend --help lists the "
                                   "commands)", word, nearest_best(&n));
    }
    (void)cli_fail(CLI_USAGE, "unknown command %s", word);
    usage(stderr);
    return CLI_USAGE;
}

int main(int argc, char **argv)
{
    own_words = argv;
    sigbus_before = signal(SIGBUS, on_sigbus); // these cannot fail for valid signals
    sigxfsz_before = signal(SIGXFSZ, SIG_IGN); // a limit on the size of files is a write's error
    if (argc < 2) {
        usage(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        usage(stdout);
        return cli_finish(CLI_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("gpumend %s\n", GPUMEND_VERSION);
        return cli_finish(CLI_OK);
    }
    if (strcmp(argv[1], "--licenses") == 0) {
        return cli_licenses();
    }
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i]->name) == 0) {
            int status = cli_limit_start(commands[i], argc - 2, argv + 2);
            status = status ? status : commands[i]->run(commands[i], argc - 2, argv + 2);
            return cli_finish(status);
        }
    }
    return unknown_command(argv[1]);
}
