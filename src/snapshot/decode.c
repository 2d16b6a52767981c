#include "snapshot/internal.h"

#include <string.h>
#include <zstd.h>

/*
 * A document may come from anywhere. Bounded here: its size, the number of its values, the bytes
 * that its content unpacks to, the size of a file it speaks of. Everything is checked before it is
 * believed: paths are absolute and without links, ranges lie inside the content and their file.
 */
enum {
    DOCUMENT_BYTES_MAX = 128 << 20,
    VALUES_MAX = 8 << 20,
    CONTENT_BYTES_MAX = 512 << 20,
    NAME_BYTES_MAX = 255,
};
#define FILE_BYTES_MAX ((json_int_t)1 << 34)

const char *const snapshot_types[] = {
    [SNAP_ERROR] = "",    [SNAP_DIR] = "dir",     [SNAP_FILE] = "file",   [SNAP_LINK] = "link",
    [SNAP_CHAR] = "char", [SNAP_BLOCK] = "block", [SNAP_OTHER] = "other",
};

struct decoder {
    struct snapshot *s;
    struct arena *arena;
    struct gm_err *err;
    const unsigned char *content;
    size_t n_content;
    struct str given; // in the place of the document's chunks; NULL: these
};

static int decoder_bad(struct decoder *d, const char *where, const char *what)
{
    return gm_err_set(d->err, GM_ERR_FORMAT, "%s: %s", str_printable(d->arena, where), what);
}

/* ------------------------------------------------------------------ base64 */

static int digit_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static bool base64_bytes(struct arena *a, const char *s, size_t n, struct str *ret)
{
    if (n % 4) {
        return false;
    }
    size_t pad = n && s[n - 1] == '=' ? (s[n - 2] == '=' ? 2 : 1) : 0;
    char *out = arena_alloc(a, n / 4 * 3 + 1);
    size_t at = 0;
    for (size_t i = 0; i < n; i += 4) {
        uint32_t v = 0;
        for (size_t k = 0; k < 4; k++) {
            int digit = i + k >= n - pad ? 0 : digit_of(s[i + k]);
            if (digit < 0) {
                return false;
            }
            v = v << 6 | (uint32_t)digit;
        }
        out[at++] = (char)(v >> 16);
        out[at++] = (char)(v >> 8 & 255);
        out[at++] = (char)(v & 255);
    }
    at -= pad;
    out[at] = '\0';
    *ret = (struct str){out, at};
    return true;
}

/* ------------------------------------------------------------------ values */

/* A text without NUL; *ret NULL for null or nothing. */
static bool decode_text(struct decoder *d, const json_t *value, const char **ret)
{
    *ret = NULL;
    if (!value || json_is_null(value)) {
        return true;
    }
    const char *s = json_string_value(value);
    size_t n = json_string_length(value);
    if (!s || strlen(s) != n) {
        return false;
    }
    struct str bytes = {s, n};
    if (starts_with(s, SNAPSHOT_BASE64_MARK)) {
        size_t mark = strlen(SNAPSHOT_BASE64_MARK);
        if (!base64_bytes(d->arena, s + mark, n - mark, &bytes) || strlen(bytes.s) != bytes.n) {
            return false;
        }
    }
    *ret = arena_strndup(d->arena, bytes.s, bytes.n);
    return true;
}

static bool texts_of(struct decoder *d, const json_t *list, snapshot_texts *ret)
{
    size_t i;
    const json_t *item;
    if (!json_is_array(list)) {
        return false;
    }
    json_array_foreach((json_t *)(uintptr_t)list, i, item)
    {
        const char *s;
        if (!decode_text(d, item, &s) || !s) {
            return false;
        }
        VEC_PUSH(d->arena, ret, s);
    }
    return true;
}

static bool integer_in(const json_t *o, const char *key, json_int_t min, json_int_t max,
                       json_int_t *ret)
{
    const json_t *value = json_object_get(o, key);
    if (!json_is_integer(value)) {
        return false;
    }
    *ret = json_integer_value(value);
    return *ret >= min && *ret <= max;
}

/* 0 or a negative errno; untouched where it is not there. */
static bool rc_of(const json_t *o, const char *key, json_int_t max, int *ret)
{
    json_int_t value;
    if (!json_object_get(o, key)) {
        return true;
    }
    if (!integer_in(o, key, -4095, max, &value)) {
        return false;
    }
    *ret = (int)value;
    return true;
}

/* Absolute, without empty parts, "." and "..". */
static bool is_plain_path(const char *path)
{
    if (path[0] != '/' || strlen(path) >= SNAP_PATH_MAX) {
        return false;
    }
    for (const char *p = path; p[1]; p += strcspn(p + 1, "/") + 1) {
        size_t n = strcspn(p + 1, "/");
        if (n == 0 || n > NAME_BYTES_MAX || (n == 1 && p[1] == '.') ||
            (n == 2 && p[1] == '.' && p[2] == '.')) {
            return false;
        }
        if (p[n + 1] == '/' && !p[n + 2]) {
            return false;
        }
    }
    return true;
}

static bool node_is_name(const char *name)
{
    return name && *name && strlen(name) <= NAME_BYTES_MAX && !strchr(name, '/') &&
           strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* ------------------------------------------------------------------ files */

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
    if (!integer_in(o, "size", 0, FILE_BYTES_MAX, &size)) {
        return false;
    }
    n->size = (uint64_t)size;
    const json_t *pages = json_object_get(o, "pages");
    return rc_of(o, "open", 0, &n->open_rc) && rc_of(o, "read", 0, &n->read_rc) &&
           rc_of(o, "capabilities", 1, &n->capabilities) && read_head(d, o, n) &&
           (!pages || node_read_ranges(d, pages, n));
}

static bool read_names(struct decoder *d, const json_t *o, struct snap_node *n)
{
    snapshot_texts list = {0};
    if (!rc_of(o, "list", 0, &n->list_rc)) {
        return false;
    }
    if (n->list_rc != 0) {
        return !json_object_get(o, "names");
    }
    if (!texts_of(d, json_object_get(o, "names"), &list)) {
        return false;
    }
    for (size_t i = 0; i < list.n; i++) {
        if (!node_is_name(list.items[i]) || (i && strcmp(list.items[i - 1], list.items[i]) >= 0)) {
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
    if (!decode_text(d, name, &text) || !node_is_name(text)) {
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
        if (!rc_of(answers, mode, 0, &n->access[i])) {
            return false;
        }
    }
    return true;
}

static bool read_owner(const json_t *o, struct snap_node *n)
{
    json_int_t mode, uid, gid;
    if (!integer_in(o, "mode", 0, 07777, &mode) || !integer_in(o, "uid", 0, UINT32_MAX, &uid) ||
        !integer_in(o, "gid", 0, UINT32_MAX, &gid)) {
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
    if (!integer_in(o, "major", 0, UINT32_MAX, &major) ||
        !integer_in(o, "minor", 0, UINT32_MAX, &minor)) {
        return false;
    }
    n->major = (unsigned)major;
    n->minor = (unsigned)minor;
    return true;
}

static bool read_link(struct decoder *d, const json_t *o, struct snap_node *n)
{
    if (!rc_of(o, "readlink", -1, &n->link_rc) ||
        !decode_text(d, json_object_get(o, "target"), &n->link)) {
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
    if (!decode_text(d, json_object_get(o, "path"), &path) || !path || !is_plain_path(path)) {
        return decoder_bad(d, "files", "a path that is not plain");
    }
    if (!type_named(json_object_get(o, "type"), &type)) {
        return decoder_bad(d, path, "its type is none");
    }
    struct snap_node *n = snap_put(&d->s->files, path);
    if (!n) {
        return decoder_bad(d, path, "it stands there twice");
    }
    n->type = type;
    n->error = 0;
    n->dev = 1;
    n->ino = index + 1;
    if (!read_by_type(d, o, n)) {
        return decoder_bad(d, path, "what is said of it makes no sense");
    }
    return 0;
}

/* The second round: what speaks of other files. */
static int read_relations(struct decoder *d, const json_t *o)
{
    const char *path, *same;
    if (!decode_text(d, json_object_get(o, "path"), &path) ||
        !decode_text(d, json_object_get(o, "same_as"), &same)) {
        return decoder_bad(d, "files", "a path that is not a text");
    }
    struct snap_node *n = snap_find(&d->s->files, path);
    const struct snap_node *up = snap_find(&d->s->files, path_dir(d->arena, path));
    const struct snap_node *first = same ? snap_find(&d->s->files, same) : NULL;
    if (!up || up->type != SNAP_DIR) {
        return decoder_bad(d, path, "it is in no folder");
    }
    if (same && (!first || first->type != SNAP_FILE || n->type != SNAP_FILE)) {
        return decoder_bad(d, path, "the file it is the same as is not there");
    }
    if (first) {
        n->ino = first->ino;
    }
    return n->type != SNAP_DIR || read_failures(d, o, n)
               ? 0
               : decoder_bad(d, path, "what it does not hold makes no sense");
}

static int read_files(struct decoder *d, const json_t *list)
{
    size_t n = json_array_size(list);
    int rc = n ? 0 : decoder_bad(d, "files", "there are none");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = read_node(d, json_array_get(list, i), i);
    }
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = read_relations(d, json_array_get(list, i));
    }
    return rc;
}

/* ------------------------------------------------------------------ content */

static int read_content(struct decoder *d, const json_t *o)
{
    json_int_t bytes;
    const json_t *chunks = json_object_get(o, "chunks");
    if (!integer_in(o, "bytes", 0, CONTENT_BYTES_MAX, &bytes)) {
        return decoder_bad(d, "content", "its size is none, or too large");
    }
    size_t n = (size_t)bytes;
    if (d->given.s) {
        d->content = (const unsigned char *)d->given.s;
        d->n_content = d->given.n;
        return d->given.n == n ? 0 : decoder_bad(d, "content", "it has another size");
    }
    if (json_array_size(chunks) != (n + SNAPSHOT_CHUNK_BYTES - 1) / SNAPSHOT_CHUNK_BYTES) {
        return decoder_bad(d, "content", "the number of its chunks does not fit its size");
    }
    unsigned char *out = arena_alloc(d->arena, n + 1);
    for (size_t i = 0, at = 0; at < n; i++, at += SNAPSHOT_CHUNK_BYTES) {
        size_t want = n - at < SNAPSHOT_CHUNK_BYTES ? n - at : SNAPSHOT_CHUNK_BYTES;
        const json_t *chunk = json_array_get(chunks, i);
        struct str packed;
        if (!json_is_string(chunk) ||
            !base64_bytes(d->arena, json_string_value(chunk), json_string_length(chunk), &packed)) {
            return decoder_bad(d, "content", "a chunk is not base64");
        }
        if (ZSTD_decompress(out + at, want, packed.s, packed.n) != want) {
            return decoder_bad(d, "content", "a chunk does not unpack to its size");
        }
    }
    d->content = out;
    d->n_content = n;
    return 0;
}

/* ------------------------------------------------------------------ the rest */

static bool decoder_read_target(struct decoder *d, const json_t *o)
{
    struct snapshot *s = d->s;
    s->redacted = json_is_true(json_object_get(o, "redacted"));
    return decode_text(d, json_object_get(o, "kind"), &s->kind) &&
           decode_text(d, json_object_get(o, "path"), &s->path) &&
           decode_text(d, json_object_get(o, "root"), &s->root) &&
           decode_text(d, json_object_get(o, "imports"), &s->imports) &&
           decode_text(d, json_object_get(o, "made"), &s->made) && s->kind;
}

static bool are_variables(const snapshot_texts *env)
{
    for (size_t i = 0; i < env->n; i++) {
        if (!strchr(env->items[i], '=')) {
            return false;
        }
    }
    return true;
}

static bool read_start(struct decoder *d, const json_t *o)
{
    struct snapshot *s = d->s;
    json_int_t uid, minor = 0;
    if (!texts_of(d, json_object_get(o, "env"), &s->env) || !are_variables(&s->env) ||
        !decode_text(d, json_object_get(o, "cwd"), &s->cwd) || !s->cwd || s->cwd[0] != '/' ||
        !integer_in(o, "uid", 0, UINT32_MAX, &uid)) {
        return false;
    }
    if (!json_is_null(json_object_get(o, "glibc_minor")) &&
        !integer_in(o, "glibc_minor", 1, 999, &minor)) {
        return false;
    }
    s->uid = (uid_t)uid;
    s->glibc_minor = (int)minor;
    return true;
}

static bool read_mappings(struct decoder *d, const json_t *list, struct model_live *live)
{
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        struct model_mapping m = {.deleted = json_is_true(json_object_get(item, "deleted"))};
        if (!decode_text(d, json_object_get(item, "path"), &m.path) || !m.path ||
            m.path[0] != '/') {
            return false;
        }
        VEC_PUSH(d->arena, &live->mappings, m);
    }
    return true;
}

/* Older documents have none. */
static bool read_children(struct decoder *d, const json_t *list, struct model_live *live)
{
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        struct model_child c = {0};
        snapshot_texts modules = {0};
        json_int_t pid;
        if (n > MODEL_CHILDREN_MAX || !integer_in(item, "pid", 1, 4194304, &pid) ||
            !decode_text(d, json_object_get(item, "name"), &c.name) ||
            !decode_text(d, json_object_get(item, "exe"), &c.exe) ||
            !decode_text(d, json_object_get(item, "driver"), &c.driver) ||
            !texts_of(d, json_object_get(item, "modules"), &modules)) {
            return false;
        }
        c.pid = (int)pid;
        c.alike = json_is_true(json_object_get(item, "alike")); // older documents do not say it
        for (size_t k = 0; k < modules.n; k++) {
            VEC_PUSH(d->arena, &c.modules, modules.items[k]);
        }
        VEC_PUSH(d->arena, &live->children, c);
    }
    return true;
}

static bool read_live(struct decoder *d, const json_t *o, int pid)
{
    struct model_live *live = arena_alloc(d->arena, sizeof *live);
    snapshot_texts env = {0}, late = {0};
    if (!decode_text(d, json_object_get(o, "exe"), &live->exe) || !live->exe ||
        live->exe[0] != '/' || !decode_text(d, json_object_get(o, "cwd"), &live->cwd) ||
        !live->cwd || live->cwd[0] != '/' || !texts_of(d, json_object_get(o, "env"), &env) ||
        !are_variables(&env) || !texts_of(d, json_object_get(o, "late_folders"), &late) ||
        !read_mappings(d, json_object_get(o, "mappings"), live) ||
        !read_children(d, json_object_get(o, "children"), live)) {
        return false;
    }
    const json_t *id = json_object_get(o, "container_id");
    if (id && (!decode_text(d, id, &live->container_id) ||
               !decode_text(d, json_object_get(o, "container_engine"), &live->container_engine) ||
               !live->container_id || !live->container_engine)) {
        return false;
    }
    const json_t *argv0 = json_object_get(o, "argv0");
    if (argv0 && !decode_text(d, argv0, &live->argv0)) {
        return false;
    }
    live->pid = pid;
    for (size_t i = 0; i < live->mappings.n && !live->driver; i++) {
        live->driver = model_driver_of(live->mappings.items[i].path);
    }
    for (size_t i = 0; i < env.n; i++) {
        VEC_PUSH(d->arena, &live->env, env.items[i]);
    }
    for (size_t i = 0; i < late.n; i++) {
        VEC_PUSH(d->arena, &live->late_folders, late.items[i]);
    }
    d->s->live = live;
    return true;
}

static bool read_facts(struct decoder *d, const json_t *o, const json_t *target)
{
    const json_t *cpu = json_object_get(o, "cpu"), *live = json_object_get(o, "process");
    json_int_t machine, level, pid = 0, page = 0;
    const json_t *page_size = json_object_get(cpu, "page_size");
    struct ldso_cpu *c = &d->s->cpu;
    if (!integer_in(cpu, "machine", 0, UINT16_MAX, &machine) ||
        !integer_in(cpu, "level", 0, 4, &level) ||
        !decode_text(d, json_object_get(cpu, "platform"), &c->platform) || !c->platform ||
        strchr(c->platform, '/') || strlen(c->platform) > 64 ||
        !decode_text(d, json_object_get(cpu, "why"), &c->why)) {
        return false;
    }
    if (page_size && !json_is_null(page_size) &&
        (!integer_in(cpu, "page_size", 4096, 65536, &page) || (page & (page - 1)))) {
        return false;
    }
    c->page_size = (uint32_t)page;
    c->machine = (uint16_t)machine;
    c->level = (int)level;
    c->why = !ldso_cpu_is_unknown(c) ? NULL : c->why ? c->why : "the snapshot does not hold it";
    c->avx512_1 = json_is_true(json_object_get(cpu, "avx512_1"));
    if (!live || json_is_null(live)) {
        return true;
    }
    return integer_in(target, "pid", 1, 4194304, &pid) && read_live(d, live, (int)pid);
}

static int decoder_read_document(struct decoder *d, const json_t *doc)
{
    const char *kind;
    json_int_t schema;
    if (!decode_text(d, json_object_get(doc, "kind"), &kind) || !kind ||
        strcmp(kind, "snapshot") != 0) {
        return decoder_bad(d, "the document", "it is not a snapshot");
    }
    if (!integer_in(doc, "schema", 1, 1, &schema)) {
        return gm_err_set(d->err, GM_ERR_UNSUPPORTED,
                          "its schema is not 1: another gpumend made it");
    }
    const json_t *target = json_object_get(doc, "target");
    if (!decode_text(d, json_object_get(doc, "gpumend"), &d->s->gpumend) ||
        !decoder_read_target(d, target)) {
        return decoder_bad(d, "target", "what is said of it makes no sense");
    }
    if (!read_start(d, json_object_get(doc, "start"))) {
        return decoder_bad(d, "start", "what is said of it makes no sense");
    }
    if (!read_facts(d, json_object_get(doc, "host_facts"), target)) {
        return decoder_bad(d, "host_facts", "what is said of it makes no sense");
    }
    int rc = read_content(d, json_object_get(doc, "content"));
    return rc < 0 ? rc : read_files(d, json_object_get(doc, "files"));
}

/* jansson makes a value of each of these, some twenty times as large as its text. */
static bool too_many_values(const char *text, size_t n)
{
    size_t values = 0;
    for (size_t i = 0; i < n; i++) {
        values += text[i] == ',' || text[i] == '[' || text[i] == '{';
    }
    return values > VALUES_MAX;
}

/* In words of our own: jansson's quote the text, and the file may be one that the caller is not to
 * know, behind a link where a snapshot was expected. */
static const char *json_problem(const json_error_t *why)
{
    enum json_error_code code = json_error_code(why);
    return code == json_error_duplicate_key            ? "an object has a name twice"
           : code == json_error_premature_end_of_input ? "the JSON document ends too early"
           : code == json_error_stack_overflow         ? "it is nested too deeply"
                                                       : "it is not a JSON document";
}

int snapshot_decode(struct snapshot *ret, struct arena *a, const char *text, size_t n,
                    struct gm_err *err)
{
    return snapshot_decode_with(ret, a, (struct str){text, n}, (struct str){0}, err);
}

int snapshot_decode_with(struct snapshot *ret, struct arena *a, struct str text, struct str content,
                         struct gm_err *err)
{
    json_error_t why;
    if (text.n > DOCUMENT_BYTES_MAX || too_many_values(text.s, text.n)) {
        return gm_err_set(err, GM_ERR_LIMIT, "it is too large to be a snapshot");
    }
    json_t *doc = json_loadb(text.s, text.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (!doc) {
        return gm_err_set(err, GM_ERR_FORMAT, "line %d: %s", why.line, json_problem(&why));
    }
    *ret = (struct snapshot){.arena = a};
    snap_init(&ret->files, a);
    struct decoder d = {.s = ret, .arena = a, .err = err, .given = content};
    int rc = decoder_read_document(&d, doc);
    json_decref(doc);
    return rc;
}
