#include "snapshot/internal.h"

#include <string.h>
#include <zstd.h>

#include "base/json.h"
#include "version.h"

/*
 * What was read of the files stands, one piece behind the other in the order of `files`, in one
 * sequence of bytes; this is cut into chunks, and each of them compressed alone.
 */
struct pool {
    struct arena *arena;
    unsigned char *bytes;
    size_t n, cap;
};

static uint64_t pool_add(struct pool *p, const void *bytes, size_t n)
{
    if (p->cap - p->n < n) {
        size_t cap = p->cap ? p->cap : 1 << 20;
        while (cap - p->n < n) {
            cap *= 2;
        }
        unsigned char *more = arena_alloc(p->arena, cap);
        if (p->n) {
            memcpy(more, p->bytes, p->n);
        }
        p->bytes = more;
        p->cap = cap;
    }
    uint64_t at = p->n;
    memcpy(p->bytes + p->n, bytes, n);
    p->n += n;
    return at;
}

/* Text of a file name or of a variable: as it is where it is UTF-8, else base64 behind a mark. */
static json_t *snapshot_text(struct arena *a, const char *s)
{
    if (!s) {
        return json_null();
    }
    size_t n = strlen(s);
    if (str_is_utf8(s, n) && !starts_with(s, SNAPSHOT_BASE64_MARK)) {
        return json_stringn_nocheck(s, n);
    }
    return json_string(arena_printf(a, SNAPSHOT_BASE64_MARK "%s", str_base64(a, s, n)));
}

static json_t *texts_json_of(struct arena *a, const char *const *items, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_add(list, snapshot_text(a, items[i]));
    }
    return list;
}

/* An answer, if it was asked for. */
static void set_rc(json_t *o, const char *key, int rc)
{
    if (rc != SNAP_UNASKED) {
        json_put(o, key, json_integer(rc));
    }
}

/* ------------------------------------------------------------------ files */

struct encoder {
    struct snapshot *s;
    struct arena *arena;
    struct pool pool;
    json_t *files;
};

static bool is_readable_text(struct str data)
{
    enum { INLINE_BYTES_MAX = 4096 };
    return data.n <= INLINE_BYTES_MAX && !memchr(data.s, '\0', data.n) &&
           str_is_utf8(data.s, data.n);
}

static void add_piece(struct encoder *e, json_t *list, uint64_t offset, const void *bytes, size_t n)
{
    uint64_t at = pool_add(&e->pool, bytes, n);
    json_add(list, json_pack("[I, I, I]", (json_int_t)offset, (json_int_t)n, (json_int_t)at));
}

static void set_content(struct encoder *e, json_t *o, const struct snap_node *n)
{
    if (n->has_data) {
        json_put(o, "whole", json_boolean(n->whole));
        if (is_readable_text(n->data)) {
            json_put(o, "text", json_stringn_nocheck(n->data.s, n->data.n));
        } else {
            json_t *head = json_array();
            add_piece(e, head, 0, n->data.s, n->data.n);
            json_put(o, "head", head);
        }
    }
    if (n->pages) {
        json_t *pages = json_array();
        for (size_t i = 0; i < n->pages->n_ranges; i++) {
            const struct pages_range *r = &n->pages->ranges[i];
            add_piece(e, pages, r->offset, r->bytes, r->n);
        }
        json_put(o, "pages", pages);
    }
}

static void set_file(struct encoder *e, json_t *o, const struct snap_node *n)
{
    json_put(o, "size", json_integer((json_int_t)n->size));
    set_rc(o, "open", n->open_rc);
    set_rc(o, "read", n->read_rc < 0 ? n->read_rc : SNAP_UNASKED);
    set_rc(o, "capabilities", n->capabilities);
    set_content(e, o, n);
}

static void set_names(struct encoder *e, json_t *o, const struct snap_node *n)
{
    set_rc(o, "list", n->list_rc);
    if (n->list_rc != 0) {
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < n->names.n; i++) {
        json_add(list, snapshot_text(e->arena, n->names.items[i].name));
    }
    json_put(o, "names", list);
    if (n->partly) {
        json_put(o, "partly", json_true());
    }
}

static void set_access(json_t *o, const struct snap_node *n)
{
    json_t *answers = NULL;
    for (size_t i = 0; i < sizeof n->access / sizeof *n->access; i++) {
        if (n->access[i] == SNAP_UNASKED) {
            continue;
        }
        if (!answers) {
            answers = json_object();
        }
        char mode[2] = {(char)('0' + i), '\0'};
        set_rc(answers, mode, n->access[i]);
    }
    if (answers) {
        json_put(o, "access", answers);
    }
}

static json_t *snapshot_node_json(struct encoder *e, const struct snap_node *n)
{
    json_t *o = json_object();
    json_put(o, "path", snapshot_text(e->arena, n->path));
    json_put(o, "type", json_string(snapshot_types[n->type]));
    if (n->type == SNAP_LINK) {
        if (n->link_rc < 0) {
            set_rc(o, "readlink", n->link_rc);
        } else {
            json_put(o, "target", snapshot_text(e->arena, n->link));
        }
        return o;
    }
    json_put(o, "mode", json_integer(n->mode));
    json_put(o, "uid", json_integer(n->uid));
    json_put(o, "gid", json_integer(n->gid));
    if (n->type == SNAP_FILE) {
        set_file(e, o, n);
    } else if (n->type == SNAP_DIR) {
        set_names(e, o, n);
    } else if (n->type == SNAP_CHAR || n->type == SNAP_BLOCK) {
        json_put(o, "major", json_integer(n->major));
        json_put(o, "minor", json_integer(n->minor));
    }
    set_access(o, n);
    return o;
}

/* A lookup that failed is kept with its folder. */
static void add_failure(struct encoder *e, json_t *folder, const struct snap_node *n)
{
    const char *key = n->error == -ENOENT ? "absent" : "failed";
    json_t *list = json_object_get(folder, key);
    if (!list) {
        list = json_array();
        json_put(folder, key, list);
    }
    json_t *name = snapshot_text(e->arena, path_base(n->path));
    if (n->error == -ENOENT) {
        json_add(list, name);
    } else {
        json_add(list, json_pack("[o, i]", name, n->error));
    }
}

/* Two paths of one file: the later one names the first. */
struct identity {
    dev_t dev;
    ino_t ino;
    const char *path;
    json_t *json;
};

static int by_identity(const void *x, const void *y)
{
    const struct identity *a = x, *b = y;
    if (a->dev != b->dev || a->ino != b->ino) {
        return a->dev != b->dev ? (a->dev < b->dev ? -1 : 1) : a->ino < b->ino ? -1 : 1;
    }
    return strcmp(a->path, b->path);
}

static void mark_same_files(struct encoder *e, struct identity *all, size_t n)
{
    qsort(all, n, sizeof *all, by_identity);
    for (size_t i = 1, first = 0; i < n; i++) {
        if (all[i].dev == all[first].dev && all[i].ino == all[first].ino) {
            json_put(all[i].json, "same_as", snapshot_text(e->arena, all[first].path));
        } else {
            first = i;
        }
    }
}

static void add_files(struct encoder *e)
{
    const struct snap *files = &e->s->files;
    struct snap_node **all = snap_sorted(files, e->arena);
    json_t **of_node = arena_array(e->arena, files->n + 1, sizeof(json_t *));
    struct identity *ids = arena_array(e->arena, files->n + 1, sizeof *ids);
    size_t n_ids = 0;
    struct snap by_json; // from a folder's path to its index
    snap_init(&by_json, e->arena);
    for (size_t i = 0; i < files->n; i++) {
        struct snap_node *n = all[i];
        if (n->type == SNAP_ERROR) {
            continue;
        }
        of_node[i] = snapshot_node_json(e, n);
        json_add(e->files, of_node[i]);
        if (n->type == SNAP_FILE) {
            ids[n_ids++] = (struct identity){n->dev, n->ino, n->path, of_node[i]};
        }
        struct snap_node *key = n->type == SNAP_DIR ? snap_put(&by_json, n->path) : NULL;
        if (key) {
            key->size = i;
        }
    }
    for (size_t i = 0; i < files->n; i++) {
        struct snap_node *n = all[i];
        const char *dir = path_dir(e->arena, n->path);
        struct snap_node *key = n->type == SNAP_ERROR ? snap_find(&by_json, dir) : NULL;
        struct snap_node *folder = key ? all[key->size] : NULL;
        bool implied = folder && folder->list_rc == 0 && !folder->partly && n->error == -ENOENT;
        if (folder && !implied) {
            add_failure(e, of_node[key->size], n);
        }
    }
    mark_same_files(e, ids, n_ids);
}

/* ------------------------------------------------------------------ content */

static json_t *content_json(struct encoder *e, struct gm_err *err)
{
    json_t *chunks = json_array();
    for (size_t at = 0; at < e->pool.n; at += SNAPSHOT_CHUNK_BYTES) {
        size_t n = e->pool.n - at < SNAPSHOT_CHUNK_BYTES ? e->pool.n - at : SNAPSHOT_CHUNK_BYTES;
        size_t room = ZSTD_compressBound(n);
        void *packed = arena_alloc(e->arena, room);
        enum { LEVEL = 12 };
        size_t got = ZSTD_compress(packed, room, e->pool.bytes + at, n, LEVEL);
        if (ZSTD_isError(got)) {
            json_decref(chunks);
            (void)gm_err_set(err, GM_ERR_LIMIT, "zstd: %s", ZSTD_getErrorName(got));
            return NULL;
        }
        json_add(chunks, json_string(str_base64(e->arena, packed, got)));
    }
    json_t *o = json_object();
    json_put(o, "bytes", json_integer((json_int_t)e->pool.n));
    json_put(o, "chunks", chunks);
    return o;
}

/* ------------------------------------------------------------------ the document */

static json_t *snapshot_target_json(const struct snapshot *s)
{
    json_t *o = json_object();
    json_put(o, "kind", snapshot_text(s->arena, s->kind));
    json_put(o, "path", snapshot_text(s->arena, s->path));
    json_put(o, "root", snapshot_text(s->arena, s->root));
    json_put(o, "imports", snapshot_text(s->arena, s->imports));
    json_put(o, "pid", s->live ? json_integer(s->live->pid) : json_null());
    json_put(o, "made", snapshot_text(s->arena, s->made));
    json_put(o, "redacted", json_boolean(s->redacted));
    return o;
}

static json_t *snapshot_start_json(const struct snapshot *s)
{
    json_t *o = json_object();
    json_put(o, "env", texts_json_of(s->arena, s->env.items, s->env.n));
    json_put(o, "cwd", snapshot_text(s->arena, s->cwd));
    json_put(o, "uid", json_integer(s->uid));
    json_put(o, "glibc_minor", s->glibc_minor ? json_integer(s->glibc_minor) : json_null());
    return o;
}

static json_t *snapshot_children_json(const struct snapshot *s)
{
    const struct model_live *l = s->live;
    json_t *list = json_array();
    for (size_t i = 0; i < l->children.n; i++) {
        const struct model_child *c = &l->children.items[i];
        json_t *o = json_object();
        json_put(o, "pid", json_integer(c->pid));
        json_put(o, "name", snapshot_text(s->arena, c->name));
        json_put(o, "exe", snapshot_text(s->arena, c->exe));
        json_put(o, "modules", texts_json_of(s->arena, c->modules.items, c->modules.n));
        json_put(o, "driver", snapshot_text(s->arena, c->driver));
        json_put(o, "alike", json_boolean(c->alike));
        json_add(list, o);
    }
    return list;
}

static json_t *live_json(const struct snapshot *s)
{
    const struct model_live *l = s->live;
    if (!l) {
        return json_null();
    }
    json_t *o = json_object(), *mappings = json_array();
    for (size_t i = 0; i < l->mappings.n; i++) {
        json_add(mappings,
                 json_pack("{s:o, s:b}", "path", snapshot_text(s->arena, l->mappings.items[i].path),
                           "deleted", l->mappings.items[i].deleted));
    }
    json_put(o, "exe", snapshot_text(s->arena, l->exe));
    json_put(o, "cwd", snapshot_text(s->arena, l->cwd));
    json_put(o, "argv0", snapshot_text(s->arena, l->argv0));
    json_put(o, "env", texts_json_of(s->arena, l->env.items, l->env.n));
    json_put(o, "mappings", mappings);
    json_put(o, "late_folders", texts_json_of(s->arena, l->late_folders.items, l->late_folders.n));
    json_put(o, "children", snapshot_children_json(s));
    if (l->container_id) {
        json_put(o, "container_engine", snapshot_text(s->arena, l->container_engine));
        json_put(o, "container_id", snapshot_text(s->arena, l->container_id));
    }
    return o;
}

static json_t *snapshot_facts_json(const struct snapshot *s)
{
    json_t *cpu = json_object(), *o = json_object();
    json_put(cpu, "machine", json_integer(s->cpu.machine));
    json_put(cpu, "level", json_integer(s->cpu.level));
    json_put(cpu, "platform", snapshot_text(s->arena, s->cpu.platform));
    json_put(cpu, "avx512_1", json_boolean(s->cpu.avx512_1));
    json_put(cpu, "page_size", s->cpu.page_size ? json_integer(s->cpu.page_size) : json_null());
    json_put(cpu, "why", snapshot_text(s->arena, s->cpu.why));
    json_put(o, "cpu", cpu);
    json_put(o, "process", live_json(s));
    return o;
}

json_t *snapshot_encode(struct snapshot *s, struct gm_err *err)
{
    struct encoder e = {.s = s, .arena = s->arena, .pool = {.arena = s->arena}};
    e.files = json_array();
    add_files(&e);
    json_t *content = content_json(&e, err);
    if (!content) {
        json_decref(e.files);
        return NULL;
    }
    json_t *doc = json_object();
    json_put(doc, "schema", json_integer(1));
    json_put(doc, "gpumend", json_string(s->gpumend ? s->gpumend : GPUMEND_VERSION));
    json_put(doc, "kind", json_string("snapshot"));
    json_put(doc, "target", snapshot_target_json(s));
    json_put(doc, "start", snapshot_start_json(s));
    json_put(doc, "host_facts", snapshot_facts_json(s));
    json_put(doc, "files", e.files);
    json_put(doc, "content", content);
    return doc;
}
