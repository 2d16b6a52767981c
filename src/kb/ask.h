/*
 * One question being answered: shared by the files of this room that know how (ask_*.c), and by
 * query.c, whose table says which of them is asked.
 *
 * An answer is made of sentences and of the rows that they rest on. A form returns 1 if it has
 * answered, 0 if it cannot, negative if an area cannot be loaded.
 */
#ifndef GPUMEND_KB_ASK_H
#define GPUMEND_KB_ASK_H

#include "kb/query.h"
#include "kb/question.h"

struct ask {
    struct kb *kb;
    struct arena *a;
    const struct question *q;
    struct kb_answer *answer;
};

/* ------------------------------------------------------------------ saying */

/* Adds a sentence. */
void ask_say(struct ask *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Adds a row, once. */
void ask_hit(struct ask *k, enum kb_area area, const void *row, const struct kb_origin *origin);
#define HIT(k, area, row) ask_hit(k, area, row, &(row)->origin)

/* "a, b, c" */
const char *ask_joined(struct arena *a, struct kb_strs list);

/* ------------------------------------------------------------------ versions, architectures */

/* Order of two versions; texts that are no versions are equal. */
int ask_compare(const char *one, const char *two);

/* "12.4.1" is within "12.4" and "12". */
bool ask_within(const char *version, const char *part);

/* Whether the version is in the set, "<2,>=1.4". */
bool ask_admits(struct ask *k, const char *set, const char *version);

/* "12" of "12.4.1". */
const char *ask_major(struct ask *k, const char *version);

/* 86 for "sm_86", "compute_86" and "8.6"; 0 for architecture-specific ones, which run nowhere
 * else. */
int ask_arch_number(const char *text);

bool ask_has_text(struct kb_strs list, const char *text);
bool ask_has_code(const struct question *q, int code);

/* ------------------------------------------------------------------ across the files */

/* ask_cuda.c. The floor of minor-version compatibility of a CUDA release, or NULL. */
const struct kb_driver *ask_floor(struct ask *k, const struct kb_drivers *d, const char *cuda);
void ask_say_floor(struct ask *k, const struct kb_driver *floor);

/* ask_gpu.c. The cards that the question names; loose: words that occur in no name are passed
 * over. */
struct ask_gpus {
    VEC(const struct kb_gpu *) items;
};
int ask_gpus_find(struct ask *k, bool loose, struct ask_gpus *ret, struct gm_err *err);

/* Whether there are some, all of one capability or gfx target. */
bool ask_gpus_alike(const struct ask_gpus *found);

/* ------------------------------------------------------------------ the forms */

/* ask_name.c */
int form_error(struct ask *k, struct gm_err *err);
int form_provides(struct ask *k, struct gm_err *err);
int form_library(struct ask *k, struct gm_err *err);

/* ask_cuda.c */
int form_driver(struct ask *k, struct gm_err *err);
int form_bare_cuda(struct ask *k, struct gm_err *err);
int form_cuda_of_driver(struct ask *k, struct gm_err *err);
int form_toolkit(struct ask *k, struct gm_err *err);
int form_toolkits_of_sm(struct ask *k, struct gm_err *err);
int form_cudnn(struct ask *k, struct gm_err *err);

/* ask_gpu.c */
int form_gpu(struct ask *k, struct gm_err *err);
int form_gfx(struct ask *k, struct gm_err *err);
int form_kfd(struct ask *k, struct gm_err *err);
int form_rocm(struct ask *k, struct gm_err *err);

/* ask_release.c */
int form_property(struct ask *k, struct gm_err *err);
int form_release(struct ask *k, struct gm_err *err);
int form_need(struct ask *k, struct gm_err *err);
int form_newest(struct ask *k, struct gm_err *err);
int form_python(struct ask *k, struct gm_err *err);

/* ask_build.c */
int form_builds(struct ask *k, struct gm_err *err);

/* ask_model.c */
int form_glibc(struct ask *k, struct gm_err *err);
int form_compute(struct ask *k, struct gm_err *err);
int form_model(struct ask *k, struct gm_err *err);

#endif
