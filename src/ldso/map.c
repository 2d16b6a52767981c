/*
 * From a name to a mapped object: what is loaded already, the search, and the needs of what was
 * mapped, breadth first. glibc elf/dl-load.c (_dl_map_object), elf/dl-deps.c.
 */
#include <string.h>
#include <unistd.h>

#include "ldso/internal.h"
#include "ldso/process.h"

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

const char *ldso_refuse(struct ldso_request *r, enum ldso_outcome outcome, const char *path,
                        const char *says)
{
    r->outcome = outcome;
    r->path = path;
    r->glibc_says = says;
    return says;
}

struct ldso_object *ldso_map_object(struct ldso_process *p, struct ldso_request *r,
                                    struct ldso_object *loader, bool dlopened)
{
    struct ldso_object *o = find_loaded(p, r->name);
    if (o) {
        request_took(r, o, LDSO_REUSED, NULL);
        return o;
    }
    struct ldso_found found = ldso_search(p, r, dlopened);
    if (!found.entry) {
        (void)ldso_refuse(r, found.fatal ? LDSO_REFUSED : LDSO_NOT_FOUND,
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
        (void)ldso_refuse(r, LDSO_REFUSED, found.path,
                          ldso_error_text(p, r->name, found.refused, 0));
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
        (void)ldso_refuse(r, LDSO_REFUSED, found.path, says);
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
            *first_error = *first_error ? *first_error : ldso_refuse(r, LDSO_REFUSED, NULL, says);
            return !dlopened;
        }
        r->name = name;
    }
    struct ldso_object *dep = ldso_map_object(p, r, o, dlopened);
    if (dep) {
        VEC_PUSH(p->arena, &o->deps, dep);
        return true;
    }
    *first_error = *first_error ? *first_error : r->glibc_says;
    return !dlopened;
}

const char *ldso_map_deps(struct ldso_process *p, struct ldso_object *root,
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

/* Bits: 1 baseline, 2 v2, 4 v3, 8 v4 (x86-64 psABI, GNU_PROPERTY_X86_ISA_1). */
static void note_isa(struct ldso_process *p, const struct ldso_object *o, uint32_t needed)
{
    int level = needed & 8 ? 4 : needed & 4 ? 3 : 2;
    ldso_note_cpu(p, arena_printf(p->arena, "%s asks for x86-64-v%d", o->path, level));
}

const char *ldso_check_isa(struct ldso_process *p, struct ldso_object *const *objects, size_t n)
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
