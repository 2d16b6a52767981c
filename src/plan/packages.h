/*
 * What the files of the repairs by versions share (src/plan/packages.c): findings become askers
 * (packages_asked.c), askers become sets of versions (packages_moves.c), sets get the folders that
 * they need (packages_folders.c), and packages.c writes the repairs. All of it lives in the arena.
 */
#ifndef GPUMEND_PLAN_PACKAGES_H
#define GPUMEND_PLAN_PACKAGES_H

#include "plan/knowledge.h"
#include "plan/plan.h"
#include "plan/solve.h"

enum { ASKERS_MAX = 4 };

/* A distribution that something stops. */
struct asker {
    const char *name;
    struct plan_knowledge_package *p;
    bool cudnn; // it is cuDNN that it does not get: a release without it is a way out
    bool must_move;
    struct plan_solve_release *moves; // what it may become, the best first
    size_t n_moves;
    const char *why; // it moves
};

struct found {
    struct plan_solve_answer answer;
    unsigned moved; // askers, one bit each
};

struct planner {
    struct model *m;
    struct arena *a;
    struct plan *plan;
    const struct diag_report *report;
    struct plan_knowledge k;
    VEC(struct asker) askers;
    VEC(struct plan_solve_need) needs; // of programs that belong to no distribution
    VEC(const struct diag_finding *) findings;
    VEC(const struct diag_finding *) again;    // mended by installing again what is there
    VEC(const struct diag_finding *) declared; // mended by what a package declares
    VEC(struct found) found;
    VEC(const char *) against; // contradictions
};

/* The repair of a finding that installs again what is there, or NULL. */
const struct diag_repair *plan_packages_reinstall_of(const struct diag_finding *f);

/* The distribution that has the NVRTC of this CUDA major for the asker, or NULL. */
const char *plan_packages_nvrtc_set(struct planner *p, const struct asker *x, int major);

/* Fills askers, needs and the list of what is to be installed again. */
void plan_packages_read_findings(struct planner *p, const struct diag_report *report);

/* The installed package that an import of this release imports first, and whose own requirements
 * include the library package: what that one has loaded serves. */
const char *plan_packages_imports_a_server(struct planner *p, const char *name, const char *version,
                                           const char *library);

/* Appends to `found` the sets of versions that let each asker have what it needs. */
void plan_packages_solve_all(struct planner *p, bool any);

/* Whether another set mends the same with fewer changes. */
bool plan_packages_is_dominated(const struct planner *p, size_t index);

/* The site folder that pip will use. */
const char *plan_packages_site_folder(const struct planner *p);

/* The release that a package has with this set of versions. */
const struct plan_solve_release *plan_packages_after(const struct found *f,
                                                     const struct plan_solve_package *s);

/* The folders that LD_LIBRARY_PATH needs for this set of versions; "" if it needs none. */
const char *plan_packages_folders_of(struct planner *p, const struct found *f);

/* The same list with the folders of libraries that are installed again or as they are declared, in
 * which their callers do not look. */
const char *plan_packages_with_folders_of_again(struct planner *p, const char *list);

#endif
