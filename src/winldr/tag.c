#include "winldr/tag.h"

#include <string.h>

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

bool winldr_tag_next(struct str *text, const char *name, struct str *ret)
{
    size_t at = str_find(*text, name);
    for (size_t comment; (comment = str_find(*text, "<!--")) < at; at = str_find(*text, name)) {
        struct str rest = {text->s + comment, text->n - comment};
        size_t end = str_find(rest, "-->");
        *text = (struct str){rest.s + end, rest.n - end};
    }
    if (at == text->n) {
        return false;
    }
    *text = (struct str){text->s + at + strlen(name), text->n - at - strlen(name)};
    *ret = (struct str){text->s, str_find_char(*text, '>')};
    return true;
}
