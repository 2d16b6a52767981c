/* What commands print with, and errors: base/out.h, base/err.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/out.h"

static struct arena arena;

/* The text that a printer writes. */
struct sink {
    struct out out;
    char *text;
    size_t n;
};

static void open_sink(struct sink *s, bool colour, unsigned width)
{
    *s = (struct sink){0};
    s->out =
        (struct out){.file = open_memstream(&s->text, &s->n), .colour = colour, .width = width};
    assert_non_null(s->out.file);
}

static void expect(struct sink *s, const char *text)
{
    assert_int_equal(fclose(s->out.file), 0);
    assert_string_equal(s->text, text);
    free(s->text);
}

static void wraps(void **state)
{
    (void)state;
    static const struct {
        unsigned indent, width;
        const char *text, *printed;
    } cases[] = {
        {0, 80, "one two", "one two\n"},
        {2, 10, "one two three", "one two\n  three\n"},
        {4, 10, "averylongword next", "averylongword\n    next\n"},
        {0, 5, "  a   b  ", "a b\n"},
        {0, 80, "", "\n"},
        /* A path in quotes is one word, and an apostrophe quotes nothing. */
        {2, 10, "run '/a b  c d e f' now", "run\n  '/a b  c d e f'\n  now\n"},
        {0, 8, "A=$'/a b c d' x", "A=$'/a b c d'\nx\n"},
        {0, 8, "'it'\\''s a b' x", "'it'\\''s a b'\nx\n"},
        {0, 8, "users' a b c d e", "users' a\nb c d e\n"},
        {0, 8, "it's a b c's e", "it's a b\nc's e\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sink s;
        open_sink(&s, false, cases[i].width);
        out_wrap(&s.out, cases[i].indent, cases[i].text);
        expect(&s, cases[i].printed);
    }
}

static void colours(void **state)
{
    (void)state;
    struct sink s;
    open_sink(&s, false, 80);
    out_print(&s.out, OUT_RED, "%d", 1);
    expect(&s, "1");
    open_sink(&s, true, 80);
    out_print(&s.out, OUT_RED, "%d", 1);
    out_print(&s.out, OUT_PLAIN, "2");
    expect(&s, "\033[1;31m1\033[0m2");
    FILE *file = tmpfile(); // no terminal
    assert_non_null(file);
    out_init(&s.out, file);
    assert_false(s.out.colour);
    assert_int_equal(s.out.width, 100);
    assert_int_equal(fclose(file), 0);
}

/* Whatever the bytes are, the document is JSON and is read back. */
static void json_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *read;
    } cases[] = {
        {"plain", "plain"},
        {"", ""},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {"\"\\\n\t\x01", "\"\\\n\t\x01"},
        {"bad\xff", "bad\\xff"},
        {"cut\xc3", "cut\\xc3"},
        {"\x7f\xc2\x9b", "\x7f\xc2\x9b"},
        {"\xf3\xa0\x81\x81", "\xf3\xa0\x81\x81"}, // a tag, which takes a surrogate pair
        {"a\xe2\x80\xae"
         "b\xe2\x81\xa9",
         "a\xe2\x80\xae"
         "b\xe2\x81\xa9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sink s;
        open_sink(&s, false, 80);
        json_t *doc = json_array();
        assert_int_equal(json_array_append_new(doc, out_json_text(&arena, cases[i].text)), 0);
        assert_int_equal(out_json_dump(s.out.file, doc), 0);
        assert_int_equal(fclose(s.out.file), 0);
        assert_null(strpbrk(s.text, "\x7f\x1b"));
        assert_null(strstr(s.text, "\xc2\x9b"));
        assert_null(strstr(s.text, "\xe2\x80"));
        json_t *back = json_loads(s.text, 0, NULL);
        assert_string_equal(json_string_value(json_array_get(back, 0)), cases[i].read);
        json_decref(back);
        free(s.text);
    }
    json_t *null = out_json_text(&arena, NULL);
    assert_true(json_is_null(null));
    json_decref(null);
    assert_int_equal(out_json_dump(stdout, NULL), -1);
}

static void errors(void **state)
{
    (void)state;
    struct gm_err err = {GM_ERR_NONE, ""};
    assert_int_equal(gm_err_set(&err, GM_ERR_FORMAT, "offset %#x", 16u), GM_ERR_FORMAT);
    assert_int_equal(gm_err_wrap(&err, "file %s", "a"), GM_ERR_FORMAT);
    assert_string_equal(err.text, "file a: offset 0x10");
    assert_int_equal(gm_err_set(NULL, GM_ERR_LIMIT, "x"), GM_ERR_LIMIT);
    for (int i = 0; i < 100; i++) { // truncated, and never beyond its room
        assert_int_equal(gm_err_wrap(&err, "a context of some length, number %d", i),
                         GM_ERR_FORMAT);
    }
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_int_equal(strncmp(err.text, "a context of some length, number 99: a", 38), 0);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wraps),
        cmocka_unit_test(colours),
        cmocka_unit_test(json_texts),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
