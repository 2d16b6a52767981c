/* Nodes share the count of drains whatever their own clocks say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/drain.h"

static void write_text(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* Drains three nodes of four at most, as their clocks are years off; then each counts for an hour
 * from now, by the clock of the file. */
static void clocks(void **state)
{
    static const int64_t off[] = {0, -1000000000, 1000000000, -1000000000, 0, 1000000000};
    char folder[] = "/tmp/gpumend-drain-XXXXXX", program[64], count[64], line[64];
    struct arena a;
    int64_t now = time(NULL);
    size_t n_drained = 0, n_lines = 0;
    (void)state;
    assert_non_null(mkdtemp(folder));
    arena_init(&a, 0, NULL, NULL);
    (void)snprintf(program, sizeof program, "%s/scontrol", folder);
    (void)snprintf(count, sizeof count, "%s/count", folder);
    write_text(program, "#!/bin/sh\necho 'NodeName=n1 State=IDLE ThreadsPerCore=1'\n", 0755);
    assert_int_equal(setenv("PATH", folder, 1), 0);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        const struct cli_drain d = {
            .node = "n1", .count_file = count, .limit = 3, .now = now + off[i]};
        const char *done = NULL;
        struct gm_err err;
        n_drained += cli_drain_node(&a, &d, "reason", &done, &err) == 0;
    }
    assert_int_equal(n_drained, 3);
    FILE *file = fopen(count, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        long long time = atoll(line);
        assert_true(time >= now - 60 && time <= now + 600);
        n_lines++;
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(n_lines, 3);
    assert_int_equal(unlink(count) | unlink(program) | rmdir(folder), 0);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(clocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
