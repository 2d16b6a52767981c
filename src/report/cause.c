#include "report/cause.h"

#include <string.h>

#include "base/str.h"

enum { CODE_INDENT = 6 }; // of struct diag_page's text

/* How a line of a page is printed: headings and commands stand out, prose does not. */
static enum out_style style_of(struct str line)
{
    size_t blanks = 0;
    while (blanks < line.n && line.s[blanks] == ' ') {
        blanks++;
    }
    return blanks == 0 ? OUT_BOLD : blanks >= CODE_INDENT ? OUT_GREEN : OUT_PLAIN;
}

void report_cause_text(const struct out *o, const struct diag_cause_row *cause)
{
    const struct diag_page *page = diag_page_by_id(cause->id);
    out_print(o, OUT_BOLD, "%s", cause->id);
    fprintf(o->file, "  (%s, class %s)\n\n%s\n\n", diag_severity_name(cause->severity),
            cause->class, cause->title);
    struct str rest = str_of(page ? page->text : "");
    while (rest.n > 0) {
        struct str line = str_cut(&rest, '\n');
        out_print(o, line.n > 0 ? style_of(line) : OUT_PLAIN, "%.*s", (int)line.n, line.s);
        fputc('\n', o->file);
    }
}

json_t *report_cause_json(const struct diag_cause_row *cause)
{
    const struct diag_page *page = diag_page_by_id(cause->id);
    json_t *doc = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:b}", "schema", 1, "cause", cause->id,
                            "class", cause->class, "severity", diag_severity_name(cause->severity),
                            "title", cause->title, "page", page ? page->text : "", "log_only",
                            diag_cause_log_only(cause));
    json_t *parts = page ? json_loads(page->parts, 0, NULL) : json_object();
    if (!doc || !parts || json_object_update(doc, parts) < 0) {
        json_decref(doc);
        doc = NULL;
    }
    json_decref(parts);
    return doc;
}
