/*
 * Versions of packages that fit one another, with the fewest changes.
 *
 * A problem is a set of packages, each with the release that is installed (or none) and those it
 * could become, and what is asked of some of them. Whatever is not asked for stays as it is until
 * a requirement of something that changes forbids that. Of the answers with the fewest changes the
 * one is taken whose releases stand first in their lists (newest first, as the caller sorts them).
 * The search is a bounded depth-first one; the same problem has the same answer.
 *
 *   solve(arena, &problem, &answer)
 *
 * No I/O and no knowledge of its own: releases, requirements and the words for them are given.
 */
#ifndef GPUMEND_PLAN_SOLVE_H
#define GPUMEND_PLAN_SOLVE_H

#include "base/arena.h"
#include "py/version.h"

enum { SOLVE_STEPS_MAX = 20000, SOLVE_CHOICES_MAX = 96, SOLVE_CONTRADICTIONS_MAX = 4 };

struct solve_need {
    const char *package;      // normalised name
    const char *versions;     // the set as written, "" for any
    struct py_specifiers set; // the same, parsed
    bool strict;  // holds for an installed release too, which else is left alone
    bool files;   // what is needed are its files: it must be there (else pip sees to that)
    const char *source;       // where it is said: "kb: compat/ctranslate2-4.5", "its metadata"
};

struct solve_release {
    const char *version;
    const struct solve_need *needs;
    size_t n_needs;
    const char *row; // of the knowledge base, or NULL
};

/* A package that puts files of the same names into the same folder: of two such, the one that is
 * installed last overwrites the other's. */
struct solve_collision {
    const char *package; // normalised
    const char *folder;  // below the site folder
};

struct solve_package {
    const char *name;                      // normalised
    const struct solve_release *installed; // NULL: it is not
    const struct solve_release *releases;  // what it could become, the best first
    size_t n_releases;
    bool known;                  // no releases means "none fits" and not "none is known"
    const char *const *refused;  // versions that are known and do not fit this machine
    size_t n_refused;
    const struct solve_collision *collisions;
    size_t n_collisions;
};

/* What is asked of a package. */
struct solve_goal {
    const struct solve_package *package;
    bool stay;                            // the installed release, with its strict needs
    const struct solve_release *releases; // else one of these
    size_t n_releases;
    const char *why;
};

struct solve_change {
    const struct solve_package *package;
    const struct solve_release *release;
    const char *why;
};

struct solve_problem {
    const struct solve_package *(*find)(void *arg, const char *name); // never NULL
    void *arg;
    const struct solve_package *const *installed; // all that is, sorted by name
    size_t n_installed;
    const struct solve_goal *goals;
    size_t n_goals;
    const struct solve_need *needs; // asked for by no package
    size_t n_needs;
};

enum solve_outcome { SOLVE_FOUND, SOLVE_NONE, SOLVE_BOUND };

struct solve_answer {
    enum solve_outcome outcome; // SOLVE_BOUND: nothing was found within SOLVE_STEPS_MAX
    VEC(struct solve_change) changes;       // with SOLVE_FOUND; what was asked for comes first
    VEC(const char *) contradictions;       // else: why, one sentence each, the first few
};

void solve(struct arena *a, const struct solve_problem *problem, struct solve_answer *ret);

/* Parses the set; false if it is none. Neither strict nor files. */
bool solve_need_init(struct arena *a, const char *package, const char *versions,
                     const char *source, struct solve_need *ret);
bool solve_need_fits(const struct solve_need *need, const char *version);

#endif
