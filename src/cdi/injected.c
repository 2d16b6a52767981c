/* What a specification puts before the libraries of an image; host/host.h, struct host_injection.
 */
#include "base/json.h"
#include "cdi/files.h"

#include <string.h>

/* Each path is resolved in the image, for each of its processes. */
enum { TEXTS_MAX = 32, INJECTIONS_MAX = 16 };

/* Where the injections of one specification are noted. */
struct noting {
    struct root *root;
    struct arena *arena;
    struct host_injection *in;
};

static void note_text(const struct noting *n, host_texts *list, const char *text)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i], text) == 0) {
            return;
        }
    }
    if (list->n == TEXTS_MAX) {
        root_note_cut(n->root,
                      "%s puts more than %d libraries or folders into containers; the others were "
                      "not looked at",
                      n->in->file, TEXTS_MAX);
        return;
    }
    VEC_PUSH(n->arena, list, arena_strdup(n->arena, text));
}

/* "--folder", "/x" or "--folder=/x" of update-ldcache. */
static void read_arguments(const struct noting *n, const json_t *args)
{
    struct host_injection *in = n->in;
    static const char option[] = "--folder=";
    const json_t *item;
    bool ours = false, next = false;
    size_t i;
    json_array_foreach(args, i, item)
    {
        const char *text = json_string_value(item);
        text = text ? text : "";
        if (ours && next) {
            note_text(n, &in->cache_folders, text);
        } else if (ours && starts_with(text, option)) {
            note_text(n, &in->cache_folders, text + sizeof option - 1);
        }
        next = strcmp(text, "--folder") == 0;
        ours |= strcmp(text, "update-ldcache") == 0;
        in->compat_hook |= strcmp(text, "enable-cuda-compat") == 0;
    }
}

static void read_edits(const struct noting *n, const json_t *edits)
{
    struct host_injection *in = n->in;
    const json_t *item;
    size_t i;
    json_array_foreach(json_object_get(edits, "mounts"), i, item)
    {
        const char *path = json_text(item, "containerPath");
        if (path && starts_with(path_base(path), "libcuda.so")) {
            note_text(n, &in->libcuda, path);
        }
    }
    json_array_foreach(json_object_get(edits, "hooks"), i, item)
    {
        read_arguments(n, json_object_get(item, "args"));
    }
    json_array_foreach(json_object_get(edits, "env"), i, item)
    {
        static const char variable[] = "LD_LIBRARY_PATH=";
        const char *text = json_string_value(item);
        if (text && starts_with(text, variable)) {
            in->library_path = arena_strdup(n->arena, text + sizeof variable - 1);
        }
    }
}

void cdi_note_injected(struct root *r, struct arena *a, const struct cdi_file *f, struct host *h)
{
    struct host_injection in = {.file = f->path, .ours = f->ours};
    const struct noting n = {r, a, &in};
    const json_t *device;
    size_t i;
    read_edits(&n, json_object_get(f->document, "containerEdits"));
    json_array_foreach(json_object_get(f->document, "devices"), i, device)
    {
        read_edits(&n, json_object_get(device, "containerEdits"));
    }
    if (in.libcuda.n && h->engines.injections.n == INJECTIONS_MAX) {
        root_note_cut(r, "more than %d specifications inject a driver; %s was not looked at",
                      INJECTIONS_MAX, f->path);
    } else if (in.libcuda.n) {
        VEC_PUSH(a, &h->engines.injections, in);
    }
}
