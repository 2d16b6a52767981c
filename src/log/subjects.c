/* What a long text has to name before a verdict is believed of it that any prose may suggest:
 * release notes and manuals are full of crashes, regressions and systems that are not supported. */
#include <string.h>
#include <strings.h>

#include "log/internal.h"

static int texts_decode(struct arena *a, const struct node *list, const char ***ret, size_t *ret_n)
{
    size_t n = list && list->kind == NODE_LIST ? list->n : 0;
    const char **texts = arena_array(a, n + 1, sizeof *texts);
    for (size_t i = 0; i < n; i++) {
        texts[i] = list->items[i].text;
        if (!texts[i]) {
            return -1;
        }
    }
    *ret = texts;
    *ret_n = n;
    return list ? 0 : -1;
}

int subjects_decode(struct log_rules *r, const struct node_file *file, const struct node *from,
                    struct gm_err *err)
{
    struct log_subjects *s = &r->subjects;
    const char *lines = node_text(from, "lines");
    if (!lines || !str_u64(str_of(lines), &s->lines) ||
        texts_decode(r->arena, node_get(from, "names"), &s->names, &s->n_names) < 0 ||
        texts_decode(r->arena, node_get(from, "facts"), &s->facts, &s->n_facts) < 0 ||
        texts_decode(r->arena, node_get(from, "spoken"), &s->spoken, &s->n_spoken) < 0) {
        return node_error(file, from, err,
                          "\"subjects\": \"lines\", \"names\", \"facts\", \"spoken\"");
    }
    return 0;
}

/* At a word's beginning, or behind "lib". */
static bool word_begins(const char *text, const char *at)
{
    return at == text || !str_is_letter(at[-1]) ||
           (at - text >= 3 && strncasecmp(at - 3, "lib", 3) == 0 && word_begins(text, at - 3));
}

bool subjects_in(const struct log_subjects *s, const char *text)
{
    for (size_t i = 0; i < s->n_names; i++) {
        size_t n = strlen(s->names[i]);
        int first = *s->names[i] | 0x20;
        for (const char *at = text; *at; at++) {
            if ((*at | 0x20) == first && strncasecmp(at, s->names[i], n) == 0 &&
                word_begins(text, at)) {
                return true;
            }
        }
    }
    return false;
}

static bool is_of_prose(const struct log_subjects *s, const struct log_fact *fact)
{
    for (size_t i = 0; i < s->n_facts; i++) {
        if (strcmp(s->facts[i], fact->kind) == 0) {
            return true;
        }
    }
    return false;
}

bool subjects_spoken(const struct log_subjects *s, const struct log_fact *fact)
{
    for (size_t i = 0; i < s->n_spoken; i++) {
        if (strcmp(s->spoken[i], fact->kind) == 0) {
            return true;
        }
    }
    return is_of_prose(s, fact);
}

bool subjects_needed(const struct log_subjects *s, const struct log_candidate *c)
{
    for (size_t i = 0; i < c->n_evidence; i++) {
        if (!is_of_prose(s, c->evidence[i]) || subjects_in(s, c->evidence[i]->text)) {
            return false;
        }
    }
    return true;
}
