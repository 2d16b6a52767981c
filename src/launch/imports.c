#include "launch/imports.h"

#include <string.h>

#include "py/dist.h"
#include "py/module.h"
#include "py/requirement.h"

enum {
    IMPORTS_MAX = 1024,
    FILES_MAX = 64,
    FILE_BYTES_MAX = 1 << 20,
    REQUIRES_MAX = 512,
    PACKAGES_MAX = 32,
};

/* ------------------------------------------------------------------ statements */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f';
}

static struct str skip_blanks(struct str s)
{
    while (s.n && is_blank(*s.s)) {
        s.s++, s.n--;
    }
    return s;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || (unsigned char)c >= 0x80;
}

/* Takes "a.b.c" off the head; n is 0 if there is none. */
static struct str take_name(struct str *s)
{
    *s = skip_blanks(*s);
    size_t n = 0;
    while (n < s->n && is_name_char(s->s[n])) {
        n++;
    }
    struct str name = {s->s, n};
    s->s += n, s->n -= n;
    return name;
}

/* Whether the text begins with the word and a blank, which are taken off. */
static bool take_keyword(struct str *s, const char *word)
{
    size_t n = strlen(word);
    if (s->n <= n || !str_starts(*s, word) || !is_blank(s->s[n])) {
        return false;
    }
    *s = skip_blanks((struct str){s->s + n, s->n - n});
    return true;
}

static void keep_import(struct arena *a, struct launch_imports *out, struct str name, bool inside)
{
    if (name.n && name.s[0] != '.' && out->items.n < IMPORTS_MAX) {
        VEC_PUSH(a, &out->items, (struct launch_import){name, inside});
    }
}

/* "import a.b as c, d" and "from a.b import c, d": of the latter a.b, and a.b.c as it may be a
 * module of its own. */
static void read_statement(struct arena *a, struct launch_imports *out, struct str s, bool inside)
{
    if (take_keyword(&s, "import")) {
        for (;;) {
            keep_import(a, out, take_name(&s), inside);
            s = skip_blanks(s);
            if (take_keyword(&s, "as")) {
                (void)take_name(&s); // the local name
                s = skip_blanks(s);
            }
            if (!s.n || *s.s != ',') {
                return;
            }
            s.s++, s.n--;
        }
    }
    if (!take_keyword(&s, "from")) {
        return;
    }
    struct str from = take_name(&s);
    s = skip_blanks(s);
    keep_import(a, out, from, inside);
    if (!from.n || from.s[0] == '.' || !take_keyword(&s, "import")) {
        return;
    }
    for (;;) {
        struct str name = take_name(&s);
        if (name.n) {
            keep_import(a, out,
                        str_of(arena_printf(a, STR_FMT "." STR_FMT, STR_ARG(from), STR_ARG(name))),
                        inside);
        }
        s = skip_blanks(s);
        if (take_keyword(&s, "as")) {
            (void)take_name(&s); // the local name
            s = skip_blanks(s);
        }
        if (!name.n || !s.n || *s.s != ',') {
            return;
        }
        s.s++, s.n--;
    }
}

/* Whether a line at column 0 opens or closes a function or class; blank lines, comments and
 * brackets that close change nothing. */
static bool still_inside(struct str line, bool inside)
{
    if (!line.n || is_blank(*line.s) || strchr("#)]}", *line.s)) {
        return inside;
    }
    return str_starts(line, "def ") || str_starts(line, "class ") || str_starts(line, "async ") ||
           *line.s == '@';
}

void launch_imports_read(struct arena *a, struct str text, struct launch_imports *ret)
{
    struct str line;
    bool inside = false;
    *ret = (struct launch_imports){0};
    while (str_line(&text, &line)) {
        inside = still_inside(line, inside);
        line.n = str_find_char(line, '#');
        while (line.s) {
            read_statement(a, ret, skip_blanks(str_cut(&line, ';')), inside);
        }
    }
}

/* ------------------------------------------------------------------ a program */

struct scan {
    struct model *m;
    const char *dir;            // sys.path[0] of the program; NULL: not known
    VEC(const char *) packages; // GPU packages, by the name of their module
    VEC(const char *) later;    // those inside functions
    VEC(const char *) files;    // read, or to be read
    VEC(const char *) seen;     // distributions whose requirements were looked at
    bool may_hide;              // an import may bring GPU packages that are not seen
};

static bool is_in(const char *const *items, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static const char *known_package(struct model *m, const char *module)
{
    for (size_t i = 0; i < m->imports.n; i++) {
        const struct kb_import *row = &m->imports.rows[i];
        size_t n = strlen(row->module);
        if (strncmp(row->module, module, n) == 0 && (module[n] == '.' || !module[n]) &&
            py_env_by_dist(m->env, row->package)) {
            return row->module;
        }
    }
    return NULL;
}

static bool is_known_dist(struct model *m, struct str name)
{
    for (size_t i = 0; i < m->imports.n; i++) {
        if (py_name_eq(str_of(m->imports.rows[i].package), name)) {
            return py_env_by_dist(m->env, m->imports.rows[i].package) != NULL;
        }
    }
    return false;
}

/* Whether an installed GPU package is among what the distribution requires, and what that does. */
static bool requires_gpu(struct scan *s, struct py_dist *dist)
{
    struct arena *a = s->m->arena;
    if (is_in(s->seen.items, s->seen.n, dist->name)) {
        return false;
    }
    if (s->seen.n == REQUIRES_MAX) {
        return true; // it may
    }
    VEC_PUSH(a, &s->seen, dist->name);
    const struct py_metadata *meta = py_dist_metadata(s->m->env, dist);
    for (size_t i = 0; meta && i < meta->n_requires_dist; i++) {
        struct py_requirement q;
        struct gm_err err;
        if (py_requirement_parse(a, meta->requires_dist[i], &q, &err) < 0) {
            continue; // pip would not have installed it
        }
        struct py_dist *next = py_env_by_dist(s->m->env, str_dup(a, q.name));
        if (is_known_dist(s->m, q.name) || (next && requires_gpu(s, next))) {
            return true;
        }
    }
    return !meta;
}

static void queue_file(struct scan *s, const char *path)
{
    if (s->files.n < FILES_MAX && !is_in(s->files.items, s->files.n, path)) {
        VEC_PUSH(s->m->arena, &s->files, path);
    }
}

/* A module beside the script: DIR/a/b.py or DIR/a/b/__init__.py, and what is above it. */
static bool is_local(struct scan *s, const char *module)
{
    struct arena *a = s->m->arena;
    bool found = false;
    const char *path = s->dir;
    for (struct str rest = str_of(module); path && rest.s;) {
        struct stat st;
        path = path_join(a, path, str_dup(a, str_cut(&rest, '.')));
        const char *file = arena_printf(a, "%s.py", path);
        const char *init = path_join(a, path, "__init__.py");
        if (root_stat(s->m->root, file, &st) == 0) {
            queue_file(s, file);
            return true;
        }
        if (root_stat(s->m->root, init, &st) == 0) {
            queue_file(s, init);
            found = true;
        } else if (root_stat(s->m->root, path, &st) < 0 || !S_ISDIR(st.st_mode)) {
            return found;
        }
    }
    return found;
}

/* The distribution that has a module of this name at its top, by its folder's or its own name. */
static void look_at_installed(struct scan *s, const char *module)
{
    struct arena *a = s->m->arena;
    const char *top = str_dup(a, (struct str){module, strcspn(module, ".")});
    struct py_module found;
    py_module_find(s->m->env, top, &found);
    if (found.kind == PY_MODULE_NONE || !found.entry || found.entry->origin == PY_PATH_STDLIB ||
        found.entry->origin == PY_PATH_DYNLOAD) {
        return; // built in, part of Python, or not there
    }
    struct py_dist *dist = py_env_by_dist(s->m->env, top);
    if (!dist) {
        const char *owner = model_owner(s->m, found.file);
        dist =
            owner ? py_env_by_dist(s->m->env, arena_strndup(a, owner, strcspn(owner, " "))) : NULL;
    }
    if (dist && requires_gpu(s, dist)) {
        s->may_hide = true;
    }
}

static void take_import(struct scan *s, const struct launch_import *import)
{
    struct arena *a = s->m->arena;
    const char *module = str_dup(a, import->name);
    if (is_local(s, module)) {
        return;
    }
    const char *package = known_package(s->m, module);
    if (!package) {
        look_at_installed(s, module);
    } else if (import->inside) {
        VEC_PUSH(a, &s->later, package);
    } else if (!is_in(s->packages.items, s->packages.n, package)) {
        if (s->packages.n == PACKAGES_MAX) {
            s->may_hide = true;
            return;
        }
        VEC_PUSH(a, &s->packages, package);
    }
}

static void scan_text(struct scan *s, struct str text)
{
    struct launch_imports imports;
    launch_imports_read(s->m->arena, text, &imports);
    s->may_hide |= imports.items.n == IMPORTS_MAX;
    for (size_t i = 0; i < imports.items.n; i++) {
        take_import(s, &imports.items.items[i]);
    }
}

static void scan_file(struct scan *s, const char *path)
{
    struct str text;
    bool all = false;
    if (root_read_head(s->m->root, s->m->arena, path, FILE_BYTES_MAX, &text, &all) < 0 || !all ||
        memchr(text.s, '\0', text.n)) {
        s->may_hide = true; // not there, too large, or no text (an archive)
        return;
    }
    scan_text(s, text);
}

/* `python -m MODULE`: the module's file, or the package's __main__. */
static void scan_module(struct scan *s, const char *module)
{
    struct arena *a = s->m->arena;
    scan_text(s, str_of(arena_printf(a, "import %s\nimport %s.__main__", module, module)));
    const char *package = known_package(s->m, module);
    struct py_module found;
    py_module_find(s->m->env, arena_printf(a, "%s.__main__", module), &found);
    if (!package && found.kind == PY_MODULE_SOURCE && ends_with(found.file, ".py")) {
        queue_file(s, found.file);
    }
}

static void scan_program(struct scan *s, const struct launch_program *p)
{
    struct arena *a = s->m->arena;
    struct stat st;
    s->dir = s->m->config.cwd;
    if (p->code) {
        scan_text(s, str_of(p->code));
    } else if (p->module) {
        scan_module(s, p->module);
    } else if (p->script) {
        const char *real = model_real_path(s->m, p->script);
        bool is_dir = root_stat(s->m->root, p->script, &st) == 0 && S_ISDIR(st.st_mode);
        s->dir = is_dir ? p->script : path_dir(a, real ? real : p->script);
        queue_file(s, is_dir ? path_join(a, p->script, "__main__.py") : p->script);
    } else {
        s->may_hide = true; // standard input or a prompt
    }
    for (size_t i = 0; i < s->files.n; i++) {
        scan_file(s, s->files.items[i]);
    }
    s->may_hide = s->may_hide || s->files.n == FILES_MAX;
}

void launch_imports_add(struct model *m, const struct launch_program *p)
{
    struct scan s = {.m = m};
    scan_program(&s, p);
    for (size_t i = 0; i < s.later.n && !s.may_hide; i++) {
        s.may_hide = s.packages.n == PACKAGES_MAX;
        if (!is_in(s.packages.items, s.packages.n, s.later.items[i])) {
            VEC_PUSH(m->arena, &s.packages, s.later.items[i]);
        }
    }
    bool whole = s.packages.n > 0 && !s.may_hide;
    model_add_default_scripts(m, s.packages.items, whole ? s.packages.n : 0);
}
