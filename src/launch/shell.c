/* Scripts of a shell, read as text: which Python they start in the end. Nothing is executed. Words
 * are split and expanded as POSIX.1-2017 has it (Shell Command Language 2.2, 2.6), as far as that
 * needs no running; both branches of a condition are read. */
#include <errno.h>
#include <string.h>

#include "base/env.h"
#include "launch/start.h"

enum { POSITIONALS_MAX = 1024, WORDS_MAX = 4096, UNSURE_MAX = 64 };

/* One text, and what reading it has found so far. */
struct shell {
    struct launch_start *s;
    const char *name;         // of the shell or script, for messages
    const char *file;         // $0: the script; NULL: not known
    launch_words positionals; // $1 and further
    struct str rest;
    unsigned depth; // of conditions and functions
    bool ended;     // an exec or exit that no condition stands before

    /* The Python that was found last, and whether another command starts another interpreter. */
    struct launch_program found;
    const char *found_cwd, *elf; // elf: another program that takes the shell's place
    launch_words found_sets;
    bool has_found, found_sure, differs, several;
    const char *unseen; // the first command that is not known
};

/* ------------------------------------------------------------------ expansion */

struct word {
    char *text;
    size_t n;
    bool known, quoted, any;
};

static void push(struct shell *h, struct word *w, const char *text, size_t n)
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

static bool shell_is_name_char(char c)
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

/* The folder of the script, which many find out with dirname and $0 or BASH_SOURCE, and the working
 * directory; NULL: another command, whose output is not known. */
static const char *output_of(struct shell *h, struct str command)
{
    bool own = str_find(command, "$0") < command.n || str_find(command, "BASH_SOURCE") < command.n;
    struct str trimmed = str_trim(command);
    const char *file = h->file;
    char *real = NULL;
    size_t at = str_find(command, "dirname");
    if (!own || !file) {
        return str_is(trimmed, "pwd") && h->s->cwd != launch_unknown ? h->s->cwd : NULL;
    }
    if (str_find(command, "realpath") < command.n || str_find(command, "readlink") < command.n) {
        file = root_realpath(h->s->root, h->s->a, file, &real) == 0 ? real : file;
    }
    if (at == command.n) {
        return file != h->file || str_starts(trimmed, "realpath") ? file : NULL;
    }
    struct str after = {command.s + at + 1, command.n - at - 1};
    bool further = str_find(after, "dirname") < after.n || str_find(command, "..") < command.n;
    return further ? NULL : path_dir(h->s->a, file);
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
        push(h, w, value, strlen(value));
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
    while (n < inside.n && (shell_is_name_char(inside.s[n]) || strchr("[]@*#?", inside.s[n]))) {
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
    while (n < text->n && shell_is_name_char(text->s[n]) && (!digit || n < 1)) {
        n++;
    }
    if (n) {
        struct str name = {text->s, n};
        push_variable(h, w, name, shell_variable(h, name));
    } else if (text->n && strchr("@*#?!$-", *text->s)) {
        w->known = false;
        n = 1;
    } else {
        push(h, w, "$", 1);
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
        push_value(h, w, inside.s ? output_of(h, inside) : NULL);
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
    push_value(h, w, output_of(h, (struct str){text->s + 1, n}));
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
            push(h, w, text.s + escaped, 1);
            text.s += 1 + escaped, text.n -= 1u + escaped;
        }
    }
}

/* ------------------------------------------------------------------ words */

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

/* "$@" alone stands for all the words of the script. */
static bool take_all_words(struct shell *h, struct str *text, launch_words *out)
{
    static const char *const forms[] = {"\"$@\"", "$@", "$*", "\"${@}\"", "${@}"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t n = strlen(forms[i]);
        if (str_starts(*text, forms[i]) && (text->n == n || strchr(" \t\r\n;&|<>()", text->s[n]))) {
            for (size_t k = 0; k < h->positionals.n && out->n < WORDS_MAX; k++) {
                VEC_PUSH(h->s->a, out, h->positionals.items[k]);
            }
            text->s += n, text->n -= n;
            return true;
        }
    }
    return false;
}

/* One word off the head, with its quotes and expansions taken. */
static const char *shell_take_word(struct shell *h, struct str *text)
{
    struct word w = {.known = true};
    push(h, &w, "", 0);
    while (text->n && !strchr(" \t\r\n;&|<>()", *text->s)) {
        if (*text->s == '\'') {
            size_t n = str_find_char((struct str){text->s + 1, text->n - 1}, '\'');
            push(h, &w, text->s + 1, n);
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
            push(h, &w, text->s + escaped, joined ? 0 : 1);
            text->s += 1 + escaped, text->n -= 1u + escaped;
        }
    }
    return w.known ? w.text : launch_unknown;
}

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

struct command {
    launch_words words;
    launch_words raws;    // of assignments: their text before it was expanded, else NULL
    const char *document; // the word that ends its here-document, or NULL
    char end;             // what ended it
};

static void take_redirection(struct shell *h, struct command *c)
{
    bool document = str_starts(h->rest, "<<") && !str_starts(h->rest, "<<<");
    while (h->rest.n && strchr("<>&|-", *h->rest.s)) {
        h->rest.s++, h->rest.n--;
    }
    while (h->rest.n && strchr(" \t", *h->rest.s)) {
        h->rest.s++, h->rest.n--;
    }
    const char *word = shell_take_word(h, &h->rest);
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
    if (take_all_words(h, &h->rest, &c->words)) {
        while (c->raws.n < c->words.n) {
            VEC_PUSH(h->s->a, &c->raws, NULL);
        }
        return;
    }
    const char *raw = h->rest.s;
    const char *word = shell_take_word(h, &h->rest);
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

/* The next simple command; false at the end of the text. */
static bool take_command(struct shell *h, struct command *ret)
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
        keeps |= starts_with(text, forms[i]) && (i || !shell_is_name_char(text[len]));
    }
    return keeps;
}

/* "NAME=VALUE"; `raw`: the text before it was expanded. */
static bool shell_assign(struct shell *h, const char *word, const char *raw)
{
    size_t n = 0;
    while (raw && shell_is_name_char(raw[n])) {
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

static void shell_read_text(struct shell *h, struct str text);

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
    for (size_t i = 2; i < w->n && i < POSITIONALS_MAX; i++) {
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

static void shell_read_text(struct shell *h, struct str text);

/* Its words, joined by blanks, are read as the next commands. */
static void shell_eval(struct shell *h, const launch_words *w)
{
    struct word text = {.known = ++h->s->hops <= LAUNCH_START_HOPS_MAX};
    for (size_t i = 1; i < w->n && text.known; i++) {
        bool known = w->items[i] != launch_unknown;
        push(h, &text, known ? w->items[i] : "", known ? strlen(w->items[i]) : 0);
        push(h, &text, " ", 1);
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
        c->words.n && list_has_word(c->words.items[0], "export declare typeset readonly");
    size_t i = exports;
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
    while (!h->ended && take_command(h, &c)) {
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
        return launch_start_unseen(s, h->unseen);
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
    struct shell h = {.s = s, .name = name, .file = file};
    for (size_t i = 0; i < positionals->n && i < POSITIONALS_MAX; i++) {
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
