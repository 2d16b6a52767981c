#include "winldr/tag.h"

#include <string.h>

#include "pe/image.h"

struct str winldr_tag_value(struct str tag, const char *name)
{
    for (size_t at; (at = str_find(tag, name)) < tag.n;) {
        bool begins = at > 0 && strchr(" \t\r\n", tag.s[at - 1]);
        struct str rest = {tag.s + at + strlen(name), tag.n - at - strlen(name)};
        struct str value = str_trim(rest);
        tag = rest;
        if (!begins || !value.n || value.s[0] != '=') {
            continue;
        }
        value = str_trim((struct str){value.s + 1, value.n - 1});
        if (value.n && (value.s[0] == '"' || value.s[0] == '\'')) {
            struct str inside = {value.s + 1, value.n - 1};
            size_t end = str_find_char(inside, value.s[0]);
            return end < inside.n ? (struct str){inside.s, end} : (struct str){"", 0};
        }
    }
    return (struct str){"", 0};
}

struct str winldr_tag_text(struct arena *a, struct str bytes)
{
    if (bytes.n < 2) {
        return bytes;
    }
    const unsigned char *p = (const unsigned char *)bytes.s;
    bool big = p[0] == 0xfe && p[1] == 0xff;
    if (!big && !(p[0] == 0xff && p[1] == 0xfe)) {
        return bytes;
    }
    unsigned char *units = arena_alloc(a, bytes.n);
    for (size_t i = 0; i + 1 < bytes.n; i += 2) {
        units[i] = p[i + big];
        units[i + 1] = p[i + !big];
    }
    return str_of(pe_utf8(a, units, bytes.n / 2));
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || str_is_digit(c) || c == '_' ||
           c == '-' || c == '.';
}

/* Cuts the name behind a "<" off; without its prefix. */
static struct str cut_name(struct str *rest)
{
    size_t from = 0, n = 0;
    while (n < rest->n && (is_name_char(rest->s[n]) || (rest->s[n] == ':' && !from))) {
        from = rest->s[n] == ':' ? n + 1 : from;
        n++;
    }
    struct str name = {rest->s + from, n - from};
    *rest = (struct str){rest->s + n, rest->n - n};
    return name;
}

/* "1.0.0.0"; with fewer numbers Wine 8.0 takes it. */
static bool is_version(struct str text)
{
    size_t n = 0;
    for (uint64_t number; text.s && n < 5; n++) {
        if (!str_u64(str_cut(&text, '.'), &number) || number > UINT16_MAX) {
            return false;
        }
    }
    return n <= 4;
}

static const char *doubt_of_tag(struct str name, struct str tag)
{
    static const char space[] = "urn:schemas-microsoft-com:asm.v";
    bool is_identity = str_is(name, "assemblyIdentity");
    struct str version = is_identity ? winldr_tag_value(tag, "version") : (struct str){"", 0};
    if (str_is(name, "assembly") && (!str_is(winldr_tag_value(tag, "manifestVersion"), "1.0") ||
                                     str_find(tag, space) == tag.n)) {
        return "an <assembly> without manifestVersion 1.0 or its namespace";
    }
    if (version.n && !is_version(version)) {
        return "a version that is none";
    }
    bool names = is_identity || str_is(name, "file");
    return names && str_find_char(tag, '&') < tag.n ? "an entity in a name" : NULL;
}

const char *winldr_tag_doubt(struct str text)
{
    const char *doubt = NULL;
    size_t depth = 0;
    for (size_t at; !doubt && (at = str_find_char(text, '<')) < text.n;) {
        struct str rest = {text.s + at + 1, text.n - at - 1};
        struct str tag = {rest.s, str_find_char(rest, '>')};
        bool is_comment = str_starts(rest, "!--"), closes = str_starts(rest, "/");
        size_t end = is_comment ? str_find(rest, "-->") : tag.n;
        text = (struct str){rest.s + end, rest.n - end};
        if (is_comment || str_starts(rest, "?xml ")) {
            continue;
        }
        if (str_starts(rest, "?") || str_starts(rest, "!")) {
            return "a processing instruction, a DOCTYPE or a CDATA section";
        }
        if (!text.n || (closes && !depth)) {
            return "a tag that is not closed";
        }
        depth += closes ? (size_t)-1 : !(tag.n && tag.s[tag.n - 1] == '/');
        doubt = closes ? NULL : doubt_of_tag(cut_name(&rest), tag);
    }
    return doubt ? doubt : depth ? "a tag that is not closed" : NULL;
}

bool winldr_tag_next(struct str *text, const char *name, struct str *ret)
{
    for (size_t at; (at = str_find_char(*text, '<')) < text->n;) {
        struct str rest = {text->s + at + 1, text->n - at - 1};
        if (str_starts(rest, "!--")) {
            size_t end = str_find(rest, "-->");
            *text = (struct str){rest.s + end, rest.n - end};
            continue;
        }
        bool found = str_is(cut_name(&rest), name);
        *text = rest;
        if (found) {
            *ret = (struct str){rest.s, str_find_char(rest, '>')};
            return true;
        }
    }
    return false;
}
