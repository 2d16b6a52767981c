#include "launch/program.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "launch/start.h"
#include "py/env.h"

enum { HEAD_BYTES = 4096, LINE_BYTES_MAX = 255, LINES_MAX = 5 };

const char *launch_program_kind_name(enum launch_program_kind kind)
{
    static const char *const names[] = {
        [LAUNCH_PYTHON] = "python", [LAUNCH_ELF] = "elf", [LAUNCH_STARTER] = "starter"};
    return names[kind];
}

const char *launch_program_target(const struct launch_program *p)
{
    return p->kind == LAUNCH_ELF ? p->elf : p->python;
}

/* ------------------------------------------------------------------ files */

/* "python", "python3", "python3.13", "python3.13t". */
static bool is_python_name(const char *name)
{
    if (!starts_with(name, "python")) {
        return false;
    }
    name += strlen("python");
    name += strspn(name, "0123456789.");
    return !*name || strcmp(name, "t") == 0;
}

static bool is_python(const struct launch_start *s, const char *path)
{
    char *real = NULL;
    return is_python_name(path_base(path)) ||
           (root_realpath(s->root, s->a, path, &real) == 0 && is_python_name(path_base(real)));
}

/* ------------------------------------------------------------------ the words of Python */

/* An option's value: the rest of its word, else the next word. */
static const char *option_value(const launch_words *w, size_t *i, const char *rest)
{
    if (*rest) {
        return rest;
    }
    const char *next = *i + 1 < w->n ? w->items[++*i] : NULL;
    return next == launch_unknown ? NULL : next;
}

/* -X lazy_imports=all, which goes before PYTHON_LAZY_IMPORTS; the last one counts. */
static void take_implementation_option(struct launch_program *p, const char *value)
{
    static const char name[] = "lazy_imports=";
    if (value && starts_with(value, name)) {
        p->lazy_imports = value + sizeof name - 1;
    }
}

/* One word of short options. True when it says what is run, so that no option follows. */
static bool take_python_options(struct launch_start *s, const launch_words *w, size_t *i)
{
    struct launch_program *p = s->out;
    for (const char *c = w->items[*i] + 1; *c; c++) {
        switch (*c) {
        case 'c': p->code = option_value(w, i, c + 1); return true;
        case 'm': p->module = option_value(w, i, c + 1); return true;
        case 'W': (void)option_value(w, i, c + 1); return false; // steps over it
        case 'X': take_implementation_option(p, option_value(w, i, c + 1)); return false;
        case 'E': p->ignores_python_variables = true; break;
        case 's': p->no_user_site = true; break;
        case 'I': p->ignores_python_variables = p->no_user_site = true; break;
        default: break;
        }
    }
    return false;
}

/* Reads the options; returns the index of the first word behind what is run. */
static size_t take_python_words(struct launch_start *s, const launch_words *w)
{
    size_t i = 0;
    for (; i < w->n; i++) {
        const char *word = w->items[i];
        if (strcmp(word, "-") == 0 || word == launch_unknown) {
            break; // standard input; or what is run is known only by running it
        }
        if (strcmp(word, "--check-hash-based-pycs") == 0) {
            i++;
        } else if (strcmp(word, "--") == 0 && i + 1 < w->n) {
            s->out->script = launch_start_path(s, w->items[++i]);
            break;
        } else if (word[0] != '-') {
            s->out->script = launch_start_path(s, word);
            break;
        } else if (word[1] != '-' && take_python_options(s, w, &i)) {
            break;
        }
    }
    return i < w->n ? i + 1 : w->n;
}

static int use_python(struct launch_start *s, const char *python, const launch_words *w)
{
    s->out->kind = LAUNCH_PYTHON;
    s->out->python = python;
    size_t at = take_python_words(s, w);
    launch_words rest = {.items = w->n ? w->items + at : NULL, .n = w->n - at, .cap = w->n - at};
    launch_start_python_launcher(s, &rest);
    return 0;
}

/* ------------------------------------------------------------------ interpreter lines */

/* The path behind `'''exec' ` in the second line: plain, in quotes, or beside the script. */
static const char *trampoline(const struct launch_start *s, const char *path, struct str head)
{
    static const char mark[] = "'''exec' ";
    static const char beside[] = "\"$(dirname -- \"$(realpath -- \"$0\")\")\"/";
    struct str line;
    if (!str_line(&head, &line) || !str_line(&head, &line) || !str_starts(line, mark)) {
        return NULL;
    }
    line.s += sizeof mark - 1, line.n -= sizeof mark - 1;
    const char *dir = NULL;
    if (str_starts(line, beside)) {
        char *real = NULL;
        line.s += sizeof beside - 1, line.n -= sizeof beside - 1;
        if (root_realpath(s->root, s->a, path, &real) < 0) {
            return NULL;
        }
        dir = path_dir(s->a, real);
    }
    bool quoted = line.n && (line.s[0] == '\'' || line.s[0] == '"');
    char end = ' ';
    if (quoted) {
        end = line.s[0];
        line.s++, line.n--;
    }
    line.n = str_find_char(line, end);
    char *python = str_dup(s->a, line);
    python = dir ? path_join(s->a, dir, python) : python;
    return python[0] == '/' && is_python(s, python) ? python : NULL;
}

/* Without the spaces and tabs around it. A carriage return is part of the name, as for the kernel
 * (fs/binfmt_script.c, next_non_spacetab). */
static struct str trim_line(struct str s)
{
    while (s.n && (s.s[0] == ' ' || s.s[0] == '\t')) {
        s.s++, s.n--;
    }
    while (s.n && (s.s[s.n - 1] == ' ' || s.s[s.n - 1] == '\t')) {
        s.n--;
    }
    return s;
}

static int note_absent(struct launch_start *s, const char *name, const char *script)
{
    s->out->absent = name;
    s->out->absent_for = script;
    return -ENOENT;
}

/* "#!PROGRAM [ARGUMENT]" in front of the script's own words. */
static int use_line(struct launch_start *s, const char *path, struct str head,
                    const launch_words *w)
{
    struct str line = {head.s + 2, head.n - 2};
    line.n = line.n > LINE_BYTES_MAX - 2 ? LINE_BYTES_MAX - 2 : line.n;
    line.n = str_find_char(line, '\n');
    line = trim_line(line);
    size_t n = 0;
    while (n < line.n && line.s[n] != ' ' && line.s[n] != '\t') {
        n++;
    }
    const char *program = str_dup(s->a, (struct str){line.s, n});
    struct str argument = trim_line((struct str){line.s + n, line.n - n});
    const char *interpreter = launch_start_path(s, program);
    launch_words all = {0};
    if (argument.n) {
        VEC_PUSH(s->a, &all, str_dup(s->a, argument));
    }
    VEC_PUSH(s->a, &all, path);
    for (size_t i = 0; i < w->n; i++) {
        VEC_PUSH(s->a, &all, w->items[i]);
    }
    if (!*program || !interpreter || launch_start_may_execute(s, interpreter) < 0) {
        return note_absent(s, program, path); // what execve() says of a missing interpreter
    }
    return launch_start_file(s, interpreter, &all, true);
}

static int use_script(struct launch_start *s, const char *path, struct str head,
                      const launch_words *w)
{
    const char *python = trampoline(s, path, head);
    launch_words all = {0};
    VEC_PUSH(s->a, &all, path);
    if (python) {
        for (size_t i = 0; i < w->n; i++) {
            VEC_PUSH(s->a, &all, w->items[i]);
        }
        return use_python(s, python, &all);
    }
    /* pyenv's shim of an interpreter is a script; which version it selects is known to py/find.c.
     */
    if (is_python_name(path_base(path)) && strcmp(path_base(path_dir(s->a, path)), "shims") == 0) {
        return use_python(s, path, w);
    }
    return ++s->lines > LINES_MAX ? -ELOOP : use_line(s, path, head, w);
}

/* Launchers are known by their names, where programs lie: not a file of the same name elsewhere,
 * except for names that a program of one's own does not have: these are often unpacked anywhere.
 * Images have them in "/" (tini's own instructions: ENTRYPOINT ["/tini", "--"]) and, of s6-overlay,
 * in /command; a script there is the image's own. */
static bool is_installed(struct launch_start *s, const char *path, struct str head)
{
    static const char *const folders[] = {"bin", "sbin", "condabin", "shims", "command"};
    static const char distinct[] = "uv uvx pixi micromamba docker podman tini dumb-init catatonit";
    const char *dir = path_dir(s->a, path), *folder = path_base(dir);
    if (str_starts(head, "\177ELF") &&
        (strcmp(dir, "/") == 0 || launch_option_is_in(distinct, path_base(path)))) {
        return true;
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (strcmp(folder, folders[i]) == 0) {
            return true;
        }
    }
    return false;
}

int launch_start_file(struct launch_start *s, const char *path, const launch_words *w,
                      bool by_script)
{
    struct str head;
    int rc = 0;
    if (++s->hops > LAUNCH_START_HOPS_MAX) {
        return launch_start_unseen(s, "too many programs start one another");
    }
    if (root_read_head(s->root, s->a, path, HEAD_BYTES, &head, NULL) < 0) {
        head = (struct str){"", 0}; // it may be executed and not read
    }
    if (!s->out->first && str_starts(head, "\177ELF")) {
        s->out->first = path;
    }
    if (is_installed(s, path, head) && launch_start_launcher(s, path_base(path), w, &rc)) {
        return rc;
    }
    if (str_starts(head, "#!")) {
        return use_script(s, path, head, w);
    }
    if (head.n && !str_starts(head, "\177ELF")) {
        return launch_start_script(s, path, w); // execvp() gives it to /bin/sh
    }
    if (is_python(s, path)) {
        return use_python(s, path, w);
    }
    if (by_script) {
        return launch_start_unseen(s, arena_printf(s->a, "it is a script of %s", path_base(path)));
    }
    /* A program that is in no table of launchers, or lies elsewhere, may be one all the same. */
    if (launch_start_first_python(s, w, true)) {
        return 0;
    }
    s->out->kind = LAUNCH_ELF;
    s->out->elf = path;
    return 0;
}

int launch_start_words(struct launch_start *s, const launch_words *w)
{
    const char *path = NULL, *other = NULL;
    launch_words rest = {.items = w->items + 1, .n = w->n - 1, .cap = w->n - 1};
    if (w->items[0] == launch_unknown) {
        return launch_start_unseen(s, "the name of what it starts is known only by running it");
    }
    int rc = launch_start_find(s, w->items[0], &path);
    if (s->other_path && !strchr(w->items[0], '/') &&
        (rc < 0 || launch_start_find_in(s, s->other_path, w->items[0], &other) < 0 ||
         strcmp(path, other) != 0)) {
        return launch_start_unseen(s, arena_printf(s->a,
                                                   "%s, so that which %s it starts is not known "
                                                   "(write its whole path)",
                                                   s->other_why, w->items[0]));
    }
    if (rc == -ENOENT) {
        return note_absent(s, w->items[0], NULL);
    }
    return rc < 0 ? rc : launch_start_file(s, path, &rest, false);
}

/* The environment that lies beside a program of which it is not known what it starts, where none is
 * active: in the working directory, or in the program's own folder. */
static void assume_environment(struct launch_start *s)
{
    const char *const dirs[] = {s->command->cwd, path_dir(s->a, s->out->file)};
    const char *active = launch_start_variable(s, "VIRTUAL_ENV");
    active = active ? active : launch_start_variable(s, "CONDA_PREFIX");
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs && !active && !s->out->python; i++) {
        const char *prefix = py_env_inside(s->root, s->a, dirs[i]);
        s->out->python = prefix ? path_join(s->a, prefix, "bin/python") : s->out->python;
    }
}

int launch_program_find(struct root *r, struct arena *a, const struct launch_command *c,
                        struct launch_program *ret)
{
    struct launch_program out = {0};
    static const struct launch_readers readers = {.words = launch_start_words,
                                                  .launcher = launch_start_launcher,
                                                  .shell = launch_start_shell};
    launch_words starts = {0};
    bool starts_more = false;
    struct launch_start s = {.root = r,
                             .a = a,
                             .command = c,
                             .out = &out,
                             .readers = &readers,
                             .starts = &starts,
                             .starts_more = &starts_more,
                             .path = c->path,
                             .cwd = c->cwd};
    launch_words words = {0};
    int rc = c->n ? launch_start_find(&s, c->words[0], &out.file) : -ENOENT;
    if (rc < 0) {
        *ret = (struct launch_program){.absent = rc == -ENOENT && c->n ? c->words[0] : NULL};
        return rc;
    }
    for (size_t i = 1; i < c->n; i++) {
        VEC_PUSH(a, &words, c->words[i]);
    }
    rc = launch_start_file(&s, out.file, &words, false);
    if (rc == 0 && out.kind == LAUNCH_STARTER && out.unseen && !out.clears && !out.elsewhere) {
        assume_environment(&s);
    }
    out.cwd = s.cwd != c->cwd && s.cwd != launch_unknown ? s.cwd : NULL;
    out.sets = s.sets.items;
    out.n_sets = s.sets.n;
    out.starts = starts.items;
    out.n_starts = starts.n;
    out.starts_more = starts_more;
    *ret =
        rc == 0 ? out : (struct launch_program){.absent = out.absent, .absent_for = out.absent_for};
    return rc;
}
