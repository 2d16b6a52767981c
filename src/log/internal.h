/*
 * Shared by the files of this room: the decoded rules, the lines, the facts.
 *
 * Kinds, field names and ids are *interned* in the rules: one pointer for one text, so that they
 * are compared by pointer.
 */
#ifndef GPUMEND_LOG_INTERNAL_H
#define GPUMEND_LOG_INTERNAL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/node.h"
#include "base/str.h"
#include "kb/names.h"
#include "log/automaton.h"
#include "log/filter.h"
#include "log/log.h"
#include "log/sieve.h"
#include "log/spent.h"

enum { LOG_GROUPS_MAX = 24, LOG_FIELDS_MAX = 16, LOG_ELEMENTS_MAX = 24 };
enum { LOG_HELD_MAX = 3 }; // failures that one entry tells of

/* An expression, compiled when it is first tried. */
struct log_regex {
    const char *text; // NULL: none
    pcre2_code *code;
    bool tried;
    unsigned dear; // searches in this log that took many steps; given up when there are too many
    unsigned searches;           // in this log, up to those from which on the automaton is asked
    bool has_automaton;          // that it was made, where it can be
    struct automaton *automaton; // NULL: each text is searched
    const char *groups[LOG_GROUPS_MAX]; // interned name of each numbered group, or NULL
    unsigned n_groups;
};

struct log_signature {
    const char *id, *kind;
    bool built_in;
    struct log_regex regex;
    struct log_regex refuted_by;    // the next line, if it matches, takes the fact back
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

/* What the lines of an entry show: from what says least to what says most. */
enum log_shows {
    SHOWS_WORDS,   // what its words are most like; no message is known
    SHOWS_SYMPTOM, // that something does not work, which has many causes
    SHOWS_HINT,    // a message that several mechanisms print
    SHOWS_MESSAGE, // the message of this mechanism
    SHOWS_REASON,  // the mechanism itself, in words
};

struct log_matched;
typedef bool (*log_test)(struct log_matched *matched);

struct log_rule {
    const char *id, *cause, *culprit, *says, *decides;
    struct log_elements all, any, none;
    log_test *tests;
    size_t n_tests;
    enum log_shows shows;
    enum log_confidence confidence;
    unsigned n_facts; // that it needs
    struct log_repair *repairs;
    size_t n_repairs;
    uint32_t *overrides; // indices of entries
    size_t n_overrides;
    const struct node_file *file;
    const struct node *node;
};

/* A pattern or an entry as a file has it. */
struct log_row {
    const char *id, *cause;      // cause: of an entry
    const char *fact;            // of a pattern
    const struct log_row *entry; // that a pattern stands in, or NULL
    const struct node_file *file;
    const struct node *node;
};

/* An entry that holds, while the first is looked for. */
struct log_held {
    const struct log_rule *rule;
    struct log_candidate candidate;
    uint64_t place;
    unsigned char *overridden; // a byte for each entry of the base
    size_t above;              // how many of those that are left override it
};

/* What a test sees: the facts that fit the rule's elements, and all facts. */
struct log_matched {
    const struct log_fact *const *items;
    size_t n;
    const struct log_fact *const *facts;
    size_t n_facts;
    struct arena *a; // for scratch
    struct log_rules *rules;
    const struct log_fact *shown;      // what a test decided by, to be quoted as well; or NULL
    const struct log_release *release; // that a test found (releases.c); or NULL
};

/* A name of a GPU in kb/gpus.json, without what says nothing about its chip. */
struct log_gpu {
    const char *key;
    const struct kb_gpu *row;
};

struct words;

/* What a text of more than `lines` must name, at the beginning of a word, for a verdict that rests
 * on nothing but these kinds of facts. */
struct log_subjects {
    uint64_t lines;
    const char **names, **facts, **spoken; // spoken: kinds that only people state
    size_t n_names, n_facts, n_spoken;
};

struct log_rules {
    struct arena *arena;
    struct kb *kb;
    struct log_signature *signatures;
    size_t n_signatures;
    struct log_rule *rules;
    size_t n_rules;
    const char **literals; // of all signatures and, behind them, of the heads of tables and screens
    uint32_t *owners;      // of each literal: signature, n_signatures + table, or + TABLES + screen
    size_t n_literals;
    struct filter *filter;
    struct sieve *sieves[2]; // for long logs, made when first needed; [1]: watching for subjects
    struct log_subjects subjects;
    const char **interned; // open addressing
    size_t n_interned, cap_interned;
    struct log_regex *screen_rows;    // one for each row that a screen may have
    struct log_regex *document_lines; // document.c
    VEC(struct log_gpu) gpus;         // filled when a name is first asked for
    struct kb_gpus gpu_rows;
    bool gpus_tried;
    struct words *words; // NULL until they are first needed
    struct kb_names names;
    VEC(struct log_regex *) compiled; // to be freed
    pcre2_match_context *limits;
    pcre2_match_data *groups;
    size_t states_bytes; // that automata may still take
};

const char *rules_intern(struct log_rules *r, const char *text, size_t n);

/* The named test of a rule, or NULL. */
log_test log_test_by_name(const char *name);

/* Signatures, tables, screens: those that a literal may belong to. */
size_t rules_owners_count(const struct log_rules *r);

/* The sieve for long logs: what is looked for in each line once enough of them were kept. */
const struct sieve *rules_sieve(struct log_rules *r, bool watching);

/* ------------------------------------------------------------------ the rule base */

struct log_literals {
    VEC(const char *) texts;
    VEC(uint32_t) owners;
};

enum { LOG_ENTRIES_MAX = 5000, LOG_PATTERNS_MAX = 20000 };

/* Who wants to know all that is wrong. */
struct log_problems {
    void (*take)(void *arg, const char *text);
    void *arg;
    size_t n;
};

/* Where rules come from. */
struct log_sources {
    const struct node_files *files;
    bool built_in;                 // and from the executable, below the files
    struct log_problems *problems; // is told what is wrong with a row, which is left out;
                                   // NULL: that is the error
};

int log_rules_of(struct kb *kb, struct arena *a, const struct log_sources *sources,
                 struct log_rules **ret, struct gm_err *err) GM_CHECK;

/* How many patterns are not built in. */
size_t log_patterns_of_files(const struct log_rules *r);

/* Refuses a mapping with a key that NULL-ended `keys` does not have. */
int log_keys_check(const struct node_file *file, const struct node *map, const char *const *keys,
                   struct gm_err *err) GM_CHECK;

/* Each adds one: a pattern to r->signatures, an entry to r->rules, which have room for it. */
int log_pattern_decode(struct log_rules *r, struct log_literals *literals,
                       const struct log_row *row, struct gm_err *err) GM_CHECK;
int log_entry_decode(struct log_rules *r, const struct log_row *row, struct gm_err *err) GM_CHECK;

/* From ids to indices: entries are in order by id. */
int log_overrides_resolve(struct log_rules *r, struct log_rule *rule, struct gm_err *err) GM_CHECK;

/* The index of an entry, or SIZE_MAX. */
size_t log_rule_index(const struct log_rules *r, const char *id);

/* Behind an entry's repairs those of the entry that its "repairs_of" names. */
int log_repairs_inherit(struct log_rules *r, struct log_rule *rule, struct gm_err *err) GM_CHECK;

/* Refuses overrides that go in a circle, and an entry that can never win. */
int log_order_check(struct log_rules *r, struct gm_err *err) GM_CHECK;

/* Refuses a kind of fact or a field that nothing yields, in an entry of a file. */
int log_names_check(const struct log_rules *r, const struct log_rule *rule,
                    struct gm_err *err) GM_CHECK;

/* Sorts entries that hold, the one that goes first first. */
void log_order(const struct log_rules *r, struct arena *a, struct log_held *held, size_t n);

int subjects_decode(struct log_rules *r, const struct node_file *file, const struct node *from,
                    struct gm_err *err) GM_CHECK;

/* Whether one of the names stands in a text, and whether a verdict needs one. */
bool subjects_in(const struct log_subjects *s, const char *text);
bool subjects_needed(const struct log_subjects *s, const struct log_candidate *c);

/* Whether a fact is of a kind that any prose may suggest, or that only people state. */
bool subjects_spoken(const struct log_subjects *s, const struct log_fact *fact);

/* What these facts mean: fills candidates, facts and platform. */
void log_judge_facts(struct log_rules *r, struct arena *a, const struct log_fact *const *facts,
                     size_t n_facts, struct log_result *ret);

/* ------------------------------------------------------------------ expressions */

/* Searches text[from, n), which is UTF-8, and with from > 0 was searched before; > 0 if it matches,
 * and *ret_at (may be NULL) are its offsets, valid until the next search. An expression that cannot
 * be compiled, or reached a limit, matches nothing. */
int regex_search(struct log_rules *r, struct log_regex *x, const char *text, size_t n, size_t from,
                 const size_t **ret_at);

/* Whether a search of a text may find something; false is sure, and cheaper than the search. What
 * it finds is at *ret_from or behind it. */
bool regex_may_match(struct log_rules *r, struct log_regex *x, const char *text, size_t n,
                     size_t *ret_from);

/* The search of a text of which regex_may_match() said yes, from there on. */
int regex_match(struct log_rules *r, struct log_regex *x, const char *text, size_t n, size_t from,
                const size_t **ret_at);
bool regex_given_up(const struct log_regex *x);

/* Whether the body of a line, behind its prefix, may match where regex_may_match() says no of the
 * line. */
bool regex_looks_back(const struct log_regex *x);

/* For a new log: no expression is given up. */
void regex_forget_cost(struct log_rules *r);

void regex_free(struct log_regex *x);

/* Whether an expression has a group of this name; it need not be compiled. */
bool regex_names(const char *text, const char *group);

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
bool line_is_clean(const char *in, size_t n); // there is nothing to take out
size_t line_clean(const char *in, size_t n, char *out);

/* Bytes that are no UTF-8 become the letters that they are in ISO 8859-1; `out` has room for 2 * n.
 */
size_t line_as_utf8(const char *in, size_t n, char *out);

/* Measures the prefix of a clean line: body and process. */
void line_prefix(struct log_line *line);

/* Whether a plain line shows nothing, whatever literals it has. */
bool line_shows_nothing(struct str s);

/* False: line_json() would find no object in it, whose blanks at both ends are left out. */
bool line_may_be_json(struct str s);

/* Calls take(arg, text, n) for each text inside a JSON object; false if this is none. */
bool line_json(const char *text, size_t n, void (*take)(void *arg, const char *text, size_t n),
               void *arg);

/* ------------------------------------------------------------------ facts */

struct log_store {
    struct arena *arena;
    VEC(const struct log_fact *) facts;
    unsigned *per_signature; // and one more for tables, one for screens
    uint32_t *table;         // open addressing by hash: index of a fact + 1
    bool dropped;
    uint64_t text_line; // the evidence stored last, which several facts of a line share
    const char *text_from, *text;
};

void store_init(struct log_store *s, struct arena *a, size_t n_signatures);

/* What a line says. */
struct log_said {
    const char *kind;
    const struct log_line *line;
    const struct log_field *fields;
    size_t n_fields;
};

/* Keeps a fact of the line, unless there are enough of it: whether it did. `signature`: its index,
 * n_signatures for tables, one more for screens. Values are copied. */
bool store_add(struct log_store *s, size_t signature, const char *id, const struct log_said *said);

/* Whether a fact would not be kept, as there are enough that differ in nothing but their line, or
 * the line has one; without `one_a_line`, whether there are enough for any line of the process. */
bool store_has_enough(const struct log_store *s, const struct log_said *said, bool one_a_line);

/* Nothing can be kept any more, and that something was dropped is known. */
bool store_is_full(const struct log_store *s);

/* Puts the facts from `from` on where their lines are among the others. No fact comes after that.
 */
void store_sort(struct log_store *s, size_t from);

/* Takes a fact back: it gets another kind, which no rule knows. */
void store_refute(struct log_store *s, size_t index, const char *kind);

/* ------------------------------------------------------------------ tables */

enum log_table { TABLE_PIP, TABLE_CONDA, TABLES, TABLE_NONE = TABLES };

/* Literals by which the head of each table is found. */
extern const char *const table_heads[TABLES];

/* Whether the line is the head of this table. */
bool table_begins(enum log_table table, struct str line);

enum table_row { TABLE_ROW, TABLE_RULE, TABLE_END };

/* One line behind a head: a row (package and version), a ruling line, or the end of the table. */
enum table_row table_row(struct str line, struct str *ret_package, struct str *ret_version);

/* ------------------------------------------------------------------ words */

enum { WORDS_FACTS_MAX = 2 };

/* Lines as they came. */
struct log_text {
    const char *text;
    size_t n;
    const uint64_t *numbers; // of each line; NULL: they are all there
};

/* What a text is most like by its words. */
struct log_words {
    const struct log_fact *facts[WORDS_FACTS_MAX];
    size_t n;     // 0: the words do not tell, or the rules do
    bool healthy; // the lines that the best reading rests on are those of a run that works
};

/* Facts of the kind `words` for the lines that say most, with `class`, `share` (its probability by
 * the model), `words` (that spoke for it), `named` (a library in the line), `rank` (1: the line
 * that says most) and `instead` (a class that is half as probable or more). They live in `a`.
 * `known`: what the rules found. */
void words_judge(struct log_rules *r, struct arena *a, const struct log_text *text,
                 const struct log_result *known, struct log_words *ret);

/* Reads kb/words.json: 0, or GM_ERR_LOOK or GM_ERR_FORMAT. words_judge() does so itself. */
int words_load(struct log_rules *r, struct gm_err *err) GM_CHECK;

/* Whether a list has a word, in whatever case. */
bool is_listed(struct str word, const char *const *list, size_t n);

/* ------------------------------------------------------------------ GPUs by name */

struct log_target {
    const char *arch; // "8.6", "gfx1031"
    bool amd;
};

/* What the knowledge base says of a name as logs have it ("NVIDIA GeForce RTX 40...", "RX 6700
 * XT"), or of a PCI device id ("744c"). NULL: it has none, or cards of that name differ. */
const struct log_target *gpu_by_name(struct log_rules *r, const char *name, struct log_target *to);
const struct log_target *gpu_by_pci(struct log_rules *r, const char *device, bool amd,
                                    struct log_target *to);

/* ------------------------------------------------------------------ wheels */

/* What is known beyond the facts. Of a library (may be NULL): {wheel}, {wheel_package} and
 * {wheel_folder} of pip's package, {apt} of the distribution's (Debian's, if the text names none),
 * {conda}, for the CUDA release that the text
 * shows; {library_folder}, where the text has the file. Of the text: {toolkit_major} ("unknown" if
 * none is shown), {torch_index} of the driver and the GPU, {gfx_override} of the AMD processor.
 * NULL: another field, or not known. */
const char *provided_field(const struct log_matched *m, const char *library, struct str field);

/* The package manager of the distribution that the text names; APT where it names none, or several
 * that differ. */
enum kb_manager log_manager(const struct log_matched *m);

/* A command of an entry, which names packages as Debian does, for that manager. NULL: no command,
 * or one that only Debian can run. */
const char *log_command_here(const struct log_matched *m, const char *command);

/* Whether the field's value comes from the knowledge base, not from the text. */
bool is_provided_field(struct str field);

/* ------------------------------------------------------------------ releases by a name */

enum { LOG_MISSED_MAX = 32 }; // messages of a text that are looked up

/* Looks for the first message that misses a name of a Python package of which the releases that
 * were read have it and others have not; sets m->release. With `inside` a member of a class or an
 * argument, whose package only the name of that tells, otherwise a module or a name in it. */
bool log_release_find(struct log_matched *m, bool inside);

/* The message. */
const struct log_fact *log_release_fact(const struct log_release *r);

/* {release_package}, {release_name}, {release_history} (which releases have it), {release_pin}
 * (what pip installs, quoted), {release_along} (what moves along), {release_way} (earlier, later,
 * between), {release_asker} (the package that asks for the name). NULL: not known. */
const char *log_release_field(const struct log_release *r, struct str field);
bool log_is_release_field(struct str field);

/* ------------------------------------------------------------------ screens */

/* What tools of the drivers print about the machine: a head, then rows that say something only
 * below it. */
enum log_screen {
    SCREEN_SMI,       // nvidia-smi
    SCREEN_SMI_LIST,  // nvidia-smi -L
    SCREEN_SMI_QUERY, // nvidia-smi -q
    SCREEN_SMI_CSV,   // nvidia-smi --query-gpu=... --format=csv
    SCREEN_ROCM_SMI,
    SCREEN_AMD_SMI,
    SCREEN_ROCMINFO,
    SCREEN_XPU_SMI,
    SCREEN_CLINFO,
    SCREENS,
    SCREEN_NONE = SCREENS
};

struct log_screen_head {
    const char *literal;
    enum log_screen screen;
};

extern const struct log_screen_head screen_heads[];
extern const size_t screen_heads_count;

enum { SCREEN_VALUE_MAX = 200, SCREEN_COLUMNS_MAX = 24, SCREEN_FIELDS_MAX = 12 };

/* Where in a screen a log is. */
struct log_screen_state {
    enum log_screen screen;                  // SCREEN_NONE: in none
    unsigned rows, foreign;                  // since its head; in a row that are none of it
    char index[8];                           // of the GPU that the last rows were about, or ""
    char name[SCREEN_VALUE_MAX + 1];         // of the agent, or ""
    char section[SCREEN_VALUE_MAX + 1];      // the last heading, or ""
    const char *columns[SCREEN_COLUMNS_MAX]; // of a query: field, or NULL for one that says nothing
    unsigned n_columns;
};

/* A fact that a row states: kind and field names are interned, values live until the next row. */
typedef void (*screen_take)(void *arg, const char *kind, const struct log_field *fields, size_t n);

void screen_begin(struct log_screen_state *s, enum log_screen screen);

/* One line while a screen is open, its head too. */
void screen_line(struct log_rules *r, struct log_screen_state *s, struct str line, screen_take take,
                 void *arg);

/* Whether a screen yields facts of this kind, with this field unless it is NULL. */
bool screen_yields(const char *kind, const char *field);

/* The rows' expressions, of which there are screen_rows_count(). */
size_t screen_rows_count(void);
void screen_rows_prepare(struct log_rules *r);

/* The value of the first field of these ("a|b") that a fact has: matched facts go first, then what
 * a test decided by; then what the knowledge base says of the library that is named. */
const char *log_field_of(const struct log_matched *m, struct str names);

/* The same, with what stands in [brackets] left out if a field in it is missing; brackets around no
 * field stand for themselves. With `once`, also what repeats a value. */
const char *log_fill_parts(const struct log_matched *m, const char *text, bool once);

/* A text of an entry with its placeholders filled; NULL: a value is missing. */
const char *log_fill_text(const struct log_matched *m, const char *text);

/* A command, which runs as it is printed: NULL if the text does not name what it needs, or names it
 * in a way that no command may hold. */
const char *log_fill_command(const struct log_matched *m, const char *text);

#endif
