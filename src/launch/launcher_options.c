/*
 * The options of a program that starts another one: which take a value, and where the command
 * begins.
 */
#include <string.h>

#include "launch/launcher.h"
#include "launch/start.h"

/* Whether `name` of n bytes is in a list of words between blanks; *ret_argument: with ':'. */
static bool list_takes_argument(const char *list, const char *name, size_t n, bool *ret_argument)
{
    for (struct str rest = str_of(list); rest.s;) {
        struct str word = str_cut(&rest, ' ');
        bool argument = word.n && word.s[word.n - 1] == ':';
        word.n -= argument;
        if (n && word.n == n && memcmp(word.s, name, n) == 0) {
            *ret_argument = argument;
            return true;
        }
    }
    return false;
}

bool launch_option_is_in(const char *list, const char *name)
{
    bool argument;
    return list_takes_argument(list, name, strlen(name), &argument);
}

const char *launch_given_value(const given_list *given, const char *a, const char *b)
{
    const char *value = NULL;
    for (size_t i = 0; i < given->n; i++) {
        const char *name = given->items[i].name;
        value = strcmp(name, a) == 0 || strcmp(name, b) == 0 ? given->items[i].value : value;
    }
    return value;
}

/* The argument of an option in this word or the next; NULL: there is none. */
static const char *argument(struct parser *p, const char *rest)
{
    return *rest ? rest : p->at + 1 < p->w->n ? p->w->items[++p->at] : NULL;
}

static bool take_long(struct parser *p, const char *word)
{
    size_t n = strcspn(word, "=");
    bool wants = false;
    if (!list_takes_argument(p->row->longs, word, n, &wants)) {
        return false;
    }
    const char *value = word[n] ? word + n + 1 : wants ? argument(p, "") : "";
    VEC_PUSH(p->s->a, &p->given, (struct given){arena_strndup(p->s->a, word, n), value});
    return value != NULL;
}

static bool take_shorts(struct parser *p, const char *letters)
{
    for (const char *c = letters; *c; c++) {
        const char *known = *c == ':' ? NULL : strchr(p->row->shorts, *c);
        if (!known) {
            return false;
        }
        const char *value = known[1] == ':' ? argument(p, c + 1) : "";
        VEC_PUSH(p->s->a, &p->given, (struct given){arena_strndup(p->s->a, c, 1), value});
        if (known[1] == ':') {
            return value != NULL;
        }
    }
    return true;
}

bool launch_launcher_take_options(struct parser *p)
{
    for (; p->at < p->w->n; p->at++) {
        const char *word = p->w->items[p->at];
        if (strcmp(word, "--") == 0) {
            p->at++;
            return true;
        }
        if (word == launch_unknown || word[0] != '-' || !word[1]) {
            return word != launch_unknown;
        }
        if (word[1] == '-' ? !take_long(p, word + 2) : !take_shorts(p, word + 1)) {
            return false;
        }
    }
    return true;
}

int launch_start_by_words(struct launch_start *s, const launch_words *w)
{
    if (!w->n) {
        return launch_start_unseen(s, NULL);
    }
    int rc = s->readers->words(s, w);
    return rc < 0 ? launch_start_unseen(
                        s, arena_printf(s->a, "%s, which it starts, is not found", w->items[0]))
                  : rc;
}

void launch_words_cut(launch_words *w, size_t n)
{
    n = n < w->n ? n : w->n;
    w->items += n, w->n -= n;
}
