#include "inject/guard/guard.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>

/* In every glibc since 2.2.4, and in musl. */
extern int dl_iterate_phdr(int (*)(struct dl_phdr_info *, size_t, void *), void *)
    __attribute__((weak));

enum { SECTIONS_MAX = 512, KINDS_MAX = 32, SECTION_NAME = 16 };

/* The driver and the runtimes. Hashed names (libcudart-d0da41ae.so.11.0) begin so too. */
static const char *const runtimes[] = {"libcuda.so",      "libcuda-",           "libcudart",
                                       "libnvidia-",      "libamdhip64",        "libhsa-runtime64",
                                       "libze_intel_gpu", "libcudadebugger.so", NULL};

/* Libraries over them; who needs one of these uses a GPU. */
static const char *const users[] = {"libcublas",   "libcudnn",     "libcufft",   "libcurand",
                                    "libcusolver", "libcusparse",  "libnvrtc",   "libnvJitLink",
                                    "libnccl",     "libnvinfer",   "libhipblas", "librocblas",
                                    "libMIOpen",   "libhipfft",    "librocfft",  "libhiprand",
                                    "librocrand",  "librocsolver", "librccl",    NULL};

/* Sections with code for a GPU, in objects that link the runtime statically. */
static const char *const gpu_sections[] = {".nv_fatbin", ".hip_fatbin", "__CLANG_OFFLOAD_BUNDLE",
                                           NULL};

static bool begins_with_one(const char *name, const char *const *list)
{
    for (; *list; list++) {
        if (text_begins(name, *list)) {
            return true;
        }
    }
    return false;
}

bool object_name_is_runtime(const char *base)
{
    return begins_with_one(base, runtimes);
}

/* ------------------------------------------------------------------ one loaded object */

struct object {
    uintptr_t base, low, high;
    const char *name;
    const ElfW(Dyn) * dynamic;
};

static void fill_object(struct object *o, const struct dl_phdr_info *info)
{
    *o = (struct object){.base = info->dlpi_addr,
                         .low = UINTPTR_MAX,
                         .name = info->dlpi_name ? info->dlpi_name : ""};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD) {
            uintptr_t from = o->base + p->p_vaddr, to = from + p->p_memsz;
            o->low = from < o->low ? from : o->low;
            o->high = to > o->high ? to : o->high;
        } else if (p->p_type == PT_DYNAMIC) {
            o->dynamic = (const ElfW(Dyn) *)(o->base + p->p_vaddr);
        }
    }
}

static bool holds(const struct object *o, const void *address)
{
    return (uintptr_t)address >= o->low && (uintptr_t)address < o->high;
}

/* ld.so has made most of these addresses absolute; where .dynamic cannot be written it has not. */
static const void *table(const struct object *o, ElfW(Sxword) tag)
{
    for (const ElfW(Dyn) *d = o->dynamic; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == tag) {
            return (const void *)(d->d_un.d_ptr < o->base ? o->base + d->d_un.d_ptr
                                                          : d->d_un.d_ptr);
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ what it is */

static bool needs_gpu(const struct object *o)
{
    const char *strings = table(o, DT_STRTAB);
    for (const ElfW(Dyn) *d = o->dynamic; strings && d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_NEEDED && (begins_with_one(strings + d->d_un.d_val, runtimes) ||
                                      begins_with_one(strings + d->d_un.d_val, users))) {
            return true;
        }
    }
    return false;
}

/* The headers of sections are not mapped: they are read from the file, bounded. */
static bool file_has_gpu_section(int fd)
{
    ElfW(Ehdr) head;
    ElfW(Shdr) names, section;
    char name[SECTION_NAME + 16];
    if (sys_pread(fd, &head, sizeof head, 0) != (long)sizeof head ||
        head.e_shentsize != sizeof section || head.e_shstrndx >= head.e_shnum ||
        sys_pread(fd, &names, sizeof names, head.e_shoff + head.e_shstrndx * sizeof section) !=
            (long)sizeof names) {
        return false;
    }
    for (unsigned i = 0; i < head.e_shnum && i < SECTIONS_MAX; i++) {
        if (sys_pread(fd, &section, sizeof section, head.e_shoff + i * sizeof section) !=
            (long)sizeof section) {
            return false;
        }
        long got = sys_pread(fd, name, sizeof name - 1, names.sh_offset + section.sh_name);
        name[got > 0 ? got : 0] = '\0';
        if (got > 0 && begins_with_one(name, gpu_sections)) {
            return true;
        }
    }
    return false;
}

static enum object_kind kind_by_name(const struct object *o)
{
    const char *base = text_base(o->name);
    if (!*base || !o->dynamic) {
        return OBJECT_OTHER;
    }
    if (begins_with_one(base, runtimes)) {
        return OBJECT_RUNTIME;
    }
    if (begins_with_one(base, users) || needs_gpu(o)) {
        return OBJECT_GPU;
    }
    int fd = sys_open(o->name, O_RDONLY | O_NOCTTY | O_NONBLOCK);
    bool has = fd >= 0 && file_has_gpu_section(fd);
    if (fd >= 0) {
        sys_close(fd);
    }
    return has ? OBJECT_GPU : OBJECT_OTHER;
}

/* Kinds of objects by their place; valid while nothing was loaded or unloaded. The lock is only
 * tried: a fork may have left it taken. */
static struct {
    uint32_t lock;
    unsigned long long adds, subs;
    unsigned n;
    struct {
        uintptr_t low, high;
        enum object_kind kind;
        char name[END_NAME_MAX];
    } at[KINDS_MAX];
} kinds;

struct find {
    const void *address;
    struct object object;
    unsigned long long adds, subs;
    bool found, in_kinds;
    enum object_kind kind;
    char *name;
    size_t n;
};

static bool in_kinds(struct find *f)
{
    bool found = false;
    if (!lock_try(&kinds.lock)) {
        return false;
    }
    for (unsigned i = 0; kinds.adds == f->adds && kinds.subs == f->subs && i < kinds.n && !found;
         i++) {
        if ((uintptr_t)f->address >= kinds.at[i].low && (uintptr_t)f->address < kinds.at[i].high) {
            f->kind = kinds.at[i].kind;
            text_copy(f->name, kinds.at[i].name, f->n);
            found = true;
        }
    }
    lock_give(&kinds.lock);
    return found;
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct find *f = argument;
    (void)size;
    if (!f->adds) { // the first object
        f->adds = info->dlpi_adds;
        f->subs = info->dlpi_subs;
        f->in_kinds = in_kinds(f);
        if (f->in_kinds) {
            return 1;
        }
    }
    fill_object(&f->object, info);
    f->found = holds(&f->object, f->address);
    return f->found;
}

static void keep_object(const struct find *f)
{
    if (!lock_try(&kinds.lock)) {
        return;
    }
    if (kinds.adds != f->adds || kinds.subs != f->subs || kinds.n == KINDS_MAX) {
        kinds.adds = f->adds;
        kinds.subs = f->subs;
        kinds.n = 0;
    }
    kinds.at[kinds.n].low = f->object.low;
    kinds.at[kinds.n].high = f->object.high;
    kinds.at[kinds.n].kind = f->kind;
    text_copy(kinds.at[kinds.n].name, f->object.name, END_NAME_MAX);
    kinds.n++;
    lock_give(&kinds.lock);
}

enum object_kind object_at(const void *address, char *name, size_t n)
{
    struct find f = {.address = address, .name = name, .n = n};
    *name = '\0';
    if (!dl_iterate_phdr) {
        return OBJECT_OTHER;
    }
    (void)dl_iterate_phdr(look_at_object, &f); // what look returned is in f
    if (f.in_kinds) {
        return f.kind;
    }
    if (!f.found) {
        return OBJECT_OTHER;
    }
    /* Who asks runs code of the object or is its destructor's caller: it stays loaded meanwhile. */
    f.kind = kind_by_name(&f.object);
    text_copy(name, f.object.name, n);
    keep_object(&f);
    return f.kind;
}

/* ------------------------------------------------------------------ symbols */

static bool is_hidden(const uint16_t *versions, uint32_t index)
{
    return versions && versions[index] & 0x8000;
}

struct tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint16_t *versions;
};

static bool is_it(const struct tables *t, uint32_t index, const char *name)
{
    const ElfW(Sym) *s = &t->symbols[index];
    return s->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s->st_info) == STT_FUNC &&
           !is_hidden(t->versions, index) && text_equal(t->strings + s->st_name, name);
}

/* The GNU hash table: header of four words, Bloom filter, buckets, chains whose last entry is odd
 * (binutils, bfd/elflink.c). 0: not there. */
static uint32_t find_gnu(const struct tables *t, const uint32_t *h, const char *name)
{
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++) {
        hash = hash * 33 + (unsigned char)*c;
    }
    const uint32_t *buckets = (const uint32_t *)((const ElfW(Addr) *)(h + 4) + h[2]);
    uint32_t index = h[0] ? buckets[hash % h[0]] : 0;
    for (; index >= h[1] && index; index++) {
        uint32_t entry = buckets[h[0] + (index - h[1])];
        if ((entry | 1) == (hash | 1) && is_it(t, index, name)) {
            return index;
        }
        if (entry & 1) {
            break;
        }
    }
    return 0;
}

/* The table of the gABI: two counts, buckets, chains. */
static uint32_t find_sysv(const struct tables *t, const uint32_t *h, const char *name)
{
    for (uint32_t i = 1; i < h[1]; i++) {
        if (is_it(t, i, name)) {
            return i;
        }
    }
    return 0;
}

static void *symbol_of(const struct object *o, const char *name)
{
    const struct tables t = {.symbols = table(o, DT_SYMTAB),
                             .strings = table(o, DT_STRTAB),
                             .versions = table(o, DT_VERSYM)};
    const uint32_t *gnu = table(o, DT_GNU_HASH), *sysv = table(o, DT_HASH);
    if (!t.symbols || !t.strings || (!gnu && !sysv)) {
        return NULL;
    }
    uint32_t i = gnu ? find_gnu(&t, gnu, name) : find_sysv(&t, sysv, name);
    return i ? (void *)(o->base + t.symbols[i].st_value) : NULL;
}

struct search {
    const char *begins, *name;
    bool next, behind; // next: only behind this library
    void *found;
};

static int search(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct search *s = argument;
    struct object o;
    (void)size;
    fill_object(&o, info);
    if (holds(&o, (const void *)(uintptr_t)search)) {
        s->behind = true;
        return 0;
    }
    if ((s->next && !s->behind) || (s->begins && !text_begins(text_base(o.name), s->begins))) {
        return 0;
    }
    s->found = symbol_of(&o, s->name);
    return s->found != NULL;
}

void *object_symbol(const char *name, bool next)
{
    struct search s = {.name = name, .next = next};
    if (dl_iterate_phdr) {
        (void)dl_iterate_phdr(search, &s); // what it returns is in s
    }
    return s.found;
}

void *object_symbol_in(const char *begins, const char *name)
{
    struct search s = {.begins = begins, .name = name};
    if (dl_iterate_phdr) {
        (void)dl_iterate_phdr(search, &s); // what it returns is in s
    }
    return s.found;
}

static int is_runtime(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    (void)argument;
    return info->dlpi_name && begins_with_one(text_base(info->dlpi_name), runtimes);
}

bool object_runtime_loaded(void)
{
    return dl_iterate_phdr && dl_iterate_phdr(is_runtime, NULL) != 0;
}
