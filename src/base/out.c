#include "base/out.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "base/terminal.h"

static const char *const style_codes[OUT_STYLES] = {
    [OUT_PLAIN] = "",         [OUT_BOLD] = "\033[1m",
    [OUT_RED] = "\033[1;31m", [OUT_YELLOW] = "\033[1;33m",
    [OUT_GREEN] = "\033[32m", [OUT_DIM] = "\033[2m",
};

void out_init(struct out *o, FILE *file)
{
    const char *no_color = getenv("NO_COLOR");
    struct terminal terminal = {.colours = false};
    bool found = terminal_of(file, &terminal);
    o->file = file;
    o->colour = found && terminal.colours && !(no_color && *no_color);
    o->width = 100;
    if (found && terminal.columns >= 40) {
        o->width = terminal.columns > 120 ? 120 : terminal.columns;
    }
}

static bool paints(const struct out *o, enum out_style style)
{
    return o->colour && style != OUT_PLAIN;
}

void out_begin(const struct out *o, enum out_style style)
{
    if (paints(o, style)) {
        fputs(style_codes[style], o->file);
    }
}

void out_end(const struct out *o, enum out_style style)
{
    if (paints(o, style)) {
        fputs("\033[0m", o->file);
    }
}

void out_print(const struct out *o, enum out_style style, const char *fmt, ...)
{
    out_begin(o, style);
    va_list ap;
    va_start(ap, fmt);
    (void)vfprintf(o->file, fmt, ap); // a failed write shows in ferror() at the end
    va_end(ap);
    out_end(o, style);
}

/* Whether a quote here opens a text of a shell, and is not an apostrophe. */
static bool opens_quote(struct str text, size_t at)
{
    const char before = at ? text.s[at - 1] : ' ';
    return strchr(" =:$'(\"", before) && memchr(text.s + at + 1, '\'', text.n - at - 1);
}

/* Takes what ends at a blank. One in a shell's quotes parts nothing: a path could not be pasted. */
static struct str out_take_word(struct str *rest)
{
    bool quoted = false;
    size_t n = 0;
    for (; n < rest->n && (quoted || rest->s[n] != ' '); n++) {
        quoted = rest->s[n] == '\'' ? !quoted && opens_quote(*rest, n) : quoted;
    }
    struct str word = {rest->s, n};
    *rest = n < rest->n ? (struct str){rest->s + n + 1, rest->n - n - 1} : (struct str){NULL, 0};
    return word;
}

void out_wrap(const struct out *o, unsigned indent, const char *text)
{
    unsigned column = indent;
    struct str rest = str_of(text);
    bool first = true;
    while (rest.s) {
        struct str word = out_take_word(&rest);
        if (word.n == 0) {
            continue;
        }
        if (!first && column + 1 + word.n > o->width) {
            fprintf(o->file, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', o->file);
            column++;
        }
        fwrite(word.s, 1, word.n, o->file);
        column += (unsigned)word.n;
        first = false;
    }
    fputc('\n', o->file);
}

json_t *out_json_text(struct arena *a, const char *text)
{
    if (!text) {
        return json_null();
    }
    if (str_is_utf8(text, strlen(text))) {
        return json_string_nocheck(text);
    }
    return json_string_nocheck(str_printable(a, text));
}

json_t *out_json_texts(struct arena *a, const char *const *items, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_add(list, out_json_text(a, items[i]));
    }
    return list;
}

/* RFC 8259, section 7: what is above 16 bits is written as a surrogate pair. */
static void write_escape(FILE *file, uint32_t code)
{
    if (code <= 0xffff) {
        fprintf(file, "\\u%04x", (unsigned)code);
        return;
    }
    code -= 0x10000;
    fprintf(file, "\\u%04x\\u%04x", 0xd800u | (unsigned)code >> 10,
            0xdc00u | ((unsigned)code & 0x3ff));
}

/* Beyond ASCII a document has strings alone, and jansson hands over whole characters of them. */
static int write_json(const char *text, size_t n, void *file)
{
    size_t from = 0;
    for (size_t i = 0, len; i < n; i += len) {
        bool ascii = (unsigned char)text[i] < 0x7f;
        len = ascii ? 1 : str_seen(text + i, n - i);
        if (len == 0) {
            uint32_t code = str_code_point(text + i, n - i, &len);
            fwrite(text + from, 1, i - from, file);
            write_escape(file, code == UINT32_MAX ? 0xfffd : code);
            from = i + len;
        }
    }
    return fwrite(text + from, 1, n - from, file) == n - from ? 0 : -1;
}

int out_json_write(FILE *file, const json_t *doc, size_t flags)
{
    return json_dump_callback(doc, write_json, file, flags);
}

int out_json_dump(FILE *file, json_t *doc)
{
    int rc = doc ? out_json_write(file, doc, JSON_INDENT(2)) : -1;
    json_decref(doc);
    return rc == 0 && fputc('\n', file) != EOF ? 0 : -1;
}
