/*
 * Whether programs can use a GPU here. Each vendor has a table of questions; each question may add
 * a problem. The worst of the problems is the answer: one that says no, then one that leaves it
 * unknown. Without either the answer is yes.
 */
#include "host/internal.h"
#include "host/names.h"

#include <string.h>

struct judge {
    const struct host *h;
    struct arena *arena;
    struct host_gpu *g;
};

static struct host_problem *host_problem_add(struct judge *j, const char *id, enum host_state state,
                                             const char *text, const char *step)
{
    return host_add_problem(j->arena, j->g, id, state, text, step);
}

static bool bound_to(const struct host_gpu *g, const char *driver)
{
    return g->driver.state == HOST_YES && g->driver.value && strcmp(g->driver.value, driver) == 0;
}

static bool judge_in_container(const struct judge *j)
{
    return j->h->container.inside.state == HOST_YES;
}

static bool judge_on(const struct host *h, const char *os)
{
    return h->os.state == HOST_YES && strcmp(h->os.value, os) == 0;
}

/* ------------------------------------------------------------------ all vendors */

static void ask_passed_through(struct judge *j)
{
    if (bound_to(j->g, "vfio-pci") || bound_to(j->g, "pci-stub")) {
        host_problem_add(
            j, "reserved-for-vm", HOST_NO,
            arena_printf(j->arena, "it is set aside for a virtual machine (bound to %s)",
                         j->g->driver.value),
            "if no virtual machine should have it: take its id out of the vfio-pci options (kernel "
            "command line, /etc/modprobe.d) and reboot");
    }
}

/* A refusal that the node's mode does not explain, in a container with SELinux' label. */
static bool by_label(struct judge *j, const struct host_node *n)
{
    const struct host_fact *label = &j->h->container.label;
    if (!judge_in_container(j) || label->state != HOST_YES ||
        !strstr(label->value, ":container_t:") || (n->mode & 06) != 06) {
        return false;
    }
    struct host_problem *p = host_problem_add(
        j, "permission", HOST_NO,
        arena_printf(j->arena,
                     "%s may not be used, though its mode %04o lets everybody: SELinux keeps "
                     "containers from it (label %s)",
                     n->path, (unsigned)n->mode, label->value),
        "start the container with --security-opt label=disable, or on the host: sudo setsebool -P "
        "container_use_devices on");
    p->culprit = n->path;
    return true;
}

/* One node that is there and may not be used. */
static bool ask_rights(struct judge *j, const struct host_node *n)
{
    if (n->present.state != HOST_YES || n->usable.state == HOST_YES) {
        return false;
    }
    if (n->usable.state == HOST_UNKNOWN) {
        host_problem_add(j, "permission-unknown", HOST_UNKNOWN,
                         arena_printf(j->arena, "gpumend cannot tell whether %s may be used: %s",
                                      n->path, n->usable.why),
                         NULL);
        return true;
    }
    if (strcmp(n->usable.value, "EPERM") == 0) {
        struct host_problem *p = host_problem_add(
            j, "device-cgroup", HOST_NO,
            arena_printf(j->arena, "%s exists, but the device cgroup denies access (EPERM)",
                         n->path),
            judge_in_container(j)
                ? "restart the container; to prevent it: "
                  "nvidia-ctk system create-dev-char-symlinks --create-all on the host, or CDI, or "
                  "name the nodes with --device"
                : "allow it in the service or job that this runs in (systemd: DeviceAllow=)");
        p->culprit = n->path;
        return true;
    }
    if (by_label(j, n)) {
        return true;
    }
    const char *group = n->group ? n->group : arena_printf(j->arena, "%u", (unsigned)n->gid);
    bool group_has = (n->mode & 060) == 060 && n->gid != 0;
    struct host_problem *p = host_problem_add(
        j, "permission", HOST_NO,
        arena_printf(j->arena, "this user does not have permission to use %s (mode %04o, group %s)",
                     n->path, (unsigned)n->mode, group),
        !group_has ? arena_printf(j->arena,
                                  "grant the users' group access: a udev rule for %s with GROUP "
                                  "and MODE=\"0660\"",
                                  n->path)
        : judge_in_container(j)
            ? arena_printf(j->arena, "start the container with --group-add %u%s", (unsigned)n->gid,
                           j->h->container.rootless.state == HOST_YES
                               ? " (rootless podman: --group-add keep-groups)"
                               : "")
            : arena_printf(j->arena, "sudo usermod -aG %s $USER, then log in again", group));
    p->culprit = n->path;
    p->command = group_has && !judge_in_container(j) && n->group
                     ? arena_printf(j->arena, "sudo usermod -aG %s \"$USER\"", group)
                     : NULL;
    return true;
}

static void ask_all_rights(struct judge *j)
{
    for (size_t i = 0; i < j->g->nodes.n; i++) {
        if (ask_rights(j, &j->g->nodes.items[i])) {
            return;
        }
    }
}

static void ask_visible(struct judge *j)
{
    host_judge_visible(j->h, j->arena, j->g);
}

/* ------------------------------------------------------------------ NVIDIA */

static const struct host_library *library(const struct host_nvidia *n, const char *name)
{
    for (size_t i = 0; i < n->libraries.n; i++) {
        if (strcmp(n->libraries.items[i].name, name) == 0) {
            return &n->libraries.items[i];
        }
    }
    return NULL;
}

static void nvidia_driver(struct judge *j)
{
    const struct host_fact *driver = &j->g->driver;
    if (driver->state == HOST_UNKNOWN) {
        host_problem_add(
            j, "driver-unknown", HOST_UNKNOWN,
            arena_printf(j->arena, "which driver is bound cannot be determined: %s", driver->why),
            NULL);
    } else if (bound_to(j->g, "nouveau")) {
        host_problem_add(
            j, "nouveau", HOST_NO, "the nouveau driver is bound, which cannot run CUDA",
            host_install_step(j->h, j->arena, j->g,
                              "install NVIDIA's driver (it switches nouveau off), then reboot"))
            ->command = host_install_nvidia(j->h, j->arena, j->g, 0);
    } else if (driver->state == HOST_YES && !bound_to(j->g, "nvidia") &&
               !bound_to(j->g, "vfio-pci") && !bound_to(j->g, "pci-stub")) {
        host_problem_add(
            j, "other-driver", HOST_NO,
            arena_printf(j->arena, "the driver bound to it is %s, not nvidia", driver->value),
            host_install_step(j->h, j->arena, j->g, "install NVIDIA's driver, then reboot"))
            ->command = host_install_nvidia(j->h, j->arena, j->g, 0);
    }
}

static void nvidia_not_loaded(struct judge *j)
{
    const struct host_nvidia *n = &j->h->nvidia;
    if (bound_to(j->g, "nvidia")) {
        (void)host_judge_bound(j->h, j->arena, j->g);
        return;
    }
    if (j->g->driver.state != HOST_NO || host_judge_unloaded(j->h, j->arena, j->g)) {
        return;
    }
    if (n->module.state == HOST_YES) {
        host_problem_add(
            j, "not-bound", HOST_NO,
            arena_printf(j->arena, "the NVIDIA driver%s%s is loaded but does not support this GPU",
                         n->module.value ? " " : "", n->module.value ? n->module.value : ""),
            "read why with: sudo dmesg | grep NVRM (the GPU may be too old or too new for this "
            "driver)")
            ->command = "sudo dmesg | grep NVRM";
    } else if (n->module_on_disk.state == HOST_YES) {
        host_problem_add(
            j, "not-loaded", HOST_NO, "the NVIDIA driver is installed but not loaded",
            "sudo modprobe nvidia; if that fails, sudo dmesg says why (Secure Boot requires a "
            "signed module)")
            ->command = "sudo modprobe nvidia";
    } else if (n->module_on_disk.state == HOST_NO && library(n, "libcuda.so.1")) {
        host_problem_add(
            j, "no-module", HOST_NO,
            arena_printf(j->arena,
                         "the driver's libraries are installed, but no kernel module was built "
                         "for the running kernel %s",
                         j->h->kernel.value),
            judge_on(j->h, "fedora")
                ? "install the headers of this kernel (kernel-devel) and build the module again "
                  "(sudo akmods --force, or sudo dkms autoinstall), or boot the kernel it was "
                  "built for"
                : "install the headers of this kernel and rebuild the module (sudo dkms "
                  "autoinstall), or boot the kernel it was built for")
            ->command = judge_on(j->h, "fedora") || judge_on(j->h, "opensuse-tumbleweed") ||
                                judge_on(j->h, "opensuse-leap") || judge_on(j->h, "arch")
                            ? NULL // built by akmods, packages or DKMS, by the repository
                            : host_build_module(j->h, j->arena, false);
    } else if (n->kernel_replaced && library(n, "libcuda.so.1")) {
        host_problem_add(j, "not-loaded", HOST_NO,
                         arena_printf(j->arena,
                                      "the driver is not loaded, and the modules of the running "
                                      "kernel %s are gone: the kernel was updated since the start",
                                      j->h->kernel.value),
                         "reboot")
            ->command = "sudo reboot";
    } else {
        host_problem_add(
            j, "no-driver", HOST_NO, "no driver is loaded for it",
            host_install_step(j->h, j->arena, j->g,
                              "install NVIDIA's driver from the distribution, then reboot"))
            ->command = host_install_nvidia(j->h, j->arena, j->g, 0);
    }
}

static bool any_node(const struct judge *j)
{
    return j->g->nodes.n && j->g->nodes.items[0].present.state == HOST_YES;
}

static void nvidia_nodes(struct judge *j)
{
    const struct host_nvidia *n = &j->h->nvidia;
    bool seen = n->nodes.n && n->nodes.items[0].present.state != HOST_UNKNOWN;
    if (!bound_to(j->g, "nvidia")) {
        return;
    }
    if (!seen) {
        host_problem_add(j, "nodes-unknown", HOST_UNKNOWN, "the device nodes cannot be seen", NULL);
        return;
    }
    bool control = n->nodes.items[0].present.state == HOST_YES;
    bool uvm = n->nodes.items[1].present.state == HOST_YES;
    if (judge_in_container(j) && (!control || (j->g->nodes.n && !any_node(j)))) {
        host_problem_add(
            j, "not-injected", HOST_NO, "this container was not given it (no device nodes)",
            "docker run --gpus all (NVIDIA Container Toolkit on the host), or podman run --device "
            "nvidia.com/gpu=all; a pod requests nvidia.com/gpu");
    } else if (judge_in_container(j) && !uvm) {
        host_problem_add(
            j, "uvm-not-injected", HOST_NO, "/dev/nvidia-uvm was not given to this container",
            "add --device /dev/nvidia-uvm, or let the container toolkit do it (--gpus all)");
    } else if (!control && n->modprobe.state == HOST_YES) {
        host_problem_add(j, "nodes-on-demand", HOST_YES,
                         "its device nodes are created when the first program needs them", NULL);
    } else if (!control) {
        host_problem_add(
            j, "nodes-missing", HOST_NO,
            "/dev/nvidiactl does not exist, nor does nvidia-modprobe, which would create it",
            "install nvidia-modprobe, or run nvidia-smi once as root")
            ->command = "sudo nvidia-smi";
    } else if (j->g->nodes.n == 0) {
        host_problem_add(j, "node-unmatched", HOST_UNKNOWN,
                         "gpumend cannot tell which of the device nodes is its own", NULL);
    }
}

/* The major number of nvidia-uvm is given out anew with each loading of the module. */
static void ask_major(struct judge *j, const struct host_node *n, const struct host_fact *major)
{
    if (n->present.state == HOST_YES && major->state == HOST_YES && n->major != major->number) {
        struct host_problem *p = host_problem_add(
            j, "stale-node", HOST_NO,
            arena_printf(j->arena,
                         "%s is the node of another driver (major %u, the driver's is %u)", n->path,
                         (unsigned)n->major, (unsigned)major->number),
            judge_in_container(j)
                ? "restart the container"
                : arena_printf(j->arena, "sudo rm %s, then run nvidia-modprobe -u -c=0", n->path));
        p->culprit = n->path;
        p->command =
            judge_in_container(j)
                ? NULL
                : arena_printf(j->arena, "sudo rm %s && sudo nvidia-modprobe -u -c=0", n->path);
    }
}

static void nvidia_majors(struct judge *j)
{
    const struct host_nvidia *n = &j->h->nvidia;
    if (!bound_to(j->g, "nvidia")) {
        return;
    }
    for (size_t i = 0; i < j->g->nodes.n; i++) {
        ask_major(j, &j->g->nodes.items[i], &n->major);
    }
    for (size_t i = 0; i < n->nodes.n && i < 2; i++) { // nvidiactl and nvidia-uvm
        ask_major(j, &n->nodes.items[i], i == 0 ? &n->major : &n->uvm_major);
    }
}

static void nvidia_rights(struct judge *j)
{
    const struct host_nvidia *n = &j->h->nvidia;
    if (!bound_to(j->g, "nvidia")) {
        return;
    }
    for (size_t i = 0; i < j->g->nodes.n; i++) {
        if (ask_rights(j, &j->g->nodes.items[i])) {
            return;
        }
    }
    for (size_t i = 0; i < n->nodes.n && i < 2; i++) { // nvidiactl and nvidia-uvm
        if (ask_rights(j, &n->nodes.items[i])) {
            return;
        }
    }
}

static void nvidia_uvm(struct judge *j)
{
    const struct host_nvidia *n = &j->h->nvidia;
    if (!bound_to(j->g, "nvidia") || n->uvm.state != HOST_NO || judge_in_container(j)) {
        return;
    }
    bool on_demand = n->modprobe.state == HOST_YES;
    host_problem_add(j, "uvm-not-loaded", on_demand ? HOST_YES : HOST_NO,
                     on_demand
                         ? "nvidia_uvm is not loaded yet; CUDA loads it through nvidia-modprobe"
                         : "the module nvidia_uvm is not loaded (CUDA then fails with error 999)",
                     on_demand ? NULL : "sudo modprobe nvidia_uvm, or sudo nvidia-modprobe -u -c=0")
        ->command = on_demand ? NULL : "sudo modprobe nvidia_uvm";
}

static void nvidia_libraries(struct judge *j)
{
    const struct host_nvidia *n = &j->h->nvidia;
    if (!bound_to(j->g, "nvidia")) {
        return;
    }
    if (!host_own_libcuda(j->h)) {
        const struct host_library *other = library(n, "libcuda.so.1");
        bool inside = judge_in_container(j);
        if (inside && j->g->problems.n) {
            return; // without the devices, that the libraries are missing too says nothing new
        }
        host_problem_add(
            j, "no-libraries", HOST_NO,
            inside ? "this container has the devices but not the driver's libraries (no "
                     "libcuda.so.1)"
            : other
                ? arena_printf(j->arena,
                               "the kernel module is loaded, but its libcuda.so.1 is not in the "
                               "usual places: %s is Jetson Linux's",
                               other->real)
                : "the kernel module is loaded, but libcuda.so.1 is not in the usual places",
            inside ? "let the NVIDIA Container Toolkit start the container (--gpus all) with "
                     "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
                   : arena_printf(j->arena,
                                  "install the driver's libraries of version %s (Debian: "
                                  "libcuda1)",
                                  n->module.value ? n->module.value : "of the module"));
    } else if (host_compat_is(j->h, j->arena, library(n, "libcuda.so.1")->real,
                              &n->libcuda_compat)) {
        return; // it is newer than the module by design: nvidia_compat() judges it
    } else if (n->versions_match.state == HOST_NO) {
        host_problem_add(
            j, "version-mismatch", HOST_NO,
            arena_printf(j->arena, "the driver's parts differ: %s", n->versions_match.why),
            judge_in_container(j) ? "restart the container, so that it gets the host's libraries"
                                  : "reboot, or unload the nvidia modules and load them again")
            ->command = judge_in_container(j) ? NULL : "sudo reboot";
    } else if (n->versions_match.state == HOST_UNKNOWN) {
        host_problem_add(j, "version-unknown", HOST_YES,
                         arena_printf(j->arena,
                                      "no file shows whether libcuda matches the kernel module: %s",
                                      n->versions_match.why),
                         NULL);
    }
}

static void nvidia_fabric(struct judge *j)
{
    const struct host_nvidia *n = &j->h->nvidia;
    if (!bound_to(j->g, "nvidia") || n->nvswitch.number == 0 ||
        n->fabric_manager.state == HOST_YES) {
        return;
    }
    if (n->fabric_manager.state == HOST_UNKNOWN) {
        host_problem_add(
            j, "fabric-unknown", judge_in_container(j) ? HOST_YES : HOST_UNKNOWN,
            "it uses NVSwitch, but gpumend cannot see whether the fabric manager is running", NULL);
        return;
    }
    bool installed = n->fabric_installed.state == HOST_YES;
    host_problem_add(
        j, "fabric-manager", HOST_NO,
        "it uses NVSwitch, but the fabric manager is not running (CUDA then fails with error 802)",
        installed ? "sudo systemctl enable --now nvidia-fabricmanager"
                  : arena_printf(j->arena,
                                 "install the fabric manager of version %s, then sudo "
                                 "systemctl enable --now nvidia-fabricmanager",
                                 n->module.value ? n->module.value : "of the driver"))
        ->command = installed ? "sudo systemctl enable --now nvidia-fabricmanager" : NULL;
}

static void nvidia_compat(struct judge *j)
{
    const struct host_nvidia *n = &j->h->nvidia;
    const struct host_library *lib = library(n, "libcuda.so.1");
    const char *why = NULL;
    if (!bound_to(j->g, "nvidia") || !lib ||
        !host_compat_is(j->h, j->arena, lib->real, &n->libcuda_compat)) {
        return;
    }
    if (host_compat_fits(j->h, j->arena, lib->version, &n->libcuda_compat, &why) == HOST_NO) {
        host_problem_add(
            j, "forward-compatibility-wrong", HOST_NO,
            arena_printf(j->arena, "%s comes from a forward-compatibility package: %s", lib->real,
                         why),
            "remove its folder from the loader's path (LD_LIBRARY_PATH, /etc/ld.so.conf.d, then "
            "ldconfig), or remove the package cuda-compat")
            ->culprit = lib->real;
        return;
    }
    host_problem_add(
        j, "forward-compatibility", HOST_YES,
        arena_printf(j->arena, "libcuda comes from a forward-compatibility package: %s", lib->real),
        NULL);
}

/* WSL: the libraries stand in for the kernel module. */
static void wsl_state(struct judge *j)
{
    const struct host_wsl *w = &j->h->wsl;
    const struct host_library *first = library(&j->h->nvidia, "libcuda.so.1");
    bool given = first && starts_with(first->real, "/usr/lib/wsl/"); // by the container toolkit
    if (w->dxg.state == HOST_NO && judge_in_container(j)) {
        host_problem_add(
            j, "not-injected", HOST_NO, "this container was not given it (no /dev/dxg)",
            "docker run --gpus all, or --device /dev/dxg -v /usr/lib/wsl:/usr/lib/wsl -e "
            "LD_LIBRARY_PATH=/usr/lib/wsl/lib");
    } else if (w->dxg.state == HOST_NO) {
        host_problem_add(
            j, "no-dxg", HOST_NO, "/dev/dxg is missing, through which WSL accesses the GPU",
            "use WSL 2 with its own kernel: wsl --update, then wsl --shutdown (in Windows)");
    } else if (w->dxg.state == HOST_UNKNOWN) {
        host_problem_add(j, "nodes-unknown", HOST_UNKNOWN,
                         "gpumend cannot tell whether /dev/dxg exists", NULL);
    }
    if (w->driver.state == HOST_NO) {
        host_problem_add(j, "no-windows-driver", HOST_NO,
                         "the Windows driver store contains no NVIDIA driver",
                         "install NVIDIA's driver in Windows");
    }
    if (judge_in_container(j) && w->dxg.state == HOST_YES &&
        (!(w->libcuda.path || given) || w->dxcore.state == HOST_NO)) {
        host_problem_add(
            j, "not-mounted", HOST_NO,
            w->dxcore.state == HOST_NO
                ? "this container has /dev/dxg but not libdxcore.so, through which WSL's libcuda "
                  "accesses the GPU"
                : "this container has /dev/dxg but not WSL's libcuda.so.1",
            "docker run --gpus all, or -v /usr/lib/wsl:/usr/lib/wsl -e "
            "LD_LIBRARY_PATH=/usr/lib/wsl/lib");
    } else if (!w->libcuda.path && !given) {
        host_problem_add(
            j, "no-libraries", HOST_NO, "libcuda.so.1 is missing from /usr/lib/wsl/lib",
            "wsl --shutdown (in Windows), and start again; install NVIDIA's driver in Windows");
    }
    if (w->shadows.n && first) {
        bool wins = !starts_with(first->real, "/usr/lib/wsl/");
        host_problem_add(j, "wsl-shadowed", wins ? HOST_NO : HOST_YES,
                         arena_printf(j->arena, "a Linux driver's libcuda (%s) %s",
                                      w->shadows.items[0],
                                      wins ? "is found before WSL's own, and finds no GPU there"
                                           : "is installed beside WSL's own, which is found first"),
                         "remove the Linux driver packages: WSL uses the Windows driver")
            ->culprit = w->shadows.items[0];
    }
    ask_all_rights(j);
    ask_visible(j);
}

/* That of the other kind of machine is named: people see it, and take it for theirs. */
static const char *lacking_libcuda(struct judge *j)
{
    const struct host_library *other = library(&j->h->nvidia, "libcuda.so.1");
    return !other ? "libcuda.so.1 is not in the usual places"
                  : arena_printf(j->arena,
                                 "Jetson Linux's libcuda.so.1.1 is not in the usual places, and %s "
                                 "is the driver's for GPUs on PCI",
                                 other->real);
}

static void tegra_state(struct judge *j)
{
    if (j->g->driver.state == HOST_NO) {
        host_problem_add(j, "not-loaded", HOST_NO, "the module nvgpu is not loaded",
                         "sudo modprobe nvgpu");
    }
    if (j->g->nodes.n == 0) {
        bool inside = judge_in_container(j);
        host_problem_add(j, inside ? "not-injected" : "nodes-missing",
                         inside ? HOST_NO : HOST_UNKNOWN,
                         inside ? "this container was not given it (no device nodes)"
                                : "none of its device nodes was found",
                         inside ? "docker run --runtime nvidia" : NULL);
    }
    if (!host_own_libcuda(j->h)) {
        host_problem_add(j, "no-libraries", HOST_NO, lacking_libcuda(j),
                         judge_in_container(j) ? "docker run --runtime nvidia"
                                               : "install the package nvidia-l4t-cuda");
    }
    ask_all_rights(j);
    ask_visible(j);
}

typedef void question(struct judge *j);

void host_judge_nvidia(struct host *h, struct arena *a, struct host_gpu *g)
{
    static question *const pci[] = {ask_passed_through, nvidia_driver,    nvidia_not_loaded,
                                    nvidia_nodes,       nvidia_majors,    nvidia_rights,
                                    nvidia_uvm,         nvidia_libraries, nvidia_fabric,
                                    nvidia_compat,      ask_visible};
    struct judge j = {h, a, g};
    if (strcmp(g->kind, "wsl") == 0) {
        wsl_state(&j);
        return;
    }
    if (strcmp(g->kind, "tegra") == 0) {
        tegra_state(&j);
        return;
    }
    for (size_t i = 0; i < sizeof pci / sizeof *pci; i++) {
        pci[i](&j);
    }
}

/* ------------------------------------------------------------------ AMD */

static void amd_driver(struct judge *j)
{
    const struct host_amd *amd = &j->h->amd;
    if (j->g->driver.state == HOST_UNKNOWN) {
        host_problem_add(j, "driver-unknown", HOST_UNKNOWN,
                         arena_printf(j->arena, "which driver is bound cannot be determined: %s",
                                      j->g->driver.why),
                         NULL);
    } else if (j->g->driver.state == HOST_NO) {
        host_problem_add(
            j, "no-driver", HOST_NO,
            amd->module.state == HOST_YES
                ? "the amdgpu driver is loaded but does not support this GPU"
                : "no driver is loaded for it",
            "sudo modprobe amdgpu; sudo dmesg | grep amdgpu says why it fails (firmware, kernel "
            "too "
            "old)")
            ->command = "sudo modprobe amdgpu";
    } else if (!bound_to(j->g, "amdgpu") && !bound_to(j->g, "vfio-pci") &&
               !bound_to(j->g, "pci-stub")) {
        host_problem_add(
            j, "other-driver", HOST_NO,
            arena_printf(j->arena, "the driver bound to it is %s, not amdgpu", j->g->driver.value),
            NULL);
    }
}

static void amd_kfd(struct judge *j)
{
    const struct host_amd *amd = &j->h->amd;
    if (!bound_to(j->g, "amdgpu")) {
        return;
    }
    if (amd->kfd.state == HOST_NO) {
        host_problem_add(j, "no-kfd", HOST_NO, "the kernel has no compute driver for AMD (KFD)",
                         "use a kernel with CONFIG_HSA_AMD, as the distributions build it");
    } else if (amd->kfd.state == HOST_UNKNOWN) {
        host_problem_add(j, "kfd-unknown", HOST_UNKNOWN,
                         "the topology of the compute driver cannot be seen", NULL);
    } else if (j->g->partitions.state != HOST_YES) {
        host_problem_add(j, "not-in-kfd", HOST_NO,
                         "the kernel's compute driver (KFD) does not offer it",
                         "sudo dmesg | grep kfd says why")
            ->command = "sudo dmesg | grep kfd";
    }
}

static void amd_nodes(struct judge *j)
{
    const struct host_node *kfd = &j->h->amd.kfd_node;
    if (!bound_to(j->g, "amdgpu") || j->g->partitions.state != HOST_YES) {
        return;
    }
    bool missing = kfd->present.state == HOST_NO ||
                   (j->g->nodes.n && j->g->nodes.items[0].present.state == HOST_NO);
    const char *gone = kfd->present.state == HOST_NO ? "/dev/kfd"
                       : j->g->nodes.n               ? j->g->nodes.items[0].path
                                                     : "/dev/kfd";
    if (missing && judge_in_container(j)) {
        host_problem_add(
            j, "not-injected", HOST_NO,
            arena_printf(j->arena, "this container was not given it (no %s)", gone),
            "start the container with --device /dev/kfd --device /dev/dri and --group-add with the "
            "number of the group that owns them on the host");
    } else if (missing) {
        host_problem_add(j, "nodes-missing", HOST_NO, arena_printf(j->arena, "%s is missing", gone),
                         "sudo udevadm trigger; sudo dmesg | grep -e amdgpu -e kfd");
    } else if (kfd->present.state == HOST_UNKNOWN) {
        host_problem_add(j, "nodes-unknown", HOST_UNKNOWN, "the device nodes cannot be seen", NULL);
    } else if (!ask_rights(j, kfd)) {
        ask_all_rights(j);
    }
}

static void amd_gfx(struct judge *j)
{
    const struct host_gpu *g = j->g;
    if (g->partitions.state == HOST_YES && starts_with(g->gfx.where ? g->gfx.where : "", "pci")) {
        host_problem_add(
            j, "old-kernel", HOST_YES,
            "the kernel is too old to report the gfx target: gpumend derived it from the PCI id",
            "install a newer kernel");
    }
}

static bool has_kernels(const struct host_rocm *r, const char *gfx)
{
    for (size_t i = 0; i < r->gfx.n; i++) {
        if (strcmp(r->gfx.items[i], gfx) == 0) {
            return true;
        }
    }
    return false;
}

/* "10.3.0" -> "gfx1030" */
static const char *gfx_of_override(struct arena *a, const char *text)
{
    struct str rest = str_of(text);
    uint64_t part[3];
    for (size_t i = 0; i < 3; i++) {
        if (!str_u64(str_cut(&rest, '.'), &part[i]) || part[i] > 15) {
            return NULL;
        }
    }
    return rest.s ? NULL : host_parse_gfx(a, part[0] * 10000 + part[1] * 100 + part[2]);
}

/* Says what an override does; returns the target that ROCm then takes the GPU for. */
static const char *amd_override(struct judge *j, const char *value)
{
    const struct host_gfx *own = host_gfx(j->g->gfx.value);
    const char *gfx = gfx_of_override(j->arena, value);
    if (!gfx) {
        host_problem_add(
            j, "override-unreadable", HOST_YES,
            arena_printf(j->arena, "HSA_OVERRIDE_GFX_VERSION=%s is not of the form 10.3.0", value),
            "unset HSA_OVERRIDE_GFX_VERSION")
            ->command = "unset HSA_OVERRIDE_GFX_VERSION";
        return j->g->gfx.value;
    }
    if (strcmp(gfx, j->g->gfx.value) == 0) {
        return gfx;
    }
    if (own && own->same_isa && strcmp(value, own->same_isa) == 0) {
        host_problem_add(
            j, "override", HOST_YES,
            arena_printf(j->arena,
                         "HSA_OVERRIDE_GFX_VERSION=%s makes ROCm treat it as %s, whose code it "
                         "executes",
                         value, gfx),
            NULL);
    } else {
        host_problem_add(
            j, "override-wrong", HOST_YES,
            arena_printf(j->arena,
                         "HSA_OVERRIDE_GFX_VERSION=%s makes ROCm treat it as %s, whose code is "
                         "not made for it: expect crashes or wrong results",
                         value, gfx),
            "unset HSA_OVERRIDE_GFX_VERSION")
            ->command = "unset HSA_OVERRIDE_GFX_VERSION";
    }
    return gfx;
}

/* What has kernels for it: an official release of ROCm, else those for another target. */
static const char *kernels_step(struct judge *j, const struct host_gfx *target)
{
    const struct host_amd *amd = &j->h->amd;
    for (size_t i = 0; target && target->since && i < amd->rocm.n; i++) {
        const struct host_rocm *r = &amd->rocm.items[i];
        if (r->gfx.n && r->version && host_version_cmp(r->version, target->since) >= 0 &&
            !has_kernels(r, target->gfx)) {
            return arena_printf(j->arena,
                                "install AMD's own packages of ROCm, or a build of PyTorch for it: "
                                "they have kernels for %s from ROCm %s on, and the build in %s was "
                                "made without",
                                target->gfx, target->since, r->prefix);
        }
    }
    if (target && target->since) {
        return arena_printf(j->arena,
                            "install ROCm %s or later, or a build of PyTorch for it: they have "
                            "kernels for %s",
                            target->since, target->gfx);
    }
    return target && target->same_isa
               ? arena_printf(j->arena, "try HSA_OVERRIDE_GFX_VERSION=%s", target->same_isa)
               : "use a build made for it (a distribution's, or one of your own); no official "
                 "release is known to have kernels for it";
}

static void amd_kernels(struct judge *j)
{
    const struct host_amd *amd = &j->h->amd;
    const char *gfx = j->g->gfx.state == HOST_YES ? j->g->gfx.value : NULL;
    const struct host_gfx *target = host_gfx(gfx);
    const char *override = host_variable(j->h, "HSA_OVERRIDE_GFX_VERSION");
    if (!gfx || !bound_to(j->g, "amdgpu")) {
        return;
    }
    gfx = override ? amd_override(j, override) : gfx;
    const char *step = override ? NULL : kernels_step(j, target);
    bool told = override != NULL;
    for (size_t i = 0; i < amd->rocm.n; i++) {
        const struct host_rocm *r = &amd->rocm.items[i];
        if (r->gfx.n && !has_kernels(r, gfx)) {
            host_problem_add(
                j, "no-rocblas-kernels", HOST_YES,
                arena_printf(j->arena, "rocBLAS of %s contains no kernels for %s", r->prefix, gfx),
                told ? NULL : step);
            told = true;
        }
    }
    if (target && !target->official && !told) {
        host_problem_add(
            j, "no-official-kernels", HOST_YES,
            arena_printf(j->arena, "official ROCm builds contain no kernels for %s", gfx), step);
    }
}

static void amd_rocm(struct judge *j)
{
    const struct host_amd *amd = &j->h->amd;
    if (bound_to(j->g, "amdgpu") && amd->rocm.n == 0 && amd->pip_rocm.n == 0 &&
        amd->libraries.n == 0) {
        host_problem_add(
            j, "no-rocm", HOST_YES,
            "no ROCm installation was found: programs that bundle their own can use it", NULL);
    }
}

void host_judge_amd(struct host *h, struct arena *a, struct host_gpu *g)
{
    static question *const questions[] = {ask_passed_through, amd_driver, amd_kfd,
                                          amd_nodes,          amd_gfx,    amd_kernels,
                                          amd_rocm,           ask_visible};
    struct judge j = {h, a, g};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        questions[i](&j);
    }
}

/* ------------------------------------------------------------------ Intel */

static bool intel_bound(const struct judge *j)
{
    return bound_to(j->g, "i915") || bound_to(j->g, "xe");
}

static void intel_driver(struct judge *j)
{
    if (j->g->driver.state == HOST_UNKNOWN) {
        host_problem_add(j, "driver-unknown", HOST_UNKNOWN,
                         arena_printf(j->arena, "which driver is bound cannot be determined: %s",
                                      j->g->driver.why),
                         NULL);
    } else if (j->g->driver.state == HOST_NO) {
        host_problem_add(j, "no-driver", HOST_NO, "no driver is loaded for it",
                         "use a kernel that knows it (i915 or xe); sudo dmesg says why it fails");
    } else if (!intel_bound(j) && !bound_to(j->g, "vfio-pci") && !bound_to(j->g, "pci-stub")) {
        host_problem_add(j, "other-driver", HOST_NO,
                         arena_printf(j->arena, "the driver bound to it is %s, not i915 or xe",
                                      j->g->driver.value),
                         NULL);
    }
}

static void intel_nodes(struct judge *j)
{
    if (!intel_bound(j)) {
        return;
    }
    if (j->g->nodes.n == 0) {
        host_problem_add(j, "nodes-unknown", HOST_UNKNOWN, "its render node cannot be determined",
                         NULL);
        return;
    }
    const struct host_node *n = &j->g->nodes.items[0];
    if (n->present.state == HOST_NO) {
        host_problem_add(
            j, judge_in_container(j) ? "not-injected" : "nodes-missing", HOST_NO,
            judge_in_container(j)
                ? arena_printf(j->arena, "this container was not given it (no %s)", n->path)
                : arena_printf(j->arena, "%s is missing", n->path),
            judge_in_container(j) ? "start the container with --device /dev/dri" : NULL);
    } else if (n->present.state == HOST_UNKNOWN) {
        host_problem_add(j, "nodes-unknown", HOST_UNKNOWN, "the device nodes cannot be seen", NULL);
    } else {
        ask_all_rights(j);
    }
}

static bool intel_has(const struct host_intel *intel, const char *name)
{
    for (size_t i = 0; i < intel->libraries.n; i++) {
        if (starts_with(intel->libraries.items[i].name, name)) {
            return true;
        }
    }
    return false;
}

static void intel_chain(struct judge *j)
{
    static const char *const links[][3] = {
        {"libze_loader.so", "the Level Zero loader", "libze1 (or level-zero)"},
        {"libze_intel_gpu.so", "Level Zero's driver for Intel GPUs",
         "libze-intel-gpu1 (or intel-level-zero-gpu)"},
        {"libigc.so", "Intel's graphics compiler", "libigc2 (or intel-igc-core)"},
        {"libigdgmm.so", "Intel's graphics memory library", "libigdgmm12"},
    };
    if (!intel_bound(j)) {
        return;
    }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        if (!intel_has(&j->h->intel, links[i][0])) {
            host_problem_add(
                j, "level-zero", HOST_NO,
                arena_printf(j->arena,
                             "%s (%s) is not in the usual places, without which SYCL and "
                             "PyTorch find no Intel GPU",
                             links[i][1], links[i][0]),
                arena_printf(j->arena, "install %s", links[i][2]));
            return;
        }
    }
}

void host_judge_intel(struct host *h, struct arena *a, struct host_gpu *g)
{
    static question *const questions[] = {ask_passed_through, intel_driver, intel_nodes,
                                          intel_chain, ask_visible};
    struct judge j = {h, a, g};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        questions[i](&j);
    }
}
