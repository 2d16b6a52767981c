/* The documents of CDI specifications, and what gets into them. */
#include "base/json.h"
#include "cdi/build.h"

#include <stdlib.h>
#include <string.h>

/* "FROM:TO" is split at colons and commas, and what a DT_NEEDED says is anything. */
static bool yaml_is_plain(const char *text, bool slashes)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-/";
    enum { LENGTH_MAX = 4095 };
    size_t n = strspn(text, plain);
    bool starts = slashes ? *text == '/' : str_is_letter(*text);
    return starts && !text[n] && n <= LENGTH_MAX && (slashes || !strchr(text, '/'));
}

bool cdi_is_plain_path(const char *path)
{
    return yaml_is_plain(path, true);
}

bool cdi_is_plain_name(const char *name)
{
    return yaml_is_plain(name, false);
}

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

static void edits_add_node(json_t *edits, const struct host_node *n, bool with_group)
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
static void edits_merge(json_t *into, const char *key, const json_t *from)
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
static void document_add_all(json_t *document)
{
    json_t *devices = json_object_get(document, "devices"), *device;
    json_t *all = json_object();
    size_t i;
    json_array_foreach(devices, i, device)
    {
        const json_t *edits = json_object_get(device, "containerEdits");
        edits_merge(all, "deviceNodes", edits);
        edits_merge(all, "hooks", edits);
    }
    cdi_append(devices, json_pack("{s:s, s:o}", "name", "all", "containerEdits", all));
}

void cdi_finish(struct cdi_builder *b, json_t *document, const char *file, const char *note)
{
    if (json_array_size(json_object_get(document, "devices")) == 0) {
        json_decref(document);
        return;
    }
    document_add_all(document);
    if (json_object_size(json_object_get(document, "containerEdits")) == 0) {
        (void)json_object_del(document, "containerEdits"); // it is there
    }
    cdi_set(document, "cdiVersion", json_string(cdi_lowest_version(b->arena, document)));
    VEC_PUSH(
        b->arena, &b->specs->specs,
        (struct cdi_spec){
            .kind = json_text(document, "kind"), .file = file, .document = document, .note = note});
}

void cdi_leave_out(struct cdi_builder *b, const struct host_gpu *g, const char *why)
{
    VEC_PUSH(b->arena, &b->specs->left_out,
             arena_printf(b->arena, "%s%s%s: %s", g->name, g->bdf ? " at " : "",
                          g->bdf ? g->bdf : "", why));
}

/* A problem of programs outside containers alone (groups, variables of this shell) does not keep
 * the GPU from being passed on. */
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
            edits_add_node(edits, &nodes[i], with_group);
        }
    }
}
