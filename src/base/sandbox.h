/*
 * What a command that only looks gives up before it reads anything that others wrote: from then on
 * this process cannot write, execute, connect, start or signal anything, whatever is wrong in a
 * parser; no page becomes executable.
 *
 *   no_new_privs   nothing that is started gains rights
 *   seccomp        only the system calls that looking needs, with arguments that read
 *   Landlock       no file can be changed, made, removed or executed, whichever call is tried
 *
 * A call outside the list ends the process with a line on stderr and status 3: it is never answered
 * with an error that a reader might take for "no". None of this can be undone, so that what acts
 * (run, probe, fix --apply, enable) must not call it. A kernel, or a sandbox around this one, that
 * lacks a part leaves that part out; without Landlock openat2 is answered with ENOSYS, as a filter
 * cannot see its flags, and base/root.h walks instead. For one thread.
 */
#ifndef GPUMEND_BASE_SANDBOX_H
#define GPUMEND_BASE_SANDBOX_H

#include <stdbool.h>

/* What stays possible beside reading, and writing to standard output and standard error. */
struct sandbox {
    const char
        *tree; // files are made below this folder (where it is absent: below its parent), or NULL
    bool processes; // looks into other processes by /proc, which Landlock does not let through
};

void sandbox_enter(const struct sandbox *s);

#endif
