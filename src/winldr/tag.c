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
