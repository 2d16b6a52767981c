/*
 * What a question names: the things among its words that the knowledge base has rows about, what is
 * asked for, and what narrows the answer.
 *
 *   text  ->  words  ->  names, numbers, words with a meaning (kb/words.h); the rest is unknown
 *
 * A key may have several values ("CUDA 12 and 13", "torch 2.12 to 2.14"): query.c asks for each of
 * them in turn. question_give() is the other way in: one key and its value, as in `--with cuda=12`.
 */
#ifndef GPUMEND_KB_QUESTION_H
#define GPUMEND_KB_QUESTION_H

#include <stdbool.h>

#include "kb/kb.h"
#include "kb/words.h"

enum { QUESTION_WORDS_MAX = 64, QUESTION_LIST_MAX = 8 };

/* What a question names; bits, so that a form can say what it wants. */
enum named {
    NAMED_PACKAGE = 1 << 0,
    NAMED_VERSION = 1 << 1, // of the package
    NAMED_CUDA = 1 << 2,
    NAMED_DRIVER = 1 << 3,
    NAMED_CUDNN = 1 << 4,
    NAMED_SM = 1 << 5,
    NAMED_GFX = 1 << 6,
    NAMED_LIBRARY = 1 << 7, // a file: libcudnn.so.9, cudnn64_9.dll
    NAMED_CODE = 1 << 8,
    NAMED_ERROR = 1 << 9,
    NAMED_PYTHON = 1 << 10,
    NAMED_GLIBC = 1 << 11,
    NAMED_TAG = 1 << 12,
    NAMED_ROCM = 1 << 13,
    NAMED_PCI = 1 << 14,
    NAMED_AREA = 1 << 15,
    NAMED_COMPUTE = 1 << 16, // a compute type, such as int8_float16
    NAMED_OTHER = 1 << 17,   // further packages
    NAMED_GPU = 1 << 18,     // by name
    NAMED_GENERATION = 1 << 19,
    NAMED_MODEL = 1 << 20,
    NAMED_PART = 1 << 21, // a library by what people call it: cuBLAS
    NAMED_BATCH = 1 << 22,
    NAMED_PTX = 1 << 23,
    NAMED_BUILD = 1 << 24,         // of a package: cu118
    NAMED_OTHER_VERSION = 1 << 25, // of a further package
    NAMED_FEATURE = 1 << 26,       // flash attention, AVX2
    NAMED_VARIABLE = 1 << 27,      // CT2_USE_MKL
    NAMED_MEMORY = 1 << 28,        // of a GPU: 4GB
};

struct question_values {
    const char *items[QUESTION_LIST_MAX];
    size_t n;
    bool more; // than fit
};

/* Versions of the package: from `from` to `to`, both included unless said otherwise; equal where
 * one is named. */
struct question_span {
    const char *from, *to;     // NULL: open
    bool above_from, below_to; // without that version itself: ">2.0", "<2.0"
};

/* Keys with one value at a time. Those with a list are asked one after the other. */
enum question_key {
    KEY_CUDA,
    KEY_DRIVER,
    KEY_CUDNN,
    KEY_ROCM,
    KEY_PYTHON,
    KEY_GLIBC,
    KEY_SM,  // "8.6"
    KEY_GFX, // "gfx1030"
    KEY_PTX,
    KEY_TAG,
    KEY_LIBRARY,
    KEY_ERROR,
    KEY_COMPUTE,
    KEY_GPU,
    KEY_PCI, // "10de:2504"
    KEY_MODEL,
    KEY_PART,
    KEY_GENERATION,
    KEY_BATCH,
    KEY_BUILD,
    KEY_FEATURE,
    KEY_VARIABLE,
    KEY_MEMORY, // "4GB"
    KEYS,
};

struct question {
    const char *words[QUESTION_WORDS_MAX]; // lower case, without punctuation; "/" is a word
    const char *raw[QUESTION_WORDS_MAX];   // the same as they were written
    size_t n;
    bool too_long; // there were more words
    bool too_many; // versions or codes than fit; of the others, `more` says it
    const char *unknown[QUESTION_WORDS_MAX]; // words that are not understood, as they were written
    size_t n_unknown;
    unsigned named, asked, said;   // enum named, asked, said
    const char *package, *version; // of several packages the one with a version, or the first
    struct question_span spans[QUESTION_LIST_MAX];
    size_t n_spans;
    struct question_values others;
    const char *other_versions[QUESTION_LIST_MAX]; // of `others`: "2" or a set, ">=1.4,<2"; NULL
    struct question_values values[KEYS];
    const char *one[KEYS]; // the value that is asked for now, or NULL
    bool why;              // the question asks for a reason
    bool zypper;           // of SAID_DNF's packages those for SUSE
    const char *update;    // "1" of "CUDA 12.8 Update 1", or NULL
    const char *area;
    struct question_values globs; // of rows
    int codes[QUESTION_LIST_MAX];
    size_t n_codes;
};

/* Reads a question. Fails only if an area cannot be loaded. */
int question_read(struct kb *kb, struct arena *a, const char *text, struct question *ret,
                  struct gm_err *err) GM_CHECK;

/* Adds "KEY=VALUE" to what is given. GM_ERR_INPUT with the reason if the key is none, or the value
 * is not one of it. */
int question_give(struct kb *kb, struct arena *a, struct question *q, const char *text,
                  struct gm_err *err) GM_CHECK;

/* GM_ERR_USAGE if the question, with what was given, has more values of one kind than fit. */
int question_whole(const struct question *q, struct gm_err *err) GM_CHECK;

/* "cuda": the name of a key in the exact form; NULL behind the last. The values of a key that has a
 * few of its own, such as "linux" of "os"; NULL behind the last. */
const char *question_key_name(size_t key);
const char *question_choice(const char *key, size_t i);
unsigned question_key_bit(size_t key); // enum named

/* Whether a word is an instruction set of x86-64, and which: those before it are parts of it. */
bool question_instruction_set(const char *word, size_t *ret_rank);

/* How the document is called that the answer is to come from (SAID_README). */
const char *question_document(const struct question *q);

/* Which kind of driver branch is meant, as the titles of their rows end: "long-term support",
 * "production"; NULL: any, or a driver is named. */
const char *question_branch_kind(const struct question *q);

/* Whether a row is about the model of that name. */
bool question_names_model(const struct kb_model *m, const char *word);

/* Whether people call a library so: "cuFFT", "cudart", "libcufft". */
bool question_names_part(const struct kb_provide *p, const char *word);

/* "<2.5" and ">=2.1,<2.5": a range as a set of versions. */
const char *question_span_set(struct arena *a, const struct question_span *s);

/* The question in its exact form: "newest ctranslate2 --with cudnn=8". */
const char *question_text(struct arena *a, const struct question *q);

/* Whether one of the words, separated by blanks, occurs in the question. */
bool question_has(const struct question *q, const char *words);

/* Whether it asks if a package needs a CUDA, cuDNN or ROCm, and not only whether it goes with it.
 */
bool question_needs(const struct question *q);

/* Whether it asks for yes or no if something is needed. */
bool question_demands(const struct question *q);

/* Whether it asks for yes or no if a package contains a library, and not only whether it uses it.
 */
bool question_contains(const struct question *q);

/* Whether it asks for the first release that required another package's, and not for the first that
 * goes with it. */
bool question_required_first(const struct question *q);

#endif
