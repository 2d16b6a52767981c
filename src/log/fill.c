/*
 * Filling the texts and commands of an entry with what was read from the log; a value that could be
 * more than a word is not put into a command.
 */
#include <string.h>
#include <strings.h>

#include "kb/package.h"
#include "log/internal.h"
#include "py/requirement.h"

static const char *field_in(const struct log_fact *f, struct str name)
{
    for (size_t k = 0; f && k < f->n_fields; k++) {
        if (str_is(name, f->fields[k].name)) {
            return f->fields[k].value;
        }
    }
    return NULL;
}

const char *log_field_of(const struct log_matched *m, struct str names)
{
    while (names.s) {
        struct str name = str_cut(&names, '|');
        if (log_is_release_field(name)) { // never one of the text
            const char *value = log_release_field(m->release, name);
            if (value) {
                return value;
            }
            continue;
        }
        for (size_t i = 0; i <= m->n + m->n_facts; i++) {
            const struct log_fact *f = i < m->n    ? m->items[i]
                                       : i == m->n ? m->shown
                                                   : m->facts[i - m->n - 1];
            const char *value = field_in(f, name);
            if (value) {
                return value;
            }
        }
        bool is_library = str_is(name, "library"); // what the other fields are asked for
        const char *known =
            is_library ? NULL : provided_field(m, log_field_of(m, str_of("library")), name);
        if (known) {
            return known;
        }
    }
    return NULL;
}

static bool is_placeholder(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!(s.s[i] >= 'a' && s.s[i] <= 'z') && s.s[i] != '_' && s.s[i] != '|') {
            return false;
        }
    }
    return s.n > 0;
}

/* Whether a word of what was said before ends with the value, ignoring case. */
static bool is_said(const char *before, const char *value)
{
    struct str s = str_of(before), word = str_of(value);
    for (; word.n && s.n >= word.n; s.s++, s.n--) {
        char next = s.s[word.n];
        bool inside =
            (next >= '0' && next <= '9') || ((next | 0x20) >= 'a' && (next | 0x20) <= 'z');
        if (!inside && str_eq_nocase((struct str){s.s, word.n}, word)) {
            return true;
        }
    }
    return false;
}

/* Whether the value can be put into a command of any shell, bare or quoted, and is no option there:
 * a log is anybody's text. */
static bool value_is_plain(const char *value)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/";
    size_t n = strspn(value, first);
    while (n && value[n]) {
        size_t more = strspn(value + n, first) + strspn(value + n, ".+:=@,-");
        if (!more) {
            return false;
        }
        n += more;
    }
    return n > 0;
}

struct filled {
    const char *before; // a value that stands here is none; NULL: each is one
    bool command;       // for a shell
    unsigned fields, missing;
    unsigned unfit; // of a command: left out as a whole
};

/* Whether a package manager may know the name: people and messages call toolkits, compilers and
 * modules packages too. */
static bool is_installable(const char *package)
{
    static const char *const not_packages[] = {"cuda",   "cudnn", "driver", "gnu",  "nvidia",
                                               "python", "rocm",  "tf",     "clang"};
    for (size_t i = 0; i < sizeof not_packages / sizeof *not_packages; i++) {
        if (str_eq_nocase(str_of(package), str_of(not_packages[i]))) {
            return false;
        }
    }
    return true;
}

/* Whether what the name stands for is known to be the package that is meant: a log can name any
 * package of the index, and whoever wrote it could have put that there. */
static bool is_known_package(const struct log_matched *m, const char *value)
{
    struct kb_releases releases;
    struct kb_imports imports;
    struct str name = {value, strcspn(value, "=<>~!@[,")};
    const char *normal = py_name_normal(m->a, name);
    bool known = kb_package_is_known(m->rules->kb, normal, KB_MANAGER_PIP);
    if (!known && kb_releases(m->rules->kb, &releases, NULL) == 0) {
        for (size_t i = 0; i < releases.n && !known; i++) {
            known = strcmp(normal, releases.rows[i].package) == 0;
        }
    }
    if (!known && kb_imports(m->rules->kb, &imports, NULL) == 0) {
        for (size_t i = 0; i < imports.n && !known; i++) {
            known = strcmp(normal, imports.rows[i].package) == 0;
        }
    }
    return known;
}

/* Whether the image is one of those who publish images for GPUs, by the name that only they have.
 */
static bool is_known_image(const char *value)
{
    static const char *const publishers[] = {"nvidia/",
                                             "nvcr.io/nvidia/",
                                             "rocm/",
                                             "pytorch/",
                                             "tensorflow/",
                                             "dustynv/",
                                             "intel/",
                                             "ghcr.io/huggingface/",
                                             "vllm/",
                                             "ollama/",
                                             "huggingface/",
                                             "linuxserver/",
                                             "ghcr.io/ggml-org/",
                                             "ghcr.io/ggerganov/"};
    static const char hub[] = "docker.io/";
    value += strncmp(value, hub, sizeof hub - 1) == 0 ? sizeof hub - 1 : 0;
    for (size_t i = 0; i < sizeof publishers / sizeof *publishers; i++) {
        if (strncmp(value, publishers[i], strlen(publishers[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether a path leads below a folder where everybody may make files, or somewhere else than it
 * seems. */
static bool is_anybodys_path(const char *value)
{
    static const char *const folders[] = {"/tmp/", "/var/tmp/", "/dev/shm/"};
    bool anybodys = strstr(value, "/../") != NULL;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        anybodys = anybodys || strncmp(value, folders[i], strlen(folders[i])) == 0;
    }
    return anybodys;
}

/* The value as a command may have it; NULL: none may. */
static const char *command_value(const struct log_matched *m, struct str names, const char *value)
{
    if (!value || is_provided_field(names) || log_is_release_field(names)) {
        return value;
    }
    if (!value_is_plain(value) || is_anybodys_path(value)) {
        return NULL;
    }
    if (str_is(names, "image")) {
        return is_known_image(value) ? value : NULL;
    }
    if (str_is(names, "package") || str_is(names, "package_b") || str_is(names, "wanted")) {
        return is_installable(value) && is_known_package(m, value) ? value : NULL;
    }
    return value;
}

/* The text with its {fields} filled in; `missing` counts those that no fact has. */
static const char *fill_fields(const struct log_matched *m, struct str rest, struct filled *f)
{
    const char *done = "";
    f->fields = f->missing = 0;
    while (rest.n) {
        size_t open = str_find_char(rest, '{');
        struct str tail = {rest.s + open, rest.n - open};
        size_t close = str_find_char(tail, '}');
        struct str name = {tail.s + 1, close < tail.n ? close - 1 : 0};
        size_t literal = open;
        const char *value = "";
        if (name.n && is_placeholder(name)) {
            value = log_field_of(m, name);
            f->fields++;
            f->missing += !value || (f->before && is_said(f->before, value));
            value = f->command ? command_value(m, name, value)
                    : value    ? value
                               : "(not named in the text)";
            f->unfit += !value;
            value = value ? value : "";
            rest = (struct str){tail.s + close + 1, tail.n - close - 1};
        } else {
            literal += open < rest.n; // a brace that stands for itself
            rest = (struct str){rest.s + literal, rest.n - literal};
        }
        done = arena_printf(m->a, "%s%.*s%s", done, (int)literal, tail.s - open, value);
    }
    return done;
}

const char *log_fill_parts(const struct log_matched *m, const char *text, bool once)
{
    const char *done = "";
    struct str rest = str_of(text ? text : "");
    while (rest.n) {
        struct filled f = {0};
        size_t open = str_find_char(rest, '[');
        struct str tail = {rest.s + open, rest.n - open};
        size_t close = str_find_char(tail, ']');
        struct str inner = {tail.s + 1, close < tail.n ? close - 1 : 0};
        done = arena_printf(m->a, "%s%s", done, fill_fields(m, (struct str){rest.s, open}, &f));
        if (close >= tail.n) {
            return arena_printf(m->a, "%s%s", done, fill_fields(m, tail, &f));
        }
        f.before = once ? done : NULL;
        const char *part = fill_fields(m, inner, &f);
        if (!f.fields) {
            done = arena_printf(m->a, "%s[%s]", done, part);
        } else if (!f.missing) {
            done = arena_printf(m->a, "%s%s", done, part);
        }
        rest = (struct str){tail.s + close + 1, tail.n - close - 1};
    }
    return done;
}

const char *log_fill_text(const struct log_matched *m, const char *text)
{
    return log_fill_parts(m, text, false);
}

const char *log_fill_command(const struct log_matched *m, const char *text)
{
    struct filled f = {.command = true};
    const char *here = log_command_here(m, text);
    const char *command = here ? fill_fields(m, str_of(here), &f) : NULL;
    return f.unfit ? NULL : command;
}
