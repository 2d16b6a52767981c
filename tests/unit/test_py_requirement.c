/* Requirements and markers mean what PEP 508 says; what is not known is not "no". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "py/requirement.h"

static const struct {
    const char *text;
    const char *name, *url;
    size_t extras, specifiers;
    bool marker;
} requirements[] = {
    {"torch", "torch", "", 0, 0, false},
    {"nvidia-cudnn-cu12==9.1.0.70; platform_system == \"Linux\" and platform_machine == "
     "\"x86_64\"",
     "nvidia-cudnn-cu12", "", 0, 1, true},
    {"Foo.Bar_baz [a, b-c] (>=1.0,<2) ; extra == 'x'", "foo-bar-baz", "", 2, 2, true},
    {"pip @ https://example.org/p;q.whl ; os_name=='posix'", "pip", "https://example.org/p;q.whl",
     0, 0, true},
    {"a[]", "a", "", 0, 0, false},
    {"numpy<3.0,>=1.21.6\n ; python_version<'3.13'", "numpy", "", 0, 2, true},
};

static void test_requirements(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    for (size_t i = 0; i < sizeof requirements / sizeof *requirements; i++) {
        struct py_requirement r;
        struct gm_err err = {0};
        if (py_requirement_parse(&a, str_of(requirements[i].text), &r, &err) < 0) {
            fail_msg("%s: %s", requirements[i].text, err.text);
        }
        assert_string_equal(py_name_normal(&a, r.name), requirements[i].name);
        assert_true(str_is(r.url, requirements[i].url));
        assert_int_equal(r.n_extras, requirements[i].extras);
        assert_int_equal(r.specifiers.n, requirements[i].specifiers);
        assert_int_equal(r.marker != NULL, requirements[i].marker);
    }
    arena_release(&a);
}

static const char *const broken[] = {
    "",
    "-torch",
    "torch-",
    "torch[",
    "torch[a",
    "torch[a,]",
    "torch 2.0",
    "torch>=",
    "torch (>=1",
    "torch @",
    "torch; ",
    "torch; os_name",
    "torch; os_name ==",
    "torch; os_name == 'a' and",
    "torch; 'a' == 'b'",
    "torch; (os_name == 'a'",
    "torch; os_name == 'a",
    "torch; os_name not 'a'",
};

static void test_broken(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct py_requirement r;
        struct gm_err err = {0};
        if (py_requirement_parse(&a, str_of(broken[i]), &r, &err) != GM_ERR_FORMAT) {
            fail_msg("\"%s\" was taken for a requirement", broken[i]);
        }
    }
    char *deep = arena_alloc(&a, 1001);
    memset(deep, '(', 1000);
    const struct py_marker *m;
    struct gm_err err = {0};
    assert_int_equal(py_marker_parse(&a, str_of(deep), &m, &err), GM_ERR_LIMIT);
    arena_release(&a);
}

static const struct {
    const char *marker;
    enum py_answer answer;
} markers[] = {
    {"python_version >= '3.8'", PY_YES},
    {"python_version < '3.9'", PY_NO}, // as versions: 3.11 is above 3.9
    {"python_version in '3.10 3.11'", PY_YES},
    {"'3.9' <= python_version", PY_YES},
    {"sys_platform == 'linux'", PY_YES},
    {"sys.platform == 'win32'", PY_NO},
    {"'linux' in sys_platform", PY_YES},
    {"platform_machine not in 'arm64 aarch64'", PY_YES},
    {"extra == 'GPU_x'", PY_YES}, // extras are compared normalised
    {"extra == 'dev'", PY_NO},
    {"os_name == 'posix' and (sys_platform == 'win32' or extra == 'gpu-x')", PY_YES},
    {"os_name == 'nt' and sys_platform == 'linux' or extra == 'gpu-x'", PY_YES},
    {"implementation_name == 'cpython'", PY_UNKNOWN},
    {"implementation_name == 'cpython' and os_name == 'nt'", PY_NO},
    {"implementation_name == 'cpython' or os_name == 'posix'", PY_YES},
    {"implementation_name == 'cpython' and os_name == 'posix'", PY_UNKNOWN},
    {"os_name == 'nt' or implementation_name == 'cpython'", PY_UNKNOWN},
    {"moon_phase == 'full'", PY_UNKNOWN},
    {"sys_platform ~= 'linux'", PY_UNKNOWN},
    {"python_full_version == '3.11.*'", PY_YES},
    {"python_version == 'a' ", PY_NO},
};

static void test_markers(void **state)
{
    (void)state;
    static const struct py_marker_env env = {
        .python_version = "3.11",
        .python_full_version = "3.11.7",
        .sys_platform = "linux",
        .platform_machine = "x86_64",
        .os_name = "posix",
        .extra = "gpu-x",
    };
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    for (size_t i = 0; i < sizeof markers / sizeof *markers; i++) {
        const struct py_marker *m;
        struct gm_err err = {0};
        if (py_marker_parse(&a, str_of(markers[i].marker), &m, &err) < 0) {
            fail_msg("%s: %s", markers[i].marker, err.text);
        }
        enum py_answer got = py_marker_eval(&a, m, &env);
        if (got != markers[i].answer) {
            fail_msg("%s: %d", markers[i].marker, got);
        }
    }
    assert_int_equal(py_marker_eval(&a, NULL, &env), PY_YES);
    arena_release(&a);
}

static void test_names(void **state)
{
    (void)state;
    assert_true(py_name_eq(STR("Foo.Bar__baz"), STR("foo-bar-baz")));
    assert_true(py_name_eq(STR(""), STR("")));
    assert_false(py_name_eq(STR("torch"), STR("torchvision")));
    assert_false(py_name_eq(STR("torch-"), STR("torch")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requirements),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_markers),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
