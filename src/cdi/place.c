#include "cdi/build.h"

#include <elf.h>
#include <string.h>

/* Nothing of an image lies there; the other is where `container` forms mount what an image
 * lacks, and comes behind it so that those commands still work with LD_LIBRARY_PATH replaced. */
static const char driver_folder[] = HOST_DRIVER_FOLDER;
static const char lacks_folder[] = CDI_LIBRARY_FOLDER;

/* The folders that the loaders of both families of distributions search without ld.so.cache. */
static const char *usual_folder(const struct host *h, size_t i)
{
    static const char *const folders[][2] = {{"/usr/lib/x86_64-linux-gnu", "/usr/lib64"},
                                             {"/usr/lib/aarch64-linux-gnu", "/usr/lib64"}};
#if defined __aarch64__
    bool arm = h->machine != EM_X86_64;
#else
    bool arm = h->machine == EM_AARCH64;
#endif
    return i < 2 ? folders[arm][i] : NULL;
}

/* ------------------------------------------------------------------ hooks */

/* Whether the host's program has a hook: others end with an error before release 1.18, and the
 * container with them. */
static bool has_hook(const struct cdi_place *p, const char *since)
{
    const char *version = p->b->host->engines.toolkit.version;
    return p->hook && version && host_version_cmp(version, since) >= 0;
}

/* Adds a hook. Returns its arguments, to which options are added. */
static json_t *add_hook(struct cdi_place *p, json_t *edits, const char *name)
{
    const char *program = path_base(p->hook);
    json_t *args = json_array();
    cdi_append(args, json_string(program));
    if (strcmp(program, "nvidia-ctk") == 0) {
        cdi_append(args, json_string("hook"));
    }
    cdi_append(args, json_string(name));
    cdi_append(cdi_list(edits, "hooks"), json_pack("{s:s, s:s, s:o}", "hookName", "createContainer",
                                                   "path", p->hook, "args", args));
    return args;
}

static void add_options(json_t *args, const char *option, const host_texts *values)
{
    for (size_t i = 0; i < values->n; i++) {
        cdi_append(args, json_string(option));
        cdi_append(args, json_string(values->items[i]));
    }
}

/* With ldconfig of the host, where the toolkit's settings name another than the hook's default. */
static void add_cache_hook(struct cdi_place *p)
{
    const char *ldconfig = p->b->host->engines.toolkit.ldconfig;
    json_t *args = add_hook(p, p->edits, "update-ldcache");
    if (ldconfig && starts_with(ldconfig, "@/") && strcmp(ldconfig, "@/sbin/ldconfig") != 0) {
        cdi_append(args, json_string("--ldconfig-path"));
        cdi_append(args, json_string(ldconfig + 1));
    }
    add_options(args, "--folder", &p->folders);
}

/* Lets a newer libcuda of the image's /usr/local/cuda/compat come first, where it can work. */
static void add_compat_hook(struct cdi_place *p)
{
    const char *driver = p->b->host->nvidia.module.value;
    if (driver && has_hook(p, "1.17.5") && !host_consumer_gpu(p->b->host)) {
        cdi_append(add_hook(p, p->edits, "enable-cuda-compat"),
                   json_sprintf("--host-driver-version=%s", driver));
    }
}

/* ------------------------------------------------------------------ libraries */

void cdi_place_begin(struct cdi_builder *b, json_t *edits, struct cdi_place *ret)
{
    *ret = (struct cdi_place){
        .b = b,
        .edits = edits,
        .hook = b->way == CDI_FOR_ENGINES ? b->host->engines.toolkit.hook : NULL,
    };
}

void cdi_place_folder(struct cdi_place *p, const char *folder)
{
    for (size_t i = 0; i < p->folders.n; i++) {
        if (strcmp(p->folders.items[i], folder) == 0) {
            return;
        }
    }
    VEC_PUSH(p->b->arena, &p->folders, folder);
}

void cdi_place_below(struct cdi_place *p, const char *real, const char *name)
{
    const char *folder;
    for (size_t i = 0; (folder = usual_folder(p->b->host, i)); i++) {
        cdi_add_mount(p->edits, real, path_join(p->b->arena, folder, name));
    }
}

void cdi_place_library(struct cdi_place *p, const char *real, const char *name, bool usual)
{
    cdi_place_folder(p, driver_folder);
    cdi_add_mount(p->edits, real, path_join(p->b->arena, driver_folder, name));
    if (usual) {
        cdi_place_below(p, real, name);
    }
}

void cdi_place_link(struct cdi_place *p, const char *real, const char *name, const char *link,
                    bool usual)
{
    if (!p->hook) {
        cdi_place_library(p, real, link, usual);
        return;
    }
    cdi_place_symlink(p, real, name, path_join(p->b->arena, driver_folder, link));
    if (usual) {
        cdi_place_below(p, real, link);
    }
}

void cdi_place_symlink(struct cdi_place *p, const char *real, const char *target, const char *link)
{
    if (!cdi_is_plain_path(link) || !str_is_seen(target)) {
        return;
    }
    if (p->hook) {
        VEC_PUSH(p->b->arena, &p->links, arena_printf(p->b->arena, "%s::%s", target, link));
    } else {
        cdi_add_mount(p->edits, real, link);
    }
}

/* ------------------------------------------------------------------ the end */

static void set_library_path(struct cdi_place *p)
{
    struct arena *a = p->b->arena;
    const char *path = "";
    if (p->b->way == CDI_FOR_ENGINES) {
        cdi_place_folder(p, lacks_folder);
    }
    for (size_t i = 0; i < p->folders.n; i++) {
        path = arena_printf(a, "%s%s%s", path, i ? ":" : "", p->folders.items[i]);
    }
    cdi_append(cdi_list(p->edits, "env"), json_sprintf("LD_LIBRARY_PATH=%s", path));
    VEC_PUSH(
        a, &p->b->specs->notes,
        "the specification sets LD_LIBRARY_PATH, so that the driver's libraries come before an "
        "image's own: it replaces what an image or -e sets. With NVIDIA's package "
        "nvidia-container-toolkit-base on this host, write it again: hooks then take its place");
}

void cdi_place_end(struct cdi_place *p)
{
    if (p->folders.n == 0) {
        return;
    }
    if (!p->hook) {
        set_library_path(p);
        return;
    }
    if (p->links.n) {
        add_options(add_hook(p, p->edits, "create-symlinks"), "--link", &p->links);
    }
    add_compat_hook(p);
    add_cache_hook(p);
    if (has_hook(p, "1.18.0")) {
        (void)add_hook(p, p->edits, "disable-device-node-modification"); // it has no options
    }
}

/* ------------------------------------------------------------------ nodes */

/* The links of udev's rules, as they are on the host (60-drm.rules of systemd). */
static void link_nodes(struct cdi_place *p, json_t *edits, const struct host_gpu *g)
{
    static const char *const kinds[] = {"card", "render"};
    host_texts links = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *link =
            arena_printf(p->b->arena, "/dev/dri/by-path/pci-%s-%s", g->bdf, kinds[i]);
        char *target;
        if (root_readlink(p->b->root, p->b->arena, link, &target) == 0 && str_is_seen(target)) {
            VEC_PUSH(p->b->arena, &links, arena_printf(p->b->arena, "%s::%s", target, link));
        }
    }
    if (links.n) {
        add_options(add_hook(p, edits, "create-symlinks"), "--link", &links);
    }
}

void cdi_place_nodes(struct cdi_place *p, json_t *edits, const struct host_gpu *g, bool with_mig)
{
    const char *crun = p->b->host->engines.crun;
    host_texts folders = {0};
    if (!p->hook) {
        return;
    }
    if (with_mig) {
        VEC_PUSH(p->b->arena, &folders, "/dev/nvidia-caps");
    } else if (g->drawing.n) {
        VEC_PUSH(p->b->arena, &folders, "/dev/dri");
        link_nodes(p, edits, g);
    }
    /* crun before 1.7 made the folders of nodes so that root alone could enter them
     * (containers/crun, issue 1047, pull request 1051). */
    if (folders.n && crun && host_version_cmp(crun, "1.7") < 0) {
        json_t *args = add_hook(p, edits, "chmod");
        cdi_append(args, json_string("--mode"));
        cdi_append(args, json_string("755"));
        add_options(args, "--path", &folders);
    }
}
