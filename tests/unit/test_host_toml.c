/* Settings of container engines in TOML: which keys and values come out of which lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/toml.h"

static struct arena arena;

static int start(void **state)
{
    (void)state;
    arena_init(&arena, 0, NULL, NULL);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

/* All settings as "key=value" lines. */
static const char *told(const char *text, size_t n)
{
    struct host_toml t = {.rest = {text, n}};
    const char *all = "";
    while (host_toml_next(&t, &arena)) {
        all = arena_printf(&arena, "%s%s=%s\n", all, t.key, t.value);
    }
    return all;
}

static const struct {
    const char *name, *text, *settings;
} cases[] = {
    {"nothing", "", ""},
    {"keys before the first table", "a = 1\nb = \"two\"\n", "a=1\nb=two\n"},
    {"tables", "[x]\na=1\n[x.y]\nb='2'\n", "x.a=1\nx.y.b=2\n"},
    {"a table with quotes and dots", "[plugins.\"io.containerd.cri\".'runtimes']\nname = true\n",
     "plugins.io.containerd.cri.runtimes.name=true\n"},
    {"tables of a list", "[[hooks]]\npath = \"/bin/x\"\n", "hooks.path=/bin/x\n"},
    {"keys with dots and quotes", "cli.\"no-cgroups\" = false\n", "cli.no-cgroups=false\n"},
    {"remarks", "#a = 1\n  # b = 2\nc = 3 # d = 4\n", "c=3\n"},
    {"a remark's sign in a text", "a = \"#1\" # one\nb = '#'\n", "a=#1\nb=#\n"},
    {"an equals sign in a text and in a key", "a = \"b=c\"\n\"d=e\" = 1\n", "a=b=c\nd=e=1\n"},
    {"Windows' line ends", "[x]\r\na = 1\r\n", "x.a=1\n"},
    {"a list on one line", "args = [\"a\", \"b\"]\n", "args=[\"a\", \"b\"]\n"},
    {"quotes that do not end", "a = \"b\nc = 'd\n", "a=\"b\nc='d\n"},
    {"lines that say nothing", "a\n]\n[\n=\n\n", "=\n"},
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = told(cases[i].text, strlen(cases[i].text));
        if (strcmp(got, cases[i].settings) != 0) {
            fail_msg("%s: got %s", cases[i].name, got);
        }
    }
}

static void test_no_bytes_are_read_behind_the_end(void **state)
{
    (void)state;
    static const char text[] = "[a.'b'.\"c=d\"]\nk = 'v' # r\n\"x\" = [1]\n";
    for (size_t n = 0; n < sizeof text; n++) {
        char *copy = malloc(n ? n : 1); // of its own size, for the sanitizer
        assert_non_null(copy);
        memcpy(copy, text, n);
        assert_non_null(told(copy, n));
        free(copy);
    }
}

static void test_many_lines_end(void **state)
{
    (void)state;
    size_t n = 3 * (HOST_TOML_LINES_MAX + 10);
    char *text = malloc(n);
    assert_non_null(text);
    for (size_t i = 0; i < n; i += 3) {
        memcpy(text + i, "a=\n", 3);
    }
    struct host_toml t = {.rest = {text, n}};
    size_t settings = 0;
    while (host_toml_next(&t, &arena)) {
        settings++;
    }
    assert_int_equal(settings, HOST_TOML_LINES_MAX);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cases, start, finish),
        cmocka_unit_test_setup_teardown(test_no_bytes_are_read_behind_the_end, start, finish),
        cmocka_unit_test_setup_teardown(test_many_lines_end, start, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
