#include <string.h>

#include "kb/internal.h"

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
        if (kb_decode(a, f->record, json_array_get(v, i), NULL, items + i * f->record->size, err) <
            0) {
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

bool kb_store_word(const struct field *f, const char *text, char *to)
{
    for (int i = 0; text && f->words[i]; i++) {
        if (strcmp(text, f->words[i]) == 0) {
            bool flag = i != 0;
            memcpy(to, f->type == FIELD_FLAG ? (const void *)&flag : (const void *)&i,
                   f->type == FIELD_FLAG ? sizeof flag : sizeof i);
            return true;
        }
    }
    return false;
}

static int decode_word(const struct field *f, const json_t *v, char *to, struct gm_err *err)
{
    const char *text = json_string_value(v);
    if (kb_store_word(f, text, to)) {
        return 0;
    }
    return gm_err_set(err, GM_ERR_FORMAT, "\"%.60s\" is not one of the words known here",
                      text ? text : "");
}

static int decode_value(struct arena *a, const struct field *f, const json_t *v, char *to,
                        struct gm_err *err)
{
    switch (f->type) {
    case FIELD_TEXT: return decode_text(a, v, to + f->offset, err);
    case FIELD_TEXTS: return decode_texts(a, f, v, to, err);
    case FIELD_BOOL: return decode_bool(v, to + f->offset, err);
    case FIELD_NUMBER: return decode_number(v, to + f->offset, err);
    case FIELD_WORD:
    case FIELD_FLAG: return decode_word(f, v, to + f->offset, err);
    case FIELD_LIST: return decode_list(a, f, v, to, err);
    case FIELD_INSIDE: return kb_decode(a, f->record, v, NULL, to, err);
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

void kb_preset(const struct record *r, char *to)
{
    for (size_t i = 0; i < r->n; i++) {
        if (r->fields[i].type == FIELD_WORD) {
            memcpy(to + r->fields[i].offset, &r->fields[i].preset, sizeof r->fields[i].preset);
        }
    }
}

int kb_decode(struct arena *a, const struct record *r, const json_t *from, const json_t *defaults,
              char *to, struct gm_err *err)
{
    if (!json_is_object(from)) {
        return gm_err_set(err, GM_ERR_FORMAT, "expected an object");
    }
    size_t found = 0;
    kb_preset(r, to);
    for (size_t i = 0; i < r->n; i++) {
        const struct field *f = &r->fields[i];
        const json_t *v = json_object_get(from, f->key);
        found += v != NULL;
        v = v ? v : json_object_get(defaults, f->key);
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

/* ------------------------------------------------------------------ and back */

static json_t *encode_texts(const struct field *f, const char *from)
{
    const char *const *items;
    size_t n;
    memcpy(&items, from + f->offset, sizeof items);
    memcpy(&n, from + f->count_offset, sizeof n);
    json_t *list = n || !f->optional ? json_array() : NULL;
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, json_string_nocheck(items[i]));
    }
    return list;
}

static json_t *encode_list(const struct field *f, const char *from)
{
    const char *items;
    size_t n;
    memcpy(&items, from + f->offset, sizeof items);
    memcpy(&n, from + f->count_offset, sizeof n);
    json_t *list = n || !f->optional ? json_array() : NULL;
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, kb_encode(f->record, items + i * f->record->size));
    }
    return list;
}

static json_t *encode_number(const struct field *f, const char *from)
{
    int value;
    memcpy(&value, from + f->offset, sizeof value);
    if (f->optional && value == 0) {
        return NULL; // never read: the struct was zeroed
    }
    return value < 0 ? json_null() : json_integer(value);
}

static json_t *encode_word(const struct field *f, const char *from)
{
    int value;
    memcpy(&value, from + f->offset, sizeof value);
    return f->optional && value == f->preset ? NULL : json_string_nocheck(f->words[value]);
}

static json_t *encode_bool(const struct field *f, const char *from)
{
    bool value;
    memcpy(&value, from + f->offset, sizeof value);
    if (f->optional && !value) {
        return NULL;
    }
    return f->type == FIELD_FLAG ? json_string_nocheck(f->words[value]) : json_boolean(value);
}

static json_t *encode_text(const struct field *f, const char *from)
{
    const char *text;
    memcpy(&text, from + f->offset, sizeof text);
    return text ? json_string_nocheck(text) : NULL;
}

static json_t *encode_inside(const struct field *f, const char *from)
{
    json_t *object = kb_encode(f->record, from);
    if (json_object_size(object) == 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *encode_value(const struct field *f, const char *from)
{
    switch (f->type) {
    case FIELD_TEXT: return encode_text(f, from);
    case FIELD_TEXTS: return encode_texts(f, from);
    case FIELD_BOOL:
    case FIELD_FLAG: return encode_bool(f, from);
    case FIELD_NUMBER: return encode_number(f, from);
    case FIELD_WORD: return encode_word(f, from);
    case FIELD_LIST: return encode_list(f, from);
    case FIELD_INSIDE: return encode_inside(f, from);
    }
    return NULL;
}

json_t *kb_encode(const struct record *r, const char *from)
{
    json_t *object = json_object();
    for (size_t i = 0; i < r->n; i++) {
        json_t *value = encode_value(&r->fields[i], from);
        if (value) {
            (void)json_object_set_new_nocheck(object, r->fields[i].key, value);
        }
    }
    return object;
}
