#include "kb/kb.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "kb/internal.h"

/* A replacement file above this is refused; the embedded ones are below 100 KiB each. */
#define KB_FILE_MAX ((size_t)16 << 20)

/*
 * How JSON becomes structs: a record lists its fields, a field says its key, its type and where
 * it lies in the struct. Keys that no field names are refused, so that a typo is not a fact lost.
 */
enum field_type {
    FIELD_TEXT,
    FIELD_TEXTS, // array of texts; at least one unless the field is optional
    FIELD_BOOL,
    FIELD_NUMBER, // integer or null (-1)
    FIELD_WORD,   // one of `words`, stored as an enum
    FIELD_FLAG,   // one of two words, stored as a bool: the second is true
    FIELD_LIST,   // array of records
    FIELD_INSIDE, // an object whose members go into the same struct
};

struct record;

struct field {
    const char *key;
    enum field_type type;
    bool optional;
    size_t offset, count_offset; // count_offset: FIELD_TEXTS and FIELD_LIST
    const char *const *words;    // ends with NULL
    const struct record *record; // FIELD_LIST, FIELD_INSIDE
    int preset;                  // FIELD_WORD when it is left out
};

struct record {
    size_t size;
    const struct field *fields;
    size_t n;
};

/* Enums are stored through an int. */
static_assert(sizeof(enum kb_phase) == sizeof(int), "enums must have the size of int");

#define RECORD(type, array)                                                                        \
    {                                                                                              \
        sizeof(type), array, sizeof(array) / sizeof *(array)                                       \
    }
#define AT(type, member) .offset = offsetof(type, member)
#define TEXT(type, key, member)                                                                    \
    {                                                                                              \
        key, FIELD_TEXT, AT(type, member)                                                          \
    }
#define TEXT_OPT(type, key, member)                                                                \
    {                                                                                              \
        key, FIELD_TEXT, .optional = true, AT(type, member)                                        \
    }
#define TEXTS_AS(type, key, member, may_lack)                                                      \
    {                                                                                              \
        key, FIELD_TEXTS, .optional = may_lack, .offset = offsetof(type, member.items),            \
                          .count_offset = offsetof(type, member.n)                                 \
    }
#define TEXTS(type, key, member)     TEXTS_AS(type, key, member, false)
#define TEXTS_OPT(type, key, member) TEXTS_AS(type, key, member, true)
#define BOOL(type, key, member)                                                                    \
    {                                                                                              \
        key, FIELD_BOOL, AT(type, member)                                                          \
    }
#define BOOL_OPT(type, key, member)                                                                \
    {                                                                                              \
        key, FIELD_BOOL, .optional = true, AT(type, member)                                        \
    }
#define NUMBER(type, key, member)                                                                  \
    {                                                                                              \
        key, FIELD_NUMBER, AT(type, member)                                                        \
    }
#define WORD(type, key, member, list)                                                              \
    {                                                                                              \
        key, FIELD_WORD, AT(type, member), .words = list                                           \
    }
#define WORD_OPT(type, key, member, list, value)                                                   \
    {                                                                                              \
        key, FIELD_WORD, .optional = true, AT(type, member), .words = list, .preset = value        \
    }
#define FLAG_OPT(type, key, member, list)                                                          \
    {                                                                                              \
        key, FIELD_FLAG, .optional = true, AT(type, member), .words = list                         \
    }
#define LIST_AS(type, key, member, what, may_lack)                                                 \
    {                                                                                              \
        key, FIELD_LIST, .optional = may_lack, AT(type, member),                                   \
                         .count_offset = offsetof(type, n_##member), .record = &what               \
    }
#define LIST(type, key, member, what)     LIST_AS(type, key, member, what, false)
#define LIST_OPT(type, key, member, what) LIST_AS(type, key, member, what, true)
#define ORIGIN(type)                                                                               \
    WORD(type, "evidence", origin.evidence, evidence_words),                                       \
        TEXTS(type, "source", origin.sources), TEXT(type, "date", origin.date),                    \
        TEXT_OPT(type, "note", origin.note)

static const char *const evidence_words[] = {"ran", "read", "documented", NULL};
static const char *const phase_words[] = {"load", "import", "use", NULL};
static const char *const version_words[] = {"none",    "cudnn",  "nvrtc", "file-name",
                                            "package", "verdef", NULL};
static const char *const mode_words[] = {"now", "lazy", NULL};
static const char *const scope_words[] = {"local", "global", NULL};
static const char *const step_words[] = {"extension", "cdll", "preload", "import", "dlopen", NULL};
static const char *const when_words[] = {"always", "after-failure", "path-loaded",
                                         "gpu",    "no-gpu",        NULL};
static const char *const missing_words[] = {"fail", "stop", "skip", NULL};
static const char *const manager_words[] = {"pip", "apt", "dnf", "conda", "driver", NULL};
static const char *const rule_words[] = {"same-version", "same-origin", "not-older", NULL};

/* ------------------------------------------------------------------ the records */

static const struct field request_fields[] = {
    TEXTS(struct kb_request, "names", names),
    BOOL(struct kb_request, "required", required),
    FLAG_OPT(struct kb_request, "mode", lazy, mode_words),
    FLAG_OPT(struct kb_request, "scope", global, scope_words),
    TEXT_OPT(struct kb_request, "family", family),
    TEXT_OPT(struct kb_request, "feature", feature),
};
static const struct record request_record = RECORD(struct kb_request, request_fields);

static const struct field package_fields[] = {
    TEXT(struct kb_dlopen, "name", package),
    TEXT_OPT(struct kb_dlopen, "versions", package_versions),
};
static const struct record package_record = RECORD(struct kb_dlopen, package_fields);

static const struct field dlopen_fields[] = {
    TEXT(struct kb_dlopen, "id", id),
    TEXTS(struct kb_dlopen, "objects", objects),
    {"package", FIELD_INSIDE, .optional = true, .record = &package_record},
    TEXT_OPT(struct kb_dlopen, "beside", beside),
    TEXT_OPT(struct kb_dlopen, "object_version", object_version),
    WORD_OPT(struct kb_dlopen, "version_from", version_from, version_words, KB_VERSION_NONE),
    WORD(struct kb_dlopen, "phase", phase, phase_words),
    LIST(struct kb_dlopen, "opens", requests, request_record),
    TEXT(struct kb_dlopen, "says", says),
    ORIGIN(struct kb_dlopen),
};
static const struct record dlopen_record = RECORD(struct kb_dlopen, dlopen_fields);

static const struct field preload_fields[] = {
    TEXTS(struct kb_preload, "folders", folders),
    TEXT(struct kb_preload, "glob", glob),
    BOOL_OPT(struct kb_preload, "optional", optional),
};
static const struct record preload_record = RECORD(struct kb_preload, preload_fields);

static const struct field step_fields[] = {
    WORD(struct kb_step, "do", kind, step_words),
    WORD_OPT(struct kb_step, "phase", phase, phase_words, KB_PHASE_IMPORT),
    WORD_OPT(struct kb_step, "when", when, when_words, KB_WHEN_ALWAYS),
    WORD_OPT(struct kb_step, "missing", missing, missing_words, KB_MISSING_FAIL),
    BOOL_OPT(struct kb_step, "optional", optional),
    BOOL_OPT(struct kb_step, "retry", retry),
    FLAG_OPT(struct kb_step, "mode", lazy, mode_words),
    FLAG_OPT(struct kb_step, "scope", global, scope_words),
    TEXT_OPT(struct kb_step, "module", module),
    TEXT_OPT(struct kb_step, "file", file),
    TEXTS_OPT(struct kb_step, "fallback", fallback),
    TEXT_OPT(struct kb_step, "package", package),
    TEXT_OPT(struct kb_step, "path", path),
    TEXT_OPT(struct kb_step, "caller", caller),
    TEXT_OPT(struct kb_step, "group", group),
    TEXTS_OPT(struct kb_step, "names", names),
    LIST_OPT(struct kb_step, "libs", libs, preload_record),
};
static const struct record step_record = RECORD(struct kb_step, step_fields);

static const struct field import_fields[] = {
    TEXT(struct kb_import, "id", id),
    TEXT(struct kb_import, "package", package),
    TEXT(struct kb_import, "versions", versions),
    TEXT(struct kb_import, "module", module),
    LIST(struct kb_import, "steps", steps, step_record),
    ORIGIN(struct kb_import),
};
static const struct record import_record = RECORD(struct kb_import, import_fields);

static const struct field provider_fields[] = {
    WORD(struct kb_provider, "manager", manager, manager_words),
    TEXT(struct kb_provider, "package", package),
    TEXT_OPT(struct kb_provider, "folder", folder),
    TEXT_OPT(struct kb_provider, "versions", versions),
};
static const struct record provider_record = RECORD(struct kb_provider, provider_fields);

static const struct field provide_fields[] = {
    TEXT(struct kb_provide, "id", id),
    TEXT(struct kb_provide, "soname", soname),
    TEXT(struct kb_provide, "library", library),
    TEXT_OPT(struct kb_provide, "family", family),
    NUMBER(struct kb_provide, "major", major),
    NUMBER(struct kb_provide, "cuda_major", cuda_major),
    LIST(struct kb_provide, "providers", providers, provider_record),
    ORIGIN(struct kb_provide),
};
static const struct record provide_record = RECORD(struct kb_provide, provide_fields);

static const struct field family_fields[] = {
    TEXT(struct kb_family, "id", id),
    TEXT(struct kb_family, "title", title),
    TEXTS(struct kb_family, "members", members),
    WORD(struct kb_family, "rule", rule, rule_words),
    TEXTS_OPT(struct kb_family, "required", required),
    TEXTS_OPT(struct kb_family, "optional", optional),
    WORD(struct kb_family, "version_from", version_from, version_words),
    TEXTS_OPT(struct kb_family, "recipe", recipe),
    ORIGIN(struct kb_family),
};
static const struct record family_record = RECORD(struct kb_family, family_fields);

static const struct field need_fields[] = {
    TEXT(struct kb_need, "package", package),
    TEXT_OPT(struct kb_need, "versions", versions),
};
static const struct record need_record = RECORD(struct kb_need, need_fields);

static const struct field compat_fields[] = {
    TEXT(struct kb_compat, "id", id),
    TEXT(struct kb_compat, "package", package),
    TEXT(struct kb_compat, "versions", versions),
    NUMBER(struct kb_compat, "cuda_major", cuda_major),
    TEXT_OPT(struct kb_compat, "cudnn", cudnn),
    LIST(struct kb_compat, "needs", needs, need_record),
    ORIGIN(struct kb_compat),
};
static const struct record compat_record = RECORD(struct kb_compat, compat_fields);

/* ------------------------------------------------------------------ decoding */

static int decode(struct arena *a, const struct record *r, const json_t *from, char *to,
                  struct gm_err *err) GM_CHECK;

static int decode_text(struct arena *a, const json_t *v, char *to, struct gm_err *err)
{
    if (!json_is_string(v) || json_string_length(v) == 0) {
        return gm_err_set(err, GM_ERR_FORMAT, "expected a text");
    }
    const char *text = arena_strndup(a, json_string_value(v), json_string_length(v));
    memcpy(to, &text, sizeof text);
    return 0;
}

static int decode_texts(struct arena *a, const struct field *f, const json_t *v, char *to,
                        struct gm_err *err)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v) || (n == 0 && !f->optional)) {
        return gm_err_set(err, GM_ERR_FORMAT, "expected a list of texts");
    }
    const char **items = arena_array(a, n, sizeof *items);
    for (size_t i = 0; i < n; i++) {
        int rc = decode_text(a, json_array_get(v, i), (char *)&items[i], err);
        if (rc < 0) {
            return rc;
        }
    }
    memcpy(to + f->offset, &items, sizeof items);
    memcpy(to + f->count_offset, &n, sizeof n);
    return 0;
}

static int decode_list(struct arena *a, const struct field *f, const json_t *v, char *to,
                       struct gm_err *err)
{
    if (!json_is_array(v)) {
        return gm_err_set(err, GM_ERR_FORMAT, "expected a list");
    }
    size_t n = json_array_size(v);
    char *items = arena_array(a, n, f->record->size);
    for (size_t i = 0; i < n; i++) {
        if (decode(a, f->record, json_array_get(v, i), items + i * f->record->size, err) < 0) {
            return gm_err_wrap(err, "entry %zu", i + 1);
        }
    }
    memcpy(to + f->offset, &items, sizeof items);
    memcpy(to + f->count_offset, &n, sizeof n);
    return 0;
}

static int decode_number(const json_t *v, char *to, struct gm_err *err)
{
    json_int_t number = json_is_null(v) ? -1 : json_integer_value(v);
    if (!json_is_null(v) && (!json_is_integer(v) || number < 0 || number > 1000000)) {
        return gm_err_set(err, GM_ERR_FORMAT, "expected a number or null");
    }
    int value = (int)number;
    memcpy(to, &value, sizeof value);
    return 0;
}

static int decode_bool(const json_t *v, char *to, struct gm_err *err)
{
    if (!json_is_boolean(v)) {
        return gm_err_set(err, GM_ERR_FORMAT, "expected true or false");
    }
    bool value = json_is_true(v);
    memcpy(to, &value, sizeof value);
    return 0;
}

static int decode_word(const struct field *f, const json_t *v, char *to, struct gm_err *err)
{
    const char *text = json_string_value(v);
    for (int i = 0; text && f->words[i]; i++) {
        if (strcmp(text, f->words[i]) == 0) {
            bool flag = i != 0;
            memcpy(to, f->type == FIELD_FLAG ? (const void *)&flag : (const void *)&i,
                   f->type == FIELD_FLAG ? sizeof flag : sizeof i);
            return 0;
        }
    }
    return gm_err_set(err, GM_ERR_FORMAT, "\"%.60s\" is not one of the words known here",
                      text ? text : "");
}

static int decode_value(struct arena *a, const struct field *f, const json_t *v, char *to,
                        struct gm_err *err)
{
    switch (f->type) {
    case FIELD_TEXT:
        return decode_text(a, v, to + f->offset, err);
    case FIELD_TEXTS:
        return decode_texts(a, f, v, to, err);
    case FIELD_BOOL:
        return decode_bool(v, to + f->offset, err);
    case FIELD_NUMBER:
        return decode_number(v, to + f->offset, err);
    case FIELD_WORD:
    case FIELD_FLAG:
        return decode_word(f, v, to + f->offset, err);
    case FIELD_LIST:
        return decode_list(a, f, v, to, err);
    case FIELD_INSIDE:
        return decode(a, f->record, v, to, err);
    }
    return gm_err_set(err, GM_ERR_FORMAT, "unknown type of field");
}

static int refuse_unknown_key(const struct record *r, const json_t *from, struct gm_err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)from, key, value)
    {
        bool known = false;
        for (size_t i = 0; i < r->n; i++) {
            known = known || strcmp(r->fields[i].key, key) == 0;
        }
        if (!known) {
            return gm_err_set(err, GM_ERR_FORMAT, "unknown key \"%.60s\"", key);
        }
    }
    return 0;
}

static int decode(struct arena *a, const struct record *r, const json_t *from, char *to,
                  struct gm_err *err)
{
    if (!json_is_object(from)) {
        return gm_err_set(err, GM_ERR_FORMAT, "expected an object");
    }
    size_t found = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct field *f = &r->fields[i];
        const json_t *v = json_object_get(from, f->key);
        if (f->type == FIELD_WORD) {
            memcpy(to + f->offset, &f->preset, sizeof f->preset);
        }
        found += v != NULL;
        if (!v && !f->optional) {
            return gm_err_set(err, GM_ERR_FORMAT, "\"%s\" is missing", f->key);
        }
        bool left_out = !v || (f->optional && json_is_null(v));
        if (!left_out && decode_value(a, f, v, to, err) < 0) {
            return gm_err_wrap(err, "%s", f->key);
        }
    }
    return found == json_object_size(from) ? 0 : refuse_unknown_key(r, from, err);
}

/* ------------------------------------------------------------------ areas */

struct area {
    const char *name;
    const struct record *record;
    int (*check)(const void *row, struct gm_err *err); // or NULL
};

struct rows {
    void *items;
    size_t n;
};

static int rows_decode(struct arena *a, const struct area *area, const json_t *rows,
                       struct rows *ret, struct gm_err *err)
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
        if (decode(a, area->record, row, to, err) < 0 ||
            (area->check && area->check(to, err) < 0)) {
            return gm_err_wrap(err, "row %.80s", id);
        }
        before = id;
    }
    *ret = (struct rows){items, n};
    return 0;
}

static int document_decode(struct arena *a, const struct area *area, const json_t *doc,
                           struct rows *ret, struct gm_err *err)
{
    const char *name = json_string_value(json_object_get(doc, "area"));
    if (json_integer_value(json_object_get(doc, "schema")) != 1) {
        return gm_err_set(err, GM_ERR_FORMAT, "\"schema\" is not 1");
    }
    if (!name || strcmp(name, area->name) != 0) {
        return gm_err_set(err, GM_ERR_FORMAT, "\"area\" is not \"%s\"", area->name);
    }
    return rows_decode(a, area, json_object_get(doc, "rows"), ret, err);
}

static int text_decode(struct arena *a, const struct area *area, const char *data, size_t size,
                       size_t flags, struct rows *ret, struct gm_err *err)
{
    json_error_t why;
    json_t *doc = json_loadb(data, size, flags, &why);
    if (!doc) {
        return gm_err_set(err, GM_ERR_FORMAT, "line %d, column %d: %s", why.line, why.column,
                          why.text);
    }
    int rc = document_decode(a, area, doc, ret, err);
    json_decref(doc);
    return rc;
}

static int embedded_load(struct arena *a, const struct area *area, struct rows *ret,
                         struct gm_err *err)
{
    for (size_t i = 0; i < kb_blobs_n; i++) {
        if (strcmp(kb_blobs[i].area, area->name) == 0) {
            int rc = text_decode(a, area, kb_blobs[i].data, kb_blobs[i].size, 0, ret, err);
            return rc < 0 ? gm_err_wrap(err, "embedded knowledge, %s", area->name) : 0;
        }
    }
    return gm_err_set(err, GM_ERR_FORMAT, "embedded knowledge: there is no area %s", area->name);
}

static int area_load(struct kb *kb, const struct area *area, struct rows *ret, struct gm_err *err)
{
    if (!kb->folder) {
        return embedded_load(kb->arena, area, ret, err);
    }
    const char *file = arena_printf(kb->arena, "%s/%s.json", kb->folder, area->name);
    struct str text;
    int rc = root_read(kb->root, kb->arena, file, KB_FILE_MAX, &text);
    if (rc == -ENOENT) {
        return embedded_load(kb->arena, area, ret, err);
    }
    if (rc < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", file, strerror(-rc));
    }
    rc = text_decode(kb->arena, area, text.s, text.n, JSON_REJECT_DUPLICATES, ret, err);
    return rc < 0 ? gm_err_wrap(err, "%s", file) : 0;
}

/* ------------------------------------------------------------------ checks across fields */

static int import_check(const void *row, struct gm_err *err)
{
    const struct kb_import *import = row;
    for (size_t i = 0; i < import->n_steps; i++) {
        const struct kb_step *s = &import->steps[i];
        const struct {
            bool there;
            const char *key;
        } must[] = {
            [KB_STEP_EXTENSION] = {s->module != NULL, "module"},
            [KB_STEP_CDLL] = {s->file != NULL, "file"},
            [KB_STEP_PRELOAD] = {s->n_libs > 0, "libs"},
            [KB_STEP_IMPORT] = {s->package != NULL, "package"},
            [KB_STEP_DLOPEN] = {s->names.n > 0 && s->caller, "names and caller"},
        };
        if (!must[s->kind].there) {
            return gm_err_set(err, GM_ERR_FORMAT, "step %zu: \"%s\" needs %s", i + 1,
                              step_words[s->kind], must[s->kind].key);
        }
        if ((s->when == KB_WHEN_PATH_LOADED) != (s->path != NULL)) {
            return gm_err_set(err, GM_ERR_FORMAT,
                              "step %zu: \"path\" goes with \"path-loaded\" and nothing else",
                              i + 1);
        }
    }
    return 0;
}

static const struct area area_dlopens = {"dlopen", &dlopen_record, NULL};
static const struct area area_imports = {"imports", &import_record, import_check};
static const struct area area_provides = {"provides", &provide_record, NULL};
static const struct area area_families = {"families", &family_record, NULL};
static const struct area area_compats = {"compat", &compat_record, NULL};

/* ------------------------------------------------------------------ the interface */

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

/* The five areas differ in their types only. */
#define KB_AREA(plural, row_type)                                                                  \
    int kb_##plural(struct kb *kb, struct kb_##plural *ret, struct gm_err *err)                    \
    {                                                                                              \
        struct rows rows;                                                                          \
        if (!kb->has_##plural) {                                                                   \
            int rc = area_load(kb, &area_##plural, &rows, err);                                    \
            if (rc < 0) {                                                                          \
                return rc;                                                                         \
            }                                                                                      \
            kb->plural.rows = (const row_type *)rows.items;                                        \
            kb->plural.n = rows.n;                                                                 \
            kb->has_##plural = true;                                                               \
        }                                                                                          \
        *ret = kb->plural;                                                                         \
        return 0;                                                                                  \
    }

KB_AREA(dlopens, struct kb_dlopen)
KB_AREA(imports, struct kb_import)
KB_AREA(provides, struct kb_provide)
KB_AREA(families, struct kb_family)
KB_AREA(compats, struct kb_compat)
