/*
 * Findings: causes with their evidence and repairs. Rules read the model and the knowledge base,
 * and nothing else; several symptoms of one root cause are one finding.
 */
#ifndef GPUMEND_DIAG_FINDING_H
#define GPUMEND_DIAG_FINDING_H

#include "diag/cause.h"
#include "gpu/code.h"
#include "model/model.h"

enum diag_repair_kind { DIAG_REPAIR_ENV, DIAG_REPAIR_PACKAGE, DIAG_REPAIR_FILE, DIAG_REPAIR_TEXT };

struct diag_repair {
    enum diag_repair_kind kind;
    const char *text;      // one sentence
    const char *command;   // can be pasted; NULL if there is none
    const char *reinstall; // "name version" of the distribution to install again as it is, or NULL
    const char *folders;   // where its files are then and the askers do not look, "A:B", or NULL
    const char *bare;      // the command without them, or NULL
    const char *before;    // of `text`: what has to be done by hand before the command, or NULL
};

/* When a fault is met. A program that does not come through its imports serves nobody, on any
 * device; without a device it runs on the CPU and never meets what only the GPU's use asks for. So
 * errors are ordered: start, machine, use. */
enum diag_stage { DIAG_STAGE_START, DIAG_STAGE_MACHINE, DIAG_STAGE_USE };

typedef VEC(const char *) diag_texts;

struct diag_finding {
    enum diag_cause cause;
    enum diag_stage stage;
    const char *class; // the cause's own, or a nearer one
    enum diag_severity severity;
    const char *culprit; // the library, package, variable or file at fault
    const char *summary; // one sentence about this very case
    diag_texts evidence;
    diag_texts likewise; // further libraries with the same fault
    VEC(struct diag_repair) repairs;
    diag_texts scripts; // in which programs it shows: "import a; use a"
    diag_texts askers;  // distributions whose import or use it stops, as far as known
    const struct diag_finding *behind; // it is met only once that one is repaired; or NULL
    const char *declaring; // distribution of which the first repair installs what it declares; NULL
    diag_texts declared;   // these requirements of it, as pip takes them
    const char *at_once;   // command: what is behind it installed, then the first repair; or NULL
};

enum diag_verdict { DIAG_OK, DIAG_BROKEN, DIAG_CANNOT_TELL };

/* One package that a program imports, or a part of an application. */
struct diag_entry {
    const char *module;
    const char *part_of; // the application, or NULL: an entry
    enum diag_verdict verdict;
};

struct diag_report {
    VEC(struct diag_finding *) findings; // errors first, the one to act on first
    VEC(struct diag_entry) entries;      // entries first; none for a program or a live process
    VEC(const char *) fine;              // what is in order, one sentence each
    VEC(const char *) notes;             // what could not be looked at, or is only a guess
    enum diag_verdict verdict;
};

/* Judges the model. The report lives in the model's arena. */
void diag_run(struct model *m, struct diag_report *ret);

/* Whether a program that computes on the CPU never meets it: it is of the machine's GPU or driver,
 * or a library of CUDA's or ROCm's that only the GPU's use asks for. */
bool diag_is_only_for_gpu(const struct model *m, const struct diag_finding *f);

/* How many findings have this severity. */
size_t diag_count(const struct diag_report *r, enum diag_severity severity);

/* A library that a process lacks: a required request that fails. */
struct diag_lack {
    const char *name; // with one version number where there is a choice
    const struct ldso_request *request;
    const struct model_attempt *attempt; // NULL: the start itself
};

/* What a process lacks, in the order of the requests. Libraries of the driver and defects of files
 * that are found are left out. */
size_t diag_lacks(struct model *m, const struct model_process *p, struct diag_lack **ret);

/* The capabilities of NVIDIA's driver that the target asks for beside compute and utility, as
 * ",video,graphics"; NULL: none. *ret_who: who asks first. */
const char *diag_driver_capabilities(struct model *m, const char **ret_who);

/* The oldest driver of NVIDIA's that serves every CUDA runtime which the processes load, as a row
 * of the knowledge base; NULL: none is loaded, or it is not known (*ret_unknown). *ret_from: a
 * clause that says what asks for it. *ret_own: a process loads a libcuda of forward compatibility
 * that is none of the host's, or may: then the host's driver alone does not decide. */
const struct kb_driver *diag_driver_least(struct model *m, const char **ret_from, bool *ret_unknown,
                                          bool *ret_own);

/* The started program where it holds GPU code of its own, else the libraries of it that do: what
 * nvcc and hipcc link into a file, often with the runtime, so that no DT_NEEDED tells. None where
 * the target is a Python environment. */
struct diag_own_code {
    const struct ldso_object *object;
    const struct gpu_code *code;
};
typedef VEC(struct diag_own_code) diag_own_code_list;
diag_own_code_list diag_own_codes(struct model *m, const struct model_process *p);

/* The only one of them; NULL: none or several. */
const struct ldso_object *diag_own_code(struct model *m, const struct model_process *p,
                                        const struct gpu_code **ret_code);

/* The package whose use of the GPU ends without code in this library: of CUDA, of HIP; or NULL. */
const char *diag_cuda_library_package(const char *path);
const char *diag_hip_library_package(const char *path);

/* Whether a program here would use a GPU of this vendor; *ret_who: what asks first. */
bool diag_asks_for_gpu(struct model *m, enum host_vendor vendor, const char **ret_who);

/* Whether the finding shows in this process. */
bool diag_shows_in(struct model *m, const struct diag_finding *f, const struct model_process *p);

/* "import a, import b, then use them" */
const char *diag_script_words(struct model *m, const struct model_process *p);

/* Whether the file is CUDA's or libcuda for the other kind of Arm machine: no repair loads it. */
bool diag_serves_other_arm(struct model *m, const char *path);

/* The variable that a repair of the environment sets: false if its command is none of `export
 * NAME=VALUE` (one word of a shell, quoted or not) and `unset NAME`. */
struct diag_variable {
    const char *name;
    const char *value; // NULL: taken away
    bool prepend;      // what is in the variable already is kept behind it
};
bool diag_is_variable_name(struct str name);
bool diag_repair_variable(struct arena *a, const struct diag_repair *r, struct diag_variable *ret);

/* "PYTHON -m pip install ARGUMENTS" for the model's environment, or uv's words where there is no
 * pip; for names alone, and an environment that a tool keeps by a lock, what adds them to the
 * project ("uv add"). */
const char *diag_pip_command(struct model *m, const char *arguments);
/* What adds conda's packages to the project of pixi's environment; NULL: the project is not known.
 */
const char *diag_pixi_command(struct model *m, const char *packages);
/* The site folder into which it installs, before diag_prepend_folders() moves it; `beside` as in
 * py_env_pip_folder(). NULL: not known. */
const char *diag_pip_folder(struct model *m, const char *beside);
const char *diag_shell_word(struct arena *a, const char *text);
/* What installs "NAME VERSION" again as it is, by whoever installed it: conda for its packages, and
 * where pip's index does not have this build of torch, what has. *ret_plain: pip or uv by the words
 * of diag_pip_command(). */
const char *diag_reinstall_command(struct model *m, const char *owner, bool *ret_plain);
/* The command that makes the environment's start-up hook again, for what was installed since; NULL:
 * there is no hook, or it is another system's. */
const char *diag_hook_again(const struct model *m);

/* "export LD_LIBRARY_PATH=FOLDERS..." with what is in the variable kept behind. Below the
 * site-packages of a distribution's Python they are those of the environment that
 * diag_pip_command() makes over it. */
const char *diag_prepend_folders(struct model *m, const char *folders);

/* A library that a library of a pip package opens by its name, beyond what its wheel brings. */
struct diag_opened {
    const char *name;             // "libnvrtc.so.12"
    const char *package, *folder; // that provides it: "nvidia-cuda-nvrtc-cu12", "nvidia/..."
    const char *by;               // "libcublasLt.so.12", a glob
    const char *row;              // id in the knowledge base
};
typedef VEC(struct diag_opened) diag_opened_list;
/* What a release opens whose absence is a finding: without it a feature fails. */
diag_opened_list diag_opened_by(struct model *m, const char *package, const char *version);

/* A command that lets `words` change a copy of the file, which then takes its place: the file
 * itself may have further names in a cache or in other environments. */
const char *diag_copy_command(struct arena *a, const char *words, const char *file);

const char *diag_repair_kind_name(enum diag_repair_kind kind);
const char *diag_verdict_name(enum diag_verdict verdict);

#endif
