/*
 * Which program a command is, found out as execvp(3), the kernel and env(1) would do it, without
 * starting anything: PATH, interpreter lines, `env -S`, the trampoline that installers write where
 * an interpreter's path is too long for a line, and the words that Python takes for itself.
 *
 * Programs whose work is to start others are followed: launchers (timeout, nice, uv run, conda run,
 * torchrun, ...) by a table of their options, scripts of a shell by their text, of which nothing is
 * executed. What such a program starts is known only by running it where its words do not say: it
 * is a LAUNCH_STARTER then, and `unseen` says what was not known.
 *
 * Sources: execvp(3); binfmt_script.c of Linux (the first line counts up to 255 bytes, one argument
 * at most); CPython 3.13, Python/getopt.c; pip's vendored distlib/scripts.py and uv's
 * uv-install-wheel (the trampoline and its relocatable form); POSIX.1-2017, Shell Command Language;
 * launcher.c for the launchers.
 */
#ifndef GPUMEND_LAUNCH_PROGRAM_H
#define GPUMEND_LAUNCH_PROGRAM_H

#include "base/root.h"

enum launch_program_kind {
    LAUNCH_PYTHON,  // a Python interpreter, with what it is told to run
    LAUNCH_ELF,     // any other ELF file
    LAUNCH_STARTER, // it starts other programs, and no Python among them is known
};

struct launch_program {
    const char *file;  // what will be executed, absolute
    const char *first; // the ELF file that the kernel executes for it; NULL: not known
    enum launch_program_kind kind;
    /* With LAUNCH_PYTHON: the interpreter as it is started, and one of these; all NULL for standard
     * input, for a prompt, and where a launcher's words do not say. */
    const char *python;
    const char *script;            // a file or a folder, absolute
    const char *module;            // python -m
    const char *code;              // python -c
    const char *elf;               // with LAUNCH_ELF: the program itself, behind launchers
    bool ignores_python_variables; // -E, -I
    bool no_user_site;             // -s, -I
    const char *lazy_imports;      // the value of its last -X lazy_imports; NULL: without
    const char *clears;            // why variables would not reach the program, a clause; or NULL
    /* What launchers and scripts on the way change: the folder in which it starts (NULL: the
     * command's), and variables, "K=V" for one that is set, "K" for one that is removed. */
    const char *cwd;
    const char *const *sets;
    size_t n_sets;
    /* With LAUNCH_STARTER: why what it starts is not known, a clause; NULL: all of it was read, and
     * it starts no Python. Where it is not known and no environment is active, `python` is that of
     * the environment beside it (./.venv, ./venv), if there is one: an assumption. */
    const char *unseen;
    const char *elsewhere; // with LAUNCH_STARTER: why no variable can reach it, a sentence; or NULL
    /* The programs that scripts on the way start by themselves, each file once: a process of its
     * own for each, of those that are known. */
    const char *const *starts;
    size_t n_starts;
    bool starts_more; // than are kept
    /* Where a file on the way does not exist (-ENOENT): its name as it is asked for, and the script
     * whose first line asks for it; NULL: none does. */
    const char *absent, *absent_for;
};

struct launch_command {
    const char *const *words;
    size_t n;
    const char *path;       // value of PATH, NULL: unset
    const char *cwd;        // absolute
    const char *const *env; // "K=V", for what launchers and scripts ask for; may be NULL
    size_t n_env;
};

/* 0, or a negative errno when the command cannot be started: -ENOENT, -EACCES, ... With -ENOENT
 * only `absent` and `absent_for` are set. */
int launch_program_find(struct root *r, struct arena *a, const struct launch_command *c,
                        struct launch_program *ret) GM_CHECK;

/* The environment of the program: `env` with what is changed on the way. */
void launch_program_env(struct arena *a, const struct launch_program *p, const char *const *env,
                        size_t n_env, const char *const **ret, size_t *ret_n);

/* What there is to look at: the interpreter, or the ELF file; NULL: neither is known. */
const char *launch_program_target(const struct launch_program *p);

const char *launch_program_kind_name(enum launch_program_kind kind); // "python", "elf", "starter"

#endif
