#include "fleet/html.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/out.h"
#include "base/str.h"

extern const char fleet_page_html[]; // src/fleet/page.html

enum { NAMES_SHOWN = 8 };

struct html {
    FILE *file;
    struct arena *a;
    const json_t *doc;
};

/* ------------------------------------------------------------------ texts */

/* Foreign text, printable and escaped. */
static void html_put_text(const struct html *h, const char *text)
{
    for (const char *s = str_printable(h->a, text); *s; s++) {
        switch (*s) {
        case '&': fputs("&amp;", h->file); break;
        case '<': fputs("&lt;", h->file); break;
        case '>': fputs("&gt;", h->file); break;
        case '"': fputs("&quot;", h->file); break;
        case '\'': fputs("&#39;", h->file); break;
        default: fputc(*s, h->file);
        }
    }
}

/* A text as it is, anything else as JSON, and "-" for null. */
static const char *plain(struct arena *a, const json_t *value)
{
    char *text = json_is_string(value) || json_is_null(value) || !value
                     ? NULL
                     : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    const char *kept = json_is_string(value) ? json_string_value(value)
                       : text                ? arena_strdup(a, text)
                                             : "-";
    free(text);
    return kept;
}

/* ------------------------------------------------------------------ tables */

static const char *member(const struct html *h, const json_t *object, const char *key)
{
    return plain(h->a, json_object_get(object, key));
}

static void put_cell(const struct html *h, const char *text)
{
    fputs("<td>", h->file);
    html_put_text(h, text);
    fputs("</td>", h->file);
}

/* The first names, and all of them behind a summary. */
static void put_names(const struct html *h, const json_t *names)
{
    size_t n = json_array_size(names);
    bool folded = n > NAMES_SHOWN;
    fprintf(h->file, folded ? "<td><details><summary>%zu nodes: " : "<td>", n);
    for (size_t i = 0; i < n && i < NAMES_SHOWN; i++) {
        fputs(i ? ", " : "", h->file);
        html_put_text(h, plain(h->a, json_array_get(names, i)));
    }
    fputs(folded ? ", ...</summary>" : "", h->file);
    for (size_t i = NAMES_SHOWN; folded && i < n; i++) {
        fputs(i > NAMES_SHOWN ? ", " : "", h->file);
        html_put_text(h, plain(h->a, json_array_get(names, i)));
    }
    fputs(folded ? "</details></td>" : "</td>", h->file);
}

/* The head of a section with a table; what it lacks is one sentence. False: there are no rows. */
static bool begin_section(const struct html *h, const char *id, const char *title, size_t n,
                          const char *none, const char *const *columns, size_t n_columns)
{
    fprintf(h->file, "<section aria-labelledby=\"%s\">\n<h2 id=\"%s\">%s</h2>\n", id, id, title);
    if (!n) {
        fprintf(h->file, "<p class=\"soft\">%s</p>\n</section>\n", none);
        return false;
    }
    fputs("<div class=\"wide\"><table>\n<thead><tr>", h->file);
    for (size_t i = 0; i < n_columns; i++) {
        fprintf(h->file, "<th scope=\"col\">%s</th>", columns[i]);
    }
    fputs("</tr></thead>\n<tbody>\n", h->file);
    return true;
}

static void end_section(const struct html *h)
{
    fputs("</tbody></table></div>\n</section>\n", h->file);
}

/* A section whose rows are the members of its objects. */
struct section {
    const char *list, *title, *none;
    const char *const *columns;
    const char *const *keys;
    size_t n;
};

static void put_section(const struct html *h, const struct section *s)
{
    const json_t *list = json_object_get(h->doc, s->list);
    if (!begin_section(h, s->list, s->title, json_array_size(list), s->none, s->columns, s->n)) {
        return;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        fputs("<tr>", h->file);
        for (size_t k = 0; k < s->n; k++) {
            put_cell(h, member(h, json_array_get(list, i), s->keys[k]));
        }
        fputs("</tr>\n", h->file);
    }
    end_section(h);
}

/* ------------------------------------------------------------------ sections */

static void put_verdict(const struct html *h)
{
    const json_t *v = json_object_get(h->doc, "verdicts");
    long long ok = json_whole(v, "ok"), broken = json_whole(v, "broken"),
              unknown = json_whole(v, "unknown"), nodes = json_whole(h->doc, "nodes");
    long long damaged = (long long)json_array_size(json_object_get(h->doc, "damaged"));
    const char *word = broken ? "broken" : unknown || damaged || nodes == 0 ? "unknown" : "ok";
    fprintf(
        h->file,
        "<p class=\"verdict %s\"><span class=\"word\" id=\"verdict\">%s</span> %lld nodes: %lld "
        "ok, %lld broken, %lld unknown</p>\n",
        word, word, nodes, ok, broken, unknown);
}

static void put_causes(const struct html *h)
{
    static const char *const columns[] = {"Cause", "Severity", "Nodes", "Which"};
    const json_t *list = json_object_get(h->doc, "causes");
    if (!begin_section(h, "causes", "Causes", json_array_size(list), "No node has a finding.",
                       columns, 4)) {
        return;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i), *names = json_object_get(one, "nodes");
        const char *severity = member(h, one, "severity");
        fprintf(h->file, "<tr class=\"%s\"><td><code>",
                strcmp(severity, "error") == 0 ? "error" : "warning");
        html_put_text(h, member(h, one, "cause"));
        fputs("</code></td><td class=\"word\">", h->file);
        html_put_text(h, severity);
        fprintf(h->file, "</td><td>%zu</td>", json_array_size(names));
        put_names(h, names);
        fputs("</tr>\n", h->file);
    }
    end_section(h);
}

static void put_unknown(const struct html *h)
{
    static const char *const columns[] = {"Node", "Why"}, *const keys[] = {"node", "says"};
    put_section(h, &(struct section){"unknown", "Nodes that could not be judged",
                                     "Every node could be judged.", columns, keys, 2});
}

static void put_differs(const struct html *h)
{
    static const char *const columns[] = {"Node",          "Fact", "It has", "The majority has",
                                          "So many nodes", "Of"},
                             *const keys[] = {"node", "fact", "value", "majority", "of", "in"};
    put_section(h, &(struct section){"differs", "Who differs from the nodes with the same GPUs",
                                     "No node differs from the majority.", columns, keys, 6});
}

static void put_rare(const struct html *h)
{
    static const char *const columns[] = {"Node", "GPUs"}, *const keys[] = {"node", "gpu_names"};
    put_section(h, &(struct section){"rare", "Nodes with GPUs that hardly another has",
                                     "There are none.", columns, keys, 2});
}

static void put_changed(const struct html *h)
{
    static const char *const columns[] = {"Node", "What", "Before", "Now"};
    const json_t *list = json_object_get(h->doc, "changed");
    if (!begin_section(h, "changed", "What changed since the last sweep", json_array_size(list),
                       "Nothing changed, or there is one sweep only.", columns, 4)) {
        return;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i), *changes = json_object_get(one, "changes");
        for (size_t k = 0; k < json_array_size(changes); k++) {
            const json_t *change = json_array_get(changes, k);
            fputs("<tr>", h->file);
            put_cell(h, member(h, one, "node"));
            put_cell(h, member(h, change, "what"));
            put_cell(h, member(h, change, "before"));
            put_cell(h, member(h, change, "now"));
            fputs("</tr>\n", h->file);
        }
    }
    end_section(h);
}

static void put_cohorts(const struct html *h)
{
    static const char *const columns[] = {"Host",   "Environment", "GPUs",  "Driver",
                                          "Kernel", "System",      "Nodes", "Which"};
    static const char *const facts[] = {"gpu_names", "driver", "kernel", "os"};
    const json_t *list = json_object_get(h->doc, "cohorts");
    if (!begin_section(h, "cohorts", "Cohorts: nodes with equal facts", json_array_size(list),
                       "There are no nodes.", columns, 8)) {
        return;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i), *names = json_object_get(one, "nodes");
        fputs("<tr>", h->file);
        put_cell(h, member(h, one, "host"));
        put_cell(h, member(h, one, "environment"));
        for (size_t k = 0; k < sizeof facts / sizeof *facts; k++) {
            put_cell(h, member(h, json_object_get(one, "facts"), facts[k]));
        }
        fprintf(h->file, "<td>%zu</td>", json_array_size(names));
        put_names(h, names);
        fputs("</tr>\n", h->file);
    }
    end_section(h);
}

static void put_damaged(const struct html *h)
{
    static const char *const columns[] = {"File", "Line", "Why"}, *const keys[] = {"file", "line",
                                                                                   "why"};
    long long more = json_whole(h->doc, "damaged_left_out");
    put_section(h, &(struct section){"damaged", "Damaged lines and files",
                                     "Every line and file could be read.", columns, keys, 3});
    if (more) {
        fprintf(h->file, "<p>and %lld more</p>\n", more);
    }
}

/* ------------------------------------------------------------------ the page */

void fleet_html(FILE *file, struct arena *a, const json_t *doc)
{
    static const struct {
        const char *name;
        void (*put)(const struct html *h);
    } slots[] = {{"verdict", put_verdict}, {"causes", put_causes},  {"unknown", put_unknown},
                 {"differs", put_differs}, {"rare", put_rare},      {"changed", put_changed},
                 {"cohorts", put_cohorts}, {"damaged", put_damaged}};
    const struct html h = {file, a, doc};
    const char *at = fleet_page_html;
    for (const char *slot; (slot = strstr(at, "{{")) != NULL;) {
        const char *end = strstr(slot, "}}");
        struct str name = {slot + 2, (size_t)(end - slot - 2)};
        fwrite(at, 1, (size_t)(slot - at), file); // ferror() tells
        for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
            if (str_is(name, slots[i].name)) {
                slots[i].put(&h);
            }
        }
        at = end + 2;
    }
    fputs(at, file);
}
