#include "log/wrapped.h"

#include <string.h>

#include "log/internal.h"

/* A narrower text has short lines, and a wider one was not wrapped. Most consoles have one of two
 * widths. */
enum { WIDTH_MIN = 60, WIDTH_MAX = 200, CONSOLE = 80, CONSOLE_WIDE = 120 };

/* Characters, not bytes, as a screen counts them. */
static size_t characters_count(struct str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        n += ((unsigned char)s.s[i] & 0xc0) != 0x80;
    }
    return n;
}

/* A line as far as it is printed: blanks at its end do not count, those before it do. */
static struct str without_end(struct str line)
{
    struct str s = str_trim(line);
    return (struct str){line.s, s.n ? (size_t)(s.s - line.s) + s.n : 0};
}

static size_t longest_line(struct str text)
{
    size_t longest = 0;
    struct str line;
    while (str_line(&text, &line)) {
        size_t n = characters_count(without_end(line));
        longest = n > longest ? n : longest;
    }
    return longest;
}

/* How a line goes on in the next one. */
enum join { JOIN_NOT, JOIN_WORD, JOIN_BLANK };

/* Whether a line begins anew, whatever precedes it: a row of a table, an item of a list, a
 * quotation, source code, a line with a time or the name of a process, what a person noted. */
static bool begins_anew(struct str s)
{
    struct log_line line = {.text = s.s, .n = s.n};
    line_prefix(&line);
    return line.body || strchr("|+>*#([{}])\"", s.s[0]) || str_starts(s, "- ") ||
           str_starts(s, "note:");
}

/* How a line of `used` characters goes on in the next one: there was no room in it for the next
 * word, or for the next character. */
static enum join how_joined(size_t used, struct str next, enum wrapped kind, size_t width)
{
    struct str words = str_trim(next), rest = words;
    if (!words.n || begins_anew(words)) {
        return JOIN_NOT;
    }
    if (kind == WRAPPED_AT_BLANKS && 2 * used < width) {
        return JOIN_NOT; // a long path: it has no room in any line
    }
    if (kind == WRAPPED_AT_BLANKS) {
        return used + 1 + characters_count(str_cut(&rest, ' ')) > width ? JOIN_BLANK : JOIN_NOT;
    }
    if (used == width) {
        return next.s[0] == ' ' ? JOIN_BLANK : JOIN_WORD;
    }
    return used + 1 == width ? JOIN_BLANK : JOIN_NOT; // the blank at its end cannot be seen
}

/* Text that is being written. */
struct joining {
    char *to;
    size_t n, ends; // ends of lines that are still to be written
};

static void ends_add(struct joining *j)
{
    memset(j->to + j->n, '\n', j->ends);
    j->n += j->ends;
    j->ends = 0;
}

static void part_add(struct joining *j, struct str part, enum join join)
{
    if (join == JOIN_BLANK) {
        j->to[j->n++] = ' ';
    } else if (join == JOIN_NOT) {
        ends_add(j);
    }
    memcpy(j->to + j->n, part.s, part.n);
    j->n += part.n;
    j->ends++;
}

bool wrapped_join(struct arena *a, struct str text, enum wrapped kind, struct str *ret)
{
    size_t width = longest_line(text), used = 0;
    if (width < WIDTH_MIN || width > WIDTH_MAX) {
        return false;
    }
    struct joining j = {.to = arena_alloc(a, 2 * text.n + 1)};
    size_t breaks = width == CONSOLE || width == CONSOLE_WIDE;
    struct str line;
    while (str_line(&text, &line)) {
        enum join join = how_joined(used, line, kind, width);
        part_add(&j, join == JOIN_NOT ? without_end(line) : str_trim(line), join);
        breaks += join != JOIN_NOT;
        used = characters_count(without_end(line));
    }
    ends_add(&j);
    *ret = (struct str){j.to, j.n};
    return breaks > 1; // that one line is the longest says nothing
}
