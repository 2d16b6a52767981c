/* GPUs, models, parts of CUDA. */
#include "kb/reading.h"

#include <string.h>

#include "base/str.h"
#include "kb/gpu_name.h"

/* ------------------------------------------------------------------ GPUs */

static bool may_be_gpu(const struct reading *r, size_t i)
{
    return i < r->q->n && r->in_gpu_names[i] && !strpbrk(r->q->words[i], "<>=!~") &&
           (r->claims[i] == CLAIM_NONE || r->claims[i] == CLAIM_NUMBER ||
            (r->claims[i] == CLAIM_MEANS && reading_is_word(r->q, i, "jetson gpu")));
}

static const char *words_between(const struct reading *r, size_t from, size_t to)
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
    bool listed = from > 0 && reading_is_word(r->q, from - 1, "/ and or") &&
                  r->q->values[KEY_GPU].n > 0 && gpu_head(r->a, r->q->values[KEY_GPU].items[0])[0];
    return words || listed ||
           (to == from + 1 && strlen(r->q->words[from]) >= 4 && !reading_asks_for_error(r) &&
            !question_has(r->q, "gfx_target_version kfd"));
}

/* The name of a GPU in words from..to, or NULL: with the head of the one before, or alone. */
static const char *gpu_text(const struct reading *r, const struct kb_gpus *gpus, size_t from,
                            size_t to)
{
    const struct question_values *before = &r->q->values[KEY_GPU];
    const char *text = words_between(r, from, to);
    const char *head = before->n ? gpu_head(r->a, before->items[before->n - 1]) : "";
    bool headed = head[0] &&
                  !starts_with(reading_lower_text(r->a, text), reading_lower_text(r->a, head)) &&
                  from > 0 && reading_is_word(r->q, from - 1, "/ and or");
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

/* "4gb", "12gib", "6g": memory. */
static bool is_memory(const char *word)
{
    size_t n = strspn(word, "0123456789");
    return n > 0 && n < 4 && (strcmp(word + n, "gb") == 0 || strcmp(word + n, "gib") == 0);
}

/* "4 GB", "a 4GB GPU": words that name memory and no GPU. */
static bool names_memory(const struct reading *r, size_t from, size_t to)
{
    bool memory = false;
    for (size_t i = from; i < to; i++) {
        memory = memory || is_memory(r->q->words[i]);
        if (!is_memory(r->q->words[i]) && !reading_is_word(r->q, i, "gpu card")) {
            return false;
        }
    }
    return memory;
}

/* What is left of memory belongs to no GPU's name. */
static void read_memory(struct reading *r)
{
    for (size_t i = 0; i < r->q->n; i++) {
        if (r->claims[i] == CLAIM_NONE && is_memory(r->q->words[i])) {
            reading_key_add(r->q, KEY_MEMORY, r->q->words[i]);
            r->claims[i] = CLAIM_DONE;
        }
    }
}

static size_t read_gpu(struct reading *r, const struct kb_gpus *gpus, size_t from)
{
    enum { WORDS_MAX = 8 };
    size_t to = from;
    while (to - from < WORDS_MAX && may_be_gpu(r, to)) {
        to++;
    }
    for (size_t whole = to; to > from; to--) {
        if (to < whole && is_memory(r->q->words[from])) {
            break; // "6GB RTX 2060": the name begins behind it
        }
        bool named = !names_memory(r, from, to) && gpu_text_enough(r, from, to);
        const char *text = named ? gpu_text(r, gpus, from, to) : NULL;
        if (text) {
            reading_key_add(r->q, KEY_GPU, text);
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
            const char *gfx = free ? target_of_chip(rocms, words_between(r, i, i + n)) : NULL;
            if (gfx) {
                reading_key_add(r->q, KEY_GFX, gfx);
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
            const char *text = free ? generation_of(gpus, words_between(r, i, i + n)) : NULL;
            if (text) {
                reading_key_add(r->q, KEY_GENERATION, text);
                r->claims[i] = r->claims[i + n - 1] = CLAIM_DONE;
                break;
            }
        }
    }
}

bool reading_any_left(const struct reading *r)
{
    for (size_t i = 0; i < r->q->n; i++) {
        if (r->claims[i] == CLAIM_NONE || r->claims[i] == CLAIM_NUMBER ||
            (r->claims[i] == CLAIM_MEANS && reading_is_word(r->q, i, "jetson"))) {
            return true;
        }
    }
    return false;
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

/* "is the RTX 4090 sm_89": whether the name and the number agree is the question, and not whether
 * something supports it. */
static bool asks_agreement(const struct question *q)
{
    const unsigned arch = NAMED_SM | NAMED_GFX;
    return reading_asks_yes_or_no(q) &&
           !question_has(q, "support supports supported work works run runs") && q->named & arch &&
           !(q->named & ~(NAMED_GPU | arch));
}

/* What the question says twice: "sm_61 (Pascal)", "gfx906 (MI50)", "GTX 1080 (6.1)". Names that
 * agree with the number are dropped; those that do not agree stay. */
static void drop_glosses(struct reading *r, const struct kb_gpus *gpus)
{
    struct question *q = r->q;
    bool agree = q->values[KEY_GPU].n > 0 && !asks_agreement(q);
    for (size_t i = 0; i < q->values[KEY_GPU].n; i++) {
        struct kb_gpu_list found = {{0}};
        kb_gpus_named(r->a, gpus, q->values[KEY_GPU].items[i], &found);
        const char *value = kb_gpu_value(found.items.items[0]);
        agree = agree && kb_gpus_alike(&found) &&
                (reading_in_list(q->values[KEY_SM].items, q->values[KEY_SM].n, value) ||
                 reading_in_list(q->values[KEY_GFX].items, q->values[KEY_GFX].n, value));
    }
    if (agree) {
        reading_key_remove(q, KEY_GPU);
    }
    agree = q->values[KEY_GENERATION].n > 0;
    for (size_t g = 0; g < q->values[KEY_GENERATION].n; g++) {
        bool found = false;
        for (size_t i = 0; i < gpus->n && !found; i++) {
            const char *value = kb_gpu_value(&gpus->rows[i]);
            bool given = reading_in_list(q->values[KEY_SM].items, q->values[KEY_SM].n, value) ||
                         reading_in_list(q->values[KEY_GFX].items, q->values[KEY_GFX].n, value) ||
                         (q->package && is_capability_of_gpu(r, gpus, value));
            found =
                given && strcmp(gpus->rows[i].generation, q->values[KEY_GENERATION].items[g]) == 0;
        }
        agree = agree && found;
    }
    if (agree) {
        reading_key_remove(q, KEY_GENERATION);
    }
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

int reading_models_and_parts(struct reading *r, struct gm_err *err)
{
    struct kb_models models;
    struct kb_provides provides;
    int rc = kb_models(r->kb, &models, err);
    rc = rc < 0 ? rc : kb_provides(r->kb, &provides, err);
    for (size_t i = 0; rc == 0 && i < r->q->n; i++) {
        const char *word = r->q->words[i];
        const char *model = r->claims[i] == CLAIM_NONE ? model_of(&models, word) : NULL;
        if (model) {
            reading_key_add(r->q, KEY_MODEL, model);
            r->claims[i] = CLAIM_DONE;
        } else if (r->claims[i] == CLAIM_NONE && is_part(&provides, word)) {
            reading_key_add(r->q, KEY_PART, word);
            r->claims[i] = CLAIM_DONE;
        } else if (r->claims[i] == CLAIM_NONE && strcmp(word, "hsa") == 0) {
            reading_key_add(r->q, KEY_PART, "rocr");
            r->claims[i] = CLAIM_DONE;
        } else if (r->claims[i] == CLAIM_NONE && (!strcmp(word, "xid") || !strcmp(word, "xids"))) {
            reading_key_add(r->q, KEY_PART, "xid");
            r->q->asked |= ASKED_ERROR;
            r->claims[i] = CLAIM_DONE;
        }
    }
    return rc;
}

int reading_gpus(struct reading *r, struct gm_err *err)
{
    struct kb_gpus gpus;
    struct kb_rocms rocms;
    int rc = reading_any_left(r) ? kb_gpus(r->kb, &gpus, err) : 1;
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
            reading_key_add(r->q, KEY_SM, r->q->words[i]);
            r->claims[i] = CLAIM_DONE;
        }
    }
    drop_glosses(r, &gpus);
    read_memory(r);
    return 0;
}
