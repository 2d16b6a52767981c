/* Signatures and rules out of kb/signatures*.json and kb/verdicts*.json. */
#include <string.h>

#include "log/internal.h"

static const char *const confidence_words[] = {
    [LOG_POSSIBLE] = "possible", [LOG_LIKELY] = "likely", [LOG_CERTAIN] = "certain"};
static const char *const platform_words[LOG_PLATFORMS] = {
    [LOG_ANY] = "any",         [LOG_LINUX] = "linux",         [LOG_WINDOWS] = "windows",
    [LOG_WSL] = "wsl",         [LOG_CONTAINER] = "container", [LOG_JETSON] = "jetson",
    [LOG_MACOS] = "macos",
};

const char *log_confidence_name(enum log_confidence confidence)
{
    return confidence_words[confidence];
}

const char *log_platform_name(enum log_platform platform)
{
    return platform_words[platform];
}

static int word_index(const char *const *words, size_t n, const char *word)
{
    for (size_t i = 0; word && i < n; i++) {
        if (strcmp(words[i], word) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* ------------------------------------------------------------------ interning */

static void intern_grow(struct log_rules *r)
{
    size_t cap = r->cap_interned ? 2 * r->cap_interned : 1024;
    const char **table = arena_array(r->arena, cap, sizeof *table);
    for (size_t i = 0; i < r->cap_interned; i++) {
        const char *text = r->interned[i];
        for (size_t at = text ? str_hash(text, strlen(text)) : 0; text; at++) {
            if (!table[at & (cap - 1)]) {
                table[at & (cap - 1)] = text;
                break;
            }
        }
    }
    r->interned = table;
    r->cap_interned = cap;
}

const char *rules_intern(struct log_rules *r, const char *text, size_t n)
{
    if (2 * (r->n_interned + 1) > r->cap_interned) {
        intern_grow(r);
    }
    for (size_t at = str_hash(text, n);; at++) {
        const char **slot = &r->interned[at & (r->cap_interned - 1)];
        if (!*slot) {
            r->n_interned++;
            return *slot = arena_strndup(r->arena, text, n);
        }
        if (strncmp(*slot, text, n) == 0 && (*slot)[n] == '\0') {
            return *slot;
        }
    }
}

static const char *intern(struct log_rules *r, const char *text)
{
    return rules_intern(r, text, strlen(text));
}

/* ------------------------------------------------------------------ values */

static const char *text_of(struct log_rules *r, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? arena_strdup(r->arena, text) : NULL;
}

static int wrong(struct gm_err *err, const char *what)
{
    return gm_err_set(err, GM_ERR_FORMAT, "%s", what);
}

/* ------------------------------------------------------------------ signatures */

struct literals {
    VEC(const char *) texts;
    VEC(uint32_t) owners;
};

static int add_literal(struct log_rules *r, struct literals *to, const json_t *v, size_t owner,
                       struct gm_err *err)
{
    size_t n = json_string_length(v);
    if (n < FILTER_LITERAL_MIN || n > FILTER_LITERAL_MAX) {
        return wrong(err, "a literal has 4 to 200 bytes");
    }
    VEC_PUSH(r->arena, &to->texts, arena_strdup(r->arena, json_string_value(v)));
    VEC_PUSH(r->arena, &to->owners, (uint32_t)owner);
    return 0;
}

static int signature_literals(struct log_rules *r, struct literals *to, const json_t *row,
                              size_t owner, struct gm_err *err)
{
    const json_t *one = json_object_get(row, "literal"), *many = json_object_get(row, "literals");
    if ((one != NULL) == (many != NULL) || (many && json_array_size(many) == 0)) {
        return wrong(err, "either \"literal\" or \"literals\"");
    }
    for (size_t i = 0; i < json_array_size(many); i++) {
        if (add_literal(r, to, json_array_get(many, i), owner, err) < 0) {
            return err->code;
        }
    }
    return one ? add_literal(r, to, one, owner, err) : 0;
}

static int signature_fields(struct log_rules *r, struct log_signature *s, json_t *from,
                            struct gm_err *err)
{
    const char *key;
    json_t *value;
    struct log_field *fields = arena_array(r->arena, json_object_size(from) + 1, sizeof *fields);
    json_object_foreach(from, key, value)
    {
        if (!json_is_string(value) || s->n_fields >= LOG_FIELDS_MAX) {
            return wrong(err, "fields: texts, and not more than 16");
        }
        fields[s->n_fields++] = (struct log_field){intern(r, key),
                                                   arena_strdup(r->arena, json_string_value(value))};
    }
    s->fields = fields;
    return 0;
}

static int signature_decode(struct log_rules *r, struct literals *literals, const json_t *row,
                            size_t index, struct gm_err *err)
{
    struct log_signature *s = &r->signatures[index];
    const char *kind = json_string_value(json_object_get(row, "fact"));
    s->id = text_of(r, row, "id");
    if (!s->id || !kind) {
        return wrong(err, "\"id\" and \"fact\" are needed");
    }
    s->kind = intern(r, kind);
    s->regex.text = text_of(r, row, "regex");
    s->refuted_by.text = text_of(r, row, "refuted_by");
    int rc = signature_literals(r, literals, row, index, err);
    return rc < 0 ? rc : signature_fields(r, s, json_object_get(row, "fields"), err);
}

/* ------------------------------------------------------------------ rules */

static int element_kinds(struct log_rules *r, struct log_element *e, const json_t *from,
                         struct gm_err *err)
{
    size_t n = json_is_array(from) ? json_array_size(from) : 1;
    e->kinds = arena_array(r->arena, n + 1, sizeof *e->kinds);
    for (size_t i = 0; i < n; i++) {
        const char *kind = json_string_value(json_is_array(from) ? json_array_get(from, i) : from);
        if (!kind) {
            return wrong(err, "a kind of fact is a text");
        }
        e->kinds[e->n_kinds++] = intern(r, kind);
    }
    return 0;
}

static int element_condition(struct log_rules *r, struct log_element *e, const char *key,
                             const json_t *value, struct gm_err *err)
{
    if (!json_is_string(value)) {
        return wrong(err, "a condition is an expression");
    }
    bool negated = key[0] == '!';
    struct log_regex *x = arena_alloc(r->arena, sizeof *x);
    x->text = arena_strdup(r->arena, json_string_value(value));
    e->conditions[e->n_conditions++] =
        (struct log_condition){intern(r, key + negated), x, negated};
    return 0;
}

static int element_decode(struct log_rules *r, struct log_element *e, json_t *from,
                          struct gm_err *err)
{
    e->near = UINT64_MAX;
    if (!json_is_object(from)) {
        return element_kinds(r, e, from, err);
    }
    const char *key;
    json_t *value;
    e->conditions = arena_array(r->arena, json_object_size(from), sizeof *e->conditions);
    json_object_foreach(from, key, value)
    {
        int rc = 0;
        if (strcmp(key, "near") == 0) {
            e->near = (uint64_t)json_integer_value(value);
        } else if (strcmp(key, "fact") == 0) {
            rc = element_kinds(r, e, value, err);
        } else {
            rc = element_condition(r, e, key, value, err);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return e->n_kinds ? 0 : wrong(err, "an element needs \"fact\"");
}

static int elements_decode(struct log_rules *r, struct log_elements *to, const json_t *from,
                           struct gm_err *err)
{
    size_t n = json_array_size(from);
    if (n > LOG_ELEMENTS_MAX) {
        return wrong(err, "too many elements");
    }
    to->items = arena_array(r->arena, n + 1, sizeof *to->items);
    for (size_t i = 0; i < n; i++) {
        if (element_decode(r, &to->items[to->n++], json_array_get(from, i), err) < 0) {
            return err->code;
        }
    }
    return 0;
}

static int tests_decode(struct log_rules *r, struct log_rule *rule, const json_t *from,
                        struct gm_err *err)
{
    size_t n = json_is_array(from) ? json_array_size(from) : from != NULL;
    rule->tests = arena_array(r->arena, n + 1, sizeof *rule->tests);
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_is_array(from) ? json_array_get(from, i) : from);
        log_test test = name ? log_test_by_name(name) : NULL;
        if (!test) {
            return gm_err_set(err, GM_ERR_FORMAT, "there is no test %.60s", name ? name : "");
        }
        rule->tests[rule->n_tests++] = test;
    }
    return 0;
}

static int repairs_decode(struct log_rules *r, struct log_rule *rule, const json_t *from,
                          struct gm_err *err)
{
    size_t n = json_array_size(from);
    rule->repairs = arena_array(r->arena, n + 1, sizeof *rule->repairs);
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(from, i);
        int platform = word_index(platform_words, LOG_PLATFORMS,
                                  json_string_value(json_object_get(row, "platform")));
        struct log_repair repair = {(enum log_platform)platform, text_of(r, row, "says"),
                                    text_of(r, row, "command")};
        if (platform < 0 || !repair.text) {
            return wrong(err, "a repair needs \"platform\" and \"says\"");
        }
        rule->repairs[rule->n_repairs++] = repair;
    }
    return 0;
}

static int rule_parts(struct log_rules *r, struct log_rule *rule, const json_t *row,
                      struct gm_err *err)
{
    int rc = elements_decode(r, &rule->all, json_object_get(row, "all"), err);
    rc = rc < 0 ? rc : elements_decode(r, &rule->any, json_object_get(row, "any"), err);
    rc = rc < 0 ? rc : elements_decode(r, &rule->none, json_object_get(row, "none"), err);
    rc = rc < 0 ? rc : tests_decode(r, rule, json_object_get(row, "test"), err);
    return rc < 0 ? rc : repairs_decode(r, rule, json_object_get(row, "repairs"), err);
}

static int rule_decode(struct log_rules *r, const json_t *row, size_t index, struct gm_err *err)
{
    struct log_rule *rule = &r->rules[index];
    int confidence = word_index(confidence_words, 3,
                                json_string_value(json_object_get(row, "confidence")));
    rule->id = text_of(r, row, "id");
    rule->cause = text_of(r, row, "cause");
    rule->culprit = text_of(r, row, "culprit");
    rule->says = text_of(r, row, "says");
    rule->decides = text_of(r, row, "decides");
    rule->rank = (int)json_integer_value(json_object_get(row, "rank"));
    if (!rule->id || !rule->says || confidence < 0) {
        return wrong(err, "\"id\", \"says\" and \"confidence\" are needed");
    }
    rule->confidence = (enum log_confidence)confidence;
    int rc = rule_parts(r, rule, row, err);
    return rc < 0 || rule->all.n || rule->any.n ? rc : wrong(err, "a rule without conditions");
}

/* ------------------------------------------------------------------ loading */

struct documents {
    json_t *signatures[2], *verdicts[2];
};

static const char *const signature_areas[] = {"signatures", "signatures_dev"};
static const char *const verdict_areas[] = {"verdicts", "verdicts_dev"};

static int documents_read(struct kb *kb, struct documents *to, struct gm_err *err)
{
    for (int i = 0; i < 2; i++) {
        if (kb_document(kb, signature_areas[i], &to->signatures[i], err) < 0 ||
            kb_document(kb, verdict_areas[i], &to->verdicts[i], err) < 0) {
            return err->code;
        }
    }
    return 0;
}

static void documents_drop(struct documents *d)
{
    for (int i = 0; i < 2; i++) {
        json_decref(d->signatures[i]);
        json_decref(d->verdicts[i]);
    }
}

static const json_t *rows_of(const json_t *document)
{
    return json_object_get(document, "rows");
}

static size_t rows_count(json_t *const documents[2])
{
    return json_array_size(rows_of(documents[0])) + json_array_size(rows_of(documents[1]));
}

static int signatures_load(struct log_rules *r, const struct documents *d,
                           struct literals *literals, struct gm_err *err)
{
    r->signatures = arena_array(r->arena, rows_count(d->signatures) + 1, sizeof *r->signatures);
    for (int area = 0; area < 2; area++) {
        const json_t *rows = rows_of(d->signatures[area]);
        for (size_t i = 0; i < json_array_size(rows); i++) {
            if (signature_decode(r, literals, json_array_get(rows, i), r->n_signatures++, err) < 0) {
                return gm_err_wrap(err, "%s, row %zu", signature_areas[area], i + 1);
            }
        }
    }
    return 0;
}

static int verdicts_load(struct log_rules *r, const struct documents *d, struct gm_err *err)
{
    r->rules = arena_array(r->arena, rows_count(d->verdicts) + 1, sizeof *r->rules);
    for (int area = 0; area < 2; area++) {
        const json_t *rows = rows_of(d->verdicts[area]);
        for (size_t i = 0; i < json_array_size(rows); i++) {
            if (rule_decode(r, json_array_get(rows, i), r->n_rules++, err) < 0) {
                return gm_err_wrap(err, "%s, row %zu", verdict_areas[area], i + 1);
            }
        }
    }
    return 0;
}

static int rules_decode(struct log_rules *r, const struct documents *d, struct gm_err *err)
{
    struct literals literals = {0};
    int rc = signatures_load(r, d, &literals, err);
    rc = rc < 0 ? rc : verdicts_load(r, d, err);
    rc = rc < 0 ? rc : subjects_decode(r, json_object_get(d->verdicts[0], "subjects"), err);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < TABLES; i++) {
        VEC_PUSH(r->arena, &literals.texts, table_heads[i]);
        VEC_PUSH(r->arena, &literals.owners, (uint32_t)(r->n_signatures + i));
    }
    for (size_t i = 0; i < screen_heads_count; i++) {
        size_t owner = r->n_signatures + TABLES + (size_t)screen_heads[i].screen;
        VEC_PUSH(r->arena, &literals.texts, screen_heads[i].literal);
        VEC_PUSH(r->arena, &literals.owners, (uint32_t)owner);
    }
    screen_rows_prepare(r);
    r->literals = literals.texts.items;
    r->owners = literals.owners.items;
    r->n_literals = literals.texts.n;
    r->filter = filter_build(r->arena, r->literals, r->n_literals);
    return 0;
}

int log_rules_load(struct kb *kb, struct arena *a, struct log_rules **ret, struct gm_err *err)
{
    struct documents documents = {0};
    struct log_rules *r = arena_alloc(a, sizeof *r);
    struct gm_err mine;
    r->arena = a;
    r->kb = kb;
    int rc = documents_read(kb, &documents, &mine);
    rc = rc < 0 ? rc : rules_decode(r, &documents, &mine);
    rc = rc == 0 && kb->folder ? words_load(r, &mine) : rc; // the built-in ones: when needed
    documents_drop(&documents);
    if (rc < 0) {
        return gm_err_set(err, mine.code, "%s", mine.text);
    }
    *ret = r;
    return 0;
}

void log_rules_close(struct log_rules *r)
{
    for (size_t i = 0; r && i < r->compiled.n; i++) {
        regex_free(r->compiled.items[i]);
    }
    if (r) {
        pcre2_match_context_free(r->limits); // both accept NULL
        pcre2_match_data_free(r->groups);
    }
}
