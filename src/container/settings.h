/*
 * What a container needs on this host so that an application finds its GPU: devices, capabilities,
 * variables, mounts, groups; each with its reason. The application is a model of the target as
 * src/model opens it (its root is the image's, or the host's own where it is to be packed), the
 * host is judged by src/host.
 *
 * There is one model of settings, and every form of a container renders it (report/container.h).
 * Forms differ in how a GPU is asked for: see enum container_way. Sources, a form each:
 * docs/containers.md.
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

enum container_format {
    CONTAINER_DOCKER,
    CONTAINER_PODMAN,
    CONTAINER_COMPOSE,
    CONTAINER_KUBERNETES,
    CONTAINER_APPTAINER,
    CONTAINER_DEPLOYMENT,
    CONTAINER_CLAIM,
    CONTAINER_QUADLET,
    CONTAINER_DEVCONTAINER,
    CONTAINER_ENROOT,
    CONTAINER_PYXIS,
    CONTAINER_INCUS,
    CONTAINER_LXC,
    CONTAINER_NSPAWN,
    CONTAINER_DOCKERFILE,
    CONTAINER_FORMATS
};
const char *container_format_name(enum container_format format);
const char *container_format_names(struct arena *a); // "docker, podman, ..."
bool container_format_find(const char *name, enum container_format *ret);

/* How a form asks for a GPU. */
enum container_way {
    CONTAINER_BY_TOOLKIT, // --gpus: the NVIDIA Container Toolkit; device nodes for AMD and Intel
    CONTAINER_BY_NAME,    // CDI device names; device nodes for AMD and Intel
    CONTAINER_BY_PLUGIN,  // a resource of the vendor's device plugin
    CONTAINER_BY_CLAIM,   // a claim that the vendor's DRA driver serves
    CONTAINER_BY_FLAG,    // apptainer: --nv, --rocm
    CONTAINER_BY_HOOK,    // enroot: NVIDIA_VISIBLE_DEVICES, read by its hook; /dev is the host's
    CONTAINER_BY_DEVICE,  // incus: devices of type gpu
    CONTAINER_BY_PARTS,   // nothing knows GPUs: each node and each library of the driver is named
    CONTAINER_BY_NONE,    // a Dockerfile: only the image is mended
};
enum container_way container_format_way(enum container_format format);

/* The engine whose storage a form takes its images from: "docker", "podman", or NULL. */
const char *container_format_engine(enum container_format format);

enum container_gpu {
    CONTAINER_UNKNOWN_GPU,
    CONTAINER_NO_GPU,
    CONTAINER_NVIDIA,
    CONTAINER_AMD,
    CONTAINER_INTEL,
    CONTAINER_WSL
};

struct container_item {
    const char *value;  // "K=V", a node, a group, "FROM:TO", a line of a Dockerfile
    const char *reason; // one sentence
};
typedef VEC(struct container_item) container_items;

/* A GPU that was selected, or a MIG instance of one. */
struct container_device {
    const char *id;             // as the vendor's tools name it: "0", "GPU-...", "0:1", "MIG-..."
    const struct host_gpu *gpu; // NULL: not one that the host's files name
    long instance;              // number of the MIG instance in gpu->mig, or -1
};

/* Which GPUs a container is given. */
struct container_pick {
    bool all;                             // every GPU of the vendor; `devices` lists them
    VEC(struct container_device) devices; // in the order that was asked for
    const char *profile;                  // kubernetes: "1g.10gb", a MIG profile; or NULL
    const char *reason;                   // why these, or NULL
    bool none;                            // "best" is the CPU: `reason` says why
};

/* One step of the test protocol: a command inside the container. */
struct container_trial {
    VEC(const char *) words;
    const char *expected; // one sentence
    bool needs_gpumend;   // the executable is mounted as CONTAINER_PROGRAM
};
#define CONTAINER_PROGRAM "/opt/gpumend/bin/gpumend"

/* Where lxc looks for the container "app" (lxc.lxcpath of lxc.system.conf(5)). */
#define CONTAINER_LXC_ROOTFS "/var/lib/lxc/app/rootfs"

/* A version of CUDA that the image has, and whether the host's driver serves it. */
struct container_fit {
    const char *cuda;     // "12.4", "12"
    const char *from;     // where it was read
    enum host_state fits; // unknown: `rule` says why
    const char *rule;     // one sentence
};

struct container_settings {
    const char *subject; // what the engine is told to start; "IMAGE" where no image is known
    const char *starts;  // what the image starts, as words of a shell; "COMMAND": unknown
    bool made;           // lxc: `first` makes the container; else it is there already
    enum container_gpu gpu;
    bool by_toolkit; // docker, compose: the NVIDIA Container Toolkit injects the driver
    const struct container_pick *pick;
    container_items gpus;           // CDI names; "all" or "device=0,1"; a flag
    struct container_item runtime;  // docker, compose: "nvidia"; value NULL: the default
    container_items devices;        // nodes
    container_items allow;          // lxc: "c 195:0 rwm"
    container_items groups;         // numbers, or "keep-groups"
    container_items env;            // "K=V"
    container_items mounts;         // "FROM:TO", read-only
    container_items security;       // "label=disable"
    struct container_item folder;   // lxc, nspawn: in which the image starts; NULL: /
    struct container_item shm;      // "1g"; value NULL: the engine's default will do
    struct container_item resource; // of kubernetes: "nvidia.com/gpu"
    struct container_item selector; // of a claim: an expression of CEL; value NULL: any device
    struct container_item runtime_class;
    VEC(struct container_trial) trials;
    const char *program;       // of the host: this executable, or NULL
    const char *driver;        // version of the host's NVIDIA driver, or NULL: not known
    const char *driver_from;   // the file, or why it is not known
    const char *driver_cuda;   // the newest CUDA that goes with it: "12.4", or NULL: not known
    bool driver_cuda_or_newer; // that is the least: it may be of a newer one
    VEC(struct container_fit) fits;
    const char *user;      // of the image, or NULL: root, or not known
    container_items image; // lines for the image's Dockerfile
    container_items first; // commands on the host, before
    container_items undo;  // how to return
    bool unsure;           // the verdict is "cannot tell": what the image lacks may not be all here
    host_texts notes;
};

struct container_question {
    struct model *model;              // of the application
    const struct diag_report *report; // of it
    struct root *host_root;
    const struct host *host; // judged
    enum container_format format;
    bool rootless;                     // who runs the engine is not root
    const struct container_pick *pick; // NULL: all
    const char *program;               // this executable, or NULL: not known
    /* What was looked at: an image, or the folder of an unpacked one, and how the user named it.
     * Both NULL: the application itself, whose image is still to be made. */
    const struct image *image;
    const char *image_path;
};

/* "app", "1000:1000": what a USER line may hold; an image says it itself. */
bool container_is_user(const char *user);

/* The GPUs that a text names: "all", or a list of numbers (as nvidia-smi counts), UUIDs, MIG
 * instances ("0:1", "MIG-..."), and for kubernetes one MIG profile ("mig-1g.10gb"). GM_ERR_USAGE:
 * it names none, or one that is not here. `h` is judged; all in the model's arena. */
int container_pick_parse(const struct host *h, struct model *m, enum container_format format,
                         const char *text, struct container_pick *ret, struct gm_err *err) GM_CHECK;

/* The one GPU of the host. */
void container_pick_one(const struct host *h, struct arena *a, const struct host_gpu *gpu,
                        const char *reason, struct container_pick *ret);

/* All in the model's arena. Writes nothing. */
void container_settings(const struct container_question *q, struct container_settings *ret);

#endif
