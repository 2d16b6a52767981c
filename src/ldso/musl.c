/*
 * musl's dynamic linker, ldso/dynlink.c of musl 1.2: LD_LIBRARY_PATH first, then the rpath of the
 * chain that asked (RPATH and RUNPATH are the same), then the path file or the default; one short
 * name for each searched library, then the inode; no cache, no hwcaps, no versions.
 */
#include <errno.h>
#include <string.h>

#include "ldso/internal.h"

static struct ldso_object *find_short_name(struct ldso_process *p, const char *name)
{
    struct elf_lookup_key key = elf_lookup_key(name);
    struct ldso_object *one = NULL;
    enum ldso_asked asked = ldso_asked_name(p, key.gnu_hash, &one);
    if (asked != LDSO_ASK_ALL) {
        bool has = asked == LDSO_ASK_ONE && one != p->main && ldso_has_name_key(one, &key);
        return has ? one : NULL;
    }
    for (size_t i = 1; i < p->objects.n; i++) { // the program has no short name
        if (ldso_has_name_key(p->objects.items[i], &key)) {
            return p->objects.items[i];
        }
    }
    return NULL;
}

static struct ldso_object *musl_find_file(struct ldso_process *p, const struct ldso_file *file)
{
    struct ldso_object *one = NULL;
    enum ldso_asked asked = ldso_asked_file(p, file, &one);
    if (asked != LDSO_ASK_ALL) {
        return asked == LDSO_ASK_ONE ? one : NULL;
    }
    for (size_t i = 0; i < p->objects.n; i++) {
        if (p->objects.items[i]->file == file) {
            return p->objects.items[i];
        }
    }
    return NULL;
}

static void object_push(struct ldso_process *p, struct ldso_object *o)
{
    o->place = p->objects.n;
    VEC_PUSH(p->arena, &p->objects, o);
}

/* libc, libpthread, ... all mean the loader itself. */
static bool is_reserved(const char *name)
{
    static const char *const reserved[] = {"c", "pthread", "rt", "m", "dl", "util", "xnet"};
    if (!starts_with(name, "lib")) {
        return false;
    }
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        size_t n = strlen(reserved[i]);
        if (strncmp(name + 3, reserved[i], n) == 0 && name[3 + n] == '.') {
            return true;
        }
    }
    return false;
}

static struct ldso_object *the_loader(struct ldso_process *p, struct ldso_object *by)
{
    if (!p->interp && p->loader.file) {
        p->interp = ldso_object_new(p, p->loader.path, p->loader.file, by, LDSO_VIA_INTERP);
        object_push(p, p->interp);
    }
    return p->interp;
}

static bool musl_accepts(const struct elf_image *e)
{
    return e->state == ELF_STATE_OK && (e->type == ET_DYN || e->type == ET_EXEC) && e->has_dynamic;
}

/* musl's own words (src/errno/__strerror.h) where they differ from glibc's. */
static const char *musl_strerror(int error)
{
    switch (error) {
    case 0: return "No such file or directory"; // a name that was looked for nowhere
    case ELOOP: return "Symbolic link loop";
    case ENAMETOOLONG: return "Filename too long";
    default: return strerror(error);
    }
}

struct musl_found {
    struct ldso_entry *entry;
    const char *path;
    enum ldso_via via;
    struct ldso_object *via_object;
    int error; // of the last file that could not be opened
    bool stop; // an open error that ends the search
};

static bool try_open(struct ldso_process *p, struct ldso_request *r, const char *path,
                     struct musl_found *f)
{
    struct ldso_entry *e = ldso_store_get(p->store, ldso_absolute(p, path));
    struct ldso_step step = {.path = path, .via = f->via, .via_object = f->via_object, .entry = e};
    int error = e->open_errno;
    bool go_on = error == ENOENT || error == ENOTDIR || error == EACCES || error == ENAMETOOLONG;
    if (error) {
        f->error = error;
        step.result = error == EACCES ? LDSO_DENIED : go_on ? LDSO_ABSENT : LDSO_UNREADABLE;
        step.fatal = !go_on;
        f->stop = !go_on;
    } else if (!e->file || !musl_accepts(&e->file->image)) {
        step.result = LDSO_INVALID;
        step.fatal = true;
        f->stop = true;
        f->path = path;
    } else {
        step.result = LDSO_TAKEN;
        f->entry = e;
        f->path = path;
    }
    VEC_PUSH(p->arena, &r->steps, step);
    return f->entry != NULL;
}

/* path_open(): elements between ':' and line ends. */
static bool try_path(struct ldso_process *p, struct ldso_request *r, const char *list,
                     struct musl_found *f)
{
    for (const char *s = list; *(s += strspn(s, ":\n"));) {
        size_t n = strcspn(s, ":\n");
        if (try_open(p, r, arena_printf(p->arena, "%.*s/%s", (int)n, s, r->name), f) || f->stop) {
            return true;
        }
        s += n;
    }
    return false;
}

/* fixup_rpath(): only $ORIGIN; any other '$' voids the whole text. */
static const char *rpath_text(struct ldso_process *p, struct ldso_object *o)
{
    const char *s = o->file->image.runpath ? o->file->image.runpath : o->file->image.rpath;
    if (!s || !strchr(s, '$')) {
        return s;
    }
    const char *origin = o == p->main ? ldso_origin(p, o) : path_dir(p->arena, o->path);
    char *out = arena_strdup(p->arena, "");
    while (*s) {
        size_t plain = strcspn(s, "$");
        out = arena_printf(p->arena, "%s%.*s", out, (int)plain, s);
        s += plain;
        if (!*s) {
            break;
        }
        size_t n = starts_with(s, "${ORIGIN}") ? 9 : starts_with(s, "$ORIGIN") ? 7 : 0;
        if (n == 0 || p->secure) {
            return NULL;
        }
        out = arena_printf(p->arena, "%s%s", out, origin);
        s += n;
    }
    return out;
}

/* /etc/ld-musl-ARCH.path beside the loader's own prefix, else the built-in default. */
static const char *system_path(struct ldso_process *p)
{
    const char *base = path_base(p->loader.path); // ld-musl-x86_64.so.1
    struct str arch = str_of(base + (starts_with(base, "ld-musl-") ? 8 : 0));
    arch.n = str_find_char(arch, '.');
    const char *prefix = path_dir(p->arena, path_dir(p->arena, p->loader.path));
    const char *file = arena_printf(p->arena, "%s/etc/ld-musl-" STR_FMT ".path",
                                    strcmp(prefix, "/") == 0 ? "" : prefix, STR_ARG(arch));
    struct str text;
    if (root_read(p->store->root, p->arena, file, 1 << 20, &text) == 0) {
        return text.s;
    }
    return "/lib:/usr/local/lib:/usr/lib";
}

static void musl_search(struct ldso_process *p, struct ldso_request *r,
                        struct ldso_object *needed_by, struct musl_found *f)
{
    const char *env = p->secure ? NULL : ldso_getenv(p, "LD_LIBRARY_PATH");
    f->via = LDSO_VIA_LIBRARY_PATH;
    if (env && try_path(p, r, env, f)) {
        return;
    }
    for (struct ldso_object *o = needed_by; o; o = o->loader) {
        const char *rpath = rpath_text(p, o);
        f->via = o->file->image.runpath ? LDSO_VIA_RUNPATH : LDSO_VIA_RPATH;
        f->via_object = o;
        if (rpath && try_path(p, r, rpath, f)) {
            return;
        }
    }
    f->via = LDSO_VIA_DEFAULT;
    f->via_object = NULL;
    (void)try_path(p, r, system_path(p), f); // what it found stands in f
}

/* load_library() */
static struct ldso_object *load_library(struct ldso_process *p, struct ldso_request *r,
                                        struct ldso_object *needed_by)
{
    bool self = is_reserved(r->name) || strcmp(r->name, p->loader.path) == 0;
    bool explicit_path = strchr(r->name, '/') != NULL;
    struct ldso_object *o = self            ? the_loader(p, needed_by)
                            : explicit_path ? NULL
                                            : find_short_name(p, r->name);
    struct musl_found f = {.via = LDSO_VIA_PATH};
    if (!o) {
        if (explicit_path) {
            (void)try_open(p, r, r->name, &f); // what it found stands in f
        } else {
            musl_search(p, r, needed_by, &f);
        }
        o = f.entry ? musl_find_file(p, f.entry->file) : NULL;
        if (o && !explicit_path && o->names.n == 0) {
            ldso_add_name(p, o, path_base(o->path));
        }
    }
    if (o) {
        r->outcome = LDSO_REUSED;
        r->object = o;
        r->path = o->path;
        r->via = LDSO_VIA_LOADED;
        return o;
    }
    if (!f.entry) {
        r->outcome = f.path ? LDSO_REFUSED : LDSO_NOT_FOUND;
        r->path = f.path;
        ldso_explain_failure(p, r);
        const char *what = f.path ? "Exec format error" : musl_strerror(f.error);
        const char *by = needed_by ? needed_by->path : p->main->path;
        r->glibc_says = arena_printf(
            p->arena, "Error loading shared library %s: %s%s", r->name, what,
            r->kind == LDSO_NEEDED ? arena_printf(p->arena, " (needed by %s)", by) : "");
        return NULL;
    }
    if (ldso_is_full(p)) {
        return NULL;
    }
    o = ldso_object_new(p, f.path, f.entry->file, r->caller, f.via);
    o->via_object = f.via_object;
    o->loader = needed_by; // for musl: needed_by, whose rpath is inherited
    if (!explicit_path) {
        ldso_add_name(p, o, path_base(f.path));
    }
    object_push(p, o);
    r->outcome = LDSO_LOADED;
    r->object = o;
    r->path = o->path;
    r->via = f.via;
    r->via_object = f.via_object;
    return o;
}

static const char *load_deps(struct ldso_process *p, size_t first, bool at_start)
{
    const char *error = NULL;
    for (size_t i = first; i < p->objects.n && !p->limit; i++) {
        struct ldso_object *o = p->objects.items[i];
        for (size_t k = 0; k < o->file->image.n_needs && o != p->interp && !p->limit; k++) {
            if (o->file->image.needs[k].tag != DT_NEEDED) {
                continue;
            }
            struct ldso_request *r =
                ldso_request_new(p, o, o->file->image.needs[k].name, LDSO_NEEDED);
            struct ldso_object *dep = load_library(p, r, o);
            if (dep) {
                VEC_PUSH(p->arena, &o->deps, dep);
            } else if (!error && !p->limit) {
                error = r->glibc_says;
                if (!at_start) {
                    return error;
                }
            }
        }
    }
    return error;
}

struct unresolved {
    struct ldso_process *p;
    const struct elf_image *image;
    const char *symbol; // the first that no object defines
};

static bool is_definition(const struct elf_symbol *symbol, void *arg)
{
    (void)arg;
    return symbol->shndx != SHN_UNDEF;
}

static void note_unresolved(const struct elf_relocation *r, void *arg)
{
    struct unresolved *u = arg;
    struct elf_symbol symbol;
    if (u->symbol || !r->symbol || !elf_symbol_at(u->image, r->symbol, &symbol) ||
        symbol.shndx != SHN_UNDEF || symbol.bind == STB_WEAK || !*symbol.name) {
        return;
    }
    struct elf_lookup_key key = elf_lookup_key(symbol.name);
    for (size_t i = 0; i < u->p->objects.n; i++) {
        if (elf_symbol_find(&u->p->objects.items[i]->file->image, &key, is_definition, NULL)) {
            return;
        }
    }
    u->symbol = symbol.name;
}

static bool is_built_for_glibc(const struct elf_image *e)
{
    for (size_t i = 0; i < e->n_needs; i++) {
        if (e->needs[i].tag == DT_NEEDED && strcmp(e->needs[i].name, "libc.so.6") == 0) {
            return true;
        }
    }
    return false;
}

/* musl takes itself for libc.so.6 (load_library()), so glibc's objects load; what they want of
 * glibc that neither musl nor a library beside it (gcompat) defines ends the start (do_relocs()).
 * Symbol versions do not count. Objects that were built for musl are not looked at. */
static const char *resolve_glibc_objects(struct ldso_process *p)
{
    const char *first = NULL;
    for (size_t i = 0; i < p->objects.n; i++) {
        struct ldso_object *o = p->objects.items[i];
        struct unresolved u = {.p = p, .image = &o->file->image};
        if (o == p->interp || !is_built_for_glibc(u.image)) {
            continue;
        }
        (void)elf_relocations(u.image, NULL, note_unresolved, &u); // damaged tables name no symbol
        if (u.symbol) {
            const char *text = arena_printf(p->arena, "Error relocating %s: %s: symbol not found",
                                            o->path, u.symbol);
            ldso_defect_add(p, (struct ldso_defect){.kind = LDSO_SYMBOL_MISSING,
                                                    .object = o,
                                                    .symbol = u.symbol,
                                                    .text = text,
                                                    .load = p->current_load,
                                                    .fatal = true});
            first = first ? first : text;
        }
    }
    return first;
}

void ldso_musl_start(struct ldso_process *p)
{
    const char *preload = p->secure ? NULL : ldso_getenv(p, "LD_PRELOAD");
    for (const char *s = preload ? preload : ""; *(s += strspn(s, " \t\n:"));) {
        size_t n = strcspn(s, " \t\n:");
        struct ldso_request *r =
            ldso_request_new(p, p->main, arena_strndup(p->arena, s, n), LDSO_PRELOAD);
        struct ldso_object *o = load_library(p, r, NULL); // no rpath: load_preload()
        if (o) {
            o->via = LDSO_VIA_PRELOAD;
        }
        s += n;
    }
    const char *error = load_deps(p, 0, true);
    (void)the_loader(p, p->main); // last, if nobody asked for it before
    if (!error && !p->limit && !p->start_failed) {
        error = resolve_glibc_objects(p);
    }
    if (error) {
        p->start_failed = true;
        p->start_error = p->start_error ? p->start_error : error;
    }
}

void ldso_musl_dlopen(struct ldso_process *p, struct ldso_load *load)
{
    struct ldso_request *r = p->requests.items[load->request];
    size_t n_objects = p->objects.n;
    struct ldso_object *o = load_library(p, r, p->main); // the caller is irrelevant
    const char *error = o ? load_deps(p, n_objects, false) : r->glibc_says;
    if (error) {
        p->objects.n = n_objects;
        load->outcome = r->outcome == LDSO_NOT_FOUND ? LDSO_NOT_FOUND : LDSO_REFUSED;
        load->path = r->path;
        load->glibc_says = error;
        return;
    }
    load->outcome = r->outcome;
    load->object = o;
    load->path = o->path;
}
