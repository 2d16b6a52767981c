/*
 * What the machine is: its GPUs, their drivers, the libraries of the drivers, the container, the
 * CPU. host_collect() reads it all below a root; host_judge() then says of each GPU whether
 * programs can use it here, and what to do where they cannot.
 *
 * Nothing is executed, no vendor library is loaded, no socket and no device node is opened: a node
 * is looked at with stat(2) and access(2). The kernel answers access(2) on a device node with
 * EPERM where a device cgroup forbids it and with EACCES where mode, owner and lists do, as
 * open(2) would.
 *
 * Every fact is yes, no or unknown, says where it was read, and says why where it is not yes.
 * What cannot be determined by files stays unknown: whether MIG mode is on while no instance
 * exists, the memory of an NVIDIA GPU, what NVML or HSA would answer.
 *
 * A captured tree is read like the running system. What a tree of regular files cannot hold, it
 * states in a file at its top, "/.gpumend-nodes", which is read for trees only:
 *
 *     PATH c|b MAJOR MINOR MODE UID GID ACCESS
 *
 * MODE in octal; ACCESS is what access(PATH, R_OK|W_OK) gave (below /dev/nvidia-caps, whose nodes
 * are only read, R_OK): "ok", "EACCES", "EPERM", or "-" where it was not asked. The identity of the
 * user and the environment come from /proc/self/status and /proc/self/environ, in a tree too: those
 * of who captured it.
 *
 * Below a root that has no /proc and no /sys but a Windows folder, it is that Windows' machine.
 *
 * All texts live in the arena, or are constants.
 */
#ifndef GPUMEND_HOST_HOST_H
#define GPUMEND_HOST_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/root.h"
#include "host/manager.h"

enum host_state { HOST_UNKNOWN, HOST_NO, HOST_YES };
const char *host_state_name(enum host_state state); // "unknown", "no", "yes"

struct host_fact {
    enum host_state state;
    const char *value; // as it was read, or NULL: only the state counts
    uint64_t number;   // of facts that are amounts; their unit stands at the field
    const char *where; // path below the root, or NULL
    const char *why;   // a clause; set unless the state is yes
};

typedef VEC(const char *) host_texts;

/* A device node, and whether this process may use it. */
struct host_node {
    const char *path;
    struct host_fact present; // no: the folder was read and it is not there
    uint64_t major, minor, mode, uid, gid;
    const char *group;       // name of gid below the root, or NULL
    struct host_fact usable; // value: "EPERM", "EACCES" when no
};

/* A library of a driver. */
struct host_library {
    const char *name;    // "libcuda.so.1"
    const char *path;    // first place it was found in, or NULL
    const char *real;    // without links
    const char *version; // of the real file's name, or NULL
};

/* What a forward-compatibility libcuda says of itself, in a note of its file. */
struct host_compat {
    bool has_note;
    const char *cuda;       // "12.9", or NULL
    VEC(uint64_t) branches; // major numbers of the drivers it is for; empty: not stated
};

enum host_vendor { HOST_NVIDIA, HOST_AMD, HOST_INTEL, HOST_OTHER };
const char *host_vendor_name(enum host_vendor vendor);

/* Something that stands in the way. `id` is stable; `state` no: cannot be used because of it;
 * unknown: perhaps; yes: works, worth knowing. */
struct host_problem {
    const char *id, *text;
    const char *step;    // what to do next, or NULL
    const char *command; // the step, or its first part, as a shell takes it; or NULL
    const char *culprit; // the node, variable or file at fault, or NULL: the driver, or the GPU
    enum host_state state;
};

/* Device files of a MIG instance's two levels: "/dev/nvidia-caps/nvidia-cap3"; NULL: not known. */
struct host_mig_caps {
    const char *gpu_instance, *compute_instance;
};

struct host_gpu {
    enum host_vendor vendor;
    const char *kind; // "pci", "wsl", "tegra", "windows"
    const char *bdf;  // NULL without PCI
    uint32_t vendor_id, device_id, subsystem_vendor_id, subsystem_device_id, revision, class_id;
    const char *name; // "NVIDIA GeForce RTX 4090"
    const char *chip; // "AD102", or NULL
    bool integrated;
    struct host_fact driver;             // value: the bound driver, of Windows its provider; no:
                                         // none is bound
    const char *driver_version;          // of Windows: "566.14" of NVIDIA's; NULL: not known
    bool switched_off;                   // in Windows' device manager
    struct host_fact architecture;       // value: "Ada Lovelace", "RDNA 2"
    struct host_fact compute_capability; // value: "8.9"; NVIDIA
    struct host_fact gfx;                // value: "gfx1030"; AMD
    struct host_fact compute_units;      // number; AMD
    struct host_fact memory; // number: bytes that programs can have of it; of integrated graphics
                             // that of the machine where the kernel gives it to them
    struct host_fact vram, gtt;  // numbers: bytes of its own, and of the machine's it may map; AMD
    unsigned model_memory_gib;   // the least that the model is sold with; 0: not known
    struct host_fact numa_node;  // number
    struct host_fact minor;      // number: of /dev/nvidiaN, or of the render node
    struct host_fact uuid;       // value
    struct host_fact model;      // value: as the driver calls it
    struct host_fact partitions; // number of compute partitions; value: their mode; AMD
    host_texts mig;              // "gi1/ci0"; NVIDIA
    VEC(struct host_mig_caps) mig_caps; // of each of `mig`
    VEC(struct host_node) nodes;
    VEC(struct host_node) drawing; // NVIDIA: cardN and renderDN below /dev/dri, by sysfs
    enum host_state usable;        // by host_judge()
    VEC(struct host_problem) problems;
};

struct host_nvidia {
    struct host_fact module;           // the nvidia module is loaded; value: its version
    struct host_fact module_on_disk;   // for the running kernel
    struct host_fact flavour;          // value: "open" or "proprietary"
    struct host_fact uvm;              // the nvidia_uvm module is loaded
    struct host_fact switched_off;     // a file forbids the module; value "off": by prime-select
    struct host_fact secure_boot;      // it is on
    struct host_fact key_enrolled;     // the key that DKMS signs with; where: the key
    struct host_fact build_log;        // DKMS failed to build it; where: its log
    struct host_fact headers;          // of the running kernel
    bool kernel_replaced;              // its modules are gone, those of another are there
    struct host_fact modify_nodes;     // ModifyDeviceFiles of the driver's parameters
    struct host_fact major, uvm_major; // numbers: of the device drivers, by /proc/devices
    struct host_fact modprobe;         // nvidia-modprobe is installed: it makes nodes on demand
    struct host_fact persistence;      // nvidia-persistenced runs
    struct host_fact nvswitch;         // number of NVSwitch devices
    struct host_fact fabric_manager;   // it runs
    struct host_fact fabric_installed;
    VEC(struct host_library) libraries; // the first of each name, in search order
    VEC(struct host_library) shadowed;  // further copies of libcuda.so.1
    VEC(struct host_library) compat;    // forward-compatibility libraries
    struct host_compat libcuda_compat;  // the note of the first libcuda.so.1
    struct host_fact versions_match;    // of libcuda and the module; value: libcuda's version
    const char *ran_with;               // a kernel ran through this libcuda; NULL: nobody tried
    VEC(struct host_node) nodes;        // nvidiactl, nvidia-uvm, nvidia-uvm-tools
    VEC(struct host_node) cap_nodes;    // /dev/nvidia-caps/nvidia-capN
    VEC(struct host_node) imex;         // /dev/nvidia-caps-imex-channels/channelN
    struct host_node modeset;           // /dev/nvidia-modeset
};

struct host_rocm {
    const char *prefix, *version; // version NULL: not stated
    host_texts gfx;               // targets of its rocBLAS kernels
};

struct host_amd {
    struct host_fact module; // amdgpu is live; value: its version where it states one
    struct host_fact kfd;    // the compute driver's topology is there
    struct host_node kfd_node;
    VEC(struct host_rocm) rocm;
    host_texts pip_rocm; // "/usr/local/lib/python3.12/site-packages/rocm_sdk_core"
    VEC(struct host_library) libraries;
};

struct host_intel {
    struct host_fact i915, xe;
    VEC(struct host_library) libraries; // the Level Zero chain, from the loader down
};

struct host_wsl {
    struct host_fact is_wsl;
    struct host_fact dxg;        // /dev/dxg
    struct host_fact driver;     // value: the driver store folder with the NVIDIA driver
    struct host_fact dxcore;     // libdxcore.so, which the driver reaches the GPU with
    struct host_library libcuda; // in /usr/lib/wsl/lib
    host_texts shadows;          // libcuda outside /usr/lib/wsl
};

/* A line of the lists of what a container needs on a Jetson ("lib, /usr/lib/..."). */
struct host_tegra_file {
    const char *kind; // "dev", "dir", "lib" or "sym"
    const char *path;
};

struct host_tegra {
    struct host_fact is_tegra;
    struct host_fact release;          // value: "R36, REVISION: 3.0"
    struct host_fact jetpack;          // value: "6.0"; by the release
    struct host_fact soc;              // value: "tegra234"
    VEC(struct host_tegra_file) files; // without the device nodes
    VEC(struct host_node) nodes;       // of those lists; without them, found by name
};

struct host_container {
    struct host_fact inside;   // value: "docker", "podman", "kubernetes", "lxc", ...
    struct host_fact rootless; // in a user namespace of its own
    host_texts injected_devices, injected_libraries; // mount points of the driver's parts
    struct host_fact device_cgroup; // version 1: its list can be read; value: "1" or "2"
    struct host_fact label;         // of the process; value: SELinux' or AppArmor's
};

/* A variable of the environment. */
struct host_setting {
    const char *name, *value;
};
typedef VEC(struct host_setting) host_settings;

enum { HOST_WINDOWS_USERS_MAX = 64 };

/* A folder of a CUDA toolkit, a HIP SDK or cuDNN in its usual place. */
struct host_windows_toolkit {
    const char *kind;    // "CUDA toolkit", "cuDNN", "HIP SDK"
    const char *version; // "12.4", by the folder's name
    const char *path;    // "C:\\Program Files\\..."
};

/* Behind the name of a hive. */
#define HOST_DIRTY_SHORT "lacks its last changes (a dirty hive)"
#define HOST_DIRTY_HIVE                                                                            \
    HOST_DIRTY_SHORT                                                                               \
    ": they are in its logs, which are not read. Windows "                                         \
    "writes them into it at a full shutdown (shutdown /s /t 0), which fast startup is not"

struct host_windows_user {
    const char *name;        // of the folder below C:\Users
    struct host_fact path;   // the user's own PATH; value
    bool is_read, is_dirty;  // its hive was read; it lacks its last changes
    host_settings variables; // those that matter to GPUs, as this user has set them
    host_settings python;    // those of Python, likewise
};
struct host_windows_python {   // of the registry
    const char *company, *tag; // "PythonCore", "3.12-32"
    const char *user;          // of the folder below C:\Users; NULL: for all users
    const char *install;       // its folder, or NULL
    host_texts paths;          // what the subkeys of PythonPath name
};

/* A machine by the files of its Windows (windows.c). Paths are those of Windows. */
struct host_windows {
    struct host_fact is_windows;
    struct host_fact registry;    // the SYSTEM hive was read
    bool is_dirty;                // it lacks its last changes
    struct host_fact name;        // value: "Windows 11 Pro 23H2"
    struct host_fact build;       // number: 22631; value: "22631.3880"
    struct host_fact safe_search; // SafeDllSearchMode is on
    struct host_fact long_paths;  // LongPathsEnabled
    struct host_fact path;        // the system's PATH; value
    struct host_fact nvcuda;      // System32's nvcuda.dll; value: "566.14"
    struct host_fact runtime;     // System32's vcruntime140_1.dll; value: its version
    VEC(struct host_fact) hip;    // System32's amdhip64*.dll; value: their versions
    host_texts known_dlls;        // of the registry; empty: not known
    VEC(struct host_windows_toolkit) toolkits;
    VEC(struct host_windows_user) users;
    host_settings python;                    // variables of Python, of all users
    VEC(struct host_windows_python) pythons; // in the order of the registry, a user's last
};

/* A runtime for GPUs that an engine's settings register. */
struct host_runtime {
    const char *name;         // "nvidia"
    const char *path;         // as written, or NULL: not stated
    struct host_fact present; // of the program
};

/* A container engine that is installed, and what its settings say of GPUs. */
struct host_engine {
    const char *name;            // "docker", "containerd", "crio"
    const char *kind;            // "package", "snap", "desktop", "rootless", "k3s"
    const char *program;         // the path that told it
    const char *file;            // the settings that it reads, or NULL: not known
    struct host_fact settings;   // yes: read; no: there are none, its defaults count; else unknown
    bool elsewhere;              // part of the settings stands where this was not read
    const char *default_runtime; // or NULL: not stated
    VEC(struct host_runtime) runtimes; // of NVIDIA's toolkit
    const char *cgroup_driver;         // as stated, or NULL
};

/* NVIDIA's Container Toolkit. */
struct host_toolkit {
    struct host_fact program;  // one of its programs; value: its path
    const char *hook;          // nvidia-cdi-hook, else nvidia-ctk, which has its hooks; or NULL
    const char *version;       // of its package, or NULL: not known
    struct host_fact settings; // config.toml
    const char *root;          // where it looks for the driver, or NULL: not stated
    const char *ldconfig;      // as written, or NULL
    const char *mode;          // or NULL
    struct host_fact no_cgroups;
    struct host_fact root_driver;      // the stated root has a libnvidia-ml.so.1
    struct host_fact ldconfig_present; // a host's ldconfig; value: a file of nearly that name
};

/* Where a specification that gpumend writes mounts the driver's libraries: no image has it. */
#define HOST_DRIVER_FOLDER "/opt/gpumend/driver"

/* What a CDI specification of NVIDIA's GPUs puts into each container that could come before, or
 * behind, a libcuda of the image's own. */
struct host_injection {
    const char *file;         // the specification
    bool ours;                // gpumend wrote it
    host_texts libcuda;       // paths of the container where a libcuda is mounted; not empty
    host_texts cache_folders; // that a hook puts into the container's ld.so.cache
    bool compat_hook;         // one puts a newer libcuda of /usr/local/cuda/compat before them
    const char *library_path; // its LD_LIBRARY_PATH, or NULL
};

/* What containers are started with on this machine; empty inside a container. */
struct host_engines {
    VEC(struct host_engine) list;
    struct host_toolkit toolkit;
    host_texts foreign_runtimes;     // "nvidia" of Docker's usual file, where no engine reads it
    struct host_fact desktop_chosen; // Docker Desktop is the context of this user's docker
    struct host_fact desktop_of_windows;   // Docker Desktop serves WSL
    const char *crun;                      // version of its package, or NULL: not known
    struct host_fact kubelet;              // Kubernetes runs its pods here
    struct host_fact systemd;              // process 1 is systemd
    struct host_fact char_links;           // /dev/char has links to NVIDIA's nodes
    struct host_fact specification;        // a CDI file with NVIDIA's devices; value: its path
    VEC(struct host_injection) injections; // by src/container, for commands that judge an image
    struct host_fact selinux;              // it enforces
    struct host_fact selinux_devices;      // and lets containers use devices
};

struct host_cpu {
    struct host_fact model;
    struct host_fact cores_online, cores_affinity; // number
    struct host_fact quota;                        // number: thousandths of a core; no: no limit
    struct host_fact cores;                        // number: usable by the above
    struct host_fact isa;                          // value: "x86-64-v3"; number: 3
    struct host_fact vectors;                      // value: "AVX2", "AVX-512", "NEON", "SVE"
    struct host_fact memory_total;                 // number: bytes
    struct host_fact memory_limit;                 // number: bytes; no: no limit
};

struct host_user {
    struct host_fact uid;          // number: effective
    VEC(uint64_t) groups;          // effective and supplementary
    struct host_fact dac_override; // root's right to ignore modes
};

/* An interpreter that the kernel starts for files of another kind (Linux,
 * Documentation/admin-guide/binfmt-misc.rst): QEMU for programs of other processors. */
struct host_binfmt {
    const char *name, *interpreter;
    bool opened;      // flag F: it was opened when it was registered, and is there in containers
    size_t offset, n; // of the magic, in bytes
    unsigned char magic[256], mask[256];
};

struct host_binfmts {
    struct host_fact seen; // no: nothing is registered; unknown: it cannot be seen (a container)
    VEC(struct host_binfmt) items; // those that are enabled and go by a magic
};

/* How a machine executes a file. */
enum host_exec {
    HOST_EXEC_NATIVE,
    HOST_EXEC_INTERPRETED,
    HOST_EXEC_NOT, // execve(2) fails with ENOEXEC, "exec format error"
    HOST_EXEC_UNKNOWN,
};

struct host {
    uint16_t machine; // e_machine of its programs; 0: not known
    struct host_binfmts binfmts;
    struct host_fact pci;         // yes: the PCI bus was read
    struct host_fact kernel;      // value: release
    enum host_manager manager;    // of packages
    struct host_fact os;          // value: ID of os-release, "debian"
    struct host_fact os_name;     // value: its PRETTY_NAME, "Debian GNU/Linux 12 (bookworm)"
    struct host_fact os_version;  // value: its VERSION_ID, "12"
    struct host_fact os_like;     // value: its ID_LIKE, "ubuntu debian"
    struct host_fact os_platform; // value: its PLATFORM_ID, "platform:el9"
    struct host_cpu cpu;
    struct host_user user;
    struct host_container container;
    struct host_engines engines;
    struct host_nvidia nvidia;
    struct host_amd amd;
    struct host_intel intel;
    struct host_wsl wsl;
    struct host_tegra tegra;
    struct host_windows windows;
    VEC(struct host_gpu) gpus;    // by PCI address; WSL's and Tegra's last
    host_texts other_displays;    // adapters that compute nothing: "ASPEED ... at 0000:05:00.0"
    struct host_fact environment; // /proc/self/environ could be read
    host_settings variables;      // those that matter to GPUs
    VEC(struct host_problem) problems; // of the engines: what keeps containers from the GPUs
    host_texts notes;                  // bounds that were reached, files that could not be read
};

/* Reads everything. GM_ERR_LOOK when nothing of the machine can be seen below the root: neither
 * /proc nor /sys (the file system of an image), nor a Windows. */
int host_collect(struct root *r, struct arena *a, struct host *ret, struct gm_err *err) GM_CHECK;

/* What lies at the path of a device node, links not followed: yes with its type in *ret_type ('c',
 * 'b', 'p', or '\0': something else than a device), no, or unknown. */
struct host_fact host_device(struct root *r, struct arena *a, const char *path, char *ret_type);

/* The e_machine of the programs of the machine with this root, by its /proc/cpuinfo, else for
 * the running system by what gpumend was built for, and for another by its shell; 0: not known. */
uint16_t host_machine(struct root *r, struct arena *a);

/* How the machine executes an ELF file that begins with `head`, and its e_machine (0: it is none);
 * *ret, if by an interpreter. */
enum host_exec host_executes(const struct host *h, struct str head, uint16_t *ret_machine,
                             const struct host_binfmt **ret);

/* Fills usable and problems of every GPU, and the problems of the engines. No I/O. */
void host_judge(struct host *h, struct arena *a);

/* The first GPU that programs can use by host_judge(), or NULL. */
const struct host_gpu *host_usable_gpu(const struct host *h);

/* The variable's value, or NULL when it is unset or not known. */
const char *host_variable(const struct host *h, const char *name);

/* Puts the variables of a start environment ("K=V") in the place of those that were read; to be
 * called before host_judge(). `whole`: this is all of the environment, and what it does not name is
 * unset; else what it does not name stays as it was read. The texts must outlive the host. */
void host_set_environment(struct host *h, struct arena *a, const char *const *env, size_t n,
                          bool whole);

/* Takes these variables out, whoever set them; before host_judge() as well. */
void host_unset(struct host *h, const char *const *names, size_t n);

/* The release of Jetson Linux, 36 of "R36, REVISION: 3.0"; -1: not known. */
int host_l4t_release(const struct host *h);

/* The CUDA of the driver of this release of Jetson Linux ("12.6"), or NULL. */
const char *host_l4t_cuda(const struct host *h);

/* A Jetson before JetPack 7, whose CUDA and driver are not those for Arm servers. */
bool host_is_jetson(const struct host *h);

/* Whether a GPU of NVIDIA is on PCI. */
bool host_has_nvidia_card(const struct host *h);

/* Whether the only GPU of NVIDIA is that of a Tegra, with whatever driver. */
bool host_has_tegra_alone(const struct host *h);

/* The release of the driver that CUDA uses, or NULL: it is not known. On a Tegra the release of the
 * module nvidia does not say it. Thor's is 580.00 and has CUDA 13.0, for which a driver for PCI has
 * to be 580.65.06. Beside nvgpu the module drives the display only: it is called 540.4.0, or 35.3.1
 * after L4T, while libcuda has CUDA 12.6 [nix-community/nixGL#139; modular/mojo-gpu-puzzles#257].
 */
const char *host_nvidia_release(const struct host *h);

/* Whether this libcuda (a real path) is that of the driver for GPUs on PCI, where the GPU is part
 * of a Jetson's processor. */
bool host_is_libcuda_for_pci(const struct host *h, const char *real);

/* The first libcuda.so.1 of the usual places that reaches this machine's GPU, or NULL. */
const struct host_library *host_own_libcuda(const struct host *h);

/* Whether people expect programs to use it: integrated graphics count where AMD's own builds serve
 * them, and as the GPU of a Tegra. */
bool host_gpu_counts(const struct host_gpu *g);

/* A copy whose GPUs may be changed; what they point to is shared. In the arena. */
/* Whether the system is this one or is built from it, by ID, ID_LIKE and PLATFORM_ID of
 * os-release(5): Linux Mint is "ubuntu" and "debian", Rocky Linux "rhel". */
bool host_is(const struct host *h, const char *os);

struct host *host_copy(const struct host *h, struct arena *a);

/* The machine as it is known after a run: GPUs at these PCI addresses on which a kernel came back
 * right are usable, and what the files said against one is a remark (HOST_PROBLEM_RAN). `libcuda`:
 * the library by which, or NULL. `h` itself where that changes nothing, else a copy in the arena.
 */
#define HOST_PROBLEM_RAN "ran-all-the-same"
const struct host *host_after_run(const struct host *h, struct arena *a, const char *const *bdfs,
                                  size_t n, const char *libcuda);

/* The note in the bytes of its section; no note when they hold none, whatever they are. */
void host_compat_parse(struct arena *a, struct str section, struct host_compat *ret);

/* The note of a libcuda; no note when the file cannot be read or has none. */
void host_compat_read(struct root *r, struct arena *a, const char *path, struct host_compat *ret);

/* Whether a libcuda is one of forward compatibility: it lies in a folder "compat", or has the note
 * and is newer than the kernel module of `h` (may be NULL). The note alone says nothing: a driver's
 * own libcuda has it, too. */
bool host_compat_is(const struct host *h, struct arena *a, const char *real_path,
                    const struct host_compat *c);

/* Adds to each NVIDIA GPU what `library_path`, the LD_LIBRARY_PATH of the programs that are to use
 * it (NULL: none), does to the driver's library: a stub, or another driver's libcuda.so.1, in
 * front. The texts live in the arena. */
void host_judge_library_path(struct root *r, struct arena *a, struct host *h,
                             const char *library_path);

/* The name of a GPU of NVIDIA's that is not a data-centre product, for which there is no forward
 * compatibility; NULL: none is known to be here. */
const char *host_consumer_gpu(const struct host *h);

/* Whether a forward-compatibility libcuda of this version may be used on this machine; *ret_why, if
 * not yes, is a clause that says why not or why it cannot be determined. */
enum host_state host_compat_fits(const struct host *h, struct arena *a, const char *version,
                                 const struct host_compat *c, const char **ret_why);

/* How this machine's distribution installs NVIDIA's driver, as a shell takes it, by the
 * distribution's own documentation; NULL: not known, not to be done here (a container), or its
 * package is not for the GPU `g` (may be NULL) or older than `branch` (0: any). */
const char *host_install_nvidia(const struct host *h, struct arena *a, const struct host_gpu *g,
                                unsigned branch);

/* Where its package is, as a sentence; NULL: in what the distribution comes with, or not known. */
const char *host_install_source(const struct host *h);

/* The command that installs a package of NVIDIA's container tools on the host, with their
 * repository where the manager's command for it is one line (docs.nvidia.com, NVIDIA Container
 * Toolkit, Installing); NULL: there is no such package. */
const char *host_install_container_tools(const struct host *h, struct arena *a,
                                         const char *package);

/* Negative, 0 or positive: versions of digits and dots ("550.90.07"), part by part as numbers. */
int host_version_cmp(const char *a, const char *b);

#endif
