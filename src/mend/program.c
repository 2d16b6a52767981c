#include "mend/program.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { HEAD_BYTES = 4096, LINE_BYTES_MAX = 255, HOPS_MAX = 5, WORDS_MAX = 4096 };

struct finder {
    struct root *root;
    struct arena *a;
    const struct mend_command *command;
    struct mend_program *out;
    unsigned hops;
};

typedef VEC(const char *) words;

/* Programs whose work is to start others. */
static const char *const starters[] = {
    "bash", "busybox", "chrt", "dash", "doas", "dumb-init", "fish", "flock", "gosu", "ionice",
    "ksh", "make", "mksh", "mpirun", "nice", "nohup", "numactl", "parallel", "script", "setpriv",
    "setsid", "sh", "srun", "stdbuf", "strace", "sudo", "taskset", "time", "timeout", "tini",
    "watch", "xargs", "zsh"};

const char *mend_program_kind_name(enum mend_program_kind kind)
{
    static const char *const names[] = {
        [MEND_PYTHON] = "python", [MEND_ELF] = "elf", [MEND_STARTER] = "starter"};
    return names[kind];
}

/* ------------------------------------------------------------------ files */

static const char *absolute(const struct finder *f, const char *path)
{
    return path[0] == '/' ? path : path_join(f->a, f->command->cwd, path);
}

/* 0 if execve() would try the file, else -EACCES or what stat() says. */
static int may_execute(const struct finder *f, const char *path)
{
    struct stat st;
    int rc = root_stat(f->root, path, &st);
    if (rc == 0 && !S_ISREG(st.st_mode)) {
        rc = -EACCES;
    }
    return rc < 0 ? rc : root_access(f->root, path, X_OK);
}

/* As execvp(): a name with a slash is a path; else the first of PATH that may be executed. */
static int look_up(const struct finder *f, const char *name, const char **ret)
{
    if (!*name) {
        return -ENOENT;
    }
    if (strchr(name, '/')) {
        *ret = absolute(f, name);
        return may_execute(f, *ret);
    }
    int worst = -ENOENT;
    struct str rest = str_of(f->command->path ? f->command->path : "/bin:/usr/bin");
    while (rest.s) {
        struct str part = str_cut(&rest, ':');
        const char *dir = absolute(f, part.n ? str_dup(f->a, part) : ".");
        const char *path = path_join(f->a, dir, name);
        int rc = may_execute(f, path);
        if (rc == 0) {
            *ret = path;
            return 0;
        }
        worst = rc == -EACCES ? rc : worst;
    }
    return worst;
}

/* The first bytes of a file; empty if it cannot be read. */
static struct str head_of(const struct finder *f, const char *path)
{
    int fd = root_open_file(f->root, path, NULL);
    if (fd < 0) {
        return (struct str){"", 0};
    }
    char *data = arena_alloc(f->a, HEAD_BYTES);
    ssize_t n = pread(fd, data, HEAD_BYTES, 0);
    (void)close(fd); // opened for reading
    return (struct str){data, n > 0 ? (size_t)n : 0};
}

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

static bool is_python(const struct finder *f, const char *path)
{
    char *real = NULL;
    return is_python_name(path_base(path)) ||
           (root_realpath(f->root, f->a, path, &real) == 0 && is_python_name(path_base(real)));
}

static bool is_starter(const char *path)
{
    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++) {
        if (strcmp(path_base(path), starters[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ the words of Python */

/* An option's value: the rest of its word, else the next word. */
static const char *value_of(const words *w, size_t *i, const char *rest)
{
    if (*rest) {
        return rest;
    }
    return *i + 1 < w->n ? w->items[++*i] : NULL;
}

/* One word of short options. True when it says what is run, so that no option follows. */
static bool take_python_options(struct finder *f, const words *w, size_t *i)
{
    struct mend_program *p = f->out;
    for (const char *c = w->items[*i] + 1; *c; c++) {
        switch (*c) {
        case 'c': p->code = value_of(w, i, c + 1); return true;
        case 'm': p->module = value_of(w, i, c + 1); return true;
        case 'W':
        case 'X': (void)value_of(w, i, c + 1); return false; // steps over it
        case 'E': p->ignores_python_variables = true; break;
        case 's': p->no_user_site = true; break;
        case 'I': p->ignores_python_variables = p->no_user_site = true; break;
        default: break;
        }
    }
    return false;
}

static int use_python(struct finder *f, const char *python, const words *w)
{
    f->out->kind = MEND_PYTHON;
    f->out->python = python;
    for (size_t i = 0; i < w->n; i++) {
        const char *word = w->items[i];
        if (strcmp(word, "-") == 0) {
            return 0; // standard input
        }
        if (strcmp(word, "--check-hash-based-pycs") == 0) {
            i++;
        } else if (strcmp(word, "--") == 0 && i + 1 < w->n) {
            f->out->script = absolute(f, w->items[i + 1]);
            return 0;
        } else if (word[0] != '-') {
            f->out->script = absolute(f, word);
            return 0;
        } else if (word[1] != '-' && take_python_options(f, w, &i)) {
            return 0;
        }
    }
    return 0;
}

/* ------------------------------------------------------------------ env(1) */

/* Splits as `env -S` does, without its escapes and variables: false if it has any. */
static bool split(struct arena *a, const char *text, words *out)
{
    if (strpbrk(text, "\\$#")) {
        return false;
    }
    while (*(text += strspn(text, " \t"))) {
        const char *word = "";
        while (*text && !strchr(" \t", *text)) {
            bool quoted = *text == '\'' || *text == '"';
            size_t n = quoted ? strcspn(text + 1, (char[]){*text, '\0'}) : strcspn(text, " \t'\"");
            if (quoted && !text[n + 1]) {
                return false;
            }
            word = arena_printf(a, "%s%.*s", word, (int)n, text + quoted);
            text += n + (quoted ? 2 : 0);
        }
        VEC_PUSH(a, out, word);
    }
    return true;
}

static int classify(struct finder *f, const char *path, const words *w, bool by_script);

static int use_starter(struct finder *f)
{
    f->out->kind = MEND_STARTER;
    return 0;
}

/* The words after `env`: options, assignments, then a command. An option that is not known here
 * may take a value, so that what follows cannot be told. */
static int use_env(struct finder *f, const words *w)
{
    words rest = {0};
    bool options = true;
    for (size_t i = 0; i < w->n; i++) {
        const char *word = w->items[i];
        const char *text = NULL;
        if (rest.n) {
            VEC_PUSH(f->a, &rest, word);
        } else if (options && strcmp(word, "--") == 0) {
            options = false;
        } else if (options && (strcmp(word, "-") == 0 || strcmp(word, "-i") == 0 ||
                               strcmp(word, "--ignore-environment") == 0)) {
            f->out->clears = "env -i starts the program with an empty environment";
        } else if (options && (starts_with(word, "-S") || strcmp(word, "-vS") == 0)) {
            size_t skip = word[1] == 'v' ? 3 : 2;
            text = word[skip] ? word + skip : i + 1 < w->n ? w->items[++i] : "";
        } else if (options && starts_with(word, "--split-string=")) {
            text = word + strlen("--split-string=");
        } else if (options && word[0] == '-') {
            return use_starter(f);
        } else if (!strchr(word, '=')) {
            VEC_PUSH(f->a, &rest, word);
        }
        if (text) {
            words more = {0};
            if (!split(f->a, text, &more)) {
                return use_starter(f);
            }
            for (size_t k = i + 1; k < w->n; k++) {
                VEC_PUSH(f->a, &more, w->items[k]);
            }
            return ++f->hops > HOPS_MAX ? use_starter(f) : use_env(f, &more);
        }
    }
    const char *path = NULL;
    if (!rest.n || look_up(f, rest.items[0], &path) < 0) {
        return use_starter(f);
    }
    words args = {.items = rest.items + 1, .n = rest.n - 1, .cap = rest.n - 1};
    return classify(f, path, &args, false);
}

/* ------------------------------------------------------------------ interpreter lines */

/* The path behind `'''exec' ` in the second line: plain, in quotes, or beside the script. */
static const char *trampoline(const struct finder *f, const char *path, struct str head)
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
        if (root_realpath(f->root, f->a, path, &real) < 0) {
            return NULL;
        }
        dir = path_dir(f->a, real);
    }
    bool quoted = line.n && (line.s[0] == '\'' || line.s[0] == '"');
    char end = ' ';
    if (quoted) {
        end = line.s[0];
        line.s++, line.n--;
    }
    line.n = str_find_char(line, end);
    char *python = str_dup(f->a, line);
    python = dir ? path_join(f->a, dir, python) : python;
    return python[0] == '/' && is_python(f, python) ? python : NULL;
}

/* "#!PROGRAM [ARGUMENT]" in front of the script's own words. */
static int use_line(struct finder *f, const char *path, struct str head, const words *w)
{
    struct str line = {head.s + 2, head.n - 2};
    line.n = line.n > LINE_BYTES_MAX - 2 ? LINE_BYTES_MAX - 2 : line.n;
    line.n = str_find_char(line, '\n');
    line = str_trim(line);
    size_t n = 0;
    while (n < line.n && line.s[n] != ' ' && line.s[n] != '\t') {
        n++;
    }
    const char *program = str_dup(f->a, (struct str){line.s, n});
    struct str argument = str_trim((struct str){line.s + n, line.n - n});
    words all = {0};
    if (argument.n) {
        VEC_PUSH(f->a, &all, str_dup(f->a, argument));
    }
    VEC_PUSH(f->a, &all, path);
    for (size_t i = 0; i < w->n && i < WORDS_MAX; i++) {
        VEC_PUSH(f->a, &all, w->items[i]);
    }
    if (!*program || may_execute(f, absolute(f, program)) < 0) {
        return -ENOENT; // what execve() says of a missing interpreter
    }
    return classify(f, absolute(f, program), &all, true);
}

static int use_script(struct finder *f, const char *path, struct str head, const words *w)
{
    const char *python = trampoline(f, path, head);
    words all = {0};
    VEC_PUSH(f->a, &all, path);
    if (python) {
        return use_python(f, python, &all);
    }
    /* pyenv's shim of an interpreter is a script; which version it selects is known to py/find.c. */
    if (is_python_name(path_base(path)) &&
        strcmp(path_base(path_dir(f->a, path)), "shims") == 0) {
        return use_python(f, path, w);
    }
    return ++f->hops > HOPS_MAX ? -ELOOP : use_line(f, path, head, w);
}

static int classify(struct finder *f, const char *path, const words *w, bool by_script)
{
    struct str head = head_of(f, path);
    if (str_starts(head, "#!")) {
        return use_script(f, path, head, w);
    }
    if (head.n && !str_starts(head, "\177ELF")) {
        return use_starter(f); // execvp() gives it to /bin/sh
    }
    if (is_python(f, path)) {
        return use_python(f, path, w);
    }
    if (strcmp(path_base(path), "env") == 0) {
        return use_env(f, w);
    }
    f->out->kind = by_script || is_starter(path) ? MEND_STARTER : MEND_ELF;
    return 0;
}

int mend_program_find(struct root *r, struct arena *a, const struct mend_command *c,
                      struct mend_program *ret)
{
    struct mend_program out = {0};
    struct finder f = {.root = r, .a = a, .command = c, .out = &out};
    int rc = c->n ? look_up(&f, c->words[0], &out.file) : -ENOENT;
    if (rc < 0) {
        return rc;
    }
    words rest = {.items = (const char **)c->words + 1, .n = c->n - 1, .cap = c->n - 1};
    rc = classify(&f, out.file, &rest, false);
    if (rc == 0) {
        *ret = out;
    }
    return rc;
}
