/* The folders that ld.so.conf names: ldso/conf.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "ldso/conf.h"

static char top[] = "/tmp/gpumend-test-conf.XXXXXX";
static struct arena arena;

static void put(const char *path, const char *text)
{
    const char *file = arena_printf(&arena, "%s/etc/%s", top, path);
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

/* Every folder once, in the order in which ldconfig meets it first. */
static void folders(void **state)
{
    (void)state;
    static const char *const wanted[][2] = {
        {"/opt/first", "/etc/ld.so.conf"},       {"/opt/a", "/etc/conf.d/a.conf"},
        {"/opt/nested", "/etc/conf.d/nested"},   {"/opt/b", "/etc/conf.d/b.conf"},
        {"/opt/absolute", "/etc/conf.d/b.conf"}, {"/opt/last", "/etc/ld.so.conf"},
    };
    put("ld.so.conf", "# comment\n"
                      "/opt/first///\n"
                      "/opt/first\n"
                      "include conf.d/*.conf absent.conf\n"
                      "includeconf.d/.hidden.conf\n" // no word without a blank behind it
                      "hwcap 0 nosegneg\n"
                      "  /opt/last # the rest of a line\n"
                      "relative/folder\n"
                      "/opt/a\n");
    put("conf.d/b.conf", "/opt/b\n/opt/x/../absolute\n/opt/first\n");
    put("conf.d/a.conf", "/opt/a\ninclude nested\n");
    put("conf.d/nested", "/opt/nested\n");
    put("conf.d/.hidden.conf", "/opt/hidden\n");
    struct root root;
    struct gm_err err;
    struct ldso_conf conf;
    assert_int_equal(root_open(&root, top, &err), 0);
    ldso_conf_read(&root, &arena, &conf);
    root_close(&root);
    for (size_t i = 0; i < conf.dirs.n && i < sizeof wanted / sizeof *wanted; i++) {
        assert_string_equal(conf.dirs.items[i].dir, wanted[i][0]);
        assert_string_equal(conf.dirs.items[i].file, wanted[i][1]);
    }
    assert_int_equal(conf.dirs.n, sizeof wanted / sizeof *wanted);
}

static int start(void **state)
{
    (void)state;
    arena_init(&arena, 0, NULL, NULL);
    if (!mkdtemp(top)) {
        return -1;
    }
    return mkdir(arena_printf(&arena, "%s/etc", top), 0755) < 0 ||
                   mkdir(arena_printf(&arena, "%s/etc/conf.d", top), 0755) < 0
               ? -1
               : 0;
}

static int finish(void **state)
{
    (void)state;
    int status = system(arena_printf(&arena, "rm -rf %s", top));
    arena_release(&arena);
    return status;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(folders)};
    return cmocka_run_group_tests(tests, start, finish);
}
