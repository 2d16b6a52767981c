/*
 * What the programs of an environment would have loaded: scripts of imports and first uses, turned
 * into process models by the knowledge of what each package and library opens by itself.
 *
 *   model_open()        the target: environment, start environment, root
 *   model_add_script()  "import torch", "import ctranslate2", "use torch", ... -> one process
 *   model_add_imports() torch, ctranslate2 -> one process for each order that differs
 *   model_libraries()   where else a library of some name lies (asked only when one is missing)
 *
 * Importing a package maps what its import maps and nothing else; what its first use on a GPU opens
 * comes only when the program uses it. Which of its imports a program uses, and which first, is the
 * program's choice, so a list of imports is several processes (see model_add_imports()).
 *
 * Everything is collected here; src/diag judges it without looking at the file system again. An
 * attempt is one library load that no DT_NEEDED asks for; its source says how we know of it.
 */
#ifndef GPUMEND_MODEL_MODEL_H
#define GPUMEND_MODEL_MODEL_H

#include "host/host.h"
#include "kb/kb.h"
#include "ldso/conf.h"
#include "ldso/process.h"
#include "model/hook.h"
#include "model/journal.h"
#include "py/env.h"

enum model_source {
    MODEL_FROM_IMPORT, // the import system: an extension module
    MODEL_FROM_KB,     // the table of what packages and libraries open (kb/, with its row)
    MODEL_FROM_NOTE,   // the object's own .note.dlopen
    MODEL_FROM_MAPS,   // seen mapped in the live process
    MODEL_FROM_GUESS,  // a string in the object's constants: never an error by itself
};

enum model_phase { MODEL_IMPORT, MODEL_USE };

struct model_attempt {
    enum model_source source;
    const char *row;     // kb row, or NULL
    const char *package; // the distribution whose import or use it belongs to, or NULL
    enum model_phase phase;
    struct ldso_object *caller;
    const char *const *names; // candidates, in the order tried
    size_t n_names;
    bool required;                // the feature fails without it
    bool recommended;             // its absence is worth a warning
    const char *feature, *family; // or NULL
    const char *says;             // what the user sees when it fails, or NULL
    const char *in_program;       // what the program itself can do before, or NULL
    const char *variable;         // of the start environment: its value selects the file, or NULL
    const struct ldso_load *load; // the one that succeeded, else the first that failed
    bool failed;
    size_t first_load, n_loads; // in ldso->loads
};

/* A package that a step imports or uses; fresh: it is the first to do so. */
struct model_touch {
    const struct py_dist *dist;
    bool use, fresh;
};

/* Lengths of lists where a step of a script begins: what lies between two is what a step did. */
struct model_mark {
    size_t requests, objects; // of the loader's process
    size_t looks, touches;    // of the process here
    size_t spread;            // symbols made global, and defects
};

struct model_process {
    const char **script; // "import torch", "use torch"
    size_t n_script;
    size_t group; // processes of one group have the same imports, used in different orders
    VEC(struct model_mark) marks; // one before each step that was reached, and one at the end
    VEC(const char *) looks; // patterns of names: what a step does depends on whether it is loaded
    VEC(struct model_touch) touches;
    const char **order; // what is used, first to last: uses that open something, each different
    size_t n_order;     // 0 or 1: their order makes no difference
    VEC(const char *) choices; // the same as steps; first "use torch in whisperx.asr"
    struct ldso_process *ldso; // NULL if the program could not be modelled: `error`
    const char *error;         // with ldso: a bound that its model has reached, and is then unsure
    VEC(struct model_attempt) attempts;
    VEC(const char *) unknown;    // imports that could not be modelled, one sentence each
    VEC(struct py_dist *) untold; // distributions of such imports, which no row describes
    size_t n_not_installed;       // imports of which nothing is installed
    bool unsure; // ... of them one that others here depend on: nothing of this process is fine
    VEC(const char *) imported; // distributions, in the order of their import
    const char *part_of;        // the application whose part this script imports by itself, or NULL
    bool fatal;                 // something at import failed: later steps do not happen
    const struct model_process *again_of; // the process that this one replays, or NULL
    size_t first_preload, n_preloads; // in ldso->loads: what a replay loads by itself (replay.h)
};

/* A file with a library's name, found in one of the usual folders. */
struct model_library {
    const char *path, *name; // name: the file's
    const char *where;       // "site-packages", "conda", "CUDA toolkit", "system", ...
    const char *package;     // owning distribution "nvidia-cudnn-cu12 9.1.0.70", or NULL
    const char *soname;
    bool usable; // whole, and ELF of the program's class and machine
};

struct model_folder {
    const char *dir, *where;
    char **names;
    size_t n;
};

/* An extension module that exists for another Python only. */
struct model_foreign {
    const char *package, *module, *file;
};

/* A file mapped in the live process. */
struct model_mapping {
    const char *path;
    bool deleted; // the file was replaced or removed since
};

struct model_change;
struct model_live; // live.h

struct model {
    struct root *root;
    struct arena *arena;
    struct ldso_store *store;
    struct kb *kb;
    struct kb_imports imports; // loaded by model_open()
    struct kb_dlopens dlopens;
    struct kb_families families;
    struct py_env *env;     // NULL: the target is no Python environment
    struct model_hook hook; // of the environment; file NULL: there is none
    const char *base; // where repairs of the target are made and their journals lie; NULL: unknown
    struct model_journal unfinished, unfinished_system; // repairs; folder NULL: there is none
    const struct host *host; // judged; NULL: not looked at, and host_why says why
    const char *host_why;
    bool host_elsewhere; // the root is an image's: the host's driver comes into it at its start
    const char *container_engine, *container_id; // that the live process is in; NULL: not known
    const struct model_live *live;               // the live process as it was read, or NULL
    struct py_env *live_env;   // the environment that it was started in, or NULL: not known
    bool for_cpu;              // the program is to compute on the CPU
    bool imports_named;        // the caller said what the program imports
    const char *unsure;        // why nothing can be called fine here, a sentence; or NULL
    const char *entry_missing; // of an image: the program that it starts and does not have; or NULL
    const char *entry_missing_for; // ... and the script whose first line names it; or NULL
    const char *entry_first;       // ... and the ELF file that the kernel executes for it; or NULL
    const char *image_refused;     // why engines cannot unpack the image, one sentence; or NULL
    struct ldso_config config;
    const char *target_file; // an ELF file as target, or NULL
    int pid;                 // live process, or 0
    VEC(struct model_process *) processes;
    VEC(struct model_folder) folders;
    struct ldso_conf conf; // with folders_read
    bool folders_read;
    VEC(const struct py_dist *) known; // installed GPU packages that kb/ knows, by name
    VEC(struct model_foreign) foreign;
    VEC(struct model_mapping) mappings; // with a pid
    VEC(const char *) late_folders;     // search-path folders younger than the live process
    VEC(const char *) notes;            // what could not be looked at
    const struct model_change *change;  // replay.h; NULL: the target as it is
};

/* Reads the areas of the knowledge base that scripts need. The caller has filled root, arena,
 * store, kb, env and config. Fails only with a replacement knowledge base that is wrong. */
int model_open(struct model *m, struct gm_err *err) GM_CHECK;

/* Runs a script in a fresh process model of the environment's interpreter (or of target_file) and
 * appends it. Never fails: what goes wrong is said in the process. */
struct model_process *model_add_script(struct model *m, const char *const *script, size_t n);

/*
 * Imports in this order, and their first uses in every order that can differ, between the imports
 * as well: one group of processes (model/orders.h). The first has the imports, then the uses in the
 * same order. Two uses that come to the same, and one that opens nothing by itself, count once and
 * not at all. Where there are too many orders m->unsure says so. Returns the first process.
 */
struct model_process *model_add_imports(struct model *m, const char *const *names, size_t n);

/* The loader of the first process that could be started in the model; NULL: none could. */
const struct ldso_process *model_first_process(const struct model *m);

/* The number of imports of a script, wherever they stand. */
size_t model_n_imports(const struct model_process *p);

/* The i-th of them, "import torch"; i is less than their number. */
const char *model_import(const struct model_process *p, size_t i);

/* Whether a use comes before an import. */
bool model_is_mixed(const struct model_process *p);

/* The same process in another start environment, and not appended: for trying a repair out. NULL
 * if it cannot be tried (a live process, or one that could not be modelled). */
struct model_process *model_try(struct model *m, const struct model_process *p,
                                const char *const *env, size_t n_env);

/* The scripts that a check runs by default (model/entry.c): every known GPU package alone that a
 * program would import, and every ordered pair of entries that share a library family. With
 * `imports` (n > 0): these in this order. Each with its uses in every order. */
void model_add_default_scripts(struct model *m, const char *const *imports, size_t n);

/* The program or library `target_file` on its own, its notes and its guesses. */
struct model_process *model_add_file(struct model *m);

/* What model_add_file() does, into a process that is not appended. */
void model_run_script(struct model *m, struct model_process *out, const struct ldso_config *config);
void model_run_file(struct model *m, struct model_process *out, const struct ldso_config *config);

/* The module of the n-th package (by kb/imports) of which the process has loaded a file already;
 * NULL: there are no more. For a live process. */
const char *model_loaded_module(struct model *m, const struct model_process *p, size_t n);

/* What the first use of that package does in a process as it stands: nothing is imported again. */
void model_use_loaded(struct model *m, struct model_process *out, const char *module);

/* Applies the rows of what objects open by themselves to every object of the process. */
void model_run_object_rows(struct model *m, struct model_process *out);

/* Loads what the model's change loads first (replay.h); called by the scripts. */
void model_preload(struct model *m, struct model_process *out, struct ldso_object *caller);

/* Points each attempt at its load; for use after the last load. */
void model_settle(struct model_process *out);

/* All files of the usual folders whose name is `name`, or has its stem with another version
 * ("libcublas.so.11" for "libcublas.so.12"). */
size_t model_libraries(struct model *m, const char *name, struct model_library **ret);

/* The folder of these that holds most files whose names fit the pattern; NULL if none does. */
const char *model_folder_with(const struct model *m, const char *pattern, size_t *ret_n);

/* The ld.so.conf file that names the folder; NULL if none does. Asked after model_libraries(). */
const char *model_conf_naming(const struct model *m, const char *dir);

/* "libcublas" of "libcublas.so.12", "libcudnn" of "libcudnn-74a4c495.so.9.1.0"; n is its length. */
struct str model_stem(const char *name);

/* Whether a version is in a PEP 440 set; NULL as set admits every version. */
bool model_version_fits(struct arena *a, const char *set, const char *version);

/* The distribution that owns a file, as "name version", or NULL. */
const char *model_owner(struct model *m, const char *path);

/* The forward-compatibility note of a libcuda; see host/host.h. */
void model_compat_note(struct model *m, const char *path, struct host_compat *ret);

const char *model_source_name(enum model_source source);

/* "gpumend COMMAND TARGET [--root DIR][ OPTIONS]" for the same target, as one pastes it into a
 * shell; `options` are ready for a shell, "" for none. */
const char *model_command(const struct model *m, const char *command, const char *options);

/* What a rule may ask about one path. A relative one counts from the working directory. */
const char *model_absolute(struct model *m, const char *path);
bool model_is_folder(struct model *m, const char *path);
const char *model_real_path(struct model *m, const char *path);   // links resolved, or NULL
const char *model_link_target(struct model *m, const char *path); // as written, or NULL
/* Where a chain of links ends: a file, or the last link, which leads nowhere. `path` itself if it
 * is no link, or the chain has no end. */
const char *model_link_end(struct model *m, const char *path);
/* The file or the folder above it that this user may not read or search; NULL if there is none. */
const char *model_denied_at(struct model *m, const char *path);

#endif
