#include <string.h>

#include "log/internal.h"

/* What searches may cost, by steps that PCRE2 counts and never by time: a text gets the same answer
 * on every machine. The limits of PCRE2 hold from one start in the text, of which there are as many
 * as bytes; so a search has few steps for each of them first. Where those do not do, it is dear and
 * done again with more, and an expression with too many dear searches in one log is given up.
 *
 * PCRE2's JIT is not used: it counts hardly any steps, and its code lies in pages that are writable
 * and executable while text that nobody vouches for is read. Few lines are searched at all
 * (sieve.h), and compiling an expression for it costs more than most searches. */
enum {
    CHEAP_STEPS = 400000, // from all starts together
    MATCH_LIMIT = 50000,
    DEPTH_LIMIT = 2000,
    HEAP_LIMIT_KIB = 4096,
    DEAR_MAX = 1000,
    UNENDED = 5,            // dear searches that one counts for which did not come to its end
    SEARCHES_FEW = 16,      // in a log: for these an automaton is not worth it
    STATES_BYTES = 4 << 20, // of all automata
};

static void name_groups(struct log_rules *r, struct log_regex *x)
{
    uint32_t count = 0, entry = 0;
    PCRE2_SPTR table = NULL;
    (void)pcre2_pattern_info(x->code, PCRE2_INFO_NAMECOUNT, &count); // cannot fail for a code
    (void)pcre2_pattern_info(x->code, PCRE2_INFO_NAMEENTRYSIZE, &entry);
    (void)pcre2_pattern_info(x->code, PCRE2_INFO_NAMETABLE, &table);
    for (uint32_t i = 0; i < count; i++) {
        const unsigned char *row = table + i * entry; // number, high byte first; name; NUL
        unsigned group = (unsigned)row[0] << 8 | row[1];
        if (group < LOG_GROUPS_MAX) {
            x->groups[group] =
                rules_intern(r, (const char *)row + 2, strlen((const char *)row + 2));
            x->n_groups = group + 1 > x->n_groups ? group + 1 : x->n_groups;
        }
    }
}

static int regex_compile(struct log_rules *r, struct log_regex *x, struct gm_err *err)
{
    int code = 0;
    size_t at = 0;
    x->tried = true;
    x->code = pcre2_compile((PCRE2_SPTR)x->text, PCRE2_ZERO_TERMINATED,
                            PCRE2_CASELESS | PCRE2_UTF | PCRE2_ALT_BSUX, &code, &at, NULL);
    if (!x->code) {
        unsigned char words[160] = "";
        (void)pcre2_get_error_message(code, words, sizeof words); // cut where it is longer
        return gm_err_set(err, GM_ERR_FORMAT, "expression, at %zu: %s", at, (const char *)words);
    }
    VEC_PUSH(r->arena, &r->compiled, x);
    name_groups(r, x);
    return 0;
}

/* Without them nothing would be found, which is an answer as well. */
static void make_limits(struct log_rules *r)
{
    r->limits = r->limits ? r->limits : pcre2_match_context_create(NULL);
    r->groups = pcre2_match_data_create(LOG_GROUPS_MAX, NULL);
    if (!r->limits || !r->groups) {
        arena_no_memory(r->arena);
    }
    (void)pcre2_set_depth_limit(r->limits, DEPTH_LIMIT);
    (void)pcre2_set_heap_limit(r->limits, HEAP_LIMIT_KIB);
}

bool regex_given_up(const struct log_regex *x)
{
    return x->dear >= DEAR_MAX;
}

static int regex_run(struct log_rules *r, struct log_regex *x, const char *text, size_t n,
                     size_t from, uint32_t options)
{
    uint32_t cheap = (uint32_t)(CHEAP_STEPS / (n - from + 1));
    (void)pcre2_set_match_limit(r->limits, cheap < MATCH_LIMIT ? cheap : MATCH_LIMIT);
    int rc = pcre2_match(x->code, (PCRE2_SPTR)text, n, from, options, r->groups, r->limits);
    if (rc == PCRE2_ERROR_MATCHLIMIT) {
        x->dear++;
        (void)pcre2_set_match_limit(r->limits, MATCH_LIMIT);
        rc = pcre2_match(x->code, (PCRE2_SPTR)text, n, from, options, r->groups, r->limits);
    }
    x->dear += rc < 0 && rc != PCRE2_ERROR_NOMATCH ? UNENDED : 0;
    return rc;
}

/* Where the character begins that the byte at a place is part of. */
static size_t character_start(const char *text, size_t at)
{
    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80) {
        at--;
    }
    return at;
}

/* Most of what an expression is searched for in does not match, which its automaton finds out many
 * times faster than PCRE2; and in front of *ret_from nothing that matches begins. */
static bool may_match(struct log_rules *r, struct log_regex *x, const char *text, size_t n,
                      size_t *ret_from)
{
    *ret_from = 0;
    if (x->searches < SEARCHES_FEW) {
        x->searches++;
        return true;
    }
    if (!x->has_automaton) {
        x->has_automaton = true;
        x->automaton = automaton_of(r->arena, x->text);
    }
    if (!x->automaton) {
        return true;
    }
    size_t from;
    bool may = automaton_may_match(x->automaton, text, n, &r->states_bytes, &from);
    *ret_from = may && from < n ? character_start(text, from) : from;
    return may;
}

/* Compiles an expression when it is first searched for; false: it matches nothing. */
static bool regex_is_ready(struct log_rules *r, struct log_regex *x)
{
    if (!r->groups) {
        make_limits(r);
        r->states_bytes = STATES_BYTES;
    }
    return (x->tried || regex_compile(r, x, NULL) == 0) && x->code && !regex_given_up(x);
}

bool regex_may_match(struct log_rules *r, struct log_regex *x, const char *text, size_t n,
                     size_t *ret_from)
{
    return regex_is_ready(r, x) && may_match(r, x, text, n, ret_from);
}

bool regex_looks_back(const struct log_regex *x)
{
    return !x->automaton || automaton_looks_back(x->automaton);
}

static int groups_of(struct log_rules *r, int rc, const size_t **ret_at)
{
    if (rc < 0) {
        return 0;
    }
    if (ret_at) {
        *ret_at = pcre2_get_ovector_pointer(r->groups);
    }
    return rc == 0 ? LOG_GROUPS_MAX : rc;
}

int regex_match(struct log_rules *r, struct log_regex *x, const char *text, size_t n, size_t from,
                const size_t **ret_at)
{
    return regex_is_ready(r, x) ? groups_of(r, regex_run(r, x, text, n, from, 0), ret_at) : 0;
}

/* An automaton looks back at nothing but the character in front of a place: what does not match
 * from there on does not match from the place on. */
int regex_search(struct log_rules *r, struct log_regex *x, const char *text, size_t n, size_t from,
                 const size_t **ret_at)
{
    size_t seen = from ? character_start(text, from - 1) : 0, first;
    if (!regex_is_ready(r, x) || !may_match(r, x, text + seen, n - seen, &first)) {
        return 0;
    }
    uint32_t options = from ? PCRE2_NO_UTF_CHECK : 0; // it was checked at the first search
    first = seen + first > from ? seen + first : from;
    return groups_of(r, regex_run(r, x, text, n, first, options), ret_at);
}

int regex_check(struct log_rules *r, struct log_regex *x, struct gm_err *err)
{
    return x->tried ? 0 : regex_compile(r, x, err);
}

void regex_free(struct log_regex *x)
{
    pcre2_code_free(x->code); // accepts NULL
    x->code = NULL;
}

void regex_forget_cost(struct log_rules *r)
{
    for (size_t i = 0; i < r->compiled.n; i++) {
        r->compiled.items[i]->dear = 0;
        r->compiled.items[i]->searches = 0;
    }
}

bool regex_names(const char *text, const char *group)
{
    size_t n = strlen(group);
    for (const char *at = text; (at = strstr(at, "(?P<")) != NULL; at++) {
        if (strncmp(at + 4, group, n) == 0 && at[4 + n] == '>') {
            return true;
        }
    }
    return false;
}
