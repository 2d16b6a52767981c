/*
 * Container Device Interface specifications: what a container engine that reads them (podman,
 * docker, containerd, CRI-O) puts into a container for a device name such as "nvidia.com/gpu=0".
 * The format is that of the CDI specification, SPEC.md 1.1.0
 * (cncf-tags/container-device-interface); versions in which its fields came are those of its table
 * of releases.
 *
 * What is written for this machine lets the driver's libraries come before an image's own copies of
 * them: with the hooks of NVIDIA's toolkit where it is installed, else with LD_LIBRARY_PATH
 * (build.h). What else it holds is what nvidia-ctk of release 1.19 writes (pkg/nvcdi).
 */
#ifndef GPUMEND_CDI_CDI_H
#define GPUMEND_CDI_CDI_H

#include <jansson.h>

#include "base/err.h"
#include "host/host.h"

/* One specification: of one vendor's devices. */
struct cdi_spec {
    const char *kind; // "nvidia.com/gpu"
    const char *file; // name of the file that it is written to
    json_t *document; // belongs to whoever holds the list
    const char *note; // a remark of its first lines: the driver's version; or NULL
};

struct cdi_specs {
    VEC(struct cdi_spec) specs;
    host_texts left_out; // sentences: devices that are here and have no place in it, and why
    host_texts notes;    // sentences: what the specifications cost
};

/* Who carries the edits out: engines, or a form of `container` that passes on its parts by hand and
 * cannot run hooks. */
enum cdi_way { CDI_FOR_ENGINES, CDI_BY_HAND };

/* Builds what the machine's usable devices need. Reads below the root; writes nothing. */
void cdi_build(struct root *r, struct arena *a, const struct host *h, enum cdi_way way,
               struct cdi_specs *ret);
void cdi_specs_release(struct cdi_specs *s);

/* The lowest version of the format that has all the document's fields: "0.3.0". */
const char *cdi_lowest_version(struct arena *a, const json_t *document);

/* The newest release of the reference library whose rules are known here. */
#define cdi_newest_library "1.1.1"

/* Numbers and truths that stand where the format has a text, as text: decoders take them so. The
 * document is changed. */
void cdi_tidy(json_t *document);

/* What keeps a release of the reference library ("0.5.2"; 0.4.0 or newer) from loading a document
 * that cdi_tidy() has seen: a clause, or NULL. *ret_too_new: only that the document's version is
 * newer than that release. */
const char *cdi_refusal(struct arena *a, const json_t *document, const char *library,
                        bool *ret_too_new);

/* The newest version of the format that a release of the reference library loads; a constant. */
const char *cdi_newest_version(const char *library);

/* Fields in the spelling of the format: most releases read them without regard to case. */
void cdi_fold(json_t *document);

/* The text of a file: a remark that says who wrote it, then the document. JSON is YAML. */
char *cdi_text(struct arena *a, const struct cdi_spec *s);

/* Whether a file's text is one of ours. */
bool cdi_is_ours(struct str text);

/* Where the forms of `container` mount what an image lacks. */
#define CDI_LIBRARY_FOLDER "/opt/gpumend/lib"

/* An absolute path, or a name, that no engine, shell or document takes apart. */
bool cdi_is_plain_path(const char *path);
bool cdi_is_plain_name(const char *name);

#endif
