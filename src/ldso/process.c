/* The events: start and dlopen. glibc elf/rtld.c, elf/dl-load.c, elf/dl-deps.c, elf/dl-open.c. */
#include "ldso/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ldso/internal.h"

enum { GLIBC_MINOR_ASSUMED = 36 };

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

/* ------------------------------------------------------------------ objects */

static bool object_answers_to(struct ldso_process *p, struct ldso_object *o,
                              const struct elf_lookup_key *key)
{
    if (!(o->name_bits & ldso_name_bit(key->gnu_hash))) {
        return false;
    }
    if (ldso_has_name_key(o, key)) {
        return true;
    }
    if (o->soname_added || !o->soname || strcmp(o->soname, key->name) != 0) {
        return false;
    }
    o->soname_added = true;
    ldso_add_name(p, o, key->name);
    return true;
}

/* Reuse: by a recorded name, else by DT_SONAME, in load order; no file is opened. */
static struct ldso_object *find_loaded(struct ldso_process *p, const char *name)
{
    struct elf_lookup_key key = elf_lookup_key(name);
    struct ldso_object *one;
    enum ldso_asked asked = ldso_asked_name(p, key.gnu_hash, &one);
    if (asked != LDSO_ASK_ALL) {
        return asked == LDSO_ASK_ONE && object_answers_to(p, one, &key) ? one : NULL;
    }
    for (size_t i = 0; i < p->objects.n; i++) {
        if (object_answers_to(p, p->objects.items[i], &key)) {
            return p->objects.items[i];
        }
    }
    return NULL;
}

/* The program and the loader have no inode on record in glibc; since 2.31 the program not even when
 * it was started by an explicit loader (_dl_map_object_from_fd: __RTLD_OPENEXEC). */
static bool has_inode(const struct ldso_process *p, const struct ldso_object *o)
{
    bool main_has = p->explicit_loader && p->glibc_minor < 31;
    return o != p->interp && (o != p->main || main_has);
}

static struct ldso_object *find_inode(struct ldso_process *p, const struct ldso_file *file)
{
    struct ldso_object *one;
    enum ldso_asked asked = ldso_asked_file(p, file, &one);
    if (asked != LDSO_ASK_ALL) {
        return asked == LDSO_ASK_ONE && has_inode(p, one) ? one : NULL;
    }
    for (size_t i = 0; i < p->objects.n; i++) {
        struct ldso_object *o = p->objects.items[i];
        if (o->file == file && has_inode(p, o)) {
            return o;
        }
    }
    return NULL;
}

static void request_took(struct ldso_request *r, struct ldso_object *o, enum ldso_outcome outcome,
                         const struct ldso_found *found)
{
    r->outcome = outcome;
    r->object = o;
    r->path = o->path;
    r->via = found ? found->via : LDSO_VIA_LOADED;
    r->via_object = found ? found->via_object : NULL;
}

static bool wants_exec_stack(struct ldso_process *p, struct ldso_object *o, bool dlopened)
{
    if (!o->file->image.stack_exec || p->glibc_minor < 41) {
        return false;
    }
    for (size_t i = 0; dlopened && i < p->objects.n; i++) {
        if (p->objects.items[i]->file->image.stack_exec && p->objects.items[i] != o) {
            return false; // the stack is executable already
        }
    }
    return dlopened;
}

static const char *refuse(struct ldso_request *r, enum ldso_outcome outcome, const char *path,
                          const char *says)
{
    r->outcome = outcome;
    r->path = path;
    r->glibc_says = says;
    return says;
}

/* _dl_map_object(): returns the object, or NULL with r->glibc_says or p->limit set. */
static struct ldso_object *map_object(struct ldso_process *p, struct ldso_request *r,
                                      struct ldso_object *loader, bool dlopened)
{
    struct ldso_object *o = find_loaded(p, r->name);
    if (o) {
        request_took(r, o, LDSO_REUSED, NULL);
        return o;
    }
    struct ldso_found found = ldso_search(p, r, dlopened);
    if (!found.entry) {
        (void)refuse(r, found.fatal ? LDSO_REFUSED : LDSO_NOT_FOUND,
                     found.fatal ? found.path : NULL, found.says);
        r->errstring = found.errstring;
        ldso_explain_failure(p, r);
        return NULL;
    }
    o = find_inode(p, found.entry->file);
    if (o) {
        ldso_add_name(p, o, r->name);
        request_took(r, o, LDSO_REUSED, &found);
        return o;
    }
    if (found.refused) {
        (void)refuse(r, LDSO_REFUSED, found.path, ldso_error_text(p, r->name, found.refused, 0));
        r->errstring = found.refused;
        ldso_explain_failure(p, r);
        return NULL;
    }
    if (ldso_is_full(p)) {
        return NULL;
    }
    o = ldso_object_new(p, found.path, found.entry->file, r->caller, found.via);
    o->via_object = found.via_object;
    o->loader = loader;
    o->with_rpath = o->with_rpath || !loader ? o->with_rpath : loader->with_rpath;
    ldso_add_name(p, o, found.path);
    ldso_add_name(p, o, r->name);
    if (wants_exec_stack(p, o, dlopened)) {
        const char *says = arena_printf(p->arena,
                                        "%s: cannot enable executable stack as shared "
                                        "object requires: Invalid argument",
                                        r->name);
        ldso_defect_add(p, (struct ldso_defect){.kind = LDSO_EXEC_STACK,
                                                .object = o,
                                                .text = says,
                                                .load = p->current_load,
                                                .fatal = true});
        (void)refuse(r, LDSO_REFUSED, found.path, says);
        r->really = arena_printf(p->arena,
                                 "%s is marked as needing an executable stack, which "
                                 "glibc %s refuses at dlopen",
                                 found.path, p->loader.version);
        return NULL;
    }
    o->place = p->objects.n;
    VEC_PUSH(p->arena, &p->objects, o);
    request_took(r, o, LDSO_LOADED, &found);
    if (found.crash) {
        p->dead = true;
        ldso_defect_add(
            p, (struct ldso_defect){
                   .kind = LDSO_FILE_CUT,
                   .object = o,
                   .load = p->current_load,
                   .fatal = true,
                   .text = arena_printf(p->arena, "%s is cut off: the process is killed by SIGBUS",
                                        found.path)});
    }
    return o;
}

/* ------------------------------------------------------------------ dependencies */

typedef VEC(struct ldso_object *) object_list;

/* One DT_NEEDED of `o`; returns false if it stops the load. */
static bool map_need(struct ldso_process *p, struct ldso_object *o, const struct elf_need *need,
                     bool dlopened, const char **first_error)
{
    if (need->tag == DT_AUXILIARY || need->tag == DT_FILTER) {
        return true; // listed in docs/loader.md as not modelled
    }
    const char *name = need->name;
    struct ldso_request *r = ldso_request_new(p, o, name, LDSO_NEEDED);
    if (strchr(name, '$')) {
        name = ldso_expand(p, o, name);
        if (!name || !*name) {
            const char *says = arena_printf(p->arena, "%s: empty dynamic string token substitution",
                                            ldso_shown_name(p, o));
            *first_error = *first_error ? *first_error : refuse(r, LDSO_REFUSED, NULL, says);
            return !dlopened;
        }
        r->name = name;
    }
    struct ldso_object *dep = map_object(p, r, o, dlopened);
    if (dep) {
        VEC_PUSH(p->arena, &o->deps, dep);
        return true;
    }
    *first_error = *first_error ? *first_error : r->glibc_says;
    return !dlopened;
}

/* _dl_map_object_deps(): breadth-first over root and the preloads. At start a missing library is
 * noted and the walk goes on, as `ldd` shows it; in a dlopen it ends the walk. */
static const char *map_deps(struct ldso_process *p, struct ldso_object *root,
                            const object_list *preloads, bool dlopened)
{
    const char *error = NULL;
    unsigned mark = ++p->mark;
    p->ld_errno = 0;
    root->scope.n = 0;
    VEC_PUSH(p->arena, &root->scope, root);
    root->mark = mark;
    for (size_t i = 0; preloads && i < preloads->n; i++) {
        if (preloads->items[i]->mark != mark) {
            preloads->items[i]->mark = mark;
            VEC_PUSH(p->arena, &root->scope, preloads->items[i]);
        }
    }
    for (size_t i = 0; i < root->scope.n && !p->dead && !p->limit; i++) {
        struct ldso_object *o = root->scope.items[i];
        const struct elf_image *e = &o->file->image;
        bool fresh = o->deps.n == 0;
        for (size_t k = 0; fresh && k < e->n_needs; k++) {
            if (!map_need(p, o, &e->needs[k], dlopened, &error) || p->limit) {
                return error;
            }
            if (p->dead) {
                return error ? error : "killed by SIGBUS";
            }
        }
        for (size_t k = 0; k < o->deps.n; k++) {
            struct ldso_object *dep = o->deps.items[k];
            if (dep->mark != mark) {
                dep->mark = mark;
                VEC_PUSH(p->arena, &root->scope, dep);
            }
        }
    }
    return error;
}

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
static void sort_before_235(struct ldso_process *p, struct ldso_object **maps, size_t n,
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

/* Up to 2.34. A start relocates what is in the program's list; a dlopen what stands in the link map
 * from its object on and is not relocated (rtld.c and dl_open_worker in glibc 2.31). */
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
        sort_before_235(p, maps.items + first, maps.n - first, root);
    }
    for (size_t i = maps.n; i-- > 0;) {
        VEC_PUSH(p->arena, &out, maps.items[i]);
    }
    return out;
}

/* Dependencies before dependents: the order in which objects are relocated (elf/dl-sort-maps.c,
 * depth-first since 2.35). The root comes last; 2.35 itself left it where a cycle led to it. */
static object_list relocation_order(struct ldso_process *p, struct ldso_object *root)
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

/* Bits: 1 baseline, 2 v2, 4 v3, 8 v4 (x86-64 psABI, GNU_PROPERTY_X86_ISA_1). */
static void note_isa(struct ldso_process *p, const struct ldso_object *o, uint32_t needed)
{
    int level = needed & 8 ? 4 : needed & 4 ? 3 : 2;
    ldso_note_cpu(p, arena_printf(p->arena, "%s asks for x86-64-v%d", o->path, level));
}

static const char *check_isa(struct ldso_process *p, struct ldso_object *const *objects, size_t n)
{
    uint32_t have = p->cpu.level ? (1u << p->cpu.level) - 1 : 1;
    for (size_t i = 0; i < n && p->cpu.machine == EM_X86_64 && p->glibc_minor >= 33; i++) {
        uint32_t lacks = objects[i]->file->image.x86_isa_needed & ~have & 15;
        if (objects[i]->file->image.notes_cut) {
            p->limit = arena_printf(p->arena, "%s has more notes than are read", objects[i]->path);
            return NULL;
        }
        if (objects[i]->versions_checked || !lacks) {
            continue;
        }
        if (ldso_cpu_is_unknown(&p->cpu)) {
            note_isa(p, objects[i], lacks);
            continue;
        }
        const char *text = arena_printf(p->arena, "%s: CPU ISA level is lower than required",
                                        ldso_shown_name(p, objects[i]));
        ldso_defect_add(p, (struct ldso_defect){.kind = LDSO_ISA_LEVEL,
                                                .object = objects[i],
                                                .text = text,
                                                .load = p->current_load,
                                                .fatal = true});
        return text;
    }
    return NULL;
}

/* ------------------------------------------------------------------ start */

static bool user_in_group(gid_t gid)
{
    return getegid() == gid;
}

/* AT_SECURE: set-id of another user, or file capabilities for anyone but root
 * (security/commoncap.c, cap_bprm_creds_from_file). */
static void find_secure(struct ldso_process *p, const char *path)
{
    const struct ldso_file *f = p->main->file;
    if (f->mode & S_ISUID && f->uid != p->config.uid) {
        p->secure_why = "ignored, the program is set-user-ID (secure-execution mode)";
    } else if (f->mode & S_ISGID && f->mode & S_IXGRP && !user_in_group(f->gid)) {
        p->secure_why = "ignored, the program is set-group-ID (secure-execution mode)";
    } else if (p->config.uid != 0 && root_has_capabilities(p->store->root, path) == 1) {
        p->secure_why = "ignored, the program has file capabilities (secure-execution mode)";
    }
    p->secure = p->secure_why != NULL;
}

/* The secure-execution rule for names with a slash is LD_PRELOAD's, not that of the file
 * (elf/rtld.c, handle_preload_list). */
static void preload_one(struct ldso_process *p, const char *name, bool from_env,
                        object_list *preloads)
{
    struct ldso_request *r = ldso_request_new(p, p->main, name, LDSO_PRELOAD);
    if (p->secure && from_env && strchr(name, '/')) {
        (void)refuse(r, LDSO_REFUSED, NULL,
                     "ignored in secure-execution mode: the name has a slash");
        return;
    }
    struct ldso_object *o = map_object(p, r, p->main, false);
    if (!o && !p->limit) {
        r->glibc_says = arena_printf(
            p->arena,
            "ERROR: ld.so: object '%s' from LD_PRELOAD cannot be preloaded (%s): ignored.", name,
            r->errstring ? r->errstring : r->glibc_says);
        return;
    }
    if (o && r->outcome == LDSO_LOADED) {
        o->via = LDSO_VIA_PRELOAD;
        VEC_PUSH(p->arena, preloads, o);
    }
}

static void preload_list(struct ldso_process *p, const char *text, const char *separators,
                         bool from_env, object_list *preloads)
{
    for (const char *s = text; *s && !p->dead && !p->limit;) {
        size_t n = strcspn(s, separators);
        if (n) {
            preload_one(p, arena_strndup(p->arena, s, n), from_env, preloads);
        }
        s += n + (s[n] != '\0');
    }
}

/* /etc/ld.so.preload: names between blanks and colons, '#' to the end of the line is a comment. */
static void preload_file(struct ldso_process *p, object_list *preloads)
{
    struct str text;
    if (root_read(p->store->root, p->arena, "/etc/ld.so.preload", 1 << 20, &text) < 0) {
        return; // most systems have none
    }
    char *s = (char *)(uintptr_t)text.s; // our own copy
    bool comment = false;
    for (size_t i = 0; i < text.n; i++) {
        comment = s[i] == '#' || (comment && s[i] != '\n');
        if (comment || s[i] == '\0') {
            s[i] = ' ';
        }
    }
    preload_list(p, s, " \t\n:", false, preloads);
}

/* The loader's object stands right behind the program while dependencies are mapped, and then
 * where it comes in the program's search list. If nobody needs it by name, it is behind what is in
 * that list since glibc 2.41, and in no link map before (elf/rtld.c). */
static void place_interp(struct ldso_process *p)
{
    if (!p->interp) {
        return;
    }
    size_t at = 0;
    while (at < p->objects.n && p->objects.items[at] != p->interp) {
        at++;
    }
    memmove(&p->objects.items[at], &p->objects.items[at + 1],
            (p->objects.n - at - 1) * sizeof *p->objects.items);
    p->objects.n--;
    struct ldso_object *before = NULL;
    for (size_t i = 1; i < p->main->scope.n && !before; i++) {
        if (p->main->scope.items[i] == p->interp) {
            before = p->main->scope.items[i - 1];
        }
    }
    if (!before && p->glibc_minor < 41) {
        p->interp = NULL;
        return;
    }
    before = before ? before : p->main->scope.items[p->main->scope.n - 1];
    at = 0;
    while (at < p->objects.n && p->objects.items[at] != before) {
        at++;
    }
    VEC_PUSH(p->arena, &p->objects, p->interp); // makes room
    memmove(&p->objects.items[at + 2], &p->objects.items[at + 1],
            (p->objects.n - at - 2) * sizeof *p->objects.items);
    p->objects.items[at + 1] = p->interp;
    for (size_t i = 0; i < p->objects.n; i++) {
        p->objects.items[i]->place = i;
    }
}

/* The stated processor, else the system's; glibc.cpu.hwcaps and hwcap_mask take features of it
 * away. */
static void find_cpu(struct ldso_process *p, uint16_t machine)
{
    const char *tunables = ldso_getenv(p, "GLIBC_TUNABLES");
    bool stated = p->config.cpu && p->config.cpu->machine == machine;
    p->cpu = stated ? *p->config.cpu : *ldso_store_cpu(p->store, machine);
    if (!stated && p->cpu.level && tunables && strstr(tunables, "glibc.cpu.hwcap")) {
        p->cpu.level = 0;
        p->cpu.platform = machine == EM_X86_64 ? "x86_64" : p->cpu.platform;
        p->cpu.avx512_1 = false;
        p->cpu.why = "GLIBC_TUNABLES takes features of the processor away";
    }
    p->cpu.page_size = p->config.page_size ? p->config.page_size : p->cpu.page_size;
    p->cpu.why = ldso_cpu_is_unknown(&p->cpu) ? p->cpu.why : NULL;
}

static int start_objects(struct ldso_process *p, const char *path, struct ldso_file *file,
                         struct gm_err *err)
{
    const struct elf_image *e = &file->image;
    p->explicit_loader = !e->interp;
    p->main = ldso_object_new(p, path, file, NULL, LDSO_VIA_MAIN);
    p->machine_name = elf_machine_name(p->arena, e->machine);
    find_cpu(p, e->machine);
    const char *interp = e->interp ? e->interp : ldso_loader_default(e->machine, e->is64);
    if (!interp) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED, "%s: no loader is known for %s", path,
                          p->machine_name);
    }
    ldso_loader_read(p->store, interp, e->machine, e->is64, &p->loader);
    p->glibc_minor = p->config.glibc_minor   ? p->config.glibc_minor
                     : p->loader.glibc_minor ? p->loader.glibc_minor
                                             : GLIBC_MINOR_ASSUMED;
    if (p->loader.kind == LDSO_OTHER) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "%s: its loader %s is neither glibc's nor musl's; the search order is "
                          "not known",
                          path, interp);
    }
    VEC_PUSH(p->arena, &p->objects, p->main);
    p->is_static = (!e->has_dynamic && !e->interp) || p->loader.file == file ||
                   (!e->interp && e->flags_1 & DF_1_PIE && e->n_needs == 0);
    return 0;
}

static void add_interp(struct ldso_process *p)
{
    if (p->loader.file) {
        p->interp = ldso_object_new(p, p->loader.path, p->loader.file, p->main, LDSO_VIA_INTERP);
        ldso_add_name(p, p->interp, p->loader.path);
        VEC_PUSH(p->arena, &p->objects, p->interp);
    }
}

static void start_fails(struct ldso_process *p, const char *text)
{
    p->start_failed = true;
    p->start_error = p->start_error ? p->start_error : text;
}

static void check_start(struct ldso_process *p)
{
    for (size_t i = 0; i < p->main->scope.n; i++) {
        p->main->scope.items[i]->global = true;
        VEC_PUSH(p->arena, &p->global, p->main->scope.items[i]);
    }
    const char *text = check_isa(p, p->objects.items, p->objects.n);
    if (!text) {
        text = ldso_check_versions(p, p->objects.items, p->objects.n, true);
    }
    if (text) {
        start_fails(p, text);
    }
    if (p->start_failed || p->limit) {
        return; // symbols of an incomplete set say nothing
    }
    object_list order = relocation_order(p, p->main);
    const char *now = ldso_getenv(p, "LD_BIND_NOW");
    text = ldso_check_symbols(p, order.items, order.n, NULL, now && *now);
    if (text) {
        start_fails(p, text);
    }
}

static void start_glibc(struct ldso_process *p)
{
    add_interp(p);
    ldso_search_init(p);
    object_list preloads = {0};
    const char *env = ldso_getenv(p, "LD_PRELOAD");
    if (env) {
        preload_list(p, env, " :", true, &preloads);
    }
    preload_file(p, &preloads);
    const char *text = p->limit ? NULL : map_deps(p, p->main, &preloads, false);
    if (p->limit) {
        return; // what would come after is not known
    }
    if (text) {
        start_fails(p, text);
    }
    place_interp(p);
    check_start(p);
    ldso_tls_start(p);
}

/* What the kernel maps itself: the program and its loader. */
static void check_pages(struct ldso_process *p, const struct ldso_entry *program)
{
    const struct ldso_entry *loader =
        p->loader.file ? ldso_store_get(p->store, p->loader.path) : NULL;
    const struct ldso_entry *mapped[] = {p->explicit_loader ? NULL : program, loader};
    for (size_t i = 0; i < sizeof mapped / sizeof *mapped; i++) {
        uint32_t page = mapped[i] && mapped[i]->file ? ldso_kernel_refuses(p, mapped[i]) : 0;
        if (page) {
            const char *text = arena_printf(p->arena,
                                            "%s: cannot be started: the kernel cannot map its "
                                            "segments on pages of %u KiB",
                                            mapped[i]->path, page >> 10);
            ldso_defect_add(p, (struct ldso_defect){.kind = LDSO_PAGE_SIZE,
                                                    .object = i ? p->interp : p->main,
                                                    .text = text,
                                                    .load = p->current_load,
                                                    .fatal = true});
            start_fails(p, text);
        }
    }
}

int ldso_start(struct ldso_process *p, const char *path, struct gm_err *err)
{
    const char *absolute = ldso_absolute(p, path);
    struct ldso_entry *e = ldso_store_get(p->store, absolute);
    if (e->open_errno) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(e->open_errno));
    }
    if (!e->file) {
        return gm_err_set(err, GM_ERR_FORMAT, "%s: %s", path,
                          e->is_dir ? "is a folder" : "is not a regular file");
    }
    const struct elf_image *image = &e->file->image;
    if (image->state != ELF_STATE_OK) {
        const unsigned char *begin = elf_bytes(image, 0, 2);
        bool script = begin && memcmp(begin, "#!", 2) == 0;
        const char *what = image->size == 0                      ? "is empty"
                           : script                              ? "is a script, not an ELF program"
                           : image->state == ELF_STATE_NOT_ELF   ? "is not an ELF file"
                           : image->state == ELF_STATE_TOO_SHORT ? "is too short to be an ELF file"
                                                                 : image->defect;
        return gm_err_set(err, GM_ERR_FORMAT, "%s: %s", path, what);
    }
    if (image->type != ET_DYN && image->type != ET_EXEC) {
        return gm_err_set(err, GM_ERR_FORMAT, "%s: neither a program nor a shared library", path);
    }
    bool loads = false;
    for (size_t i = 0; i < image->n_segments; i++) {
        loads |= image->segments[i].type == PT_LOAD;
    }
    if (!loads) {
        return gm_err_set(err, GM_ERR_FORMAT, "%s: has nothing that could be loaded (no PT_LOAD)",
                          path);
    }
    if (image->dynamic_bad) {
        return gm_err_set(err, GM_ERR_FORMAT, "%s: %s", path, image->defect);
    }
    int rc = start_objects(p, path, e->file, err);
    if (rc < 0 || p->is_static) {
        return rc;
    }
    find_secure(p, absolute);
    struct ldso_verdict v = ldso_judge(p, e, false, true);
    if (p->explicit_loader && v.fatal) {
        start_fails(p, ldso_error_text(p, path, v.says, v.error));
        return 0;
    }
    if (!p->loader.file) {
        start_fails(p, arena_printf(p->arena, "%s: cannot be started, its loader %s: %s", path,
                                    p->loader.path, p->loader.missing));
    }
    check_pages(p, e);
    if (p->loader.kind == LDSO_MUSL) {
        ldso_musl_start(p);
    } else {
        start_glibc(p);
    }
    return p->limit ? gm_err_set(err, GM_ERR_LIMIT, "%s", p->limit) : 0;
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

/* The order in which _dl_close_worker() unloads what a failed dlopen has mapped, and all else:
 * sorted by dependency, with the one that is closed in front since 2.39 and the program before. */
static object_list unload_order(struct ldso_process *p, struct ldso_object *root)
{
    object_list maps = {0}, out = {0};
    for (size_t i = 0; i < p->objects.n; i++) {
        VEC_PUSH(p->arena, &maps, p->objects.items[i]);
    }
    if (p->glibc_minor < 35) {
        sort_before_235(p, maps.items + 1, maps.n - 1, root);
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
        order = unload_order(p, root);
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
        const char *text = map_deps(p, o, NULL, true);
        if (text || p->limit) {
            return text;
        }
    }
    const char *text = check_isa(p, o->scope.items, o->scope.n);
    if (!text) {
        text = ldso_check_versions(p, o->scope.items, o->scope.n, false);
    }
    if (p->limit) {
        return NULL;
    }
    if (!text) {
        const char *now = ldso_getenv(p, "LD_BIND_NOW");
        object_list order = relocation_order(p, o);
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
    struct ldso_object *o = map_object(p, r, NULL, true);
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
