/* The exact form: `gpumend kb WHAT --with KEY=VALUE`. */
#include "kb/reading.h"

#include <string.h>

#include "base/str.h"

/* Keys whose values are words of kb/words.h. */
static const struct choice {
    const char *key, *value;
    unsigned said;
} choices[] = {
    {"os", "linux", SAID_LINUX},      {"os", "windows", SAID_WINDOWS},
    {"os", "wsl", SAID_WSL},          {"os", "jetson", SAID_JETSON},
    {"machine", "x86-64", SAID_X86},  {"machine", "aarch64", SAID_AARCH64},
    {"manager", "pip", SAID_PIP},     {"manager", "apt", SAID_APT},
    {"manager", "dnf", SAID_DNF},     {"manager", "zypper", SAID_DNF},
    {"manager", "conda", SAID_CONDA}, {"device", "cpu", SAID_CPU},
};

const char *question_key_name(size_t key)
{
    static const char *const more[] = {"os", "machine", "manager", "device"};
    return key < KEYS ? reading_keys[key].name : key - KEYS < COUNT(more) ? more[key - KEYS] : NULL;
}

unsigned question_key_bit(size_t key)
{
    return reading_keys[key].named;
}

const char *question_choice(const char *key, size_t i)
{
    for (size_t k = 0; k < COUNT(choices); k++) {
        if (strcmp(choices[k].key, key) == 0 && i-- == 0) {
            return choices[k].value;
        }
    }
    for (size_t k = 0; strcmp(key, "compute-type") == 0 && k < COUNT(reading_compute_types); k++) {
        if (i-- == 0) {
            return reading_compute_types[k];
        }
    }
    return NULL;
}

static bool give_choice(struct question *q, const char *key, const char *value)
{
    for (size_t i = 0; i < COUNT(choices); i++) {
        if (strcmp(choices[i].key, key) == 0 && strcmp(choices[i].value, value) == 0) {
            q->said |= choices[i].said;
            q->zypper = q->zypper || strcmp(value, "zypper") == 0;
            return true;
        }
    }
    return false;
}

static void merge_values(struct question_values *to, const struct question_values *from)
{
    for (size_t i = 0; i < from->n; i++) {
        reading_value_add(to, from->items[i]);
    }
    to->more |= from->more;
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
    if (part.n_unknown > 0 || part.named != reading_keys[key].named || part.values[key].n == 0) {
        return gm_err_set(err, GM_ERR_USAGE, "\"%s\" is not a value of %s", value,
                          reading_keys[key].name);
    }
    merge_values(&q->values[key], &part.values[key]);
    q->named |= reading_keys[key].named;
    return 0;
}

/* "torch=>=2.1,<2.5": a range with its comparisons. */
static bool give_range(struct reading *r, const char *package, const char *value)
{
    struct question part = {.n = 0};
    struct question_span span;
    reading_split(r->a, value, &part);
    if (part.n == 0 || reading_bounds(part.words, part.n, &span) != part.n ||
        !reading_package_known(r, package)) {
        return false;
    }
    bool other = r->q->package && r->q->n_spans > 0 && strcmp(r->q->package, package) != 0;
    reading_package_add(r->q, package, true);
    if (other) {
        reading_other_version_add(r->q, package, question_span_set(r->a, &span));
    } else {
        reading_range_add(r->q, &span);
    }
    return true;
}

int question_give(struct kb *kb, struct arena *a, struct question *q, const char *text,
                  struct gm_err *err)
{
    struct reading r = {.kb = kb, .a = a, .q = q};
    struct str rest = str_of(text);
    const char *key = reading_lower_text(a, str_dup(a, str_cut(&rest, '=')));
    int rc = reading_open(&r, err);
    if (rc < 0 || !rest.s || rest.n == 0) {
        return rc < 0 ? rc : gm_err_set(err, GM_ERR_USAGE, "\"%s\" is not KEY=VALUE", text);
    }
    const char *value = str_dup(a, rest);
    for (size_t k = 0; k < KEYS; k++) {
        if (strcmp(reading_keys[k].name, key) != 0) {
            continue;
        }
        const char *number =
            k == KEY_BUILD ? value : reading_key_value(a, (enum question_key)k, value);
        if (number) {
            reading_key_add(q, (enum question_key)k, number);
            return 0;
        }
        return reading_keys[k].shape == SHAPE_WORD
                   ? give_word(kb, a, q, (enum question_key)k, value, err)
                   : gm_err_set(err, GM_ERR_USAGE, "\"%s\" is not a value of %s", value, key);
    }
    if (give_choice(q, key, value)) {
        return 0;
    }
    const char *package = reading_package_name(a, key);
    if (give_range(&r, package, value)) {
        return 0;
    }
    const char *dots = strstr(value, "..");
    const char *from = dots ? arena_strndup(a, value, (size_t)(dots - value)) : value;
    const char *to = dots ? dots + 2 : value;
    if (reading_package_known(&r, package) && (reading_is_version(from) || (dots && !*from)) &&
        (reading_is_version(to) || (dots && !*to && *from))) {
        bool other = q->package && q->n_spans > 0 && strcmp(q->package, package) != 0;
        reading_package_add(q, package, true);
        if (other) {
            reading_other_version_add(q, package, value);
        } else {
            from = reading_release_of(a, q, from);
            reading_span_add(q, *from ? from : NULL, dots ? (*to ? to : NULL) : from);
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
    bool quoted = strpbrk(value, " <>") != NULL;
    return arena_printf(a, "%s --with %s%s=%s%s", text, quoted ? "'" : "", key, value,
                        quoted ? "'" : "");
}

static const char *span_text(struct arena *a, const struct question_span *s)
{
    return s->above_from || s->below_to  ? question_span_set(a, s)
           : !s->from                    ? arena_printf(a, "..%s", s->to)
           : !s->to                      ? arena_printf(a, "%s..", s->from)
           : strcmp(s->from, s->to) == 0 ? s->from
                                         : arena_printf(a, "%s..%s", s->from, s->to);
}

bool question_needs(const struct question *q)
{
    bool of_driver = q->named & NAMED_CUDA && q->named & NAMED_DRIVER;
    return q->said & SAID_DOES && (q->package || of_driver) &&
           q->values[KEY_CUDA].n + q->values[KEY_CUDNN].n + q->values[KEY_ROCM].n > 0 &&
           question_has(q, "need needs needed require requires required");
}

const char *question_branch_kind(const struct question *q)
{
    bool lts = question_has(q, "lts long-term long-term-support");
    return !(q->asked & ASKED_BRANCH) || q->named & NAMED_DRIVER || q->said & SAID_DOES ? NULL
           : lts                           ? "long-term support"
           : question_has(q, "production") ? "production"
                                           : NULL;
}

bool question_required_first(const struct question *q)
{
    return q->said & SAID_FIRST && q->named & NAMED_OTHER && !(q->named & NAMED_OTHER_VERSION) &&
           question_has(q, "required require requires demanded demands");
}

bool question_demands(const struct question *q)
{
    return q->said & SAID_DOES && question_has(q, "need needs needed require requires required");
}

bool question_contains(const struct question *q)
{
    return q->said & SAID_DOES && q->package &&
           (q->named & (NAMED_PART | NAMED_CUDNN) || q->asked & ASKED_CUDNN) &&
           question_has(q, "bundle bundles bundled contain contains include includes ship ships");
}

/* What is asked for, then what is given. */
const char *question_text(struct arena *a, const struct question *q)
{
    const char *text = q->why                 ? "why"
                       : question_contains(q) ? "does contain"
                       : question_demands(q)  ? "does need"
                       : q->said & SAID_DOES  ? "does"
                                              : "";
    for (unsigned bit = 1; bit && bit <= q->said; bit <<= 1) {
        bool with =
            bit & (SAID_DOES | SAID_SYSTEMS | SAID_X86 | SAID_AARCH64 | SAID_MANAGERS | SAID_CPU);
        if (q->said & bit && !with) {
            text =
                text_add(a, text, bit == SAID_README ? question_document(q) : words_of_said(bit));
        }
    }
    text = question_required_first(q) ? text_add(a, text, "required") : text;
    for (unsigned bit = 1; bit && bit <= q->asked; bit <<= 1) {
        text = q->asked & bit ? text_add(a, text, words_of_asked(bit)) : text;
    }
    text = question_branch_kind(q) ? text_add(a, text, question_branch_kind(q)) : text;
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
            text = with_add(a, text, reading_keys[k].name, q->values[k].items[i]);
        }
        bool updated = k == KEY_CUDA && q->update;
        text = updated ? text_add(a, text, arena_printf(a, "update %s", q->update)) : text;
    }
    for (size_t i = 0; i < COUNT(choices); i++) {
        bool other =
            choices[i].said == SAID_DNF && q->zypper != (strcmp(choices[i].value, "zypper") == 0);
        if (q->said & choices[i].said && !other) {
            text = with_add(a, text, choices[i].key, choices[i].value);
        }
    }
    return text[0] == ' ' ? text + 1 : text;
}
