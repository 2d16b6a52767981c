/*
 * Faults of GPU libraries at the end of a thread, when a library is closed and at the end of a
 * process, as public trackers have them; and whether a program loads a library for which the guard
 * of the teardown is meant (inject/guard/guard.c).
 */
#ifndef GPUMEND_LAUNCH_TEARDOWN_H
#define GPUMEND_LAUNCH_TEARDOWN_H

#include "model/model.h"

enum launch_teardown_when { LAUNCH_AT_THREAD_END = 1, LAUNCH_AT_END = 2 };

struct launch_teardown {
    const char *libraries;      // as launch_library_is() takes them
    unsigned when;              // bits of enum launch_teardown_when
    bool guarded;               // the guard keeps it from happening
    const char *thread, *about; // "owner/name#number"; what is reported there
};

/* Whether the path's file is one of the libraries, whose names are separated by blanks: NAME.so,
 * NAME.so.1, NAME-0123abcd.so.1 (as auditwheel names copies); with NAME* one that begins so. */
bool launch_library_is(const char *path, const char *names);

/* What is known of this library at these moments; NULL: nothing. */
const struct launch_teardown *launch_teardown_known(const char *path, unsigned when);

/* The first object of the model's processes that has a fault which the guard keeps from happening:
 * one with code for a GPU that registers thread-local destructors. NULL: there is none. */
const struct ldso_object *launch_teardown_guard(const struct model *m,
                                                const struct launch_teardown **ret_known);

#endif
