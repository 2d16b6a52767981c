/*
 * gpumend: finds out why a GPU program does not load or run, and repairs it.
 *
 *     gm_context *gm = gm_new();
 *     struct gm_check check;
 *     if (gm_check(gm, NULL, &check) == GM_OK) { ... check.findings[0].summary ... }
 *     gm_free(gm);
 *
 * What holds for every function:
 *
 *   threads    One thread at a time may use a context; contexts are independent of one another.
 *              At most 256 calls run at once (GM_LIMIT), and each needs GM_STACK_BYTES of stack. A
 *              child made by fork() may make calls with contexts of its own.
 *   memory     What a call returns belongs to the context and stays valid until gm_free(). Each
 *              call adds to it, so a program that makes many calls should use a new context for
 *              each. A result is a plain struct that the caller provides. Texts end with NUL, are
 *              UTF-8 if the file system's names are, and are NULL if nothing is known.
 *   errors     A call returns GM_OK (0) or a negative gm_status, which gm_error() explains in one
 *              sentence. After a failure the result is zeroed. NULL as the context, as the result
 *              or wherever NULL is not documented is GM_USAGE, as is a struct whose size is not
 *              set.
 *   signals    If a file shrinks while a call reads it, the call returns GM_LOOK. To detect this,
 *              the library handles SIGBUS during a call and unblocks it in the calling thread;
 *              every other SIGBUS goes to the previous handler. When the call returns, handler and
 *              mask are as they were. Meanwhile, no other thread may set a handler of SIGBUS.
 *   no memory  If memory runs out, a call returns GM_MEMORY or an inconclusive result, and leaks
 *              nothing. One gap: jansson 2.14 does not check whether its token buffer could grow.
 *   output     The library prints nothing, sets no variable, never ends the process and preserves
 *              errno. Only gm_preload() changes the process: it loads libraries.
 *   looking    Calls only read files: they execute nothing that they inspect, open no socket and
 *              write nothing. The exceptions are gm_fix(), gm_enable(), gm_undo() and
 *              gm_disable(), which change files; the first two also start the target's own
 *              interpreter (see there).
 *   versions   A caller built against an older header works with a newer library of the same
 *              soname: structs that the caller fills begin with their size. If a newer caller sets
 *              a member that the library does not know, the call returns GM_UNSUPPORTED.
 */
#ifndef GPUMEND_H
#define GPUMEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined __GNUC__
#define GM_PUBLIC __attribute__((visibility("default")))
#else
#define GM_PUBLIC
#endif

typedef struct gm_context gm_context;

/* The stack that a thread needs for a call. */
#define GM_STACK_BYTES (64 * 1024)

enum gm_status {
    GM_OK = 0,
    GM_USAGE = -1,  /* the request makes no sense: a target that does not exist, a wrong name */
    GM_LOOK = -2,   /* a file or folder cannot be read */
    GM_FORMAT = -3, /* a file violates its format */
    GM_LIMIT = -4,  /* a bound on time, size or depth was reached */
    GM_UNSUPPORTED = -5, /* outside what gpumend models */
    GM_MEMORY = -6       /* out of memory */
};

/* "0.1.0"; a static text. */
GM_PUBLIC const char *gm_version(void);

/* NULL: out of memory. */
GM_PUBLIC gm_context *gm_new(void);

/* Accepts NULL. Frees every text and array that calls with the context returned. */
GM_PUBLIC void gm_free(gm_context *gm);

/* Why the last call failed, in one sentence; "" if it succeeded. Accepts NULL. */
GM_PUBLIC const char *gm_error(const gm_context *gm);

/* ------------------------------------------------------------------ the target */

/* Zero the struct, set size to sizeof(struct gm_target), then set what differs from the defaults.
 * NULL as the target means all defaults. */
struct gm_target {
    size_t size;
    const char *path;       /* Python environment, interpreter, program or library; NULL: the active
                               environment of the start environment (VIRTUAL_ENV, CONDA_PREFIX, PATH) */
    const char *root;       /* the file system to inspect, absolute; NULL: "/" */
    const char *imports;    /* "torch,ctranslate2": only these, in this order; NULL: every order */
    const char *kb;         /* folder whose rows are added to the knowledge base */
    const char *const *env; /* the start environment, "NAME=VALUE", ended by NULL; NULL: this
                               process's own */
    const char *cwd;        /* the program's working directory; NULL: this process's own */
};

/* ------------------------------------------------------------------ check */

enum gm_severity { GM_NOTE, GM_WARNING, GM_ERROR };
enum gm_verdict { GM_FINE, GM_BROKEN, GM_UNKNOWN };

struct gm_repair {
    const char *kind;    /* "environment", "package", "file", "advice" */
    const char *text;    /* one sentence */
    const char *command; /* can be pasted into a shell, or NULL */
};

struct gm_finding {
    const char *cause; /* stable identifier, accepted by gm_explain() */
    const char *cause_class;
    enum gm_severity severity;
    const char *culprit;
    const char *summary; /* one sentence about this case */
    const char *const *evidence;
    size_t n_evidence;
    const char *const *likewise; /* other libraries with the same problem */
    size_t n_likewise;
    const struct gm_repair *repairs; /* the least invasive first */
    size_t n_repairs;
};

struct gm_check {
    enum gm_verdict verdict;
    const struct gm_finding *findings; /* the one to act on first */
    size_t n_findings;
    const char *const *fine;
    size_t n_fine;
    const char *const *notes; /* what could not be inspected */
    size_t n_notes;
};

/* What `gpumend check` finds. The call succeeds even if the target is broken. */
GM_PUBLIC int gm_check(gm_context *gm, const struct gm_target *target, struct gm_check *ret);

/* ------------------------------------------------------------------ why */

struct gm_search_step {
    const char *path;   /* the file that was tried */
    const char *via;    /* why it was tried: "RUNPATH of libfoo.so", "ld.so.cache", ... */
    const char *result; /* "taken", "absent", "denied", "wrong-class", ... (docs/json.md) */
};

struct gm_why {
    const char *path;    /* the file that the request resolves to; NULL: none */
    const char *outcome; /* "loaded", "reused", "not-found", "refused" */
    const char *says;    /* the loader's error message, or NULL */
    const struct gm_search_step *steps;
    size_t n_steps;
};

/*
 * What dlopen(`name`) does in the program `exe` (a path, or a name that PATH finds) if the code of
 * `caller` calls it (soname or path of an object of the program; NULL: the program itself). Only
 * root, env and cwd of `target` are used.
 */
GM_PUBLIC int gm_why(gm_context *gm, const struct gm_target *target, const char *exe,
                     const char *caller, const char *name, struct gm_why *ret);

/* ------------------------------------------------------------------ choose */

struct gm_wish {
    size_t size;
    const char *app;   /* "ctranslate2", "torch", "onnxruntime"; NULL: the one that is installed */
    const char *model; /* "whisper:large-v3", or NULL */
    uint64_t memory_bytes; /* what the model needs, instead of the table's figure; 0: not given */
    int require_gpu;       /* nonzero: without a usable GPU, return no device rather than the CPU */
};

struct gm_choice {
    const char *device;       /* "cuda", "rocm", "cpu"; NULL: nothing works, and reason says why */
    int index;                /* as the runtime counts; -1: the CPU */
    const char *name;         /* "NVIDIA GeForce RTX 3060" */
    const char *argument;     /* the device as the application names it: "cuda:0" */
    const char *compute_type; /* "float16", ... */
    unsigned threads;
    int fallback;       /* nonzero: the CPU, although a GPU would be preferred */
    const char *cause;  /* of the fallback, or NULL */
    const char *reason; /* one sentence */
    const char *step;   /* what would make the GPU usable, or NULL */
    uint64_t required_bytes, available_bytes; /* 0: unknown */
    const char *const *exports;               /* "NAME=VALUE" to set before the start */
    size_t n_exports;
};

/* A device, compute type and thread count that work here and fit the model; wish may be NULL. */
GM_PUBLIC int gm_choose(gm_context *gm, const struct gm_target *target, const struct gm_wish *wish,
                        struct gm_choice *ret);

/* ------------------------------------------------------------------ plan */

struct gm_step {
    const char *kind;    /* "env", "preload", "shadow", "link", "hook", "elf", "packages", "text" */
    const char *text;    /* one sentence */
    const char *command; /* can be pasted, or NULL */
    const char *name, *value; /* of a variable; value NULL: it is unset */
    const char *const *paths; /* libraries to load, in this order */
    size_t n_paths;
};

struct gm_way {
    const char *reach; /* "start", "files", "packages", "hand": the least invasive first */
    const char *title;
    const struct gm_step *steps;
    size_t n_steps;
    size_t n_mends;       /* findings that it fixes */
    const char *unproved; /* why the model could not try it; NULL: it was tried */
};

struct gm_plan {
    const struct gm_way *ways;
    size_t n_ways;
    size_t n_left;             /* errors that no way fixes */
    const char *const *cannot; /* why something does not work here, one sentence each */
    size_t n_cannot;
};

/* The ways to fix what gm_check() finds, each tried in the model. Changes nothing. */
GM_PUBLIC int gm_plan(gm_context *gm, const struct gm_target *target, struct gm_plan *ret);

/* ------------------------------------------------------------------ preload */

enum gm_loaded {
    GM_LOADED,       /* loaded by this call */
    GM_WAS_LOADED,   /* this file was already loaded */
    GM_OTHER_LOADED, /* a library of the same soname was already loaded from another file: it
                        answers every later request, and this process cannot change that */
    GM_NOT_LOADED    /* dlopen() failed; says has its message */
};

struct gm_library {
    const char *path;
    enum gm_loaded state;
    const char *says; /* GM_NOT_LOADED: the loader's message; GM_OTHER_LOADED: the other file */
};

struct gm_preloaded {
    const struct gm_library *libraries; /* in the order of the plan */
    size_t n_libraries;
    size_t n_findings;       /* errors that gm_check() finds for the target */
    size_t n_left;           /* those that loading cannot fix in a running process */
    const char *const *left; /* one sentence each: what must be set before the start */
    size_t n_left_texts;
};

/*
 * Loads the libraries that the target needs but would not find into the calling process, in the
 * order of their dependencies, with dlopen(path, RTLD_NOW). Call it before the first import or
 * use. If there is nothing to fix, the call succeeds with n_libraries 0. Libraries stay loaded;
 * their constructors run during this call. Two threads must not preload at the same time.
 */
GM_PUBLIC int gm_preload(gm_context *gm, const struct gm_target *target, struct gm_preloaded *ret);

/* ------------------------------------------------------------------ repair */

struct gm_fix_options {
    size_t size;
    unsigned select; /* a way of gm_plan(), counted from 1; 0: the one that fixes the most errors */
    int packages;    /* nonzero: packages of the environment may be changed (pip, uv) */
    int system;      /* nonzero: files outside the environment may be changed */
};

enum gm_result {
    GM_NOTHING_DONE, /* nothing is wrong, or no way fixes it: `left` has the errors */
    GM_VERIFIED,     /* the target's own interpreter found every library with it */
    GM_NOT_VERIFIED, /* it is applied but could not be tried: `why` */
    GM_TAKEN_BACK    /* it did not help (`why`), and everything is as before */
};

struct gm_repaired {
    enum gm_result result;
    const char *title;       /* what was applied, in one sentence; NULL: GM_NOTHING_DONE */
    const char *why;         /* one sentence, or NULL */
    unsigned journal;        /* for gm_undo(); 0: nothing stays changed */
    unsigned n_recovered;    /* changes of interrupted calls that were undone first */
    size_t n_requests;       /* library requests that were tried */
    const char *const *left; /* the errors that remain, one sentence each */
    size_t n_left;
    const char *const *start; /* "NAME=VALUE": what programs must also be started with; an empty
                                 value: without it */
    size_t n_start;
};

struct gm_undo_options {
    size_t size;
    unsigned journal; /* 0: the latest */
    int system;       /* the same value as when it was applied */
};

struct gm_undone {
    unsigned journal; /* 0: there was nothing to undo */
    int hook_removed; /* gm_disable(); nonzero: a hook that no journal lists was removed */
};

/*
 * What `gpumend fix --apply` and `gpumend enable` do, with the same refusals: they apply the repair
 * behind a journal, inspect the target again, repeat the imports and the failed requests with the
 * target's own interpreter, and undo a repair that does not help. gm_enable() installs the start-up
 * hook; gm_fix() applies the repair that fixes the most errors. Neither uses the GPU.
 *
 * A child of the process does the work (fork() without exec; the process may handle SIGCHLD as it
 * likes), so a call takes as long as the trial (at most two minutes for each import) and, with
 * packages, as long as the installer. GM_UNSUPPORTED: nothing can be applied here, and gm_error()
 * says why. Nothing else may change the environment during the call.
 */
GM_PUBLIC int gm_fix(gm_context *gm, const struct gm_target *target,
                     const struct gm_fix_options *options, struct gm_repaired *ret);
GM_PUBLIC int gm_enable(gm_context *gm, const struct gm_target *target, struct gm_repaired *ret);

/* What `gpumend fix --undo` and `gpumend disable` do: restore the files byte for byte. GM_USAGE:
 * there is no journal with that number. GM_UNSUPPORTED: something else has changed the files since,
 * and nothing was done. */
GM_PUBLIC int gm_undo(gm_context *gm, const struct gm_target *target,
                      const struct gm_undo_options *options, struct gm_undone *ret);
GM_PUBLIC int gm_disable(gm_context *gm, const struct gm_target *target, struct gm_undone *ret);

/* ------------------------------------------------------------------ explain */

struct gm_cause {
    const char *cause, *cause_class;
    enum gm_severity severity;
    const char *title; /* one sentence */
    const char *page;  /* what happens, how to see it, what to do */
};

/* The page of a cause; GM_USAGE if no cause has that name. Its texts are static. */
GM_PUBLIC int gm_explain(gm_context *gm, const char *cause, struct gm_cause *ret);

/* ------------------------------------------------------------------ explain a text */

enum gm_confidence {
    GM_UNTOLD, /* inconclusive */
    GM_POSSIBLE,
    GM_LIKELY,
    GM_CERTAIN /* the text states the cause itself, or shows it */
};

struct gm_line {
    uint64_t line;    /* counted from 1 */
    const char *text; /* shortened if it is long; without terminal escapes */
};

struct gm_text_repair {
    const char *platform; /* which it is for: "any", "linux", "windows", "wsl", "container",
                             "jetson", "macos" */
    const char *text;
    const char *command; /* can be pasted into a shell, or NULL */
};

struct gm_explained {
    const char *cause;       /* accepted by gm_explain(); NULL: not a problem of the GPU runtime, or
                                inconclusive */
    const char *cause_class; /* "not-gpu-runtime": not a problem of the GPU runtime; NULL:
                                inconclusive */
    const char *culprit;
    enum gm_confidence confidence;
    const char *summary;            /* one paragraph; never NULL after a success */
    const struct gm_line *evidence; /* the lines that decided the result */
    size_t n_evidence;
    const struct gm_text_repair *repairs;
    size_t n_repairs;
    const char *decides;  /* what to send or run for a definite result, or NULL */
    const char *platform; /* of the program, if the text shows it; otherwise NULL */
};

/*
 * The cause that a failed program's output shows, as `gpumend explain LOG` reports it. The text is
 * n bytes in any encoding that the command reads, and need not end with NUL (NULL with n 0: an
 * empty text). The call does not inspect this machine. The first call of a context takes longer
 * because it loads the signatures.
 */
GM_PUBLIC int gm_explain_text(gm_context *gm, const void *bytes, size_t n,
                              struct gm_explained *ret);

#ifdef __cplusplus
}
#endif

#endif
