/* The values of a snapshot: texts, numbers, base64, paths; each is checked. */
#include <string.h>
#include <zstd.h>

#include "snapshot/decoder.h"
#include "snapshot/internal.h"

/*
 * A document may come from anywhere. Bounded here: its size, the number of its values, the bytes
 * that its content unpacks to, the size of a file it speaks of. Everything is checked before it is
 * believed: paths are absolute and without links, ranges lie inside the content and their file.
 */
enum { NAME_BYTES_MAX = 255 };

int snapshot_decoder_bad(struct decoder *d, const char *where, const char *what)
{
    return gm_err_set(d->err, GM_ERR_FORMAT, "%s: %s", str_printable(d->arena, where), what);
}

/* ------------------------------------------------------------------ base64 */

static int digit_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

bool snapshot_base64_bytes(struct arena *a, const char *s, size_t n, struct str *ret)
{
    if (n % 4) {
        return false;
    }
    size_t pad = n && s[n - 1] == '=' ? (s[n - 2] == '=' ? 2 : 1) : 0;
    char *out = arena_alloc(a, n / 4 * 3 + 1);
    size_t at = 0;
    for (size_t i = 0; i < n; i += 4) {
        uint32_t v = 0;
        for (size_t k = 0; k < 4; k++) {
            int digit = i + k >= n - pad ? 0 : digit_of(s[i + k]);
            if (digit < 0) {
                return false;
            }
            v = v << 6 | (uint32_t)digit;
        }
        out[at++] = (char)(v >> 16);
        out[at++] = (char)(v >> 8 & 255);
        out[at++] = (char)(v & 255);
    }
    at -= pad;
    out[at] = '\0';
    *ret = (struct str){out, at};
    return true;
}

/* ------------------------------------------------------------------ values */

bool snapshot_decode_text(struct decoder *d, const json_t *value, const char **ret)
{
    *ret = NULL;
    if (!value || json_is_null(value)) {
        return true;
    }
    const char *s = json_string_value(value);
    size_t n = json_string_length(value);
    if (!s || strlen(s) != n) {
        return false;
    }
    struct str bytes = {s, n};
    if (starts_with(s, SNAPSHOT_BASE64_MARK)) {
        size_t mark = strlen(SNAPSHOT_BASE64_MARK);
        if (!snapshot_base64_bytes(d->arena, s + mark, n - mark, &bytes) ||
            strlen(bytes.s) != bytes.n) {
            return false;
        }
    }
    *ret = arena_strndup(d->arena, bytes.s, bytes.n);
    return true;
}

bool snapshot_texts_of(struct decoder *d, const json_t *list, snapshot_texts *ret)
{
    size_t i;
    const json_t *item;
    if (!json_is_array(list)) {
        return false;
    }
    json_array_foreach((json_t *)(uintptr_t)list, i, item)
    {
        const char *s;
        if (!snapshot_decode_text(d, item, &s) || !s) {
            return false;
        }
        VEC_PUSH(d->arena, ret, s);
    }
    return true;
}

bool snapshot_integer_in(const json_t *o, const char *key, json_int_t min, json_int_t max,
                         json_int_t *ret)
{
    const json_t *value = json_object_get(o, key);
    if (!json_is_integer(value)) {
        return false;
    }
    *ret = json_integer_value(value);
    return *ret >= min && *ret <= max;
}

bool snapshot_rc_of(const json_t *o, const char *key, json_int_t max, int *ret)
{
    json_int_t value;
    if (!json_object_get(o, key)) {
        return true;
    }
    if (!snapshot_integer_in(o, key, -4095, max, &value)) {
        return false;
    }
    *ret = (int)value;
    return true;
}

bool snapshot_is_plain_path(const char *path)
{
    if (path[0] != '/' || strlen(path) >= SNAP_PATH_MAX) {
        return false;
    }
    for (const char *p = path; *p && p[1]; p += strcspn(p + 1, "/") + 1) {
        size_t n = strcspn(p + 1, "/");
        if (n == 0 || n > NAME_BYTES_MAX || (n == 1 && p[1] == '.') ||
            (n == 2 && p[1] == '.' && p[2] == '.')) {
            return false;
        }
        if (p[n + 1] == '/' && !p[n + 2]) {
            return false;
        }
    }
    return true;
}

bool snapshot_node_is_name(const char *name)
{
    return name && *name && strlen(name) <= NAME_BYTES_MAX && !strchr(name, '/') &&
           strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}
