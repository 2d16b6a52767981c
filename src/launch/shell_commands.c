/*
 * Where a command of a shell script ends, and its words. POSIX.1-2017, Shell Command Language 2.9.
 */
#include <string.h>

#include "launch/shell.h"
#include "launch/start.h"

/* The text of a here-document is no command: it ends at a line that is its word. */
static void skip_document(struct shell *h, const char *end)
{
    struct str line;
    while (str_line(&h->rest, &line)) {
        if (str_is(str_trim(line), end)) {
            return;
        }
    }
}

static void take_redirection(struct shell *h, struct command *c)
{
    bool document = str_starts(h->rest, "<<") && !str_starts(h->rest, "<<<");
    while (h->rest.n && strchr("<>&|-", *h->rest.s)) {
        h->rest.s++, h->rest.n--;
    }
    while (h->rest.n && strchr(" \t", *h->rest.s)) {
        h->rest.s++, h->rest.n--;
    }
    const char *word = launch_shell_take_word(h, &h->rest);
    if (document) {
        c->document = word;
    }
}

static bool is_descriptor(const char *word, struct str rest)
{
    return rest.n && strchr("<>", *rest.s) && *word && !word[strspn(word, "0123456789")];
}

/* Words of the script, or one word with its text before it was expanded. */
static void shell_take_words(struct shell *h, struct command *c)
{
    if (launch_shell_take_all_words(h, &h->rest, &c->words)) {
        while (c->raws.n < c->words.n) {
            VEC_PUSH(h->s->a, &c->raws, NULL);
        }
        return;
    }
    const char *raw = h->rest.s;
    const char *word = launch_shell_take_word(h, &h->rest);
    if (word == launch_unknown || !is_descriptor(word, h->rest)) {
        size_t n = (size_t)(h->rest.s - raw);
        VEC_PUSH(h->s->a, &c->raws, arena_strndup(h->s->a, raw, n < 512 ? n : 512));
        VEC_PUSH(h->s->a, &c->words, word);
    }
}

/* A character that ends a command; true if there is one that it ends. */
static bool take_end(struct shell *h, struct command *c)
{
    c->end = *h->rest.s;
    h->rest.s++, h->rest.n--;
    if (c->end == '\n' && c->document) {
        skip_document(h, c->document);
        c->document = NULL;
    }
    return c->words.n || c->end == '(' || c->end == ')';
}

/* Takes blanks, a joined line or a comment off the head; false: there is none. */
static bool skip_blank(struct shell *h)
{
    char x = *h->rest.s;
    bool joined = str_starts(h->rest, "\\\n");
    if (!strchr(" \t\r#", x) && !joined) {
        return false;
    }
    size_t n = x == '#' ? str_find_char(h->rest, '\n') : 1u + joined;
    h->rest.s += n, h->rest.n -= n;
    return true;
}

bool launch_shell_take_command(struct shell *h, struct command *ret)
{
    struct command c = {.end = '\n'};
    bool ended = false;
    while (h->rest.n && !ended) {
        char x = *h->rest.s;
        if (skip_blank(h)) {
            continue;
        }
        if (x == '<' || x == '>' || str_starts(h->rest, "&>")) {
            take_redirection(h, &c);
        } else if (strchr("\n;&|()", x)) {
            ended = take_end(h, &c);
        } else {
            shell_take_words(h, &c);
        }
        ended |= c.words.n >= WORDS_MAX;
    }
    if (c.document) {
        skip_document(h, c.document);
    }
    *ret = c;
    return c.words.n || h->rest.n;
}
