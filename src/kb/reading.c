/* The words of a question, and what is asked of them everywhere. */
#include "kb/reading.h"

#include <string.h>

#include "base/str.h"
#include "py/version.h"

bool question_has(const struct question *q, const char *words)
{
    struct str rest = str_of(words);
    while (rest.s) {
        struct str word = str_cut(&rest, ' ');
        for (size_t i = 0; i < q->n; i++) {
            if (str_is(word, q->words[i])) {
                return true;
            }
        }
    }
    return false;
}

const char *reading_listed_as(const char *const (*list)[2], size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i][0], word) == 0) {
            return list[i][1];
        }
    }
    return word;
}

bool reading_in_list(const char *const *list, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i], word) == 0) {
            return true;
        }
    }
    return false;
}

bool reading_is_number(const char *s)
{
    size_t n = strlen(s);
    return n > 0 && n < 32 && str_is_digit(s[0]) && str_is_digit(s[n - 1]) &&
           strspn(s, "0123456789.") == n && !strstr(s, "..");
}

bool reading_is_version(const char *s)
{
    struct py_version v;
    return str_is_digit(s[0]) && py_version_parse(str_of(s), &v);
}

const char *reading_lower_text(struct arena *a, const char *text)
{
    char *copy = arena_strdup(a, text);
    for (char *c = copy; *c; c++) {
        *c = str_lower(*c);
    }
    return copy;
}

void reading_value_add(struct question_values *values, const char *text)
{
    for (size_t i = 0; i < values->n; i++) {
        if (strcmp(values->items[i], text) == 0) {
            return;
        }
    }
    if (values->n < QUESTION_LIST_MAX) {
        values->items[values->n++] = text;
    } else {
        values->more = true;
    }
}

bool reading_is_word(const struct question *q, size_t i, const char *words)
{
    struct str rest = str_of(words);
    while (i < q->n && rest.s) {
        if (str_is(str_cut(&rest, ' '), q->words[i])) {
            return true;
        }
    }
    return false;
}

const char *question_span_set(struct arena *a, const struct question_span *s)
{
    const char *low = s->from ? arena_printf(a, ">%s%s", s->above_from ? "" : "=", s->from) : "";
    const char *high = s->to ? arena_printf(a, "<%s%s", s->below_to ? "" : "=", s->to) : "";
    return arena_printf(a, "%s%s%s", low, low[0] && high[0] ? "," : "", high);
}

/* ------------------------------------------------------------------ words */

static bool separates(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == ',' || c == ';' || c == '?' || c == '!' ||
           c == '"' || c == '(' || c == ')' || c == '=' || c == '\'' || c == '/' || c == '>' ||
           c == '<' || c == '`';
}

/* "doesn't": one word, as it is not understood as two. */
static bool is_contraction(const char *text)
{
    return text[-1] == 'n' && text[0] == '\'' && text[1] == 't' && (!text[2] || separates(text[2]));
}

/* "80 GB" is one word, as "80GB" is. */
static bool joins_number(const struct question *q, const char *word)
{
    const char *before = q->n ? q->words[q->n - 1] : "";
    return strcmp(word, "gb") == 0 && strlen(before) < 4 && reading_is_number(before) &&
           !strchr(before, '.');
}

/* "4.7.1-rocm62-gfx1010" as a wheel writes it: "4.7.1+rocm62.gfx1010". */
static const char *version_written(struct arena *a, const char *word)
{
    size_t n = strspn(word, "0123456789.");
    bool local = n > 0 && (starts_with(word + n, "-rocm") || starts_with(word + n, "-cu"));
    char *copy = arena_strdup(a, word);
    for (char *c = strchr(copy, '-'); local && c; c = strchr(c, '-')) {
        *c = c == copy + n ? '+' : '.';
    }
    return copy;
}

static void add_word(struct arena *a, struct question *q, const char *text, size_t n)
{
    while (n > 0 && (text[n - 1] == '.' || text[n - 1] == ':')) {
        n--;
    }
    bool later = n > 1 && text[n - 1] == '+' && str_is_digit(text[n - 2]);
    n -= later;
    if (n > 2 && text[n - 2] == '.' && text[n - 1] == 'x') {
        n -= 2; // 13.x
    }
    if (n == 0 || q->n == QUESTION_WORDS_MAX) {
        q->too_long |= n > 0;
        return;
    }
    const char *raw = arena_strndup(a, text, n);
    const char *word = version_written(a, reading_lower_text(a, raw));
    if (joins_number(q, word)) {
        q->words[q->n - 1] = arena_printf(a, "%s%s", q->words[q->n - 1], word);
        q->raw[q->n - 1] = q->words[q->n - 1];
        return;
    }
    q->raw[q->n] = raw;
    q->words[q->n++] = word;
    if (later) {
        add_word(a, q, "later", strlen("later"));
    }
}

/* How many characters compare versions: ">=", "<". "==" is what a version means anyway. */
static size_t comparison(const char *text)
{
    bool two = (text[0] && text[1] == '=' && strchr("<>!~", text[0])) != 0;
    return two ? 2 : text[0] == '<' || text[0] == '>';
}

void reading_split(struct arena *a, const char *text, struct question *q)
{
    while (*text) {
        size_t n = 0, compares = comparison(text);
        while (compares == 0 && text[n] && !comparison(text + n) &&
               (!separates(text[n]) || (n > 0 && is_contraction(text + n)))) {
            n++;
        }
        if (compares > 0) {
            add_word(a, q, text, compares);
            text += compares;
            continue;
        }
        add_word(a, q, text, n);
        text += n;
        if (comparison(text)) {
            continue;
        }
        bool possessive =
            n > 0 && text[0] == '\'' && text[1] == 's' && (!text[2] || separates(text[2]));
        text += possessive ? 2 : 0;
        if (*text == '/') {
            add_word(a, q, "/", 1);
        }
        text += *text != '\0';
    }
}
