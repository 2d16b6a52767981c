/*
 * One event as a line of JSON, built in a buffer on the stack. What does not fit is cut, and
 * marked.
 */
#include <link.h>
#include <stdbool.h>
#include <stddef.h>

#include "inject/text.h"
#include "inject/trace/trace.h"

enum {
    TAIL_BYTES = 1024,
    SHORT_BYTES = 32,
};

bool trace_has_char(const char *s, char c)
{
    for (; *s; s++) {
        if (*s == c) {
            return true;
        }
    }
    return false;
}

void trace_put_plain(struct line *l, const char *s)
{
    while (*s && l->n < LINE_MAX_BYTES) {
        l->text[l->n++] = *s++;
    }
}

static void put_number(struct line *l, long value)
{
    char digits[24];
    size_t n = 0;
    unsigned long left = value < 0 ? 0ul - (unsigned long)value : (unsigned long)value;
    do {
        digits[n++] = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (value < 0) {
        digits[n++] = '-';
    }
    while (n && l->n < LINE_MAX_BYTES) {
        l->text[l->n++] = digits[--n];
    }
}

/* Bytes of the UTF-8 sequence at s (RFC 3629), 0 if it is none. */
static size_t sequence(const unsigned char *s)
{
    size_t n = s[0] < 0x80                   ? 1
               : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
               : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
               : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                             : 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90)) {
        return 0;
    }
    return n;
}

void trace_line_put_text(struct line *l, const char *s)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *at = (const unsigned char *)s;
    if (!s || (l->cut && text_length(s) > SHORT_BYTES)) {
        trace_put_plain(l, "null");
        return;
    }
    trace_put_plain(l, "\"");
    while (*at) {
        size_t n = sequence(at);
        if (!l->cut && l->n + TAIL_BYTES > LINE_MAX_BYTES) {
            l->cut = true;
            break;
        }
        if (n == 0 || *at < 0x20 || *at == 0x7f) {
            const char escaped[] = {'\\', '\\', 'x', hex[*at >> 4], hex[*at & 15], '\0'};
            trace_put_plain(l, escaped);
            at++;
            continue;
        }
        if (*at == '"' || *at == '\\') {
            trace_put_plain(l, "\\");
        }
        for (; n; n--) {
            l->text[l->n++] = (char)*at++;
        }
    }
    trace_put_plain(l, "\"");
}

void trace_put_member(struct line *l, const char *key, const char *value)
{
    trace_put_plain(l, ", \"");
    trace_put_plain(l, key);
    trace_put_plain(l, "\": ");
    trace_line_put_text(l, value);
}

void trace_put_count(struct line *l, const char *key, long value)
{
    trace_put_plain(l, ", \"");
    trace_put_plain(l, key);
    trace_put_plain(l, "\": ");
    put_number(l, value);
}
