/* A store that lies over another: what the file system would say after a repair. */
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

#include "elfmake.h"
#include "ldso/store.h"

struct world {
    char top[64];
    struct arena arena;
    struct root root;
    struct ldso_store base, store;
    struct ldso_overlay overlay;
};

static void put(struct world *w, const char *path, struct elfmake spec)
{
    struct str bytes = elfmake(&w->arena, &spec);
    FILE *out = fopen(arena_printf(&w->arena, "%s%s", w->top, path), "w");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes.s, 1, bytes.n, out), bytes.n);
    assert_int_equal(fclose(out), 0);
}

/* /a/liba.so (RPATH /old), /b, and /c, which is a link to /b. */
static int start(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct gm_err err;
    *state = w;
    if (!w || snprintf(w->top, sizeof w->top, "/tmp/gpumend-test-store.XXXXXX") < 0 ||
        !mkdtemp(w->top)) {
        return -1;
    }
    arena_init(&w->arena, 0, NULL, NULL);
    if (mkdir(arena_printf(&w->arena, "%s/a", w->top), 0755) < 0 ||
        mkdir(arena_printf(&w->arena, "%s/b", w->top), 0755) < 0 ||
        symlink("b", arena_printf(&w->arena, "%s/c", w->top)) < 0 ||
        root_open(&w->root, w->top, &err) < 0) {
        return -1;
    }
    put(w, "/a/liba.so", (struct elfmake){.soname = "liba.so", .rpath = "/old"});
    ldso_store_open(&w->base, &w->root, &w->arena);
    return 0;
}

static int finish(void **state)
{
    struct world *w = *state;
    ldso_store_close(&w->base);
    root_close(&w->root);
    int rc = system(arena_printf(&w->arena, "rm -rf '%s'", w->top));
    arena_release(&w->arena);
    free(w);
    return rc;
}

static void link_is_there(struct world *w, const char *path)
{
    struct ldso_entry *e = ldso_store_get(&w->store, path);
    assert_int_equal(e->open_errno, 0);
    assert_string_equal(e->path, path);
    assert_ptr_equal(e->file, ldso_store_get(&w->base, "/a/liba.so")->file);
}

/* A link answers under every spelling of its place, and in the layer only. */
static void test_links(void **state)
{
    struct world *w = *state;
    VEC_PUSH(&w->arena, &w->overlay.links,
             (struct ldso_overlay_link){"/b/libb.so", "../a/liba.so"});
    VEC_PUSH(&w->arena, &w->overlay.links,
             (struct ldso_overlay_link){"/n/m/libn.so", "/a/liba.so"});
    ldso_store_layer(&w->store, &w->base, &w->overlay);
    static const char *const spellings[] = {"/b/libb.so", "/c/libb.so", "/a/../b/libb.so",
                                            "/b/./libb.so", "/n/m/libn.so"};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        link_is_there(w, spellings[i]);
        assert_int_not_equal(ldso_store_get(&w->base, spellings[i])->open_errno, 0);
    }
    assert_int_not_equal(ldso_store_get(&w->store, "/a/libb.so")->open_errno, 0);
}

/* Folders that only hold a link are there, and no other. */
static void test_folders(void **state)
{
    struct world *w = *state;
    VEC_PUSH(&w->arena, &w->overlay.links,
             (struct ldso_overlay_link){"/n/m/libn.so", "/a/liba.so"});
    ldso_store_layer(&w->store, &w->base, &w->overlay);
    assert_true(ldso_store_get(&w->store, "/n")->is_dir);
    assert_true(ldso_store_get(&w->store, "/n/m")->is_dir);
    assert_false(ldso_store_get(&w->store, "/n/m/o")->is_dir);
    assert_false(ldso_store_get(&w->store, "/n/mm")->is_dir);
    assert_false(ldso_store_get(&w->base, "/n/m")->is_dir);
    assert_true(ldso_store_get(&w->store, "/a")->is_dir);
}

/* An edit shows under every path of the file; the base keeps what it has read. */
static void test_edits(void **state)
{
    struct world *w = *state;
    VEC_PUSH(&w->arena, &w->overlay.links, (struct ldso_overlay_link){"/b/libb.so", "/a/liba.so"});
    VEC_PUSH(&w->arena, &w->overlay.edits,
             (struct ldso_overlay_edit){.file = "/a/liba.so", .runpath = "$ORIGIN/new"});
    ldso_store_layer(&w->store, &w->base, &w->overlay);
    static const char *const paths[] = {"/a/liba.so", "/b/libb.so"};
    for (size_t i = 0; i < 2; i++) {
        const struct ldso_file *f = ldso_store_get(&w->store, paths[i])->file;
        assert_non_null(f);
        assert_null(f->image.rpath);
        assert_string_equal(f->image.runpath, "$ORIGIN/new");
        assert_string_equal(f->image.soname, "liba.so");
    }
    assert_string_equal(ldso_store_get(&w->base, "/a/liba.so")->file->image.rpath, "/old");
}

/* What one store has learnt, the other knows; no mark is given out twice. */
static void test_shared(void **state)
{
    struct world *w = *state;
    ldso_store_layer(&w->store, &w->base, &w->overlay);
    ldso_store_remember(&w->store, "key", w);
    assert_ptr_equal(ldso_store_recall(&w->base, "key"), w);
    unsigned first = ldso_store_mark(&w->base), second = ldso_store_mark(&w->store);
    assert_int_not_equal(first, second);
    assert_int_not_equal(second, ldso_store_mark(&w->base));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_links, start, finish),
        cmocka_unit_test_setup_teardown(test_folders, start, finish),
        cmocka_unit_test_setup_teardown(test_edits, start, finish),
        cmocka_unit_test_setup_teardown(test_shared, start, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
