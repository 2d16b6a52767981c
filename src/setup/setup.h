/*
 * How to get an application to compute on the GPU of one machine: the plan of `gpumend setup`.
 *
 *   setup_machine_read() or setup_machine_named()  ->  struct setup_machine
 *   setup_plan_make()                              ->  struct setup_plan
 *
 * Everything follows from the knowledge base and the machine's facts. A release that the knowledge
 * base has not read is not offered, and a build of which it does not know for which GPUs it has
 * code is not offered for a GPU; where nothing is left, the verdict is unknown. What the pins need
 * of packages that the knowledge base does not read (av, tokenizers) is left to the installer.
 *
 * The GPU's driver may be too old or missing: releases that the present driver runs come first, if
 * they are for CUDA 12 or later; then those that a newer driver of this GPU runs, with a step that
 * brings it (the distribution's own, if that is enough); then older ones.
 *
 * No I/O but the knowledge base's, what setup_machine_read() reads of the root, and whether a
 * program that the application needs is below it. All texts live in the arena or are constants.
 */
#ifndef GPUMEND_SETUP_SETUP_H
#define GPUMEND_SETUP_SETUP_H

#include "choose/need.h"
#include "host/host.h"
#include "model/model.h"

enum setup_code {
    SETUP_CODE_BUILDS,  // its builds (kb/builds.json) say for which GPUs they have code
    SETUP_CODE_TOOLKIT, // it compiles at run time with CUDA's own compiler
    SETUP_CODE_SOURCE,  // the package index has its source alone: it is compiled when installed
};

/* What a GPU is used through, where no wheel of a package is for it alone. The solver treats it as
 * the CPU.
 */
enum setup_other { SETUP_OTHER_NONE, SETUP_OTHER_XPU, SETUP_OTHER_VULKAN, SETUP_OTHER_HIP };

/* An application that has plans. */
struct setup_app {
    const char *name;    // as it is asked for
    const char *package; // its distribution; its releases are tried, the newest first
    const char *extras;  // for a GPU: "cuda,cudnn", or NULL
    const char *cpu;     // its distribution for the CPU, where that is another one; else NULL
    const char *engines; // distributions that hold its code for GPUs, separated by blanks
    const char *module;  // what is imported: "faster_whisper"
    const char *counts;  // Python that prints how many GPUs it can use
    enum setup_code code;
    const char *cuda;   // with SETUP_CODE_TOOLKIT and _SOURCE: the CUDA major of this row
    const char *git;    // the repository, of what the package index does not have; else NULL
    bool rocm;          // the row is for GPUs of AMD alone, with the ROCm of the system
    bool hook;          // its engine does not search the folders of NVIDIA's wheels
    bool hook_some;     // with `hook`: it searches some of them
    const char *others; // which builds for other devices are not known here, as a clause; or NULL
    bool whisper;       // runs Whisper's models with ctranslate2's compute types
};

/* The rows of an application, in the order in which they are tried (cupy has one for each CUDA
 * major); NULL behind the last. */
const struct setup_app *setup_app_find(const char *name, size_t i);
/* "faster-whisper", in the order of the help; NULL behind the last. */
const char *setup_app_name(size_t i);
/* The name that was most likely meant, or NULL. */
const char *setup_app_near(const char *name);

struct setup_machine {
    const char *shown; // "this machine", "the machine at TREE", "rtx-3060-linux"
    const struct host *host;
    const struct host_gpu *gpu; // the one to be used; NULL: there is none
    bool gpus_unknown;          // whether there is one cannot be seen
    bool windows;
    const char *platform; // "linux-x86-64" as in the knowledge base; NULL: not known
    const char *python;   // "3.11", of the machine's own interpreter; NULL: not known
    int glibc_minor;      // 0: not known
    bool musl;            // its C library is musl: no wheel for glibc runs there
    const char *driver;   // of NVIDIA, the version; NULL: none, or not known
    bool named;           // only the name is known
    struct root *root;    // of a machine that was read; else NULL
};

/* The machine of a model that was opened. */
void setup_machine_read(struct model *m, const char *shown, struct setup_machine *ret);

/* A machine by its name: a GPU as the knowledge base calls it, or "cpu", with a system behind it:
 * "rtx-3060-linux", "gtx-1080-ubuntu", "rx-7900-xtx-windows", "rtx-4070-wsl", "jetson-agx-orin",
 * "dgx-spark". GM_ERR_USAGE: there is none, or it stands for several kinds. */
int setup_machine_named(struct kb *kb, struct arena *a, const char *name, struct setup_machine *ret,
                        struct gm_err *err) GM_CHECK;

struct setup_pin {
    const char *package, *version; // version with its build: "2.9.1+cu126"
    const char *extras;            // "cuda,cudnn", or NULL
    const char *why; // "asked for", "ctranslate2 4.8.5 needs nvidia-cublas-cu12 (...)"
    const char *row; // of the knowledge base: "releases/torch-2.9.1", or NULL
    const char
        *build; // its label, also that of the plain index ("cu128"); NULL: none, or not known
};

struct setup_pins {
    VEC(struct setup_pin) items;  // empty: there are none
    const char *python;           // "3.12"
    bool own_python;              // it is the machine's
    const struct kb_build *build; // of the first engine; NULL: the CPU, or not known
    const char *index;            // where its build is served, "cu126" of PyTorch's; NULL: plain
    const char *cuda;             // the CUDA release of the build, or NULL
    const char *driver_min;       // of NVIDIA, or NULL
    const char *driver_last;      // the last branch for this GPU; NULL: the newest
    const char *toolkit_min;      // of SETUP_CODE_SOURCE: the first CUDA toolkit for the GPU
    bool driver_newer;            // the machine's is older than that, or there is none
    const char *override;         // HSA_OVERRIDE_GFX_VERSION, or NULL
    const char
        *gfx; // AMD's target whose code was looked for: the GPU's, or the override's; or NULL
    VEC(const char *) against; // why there are none, one sentence each
};

struct setup_question {
    struct kb *kb;
    struct arena *a;
    const char *app; // a name of setup_app_name()
    const struct setup_machine *machine;
    const char *folder; // of the environment, as it is to be written; NULL: APP-env
    const char *model;  // of Whisper; NULL: large-v3
    const char *python; // "3.11", and no other; NULL: the machine's, or one that fits
    bool image; // for an image of Debian's (python:3.N-slim), which has no programs of the machine
    /* An environment that exists, which the plan is for: releases that it has come first, if they
     * fit. Its model was opened; NULL: the plan makes a new environment. */
    struct model *there;
};

/* How much of the driver's state may change, in the order of preference. */
enum setup_driver_policy {
    SETUP_DRIVER_STAYS_MODERN, // what it runs of CUDA 12 and later
    SETUP_DRIVER_DISTRIBUTION, // what the distribution's own command brings
    SETUP_DRIVER_NEWER,        // any that the GPU has
    SETUP_DRIVER_STAYS,
    SETUP_DRIVER_POLICIES,
};

/* The pins for one row and device; of a GPU of NVIDIA's with such a driver. Fails only if an area
 * cannot be loaded. */
int setup_pins_find(const struct setup_question *q, const struct setup_app *app,
                    enum choose_device_kind device, enum setup_driver_policy policy,
                    struct setup_pins *ret, struct gm_err *err) GM_CHECK;

/* A pin, and what the environment that exists has in its place. */
struct setup_difference {
    const struct setup_pin *pin;
    const char *have; // the version, or NULL: it is not installed
    bool is_kept;
};

enum setup_step_kind {
    SETUP_DRIVER,
    SETUP_RUNTIME,
    SETUP_ENVIRONMENT,
    SETUP_PACKAGES,
    SETUP_LIBRARIES,
    SETUP_SETTINGS,
    SETUP_PROOF,
    SETUP_STEPS,
};
const char *setup_step_name(enum setup_step_kind kind); // "driver"

/* A command as a program gets it. */
struct setup_run {
    const char *const *words; // words[n] is NULL
    size_t n;
};

struct setup_step {
    enum setup_step_kind kind;
    const char *title;          // an imperative, without a full stop
    const char *why;            // sentences
    VEC(const char *) commands; // as the machine's shell takes them; may be empty
    VEC(struct setup_run) runs; // the same, of SETUP_ENVIRONMENT and SETUP_PACKAGES
    const char *code;           // lines of Python that the application has, or NULL
    const char *seen;           // how to see that it worked
    const char *image;          // the command that does it in an image of Debian's; or NULL
    const char *cost;           // or NULL: not known
    uint64_t download_bytes;    // all that it downloads; 0: not known as a whole
    bool reboot;                // the next step comes after it
    bool to_do;                 // something has to be done that no environment replaces
};

enum setup_verdict { SETUP_GPU, SETUP_CPU, SETUP_NOT, SETUP_UNKNOWN };
const char *setup_verdict_name(enum setup_verdict verdict); // "gpu", "cpu", "not", "unknown"

struct setup_plan {
    const char *app, *machine;
    enum setup_verdict verdict;
    bool replaces;        // another build of a pinned release is there
    bool gpu_lost;        // the verdict is the CPU though there is a GPU
    const char *sentence; // the verdict
    const struct setup_app *row;
    enum choose_device_kind device;
    enum setup_other other; // if not NONE, `device` is the CPU's, whose packages these are
    struct setup_pins pins;
    const char *folder;
    const char *source; // the folder of what comes from a repository, or NULL
    bool windows, uv;
    enum choose_compute compute; // where `computes`
    bool computes;
    VEC(struct setup_step) steps;
    VEC(const char *) notes;
    /* With an environment that exists: */
    const char *there;                        // its folder; else NULL
    VEC(struct setup_difference) differences; // one for each pin
    size_t n_more_broken;                     // beside those of the next
    VEC(const char *) broken; // what others in it need and would no longer have, one sentence each
    size_t n_others;          // distributions that the plan does not name
};

/* Whether a step needs what python:slim lacks: git, compilers, an archive's tools. */
bool setup_needs_tools(const struct setup_plan *plan);
/* Whether --apply cannot carry out what the steps of the environment and the packages say. */
bool setup_needs_hands(const struct setup_plan *plan);
const char *setup_device_name(const struct setup_plan *plan); // "cuda", "xpu"; NULL: none

/* GM_ERR_USAGE: there is no such application or model. */
int setup_plan_make(const struct setup_question *q, struct setup_plan *ret,
                    struct gm_err *err) GM_CHECK;

#endif
