/*
 * An image in an archive or a folder, of OCI or as `docker save` writes it: its manifest, its
 * layers.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "image/image.h"

enum {
    MEMBERS_MAX = 100000,
    JSON_MAX = 8 << 20,
    TEXTS_MAX = 24 << 20,
    LAYERS_MAX = 1024,
    NESTED_MAX = 4,
};

/* A file of the archive or layout. */
struct member {
    const char *name, *link; // link: of a member that is a link to another
    const char *text;        // of a document in an archive that is compressed as a whole, or NULL
    struct image_layer_place place;
};

struct opening {
    struct image *im;
    const struct image_wish *wish;
    struct arena *a;
    struct gm_err *err;
    VEC(struct member) members; // of an archive
    uint64_t texts;             // bytes of their texts
    image_texts diff_ids;       // digests of the layers as they are unpacked
    const char *twice;          // a member that the image needs and that is there twice, or NULL
    bool beside;                // the files that digests name are beside the manifest: "HEX"
};

/* ------------------------------------------------------------------ members */

static int open_error(struct opening *o, const char *path)
{
    return gm_err_set(o->err, GM_ERR_LOOK, "%s: %s", path, strerror(errno));
}

static const char *clean(const char *name)
{
    while (starts_with(name, "./")) {
        name += 2;
    }
    return name;
}

/* What may be a document is kept while it passes: the archive cannot be read there again without
 * being unpacked from its start. */
static const char *document_text(struct opening *o, struct archive *ar, uint64_t size)
{
    const void *block;
    size_t n;
    la_int64_t offset;
    if (size == 0 || size > JSON_MAX || o->texts + size > TEXTS_MAX ||
        archive_read_data_block(ar, &block, &n, &offset) != ARCHIVE_OK || n == 0 || offset != 0 ||
        (*(const char *)block != '{' && *(const char *)block != '[')) {
        return NULL;
    }
    char *text = arena_alloc(o->a, (size_t)size + 1);
    uint64_t done = 0;
    do {
        n = n < size - done ? n : (size_t)(size - done);
        memcpy(text + done, block, n);
        done += n;
    } while (done < size && archive_read_data_block(ar, &block, &n, &offset) == ARCHIVE_OK &&
             (uint64_t)offset == done);
    o->texts += size;
    return done == size ? text : NULL;
}

/* Unpacks the rest of a member. */
static int opening_pass_over(struct opening *o, struct archive *ar, uint64_t size)
{
    const void *block;
    size_t n;
    la_int64_t offset;
    int rc = 0, step = ARCHIVE_OK;
    while (rc == 0 && (step = archive_read_data_block(ar, &block, &n, &offset)) == ARCHIVE_OK) {
        uint64_t at = (uint64_t)archive_filter_bytes(ar, 0);
        rc = image_outer_bound(at, at, size, o->err);
        if (o->im->layers.progress) {
            o->im->layers.progress(o->im->layers.progress_arg,
                                   (uint64_t)archive_filter_bytes(ar, -1), size);
        }
    }
    return rc < 0 || step == ARCHIVE_EOF
               ? rc
               : gm_err_set(o->err, GM_ERR_FORMAT, "the archive is damaged: %s",
                            archive_error_string(ar));
}

static int read_members(struct opening *o, struct archive *ar, uint64_t size)
{
    struct archive_entry *e;
    int step;
    while ((step = archive_read_next_header(ar, &e)) != ARCHIVE_EOF) {
        const char *name = step >= ARCHIVE_WARN ? archive_entry_pathname(e) : NULL;
        if (!name || o->members.n >= MEMBERS_MAX) {
            return gm_err_set(o->err, GM_ERR_FORMAT, "it is not an image: %s",
                              name                ? "its archive has too many members"
                              : archive_errno(ar) ? archive_error_string(ar)
                                                  : "it is not a tar archive");
        }
        const char *link =
            archive_entry_symlink(e) ? archive_entry_symlink(e) : archive_entry_hardlink(e);
        bool packed = archive_filter_code(ar, 0) != ARCHIVE_FILTER_NONE;
        int64_t at = archive_filter_bytes(ar, 0), n = archive_entry_size(e);
        if (at < 0 || n < 0 ||
            (!packed && ((uint64_t)at > size || (uint64_t)n > size - (uint64_t)at))) {
            return gm_err_set(o->err, GM_ERR_FORMAT, "it is cut off in %s",
                              str_printable(o->a, name));
        }
        struct member m = {arena_strdup(o->a, clean(name)),
                           link ? arena_strdup(o->a, link) : NULL,
                           NULL,
                           {.fd = o->im->fd, .offset = (uint64_t)at, .size = (uint64_t)n}};
        if (packed) {
            m.place.outer = &o->im->outer;
            m.text = document_text(o, ar, (uint64_t)n);
        }
        VEC_PUSH(o->a, &o->members, m);
        if (packed && opening_pass_over(o, ar, size) < 0) {
            return o->err->code;
        }
    }
    return 0;
}

static int list_members(struct opening *o)
{
    struct stat st;
    if (fstat(o->im->fd, &st) < 0 || lseek(o->im->fd, 0, SEEK_SET) < 0) {
        return open_error(o, "the image");
    }
    struct archive *ar = archive_read_new();
    if (!ar) {
        return gm_err_set(o->err, GM_ERR_LIMIT, "out of memory");
    }
    (void)archive_read_support_format_tar(ar); // each is compiled in
    (void)archive_read_support_filter_gzip(ar);
    (void)archive_read_support_filter_zstd(ar);
    (void)archive_read_support_filter_xz(ar);
    int rc =
        archive_read_open_fd(ar, o->im->fd, 64 << 10) != ARCHIVE_OK
            ? gm_err_set(o->err, GM_ERR_FORMAT, "it is not an image: %s", archive_error_string(ar))
            : read_members(o, ar, (uint64_t)st.st_size);
    (void)archive_read_free(ar); // what it says after reading does not matter
    return rc;
}

/* Old archives link to a layer that stands elsewhere: "../HASH/layer.tar". */
static const struct member *member_named(struct opening *o, const char *name, int links)
{
    const struct member *found = NULL;
    for (size_t i = 0; i < o->members.n; i++) {
        const struct member *m = &o->members.items[i];
        if (strcmp(m->name, name) == 0) {
            o->twice = found ? m->name : o->twice;
            found = found ? found : m;
        }
    }
    const char *link = found ? found->link : NULL;
    while (link && starts_with(link, "../")) {
        link += 3;
    }
    return !link ? found : links < NESTED_MAX ? member_named(o, link, links + 1) : NULL;
}

/* A regular file of a layout; no link is followed. */
static bool blob_of_layout(struct opening *o, const char *name, struct image_layer_place *ret)
{
    struct stat st;
    int fd = openat(o->im->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    VEC_PUSH(o->a, &o->im->blobs, fd);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        return false;
    }
    *ret = (struct image_layer_place){.fd = fd, .size = (uint64_t)st.st_size, .ino = st.st_ino};
    return true;
}

/* *ret_text: its text, where it has been read already. */
static bool opening_find_place(struct opening *o, const char *name, struct image_layer_place *ret,
                               const char **ret_text)
{
    const char *cleaned = clean(name);
    *ret_text = NULL;
    if (cleaned[0] == '/' || strstr(cleaned, "..")) {
        return false;
    }
    if (o->im->layout) {
        return blob_of_layout(o, cleaned, ret);
    }
    const struct member *m = member_named(o, cleaned, 0);
    if (m) {
        *ret = m->place;
        *ret_text = m->text;
    }
    return m != NULL;
}

/* ------------------------------------------------------------------ documents */

static const char *member_text(struct opening *o, const struct image_layer_place *place,
                               const char *name)
{
    if (place->outer) {
        (void)gm_err_set(o->err, GM_ERR_FORMAT, "%s of the image is not JSON",
                         str_printable(o->a, name));
        return NULL;
    }
    char *text = arena_alloc(o->a, (size_t)place->size + 1);
    if (pread(place->fd, text, (size_t)place->size, (off_t)place->offset) != (ssize_t)place->size) {
        (void)open_error(o, name);
        return NULL;
    }
    return text;
}

/* The path of what a descriptor names, "sha256:HEX" -> "blobs/sha256/HEX" or "HEX", and its digest;
 * NULL with an error: it has none, or one that cannot be checked. */
static const char *blob_of(struct opening *o, const json_t *descriptor, struct image_digest *ret)
{
    const char *text = json_text(descriptor, "digest");
    const char *colon = text ? strchr(text, ':') : NULL;
    *ret = (struct image_digest){0};
    if ((!o->wish->no_verify || !colon) && image_digest_parse(text, ret, o->err) < 0) {
        return NULL;
    }
    ret->text = ret->text ? arena_strdup(o->a, ret->text) : NULL; // the document goes
    return o->beside ? arena_strdup(o->a, colon + 1)
                     : arena_printf(o->a, "blobs/%.*s/%s", (int)(colon - text), text, colon + 1);
}

/* The digest that the name of a file promises: "blobs/sha256/HEX", and "HEX.json" and "HEX.tar" as
 * docker and podman save them. */
static struct image_digest digest_of_name(struct opening *o, const char *name)
{
    enum { HEX = 2 * SHA256_DIGEST_SIZE };
    static const char blobs[] = "blobs/";
    struct image_digest d = {0};
    struct gm_err err; // what is no digest promises none
    struct str rest = str_of(starts_with(name, blobs) ? name + strlen(blobs) : ""),
               algorithm = str_cut(&rest, '/');
    const char *text = NULL;
    if (rest.n) {
        text = arena_printf(o->a, "%.*s:%.*s", (int)algorithm.n, algorithm.s, (int)rest.n, rest.s);
    } else if (strspn(name, "0123456789abcdef") == HEX && name[HEX] == '.') {
        text = arena_printf(o->a, "sha256:%.*s", HEX, name);
    }
    if (!text || o->wish->no_verify || image_digest_parse(text, &d, &err) < 0) {
        return (struct image_digest){0};
    }
    d.of_unpacked = !rest.n; // HEX.tar: layers are saved as they are unpacked
    return d;
}

static int check_text(struct opening *o, const char *text, size_t size, const char *name,
                      const struct image_digest *digest)
{
    struct image_digest_run run;
    image_digest_begin(&run, digest);
    image_digest_take(&run, text, size);
    return image_digest_end(&run, o->a, name, o->err);
}

/* The document of a member; NULL with an error: it is absent, too large, no JSON or not the one
 * that the digest is of. */
static json_t *opening_document(struct opening *o, const char *name,
                                const struct image_digest *digest)
{
    struct image_layer_place place;
    const char *text;
    json_error_t why;
    bool found = opening_find_place(o, name, &place, &text);
    if (!found || place.size > JSON_MAX) {
        (void)gm_err_set(o->err, GM_ERR_FORMAT,
                         found ? "%.300s of the image has more than 8 MiB"
                               : "the image names %.300s, which is not in it",
                         str_printable(o->a, name));
        return NULL;
    }
    text = text ? text : member_text(o, &place, name);
    if (!text || check_text(o, text, (size_t)place.size, name, digest) < 0) {
        return NULL;
    }
    json_t *doc = json_loadb(text, (size_t)place.size, 0, &why);
    if (!doc) {
        (void)gm_err_set(o->err, GM_ERR_FORMAT, "%s of the image is not JSON: %s",
                         str_printable(o->a, name), why.text);
    }
    return doc;
}

static const struct image_digest UNCHECKED = {0};

static void take_texts(struct arena *a, const json_t *list, image_texts *ret)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (text) {
            VEC_PUSH(a, ret, arena_strdup(a, text));
        }
    }
}

void image_take_config(struct image *im, const json_t *document)
{
    const json_t *config = json_object_get(document, "config");
    const char *architecture = json_text(document, "architecture");
    const char *user = json_text(config, "User");
    const char *os = json_text(document, "os");
    const char *variant = json_text(document, "variant");
    im->architecture = architecture ? arena_strdup(im->arena, architecture) : NULL;
    im->os = os ? arena_strdup(im->arena, os) : NULL;
    im->variant = variant && *variant ? arena_strdup(im->arena, variant) : NULL;
    im->user = user && *user ? arena_strdup(im->arena, user) : NULL;
    const char *folder = json_text(config, "WorkingDir");
    im->folder = folder && *folder == '/' ? arena_strdup(im->arena, folder) : NULL;
    take_texts(im->arena, json_object_get(config, "Env"), &im->env);
    take_texts(im->arena, json_object_get(config, "Entrypoint"), &im->entrypoint);
    take_texts(im->arena, json_object_get(config, "Cmd"), &im->command);
}

int image_check_platform(const struct image *im, const struct image_wish *wish, struct gm_err *err)
{
    struct arena *a = im->arena;
    struct image_platform own = {im->os, im->architecture, im->variant};
    return !wish->platform_given || image_platform_fits(&own, &wish->platform)
               ? 0
               : gm_err_set(err, GM_ERR_USAGE, "the image is for %s, and not for %s",
                            str_printable(a, image_platform_text(a, &own)),
                            str_printable(a, image_platform_text(a, &wish->platform)));
}

static int opening_take_config(struct opening *o, const char *name,
                               const struct image_digest *digest)
{
    json_t *doc = opening_document(o, name, digest);
    if (!doc) {
        return o->err->code;
    }
    image_take_config(o->im, doc);
    take_texts(o->a, json_object_get(json_object_get(doc, "rootfs"), "diff_ids"), &o->diff_ids);
    json_decref(doc);
    return image_check_platform(o->im, o->wish, o->err);
}

static int take_layer(struct opening *o, const char *name, const struct image_digest *digest)
{
    struct image_layer_place place;
    const char *text;
    if (o->im->layers.places.n >= LAYERS_MAX) {
        return gm_err_set(o->err, GM_ERR_LIMIT, "it has more than %d layers", LAYERS_MAX);
    }
    if (!opening_find_place(o, name, &place, &text)) {
        return gm_err_set(o->err, GM_ERR_FORMAT, "the image names the layer %s, which is not in it",
                          str_printable(o->a, name));
    }
    place.name = arena_strdup(o->a, name);
    place.digest = *digest;
    return image_layers_add(&o->im->layers, &place, o->err);
}

/* ------------------------------------------------------------------ the two formats */

/* Of a layer without a digest in its name the configuration has that of its content. */
static int digest_of_saved(struct opening *o, const char *name, size_t number,
                           struct image_digest *ret)
{
    *ret = digest_of_name(o, name);
    if (ret->algorithm || o->wish->no_verify || number >= o->diff_ids.n) {
        return 0;
    }
    int rc = image_digest_parse(o->diff_ids.items[number], ret, o->err);
    ret->of_unpacked = true;
    return rc;
}

static int read_saved_layers(struct opening *o, const json_t *layers)
{
    size_t n = json_array_size(layers);
    int rc = 0;
    if (o->diff_ids.n && o->diff_ids.n != n && !o->wish->no_verify) {
        return gm_err_set(o->err, GM_ERR_FORMAT,
                          "its manifest names %zu layers, and its configuration %zu", n,
                          o->diff_ids.n);
    }
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const char *name = json_string_value(json_array_get(layers, i));
        struct image_digest digest = {0};
        name = name ? name : "(none)";
        rc = digest_of_saved(o, name, i, &digest);
        rc = rc < 0 ? rc : take_layer(o, name, &digest);
    }
    return rc;
}

/* The image that is wished for; its name becomes the one that was asked for. */
static int choose_content(struct opening *o, const image_contents *list,
                          const struct image_content **ret)
{
    size_t at = 0;
    int rc = image_contents_choose(o->a, list, o->wish->name, o->wish->path, &at, o->err);
    if (rc < 0) {
        return rc;
    }
    const struct image_content *c = &list->items[at];
    o->im->number = c->number;
    o->im->n_images = list->n;
    o->im->reference = c->reference;
    o->im->name = c->names.n ? c->names.items[0] : NULL;
    for (size_t i = 0; o->wish->name && i < c->names.n; i++) {
        if (image_is_named(o->a, c->names.items[i], o->wish->name)) {
            o->im->name = c->names.items[i];
            break;
        }
    }
    *ret = c;
    return 0;
}

static int read_saved(struct opening *o, const json_t *manifest)
{
    image_contents list = {0};
    const struct image_content *chosen = NULL;
    image_contents_saved(o->a, manifest, &list);
    int rc = choose_content(o, &list, &chosen);
    if (rc < 0) {
        return rc;
    }
    const json_t *entry = chosen->descriptors.items[0];
    const char *config = json_text(entry, "Config");
    if (!config) {
        return gm_err_set(o->err, GM_ERR_FORMAT, "its manifest names no configuration");
    }
    struct image_digest digest = digest_of_name(o, config);
    rc = opening_take_config(o, config, &digest);
    return rc < 0 ? rc : read_saved_layers(o, json_object_get(entry, "Layers"));
}

static int read_manifest(struct opening *o, const json_t *doc)
{
    const json_t *layers = json_object_get(doc, "layers");
    struct image_digest digest;
    const char *name = blob_of(o, json_object_get(doc, "config"), &digest);
    int rc = name ? opening_take_config(o, name, &digest) : o->err->code;
    for (size_t i = 0; o->im->layout && i < json_array_size(layers); i++) {
        const json_t *size = json_object_get(json_array_get(layers, i), "size");
        json_int_t n = json_integer_value(size);
        o->im->layers.to_read += n > 0 ? (uint64_t)n : 0;
    }
    for (size_t i = 0; rc == 0 && i < json_array_size(layers); i++) {
        name = blob_of(o, json_array_get(layers, i), &digest);
        rc = name ? take_layer(o, name, &digest) : o->err->code;
    }
    return rc;
}

/* What a descriptor names: the manifest of one image, or an index of it for several platforms. */
static int read_descriptors(struct opening *o, const json_t *const *list, size_t n, int depth)
{
    VEC(const json_t *) inner = {0};
    const json_t *next = NULL;
    struct image_digest digest;
    o->im->n_platforms = n > o->im->n_platforms ? n : o->im->n_platforms;
    int rc = image_manifest_choose(o->a, list, n, &o->wish->platform, &next, o->err);
    const char *name = rc == 0 ? blob_of(o, next, &digest) : NULL;
    json_t *doc = name ? opening_document(o, name, &digest) : NULL;
    if (!doc) {
        return o->err->code;
    }
    const json_t *manifests = json_object_get(doc, "manifests");
    for (size_t i = 0; i < json_array_size(manifests); i++) {
        VEC_PUSH(o->a, &inner, json_array_get(manifests, i));
    }
    rc = json_object_get(doc, "layers") ? read_manifest(o, doc)
         : depth < NESTED_MAX           ? read_descriptors(o, inner.items, inner.n, depth + 1)
                              : gm_err_set(o->err, GM_ERR_FORMAT, "its index names no manifest");
    json_decref(doc);
    return rc;
}

static int read_index(struct opening *o, const json_t *index)
{
    image_contents list = {0};
    const struct image_content *chosen = NULL;
    image_contents_index(o->a, index, &list);
    int rc = choose_content(o, &list, &chosen);
    return rc < 0 ? rc : read_descriptors(o, chosen->descriptors.items, chosen->descriptors.n, 0);
}

/* Engines differ in which of two members of one name they take. */
static int check_members(struct opening *o)
{
    return o->twice ? gm_err_set(o->err, GM_ERR_FORMAT, "it has two members called %s",
                                 str_printable(o->a, o->twice))
                    : 0;
}

/* "manifest.json" is a list where `docker save` wrote it, and the manifest of one image where
 * skopeo did ("dir:", and podman's "--format docker-dir"; containers-transports(5)). */
static int opening_read_image(struct opening *o)
{
    struct image_layer_place place;
    const char *text;
    bool saved = opening_find_place(o, "manifest.json", &place, &text);
    const char *name = saved ? "manifest.json" : "index.json";
    if (!saved && !opening_find_place(o, name, &place, &text)) {
        return gm_err_set(o->err, GM_ERR_FORMAT,
                          "it is not an image: it has neither manifest.json nor "
                          "index.json");
    }
    o->im->oci = !saved;
    json_t *doc = opening_document(o, name, &UNCHECKED);
    o->beside = saved && o->im->layout && json_object_get(doc, "layers");
    o->im->n_images = o->beside;
    int rc = !doc        ? o->err->code
             : o->beside ? read_manifest(o, doc)
             : saved     ? read_saved(o, doc)
                         : read_index(o, doc);
    json_decref(doc);
    return rc < 0 ? rc : check_members(o);
}

/* ------------------------------------------------------------------ opening */

int image_open(struct image *im, struct arena *a, const struct image_wish *wish, struct gm_err *err)
{
    struct opening o = {.im = im, .wish = wish, .a = a, .err = err};
    struct stat st;
    *im = (struct image){
        .arena = a, .path = wish->path, .fd = open(wish->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    image_layers_init(&im->layers, a);
    im->layers.progress = wish->progress;
    im->layers.progress_arg = wish->progress_arg;
    if (im->fd < 0 || fstat(im->fd, &st) < 0) {
        return open_error(&o, wish->path);
    }
    im->layout = S_ISDIR(st.st_mode);
    if (!im->layout && !S_ISREG(st.st_mode)) {
        return gm_err_set(err, GM_ERR_LOOK, "%s is neither a file nor a folder", wish->path);
    }
    if (!im->layout) {
        im->layers.to_read = (uint64_t)st.st_size;
        im->outer = (struct image_outer){.fd = im->fd,
                                         .size = (uint64_t)st.st_size,
                                         .progress = wish->progress,
                                         .progress_arg = wish->progress_arg};
    }
    int rc = im->layout ? 0 : list_members(&o);
    rc = rc < 0 ? rc : opening_read_image(&o);
    image_layers_added(&im->layers);
    return rc;
}

void image_close(struct image *im)
{
    image_layers_release(&im->layers);
    image_outer_release(&im->outer);
    for (size_t i = 0; i < im->blobs.n; i++) {
        (void)close(im->blobs.items[i]); // nothing was written
    }
    if (im->fd >= 0) {
        (void)close(im->fd);
    }
    im->fd = -1;
}
