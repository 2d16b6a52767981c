/*
 * The process model: what one process would have loaded, event by event, as its dynamic loader
 * would do it.
 *
 *   ldso_process_new()   start environment, CPU level, working directory
 *   ldso_start()         the program, its preloads, their dependencies (breadth-first)
 *   ldso_dlopen()        one dlopen(caller, name, mode) after the other
 *
 * State, as in glibc: the loaded list (names, DT_SONAME, inode, loader of each object), the path
 * lists, and for each directory whether it is known to exist. A failed dlopen takes back what it
 * mapped and keeps what it learnt about directories. glibc rules: elf/dl-load.c, dl-deps.c,
 * dl-open.c, dl-version.c, dl-lookup.c (2.27 to 2.43); musl rules: ldso/dynlink.c. What cannot be
 * modelled is listed in docs/loader.md.
 *
 * A request that fails is an answer, not an error. Objects, requests and their texts live in the
 * process's arena.
 */
#ifndef GPUMEND_LDSO_PROCESS_H
#define GPUMEND_LDSO_PROCESS_H

#include "ldso/cache.h"
#include "ldso/cpu.h"
#include "ldso/loader.h"
#include "ldso/store.h"

enum ldso_via {
    LDSO_VIA_NONE,
    LDSO_VIA_MAIN,   // the program itself
    LDSO_VIA_INTERP, // the loader, mapped by the kernel
    LDSO_VIA_RPATH,
    LDSO_VIA_RUNPATH,
    LDSO_VIA_LIBRARY_PATH, // LD_LIBRARY_PATH
    LDSO_VIA_CACHE,
    LDSO_VIA_DEFAULT, // system directories
    LDSO_VIA_LOADED,  // by name or soname among what is loaded
    LDSO_VIA_PATH,    // a name with a slash
    LDSO_VIA_PRELOAD,
};

enum ldso_result {
    LDSO_TAKEN,
    LDSO_ABSENT,        // no such file, or a folder of the path is missing
    LDSO_DANGLING,      // a link that leads nowhere
    LDSO_DENIED,        // permission denied
    LDSO_WRONG_CLASS,   // 32-bit file, 64-bit process or the reverse
    LDSO_WRONG_MACHINE, // another architecture
    LDSO_INVALID,       // not acceptable as a shared object: the detail says why
    LDSO_UNREADABLE,    // another errno: the detail says which
    LDSO_NOT_USED,      // a stage that does not count here: the detail says why; no path
};

enum ldso_outcome { LDSO_LOADED, LDSO_REUSED, LDSO_NOT_FOUND, LDSO_REFUSED };
enum ldso_request_kind { LDSO_NEEDED, LDSO_DLOPEN, LDSO_PRELOAD };

const char *ldso_via_name(enum ldso_via via);
const char *ldso_result_name(enum ldso_result result);
const char *ldso_outcome_name(enum ldso_outcome outcome);
const char *ldso_request_kind_name(enum ldso_request_kind kind);

struct ldso_dir;  // an interned search directory
struct ldso_list; // a path list of directories

/* A name with its hash, since most comparisons of names are with another one. */
struct ldso_name {
    const char *text;
    uint32_t hash; // elf_lookup_key(text).gnu_hash
};

/* Who has to define a version, and how it does; NULL: nobody, not at all. */
struct ldso_version_from {
    struct ldso_object *object;
    const struct elf_version_def *definition;
};

struct ldso_object {
    const char *path; // link map name: as opened, links not resolved
    const char *soname;
    struct ldso_file *file;
    VEC(struct ldso_name) names;    // every name it answers to
    uint64_t name_bits;             // ldso_name_bit() of each of them and of the soname
    const char *origin;             // see ldso_origin()
    struct ldso_object *loader;     // whose RPATH is inherited; NULL for the program and for dlopen
    struct ldso_object *with_rpath; // the first with DT_RPATH: itself, its loader, and up; or NULL
    struct ldso_object *by;         // who asked first; NULL for the program
    enum ldso_via via;
    struct ldso_object *via_object;    // whose RPATH or RUNPATH
    struct ldso_list *rpath, *runpath; // decomposed on first use
    VEC(struct ldso_object *) deps;    // direct dependencies, in order
    VEC(struct ldso_object *) scope;   // breadth-first closure, set once it was a dlopen root
    bool global, relocated, versions_checked, soname_added;
    struct ldso_version_from *version_from; // of each Vernaux, in their order; or NULL
    bool late, opened;                      // mapped by a dlopen; named by a dlopen that succeeded
    struct ldso_object *listed_first;       // of the list that a dlopen of it sorts
    uint64_t tls_offset; // of its block in the static TLS block; 0: it has none there
    uint64_t tls_before; // how much of the static TLS block was in use before it
    bool tls_late;       // its place is in the surplus for what the start has not loaded
    bool faked;          // not found at start; listed by ldd, never mapped
    unsigned mark;       // scratch for walks
    size_t place;        // in the process's objects when it was put there
};

/* Objects of a process that has many, by the hash of a name or by their file. */
struct ldso_known {
    struct ldso_known_entry {
        uint64_t key;
        struct ldso_object *object; // NULL: free
        bool several;               // others have it, too
    } * items;
    size_t n, cap; // open addressing; cap 0: there are few objects
};

struct ldso_step {
    const char *path; // what was tried, or NULL for a stage that was passed over
    enum ldso_via via;
    const struct ldso_object *via_object; // whose RPATH or RUNPATH, or NULL
    enum ldso_result result;
    bool fatal;               // the search ended here
    const char *detail;       // one clause, or NULL
    struct ldso_entry *entry; // what is at the path, for the loader model; may be NULL
};

/* Where a search ends. */
struct ldso_instead {
    const char *path;
    enum ldso_via via;
    const struct ldso_object *via_object; // whose RPATH or RUNPATH, or NULL
};

struct ldso_request {
    const char *name;
    struct ldso_object *caller;
    enum ldso_request_kind kind;
    enum ldso_outcome outcome;
    struct ldso_object *object; // with LOADED and REUSED
    const char *path;           // of the object, or of the file that was refused, or NULL
    enum ldso_via via;
    const struct ldso_object *via_object;
    const char *glibc_says; // the loader's own text on failure, or NULL
    const char *errstring;  // its middle part alone, without file name and errno text, or NULL
    const char *really;     // what is really wrong where that text misleads, or NULL
    int load;               // index of the ldso_load it belongs to, -1 for the start
    const struct ldso_instead *instead; // see ldso_instead()
    bool instead_asked;
    VEC(struct ldso_step) steps;
};

/* A version or a symbol that the chosen set does not provide. */
struct ldso_defect {
    enum ldso_defect_kind {
        LDSO_VERSION_MISSING,
        LDSO_SYMBOL_MISSING,
        LDSO_SYMBOL_MISSING_LAZY, // fails at the first call only
        LDSO_NO_VERSIONS,         // the provider carries no versions: a warning of the loader
        LDSO_EXEC_STACK,
        LDSO_ISA_LEVEL,
        LDSO_PAGE_SIZE,  // of the program or its loader: the kernel cannot map it
        LDSO_FILE_CUT,   // mapped, then SIGBUS
        LDSO_STATIC_TLS, // the provider does not fit into the static TLS block
    } kind;
    const struct ldso_object *object;   // who wants it
    const struct ldso_object *provider; // who should have it, or NULL
    const char *symbol, *version;       // or NULL
    const char *text;                   // the loader's words, or what will happen
    int load;
    bool fatal; // stops the start or the dlopen
    /* With LDSO_STATIC_TLS: bytes that were left of the surplus, bytes that all would take who want
     * a place and have none, and who has a place. */
    uint64_t tls_free, tls_wanted;
    VEC(const struct ldso_object *) tls_late;
};

/* The static TLS block of glibc: a piece of memory in each thread, laid out at the start with some
 * surplus for what is loaded later. Bytes. */
struct ldso_tls {
    bool known; // the layout of the architecture is
    uint64_t used, size, align;
    uint64_t room;     // what glibc.rtld.optional_static_tls has set aside
    uint64_t optional; // of it, what TLS descriptors may still take
};

struct ldso_load {
    const char *name;
    struct ldso_object *caller;
    enum ldso_outcome outcome;
    struct ldso_object *object; // NULL unless loaded or reused
    const char *path;
    const char *glibc_says;
    size_t request; // index of its own request, whose successors are its dependencies
    bool crashed;   // the process would not survive this load (SIGBUS)
};

struct ldso_config {
    const char *cwd;        // absolute inside the root
    const char *const *env; // "K=V", the start environment
    size_t n_env;
    int glibc_minor;            // overrides what the loader's file says; 0: do not
    uint32_t page_size;         // bytes; overrides that of the CPU; 0: does not
    const struct ldso_cpu *cpu; // NULL: that of the store's root (ldso_cpu_of)
    uid_t uid;                  // who would run it (secure-execution mode)
};

struct ldso_process {
    struct ldso_store *store;
    struct arena *arena;
    struct ldso_config config;
    struct ldso_cpu cpu;
    struct ldso_loader loader;
    int glibc_minor; // in force
    bool is_static;  // no dynamic section or no loader needed: nothing is searched
    bool secure;     // AT_SECURE
    const char *secure_why;
    bool explicit_loader; // the main program has no PT_INTERP: started as `ld.so FILE`
    const char *machine_name;

    struct ldso_object *main;
    struct ldso_object *interp;        // the loader's own object
    VEC(struct ldso_object *) objects; // link-map order
    struct ldso_known known;
    VEC(struct ldso_object *) global; // the global symbol scope
    VEC(struct ldso_request *) requests;
    VEC(struct ldso_load) loads;
    VEC(struct ldso_defect) defects;
    struct ldso_tls tls;
    /* With ldso_cpu_is_unknown(): what was met that some processor or page size decides otherwise,
     * one clause each. The model is that of a processor that has no folders of its own, with the
     * smallest pages. Empty: the model holds for every processor. */
    VEC(const char *) by_cpu;
    bool start_failed;
    const char *start_error; // the loader's words
    bool dead;               // a load has crashed the process: later loads do not happen
    /* A bound of the model that was reached, one sentence: ldso_start() fails with it, and the
     * ldso_dlopen() in which it was reached and all later ones are not known. NULL: none was. */
    const char *limit;

    struct ldso_cache cache;
    bool cache_read;
    const char *cache_note; // why it is not used, or NULL
    const char *const *subdirs;
    size_t n_subdirs;
    const char *const *other_subdirs; // with an unknown CPU: see ldso_cpu_other_subdirs()
    size_t n_other_subdirs;
    VEC(struct ldso_dir *) dirs; // interned
    struct ldso_list *library_path, *system;
    const char *preload_notes; // LD_PRELOAD entries that are ignored; or NULL
    int current_load;
    int ld_errno; // errno of the loader's own, which some of its texts end in
    unsigned mark;
    char *text; // of the candidate that is tried
    size_t text_cap;
};

enum { LDSO_NOW = 1, LDSO_GLOBAL_SCOPE = 2 };

/* store and arena must outlive the process; config's pointers as well. */
struct ldso_process *ldso_process_new(struct ldso_store *store, struct arena *arena,
                                      const struct ldso_config *config);

/* Starts `path` (absolute, or relative to cwd). Fails only if the file is no program or library
 * that could be started at all (not there, not ELF), or with GM_ERR_LIMIT and p->limit. */
int ldso_start(struct ldso_process *p, const char *path, struct gm_err *err) GM_CHECK;

/* dlopen(name, mode) called from code of `caller` (NULL: the main program). The result is also
 * appended to p->loads. Returns NULL, and appends nothing, after a failed start and with p->limit.
 */
const struct ldso_load *ldso_dlopen(struct ldso_process *p, struct ldso_object *caller,
                                    const char *name, unsigned mode);

/* The loaded object with this path, soname, or file name, or whose file any other path leads to (a
 * link, a hard link, a relative path); NULL if there is none. */
struct ldso_object *ldso_find_object(struct ldso_process *p, const char *name);

/* The other file at which a request would have ended if the object that answers to its name had not
 * been loaded before it: there the first one wins. NULL: it would have been the same file, or none,
 * or that is not known (with musl, which compares names otherwise; with an unknown CPU). To be
 * asked once all loads are done; searches, and keeps the answer. */
const struct ldso_instead *ldso_instead(struct ldso_process *p, struct ldso_request *r);

/* Whether the loader would map the file and the process die on what is missing of it. */
bool ldso_is_cut(const struct elf_image *e);

/* Value of a start-environment variable, or NULL. */
const char *ldso_getenv(const struct ldso_process *p, const char *name);

#endif
