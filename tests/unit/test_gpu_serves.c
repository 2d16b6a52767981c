/* Which device can use which code: one line a case, the rules are in src/gpu/serves.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/code.h"
#include "gpu/datafile.h"

#define ABSENT  GPU_SERVES_ABSENT
#define NATIVE  GPU_SERVES_NATIVE
#define JIT     GPU_SERVES_JIT
#define NONE    GPU_SERVES_NONE
#define UNKNOWN GPU_SERVES_UNKNOWN

static const struct cuda_case {
    unsigned native, ptx; // architecture, or 0
    char native_suffix, ptx_suffix;
    unsigned isa; // of the PTX
    unsigned major, minor, driver_isa;
    enum gpu_serves serves;
    const char *by;
} cuda_cases[] = {
    {80, 0, 0, 0, 0, 8, 6, 80, NATIVE, "N"},    // same major, higher minor
    {86, 0, 0, 0, 0, 8, 0, 80, NONE, NULL},     // lower minor
    {80, 0, 0, 0, 0, 9, 0, 80, NONE, NULL},     // another major
    {90, 0, 'a', 0, 0, 9, 0, 80, NATIVE, "N"},  // exactly
    {100, 0, 'a', 0, 0, 10, 3, 90, NONE, NULL}, // the suffix a excludes 10.3
    {100, 0, 'f', 0, 0, 10, 3, 90, NATIVE, "N"},
    {103, 0, 'f', 0, 0, 10, 0, 90, NONE, NULL},
    {100, 0, 'f', 0, 0, 12, 0, 90, NONE, NULL},
    {120, 0, 'f', 0, 0, 12, 1, 90, NATIVE, "N"},
    {100, 0, '?', 0, 0, 10, 0, 90, NATIVE, "N"},
    {100, 0, '?', 0, 0, 10, 3, 90, UNKNOWN, "N"},
    {80, 0, 0, 0, 0, 8, 7, 80, UNKNOWN, "N"}, // Orin, and desktop code
    {87, 0, 0, 0, 0, 8, 9, 80, UNKNOWN, "N"},
    {87, 0, 0, 0, 0, 8, 7, 80, NATIVE, "N"},
    {0, 70, 0, 0, 78, 12, 0, 84, JIT, "P"}, // PTX is for all higher ones
    {0, 80, 0, 0, 78, 7, 5, 84, NONE, NULL},
    {0, 80, 0, 0, 85, 8, 6, 84, NONE, NULL},  // PTX newer than the driver
    {0, 80, 0, 0, 85, 8, 6, 0, UNKNOWN, "P"}, // ... or a driver that is not known
    {0, 90, 0, 'a', 80, 9, 0, 84, JIT, "P"},
    {0, 90, 0, 'a', 80, 10, 0, 90, NONE, NULL},
    {0, 100, 0, 'f', 88, 10, 3, 90, JIT, "P"},
    {0, 100, 0, 'f', 88, 12, 0, 90, NONE, NULL},
    {90, 80, 0, 0, 78, 9, 0, 84, NATIVE, "N"}, // native code before PTX
    {90, 90, 0, 0, 78, 12, 0, 84, JIT, "P"},
    {0, 0, 0, 0, 0, 9, 0, 84, ABSENT, NULL},
};

static void test_cuda(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cuda_cases / sizeof *cuda_cases; i++) {
        const struct cuda_case *c = &cuda_cases[i];
        struct gpu_cuda_arch native = {"N", c->native, c->native_suffix, 1, 0, 0};
        struct gpu_cuda_arch ptx = {"P", c->ptx, c->ptx_suffix, 1, c->isa, c->isa};
        struct gpu_cuda_group group = {c->native != 0, c->ptx != 0, 3};
        bool any = c->native || c->ptx;
        struct gpu_code code = {
            .cuda = {&native, &ptx, c->native != 0, c->ptx != 0, &group, any, any ? 3 : 0},
            .searched = true};
        struct gpu_answer answer;
        gpu_code_serves_cuda(&code, c->major, c->minor, c->driver_isa, &answer);
        size_t counted = c->serves == NATIVE    ? answer.n_native
                         : c->serves == JIT     ? answer.n_jit
                         : c->serves == NONE    ? answer.n_none
                         : c->serves == UNKNOWN ? answer.n_unknown
                                                : 3;
        bool by_fits = c->by ? answer.by && strcmp(c->by, answer.by) == 0 : !answer.by;
        if (answer.serves != c->serves || counted != 3 || !by_fits || !answer.why) {
            fail_msg("case %zu: answered %d by %s: %s", i, (int)answer.serves,
                     answer.by ? answer.by : "nothing", answer.why);
        }
    }
}

/* Of code that could not be read nothing may be said to be absent. */
static void test_incomplete(void **state)
{
    (void)state;
    struct gpu_cuda_arch native = {"sm_80", 80, 0, 1, 0, 0};
    struct gpu_cuda_group group = {1, 0, 1};
    struct gpu_code code = {.cuda = {&native, NULL, 1, 0, &group, 1, 1}, .incomplete = true};
    struct gpu_answer answer;
    gpu_code_serves_cuda(&code, 9, 0, 0, &answer);
    assert_int_equal(answer.serves, UNKNOWN);
    gpu_code_serves_cuda(&code, 8, 9, 0, &answer);
    assert_int_equal(answer.serves, NATIVE);
    gpu_code_serves_amd(&code, "gfx1030", &answer);
    assert_int_equal(answer.serves, UNKNOWN);
}

/* Nor of code that nobody looked for, or that is still to be linked. */
static void test_not_searched(void **state)
{
    (void)state;
    struct gpu_cuda_arch native = {"sm_75", 75, 0, 1, 0, 0}, data = {"sm_90", 90, 0, 4, 0, 0};
    struct gpu_cuda_group group = {1, 0, 1}, data_group = {1, 0, 4};
    struct gpu_kind lto = {8, 10};
    struct gpu_code code = {.cuda = {&native, NULL, 1, 0, &group, 1, 1}};
    struct gpu_answer answer;
    gpu_code_serves_cuda(&code, 9, 0, 90, &answer);
    assert_int_equal(answer.serves, UNKNOWN);
    code.searched = true;
    gpu_code_serves_cuda(&code, 9, 0, 90, &answer);
    assert_int_equal(answer.serves, NONE);
    code.kinds = &lto;
    code.n_kinds = 1;
    gpu_code_serves_cuda(&code, 9, 0, 90, &answer);
    assert_int_equal(answer.serves, UNKNOWN);
    code.embedded = (struct gpu_cuda){&data, NULL, 1, 0, &data_group, 1, 4};
    gpu_code_serves_cuda(&code, 9, 0, 90, &answer);
    assert_int_equal(answer.serves, NATIVE);
    assert_int_equal(answer.n_native, 4);
    assert_int_equal(answer.n_none, 1);
}

/* Containers are counted by what each of them has for the device. */
static void test_containers(void **state)
{
    (void)state;
    struct gpu_cuda_arch native[] = {{"sm_75", 75, 0, 2, 0, 0}, {"sm_90", 90, 0, 5, 0, 0}};
    struct gpu_cuda_arch ptx = {"compute_75", 75, 0, 1, 64, 64};
    struct gpu_cuda_group groups[] = {{1, 0, 2}, {2, 0, 4}, {3, 0, 1}, {0, 1, 8}};
    struct gpu_code code = {.cuda = {native, &ptx, 2, 1, groups, 4, 15}, .searched = true};
    struct gpu_answer answer;
    gpu_code_serves_cuda(&code, 9, 0, 80, &answer);
    assert_int_equal(answer.serves, NATIVE);
    assert_string_equal(answer.by, "sm_90");
    assert_int_equal(answer.n_native, 5);
    assert_int_equal(answer.n_jit, 8);
    assert_int_equal(answer.n_none, 2);
}

static const struct amd_case {
    const char *targets[3];
    const char *device;
    enum gpu_serves serves;
} amd_cases[] = {
    {{"gfx1030", "gfx90a"}, "gfx1030", NATIVE},
    {{"gfx1030"}, "gfx1031", NONE},
    {{"gfx10-3-generic"}, "gfx1031", NATIVE},
    {{"gfx10-3-generic"}, "gfx1010", NONE},
    {{"gfx90a"}, "gfx90a:sramecc+:xnack-", NATIVE}, // not named: both
    {{"gfx90a:xnack-"}, "gfx90a:sramecc+:xnack-", NATIVE},
    {{"gfx90a:xnack+"}, "gfx90a:sramecc+:xnack-", NONE},
    {{"gfx90a:xnack+", "gfx90a:xnack-"}, "gfx90a:sramecc+:xnack-", NATIVE},
    {{"gfx90a:xnack-"}, "gfx90a", UNKNOWN},
    {{"amdgcnspirv", "gfx90a"}, "gfx1201", JIT},
    {{NULL}, "gfx1201", ABSENT},
};

static void test_amd(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof amd_cases / sizeof *amd_cases; i++) {
        const struct amd_case *c = &amd_cases[i];
        struct gpu_target targets[3];
        struct gpu_code code = {.targets = targets};
        while (code.n_targets < 3 && c->targets[code.n_targets]) {
            targets[code.n_targets] = (struct gpu_target){c->targets[code.n_targets], 1};
            code.n_targets++;
        }
        struct gpu_answer answer;
        gpu_code_serves_amd(&code, c->device, &answer);
        if (answer.serves != c->serves) {
            fail_msg("case %zu (%s): answered %d: %s", i, c->device, (int)answer.serves,
                     answer.why);
        }
    }
}

/* ------------------------------------------------------------------ data files */

static const struct {
    const char *name;
    const char *target; // NULL: names no processor
    enum gpu_data_kind kind;
    bool lazy;
} names[] = {
    {"TensileLibrary_lazy_gfx1030.dat", "gfx1030", GPU_DATA_INDEX, true},
    {"TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx90a.co", "gfx90a",
     GPU_DATA_KERNELS, false},
    {"TensileLibrary_Type_ZZ_Contraction_l_Ailk_Bljk_Cijk_Dijk_fallback_gfx1030.hsaco", "gfx1030",
     GPU_DATA_KERNELS, false},
    {"Kernels.so-000-gfx906-xnack-.hsaco", "gfx906:xnack-", GPU_DATA_KERNELS, false},
    {"Kernels.so-000-gfx90a-xnack+.hsaco", "gfx90a:xnack+", GPU_DATA_KERNELS, false},
    {"extop_gfx942.co", "gfx942", GPU_DATA_KERNELS, false},
    {"gfx90a68.db.txt", "gfx90a", GPU_DATA_TUNING, false},
    {"gfx90878.HIP.fdb.txt", "gfx908", GPU_DATA_TUNING, false},
    {"gfx942130.HIP.fdb.txt", "gfx942", GPU_DATA_TUNING, false},
    {"gfx906_60.kdb", "gfx906", GPU_DATA_TUNING, false},
    {"gfx942_ConvHipIgemmGroupFwdXdlops_decoder.ktn.model", "gfx942", GPU_DATA_TUNING, false},
    {"TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk_fallback.dat", NULL, GPU_DATA_OTHER,
     false},
    {"TensileLibrary_lazy_gfx9999.dat", NULL, GPU_DATA_OTHER, false},
    {"TensileLibrary_lazy_gfx10301.dat", NULL, GPU_DATA_OTHER, false},
    {"notgfx1030.co", NULL, GPU_DATA_OTHER, false},
};

static void test_data_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct gpu_data_name n = {0};
        bool found = gpu_data_name(names[i].name, &n);
        if (found != (names[i].target != NULL) ||
            (found && (strcmp(n.target, names[i].target) != 0 || n.kind != names[i].kind ||
                       n.lazy != names[i].lazy))) {
            fail_msg("%s: %s, kind %d", names[i].name, found ? n.target : "nothing", (int)n.kind);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda),         cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_not_searched), cmocka_unit_test(test_containers),
        cmocka_unit_test(test_amd),          cmocka_unit_test(test_data_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
