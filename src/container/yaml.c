/* YAML as JSON values, by libyaml. Only what a CDI file may hold: mappings with plain keys,
 * sequences and scalars; the core schema's types of YAML 1.2, chapter 10.3. */
#include "container/cdi_files.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { NODES_MAX = 200000, DEPTH_MAX = 32 };

struct reader {
    struct arena *arena;
    yaml_document_t *document;
    size_t n; // nodes that were visited, those behind aliases each time
    const char *why;
};

static json_t *number_or_text(const char *text, size_t n)
{
    char *end = NULL;
    if (n && n < 20 && strspn(text, "+-0123456789xabcdefABCDEF") == n &&
        strspn(text, "+-0123456789") > 0) {
        long long value = strtoll(text, &end, text[0] == '0' && n > 1 ? 0 : 10);
        if (end == text + n) {
            return json_integer(value);
        }
    }
    return json_stringn(text, n);
}

static json_t *scalar(const yaml_node_t *node)
{
    const char *text = (const char *)node->data.scalar.value;
    size_t n = node->data.scalar.length;
    if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) {
        return json_stringn(text, n);
    }
    if (n == 0 || strcmp(text, "null") == 0 || strcmp(text, "~") == 0) {
        return json_null();
    }
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        return json_boolean(text[0] == 't');
    }
    return number_or_text(text, n);
}

static json_t *value_of(struct reader *r, int index, unsigned depth);

static json_t *sequence(struct reader *r, const yaml_node_t *node, unsigned depth)
{
    json_t *list = json_array();
    const yaml_node_item_t *end = node->data.sequence.items.top;
    for (const yaml_node_item_t *i = node->data.sequence.items.start; i < end; i++) {
        json_t *item = value_of(r, *i, depth + 1);
        if (!item || json_array_append_new(list, item) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *mapping(struct reader *r, const yaml_node_t *node, unsigned depth)
{
    json_t *object = json_object();
    const yaml_node_pair_t *end = node->data.mapping.pairs.top;
    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start; p < end; p++) {
        const yaml_node_t *key = yaml_document_get_node(r->document, p->key);
        json_t *value = NULL;
        if (!key || key->type != YAML_SCALAR_NODE) {
            r->why = "a key is no plain text";
        } else {
            value = value_of(r, p->value, depth + 1);
        }
        if (!value ||
            json_object_set_new(object, (const char *)key->data.scalar.value, value) < 0) {
            r->why = r->why ? r->why : "a key is not UTF-8";
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *value_of(struct reader *r, int index, unsigned depth)
{
    const yaml_node_t *node = yaml_document_get_node(r->document, index);
    json_t *value = NULL;
    if (!node || ++r->n > NODES_MAX || depth > DEPTH_MAX) {
        r->why = "it is larger or nested deeper than any specification";
        return NULL;
    }
    switch (node->type) {
    case YAML_SCALAR_NODE:
        value = scalar(node);
        break;
    case YAML_SEQUENCE_NODE:
        value = sequence(r, node, depth);
        break;
    case YAML_MAPPING_NODE:
        value = mapping(r, node, depth);
        break;
    case YAML_NO_NODE:
        break;
    }
    if (!value && !r->why) {
        r->why = "a text in it is not UTF-8";
    }
    return value;
}

json_t *cdi_parse(struct arena *a, struct str text, const char **ret_why)
{
    yaml_parser_t parser;
    yaml_document_t document;
    json_t *value = NULL;
    *ret_why = NULL;
    if (!yaml_parser_initialize(&parser)) {
        *ret_why = "there is no memory for it";
        return NULL;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.s, text.n);
    if (!yaml_parser_load(&parser, &document)) {
        *ret_why = arena_printf(a, "it is no YAML: %s in line %zu",
                                parser.problem ? parser.problem : "an error",
                                parser.problem_mark.line + 1);
    } else {
        struct reader r = {.arena = a, .document = &document};
        if (yaml_document_get_root_node(&document)) {
            value = value_of(&r, 1, 0);
            *ret_why = r.why;
        } else {
            *ret_why = "it is empty";
        }
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
    return value;
}
