/*
 * A plan: the ways out of what `check` found, least invasive first. Each way is a list of typed
 * steps, and carries the model's proof that the failing requests are served with it and that no
 * request that was right is made wrong. Making a plan changes nothing; claims about versions of
 * packages come from the knowledge base and the installed metadata only.
 *
 *   model_target_open() -> diag_run() -> plan_make() -> a way
 *       -> launch_plan()   for one start (src/launch/launch.h)
 *       -> apply_way()    for good, behind a journal (src/apply/apply.h)
 */
#ifndef GPUMEND_PLAN_PLAN_H
#define GPUMEND_PLAN_PLAN_H

#include "diag/finding.h"
#include "model/model.h"

enum plan_step_kind {
    PLAN_SET_ENV,  // a variable of the start environment: name, value
    PLAN_PRELOAD,  // libraries to load before anything else, dependencies first: paths
    PLAN_SHADOW,   // a folder of links with full-version names, put first: folder, links
    PLAN_LINK,     // links inside the environment: links
    PLAN_HOOK,     // the start-up hook of the environment, which loads `paths` right before the
                   // first import of one of `modules`
    PLAN_EDIT_ELF, // the RPATH or RUNPATH of one file: file, old_path (NULL: it has none), new_path
                   // (NULL: it is taken away)
    PLAN_PACKAGES, // packages to install, exact: packages
    PLAN_TEXT,     // what only a person can do: system packages, the driver
};

struct plan_link {
    const char *path, *target; // target as it is written into the link
};

struct plan_package {
    const char *name, *from, *to; // from NULL: not installed today; to: an exact version
    const char *why;              // a clause, with the row of the knowledge base it comes from
    const char *requirement;      // "sympy>=1.13.3", for which pip chooses the version; NULL: `to`
};

/* Fields that the kind does not name are NULL and 0. All paths are absolute inside the root. */
struct plan_step {
    enum plan_step_kind kind;
    const char *text;         // one sentence: what it does and why
    const char *command;      // can be pasted into a shell; NULL: there is none
    const char *name, *value; // value NULL: the variable is taken away
    const char *const *paths;
    size_t n_paths;
    const char *const *modules; // top-level import names
    size_t n_modules;
    const char *folder;
    const struct plan_link *links;
    size_t n_links;
    const char *file, *old_path, *new_path;
    bool runpath; // DT_RUNPATH, not DT_RPATH
    const struct plan_package *packages;
    size_t n_packages;
};

/* How far a way reaches; also its rank: the least invasive first. */
enum plan_reach {
    PLAN_FOR_ONE_START, // launch environment and preload: `gpumend run`, gm_preload()
    PLAN_FILES,         // links, hook and edits inside the environment: `fix --apply`
    PLAN_PIP,           // packages of the environment: `fix --apply --packages`
    PLAN_BY_HAND,       // text only
};

/* One request in the proof. */
struct plan_request {
    const char *script; // "import ctranslate2; use ctranslate2"
    const char *name, *caller;
    const char *before, *after; // path that answers it; NULL: it fails
};

struct plan_way {
    enum plan_reach reach;
    const char *title; // one sentence
    VEC(struct plan_step) steps;
    VEC(const struct diag_finding *) mends; // the findings that are gone with it
    VEC(struct plan_request) proof; // what failed or ended at a wrong file, and where it ends
    size_t n_kept;                  // requests that were right and end at the same file as before
    /* Libraries that are not installed yet, and that it makes findable once they are. */
    size_t n_coming;
    size_t n_moved; // requests that were right and end at another file, also right: in `proof`
    VEC(const struct diag_finding *) leaves; // warnings that stand with it where an error stood
    const char *unproved;      // why the model could not try it (packages, the driver), or NULL
    const struct model *after; // as it would be with the way; NULL: it was not tried
};

struct plan {
    VEC(struct plan_way) ways;             // by reach, then by the number of findings they mend
    bool for_warnings;                     // no error was found: warnings are what it is for
    VEC(const struct diag_finding *) left; // errors that no way mends
    VEC(const char *)
    cannot; // why something does not work here: "LD_PRELOAD: secure execution"; which
            // facts contradict one another; one sentence each
};

/* Where the preload of a way would happen, since the two differ in the model. */
enum plan_manner {
    PLAN_AT_START,   // environment variables of the start, LD_PRELOAD
    PLAN_IN_PROCESS, // dlopen in a process that runs already; its search path is fixed
};

struct plan_options {
    enum plan_manner manner;
    bool launch_only; // only PLAN_FOR_ONE_START: what `run` and gm_preload() need, and faster
    bool hook;        // with launch_only: the start-up hook as well
    bool first; // one way for a start is enough, where it mends all errors: no other is looked for
    /* Where the folder of PLAN_SHADOW would be made, absolute; NULL: no such way is offered. */
    const char *shadow_folder;
};

/* Never fails: what cannot be planned is said in the plan. Everything lives in the model's arena.
 */
void plan_make(struct model *m, const struct diag_report *report, const struct plan_options *o,
               struct plan *ret);

/* Whether a way goes before `best` (NULL: there is none) where one of a list is to be carried out:
 * it mends more, or as much with the same reach and more of what is not installed yet. */
bool plan_way_is_better(const struct plan *plan, const struct plan_way *way,
                        const struct plan_way *best);

/* The first way of that reach that mends every error `check` found (without an error: every
 * warning), else the one that mends most; NULL if there is none. */
const struct plan_way *plan_best(const struct plan *plan, enum plan_reach reach);

/* The way that is a start-up hook alone, as `enable` makes it; NULL: the plan has none. */
const struct plan_way *plan_hook_way(const struct plan *plan);

/* The plan becomes its way `number` alone, counted from 1 on; 0, and a plan without ways: it stays
 * as it is. GM_ERR_USAGE: there is no such way. */
int plan_select(struct plan *plan, size_t number, struct gm_err *err) GM_CHECK;

/* How many errors of `check` the way mends, and how many of what the plan is for: the warnings
 * where there is no error. */
size_t plan_way_errors(const struct plan_way *way);
size_t plan_way_worth(const struct plan *plan, const struct plan_way *way);
/* Whether the finding is among them; `way` NULL: no way, which mends nothing. */
bool plan_way_mends(const struct plan_way *way, const struct diag_finding *f);

const char *plan_step_name(enum plan_step_kind kind); // "env", "preload", "shadow", ...
const char *plan_reach_name(enum plan_reach reach);   // "start", "files", "packages", "hand"

/*
 * Sets of package versions that fit one another, this Python, glibc, driver and GPUs, with the
 * fewest changes (src/plan/packages.c). Appends ways of reach PLAN_PIP for the findings, or to
 * plan->cannot the facts that contradict one another.
 */
void plan_add_packages(struct model *m, const struct diag_report *report, struct plan *plan);

#endif
