/* The start-up hook as src/apply writes it, read back; and what is no such hook. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stdlib.h>
#include <unistd.h>

#include "apply/hookfile.h"

struct fixture {
    struct arena arena;
    struct root root;
    char folder[64];
};

static int setup(void **state)
{
    struct gm_err err;
    struct fixture *f = calloc(1, sizeof *f);
    arena_init(&f->arena, 0, NULL, NULL);
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/gpumend-hook-XXXXXX");
    *state = f;
    return !mkdtemp(f->folder) || root_open(&f->root, f->folder, &err) < 0;
}

static void put(struct fixture *f, const char *name, struct str text)
{
    FILE *file = fopen(arena_printf(&f->arena, "%s/%s", f->folder, name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text.s, 1, text.n, file), text.n);
    assert_int_equal(fclose(file), 0);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    (void)unlink(arena_printf(&f->arena, "%s/" MODEL_HOOK_PTH, f->folder));
    (void)unlink(arena_printf(&f->arena, "%s/" MODEL_HOOK_START, f->folder));
    (void)unlink(arena_printf(&f->arena, "%s/" MODEL_HOOK_MODULE, f->folder));
    (void)rmdir(f->folder);
    root_close(&f->root);
    arena_release(&f->arena);
    free(f);
    return 0;
}

static void read_back(void **state)
{
    static const char *const modules[] = {"ctranslate2", "faster_whisper"};
    static const char *const paths[] = {"/a/lib/x \"q\" \\ \x01\xff.so", "/a/site/b/liby.so",
                                        "/other/libz.so"};
    struct fixture *f = *state;
    struct model_hook hook;
    assert_false(model_hook_read(&f->root, &f->arena, "/", 11, &hook));
    const struct apply_hook written = {
        .prefix = "/a", .site = "/a/site", .modules = modules, 2, .paths = paths, 3};
    put(f, MODEL_HOOK_MODULE, apply_hook_module(&f->arena, &written));
    assert_false(model_hook_read(&f->root, &f->arena, "/", 11, &hook));
    put(f, MODEL_HOOK_PTH, apply_hook_pth());
    /* Written for /a/site and read at "/": what lay in the prefix is found from the new place. */
    assert_true(model_hook_read(&f->root, &f->arena, "/", 11, &hook));
    assert_int_equal(hook.n_modules, 2);
    assert_string_equal(hook.modules[0], modules[0]);
    assert_string_equal(hook.modules[1], modules[1]);
    assert_int_equal(hook.n_libraries, 3);
    assert_string_equal(hook.libraries[0], "/lib/x \"q\" \\ \x01\xff.so");
    assert_string_equal(hook.libraries[1], "/b/liby.so");
    assert_string_equal(hook.libraries[2], "/other/libz.so");
    assert_true(model_hook_stands(&f->root, &f->arena, "/"));
}

/* PEP 829: 3.15 reads .start files, 3.18 no import line of a .pth file. */
static void by_version(void **state)
{
    struct fixture *f = *state;
    struct model_hook hook;
    put(f, MODEL_HOOK_MODULE, STR("MODULES = ()\n"));
    assert_false(model_hook_stands(&f->root, &f->arena, "/"));
    put(f, MODEL_HOOK_START, apply_hook_start());
    assert_true(model_hook_stands(&f->root, &f->arena, "/"));
    assert_false(model_hook_read(&f->root, &f->arena, "/", 14, &hook));
    assert_true(model_hook_read(&f->root, &f->arena, "/", 15, &hook));
    assert_true(model_hook_read(&f->root, &f->arena, "/", 18, &hook));
    put(f, MODEL_HOOK_PTH, apply_hook_pth());
    assert_true(model_hook_read(&f->root, &f->arena, "/", 14, &hook));
    assert_int_equal(unlink(arena_printf(&f->arena, "%s/" MODEL_HOOK_START, f->folder)), 0);
    assert_true(model_hook_read(&f->root, &f->arena, "/", 17, &hook));
    assert_false(model_hook_read(&f->root, &f->arena, "/", 18, &hook));
}

static void other_texts(void **state)
{
    static const char *const texts[] = {"",
                                        "\nMODULES = (",
                                        "\nMODULES = (\"a\"",
                                        "\nMODULES = (\"a\", )\nLIBRARIES = (b\"\\x0",
                                        "\nMODULES = (\"a\", )\nLIBRARIES = (b\"\\x00\", )",
                                        "\nMODULES = (a, )\nLIBRARIES = ()",
                                        "\nMODULES = (\"a\", )\nLIBRARIES = (b\"x\" + y)\n",
                                        "\nLIBRARIES = (b\"x\", )\n"};
    struct fixture *f = *state;
    put(f, MODEL_HOOK_PTH, apply_hook_pth());
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct model_hook hook;
        put(f, MODEL_HOOK_MODULE, str_of(texts[i]));
        assert_true(model_hook_read(&f->root, &f->arena, "/", 11, &hook));
        assert_non_null(hook.file);
        assert_int_equal(hook.n_modules, 0);
        assert_int_equal(hook.n_libraries, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(read_back, setup, teardown),
        cmocka_unit_test_setup_teardown(by_version, setup, teardown),
        cmocka_unit_test_setup_teardown(other_texts, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
