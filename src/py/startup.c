/* Lines of .pth and .start files as site.py of each version cuts them, and what is an entry point.
 */
#include <string.h>

#include "py/internal.h"

bool py_is_since(const struct py_env *env, int minor)
{
    return env->major > 3 || (env->major == 3 && env->minor >= minor);
}

/* Since 3.13 decoded as "utf-8-sig"; before, the mark is a part of the first line. */
struct str py_startup_text(const struct py_env *env, struct str text)
{
    bool marked = py_is_since(env, 13) && str_starts(text, "\xef\xbb\xbf");
    return marked ? (struct str){text.s + 3, text.n - 3} : text;
}

/* The length of the line end at `at`, 0: there is none. */
static size_t line_end(const struct py_env *env, struct str s, size_t at)
{
    static const char *const more[] = {"\v",   "\f",       "\x1c",         "\x1d",
                                       "\x1e", "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"};
    struct str rest = {s.s + at, s.n - at};
    if (s.s[at] == '\n' || s.s[at] == '\r') {
        return str_starts(rest, "\r\n") ? 2 : 1;
    }
    for (size_t i = 0; i < sizeof more / sizeof *more && py_is_since(env, 13); i++) {
        if (str_starts(rest, more[i])) {
            return strlen(more[i]);
        }
    }
    return 0;
}

bool py_startup_line(const struct py_env *env, struct str *rest, struct str *ret_line)
{
    size_t n = 0, end = 0;
    if (!rest->n) {
        return false;
    }
    while (n < rest->n && !(end = line_end(env, *rest, n))) {
        n++;
    }
    *ret_line = (struct str){rest->s, n};
    *rest = (struct str){rest->s + n + end, rest->n - n - end};
    return true;
}

/* The length of the blank that `s` begins with, or ends with: str.isspace() of Python. */
static size_t blank(struct str s, bool at_end)
{
    static const char *const wide[] = {
        "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
        "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
        "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
        "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    unsigned char c = s.n ? (unsigned char)s.s[at_end ? s.n - 1 : 0] : 0;
    if (c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f)) {
        return 1;
    }
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        size_t n = strlen(wide[i]);
        if (n <= s.n && memcmp(at_end ? s.s + s.n - n : s.s, wide[i], n) == 0) {
            return n;
        }
    }
    return 0;
}

struct str py_startup_trim(struct str s)
{
    for (size_t n; (n = blank(s, false));) {
        s.s += n, s.n -= n;
    }
    for (size_t n; (n = blank(s, true));) {
        s.n -= n;
    }
    return s;
}

/* "a.b"; other than ASCII may be a letter. */
static bool is_dotted_name(struct str name)
{
    bool fresh = true; // a word begins
    for (size_t i = 0; i < name.n; i++) {
        char c = name.s[i];
        bool digit = c >= '0' && c <= '9';
        bool word = digit || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                    (unsigned char)c >= 0x80;
        if (fresh ? !word || digit : !word && c != '.') {
            return false;
        }
        fresh = c == '.';
    }
    return !fresh;
}

bool py_is_entry_point(struct str line)
{
    struct str module = str_cut(&line, ':');
    return line.s && is_dotted_name(module) && is_dotted_name(line);
}
