/* Slices of text and paths: base/str.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"

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

/* A pattern covers the whole text; without its closing bracket '[' stands for itself. */
static void glob_rules(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {
        {"libcudnn*.so.9", "libcudnn.so.9", true},
        {"libcudnn*.so.9", "libcudnn_ops.so.9", true},
        {"libcudnn*.so.9", "libcudnn.so.9.1.0", false},
        {"*", "", true},
        {"", "", true},
        {"", "x", false},
        {"?", "", false},
        {"a*b*c", "aXbXbc", true},
        {"a*b*c", "aXbXb", false},
        {"lib[a-c]x", "libbx", true},
        {"lib[a-c]x", "libdx", false},
        {"lib[!a-c]x", "libdx", true},
        {"lib[!a-c]x", "libax", false},
        {"[]]", "]", true},
        {"[a-]", "-", true},
        {"[ab", "[ab", true},
        {"[ab", "a", false},
        {"a*", "a/b", true},
        {"***a***", "xay", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (str_glob(cases[i].pattern, cases[i].text) != cases[i].matches) {
            fail_msg("%s against %s", cases[i].pattern, cases[i].text);
        }
    }
}

/* Many stars against a long text end in reasonable time. */
static void glob_is_bounded(void **state)
{
    (void)state;
    char text[20001];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_false(str_glob("*a*a*a*a*a*a*a*a*a*a*b", text));
}

/* "." and empty parts go, ".." takes the part before it, and "/" has no parent. */
static void normal_paths(void **state)
{
    static const char *const cases[][2] = {
        {"/usr//lib/./x", "/usr/lib/x"},
        {"/a/b/../c", "/a/c"},
        {"/..", "/"},
        {"/../../a", "/a"},
        {"", "."},
        {"a/..", "."},
        {"../a", "../a"},
        {"../../a/..", "../.."},
        {"/a/", "/a"},
        {".", "."},
        {"//", "/"},
        {"a/./b/../../..", ".."},
        {"/a/..b", "/a/..b"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(path_normal(&arena, cases[i][0]), cases[i][1]);
    }
}

static void path_parts(void **state)
{
    (void)state;
    assert_string_equal(path_base("/a/b.so"), "b.so");
    assert_string_equal(path_base("b.so"), "b.so");
    assert_string_equal(path_base("/a/"), "");
    assert_string_equal(path_dir(&arena, "/x"), "/");
    assert_string_equal(path_dir(&arena, "/a/x"), "/a");
    assert_string_equal(path_dir(&arena, "x"), ".");
    assert_string_equal(path_join(&arena, "/", "x"), "/x");
    assert_string_equal(path_join(&arena, "/a", "x"), "/a/x");
    assert_string_equal(path_join(&arena, "", "x"), "x");
}

/* Foreign bytes cannot reach a terminal: controls and what is not UTF-8 become \xNN. */
static void printable_text(void **state)
{
    static const char *const cases[][2] = {
        {"plain", "plain"},
        {"caf\xc3\xa9", "caf\xc3\xa9"},
        {"\x1b[31m", "\\x1b[31m"},
        {"a\nb", "a\\x0ab"},
        {"\xff\xfe", "\\xff\\xfe"},
        {"\x7f", "\\x7f"},
        {"\xc2\x9b", "\\xc2\\x9b"}, // CSI as one C1 control character
        {"a\xe2\x80\xae"
         "b",
         "a\\xe2\\x80\\xaeb"},               // U+202E, from right to left
        {"\xe2\x81\xa6", "\\xe2\\x81\\xa6"}, // U+2066
        {"\xd8\x9c", "\\xd8\\x9c"},          // U+061C
        {"\xe2\x80\xa8", "\\xe2\\x80\\xa8"}, // U+2028, a line break in YAML 1.1
        {"\xef\xbb\xbf", "\\xef\\xbb\\xbf"}, // U+FEFF
        {"\xef\xbf\xbf", "\\xef\\xbf\\xbf"}, // U+FFFF
        {"\xe2\x80\x8d\xef\xbf\xbd", "\xe2\x80\x8d\xef\xbf\xbd"}, // a joiner, U+FFFD
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},                 // U+1F600
        {"\xc0\xaf", "\\xc0\\xaf"},                               // overlong '/'
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},                      // a surrogate
        {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},             // above U+10FFFF
        {"\xe2\x82", "\\xe2\\x82"},                               // cut off
        {"\xe2\x80\x8b", "\\xe2\\x80\\x8b"},                      // space of width zero
        {"\xf3\xa0\x81\xa1", "\\xf3\\xa0\\x81\\xa1"},             // a tag
        {"\xe2\x82\xac", "\xe2\x82\xac"},                         // the euro sign
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = str_printable(&arena, cases[i][0]);
        assert_string_equal(got, cases[i][1]);
        assert_true(str_is_utf8(got, strlen(got)));
        assert_true(str_is_seen(got));
        assert_int_equal(str_is_seen(cases[i][0]), strcmp(cases[i][0], cases[i][1]) == 0);
    }
}

static void quoted(void **state)
{
    static const char *const shell[][2] = {
        {"", "''"},
        {"/a-b_c:d=e", "/a-b_c:d=e"},
        {"a b", "'a b'"},
        {"a\\", "'a\\'"},
        {"'", "''\\'''"},
        {"it's", "'it'\\''s'"},
        {"caf\xc3\xa9", "'caf\xc3\xa9'"},
        {"\x1b", "$'\\033'"},
        {"a\n'\\b", "$'a\\012\\047\\134b'"},
        {"\xff\xc3\xa9", "$'\\377\xc3\xa9'"},
    };
    static const char *const python[][2] = {
        {"", "b\"\""}, {"a b", "b\"a b\""}, {"\"\\\n\xff'", "b\"\\x22\\x5c\\x0a\\xff'\""}};
    (void)state;
    for (size_t i = 0; i < sizeof shell / sizeof *shell; i++) {
        assert_string_equal(str_shell_word(&arena, shell[i][0]), shell[i][1]);
    }
    for (size_t i = 0; i < sizeof python / sizeof *python; i++) {
        assert_string_equal(str_python_bytes(&arena, python[i][0]), python[i][1]);
    }
}

/* An image may have a variable of megabytes: what is made of it grows with it, and not with its
 * square. */
static void quoted_whole(void **state)
{
    enum { LENGTH = 1 << 20 };
    char *text = arena_alloc(&arena, LENGTH + 1);
    (void)state;
    for (const char *byte = "'\x1b \xff\\"; *byte; byte++) {
        struct arena own;
        arena_init(&own, (size_t)16 * LENGTH, NULL, NULL);
        memset(text, *byte, LENGTH);
        assert_true(strlen(str_shell_word(&own, text)) >= LENGTH);
        assert_true(strlen(str_python_bytes(&own, text)) >= LENGTH);
        arena_release(&own);
    }
}

/* All of the text must be digits, and the number must fit. */
static void numbers(void **state)
{
    (void)state;
    uint64_t n = 7;
    assert_true(str_u64(STR("18446744073709551615"), &n));
    assert_true(n == UINT64_MAX);
    assert_true(str_u64(STR("0"), &n));
    assert_true(n == 0);
    static const char *const bad[] = {
        "", "18446744073709551616", "99999999999999999999999", "-1", "+1", " 1", "1 ", "0x1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        n = 7;
        assert_false(str_u64(str_of(bad[i]), &n));
        assert_true(n == 7);
    }
}

/* Every piece between separators is visited once, empty ones too. */
static void cutting(void **state)
{
    (void)state;
    struct str rest = STR(":a::b:");
    static const char *const pieces[] = {"", "a", "", "b", ""};
    size_t n = 0;
    while (rest.s) {
        struct str piece = str_cut(&rest, ':');
        assert_true(n < 5);
        assert_true(str_is(piece, pieces[n]));
        n++;
    }
    assert_true(n == 5);
}

static void lines(void **state)
{
    (void)state;
    struct str rest = STR("one\r\ntwo\n\nlast"), line;
    static const char *const expected[] = {"one", "two", "", "last"};
    size_t n = 0;
    while (str_line(&rest, &line)) {
        assert_true(n < 4);
        assert_true(str_is(line, expected[n]));
        n++;
    }
    assert_true(n == 4);
}

static void comparing(void **state)
{
    (void)state;
    assert_true(str_eq_nocase(STR("NumPy"), STR("numpy")));
    assert_false(str_eq_nocase(STR("numpy"), STR("numpys")));
    assert_true(str_cmp(STR("a"), STR("ab")) < 0);
    assert_true(str_cmp(STR("b"), STR("ab")) > 0);
    assert_true(str_cmp(STR("ab"), STR("ab")) == 0);
    assert_true(str_starts(STR("$ORIGIN/x"), "$ORIGIN"));
    assert_false(str_starts(STR("$O"), "$ORIGIN"));
    assert_true(str_ends(STR("libx.so"), ".so"));
    assert_false(str_ends(STR("so"), ".so"));
    assert_true(str_is(str_trim(STR(" \t x y \r\n")), "x y"));
    assert_true(str_find(STR("abcabc"), "ca") == 2);
    assert_true(str_find(STR("abc"), "x") == 3);
    assert_true(str_find(STR("liba.s.so"), ".so") == 6);
    assert_true(str_find(STR("liba.s"), ".so") == 6); // the end is not passed
    assert_true(str_find((struct str){"a.so", 3}, ".so") == 3);
    assert_true(str_find(STR("..so"), ".so") == 1);
    assert_true(str_find(STR("abc"), "c") == 2);
    assert_true(str_find(STR("so"), ".so") == 2);
    assert_true(str_find(STR("abc"), "") == 3);
    assert_true(str_find((struct str){0}, "a") == 0);
    assert_true(str_find(STR("libcudnn.so.9"), "nn.so") == 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(glob_rules),     cmocka_unit_test(glob_is_bounded),
        cmocka_unit_test(normal_paths),   cmocka_unit_test(path_parts),
        cmocka_unit_test(printable_text), cmocka_unit_test(numbers),
        cmocka_unit_test(cutting),        cmocka_unit_test(lines),
        cmocka_unit_test(comparing),      cmocka_unit_test(quoted),
        cmocka_unit_test(quoted_whole),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
