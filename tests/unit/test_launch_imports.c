/* Import statements, read from text: launch/imports.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "launch/imports.h"

/* The names in order; those inside functions and classes end with a "*". */
static const char *read_all(struct arena *a, const char *text)
{
    struct launch_imports imports;
    const char *out = "";
    launch_imports_read(a, str_of(text), &imports);
    for (size_t i = 0; i < imports.items.n; i++) {
        const struct launch_import *import = &imports.items.items[i];
        out = arena_printf(a, "%s%s%s%s", out, i ? " " : "", str_dup(a, import->name),
                           import->inside ? "*" : "");
    }
    return out;
}

static void statements(void **state)
{
    (void)state;
    static const struct {
        const char *text, *names;
    } cases[] = {
        {"import torch\n", "torch"},
        {"import torch", "torch"},
        {"import torch, ctranslate2 as ct ,numpy # later: import x\n", "torch ctranslate2 numpy"},
        {"import a.b.c as d\r\n", "a.b.c"},
        {"from a.b import c\n", "a.b a.b.c"},
        {"from a import b as c, d\n", "a a.b a.d"},
        {"from a import (\n    b,\n)\n", "a"},
        {"from a import *\n", "a"},
        {"from . import x\nfrom .y import z\nfrom .. import w\n", ""},
        {"import os; import torch;x = 1\n", "os torch"},
        {"\timport torch\n", "torch"},
        {"try:\n    import torch\nexcept ImportError:\n    import cupy\n", "torch cupy"},
        {"def f():\n    import torch\n\nimport numpy\n", "torch* numpy"},
        {"@wraps\nclass A:\n    import a\n    def f(self):\n        import b\nimport c\n",
         "a* b* c"},
        {"async def f(\n    x,\n):\n    import a\nif x:\n    import b\n", "a* b"},
        {"importlib.import_module('torch')\nimported = 1\nfromage = 2\n", ""},
        {"import\nimport \nfrom\nfrom \nfrom x\nimport ,\n", "x"},
        {"", ""},
        {"import \xc3\xa4\n", "\xc3\xa4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena a;
        arena_init(&a, 0, NULL, NULL);
        const char *got = read_all(&a, cases[i].text);
        if (strcmp(got, cases[i].names) != 0) {
            print_error("%s: got \"%s\", wanted \"%s\"\n", cases[i].text, got, cases[i].names);
            fail();
        }
        arena_release(&a);
    }
}

/* A text that is all imports is read to its bound and no further. */
static void many(void **state)
{
    (void)state;
    struct arena a;
    struct launch_imports imports;
    arena_init(&a, 0, NULL, NULL);
    size_t n = 5000, size = strlen("import a\n");
    char *text = arena_alloc(&a, n * size);
    for (size_t i = 0; i < n; i++) {
        memcpy(text + i * size, "import a\n", size);
    }
    launch_imports_read(&a, (struct str){text, n * size}, &imports);
    assert_int_equal(imports.items.n, 1024);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(statements), cmocka_unit_test(many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
