#include "log/filter.h"

#include <string.h>

enum { GRAM = 4, AT_ONCE = 4, WORDS_LOG2 = 14, SLOT_EMPTY = -1 };

/* The four bytes by which a literal is found. */
struct piece {
    uint32_t gram; // folded
    uint32_t literal;
    uint16_t offset; // in the literal
    int next;        // with the same slot, or SLOT_EMPTY
};

struct filter {
    const char *const *literals;
    uint16_t *lengths;
    uint32_t bits[1u << WORDS_LOG2]; // by gram: see bit_of()
    struct piece *pieces;
    int *slots; // by hash: the first piece
    uint32_t slot_mask;
};

/* ------------------------------------------------------------------ hashing */

static inline uint32_t gram_at(const char *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return v | 0x20202020u; // more than letters become alike, which the comparison sorts out
}

static inline uint32_t hash(uint32_t gram)
{
    return gram * 0x9E3779B1u;
}

static inline uint32_t word_of(uint32_t gram)
{
    return hash(gram) >> (32 - WORDS_LOG2);
}

/* In its lowest bit; the others are of no meaning. A byte is the place in the word: processors take
 * the low bits of what they shift by, so that it costs nothing to find. */
static inline uint32_t bit_of(const struct filter *f, uint32_t gram)
{
    return f->bits[word_of(gram)] >> (gram % 32);
}

/* ------------------------------------------------------------------ building */

/* Words of ordinary logs, whose pieces are not to be searched for where a literal has others. */
static const char ordinary[] =
    "large larger largest small the and for are but not you all any can had her was one our out day get has him his how "
    "man new now old see two way who its did yes let put say she too use that with have this "
    "will your from they know want been good much some time very when come here just like long "
    "make many more only over such take than them well were into also back after other which "
    "their there would about could first these those where being every great think still "
    "through before should because between under while again never same another against without "
    "within during until above below since each both found using used uses based given "
    "following currently already please instead either possible supported support information "
    "info debug warning warnings error errors failed failure fail success successful "
    "successfully completed complete loading load loaded loads saving save saved model models "
    "checkpoint checkpoints weights shard shards layer layers attention encoder decoder "
    "embedding hidden heads config configuration config.json default defaults setting settings "
    "option options argument arguments parameter parameters value values type types size sizes "
    "length number numbers count counter total index key keys name names file files filename "
    "folder directory path paths read reading write writing open opened close closed create "
    "created update updated delete deleted remove removed add added install installed "
    "installing download downloaded downloading upload url https http www.com .org github "
    "huggingface.co resolve main server servers client clients request requests response "
    "responses connection connections connect connected host hostname port address listening "
    "listen started starting start stopped stopping stop running run runs ran exit exited "
    "finished finish end ended begin waiting wait ready done status code state process "
    "processes thread threads worker workers pool queue task tasks job jobs node nodes rank "
    "world service container image version versions release build built builder python3 site- "
    "packages module modules import imported package packages library function functions method "
    "methods class object objects attribute string integer float float32 tensor tensors shape "
    "shapes batch batches step steps epoch epochs loss train training trainer eval evaluation "
    "evaluate test tests testing accuracy score metric metrics learning rate gradient norm "
    "optimizer scheduler dataset datasets data sample samples sampling token tokens tokenizer "
    "text texts audio video image images input inputs output outputs result results prompt "
    "generate generated generation sequence language transcribe transcription segment segments "
    "duration seconds second minutes minute hours hour days date memory cache cached caching "
    "buffer bytes usage used free available allocated device devices cpu cpus core cores speed "
    "throughput latency average mean median min max minimum maximum per progress percent "
    "remaining elapsed user users password login session message messages event events level "
    "logger logging log logs trace traceback most recent call last line stack frame exception "
    "raise raised return returned returns self assert expected actual true false none null "
    "undefined unknown invalid valid validation check checked checking compare match matched "
    "missing different mismatch cannot can't don't isn't couldn't unable try trying retry "
    "retrying timeout deprecated future removed computing compiled compile compiling component "
    "components conditional compatible [info] [debug] info: debug: warning: error: info - ] [ "
    "2024-10-11-12-2025-10-11-12-2026-10-11-12-2026-01-02 00:00:10: 12:34:56,789 .000 0.00 1.00e-05 GET POST /api/ /v1/ 200 OK "
    "100% ---- ==== #### .... **** |||| __main__ __init__ /home/ /usr/lib/ /opt/ x86_64-linux- "
    "gnu .py\", line 127.0.0.1 10.0. it/s ms/step kb/s mb/s ";

/* How often a byte stands in logs, roughly, 0 to 9: letters by English, digits and blanks often. */
static unsigned byte_weight(unsigned char c)
{
    static const char often[] = " etaoinsr0.1/-2:dlcfpm_u3hgb4y5v6w78k9,)('x\"=|q[]jz";
    c = c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : c;
    const char *at = c ? strchr(often, c) : NULL;
    return at ? 9 - (unsigned)((size_t)(at - often) * 9 / sizeof often) : 0;
}

/* How often each piece stands in ordinary text, by hash. */
struct counts {
    uint8_t of[1u << 17];
};

static uint8_t *count_of(struct counts *c, const char *gram)
{
    return &c->of[hash(gram_at(gram)) >> 15];
}

static void count_ordinary(struct counts *c)
{
    for (size_t i = 0; i + GRAM < sizeof ordinary; i++) {
        uint8_t *count = count_of(c, ordinary + i);
        *count = (uint8_t)(*count + (*count < UINT8_MAX));
    }
}

static unsigned gram_weight(struct counts *c, const char *gram)
{
    enum { ORDINARY_WEIGHT = 50, BLANK_WEIGHT = 30 }; // two words may meet that the list has apart
    unsigned count = *count_of(c, gram), weight = count ? (count + 1) * ORDINARY_WEIGHT : 0;
    for (size_t k = 0; k < GRAM; k++) {
        weight += byte_weight((unsigned char)gram[k]);
        weight += gram[k] == ' ' && !count ? BLANK_WEIGHT : 0;
    }
    return weight;
}

/* One that another literal is found by already costs nothing more. */
static size_t rarest_gram(const struct filter *f, struct counts *c, const char *literal, size_t n)
{
    enum { SHARED_BONUS = 10 };
    size_t best = 0;
    unsigned lowest = ~0u;
    for (size_t i = 0; i + GRAM <= n; i++) {
        unsigned weight = SHARED_BONUS + gram_weight(c, literal + i);
        weight -= bit_of(f, gram_at(literal + i)) & 1 ? SHARED_BONUS : 0;
        if (weight < lowest) {
            lowest = weight;
            best = i;
        }
    }
    return best;
}

static void add_piece(struct filter *f, size_t literal, size_t offset)
{
    uint32_t gram = gram_at(f->literals[literal] + offset), h = hash(gram);
    int *slot = &f->slots[h >> 8 & f->slot_mask];
    f->pieces[literal] = (struct piece){gram, (uint32_t)literal, (uint16_t)offset, *slot};
    *slot = (int)literal;
    f->bits[word_of(gram)] |= 1u << (gram % 32);
}

struct filter *filter_build(struct arena *a, const char *const *literals, size_t n)
{
    struct counts common = {0}; // 128 KiB
    struct filter *f = arena_alloc(a, sizeof *f);
    size_t slots = 1024;
    count_ordinary(&common);
    while (slots < 2 * n && slots < 1 << 16) {
        slots *= 2;
    }
    f->literals = literals;
    f->lengths = arena_array(a, n + 1, sizeof *f->lengths);
    f->slot_mask = (uint32_t)slots - 1;
    f->slots = arena_array(a, slots, sizeof *f->slots);
    memset(f->slots, 0xff, slots * sizeof *f->slots); // SLOT_EMPTY
    f->pieces = arena_array(a, n + 1, sizeof *f->pieces);
    for (size_t i = 0; i < n; i++) {
        f->lengths[i] = (uint16_t)strlen(literals[i]);
        add_piece(f, i, rarest_gram(f, &common, literals[i], f->lengths[i]));
    }
    return f;
}

/* ------------------------------------------------------------------ searching */

static unsigned char lower(char c)
{
    unsigned char u = (unsigned char)c;
    return u >= 'A' && u <= 'Z' ? (unsigned char)(u | 0x20) : u;
}

static bool same(const char *text, const char *literal, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (lower(text[i]) != lower(literal[i])) {
            return false;
        }
    }
    return true;
}

/* Whether the literal of this piece stands around text + at, inside [from, end). */
static bool stands(const struct filter *f, const struct piece *p, const char *text, size_t from,
                   size_t at, size_t end)
{
    size_t length = f->lengths[p->literal];
    return at - from >= p->offset && end - at >= length - p->offset &&
           same(text + at - p->offset, f->literals[p->literal], length);
}

/* Of the pieces from `first` on: one whose literal stands around text + at, or NULL. */
static const struct piece *standing(const struct filter *f, int first, uint32_t gram,
                                    const char *text, size_t from, size_t at, size_t end)
{
    for (int i = first; i != SLOT_EMPTY; i = f->pieces[i].next) {
        const struct piece *p = &f->pieces[i];
        if (p->gram == gram && stands(f, p, text, from, at, end)) {
            return p;
        }
    }
    return NULL;
}

/* The pieces that may stand here. */
static int first_piece(const struct filter *f, uint32_t gram)
{
    return bit_of(f, gram) & 1 ? f->slots[hash(gram) >> 8 & f->slot_mask] : SLOT_EMPTY;
}

/* The next place at or after `at` where a bit is set; four places are asked about at once. */
static inline size_t next_candidate(const struct filter *f, const char *text, size_t at, size_t end)
{
    for (; at + AT_ONCE + GRAM <= end; at += AT_ONCE) {
        uint32_t found = 0;
        for (size_t i = 0; i < AT_ONCE; i++) {
            found |= bit_of(f, gram_at(text + at + i));
        }
        if (found & 1) {
            break;
        }
    }
    while (at + GRAM <= end && !(bit_of(f, gram_at(text + at)) & 1)) {
        at++;
    }
    return at + GRAM <= end ? at : end;
}

size_t filter_find(const struct filter *f, const char *text, size_t from, size_t end)
{
    for (size_t at = from; (at = next_candidate(f, text, at, end)) < end; at++) {
        uint32_t gram = gram_at(text + at);
        if (standing(f, first_piece(f, gram), gram, text, from, at, end)) {
            return at;
        }
    }
    return end;
}

void filter_all(const struct filter *f, const char *text, size_t n,
                void (*on_hit)(void *arg, size_t literal), void *arg)
{
    for (size_t at = 0; (at = next_candidate(f, text, at, n)) < n; at++) {
        uint32_t gram = gram_at(text + at);
        const struct piece *p;
        for (int i = first_piece(f, gram);
             (p = standing(f, i, gram, text, 0, at, n)) != NULL; i = p->next) {
            on_hit(arg, p->literal);
        }
    }
}
