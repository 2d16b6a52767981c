#include "winldr/path.h"

#include <string.h>

static bool is_separator(char c)
{
    return c == '\\' || c == '/';
}

enum winldr_path_kind winldr_path_kind(const char *path)
{
    if (is_separator(path[0])) {
        return is_separator(path[1]) ? WINLDR_PATH_OTHER : WINLDR_PATH_ROOTED;
    }
    bool drive = str_is_letter(path[0]) && path[1] == ':' && is_separator(path[2]);
    return drive ? WINLDR_PATH_DRIVE : WINLDR_PATH_RELATIVE;
}

bool winldr_path_has_folder(const char *name)
{
    return strpbrk(name, "/\\") != NULL;
}

/* Cuts the next part off the front. */
static struct str next_part(const char **rest)
{
    const char *s = *rest;
    while (is_separator(*s)) {
        s++;
    }
    size_t n = strcspn(s, "/\\");
    *rest = s + n;
    return (struct str){s, n};
}

/* Appends the parts of a path to out[at], which begins with a drive; returns the new end. */
static size_t append_parts(char *out, size_t at, const char *path)
{
    for (struct str part; (part = next_part(&path)).n;) {
        if (str_is(part, "..")) {
            while (at > 2 && out[at - 1] != '\\') {
                at--;
            }
            at = at > 2 ? at - 1 : at;
            continue;
        }
        while (part.n && (part.s[part.n - 1] == '.' || part.s[part.n - 1] == ' ')) {
            part.n--;
        }
        if (part.n) {
            out[at++] = '\\';
            memcpy(out + at, part.s, part.n);
            at += part.n;
        }
    }
    return at;
}

char *winldr_path_full(struct arena *a, const char *cwd, const char *path)
{
    enum winldr_path_kind kind = winldr_path_kind(path);
    if (kind == WINLDR_PATH_OTHER) {
        return arena_strdup(a, path);
    }
    const char *drive = kind == WINLDR_PATH_DRIVE ? path : cwd;
    char *out = arena_alloc(a, strlen(cwd) + strlen(path) + 4);
    out[0] = drive[0];
    out[1] = ':';
    size_t at = kind == WINLDR_PATH_RELATIVE ? append_parts(out, 2, cwd + 2) : 2;
    at = append_parts(out, at, kind == WINLDR_PATH_DRIVE ? path + 2 : path);
    if (at == 2) {
        out[at++] = '\\';
    }
    out[at] = '\0';
    return out;
}

const char *winldr_path_base(const char *path)
{
    const char *base = path;
    for (const char *s = path; *s; s++) {
        base = is_separator(*s) ? s + 1 : base;
    }
    return base;
}

char *winldr_path_folder(struct arena *a, const char *path)
{
    size_t n = (size_t)(winldr_path_base(path) - path);
    while (n > 3 && is_separator(path[n - 1])) {
        n--;
    }
    return arena_strndup(a, path, n);
}

char *winldr_path_join(struct arena *a, const char *folder, const char *name)
{
    size_t n = strlen(folder);
    return str_concat(a, folder, n && is_separator(folder[n - 1]) ? "" : "\\", name);
}

/* ------------------------------------------------------------------ case */

static uint32_t folded(uint32_t c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 0xe0 && c <= 0xfe && c != 0xf7) ||
        (c >= 0x3b1 && c <= 0x3c9 && c != 0x3c2) || (c >= 0x430 && c <= 0x44f)) {
        return c - 0x20;
    }
    if (c >= 0x450 && c <= 0x45f) {
        return c - 0x50;
    }
    bool even_first =
        (c >= 0x100 && c <= 0x137 && c != 0x130 && c != 0x131) || (c >= 0x14a && c <= 0x177);
    bool odd_first = (c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e);
    return even_first ? c & ~1u : odd_first ? (c - 1) | 1u : c;
}

bool winldr_name_part_is(struct str x, struct str y)
{
    while (x.n && y.n) {
        size_t nx = 1, ny = 1;
        uint32_t cx = str_code_point(x.s, x.n, &nx), cy = str_code_point(y.s, y.n, &ny);
        if (cx == UINT32_MAX || cy == UINT32_MAX ? *x.s != *y.s : folded(cx) != folded(cy)) {
            return false;
        }
        x = (struct str){x.s + nx, x.n - nx};
        y = (struct str){y.s + ny, y.n - ny};
    }
    return x.n == y.n;
}

bool winldr_name_is(const char *x, const char *y)
{
    return winldr_name_part_is(str_of(x), str_of(y));
}

bool winldr_name_in(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (winldr_name_is(name, list[i])) {
            return true;
        }
    }
    return false;
}

bool winldr_path_is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strlen(path) > n && path[n] == '\\' &&
           winldr_name_part_is((struct str){path, n}, str_of(folder));
}
