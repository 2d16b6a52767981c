/*
 * gpumend: finds out why a GPU program does not load or run, and makes it.
 *
 *     gm_context *gm = gm_new();
 *     struct gm_check check;
 *     if (gm_check(gm, NULL, &check) == GM_OK) { ... check.findings[0].summary ... }
 *     gm_free(gm);
 *
 * What holds for every function:
 *
 *   threads    A context is used by one thread at a time; contexts know nothing of one another. At
 *              most 256 calls run at once (GM_LIMIT), each on a stack of GM_STACK_BYTES or more. A
 *              child made by fork() may go on calling, with contexts of its own.
 *   memory     What a call returns belongs to the context and stays valid until gm_free(). Each
 *              call adds to it: a program that asks again and again makes a context each time.
 *              A result is a plain struct that the caller provides; texts are UTF-8 as far as the
 *              file system is, end with NUL, and are NULL where nothing is known.
 *   errors     0 (GM_OK) or a negative gm_status; gm_error() then has one sentence. After a
 *              failure the result is zeroed. NULL as context, as place for the result or where
 *              nothing else is said is GM_USAGE, and so is a struct whose size is not set.
 *   signals    A file that becomes shorter while a call reads it is GM_LOOK. For this the library
 *              handles SIGBUS during a call, and lets it through to the calling thread; every other
 *              SIGBUS goes to the handler that was set before. Handler and mask are as before when
 *              the call returns. A program must not set a handler of SIGBUS in another thread
 *              meanwhile.
 *   no memory  Without memory a call returns GM_MEMORY or could not tell, and leaves nothing.
 *              One gap: jansson 2.14 does not look whether its buffer for a token could grow.
 *   output     Nothing is printed, no variable is set, the process is never ended. errno is as
 *              before. Only gm_preload() changes the process: it loads libraries.
 *   looking    Files are read; nothing that is looked at is executed, no socket is opened,
 *              nothing is written. Only gm_fix(), gm_enable(), gm_undo() and gm_disable() change
 *              files, and the first two start the target's own interpreter; see there.
 *   versions   A caller built against an older header runs with a newer library of the same
 *              soname: structs that the caller fills begin with their size. What a newer caller
 *              adds must be zeros (GM_UNSUPPORTED).
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
    GM_USAGE = -1,       /* the question has no meaning: a target that is not there, a wrong name */
    GM_LOOK = -2,        /* the file system would not let us look */
    GM_FORMAT = -3,      /* a file is not what its format promises */
    GM_LIMIT = -4,       /* a bound on time, size or depth was reached */
    GM_UNSUPPORTED = -5, /* outside what gpumend models */
    GM_MEMORY = -6       /* no memory */
};

/* "0.1.0"; static. */
GM_PUBLIC const char *gm_version(void);

/* NULL: no memory. */
GM_PUBLIC gm_context *gm_new(void);

/* Accepts NULL. Ends every text and array that calls with the context returned. */
GM_PUBLIC void gm_free(gm_context *gm);

/* Why the last call failed, one sentence; "" if it did not. Accepts NULL. */
GM_PUBLIC const char *gm_error(const gm_context *gm);

/* ------------------------------------------------------------------ what is looked at */

/* Zero all, set size to sizeof(struct gm_target), then what is to differ. NULL as target means all
 * of the defaults. */
struct gm_target {
    size_t size;
    const char *path;       /* Python environment, interpreter, program or library; NULL: the active
                               environment of the start environment (VIRTUAL_ENV, CONDA_PREFIX, PATH) */
    const char *root;       /* the file system to look at, absolute; NULL: "/" */
    const char *imports;    /* "torch,ctranslate2": only these, in this order; NULL: every order */
    const char *kb;         /* folder whose rows are added to the knowledge base  */
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
    const char *cause; /* stable identifier, as gm_explain() takes it */
    const char *cause_class;
    enum gm_severity severity;
    const char *culprit;
    const char *summary; /* one sentence about this very case */
    const char *const *evidence;
    size_t n_evidence;
    const char *const *likewise; /* further libraries with the same fault */
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
    const char *const *notes; /* what could not be looked at */
    size_t n_notes;
};

/* What `gpumend check` finds. A broken target is no failure of the call. */
GM_PUBLIC int gm_check(gm_context *gm, const struct gm_target *target, struct gm_check *ret);

/* ------------------------------------------------------------------ why */

struct gm_search_step {
    const char *path;   /* file that was tried */
    const char *via;    /* where the place came from: "RUNPATH of libfoo.so", "ld.so.cache", ... */
    const char *result; /* "taken", "absent", "denied", "wrong-class", ... (docs/json.md) */
};

struct gm_why {
    const char *path;    /* the file that the request ends at; NULL: none */
    const char *outcome; /* "loaded", "reused", "not-found", "refused" */
    const char *says;    /* the loader's words where it fails, or NULL */
    const struct gm_search_step *steps;
    size_t n_steps;
};

/*
 * How dlopen(`name`) ends in the program `exe` (path, or a name found along PATH), called by the
 * code of `caller` (soname or path of an object of the program; NULL: the program itself). Of
 * `target` root, env and cwd count.
 */
GM_PUBLIC int gm_why(gm_context *gm, const struct gm_target *target, const char *exe,
                     const char *caller, const char *name, struct gm_why *ret);

/* ------------------------------------------------------------------ choose */

struct gm_wish {
    size_t size;
    const char *app;       /* "ctranslate2", "torch", "onnxruntime"; NULL: the one installed */
    const char *model;     /* "whisper:large-v3", or NULL */
    uint64_t memory_bytes; /* what the model takes, instead of the table's figure; 0: not given */
    int require_gpu;       /* nonzero: no GPU is an answer without a device, not the CPU */
};

struct gm_choice {
    const char *device;       /* "cuda", "rocm", "cpu"; NULL: nothing works, and reason says why */
    int index;                /* as the runtime counts; -1 for the CPU */
    const char *name;         /* "NVIDIA GeForce RTX 3060" */
    const char *argument;     /* the device in the words of the application: "cuda:0" */
    const char *compute_type; /* "float16", ... */
    unsigned threads;
    int fallback;       /* nonzero: the CPU, though a GPU would be preferred */
    const char *cause;  /* of the fallback, or NULL */
    const char *reason; /* one sentence */
    const char *step;   /* what would give the GPU back, or NULL */
    uint64_t required_bytes, available_bytes; /* 0: not known */
    const char *const *exports;               /* "NAME=VALUE" that should be set before the start */
    size_t n_exports;
};

/* Device, compute type and threads that will work here and fit; wish may be NULL. */
GM_PUBLIC int gm_choose(gm_context *gm, const struct gm_target *target, const struct gm_wish *wish,
                        struct gm_choice *ret);

/* ------------------------------------------------------------------ plan */

struct gm_step {
    const char *kind;    /* "env", "preload", "shadow", "link", "hook", "elf", "packages", "text" */
    const char *text;    /* one sentence */
    const char *command; /* can be pasted, or NULL */
    const char *name, *value; /* of a variable; value NULL: taken away */
    const char *const *paths; /* libraries to load, in this order */
    size_t n_paths;
};

struct gm_way {
    const char *reach; /* "start", "files", "packages", "hand": the least invasive first */
    const char *title;
    const struct gm_step *steps;
    size_t n_steps;
    size_t n_mends;       /* findings that are gone with it */
    const char *unproved; /* why the model could not try it, or NULL: it was tried */
};

struct gm_plan {
    const struct gm_way *ways;
    size_t n_ways;
    size_t n_left;             /* errors that no way mends */
    const char *const *cannot; /* why something does not work here, one sentence each */
    size_t n_cannot;
};

/* The ways to mend what gm_check() finds, each tried in the model. Nothing is changed. */
GM_PUBLIC int gm_plan(gm_context *gm, const struct gm_target *target, struct gm_plan *ret);

/* ------------------------------------------------------------------ preload */

enum gm_loaded {
    GM_LOADED,       /* loaded by this call */
    GM_WAS_LOADED,   /* this very file was there already */
    GM_OTHER_LOADED, /* a library of the same soname was there already, from another file: it serves
                        every later request, and nothing can change that in this process */
    GM_NOT_LOADED    /* dlopen() refused it; says has its words */
};

struct gm_library {
    const char *path;
    enum gm_loaded state;
    const char *says; /* GM_NOT_LOADED: the loader's words; GM_OTHER_LOADED: that other file */
};

struct gm_preloaded {
    const struct gm_library *libraries; /* in the order of the plan */
    size_t n_libraries;
    size_t n_findings;       /* errors that gm_check() finds for the target */
    size_t n_left;           /* those that loading cannot mend in a running process */
    const char *const *left; /* why, one sentence each: what must be set before the start */
    size_t n_left_texts;
};

/*
 * Loads the libraries that the target needs and would not find into the calling process, in the
 * order in which they need one another, as dlopen(path, RTLD_NOW) does. Call it before the first
 * import or use. Nothing to mend is no failure: n_libraries is then 0. Libraries stay loaded; their
 * constructors run in this call. Two threads must not preload at the same time.
 */
GM_PUBLIC int gm_preload(gm_context *gm, const struct gm_target *target, struct gm_preloaded *ret);

/* ------------------------------------------------------------------ repair */

struct gm_fix_options {
    size_t size;
    unsigned select; /* a way of gm_plan(), counted from 1 on; 0: the one that mends most errors */
    int packages;    /* nonzero: packages of the environment may be changed (pip, uv) */
    int system;      /* nonzero: files outside the environment may be changed */
};

enum gm_result {
    GM_NOTHING_DONE, /* nothing is wrong, or no way mends it: `left` has the errors */
    GM_VERIFIED,     /* the target's own interpreter found every library with it */
    GM_NOT_VERIFIED, /* it is applied, and could not be tried: `why` */
    GM_TAKEN_BACK    /* it did not help (`why`), and everything is as it was before */
};

struct gm_repaired {
    enum gm_result result;
    const char *title;       /* of what was carried out, one sentence; NULL: GM_NOTHING_DONE */
    const char *why;         /* one sentence, or NULL */
    unsigned journal;        /* for gm_undo(); 0: nothing stays changed */
    unsigned n_recovered;    /* changes of interrupted calls that were taken back first */
    size_t n_requests;       /* library requests that were tried */
    const char *const *left; /* the errors that there are now, one sentence each */
    size_t n_left;
    const char *const *start; /* "NAME=VALUE": what programs must be started with besides; an empty
                                 value: without it */
    size_t n_start;
};

struct gm_undo_options {
    size_t size;
    unsigned journal; /* 0: the latest */
    int system;       /* as it was applied with */
};

struct gm_undone {
    unsigned journal; /* 0: nothing was applied that could be taken back */
    int hook_removed; /* gm_disable(): nonzero: a hook that no journal lists was removed */
};

/*
 * What `gpumend fix --apply` and `gpumend enable` do, with the same refusals: the repair is carried
 * out behind a journal, the target is looked at again, its own interpreter makes the imports and
 * the requests that failed, and what does not help is taken back. gm_enable() puts the start-up
 * hook in; gm_fix() carries out what mends most. The GPU is not run.
 *
 * A child of the process does the work (fork() without exec; what the process does with SIGCHLD
 * does not matter), so a call takes as long as the trial, two minutes for each import at most, and
 * with packages as long as the installer. GM_UNSUPPORTED: nothing can be applied here, and
 * gm_error() has the reason. An environment must not be changed by others during the call.
 */
GM_PUBLIC int gm_fix(gm_context *gm, const struct gm_target *target,
                     const struct gm_fix_options *options, struct gm_repaired *ret);
GM_PUBLIC int gm_enable(gm_context *gm, const struct gm_target *target, struct gm_repaired *ret);

/* What `gpumend fix --undo` and `gpumend disable` do: the files are byte for byte what they were.
 * GM_USAGE: there is no journal of that number. GM_UNSUPPORTED: others have changed the files
 * since, and nothing was done. */
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

/* The page of a cause; GM_USAGE if there is none of that name. Its texts are static. */
GM_PUBLIC int gm_explain(gm_context *gm, const char *cause, struct gm_cause *ret);

/* ------------------------------------------------------------------ explain a text */

enum gm_confidence {
    GM_UNTOLD, /* the text does not tell */
    GM_POSSIBLE,
    GM_LIKELY,
    GM_CERTAIN /* the text states the cause itself, or shows it */
};

struct gm_line {
    uint64_t line;    /* from 1 on */
    const char *text; /* shortened where it is long, without terminal escapes */
};

struct gm_text_repair {
    const char *platform; /* that it is for: "any", "linux", "windows", "wsl", "container",
                             "jetson", "macos" */
    const char *text;
    const char *command; /* can be pasted into a shell, or NULL */
};

struct gm_explained {
    const char *cause; /* as gm_explain() takes it; NULL: no problem of the GPU runtime, or the
                          text does not tell */
    const char *cause_class; /* "not-gpu-runtime": no problem of the GPU runtime; NULL: the text
                                does not tell */
    const char *culprit;
    enum gm_confidence confidence;
    const char *summary;            /* one paragraph; never NULL after a success */
    const struct gm_line *evidence; /* the lines that decided it */
    size_t n_evidence;
    const struct gm_text_repair *repairs;
    size_t n_repairs;
    const char *decides;  /* what to send or run to be sure, or NULL */
    const char *platform; /* of the program, as far as the text shows it, or NULL */
};

/*
 * Which cause the text shows that a program printed when it failed: what `gpumend explain LOG`
 * says. The text is n bytes of any encoding that the command reads, and need not end with NUL
 * (NULL with n 0: an empty one).
 * Nothing of this machine is looked at. The first call of a context takes longer, as it loads the
 * signatures.
 */
GM_PUBLIC int gm_explain_text(gm_context *gm, const void *bytes, size_t n,
                              struct gm_explained *ret);

#ifdef __cplusplus
}
#endif

#endif
