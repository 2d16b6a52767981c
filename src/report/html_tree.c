/* The libraries of each process as a tree: each below the one that asked for it first. */
#include <stdlib.h>
#include <string.h>

#include "report/html_internal.h"

/* More rows than anybody reads; the data has them all. Below a depth that a page has room for, a
 * library stands beside the one that asked for it, which is named. */
enum { ROWS_MAX = 4000, DEPTH_MAX = 40 };

enum { NONE = -1 };

struct node {
    const json_t *object;
    int parent, first_child, last_child, next; // indexes, or NONE
    int depth;
    bool beside; // it does not stand below the one that asked
};

struct named {
    const char *path;
    int index;
};

struct tree {
    const struct html *h;
    struct node *nodes; // in the document's order
    int n;
    size_t rows; // that may still be written
};

static int compare_named(const void *left, const void *right)
{
    const struct named *a = left, *b = right;
    int c = strcmp(a->path, b->path);
    return c ? c : (a->index > b->index) - (a->index < b->index);
}

/* The first object of that path; NONE: there is none. */
static int find_named(const struct named *sorted, int n, const char *path)
{
    int low = 0, high = n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (strcmp(sorted[middle].path, path) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < n && strcmp(sorted[low].path, path) == 0 ? sorted[low].index : NONE;
}

static void add_child(struct tree *t, int parent, int child)
{
    struct node *p = &t->nodes[parent];
    t->nodes[child].parent = parent;
    t->nodes[child].depth = p->depth + 1;
    if (p->last_child == NONE) {
        p->first_child = child;
    } else {
        t->nodes[p->last_child].next = child;
    }
    p->last_child = child;
}

/* An asker stands before what it asked for, so there is no cycle whatever the document says. */
static void make_tree(struct tree *t, const json_t *objects)
{
    struct arena *a = t->h->a;
    struct named *sorted = arena_array(a, (size_t)t->n + 1, sizeof *sorted);
    t->nodes = arena_array(a, (size_t)t->n + 1, sizeof *t->nodes);
    for (int i = 0; i < t->n; i++) {
        const json_t *object = json_array_get(objects, (size_t)i);
        t->nodes[i] = (struct node){object, NONE, NONE, NONE, NONE, 0, false};
        sorted[i] = (struct named){html_member(object, "path"), i};
    }
    qsort(sorted, (size_t)t->n, sizeof *sorted, compare_named);
    for (int i = 0; i < t->n; i++) {
        const char *by = html_member(t->nodes[i].object, "by");
        int parent = *by ? find_named(sorted, t->n, by) : NONE;
        if (parent == NONE || parent >= i) {
            continue;
        }
        t->nodes[i].beside = t->nodes[parent].depth >= DEPTH_MAX;
        add_child(t, t->nodes[i].beside ? t->nodes[parent].parent : parent, i);
    }
}

static const char *via_words(const char *via)
{
    static const char *const words[][2] = {
        {"main", "the program"},   {"interp", "the loader"},  {"rpath", "RPATH"},
        {"runpath", "RUNPATH"},    {"cache", "ld.so.cache"},  {"default", "system folders"},
        {"path", "path as given"}, {"preload", "LD_PRELOAD"}, {"loaded", "already loaded"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i][0], via) == 0) {
            return words[i][1];
        }
    }
    return via;
}

static void put_label(const struct tree *t, const struct node *n)
{
    const struct html *h = t->h;
    fputs("<code>", h->file);
    html_path(h, html_member(n->object, "path"));
    fputs("</code> <span class=\"soft\">", h->file);
    html_text(h, via_words(html_member(n->object, "via")));
    if (n->beside) {
        fputs(", for ", h->file);
        html_text(h, html_base(html_member(n->object, "by")));
    }
    fputs("</span>", h->file);
}

static void begin_node(struct tree *t, const struct node *n)
{
    t->rows--;
    fputs(n->first_child == NONE ? "<li>" : "<li><details open><summary>", t->h->file);
    put_label(t, n);
    fputs(n->first_child == NONE ? "</li>\n" : "</summary><ul>\n", t->h->file);
}

static void end_node(const struct tree *t, const struct node *n)
{
    fputs(n->first_child == NONE ? "" : "</ul></details></li>\n", t->h->file);
}

/* Without recursion, as a chain may be as long as the document. */
static void put_nodes(struct tree *t, int root)
{
    int at = root;
    begin_node(t, &t->nodes[at]);
    for (;;) {
        const struct node *n = &t->nodes[at];
        if (n->first_child != NONE && t->rows) {
            at = n->first_child;
            begin_node(t, &t->nodes[at]);
            continue;
        }
        while (at != root && (t->nodes[at].next == NONE || !t->rows)) {
            end_node(t, &t->nodes[at]);
            at = t->nodes[at].parent;
        }
        end_node(t, &t->nodes[at]);
        if (at == root) {
            return;
        }
        at = t->nodes[at].next;
        begin_node(t, &t->nodes[at]);
    }
}

static void put_process(struct tree *t, const json_t *process, bool open)
{
    const json_t *objects = html_list(process, "objects");
    t->n = (int)json_array_size(objects);
    make_tree(t, objects);
    fprintf(t->h->file, "<details%s><summary>", open ? " open" : "");
    html_script(t->h, process);
    fprintf(t->h->file, " (%d)</summary><ul>\n", t->n);
    for (int i = 0; i < t->n && t->rows; i++) {
        if (t->nodes[i].parent == NONE) {
            put_nodes(t, i);
        }
    }
    fputs("</ul></details>\n", t->h->file);
}

void html_tree(const struct html *h)
{
    struct tree t = {.h = h, .rows = ROWS_MAX};
    // A chain of many libraries is wider than the window.
    fputs(html_n_processes(h) ? "<div id=\"objects\" class=\"wide\" role=\"region\" tabindex=\"0\" "
                                "aria-label=\"chains of libraries\">\n"
                              : "<div id=\"objects\">\n",
          h->file);
    for (size_t i = 0; i < html_n_processes(h); i++) {
        put_process(&t, html_process(h, i), i == 0);
    }
    fputs("</div>\n", h->file);
    fputs(t.rows ? "" : "<p>The rest is in the data below.</p>\n", h->file);
}
