/* What the files of the process model share: names, objects, requests, defects. */
#include <string.h>

#include "base/env.h"
#include "ldso/internal.h"

/* The model of a hostile web of libraries ends here. No process has so many: a library takes two
 * mappings and more, and vm.max_map_count allows 65530 unless it was raised. */
enum { OBJECTS_MAX = 32768 };

static const char *const via_names[] = {
    [LDSO_VIA_NONE] = "none",       [LDSO_VIA_MAIN] = "main",
    [LDSO_VIA_INTERP] = "interp",   [LDSO_VIA_RPATH] = "rpath",
    [LDSO_VIA_RUNPATH] = "runpath", [LDSO_VIA_LIBRARY_PATH] = "LD_LIBRARY_PATH",
    [LDSO_VIA_CACHE] = "cache",     [LDSO_VIA_DEFAULT] = "default",
    [LDSO_VIA_LOADED] = "loaded",   [LDSO_VIA_PATH] = "path",
    [LDSO_VIA_PRELOAD] = "preload",
};
static const char *const result_names[] = {
    [LDSO_TAKEN] = "taken",
    [LDSO_ABSENT] = "absent",
    [LDSO_DANGLING] = "dangling",
    [LDSO_DENIED] = "denied",
    [LDSO_WRONG_CLASS] = "wrong-class",
    [LDSO_WRONG_MACHINE] = "wrong-machine",
    [LDSO_INVALID] = "invalid",
    [LDSO_UNREADABLE] = "unreadable",
    [LDSO_NOT_USED] = "not-used",
};
static const char *const outcome_names[] = {
    [LDSO_LOADED] = "loaded",
    [LDSO_REUSED] = "reused",
    [LDSO_NOT_FOUND] = "not-found",
    [LDSO_REFUSED] = "refused",
};
static const char *const kind_names[] = {
    [LDSO_NEEDED] = "needed", [LDSO_DLOPEN] = "dlopen", [LDSO_PRELOAD] = "preload"};

const char *ldso_via_name(enum ldso_via via)
{
    return via_names[via];
}

const char *ldso_result_name(enum ldso_result result)
{
    return result_names[result];
}

const char *ldso_outcome_name(enum ldso_outcome outcome)
{
    return outcome_names[outcome];
}

const char *ldso_request_kind_name(enum ldso_request_kind kind)
{
    return kind_names[kind];
}

const char *ldso_getenv(const struct ldso_process *p, const char *name)
{
    return env_value(p->config.env, p->config.n_env, name);
}

bool ldso_has_name(const struct ldso_object *o, const char *name)
{
    struct elf_lookup_key key = elf_lookup_key(name);
    return ldso_has_name_key(o, &key);
}

void ldso_add_name(struct ldso_process *p, struct ldso_object *o, const char *name)
{
    struct elf_lookup_key key = elf_lookup_key(name);
    if (!ldso_has_name_key(o, &key)) {
        VEC_PUSH(p->arena, &o->names, (struct ldso_name){name, key.gnu_hash});
        o->name_bits |= ldso_name_bit(key.gnu_hash);
        ldso_known_name(p, o, key.gnu_hash);
    }
}

/* DSO_FILENAME: the program has no link map name; messages show how it was started. */
const char *ldso_shown_name(const struct ldso_process *p, const struct ldso_object *o)
{
    (void)p;
    return o->path;
}

struct ldso_object *ldso_object_new(struct ldso_process *p, const char *path,
                                    struct ldso_file *file, struct ldso_object *by,
                                    enum ldso_via via)
{
    struct ldso_object *o = arena_alloc(p->arena, sizeof *o);
    o->path = path;
    o->file = file;
    o->soname = file->image.soname;
    if (o->soname) {
        o->name_bits = ldso_name_bit(elf_lookup_key(o->soname).gnu_hash);
    }
    o->with_rpath = file->image.rpath ? o : NULL;
    o->by = by;
    o->via = via;
    o->late = p->current_load >= 0;
    ldso_known_object(p, o);
    return o;
}

bool ldso_is_full(struct ldso_process *p)
{
    if (p->objects.n >= OBJECTS_MAX) {
        p->limit = arena_printf(p->arena,
                                "%s loads more than %d libraries, the most that are modelled in "
                                "one process",
                                p->main->path, OBJECTS_MAX);
    }
    return p->limit != NULL;
}

void ldso_defect_add(struct ldso_process *p, struct ldso_defect defect)
{
    VEC_PUSH(p->arena, &p->defects, defect);
}

struct ldso_request *ldso_request_new(struct ldso_process *p, struct ldso_object *caller,
                                      const char *name, enum ldso_request_kind kind)
{
    struct ldso_request *r = arena_alloc(p->arena, sizeof *r);
    r->name = name;
    r->caller = caller;
    r->kind = kind;
    r->load = p->current_load;
    VEC_PUSH(p->arena, &p->requests, r);
    return r;
}
