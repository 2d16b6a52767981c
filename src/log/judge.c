/* From facts to causes: every entry whose conditions hold is a candidate; src/log/order.c has which
 * goes first. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "log/internal.h"
#include "log/shells.h"

/* ------------------------------------------------------------------ conditions */

static bool rule_condition_holds(struct log_rules *r, const struct log_condition *c,
                                 const struct log_fact *f)
{
    const char *value = NULL;
    for (size_t i = 0; i < f->n_fields && !value; i++) {
        value = f->fields[i].name == c->field ? f->fields[i].value : NULL; // names are interned
    }
    bool matches = value && regex_search(r, c->regex, value, strlen(value), 0, NULL) > 0;
    return matches != c->negated;
}

static bool element_fits(struct log_rules *r, const struct log_element *e, const struct log_fact *f)
{
    bool kind = false;
    for (size_t i = 0; i < e->n_kinds && !kind; i++) {
        kind = f->kind == e->kinds[i];
    }
    for (size_t i = 0; kind && i < e->n_conditions; i++) {
        kind = rule_condition_holds(r, &e->conditions[i], f);
    }
    return kind;
}

static bool is_near(const struct log_element *e, const struct log_matched *m,
                    const struct log_fact *f)
{
    if (e->near == UINT64_MAX || !m->n) {
        return true;
    }
    uint64_t first = m->items[0]->place;
    return (f->place > first ? f->place - first : first - f->place) <= e->near;
}

/* The earliest fact for an element, or NULL. */
static const struct log_fact *earliest_fact(const struct log_matched *m,
                                            const struct log_element *e)
{
    for (size_t i = 0; i < m->n_facts; i++) {
        if (element_fits(m->rules, e, m->facts[i]) && is_near(e, m, m->facts[i])) {
            return m->facts[i];
        }
    }
    return NULL;
}

static bool rule_holds(const struct log_rule *rule, struct log_matched *m,
                       const struct log_fact **matched)
{
    m->items = matched;
    for (size_t i = 0; i < rule->all.n; i++) {
        const struct log_fact *f = earliest_fact(m, &rule->all.items[i]);
        if (!f) {
            return false;
        }
        matched[m->n++] = f;
    }
    const struct log_fact *one = NULL;
    for (size_t i = 0; i < rule->any.n && !one; i++) {
        one = earliest_fact(m, &rule->any.items[i]);
    }
    if (rule->any.n && !one) {
        return false;
    }
    if (one) {
        matched[m->n++] = one;
    }
    for (size_t i = 0; i < rule->none.n; i++) {
        if (earliest_fact(m, &rule->none.items[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < rule->n_tests; i++) {
        if (!rule->tests[i](m)) {
            return false;
        }
    }
    if (m->release) {
        matched[0] = log_release_fact(m->release); // it need not be the earliest
    }
    return true;
}

/* ------------------------------------------------------------------ platform, repairs */

static bool says_platform(const struct log_fact *f, enum log_platform platform)
{
    const char *value = strcmp(f->kind, "platform") == 0 ? log_fact_field(f, "platform") : NULL;
    return value && strcmp(value, log_platform_name(platform)) == 0;
}

static bool shows_platform(const struct log_matched *m, enum log_platform platform)
{
    for (size_t i = 0; i < m->n_facts; i++) {
        if (says_platform(m->facts[i], platform) && !log_fact_field(m->facts[i], "by")) {
            return true;
        }
    }
    return false;
}

/* A mere mention of Windows may come from advice ("On Windows, try setting CUDA_PATH"): it does not
 * count in a log that shows file names or paths of Linux. */
static void drop_named_windows(struct log_matched *m)
{
    if (shows_platform(m, LOG_WINDOWS) || !shows_platform(m, LOG_LINUX)) {
        return;
    }
    const struct log_fact **kept = arena_array(m->a, m->n_facts + 1, sizeof *kept);
    size_t n = 0;
    for (size_t i = 0; i < m->n_facts; i++) {
        if (!says_platform(m->facts[i], LOG_WINDOWS)) {
            kept[n++] = m->facts[i];
        }
    }
    m->facts = kept;
    m->n_facts = n;
}

/* The nearest one that the text names: a container or WSL shows marks of Linux too. */
static enum log_platform matched_platform(const struct log_matched *m)
{
    static const enum log_platform order[] = {LOG_JETSON,  LOG_WSL,   LOG_CONTAINER,
                                              LOG_WINDOWS, LOG_MACOS, LOG_LINUX};
    for (size_t p = 0; p < sizeof order / sizeof *order; p++) {
        for (size_t i = 0; i < m->n_facts; i++) {
            if (says_platform(m->facts[i], order[p])) {
                return order[p];
            }
        }
    }
    return LOG_ANY;
}

static bool has_repair_for(const struct log_rule *rule, enum log_platform platform)
{
    for (size_t i = 0; i < rule->n_repairs; i++) {
        if (rule->repairs[i].platform == platform) {
            return true;
        }
    }
    return false;
}

static bool names_value(const struct log_matched *m, const char *name, const char *wanted)
{
    for (size_t i = 0; i < m->n_facts; i++) {
        const char *value = log_fact_field(m->facts[i], name);
        if (value && strcasecmp(value, wanted) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether facts have the field, and none of them this value: `wanted` is for something else then.
 */
static bool is_for_another(const struct log_matched *m, const char *name, const char *wanted)
{
    bool named = false;
    for (size_t i = 0; wanted && i < m->n_facts; i++) {
        const char *value = log_fact_field(m->facts[i], name);
        if (value && strcasecmp(value, wanted) == 0) {
            return false;
        }
        named = named || value;
    }
    return named;
}

/* Whether the text has every field that the repair is for. */
static bool where_holds(const struct log_matched *m, const struct log_repair *repair)
{
    for (size_t i = 0; i < repair->n_where; i++) {
        const struct log_condition *c = &repair->where[i];
        const char *value = log_field_of(m, str_of(c->field));
        bool found = value && regex_search(m->rules, c->regex, value, strlen(value), 0, NULL) > 0;
        for (size_t k = 0; !found && k < m->n_facts; k++) {
            found = rule_condition_holds(m->rules, c, m->facts[k]);
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

/* What a repair is for: one for what the text names goes before one for everybody. */
static unsigned nearness(const struct log_matched *m, const struct log_repair *repair)
{
    return (repair->n_where > 0) + (repair->engine && names_value(m, "engine", repair->engine)) +
           (repair->program && names_value(m, "program", repair->program));
}

/* WSL, containers and Jetson are Linux where an entry has nothing of their own. */
static bool is_for(const struct log_matched *m, const struct log_rule *rule,
                   const struct log_repair *repair, enum log_platform platform)
{
    if (is_for_another(m, "engine", repair->engine) ||
        is_for_another(m, "program", repair->program) || !where_holds(m, repair)) {
        return false;
    }
    if (platform == LOG_ANY || repair->platform == LOG_ANY || repair->platform == platform) {
        return true;
    }
    return repair->platform == LOG_LINUX && !has_repair_for(rule, platform) &&
           (platform == LOG_WSL || platform == LOG_CONTAINER || platform == LOG_JETSON);
}

static void choose_repairs(const struct log_matched *m, const struct log_rule *rule,
                           enum log_platform platform, struct log_candidate *to)
{
    struct log_repair *list = arena_array(m->a, rule->n_repairs + 1, sizeof *list);
    to->repairs = list;
    for (size_t i = 0; i < rule->n_repairs; i++) {
        const struct log_repair *r = &rule->repairs[i];
        if (is_for(m, rule, r, platform)) {
            struct log_repair repair = *r;
            repair.text = log_fill_text(m, r->text);
            repair.command = log_fill_command(m, r->command);
            if (repair.command && platform == LOG_WINDOWS && r->platform == LOG_ANY) {
                repair.command = log_windows_command(m->a, repair.command);
                if (log_is_powershell(repair.command) && !strstr(repair.text, "PowerShell")) {
                    repair.text = arena_printf(m->a, "%s The line is for PowerShell.", repair.text);
                }
            }
            size_t at = to->n_repairs++;
            for (; at && nearness(m, r) > nearness(m, &list[at - 1]); at--) {
                list[at] = list[at - 1];
            }
            list[at] = repair;
        }
    }
}

/* ------------------------------------------------------------------ candidates */

static struct log_candidate rule_candidate(struct log_matched *m, const struct log_rule *rule,
                                           enum log_platform platform)
{
    const struct log_fact **evidence = arena_array(m->a, m->n + 1, sizeof *evidence);
    for (size_t i = 0; i < m->n; i++) {
        evidence[i] = m->items[i];
    }
    evidence[m->n] = m->shown;
    struct log_candidate c = {
        .rule = rule->id,
        .cause = rule->cause,
        .confidence = rule->confidence,
        .culprit = log_fill_parts(m, rule->culprit, true),
        .says = log_fill_text(m, rule->says),
        .decides = log_fill_command(m, rule->decides),
        .evidence = evidence,
        .n_evidence = m->n + (m->shown != NULL),
    };
    choose_repairs(m, rule, platform, &c);
    return c;
}

/* ------------------------------------------------------------------ several failures */

static uint64_t place_first(const struct log_candidate *c)
{
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < c->n_evidence; i++) {
        first = c->evidence[i]->place < first ? c->evidence[i]->place : first;
    }
    return first;
}

static uint64_t place_last(const struct log_candidate *c)
{
    uint64_t last = 0;
    for (size_t i = 0; i < c->n_evidence; i++) {
        last = c->evidence[i]->place > last ? c->evidence[i]->place : last;
    }
    return last;
}

/* Whether a process dies in the lines [from, to). */
static bool dies_between(const struct log_matched *all, uint64_t from, uint64_t to)
{
    for (size_t i = 0; i < all->n_facts; i++) {
        const struct log_fact *f = all->facts[i];
        if (strcmp(f->kind, "crash") == 0 && f->place >= from && f->place < to) {
            return true;
        }
    }
    return false;
}

/* Whether a line of the reading is a message of a program that fails, not what a person notes or a
 * tool shows, which say more about an earlier message. */
static bool has_message(const struct log_candidate *c)
{
    static const char *const signs[] = {"error",      "fail",         "fatal",  "exception",
                                        "denied",     "abort",        "killed", "cannot ",
                                        "not found ", "out of memory"};
    for (size_t i = 0; i < c->n_evidence; i++) {
        const char *text = c->evidence[i]->text;
        for (size_t k = 0; k < sizeof signs / sizeof *signs; k++) {
            if (!str_starts(str_of(text), "note:") && strcasestr(text, signs[k])) {
                return true;
            }
        }
    }
    return false;
}

static bool is_same_text(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static bool is_of_absent_library(const struct log_fact *f)
{
    return str_ends(str_of(f->kind), "-not-found") || str_ends(str_of(f->kind), "-not-opened");
}

/* Whether two messages alike name two things: a tool's message of two lines names one. */
static bool name_two(const struct log_fact *a, const struct log_fact *b)
{
    static const char *const things[] = {"library", "object", "file", "package"};
    bool alike =
        strcmp(a->kind, b->kind) == 0 || (is_of_absent_library(a) && is_of_absent_library(b));
    for (size_t i = 0; alike && i < sizeof things / sizeof *things; i++) {
        const char *x = log_fact_field(a, things[i]), *y = log_fact_field(b, things[i]);
        if (x && y) {
            return strcmp(x, y) != 0;
        }
    }
    return false;
}

bool log_is_same_failure(const struct log_candidate *a, const struct log_candidate *b)
{
    if (!is_same_text(a->cause, b->cause)) {
        return false;
    }
    const struct log_fact *x = a->n_evidence ? a->evidence[0] : NULL;
    const struct log_fact *y = b->n_evidence ? b->evidence[0] : NULL;
    bool same_repair = a->n_repairs && b->n_repairs && a->repairs[0].command &&
                       is_same_text(a->repairs[0].command, b->repairs[0].command);
    return !x || !y || x->line == y->line || !name_two(x, y) || same_repair ||
           is_same_text(a->culprit, b->culprit);
}

/* Whether an entry tells of a failure of its own that came before the one that goes first: all its
 * lines are earlier, and it is as sure a message as a verdict needs, or the process died of it. */
static bool comes_before(const struct log_matched *all, const struct log_held *earlier,
                         const struct log_held *first)
{
    const struct log_candidate *a = &earlier->candidate, *b = &first->candidate;
    if (!a->cause || !b->cause || log_is_same_failure(a, b) || !a->n_evidence ||
        place_last(a) >= place_first(b) || !has_message(b) || earlier->rule->shows < SHOWS_HINT ||
        first->overridden[earlier->rule - all->rules->rules]) {
        return false;
    }
    return (a->confidence >= LOG_LIKELY && earlier->rule->shows >= SHOWS_MESSAGE) ||
           dies_between(all, place_first(a), place_first(b));
}

/* Of several failures of their own the first in time is the verdict. */
static void first_in_time(const struct log_matched *all, struct log_held *held, size_t n)
{
    size_t first = 0;
    for (size_t i = 1; i < n; i++) {
        if (comes_before(all, &held[i], &held[first])) {
            first = i;
        }
    }
    struct log_held verdict = n ? held[first] : (struct log_held){0};
    for (; first; first--) {
        held[first] = held[first - 1];
    }
    if (n) {
        held[0] = verdict;
    }
}

/* Leaves out the facts of the line that a reading begins with. */
static void facts_drop_line(struct log_matched *m, const struct log_candidate *c)
{
    const struct log_fact **rest = arena_array(m->a, m->n_facts + 1, sizeof *rest);
    size_t n = 0;
    for (size_t i = 0; i < m->n_facts; i++) {
        if (m->facts[i]->place != c->evidence[0]->place) {
            rest[n++] = m->facts[i];
        }
    }
    m->facts = rest;
    m->n_facts = n;
}

static struct log_held held_of(struct log_matched *m, const struct log_rule *rule,
                               enum log_platform platform)
{
    return (struct log_held){
        .rule = rule,
        .candidate = rule_candidate(m, rule, platform),
        .place = m->n       ? m->items[0]->place
                 : m->shown ? m->shown->place
                            : 0,
    };
}

/* The failures that one entry tells of: what it holds for, and once more without the line of that,
 * as often as this is another failure. */
static size_t hold_each(const struct log_matched *all, const struct log_rule *rule,
                        enum log_platform platform, struct log_held *ret)
{
    struct log_matched rest = *all;
    size_t n = 0;
    while (n < LOG_HELD_MAX) {
        const struct log_fact *matched[LOG_ELEMENTS_MAX + 1];
        struct log_matched m = rest;
        if (!rule_holds(rule, &m, matched)) {
            break;
        }
        ret[n] = held_of(&m, rule, platform);
        const struct log_candidate *c = &ret[n].candidate;
        bool same = !c->cause && n > 0;
        for (size_t i = 0; i < n && !same; i++) {
            same = is_same_text(ret[i].candidate.culprit, c->culprit);
        }
        if (same || rule->shows < SHOWS_HINT || rule->confidence < LOG_LIKELY || !m.n) {
            return n + (n == 0);
        }
        n++;
        facts_drop_line(&rest, c);
    }
    return n;
}

void log_judge_facts(struct log_rules *r, struct arena *a, const struct log_fact *const *facts,
                     size_t n_facts, struct log_result *ret)
{
    struct log_held *held = arena_array(a, r->n_rules * LOG_HELD_MAX + 1, sizeof *held);
    struct log_candidate *list = arena_array(a, r->n_rules * LOG_HELD_MAX + 1, sizeof *list);
    struct log_matched all = {.facts = facts, .n_facts = n_facts, .a = a, .rules = r};
    *ret = (struct log_result){.candidates = list, .facts = facts, .n_facts = n_facts};
    drop_named_windows(&all);
    ret->platform = matched_platform(&all);
    for (size_t i = 0; i < r->n_rules; i++) {
        ret->n += hold_each(&all, &r->rules[i], ret->platform, &held[ret->n]);
    }
    log_order(r, a, held, ret->n);
    first_in_time(&all, held, ret->n);
    for (size_t i = 0; i < ret->n; i++) {
        list[i] = held[i].candidate;
        list[i].entry = (size_t)(held[i].rule - r->rules);
        list[i].overridden = held[i].overridden;
    }
}

static bool rests_on(const struct log_candidate *c, uint64_t line)
{
    for (size_t i = 0; i < c->n_evidence; i++) {
        if (c->evidence[i]->line == line) {
            return true;
        }
    }
    return false;
}

bool log_reads_again(const struct log_candidate *verdict, const struct log_candidate *other)
{
    if (!verdict->cause || verdict->confidence < LOG_LIKELY || !other->n_evidence) {
        return false;
    }
    for (size_t i = 0; i < other->n_evidence; i++) {
        if (!rests_on(verdict, other->evidence[i]->line)) {
            return false;
        }
    }
    return true;
}

bool log_contradicts(const struct log_candidate *verdict, const struct log_candidate *other)
{
    return log_reads_again(verdict, other) &&
           (!other->cause || other->confidence < LOG_LIKELY || verdict->overridden[other->entry]);
}
