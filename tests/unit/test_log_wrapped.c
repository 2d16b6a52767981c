/* Lines that a screen or a mail broke: log/wrapped.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "log/wrapped.h"

#define FIFTY "01234567890123456789012345678901234567890123456789"

static void joined_is(enum wrapped kind, const char *text, const char *expected)
{
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    struct str got;
    bool joined = wrapped_join(&a, str_of(text), kind, &got);
    assert_int_equal(joined, expected != NULL);
    if (expected) {
        assert_int_equal(got.n, strlen(expected));
        assert_memory_equal(got.s, expected, got.n);
    }
    arena_release(&a);
}

/* Lines keep their numbers: where a line went, an empty one stands. */
static void test_at_blanks(void **state)
{
    (void)state;
    joined_is(WRAPPED_AT_BLANKS,
              "Start\n" FIFTY " 0123456789 to\nbroken here, and " FIFTY "\nagain.\nIt is over.\n",
              "Start\n" FIFTY " 0123456789 to broken here, and " FIFTY
              " again.\n\n\nIt is over.\n");
    // A word had room: its line was not broken.
    joined_is(WRAPPED_AT_BLANKS, "a\n" FIFTY " 0123456789\nb\nc d\n", NULL);
    // What is a line of its own is none that goes on.
    joined_is(WRAPPED_AT_BLANKS,
              FIFTY " 0123456789 to\n| table |\n" FIFTY " 0123456789 to\n- an item\n" FIFTY
                    " 0123456789 to\n2026-11-21 18:46:22 ready\n" FIFTY
                    " 0123456789 to\nnote: it is mine\n" FIFTY " 0123456789 to\n\nParagraph\n",
              NULL);
    // A path that has no room in any line may be one of its own.
    joined_is(WRAPPED_AT_BLANKS, "$ locate x\n/" FIFTY FIFTY "\n$ locate y\n/" FIFTY FIFTY "\n",
              NULL);
}

static void test_anywhere(void **state)
{
    (void)state;
    joined_is(WRAPPED_ANYWHERE, FIFTY FIFTY "\nop.so:\r\n" FIFTY FIFTY "\n and\n" FIFTY FIFTY "\n",
              FIFTY FIFTY "op.so:\n\n" FIFTY FIFTY " and\n\n" FIFTY FIFTY "\n");
    // One line is always the longest; a console's width says more.
    joined_is(WRAPPED_ANYWHERE, FIFTY FIFTY "\nop.so\n", NULL);
    joined_is(WRAPPED_ANYWHERE, FIFTY "012345678901234567890123456789\nop.so\n",
              FIFTY "012345678901234567890123456789op.so\n\n");
    // Characters are counted, not bytes.
    joined_is(WRAPPED_ANYWHERE,
              FIFTY "01234567890123456789012345678\u00b5\nop.so\n" FIFTY
                    "0123456789012345678901234567\u00b5s\nx\n",
              FIFTY "01234567890123456789012345678\u00b5op.so\n\n" FIFTY
                    "0123456789012345678901234567\u00b5sx\n\n");
}

static void test_widths(void **state)
{
    (void)state;
    joined_is(WRAPPED_ANYWHERE, FIFTY "\nb\n" FIFTY "\nd\n", NULL);
    joined_is(WRAPPED_ANYWHERE, FIFTY FIFTY FIFTY FIFTY "0\nb\n" FIFTY FIFTY FIFTY FIFTY "0\nd\n",
              NULL);
    joined_is(WRAPPED_AT_BLANKS, "", NULL);
    joined_is(WRAPPED_AT_BLANKS, "\n\n\n", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_at_blanks),
        cmocka_unit_test(test_anywhere),
        cmocka_unit_test(test_widths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
