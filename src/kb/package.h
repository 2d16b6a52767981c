/*
 * What the package manager of a system, or pip, calls a thing to be installed (kb/packages.json).
 * Everything handed out belongs to the knowledge base.
 */
#ifndef GPUMEND_KB_PACKAGE_H
#define GPUMEND_KB_PACKAGE_H

#include "host/manager.h"
#include "kb/kb.h"

/* The manager as rows name it: dnf for its kin. KB_MANAGER_DRIVER, which has no packages, for
 * HOST_MANAGER_NONE. */
enum kb_manager kb_manager_of(enum host_manager manager);

/* The package of that manager; NULL: none is known. */
const struct kb_provider *kb_package_of(const struct kb_package *row, enum kb_manager manager);

/* The same for the row with this id. NULL too where the area cannot be read. */
const struct kb_provider *kb_package_by_id(struct kb *kb, const char *id, enum kb_manager manager);

/* Whether a row says that the manager has a package of this name. */
bool kb_package_is_known(struct kb *kb, const char *name, enum kb_manager manager);

#endif
