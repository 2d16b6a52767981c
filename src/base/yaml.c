/* YAML to a tree of nodes, by the events of libyaml. The tree is made here and not by libyaml,
 * whose time for one is quadratic in anchors and in depth. */
#include <string.h>
#include <yaml.h>

#include "base/node.h"

enum { DIRECTIVES_MAX = 64, PROBLEM_MAX = 200 };

/* All %TAG directives come with one event. They are counted in the bytes, in UTF-16 as well. */
bool yaml_few_directives(struct str text)
{
    size_t found = 0;
    for (const char *p = text.s, *end = text.s + text.n;
         found <= DIRECTIVES_MAX && p && (p = memchr(p, '%', (size_t)(end - p))) != NULL;) {
        p++;
        p += p < end && *p == '\0';
        found += p < end && *p == 'T';
    }
    return found <= DIRECTIVES_MAX;
}

struct reader {
    struct arena *arena;
    yaml_parser_t parser;
    const char *name;
    size_t n; // nodes so far
    struct gm_err *err;
};

static int wrong_at(struct reader *r, const yaml_mark_t *mark, const char *what)
{
    return gm_err_set(r->err, GM_ERR_FORMAT, "%s:%zu: %s", r->name, mark->line + 1, what);
}

static int too_much(struct reader *r, const yaml_mark_t *mark)
{
    return gm_err_set(r->err, GM_ERR_LIMIT, "%s:%zu: it is larger or nested deeper than is read",
                      r->name, mark->line + 1);
}

/* The next event; who gets one deletes it. */
static int event_next(struct reader *r, yaml_event_t *ret)
{
    if (yaml_parser_parse(&r->parser, ret)) {
        return 0;
    }
    if (r->parser.error == YAML_MEMORY_ERROR) {
        return gm_err_set(r->err, GM_ERR_MEMORY, "out of memory");
    }
    yaml_mark_t mark = r->parser.problem_mark;
    const char *why = r->parser.problem ? r->parser.problem : "an error";
    return gm_err_set(r->err, GM_ERR_FORMAT, "%s:%zu: it is not YAML: %.*s", r->name, mark.line + 1,
                      PROBLEM_MAX, why);
}

/* What a file may hold and is not read. */
static const char *not_read(const yaml_event_t *e)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (e->type == YAML_SCALAR_EVENT) {
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
    } else if (e->type == YAML_SEQUENCE_START_EVENT) {
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
    } else if (e->type == YAML_MAPPING_START_EVENT) {
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
    }
    return e->type == YAML_ALIAS_EVENT || anchor ? "anchors and aliases are not read here"
           : tag                                 ? "tags are not read here"
                                                 : NULL;
}

static int node_of_event(struct reader *r, const yaml_event_t *e, struct node *ret, unsigned depth);

/* The rest of a list or a mapping, up to its end. */
static int items_of(struct reader *r, struct node *ret, yaml_event_type_t end, unsigned depth)
{
    VEC(struct node) items = {0};
    bool is_key = ret->kind == NODE_MAP;
    const char *key = NULL;
    for (bool more = true; more;) {
        yaml_event_t e;
        int rc = event_next(r, &e);
        if (rc < 0) {
            return rc;
        }
        more = e.type != end;
        struct node item = {0};
        rc = more ? node_of_event(r, &e, &item, depth) : 0;
        if (rc == 0 && more && is_key) {
            ret->items = items.items;
            ret->n = items.n;
            rc = item.kind != NODE_TEXT ? wrong_at(r, &e.start_mark, "a key is a text")
                 : node_get(ret, item.text)
                     ? wrong_at(r, &e.start_mark, "the key stands twice in one mapping")
                 : items.n >= NODE_KEYS_MAX ? too_much(r, &e.start_mark)
                                            : 0;
            key = item.text;
        } else if (rc == 0 && more) {
            item.key = key;
            VEC_PUSH(r->arena, &items, item);
        }
        is_key = ret->kind == NODE_MAP && !is_key;
        yaml_event_delete(&e);
        if (rc < 0) {
            return rc;
        }
    }
    ret->items = items.items;
    ret->n = items.n;
    return 0;
}

static int node_of_event(struct reader *r, const yaml_event_t *e, struct node *ret, unsigned depth)
{
    const char *why = not_read(e);
    *ret = (struct node){.kind = NODE_TEXT, .line = (unsigned)e->start_mark.line + 1};
    if (why) {
        return wrong_at(r, &e->start_mark, why);
    }
    if (++r->n > NODE_COUNT_MAX || depth > NODE_DEPTH_MAX) {
        return too_much(r, &e->start_mark);
    }
    if (e->type == YAML_SCALAR_EVENT) {
        const char *text = (const char *)e->data.scalar.value;
        ret->text = arena_strndup(r->arena, text, e->data.scalar.length);
        return strlen(ret->text) == e->data.scalar.length
                   ? 0
                   : wrong_at(r, &e->start_mark, "a text holds a NUL");
    }
    bool is_list = e->type == YAML_SEQUENCE_START_EVENT;
    ret->kind = is_list ? NODE_LIST : NODE_MAP;
    return items_of(r, ret, is_list ? YAML_SEQUENCE_END_EVENT : YAML_MAPPING_END_EVENT, depth + 1);
}

/* One of the events around a document: 0 if it is of this type, and nothing is wrong with it. */
static int frame_next(struct reader *r, yaml_event_type_t type, const char *otherwise)
{
    yaml_event_t e;
    int rc = event_next(r, &e);
    if (rc < 0) {
        return rc;
    }
    bool directs =
        e.type == YAML_DOCUMENT_START_EVENT &&
        (e.data.document_start.version_directive ||
         e.data.document_start.tag_directives.start != e.data.document_start.tag_directives.end);
    rc = e.type != type ? wrong_at(r, &e.start_mark, otherwise)
         : directs      ? wrong_at(r, &e.start_mark, "directives are not read here")
                        : 0;
    yaml_event_delete(&e);
    return rc;
}

static int document_read(struct reader *r, struct node *ret)
{
    yaml_event_t e;
    int rc = frame_next(r, YAML_STREAM_START_EVENT, "it is not YAML");
    rc = rc < 0 ? rc : frame_next(r, YAML_DOCUMENT_START_EVENT, "it is empty");
    rc = rc < 0 ? rc : event_next(r, &e);
    if (rc == 0) {
        rc = node_of_event(r, &e, ret, 0);
        yaml_event_delete(&e);
    }
    rc = rc < 0 ? rc : frame_next(r, YAML_DOCUMENT_END_EVENT, "it is not YAML");
    return rc < 0 ? rc : frame_next(r, YAML_STREAM_END_EVENT, "a second document is not read");
}

int node_read_yaml(struct arena *a, const char *name, struct str text, struct node_file *ret,
                   struct gm_err *err)
{
    struct reader r = {.arena = a, .name = name, .err = err};
    *ret = (struct node_file){.name = name};
    if (text.n > NODE_FILE_MAX || !yaml_few_directives(text)) {
        return gm_err_set(err, GM_ERR_LIMIT, "%s: it is larger than is read", name);
    }
    if (!yaml_parser_initialize(&r.parser)) {
        return gm_err_set(err, GM_ERR_MEMORY, "out of memory");
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text.s, text.n);
    int rc = document_read(&r, &ret->root);
    yaml_parser_delete(&r.parser);
    return rc;
}
