/*
 * A launcher and the options that it was given: shared by the table of launchers (launcher.c), the
 * reader of options (launcher_options.c), and the launchers that choose an environment
 * (launcher_environment.c).
 */
#ifndef GPUMEND_LAUNCH_LAUNCHER_H
#define GPUMEND_LAUNCH_LAUNCHER_H

#include "launch/start.h"

/* An option that was given. */
struct given {
    const char *name, *value; // value "" where it takes none
};

typedef VEC(struct given) given_list;

struct launcher {
    const char *names;  // between blanks
    const char *shorts; // as getopt(3) has them; NULL: options are not read
    const char *longs;  // between blanks, ':' behind those that take an argument
    unsigned operands;  // words between the options and the command
    /* NULL: the words are the command. */
    int (*start)(struct launch_start *s, const char *name, const given_list *given,
                 launch_words *words);
    const struct launcher *run; // the options behind the word "run", for tools that have others
};

struct parser {
    struct launch_start *s;
    const struct launcher *row;
    const launch_words *w;
    size_t at; // the word that is read
    given_list given;
};

/* The last value that was given for either name, or NULL. */
const char *launch_given_value(const given_list *given, const char *a, const char *b);

/* Leaves `at` at the first word behind the options; false at an option that is not known. */
bool launch_launcher_take_options(struct parser *p);

/* The command behind a launcher. That it cannot be executed is the launcher's matter. */
int launch_start_by_words(struct launch_start *s, const launch_words *w);

/* Drops the first n words. */
void launch_words_cut(launch_words *w, size_t n);

/* `uv run`. */
int launch_start_by_uv(struct launch_start *s, const char *name, const given_list *given,
                       launch_words *w);

/* A tool's environment in the project's own folder. One that it keeps elsewhere is found by its
 * own rules, and is not known. */
int launch_start_by_project(struct launch_start *s, const char *name, const given_list *given,
                            launch_words *w);

/* `pixi run`. */
int launch_start_by_pixi(struct launch_start *s, const char *name, const given_list *given,
                         launch_words *w);

/* `conda run`, and those that are like it. */
int launch_start_by_conda(struct launch_start *s, const char *name, const given_list *given,
                          launch_words *w);

#endif
