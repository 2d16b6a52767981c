/* The compute capability or gfx target behind a GPU's name, by kb/gpus.json. */
#include <string.h>

#include "base/str.h"
#include "log/internal.h"

enum { KEY_MAX = 64 };

/* Words that vendors, programs and people add or leave out. */
static const char *const noise[] = {
    "nvidia",      "corporation", "amd",    "ati",        "advanced",  "micro",       "devices",
    "inc",         "geforce",     "radeon", "tesla",      "instinct",  "graphics",    "gpu",
    "laptop",      "mobile",      "max",    "q",          "maxq",      "with",        "design",
    "r",           "tm",          "pascal", "generation", "blackwell", "workstation", "server",
    "edition",     "embedded",    "oem",    "sff",        "pcie",      "sxm",         "sxm2",
    "sxm3",        "sxm4",        "sxm5",   "sxm6",       "nvl",       "hbm2",        "hbm2e",
    "hbm3",        "hbm3e",       "dgxs",   "fhhl",       "gb",        "vf",          "hf",
    "engineering", "sample",      "lite",   "hash",       "rate",      "refresh",     "series",
};

static bool gpus_is_alnum(char c)
{
    return str_is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static struct str next_word(struct str *rest)
{
    while (rest->n && !gpus_is_alnum(rest->s[0])) {
        rest->s++;
        rest->n--;
    }
    struct str word = {rest->s, 0};
    while (rest->n && gpus_is_alnum(rest->s[0])) {
        rest->s++;
        rest->n--;
        word.n++;
    }
    return word;
}

/* "80GB", or "3" before "GB". */
static bool is_size(struct str word, struct str rest)
{
    size_t digits = 0;
    while (digits < word.n && str_is_digit(word.s[digits])) {
        digits++;
    }
    struct str unit = {word.s + digits, word.n - digits};
    unit = unit.n ? unit : next_word(&rest);
    return digits && digits <= 3 && str_eq_nocase(unit, STR("gb"));
}

/* Whether the word, or with `cut` any longer one that it begins, is noise. */
static bool is_noise(struct str word, bool cut)
{
    for (size_t i = 0; i < sizeof noise / sizeof *noise; i++) {
        struct str known = str_of(noise[i]);
        known.n = cut && known.n > word.n ? word.n : known.n;
        if (str_eq_nocase(known, word)) {
            return true;
        }
    }
    return false;
}

struct key {
    char text[KEY_MAX + 1];
    size_t n;
};

/* Adds the telling words of a name, without what stands between them. `cut`: the name's end is
 * missing. False if it is longer than any name. */
static bool key_add(struct key *k, struct str name, bool cut)
{
    for (struct str word; (word = next_word(&name)).n;) {
        if (str_eq_nocase(word, STR("mig"))) {
            break; // a slice of the card: what follows is its size
        }
        if (is_size(word, name) || is_noise(word, cut && !name.n)) {
            continue;
        }
        if (k->n + word.n > KEY_MAX) {
            return false;
        }
        for (size_t i = 0; i < word.n; i++) {
            k->text[k->n++] = str_lower(word.s[i]);
        }
    }
    k->text[k->n] = '\0';
    return true;
}

/* What stands before the first word that begins with a digit: "RX " of "RX 6700". */
static struct str family_of(struct str name)
{
    struct str rest = name;
    for (struct str word; (word = next_word(&rest)).n;) {
        if (str_is_digit(word.s[0])) {
            return (struct str){name.s, (size_t)(word.s - name.s)};
        }
    }
    return (struct str){name.s, 0};
}

/* Calls take() with the key of each name in "RX 6700/6700 XT / 6800M", until it returns false. */
static void each_key(struct str names, bool cut, bool (*take)(void *arg, const struct key *k),
                     void *arg)
{
    struct str family = {names.s, 0};
    while (names.s) {
        struct str name = str_trim(str_cut(&names, '/')), rest = name;
        struct key k = {.n = 0};
        struct str first = next_word(&rest);
        bool bare = first.n && str_is_digit(first.s[0]);
        family = bare ? family : family_of(name);
        if (key_add(&k, bare ? family : (struct str){name.s, 0}, false) &&
            key_add(&k, name, cut && !names.s) && k.n && !take(arg, &k)) {
            return;
        }
    }
}

/* ------------------------------------------------------------------ the table */

struct building {
    struct log_rules *rules;
    const struct kb_gpu *row;
};

static bool add_key(void *arg, const struct key *k)
{
    struct building *b = arg;
    struct log_gpu gpu = {arena_strdup(b->rules->arena, k->text), b->row};
    VEC_PUSH(b->rules->arena, &b->rules->gpus, gpu);
    return true;
}

/* Names of chips are no names of cards: "Vega 10" is another GPU in a notebook's processor. */
static bool is_card(const struct kb_gpu *g)
{
    return g->kind != KB_GPU_CHIP && !ends_with(g->name, " graphics");
}

static void gpus_load(struct log_rules *r)
{
    struct kb_gpus gpus;
    r->gpus_tried = true;
    if (kb_gpus(r->kb, &gpus, NULL) < 0) {
        return; // without the table names say nothing
    }
    r->gpu_rows = gpus;
    for (size_t i = 0; i < gpus.n; i++) {
        if (is_card(&gpus.rows[i])) {
            struct building b = {r, &gpus.rows[i]};
            each_key(str_of(gpus.rows[i].name), false, add_key, &b);
        }
    }
}

/* ------------------------------------------------------------------ asking */

static const char *target_of(const struct kb_gpu *g)
{
    return g->vendor == KB_VENDOR_AMD ? g->gfx : g->capability;
}

struct asking {
    const struct log_rules *rules;
    bool cut; // keys that begin so
    const struct kb_gpu *found;
    bool differ;
};

static void asking_take_row(struct asking *q, const struct kb_gpu *row)
{
    if (!target_of(row)) {
        return;
    }
    q->differ = q->differ || (q->found && strcmp(target_of(q->found), target_of(row)) != 0);
    q->found = q->found ? q->found : row;
}

static bool find_key(void *arg, const struct key *k)
{
    enum { CUT_MIN = 4 }; // "A10..." may be an A10 or an A100
    struct asking *q = arg;
    for (size_t i = 0; i < q->rules->gpus.n; i++) {
        const struct log_gpu *g = &q->rules->gpus.items[i];
        bool same =
            q->cut ? k->n >= CUT_MIN && starts_with(g->key, k->text) : strcmp(g->key, k->text) == 0;
        if (same) {
            asking_take_row(q, g->row);
        }
    }
    return !q->differ;
}

/* The name inside "Navi 31 [Radeon RX 7900 XT/7900 XTX]", without dots for what is cut off. */
static struct str bare_name(struct str name, bool *ret_cut)
{
    size_t open = str_find_char(name, '['), close = str_find_char(name, ']');
    if (open < close && close < name.n) {
        name = (struct str){name.s + open + 1, close - open - 1};
    }
    *ret_cut = str_ends(name, "...") || str_ends(name, "\u2026");
    return (struct str){name.s, name.n - (*ret_cut ? 3 : 0)}; // both are of three bytes
}

static const struct log_target *gpu_answer(struct log_target *to, const struct asking *q)
{
    if (!q->found || q->differ) {
        return NULL;
    }
    *to = (struct log_target){target_of(q->found), q->found->vendor == KB_VENDOR_AMD};
    return to;
}

const struct log_target *gpu_by_name(struct log_rules *r, const char *name, struct log_target *to)
{
    if (!r->gpus_tried) {
        gpus_load(r);
    }
    struct asking q = {.rules = r};
    struct str bare = bare_name(str_of(name), &q.cut);
    each_key(bare, q.cut, find_key, &q);
    return gpu_answer(to, &q);
}

const struct log_target *gpu_by_pci(struct log_rules *r, const char *device, bool amd,
                                    struct log_target *to)
{
    if (!r->gpus_tried) {
        gpus_load(r);
    }
    struct asking q = {.rules = r};
    for (size_t i = 0; i < r->gpu_rows.n; i++) {
        const struct kb_gpu *g = &r->gpu_rows.rows[i];
        for (size_t k = 0; (g->vendor == KB_VENDOR_AMD) == amd && k < g->pci.n; k++) {
            if (strcmp(g->pci.items[k], device) == 0) {
                asking_take_row(&q, g);
            }
        }
    }
    return gpu_answer(to, &q);
}
