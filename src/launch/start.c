/* The state of a start while it is read: variables, folders, and where a name leads to. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/start.h"

const char launch_unknown[] = "";

int launch_start_unseen(struct launch_start *s, const char *why)
{
    s->out->kind = LAUNCH_STARTER;
    s->out->unseen = why;
    return 0;
}

/* Stands in `sets` for a value that is not known. */
static const char unknown_value[] = "\1";

static const char *value_in(const char *const *list, size_t n, const char *name, bool *ret_removed)
{
    size_t len = strlen(name);
    for (size_t i = n; i-- > 0;) {
        if (strncmp(list[i], name, len) == 0 && (list[i][len] == '=' || !list[i][len])) {
            *ret_removed = !list[i][len];
            return list[i][len] ? list[i] + len + 1 : NULL;
        }
    }
    return NULL;
}

const char *launch_start_variable(const struct launch_start *s, const char *name)
{
    bool removed = false;
    if (strcmp(name, "PATH") == 0) {
        return s->path;
    }
    const char *value = value_in(s->sets.items, s->sets.n, name, &removed);
    if (!value && !removed) {
        return value_in(s->command->env, s->command->n_env, name, &removed);
    }
    return value && strcmp(value, unknown_value) == 0 ? launch_unknown : value;
}

/* What is put in front of PATH counts wherever the other PATH does, and what replaces it replaces
 * both. */
static void take_path(struct launch_start *s, const char *value)
{
    size_t n = strlen(value), old = s->path ? strlen(s->path) : 0;
    bool in_front = value != launch_unknown && old && ends_with(value, s->path);
    if (s->other_path && value != launch_unknown) {
        s->other_path =
            in_front ? arena_printf(s->a, "%.*s%s", (int)(n - old), value, s->other_path) : NULL;
    }
    s->path = value;
}

void launch_start_set(struct launch_start *s, const char *by, const char *name, const char *value,
                      bool keeps)
{
    if (starts_with(name, "LD_") && !keeps && !s->out->clears) {
        s->out->clears = arena_printf(s->a,
                                      "%s sets %s itself, so that what is set before its start "
                                      "may not reach the program; write gpumend run -- before "
                                      "the program's own command there",
                                      by, name);
    }
    if (strcmp(name, "PATH") == 0 && value) {
        take_path(s, value);
    }
    VEC_PUSH(
        s->a, &s->sets,
        value ? arena_printf(s->a, "%s=%s", name, value == launch_unknown ? unknown_value : value)
              : arena_strdup(s->a, name));
}

void launch_start_enter(struct launch_start *s, const char *prefix)
{
    const char *bin = path_join(s->a, prefix, "bin");
    launch_start_set(s, "", "VIRTUAL_ENV", prefix, true);
    launch_start_set(s, "", "PATH", s->path ? arena_printf(s->a, "%s:%s", bin, s->path) : bin,
                     true);
}

void launch_program_env(struct arena *a, const struct launch_program *p, const char *const *env,
                        size_t n_env, const char *const **ret, size_t *ret_n)
{
    launch_words out = {0};
    for (size_t i = 0; i < n_env + p->n_sets; i++) {
        const char *entry = i < n_env ? env[i] : p->sets[i - n_env];
        const char *name = arena_strndup(a, entry, strcspn(entry, "="));
        bool removed = false;
        size_t later = i < n_env ? 0 : i - n_env + 1;
        const char *value = strchr(entry, '=');
        if (value && strcmp(value + 1, unknown_value) != 0 &&
            !value_in(p->sets + later, p->n_sets - later, name, &removed) && !removed) {
            VEC_PUSH(a, &out, entry);
        }
    }
    *ret = out.items;
    *ret_n = out.n;
}

const char *launch_start_path(const struct launch_start *s, const char *path)
{
    if (path == launch_unknown || (path[0] != '/' && s->cwd == launch_unknown)) {
        return NULL;
    }
    return path[0] == '/' ? path : path_join(s->a, s->cwd, path);
}

int launch_start_may_execute(const struct launch_start *s, const char *path)
{
    struct stat st;
    int rc = root_stat(s->root, path, &st);
    if (rc == 0 && !S_ISREG(st.st_mode)) {
        rc = -EACCES;
    }
    return rc < 0 ? rc : root_access(s->root, path, X_OK);
}

int launch_start_find_in(const struct launch_start *s, const char *search, const char *name,
                         const char **ret)
{
    int worst = -ENOENT;
    struct str rest = str_of(search);
    while (rest.s) {
        struct str part = str_cut(&rest, ':');
        const char *dir = launch_start_path(s, part.n ? str_dup(s->a, part) : ".");
        const char *path = dir ? path_join(s->a, dir, name) : NULL;
        int rc = path ? launch_start_may_execute(s, path) : -ENOENT;
        if (rc == 0) {
            *ret = path;
            return 0;
        }
        worst = rc == -EACCES ? rc : worst;
    }
    return worst;
}

int launch_start_find(struct launch_start *s, const char *name, const char **ret)
{
    if (!*name) {
        return -ENOENT;
    }
    if (strchr(name, '/')) {
        *ret = launch_start_path(s, name);
        return *ret ? launch_start_may_execute(s, *ret) : -ENOENT;
    }
    return launch_start_find_in(s, s->path ? s->path : "/bin:/usr/bin", name, ret);
}
