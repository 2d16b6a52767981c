/* Versions that libraries say of themselves, in code, texts, symbol versions and names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elfmake.h"
#include "gpu/family.h"

#define BYTES(literal)                                                                             \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

static const struct family_case {
    const char *about, *symbol, *version_name, *soname, *file_name;
    struct str content; // the symbol's code, or text somewhere in the file
    const char *family, *version, *source;
} cases[] = {
    {"mov eax, 130401; ret", "cublasLtGetVersion", NULL, NULL, NULL,
     BYTES("\x55\xb8\x61\xfd\x01\x00\xc3"), "cublasLt", "13.4.1", "constant in cublasLtGetVersion"},
    {"the same number twice", "cublasLtGetVersion", NULL, NULL, NULL,
     BYTES("\xc7\x45\xcc\x61\xfd\x01\x00\xb8\x61\xfd\x01\x00\xc3"), "cublasLt", "13.4.1",
     "constant in cublasLtGetVersion"},
    {"two numbers that could be it", "cublasLtGetVersion", NULL, NULL, NULL,
     BYTES("\xc7\x45\xcc\x62\xfd\x01\x00\xb8\x61\xfd\x01\x00\xc3"), "cublasLt", NULL,
     "the file does not say it in a known way"},
    {"no number", "cublasLtGetVersion", NULL, NULL, NULL, BYTES("\x31\xc0\xc3"), "cublasLt", NULL,
     "the file does not say it in a known way"},
    {"mov eax, 100300; ret", "getInferLibVersion", NULL, NULL, NULL,
     BYTES("\xb8\xcc\x87\x01\x00\xc3"), "tensorrt", "10.3.0", "constant in getInferLibVersion"},
    {"mov dword [rdi], 12200", "cufftGetVersion", NULL, NULL, NULL,
     BYTES("\xc7\x07\xa8\x2f\x00\x00\x31\xc0\xc3"), "cufft", "12.2.0",
     "constant in cufftGetVersion"},
    {"mov dword [r13+0], 12710", "cusparseGetVersion", NULL, NULL, NULL,
     BYTES("\x41\xc7\x45\x00\xa6\x31\x00\x00\xc3"), "cusparse", "12.7.10",
     "constant in cusparseGetVersion"},
    {"call +3; ret; ...; mov dword [rdi], 13020", "cudaRuntimeGetVersion", NULL, NULL, NULL,
     BYTES("\xe8\x03\x00\x00\x00\xc3\x90\x90\x48\x85\xff\x74\x0b\xc7\x07\xdc\x32\x00\x00\x31\xc0"
           "\xc3\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90"),
     "cudart", "13.2", "constant in cudaRuntimeGetVersion"},
    {"a call out of the file", "cudaRuntimeGetVersion", NULL, NULL, NULL,
     BYTES("\xe8\xff\xff\xff\x7f\xc3"), "cudart", NULL, "the file does not say it in a known way"},
    {"a number below the symbol version", "hipRuntimeGetVersion", "hip_5.2", NULL, NULL,
     BYTES("\xc7\x01\x0f\x84\xfb\x02\xc7\x03\x61\x50\xfe\x02\xc3"), "hip", "5.2.21153",
     "constant in hipRuntimeGetVersion"},
    {"symbol version", "OrtGetApiBase", "VERS_1.31.1", NULL, NULL, BYTES(""), "onnxruntime",
     "1.31.1", "symbol version definition"},
    {"soname", NULL, NULL, "libctranslate2-a7a60d30.so.4.8.5", NULL, BYTES(""), "ctranslate2",
     "4.8.5", "soname"},
    {"soname without a version", NULL, NULL, "libctranslate2.so.4", NULL, BYTES(""), "ctranslate2",
     NULL, "the file does not say it in a known way"},
    {"name of the debug file", NULL, NULL, "libcublas.so.13", NULL,
     BYTES("libcublas.so.13.4.1.2.sym\0"), "cublas", "13.4.1.2", "name of its debug file"},
    {"driver", NULL, NULL, "libcuda.so.1", "/usr/lib/libcuda.so.550.54.14", BYTES(""), "libcuda",
     "550.54.14", "file name"},
    {"driver by its link", NULL, NULL, "libcuda.so.1", "/usr/lib/libcuda.so.1", BYTES(""),
     "libcuda", NULL, "the file does not say it in a known way"},
    {"compiler's release", NULL, NULL, "libnvJitLink.so.13", NULL,
     BYTES("Cuda compilation tools, release 13.5, V13.5.37\0"), "nvjitlink", "13.5.37", NULL},
    {"text, after others that begin so", "ncclGetVersion", NULL, NULL, NULL,
     BYTES("NCCL version %s\0NCCL version 2.21.5+cuda12.4\0"), "nccl", "2.21.5+cuda12.4", NULL},
};

/* elfmake gives each defined symbol the 8 bytes at 0x40; here it gets the content instead. */
static void point_symbol(struct str file, struct str content)
{
    static const unsigned char place[16] = {0x40, 0, 0, 0, 0, 0, 0, 0, 8};
    char *symbol = memmem(file.s, file.n, place, sizeof place);
    char *at = memmem(file.s, file.n, content.s, content.n);
    assert_non_null(symbol);
    assert_non_null(at);
    uint64_t offset = (uint64_t)(at - file.s), size = content.n;
    memcpy(symbol, &offset, 8);
    memcpy(symbol + 8, &size, 8);
}

static void check_one(struct arena *a, const struct family_case *c)
{
    struct elfmake spec = {.soname = c->soname, .constants = c->content};
    if (c->symbol) {
        spec.symbols[0] = (struct elfmake_symbol){c->symbol, c->version_name, true};
    }
    struct str file = elfmake(a, &spec);
    if (c->symbol && c->content.n) {
        point_symbol(file, c->content);
    }
    struct elf_image e;
    elf_image_parse(a, file.s, file.n, &e);
    struct gpu_families f;
    gpu_families_read(a, &e, c->file_name, &f);
    if (f.n != 1 || strcmp(f.items[0].name, c->family) != 0) {
        fail_msg("%s: %zu families", c->about, f.n);
    }
    const char *version = f.items[0].version;
    if (!c->version != !version || (version && strcmp(version, c->version) != 0)) {
        fail_msg("%s: version %s", c->about, version ? version : "not known");
    }
    if (c->source && strcmp(f.items[0].source, c->source) != 0) {
        fail_msg("%s: source %s", c->about, f.items[0].source);
    }
}

static void test_versions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena a;
        arena_init(&a, 0, NULL, NULL);
        check_one(&a, &cases[i]);
        arena_release(&a);
    }
}

/* What is no library of a family has no row. */
static void test_none(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    struct elfmake spec = {.soname = "libm.so.6",
                           .symbols = {{"ncclGetVersion", NULL, false}, {"sin", NULL, true}}};
    struct str file = elfmake(&a, &spec);
    struct elf_image e;
    elf_image_parse(&a, file.s, file.n, &e);
    struct gpu_families f;
    gpu_families_read(&a, &e, "libnccl.so.2", &f);
    assert_int_equal(f.n, 0);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions),
                                       cmocka_unit_test(test_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
