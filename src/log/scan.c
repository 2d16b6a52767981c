/* From many bytes to the lines that may show something. */
#include <string.h>

#include "log/reading.h"

enum { BEFORE_MAX = 16 << 10 }; // bytes of a segment before a literal

static uint64_t count_newlines(const char *text, size_t n)
{
    uint64_t sum = 0;
    while (n) {
        size_t block = n < 255 ? n : 255;
        unsigned char count = 0; // of one block: bytes add up sixteen at a time
        for (size_t i = 0; i < block; i++) {
            count = (unsigned char)(count + (text[i] == '\n'));
        }
        sum += count;
        text += block;
        n -= block;
    }
    return sum;
}

static bool is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

/* Where something is to be looked at: a literal, an escape, a backslash of a JSON line. Each is
 * searched for again only when the place it was found at is behind. */
struct places {
    struct log *log;
    const char *text;
    size_t end;
    size_t literal, escape, backslash;
    size_t start, stop; // of the line that was read last
    bool is_known;      // the next two are what they say
    struct log_line line;
    struct sieve_pairs pairs; // of that line
    bool is_asked, is_passed; // whether it shows nothing, and that it does
};

static size_t next_byte(const struct places *p, size_t from, char c)
{
    const char *found = memchr(p->text + from, c, p->end - from);
    return found ? (size_t)(found - p->text) : p->end;
}

/* By which lines are found that are looked at. */
static const struct filter *lines_filter(const struct log *l)
{
    return l->sieve ? sieve_lines(l->sieve) : l->rules->filter;
}

/* Reads the line around a place, unless it is longer than what is looked at in one piece, or has
 * more to it than one plain text of one process. */
static void know_line(struct places *p, size_t at)
{
    size_t before = at < LOG_LINE_MAX ? at : LOG_LINE_MAX;
    p->log->n_known++;
    p->is_asked = p->is_passed = false;
    const char *newline = memrchr(p->text + at - before, '\n', before);
    p->start = newline ? (size_t)(newline - p->text) + 1 : at - before;
    p->stop = next_byte(p, at, '\n');
    size_t n = p->stop - p->start;
    struct str s = str_trim((struct str){p->text + p->start, n});
    p->line = (struct log_line){.text = s.s, .n = s.n};
    sieve_pairs_begin(&p->pairs, s.s, s.n);
    p->is_known = n < LOG_LINE_MAX && !str_starts(s, "note:") && line_is_clean(s.s, s.n) &&
                  str_is_utf8(s.s, s.n);
    if (p->is_known) {
        line_prefix(&p->line);
        struct str body = str_trim((struct str){s.s + p->line.body, s.n - p->line.body});
        p->is_known = !line_may_be_json(body);
    }
}

/* Whether the line shows nothing, whatever is in it: asked once, of lines that expressions would be
 * searched for in. */
static bool line_is_passed(struct places *p)
{
    if (!p->is_asked) {
        p->is_asked = true;
        p->is_passed = line_shows_nothing((struct str){p->line.text, p->line.n});
    }
    return p->is_passed;
}

/* Whether an owner finds nothing, or nothing new, in a line. */
static bool finds_nothing(struct places *p, size_t owner)
{
    const struct log *l = p->log;
    const struct log_line *line = &p->line;
    struct log_rules *r = l->rules;
    struct str body = {line->text + line->body, line->n - line->body};
    if (spent_has(&l->spent, line->process, owner) ||
        !sieve_fits_ends(l->sieve, owner, line->text, line->n, body.n)) {
        return true;
    }
    if (owner >= r->n_signatures) {
        size_t table = owner - r->n_signatures;
        return table < TABLES && !table_begins((enum log_table)table, body);
    }
    return (r->signatures[owner].regex.text && !sieve_may_fit(l->sieve, &p->pairs, owner)) ||
           line_is_passed(p) || log_line_is_known(p->log, owner, line);
}

/* Whether the line of a literal is not worth a look for one of its owners. Most lines that have one
 * literal have several, so that the answers are kept. */
static bool owner_passes(struct places *p, uint32_t owner)
{
    struct log *l = p->log;
    if (owner == SIEVE_WATCHED) {
        return l->named; // watched until a line has one
    }
    if (store_is_full(&l->store) || l->passed[owner] == l->n_known) {
        return true;
    }
    if (!p->is_known || !finds_nothing(p, owner)) {
        return false;
    }
    l->passed[owner] = l->n_known;
    return true;
}

/* Whether the line of a literal is not worth a look for it. */
static bool passes(void *arg, size_t literal, size_t at)
{
    struct places *p = arg;
    size_t n;
    const uint32_t *owners = sieve_line_owners(p->log->sieve, literal, &n);
    bool is_next = at < p->start || at >= p->stop;
    if (is_next && !store_is_full(&p->log->store)) {
        know_line(p, at);
    }
    if (!is_next && p->is_passed) {
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        if (!owner_passes(p, owners[i])) {
            return false;
        }
    }
    return true;
}

static size_t next_literal(struct places *p, size_t at)
{
    return filter_find(lines_filter(p->log), p->text, at, p->end, p->log->sieve ? passes : NULL, p);
}

static size_t next_place(struct places *p, size_t at)
{
    if (p->literal < at) {
        p->literal = next_literal(p, at);
    }
    if (p->escape < at) {
        p->escape = next_byte(p, at, '\033');
    }
    if (p->backslash < at) {
        p->backslash = next_byte(p, at, '\\');
    }
    size_t next = p->literal < p->escape ? p->literal : p->escape;
    return next < p->backslash ? next : p->backslash;
}

/* The segment around a place: [*ret_start, *ret_stop), not before `from`. */
static void segment_around(const struct places *p, size_t from, size_t at, size_t *ret_start,
                           size_t *ret_stop)
{
    size_t start = at, first = at - from > BEFORE_MAX ? at - BEFORE_MAX : from;
    while (start > first && !is_line_end(p->text[start - 1])) {
        start--;
    }
    size_t stop = at, last = p->end - start > SEGMENT_MAX ? start + SEGMENT_MAX : p->end;
    while (stop < last && !is_line_end(p->text[stop])) {
        stop++;
    }
    *ret_start = start;
    *ret_stop = stop;
}

/* Whether a segment may be JSON behind what line_prefix() measures. */
static bool may_be_json(const char *text, size_t n)
{
    enum { BRACE_WITHIN = 200 };
    if (!memchr(text, '{', n < BRACE_WITHIN ? n : BRACE_WITHIN)) {
        return false;
    }
    struct log_line line = {.text = text, .n = n};
    line_prefix(&line);
    struct str body = str_trim((struct str){text + line.body, n - line.body});
    return !line_is_clean(text, n) || line_may_be_json(body);
}

/* A backslash alone counts only in what may be JSON. */
static bool worth_it(const struct places *p, size_t at, size_t start, size_t stop)
{
    return p->literal < stop || p->escape < stop || at != p->backslash ||
           may_be_json(p->text + start, stop - start);
}

/* Behind "\n", "\r" or "\r\n", if one of them stands there. */
static size_t after_line_end(const char *text, size_t at, size_t end)
{
    at += at + 1 < end && text[at] == '\r' && text[at + 1] == '\n';
    return at + (at < end && is_line_end(text[at]));
}

static void log_keep_whole(struct log *l, const char *text, size_t n)
{
    size_t room = KEPT_BYTES - l->n_whole, part = n < room ? n : room;
    l->is_long = l->is_long || n > room;
    memcpy(l->whole + l->n_whole, text, part);
    l->n_whole += part;
}

static void keep_hit(struct log *l, const char *text, size_t n)
{
    l->hit_is_full = l->hit_is_full || n >= KEPT_BYTES - l->n_hit || l->n_hit_lines >= KEPT_LINES;
    if (!l->hit_is_full) {
        memcpy(l->hit + l->n_hit, text, n);
        l->hit[l->n_hit + n] = '\n';
        l->n_hit += n + 1;
        l->hit_lines[l->n_hit_lines++] = l->line;
    }
}

bool log_names_subject(const struct log *l)
{
    const struct log_rules *r = l->rules;
    bool named = l->noted || l->named;
    for (size_t i = 0; !named && i < r->n_literals; i++) {
        named = l->literals[i / 64] >> (i % 64) & 1 && subjects_in(&r->subjects, r->literals[i]);
    }
    return named;
}

/* From here on only lines are looked at that a signature may fit. */
static void begin_sieve(struct log *l)
{
    l->named = log_names_subject(l);
    l->sieve = rules_sieve(l->rules, !l->named);
    sieve_line_init(&l->sifted, l->store.arena, rules_owners_count(l->rules));
    spent_init(&l->spent, l->store.arena, rules_owners_count(l->rules));
    l->passed = arena_array(l->store.arena, rules_owners_count(l->rules), sizeof *l->passed);
}

void log_scan(struct log *l, const char *text, size_t end)
{
    struct places p = {.log = l, .text = text, .end = end};
    size_t counted = 0, at = 0, start, stop;
    p.literal = next_literal(&p, 0);
    p.escape = next_byte(&p, 0, '\033');
    p.backslash = next_byte(&p, 0, '\\');
    while (at < end) {
        size_t place = log_reads_on(l) ? at : next_place(&p, at);
        if (place >= end) {
            break;
        }
        segment_around(&p, at, place, &start, &stop);
        l->line += count_newlines(text + counted, start - counted);
        counted = start;
        unsigned forgotten = l->spent.forgotten;
        if (log_reads_on(l) || worth_it(&p, place, start, stop)) {
            log_take_segment(l, text + start, stop - start);
            keep_hit(l, text + start, stop - start);
        }
        at = after_line_end(text, stop, end);
        bool begins = l->hit_is_full && !l->sieve;
        if (begins) {
            begin_sieve(l);
        }
        if (begins || l->spent.forgotten != forgotten) {
            p.literal = p.stop = 0; // to be found again
        }
    }
    l->line += count_newlines(text + counted, end - counted);
    log_keep_whole(l, text, end);
}

static size_t last_line_end(const char *text, size_t n)
{
    while (n && !is_line_end(text[n - 1])) {
        n--;
    }
    return n;
}

void log_scan_buffer(struct log *l)
{
    size_t end = last_line_end(l->buffer, l->n), keep = l->n - end;
    if (keep >= SEGMENT_MAX) {
        end = l->n;
        keep = OVERLAP; // bytes are scanned, a line end among them is not: it is not counted twice
    }
    if (end) {
        log_scan(l, l->buffer, end);
        memmove(l->buffer, l->buffer + l->n - keep, keep);
        l->n = keep;
    }
}
