#include "report/kb.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"

/* Sources shown to people; the rest is in the JSON. */
enum { SOURCES_SHOWN = 4 };

static json_t *row_json(const struct kb_hit *hit)
{
    json_t *item = json_object();
    json_t *row = kb_row_json(hit->area, hit->row);
    json_put(item, "area", json_string_nocheck(kb_area_name(hit->area)));
    (void)json_object_update(item, row);
    json_decref(row);
    return item;
}

static bool array_has_text(const json_t *list, const char *text)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)list, i, item)
    {
        if (strcmp(json_string_value(item), text) == 0) {
            return true;
        }
    }
    return false;
}

/* Where the rows come from, each source once, in the order of the rows. */
static json_t *sources_json(const struct kb_answer *answer)
{
    json_t *list = json_array();
    for (size_t i = 0; i < answer->hits.n; i++) {
        const struct kb_origin *origin = answer->hits.items[i].origin;
        for (size_t s = 0; origin && s < origin->sources.n; s++) {
            if (!array_has_text(list, origin->sources.items[s])) {
                json_add(list, json_string_nocheck(origin->sources.items[s]));
            }
        }
    }
    return list;
}

json_t *report_kb_json(const struct kb_answer *answer)
{
    json_t *doc = json_object();
    json_t *rows = json_array();
    for (size_t i = 0; i < answer->hits.n; i++) {
        json_add(rows, row_json(&answer->hits.items[i]));
    }
    json_put(doc, "schema", json_integer(1));
    json_put(doc, "known", json_boolean(answer->known));
    json_put(doc, "answer", json_string_nocheck(answer->text));
    json_put(doc, "source", sources_json(answer));
    json_put(doc, "rows", rows);
    if (answer->read_as) {
        json_put(doc, "read_as", json_string_nocheck(answer->read_as));
    }
    return doc;
}

static void rows_text(const struct out *o, struct arena *a, const struct kb_answer *answer)
{
    for (size_t i = 0; i < answer->hits.n; i++) {
        const struct kb_hit *hit = &answer->hits.items[i];
        json_t *row = kb_row_json(hit->area, hit->row);
        char *line = json_dumps(row, JSON_COMPACT);
        fprintf(o->file, "%s\n", line ? str_printable(a, line) : "");
        free(line);
        json_decref(row);
    }
}

/* Sentences are wrapped, lines of a table are not. */
static void answer_text(const struct out *o, struct arena *a, const char *text)
{
    struct str rest = str_of(text);
    while (rest.s) {
        struct str line = str_cut(&rest, '\n');
        const char *shown = str_printable(a, str_dup(a, line));
        if (str_starts(line, "  ")) {
            fprintf(o->file, "%s\n", shown);
        } else {
            out_wrap(o, 0, shown);
        }
    }
}

void report_kb_text(const struct out *o, struct arena *a, const struct kb_answer *answer)
{
    if (answer->hits.n && !answer->hits.items[0].origin) {
        rows_text(o, a, answer); // rows were asked for, not an answer
        return;
    }
    if (answer->read_as) {
        out_print(o, OUT_DIM, "read as: %s\n", str_printable(a, answer->read_as));
    }
    answer_text(o, a, answer->text);
    json_t *sources = sources_json(answer);
    size_t i;
    json_t *source;
    json_array_foreach(sources, i, source)
    {
        if (i < SOURCES_SHOWN) {
            out_print(o, OUT_DIM, "  source: %s\n", str_printable(a, json_string_value(source)));
        }
    }
    if (i > SOURCES_SHOWN) {
        out_print(o, OUT_DIM, "  and %zu more sources (--json)\n", i - SOURCES_SHOWN);
    }
    json_decref(sources);
}
