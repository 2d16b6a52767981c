/* The fields of an issue form: a label is a heading, and its value the only line below it. The two
 * say together what neither says alone ("### TensorFlow version", "2.12.1"). */
#include <string.h>

#include "log/reading.h"

enum { LABEL_MAX = 60, FORM_VALUE_MAX = 100 };

/* A label, and the value below it as far as it was read. */
struct form_field {
    struct str label; // empty: no heading, or more than a value below it
    struct str value;
    uint64_t at; // line of the value
};

/* The text of a heading of Markdown, or nothing. */
static struct str heading_label(struct str line)
{
    size_t marks = 0;
    while (marks < line.n && line.s[marks] == '#') {
        marks++;
    }
    bool heading = marks && marks <= 6 && marks < line.n && line.s[marks] == ' ';
    struct str label =
        heading ? str_trim((struct str){line.s + marks, line.n - marks}) : (struct str){line.s, 0};
    return label.n <= LABEL_MAX ? label : (struct str){line.s, 0};
}

static bool is_form_value(struct str line)
{
    return line.n <= FORM_VALUE_MAX && !strchr("#`-*|<>![_", line.s[0]);
}

/* Reads label and value as one line. What is quoted as evidence is the value's own line. */
static void take_field(struct log *l, const struct form_field *f)
{
    char both[LABEL_MAX + 2 + FORM_VALUE_MAX];
    if (!f->label.n || !f->value.n) {
        return;
    }
    memcpy(both, f->label.s, f->label.n);
    memcpy(both + f->label.n, ": ", 2);
    memcpy(both + f->label.n + 2, f->value.s, f->value.n);
    l->line = f->at;
    l->store.text = arena_strndup(l->store.arena, f->value.s, f->value.n);
    l->store.text_line = l->line + l->inner;
    l->store.text_from = both;
    log_take_segment(l, both, f->label.n + 2 + f->value.n);
}

void log_take_form(struct log *l)
{
    struct str rest = {l->whole, l->n_whole}, line;
    struct form_field f = {.at = 0};
    uint64_t lines = l->line;
    size_t before = l->store.facts.n;
    l->table = TABLE_NONE;
    l->screen.screen = SCREEN_NONE;
    l->refuted_by = NULL;
    for (uint64_t number = 1; str_line(&rest, &line); number++) {
        line = str_trim(line);
        struct str label = heading_label(line);
        if (label.n) {
            take_field(l, &f);
            f = (struct form_field){.label = label};
        } else if (line.n && (f.value.n || !is_form_value(line))) {
            f.label.n = 0; // a paragraph, a list, code
        } else if (line.n) {
            f.value = line;
            f.at = number;
        }
    }
    take_field(l, &f);
    l->line = lines;
    store_sort(&l->store, before);
}
