/* Where PCRE2 finds an expression in a text, its automaton says that it may match; where little of
 * the expression is there, it says that it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/arena.h"
#include "log/automaton.h"

struct row {
    const char *expression, *text;
    bool may;
};

static const struct row rows[] = {
    {"out of memory", "CUDA OUT of memory.", true},
    {"out of memory", "out of luck", false},
    {"\\barm64\\b", "on arm64, too", true},
    {"\\barm64\\b", "charm64 arm64x", false},
    {"\\Barm", "charm", true},
    {"\\Barm", "an arm", false},
    {"^(?:Out ?\\[\\d+\\]: ?)?(?:False|None)$", "Out[17]: false", true},
    {"^(?:Out ?\\[\\d+\\]: ?)?(?:False|None)$", "x = False", false},
    {"(?<![\\w-])cuda(?!\\w)", "x cuda-x", true},
    {"(?<![\\w-])cuda(?!\\w)", "my-cuda, cudart", false},
    {"\\bDebian\\b(?![\\w.-]*/|:)", "adding debian:x.pem", false},
    {"\\bDebian\\b(?![\\w.-]*/|:)", "adding debian: x, and debian", true},
    {"(?<!of|-)cuda", "of cuda, no-cuda", true}, // more than one character counts for nothing
    {"(?<!of|-)cuda", "no-cuda", false},
    {"(?!|x)y", "y", true},
    {"(?<=/)Xorg\\b", "/usr/bin/Xorg", true},
    {"(?<=/)Xorg\\b", "Xorg", false},
    {"driver v?(?P<v>[3-6]\\d\\d(?:\\.\\d{1,3}){0,2})\\b", "Driver 535.104.05", true},
    {"driver v?(?P<v>[3-6]\\d\\d(?:\\.\\d{1,3}){0,2})\\b", "driver 53", false},
    {"error.{0,60}\\bmemory", "an error of some memory", true},
    {"error.{0,60}\\bmemory", "memory error", false},
    {"a{3}b", "xaaab", true},
    {"a{3}b", "xaab", false},
    {"a{2,}?b++", "aaab", true},
    {"(?=.*\\bdriver\\b)(?=.*\\bworks\\b).*", "it works with the driver", true},
    {"(?=.*\\bdriver\\b)(?=.*\\bworks\\b).*", "it works with drivers", false},
    {"(?:(?=.*never)x|y)", "y", true},
    {"(\\w+) is not \\1", "x is not y", true}, // what a group matched may be any text
    {"(\\w+) is not \\1", "x is y", false},
    {"caf\xc3\xa9s? open", "CAF\xc3\x89S open", true},
    {"[\xe2\x80\x9c\"]x[\xe2\x80\x9d\"]", "\xe2\x80\x9cx\xe2\x80\x9d", true},
    {"a[^b]c",
     "a\xe2\x82\xac"
     "c",
     true},
    {"a[^b]c", "abc", false},
    {"[]x]y[^]]", "]yz", true},
    {"[a-f\\d.-]+z", "c3-.z", true},
    {"x\\{2\\}|y{,", "y{,2}", true},
    {"q|", "", true},
    {"\\x41\\u0042\\tc", "ab\tC", true},
    {"(?i:a)(?>bc)", "abc", true},
    {"kernels? missing",
     "\xe2\x84\xaa"
     "ernel\xc5\xbf mi\xc5\xbfSing",
     true},
};

/* *ret_from: where the match begins. */
static bool really_matches(const char *expression, const char *text, size_t *ret_from)
{
    int code = 0;
    size_t at = 0;
    pcre2_code *c = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED,
                                  PCRE2_CASELESS | PCRE2_UTF | PCRE2_ALT_BSUX, &code, &at, NULL);
    assert_non_null(c);
    pcre2_match_data *groups = pcre2_match_data_create_from_pattern(c, NULL);
    int rc = pcre2_match(c, (PCRE2_SPTR)text, strlen(text), 0, 0, groups, NULL);
    *ret_from = rc > 0 ? pcre2_get_ovector_pointer(groups)[0] : 0;
    pcre2_match_data_free(groups);
    pcre2_code_free(c);
    return rc > 0;
}

static void test_texts(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t budget = 1 << 20;
        struct automaton *m = automaton_of(&a, rows[i].expression);
        assert_non_null(m);
        for (int turn = 0; turn < 2; turn++) { // states are made, then found
            size_t from;
            if (automaton_may_match(m, rows[i].text, strlen(rows[i].text), &budget, &from) !=
                rows[i].may) {
                fail_msg("%s: \"%s\" may%s match", rows[i].expression, rows[i].text,
                         rows[i].may ? "" : " not");
            }
        }
    }
    arena_release(&a);
}

/* What PCRE2 takes for characters or for numbers, depending on its release, has no automaton. */
static void test_no_automaton(void **state)
{
    static const char *const none[] = {"^y{,2}z", "y{ 2}", "y{2 ,3}", "a|(?:b{, })"};
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_null(automaton_of(&a, none[i]));
    }
    arena_release(&a);
}

/* A "no" is sure, and so is that no match begins in front of the place that goes with a "yes". */
static void check_against_pcre2(const char *expression, struct automaton *m, const char *text,
                                size_t n, size_t *budget, size_t *found)
{
    size_t begins, from;
    bool matches = really_matches(expression, text, &begins);
    bool may = automaton_may_match(m, text, n, budget, &from);
    if (matches && (!may || from > begins)) {
        fail_msg("%s does match \"%s\" at %zu, not from %zu on", expression, text, begins, from);
    }
    *found += matches;
}

/* Every expression with every text. */
static void test_no_is_sure(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    size_t n = sizeof rows / sizeof *rows, budget = 1 << 20, found = 0;
    for (size_t i = 0; i < n; i++) {
        struct automaton *m = automaton_of(&a, rows[i].expression);
        for (size_t k = 0; k < n; k++) {
            const char *text = rows[k].text;
            check_against_pcre2(rows[i].expression, m, text, strlen(text), &budget, &found);
        }
    }
    assert_true(found > n / 2);
    arena_release(&a);
}

enum { CHARACTER_MAX = 4 };

/* A character of one of the rows, in either case, or of another alphabet; U+017F and U+212A are an
 * s and a k to PCRE2. Returns its bytes. */
static size_t random_character(uint32_t random, char *to)
{
    static const char *const others[] = {
        "\xc5\xbf", "\xe2\x84\xaa", "\xe2\x84\xab", "\xc3\x9f", "\xc4\xb1", "\xf0\x9f\x98\x80", " ",
        "k",        "\xc5\xbe"};
    const char *text = rows[random % (sizeof rows / sizeof *rows)].text;
    size_t n = strlen(text), at = n ? random / 64 % n : 0;
    if (random >> 29 == 0 || n == 0) {
        const char *other = others[random / 64 % (sizeof others / sizeof *others)];
        memcpy(to, other, strlen(other));
        return strlen(other);
    }
    while (at && ((unsigned char)text[at] & 0xc0) == 0x80) {
        at--;
    }
    size_t bytes = 1;
    while (((unsigned char)text[at + bytes] & 0xc0) == 0x80) {
        bytes++;
    }
    memcpy(to, text + at, bytes);
    return bytes;
}

/* The text of a row with some characters exchanged, s and k often for those of another case. */
static size_t random_text(const struct row *row, uint32_t *seed, char *to)
{
    size_t n = 0;
    for (const char *s = row->text; *s; s++) {
        *seed = *seed * 1664525u + 1013904223u;
        uint32_t random = *seed >> 8 | *seed << 24;
        const char *same = *s == 's' || *s == 'S'   ? "\xc5\xbf"
                           : *s == 'k' || *s == 'K' ? "\xe2\x84\xaa"
                                                    : NULL;
        if (same && random % 2) {
            memcpy(to + n, same, strlen(same));
            n += strlen(same);
        } else if (!((unsigned char)*s & 0x80) && random / 2 % 16 == 0) {
            n += random_character(random / 32, to + n);
        } else {
            to[n++] = *s;
        }
    }
    to[n] = '\0';
    return n;
}

/* Random texts in which an expression is still found now and then. */
static void test_random_texts(void **state)
{
    (void)state;
    enum { TEXTS = 300 };
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    uint32_t seed = 7;
    size_t budget = 1 << 22, found = 0, folded = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct automaton *m = automaton_of(&a, rows[i].expression);
        for (size_t k = 0; k < TEXTS; k++) {
            char text[CHARACTER_MAX * 100 + 1];
            size_t n = random_text(&rows[i], &seed, text);
            size_t before = found;
            check_against_pcre2(rows[i].expression, m, text, n, &budget, &found);
            folded += found > before && (strstr(text, "\xc5\xbf") || strstr(text, "\xe2\x84\xaa"));
        }
    }
    assert_true(found > TEXTS && folded > TEXTS / 2);
    arena_release(&a);
}

/* Many states in little room: they are forgotten, or the automaton is given up; never a "no" where
 * there is a match. */
static void test_little_room(void **state)
{
    (void)state;
    static const char expression[] = "\\b(?:of|on|in)\\b.{0,40}\\b(?:a|b)\\w{0,9}z.{0,30}\\bend";
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    uint32_t seed = 1;
    for (size_t room = 0; room <= 64 << 10; room += 8 << 10) {
        struct automaton *m = automaton_of(&a, expression);
        for (size_t line = 0, budget = room; line < 2000; line++) {
            char text[120];
            static const char *const words[] = {"of ", "on", " in ", "a",
                                                "bz ", "z",  " end", "xy "};
            size_t n = 0;
            while (n < 80) {
                seed = seed * 1103515245u + 12345u;
                const char *word = words[seed >> 16 & 7];
                memcpy(text + n, word, strlen(word));
                n += strlen(word);
            }
            text[n] = '\0';
            size_t found = 0;
            check_against_pcre2(expression, m, text, n, &budget, &found);
        }
    }
    arena_release(&a);
}

/* What comes in front of a match is passed over, but for what it may have begun with. */
static void test_from(void **state)
{
    static const struct {
        const char *expression, *text;
        size_t from;
    } places[] = {{"\\bdriver ?(?P<n>\\d+)", "a long line of a driver 550", 17},
                  {"it (?:is|was) missing", "it was there, it is missing", 14},
                  {"^(?=.*two)one", "one of two", 0},
                  {"(?<=of )two", "one of two", 7}};
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        size_t budget = 1 << 20, from;
        struct automaton *m = automaton_of(&a, places[i].expression);
        const char *text = places[i].text;
        assert_true(automaton_may_match(m, text, strlen(text), &budget, &from));
        if (from != places[i].from) {
            fail_msg("%s: from %zu on in \"%s\"", places[i].expression, from, text);
        }
    }
    arena_release(&a);
}

static void test_not_known(void **state)
{
    (void)state;
    static const char *const expressions[] = {"\\Qx",    "(?(1)a|b)", "[[:alpha:]]", "(*ACCEPT)",
                                              "\\p{Lu}", "(?m)^x",    "(unclosed",   "[unclosed"};
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
        assert_null(automaton_of(&a, expressions[i]));
    }
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),       cmocka_unit_test(test_no_automaton),
        cmocka_unit_test(test_no_is_sure),  cmocka_unit_test(test_random_texts),
        cmocka_unit_test(test_little_room), cmocka_unit_test(test_from),
        cmocka_unit_test(test_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
