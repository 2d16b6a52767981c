/* The knowledge base: the embedded areas, additions by a folder, and versions read from bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kb/kb.h"
#include "kb/libver.h"
#include "kb/package.h"
#include "py/version.h"

struct fixture {
    struct arena arena;
    struct root root;
    struct kb kb;
    char folder[64];
    struct gm_err err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    arena_init(&f->arena, 0, NULL, NULL);
    f->root = ROOT_EMPTY;
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/gpumend-kb-XXXXXX");
    *state = f;
    return !mkdtemp(f->folder) || root_open(&f->root, "/", &f->err) < 0 ||
           kb_open(&f->kb, &f->arena, &f->root, NULL, &f->err) < 0;
}

static int forget(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    (void)nftw(f->folder, forget, 8, FTW_DEPTH | FTW_PHYS);
    root_close(&f->root);
    arena_release(&f->arena);
    free(f);
    return 0;
}

static void put(struct fixture *f, const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", f->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* ------------------------------------------------------------------ the embedded areas */

static void origin_is_whole(const char *id, const struct kb_origin *o)
{
    if (o->sources.n == 0 || !o->date || strlen(o->date) != 10) {
        fail_msg("%s: a row without source or date", id);
    }
}

static void every_area_has_rows_with_an_origin(void **state)
{
    struct fixture *f = *state;
    struct kb_dlopens d;
    struct kb_imports i;
    struct kb_provides p;
    struct kb_families m;
    struct kb_compats c;
    assert_int_equal(kb_dlopens(&f->kb, &d, &f->err), 0);
    assert_int_equal(kb_imports(&f->kb, &i, &f->err), 0);
    assert_int_equal(kb_provides(&f->kb, &p, &f->err), 0);
    assert_int_equal(kb_families(&f->kb, &m, &f->err), 0);
    assert_int_equal(kb_compats(&f->kb, &c, &f->err), 0);
    assert_true(d.n > 0 && i.n > 0 && p.n > 0 && m.n > 0 && c.n > 0);
    for (size_t k = 0; k < d.n; k++) {
        origin_is_whole(d.rows[k].id, &d.rows[k].origin);
        assert_true(d.rows[k].n_requests > 0 && d.rows[k].objects.n > 0);
    }
    for (size_t k = 0; k < i.n; k++) {
        origin_is_whole(i.rows[k].id, &i.rows[k].origin);
    }
    for (size_t k = 0; k < p.n; k++) {
        origin_is_whole(p.rows[k].id, &p.rows[k].origin);
        assert_true(p.rows[k].n_providers > 0);
    }
    for (size_t k = 0; k < m.n; k++) {
        origin_is_whole(m.rows[k].id, &m.rows[k].origin);
    }
    for (size_t k = 0; k < c.n; k++) {
        origin_is_whole(c.rows[k].id, &c.rows[k].origin);
    }
}

static const struct kb_dlopen *dlopen_row(struct fixture *f, const char *id)
{
    struct kb_dlopens d;
    assert_int_equal(kb_dlopens(&f->kb, &d, &f->err), 0);
    for (size_t i = 0; i < d.n; i++) {
        if (strcmp(d.rows[i].id, id) == 0) {
            return &d.rows[i];
        }
    }
    fail_msg("no row %s", id);
    return NULL;
}

/* cuDNN 9 asks for the full version first; the candidates and their order decide what a preload
 * by SONAME is worth. */
static void fields_arrive_as_they_stand(void **state)
{
    const struct kb_dlopen *r = dlopen_row(*state, "cudnn-9.0-shim");
    assert_int_equal(r->phase, KB_PHASE_USE);
    assert_int_equal(r->version_from, KB_VERSION_CUDNN);
    assert_int_equal(r->origin.evidence, KB_EVIDENCE_RAN);
    assert_true(str_glob(r->objects.items[1], "libcudnn-74a4c495.so.9.1.0"));
    assert_false(str_glob(r->objects.items[0], "libcudnn_ops.so.9"));
    assert_int_equal(r->n_requests, 4);
    assert_int_equal(r->requests[1].names.n, 4);
    assert_string_equal(r->requests[1].names.items[0], "libcudnn_ops.so.{maj}.{min}.{pat}");
    assert_string_equal(r->requests[1].names.items[3], "libcudnn_ops.so");
    assert_true(r->requests[1].required && !r->requests[1].lazy && !r->requests[1].global);

    r = dlopen_row(*state, "ctranslate2-4-cublas");
    assert_string_equal(r->package, "ctranslate2");
    assert_string_equal(r->package_versions, ">=4");
    assert_true(r->requests[0].lazy);
    assert_string_equal(r->requests[0].names.items[0], "libcublas.so.12");
}

static size_t imports_of(struct fixture *f, const char *package, const char *version,
                         const struct kb_import **ret)
{
    struct kb_imports all;
    assert_int_equal(kb_imports(&f->kb, &all, &f->err), 0);
    size_t n = 0;
    for (size_t i = 0; i < all.n; i++) {
        struct py_specifiers set;
        assert_int_equal(
            py_specifiers_parse(&f->arena, str_of(all.rows[i].versions), &set, &f->err), 0);
        if (strcmp(all.rows[i].package, package) == 0 &&
            py_specifiers_match(&set, str_of(version)) == PY_YES) {
            *ret = &all.rows[i];
            n++;
        }
    }
    return n;
}

static void each_release_has_one_import_row(void **state)
{
    static const char *const cases[][3] = {
        {"torch", "1.12.1", "torch-1.12"},
        {"torch", "2.5.1+cu124", "torch-2.5"},
        {"torch", "2.10.0", "torch-2.10"},
        {"torch", "2.15.0", "torch-2.15"},
        {"ctranslate2", "3.16.0", "ctranslate2-3.0"},
        {"ctranslate2", "4.5.0", "ctranslate2-3.17"},
        {"ctranslate2", "4.8.5", "ctranslate2-4.8.2"},
        {"onnxruntime-gpu", "1.12.1", "onnxruntime-gpu-1.12"},
        {"onnxruntime-gpu", "1.31.0", "onnxruntime-gpu-1.16"},
        {"whisperx", "3.8.6", "whisperx-3.4"},
        {"vllm", "0.33.0", "vllm-0.30"},
        {"bitsandbytes", "0.49.1", "bitsandbytes-0.46"},
        {"bitsandbytes", "0.50.2", "bitsandbytes-0.50"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct kb_import *row = NULL;
        size_t n = imports_of(*state, cases[i][0], cases[i][1], &row);
        if (n != 1 || strcmp(row->id, cases[i][2]) != 0) {
            fail_msg("%s %s: %zu rows, %s", cases[i][0], cases[i][1], n, row ? row->id : "");
        }
    }
}

/* ctranslate2 stopped importing torch with 4.8.2; torch before 2.6 preloads after a failure only.
 */
static void steps_are_enums_in_order(void **state)
{
    const struct kb_import *row = NULL;
    assert_int_equal(imports_of(*state, "ctranslate2", "4.5.0", &row), 1);
    assert_int_equal(row->steps[0].kind, KB_STEP_EXTENSION);
    assert_string_equal(row->steps[0].module, "ctranslate2._ext");
    assert_int_equal(row->steps[2].kind, KB_STEP_IMPORT);
    assert_string_equal(row->steps[2].package, "torch");
    assert_true(row->steps[2].optional);

    assert_int_equal(imports_of(*state, "torch", "2.5.1", &row), 1);
    assert_int_equal(row->steps[0].kind, KB_STEP_CDLL);
    assert_true(row->steps[0].global);
    assert_int_equal(row->steps[1].when, KB_WHEN_AFTER_FAILURE);
    assert_true(row->steps[1].retry && !row->steps[1].global);
    assert_int_equal(row->steps[2].kind, KB_STEP_EXTENSION);
    assert_int_equal(row->steps[2].phase, KB_PHASE_IMPORT);

    assert_int_equal(imports_of(*state, "torch", "2.14.1", &row), 1);
    assert_int_equal(row->steps[2].when, KB_WHEN_PATH_LOADED);
    assert_int_equal(row->steps[2].missing, KB_MISSING_SKIP);
    assert_string_equal(row->steps[2].libs[0].glob, "libcublasLt.so.*[0-9]");
    assert_string_equal(row->steps[2].libs[0].folders.items[1], "nvidia/cu{cuda_major}/lib");
}

static void an_unknown_number_is_not_zero(void **state)
{
    struct fixture *f = *state;
    struct kb_compats c;
    assert_int_equal(kb_compats(&f->kb, &c, &f->err), 0);
    for (size_t i = 0; i < c.n; i++) {
        if (strcmp(c.rows[i].id, "ctranslate2-4.6.3") == 0) {
            assert_int_equal(c.rows[i].cuda_major, 12);
            assert_null(c.rows[i].cudnn);
            return;
        }
    }
    fail();
}

/* ------------------------------------------------------------------ replacement */

#define ROW ROW_ID("x")
#define ROW_ID(id)                                                                                 \
    "{\"id\":\"" id "\",\"package\":\"p\",\"versions\":\">=1\",\"cuda_major\":null,\"needs\":[],"  \
    "\"evidence\":\"read\",\"source\":[\"s\"],\"date\":\"2026-01-01\"}"
#define DOC(rows) "{\"schema\":1,\"area\":\"compat\",\"rows\":[" rows "]}"

/* Before, between, behind and in place of what is built in. */
static void rows_of_a_folder_are_added_and_replace(void **state)
{
    static const char *const ids[] = {"!first", NULL, "~last"};
    struct fixture *f = *state;
    struct kb kb;
    struct kb_compats built_in, c;
    struct kb_families m;
    size_t own = 0;
    assert_int_equal(kb_open(&kb, &f->arena, &f->root, NULL, &f->err), 0);
    assert_int_equal(kb_compats(&kb, &built_in, &f->err), 0);
    size_t middle = built_in.n / 2;
    put(f, "compat.json",
        arena_printf(&f->arena,
                     DOC(ROW_ID("%s") "," ROW_ID("%s") "," ROW_ID("%s!") "," ROW_ID("%s")), ids[0],
                     built_in.rows[middle].id, built_in.rows[middle].id, ids[2]));
    assert_int_equal(kb_open(&kb, &f->arena, &f->root, f->folder, &f->err), 0);
    assert_int_equal(kb_compats(&kb, &c, &f->err), 0);
    assert_int_equal(kb_folder_count(&kb, KB_AREA_COMPATS, &own, &f->err), 0);
    assert_int_equal(own, 4);
    assert_int_equal(c.n, built_in.n + 3);
    assert_string_equal(c.rows[0].id, ids[0]);
    assert_string_equal(c.rows[c.n - 1].id, ids[2]);
    assert_string_equal(c.rows[1].id, built_in.rows[0].id);
    assert_string_equal(c.rows[middle + 1].package, "p"); // replaced
    assert_string_equal(c.rows[middle + 2].package, "p");
    assert_string_equal(c.rows[middle + 3].id, built_in.rows[middle + 1].id);
    for (size_t i = 1; i < c.n; i++) {
        assert_true(strcmp(c.rows[i - 1].id, c.rows[i].id) < 0);
    }
    assert_int_equal(kb_families(&kb, &m, &f->err), 0); // no such file: as it is built in
    assert_int_equal(kb_folder_count(&kb, KB_AREA_FAMILIES, &own, &f->err), 0);
    assert_true(m.n > 1 && own == 0);
    assert_int_equal(kb_open(&kb, &f->arena, &f->root, "/nowhere/kb", &f->err), GM_ERR_LOOK);
    assert_non_null(strstr(f->err.text, "/nowhere/kb"));
}

static void a_wrong_file_is_named_with_its_row(void **state)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"", ":1: column "},
        {"[]", "\"schema\" is not 1"},
        {"{\"schema\":1,\"area\":\"imports\",\"rows\":[]}", "\"area\" is not \"compat\""},
        {"{\"schema\":1,\"area\":\"compat\",\"rows\":{}}", "\"rows\" is not a list"},
        {DOC("{}"), "row 1 has no id"},
        {"{\n\"schema\":1,\n\"area\":\"compat\",\n\"rows\":[],}", ":4: column "},
        {DOC("\n" ROW ",\n\n{\"id\":\n7}"), ":4: row 2 has no id"},
        {"{\"defaults\":{\"a\":[\"\\\"rows\",{}]},\n\"schema\":1,\"area\":\"compat\",\"rows\":\n[\n"
         "3]}",
         ":4: row 1 has no id"},
        {DOC("{\"id\":\"x\"}"), "row x: \"package\" is missing"},
        {DOC(ROW "," ROW), "row x: ids must be unique and ascend"},
        {DOC("{\"id\":\"x\",\"package\":7}"), "row x: package: expected a text"},
        {DOC("{\"id\":\"x\",\"package\":\"p\",\"versions\":\"\",\"cuda_major\":1.5}"),
         "row x: versions: expected a text"},
        {DOC("{\"id\":\"x\",\"package\":\"p\",\"versions\":\"1\",\"cuda_major\":1.5}"),
         "row x: cuda_major: expected a number or null"},
        {DOC("{\"id\":\"x\",\"package\":\"p\",\"versions\":\"1\",\"cuda_major\":1,\"needs\":[3]}"),
         "row x: needs: entry 1: expected an object"},
        {DOC("{\"id\":\"x\",\"package\":\"p\",\"versions\":\"1\",\"cuda_major\":1,\"needs\":[],"
             "\"evidence\":\"heard\"}"),
         "row x: evidence: \"heard\" is not one of the words known here"},
        {DOC("{\"id\":\"x\",\"package\":\"p\",\"versions\":\"1\",\"cuda_major\":1,\"needs\":[],"
             "\"evidence\":\"ran\",\"source\":[]}"),
         "row x: source: expected a list of texts"},
        {DOC("{\"id\":\"x\",\"package\":\"p\",\"versions\":\"1\",\"cuda_major\":1,\"needs\":[],"
             "\"evidence\":\"ran\",\"source\":[\"s\"],\"date\":\"d\",\"nots\":1}"),
         "row x: unknown key \"nots\""},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kb kb;
        struct kb_compats c;
        put(f, "compat.json", cases[i].text);
        assert_int_equal(kb_open(&kb, &f->arena, &f->root, f->folder, &f->err), 0);
        assert_int_equal(kb_compats(&kb, &c, &f->err), GM_ERR_FORMAT);
        if (!strstr(f->err.text, "compat.json:") || !strstr(f->err.text, cases[i].said)) {
            fail_msg("case %zu: \"%s\" is not in \"%s\"", i, cases[i].said, f->err.text);
        }
    }
}

static void a_step_must_have_what_its_kind_needs(void **state)
{
    static const char head[] =
        "{\"schema\":1,\"area\":\"imports\",\"rows\":[{\"id\":\"i\","
        "\"package\":\"p\",\"versions\":\">=1\",\"module\":\"m\",\"steps\":[";
    static const char tail[] = "],\"evidence\":\"ran\",\"source\":[\"s\"],\"date\":\"d\"}]}";
    static const char *const cases[][2] = {
        {"{\"do\":\"extension\"}", "step 1: \"extension\" needs module"},
        {"{\"do\":\"cdll\"}", "needs file"},
        {"{\"do\":\"preload\",\"libs\":[]}", "needs libs"},
        {"{\"do\":\"import\"}", "needs package"},
        {"{\"do\":\"dlopen\",\"names\":[\"n\"]}", "needs names and caller"},
        {"{\"do\":\"import\",\"package\":\"q\",\"when\":\"path-loaded\"}", "\"path\" goes with"},
        {"{\"do\":\"import\",\"package\":\"q\",\"path\":\"x\"}", "\"path\" goes with"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kb kb;
        struct kb_imports imports;
        put(f, "imports.json", arena_printf(&f->arena, "%s%s%s", head, cases[i][0], tail));
        assert_int_equal(kb_open(&kb, &f->arena, &f->root, f->folder, &f->err), 0);
        assert_int_equal(kb_imports(&kb, &imports, &f->err), GM_ERR_FORMAT);
        if (!strstr(f->err.text, cases[i][1])) {
            fail_msg("case %zu: \"%s\" is not in \"%s\"", i, cases[i][1], f->err.text);
        }
    }
}

/* Cut at every byte, a file is refused and never read beyond its end. */
static void a_cut_file_is_refused(void **state)
{
    static const char whole[] = DOC(ROW);
    struct fixture *f = *state;
    for (size_t n = 0; n + 1 < sizeof whole; n++) {
        struct kb kb;
        struct kb_compats c;
        put(f, "compat.json", arena_strndup(&f->arena, whole, n));
        assert_int_equal(kb_open(&kb, &f->arena, &f->root, f->folder, &f->err), 0);
        assert_int_equal(kb_compats(&kb, &c, &f->err), GM_ERR_FORMAT);
    }
}

/* ------------------------------------------------------------------ versions from bytes */

static void version_is(enum kb_version_from from, const void *data, size_t size, const char *name,
                       const char *expected)
{
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    struct elf_image e = {0};
    struct kb_libver v = {0};
    char said[64] = "unknown";
    elf_image_parse(&a, data, size, &e);
    if (kb_library_version(&e, name, from, &v)) {
        (void)snprintf(said, sizeof said, "%u.%u.%u", v.maj, v.min, v.pat);
    }
    if (strcmp(said, expected) != 0) {
        fail_msg("%s: %s instead of %s", name ? name : "image", said, expected);
    }
    arena_release(&a);
}

static void a_file_name_says_a_full_version_or_nothing(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"/x/libcuda.so.550.54.15", "550.54.15"},
        {"libcudnn-74a4c495.so.9.1.0", "9.1.0"},
        {"libcudnn.so.9", "unknown"},
        {"libcudnn.so.9.1", "unknown"},
        {"libcudnn.so.9.1.0.70", "unknown"},
        {"libcudnn.so.9.x.0", "unknown"},
        {"/a.so.1.2.3/libcudnn.so", "unknown"},
        {"", "unknown"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        version_is(KB_VERSION_FILE_NAME, "", 0, cases[i][0], cases[i][1]);
    }
}

/* A shared object of one executable segment that holds `body`. */
struct tiny {
    Elf64_Ehdr head;
    Elf64_Phdr load;
    unsigned char body[256];
};

static struct tiny tiny_make(void)
{
    struct tiny t = {
        .head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                 .e_type = ET_DYN,
                 .e_machine = EM_X86_64,
                 .e_version = EV_CURRENT,
                 .e_phoff = offsetof(struct tiny, load),
                 .e_ehsize = sizeof(Elf64_Ehdr),
                 .e_phentsize = sizeof(Elf64_Phdr),
                 .e_phnum = 1},
        .load = {.p_type = PT_LOAD,
                 .p_flags = PF_R | PF_X,
                 .p_filesz = sizeof(struct tiny),
                 .p_memsz = sizeof(struct tiny),
                 .p_align = 4096},
    };
    return t;
}

/* The two shapes that compilers gave the shim: cuDNN 9.1.0 and 9.28.0 (objdump of the wheels). */
static void the_shim_says_its_version(void **state)
{
    (void)state;
    static const unsigned char v91[] = {0x48, 0x8d, 0x15, 0, 0, 0,    0,    0x6a,
                                        0x00, 0x41, 0xb9, 1, 0, 0,    0,    0x41,
                                        0xb8, 9,    0,    0, 0, 0x4c, 0x89, 0xe9};
    static const unsigned char v928[] = {0x48, 0x8d, 0x15, 0,    0,    0,    0,    0xbe, 0x40, 0, 0,
                                         0,    0x41, 0xb9, 0x1c, 0,    0,    0,    0x41, 0xb8, 9, 0,
                                         0,    0,    0x31, 0xc0, 0x55, 0x6a, 0x02, 0xe8};
    static const unsigned char v90[] = {0x48, 0x8d, 0x15, 0,    0,    0, 0, 0x6a, 0x00,
                                        0x45, 0x31, 0xc9, 0x41, 0xb8, 9, 0, 0,    0};
    static const struct {
        const unsigned char *code;
        size_t n;
        const char *expected;
    } cases[] = {
        {v91, sizeof v91, "9.1.0"}, {v928, sizeof v928, "9.28.2"}, {v90, sizeof v90, "9.0.0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tiny t = tiny_make();
        static const char format[] = "%s.%d.%d.%d";
        memcpy(t.body, format, sizeof format);
        memcpy(t.body + 100, cases[i].code, cases[i].n);
        int32_t distance =
            (int32_t)offsetof(struct tiny, body) - (int32_t)(offsetof(struct tiny, body) + 100 + 7);
        memcpy(t.body + 103, &distance, sizeof distance);
        version_is(KB_VERSION_CUDNN, &t, sizeof t, NULL, cases[i].expected);
        version_is(KB_VERSION_PACKAGE, &t, sizeof t, NULL, "unknown");
        distance++; // the address of another text
        memcpy(t.body + 103, &distance, sizeof distance);
        version_is(KB_VERSION_CUDNN, &t, sizeof t, NULL, "unknown");
    }
}

static void nvrtc_names_its_builtins(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"libnvrtc-builtins.so.12.4", "12.4.0"},
        {"libnvrtc-builtins.alt.so.12.8", "12.8.0"},
        {"libnvrtc-builtins.so.%d libnvrtc-builtins.so.13.5", "13.5.0"},
        {"libnvrtc-builtins.so.12", "unknown"},
        {"libnvrtc-builtins.so.", "unknown"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tiny t = tiny_make();
        memcpy(t.body, cases[i].text, strlen(cases[i].text));
        version_is(KB_VERSION_NVRTC, &t, sizeof t, NULL, cases[i].expected);
    }
    struct tiny cut = tiny_make(); // the text runs into the end of the file
    memset(cut.body, ' ', sizeof cut.body);
    memcpy(cut.body + sizeof cut.body - 25, "libnvrtc-builtins.so.12.4", 25);
    version_is(KB_VERSION_NVRTC, &cut, sizeof cut, NULL, "unknown");
}

/* A thing has one name for each manager, and none where no row gives it one. */
static void a_manager_has_its_own_name_for_a_package(void **state)
{
    struct fixture *f = *state;
    static const struct {
        enum host_manager manager;
        const char *id, *expected, *system;
    } cases[] = {
        {HOST_APT, "cxx-compiler", "g++", NULL},
        {HOST_MICRODNF, "cxx-compiler", "gcc-c++", NULL},
        {HOST_PACMAN, "cxx-compiler", "gcc", NULL},
        {HOST_APK, "cxx-compiler", NULL, NULL},
        {HOST_DNF, "ffmpeg", "ffmpeg-free", "fedora"},
        {HOST_ZYPPER, "ffmpeg", NULL, NULL},
        {HOST_APK, "pip", "py3-pip", NULL},
        {HOST_DNF, "venv", NULL, NULL}, // Python's own package has it
        {HOST_MANAGER_NONE, "curl", NULL, NULL},
        {HOST_APT, "accelerate", NULL, NULL}, // pip's alone
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct kb_provider *v =
            kb_package_by_id(&f->kb, cases[i].id, kb_manager_of(cases[i].manager));
        const char *system = v && v->systems.n ? v->systems.items[0] : NULL;
        assert_string_equal(v ? v->package : "none",
                            cases[i].expected ? cases[i].expected : "none");
        assert_string_equal(system ? system : "any", cases[i].system ? cases[i].system : "any");
    }
    assert_true(kb_package_is_known(&f->kb, "accelerate", KB_MANAGER_PIP));
    assert_false(kb_package_is_known(&f->kb, "apex", KB_MANAGER_PIP));
    assert_false(kb_package_is_known(&f->kb, "clinfo", KB_MANAGER_PIP)); // apt's
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_area_has_rows_with_an_origin, setup, teardown),
        cmocka_unit_test_setup_teardown(fields_arrive_as_they_stand, setup, teardown),
        cmocka_unit_test_setup_teardown(each_release_has_one_import_row, setup, teardown),
        cmocka_unit_test_setup_teardown(steps_are_enums_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unknown_number_is_not_zero, setup, teardown),
        cmocka_unit_test_setup_teardown(a_manager_has_its_own_name_for_a_package, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_of_a_folder_are_added_and_replace, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wrong_file_is_named_with_its_row, setup, teardown),
        cmocka_unit_test_setup_teardown(a_step_must_have_what_its_kind_needs, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cut_file_is_refused, setup, teardown),
        cmocka_unit_test(a_file_name_says_a_full_version_or_nothing),
        cmocka_unit_test(the_shim_says_its_version),
        cmocka_unit_test(nvrtc_names_its_builtins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
