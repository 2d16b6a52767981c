/*
 * What a container needs on this host so that an application finds its GPU: devices, capabilities,
 * variables, mounts, groups; each with its reason. The application is a model of the target as
 * src/model opens it (its root is the image's, or the host's own where it is to be packed), the
 * host is judged by src/host.
 *
 * Engines differ in how a GPU is asked for:
 *   docker       --gpus (NVIDIA Container Toolkit), device nodes for AMD and Intel
 *   podman       CDI device names, device nodes for AMD and Intel
 *   compose      reservations of devices
 *   kubernetes   resources of the vendor's device plugin
 *   apptainer    --nv, --rocm
 */
#ifndef GPUMEND_CONTAINER_SETTINGS_H
#define GPUMEND_CONTAINER_SETTINGS_H

#include "container/cdi_files.h"
#include "container/image.h"
#include "diag/finding.h"
#include "model/model.h"

enum ctr_format { CTR_DOCKER, CTR_PODMAN, CTR_COMPOSE, CTR_KUBERNETES, CTR_APPTAINER, CTR_FORMATS };
const char *ctr_format_name(enum ctr_format format);
bool ctr_format_find(const char *name, enum ctr_format *ret);

enum ctr_gpu { CTR_UNKNOWN_GPU, CTR_NO_GPU, CTR_NVIDIA, CTR_AMD, CTR_INTEL, CTR_WSL };

struct ctr_item {
    const char *value;  // "K=V", a node, a group, "FROM:TO", a line of a Dockerfile
    const char *reason; // one sentence
};
typedef VEC(struct ctr_item) ctr_items;

struct ctr_settings {
    const char *subject; // what the engine is told to start; "IMAGE" where no image is known
    enum ctr_gpu gpu;
    bool by_toolkit;          // docker, compose: the NVIDIA Container Toolkit injects the driver
    ctr_items gpus;           // CDI names, or "all"
    struct ctr_item runtime;  // docker, compose: "nvidia"; value NULL: the default
    ctr_items devices;        // nodes
    ctr_items groups;         // numbers, or "keep-groups"
    ctr_items env;            // "K=V"
    ctr_items mounts;         // "FROM:TO", read-only
    ctr_items security;       // "label=disable"
    struct ctr_item shm;      // "1g"; value NULL: the engine's default will do
    struct ctr_item resource; // of kubernetes: "nvidia.com/gpu"
    struct ctr_item runtime_class;
    ctr_items image; // lines for the image's Dockerfile
    ctr_items first; // commands on the host, before
    ctr_items undo;  // how to return
    host_texts notes;
};

struct ctr_question {
    struct model *model;              // of the application
    const struct diag_report *report; // of it
    struct root *host_root;
    const struct host *host; // judged
    enum ctr_format format;
    bool rootless; // who runs the engine is not root
    /* What was looked at: an image, or the folder of an unpacked one, and how the user named it. Both
     * NULL: the application itself, whose image is still to be made. */
    const struct image *image;
    const char *image_path;
};

/* All in the model's arena. Writes nothing. */
void ctr_settings(const struct ctr_question *q, struct ctr_settings *ret);

#endif
