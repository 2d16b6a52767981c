#include "kb/kb.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "kb/internal.h"

/* A file of a folder above this is refused; the embedded ones are below 300 KiB each. */
#define KB_FILE_MAX   ((size_t)16 << 20)
#define KB_VALUES_MAX ((size_t)1 << 18)
#define KB_FOLDER_MAX 1000 // files NAME.json

/* ------------------------------------------------------------------ loading */

struct rows {
    void *items;
    size_t n;
};

/* On which line entry `index` of "rows" begins, in the text of a document that has it. */
static unsigned row_line(struct str text, size_t index)
{
    unsigned line = 1;
    size_t depth = 0, at = 0;
    bool in_rows = false, is_start = false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.s[i];
        if (in_rows && depth == 2 && is_start && !strchr(" \t\r\n", c)) {
            if (at == index) {
                return line;
            }
            is_start = false;
        }
        if (c == '"') {
            size_t begin = ++i;
            while (i < text.n && text.s[i] != '"') {
                i += text.s[i] == '\\' ? 2 : 1;
            }
            in_rows =
                depth == 1 ? str_is((struct str){text.s + begin, i - begin}, "rows") : in_rows;
        } else if (c == '[' || c == '{') {
            is_start = ++depth == 2;
        } else if (c == ']' || c == '}') {
            depth--;
        } else if (c == ',' && in_rows && depth == 2) {
            at++;
            is_start = true;
        }
        line += c == '\n';
    }
    return line;
}

/* The rows of a document. *ret_wrong: the row that cannot be decoded; untouched if it is not about
 * one. */
static int rows_decode(struct arena *a, const struct area *area, const json_t *doc,
                       struct rows *ret, size_t *ret_wrong, struct gm_err *err)
{
    const json_t *rows = json_object_get(doc, "rows"), *defaults = json_object_get(doc, "defaults");
    if (!json_is_array(rows)) {
        return gm_err_set(err, GM_ERR_FORMAT, "\"rows\" is not a list");
    }
    size_t n = json_array_size(rows);
    char *items = arena_array(a, n, area->record->size);
    const char *before = "";
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(rows, i);
        const char *id = json_text(row, "id");
        char *to = items + i * area->record->size;
        *ret_wrong = i;
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

/* The rows of a folder, and the embedded ones that none of them replaces. Both ascend by id. */
static struct rows rows_merge(struct arena *a, size_t size, struct rows own, struct rows embedded)
{
    struct rows both = {arena_array(a, own.n + embedded.n, size), 0};
    const char *mine = own.items, *mine_end = mine + own.n * size;
    const char *theirs = embedded.items, *theirs_end = theirs + embedded.n * size;
    while (mine < mine_end || theirs < theirs_end) {
        int order = mine == mine_end       ? 1
                    : theirs == theirs_end ? -1
                                           : strcmp(kb_row_id(mine), kb_row_id(theirs));
        memcpy((char *)both.items + both.n++ * size, order <= 0 ? mine : theirs, size);
        mine += order <= 0 ? size : 0;
        theirs += order >= 0 ? size : 0;
    }
    return both;
}

/* The text as a document of this name. *ret_line: where it is wrong. */
static int document_parse(const char *name, struct str text, size_t flags, json_t **ret,
                          unsigned *ret_line, struct gm_err *err)
{
    json_error_t why;
    json_t *doc = json_loadb(text.s, text.n, flags, &why);
    *ret_line = doc || why.line < 1 ? 1 : (unsigned)why.line;
    if (!doc && (!why.text[0] || json_error_code(&why) == json_error_out_of_memory)) {
        return gm_err_set(err, GM_ERR_MEMORY, "out of memory");
    }
    if (!doc) {
        return gm_err_set(err, GM_ERR_FORMAT, "column %d: %s", why.column, why.text);
    }
    const char *area = json_text(doc, "area");
    const json_t *whole = json_object_get(doc, "whole");
    int rc = 0;
    if (whole && !json_is_boolean(whole)) {
        rc = gm_err_set(err, GM_ERR_FORMAT, "\"whole\" is neither true nor false");
    } else if (json_integer_value(json_object_get(doc, "schema")) != 1) {
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
    for (size_t i = 0; i < kb_n_blobs; i++) {
        if (strcmp(kb_blobs[i].area, name) == 0) {
            return &kb_blobs[i];
        }
    }
    return NULL;
}

static int embedded_document(const char *name, json_t **ret, struct gm_err *err)
{
    const struct kb_blob *blob = embedded_blob(name);
    unsigned line;
    if (!blob) {
        return gm_err_set(err, GM_ERR_FORMAT, "embedded knowledge: there is no area %s", name);
    }
    /* Tested to be a document: without memory alone it is none, and jansson then may say that a
     * token is wrong. */
    int rc = document_parse(name, (struct str){blob->data, blob->size}, 0, ret, &line, err);
    return rc < 0 ? gm_err_set(err, GM_ERR_MEMORY, "out of memory") : 0;
}

static const char *area_file(struct kb *kb, const char *name)
{
    return arena_printf(kb->arena, "%s/%s.json", kb->folder, name);
}

/* The folder's document of that name and its text, or NULL: it has none. */
static int folder_document(struct kb *kb, const char *name, struct str *ret_text, json_t **ret,
                           struct gm_err *err)
{
    unsigned line;
    int rc = kb->folder ? root_read(kb->root, kb->arena, area_file(kb, name), KB_FILE_MAX, ret_text)
                        : -ENOENT;
    *ret = NULL;
    if (rc == -ENOENT) {
        return 0;
    }
    if (rc < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", area_file(kb, name), strerror(-rc));
    }
    if (json_text_exceeds(*ret_text, KB_VALUES_MAX)) {
        return gm_err_set(err, GM_ERR_LIMIT, "%s: more than %zu values", area_file(kb, name),
                          KB_VALUES_MAX);
    }
    rc = document_parse(name, *ret_text, JSON_REJECT_DUPLICATES, ret, &line, err);
    return rc < 0 ? gm_err_wrap(err, "%s:%u", area_file(kb, name), line) : 0;
}

/* The rows that the folder has of an area; none where it has no such file. *ret_whole: it says that
 * there are no others. */
static int folder_rows(struct kb *kb, const struct area *area, struct rows *ret, bool *ret_whole,
                       struct gm_err *err)
{
    json_t *doc;
    struct str text = {0};
    size_t wrong = SIZE_MAX;
    *ret = (struct rows){0};
    *ret_whole = false;
    int rc = folder_document(kb, area->name, &text, &doc, err);
    if (rc == GM_ERR_MEMORY) { // a rule that goes without an area would say less, and not why
        arena_no_memory(kb->arena);
    }
    if (rc < 0 || !doc) {
        return rc;
    }
    kb->loading = doc;
    *ret_whole = json_is_true(json_object_get(doc, "whole"));
    rc = rows_decode(kb->arena, area, doc, ret, &wrong, err);
    kb_close(kb);
    return rc < 0 ? gm_err_wrap(err, "%s:%u", area_file(kb, area->name),
                                wrong == SIZE_MAX ? 1 : row_line(text, wrong))
                  : 0;
}

static int area_load(struct kb *kb, const struct area *area, struct rows *ret, struct gm_err *err)
{
    bool is_whole;
    int rc = folder_rows(kb, area, ret, &is_whole, err);
    if (rc < 0 || is_whole) {
        return rc;
    }
    struct rows own = *ret;
    ret->items = kb_unpack(kb->arena, embedded_blob(area->name), area->record, &ret->n);
    *ret = own.n ? rows_merge(kb->arena, area->record->size, own, *ret) : *ret;
    return 0;
}

static bool is_json(const char *name, void *arg)
{
    (void)arg;
    return name[0] != '.' && ends_with(name, ".json");
}

/* A file that no area is called after would not be used, and nobody would hear of it. */
static int folder_check(struct kb *kb, struct gm_err *err)
{
    struct root_dir dir;
    int rc = root_list(kb->root, kb->arena, kb->folder, KB_FOLDER_MAX,
                       &(struct root_filter){.keep = is_json}, &dir);
    if (rc < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "knowledge folder %s: %s", kb->folder, strerror(-rc));
    }
    if (dir.truncated) {
        return gm_err_set(err, GM_ERR_LIMIT, "knowledge folder %s: more than %d files", kb->folder,
                          KB_FOLDER_MAX);
    }
    for (size_t i = 0; i < dir.n; i++) {
        size_t stem = strlen(dir.names[i]) - strlen(".json");
        if (!embedded_blob(arena_strndup(kb->arena, dir.names[i], stem))) {
            return gm_err_set(err, GM_ERR_FORMAT, "%s/%s: no area has this name (docs/kb.md)",
                              kb->folder, dir.names[i]);
        }
    }
    return 0;
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
    return folder ? folder_check(kb, err) : 0;
}

int kb_load_folder(struct kb *kb, struct gm_err *err)
{
    struct kb_rows unused;
    int rc = 0;
    for (int area = 0; rc == 0 && kb->folder && area < KB_AREAS; area++) {
        rc = kb_rows(kb, (enum kb_area)area, &unused, err);
    }
    return rc;
}

int kb_folder_count(struct kb *kb, enum kb_area area, size_t *ret, struct gm_err *err)
{
    struct rows rows;
    bool is_whole;
    int rc = folder_rows(kb, &kb_areas[area], &rows, &is_whole, err);
    *ret = rows.n;
    return rc;
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
    struct str text = {0};
    int rc = folder_document(kb, name, &text, ret, err);
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
KB_AREA_FUNCTION(packages, KB_AREA_PACKAGES)
KB_AREA_FUNCTION(provides, KB_AREA_PROVIDES)
KB_AREA_FUNCTION(releases, KB_AREA_RELEASES)
KB_AREA_FUNCTION(repositorys, KB_AREA_REPOSITORYS)
KB_AREA_FUNCTION(rocms, KB_AREA_ROCMS)
KB_AREA_FUNCTION(sizes, KB_AREA_SIZES)
KB_AREA_FUNCTION(toolkits, KB_AREA_TOOLKITS)
KB_AREA_FUNCTION(traits, KB_AREA_TRAITS)

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

bool kb_family_has(const struct kb_family *f, const char *name)
{
    for (size_t i = 0; i < f->members.n; i++) {
        if (str_glob(f->members.items[i], name)) {
            return true;
        }
    }
    return false;
}

const struct kb_family *kb_family_of(const struct kb_families *families, const char *name)
{
    for (size_t i = 0; i < families->n; i++) {
        if (kb_family_has(&families->rows[i], name)) {
            return &families->rows[i];
        }
    }
    return NULL;
}
