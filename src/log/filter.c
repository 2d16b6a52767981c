#include "log/filter.h"

#include <string.h>

enum { GRAM = 4, AT_ONCE = 4, WORDS_LOG2 = 14 };

/* How a literal is found: by four bytes of it, and by four others, which are compared next. */
struct piece {
    uint32_t gram, near; // folded
    uint32_t literal;
    uint8_t gram_at, near_at; // in the literal
    uint8_t length;           // of the literal
};

struct filter {
    const char *const *literals;
    uint32_t bits[1u << WORDS_LOG2]; // by gram: see bit_of()
    struct piece *pieces;            // those of one slot side by side
    uint32_t *slots;                 // by hash: where its pieces begin, up to the next one's
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
    "to of in on at is it as by an or if be we no so up do me my he am us go to the of the in the "
    "is not on the it is as a or the if the be a large larger largest small the and for are but "
    "not you all any can had her was one our out day get has him his how "
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
    "2024-10-11-12-2025-10-11-12-2026-10-11-12-2026-01-02 00:00:10: 12:34:56,789 .000 0.00 "
    "1.00e-05 GET POST /api/ /v1/ 200 OK "
    "100% ---- ==== #### .... **** |||| __main__ __init__ /home/ /usr/lib/ /opt/ x86_64-linux- "
    "gnu .py\", line 127.0.0.1 10.0. it/s ms/step kb/s mb/s ";

/* How often pieces stand in ordinary text: those of four bytes, by hash, and those of two. */
struct counts {
    uint8_t of[1u << 17];
    uint16_t pairs[1u << 7][1u << 7];
    uint16_t bytes[1u << 7];
};

static uint8_t *count_of(struct counts *c, const char *gram)
{
    return &c->of[hash(gram_at(gram)) >> 15];
}

static unsigned folded(char c)
{
    return ((unsigned char)c | 0x20u) & 0x7f;
}

static void count_ordinary(struct counts *c)
{
    for (size_t i = 0; i + GRAM < sizeof ordinary; i++) {
        uint8_t *count = count_of(c, ordinary + i);
        *count = (uint8_t)(*count + (*count < UINT8_MAX));
        c->pairs[folded(ordinary[i])][folded(ordinary[i + 1])]++;
        c->bytes[folded(ordinary[i])]++;
    }
}

/* How often it may be expected in as much text by its pairs of bytes: for other words than those of
 * the list, and where two words meet that the list has apart. */
static double expected(const struct counts *c, const char *gram)
{
    const double unseen = 0.02;
    double n = unseen + c->pairs[folded(gram[0])][folded(gram[1])];
    for (size_t k = 1; k + 1 < GRAM; k++) {
        unsigned first = folded(gram[k]), second = folded(gram[k + 1]);
        n *= (unseen + c->pairs[first][second]) / (1.0 + c->bytes[first]);
    }
    return n;
}

/* One that another literal is found by already costs little more. */
static size_t rarest_gram(const struct filter *f, struct counts *c, const char *literal, size_t n)
{
    const double shared = 0.1, least = 0.001;
    size_t best = 0;
    double lowest = 0;
    for (size_t i = 0; i + GRAM <= n; i++) {
        double weight = *count_of(c, literal + i) + expected(c, literal + i) + least;
        weight *= bit_of(f, gram_at(literal + i)) & 1 ? shared : 1;
        if (i == 0 || weight < lowest) {
            lowest = weight;
            best = i;
        }
    }
    return best;
}

/* `near` are the last four bytes, or the first ones where the last are the gram. */
static struct piece piece_of(struct filter *f, struct counts *c, size_t literal)
{
    const char *text = f->literals[literal];
    size_t n = strlen(text), at = rarest_gram(f, c, text, n), near = at + GRAM < n ? n - GRAM : 0;
    uint32_t gram = gram_at(text + at);
    f->bits[word_of(gram)] |= 1u << (gram % 32);
    return (struct piece){gram,        gram_at(text + near), (uint32_t)literal,
                          (uint8_t)at, (uint8_t)near,        (uint8_t)n};
}

static uint32_t slot_of(const struct filter *f, uint32_t gram)
{
    return hash(gram) >> 8 & f->slot_mask;
}

/* By counting: a slot's end is moved to its beginning as its pieces come. */
static void sort_pieces(struct filter *f, const struct piece *pieces, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        f->slots[slot_of(f, pieces[i].gram)]++;
    }
    for (uint32_t i = 1; i <= f->slot_mask + 1; i++) {
        f->slots[i] += f->slots[i - 1];
    }
    for (size_t i = 0; i < n; i++) {
        f->pieces[--f->slots[slot_of(f, pieces[i].gram)]] = pieces[i];
    }
}

struct filter *filter_build(struct arena *a, const char *const *literals, size_t n)
{
    struct counts *common = arena_alloc(a, sizeof *common);
    struct filter *f = arena_alloc(a, sizeof *f);
    struct piece *pieces = arena_array(a, n + 1, sizeof *pieces);
    size_t slots = 1024;
    count_ordinary(common);
    while (slots < 2 * n && slots < 1 << 16) {
        slots *= 2;
    }
    f->literals = literals;
    f->slot_mask = (uint32_t)slots - 1;
    f->slots = arena_array(a, slots + 1, sizeof *f->slots);
    f->pieces = arena_array(a, n + 1, sizeof *f->pieces);
    for (size_t i = 0; i < n; i++) {
        pieces[i] = piece_of(f, common, i);
    }
    sort_pieces(f, pieces, n);
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

/* A text in which literals are looked for. */
struct part {
    const char *text;
    size_t from, end;
};

/* Whether the literal of this piece stands where its gram does, at `at`. */
static inline bool stands(const struct filter *f, const struct piece *p, const struct part *part,
                          size_t at)
{
    if (at - part->from < p->gram_at || part->end - at < (size_t)(p->length - p->gram_at)) {
        return false;
    }
    const char *start = part->text + at - p->gram_at;
    return gram_at(start + p->near_at) == p->near &&
           same(start, f->literals[p->literal], p->length);
}

/* Of the pieces from `i` on that have this gram: one whose literal stands at `at`, or `last`. */
static uint32_t standing(const struct filter *f, uint32_t i, uint32_t last, const struct part *part,
                         size_t at)
{
    uint32_t gram = gram_at(part->text + at);
    while (i < last && !(f->pieces[i].gram == gram && stands(f, &f->pieces[i], part, at))) {
        i++;
    }
    return i;
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
    const struct part part = {text, from, end};
    for (size_t at = from; (at = next_candidate(f, text, at, end)) < end; at++) {
        uint32_t slot = slot_of(f, gram_at(text + at)), last = f->slots[slot + 1];
        if (standing(f, f->slots[slot], last, &part, at) < last) {
            return at;
        }
    }
    return end;
}

void filter_all(const struct filter *f, const char *text, size_t n,
                void (*on_hit)(void *arg, size_t literal, size_t at), void *arg)
{
    const struct part part = {text, 0, n};
    for (size_t at = 0; (at = next_candidate(f, text, at, n)) < n; at++) {
        uint32_t slot = slot_of(f, gram_at(text + at)), last = f->slots[slot + 1];
        for (uint32_t i = f->slots[slot]; (i = standing(f, i, last, &part, at)) < last; i++) {
            on_hit(arg, f->pieces[i].literal, at - f->pieces[i].gram_at);
        }
    }
}
