#include "fleet/store.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fleet/internal.h"

enum { CHUNK_BYTES_MIN = 4000 }; // shorter texts stay in the manifest

#define MARK "@sha256:"

/* ------------------------------------------------------------------ long texts of a document */

/* What is done with each text of a document; *ret: what stands in its place, or NULL: it stays. */
struct walk {
    struct arena *a;
    const char *store;
    int (*each)(struct walk *w, const char *text, size_t n, json_t **ret, struct gm_err *err);
    const char *names; // of the chunks that were put, one after the other
};

static int walk_json(struct walk *w, json_t *value, struct gm_err *err)
{
    const char *key;
    json_t *inner;
    size_t i;
    void *next;
    int rc = 0;
    json_array_foreach(value, i, inner)
    {
        json_t *other = NULL;
        rc = json_is_string(inner)
                 ? w->each(w, json_string_value(inner), json_string_length(inner), &other, err)
                 : walk_json(w, inner, err);
        if (rc < 0 || (other && json_array_set_new(value, i, other) < 0)) {
            return rc < 0 ? rc : gm_err_set(err, GM_ERR_MEMORY, "out of memory");
        }
    }
    json_object_foreach_safe(value, next, key, inner)
    {
        json_t *other = NULL;
        rc = json_is_string(inner)
                 ? w->each(w, json_string_value(inner), json_string_length(inner), &other, err)
                 : walk_json(w, inner, err);
        if (rc < 0 || (other && json_object_set_new(value, key, other) < 0)) {
            return rc < 0 ? rc : gm_err_set(err, GM_ERR_MEMORY, "out of memory");
        }
    }
    return rc;
}

static int put_chunk(struct walk *w, const char *text, size_t n, json_t **ret, struct gm_err *err)
{
    if (starts_with(text, MARK)) {
        return gm_err_set(err, GM_ERR_FORMAT, "a text of it looks like the name of a chunk");
    }
    if (n < CHUNK_BYTES_MIN) {
        return 0;
    }
    const char *hex = store_hex(w->a, text, n);
    int rc = store_put_object(w->a, w->store, hex, (struct str){text, n}, err);
    if (rc < 0) {
        return rc;
    }
    w->names = arena_printf(w->a, "%s%s", w->names, hex);
    *ret = json_string(arena_printf(w->a, MARK "%s", hex));
    return *ret ? 0 : gm_err_set(err, GM_ERR_MEMORY, "out of memory");
}

static int take_chunk(struct walk *w, const char *text, size_t n, json_t **ret, struct gm_err *err)
{
    struct str whole;
    const char *hex = text + strlen(MARK);
    (void)n;
    if (!starts_with(text, MARK)) {
        return 0;
    }
    int rc = store_take_object(w->a, w->store, hex, &whole, err);
    if (rc < 0) {
        return rc;
    }
    *ret = json_stringn(whole.s, whole.n);
    return *ret ? 0 : gm_err_set(err, GM_ERR_FORMAT, "the chunk %s is no text", hex);
}

static int dump_json(struct arena *a, const json_t *doc, struct str *ret, struct gm_err *err)
{
    char *text = json_dumps(doc, JSON_COMPACT);
    if (!text) {
        return gm_err_set(err, GM_ERR_MEMORY, "out of memory");
    }
    *ret = (struct str){arena_strdup(a, text), strlen(text)};
    free(text);
    return 0;
}

/* ------------------------------------------------------------------ the store */

bool fleet_store_is(struct arena *a, const char *path)
{
    struct stat st;
    return stat(path_join(a, path, "chunks"), &st) == 0 && S_ISDIR(st.st_mode) &&
           stat(path_join(a, path, "nodes"), &st) == 0 && S_ISDIR(st.st_mode);
}

int fleet_store_make(struct arena *a, const char *path, struct gm_err *err)
{
    const char *const folders[] = {path, path_join(a, path, "chunks"),
                                   path_join(a, path, "contents"), path_join(a, path, "bases"),
                                   path_join(a, path, "nodes")};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (mkdir(folders[i], 0755) < 0 && errno != EEXIST) {
            return gm_err_set(err, GM_ERR_LOOK, "%s: %s", folders[i], strerror(errno));
        }
    }
    return 0;
}

/* The base of a set of chunks; the first manifest with it is its base. */
static int find_base(struct arena *a, const char *store, const char *key, struct str text,
                     struct str *ret, struct gm_err *err)
{
    struct str packed;
    const char *path = arena_printf(a, "%s/bases/%s", store, key);
    int rc = access(path, F_OK) == 0 ? 1 : store_pack(a, text, (struct str){0}, &packed, err);
    rc = rc == 0 ? store_write_file(a, path, packed, err) : rc;
    if (rc < 0) {
        return rc;
    }
    return store_read_file(a, path, &packed) < 0 ||
                   store_unpack(a, packed, (struct str){0}, ret) < 0
               ? gm_err_set(err, GM_ERR_FORMAT, "%s is damaged", path)
               : 0;
}

static int write_manifest(struct arena *a, const char *store, const char *path, const char *names,
                          struct str text, bool *ret_new, struct gm_err *err)
{
    struct str base, packed, there;
    const char *key = store_hex(a, names, strlen(names));
    int rc = find_base(a, store, key, text, &base, err);
    rc = rc < 0 ? rc : store_pack(a, text, base, &packed, err);
    if (rc < 0) {
        return rc;
    }
    char *all = arena_alloc(a, STORE_HEX_N + 1 + packed.n);
    memcpy(all, key, STORE_HEX_N);
    all[STORE_HEX_N] = '\n';
    memcpy(all + STORE_HEX_N + 1, packed.s, packed.n);
    struct str file = {all, STORE_HEX_N + 1 + packed.n};
    rc = store_write_file(a, path, file, err);
    *ret_new = rc == 0;
    if (rc == 1 && (store_read_file(a, path, &there) < 0 || !str_eq(there, file))) {
        return gm_err_set(err, GM_ERR_FORMAT, "another snapshot of this node and time is there");
    }
    return rc < 0 ? rc : 0;
}

int fleet_store_add(struct arena *a, const char *store, const char *node, const char *made,
                    struct str text, bool *ret_new, struct gm_err *err)
{
    struct walk w = {.a = a, .store = store, .each = put_chunk, .names = ""};
    struct str manifest = {0};
    json_t *doc = json_loadb(text.s, text.n, JSON_REJECT_DUPLICATES, NULL);
    json_t *content = json_object_get(doc, "content");
    int rc = doc ? store_put_content(a, store, content, &w.names, err)
                 : gm_err_set(err, GM_ERR_FORMAT, "it is no JSON");
    rc = rc < 0 ? rc : walk_json(&w, doc, err);
    rc = rc < 0 ? rc : dump_json(a, doc, &manifest, err);
    json_decref(doc);
    const char *path = arena_printf(a, "%s/nodes/%s@%s" FLEET_MANIFEST, store, node, made);
    return rc < 0 ? rc : write_manifest(a, store, path, w.names, manifest, ret_new, err);
}

int fleet_store_read(struct arena *a, const char *store, const char *manifest, struct str *ret,
                     struct str *ret_content, struct gm_err *err)
{
    struct walk w = {.a = a, .store = store, .each = take_chunk};
    struct str file, packed, base, text;
    if (store_read_file(a, manifest, &file) < 0 || file.n <= STORE_HEX_N ||
        file.s[STORE_HEX_N] != '\n') {
        return gm_err_set(err, GM_ERR_FORMAT, "the manifest is damaged");
    }
    const char *key = arena_strndup(a, file.s, STORE_HEX_N);
    struct str rest = {file.s + STORE_HEX_N + 1, file.n - STORE_HEX_N - 1};
    if (!store_is_hex(key) ||
        store_read_file(a, arena_printf(a, "%s/bases/%s", store, key), &packed) < 0 ||
        store_unpack(a, packed, (struct str){0}, &base) < 0 ||
        store_unpack(a, rest, base, &text) < 0) {
        return gm_err_set(err, GM_ERR_FORMAT, "the manifest or its base is damaged");
    }
    json_t *doc = json_loadb(text.s, text.n, JSON_REJECT_DUPLICATES, NULL);
    int rc = doc ? walk_json(&w, doc, err) : gm_err_set(err, GM_ERR_FORMAT, "it is no JSON");
    const json_t *content = json_object_get(doc, "content");
    rc = rc < 0 ? rc : store_take_content(a, store, content, ret_content, err);
    rc = rc < 0 ? rc : dump_json(a, doc, ret, err);
    json_decref(doc);
    return rc;
}
