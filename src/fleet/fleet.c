#include "fleet/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/out.h"
#include "node/node.h"

/* ------------------------------------------------------------------ lines */

void fleet_begin(struct fleet *f, struct arena *a)
{
    *f = (struct fleet){.arena = a};
}

static void note_damage(struct fleet *f, const char *file, size_t line, const char *why)
{
    f->n_damaged++;
    if (f->damaged.n < FLEET_DAMAGED_MAX) {
        VEC_PUSH(f->arena, &f->damaged, (struct fleet_damage){file, why, line});
    }
}

void fleet_add_damage(struct fleet *f, const char *file, const char *why)
{
    note_damage(f, file, 0, why);
}

/* "2026-05-01T12:00:00Z": of this length and form texts order as times do. */
bool fleet_is_time(const char *text)
{
    static const char form[] = "0000-00-00T00:00:00Z";
    bool good = text && strlen(text) == sizeof form - 1;
    for (size_t i = 0; good && form[i]; i++) {
        good = form[i] == '0' ? str_is_digit(text[i]) : text[i] == form[i];
    }
    return good;
}

static const char *dumped(struct arena *a, const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS) : NULL;
    const char *kept = text ? arena_strdup(a, text) : "null";
    free(text);
    return kept;
}

void fleet_add_line(struct fleet *f, const char *file, size_t line, struct str text)
{
    json_error_t error;
    if (str_trim(text).n == 0) {
        return;
    }
    if (text.n > NODE_BYTES_MAX || f->lines.n == FLEET_LINES_MAX) {
        note_damage(f, file, line, "it is too long, or one too many");
        return;
    }
    json_t *doc = json_loadb(text.s, text.n, JSON_REJECT_DUPLICATES, &error);
    const char *name = json_text(doc, "node");
    if (!doc || !node_is_whole(doc) || !name || !*name || !fleet_is_time(json_text(doc, "time"))) {
        note_damage(f, file, line,
                    doc ? "it is no line of gpumend export ndjson" : "it is no JSON document");
        json_decref(doc);
        return;
    }
    const json_t *kinds = json_object_get(json_object_get(doc, "facts"), "gpu_names");
    VEC_PUSH(f->arena, &f->lines,
             (struct fleet_node){.name = name,
                                 .time = json_text(doc, "time"),
                                 .now = doc,
                                 .kind = json_is_array(kinds) ? dumped(f->arena, kinds) : ""});
}

void fleet_end(struct fleet *f)
{
    for (size_t i = 0; i < f->lines.n; i++) {
        json_decref(f->lines.items[i].now);
        json_decref(f->lines.items[i].before);
    }
    f->lines.n = 0;
}

static int by_name_and_time(const void *x, const void *y)
{
    const struct fleet_node *a = x, *b = y;
    int order = strcmp(a->name, b->name);
    return order ? order : strcmp(b->time, a->time);
}

/* Leaves the newest line of each node, with the one before. */
static void settle_nodes(struct fleet *f)
{
    size_t kept = 0;
    if (f->lines.n) {
        qsort(f->lines.items, f->lines.n, sizeof *f->lines.items, by_name_and_time);
    }
    for (size_t i = 0; i < f->lines.n; i++) {
        struct fleet_node one = f->lines.items[i];
        struct fleet_node *last = kept ? &f->lines.items[kept - 1] : NULL;
        if (!last || strcmp(last->name, one.name) != 0) {
            f->lines.items[kept++] = one;
        } else if (!last->before && strcmp(last->time, one.time) != 0) {
            last->before = one.now;
        } else {
            json_decref(one.now); // older, or the same line again
        }
    }
    f->lines.n = kept;
}

/* ------------------------------------------------------------------ facts */

/* The value of one fact, or of what a target consists of. */
struct value {
    const struct fleet_node *node;
    const char *text;
};

typedef VEC(struct value) value_list;

static int by_value(const void *x, const void *y)
{
    const struct value *a = x, *b = y;
    int order = strcmp(a->text, b->text);
    return order ? order : strcmp(a->node->name, b->node->name);
}

static const json_t *environment_of(const json_t *doc, const char *target)
{
    const json_t *targets = json_object_get(doc, "targets");
    for (size_t i = 0; i < json_array_size(targets); i++) {
        const json_t *one = json_array_get(targets, i);
        const char *name = json_text(one, "target");
        if (name && strcmp(name, target) == 0) {
            return json_object_get(one, "environment");
        }
    }
    return NULL;
}

/* Texts without their quotes: as people write them. */
static const char *plain(struct arena *a, const json_t *value)
{
    return json_is_string(value) ? str_printable(a, json_string_value(value)) : dumped(a, value);
}

#define TARGET_WORD "target "

/* A key is a fact's name, or TARGET_WORD and a target. */
static const json_t *fact_value(const json_t *doc, const char *key)
{
    return starts_with(key, TARGET_WORD) ? environment_of(doc, key + strlen(TARGET_WORD))
                                         : json_object_get(json_object_get(doc, "facts"), key);
}

/* Every fact and target that some node has. */
static json_t *all_keys(struct fleet *f)
{
    json_t *keys = json_object();
    for (size_t i = 0; i < f->lines.n; i++) {
        const json_t *doc = f->lines.items[i].now;
        json_t *facts = json_object_get(doc, "facts"), *unused;
        const json_t *targets = json_object_get(doc, "targets");
        const char *key;
        json_object_foreach(facts, key, unused)
        {
            (void)unused;
            json_put(keys, key, json_true());
        }
        for (size_t k = 0; k < json_array_size(targets); k++) {
            const char *name = json_text(json_array_get(targets, k), "target");
            if (name) {
                json_put(keys, arena_printf(f->arena, TARGET_WORD "%s", name), json_true());
            }
        }
    }
    return keys;
}

/* ------------------------------------------------------------------ who differs */

/* The value that more than half share; NULL: there is none. `values` are sorted. */
static const char *majority_of(const value_list *values, size_t *ret_n)
{
    for (size_t i = 0, n; i < values->n; i += n) {
        for (n = 1;
             i + n < values->n && strcmp(values->items[i].text, values->items[i + n].text) == 0;) {
            n++;
        }
        if (n * 2 > values->n) {
            *ret_n = n;
            return values->items[i].text;
        }
    }
    return NULL;
}

static void compare_fact(struct fleet *f, const struct fleet_node *group, size_t n, const char *key,
                         json_t *differs)
{
    struct arena *a = f->arena;
    value_list values = {0};
    size_t n_same = 0;
    for (size_t i = 0; i < n; i++) {
        const char *text = plain(a, fact_value(group[i].now, key));
        VEC_PUSH(a, &values, (struct value){&group[i], text});
    }
    qsort(values.items, values.n, sizeof *values.items, by_value);
    const char *majority = majority_of(&values, &n_same);
    for (size_t i = 0; majority && i < values.n; i++) {
        const struct value *v = &values.items[i];
        if (strcmp(v->text, majority) != 0) {
            json_t *o = json_object();
            json_put(o, "node", out_json_text(a, v->node->name));
            json_put(o, "fact", out_json_text(a, key));
            json_put(o, "value", out_json_text(a, v->text));
            json_put(o, "majority", out_json_text(a, majority));
            json_put(o, "of", json_integer((json_int_t)n_same));
            json_put(o, "in", json_integer((json_int_t)values.n));
            json_add(differs, o);
        }
    }
}

static int by_kind(const void *x, const void *y)
{
    const struct fleet_node *a = x, *b = y;
    int order = strcmp(a->kind, b->kind);
    return order ? order : strcmp(a->name, b->name);
}

/* Kinds that too few nodes have to compare them: among others, where a GPU was lost. */
static void put_rare(struct fleet *f, const struct fleet_node *group, size_t n, json_t *rare)
{
    for (size_t i = 0; i < n; i++) {
        json_t *o = json_object();
        const json_t *facts = json_object_get(group[i].now, "facts");
        json_put(o, "node", out_json_text(f->arena, group[i].name));
        json_put(o, "gpu_names", json_deep_copy(json_object_get(facts, "gpu_names")));
        json_add(rare, o);
    }
}

static void find_differences(struct fleet *f, json_t *doc)
{
    struct arena *a = f->arena;
    json_t *keys = all_keys(f), *differs = json_array(), *rare = json_array(), *unused;
    const char *key;
    struct fleet_node *nodes = arena_array(a, f->lines.n + 1, sizeof *nodes);
    if (f->lines.n) { // without lines there is no array
        memcpy(nodes, f->lines.items, f->lines.n * sizeof *nodes);
    }
    qsort(nodes, f->lines.n, sizeof *nodes, by_kind);
    for (size_t i = 0, n; i < f->lines.n; i += n) {
        for (n = 1; i + n < f->lines.n && strcmp(nodes[i].kind, nodes[i + n].kind) == 0;) {
            n++;
        }
        if (!*nodes[i].kind) {
            continue; // with whom to compare them is unknown
        }
        if (n < FLEET_GROUP_MIN) {
            put_rare(f, nodes + i, n, rare);
            continue;
        }
        json_object_foreach(keys, key, unused)
        {
            (void)unused;
            compare_fact(f, nodes + i, n, key, differs);
        }
    }
    json_decref(keys);
    json_put(doc, "differs", differs);
    json_put(doc, "rare", rare);
}

/* ------------------------------------------------------------------ causes, cohorts */

/* Names of nodes below a key of an object. */
static void put_name(struct fleet *f, json_t *object, const char *key, const char *name)
{
    json_t *list = json_object_get(object, key);
    const char *last = json_string_value(
        json_array_size(list) ? json_array_get(list, json_array_size(list) - 1) : NULL);
    if (!list) {
        json_put(object, key, json_array());
        list = json_object_get(object, key);
    }
    if (!last || strcmp(last, name) != 0) { // of several findings of one node
        json_add(list, out_json_text(f->arena, name));
    }
}

static void find_causes(struct fleet *f, json_t *doc)
{
    static const char *const severities[] = {"error", "warning"};
    json_t *causes = json_array();
    for (size_t s = 0; s < 2; s++) {
        json_t *nodes = json_object(), *names;
        const char *cause;
        for (size_t i = 0; i < f->lines.n; i++) {
            const json_t *findings = json_object_get(f->lines.items[i].now, "findings");
            for (size_t k = 0; k < json_array_size(findings); k++) {
                const json_t *one = json_array_get(findings, k);
                if (strcmp(json_text(one, "severity"), severities[s]) == 0) {
                    put_name(f, nodes, json_text(one, "cause"), f->lines.items[i].name);
                }
            }
        }
        json_object_foreach(nodes, cause, names)
        {
            json_t *o = json_object();
            json_put(o, "cause", out_json_text(f->arena, cause));
            json_put(o, "severity", json_string(severities[s]));
            json_put(o, "nodes", json_incref(names));
            json_add(causes, o);
        }
        json_decref(nodes);
    }
    json_put(doc, "causes", causes);
}

static void find_cohorts(struct fleet *f, json_t *doc)
{
    struct arena *a = f->arena;
    json_t *cohorts = json_object(), *list = json_array(), *one;
    const char *key;
    for (size_t i = 0; i < f->lines.n; i++) {
        const json_t *now = f->lines.items[i].now, *cohort = json_object_get(now, "cohort");
        const char *host = json_text(cohort, "host"),
                   *environment = json_text(cohort, "environment");
        const char *id = arena_printf(a, "%s %s", host ? host : "", environment ? environment : "");
        one = json_object_get(cohorts, id);
        if (!one) {
            one = json_object();
            json_put(one, "host", out_json_text(a, host));
            json_put(one, "environment", out_json_text(a, environment));
            json_put(one, "facts", json_deep_copy(json_object_get(now, "facts")));
            json_put(one, "nodes", json_array());
            json_put(cohorts, id, one);
        }
        json_add(json_object_get(one, "nodes"), out_json_text(a, f->lines.items[i].name));
    }
    json_object_foreach(cohorts, key, one)
    {
        json_add(list, json_incref(one));
    }
    json_decref(cohorts);
    json_put(doc, "cohorts", list);
}

/* ------------------------------------------------------------------ the last sweep */

static bool same_texts(const char *x, const char *y)
{
    return strcmp(x ? x : "", y ? y : "") == 0;
}

static void put_change(struct arena *a, json_t *list, const char *what, const char *before,
                       const char *now)
{
    json_t *o = json_object();
    json_put(o, "what", out_json_text(a, what));
    json_put(o, "before", out_json_text(a, before));
    json_put(o, "now", out_json_text(a, now));
    json_add(list, o);
}

static void find_changes(struct fleet *f, json_t *doc)
{
    struct arena *a = f->arena;
    json_t *keys = all_keys(f), *changed = json_array(), *unused;
    const char *key;
    for (size_t i = 0; i < f->lines.n; i++) {
        const struct fleet_node *n = &f->lines.items[i];
        json_t *changes = json_array();
        if (n->before) {
            static const char *const words[] = {"verdict", "reason"};
            for (size_t k = 0; k < 2; k++) {
                const char *before = json_text(n->before, words[k]),
                           *now = json_text(n->now, words[k]);
                if (!same_texts(before, now)) {
                    put_change(a, changes, words[k], before, now);
                }
            }
            json_object_foreach(keys, key, unused)
            {
                (void)unused;
                const json_t *before = fact_value(n->before, key), *now = fact_value(n->now, key);
                if (!json_equal(before, now) && (before || now)) {
                    put_change(a, changes, key, plain(a, before), plain(a, now));
                }
            }
        }
        if (json_array_size(changes)) {
            json_t *o = json_object();
            json_put(o, "node", out_json_text(a, n->name));
            json_put(o, "changes", changes);
            json_add(changed, o);
        } else {
            json_decref(changes);
        }
    }
    json_decref(keys);
    json_put(doc, "changed", changed);
}

/* ------------------------------------------------------------------ all of it */

static int by_file_and_line(const void *x, const void *y)
{
    const struct fleet_damage *a = x, *b = y;
    int order = strcmp(a->file, b->file);
    return order ? order : (a->line > b->line) - (a->line < b->line);
}

/* Sorted: snapshots that are judged at once end in no fixed order. */
static json_t *damage_json(struct fleet *f)
{
    json_t *list = json_array();
    if (f->damaged.n) {
        qsort(f->damaged.items, f->damaged.n, sizeof *f->damaged.items, by_file_and_line);
    }
    for (size_t i = 0; i < f->damaged.n && i < FLEET_DAMAGED_SHOWN; i++) {
        const struct fleet_damage *d = &f->damaged.items[i];
        json_t *o = json_object();
        json_put(o, "file", out_json_text(f->arena, d->file));
        json_put(o, "line", json_integer((json_int_t)d->line));
        json_put(o, "why", out_json_text(f->arena, d->why));
        json_add(list, o);
    }
    return list;
}

json_t *fleet_report(struct fleet *f)
{
    static const char *const verdicts[] = {"ok", "broken", "unknown"};
    json_t *doc = json_object(), *counts = json_object(), *unknown = json_array();
    size_t n[3] = {0};
    settle_nodes(f);
    for (size_t i = 0; i < f->lines.n; i++) {
        const struct fleet_node *one = &f->lines.items[i];
        for (size_t k = 0; k < 3; k++) {
            n[k] += strcmp(node_verdict(one->now), verdicts[k]) == 0;
        }
        if (strcmp(node_verdict(one->now), "unknown") == 0) {
            json_t *o = json_object();
            json_put(o, "node", out_json_text(f->arena, one->name));
            json_put(o, "says", out_json_text(f->arena, json_text(one->now, "says")));
            json_add(unknown, o);
        }
    }
    json_put(doc, "schema", json_integer(1));
    json_put(doc, "nodes", json_integer((json_int_t)f->lines.n));
    for (size_t k = 0; k < 3; k++) {
        json_put(counts, verdicts[k], json_integer((json_int_t)n[k]));
    }
    json_put(doc, "verdicts", counts);
    find_causes(f, doc);
    json_put(doc, "unknown", unknown);
    find_cohorts(f, doc);
    find_differences(f, doc);
    find_changes(f, doc);
    json_t *damaged = damage_json(f);
    json_put(doc, "damaged", damaged);
    json_put(doc, "damaged_left_out",
             json_integer((json_int_t)(f->n_damaged - json_array_size(damaged))));
    return doc;
}
