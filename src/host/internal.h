/* What the files of this room share: how a path becomes a fact. */
#ifndef GPUMEND_HOST_INTERNAL_H
#define GPUMEND_HOST_INTERNAL_H

#include "host/host.h"
#include "host/parse.h"
#include "ldso/cache.h"

enum {
    HOST_TEXT_MAX = 1 << 20,  // bytes of one file of /proc or /sys
    HOST_NODES_MAX = 4096,    // entries of a folder of devices
    HOST_SWITCHES_MAX = 1024, // entries of other folders
};

struct host_look {
    struct root *root;
    struct arena *arena;
    struct host *host;
    struct str nodes_list; // of a captured tree; s NULL without
    bool dev_seen;         // the device nodes of the machine can be seen
    struct str devices;    // /proc/devices, or s NULL
    struct str status;     // /proc/self/status
    struct str environ;    // /proc/self/environ
    struct ldso_cache cache;
    bool has_cache;
    VEC(struct host_library) cached; // driver libraries of ld.so.cache: name and path
};

/* Sets a variable among the host's. */
void host_set_variable(struct host *h, struct arena *a, struct host_setting x);

extern const char *const host_variables[]; // names of those that matter to GPUs, up to NULL

struct host_fact host_yes(const char *where, const char *value);
struct host_fact host_amount(const char *where, uint64_t number);
struct host_fact host_no(const char *where, const char *why);
struct host_fact host_unknown(const char *where, const char *why);

/* "cannot be read: Permission denied" and the like. */
const char *host_why(struct host_look *l, int rc);

/* The whole of a small text file; a negative errno. */
int host_read(struct host_look *l, const char *path, struct str *ret) GM_CHECK;

/* The trimmed text of a file as a fact: no when it is not there though `parent` is, unknown when
 * neither is or it cannot be read. */
struct host_fact host_text_fact(struct host_look *l, const char *path, const char *parent);

/* Whether `path` is there: no only when `parent` could be seen. */
struct host_fact host_presence(struct host_look *l, const char *path, const char *parent);

/* The entries of a folder that match a pattern; an empty list when it cannot be read. */
struct root_dir host_entries(struct host_look *l, const char *path, const char *pattern);

struct host_node host_node_at(struct host_look *l, const char *path);
/* Paths of the nodes in a folder of /dev whose names match. */
host_texts host_nodes_in(struct host_look *l, const char *folder, const char *pattern);

/* Whether the file is a 32-bit ELF file, which no 64-bit program loads. */
bool host_is_32bit(struct root *r, const char *path);

/* Every file of this name that a 64-bit process could find, by ld.so.cache and in the usual
 * folders, the first of them the one that is used. Each file once. */
struct host_libraries {
    VEC(struct host_library) found;
};
void host_find_library(struct host_look *l, const char *name, struct host_libraries *ret);

void host_collect_base(struct host_look *l);
void host_collect_cpu(struct host_look *l);
void host_collect_binfmts(struct host_look *l); // after the container
void host_collect_engines(struct host_look *l); // after the container
void host_collect_container(struct host_look *l);
void host_collect_pci(struct host_look *l);
void host_collect_nvidia(struct host_look *l);
void host_collect_amd(struct host_look *l);
void host_collect_intel(struct host_look *l);
void host_collect_platforms(struct host_look *l); // WSL and Tegra
bool host_collect_windows(struct host_look *l);   // false: there is no Windows below the root

/* Fills the vendor, the name and what follows from the chip, by the PCI ids. */
void host_describe_pci(struct host_look *l, struct host_gpu *g);

/* Adds a problem to a GPU; the caller may complete it until the next one is added. */
struct host_problem *host_add_problem(struct arena *a, struct host_gpu *g, const char *id,
                                      enum host_state state, const char *text, const char *step);
/* What the variables that choose GPUs do to this one (visible.c). */
void host_judge_visible(const struct host *h, struct arena *a, struct host_gpu *g);

/* The parts of host_judge(). */
void host_judge_engines(struct host *h, struct arena *a);
void host_judge_nvidia(struct host *h, struct arena *a, struct host_gpu *g);
void host_judge_amd(struct host *h, struct arena *a, struct host_gpu *g);
void host_judge_windows(const struct host *h, struct arena *a, struct host_gpu *g);
void host_judge_intel(struct host *h, struct arena *a, struct host_gpu *g);

/* Branches of NVIDIA's driver for a compute capability, of which `capability` is a prefix. */
struct host_branches {
    const char *capability;
    unsigned first, last; // 0: none is known
    bool open, proprietary;
};

/* NULL: its capability is not known, or has no row. */
const struct host_branches *host_branches_of(const struct host_gpu *g);

/* Why the driver does not have a GPU, where files tell it; false: they do not. */
void host_collect_unloaded(struct host_look *l);
/* Installs the headers of the running kernel and builds the driver's module; NULL: not known for
 * this system. */
const char *host_build_module(const struct host *h, struct arena *a, bool akmods);
bool host_judge_unloaded(const struct host *h, struct arena *a, struct host_gpu *g);

/* Why a GPU that the driver has cannot be used by it: adds the problem. false: nothing says so. */
bool host_judge_bound(const struct host *h, struct arena *a, struct host_gpu *g);

/* What the driver must be for a GPU, "570 or later", if one of that branch (0: the newest) does not
 * serve it; NULL: it does, or this is not known. */
const char *host_driver_wanted(struct arena *a, const struct host_gpu *g, unsigned branch,
                               bool open_only);

/* `step`, or if the distribution's package is not for the GPU, which driver is. */
const char *host_install_step(const struct host *h, struct arena *a, const struct host_gpu *g,
                              const char *step);

#endif
