/*
 * What follows from a stage that did not pass, and what does not: for the stages of NVIDIA's driver
 * by how the stage ended and with which code, for the others as their row says, and of a crash that
 * whose fault it was is not known. Nothing is blamed that the end of the stage does not show.
 */
#ifndef GPUMEND_PROBE_MEANING_H
#define GPUMEND_PROBE_MEANING_H

#include "probe/probe.h"

/* What is known of the driver's files; NULL: not known. */
struct probe_driver {
    const char *library;         // the libcuda.so.1 that is loaded
    const char *own;             // the driver's own, where that is another file
    const char *library_version; // "550.54.15"
    const char *module_version;
    bool compat; // `library` is known to be one of forward compatibility
};

/* Sentences, which live in the arena or are constants. */
const char *probe_meaning(struct arena *a, const struct probe_run *run,
                          const struct probe_driver *driver);

#endif
