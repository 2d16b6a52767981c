/*
 * Shared by the files of this room: the decoded rules, the lines, the facts.
 *
 * Kinds, field names and ids are *interned* in the rules: one pointer for one text, so that they are
 * compared by pointer.
 */
#ifndef GPUMEND_LOG_INTERNAL_H
#define GPUMEND_LOG_INTERNAL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/str.h"
#include "log/filter.h"
#include "log/log.h"

enum { LOG_GROUPS_MAX = 24, LOG_FIELDS_MAX = 16, LOG_ELEMENTS_MAX = 24 };

/* An expression, compiled when it is first tried. */
struct log_regex {
    const char *text; // NULL: none
    pcre2_code *code;
    bool tried;
    uint64_t wasted_ns; // in searches that took too long; given up when that is too much
    const char *groups[LOG_GROUPS_MAX]; // interned name of each numbered group, or NULL
    unsigned n_groups;
};

struct log_signature {
    const char *id, *kind;
    struct log_regex regex;
    const struct log_field *fields; // constants
    size_t n_fields;
};

struct log_condition {
    const char *field;
    struct log_regex *regex;
    bool negated;
};

struct log_element {
    const char **kinds;
    size_t n_kinds;
    struct log_condition *conditions;
    size_t n_conditions;
    uint64_t near; // lines from the first fact of the rule; UINT64_MAX: anywhere
};

struct log_elements {
    struct log_element *items;
    size_t n;
};

struct log_matched;
typedef bool (*log_test)(struct log_matched *matched);

struct log_rule {
    const char *id, *cause, *culprit, *says, *decides;
    struct log_elements all, any, none;
    log_test *tests;
    size_t n_tests;
    int rank;
    enum log_confidence confidence;
    struct log_repair *repairs;
    size_t n_repairs;
};

/* What a test sees: the facts that fit the rule's elements, and all facts. */
struct log_matched {
    const struct log_fact *const *items;
    size_t n;
    const struct log_fact *const *facts;
    size_t n_facts;
    struct arena *a; // for scratch
    struct log_rules *rules;
    const struct log_fact *shown; // what a test decided by, to be quoted as well; or NULL
};

struct log_rules {
    struct arena *arena;
    struct kb *kb;
    struct log_signature *signatures;
    size_t n_signatures;
    struct log_rule *rules;
    size_t n_rules;
    const char **literals; // of all signatures and, behind them, of the heads of tables
    uint32_t *owners;      // of each literal: signature, or n_signatures + table
    size_t n_literals;
    struct filter *filter;
    const char **interned; // open addressing
    size_t n_interned, cap_interned;
    VEC(struct log_regex *) compiled; // to be freed
    pcre2_match_context *limits;
    pcre2_match_data *groups;
};

const char *rules_intern(struct log_rules *r, const char *text, size_t n);

/* The named test of a rule, or NULL. */
log_test log_test_by_name(const char *name);

/* What these facts mean: fills candidates, facts and platform. */
void log_judge_facts(struct log_rules *r, struct arena *a, const struct log_fact *const *facts,
                     size_t n_facts, struct log_result *ret);

/* ------------------------------------------------------------------ expressions */

/* Searches text[from, n), which is UTF-8, and with from > 0 was searched before; > 0 if it matches, and *ret_at (may be NULL) are its offsets, valid until
 * the next search. An expression that cannot be compiled, or reached a limit, matches nothing. */
int regex_search(struct log_rules *r, struct log_regex *x, const char *text, size_t n, size_t from,
                 const size_t **ret_at);
bool regex_given_up(const struct log_regex *x);
void regex_free(struct log_regex *x);

/* 0, or GM_ERR_FORMAT with the reason; compiles it. */
int regex_check(struct log_rules *r, struct log_regex *x, struct gm_err *err) GM_CHECK;

/* ------------------------------------------------------------------ lines */

/* One line made plain. Belongs to the caller of lines_each(). */
struct log_line {
    const char *text;
    size_t n;
    size_t body; // where it begins behind timestamps and names of containers and processes
    uint64_t number, place, process;
};

/* Takes what a terminal would not print out of a line; `out` has room for n bytes. */
size_t line_clean(const char *in, size_t n, char *out);

/* Bytes that are no UTF-8 become the letters that they are in ISO 8859-1; `out` has room for 2 * n. */
size_t line_as_utf8(const char *in, size_t n, char *out);

/* Measures the prefix of a clean line: body and process. */
void line_prefix(struct log_line *line);

/* Calls take(arg, text, n) for each text inside a JSON object; false if this is none. */
bool line_json(const char *text, size_t n, void (*take)(void *arg, const char *text, size_t n),
               void *arg);

/* ------------------------------------------------------------------ facts */

struct log_store {
    struct arena *arena;
    VEC(const struct log_fact *) facts;
    unsigned *per_signature; // and one more for tables
    uint32_t *table;         // open addressing by hash: index of a fact + 1
    bool dropped;
    uint64_t text_line; // the evidence stored last, which several facts of a line share
    const char *text_from, *text;
};

void store_init(struct log_store *s, struct arena *a, size_t n_signatures);

/* Keeps a fact of the line, unless there are enough of it. `signature`: its index, n_signatures for
 * tables. Values are copied. */
void store_add(struct log_store *s, size_t signature, const char *id, const char *kind,
               const struct log_line *line, const struct log_field *fields, size_t n_fields);

/* ------------------------------------------------------------------ tables */

enum log_table { TABLE_PIP, TABLE_CONDA, TABLES, TABLE_NONE = TABLES };

/* Literals by which the head of each table is found. */
extern const char *const table_heads[TABLES];

/* Whether the line is the head of this table. */
bool table_begins(enum log_table table, struct str line);

enum table_row { TABLE_ROW, TABLE_RULE, TABLE_END };

/* One line behind a head: a row (package and version), a ruling line, or the end of the table. */
enum table_row table_row(struct str line, struct str *ret_package, struct str *ret_version);

#endif
