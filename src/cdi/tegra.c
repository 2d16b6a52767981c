/*
 * The specification of a Jetson board's GPU. NVIDIA's package nvidia-l4t-init puts lists of the
 * nodes and files that it needs on the board (host/host.h, host_tegra_file); nvidia-ctk reads them
 * in its mode csv. Without them: the folders of the driver's libraries, whole, and the nodes of the
 * GPU by name.
 */
#include "cdi/build.h"

#include <string.h>

/* Folders that hold nothing but the driver: JetPack 6, JetPack 5 and before. */
static const char *const driver_folders[] = {"/usr/lib/aarch64-linux-gnu/nvidia",
                                             "/usr/lib/aarch64-linux-gnu/tegra",
                                             "/usr/lib/aarch64-linux-gnu/tegra-egl"};

static bool is_driver_folder(const char *folder)
{
    for (size_t i = 0; i < sizeof driver_folders / sizeof *driver_folders; i++) {
        if (strcmp(folder, driver_folders[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void add_file(struct cdi_place *p, const struct host_tegra_file *file, const char *path)
{
    struct cdi_builder *b = p->b;
    const char *folder = path_dir(b->arena, path);
    struct stat st;
    char *target;
    if (root_stat(b->root, path, &st) < 0) {
        return; // the lists are those of all boards
    }
    if (strcmp(file->kind, "sym") == 0 && root_readlink(b->root, b->arena, path, &target) == 0) {
        cdi_place_symlink(p, path, target, path);
    } else {
        cdi_add_mount(p->edits, path, path);
    }
    if (is_driver_folder(folder)) {
        cdi_place_folder(p, folder);
    }
}

static void add_listed(struct cdi_place *p, const struct host_tegra_file *file)
{
    enum { FILES_MAX = 4096 };
    struct root_dir names;
    struct cdi_builder *b = p->b;
    const char *folder = path_dir(b->arena, file->path);
    char *pattern = arena_strdup(b->arena, path_base(file->path));
    if (!strpbrk(pattern, "*?[")) {
        add_file(p, file, file->path);
    } else if (root_list(b->root, b->arena, folder, FILES_MAX,
                         &(struct root_filter){root_fits_glob, pattern}, &names) == 0) {
        for (size_t i = 0; i < names.n; i++) {
            add_file(p, file, path_join(b->arena, folder, names.names[i]));
        }
    }
}

static void place_add_folders(struct cdi_place *p)
{
    for (size_t i = 0; i < sizeof driver_folders / sizeof *driver_folders; i++) {
        struct stat st;
        if (root_stat(p->b->root, driver_folders[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            cdi_add_mount(p->edits, driver_folders[i], driver_folders[i]);
            cdi_place_folder(p, driver_folders[i]);
        }
    }
}

static void tegra_build(struct cdi_builder *b, const struct host_gpu *g)
{
    const struct host_tegra *t = &b->host->tegra;
    json_t *document = cdi_new_document("nvidia.com/gpu");
    json_t *edits = json_object_get(document, "containerEdits"), *device;
    struct cdi_place place;
    cdi_place_begin(b, edits, &place);
    device = cdi_add_device(document, "0");
    cdi_add_nodes(device, t->nodes.items, t->nodes.n, false);
    for (size_t i = 0; i < t->files.n; i++) {
        add_listed(&place, &t->files.items[i]);
    }
    if (t->files.n == 0) {
        place_add_folders(&place);
    }
    if (place.folders.n == 0) {
        cdi_leave_out(b, g, "the folder of the driver's libraries was not found");
        json_array_clear(json_object_get(document, "devices"));
    } else {
        struct host_tegra_file release = {"lib", "/etc/nv_tegra_release"};
        add_file(&place, &release, release.path);
        cdi_place_end(&place);
        cdi_append(cdi_list(edits, "env"), json_string("NVIDIA_VISIBLE_DEVICES=void"));
    }
    cdi_finish(b, document, "gpumend-nvidia.yaml", NULL);
}

void cdi_build_tegra(struct cdi_builder *b)
{
    for (size_t i = 0; i < b->host->gpus.n; i++) {
        const struct host_gpu *g = &b->host->gpus.items[i];
        if (strcmp(g->kind, "tegra") == 0 && cdi_can_pass_on(b, g)) {
            tegra_build(b, g);
        }
    }
}
