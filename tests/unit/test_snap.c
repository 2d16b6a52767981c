/*
 * A root that is recorded and replayed: base/snap.h, base/pages.h. What a replay answers is what
 * the real root answered, and what was not asked is not known.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/root.h"
#include "base/snap.h"
#include "snapshot/decoder.h"

enum { PAGES = 64 };

static struct arena arena;
static char top[] = "/tmp/gpumend-test-snap.XXXXXX";

static const char *inside(const char *name)
{
    return arena_printf(&arena, "%s/%s", top, name);
}

/* etc/conf, etc/big (PAGES pages), abs -> /etc/conf, up -> ../../etc, loop -> loop, folder empty */
static int start(void **state)
{
    (void)state;
    arena_init(&arena, 0, NULL, NULL);
    if (!mkdtemp(top) || mkdir(inside("etc"), 0755) || mkdir(inside("empty"), 0700)) {
        return -1;
    }
    static const char *const links[][2] = {
        {"/etc/conf", "abs"}, {"../../etc", "up"}, {"loop", "loop"}, {"/nowhere", "lost"}};
    int bad = 0;
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        bad |= symlink(links[i][0], inside(links[i][1]));
    }
    FILE *conf = fopen(inside("etc/conf"), "w"), *big = fopen(inside("etc/big"), "w");
    bad |= !conf || !big || fputs("inside\n", conf) < 0;
    for (size_t i = 0; big && i < PAGES * pages_unit(); i++) {
        bad |= fputc((int)(i / pages_unit() + 1), big) == EOF;
    }
    return bad | fclose(conf) | fclose(big);
}

static int finish(void **state)
{
    (void)state;
    static const char *const names[] = {"etc/conf", "etc/big", "abs", "up", "loop", "lost"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)unlink(inside(names[i]));
    }
    int bad = rmdir(inside("etc")) | rmdir(inside("empty")) | rmdir(top);
    arena_release(&arena);
    return bad;
}

static void begin(struct root *r, struct snap *s)
{
    struct gm_err err;
    assert_int_equal(root_open(r, top, &err), 0);
    snap_init(s, &arena);
    root_record(r, s);
}

static const char *const paths[] = {
    "/",        "/etc",     "/etc/",      "/etc/conf", "/etc/conf/",     "/abs",
    "/abs/",    "/up/conf", "/up",        "/loop",     "/loop/x",        "/lost",
    "/lost/x",  "/none",    "/none/x",    "/etc/..",   "/../etc/./conf", "/etc/conf/..",
    "/empty/x", "",         "//etc//big", "/etc/none", "/up/../abs",
};
enum { N_PATHS = sizeof paths / sizeof *paths };

/* Everything that can be asked of a path, as one text. */
static const char *answers(struct root *r, const char *path)
{
    struct stat st = {0}, lst = {0};
    char *real = arena_strdup(&arena, "-"), *link = arena_strdup(&arena, "-");
    struct str text = STR("-"), head = STR("-");
    struct root_dir dir = {0};
    bool all = false;
    int rc[] = {root_stat(r, path, &st),
                root_lstat(r, path, &lst),
                root_realpath(r, &arena, path, &real),
                root_readlink(r, &arena, path, &link),
                root_read(r, &arena, path, 100, &text),
                root_read_head(r, &arena, path, 3, &head, &all),
                root_list(r, &arena, path, 10, NULL, &dir),
                root_access(r, path, R_OK),
                root_has_capabilities(r, path)};
    const char *out =
        arena_printf(&arena, "%o %lld %o %s %s " STR_FMT " " STR_FMT " %d %zu", st.st_mode,
                     (long long)(S_ISREG(st.st_mode) ? st.st_size : 0), lst.st_mode, real, link,
                     STR_ARG(text), STR_ARG(head), all, dir.n);
    for (size_t i = 0; i < sizeof rc / sizeof *rc; i++) {
        out = arena_printf(&arena, "%s %d", out, rc[i]);
    }
    for (size_t i = 0; i < dir.n; i++) {
        out = arena_printf(&arena, "%s %s", out, dir.names[i]);
    }
    return out;
}

static void compare_all(bool no_openat2)
{
    struct gm_err err;
    struct root plain, recorded, replayed;
    struct snap s;
    const char *real[N_PATHS];
    assert_int_equal(root_open(&plain, top, &err), 0);
    begin(&recorded, &s);
    struct root kernels = plain;
    plain.no_openat2 = s.from->no_openat2 = no_openat2;
    for (size_t i = 0; i < N_PATHS; i++) {
        real[i] = answers(&plain, paths[i]);
        assert_string_equal(answers(&kernels, paths[i]), real[i]);
        assert_string_equal(answers(&recorded, paths[i]), real[i]);
    }
    assert_int_equal(snap_finish(&s, &err), 0);
    root_close(&recorded);
    root_replay(&replayed, &s, "/elsewhere");
    for (size_t i = 0; i < N_PATHS; i++) {
        assert_string_equal(answers(&replayed, paths[i]), real[i]);
    }
    assert_int_equal(s.n_misses, 0);
    root_close(&plain);
}

/* On a kernel with openat2 and without. */
static void a_replay_answers_as_the_root_did(void **state)
{
    (void)state;
    compare_all(false);
    compare_all(true);
}

static void what_was_not_asked_is_not_known(void **state)
{
    (void)state;
    struct gm_err err;
    struct root r;
    struct snap s;
    struct stat st;
    struct str text;
    struct root_dir dir;
    begin(&r, &s);
    assert_int_equal(root_stat(&r, "/etc/conf", &st), 0);
    assert_int_equal(root_list(&r, &arena, "/empty", 10, NULL, &dir), 0);
    assert_int_equal(snap_finish(&s, &err), 0);
    root_close(&r);
    root_replay(&r, &s, "/");
    assert_int_equal(root_stat(&r, "/etc/conf", &st), 0);
    assert_int_equal(root_stat(&r, "/empty/none", &st), -ENOENT); // all of its names are known
    assert_int_equal(s.n_misses, 0);
    assert_int_equal(root_stat(&r, "/etc/none", &st), -SNAP_NOT_HELD);
    assert_int_equal(root_read(&r, &arena, "/etc/conf", 100, &text), -SNAP_NOT_HELD);
    assert_int_equal(root_list(&r, &arena, "/etc", 10, NULL, &dir), -SNAP_NOT_HELD);
    assert_int_equal(root_access(&r, "/etc/conf", R_OK), -SNAP_NOT_HELD);
    assert_int_equal(s.n_misses, 4);
    assert_int_equal(s.misses.n, 3);
}

/* Of a mapped file the pages that were read are held, and a replay says when others are read. */
static void pages_are_those_that_were_read(void **state)
{
    (void)state;
    if (getenv("GPUMEND_UNDER_VALGRIND")) {
        skip(); // it reports each access to a page that is not readable yet, whoever handles it
    }
    struct gm_err err;
    struct root r;
    struct snap s;
    struct stat st;
    const void *data;
    size_t size, unit = pages_unit();
    begin(&r, &s);
    assert_int_equal(root_map(&r, "/etc/big", &data, &size, &st), 0);
    assert_int_equal(size, PAGES * unit);
    const volatile unsigned char *p = data;
    assert_int_equal(p[5 * unit + 7] + p[6 * unit] + p[40 * unit], 6 + 7 + 41);
    assert_int_equal(snap_finish(&s, &err), 0);
    assert_int_equal(munmap((void *)(uintptr_t)data, size), 0);
    root_close(&r);
    pages_stop();
    const struct pages *held = snap_find(&s, "/etc/big")->pages;
    assert_int_equal(held->n_ranges, 2);
    assert_int_equal(held->ranges[0].offset, 5 * unit);
    assert_int_equal(held->ranges[0].n, 2 * unit);
    assert_int_equal(held->ranges[1].offset, 40 * unit);

    root_replay(&r, &s, "/");
    assert_int_equal(root_map(&r, "/etc/big", &data, &size, &st), 0);
    p = data;
    assert_int_equal(p[40 * unit + 1] + p[5 * unit] + p[7 * unit - 1], 41 + 6 + 7);
    snap_note_pages(&s);
    assert_int_equal(s.n_misses, 0);
    assert_int_equal(p[9 * unit], 0); // not held: zeros, and a note
    snap_note_pages(&s);
    assert_int_equal(s.n_misses, 1);
    assert_int_equal(munmap((void *)(uintptr_t)data, size), 0);
    pages_stop();
}

/* What lies behind the end of a path is not of it. */
static void plain_paths(void **state)
{
    static const char ends[] = "/a/b\0//../";
    (void)state;
    assert_true(snapshot_is_plain_path(ends));
    assert_true(snapshot_is_plain_path("/"));
    assert_true(snapshot_is_plain_path("/a.b/..c"));
    assert_false(snapshot_is_plain_path("a"));
    assert_false(snapshot_is_plain_path("/a/"));
    assert_false(snapshot_is_plain_path("//a"));
    assert_false(snapshot_is_plain_path("/a/../b"));
    assert_false(snapshot_is_plain_path("/a/."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_answers_as_the_root_did),
        cmocka_unit_test(what_was_not_asked_is_not_known),
        cmocka_unit_test(pages_are_those_that_were_read),
        cmocka_unit_test(plain_paths),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
