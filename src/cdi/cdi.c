#include "cdi/cdi.h"

#include <stdlib.h>
#include <string.h>

#include "cdi/build.h"

/* ------------------------------------------------------------------ WSL, AMD, Intel */

static void place_wsl_libraries(struct cdi_builder *b, struct cdi_place *p, const char *folder)
{
    enum { FILES_MAX = 4096 };
    struct root_dir files;
    if (root_list(b->root, b->arena, folder, FILES_MAX, NULL, &files) < 0) {
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
    cdi_add_nodes(cdi_add_device(document, "0"), &dxg, 1, false);
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
        cdi_add_nodes(json_object_get(document, "containerEdits"), &b->host->amd.kfd_node, 1, true);
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
