#include "winldr/path.h"

#include <string.h>

#include "winldr/upcase.h"

static bool is_separator(char c)
{
    return c == '\\' || c == '/';
}

/* "\\\\.\\" and "\\\\?\\" with any separators; "\\\\?" in this form alone is taken as it stands. */
static enum winldr_path_kind kind_of_double(const char *path)
{
    if ((path[2] != '.' && path[2] != '?') || !is_separator(path[3])) {
        return WINLDR_PATH_UNC;
    }
    return strncmp(path, "\\\\?\\", 4) == 0 ? WINLDR_PATH_VERBATIM : WINLDR_PATH_DEVICE;
}

enum winldr_path_kind winldr_path_kind(const char *path)
{
    if (is_separator(path[0])) {
        return is_separator(path[1])             ? kind_of_double(path)
               : strncmp(path, "\\??\\", 4) == 0 ? WINLDR_PATH_VERBATIM
                                                 : WINLDR_PATH_ROOTED;
    }
    if (!str_is_letter(path[0]) || path[1] != ':') {
        return WINLDR_PATH_RELATIVE;
    }
    return is_separator(path[2]) ? WINLDR_PATH_DRIVE : WINLDR_PATH_OF_DRIVE;
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

/* Appends the parts of a path to out[at], which begins with a drive; returns the new end. One dot
 * at the end of a part in the middle is dropped, and all dots and blanks at the end of the path. */
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
        bool is_last = !*path;
        while (part.n && (part.s[part.n - 1] == '.' || (is_last && part.s[part.n - 1] == ' '))) {
            part.n--;
            if (!is_last) {
                break;
            }
        }
        if (part.n) {
            out[at++] = '\\';
            memcpy(out + at, part.s, part.n);
            at += part.n;
        }
    }
    return at;
}

/* A path behind "\\\\?\\" or the like, of a drive; NULL: of something else. */
static char *full_of_device(struct arena *a, const char *rest, bool is_verbatim)
{
    if (winldr_path_kind(rest) != WINLDR_PATH_DRIVE || (is_verbatim && rest[2] != '\\')) {
        return NULL;
    }
    return is_verbatim ? arena_strdup(a, rest) : winldr_path_full(a, rest, rest);
}

char *winldr_path_full(struct arena *a, const char *cwd, const char *path)
{
    enum winldr_path_kind kind = winldr_path_kind(path);
    bool is_verbatim = kind == WINLDR_PATH_VERBATIM;
    if (is_verbatim || kind == WINLDR_PATH_DEVICE) {
        char *full = full_of_device(a, path + 4, is_verbatim);
        return full ? full : arena_strdup(a, path);
    }
    bool is_here = kind == WINLDR_PATH_OF_DRIVE && (path[0] | 0x20) == (cwd[0] | 0x20);
    if (kind == WINLDR_PATH_UNC || (kind == WINLDR_PATH_OF_DRIVE && !is_here)) {
        return arena_strdup(a, path);
    }
    const char *rest = kind == WINLDR_PATH_DRIVE || is_here ? path + 2 : path;
    char *out = arena_alloc(a, strlen(cwd) + strlen(path) + 4);
    out[0] = kind == WINLDR_PATH_DRIVE ? path[0] : cwd[0];
    out[1] = ':';
    size_t at = kind == WINLDR_PATH_RELATIVE || is_here ? append_parts(out, 2, cwd + 2) : 2;
    at = append_parts(out, at, rest);
    if (at == 2) {
        out[at++] = '\\';
    }
    out[at] = '\0';
    return out;
}

bool winldr_path_is_device(const char *path)
{
    static const char *const names[] = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"};
    const char *base = winldr_path_base(path);
    base += winldr_path_kind(base) == WINLDR_PATH_OF_DRIVE ? 2 : 0;
    struct str stem = {base, strcspn(base, ".:")};
    while (stem.n && stem.s[stem.n - 1] == ' ') {
        stem.n--;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (winldr_name_part_is(stem, str_of(names[i]))) {
            return true;
        }
    }
    bool is_port = stem.n == 4 && stem.s[3] >= '1' && stem.s[3] <= '9';
    struct str kind = {stem.s, 3};
    return is_port &&
           (winldr_name_part_is(kind, str_of("COM")) || winldr_name_part_is(kind, str_of("LPT")));
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
    return c >= 'a' && c <= 'z' ? c - 0x20 : c < 0x80 ? c : winldr_upcase(c);
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

uint64_t winldr_name_hash(struct str name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); // FNV-1a, by code points
    while (name.n) {
        size_t n = 1;
        uint32_t c = str_code_point(name.s, name.n, &n);
        hash ^= c == UINT32_MAX ? UINT32_C(0x110000) + (unsigned char)*name.s : folded(c);
        hash *= UINT64_C(0x100000001b3);
        name = (struct str){name.s + n, name.n - n};
    }
    return hash;
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
