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

enum {
    PLAN_SOLVE_STEPS_MAX = 20000,
    PLAN_SOLVE_CHOICES_MAX = 96,
    PLAN_SOLVE_CONTRADICTIONS_MAX = 4
};

struct plan_solve_need {
    const char *package;      // normalised name
    const char *versions;     // the set as written, "" for any
    struct py_specifiers set; // the same, parsed
    bool strict;              // holds for an installed release too, which else is left alone
    bool files;         // what is needed are its files: it must be there (else pip sees to that)
    const char *source; // where it is said: "kb: compat/ctranslate2-4.5", "its metadata"
};

struct plan_solve_release {
    const char *version;
    const struct plan_solve_need *needs;
    size_t n_needs;
    const char *row; // of the knowledge base, or NULL
};

/* A package that puts files of the same names into the same folder: of two such, the one that is
 * installed last overwrites the other's. */
struct plan_solve_collision {
    const char *package; // normalised
    const char *folder;  // below the site folder
};

struct plan_solve_package {
    const char *name;                           // normalised
    const struct plan_solve_release *installed; // NULL: it is not
    const struct plan_solve_release *releases;  // what it could become, the best first
    size_t n_releases;
    bool newest;                // its newest release that fits, whatever else that takes
    bool known;                 // no releases means "none fits" and not "none is known"
    const char *const *refused; // versions that are known and do not fit this machine
    size_t n_refused;
    const struct plan_solve_collision *collisions;
    size_t n_collisions;
};

/* What is asked of a package. */
struct plan_solve_goal {
    const struct plan_solve_package *package;
    bool stay;                                 // the installed release, with its strict needs
    const struct plan_solve_release *releases; // else one of these
    size_t n_releases;
    const char *why;
};

struct plan_solve_change {
    const struct plan_solve_package *package;
    const struct plan_solve_release *release;
    const char *why;
};

struct plan_solve_problem {
    const struct plan_solve_package *(*find)(void *arg, const char *name); // never NULL
    void *arg;
    const struct plan_solve_package *const *installed; // all that is, sorted by name
    size_t n_installed;
    const struct plan_solve_goal *goals;
    size_t n_goals;
    const struct plan_solve_need *needs; // asked for by no package
    size_t n_needs;
};

enum plan_solve_outcome { PLAN_SOLVE_FOUND, PLAN_SOLVE_NONE, PLAN_SOLVE_BOUND };

struct plan_solve_answer {
    enum plan_solve_outcome
        outcome; // PLAN_SOLVE_BOUND: nothing was found within PLAN_SOLVE_STEPS_MAX
    VEC(struct plan_solve_change) changes; // with PLAN_SOLVE_FOUND; what was asked for comes first
    VEC(const char *) contradictions;      // else: why, one sentence each, the first few
};

void solve(struct arena *a, const struct plan_solve_problem *problem,
           struct plan_solve_answer *ret);

/* Parses the set; false if it is none. Neither strict nor files. */
bool plan_solve_need_init(struct arena *a, const char *package, const char *versions,
                          const char *source, struct plan_solve_need *ret);
bool plan_solve_need_fits(const struct plan_solve_need *need, const char *version);

#endif
