/* Kept plans: launch/cache.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/cache.h"

struct world {
    struct arena a;
    struct root host;
    char top[64];
    const char *plans, *file;
};

static int start(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct gm_err err;
    assert_non_null(w);
    (void)snprintf(w->top, sizeof w->top, "/tmp/gpumend-plans-XXXXXX");
    assert_non_null(mkdtemp(w->top));
    arena_init(&w->a, 0, NULL, NULL);
    assert_int_equal(root_open(&w->host, "/", &err), 0);
    w->plans = path_join(&w->a, w->top, "plans");
    w->file = path_join(&w->a, w->top, "file");
    FILE *file = fopen(w->file, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    *state = w;
    return 0;
}

static int finish(void **state)
{
    struct world *w = *state;
    char *command = arena_printf(&w->a, "rm -r '%s'", w->top);
    root_close(&w->host);
    assert_int_equal(system(command), 0);
    arena_release(&w->a);
    free(w);
    return 0;
}

static struct launch sample(struct arena *a)
{
    struct launch l = {0};
    VEC_PUSH(a, &l.changes, (struct launch_change){"LD_LIBRARY_PATH", "/a:/b\n\xff"});
    VEC_PUSH(a, &l.changes, (struct launch_change){"LD_PRELOAD", NULL});
    VEC_PUSH(a, &l.changes, (struct launch_change){"EMPTY", ""});
    VEC_PUSH(a, &l.links, (struct plan_link){"/s/libx.so.1.2.3", "/a/libx.so.1"});
    VEC_PUSH(a, &l.mends, (struct launch_told){"library-not-on-path", "libx.so.1 is there", true});
    VEC_PUSH(a, &l.left, (struct launch_told){"library-missing", "liby.so.1", false});
    VEC_PUSH(a, &l.remarks, "a remark");
    return l;
}

/* What was looked at, long before now. */
static struct launch_seen_set seen_by(struct world *w)
{
    struct launch_seen_set seen = {.a = &w->a, .root = &w->host, .began = {.tv_sec = INT32_MAX}};
    launch_seen_add(&seen, w->file);
    launch_seen_add(&seen, path_join(&w->a, w->top, "absent"));
    launch_seen_add(&seen, "/proc/self/maps");
    launch_seen_add(&seen, w->file);
    assert_int_equal(seen.n, 2);
    assert_null(seen.young);
    return seen;
}

static bool is_kept(struct world *w, const char *question)
{
    struct launch got;
    return launch_cache_read(&w->host, &w->a, w->plans, question, &got);
}

static void write_sample(struct world *w, const char *question)
{
    struct gm_err err;
    struct launch l = sample(&w->a);
    struct launch_seen_set seen = seen_by(w);
    assert_int_equal(launch_cache_write(&w->host, w->plans, question, &seen, &l, &err), 0);
}

static void comes_back_as_it_was(void **state)
{
    struct world *w = *state;
    struct launch got;
    write_sample(w, "one");
    assert_true(launch_cache_read(&w->host, &w->a, w->plans, "one", &got));
    assert_int_equal(got.changes.n, 3);
    assert_string_equal(got.changes.items[0].name, "LD_LIBRARY_PATH");
    assert_string_equal(got.changes.items[0].value, "/a:/b\n\xff");
    assert_null(got.changes.items[1].value);
    assert_string_equal(got.changes.items[2].value, "");
    assert_int_equal(got.links.n, 1);
    assert_string_equal(got.links.items[0].path, "/s/libx.so.1.2.3");
    assert_string_equal(got.links.items[0].target, "/a/libx.so.1");
    assert_string_equal(got.mends.items[0].cause, "library-not-on-path");
    assert_true(got.mends.items[0].of_program);
    assert_string_equal(got.left.items[0].text, "liby.so.1");
    assert_false(got.left.items[0].of_program);
    assert_string_equal(got.remarks.items[0], "a remark");
    assert_false(is_kept(w, "two"));
}

static void a_change_ends_it(void **state)
{
    struct world *w = *state;
    write_sample(w, "one");
    assert_true(is_kept(w, "one"));
    char *absent = path_join(&w->a, w->top, "absent");
    assert_int_equal(symlink("file", absent), 0);
    assert_false(is_kept(w, "one"));
    assert_int_equal(unlink(absent), 0);
    assert_true(is_kept(w, "one"));
    assert_int_equal(chmod(w->file, 0600), 0);
    assert_false(is_kept(w, "one"));
}

/* A file with two names keeps its plan when a third is made; with one name it does not. */
static void links_elsewhere(void **state)
{
    struct world *w = *state;
    char *second = path_join(&w->a, w->top, "second"), *third = path_join(&w->a, w->top, "third");
    assert_int_equal(link(w->file, second), 0);
    write_sample(w, "one");
    assert_int_equal(link(w->file, third), 0);
    assert_true(is_kept(w, "one"));
    assert_int_equal(unlink(second), 0);
    assert_int_equal(unlink(third), 0);
    assert_false(is_kept(w, "one"));
    write_sample(w, "one");
    assert_int_equal(link(w->file, second), 0);
    assert_false(is_kept(w, "one"));
    assert_int_equal(unlink(second), 0);
}

static void too_young(void **state)
{
    struct world *w = *state;
    struct gm_err err;
    struct launch l = sample(&w->a);
    struct launch_seen_set seen = {.a = &w->a, .root = &w->host};
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &seen.began), 0);
    assert_int_equal(chmod(w->file, 0640), 0);
    launch_seen_add(&seen, w->file);
    assert_string_equal(seen.young, w->file);
    assert_int_equal(launch_cache_write(&w->host, w->plans, "young", &seen, &l, &err),
                     GM_ERR_LIMIT);
    assert_false(is_kept(w, "young"));
}

/* Cut off at every byte, and with every byte changed. */
static void spoilt(void **state)
{
    struct world *w = *state;
    struct root_dir list;
    struct str bytes;
    struct gm_err err;
    struct launch_cached cached;
    write_sample(w, "one");
    assert_int_equal(root_list(&w->host, &w->a, w->plans, 10, NULL, &list), 0);
    assert_true(list.n > 0);
    assert_int_equal(
        root_read(&w->host, &w->a, path_join(&w->a, w->plans, list.names[0]), 1 << 20, &bytes), 0);
    assert_int_equal(launch_cache_parse(&w->a, bytes, &cached, &err), 0);
    for (size_t i = 0; i < bytes.n; i++) {
        char *other = arena_strndup(&w->a, bytes.s, bytes.n);
        other[i] ^= 1;
        assert_int_equal(launch_cache_parse(&w->a, (struct str){bytes.s, i}, &cached, &err),
                         GM_ERR_FORMAT);
        assert_int_equal(launch_cache_parse(&w->a, (struct str){other, bytes.n}, &cached, &err),
                         GM_ERR_FORMAT);
    }
}

/* Beyond 256 plans the oldest go. */
static void bounded_number(void **state)
{
    struct world *w = *state;
    struct root_dir list;
    for (int i = 0; i < 270; i++) {
        write_sample(w, arena_printf(&w->a, "question %d", i));
    }
    assert_int_equal(root_list(&w->host, &w->a, w->plans, 1000, NULL, &list), 0);
    assert_true(list.n <= 256);
    assert_true(is_kept(w, "question 269"));
    assert_false(is_kept(w, "question 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_back_as_it_was, start, finish),
        cmocka_unit_test_setup_teardown(a_change_ends_it, start, finish),
        cmocka_unit_test_setup_teardown(links_elsewhere, start, finish),
        cmocka_unit_test_setup_teardown(too_young, start, finish),
        cmocka_unit_test_setup_teardown(spoilt, start, finish),
        cmocka_unit_test_setup_teardown(bounded_number, start, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
