/*
 * What a command prints whose output is a word of another: those by which scripts find their own
 * folder. Their output follows from paths, so they are read and not run. POSIX.1-2017: cd, dirname,
 * pwd; coreutils 9.5: readlink, realpath.
 */
#include <string.h>

#include "launch/shell.h"
#include "launch/start.h"

static bool option_is_given(const launch_words *w, const char *letters)
{
    for (size_t i = 1; i + 1 < w->n; i++) {
        if (w->items[i][0] == '-' && strpbrk(w->items[i], letters)) {
            return true;
        }
    }
    return false;
}

static const char *real_path(struct shell *h, const char *path)
{
    char *real = NULL;
    const char *whole = path ? launch_start_path(h->s, path) : NULL;
    return whole && root_realpath(h->s->root, h->s->a, whole, &real) == 0 ? real : whole;
}

/* Follows `cd`, and returns what `pwd`, `dirname`, `readlink -f` and `realpath` print with their
 * last word; NULL: another command, whose output is not known. */
static const char *output_of_words(struct shell *h, const launch_words *w)
{
    const char *name = w->items[0], *last = w->items[w->n - 1];
    if (strcmp(name, "pwd") == 0) {
        return strcmp(last, "-P") == 0 ? real_path(h, h->s->cwd) : h->s->cwd;
    }
    if (w->n < 2 || last == launch_unknown) {
        return NULL;
    }
    if (strcmp(name, "cd") == 0) {
        const char *to = launch_start_path(h->s, last);
        h->s->cwd = to ? path_normal(h->s->a, to) : launch_unknown;
        return "";
    }
    if (strcmp(name, "dirname") == 0) {
        return strchr(last, '/') ? path_dir(h->s->a, last) : ".";
    }
    bool real = strcmp(name, "realpath") == 0 ||
                (strcmp(name, "readlink") == 0 && option_is_given(w, "fem"));
    return real ? real_path(h, last) : NULL;
}

const char *launch_shell_output_of(struct shell *h, struct str commands)
{
    struct launch_start start = *h->s;
    struct shell inner = *h;
    struct command c;
    const char *output = NULL;
    inner.s = &start;
    inner.rest = commands;
    if (++inner.nested > NESTED_MAX) {
        return NULL;
    }
    while (launch_shell_take_command(&inner, &c)) {
        while (c.words.n && starts_with(c.words.items[0], "CDPATH=")) {
            c.words.items++, c.words.n--;
        }
        if (!c.words.n || c.end == '|' || !(output = output_of_words(&inner, &c.words))) {
            return NULL;
        }
    }
    return output && output != launch_unknown ? output : NULL;
}
