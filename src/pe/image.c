#include "pe/image.h"

#include <string.h>

/* The loader's own limit of sections is 96 ("PE Format", NumberOfSections). */
enum { SECTIONS_MAX = 96, DOS_HEADER = 64, FILE_HEADER = 24, SECTION_HEADER = 40, SYMBOL = 18 };
enum { MAGIC_PE32 = 0x10b, MAGIC_PE32_PLUS = 0x20b };

static void say_bad(struct pe_image *e, const char *defect)
{
    e->state = PE_STATE_BAD;
    e->defect = defect;
}

/* How many bytes of a section are mapped and in the file. */
static uint32_t section_room(const struct pe_image *e, const struct pe_section *s)
{
    uint32_t n = s->size_in_memory && s->size_in_memory < s->size_in_file ? s->size_in_memory
                                                                          : s->size_in_file;
    if (s->offset >= e->size) {
        return 0;
    }
    size_t left = e->size - s->offset;
    return n < left ? n : (uint32_t)left;
}

/* The file offset of an RVA, and how many bytes the file holds from there; false: none. */
static bool find_rva(const struct pe_image *e, uint64_t rva, uint64_t *ret_offset, size_t *ret_room)
{
    for (size_t i = 0; i < e->n_sections; i++) {
        const struct pe_section *s = &e->sections[i];
        if (rva - s->rva < s->room) { // of an address before the section it is too large
            *ret_offset = s->offset + (rva - s->rva);
            *ret_room = s->room - (size_t)(rva - s->rva);
            return true;
        }
    }
    uint64_t headers = e->size_of_headers < e->size ? e->size_of_headers : e->size;
    if (rva < headers) {
        *ret_offset = rva;
        *ret_room = (size_t)(headers - rva);
        return true;
    }
    return false;
}

size_t pe_room_at(const struct pe_image *e, uint64_t rva)
{
    uint64_t offset = 0;
    size_t room = 0;
    return find_rva(e, rva, &offset, &room) ? room : 0;
}

const unsigned char *pe_at(const struct pe_image *e, uint64_t rva, uint64_t n)
{
    uint64_t offset = 0;
    size_t room = 0;
    return find_rva(e, rva, &offset, &room) && n <= room ? pe_bytes(e, offset, n) : NULL;
}

const char *pe_text_at(const struct pe_image *e, uint64_t rva)
{
    uint64_t offset = 0;
    size_t room = 0;
    const unsigned char *p =
        find_rva(e, rva, &offset, &room) && room ? pe_bytes(e, offset, room) : NULL;
    return p && memchr(p, 0, room) ? (const char *)p : NULL;
}

const char *pe_machine_name(struct arena *a, uint16_t machine)
{
    switch (machine) {
    case PE_MACHINE_I386: return "x86";
    case PE_MACHINE_ARM: return "ARM";
    case PE_MACHINE_AMD64: return "x64";
    case PE_MACHINE_ARM64: return "ARM64";
    default: return arena_printf(a, "machine 0x%x", machine);
    }
}

static char *name_put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    }
    return to;
}

char *pe_utf8(struct arena *a, const unsigned char *utf16, size_t n_units)
{
    char *text = arena_alloc(a, n_units * 3 + 1), *to = text; // a pair takes four bytes
    for (size_t i = 0; i < n_units; i++) {
        uint32_t c = pe_u16(utf16 + 2 * i);
        uint32_t low = i + 1 < n_units ? pe_u16(utf16 + 2 * (i + 1)) : 0;
        if (c >= 0xd800 && c < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            i++;
        } else if (c >= 0xd800 && c < 0xe000) {
            c = 0xfffd;
        }
        to = name_put_utf8(to, c);
    }
    *to = '\0';
    return text;
}

/* ------------------------------------------------------------------ headers */

/* The name of a section: eight bytes, or "/N", the offset of a longer one in the string table
 * behind the symbols, which linkers of MinGW write. */
static const char *section_name(struct arena *a, const struct pe_image *e, const unsigned char *p,
                                uint64_t strings)
{
    size_t n = strnlen((const char *)p, 8);
    uint64_t at = 0;
    if (n > 1 && p[0] == '/' && strings && str_u64((struct str){(const char *)p + 1, n - 1}, &at)) {
        const unsigned char *text = pe_bytes(e, strings + at, 1);
        size_t room = text ? e->size - (size_t)(strings + at) : 0;
        room = room < 64 ? room : 64; // no section that is asked for has a longer name
        if (text && memchr(text, 0, room)) {
            return arena_strdup(a, (const char *)text);
        }
    }
    return arena_strndup(a, (const char *)p, n);
}

static void read_sections(struct arena *a, struct pe_image *e, uint64_t at, uint16_t n,
                          uint64_t strings)
{
    const unsigned char *p = pe_bytes(e, at, (uint64_t)n * SECTION_HEADER);
    if (n > SECTIONS_MAX || !p) {
        say_bad(e, n > SECTIONS_MAX ? "it has more sections than the loader accepts (96)"
                                    : "the section headers lie behind the end of the file");
        return;
    }
    struct pe_section *sections = arena_array(a, n ? n : 1, sizeof *sections);
    for (uint16_t i = 0; i < n; i++, p += SECTION_HEADER) {
        sections[i] = (struct pe_section){
            .name = section_name(a, e, p, strings),
            .size_in_memory = pe_u32(p + 8),
            .rva = pe_u32(p + 12),
            .size_in_file = pe_u32(p + 16),
            .offset = pe_u32(p + 20),
            .characteristics = pe_u32(p + 36),
        };
        struct pe_section *s = &sections[i];
        s->room = section_room(e, s);
        e->cut |= s->size_in_file && !pe_bytes(e, s->offset, s->size_in_file);
    }
    e->sections = sections;
    e->n_sections = n;
}

/* The optional header: 24 bytes of both classes, then addresses of the class's width, then the
 * directories at 96 (PE32) or 112 (PE32+). */
static void read_optional(struct pe_image *e, uint64_t at, uint16_t size)
{
    const unsigned char *p = pe_bytes(e, at, size);
    if (!p || size < 2) {
        say_bad(e, p ? "it has no optional header"
                     : "the optional header lies behind the end of the file");
        return;
    }
    uint16_t magic = pe_u16(p);
    if (magic != MAGIC_PE32 && magic != MAGIC_PE32_PLUS) {
        say_bad(e, "its optional header is of an unknown kind");
        return;
    }
    e->is64 = magic == MAGIC_PE32_PLUS;
    uint16_t first = e->is64 ? 112 : 96;
    if (size < first) {
        say_bad(e, "the optional header is too short");
        return;
    }
    e->image_base = e->is64 ? pe_u64(p + 24) : pe_u32(p + 28);
    e->size_of_image = pe_u32(p + 56);
    e->size_of_headers = pe_u32(p + 60);
    e->checksum = pe_u32(p + 64);
    e->subsystem = pe_u16(p + 68);
    uint32_t n = pe_u32(p + first - 4), room = (uint32_t)(size - first) / 8;
    n = n < room ? n : room;
    for (uint32_t i = 0; i < n && i < PE_DIR_COUNT; i++) {
        e->directories[i].rva = pe_u32(p + first + 8 * i);
        e->directories[i].size = pe_u32(p + first + 8 * i + 4);
    }
}

void pe_image_parse(struct arena *a, const void *data, size_t size, struct pe_image *ret)
{
    *ret = (struct pe_image){.data = data, .size = size};
    const unsigned char *dos = pe_bytes(ret, 0, DOS_HEADER);
    if (!dos) {
        ret->state = size >= 2 && memcmp(data, "MZ", 2) != 0 ? PE_STATE_NOT_PE : PE_STATE_TOO_SHORT;
        return;
    }
    uint32_t at = pe_u32(dos + 60);
    const unsigned char *signature = pe_bytes(ret, at, 4);
    if (memcmp(dos, "MZ", 2) != 0 || !signature || memcmp(signature, "PE\0\0", 4) != 0) {
        ret->state = PE_STATE_NOT_PE;
        return;
    }
    const unsigned char *p = pe_bytes(ret, at, FILE_HEADER);
    if (!p) {
        say_bad(ret, "the file header lies behind the end of the file");
        return;
    }
    ret->machine = pe_u16(p + 4);
    ret->time_date_stamp = pe_u32(p + 8);
    ret->characteristics = pe_u16(p + 22);
    uint32_t symbols = pe_u32(p + 12);
    uint64_t strings = symbols ? symbols + (uint64_t)pe_u32(p + 16) * SYMBOL : 0;
    uint16_t optional = pe_u16(p + 20);
    read_optional(ret, (uint64_t)at + FILE_HEADER, optional);
    if (ret->state == PE_STATE_OK) {
        read_sections(a, ret, (uint64_t)at + FILE_HEADER + optional, pe_u16(p + 6), strings);
    }
}
