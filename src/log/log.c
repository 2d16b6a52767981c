/* From pieces of text to facts. */
#include "log/log.h"

#include <string.h>

#include "log/document.h"
#include "log/dressed.h"
#include "log/reading.h"
#include "log/wrapped.h"

enum { HEAD_MIN = 4 };

struct log *log_open(struct log_rules *rules, struct arena *a)
{
    struct log *l = arena_alloc(a, sizeof *l);
    *l = (struct log){.rules = rules, .line = 1, .odd = -1, .table = TABLE_NONE};
    l->screen.screen = SCREEN_NONE;
    store_init(&l->store, a, rules->n_signatures);
    regex_forget_cost(rules);
    l->buffer = arena_alloc(a, BUFFER_BYTES);
    l->clean = arena_alloc(a, SEGMENT_MAX);
    l->utf8 = arena_alloc(a, (size_t)2 * LOG_LINE_MAX);
    l->whole = arena_alloc(a, KEPT_BYTES);
    l->hit = arena_alloc(a, KEPT_BYTES);
    l->hit_lines = arena_array(a, KEPT_LINES, sizeof *l->hit_lines);
    l->hits = arena_array(a, rules_owners_count(rules) / 64 + 1, sizeof *l->hits);
    l->literals = arena_array(a, rules->n_literals / 64 + 1, sizeof *l->literals);
    return l;
}

size_t log_facts_count(const struct log *l)
{
    return l->store.facts.n;
}

static void log_add_bytes(struct log *l, const char *data, size_t n)
{
    while (n) {
        size_t room = BUFFER_BYTES - l->n, part = n < room ? n : room;
        memcpy(l->buffer + l->n, data, part);
        l->n += part;
        data += part;
        n -= part;
        log_scan_buffer(l);
    }
}

/* ------------------------------------------------------------------ encodings */

static void add_code_point(struct log *l, uint32_t c)
{
    char out[4];
    size_t n = 0;
    if (c < 0x80) {
        out[n++] = (char)c;
    } else if (c < 0x800) {
        out[n++] = (char)(0xc0 | c >> 6);
    } else if (c < 0x10000) {
        out[n++] = (char)(0xe0 | c >> 12);
        out[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    } else {
        out[n++] = (char)(0xf0 | c >> 18);
        out[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        out[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    }
    if (c >= 0x80) {
        out[n++] = (char)(0x80 | (c & 0x3f));
    }
    if (BUFFER_BYTES - l->n < sizeof out) {
        log_scan_buffer(l);
    }
    memcpy(l->buffer + l->n, out, n);
    l->n += n;
}

static void add_unit(struct log *l, uint16_t unit)
{
    if (l->high && unit >= 0xdc00 && unit < 0xe000) {
        add_code_point(l, 0x10000 + ((uint32_t)(l->high - 0xd800) << 10) + (unit - 0xdc00u));
        l->high = 0;
    } else if (unit >= 0xd800 && unit < 0xdc00) {
        l->high = unit;
    } else {
        l->high = 0;
        add_code_point(l, unit >= 0xdc00 && unit < 0xe000 ? 0xfffd : unit == 0xfeff ? ' ' : unit);
    }
}

static void add_utf16(struct log *l, const unsigned char *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (l->odd < 0) {
            l->odd = data[i];
            continue;
        }
        unsigned first = (unsigned)l->odd, second = data[i];
        l->odd = -1;
        add_unit(l, (uint16_t)(l->encoding == ENCODING_UTF16LE ? first | second << 8
                                                               : first << 8 | second));
    }
    log_scan_buffer(l);
}

/* A byte order mark, or zero bytes in every other place as only UTF-16 has them. */
static enum encoding encoding_guess(const unsigned char *head, size_t n)
{
    size_t zeros[2] = {0, 0};
    for (size_t i = 0; i < n; i++) {
        zeros[i % 2] += head[i] == 0;
    }
    if (n >= 2 && head[0] == 0xff && head[1] == 0xfe) {
        return ENCODING_UTF16LE;
    }
    if (n >= 2 && head[0] == 0xfe && head[1] == 0xff) {
        return ENCODING_UTF16BE;
    }
    return zeros[1] * 3 > n && !zeros[0]   ? ENCODING_UTF16LE
           : zeros[0] * 3 > n && !zeros[1] ? ENCODING_UTF16BE
                                           : ENCODING_BYTES;
}

static void log_add_data(struct log *l, const void *data, size_t n)
{
    if (l->encoding == ENCODING_BYTES) {
        log_add_bytes(l, data, n);
    } else {
        add_utf16(l, data, n);
    }
}

static void know_encoding(struct log *l)
{
    l->encoding = encoding_guess(l->head, l->n_head);
    bool mark = l->n_head >= 3 && memcmp(l->head, "\xef\xbb\xbf", 3) == 0;
    log_add_data(l, l->head + (mark ? 3 : 0), l->n_head - (mark ? 3 : 0));
}

void log_feed(struct log *l, const void *data, size_t n)
{
    l->bytes += n;
    if (l->encoding == ENCODING_UNKNOWN) {
        size_t part = n < HEAD_BYTES - l->n_head ? n : HEAD_BYTES - l->n_head;
        memcpy(l->head + l->n_head, data, part);
        l->n_head += part;
        data = (const char *)data + part;
        n -= part;
        if (l->n_head < HEAD_MIN) {
            return;
        }
        know_encoding(l);
    }
    if (n) {
        log_add_data(l, data, n);
    }
}

void log_end(struct log *l)
{
    if (l->encoding == ENCODING_UNKNOWN) {
        know_encoding(l);
    }
    log_scan(l, l->buffer, l->n);
    l->n = 0;
    log_take_form(l);
    l->ended = true;
}

/* What its words are asked of: of a long text the lines that were looked at. */
static struct log_text words_text(const struct log *l)
{
    return l->is_long ? (struct log_text){l->hit, l->n_hit, l->hit_lines}
                      : (struct log_text){l->whole, l->n_whole, NULL};
}

/* The facts by line, with two more. */
static const struct log_fact **with_words(const struct log_result *r, const struct log_words *words,
                                          struct arena *a)
{
    const struct log_fact **facts = arena_array(a, r->n_facts + words->n + 1, sizeof *facts);
    for (size_t i = 0; i < r->n_facts; i++) {
        facts[i] = r->facts[i];
    }
    for (size_t i = 0; i < words->n; i++) {
        size_t at = r->n_facts + i;
        for (; at > 0 && facts[at - 1]->line > words->facts[i]->line; at--) {
            facts[at] = facts[at - 1];
        }
        facts[at] = words->facts[i];
    }
    return facts;
}

/* Where no rule holds, what the words of the text are like is one more fact, for rules about that.
 * Where the lines that a reading rests on, and those around them, are of a run that works, it is
 * none. */
static void judge_words(struct log *l, struct arena *a, struct log_result *ret)
{
    struct log_words words;
    struct log_text text = words_text(l);
    words_judge(l->rules, a, &text, ret, &words);
    if (ret->n) {
        ret->n = words.healthy ? 0 : ret->n;
    } else if (words.n && ret->n_facts + words.n <= LOG_FACTS_MAX) {
        log_judge_facts(l->rules, a, with_words(ret, &words, a), ret->n_facts + words.n, ret);
    }
}

/* Whether it is told whatever the words of the text are like; a long text is not kept whole. */
static bool result_stands(const struct log_result *r)
{
    return r->n && (!r->candidates[0].cause || r->candidates[0].confidence == LOG_CERTAIN);
}

static void drop_subjectless(const struct log_subjects *s, struct arena *a, struct log_result *ret)
{
    struct log_candidate *kept = arena_array(a, ret->n + 1, sizeof *kept);
    size_t n = 0;
    for (size_t i = 0; i < ret->n; i++) {
        if (!subjects_needed(s, &ret->candidates[i])) {
            kept[n++] = ret->candidates[i];
        }
    }
    ret->candidates = kept;
    ret->n = n;
}

static void judge_as_it_stands(struct log *l, struct arena *a, struct log_result *ret)
{
    log_judge_facts(l->rules, a, l->store.facts.items, l->store.facts.n, ret);
    if (l->line > l->rules->subjects.lines && !log_names_subject(l)) {
        drop_subjectless(&l->rules->subjects, a, ret);
    } else if (!ret->n || !(result_stands(ret) || l->is_long)) {
        judge_words(l, a, ret);
    }
    if (ret->n &&
        document_describes(l->rules, (struct str){l->whole, l->n_whole}, ret, l->pinned)) {
        ret->n_mentions = ret->n;
        ret->n = 0;
    }
}

/* Whether joined lines may tell more: there is no cause yet, or only a guess. */
static bool is_guess(const struct log_result *r)
{
    return !r->n || !r->candidates[0].cause || r->candidates[0].confidence == LOG_POSSIBLE;
}

/* The log of a text that another one became. */
static struct log *log_of_text(const struct log *l, struct arena *a, struct str text, bool pinned)
{
    struct log *other = log_open(l->rules, a);
    other->pinned = pinned;
    log_feed(other, text.s, text.n);
    log_end(other);
    return other;
}

/* Where a message was wrapped, none of its lines may show what it is. */
static void judge_joined(struct log *l, struct arena *a, struct log_result *ret)
{
    for (enum wrapped kind = 0; kind < WRAPPED_KINDS && is_guess(ret); kind++) {
        struct str text;
        if (wrapped_join(a, (struct str){l->whole, l->n_whole}, kind, &text)) {
            struct log_result more;
            judge_as_it_stands(log_of_text(l, a, text, l->pinned), a, &more);
            *ret = is_guess(&more) ? *ret : more;
        }
    }
}

static void judge_text(struct log *l, struct arena *a, struct log_result *ret)
{
    judge_as_it_stands(l, a, ret);
    if (l->ended && !l->is_long && is_guess(ret) && !ret->n_mentions) {
        judge_joined(l, a, ret);
    }
}

/* If every line starts with the same mark, the program's output is what follows the mark. */
static void judge_undressed(struct log *l, struct arena *a, struct log_result *ret)
{
    struct dressed bare;
    if (l->ended && !l->is_long && dressed_undo(a, (struct str){l->whole, l->n_whole}, &bare)) {
        judge_text(log_of_text(l, a, bare.text, bare.was_one_line), a, ret);
    }
}

void log_judge(struct log *l, struct arena *a, struct log_result *ret)
{
    judge_text(l, a, ret);
    judge_undressed(l, a, ret);
    ret->bytes = l->bytes;
    ret->lines = l->line;
    ret->facts_dropped = l->store.dropped;
    for (size_t i = 0; i < l->rules->n_signatures; i++) {
        ret->gave_up |= regex_given_up(&l->rules->signatures[i].regex);
    }
    for (size_t i = 0; i < screen_rows_count(); i++) {
        ret->gave_up |= regex_given_up(&l->rules->screen_rows[i]);
    }
    for (size_t i = 0; i < document_lines_count(); i++) {
        ret->gave_up |= regex_given_up(&l->rules->document_lines[i]);
    }
}
