/*
 * What a container needs on this host so that an application finds its GPU: devices, capabilities,
 * variables, mounts, groups; each with its reason. The application is a model of the target as
 * src/model opens it (its root is the image's, or the host's own where it is to be packed), the
 * host is judged by src/host.
 *
 * There is one model of settings, and every form of a container renders it (report/container.h).
 * Forms differ in how a GPU is asked for: see enum ctr_way. Sources, a form each: docs/containers.md.
 *
 * What is unknown is not asked for, and said: a MIG instance's profile and UUID are in no file, a
 * UUID that is not among those of the host's files may still be right.
 */
#ifndef GPUMEND_CONTAINER_SETTINGS_H
#define GPUMEND_CONTAINER_SETTINGS_H

#include "cdi/files.h"
#include "image/image.h"
#include "diag/finding.h"
#include "model/model.h"

enum ctr_format {
    CTR_DOCKER, CTR_PODMAN, CTR_COMPOSE, CTR_KUBERNETES, CTR_APPTAINER, CTR_DEPLOYMENT, CTR_CLAIM,
    CTR_QUADLET, CTR_DEVCONTAINER, CTR_ENROOT, CTR_PYXIS, CTR_INCUS, CTR_LXC, CTR_NSPAWN,
    CTR_DOCKERFILE, CTR_FORMATS
};
const char *ctr_format_name(enum ctr_format format);
const char *ctr_format_names(struct arena *a); // "docker, podman, ..."
bool ctr_format_find(const char *name, enum ctr_format *ret);

/* How a form asks for a GPU. */
enum ctr_way {
    CTR_BY_TOOLKIT, // --gpus: the NVIDIA Container Toolkit; device nodes for AMD and Intel
    CTR_BY_NAME,    // CDI device names; device nodes for AMD and Intel
    CTR_BY_PLUGIN,  // a resource of the vendor's device plugin
    CTR_BY_CLAIM,   // a claim that the vendor's DRA driver serves
    CTR_BY_FLAG,    // apptainer: --nv, --rocm
    CTR_BY_HOOK,    // enroot: NVIDIA_VISIBLE_DEVICES, read by its hook; /dev is the host's
    CTR_BY_DEVICE,  // incus: devices of type gpu
    CTR_BY_PARTS,   // nothing knows GPUs: each node and each library of the driver is named
    CTR_BY_NONE,    // a Dockerfile: only the image is mended
};
enum ctr_way ctr_format_way(enum ctr_format format);

/* The engine whose storage a form takes its images from: "docker", "podman", or NULL. */
const char *ctr_format_engine(enum ctr_format format);

enum ctr_gpu { CTR_UNKNOWN_GPU, CTR_NO_GPU, CTR_NVIDIA, CTR_AMD, CTR_INTEL, CTR_WSL };

struct ctr_item {
    const char *value;  // "K=V", a node, a group, "FROM:TO", a line of a Dockerfile
    const char *reason; // one sentence
};
typedef VEC(struct ctr_item) ctr_items;

/* A GPU that was selected, or a MIG instance of one. */
struct ctr_device {
    const char *id;             // as the vendor's tools name it: "0", "GPU-...", "0:1", "MIG-..."
    const struct host_gpu *gpu; // NULL: not one that the host's files name
    long instance;              // number of the MIG instance in gpu->mig, or -1
};

/* Which GPUs a container is given. */
struct ctr_pick {
    bool all;                        // every GPU of the vendor; `devices` lists them
    VEC(struct ctr_device) devices;  // in the order that was asked for
    const char *profile;             // kubernetes: "1g.10gb", a MIG profile; or NULL
    const char *reason;              // why these, or NULL
    bool none;                       // "best" is the CPU: `reason` says why
};

/* One step of the test protocol: a command inside the container. */
struct ctr_trial {
    VEC(const char *) words;
    const char *expected; // one sentence
    bool needs_gpumend;   // the executable is mounted as CTR_PROGRAM
};
#define CTR_PROGRAM "/opt/gpumend/bin/gpumend"

/* Where lxc looks for the container "app" (lxc.lxcpath of lxc.system.conf(5)). */
#define CTR_LXC_ROOTFS "/var/lib/lxc/app/rootfs"

/* A version of CUDA that the image has, and whether the host's driver serves it. */
struct ctr_fit {
    const char *cuda;     // "12.4", "12"
    const char *from;     // where it was read
    enum host_state fits; // unknown: `rule` says why
    const char *rule;     // one sentence
};

struct ctr_settings {
    const char *subject; // what the engine is told to start; "IMAGE" where no image is known
    const char *starts;  // what the image starts, as words of a shell; "COMMAND": unknown
    bool made;           // lxc: `first` makes the container; else it is there already
    enum ctr_gpu gpu;
    bool by_toolkit;          // docker, compose: the NVIDIA Container Toolkit injects the driver
    const struct ctr_pick *pick;
    ctr_items gpus;           // CDI names; "all" or "device=0,1"; a flag
    struct ctr_item runtime;  // docker, compose: "nvidia"; value NULL: the default
    ctr_items devices;        // nodes
    ctr_items allow;          // lxc: "c 195:0 rwm"
    ctr_items groups;         // numbers, or "keep-groups"
    ctr_items env;            // "K=V"
    ctr_items mounts;         // "FROM:TO", read-only
    ctr_items security;       // "label=disable"
    struct ctr_item shm;      // "1g"; value NULL: the engine's default will do
    struct ctr_item resource; // of kubernetes: "nvidia.com/gpu"
    struct ctr_item selector; // of a claim: an expression of CEL; value NULL: any device
    struct ctr_item runtime_class;
    VEC(struct ctr_trial) trials;
    const char *program;        // of the host: this executable, or NULL
    const char *driver;         // version of the host's NVIDIA driver, or NULL: not known
    const char *driver_from;    // the file, or why it is not known
    const char *driver_cuda;    // the newest CUDA that goes with it: "12.4", or NULL: not known
    VEC(struct ctr_fit) fits;
    const char *user;           // of the image, or NULL: root, or not known
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
    const struct ctr_pick *pick; // NULL: all
    const char *program;         // this executable, or NULL: not known
    /* What was looked at: an image, or the folder of an unpacked one, and how the user named it. Both
     * NULL: the application itself, whose image is still to be made. */
    const struct image *image;
    const char *image_path;
};

/* "app", "1000:1000": what a USER line may hold; an image says it itself. */
bool ctr_is_user(const char *user);

/* The GPUs that a text names: "all", or a list of numbers (as nvidia-smi counts), UUIDs, MIG
 * instances ("0:1", "MIG-..."), and for kubernetes one MIG profile ("mig-1g.10gb"). GM_ERR_USAGE: it
 * names none, or one that is not here. `h` is judged; all in the arena. */
int ctr_pick_parse(const struct host *h, struct arena *a, enum ctr_format format, const char *text,
                   struct ctr_pick *ret, struct gm_err *err) GM_CHECK;

/* The one GPU of the host. */
void ctr_pick_one(const struct host *h, struct arena *a, const struct host_gpu *gpu,
                  const char *reason, struct ctr_pick *ret);

/* All in the model's arena. Writes nothing. */
void ctr_settings(const struct ctr_question *q, struct ctr_settings *ret);

#endif
