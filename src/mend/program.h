/*
 * Which program a command is, found out as execvp(3), the kernel and env(1) would do it, without
 * starting anything: PATH, interpreter lines, `env -S`, the trampoline that installers write where
 * an interpreter's path is too long for a line, and the words that Python takes for itself.
 *
 * A shell, a script in another language, or a program such as nohup starts programs that are known
 * only by running it; it is a MEND_STARTER then.
 *
 * Sources: execvp(3); binfmt_script.c of Linux (the first line counts up to 255 bytes, one argument
 * at most); CPython 3.13, Python/getopt.c; pip's vendored distlib/scripts.py and uv's
 * uv-install-wheel (the trampoline and its relocatable form).
 */
#ifndef GPUMEND_MEND_PROGRAM_H
#define GPUMEND_MEND_PROGRAM_H

#include "base/root.h"

enum mend_program_kind {
    MEND_PYTHON,  // a Python interpreter, with what it is told to run
    MEND_ELF,     // any other ELF file
    MEND_STARTER, // it starts programs that are not known
};

struct mend_program {
    const char *file; // what will be executed, absolute
    enum mend_program_kind kind;
    /* With MEND_PYTHON: the interpreter as it is started, and one of these; all NULL for standard
     * input and for a prompt. */
    const char *python;
    const char *script; // a file or a folder, absolute
    const char *module; // python -m
    const char *code;   // python -c
    bool ignores_python_variables; // -E, -I
    bool no_user_site;             // -s, -I
    const char *clears; // `env -i` on the way: variables would not reach the program; or NULL
};

struct mend_command {
    const char *const *words;
    size_t n;
    const char *path; // value of PATH, NULL: unset
    const char *cwd;  // absolute
};

/* 0, or a negative errno when the command cannot be started: -ENOENT, -EACCES, ... */
int mend_program_find(struct root *r, struct arena *a, const struct mend_command *c,
                      struct mend_program *ret) GM_CHECK;

const char *mend_program_kind_name(enum mend_program_kind kind); // "python", "elf", "starter"

#endif
