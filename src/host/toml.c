#include "host/toml.h"

/* The line without a remark: a '#' outside quotes. */
static struct str without_remark(struct str line)
{
    char quote = 0;
    for (size_t i = 0; i < line.n; i++) {
        char c = line.s[i];
        if (quote) {
            quote = c == quote ? 0 : quote;
        } else if (c == '"' || c == '\'') {
            quote = c;
        } else if (c == '#') {
            return (struct str){line.s, i};
        }
    }
    return line;
}

/* Index of the first '=' outside quotes, or n. */
static size_t find_equals(struct str line)
{
    char quote = 0;
    for (size_t i = 0; i < line.n; i++) {
        char c = line.s[i];
        if (quote) {
            quote = c == quote ? 0 : quote;
        } else if (c == '"' || c == '\'') {
            quote = c;
        } else if (c == '=') {
            return i;
        }
    }
    return line.n;
}

/* A key without its quotes and blanks. */
static const char *plain_key(struct arena *a, struct str key)
{
    char *text = arena_alloc(a, key.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < key.n; i++) {
        if (key.s[i] != '"' && key.s[i] != '\'' && key.s[i] != ' ' && key.s[i] != '\t') {
            text[n++] = key.s[i];
        }
    }
    text[n] = '\0';
    return text;
}

static const char *toml_value(struct arena *a, struct str text)
{
    text = str_trim(text);
    char quote = text.n >= 2 ? text.s[0] : 0;
    if ((quote == '"' || quote == '\'') && text.s[text.n - 1] == quote) {
        text = (struct str){text.s + 1, text.n - 2};
    }
    return str_dup(a, text);
}

static struct str header_of(struct str line)
{
    while (line.n && (line.s[0] == '[' || line.s[0] == ' ')) {
        line = (struct str){line.s + 1, line.n - 1};
    }
    while (line.n && (line.s[line.n - 1] == ']' || line.s[line.n - 1] == ' ')) {
        line.n--;
    }
    return line;
}

bool host_toml_next(struct host_toml *t, struct arena *a)
{
    struct str line;
    while (t->lines++ < HOST_TOML_LINES_MAX && str_line(&t->rest, &line)) {
        line = str_trim(without_remark(line));
        size_t at = find_equals(line);
        if (line.n && line.s[0] == '[' && at == line.n) {
            t->section = plain_key(a, header_of(line));
        } else if (at < line.n) {
            const char *key = plain_key(a, (struct str){line.s, at});
            t->key = t->section && *t->section ? arena_printf(a, "%s.%s", t->section, key) : key;
            t->value = toml_value(a, (struct str){line.s + at + 1, line.n - at - 1});
            return true;
        }
    }
    return false;
}
