/* What is spent in lines of one process is not in those of another; beyond so many processes
 * nothing is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "log/spent.h"

enum { OWNERS = 130 }; // more than two words of bits, and part of a third

static size_t count(const struct spent *s, uint64_t process)
{
    size_t n = 0;
    for (size_t i = 0; i < OWNERS; i++) {
        n += spent_has(s, process, i);
    }
    return n;
}

static void test_by_process(void **state)
{
    (void)state;
    static const size_t owners[] = {0, 1, 63, 64, 127, 128, OWNERS - 1};
    struct arena a;
    struct spent s;
    arena_init(&a, 0, NULL, NULL);
    spent_init(&s, &a, OWNERS);
    assert_int_equal(count(&s, 0), 0);
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
        spent_add(&s, 7, owners[i]);
        spent_add(&s, 7, owners[i]); // twice is once
        assert_true(spent_has(&s, 7, owners[i]));
        assert_int_equal(count(&s, 7), i + 1);
        assert_int_equal(count(&s, 0), 0); // the process of lines that name none is one as well
    }
    spent_add(&s, 0, 5);
    assert_int_equal(count(&s, 0), 1);
    assert_false(spent_has(&s, 7, 5));
    arena_release(&a);
}

static void test_many_processes(void **state)
{
    (void)state;
    struct arena a;
    struct spent s;
    arena_init(&a, 0, NULL, NULL);
    spent_init(&s, &a, OWNERS);
    for (uint64_t process = 100; process < 100 + SPENT_PROCESSES + 3; process++) {
        spent_add(&s, process, 64);
    }
    for (uint64_t process = 100; process < 100 + SPENT_PROCESSES + 3; process++) {
        assert_int_equal(count(&s, process), process < 100 + SPENT_PROCESSES);
    }
    spent_add(&s, 100, 3); // one that is told apart still takes more
    assert_int_equal(count(&s, 100), 2);
    arena_release(&a);
}

static void test_forget(void **state)
{
    (void)state;
    struct arena a;
    struct spent s;
    arena_init(&a, 0, NULL, NULL);
    spent_init(&s, &a, OWNERS);
    for (uint64_t process = 0; process < SPENT_PROCESSES; process++) {
        for (size_t i = 0; i < OWNERS; i++) {
            spent_add(&s, process, i);
        }
    }
    spent_forget(&s);
    assert_int_equal(s.forgotten, 1);
    spent_add(&s, 99, 2); // in the place of the first
    assert_int_equal(count(&s, 99), 1);
    for (uint64_t process = 0; process < SPENT_PROCESSES; process++) {
        assert_int_equal(count(&s, process), 0);
    }
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_process),
        cmocka_unit_test(test_many_processes),
        cmocka_unit_test(test_forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
