/* The filter finds each literal wherever it stands, and nothing else: compared with a search that
 * looks at every place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "log/filter.h"

static const char *const literals[] = {"cuda",
                                       "CUDA error: out of memory",
                                       "sm_120",
                                       "....",
                                       "no kernel image",
                                       "Unable to load any of {",
                                       "cuda",
                                       "libcudnn",
                                       "\xe2\x80\x98so"};
enum { N = sizeof literals / sizeof *literals };

struct hits {
    size_t n[N], places[N]; // their sum
};

static void on_hit(void *arg, size_t literal, size_t at)
{
    struct hits *h = arg;
    h->n[literal]++;
    h->places[literal] += at;
}

static void naive(const char *text, size_t n, struct hits *ret)
{
    for (size_t l = 0; l < N; l++) {
        size_t length = strlen(literals[l]);
        for (size_t i = 0; i + length <= n; i++) {
            if (strncasecmp(text + i, literals[l], length) == 0) {
                on_hit(ret, l, i);
            }
        }
    }
}

static void check_one(const struct filter *f, const char *text, size_t n)
{
    struct hits wanted = {0}, got = {0};
    char *exact = malloc(n ? n : 1); // so that a read behind the end is noticed
    assert_non_null(exact);
    memcpy(exact, text, n);
    naive(exact, n, &wanted);
    filter_all(f, exact, n, on_hit, &got);
    bool any = false;
    for (size_t l = 0; l < N; l++) {
        if (wanted.n[l] != got.n[l] || wanted.places[l] != got.places[l]) {
            fail_msg("'%.*s': literal %zu", (int)n, text, l);
        }
        any |= wanted.n[l] > 0;
    }
    assert_int_equal(filter_find(f, exact, 0, n, NULL, NULL) < n, any);
    free(exact);
}

/* Each literal in either case, behind and before 0 to 12 other bytes. */
static void every_place(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    struct filter *f = filter_build(&a, literals, N);
    for (size_t l = 0; l < N; l++) {
        for (size_t before = 0; before <= 12; before++) {
            for (size_t after = 0; after <= 12; after++) {
                char text[100];
                size_t n = strlen(literals[l]);
                memset(text, 'x', sizeof text);
                memcpy(text + before, literals[l], n);
                check_one(f, text, before + n + after);
                for (size_t i = 0; i < n; i++) {
                    char *c = &text[before + i];
                    *c = *c >= 'a' && *c <= 'z' ? (char)(*c & ~0x20) : *c;
                }
                check_one(f, text, before + n + after);
                check_one(f, text, before + n - 1); // cut: must not be found
            }
        }
    }
    arena_release(&a);
}

/* Pieces of literals at random. */
static void mixed(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    struct filter *f = filter_build(&a, literals, N);
    uint32_t seed = 12345;
    for (int round = 0; round < 20000; round++) {
        char text[200];
        size_t n = 0;
        while (n < 120) {
            seed = seed * 1664525 + 1013904223;
            const char *l = literals[(seed >> 8) % N];
            size_t length = strlen(l), part = (seed >> 16) % (length + 1);
            memcpy(text + n, l, part);
            n += part;
            text[n++] = "._ cu"[seed >> 29 > 4 ? 0 : seed >> 29];
        }
        check_one(f, text, n);
    }
    arena_release(&a);
}

/* All places of a literal are passed over, and another literal is still found. */
static bool is_passed(void *arg, size_t literal, size_t at)
{
    size_t *passed = arg;
    (void)at;
    *passed += literal == 0;
    return literal == 0;
}

static void passed_over(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    static const char *const two[] = {"driver", "toolkit"};
    struct filter *f = filter_build(&a, two, 2);
    static const char text[] = "a driver, a Driver and a toolkit";
    size_t n = sizeof text - 1, passed = 0;
    size_t at = filter_find(f, text, 0, n, is_passed, &passed);
    assert_true(at >= 25 && at < n);
    assert_int_equal(passed, 2);
    assert_int_equal(filter_find(f, text, 0, 24, is_passed, &passed), 24);
    arena_release(&a);
}

static void nothing(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    struct filter *f = filter_build(&a, literals, 0);
    assert_int_equal(filter_find(f, "cuda cuda cuda", 0, 14, NULL, NULL), 14);
    assert_int_equal(filter_find(f, "", 0, 0, NULL, NULL), 0);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_place),
        cmocka_unit_test(mixed),
        cmocka_unit_test(passed_over),
        cmocka_unit_test(nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
