/*
 * The package manager of a system, by the programs in it, and how it is told to install something.
 * Sources: apt-get(8), dnf(8), microdnf(8), yum(8), zypper(8), pacman(8), apk(8).
 */
#ifndef GPUMEND_HOST_MANAGER_H
#define GPUMEND_HOST_MANAGER_H

#include "base/arena.h"
#include "base/root.h"

enum host_manager {
    HOST_MANAGER_NONE, // none was seen
    HOST_APT,
    HOST_DNF,
    HOST_MICRODNF,
    HOST_YUM,
    HOST_ZYPPER,
    HOST_PACMAN,
    HOST_APK,
    HOST_MANAGERS
};

struct host_manager_words {
    const char *install; // "dnf install": asks before it acts
    const char *build;   // the same without a question, with fresh lists
    const char *remove;  // "dnf remove"
    bool rpm;            // its repositories are files in /etc/yum.repos.d
};

/* What is installed below a root; else what its os-release says is usual. */
enum host_manager host_manager(struct root *r, struct arena *a);

/* HOST_MANAGER_NONE: NULL. */
const struct host_manager_words *host_manager_words(enum host_manager m);

/* The system as os-release(5) names it; members are NULL where it does not. */
struct host_system {
    const char *id, *like, *version; // "rocky", "rhel centos fedora", "9.4"
};
struct host_system host_system(struct root *r, struct arena *a);

/* Whether ID is the id, or one of those in ID_LIKE. */
bool host_system_is(const struct host_system *s, const char *id);

#endif
