/* Symbol versions: which object provides a name, and what it lacks. glibc elf/dl-version.c. */
#include <string.h>

#include "ldso/internal.h"

/* find_needed(): the loaded object that answers to a Verneed's file name. A name is one object's
 * only (who is loaded first answers to it from then on), so that the likeliest may be asked first.
 */
static struct ldso_object *provider_named(struct ldso_process *p, const struct ldso_object *o,
                                          const char *file)
{
    struct elf_lookup_key key = elf_lookup_key(file);
    for (size_t i = 0; i < o->deps.n; i++) {
        if (ldso_has_name_key(o->deps.items[i], &key)) {
            return o->deps.items[i];
        }
    }
    struct ldso_object *one;
    enum ldso_asked asked = ldso_asked_name(p, key.gnu_hash, &one);
    if (asked != LDSO_ASK_ALL) {
        return asked == LDSO_ASK_ONE && ldso_has_name_key(one, &key) ? one : NULL;
    }
    for (size_t i = 0; i < p->objects.n; i++) {
        if (ldso_has_name_key(p->objects.items[i], &key)) {
            return p->objects.items[i];
        }
    }
    return NULL;
}

/* The definition of the version that is needed, or NULL; that of the base version only if it has no
 * other. */
static const struct elf_version_def *definition_of(const struct elf_versions *v,
                                                   const struct elf_version_need *need)
{
    const struct elf_version_def *base = NULL;
    for (size_t i = 0; i < v->n_defs; i++) {
        const struct elf_version_def *d = &v->defs[i];
        if (d->hash == need->hash && strcmp(d->name, need->name) == 0) {
            if (!(d->flags & VER_FLG_BASE)) {
                return d;
            }
            base = d;
        }
    }
    return base;
}

static const char *check_need(struct ldso_process *p, struct ldso_object *o,
                              const struct elf_version_need *need,
                              const struct ldso_version_from *from, bool at_start)
{
    if (from->definition) {
        return NULL;
    }
    struct ldso_object *provider = from->object;
    struct ldso_defect d = {
        .object = o, .provider = provider, .version = need->name, .load = p->current_load};
    if (!provider) {
        d.kind = LDSO_VERSION_MISSING;
        d.fatal = true;
        d.text = "Inconsistency detected by ld.so: dl-version.c: _dl_check_map_versions: Assertion "
                 "`needed != NULL' failed!";
        ldso_defect_add(p, d);
        return d.text;
    }
    if (!provider->file->image.verdef) {
        d.kind = LDSO_NO_VERSIONS;
        d.text = arena_printf(p->arena, "%s: no version information available (required by %s)",
                              ldso_shown_name(p, provider), ldso_shown_name(p, o));
        if (at_start) {
            ldso_defect_add(p, d);
        }
        return NULL;
    }
    if (need->flags & VER_FLG_WEAK) {
        return NULL;
    }
    d.kind = LDSO_VERSION_MISSING;
    d.fatal = true;
    d.text = arena_printf(p->arena, "%s: version `%s' not found (required by %s)",
                          ldso_shown_name(p, provider), need->name, ldso_shown_name(p, o));
    ldso_defect_add(p, d);
    return d.text;
}

void ldso_find_providers(struct ldso_process *p, struct ldso_object *o,
                         const struct elf_versions *v)
{
    o->version_from = arena_array(p->arena, v->n_needs, sizeof *o->version_from);
    for (size_t i = 0; i < v->n_needs; i++) {
        struct ldso_version_from *from = &o->version_from[i];
        bool same = i && v->needs[i].file == v->needs[i - 1].file; // its versions stand together
        from->object = same ? from[-1].object : provider_named(p, o, v->needs[i].file);
        from->definition =
            from->object
                ? definition_of(ldso_file_versions(p->store, from->object->file), &v->needs[i])
                : NULL;
    }
}

const char *ldso_check_versions(struct ldso_process *p, struct ldso_object *const *objects,
                                size_t n, bool at_start)
{
    const char *first = NULL;
    for (size_t i = 0; i < n; i++) {
        struct ldso_object *o = objects[i];
        if (o->versions_checked) {
            continue;
        }
        o->versions_checked = true;
        const struct elf_versions *v = ldso_file_versions(p->store, o->file);
        if (v->cut) {
            p->limit = arena_printf(p->arena, "%s has more symbol versions than are read", o->path);
            return NULL;
        }
        ldso_find_providers(p, o, v);
        for (size_t k = 0; k < v->n_needs; k++) {
            const char *text = check_need(p, o, &v->needs[k], &o->version_from[k], at_start);
            first = first ? first : text;
            if (first && !at_start) {
                return first;
            }
        }
    }
    return first;
}
