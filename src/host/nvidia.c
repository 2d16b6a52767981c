/*
 * The NVIDIA driver by its files: /proc/driver/nvidia (kernel-open/nvidia/nv-procfs.c of
 * open-gpu-kernel-modules), /sys/module, device nodes (nvidia-modprobe), capabilities and MIG
 * (NVIDIA Multi-Instance GPU User Guide, "Device Nodes and Capabilities"), the user-space
 * libraries, whose file names end in the driver's version, and the daemons' files under /run.
 */
#include "host/internal.h"
#include "host/names.h"

#include <errno.h>
#include <string.h>

static const char proc[] = "/proc/driver/nvidia";

/* ------------------------------------------------------------------ the module */

static void read_module(struct host_look *l)
{
    struct host_nvidia *n = &l->host->nvidia;
    struct str text, version;
    bool open;
    n->module = host_presence(l, "/sys/module/nvidia", "/sys/module");
    if (n->module.state == HOST_YES) {
        struct host_fact stated = host_text_fact(l, "/sys/module/nvidia/version", "/sys/module");
        n->module.value = stated.state == HOST_YES ? stated.value : NULL;
    }
    int rc = host_read(l, "/proc/driver/nvidia/version", &text);
    if (rc == 0 && host_parse_nvrm(text, &version, &open)) {
        n->flavour = host_yes("/proc/driver/nvidia/version", open ? "open" : "proprietary");
        if (!n->module.value) {
            n->module = host_yes("/proc/driver/nvidia/version", str_dup(l->arena, version));
        }
    } else {
        n->flavour = host_unknown("/proc/driver/nvidia/version",
                                  rc < 0 ? host_why(l, rc) : "its text is not known");
    }
    n->uvm = host_presence(l, "/sys/module/nvidia_uvm", "/sys/module");
    if (host_read(l, "/proc/driver/nvidia/params", &text) == 0 &&
        host_parse_key(text, "ModifyDeviceFiles", ':', &version)) {
        n->modify_nodes = str_is(version, "0") ? host_no("/proc/driver/nvidia/params", "it is 0")
                                               : host_yes("/proc/driver/nvidia/params", NULL);
    } else {
        n->modify_nodes = host_unknown("/proc/driver/nvidia/params", "it cannot be read");
    }
}

/* The driver's name in /proc/devices was nvidia-frontend until release 550. */
static struct host_fact nvidia_major(struct host_look *l, const char *name, const char *older)
{
    static const char path[] = "/proc/devices";
    uint32_t number;
    if (!l->devices.s) {
        return host_unknown(path, "it cannot be read");
    }
    return host_parse_major(l->devices, name, &number) ||
                   (older && host_parse_major(l->devices, older, &number))
               ? host_amount(path, number)
               : host_no(path, arena_printf(l->arena, "it does not list %s", name));
}

/* modules.dep of the running kernel, depmod(8): "path: dependencies". */
static struct host_fact module_on_disk(struct host_look *l)
{
    enum { MODULES_DEP_MAX = 8 << 20 };
    const struct host_fact *kernel = &l->host->kernel;
    if (kernel->state != HOST_YES || strchr(kernel->value, '/')) {
        return host_unknown(NULL, "the running kernel is not known");
    }
    const char *path = arena_printf(l->arena, "/lib/modules/%s/modules.dep", kernel->value);
    struct str text, line;
    int rc = root_read(l->root, l->arena, path, MODULES_DEP_MAX, &text);
    if (rc < 0) {
        return host_unknown(path, host_why(l, rc));
    }
    while (str_line(&text, &line)) {
        struct str module = str_cut(&line, ':');
        bool found = str_find(module, "/nvidia.ko") < module.n;
        // Debian's names, of the proprietary and of the open one.
        found = found || str_find(module, "/nvidia-current.ko") < module.n ||
                str_find(module, "/nvidia-current-open.ko") < module.n;
        if (found) {
            return host_yes(path, str_dup(l->arena, module));
        }
    }
    return host_no(path, "no module called nvidia was built for this kernel");
}

/* ------------------------------------------------------------------ GPUs */

/* The minor number is in the driver's file (NVIDIA Multi-Instance GPU User Guide, "Device Nodes and
 * Capabilities"). */
static const char *mig_capability(struct host_look *l, const char *folder)
{
    enum { ACCESS_MAX = 4096 };
    struct str text, value;
    uint64_t number;
    const char *path = path_join(l->arena, folder, "access");
    bool known = root_read(l->root, l->arena, path, ACCESS_MAX, &text) == 0 &&
                 host_parse_key(text, "DeviceFileMinor", ':', &value) && str_u64(value, &number) &&
                 number < 1U << 20; // Linux: MINORBITS
    return known ? arena_printf(l->arena, "/dev/nvidia-caps/nvidia-cap%u", (unsigned)number) : NULL;
}

static void read_mig(struct host_look *l, struct host_gpu *g)
{
    const char *mig =
        arena_printf(l->arena, "%s/capabilities/gpu%u/mig", proc, (unsigned)g->minor.number);
    struct root_dir instances = host_entries(l, mig, "gi[0-9]*");
    for (size_t i = 0; i < instances.n; i++) {
        const char *folder = path_join(l->arena, mig, instances.names[i]);
        struct root_dir parts = host_entries(l, folder, "ci[0-9]*");
        for (size_t k = 0; k < parts.n; k++) {
            VEC_PUSH(l->arena, &g->mig,
                     arena_printf(l->arena, "%s/%s", instances.names[i], parts.names[k]));
            const struct host_mig_caps caps = {
                .gpu_instance = mig_capability(l, folder),
                .compute_instance = mig_capability(l, path_join(l->arena, folder, parts.names[k]))};
            VEC_PUSH(l->arena, &g->mig_caps, caps);
        }
    }
}

static struct host_fact key_fact(struct host_look *l, const char *path, struct str text,
                                 const char *key)
{
    struct str value;
    return host_parse_key(text, key, ':', &value) && value.n
               ? host_yes(path, str_dup(l->arena, value))
               : host_unknown(path, arena_printf(l->arena, "it has no line %s", key));
}

static void nvidia_add_node(struct host_look *l, struct host_gpu *g, const char *path)
{
    struct host_node node = host_node_at(l, path);
    VEC_PUSH(l->arena, &g->nodes, node);
}

/* Linux, drivers/gpu/drm/drm_sysfs.c: the minors of a device are folders of its own. */
static void read_drawing(struct host_look *l, struct host_gpu *g)
{
    static const char *const patterns[] = {"card[0-9]*", "renderD[0-9]*"};
    const char *folder = arena_printf(l->arena, "/sys/bus/pci/devices/%s/drm", g->bdf);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct root_dir minors = host_entries(l, folder, patterns[i]);
        for (size_t k = 0; k < minors.n; k++) {
            const char *path = path_join(l->arena, "/dev/dri", minors.names[k]);
            VEC_PUSH(l->arena, &g->drawing, host_node_at(l, path));
        }
    }
}

/* The driver's own name is the more exact one, and known for GPUs that no table has. */
static void take_model(struct host_look *l, struct host_gpu *g)
{
    const char *model = g->model.value;
    const struct host_nvidia_chip *chip = host_nvidia_model(model);
    unsigned gib = host_model_gib(model);
    g->name = starts_with(model, "NVIDIA") ? model : arena_printf(l->arena, "NVIDIA %s", model);
    g->model_memory_gib = gib ? gib : g->model_memory_gib;
    if (chip && g->compute_capability.state != HOST_YES) {
        g->architecture = host_yes(g->model.where, chip->architecture);
        g->compute_capability = host_yes(g->model.where, chip->capability);
    }
}

static void nvidia_read_gpu(struct host_look *l, struct host_gpu *g)
{
    const char *path = arena_printf(l->arena, "%s/gpus/%s/information", proc, g->bdf);
    struct str text;
    int rc = host_read(l, path, &text);
    if (rc < 0) {
        g->minor = g->uuid = g->model = host_unknown(path, host_why(l, rc));
        return;
    }
    g->model = key_fact(l, path, text, "Model");
    if (g->model.state == HOST_YES) {
        take_model(l, g);
    }
    g->uuid = key_fact(l, path, text, "GPU UUID");
    if (g->uuid.state == HOST_YES && strchr(g->uuid.value, '?')) {
        g->uuid = host_unknown(path, "the GPU has not been used since the driver was loaded");
    }
    g->minor = key_fact(l, path, text, "Device Minor");
    struct str minor = g->minor.state == HOST_YES ? str_of(g->minor.value) : STR("");
    if (!str_u64(minor, &g->minor.number) || g->minor.number > UINT16_MAX) {
        g->minor = host_unknown(path, "it states no minor number");
        return;
    }
    nvidia_add_node(l, g, arena_printf(l->arena, "/dev/nvidia%u", (unsigned)g->minor.number));
    read_mig(l, g);
    struct str excluded;
    if (host_parse_key(text, "GPU Excluded", ':', &excluded) && str_is(excluded, "Yes")) {
        VEC_PUSH(l->arena, &g->problems,
                 (struct host_problem){
                     .id = "excluded",
                     .text = "the driver is configured to exclude this GPU (GPU Excluded)",
                     .step = "remove it from NVreg_ExcludedGpus of the nvidia module, then reload "
                             "the module",
                     .state = HOST_NO});
    }
}

/* Containers mask /proc/driver/nvidia: the nodes that are there are matched in order of the bus
 * only where there are as many of them as GPUs. */
static void match_nodes(struct host_look *l)
{
    host_texts nodes = host_nodes_in(l, "/dev", "nvidia[0-9]*");
    size_t open = 0;
    struct host *h = l->host;
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        open += g->vendor == HOST_NVIDIA && g->nodes.n == 0 && g->driver.state == HOST_YES &&
                strcmp(g->driver.value, "nvidia") == 0;
    }
    if (open != nodes.n) {
        return;
    }
    size_t next = 0;
    for (size_t i = 0; i < h->gpus.n; i++) {
        struct host_gpu *g = &h->gpus.items[i];
        if (g->vendor == HOST_NVIDIA && g->nodes.n == 0 && g->driver.state == HOST_YES &&
            strcmp(g->driver.value, "nvidia") == 0) {
            nvidia_add_node(l, g, nodes.items[next++]);
        }
    }
}

/* ------------------------------------------------------------------ libraries */

static void read_libraries(struct host_look *l)
{
    static const char *const names[] = {"libcuda.so.1", "libnvidia-ml.so.1",
                                        "libnvidia-ptxjitcompiler.so.1", "libnvidia-nvvm.so.4"};
    struct host_nvidia *n = &l->host->nvidia;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct host_libraries libs;
        host_find_library(l, names[i], &libs);
        for (size_t k = 0; k < libs.found.n; k++) {
            if (k == 0) {
                VEC_PUSH(l->arena, &n->libraries, libs.found.items[0]);
            } else if (i == 0) {
                VEC_PUSH(l->arena, &n->shadowed, libs.found.items[k]);
            }
        }
    }
}

static bool is_compat_known(const struct host_nvidia *n, const char *real)
{
    for (size_t i = 0; i < n->compat.n; i++) {
        if (strcmp(n->compat.items[i].real, real) == 0) {
            return true;
        }
    }
    return false;
}

/* "cuda" and "cuda-12" are links to the toolkit's own folder: each file counts once. */
static void read_compat(struct host_look *l)
{
    struct root_dir toolkits = host_entries(l, "/usr/local", "cuda*");
    for (size_t i = 0; i < toolkits.n; i++) {
        const char *folder = arena_printf(l->arena, "/usr/local/%s/compat", toolkits.names[i]);
        struct root_dir files = host_entries(l, folder, "libcuda.so.[0-9]*.*");
        for (size_t k = 0; k < files.n; k++) {
            struct host_library lib = {.name = "libcuda.so.1",
                                       .path = path_join(l->arena, folder, files.names[k])};
            struct str version;
            char *real;
            if (root_realpath(l->root, l->arena, lib.path, &real) == 0 &&
                host_parse_so_version(str_of(path_base(real)), &version) &&
                !is_compat_known(&l->host->nvidia, real)) {
                lib.real = real;
                lib.version = str_dup(l->arena, version);
                VEC_PUSH(l->arena, &l->host->nvidia.compat, lib);
            }
        }
    }
}

static const struct host_library *library(const struct host_nvidia *n, const char *name)
{
    for (size_t i = 0; i < n->libraries.n; i++) {
        if (strcmp(n->libraries.items[i].name, name) == 0) {
            return &n->libraries.items[i];
        }
    }
    return NULL;
}

static struct host_fact versions_match(struct host_look *l)
{
    const struct host_nvidia *n = &l->host->nvidia;
    const struct host_library *cuda = library(n, "libcuda.so.1");
    if (!cuda) {
        return host_unknown(NULL, "libcuda.so.1 was not found");
    }
    if (!cuda->version) {
        return host_unknown(cuda->real, "the name of the file states no version");
    }
    if (n->module.state != HOST_YES || !n->module.value) {
        return host_unknown("/sys/module/nvidia/version", "the module's version is not known");
    }
    if (strcmp(cuda->version, "1.1") == 0) { // of Jetson Linux and of WSL
        return host_unknown(cuda->real, "the name of the file states no release");
    }
    struct host_fact fact = host_yes(cuda->real, cuda->version);
    if (strcmp(cuda->version, n->module.value) != 0) {
        fact = host_no(cuda->real, arena_printf(l->arena, "libcuda is %s, the kernel module %s",
                                                cuda->version, n->module.value));
        fact.value = cuda->version;
    }
    return fact;
}

/* ------------------------------------------------------------------ daemons */

/* Whether a process of this name runs. comm is cut at 15 bytes (proc(5)). */
static struct host_fact runs(struct host_look *l, const char *comm)
{
    enum { PROCESSES_MAX = 65536 };
    struct root_dir dir;
    struct str text;
    if (l->host->container.inside.state != HOST_NO || host_read(l, "/proc/1/comm", &text) < 0) {
        return host_unknown("/proc", "the processes of the host cannot be seen");
    }
    int rc = root_list(l->root, l->arena, "/proc", PROCESSES_MAX, NULL, &dir);
    if (rc < 0 || dir.truncated) {
        return host_unknown("/proc", rc < 0 ? host_why(l, rc) : "there are too many processes");
    }
    for (size_t i = 0; i < dir.n; i++) {
        uint64_t pid;
        const char *path = arena_printf(l->arena, "/proc/%s/comm", dir.names[i]);
        if (str_u64(str_of(dir.names[i]), &pid) && host_read(l, path, &text) == 0 &&
            str_is(str_trim(text), comm)) {
            return host_yes(path, NULL);
        }
    }
    return host_no("/proc", arena_printf(l->arena, "no process is called %s", comm));
}

/* The unit file or the binary of the fabric manager's packages. */
static struct host_fact fabric_installed(struct host_look *l)
{
    static const char *const places[] = {"/usr/bin/nv-fabricmanager",
                                         "/usr/lib/systemd/system/nvidia-fabricmanager.service",
                                         "/lib/systemd/system/nvidia-fabricmanager.service"};
    struct host_fact fact = {0};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        fact = host_presence(l, places[i], "/usr");
        if (fact.state != HOST_NO) {
            return fact;
        }
    }
    return fact;
}

static void read_daemons(struct host_look *l)
{
    struct host_nvidia *n = &l->host->nvidia;
    if (n->module.state == HOST_YES) {
        n->persistence = runs(l, "nvidia-persiste");
    }
    if (n->nvswitch.number) {
        n->fabric_manager = runs(l, "nv-fabricmanage");
        n->fabric_installed = fabric_installed(l);
    }
}

void host_collect_nvidia(struct host_look *l)
{
    struct host *h = l->host;
    struct host_nvidia *n = &h->nvidia;
    static const char *const nodes[] = {"/dev/nvidiactl", "/dev/nvidia-uvm",
                                        "/dev/nvidia-uvm-tools"};
    read_module(l);
    n->module_on_disk = module_on_disk(l);
    n->major = nvidia_major(l, "nvidia", "nvidia-frontend");
    n->uvm_major = nvidia_major(l, "nvidia-uvm", NULL);
    n->modprobe = host_presence(l, "/usr/bin/nvidia-modprobe", "/usr/bin");
    n->persistence = host_unknown(NULL, "the driver is not loaded");
    n->fabric_manager = n->fabric_installed = host_unknown(NULL, "there is no NVSwitch");
    for (size_t i = 0; i < h->gpus.n; i++) {
        if (h->gpus.items[i].vendor == HOST_NVIDIA) {
            nvidia_read_gpu(l, &h->gpus.items[i]);
            read_drawing(l, &h->gpus.items[i]);
        }
    }
    match_nodes(l);
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        VEC_PUSH(l->arena, &n->nodes, host_node_at(l, nodes[i]));
    }
    n->modeset = host_node_at(l, "/dev/nvidia-modeset");
    host_texts caps = host_nodes_in(l, "/dev/nvidia-caps", "nvidia-cap[0-9]*");
    for (size_t i = 0; i < caps.n; i++) {
        VEC_PUSH(l->arena, &n->cap_nodes, host_node_at(l, caps.items[i]));
    }
    host_texts imex = host_nodes_in(l, "/dev/nvidia-caps-imex-channels", "channel[0-9]*");
    for (size_t i = 0; i < imex.n; i++) {
        VEC_PUSH(l->arena, &n->imex, host_node_at(l, imex.items[i]));
    }
    read_libraries(l);
    const struct host_library *cuda = library(n, "libcuda.so.1");
    if (cuda) {
        host_compat_read(l->root, l->arena, cuda->real, &n->libcuda_compat);
    }
    read_compat(l);
    host_collect_unloaded(l); // by the release of the libraries
    n->versions_match = versions_match(l);
    read_daemons(l);
}
