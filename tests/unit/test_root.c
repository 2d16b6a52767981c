/*
 * Files below a root: base/root.h. Links stay inside it, special files are never opened. Every
 * rule is tried twice, with openat2 and with the walk that stands in for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/root.h"

static struct arena arena;
static char top[] = "/tmp/gpumend-test-root.XXXXXX";
static struct root root;

static const char *inside(const char *name)
{
    return arena_printf(&arena, "%s/root/%s", top, name);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/*
 *   secret                  outside
 *   root/etc/conf           "inside\n"
 *   root/abs    -> /etc/conf          root/up    -> ../secret
 *   root/climb  -> ../../../../etc/conf
 *   root/loop   -> loop               root/lost  -> /nowhere
 *   root/dir    -> etc                root/pipe     a FIFO
 */
static int start(void **state)
{
    (void)state;
    arena_init(&arena, 0, NULL, NULL);
    if (!mkdtemp(top)) {
        return -1;
    }
    static const char *const links[][2] = {
        {"/etc/conf", "abs"}, {"../secret", "up"},  {"../../../../etc/conf", "climb"},
        {"loop", "loop"},     {"/nowhere", "lost"}, {"etc", "dir"},
    };
    int bad = mkdir(arena_printf(&arena, "%s/root", top), 0755);
    bad |= mkdir(inside("etc"), 0755) | mkdir(inside("empty"), 0755) | mkfifo(inside("pipe"), 0644);
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        bad |= symlink(links[i][0], inside(links[i][1]));
    }
    write_file(arena_printf(&arena, "%s/secret", top), "outside\n");
    write_file(inside("etc/conf"), "inside\n");
    write_file(inside("etc/b"), "");
    write_file(inside("etc/a"), "");
    struct gm_err err;
    return bad || root_open(&root, arena_printf(&arena, "%s/root", top), &err);
}

static int finish(void **state)
{
    (void)state;
    root_close(&root);
    int rc = system(arena_printf(&arena, "rm -rf '%s'", top));
    arena_release(&arena);
    return rc;
}

static void both_ways(void (*test)(void))
{
    root.no_openat2 = false;
    test();
    root.no_openat2 = true;
    test();
    root.no_openat2 = false;
}

static void links_stay_inside_one(void)
{
    static const char *const paths[] = {"/etc/conf",       "/abs",       "/climb", "/dir/conf",
                                        "/../../etc/conf", "/dir/../abs"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct str text;
        assert_int_equal(root_read(&root, &arena, paths[i], 100, &text), 0);
        assert_true(str_is(text, "inside\n"));
        char *real = NULL;
        assert_int_equal(root_realpath(&root, &arena, paths[i], &real), 0);
        assert_string_equal(real, "/etc/conf");
    }
}

static void links_stay_inside(void **state)
{
    (void)state;
    both_ways(links_stay_inside_one);
}

/* Which errno it was is a fact that the loader model needs. */
static void errors_are_told_apart_one(void)
{
    static const struct {
        const char *path;
        int result;
    } cases[] = {
        {"/nothing", -ENOENT},     {"/up", -ENOENT},         {"/lost", -ENOENT},
        {"/loop", -ELOOP},         {"/pipe", -ENOTSUP},      {"/etc", -EISDIR},
        {"/etc/conf/x", -ENOTDIR}, {"/etc/conf/", -ENOTDIR}, {"/loop/x", -ELOOP},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc = root_open_file(&root, cases[i].path, NULL);
        if (rc != cases[i].result) {
            fail_msg("%s: %d instead of %d", cases[i].path, rc, cases[i].result);
        }
    }
}

static void errors_are_told_apart(void **state)
{
    (void)state;
    both_ways(errors_are_told_apart_one);
}

static void link_targets_one(void)
{
    struct stat st;
    char *target = NULL;
    assert_int_equal(root_lstat(&root, "/lost", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(root_stat(&root, "/lost", &st), -ENOENT);
    assert_int_equal(root_readlink(&root, &arena, "/climb", &target), 0);
    assert_string_equal(target, "../../../../etc/conf");
    assert_int_equal(root_readlink(&root, &arena, "/etc/conf", &target), -EINVAL);
}

static void link_targets(void **state)
{
    (void)state;
    both_ways(link_targets_one);
}

static void sizes_are_bounded(void **state)
{
    (void)state;
    struct str text = {NULL, 0};
    assert_int_equal(root_read(&root, &arena, "/etc/conf", 6, &text), -EFBIG);
    assert_null(text.s);
    assert_int_equal(root_read(&root, &arena, "/etc/conf", 7, &text), 0);
    assert_int_equal(text.n, 7);
}

static void mapping(void **state)
{
    (void)state;
    const void *data = "x";
    size_t size = 1;
    struct stat st;
    assert_int_equal(root_map(&root, "/etc/a", &data, &size, &st), 0);
    assert_null(data);
    assert_int_equal(size, 0);
    assert_int_equal(root_map(&root, "/abs", &data, &size, &st), 0);
    assert_memory_equal(data, "inside\n", 7);
    assert_int_equal(munmap((void *)(uintptr_t)data, size), 0);
}

static bool no_b(const char *name, void *arg)
{
    (void)arg;
    return strcmp(name, "b") != 0;
}

/* Names come sorted, and a bound that is reached is told. */
static void listing(void **state)
{
    (void)state;
    struct root_dir dir;
    assert_int_equal(root_list(&root, &arena, "/dir", 10, NULL, &dir), 0);
    assert_int_equal(dir.n, 3);
    assert_string_equal(dir.names[0], "a");
    assert_string_equal(dir.names[2], "conf");
    assert_false(dir.truncated);
    assert_int_equal(root_list(&root, &arena, "/etc", 3, NULL, &dir), 0);
    assert_false(dir.truncated);
    assert_int_equal(root_list(&root, &arena, "/etc", 2, NULL, &dir), 0);
    assert_int_equal(dir.n, 2);
    assert_true(dir.truncated);
    assert_int_equal(root_list(&root, &arena, "/etc", 2, &(struct root_filter){.keep = no_b}, &dir),
                     0);
    assert_false(dir.truncated);
    assert_int_equal(root_list(&root, &arena, "/empty", 2, NULL, &dir), 0);
    assert_int_equal(dir.n, 0);
    assert_int_equal(root_list(&root, &arena, "/nothing", 2, NULL, &dir), -ENOENT);
    assert_int_equal(root_list(&root, &arena, "/etc/conf", 2, NULL, &dir), -ENOTDIR);
}

/* Files of /proc say that they have no size, and are read to their end. */
static jmp_buf out_of_memory;

static void jump_out(void *arg)
{
    (void)arg;
    longjmp(out_of_memory, 1);
}

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void ask(struct root *r, struct arena *a, int what)
{
    struct root_dir dir;
    struct str text;
    char *path;
    bool all;
    // In a variable: gcc 14 warns of a conditional expression that is cast to void.
    int rc = what == 0   ? root_list(r, a, "/many", 1000, NULL, &dir)
             : what == 1 ? root_read(r, a, "/large", 1 << 20, &text)
             : what == 2 ? root_read_head(r, a, "/large", 1 << 20, &text, &all)
                         : root_realpath(r, a, "/dir/conf", &path);
    (void)rc;
}

/* An arena that comes to its end within an answer leaves nothing open once the root is closed. */
static void no_memory_leaves_nothing_open(void **state)
{
    (void)state;
    static char large[100 << 10];
    memset(large, 'x', sizeof large - 1);
    write_file(inside("large"), large);
    assert_int_equal(mkdir(inside("many"), 0755), 0);
    for (int i = 0; i < 200; i++) {
        write_file(arena_printf(&arena, "%s/%064d", inside("many"), i), "");
    }
    for (int what = 0; what < 4; what++) {
        struct gm_err err;
        struct root r;
        struct arena a;
        volatile bool jumped = false;
        int before = open_descriptors();
        assert_int_equal(root_open(&r, inside(""), &err), 0);
        arena_init(&a, what == 3 ? 1 : 4 << 10, jump_out, NULL);
        if (setjmp(out_of_memory) == 0) {
            ask(&r, &a, what);
        } else {
            jumped = true;
        }
        assert_true(jumped);
        root_close(&r);
        arena_release(&a);
        assert_int_equal(open_descriptors(), before);
    }
}

static void proc_files(void **state)
{
    (void)state;
    struct root host = ROOT_EMPTY;
    struct gm_err err;
    struct str text;
    assert_int_equal(root_open(&host, "/", &err), 0);
    assert_int_equal(root_read(&host, &arena, "/proc/self/status", 1 << 20, &text), 0);
    assert_true(str_starts(text, "Name:"));
    assert_int_equal(root_open_file(&host, "/dev/zero", NULL), -ENOTSUP);
    root_close(&host);
    assert_true(root_open(&host, "/nowhere/at/all", &err) < 0);
    assert_int_equal(err.code, GM_ERR_LOOK);
}

/* A folder of the path becomes a link to the outside, and back, while files below it are read. */
static void no_race_leads_outside_one(void)
{
    enum { READS = 3000 };
    const char *folder = inside("swap"), *link = inside("link");
    assert_int_equal(mkdir(folder, 0755) | mkdir(inside("swap/in"), 0755), 0);
    write_file(inside("swap/in/secret"), "inside\n");
    assert_int_equal(mkdir(arena_printf(&arena, "%s/in", top), 0755), 0);
    write_file(arena_printf(&arena, "%s/in/secret", top), "outside\n");
    assert_int_equal(symlink(top, link), 0);
    pid_t child = fork();
    while (child == 0) { // ended by the parent
        if (renameat2(AT_FDCWD, folder, AT_FDCWD, link, RENAME_EXCHANGE)) {
            _exit(1);
        }
    }
    unsigned outside = 0;
    for (int i = 0; i < READS; i++) {
        struct str text;
        if (root_read(&root, &arena, "/swap/in/secret", 100, &text) == 0) {
            outside += !str_is(text, "inside\n");
        }
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(outside, 0);
    assert_int_equal(system(arena_printf(&arena, "rm -rf '%s' '%s' '%s/in'", folder, link, top)),
                     0);
}

static void no_race_leads_outside(void **state)
{
    (void)state;
    both_ways(no_race_leads_outside_one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_stay_inside),
        cmocka_unit_test(errors_are_told_apart),
        cmocka_unit_test(no_race_leads_outside),
        cmocka_unit_test(link_targets),
        cmocka_unit_test(sizes_are_bounded),
        cmocka_unit_test(mapping),
        cmocka_unit_test(listing),
        cmocka_unit_test(no_memory_leaves_nothing_open),
        cmocka_unit_test(proc_files),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
