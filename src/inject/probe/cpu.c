/*
 * What `choose` promises of the CPU, carried out: instructions of the ISA level, and the number of
 * cores this process may use. level=: 2 to 4 for x86-64-v2 to -v4; threads=: how many.
 */
#include <sched.h>
#include <stdint.h>

#include "inject/probe/helper.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { N = 16 };

/* The operands come from memory that the compiler knows nothing of, so that it cannot do the work
 * itself. x86-64 psABI 3.1.1, table "Micro-Architecture Levels". */
static volatile int32_t operand = 3;

__attribute__((target("sse4.2,popcnt"))) static int level_2(void)
{
    __m128i v = _mm_mullo_epi32(_mm_set1_epi32(operand), _mm_set1_epi32(operand + 4)); // SSE4.1
    return _mm_extract_epi32(v, 2) == 21 && _mm_popcnt_u32((unsigned)operand) == 2;
}

__attribute__((target("avx2,fma,bmi2"))) static int level_3(void)
{
    float out[8];
    __m256 x = _mm256_set1_ps((float)operand);
    _mm256_storeu_ps(out, _mm256_fmadd_ps(x, x, x));                                      // FMA
    __m256i i = _mm256_add_epi32(_mm256_set1_epi32(operand), _mm256_set1_epi32(operand)); // AVX2
    return out[7] == 12.0f && _mm256_extract_epi32(i, 7) == 6 &&
           _pext_u32(0xf0f0u, (unsigned)operand << 4) == 3; // BMI2
}

__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) static int level_4(void)
{
    int32_t out[N];
    __m512i v = _mm512_set1_epi32(operand);
    _mm512_storeu_si512(out, _mm512_mullo_epi32(v, v)); // AVX512F
    __m256i w = _mm256_maskz_add_epi16(0xffff, _mm256_set1_epi16((short)operand),
                                       _mm256_set1_epi16(1)); // AVX512BW, VL
    return out[N - 1] == 9 && _mm256_extract_epi16(w, 15) == 4;
}

static void run_level(long level)
{
    static int (*const levels[])(void) = {NULL, NULL, level_2, level_3, level_4};
    static const char *const names[] = {"", "", "x86-64-v2 instructions", "x86-64-v3 instructions",
                                        "x86-64-v4 instructions"};
    for (long i = 2; i <= level && i <= 4; i++) {
        say_call(names[i]);
        if (!levels[i]()) {
            say_failed(0, NULL, "the %s compute a wrong result", names[i]);
        }
    }
}
#else
static void run_level(long level)
{
    (void)level; // the architecture has one
}
#endif

/* How many cores this process may run on; -1: the kernel does not tell. */
static int usable_cores(void)
{
    enum { WORDS = 1024 }; // 65536 cores: more than the kernel can be built for
    static unsigned long words[WORDS];
    int n = 0;
    say_call("sched_getaffinity");
    if (sched_getaffinity(0, sizeof words, (cpu_set_t *)words) != 0) {
        return -1;
    }
    for (int i = 0; i < WORDS; i++) {
        n += __builtin_popcountl(words[i]);
    }
    return n;
}

void stage_cpu(const struct job *j)
{
    long level = job_number(j, "level", 0), threads = job_number(j, "threads", 0);
    run_level(level);
    int cores = usable_cores();
    if (cores < 0) {
        say_unknown("the kernel does not tell which cores may be used");
    }
    say_fact("cores", "%d", cores);
    if (threads > cores) {
        say_failed(0, NULL, "choose reports %ld threads, but the process may use %d core%s",
                   threads, cores, cores == 1 ? "" : "s");
    }
    if (level > 1) {
        say_passed("x86-64-v%ld and %ld thread%s, as reported", level, threads,
                   threads == 1 ? "" : "s");
    }
    say_passed("%ld thread%s, as reported", threads, threads == 1 ? "" : "s");
}
