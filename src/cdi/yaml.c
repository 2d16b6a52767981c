/* YAML as JSON values, by libyaml. Only what a CDI file may hold: mappings with plain keys,
 * sequences and scalars; the types that gopkg.in/yaml.v2 and v3 resolve scalars to (resolve.go). */
#include "cdi/files.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "base/node.h"

enum { NODES_MAX = 200000, DEPTH_MAX = 32, NUMBER_MAX = 64, ANCHORS_MAX = 10000 };

const char cdi_too_large[] = "it is larger or nested deeper than any specification";

struct reader {
    struct arena *arena;
    yaml_document_t *document;
    size_t n; // nodes that were visited, those behind aliases each time
    const char *why;
};

/* Integers as Go's strconv reads them in base 0, "_" between digits left out. */
static bool scalar_is_integer(const char *text, json_int_t *ret)
{
    char digits[NUMBER_MAX + 1], *end;
    size_t n = 0;
    for (const char *p = text; *p; p++) {
        if (*p != '_') {
            digits[n++] = *p;
        }
    }
    digits[n] = '\0';
    size_t sign = digits[0] == '-' || digits[0] == '+', from = sign;
    int base = 10;
    if (digits[sign] == '0' && n > sign + 1) {
        char kind = digits[sign + 1] | 0x20;
        base = kind == 'x' ? 16 : kind == 'b' ? 2 : 8;
        from += strchr("xbo", kind) ? 2 : 1;
    }
    if (strspn(digits + from, "0123456789abcdefABCDEF") == 0) {
        return false;
    }
    errno = 0;
    long long value = strtoll(digits + from, &end, base);
    *ret = digits[0] == '-' ? -value : value;
    return *end == '\0' && errno == 0;
}

static bool is_real(const char *text, double *ret)
{
    char *end;
    if (strspn(text, "0123456789+-.eE") != strlen(text) || !strpbrk(text, "0123456789")) {
        return false;
    }
    *ret = strtod(text, &end);
    return *end == '\0' && isfinite(*ret);
}

static json_t *number_or_text(const char *text, size_t n)
{
    json_int_t integer;
    double real;
    if (n > NUMBER_MAX || !strchr("+-.0123456789", *text)) {
        return json_stringn(text, n);
    }
    return scalar_is_integer(text, &integer) ? json_integer(integer)
           : is_real(text, &real)            ? json_real(real)
                                             : json_stringn(text, n);
}

/* The words of YAML 1.1, which the decoders of engines take where a truth is wanted. */
static bool is_truth(const char *text, bool *ret)
{
    static const char *const words[] = {"true", "yes", "on", "y", "false", "no", "off", "n"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(words[i], text) == 0) {
            *ret = i < 4;
            return true;
        }
    }
    return false;
}

/* YAML 1.1 as far as engines' decoders follow it; a tag of a text makes one. */
static json_t *scalar(const yaml_node_t *node)
{
    const char *text = (const char *)node->data.scalar.value;
    size_t n = node->data.scalar.length;
    bool truth;
    if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || strlen(text) != n ||
        strcmp((const char *)node->tag, YAML_STR_TAG) != 0) {
        return json_stringn(text, n);
    }
    if (n == 0 || strcasecmp(text, "null") == 0 || strcmp(text, "~") == 0) {
        return json_null();
    }
    return is_truth(text, &truth) ? json_boolean(truth) : number_or_text(text, n);
}

static json_t *node_value(struct reader *r, int index, unsigned depth);

static json_t *reader_sequence(struct reader *r, const yaml_node_t *node, unsigned depth)
{
    json_t *list = json_array();
    const yaml_node_item_t *end = node->data.sequence.items.top;
    for (const yaml_node_item_t *i = node->data.sequence.items.start; i < end; i++) {
        json_t *item = node_value(r, *i, depth + 1);
        if (!item || json_array_append_new(list, item) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Engines refuse a key that stands twice, whatever its values are. */
static bool reader_put(struct reader *r, json_t *object, const char *key, json_t *value)
{
    if (json_object_get(object, key)) {
        r->why = arena_printf(r->arena, "the key \"%s\" stands twice in one mapping",
                              str_printable(r->arena, key));
        return false;
    }
    if (json_object_set(object, key, value) < 0) {
        r->why = "a key is not UTF-8";
        return false;
    }
    return true;
}

/* The key "<<": the mapping of an alias, or each of a list, is put in (YAML 1.1, merge type). */
static bool reader_merge(struct reader *r, json_t *object, const json_t *from)
{
    const char *key;
    json_t *value, *one;
    size_t i;
    if (json_is_array(from)) {
        json_array_foreach(from, i, one)
        {
            if (!json_is_object(one) || !reader_merge(r, object, one)) {
                return false;
            }
        }
        return true;
    }
    json_object_foreach((json_t *)(uintptr_t)from, key, value)
    {
        if (!reader_put(r, object, key, value)) {
            return false;
        }
    }
    return json_is_object(from);
}

static bool add_pair(struct reader *r, json_t *object, const yaml_node_t *key, json_t *value)
{
    const char *text = (const char *)key->data.scalar.value;
    bool merges = strcmp(text, "<<") == 0 && key->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    bool good =
        value && (merges ? reader_merge(r, object, value) : reader_put(r, object, text, value));
    if (value && !good && !r->why) {
        r->why = "the key << has no mapping";
    }
    return good;
}

static json_t *mapping(struct reader *r, const yaml_node_t *node, unsigned depth)
{
    json_t *object = json_object();
    const yaml_node_pair_t *end = node->data.mapping.pairs.top;
    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start; p < end; p++) {
        const yaml_node_t *key = yaml_document_get_node(r->document, p->key);
        bool good = key && key->type == YAML_SCALAR_NODE;
        if (good) {
            json_t *value = node_value(r, p->value, depth + 1);
            good = add_pair(r, object, key, value);
            json_decref(value);
        } else {
            r->why = "a key is not plain text";
        }
        if (!good) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *node_value(struct reader *r, int index, unsigned depth)
{
    const yaml_node_t *node = yaml_document_get_node(r->document, index);
    json_t *value = NULL;
    if (!node || ++r->n > NODES_MAX || depth > DEPTH_MAX) {
        r->why = cdi_too_large;
        return NULL;
    }
    switch (node->type) {
    case YAML_SCALAR_NODE: value = scalar(node); break;
    case YAML_SEQUENCE_NODE: value = reader_sequence(r, node, depth); break;
    case YAML_MAPPING_NODE: value = mapping(r, node, depth); break;
    case YAML_NO_NODE: break;
    }
    if (!value && !r->why) {
        r->why = "a text in it is not UTF-8";
    }
    return value;
}

/* How deep and how large the first document has become with one more event. */
struct extent {
    size_t events, anchors, depth;
};

static bool extent_is_within(struct extent *x, const yaml_event_t *event)
{
    bool begins =
        event->type == YAML_SEQUENCE_START_EVENT || event->type == YAML_MAPPING_START_EVENT;
    bool ends = event->type == YAML_SEQUENCE_END_EVENT || event->type == YAML_MAPPING_END_EVENT;
    const yaml_char_t *anchor =
        event->type == YAML_SCALAR_EVENT           ? event->data.scalar.anchor
        : event->type == YAML_SEQUENCE_START_EVENT ? event->data.sequence_start.anchor
        : event->type == YAML_MAPPING_START_EVENT  ? event->data.mapping_start.anchor
                                                   : NULL;
    x->depth += begins;
    x->depth -= ends;
    x->anchors += anchor != NULL;
    return ++x->events <= 3 * (size_t)NODES_MAX && x->depth <= DEPTH_MAX + 1 &&
           x->anchors <= ANCHORS_MAX;
}

/* Whether libyaml may make a tree of it: its time is quadratic in the depth and in the number of
 * anchors and of directives. What is not YAML is left to the pass that says so. A node has a key, a
 * value and an end at most: 3 events. */
static bool is_bounded(struct str text)
{
    struct extent x = {0};
    yaml_parser_t parser;
    bool within = true, more = true;
    if (!yaml_few_directives(text) || !yaml_parser_initialize(&parser)) {
        return false;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.s, text.n);
    while (within && more) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            break;
        }
        within = extent_is_within(&x, &event);
        more = event.type != YAML_DOCUMENT_END_EVENT && event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return within;
}

json_t *cdi_parse(struct arena *a, struct str text, const char **ret_why)
{
    yaml_parser_t parser;
    yaml_document_t document;
    json_t *value = NULL;
    *ret_why = NULL;
    if (!is_bounded(text)) {
        *ret_why = cdi_too_large;
        return NULL;
    }
    if (!yaml_parser_initialize(&parser)) {
        *ret_why = "there is no memory for it";
        return NULL;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.s, text.n);
    if (!yaml_parser_load(&parser, &document)) {
        *ret_why = arena_printf(a, "it is not YAML: %s in line %zu",
                                parser.problem ? parser.problem : "an error",
                                parser.problem_mark.line + 1);
    } else {
        struct reader r = {.arena = a, .document = &document};
        if (yaml_document_get_root_node(&document)) {
            value = node_value(&r, 1, 0);
            *ret_why = r.why;
        } else {
            *ret_why = "it is empty";
        }
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
    return value;
}
