#include "cdi/cdi.h"

#include <stdlib.h>
#include <string.h>

#include "cdi/build.h"

/* "FROM:TO" is split at colons and commas, and what a DT_NEEDED says is anything. */
static bool is_plain(const char *text, bool slashes)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-/";
    enum { LENGTH_MAX = 4095 };
    size_t n = strspn(text, plain);
    bool starts = slashes ? *text == '/' : str_is_letter(*text);
    return starts && !text[n] && n <= LENGTH_MAX && (slashes || !strchr(text, '/'));
}

bool cdi_is_plain_path(const char *path)
{
    return is_plain(path, true);
}

bool cdi_is_plain_name(const char *name)
{
    return is_plain(name, false);
}

/* ------------------------------------------------------------------ building */

/* Jansson makes no value of a text that is not UTF-8: a tree's file may state such a thing. */
void cdi_set(json_t *object, const char *key, json_t *value)
{
    if (value && json_object_set_new(object, key, value) < 0) {
        abort(); // out of memory alone
    }
}

json_t *cdi_list(json_t *object, const char *key)
{
    if (!json_object_get(object, key)) {
        cdi_set(object, key, json_array());
    }
    return json_object_get(object, key);
}

void cdi_append(json_t *list, json_t *value)
{
    if (value && json_array_append_new(list, value) < 0) {
        abort();
    }
}

static void add_node(json_t *edits, const struct host_node *n, bool with_group)
{
    json_t *node = json_object();
    cdi_set(node, "path", json_string(n->path));
    if (with_group && n->gid) { // else what the engine reads from the node itself
        cdi_set(node, "gid", json_integer((json_int_t)n->gid));
    }
    cdi_append(cdi_list(edits, "deviceNodes"), node);
}

static void add_mount(json_t *edits, const char *from, const char *to, json_t *options)
{
    json_t *mount = json_object();
    if (!cdi_is_plain_path(from) || !cdi_is_plain_path(to)) {
        json_decref(mount);
        json_decref(options);
        return;
    }
    cdi_set(mount, "hostPath", json_string(from));
    cdi_set(mount, "containerPath", json_string(to));
    cdi_set(mount, "options", options);
    cdi_append(cdi_list(edits, "mounts"), mount);
}

void cdi_add_mount(json_t *edits, const char *from, const char *to)
{
    add_mount(edits, from, to, json_pack("[s,s,s,s]", "ro", "nosuid", "nodev", "bind"));
}

void cdi_add_socket(json_t *edits, const char *path)
{
    add_mount(edits, path, path, json_pack("[s,s,s,s]", "nosuid", "nodev", "noexec", "bind"));
}

json_t *cdi_add_device(json_t *document, const char *name)
{
    json_t *device = json_object(), *edits = json_object();
    cdi_set(device, "name", json_string(name));
    cdi_set(device, "containerEdits", edits);
    cdi_append(json_object_get(document, "devices"), device);
    return edits;
}

json_t *cdi_new_document(const char *kind)
{
    return json_pack("{s:s, s:s, s:[], s:{}}", "cdiVersion", "", "kind", kind, "devices",
                     "containerEdits");
}

/* Adds those that the list does not have. */
static void merge(json_t *into, const char *key, const json_t *from)
{
    json_t *item, *other;
    size_t i, k;
    json_array_foreach(json_object_get(from, key), i, item)
    {
        bool is_there = false;
        json_array_foreach(cdi_list(into, key), k, other)
        {
            is_there |= json_equal(item, other);
        }
        if (!is_there) {
            cdi_append(cdi_list(into, key), json_deep_copy(item));
        }
    }
}

/* The device "all" has the nodes of every other one, and what its hooks do. */
static void add_all(json_t *document)
{
    json_t *devices = json_object_get(document, "devices"), *device;
    json_t *all = json_object();
    size_t i;
    json_array_foreach(devices, i, device)
    {
        const json_t *edits = json_object_get(device, "containerEdits");
        merge(all, "deviceNodes", edits);
        merge(all, "hooks", edits);
    }
    cdi_append(devices, json_pack("{s:s, s:o}", "name", "all", "containerEdits", all));
}

void cdi_finish(struct cdi_builder *b, json_t *document, const char *file, const char *note)
{
    if (json_array_size(json_object_get(document, "devices")) == 0) {
        json_decref(document);
        return;
    }
    add_all(document);
    if (json_object_size(json_object_get(document, "containerEdits")) == 0) {
        (void)json_object_del(document, "containerEdits"); // it is there
    }
    cdi_set(document, "cdiVersion", json_string(cdi_lowest_version(b->arena, document)));
    VEC_PUSH(b->arena, &b->specs->specs,
             (struct cdi_spec){.kind = json_string_value(json_object_get(document, "kind")),
                               .file = file,
                               .document = document,
                               .note = note});
}

void cdi_leave_out(struct cdi_builder *b, const struct host_gpu *g, const char *why)
{
    VEC_PUSH(b->arena, &b->specs->left_out,
             arena_printf(b->arena, "%s%s%s: %s", g->name, g->bdf ? " at " : "",
                          g->bdf ? g->bdf : "", why));
}

/* A problem of programs outside containers alone (groups, variables of this shell) does not keep the GPU
 * from being passed on. */
bool cdi_can_pass_on(struct cdi_builder *b, const struct host_gpu *g)
{
    bool any = false;
    for (size_t i = 0; i < g->nodes.n; i++) {
        any |= g->nodes.items[i].present.state == HOST_YES;
    }
    if (!any) {
        cdi_leave_out(b, g, g->problems.n ? g->problems.items[0].text : "it has no device node");
    }
    return any;
}

void cdi_add_nodes(json_t *edits, const struct host_node *nodes, size_t n, bool with_group)
{
    for (size_t i = 0; i < n; i++) {
        if (nodes[i].present.state == HOST_YES) {
            add_node(edits, &nodes[i], with_group);
        }
    }
}

/* ------------------------------------------------------------------ WSL, AMD, Intel */

static void place_wsl_libraries(struct cdi_builder *b, struct cdi_place *p, const char *folder)
{
    enum { FILES_MAX = 4096 };
    struct root_dir files;
    if (root_list(b->root, b->arena, folder, FILES_MAX, NULL, NULL, &files) < 0) {
        return;
    }
    for (size_t i = 0; i < files.n; i++) {
        const char *path = path_join(b->arena, folder, files.names[i]);
        if (starts_with(files.names[i], "lib") && strstr(files.names[i], ".so")) {
            cdi_place_library(p, path, files.names[i], true);
        } else if (strcmp(files.names[i], "nvidia-smi") == 0) {
            cdi_add_mount(p->edits, path, "/usr/bin/nvidia-smi");
        }
    }
}

static void build_wsl(struct cdi_builder *b)
{
    static const char drivers[] = "/usr/lib/wsl/drivers"; // Windows' driver store
    const struct host_wsl *w = &b->host->wsl;
    struct cdi_place place;
    if (w->is_wsl.state != HOST_YES || w->dxg.state != HOST_YES || !w->libcuda.real ||
        w->driver.state != HOST_YES) {
        return;
    }
    json_t *document = cdi_new_document("nvidia.com/gpu");
    struct host_node dxg = {.path = "/dev/dxg", .present = {.state = HOST_YES}};
    add_node(cdi_add_device(document, "0"), &dxg, false);
    json_t *edits = json_object_get(document, "containerEdits");
    cdi_add_mount(edits, drivers, drivers);
    cdi_place_begin(b, edits, &place);
    place_wsl_libraries(b, &place, path_dir(b->arena, w->libcuda.path));
    cdi_place_end(&place);
    cdi_finish(b, document, "gpumend-nvidia.yaml", NULL);
}

static void build_by_nodes(struct cdi_builder *b, enum host_vendor vendor, const char *kind,
                           const char *file)
{
    json_t *document = cdi_new_document(kind);
    size_t index = 0;
    for (size_t i = 0; i < b->host->gpus.n; i++) {
        const struct host_gpu *g = &b->host->gpus.items[i];
        if (g->vendor == vendor && cdi_can_pass_on(b, g)) {
            const char *name = arena_printf(b->arena, "%zu", index++);
            cdi_add_nodes(cdi_add_device(document, name), g->nodes.items, g->nodes.n, true);
        }
    }
    if (index && vendor == HOST_AMD && b->host->amd.kfd_node.present.state == HOST_YES) {
        add_node(json_object_get(document, "containerEdits"), &b->host->amd.kfd_node, true);
    }
    cdi_finish(b, document, file, NULL);
}

void cdi_build(struct root *r, struct arena *a, const struct host *h, enum cdi_way way,
               struct cdi_specs *ret)
{
    struct cdi_builder b = {r, a, h, way, ret};
    *ret = (struct cdi_specs){0};
    cdi_build_nvidia(&b);
    cdi_build_tegra(&b);
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
