/*
 * What a text that no rule knows is most like, by its words: a multinomial logistic regression over
 * sets of words, learnt from logs whose causes are known (scripts/kb-words, kb/words.json). A text
 * is a set; each of its words counts by how rare it is, and the set has length 1.
 */
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "log/internal.h"
#include "log/words.h"

enum {
    WORD_MAX = 40,   // bytes of a word that may be known
    PART_MIN = 3,    // of what stands between two underlines
    NEAR = 2,        // lines around one with a sign of a failure, or a note
    KNOWN_MIN = 8,   // words that are known, numbers aside; of fewer nothing is said
    WORDS_SHOWN = 6, // strengths of the words of a line that are told
    RARE_MIN = 3,    // of a word that is told: words of every text explain nothing
    FIELDS = 6,      // of a fact
};

static const char note_mark[] = "note:";

/* ------------------------------------------------------------------ words of a text */

struct line {
    uint64_t number;
    const char *text, *lower;
    bool note;
    bool sign;       // a note, or with a sign of a failure
    size_t first, n; // of the words that this line has, among all
};

struct reading {
    const struct words *words;
    struct arena *arena;
    VEC(struct line) lines;
    VEC(const struct word *) known; // each once in a line
    bool *seen;                     // of each row: in the text
    double sums[CLASSES_MAX];
    double length; // squared
    size_t n;      // words that were seen, numbers aside
};

static void reading_see(struct reading *r, const struct word *word)
{
    bool *seen = &r->seen[word - r->words->rows];
    if (*seen) {
        return;
    }
    *seen = true;
    r->n += !str_is_digit(word->text[0]);
    r->length += (double)word->idf * word->idf;
    for (size_t c = 0; c < r->words->n_classes; c++) {
        r->sums[c] += word->weights[c];
    }
}

static void reading_take_word(struct reading *r, const struct line *line, const char *text,
                              size_t n)
{
    const struct word *word = log_word_find(r->words, text, n);
    if (!word) {
        return;
    }
    reading_see(r, word);
    for (size_t i = line->first; i < r->known.n; i++) {
        if (r->known.items[i] == word) {
            return;
        }
    }
    VEC_PUSH(r->arena, &r->known, word);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || c == '_';
}

/* Bytes of "0x1f" that begin here. */
static size_t hexadecimal(struct str s)
{
    size_t n = 2;
    if (s.n < 3 || s.s[0] != '0' || s.s[1] != 'x') {
        return 0;
    }
    while (n < s.n && (str_is_digit(s.s[n]) || (s.s[n] >= 'a' && s.s[n] <= 'f'))) {
        n++;
    }
    return n > 2 ? n : 0;
}

static size_t identifier(struct str s)
{
    size_t n = 0;
    while (n < s.n && (is_letter(s.s[n]) || (n && (str_is_digit(s.s[n]) || s.s[n] == '+'))) &&
           !hexadecimal((struct str){s.s + n, s.n - n})) {
        n++;
    }
    return n;
}

/* "9.1.0" */
static size_t number(struct str s)
{
    size_t n = 0;
    while (
        n < s.n && !hexadecimal((struct str){s.s + n, s.n - n}) &&
        (str_is_digit(s.s[n]) || (n && s.s[n] == '.' && n + 1 < s.n && str_is_digit(s.s[n + 1]) &&
                                  !hexadecimal((struct str){s.s + n + 1, s.n - n - 1})))) {
        n++;
    }
    return n;
}

static void take_parts(struct reading *r, const struct line *line, struct str word)
{
    struct str rest = word;
    if (str_find_char(word, '_') == word.n) {
        return;
    }
    while (rest.s) {
        struct str part = str_cut(&rest, '_');
        if (part.n >= PART_MIN) {
            reading_take_word(r, line, part.s, part.n);
        }
    }
}

static void take_token(struct reading *r, const struct line *line, struct str word)
{
    char noted[sizeof note_mark + WORD_MAX];
    if (word.n > WORD_MAX) {
        return;
    }
    reading_take_word(r, line, word.s, word.n);
    if (line->note) {
        memcpy(noted, note_mark, sizeof note_mark - 1);
        memcpy(noted + sizeof note_mark - 1, word.s, word.n);
        reading_take_word(r, line, noted, sizeof note_mark - 1 + word.n);
    }
    take_parts(r, line, word);
}

static void reading_take_words(struct reading *r, struct line *line)
{
    size_t mark = line->note ? sizeof note_mark - 1 : 0;
    struct str s = str_of(line->lower + mark);
    line->first = r->known.n;
    while (s.n) {
        size_t skipped = hexadecimal(s), n = skipped ? 0 : identifier(s);
        n = n || skipped ? n : number(s);
        if (n) {
            take_token(r, line, (struct str){s.s, n});
        }
        n = n ? n : skipped ? skipped : 1;
        s = (struct str){s.s + n, s.n - n};
    }
    line->n = r->known.n - line->first;
}

/* ------------------------------------------------------------------ lines of a text */

static char *lowered(struct arena *a, struct str s)
{
    char *text = arena_strndup(a, s.s, s.n);
    for (size_t i = 0; i < s.n; i++) {
        text[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + ('a' - 'A') : text[i]);
    }
    return text;
}

struct taking {
    struct reading *reading;
    uint64_t number;
};

static bool has_sign(const struct words *w, const char *text)
{
    for (size_t i = 0; i < w->n_signs; i++) {
        if (strstr(text, w->signs[i])) {
            return true;
        }
    }
    return false;
}

static void taking_line(struct taking *t, struct str s)
{
    struct reading *r = t->reading;
    s = str_trim(s);
    if (!s.n) {
        return;
    }
    struct line line = {
        .number = t->number,
        .text = arena_strndup(r->arena, s.s, s.n),
        .lower = lowered(r->arena, s),
        .note = str_starts(s, note_mark),
    };
    line.sign = line.note || has_sign(r->words, line.lower);
    VEC_PUSH(r->arena, &r->lines, line);
}

static void reading_take_json_text(void *arg, const char *text, size_t n)
{
    struct str rest = {text, n}, line;
    while (str_line(&rest, &line)) {
        taking_line(arg, line);
    }
}

/* A line is made plain as it is for the rules. */
static void take_raw(struct taking *t, struct str raw)
{
    struct arena *a = t->reading->arena;
    char *clean = arena_alloc(a, raw.n + 1);
    struct log_line line = {.text = clean, .n = line_clean(raw.s, raw.n, clean)};
    if (!str_is_utf8(line.text, line.n)) {
        char *utf8 = arena_alloc(a, 2 * line.n + 1);
        line.n = line_as_utf8(line.text, line.n, utf8);
        line.text = utf8;
    }
    line_prefix(&line);
    struct str body = str_trim((struct str){line.text + line.body, line.n - line.body});
    if (!line_json(body.s, body.n, reading_take_json_text, t)) {
        taking_line(t, body);
    }
}

/* What overwrote itself counts as it stood in the end. */
static struct str last_written(struct str line)
{
    struct str last = line;
    while (line.s) {
        struct str part = str_trim(str_cut(&line, '\r'));
        last = part.n ? part : last;
    }
    return last;
}

static void reading_take_text(struct reading *r, const struct log_text *text)
{
    struct str rest = {text->text, text->n}, line;
    for (size_t i = 0; str_line(&rest, &line); i++) {
        struct taking t = {r, text->numbers ? text->numbers[i] : i + 1};
        take_raw(&t, last_written(line));
    }
}

static void see_token(struct reading *r, const char *kind, const char *name)
{
    const char *token = arena_printf(r->arena, "%s:%s", kind, name);
    const struct word *word = log_word_find(r->words, token, strlen(token));
    if (word) {
        reading_see(r, word);
    }
}

static void see_known(struct reading *r, const struct log_result *known)
{
    for (size_t i = 0; i < known->n_facts; i++) {
        see_token(r, "fact", known->facts[i]->kind);
    }
    see_token(r, "platform", log_platform_name(known->platform));
}

/* Looks at the words of the lines near those that are marked. */
static void take_near(struct reading *r, const bool *marked)
{
    size_t after = 0; // how many lines more are near the last one
    for (size_t i = 0; i < r->lines.n; i++) {
        bool near = after > 0;
        for (size_t k = i; !near && k < r->lines.n && k <= i + NEAR; k++) {
            near = marked[k];
        }
        after = marked[i] ? NEAR : after - (after > 0);
        if (near) {
            reading_take_words(r, &r->lines.items[i]);
        }
    }
}

/* ------------------------------------------------------------------ judging */

struct guess {
    size_t first, second; // classes
    double share, other;  // their probabilities
};

static struct guess reading_guess(const struct reading *r)
{
    struct guess g = {0};
    const struct words *w = r->words;
    double scores[CLASSES_MAX] = {0}, sum = 0, scale = w->steps * sqrt(r->length);
    for (size_t c = 0; c < w->n_classes; c++) {
        scores[c] = w->bias[c] + r->sums[c] / scale;
        g.first = scores[c] > scores[g.first] ? c : g.first;
    }
    g.second = g.first == 0 && w->n_classes > 1;
    for (size_t c = 0; c < w->n_classes; c++) {
        g.second = c != g.first && scores[c] > scores[g.second] ? c : g.second;
        sum += exp(scores[c] - scores[g.first]);
    }
    g.share = 1 / sum;
    g.other = exp(scores[g.second] - scores[g.first]) / sum;
    return g;
}

/* How much a line speaks for a class. */
static int line_weight(const struct reading *r, const struct line *line, size_t class)
{
    int sum = 0;
    for (size_t i = 0; i < line->n; i++) {
        sum += r->known.items[line->first + i]->weights[class];
    }
    return sum;
}

/* The line that speaks most for a class, after `before`; NULL: none does. */
static const struct line *strongest(const struct reading *r, size_t class,
                                    const struct line *before)
{
    const struct line *best = NULL;
    for (size_t i = 0; i < r->lines.n; i++) {
        const struct line *line = &r->lines.items[i];
        int weight = line_weight(r, line, class);
        if (weight > 0 && line != before && (!best || weight > line_weight(r, best, class))) {
            best = line;
        }
    }
    return best;
}

bool is_listed(struct str word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq_nocase(word, str_of(list[i]))) {
            return true;
        }
    }
    return false;
}

/* Words that are common in any text: alone they say nothing about a failure. */
static bool is_stop_word(const char *word)
{
    static const char *const stop[] = {
        "about", "above",   "after",   "again",  "all",    "also",  "always", "and",     "another",
        "any",   "are",     "because", "been",   "before", "being", "below",  "between", "both",
        "but",   "can",     "could",   "did",    "does",   "doing", "done",   "each",    "else",
        "even",  "every",   "for",     "from",   "get",    "gets",  "give",   "gives",   "got",
        "had",   "has",     "have",    "having", "her",    "here",  "his",    "how",     "into",
        "its",   "itself",  "just",    "like",   "made",   "make",  "makes",  "may",     "might",
        "more",  "most",    "much",    "must",   "nor",    "not",   "now",    "off",     "once",
        "one",   "only",    "other",   "our",    "out",    "over",  "own",    "please",  "same",
        "see",   "she",     "should",  "since",  "some",   "std",   "still",  "such",    "than",
        "that",  "the",     "their",   "them",   "then",   "there", "these",  "they",    "this",
        "those", "through", "too",     "two",    "under",  "until", "upon",   "use",     "used",
        "uses",  "using",   "very",    "via",    "was",    "way",   "were",   "what",    "when",
        "where", "which",   "while",   "who",    "why",    "will",  "with",   "within",  "without",
        "would", "yet",     "you",     "your"};
    return is_listed(str_of(word), stop, sizeof stop / sizeof *stop);
}

static bool explains(const struct word *word)
{
    enum { LETTERS_MIN = 3 };
    return word->idf >= (float)RARE_MIN && !starts_with(word->text, note_mark) &&
           !str_is_digit(word->text[0]) && strlen(word->text) >= LETTERS_MIN &&
           !is_stop_word(word->text);
}

/* Those of a line that speak for a class, the strongest first; NULL: none that explains anything.
 */
static const char *words_shown(const struct reading *r, const struct line *line, size_t class)
{
    const struct word *const *known = r->known.items + line->first;
    const char *text = NULL;
    int before = INT16_MAX;
    for (unsigned shown = 0; shown < WORDS_SHOWN && before > 0; shown++) {
        int best = 0;
        for (size_t i = 0; i < line->n; i++) {
            int weight = explains(known[i]) ? known[i]->weights[class] : 0;
            best = weight < before && weight > best ? weight : best;
        }
        for (size_t i = 0; best && i < line->n; i++) {
            if (explains(known[i]) && known[i]->weights[class] == best) {
                text =
                    text ? arena_printf(r->arena, "%s, %s", text, known[i]->text) : known[i]->text;
            }
        }
        before = best;
    }
    return text;
}

static bool is_file_char(char c)
{
    return is_letter((char)(c | 0x20)) || str_is_digit(c) || c == '_' || c == '.' || c == '+' ||
           c == '-';
}

static bool word_is_library(struct str word)
{
    static const char *const ends[] = {".so", ".dll", ".dylib", ".pyd"};
    bool numbered = str_starts(word, "lib") && str_find(word, ".so.") < word.n;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && !numbered; i++) {
        numbered = word.n > strlen(ends[i]) && str_ends(word, ends[i]);
    }
    return numbered;
}

/* The first file name of a library in a line, or NULL. */
static const char *library_named(struct arena *a, const struct line *line)
{
    struct str rest = str_of(line->text);
    while (rest.n) {
        size_t n = 0;
        while (n < rest.n && is_file_char(rest.s[n])) {
            n++;
        }
        struct str word = {rest.s, n};
        while (word.n && word.s[word.n - 1] == '.') {
            word.n--; // the end of a sentence
        }
        if (word_is_library(word)) {
            return str_dup(a, word);
        }
        n += n < rest.n;
        rest = (struct str){rest.s + n, rest.n - n};
    }
    return NULL;
}

static const struct log_fact *words_fact(struct log_rules *rules, const struct reading *r,
                                         const struct guess *g, const struct line *line,
                                         const char *rank)
{
    static const char *const names[FIELDS] = {"class", "rank",  "share",
                                              "words", "named", "instead"};
    const struct words *w = r->words;
    const char *values[FIELDS] = {w->classes[g->first],
                                  rank,
                                  arena_printf(r->arena, "%.2f", g->share),
                                  words_shown(r, line, g->first),
                                  library_named(r->arena, line),
                                  2 * g->other >= g->share ? w->classes[g->second] : NULL};
    struct log_field *fields = arena_array(r->arena, FIELDS, sizeof *fields);
    struct log_fact *fact = arena_alloc(r->arena, sizeof *fact);
    size_t n = strlen(line->text);
    *fact = (struct log_fact){
        .kind = rules_intern(rules, "words", 5),
        .signature = "words",
        .line = line->number,
        .place = line->number,
        .text = n <= LOG_EVIDENCE_MAX
                    ? line->text
                    : arena_printf(r->arena, "%.*s...", LOG_EVIDENCE_MAX, line->text),
        .fields = fields,
    };
    for (size_t i = 0; i < FIELDS; i++) {
        if (values[i]) {
            fields[fact->n_fields++] =
                (struct log_field){rules_intern(rules, names[i], strlen(names[i])), values[i]};
        }
    }
    return fact;
}

static bool is_class(const char *name)
{
    return strcmp(name, "cannot-tell") != 0 && strcmp(name, "healthy") != 0;
}

static void guess_tell(struct log_rules *rules, const struct reading *r, const struct guess *g,
                       struct log_words *ret)
{
    const struct line *first = strongest(r, g->first, NULL);
    const struct line *second = first ? strongest(r, g->first, first) : NULL;
    if (first) {
        ret->facts[ret->n++] = words_fact(rules, r, g, first, "1");
    }
    if (second) {
        ret->facts[ret->n++] = words_fact(rules, r, g, second, "2");
    }
}

/* The lines that the best reading rests on, or those with a sign. */
static const bool *marked_lines(const struct reading *r, const struct log_result *known)
{
    bool *marked = arena_array(r->arena, r->lines.n + 1, sizeof *marked);
    const struct log_candidate *best = known->n ? &known->candidates[0] : NULL;
    for (size_t i = 0; i < r->lines.n; i++) {
        marked[i] = !best && r->lines.items[i].sign;
        for (size_t k = 0; best && k < best->n_evidence; k++) {
            marked[i] = marked[i] || best->evidence[k]->line == r->lines.items[i].number;
        }
    }
    return marked;
}

/* Whether a line that the best reading rests on shows a failure itself: what works around it, such
 * as requests that a server answered before, says nothing about that. */
static bool evidence_has_sign(const struct reading *r, const struct log_result *known)
{
    const struct log_candidate *best = &known->candidates[0];
    for (size_t i = 0; i < r->lines.n; i++) {
        for (size_t k = 0; k < best->n_evidence; k++) {
            if (r->lines.items[i].sign && best->evidence[k]->line == r->lines.items[i].number) {
                return true;
            }
        }
    }
    return false;
}

/* Whether the class that is most probable is told. That nothing of the GPU runtime failed must be
 * more than likely. */
static bool guess_is_told(const struct words *w, const struct guess *g)
{
    const char *first = w->classes[g->first];
    bool torn = !is_class(w->classes[g->second]) && 2 * g->other >= g->share;
    return is_class(first) && !torn && g->share >= w->enough &&
           (strcmp(first, "not-gpu-runtime") != 0 || g->share >= w->sure);
}

void words_judge(struct log_rules *rules, struct arena *a, const struct log_text *text,
                 const struct log_result *known, struct log_words *ret)
{
    struct gm_err err;
    *ret = (struct log_words){0};
    if (!rules->words && words_load(rules, &err) < 0) {
        return; // only the built-in ones are loaded this late, which are never wrong
    }
    struct reading r = {.words = rules->words, .arena = a};
    r.seen = arena_array(a, r.words->n_rows + 1, sizeof *r.seen);
    reading_take_text(&r, text);
    take_near(&r, marked_lines(&r, known));
    if (r.n < KNOWN_MIN) {
        return;
    }
    see_known(&r, known);
    struct guess g = reading_guess(&r);
    if (known->n) {
        ret->healthy = !evidence_has_sign(&r, known) &&
                       strcmp(r.words->classes[g.first], "healthy") == 0 &&
                       g.share >= r.words->sure;
    } else if (guess_is_told(r.words, &g)) {
        guess_tell(rules, &r, &g, ret);
    }
}
