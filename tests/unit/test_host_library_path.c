/* What LD_LIBRARY_PATH does to the driver's library (host_judge_library_path). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "host/host.h"

static struct arena arena;
static struct root root = {.fd = -1};
static char top[] = "/tmp/gpumend-library-path.XXXXXX";

static const char *const libraries[] = {
    "/usr/lib/driver/libcuda.so.580.159.04", "/usr/lib/other/libcuda.so.570.10.1",
    "/cuda/lib64/stubs/libcuda.so",          "/cuda/compat/libcuda.so.580.95.05",
    "/opt/newer/compat/libcuda.so.590.44.1", "/opt/32/libcuda.so.1",
};

static void make_folders(const char *path)
{
    char folder[512];
    for (const char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        (void)snprintf(folder, sizeof folder, "%s%.*s", top, (int)(p - path), path);
        (void)mkdir(folder, 0755);
    }
}

static void make_library(const char *path)
{
    char place[512], folder[512];
    make_folders(path);
    (void)snprintf(place, sizeof place, "%s%s", top, path);
    FILE *f = fopen(place, "w");
    assert_non_null(f);
    assert_int_equal(fprintf(f, "\177ELF%c with more", strstr(path, "/32/") ? 1 : 2), 15);
    assert_int_equal(fclose(f), 0);
    (void)snprintf(folder, sizeof folder, "%s/libcuda.so.1", path_dir(&arena, place));
    if (!strstr(path, "/32/")) {
        assert_int_equal(symlink(path_base(path), folder), 0);
    }
}

static int start(void **state)
{
    struct gm_err err;
    (void)state;
    arena_init(&arena, 0, NULL, NULL);
    assert_non_null(mkdtemp(top));
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        make_library(libraries[i]);
    }
    return root_open(&root, top, &err);
}

static int finish(void **state)
{
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", top);
    root_close(&root);
    arena_release(&arena);
    return system(command); // NOLINT(cert-env33-c): a folder of this test's own
}

/* The problem of a GPU with driver 580.159.04 for this LD_LIBRARY_PATH; NULL: none. */
static const struct host_problem *problem_of(const char *path)
{
    static struct host h;
    h = (struct host){0};
    h.nvidia.module = (struct host_fact){.state = HOST_YES, .value = "580.159.04"};
    VEC_PUSH(&arena, &h.gpus,
             ((struct host_gpu){.kind = "pci",
                                .vendor = HOST_NVIDIA,
                                .name = "NVIDIA H200",
                                .driver = {.state = HOST_YES, .value = "nvidia"}}));
    VEC_PUSH(&arena, &h.nvidia.libraries,
             ((struct host_library){.name = "libcuda.so.1",
                                    .path = "/usr/lib/driver/libcuda.so.1",
                                    .real = "/usr/lib/driver/libcuda.so.580.159.04",
                                    .version = "580.159.04"}));
    host_judge_library_path(&root, &arena, &h, path);
    assert_true(h.gpus.items[0].problems.n <= 1);
    return h.gpus.items[0].problems.n ? &h.gpus.items[0].problems.items[0] : NULL;
}

static void in_front(void **state)
{
    static const struct {
        const char *path, *text; // NULL: nothing is wrong
    } cases[] = {
        {NULL, NULL},
        {"", NULL},
        {"/nowhere:/usr/lib/driver", NULL},
        {"/usr/lib/driver:/cuda/lib64/stubs", NULL}, // the driver's own comes first
        {"/opt/32", NULL},
        {"cuda/lib64/stubs", NULL}, // of the working folder, which is not known
        {"/opt/newer/compat", NULL},
        {"/cuda/lib64/stubs", "stub of a toolkit (error 34)"},
        {":/opt/32:/cuda/lib64/stubs/", "stub of a toolkit (error 34)"},
        {"/cuda/compat:/usr/lib/driver", "older than the driver 580.159.04 (error 803)"},
        {"/usr/lib/other", "of driver 570.10.1, and the kernel module is 580.159.04 (error 803)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct host_problem *p = problem_of(cases[i].path);
        const char *said = p ? p->text : "nothing";
        if (!p != !cases[i].text || (p && !strstr(p->text, cases[i].text))) {
            fail_msg("%s: %s", cases[i].path, said);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_front)};
    return cmocka_run_group_tests(tests, start, finish);
}
