/* What is known of the objects of the process: their symbols, their memory, what they need. */
#include "inject/gpucalls/gpucall.h"

struct gpucall_object gpucall_objects[GPUCALL_OBJECTS];
uint32_t gpucall_n_objects;

static const char libraries[][12] = {"libcuda.so", "libcudart", "libamdhip64"};

bool gpucall_is_library(const char *path)
{
    const char *name = text_base(path);
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        if (text_begins(name, libraries[i])) {
            return true;
        }
    }
    return false;
}

uintptr_t gpucall_pointer(const struct link_map *map, Elf64_Addr value)
{
    return value < map->l_addr ? value + map->l_addr : value;
}

uintptr_t gpucall_dynamic(const struct link_map *map, int64_t tag)
{
    const Elf64_Dyn *d = map->l_ld;
    while (d && d->d_tag != DT_NULL && d->d_tag != tag) {
        d++;
    }
    return d && d->d_tag == tag ? d->d_un.d_val : 0;
}

bool gpucall_needs_library(const struct gpucall_object *o)
{
    for (const Elf64_Dyn *d = o->map->l_ld; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_NEEDED && o->strings && d->d_un.d_val < o->n_strings &&
            gpucall_is_library(o->strings + d->d_un.d_val)) {
            return true;
        }
    }
    return false;
}

static uint32_t count_by_gnu_hash(const uint32_t *hash)
{
    uint32_t n_buckets = hash[0], first = hash[1], n_bloom = hash[2], last = 0;
    const uint32_t *buckets = hash + 4 + (size_t)n_bloom * 2, *chain = buckets + n_buckets;
    for (uint32_t i = 0; i < n_buckets; i++) {
        last = buckets[i] > last ? buckets[i] : last;
    }
    if (last < first) {
        return first;
    }
    while (!(chain[last - first] & 1)) {
        last++;
    }
    return last + 1;
}

/* The table of an object that offers nothing says nothing of its symbols: those that its
 * relocations name are there. */
static uint32_t count_by_relocations(const struct link_map *map, int64_t at_tag, int64_t size_tag)
{
    uintptr_t at = gpucall_dynamic(map, at_tag);
    const Elf64_Rela *r =
        (const Elf64_Rela *)gpucall_pointer(map, at); // NOLINT: mapped by the loader
    uint32_t count = 0;
    for (size_t n = at ? gpucall_dynamic(map, size_tag) / sizeof *r : 0; n; n--, r++) {
        uint32_t s = (uint32_t)ELF64_R_SYM(r->r_info);
        count = s >= count ? s + 1 : count;
    }
    return count;
}

static void learn_symbols(struct gpucall_object *o)
{
    const struct link_map *map = o->map;
    uintptr_t hash = gpucall_dynamic(map, DT_HASH), gnu = gpucall_dynamic(map, DT_GNU_HASH);
    uintptr_t symbols = gpucall_dynamic(map, DT_SYMTAB), strings = gpucall_dynamic(map, DT_STRTAB);
    if (!symbols || !strings) {
        return;
    }
    o->symbols = (const Elf64_Sym *)gpucall_pointer(map, symbols); // NOLINT: mapped by the loader
    o->strings = (const char *)gpucall_pointer(map, strings);      // NOLINT
    o->n_strings = gpucall_dynamic(map, DT_STRSZ);
    if (hash) {
        o->n_symbols = ((const uint32_t *)gpucall_pointer(map, hash))[1]; // NOLINT
    } else if (gnu) {
        const uint32_t counts[] = {
            count_by_gnu_hash((const uint32_t *)gpucall_pointer(map, gnu)), // NOLINT
            count_by_relocations(map, DT_RELA, DT_RELASZ),
            count_by_relocations(map, DT_JMPREL, DT_PLTRELSZ)};
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            o->n_symbols = counts[i] > o->n_symbols ? counts[i] : o->n_symbols;
        }
    }
}

static void learn_memory(struct gpucall_object *o, const Elf64_Phdr *headers, size_t n)
{
    uintptr_t base = o->map->l_addr;
    for (size_t i = 0; i < n; i++) {
        uintptr_t low = base + headers[i].p_vaddr, high = low + headers[i].p_memsz;
        if (headers[i].p_type == PT_LOAD) {
            o->memory.low = o->memory.low && o->memory.low < low ? o->memory.low : low;
            o->memory.high = o->memory.high > high ? o->memory.high : high;
        } else if (headers[i].p_type == PT_GNU_EH_FRAME) {
            o->memory.frames = low;
        }
    }
}

void gpucall_object_learn(struct gpucall_object *o, const Elf64_Phdr *headers, size_t n)
{
    Elf64_Ehdr e;
    learn_symbols(o);
    if (headers) {
        learn_memory(o, headers, n);
        return;
    }
    if (unwind_read(&e, o->map->l_addr, sizeof e) && e.e_ident[0] == 0x7f && e.e_ident[1] == 'E' &&
        e.e_phentsize == sizeof(Elf64_Phdr)) {
        learn_memory(o, (const Elf64_Phdr *)(o->map->l_addr + e.e_phoff), e.e_phnum); // NOLINT
    }
}

bool gpucall_refers_to(const struct gpucall_object *o, const char *name)
{
    for (uint32_t i = 1; i < o->n_symbols; i++) {
        const Elf64_Sym *s = &o->symbols[i];
        if (s->st_shndx == SHN_UNDEF && s->st_name < o->n_strings &&
            text_equal(o->strings + s->st_name, name)) {
            return true;
        }
    }
    return false;
}

const struct gpucall_object *gpucall_object_of(uintptr_t address)
{
    for (uint32_t i = 0; i < gpucall_n_objects; i++) {
        const struct gpucall_object *o = &gpucall_objects[i];
        if (o->map && address >= o->memory.low && address < o->memory.high) {
            return o;
        }
    }
    return NULL;
}

const char *gpucall_symbol(const struct gpucall_object *o, uintptr_t address)
{
    const char *found = NULL;
    uintptr_t best = 0;
    for (uint32_t i = 1; i < o->n_symbols; i++) {
        const Elf64_Sym *s = &o->symbols[i];
        uintptr_t at = o->map->l_addr + s->st_value;
        if (s->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s->st_info) == STT_FUNC && at <= address &&
            at > best && address < at + (s->st_size ? s->st_size : 1) &&
            s->st_name < o->n_strings) {
            found = o->strings + s->st_name;
            best = at;
        }
    }
    return found;
}
