#include "base/str.h"

#include <string.h>

struct str str_of(const char *s)
{
    return (struct str){s, s ? strlen(s) : 0};
}

bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.s, b.s, a.n) == 0);
}

bool str_eq_nocase(struct str a, struct str b)
{
    if (a.n != b.n) {
        return false;
    }
    for (size_t i = 0; i < a.n; i++) {
        if (str_lower(a.s[i]) != str_lower(b.s[i])) {
            return false;
        }
    }
    return true;
}

bool str_is(struct str a, const char *b)
{
    return str_eq(a, str_of(b));
}

int str_cmp(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.s, b.s, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

bool str_starts(struct str s, const char *prefix)
{
    size_t n = strlen(prefix);
    return s.n >= n && memcmp(s.s, prefix, n) == 0;
}

bool str_ends(struct str s, const char *suffix)
{
    size_t n = strlen(suffix);
    return s.n >= n && memcmp(s.s + s.n - n, suffix, n) == 0;
}

static bool str_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v';
}

struct str str_trim(struct str s)
{
    while (s.n && str_is_blank(s.s[0])) {
        s.s++, s.n--;
    }
    while (s.n && str_is_blank(s.s[s.n - 1])) {
        s.n--;
    }
    return s;
}

char *str_dup(struct arena *a, struct str s)
{
    return arena_strndup(a, s.s, s.n);
}

size_t str_find_char(struct str s, char c)
{
    const char *p = s.n ? memchr(s.s, c, s.n) : NULL;
    return p ? (size_t)(p - s.s) : s.n;
}

size_t str_find(struct str s, const char *needle)
{
    size_t n = strlen(needle);
    if (n == 0 || n > 3) {
        const char *p = s.n && n ? memmem(s.s, s.n, needle, n) : NULL;
        return p ? (size_t)(p - s.s) : s.n;
    }
    /* glibc's memmem() goes byte by byte for these; names of libraries are searched for ".so" a
     * hundred thousand times. */
    for (size_t at = 0; s.n - at >= n; at++) {
        const char *p = memchr(s.s + at, needle[0], s.n - at - n + 1);
        if (!p) {
            break;
        }
        at = (size_t)(p - s.s);
        if (memcmp(p, needle, n) == 0) {
            return at;
        }
    }
    return s.n;
}

struct str str_cut(struct str *s, char sep)
{
    size_t at = str_find_char(*s, sep);
    struct str head = {s->s, at};
    *s = at < s->n ? (struct str){s->s + at + 1, s->n - at - 1} : (struct str){NULL, 0};
    return head;
}

bool str_line(struct str *rest, struct str *ret_line)
{
    if (!rest->s || rest->n == 0) {
        return false;
    }
    struct str line = str_cut(rest, '\n');
    if (line.n && line.s[line.n - 1] == '\r') {
        line.n--;
    }
    *ret_line = line;
    return true;
}

bool str_u64(struct str s, uint64_t *ret)
{
    uint64_t v = 0;
    if (s.n == 0) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (s.s[i] < '0' || s.s[i] > '9') {
            return false;
        }
        uint64_t digit = (uint64_t)(s.s[i] - '0');
        if (v > (UINT64_MAX - digit) / 10) {
            return false;
        }
        v = v * 10 + digit;
    }
    *ret = v;
    return true;
}

/* Matches one "[...]" at *p against c and moves *p behind it; without a closing bracket the '['
 * is an ordinary character. */
static bool glob_class(const char **p, char c)
{
    const char *q = *p + 1;
    bool negate = *q == '!' || *q == '^';
    bool hit = false;
    q += negate;
    const char *first = q;
    while (*q && (*q != ']' || q == first)) {
        if (q[1] == '-' && q[2] && q[2] != ']') {
            hit |=
                (unsigned char)q[0] <= (unsigned char)c && (unsigned char)c <= (unsigned char)q[2];
            q += 3;
        } else {
            hit |= *q == c;
            q++;
        }
    }
    if (*q != ']') {
        (*p)++;
        return c == '[';
    }
    *p = q + 1;
    return hit != negate;
}

bool str_glob(const char *pattern, const char *text)
{
    const char *star = NULL, *resume = NULL;
    const char *p = pattern, *t = text;
    while (*t) {
        if (*p == '*') {
            star = ++p;
            resume = t;
            continue;
        }
        const char *next = p;
        bool hit = false;
        if (*p == '[') {
            hit = glob_class(&next, *t);
        } else if (*p) {
            hit = *p == '?' || *p == *t;
            next = p + 1;
        }
        if (hit) {
            p = next, t++;
        } else if (star) {
            p = star, t = ++resume;
        } else {
            return false;
        }
    }
    while (*p == '*') {
        p++;
    }
    return *p == '\0';
}

bool ends_with(const char *s, const char *suffix)
{
    return str_ends(str_of(s), suffix);
}

const char *path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *path_dir(struct arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) {
        return arena_strdup(a, ".");
    }
    return arena_strndup(a, path, slash == path ? 1 : (size_t)(slash - path));
}

char *path_join(struct arena *a, const char *dir, const char *name)
{
    size_t n = strlen(dir);
    if (n == 0) {
        return arena_strdup(a, name);
    }
    return str_concat(a, dir, dir[n - 1] == '/' ? "" : "/", name);
}

char *str_concat(struct arena *a, const char *x, const char *y, const char *z)
{
    size_t n = strlen(x), m = strlen(y), k = strlen(z);
    char *out = arena_alloc(a, n + m + k + 1);
    memcpy(out, x, n);
    memcpy(out + n, y, m);
    memcpy(out + n + m, z, k);
    return out;
}

char *path_normal(struct arena *a, const char *path)
{
    bool absolute = path[0] == '/';
    char *out = arena_alloc(a, strlen(path) + 2);
    size_t n = 0;
    struct str rest = str_of(path);
    while (rest.s) {
        struct str part = str_cut(&rest, '/');
        if (part.n == 0 || str_is(part, ".")) {
            continue;
        }
        if (str_is(part, "..")) {
            size_t cut = n;
            while (cut && out[cut - 1] != '/') {
                cut--;
            }
            bool parent_is_up = n - cut == 2 && memcmp(out + cut, "..", 2) == 0;
            if (n && !parent_is_up) {
                n = cut ? cut - 1 : 0;
                continue;
            }
            if (absolute) {
                continue;
            }
        }
        if (n || absolute) {
            out[n++] = '/';
        }
        memcpy(out + n, part.s, part.n);
        n += part.n;
    }
    if (n == 0) {
        out[n++] = absolute ? '/' : '.';
    }
    out[n] = '\0';
    return out;
}

/* Length of the UTF-8 sequence at s (n bytes left), or 0 if there is none. */
static size_t utf8_len(const unsigned char *s, size_t n)
{
    if (s[0] < 0x80) {
        return 1;
    }
    size_t len = s[0] >= 0xc2 && s[0] <= 0xdf   ? 2
                 : (s[0] & 0xf0) == 0xe0        ? 3
                 : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                : 0;
    if (len == 0 || len > n) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)) {
        return 0;
    }
    return len;
}

/* Bytes of ASCII at the beginning, eight at a time. */
static size_t ascii_prefix(const char *s, size_t n)
{
    size_t i = 0;
    for (uint64_t eight; i + sizeof eight <= n; i += sizeof eight) {
        memcpy(&eight, s + i, sizeof eight);
        if (eight & 0x8080808080808080u) {
            break;
        }
    }
    return i;
}

bool str_is_utf8(const char *s, size_t n)
{
    for (size_t i = ascii_prefix(s, n); i < n;) {
        size_t len = utf8_len((const unsigned char *)s + i, n - i);
        if (len == 0) {
            return false;
        }
        i += len;
    }
    return true;
}

uint32_t str_code_point(const char *text, size_t n, size_t *ret_len)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t len = utf8_len(s, n);
    uint32_t code = len <= 1 ? s[0] : s[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        code = code << 6 | (s[i] & 0x3f);
    }
    *ret_len = len ? len : 1;
    return len ? code : UINT32_MAX;
}

/* Controls of C0 and C1; Unicode's Bidi_Control, which reorder what stands around them (UAX #9);
 * characters of width zero and tags, which make two texts look like one (not the joiners, which
 * scripts and emoji need); the line and paragraph separators, which YAML 1.1 takes for line breaks;
 * and what YAML refuses or passes over (YAML 1.2.2, section 5.1): the byte order mark and
 * noncharacters. */
static bool is_unseen(uint32_t code)
{
    static const uint32_t ranges[][2] = {
        {0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},      {0x61c, 0x61c},   {0x180e, 0x180e},
        {0x200b, 0x200b}, {0x200e, 0x200f}, {0x2028, 0x202e},  {0x2060, 0x206f}, {0xfeff, 0xfeff},
        {0xfff9, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0xe007f}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (code >= ranges[i][0] && code <= ranges[i][1]) {
            return true;
        }
    }
    return false;
}

size_t str_seen(const char *s, size_t n)
{
    size_t len;
    uint32_t code = str_code_point(s, n, &len);
    return code != UINT32_MAX && !is_unseen(code) ? len : 0;
}

bool str_is_seen(const char *s)
{
    size_t n = strlen(s);
    for (size_t i = 0, len; i < n; i += len) {
        len = str_seen(s + i, n - i);
        if (len == 0) {
            return false;
        }
    }
    return true;
}

/* $'...': what a terminal does not show as it is, in octal (POSIX.1-2024, 2.2.4). A shell that does
 * not know it takes it for a text in single quotes after a dollar sign: as a quote is in octal too,
 * nothing ends that text, and nothing in it is acted on. */
static const char *quote_unseen(struct arena *a, const char *s)
{
    size_t n = strlen(s), at = 0;
    char *out = arena_alloc(a, 4 * n + 4); // a text of megabytes, too, in one go
    out[at++] = '$', out[at++] = '\'';
    for (size_t i = 0, len; i < n; i += len) {
        unsigned char c = (unsigned char)s[i];
        len = c == '\'' || c == '\\' ? 0 : str_seen(s + i, n - i);
        if (len) {
            memcpy(out + at, s + i, len);
            at += len;
        } else {
            out[at++] = '\\', out[at++] = (char)('0' + (c >> 6));
            out[at++] = (char)('0' + (c >> 3 & 7)), out[at++] = (char)('0' + (c & 7));
            len = 1;
        }
    }
    out[at++] = '\'';
    out[at] = '\0';
    return out;
}

const char *str_shell_word(struct arena *a, const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_@%+=:,./-";
    if (*s && strspn(s, plain) == strlen(s)) {
        return s;
    }
    if (!str_is_seen(s)) {
        return quote_unseen(a, s);
    }
    static const char quote[] = {'\'', '\\', '\'', '\''};
    size_t n = strlen(s), at = 0;
    char *out = arena_alloc(a, sizeof quote * n + 3);
    out[at++] = '\'';
    for (size_t i = 0; i < n; i++) {
        size_t length = s[i] == '\'' ? sizeof quote : 1;
        memcpy(out + at, length == 1 ? s + i : quote, length);
        at += length;
    }
    out[at++] = '\'';
    out[at] = '\0';
    return out;
}

/* PowerShell ends a text in '...' at any of its five single quotes, and has each of them doubled
 * inside (about_Quoting_Rules; U+2018 to U+201B by its tokenizer). */
const char *str_powershell_word(struct arena *a, const char *text)
{
    size_t n = strlen(text), at = 0;
    char *out = arena_alloc(a, 2 * n + 3);
    if (!str_is_seen(text)) {
        return NULL;
    }
    out[at++] = '\'';
    for (size_t i = 0, length = 1; i < n; i += length) {
        uint32_t c = str_code_point(text + i, n - i, &length);
        for (int k = 0; k < (c == '\'' || (c >= 0x2018 && c <= 0x201b) ? 2 : 1); k++) {
            memcpy(out + at, text + i, length);
            at += length;
        }
    }
    out[at++] = '\'';
    out[at] = '\0';
    return out;
}

char *str_printable(struct arena *a, const char *s)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = strlen(s), plain = 0;
    while (plain < n && s[plain] >= 0x20 && s[plain] < 0x7f) {
        plain++;
    }
    if (plain == n) { // as most are
        return arena_strndup(a, s, n);
    }
    char *out = arena_alloc(a, n * 4 + 1);
    size_t o = 0;
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        size_t len = str_seen(s + i, n - i);
        if (len == 0) {
            out[o++] = '\\', out[o++] = 'x', out[o++] = hex[c >> 4], out[o++] = hex[c & 15];
            i++;
            continue;
        }
        memcpy(out + o, s + i, len);
        o += len, i += len;
    }
    out[o] = '\0';
    return out;
}

const char *str_python_bytes(struct arena *a, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = strlen(text), at = 0;
    char *out = arena_alloc(a, 4 * n + 4);
    out[at++] = 'b', out[at++] = '"';
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= ' ' && c < 0x7f && c != '"' && c != '\\') {
            out[at++] = (char)c;
        } else {
            out[at++] = '\\', out[at++] = 'x', out[at++] = hex[c >> 4], out[at++] = hex[c & 15];
        }
    }
    out[at++] = '"';
    out[at] = '\0';
    return out;
}

int str_by_bytes(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

uint64_t str_hash(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ p[i]) * 0x100000001b3u;
    }
    return h;
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *str_base64(struct arena *a, const void *data, size_t n)
{
    const unsigned char *in = data;
    char *out = arena_alloc(a, (n + 2) / 3 * 4 + 1);
    size_t at = 0;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)in[i] << 16;
        v |= i + 1 < n ? (uint32_t)in[i + 1] << 8 : 0;
        v |= i + 2 < n ? in[i + 2] : 0;
        out[at++] = base64_digits[v >> 18];
        out[at++] = base64_digits[v >> 12 & 63];
        out[at++] = i + 1 < n ? base64_digits[v >> 6 & 63] : '=';
        out[at++] = i + 2 < n ? base64_digits[v & 63] : '=';
    }
    out[at] = '\0';
    return out;
}
