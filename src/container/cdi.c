#include "container/cdi.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "elf/image.h"

/* ------------------------------------------------------------------ building */

struct builder {
    struct root *root;
    struct arena *arena;
    const struct host *host;
    struct cdi_specs *specs;
};

static void set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) < 0) {
        abort(); // out of memory alone
    }
}

static json_t *list_of(json_t *object, const char *key)
{
    if (!json_object_get(object, key)) {
        set(object, key, json_array());
    }
    return json_object_get(object, key);
}

static void append(json_t *list, json_t *value)
{
    if (json_array_append_new(list, value) < 0) {
        abort();
    }
}

static void add_node(json_t *edits, const struct host_node *n, bool with_group)
{
    json_t *node = json_object();
    set(node, "path", json_string(n->path));
    if (with_group && n->gid) { // else what the engine reads from the node itself
        set(node, "gid", json_integer((json_int_t)n->gid));
    }
    append(list_of(edits, "deviceNodes"), node);
}

static void add_mount(json_t *edits, const char *from, const char *to)
{
    json_t *mount = json_object();
    set(mount, "hostPath", json_string(from));
    set(mount, "containerPath", json_string(to));
    set(mount, "options", json_pack("[s,s,s,s]", "ro", "nosuid", "nodev", "bind"));
    append(list_of(edits, "mounts"), mount);
}

/* The folders that the loaders of both families of distributions search without ld.so.cache. */
static void add_library(struct builder *b, json_t *edits, const char *real, const char *name)
{
    static const char *const folders[] = {
#if defined __x86_64__
        "/usr/lib/x86_64-linux-gnu",
#elif defined __aarch64__
        "/usr/lib/aarch64-linux-gnu",
#endif
        "/usr/lib64",
    };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        add_mount(edits, real, path_join(b->arena, folders[i], name));
    }
}

/* The DT_SONAME of a library, or the name of its file. */
static const char *soname_of(struct builder *b, const char *real)
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

static json_t *add_device(json_t *document, const char *name)
{
    json_t *device = json_object(), *edits = json_object();
    set(device, "name", json_string(name));
    set(device, "containerEdits", edits);
    append(json_object_get(document, "devices"), device);
    return edits;
}

static json_t *new_document(const char *kind)
{
    return json_pack("{s:s, s:s, s:[], s:{}}", "cdiVersion", "", "kind", kind, "devices",
                     "containerEdits");
}

/* The device "all" has the nodes of every other one. */
static void add_all(json_t *document)
{
    json_t *devices = json_object_get(document, "devices"), *device, *node;
    json_t *all = json_object();
    size_t i, k;
    json_array_foreach(devices, i, device)
    {
        json_t *nodes = json_object_get(json_object_get(device, "containerEdits"), "deviceNodes");
        json_array_foreach(nodes, k, node)
        {
            json_t *list = list_of(all, "deviceNodes"), *other;
            size_t n;
            bool is_there = false;
            json_array_foreach(list, n, other)
            {
                is_there |= json_equal(node, other);
            }
            if (!is_there) {
                append(list, json_deep_copy(node));
            }
        }
    }
    append(devices, json_pack("{s:s, s:o}", "name", "all", "containerEdits", all));
}

static void finish(struct builder *b, json_t *document, const char *file, const char *note)
{
    if (json_array_size(json_object_get(document, "devices")) == 0) {
        json_decref(document);
        return;
    }
    add_all(document);
    if (json_object_size(json_object_get(document, "containerEdits")) == 0) {
        (void)json_object_del(document, "containerEdits"); // it is there
    }
    set(document, "cdiVersion", json_string(cdi_lowest_version(b->arena, document)));
    VEC_PUSH(b->arena, &b->specs->specs,
             (struct cdi_spec){.kind = json_string_value(json_object_get(document, "kind")),
                               .file = file,
                               .document = document,
                               .note = note});
}

static void leave_out(struct builder *b, const struct host_gpu *g, const char *why)
{
    VEC_PUSH(b->arena, &b->specs->left_out,
             arena_printf(b->arena, "%s%s%s: %s", g->name, g->bdf ? " at " : "",
                          g->bdf ? g->bdf : "", why));
}

/* Whether the GPU can be passed on; what stands in the way of programs outside containers alone
 * (groups, variables of this shell) does not matter. */
static bool can_pass_on(struct builder *b, const struct host_gpu *g)
{
    bool any = false;
    for (size_t i = 0; i < g->nodes.n; i++) {
        any |= g->nodes.items[i].present.state == HOST_YES;
    }
    if (!any) {
        leave_out(b, g, g->problems.n ? g->problems.items[0].text : "it has no device node");
    }
    return any;
}

static void add_nodes(json_t *edits, const struct host_node *nodes, size_t n, bool with_group)
{
    for (size_t i = 0; i < n; i++) {
        if (nodes[i].present.state == HOST_YES) {
            add_node(edits, &nodes[i], with_group);
        }
    }
}

/* ------------------------------------------------------------------ NVIDIA */

/* Every library of the driver ends in its version; libnvidia-nvvm70 has its own. What draws
 * pictures is left out: it needs more than libraries, and programs that compute do not open it. */
static bool is_driver_file(const char *name, void *arg)
{
    static const char *const drawing[] = {"libGL",         "libEGL",        "libnvidia-gl",
                                          "libnvidia-egl", "libnvidia-tls", "libnvidia-fbc",
                                          "libnvidia-gtk"};
    for (size_t i = 0; i < sizeof drawing / sizeof *drawing; i++) {
        if (starts_with(name, drawing[i])) {
            return false;
        }
    }
    const char *version = arg;
    return (starts_with(name, "lib") && strstr(name, ".so.") && ends_with(name, version)) ||
           starts_with(name, "libnvidia-nvvm70.so.");
}

static void add_driver_libraries(struct builder *b, json_t *edits, const struct host_library *cuda)
{
    enum { FILES_MAX = 4096 };
    struct root_dir files;
    const char *folder = path_dir(b->arena, cuda->real);
    if (root_list(b->root, b->arena, folder, FILES_MAX, is_driver_file,
                  (void *)(uintptr_t)cuda->version, &files) < 0) {
        add_library(b, edits, cuda->real, cuda->name);
        return;
    }
    for (size_t i = 0; i < files.n; i++) {
        const char *path = path_join(b->arena, folder, files.names[i]);
        const char *soname = soname_of(b, path);
        add_library(b, edits, path, files.names[i]); // the driver opens some by their full name
        if (strcmp(soname, files.names[i]) != 0) {
            add_library(b, edits, path, soname);
        }
        if (strcmp(soname, "libcuda.so.1") == 0) {
            add_library(b, edits, path, "libcuda.so"); // programs that open it by this name
        }
    }
}

/* Device nodes of a MIG instance: those of the GPU, and the capability of each of its two levels,
 * whose minor number stands in the driver's file (Multi-Instance GPU User Guide). */
static bool add_capability(struct builder *b, json_t *edits, const char *folder)
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
            set(node, "path", json_sprintf("/dev/nvidia-caps/nvidia-cap%u", (unsigned)number));
            set(node, "permissions", json_string("r"));
            append(list_of(edits, "deviceNodes"), node);
            return true;
        }
    }
    return false;
}

static void add_mig(struct builder *b, json_t *document, const struct host_gpu *g, size_t index)
{
    const char *folder = arena_printf(b->arena, "/proc/driver/nvidia/capabilities/gpu%u/mig",
                                      (unsigned)g->minor.number);
    for (size_t i = 0; i < g->mig.n; i++) {
        const char *instance = path_join(b->arena, folder, g->mig.items[i]);
        json_t *edits = add_device(document, arena_printf(b->arena, "%zu:%zu", index, i));
        add_nodes(edits, g->nodes.items, g->nodes.n, false);
        if (!add_capability(b, edits, path_dir(b->arena, instance)) ||
            !add_capability(b, edits, instance)) {
            json_t *devices = json_object_get(document, "devices");
            (void)json_array_remove(devices, json_array_size(devices) - 1); // it is there
            leave_out(b, g,
                      arena_printf(b->arena,
                                   "the capabilities of MIG instance %s cannot be "
                                   "read",
                                   g->mig.items[i]));
        }
    }
}

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

static void add_if_there(struct builder *b, json_t *edits, const char *path)
{
    struct stat st;
    if (root_stat(b->root, path, &st) == 0) {
        add_mount(edits, path, path);
    }
}

static void build_nvidia(struct builder *b)
{
    const struct host_nvidia *n = &b->host->nvidia;
    const struct host_library *cuda = libcuda_of(b->host);
    json_t *document = new_document("nvidia.com/gpu");
    size_t index = 0;
    for (size_t i = 0; i < b->host->gpus.n; i++) {
        const struct host_gpu *g = &b->host->gpus.items[i];
        if (g->vendor != HOST_NVIDIA || strcmp(g->kind, "pci") != 0) {
            continue;
        }
        if (!cuda || !cuda->version) {
            leave_out(b, g,
                      "the driver's libcuda was not found, so that no container could use it");
        } else if (can_pass_on(b, g)) {
            const char *names[] = {arena_printf(b->arena, "%zu", index),
                                   g->uuid.state == HOST_YES ? g->uuid.value : NULL};
            for (size_t k = 0; k < 2 && names[k]; k++) {
                add_nodes(add_device(document, names[k]), g->nodes.items, g->nodes.n, false);
            }
            add_mig(b, document, g, index);
            index++;
        }
    }
    if (index) {
        json_t *edits = json_object_get(document, "containerEdits");
        add_nodes(edits, n->nodes.items, n->nodes.n, false);
        add_driver_libraries(b, edits, cuda);
        add_if_there(b, edits, "/usr/bin/nvidia-smi");
        add_if_there(b, edits, "/run/nvidia-persistenced/socket");
        append(list_of(edits, "env"), json_string("NVIDIA_VISIBLE_DEVICES=void"));
    }
    finish(b, document, "gpumend-nvidia.yaml",
           cuda && cuda->version ? arena_printf(b->arena, "driver %s", cuda->version) : NULL);
}

/* ------------------------------------------------------------------ WSL, AMD, Intel */

static void build_wsl(struct builder *b)
{
    static const char drivers[] = "/usr/lib/wsl/drivers"; // Windows' driver store
    const struct host_wsl *w = &b->host->wsl;
    enum { FILES_MAX = 4096 };
    struct root_dir files;
    if (w->is_wsl.state != HOST_YES || w->dxg.state != HOST_YES || !w->libcuda.real ||
        w->driver.state != HOST_YES) {
        return;
    }
    json_t *document = new_document("nvidia.com/gpu");
    struct host_node dxg = {.path = "/dev/dxg", .present = {.state = HOST_YES}};
    add_node(add_device(document, "0"), &dxg, false);
    json_t *edits = json_object_get(document, "containerEdits");
    add_mount(edits, drivers, drivers);
    const char *folder = path_dir(b->arena, w->libcuda.path);
    if (root_list(b->root, b->arena, folder, FILES_MAX, NULL, NULL, &files) == 0) {
        for (size_t i = 0; i < files.n; i++) {
            if (starts_with(files.names[i], "lib") && strstr(files.names[i], ".so")) {
                add_library(b, edits, path_join(b->arena, folder, files.names[i]), files.names[i]);
            }
        }
    }
    finish(b, document, "gpumend-nvidia.yaml", NULL);
}

static void build_by_nodes(struct builder *b, enum host_vendor vendor, const char *kind,
                           const char *file)
{
    json_t *document = new_document(kind);
    size_t index = 0;
    for (size_t i = 0; i < b->host->gpus.n; i++) {
        const struct host_gpu *g = &b->host->gpus.items[i];
        if (g->vendor == vendor && can_pass_on(b, g)) {
            const char *name = arena_printf(b->arena, "%zu", index++);
            add_nodes(add_device(document, name), g->nodes.items, g->nodes.n, true);
        }
    }
    if (index && vendor == HOST_AMD && b->host->amd.kfd_node.present.state == HOST_YES) {
        add_node(json_object_get(document, "containerEdits"), &b->host->amd.kfd_node, true);
    }
    finish(b, document, file, NULL);
}

void cdi_build(struct root *r, struct arena *a, const struct host *h, struct cdi_specs *ret)
{
    struct builder b = {r, a, h, ret};
    *ret = (struct cdi_specs){0};
    build_nvidia(&b);
    build_wsl(&b);
    build_by_nodes(&b, HOST_AMD, "amd.com/gpu", "gpumend-amd.yaml");
    build_by_nodes(&b, HOST_INTEL, "intel.com/gpu", "gpumend-intel.yaml");
}

void cdi_specs_release(struct cdi_specs *s)
{
    for (size_t i = 0; i < s->specs.n; i++) {
        json_decref(s->specs.items[i].document);
    }
    s->specs.n = 0;
}
