/*
 * What is to be installed: shared by the file that decides (install.c), the one that knows which
 * package has a library (wanted.c), and the one that knows the system's package manager
 * (repository.c). Everything lives in the arena of the diagnosis.
 */
#ifndef GPUMEND_DIAG_WANTED_H
#define GPUMEND_DIAG_WANTED_H

#include "diag/internal.h"

struct wanted {
    struct diag *d;
    const struct diag_failure *x;
    const struct kb_compat *compat; // of the asking package, or NULL
    struct kb_provides provides;
    int cuda_major; // -1: not known
    VEC(const char *) names;
    const char *beside; // folders that have to be searched as well, or NULL
};

/* Whether the path is there, below the root. */
bool diag_has_path(struct model *m, const char *path);

/* The version to ask for: what a row of the asking package says, what its metadata declare, or
 * what provides the name. */
const char *diag_wanted_pinned(const struct wanted *w, const struct kb_provider *v);

/* The same for conda: a package of conda-forge has one name for each release of CUDA. */
const char *diag_wanted_conda(const struct wanted *w, const struct kb_provide *row,
                              const struct kb_provider *v);

/* "cuda-version=12", which chooses the builds for that CUDA (conda-forge, "GPU packages"); NULL
 * where the CUDA is not known, or chosen by cudatoolkit. */
const char *diag_wanted_cuda_version(const struct wanted *w, const struct kb_provide *row);

/* Fills what one failure asks for; false: the rows of libraries cannot be read. */
bool diag_wanted_add(struct diag *d, struct diag_finding *f, const struct diag_failure *x,
                     struct wanted *w);

/* The row of the library of this name, or NULL. */
const struct kb_provide *diag_wanted_provide(const struct wanted *w, const char *name);

/* The package of this manager that has the library and fits this CUDA and this system, or NULL. */
const struct kb_provider *diag_wanted_provider(const struct wanted *w, const struct kb_provide *row,
                                               enum kb_manager manager);

/* What the packages to come open themselves: otherwise the repair leads to the next finding. */
void diag_wanted_follow(struct diag_finding *f, struct wanted *w);

/* Whose packages the system's own manager takes. */
bool diag_is_of_system(const struct diag *d, enum kb_manager manager);

/* Whether packages of this manager can be installed on the target. */
bool diag_uses_manager(const struct diag *d, enum kb_manager manager);

/* Appends a word once. */
const char *diag_with_word(struct diag *d, const char *list, const char *separator,
                           const char *word);

/* The command that installs the packages with this manager, the vendor's repository first where it
 * is missing. */
const char *diag_command_of(struct diag *d, enum kb_manager manager, const char *packages,
                            const char *vendor);

/* The name that a package of CUDA has in the vendor's repository for this system: "libcublas-12-4"
 * is "libcublas-12-8" where NVIDIA built packages of 12.8 and none of 12.4. NULL: of that major
 * version none is known to be there. Without os-release nothing is known of the system. */
const char *diag_name_in_repository(struct diag *d, const struct kb_provider *v);

/* What has to be known of the vendor's repository, where the command does not add it. AMD's has a
 * folder for each release, and which one fits is decided by what the program was built with. */
const char *diag_repository_words(struct diag *d, const char *vendor);

#endif
