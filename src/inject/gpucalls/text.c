/* Text in a bounded buffer, escaped for JSON. */
#include "inject/gpucalls/tell.h"

void gpucall_text_put(struct text *t, const char *s)
{
    while (*s && t->n + 1 < t->max) {
        t->at[t->n++] = *s++;
    }
    t->at[t->n] = '\0';
}

void gpucall_put_char(struct text *t, char c)
{
    const char s[2] = {c, '\0'};
    gpucall_text_put(t, s);
}

void gpucall_text_put_number(struct text *t, uint64_t value, unsigned base)
{
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    gpucall_text_put(t, base == 16 ? "0x" : "");
    gpucall_text_put(t, digits + at);
}

void gpucall_put_signed(struct text *t, int64_t value)
{
    gpucall_text_put(t, value < 0 ? "-" : "");
    gpucall_text_put_number(t, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10);
}

/* How many bytes of a UTF-8 sequence begin here; 0: none. */
static unsigned utf8_sequence(const unsigned char *s)
{
    unsigned n = *s >= 0xf0 && *s < 0xf5 ? 4 : *s >= 0xe0 ? 3 : *s >= 0xc2 ? 2 : 0;
    if (*s >= 0xf5 || *s < 0xc2) {
        return 0;
    }
    for (unsigned i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return n;
}

void gpucall_text_put_escaped(struct text *t, const char *s)
{
    for (const unsigned char *c = (const unsigned char *)s; *c;) {
        unsigned n = *c >= 0x80 ? utf8_sequence(c) : 1;
        if (*c == '"' || *c == '\\') {
            gpucall_put_char(t, '\\');
        }
        if (*c < 0x20 || *c == 0x7f) {
            gpucall_text_put(t, "\\u00");
            gpucall_put_char(t, "0123456789abcdef"[*c >> 4]);
            gpucall_put_char(t, "0123456789abcdef"[*c & 15]);
        } else if (!n) {
            gpucall_text_put(t, "\\ufffd");
        } else {
            for (unsigned i = 0; i < n; i++) {
                gpucall_put_char(t, (char)c[i]);
            }
        }
        c += n ? n : 1;
    }
}

void gpucall_put_string(struct text *t, const char *s)
{
    gpucall_put_char(t, '"');
    gpucall_text_put_escaped(t, s);
    gpucall_put_char(t, '"');
}

void gpucall_put_string_or_null(struct text *t, const char *s)
{
    if (s && *s) {
        gpucall_put_string(t, s);
    } else {
        gpucall_text_put(t, "null");
    }
}
