/*
 * A process, and what dlopen adds to it and takes back. glibc elf/dl-open.c, elf/dl-close.c.
 */
#include <string.h>

#include "ldso/internal.h"
#include "ldso/process.h"

struct ldso_process *ldso_process_new(struct ldso_store *store, struct arena *arena,
                                      const struct ldso_config *config)
{
    struct ldso_process *p = arena_alloc(arena, sizeof *p);
    p->store = store;
    p->arena = arena;
    p->config = *config;
    p->current_load = -1;
    return p;
}

/* ------------------------------------------------------------------ dlopen */

/* By device and inode, as the loader knows a file again that it has mapped
 * (_dl_map_object_from_fd). */
static struct ldso_object *object_of_file(const struct ldso_process *p,
                                          const struct ldso_file *file)
{
    for (size_t i = 0; file && i < p->objects.n; i++) {
        const struct ldso_file *f = p->objects.items[i]->file;
        if (f && f->dev == file->dev && f->ino == file->ino) {
            return p->objects.items[i];
        }
    }
    return NULL;
}

struct ldso_object *ldso_find_object(struct ldso_process *p, const char *name)
{
    for (int pass = 0; pass < 3; pass++) {
        for (size_t i = 0; i < p->objects.n; i++) {
            struct ldso_object *o = p->objects.items[i];
            const char *key = pass == 0 ? o->path : pass == 1 ? o->soname : path_base(o->path);
            if (key && strcmp(key, name) == 0) {
                return o;
            }
        }
    }
    return strchr(name, '/')
               ? object_of_file(p, ldso_store_get(p->store, ldso_absolute(p, name))->file)
               : NULL;
}

static void object_need(struct ldso_process *p, struct ldso_object *o, object_list *needed)
{
    if (o->mark != p->mark) {
        o->mark = p->mark;
        VEC_PUSH(p->arena, needed, o);
    }
}

/* Marks what stays when a failed dlopen is taken back. glibc 2.35 passes over the first of an
 * opened object's list, which it takes for the object itself; with a cycle of dependencies it is
 * another one, and is unloaded unless somebody else needs it. */
static void mark_needed(struct ldso_process *p, size_t n_objects)
{
    object_list needed = {0};
    p->mark++;
    for (size_t i = 0; i < n_objects; i++) {
        struct ldso_object *o = p->objects.items[i];
        if (p->glibc_minor != 35 || !o->late || o->opened) {
            object_need(p, o, &needed);
        }
    }
    for (size_t i = 0; p->glibc_minor == 35 && i < needed.n; i++) {
        struct ldso_object *o = needed.items[i];
        for (size_t k = 0; !o->opened && k < o->deps.n; k++) {
            object_need(p, o->deps.items[k], &needed);
        }
        for (size_t k = 0; o->opened && k < o->scope.n; k++) {
            if (o->scope.items[k] != o->listed_first) {
                object_need(p, o->scope.items[k], &needed);
            }
        }
    }
}

/* `root`: what was to be opened and is mapped. */
static void process_take_back(struct ldso_process *p, struct ldso_object *root, size_t n_objects)
{
    object_list gone = {0};
    bool any_placed = false;
    mark_needed(p, n_objects);
    for (size_t i = 0; i < p->objects.n; i++) {
        if (p->objects.items[i]->mark != p->mark) {
            VEC_PUSH(p->arena, &gone, p->objects.items[i]);
            any_placed |= p->objects.items[i]->tls_offset != 0;
        }
    }
    object_list order = {0};
    if (any_placed) {
        order = ldso_unload_order(p, root);
    }
    p->mark++;
    for (size_t i = 0; i < gone.n; i++) {
        gone.items[i]->mark = p->mark;
    }
    size_t n = 0;
    for (size_t i = 0; i < order.n; i++) {
        if (order.items[i]->mark == p->mark) {
            order.items[n++] = order.items[i];
        }
    }
    ldso_tls_take_back(p, order.items, n);
    n = 0;
    for (size_t i = 0; i < p->objects.n; i++) {
        if (p->objects.items[i]->mark != p->mark) {
            p->objects.items[n++] = p->objects.items[i];
        }
    }
    p->objects.n = n;
}

static void add_global(struct ldso_process *p, struct ldso_object *root)
{
    for (size_t i = 0; i < root->scope.n; i++) {
        if (!root->scope.items[i]->global) {
            root->scope.items[i]->global = true;
            VEC_PUSH(p->arena, &p->global, root->scope.items[i]);
        }
    }
}

/* Everything after the object itself was mapped: dependencies, versions, relocation. */
static const char *finish_load(struct ldso_process *p, struct ldso_object *o, unsigned mode)
{
    if (o->scope.n == 0 || !o->relocated) {
        const char *text = ldso_map_deps(p, o, NULL, true);
        if (text || p->limit) {
            return text;
        }
    }
    const char *text = ldso_check_isa(p, o->scope.items, o->scope.n);
    if (!text) {
        text = ldso_check_versions(p, o->scope.items, o->scope.n, false);
    }
    if (p->limit) {
        return NULL;
    }
    if (!text) {
        const char *now = ldso_getenv(p, "LD_BIND_NOW");
        object_list order = ldso_relocation_order(p, o);
        if (!o->opened) {
            o->listed_first = order.n ? order.items[order.n - 1] : o;
        }
        text = ldso_check_symbols(p, order.items, order.n, o, (mode & LDSO_NOW) || (now && *now));
    }
    if (!text && mode & LDSO_GLOBAL_SCOPE) {
        add_global(p, o);
    }
    return text;
}

static void load_glibc(struct ldso_process *p, struct ldso_load *load, unsigned mode)
{
    struct ldso_request *r = p->requests.items[load->request];
    size_t n_objects = p->objects.n;
    struct ldso_object *o = ldso_map_object(p, r, NULL, true);
    const char *text = r->glibc_says;
    if (o && !p->dead) {
        text = finish_load(p, o, mode);
    }
    if (p->limit) {
        return;
    }
    if (p->dead) {
        load->crashed = true;
        text = text ? text : "killed by SIGBUS";
    }
    load->glibc_says = text;
    if (text) {
        load->outcome = r->outcome == LDSO_NOT_FOUND ? LDSO_NOT_FOUND : LDSO_REFUSED;
        load->path = r->path;
        if (o) {
            process_take_back(p, o, n_objects);
        }
        return;
    }
    o->opened = true;
    load->outcome = r->outcome;
    load->object = o;
    load->path = o->path;
}

const struct ldso_load *ldso_dlopen(struct ldso_process *p, struct ldso_object *caller,
                                    const char *name, unsigned mode)
{
    if (p->start_failed || p->dead || p->is_static || p->limit) {
        return NULL;
    }
    size_t n_objects = p->objects.n;
    caller = caller ? caller : p->main;
    p->current_load = (int)p->loads.n;
    struct ldso_load load = {.name = name, .caller = caller, .request = p->requests.n};
    (void)ldso_request_new(p, caller, name, LDSO_DLOPEN);
    if (p->loader.kind == LDSO_MUSL) {
        ldso_musl_dlopen(p, &load);
    } else {
        load_glibc(p, &load, mode);
    }
    p->current_load = -1;
    if (p->limit) { // as if it had not been asked
        p->objects.n = n_objects;
        p->requests.n = load.request;
        return NULL;
    }
    VEC_PUSH(p->arena, &p->loads, load);
    return &p->loads.items[p->loads.n - 1];
}
