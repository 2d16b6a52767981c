/*
 * uv's workspaces, as far as they decide whose environment `uv run` uses: a member has that of the
 * workspace's root, even if it has its own .venv. Only the nearest pyproject.toml above a
 * project can make it a member (uv, crates/uv-workspace/src/workspace.rs, find_workspace; tried
 * with uv 0.13.9). Of TOML this reads the table [tool.uv.workspace] with its arrays `members` and
 * `exclude`; a workspace that is written in another form is not known.
 */
#include <fnmatch.h>
#include <string.h>

#include "launch/start.h"
#include "launch/uv.h"

struct workspace {
    bool declared, unclear;
    launch_words members, exclude;
};

/* A line without blanks and quotes, up to its comment. */
static const char *plain_line(struct launch_start *s, struct str line)
{
    char *plain = arena_alloc(s->a, line.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < line.n && line.s[i] != '#'; i++) {
        if (!strchr(" \t\"'\r", line.s[i])) {
            plain[n++] = line.s[i];
        }
    }
    plain[n] = '\0';
    return plain;
}

/* A workspace that is written as dotted keys or as an inline table. */
static bool is_other_form(const char *table, const char *line)
{
    return (strcmp(table, "[tool.uv]") == 0 &&
            (starts_with(line, "workspace=") || starts_with(line, "workspace."))) ||
           (strcmp(table, "[tool]") == 0 &&
            (starts_with(line, "uv.workspace") || starts_with(line, "uv={"))) ||
           (!*table && (starts_with(line, "tool.uv.workspace") || starts_with(line, "tool.uv={") ||
                        starts_with(line, "tool={")));
}

/* The texts of an array, from behind its '[' to its ']'; false: it is not understood. */
static bool read_array(struct launch_start *s, struct str *rest, launch_words *ret)
{
    for (size_t i = 0; i < rest->n; i++) {
        char c = rest->s[i];
        if (c == ']') {
            return true;
        }
        if (c == '#') {
            while (i < rest->n && rest->s[i] != '\n') {
                i++;
            }
        } else if (c == '"' || c == '\'') {
            size_t start = ++i;
            while (i < rest->n && rest->s[i] != c && rest->s[i] != '\n') {
                if (rest->s[i] == '\\' && c == '"') {
                    return false;
                }
                i++;
            }
            if (i >= rest->n || rest->s[i] != c) {
                return false;
            }
            struct str text = {rest->s + start, i - start};
            while (text.n && text.s[text.n - 1] == '/') {
                text.n--;
            }
            const char *glob = str_dup(s->a, text);
            VEC_PUSH(s->a, ret, starts_with(glob, "./") ? glob + 2 : glob);
        } else if (!strchr(" \t\r\n,", c)) {
            return false;
        }
    }
    return false;
}

/* One key of the table; the line is behind `rest`, whose text an array may go on with. */
static void read_key(struct launch_start *s, struct str line, struct str *rest, struct workspace *w)
{
    struct str value = line, key = str_trim(str_cut(&value, '='));
    launch_words *list = str_is(key, "members")   ? &w->members
                         : str_is(key, "exclude") ? &w->exclude
                                                  : NULL;
    struct str from = str_trim(value);
    if (!key.n || key.s[0] == '#') {
        return;
    }
    if (!list || !from.n || from.s[0] != '[') {
        w->unclear |= list != NULL;
        return;
    }
    struct str array = {from.s + 1, (size_t)(rest->s + rest->n - (from.s + 1))};
    w->unclear |= !read_array(s, &array, list);
}

static struct workspace read_workspace(struct launch_start *s, const char *folder)
{
    static const char wanted[] = "[tool.uv.workspace]";
    struct workspace w = {0};
    struct str text, line;
    bool all = false;
    const char *table = "";
    if (root_read_head(s->root, s->a, path_join(s->a, folder, "pyproject.toml"),
                       LAUNCH_START_TEXT_MAX, &text, &all) < 0) {
        w.unclear = true;
        return w;
    }
    w.unclear = !all;
    while (str_line(&text, &line)) {
        const char *plain = plain_line(s, line);
        if (*plain == '[') {
            table = plain;
            w.declared |= strcmp(table, wanted) == 0;
        } else if (strcmp(table, wanted) == 0) {
            read_key(s, str_trim(line), &text, &w);
        } else {
            w.unclear |= is_other_form(table, plain);
        }
    }
    return w;
}

enum match { MATCH_NO, MATCH_YES, MATCH_UNKNOWN };

/* A '*' stays in its folder. What "**" matches is not relied upon: where it decides, nothing is
 * known. */
static enum match matched(const launch_words *globs, const char *path)
{
    enum match found = MATCH_NO;
    for (size_t i = 0; i < globs->n && found != MATCH_YES; i++) {
        bool wide = fnmatch(globs->items[i], path, 0) == 0;
        bool narrow = fnmatch(globs->items[i], path, FNM_PATHNAME) == 0;
        bool deep = strstr(globs->items[i], "**") != NULL;
        found = narrow && !deep ? MATCH_YES : wide && deep ? MATCH_UNKNOWN : found;
    }
    return found;
}

/* The nearest folder above with a pyproject.toml, or NULL. */
static const char *project_above(struct launch_start *s, const char *project)
{
    struct stat st;
    const char *dir = project;
    for (int i = 0; dir[1] && i < 64; i++) {
        dir = path_dir(s->a, dir);
        if (root_stat(s->root, path_join(s->a, dir, "pyproject.toml"), &st) == 0) {
            return dir;
        }
    }
    return NULL;
}

const char *launch_uv_root(struct launch_start *s, const char *project)
{
    if (read_workspace(s, project).declared) {
        return project;
    }
    const char *above = project_above(s, project);
    struct workspace w = above ? read_workspace(s, above) : (struct workspace){0};
    if (!w.declared && !w.unclear) {
        return project;
    }
    const char *path = project + (above[1] ? strlen(above) + 1 : 1);
    enum match out = matched(&w.exclude, path), in = matched(&w.members, path);
    if (!w.unclear && (in == MATCH_NO || out == MATCH_YES)) {
        return project;
    }
    return w.unclear || in == MATCH_UNKNOWN || out == MATCH_UNKNOWN ? NULL : above;
}
