/* Reads CUDA fat binaries (gpu/fatbin.h). */
#include "gpu/fatbin.h"
#include "gpu/internal.h"

#include <elf.h>
#include <string.h>

enum { KINDS_MAX = 32, MEMBERS_MAX = 4096 };
enum { GIVE_BACK_EVERY = 32 /* containers */, STRETCH = 8 << 20 };

enum {
    FLAG_LZ4 = 1 << 13,
    FLAG_ZSTD = 1 << 15,
    FLAG_ARCH = 1 << 20,  // suffix a
    FLAG_FAMILY = 1 << 21 // suffix f; cuobjdump shows it for PTX and leaves it off machine code
};

struct entry {
    unsigned kind, header_size, options, major, minor, arch;
    uint64_t payload_size, flags, inflated_size;
};

static bool fatbin_entry_at(const struct gpu_span *s, uint64_t offset, struct entry *ret)
{
    const unsigned char *p = gpu_bytes(s, offset, FATBIN_ENTRY);
    if (!p) {
        return false;
    }
    *ret = (struct entry){
        .kind = gpu_u16(p),
        .header_size = gpu_u32(p + 4),
        .payload_size = gpu_u64(p + 8),
        .options = gpu_u32(p + 20),
        .minor = gpu_u16(p + 24),
        .major = gpu_u16(p + 26),
        .arch = gpu_u32(p + 28),
        .flags = gpu_u64(p + 40),
        .inflated_size = gpu_u64(p + 56),
    };
    return gpu_u16(p + 2) == FATBIN_ENTRY_VERSION;
}

static char suffix_of(const struct entry *e)
{
    if (e->flags & FLAG_ARCH) {
        return 'a';
    }
    return e->flags & FLAG_FAMILY ? 'f' : 0;
}

static void count_packing(struct gpu_code *code, const struct entry *e)
{
    if (e->flags & FLAG_ZSTD) {
        code->n_zstd++;
    } else if (e->flags & FLAG_LZ4) {
        code->n_lz4++;
    } else if (e->inflated_size) {
        code->n_other_packed++;
    } else {
        code->n_plain++;
    }
}

static void count_kind(struct gpu_builder *b, unsigned kind)
{
    for (size_t i = 0; i < b->kinds.n; i++) {
        if (b->kinds.items[i].kind == kind) {
            b->kinds.items[i].n_entries++;
            return;
        }
    }
    if (b->kinds.n < KINDS_MAX) {
        VEC_PUSH(b->arena, &b->kinds, (struct gpu_kind){kind, 1});
    }
    if (kind != FATBIN_LTO) {
        b->code->incomplete = true;
        gpu_note(b, "container entries of kind %u, which is not known", kind);
    }
}

static void take_code(struct gpu_builder *b, struct gpu_cuda_sets *sets, const struct entry *e)
{
    if (e->kind == FATBIN_PTX) {
        gpu_add_ptx(b, sets, e->arch, suffix_of(e), e->major * 10 + e->minor);
    } else if (e->kind == FATBIN_ELF) {
        gpu_add_native(b, sets, e->arch, suffix_of(e));
    } else {
        count_kind(b, e->kind);
    }
}

/* Bytes that a member of a list takes there, its options included; 0 if they are not inside. */
static uint64_t member_size(const struct gpu_span *s, uint64_t offset, const struct entry *e)
{
    if (!e->options) {
        return FATBIN_ENTRY;
    }
    const unsigned char *p = gpu_bytes(s, offset + FATBIN_ENTRY, 8);
    if (e->options != FATBIN_ENTRY || !p) {
        return 0;
    }
    uint64_t size = FATBIN_ENTRY + 8 + (uint64_t)gpu_u32(p + 4) + 1;
    return (size + FATBIN_ALIGN - 1) / FATBIN_ALIGN * FATBIN_ALIGN;
}

static void read_list(struct gpu_builder *b, struct gpu_cuda_sets *sets, uint64_t offset,
                      const struct entry *list)
{
    struct gpu_span header = {b->file.data, (size_t)(offset + list->header_size)};
    uint64_t at = offset + list->options;
    const unsigned char *p = list->options ? gpu_bytes(&header, at, 8) : NULL;
    uint32_t n = p ? gpu_u32(p) : 0, done = 0;
    at += 8;
    for (struct entry e; done < n && n <= MEMBERS_MAX && fatbin_entry_at(&header, at, &e); done++) {
        uint64_t size = member_size(&header, at, &e);
        if (!size || e.kind == FATBIN_LIST) {
            break;
        }
        take_code(b, sets, &e);
        at += size;
    }
    if (n == 0 || done < n) {
        b->code->incomplete = true;
        gpu_note(b, "list of entries at offset 0x%llx: %u of %u members could be read",
                 (unsigned long long)offset, done, n);
    }
}

static void read_entries(struct gpu_builder *b, struct gpu_cuda_sets *sets, uint64_t at,
                         uint64_t end)
{
    struct gpu_span container = {b->file.data, (size_t)end};
    while (end - at >= FATBIN_ALIGN) { // less is padding
        struct entry e;
        if (!fatbin_entry_at(&container, at, &e) || e.header_size < FATBIN_ENTRY ||
            e.header_size > FATBIN_ENTRY_MAX || e.header_size > end - at ||
            e.payload_size > end - at - e.header_size) {
            b->code->incomplete = true;
            gpu_note(b,
                     "entry at offset 0x%llx: not the header of an entry that fits its container",
                     (unsigned long long)at);
            return;
        }
        count_packing(b->code, &e);
        if (e.kind == FATBIN_LIST) {
            read_list(b, sets, at, &e);
        } else {
            take_code(b, sets, &e);
        }
        at += e.header_size + e.payload_size;
    }
}

/* Everything a container's start must be; bytes found by searching are held to all of it. */
static bool fatbin_looks_whole(const struct gpu_builder *b, uint64_t at, uint64_t to,
                               unsigned header, uint64_t size)
{
    struct entry e;
    return gpu_u16(b->file.data + at + 4) == 1 && header == FATBIN_HEADER &&
           size <= to - at - header && fatbin_entry_at(&b->file, at + header, &e) &&
           e.header_size >= FATBIN_ENTRY && e.header_size <= FATBIN_ENTRY_MAX &&
           e.arch < FATBIN_ARCH_MAX && e.payload_size <= size;
}

/* The container at `at`; returns where it ends, or `at` if there is none. */
static uint64_t read_container(struct gpu_builder *b, struct gpu_cuda_sets *sets, uint64_t at,
                               uint64_t to, bool searching)
{
    const unsigned char *p = b->file.data + at;
    if (to - at < FATBIN_HEADER || gpu_u32(p) != FATBIN_MAGIC) {
        return at;
    }
    unsigned header = gpu_u16(p + 6);
    uint64_t size = gpu_u64(p + 8);
    if (searching && !fatbin_looks_whole(b, at, to, header, size)) {
        return at;
    }
    if (header < FATBIN_HEADER || header > to - at) {
        b->code->incomplete = true;
        gpu_note(b, "container at offset 0x%llx: header of %u bytes", (unsigned long long)at,
                 header);
        return at;
    }
    if (size > to - at - header) {
        b->code->incomplete = true;
        gpu_note(b, "container at offset 0x%llx: larger than what holds it",
                 (unsigned long long)at);
        size = to - at - header;
    }
    read_entries(b, sets, at + header, at + header + size);
    gpu_close_container(b, sets);
    return at + header + size;
}

static bool span_is_zero(const struct gpu_builder *b, uint64_t from, uint64_t to)
{
    while (from < to && b->file.data[from] == 0) {
        from++;
    }
    return from >= to;
}

/* The next place behind `at` where a container's magic stands, or the end of a stretch without. */
static uint64_t next_magic(const struct gpu_builder *b, uint64_t at, uint64_t to)
{
    const unsigned char *data = b->file.data;
    to = to - at > STRETCH ? at + STRETCH : to;
    for (at += FATBIN_ALIGN; at + FATBIN_HEADER <= to; at += FATBIN_ALIGN) {
        if (gpu_u32(data + at) == FATBIN_MAGIC) {
            return at;
        }
    }
    return to;
}

void gpu_fatbin_walk(struct gpu_builder *b, struct gpu_cuda_sets *sets, uint64_t from, uint64_t to,
                     bool searching)
{
    uint64_t at = (from + FATBIN_ALIGN - 1) / FATBIN_ALIGN * FATBIN_ALIGN, skipped = 0;
    for (unsigned n = 1; at < to && to - at >= FATBIN_HEADER; n++) {
        uint64_t end = read_container(b, sets, at, to, searching);
        bool stretch = end == at;
        if (stretch) {
            end = next_magic(b, at, to);
            skipped += searching || span_is_zero(b, at, end) ? 0 : end - at;
        }
        if (n % GIVE_BACK_EVERY == 0 || (stretch && end - at == STRETCH)) {
            gpu_give_back(b);
        }
        at = (end + FATBIN_ALIGN - 1) / FATBIN_ALIGN * FATBIN_ALIGN;
    }
    if (skipped) {
        b->code->incomplete = true;
        gpu_note(b, "section at offset 0x%llx: %llu bytes that belong to no container",
                 (unsigned long long)from, (unsigned long long)skipped);
    }
}

/*
 * A cubin by itself. The processor is in e_flags: in its low byte up to ABI version 7 (CUDA 12,
 * with 0x800 for the suffix a; cuBLAS has cubins for sm_50 with that bit), in the second byte from
 * ABI version 8 on (CUDA 13, where no flag tells the suffix; the note .note.nv.tkinfo repeats the
 * compiler's "-arch sm_100f"). '?' where nothing tells it. llvm/include/llvm/BinaryFormat/ELF.h,
 * EF_CUDA_*; cubins of ptxas 12.4, 12.9 and 13.5.
 */
static char suffix_in_note(const struct gpu_builder *b, unsigned number)
{
    enum { NOTES_NEAR_START = 64 << 10 };
    size_t n = b->file.size < NOTES_NEAR_START ? b->file.size : NOTES_NEAR_START;
    char option[24];
    int length = snprintf(option, sizeof option, "-arch sm_%u", number);
    const unsigned char *p = memmem(b->file.data, n, option, (size_t)length);
    if (!p || p + length == b->file.data + n) {
        return number < 90 ? 0 : '?'; // suffixes came with sm_90
    }
    unsigned char behind = p[length];
    return behind == 'a' || behind == 'f' ? (char)behind : behind == ' ' || !behind ? 0 : '?';
}

void gpu_cubin_read(struct gpu_builder *b)
{
    const unsigned char *p = b->file.data;
    const unsigned char *at = gpu_bytes(&b->file, p[EI_CLASS] == ELFCLASS64 ? 48 : 36, 4);
    if (!at) {
        return;
    }
    uint32_t flags = gpu_u32(at);
    bool new_abi = p[EI_ABIVERSION] >= 8;
    unsigned number = new_abi ? flags >> 8 & 0xff : flags & 0xff;
    char suffix = new_abi ? suffix_in_note(b, number) : number >= 90 && (flags & 0x800) ? 'a' : 0;
    gpu_add_native(b, &b->cuda, number, suffix);
    gpu_close_container(b, &b->cuda);
    b->code->n_plain++;
}
