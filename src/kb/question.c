#include "kb/reading.h"

#include <string.h>

#include "base/str.h"

static void read_numbers(struct reading *r)
{
    for (size_t i = 0; i < r->q->n; i++) {
        if (r->claims[i] == CLAIM_NONE && reading_is_number(r->q->words[i])) {
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

/* "451.48", "535.104.05": nothing else here has a release like that. */
static bool is_driver_release(const char *word)
{
    return strspn(word, "0123456789") == 3 && word[3] == '.' && strlen(word) >= 6;
}

/* "which did 1.1.0 have", "added Python 3.12 and dropped 3.7": a version of what was named last;
 * one of three parts or more is a package's. */
static void read_loose(struct reading *r, size_t i)
{
    if (!r->q->package && !(r->q->named & NAMED_DRIVER) && is_driver_release(r->q->words[i])) {
        reading_key_add(r->q, KEY_DRIVER, r->q->words[i]);
        r->claims[i] = CLAIM_DONE;
        return;
    }
    size_t cuda = cuda_word(r, i);
    if (!r->q->package && !(r->q->named & NAMED_CUDA) && cuda < i && strlen(r->q->words[i]) <= 5) {
        reading_key_add(r->q, KEY_CUDA, r->q->words[i]);
        r->claims[cuda] = r->claims[i] = CLAIM_DONE;
        r->q->asked &= ~(unsigned)ASKED_CUDA;
        return;
    }
    struct question *q = r->q;
    const char *dot = strchr(q->words[i], '.');
    size_t owner = KEYS;
    if (q->values[KEY_CUDA].n == 1 && reading_is_word(q, i + 1, "ones one") &&
        reading_key_value(r->a, KEY_CUDA, q->words[i])) {
        reading_key_add(q, KEY_CUDA, q->words[i]);
        r->claims[i] = CLAIM_DONE;
        return;
    }
    for (size_t k = 0; k < i; k++) {
        owner = r->owner[k] != KEYS ? r->owner[k] : owner;
    }
    if (q->package && (owner >= KEYS || (dot && strchr(dot + 1, '.')))) {
        (void)reading_span(r, i);
    } else if (owner < KEYS && reading_key_value(r->a, (enum question_key)owner, q->words[i])) {
        reading_key_add(q, (enum question_key)owner, q->words[i]);
        r->claims[i] = CLAIM_DONE;
    }
}

static void read_code(struct reading *r, size_t i)
{
    struct question *q = r->q;
    uint64_t number;
    if (str_u64(str_of(q->words[i]), &number) && number <= 1000000) {
        if (q->n_codes < QUESTION_LIST_MAX) {
            q->codes[q->n_codes++] = (int)number;
        } else {
            q->too_many = true;
        }
        q->named |= NAMED_CODE;
        r->claims[i] = CLAIM_DONE;
    }
}

/* A hyphen between words, as a pause; between numbers it is a range. */
static bool is_pause(const struct question *q, size_t i)
{
    bool range = i > 0 && i + 1 < q->n && reading_is_version(q->words[i - 1]) &&
                 reading_is_version(q->words[i + 1]);
    return reading_is_word(q, i, "- -- \u2013 \u2014") && !range;
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
        if (r->claims[i] != CLAIM_DONE && r->claims[i] != CLAIM_MEANS && !is_pause(q, i)) {
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
                reading_key_add(q, KEY_CUDA, majors[i]);
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
        if (r->owner[i] != KEY_CUDA || !reading_is_word(q, i - 2, "built compiled") ||
            !reading_is_word(q, i - 1, "with for against")) {
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
            reading_key_add(q, KEY_BUILD,
                            arena_printf(r->a, "cu%.*s%s", (int)(dot - of), of, dot + 1));
            cuda->items[0] = of == cuda->items[0] ? cuda->items[1] : cuda->items[0];
            cuda->n = 1;
        }
    }
}

int reading_open(struct reading *r, struct gm_err *err)
{
    int rc = kb_releases(r->kb, &r->releases, err);
    rc = rc < 0 ? rc : kb_builds(r->kb, &r->builds, err);
    rc = rc < 0 ? rc : kb_glibcs(r->kb, &r->glibcs, err);
    rc = rc < 0 ? rc : kb_traits(r->kb, &r->traits, err);
    return rc < 0 ? rc : kb_compats(r->kb, &r->compats, err);
}

int question_whole(const struct question *q, struct gm_err *err)
{
    bool more = q->too_many || q->others.more || q->globs.more;
    for (size_t i = 0; i < KEYS; i++) {
        more |= q->values[i].more;
    }
    return more ? gm_err_set(err, GM_ERR_USAGE, "a question has at most %d values of one kind",
                             QUESTION_LIST_MAX)
                : 0;
}

int question_read(struct kb *kb, struct arena *a, const char *text, struct question *ret,
                  struct gm_err *err)
{
    static bool (*const readers[])(struct reading *, size_t) = {
        reading_why,  reading_shape,  reading_rocm_range, reading_keyword, reading_update,
        reading_beam, reading_engine, reading_system,     reading_trait,   reading_package};
    struct reading r = {.kb = kb, .a = a, .q = ret};
    *ret = (struct question){.n = 0};
    for (size_t i = 0; i < QUESTION_WORDS_MAX; i++) {
        r.owner[i] = KEYS; // none
    }
    reading_split(a, text, ret);
    int rc = ret->too_long ? gm_err_set(err, GM_ERR_USAGE, "a question has at most %d words",
                                        QUESTION_WORDS_MAX)
                           : reading_open(&r, err);
    if (rc < 0 || reading_rows(ret)) {
        return rc;
    }
    for (size_t i = 0; i < ret->n; i++) {
        for (size_t k = 0; k < COUNT(readers) && r.claims[i] == CLAIM_NONE; k++) {
            (void)readers[k](&r, i);
        }
    }
    reading_short_targets(&r);
    read_numbers(&r);
    reading_meanings(&r);
    rc = reading_gpus(&r, err);
    rc = rc < 0 || !reading_any_left(&r) ? rc : reading_models_and_parts(&r, err);
    if (rc < 0) {
        return rc;
    }
    reading_add_meanings(&r);
    read_rest(&r);
    read_later(&r);
    read_built_with(&r);
    return 0;
}
