#include "container/subject.h"

#include <string.h>

/* ------------------------------------------------------------------ names */

static const char lower[] = "abcdefghijklmnopqrstuvwxyz0123456789";

/* "localhost/whisper:local" of "/srv/images/Whisper.tar.gz". */
static const char *own_name(struct arena *a, const char *path)
{
    enum { LENGTH = 60 };
    char *name = arena_alloc(a, LENGTH + 1), *out = name;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    const char *base = path_base(arena_printf(a, "%.*s", (int)n, path));
    for (; *base && *base != '.' && out < name + LENGTH; base++) {
        char c = *base >= 'A' && *base <= 'Z' ? (char)(*base - 'A' + 'a') : *base;
        if (strchr(lower, c)) {
            *out++ = c;
        } else if (out > name && out[-1] != '-') {
            *out++ = '-';
        }
    }
    while (out > name && out[-1] == '-') {
        out--;
    }
    *out = '\0';
    return arena_printf(a, "localhost/%s:local", *name ? name : "image");
}

/* ------------------------------------------------------------------ loading */

enum source { STORED, ARCHIVE, UNNAMED, LAYOUT, FOLDER, SOURCES };

static enum source source_of(const struct container_question *q)
{
    const struct image *im = q->image;
    if (!im) {
        return FOLDER;
    }
    return im->engine                                 ? STORED
           : im->layout                               ? LAYOUT
           : im->name && image_is_reference(im->name) ? ARCHIVE
                                                      : UNNAMED;
}

/* Whether the engine takes its images from podman's storage; else from docker's. */
static bool by_podman(const struct container_question *q)
{
    const char *engine = container_format_engine(q->format);
    return engine && strcmp(engine, "podman") == 0;
}

/* How skopeo is told which image of the file is meant (containers-transports(5)). */
static const char *image_place(const struct container_question *q)
{
    struct arena *a = q->model->arena;
    const struct image *im = q->image;
    if (!im || !im->path) {
        return diag_shell_word(a, q->image_path);
    }
    const char *place = im->n_images < 2 ? im->path
                        : im->reference && image_is_reference(im->reference)
                            ? arena_printf(a, "%s:%s", im->path, im->reference)
                            : arena_printf(a, "%s:@%zu", im->path, im->number);
    return diag_shell_word(a, place);
}

/* What makes the engine know what it does not have. */
static const char *loading(const struct container_question *q, enum source source, const char *name)
{
    struct arena *a = q->model->arena;
    const char *path = image_place(q);
    const char *engine = by_podman(q) ? "podman" : "docker";
    const char *storage = by_podman(q) ? "containers-storage" : "docker-daemon";
    bool oci = q->image && q->image->oci;
    const char *transport = source == LAYOUT ? (oci ? "oci" : "dir")
                            : oci            ? "oci-archive"
                                             : "docker-archive";
    switch (source) {
    case ARCHIVE:
        return arena_printf(a, "%s load -i %s", engine, diag_shell_word(a, q->image->path));
    case UNNAMED:
    case LAYOUT: return arena_printf(a, "skopeo copy %s:%s %s:%s", transport, path, storage, name);
    case FOLDER: return arena_printf(a, "tar -C %s -c . | %s import - %s", path, engine, name);
    case STORED:
        if (!by_podman(q) == (strcmp(q->image->engine, "podman") != 0)) {
            return NULL;
        }
        return by_podman(q) ? arena_printf(a, "docker save %s | podman load", name)
                            : arena_printf(a, "podman save %s | docker load", name);
    case SOURCES: break;
    }
    return NULL;
}

static const char *why(struct arena *a, const struct container_question *q, enum source source)
{
    const char *engine = by_podman(q) ? "podman" : "docker";
    switch (source) {
    case ARCHIVE:
    case UNNAMED:
        return arena_printf(a, "the image is a file, and %s starts what is in its storage", engine);
    case LAYOUT:
        return arena_printf(a, "the image is %s, and %s starts what is in its storage",
                            q->image && q->image->oci ? "an OCI layout" : "a folder of skopeo's",
                            engine);
    case FOLDER:
        return arena_printf(a,
                            "the image is a folder, and %s starts what is in its storage (what the "
                            "image set, such as ENV and USER, is not in a folder)",
                            engine);
    case STORED:
        return arena_printf(a, "the image is in the storage of %s, and this is for %s",
                            q->image->engine, engine);
    case SOURCES: break;
    }
    return "";
}

/* ------------------------------------------------------------------ forms without such a storage
 */

static void set_first(struct container_subject *ret, const char *value, const char *reason,
                      const char *undo)
{
    ret->first = (struct container_item){value, reason};
    ret->undo = (struct container_item){undo, "removes what was made for this"};
}

/* enroot makes its own images out of docker's and podman's. */
static void for_enroot(struct arena *a, const struct container_question *q,
                       struct container_subject *ret)
{
    bool podman = q->image && q->image->engine && strcmp(q->image->engine, "podman") == 0;
    const char *load =
        ret->first.value && !podman ? arena_printf(a, "%s && ", ret->first.value) : "";
    bool pyxis = q->format == CONTAINER_PYXIS;
    set_first(ret,
              arena_printf(a, "%senroot import -o app.sqsh %s://%s%s", load,
                           podman ? "podman" : "dockerd", ret->name,
                           pyxis ? "" : " && enroot create --name app app.sqsh"),
              "enroot starts what it has imported",
              pyxis ? "rm app.sqsh" : "enroot remove app; rm app.sqsh");
    ret->name = pyxis ? "./app.sqsh" : "app";
}

/* A folder with the image's file system; lxc looks for it in a place of its own. */
static void for_folder(struct arena *a, const struct container_question *q,
                       struct container_subject *ret)
{
    bool lxc = q->format == CONTAINER_LXC;
    const char *folder = lxc ? CONTAINER_LXC_ROOTFS : "app";
    if (!q->image && lxc) {
        set_first(ret,
                  arena_printf(a, "sudo mkdir -p %s && sudo cp -a %s %s", path_dir(a, folder),
                               diag_shell_word(a, q->image_path), folder),
                  "lxc starts a folder with the image's file system",
                  arena_printf(a, "sudo rm -r %s", path_dir(a, folder)));
        ret->name = folder;
        return;
    }
    if (!q->image) {
        *ret = (struct container_subject){.name = q->image_path};
        return;
    }
    bool podman = q->image->engine && strcmp(q->image->engine, "podman") == 0;
    const char *engine = podman ? "podman" : "docker";
    const char *load =
        ret->first.value && !podman ? arena_printf(a, "%s && ", ret->first.value) : "";
    set_first(
        ret,
        arena_printf(a,
                     "%ssudo mkdir -p %s && %s create --name app %s && %s export app | sudo tar "
                     "-x -C %s && %s rm app",
                     load, folder, engine, ret->name, engine, folder, engine),
        lxc ? "lxc starts a folder with the image's file system"
            : "systemd-nspawn starts a folder with the image's file system",
        arena_printf(a, "sudo rm -r %s", lxc ? path_dir(a, folder) : folder));
    ret->name = folder;
}

static void name_it(const struct container_question *q, struct container_subject *ret)
{
    struct arena *a = q->model->arena;
    *ret = (struct container_subject){.name = "IMAGE"};
    if (!q->image_path) {
        return;
    }
    enum source source = source_of(q);
    const char *said = q->image ? q->image->name : NULL;
    if (source == STORED) {
        ret->name = said && image_is_reference(said)    ? said
                    : image_is_reference(q->image_path) ? q->image_path
                                                        : own_name(a, q->image_path);
    } else {
        ret->name =
            source == ARCHIVE ? said : own_name(a, q->image ? q->image->path : q->image_path);
    }
    ret->first.value = loading(q, source, ret->name);
    ret->first.reason = ret->first.value ? why(a, q, source) : NULL;
    if (ret->first.value) {
        ret->undo.value = arena_printf(a, "%s rmi %s", by_podman(q) ? "podman" : "docker",
                                       diag_shell_word(a, ret->name));
        ret->undo.reason = "removes the image that was loaded for this";
    }
}

/* They pull from a registry. */
static void for_registry(struct arena *a, const struct container_question *q,
                         struct container_subject *ret)
{
    (void)a, (void)q;
    *ret = (struct container_subject){.name = ret->name};
}

static void for_apptainer(struct arena *a, const struct container_question *q,
                          struct container_subject *ret)
{
    (void)q;
    ret->name = arena_printf(a, "docker-daemon:%s%s", ret->name,
                             strpbrk(path_base(ret->name), ":@") ? "" : ":latest");
}

void container_subject(const struct container_question *q, struct container_subject *ret)
{
    static void (*const others[])(struct arena *, const struct container_question *,
                                  struct container_subject *) = {
        [CONTAINER_BY_HOOK] = for_enroot,
        [CONTAINER_BY_PARTS] = for_folder,
        [CONTAINER_BY_PLUGIN] = for_registry,
        [CONTAINER_BY_CLAIM] = for_registry,
        [CONTAINER_BY_DEVICE] = for_registry,
        [CONTAINER_BY_FLAG] = for_apptainer,
        [CONTAINER_BY_NONE] = NULL};
    enum container_way way = container_format_way(q->format);
    name_it(q, ret);
    if (q->image_path && others[way]) {
        others[way](q->model->arena, q, ret);
    }
}
