/* The weights of words, decoded from the knowledge base. */
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "log/internal.h"
#include "log/words.h"

enum { WEIGHT_MAX = 10000 };

static int wrong(struct gm_err *err, const char *what)
{
    return gm_err_set(err, GM_ERR_FORMAT, "%s", what);
}

static int classes_decode(struct arena *a, struct words *w, const json_t *list, struct gm_err *err)
{
    if (json_array_size(list) < 1 || json_array_size(list) > CLASSES_MAX) {
        return wrong(err, "1 to 64 classes");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *name = json_text(item, "class");
        if (!name) {
            return wrong(err, "a class has a name");
        }
        w->classes[w->n_classes] = arena_strdup(a, name);
        w->bias[w->n_classes++] = json_number_value(json_object_get(item, "bias"));
    }
    return 0;
}

static int signs_decode(struct arena *a, struct words *w, const json_t *list, struct gm_err *err)
{
    if (json_array_size(list) > SIGNS_MAX) {
        return wrong(err, "too many signs");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *sign = json_string_value(json_array_get(list, i));
        if (!sign) {
            return wrong(err, "a sign is a text");
        }
        w->signs[w->n_signs++] = arena_strdup(a, sign);
    }
    return 0;
}

/* Cuts a number off; false if there is none within what a weight may be. */
static bool cut_number(struct str *text, int *ret)
{
    struct str digits = str_cut(text, ' ');
    bool negative = digits.n > 1 && digits.s[0] == '-';
    uint64_t value;
    digits = (struct str){digits.s + negative, digits.n - negative};
    if (!digits.s || !str_u64(digits, &value) || value > WEIGHT_MAX) {
        return false;
    }
    *ret = negative ? -(int)value : (int)value;
    return true;
}

static int weights_decode(const struct words *w, const char *pairs, int16_t *to, struct gm_err *err)
{
    struct str rest = str_of(pairs);
    int class, weight;
    while (rest.n) {
        if (!cut_number(&rest, &class) || !cut_number(&rest, &weight) || class < 0 ||
            (size_t) class >= w->n_classes) {
            return wrong(err, "weights: pairs of a class's index and a number");
        }
        to[class] = (int16_t)weight;
    }
    return 0;
}

static void table_add(struct words *w, size_t row)
{
    const char *text = w->rows[row].text;
    size_t at = str_hash(text, strlen(text)) & (w->cap - 1);
    while (w->table[at]) {
        at = (at + 1) & (w->cap - 1);
    }
    w->table[at] = (uint32_t)row + 1;
}

static int words_decode(struct arena *a, struct words *w, const json_t *list, struct gm_err *err)
{
    size_t n = json_array_size(list);
    for (w->cap = 64; w->cap < 2 * n;) {
        w->cap *= 2;
    }
    w->table = arena_array(a, w->cap, sizeof *w->table);
    w->rows = arena_array(a, n + 1, sizeof *w->rows);
    int16_t *weights = arena_array(a, n * w->n_classes + 1, sizeof *weights);
    for (size_t i = 0; i < n; i++, weights += w->n_classes) {
        const json_t *item = json_array_get(list, i);
        const char *id = json_text(item, "id");
        const char *pairs = json_text(item, "weights");
        json_int_t idf = json_integer_value(json_object_get(item, "idf"));
        if (!id || !pairs || idf < 1 || idf > WEIGHT_MAX) {
            return wrong(err, "a row has \"id\", \"idf\" and \"weights\"");
        }
        w->rows[w->n_rows] = (struct word){arena_strdup(a, id), (float)idf / 100, weights};
        table_add(w, w->n_rows++);
        if (weights_decode(w, pairs, weights, err) < 0) {
            return err->code;
        }
    }
    return 0;
}

int words_load(struct log_rules *r, struct gm_err *err)
{
    json_t *doc;
    if (kb_document(r->kb, "words", &doc, err) < 0) {
        return err->code;
    }
    struct words *w = arena_alloc(r->arena, sizeof *w);
    w->enough = json_number_value(json_object_get(doc, "enough"));
    w->sure = json_number_value(json_object_get(doc, "sure"));
    w->steps = json_number_value(json_object_get(doc, "steps"));
    int rc = w->steps > 0 ? 0 : wrong(err, "\"steps\" is above 0");
    rc = rc < 0 ? rc : classes_decode(r->arena, w, json_object_get(doc, "classes"), err);
    rc = rc < 0 ? rc : signs_decode(r->arena, w, json_object_get(doc, "signs"), err);
    rc = rc < 0 ? rc : words_decode(r->arena, w, json_object_get(doc, "rows"), err);
    json_decref(doc);
    r->words = rc < 0 ? NULL : w;
    return rc < 0 ? gm_err_wrap(err, "%s/words.json", r->kb->folder ? r->kb->folder : "kb") : 0;
}

const struct word *log_word_find(const struct words *w, const char *text, size_t n)
{
    for (size_t at = str_hash(text, n) & (w->cap - 1); w->table[at]; at = (at + 1) & (w->cap - 1)) {
        const struct word *row = &w->rows[w->table[at] - 1];
        if (strncmp(row->text, text, n) == 0 && row->text[n] == '\0') {
            return row;
        }
    }
    return NULL;
}
