/* What a long text has to name before a verdict is believed of it that any prose may suggest:
 * release notes and manuals are full of crashes, regressions and systems that are not supported. */
#include <string.h>
#include <strings.h>

#include "log/internal.h"

static int texts_decode(struct arena *a, const json_t *list, const char ***ret, size_t *ret_n)
{
    const char **texts = arena_array(a, json_array_size(list) + 1, sizeof *texts);
    size_t n = 0;
    for (; n < json_array_size(list); n++) {
        const char *text = json_string_value(json_array_get(list, n));
        if (!text) {
            return -1;
        }
        texts[n] = arena_strdup(a, text);
    }
    *ret = texts;
    *ret_n = n;
    return 0;
}

int subjects_decode(struct log_rules *r, const json_t *from, struct gm_err *err)
{
    struct log_subjects *s = &r->subjects;
    json_int_t lines = json_integer_value(json_object_get(from, "lines"));
    if (texts_decode(r->arena, json_object_get(from, "names"), &s->names, &s->n_names) < 0 ||
        texts_decode(r->arena, json_object_get(from, "facts"), &s->facts, &s->n_facts) < 0 ||
        lines < 0) {
        return gm_err_set(err, GM_ERR_FORMAT, "\"subjects\": \"lines\", \"names\", \"facts\"");
    }
    s->lines = (uint64_t)lines;
    return 0;
}

/* At a word's beginning, or behind "lib". */
static bool begins(const char *text, const char *at)
{
    return at == text || !str_is_letter(at[-1]) ||
           (at - text >= 3 && strncasecmp(at - 3, "lib", 3) == 0 && begins(text, at - 3));
}

bool subjects_in(const struct log_subjects *s, const char *text)
{
    for (size_t i = 0; i < s->n_names; i++) {
        size_t n = strlen(s->names[i]);
        for (const char *at = text; *at; at++) {
            if (strncasecmp(at, s->names[i], n) == 0 && begins(text, at)) {
                return true;
            }
        }
    }
    return false;
}

static bool is_of_prose(const struct log_subjects *s, const char *kind)
{
    for (size_t i = 0; i < s->n_facts; i++) {
        if (strcmp(s->facts[i], kind) == 0) {
            return true;
        }
    }
    return false;
}

bool subjects_needed(const struct log_subjects *s, const struct log_candidate *c)
{
    for (size_t i = 0; i < c->n_evidence; i++) {
        if (!is_of_prose(s, c->evidence[i]->kind) || subjects_in(s, c->evidence[i]->text)) {
            return false;
        }
    }
    return true;
}
