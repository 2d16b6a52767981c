/*
 * The specification of NVIDIA's GPUs on a bus. What it names is what nvidia-ctk writes
 * (nvidia-container-toolkit 1.19: pkg/nvcdi/driver-nvml.go and common-nvml.go,
 * internal/discover/graphics.go and ipc.go, internal/platform-support/dgpu/nvml.go, lib-imex.go),
 * each where it is on this host.
 */
#include "cdi/build.h"

#include <string.h>
#include <sys/mman.h>

#include "elf/image.h"

struct nvidia {
    struct cdi_builder *b;
    json_t *document, *edits;
    const struct host_library *cuda;
    struct cdi_place place;
    host_texts placed; // names of files
};

static const struct host_library *libcuda_of(const struct host *h)
{
    for (size_t i = 0; i < h->nvidia.libraries.n; i++) {
        const struct host_library *l = &h->nvidia.libraries.items[i];
        if (strcmp(l->name, "libcuda.so.1") == 0 && l->real) {
            return l;
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ libraries */

/* What draws pictures; programs that compute do not open it. */
static bool draws(const char *name)
{
    static const char *const stems[] = {"libGL",         "libEGL",        "libnvidia-gl",
                                        "libnvidia-egl", "libnvidia-tls", "libnvidia-fbc",
                                        "libnvidia-gtk"};
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++) {
        if (starts_with(name, stems[i])) {
            return true;
        }
    }
    return false;
}

/* Every library of the driver ends in its version; these have one of their own. */
static bool is_driver_file(const char *name, void *arg)
{
    static const char *const others[] = {
        "libnvidia-nvvm70.so.*",         "libnvidia-egl-gbm.so.*.*", "libnvidia-egl-wayland.so.*.*",
        "libnvidia-egl-wayland2.so.*.*", "libnvidia-egl-xcb.so.*.*", "libnvidia-egl-xlib.so.*.*"};
    const char *version = arg;
    bool found = starts_with(name, "lib") && strstr(name, ".so.") && ends_with(name, version);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        found |= str_glob(others[i], name);
    }
    return found;
}

/* The DT_SONAME of a library, or the name of its file. */
static const char *library_soname(struct cdi_builder *b, const char *real)
{
    const void *data = NULL;
    size_t size = 0;
    struct stat st;
    struct elf_image e;
    const char *name = NULL;
    if (root_map(b->root, real, &data, &size, &st) == 0 && size) {
        elf_image_parse(b->arena, data, size, &e);
        name = e.soname ? arena_strdup(b->arena, e.soname) : NULL;
        (void)munmap((void *)(uintptr_t)data, size); // our own mapping
    }
    return name && *name && !strchr(name, '/') ? name : path_base(real);
}

/* Second names that programs open and no soname gives (internal/discover/symlinks.go). */
static void place_aliases(struct nvidia *n, const char *path, const char *name)
{
    static const struct {
        const char *library, *target, *alias; // target NULL: the file itself
    } aliases[] = {
        {"libcuda.so.", "libcuda.so.1", "libcuda.so"},
        {"libnvidia-opticalflow.so.", "libnvidia-opticalflow.so.1", "libnvidia-opticalflow.so"},
        {"libGLX_nvidia.so.", NULL, "libGLX_indirect.so.0"},
        {"libnvidia-vulkan-producer.so.", NULL, "libnvidia-vulkan-producer.so"},
    };
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if (starts_with(name, aliases[i].library)) {
            cdi_place_link(&n->place, path, aliases[i].target ? aliases[i].target : name,
                           aliases[i].alias, !draws(name));
        }
    }
}

static void place_library(struct nvidia *n, const char *path, const char *name)
{
    for (size_t i = 0; i < n->placed.n; i++) {
        if (strcmp(n->placed.items[i], name) == 0) {
            return; // a folder before it has one
        }
    }
    const char *soname = library_soname(n->b, path);
    VEC_PUSH(n->b->arena, &n->placed, name);
    cdi_place_library(&n->place, path, name, !draws(name)); // the driver opens some by this name
    if (strcmp(soname, name) != 0) {
        cdi_place_link(&n->place, path, name, soname, !draws(name));
    }
    place_aliases(n, path, name);
    if (starts_with(name, "libnvidia-allocator.so.")) { // GBM opens it in the system's folder
        cdi_place_below(&n->place, path, "gbm/nvidia-drm_gbm.so");
    }
}

enum { FILES_MAX = 4096 };

static void place_folder(struct nvidia *n, const char *folder)
{
    struct root_dir files;
    if (root_list(n->b->root, n->b->arena, folder, FILES_MAX,
                  &(struct root_filter){is_driver_file, (void *)(uintptr_t)n->cuda->version},
                  &files) < 0) {
        return;
    }
    for (size_t i = 0; i < files.n; i++) {
        place_library(n, path_join(n->b->arena, folder, files.names[i]), files.names[i]);
    }
}

/* libvdpau opens it below the system's folder. */
static void place_vdpau(struct nvidia *n, const char *folder)
{
    const char *name = arena_printf(n->b->arena, "vdpau/libvdpau_nvidia.so.%s", n->cuda->version);
    const char *path = path_join(n->b->arena, folder, name);
    struct stat st;
    if (root_stat(n->b->root, path, &st) == 0) {
        cdi_place_below(&n->place, path, name);
        cdi_place_below(&n->place, path, "vdpau/libvdpau_nvidia.so.1");
    }
}

/* Debian's packages have those that are chosen by an alternative in a folder of their own, and the
 * others beside the links to it. */
static void place_libraries(struct nvidia *n)
{
    const char *folders[] = {path_dir(n->b->arena, n->cuda->real),
                             path_dir(n->b->arena, n->cuda->path)};
    for (size_t i = 0; i < 2; i++) {
        if (i == 0 || strcmp(folders[0], folders[1]) != 0) {
            place_folder(n, folders[i]);
            place_vdpau(n, folders[i]);
        }
    }
    if (n->placed.n == 0) {
        place_library(n, n->cuda->real, n->cuda->name);
    }
}

/* ------------------------------------------------------------------ other files */

/* Mounts the first of FOLDER/NAME that is here; `to` NULL: at its own path. */
static void mount_first(struct nvidia *n, const char *const *folders, size_t n_folders,
                        const char *name, const char *to)
{
    for (size_t i = 0; i < n_folders; i++) {
        const char *path = path_join(n->b->arena, folders[i], name);
        struct stat st;
        if (root_stat(n->b->root, path, &st) == 0 && S_ISREG(st.st_mode)) {
            cdi_add_mount(n->edits, path, to ? path_join(n->b->arena, to, name) : path);
            return;
        }
    }
}

#define N_OF(list) (sizeof(list) / sizeof *(list))

static void mount_programs(struct nvidia *n)
{
    static const char *const folders[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                          "/usr/bin",        "/sbin",          "/bin"};
    static const char *const names[] = {"nvidia-smi",
                                        "nvidia-debugdump",
                                        "nvidia-persistenced",
                                        "nvidia-cuda-mps-control",
                                        "nvidia-cuda-mps-server",
                                        "nvidia-imex",
                                        "nvidia-imex-ctl",
                                        "nvidia-xconfig"};
    for (size_t i = 0; i < N_OF(names); i++) {
        mount_first(n, folders, N_OF(folders), names[i], NULL);
    }
}

/* What tells the loaders of EGL, OpenCL, Vulkan and X of the driver. */
static void mount_configs(struct nvidia *n)
{
    static const char *const folders[] = {"/etc", "/usr/local/share", "/usr/share"};
    static const char *const share[] = {"glvnd/egl_vendor.d/10_nvidia.json",
                                        "egl/egl_external_platform.d/15_nvidia_gbm.json",
                                        "egl/egl_external_platform.d/10_nvidia_wayland.json",
                                        "egl/egl_external_platform.d/09_nvidia_wayland2.json",
                                        "egl/egl_external_platform.d/20_nvidia_xcb.json",
                                        "egl/egl_external_platform.d/20_nvidia_xlib.json",
                                        "nvidia/nvoptix.bin",
                                        "X11/xorg.conf.d/10-nvidia.conf",
                                        "X11/xorg.conf.d/nvidia-drm-outputclass.conf"};
    static const char *const etc[] = {
        "OpenCL/vendors/nvidia.icd",           "vulkan/icd.d/nvidia_icd.json",
        "vulkan/icd.d/nvidia_icd.x86_64.json", "vulkan/icd.d/nvidia_icd.aarch64.json",
        "vulkan/icd.d/nvidia_layers.json",     "vulkan/implicit_layer.d/nvidia_layers.json"};
    for (size_t i = 0; i < N_OF(share); i++) {
        mount_first(n, folders, N_OF(folders), share[i], "/usr/share");
    }
    for (size_t i = 0; i < N_OF(etc); i++) {
        mount_first(n, folders, N_OF(folders), etc[i], "/etc");
    }
}

/* The X server's modules, at their own paths, which its settings name. */
static void mount_xorg(struct nvidia *n)
{
    static const char *const below[] = {"nvidia/xorg", "xorg/modules/drivers",
                                        "xorg/modules/extensions", "xorg/modules/updates/drivers",
                                        "xorg/modules/updates/extensions"};
    const char *tops[] = {path_dir(n->b->arena, n->cuda->real),
                          path_dir(n->b->arena, n->cuda->path), "/usr/lib", "/usr/lib64"};
    const char *folders[N_OF(below) * N_OF(tops)];
    const char *glx = arena_printf(n->b->arena, "libglxserver_nvidia.so.%s", n->cuda->version);
    for (size_t i = 0; i < N_OF(folders); i++) {
        folders[i] = path_join(n->b->arena, tops[i / N_OF(below)], below[i % N_OF(below)]);
    }
    mount_first(n, folders, N_OF(folders), "nvidia_drv.so", NULL);
    for (size_t i = 0; i < N_OF(folders); i++) {
        const char *path = path_join(n->b->arena, folders[i], glx);
        struct stat st;
        if (root_stat(n->b->root, path, &st) == 0) {
            cdi_add_mount(n->edits, path, path);
            cdi_place_symlink(&n->place, path, glx,
                              path_join(n->b->arena, folders[i], "libglxserver_nvidia.so"));
            return;
        }
    }
}

static bool is_gsp(const char *name, void *arg)
{
    (void)arg;
    return str_glob("gsp*.bin", name);
}

/* Firmware of the GPUs' system processors, in the order of the kernel's search
 * (Documentation/driver-api/firmware/fw_search_path.rst). */
static void mount_firmware(struct nvidia *n)
{
    struct arena *a = n->b->arena;
    const struct host_fact *kernel = &n->b->host->kernel;
    const char *release =
        kernel->state == HOST_YES && !strchr(kernel->value, '/') ? kernel->value : "";
    struct str custom = {0};
    if (root_read(n->b->root, a, "/sys/module/firmware_class/parameters/path", FILES_MAX, &custom) <
        0) {
        custom = (struct str){0};
    }
    custom = str_trim(custom);
    const char *tops[] = {
        custom.n ? str_dup(a, custom) : NULL, arena_printf(a, "/lib/firmware/updates/%s", release),
        "/lib/firmware/updates", arena_printf(a, "/lib/firmware/%s", release), "/lib/firmware"};
    for (size_t i = 0; i < N_OF(tops); i++) {
        struct root_dir files = {0};
        const char *folder =
            tops[i] ? arena_printf(a, "%s/nvidia/%s", tops[i], n->cuda->version) : "";
        if (!*folder || root_list(n->b->root, a, folder, FILES_MAX,
                                  &(struct root_filter){.keep = is_gsp}, &files) < 0) {
            continue;
        }
        for (size_t k = 0; k < files.n; k++) {
            const char *path = path_join(a, folder, files.names[k]);
            cdi_add_mount(n->edits, path, path);
        }
        if (files.n) {
            return;
        }
    }
}

/* Where programs meet the daemons of the driver. */
static void mount_sockets(struct nvidia *n)
{
    static const char *const paths[] = {"/run/nvidia-persistenced/socket",
                                        "/run/nvidia-fabricmanager/socket", "/tmp/nvidia-mps"};
    for (size_t i = 0; i < N_OF(paths); i++) {
        struct stat st;
        if (root_stat(n->b->root, paths[i], &st) == 0) {
            cdi_add_socket(n->edits, paths[i]);
        }
    }
}

/* ------------------------------------------------------------------ devices */

/* Device nodes of a MIG instance: that of the GPU, and the capability of each of its two levels,
 * whose minor number is in the driver's file (Multi-Instance GPU User Guide). No nodes of /dev/dri:
 * an instance draws only where its profile has the attribute "gfx", and nvidia-ctk adds them for
 * these alone (nvidia-container-toolkit, internal/platform-support/dgpu/nvml.go:
 * newNvmlMigDiscoverer). The attribute is NVML's and in no file. */
static bool add_capability(struct cdi_builder *b, json_t *edits, const char *folder)
{
    enum { ACCESS_MAX = 4096 };
    struct str text;
    const char *path = path_join(b->arena, folder, "access");
    struct str line;
    uint64_t number;
    if (root_read(b->root, b->arena, path, ACCESS_MAX, &text) < 0) {
        return false;
    }
    while (str_line(&text, &line)) {
        struct str key = str_trim(str_cut(&line, ':'));
        if (str_is(key, "DeviceFileMinor") && str_u64(str_trim(line), &number)) {
            json_t *node = json_object();
            cdi_set(node, "path", json_sprintf("/dev/nvidia-caps/nvidia-cap%u", (unsigned)number));
            cdi_set(node, "permissions", json_string("r"));
            cdi_append(cdi_list(edits, "deviceNodes"), node);
            return true;
        }
    }
    return false;
}

static void add_mig(struct nvidia *n, const struct host_gpu *g, size_t index)
{
    struct cdi_builder *b = n->b;
    const char *folder = arena_printf(b->arena, "/proc/driver/nvidia/capabilities/gpu%u/mig",
                                      (unsigned)g->minor.number);
    for (size_t i = 0; i < g->mig.n; i++) {
        const char *instance = path_join(b->arena, folder, g->mig.items[i]);
        json_t *edits = cdi_add_device(n->document, arena_printf(b->arena, "%zu:%zu", index, i));
        cdi_add_nodes(edits, g->nodes.items, g->nodes.n, false);
        if (!add_capability(b, edits, path_dir(b->arena, instance)) ||
            !add_capability(b, edits, instance)) {
            json_t *devices = json_object_get(n->document, "devices");
            (void)json_array_remove(devices, json_array_size(devices) - 1); // it is there
            cdi_leave_out(b, g,
                          arena_printf(b->arena,
                                       "the capabilities of MIG instance %s cannot be read",
                                       g->mig.items[i]));
            continue;
        }
        cdi_place_nodes(&n->place, edits, g, true);
    }
}

static void add_gpu(struct nvidia *n, const struct host_gpu *g, size_t index)
{
    const char *names[] = {
        arena_printf(n->b->arena, "%zu", index),
        g->uuid.state == HOST_YES && str_glob("GPU-*", g->uuid.value) &&
                cdi_is_plain_path(arena_printf(n->b->arena, "/%s", g->uuid.value))
            ? g->uuid.value
            : NULL};
    for (size_t k = 0; k < 2 && names[k]; k++) {
        json_t *edits = cdi_add_device(n->document, names[k]);
        cdi_add_nodes(edits, g->nodes.items, g->nodes.n, false);
        cdi_add_nodes(edits, g->drawing.items, g->drawing.n, false);
        cdi_place_nodes(&n->place, edits, g, false);
    }
    add_mig(n, g, index);
}

/* What all of its devices have. */
static void add_common(struct nvidia *n)
{
    const struct host_nvidia *host = &n->b->host->nvidia;
    cdi_add_nodes(n->edits, host->nodes.items, host->nodes.n, false);
    cdi_add_nodes(n->edits, &host->modeset, 1, false);
    place_libraries(n);
    mount_xorg(n);
    mount_programs(n);
    mount_configs(n);
    mount_firmware(n);
    mount_sockets(n);
    cdi_place_end(&n->place);
    cdi_append(cdi_list(n->edits, "env"), json_string("NVIDIA_VISIBLE_DEVICES=void"));
}

/* Channels of memory that GPUs of several machines share: a class of its own, as with nvidia-ctk.
 */
static void build_imex(struct cdi_builder *b)
{
    const struct host_nvidia *n = &b->host->nvidia;
    json_t *document = cdi_new_document("nvidia.com/imex-channel");
    for (size_t i = 0; i < n->imex.n; i++) {
        const struct host_node *node = &n->imex.items[i];
        const char *number = path_base(node->path) + sizeof "channel" - 1;
        uint64_t value;
        if (str_u64(str_of(number), &value) && node->present.state == HOST_YES) {
            cdi_add_nodes(cdi_add_device(document, number), node, 1, false);
        }
    }
    cdi_finish(b, document, "gpumend-nvidia-imex.yaml", NULL);
}

void cdi_build_nvidia(struct cdi_builder *b)
{
    json_t *document = cdi_new_document("nvidia.com/gpu");
    struct nvidia n = {.b = b, .document = document, .cuda = libcuda_of(b->host)};
    size_t index = 0;
    n.edits = json_object_get(document, "containerEdits");
    cdi_place_begin(b, n.edits, &n.place);
    for (size_t i = 0; i < b->host->gpus.n; i++) {
        const struct host_gpu *g = &b->host->gpus.items[i];
        if (g->vendor != HOST_NVIDIA || strcmp(g->kind, "pci") != 0) {
            continue;
        }
        if (!n.cuda || !n.cuda->version) {
            cdi_leave_out(b, g,
                          "the driver's libcuda was not found, so that no container could use it");
        } else if (cdi_can_pass_on(b, g)) {
            add_gpu(&n, g, index++);
        }
    }
    if (index) {
        add_common(&n);
    }
    cdi_finish(b, document, "gpumend-nvidia.yaml",
               index ? arena_printf(b->arena, "driver %s", n.cuda->version) : NULL);
    build_imex(b);
}
