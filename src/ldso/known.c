/* Objects by name and by file, in a process that has many of them. */
#include <string.h>

#include "ldso/internal.h"

/* Below so many objects all of them are asked, which is as fast. */
enum { OBJECTS_FEW = 256 };

/* Names and files have different keys. */
static uint64_t key_of_name(uint32_t gnu_hash)
{
    return (uint64_t)1 << 32 | gnu_hash;
}

static uint64_t key_of_file(const struct ldso_file *file)
{
    return (uint64_t)1 << 63 | (uintptr_t)file;
}

static struct ldso_known_entry *known_entry(const struct ldso_known *k, uint64_t key)
{
    size_t at = (size_t)(key * 0x9E3779B97F4A7C15u >> 32) & (k->cap - 1);
    while (k->items[at].object && k->items[at].key != key) {
        at = (at + 1) & (k->cap - 1);
    }
    return &k->items[at];
}

static void known_grow(struct ldso_process *p)
{
    struct ldso_known old = p->known;
    p->known.cap = old.cap ? 2 * old.cap : 16 * OBJECTS_FEW;
    p->known.items = arena_array(p->arena, p->known.cap, sizeof *p->known.items);
    for (size_t i = 0; i < old.cap; i++) {
        if (old.items[i].object) {
            *known_entry(&p->known, old.items[i].key) = old.items[i];
        }
    }
}

static void known_add(struct ldso_process *p, uint64_t key, struct ldso_object *o)
{
    if (2 * (p->known.n + 1) > p->known.cap) {
        known_grow(p);
    }
    struct ldso_known_entry *e = known_entry(&p->known, key);
    if (!e->object) {
        *e = (struct ldso_known_entry){key, o, false};
        p->known.n++;
    } else if (e->object != o) {
        e->several = true;
    }
}

void ldso_known_name(struct ldso_process *p, struct ldso_object *o, uint32_t gnu_hash)
{
    if (p->known.cap) {
        known_add(p, key_of_name(gnu_hash), o);
    }
}

void ldso_known_object(struct ldso_process *p, struct ldso_object *o)
{
    if (!p->known.cap) {
        return;
    }
    known_add(p, key_of_file(o->file), o);
    if (o->soname) {
        known_add(p, key_of_name(elf_lookup_key(o->soname).gnu_hash), o);
    }
    for (size_t i = 0; i < o->names.n; i++) {
        known_add(p, key_of_name(o->names.items[i].hash), o);
    }
}

static void known_begin(struct ldso_process *p)
{
    known_grow(p);
    for (size_t i = 0; i < p->objects.n; i++) {
        p->objects.items[i]->place = i;
        ldso_known_object(p, p->objects.items[i]);
    }
}

/* An object that is no longer where it was may have gone. */
static enum ldso_asked asked_of(struct ldso_process *p, uint64_t key, struct ldso_object **ret)
{
    if (!p->known.cap && p->objects.n < OBJECTS_FEW) {
        return LDSO_ASK_ALL;
    }
    if (!p->known.cap) {
        known_begin(p);
    }
    const struct ldso_known_entry *e = known_entry(&p->known, key);
    if (!e->object) {
        return LDSO_ASK_NONE;
    }
    struct ldso_object *o = e->object;
    bool in_place = o->place < p->objects.n && p->objects.items[o->place] == o;
    *ret = o;
    return e->several || !in_place ? LDSO_ASK_ALL : LDSO_ASK_ONE;
}

enum ldso_asked ldso_asked_name(struct ldso_process *p, uint32_t gnu_hash, struct ldso_object **ret)
{
    return asked_of(p, key_of_name(gnu_hash), ret);
}

enum ldso_asked ldso_asked_file(struct ldso_process *p, const struct ldso_file *file,
                                struct ldso_object **ret)
{
    return asked_of(p, key_of_file(file), ret);
}
