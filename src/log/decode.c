/* Rows of kb/failures to patterns and entries. */
#include <stdlib.h>
#include <string.h>

#include "log/internal.h"

static const char *const confidence_words[] = {
    [LOG_POSSIBLE] = "possible", [LOG_LIKELY] = "likely", [LOG_CERTAIN] = "certain", NULL};
static const char *const platform_words[] = {
    [LOG_ANY] = "any",     [LOG_LINUX] = "linux",         [LOG_WINDOWS] = "windows",
    [LOG_WSL] = "wsl",     [LOG_CONTAINER] = "container", [LOG_JETSON] = "jetson",
    [LOG_MACOS] = "macos", [LOG_PLATFORMS] = NULL,
};
static const char *const shows_words[] = {
    [SHOWS_WORDS] = "words",     [SHOWS_SYMPTOM] = "symptom", [SHOWS_HINT] = "hint",
    [SHOWS_MESSAGE] = "message", [SHOWS_REASON] = "reason",   NULL,
};

const char *log_confidence_name(enum log_confidence confidence)
{
    return confidence_words[confidence];
}

const char *log_platform_name(enum log_platform platform)
{
    return platform_words[platform];
}

/* ------------------------------------------------------------------ values */

/* Where a row is being decoded. */
struct place {
    struct log_rules *rules;
    const struct node_file *file;
    struct gm_err *err;
};

int log_keys_check(const struct node_file *file, const struct node *map, const char *const *keys,
                   struct gm_err *err)
{
    if (map->kind != NODE_MAP) {
        return node_error(file, map, err, "expected \"key: value\" pairs");
    }
    for (size_t i = 0; i < map->n; i++) {
        size_t k = 0;
        while (keys[k] && strcmp(keys[k], map->items[i].key) != 0) {
            k++;
        }
        if (!keys[k]) {
            return node_error(file, &map->items[i], err, "unknown key \"%.60s\"",
                              map->items[i].key);
        }
    }
    return 0;
}

static const char *intern_text(struct log_rules *r, const char *text)
{
    return rules_intern(r, text, strlen(text));
}

/* The text of a key: 0, also if it is not there; *ret is NULL then. */
static int text_take(const struct place *p, const struct node *map, const char *key,
                     const char **ret)
{
    const struct node *value = node_get(map, key);
    *ret = value ? value->text : NULL;
    return value && !value->text ? node_error(p->file, value, p->err, "\"%s\" is a text", key) : 0;
}

/* A word of a list that NULL ends; `otherwise` where the key is not there. */
static int word_take(const struct place *p, const struct node *map, const char *key,
                     const char *const *words, int otherwise, int *ret)
{
    const struct node *value = node_get(map, key);
    *ret = value ? 0 : otherwise;
    while (value && words[*ret] && (!value->text || strcmp(words[*ret], value->text) != 0)) {
        ++*ret;
    }
    if (*ret < 0) {
        return node_error(p->file, map, p->err, "\"%s\" is missing", key);
    }
    return !value || words[*ret]
               ? 0
               : node_error(p->file, value, p->err, "\"%.60s\" is not a value of \"%s\"",
                            value->text ? value->text : "", key);
}

/* A text, or each of a list of texts. */
static size_t texts_count(const struct node *value)
{
    return !value ? 0 : value->kind == NODE_LIST ? value->n : 1;
}

static const struct node *text_at(const struct node *value, size_t i)
{
    return value->kind == NODE_LIST ? &value->items[i] : value;
}

/* An expression that a file beside the executable has is compiled at once. */
static int expression_take(const struct place *p, const struct node *value, struct log_regex *to)
{
    if (value && !value->text) {
        return node_error(p->file, value, p->err, "an expression is a text");
    }
    to->text = value ? value->text : NULL;
    struct gm_err why;
    if (!value || !p->file->name || regex_check(p->rules, to, &why) == 0) {
        return 0;
    }
    return node_error(p->file, value, p->err, "%s", why.text);
}

/* ------------------------------------------------------------------ patterns */

static int literal_take(const struct place *p, struct log_literals *to, const struct node *value)
{
    size_t n = value->text ? strlen(value->text) : 0;
    if (n < FILTER_LITERAL_MIN || n > FILTER_LITERAL_MAX) {
        return node_error(p->file, value, p->err, "a literal has 4 to 200 bytes");
    }
    VEC_PUSH(p->rules->arena, &to->texts, value->text);
    VEC_PUSH(p->rules->arena, &to->owners, (uint32_t)p->rules->n_signatures);
    return 0;
}

static int literals_take(const struct place *p, struct log_literals *to, const struct node *row)
{
    const struct node *one = node_get(row, "literal"), *many = node_get(row, "literals");
    const struct node *value = one ? one : many;
    if ((one != NULL) == (many != NULL) || texts_count(value) == 0) {
        return node_error(p->file, row, p->err, "a pattern has either \"literal\" or \"literals\"");
    }
    for (size_t i = 0; i < texts_count(value); i++) {
        int rc = literal_take(p, to, text_at(value, i));
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int fields_take(const struct place *p, struct log_signature *s, const struct node *from)
{
    if (from && from->kind != NODE_MAP) {
        return node_error(p->file, from, p->err, "\"fields\" are \"name: value\" pairs");
    }
    size_t n = from ? from->n : 0;
    struct log_field *fields = arena_array(p->rules->arena, n + 1, sizeof *fields);
    for (size_t i = 0; i < n; i++) {
        if (!from->items[i].text || n > LOG_FIELDS_MAX) {
            return node_error(p->file, &from->items[i], p->err,
                              "fields are texts, and not more than %d", LOG_FIELDS_MAX);
        }
        fields[i] =
            (struct log_field){intern_text(p->rules, from->items[i].key), from->items[i].text};
    }
    s->fields = fields;
    s->n_fields = n;
    return 0;
}

int log_pattern_decode(struct log_rules *r, struct log_literals *literals,
                       const struct log_row *row, struct gm_err *err)
{
    static const char *const keys[] = {"date",       "evidence", "fact",     "fields",
                                       "id",         "literal",  "literals", "note",
                                       "refuted_by", "regex",    "source",   NULL};
    const struct place p = {r, row->file, err};
    struct log_signature *s = &r->signatures[r->n_signatures];
    *s = (struct log_signature){
        .id = row->id, .kind = intern_text(r, row->fact), .built_in = !row->file->name};
    int rc = log_keys_check(row->file, row->node, keys, err);
    rc = rc < 0 ? rc : expression_take(&p, node_get(row->node, "regex"), &s->regex);
    rc = rc < 0 ? rc : expression_take(&p, node_get(row->node, "refuted_by"), &s->refuted_by);
    rc = rc < 0 ? rc : literals_take(&p, literals, row->node);
    rc = rc < 0 ? rc : fields_take(&p, s, node_get(row->node, "fields"));
    r->n_signatures += rc == 0;
    return rc;
}

/* ------------------------------------------------------------------ conditions */

static int kinds_take(const struct place *p, struct log_element *e, const struct node *value)
{
    size_t n = texts_count(value);
    e->kinds = arena_array(p->rules->arena, n + 1, sizeof *e->kinds);
    for (size_t i = 0; i < n; i++) {
        const struct node *kind = text_at(value, i);
        if (!kind->text) {
            return node_error(p->file, kind, p->err, "a kind of fact is a text");
        }
        e->kinds[e->n_kinds++] = intern_text(p->rules, kind->text);
    }
    return 0;
}

static int condition_take(const struct place *p, struct log_element *e, const struct node *value,
                          bool negated)
{
    struct log_regex *x = arena_alloc(p->rules->arena, sizeof *x);
    *x = (struct log_regex){.text = NULL};
    e->conditions[e->n_conditions++] =
        (struct log_condition){intern_text(p->rules, value->key), x, negated};
    return expression_take(p, value, x);
}

static int conditions_refused_take(const struct place *p, struct log_element *e,
                                   const struct node *map)
{
    if (map->kind != NODE_MAP) {
        return node_error(p->file, map, p->err, "\"not\" holds \"field: expression\" pairs");
    }
    for (size_t i = 0; i < map->n; i++) {
        int rc = condition_take(p, e, &map->items[i], true);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int near_take(const struct place *p, struct log_element *e, const struct node *value)
{
    return value->text && str_u64(str_of(value->text), &e->near)
               ? 0
               : node_error(p->file, value, p->err, "\"near\" is a number of lines");
}

static int element_decode(const struct place *p, struct log_element *e, const struct node *from)
{
    *e = (struct log_element){.near = UINT64_MAX};
    if (from->kind != NODE_MAP) {
        return kinds_take(p, e, from);
    }
    const struct node *refused = node_get(from, "not");
    e->conditions = arena_array(p->rules->arena, from->n + (refused ? refused->n : 0) + 1,
                                sizeof *e->conditions);
    for (size_t i = 0; i < from->n; i++) {
        const struct node *value = &from->items[i];
        int rc = strcmp(value->key, "near") == 0   ? near_take(p, e, value)
                 : strcmp(value->key, "fact") == 0 ? kinds_take(p, e, value)
                 : value == refused                ? conditions_refused_take(p, e, value)
                                                   : condition_take(p, e, value, false);
        if (rc < 0) {
            return rc;
        }
    }
    return e->n_kinds ? 0 : node_error(p->file, from, p->err, "a condition needs \"fact\"");
}

static int elements_decode(const struct place *p, struct log_elements *to, const struct node *from)
{
    size_t n = from ? from->n : 0;
    if (from && (from->kind != NODE_LIST || n > LOG_ELEMENTS_MAX)) {
        return node_error(p->file, from, p->err, "\"%s\" is a list of %d conditions at most",
                          from->key, LOG_ELEMENTS_MAX);
    }
    to->items = arena_array(p->rules->arena, n + 1, sizeof *to->items);
    for (size_t i = 0; i < n; i++) {
        int rc = element_decode(p, &to->items[to->n++], &from->items[i]);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* An entry that only says what its lines look like holds where one of them is found. */
static void elements_imply(const struct place *p, struct log_rule *rule, const struct log_row *row)
{
    const struct node *list = node_get(row->node, "lines");
    if (rule->all.n || rule->any.n || !list || !list->n) {
        return;
    }
    struct log_element *e = arena_alloc(p->rules->arena, sizeof *e);
    *e = (struct log_element){.near = UINT64_MAX};
    e->kinds = arena_array(p->rules->arena, list->n, sizeof *e->kinds);
    for (size_t i = 0; i < list->n; i++) {
        const char *fact = node_text(&list->items[i], "fact");
        e->kinds[e->n_kinds++] = intern_text(p->rules, fact ? fact : row->id);
    }
    rule->all = (struct log_elements){e, 1};
}

/* ------------------------------------------------------------------ entries */

static int tests_decode(const struct place *p, struct log_rule *rule, const struct node *from)
{
    size_t n = texts_count(from);
    rule->tests = arena_array(p->rules->arena, n + 1, sizeof *rule->tests);
    for (size_t i = 0; i < n; i++) {
        const struct node *name = text_at(from, i);
        log_test test = name->text ? log_test_by_name(name->text) : NULL;
        if (!test) {
            return node_error(p->file, name, p->err, "there is no test %.60s",
                              name->text ? name->text : "of that kind");
        }
        rule->tests[rule->n_tests++] = test;
    }
    return 0;
}

/* The fields that a text must have for a repair. */
static int where_take(const struct place *p, const struct node *map, struct log_repair *to)
{
    if (map && map->kind != NODE_MAP) {
        return node_error(p->file, map, p->err, "\"where\" is a mapping of expressions");
    }
    struct log_element e = {.n_conditions = 0};
    e.conditions = arena_array(p->rules->arena, (map ? map->n : 0) + 1, sizeof *e.conditions);
    for (size_t i = 0; map && i < map->n; i++) {
        int rc = condition_take(p, &e, &map->items[i], false);
        if (rc < 0) {
            return rc;
        }
    }
    to->where = e.conditions;
    to->n_where = e.n_conditions;
    return 0;
}

static int repair_decode(const struct place *p, struct log_repair *to, const struct node *from)
{
    static const char *const keys[] = {"command", "engine", "platform", "program",
                                       "says",    "where",  NULL};
    int platform = LOG_ANY;
    int rc = log_keys_check(p->file, from, keys, p->err);
    rc = rc < 0 ? rc : word_take(p, from, "platform", platform_words, LOG_ANY, &platform);
    rc = rc < 0 ? rc : text_take(p, from, "engine", &to->engine);
    rc = rc < 0 ? rc : text_take(p, from, "program", &to->program);
    rc = rc < 0 ? rc : text_take(p, from, "says", &to->text);
    rc = rc < 0 ? rc : text_take(p, from, "command", &to->command);
    rc = rc < 0 ? rc : where_take(p, node_get(from, "where"), to);
    to->platform = (enum log_platform)platform;
    return rc < 0 || to->text ? rc : node_error(p->file, from, p->err, "a repair needs \"says\"");
}

static int repairs_decode(const struct place *p, struct log_rule *rule, const struct node *from)
{
    if (from && from->kind != NODE_LIST) {
        return node_error(p->file, from, p->err, "\"repairs\" is a list");
    }
    size_t n = from ? from->n : 0;
    rule->repairs = arena_array(p->rules->arena, n + 1, sizeof *rule->repairs);
    for (size_t i = 0; i < n; i++) {
        int rc = repair_decode(p, &rule->repairs[rule->n_repairs++], &from->items[i]);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int entry_texts(const struct place *p, struct log_rule *rule, const struct node *from)
{
    int confidence = 0, shows = 0;
    int rc = word_take(p, from, "confidence", confidence_words, -1, &confidence);
    rc = rc < 0 ? rc : word_take(p, from, "shows", shows_words, SHOWS_MESSAGE, &shows);
    rc = rc < 0 ? rc : text_take(p, from, "culprit", &rule->culprit);
    rc = rc < 0 ? rc : text_take(p, from, "says", &rule->says);
    rc = rc < 0 ? rc : text_take(p, from, "decides", &rule->decides);
    rule->confidence = (enum log_confidence)confidence;
    rule->shows = (enum log_shows)shows;
    return rc < 0 || rule->says ? rc : node_error(p->file, from, p->err, "\"says\" is missing");
}

static int entry_conditions(const struct place *p, struct log_rule *rule, const struct log_row *row)
{
    const struct node *from = row->node;
    int rc = elements_decode(p, &rule->all, node_get(from, "all"));
    rc = rc < 0 ? rc : elements_decode(p, &rule->any, node_get(from, "any"));
    rc = rc < 0 ? rc : elements_decode(p, &rule->none, node_get(from, "none"));
    rc = rc < 0 ? rc : tests_decode(p, rule, node_get(from, "test"));
    if (rc == 0) {
        elements_imply(p, rule, row);
        rule->n_facts = (unsigned)rule->all.n + (rule->any.n > 0);
    }
    return rc < 0 || rule->n_facts
               ? rc
               : node_error(p->file, from, p->err, "an entry needs \"lines\", \"all\" or \"any\"");
}

int log_entry_decode(struct log_rules *r, const struct log_row *row, struct gm_err *err)
{
    static const char *const keys[] = {
        "all",   "any",         "confidence", "culprit", "decides",   "examples", "id",
        "lines", "near_misses", "none",       "note",    "overrides", "repairs",  "repairs_of",
        "says",  "shows",       "sources",    "test",    NULL};
    const struct place p = {r, row->file, err};
    struct log_rule *rule = &r->rules[r->n_rules];
    bool has_cause = strcmp(row->cause, "none") != 0;
    *rule = (struct log_rule){.id = row->id,
                              .cause = has_cause ? row->cause : NULL,
                              .file = row->file,
                              .node = row->node};
    int rc = log_keys_check(row->file, row->node, keys, err);
    rc = rc < 0 ? rc : entry_texts(&p, rule, row->node);
    rc = rc < 0 ? rc : entry_conditions(&p, rule, row);
    rc = rc < 0 ? rc : repairs_decode(&p, rule, node_get(row->node, "repairs"));
    r->n_rules += rc == 0;
    return rc;
}

/* ------------------------------------------------------------------ repairs of another entry */

int log_repairs_inherit(struct log_rules *r, struct log_rule *rule, struct gm_err *err)
{
    const struct node *of = node_get(rule->node, "repairs_of");
    if (!of) {
        return 0;
    }
    size_t index = of->text ? log_rule_index(r, of->text) : SIZE_MAX;
    if (index == SIZE_MAX || node_get(r->rules[index].node, "repairs_of")) {
        return node_error(rule->file, of, err,
                          "\"repairs_of\" names an entry with its own repairs");
    }
    const struct log_rule *from = &r->rules[index];
    struct log_repair *all =
        arena_array(r->arena, rule->n_repairs + from->n_repairs + 1, sizeof *all);
    for (size_t i = 0; i < rule->n_repairs + from->n_repairs; i++) {
        all[i] = i < rule->n_repairs ? rule->repairs[i] : from->repairs[i - rule->n_repairs];
    }
    rule->repairs = all;
    rule->n_repairs += from->n_repairs;
    return 0;
}
