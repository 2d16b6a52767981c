/* A line that an expression matches is never passed over; one that lacks what the expression
 * requires is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "log/required.h"
#include "log/sieve.h"

struct row {
    const char *expression, *literal; // the literal by which the knowledge base finds its lines
    const char *line;
    bool tried;
};

/* Lines that are tried match; of the others it is only known that they need not be. */
static const struct row rows[] = {
    {"cannot load (?P<library>lib\\w+)", "cannot load", "it CANNOT load libx", true},
    {"error.{0,20}\\bmemory", "error", "an error of Memory", true},
    {"error.{0,20}\\bmemory", "error", "an error of storage", false},
    {"error.{0,20}\\bmemory", "error", "the memory has one", false},
    {"error.{0,20}\\bmemory", "error", "the memory has a mirror", false},
    {"(?:no|any) (?:gpu|device)s? found", "found", "no devices found", true},
    {"(?:no|any) (?:gpu|device)s? found", "found", "no files found", false},
    {"a(?:bc|de)?f{2,}gh(?:ij)*k", "ghij", "xx aDEffghijijk", true},
    {"cuda ?1[0-3]\\b|rocm\\d", "cuda", "with CUDA 12 on", true},
    {"cuda ?1[0-3]\\b|rocm", "cuda", "with CUDA 9 on", false},
    {"^(?=.*works)(?!.*never)(?=.*kernel)", "kernel", "kernel 6 works", true},
    {"^(?=.*works)(?=.*kernel)", "kernel", "kernel 6 fails", false},
    {"^(?:Out ?\\[\\d+\\]: ?)?(?:False|None)$", "false", "Out[7]: False", true},
    {"^(?:Out ?\\[\\d+\\]: ?)?(?:False|None)$", "false", "x = False # so", false},
    {"^is it false\\?$", "false", "and now, is it false?", false},
    {"(?P<a>\\w+) is not (?P=a)", "is not", "x is not x", true},
    {"(?i:Warn)ing[\\s:]+\\Qx", "ning", "warning: x", true}, // not understood: nothing is required
    {"code=?(?P<n>200)\\b|status (?P<s>404)", "code", "the code200 of it", true},
    {"code=?(?P<n>200)\\b|status (?P<s>404)", "code", "the code 100 of it", false},
    {"[^a]bcd\\x41f\\u0042[]x]y", "bcda", "zbcdaFb]y", true},
    {"caf\xc3\xa9s? open", "open", "Caf\xc3\x89 open", true},
    {"\\bdrivers?(?:[ -])v?(?P<d>[3-6]\\d\\d(?:\\.\\d+)*)", "driver", "a driver 550.54 here", true},
    {"\\bdrivers?(?:[ -])v?(?P<d>[3-6]\\d\\d(?:\\.\\d+)*)", "driver", "a driver 55 here", false},
    {"^nvidia\\s+\\d{4,}\\s+[0-9]?\\d", "nvidia", "nvidia 4096 7", true},
    {"^nvidia\\s+\\d{4,}\\s+[0-9]?\\d", "nvidia", "nvidia 409 1024", true}, // read no further
    {"^nvidia\\s+\\d{4,}\\s+[0-9]?\\d", "nvidia", "nvidia 409 102", false},
    {"driver (?:\\d\\d|\\d{3}|x\\d\\d)", "driver", "driver 10", true},
    {"driver (?:\\d\\d|\\d{3}|x\\d\\d)", "driver", "driver 1 of 2", false},
    {"driver \\d?(?P<a>\\d)?x\\d?\\d?", "driver", "driver x", true},
    {"driver[\\d.]+", "driver", "driver...", true},
    {"driver [3x]\\d", "driver", "driver x5", true},
    {"driver [-3]\\d", "driver", "driver -5", true},
    {"^(?:>+ ?)?False\\s*$", "false", ">>> False", true},
    {"^(?:>+ ?)?False\\s*$", "false", "False, it says", false},
    {NULL, "out of memory", "Out of memory", true},
    {NULL, "out of memory", "out of luck", false},
};

static bool is_tried(const struct row *row)
{
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    const uint32_t owner = 0;
    const bool watched = false;
    struct sieve_source source = {&row->expression, 1, &row->literal, &owner, &watched, 1};
    struct sieve *s = sieve_build(&a, &source);
    struct sieve_line line;
    uint64_t hits[1] = {0};
    size_t n = strlen(row->line);
    sieve_line_init(&line, &a, 1);
    bool found = filter_find(sieve_lines(s), row->line, 0, n, NULL, NULL) < n;
    assert_false(sieve_try(s, &line, row->line, n, hits));
    bool tried = found && hits[0] && sieve_fits(s, &line, 0, n);
    arena_release(&a);
    return tried;
}

static void test_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (is_tried(&rows[i]) != rows[i].tried) {
            fail_msg("%s: \"%s\" is%s tried", rows[i].expression ? rows[i].expression : "-",
                     rows[i].line, rows[i].tried ? " not" : "");
        }
    }
}

/* How a line with a literal that lines are found by is refused without the expression. */
enum refusal { NOT_FOUND, BY_PAIRS, NOT_REFUSED };

static enum refusal refusal_of(const struct row *row)
{
    struct arena a;
    static struct sieve_pairs pairs; // kept, as marks of one line may not count for the next
    const uint32_t owner = 0;
    const bool watched = false;
    arena_init(&a, 0, NULL, NULL);
    struct sieve_source source = {&row->expression, 1, &row->literal, &owner, &watched, 1};
    const struct sieve *s = sieve_build(&a, &source);
    size_t n = strlen(row->line), n_owners;
    bool found = filter_find(sieve_lines(s), row->line, 0, n, NULL, NULL) < n;
    const uint32_t *owners = sieve_line_owners(s, 0, &n_owners);
    assert_int_equal(n_owners, 1);
    assert_int_equal(owners[0], 0);
    sieve_pairs_begin(&pairs, row->line, n);
    enum refusal refusal = !found                         ? NOT_FOUND
                           : !sieve_may_fit(s, &pairs, 0) ? BY_PAIRS
                                                          : NOT_REFUSED;
    arena_release(&a);
    return refusal;
}

/* By pairs of bytes alone: no line that is tried is refused, and one without a word of the
 * expression is. More turns than there are numbers for them. */
static void test_pairs(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum refusal refusal;
    } refused[] = {{"an error of storage", NOT_FOUND},
                   {"the memory has one", BY_PAIRS},
                   {"kernel 6 fails", NOT_FOUND},
                   {"with CUDA 9 on", NOT_FOUND},
                   {"the memory has a mirror", BY_PAIRS}};
    for (size_t turn = 0; turn < 600; turn++) {
        const struct row *row = &rows[turn % (sizeof rows / sizeof *rows)];
        enum refusal refusal = refusal_of(row);
        assert_true(refusal == NOT_REFUSED || !row->tried);
        for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
            if (strcmp(row->line, refused[k].line) == 0 && refusal != refused[k].refusal) {
                fail_msg("%s: refusal %d", row->line, (int)refusal);
            }
        }
    }
}

/* What each of several alternatives requires is required, wherever it stands among what one of them
 * does, and also where it is part of more. */
static void test_common(void **state)
{
    (void)state;
    static const struct {
        const char *expression;
        bool common;
    } either[] = {{"cuda\\w* (?:error|failed).{0,9}\\b34\\b|\\[34\\] call to cu", true},
                  {"code=34|\\b34\\b.{0,9}cuda", true},
                  {"code=34|\\b35\\b.{0,9}cuda", false},
                  {"code=34|(?:34)?.{0,9}cuda", false}};
    for (size_t i = 0; i < sizeof either / sizeof *either; i++) {
        struct arena a;
        struct required required;
        bool common = false;
        arena_init(&a, 0, NULL, NULL);
        required_of(&a, either[i].expression, &required);
        for (size_t k = 0; k < required.n; k++) {
            const struct required_clause *c = required.clauses[k];
            common = common || (c->n == 1 && strcmp(c->literals[0], "34") == 0);
        }
        if (common != either[i].common) {
            fail_msg("%s: %d", either[i].expression, common);
        }
        arena_release(&a);
    }
}

/* A literal that is watched for is told at the beginning of a word, whatever else is required. */
static void test_watched(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    const char *expression = "cuda never matches", *literal = "cuda";
    const uint32_t owner = 0;
    const bool watched = true;
    struct sieve_source source = {&expression, 1, &literal, &owner, &watched, 1};
    struct sieve *s = sieve_build(&a, &source);
    struct sieve_line line;
    uint64_t hits[1] = {0};
    sieve_line_init(&line, &a, 1);
    assert_true(filter_find(sieve_lines(s), "on CUDA", 0, 7, NULL, NULL) < 7);
    assert_true(sieve_try(s, &line, "on CUDA", 7, hits));
    assert_false(sieve_try(s, &line, "barracuda", 9, hits));
    assert_int_equal(hits[0], 0);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_common),
        cmocka_unit_test(test_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
