/* Versions are ordered, and specifiers admit them, as PEP 440 says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "py/version.h"

/* Each is below the next; the list is PEP 440's own, with epochs and local labels added. */
static const char *const ascending[] = {
    "1.dev0",
    "1.0.dev456",
    "1.0a1",
    "1.0a2.dev456",
    "1.0a12.dev456",
    "1.0a12",
    "1.0b1.dev456",
    "1.0b2",
    "1.0b2.post345.dev456",
    "1.0b2.post345",
    "1.0rc1.dev456",
    "1.0rc1",
    "1.0",
    "1.0+abc.5",
    "1.0+abc.7",
    "1.0+5",
    "1.0+5.1",
    "1.0+10",
    "1.0.post456.dev34",
    "1.0.post456",
    "1.0.15",
    "1.1.dev1",
    "1.10",
    "2024.1",
    "1!0.1",
    "2!0.0.1",
};

static void test_order(void **state)
{
    (void)state;
    size_t n = sizeof ascending / sizeof *ascending;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++) {
            struct py_version a, b;
            assert_true(py_version_parse(str_of(ascending[i]), &a));
            assert_true(py_version_parse(str_of(ascending[k]), &b));
            int c = py_version_cmp(&a, &b);
            int sign = (c > 0) - (c < 0);
            if (sign != (i > k) - (i < k)) {
                fail_msg("%s against %s: %d", ascending[i], ascending[k], sign);
            }
        }
    }
}

/* Spellings that mean the same. */
static const char *const same[][2] = {
    {"1.0", "1"},
    {"v1.0", "1.0.0"},
    {"1.0alpha1", "1.0a1"},
    {"1.0-PREVIEW_2", "1.0rc2"},
    {"1.0c", "1.0rc0"},
    {"1.0-1", "1.0.post1"},
    {"1.0rev3", "1.0.post3"},
    {"1.0_dev", "1.0.dev0"},
    {"1.0+Ubuntu-01", "1.0+ubuntu.1"},
    {" 01.02 ", "1.2"},
    {"0!1.0", "1.0"},
};

static void test_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct py_version a, b;
        if (!py_version_parse(str_of(same[i][0]), &a) ||
            !py_version_parse(str_of(same[i][1]), &b) || py_version_cmp(&a, &b) != 0) {
            fail_msg("%s is not %s", same[i][0], same[i][1]);
        }
    }
}

static const char *const not_versions[] = {
    "",
    "abc",
    "1..0",
    "1.0+",
    "1.0+a..b",
    "1.0+-a",
    "1.0x",
    "!1",
    "1!",
    "-1",
    "1.0 a1",
    "1.0.post1a",
    "1.0-",
    "==1.0",
    "1.*",
    "99999999999999999999999",
    "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17",
};

static void test_not_versions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof not_versions / sizeof *not_versions; i++) {
        struct py_version v;
        if (py_version_parse(str_of(not_versions[i]), &v)) {
            fail_msg("\"%s\" was taken for a version", not_versions[i]);
        }
    }
}

static const struct {
    const char *set, *version;
    enum py_answer answer;
} admitted[] = {
    {"", "1.0", PY_YES},
    {"==2.5.1", "2.5.1+cu124", PY_YES}, // a local label is ignored unless it is asked for
    {"==2.5.1+cu124", "2.5.1+cu121", PY_NO},
    {"==2.5.1+cu124", "2.5.1", PY_NO},
    {"==2.5.*", "2.5.1", PY_YES},
    {"==2.5.*", "2.5rc1", PY_YES},
    {"==2.5.*", "2.50", PY_NO},
    {"==9.1.0.70", "9.1.0.70", PY_YES},
    {"!=2.5.*", "2.5", PY_NO},
    {"!=1.0", "1.0.0", PY_NO},
    {"~=2.2", "2.9", PY_YES},
    {"~=2.2", "3.0", PY_NO},
    {"~=2.2.post3", "2.2", PY_NO},
    {"~=1.4.5a4", "1.4.6", PY_YES},
    {"<3", "3.0rc1", PY_NO}, // no pre-release of the bound
    {"<3rc2", "3.0rc1", PY_YES},
    {">1.7", "1.7.post2", PY_NO}, // no post-release of the bound
    {">1.7.post2", "1.7.post3", PY_YES},
    {">1.7", "1.7+local", PY_NO},
    {">9a0", "9+local", PY_YES},
    {">=1.7", "1.7+local", PY_YES},
    {"<=1.7", "1.7+local", PY_YES},
    {">=4.0,<5", "4.5.0", PY_YES},
    {">=4.0, <4.5 ,", "4.5.0", PY_NO},
    {">=1!1.0", "2024.1", PY_NO},
    {"===FooBar", "foobar", PY_YES},
    {"===1.0", "1.0.0", PY_NO},
    {">=1.0", "unknown-build", PY_UNKNOWN},
    {">=1.0,===other", "unknown-build", PY_NO},
};

static void test_admitted(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    for (size_t i = 0; i < sizeof admitted / sizeof *admitted; i++) {
        struct py_specifiers set;
        struct gm_err err = {0};
        assert_int_equal(py_specifiers_parse(&a, str_of(admitted[i].set), &set, &err), 0);
        enum py_answer got = py_specifiers_match(&set, str_of(admitted[i].version));
        if (got != admitted[i].answer) {
            fail_msg("%s with \"%s\": %d", admitted[i].version, admitted[i].set, got);
        }
    }
    arena_release(&a);
}

static const char *const not_specifiers[] = {
    "1.0", "=1.0", "~=1", "<1.0+local", ">=1.*", "==1.0a1.*", "== ", "==1.0;", "=>1.0",
};

static void test_not_specifiers(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    for (size_t i = 0; i < sizeof not_specifiers / sizeof *not_specifiers; i++) {
        struct py_specifiers set;
        struct gm_err err = {0};
        if (py_specifiers_parse(&a, str_of(not_specifiers[i]), &set, &err) != GM_ERR_FORMAT) {
            fail_msg("\"%s\" was taken for a specifier", not_specifiers[i]);
        }
        assert_non_null(strstr(err.text, "is not a version specifier"));
    }
    char *many = arena_alloc(&a, (PY_SPECIFIERS_MAX + 1) * 4 + 1);
    for (int i = 0; i <= PY_SPECIFIERS_MAX; i++) {
        memcpy(many + i * 4, ">=1,", 4);
    }
    struct py_specifiers set;
    struct gm_err err = {0};
    assert_int_equal(py_specifiers_parse(&a, str_of(many), &set, &err), GM_ERR_LIMIT);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),          cmocka_unit_test(test_same),
        cmocka_unit_test(test_not_versions),   cmocka_unit_test(test_admitted),
        cmocka_unit_test(test_not_specifiers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
