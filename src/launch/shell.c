/* Scripts of a shell, read as text: which Python they start in the end. Nothing is executed. Words
 * are split and expanded as POSIX.1-2017 has it (Shell Command Language 2.2, 2.6), as far as that
 * needs no running; both branches of a condition are read. */
#include <errno.h>
#include <string.h>

#include "base/env.h"
#include "launch/shell.h"
#include "launch/start.h"

enum { UNSURE_MAX = 64 };

/* ------------------------------------------------------------------ what is found */

static bool words_are_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Of several commands that start Python the last counts. Where they start the same interpreter and
 * which of them runs is not known, what it runs is left open. */
static void note_python(struct shell *h, const struct launch_program *p)
{
    bool other = h->has_found && !words_are_same(h->found.python, p->python);
    bool sure = h->depth == 0;
    h->several |= h->has_found;
    h->differs = other && !sure;
    h->found = *p;
    h->found_sure = sure;
    h->has_found = true;
}

static void note_start(struct launch_start *s, const char *elf)
{
    for (size_t i = 0; i < s->starts->n; i++) {
        if (strcmp(s->starts->items[i], elf) == 0) {
            return;
        }
    }
    if (s->starts->n == LAUNCH_START_PROGRAMS_MAX) {
        *s->starts_more = true;
    } else {
        VEC_PUSH(s->a, s->starts, elf);
    }
}

/* Reads a command that the shell starts as a program of its own: what that changes for itself does
 * not hold for the commands behind it. */
static void shell_start_program(struct shell *h, const launch_words *w, bool replaced)
{
    struct launch_start *s = h->s;
    struct launch_program out = *s->out;
    struct launch_start inner = *s;
    out.unseen = NULL;
    inner.out = &out;
    inner.sets = (launch_words){0};
    for (size_t i = 0; i < s->sets.n; i++) {
        VEC_PUSH(s->a, &inner.sets, s->sets.items[i]);
    }
    int rc = inner.readers->words(&inner, w);
    s->commands = inner.commands;
    if (rc == 0 && out.kind == LAUNCH_ELF && out.elf) {
        note_start(s, out.elf);
    }
    if (rc == 0 && out.kind == LAUNCH_PYTHON) {
        note_python(h, &out);
        h->found_cwd = inner.cwd;
        h->found_sets = inner.sets;
    } else if (rc == 0 && out.kind == LAUNCH_STARTER && out.elsewhere) {
        h->elsewhere = h->elsewhere ? h->elsewhere : out.elsewhere;
    } else if (rc == 0 && out.kind == LAUNCH_STARTER && out.unseen && !h->unseen) {
        h->unseen = out.unseen;
    } else if (rc == 0 && out.kind == LAUNCH_ELF && replaced && h->depth == 0) {
        h->elf = out.elf;
    } else if (rc == -ENOENT && replaced && h->depth == 0 && !h->unseen) {
        h->unseen = arena_printf(s->a, "%s, which it starts, is not found", w->items[0]);
    }
}

/* ------------------------------------------------------------------ what the shell does itself */

/* Whether a text that a variable is set to begins with the variable's old value. */
static bool keeps_value(struct arena *a, const char *name, const char *text)
{
    const char *forms[] = {arena_printf(a, "$%s", name), arena_printf(a, "${%s}", name),
                           arena_printf(a, "${%s:", name)};
    bool keeps = false;
    text += *text == '"';
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t len = strlen(forms[i]);
        keeps |= starts_with(text, forms[i]) && (i || !launch_shell_is_name_char(text[len]));
    }
    return keeps;
}

/* "NAME=VALUE"; `raw`: the text before it was expanded. */
static bool shell_assign(struct shell *h, const char *word, const char *raw)
{
    size_t n = 0;
    while (raw && launch_shell_is_name_char(raw[n])) {
        n++;
    }
    if (!n || raw[n] != '=' || (raw[0] >= '0' && raw[0] <= '9')) {
        return false;
    }
    const char *name = arena_strndup(h->s->a, raw, n);
    const char *value = word == launch_unknown ? NULL : env_value_of(word, name);
    if (!value && starts_with(name, "LD_") && !h->unseen) {
        h->unseen =
            arena_printf(h->s->a, "%s sets %s to what is known only by running it", h->name, name);
    }
    if (strcmp(name, "PATH") == 0 && !value) {
        h->s->other_path = "";
        h->s->other_why =
            arena_printf(h->s->a, "%s sets PATH to what is known only by running it", h->name);
        return true;
    }
    launch_start_set(h->s, h->name, name, value ? value : launch_unknown,
                     keeps_value(h->s->a, name, raw + n + 1));
    return true;
}

static void change_folder(struct shell *h, const launch_words *w)
{
    size_t i = 1;
    while (i < w->n && w->items[i] != launch_unknown && w->items[i][0] == '-') {
        i++;
    }
    const char *home = launch_start_variable(h->s, "HOME");
    const char *to = i < w->n ? launch_start_path(h->s, w->items[i]) : home;
    h->s->cwd = to ? to : launch_unknown;
}

/* The environment that the activation script at `path` enters: of venv, or of conda with a name. */
static void enter_of(struct launch_start *s, const char *path, const launch_words *w)
{
    struct stat st;
    const char *prefix = path_dir(s->a, path_dir(s->a, path));
    const char *meta = path_join(s->a, prefix, "conda-meta");
    const char *name = w->n > 2 ? w->items[2] : "base";
    if (root_stat(s->root, path_join(s->a, prefix, "pyvenv.cfg"), &st) == 0) {
        launch_start_enter(s, prefix);
    } else if (root_stat(s->root, meta, &st) == 0) {
        launch_start_enter(
            s, strcmp(name, "base") == 0 ? prefix : arena_printf(s->a, "%s/envs/%s", prefix, name));
    }
}

static void shell_read_text(struct shell *h, struct str text);

/* `. FILE`: an activation script is known by its name, any other is read. */
static void source(struct shell *h, const launch_words *w)
{
    const char *path = w->n > 1 ? launch_start_path(h->s, w->items[1]) : NULL;
    struct str text;
    if (!path) {
        return;
    }
    if (strcmp(path_base(path), "activate") == 0) {
        enter_of(h->s, path, w);
        return;
    }
    if (++h->s->hops <= LAUNCH_START_HOPS_MAX &&
        root_read_head(h->s->root, h->s->a, path, LAUNCH_START_TEXT_MAX, &text, NULL) == 0) {
        struct str rest = h->rest;
        shell_read_text(h, text);
        h->rest = rest;
        h->ended = false;
        h->s->hops--;
    }
}

/* `conda activate NAME` is what `conda run` enters. */
static void activate(struct shell *h, const launch_words *w)
{
    launch_words words = {0};
    struct launch_program out = {0}, *kept = h->s->out;
    int rc = 0;
    if (w->n < 3 || strcmp(w->items[1], "activate") != 0) {
        return;
    }
    const char *const run[] = {"run", "-n", w->items[2]};
    for (size_t i = 0; i < sizeof run / sizeof *run; i++) {
        VEC_PUSH(h->s->a, &words, run[i]);
    }
    h->s->out = &out;
    (void)h->s->readers->launcher(h->s, w->items[0], &words, &rc); // a conda: that is its row
    h->s->out = kept;
    h->unseen = out.unseen && !h->unseen ? out.unseen : h->unseen;
}

static bool list_has_word(const char *word, const char *list)
{
    for (struct str rest = str_of(list); rest.s;) {
        if (str_is(str_cut(&rest, ' '), word)) {
            return true;
        }
    }
    return false;
}

/* `set -- WORDS`: they are the script's words from now on. */
static void shell_set_words(struct shell *h, const launch_words *w)
{
    if (w->n < 2 || strcmp(w->items[1], "--") != 0 || h->depth) {
        return;
    }
    launch_words all = {0};
    for (size_t i = 2; i < w->n; i++) {
        VEC_PUSH(h->s->a, &all, w->items[i]);
    }
    h->positionals = all;
}

static void shift(struct shell *h, const launch_words *w)
{
    uint64_t n = 1;
    if (w->n > 1 && !str_u64(str_of(w->items[1]), &n)) {
        return;
    }
    n = n < h->positionals.n ? n : h->positionals.n;
    h->positionals.items += n, h->positionals.n -= n;
}

static void unset(struct shell *h, const launch_words *w)
{
    for (size_t i = 1; i < w->n; i++) {
        launch_start_set(h->s, h->name, w->items[i], NULL, false);
    }
}

/* Its words, joined by blanks, are read as the next commands. */
static void shell_eval(struct shell *h, const launch_words *w)
{
    struct word text = {.known = ++h->s->hops <= LAUNCH_START_HOPS_MAX};
    for (size_t i = 1; i < w->n && text.known; i++) {
        bool known = w->items[i] != launch_unknown;
        launch_shell_push(h, &text, known ? w->items[i] : "", known ? strlen(w->items[i]) : 0);
        launch_shell_push(h, &text, " ", 1);
        text.known &= known;
    }
    if (text.known && text.n) {
        struct str rest = h->rest;
        shell_read_text(h, (struct str){text.text, text.n});
        h->rest = rest;
    } else if (!text.known && !h->unseen) {
        h->unseen = "it evaluates a text that is known only by running it";
    }
}

/* Commands of the shell itself that matter here; false: it is another. */
static bool run_builtin(struct shell *h, const launch_words *w)
{
    const char *name = w->items[0];
    if (strcmp(name, "cd") == 0 || strcmp(name, "pushd") == 0) {
        change_folder(h, w);
    } else if (strcmp(name, ".") == 0 || strcmp(name, "source") == 0) {
        source(h, w);
    } else if (list_has_word(name, "conda mamba micromamba") && w->n > 1 &&
               strcmp(w->items[1], "activate") == 0) {
        activate(h, w);
    } else if (strcmp(name, "set") == 0) {
        shell_set_words(h, w);
    } else if (strcmp(name, "shift") == 0) {
        shift(h, w);
    } else if (strcmp(name, "exit") == 0 || strcmp(name, "return") == 0) {
        h->ended |= h->depth == 0;
    } else if (strcmp(name, "unset") == 0) {
        unset(h, w);
    } else if (strcmp(name, "eval") == 0) {
        shell_eval(h, w);
    } else {
        return list_has_word(name,
                             ": [ [[ test echo printf trap wait sleep ulimit umask read kill true "
                             "false alias bind break builtin continue declare local typeset "
                             "shopt hash jobs let type getopts mkdir chmod chown rm cp ln");
    }
    return true;
}

/* Words that open and close conditions, and those that stand before a command. */
static void skip_reserved(struct shell *h, struct command *c)
{
    while (c->words.n) {
        const char *word = c->words.items[0];
        bool opens = list_has_word(word, "if while until for case select {");
        bool closes = list_has_word(word, "fi done esac }");
        h->depth += opens;
        h->depth -= closes && h->depth;
        if (list_has_word(word, "for case select function")) {
            c->words.n = 0; // names and patterns, no command
        } else if (opens || closes || list_has_word(word, "then elif else do ! time")) {
            c->words.items++, c->words.n--;
            c->raws.items++, c->raws.n--;
        } else {
            return;
        }
    }
}

/* Assignments before a command, which hold for it alone, or without one for the rest. */
static void shell_take_assignments(struct shell *h, struct command *c)
{
    bool exports =
        c->words.n && list_has_word(c->words.items[0], "export declare typeset readonly local");
    size_t i = exports;
    while (exports && i < c->words.n && c->words.items[i][0] == '-') {
        i++;
    }
    for (; i < c->words.n && i < c->raws.n && shell_assign(h, c->words.items[i], c->raws.items[i]);
         i++) {
    }
    if (exports) {
        i = c->words.n; // further names are exported as they are
    }
    c->words.items += i, c->words.n -= i;
}

static void shell_run_command(struct shell *h, struct command *c)
{
    launch_words *w = &c->words;
    skip_reserved(h, c);
    shell_take_assignments(h, c);
    while (w->n && list_has_word(w->items[0], "command builtin")) {
        w->items++, w->n--;
    }
    bool replaced = w->n && strcmp(w->items[0], "exec") == 0;
    for (w->items += replaced, w->n -= replaced; replaced && w->n && w->items[0][0] == '-';) {
        size_t step = strcmp(w->items[0], "-a") == 0 && w->n > 1 ? 2 : 1;
        w->items += step, w->n -= step;
    }
    if (!w->n) {
        return;
    }
    if (w->items[0] == launch_unknown) {
        h->unseen = h->unseen ? h->unseen
                              : arena_printf(h->s->a,
                                             "the name of a program that %s starts is known "
                                             "only by running it",
                                             h->name);
    } else if (!run_builtin(h, w)) {
        shell_start_program(h, w, replaced);
    }
    h->ended |= replaced && h->depth == 0;
}

static void shell_read_text(struct shell *h, struct str text)
{
    struct command c;
    h->rest = text;
    while (!h->ended && launch_shell_take_command(h, &c)) {
        if (++h->s->commands > LAUNCH_START_COMMANDS_MAX) {
            h->unseen = "it has more commands than are read";
            return;
        }
        /* "name() {": what is inside runs when it is called. */
        if (c.end == '(' && c.words.n == 1 && h->rest.n && *h->rest.s == ')') {
            continue;
        }
        if (c.words.n) {
            shell_run_command(h, &c);
        }
    }
}

/* ------------------------------------------------------------------ the result */

/* The Python that was found is what the text starts. */
static void take_found(struct shell *h)
{
    struct launch_program *out = h->s->out;
    const char *file = out->file, *clears = out->clears;
    *out = h->found;
    out->file = file;
    out->clears = h->found.clears ? h->found.clears : clears;
    h->s->cwd = h->found_cwd;
    h->s->sets = h->found_sets;
    if (h->several && !h->found_sure) {
        out->script = out->module = out->code = NULL;
    }
}

static int shell_finish(struct shell *h)
{
    struct launch_start *s = h->s;
    if (!h->has_found && h->elf && !h->unseen) {
        s->out->kind = LAUNCH_ELF;
        s->out->elf = h->elf;
        return 0;
    }
    if (!h->has_found) {
        s->out->elsewhere = h->unseen ? NULL : h->elsewhere;
        return launch_start_unseen(s, h->unseen ? h->unseen : h->elsewhere);
    }
    if (h->differs) {
        return launch_start_unseen(s, arena_printf(s->a,
                                                   "%s starts more than one Python, and which of "
                                                   "them is known only by running it",
                                                   h->name));
    }
    if (h->unseen && strstr(h->unseen, " sets LD_")) {
        return launch_start_unseen(s, h->unseen);
    }
    take_found(h);
    return 0;
}

static int shell_read_all(struct launch_start *s, const char *name, const char *file,
                          struct str text, const launch_words *positionals)
{
    struct shell h = {.s = s, .name = name, .file = file, .output_of = launch_shell_output_of};
    for (size_t i = 0; i < positionals->n; i++) {
        VEC_PUSH(s->a, &h.positionals, positionals->items[i]);
    }
    if (memchr(text.s, '\0', text.n)) {
        return launch_start_unseen(s, arena_printf(s->a, "%s is not a text file", name));
    }
    shell_read_text(&h, text);
    return shell_finish(&h);
}

int launch_start_script(struct launch_start *s, const char *path, const launch_words *w)
{
    struct str text;
    bool all = false;
    if (root_read_head(s->root, s->a, path, LAUNCH_START_TEXT_MAX, &text, &all) < 0 || !all) {
        return launch_start_unseen(
            s, arena_printf(s->a, "%s cannot be read, or not to its end", path));
    }
    return shell_read_all(s, path_base(path), path, text, w);
}

struct shell_options {
    bool text;  // -c
    bool login; // -l; -i as well, whose files may set PATH
};

/* The shell's own options; returns how many words they are. */
static size_t take_shell_options(const launch_words *w, struct shell_options *ret)
{
    size_t i = 0;
    for (; i < w->n && w->items[i] != launch_unknown && strchr("-+", w->items[i][0]) &&
           w->items[i][0];
         i++) {
        const char *word = w->items[i];
        if (strcmp(word, "--") == 0) {
            return i + 1;
        }
        bool is_long = starts_with(word, "--");
        ret->text |= !is_long && strchr(word, 'c');
        ret->login |= list_has_word(word, "--login") || (!is_long && strpbrk(word, "li"));
        i += list_has_word(word, "--rcfile --init-file") || (!is_long && strpbrk(word, "oO"));
    }
    return i < w->n ? i : w->n;
}

/* -c TEXT, and the words behind it: $0 and further. */
static int read_command_text(struct launch_start *s, const char *name, const char *text,
                             launch_words *words)
{
    const char *zero = words->n && words->items[0] != launch_unknown ? words->items[0] : NULL;
    if (words->n) {
        words->items++, words->n--;
    }
    return shell_read_all(s, arena_printf(s->a, "%s -c", name), zero, str_of(text), words);
}

/* The words of the shell itself: options, then -c with a text, a script, or standard input. */
int launch_start_shell(struct launch_start *s, const char *name, const launch_words *w)
{
    struct shell_options options = {0};
    size_t at = take_shell_options(w, &options);
    if (at == w->n) {
        return launch_start_unseen(
            s, arena_printf(s->a, "%s reads its commands from standard input", name));
    }
    const char *first = w->items[at];
    launch_words words = {.items = w->items + at + 1, .n = w->n - at - 1};
    if (first == launch_unknown) {
        return launch_start_unseen(s, "what a shell is to do is known only by running it");
    }
    if (options.login && !s->other_path) {
        s->other_path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        s->other_why = "a login shell sets PATH itself";
    }
    if (options.text) {
        return read_command_text(s, name, first, &words);
    }
    const char *path = launch_start_path(s, first);
    return path ? launch_start_script(s, path, &words)
                : launch_start_unseen(s, "the folder in which it starts is not known");
}
