/* From pieces of text to facts. */
#include "log/log.h"

#include <string.h>

#include "log/document.h"
#include "log/internal.h"

/* The sieve comes behind that many bytes of lines: fuzzing has fewer, as its inputs are small. */
#ifndef LOG_KEPT_BYTES
#define LOG_KEPT_BYTES (16 << 10)
#endif

enum {
    BUFFER_BYTES = 512 << 10,
    SEGMENT_MAX = 64 << 10, // bytes between two line ends that are looked at together
    BEFORE_MAX = 16 << 10,  // of them before a literal
    OVERLAP = 256,          // of two pieces of one line
    ROWS_MAX = 2000,        // of a table
    HEAD_BYTES = 256,       // by which the encoding is known
    HEAD_MIN = 4,
    VALUE_MAX = 400,             // bytes of a field
    KEPT_BYTES = LOG_KEPT_BYTES, // of a text whose words are looked at if no rule knows it
    KEPT_LINES = 2048,
};

enum encoding { ENCODING_UNKNOWN, ENCODING_BYTES, ENCODING_UTF16LE, ENCODING_UTF16BE };

/* The fields of one match; values are cut to what fits. */
struct fields {
    struct log_field items[LOG_FIELDS_MAX + LOG_GROUPS_MAX];
    size_t n;
    char values[LOG_GROUPS_MAX][VALUE_MAX + 1];
};

struct log {
    struct log_rules *rules;
    struct log_store store;
    char *buffer; // text that is not looked at yet
    size_t n;
    char *clean;    // one segment, made plain
    char *utf8;     // one piece, made UTF-8 where it is not
    uint64_t line;  // number of the line that the buffer begins with
    uint64_t inner; // lines of texts inside JSON lines, beyond the first of each text
    uint64_t bytes;
    uint64_t *hits;            // a bit for each signature, table and screen
    uint64_t *literals;        // a bit for each that began a word somewhere, until there is a sieve
    const struct sieve *sieve; // NULL: until enough lines were kept, each literal counts
    struct sieve_line sifted;
    struct spent spent; // once there is a sieve
    uint64_t n_known;   // lines that know_line() read
    uint64_t *passed;   // of each owner: the last of them that is not worth a look for it
    bool sifting;       // the line is, of which `sifted` tells
    bool named;         // a watched literal of the sieve began a word, or one of `literals` did
    enum encoding encoding;
    unsigned char head[HEAD_BYTES]; // until the encoding is known
    size_t n_head;
    uint16_t high; // first half of a surrogate pair, or 0
    int odd;       // first byte of a UTF-16 unit, or -1
    enum log_table table;
    unsigned rows;
    struct log_screen_state screen;
    struct log_regex *refuted_by; // of a fact in the last line or the one before; NULL: of none
    size_t asked;                 // index of that fact
    uint64_t answered;            // place of the next line, or 0
    char *whole;                  // the text, or its first KEPT_BYTES
    size_t n_whole;
    bool is_long;
    bool noted;           // a person wrote about what happened
    struct fields fields; // of the match that is looked at: too much to clear for each
    char *hit;            // the first lines with a literal, each with a line end
    size_t n_hit;
    uint64_t *hit_lines; // their numbers
    size_t n_hit_lines;
    bool hit_is_full;
};

/* Signatures, tables, screens: those that a literal may belong to. */
static size_t owners_count(const struct log_rules *r)
{
    return r->n_signatures + TABLES + SCREENS;
}

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
    l->hits = arena_array(a, owners_count(rules) / 64 + 1, sizeof *l->hits);
    l->literals = arena_array(a, rules->n_literals / 64 + 1, sizeof *l->literals);
    return l;
}

size_t log_facts_count(const struct log *l)
{
    return l->store.facts.n;
}

/* ------------------------------------------------------------------ one line */

/* What a literal was found in. */
struct hit {
    struct log *log;
    const char *text;
};

static void on_hit(void *arg, size_t literal, size_t at)
{
    const struct hit *hit = arg;
    struct log *l = hit->log;
    uint32_t owner = l->rules->owners[literal];
    bool in_word = at && str_is_letter(hit->text[at - 1]) && str_is_letter(hit->text[at]);
    l->hits[owner / 64] |= (uint64_t)1 << (owner % 64);
    l->literals[literal / 64] |= (uint64_t)!in_word << (literal % 64);
}

static const char *value_copy(char *to, const char *text, size_t n)
{
    if (n > VALUE_MAX) {
        n = VALUE_MAX;
        while (n && ((unsigned char)text[n] & 0xc0) == 0x80) {
            n--; // not through a character
        }
    }
    memcpy(to, text, n);
    to[n] = '\0';
    return to;
}

/* The constants of a signature and what its groups hold, which goes before. */
static void match_fields(const struct log_signature *s, const char *text, const size_t *at,
                         int n_groups, struct fields *to)
{
    for (to->n = 0; to->n < s->n_fields; to->n++) {
        to->items[to->n] = s->fields[to->n];
    }
    for (int g = 1; g < n_groups; g++) {
        const char *name = s->regex.groups[g];
        if (!name || at[2 * g] == PCRE2_UNSET || at[2 * g] >= at[2 * g + 1]) {
            continue;
        }
        size_t i = 0;
        while (i < to->n && to->items[i].name != name) {
            i++;
        }
        to->items[i] = (struct log_field){
            name, value_copy(to->values[g], text + at[2 * g], at[2 * g + 1] - at[2 * g])};
        to->n += i == to->n;
    }
}

static size_t after_character(const char *text, size_t n, size_t at)
{
    do {
        at++;
    } while (at < n && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

/* ------------------------------------------------------------------ GPUs by name */

/* A name says which target it is, where the knowledge base knows it. */
static void store_target(struct log *l, const struct log_line *line, const char *gpu,
                         const struct log_target *target)
{
    static const char gfx[] = "gfx", capability[] = "capability";
    struct log_rules *r = l->rules;
    struct log_field fields[] = {
        {rules_intern(r, "arch", 4), target->arch},
        {rules_intern(r, "gpu", 3), gpu},
        {rules_intern(r, "vendor", 6), target->amd ? "amd" : "nvidia"},
        {rules_intern(r, "by_name", 7), "yes"},
    };
    const struct log_said said = {target->amd ? rules_intern(r, gfx, sizeof gfx - 1)
                                              : rules_intern(r, capability, sizeof capability - 1),
                                  line, fields, sizeof fields / sizeof *fields};
    (void)store_add(&l->store, r->n_signatures + 1, "gpu-name", &said);
}

static const char *field_of(const struct log_said *said, const char *name)
{
    for (size_t i = 0; i < said->n_fields; i++) {
        if (strcmp(said->fields[i].name, name) == 0) {
            return said->fields[i].value;
        }
    }
    return NULL;
}

/* Keeps a fact, and what the name of a GPU in it stands for. */
static void store_fact(struct log *l, size_t index, const char *id, const struct log_said *said)
{
    bool stored = store_add(&l->store, index, id, said);
    const char *gpu = stored && strcmp(said->kind, "gpu") == 0 ? field_of(said, "gpu") : NULL;
    struct log_target target;
    if (gpu && !field_of(said, "arch") && gpu_by_name(l->rules, gpu, &target)) {
        store_target(l, said->line, gpu, &target);
    }
}

/* ------------------------------------------------------------------ signatures */

/* A question's answer stands in the next line: "False" is meant, and "True" takes the fact back. */
static void take_answer(struct log *l, const struct log_line *line)
{
    static const char refuted[] = "refuted";
    if (!l->refuted_by || line->place == l->store.facts.items[l->asked]->place) {
        return;
    }
    l->answered = l->answered ? l->answered : line->place;
    const char *body = line->text + line->body;
    if (line->place != l->answered) {
        l->refuted_by = NULL;
    } else if (regex_search(l->rules, l->refuted_by, body, line->n - line->body, 0, NULL) > 0) {
        store_refute(&l->store, l->asked, rules_intern(l->rules, refuted, sizeof refuted - 1));
        if (l->sieve) {
            spent_forget(&l->spent);
        }
        l->refuted_by = NULL;
    }
}

/* The next line may take back the facts from `before` on. */
static void ask(struct log *l, struct log_signature *s, size_t before)
{
    if (s->refuted_by.text && l->store.facts.n > before) {
        l->refuted_by = &s->refuted_by;
        l->asked = before;
        l->answered = 0;
    }
}

/* Facts of one signature in text; how many there were. */
static unsigned match(struct log *l, size_t index, const struct log_line *line, size_t from)
{
    struct log_signature *s = &l->rules->signatures[index];
    struct fields *fields = &l->fields;
    const char *text = line->text + from;
    size_t n = line->n - from, start = 0;
    unsigned found = 0;
    const size_t *at;
    for (int rc; start <= n && found < LOG_MATCHES_MAX; found++) {
        rc = regex_search(l->rules, &s->regex, text, n, start, &at);
        if (rc <= 0) {
            break;
        }
        start = at[1] > at[0] ? at[1] : after_character(text, n, at[1]);
        match_fields(s, text, at, rc, fields);
        size_t before = l->store.facts.n;
        store_fact(l, index, s->id, &(struct log_said){s->kind, line, fields->items, fields->n});
        ask(l, s, before);
    }
    return found;
}

/* Whether all that a signature finds are the same facts, of which there are enough. */
static bool says_nothing_new(struct log *l, size_t index, const struct log_line *line)
{
    const struct log_signature *s = &l->rules->signatures[index];
    const struct log_said said = {s->kind, line, s->fields, s->n_fields};
    bool constant =
        !s->refuted_by.text && (!s->regex.text || (s->regex.code && !s->regex.n_groups));
    if (!constant || !store_has_enough(&l->store, &said, true)) {
        return false;
    }
    if (l->sieve && store_has_enough(&l->store, &said, false)) {
        spent_add(&l->spent, line->process, index);
    }
    return true;
}

static void try_signature(struct log *l, size_t index, const struct log_line *line)
{
    struct log_signature *s = &l->rules->signatures[index];
    if (l->store.per_signature[index] >= LOG_PER_SIGNATURE_MAX) {
        l->store.dropped = true;
        if (l->sieve) {
            spent_add(&l->spent, line->process, index);
        }
        return;
    }
    if (says_nothing_new(l, index, line)) {
        return;
    }
    if (!s->regex.text) {
        size_t before = l->store.facts.n;
        (void)store_add(&l->store, index, s->id,
                        &(struct log_said){s->kind, line, s->fields, s->n_fields});
        ask(l, s, before);
        return;
    }
    if (!match(l, index, line, 0) && line->body) {
        (void)match(l, index, line, line->body);
    }
}

static void try_owner(struct log *l, size_t owner, const struct log_line *line)
{
    size_t n = l->rules->n_signatures;
    struct str body = {line->text + line->body, line->n - line->body};
    if (l->sieve && (spent_has(&l->spent, line->process, owner) || store_is_full(&l->store))) {
        return;
    }
    if (l->sifting && !sieve_fits(l->sieve, &l->sifted, owner, body.n)) {
        return;
    }
    if (owner < n) {
        try_signature(l, owner, line);
    } else if (owner >= n + TABLES) {
        screen_begin(&l->screen, (enum log_screen)(owner - n - TABLES));
    } else if (table_begins((enum log_table)(owner - n), body)) {
        l->table = (enum log_table)(owner - n);
        l->rows = 0;
    }
}

static void try_hits(struct log *l, const struct log_line *line)
{
    for (size_t word = 0; word <= owners_count(l->rules) / 64; word++) {
        uint64_t bits = l->hits[word];
        l->hits[word] = 0;
        for (; bits; bits &= bits - 1) {
            try_owner(l, word * 64 + (size_t)__builtin_ctzll(bits), line);
        }
    }
}

static void log_take_row(struct log *l, const struct log_line *line)
{
    struct str body = {line->text + line->body, line->n - line->body}, package, version;
    enum table_row row = table_row(body, &package, &version);
    if (row == TABLE_END || l->rows++ >= ROWS_MAX) {
        l->table = TABLE_NONE;
    } else if (row == TABLE_ROW) {
        char name[VALUE_MAX + 1], number[VALUE_MAX + 1];
        struct log_field fields[] = {
            {rules_intern(l->rules, "package", 7), value_copy(name, package.s, package.n)},
            {rules_intern(l->rules, "version", 7), value_copy(number, version.s, version.n)},
        };
        const struct log_said said = {rules_intern(l->rules, "installed", 9), line, fields, 2};
        (void)store_add(&l->store, l->rules->n_signatures, "table", &said);
    }
}

/* ------------------------------------------------------------------ screens */

struct screen_fact {
    struct log *log;
    const struct log_line *line;
};

static void take_screen_fact(void *arg, const char *kind, const struct log_field *fields, size_t n)
{
    struct screen_fact *f = arg;
    store_fact(f->log, f->log->rules->n_signatures + 1, "screen",
               &(struct log_said){kind, f->line, fields, n});
}

static void take_screen(struct log *l, const struct log_line *line)
{
    struct screen_fact f = {l, line};
    struct str body = {line->text + line->body, line->n - line->body};
    screen_line(l->rules, &l->screen, body, take_screen_fact, &f);
}

/* ------------------------------------------------------------------ pieces */

static const char note_mark[] = "note: ";

static bool any_hit(const struct log *l)
{
    uint64_t any = 0;
    for (size_t word = 0; word <= owners_count(l->rules) / 64; word++) {
        any |= l->hits[word];
    }
    return any != 0;
}

/* Finds out what a line is worth trying for: sets l->hits. A note goes round the sieve, as its mark
 * is no longer in the line. */
static void find_owners(struct log *l, struct str line, bool is_note)
{
    l->sifting = l->sieve && !is_note;
    if (l->sifting) {
        l->named |= sieve_try(l->sieve, &l->sifted, line.s, line.n, l->hits);
        return;
    }
    filter_all(l->rules->filter, line.s, line.n, on_hit, &(struct hit){l, line.s});
    l->noted |= is_note && (any_hit(l) || !l->sieve);
    if (is_note) {
        filter_all(l->rules->filter, note_mark, sizeof note_mark - 1, on_hit,
                   &(struct hit){l, note_mark});
    }
}

/* Below the head of a table or a screen each line counts, and below a question the next one. */
static bool reads_on(const struct log *l)
{
    return l->table != TABLE_NONE || l->screen.screen != SCREEN_NONE || l->refuted_by;
}

/* What a line shows, by the signatures, tables and screens that it is worth trying for. */
static void log_take_line(struct log *l, struct str s)
{
    struct log_line line = {.text = s.s, .n = s.n, .number = l->line, .place = l->line + l->inner};
    line_prefix(&line);
    take_answer(l, &line);
    if (l->table != TABLE_NONE) {
        log_take_row(l, &line);
    }
    try_hits(l, &line);
    take_screen(l, &line);
}

/* A script's line that would print a message, as in `echo "NVIDIA kernel module not loaded"`: the
 * script is shown here, not what it printed. A variable may have been printed by hand. */
static bool is_echo(struct str s)
{
    bool quoted = str_starts(s, "echo \"") || str_starts(s, "echo '");
    return quoted && s.n > 6 && str_find_char(s, '$') == s.n;
}

/* One plain line, or a piece of one. A note's mark is left out, and is a literal all the same. */
static void log_take_piece(struct log *l, const char *text, size_t n)
{
    struct str s = str_trim((struct str){text, n});
    bool is_note = str_starts(s, "note:");
    if (is_note) {
        s = str_trim((struct str){s.s + 5, s.n - 5});
    }
    if (!s.n || is_echo(s)) {
        l->table = l->rows ? TABLE_NONE : l->table;
        return;
    }
    if (!str_is_utf8(s.s, s.n)) {
        s = (struct str){l->utf8, line_as_utf8(s.s, s.n, l->utf8)};
    }
    find_owners(l, s, is_note);
    if (any_hit(l) || reads_on(l)) {
        log_take_line(l, s);
    }
}

static void log_take_text(struct log *l, const char *text, size_t n)
{
    while (n > LOG_LINE_MAX) {
        log_take_piece(l, text, LOG_LINE_MAX);
        text += LOG_LINE_MAX - OVERLAP;
        n -= LOG_LINE_MAX - OVERLAP;
    }
    log_take_piece(l, text, n);
}

/* A text inside a JSON line: its own lines have the number of that line. */
static void log_take_json_text(void *arg, const char *text, size_t n)
{
    struct log *l = arg;
    struct str rest = {text, n}, line;
    char clean[LOG_LINE_MAX];
    for (bool first = true; str_line(&rest, &line); first = false) {
        l->inner += !first;
        for (size_t from = 0; from < line.n; from += LOG_LINE_MAX - OVERLAP) {
            size_t piece = line.n - from < LOG_LINE_MAX ? line.n - from : LOG_LINE_MAX;
            log_take_piece(l, clean, line_clean(line.s + from, piece, clean));
        }
    }
}

/* The texts of a JSON line go first, as they keep their lines apart. */
static void take_segment(struct log *l, const char *text, size_t n)
{
    if (!line_is_clean(text, n)) {
        n = line_clean(text, n, l->clean);
        text = l->clean;
    }
    if (memchr(text, '{', n)) {
        struct log_line line = {.text = text, .n = n};
        line_prefix(&line);
        struct str body = str_trim((struct str){line.text + line.body, line.n - line.body});
        (void)line_json(body.s, body.n, log_take_json_text, l); // false: plain text
    }
    log_take_text(l, text, n);
}

/* ------------------------------------------------------------------ many lines */

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
        p->is_known = !body.n || body.s[0] != '{'; // it may be JSON
    }
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
    struct log_regex *x = &r->signatures[owner].regex;
    return x->text && (!sieve_may_fit(l->sieve, &p->pairs, owner) || !regex_may_match(r, x, line));
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
    if ((at < p->start || at >= p->stop) && !store_is_full(&p->log->store)) {
        know_line(p, at);
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
    return !line_is_clean(text, n) || (body.n && body.s[0] == '{');
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

static bool names_subject(const struct log *l)
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
    l->named = names_subject(l);
    l->sieve = rules_sieve(l->rules, !l->named);
    sieve_line_init(&l->sifted, l->store.arena, owners_count(l->rules));
    spent_init(&l->spent, l->store.arena, owners_count(l->rules));
    l->passed = arena_array(l->store.arena, owners_count(l->rules), sizeof *l->passed);
}

/* Looks at text[0, end), which ends with a line end unless it is the last or the line is too long.
 */
static void scan(struct log *l, const char *text, size_t end)
{
    struct places p = {.log = l, .text = text, .end = end};
    size_t counted = 0, at = 0, start, stop;
    p.literal = next_literal(&p, 0);
    p.escape = next_byte(&p, 0, '\033');
    p.backslash = next_byte(&p, 0, '\\');
    while (at < end) {
        size_t place = reads_on(l) ? at : next_place(&p, at);
        if (place >= end) {
            break;
        }
        segment_around(&p, at, place, &start, &stop);
        l->line += count_newlines(text + counted, start - counted);
        counted = start;
        unsigned forgotten = l->spent.forgotten;
        if (reads_on(l) || worth_it(&p, place, start, stop)) {
            take_segment(l, text + start, stop - start);
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

static void scan_buffer(struct log *l)
{
    size_t end = last_line_end(l->buffer, l->n), keep = l->n - end;
    if (keep >= SEGMENT_MAX) {
        end = l->n;
        keep = OVERLAP; // bytes are scanned, a line end among them is not: it is not counted twice
    }
    if (end) {
        scan(l, l->buffer, end);
        memmove(l->buffer, l->buffer + l->n - keep, keep);
        l->n = keep;
    }
}

static void log_add_bytes(struct log *l, const char *data, size_t n)
{
    while (n) {
        size_t room = BUFFER_BYTES - l->n, part = n < room ? n : room;
        memcpy(l->buffer + l->n, data, part);
        l->n += part;
        data += part;
        n -= part;
        scan_buffer(l);
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
        scan_buffer(l);
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
    scan_buffer(l);
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
    scan(l, l->buffer, l->n);
    l->n = 0;
}

/* What its words are asked of: of a long text the lines that were looked at. */
static struct log_text text_of(const struct log *l)
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
    struct log_text text = text_of(l);
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

void log_judge(struct log *l, struct arena *a, struct log_result *ret)
{
    log_judge_facts(l->rules, a, l->store.facts.items, l->store.facts.n, ret);
    if (l->line > l->rules->subjects.lines && !names_subject(l)) {
        drop_subjectless(&l->rules->subjects, a, ret);
    } else if (!ret->n || !(result_stands(ret) || l->is_long)) {
        judge_words(l, a, ret);
    }
    if (ret->n && document_describes(l->rules, (struct str){l->whole, l->n_whole}, ret)) {
        ret->n_mentions = ret->n;
        ret->n = 0;
    }
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
