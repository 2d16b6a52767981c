/*
 * A script of a shell, read as text: shared by the words (shell_words.c), the commands
 * (shell_commands.c), and what a command does (shell.c). Nothing is executed.
 */
#ifndef GPUMEND_LAUNCH_SHELL_H
#define GPUMEND_LAUNCH_SHELL_H

#include "launch/start.h"

enum {
    WORDS_MAX = 4096,
    NESTED_MAX = 8, // commands whose output is a word of another
};

/* One text, and what reading it has found so far. */
struct shell {
    struct launch_start *s;
    const char *name;         // of the shell or script, for messages
    const char *file;         // $0: the script; NULL: not known
    launch_words positionals; // $1 and further
    struct str rest;
    unsigned depth;  // of conditions and functions
    unsigned nested; // "$(...)" inside one another
    bool ended;      // an exec or exit that no condition stands before

    /* The Python that was found last, and whether another command starts another interpreter. */
    struct launch_program found;
    const char *found_cwd, *elf; // elf: another program that takes the shell's place
    launch_words found_sets;
    bool has_found, found_sure, differs, several;
    /* What "$(...)" stands for; NULL: it is not known. A word has commands, and these have words.
     */
    const char *(*output_of)(struct shell *h, struct str commands);
    const char *unseen;    // the first command that is not known
    const char *elsewhere; // the first whose program no variable reaches; not in `unseen`
};

struct word {
    char *text;
    size_t n;
    bool known, quoted, any;
};

struct command {
    launch_words words;
    launch_words raws;    // of assignments: their text before it was expanded, else NULL
    const char *document; // the word that ends its here-document, or NULL
    char end;             // what ended it
};

/* Appends to a word; a word that is too long is not known. */
void launch_shell_push(struct shell *h, struct word *w, const char *text, size_t n);

/* Whether a character may stand in the name of a variable. */
bool launch_shell_is_name_char(char c);

/* "$@" alone stands for all the words of the script. */
bool launch_shell_take_all_words(struct shell *h, struct str *text, launch_words *out);

/* One word off the head, with its quotes and expansions taken. */
const char *launch_shell_take_word(struct shell *h, struct str *text);

/* The output of the commands by which scripts find their own folder; NULL: it is not known. */
const char *launch_shell_output_of(struct shell *h, struct str commands);

/* The next simple command; false at the end of the text. */
bool launch_shell_take_command(struct shell *h, struct command *ret);

#endif
