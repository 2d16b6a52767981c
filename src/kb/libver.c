#include "kb/libver.h"

#include <string.h>

#include "gpu/bytes.h"

/* Three numbers at the end of a name, "libcudnn.so.9.1.0"; four for none of the families. */
static bool version_of_name(const char *file_name, struct kb_libver *ret)
{
    const char *tail = strstr(path_base(file_name), ".so.");
    struct str rest = str_of(tail ? tail + 4 : "");
    uint64_t part[3];
    for (size_t i = 0; i < 3; i++) {
        if (!rest.s || !str_u64(str_cut(&rest, '.'), &part[i]) || part[i] > 9999) {
            return false;
        }
    }
    if (rest.s) {
        return false;
    }
    *ret = (struct kb_libver){(unsigned)part[0], (unsigned)part[1], (unsigned)part[2], true,
                              "file name"};
    return true;
}

/* ------------------------------------------------------------------ cuDNN */

struct constant {
    const struct elf_image *e;
    uint32_t value;
    bool found;
};

/* A defined object of 4 bytes: its value is major << 16 | minor << 8 | patch. */
static bool constant_visit(const struct elf_symbol *sym, void *arg)
{
    struct constant *c = arg;
    uint64_t offset;
    if (sym->shndx == SHN_UNDEF || sym->type != STT_OBJECT || sym->size != 4 ||
        !elf_offset_of(c->e, sym->value, &offset)) {
        return false;
    }
    const unsigned char *p = elf_bytes(c->e, offset, 4);
    if (p) {
        c->value = elf_u32(c->e, p);
        c->found = true;
    }
    return c->found;
}

/* Objects that cuDNN 8 and 9 sub-libraries define; wheels 8.9.7 to 9.28.0. */
static bool cudnn_from_symbol(const struct elf_image *e, struct kb_libver *ret)
{
    static const char *const names[] = {"cudnn_graph_version", "cudnn_ops_infer_version",
                                        "cudnn_adv_infer_version", "cudnn_ops_train_version"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct constant c = {.e = e};
        struct elf_lookup_key key = elf_lookup_key(names[i]);
        if (elf_symbol_find(e, &key, constant_visit, &c) && c.value >> 16 >= 8 &&
            c.value >> 16 < 100) {
            *ret = (struct kb_libver){c.value >> 16, (c.value >> 8) & 255, c.value & 255, true,
                                      "symbol cudnn_..._version"};
            return true;
        }
    }
    return false;
}

/*
 * The arguments of snprintf(name, 64, "%s.%d.%d.%d", stem, major, minor, patch), in the order
 * that the compiler liked:
 *
 *     41 b8 MAJOR           mov  r8d, major
 *     41 b9 MINOR           mov  r9d, minor      or   45 31 c9   xor r9d, r9d
 *     6a PATCH              push patch           before another of these, or e8 (call)
 *
 * The window lies around the load of the format's address. False if one is not there.
 */
static bool follows_push(unsigned char byte)
{
    return byte == 0x41 || byte == 0x45 || byte == 0xe8;
}

static bool shim_arguments(const unsigned char *w, size_t n, struct kb_libver *ret)
{
    bool maj = false, min = false, pat = false;
    for (size_t i = 0; i < n; i++) {
        if (i + 6 <= n && w[i] == 0x41 && w[i + 1] == 0xb8 && !maj) {
            ret->maj = gpu_u32(w + i + 2);
            maj = true;
            i += 5;
        } else if (i + 6 <= n && w[i] == 0x41 && w[i + 1] == 0xb9 && !min) {
            ret->min = gpu_u32(w + i + 2);
            min = true;
            i += 5;
        } else if (i + 3 <= n && w[i] == 0x45 && w[i + 1] == 0x31 && w[i + 2] == 0xc9 && !min) {
            ret->min = 0;
            min = true;
            i += 2;
        } else if (i + 3 <= n && w[i] == 0x6a && follows_push(w[i + 2]) && !pat) {
            ret->pat = w[i + 1];
            pat = true;
            i += 1;
        }
    }
    ret->has_pat = true;
    ret->how = "arguments of the name's format";
    return maj && min && pat && ret->maj == 9 && ret->min < 256;
}

enum { SHIM_BEFORE = 48, SHIM_AFTER = 64, SHIM_MAX = 4 << 20 };

/* Looks for "lea rdx, [rip + d]" (48 8d 15 d) to `format` in one executable segment. */
static bool shim_in_segment(const struct elf_image *e, const struct elf_segment *s, uint64_t format,
                            struct kb_libver *ret)
{
    const unsigned char *code = elf_bytes(e, s->offset, s->filesz);
    size_t n = code ? (size_t)s->filesz : 0;
    for (size_t i = 0; i + 7 <= n; i++) {
        if (code[i] != 0x48 || code[i + 1] != 0x8d || code[i + 2] != 0x15) {
            continue;
        }
        uint64_t target = s->vaddr + i + 7 + (uint64_t)(int64_t)(int32_t)gpu_u32(code + i + 3);
        size_t from = i > SHIM_BEFORE ? i - SHIM_BEFORE : 0;
        size_t to = n - i > SHIM_AFTER ? i + SHIM_AFTER : n;
        if (target == format && shim_arguments(code + from, to - from, ret)) {
            return true;
        }
    }
    return false;
}

static bool cudnn_from_shim(const struct elf_image *e, struct kb_libver *ret)
{
    static const char format[] = "%s.%d.%d.%d";
    if (e->machine != EM_X86_64 || e->size > SHIM_MAX) {
        return false;
    }
    struct str file = elf_whole(e);
    const char *at = file.n ? memmem(file.s, file.n, format, sizeof format) : NULL;
    uint64_t offset = at ? (uint64_t)(at - file.s) : 0;
    for (size_t i = 0; at && i < e->n_segments; i++) {
        const struct elf_segment *s = &e->segments[i];
        if (s->type != PT_LOAD || offset < s->offset || offset - s->offset >= s->filesz) {
            continue;
        }
        uint64_t address = s->vaddr + (offset - s->offset);
        for (size_t j = 0; j < e->n_segments; j++) {
            const struct elf_segment *code = &e->segments[j];
            if (code->type == PT_LOAD && (code->flags & PF_X) &&
                shim_in_segment(e, code, address, ret)) {
                return true;
            }
        }
    }
    return false;
}

/* ------------------------------------------------------------------ NVRTC */

/* "12.4" and its NUL behind the prefix. */
static bool nvrtc_number(const unsigned char *p, size_t n, struct kb_libver *ret)
{
    const unsigned char *end = memchr(p, 0, n < 12 ? n : 12);
    struct str rest = {(const char *)p, end ? (size_t)(end - p) : 0};
    uint64_t maj, min;
    if (!end || !str_u64(str_cut(&rest, '.'), &maj) || !rest.s || !str_u64(rest, &min) ||
        maj > 999 || min > 999) {
        return false;
    }
    *ret = (struct kb_libver){(unsigned)maj, (unsigned)min, 0, false, "name of its builtins"};
    return true;
}

static bool nvrtc_from_text(const struct elf_image *e, struct kb_libver *ret)
{
    static const char *const prefixes[] = {"libnvrtc-builtins.so.", "libnvrtc-builtins.alt.so."};
    if (e->soname && starts_with(e->soname, "libnvrtc-builtins")) {
        return false; // megabytes of data, which name no other library
    }
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t length = strlen(prefixes[i]);
        uint64_t at = 0, size = e->size;
        (void)elf_section(e, ".rodata", &at, &size); // else all of the file
        const unsigned char *p = elf_bytes(e, at, size), *end = p ? p + size : NULL;
        while (p && p < end && (p = memmem(p, (size_t)(end - p), prefixes[i], length)) != NULL) {
            p += length;
            if (nvrtc_number(p, (size_t)(end - p), ret)) {
                return true;
            }
        }
    }
    return false;
}

bool kb_library_version(const struct elf_image *e, const char *file_name, enum kb_version_from from,
                        struct kb_libver *ret)
{
    struct kb_libver found = {0};
    bool ok = false;
    if (e->state != ELF_STATE_OK && from != KB_VERSION_FILE_NAME) {
        return false;
    }
    switch (from) {
    case KB_VERSION_CUDNN:
        ok = cudnn_from_symbol(e, &found) || cudnn_from_shim(e, &found) ||
             (file_name && version_of_name(file_name, &found));
        break;
    case KB_VERSION_NVRTC: ok = nvrtc_from_text(e, &found); break;
    case KB_VERSION_FILE_NAME: ok = file_name && version_of_name(file_name, &found); break;
    case KB_VERSION_NONE:
    case KB_VERSION_PACKAGE:
    case KB_VERSION_VERDEF: break;
    }
    if (ok) {
        *ret = found;
    }
    return ok;
}

/* ------------------------------------------------------------------ names with a version in them
 */

const char *kb_fill(struct arena *a, const char *text, const char *key, const char *value)
{
    const char *at = text ? strstr(text, key) : NULL;
    if (!at) {
        return text;
    }
    return value ? arena_printf(a, "%.*s%s%s", (int)(at - text), text, value, at + strlen(key))
                 : NULL;
}

size_t kb_request_names(struct arena *a, const struct kb_request *q, const char *version,
                        const char *dir, const char **ret)
{
    const char *part[3] = {NULL, NULL, NULL};
    struct str rest = str_of(version);
    for (size_t i = 0; i < 3 && rest.s; i++) {
        part[i] = str_dup(a, str_cut(&rest, '.'));
    }
    size_t n = 0;
    for (size_t i = 0; i < q->names.n; i++) {
        const char *name = kb_fill(a, q->names.items[i], "{maj}", part[0]);
        name = kb_fill(a, name, "{min}", part[1]);
        name = kb_fill(a, name, "{pat}", part[2]);
        name = kb_fill(a, name, "{file}", version);
        name = kb_fill(a, name, "{dir}", dir);
        if (name) {
            ret[n++] = name;
        }
    }
    return n;
}
