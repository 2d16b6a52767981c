/* The lines of the report for issues. */
#include "report/paste_internal.h"

#include <string.h>

#include "base/str.h"

enum { KEY_COLUMNS = 24, VALUE_BYTES_MAX = 500 };

/* The text up to a limit, cut between characters. */
static const char *bounded(struct arena *a, const char *text)
{
    size_t n = strlen(text), cut = VALUE_BYTES_MAX;
    if (n <= VALUE_BYTES_MAX) {
        return text;
    }
    while (cut > 0 && ((unsigned char)text[cut] & 0xc0) == 0x80) {
        cut--;
    }
    return arena_printf(a, "%.*s ... (%zu more bytes)", (int)cut, text, n - cut);
}

static const char *shown_whole(struct paste *p, const char *text)
{
    return bounded(p->a, str_printable(p->a, snapshot_redact_text(p->names, text)));
}

const char *paste_shown(struct paste *p, const char *text)
{
    return shown_whole(p, report_shorten(p->m, text));
}

void paste_section(struct paste *p, const char *title)
{
    fprintf(p->out.file, "\n%s\n", title);
}

static void shown_line(struct paste *p, const char *key, const char *value)
{
    size_t n = strlen(key);
    int blanks = n + 4 <= KEY_COLUMNS ? (int)(KEY_COLUMNS - 2 - n) : 2;
    fprintf(p->out.file, "  %s%*s", key, blanks, "");
    out_wrap(&p->out, KEY_COLUMNS, value);
}

void paste_line(struct paste *p, const char *key, const char *value)
{
    shown_line(p, paste_shown(p, key), paste_shown(p, value));
}

void paste_whole(struct paste *p, const char *key, const char *value)
{
    shown_line(p, key, shown_whole(p, value));
}

const char *paste_unknown(struct paste *p, const char *why)
{
    return arena_printf(p->a, "unknown: %s", why);
}

void paste_fact(struct paste *p, const char *key, const struct host_fact *f, const char *value)
{
    const char *where = f->where ? arena_printf(p->a, "%s: ", f->where) : "";
    const char *why = f->why ? arena_printf(p->a, "%s%s", where, f->why) : "not looked at";
    paste_line(p, key,
               f->state == HOST_YES  ? value ? value : "yes"
               : f->state == HOST_NO ? arena_printf(p->a, "no: %s", why)
                                     : paste_unknown(p, why));
}
