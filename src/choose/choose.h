/*
 * What an application should ask for at its start: the device, the compute type and the number of
 * threads that will work here and fit into memory, with the reason in one sentence.
 *
 *   model_target_open() -> diag_run() -> choose_best() -> struct choose_result
 *
 * The GPU with the most room that the application's build can use is taken; where none can be, the
 * CPU, and `cause` says why. Four things must hold for a GPU: host_judge() has nothing against it,
 * a variable does not hide it, the installed build of the application serves it, and diag_run()
 * found no error in the application's own process. The models of the application must have been
 * run for the last (model_target_options.imports); what was not looked at is not vouched for.
 *
 * Memory: that of AMD's GPUs and of the machine is read; that of NVIDIA's stands in no file, so it
 * comes from the driver's name or the table of cards, less 1/16, which error correction takes on
 * cards with GDDR memory (a T4 of 16 GiB has 15). What neither tells is unknown; then the smallest
 * compute type is chosen, nothing is claimed to fit, and `step` names the probe. What other
 * programs use now is not seen.
 *
 * Decided from the model, the report and the knowledge base alone. All texts live in the model's
 * arena or are constants.
 */
#ifndef GPUMEND_CHOOSE_CHOOSE_H
#define GPUMEND_CHOOSE_CHOOSE_H

#include "diag/finding.h"
#include "choose/need.h"
#include "choose/visible.h"

/* One device on which something was run (probe/choice.h). */
struct choose_ran {
    enum choose_device_kind device; // CUDA or ROCM
    long index;      // as the runtime counted it; -1: it counted none, `why` says why
    const char *bdf; // its address as host_gpu has it, or NULL: not told
    bool passed;
    unsigned formats;     // MEND_FORMAT_...: those whose products were right
    bool products_absent; // this build of gpumend has no stages for them: `formats` are all
    uint64_t free_bytes;  // of its memory, at that moment; 0: not told
    const char *why;      // a clause: what failed, or NULL
};

struct choose_options {
    bool app_given;
    enum choose_app app;   // else the first that is installed, else ctranslate2
    bool whisperx;         // ctranslate2 through whisperx, which takes no 8-bit type but int8
    const char *model;     // "whisper:large-v3", or NULL
    uint64_t memory_bytes; // what the model takes, instead of the table's figure; 0: not given
    bool compute_given;    // no other type is offered
    enum choose_compute compute;
    bool require_gpu;            // no GPU is an error, not a reason for the CPU
    struct choose_device device; // CUDA, ROCM: no other is taken, and no GPU is an error
    /* An error that stands in the application's process, where that was not run: cause and
     * sentence, or NULL. */
    const char *standing_cause, *standing;
    struct choose_variables variables;
    /* Where the devices were run: no GPU is taken that is not here and passed, and no compute type
     * whose products were not right. */
    bool was_run;
    const struct choose_ran *ran;
    size_t n_ran;
};

/* One device that was looked at, the CPU last. */
struct choose_candidate {
    enum choose_device_kind device; // CHOOSE_DEVICE_NONE: a GPU that neither CUDA nor ROCm counts
    const struct host_gpu *gpu;     // NULL: the CPU
    long index;                     // as the runtime counts; -1: it does not count it
    const char *name;
    bool usable; // everything but memory
    bool chosen;
    enum choose_compute compute; // if usable
    struct choose_memory required;
    uint64_t available_bytes;  // 0: not known
    const char *available_why; // how it is known, or why not
    enum host_state fits;      // unknown also where nothing was asked for
    const char *override;      // HSA_OVERRIDE_GFX_VERSION that must be set, or NULL
    const char *cause;         // id of what speaks against it, or NULL
    const char *why;           // a clause: why it is not chosen, or NULL
    const char *step;          // what to do about that, or NULL
    const char *command;       // the step, or its end, as a shell takes it; or NULL
};

struct choose_export {
    const char *name, *value;
};

struct choose_result {
    enum choose_app app;
    const char *app_version; // NULL: not installed here, or no environment was looked at
    const char *model;       // the row's name, or NULL
    const struct choose_candidate *chosen; // NULL: nothing works
    unsigned threads;
    const char *threads_why;
    const char *argument; // the device in the words of the application: "cuda:0"
    const char *reason;   // one sentence
    bool fallback;        // the CPU is used though a GPU would be preferred
    const char *cause;    // of the fallback, or of nothing working: "no-driver", or NULL
    const char *step;     // what would give the GPU back, or tell its memory; or NULL
    const char *command;  // the step, or its end, as a shell takes it; or NULL
    const char *smaller;  // the largest Whisper model that would fit, or NULL
    VEC(struct choose_candidate) candidates;
    VEC(struct choose_export) exports;
    VEC(const char *) notes;
    enum diag_verdict verdict; // unknown: chosen, and whether it fits cannot be determined
};

/* GM_ERR_USAGE: there is no such model. GM_ERR_LOOK: nothing of the machine of a tree can be seen;
 * where that is the running one (a container without /proc and /sys), the CPU is chosen, and
 * `cause` is "gpus-unknown". Others: a replacement knowledge base that is wrong. */
int choose_best(struct model *m, const struct diag_report *report, const struct choose_options *o,
                struct choose_result *ret, struct gm_err *err) GM_CHECK;

/* The distribution whose import stands for the application in this environment, by the order above;
 * NULL if none is installed. `ret_app` is set in any case. */
const struct py_dist *choose_app_of(struct model *m, const struct choose_options *o,
                                    enum choose_app *ret_app);

/* What is imported for it: "ctranslate2". */
const char *choose_app_module(enum choose_app app);

#endif
