#include "model/hook.h"

#include <string.h>

enum { HOOK_BYTES_MAX = 1 << 20, HOOK_ITEMS_MAX = 1024 };

typedef VEC(const char *) texts;

/* The literal at the start of `rest`, "text" or b"text" with escapes \xNN, taken off; NULL if there
 * is none. */
static const char *take_literal(struct arena *a, struct str *rest)
{
    size_t i = str_starts(*rest, "b") ? 1 : 0, n = 0;
    if (i >= rest->n || rest->s[i] != '"') {
        return NULL;
    }
    char *out = arena_alloc(a, rest->n + 1);
    for (i++; i < rest->n && rest->s[i] != '"'; i++) {
        int value = (unsigned char)rest->s[i];
        if (value == '\\') {
            bool whole = rest->n - i > 3 && rest->s[i + 1] == 'x' &&
                         str_hex_digit_small(rest->s[i + 2]) >= 0 &&
                         str_hex_digit_small(rest->s[i + 3]) >= 0;
            if (!whole) {
                return NULL;
            }
            value = str_hex_digit_small(rest->s[i + 2]) * 16 + str_hex_digit_small(rest->s[i + 3]);
            i += 3;
        }
        if (value == '\0') {
            return NULL;
        }
        out[n++] = (char)value;
    }
    if (i == rest->n) {
        return NULL;
    }
    *rest = (struct str){rest->s + i + 1, rest->n - i - 1};
    return out;
}

/* The items of `NAME = ("a", b"b", )`; false if the text has no such line, or another form. */
static bool read_tuple(struct arena *a, struct str text, const char *start, texts *ret)
{
    size_t at = str_find(text, start);
    if (at == text.n) {
        return false;
    }
    at += strlen(start);
    struct str rest = {text.s + at, text.n - at};
    while (ret->n < HOOK_ITEMS_MAX) {
        size_t blank = 0;
        while (blank < rest.n && strchr(" ,\n", rest.s[blank])) {
            blank++;
        }
        rest = (struct str){rest.s + blank, rest.n - blank};
        if (str_starts(rest, ")")) {
            return true;
        }
        const char *item = take_literal(a, &rest);
        if (!item) {
            return false;
        }
        VEC_PUSH(a, ret, item);
    }
    return false;
}

static bool hook_has(struct root *root, struct arena *a, const char *site, const char *name)
{
    struct stat st;
    return root_lstat(root, path_join(a, site, name), &st) == 0;
}

bool model_hook_stands(struct root *root, struct arena *a, const char *site)
{
    return hook_has(root, a, site, MODEL_HOOK_MODULE) &&
           (hook_has(root, a, site, MODEL_HOOK_PTH) || hook_has(root, a, site, MODEL_HOOK_START));
}

bool model_hook_read(struct root *root, struct arena *a, const char *site, int minor,
                     struct model_hook *ret)
{
    struct str text;
    const char *file = path_join(a, site, MODEL_HOOK_MODULE);
    bool runs = (minor < 18 && hook_has(root, a, site, MODEL_HOOK_PTH)) ||
                (minor >= 15 && hook_has(root, a, site, MODEL_HOOK_START));
    if (!runs || !hook_has(root, a, site, MODEL_HOOK_MODULE)) {
        return false;
    }
    *ret = (struct model_hook){.file = file};
    texts modules = {0}, libraries = {0};
    if (root_read(root, a, file, HOOK_BYTES_MAX, &text) < 0 ||
        !read_tuple(a, text, "\nMODULES = (", &modules) ||
        !read_tuple(a, text, "\nLIBRARIES = (", &libraries)) {
        return true;
    }
    for (size_t i = 0; i < libraries.n; i++) {
        const char *path = libraries.items[i];
        libraries.items[i] = path_normal(a, path[0] == '/' ? path : path_join(a, site, path));
    }
    ret->modules = modules.items;
    ret->n_modules = modules.n;
    ret->libraries = libraries.items;
    ret->n_libraries = libraries.n;
    return true;
}

bool model_hook_is_off(const char *value)
{
    return value && strcmp(value, "0") == 0;
}
