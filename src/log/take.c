/* From a line to the facts that it shows. */
#include <string.h>

#include "log/reading.h"

enum { ROWS_MAX = 2000 }; // of a table

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

/* The answer to a question is on the next line: "False" confirms the fact, "True" takes it back. */
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
static void ask_next_line(struct log *l, struct log_signature *s, size_t before)
{
    if (s->refuted_by.text && l->store.facts.n > before) {
        l->refuted_by = &s->refuted_by;
        l->asked = before;
        l->answered = 0;
    }
}

/* Does something with a match of a signature; false: no more of them are wanted. */
typedef bool (*match_take)(struct log *l, size_t index, const struct log_said *said);

/* The end of a line that an expression is searched for in, and from where on: see
 * regex_may_match(). */
struct searched {
    const char *text;
    size_t n, from;
};

/* Takes the matches of one signature; how many there were. */
static unsigned match(struct log *l, size_t index, const struct log_line *line,
                      const struct searched *in, match_take take)
{
    struct log_signature *s = &l->rules->signatures[index];
    struct fields *fields = &l->fields;
    const char *text = in->text;
    size_t n = in->n, start = in->from;
    unsigned found = 0;
    const size_t *at;
    for (bool goes_on = true; goes_on && start <= n && found < LOG_MATCHES_MAX; found++) {
        int rc = found ? regex_search(l->rules, &s->regex, text, n, start, &at)
                       : regex_match(l->rules, &s->regex, text, n, start, &at);
        if (rc <= 0) {
            break;
        }
        start = at[1] > at[0] ? at[1] : after_character(text, n, at[1]);
        match_fields(s, text, at, rc, fields);
        goes_on = take(l, index, &(struct log_said){s->kind, line, fields->items, fields->n});
    }
    return found;
}

/* Takes those in a line, or in its body alone if it has none. */
static void match_line(struct log *l, size_t index, const struct log_line *line, match_take take)
{
    struct log_regex *x = &l->rules->signatures[index].regex;
    struct searched in = {line->text, line->n, 0};
    bool may = regex_may_match(l->rules, x, in.text, in.n, &in.from);
    if ((may && match(l, index, line, &in, take)) || !line->body ||
        (!may && !regex_looks_back(x))) {
        return;
    }
    in = (struct searched){line->text + line->body, line->n - line->body, 0};
    if (regex_may_match(l->rules, x, in.text, in.n, &in.from)) {
        (void)match(l, index, line, &in, take);
    }
}

static bool keep_match(struct log *l, size_t index, const struct log_said *said)
{
    struct log_signature *s = &l->rules->signatures[index];
    size_t before = l->store.facts.n;
    store_fact(l, index, s->id, said);
    ask_next_line(l, s, before);
    return true;
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
        ask_next_line(l, s, before);
        return;
    }
    match_line(l, index, line, keep_match);
}

/* The first match that would be kept ends the look. */
static bool look_at_match(struct log *l, size_t index, const struct log_said *said)
{
    (void)index;
    l->is_new = !store_has_enough(&l->store, said, false);
    return !l->is_new;
}

bool log_line_is_known(struct log *l, size_t index, const struct log_line *line)
{
    if (l->store.per_signature[index] >= LOG_PER_SIGNATURE_MAX) {
        return false; // try_signature() keeps that in mind
    }
    if (says_nothing_new(l, index, line)) {
        return true;
    }
    l->is_new = !l->rules->signatures[index].regex.text;
    if (!l->is_new) {
        match_line(l, index, line, look_at_match);
    }
    return !l->is_new;
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
    for (size_t word = 0; word <= rules_owners_count(l->rules) / 64; word++) {
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
    for (size_t word = 0; word <= rules_owners_count(l->rules) / 64; word++) {
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

bool log_reads_on(const struct log *l)
{
    return l->table != TABLE_NONE || l->screen.screen != SCREEN_NONE || l->refuted_by;
}

/* What a line shows, by the signatures, tables and screens that it is worth trying for. */
static void log_take_line(struct log *l, struct str s)
{
    struct log_line line = {
        .text = s.s, .n = s.n, .number = l->pinned ? 1 : l->line, .place = l->line + l->inner};
    line_prefix(&line);
    take_answer(l, &line);
    if (l->table != TABLE_NONE) {
        log_take_row(l, &line);
    }
    try_hits(l, &line);
    take_screen(l, &line);
}

/* One plain line, or a piece of one. A note's mark is left out, and is a literal all the same. */
static void log_take_piece(struct log *l, const char *text, size_t n)
{
    struct str s = str_trim((struct str){text, n});
    bool is_note = str_starts(s, "note:");
    if (is_note) {
        s = str_trim((struct str){s.s + 5, s.n - 5});
    }
    if (!s.n || line_shows_nothing(s)) {
        l->table = l->rows ? TABLE_NONE : l->table;
        return;
    }
    if (!str_is_utf8(s.s, s.n)) {
        s = (struct str){l->utf8, line_as_utf8(s.s, s.n, l->utf8)};
    }
    find_owners(l, s, is_note);
    if (any_hit(l) || log_reads_on(l)) {
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
void log_take_segment(struct log *l, const char *text, size_t n)
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
