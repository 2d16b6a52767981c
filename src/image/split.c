#include "image/split.h"

#include <errno.h>
#include <jansson.h>
#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/json.h"
#include "image/digest.h"
#include "image/layers.h"

enum { LINE_MAX_BYTES = 8 << 20, BLOCK = 256 << 10, TYPE_FILE = 1 };
enum { LINE_WEIGHT = 16 }; // a byte of JSON takes as long as so many of a file
static const char damaged[] = "the engine's record of its archive is damaged";

/* Where in the archive the content of a file begins. */
struct split_part {
    uint64_t offset, size;
    const char *name; // as the record has it, from its first character that is no slash
};

struct split {
    struct root *root;
    struct arena *arena; // of the layer
    const char *folder;
    struct arena scratch; // of one line
    struct image_digest digest;
    struct image_digest_run run;
    gzFile from;
    char *line;
    unsigned char *block;
    bool any;                     // line
    int fd;                       // of the file whose content comes, or -1
    uint64_t wanted;              // of its bytes
    uint64_t at;                  // so many bytes of the archive have come
    VEC(struct split_part) parts; // by offset
    uint64_t *left;               // bytes that may still be read
    const char *why;              // the layer cannot be checked; NULL: so far it can
    int rc;                       // the same for what is an error
    struct gm_err *err;
};

static void set_changed(struct split *s, const char *name, const char *what)
{
    s->rc = gm_err_set(s->err, GM_ERR_FORMAT,
                       "a layer of the image is damaged or was changed: %.200s %s; --no-verify "
                       "reads the image all the same",
                       str_printable(&s->scratch, name), what);
}

/* Counts what is read; too much is not checked. */
static bool spend(struct split *s, uint64_t n)
{
    bool enough = n <= *s->left;
    *s->left -= enough ? n : *s->left;
    s->why = enough ? s->why : "more than 64 GiB of the image would have to be read";
    return enough;
}

/* The piece of an archive that a line holds; valid until the next line. */
static size_t split_take_piece(struct split *s, const char *text, const void **ret)
{
    struct base64_decode_ctx ctx;
    size_t n = strlen(text), got = BASE64_DECODE_LENGTH(n);
    unsigned char *bytes = arena_alloc(&s->scratch, got + 1);
    base64_decode_init(&ctx);
    if (!base64_decode_update(&ctx, &got, bytes, n, text) || !base64_decode_final(&ctx)) {
        s->why = damaged;
        return 0;
    }
    *ret = bytes;
    return got;
}

/* Whether a folder part of the name is a link: where the file lies is the engine's business. */
static bool through_link(struct split *s, const char *name)
{
    const char *at = s->folder;
    struct str rest = str_of(name);
    struct stat st;
    while (rest.s) {
        struct str part = str_cut(&rest, '/');
        if (str_is(part, "..")) {
            return true;
        }
        if (!rest.s || part.n == 0 || str_is(part, ".")) {
            continue;
        }
        at = path_join(&s->scratch, at, str_dup(&s->scratch, part));
        if (root_lstat(s->root, at, &st) == 0 && S_ISLNK(st.st_mode)) {
            return true;
        }
    }
    return false;
}

static void open_content(struct split *s, const char *name, uint64_t size)
{
    struct stat st;
    name += strspn(name, "/");
    if (through_link(s, name)) {
        s->why = "a name in it leads through a link";
        return;
    }
    s->fd = root_open_file(s->root, path_join(&s->scratch, s->folder, name), &st);
    if (s->fd == -ENOENT) {
        set_changed(s, name, "is missing");
    } else if (s->fd < 0) {
        s->why = s->fd == -EACCES || s->fd == -EPERM ? "this user may not read all of its files"
                                                     : "one of its files cannot be opened";
    } else if ((uint64_t)st.st_size != size) {
        set_changed(s, name, "has another size");
    }
    struct split_part part = {s->at, size, arena_strdup(s->arena, name)};
    VEC_PUSH(s->arena, &s->parts, part);
    s->wanted = size;
}

/* The next line: a piece of the archive, of which the length is returned, or a file to be read. */
static size_t split_take_line(struct split *s, const void **ret)
{
    json_t *doc = json_loads(s->line, 0, NULL);
    const char *name = json_text(doc, "name");
    const char *payload = json_text(doc, "payload");
    json_int_t size = json_integer_value(json_object_get(doc, "size"));
    bool is_file = json_integer_value(json_object_get(doc, "type")) == TYPE_FILE;
    size_t n = 0;
    if (!is_file && payload) {
        n = split_take_piece(s, payload, ret);
    } else if (!is_file || size < 0) {
        s->why = damaged;
    } else if (size > 0 && !name) {
        s->why = json_object_get(doc, "name_raw") ? "a name in it is not UTF-8" : damaged;
    } else if (size > 0) {
        open_content(s, name, (uint64_t)size);
    }
    json_decref(doc);
    return n;
}

static bool split_goes_on(const struct split *s)
{
    return s->rc == 0 && !s->why;
}

/* False: there is none, or it cannot be read. */
static bool split_next_line(struct split *s)
{
    if (!gzgets(s->from, s->line, LINE_MAX_BYTES)) {
        int code = Z_OK;
        (void)gzerror(s->from, &code);
        s->why = code != Z_OK || !s->any ? damaged : NULL;
        return false;
    }
    size_t n = strlen(s->line);
    s->any = true;
    if (n == 0 || s->line[n - 1] != '\n') {
        s->why = damaged;
        return false;
    }
    arena_release(&s->scratch);
    arena_init(&s->scratch, 0, NULL, NULL);
    return spend(s, (uint64_t)n * LINE_WEIGHT);
}

static void close_content(struct split *s)
{
    if (s->fd >= 0) {
        (void)close(s->fd); // only read
    }
    s->fd = -1;
}

static size_t split_take_content(struct split *s, const void **ret)
{
    ssize_t n = read(s->fd, s->block, s->wanted < BLOCK ? (size_t)s->wanted : BLOCK);
    if (n <= 0) {
        set_changed(s, s->parts.items[s->parts.n - 1].name, "could not be read to its end");
        return 0;
    }
    s->wanted -= (uint64_t)n;
    if (s->wanted == 0) {
        close_content(s);
    }
    *ret = s->block;
    return (size_t)n;
}

/* The next bytes of the archive (struct layer_feed). */
static bool split_next_bytes(void *arg, const void **ret, size_t *ret_n)
{
    struct split *s = arg;
    size_t n = 0;
    *ret = s->block;
    while (n == 0 && split_goes_on(s) && (s->fd >= 0 || split_next_line(s))) {
        n = s->fd >= 0 ? split_take_content(s, ret) : split_take_line(s, ret);
    }
    if (!split_goes_on(s) || !spend(s, n)) {
        return false;
    }
    image_digest_take(&s->run, *ret, n);
    s->at += n;
    *ret_n = n;
    return true;
}

/* ------------------------------------------------------------------ archive and folder */

struct comparison {
    struct split *split;
    struct image_layers archive, own; // a layer each, by itself
    struct arena scratch;             // of one node
};

static void set_doubt(struct comparison *c, const char *path, const char *what)
{
    c->split->why =
        arena_printf(c->split->arena, "%.200s %s", str_printable(&c->scratch, path), what);
}

static bool has_attribute(struct comparison *c, const char *path, const char *name)
{
    const struct split *s = c->split;
    return root_attribute(s->root, arena_printf(&c->scratch, "%s/%s", s->folder, path), name, NULL,
                          0) >= 0;
}

/* Whether a part's name is the file at `path`, which may be another hard link to it. */
static bool comparison_is_same_file(struct comparison *c, const char *name, const char *path)
{
    const struct split *s = c->split;
    struct stat x, y;
    while (starts_with(name, "./") || *name == '/') {
        name += *name == '/' ? 1 : 2;
    }
    return strcmp(name, path) == 0 ||
           (root_lstat(s->root, path_join(&c->scratch, s->folder, name), &x) == 0 &&
            root_lstat(s->root, path_join(&c->scratch, s->folder, path), &y) == 0 &&
            x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

static int by_offset(const void *key, const void *item)
{
    uint64_t x = *(const uint64_t *)key, y = ((const struct split_part *)item)->offset;
    return x < y ? -1 : x > y;
}

/* Whether the content that the archive has there is that of the folder's file. */
static bool comes_from_file(struct comparison *c, const struct image_layer_file *f,
                            const char *path)
{
    const struct split *s = c->split;
    const struct split_part *part =
        f->in_place && s->parts.n
            ? bsearch(&f->offset, s->parts.items, s->parts.n, sizeof *part, by_offset)
            : NULL;
    return part && part->size == f->size && comparison_is_same_file(c, part->name, path);
}

static void compare_files(struct comparison *c, const struct image_layer_file *archive,
                          const struct image_layer_file *own, const char *path)
{
    if (archive->size != own->size) {
        set_changed(c->split, path, "has another size");
    } else if (archive->size && !comes_from_file(c, archive, path)) {
        set_doubt(c, path, "is not compared by the engine's record of its archive");
    } else if (has_attribute(c, path, "trusted.overlay.metacopy")) {
        set_doubt(c, path, "may have its content in another layer");
    }
}

/* Two nodes of a name; *path* is below the folder. */
static void comparison_nodes(struct comparison *c, const struct image_layer_node *archive,
                             const struct image_layer_node *own, const char *path)
{
    bool is_content = archive->type == SNAP_FILE || archive->type == SNAP_LINK ||
                      own->type == SNAP_FILE || own->type == SNAP_LINK;
    if (archive->type != own->type && is_content) {
        set_changed(c->split, path, "is of another kind");
    } else if (archive->type != own->type || archive->whiteout != own->whiteout) {
        set_doubt(c, path, "is of another kind than in its archive");
    } else if (archive->type == SNAP_FILE) {
        compare_files(c, archive->file, own->file, path);
    } else if (archive->type == SNAP_LINK && strcmp(archive->link, own->link) != 0) {
        set_changed(c->split, path, "leads elsewhere");
    } else if (archive->type == SNAP_DIR && archive->opaque != own->opaque) {
        set_doubt(c, path, "does not hide earlier layers as its archive says");
    } else if (archive->type == SNAP_DIR && has_attribute(c, path, "trusted.overlay.redirect")) {
        set_doubt(c, path, "may have its content elsewhere");
    } else if ((archive->type == SNAP_CHAR || archive->type == SNAP_BLOCK) && !archive->whiteout &&
               (archive->major != own->major || archive->minor != own->minor)) {
        set_doubt(c, path, "is another device than in its archive");
    }
}

/* What the folder has and the archive does not. */
static void find_added(struct comparison *c, const struct image_layer_node *archive,
                       const struct image_layer_node *own, const char *path)
{
    for (const struct image_layer_node *n = own->down; n && split_goes_on(c->split); n = n->next) {
        if (!n->gone && !layers_child(&c->archive, archive, n->name)) {
            const char *name = *path ? path_join(&c->scratch, path, n->name) : n->name;
            if (n->type == SNAP_FILE || n->type == SNAP_LINK) {
                set_changed(c->split, name, "is not in its archive");
            } else {
                set_doubt(c, name, "is not in its archive");
            }
        }
    }
}

static void compare_folders(struct comparison *c, const struct image_layer_node *archive,
                            const struct image_layer_node *own, const char *path)
{
    struct arena names;
    arena_init(&names, 0, NULL, NULL);
    for (const struct image_layer_node *n = archive->down; n && split_goes_on(c->split);
         n = n->next) {
        const char *name = *path ? path_join(&names, path, n->name) : n->name;
        const struct image_layer_node *same = layers_child(&c->own, own, n->name);
        arena_init(&c->scratch, 0, NULL, NULL);
        if (!n->gone && !same) {
            set_doubt(c, name, "is not in the layer's folder");
        } else if (!n->gone) {
            comparison_nodes(c, n, same, name);
        }
        arena_release(&c->scratch);
        if (!n->gone && n->type == SNAP_DIR && split_goes_on(c->split)) {
            compare_folders(c, n, same, name);
        }
    }
    arena_init(&c->scratch, 0, NULL, NULL);
    find_added(c, archive, own, path);
    arena_release(&c->scratch);
    arena_release(&names);
}

/* The archive is read to its end, whatever it holds. */
static void finish_archive(struct split *s)
{
    const void *bytes;
    size_t n = 1;
    while (n && split_next_bytes(s, &bytes, &n)) {
    }
    if (split_goes_on(s)) {
        struct arena a;
        arena_init(&a, 0, NULL, NULL);
        s->rc = image_digest_end(&s->run, &a, s->folder, s->err);
        arena_release(&a);
    }
}

static void compare_layer(struct split *s)
{
    struct comparison c = {.split = s};
    struct image_layer_node archive, own;
    struct gm_err err;
    const struct layer_feed feed = {split_next_bytes, s};
    const struct image_layer_place place = {.fd = -1, .size = IMAGE_SPLIT_BYTES_MAX, .feed = &feed};
    image_layers_init(&c.archive, s->arena);
    image_layers_init(&c.own, s->arena);
    int rc = layers_read(&c.archive, &place, &archive, &err);
    finish_archive(s);
    if (split_goes_on(s) && (rc < 0 || c.archive.n_refused || c.archive.n_unnamed)) {
        s->why = "its archive cannot be read as engines do";
    }
    if (split_goes_on(s) && layers_read_folder(&c.own, s->root, s->folder, &own, &err) < 0) {
        s->why = "its folder cannot be read";
    }
    if (split_goes_on(s)) {
        compare_folders(&c, &archive, &own, "");
    }
    image_layers_release(&c.archive);
    image_layers_release(&c.own);
}

/* Whether the rest of the record has a name that is not the place itself: it leads through a link,
 * begins at the root or climbs. What engines write there lands on a file that may stand before it
 * by its own name, which then is not what the archive has by that. */
static bool rest_has_two_names(struct split *s)
{
    bool found = false;
    while (!found && split_next_line(s)) {
        json_t *doc = json_loads(s->line, 0, NULL);
        const char *name = json_text(doc, "name");
        found = name && (name[0] == '/' || strstr(name, "../") || through_link(s, name));
        json_decref(doc);
    }
    return found;
}

static int check_record(struct split *s)
{
    s->line = malloc(LINE_MAX_BYTES);
    s->block = malloc(BLOCK);
    arena_init(&s->scratch, 0, NULL, NULL);
    image_digest_begin(&s->run, &s->digest);
    if (s->line && s->block) {
        compare_layer(s);
        if (s->rc < 0 && rest_has_two_names(s)) {
            s->rc = 0;
            s->why = "a file in it may have two names";
        }
    } else {
        s->rc = gm_err_set(s->err, GM_ERR_LIMIT, "out of memory");
    }
    close_content(s);
    arena_release(&s->scratch);
    free(s->line);
    free(s->block);
    return s->rc;
}

int image_split_check(struct root *r, struct arena *a, const struct image_split_layer *layer,
                      uint64_t *left, const char **ret_why, struct gm_err *err)
{
    struct arena own; // two trees, which nobody needs afterwards
    struct split s = {
        .root = r, .arena = &own, .folder = layer->folder, .fd = -1, .left = left, .err = err};
    int rc = image_digest_parse(layer->digest, &s.digest, err);
    *ret_why = NULL;
    if (rc < 0) {
        return rc;
    }
    int fd = root_open_file(r, layer->record, NULL);
    s.from = fd >= 0 ? gzdopen(fd, "rb") : NULL;
    if (!s.from) {
        *ret_why = fd == -ENOENT ? "the engine kept no record of its archive"
                                 : "the engine's record of its archive cannot be read";
        if (fd >= 0) {
            (void)close(fd); // only read
        }
        return 0;
    }
    arena_init(&own, 0, NULL, NULL);
    rc = check_record(&s);
    *ret_why = s.why ? arena_strdup(a, s.why) : NULL;
    arena_release(&own);
    (void)gzclose(s.from); // only read
    return rc;
}
