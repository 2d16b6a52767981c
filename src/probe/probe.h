/*
 * A probe: the stages of a target, each in a child, up to the first that says where the GPU stops
 * working.
 *
 *   model_target_open()  ->  probe_run()  ->  struct probe_report, for report/probe.h
 *
 * This runs the vendors' code, so it is called by what acts, never by what looks. Which vendor is
 * probed is decided by what the machine shows of it (a GPU, a driver); where it shows nothing, by
 * both, so that the answer is the driver's absence and not a guess. A stage whose need did not pass
 * is not run, and says because of which stage.
 *
 * A stage says with the fact `busy` that a GPU is in use, not broken, and with the fact `absent`
 * that there is no driver.
 *
 * All texts live in the model's arena or are constants.
 */
#ifndef GPUMEND_PROBE_PROBE_H
#define GPUMEND_PROBE_PROBE_H

#include "model/model.h"
#include "probe/runner.h"
#include "probe/stage.h"

struct probe_run {
    const struct probe_stage *stage;
    int device; // ordinal; -1: the stage is for none, or it could not be told how many there are
    enum probe_outcome outcome;
    long code;             // 0: none
    const char *code_name; // or NULL
    int signal;
    bool sent; // the signal is none that faulty code raises: another process or the kernel sent it
    const char *because; // name of the stage because of which it was not run, or NULL
    unsigned ms;
    const char *says;      // one sentence without the final stop
    const char *last_call; // or NULL
    const char *means;     // what follows from it, sentences; NULL: passed, or not run
    bool slow;             // it passed, and took so long that programs notice
    bool busy, absent;
    bool no_library;  // not run, as the target has none for it
    bool absent_here; // not run: this system has no such stage
    probe_facts facts;
    struct str output; // what the libraries wrote
    pid_t left;        // a child that could not be ended; 0: none
};

struct probe_finding {
    const char *id, *says;
};

/* The worst of all stages. */
enum probe_verdict {
    PROBE_WORKS,       // all that was run passed
    PROBE_BUSY,        // a GPU is in use by others
    PROBE_CANNOT_TELL, // a stage gave no answer, or could not be tried
    PROBE_NO_DRIVER,   // there is nothing that could be probed
    PROBE_BROKEN,
};
const char *probe_verdict_name(enum probe_verdict v);

struct probe_report {
    VEC(struct probe_run) runs;            // in the order of their start
    const struct probe_run *first_failure; // failed, crashed or timed out; or NULL
    VEC(struct probe_finding) findings;    // what is worth knowing beside the stages
    enum probe_verdict verdict;
    bool stopped; // by stop_fd: what follows was not run
};

/* A library that the target would load, by the path it would have there. */
struct probe_library {
    const char *path;
    enum probe_vendor vendor;
};

struct probe_options {
    /* In link-map order. A stage gets those of its vendor (load=), so that a soname means the same
     * file as in the target, and the first whose name begins with the stem it uses (lib=). */
    const struct probe_library *libraries;
    size_t n_libraries;
    struct model *model;     // an open target; its start environment is that of the children
    const char *const *only; // names of stages: these, and what they need; none: all
    size_t n_only;
    int device;                 // -1: all
    const char *const *modules; // Python packages to try besides; their stages are python-NAME
    size_t n_modules;
    bool modules_found;         // they were not asked for by name: a build for the CPU may be meant
    unsigned timeout_ms;        // 0: each stage's own
    unsigned module_timeout_ms; // of Python packages; 0: each stage's own
    bool quick;
    int stop_fd; // see struct probe_child
    /* Told before and after each stage that is run; may be NULL. */
    void (*on_start)(void *arg, const struct probe_stage *s, int device);
    void (*on_end)(void *arg, const struct probe_run *run);
    void *arg;
};

/* Fails only with a replacement knowledge base that is wrong. */
int probe_run(const struct probe_options *o, struct probe_report *ret, struct gm_err *err) GM_CHECK;

#endif
