/* One arena: base/arena.h. Memory is zeroed, aligned, stays where it is, and has a limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"

static jmp_buf frame;

static void jump_back(void *arg)
{
    ++*(int *)arg;
    longjmp(frame, 1);
}

/* Sizes below and above a chunk, mixed: no two pieces overlap, and none moves. */
static void pieces_are_apart(void **state)
{
    (void)state;
    enum { PIECES = 600 };
    static unsigned char *pieces[PIECES];
    static const size_t sizes[] = {0, 1, 15, 16, 17, 1000, 9000, 40000, 300000, 3};
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    for (size_t i = 0; i < PIECES; i++) {
        size_t n = sizes[i % 10];
        pieces[i] = arena_alloc(&a, n);
        assert_int_equal((uintptr_t)pieces[i] % _Alignof(max_align_t), 0);
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(pieces[i][k], 0);
        }
        memset(pieces[i], (int)(i % 251) + 1, n);
    }
    for (size_t i = 0; i < PIECES; i++) {
        for (size_t k = 0; k < sizes[i % 10]; k++) {
            assert_int_equal(pieces[i][k], i % 251 + 1);
        }
    }
    arena_release(&a);
    assert_int_equal(a.used_bytes, 0);
    assert_non_null(arena_alloc(&a, 8)); // usable again
    arena_release(&a);
    struct arena zeroed = {0};
    arena_release(&zeroed);
}

/* What is asked for; a request that cannot be met calls the arena's oom function once. */
static void limits(void **state)
{
    (void)state;
    static const struct {
        size_t limit, count, size;
        int ooms;
    } cases[] = {
        {1024, 64, 16, 0},        {1024, 65, 16, 1},          {0, SIZE_MAX, 1, 1},
        {0, SIZE_MAX / 8, 16, 1}, {0, (size_t)1 << 63, 2, 1}, {1024, 0, SIZE_MAX, 0},
    };
    for (volatile size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        volatile int done = 0;
        int ooms = 0;
        struct arena a;
        arena_init(&a, cases[i].limit, jump_back, &ooms);
        if (setjmp(frame) == 0) {
            (void)arena_array(&a, cases[i].count, cases[i].size); // that it returns is the point
            done = 1;
        }
        assert_int_equal(ooms, cases[i].ooms);
        assert_int_equal(done, !cases[i].ooms);
        arena_release(&a);
    }
}

static void texts_and_vectors(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    assert_string_equal(arena_strndup(&a, "abcdef", 3), "abc");
    assert_string_equal(arena_strndup(&a, "", 0), "");
    assert_string_equal(arena_printf(&a, "%s-%d", "x", 7), "x-7");
    assert_int_equal(strlen(arena_printf(&a, "%70000s", "y")), 70000);
    VEC(size_t) v = {0};
    for (size_t i = 0; i < 1000; i++) {
        VEC_PUSH(&a, &v, i * i);
    }
    assert_int_equal(v.n, 1000);
    for (size_t i = 0; i < v.n; i++) {
        assert_int_equal(v.items[i], i * i);
    }
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_apart),
        cmocka_unit_test(limits),
        cmocka_unit_test(texts_and_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
