#include "kb/gpu_name.h"

#include <string.h>

#include "base/str.h"

/* Words of a name that people leave out. */
static const char brands[] =
    " geforce radeon instinct tesla nvidia amd generation jetson graphics gpu ";

/* What drivers call "Laptop GPU" is "Mobile" in pci.ids, but for a part of them. */
static const char portable[] = " laptop mobile ";

struct tokens {
    struct str items[24];
    size_t n;
};

static bool word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool has_word(const char *list, struct str word)
{
    for (const char *at = list; *at; at++) {
        if (*at == ' ' && str_eq_nocase((struct str){at + 1, strcspn(at + 1, " ")}, word)) {
            return true;
        }
    }
    return false;
}

/* Runs of letters and runs of digits, so that "RTX3060" and "6 GB" are what "RTX 3060" and "6GB"
 * are; words of `without` are left out. */
static void tokens_add(struct tokens *t, struct str text, const char *without)
{
    while (text.n > 0 && t->n < sizeof t->items / sizeof *t->items) {
        size_t whole = 0;
        while (whole < text.n && word_char(text.s[whole])) {
            whole++;
        }
        bool skip = whole == 0 || has_word(without, (struct str){text.s, whole});
        size_t n = skip ? whole + (whole == 0) : 1;
        while (!skip && n < whole && str_is_digit(text.s[n]) == str_is_digit(text.s[n - 1])) {
            n++;
        }
        if (!skip && !has_word(without, (struct str){text.s, n})) {
            t->items[t->n++] = (struct str){text.s, n};
        }
        text.s += n;
        text.n -= n;
    }
}

static bool is_same_word(struct str one, struct str two)
{
    return str_eq_nocase(one, two) || (has_word(portable, one) && has_word(portable, two));
}

/* "P100": one letter and a number in one word, which is not "P102-100". */
static bool is_letter_of_number(const struct tokens *t, size_t i)
{
    return i + 1 < t->n && t->items[i].n == 1 && !str_is_digit(t->items[i].s[0]) &&
           t->items[i].s + 1 == t->items[i + 1].s;
}

static bool tokens_within(const struct tokens *part, const struct tokens *whole)
{
    for (size_t i = 0; i < part->n; i++) {
        bool found = false, with_next = is_letter_of_number(part, i);
        for (size_t k = 0; k < whole->n && !found; k++) {
            found = is_same_word(part->items[i], whole->items[k]) &&
                    (!with_next ||
                     (k + 1 < whole->n && str_eq_nocase(part->items[i + 1], whole->items[k + 1])));
        }
        if (!found) {
            return false;
        }
    }
    return part->n > 0;
}

static bool has_digit(struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (str_is_digit(text.s[i])) {
            return true;
        }
    }
    return false;
}

static bool tokens_same(const struct tokens *one, const struct tokens *two)
{
    return one->n == two->n && tokens_within(one, two);
}

/* "Radeon RX" of "Radeon RX 470/480": the words before the first with a digit. */
static struct str name_head(struct str name)
{
    size_t end = 0;
    for (size_t i = 0; i < name.n; i++) {
        if (name.s[i] == ' ') {
            end = i;
        } else if (str_is_digit(name.s[i])) {
            break;
        }
    }
    return (struct str){name.s, end};
}

/* Whether one of the cards that a name lists is called so. */
static bool card_name_is(const struct kb_gpu *g, const struct tokens *bare)
{
    struct tokens whole = {.n = 0};
    struct str rest = str_of(g->name), head = name_head(rest);
    tokens_add(&whole, rest, brands);
    if (tokens_same(bare, &whole)) {
        return true;
    }
    while (strchr(g->name, '/') && rest.s) {
        struct tokens alone = {.n = 0}, headed = {.n = 0};
        struct str card = str_cut(&rest, '/');
        tokens_add(&alone, card, brands);
        tokens_add(&headed, head, brands);
        tokens_add(&headed, card, brands);
        if (tokens_same(bare, &alone) || tokens_same(bare, &headed)) {
            return true;
        }
    }
    return false;
}

static bool name_has(const struct kb_gpu *g, const struct tokens *words)
{
    struct tokens all = {.n = 0};
    tokens_add(&all, str_of(g->name), "");
    tokens_add(&all, str_of(g->vendor == KB_VENDOR_AMD ? "amd radeon" : "nvidia geforce"), "");
    return tokens_within(words, &all);
}

void kb_gpus_containing(struct arena *a, const struct kb_gpus *gpus, const char *text,
                        struct kb_gpu_list *ret)
{
    struct tokens bare = {.n = 0};
    tokens_add(&bare, str_of(text), brands);
    for (size_t i = 0; i < gpus->n; i++) {
        if (name_has(&gpus->rows[i], &bare)) {
            VEC_PUSH(a, &ret->items, &gpus->rows[i]);
        }
    }
}

void kb_gpus_words(const struct kb_gpus *gpus, const char *const *words, size_t n, bool *ret)
{
    for (size_t i = 0; i < n; i++) {
        struct tokens bare = {.n = 0};
        tokens_add(&bare, str_of(words[i]), brands);
        ret[i] = bare.n == 0;
    }
    for (size_t g = 0; g < gpus->n; g++) {
        const struct kb_gpu *gpu = &gpus->rows[g];
        struct tokens all = {.n = 0};
        tokens_add(&all, str_of(gpu->name), "");
        tokens_add(&all, str_of(gpu->vendor == KB_VENDOR_AMD ? "amd radeon" : "nvidia geforce"),
                   "");
        for (size_t i = 0; i < n; i++) {
            struct tokens bare = {.n = 0};
            if (!ret[i]) {
                tokens_add(&bare, str_of(words[i]), brands);
                ret[i] = tokens_within(&bare, &all);
            }
        }
    }
}

void kb_gpus_named(struct arena *a, const struct kb_gpus *gpus, const char *text,
                   struct kb_gpu_list *ret)
{
    struct tokens asked = {.n = 0}, bare = {.n = 0};
    bool family = str_eq_nocase((struct str){text, strnlen(text, 7)}, str_of("jetson "));
    bool exact = !has_digit(str_of(text)) && !family;
    size_t before = ret->items.n;
    tokens_add(&asked, str_of(text), "");
    tokens_add(&bare, str_of(text), brands);
    for (size_t i = 0; i < gpus->n; i++) {
        const struct kb_gpu *g = &gpus->rows[i];
        bool same = name_has(g, &bare) && card_name_is(g, &bare);
        if (!same && (exact || !name_has(g, &asked))) {
            continue;
        }
        ret->items.n = same && !exact ? before : ret->items.n;
        exact = exact || same;
        VEC_PUSH(a, &ret->items, g);
    }
}

const char *kb_gpu_value(const struct kb_gpu *g)
{
    return g->capability ? g->capability : g->gfx;
}

bool kb_gpus_alike(const struct kb_gpu_list *list)
{
    for (size_t i = 1; i < list->items.n; i++) {
        if (strcmp(kb_gpu_value(list->items.items[0]), kb_gpu_value(list->items.items[i])) != 0) {
            return false;
        }
    }
    return list->items.n > 0;
}
