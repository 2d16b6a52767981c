/*
 * One question being answered: shared by the files of this room that know how (ask_*.c), and by
 * query.c, whose table says which of them is asked.
 *
 * An answer is made of sentences and tables, and of the rows that they rest on. A form returns 1 if
 * it has answered, 0 if it cannot, negative if an area cannot be loaded. A form that cannot may say
 * why with ask_missing(). What a question gives a form is one value for each key.
 */
#ifndef GPUMEND_KB_ASK_H
#define GPUMEND_KB_ASK_H

#include "kb/gpu_name.h"
#include "kb/query.h"
#include "kb/question.h"

#define ORDER (SAID_FIRST | SAID_LAST | SAID_ALL)

struct ask {
    struct kb *kb;
    struct arena *a;
    const struct question *q;
    struct kb_answer *answer;
    const char *missing; // why there is no answer, or NULL
};

/* The value of a key, or NULL. */
const char *ask_given(const struct ask *k, enum question_key key);

/* The platform that the question names, "linux-aarch64", or NULL: it names none, or
 * one that no row is about. */
const char *ask_platform(const struct ask *k);

/* ------------------------------------------------------------------ saying */

/* Adds a sentence. */
void ask_say(struct ask *k, const char *fmt, ...) __attribute__((format(GM_PRINTF, 2, 3)));

/* Says why there is no answer, and which question has one. */
void ask_missing(struct ask *k, const char *fmt, ...) __attribute__((format(GM_PRINTF, 2, 3)));

/* Adds a row, once. */
void ask_hit(struct ask *k, enum kb_area area, const void *row, const struct kb_origin *origin);
#define HIT(k, area, row) ask_hit(k, area, row, &(row)->origin)

/* Whether a release takes the version of a package and no other: its ABI of NumPy 1, or "==", or
 * the series of the version. */
bool ask_needs_just(const struct kb_release *row, const char *package, const char *version);

/* Lines of cells, said as sentences if there are one or two, else as a table. */
enum { TABLE_COLUMNS_MAX = 10 };
struct ask_line {
    const char *cells[TABLE_COLUMNS_MAX]; // NULL: nothing to say
};
struct ask_table {
    const char *heads[TABLE_COLUMNS_MAX]; // of the columns; the first one or two name the line
    size_t columns, named;                // `named`: how many of them do
    VEC(struct ask_line) lines;
};
void ask_say_table(struct ask *k, const char *title, const struct ask_table *t);

/* "a, b, c" */
const char *ask_joined(struct arena *a, struct kb_strs list);

/* ------------------------------------------------------------------ versions, architectures */

/* Order of two versions; texts that are no versions are equal. */
int ask_compare(const char *one, const char *two);

/* "12.4.1" is within "12.4" and "12". */
bool ask_within(const char *version, const char *part);

/* One is within the other: "12" and "12.4" may be the same. */
bool ask_meets(const char *one, const char *two);

/* Whether a question's range has the version. */
bool ask_in_span(const char *version, const struct question_span *s);

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

/* ask_cuda.c. Says a floor of minor-version compatibility. */
void ask_say_floor(struct ask *k, const struct kb_driver *floor);

/* The first toolkit that compiles for an architecture, and whether it is the oldest known here. */
const struct kb_toolkit *ask_first_toolkit(const struct kb_toolkits *t, const char *sm,
                                           bool *ret_oldest);

/* ask_gpu.c. The cards that the question names by name or PCI id. */
int ask_gpus_find(struct ask *k, struct kb_gpu_list *ret, struct gm_err *err);

/* The architecture that the question gives, by number or by a GPU of one kind: "8.6" or "gfx1030";
 * both NULL if it gives none. Its row is a hit. 0 with both NULL and ask_missing() for a name that
 * stands for several. */
struct ask_arch {
    const char *sm, *gfx;
    const struct kb_gpu *gpu; // or NULL
};
int ask_arch_find(struct ask *k, struct ask_arch *ret, struct gm_err *err);

/* ask_release.c. Everything known of one release: its own row, the builds and the compat row of its
 * version. */
struct ask_release {
    const char *name;               // "torch 2.5.1"
    const char *version;            // as precise as known, or NULL
    const struct kb_release *row;   // or NULL
    const struct kb_compat *compat; // or NULL
    const struct kb_build *build;   // the default one, or NULL
};

/* The releases that the question names, oldest first; without a version the newest that was read.
 * One that was not read is none: ask_missing() names the nearest that were. */
struct ask_releases {
    VEC(struct ask_release) items;
    struct kb_builds builds;
};
int ask_releases_find(struct ask *k, struct ask_releases *ret, struct gm_err *err);
void ask_release_hits(struct ask *k, const struct ask_release *r);

/* "numpy <2.1.0,>=2.0.2 (if python_version < '3.13')" */
const char *ask_need_text(struct ask *k, const struct kb_release_need *n);

/* Whether its condition holds for the Python that the question gives; true without one. */
bool ask_need_holds(struct ask *k, const struct kb_release_need *n);

/* The lowest and the highest of the versions that were added; NULL: none was. */
struct ask_range {
    const char *first, *last;
};
void ask_range_add(struct ask_range *r, const char *first, const char *last);

/* "4.0.0 to 4.4.0", "4.0.0" where both are the same; NULL: nothing was added. */
const char *ask_range_text(struct ask *k, const struct ask_range *r);

/* "4.0.0 to 4.4.0": the releases of a package that were read and are in a set; NULL: none. */
const char *ask_read_range(struct ask *k, const struct kb_releases *all, const char *package,
                           const char *set, const char **ret_first, const char **ret_last);

/* ------------------------------------------------------------------ the forms */

/* ask_name.c */
int form_error(struct ask *k, struct gm_err *err);
int form_provides(struct ask *k, struct gm_err *err);
int form_library(struct ask *k, struct gm_err *err);
int form_depends(struct ask *k, struct gm_err *err);

/* ask_cuda.c */
int form_driver(struct ask *k, struct gm_err *err);
int form_cuda_of_driver(struct ask *k, struct gm_err *err);
int form_branches(struct ask *k, struct gm_err *err);
int form_branch(struct ask *k, struct gm_err *err);
int form_toolkit(struct ask *k, struct gm_err *err);
int form_toolkits_of_sm(struct ask *k, struct gm_err *err);
int form_toolkits_of_ptx(struct ask *k, struct gm_err *err);
int form_cudnn(struct ask *k, struct gm_err *err);
int form_cudnn_of_cuda(struct ask *k, struct gm_err *err);
int form_driver_runs(struct ask *k, struct gm_err *err);
int form_driver_of_gpu(struct ask *k, struct gm_err *err);

/* ask_gpu.c */
int form_gpu(struct ask *k, struct gm_err *err);
int form_gpu_does(struct ask *k, struct gm_err *err);
int form_gpu_is_arch(struct ask *k, struct gm_err *err);
int form_gpus_of(struct ask *k, struct gm_err *err);
int form_gfx(struct ask *k, struct gm_err *err);
int form_kfd(struct ask *k, struct gm_err *err);
int form_rocm(struct ask *k, struct gm_err *err);
int form_rocm_part(struct ask *k, struct gm_err *err);

/* ask_release.c */
int form_property(struct ask *k, struct gm_err *err);
int form_release(struct ask *k, struct gm_err *err);
int form_newest(struct ask *k, struct gm_err *err);
int form_release_glibc(struct ask *k, struct gm_err *err);
int form_needs_cudnn(struct ask *k, struct gm_err *err);
int form_python_change(struct ask *k, struct gm_err *err);

/* ask_release.c, for ask_platform.c. */
/* "cu124 (default)" */
const char *ask_build_title(struct ask *k, const struct kb_build *b);

/* Properties of one build of a release, as form_property() says them. */
struct ask_table ask_property_table(const struct question *q);
void ask_property_line(struct ask *k, struct ask_table *t, const struct ask_release *r,
                       const struct kb_build *b);
bool ask_property_build(struct ask *k, const struct ask_release *r, const struct kb_build *b);

/* ask_conflict.c. A question may name a set of versions, "<2", instead of a release, or a series.
 */
bool ask_is_set(const char *version);

/* Whether the lower bound of a set is this version: ">=2.7.1", "~=2.7.1", "==2.7.1". */
bool ask_needs_from(const char *set, const char *version);
bool ask_version_means(struct ask *k, const char *version, const char *release);

/* The newest release of a package that a version means, or NULL. */
const struct kb_release *ask_row_of(struct ask *k, const struct kb_releases *all,
                                    const char *package, const char *version);

/* Whether what a release declares about NumPy was written without regard to its second major: such
 * an open requirement admits 2, and code that was compiled against NumPy 1 fails with it all the
 * same. */
bool ask_numpy_is_open(struct ask *k, const struct kb_release *row,
                       const struct kb_release_need *need, const char *version);

/* How an application that requires ctranslate2 and torch ends up with two majors of cuDNN in one
 * process with this torch; NULL: it does not, or that is not known. */
const char *ask_two_cudnns(struct ask *k, const struct kb_releases *all,
                           const struct kb_builds *builds, const struct kb_release *app,
                           const char *torch_version);

/* ask_need.c */
int form_need(struct ask *k, struct gm_err *err);
int form_part_need(struct ask *k, struct gm_err *err);
int form_contains(struct ask *k, struct gm_err *err);

/* ask_pair.c, ask_platform.c */
int form_pair(struct ask *k, struct gm_err *err);
int form_platform(struct ask *k, struct gm_err *err);
int form_platforms(struct ask *k, struct gm_err *err);
int form_wheels(struct ask *k, struct gm_err *err);
int form_python(struct ask *k, struct gm_err *err);

/* ask_build.c */
int form_builds(struct ask *k, struct gm_err *err);
int form_rocm_builds(struct ask *k, struct gm_err *err);
int form_has_code(struct ask *k, struct gm_err *err);

/* ask_model.c */
int form_glibc(struct ask *k, struct gm_err *err);
int form_compute(struct ask *k, struct gm_err *err);
int form_compute_types(struct ask *k, struct gm_err *err);
int form_gpu_memory(struct ask *k, struct gm_err *err);
int form_models_fit(struct ask *k, struct gm_err *err);
int form_fit(struct ask *k, struct gm_err *err);
int form_model(struct ask *k, struct gm_err *err);
int form_default(struct ask *k, struct gm_err *err);

/* ask_trait.c */
int form_program(struct ask *k, struct gm_err *err);
int form_feature(struct ask *k, struct gm_err *err);
int form_feature_cuda(struct ask *k, struct gm_err *err);
int form_gpu_alone(struct ask *k, struct gm_err *err);
int form_capability(struct ask *k, struct gm_err *err);
int form_instructions(struct ask *k, struct gm_err *err);
int form_variable(struct ask *k, struct gm_err *err);
int form_refusal(struct ask *k, struct gm_err *err);
int form_opens(struct ask *k, struct gm_err *err);
int form_index(struct ask *k, struct gm_err *err);
int form_packages(struct ask *k, struct gm_err *err);
int form_encoding(struct ask *k, struct gm_err *err);
int form_floors(struct ask *k, struct gm_err *err);
int form_choices(struct ask *k, struct gm_err *err);
int form_folder(struct ask *k, struct gm_err *err);
int form_target_change(struct ask *k, struct gm_err *err);
int form_arch_change(struct ask *k, struct gm_err *err);

/* The CUDA of a build in words, or NULL. */
const char *ask_build_cuda(struct ask *k, const struct ask_release *r);

/* The cuDNN of a build in words, or NULL. */
const char *ask_build_cudnn(const struct ask_release *r);

/* The glibc that the libraries of its wheel were read to need, or NULL. */
const char *ask_libraries_glibc(const struct ask_release *r);

/* Wheels with the tag manylinux1 (glibc 2.5) may need more than it promises, as those of torch
 * 2.5.1 do (2.17): without its libraries' own need that is not known. */
bool ask_tag_is_doubtful(const struct ask_release *r);

/* NULL: not known. */
const char *ask_glibc_text(struct ask *k, const struct ask_release *r);

/* The architectures that the question is about: one, or those of the cards of a generation. */
int ask_architectures(struct ask *k, struct question_values *ret, struct gm_err *err);

/* The row of drivers for this toolkit, or NULL. */
const struct kb_driver *ask_driver_of_toolkit(const struct kb_drivers *d, const char *cuda);

#endif
