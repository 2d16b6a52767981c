/* Keys: the words that say whose a number is. */
#include "kb/reading.h"

#include <string.h>

#include "base/str.h"

const struct key reading_keys[KEYS] = {
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
    [KEY_MEMORY] = {"memory", NAMED_MEMORY, SHAPE_WORD},
};

/* The words before a number that say whose it is. */
static const struct keyword {
    const char *word;
    enum question_key key;
} keywords[] = {
    {"cuda", KEY_CUDA},      {"toolkit", KEY_CUDA},
    {"driver", KEY_DRIVER},  {"nvidia-driver", KEY_DRIVER},
    {"branch", KEY_DRIVER},  {"cudnn", KEY_CUDNN},
    {"python", KEY_PYTHON},  {"glibc", KEY_GLIBC},
    {"rocm", KEY_ROCM},      {"sm", KEY_SM},
    {"compute", KEY_SM},     {"capability", KEY_SM},
    {"cc", KEY_SM},          {"ptx", KEY_PTX},
    {"isa", KEY_PTX},        {"batch", KEY_BATCH},
    {"libcudnn", KEY_CUDNN},
};

void reading_key_add(struct question *q, enum question_key key, const char *value)
{
    reading_value_add(&q->values[key], value);
    q->named |= reading_keys[key].named;
}

void reading_key_remove(struct question *q, enum question_key key)
{
    q->values[key].n = 0;
    q->named &= ~(unsigned)reading_keys[key].named;
}

/* "86" and "120" of sm_86 and sm_120 as a capability; architecture-specific ones (sm_90a) are none.
 */
static const char *capability_of(struct arena *a, const char *digits)
{
    size_t n = strspn(digits, "0123456789");
    if (strchr(digits, '.')) {
        return reading_is_number(digits) ? digits : NULL;
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
    return n > 0 && strncmp(text + n, "..", 2) == 0 && reading_is_number(text + n + 2);
}

const char *reading_key_value(struct arena *a, enum question_key key, const char *text)
{
    switch (reading_keys[key].shape) {
    case SHAPE_CAPABILITY: return capability_of(a, text);
    case SHAPE_NUMBER:
        if (key == KEY_ROCM && is_range(text)) {
            return text;
        }
        return reading_is_number(text) || (key == KEY_BATCH && starts_with(text, "beam ") &&
                                           reading_is_number(text + strlen("beam ")))
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

/* "CUDA toolkit 11.1", "compute capability 8.6", "batch size 8". */
static bool keyword_has_noun(const struct question *q, size_t i)
{
    return reading_is_word(q, i, "toolkit version release capability branch size isa major") &&
           i + 1 < q->n;
}

/* "the 470 driver", "535.104 drivers": the number may stand before the word. */
static bool number_before_driver(struct reading *r, size_t i)
{
    struct question *q = r->q;
    size_t digits = strspn(q->words[i], "0123456789");
    if (digits != 3 || !reading_is_number(q->words[i]) || r->claims[i] != CLAIM_NONE ||
        !reading_is_word(q, i + 1, "driver drivers") ||
        (i + 2 < q->n && reading_is_number(q->words[i + 2]))) {
        return false;
    }
    reading_key_add(q, KEY_DRIVER, q->words[i]);
    r->claims[i] = r->claims[i + 1] = CLAIM_DONE;
    r->owner[i] = KEY_DRIVER;
    return true;
}

/* "from ROCm 7.0 on", "since CUDA 12 onwards": around the `used` words of a value. */
static void read_from_on(struct reading *r, size_t i, size_t used)
{
    struct question *q = r->q;
    size_t behind = i + used;
    if (i > 0 && r->claims[i - 1] == CLAIM_NONE && reading_is_word(q, i - 1, "from since") &&
        reading_is_word(q, behind, "on onwards up upwards")) {
        q->said |= SAID_LATER;
        r->claims[i - 1] = r->claims[behind] = CLAIM_DONE;
    }
}

bool reading_keyword(struct reading *r, size_t i)
{
    struct question *q = r->q;
    if (number_before_driver(r, i)) {
        return true;
    }
    for (size_t k = 0; k < COUNT(keywords); k++) {
        const struct keyword *word = &keywords[k];
        const char *inside = number_inside(q->words[i], word->word);
        const char *value = inside ? reading_key_value(r->a, word->key, inside) : NULL;
        size_t used = 1;
        bool later = false;
        if (!value && strcmp(q->words[i], word->word) == 0) {
            used = 2 + keyword_has_noun(q, i + 1);
            later = i + used < q->n && strcmp(q->words[i + used - 1], ">=") == 0;
            used += later;
            const char *next = i + used <= q->n ? q->words[i + used - 1] : "";
            next += (next[0] == 'r' || next[0] == 'v') && str_is_digit(next[1]);
            value = reading_key_value(r->a, word->key, next);
        }
        if (value) {
            reading_key_add(q, word->key, value);
            q->said |= later ? SAID_LATER : 0;
            for (size_t c = i; c < i + used; c++) {
                r->claims[c] = CLAIM_DONE;
            }
            r->owner[i] = word->key;
            read_from_on(r, i, used);
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
        const char *value = at < q->n && r->claims[at] == CLAIM_NONE
                                ? reading_key_value(r->a, key, q->words[at])
                                : NULL;
        bool listed = link || (key == KEY_CUDA && !r->q->package && value &&
                               strchr(value, '.') == strrchr(value, '.')); // a comma was there
        if (!value || !listed) {
            return;
        }
        reading_key_add(r->q, key, value);
        r->claims[i] = CLAIM_DONE;
        r->claims[at] = CLAIM_DONE;
        i = at + 1;
    }
}

bool reading_update(struct reading *r, size_t i)
{
    struct question *q = r->q;
    if (strcmp(q->words[i], "update") != 0 || i + 1 >= q->n ||
        !reading_is_number(q->words[i + 1])) {
        return false;
    }
    q->update = q->words[i + 1];
    r->claims[i] = r->claims[i + 1] = CLAIM_DONE;
    return true;
}

bool reading_rocm_range(struct reading *r, size_t i)
{
    struct question *q = r->q;
    size_t named = reading_is_word(q, i + 1, "rocm");
    size_t from = i + 1 + named, to = from + 2 + reading_is_word(q, from + 2, "rocm");
    if (strcmp(q->words[i], "between") != 0 || to >= q->n || !reading_is_number(q->words[from]) ||
        !reading_is_word(q, from + 1, "and") || !reading_is_number(q->words[to]) || q->package ||
        !question_has(q, "rocm")) {
        return false;
    }
    reading_key_add(q, KEY_ROCM, arena_printf(r->a, "%s..%s", q->words[from], q->words[to]));
    for (size_t k = i; k <= to; k++) {
        r->claims[k] = CLAIM_DONE;
    }
    return true;
}

bool reading_beam(struct reading *r, size_t i)
{
    struct question *q = r->q;
    if (strcmp(q->words[i], "beam") != 0 || i + 1 >= q->n || !reading_is_number(q->words[i + 1])) {
        return false;
    }
    reading_key_add(q, KEY_BATCH, arena_printf(r->a, "beam %s", q->words[i + 1]));
    r->claims[i] = r->claims[i + 1] = CLAIM_DONE;
    return true;
}
