/*
 * The CDI specifications that lie in the folders engines read, whoever wrote them, and what is
 * wrong with them on this machine: refused by engines, stale, in conflict with one another.
 *
 * The files are YAML or JSON; libyaml reads both. Nothing of them is believed: sizes, depth and
 * the number of nodes are bounded. Which names are read, and that a folder within is passed over,
 * is the reference library's (pkg/cdi/spec-dirs.go, 0.5.2 to 1.1.1); what keeps a container from
 * its start was seen with podman 4.3.1 and runc 1.1.5.
 */
#ifndef GPUMEND_CDI_FILES_H
#define GPUMEND_CDI_FILES_H

#include "cdi/cdi.h"

enum cdi_fault_kind {
    CDI_UNREADABLE,   // it cannot be read, or is not YAML
    CDI_REFUSED,      // engines refuse it: the format's own rules
    CDI_TOO_NEW,      // an engine that is installed here refuses its version
    CDI_PATH_GONE,    // a file or device of the host that it names is not there
    CDI_OTHER_DRIVER, // made for another driver version than the loaded one
    CDI_GPU_LEFT_OUT, // a GPU, or a partition of one, is here and not in it
    CDI_NOT_FOR_ALL,  // its mode keeps rootless engines from reading it
    CDI_CONFLICT,     // another file defines the same device
    CDI_NOT_READ,     // engines do not read a file of this name
    CDI_NOT_STARTED,  // engines load it, and the container does not start
    CDI_UNSEEN,       // whether something is wrong cannot be determined here
};
const char *cdi_fault_name(enum cdi_fault_kind kind); // "path-gone"

enum cdi_severity {
    CDI_WARNING,
    CDI_OPEN,  // it cannot be determined whether a container can be started with it
    CDI_ERROR, // a container cannot be started with it, or gets what does not work
};

struct cdi_problem {
    enum cdi_fault_kind kind;
    enum cdi_severity severity;
    const char *text; // one sentence
};

/* Releases of an engine that are built with the same release of the reference library. */
struct cdi_engine {
    const char *engine;       // "podman"
    const char *from, *until; // from <= RELEASE < until; until NULL: the last that are known
    const char *to; // of an engine's last row: the newest release that was read; else NULL
    const char *library;
    const char *installed; // release that is installed here, or NULL
};

/* What the engine of the same index says of a file. */
struct cdi_answer {
    const char *why; // it refuses the file: a clause; NULL: it loads the file
    bool too_new;    // for its version alone
};

struct cdi_file {
    const char *path, *kind, *version; // kind and version NULL: not known
    bool ours;
    json_t *document; // or NULL; belongs to the list
    size_t n_devices;
    VEC(struct cdi_problem) problems;
    VEC(struct cdi_answer) answers; // one an engine; empty where the file is not a mapping
    const char *step, *command;     // what mends an error; or NULL
};

struct cdi_files {
    VEC(struct cdi_file) files;
    VEC(struct cdi_engine) engines; // by engine, then by release; read with the first file
    const char *looked_in;          // the folders that were asked for: "/etc/cdi or /run/cdi"
    host_texts folders;             // that were read
    host_texts unread;              // sentences: folders that are there and cannot be read
    const char *engine;     // "podman 4.3.1": the installed one that loads the least, or NULL
    const char *engine_max; // the newest version of the format that it loads
};

/* The folders that engines read, in their order: files in a later one win. */
extern const char *const cdi_folders[];
enum { CDI_FOLDERS = 3 };

/* Reads and judges the specifications below the root: those of `folder`, or, where it is NULL, of
 * the folders that engines read. With `engine` the engines that are installed judge, as far as a
 * package database tells; without, or where none is found, all that are known. */
void cdi_files_read(struct root *r, struct arena *a, const struct host *h, const char *folder,
                    bool engine, struct cdi_files *ret);
/* "podman before 4.7, containerd before 1.7.12": the engines that refuse a file for this reason,
 * or, with NULL, that load it. */
const char *cdi_engines_text(struct arena *a, const struct cdi_files *files,
                             const struct cdi_file *f, const char *why);
/* What makes engines refuse or mislead by a specification of GPUs, as problems of the host ("cdi").
 * Nothing inside a container, whose engine is not seen. */
void cdi_files_note(struct root *r, struct arena *a, struct host *h);
/* Adds what a specification of NVIDIA's GPUs injects to the host's engines. */
void cdi_note_injected(struct root *r, struct arena *a, const struct cdi_file *f, struct host *h);
void cdi_files_release(struct cdi_files *f);

/* Finds the engines that are known and which are installed; kept in *ret. */
void cdi_engines_find(struct root *r, struct arena *a, bool installed, struct cdi_files *ret);
/* What they say of a document that cdi_tidy() has seen; adds the answers and problems to *f. */
void cdi_engines_judge(struct arena *a, const struct cdi_files *files, struct cdi_file *f);

/* YAML or JSON text as a JSON value of the caller's, or NULL with the reason in *ret_why: this one
 * where the text is not gone through, so that nothing is known of what it says. */
extern const char cdi_too_large[];
json_t *cdi_parse(struct arena *a, struct str text, const char **ret_why);

#endif
