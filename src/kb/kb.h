/*
 * The knowledge base: what GPU packages and libraries do that no file of theirs says.
 *
 *   kb/AREA.json  ->  scripts/kb-embed  ->  C data in the executable  ->  kb_AREA()
 *
 * Five areas, each an array of rows sorted by id. An area is parsed when it is first asked for and
 * then kept in the arena. With a folder (--kb DIR), DIR/AREA.json replaces the embedded area; an
 * area without a file there stays the embedded one. The files are foreign input: every value is
 * checked, and the error names the file and the row.
 *
 *   dlopens   what one *object* opens by itself, wherever it was loaded from
 *   imports   what `import PACKAGE` does, step by step, per version of the package
 *   provides  which package brings a library, and in which folder
 *   families  libraries that must match one another
 *   compat    which CUDA and cuDNN a release of a package was built for, and what it pins
 *
 * Version sets are texts as PEP 440 has them (py/version.h matches them); globs are for
 * str_glob(). Everything handed out lives in the arena. What the values mean is in
 * kb/schema/AREA.json, and tests/kb-check.py checks the data itself.
 */
#ifndef GPUMEND_KB_KB_H
#define GPUMEND_KB_KB_H

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
    bool lazy, global;   // RTLD_LAZY, RTLD_GLOBAL; else RTLD_NOW, RTLD_LOCAL
    const char *family;  // id of a row of families, or NULL
    const char *feature; // what it is for, or NULL
};

struct kb_dlopen {
    const char *id;
    struct kb_strs objects;       // globs on the object's SONAME or file name
    const char *package;          // only if the object belongs to it; NULL: any
    const char *package_versions; // or NULL
    const char *beside;           // only in a process with such an object; NULL: any
    const char *object_version;   // only for these versions of the object itself; NULL: any
    enum kb_version_from version_from;
    enum kb_phase phase;
    const struct kb_request *requests; // in the order they are made
    size_t n_requests;
    const char *says; // what the user sees when a required one is missing
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
    KB_MISSING_SKIP, // that one is passed over
};

/* One library of a preload step. For each entry of sys.path in order, each folder in order: the
 * first file that matches is opened by its path, and no other. {cuda_major} in a folder is the
 * CUDA major that the package was built for (torch/version.py); without one, no such folder. */
struct kb_preload {
    struct kb_strs folders;
    const char *glob;
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
    const char *caller;      // dlopen: "ctypes", "interpreter" or a glob on the calling object
    const char *group;       // dlopen: KB_MISSING_STOP ends all later steps of this group
    struct kb_strs names;    // dlopen: candidates in order; {site} is the site folder
    const struct kb_preload *libs; // preload, in order
    size_t n_libs;
};

struct kb_import {
    const char *id;
    const char *package;  // normalised name of the distribution
    const char *versions; // sets of one package do not overlap
    const char *module;   // what is imported
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
    KB_MANAGER_DRIVER
};

struct kb_provider {
    enum kb_manager manager;
    const char *package;
    const char *folder;   // below the site folder (pip), the prefix (conda), absolute; or NULL
    const char *versions; // NULL: any
};

struct kb_provide {
    const char *id;
    const char *soname;                  // glob
    const char *library;                 // what people call it
    const char *family;                  // or NULL
    int major;                           // of the SONAME, -1 if it has none that counts
    int cuda_major;                      // -1: not bound to one
    const struct kb_provider *providers; // the most usual first
    size_t n_providers;
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

/* ------------------------------------------------------------------ the areas */

struct kb_dlopens {
    const struct kb_dlopen *rows;
    size_t n;
};
struct kb_imports {
    const struct kb_import *rows;
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

struct kb {
    struct arena *arena;
    struct root *root;  // where `folder` is looked for
    const char *folder; // NULL: the embedded areas only
    struct kb_dlopens dlopens;
    struct kb_imports imports;
    struct kb_provides provides;
    struct kb_families families;
    struct kb_compats compats;
    bool has_dlopens, has_imports, has_provides, has_families, has_compats;
};

/* Starts a knowledge base whose rows go into `a`. `folder` may be NULL; it is an absolute path
 * inside `root`, and both must outlive the knowledge base. GM_ERR_LOOK if it is not a folder. */
int kb_open(struct kb *kb, struct arena *a, struct root *root, const char *folder,
            struct gm_err *err) GM_CHECK;

/* The rows of an area, sorted by id. GM_ERR_LOOK if a replacement file cannot be read,
 * GM_ERR_FORMAT if it or a row of it is wrong. The embedded areas never fail. */
int kb_dlopens(struct kb *kb, struct kb_dlopens *ret, struct gm_err *err) GM_CHECK;
int kb_imports(struct kb *kb, struct kb_imports *ret, struct gm_err *err) GM_CHECK;
int kb_provides(struct kb *kb, struct kb_provides *ret, struct gm_err *err) GM_CHECK;
int kb_families(struct kb *kb, struct kb_families *ret, struct gm_err *err) GM_CHECK;
int kb_compats(struct kb *kb, struct kb_compats *ret, struct gm_err *err) GM_CHECK;

#endif
