/*
 * The process model on small trees: ldso/process.h. The comparison with the real loader
 * (tests/differential) covers the rules in breadth; here stand those that it cannot vary, such as
 * the loader's version, the CPU and the user, and one example of each of the others.
 */
#include <errno.h>
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
#include "ldso/internal.h"

#define LOADER "/lib64/ld-linux-x86-64.so.2"

struct world {
    char top[64];
    struct arena arena;
    struct root root;
    struct ldso_store store;
    struct ldso_cpu cpu;
    struct ldso_config config;
    const char *env[4];
    struct ldso_process *process;
};

static void put_bytes(struct world *w, const char *path, const void *data, size_t n)
{
    char *file = arena_printf(&w->arena, "%s%s", w->top, path);
    for (char *slash = file + strlen(w->top) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        (void)mkdir(file, 0755); // may be there
        *slash = '/';
    }
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

static void put(struct world *w, const char *path, struct elfmake spec)
{
    struct str bytes = elfmake(&w->arena, &spec);
    put_bytes(w, path, bytes.s, bytes.n);
}

/* A world with a loader of glibc 2.36, system folders /lib/ and /usr/lib/, and no cache. */
static int start(void **state)
{
    static const char constants[] = "\0/lib/\0/usr/lib/\0\0/etc/ld.so.cache\0"
                                    "stable release version 2.36.\0";
    struct world *w = calloc(1, sizeof *w);
    struct gm_err err;
    *state = w;
    if (!w || snprintf(w->top, sizeof w->top, "/tmp/gpumend-test-process.XXXXXX") < 0 ||
        !mkdtemp(w->top)) {
        return -1;
    }
    arena_init(&w->arena, 0, NULL, NULL);
    put(w, LOADER,
        (struct elfmake){.soname = "ld-linux-x86-64.so.2",
                         .symbols = {{"_dl_x", "GLIBC_PRIVATE", true}},
                         .constants = {constants, sizeof constants}});
    if (root_open(&w->root, w->top, &err) < 0 || !ldso_cpu_parse("x86-64-v3", &w->cpu)) {
        return -1;
    }
    ldso_store_open(&w->store, &w->root, &w->arena);
    w->config = (struct ldso_config){.cwd = "/", .env = w->env, .cpu = &w->cpu, .uid = getuid()};
    return 0;
}

static int finish(void **state)
{
    struct world *w = *state;
    ldso_store_close(&w->store);
    root_close(&w->root);
    int rc = system(arena_printf(&w->arena, "rm -rf '%s'", w->top));
    arena_release(&w->arena);
    free(w);
    return rc;
}

static void put_program(struct world *w, const char *path, struct elfmake spec)
{
    spec.interp = LOADER;
    put(w, path, spec);
}

static void set_env(struct world *w, const char *assignment)
{
    w->env[w->config.n_env++] = assignment;
}

static struct ldso_process *begin(struct world *w, const char *path)
{
    struct gm_err err;
    w->process = ldso_process_new(&w->store, &w->arena, &w->config);
    int rc = ldso_start(w->process, path, &err);
    if (rc < 0) {
        fail_msg("%s: %s", path, err.text);
    }
    return w->process;
}

/* The link map in one line, the loader left out. */
static const char *link_map(struct world *w)
{
    const char *text = "";
    for (size_t i = 0; i < w->process->objects.n; i++) {
        const struct ldso_object *o = w->process->objects.items[i];
        if (o != w->process->interp) {
            text = arena_printf(&w->arena, "%s%s%s", text, *text ? " " : "", o->path);
        }
    }
    return text;
}

/* The steps of a request: "/a/libx.so:absent /b/libx.so:taken". */
static const char *steps_of(struct world *w, const struct ldso_request *r)
{
    const char *text = "";
    for (size_t i = 0; i < r->steps.n; i++) {
        const struct ldso_step *s = &r->steps.items[i];
        if (s->path) {
            text = arena_printf(&w->arena, "%s%s%s:%s", text, *text ? " " : "", s->path,
                                ldso_result_name(s->result));
        }
    }
    return text;
}

static const struct ldso_request *last_request(const struct world *w)
{
    return w->process->requests.items[w->process->requests.n - 1];
}

/* ------------------------------------------------------------------ search order */

/* A library's request passes through the program's RPATH, and not through its RUNPATH. */
static void whose_path_counts(void **state)
{
    struct world *w = *state;
    put(w, "/deep/libx.so.1", (struct elfmake){.soname = "libx.so.1"});
    put(w, "/near/libmid.so.1", (struct elfmake){.needs = {"libx.so.1"}});
    put_program(w, "/bin/rpath",
                (struct elfmake){.needs = {"libmid.so.1"}, .rpath = "/near:/deep"});
    put_program(w, "/bin/runpath",
                (struct elfmake){.needs = {"libmid.so.1"}, .runpath = "/near:/deep"});
    assert_false(begin(w, "/bin/rpath")->start_failed);
    assert_string_equal(link_map(w), "/bin/rpath /near/libmid.so.1 /deep/libx.so.1");
    assert_int_equal(w->process->objects.items[2]->via, LDSO_VIA_RPATH);

    assert_true(begin(w, "/bin/runpath")->start_failed);
    assert_string_equal(w->process->start_error,
                        "libx.so.1: cannot open shared object file: No such file or directory");
    assert_string_equal(link_map(w), "/bin/runpath /near/libmid.so.1");
}

/* RPATH, then LD_LIBRARY_PATH, then RUNPATH, then the system folders. */
static void order_of_stages(void **state)
{
    struct world *w = *state;
    static const char *const places[] = {"/rpath", "/env", "/runpath", "/lib"};
    for (size_t i = 0; i < 4; i++) {
        put(w, arena_printf(&w->arena, "%s/libx.so.1", places[i]),
            (struct elfmake){.soname = "libx.so.1"});
    }
    put_program(w, "/bin/a", (struct elfmake){.needs = {"libx.so.1"}, .rpath = "/rpath"});
    put_program(w, "/bin/b",
                (struct elfmake){.needs = {"libx.so.1"}, .rpath = "/rpath", .runpath = "/runpath"});
    put_program(w, "/bin/c", (struct elfmake){.needs = {"libx.so.1"}});
    static const struct {
        const char *program, *env, *path;
        enum ldso_via via;
    } cases[] = {
        {"/bin/a", "LD_LIBRARY_PATH=/env", "/rpath/libx.so.1", LDSO_VIA_RPATH},
        {"/bin/b", "LD_LIBRARY_PATH=/env", "/env/libx.so.1", LDSO_VIA_LIBRARY_PATH},
        {"/bin/b", "LD_LIBRARY_PATH=", "/runpath/libx.so.1", LDSO_VIA_RUNPATH},
        {"/bin/c", "LD_LIBRARY_PATH=/env", "/env/libx.so.1", LDSO_VIA_LIBRARY_PATH},
        {"/bin/c", "X=", "/lib/libx.so.1", LDSO_VIA_DEFAULT},
        {"/bin/c", "LD_LIBRARY_PATH=/none:/bin", "/lib/libx.so.1", LDSO_VIA_DEFAULT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        w->config.n_env = 0;
        set_env(w, cases[i].env);
        const struct ldso_object *o = begin(w, cases[i].program)->objects.items[1];
        if (strcmp(o->path, cases[i].path) != 0 || o->via != cases[i].via) {
            fail_msg("%s %s: %s by %s", cases[i].program, cases[i].env, o->path,
                     ldso_via_name(o->via));
        }
    }
}

/* Empty elements are the working directory; trailing slashes and repetitions go; ';' only in
 * LD_LIBRARY_PATH. The link map shows the path as it was put together. */
static void path_lists(void **state)
{
    struct world *w = *state;
    w->config.cwd = "/here";
    put(w, "/here/libx.so.1", (struct elfmake){.soname = "libx.so.1"});
    put(w, "/here/sub/liby.so.1", (struct elfmake){.soname = "liby.so.1"});
    put_program(w, "/bin/p", (struct elfmake){0});
    static const struct {
        const char *env, *name, *steps;
    } cases[] = {
        {"LD_LIBRARY_PATH=/none:", "libx.so.1", "/none/libx.so.1:absent libx.so.1:taken"},
        {"LD_LIBRARY_PATH=:/none", "libx.so.1", "libx.so.1:taken"},
        {"LD_LIBRARY_PATH=sub///;sub", "liby.so.1", "sub/liby.so.1:taken"},
        {"LD_LIBRARY_PATH=~/x;/here/", "libx.so.1", "~/x/libx.so.1:absent /here/libx.so.1:taken"},
        {"LD_LIBRARY_PATH=$ORIGIN/../here/${LIB", "libx.so.1",
         "/bin/../here/${LIB/libx.so.1:absent /lib/libx.so.1:absent /usr/lib/libx.so.1:absent"},
        {"LD_LIBRARY_PATH=$ORIGIN/../here/:$ORIGINS", "libx.so.1", "/bin/../here/libx.so.1:taken"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        w->config.n_env = 0;
        set_env(w, cases[i].env);
        assert_non_null(ldso_dlopen(begin(w, "/bin/p"), NULL, cases[i].name, LDSO_NOW));
        const char *got = steps_of(w, last_request(w));
        if (strcmp(got, cases[i].steps) != 0) {
            fail_msg("%s: %s", cases[i].env, got);
        }
    }
}

static void tokens(void **state)
{
    struct world *w = *state;
    put_program(w, "/opt/bin/p", (struct elfmake){0});
    struct ldso_process *p = begin(w, "/opt/bin/p");
    static const struct {
        const char *text, *value;
    } cases[] = {
        {"/plain", "/plain"},
        {"$ORIGIN/lib", "/opt/bin/lib"},
        {"${ORIGIN}x", "/opt/binx"},
        {"$ORIGINx", "$ORIGINx"},
        {"a$LIB", "alib"},
        {"$PLATFORM", "x86_64"},
        {"$OTHER/$ORIGIN", "$OTHER//opt/bin"},
        {"${ORIGIN", "${ORIGIN"},
        {"$", "$"},
        {"$$ORIGIN", "$/opt/bin"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(ldso_expand(p, p->main, cases[i].text), cases[i].value);
    }
}

/* The CPU and the loader's version decide about folders inside each folder. */
static void hwcaps_folders(void **state)
{
    struct world *w = *state;
    static const char *const places[] = {"/d/glibc-hwcaps/x86-64-v3", "/d/tls/x86_64", "/d"};
    for (size_t i = 0; i < 3; i++) {
        put(w, arena_printf(&w->arena, "%s/libx.so.1", places[i]),
            (struct elfmake){.soname = "libx.so.1"});
    }
    put_program(w, "/bin/p", (struct elfmake){.needs = {"libx.so.1"}, .runpath = "/d"});
    static const struct {
        const char *level;
        int glibc_minor;
        size_t place;
    } cases[] = {{"x86-64-v3", 0, 0},  {"x86-64-v4", 42, 0}, {"x86-64-v2", 36, 1},
                 {"x86-64-v2", 37, 2}, {"x86-64-v3", 32, 1}, {"x86-64-v1", 42, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(ldso_cpu_parse(cases[i].level, &w->cpu));
        w->config.glibc_minor = cases[i].glibc_minor;
        (void)begin(w, "/bin/p"); // its link map is compared
        assert_string_equal(link_map(w),
                            arena_printf(&w->arena, "/bin/p %s/libx.so.1", places[cases[i].place]));
    }
}

/* ------------------------------------------------------------------ identity, candidates */

static void same_object(void **state)
{
    struct world *w = *state;
    put(w, "/d/libx-0123.so", (struct elfmake){.soname = "libx.so.1"});
    put(w, "/e/libx.so.1", (struct elfmake){.soname = "libx.so.1"});
    put_program(w, "/bin/p", (struct elfmake){.runpath = "/e"});
    assert_int_equal(link(arena_printf(&w->arena, "%s/d/libx-0123.so", w->top),
                          arena_printf(&w->arena, "%s/d/hard.so", w->top)),
                     0);
    struct ldso_process *p = begin(w, "/bin/p");
    static const struct {
        const char *name;
        enum ldso_outcome outcome;
        const char *path;
    } loads[] = {
        {"/d/libx-0123.so", LDSO_LOADED, "/d/libx-0123.so"},
        {"libx.so.1", LDSO_REUSED, "/d/libx-0123.so"},  // its soname
        {"/d/hard.so", LDSO_REUSED, "/d/libx-0123.so"}, // its inode
        {"/e/libx.so.1", LDSO_LOADED, "/e/libx.so.1"},  // another file
        {"libx-0123.so", LDSO_NOT_FOUND, NULL},         // a file name is no identity
    };
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        const struct ldso_load *l = ldso_dlopen(p, NULL, loads[i].name, LDSO_NOW);
        assert_non_null(l);
        assert_int_equal(l->outcome, loads[i].outcome);
        assert_true(loads[i].path ? strcmp(l->path, loads[i].path) == 0 : l->path == NULL);
    }
}

/* What a file that is no usable library does to a search that would succeed later. */
static void bad_candidates(void **state)
{
    struct world *w = *state;
    put_program(w, "/bin/p", (struct elfmake){.rpath = "/first:/second"});
    static const struct {
        const char *name;
        struct elfmake spec;
        enum ldso_result result;
        bool goes_on;
    } cases[] = {
        {"class.so", {.is32 = true, .machine = EM_386}, LDSO_WRONG_CLASS, true},
        {"machine.so", {.machine = EM_AARCH64}, LDSO_WRONG_MACHINE, true},
        {"order.so", {.big_endian = true}, LDSO_INVALID, false},
        {"rel.so", {.type = ET_REL}, LDSO_INVALID, false},
        {"exec.so", {.type = ET_EXEC}, LDSO_INVALID, false},
        {"unloaded.so", {.no_load = true}, LDSO_INVALID, false},
        {"pie.so", {.flags_1 = DF_1_PIE}, LDSO_INVALID, false},
        {"noopen.so", {.flags_1 = DF_1_NOOPEN}, LDSO_INVALID, false},
    };
    struct ldso_process *p = begin(w, "/bin/p");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(w, arena_printf(&w->arena, "/first/%s", cases[i].name), cases[i].spec);
        put(w, arena_printf(&w->arena, "/second/%s", cases[i].name), (struct elfmake){0});
        const struct ldso_load *l = ldso_dlopen(p, NULL, cases[i].name, LDSO_NOW);
        const struct ldso_request *r = last_request(w);
        if (!l || r->steps.items[0].result != cases[i].result ||
            (l->outcome == LDSO_LOADED) != cases[i].goes_on) {
            fail_msg("%s: %s, %s", cases[i].name, steps_of(w, r), l ? l->glibc_says : "none");
        }
    }
    put_bytes(w, "/first/text.so",
              "INPUT(libx.so.1) and what else an ld script may say, padded to "
              "more than a header",
              80);
    put_bytes(w, "/first/empty.so", "", 0);
    static const char *const said[][2] = {
        {"text.so", "/first/text.so: invalid ELF header"},
        {"empty.so", "/first/empty.so: file too short"},
        {"none.so", "none.so: cannot open shared object file: No such file or directory"},
    };
    for (size_t i = 0; i < 3; i++) {
        const struct ldso_load *l = ldso_dlopen(p, NULL, said[i][0], LDSO_NOW);
        assert_non_null(l);
        assert_string_equal(l->glibc_says, said[i][1]);
    }
}

static void no_program(void **state)
{
    struct world *w = *state;
    put_bytes(w, "/bin/script", "#!/bin/sh\nexit 0\n", 17);
    put_bytes(w, "/bin/empty", "", 0);
    put_program(w, "/bin/unloaded", (struct elfmake){.no_load = true});
    put(w, "/bin/object", (struct elfmake){.type = ET_REL});
    static const char *const cases[][2] = {
        {"/bin/script", "is a script"}, {"/bin/empty", "is empty"},
        {"/bin/unloaded", "PT_LOAD"},   {"/bin/object", "neither a program nor"},
        {"/bin/none", "No such file"},  {"/bin", "is a folder"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gm_err err;
        struct ldso_process *p = ldso_process_new(&w->store, &w->arena, &w->config);
        assert_true(ldso_start(p, cases[i][0], &err) < 0);
        if (!strstr(err.text, cases[i][1])) {
            fail_msg("%s: %s", cases[i][0], err.text);
        }
    }
}

/* ------------------------------------------------------------------ versions, symbols */

static void versions_and_symbols(void **state)
{
    struct world *w = *state;
    put(w, "/lib/libv.so.1",
        (struct elfmake){.soname = "libv.so.1", .symbols = {{"f", "V_1", true}}});
    static const struct {
        const char *path;
        struct elfmake_symbol wanted;
        const char *says;
    } cases[] = {
        {"/d/good.so", {"f", "V_1", false}, NULL},
        {"/d/version.so",
         {"f", "V_2", false},
         "/lib/libv.so.1: version `V_2' not found (required by /d/version.so)"},
        {"/d/symbol.so", {"g", NULL, false}, "/d/symbol.so: undefined symbol: g"},
        {"/d/both.so", {"g", "V_1", false}, "/d/both.so: undefined symbol: g, version V_1"},
    };
    put_program(w, "/bin/p", (struct elfmake){0});
    struct ldso_process *p = begin(w, "/bin/p");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(w, cases[i].path,
            (struct elfmake){
                .needs = {"libv.so.1"}, .symbols = {cases[i].wanted}, .version_file = "libv.so.1"});
        size_t before = p->objects.n;
        const struct ldso_load *l = ldso_dlopen(p, NULL, cases[i].path, LDSO_NOW);
        assert_non_null(l);
        if (cases[i].says) {
            assert_string_equal(l->glibc_says, cases[i].says);
            assert_int_equal(p->objects.n, before); // taken back
        } else {
            assert_null(l->glibc_says);
        }
    }
}

/* Which symbols of a hash table a lookup takes: by type and binding (glibc, elf/dl-lookup.c,
 * check_match and do_lookup_x). */
static void kinds_of_symbols(void **state)
{
    struct world *w = *state;
    static const struct {
        unsigned char bind, type;
        bool found;
    } cases[] = {
        {STB_GLOBAL, STT_FUNC, true},       {STB_GLOBAL, STT_OBJECT, true},
        {STB_GLOBAL, STT_NOTYPE, true},     {STB_WEAK, STT_FUNC, true},
        {STB_GNU_UNIQUE, STT_OBJECT, true}, {STB_LOCAL, STT_FUNC, false},
        {STB_GLOBAL, STT_SECTION, false},   {STB_GLOBAL, STT_FILE, false},
        {STB_LOCAL, STT_SECTION, false},
    };
    put_program(w, "/bin/p", (struct elfmake){0});
    struct ldso_process *p = begin(w, "/bin/p");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = arena_printf(&w->arena, "f%zu", i);
        const char *soname = arena_printf(&w->arena, "libk%zu.so", i);
        const char *asks = arena_printf(&w->arena, "/d/asks%zu.so", i);
        unsigned char info = (unsigned char)ELF64_ST_INFO(cases[i].bind, cases[i].type);
        put(w, arena_printf(&w->arena, "/lib/%s", soname),
            (struct elfmake){.soname = soname, .symbols = {{name, NULL, true}}, .info = info});
        put(w, asks, (struct elfmake){.needs = {soname}, .symbols = {{name, NULL, false}}});
        const struct ldso_load *l = ldso_dlopen(p, NULL, asks, LDSO_NOW);
        assert_non_null(l);
        if ((l->glibc_says == NULL) != cases[i].found) {
            fail_msg("binding %u, type %u: %s", cases[i].bind, cases[i].type,
                     l->glibc_says ? l->glibc_says : "found");
        }
    }
}

/* Refused in a dlopen since 2.41, not before, and not at the start. */
static void executable_stack(void **state)
{
    struct world *w = *state;
    put(w, "/d/stack.so", (struct elfmake){.exec_stack = true});
    put_program(w, "/bin/p", (struct elfmake){0});
    put_program(w, "/bin/q", (struct elfmake){.needs = {"/d/stack.so"}});
    for (int minor = 40; minor <= 41; minor++) {
        w->config.glibc_minor = minor;
        const struct ldso_load *l = ldso_dlopen(begin(w, "/bin/p"), NULL, "/d/stack.so", LDSO_NOW);
        assert_non_null(l);
        assert_int_equal(l->outcome == LDSO_LOADED, minor == 40);
        assert_false(begin(w, "/bin/q")->start_failed);
    }
}

/* ------------------------------------------------------------------ the program itself */

static void secure_execution(void **state)
{
    struct world *w = *state;
    put(w, "/env/libx.so.1", (struct elfmake){.soname = "libx.so.1"});
    put(w, "/lib/libx.so.1", (struct elfmake){.soname = "libx.so.1"});
    put_program(w, "/bin/p", (struct elfmake){.needs = {"libx.so.1"}});
    char *file = arena_printf(&w->arena, "%s/bin/p", w->top);
    set_env(w, "LD_LIBRARY_PATH=/env");
    static const struct {
        mode_t mode;
        unsigned other_user;
        bool secure;
    } cases[] = {{0755, 1, false}, {04755, 0, false}, {04755, 1, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(chmod(file, cases[i].mode), 0);
        ldso_store_close(&w->store); // the file system stands still for a store
        ldso_store_open(&w->store, &w->root, &w->arena);
        w->config.uid = getuid() + cases[i].other_user;
        assert_int_equal(begin(w, "/bin/p")->secure, cases[i].secure);
        assert_string_equal(link_map(w),
                            cases[i].secure ? "/bin/p /lib/libx.so.1" : "/bin/p /env/libx.so.1");
    }
}

static void preloads(void **state)
{
    struct world *w = *state;
    put(w, "/d/liba.so", (struct elfmake){0});
    put(w, "/lib/libb.so", (struct elfmake){0});
    put_program(w, "/bin/p", (struct elfmake){0});
    put_bytes(w, "/etc/ld.so.preload", "# one\n/d/liba.so # two\n", 24);
    set_env(w, "LD_PRELOAD=libb.so:/none.so");
    assert_false(begin(w, "/bin/p")->start_failed);
    assert_string_equal(link_map(w), "/bin/p /lib/libb.so /d/liba.so");
    const struct ldso_request *missing = w->process->requests.items[1];
    assert_int_equal(missing->kind, LDSO_PRELOAD);
    assert_string_equal(missing->glibc_says,
                        "ERROR: ld.so: object '/none.so' from LD_PRELOAD cannot be preloaded "
                        "(cannot open shared object file): ignored.");
}

static void missing_and_foreign_loaders(void **state)
{
    struct world *w = *state;
    struct gm_err err;
    put(w, "/bin/lost", (struct elfmake){.interp = "/none/ld-linux-x86-64.so.2"});
    put(w, "/lib/other.so", (struct elfmake){.soname = "other.so"});
    put(w, "/bin/other", (struct elfmake){.interp = "/lib/other.so"});
    struct ldso_process *p = begin(w, "/bin/lost");
    assert_true(p->start_failed);
    assert_non_null(strstr(p->start_error, "/none/ld-linux-x86-64.so.2: No such file"));
    assert_null(ldso_dlopen(p, NULL, "libx.so", LDSO_NOW));
    p = ldso_process_new(&w->store, &w->arena, &w->config);
    assert_int_equal(ldso_start(p, "/bin/other", &err), GM_ERR_UNSUPPORTED);
}

/* At the start the loader has a strerror of its own, which knows six errors (glibc,
 * elf/dl-minimal.c, __strerror_r). */
static void error_texts(void **state)
{
    static const struct {
        int error;
        const char *at_start; // NULL: as later
        const char *later;
    } cases[] = {
        {0, NULL, "libx.so: bad"},
        {ENOENT, NULL, "libx.so: bad: No such file or directory"},
        {EACCES, NULL, "libx.so: bad: Permission denied"},
        {ENOMEM, NULL, "libx.so: bad: Cannot allocate memory"},
        {EINVAL, NULL, "libx.so: bad: Invalid argument"},
        {EPERM, NULL, "libx.so: bad: Operation not permitted"},
        {EIO, NULL, "libx.so: bad: Input/output error"},
        {EISDIR, "libx.so: bad: Error 21", "libx.so: bad: Is a directory"},
    };
    struct world *w = *state;
    struct ldso_process *p = ldso_process_new(&w->store, &w->arena, &w->config);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int load = -1; load <= 0; load++) {
            p->current_load = load;
            const char *got = ldso_error_text(p, "libx.so", "bad", cases[i].error);
            const char *want = load < 0 && cases[i].at_start ? cases[i].at_start : cases[i].later;
            assert_string_equal(got, want);
        }
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whose_path_counts),
        TEST(order_of_stages),
        TEST(path_lists),
        TEST(tokens),
        TEST(hwcaps_folders),
        TEST(same_object),
        TEST(bad_candidates),
        TEST(no_program),
        TEST(error_texts),
        TEST(versions_and_symbols),
        TEST(kinds_of_symbols),
        TEST(executable_stack),
        TEST(secure_execution),
        TEST(preloads),
        TEST(missing_and_foreign_loaders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
