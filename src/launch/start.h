/*
 * The reader behind launch_program_find(), for the files that share it: from the words of a command
 * to the Python that they start in the end, through launchers (launcher.c) and through scripts of a
 * shell (shell.c). Not for other rooms.
 *
 * Nothing of a script is executed: its words are read. What depends on running it (the output of a
 * command, a variable that nobody sets) is a word that is not known, and what is not known is
 * never guessed: the program's `unseen` says what it was.
 */
#ifndef GPUMEND_LAUNCH_START_H
#define GPUMEND_LAUNCH_START_H

#include "launch/program.h"

enum {
    LAUNCH_START_HOPS_MAX = 12,       // launchers and scripts inside one another
    LAUNCH_START_COMMANDS_MAX = 4096, // of all scripts together
    LAUNCH_START_TEXT_MAX = 64 << 10, // bytes of one script
    LAUNCH_START_WORD_MAX = 8 << 10,  // bytes of one word
    LAUNCH_START_PROGRAMS_MAX = 64,   // that scripts start by themselves
};

typedef VEC(const char *) launch_words;

/* A word of a script that is known only by running it; compared by its address. */
extern const char launch_unknown[];

/* A launcher, a shell and a command lead to one another without end, so each is read by these. */
struct launch_start;
struct launch_readers {
    int (*words)(struct launch_start *s, const launch_words *w);
    bool (*launcher)(struct launch_start *s, const char *name, const launch_words *w, int *ret);
    int (*shell)(struct launch_start *s, const char *name, const launch_words *w);
};

struct launch_start {
    const struct launch_readers *readers;
    struct root *root;
    struct arena *a;
    const struct launch_command *command;
    struct launch_program *out;
    const char *path; // value of PATH at this place
    /* Another PATH that may count instead (sudo's secure_path, a login shell's), or NULL: a name
     * has to lead to the same file in both. */
    const char *other_path, *other_why;
    const char *cwd;      // at this place; launch_unknown: not known
    launch_words sets;    // "K=V": set on the way, "K": removed; the last one counts
    launch_words *starts; // of all scripts: the program's fields of these names
    bool *starts_more;
    unsigned hops;
    unsigned lines;    // interpreter lines followed
    unsigned commands; // of scripts, read so far
};

/* What the words start. 0, or a negative errno when the first cannot be executed. */
int launch_start_words(struct launch_start *s, const launch_words *w);

/* What a file starts with these words behind it; by_script: it is the interpreter of a script. */
int launch_start_file(struct launch_start *s, const char *path, const launch_words *w,
                      bool by_script);

/* 0 if execve() would try the file, else -EACCES or what stat() says. */
int launch_start_may_execute(const struct launch_start *s, const char *path);

/* The first of the folders in `search` that holds `name` and lets it be executed; or a negative
 * errno. */
int launch_start_find_in(const struct launch_start *s, const char *search, const char *name,
                         const char **ret);

/* As execvp(3): a name with a slash is a path; otherwise the first of PATH that may be executed. */
int launch_start_find(struct launch_start *s, const char *name, const char **ret);

/* The program starts others, and what they are is not known: `why`, a clause. Returns 0. */
int launch_start_unseen(struct launch_start *s, const char *why);

/* The absolute path of `path`; NULL if it or the folder that it counts from is not known. */
const char *launch_start_path(const struct launch_start *s, const char *path);

/* A variable's value at this place, launch_unknown, or NULL: not set. */
const char *launch_start_variable(const struct launch_start *s, const char *name);

/* Sets a variable (value NULL: removes it); `by` names who does. Whoever sets a variable of the
 * loader hides what is set before the start: unless `keeps`, that is noted. */
void launch_start_set(struct launch_start *s, const char *by, const char *name, const char *value,
                      bool keeps);

/* As an activation script does: VIRTUAL_ENV and PATH. */
void launch_start_enter(struct launch_start *s, const char *prefix);

/* A launcher of the table in launcher.c: true if `name` is one; *ret is what reading it gave. */
bool launch_start_launcher(struct launch_start *s, const char *name, const launch_words *w,
                           int *ret);

/* Whether a list of options between blanks has the name, with an argument or without. */
bool launch_option_is_in(const char *list, const char *name);

/* Goes to the first of the words that starts Python: true if one does. `operands`: not to a word
 * right behind an option, which may be that option's value. */
bool launch_start_first_python(struct launch_start *s, const launch_words *words, bool operands);

/* A shell with the words behind its name. */
int launch_start_shell(struct launch_start *s, const char *name, const launch_words *w);

/* The script of a shell, with the words behind it. */
int launch_start_script(struct launch_start *s, const char *path, const launch_words *w);

/* The launchers that are Python programs themselves: what they are told to run in place of them. */
void launch_start_python_launcher(struct launch_start *s, const launch_words *w);

#endif
