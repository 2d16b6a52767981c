/* Whether what an entry asks for can be there: kinds of facts and fields that something yields. */
#include <string.h>

#include "log/internal.h"

/* Facts that neither patterns nor screens yield (src/log/tables.c, words.c, log.c). */
static const struct {
    const char *kind, *fields[7];
} of_code[] = {
    {"installed", {"package", "version"}},
    {"words", {"class", "rank", "share", "words", "named", "instead"}},
    {"capability", {"arch", "gpu", "vendor", "by_name"}},
    {"gfx", {"arch", "gpu", "vendor", "by_name"}},
};

static bool code_yields(const char *kind, const char *field)
{
    for (size_t i = 0; i < sizeof of_code / sizeof *of_code; i++) {
        bool found = strcmp(of_code[i].kind, kind) == 0 && !field;
        for (size_t k = 0; field && k < 7 && of_code[i].fields[k]; k++) {
            found = found || (strcmp(of_code[i].kind, kind) == 0 &&
                              strcmp(of_code[i].fields[k], field) == 0);
        }
        if (found) {
            return true;
        }
    }
    return false;
}

static bool pattern_yields(const struct log_signature *s, const char *field)
{
    for (size_t i = 0; i < s->n_fields; i++) {
        if (strcmp(s->fields[i].name, field) == 0) {
            return true;
        }
    }
    return s->regex.text && regex_names(s->regex.text, field);
}

/* `kind` is interned. */
static bool is_yielded(const struct log_rules *r, const char *kind, const char *field)
{
    for (size_t i = 0; i < r->n_signatures; i++) {
        if (r->signatures[i].kind == kind && (!field || pattern_yields(&r->signatures[i], field))) {
            return true;
        }
    }
    return code_yields(kind, field) || screen_yields(kind, field);
}

static int element_check(const struct log_rules *r, const struct log_rule *rule,
                         const struct log_element *e, struct gm_err *err)
{
    for (size_t i = 0; i < e->n_kinds; i++) {
        if (!is_yielded(r, e->kinds[i], NULL)) {
            return node_error(rule->file, rule->node, err, "%s: nothing yields the fact \"%.60s\"",
                              rule->id, e->kinds[i]);
        }
    }
    for (size_t i = 0; i < e->n_conditions; i++) {
        bool found = false;
        for (size_t k = 0; k < e->n_kinds && !found; k++) {
            found = is_yielded(r, e->kinds[k], e->conditions[i].field);
        }
        if (!found) {
            return node_error(rule->file, rule->node, err, "%s: \"%s\" has no field \"%.60s\"",
                              rule->id, e->kinds[0], e->conditions[i].field);
        }
    }
    return 0;
}

static int elements_check(const struct log_rules *r, const struct log_rule *rule,
                          const struct log_elements *list, struct gm_err *err)
{
    for (size_t i = 0; i < list->n; i++) {
        int rc = element_check(r, rule, &list->items[i], err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* A brace that begins like a choice of fields and is none would be printed as it is. */
static int fields_check(const struct log_rule *rule, const char *text, struct gm_err *err)
{
    for (const char *at = text ? strchr(text, '{') : NULL; at; at = strchr(at + 1, '{')) {
        size_t n = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz_|");
        if (memchr(at + 1, '|', n) && at[1 + n] != '}') {
            return node_error(rule->file, rule->node, err, "%s: \"%.60s\" is not a field", rule->id,
                              at);
        }
    }
    return 0;
}

static int texts_check(const struct log_rule *rule, struct gm_err *err)
{
    int rc = fields_check(rule, rule->culprit, err);
    rc = rc < 0 ? rc : fields_check(rule, rule->says, err);
    for (size_t i = 0; rc == 0 && i < rule->n_repairs; i++) {
        rc = fields_check(rule, rule->repairs[i].text, err);
    }
    return rc;
}

int log_names_check(const struct log_rules *r, const struct log_rule *rule, struct gm_err *err)
{
    if (texts_check(rule, err) < 0) {
        return -1;
    }
    int rc = rule->file->name ? elements_check(r, rule, &rule->all, err) : 0;
    rc = rc < 0 || !rule->file->name ? rc : elements_check(r, rule, &rule->any, err);
    return rc < 0 || !rule->file->name ? rc : elements_check(r, rule, &rule->none, err);
}
