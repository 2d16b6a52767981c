/*
 * The words of a shell script: quotes, expansions and redirections, as far as they need no running.
 * POSIX.1-2017, Shell Command Language 2.2, 2.6 and 2.7.
 */
#include <string.h>

#include "launch/shell.h"
#include "launch/start.h"

void launch_shell_push(struct shell *h, struct word *w, const char *text, size_t n)
{
    if (!w->text) {
        w->text = arena_alloc(h->s->a, LAUNCH_START_WORD_MAX + 1);
    }
    if (w->n + n > LAUNCH_START_WORD_MAX) {
        w->known = false;
        return;
    }
    memcpy(w->text + w->n, text, n);
    w->n += n;
    w->text[w->n] = '\0';
    w->any = true;
}

bool launch_shell_is_name_char(char c)
{
    return str_is_letter(c) || c == '_' || (c >= '0' && c <= '9');
}

/* What stands between the brackets at the head ("(" or "{"), which are taken off; quotes and
 * brackets inside count. .s is NULL: the end is missing. */
static struct str take_bracketed(struct str *text, char open, char close)
{
    size_t depth = 0;
    for (size_t i = 0; i < text->n; i++) {
        depth += text->s[i] == open;
        depth -= text->s[i] == close;
        if (depth == 0) {
            struct str inside = {text->s + 1, i - 1};
            text->s += i + 1, text->n -= i + 1;
            return inside;
        }
    }
    text->s += text->n, text->n = 0;
    return (struct str){NULL, 0};
}

static const char *shell_variable(struct shell *h, struct str name)
{
    uint64_t number = 0;
    if (str_u64(name, &number)) {
        return number == 0                  ? h->file ? h->file : launch_unknown
               : number <= h->positionals.n ? h->positionals.items[number - 1]
                                            : "";
    }
    if (str_is(name, "PWD")) {
        return h->s->cwd;
    }
    if (str_starts(name, "BASH_SOURCE")) {
        return h->file ? h->file : launch_unknown;
    }
    return launch_start_variable(h->s, str_dup(h->s->a, name));
}

static void word_expand(struct shell *h, struct word *w, struct str text, unsigned depth);

/* A value in a word, if it is known. */
static void push_value(struct shell *h, struct word *w, const char *value)
{
    if (!value || value == launch_unknown) {
        w->known = false;
    } else {
        launch_shell_push(h, w, value, strlen(value));
    }
}

/* A variable in a word. One that nobody has set is empty if it is a search path; any other may come
 * from what was not read. */
static void push_variable(struct shell *h, struct word *w, struct str name, const char *value)
{
    bool path = str_starts(name, "LD_") || str_ends(name, "PATH");
    push_value(h, w, !value && path ? "" : value);
}

/* What "-WORD", ":-WORD" and its likes behind a name make of its value. */
static void push_default(struct shell *h, struct word *w, const char *value, struct str rest,
                         unsigned depth)
{
    bool colon = rest.s[0] == ':';
    rest.s += colon, rest.n -= colon;
    char form = rest.n ? rest.s[0] : '\0';
    bool set = value && (!colon || value == launch_unknown || *value);
    struct str other = {rest.s + 1, rest.n ? rest.n - 1 : 0};
    if (form == '+' ? value == launch_unknown : !strchr("-=?", form) || !form) {
        w->known = false; // parts of a value, or whether there is one
    } else if (form != '+' && set) {
        push_value(h, w, value);
    } else if (form != '+' || set) {
        word_expand(h, w, other, depth + 1);
    }
}

/* "${NAME}", "${NAME:-WORD}" and its likes. */
static void push_braced(struct shell *h, struct word *w, struct str inside, unsigned depth)
{
    size_t n = 0;
    while (n < inside.n &&
           (launch_shell_is_name_char(inside.s[n]) || strchr("[]@*#?", inside.s[n]))) {
        n++;
    }
    const char *value = shell_variable(h, (struct str){inside.s, n});
    if (n == inside.n) {
        push_variable(h, w, inside, value);
    } else {
        push_default(h, w, value, (struct str){inside.s + n, inside.n - n}, depth);
    }
    w->any = true;
}

/* "$NAME", "$1", "$@" and a dollar sign that stands for itself. */
static void push_named(struct shell *h, struct word *w, struct str *text)
{
    size_t n = 0;
    bool digit = text->n && *text->s >= '0' && *text->s <= '9';
    while (n < text->n && launch_shell_is_name_char(text->s[n]) && (!digit || n < 1)) {
        n++;
    }
    if (n) {
        struct str name = {text->s, n};
        push_variable(h, w, name, shell_variable(h, name));
    } else if (text->n && strchr("@*#?!$-", *text->s)) {
        w->known = false;
        n = 1;
    } else {
        launch_shell_push(h, w, "$", 1);
    }
    text->s += n, text->n -= n;
}

/* At a dollar sign; takes it and what belongs to it. */
static void push_dollar(struct shell *h, struct word *w, struct str *text, unsigned depth)
{
    text->s++, text->n--;
    char next = text->n ? *text->s : '\0';
    if (next == '(') {
        struct str inside = take_bracketed(text, '(', ')');
        push_value(h, w, inside.s ? h->output_of(h, inside) : NULL);
    } else if (next == '{') {
        struct str inside = take_bracketed(text, '{', '}');
        if (inside.s && depth < 8) {
            push_braced(h, w, inside, depth);
        } else {
            w->known = false;
        }
    } else {
        push_named(h, w, text);
    }
}

/* At a backquote; takes what is between it and the next. */
static void push_backquoted(struct shell *h, struct word *w, struct str *text)
{
    size_t n = str_find_char((struct str){text->s + 1, text->n - 1}, '`');
    push_value(h, w, h->output_of(h, (struct str){text->s + 1, n}));
    n = n + 2 < text->n ? n + 2 : text->n;
    text->s += n, text->n -= n;
}

/* Text in double quotes. */
static void word_expand(struct shell *h, struct word *w, struct str text, unsigned depth)
{
    while (text.n) {
        if (*text.s == '$') {
            push_dollar(h, w, &text, depth);
        } else if (*text.s == '`') {
            push_backquoted(h, w, &text);
        } else {
            bool escaped = *text.s == '\\' && text.n > 1 && strchr("$`\"\\", text.s[1]);
            launch_shell_push(h, w, text.s + escaped, 1);
            text.s += 1 + escaped, text.n -= 1u + escaped;
        }
    }
}

static struct str take_double_quoted(struct str *text)
{
    size_t i = 1;
    for (; i < text->n && text->s[i] != '"'; i++) {
        if (text->s[i] == '\\') {
            i++;
        } else if (text->s[i] == '$' && i + 1 < text->n && text->s[i + 1] == '(') {
            struct str inner = {text->s + i + 1, text->n - i - 1};
            (void)take_bracketed(&inner, '(', ')');
            i = (size_t)(inner.s - text->s) - 1;
        }
    }
    i = i < text->n ? i : text->n;
    struct str inside = {text->s + 1, i - 1};
    size_t past = i < text->n ? i + 1 : i;
    text->s += past, text->n -= past;
    return inside;
}

bool launch_shell_take_all_words(struct shell *h, struct str *text, launch_words *out)
{
    static const char *const forms[] = {"\"$@\"", "$@", "$*", "\"${@}\"", "${@}"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t n = strlen(forms[i]);
        if (str_starts(*text, forms[i]) && (text->n == n || strchr(" \t\r\n;&|<>()", text->s[n]))) {
            for (size_t k = 0; k < h->positionals.n && out->n < WORDS_MAX; k++) {
                bool last = out->n + 1 == WORDS_MAX; // those behind it are not known
                VEC_PUSH(h->s->a, out, last ? launch_unknown : h->positionals.items[k]);
            }
            text->s += n, text->n -= n;
            return true;
        }
    }
    return false;
}

const char *launch_shell_take_word(struct shell *h, struct str *text)
{
    struct word w = {.known = true};
    launch_shell_push(h, &w, "", 0);
    while (text->n && !strchr(" \t\r\n;&|<>()", *text->s)) {
        if (*text->s == '\'') {
            size_t n = str_find_char((struct str){text->s + 1, text->n - 1}, '\'');
            launch_shell_push(h, &w, text->s + 1, n);
            n = n + 2 < text->n ? n + 2 : text->n;
            text->s += n, text->n -= n;
        } else if (*text->s == '"') {
            word_expand(h, &w, take_double_quoted(text), 0);
        } else if (*text->s == '$') {
            push_dollar(h, &w, text, 0);
        } else if (*text->s == '`') {
            push_backquoted(h, &w, text);
        } else {
            bool escaped = *text->s == '\\' && text->n > 1;
            bool joined = escaped && text->s[1] == '\n';
            launch_shell_push(h, &w, text->s + escaped, joined ? 0 : 1);
            text->s += 1 + escaped, text->n -= 1u + escaped;
        }
    }
    return w.known ? w.text : launch_unknown;
}
