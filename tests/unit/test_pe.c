/* One PE image: pe/image.h and pe/apiset.h, over files made in memory in both classes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pe/apiset.h"
#include "pe/image.h"
#include "pemake.h"

static struct arena arena;

static const struct pemake full = {
    .imports = {{"KERNEL32.dll", {"Sleep", "#12", "ExitProcess"}, false},
                {"cudnn64_9.dll", {"cudnnCreate"}, false},
                {"unused.dll", {NULL}, false},
                {"later.dll", {"call_later"}, true}},
    .exports = {{"alpha", NULL}, {"beta", "NTDLL.RtlBeta"}, {"gamma", NULL}},
    .dependent_load_flags = 0x800,
    .file_version = {9, 10, 2, 21},
    .product_version = "9.10.2.21",
    .manifest = "<assembly/>",
};

static struct pe_image parse(struct str bytes)
{
    struct pe_image e;
    pe_image_parse(&arena, bytes.s, bytes.n, &e);
    return e;
}

static void check_full(const struct pe_image *e)
{
    struct pe_imports imports;
    struct pe_symbols symbols;
    assert_int_equal(e->state, PE_STATE_OK);
    assert_false(e->cut);
    pe_imports_read(&arena, e, &imports);
    assert_null(imports.defect);
    assert_int_equal(imports.n, 4);
    assert_string_equal(imports.items[0].dll, "KERNEL32.dll");
    assert_string_equal(imports.items[1].dll, "cudnn64_9.dll");
    assert_true(imports.items[2].unused && !imports.items[1].unused);
    assert_true(imports.items[3].delayed && !imports.items[0].delayed);
    assert_string_equal(imports.items[3].dll, "later.dll");
    pe_import_symbols(&arena, e, &imports.items[0], &symbols);
    assert_null(symbols.defect);
    assert_int_equal(symbols.n, 3);
    assert_string_equal(symbols.items[0].name, "Sleep");
    assert_null(symbols.items[1].name);
    assert_int_equal(symbols.items[1].ordinal, 12);
    assert_string_equal(symbols.items[2].name, "ExitProcess");
    pe_import_symbols(&arena, e, &imports.items[3], &symbols);
    assert_int_equal(symbols.n, 1);
    assert_string_equal(symbols.items[0].name, "call_later");
    assert_int_equal(pe_dependent_load_flags(e), 0x800);
    struct pe_version v = pe_version_read(e);
    assert_true(v.found);
    assert_int_equal(v.file[0], 9);
    assert_int_equal(v.file[1], 10);
    assert_int_equal(v.file[2], 2);
    assert_int_equal(v.file[3], 21);
    assert_int_equal(v.product[3], 21);
    assert_string_equal(pe_version_text(&arena, e, "ProductVersion"), "9.10.2.21");
    assert_null(pe_version_text(&arena, e, "Comments"));
    assert_true(str_is(pe_manifest(e), "<assembly/>"));
}

static void test_tables(void **state)
{
    (void)state;
    struct pemake narrow = full;
    narrow.is32 = true;
    struct pe_image e = parse(pemake(&arena, &full));
    assert_int_equal(e.machine, PE_MACHINE_AMD64);
    assert_true(e.is64);
    check_full(&e);
    e = parse(pemake(&arena, &narrow));
    assert_int_equal(e.machine, PE_MACHINE_I386);
    assert_false(e.is64);
    check_full(&e);
}

static void test_exports(void **state)
{
    (void)state;
    static const struct {
        struct pe_symbol symbol;
        enum pe_export_state state;
        const char *forwarder;
    } cases[] = {
        {{"alpha", 0}, PE_EXPORT_HERE, NULL},
        {{"beta", 0}, PE_EXPORT_FORWARDED, "NTDLL.RtlBeta"},
        {{"gamma", 0}, PE_EXPORT_HERE, NULL},
        {{"Alpha", 0}, PE_EXPORT_ABSENT, NULL}, // names of functions have a case
        {{"delta", 0}, PE_EXPORT_ABSENT, NULL},
        {{"zeta", 0}, PE_EXPORT_ABSENT, NULL},
        {{NULL, 1}, PE_EXPORT_HERE, NULL},
        {{NULL, 2}, PE_EXPORT_FORWARDED, "NTDLL.RtlBeta"},
        {{NULL, 4}, PE_EXPORT_ABSENT, NULL},
        {{NULL, 0}, PE_EXPORT_ABSENT, NULL}, // below the base
    };
    struct pe_image e = parse(pemake(&arena, &full));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pe_export x = pe_export_find(&e, &cases[i].symbol);
        assert_int_equal(x.state, cases[i].state);
        if (cases[i].forwarder) {
            assert_string_equal(x.forwarder, cases[i].forwarder);
        }
    }
    struct pemake none = {.imports = {{"a.dll", {"f"}, false}}};
    e = parse(pemake(&arena, &none));
    assert_int_equal(pe_export_find(&e, &cases[0].symbol).state, PE_EXPORT_ABSENT);
    assert_int_equal(pe_dependent_load_flags(&e), 0);
    assert_false(pe_version_read(&e).found);
    assert_int_equal(pe_manifest(&e).n, 0);
}

static void test_arm64x(void **state)
{
    (void)state;
    struct pemake spec = {.machine = PE_MACHINE_ARM64, .is_arm64x = true};
    struct pe_image e = parse(pemake(&arena, &spec));
    assert_true(pe_is_arm64x(&e));
    spec.is_arm64x = false;
    spec.dependent_load_flags = 0x800; // a load configuration that ends before the field
    e = parse(pemake(&arena, &spec));
    assert_false(pe_is_arm64x(&e));
    spec = (struct pemake){.is_arm64x = true}; // code for ARM64 in a file for x64 (ARM64EC)
    e = parse(pemake(&arena, &spec));
    assert_false(pe_is_arm64x(&e));
}

/* What is no PE file is said to be none, and what is one without its rest is said to be cut. */
static void test_states(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        enum pe_state state;
    } cases[] = {
        {"", 0, PE_STATE_TOO_SHORT},
        {"MZ", 2, PE_STATE_TOO_SHORT},
        {"not a DLL", 9, PE_STATE_NOT_PE},
        {"\x7f"
         "ELF and more than sixty-four bytes of it, so that a header would fit into them ...",
         70, PE_STATE_NOT_PE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pe_image e = parse((struct str){cases[i].bytes, cases[i].n});
        assert_int_equal(e.state, cases[i].state);
    }
    struct str whole = pemake(&arena, &full);
    struct pe_image e = parse((struct str){whole.s, whole.n - 1});
    assert_int_equal(e.state, PE_STATE_OK);
    assert_true(e.cut);
}

/* Every truncation gives an answer: a state, a cut, or a defect, never what is not there. */
static void test_truncated(void **state)
{
    (void)state;
    struct str whole = pemake(&arena, &full);
    for (size_t n = 0; n < whole.n; n += n < 0x1400 ? 1 : 97) {
        unsigned char *part = malloc(n ? n : 1); // so that a read behind it is seen
        assert_non_null(part);
        memcpy(part, whole.s, n);
        struct pe_image e = parse((struct str){(const char *)part, n});
        assert_true(e.state != PE_STATE_OK || e.cut);
        assert_true((e.state == PE_STATE_BAD) == (e.defect != NULL));
        struct pe_imports imports;
        pe_imports_read(&arena, &e, &imports);
        assert_true(imports.n == 4 || imports.defect || e.state != PE_STATE_OK);
        for (size_t i = 0; i < imports.n; i++) {
            struct pe_symbols symbols;
            pe_import_symbols(&arena, &e, &imports.items[i], &symbols);
        }
        (void)pe_export_find(&e, &(struct pe_symbol){"beta", 0});
        (void)pe_version_text(&arena, &e, "ProductVersion");
        (void)pe_manifest(&e);
        free(part);
    }
}

static void test_apiset(void **state)
{
    (void)state;
    static const struct pemake spec = {
        .apisets = {{"api-ms-win-core-file-l1-2-0", "kernelbase.dll"},
                    {"ext-ms-win-gone-l1-1-0", ""}},
    };
    static const struct {
        const char *name;
        enum pe_apiset_state state;
        const char *host;
    } cases[] = {
        {"api-ms-win-core-file-l1-2-0.dll", PE_APISET_HOST, "kernelbase.dll"},
        {"API-MS-Win-Core-File-L1-2-7.dll", PE_APISET_HOST, "kernelbase.dll"}, // -N is ignored
        {"api-ms-win-core-file-l1-3-0.dll", PE_APISET_NONE, NULL},
        {"ext-ms-win-gone-l1-1-0.dll", PE_APISET_NO_HOST, NULL},
        {"kernel32.dll", PE_APISET_NONE, NULL},
        {"api-", PE_APISET_NONE, NULL},
    };
    struct gm_err err;
    struct pe_apiset schema;
    struct pe_image e = parse(pemake(&arena, &spec));
    assert_int_equal(pe_apiset_open(&e, &schema, &err), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pe_apiset_answer x = pe_apiset_find(&arena, &schema, cases[i].name, NULL);
        assert_int_equal(x.state, cases[i].state);
        if (cases[i].host) {
            assert_string_equal(x.host, cases[i].host);
        }
    }
    struct pemake old = spec;
    old.apiset_version = 2;
    e = parse(pemake(&arena, &old));
    assert_int_equal(pe_apiset_open(&e, &schema, &err), GM_ERR_UNSUPPORTED);
    e = parse(pemake(&arena, &full));
    assert_int_equal(pe_apiset_open(&e, &schema, &err), GM_ERR_FORMAT);
}

static void test_utf8(void **state)
{
    (void)state;
    const unsigned char text[] = {'a', 0, 0xe9, 0, 0x3d, 0xd8, 0, 0xde, 0, 0xd8, 'b', 0};
    assert_string_equal(pe_utf8(&arena, text, 6), "a\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbd"
                                                  "b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),    cmocka_unit_test(test_exports),
        cmocka_unit_test(test_arm64x),    cmocka_unit_test(test_states),
        cmocka_unit_test(test_truncated), cmocka_unit_test(test_apiset),
        cmocka_unit_test(test_utf8),
    };
    arena_init(&arena, 0, NULL, NULL);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    arena_release(&arena);
    return rc;
}
