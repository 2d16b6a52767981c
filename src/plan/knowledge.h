/*
 * What may be installed here: the releases that the knowledge base has of a package, each judged
 * for this Python, glibc, driver and GPUs; and what installed distributions require of others.
 *
 *   plan_knowledge_open()     the machine and the areas
 *   plan_knowledge_package()  one package for the solver, made once
 *
 * A value that is not known (no driver to be seen, say) refuses nothing. Everything lives in the
 * model's arena.
 */
#ifndef GPUMEND_PLAN_KNOWLEDGE_H
#define GPUMEND_PLAN_KNOWLEDGE_H

#include "plan/solve.h"
#include "model/model.h"

struct plan_knowledge_gpu {
    const char *name;
    unsigned major, minor; // compute capability
};

struct plan_knowledge_machine {
    const char *python, *python_full; // "3.11", "3.11.2"; NULL: not known
    int glibc_minor;                  // 0: not known
    const char *driver;               // of NVIDIA; NULL: none, or not known
    const char *driver_where;
    VEC(struct plan_knowledge_gpu) gpus; // of NVIDIA, whose capability is known
};

/* Releases next to one another that one reason refuses. */
struct plan_knowledge_refusal {
    const char *first, *last; // versions
    const char *reason;       // a clause: "no wheel for Python 3.13"
};

struct plan_knowledge_package {
    struct plan_solve_package solve;
    const struct py_dist *dist;                  // NULL: not installed
    bool asks;                                   // what its releases ask of the libraries counts
    VEC(struct plan_knowledge_refusal) refusals; // the newest first
};

struct plan_knowledge {
    struct model *m;
    struct arena *a;
    struct plan_knowledge_machine machine;
    struct kb_releases releases;
    struct kb_builds builds;
    struct kb_compats compats;
    struct kb_cudnns cudnns;
    struct kb_drivers drivers;
    struct kb_provides provides;
    struct kb_toolkits toolkits;
    VEC(struct plan_knowledge_package *) packages;
    VEC(const struct plan_solve_package *)
    installed; // by name, with plan_knowledge_all_installed()
};

/* False when there is no environment, or an area of the knowledge base cannot be read. */
bool plan_knowledge_open(struct model *m, struct plan_knowledge *ret);

/* Says that what this package's releases ask of libraries counts; before plan_knowledge_package().
 */
void plan_knowledge_asks(struct plan_knowledge *k, const char *name);

struct plan_knowledge_package *plan_knowledge_package(struct plan_knowledge *k, const char *name);

/* Fills k->installed. */
void plan_knowledge_all_installed(struct plan_knowledge *k);

/* The row that says what a release was built for, or NULL; the build that the plain package index
 * serves, or NULL. */
const struct kb_compat *plan_knowledge_compat(const struct plan_knowledge *k, const char *package,
                                              const char *version);
const struct kb_build *plan_knowledge_build(const struct plan_knowledge *k, const char *package,
                                            const char *version);

/* The release that pip can get and that brings the library: a row and its pip provider. The CUDA
 * major decides where a name serves several (-1: not known). NULL if there is none, or several. */
const struct kb_provider *plan_knowledge_provider(const struct plan_knowledge *k,
                                                  const char *soname, int cuda_major,
                                                  const struct kb_provide **ret_row);

/* Whether the row of its default build says that a release has code for every GPU here which the
 * driver runs or compiles. */
bool plan_knowledge_surely_runs(const struct plan_knowledge *k, const char *package,
                                const char *version);

/* Why the installed release does not run with the driver or the GPUs here, as a clause; NULL if it
 * does, as far as is known. */
const char *plan_knowledge_refuses_installed(const struct plan_knowledge *k,
                                             const struct plan_knowledge_package *p);

/* The folder below the site folder where pip puts the libraries of a package, or NULL. */
const char *plan_knowledge_folder(const struct plan_knowledge *k, const char *package);

/* Whether a usable file of a library of the package lies on this machine outside of packages. */
bool plan_knowledge_served_otherwise(struct plan_knowledge *k, const char *package);

/* Whether the version of the package is that of its CUDA toolkit: "12.4.127", of CUDA 12.4. */
bool plan_knowledge_numbered_as_cuda(const char *package);

/* The newest toolkit of a CUDA major whose own driver is not newer than this one, as its minor
 * number; -1 if the driver is not known, or too old for any. */
int plan_knowledge_toolkit_of_driver(const struct plan_knowledge *k, int cuda_major);

/* The oldest toolkit of a CUDA major that compiles for all GPUs here, as its minor number; -1 if no
 * GPU is known, or none does. */
int plan_knowledge_toolkit_of_gpus(const struct plan_knowledge *k, int cuda_major);

/* The builds that would fit here and that the plain package index does not serve, in words, or "".
 */
const char *plan_knowledge_other_builds(struct plan_knowledge *k, const char *package);

#endif
