/* A line has to be taken apart into the words that it was made of. */
#include "launch/command_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *name, *words[4], *line;
} cases[] = {
    {"plain", {"C:\\a.exe", "x", "--y=z"}, "\"C:\\a.exe\" x --y=z"},
    {"empty", {"a", ""}, "\"a\" \"\""},
    {"blank", {"C:\\Program Files\\a.exe", "x y"}, "\"C:\\Program Files\\a.exe\" \"x y\""},
    {"quote", {"a", "x\"y"}, "\"a\" \"x\\\"y\""},
    {"backslashes are themselves", {"a", "C:\\x\\y\\"}, "\"a\" C:\\x\\y\\"},
    {"but at the end of quotes", {"a", "x y\\"}, "\"a\" \"x y\\\\\""},
    {"and before a quote", {"a", "x\\\\\"y"}, "\"a\" \"x\\\\\\\\\\\"y\""},
    {"what a shell would take", {"a", "&|<>^%PATH%!'", "b"}, "\"a\" &|<>^%PATH%!' b"},
    {"line feed", {"a", "x\ny"}, "\"a\" \"x\ny\""},
    {"no program has a quote", {"a\"b", "c"}, NULL},
};

static void lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena a;
        size_t n = 0;
        arena_init(&a, 0, NULL, NULL);
        while (n < 4 && cases[i].words[n]) {
            n++;
        }
        const char *line = launch_command_line(&a, cases[i].words, n);
        if (!line != !cases[i].line || (line && strcmp(line, cases[i].line) != 0)) {
            fail_msg("%s: %s", cases[i].name, line ? line : "none");
        }
        arena_release(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
