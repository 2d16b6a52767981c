#include "report/html.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/str.h"
#include "report/html_internal.h"

extern const char report_page_html[]; // src/report/page.html

/* The folder of the environment, and the site folder of most of its packages. */
static void find_folders(struct html *h)
{
    const json_t *python = json_object_get(h->document, "python");
    const json_t *packages = html_list(python, "packages");
    const char *site = html_member(json_array_get(packages, 0), "site");
    const char *prefix = html_member(python, "prefix");
    bool own = *prefix && strcmp(html_member(python, "kind"), "system") != 0;
    h->folders[0] = (struct html_folder){*site ? site : NULL, "<site>"};
    h->folders[1] = (struct html_folder){own ? prefix : NULL, "<env>"};
}

/* ------------------------------------------------------------------ head and verdict */

static const char *command_of(const struct html *h)
{
    const char *command = html_member(h->page, "command");
    return *command ? command : "gpumend";
}

static void put_title(const struct html *h)
{
    html_text(h, command_of(h));
    fputs(": ", h->file);
    html_text(h, html_member(h->page, "verdict"));
}

static void put_heading(const struct html *h)
{
    html_text(h, command_of(h));
    fputs(" ", h->file);
    html_path(h, html_member(h->page, "target"));
}

static void put_head(const struct html *h)
{
    fputs("<pre>", h->file);
    struct str rest = str_of(html_member(h->page, "head")), line;
    while (str_line(&rest, &line)) {
        html_text(h, str_dup(h->a, line));
        fputc('\n', h->file);
    }
    fputs("</pre>\n", h->file);
}

static void put_items(const struct html *h, const json_t *list, bool are_paths)
{
    fputs("<ul>", h->file);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        fputs(are_paths ? "<li><code>" : "<li>", h->file);
        (are_paths ? html_path : html_text)(h, text ? text : "");
        fputs(are_paths ? "</code></li>\n" : "</li>\n", h->file);
    }
    fputs("</ul>", h->file);
}

static void put_texts(const struct html *h, const json_t *list, const char *label)
{
    if (json_array_size(list)) {
        fprintf(h->file, "<details><summary>%s (%zu)</summary>", label, json_array_size(list));
        put_items(h, list, false);
        fputs("</details>\n", h->file);
    }
}

static void put_command(const struct html *h, const char *command)
{
    fputs("<pre><code>", h->file);
    struct str rest = str_of(command), line;
    for (bool more = false; str_line(&rest, &line); more = true) {
        fputs(more ? "\n" : "", h->file);
        html_text(h, str_dup(h->a, line));
    }
    fputs("</code></pre>\n", h->file);
}

static void put_repairs(const struct html *h, const json_t *finding)
{
    const json_t *list = html_list(finding, "repairs");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *repair = json_array_get(list, i);
        fputs(i ? "<p>Or: " : "<p>To do: ", h->file);
        html_text(h, html_member(repair, "text"));
        fputs("</p>\n", h->file);
        if (html_has(repair, "command")) {
            put_command(h, html_member(repair, "command"));
        }
    }
}

static const char *severity_of(const json_t *finding)
{
    const char *severity = html_member(finding, "severity");
    return strcmp(severity, "error") == 0     ? "error"
           : strcmp(severity, "warning") == 0 ? "warning"
                                              : "note";
}

static void put_finding(const struct html *h, const json_t *finding)
{
    const char *severity = severity_of(finding);
    fprintf(h->file, "<article class=\"finding %s\"><h2><span class=\"word\">%s</span> <code>",
            severity, severity);
    html_text(h, html_member(finding, "cause"));
    fputs("</code></h2>\n<p>", h->file);
    html_text(h, html_member(finding, "summary"));
    fputs("</p>\n", h->file);
    put_texts(h, html_list(finding, "evidence"), "Evidence");
    put_texts(h, html_list(finding, "likewise"), "The same fault");
    put_texts(h, html_list(finding, "scripts"), "In which programs");
    put_repairs(h, finding);
    fputs("</article>\n", h->file);
}

static void put_commands(const struct html *h)
{
    const json_t *list = html_list(h->page, "commands");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *command = json_array_get(list, i);
        fputs("<p>Repair, ", h->file);
        html_text(h, html_member(command, "label"));
        fputs(": ", h->file);
        html_text(h, html_member(command, "title"));
        fputs("</p>\n", h->file);
        put_command(h, html_member(command, "command"));
        if (html_has(command, "remark")) {
            fputs("<p class=\"soft\">", h->file);
            html_text(h, html_member(command, "remark"));
            fputs("</p>\n", h->file);
        }
    }
}

static const char *verdict_class(const char *verdict)
{
    return strcmp(verdict, "ok") == 0 || strcmp(verdict, "loads") == 0       ? "ok"
           : strcmp(verdict, "broken") == 0 || strcmp(verdict, "fails") == 0 ? "broken"
                                                                             : "unknown";
}

static void put_verdict(const struct html *h)
{
    const char *verdict = html_member(h->page, "verdict");
    const json_t *findings = html_list(h->shown, "findings");
    fprintf(h->file,
            "<section aria-label=\"Verdict\">\n<p class=\"verdict %s\"><span class=\"word\" "
            "id=\"verdict\">",
            verdict_class(verdict));
    html_text(h, verdict);
    fputs("</span> ", h->file);
    html_text(h, html_member(h->page, "sentence"));
    fputs("</p>\n", h->file);
    put_commands(h);
    for (size_t i = 0; i < json_array_size(findings); i++) {
        put_finding(h, json_array_get(findings, i));
    }
    put_texts(h, html_list(h->shown, "fine"), "Fine");
    put_texts(h, html_list(h->shown, "notes"), "Notes");
    fputs("</section>\n", h->file);
}

/* ------------------------------------------------------------------ origins */

static const char *const origin_names[] = {"wheel",  "conda",  "CUDA toolkit",
                                           "driver", "system", "other"};
enum { ORIGINS = sizeof origin_names / sizeof *origin_names };

static void put_origin_cell(const struct html *h, const json_t *family, const char *origin)
{
    const json_t *cells = html_list(family, "cells");
    fputs("<td>", h->file);
    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);
        if (strcmp(html_member(cell, "origin"), origin) != 0) {
            continue;
        }
        fputs("<span class=\"word\">", h->file);
        html_text(h, html_member(cell, "version"));
        fputs("</span>", h->file);
        put_items(h, html_list(cell, "files"), true);
    }
    fputs("</td>", h->file);
}

/* Which is said in words, since a colour alone does not reach everybody. */
static void put_bindings(const struct html *h, const json_t *family)
{
    json_int_t origins = json_integer_value(json_object_get(family, "n_origins"));
    json_int_t versions = json_integer_value(json_object_get(family, "n_versions"));
    if (origins > 1) {
        fprintf(h->file, "<br><span class=\"failed\">from %d origins</span>", (int)origins);
    }
    if (versions > 1) {
        fprintf(h->file, "<br><span class=\"failed\">%d versions</span>", (int)versions);
    }
}

static void put_origins(const struct html *h)
{
    const json_t *families = html_list(h->page, "families");
    if (json_array_size(families) == 0) {
        return;
    }
    fputs("<section aria-labelledby=\"origins\"><h2 id=\"origins\">Where the libraries come "
          "from</h2>\n<div class=\"wide\" role=\"region\" aria-label=\"table of origins\" "
          "tabindex=\"0\"><table><thead><tr><th scope=\"col\">family</th>",
          h->file);
    for (size_t i = 0; i < ORIGINS; i++) {
        fprintf(h->file, "<th scope=\"col\">%s</th>", origin_names[i]);
    }
    fputs("</tr></thead><tbody>\n", h->file);
    for (size_t i = 0; i < json_array_size(families); i++) {
        const json_t *family = json_array_get(families, i);
        fputs("<tr><th scope=\"row\">", h->file);
        html_text(h, html_member(family, "title"));
        put_bindings(h, family);
        fputs("</th>", h->file);
        for (size_t k = 0; k < ORIGINS; k++) {
            put_origin_cell(h, family, origin_names[k]);
        }
        fputs("</tr>\n", h->file);
    }
    fputs("</tbody></table></div></section>\n", h->file);
}

/* ------------------------------------------------------------------ data */

/* The bytes as a member of gzip (RFC 1952) without name and time; NULL: out of memory. */
static unsigned char *pack(struct arena *a, const char *text, size_t n, size_t *ret_n)
{
    enum { WINDOW_OF_GZIP = 15 + 16, MEMORY = 9 };
    z_stream z = {0};
    if (n > UINT32_MAX / 2 || deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, WINDOW_OF_GZIP,
                                           MEMORY, Z_DEFAULT_STRATEGY) != Z_OK) {
        return NULL;
    }
    gz_header header = {.os = 3}; // whatever system writes it, the page is the same
    if (deflateSetHeader(&z, &header) != Z_OK) {
        (void)deflateEnd(&z); // nothing was written yet
        return NULL;
    }
    size_t cap = deflateBound(&z, (uLong)n);
    unsigned char *out = arena_alloc(a, cap);
    z.next_in = (unsigned char *)(uintptr_t)text; // which zlib does not write to
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)cap;
    int rc = deflate(&z, Z_FINISH);
    *ret_n = cap - z.avail_out;
    (void)deflateEnd(&z); // fails only for a stream that is not at its end
    return rc == Z_STREAM_END ? out : NULL;
}

static int put_data(const struct html *h)
{
    size_t n = 0;
    char *text = json_dumps(h->document, JSON_COMPACT);
    unsigned char *packed = text ? pack(h->a, text, strlen(text), &n) : NULL;
    free(text);
    if (!packed) {
        return -1;
    }
    const char *name = strcmp(command_of(h), "gpumend why") == 0 ? "why" : "check";
    fprintf(h->file,
            "<p><a id=\"document\" download=\"%s.json.gz\" "
            "href=\"data:application/gzip;base64,%s\">%s.json.gz</a>: the document of "
            "<code>gpumend %s --json</code>, compressed with gzip (%zu bytes).</p>\n",
            name, str_base64(h->a, packed, n), name, name, n);
    return 0;
}

/* ------------------------------------------------------------------ the page */

static int put_slot(const struct html *h, struct str name)
{
    static const struct {
        const char *name;
        void (*put)(const struct html *h);
    } slots[] = {
        {"title", put_title},     {"heading", put_heading},  {"head", put_head},
        {"verdict", put_verdict}, {"ladders", html_ladders}, {"origins", put_origins},
        {"loads", html_loads},    {"tree", html_tree},
    };
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        if (str_is(name, slots[i].name)) {
            slots[i].put(h);
            return 0;
        }
    }
    return put_data(h);
}

int report_html(FILE *file, struct arena *a, const json_t *page)
{
    struct html h = {.file = file, .a = a, .page = page};
    h.document = json_object_get(page, "document");
    h.shown = json_object_get(page, "shown");
    h.shown = h.shown ? h.shown : h.document;
    h.is_windows = strcmp(html_member(page, "system"), "windows") == 0;
    find_folders(&h);
    const char *at = report_page_html;
    for (const char *slot; (slot = strstr(at, "{{")) != NULL;) {
        const char *end = strstr(slot, "}}");
        fwrite(at, 1, (size_t)(slot - at), file); // ferror() tells
        if (put_slot(&h, (struct str){slot + 2, (size_t)(end - slot - 2)}) < 0) {
            return -1;
        }
        at = end + 2;
    }
    fputs(at, file);
    return 0;
}

/* ------------------------------------------------------------------ redaction */

struct redaction {
    const char *(*text_of)(void *ctx, const char *text);
    void *ctx;
    bool failed; // out of memory: something is as it was
};

static void redact(struct redaction *r, json_t *value);

/* What takes the place of a text; NULL: it is none. */
static json_t *redacted(struct redaction *r, json_t *value)
{
    if (!json_is_string(value)) {
        redact(r, value);
        return NULL;
    }
    json_t *text = json_string(r->text_of(r->ctx, json_string_value(value)));
    r->failed |= !text;
    return text;
}

static void redact(struct redaction *r, json_t *value)
{
    const char *key;
    json_t *member, *text;
    size_t i;
    void *next;
    json_object_foreach_safe(value, next, key, member)
    {
        text = redacted(r, member);
        r->failed |= text && json_object_set_new_nocheck(value, key, text) < 0;
    }
    json_array_foreach(value, i, member)
    {
        text = redacted(r, member);
        r->failed |= text && json_array_set_new(value, i, text) < 0;
    }
}

int report_html_redact(json_t *page, const char *(*text_of)(void *ctx, const char *text), void *ctx)
{
    struct redaction r = {.text_of = text_of, .ctx = ctx};
    redact(&r, page);
    return r.failed ? -1 : 0;
}
