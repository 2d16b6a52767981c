/*
 * The words that a question may be made of besides names and numbers, and what each of them means.
 *
 * Every word of a question counts: one that is neither a name nor a number is looked up here, and
 * what is not here is not understood. A word carries bits of what is asked for (enum asked), bits
 * that narrow the answer (enum said), or nothing at all: articles, auxiliary verbs, prepositions.
 * A form of question says which bits it takes (kb/query.c), so that no bit is passed over.
 */
#ifndef GPUMEND_KB_WORDS_H
#define GPUMEND_KB_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* What is asked for. */
enum asked {
    ASKED_DRIVER = 1 << 0,
    ASKED_CUDA = 1 << 1,
    ASKED_CUDNN = 1 << 2,
    ASKED_ROCM = 1 << 3,
    ASKED_PYTHON = 1 << 4,
    ASKED_GLIBC = 1 << 5,
    ASKED_ARCH = 1 << 6, // architectures, compute capability
    ASKED_PTX = 1 << 7,
    ASKED_PACKAGE = 1 << 8,
    ASKED_FOLDER = 1 << 9,
    ASKED_SONAME = 1 << 10,
    ASKED_MEMORY = 1 << 11,
    ASKED_PARAMETERS = 1 << 12,
    ASKED_ALIAS = 1 << 13,
    ASKED_BUILD = 1 << 14,
    ASKED_TARGET = 1 << 15, // gfx target
    ASKED_KFD = 1 << 16,
    ASKED_PCI = 1 << 17,
    ASKED_END = 1 << 18,    // end of life
    ASKED_BRANCH = 1 << 19, // of drivers
    ASKED_NEEDS = 1 << 20,
    ASKED_ERROR = 1 << 21, // name, number or meaning of an error
    ASKED_RELEASE = 1 << 22,
    ASKED_PARTS = 1 << 23, // what a library consists of
    ASKED_COMPUTE = 1 << 24,
    ASKED_GPU = 1 << 25,
    ASKED_SYSTEM = 1 << 26, // the systems with a glibc
    ASKED_IMAGE = 1 << 27,  // what a wheel's build image is, which pip knows its tag
    ASKED_OVERRIDE = 1 << 28,
    ASKED_MODEL = 1 << 29,
    ASKED_VARIABLE = 1 << 30,      // of the environment
    ASKED_OPENS = -0x7fffffff - 1, // the last bit: what is opened at run time
};

/* What narrows the answer. */
enum said {
    SAID_FIRST = 1 << 0, // first, oldest, lowest
    SAID_LAST = 1 << 1,  // last, newest, highest
    SAID_ALL = 1 << 2,
    SAID_DOES = 1 << 3, // a question for yes or no
    SAID_ADDED = 1 << 4,
    SAID_DROPPED = 1 << 5,
    SAID_LINUX = 1 << 6,
    SAID_WINDOWS = 1 << 7,
    SAID_WSL = 1 << 8,
    SAID_JETSON = 1 << 9,
    SAID_X86 = 1 << 10,
    SAID_AARCH64 = 1 << 11,
    SAID_PIP = 1 << 12,
    SAID_APT = 1 << 13,
    SAID_DNF = 1 << 14,
    SAID_CONDA = 1 << 15,
    SAID_OFFICIAL = 1 << 16,
    SAID_README = 1 << 17, // of a document: README, an installation page, source code
    SAID_DEFAULT = 1 << 18,
    SAID_EXPERIMENTAL = 1 << 19,
    SAID_CPU = 1 << 20,
    SAID_WHEEL = 1 << 21,
    SAID_GA = 1 << 22,          // the first release of a toolkit, without its updates
    SAID_NO_FLOOR = 1 << 23,    // "not the minor-version floor"
    SAID_FLOOR = 1 << 24,       // the least version, or of minor-version compatibility
    SAID_LATER = 1 << 25,       // "CUDA 12 and later"
    SAID_NATIVE = 1 << 26,      // native code; what runs efficiently as it is
    SAID_DEVELOPMENT = 1 << 27, // development files, headers
    SAID_RUNTIME = 1 << 28,
    SAID_WHISPER = 1 << 29,
    SAID_META = 1 << 30,
    SAID_WITHOUT = -0x7fffffff - 1, // the last bit
};

#define SAID_SYSTEMS  (SAID_LINUX | SAID_WINDOWS | SAID_WSL | SAID_JETSON)
#define SAID_MANAGERS (SAID_PIP | SAID_APT | SAID_DNF | SAID_CONDA)
#define SAID_HERE     (SAID_LINUX | SAID_X86) // what rows are about unless they say otherwise

struct word {
    const char *text; // lower case; up to four words with a blank between them
    unsigned asked, said;
};

/* The longest entry that the words begin with, and how many words it has; NULL: none. */
const struct word *words_find(const char *const *words, size_t n, size_t *ret_used);

/* The entries one after the other; NULL behind the last. */
const char *words_text(size_t i);

/* How the first word that carries one of the bits is written: to print what was understood. */
const char *words_of_asked(unsigned bit);
const char *words_of_said(unsigned bit);

#endif
