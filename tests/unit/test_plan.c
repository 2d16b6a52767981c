/* The pure parts of a plan: commands read back, and which way is the best. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "plan/plan.h"

/* ------------------------------------------------------------------ commands */

struct command {
    const char *text;
    const char *name, *value; // name NULL: it is none that is read
    bool prepend;
};

static const struct command commands[] = {
    {"unset LD_LIBRARY_PATH", "LD_LIBRARY_PATH", NULL, false},
    {"export A=1", "A", "1", false},
    {"export A=", "A", "", false},
    {"export A='one two'", "A", "one two", false},
    {"export A='it'\\''s $here'", "A", "it's $here", false},
    {"export A=a'b c'd", "A", "ab cd", false},
    {"export P=/a:/b\"${P:+:$P}\"", "P", "/a:/b", true},
    {"export P='/a b'\"${P:+:$P}\"", "P", "/a b", true},
    {"export P=/a\"${Q:+:$Q}\"", NULL, NULL, false},
    {"export P=/a:$P", NULL, NULL, false},
    {"export P=\"/a\"", NULL, NULL, false},
    {"export P='/a", NULL, NULL, false},
    {"export P=`id`", NULL, NULL, false},
    {"export P=/a; rm x", NULL, NULL, false},
    {"export P=/a Q=/b", NULL, NULL, false},
    {"export P=/a && true", NULL, NULL, false},
    {"export P=~/a", NULL, NULL, false},
    {"export 1A=2", NULL, NULL, false},
    {"export A", NULL, NULL, false},
    {"unset ", NULL, NULL, false},
    {"unset A B", NULL, NULL, false},
    {"pip install A=1", NULL, NULL, false},
};

static void test_commands(void **state)
{
    struct arena a;
    (void)state;
    arena_init(&a, 0, NULL, NULL);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const struct command *c = &commands[i];
        struct diag_repair r = {.kind = DIAG_REPAIR_ENV, .text = "", .command = c->text};
        struct diag_variable v = {0};
        print_message("%s\n", c->text);
        assert_int_equal(diag_repair_variable(&a, &r, &v), c->name != NULL);
        if (c->name) {
            assert_string_equal(v.name, c->name);
            assert_int_equal(v.prepend, c->prepend);
            assert_int_equal(v.value == NULL, c->value == NULL);
            assert_string_equal(v.value ? v.value : "", c->value ? c->value : "");
        }
        r.kind = DIAG_REPAIR_TEXT;
        assert_false(diag_repair_variable(&a, &r, &v));
    }
    arena_release(&a);
}

/* What is written as one word of a shell is read back as it was. */
static void test_words(void **state)
{
    static const char *const words[] = {
        "/a/b", "one two", "it's",      "''",         "$x `y` \"z\"",         "",
        "~",    "a\\b",    "line\nend", "\x1b[2J'\\", "caf\xc3\xa9 \xff\xfe", "a\xe2\x80\xae\x31"};
    struct arena a;
    (void)state;
    arena_init(&a, 0, NULL, NULL);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct diag_variable v = {0};
        struct diag_repair r = {.kind = DIAG_REPAIR_ENV,
                                .text = "",
                                .command =
                                    arena_printf(&a, "export W=%s", diag_shell_word(&a, words[i]))};
        print_message("%s\n", r.command);
        assert_true(str_is_seen(r.command));
        assert_true(diag_repair_variable(&a, &r, &v));
        assert_string_equal(v.value, words[i]);
    }
    arena_release(&a);
}

/* ------------------------------------------------------------------ the best way */

static struct plan_way way_of(struct arena *a, enum plan_reach reach,
                              const struct diag_finding *const *mends, size_t n)
{
    struct plan_way way = {.reach = reach, .title = "t"};
    for (size_t i = 0; i < n; i++) {
        VEC_PUSH(a, &way.mends, mends[i]);
    }
    return way;
}

static void test_best(void **state)
{
    const struct diag_finding e1 = {.severity = DIAG_ERROR}, e2 = {.severity = DIAG_ERROR};
    const struct diag_finding w1 = {.severity = DIAG_WARNING}, w2 = {.severity = DIAG_WARNING};
    const struct diag_finding *const one[] = {&e1, &w1, &w2}, *const two[] = {&e1, &e2};
    struct plan plan = {0};
    struct arena a;
    (void)state;
    arena_init(&a, 0, NULL, NULL);
    assert_null(plan_best(&plan, PLAN_FOR_ONE_START));
    VEC_PUSH(&a, &plan.ways, way_of(&a, PLAN_FOR_ONE_START, one, 3));
    VEC_PUSH(&a, &plan.ways, way_of(&a, PLAN_FOR_ONE_START, two, 2));
    VEC_PUSH(&a, &plan.ways, way_of(&a, PLAN_FOR_ONE_START, two, 2));
    VEC_PUSH(&a, &plan.ways, way_of(&a, PLAN_PIP, one, 1));
    assert_ptr_equal(plan_best(&plan, PLAN_FOR_ONE_START), &plan.ways.items[1]);
    assert_ptr_equal(plan_best(&plan, PLAN_PIP), &plan.ways.items[3]);
    assert_null(plan_best(&plan, PLAN_FILES));
    arena_release(&a);
}

/* Every kind and every reach has a name of its own. */
static void test_names(void **state)
{
    (void)state;
    for (int i = 0; i <= PLAN_TEXT; i++) {
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(plan_step_name((enum plan_step_kind)i),
                                    plan_step_name((enum plan_step_kind)k));
        }
    }
    for (int i = 0; i <= PLAN_BY_HAND; i++) {
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(plan_reach_name((enum plan_reach)i),
                                    plan_reach_name((enum plan_reach)k));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_best),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
