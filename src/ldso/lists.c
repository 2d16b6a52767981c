/*
 * The folders that a search goes through: RPATH, RUNPATH, LD_LIBRARY_PATH, and the tokens in them.
 * glibc elf/dl-load.c: fillin_rpath, _dl_dst_substitute, _dl_init_paths.
 */
#include <errno.h>
#include <string.h>

#include "ldso/internal.h"

const char *ldso_absolute(struct ldso_process *p, const char *path)
{
    return path[0] == '/' ? path : path_join(p->arena, p->config.cwd, path);
}

static const char *find_origin(struct ldso_process *p, const struct ldso_object *o)
{
    const char *path = ldso_absolute(p, o->path);
    char *real = NULL;
    bool resolved = o == p->main && (!p->explicit_loader || p->glibc_minor >= 42);
    bool known = resolved && root_realpath(p->store->root, p->arena, path, &real) == 0;
    return path_dir(p->arena, known ? real : path);
}

const char *ldso_origin(struct ldso_process *p, struct ldso_object *o)
{
    if (!o->origin) {
        o->origin = find_origin(p, o);
    }
    return o->origin;
}

/* ------------------------------------------------------------------ tokens */

/* Length of the token `ref` at `in` (behind the '$'), braces included; 0 if it is another name.
 * gABI-greedy since 2.28: a following identifier character makes it another name. */
static size_t token_length(const char *in, const char *ref)
{
    bool curly = in[0] == '{';
    size_t n = strlen(ref);
    in += curly;
    if (strncmp(in, ref, n) != 0 || (curly && in[n] != '}')) {
        return 0;
    }
    char next = in[n];
    if (!curly && ((next >= 'A' && next <= 'Z') || (next >= 'a' && next <= 'z') ||
                   (next >= '0' && next <= '9') || next == '_')) {
        return 0;
    }
    return n + (curly ? 2 : 0);
}

static bool below_trusted(struct ldso_process *p, const char *path)
{
    const char *plain = path_normal(p->arena, path);
    for (size_t i = 0; i < p->loader.n_dirs; i++) {
        size_t n = strlen(p->loader.dirs[i]);
        if (strncmp(path_join(p->arena, plain, ""), p->loader.dirs[i], n) == 0) {
            return true;
        }
    }
    return false;
}

const char *ldso_expand(struct ldso_process *p, struct ldso_object *o, const char *text)
{
    if (!strchr(text, '$')) {
        return text;
    }
    const char *out = "";
    bool used_origin = false;
    for (const char *s = text; *s;) {
        size_t plain = strcspn(s, "$");
        if (plain) {
            out = str_concat(p->arena, out, arena_strndup(p->arena, s, plain), "");
            s += plain;
            continue;
        }
        s++;
        size_t n;
        const char *value = NULL;
        if ((n = token_length(s, "ORIGIN"))) {
            bool lead = s == text + 1 && (s[n] == '\0' || s[n] == '/');
            value = p->secure && !lead ? NULL : ldso_origin(p, o);
            used_origin = true;
        } else if ((n = token_length(s, "PLATFORM"))) {
            value = p->cpu.platform[0] ? p->cpu.platform : NULL;
            if (ldso_cpu_is_unknown(&p->cpu)) {
                ldso_note_cpu(p, arena_printf(p->arena, "%s stands for another folder", text));
            }
        } else if ((n = token_length(s, "LIB"))) {
            value = p->loader.lib_token;
        } else {
            out = str_concat(p->arena, out, "$", "");
            continue;
        }
        if (!value) {
            return NULL;
        }
        out = str_concat(p->arena, out, value, "");
        s += n;
    }
    /* check_for_trusted: only the program's own lists have to stay below a trusted folder. */
    if (p->secure && o == p->main && used_origin && !below_trusted(p, out)) {
        return NULL;
    }
    return out;
}

/* ------------------------------------------------------------------ path lists */

static struct ldso_dir *intern_dir(struct ldso_process *p, const char *text)
{
    for (size_t i = 0; i < p->dirs.n; i++) {
        if (strcmp(p->dirs.items[i]->text, text) == 0) {
            return p->dirs.items[i];
        }
    }
    struct ldso_dir *d = arena_alloc(p->arena, sizeof *d);
    d->text = text;
    d->status = arena_alloc(p->arena, p->n_subdirs);
    /* A relative directory is never found missing: the working directory may change. */
    memset(d->status, text[0] == '/' ? DIR_UNKNOWN : DIR_EXISTING, p->n_subdirs);
    VEC_PUSH(p->arena, &p->dirs, d);
    return d;
}

static void list_add(struct ldso_process *p, struct ldso_list *list, const char *element)
{
    size_t n = strlen(element);
    while (n > 1 && element[n - 1] == '/') {
        n--;
    }
    char *text = arena_alloc(p->arena, n + 2);
    memcpy(text, element, n);
    text[n] = n > 0 && element[n - 1] != '/' ? '/' : '\0';
    struct ldso_dir *d = intern_dir(p, text);
    for (size_t i = 0; i < list->dirs.n; i++) {
        if (list->dirs.items[i] == d) {
            return;
        }
    }
    VEC_PUSH(p->arena, &list->dirs, d);
}

struct ldso_list *ldso_list_new(struct ldso_process *p, const char *text, const char *separators,
                                struct ldso_object *map)
{
    struct ldso_list *list = arena_alloc(p->arena, sizeof *list);
    if (!text || !*text) {
        list->dead = true;
        return list;
    }
    for (const char *s = text;; s++) {
        size_t n = strcspn(s, separators);
        const char *element = arena_strndup(p->arena, s, n);
        const char *value = n ? ldso_expand(p, map, element) : "";
        if (value && (n == 0 || *value)) {
            list_add(p, list, value);
        }
        s += n;
        if (!*s) {
            break;
        }
    }
    list->dead = list->dirs.n == 0;
    return list;
}

struct ldso_list *ldso_rpath_of(struct ldso_process *p, struct ldso_object *o)
{
    if (!o->rpath) {
        const struct elf_image *e = &o->file->image;
        o->rpath = ldso_list_new(p, e->runpath ? NULL : e->rpath, ":", o);
    }
    return o->rpath;
}

struct ldso_list *ldso_runpath_of(struct ldso_process *p, struct ldso_object *o)
{
    if (!o->runpath) {
        o->runpath = ldso_list_new(p, o->file->image.runpath, ":", o);
    }
    return o->runpath;
}

static struct ldso_cache *store_read_cache(struct ldso_store *store, const char *path)
{
    struct arena *a = store->arena;
    struct ldso_cache *cache = arena_alloc(a, sizeof *cache);
    const void *data = NULL;
    size_t size = 0;
    struct stat st;
    int rc = root_map(store->root, path, &data, &size, &st);
    if (rc < 0) {
        cache->why_unused = arena_printf(a, "%s: %s", path, strerror(-rc));
        cache->open_errno = rc == -ENOENT || rc == -EACCES || rc == -ENOTDIR ? -rc : 0;
        return cache;
    }
    if (!ldso_store_keep(store, data, size)) {
        cache->why_unused = "out of memory";
        return cache;
    }
    ldso_cache_parse(data, size, cache);
    if (cache->why_unused) {
        cache->why_unused = arena_printf(a, "%s is ignored: %s", path, cache->why_unused);
    }
    return cache;
}

void ldso_open_cache(struct ldso_process *p)
{
    const char *key = arena_printf(p->arena, "cache %s", p->loader.cache_path);
    struct ldso_cache *cache = ldso_store_recall(p->store, key);
    if (!cache) {
        cache = store_read_cache(p->store, p->loader.cache_path);
        ldso_store_remember(p->store, key, cache);
    }
    p->cache = *cache;
    p->cache_note = cache->why_unused;
}

void ldso_search_init(struct ldso_process *p)
{
    p->subdirs = ldso_cpu_subdirs(p->arena, &p->cpu, p->glibc_minor, &p->n_subdirs);
    if (ldso_cpu_is_unknown(&p->cpu)) {
        p->other_subdirs =
            ldso_cpu_other_subdirs(p->arena, p->cpu.machine, p->glibc_minor, &p->n_other_subdirs);
    }
    p->system = arena_alloc(p->arena, sizeof *p->system);
    p->system->permanent = true;
    for (size_t i = 0; i < p->loader.n_dirs; i++) {
        list_add(p, p->system, p->loader.dirs[i]);
    }
    const char *llp = p->secure ? NULL : ldso_getenv(p, "LD_LIBRARY_PATH");
    p->library_path = ldso_list_new(p, llp, ":;", p->main);
    p->library_path->permanent = true;
}
