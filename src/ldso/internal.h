/* Shared by the files of the process model; not for other rooms. */
#ifndef GPUMEND_LDSO_INTERNAL_H
#define GPUMEND_LDSO_INTERNAL_H

#include "ldso/process.h"

enum dir_status { DIR_UNKNOWN, DIR_EXISTING, DIR_MISSING };

struct ldso_dir {
    const char *text; // as glibc keeps it: with a trailing '/', or "" for the working directory
    unsigned char *status; // enum dir_status for each of the process's subdirs
    const char **others;   // with an unknown CPU: which of p->other_subdirs are there
    size_t n_others;
    bool others_read;
    bool asked; // whether the folder itself is there: `error` as folder_errno() tells it
    int error;
    const char *head; // the subfolder that was asked for last, up to its '/': "glibc-hwcaps"
    int head_error;
};

struct ldso_list {
    VEC(struct ldso_dir *) dirs;
    bool dead;      // absent, empty, or given up because none of its folders exists
    bool permanent; // LD_LIBRARY_PATH and the system directories are never given up
};

/* What became of one file that could be opened. */
struct ldso_verdict {
    enum ldso_result result;
    bool fatal;         // the search ends; otherwise it goes on
    bool other_class;   // glibc remembers this and says so if nothing else is found
    bool crash;         // accepted, then the process is killed (SIGBUS)
    bool at_map;        // refused by _dl_map_object_from_fd(), after a look at the inode
    int error;          // errno that belongs to `says`, 0 if none
    const char *says;   // glibc's words without the file's name
    const char *detail; // ours
};

/* ---- judge.c */

/* One thing more that another processor or page size would decide otherwise; each once. */
void ldso_note_cpu(struct ldso_process *p, const char *text);

/* open_verify() and the checks of _dl_map_object_from_fd(). `dlopened`: the mapping is part of a
 * dlopen. `opens_exec`: the file is the main program of an explicitly started loader. */
struct ldso_verdict ldso_judge(struct ldso_process *p, const struct ldso_entry *entry,
                               bool dlopened, bool opens_exec);

/* The page size in bytes on which the kernel cannot map a program or its loader, as mmap() refuses
 * an offset that is not a multiple of it (fs/binfmt_elf.c: elf_map); 0: it can. */
uint32_t ldso_kernel_refuses(struct ldso_process *p, const struct ldso_entry *entry);

/* ---- search.c */

const char *ldso_absolute(struct ldso_process *p, const char *path);
/* $ORIGIN: the folder of the object as it was opened; that of the program without links, as the
 * kernel names it. */
const char *ldso_origin(struct ldso_process *p, struct ldso_object *o);

/* Expands $ORIGIN, $LIB, $PLATFORM with the object's map; NULL if a known token has no value or
 * the result may not be used. */
const char *ldso_expand(struct ldso_process *p, struct ldso_object *o, const char *text);

/* Builds a path list out of an element string; a token whose value is unknown drops its element. */
struct ldso_list *ldso_list_new(struct ldso_process *p, const char *text, const char *separators,
                                struct ldso_object *map);

void ldso_search_init(struct ldso_process *p);

struct ldso_found {
    struct ldso_entry *entry; // NULL: not found
    const char *path;         // as opened
    enum ldso_via via;
    struct ldso_object *via_object;
    bool fatal; // refused; says is the complete text
    bool crash;
    const char *says;
    const char *errstring; // see ldso_request
    const char *refused;   // entry is set, and mapping it fails with these words
};

/* "NAME: ERRSTRING: reason", as the loader composes it: at start with the few reasons that ld.so
 * itself knows (elf/dl-minimal.c, __strerror_r), later with the C library's. */
const char *ldso_error_text(struct ldso_process *p, const char *name, const char *errstring,
                            int error);

/* The search of section "order for a name without a slash", or the one open of a path. Appends
 * the steps to the request. */
struct ldso_found ldso_search(struct ldso_process *p, struct ldso_request *r, bool dlopened);

/* ---- symbols.c */

/* Symbol versions and undefined symbols of objects[first..]; scope is the global scope plus the
 * closure of root (NULL at start). Appends defects; returns the first fatal text or NULL. */
const char *ldso_check_versions(struct ldso_process *p, struct ldso_object *const *objects,
                                size_t n, bool at_start);
const char *ldso_check_symbols(struct ldso_process *p, struct ldso_object *const *objects, size_t n,
                               struct ldso_object *root, bool now);

/* ---- tls.c */

/* Lays out the static TLS block of a start that succeeds (_dl_determine_tlsoffset). */
void ldso_tls_start(struct ldso_process *p);

/* The relocations of a file that need static TLS, in their order; read once for each file. */
const struct ldso_tls_use *ldso_tls_uses(const struct ldso_process *p, struct ldso_file *f,
                                         size_t *ret_n);

/* Gives the object a place in the static TLS block unless it has one; false if it does not fit
 * (_dl_try_allocate_static_tls). */
bool ldso_tls_place(struct ldso_process *p, struct ldso_object *o, bool optional);

/* Gives back the places of objects that a failed dlopen unloads, in the order of unloading
 * (_dl_close_worker). */
void ldso_tls_take_back(struct ldso_process *p, struct ldso_object *const *objects, size_t n);

/* Bytes that are left for objects loaded later. */
uint64_t ldso_tls_free(const struct ldso_process *p);

/* ---- process.c */

bool ldso_has_name(const struct ldso_object *o, const char *name);
/* Most objects that are asked do not have the name, and are told by this. */
static inline uint64_t ldso_name_bit(uint32_t gnu_hash)
{
    return (uint64_t)1 << (gnu_hash & 63);
}

static inline bool ldso_has_name_key(const struct ldso_object *o, const struct elf_lookup_key *key)
{
    if (!(o->name_bits & ldso_name_bit(key->gnu_hash))) {
        return false;
    }
    for (size_t i = 0; i < o->names.n; i++) {
        const struct ldso_name *n = &o->names.items[i];
        if (n->hash == key->gnu_hash && strcmp(n->text, key->name) == 0) {
            return true;
        }
    }
    return false;
}
void ldso_add_name(struct ldso_process *p, struct ldso_object *o, const char *name);
struct ldso_object *ldso_object_new(struct ldso_process *p, const char *path,
                                    struct ldso_file *file, struct ldso_object *by,
                                    enum ldso_via via);
struct ldso_request *ldso_request_new(struct ldso_process *p, struct ldso_object *caller,
                                      const char *name, enum ldso_request_kind kind);
const char *ldso_shown_name(const struct ldso_process *p, const struct ldso_object *o);
void ldso_explain_failure(struct ldso_process *p, struct ldso_request *r);
void ldso_defect_add(struct ldso_process *p, struct ldso_defect defect);
/* Whether one object more than all that are loaded would be too many; p->limit is set then. */
bool ldso_is_full(struct ldso_process *p);

/* ---- known.c */

/* Whom to ask for a name or a file: nobody has it, only *ret may have it, or all are asked. */
enum ldso_asked { LDSO_ASK_NONE, LDSO_ASK_ONE, LDSO_ASK_ALL };

enum ldso_asked ldso_asked_name(struct ldso_process *p, uint32_t gnu_hash,
                                struct ldso_object **ret);
enum ldso_asked ldso_asked_file(struct ldso_process *p, const struct ldso_file *file,
                                struct ldso_object **ret);

/* A new name, a new object. */
void ldso_known_name(struct ldso_process *p, struct ldso_object *o, uint32_t gnu_hash);
void ldso_known_object(struct ldso_process *p, struct ldso_object *o);

/* ---- musl.c */

void ldso_musl_start(struct ldso_process *p);
void ldso_musl_dlopen(struct ldso_process *p, struct ldso_load *load);

typedef VEC(struct ldso_object *) object_list;

/* Notes the outcome of a request, and returns `says`, the text of the loader. */
const char *ldso_refuse(struct ldso_request *r, enum ldso_outcome outcome, const char *path,
                        const char *says);

/* _dl_map_object(): returns the object, or NULL with r->glibc_says or p->limit set. */
struct ldso_object *ldso_map_object(struct ldso_process *p, struct ldso_request *r,
                                    struct ldso_object *loader, bool dlopened);

/* _dl_map_object_deps(): breadth-first over root and the preloads. At start a missing library is
 * noted and the walk goes on, as `ldd` shows it; in a dlopen it ends the walk. */
const char *ldso_map_deps(struct ldso_process *p, struct ldso_object *root,
                          const object_list *preloads, bool dlopened);

/* The message of the loader about an object that needs a newer CPU, or NULL. */
const char *ldso_check_isa(struct ldso_process *p, struct ldso_object *const *objects, size_t n);

/* Dependencies before dependents: the order in which objects are relocated (elf/dl-sort-maps.c,
 * depth-first since 2.35). The root comes last; 2.35 itself left it where a cycle led to it. */
object_list ldso_relocation_order(struct ldso_process *p, struct ldso_object *root);

/* The order in which _dl_close_worker() unloads what a failed dlopen has mapped, and all else:
 * sorted by dependency, with the one that is closed in front since 2.39 and the program before. */
object_list ldso_unload_order(struct ldso_process *p, struct ldso_object *root);

/* Who has to define each version that the object asks for. */
void ldso_find_providers(struct ldso_process *p, struct ldso_object *o,
                         const struct elf_versions *v);

/* decompose_rpath(): an object with DT_RUNPATH has its DT_RPATH forgotten. */
struct ldso_list *ldso_rpath_of(struct ldso_process *p, struct ldso_object *o);

/* The folders of an object's RUNPATH, made once. */
struct ldso_list *ldso_runpath_of(struct ldso_process *p, struct ldso_object *o);

/* Reads ld.so.cache, once for all processes of a store. */
void ldso_open_cache(struct ldso_process *p);

#endif
