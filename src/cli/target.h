/*
 * What the commands share that look at a TARGET: their common options, the start environment, and
 * the order from the command line to the exit status.
 *
 *   cli_target_run()  ->  take() for each option that is the command's own  ->  run()
 */
#ifndef GPUMEND_CLI_TARGET_H
#define GPUMEND_CLI_TARGET_H

#include "cli/cli.h"
#include "model/target.h"

/* The ids of the common options; a command's own stay below. */
enum {
    CLI_IMPORT = 100,
    CLI_PID,
    CLI_ROOT,
    CLI_ENV,
    CLI_UNSET,
    CLI_GLIBC,
    CLI_CPU,
    CLI_PAGE_SIZE,
    CLI_KB,
    CLI_JSON,
    CLI_HOST,
    CLI_VERBOSE,
};

/* Rows of a table of options. */
#define CLI_OPTION_IMPORT                                                                          \
    {                                                                                              \
        "import", "A,B", "what the program imports, in this order (default: any)", CLI_IMPORT      \
    }
#define CLI_OPTION_PID                                                                             \
    {                                                                                              \
        "pid", "N", "look at a running process: what it has loaded, and loads at its next use",    \
            CLI_PID                                                                                \
    }
#define CLI_OPTION_ROOT                                                                            \
    {                                                                                              \
        "root", "DIR", "look at the file system below DIR (a container's, another machine's)",     \
            CLI_ROOT                                                                               \
    }
#define CLI_OPTION_HOST                                                                            \
    {                                                                                              \
        "host", "DIR", "the machine that it will run on, by its file system (default: this one)",  \
            CLI_HOST                                                                               \
    }
#define CLI_OPTION_ENV                                                                             \
    {                                                                                              \
        "env", "K=V", "set a variable of the start environment", CLI_ENV                           \
    }
#define CLI_OPTION_UNSET                                                                           \
    {                                                                                              \
        "unset", "K", "remove a variable of the start environment", CLI_UNSET                      \
    }
#define CLI_OPTION_GLIBC                                                                           \
    {                                                                                              \
        "glibc", "VER", "behave as this glibc version, e.g. 2.41", CLI_GLIBC                       \
    }
#define CLI_OPTION_CPU                                                                             \
    {                                                                                              \
        "cpu", "LEVEL",                                                                            \
            "x86-64-v1 to x86-64-v4, armv8.0-a or armv8.1-a (default: that of the system "         \
            "looked at)",                                                                          \
            CLI_CPU                                                                                \
    }
#define CLI_OPTION_PAGE_SIZE                                                                       \
    {                                                                                              \
        "page-size", "BYTES",                                                                      \
            "4096, 16384 or 65536, where the kernel decides it (default: that of the system "      \
            "looked at)",                                                                          \
            CLI_PAGE_SIZE                                                                          \
    }
#define CLI_OPTION_KB                                                                              \
    {                                                                                              \
        "kb", "DIR", "add these rows to the knowledge base (docs/kb.md)", CLI_KB                   \
    }
#define CLI_OPTION_JSON                                                                            \
    {                                                                                              \
        "json", NULL, "print JSON (docs/json.md)", CLI_JSON                                        \
    }

#define CLI_OPTION_VERBOSE                                                                         \
    {                                                                                              \
        "verbose", NULL, "print the evidence and all repairs (also -v)", CLI_VERBOSE               \
    }

struct cli_target {
    const char *command; // its name
    struct arena arena;
    struct cli_env env; // of the start; in `asked` when run() is called
    struct model_target_options asked;
    struct ldso_cpu cpu;
    const char *cpu_text; // --cpu as given, or NULL
    bool env_given;       // --env or --unset
    bool json, verbose;
    VEC(const char *) given; // what --env and --unset say, in their order: "K=V", or "K" to remove
};

struct cli_target_calls {
    /* An option or argument that is not common; falls back on cli_target_take(). May be NULL. */
    int (*take)(void *command, int id, const char *value);
    int (*run)(void *command);
};

/* Reads the arguments and calls run(); `command` is passed on. Another system's program does not
 * start in this shell's environment: with --root and --pid it is empty but for PATH. Everything in
 * t->arena is gone afterwards. */
int cli_target_run(struct cli_target *t, const struct cli_command *self, int argc, char **argv,
                   const struct cli_target_calls *calls, void *command);

/* Takes a common option, or the argument TARGET. */
int cli_target_take(struct cli_target *t, int id, const char *value);

/* What was asked for beside TARGET and --root, ready for a shell: "--import torch --env 'A=b c'",
 * or
 * "". For commands that are printed (model_command()). */
const char *cli_target_options(struct cli_target *t);

/* The variables of --env alone: of a target whose environment is not a shell's. */
struct cli_env cli_target_given(struct cli_target *t);

/* For a target that turns out to be another system's, such as an image: the start environment is
 * PATH and what --env and --unset say, nothing of this shell's. */
void cli_target_leave_shell(struct cli_target *t);

/* The values of common options, for a command that has no TARGET; what is wrong is said. */
int cli_take_env(const char *command, struct cli_env *env, struct arena *a, const char *value);
int cli_take_glibc(const char *command, const char *value, int *ret);
int cli_take_cpu(const char *command, const char *value, struct ldso_cpu *ret);
int cli_take_page_size(const char *command, const char *value, uint32_t *ret);

#endif
