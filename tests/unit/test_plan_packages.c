/* Ways by packages: small trees with installed metadata, a small knowledge base, findings by hand.
 * What the machine is (driver, GPUs) is given; nothing is run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan/knowledge.h"
#include "plan/plan.h"
#include "py/dist.h"

struct tree {
    char dir[64];
    struct root root;
    struct arena a;
    struct kb kb;
    struct py_env env;
    struct host host;
    struct ldso_store store;
    struct model model;
    struct ldso_process ldso;
    struct model_process process;
    struct diag_report report;
    struct plan plan;
};

/* ------------------------------------------------------------------ a small knowledge base */

#define ORIGIN                                                                                     \
    "\"schema\": 1, \"whole\": true, \"defaults\": {\"evidence\": \"read\", \"source\": [\"a "     \
    "test\"], "                                                                                    \
    "\"date\": \"2026-01-01\"}, "
#define PY311 "\"pythons\": [\"3.9\", \"3.10\", \"3.11\", \"3.12\"]"
#define PY313 "\"pythons\": [\"3.11\", \"3.12\", \"3.13\"]"
#define RELEASE(name, version, rest)                                                               \
    "{\"id\": \"" name "-" version "\", \"package\": \"" name "\", \"version\": \"" version        \
    "\", " rest "}"
#define NEED(name, set) "{\"package\": \"" name "\", \"versions\": \"" set "\"}"

static const char releases[] =
    "{" ORIGIN "\"area\": \"releases\", \"rows\": [" RELEASE(
        "ctranslate2",
        "3.0.0", PY311 ", \"needs\": []") "," RELEASE("ctranslate2", "4.5.0",
                                                      PY311
                                                      ", \"needs\": []") "," RELEASE("ctranslate2", "4.6.3", PY311 ", \"needs\": []") "," RELEASE("ctranslate2", "4.8.5", PY311 ", \"glibc\": \"2.28\", \"needs\": []") "," RELEASE("nvidia-cublas-cu12", "12.4.5.8", PY311 ", \"needs\": []") "," RELEASE("nvidia-cublas-cu12", "12.9.1.4", PY311 ", \"needs\": []") "," RELEASE("nvidia-cuda-nvrtc-cu12",
                                                                                                                                                                                                                                                                                                                                                                                  "12.4.127",
                                                                                                                                                                                                                                                                                                                                                                                  PY311 ", \"needs\": []") "," RELEASE("nvidia-cuda-nvrtc-cu12",
                                                                                                                                                                                                                                                                                                                                                                                                                       "12.8.93",
                                                                                                                                                                                                                                                                                                                                                                                                                       PY311
                                                                                                                                                                                                                                                                                                                                                                                                                       ", \"needs\": []") "," RELEASE("nvidia-cuda-nvrtc-cu12",
                                                                                                                                                                                                                                                                                                                                                                                                                                                      "12.9.86", PY311 ", \"needs\": []") "," RELEASE("nvidia-cudnn-cu12",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                      "9.1.0.70", PY311 ", \"needs\": []") "," RELEASE("nvidia-cudnn-cu12",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       "9.10.2.21",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       PY311
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       ", \"needs\": []") "," RELEASE("onnxruntime-gpu",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                      "1.26.0",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                      PY311
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                      ", \"needs\": []") "," RELEASE("onnxruntime-gpu",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                     "1.27.0",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                     PY311
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                     ", \"needs\": []") "," RELEASE("torch",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    "2.10.0",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    PY313
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    ", \"cuda\": \"12.8\", \"needs\": []") "," RELEASE("torch",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       "2.11.0", PY313 ", \"cuda\": \"13.0\", \"needs\": []") "," RELEASE("torch",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          "2.5.1",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          PY311 ", \"cuda\": \"12.4\", \"needs\": [" NEED("nvidia-cublas-cu12",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          "==12.4.5.8") "]") "," RELEASE("torch",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                         "2.8.0",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                         PY311 ", \"cuda\": \"12.8\", \"needs\": [" NEED("nvidia-cublas-cu12", "==12.8.4.1") "]") "," RELEASE("torchaudio",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                              "2.5.1", PY311 ", \"needs\": [" NEED("torch", "==2.5.1") "]") "," RELEASE("torchaudio",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        "2.8.0",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        PY311 ", \"needs\": [" NEED("torch", "==2.8.0") "]") "," RELEASE("torchvision",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                         "0.20.1", PY311 ", \"needs\": [" NEED("torch", "==2.5.1") "]") "," RELEASE("torchvision",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    "0.23.0",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    PY311
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    ", \"needs\": [" NEED("torch",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          "==2.8.0") "]") "]}";

#define BUILD(id, set, name, cuda, first, sm)                                                      \
    "{\"id\": \"" id "\", \"package\": \"torch\", \"versions\": \"" set "\", \"build\": \"" name   \
    "\", \"cuda\": \"" cuda                                                                        \
    "\", \"python\": \"3.9-3.13\", \"status\": \"stable\", \"default\": " first ", \"sm\": [" sm   \
    "]}"

#define PTX(id, set, isa)                                                                          \
    "{\"id\": \"" id "\", \"package\": \"ctranslate2\", \"versions\": \"" set "\", "               \
    "\"build\": \"cuda\", \"cuda\": \"12\", \"status\": \"stable\", \"default\": true, "           \
    "\"sm\": [\"sm_60\", \"sm_75\", \"sm_86\"], \"ptx\": [\"compute_86\"], \"ptx_isa\": \"" isa    \
    "\"}"

static const char builds[] =
    "{" ORIGIN "\"area\": \"builds\", \"rows\": [" PTX("ctranslate2-4.5", ">=4.5,<4.6.3", "8.4") "," PTX("ctranslate2-4.6.3", ">=4.6.3", "8.7") "," BUILD(
        "torch-2.10-cu128", ">=2.10,<2.11", "cu128", "12.8", "true",
        "\"sm_75\", \"sm_120\"") "," BUILD("torch-2.11-cu126", ">=2.11,<2.12", "cu126", "12.6",
                                           "false",
                                           "\"sm_61\", \"sm_75\"") "," BUILD("torc"
                                                                             "h-2."
                                                                             "11-"
                                                                             "cu13"
                                                                             "0",
                                                                             ">=2."
                                                                             "11,<"
                                                                             "2."
                                                                             "12",
                                                                             "cu13"
                                                                             "0",
                                                                             "13."
                                                                             "0",
                                                                             "tru"
                                                                             "e",
                                                                             "\"sm"
                                                                             "_75"
                                                                             "\", "
                                                                             "\"sm"
                                                                             "_120"
                                                                             "\"") "," BUILD("torch"
                                                                                             "-2.5-"
                                                                                             "cu12"
                                                                                             "4",
                                                                                             ">=2."
                                                                                             "5,<2."
                                                                                             "6",
                                                                                             "cu12"
                                                                                             "4",
                                                                                             "12.4",
                                                                                             "true",
                                                                                             "\"sm_"
                                                                                             "60\","
                                                                                             " \"sm"
                                                                                             "_90"
                                                                                             "\"") "," BUILD("torch-2.8-cu128",
                                                                                                             ">=2.8,<2.9",
                                                                                                             "cu128",
                                                                                                             "12.8",
                                                                                                             "true",
                                                                                                             "\"sm_75\", \"sm_120\"") "]}";

#define COMPAT(id, name, set, major, cudnn, needs)                                                 \
    "{\"id\": \"" id "\", \"package\": \"" name "\", \"versions\": \"" set                         \
    "\", \"cuda_major\": " major ", \"cudnn\": " cudnn ", \"needs\": [" needs "]}"
#define ANY(name) "{\"package\": \"" name "\"}"

static const char compat[] =
    "{" ORIGIN
    "\"area\": \"compat\", \"rows\": [" COMPAT("ctranslate2-3", "ctranslate2", "<4", "11", "null", "") "," COMPAT(
        "ctranslate2-4.5", "ctranslate2", ">=4.5,<4.6.3", "12", "\"9.1.0\"",
        ANY("nvidia-cublas-cu12") "," NEED(
            "nvidia-cudnn-cu12",
            ">=9.1,<10")) "," COMPAT("ctranslate2-4.6.3", "ctranslate2", ">=4.6.3", "12", "null",
                                     ANY("nvidia-cublas-cu12")) "," COMPAT("onnxruntime-gpu-1.26",
                                                                           "onnxruntime-gpu",
                                                                           ">=1.26,<1.27", "12",
                                                                           "null",
                                                                           ANY("nvidia-cublas-"
                                                                               "cu12")) "," COMPAT("onnxruntime-gpu-1.27",
                                                                                                   "onnxruntime-gpu",
                                                                                                   ">=1.27",
                                                                                                   "13",
                                                                                                   "null",
                                                                                                   ANY("nvidia-cublas")) "]}";

static const char cudnn[] =
    "{" ORIGIN "\"area\": \"cudnn\", \"rows\": ["
    "{\"id\": \"cudnn-9.1\", \"cudnn\": \"9.1.0\", \"cuda_major\": 12, \"cuda\": [\"12.4\"], "
    "\"linux\": \"525.60.13\", \"sm\": [\"6.0\", \"7.5\", \"8.6\", \"9.0\"]},"
    "{\"id\": \"cudnn-9.10\", \"cudnn\": \"9.10.0\", \"cuda_major\": 12, \"cuda\": [\"12.8\"], "
    "\"linux\": \"525.60.13\", \"sm\": [\"7.5\", \"8.6\", \"9.0\", \"12.0\"]}]}";

/* ------------------------------------------------------------------ the tree */

static void put_bytes(struct tree *t, const char *path, const void *data, size_t n)
{
    char *p = arena_printf(&t->a, "%s%s", t->dir, path);
    for (char *s = p + strlen(t->dir) + 1; (s = strchr(s, '/')); s++) {
        *s = '\0';
        (void)mkdir(p, 0755); // most exist
        *s = '/';
    }
    FILE *f = fopen(p, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(p, 0755), 0);
}

static void put(struct tree *t, const char *path, const char *text)
{
    put_bytes(t, path, text, strlen(text));
}

/* The first bytes of an x86-64 executable: as much as is looked at. */
static void put_elf(struct tree *t, const char *path)
{
    static const char elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, [16] = 3, [18] = 62};
    put_bytes(t, path, elf, sizeof elf);
}

static int setup(void **state)
{
    struct tree *t = calloc(1, sizeof *t);
    struct gm_err err;
    (void)snprintf(t->dir, sizeof t->dir, "/tmp/test_mend_packages.XXXXXX");
    assert_non_null(mkdtemp(t->dir));
    arena_init(&t->a, ARENA_LIMIT_DEFAULT, NULL, NULL);
    assert_int_equal(root_open(&t->root, t->dir, &err), 0);
    ldso_store_open(&t->store, &t->root, &t->a);
    put(t, "/kb/releases.json", releases);
    put(t, "/kb/builds.json", builds);
    put(t, "/kb/compat.json", compat);
    put(t, "/kb/cudnn.json", cudnn);
    *state = t;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    struct tree *t = *state;
    (void)nftw(t->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    ldso_store_close(&t->store);
    root_close(&t->root);
    arena_release(&t->a);
    free(t);
    return 0;
}

/* An environment of Python 3.MINOR with "NAME VERSION: REQUIREMENT; REQUIREMENT" in each line. */
static void install(struct tree *t, int minor, const char *lines)
{
    const char *site = arena_printf(&t->a, "/opt/v/lib/python3.%d/site-packages", minor);
    put(t, arena_printf(&t->a, "/usr/lib/python3.%d/os.py", minor), "");
    put(t, "/opt/v/pyvenv.cfg", arena_printf(&t->a, "home = /usr/bin\nversion = 3.%d.1\n", minor));
    put_elf(t, "/opt/v/bin/python");
    for (struct str rest = str_of(lines); rest.s && rest.n;) {
        struct str line = str_cut(&rest, '\n'), needs = line;
        struct str who = str_cut(&needs, ':');
        const char *name = str_dup(&t->a, str_cut(&who, ' ')), *version = str_dup(&t->a, who);
        const char *text =
            arena_printf(&t->a, "Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version);
        while (needs.s) {
            struct str need = str_trim(str_cut(&needs, ','));
            text = arena_printf(&t->a, "%sRequires-Dist: " STR_FMT "\n", text, STR_ARG(need));
        }
        put(t, arena_printf(&t->a, "%s/%s-%s.dist-info/METADATA", site, name, version),
            arena_printf(&t->a, "%s\n", text));
    }
}

static void add_gpu(struct tree *t, const char *capability)
{
    struct host_gpu gpu = {.kind = "pci",
                           .vendor = HOST_NVIDIA,
                           .name = "GPU",
                           .compute_capability = {HOST_YES, capability, 0, "pci", NULL}};
    VEC_PUSH(&t->a, &t->host.gpus, gpu);
}

static struct diag_finding *finding(struct tree *t, const char *class, const char *culprit,
                                    const char *asker)
{
    struct diag_finding *f = arena_alloc(&t->a, sizeof *f);
    *f = (struct diag_finding){.cause = DIAG_LIBRARY_MISSING,
                               .class = class,
                               .severity = DIAG_ERROR,
                               .culprit = culprit,
                               .summary = "it fails"};
    VEC_PUSH(&t->a, &f->repairs, (struct diag_repair){.kind = DIAG_REPAIR_PACKAGE, .text = "x"});
    if (asker) {
        VEC_PUSH(&t->a, &f->askers, asker);
    }
    VEC_PUSH(&t->a, &t->report.findings, f);
    return f;
}

/* What is planned, in one text: "ctranslate2==4.8.5 nvidia-cublas-cu12==12.9.1.4|..." */
static const char *planned(struct tree *t, const char *driver, int glibc_minor)
{
    struct gm_err err;
    struct py_env_hints hints = {0};
    if (kb_open(&t->kb, &t->a, &t->root, "/kb", &err) < 0 ||
        py_env_open(&t->root, &t->a, "/opt/v", &hints, &t->env, &err) < 0) {
        fail_msg("%s", err.text);
    }
    if (driver) {
        t->host.nvidia.module = (struct host_fact){HOST_YES, driver, 0, "/proc", NULL};
    }
    t->model = (struct model){.root = &t->root,
                              .arena = &t->a,
                              .kb = &t->kb,
                              .env = &t->env,
                              .host = &t->host,
                              .store = &t->store};
    if (model_open(&t->model, &err) < 0) {
        fail_msg("%s", err.text);
    }
    t->ldso.glibc_minor = glibc_minor;
    t->process.ldso = &t->ldso;
    VEC_PUSH(&t->a, &t->model.processes, &t->process);
    const struct py_dist *torch = py_env_by_dist(&t->env, "torch");
    if (torch) {
        VEC_PUSH(&t->a, &t->model.known, torch);
    }
    plan_add_packages(&t->model, &t->report, &t->plan);
    const char *text = "";
    for (size_t i = 0; i < t->plan.ways.n; i++) {
        const struct plan_step *s = &t->plan.ways.items[i].steps.items[0];
        assert_int_equal(s->kind, PLAN_PACKAGES);
        assert_true(starts_with(s->command, "uv pip install --python /opt/v/bin/python "));
        text = arena_printf(&t->a, "%s%s%s", text, i ? "|" : "",
                            strstr(s->command, "/python ") + strlen("/python "));
    }
    return text;
}

static void cannot_says(struct tree *t, const char *words)
{
    const char *all = "";
    for (size_t i = 0; i < t->plan.cannot.n; i++) {
        if (strstr(t->plan.cannot.items[i], words)) {
            return;
        }
        all = arena_printf(&t->a, "%s\n%s", all, t->plan.cannot.items[i]);
    }
    fail_msg("\"%s\" is not said in:%s", words, all);
}

/* ------------------------------------------------------------------ libraries */

/* A stack whose cuDNN is not there: a release without the need, or the cuDNN of that very version.
 * The older release without cuDNN is no way out. The cuBLAS that comes opens NVRTC. */
static void cudnn_has_two_ways_out(void **state)
{
    struct tree *t = *state;
    install(t, 11, "ctranslate2 4.5.0");
    (void)finding(t, "partial-cudnn", "libcudnn_ops.so.9", "ctranslate2");
    assert_string_equal(planned(t, NULL, 36),
                        "ctranslate2==4.8.5 nvidia-cuda-nvrtc-cu12==12.9.86 "
                        "nvidia-cublas-cu12==12.9.1.4|"
                        "nvidia-cuda-nvrtc-cu12==12.9.86 nvidia-cublas-cu12==12.9.1.4 "
                        "nvidia-cudnn-cu12==9.1.0.70");
    const struct plan_way *way = &t->plan.ways.items[0];
    assert_int_equal(way->reach, PLAN_PIP);
    assert_string_equal(way->steps.items[0].packages[0].from, "4.5.0");
    assert_non_null(strstr(way->steps.items[0].packages[0].why, "compat/ctranslate2-4.6.3"));
    assert_int_equal(way->steps.n, 2);
    assert_string_equal(way->steps.items[1].value,
                        "/opt/v/lib/python3.11/site-packages/nvidia/cublas/lib:"
                        "/opt/v/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib");
}

static void an_older_glibc_takes_an_older_release(void **state)
{
    struct tree *t = *state;
    install(t, 11, "ctranslate2 4.5.0\nnvidia-cublas-cu12 12.4.5.8");
    (void)finding(t, "partial-cudnn", "libcudnn_ops.so.9", "ctranslate2");
    assert_string_equal(planned(t, NULL, 17), "ctranslate2==4.6.3|nvidia-cudnn-cu12==9.1.0.70");
}

/* A release that is to come opens cuBLAS by itself: that the old one never came to it says nothing.
 */
static void another_release_finds_what_it_opens(void **state)
{
    struct tree *t = *state;
    install(t, 11, "ctranslate2 4.5.0\nnvidia-cublas-cu12 12.4.5.8");
    struct diag_finding *f = finding(t, "lib-not-on-path", "libcudnn_ops.so.9", "ctranslate2");
    f->repairs.items[0].kind = DIAG_REPAIR_ENV;
    assert_string_equal(planned(t, NULL, 36), "ctranslate2==4.8.5|nvidia-cudnn-cu12==9.1.0.70");
    const struct plan_way *way = &t->plan.ways.items[0];
    assert_int_equal(way->steps.n, 2);
    assert_string_equal(way->steps.items[1].value,
                        "/opt/v/lib/python3.11/site-packages/nvidia/cublas/lib");
}

/* What torch pins is not moved for another package's sake. */
static void a_pin_contradicts(void **state)
{
    struct tree *t = *state;
    install(t, 11,
            "ctranslate2 4.5.0\nnvidia-cublas-cu12 12.4.5.8\nnvidia-cudnn-cu12 9.10.2.21\n"
            "mine 1: nvidia-cudnn-cu12==9.10.2.21");
    (void)finding(t, "partial-cudnn", "libcudnn_ops.so.9", "ctranslate2");
    assert_string_equal(planned(t, NULL, 36), "ctranslate2==4.8.5");
    cannot_says(t, "mine 1 needs nvidia-cudnn-cu12==9.10.2.21 (its metadata), and "
                   "nvidia-cudnn-cu12 9.1.0.70 is to be installed");
    cannot_says(t, "the knowledge base has no releases of mine: whether another one fits cannot");
}

/* cuDNN for CUDA 12 and for 13 are files of the same names in one folder. */
static void no_library_of_another_cuda_is_overwritten(void **state)
{
    struct tree *t = *state;
    install(t, 11, "ctranslate2 4.5.0\nnvidia-cudnn-cu13 9.26.0.51");
    (void)finding(t, "partial-cudnn", "libcudnn_ops.so.9", "ctranslate2");
    assert_string_equal(planned(t, NULL, 36), "ctranslate2==4.8.5 nvidia-cuda-nvrtc-cu12==12.9.86 "
                                              "nvidia-cublas-cu12==12.9.1.4");
    cannot_says(t, "would overwrite files of nvidia-cudnn-cu13 9.26.0.51 in nvidia/cudnn/lib");
}

/* A way that makes a folder findable mends what lies there and was not found. */
static void a_folder_mends_what_lies_in_it(void **state)
{
    struct tree *t = *state;
    install(t, 11, "ctranslate2 4.5.0");
    (void)finding(t, "partial-cudnn", "libcudnn_ops.so.9", "ctranslate2");
    struct diag_finding *f = finding(t, "lib-not-on-path", "libcublas.so.12", "ctranslate2");
    f->repairs.items[0].kind = DIAG_REPAIR_ENV;
    (void)planned(t, NULL, 36);
    assert_int_equal(t->plan.ways.items[0].mends.n, 2);
}

static void the_driver_bounds_nvrtc(void **state)
{
    struct tree *t = *state;
    install(t, 11, "ctranslate2 4.8.5");
    (void)finding(t, "lib-missing", "libnvrtc.so.12", NULL);
    assert_string_equal(planned(t, "570.124.06", 36), "nvidia-cuda-nvrtc-cu12==12.8.93");
}

static void the_gpu_bounds_nvrtc(void **state)
{
    struct tree *t = *state;
    install(t, 11, "ctranslate2 4.8.5");
    add_gpu(t, "12.0");
    (void)finding(t, "lib-missing", "libnvrtc.so.12", NULL);
    assert_string_equal(planned(t, "550.54.15", 36), "");
    cannot_says(t, "the program needs nvidia-cuda-nvrtc-cu12>=12.8,<12.5");
}

/* A newer release is taken only where the driver's own CUDA has none. */
static void the_drivers_cuda_is_preferred(void **state)
{
    struct tree *t = *state;
    install(t, 11, "ctranslate2 4.8.5");
    (void)finding(t, "lib-missing", "libcublas.so.12", "ctranslate2");
    assert_string_equal(planned(t, "550.54.15", 36), "nvidia-cublas-cu12==12.4.5.8");
}

/* CUDA 13 needs driver 580: with an older one the release for CUDA 12 is the way. */
static void an_old_driver_takes_cuda_12(void **state)
{
    struct tree *t = *state;
    install(t, 11, "onnxruntime-gpu 1.27.0");
    (void)finding(t, "lib-missing", "libcublasLt.so.13", "onnxruntime-gpu");
    assert_string_equal(planned(t, "550.54.15", 36),
                        "onnxruntime-gpu==1.26.0 nvidia-cublas-cu12==12.4.5.8");
}

static void what_is_damaged_is_installed_again(void **state)
{
    struct tree *t = *state;
    install(t, 11, "nvidia-cudnn-cu12 9.1.0.70");
    struct diag_finding *f = finding(t, "partial-cudnn", "libcudnn_ops.so.9", "ctranslate2");
    f->repairs.items[0].reinstall = "nvidia-cudnn-cu12 9.1.0.70";
    assert_string_equal(planned(t, NULL, 36),
                        "--force-reinstall --no-deps nvidia-cudnn-cu12==9.1.0.70");
    assert_string_equal(t->plan.ways.items[0].steps.items[0].packages[0].to, "9.1.0.70");
    assert_string_equal(t->plan.ways.items[0].title, "Install nvidia-cudnn-cu12 9.1.0.70 again.");
    assert_int_equal(t->plan.ways.items[0].steps.n, 1);
}

/* Installing it again is half of what is needed: the folder is made findable as well. */
static void what_comes_back_where_nobody_looks(void **state)
{
    struct tree *t = *state;
    install(t, 11, "nvidia-cublas-cu12 12.4.5.8");
    struct diag_finding *f = finding(t, "lib-missing", "libcublas.so.12", "ctranslate2");
    f->repairs.items[0].reinstall = "nvidia-cublas-cu12 12.4.5.8";
    f->repairs.items[0].folders = "/opt/v/lib";
    assert_string_equal(planned(t, NULL, 36),
                        "--force-reinstall --no-deps nvidia-cublas-cu12==12.4.5.8");
    const struct plan_way *way = &t->plan.ways.items[0];
    assert_int_equal(way->steps.n, 2);
    assert_int_equal(way->steps.items[1].kind, PLAN_SET_ENV);
    assert_string_equal(way->steps.items[1].value, "/opt/v/lib");
}

/* ------------------------------------------------------------------ builds */

static void a_new_gpu_moves_torch_and_its_kin(void **state)
{
    struct tree *t = *state;
    install(t, 11,
            "torch 2.5.1+cu121: nvidia-cublas-cu12==12.1.3.1\nnvidia-cublas-cu12 12.1.3.1\n"
            "torchvision 0.20.1+cu121: torch==2.5.1\ntorchaudio 2.5.1: torch==2.5.1");
    add_gpu(t, "12.0");
    (void)finding(t, "arch-unsupported", "torch", NULL);
    assert_string_equal(planned(t, "570.124.06", 36),
                        "torch==2.8.0 nvidia-cuda-nvrtc-cu12==12.8.93 "
                        "nvidia-cublas-cu12==12.8.4.1 torchaudio==2.8.0 torchvision==0.23.0");
    const struct plan_package *p = t->plan.ways.items[0].steps.items[0].packages;
    assert_non_null(strstr(p[0].why, "builds/torch-2.8-cu128"));
    assert_non_null(strstr(p[4].why, "torch==2.5.1"));
}

static void nothing_fits_an_old_driver(void **state)
{
    struct tree *t = *state;
    install(t, 13, "torch 2.10.0");
    add_gpu(t, "7.5");
    (void)finding(t, "driver-too-old", "NVIDIA driver 470.82.01", NULL);
    assert_string_equal(planned(t, "470.82.01", 36), "");
    cannot_says(t, "torch 2.11.0: for CUDA 13, which needs driver 580.65.06 or later, 470.82.01 is "
                   "here");
    cannot_says(t, "torch 2.5.1 to 2.8.0: no wheel for Python 3.13");
}

static void builds_of_other_indexes_are_named(void **state)
{
    struct tree *t = *state;
    install(t, 13, "torch 2.10.0");
    add_gpu(t, "6.1");
    (void)finding(t, "arch-unsupported", "torch", NULL);
    assert_string_equal(planned(t, "570.124.06", 36), "");
    cannot_says(t, "the plain package index does not serve: torch >=2.11,<2.12 for cu126.");
}

/* Not 3.0.0, which needs the fewest packages: whether it has code for the GPU is not known. */
static void an_old_driver_takes_older_ptx(void **state)
{
    struct tree *t = *state;
    install(t, 11, "ctranslate2 4.8.5");
    add_gpu(t, "9.0");
    (void)finding(t, "arch-unsupported", "libctranslate2.so.4", "ctranslate2");
    assert_string_equal(planned(t, "550.90.07", 36),
                        "ctranslate2==4.5.0 nvidia-cublas-cu12==12.4.5.8 "
                        "nvidia-cudnn-cu12==9.1.0.70");
}

/* ------------------------------------------------------------------ what the code assumes */

/* plan_knowledge_numbered_as_cuda(): all that a torch for CUDA 12.4 pins of them is 12.4. */
static void numbers_are_those_of_cuda(void **state)
{
    struct tree *t = *state;
    struct gm_err err;
    struct kb_releases rows;
    size_t seen = 0;
    assert_int_equal(kb_open(&t->kb, &t->a, &t->root, NULL, &err), 0);
    assert_int_equal(kb_releases(&t->kb, &rows, &err), 0);
    for (size_t i = 0; i < rows.n; i++) {
        const struct kb_release *r = &rows.rows[i];
        for (size_t k = 0; k < r->n_needs && strcmp(r->package, "torch") == 0 && r->cuda; k++) {
            const struct kb_release_need *need = &r->needs[k];
            const char *pin =
                need->versions && starts_with(need->versions, "==") ? need->versions + 2 : NULL;
            if (pin && strchr(r->cuda, '.') && plan_knowledge_numbered_as_cuda(need->package)) {
                assert_true(starts_with(pin, arena_printf(&t->a, "%s.", r->cuda)));
                seen++;
            }
        }
    }
    assert_true(seen > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cudnn_has_two_ways_out, setup, teardown),
        cmocka_unit_test_setup_teardown(an_older_glibc_takes_an_older_release, setup, teardown),
        cmocka_unit_test_setup_teardown(another_release_finds_what_it_opens, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pin_contradicts, setup, teardown),
        cmocka_unit_test_setup_teardown(no_library_of_another_cuda_is_overwritten, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_mends_what_lies_in_it, setup, teardown),
        cmocka_unit_test_setup_teardown(the_driver_bounds_nvrtc, setup, teardown),
        cmocka_unit_test_setup_teardown(the_gpu_bounds_nvrtc, setup, teardown),
        cmocka_unit_test_setup_teardown(the_drivers_cuda_is_preferred, setup, teardown),
        cmocka_unit_test_setup_teardown(an_old_driver_takes_cuda_12, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_damaged_is_installed_again, setup, teardown),
        cmocka_unit_test_setup_teardown(what_comes_back_where_nobody_looks, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_gpu_moves_torch_and_its_kin, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_fits_an_old_driver, setup, teardown),
        cmocka_unit_test_setup_teardown(builds_of_other_indexes_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(an_old_driver_takes_older_ptx, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_are_those_of_cuda, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
