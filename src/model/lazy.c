#include "model/lazy.h"

#include <string.h>

#include "py/module.h"

enum { SOURCE_BYTES_MAX = 1 << 20 };

/* Steps over the string whose quote is at `at`; ends with the line where it is not a triple one. */
static size_t past_string(struct str s, size_t at)
{
    char quote = s.s[at];
    bool triple = at + 2 < s.n && s.s[at + 1] == quote && s.s[at + 2] == quote;
    size_t width = triple ? 3 : 1, i = at + width;
    for (; i < s.n; i++) {
        if (s.s[i] == '\\') {
            i++;
        } else if (s.s[i] == '\n' && !triple) {
            return i;
        } else if (s.s[i] == quote &&
                   (!triple || (i + 2 < s.n && s.s[i + 1] == quote && s.s[i + 2] == quote))) {
            return i + width;
        }
    }
    return s.n;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f';
}

static bool is_of_word(char c)
{
    return c == '_' || str_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A word, and what follows it behind blanks and ends of lines that are joined. */
static struct str cut_word(struct str *rest)
{
    size_t n = 0;
    while (n < rest->n && is_of_word(rest->s[n])) {
        n++;
    }
    struct str word = {rest->s, n};
    while (n < rest->n) {
        bool joined = rest->s[n] == '\\' && n + 1 < rest->n && rest->s[n + 1] == '\n';
        if (!joined && !is_blank(rest->s[n])) {
            break;
        }
        n += joined ? 2 : 1;
    }
    *rest = (struct str){rest->s + n, rest->n - n};
    return word;
}

/* Whether the statement that begins here is one, or sets the list. */
static bool waits(struct str rest)
{
    struct str word = cut_word(&rest);
    if (str_is(word, "__lazy_modules__")) {
        bool adds = str_starts(rest, "+=");
        return adds || str_starts(rest, ":") || (str_starts(rest, "=") && !str_starts(rest, "=="));
    }
    bool lazy = str_is(word, "lazy");
    word = cut_word(&rest);
    return lazy && (str_is(word, "import") || str_is(word, "from"));
}

size_t model_lazy_line(struct str source, struct str *ret_line)
{
    size_t number = 1;
    bool fresh = true; // a statement may begin here
    for (size_t i = 0; i < source.n;) {
        char c = source.s[i];
        struct str rest = {source.s + i, source.n - i}, line = {0};
        bool ends = c == '\n' || c == ';' || c == ':';
        if (fresh && !ends && !is_blank(c)) {
            fresh = false;
            if (waits(rest) && str_line(&rest, &line)) {
                *ret_line = str_trim(line);
                return number;
            }
        }
        size_t next = i + 1;
        if (c == '\'' || c == '"') {
            next = past_string(source, i);
        } else if (c == '#') {
            while (next < source.n && source.s[next] != '\n') {
                next++;
            }
        }
        fresh = fresh || ends;
        for (; i < next && i < source.n; i++) {
            number += source.s[i] == '\n';
        }
    }
    return 0;
}

const char *model_lazy_import(struct model *m, const char *module)
{
    const struct py_env *env = m->env;
    struct py_module found;
    struct str text, line = {0};
    if (!env || env->major != 3 || env->minor < 15) {
        return NULL;
    }
    py_module_find(m->env, module, &found);
    if ((found.kind != PY_MODULE_PACKAGE && found.kind != PY_MODULE_SOURCE) ||
        !ends_with(found.file, ".py") ||
        root_read(m->root, m->arena, found.file, SOURCE_BYTES_MAX, &text) < 0) {
        return NULL;
    }
    size_t number = model_lazy_line(text, &line);
    const char *top = found.entry && found.entry->dir ? found.entry->dir : "";
    const char *name = starts_with(found.file, top) ? found.file + strlen(top) : found.file;
    return number ? arena_printf(m->arena, "%s, line %zu: " STR_FMT, name + strspn(name, "/"),
                                 number, STR_ARG(line))
                  : NULL;
}
