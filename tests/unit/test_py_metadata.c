/* METADATA, WHEEL, RECORD and direct_url.json, well-formed and hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "py/metadata.h"

static void test_metadata(void **state)
{
    (void)state;
    static const char text[] = "Metadata-Version: 2.1\r\n"
                               "Name: ctranslate2\r\n"
                               "Version:4.5.0\r\n"
                               "no field here\r\n"
                               ": nor here\r\n"
                               "Summary: first\r\n"
                               "        folded: not a field\r\n"
                               "\tlast\r\n"
                               "requires-python: >=3.8\r\n"
                               "Requires-Dist: numpy\r\n"
                               "Requires-Dist: pyyaml <7,>=5.3\r\n"
                               "Version: 9.9\r\n"
                               "\r\n"
                               "Requires-Dist: in-the-description\r\n";
    struct arena a;
    struct py_metadata m;
    arena_init(&a, 0, NULL, NULL);
    py_metadata_parse(&a, STR(text), &m);
    assert_true(str_is(m.metadata_version, "2.1"));
    assert_true(str_is(m.name, "ctranslate2"));
    assert_true(str_is(m.version, "4.5.0"));
    assert_true(str_is(m.requires_python, ">=3.8"));
    assert_int_equal(m.n_requires_dist, 2);
    assert_true(str_is(m.requires_dist[1], "pyyaml <7,>=5.3"));
    assert_int_equal(m.skipped, 2);
    assert_int_equal(py_header_block(STR(text)), strstr(text, "\r\n\r\n") + 4 - text);
    assert_int_equal(py_header_block(STR("Name: x\nVersion: 1")), 0);
    arena_release(&a);
}

/* Cut after any byte, the text is still read without fault, and no field grows. */
static void test_truncated(void **state)
{
    (void)state;
    static const char text[] = "Name: a\nRequires-Dist: b\n (>=1)\nTag: x\n\nrest";
    for (size_t n = 0; n < sizeof text; n++) {
        struct arena a;
        struct py_metadata m;
        arena_init(&a, 0, NULL, NULL);
        char *copy = arena_strndup(&a, text, n);
        py_metadata_parse(&a, (struct str){copy, n}, &m);
        assert_true(m.n_requires_dist <= 1);
        if (n >= 8) {
            assert_true(str_is(m.name, "a"));
        }
        if (n >= 32) {
            assert_true(str_is(m.requires_dist[0], "b\n (>=1)"));
        }
        arena_release(&a);
    }
}

static void test_wheel(void **state)
{
    (void)state;
    struct arena a;
    struct py_wheel w;
    arena_init(&a, 0, NULL, NULL);
    py_wheel_parse(&a,
                   STR("Wheel-Version: 1.0\nGenerator: bdist_wheel (0.42)\n"
                       "Root-Is-Purelib: false\nTag: cp311-cp311-manylinux_2_17_x86_64\n"
                       "Tag: cp311-cp311-manylinux2014_x86_64\n"),
                   &w);
    assert_int_equal(w.n_tags, 2);
    assert_true(str_is(w.tags[1], "cp311-cp311-manylinux2014_x86_64"));
    assert_int_equal(w.purelib, PY_NO);
    assert_true(str_is(w.generator, "bdist_wheel (0.42)"));
    py_wheel_parse(&a, STR("Root-Is-Purelib: perhaps\n"), &w);
    assert_int_equal(w.purelib, PY_UNKNOWN);
    arena_release(&a);
}

static const struct {
    const char *text;
    const char *path, *hash; // of the first row; path NULL: there is none
    int64_t size;            // -1: not recorded
    size_t rows;
} records[] = {
    {"a/b.py,sha256=xyz,12\nc.so,,\n", "a/b.py", "sha256=xyz", 12, 2},
    {"a/b.py,sha256=xyz,12", "a/b.py", "sha256=xyz", 12, 1},
    {"a,h,12\r\nb,h,13\r\n", "a", "h", 12, 2},
    {"only-a-path\r\n", "only-a-path", "", -1, 1},
    {"\"with, comma\",h,1\n", "with, comma", "h", 1, 1},
    {"\"say \"\"hi\"\"\",h,1\n", "say \"hi\"", "h", 1, 1},
    {"\"two\nlines\",h,1\nx,,\n", "two\nlines", "h", 1, 2},
    {"\"never closed,h,1\nx,,\n", "never closed,h,1\nx,,\n", "", -1, 1},
    {"\"\"\"\"\n", "\"", "", -1, 1},
    {"\"", NULL, NULL, -1, 0},
    {"\n\n,,\n\r\n", NULL, NULL, -1, 0},
    {"", NULL, NULL, -1, 0},
    {"a,h,12x\n", "a", "h", -1, 1},
    {"a,h,99999999999999999999999\n", "a", "h", -1, 1},
    {"a,h,12,more,fields\nb,,\n", "a", "h", 12, 2},
    {"\xff\xfe/\x01,h,1\n", "\xff\xfe/\x01", "h", 1, 1},
};

static void test_record(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        struct arena a;
        struct py_record_row row, first = {0};
        struct str rest = str_of(records[i].text);
        size_t rows = 0;
        arena_init(&a, 0, NULL, NULL);
        while (py_record_next(&a, &rest, &row)) {
            first = rows++ ? first : row;
        }
        if (rows != records[i].rows ||
            (rows &&
             (!str_is(first.path, records[i].path) || !str_is(first.hash, records[i].hash) ||
              first.has_size != (records[i].size >= 0) ||
              (first.has_size && first.size_bytes != (uint64_t)records[i].size)))) {
            fail_msg("record %zu: %zu rows, path \"%.*s\"", i, rows, (int)first.path.n,
                     first.path.s);
        }
        arena_release(&a);
    }
}

static const struct {
    const char *text;
    int rc;
    const char *path;
    enum py_answer editable;
} urls[] = {
    {"{\"url\":\"file:///src/my%20app\",\"dir_info\":{\"editable\":true}}", 0, "/src/my app",
     PY_YES},
    {"{\"url\":\"file://localhost/src\",\"dir_info\":{}}", 0, "/src", PY_NO},
    {"{\"url\":\"https://example.org/x.whl\"}", 0, NULL, PY_NO},
    {"{\"url\":\"file:///a%00b%4\"}", 0, "/a%00b%4", PY_NO},
    {"{\"dir_info\":{\"editable\":true}}", GM_ERR_FORMAT, NULL, PY_NO},
    {"[1,2]", GM_ERR_FORMAT, NULL, PY_NO},
    {"", GM_ERR_FORMAT, NULL, PY_NO},
    {"{\"url\":", GM_ERR_FORMAT, NULL, PY_NO},
};

static void test_direct_url(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct py_direct_url url = {0};
        struct gm_err err = {0};
        int rc = py_direct_url_parse(&a, str_of(urls[i].text), &url, &err);
        assert_int_equal(rc, urls[i].rc);
        if (rc == 0) {
            assert_int_equal(url.editable, urls[i].editable);
            assert_int_equal(url.path != NULL, urls[i].path != NULL);
            if (url.path) {
                assert_string_equal(url.path, urls[i].path);
            }
        }
    }
    char *large = arena_alloc(&a, PY_DIRECT_URL_BYTES_MAX + 2);
    memset(large, ' ', PY_DIRECT_URL_BYTES_MAX + 1);
    struct py_direct_url url;
    assert_int_equal(py_direct_url_parse(&a, str_of(large), &url, NULL), GM_ERR_LIMIT);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metadata),   cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_wheel),      cmocka_unit_test(test_record),
        cmocka_unit_test(test_direct_url),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
