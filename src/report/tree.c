#include "report/tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { INDENTED_MAX = 40 }; // levels; deeper ones are numbered, or a long chain would fill the disk

/* An object, or a name that leads to none. */
struct node {
    const struct ldso_object *object;
    const char *missing;
    bool unfolded;
};

struct edge {
    size_t from, to;
    struct ldso_request *request;
};

struct graph {
    struct arena *arena;
    struct ldso_process *process;
    VEC(struct node) nodes; // sorted by compare_nodes()
    VEC(struct edge) edges; // sorted by `from` (or `to`), then as they were asked
    size_t *first;          // of each node, and one more
    bool inverted;
};

static int compare_nodes(const void *left, const void *right)
{
    const struct node *a = left, *b = right;
    if (a->object != b->object) {
        return (uintptr_t)a->object < (uintptr_t)b->object ? -1 : 1;
    }
    return a->object ? 0 : strcmp(a->missing, b->missing);
}

static struct node caller_of(const struct ldso_process *p, const struct ldso_request *r)
{
    return (struct node){.object = r->caller ? r->caller : p->main};
}

static struct node request_node(const struct ldso_request *r)
{
    return r->object ? (struct node){.object = r->object} : (struct node){.missing = r->name};
}

static size_t graph_index(const struct graph *g, struct node key)
{
    const struct node *found = bsearch(&key, g->nodes.items, g->nodes.n, sizeof key, compare_nodes);
    return (size_t)(found - g->nodes.items);
}

static void add_nodes(const struct ldso_process *p, struct graph *g)
{
    VEC_PUSH(g->arena, &g->nodes, (struct node){.object = p->main});
    for (size_t i = 0; i < p->requests.n; i++) {
        VEC_PUSH(g->arena, &g->nodes, caller_of(p, p->requests.items[i]));
        VEC_PUSH(g->arena, &g->nodes, request_node(p->requests.items[i]));
    }
    qsort(g->nodes.items, g->nodes.n, sizeof *g->nodes.items, compare_nodes);
    size_t n = 0;
    for (size_t i = 0; i < g->nodes.n; i++) {
        if (n == 0 || compare_nodes(&g->nodes.items[n - 1], &g->nodes.items[i]) != 0) {
            g->nodes.items[n++] = g->nodes.items[i];
        }
    }
    g->nodes.n = n;
}

/* The edges of one node stand together, in the order of the requests. */
static void add_edges(const struct ldso_process *p, struct graph *g)
{
    size_t n = p->requests.n, *at = arena_array(g->arena, g->nodes.n + 1, sizeof *at);
    struct edge *sorted = arena_array(g->arena, n + 1, sizeof *sorted);
    g->first = arena_array(g->arena, g->nodes.n + 1, sizeof *g->first);
    for (size_t i = 0; i < n; i++) {
        struct ldso_request *r = p->requests.items[i];
        struct edge e = {graph_index(g, caller_of(p, r)), graph_index(g, request_node(r)), r};
        VEC_PUSH(g->arena, &g->edges, e);
        g->first[(g->inverted ? e.to : e.from) + 1]++;
    }
    for (size_t i = 0; i < g->nodes.n; i++) {
        g->first[i + 1] += g->first[i];
        at[i] = g->first[i];
    }
    for (size_t i = 0; i < n; i++) {
        struct edge e = g->edges.items[i];
        sorted[at[g->inverted ? e.to : e.from]++] = e;
    }
    g->edges.items = sorted;
}

static void make_graph(struct ldso_process *p, bool inverted, struct graph *ret)
{
    *ret = (struct graph){.arena = p->arena, .process = p, .inverted = inverted};
    add_nodes(p, ret);
    add_edges(p, ret);
}

static const char *node_text(const struct graph *g, size_t i)
{
    const struct node *n = &g->nodes.items[i];
    return str_printable(g->arena, n->object ? n->object->path : n->missing);
}

/* What is behind a line: that its node is unfolded elsewhere, and the file that an earlier load
 * keeps out. */
static const char *edge_mark(const struct graph *g, struct ldso_request *r, size_t node)
{
    bool folded = g->nodes.items[node].unfolded && g->first[node] < g->first[node + 1];
    const struct ldso_instead *instead = ldso_instead(g->process, r);
    return arena_printf(g->arena, "%s%s%s%s", folded ? " (*)" : "",
                        instead ? " (first wins: alone it would be " : "",
                        instead ? str_printable(g->arena, instead->path) : "", instead ? ")" : "");
}

/* "libm.so.6 => /lib/libm.so.6", and inverted "/usr/bin/app, as libm.so.6". */
static void edge_line(const struct out *o, const struct graph *g, const struct edge *e, size_t node)
{
    static const char *const kinds[] = {
        [LDSO_NEEDED] = "", [LDSO_DLOPEN] = "dlopen ", [LDSO_PRELOAD] = "preload "};
    struct ldso_request *r = e->request;
    const char *mark = edge_mark(g, r, node);
    const char *name = str_printable(g->arena, r->name);
    if (g->inverted) {
        fprintf(o->file, "%s  %s%s%s\n", node_text(g, node), kinds[r->kind], name, mark);
    } else if (r->object) {
        bool same = strcmp(r->name, r->object->path) == 0;
        fprintf(o->file, "%s%s%s%s%s\n", kinds[r->kind], name, same ? "" : " => ",
                same ? "" : node_text(g, node), mark);
    } else {
        fprintf(o->file, "%s%s ", kinds[r->kind], name);
        out_print(o, OUT_RED, "=> %s\n", r->outcome == LDSO_REFUSED ? "refused" : "not found");
    }
}

struct frame {
    size_t node, next; // index of the next edge
};
typedef VEC(struct frame) frame_list;

static void indent(const struct out *o, const struct graph *g, const frame_list *stack)
{
    size_t n = stack->n < INDENTED_MAX ? stack->n : INDENTED_MAX;
    for (size_t i = 0; i < n; i++) {
        bool last = stack->items[i].next == g->first[stack->items[i].node + 1];
        fputs(i + 1 < stack->n ? (last ? "    " : "|   ") : (last ? "`-- " : "|-- "), o->file);
    }
    if (n < stack->n) {
        fprintf(o->file, "(level %zu) ", stack->n);
    }
}

static void print_from(const struct out *o, struct graph *g, size_t root)
{
    frame_list stack = {0};
    fprintf(o->file, "%s\n", node_text(g, root));
    g->nodes.items[root].unfolded = true;
    VEC_PUSH(g->arena, &stack, ((struct frame){root, g->first[root]}));
    while (stack.n) {
        struct frame *top = &stack.items[stack.n - 1];
        if (top->next == g->first[top->node + 1]) {
            stack.n--;
            continue;
        }
        const struct edge *e = &g->edges.items[top->next++];
        size_t node = g->inverted ? e->from : e->to;
        indent(o, g, &stack);
        edge_line(o, g, e, node);
        if (!g->nodes.items[node].unfolded) {
            g->nodes.items[node].unfolded = true;
            VEC_PUSH(g->arena, &stack, ((struct frame){node, g->first[node]}));
        }
    }
}

void report_tree(const struct out *o, struct ldso_process *p)
{
    struct graph g;
    make_graph(p, false, &g);
    print_from(o, &g, graph_index(&g, (struct node){.object = p->main}));
}

static bool answers_to(const struct node *n, const char *name)
{
    const char *path = n->object ? n->object->path : n->missing;
    return strcmp(path, name) == 0 || strcmp(path_base(path), name) == 0 ||
           (n->object && n->object->soname && strcmp(n->object->soname, name) == 0);
}

bool report_tree_inverted(const struct out *o, struct ldso_process *p, const char *name)
{
    struct graph g;
    bool any = false;
    make_graph(p, true, &g);
    for (size_t i = 0; i < g.nodes.n; i++) {
        if (answers_to(&g.nodes.items[i], name)) {
            print_from(o, &g, i);
            any = true;
        }
    }
    return any;
}
