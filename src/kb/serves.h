/*
 * Whether the code of a build runs on a GPU of NVIDIA: machine code as it is, PTX if the driver
 * knows its ISA. The rules for code are those of gpu/serves.c.
 */
#ifndef GPUMEND_KB_SERVES_H
#define GPUMEND_KB_SERVES_H

#include <limits.h>
#include <stdbool.h>

#include "gpu/code.h"
#include "kb/kb.h"

/* Whether a driver as people name it ("535", "535.104.05") is at least `least`. A branch alone
 * stands for its newest driver. */
bool kb_driver_reaches(const char *driver, const char *least);

/* Whether a row is the driver of one CUDA release, with a toolkit or without one. */
bool kb_driver_has_cuda(const struct kb_driver *row);

/* The newest CUDA that a driver is enough for; NULL if there is none. */
const struct kb_driver *kb_newest_cuda(const struct kb_drivers *d, const char *driver);

/* Whether a driver is enough for every toolkit that is known: perhaps for newer ones, too. */
bool kb_driver_reaches_all(const struct kb_drivers *d, const char *driver);

/* Whether the CUDA of a driver may be newer than `newest`, the newest that it is enough for: the
 * driver reaches all, or is of a branch that no row names. */
bool kb_driver_may_exceed(const struct kb_drivers *d, const char *driver,
                          const struct kb_driver *newest);

/* The floor of minor-version compatibility for the major of a CUDA ("12", "12.4.1"), which begins
 * with CUDA 11; NULL: not known. */
const struct kb_driver *kb_driver_minor(const struct kb_drivers *d, const char *cuda);

/* The oldest driver for a CUDA: that floor, and before CUDA 11 the least of that release ("10.1")
 * or major ("10"); NULL: not known. */
const struct kb_driver *kb_driver_floor(const struct kb_drivers *d, const char *cuda);

/* The last driver branch that knows GPUs of a compute capability, ten times the number (37); NULL:
 * none has ended. */
const struct kb_driver *kb_driver_last(const struct kb_drivers *d, unsigned capability);

/* The first version of a build's set: "2.0" of ">=2.0,<3.0" and "==2.0". */
const char *kb_build_first(struct arena *a, const struct kb_build *b);

/* Whisper's own sizes are alike in everything but their size, so that a smaller one needs no more
 * memory than a larger one. Distilled models and turbo have few layers that decode, and so little
 * to keep while they do. */
bool kb_model_is_plain_size(const char *model);

/* The row that says why a package computes on no CPU (`says`, a clause: "it computes on GPUs
 * alone"); NULL: there is none. `package` may be written with "_". */
const struct kb_trait *kb_gpu_alone(const struct kb_traits *t, const char *package);

/* The PTX that a driver compiles. */
struct kb_isa {
    unsigned isa; // ten times the newest version that it is sure to know; 0: cannot be determined
    bool more;    // it is newer than all drivers of toolkits here: it may know newer ones
};

/* For what is asked of a build whatever the driver. */
#define KB_ISA_ANY ((struct kb_isa){.isa = UINT_MAX})

/* `driver` NULL, and an area that cannot be loaded: cannot be determined. */
struct kb_isa kb_isa_of_driver(struct kb *kb, const char *driver);

/* The newest PTX ISA that the driver of a CUDA release ("12.6") compiles; 0: unknown, also for
 * NULL.
 */
unsigned kb_isa_of_cuda(struct kb *kb, const char *cuda);

/* The oldest driver that knows a PTX ISA, as the toolkit that it came with; or NULL. */
const struct kb_driver *kb_driver_of_isa(struct kb *kb, unsigned isa);

/* 87 for "8.7"; 0 for NULL and for what is no version. */
unsigned kb_isa_number(const char *text);

/* `number`: ten times the compute capability. ABSENT: the row does not say which code the build
 * has; UNKNOWN: PTX would do, and whether the driver compiles it cannot be determined, or nothing
 * is promised between the two. */
enum gpu_serves kb_build_serves(const struct kb_build *b, unsigned number, struct kb_isa isa);

#endif
