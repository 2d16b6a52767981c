/*
 * A document as a tree: texts, lists and mappings, each with the line that it begins in.
 *
 * A scalar is always a text, whatever YAML would resolve it to, so that `no` and `12` are what
 * stands in the file. Read are the block and flow styles of YAML, and nothing that lets a small
 * file become a large tree or take long: an anchor, an alias, a tag, a directive or a second
 * document is an error, as is a key that stands twice in one mapping. Bounded are bytes, nodes,
 * keys and depth.
 *
 * A tree can be packed into bytes, of which unpacking makes it again without reading YAML. What is
 * unpacked points into the bytes.
 *
 * node_read_yaml() and yaml_few_directives() are in base/yaml.c, which needs libyaml: not every
 * program that has this room has them.
 */
#ifndef GPUMEND_BASE_NODE_H
#define GPUMEND_BASE_NODE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
    NODE_FILE_MAX = 1 << 20, // bytes of a file
    NODE_DEPTH_MAX = 16,
    NODE_COUNT_MAX = 100000,
    NODE_KEYS_MAX = 64, // of one mapping
};

enum node_kind { NODE_TEXT, NODE_LIST, NODE_MAP };

struct node {
    enum node_kind kind;
    unsigned line;    // from 1; 0: it was unpacked
    const char *key;  // in a mapping; else NULL
    const char *text; // of a NODE_TEXT; else NULL
    const struct node *items;
    size_t n;
};

/* A tree and the name that messages call it by. */
struct node_file {
    const char *name; // NULL: built in
    struct node root;
};

struct node_files {
    const struct node_file *items;
    size_t n;
};

/* The value of a key; NULL: there is none, or this is no mapping. `map` may be NULL. */
const struct node *node_get(const struct node *map, const char *key);

/* The text of a key's value; NULL: there is none, or it is no text. */
const char *node_text(const struct node *map, const char *key);

/* "FILE:LINE: " and a sentence as the error; of a tree that was unpacked "built-in: ". */
int node_error(const struct node_file *file, const struct node *at, struct gm_err *err,
               const char *fmt, ...) __attribute__((format(GM_PRINTF, 4, 5)));

/* Reads one YAML document. GM_ERR_FORMAT or GM_ERR_LIMIT with "NAME:LINE: " before the reason. */
int node_read_yaml(struct arena *a, const char *name, struct str text, struct node_file *ret,
                   struct gm_err *err) GM_CHECK;

/* Whether libyaml may read the text: it compares each %TAG directive with all others. */
bool yaml_few_directives(struct str text);

/* Bytes of a tree, without the mappings' keys that `leave_out` (ended by NULL) names. */
struct str node_pack(struct arena *a, const struct node *root, const char *const *leave_out);

/* The tree of packed bytes that *rest begins with, which become those behind it; -1: they are none.
 */
int node_unpack(struct arena *a, struct str *rest, struct node *ret) GM_CHECK;

#endif
