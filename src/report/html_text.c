/* What the sections of the page write with, and read the document with. */
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "report/html_internal.h"

/* ------------------------------------------------------------------ text */

static void put_escaped(FILE *file, const char *text)
{
    for (const char *s = text; *s; s++) {
        switch (*s) {
        case '&': fputs("&amp;", file); break;
        case '<': fputs("&lt;", file); break;
        case '>': fputs("&gt;", file); break;
        case '"': fputs("&quot;", file); break;
        case '\'': fputs("&#39;", file); break;
        default: fputc(*s, file);
        }
    }
}

void html_text(const struct html *h, const char *text)
{
    put_escaped(h->file, str_printable(h->a, text));
}

/* A folder stands for itself only at the end of the text or before a slash. */
static const struct html_folder *folder_at(const struct html *h, const char *text)
{
    for (size_t i = 0; i < sizeof h->folders / sizeof *h->folders; i++) {
        const struct html_folder *f = &h->folders[i];
        size_t n = f->path ? strlen(f->path) : 0;
        if (n && strncmp(text, f->path, n) == 0 && (!text[n] || text[n] == '/')) {
            return f;
        }
    }
    return NULL;
}

void html_path(const struct html *h, const char *text)
{
    const struct html_folder *f = folder_at(h, text);
    if (f) {
        put_escaped(h->file, f->name);
        text += strlen(f->path);
    }
    html_text(h, text);
}

const char *html_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* ------------------------------------------------------------------ the document */

const char *html_member(const json_t *object, const char *key)
{
    const char *text = json_text(object, key);
    return text ? text : "";
}

bool html_has(const json_t *object, const char *key)
{
    return *html_member(object, key) != '\0';
}

const json_t *html_list(const json_t *object, const char *key)
{
    const json_t *list = json_object_get(object, key);
    return json_is_array(list) ? list : NULL; // whose size is 0
}

size_t html_n_processes(const struct html *h)
{
    const json_t *list = html_list(h->shown, "processes");
    return list ? json_array_size(list) : 1;
}

const json_t *html_process(const struct html *h, size_t i)
{
    const json_t *list = html_list(h->shown, "processes");
    return list ? json_array_get(list, i) : h->shown;
}

void html_script(const struct html *h, const json_t *process)
{
    const json_t *script = html_list(process, "script");
    if (json_array_size(script) == 0) {
        html_path(h, html_member(json_array_get(html_list(process, "objects"), 0), "path"));
    }
    for (size_t i = 0; i < json_array_size(script); i++) {
        const char *step = json_string_value(json_array_get(script, i));
        fputs(i ? "; " : "", h->file);
        html_text(h, step ? step : "");
    }
}
