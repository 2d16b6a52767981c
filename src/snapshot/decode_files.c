/* The files of a snapshot: nodes by type, their content, and what could not be read. */
#include <string.h>
#include <zstd.h>

#include "snapshot/decoder.h"
#include "snapshot/internal.h"

/*
 * A document may come from anywhere. Bounded here: its size, the number of its values, the bytes
 * that its content unpacks to, the size of a file it speaks of. Everything is checked before it is
 * believed: paths are absolute and without links, ranges lie inside the content and their file.
 */
enum { CONTENT_BYTES_MAX = 512 << 20 };

const char *const snapshot_types[] = {
    [SNAP_ERROR] = "",    [SNAP_DIR] = "dir",     [SNAP_FILE] = "file",   [SNAP_LINK] = "link",
    [SNAP_CHAR] = "char", [SNAP_BLOCK] = "block", [SNAP_OTHER] = "other",
};

static bool range_of(struct decoder *d, const json_t *item, uint64_t size, struct pages_range *ret)
{
    json_int_t v[3];
    if (!json_is_array(item) || json_array_size(item) != 3) {
        return false;
    }
    for (size_t i = 0; i < 3; i++) {
        const json_t *value = json_array_get(item, i);
        if (!json_is_integer(value) || json_integer_value(value) < 0) {
            return false;
        }
        v[i] = json_integer_value(value);
    }
    uint64_t offset = (uint64_t)v[0], n = (uint64_t)v[1], at = (uint64_t)v[2];
    if (offset > size || n > size - offset || at > d->n_content || n > d->n_content - at) {
        return false;
    }
    *ret = (struct pages_range){offset, (size_t)n, d->content + at};
    return true;
}

static bool node_read_ranges(struct decoder *d, const json_t *list, struct snap_node *n)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || n->size == 0) {
        return false;
    }
    struct pages_range *ranges = arena_array(d->arena, count + 1, sizeof *ranges);
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        if (!range_of(d, json_array_get(list, i), n->size, &ranges[i]) || ranges[i].offset < end ||
            ranges[i].n == 0) {
            return false;
        }
        end = ranges[i].offset + ranges[i].n;
    }
    n->pages = arena_alloc(d->arena, sizeof *n->pages);
    *n->pages = (struct pages){.size = (size_t)n->size, .ranges = ranges, .n_ranges = count};
    return true;
}

static bool read_head(struct decoder *d, const json_t *o, struct snap_node *n)
{
    const json_t *text = json_object_get(o, "text"), *head = json_object_get(o, "head");
    struct pages_range range;
    if (json_is_string(text)) {
        n->data = (struct str){json_string_value(text), json_string_length(text)};
        n->data.s = arena_strndup(d->arena, n->data.s, n->data.n);
    } else if (head) {
        // Files of /proc state no size: what was read of them may be more.
        if (json_array_size(head) != 1 ||
            !range_of(d, json_array_get(head, 0), CONTENT_BYTES_MAX, &range) || range.offset) {
            return false;
        }
        n->data = (struct str){(const char *)range.bytes, range.n};
    } else {
        return !text;
    }
    n->has_data = true;
    n->whole = json_is_true(json_object_get(o, "whole"));
    return true;
}

static bool node_read_file(struct decoder *d, const json_t *o, struct snap_node *n)
{
    json_int_t size;
    if (!snapshot_integer_in(o, "size", 0, FILE_BYTES_MAX, &size)) {
        return false;
    }
    n->size = (uint64_t)size;
    const json_t *pages = json_object_get(o, "pages");
    return snapshot_rc_of(o, "open", 0, &n->open_rc) && snapshot_rc_of(o, "read", 0, &n->read_rc) &&
           snapshot_rc_of(o, "capabilities", 1, &n->capabilities) && read_head(d, o, n) &&
           (!pages || node_read_ranges(d, pages, n));
}

static bool read_names(struct decoder *d, const json_t *o, struct snap_node *n)
{
    snapshot_texts list = {0};
    if (!snapshot_rc_of(o, "list", 0, &n->list_rc)) {
        return false;
    }
    if (n->list_rc != 0) {
        return !json_object_get(o, "names");
    }
    if (!snapshot_texts_of(d, json_object_get(o, "names"), &list)) {
        return false;
    }
    for (size_t i = 0; i < list.n; i++) {
        if (!snapshot_node_is_name(list.items[i]) ||
            (i && strcmp(list.items[i - 1], list.items[i]) >= 0)) {
            return false;
        }
        VEC_PUSH(d->arena, &n->names, (struct snap_name){.name = list.items[i]});
    }
    n->partly = json_is_true(json_object_get(o, "partly"));
    return true;
}

static bool add_failed(struct decoder *d, const struct snap_node *dir, const json_t *name,
                       int error)
{
    const char *text;
    if (!snapshot_decode_text(d, name, &text) || !snapshot_node_is_name(text)) {
        return false;
    }
    const char *slash = dir->path[1] ? "/" : "";
    struct snap_node *n =
        snap_put(&d->s->files, arena_printf(d->arena, "%s%s%s", dir->path, slash, text));
    if (!n) {
        return false;
    }
    n->error = error;
    return true;
}

static bool read_failures(struct decoder *d, const json_t *o, const struct snap_node *dir)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(o, "absent"), i, item)
    {
        if (!add_failed(d, dir, item, -ENOENT)) {
            return false;
        }
    }
    json_array_foreach(json_object_get(o, "failed"), i, item)
    {
        json_int_t error = json_integer_value(json_array_get(item, 1));
        if (error >= 0 || error < -4095 ||
            !add_failed(d, dir, json_array_get(item, 0), (int)error)) {
            return false;
        }
    }
    return true;
}

static bool read_access(const json_t *o, struct snap_node *n)
{
    const json_t *answers = json_object_get(o, "access");
    for (size_t i = 0; i < sizeof n->access / sizeof *n->access; i++) {
        char mode[2] = {(char)('0' + i), '\0'};
        if (!snapshot_rc_of(answers, mode, 0, &n->access[i])) {
            return false;
        }
    }
    return true;
}

static bool read_owner(const json_t *o, struct snap_node *n)
{
    json_int_t mode, uid, gid;
    if (!snapshot_integer_in(o, "mode", 0, 07777, &mode) ||
        !snapshot_integer_in(o, "uid", 0, UINT32_MAX, &uid) ||
        !snapshot_integer_in(o, "gid", 0, UINT32_MAX, &gid)) {
        return false;
    }
    n->mode = (mode_t)mode;
    n->uid = (uid_t)uid;
    n->gid = (gid_t)gid;
    return true;
}

static bool node_read_device(const json_t *o, struct snap_node *n)
{
    json_int_t major, minor;
    if (!snapshot_integer_in(o, "major", 0, UINT32_MAX, &major) ||
        !snapshot_integer_in(o, "minor", 0, UINT32_MAX, &minor)) {
        return false;
    }
    n->major = (unsigned)major;
    n->minor = (unsigned)minor;
    return true;
}

static bool read_link(struct decoder *d, const json_t *o, struct snap_node *n)
{
    if (!snapshot_rc_of(o, "readlink", -1, &n->link_rc) ||
        !snapshot_decode_text(d, json_object_get(o, "target"), &n->link)) {
        return false;
    }
    if (n->link) {
        n->link_rc = 0;
    }
    return n->link_rc != 0 || (*n->link && strlen(n->link) < SNAP_PATH_MAX);
}

static bool type_named(const json_t *value, enum snap_type *ret)
{
    const char *name = json_string_value(value);
    for (int i = SNAP_DIR; name && i < SNAPSHOT_TYPES; i++) {
        if (strcmp(name, snapshot_types[i]) == 0) {
            *ret = (enum snap_type)i;
            return true;
        }
    }
    return false;
}

static bool read_by_type(struct decoder *d, const json_t *o, struct snap_node *n)
{
    switch (n->type) {
    case SNAP_LINK: return read_link(d, o, n);
    case SNAP_FILE: return read_owner(o, n) && read_access(o, n) && node_read_file(d, o, n);
    case SNAP_DIR: return read_owner(o, n) && read_access(o, n) && read_names(d, o, n);
    case SNAP_CHAR:
    case SNAP_BLOCK: return read_owner(o, n) && read_access(o, n) && node_read_device(o, n);
    case SNAP_OTHER: return read_owner(o, n) && read_access(o, n);
    case SNAP_ERROR: break;
    }
    return false;
}

static int read_node(struct decoder *d, const json_t *o, size_t index)
{
    const char *path;
    enum snap_type type;
    if (!snapshot_decode_text(d, json_object_get(o, "path"), &path) || !path ||
        !snapshot_is_plain_path(path)) {
        return snapshot_decoder_bad(d, "files", "a path that is not plain");
    }
    if (!type_named(json_object_get(o, "type"), &type)) {
        return snapshot_decoder_bad(d, path, "its type is none");
    }
    struct snap_node *n = snap_put(&d->s->files, path);
    if (!n) {
        return snapshot_decoder_bad(d, path, "it stands there twice");
    }
    n->type = type;
    n->error = 0;
    n->dev = 1;
    n->ino = index + 1;
    if (!read_by_type(d, o, n)) {
        return snapshot_decoder_bad(d, path, "what is said of it makes no sense");
    }
    return 0;
}

/* The second round: what speaks of other files. */
static int read_relations(struct decoder *d, const json_t *o)
{
    const char *path, *same;
    if (!snapshot_decode_text(d, json_object_get(o, "path"), &path) ||
        !snapshot_decode_text(d, json_object_get(o, "same_as"), &same)) {
        return snapshot_decoder_bad(d, "files", "a path that is not a text");
    }
    struct snap_node *n = snap_find(&d->s->files, path);
    const struct snap_node *up = snap_find(&d->s->files, path_dir(d->arena, path));
    const struct snap_node *first = same ? snap_find(&d->s->files, same) : NULL;
    if (!up || up->type != SNAP_DIR) {
        return snapshot_decoder_bad(d, path, "it is in no folder");
    }
    if (same && (!first || first->type != SNAP_FILE || n->type != SNAP_FILE)) {
        return snapshot_decoder_bad(d, path, "the file it is the same as is not there");
    }
    if (first) {
        n->ino = first->ino;
    }
    return n->type != SNAP_DIR || read_failures(d, o, n)
               ? 0
               : snapshot_decoder_bad(d, path, "what it does not hold makes no sense");
}

int snapshot_read_files(struct decoder *d, const json_t *list)
{
    size_t n = json_array_size(list);
    int rc = n ? 0 : snapshot_decoder_bad(d, "files", "there are none");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = read_node(d, json_array_get(list, i), i);
    }
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = read_relations(d, json_array_get(list, i));
    }
    return rc;
}

int snapshot_read_content(struct decoder *d, const json_t *o)
{
    json_int_t bytes;
    const json_t *chunks = json_object_get(o, "chunks");
    if (!snapshot_integer_in(o, "bytes", 0, CONTENT_BYTES_MAX, &bytes)) {
        return snapshot_decoder_bad(d, "content", "its size is none, or too large");
    }
    size_t n = (size_t)bytes;
    if (d->given.s) {
        d->content = (const unsigned char *)d->given.s;
        d->n_content = d->given.n;
        return d->given.n == n ? 0 : snapshot_decoder_bad(d, "content", "it has another size");
    }
    if (json_array_size(chunks) != (n + SNAPSHOT_CHUNK_BYTES - 1) / SNAPSHOT_CHUNK_BYTES) {
        return snapshot_decoder_bad(d, "content", "the number of its chunks does not fit its size");
    }
    unsigned char *out = arena_alloc(d->arena, n + 1);
    for (size_t i = 0, at = 0; at < n; i++, at += SNAPSHOT_CHUNK_BYTES) {
        size_t want = n - at < SNAPSHOT_CHUNK_BYTES ? n - at : SNAPSHOT_CHUNK_BYTES;
        const json_t *chunk = json_array_get(chunks, i);
        struct str packed;
        if (!json_is_string(chunk) || !snapshot_base64_bytes(d->arena, json_string_value(chunk),
                                                             json_string_length(chunk), &packed)) {
            return snapshot_decoder_bad(d, "content", "a chunk is not base64");
        }
        if (ZSTD_decompress(out + at, want, packed.s, packed.n) != want) {
            return snapshot_decoder_bad(d, "content", "a chunk does not unpack to its size");
        }
    }
    d->content = out;
    d->n_content = n;
    return 0;
}
