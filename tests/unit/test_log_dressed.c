/* Marks that were put before each line, and texts in other characters: log/dressed.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "log/dressed.h"

static void bare_is(const char *text, const char *expected, bool was_one_line)
{
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    struct dressed got;
    bool undone = dressed_undo(&a, str_of(text), &got);
    assert_int_equal(undone, expected != NULL);
    if (expected) {
        assert_int_equal(got.text.n, strlen(expected));
        assert_memory_equal(got.text.s, expected, got.text.n);
        assert_int_equal(got.was_one_line, was_one_line);
    }
    arena_release(&a);
}

/* A mark counts where every line with text has it; lines keep their numbers. */
static void test_marks(void **state)
{
    (void)state;
    bare_is("- one\n-\n\n-   two\n", "one\n\n\n  two\n", false);
    bare_is("* one\n* two", "one\ntwo\n", false);
    bare_is("> one\r\n>\r\n>two\r\n", "one\n\ntwo\n", false);
    bare_is("> - one\n> - two\n", "one\ntwo\n", false);
    bare_is("- one\ntwo\n", NULL, false);
    bare_is("- one\n* two\n", NULL, false);
    bare_is(">>> import torch\n>>> torch\n", NULL, false); // Python's prompt
    bare_is("-v\n-x\n", NULL, false);
}

/* Numbers of lines rise. */
static void test_numbers(void **state)
{
    (void)state;
    bare_is("7:one\n8-two\n--\n12:\n13:three\n", "one\ntwo\n\n\nthree\n", false);
    bare_is("     1\tone\n    10\ttwo\n", "one\ntwo\n", false);
    bare_is("run.log:1:one\nrun.log:2:two\n", "one\ntwo\n", false);
    bare_is("C:\\a\\run.log:1:one\nC:\\a\\run.log:2:two\n", "one\ntwo\n", false);
    bare_is("8:one\n7:two\n", NULL, false);
    // The one line that grep found.
    bare_is("7:one\n", "one\n", false);
    bare_is("     7\tone\n", "one\n", false);
    bare_is("logs/run.log:7:one\n", "one\n", false);
    bare_is("12-Mar-2026 one\n", NULL, false);
    bare_is("12:01:33 one\n", NULL, false);
    bare_is("a.py:7: UserWarning: x\n", NULL, false);
    bare_is("35: CUDA driver version is insufficient\n", NULL, false); // an error's
    bare_is("12:01:33 one\n12:01:34 two\n", NULL, false);              // the time
    bare_is("a.log:1:one\nb.log:2:two\n", NULL, false);
    // What compilers and Python print.
    bare_is("a.cu:1:5: error: x\na.cu:2:5: error: y\n", NULL, false);
    bare_is("a.py:1: UserWarning: x\na.py:2: UserWarning: y\n", NULL, false);
}

static void test_other_characters(void **state)
{
    (void)state;
    bare_is("Can&#x27;t open &quot;a&quot; &amp; b &lt;&gt;\n&c; &\n",
            "Can't open \"a\" & b <>\n&c; &\n", false);
    bare_is("a && b & c\n", NULL, false);
    bare_is("'one\\n  it\\'s \\x1b[0m\\\\two\\n'\n", "one\n  it's \x1b[0m\\two\n", true);
    bare_is("b\"one\\ntwo\"", "one\ntwo", true);
    bare_is("(['one\\ntwo'])\n", NULL, false);
    bare_is("['one\\ntwo'])\n", "one\ntwo", true);
    bare_is("'one\\n'\n", "one\n", true);
    bare_is("'one'\n", NULL, false);              // a word in quotation marks
    bare_is("'one\\ntwo'\nthree\n", NULL, false); // among others
    bare_is("C:\\new\\nano\n", NULL, false);
    bare_is("'", NULL, false);
    bare_is("", NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_other_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
