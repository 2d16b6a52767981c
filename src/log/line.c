#include <string.h>

#include <jansson.h>

#include "base/str.h"
#include "log/internal.h"

/* ------------------------------------------------------------------ escapes */

static bool between(char c, unsigned char low, unsigned char high)
{
    return (unsigned char)c >= low && (unsigned char)c <= high;
}

/* ECMA-48: a control sequence is ESC [, parameters, intermediates, a final byte. */
static size_t control_sequence(const char *in, size_t n)
{
    size_t i = 2;
    while (i < n && between(in[i], '0', '?')) {
        i++;
    }
    while (i < n && between(in[i], ' ', '/')) {
        i++;
    }
    return i < n && between(in[i], '@', '~') ? i + 1 : 1;
}

/* An operating system command ends at BEL or ESC \; without its end only its beginning goes. */
static size_t system_command(const char *in, size_t n)
{
    size_t i = 2;
    while (i < n && in[i] != '\a' && in[i] != '\033') {
        i++;
    }
    if (i < n && in[i] == '\a') {
        return i + 1;
    }
    return i + 1 < n && in[i + 1] == '\\' ? i + 2 : 2;
}

/* Bytes of the escape that begins at in[0]. */
static size_t escape_length(const char *in, size_t n)
{
    if (n < 2) {
        return 1;
    }
    if (in[1] == '[') {
        return control_sequence(in, n);
    }
    if (in[1] == ']') {
        return system_command(in, n);
    }
    return between(in[1], '@', '_') ? 2 : 1;
}

static bool bytes_are_clean(const char *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)in[i] < ' ' && in[i] != '\t') {
            return false;
        }
    }
    return true;
}

bool line_is_clean(const char *in, size_t n)
{
    const uint64_t ones = 0x0101010101010101;
    for (; n >= sizeof ones; in += sizeof ones, n -= sizeof ones) {
        uint64_t eight;
        memcpy(&eight, in, sizeof eight);
        // The first byte below ' ' has its high bit in this; behind it others may.
        if ((eight - ones * ' ') & ~eight & ones * 0x80 && !bytes_are_clean(in, sizeof ones)) {
            return false;
        }
    }
    return bytes_are_clean(in, n);
}

size_t line_clean(const char *in, size_t n, char *out)
{
    size_t to = 0;
    for (size_t i = 0; i < n;) {
        if (in[i] == '\033') {
            i += escape_length(in + i, n - i);
            continue;
        }
        if ((unsigned char)in[i] >= ' ' || in[i] == '\t') {
            out[to++] = in[i];
        }
        i++;
    }
    return to;
}

/* Bytes of the character that begins at in[0], or 0. */
static size_t character_length(const char *in, size_t n)
{
    for (size_t length = 1; length <= 4 && length <= n; length++) {
        if (str_is_utf8(in, length)) {
            return length;
        }
    }
    return 0;
}

size_t line_as_utf8(const char *in, size_t n, char *out)
{
    size_t to = 0;
    for (size_t i = 0; i < n;) {
        size_t length = character_length(in + i, n - i);
        memcpy(out + to, in + i, length);
        to += length;
        if (!length) {
            out[to++] = (char)(0xc0 | (unsigned char)in[i] >> 6);
            out[to++] = (char)(0x80 | (in[i] & 0x3f));
        }
        i += length ? length : 1;
    }
    return to;
}

/* ------------------------------------------------------------------ prefixes */

static bool line_is_name(char c)
{
    return str_is_digit(c) || between((char)(c | 0x20), 'a', 'z') || c == '_' || c == '-' ||
           c == '.';
}

/* Whether the text begins as the pattern says: '9' a digit, 'A' a letter, '#' any byte, else
 * itself. */
static bool looks_like(struct str s, const char *pattern)
{
    size_t n = strlen(pattern);
    for (size_t i = 0; i < n && i < s.n; i++) {
        bool fits = pattern[i] == '9'   ? str_is_digit(s.s[i])
                    : pattern[i] == 'A' ? between((char)(s.s[i] | 0x20), 'a', 'z')
                    : pattern[i] == '#' ? true
                                        : s.s[i] == pattern[i];
        if (!fits) {
            return false;
        }
    }
    return s.n >= n;
}

static size_t line_skip(struct str s, size_t at, const char *bytes)
{
    while (at < s.n && s.s[at] && strchr(bytes, s.s[at])) {
        at++;
    }
    return at;
}

/* A fraction of a second and a time zone behind a time of day. */
static size_t after_time(struct str s, size_t at)
{
    if (at < s.n && (s.s[at] == '.' || s.s[at] == ',')) {
        at = line_skip(s, at + 1, "0123456789");
    }
    struct str rest = {s.s + at, s.n - at};
    if (at < s.n && s.s[at] == 'Z') {
        return at + 1;
    }
    if (looks_like(rest, "+99:99") || looks_like(rest, "-99:99")) {
        return at + 6;
    }
    return at + (looks_like(rest, "+9999") || looks_like(rest, "-9999") ? 5 : 0);
}

/* "2026-11-21T18:00:00.123Z ", "[2026-11-21 18:00:00,123] ", "18:00:00 " */
static size_t prefix_time(struct str s, struct str *ret_process)
{
    (void)ret_process;
    size_t at = s.s[0] == '[';
    struct str rest = {s.s + at, s.n - at};
    if (looks_like(rest, "9999-99-99#99:99:99")) {
        at = after_time(s, at + 19);
    } else if (looks_like(rest, "99:99:99")) {
        at = after_time(s, at + 8);
    } else {
        return 0;
    }
    size_t end = line_skip(s, at, "]: ");
    return end > at ? end : 0;
}

/* "[   12.345678] " of the kernel */
static size_t prefix_kernel(struct str s, struct str *ret_process)
{
    (void)ret_process;
    size_t at = line_skip(s, 1, " "), digits = line_skip(s, at, "0123456789.");
    return s.s[0] == '[' && digits > at && digits + 1 < s.n && s.s[digits] == ']' &&
                   s.s[digits + 1] == ' '
               ? digits + 2
               : 0;
}

/* "Nov 21 18:00:00 host name[123]: " of syslog and journald */
static size_t prefix_journal(struct str s, struct str *ret_process)
{
    if (!looks_like(s, "AAA #9 99:99:99 ")) {
        return 0;
    }
    size_t host = 16, name = host + str_find_char((struct str){s.s + host, s.n - host}, ' ');
    size_t end = name;
    while (end + 1 < s.n && !(s.s[end] == ':' && s.s[end + 1] == ' ')) {
        end++;
        if (s.s[end] == ' ' || end - name > 100) {
            return 0; // a sentence, not a name
        }
    }
    if (end + 1 >= s.n) {
        return 0;
    }
    *ret_process = (struct str){s.s + host, end - host};
    return end + 2;
}

/* "service-1  | " of docker compose */
static size_t prefix_compose(struct str s, struct str *ret_process)
{
    size_t n = 0;
    while (n < s.n && n < 100 && line_is_name(s.s[n])) {
        n++;
    }
    size_t digits = n;
    while (digits > 0 && str_is_digit(s.s[digits - 1])) {
        digits--;
    }
    bool numbered = digits > 1 && digits < n && (s.s[digits - 1] == '-' || s.s[digits - 1] == '_');
    size_t bar = line_skip(s, n, " ");
    if (!numbered || bar + 1 >= s.n || s.s[bar] != '|' || s.s[bar + 1] != ' ') {
        return 0;
    }
    *ret_process = (struct str){s.s, n};
    return bar + 2;
}

/* "[pod/name/container] ", "[rank0]: ", "[default0]:", "(EngineCore pid=123) ", "[1,0]<stderr>:" */
static size_t prefix_bracket(struct str s, struct str *ret_process)
{
    static const char *const marks[] = {"[pod/", "[rank", "[default", "pid=", ",0]<std", "]<std"};
    char close = s.s[0] == '[' ? ']' : s.s[0] == '(' ? ')' : '\0';
    size_t end = close ? str_find_char((struct str){s.s, s.n < 160 ? s.n : 160}, close) : s.n;
    if (!close || end + 1 >= s.n || s.s[end] != close) {
        return 0;
    }
    struct str inside = {s.s, end + 5 < s.n ? end + 5 : end + 1};
    bool known = false;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        known = known || str_find(inside, marks[i]) < inside.n;
    }
    if (!known) {
        return 0;
    }
    *ret_process = (struct str){s.s, end + 1};
    size_t after = end + 1;
    if (looks_like((struct str){s.s + after, s.n - after}, "<stdAAA>:")) {
        after += 9;
    }
    return line_skip(s, after, ": ");
}

/* "> " of a quotation */
static size_t prefix_quote(struct str s, struct str *ret_process)
{
    (void)ret_process;
    return s.n > 2 && s.s[0] == '>' && s.s[1] == ' ' ? 2 : 0;
}

void line_prefix(struct log_line *line)
{
    enum { PREFIXES_MAX = 4 };
    static size_t (*const kinds[])(struct str, struct str *) = {
        prefix_time, prefix_kernel, prefix_journal, prefix_compose, prefix_bracket, prefix_quote};
    for (int found = 0; found < PREFIXES_MAX; found++) {
        struct str rest = {line->text + line->body, line->n - line->body}, process = {0};
        size_t length = 0;
        for (size_t i = 0; rest.n && !length && i < sizeof kinds / sizeof *kinds; i++) {
            length = kinds[i](rest, &process);
        }
        if (!length) {
            return;
        }
        if (process.s) {
            line->process = str_hash(process.s, process.n) | 1;
        }
        line->body += length;
    }
}

/* ------------------------------------------------------------------ what shows nothing */

/* A script's line that would print a message, as in `echo "NVIDIA kernel module not loaded"`: the
 * script is shown here, not what it printed. A variable may have been printed by hand. */
static bool is_echo(struct str s)
{
    bool quoted = str_starts(s, "echo \"") || str_starts(s, "echo '");
    return quoted && s.n > 6 && str_find_char(s, '$') == s.n;
}

/* Files that pip saw in an index: of which systems they are says nothing about this one. */
static bool is_pip_link(struct str s)
{
    enum { WITHIN = 60 }; // a time, a step of a build and blanks go before it
    struct str head = {s.s, s.n < WITHIN ? s.n : WITHIN};
    return str_find(head, "Skipping link: ") < head.n || str_find(head, "Found link http") < head.n;
}

/* A line of the source as a compiler repeats it below a message, "   12 | #include <cuda.h>"; what
 * #error says is a message itself. */
static bool is_quoted_source(struct str s)
{
    size_t n = 0;
    while (n < s.n && str_is_digit(s.s[n])) {
        n++;
    }
    return n && str_starts((struct str){s.s + n, s.n - n}, " | ") && str_find(s, "#error") == s.n;
}

bool line_shows_nothing(struct str s)
{
    return is_echo(s) || is_pip_link(s) || is_quoted_source(s);
}

/* ------------------------------------------------------------------ JSON */

enum { JSON_TEXTS_MAX = 200, JSON_DEPTH_MAX = 8 };

struct json_walk {
    void (*take)(void *arg, const char *text, size_t n);
    void *arg;
    unsigned texts;
};

static void json_texts(struct json_walk *w, const json_t *v, unsigned depth)
{
    if (json_is_string(v) && w->texts < JSON_TEXTS_MAX) {
        w->texts++;
        w->take(w->arg, json_string_value(v), json_string_length(v));
    }
    if (depth >= JSON_DEPTH_MAX) {
        return;
    }
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)v, key, member)
    {
        json_texts(w, member, depth + 1);
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        json_texts(w, json_array_get(v, i), depth + 1);
    }
}

/* Both braces of an object are there, and behind the first one a name begins or none is. */
bool line_may_be_json(struct str s)
{
    if (s.n < 2 || s.s[0] != '{' || s.s[s.n - 1] != '}') {
        return false;
    }
    size_t at = 1 + strspn(s.s + 1, " \t"); // ends before the brace
    return s.s[at] == '"' || s.s[at] == '}';
}

bool line_json(const char *text, size_t n, void (*take)(void *arg, const char *text, size_t n),
               void *arg)
{
    json_error_t why;
    json_t *doc =
        line_may_be_json((struct str){text, n}) ? json_loadb(text, n, JSON_ALLOW_NUL, &why) : NULL;
    if (!json_is_object(doc)) {
        json_decref(doc);
        return false;
    }
    json_texts(&(struct json_walk){.take = take, .arg = arg}, doc, 0);
    json_decref(doc);
    return true;
}
