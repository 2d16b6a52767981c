/*
 * The command line: one file a command, one table of commands, one table of options for each.
 * Only this room prints to the terminal, reads the environment and ends the process.
 */
#ifndef GPUMEND_CLI_CLI_H
#define GPUMEND_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/out.h"
#include "base/root.h"
#include "base/sandbox.h"

/* Exit status of every command. */
enum cli_status {
    CLI_OK = 0,       // nothing wrong
    CLI_FINDINGS = 1, // findings of severity error
    CLI_USAGE = 2,    // wrong usage
    CLI_CANNOT = 3,   // could not look; the reason is on stderr
};

/* One option, with or without a value. `id` is what cli_next() returns. */
struct cli_option {
    const char *name;  // without the dashes
    const char *value; // what the value is called in the help, or NULL
    const char *help;
    int id;
};

struct cli_command {
    const char *name, *arguments, *summary, *text; // help
    const struct cli_option *options;
    size_t n_options;
    int (*run)(const struct cli_command *self, int argc, char **argv);
};

extern const struct cli_command cli_check, cli_fix, cli_enable, cli_disable, cli_run, cli_why,
    cli_explain, cli_devices, cli_kb, cli_variants;
extern const struct cli_command cli_choose, cli_setup;
extern const struct cli_command cli_probe;
extern const struct cli_command cli_container;
extern const struct cli_command cli_snapshot;
extern const struct cli_command cli_export, cli_fleet, cli_needs;
extern const struct cli_command cli_mcp;

enum {
    CLI_END = -1,
    CLI_ARGUMENT = -2,
    CLI_WRONG = -3,
    CLI_HELP = -4,
    CLI_LIMIT = -5,
    CLI_LIMIT_LARGE = -6, // --limit, which cli_next() passes over (cli/limit.h)
};

struct cli_args {
    const struct cli_command *command;
    int argc, next;
    char **argv;
    const char *value;   // of the option or argument just returned
    bool only_arguments; // after "--"
};

/* The next option's id, CLI_ARGUMENT, CLI_END, CLI_HELP (--help was printed), or CLI_WRONG (said
 * on stderr). Accepts "--name VALUE" and "--name=VALUE", and -v for
 * --verbose. */
int cli_next(struct cli_args *args);

void cli_help(const struct cli_command *command);

/* "gpumend: sentence" on stderr; returns status. */
int cli_fail(enum cli_status status, const char *fmt, ...) __attribute__((format(GM_PRINTF, 2, 3)));

/* Called by main() first: takes the signals, and keeps the words of the command line. On Windows
 * they become UTF-8. */
void cli_begin(int *argc, char ***argv);

/* Whether a path of the command line leads into another process. */
bool cli_names_process(void);

/* Gives back the signals as main() found them, for a program that is about to take this process. */
void cli_restore_signals(void);

/* Called before a command that only looks at this machine reads anything: from here on it can do
 * nothing else (base/sandbox.h). What acts does not call it. */
void cli_only_look(struct sandbox stays);

/* Checks that what was printed reached its destination. */
int cli_finish(enum cli_status status);

/* The environment given to gpumend with --env and --unset applied: "K=V" strings. */
struct cli_env {
    VEC(const char *) vars;
};
/* The start environment of a program of another system. */
#define CLI_PATH_ELSEWHERE "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

void cli_env_init(struct cli_env *env, struct arena *a);
bool cli_env_set(struct cli_env *env, struct arena *a, const char *assignment); // false: no '='
void cli_env_unset(struct cli_env *env, const char *name);
const char *cli_env_get(const struct cli_env *env, const char *name);

/* Whether this executable runs on Windows, and / is its drives. */
bool cli_is_windows(void);

/* "2.41" -> 41; false for anything that is no glibc version. */
bool cli_parse_glibc(const char *text, int *ret);

/* The working directory, or "/" if it is gone. */
const char *cli_cwd(struct arena *a);

#endif
