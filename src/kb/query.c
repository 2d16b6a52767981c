#include "kb/query.h"

#include <string.h>

#include "base/nearest.h"
#include "base/str.h"
#include "kb/ask.h"

/* ------------------------------------------------------------------ rows AREA */

static int form_rows(struct ask *k, struct gm_err *err)
{
    struct kb_rows rows;
    size_t found = 0;
    for (int area = 0; area < KB_AREAS; area++) {
        if (strcmp(kb_area_name((enum kb_area)area), k->q->area) != 0) {
            continue;
        }
        int rc = kb_rows(k->kb, (enum kb_area)area, &rows, err);
        if (rc < 0) {
            return rc;
        }
        for (size_t i = 0; i < rows.n; i++) {
            const void *row = (const char *)rows.items + i * rows.size;
            if (k->q->n_rest == 0 || str_glob(k->q->rest[0], kb_row_id(row))) {
                VEC_PUSH(k->a, &k->answer->hits, ((struct kb_hit){(enum kb_area)area, row, NULL}));
                found++;
            }
        }
    }
    if (found) {
        ask_say(k, "%zu rows of %s.", found, k->q->area);
    }
    return found > 0;
}

/* ------------------------------------------------------------------ the forms */

struct form {
    const char *example;
    unsigned named;                                   // all of these must be named (enum named)
    unsigned any;                                     // and one of these, if any are given
    unsigned not_named;                               // and none of these
    const char *words;                                // and one of these words, or NULL
    int (*answer)(struct ask *k, struct gm_err *err); // 1: answered, 0: not by this form
};

/* Tried from the top; the first one that answers wins. `gpumend kb arch FILE...` is not a
 * question: src/cli/kb.c takes it before it asks. */
static const struct form forms[] = {
    {"rows drivers", NAMED_AREA, 0, 0, NULL, form_rows},
    {"CUDNN_STATUS_NOT_INITIALIZED", NAMED_ERROR, 0, 0, NULL, form_error},
    {"cuda error 35", NAMED_CODE, 0, NAMED_PACKAGE, "error code status errno", form_error},
    {"what provides libnvrtc.so.12", NAMED_LIBRARY, 0, 0, NULL, form_provides},
    {"which ctranslate2 does whisperx 3.8.6 need", NAMED_PACKAGE | NAMED_OTHER, 0, 0, NULL,
     form_need},
    {"how much memory does whisper large-v3 need", 0, 0, 0,
     "memory vram model parameters gib ram alias aliases", form_model},
    {"int8_float16 on sm_61", NAMED_COMPUTE, 0, 0, NULL, form_compute},
    {"does torch 2.5.1 have wheels for Python 3.13", NAMED_PACKAGE | NAMED_PYTHON, 0, 0, NULL,
     form_python},
    {"which is the newest ctranslate2 3.x", NAMED_PACKAGE, 0, 0, "last latest newest", form_newest},
    {"which cuDNN does torch 2.5.1 use", NAMED_PACKAGE, 0,
     NAMED_SM | NAMED_GFX | NAMED_DRIVER | NAMED_PCI,
     "cudnn architecture architectures arch archs kernels", form_property},
    {"which torch runs on sm_61 with driver 535", NAMED_PACKAGE,
     NAMED_SM | NAMED_GFX | NAMED_DRIVER | NAMED_CUDA | NAMED_ROCM | NAMED_PCI, 0, NULL,
     form_builds},
    {"which CUDA does vllm 0.33.0 need", NAMED_PACKAGE, 0, 0,
     "driver cuda toolkit builds build rocm python pythons glibc manylinux gpus", form_property},
    {"does torch 2.8 run on a GTX 1080", NAMED_PACKAGE, 0, 0, NULL, form_builds},
    {"what does ctranslate2 4.5.0 need", NAMED_PACKAGE, 0, 0, NULL, form_release},
    {"which architectures does CUDA 12.8 compile for", NAMED_CUDA, 0, NAMED_SM | NAMED_CUDNN,
     "architecture architectures arch archs sm ptx compile compiles isa gpus capability",
     form_toolkit},
    {"which CUDA does cuDNN 9.17 support", NAMED_CUDNN, 0, NAMED_PACKAGE, NULL, form_cudnn},
    {"which CUDA toolkit compiles for sm_90", NAMED_SM, 0, NAMED_PACKAGE, NULL,
     form_toolkits_of_sm},
    {"which driver does CUDA 12.4 need", NAMED_CUDA, 0, NAMED_DRIVER | NAMED_PACKAGE,
     "driver drivers", form_driver},
    {"CUDA 12.4", NAMED_CUDA, 0, ~(unsigned)NAMED_CUDA, NULL, form_bare_cuda},
    {"which CUDA does driver 535 run", NAMED_DRIVER, 0, NAMED_PACKAGE, NULL, form_cuda_of_driver},
    {"which gfx target is gfx_target_version 100302", NAMED_CODE, 0, 0, "gfx_target_version kfd",
     form_kfd},
    {"gfx1010", NAMED_GFX, 0, 0, NULL, form_gfx},
    {"which gfx targets does ROCm 6.3 support", NAMED_ROCM, 0, 0, NULL, form_rocm},
    {"manylinux_2_28", 0, NAMED_TAG | NAMED_GLIBC, 0, NULL, form_glibc},
    {"which package has cuFFT of CUDA 13", 0, 0, NAMED_PACKAGE | NAMED_LIBRARY,
     "soname sonames package packages pip apt dnf conda provides library libraries", form_library},
    {"compute capability of RTX 3060", 0, 0, 0, NULL, form_gpu},
};

enum { FORMS = sizeof forms / sizeof *forms };

const char *kb_form_example(size_t i)
{
    return i < FORMS ? forms[i].example : NULL;
}

static bool form_fits(const struct form *f, const struct question *q)
{
    return (q->named & f->named) == f->named && (!f->any || (q->named & f->any)) &&
           !(q->named & f->not_named) && (!f->words || question_has(q, f->words));
}

/* Names of packages: those with rows, and those that they need. */
static bool package_known(void *arg, const char *name)
{
    const struct ask *k = arg;
    struct kb_releases r;
    struct kb_compats c;
    if (starts_with(name, "cuda-")) {
        return false; // "cuda toolkit" is not the package of that name
    }
    if (kb_releases(k->kb, &r, NULL) < 0 || kb_compats(k->kb, &c, NULL) < 0) {
        return false; // said by kb_ask(), which loads both first
    }
    for (size_t i = 0; i < c.n; i++) {
        if (strcmp(c.rows[i].package, name) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < r.n; i++) {
        const struct kb_release *row = &r.rows[i];
        bool found = strcmp(row->package, name) == 0;
        for (size_t n = 0; n < row->n_needs && !found; n++) {
            found = strcmp(row->needs[n].package, name) == 0;
        }
        if (found) {
            return true;
        }
    }
    return false;
}

/* A word that may be a package's name: a number or a version is none, and short words are near to
 * too much. */
static bool may_be_package(const char *word)
{
    enum { LETTERS_MIN = 4 };
    return strcspn(word, "0123456789") >= LETTERS_MIN && !strchr(word, '.');
}

/* A word that names nothing and is nearly the name of a package with rows; NULL: there is none. */
static const char *misspelt_package(struct ask *k, const char **ret_meant)
{
    const struct question *q = k->q;
    struct kb_releases r;
    if (q->named & NAMED_PACKAGE || kb_releases(k->kb, &r, NULL) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < q->n_rest; i++) {
        struct nearest n;
        if (!may_be_package(q->rest[i])) {
            continue;
        }
        nearest_init(&n, q->rest[i]);
        for (size_t p = 0; p < r.n; p++) {
            nearest_try(&n, r.rows[p].package);
        }
        if (nearest_best(&n)) {
            *ret_meant = nearest_best(&n);
            return q->rest[i];
        }
    }
    return NULL;
}

/* Of the answers that leave such a word out none is right: the question was about that package. */
static bool refuse_misspelt(struct ask *k)
{
    const char *meant, *word = misspelt_package(k, &meant);
    bool used = k->answer->known && k->answer->hits.n &&
                (k->answer->hits.items[0].area == KB_AREA_GPUS ||
                 k->answer->hits.items[0].area == KB_AREA_MODELS);
    if (!word || used) {
        return false;
    }
    *k->answer = (struct kb_answer){
        .text = arena_printf(k->a, "not known: no package is called %s; did you mean %s?", word,
                             meant)};
    return true;
}

int kb_ask(struct kb *kb, const char *text, struct kb_answer *ret, struct gm_err *err)
{
    struct question q;
    struct ask k = {kb, kb->arena, &q, ret};
    struct kb_releases releases;
    struct kb_compats compats;
    *ret = (struct kb_answer){.text = "not known"};
    int rc = kb_releases(kb, &releases, err);
    rc = rc < 0 ? rc : kb_compats(kb, &compats, err);
    if (rc < 0) {
        return rc;
    }
    question_read(kb->arena, text, package_known, &k, &q);
    for (size_t i = 0; i < FORMS; i++) {
        if (!form_fits(&forms[i], &q)) {
            continue;
        }
        rc = forms[i].answer(&k, err);
        if (rc < 0) {
            return rc;
        }
        if (rc > 0) {
            if (!refuse_misspelt(&k)) {
                ret->form = forms[i].example;
            }
            return 0;
        }
        *ret = (struct kb_answer){.text = "not known"};
    }
    (void)refuse_misspelt(&k); // an answer of its own only where a word is near
    return 0;
}
