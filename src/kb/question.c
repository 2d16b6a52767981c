#include "kb/question.h"

#include <string.h>

#include "base/str.h"
#include "kb/gpu_name.h"
#include "py/version.h"

/* Other spellings of packages. */
static const char *const aliases[][2] = {
    {"ct2", "ctranslate2"},
    {"cupy", "cupy-cuda12x"},
    {"fasterwhisper", "faster-whisper"},
    {"onnxruntime", "onnxruntime-gpu"},
    {"ort", "onnxruntime-gpu"},
    {"pytorch", "torch"},
    {"pyannote", "pyannote-audio"},
    {"pyav", "av"},
    {"tf", "tensorflow"},
};

static const char *const compute_types[] = {"int8_float32", "int8_float16", "int8_bfloat16",
                                            "int16",        "float16",      "bfloat16",
                                            "awq",          "int8",         "float32"};

static const char *const compute_aliases[][2] = {
    {"fp16", "float16"}, {"bf16", "bfloat16"}, {"fp32", "float32"}, {"half", "float16"}};

/* Whose memory and parameters a model has, other than packages. */
static const char *const engines[] = {"openai-whisper", "distil-whisper"};

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
    struct kb_glibcs glibcs;
    struct kb_traits traits;
    enum claim claims[QUESTION_WORDS_MAX];
    const struct word *means[QUESTION_WORDS_MAX]; // at the first word of an entry
    bool in_gpu_names[QUESTION_WORDS_MAX];
    size_t owner[QUESTION_WORDS_MAX]; // the key whose value begins here, OWNER_PACKAGE, or KEYS
};

enum { OWNER_PACKAGE = KEYS + 1 };

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

static const char *listed_as(const char *const (*list)[2], size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i][0], word) == 0) {
            return list[i][1];
        }
    }
    return word;
}

static bool in_list(const char *const *list, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i], word) == 0) {
            return true;
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

static const char *lower_text(struct arena *a, const char *text)
{
    char *copy = arena_strdup(a, text);
    for (char *c = copy; *c; c++) {
        *c = str_lower(*c);
    }
    return copy;
}

static void value_add(struct question_values *values, const char *text)
{
    for (size_t i = 0; i < values->n; i++) {
        if (strcmp(values->items[i], text) == 0) {
            return;
        }
    }
    if (values->n < QUESTION_LIST_MAX) {
        values->items[values->n++] = text;
    }
}

/* ------------------------------------------------------------------ words */

static bool separates(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == ',' || c == ';' || c == '?' || c == '!' ||
           c == '"' || c == '(' || c == ')' || c == '=' || c == '\'' || c == '/' || c == '>' ||
           c == '<' || c == '`';
}

/* "80 GB" is one word, as "80GB" is. */
static bool joins_number(const struct question *q, const char *word)
{
    const char *before = q->n ? q->words[q->n - 1] : "";
    return strcmp(word, "gb") == 0 && strlen(before) < 4 && is_number(before) &&
           !strchr(before, '.');
}

/* "4.7.1-rocm62-gfx1010" as a wheel writes it: "4.7.1+rocm62.gfx1010". */
static const char *version_written(struct arena *a, const char *word)
{
    size_t n = strspn(word, "0123456789.");
    bool local = n > 0 && (starts_with(word + n, "-rocm") || starts_with(word + n, "-cu"));
    char *copy = arena_strdup(a, word);
    for (char *c = strchr(copy, '-'); local && c; c = strchr(c, '-')) {
        *c = c == copy + n ? '+' : '.';
    }
    return copy;
}

static void add_word(struct arena *a, struct question *q, const char *text, size_t n)
{
    while (n > 0 && (text[n - 1] == '.' || text[n - 1] == ':')) {
        n--;
    }
    bool later = n > 1 && text[n - 1] == '+' && str_is_digit(text[n - 2]);
    n -= later;
    if (n > 2 && text[n - 2] == '.' && text[n - 1] == 'x') {
        n -= 2; // 13.x
    }
    if (n == 0 || q->n == QUESTION_WORDS_MAX) {
        q->too_long |= n > 0;
        return;
    }
    const char *raw = arena_strndup(a, text, n);
    const char *word = version_written(a, lower_text(a, raw));
    if (joins_number(q, word)) {
        q->words[q->n - 1] = arena_printf(a, "%s%s", q->words[q->n - 1], word);
        q->raw[q->n - 1] = q->words[q->n - 1];
        return;
    }
    q->raw[q->n] = raw;
    q->words[q->n++] = word;
    if (later) {
        add_word(a, q, "later", strlen("later"));
    }
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
        bool possessive =
            n > 0 && text[0] == '\'' && text[1] == 's' && (!text[2] || separates(text[2]));
        text += possessive ? 2 : 0;
        if (*text == '/') {
            add_word(a, q, "/", 1);
        }
        text += *text != '\0';
    }
}

/* ------------------------------------------------------------------ keys */

enum shape { SHAPE_NUMBER, SHAPE_CAPABILITY, SHAPE_WORD };

struct key {
    const char *name; // in the exact form
    enum named named;
    enum shape shape;
};

static const struct key keys[KEYS] = {
    [KEY_CUDA] = {"cuda", NAMED_CUDA, SHAPE_NUMBER},
    [KEY_DRIVER] = {"driver", NAMED_DRIVER, SHAPE_NUMBER},
    [KEY_CUDNN] = {"cudnn", NAMED_CUDNN, SHAPE_NUMBER},
    [KEY_ROCM] = {"rocm", NAMED_ROCM, SHAPE_NUMBER},
    [KEY_PYTHON] = {"python", NAMED_PYTHON, SHAPE_NUMBER},
    [KEY_GLIBC] = {"glibc", NAMED_GLIBC, SHAPE_NUMBER},
    [KEY_SM] = {"sm", NAMED_SM, SHAPE_CAPABILITY},
    [KEY_GFX] = {"gfx", NAMED_GFX, SHAPE_WORD},
    [KEY_PTX] = {"ptx", NAMED_PTX, SHAPE_NUMBER},
    [KEY_TAG] = {"tag", NAMED_TAG, SHAPE_WORD},
    [KEY_LIBRARY] = {"library", NAMED_LIBRARY, SHAPE_WORD},
    [KEY_ERROR] = {"error", NAMED_ERROR, SHAPE_WORD},
    [KEY_COMPUTE] = {"compute-type", NAMED_COMPUTE, SHAPE_WORD},
    [KEY_GPU] = {"gpu", NAMED_GPU, SHAPE_WORD},
    [KEY_PCI] = {"pci", NAMED_PCI, SHAPE_WORD},
    [KEY_MODEL] = {"model", NAMED_MODEL, SHAPE_WORD},
    [KEY_PART] = {"part", NAMED_PART, SHAPE_WORD},
    [KEY_GENERATION] = {"generation", NAMED_GENERATION, SHAPE_WORD},
    [KEY_BATCH] = {"batch", NAMED_BATCH, SHAPE_NUMBER},
    [KEY_BUILD] = {"build", NAMED_BUILD, SHAPE_WORD},
    [KEY_FEATURE] = {"feature", NAMED_FEATURE, SHAPE_WORD},
    [KEY_VARIABLE] = {"variable", NAMED_VARIABLE, SHAPE_WORD},
};

/* The words before a number that say whose it is. */
static const struct keyword {
    const char *word;
    enum question_key key;
} keywords[] = {
    {"cuda", KEY_CUDA},     {"toolkit", KEY_CUDA},
    {"driver", KEY_DRIVER}, {"nvidia-driver", KEY_DRIVER},
    {"branch", KEY_DRIVER}, {"cudnn", KEY_CUDNN},
    {"python", KEY_PYTHON}, {"glibc", KEY_GLIBC},
    {"rocm", KEY_ROCM},     {"sm", KEY_SM},
    {"compute", KEY_SM},    {"capability", KEY_SM},
    {"cc", KEY_SM},         {"ptx", KEY_PTX},
    {"isa", KEY_PTX},       {"batch", KEY_BATCH},
};

static void key_add(struct question *q, enum question_key key, const char *value)
{
    value_add(&q->values[key], value);
    q->named |= keys[key].named;
}

static void key_remove(struct question *q, enum question_key key)
{
    q->values[key].n = 0;
    q->named &= ~(unsigned)keys[key].named;
}

/* "86" and "120" of sm_86 and sm_120 as a capability; architecture-specific ones (sm_90a) are none.
 */
static const char *capability_of(struct arena *a, const char *digits)
{
    size_t n = strspn(digits, "0123456789");
    if (strchr(digits, '.')) {
        return is_number(digits) ? digits : NULL;
    }
    return n < 2 || n > 3 || digits[n]
               ? NULL
               : arena_printf(a, "%.*s.%s", (int)n - 1, digits, digits + n - 1);
}

/* "5.7..7.2": the releases from one to another. */
static bool is_range(const char *text)
{
    size_t n = strspn(text, "0123456789");
    n += text[n] == '.' && text[n + 1] != '.' ? 1 + strspn(text + n + 1, "0123456789") : 0;
    return n > 0 && strncmp(text + n, "..", 2) == 0 && is_number(text + n + 2);
}

/* What a text is as the value of a key; NULL: it is none. */
static const char *key_value(struct arena *a, enum question_key key, const char *text)
{
    switch (keys[key].shape) {
    case SHAPE_CAPABILITY: return capability_of(a, text);
    case SHAPE_NUMBER:
        if (key == KEY_ROCM && is_range(text)) {
            return text;
        }
        return is_number(text) || (key == KEY_BATCH && starts_with(text, "beam ") &&
                                   is_number(text + strlen("beam ")))
                   ? text
                   : NULL;
    case SHAPE_WORD: break;
    }
    return NULL;
}

/* The number behind `prefix` in the word itself ("cuda12.4", "sm_86", "cu126"). */
static const char *number_inside(const char *word, const char *prefix)
{
    if (!starts_with(word, prefix)) {
        return NULL;
    }
    word += strlen(prefix);
    word += *word == '_' || *word == '-' || *word == 'v';
    return str_is_digit(*word) ? word : NULL;
}

static void key_list(struct reading *r, size_t i, enum question_key key);

static bool is_word(const struct question *q, size_t i, const char *words);

/* "CUDA toolkit 11.1", "compute capability 8.6", "batch size 8". */
static bool keyword_has_noun(const struct question *q, size_t i)
{
    return is_word(q, i, "toolkit version release capability branch size isa major") &&
           i + 1 < q->n;
}

/* "cuda 12.4", "cuda12.4", "driver R535". */
static bool read_keyword(struct reading *r, size_t i)
{
    struct question *q = r->q;
    for (size_t k = 0; k < COUNT(keywords); k++) {
        const struct keyword *word = &keywords[k];
        const char *inside = number_inside(q->words[i], word->word);
        const char *value = inside ? key_value(r->a, word->key, inside) : NULL;
        size_t used = 1;
        if (!value && strcmp(q->words[i], word->word) == 0) {
            used = 2 + keyword_has_noun(q, i + 1);
            const char *next = i + used <= q->n ? q->words[i + used - 1] : "";
            next += (next[0] == 'r' || next[0] == 'v') && str_is_digit(next[1]);
            value = key_value(r->a, word->key, next);
        }
        if (value) {
            key_add(q, word->key, value);
            for (size_t c = i; c < i + used; c++) {
                r->claims[c] = CLAIM_DONE;
            }
            r->owner[i] = word->key;
            key_list(r, i + used, word->key);
            return true;
        }
    }
    return false;
}

/* "and 13", "/ 8", "or 12.6" behind a value: more values of the key. */
static void key_list(struct reading *r, size_t i, enum question_key key)
{
    const struct question *q = r->q;
    while (i < q->n) {
        bool link = strcmp(q->words[i], "and") == 0 || strcmp(q->words[i], "or") == 0 ||
                    strcmp(q->words[i], "/") == 0;
        size_t at = i + link;
        const char *value =
            at < q->n && r->claims[at] == CLAIM_NONE ? key_value(r->a, key, q->words[at]) : NULL;
        bool listed = link || (key == KEY_CUDA && !r->q->package && value &&
                               strchr(value, '.') == strrchr(value, '.')); // a comma was there
        if (!value || !listed) {
            return;
        }
        key_add(r->q, key, value);
        r->claims[i] = CLAIM_DONE;
        r->claims[at] = CLAIM_DONE;
        i = at + 1;
    }
}

/* "Update 1" of a toolkit. */
static bool read_update(struct reading *r, size_t i)
{
    struct question *q = r->q;
    if (strcmp(q->words[i], "update") != 0 || i + 1 >= q->n || !is_number(q->words[i + 1])) {
        return false;
    }
    q->update = q->words[i + 1];
    r->claims[i] = r->claims[i + 1] = CLAIM_DONE;
    return true;
}

/* "between 5.7 and 7.2", where releases of ROCm alone are meant. */
static bool read_rocm_range(struct reading *r, size_t i)
{
    struct question *q = r->q;
    size_t named = is_word(q, i + 1, "rocm");
    size_t from = i + 1 + named, to = from + 2 + is_word(q, from + 2, "rocm");
    if (strcmp(q->words[i], "between") != 0 || to >= q->n || !is_number(q->words[from]) ||
        !is_word(q, from + 1, "and") || !is_number(q->words[to]) || q->package ||
        !question_has(q, "rocm")) {
        return false;
    }
    key_add(q, KEY_ROCM, arena_printf(r->a, "%s..%s", q->words[from], q->words[to]));
    for (size_t k = i; k <= to; k++) {
        r->claims[k] = CLAIM_DONE;
    }
    return true;
}

/* "(beam 5)": how a measurement was made. */
static bool read_beam(struct reading *r, size_t i)
{
    struct question *q = r->q;
    if (strcmp(q->words[i], "beam") != 0 || i + 1 >= q->n || !is_number(q->words[i + 1])) {
        return false;
    }
    key_add(q, KEY_BATCH, arena_printf(r->a, "beam %s", q->words[i + 1]));
    r->claims[i] = r->claims[i + 1] = CLAIM_DONE;
    return true;
}

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

/* Words that say by their look what they are. */
static bool read_shape(struct reading *r, size_t i)
{
    struct question *q = r->q;
    const char *word = q->words[i], *raw = q->raw[i];
    const char *compute = listed_as(compute_aliases, COUNT(compute_aliases), word);
    if (starts_with(word, "gfx") && str_is_digit(word[3])) {
        key_add(q, KEY_GFX, word);
    } else if (is_library(word)) {
        while (ends_with(raw, ".")) {
            raw = arena_strndup(r->a, raw, strlen(raw) - 1); // an ellipsis behind the name
        }
        key_add(q, KEY_LIBRARY, raw);
    } else if (is_branch(word)) {
        key_add(q, KEY_DRIVER, word + 1);
    } else if (is_build(word)) {
        key_add(q, KEY_BUILD, word);
    } else if (starts_with(word, "manylinux") && (word[9] == '_' || str_is_digit(word[9]))) {
        key_add(q, KEY_TAG, word);
    } else if (in_list(compute_types, COUNT(compute_types), compute)) {
        key_add(q, KEY_COMPUTE, compute);
    } else if (is_error_name(word)) {
        key_add(q, KEY_ERROR, word);
    } else if (is_pci(word)) {
        key_add(q, KEY_PCI, word);
    } else {
        return false;
    }
    r->claims[i] = CLAIM_DONE;
    return true;
}

/* "gfx1010/1011/1012": the numbers behind a target. */
static void read_short_targets(struct reading *r)
{
    const struct question *q = r->q;
    for (size_t i = 2; i < q->n; i++) {
        bool follows = strcmp(q->words[i - 1], "/") == 0 && r->claims[i - 2] == CLAIM_DONE &&
                       q->values[KEY_GFX].n > 0;
        if (follows && r->claims[i] == CLAIM_NONE && is_number(q->words[i]) &&
            (starts_with(q->words[i - 2], "gfx") || is_number(q->words[i - 2]))) {
            key_add(r->q, KEY_GFX, arena_printf(r->a, "gfx%s", q->words[i]));
            r->claims[i] = CLAIM_DONE;
        }
    }
}

/* ------------------------------------------------------------------ packages */

/* Names of packages: those with rows, and those that they need. */
static bool package_known(const struct reading *r, const char *name)
{
    if (starts_with(name, "cuda-")) {
        return false; // "cuda toolkit" is not the package of that name
    }
    for (size_t i = 0; i < r->compats.n; i++) {
        if (strcmp(r->compats.rows[i].package, name) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < r->releases.n; i++) {
        const struct kb_release *row = &r->releases.rows[i];
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

/* The usual spelling of a package, with "-" for "_". */
static const char *package_name(struct arena *a, const char *word)
{
    char *name = arena_strdup(a, word);
    for (char *c = strchr(name, '_'); c; c = strchr(c, '_')) {
        *c = '-';
    }
    return listed_as(aliases, COUNT(aliases), name);
}

static void span_add(struct question *q, const char *from, const char *to)
{
    if (q->n_spans < QUESTION_LIST_MAX) {
        q->spans[q->n_spans++] = (struct question_span){from, to};
    }
    q->version = q->version ? q->version : from ? from : to;
    q->named |= NAMED_VERSION;
}

/* Of several packages the question is about the one with a version: "which ctranslate2 does
 * whisperx 3.8.6 need". */
static void package_add(struct question *q, const char *name, bool with_version)
{
    q->named |= NAMED_PACKAGE;
    if (!q->package || strcmp(q->package, name) == 0) {
        q->package = name;
    } else if (with_version && q->n_spans == 0) {
        value_add(&q->others, q->package);
        q->package = name;
    } else {
        value_add(&q->others, name);
    }
    q->named |= q->others.n ? NAMED_OTHER : 0;
}

static void other_version_add(struct question *q, const char *name, const char *version)
{
    for (size_t i = 0; i < q->others.n; i++) {
        if (strcmp(q->others.items[i], name) == 0) {
            q->other_versions[i] = version;
            q->named |= NAMED_OTHER_VERSION;
        }
    }
}

static bool is_word(const struct question *q, size_t i, const char *words)
{
    struct str rest = str_of(words);
    while (i < q->n && rest.s) {
        if (str_is(str_cut(&rest, ' '), q->words[i])) {
            return true;
        }
    }
    return false;
}

/* "2.7.1+cu118" is a release and one of its builds. */
static const char *release_of(struct arena *a, struct question *q, const char *version)
{
    size_t n = strcspn(version, "+");
    if (version[n]) {
        key_add(q, KEY_BUILD, version + n + 1);
    }
    return arena_strndup(a, version, n);
}

/* The words around a version that make a range of it: "up to 4.6.2", "3.7.7 and later", "2.12 to
 * 2.14". Returns the first word behind them. */
static size_t read_span(struct reading *r, size_t i)
{
    struct question *q = r->q;
    const char *from = release_of(r->a, q, q->words[i]), *to = from;
    size_t end = i + 1;
    if (i > 0 && is_word(q, i - 1, "between") && is_word(q, end, "and") && end + 1 < q->n &&
        is_version(q->words[end + 1])) {
        to = q->words[end + 1];
        end += 2;
        r->claims[i - 1] = CLAIM_DONE;
    } else if (is_word(q, end, "to until through -") && end + 1 < q->n &&
               is_version(q->words[end + 1])) {
        to = q->words[end + 1];
        end += 2;
    } else if (is_word(q, end, "and or") && is_word(q, end + 1, "later newer up higher above")) {
        to = NULL;
        end += 2;
    } else if (is_word(q, end, "later onwards on upwards") && !is_word(q, end, "on")) {
        to = NULL;
        end += 1;
    }
    if (i > 0 && is_word(q, i - 1, "until to") && to == from) {
        from = NULL;
        r->claims[i - 1] = CLAIM_DONE;
        if (i > 1 && is_word(q, i - 2, "up")) {
            r->claims[i - 2] = CLAIM_DONE;
        }
    }
    for (size_t k = i; k < end; k++) {
        r->claims[k] = CLAIM_DONE;
    }
    span_add(q, from, to);
    return end;
}

/* The versions behind a package: "1.5 and 1.6", "1.13 / 2.0", "4.6.1, 4.6.2". */
static void read_versions(struct reading *r, size_t i)
{
    const struct question *q = r->q;
    while (i < q->n && is_version(q->words[i])) {
        i = read_span(r, i);
        bool link = is_word(q, i, "and or /") && i + 1 < q->n && is_version(q->words[i + 1]);
        if (link) {
            r->claims[i] = CLAIM_DONE;
        }
        i += link;
    }
}

static bool package_is_plain_word(const char *word)
{
    size_t used;
    return words_find(&word, 1, &used) != NULL;
}

/* "torch 2.5.1", "torch==2.5.1" (already split), "torch-2.5.1", "faster whisper 1.1". */
static bool read_package(struct reading *r, size_t i)
{
    const struct question *q = r->q;
    const char *word = q->words[i];
    bool pair = i + 1 < q->n && !is_version(q->words[i + 1]);
    const char *two =
        pair ? package_name(r->a, arena_printf(r->a, "%s-%s", word, q->words[i + 1])) : word;
    size_t dash = strlen(word);
    while (dash > 0 && word[dash - 1] != '-') {
        dash--;
    }
    const char *behind = dash > 0 && is_version(word + dash) ? word + dash : NULL;
    const char *name = package_name(r->a, behind ? arena_strndup(r->a, word, dash - 1) : word);
    pair = pair && package_known(r, two);
    if (!pair && (package_is_plain_word(word) || !package_known(r, name))) {
        return false;
    }
    name = pair ? two : name;
    size_t next = i + 1 + pair;
    bool versions = !behind && next < q->n && is_version(q->words[next]);
    bool first = !q->package || q->n_spans == 0 || strcmp(q->package, name) == 0;
    package_add(r->q, name, versions || behind);
    r->claims[i] = r->claims[next - 1] = CLAIM_DONE;
    r->owner[i] = OWNER_PACKAGE;
    if (first && versions) {
        read_versions(r, next);
    } else if (first && behind) {
        behind = release_of(r->a, r->q, behind);
        span_add(r->q, behind, behind);
    } else if (versions || behind) {
        other_version_add(r->q, name, behind ? behind : q->words[next]);
        r->claims[next] = versions ? CLAIM_DONE : r->claims[next];
    }
    return true;
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

/* "Ubuntu 18.04" stands for its glibc; a release of a system that has no row is not understood. */
static bool read_system(struct reading *r, size_t i)
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
                key_add(q, KEY_GLIBC, row->glibc);
                for (size_t k = i; k <= i + n; k++) {
                    r->claims[k] = CLAIM_DONE;
                }
                return true;
            }
        }
    }
    if (words == 0 || i + words >= q->n || !is_number(q->words[i + words])) {
        return false;
    }
    q->unknown[q->n_unknown++] = arena_printf(r->a, "%s %s", q->raw[i], q->raw[i + words]);
    for (size_t k = i; k <= i + words; k++) {
        r->claims[k] = CLAIM_DONE;
    }
    return true;
}

static bool read_engine(struct reading *r, size_t i)
{
    if (!in_list(engines, COUNT(engines), r->q->words[i])) {
        return false;
    }
    package_add(r->q, r->q->words[i], false);
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

static bool read_trait(struct reading *r, size_t i)
{
    struct question *q = r->q;
    size_t rank;
    if (question_instruction_set(q->words[i], &rank)) {
        key_add(q, KEY_FEATURE, instruction_sets[rank]);
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
            key_add(q, feature ? KEY_FEATURE : KEY_VARIABLE, row->name);
            for (size_t k = i; k < i + n; k++) {
                r->claims[k] = CLAIM_DONE;
            }
            return true;
        }
    }
    return false;
}

static bool read_why(struct reading *r, size_t i)
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
    {"page documentation", "install page"},
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

/* "rows drivers", "rows errors cudnn9-1*". */
static bool read_rows(struct question *q)
{
    if (q->n < 2 || strcmp(q->words[0], "rows") != 0 || !area_of(q->words[1])) {
        return false;
    }
    q->area = q->words[1];
    q->named = NAMED_AREA;
    for (size_t i = 2; i < q->n; i++) {
        value_add(&q->globs, q->words[i]);
    }
    return true;
}

/* ------------------------------------------------------------------ words with a meaning */

static void read_meanings(struct reading *r)
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
        if (is_word(r->q, i, "or") && one && two && one->asked | one->said &&
            two->asked | two->said) {
            return true;
        }
    }
    return false;
}

static void add_meanings(struct reading *r)
{
    for (size_t i = 0; i < r->q->n; i++) {
        if (r->means[i] && r->claims[i] == CLAIM_MEANS) {
            r->q->asked |= r->means[i]->asked;
            r->q->said |= r->means[i]->said;
        }
    }
    if (r->q->n && is_word(r->q, 0, "does do did is are can has have will may") &&
        !asks_which_of_two(r)) {
        r->q->said |= SAID_DOES;
    }
}

static bool asks_for_error(const struct reading *r)
{
    for (size_t i = 0; i < r->q->n; i++) {
        if (r->means[i] && r->means[i]->asked & ASKED_ERROR) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ GPUs */

static bool may_be_gpu(const struct reading *r, size_t i)
{
    return i < r->q->n && r->in_gpu_names[i] &&
           (r->claims[i] == CLAIM_NONE || r->claims[i] == CLAIM_NUMBER ||
            (r->claims[i] == CLAIM_MEANS && is_word(r->q, i, "jetson gpu")));
}

static const char *text_of(const struct reading *r, size_t from, size_t to)
{
    const char *text = "";
    for (size_t i = from; i < to; i++) {
        text = arena_printf(r->a, "%s%s%s", text, i > from ? " " : "", r->q->raw[i]);
    }
    return text;
}

/* "Radeon RX" of "Radeon RX 6900 XT": what a list of cards leaves out behind its first. */
static const char *gpu_head(struct arena *a, const char *text)
{
    size_t digit = strcspn(text, "0123456789"), end = 0;
    for (size_t i = 0; i < digit && text[i]; i++) {
        end = text[i] == ' ' ? i : end;
    }
    return arena_strndup(a, text, end);
}

/* A number alone is a GPU's only if it is long, and no error's. */
static bool gpu_text_enough(const struct reading *r, size_t from, size_t to)
{
    bool words = false;
    for (size_t i = from; i < to; i++) {
        words = words || r->claims[i] == CLAIM_NONE;
    }
    bool listed = from > 0 && is_word(r->q, from - 1, "/ and or") && r->q->values[KEY_GPU].n > 0 &&
                  gpu_head(r->a, r->q->values[KEY_GPU].items[0])[0];
    return words || listed ||
           (to == from + 1 && strlen(r->q->words[from]) >= 4 && !asks_for_error(r) &&
            !question_has(r->q, "gfx_target_version kfd"));
}

/* The name of a GPU in words from..to, or NULL: with the head of the one before, or alone. */
static const char *gpu_text(const struct reading *r, const struct kb_gpus *gpus, size_t from,
                            size_t to)
{
    const struct question_values *before = &r->q->values[KEY_GPU];
    const char *text = text_of(r, from, to);
    const char *head = before->n ? gpu_head(r->a, before->items[before->n - 1]) : "";
    bool headed = head[0] && !starts_with(lower_text(r->a, text), lower_text(r->a, head)) &&
                  from > 0 && is_word(r->q, from - 1, "/ and or");
    const char *tries[] = {headed ? arena_printf(r->a, "%s %s", head, text) : text, text};
    for (size_t i = 0; i < COUNT(tries); i++) {
        struct kb_gpu_list found = {{0}};
        kb_gpus_named(r->a, gpus, tries[i], &found);
        if (found.items.n > 0) {
            return tries[i];
        }
    }
    return NULL;
}

static size_t read_gpu(struct reading *r, const struct kb_gpus *gpus, size_t from)
{
    enum { WORDS_MAX = 8 };
    size_t to = from;
    while (to - from < WORDS_MAX && may_be_gpu(r, to)) {
        to++;
    }
    for (; to > from; to--) {
        const char *text = gpu_text_enough(r, from, to) ? gpu_text(r, gpus, from, to) : NULL;
        if (text) {
            key_add(r->q, KEY_GPU, text);
            for (size_t i = from; i < to; i++) {
                r->claims[i] = CLAIM_DONE;
            }
            return to;
        }
    }
    return from + 1;
}

/* "Vega 20", "Polaris": the names of AMD's chips in the products of a target. */
static const char *target_of_chip(const struct kb_rocms *rocms, const char *text)
{
    for (size_t i = 0; i < rocms->n; i++) {
        const struct kb_rocm *row = &rocms->rows[i];
        if (row->kind != KB_ROCM_TARGET || !row->products) {
            continue;
        }
        struct str rest = {row->products, strcspn(row->products, ":")};
        while (rest.s) {
            struct str chip = str_trim(str_cut(&rest, ','));
            if (str_eq_nocase(chip, str_of(text))) {
                return row->gfx.items[0];
            }
        }
    }
    return NULL;
}

static void read_chips(struct reading *r, const struct kb_rocms *rocms)
{
    for (size_t i = 0; i < r->q->n; i++) {
        for (size_t n = 2; n > 0; n--) {
            bool free = r->claims[i] == CLAIM_NONE &&
                        (n == 1 || (i + 1 < r->q->n && (r->claims[i + 1] == CLAIM_NONE ||
                                                        r->claims[i + 1] == CLAIM_NUMBER)));
            const char *gfx = free ? target_of_chip(rocms, text_of(r, i, i + n)) : NULL;
            if (gfx) {
                key_add(r->q, KEY_GFX, gfx);
                r->claims[i] = r->claims[i + n - 1] = CLAIM_DONE;
                break;
            }
        }
    }
}

/* "Ampere", "RDNA 2", "Ada": a generation of GPUs; how the rows write it, or NULL. */
static const char *generation_of(const struct kb_gpus *gpus, const char *text)
{
    if (str_eq_nocase(str_of(text), str_of("ada"))) {
        text = "Ada Lovelace";
    }
    for (size_t i = 0; i < gpus->n; i++) {
        const char *g = gpus->rows[i].generation, *t = text;
        const char *at = g;
        for (; *at && *t; at++) { // "RDNA1" is "RDNA 1"
            if (str_lower(*at) == str_lower(*t)) {
                t++;
            } else if (*at != ' ') {
                break;
            }
        }
        if (!*at && !*t) {
            return g;
        }
    }
    return NULL;
}

static void read_generations(struct reading *r, const struct kb_gpus *gpus)
{
    for (size_t i = 0; i < r->q->n; i++) {
        for (size_t n = 2; n > 0; n--) {
            bool number = n == 2 && i + 1 < r->q->n &&
                          (r->claims[i + 1] == CLAIM_NUMBER || r->claims[i + 1] == CLAIM_LOOSE ||
                           r->claims[i + 1] == CLAIM_NONE);
            bool free = r->claims[i] == CLAIM_NONE && (n == 1 || number);
            const char *text = free ? generation_of(gpus, text_of(r, i, i + n)) : NULL;
            if (text) {
                key_add(r->q, KEY_GENERATION, text);
                r->claims[i] = r->claims[i + n - 1] = CLAIM_DONE;
                break;
            }
        }
    }
}

static bool any_left(const struct reading *r)
{
    for (size_t i = 0; i < r->q->n; i++) {
        if (r->claims[i] == CLAIM_NONE || r->claims[i] == CLAIM_NUMBER ||
            (r->claims[i] == CLAIM_MEANS && is_word(r->q, i, "jetson"))) {
            return true;
        }
    }
    return false;
}

/* What the question says twice: "sm_61 (Pascal)", "gfx906 (MI50)", "GTX 1080 (6.1)". Names that
 * agree with the number are dropped; those that do not agree stay, and no form takes both. */
static void drop_glosses(struct reading *r, const struct kb_gpus *gpus)
{
    struct question *q = r->q;
    bool agree = q->values[KEY_GPU].n > 0;
    for (size_t i = 0; i < q->values[KEY_GPU].n; i++) {
        struct kb_gpu_list found = {{0}};
        kb_gpus_named(r->a, gpus, q->values[KEY_GPU].items[i], &found);
        const char *value = kb_gpu_value(found.items.items[0]);
        agree = agree && kb_gpus_alike(&found) &&
                (in_list(q->values[KEY_SM].items, q->values[KEY_SM].n, value) ||
                 in_list(q->values[KEY_GFX].items, q->values[KEY_GFX].n, value));
    }
    if (agree) {
        key_remove(q, KEY_GPU);
    }
    agree = q->values[KEY_GENERATION].n > 0;
    for (size_t g = 0; g < q->values[KEY_GENERATION].n; g++) {
        bool found = false;
        for (size_t i = 0; i < gpus->n && !found; i++) {
            const char *value = kb_gpu_value(&gpus->rows[i]);
            found = strcmp(gpus->rows[i].generation, q->values[KEY_GENERATION].items[g]) == 0 &&
                    (in_list(q->values[KEY_SM].items, q->values[KEY_SM].n, value) ||
                     in_list(q->values[KEY_GFX].items, q->values[KEY_GFX].n, value));
        }
        agree = agree && found;
    }
    if (agree) {
        key_remove(q, KEY_GENERATION);
    }
}

static bool is_capability_of_gpu(struct reading *r, const struct kb_gpus *gpus, const char *text)
{
    const struct question_values *names = &r->q->values[KEY_GPU];
    for (size_t i = 0; i < names->n; i++) {
        struct kb_gpu_list found = {{0}};
        kb_gpus_named(r->a, gpus, names->items[i], &found);
        for (size_t k = 0; k < found.items.n; k++) {
            if (strcmp(kb_gpu_value(found.items.items[k]), text) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* ------------------------------------------------------------------ models, parts of CUDA */

/* The English-only models of Whisper ("base.en") stand in the rows of their sizes. */
bool question_names_model(const struct kb_model *m, const char *word)
{
    size_t n = strlen(word);
    bool english = ends_with(word, ".en") && m->kind == KB_MODEL_MODEL &&
                   strcmp(m->engine, "openai-whisper") == 0 && m->model &&
                   strncmp(m->model, "large", 5) != 0;
    return m->model && (strcmp(m->model, word) == 0 ||
                        (english && str_is((struct str){word, n - 3}, m->model)));
}

static const char *model_of(const struct kb_models *models, const char *word)
{
    word += starts_with(word, "whisper:") || starts_with(word, "whisper-") ? 8 : 0;
    if (starts_with(word, "openai/whisper-")) {
        word += strlen("openai/whisper-");
    }
    for (size_t i = 0; i < models->n; i++) {
        const struct kb_model *m = &models->rows[i];
        if (question_names_model(m, word) || (m->alias && strcmp(m->alias, word) == 0)) {
            return word;
        }
    }
    return strcmp(word, "large-v1") == 0 || strcmp(word, "turbo") == 0 ? word : NULL;
}

bool question_names_part(const struct kb_provide *p, const char *word)
{
    struct str name = {p->library, strcspn(p->library, " ,")};
    struct str stem = {p->soname, strcspn(p->soname, ".*")};
    struct str bare = str_starts(stem, "lib") ? (struct str){stem.s + 3, stem.n - 3} : stem;
    bool general = str_is(name, "CUDA") || str_is(name, "GNU") || str_is(name, "code");
    return (!general && str_eq_nocase(name, str_of(word))) || str_eq_nocase(stem, str_of(word)) ||
           str_eq_nocase(bare, str_of(word));
}

static bool is_part(const struct kb_provides *provides, const char *word)
{
    for (size_t i = 0; i < provides->n; i++) {
        if (question_names_part(&provides->rows[i], word)) {
            return true;
        }
    }
    return false;
}

static int read_models_and_parts(struct reading *r, struct gm_err *err)
{
    struct kb_models models;
    struct kb_provides provides;
    int rc = kb_models(r->kb, &models, err);
    rc = rc < 0 ? rc : kb_provides(r->kb, &provides, err);
    for (size_t i = 0; rc == 0 && i < r->q->n; i++) {
        const char *word = r->q->words[i];
        const char *model = r->claims[i] == CLAIM_NONE ? model_of(&models, word) : NULL;
        if (model) {
            key_add(r->q, KEY_MODEL, model);
            r->claims[i] = CLAIM_DONE;
        } else if (r->claims[i] == CLAIM_NONE && is_part(&provides, word)) {
            key_add(r->q, KEY_PART, word);
            r->claims[i] = CLAIM_DONE;
        } else if (r->claims[i] == CLAIM_NONE && strcmp(word, "hsa") == 0) {
            key_add(r->q, KEY_PART, "rocr");
            r->claims[i] = CLAIM_DONE;
        }
    }
    return rc;
}

static int read_gpus(struct reading *r, struct gm_err *err)
{
    struct kb_gpus gpus;
    struct kb_rocms rocms;
    int rc = any_left(r) ? kb_gpus(r->kb, &gpus, err) : 1;
    rc = rc ? rc : kb_rocms(r->kb, &rocms, err);
    if (rc) {
        return rc < 0 ? rc : 0;
    }
    kb_gpus_words(&gpus, r->q->words, r->q->n, r->in_gpu_names);
    for (size_t i = 0; i < r->q->n;) {
        i = may_be_gpu(r, i) ? read_gpu(r, &gpus, i) : i + 1;
    }
    read_chips(r, &rocms);
    read_generations(r, &gpus);
    for (size_t i = 0; i < r->q->n; i++) {
        if (r->claims[i] == CLAIM_LOOSE && is_capability_of_gpu(r, &gpus, r->q->words[i])) {
            r->claims[i] = CLAIM_DONE;
        } else if (r->claims[i] == CLAIM_LOOSE && r->q->named & NAMED_GENERATION) {
            key_add(r->q, KEY_SM, r->q->words[i]);
            r->claims[i] = CLAIM_DONE;
        }
    }
    drop_glosses(r, &gpus);
    return 0;
}

/* ------------------------------------------------------------------ numbers that stand alone */

static void read_numbers(struct reading *r)
{
    for (size_t i = 0; i < r->q->n; i++) {
        if (r->claims[i] == CLAIM_NONE && is_number(r->q->words[i])) {
            r->claims[i] = strchr(r->q->words[i], '.') ? CLAIM_LOOSE : CLAIM_NUMBER;
        }
    }
}

/* The word "cuda" before a release that stands alone: "CUDA runtime library for 12.6". */
static size_t cuda_word(const struct reading *r, size_t before)
{
    for (size_t i = 0; i < before; i++) {
        if (r->claims[i] == CLAIM_MEANS && r->means[i] && strcmp(r->q->words[i], "cuda") == 0 &&
            strcmp(r->means[i]->text, "cuda") == 0) {
            return i;
        }
    }
    return before;
}

/* "which did 1.1.0 have", "added Python 3.12 and dropped 3.7": a version of what was named last;
 * one of three parts or more is a package's. */
static void read_loose(struct reading *r, size_t i)
{
    size_t cuda = cuda_word(r, i);
    if (!r->q->package && !(r->q->named & NAMED_CUDA) && cuda < i && strlen(r->q->words[i]) <= 5) {
        key_add(r->q, KEY_CUDA, r->q->words[i]);
        r->claims[cuda] = r->claims[i] = CLAIM_DONE;
        r->q->asked &= ~(unsigned)ASKED_CUDA;
        return;
    }
    struct question *q = r->q;
    const char *dot = strchr(q->words[i], '.');
    size_t owner = KEYS;
    if (q->values[KEY_CUDA].n == 1 && is_word(q, i + 1, "ones one") &&
        key_value(r->a, KEY_CUDA, q->words[i])) {
        key_add(q, KEY_CUDA, q->words[i]);
        r->claims[i] = CLAIM_DONE;
        return;
    }
    for (size_t k = 0; k < i; k++) {
        owner = r->owner[k] != KEYS ? r->owner[k] : owner;
    }
    if (q->package && (owner >= KEYS || (dot && strchr(dot + 1, '.')))) {
        (void)read_span(r, i);
    } else if (owner < KEYS && key_value(r->a, (enum question_key)owner, q->words[i])) {
        key_add(q, (enum question_key)owner, q->words[i]);
        r->claims[i] = CLAIM_DONE;
    }
}

static void read_code(struct reading *r, size_t i)
{
    struct question *q = r->q;
    uint64_t number;
    if (q->n_codes < QUESTION_LIST_MAX && str_u64(str_of(q->words[i]), &number) &&
        number <= 1000000) {
        q->codes[q->n_codes++] = (int)number;
        q->named |= NAMED_CODE;
        r->claims[i] = CLAIM_DONE;
    }
}

static void read_rest(struct reading *r)
{
    struct question *q = r->q;
    for (size_t i = 0; i < q->n; i++) {
        if (r->claims[i] == CLAIM_LOOSE) {
            read_loose(r, i);
        } else if (r->claims[i] == CLAIM_NUMBER) {
            read_code(r, i);
        }
    }
    for (size_t i = 0; i < q->n; i++) {
        if (r->claims[i] != CLAIM_DONE && r->claims[i] != CLAIM_MEANS) {
            q->unknown[q->n_unknown++] = q->raw[i];
        }
    }
}

/* "CUDA 12 and later": the majors from there on. */
static void read_later(struct reading *r)
{
    static const char *const majors[] = {"11", "12", "13"};
    struct question *q = r->q;
    if (!(q->said & SAID_LATER) || q->values[KEY_CUDA].n != 1) {
        return;
    }
    for (size_t i = 0; i + 1 < COUNT(majors); i++) {
        if (strcmp(majors[i], q->values[KEY_CUDA].items[0]) == 0) {
            while (++i < COUNT(majors)) {
                key_add(q, KEY_CUDA, majors[i]);
            }
            q->said &= ~(unsigned)SAID_LATER;
            return;
        }
    }
}

/* "built with CUDA 11.8 run with CUDA 11": of two values the one behind "built with" is a build's.
 */
static void read_built_with(struct reading *r)
{
    struct question *q = r->q;
    struct question_values *cuda = &q->values[KEY_CUDA];
    for (size_t i = 2; i < q->n && cuda->n == 2; i++) {
        if (r->owner[i] != KEY_CUDA || !is_word(q, i - 2, "built compiled") ||
            !is_word(q, i - 1, "with for against")) {
            continue;
        }
        const char *of = NULL;
        for (size_t k = i; k < q->n && !of; k++) {
            for (size_t v = 0; v < 2 && !of; v++) {
                of = strstr(q->words[k], cuda->items[v]) ? cuda->items[v] : NULL;
            }
        }
        const char *dot = of ? strchr(of, '.') : NULL;
        if (dot) {
            key_add(q, KEY_BUILD, arena_printf(r->a, "cu%.*s%s", (int)(dot - of), of, dot + 1));
            cuda->items[0] = of == cuda->items[0] ? cuda->items[1] : cuda->items[0];
            cuda->n = 1;
        }
    }
}

static int reading_open(struct reading *r, struct gm_err *err)
{
    int rc = kb_releases(r->kb, &r->releases, err);
    rc = rc < 0 ? rc : kb_glibcs(r->kb, &r->glibcs, err);
    rc = rc < 0 ? rc : kb_traits(r->kb, &r->traits, err);
    return rc < 0 ? rc : kb_compats(r->kb, &r->compats, err);
}

int question_read(struct kb *kb, struct arena *a, const char *text, struct question *ret,
                  struct gm_err *err)
{
    static bool (*const readers[])(struct reading *, size_t) = {
        read_why,  read_shape,  read_rocm_range, read_keyword, read_update,
        read_beam, read_engine, read_system,     read_trait,   read_package};
    struct reading r = {.kb = kb, .a = a, .q = ret};
    *ret = (struct question){.n = 0};
    for (size_t i = 0; i < QUESTION_WORDS_MAX; i++) {
        r.owner[i] = KEYS; // none
    }
    split(a, text, ret);
    int rc = ret->too_long ? gm_err_set(err, GM_ERR_USAGE, "a question has at most %d words",
                                        QUESTION_WORDS_MAX)
                           : reading_open(&r, err);
    if (rc < 0 || read_rows(ret)) {
        return rc;
    }
    for (size_t i = 0; i < ret->n; i++) {
        for (size_t k = 0; k < COUNT(readers) && r.claims[i] == CLAIM_NONE; k++) {
            (void)readers[k](&r, i);
        }
    }
    read_short_targets(&r);
    read_numbers(&r);
    read_meanings(&r);
    rc = read_gpus(&r, err);
    rc = rc < 0 || !any_left(&r) ? rc : read_models_and_parts(&r, err);
    if (rc < 0) {
        return rc;
    }
    add_meanings(&r);
    read_rest(&r);
    read_later(&r);
    read_built_with(&r);
    return 0;
}

/* ------------------------------------------------------------------ the exact form */

/* Keys whose values are words of kb/words.h. */
static const struct choice {
    const char *key, *value;
    unsigned said;
} choices[] = {
    {"os", "linux", SAID_LINUX},     {"os", "windows", SAID_WINDOWS},
    {"os", "wsl", SAID_WSL},         {"os", "jetson", SAID_JETSON},
    {"machine", "x86-64", SAID_X86}, {"machine", "aarch64", SAID_AARCH64},
    {"manager", "pip", SAID_PIP},    {"manager", "apt", SAID_APT},
    {"manager", "dnf", SAID_DNF},    {"manager", "conda", SAID_CONDA},
    {"device", "cpu", SAID_CPU},
};

const char *question_key_name(size_t key)
{
    static const char *const more[] = {"os", "machine", "manager", "device"};
    return key < KEYS ? keys[key].name : key - KEYS < COUNT(more) ? more[key - KEYS] : NULL;
}

unsigned question_key_bit(size_t key)
{
    return keys[key].named;
}

const char *question_choice(const char *key, size_t i)
{
    for (size_t k = 0; k < COUNT(choices); k++) {
        if (strcmp(choices[k].key, key) == 0 && i-- == 0) {
            return choices[k].value;
        }
    }
    for (size_t k = 0; strcmp(key, "compute-type") == 0 && k < COUNT(compute_types); k++) {
        if (i-- == 0) {
            return compute_types[k];
        }
    }
    return NULL;
}

static bool give_choice(struct question *q, const char *key, const char *value)
{
    for (size_t i = 0; i < COUNT(choices); i++) {
        if (strcmp(choices[i].key, key) == 0 && strcmp(choices[i].value, value) == 0) {
            q->said |= choices[i].said;
            return true;
        }
    }
    return false;
}

static void merge_values(struct question_values *to, const struct question_values *from)
{
    for (size_t i = 0; i < from->n; i++) {
        value_add(to, from->items[i]);
    }
}

/* A value that a sentence would be read for: "gpu=RTX 5090", "library=libcudnn.so.9". The reading
 * must find just this key. */
static int give_word(struct kb *kb, struct arena *a, struct question *q, enum question_key key,
                     const char *value, struct gm_err *err)
{
    struct question part;
    int rc = question_read(kb, a, value, &part, err);
    if (rc < 0) {
        return rc;
    }
    if (part.n_unknown > 0 || part.named != keys[key].named || part.values[key].n == 0) {
        return gm_err_set(err, GM_ERR_USAGE, "\"%s\" is not a value of %s", value, keys[key].name);
    }
    merge_values(&q->values[key], &part.values[key]);
    q->named |= keys[key].named;
    return 0;
}

int question_give(struct kb *kb, struct arena *a, struct question *q, const char *text,
                  struct gm_err *err)
{
    struct reading r = {.kb = kb, .a = a, .q = q};
    struct str rest = str_of(text);
    const char *key = lower_text(a, str_dup(a, str_cut(&rest, '=')));
    int rc = reading_open(&r, err);
    if (rc < 0 || !rest.s || rest.n == 0) {
        return rc < 0 ? rc : gm_err_set(err, GM_ERR_USAGE, "\"%s\" is not KEY=VALUE", text);
    }
    const char *value = str_dup(a, rest);
    for (size_t k = 0; k < KEYS; k++) {
        if (strcmp(keys[k].name, key) != 0) {
            continue;
        }
        const char *number = k == KEY_BUILD ? value : key_value(a, (enum question_key)k, value);
        if (number) {
            key_add(q, (enum question_key)k, number);
            return 0;
        }
        return keys[k].shape == SHAPE_WORD
                   ? give_word(kb, a, q, (enum question_key)k, value, err)
                   : gm_err_set(err, GM_ERR_USAGE, "\"%s\" is not a value of %s", value, key);
    }
    if (give_choice(q, key, value)) {
        return 0;
    }
    const char *package = package_name(a, key);
    const char *dots = strstr(value, "..");
    const char *from = dots ? arena_strndup(a, value, (size_t)(dots - value)) : value;
    const char *to = dots ? dots + 2 : value;
    if (package_known(&r, package) && (is_version(from) || (dots && !*from)) &&
        (is_version(to) || (dots && !*to && *from))) {
        bool other = q->package && q->n_spans > 0 && strcmp(q->package, package) != 0;
        package_add(q, package, true);
        if (other) {
            other_version_add(q, package, value);
        } else {
            from = release_of(a, q, from);
            span_add(q, *from ? from : NULL, dots ? (*to ? to : NULL) : from);
        }
        return 0;
    }
    return gm_err_set(err, GM_ERR_USAGE, "\"%s\": no such key, or not one of its values", text);
}

static const char *text_add(struct arena *a, const char *text, const char *more)
{
    return text[0] ? arena_printf(a, "%s %s", text, more) : more;
}

static const char *with_add(struct arena *a, const char *text, const char *key, const char *value)
{
    bool quoted = strchr(value, ' ') != NULL;
    return arena_printf(a, "%s --with %s%s=%s%s", text, quoted ? "'" : "", key, value,
                        quoted ? "'" : "");
}

static const char *span_text(struct arena *a, const struct question_span *s)
{
    return !s->from                      ? arena_printf(a, "..%s", s->to)
           : !s->to                      ? arena_printf(a, "%s..", s->from)
           : strcmp(s->from, s->to) == 0 ? s->from
                                         : arena_printf(a, "%s..%s", s->from, s->to);
}

bool question_needs(const struct question *q)
{
    return q->said & SAID_DOES && q->package &&
           q->values[KEY_CUDA].n + q->values[KEY_CUDNN].n + q->values[KEY_ROCM].n > 0 &&
           question_has(q, "need needs needed require requires required");
}

/* What is asked for, then what is given. */
const char *question_text(struct arena *a, const struct question *q)
{
    const char *text = q->why                ? "why"
                       : question_needs(q)   ? "does need"
                       : q->said & SAID_DOES ? "does"
                                             : "";
    for (unsigned bit = 1; bit && bit <= q->said; bit <<= 1) {
        bool with =
            bit & (SAID_DOES | SAID_SYSTEMS | SAID_X86 | SAID_AARCH64 | SAID_MANAGERS | SAID_CPU);
        if (q->said & bit && !with) {
            text =
                text_add(a, text, bit == SAID_README ? question_document(q) : words_of_said(bit));
        }
    }
    for (unsigned bit = 1; bit && bit <= q->asked; bit <<= 1) {
        text = q->asked & bit ? text_add(a, text, words_of_asked(bit)) : text;
    }
    for (size_t i = 0; i < q->n_codes; i++) {
        text = text_add(a, text, arena_printf(a, "%d", q->codes[i]));
    }
    if (q->package && q->n_spans == 0) {
        text = text_add(a, text, q->package);
    }
    for (size_t i = 0; i < q->others.n; i++) {
        text = q->other_versions[i] ? text : text_add(a, text, q->others.items[i]);
    }
    for (size_t i = 0; i < q->n_spans; i++) {
        text = with_add(a, text, q->package, span_text(a, &q->spans[i]));
    }
    for (size_t i = 0; i < q->others.n; i++) {
        text = q->other_versions[i] ? with_add(a, text, q->others.items[i], q->other_versions[i])
                                    : text;
    }
    for (size_t k = 0; k < KEYS; k++) {
        for (size_t i = 0; i < q->values[k].n; i++) {
            text = with_add(a, text, keys[k].name, q->values[k].items[i]);
        }
    }
    text = q->update ? text_add(a, text, arena_printf(a, "update %s", q->update)) : text;
    for (size_t i = 0; i < COUNT(choices); i++) {
        if (q->said & choices[i].said) {
            text = with_add(a, text, choices[i].key, choices[i].value);
        }
    }
    return text[0] == ' ' ? text + 1 : text;
}
