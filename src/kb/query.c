#include "kb/query.h"

#include <string.h>

#include "base/nearest.h"
#include "base/str.h"
#include "kb/forms.h"

const char *kb_ask_key(size_t i)
{
    return question_key_name(i);
}

const char *kb_ask_value(const char *key, size_t i)
{
    return question_choice(key, i);
}

/* ------------------------------------------------------------------ what is not understood */

static const char *listed_more(struct ask *k, const char *list, const char *more)
{
    return list[0] ? arena_printf(k->a, "%s, %s", list, more) : more;
}

/* The words with a meaning that are near enough: one letter of five, two of eight. */
static const char *word_meant(const char *word)
{
    enum { LETTERS_MIN = 5, LETTERS_FOR_TWO = 8 };
    struct nearest n;
    nearest_init(&n, word);
    for (size_t i = 0; words_text(i); i++) {
        if (strlen(words_text(i)) >= LETTERS_MIN) {
            nearest_try(&n, words_text(i));
        }
    }
    return strlen(word) >= LETTERS_MIN && n.distance <= (strlen(word) >= LETTERS_FOR_TWO ? 2U : 1U)
               ? nearest_best(&n)
               : NULL;
}

/* A name or word that is near to one that is not understood; NULL: there is none. Short words are
 * near to too much, and a number or a version is not a name. */
static const char *meant_by(struct ask *k, const char *word)
{
    enum { LETTERS_MIN = 4 };
    struct kb_releases r;
    struct nearest n;
    if (strcspn(word, "0123456789") < LETTERS_MIN || strchr(word, '.') ||
        kb_releases(k->kb, &r, NULL) < 0) {
        return NULL;
    }
    nearest_init(&n, word);
    nearest_try(&n, "pytorch");
    for (size_t i = 0; i < r.n; i++) {
        nearest_try(&n, r.rows[i].package);
    }
    const char *meant = word_meant(word);
    return meant ? meant : nearest_best(&n);
}

/* Words that ask for an opinion, which no row has. */
static bool is_judgement(const char *word)
{
    static const char *const words[] = {"best",       "better",   "recommended", "recommend",
                                        "recommends", "optimal",  "ideal",       "good",
                                        "stable",     "preferred"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (str_eq_nocase(str_of(word), str_of(words[i]))) {
            return true;
        }
    }
    return false;
}

static void say_not_understood(struct ask *k)
{
    const char *list = "", *hints = "";
    for (size_t i = 0; i < k->q->n_unknown; i++) {
        const char *word = k->q->unknown[i], *meant = meant_by(k, word);
        list = listed_more(k, list, arena_printf(k->a, "'%s'", word));
        if (is_judgement(word)) {
            hints = arena_printf(k->a,
                                 "%s; what goes together is known here, not what is "
                                 "'%s': ask which, or for the newest",
                                 hints, word);
        } else if (meant) {
            hints = arena_printf(k->a, "%s; did you mean %s?", hints, meant);
        }
    }
    k->answer->text = arena_printf(k->a, "not understood: %s%s", list, hints);
}

static const char *rest_text(struct ask *k, struct form_rest rest)
{
    const char *list = "";
    struct question left = *k->q;
    for (unsigned bit = 1; bit && bit <= rest.asked; bit <<= 1) {
        list = rest.asked & bit ? listed_more(k, list, words_of_asked(bit)) : list;
    }
    for (unsigned bit = 1; bit && bit <= rest.said; bit <<= 1) {
        bool shown = rest.said & bit && bit != SAID_DOES;
        list = shown ? listed_more(k, list, words_of_said(bit)) : list;
    }
    for (size_t i = 0; i < KEYS; i++) {
        for (size_t v = 0; v < left.values[i].n && rest.named & question_key_bit(i); v++) {
            list = listed_more(
                k, list,
                arena_printf(k->a, "%s %s", question_key_name(i), left.values[i].items[v]));
        }
    }
    if (rest.named & NAMED_PACKAGE) {
        list = listed_more(k, list, k->q->package);
    }
    return list;
}

static size_t bits(unsigned set)
{
    size_t n = 0;
    for (; set; set &= set - 1) {
        n++;
    }
    return n;
}

/* No form takes all of it: the one that takes most is the nearest question that has an answer. */
static void say_nearest_form(struct ask *k)
{
    const struct form *best = NULL, *f;
    size_t least = SIZE_MAX;
    for (size_t i = 0; (f = form_at(i)); i++) {
        struct form_rest rest = form_rest(f, k->q);
        size_t n = bits(rest.named) + bits(rest.asked) + bits(rest.said);
        if (f->named != NAMED_AREA && form_concerns(f, k->q) && n < least) {
            least = n;
            best = f;
        }
    }
    if (!best) {
        k->answer->text = "not known";
        return;
    }
    const char *list = rest_text(k, form_rest(best, k->q));
    k->answer->text =
        list[0]
            ? arena_printf(k->a,
                           "not known: nothing here answers that together with %s; "
                           "the nearest question is like \"%s\"",
                           list, best->example)
            : arena_printf(k->a, "not known; the nearest question is like \"%s\"", best->example);
}

/* ------------------------------------------------------------------ one answer */

/* Whether a source is of the document that the question names. */
static bool is_document(const char *source, const char *document)
{
    if (strcmp(document, "readme") == 0) {
        return strstr(source, "README") != NULL;
    }
    if (strcmp(document, "install page") == 0) {
        return strstr(source, "docs/") || starts_with(source, "https://docs.");
    }
    if (strcmp(document, "uv configuration") == 0) {
        return strstr(source, "pyproject.toml") != NULL;
    }
    const char *colon = strstr(source, ": "), *slash = strchr(source, '/'); // "OWNER/NAME: FILE"
    return colon && slash && slash < colon && !starts_with(source, "http");
}

/* "README" asks for what a README says: a row must come from one. */
static bool has_said_source(const struct ask *k)
{
    const char *document = question_document(k->q);
    if (!(k->q->said & SAID_README)) {
        return true;
    }
    for (size_t i = 0; i < k->answer->hits.n; i++) {
        const struct kb_origin *origin = k->answer->hits.items[i].origin;
        for (size_t s = 0; s < origin->sources.n; s++) {
            if (is_document(origin->sources.items[s], document)) {
                return true;
            }
        }
    }
    return false;
}

/* The forms from the top, for one value of each key. 1: answered, 0: not. */
static int answer_whole(struct ask *k, struct gm_err *err)
{
    struct kb_answer before = *k->answer;
    const struct form *f;
    for (size_t i = 0; (f = form_at(i)); i++) {
        if (!form_fits(f, k->q)) {
            continue;
        }
        int rc = f->answer(k, err);
        if (rc < 0) {
            return rc;
        }
        if (rc > 0 && has_said_source(k)) {
            k->answer->form = f->example;
            return 1;
        }
        *k->answer = before;
    }
    return 0;
}

/* What may be asked for beside something else without changing what that means. */
#define APART                                                                                      \
    (ASKED_DRIVER | ASKED_CUDA | ASKED_CUDNN | ASKED_ROCM | ASKED_PYTHON | ASKED_GLIBC |           \
     ASKED_ARCH | ASKED_PTX | ASKED_MEMORY | ASKED_PARAMETERS | ASKED_COMPUTE | ASKED_FOLDER |     \
     ASKED_PACKAGE)

/* Two things in one question, of which no form takes both: "which driver and cuDNN does CUDA 12.6
 * need". Each is asked for alone; the answer is known only if all are. Another package without a
 * release ("which torch and cuDNN") is one of the things. 1: answered, 0: not. */
static int answer_apart(struct ask *k, struct gm_err *err)
{
    const struct question *whole = k->q;
    struct question part = *whole;
    unsigned things = whole->asked & APART;
    bool other = whole->named & NAMED_OTHER && !(whole->named & NAMED_OTHER_VERSION);
    if (whole->asked & ~(unsigned)(APART | ASKED_RELEASE) || whole->said & SAID_DOES ||
        bits(things) + other < 2) {
        return 0;
    }
    struct kb_answer before = *k->answer;
    int rc = 1;
    k->q = &part;
    if (other) {
        part.asked = whole->asked & ASKED_RELEASE;
        rc = answer_whole(k, err);
        part.named &= ~(unsigned)NAMED_OTHER;
        part.others.n = 0;
    }
    for (unsigned bit = 1; rc > 0 && bit && bit <= things; bit <<= 1) {
        if (things & bit) {
            part.asked = bit | (whole->asked & ASKED_RELEASE);
            rc = answer_whole(k, err);
        }
    }
    k->q = whole;
    if (rc <= 0) {
        *k->answer = before;
    }
    return rc;
}

/* One value for each key. 1: answered, 0: not. */
static int answer_once(struct ask *k, struct gm_err *err)
{
    int rc = answer_whole(k, err);
    return rc == 0 ? answer_apart(k, err) : rc;
}

/* For each value of the keys from `key` on. `k->q` is the caller's to change. */
static int answer_each(struct ask *k, struct question *q, size_t key, size_t *ret_missing,
                       struct gm_err *err)
{
    while (key < KEYS && q->values[key].n < 2) {
        q->one[key] = q->values[key].n ? q->values[key].items[0] : NULL;
        key++;
    }
    if (key == KEYS) {
        int rc = answer_once(k, err);
        *ret_missing += rc == 0;
        return rc < 0 ? rc : 0;
    }
    for (size_t i = 0; i < q->values[key].n; i++) {
        q->one[key] = q->values[key].items[i];
        int rc = answer_each(k, q, key + 1, ret_missing, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* Part of the answer is missing: none of it counts as known, and it is said. */
static void say_missing(struct ask *k, bool part)
{
    const char *had = k->answer->text;
    if (k->missing) {
        k->answer->text = arena_printf(k->a, "not known: %s", k->missing);
    } else {
        say_nearest_form(k);
    }
    if (part) {
        k->answer->text = arena_printf(k->a, "%s. Known of the rest: %s", k->answer->text, had);
    }
    k->answer->known = false;
    k->answer->form = NULL;
    k->answer->hits.n = 0;
}

/* "is driver 535 too old for CUDA 12.4" is read as "new enough", and answered the other way round.
 */
static const char *asked_of_age(struct arena *a, const char *text)
{
    const struct str old = STR(" too old");
    for (struct str rest = str_of(text); rest.n >= old.n; rest.s++, rest.n--) {
        bool ends = rest.n == old.n || !str_is_letter(rest.s[old.n]);
        if (ends && str_eq_nocase((struct str){rest.s, old.n}, old)) {
            return arena_printf(a, "%.*s new enough%s", (int)(rest.s - text), text, rest.s + old.n);
        }
    }
    return NULL;
}

static void say_age(struct ask *k)
{
    const char *text = k->answer->text;
    bool yes = starts_with(text, "Yes");
    if (yes || starts_with(text, "No")) {
        text += yes ? 3 : 2;
        text += *text == ',';
        k->answer->text = arena_printf(k->a, "%s%s%s",
                                       yes                         ? "No, it is not too old"
                                       : strstr(text, "no longer") ? "No, it is too new"
                                                                   : "Yes, it is too old",
                                       *text == ' ' ? ":" : "", text);
    }
}

static int read_question(struct kb *kb, const char *text, const char *const *given, size_t n_given,
                         struct question *ret, struct gm_err *err)
{
    int rc = question_read(kb, kb->arena, text, ret, err);
    for (size_t i = 0; rc == 0 && i < n_given; i++) {
        rc = question_give(kb, kb->arena, ret, given[i], err);
    }
    return rc < 0 ? rc : question_whole(ret, err);
}

int kb_ask(struct kb *kb, const char *text, const char *const *given, size_t n_given,
           struct kb_answer *ret, struct gm_err *err)
{
    struct question q;
    struct ask k = {.kb = kb, .a = kb->arena, .q = &q, .answer = ret};
    size_t missing = 0;
    *ret = (struct kb_answer){.text = "not known"};
    const char *of_age = asked_of_age(kb->arena, text);
    int rc = read_question(kb, of_age ? of_age : text, given, n_given, &q, err);
    if (rc == 0 && of_age && !q.values[KEY_DRIVER].n) {
        of_age = NULL; // of others it is not known what too old means
        rc = read_question(kb, text, given, n_given, &q, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (q.n_unknown > 0) {
        say_not_understood(&k);
        return 0;
    }
    rc = answer_each(&k, &q, 0, &missing, err);
    if (rc < 0) {
        return rc;
    }
    const char *read_as = question_text(kb->arena, &q);
    if (of_age && starts_with(read_as, "does ")) {
        read_as = arena_printf(kb->arena, "does too old %s", read_as + 5);
    }
    ret->read_as = q.area || !read_as[0] ? NULL : read_as;
    if (missing > 0 || !ret->known) {
        say_missing(&k, ret->known);
    } else if (of_age) {
        say_age(&k);
    }
    return 0;
}
