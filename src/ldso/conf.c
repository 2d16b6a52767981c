#include "ldso/conf.h"

#include <string.h>

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* "include" and "hwcap" count as words only with a blank behind them. */
static bool conf_is_word(struct str line, const char *word)
{
    size_t n = strlen(word);
    return str_starts(line, word) && line.n > n && blank(line.s[n]);
}

bool ldso_conf_next(struct str *rest, struct ldso_conf_line *ret)
{
    struct str line;
    while (str_line(rest, &line)) {
        line.n = str_find_char(line, '#');
        line = str_trim(line);
        if (line.n == 0 || conf_is_word(line, "hwcap")) {
            continue;
        }
        ret->kind = conf_is_word(line, "include") ? LDSO_CONF_INCLUDE : LDSO_CONF_DIR;
        if (ret->kind == LDSO_CONF_INCLUDE) {
            line = str_trim((struct str){line.s + 7, line.n - 7});
        }
        ret->text = line;
        return true;
    }
    return false;
}

struct reader {
    struct root *root;
    struct arena *arena;
    struct ldso_conf *conf;
    unsigned depth, lists; // files inside one another; folders listed for wildcards
};

static void conf_read_file(struct reader *r, const char *path);

static bool conf_is_full(struct reader *r)
{
    if (r->depth >= LDSO_CONF_DEPTH_MAX) {
        root_note_cut(r->root, "the files of ld.so.conf include one another more than %d deep",
                      LDSO_CONF_DEPTH_MAX);
    } else if (r->conf->n_files >= LDSO_CONF_FILES_MAX || r->lists >= LDSO_CONF_FILES_MAX) {
        root_note_cut(r->root, "ld.so.conf includes more than %d files; the others were not read",
                      LDSO_CONF_FILES_MAX);
    }
    return r->depth >= LDSO_CONF_DEPTH_MAX || r->conf->n_files >= LDSO_CONF_FILES_MAX ||
           r->lists >= LDSO_CONF_FILES_MAX;
}

static void add_dir(struct reader *r, struct str text, const char *file)
{
    while (text.n > 1 && text.s[text.n - 1] == '/') {
        text.n--;
    }
    if (text.n == 0 || text.s[0] != '/') {
        return; // ldconfig passes over a folder that is not absolute
    }
    const char *dir = path_normal(r->arena, str_dup(r->arena, text));
    for (size_t i = 0; i < r->conf->dirs.n; i++) {
        if (strcmp(r->conf->dirs.items[i].dir, dir) == 0) {
            return;
        }
    }
    if (r->conf->dirs.n >= LDSO_CONF_DIRS_MAX) {
        root_note_cut(r->root,
                      "ld.so.conf names more than %d folders; the others were not looked at",
                      LDSO_CONF_DIRS_MAX);
        return;
    }
    VEC_PUSH(r->arena, &r->conf->dirs, (struct ldso_conf_dir){dir, file});
}

/* Follows the components of a pattern; a component with wildcards stands for each name that fits,
 * but for names with a dot in front, as in glob(3). */
static void conf_expand(struct reader *r, const char *dir, struct str pattern)
{
    while (pattern.s && !conf_is_full(r)) {
        char *part = str_dup(r->arena, str_cut(&pattern, '/'));
        if (!strpbrk(part, "*?[")) {
            dir = *part ? path_join(r->arena, dir, part) : dir;
            continue;
        }
        struct root_dir list;
        r->lists++;
        if (root_list(r->root, r->arena, dir, LDSO_CONF_DIRS_MAX, NULL, &list) < 0) {
            return; // not there: nothing is included
        }
        for (size_t i = 0; i < list.n; i++) {
            if ((list.names[i][0] != '.' || part[0] == '.') && str_glob(part, list.names[i])) {
                conf_expand(r, path_join(r->arena, dir, list.names[i]), pattern);
            }
        }
        return;
    }
    if (!pattern.s) {
        conf_read_file(r, dir);
    }
}

static void include(struct reader *r, struct str patterns, const char *file)
{
    while (patterns.s) {
        size_t n = 0;
        while (n < patterns.n && !blank(patterns.s[n])) {
            n++;
        }
        struct str pattern = {patterns.s, n};
        if (n) {
            conf_expand(r, pattern.s[0] == '/' ? "/" : path_dir(r->arena, file), pattern);
        }
        patterns = n < patterns.n ? (struct str){patterns.s + n + 1, patterns.n - n - 1}
                                  : (struct str){NULL, 0};
    }
}

static void conf_read_file(struct reader *r, const char *path)
{
    struct str text;
    struct ldso_conf_line line;
    struct stat st;
    bool there = root_stat(r->root, path, &st) == 0;
    if (!there || conf_is_full(r) ||
        root_read(r->root, r->arena, path, LDSO_CONF_BYTES_MAX, &text) < 0) {
        return;
    }
    r->conf->n_files++;
    r->depth++;
    while (ldso_conf_next(&text, &line)) {
        if (line.kind == LDSO_CONF_INCLUDE) {
            include(r, line.text, path);
        } else {
            add_dir(r, line.text, path);
        }
    }
    r->depth--;
}

void ldso_conf_read(struct root *r, struct arena *a, struct ldso_conf *ret)
{
    *ret = (struct ldso_conf){0};
    struct reader reader = {.root = r, .arena = a, .conf = ret};
    conf_read_file(&reader, "/etc/ld.so.conf");
}
