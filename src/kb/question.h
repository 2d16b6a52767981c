/*
 * What a question names: its words, and the things among them that the knowledge base has rows
 * about. Shared by question.c, which reads the text, and query.c, which looks the rows up.
 */
#ifndef GPUMEND_KB_QUESTION_H
#define GPUMEND_KB_QUESTION_H

#include <stdbool.h>

#include "kb/kb.h"

enum { QUESTION_WORDS_MAX = 64, QUESTION_LIST_MAX = 6 };

/* What a question names; bits, so that a form can say what it wants. */
enum named {
    NAMED_PACKAGE = 1 << 0,
    NAMED_VERSION = 1 << 1, // of the package
    NAMED_CUDA = 1 << 2,
    NAMED_DRIVER = 1 << 3,
    NAMED_CUDNN = 1 << 4,
    NAMED_SM = 1 << 5,
    NAMED_GFX = 1 << 6,
    NAMED_LIBRARY = 1 << 7,
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
};

struct question {
    const char *words[QUESTION_WORDS_MAX]; // lower case, without punctuation; "/" is a word
    const char *raw[QUESTION_WORDS_MAX];   // the same as they were written
    size_t n;
    const char *rest[QUESTION_WORDS_MAX]; // words that name nothing else: a GPU or model, perhaps
    size_t n_rest;
    unsigned named;                // enum named
    const char *package, *version; // of several packages the one with a version, or the first
    const char *others[QUESTION_LIST_MAX];
    size_t n_others;
    const char *cuda, *driver, *cudnn, *python, *glibc, *tag, *rocm, *library, *error, *compute;
    const char *sm;  // "8.6"
    const char *gfx; // "gfx1030"
    const char *pci_vendor, *pci_device;
    const char *area;
    int codes[QUESTION_LIST_MAX];
    size_t n_codes;
};

/* Reads a question. `known` says whether a text is the name of a package that has rows. */
void question_read(struct arena *a, const char *text, bool (*known)(void *arg, const char *package),
                   void *arg, struct question *ret);

/* Whether one of the words, separated by blanks, occurs in the question. */
bool question_has(const struct question *q, const char *words);

#endif
