#include "kb/kb.h"

#include <errno.h>
#include <string.h>

#include "kb/internal.h"

/* A replacement file above this is refused; the embedded ones are below 300 KiB each. */
#define KB_FILE_MAX ((size_t)16 << 20)

/* ------------------------------------------------------------------ loading */

struct rows {
    void *items;
    size_t n;
};

static int rows_decode(struct arena *a, const struct area *area, const json_t *rows,
                       const json_t *defaults, struct rows *ret, struct gm_err *err)
{
    if (!json_is_array(rows)) {
        return gm_err_set(err, GM_ERR_FORMAT, "\"rows\" is not a list");
    }
    size_t n = json_array_size(rows);
    char *items = arena_array(a, n, area->record->size);
    const char *before = "";
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(rows, i);
        const char *id = json_string_value(json_object_get(row, "id"));
        char *to = items + i * area->record->size;
        if (!id) {
            return gm_err_set(err, GM_ERR_FORMAT, "row %zu has no id", i + 1);
        }
        if (strcmp(before, id) >= 0) {
            return gm_err_set(err, GM_ERR_FORMAT,
                              "row %.80s: ids must be unique and ascend, it follows %.80s", id,
                              before);
        }
        if (kb_decode(a, area->record, row, defaults, to, err) < 0 ||
            (area->check && area->check(to, err) < 0)) {
            return gm_err_wrap(err, "row %.80s", id);
        }
        before = id;
    }
    *ret = (struct rows){items, n};
    return 0;
}

/* The text as a document of this name. */
static int document_parse(const char *name, const char *data, size_t size, size_t flags,
                          json_t **ret, struct gm_err *err)
{
    json_error_t why;
    json_t *doc = json_loadb(data, size, flags, &why);
    if (!doc && (!why.text[0] || json_error_code(&why) == json_error_out_of_memory)) {
        return gm_err_set(err, GM_ERR_MEMORY, "out of memory");
    }
    if (!doc) {
        return gm_err_set(err, GM_ERR_FORMAT, "line %d, column %d: %s", why.line, why.column,
                          why.text);
    }
    const char *area = json_string_value(json_object_get(doc, "area"));
    int rc = 0;
    if (json_integer_value(json_object_get(doc, "schema")) != 1) {
        rc = gm_err_set(err, GM_ERR_FORMAT, "\"schema\" is not 1");
    } else if (!area || strcmp(area, name) != 0) {
        rc = gm_err_set(err, GM_ERR_FORMAT, "\"area\" is not \"%s\"", name);
    }
    if (rc < 0) {
        json_decref(doc);
        return rc;
    }
    *ret = doc;
    return 0;
}

static const struct kb_blob *embedded_blob(const char *name)
{
    for (size_t i = 0; i < kb_blobs_n; i++) {
        if (strcmp(kb_blobs[i].area, name) == 0) {
            return &kb_blobs[i];
        }
    }
    return NULL;
}

static int embedded_document(const char *name, json_t **ret, struct gm_err *err)
{
    const struct kb_blob *blob = embedded_blob(name);
    if (!blob) {
        return gm_err_set(err, GM_ERR_FORMAT, "embedded knowledge: there is no area %s", name);
    }
    /* Tested to be a document: without memory alone it is none, and jansson then may say that a
     * token is wrong. */
    int rc = document_parse(name, blob->data, blob->size, 0, ret, err);
    return rc < 0 ? gm_err_set(err, GM_ERR_MEMORY, "out of memory") : 0;
}

static const char *file_of(struct kb *kb, const char *name)
{
    return arena_printf(kb->arena, "%s/%s.json", kb->folder, name);
}

/* The folder's document of that name, or NULL: it has none. */
static int folder_document(struct kb *kb, const char *name, json_t **ret, struct gm_err *err)
{
    struct str text = {0};
    int rc = kb->folder ? root_read(kb->root, kb->arena, file_of(kb, name), KB_FILE_MAX, &text)
                        : -ENOENT;
    *ret = NULL;
    if (rc == -ENOENT) {
        return 0;
    }
    if (rc < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", file_of(kb, name), strerror(-rc));
    }
    rc = document_parse(name, text.s, text.n, JSON_REJECT_DUPLICATES, ret, err);
    return rc < 0 ? gm_err_wrap(err, "%s", file_of(kb, name)) : 0;
}

static int area_load(struct kb *kb, const struct area *area, struct rows *ret, struct gm_err *err)
{
    json_t *doc;
    int rc = folder_document(kb, area->name, &doc, err);
    if (rc == GM_ERR_MEMORY) { // a rule that goes without an area would say less, and not why
        arena_no_memory(kb->arena);
    }
    if (rc < 0) {
        return rc;
    }
    if (!doc) {
        ret->items = kb_unpack(kb->arena, embedded_blob(area->name), area->record, &ret->n);
        return 0;
    }
    kb->loading = doc;
    rc = rows_decode(kb->arena, area, json_object_get(doc, "rows"),
                     json_object_get(doc, "defaults"), ret, err);
    kb_close(kb);
    return rc < 0 ? gm_err_wrap(err, "%s", file_of(kb, area->name)) : 0;
}

/* ------------------------------------------------------------------ the interface */

void kb_close(struct kb *kb)
{
    json_decref(kb->loading);
    kb->loading = NULL;
}

int kb_open(struct kb *kb, struct arena *a, struct root *root, const char *folder,
            struct gm_err *err)
{
    if (folder) {
        struct stat st;
        int rc = root_stat(root, folder, &st);
        if (rc < 0 || !S_ISDIR(st.st_mode)) {
            return gm_err_set(err, GM_ERR_LOOK, "knowledge folder %s: %s", folder,
                              strerror(rc < 0 ? -rc : ENOTDIR));
        }
    }
    *kb = (struct kb){.arena = a, .root = root, .folder = folder};
    return 0;
}

int kb_rows(struct kb *kb, enum kb_area area, struct kb_rows *ret, struct gm_err *err)
{
    struct kb_loaded *loaded = &kb->areas[area];
    if (!loaded->is_loaded) {
        struct rows rows = {0};
        int rc = area_load(kb, &kb_areas[area], &rows, err);
        if (rc < 0) {
            return rc;
        }
        *loaded = (struct kb_loaded){true, {rows.items, rows.n, kb_areas[area].record->size}};
    }
    *ret = loaded->rows;
    return 0;
}

int kb_document(struct kb *kb, const char *name, json_t **ret, struct gm_err *err)
{
    int rc = folder_document(kb, name, ret, err);
    return rc < 0 || *ret ? rc : embedded_document(name, ret, err);
}

/* The areas differ in their types only. */
#define KB_AREA_FUNCTION(plural, id)                                                               \
    int kb_##plural(struct kb *kb, struct kb_##plural *ret, struct gm_err *err)                    \
    {                                                                                              \
        struct kb_rows rows;                                                                       \
        int rc = kb_rows(kb, id, &rows, err);                                                      \
        if (rc == 0) {                                                                             \
            ret->rows = rows.items;                                                                \
            ret->n = rows.n;                                                                       \
        }                                                                                          \
        return rc;                                                                                 \
    }

KB_AREA_FUNCTION(builds, KB_AREA_BUILDS)
KB_AREA_FUNCTION(compats, KB_AREA_COMPATS)
KB_AREA_FUNCTION(cudnns, KB_AREA_CUDNNS)
KB_AREA_FUNCTION(dlopens, KB_AREA_DLOPENS)
KB_AREA_FUNCTION(drivers, KB_AREA_DRIVERS)
KB_AREA_FUNCTION(errors, KB_AREA_ERRORS)
KB_AREA_FUNCTION(families, KB_AREA_FAMILIES)
KB_AREA_FUNCTION(engines, KB_AREA_ENGINES)
KB_AREA_FUNCTION(glibcs, KB_AREA_GLIBCS)
KB_AREA_FUNCTION(gpus, KB_AREA_GPUS)
KB_AREA_FUNCTION(imports, KB_AREA_IMPORTS)
KB_AREA_FUNCTION(models, KB_AREA_MODELS)
KB_AREA_FUNCTION(provides, KB_AREA_PROVIDES)
KB_AREA_FUNCTION(releases, KB_AREA_RELEASES)
KB_AREA_FUNCTION(repositorys, KB_AREA_REPOSITORYS)
KB_AREA_FUNCTION(rocms, KB_AREA_ROCMS)
KB_AREA_FUNCTION(toolkits, KB_AREA_TOOLKITS)

const char *kb_area_name(enum kb_area area)
{
    return kb_areas[area].name;
}

json_t *kb_row_json(enum kb_area area, const void *row)
{
    return kb_encode(kb_areas[area].record, row);
}

const char *kb_row_id(const void *row)
{
    const char *id; // every record begins with it (tests/unit/test_kb.c)
    memcpy(&id, row, sizeof id);
    return id;
}
