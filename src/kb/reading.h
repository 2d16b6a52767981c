/*
 * Inside this room: how a question is read. Each word is claimed once; what nobody claims is named
 * as not understood.
 */
#ifndef GPUMEND_KB_READING_H
#define GPUMEND_KB_READING_H

#include "kb/question.h"
#include "kb/words.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* What a word has been taken for so far. */
enum claim {
    CLAIM_NONE,
    CLAIM_NUMBER, // an error code, or a part of a GPU's name
    CLAIM_LOOSE,  // a version that belongs to something named before
    CLAIM_MEANS,  // of kb/words.h; its bits are added at the end
    CLAIM_DONE,
};

struct reading {
    struct kb *kb;
    struct arena *a;
    struct question *q;
    struct kb_releases releases;
    struct kb_compats compats;
    struct kb_builds builds;
    struct kb_glibcs glibcs;
    struct kb_traits traits;
    enum claim claims[QUESTION_WORDS_MAX];
    const struct word *means[QUESTION_WORDS_MAX]; // at the first word of an entry
    bool in_gpu_names[QUESTION_WORDS_MAX];
    size_t owner[QUESTION_WORDS_MAX]; // the key whose value begins here, OWNER_PACKAGE, or KEYS
};

enum { OWNER_PACKAGE = KEYS + 1 };

enum shape { SHAPE_NUMBER, SHAPE_CAPABILITY, SHAPE_WORD };

struct key {
    const char *name; // in the exact form
    enum named named;
    enum shape shape;
};

extern const struct key reading_keys[KEYS];

enum { READING_COMPUTE_TYPES = 9 };
extern const char *const reading_compute_types[READING_COMPUTE_TYPES];

/* ------------------------------------------------------------------ reading.c */

const char *reading_listed_as(const char *const (*list)[2], size_t n, const char *word);
bool reading_in_list(const char *const *list, size_t n, const char *word);
/* "12", "12.4", "550.54.15": digits and single dots. */
bool reading_is_number(const char *s);
bool reading_is_version(const char *s);
const char *reading_lower_text(struct arena *a, const char *text);
void reading_value_add(struct question_values *values, const char *text);
bool reading_is_word(const struct question *q, size_t i, const char *words);
void reading_split(struct arena *a, const char *text, struct question *q);

/* ------------------------------------------------------------------ reading_key.c */

/* "(beam 5)": how a measurement was made. */
bool reading_beam(struct reading *r, size_t i);
/* "Update 1" of a toolkit. */
bool reading_update(struct reading *r, size_t i);
/* "cuda 12.4", "cuda12.4", "driver R535". */
bool reading_keyword(struct reading *r, size_t i);
/* "between 5.7 and 7.2", where releases of ROCm alone are meant. */
bool reading_rocm_range(struct reading *r, size_t i);
void reading_key_add(struct question *q, enum question_key key, const char *value);
void reading_key_remove(struct question *q, enum question_key key);
/* What a text is as the value of a key; NULL: it is none. */
const char *reading_key_value(struct arena *a, enum question_key key, const char *text);

/* ------------------------------------------------------------------ reading_word.c */

bool reading_trait(struct reading *r, size_t i);
/* "Ubuntu 18.04" stands for its glibc; a release of a system that has no row is not understood. */
bool reading_system(struct reading *r, size_t i);
bool reading_engine(struct reading *r, size_t i);
/* Words that say by their look what they are. */
bool reading_shape(struct reading *r, size_t i);
bool reading_why(struct reading *r, size_t i);
/* "gfx1010/1011/1012": the numbers behind a target. */
void reading_short_targets(struct reading *r);
/* "rows drivers", "rows errors cudnn9-1*". */
bool reading_rows(struct question *q);
void reading_meanings(struct reading *r);
void reading_add_meanings(struct reading *r);
bool reading_asks_for_error(const struct reading *r);
bool reading_asks_yes_or_no(const struct question *q);

/* ------------------------------------------------------------------ reading_package.c */

/* "torch 2.5.1", "torch==2.5.1" (already split), "torch-2.5.1", "faster whisper 1.1". */
bool reading_package(struct reading *r, size_t i);
/* Names of packages: those with rows, and those that they need. */
bool reading_package_known(const struct reading *r, const char *name);
/* The usual spelling of a package, with "-" for "_". */
const char *reading_package_name(struct arena *a, const char *word);
void reading_span_add(struct question *q, const char *from, const char *to);
void reading_range_add(struct question *q, const struct question_span *span);
/* ">= 2.1 < 2.5": how many words are a range. */
size_t reading_bounds(const char *const *words, size_t n, struct question_span *ret);
/* Of several packages the question is about the one with a version: "which ctranslate2 does
 * whisperx 3.8.6 need". */
void reading_package_add(struct question *q, const char *name, bool with_version);
void reading_other_version_add(struct question *q, const char *name, const char *version);
/* "2.7.1+cu118" is a release and one of its builds. */
const char *reading_release_of(struct arena *a, struct question *q, const char *version);
/* The words around a version that make a range of it: "up to 4.6.2", "3.7.7 and later", "2.12 to
 * 2.14". Returns the first word behind them. */
size_t reading_span(struct reading *r, size_t i);

/* ------------------------------------------------------------------ reading_gpu.c */

bool reading_any_left(const struct reading *r);
int reading_models_and_parts(struct reading *r, struct gm_err *err);
int reading_gpus(struct reading *r, struct gm_err *err);

/* ------------------------------------------------------------------ question.c */

int reading_open(struct reading *r, struct gm_err *err);

#endif
