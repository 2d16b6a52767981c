#include "world.h"

#include <assert.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diag/finding.h"
#include "kb/kb.h"
#include "model/live.h"
#include "model/model.h"
#include "report/check.h"

static char top[64];
static FILE *nowhere;
static struct arena kb_arena;
static struct kb kb;
static struct root host;

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void remove_world(void)
{
    (void)nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS); // what is left stands in memory
}

static void write_inside(const char *path, const void *data, size_t n)
{
    char file[256];
    assert((size_t)snprintf(file, sizeof file, "%s%s", top, path) < sizeof file);
    for (char *slash = file + strlen(top) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        (void)mkdir(file, 0755); // may be there
        *slash = '/';
    }
    FILE *out = fopen(file, "w");
    assert(out && fwrite(data, 1, n, out) == n);
    assert(fclose(out) == 0);
}

static void write_elf_inside(const char *path, const struct elfmake *spec)
{
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    struct str bytes = elfmake(&a, spec);
    write_inside(path, bytes.s, bytes.n);
    arena_release(&a);
}

static void write_world(void)
{
    static const char glibc[] = "\0/lib/\0/usr/lib/\0\0/etc/ld.so.cache\0release version 2.36.\0";
    static const char musl[] = "\0/lib:/usr/local/lib:/usr/lib\0\0001.2.5\0";
    static const struct {
        const char *path;
        struct elfmake spec;
    } files[] = {
        {"/lib/ld.so",
         {.soname = "ld.so",
          .symbols = {{"_dl_x", "GLIBC_PRIVATE", true}},
          .constants = {glibc, sizeof glibc}}},
        {"/lib/ld-musl-x86_64.so.1",
         {.soname = "libc.musl-x86_64.so.1", .constants = {musl, sizeof musl}}},
        {"/lib/libone.so.1", {.soname = "libone.so.1", .symbols = {{"f", "ONE_1", true}}}},
        {WORLD_PROGRAM, {.interp = "/lib/ld.so", .needs = {"libone.so.1"}}},
        {WORLD_MUSL, {.interp = "/lib/ld-musl-x86_64.so.1", .needs = {"libone.so.1"}}},
        {WORLD_ENV "/bin/python3.11", {.interp = "/lib/ld.so", .needs = {"libone.so.1"}}},
        {WORLD_SITE "/ctranslate2/_ext.cpython-311-x86_64-linux-gnu.so",
         {.needs = {"libone.so.1"}, .runpath = "$ORIGIN/../ctranslate2.libs"}},
    };
    static const char *const texts[][2] = {
        {WORLD_ENV "/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n"},
        {WORLD_SITE "/ctranslate2/__init__.py", ""},
        {WORLD_SITE "/ctranslate2-4.5.0.dist-info/METADATA",
         "Metadata-Version: 2.1\nName: ctranslate2\nVersion: 4.5.0\n"},
        {WORLD_SITE "/ctranslate2-4.5.0.dist-info/RECORD", "ctranslate2/__init__.py,,\n"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_elf_inside(files[i].path, &files[i].spec);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_inside(texts[i][0], texts[i][1], strlen(texts[i][1]));
    }
}

/* Its memory is mapped in part, where the leak checker sees no pointers. */
static void close_kb(void)
{
    kb_close(&kb);
    arena_release(&kb_arena);
}

static void need_world(void)
{
    if (top[0]) {
        return;
    }
    struct gm_err err;
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    assert(snprintf(top, sizeof top, "%s/gpumend-fuzz.XXXXXX", folder) > 0 && mkdtemp(top));
    (void)atexit(remove_world);
    write_world();
    nowhere = fopen("/dev/null", "w");
    arena_init(&kb_arena, 0, NULL, NULL);
    (void)atexit(close_kb);
    int rc = root_open(&host, "/", &err);
    assert(nowhere && rc == 0);
    rc = kb_open(&kb, &kb_arena, &host, NULL, &err);
    assert(rc == 0);
}

void world_write(const char *path, const void *data, size_t n)
{
    need_world();
    write_inside(path, data, n);
}

void world_link(const char *path, const char *target)
{
    char file[256];
    need_world();
    assert((size_t)snprintf(file, sizeof file, "%s%s", top, path) < sizeof file);
    (void)remove(file);        // may not be there
    write_inside(path, "", 0); // its folders
    int rc = remove(file) | symlink(target, file);
    assert(rc == 0);
}

void world_write_pieces(const char *const *paths, size_t n, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *end = memchr(data, 0xff, size);
        size_t length = end ? (size_t)(end - data) : size;
        world_write(paths[i], data, length);
        size_t step = length + (end != NULL);
        data += step;
        size -= step;
    }
}

const char *world_top(void)
{
    need_world();
    return top;
}

void world_write_elf(const char *path, const struct elfmake *spec)
{
    need_world();
    write_elf_inside(path, spec);
}

static void look(struct model *m, struct py_env *env, const char *target)
{
    static const struct py_env_hints hints = {.cwd = "/"};
    struct gm_err err;
    if (py_env_open(m->root, m->arena, target, &hints, env, &err) == 0) {
        m->env = env;
        model_add_default_scripts(m, NULL, 0);
    } else {
        m->target_file = target;
        (void)model_add_file(m); // what went wrong stands in the process
    }
}

static void print(struct model *m, const char *kind, const char *target)
{
    struct diag_report report;
    diag_run(m, &report);
    const struct report_target shown = {.kind = kind, .path = target, .root = top};
    json_t *doc = report_check_json(m, &report, &shown);
    assert(doc);
    int rc = out_json_dump(nowhere, doc);
    assert(rc == 0);
    const struct out out = {.file = nowhere, .width = 80};
    report_check_text(&out, m, &report, &shown);
}

/* A model of the world's root, for one use. */
static void with_model(const char *const *env, size_t n_env, world_use *use, void *arg)
{
    need_world();
    struct gm_err err;
    struct arena arena;
    struct root root;
    struct ldso_store store;
    arena_init(&arena, (size_t)1 << 30, NULL, NULL);
    int rc = root_open(&root, top, &err);
    assert(rc == 0);
    ldso_store_open(&store, &root, &arena);
    struct model *m = arena_alloc(&arena, sizeof *m);
    *m = (struct model){.root = &root,
                        .arena = &arena,
                        .store = &store,
                        .kb = &kb,
                        .config = {.cwd = "/", .env = env, .n_env = n_env}};
    rc = model_open(m, &err);
    assert(rc == 0);
    use(arg, m);
    ldso_store_close(&store);
    root_close(&root);
    arena_release(&arena);
}

struct looking {
    const char *target;
    world_use *use;
    void *arg;
};

static void look_and_use(void *arg, struct model *m)
{
    const struct looking *l = arg;
    struct py_env py = {0};
    look(m, &py, l->target);
    l->use(l->arg, m);
}

void world_look(const char *target, const char *const *env, size_t n_env, world_use *use, void *arg)
{
    struct looking l = {target, use, arg};
    with_model(env, n_env, look_and_use, &l);
}

static void print_target(void *arg, struct model *m)
{
    print(m, "environment", arg);
}

void world_check(const char *target)
{
    static const char *const env[] = {"PATH=/bin"};
    world_look(target, env, 1, print_target, (void *)(uintptr_t)target);
}

static void print_process(void *arg, struct model *m)
{
    struct gm_err err;
    struct model_live *live = arena_alloc(m->arena, sizeof *live);
    if (model_live_read(m->arena, m->root, *(const int *)arg, live, &err) == 0 &&
        model_add_live(m, live, &err) == 0) {
        print(m, "process", live->exe);
    }
}

void world_check_process(int pid)
{
    with_model(NULL, 0, print_process, &pid);
}

static bool is_wanted(size_t i, const json_t *row)
{
    enum { FIRST = 4 };
    char *text = json_dumps(row, 0);
    assert(text);
    bool wanted = i < FIRST || strstr(text, "ctranslate2");
    free(text);
    return wanted;
}

void world_write_knowledge(const char *folder)
{
    char path[128];
    struct kb_rows rows;
    need_world();
    for (int area = 0; area < KB_AREAS; area++) {
        const char *name = kb_area_name((enum kb_area)area);
        int rc = kb_rows(&kb, (enum kb_area)area, &rows, NULL);
        assert(rc == 0);
        json_t *list = json_array();
        for (size_t i = 0; i < rows.n; i++) {
            json_t *row = kb_row_json((enum kb_area)area, (const char *)rows.items + i * rows.size);
            if (is_wanted(i, row)) {
                json_array_append(list, row);
            }
            json_decref(row);
        }
        json_t *doc = json_pack("{s:i, s:s, s:o}", "schema", 1, "area", name, "rows", list);
        char *text = json_dumps(doc, 0);
        assert(text);
        int n = snprintf(path, sizeof path, "%s/%s.json", folder, name);
        assert(n > 0 && (size_t)n < sizeof path);
        world_write(path, text, strlen(text));
        free(text);
        json_decref(doc);
    }
}
