/* Images in the storage of engines: podman's (containers/storage, docs/containers-storage.md:
 * images and layers as JSON, files of a layer in overlay/ID/diff) and docker's (moby/moby,
 * image/fs.go and layer/filestore.go: image/overlay2, files of a layer in overlay2/CACHE-ID/diff).
 */
#include "base/json.h"
#include "image/image.h"

#include <errno.h>
#include <string.h>

#include "image/digest.h"
#include "image/split.h"

enum { JSON_MAX = 64 << 20, CHAIN_MAX = 512, LAYERS_MAX = 65536, ID_MIN = 12 };

struct search {
    struct image *im;
    struct arena *a;
    struct root *root;
    const char *name;
    bool no_verify; // digests are not checked
    struct gm_err *err;
    uint64_t left; // bytes that checking digests may read
};

static json_t *read_json(struct search *s, const char *path)
{
    struct str text;
    return root_read(s->root, s->a, path, JSON_MAX, &text) == 0
               ? json_loadb(text.s, text.n, 0, NULL)
               : NULL;
}

static const char *read_word(struct search *s, const char *path)
{
    enum { WORD_MAX = 4096 };
    struct str text;
    return root_read(s->root, s->a, path, WORD_MAX, &text) == 0 ? str_dup(s->a, str_trim(text))
                                                                : NULL;
}

static bool search_is_id(struct search *s, const char *id)
{
    return strlen(s->name) >= ID_MIN && starts_with(id, s->name);
}

static int check_layer(struct search *s, size_t number, const struct image_split_layer *x)
{
    const char *why = "its digest is not known";
    int rc = x->digest ? image_split_check(s->root, s->a, x, &s->left, &why, s->err) : 0;
    if (rc == 0 && why) {
        struct image_unverified one = {number, why};
        VEC_PUSH(s->a, &s->im->unverified, one);
    }
    return rc;
}

static int add_folders(struct search *s, const struct image_split_layer *layers, size_t n)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = s->no_verify ? 0 : check_layer(s, i + 1, &layers[i]);
        rc = rc < 0 ? rc
                    : image_layers_add_folder(&s->im->layers, s->root, layers[i].folder, s->err);
    }
    return rc;
}

/* Takes the configuration, which `id` is the digest of ("HEX"); *ret: it, or NULL where it cannot
 * be read. */
static int search_take_config(struct search *s, const char *path, const char *id, json_t **ret)
{
    const char *wanted = arena_printf(s->a, "sha256:%s", id);
    struct image_digest digest;
    struct image_digest_run run;
    struct str text = {0};
    int rc = root_read(s->root, s->a, path, JSON_MAX, &text) == 0 && !s->no_verify
                 ? image_digest_parse(wanted, &digest, s->err)
                 : 1;
    if (rc == 0) {
        image_digest_begin(&run, &digest);
        image_digest_take(&run, text.s, text.n);
        rc = image_digest_end(&run, s->a, path, s->err);
    }
    *ret = rc >= 0 && text.n ? json_loadb(text.s, text.n, 0, NULL) : NULL;
    image_take_config(s->im, *ret);
    return rc < 0 ? rc : 0;
}

/* ------------------------------------------------------------------ podman */

static const char *base64(struct arena *a, const char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = strlen(text), k = 0;
    const unsigned char *p = (const unsigned char *)text;
    char *out = arena_alloc(a, (n + 2) / 3 * 4 + 1);
    for (size_t i = 0; i < n; i += 3) {
        unsigned long v = (unsigned long)p[i] << 16 |
                          (i + 1 < n ? (unsigned long)p[i + 1] << 8 : 0) |
                          (i + 2 < n ? p[i + 2] : 0);
        out[k++] = digits[v >> 18];
        out[k++] = digits[v >> 12 & 63];
        out[k++] = i + 1 < n ? digits[v >> 6 & 63] : '=';
        out[k++] = i + 2 < n ? digits[v & 63] : '=';
    }
    return out;
}

static const json_t *podman_image(struct search *s, const json_t *images)
{
    for (size_t i = 0; i < json_array_size(images); i++) {
        const json_t *image = json_array_get(images, i), *names = json_object_get(image, "names");
        const char *id = json_text(image, "id");
        for (size_t k = 0; k < json_array_size(names); k++) {
            const char *name = json_string_value(json_array_get(names, k));
            if (name && image_is_named(s->a, name, s->name)) {
                s->im->name = arena_strdup(s->a, name);
                return image;
            }
        }
        if (id && search_is_id(s, id)) {
            return image;
        }
    }
    return NULL;
}

static const json_t *layer_of(const json_t *layers, const char *id)
{
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *layer = json_array_get(layers, i);
        const char *own = json_text(layer, "id");
        if (own && strcmp(own, id) == 0) {
            return layer;
        }
    }
    return NULL;
}

static struct image_split_layer podman_layer(struct search *s, const char *storage, const char *id)
{
    return (struct image_split_layer){
        .folder = arena_printf(s->a, "%s/overlay/%s/diff", storage, id),
        .record = arena_printf(s->a, "%s/overlay-layers/%s.tar-split.gz", storage, id),
    };
}

/* Only the digests of the configuration count, which the image's id stands for. */
static void take_diff_ids(struct search *s, struct image_split_layer *layers, size_t n,
                          const json_t *config)
{
    const json_t *diffs = json_object_get(json_object_get(config, "rootfs"), "diff_ids");
    for (size_t i = 0; json_array_size(diffs) == n && i < n; i++) {
        const char *digest = json_string_value(json_array_get(diffs, i));
        layers[i].digest = digest ? arena_strdup(s->a, digest) : NULL;
    }
}

static int open_podman(struct search *s, const char *storage, const json_t *image)
{
    const char *id = json_text(image, "id") ? json_text(image, "id") : "";
    struct image_split_layer stored[CHAIN_MAX];
    json_t *layers = read_json(s, arena_printf(s->a, "%s/overlay-layers/layers.json", storage));
    json_t *config;
    size_t n = CHAIN_MAX;
    const char *below = json_text(image, "layer");
    while (below && *below && n) {
        stored[--n] = podman_layer(s, storage, below);
        below = json_text(layer_of(layers, below), "parent");
    }
    bool more = below && *below;
    const char *key = base64(s->a, arena_printf(s->a, "sha256:%s", id));
    int rc = search_take_config(s, arena_printf(s->a, "%s/overlay-images/%s/=%s", storage, id, key),
                                id, &config);
    take_diff_ids(s, stored + n, CHAIN_MAX - n, config);
    json_decref(config);
    json_decref(layers);
    return rc < 0 ? rc
           : more
               ? gm_err_set(s->err, GM_ERR_LIMIT, "%s has more than %d layers", s->name, CHAIN_MAX)
           : n == CHAIN_MAX
               ? gm_err_set(s->err, GM_ERR_LOOK, "the layers of %s are not in %s", s->name, storage)
               : add_folders(s, stored + n, CHAIN_MAX - n);
}

/* 1: it was found and read. */
static int try_podman(struct search *s, const char *storage)
{
    json_t *images = read_json(s, arena_printf(s->a, "%s/overlay-images/images.json", storage));
    const json_t *image = podman_image(s, images);
    int rc = image ? open_podman(s, storage, image) : 0;
    json_decref(images);
    return rc < 0 ? rc : image != NULL;
}

/* ------------------------------------------------------------------ docker */

/* The id of the image of this name, without "sha256:". */
static const char *docker_id(struct search *s, const char *top)
{
    json_t *doc = read_json(s, arena_printf(s->a, "%s/repositories.json", top)), *tags, *id;
    const char *repository, *tag, *found = NULL;
    json_object_foreach(json_object_get(doc, "Repositories"), repository, tags)
    {
        json_object_foreach(tags, tag, id)
        {
            const char *value = json_string_value(id);
            if (!found && value && starts_with(value, "sha256:") &&
                (image_is_named(s->a, arena_printf(s->a, "/%s", tag), s->name) ||
                 search_is_id(s, value + 7))) {
                s->im->name = arena_strdup(s->a, tag);
                found = arena_strdup(s->a, value + 7);
            }
        }
    }
    json_decref(doc);
    return found;
}

/* The layer with this diff id on this parent: its folder's name, which is its chain id. */
static const char *docker_layer(struct search *s, const char *top, const struct root_dir *names,
                                const char *diff, const char *parent)
{
    for (size_t i = 0; i < names->n; i++) {
        const char *folder = arena_printf(s->a, "%s/layerdb/sha256/%s", top, names->names[i]);
        const char *own = read_word(s, path_join(s->a, folder, "diff"));
        const char *below = read_word(s, path_join(s->a, folder, "parent"));
        bool on_it = parent ? below && ends_with(below, parent) : !below;
        if (own && on_it && strcmp(own, diff) == 0) {
            return names->names[i];
        }
    }
    return NULL;
}

static int open_docker(struct search *s, const char *storage, const char *top, const char *id)
{
    struct image_split_layer stored[CHAIN_MAX];
    const char *parent = NULL;
    struct root_dir names = {0};
    json_t *config;
    const char *path = arena_printf(s->a, "%s/imagedb/content/sha256/%s", top, id);
    int rc = search_take_config(s, path, id, &config);
    const json_t *diffs = json_object_get(json_object_get(config, "rootfs"), "diff_ids");
    size_t n = 0, wanted = json_array_size(diffs);
    bool whole = wanted > 0 && wanted <= CHAIN_MAX &&
                 root_list(s->root, s->a, arena_printf(s->a, "%s/layerdb/sha256", top), LAYERS_MAX,
                           NULL, &names) == 0;
    for (size_t i = 0; whole && i < wanted; i++) {
        const char *diff = json_string_value(json_array_get(diffs, i));
        parent = diff ? docker_layer(s, top, &names, diff, parent) : NULL;
        const char *entry = arena_printf(s->a, "%s/layerdb/sha256/%s", top, parent ? parent : "");
        const char *cache = parent ? read_word(s, path_join(s->a, entry, "cache-id")) : NULL;
        whole = cache != NULL;
        stored[n++] = (struct image_split_layer){
            .folder = arena_printf(s->a, "%s/overlay2/%s/diff", storage, cache ? cache : ""),
            .record = path_join(s->a, entry, "tar-split.json.gz"),
            .digest = diff ? arena_strdup(s->a, diff) : NULL,
        };
    }
    json_decref(config);
    return rc < 0  ? rc
           : whole ? add_folders(s, stored, n)
                   : gm_err_set(s->err, GM_ERR_LOOK, "the layers of %s are not in %s", s->name,
                                storage);
}

static int try_docker(struct search *s, const char *storage)
{
    const char *top = arena_printf(s->a, "%s/image/overlay2", storage);
    const char *id = docker_id(s, top);
    int rc = id ? open_docker(s, storage, top, id) : 0;
    return rc < 0 ? rc : id != NULL;
}

/* ------------------------------------------------------------------ containerd */

/* containerd's storage is recognised and not read: names are in a database of its own (containerd,
 * core/metadata: buckets.go; bbolt), and contents lie by digest, compressed (docs/content-flow.md).
 * Docker keeps its images there too, from 29 on by default (moby/moby,
 * daemon/image_store_choice.go). A clause; "": it has none. */
static const char *containerd_words(struct search *s)
{
    static const struct {
        const char *folder, *command;
    } places[] = {
        {"/var/lib/docker/containerd/daemon", "docker save -o image.tar NAME"},
        {"/var/lib/rancher/k3s/agent/containerd", "k3s ctr -n k8s.io images export image.tar NAME"},
        {"/var/lib/containerd", "ctr -n k8s.io images export image.tar NAME, or docker save -o "
                                "image.tar NAME where docker brought it"},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct root_dir blobs = {0};
        const char *path = arena_printf(s->a, "%s/io.containerd.content.v1.content/blobs/sha256",
                                        places[i].folder);
        int rc = root_list(s->root, s->a, path, LAYERS_MAX, NULL, &blobs);
        if (rc == -EACCES || rc == -EPERM || (rc == 0 && blobs.n) || rc == -EFBIG) {
            return arena_printf(s->a,
                                "; containerd keeps images in %s%s, which cannot be looked into: "
                                "write it to a file (%s) and check that",
                                places[i].folder, rc < 0 ? " (this user may not see which)" : "",
                                places[i].command);
        }
    }
    return "";
}

/* ------------------------------------------------------------------ both */

int image_open_stored(struct image *im, struct arena *a, struct root *r, const char *home,
                      const struct image_wish *wish, struct gm_err *err)
{
    struct search s = {im, a, r, wish->path, wish->no_verify, err, IMAGE_SPLIT_BYTES_MAX};
    *im = (struct image){.arena = a, .fd = -1};
    image_layers_init(&im->layers, a);
    im->engine = "podman";
    int found = try_podman(&s, "/var/lib/containers/storage");
    if (found == 0 && home) {
        found = try_podman(&s, path_join(a, home, ".local/share/containers/storage"));
    }
    if (found == 0) {
        im->engine = "docker";
        found = try_docker(&s, "/var/lib/docker");
    }
    return found < 0   ? found
           : found > 0 ? 0
                       : gm_err_set(err, GM_ERR_LOOK,
                                    "there is no file or folder %s, and no image of "
                                    "this name in the storage of podman or docker (of those that "
                                    "may be read)%s",
                                    wish->path, containerd_words(&s));
}
