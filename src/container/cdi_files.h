/*
 * The CDI specifications that lie in the folders engines read, whoever wrote them, and what is
 * wrong with them on this machine: refused by engines, stale, in conflict with one another.
 *
 * The files are YAML or JSON; libyaml reads both. Nothing of them is believed: sizes, depth and
 * the number of nodes are bounded.
 */
#ifndef GPUMEND_CONTAINER_CDI_FILES_H
#define GPUMEND_CONTAINER_CDI_FILES_H

#include "container/cdi.h"

enum cdi_fault_kind {
    CDI_UNREADABLE,   // it cannot be read, or is no YAML
    CDI_REFUSED,      // engines refuse it: the format's own rules
    CDI_TOO_NEW,      // an engine that is installed here refuses its version
    CDI_PATH_GONE,    // a file or device of the host that it names is not there
    CDI_OTHER_DRIVER, // made for another driver version than the loaded one
    CDI_GPU_LEFT_OUT, // a GPU, or a partition of one, is here and not in it
    CDI_NOT_FOR_ALL,  // its mode keeps rootless engines from reading it
    CDI_CONFLICT,     // another file defines the same device
};
const char *cdi_fault_name(enum cdi_fault_kind kind); // "path-gone"

struct cdi_problem {
    enum cdi_fault_kind kind;
    bool is_error;    // a container cannot be started with it, or gets what does not work
    const char *text; // one sentence
};

struct cdi_file {
    const char *path, *kind, *version; // kind and version NULL: not known
    bool ours;
    json_t *document; // or NULL; belongs to the list
    size_t n_devices;
    VEC(struct cdi_problem) problems;
};

struct cdi_files {
    VEC(struct cdi_file) files;
    host_texts folders;     // that were read
    const char *engine;     // "podman 4.3.1", where one is installed whose limit is known; or NULL
    const char *engine_max; // the newest version of the format that it loads
};

/* The folders that engines read, in their order: files in a later one win. */
extern const char *const cdi_folders[];
enum { CDI_FOLDERS = 3 };

/* Reads and judges all specifications below the root; with `engine` also by what the engine that is
 * installed loads. */
void cdi_files_read(struct root *r, struct arena *a, const struct host *h, bool engine,
                    struct cdi_files *ret);
/* What makes engines refuse or mislead by a specification of GPUs, as problems of the host ("cdi").
 * Nothing inside a container, whose engine is not seen. */
void cdi_files_note(struct root *r, struct arena *a, struct host *h);
/* Adds what a specification of NVIDIA's GPUs injects to the host's engines. */
void cdi_note_injected(struct arena *a, const struct cdi_file *f, struct host *h);
void cdi_files_release(struct cdi_files *f);

/* YAML or JSON text as a JSON value of the caller's, or NULL with the reason in *ret_why. */
json_t *cdi_parse(struct arena *a, struct str text, const char **ret_why);

#endif
