/* The rule base: built-in files of kb/failures and those that are added, to one list of patterns
 * and one of entries, each by id. */
#include <stdlib.h>
#include <string.h>

#include "log/document.h"
#include "log/internal.h"
#include "log/pack.h"

/* ------------------------------------------------------------------ rows of files */

/* What the files hold, built-in ones first. */
struct collected {
    struct log_rules *rules;
    VEC(struct log_row) patterns, entries;
    const struct node *subjects;
    const struct node_file *subjects_file;
    struct log_problems *problems; // NULL: the first is the error
    struct gm_err *err;
};

/* What becomes of a row that cannot be used. */
static int row_failed(struct collected *c, int rc)
{
    if (!c->problems || rc == GM_ERR_MEMORY) {
        return rc;
    }
    c->problems->take(c->problems->arg, c->err->text);
    c->problems->n++;
    return 0;
}

static int pattern_collect(struct collected *c, struct log_row row, size_t index)
{
    const struct node *id = node_get(row.node, "id");
    const char *owner = row.entry ? row.entry->id : NULL;
    struct arena *a = c->rules->arena;
    row.id = id          ? id->text
             : !owner    ? NULL
             : index > 0 ? arena_printf(a, "%s-%zu", owner, index + 1)
                         : owner;
    row.fact = node_get(row.node, "fact") ? node_text(row.node, "fact") : owner;
    if (!row.id || !row.fact) {
        return node_error(row.file, row.node, c->err,
                          "a pattern outside an entry needs \"id\" and \"fact\"");
    }
    VEC_PUSH(a, &c->patterns, row);
    return 0;
}

/* The patterns of a file, or of one entry in it. */
static int patterns_collect(struct collected *c, const struct node_file *file,
                            const struct node *list, const struct log_row *entry)
{
    if (list && list->kind != NODE_LIST) {
        return node_error(file, list, c->err, "\"lines\" is a list");
    }
    for (size_t i = 0; list && i < list->n; i++) {
        struct log_row row = {.file = file, .node = &list->items[i], .entry = entry};
        int rc = pattern_collect(c, row, i);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int entries_collect(struct collected *c, const struct node_file *file, const char *cause)
{
    const struct node *list = node_get(&file->root, "failures");
    if (list && (list->kind != NODE_LIST || !cause)) {
        return node_error(file, list, c->err,
                          cause ? "\"failures\" is a list"
                                : "failures need a \"cause\" above them");
    }
    for (size_t i = 0; list && i < list->n; i++) {
        const struct node *node = &list->items[i];
        struct log_row *row = arena_alloc(c->rules->arena, sizeof *row);
        *row = (struct log_row){
            .file = file, .node = node, .id = node_text(node, "id"), .cause = cause};
        if (!row->id) {
            return node_error(file, node, c->err, "an entry needs an \"id\"");
        }
        VEC_PUSH(c->rules->arena, &c->entries, *row);
        int rc = patterns_collect(c, file, node_get(node, "lines"), row);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int file_collect(struct collected *c, const struct node_file *file)
{
    static const char *const keys[] = {"cause", "failures", "lines", "note", "subjects", NULL};
    const struct node *cause = node_get(&file->root, "cause");
    int rc = log_keys_check(file, &file->root, keys, c->err);
    if (rc == 0 && cause && !cause->text) {
        rc = node_error(file, cause, c->err, "\"cause\" is a text");
    }
    rc = rc < 0 ? rc : patterns_collect(c, file, node_get(&file->root, "lines"), NULL);
    rc = rc < 0 ? rc : entries_collect(c, file, cause ? cause->text : NULL);
    if (rc == 0 && node_get(&file->root, "subjects")) {
        c->subjects = node_get(&file->root, "subjects");
        c->subjects_file = file;
    }
    return rc;
}

/* ------------------------------------------------------------------ one row an id */

/* By id, a built-in one last. */
static int row_compare(const void *x, const void *y)
{
    const struct log_row *a = x, *b = y;
    int order = strcmp(a->id, b->id);
    return order ? order : (a->file->name == NULL) - (b->file->name == NULL);
}

/* Sorts; of two rows with one id an added one replaces a built-in one. */
static int rows_unite(struct log_row *rows, size_t *n, struct gm_err *err)
{
    size_t kept = 0;
    if (*n) { // no rows have no address, which qsort() must not get
        qsort(rows, *n, sizeof *rows, row_compare);
    }
    for (size_t i = 0; i < *n; i++) {
        const struct log_row *before = kept ? &rows[kept - 1] : NULL;
        if (!before || strcmp(before->id, rows[i].id) != 0) {
            rows[kept++] = rows[i];
        } else if (rows[i].file->name) {
            return node_error(rows[i].file, rows[i].node, err, "the id %s stands in %s:%u as well",
                              rows[i].id, before->file->name, before->node->line);
        }
    }
    *n = kept;
    return 0;
}

static const struct log_row *entry_find(const struct collected *c, const char *id)
{
    const struct log_row *rows = c->entries.items;
    size_t low = 0, high = c->entries.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(rows[middle].id, id) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < c->entries.n && strcmp(rows[low].id, id) == 0 ? &rows[low] : NULL;
}

/* The patterns inside an entry that was replaced go with it. */
static void patterns_of_replaced_drop(struct collected *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->patterns.n; i++) {
        const struct log_row *row = &c->patterns.items[i];
        const struct log_row *now = row->entry ? entry_find(c, row->entry->id) : NULL;
        if (!row->entry || (now && now->node == row->entry->node)) {
            c->patterns.items[kept++] = *row;
        }
    }
    c->patterns.n = kept;
}

static int collected_unite(struct collected *c)
{
    int rc = rows_unite(c->entries.items, &c->entries.n, c->err);
    if (rc == 0) {
        patterns_of_replaced_drop(c);
        rc = rows_unite(c->patterns.items, &c->patterns.n, c->err);
    }
    return rc;
}

/* ------------------------------------------------------------------ loading */

static int built_in_collect(struct collected *c)
{
    struct arena *a = c->rules->arena;
    for (struct str rest = {log_packed, log_packed_size}; rest.n;) {
        struct node_file *file = arena_alloc(a, sizeof *file);
        *file = (struct node_file){.name = NULL};
        if (node_unpack(a, &rest, &file->root) < 0) {
            return gm_err_set(c->err, GM_ERR_FORMAT, "the built-in rule base is damaged");
        }
        int rc = file_collect(c, file);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int patterns_decode(struct collected *c, struct log_literals *literals)
{
    struct log_rules *r = c->rules;
    r->signatures = arena_array(r->arena, c->patterns.n + 1, sizeof *r->signatures);
    for (size_t i = 0; i < c->patterns.n; i++) {
        int rc = log_pattern_decode(r, literals, &c->patterns.items[i], c->err);
        if (rc < 0 && row_failed(c, rc) < 0) {
            return rc;
        }
    }
    return 0;
}

static int entries_decode(struct collected *c)
{
    struct log_rules *r = c->rules;
    r->rules = arena_array(r->arena, c->entries.n + 1, sizeof *r->rules);
    for (size_t i = 0; i < c->entries.n; i++) {
        int rc = log_entry_decode(r, &c->entries.items[i], c->err);
        if (rc < 0 && row_failed(c, rc) < 0) {
            return rc;
        }
    }
    return 0;
}

static int overrides_resolve(struct collected *c)
{
    struct log_rules *r = c->rules;
    for (size_t i = 0; i < r->n_rules; i++) {
        int rc = log_overrides_resolve(r, &r->rules[i], c->err);
        rc = rc < 0 ? rc : log_repairs_inherit(r, &r->rules[i], c->err);
        if (rc < 0 && row_failed(c, rc) < 0) {
            return rc;
        }
    }
    return 0;
}

static int names_check(struct collected *c)
{
    struct log_rules *r = c->rules;
    for (size_t i = 0; i < r->n_rules; i++) {
        int rc = log_names_check(r, &r->rules[i], c->err);
        if (rc < 0 && row_failed(c, rc) < 0) {
            return rc;
        }
    }
    return 0;
}

/* Behind the literals of patterns those of tables and of screens. */
static void literals_finish(struct log_rules *r, struct log_literals *literals)
{
    for (size_t i = 0; i < TABLES; i++) {
        VEC_PUSH(r->arena, &literals->texts, table_heads[i]);
        VEC_PUSH(r->arena, &literals->owners, (uint32_t)(r->n_signatures + i));
    }
    for (size_t i = 0; i < screen_heads_count; i++) {
        size_t owner = r->n_signatures + TABLES + (size_t)screen_heads[i].screen;
        VEC_PUSH(r->arena, &literals->texts, screen_heads[i].literal);
        VEC_PUSH(r->arena, &literals->owners, (uint32_t)owner);
    }
    screen_rows_prepare(r);
    document_lines_prepare(r);
    r->literals = literals->texts.items;
    r->owners = literals->owners.items;
    r->n_literals = literals->texts.n;
    r->filter = filter_build(r->arena, r->literals, r->n_literals);
}

/* Rows first, then what they say of one another: without a row the rest would be told wrongly. */
static int collected_decode(struct collected *c, struct log_literals *literals, bool checked)
{
    int rc = patterns_decode(c, literals);
    rc = rc < 0 ? rc : entries_decode(c);
    if (rc < 0 || (c->problems && c->problems->n)) {
        return rc;
    }
    rc = overrides_resolve(c);
    rc = rc < 0 || checked ? rc : names_check(c);
    if (rc == 0 && !checked && !(c->problems && c->problems->n)) {
        rc = log_order_check(c->rules, c->err);
        rc = rc < 0 ? row_failed(c, rc) : 0;
    }
    return rc < 0 || !c->subjects
               ? rc
               : subjects_decode(c->rules, c->subjects_file, c->subjects, c->err);
}

/* The rows of all files, one for each id. */
static int files_collect(struct collected *c, const struct node_files *files, bool built_in)
{
    int rc = built_in ? built_in_collect(c) : 0;
    for (size_t i = 0; rc == 0 && i < files->n; i++) {
        rc = file_collect(c, &files->items[i]);
        rc = rc < 0 ? row_failed(c, rc) : 0;
    }
    if (rc == 0 && (c->entries.n > LOG_ENTRIES_MAX || c->patterns.n > LOG_PATTERNS_MAX)) {
        rc = gm_err_set(c->err, GM_ERR_LIMIT, "more than %d entries or %d patterns",
                        LOG_ENTRIES_MAX, LOG_PATTERNS_MAX);
    }
    return rc < 0 ? rc : collected_unite(c);
}

int log_rules_of(struct kb *kb, struct arena *a, const struct log_sources *sources,
                 struct log_rules **ret, struct gm_err *err)
{
    struct log_rules *r = arena_alloc(a, sizeof *r);
    struct log_literals literals = {0};
    *r = (struct log_rules){.arena = a, .kb = kb, .names = {.arena = a}};
    struct collected c = {.rules = r, .problems = sources->problems, .err = err};
    *ret = r;
    int rc = files_collect(&c, sources->files, sources->built_in);
    rc = rc < 0 ? rc : collected_decode(&c, &literals, sources->files->n == 0);
    if (rc == 0) {
        literals_finish(r, &literals);
    }
    return rc;
}

size_t log_patterns_of_files(const struct log_rules *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_signatures; i++) {
        n += !r->signatures[i].built_in;
    }
    return n;
}

int log_rules_load(struct kb *kb, struct arena *a, const struct node_files *files,
                   struct log_rules **ret, struct gm_err *err)
{
    struct gm_err mine;
    const struct node_files none = {0};
    const struct log_sources sources = {.files = files ? files : &none, .built_in = true};
    int rc = log_rules_of(kb, a, &sources, ret, &mine);
    rc = rc == 0 && kb->folder ? words_load(*ret, &mine) : rc; // the built-in ones: when needed
    return rc < 0 ? gm_err_set(err, mine.code, "%s", mine.text) : 0;
}

size_t rules_owners_count(const struct log_rules *r)
{
    return r->n_signatures + TABLES + SCREENS;
}

const struct sieve *rules_sieve(struct log_rules *r, bool watching)
{
    if (r->sieves[watching]) {
        return r->sieves[watching];
    }
    size_t n_owners = rules_owners_count(r);
    const char **expressions = arena_array(r->arena, n_owners, sizeof *expressions);
    bool *watched = arena_array(r->arena, r->n_literals + 1, sizeof *watched);
    for (size_t i = 0; i < r->n_signatures; i++) {
        expressions[i] = r->signatures[i].regex.text;
    }
    for (size_t i = 0; watching && i < r->n_literals; i++) {
        watched[i] = str_starts(str_of(r->literals[i]), "note:") ||
                     subjects_in(&r->subjects, r->literals[i]);
    }
    struct sieve_source source = {expressions, n_owners, r->literals,
                                  r->owners,   watched,  r->n_literals};
    return r->sieves[watching] = sieve_build(r->arena, &source);
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
