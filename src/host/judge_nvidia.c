/*
 * The questions about NVIDIA: driver, nodes, rights, libraries, fabric; WSL and Tegra, which have
 * no PCI driver.
 */
#include <string.h>

#include "host/internal.h"
#include "host/judge.h"

static void nvidia_driver(struct judge *j)
{
    const struct host_fact *driver = &j->g->driver;
    if (driver->state == HOST_UNKNOWN) {
        host_judge_driver_unknown(j);
    } else if (host_gpu_is_bound(j->g, "nouveau")) {
        host_judge_add(
            j, "nouveau", HOST_NO, "the nouveau driver is bound, which cannot run CUDA",
            host_install_step(j->h, j->arena, j->g,
                              "install NVIDIA's driver (it switches nouveau off), then reboot"))
            ->command = host_install_nvidia(j->h, j->arena, j->g, 0);
    } else if (driver->state == HOST_YES && !host_gpu_is_bound(j->g, "nvidia") &&
               !host_gpu_is_bound(j->g, "vfio-pci") && !host_gpu_is_bound(j->g, "pci-stub")) {
        host_judge_add(
            j, "other-driver", HOST_NO,
            arena_printf(j->arena, "the driver bound to it is %s, not nvidia", driver->value),
            host_install_step(j->h, j->arena, j->g, "install NVIDIA's driver, then reboot"))
            ->command = host_install_nvidia(j->h, j->arena, j->g, 0);
    }
}

static void nvidia_not_loaded(struct judge *j)
{
    const struct host_nvidia *n = &j->h->nvidia;
    if (host_gpu_is_bound(j->g, "nvidia")) {
        (void)host_judge_bound(j->h, j->arena, j->g);
        return;
    }
    if (j->g->driver.state != HOST_NO || host_judge_unloaded(j->h, j->arena, j->g)) {
        return;
    }
    if (n->module.state == HOST_YES) {
        host_judge_add(
            j, "not-bound", HOST_NO,
            arena_printf(j->arena, "the NVIDIA driver%s%s is loaded but does not support this GPU",
                         n->module.value ? " " : "", n->module.value ? n->module.value : ""),
            "read why with: sudo dmesg | grep NVRM (the GPU may be too old or too new for this "
            "driver)")
            ->command = "sudo dmesg | grep NVRM";
    } else if (n->module_on_disk.state == HOST_YES) {
        host_judge_add(
            j, "not-loaded", HOST_NO, "the NVIDIA driver is installed but not loaded",
            "sudo modprobe nvidia; if that fails, sudo dmesg says why (Secure Boot requires a "
            "signed module)")
            ->command = "sudo modprobe nvidia";
    } else if (n->module_on_disk.state == HOST_NO && host_judge_library(n, "libcuda.so.1")) {
        host_judge_add(
            j, "no-module", HOST_NO,
            arena_printf(j->arena,
                         "the driver's libraries are installed, but no kernel module was built "
                         "for the running kernel %s",
                         j->h->kernel.value),
            host_is(j->h, "fedora")
                ? "install the headers of this kernel (kernel-devel) and build the module again "
                  "(sudo akmods --force, or sudo dkms autoinstall), or boot the kernel it was "
                  "built for"
                : "install the headers of this kernel and rebuild the module (sudo dkms "
                  "autoinstall), or boot the kernel it was built for")
            ->command = host_is(j->h, "fedora") || host_is(j->h, "opensuse") ||
                                host_is(j->h, "opensuse-tumbleweed") || host_is(j->h, "arch")
                            ? NULL // built by akmods, packages or DKMS, by the repository
                            : host_build_module(j->h, j->arena, false);
    } else if (n->kernel_replaced && host_judge_library(n, "libcuda.so.1")) {
        host_judge_add(j, "not-loaded", HOST_NO,
                       arena_printf(j->arena,
                                    "the driver is not loaded, and the modules of the running "
                                    "kernel %s are gone: the kernel was updated since the start",
                                    j->h->kernel.value),
                       "reboot")
            ->command = "sudo reboot";
    } else {
        host_judge_add(
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
    if (!host_gpu_is_bound(j->g, "nvidia")) {
        return;
    }
    if (!seen) {
        host_judge_add(j, "nodes-unknown", HOST_UNKNOWN, "the device nodes cannot be seen", NULL);
        return;
    }
    bool control = n->nodes.items[0].present.state == HOST_YES;
    bool uvm = n->nodes.items[1].present.state == HOST_YES;
    if (host_judge_in_container(j) && (!control || (j->g->nodes.n && !any_node(j)))) {
        host_judge_add(
            j, "not-injected", HOST_NO, "this container was not given it (no device nodes)",
            "docker run --gpus all (NVIDIA Container Toolkit on the host), or podman run --device "
            "nvidia.com/gpu=all; a pod requests nvidia.com/gpu");
    } else if (host_judge_in_container(j) && !uvm) {
        host_judge_add(
            j, "uvm-not-injected", HOST_NO, "/dev/nvidia-uvm was not given to this container",
            "add --device /dev/nvidia-uvm, or let the container toolkit do it (--gpus all)");
    } else if (!control && n->modprobe.state == HOST_YES) {
        host_judge_add(j, "nodes-on-demand", HOST_YES,
                       "its device nodes are created when the first program needs them", NULL);
    } else if (!control) {
        host_judge_add(
            j, "nodes-missing", HOST_NO,
            "/dev/nvidiactl does not exist, nor does nvidia-modprobe, which would create it",
            "install nvidia-modprobe, or run nvidia-smi once as root")
            ->command = "sudo nvidia-smi";
    } else if (j->g->nodes.n == 0) {
        host_judge_add(j, "node-unmatched", HOST_UNKNOWN,
                       "gpumend cannot tell which of the device nodes is its own", NULL);
    }
}

/* The major number of nvidia-uvm is given out anew with each loading of the module. */
static void ask_major(struct judge *j, const struct host_node *n, const struct host_fact *major)
{
    if (n->present.state == HOST_YES && major->state == HOST_YES && n->major != major->number) {
        struct host_problem *p = host_judge_add(
            j, "stale-node", HOST_NO,
            arena_printf(j->arena,
                         "%s is the node of another driver (major %u, the driver's is %u)", n->path,
                         (unsigned)n->major, (unsigned)major->number),
            host_judge_in_container(j)
                ? "restart the container"
                : arena_printf(j->arena, "sudo rm %s, then run nvidia-modprobe -u -c=0", n->path));
        p->culprit = n->path;
        p->command =
            host_judge_in_container(j)
                ? NULL
                : arena_printf(j->arena, "sudo rm %s && sudo nvidia-modprobe -u -c=0", n->path);
    }
}

static void nvidia_majors(struct judge *j)
{
    const struct host_nvidia *n = &j->h->nvidia;
    if (!host_gpu_is_bound(j->g, "nvidia")) {
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
    if (!host_gpu_is_bound(j->g, "nvidia")) {
        return;
    }
    for (size_t i = 0; i < j->g->nodes.n; i++) {
        if (host_ask_rights(j, &j->g->nodes.items[i])) {
            return;
        }
    }
    for (size_t i = 0; i < n->nodes.n && i < 2; i++) { // nvidiactl and nvidia-uvm
        if (host_ask_rights(j, &n->nodes.items[i])) {
            return;
        }
    }
}

static void nvidia_uvm(struct judge *j)
{
    const struct host_nvidia *n = &j->h->nvidia;
    if (!host_gpu_is_bound(j->g, "nvidia") || n->uvm.state != HOST_NO ||
        host_judge_in_container(j)) {
        return;
    }
    bool on_demand = n->modprobe.state == HOST_YES;
    host_judge_add(j, "uvm-not-loaded", on_demand ? HOST_YES : HOST_NO,
                   on_demand
                       ? "nvidia_uvm is not loaded yet; CUDA loads it through nvidia-modprobe"
                       : "the module nvidia_uvm is not loaded (CUDA then fails with error 999)",
                   on_demand ? NULL : "sudo modprobe nvidia_uvm, or sudo nvidia-modprobe -u -c=0")
        ->command = on_demand ? NULL : "sudo modprobe nvidia_uvm";
}

static void nvidia_libraries(struct judge *j)
{
    const struct host_nvidia *n = &j->h->nvidia;
    if (!host_gpu_is_bound(j->g, "nvidia")) {
        return;
    }
    if (!host_own_libcuda(j->h)) {
        const struct host_library *other = host_judge_library(n, "libcuda.so.1");
        bool inside = host_judge_in_container(j);
        if (inside && j->g->problems.n) {
            return; // without the devices, that the libraries are missing too says nothing new
        }
        host_judge_add(
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
    } else if (host_compat_is(j->h, j->arena, host_judge_library(n, "libcuda.so.1")->real,
                              &n->libcuda_compat)) {
        return; // it is newer than the module by design: nvidia_compat() judges it
    } else if (n->versions_match.state == HOST_NO) {
        host_judge_add(
            j, "version-mismatch", HOST_NO,
            arena_printf(j->arena, "the driver's parts differ: %s", n->versions_match.why),
            host_judge_in_container(j)
                ? "restart the container, so that it gets the host's libraries"
                : "reboot, or unload the nvidia modules and load them again")
            ->command = host_judge_in_container(j) ? NULL : "sudo reboot";
    } else if (n->versions_match.state == HOST_UNKNOWN) {
        host_judge_add(j, "version-unknown", HOST_YES,
                       arena_printf(j->arena,
                                    "no file shows whether libcuda matches the kernel module: %s",
                                    n->versions_match.why),
                       NULL);
    }
}

static void nvidia_fabric(struct judge *j)
{
    const struct host_nvidia *n = &j->h->nvidia;
    if (!host_gpu_is_bound(j->g, "nvidia") || n->nvswitch.number == 0 ||
        n->fabric_manager.state == HOST_YES) {
        return;
    }
    if (n->fabric_manager.state == HOST_UNKNOWN) {
        host_judge_add(
            j, "fabric-unknown", host_judge_in_container(j) ? HOST_YES : HOST_UNKNOWN,
            "it uses NVSwitch, but gpumend cannot see whether the fabric manager is running", NULL);
        return;
    }
    bool installed = n->fabric_installed.state == HOST_YES;
    host_judge_add(
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
    const struct host_library *lib = host_judge_library(n, "libcuda.so.1");
    const char *why = NULL;
    if (!host_gpu_is_bound(j->g, "nvidia") || !lib ||
        !host_compat_is(j->h, j->arena, lib->real, &n->libcuda_compat)) {
        return;
    }
    if (host_compat_fits(j->h, j->arena, lib->version, &n->libcuda_compat, &why) == HOST_NO) {
        host_judge_add(
            j, "forward-compatibility-wrong", HOST_NO,
            arena_printf(j->arena, "%s comes from a forward-compatibility package: %s", lib->real,
                         why),
            "remove its folder from the loader's path (LD_LIBRARY_PATH, /etc/ld.so.conf.d, then "
            "ldconfig), or remove the package cuda-compat")
            ->culprit = lib->real;
        return;
    }
    host_judge_add(
        j, "forward-compatibility", HOST_YES,
        arena_printf(j->arena, "libcuda comes from a forward-compatibility package: %s", lib->real),
        NULL);
}

/* WSL: the libraries stand in for the kernel module. */
static void wsl_state(struct judge *j)
{
    const struct host_wsl *w = &j->h->wsl;
    const struct host_library *first = host_judge_library(&j->h->nvidia, "libcuda.so.1");
    bool given = first && starts_with(first->real, "/usr/lib/wsl/"); // by the container toolkit
    if (w->dxg.state == HOST_NO && host_judge_in_container(j)) {
        host_judge_add(
            j, "not-injected", HOST_NO, "this container was not given it (no /dev/dxg)",
            "docker run --gpus all, or --device /dev/dxg -v /usr/lib/wsl:/usr/lib/wsl -e "
            "LD_LIBRARY_PATH=/usr/lib/wsl/lib");
    } else if (w->dxg.state == HOST_NO) {
        host_judge_add(
            j, "no-dxg", HOST_NO, "/dev/dxg is missing, through which WSL accesses the GPU",
            "use WSL 2 with its own kernel: wsl --update, then wsl --shutdown (in Windows)");
    } else if (w->dxg.state == HOST_UNKNOWN) {
        host_judge_add(j, "nodes-unknown", HOST_UNKNOWN,
                       "gpumend cannot tell whether /dev/dxg exists", NULL);
    }
    if (w->driver.state == HOST_NO) {
        host_judge_add(j, "no-windows-driver", HOST_NO,
                       "the Windows driver store contains no NVIDIA driver",
                       "install NVIDIA's driver in Windows");
    }
    if (host_judge_in_container(j) && w->dxg.state == HOST_YES &&
        (!(w->libcuda.path || given) || w->dxcore.state == HOST_NO)) {
        host_judge_add(
            j, "not-mounted", HOST_NO,
            w->dxcore.state == HOST_NO
                ? "this container has /dev/dxg but not libdxcore.so, through which WSL's libcuda "
                  "accesses the GPU"
                : "this container has /dev/dxg but not WSL's libcuda.so.1",
            "docker run --gpus all, or -v /usr/lib/wsl:/usr/lib/wsl -e "
            "LD_LIBRARY_PATH=/usr/lib/wsl/lib");
    } else if (!w->libcuda.path && !given) {
        host_judge_add(
            j, "no-libraries", HOST_NO, "libcuda.so.1 is missing from /usr/lib/wsl/lib",
            "wsl --shutdown (in Windows), and start again; install NVIDIA's driver in Windows");
    }
    if (w->shadows.n && first) {
        bool wins = !starts_with(first->real, "/usr/lib/wsl/");
        host_judge_add(j, "wsl-shadowed", wins ? HOST_NO : HOST_YES,
                       arena_printf(j->arena, "a Linux driver's libcuda (%s) %s",
                                    w->shadows.items[0],
                                    wins ? "is found before WSL's own, and finds no GPU there"
                                         : "is installed beside WSL's own, which is found first"),
                       "remove the Linux driver packages: WSL uses the Windows driver")
            ->culprit = w->shadows.items[0];
    }
    host_ask_all_rights(j);
    host_ask_visible(j);
}

/* That of the other kind of machine is named: people see it, and take it for theirs. */
static const char *lacking_libcuda(struct judge *j)
{
    const struct host_library *other = host_judge_library(&j->h->nvidia, "libcuda.so.1");
    return !other ? "libcuda.so.1 is not in the usual places"
                  : arena_printf(j->arena,
                                 "Jetson Linux's libcuda.so.1.1 is not in the usual places, and %s "
                                 "is the driver's for GPUs on PCI",
                                 other->real);
}

static void tegra_state(struct judge *j)
{
    if (j->g->driver.state == HOST_NO) {
        host_judge_add(j, "not-loaded", HOST_NO, "the module nvgpu is not loaded",
                       "sudo modprobe nvgpu");
    }
    if (j->g->nodes.n == 0) {
        bool inside = host_judge_in_container(j);
        host_judge_add(j, inside ? "not-injected" : "nodes-missing",
                       inside ? HOST_NO : HOST_UNKNOWN,
                       inside ? "this container was not given it (no device nodes)"
                              : "none of its device nodes was found",
                       inside ? "docker run --runtime nvidia" : NULL);
    }
    if (!host_own_libcuda(j->h)) {
        host_judge_add(j, "no-libraries", HOST_NO, lacking_libcuda(j),
                       host_judge_in_container(j) ? "docker run --runtime nvidia"
                                                  : "install the package nvidia-l4t-cuda");
    }
    host_ask_all_rights(j);
    host_ask_visible(j);
}

void host_judge_nvidia(struct host *h, struct arena *a, struct host_gpu *g)
{
    static question *const pci[] = {
        host_ask_passed_through, nvidia_driver, nvidia_not_loaded, nvidia_nodes,
        nvidia_majors,           nvidia_rights, nvidia_uvm,        nvidia_libraries,
        nvidia_fabric,           nvidia_compat, host_ask_visible};
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
