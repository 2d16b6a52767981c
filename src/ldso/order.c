/*
 * The order in which objects are relocated, initialised and closed. glibc elf/dl-sort-maps.c, and
 * elf/dl-deps.c before 2.35.
 */
#include <string.h>

#include "ldso/internal.h"
#include "ldso/process.h"

/* `root`: its own list is not filled in yet. */
static void postorder(struct ldso_process *p, struct ldso_object *o, const struct ldso_object *root,
                      object_list *out, unsigned depth)
{
    if (o->mark == p->mark || depth > 1000) {
        return;
    }
    o->mark = p->mark;
    for (size_t i = 0; o != root && i < o->deps.n; i++) {
        postorder(p, o->deps.items[i], root, out, depth + 1);
    }
    VEC_PUSH(p->arena, out, o);
}

/* Whether the object is in the other's own list of dependencies (l_initfini): the direct ones, and
 * all of them for the root of a dlopen. */
static bool is_dependency(const struct ldso_object *o, const struct ldso_object *of,
                          const struct ldso_object *root)
{
    struct ldso_object *const *items = of == root ? of->scope.items : of->deps.items;
    size_t n = of == root ? of->scope.n : of->deps.n;
    for (size_t i = 0; i < n; i++) {
        if (items[i] == o) {
            return true;
        }
    }
    return false;
}

/*
 * _dl_sort_maps() before glibc 2.35: an object moves behind the last one that depends on it; how
 * often each was looked at in a place ends cycles. It takes cubic time there too: after a number of
 * steps that no real program needs, the rest stays in its order.
 */
static void ldso_sort_before_235(struct ldso_process *p, struct ldso_object **maps, size_t n,
                                 const struct ldso_object *root)
{
    unsigned *seen = arena_array(p->arena, n, sizeof *seen);
    size_t i = 0;
    for (unsigned long steps = 0; i < n && steps < 10000000;) {
        struct ldso_object *o = maps[i];
        size_t k = n - 1;
        seen[i]++;
        while (k > i && !is_dependency(o, maps[k], root)) {
            k--;
            steps++;
        }
        if (k > i) {
            memmove(&maps[i], &maps[i + 1], (k - i) * sizeof *maps);
            maps[k] = o;
            if (seen[i + 1] <= n - i) {
                unsigned here = seen[i];
                memmove(&seen[i], &seen[i + 1], (k - i) * sizeof *seen);
                seen[k] = here;
                continue;
            }
        }
        i++;
        memset(&seen[i], 0, (n - i) * sizeof *seen);
    }
}

/* Up to 2.34: a start relocates the objects of the program's list; a dlopen those of the link map,
 * from its own object on, that are not relocated yet (rtld.c and dl_open_worker in glibc 2.31). */
static object_list relocation_order_before_235(struct ldso_process *p, struct ldso_object *root)
{
    object_list maps = {0}, out = {0};
    const bool is_start = root == p->main;
    struct ldso_object *const *from = is_start ? root->scope.items : p->objects.items;
    size_t n = is_start ? root->scope.n : p->objects.n;
    bool on = false;
    for (size_t i = 0; i < n; i++) {
        on = on || from[i] == root;
        if (on && !from[i]->relocated) {
            VEC_PUSH(p->arena, &maps, from[i]);
        }
    }
    size_t first = is_start ? 1 : 0; // the program stays in front
    if (maps.n > first) {
        ldso_sort_before_235(p, maps.items + first, maps.n - first, root);
    }
    for (size_t i = maps.n; i-- > 0;) {
        VEC_PUSH(p->arena, &out, maps.items[i]);
    }
    return out;
}

object_list ldso_relocation_order(struct ldso_process *p, struct ldso_object *root)
{
    if (p->glibc_minor < 35) {
        return relocation_order_before_235(p, root);
    }
    object_list out = {0};
    bool is_last = p->glibc_minor > 35 || root == p->main;
    p->mark++;
    root->mark = is_last ? p->mark : root->mark;
    for (size_t i = root->scope.n; i-- > 0;) {
        postorder(p, root->scope.items[i], root, &out, 0);
    }
    if (is_last) {
        VEC_PUSH(p->arena, &out, root);
    }
    return out;
}

object_list ldso_unload_order(struct ldso_process *p, struct ldso_object *root)
{
    object_list maps = {0}, out = {0};
    for (size_t i = 0; i < p->objects.n; i++) {
        VEC_PUSH(p->arena, &maps, p->objects.items[i]);
    }
    if (p->glibc_minor < 35) {
        ldso_sort_before_235(p, maps.items + 1, maps.n - 1, root);
        return maps;
    }
    for (size_t i = 0; p->glibc_minor >= 39 && i < maps.n; i++) {
        if (maps.items[i] == root) {
            maps.items[i] = maps.items[0];
            maps.items[0] = root;
        }
    }
    p->mark++;
    for (size_t i = maps.n; i-- > 0;) {
        postorder(p, maps.items[i], NULL, &out, 0);
    }
    for (size_t i = 0; i < out.n / 2; i++) {
        struct ldso_object *o = out.items[i];
        out.items[i] = out.items[out.n - 1 - i];
        out.items[out.n - 1 - i] = o;
    }
    return out;
}
