#include "kb/question.h"

#include <string.h>

#include "base/str.h"
#include "py/version.h"

/* Words that carry nothing by themselves. */
static const char *const filler[] = {
    "a",     "an",     "the",   "which",    "what",     "how",      "is",       "are",
    "does",  "do",     "can",   "i",        "my",       "for",      "of",       "on",
    "with",  "in",     "to",    "it",       "its",      "and",      "or",       "at",
    "has",   "have",   "want",  "use",      "uses",     "used",     "need",     "needs",
    "run",   "runs",   "get",   "me",       "tell",     "version",  "versions", "much",
    "many",  "from",   "was",   "by",       "work",     "works",    "needed",   "require",
    "name",  "names",  "list",  "listed",   "requires", "required", "support",  "supports",
    "linux", "x86_64", "ga",    "official", "go",       "goes",     "there",    "this",
    "that",  "please", "first", "number",   "meaning",  "mean",     "means",    "supported",
};

/* Other spellings of packages. */
static const char *const aliases[][2] = {
    {"ct2", "ctranslate2"},
    {"cupy", "cupy-cuda12x"},
    {"fasterwhisper", "faster-whisper"},
    {"onnxruntime", "onnxruntime-gpu"},
    {"ort", "onnxruntime-gpu"},
    {"pytorch", "torch"},
    {"pyav", "av"},
    {"tf", "tensorflow"},
};

static const char *const compute_types[] = {"int8_float32", "int8_float16", "int8_bfloat16",
                                            "int16",        "float16",      "bfloat16",
                                            "awq",          "fp16",         "bf16"};

static bool in_list(const char *const *list, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i], word) == 0) {
            return true;
        }
    }
    return false;
}

bool question_has(const struct question *q, const char *words)
{
    struct str rest = str_of(words);
    while (rest.s) {
        struct str word = str_cut(&rest, ' ');
        for (size_t i = 0; i < q->n; i++) {
            if (str_is(word, q->words[i])) {
                return true;
            }
        }
    }
    return false;
}

/* "12", "12.4", "550.54.15": digits and single dots. */
static bool is_number(const char *s)
{
    size_t n = strlen(s);
    return n > 0 && n < 32 && str_is_digit(s[0]) && str_is_digit(s[n - 1]) &&
           strspn(s, "0123456789.") == n && !strstr(s, "..");
}

static bool is_version(const char *s)
{
    struct py_version v;
    return str_is_digit(s[0]) && py_version_parse(str_of(s), &v);
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* ------------------------------------------------------------------ words */

static bool separates(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == ',' || c == ';' || c == '?' || c == '!' ||
           c == '"' || c == '(' || c == ')' || c == '=' || c == '\'' || c == '/' || c == '>' ||
           c == '<';
}

static void add_word(struct arena *a, struct question *q, const char *text, size_t n)
{
    while (n > 0 && (text[n - 1] == '.' || text[n - 1] == ':')) {
        n--;
    }
    if (n > 2 && text[n - 2] == '.' && text[n - 1] == 'x') {
        n -= 2; // 13.x
    }
    if (n == 0 || q->n == QUESTION_WORDS_MAX) {
        return;
    }
    char *word = arena_strndup(a, text, n);
    q->raw[q->n] = arena_strdup(a, word);
    for (char *c = word; *c; c++) {
        *c = lower(*c);
    }
    q->words[q->n++] = word;
}

static void split(struct arena *a, const char *text, struct question *q)
{
    while (*text) {
        size_t n = 0;
        while (text[n] && !separates(text[n])) {
            n++;
        }
        add_word(a, q, text, n);
        text += n;
        if (*text == '/') {
            add_word(a, q, "/", 1);
        }
        text += *text != '\0';
    }
}

/* ------------------------------------------------------------------ what one word names */

/* The number behind `prefix` in the word itself ("cuda12.4", "sm_86"), or NULL. */
static const char *number_in(const char *word, const char *prefix)
{
    if (!starts_with(word, prefix)) {
        return NULL;
    }
    word += strlen(prefix);
    word += *word == '_' || *word == '-' || *word == 'v';
    return is_number(word) ? word : NULL;
}

/* The number that belongs to the keyword words[i]: inside the word, or the word behind it. */
static const char *number_of(const struct question *q, size_t i, const char *keyword,
                             size_t *ret_used)
{
    const char *inside = number_in(q->words[i], keyword);
    *ret_used = 1;
    if (inside) {
        return inside;
    }
    if (strcmp(q->words[i], keyword) != 0 || i + 1 >= q->n) {
        return NULL;
    }
    const char *next = q->words[i + 1];
    next += next[0] == 'r' || next[0] == 'v'; // R535, v12
    *ret_used = 2;
    return is_number(next) ? next : NULL;
}

/* "86" and "120" of sm_86 and sm_120 as a capability. */
static const char *capability_of(struct arena *a, const char *digits)
{
    size_t n = strspn(digits, "0123456789");
    if (strchr(digits, '.')) {
        return digits;
    }
    return n < 2 || n > 3 ? NULL : arena_printf(a, "%.*s.%c", (int)n - 1, digits, digits[n - 1]);
}

struct keyword {
    const char *word;
    enum named named;
    size_t offset; // of the text in struct question
};

static const struct keyword keywords[] = {
    {"cuda", NAMED_CUDA, offsetof(struct question, cuda)},
    {"toolkit", NAMED_CUDA, offsetof(struct question, cuda)},
    {"driver", NAMED_DRIVER, offsetof(struct question, driver)},
    {"nvidia-driver", NAMED_DRIVER, offsetof(struct question, driver)},
    {"cudnn", NAMED_CUDNN, offsetof(struct question, cudnn)},
    {"python", NAMED_PYTHON, offsetof(struct question, python)},
    {"glibc", NAMED_GLIBC, offsetof(struct question, glibc)},
    {"rocm", NAMED_ROCM, offsetof(struct question, rocm)},
    {"sm", NAMED_SM, offsetof(struct question, sm)},
    {"compute", NAMED_SM, offsetof(struct question, sm)},
    {"capability", NAMED_SM, offsetof(struct question, sm)},
    {"cc", NAMED_SM, offsetof(struct question, sm)},
};

static bool read_keyword(struct arena *a, struct question *q, size_t i, size_t *ret_used)
{
    for (size_t k = 0; k < sizeof keywords / sizeof *keywords; k++) {
        const struct keyword *key = &keywords[k];
        const char *number = number_of(q, i, key->word, ret_used);
        if (number && key->named == NAMED_SM) {
            number = capability_of(a, number);
        }
        if (number) {
            memcpy((char *)q + key->offset, &number, sizeof number);
            q->named |= key->named;
            return true;
        }
    }
    return false;
}

static bool is_hex4(const char *s, size_t n)
{
    return n == 4 && strspn(s, "0123456789abcdef") >= 4;
}

static bool read_pci(struct arena *a, struct question *q, const char *word)
{
    const char *colon = strchr(word, ':');
    if (!colon || !is_hex4(word, (size_t)(colon - word)) ||
        !is_hex4(colon + 1, strlen(colon + 1))) {
        return false;
    }
    q->pci_vendor = arena_strndup(a, word, 4);
    q->pci_device = colon + 1;
    q->named |= NAMED_PCI;
    return true;
}

static bool set(struct question *q, const char **field, enum named named, const char *value)
{
    *field = value;
    q->named |= named;
    return true;
}

static const char *const error_prefixes[] = {"cuda_error_",    "cudaerror",    "cudnn_status_",
                                             "cublas_status_", "nvrtc_error_", "nvml_error_",
                                             "hiperror"};

static bool is_error_name(const char *word)
{
    for (size_t i = 0; i < sizeof error_prefixes / sizeof *error_prefixes; i++) {
        if (starts_with(word, error_prefixes[i])) {
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

/* Words that say by their look what they are. */
static bool read_shape(struct arena *a, struct question *q, size_t i)
{
    const char *word = q->words[i];
    if (starts_with(word, "gfx") && str_is_digit(word[3])) {
        return set(q, &q->gfx, NAMED_GFX, q->gfx ? q->gfx : word);
    }
    if (starts_with(word, "lib") && strstr(word, ".so")) {
        return set(q, &q->library, NAMED_LIBRARY, q->raw[i]);
    }
    if (is_branch(word)) {
        return set(q, &q->driver, NAMED_DRIVER, word + 1);
    }
    if (starts_with(word, "manylinux")) {
        return set(q, &q->tag, NAMED_TAG, word);
    }
    if (in_list(compute_types, sizeof compute_types / sizeof *compute_types, word)) {
        const char *full = strcmp(word, "fp16") == 0   ? "float16"
                           : strcmp(word, "bf16") == 0 ? "bfloat16"
                                                       : word;
        return set(q, &q->compute, NAMED_COMPUTE, full);
    }
    if (is_error_name(word)) {
        return set(q, &q->error, NAMED_ERROR, word);
    }
    return read_pci(a, q, word);
}

/* The usual spelling of a package, with "-" for "_". */
static const char *package_name(struct arena *a, const char *word)
{
    char *name = arena_strdup(a, word);
    for (char *c = strchr(name, '_'); c; c = strchr(c, '_')) {
        *c = '-';
    }
    word = name;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if (strcmp(aliases[i][0], word) == 0) {
            return aliases[i][1];
        }
    }
    return word;
}

static void add_other(struct question *q, const char *name)
{
    if (q->n_others < QUESTION_LIST_MAX) {
        q->others[q->n_others++] = name;
        q->named |= NAMED_OTHER;
    }
}

/* Of several packages the question is about the one with a version: "which ctranslate2 does
 * whisperx 3.8.6 need". */
static bool add_package(struct question *q, const char *name, const char *version)
{
    if (q->package && strcmp(q->package, name) == 0) {
        version = q->version ? NULL : version;
    } else if (!q->package) {
        set(q, &q->package, NAMED_PACKAGE, name);
    } else if (version && !q->version) {
        add_other(q, q->package);
        q->package = name;
    } else {
        add_other(q, name);
        version = NULL;
    }
    return !version || set(q, &q->version, NAMED_VERSION, version);
}

/* "torch 2.5.1", "torch==2.5.1" (already split), "torch-2.5.1", "faster whisper 1.1". */
static bool read_package(struct arena *a, struct question *q, size_t i,
                         bool (*known)(void *, const char *), void *arg, size_t *ret_used)
{
    const char *word = q->words[i];
    const char *two = i + 1 < q->n ? arena_printf(a, "%s-%s", word, q->words[i + 1]) : word;
    size_t dash = strlen(word);
    while (dash > 0 && word[dash - 1] != '-') {
        dash--;
    }
    const char *behind = dash > 0 && is_version(word + dash) ? word + dash : NULL;
    const char *head = behind ? arena_strndup(a, word, dash - 1) : word;
    bool is_two = i + 1 < q->n && !is_version(q->words[i + 1]) && known(arg, two);
    const char *name = is_two ? two : package_name(a, head);
    if (!known(arg, name)) {
        return false;
    }
    *ret_used = is_two ? 2 : 1;
    size_t next = i + *ret_used;
    if (!behind && next < q->n && is_version(q->words[next])) {
        behind = q->words[next];
        (*ret_used)++;
    }
    return add_package(q, name, behind);
}

static const char *area_of(const char *word)
{
    for (int i = 0; i < KB_AREAS; i++) {
        if (strcmp(kb_area_name((enum kb_area)i), word) == 0) {
            return word;
        }
    }
    return NULL;
}

/* "rows drivers", "rows errors cudnn9-1*". */
static bool read_rows(struct question *q)
{
    if (q->n < 2 || strcmp(q->words[0], "rows") != 0 || !area_of(q->words[1])) {
        return false;
    }
    set(q, &q->area, NAMED_AREA, q->words[1]);
    for (size_t i = 2; i < q->n; i++) {
        q->rest[q->n_rest++] = q->words[i];
    }
    return true;
}

static bool read_code(struct question *q, const char *word)
{
    uint64_t number;
    if (q->n_codes == QUESTION_LIST_MAX || !str_u64(str_of(word), &number) || number > 1000000) {
        return false;
    }
    q->codes[q->n_codes++] = (int)number;
    q->named |= NAMED_CODE;
    return true;
}

/* A version that stands apart from its package: "wheels of ctranslate2 up to 4.6.2". */
static void read_loose_version(struct question *q)
{
    for (size_t i = 0; q->package && !q->version && !q->python && i < q->n_rest; i++) {
        if (strchr(q->rest[i], '.') && is_version(q->rest[i])) {
            set(q, &q->version, NAMED_VERSION, q->rest[i]);
        }
    }
}

void question_read(struct arena *a, const char *text, bool (*known)(void *arg, const char *package),
                   void *arg, struct question *ret)
{
    *ret = (struct question){.n = 0};
    split(a, text, ret);
    if (read_rows(ret)) {
        return;
    }
    for (size_t i = 0, used = 1; i < ret->n; i += used) {
        const char *word = ret->words[i];
        used = 1;
        if (read_shape(a, ret, i) || read_keyword(a, ret, i, &used) ||
            read_package(a, ret, i, known, arg, &used)) {
            continue;
        }
        used = 1;
        (void)read_code(ret, word); // it may be part of a GPU's name all the same
        if (!in_list(filler, sizeof filler / sizeof *filler, word)) {
            ret->rest[ret->n_rest++] = word;
        }
    }
    read_loose_version(ret);
}
