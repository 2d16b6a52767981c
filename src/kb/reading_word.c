/* Words by their look, systems, traits, rows and words with a meaning. */
#include "kb/reading.h"

#include <string.h>

#include "base/str.h"

const char *const reading_compute_types[READING_COMPUTE_TYPES] = {
    "int8_float32", "int8_float16", "int8_bfloat16", "int16",  "float16",
    "bfloat16",     "awq",          "int8",          "float32"};

static const char *const compute_aliases[][2] = {
    {"fp16", "float16"}, {"bf16", "bfloat16"}, {"fp32", "float32"}, {"half", "float16"}};

/* Whose memory and parameters a model has, other than packages. */
static const char *const engines[] = {"openai-whisper", "distil-whisper"};

/* ------------------------------------------------------------------ words by their look */

static bool is_hex4(const char *s, size_t n)
{
    return n == 4 && strspn(s, "0123456789abcdef") >= 4;
}

static bool is_pci(const char *word)
{
    const char *colon = strchr(word, ':');
    return colon && is_hex4(word, (size_t)(colon - word)) && is_hex4(colon + 1, strlen(colon + 1));
}

static const char *const error_prefixes[] = {"cuda_error_",    "cudaerror",    "cudnn_status_",
                                             "cublas_status_", "nvrtc_error_", "nvml_error_",
                                             "hiperror"};

static bool is_error_name(const char *word)
{
    for (size_t i = 0; i < COUNT(error_prefixes); i++) {
        size_t n = strlen(error_prefixes[i]);
        if (starts_with(word, error_prefixes[i]) && word[n]) {
            return true;
        }
    }
    return false;
}

/* R535: a driver branch. */
static bool is_branch(const char *word)
{
    return word[0] == 'r' && strlen(word) == 4 && strspn(word + 1, "0123456789") == 3;
}

/* cu118: a build by its CUDA. */
static bool is_build(const char *word)
{
    return starts_with(word, "cu") && strlen(word) == 5 && strspn(word + 2, "0123456789") == 3;
}

static bool is_library(const char *word)
{
    return (starts_with(word, "lib") && strstr(word, ".so")) || ends_with(word, ".dll");
}

/* "L4T 36.4", "L4T R35.4.1", "Jetson Linux 36.4": what a JetPack is built on. */
static bool read_l4t(struct reading *r, size_t i)
{
    struct question *q = r->q;
    size_t at = i + 1 + (reading_is_word(q, i, "jetson") && reading_is_word(q, i + 1, "linux"));
    if ((!reading_is_word(q, i, "l4t") && at == i + 1) || at >= q->n) {
        return false;
    }
    const char *number = q->words[at] + (q->words[at][0] == 'r');
    if (!reading_is_number(number)) {
        return false;
    }
    reading_key_add(q, KEY_BUILD, arena_printf(r->a, "l4t-%s", number));
    for (size_t k = i; k <= at; k++) {
        r->claims[k] = CLAIM_DONE;
    }
    return true;
}

/* "cuda118" where a package has a build of that name; else it is CUDA's release. */
static bool names_build(const struct reading *r, const char *word)
{
    bool shape =
        starts_with(word, "cuda") && strlen(word) == 7 && strspn(word + 4, "0123456789") == 3;
    for (size_t i = 0; shape && i < r->builds.n; i++) {
        if (strcmp(r->builds.rows[i].build, word) == 0) {
            return true;
        }
    }
    return false;
}

bool reading_shape(struct reading *r, size_t i)
{
    struct question *q = r->q;
    const char *word = q->words[i], *raw = q->raw[i];
    const char *compute = reading_listed_as(compute_aliases, COUNT(compute_aliases), word);
    if (read_l4t(r, i)) {
        return true;
    }
    if (starts_with(word, "gfx") && str_is_digit(word[3])) {
        reading_key_add(q, KEY_GFX, word);
    } else if (is_library(word)) {
        while (ends_with(raw, ".")) {
            raw = arena_strndup(r->a, raw, strlen(raw) - 1); // an ellipsis behind the name
        }
        reading_key_add(q, KEY_LIBRARY, raw);
    } else if (is_branch(word)) {
        reading_key_add(q, KEY_DRIVER, word + 1);
    } else if (is_build(word) || names_build(r, word)) {
        reading_key_add(q, KEY_BUILD, word);
    } else if (starts_with(word, "manylinux") && (word[9] == '_' || str_is_digit(word[9]))) {
        reading_key_add(q, KEY_TAG, word);
    } else if (reading_in_list(reading_compute_types, COUNT(reading_compute_types), compute)) {
        reading_key_add(q, KEY_COMPUTE, compute);
    } else if (is_error_name(word)) {
        reading_key_add(q, KEY_ERROR, word);
    } else if (is_pci(word)) {
        reading_key_add(q, KEY_PCI, word);
    } else {
        return false;
    }
    r->claims[i] = CLAIM_DONE;
    return true;
}

void reading_short_targets(struct reading *r)
{
    const struct question *q = r->q;
    for (size_t i = 2; i < q->n; i++) {
        bool follows = strcmp(q->words[i - 1], "/") == 0 && r->claims[i - 2] == CLAIM_DONE &&
                       q->values[KEY_GFX].n > 0;
        if (follows && r->claims[i] == CLAIM_NONE && reading_is_number(q->words[i]) &&
            (starts_with(q->words[i - 2], "gfx") || reading_is_number(q->words[i - 2]))) {
            reading_key_add(r->q, KEY_GFX, arena_printf(r->a, "gfx%s", q->words[i]));
            r->claims[i] = CLAIM_DONE;
        }
    }
}

/* ------------------------------------------------------------------ systems */

/* How many words from `i` are the name of a system, "Ubuntu 18.04" without its version. */
static size_t system_words(const struct question *q, size_t i, struct str name)
{
    size_t n = 0;
    while (name.s) {
        struct str word = str_cut(&name, ' ');
        if (i + n >= q->n || !str_eq_nocase(word, str_of(q->words[i + n]))) {
            return 0;
        }
        n++;
    }
    return n;
}

bool reading_system(struct reading *r, size_t i)
{
    struct question *q = r->q;
    size_t words = 0;
    for (size_t g = 0; g < r->glibcs.n; g++) {
        const struct kb_glibc *row = &r->glibcs.rows[g];
        struct str rest = str_of(row->systems ? row->systems : "");
        while (rest.s && rest.n > 0) {
            struct str system = str_trim(str_cut(&rest, ','));
            size_t space = system.n;
            while (space > 0 && system.s[space] != ' ') {
                space--;
            }
            size_t n = system_words(q, i, (struct str){system.s, space});
            struct str version = {system.s + space + 1, system.n - space - 1};
            words = n > words ? n : words;
            if (n > 0 && i + n < q->n && str_is(version, q->words[i + n])) {
                reading_key_add(q, KEY_GLIBC, row->glibc);
                for (size_t k = i; k <= i + n; k++) {
                    r->claims[k] = CLAIM_DONE;
                }
                return true;
            }
        }
    }
    if (words == 0 || i + words >= q->n || !reading_is_number(q->words[i + words])) {
        return false;
    }
    q->unknown[q->n_unknown++] = arena_printf(r->a, "%s %s", q->raw[i], q->raw[i + words]);
    for (size_t k = i; k <= i + words; k++) {
        r->claims[k] = CLAIM_DONE;
    }
    return true;
}

bool reading_engine(struct reading *r, size_t i)
{
    if (!reading_in_list(engines, COUNT(engines), r->q->words[i])) {
        return false;
    }
    reading_package_add(r->q, r->q->words[i], false);
    r->claims[i] = CLAIM_DONE;
    return true;
}

/* ------------------------------------------------------------------ traits */

/* The instruction sets of x86-64, the least first, as people write them. */
static const char *const instruction_sets[] = {"sse4.1", "sse4.2", "avx", "avx2", "avx512"};

bool question_instruction_set(const char *word, size_t *ret_rank)
{
    for (size_t i = 0; i < COUNT(instruction_sets); i++) {
        if (str_eq_nocase(str_of(word), str_of(instruction_sets[i]))) {
            *ret_rank = i;
            return true;
        }
    }
    return false;
}

/* "flash attention" of the words flash and attention. */
static size_t feature_words(const struct question *q, size_t i, const char *name)
{
    size_t n = 0;
    struct str rest = str_of(name);
    while (rest.s) {
        struct str part = str_cut(&rest, '-');
        if (i + n < q->n && strcmp(q->words[i + n], name) == 0 && n == 0) {
            return 1; // written with hyphens
        }
        if (i + n >= q->n || !str_is(part, q->words[i + n])) {
            return 0;
        }
        n++;
    }
    return n;
}

bool reading_trait(struct reading *r, size_t i)
{
    struct question *q = r->q;
    size_t rank;
    if (question_instruction_set(q->words[i], &rank)) {
        reading_key_add(q, KEY_FEATURE, instruction_sets[rank]);
        r->claims[i] = CLAIM_DONE;
        return true;
    }
    for (size_t t = 0; t < r->traits.n; t++) {
        const struct kb_trait *row = &r->traits.rows[t];
        bool feature = row->kind == KB_TRAIT_FEATURE || row->kind == KB_TRAIT_PACKAGE;
        size_t n = feature ? feature_words(q, i, row->name)
                   : row->kind == KB_TRAIT_VARIABLE
                       ? str_eq_nocase(str_of(row->name), str_of(q->words[i]))
                       : 0;
        if (n > 0) {
            reading_key_add(q, feature ? KEY_FEATURE : KEY_VARIABLE, row->name);
            for (size_t k = i; k < i + n; k++) {
                r->claims[k] = CLAIM_DONE;
            }
            return true;
        }
    }
    return false;
}

bool reading_why(struct reading *r, size_t i)
{
    if (i > 0 || strcmp(r->q->words[i], "why") != 0) {
        return false;
    }
    r->q->why = true;
    r->claims[i] = CLAIM_DONE;
    return true;
}

/* What the words of SAID_README stand for: the name that is printed, and what one of the sources of
 * an answer must have. */
static const struct {
    const char *words, *name;
} documents[] = {
    {"readme benchmark", "readme"},
    {"page pages documentation", "install page"},
    {"sources code", "sources"},
    {"uv", "uv configuration"},
};

const char *question_document(const struct question *q)
{
    for (size_t i = 0; i < COUNT(documents); i++) {
        if (question_has(q, documents[i].words)) {
            return documents[i].name;
        }
    }
    return documents[0].name;
}

/* ------------------------------------------------------------------ rows AREA */

static const char *area_of(const char *word)
{
    for (int i = 0; i < KB_AREAS; i++) {
        if (strcmp(kb_area_name((enum kb_area)i), word) == 0) {
            return word;
        }
    }
    return NULL;
}

bool reading_rows(struct question *q)
{
    if (q->n < 2 || strcmp(q->words[0], "rows") != 0 || !area_of(q->words[1])) {
        return false;
    }
    q->area = q->words[1];
    q->named = NAMED_AREA;
    for (size_t i = 2; i < q->n; i++) {
        reading_value_add(&q->globs, q->words[i]);
    }
    return true;
}

/* ------------------------------------------------------------------ words with a meaning */

void reading_meanings(struct reading *r)
{
    const struct question *q = r->q;
    for (size_t i = 0, used; i < q->n; i += used) {
        size_t free = 0;
        while (i + free < q->n && r->claims[i + free] == CLAIM_NONE) {
            free++;
        }
        const struct word *word = free ? words_find(q->words + i, free, &used) : NULL;
        used = word ? used : 1;
        r->means[i] = word;
        for (size_t k = 0; word && k < used; k++) {
            r->claims[i + k] = CLAIM_MEANS;
        }
    }
}

/* "long-term support or production": of two words with a meaning one is asked for, so that "yes"
 * is no answer. */
static bool asks_which_of_two(const struct reading *r)
{
    for (size_t i = 1; i + 1 < r->q->n; i++) {
        size_t before = i - 1;
        while (before > 0 && r->claims[before] == CLAIM_MEANS && !r->means[before]) {
            before--; // to the first word of the entry
        }
        const struct word *one = r->means[before], *two = r->means[i + 1];
        if (reading_is_word(r->q, i, "or") && one && two && one->asked | one->said &&
            two->asked | two->said) {
            return true;
        }
    }
    return false;
}

/* "does ctranslate2 run on AMD": AMD's GPUs are those of ROCm, if no GPU is named. */
static void add_amd(struct question *q)
{
    bool named =
        q->named & (NAMED_GPU | NAMED_GFX | NAMED_PCI | NAMED_ROCM) || q->named & NAMED_GENERATION;
    if (q->package && !named && question_has(q, "amd radeon")) {
        q->asked |= ASKED_ROCM;
    }
    bool which = q->n > 0 && reading_is_word(q, 0, "which what");
    if (q->package && which && q->asked & ASKED_ROCM && q->asked & ASKED_GPU && !named) {
        q->asked = (q->asked & ~(unsigned)ASKED_GPU) | ASKED_TARGET; // "which GPUs does it run on"
    }
}

/* "torch on PyPI for CUDA 12.6": of the builds of a release the index has the default one. */
static bool asks_for_index(const struct question *q)
{
    return q->package && q->said & SAID_PIP && q->named & (NAMED_CUDA | NAMED_CUDNN) &&
           !(q->said & SAID_AARCH64) && question_has(q, "pypi");
}

bool reading_asks_yes_or_no(const struct question *q)
{
    return q->n && reading_is_word(q, 0, "does do did is are was were can has have will may");
}

void reading_add_meanings(struct reading *r)
{
    for (size_t i = 0; i < r->q->n; i++) {
        if (r->means[i] && r->claims[i] == CLAIM_MEANS) {
            r->q->asked |= r->means[i]->asked;
            r->q->said |= r->means[i]->said;
            r->q->zypper = r->q->zypper || reading_is_word(r->q, i, "zypper suse opensuse sles");
        }
    }
    if (r->q->package && strcmp(r->q->package, "jetpack") == 0) {
        r->q->said &= ~(unsigned)SAID_JETSON; // there is no JetPack for anything else
    }
    add_amd(r->q);
    if (!r->q->package && r->q->named & (NAMED_PART | NAMED_LIBRARY | NAMED_CUDNN) &&
        r->q->said & SAID_DEFAULT && question_has(r->q, "pip")) {
        r->q->said =
            (r->q->said & ~(unsigned)SAID_DEFAULT) | SAID_PIP; // "pip install" of a library
    }
    if (asks_for_index(r->q)) {
        r->q->said = (r->q->said & ~(unsigned)SAID_PIP) | SAID_DEFAULT;
    }
    if (r->q->said & SAID_MANAGERS && !r->q->package && r->q->asked == 0 &&
        r->q->named & (NAMED_PART | NAMED_LIBRARY | NAMED_CUDNN)) {
        r->q->asked = ASKED_PACKAGE; // "apt install libcublas"
    }
    if (reading_asks_yes_or_no(r->q) && !asks_which_of_two(r)) {
        r->q->said |= SAID_DOES;
    }
}

bool reading_asks_for_error(const struct reading *r)
{
    for (size_t i = 0; i < r->q->n; i++) {
        if (r->means[i] && r->means[i]->asked & ASKED_ERROR) {
            return true;
        }
    }
    return false;
}
