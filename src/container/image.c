#include "container/image.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MEMBERS_MAX = 100000,
    JSON_MAX = 8 << 20,
    TEXTS_MAX = 24 << 20,
    LAYERS_MAX = 1024,
    NESTED_MAX = 4
};

/* A file of the archive or layout. */
struct member {
    const char *name, *link; // link: of a member that is a link to another
    const char *text;        // of a document in an archive that is compressed as a whole, or NULL
    struct layer_place place;
};

struct opening {
    struct image *im;
    struct arena *a;
    struct gm_err *err;
    VEC(struct member) members; // of an archive
    uint64_t texts;             // bytes of their texts
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
static int pass_over(struct opening *o, struct archive *ar, uint64_t size)
{
    const void *block;
    size_t n;
    la_int64_t offset;
    int rc = 0, step = ARCHIVE_OK;
    while (rc == 0 && (step = archive_read_data_block(ar, &block, &n, &offset)) == ARCHIVE_OK) {
        uint64_t at = (uint64_t)archive_filter_bytes(ar, 0);
        rc = outer_bound(at, at, size, o->err);
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
            return gm_err_set(o->err, GM_ERR_FORMAT, "it is no image: %s",
                              name                ? "its archive has too many members"
                              : archive_errno(ar) ? archive_error_string(ar)
                                                  : "it is no tar archive");
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
        if (packed && pass_over(o, ar, size) < 0) {
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
    int rc = archive_read_open_fd(ar, o->im->fd, 64 << 10) != ARCHIVE_OK
                 ? gm_err_set(o->err, GM_ERR_FORMAT, "it is no image: %s", archive_error_string(ar))
                 : read_members(o, ar, (uint64_t)st.st_size);
    (void)archive_read_free(ar); // what it says after reading does not matter
    return rc;
}

/* Old archives link to a layer that stands elsewhere: "../HASH/layer.tar". */
static const struct member *member_named(struct opening *o, const char *name, int links)
{
    for (size_t i = 0; i < o->members.n; i++) {
        const struct member *m = &o->members.items[i];
        if (strcmp(m->name, name) == 0) {
            const char *link = m->link;
            while (link && starts_with(link, "../")) {
                link += 3;
            }
            return !link ? m : links < NESTED_MAX ? member_named(o, link, links + 1) : NULL;
        }
    }
    return NULL;
}

/* A regular file of a layout; no link is followed. */
static bool blob_of_layout(struct opening *o, const char *name, struct layer_place *ret)
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
    *ret = (struct layer_place){.fd = fd, .size = (uint64_t)st.st_size, .ino = st.st_ino};
    return true;
}

/* *ret_text: its text, where it has been read already. */
static bool find_place(struct opening *o, const char *name, struct layer_place *ret,
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

static const char *text_of(struct opening *o, const struct layer_place *place, const char *name)
{
    if (place->outer) {
        (void)gm_err_set(o->err, GM_ERR_FORMAT, "%s of the image is no JSON",
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

/* The document of a member; NULL with an error: it is absent, too large or no JSON. */
static json_t *document(struct opening *o, const char *name)
{
    struct layer_place place;
    const char *text;
    json_error_t why;
    if (!find_place(o, name, &place, &text) || place.size > JSON_MAX) {
        (void)gm_err_set(o->err, GM_ERR_FORMAT, "the image names %s, which is not in it",
                         str_printable(o->a, name));
        return NULL;
    }
    text = text ? text : text_of(o, &place, name);
    if (!text) {
        return NULL;
    }
    json_t *doc = json_loadb(text, (size_t)place.size, 0, &why);
    if (!doc) {
        (void)gm_err_set(o->err, GM_ERR_FORMAT, "%s of the image is no JSON: %s",
                         str_printable(o->a, name), why.text);
    }
    return doc;
}

/* "sha256:HEX" -> "blobs/sha256/HEX" */
static const char *blob_of(struct opening *o, const json_t *descriptor)
{
    const char *digest = json_string_value(json_object_get(descriptor, "digest"));
    const char *colon = digest ? strchr(digest, ':') : NULL;
    return colon ? arena_printf(o->a, "blobs/%.*s/%s", (int)(colon - digest), digest, colon + 1)
                 : "(no digest)";
}

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
    const char *architecture = json_string_value(json_object_get(document, "architecture"));
    const char *user = json_string_value(json_object_get(config, "User"));
    im->architecture = architecture ? arena_strdup(im->arena, architecture) : NULL;
    im->user = user && *user ? arena_strdup(im->arena, user) : NULL;
    const char *folder = json_string_value(json_object_get(config, "WorkingDir"));
    im->folder = folder && *folder == '/' ? arena_strdup(im->arena, folder) : NULL;
    take_texts(im->arena, json_object_get(config, "Env"), &im->env);
    take_texts(im->arena, json_object_get(config, "Entrypoint"), &im->entrypoint);
    take_texts(im->arena, json_object_get(config, "Cmd"), &im->command);
}

static int take_config(struct opening *o, const char *name)
{
    json_t *doc = document(o, name);
    if (!doc) {
        return o->err->code;
    }
    image_take_config(o->im, doc);
    json_decref(doc);
    return 0;
}

static int take_layer(struct opening *o, const char *name)
{
    struct layer_place place;
    const char *text;
    if (o->im->layers.places.n >= LAYERS_MAX) {
        return gm_err_set(o->err, GM_ERR_LIMIT, "it has more than %d layers", LAYERS_MAX);
    }
    return find_place(o, name, &place, &text)
               ? layers_add(&o->im->layers, &place, o->err)
               : gm_err_set(o->err, GM_ERR_FORMAT,
                            "the image names the layer %s, which is not in it",
                            str_printable(o->a, name));
}

/* ------------------------------------------------------------------ the two formats */

static int read_saved(struct opening *o, const json_t *manifest)
{
    const json_t *first = json_array_get(manifest, 0);
    const json_t *layers = json_object_get(first, "Layers");
    const char *config = json_string_value(json_object_get(first, "Config"));
    const char *tag = json_string_value(json_array_get(json_object_get(first, "RepoTags"), 0));
    o->im->name = tag ? arena_strdup(o->a, tag) : NULL;
    int rc = config ? take_config(o, config)
                    : gm_err_set(o->err, GM_ERR_FORMAT, "its manifest names no configuration");
    for (size_t i = 0; rc == 0 && i < json_array_size(layers); i++) {
        const char *name = json_string_value(json_array_get(layers, i));
        rc = take_layer(o, name ? name : "(none)");
    }
    return rc;
}

static bool is_for_linux(const json_t *descriptor, const char *architecture)
{
    const json_t *p = json_object_get(descriptor, "platform");
    const char *os = json_string_value(json_object_get(p, "os"));
    const char *arch = json_string_value(json_object_get(p, "architecture"));
    return os && arch && strcmp(os, "linux") == 0 && strcmp(arch, architecture) == 0;
}

/* The manifest for this machine's processor, else the first. */
static const json_t *chosen(const json_t *index)
{
#if defined __aarch64__
    static const char here[] = "arm64";
#else
    static const char here[] = "amd64";
#endif
    const json_t *list = json_object_get(index, "manifests");
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (is_for_linux(json_array_get(list, i), here)) {
            return json_array_get(list, i);
        }
    }
    return json_array_get(list, 0);
}

static int read_manifest(struct opening *o, const json_t *doc)
{
    const json_t *layers = json_object_get(doc, "layers");
    int rc = take_config(o, blob_of(o, json_object_get(doc, "config")));
    for (size_t i = 0; o->im->layout && i < json_array_size(layers); i++) {
        const json_t *size = json_object_get(json_array_get(layers, i), "size");
        json_int_t n = json_integer_value(size);
        o->im->layers.to_read += n > 0 ? (uint64_t)n : 0;
    }
    for (size_t i = 0; rc == 0 && i < json_array_size(layers); i++) {
        rc = take_layer(o, blob_of(o, json_array_get(layers, i)));
    }
    return rc;
}

/* An index may name a further index. */
static int read_index(struct opening *o, const char *name, int depth)
{
    json_t *doc = document(o, name);
    if (!doc) {
        return o->err->code;
    }
    const json_t *next = chosen(doc);
    const char *tag = json_string_value(
        json_object_get(json_object_get(next, "annotations"), "org.opencontainers.image.ref.name"));
    o->im->name = tag ? arena_strdup(o->a, tag) : o->im->name;
    int rc;
    if (json_object_get(doc, "layers")) {
        rc = read_manifest(o, doc);
    } else if (next && depth < NESTED_MAX) {
        rc = read_index(o, blob_of(o, next), depth + 1);
    } else {
        rc = gm_err_set(o->err, GM_ERR_FORMAT, "its index names no manifest");
    }
    json_decref(doc);
    return rc;
}

static int read_image(struct opening *o)
{
    struct layer_place place;
    const char *text;
    if (find_place(o, "manifest.json", &place, &text)) {
        json_t *manifest = document(o, "manifest.json");
        int rc = manifest ? read_saved(o, manifest) : o->err->code;
        json_decref(manifest);
        return rc;
    }
    o->im->oci = true;
    return find_place(o, "index.json", &place, &text)
               ? read_index(o, "index.json", 0)
               : gm_err_set(o->err, GM_ERR_FORMAT,
                            "it is no image: it has neither manifest.json nor "
                            "index.json");
}

/* ------------------------------------------------------------------ opening */

static bool has(struct arena *a, const char *folder, const char *name)
{
    struct stat st;
    return stat(path_join(a, folder, name), &st) == 0;
}

bool image_is(const char *path)
{
    struct stat st;
    struct arena a;
    if (stat(path, &st) < 0 || S_ISREG(st.st_mode)) {
        return true;
    }
    arena_init(&a, 0, NULL, NULL);
    bool is = has(&a, path, "oci-layout") ||
              (has(&a, path, "manifest.json") && !has(&a, path, "usr") && !has(&a, path, "etc"));
    arena_release(&a);
    return is;
}

/* An ELF file, or a script with an interpreter line. */
static bool is_program(const char *path)
{
    char head[4] = {0};
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, head, sizeof head) : 0;
    if (fd >= 0) {
        (void)close(fd); // nothing was written
    }
    return n == (ssize_t)sizeof head &&
           (memcmp(head, "\177ELF", 4) == 0 || memcmp(head, "#!", 2) == 0);
}

bool image_is_meant(const char *path)
{
    struct stat st;
    struct arena a;
    if (stat(path, &st) < 0) {
        return path[0] != '/' && path[0] != '.';
    }
    if (!S_ISDIR(st.st_mode)) {
        return S_ISREG(st.st_mode) && !is_program(path);
    }
    arena_init(&a, 0, NULL, NULL);
    bool environment = has(&a, path, "pyvenv.cfg") || has(&a, path, "conda-meta");
    bool system = has(&a, path, "oci-layout") || has(&a, path, "usr") || has(&a, path, "etc");
    arena_release(&a);
    return system && !environment;
}

int image_open(struct image *im, struct arena *a, const char *path,
               void (*progress)(void *arg, uint64_t done, uint64_t size), void *progress_arg,
               struct gm_err *err)
{
    struct opening o = {.im = im, .a = a, .err = err};
    struct stat st;
    *im = (struct image){.arena = a, .fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    layers_init(&im->layers, a);
    im->layers.progress = progress;
    im->layers.progress_arg = progress_arg;
    if (im->fd < 0 || fstat(im->fd, &st) < 0) {
        return open_error(&o, path);
    }
    im->layout = S_ISDIR(st.st_mode);
    if (!im->layout && !S_ISREG(st.st_mode)) {
        return gm_err_set(err, GM_ERR_LOOK, "%s is neither a file nor a folder", path);
    }
    if (!im->layout) {
        im->layers.to_read = (uint64_t)st.st_size;
        im->outer = (struct outer){.fd = im->fd,
                                   .size = (uint64_t)st.st_size,
                                   .progress = progress,
                                   .progress_arg = progress_arg};
    }
    int rc = im->layout ? 0 : list_members(&o);
    rc = rc < 0 ? rc : read_image(&o);
    layers_added(&im->layers);
    return rc;
}

void image_close(struct image *im)
{
    layers_release(&im->layers);
    outer_release(&im->outer);
    for (size_t i = 0; i < im->blobs.n; i++) {
        (void)close(im->blobs.items[i]); // nothing was written
    }
    if (im->fd >= 0) {
        (void)close(im->fd);
    }
    im->fd = -1;
}
