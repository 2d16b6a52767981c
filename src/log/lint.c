#include "log/lint.h"

#include <string.h>

#include "log/internal.h"

enum { EXAMPLES_MIN = 2, NEAR_MISSES_MIN = 1 };

struct lint {
    struct log_rules *rules;
    void (*problem)(void *arg, const char *text);
    void *arg;
    struct log_linted *counts;
};

static void problem_tell(struct lint *l, const struct gm_err *err)
{
    l->problem(l->arg, err->text);
    l->counts->problems++;
}

/* Whether the entry is among the readings of the text. */
static bool is_reading(struct log_rules *r, const char *text, const char *rule)
{
    struct arena a;
    struct log_result result;
    bool found = false;
    arena_init(&a, 0, NULL, NULL);
    struct log *log = log_open(r, &a);
    log_feed(log, text, strlen(text));
    log_end(log);
    log_judge(log, &a, &result);
    for (size_t i = 0; i < result.n && !found; i++) {
        found = strcmp(result.candidates[i].rule, rule) == 0;
    }
    arena_release(&a);
    return found;
}

/* An example says where it was seen, or which source or document has the format of its lines. */
static int example_check(const struct lint *l, const struct log_rule *rule, const struct node *item,
                         bool matches, struct gm_err *err)
{
    static const char *const keys[] = {"format", "log", "seen", NULL};
    int rc = log_keys_check(rule->file, item, keys, err);
    const char *text = node_text(item, "log");
    bool seen = node_text(item, "seen"), format = node_text(item, "format");
    if (rc < 0) {
        return rc;
    }
    if (!text || seen == format) {
        return node_error(rule->file, item, err,
                          "%s: an example has \"log\", and either \"seen\" or \"format\"",
                          rule->id);
    }
    if (is_reading(l->rules, text, rule->id) != matches) {
        return node_error(rule->file, item, err,
                          matches ? "%s does not match its example" : "%s matches its near miss",
                          rule->id);
    }
    return 0;
}

static bool is_repeated(const struct node *list, size_t index)
{
    const char *text = node_text(&list->items[index], "log");
    for (size_t i = 0; text && i < index; i++) {
        const char *before = node_text(&list->items[i], "log");
        if (before && strcmp(before, text) == 0) {
            return true;
        }
    }
    return false;
}

static void examples_lint(struct lint *l, const struct log_rule *rule, const char *key, size_t min,
                          size_t *count)
{
    const struct node *list = node_get(rule->node, key);
    struct gm_err err;
    if (!list || list->kind != NODE_LIST || list->n < min) {
        (void)node_error(rule->file, list ? list : rule->node, &err,
                         "%s: \"%s\" has %zu items or more", rule->id, key, min);
        problem_tell(l, &err);
        return;
    }
    for (size_t i = 0; i < list->n; i++, ++*count) {
        int rc = is_repeated(list, i)
                     ? node_error(rule->file, &list->items[i], &err, "%s: it stands there twice",
                                  rule->id)
                     : example_check(l, rule, &list->items[i], min == EXAMPLES_MIN, &err);
        if (rc < 0) {
            problem_tell(l, &err);
        }
    }
}

static void entries_lint(struct lint *l)
{
    for (size_t i = 0; i < l->rules->n_rules; i++) {
        const struct log_rule *rule = &l->rules->rules[i];
        if (rule->file->name) {
            l->counts->entries++;
            examples_lint(l, rule, "examples", EXAMPLES_MIN, &l->counts->examples);
            examples_lint(l, rule, "near_misses", NEAR_MISSES_MIN, &l->counts->near_misses);
        }
    }
}

static void built_in_lint(struct lint *l)
{
    struct gm_err err;
    for (size_t i = 0; i < l->rules->n_signatures; i++) {
        struct log_signature *s = &l->rules->signatures[i];
        if (s->regex.text && regex_check(l->rules, &s->regex, &err) < 0) {
            problem_tell(l, &err);
        }
    }
    if (log_order_check(l->rules, &err) < 0) {
        problem_tell(l, &err);
    }
    l->counts->entries = l->rules->n_rules;
    l->counts->patterns = l->rules->n_signatures;
}

void log_lint(struct kb *kb, struct arena *a, const struct node_files *files,
              void (*problem)(void *arg, const char *text), void *arg, struct log_linted *ret)
{
    struct lint l = {.problem = problem, .arg = arg, .counts = ret};
    struct log_problems problems = {.take = problem, .arg = arg};
    struct gm_err err;
    *ret = (struct log_linted){0};
    const struct log_sources sources = {.files = files, .built_in = true, .problems = &problems};
    int rc = log_rules_of(kb, a, &sources, &l.rules, &err);
    ret->problems = problems.n;
    if (rc < 0) {
        problem_tell(&l, &err);
    } else if (problems.n == 0 && files->n) {
        ret->patterns = log_patterns_of_files(l.rules);
        entries_lint(&l);
    } else if (problems.n == 0) {
        built_in_lint(&l);
    }
    log_rules_close(l.rules);
}
