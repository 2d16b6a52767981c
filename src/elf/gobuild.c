#include "elf/gobuild.h"

#include "base/str.h"

enum { HEADER = 32, FLAGS_AT = 15, IN_PLACE = 2, MARK = 16, TEXT_MAX = 4 << 20 };
static const char magic[] = "\xff Go buildinf:";

/* A length of 7 bits a byte, the lowest first (encoding/binary, Uvarint), of less than 2^28. */
static bool take_length(struct str *from, size_t *ret)
{
    size_t n = 0;
    for (unsigned i = 0; i < 4 && i < from->n; i++) {
        unsigned char byte = (unsigned char)from->s[i];
        n |= (size_t)(byte & 127) << 7 * i;
        if (byte < 128) {
            *ret = n;
            from->s += i + 1;
            from->n -= i + 1;
            return true;
        }
    }
    return false;
}

static bool gobuild_take_text(struct str *from, struct str *ret)
{
    size_t n;
    if (!take_length(from, &n) || n > from->n) {
        return false;
    }
    *ret = (struct str){from->s, n};
    from->s += n;
    from->n -= n;
    return true;
}

struct str elf_go_modules(const struct elf_image *e)
{
    const struct str none = {0};
    uint64_t at, size;
    struct str version, text;
    if (!elf_section(e, ".go.buildinfo", &at, &size) || size < HEADER || size > TEXT_MAX) {
        return none;
    }
    const unsigned char *p = elf_bytes(e, at, size);
    if (!p || memcmp(p, magic, sizeof magic - 1) != 0 || !(p[FLAGS_AT] & IN_PLACE)) {
        return none;
    }
    struct str rest = {(const char *)p + HEADER, (size_t)size - HEADER};
    if (!gobuild_take_text(&rest, &version) || !gobuild_take_text(&rest, &text) ||
        text.n <= 2 * MARK) {
        return none;
    }
    text = (struct str){text.s + MARK, text.n - 2 * MARK};
    return text.s[text.n - 1] == '\n' ? text : none;
}

struct str elf_go_module(struct str modules, const char *path)
{
    struct str line, version = {0};
    bool found = false;
    while (str_line(&modules, &line)) {
        struct str kind = str_cut(&line, '\t'), name = str_cut(&line, '\t');
        bool replaces = str_is(kind, "=>");
        if (found && !replaces) {
            break;
        }
        if (found || ((str_is(kind, "mod") || str_is(kind, "dep")) && str_is(name, path))) {
            found = true;
            version = str_cut(&line, '\t');
        }
    }
    return version;
}
