#include "log/dressed.h"

#include <string.h>

/* One of these before each line. */
enum mark { MARK_BULLET, MARK_QUOTE, MARK_NUMBER, MARK_TABBED, MARK_FILE, MARKS };

enum { DRESSINGS_MAX = 4 }; // one in the other: a quoted list of what grep found, as HTML

/* What the first line has; the others must have the same, and higher numbers. */
struct marked {
    enum mark kind;
    char bullet;
    struct str file;
    uint64_t number;
    size_t lines, blank; // of the latter a blank comes first behind the mark
    bool as_time;        // "12:34", "12-Mar": a mark may be part of a time
};

static struct str str_from(struct str s, size_t at)
{
    return (struct str){s.s + at, s.n - at};
}

static size_t digits_count(struct str s)
{
    size_t n = 0;
    while (n < s.n && str_is_digit(s.s[n])) {
        n++;
    }
    return n;
}

/* "- text", "* text"; the sign alone where the line is empty. */
static size_t bullet_length(struct str s, struct marked *m)
{
    if (!strchr("-*+", s.s[0]) || (m->lines && s.s[0] != m->bullet)) {
        return 0;
    }
    m->bullet = s.s[0];
    return s.n == 1 ? 1 : s.s[1] == ' ' ? 2 : 0;
}

/* "> text", ">text" */
static size_t quote_length(struct str s)
{
    bool nested = s.n > 1 && s.s[1] == '>'; // Python's prompt has three
    return s.s[0] != '>' || nested ? 0 : s.n > 1 && s.s[1] == ' ' ? 2 : 1;
}

/* A number that is higher than the one before. */
static bool number_rises(struct str digits, struct marked *m)
{
    uint64_t number;
    bool rises = str_u64(digits, &number) && number > m->number;
    m->number = rises ? number : m->number;
    return rises;
}

/* "12:text", and "13-text" of a line around it */
static size_t number_length(struct str s, struct marked *m)
{
    size_t n = digits_count(s);
    bool ends = n && n < s.n && (s.s[n] == ':' || s.s[n] == '-');
    m->as_time |= ends && (s.s[n] == '-' || digits_count(str_from(s, n + 1)) == 2);
    return ends && number_rises((struct str){s.s, n}, m) ? n + 1 : 0;
}

/* "    12<tab>text" */
static size_t tabbed_length(struct str s, struct marked *m)
{
    size_t from = 0;
    while (from < s.n && s.s[from] == ' ') {
        from++;
    }
    size_t n = digits_count(str_from(s, from));
    bool ends = n && from + n < s.n && s.s[from + n] == '\t';
    return ends && number_rises((struct str){s.s + from, n}, m) ? from + n + 1 : 0;
}

/* "logs/run.log:12:text"; a compiler's "a.cu:12: error" has a blank there, or a column. */
static size_t file_length(struct str s, struct marked *m)
{
    size_t name = str_find_char(s, ':');
    if (name == 1 && s.n > 2 && s.s[2] == '\\') {
        name = 2 + str_find_char(str_from(s, 2), ':');
    }
    struct str file = {s.s, name < s.n ? name : s.n};
    bool same = !m->lines || (file.n == m->file.n && memcmp(file.s, m->file.s, file.n) == 0);
    if (name + 1 >= s.n || !name || str_find_char(file, ' ') < file.n || !same) {
        return 0;
    }
    m->file = file;
    size_t number = number_length(str_from(s, name + 1), m), end = name + 1 + number;
    size_t column = number ? digits_count(str_from(s, end)) : 0;
    bool has_column = column && end + column < s.n && s.s[end + column] == ':';
    return number && s.s[end - 1] == ':' && !has_column ? end : 0;
}

/* Bytes of the mark, 0 if there is none. */
static size_t mark_length(struct str s, struct marked *m)
{
    switch (m->kind) {
    case MARK_BULLET: return bullet_length(s, m);
    case MARK_QUOTE: return quote_length(s);
    case MARK_NUMBER: return number_length(s, m);
    case MARK_TABBED: return tabbed_length(s, m);
    case MARK_FILE: return file_length(s, m);
    case MARKS: break;
    }
    return 0;
}

/* Between the places that grep found. */
static bool is_separator(struct str s, enum mark kind)
{
    return s.n == 2 && kind >= MARK_NUMBER && str_starts(s, "--");
}

/* Writes the text without its marks, in no more bytes. False if a line has none. */
static bool marks_undo(struct str text, enum mark kind, char *to, size_t *ret_n)
{
    struct marked m = {.kind = kind};
    struct str line;
    size_t n = 0;
    while (str_line(&text, &line)) {
        struct str s = line;
        while (s.n && (s.s[s.n - 1] == ' ' || s.s[s.n - 1] == '\r')) {
            s.n--;
        }
        size_t length = !s.n || is_separator(s, kind) ? s.n : mark_length(s, &m);
        if (s.n && !length) {
            return false;
        }
        m.lines += length > 0;
        m.blank += length < s.n && s.s[length] == ' ';
        memcpy(to + n, s.s + length, s.n - length);
        n += s.n - length;
        to[n++] = '\n';
    }
    *ret_n = n;
    bool alone = m.lines == 1 && kind >= MARK_NUMBER;
    return m.lines && !(alone && (m.as_time || m.blank)) &&
           !(kind == MARK_FILE && 2 * m.blank > m.lines);
}

/* ------------------------------------------------------------------ HTML */

static const struct entity {
    const char *name;
    char c;
} entities[] = {{"&quot;", '"'},  {"&gt;", '>'},    {"&lt;", '<'},    {"&amp;", '&'},
                {"&apos;", '\''}, {"&#x27;", '\''}, {"&#X27;", '\''}, {"&#39;", '\''},
                {"&#039;", '\''}, {"&#34;", '"'},   {"&#x2F;", '/'},  {"&#47;", '/'},
                {"&#x3D;", '='},  {"&#61;", '='},   {"&#x60;", '`'},  {"&#96;", '`'},
                {"&nbsp;", ' '},  {"&#160;", ' '},  {"&#10;", ' '}};

static const struct entity *entity_at(struct str s)
{
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++) {
        if (str_starts(s, entities[i].name)) {
            return &entities[i];
        }
    }
    return NULL;
}

/* Writes the text with the characters themselves. False if there are none to write. */
static bool entities_undo(struct str text, char *to, size_t *ret_n)
{
    size_t n = 0, found = 0;
    while (text.n) {
        size_t plain = str_find_char(text, '&');
        plain = plain < text.n ? plain : text.n;
        memcpy(to + n, text.s, plain);
        n += plain;
        text = str_from(text, plain);
        const struct entity *e = text.n ? entity_at(text) : NULL;
        if (text.n) {
            to[n++] = e ? e->c : '&';
            text = str_from(text, e ? strlen(e->name) : 1);
        }
        found += e != NULL;
    }
    *ret_n = n;
    return found > 0;
}

/* ------------------------------------------------------------------ repr */

static int hex_value(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Writes what a backslash and what follows mean; returns how many bytes of `s` that is. */
static size_t escape_undo(struct str s, char *to, size_t *n)
{
    static const char names[] = "nrt\\'\"", meant[] = "\n\r\t\\'\"";
    const char *at = s.n > 1 && s.s[1] ? strchr(names, s.s[1]) : NULL;
    bool hex = s.n > 3 && s.s[1] == 'x' && hex_value(s.s[2]) >= 0 && hex_value(s.s[3]) >= 0;
    to[(*n)++] = at    ? meant[at - names]
                 : hex ? (char)(hex_value(s.s[2]) << 4 | hex_value(s.s[3]))
                       : s.s[0];
    return at ? 2 : hex ? 4 : 1;
}

/* What the quotation marks of a repr() enclose, with b"" or brackets around it; or nothing. */
static struct str repr_inside(struct str s)
{
    static const char ends[] = "]),;";
    size_t from = s.n && strchr("b[(", s.s[0]) ? 1 : 0;
    while (s.n > from + 2 && s.s[s.n - 1] && strchr(ends, s.s[s.n - 1])) {
        s.n--;
    }
    bool quoted =
        s.n > from + 2 && (s.s[from] == '\'' || s.s[from] == '"') && s.s[s.n - 1] == s.s[from];
    return quoted ? (struct str){s.s + from + 1, s.n - from - 2} : (struct str){s.s, 0};
}

/* Writes the lines of a text that is one line. False unless it had a line end. */
static bool repr_undo(struct str text, char *to, size_t *ret_n)
{
    struct str whole = str_trim(text), inside = repr_inside(whole);
    size_t end = str_find(inside, "\\n"), n = 0;
    if (str_find_char(whole, '\n') < whole.n || end + 2 > inside.n) {
        return false;
    }
    while (inside.n) {
        bool escape = inside.s[0] == '\\';
        size_t taken = escape ? escape_undo(inside, to, &n) : 1;
        if (!escape) {
            to[n++] = inside.s[0];
        }
        inside = str_from(inside, taken);
    }
    *ret_n = n;
    return true;
}

/* ------------------------------------------------------------------ texts */

static bool undo_once(struct str text, char *to, size_t *ret_n, bool *was_one_line)
{
    if (repr_undo(text, to, ret_n)) {
        *was_one_line = true;
        return true;
    }
    bool undone = entities_undo(text, to, ret_n);
    for (enum mark kind = 0; kind < MARKS && !undone; kind++) {
        undone = marks_undo(text, kind, to, ret_n);
    }
    return undone;
}

bool dressed_undo(struct arena *a, struct str text, struct dressed *ret)
{
    char *room[2] = {arena_alloc(a, text.n + 1), arena_alloc(a, text.n + 1)};
    *ret = (struct dressed){.text = text};
    size_t times = 0, n;
    while (times < DRESSINGS_MAX && undo_once(ret->text, room[times % 2], &n, &ret->was_one_line)) {
        ret->text = (struct str){room[times % 2], n};
        times++;
    }
    return times > 0;
}
