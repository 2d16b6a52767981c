/* The objects of the process: their names, their addresses, and which of them called. */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "inject/text.h"
#include "inject/trace/trace.h"

enum {
    OBJECTS_MAX = 4096,
    NAMES_BYTES = 1 << 20,
    HEAD_BYTES = 2048,
};

static struct object objects[OBJECTS_MAX]; // the first is the program

static size_t n_objects;

static bool objects_full; // some have no row: their cookie is what it was, the link map's address

static char names[NAMES_BYTES];

static size_t n_names;

struct object *trace_object_of(const uintptr_t *cookie)
{
    uintptr_t at = cookie ? *cookie : 0;
    bool known = at >= (uintptr_t)objects && at < (uintptr_t)(objects + OBJECTS_MAX);
    return known ? (struct object *)at : NULL;
}

bool trace_is_program(const struct object *o)
{
    return o == objects;
}

const struct link_map *trace_map_of(const uintptr_t *cookie)
{
    return !cookie || trace_object_of(cookie) ? NULL : (const struct link_map *)*cookie;
}

const char *trace_object_name(const uintptr_t *cookie)
{
    const struct object *o = trace_object_of(cookie);
    const struct link_map *map = trace_map_of(cookie);
    return o ? __atomic_load_n(&o->name, __ATOMIC_ACQUIRE) : map ? map->l_name : NULL;
}

static const char *keep_name(const char *name)
{
    size_t n = text_length(name) + 1;
    if (n > NAMES_BYTES - n_names) {
        return NULL;
    }
    char *kept = names + n_names;
    for (size_t i = 0; i < n; i++) {
        kept[i] = name[i];
    }
    n_names += n;
    return kept;
}

/* A row for it: one that had this name before, else a new one. NULL if there is none. */
static struct object *row_for(const char *name)
{
    for (size_t i = 1; i < n_objects; i++) {
        if (!objects[i].open && text_equal(objects[i].name, name)) {
            return &objects[i];
        }
    }
    const char *kept = n_objects == OBJECTS_MAX ? NULL : n_objects ? keep_name(name) : trace_me.exe;
    if (!kept) {
        __atomic_store_n(&objects_full, true, __ATOMIC_RELEASE);
        return NULL;
    }
    struct object *o = &objects[n_objects];
    __atomic_store_n(&o->name, kept, __ATOMIC_RELEASE);
    __atomic_store_n(&n_objects, n_objects + 1, __ATOMIC_RELEASE);
    return o;
}

static void set_addresses(struct object *o, uintptr_t base, const Elf64_Phdr *headers, size_t n)
{
    uintptr_t from = UINTPTR_MAX, to = 0;
    for (size_t i = 0; i < n; i++) {
        uintptr_t start = base + headers[i].p_vaddr, end = start + headers[i].p_memsz;
        if (headers[i].p_type == PT_LOAD) {
            from = start < from ? start : from;
            to = end > to ? end : to;
        }
    }
    if (to) {
        __atomic_store_n(&o->to, to, __ATOMIC_RELEASE);
        __atomic_store_n(&o->from, from, __ATOMIC_RELEASE);
    }
}

/* Out of the file: in memory the headers need not be where the object begins. */
static void read_addresses(struct object *o, const struct link_map *map)
{
    union {
        Elf64_Ehdr header;
        char bytes[HEAD_BYTES];
    } head;
    int fd = map->l_name && trace_has_char(map->l_name, '/')
                 ? trace_raw_open(map->l_name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
                 : -1;
    if (fd < 0) {
        return; // the kernel's own object
    }
    long n = trace_raw(SYS_read, fd, (long)head.bytes, sizeof head.bytes, 0);
    (void)trace_raw(SYS_close, fd, 0, 0, 0);
    const Elf64_Ehdr *h = &head.header;
    if (n > (long)sizeof *h && h->e_phoff <= (size_t)n && h->e_phentsize == sizeof(Elf64_Phdr) &&
        h->e_phoff % _Alignof(Elf64_Phdr) == 0 &&
        h->e_phnum <= ((size_t)n - h->e_phoff) / sizeof(Elf64_Phdr)) {
        set_addresses(o, map->l_addr, (const Elf64_Phdr *)(head.bytes + h->e_phoff), h->e_phnum);
    }
}

bool trace_has_tag(const struct link_map *map, Elf64_Sxword tag)
{
    for (const Elf64_Dyn *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == tag) {
            return true;
        }
    }
    return false;
}

struct object *trace_add_object(const struct link_map *map)
{
    struct object *o = row_for(map->l_name ? map->l_name : "");
    if (!o) {
        return NULL;
    }
    o->open = true;
    o->has_runpath = trace_has_tag(map, DT_RUNPATH);
    if (o == objects) {
        set_addresses(o, map->l_addr, (const Elf64_Phdr *)trace_me.program_headers,
                      trace_me.n_program_headers);
    } else {
        read_addresses(o, map);
    }
    return o;
}

const char *trace_caller_at(uintptr_t address)
{
    size_t n = __atomic_load_n(&n_objects, __ATOMIC_ACQUIRE);
    for (size_t i = 0; i < n; i++) {
        uintptr_t from = __atomic_load_n(&objects[i].from, __ATOMIC_ACQUIRE);
        if (from && address >= from &&
            address < __atomic_load_n(&objects[i].to, __ATOMIC_ACQUIRE)) {
            return __atomic_load_n(&objects[i].name, __ATOMIC_ACQUIRE);
        }
    }
    return __atomic_load_n(&objects_full, __ATOMIC_ACQUIRE) ? NULL : trace_me.exe;
}
