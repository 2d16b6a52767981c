#include "winldr/tag.h"

#include <string.h>

#include "pe/image.h"

enum { TAGS_MAX = 16 }; // within one another

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
    if (!text.n) {
        return false;
    }
    for (uint64_t number; text.s && n < 5; n++) {
        if (!str_u64(str_cut(&text, '.'), &number) || number > UINT16_MAX) {
            return false;
        }
    }
    return n <= 4;
}

/* Whether what follows a tag's name is attributes alone: NAME="VALUE", with blanks around the "=".
 */
static bool is_attributes(struct str rest)
{
    for (;;) {
        struct str text = str_trim(rest);
        if (!text.n || str_is(text, "/")) {
            return true;
        }
        size_t equals = str_find_char(text, '=');
        struct str name = str_trim((struct str){text.s, equals});
        struct str value = {text.s + equals, text.n - equals};
        value = value.n ? str_trim((struct str){value.s + 1, value.n - 1}) : value;
        if (!name.n || !value.n || !strchr("\"'", value.s[0])) {
            return false;
        }
        for (size_t i = 0; i < name.n; i++) {
            if (!is_name_char(name.s[i]) && name.s[i] != ':') {
                return false;
            }
        }
        struct str inside = {value.s + 1, value.n - 1};
        size_t end = str_find_char(inside, value.s[0]);
        if (end == inside.n) {
            return false;
        }
        rest = (struct str){inside.s + end + 1, inside.n - end - 1};
    }
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
    if (is_identity && !is_version(version)) {
        return "a version that is none";
    }
    bool names = is_identity || str_is(name, "file");
    if (str_is(name, "file") && winldr_tag_value(tag, "loadFrom").n) {
        return "a file with loadFrom";
    }
    return names && str_find_char(tag, '&') < tag.n ? "an entity in a name" : NULL;
}

/* What is left behind a comment; `rest` begins with "!--". */
static struct str behind_comment(struct str rest)
{
    struct str inside = {rest.s + 3, rest.n - 3};
    size_t end = str_find(inside, "-->");
    return (struct str){inside.s + end, inside.n - end};
}

struct nesting {
    struct str open[TAGS_MAX];
    size_t depth;
    bool any; // a root was seen
};

/* A tag that opens; `tag` is all of it. Why it is doubtful, or NULL. */
static const char *open_tag(struct nesting *x, struct str tag)
{
    struct str rest = tag, name = cut_name(&rest);
    bool has_prefix = name.s != tag.s;
    const char *doubt = doubt_of_tag(name, tag);
    if (doubt) {
        return doubt;
    }
    if (!x->depth && has_prefix && str_find(tag, "xmlns:") == tag.n) {
        return "a prefix that is not declared";
    }
    if (!x->depth && (x->any || !str_is(name, "assembly"))) {
        return "another root than one <assembly>";
    }
    if (!is_attributes(rest)) {
        return "an attribute without quotes";
    }
    x->any = true;
    if (tag.n && tag.s[tag.n - 1] == '/') {
        return NULL;
    }
    if (x->depth == TAGS_MAX) {
        return "more tags within one another than are looked at";
    }
    x->open[x->depth++] = (struct str){tag.s, (size_t)(rest.s - tag.s)};
    return NULL;
}

static const char *close_tag(struct nesting *x, struct str tag)
{
    struct str name = str_trim((struct str){tag.s + 1, tag.n - 1});
    return x->depth && str_eq(name, x->open[--x->depth]) ? NULL : "a tag that is not closed";
}

const char *winldr_tag_doubt(struct str text)
{
    struct nesting x = {.depth = 0};
    const char *doubt = NULL;
    for (size_t at; !doubt && (at = str_find_char(text, '<')) < text.n;) {
        struct str rest = {text.s + at + 1, text.n - at - 1};
        if (str_starts(rest, "!--")) {
            text = behind_comment(rest);
            continue;
        }
        struct str tag = {rest.s, str_find_char(rest, '>')};
        text = (struct str){rest.s + tag.n, rest.n - tag.n};
        if (str_starts(rest, "?xml ")) {
            continue;
        }
        doubt = str_starts(rest, "?") || str_starts(rest, "!")
                    ? "a processing instruction, a DOCTYPE or a CDATA section"
                : !text.n               ? "a tag that is not closed"
                : str_starts(rest, "/") ? close_tag(&x, tag)
                                        : open_tag(&x, tag);
    }
    return doubt ? doubt : x.depth ? "a tag that is not closed" : NULL;
}

bool winldr_tag_next(struct str *text, const char *name, struct str *ret)
{
    for (size_t at; (at = str_find_char(*text, '<')) < text->n;) {
        struct str rest = {text->s + at + 1, text->n - at - 1};
        if (str_starts(rest, "!--")) {
            *text = behind_comment(rest);
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
