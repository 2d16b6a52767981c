/*
 * Which of the entries that hold goes first, and what makes an order impossible.
 *
 * An entry goes before those that it overrides, those that they override, and so on. Between others
 * goes first what shows more (enum log_shows), then the surer one, the one that needs more facts,
 * the earlier line, the id.
 */
#include <stdlib.h>
#include <string.h>

#include "log/internal.h"

size_t log_rule_index(const struct log_rules *r, const char *id)
{
    size_t low = 0, high = r->n_rules;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(r->rules[middle].id, id) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < r->n_rules && strcmp(r->rules[low].id, id) == 0 ? low : SIZE_MAX;
}

static int override_resolve(struct log_rules *r, struct log_rule *rule, const struct node *value,
                            struct gm_err *err)
{
    size_t index = value->text ? log_rule_index(r, value->text) : SIZE_MAX;
    if (index == SIZE_MAX) {
        return node_error(rule->file, value, err, "%s overrides %.80s, which is not an entry",
                          rule->id, value->text ? value->text : "what is not a text");
    }
    rule->overrides[rule->n_overrides++] = (uint32_t)index;
    return 0;
}

int log_overrides_resolve(struct log_rules *r, struct log_rule *rule, struct gm_err *err)
{
    const struct node *list = node_get(rule->node, "overrides");
    if (list && list->kind != NODE_LIST) {
        return node_error(rule->file, list, err, "\"overrides\" is a list of ids");
    }
    rule->overrides = arena_array(r->arena, (list ? list->n : 0) + 1, sizeof *rule->overrides);
    for (size_t i = 0; list && i < list->n; i++) {
        int rc = override_resolve(r, rule, &list->items[i], err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* ------------------------------------------------------------------ what an entry overrides */

/* Marks what the entry overrides, at any remove; `marks` has a byte for each entry. */
static void overridden_mark(const struct log_rules *r, size_t index, unsigned char *marks)
{
    const struct log_rule *rule = &r->rules[index];
    for (size_t i = 0; i < rule->n_overrides; i++) {
        uint32_t below = rule->overrides[i];
        if (!marks[below]) {
            marks[below] = 1;
            overridden_mark(r, below, marks);
        }
    }
}

/* ------------------------------------------------------------------ faults */

/* "a -> b -> c" for the way from one entry to another, or NULL. */
static const char *way_between(const struct log_rules *r, size_t from, size_t to,
                               unsigned char *seen)
{
    const struct log_rule *rule = &r->rules[from];
    for (size_t i = 0; i < rule->n_overrides; i++) {
        uint32_t below = rule->overrides[i];
        if (below == to) {
            return arena_printf(r->arena, "%s -> %s", rule->id, r->rules[to].id);
        }
        if (!seen[below]) {
            seen[below] = 1;
            const char *way = way_between(r, below, to, seen);
            if (way) {
                return arena_printf(r->arena, "%s -> %s", rule->id, way);
            }
        }
    }
    return NULL;
}

static bool is_kind_in(const char *kind, const struct log_element *e)
{
    for (size_t i = 0; i < e->n_kinds; i++) {
        if (e->kinds[i] == kind) {
            return true;
        }
    }
    return false;
}

static bool is_condition_in(const struct log_condition *c, const struct log_element *e)
{
    for (size_t i = 0; i < e->n_conditions; i++) {
        const struct log_condition *other = &e->conditions[i];
        if (other->field == c->field && other->negated == c->negated &&
            strcmp(other->regex->text, c->regex->text) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether each fact that fits `narrow` fits `wide` as well. */
static bool element_is_within(const struct log_element *narrow, const struct log_element *wide)
{
    for (size_t i = 0; i < narrow->n_kinds; i++) {
        if (!is_kind_in(narrow->kinds[i], wide)) {
            return false;
        }
    }
    for (size_t i = 0; i < wide->n_conditions; i++) {
        if (!is_condition_in(&wide->conditions[i], narrow)) {
            return false;
        }
    }
    return wide->near == UINT64_MAX;
}

static bool is_within_one(const struct log_element *narrow, const struct log_elements *list)
{
    for (size_t i = 0; i < list->n; i++) {
        if (element_is_within(narrow, &list->items[i])) {
            return true;
        }
    }
    return false;
}

/* Whether a fact for each of these conditions is there wherever the entry holds. */
static bool element_is_implied(const struct log_element *wide, const struct log_rule *by)
{
    for (size_t i = 0; i < by->all.n; i++) {
        if (element_is_within(&by->all.items[i], wide)) {
            return true;
        }
    }
    for (size_t i = 0; i < by->any.n; i++) {
        if (!element_is_within(&by->any.items[i], wide)) {
            return false;
        }
    }
    return by->any.n > 0;
}

/* Whether one of them is there wherever the entry holds. */
static bool is_one_implied(const struct log_elements *wide, const struct log_rule *by)
{
    for (size_t i = 0; i < by->all.n; i++) {
        if (is_within_one(&by->all.items[i], wide)) {
            return true;
        }
    }
    for (size_t i = 0; i < by->any.n; i++) {
        if (!is_within_one(&by->any.items[i], wide)) {
            return false;
        }
    }
    return by->any.n > 0;
}

/* Whether `wide` holds wherever `narrow` does, as far as their conditions say so. A test is taken
 * to hold nowhere. */
static bool holds_wherever(const struct log_rule *wide, const struct log_rule *narrow)
{
    for (size_t i = 0; i < wide->all.n; i++) {
        if (!element_is_implied(&wide->all.items[i], narrow)) {
            return false;
        }
    }
    for (size_t i = 0; i < wide->none.n; i++) {
        if (!is_within_one(&wide->none.items[i], &narrow->none)) {
            return false;
        }
    }
    return wide->n_tests == 0 && (wide->any.n == 0 || is_one_implied(&wide->any, narrow));
}

static int entry_order_check(struct log_rules *r, size_t index, unsigned char *marks,
                             struct gm_err *err)
{
    const struct log_rule *rule = &r->rules[index];
    memset(marks, 0, r->n_rules);
    const char *way = way_between(r, index, index, marks);
    if (way) {
        return node_error(rule->file, rule->node, err, "overrides go in a circle: %s", way);
    }
    memset(marks, 0, r->n_rules);
    overridden_mark(r, index, marks);
    for (size_t i = 0; i < r->n_rules; i++) {
        if (marks[i] && holds_wherever(rule, &r->rules[i])) {
            const struct log_rule *at = r->rules[i].file->name ? &r->rules[i] : rule;
            return node_error(at->file, at->node, err,
                              "%s can never win: %s, which overrides it, holds wherever it does",
                              r->rules[i].id, rule->id);
        }
    }
    return 0;
}

int log_order_check(struct log_rules *r, struct gm_err *err)
{
    unsigned char *marks = arena_alloc(r->arena, r->n_rules + 1);
    for (size_t i = 0; i < r->n_rules; i++) {
        int rc = entry_order_check(r, i, marks, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* ------------------------------------------------------------------ candidates */

/* Below 0: a goes first, where neither overrides the other. */
static int held_compare(const struct log_held *a, const struct log_held *b)
{
    const struct log_rule *x = a->rule, *y = b->rule;
    return x->shows != y->shows             ? (x->shows > y->shows ? -1 : 1)
           : x->confidence != y->confidence ? (x->confidence > y->confidence ? -1 : 1)
           : x->n_facts != y->n_facts       ? (x->n_facts > y->n_facts ? -1 : 1)
           : a->place != b->place           ? (a->place < b->place ? -1 : 1)
                                            : strcmp(x->id, y->id);
}

/* Of those from `at` on that no other of them overrides the one that goes first. */
static size_t first_free(const struct log_held *held, size_t at, size_t n)
{
    size_t first = n;
    for (size_t i = at; i < n; i++) {
        if (!held[i].above && (first == n || held_compare(&held[i], &held[first]) < 0)) {
            first = i;
        }
    }
    return first;
}

void log_order(const struct log_rules *r, struct arena *a, struct log_held *held, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        held[i].overridden = arena_alloc(a, r->n_rules);
        memset(held[i].overridden, 0, r->n_rules);
        overridden_mark(r, (size_t)(held[i].rule - r->rules), held[i].overridden);
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++) {
            held[i].above += held[k].overridden[held[i].rule - r->rules];
        }
    }
    for (size_t at = 0; at < n; at++) {
        size_t first = first_free(held, at, n); // there is one: overrides go in no circle
        struct log_held next = held[first];
        held[first] = held[at];
        held[at] = next;
        for (size_t i = at + 1; i < n; i++) {
            held[i].above -= next.overridden[held[i].rule - r->rules];
        }
    }
}
