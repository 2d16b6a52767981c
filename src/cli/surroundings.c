/* What the process was given: environment, folder, signals; and what it may do from a point on. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/str.h"
#include "cli/cli.h"

extern char **environ;

void cli_env_init(struct cli_env *env, struct arena *a)
{
    for (char **e = environ; e && *e; e++) {
        VEC_PUSH(a, &env->vars, *e);
    }
}

void cli_env_unset(struct cli_env *env, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < env->vars.n; i++) {
        if (!env_value_of(env->vars.items[i], name)) {
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
    return env_value(env->vars.items, env->vars.n, name);
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

static void (*sigbus_before)(int) = SIG_DFL, (*sigxfsz_before)(int) = SIG_DFL,
            (*sigchld_before)(int) = SIG_DFL;

static char **own_words; // what main() was called with

void cli_restore_signals(void)
{
    (void)signal(SIGBUS, sigbus_before); // these cannot fail for valid signals
    (void)signal(SIGXFSZ, sigxfsz_before);
    (void)signal(SIGCHLD, sigchld_before);
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

void cli_begin(char **argv)
{
    own_words = argv;
    sigbus_before = signal(SIGBUS, on_sigbus); // these cannot fail for valid signals
    sigxfsz_before = signal(SIGXFSZ, SIG_IGN); // a limit on the size of files is a write's error
    sigchld_before = signal(SIGCHLD, SIG_DFL); // ignored by a parent, children would have no status
}
