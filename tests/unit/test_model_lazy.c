/* Which statements of a module wait by PEP 810: strings and comments hold none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/lazy.h"

static const struct {
    const char *source, *line; // NULL: none waits
    size_t number;
} cases[] = {
    {"", NULL, 0},
    {"import b\n", NULL, 0},
    {"lazy import b\n", "lazy import b", 1},
    {"x = 1\n\nif x:\n    lazy from b import c\n", "lazy from b import c", 4},
    {"lazy import b", "lazy import b", 1},
    {"lazy = 1\nlazy_import = 2\n", NULL, 0},
    {"# lazy import b\nimport c\n", NULL, 0},
    {"\"\"\"\nlazy import b\n\"\"\"\nimport c\n", NULL, 0},
    {"'''a \\''' \"\nlazy import b\n'''\nlazy import d\n", "lazy import d", 4},
    {"x = 'a\\\n lazy import b'\nlazy import d\n", "lazy import d", 3},
    {"x = '#'\nlazy import b # why\n", "lazy import b # why", 2},
    {"__lazy_modules__ = [\"b\"]\nimport b\n", "__lazy_modules__ = [\"b\"]", 1},
    {"print(__lazy_modules__)\n__lazy_modules__.append(1)\n", NULL, 0},
    /* What CPython 3.15.2 takes for one. */
    {"lazy\timport b\n", "lazy\timport b", 1},
    {"lazy  from b import (\n  c)\n", "lazy  from b import (", 1},
    {"lazy \\\n import b\n", "lazy \\", 1},
    {"\flazy import b\n", "lazy import b", 1},
    {"import os; lazy import b\n", "lazy import b", 1},
    {"x\nif x: lazy import b\n", "lazy import b", 2},
    {"__lazy_modules__: list = [\"b\"]\n", "__lazy_modules__: list = [\"b\"]", 1},
    {"x = []\n__lazy_modules__ += x\n", "__lazy_modules__ += x", 2},
    {"raise lazy from e\nx: lazy = 1\n__lazy_modules__ == 1\nlazyimport = 1\n", NULL, 0},
    {"\"\"\"never closed\nlazy import b\n", NULL, 0},
};

static void lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str line = {0};
        size_t number = model_lazy_line(str_of(cases[i].source), &line);
        if (number != cases[i].number || (cases[i].line && !str_is(line, cases[i].line))) {
            fail_msg("%s: line %zu, " STR_FMT, cases[i].source, number, STR_ARG(line));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
