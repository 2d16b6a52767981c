#include "report/yaml_text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "base/str.h"

struct writer {
    struct arena *arena;
    yaml_emitter_t emitter;
    char *text;
    size_t n, cap;
};

static int writer_take(void *arg, unsigned char *data, size_t n)
{
    struct writer *w = arg;
    if (w->n + n + 1 > w->cap) {
        size_t cap = (w->n + n + 1) * 2;
        char *text = arena_alloc(w->arena, cap);
        if (w->n) {
            memcpy(text, w->text, w->n);
        }
        w->text = text;
        w->cap = cap;
    }
    memcpy(w->text + w->n, data, n);
    w->n += n;
    w->text[w->n] = '\0';
    return 1;
}

/* A word that no version of YAML takes for a number, a truth or nothing. */
static bool scalar_is_plain(const char *text)
{
    static const char *const words[] = {"y",   "n",    "yes",   "no",   "on",
                                        "off", "true", "false", "null", NULL};
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    for (size_t i = 0; words[i]; i++) {
        if (strcasecmp(words[i], text) == 0) {
            return false;
        }
    }
    return str_is_letter(*text) && strspn(text, plain) == strlen(text);
}

static int emit_scalar(struct writer *w, const char *text, bool quoted)
{
    yaml_event_t e;
    yaml_scalar_style_t style = quoted ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_PLAIN_SCALAR_STYLE;
    return yaml_scalar_event_initialize(&e, NULL, NULL, (const yaml_char_t *)text,
                                        (int)strlen(text), 1, 1, style) &&
           yaml_emitter_emit(&w->emitter, &e);
}

static int emit(struct writer *w, const json_t *value);

static int emit_object(struct writer *w, const json_t *value)
{
    yaml_event_t e;
    const char *key;
    json_t *item;
    yaml_mapping_style_t style =
        json_object_size(value) ? YAML_BLOCK_MAPPING_STYLE : YAML_FLOW_MAPPING_STYLE;
    int ok = yaml_mapping_start_event_initialize(&e, NULL, NULL, 1, style) &&
             yaml_emitter_emit(&w->emitter, &e);
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        ok = ok && emit_scalar(w, key, !scalar_is_plain(key)) && emit(w, item);
    }
    return ok && yaml_mapping_end_event_initialize(&e) && yaml_emitter_emit(&w->emitter, &e);
}

static int emit_array(struct writer *w, const json_t *value)
{
    yaml_event_t e;
    int ok = yaml_sequence_start_event_initialize(&e, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE) &&
             yaml_emitter_emit(&w->emitter, &e);
    for (size_t i = 0; i < json_array_size(value); i++) {
        ok = ok && emit(w, json_array_get(value, i));
    }
    return ok && yaml_sequence_end_event_initialize(&e) && yaml_emitter_emit(&w->emitter, &e);
}

static int emit(struct writer *w, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return emit_object(w, value);
    case JSON_ARRAY: return emit_array(w, value);
    case JSON_STRING:
        return emit_scalar(w, json_string_value(value), !scalar_is_plain(json_string_value(value)));
    case JSON_INTEGER:
        return emit_scalar(w, arena_printf(w->arena, "%lld", (long long)json_integer_value(value)),
                           false);
    case JSON_TRUE:
    case JSON_FALSE: return emit_scalar(w, json_is_true(value) ? "true" : "false", false);
    case JSON_NULL:
    case JSON_REAL: break;
    }
    return emit_scalar(w, "null", false);
}

static int emit_document(struct writer *w, const json_t *document, bool first)
{
    yaml_event_t e;
    return yaml_document_start_event_initialize(&e, NULL, NULL, NULL, first) &&
           yaml_emitter_emit(&w->emitter, &e) && emit(w, document) &&
           yaml_document_end_event_initialize(&e, 1) && yaml_emitter_emit(&w->emitter, &e);
}

const char *report_yaml_text(struct arena *a, const json_t *documents)
{
    struct writer w = {.arena = a};
    yaml_event_t e;
    if (!yaml_emitter_initialize(&w.emitter)) {
        return NULL;
    }
    yaml_emitter_set_output(&w.emitter, writer_take, &w);
    yaml_emitter_set_width(&w.emitter, -1);
    int ok = yaml_stream_start_event_initialize(&e, YAML_UTF8_ENCODING) &&
             yaml_emitter_emit(&w.emitter, &e);
    for (size_t i = 0; i < json_array_size(documents); i++) {
        ok = ok && emit_document(&w, json_array_get(documents, i), i == 0);
    }
    ok = ok && yaml_stream_end_event_initialize(&e) && yaml_emitter_emit(&w.emitter, &e);
    yaml_emitter_delete(&w.emitter);
    return ok ? w.text : NULL;
}
