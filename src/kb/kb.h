/*
 * The knowledge base: what GPU packages and libraries do that no file of theirs says.
 *
 *   kb/AREA.json  ->  scripts/kb-embed  ->  C data in the executable  ->  kb_AREA()
 *
 * Each area is an array of rows sorted by id. An area is parsed when it is first asked for and
 * then kept in the arena. With a folder (--kb DIR), the rows of DIR/AREA.json are added to the
 * embedded ones, and a row replaces the one with its id; with "whole": true they are all. The files
 * are foreign input: every value is checked, and the error names the file, the line and the row.
 *
 *   builds    which CUDA, cuDNN, ROCm and architectures a build of a package has
 *   compat    which CUDA and cuDNN a release of a package was built for, and what it pins
 *   cudnn     which CUDA, drivers and GPUs a cuDNN release supports
 *   dlopen    what one *object* opens by itself, wherever it was loaded from
 *   drivers   which driver a CUDA toolkit needs
 *   errors    the codes of CUDA, cuDNN, cuBLAS, NVRTC, NVML and HIP, and Xids
 *   families  libraries that must match one another
 *   engines   container engines: which CDI specifications they load
 *   glibc     what a wheel's platform tag promises, which system has which glibc
 *   gpus      the compute capability or gfx target of a GPU
 *   imports   what `import PACKAGE` does, step by step, per version of the package
 *   models    memory and compute types of speech models
 *   packages  what a manager calls a thing to be installed
 *   provides  which package brings a library, and in which folder
 *   releases  what the releases of packages declare (written by scripts/kb-refresh)
 *   sizes     how large packages are in the package index
 *   rocm      gfx targets, which ROCm release supports which, overrides
 *   repositories  where a system gets a vendor's packages from
 *   toolkits  architectures and PTX version of a CUDA toolkit
 *
 * Version sets are texts as PEP 440 has them (py/version.h matches them); globs are for
 * str_glob(). Everything handed out lives in the arena. What the values mean is in
 * kb/schema/AREA.json, and tests/kb-check.py checks the data itself.
 */
#ifndef GPUMEND_KB_KB_H
#define GPUMEND_KB_KB_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/root.h"

struct kb_strs {
    const char *const *items;
    size_t n;
};

/* How sure a row is. */
enum kb_evidence {
    KB_EVIDENCE_RAN,        // seen when the real thing was run under LD_DEBUG or the like
    KB_EVIDENCE_READ,       // read in the real files of the versions named
    KB_EVIDENCE_DOCUMENTED, // taken from source code or documentation, not checked against files
};

/* Where a row comes from; every row has one. */
struct kb_origin {
    enum kb_evidence evidence;
    struct kb_strs sources; // addresses, or "wheel NAME VERSION: file"
    const char *date;       // YYYY-MM-DD it was checked
    const char *note;       // or NULL
};

enum kb_phase {
    KB_PHASE_LOAD,   // in a constructor, as soon as the object is loaded
    KB_PHASE_IMPORT, // while the package is imported
    KB_PHASE_USE,    // at the first use of the feature
};

/* How the version of an object (and so {maj}, {min}, {pat} in names) is read from the object
 * itself. kb_library_version() in kb/libver.h does it for the first three. */
enum kb_version_from {
    KB_VERSION_NONE,
    KB_VERSION_CUDNN,
    KB_VERSION_NVRTC,
    KB_VERSION_FILE_NAME, // libcuda.so.550.54.15
    KB_VERSION_PACKAGE,   // only the owning package knows
    KB_VERSION_VERDEF,    // the symbol versions that it defines
};

/* ------------------------------------------------------------------ dlopens */

/* One request of an object: the candidates are tried in order until one opens. */
struct kb_request {
    /* May hold {maj} {min} {pat}, the parts of the object's version; {file}, the version in its
     * file name; {dir}, the folder of the object. A candidate with a placeholder whose value is
     * not known cannot be predicted. */
    struct kb_strs names;
    bool required;       // the feature fails without it
    bool warn;           // not required: its absence is worth a warning all the same
    bool lazy, global;   // RTLD_LAZY, RTLD_GLOBAL; else RTLD_NOW, RTLD_LOCAL
    const char *family;  // id of a row of families, or NULL
    const char *feature; // what it is for, or NULL
};

struct kb_dlopen {
    const char *id;
    struct kb_strs objects;       // globs on the object's SONAME or file name
    const char *package;          // only if the object belongs to it; NULL: any
    const char *package_versions; // or NULL
    struct kb_strs beside;        // globs: only in a process with such an object of each
    const char *object_version;   // only for these versions of the object itself; NULL: any
    struct kb_strs not_builds;    // "cpu", "cuda", "hip": not where the object is such a build
    enum kb_version_from version_from;
    enum kb_phase phase;
    const struct kb_request *requests; // in the order they are made
    size_t n_requests;
    /* What the user sees when a required one is missing. May hold {name}, the name that is asked
     * for, {loader}, what the loader says, and {maj} {min} {pat}. */
    const char *says;
    const char *in_program; // what the program itself can do before, as a sentence; or NULL
    struct kb_origin origin;
};

/* ------------------------------------------------------------------ imports */

enum kb_step_kind {
    KB_STEP_EXTENSION, // the import machinery opens an extension module by its path
    KB_STEP_CDLL,      // ctypes opens a file below the site folder by its path
    KB_STEP_PRELOAD,   // ctypes opens the first file that folders and a glob yield
    KB_STEP_IMPORT,    // another package is imported
    KB_STEP_DLOPEN,    // names are opened by the loader's search
};

enum kb_when {
    KB_WHEN_ALWAYS,
    KB_WHEN_AFTER_FAILURE, // the cdll step before it failed on a library that `libs` names
    KB_WHEN_PATH_LOADED,   // that step worked at once, and a mapped path contains `path`
    KB_WHEN_GPU,           // the package sees a GPU
    KB_WHEN_NO_GPU,
};

/* What becomes of the import when something is not found or does not open. */
enum kb_missing {
    KB_MISSING_FAIL, // the import fails
    KB_MISSING_STOP, // the rest of the step (or of the group of steps) is given up, silently
    KB_MISSING_SKIP, // that one is passed over; an extension that is there has to load
    KB_MISSING_WARN, // a feature that not every program uses is lost: worth a warning
};

/* One library of a preload step. For each entry of sys.path in order, each folder in order: the
 * first file that matches is opened by its path, and no other. {cuda_major} in a folder is the
 * CUDA major that the package was built for (torch/version.py); without one, no such folder. A
 * folder that begins with {CONDA_PREFIX} or {CUDA_PATH} (else CUDA_HOME), or an absolute one, is
 * looked at once, after the others and not below sys.path; without the variable, no such folder.
 *
 * With names instead of a glob it is what cuda.pathfinder does: nothing, if one of them is loaded;
 * else the first of them in the folders, then by the loader's own search, then in late. */
struct kb_preload {
    struct kb_strs folders, late;
    const char *glob; // or NULL, with names
    struct kb_strs names;
    bool optional; // missing is fine whatever the step says
};

struct kb_step {
    enum kb_step_kind kind;
    enum kb_phase phase; // import or use
    enum kb_when when;
    enum kb_missing missing;
    bool optional;      // extension, cdll, import: an ImportError or OSError is swallowed
    bool lazy, global;  // as in kb_request; ctypes uses RTLD_NOW|RTLD_LOCAL
    bool retry;         // preload: afterwards the cdll step before it is repeated
    const char *module; // extension: dotted name
    const char *file;   // cdll: path below the site folder, may hold {cuda} (see the row's note)
    struct kb_strs fallback; // cdll: files tried when the first does not exist
    const char *package;     // import: name of the distribution
    const char *path;        // when path-loaded: part of a mapped path
    const char *unless;      // cdll: a variable that names another file, or NULL
    const char *release;  // cdll: a variable whose value {cuda} or {rocm} is, or NULL; a value that
                          // is not empty leaves no fallback
    const char *caller;   // dlopen: "ctypes", "interpreter" or a glob on the calling object
    const char *group;    // dlopen: one that fails ends all later steps of this group
    const char *within;   // use: the module of the application that it imports then, or NULL
    const char *feature;  // extension, dlopen: what it is for, or NULL
    const char *says;     // extension, dlopen: what the user sees when it fails, or NULL
    struct kb_strs names; // dlopen: candidates in order; {site} is the site folder
    const struct kb_preload *libs; // preload, in order
    size_t n_libs;
};

/* What a package is to the programs that use it. */
enum kb_role {
    KB_ROLE_LIBRARY,     // programs import it
    KB_ROLE_APPLICATION, // programs import or start it, and it brings the libraries that it uses
    KB_ROLE_PART,        // the framework that it belongs to imports it, programs do not
};

struct kb_import {
    const char *id;
    const char *package;  // normalised name of the distribution
    const char *versions; // sets of one package do not overlap
    const char *module;   // what is imported
    enum kb_role role;
    bool own_runtime; // the CUDA runtime of its own release is linked in
    const struct kb_step *steps;
    size_t n_steps;
    struct kb_origin origin;
};

/* ------------------------------------------------------------------ provides */

enum kb_manager {
    KB_MANAGER_PIP,
    KB_MANAGER_APT,
    KB_MANAGER_DNF,
    KB_MANAGER_CONDA,
    KB_MANAGER_DRIVER,
    KB_MANAGER_PACMAN,
    KB_MANAGER_ZYPPER, // RPM packages of a vendor's repository stand as those of dnf
    KB_MANAGER_APK,
};

struct kb_provider {
    enum kb_manager manager;
    const char *package;
    const char *folder;      // below the site folder (pip), the prefix (conda), absolute; or NULL
    const char *versions;    // NULL: any
    const char *development; // package with the headers, or NULL
    const char *meta;        // package that pulls in all of them, or NULL
    const char
        *repository; // the vendor in whose repository it is ("cuda"); NULL: in the system's own
    struct kb_strs systems; // whose own repositories have it; none: of all that have the manager
};

struct kb_provide {
    const char *id;
    const char *soname;           // glob
    const char *library;          // what people call it
    const char *dll, *dll_folder; // on Windows: its file (glob), folder in pip's package; or NULL
    const char *dll_from;         // where else on Windows it comes from, or NULL
    struct kb_strs needs;         // libraries that it depends on, as people call them
    const char *family;           // or NULL
    int major;                    // of the SONAME, -1 if it has none that counts
    int cuda_major;               // -1: not bound to one
    const struct kb_provider *providers; // the most usual first
    size_t n_providers;
    struct kb_origin origin;
};

/* A thing that is not a library, and its name in each manager that is known to have it. */
struct kb_package {
    const char *id;
    const struct kb_provider *providers; // manager, package and systems alone
    size_t n_providers;
    struct kb_origin origin;
};

/* ------------------------------------------------------------------ repositories */

/* Where the package manager of a system gets the packages of a vendor from. */
struct kb_repository {
    const char *id;
    const char *vendor;     // "cuda"
    struct kb_strs systems; // ID of os-release(5)
    const char *version;    // VERSION_ID, or its first number
    enum kb_manager manager;
    const char *address;     // a .repo file; apt: a package with key and list; {arch}: x86_64, sbsa
    struct kb_strs releases; // of CUDA, "12.4": known to be in it, one for each major at least
    struct kb_origin origin;
};

/* ------------------------------------------------------------------ families */

enum kb_rule {
    KB_RULE_SAME_VERSION,
    KB_RULE_SAME_ORIGIN, // one folder or one package
    KB_RULE_NOT_OLDER,   // the last member glob must not be older than the first
};

struct kb_family {
    const char *id, *title;
    struct kb_strs members; // globs on the SONAME or file name
    enum kb_rule rule;
    struct kb_strs required, optional; // members, beginning of the SONAME
    enum kb_version_from version_from;
    struct kb_strs recipe; // how to read the version from a file, one sentence each; may be empty
    struct kb_origin origin;
};

/* ------------------------------------------------------------------ compat */

struct kb_need {
    const char *package;
    const char *versions; // NULL: any
    const char *fails;    // the program's words with any other version; NULL: not known to fail
    bool at_import;       // it fails when it is imported, not at its first use
};

struct kb_compat {
    const char *id;
    const char *package, *versions;
    int cuda_major;    // -1: none
    const char *cudnn; // version it was built with or pins, as exactly as known; NULL: none
    const struct kb_need *needs;
    size_t n_needs;
    struct kb_origin origin;
};

/* ------------------------------------------------------------------ drivers, toolkits */

enum kb_driver_kind {
    KB_DRIVER_TOOLKIT, // the driver that goes with one toolkit release
    KB_DRIVER_MINOR,   // the floor of minor-version compatibility of a CUDA major
    KB_DRIVER_BRANCH,  // a driver branch and when it ends
    KB_DRIVER_LAST,    // the last branch that serves an architecture
    KB_DRIVER_FIRST,   // the first driver that serves an architecture
    KB_DRIVER_ALONE,   // a CUDA release that came with a driver branch and had no toolkit
};

struct kb_driver {
    const char *id;
    enum kb_driver_kind kind;
    const char *cuda;                    // "12.4.1", "12"; NULL for a branch
    const char *title;                   // "CUDA 12.4 Update 1"
    const char *linux_min, *windows_min; // windows_min: or NULL
    const char *ends;                    // "2028-08", or NULL
    const char *ptx;                     // with KB_DRIVER_ALONE: its PTX ISA, "8.6"
    struct kb_strs sm;                   // with KB_DRIVER_LAST and KB_DRIVER_FIRST: "sm_37"
    struct kb_origin origin;
};

struct kb_toolkit {
    const char *id;
    const char *cuda;  // "12.8"
    const char *ptx;   // PTX ISA version, "8.7"
    struct kb_strs sm; // real architectures it compiles for, ascending: "sm_75"
    struct kb_origin origin;
};

/* ------------------------------------------------------------------ gpus */

enum kb_gpu_kind {
    KB_GPU_CARD,
    KB_GPU_CHIP,   // "GA106": every card with it has the same capability
    KB_GPU_MODULE, // Jetson, DGX Spark
};

enum kb_vendor { KB_VENDOR_NVIDIA, KB_VENDOR_AMD };

struct kb_gpu {
    const char *id;
    enum kb_gpu_kind kind;
    enum kb_vendor vendor;
    const char *name;
    struct kb_strs chips;
    const char *generation; // "Ampere", "RDNA 2"
    struct kb_strs pci;     // device ids, four hexadecimal digits; may be empty
    const char *capability; // NVIDIA: "8.6"
    const char *gfx;        // AMD: "gfx1030"
    int memory_gib;         // the smallest that it is sold with; 0: not known
    struct kb_origin origin;
};

/* ------------------------------------------------------------------ cudnn */

struct kb_cudnn {
    const char *id;
    const char *cudnn; // "9.17.0"
    int cuda_major;
    struct kb_strs cuda;                 // the releases it is listed for
    const char *linux_min, *windows_min; // or NULL
    struct kb_strs sm;                   // compute capabilities: "8.6"
    struct kb_origin origin;
};

/* ------------------------------------------------------------------ releases, builds */

struct kb_release_need {
    const char *package;
    const char *versions; // or NULL: any
    const char *extra;    // only with this extra, or NULL
    const char *when;     // condition on the Python version, or NULL
};

struct kb_release {
    const char *id;
    const char *package, *version;
    const char *python;            // Requires-Python, or NULL
    struct kb_strs pythons;        // CPython versions that have a wheel for Linux x86-64
    const char *glibc;             // floor that the wheel's tag promises; NULL: any
    const char *cuda;              // release or major of the CUDA it requires, or NULL
    const char *cudnn;             // version or set that it requires, or NULL
    const char *numpy;             // set, or NULL
    const char *numpy_abi;         // "1" or "2": the major that it was compiled against, or NULL
    struct kb_strs platforms;      // that have a wheel: "windows-x86-64"; empty: not known
    struct kb_strs compiled_needs; // of which the package index has no wheel that fits
    const struct kb_release_need *needs;
    size_t n_needs;
    struct kb_origin origin;
};

/* How large a package's files are in the package index. */
struct kb_size {
    const char *id;
    const char *package;
    struct kb_strs wheels; // "2.15.0 linux-x86-64 530123456": version, platform or "any", bytes
    struct kb_strs totals; // "2.15.0 linux-x86-64 cuda 3.12 3012345678 27": of a plan with it, the
                           // device, the Python, all bytes and the number of files
    struct kb_origin origin;
};

enum kb_status { KB_STATUS_STABLE, KB_STATUS_EXPERIMENTAL };

struct kb_build {
    const char *id;
    const char *package, *versions;
    const char *build;               // "cu126", "rocm7.1"
    const char *cuda, *cudnn, *rocm; // or NULL
    const char *python;              // "3.10-3.14", or NULL
    const char *glibc;               // that its libraries need, whatever the wheel's tag; or NULL
    struct kb_strs platforms;        // that it exists for, in whatever index; empty: not known
    struct kb_strs index_platforms;  // whose wheel in the package index is this; empty: not known
    enum kb_status status;
    bool any_minor;              // its makers say that it runs with every CUDA of its major
    bool is_default;             // what the plain package index serves for Linux x86-64
    struct kb_strs sm, ptx, gfx; // empty: not known
    const char *ptx_isa;         // "8.7", the newest ISA of its PTX; or NULL
    struct kb_origin origin;
};

/* ------------------------------------------------------------------ errors */

enum kb_api {
    KB_API_CUDA_RUNTIME,
    KB_API_CUDA_DRIVER,
    KB_API_CUDNN,
    KB_API_CUBLAS,
    KB_API_NVRTC,
    KB_API_NVML,
    KB_API_HIP,
    KB_API_HSA,
    KB_API_HIPRTC,
    KB_API_HIPBLAS,
    KB_API_MIOPEN,
    KB_API_NCCL,
    KB_API_XID, // of the kernel's log
};

struct kb_error {
    const char *id;
    enum kb_api api;
    int code;
    const char *name;
    const char *versions; // of the library that has this number, or NULL: any
    const char *meaning;  // or NULL: the name says it
    struct kb_origin origin;
};

/* ------------------------------------------------------------------ rocm */

enum kb_rocm_kind {
    KB_ROCM_RELEASE,  // the targets that a release officially supports
    KB_ROCM_TARGET,   // one gfx target
    KB_ROCM_OVERRIDE, // what HSA_OVERRIDE_GFX_VERSION does on a target
    KB_ROCM_PART,     // the targets that a library of a release dropped
};

enum kb_verdict {
    KB_VERDICT_NONE,
    KB_VERDICT_SAME_ISA, // same instruction set; a run still has to confirm it
    KB_VERDICT_UNSAFE,   // wrong results or hangs
};

struct kb_rocm {
    const char *id;
    enum kb_rocm_kind kind;
    const char *rocm; // release
    struct kb_strs gfx;
    bool apu; // AMD's lists for Ryzen, which no row has, name these
    const char *part, *part_version;
    int kfd; // gfx_target_version of the kernel, 0: none
    const char *generation, *products;
    const char *override; // "10.3.0"
    enum kb_verdict verdict;
    struct kb_origin origin;
};

/* ------------------------------------------------------------------ models, glibc */

enum kb_model_kind {
    KB_MODEL_MODEL,    // parameters and memory as its authors give them
    KB_MODEL_MEASURED, // memory of one run
    KB_MODEL_ALIAS,
    KB_MODEL_COMPUTE, // what a compute type runs as on a class of devices
    KB_MODEL_DEFAULT,
    KB_MODEL_SINCE, // the releases of an engine with a compute type
};

struct kb_compute {
    const char *asked, *runs_as;
};

struct kb_model {
    const char *id;
    enum kb_model_kind kind;
    const char *engine;
    const char *model, *alias;    // or NULL
    const char *device;           // "cuda", "rocm", "cpu" or NULL
    const char *applies;          // set of compute capabilities or releases, a kind of CPU; or NULL
    const char *compute;          // compute type, or NULL
    int parameters_m, memory_mib; // 0: not known
    int batch;                    // of a measurement; 0: 1
    const struct kb_compute *runs;
    size_t n_runs;
    struct kb_origin origin;
};

struct kb_glibc {
    const char *id;
    const char *tag; // of a wheel, or NULL
    const char *glibc;
    const char *pip, *image; // of a tag: the pip that knows it, what its build image is
    const char *systems;     // that have this glibc, or NULL
    struct kb_origin origin;
};

enum kb_trait_kind {
    KB_TRAIT_PROGRAM,  // whether it needs a program of the system
    KB_TRAIT_VARIABLE, // an environment variable that it reads
    KB_TRAIT_FEATURE,  // whether it has one
    KB_TRAIT_CPU,      // the least instruction set of its wheels
    KB_TRAIT_REFUSAL,  // what it does with a compute type that the device has no fast code for
    KB_TRAIT_OPENS,    // a library that it opens at run time
    KB_TRAIT_INDEX,    // where it takes a package from
    KB_TRAIT_PACKAGE,  // how packages are named
    KB_TRAIT_ENCODING, // how a number is made
    KB_TRAIT_ENDS,     // without a driver it ends the process, once its library is loaded
    KB_TRAIT_CHOICES,  // the compute types that its command takes: its name lists them
    KB_TRAIT_NEEDS,    // least versions for the CUDA major of its name
};

/* One thing that a package needs or does and that no other area has a key for. */
struct kb_trait {
    const char *id;
    enum kb_trait_kind kind;
    const char *package;
    const char *versions; // PEP 440 set; NULL: all
    const char *name;     // of the program, variable, feature, instruction set or library
    const char *compute;  // the compute type that it is about, or NULL
    bool has;             // needs the program, has the feature
    const char *says;     // a sentence
    struct kb_origin origin;
};

/* A container engine. Rows of one engine stand in ascending order of `from`. */
struct kb_engine {
    const char *id, *engine;
    const char *from;    // release
    const char *cdi;     // the newest version of a CDI specification that it loads
    const char *library; // release of container-device-interface that it is built with
    const char *to;      // of an engine's last row: the newest release that was read; else NULL
    struct kb_origin origin;
};

/* ------------------------------------------------------------------ the areas */

struct kb_dlopens {
    const struct kb_dlopen *rows;
    size_t n;
};
struct kb_imports {
    const struct kb_import *rows;
    size_t n;
};
struct kb_packages {
    const struct kb_package *rows;
    size_t n;
};
struct kb_provides {
    const struct kb_provide *rows;
    size_t n;
};
struct kb_families {
    const struct kb_family *rows;
    size_t n;
};
struct kb_compats {
    const struct kb_compat *rows;
    size_t n;
};
struct kb_builds {
    const struct kb_build *rows;
    size_t n;
};
struct kb_cudnns {
    const struct kb_cudnn *rows;
    size_t n;
};
struct kb_drivers {
    const struct kb_driver *rows;
    size_t n;
};
struct kb_errors {
    const struct kb_error *rows;
    size_t n;
};
struct kb_engines {
    const struct kb_engine *rows;
    size_t n;
};
struct kb_glibcs {
    const struct kb_glibc *rows;
    size_t n;
};
struct kb_gpus {
    const struct kb_gpu *rows;
    size_t n;
};
struct kb_models {
    const struct kb_model *rows;
    size_t n;
};
struct kb_releases {
    const struct kb_release *rows;
    size_t n;
};
struct kb_rocms {
    const struct kb_rocm *rows;
    size_t n;
};
struct kb_repositorys {
    const struct kb_repository *rows;
    size_t n;
};

struct kb_sizes {
    const struct kb_size *rows;
    size_t n;
};
struct kb_toolkits {
    const struct kb_toolkit *rows;
    size_t n;
};
struct kb_traits {
    const struct kb_trait *rows;
    size_t n;
};

enum kb_area {
    KB_AREA_BUILDS,
    KB_AREA_COMPATS,
    KB_AREA_CUDNNS,
    KB_AREA_DLOPENS,
    KB_AREA_DRIVERS,
    KB_AREA_ERRORS,
    KB_AREA_FAMILIES,
    KB_AREA_ENGINES,
    KB_AREA_GLIBCS,
    KB_AREA_GPUS,
    KB_AREA_IMPORTS,
    KB_AREA_MODELS,
    KB_AREA_PACKAGES,
    KB_AREA_PROVIDES,
    KB_AREA_RELEASES,
    KB_AREA_REPOSITORYS,
    KB_AREA_ROCMS,
    KB_AREA_SIZES,
    KB_AREA_TOOLKITS,
    KB_AREA_TRAITS,
    KB_AREAS, // their number
};

/* The rows of an area whatever its type: n structs of `size` bytes each. */
struct kb_rows {
    const void *items;
    size_t n, size;
};

struct kb_loaded {
    bool is_loaded;
    struct kb_rows rows;
};

struct kb {
    struct arena *arena;
    struct root *root;  // where `folder` is looked for
    const char *folder; // NULL: the embedded areas only
    struct kb_loaded areas[KB_AREAS];
    json_t *loading; // while an area is read
};

/* Gives back what a read left that ran out of the arena's memory, if whoever owns the arena went on
 * from there. Accepts one that was only zeroed. */
void kb_close(struct kb *kb);

/* Whether a file's name or SONAME fits a member of the family, and the family with such a member;
 * NULL: none has. */
bool kb_family_has(const struct kb_family *f, const char *name);
const struct kb_family *kb_family_of(const struct kb_families *families, const char *name);

/* Reads every area of the folder, if there is one: its files are the user's own, and one that
 * cannot be used must not be left out without a word. The error names the file, and the line of its
 * row. */
int kb_load_folder(struct kb *kb, struct gm_err *err) GM_CHECK;

/* Starts a knowledge base whose rows go into `a`. `folder` may be NULL; it is an absolute path
 * inside `root`, and both must outlive the knowledge base. GM_ERR_LOOK if it is not a folder,
 * GM_ERR_FORMAT if it has a file NAME.json that is not called after an area. */
int kb_open(struct kb *kb, struct arena *a, struct root *root, const char *folder,
            struct gm_err *err) GM_CHECK;

/* The rows of an area, sorted by id. GM_ERR_LOOK if the folder's file cannot be read,
 * GM_ERR_FORMAT if it or a row of it is wrong. The embedded areas never fail. */
int kb_dlopens(struct kb *kb, struct kb_dlopens *ret, struct gm_err *err) GM_CHECK;
int kb_imports(struct kb *kb, struct kb_imports *ret, struct gm_err *err) GM_CHECK;
int kb_packages(struct kb *kb, struct kb_packages *ret, struct gm_err *err) GM_CHECK;
int kb_provides(struct kb *kb, struct kb_provides *ret, struct gm_err *err) GM_CHECK;
int kb_families(struct kb *kb, struct kb_families *ret, struct gm_err *err) GM_CHECK;
int kb_compats(struct kb *kb, struct kb_compats *ret, struct gm_err *err) GM_CHECK;
int kb_builds(struct kb *kb, struct kb_builds *ret, struct gm_err *err) GM_CHECK;
int kb_cudnns(struct kb *kb, struct kb_cudnns *ret, struct gm_err *err) GM_CHECK;
int kb_drivers(struct kb *kb, struct kb_drivers *ret, struct gm_err *err) GM_CHECK;
int kb_errors(struct kb *kb, struct kb_errors *ret, struct gm_err *err) GM_CHECK;
int kb_engines(struct kb *kb, struct kb_engines *ret, struct gm_err *err) GM_CHECK;
int kb_glibcs(struct kb *kb, struct kb_glibcs *ret, struct gm_err *err) GM_CHECK;
int kb_gpus(struct kb *kb, struct kb_gpus *ret, struct gm_err *err) GM_CHECK;
int kb_models(struct kb *kb, struct kb_models *ret, struct gm_err *err) GM_CHECK;
int kb_releases(struct kb *kb, struct kb_releases *ret, struct gm_err *err) GM_CHECK;
int kb_rocms(struct kb *kb, struct kb_rocms *ret, struct gm_err *err) GM_CHECK;
int kb_repositorys(struct kb *kb, struct kb_repositorys *ret, struct gm_err *err) GM_CHECK;
int kb_sizes(struct kb *kb, struct kb_sizes *ret, struct gm_err *err) GM_CHECK;
int kb_toolkits(struct kb *kb, struct kb_toolkits *ret, struct gm_err *err) GM_CHECK;
int kb_traits(struct kb *kb, struct kb_traits *ret, struct gm_err *err) GM_CHECK;

/* The same for an area by its number. */
int kb_rows(struct kb *kb, enum kb_area area, struct kb_rows *ret, struct gm_err *err) GM_CHECK;

/* How many rows the folder has of an area; 0 without a file. Errors as above. */
int kb_folder_count(struct kb *kb, enum kb_area area, size_t *ret, struct gm_err *err) GM_CHECK;

/* A document that is no area of rows alike, such as "words": that of the folder, else the embedded
 * one, as JSON; a new reference. Its "schema" and "area" were checked. Errors as above. */
int kb_document(struct kb *kb, const char *name, json_t **ret, struct gm_err *err) GM_CHECK;

/* "drivers": the name of the area and of its file. */
const char *kb_area_name(enum kb_area area);

/* One row as the JSON object it was made from; a new reference. Its id. */
json_t *kb_row_json(enum kb_area area, const void *row);
const char *kb_row_id(const void *row);

#endif
