#include "base/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct node *node_get(const struct node *map, const char *key)
{
    for (size_t i = 0; map && map->kind == NODE_MAP && i < map->n; i++) {
        if (strcmp(map->items[i].key, key) == 0) {
            return &map->items[i];
        }
    }
    return NULL;
}

const char *node_text(const struct node *map, const char *key)
{
    const struct node *value = node_get(map, key);
    return value ? value->text : NULL;
}

int node_error(const struct node_file *file, const struct node *at, struct gm_err *err,
               const char *fmt, ...)
{
    struct gm_err mine;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(mine.text, sizeof mine.text, fmt, args);
    va_end(args);
    return file->name ? gm_err_set(err, GM_ERR_FORMAT, "%s:%u: %s", file->name, at->line, mine.text)
                      : gm_err_set(err, GM_ERR_FORMAT, "built-in: %s", mine.text);
}

/* ------------------------------------------------------------------ bytes
 *
 * A text: 't', its bytes, NUL. A list or mapping: 'l' or 'm', the number of items in four bytes,
 * low byte first, the items; in a mapping each has its key and NUL before it. */

struct bytes {
    struct arena *arena;
    VEC(char) out;
};

static void bytes_put_text(struct bytes *b, const char *text)
{
    do {
        VEC_PUSH(b->arena, &b->out, *text);
    } while (*text++);
}

static bool key_is_named(const char *const *names, const char *key)
{
    while (*names && strcmp(*names, key) != 0) {
        names++;
    }
    return *names != NULL;
}

static void put_node(struct bytes *b, const struct node *node, const char *const *leave_out)
{
    static const char kinds[] = {[NODE_TEXT] = 't', [NODE_LIST] = 'l', [NODE_MAP] = 'm'};
    VEC_PUSH(b->arena, &b->out, kinds[node->kind]);
    if (node->kind == NODE_TEXT) {
        bytes_put_text(b, node->text);
        return;
    }
    uint32_t n = 0;
    for (size_t i = 0; i < node->n; i++) {
        n += node->kind == NODE_LIST || !key_is_named(leave_out, node->items[i].key);
    }
    for (unsigned shift = 0; shift < 32; shift += 8) {
        VEC_PUSH(b->arena, &b->out, (char)(n >> shift & 0xff));
    }
    for (size_t i = 0; i < node->n; i++) {
        const struct node *item = &node->items[i];
        if (node->kind == NODE_MAP && key_is_named(leave_out, item->key)) {
            continue;
        }
        if (node->kind == NODE_MAP) {
            bytes_put_text(b, item->key);
        }
        put_node(b, item, leave_out);
    }
}

struct str node_pack(struct arena *a, const struct node *root, const char *const *leave_out)
{
    struct bytes b = {.arena = a};
    put_node(&b, root, leave_out);
    return (struct str){b.out.items, b.out.n};
}

static const char *take_text(struct str *rest)
{
    const char *text = rest->s, *end = rest->n ? memchr(text, '\0', rest->n) : NULL;
    if (!end) {
        return NULL;
    }
    size_t n = (size_t)(end - text) + 1;
    *rest = (struct str){text + n, rest->n - n};
    return text;
}

static int take_node(struct arena *a, struct str *rest, struct node *ret, unsigned depth);

static int take_items(struct arena *a, struct str *rest, struct node *ret, unsigned depth)
{
    if (rest->n < 4 || depth >= NODE_DEPTH_MAX) {
        return -1;
    }
    for (unsigned i = 0; i < 4; i++) {
        ret->n |= (size_t)(unsigned char)rest->s[i] << 8 * i;
    }
    *rest = (struct str){rest->s + 4, rest->n - 4};
    if (ret->n > rest->n) { // an item has a byte or more
        return -1;
    }
    struct node *items = arena_array(a, ret->n + 1, sizeof *items);
    ret->items = items;
    for (size_t i = 0; i < ret->n; i++) {
        const char *key = ret->kind == NODE_MAP ? take_text(rest) : NULL;
        if ((ret->kind == NODE_MAP && !key) || take_node(a, rest, &items[i], depth + 1) < 0) {
            return -1;
        }
        items[i].key = key;
    }
    return 0;
}

static int take_node(struct arena *a, struct str *rest, struct node *ret, unsigned depth)
{
    char kind = '\0';
    if (rest->n) {
        kind = *rest->s;
        *rest = (struct str){rest->s + 1, rest->n - 1};
    }
    *ret = (struct node){.kind = kind == 'l' ? NODE_LIST : kind == 'm' ? NODE_MAP : NODE_TEXT};
    if (kind == 'l' || kind == 'm') {
        return take_items(a, rest, ret, depth);
    }
    ret->text = kind == 't' ? take_text(rest) : NULL;
    return ret->text ? 0 : -1;
}

int node_unpack(struct arena *a, struct str *rest, struct node *ret)
{
    return take_node(a, rest, ret, 0);
}
