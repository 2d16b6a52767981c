/*
 * A target as the user names it, opened: an environment, an interpreter, a file, a live process or
 * this machine; with its root, its knowledge base, what the host is, and the processes to judge.
 *
 *   model_target_open()  ->  t->model, for diag_run(), mend and the reports
 *   model_target_close()
 */
#ifndef GPUMEND_MODEL_TARGET_H
#define GPUMEND_MODEL_TARGET_H

#include "host/host.h"
#include "model/live.h"
#include "model/model.h"

/* What is asked for. All texts must outlive the target; NULL and 0 mean "not given". */
struct model_target_options {
    const char *target;     // environment, interpreter or ELF file; NULL: the active environment
    const char *root_path;  // file system to look at; NULL: "/"
    const char *host_path;  // file system of the machine that it will run on; NULL: root_path's
    const char *kb_path;    // folder with files that replace the built-in knowledge base
    const char *imports;    // "torch,ctranslate2": one script in this order, not every order
    int pid;                // a live process, instead of a target
    const char *const *env; // the start environment, "K=V"
    size_t n_env;
    const char *const *unset; // names that the tree's own environment has lost as well (--unset)
    size_t n_unset;
    const char *cwd; // the caller's working directory, absolute
    uid_t uid;       // who would run it
    int glibc_minor;
    const struct ldso_cpu *cpu; // NULL: of host_path's system, else of root_path's
    uint32_t page_size;         // bytes; overrides that of the CPU; 0: does not
    /* The target is what the root starts, found out and not asked for: packages of GPU programs
     * that lie elsewhere in the root are told then. */
    bool entry_known;
    bool only_open; // model nothing yet: the caller adds the scripts
    /* Adds to the problems of the judged host; `r` is its file system. May be NULL. */
    bool takes_windows; // a Windows tree is taken for its machine alone; else it is refused
    void (*on_host)(struct root *r, struct arena *a, struct host *h);
    void (*on_look)(void *arg, const char *path); // as in struct root; may be NULL
    void *on_look_arg;
    struct snap *record;           // takes down what the root answers, or NULL
    struct snap *replay;           // answers instead of the root at root_path, or NULL
    struct snap *host_replay;      // answers instead of the root at host_path, or NULL
    const struct model_live *live; // with pid: the process as it was read before, or NULL
};

struct model_target {
    struct root root;
    struct ldso_store store;
    struct root *kb_root; // of kb, which is read when it is asked
    struct kb kb;
    struct py_env py;
    struct host host;
    struct model model;
    const char *kind;    // "environment", "machine", "file", "process"
    struct ldso_cpu cpu; // of the live process, or of host_path's system
};

/* GM_ERR_LOOK and others: the target, or the folder of the machine that it will run on, cannot be
 * looked at; the sentence says why. That nothing is known of a machine (the file system of an
 * image) is no error: model.host is NULL then, and model.host_why says why. The arena must outlive
 * the target. */
int model_target_open(struct model_target *t, struct arena *a, const struct model_target_options *o,
                      struct gm_err *err) GM_CHECK;

/* For a target that was opened, or whose opening failed. */
void model_target_close(struct model_target *t);
/* Closing for a process that ends (ldso_store_leave()). */
void model_target_leave(struct model_target *t);

#endif
