/* What the process was given: words, environment, folder, signals. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

extern char **environ;

void cli_env_init(struct cli_env *env, struct arena *a)
{
    for (char **e = environ; e && *e; e++) {
        VEC_PUSH(a, &env->vars, *e);
    }
}

const char *cli_cwd(struct arena *a)
{
    char *cwd = getcwd(NULL, 0);
    const char *copy = arena_strdup(a, cwd && cwd[0] == '/' ? cwd : "/");
    free(cwd);
    return copy;
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
bool cli_is_windows(void)
{
    return false;
}

bool cli_names_process(void)
{
    for (char **word = own_words; word && *word; word++) {
        if (strstr(*word, "/proc/")) {
            return true;
        }
    }
    return false;
}

void cli_begin(int *argc, char ***argv)
{
    (void)argc;
    own_words = *argv;
    sigbus_before = signal(SIGBUS, on_sigbus); // these cannot fail for valid signals
    sigxfsz_before = signal(SIGXFSZ, SIG_IGN); // a limit on the size of files is a write's error
    sigchld_before = signal(SIGCHLD, SIG_DFL); // ignored by a parent, children would have no status
}
