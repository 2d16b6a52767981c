/* What the readers of an environment share: notes, and questions to the file system. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/root.h"
#include "base/str.h"
#include "py/internal.h"

void py_note(struct py_env *env, const char *fmt, ...)
{
    if (env->n_notes >= PY_NOTES_MAX) {
        return;
    }
    if (env->n_notes == env->notes_cap) {
        env->notes =
            arena_grow(env->arena, env->notes, env->n_notes, &env->notes_cap, sizeof *env->notes);
    }
    if (env->n_notes == PY_NOTES_MAX - 1) {
        env->notes[env->n_notes++] = "more notes than can be shown";
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    const char *text = str_printable(env->arena, arena_vprintf(env->arena, fmt, ap));
    va_end(ap);
    for (size_t i = 0; i < env->n_notes; i++) {
        if (strcmp(env->notes[i], text) == 0) {
            return; // said before
        }
    }
    env->notes[env->n_notes++] = text;
}

void py_note_denied(struct py_env *env, const char *path)
{
    env->denied = env->denied ? env->denied : path;
    py_note(env, "%s: this user may not read it: which packages are installed cannot be determined",
            path);
}

bool py_is_dir(struct py_env *env, const char *path)
{
    struct stat st;
    return root_stat(env->root, path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool py_is_file(struct py_env *env, const char *path)
{
    struct stat st;
    return root_stat(env->root, path, &st) == 0 && S_ISREG(st.st_mode);
}

char *py_absolute(struct arena *a, const char *path, const struct py_env_hints *hints)
{
    if (path[0] != '/') {
        path = path_join(a, hints->cwd && *hints->cwd ? hints->cwd : "/", path);
    }
    return path_normal(a, path);
}

int py_read_head(struct py_env *env, const char *path, size_t max_bytes, struct str *ret,
                 bool *ret_all)
{
    return root_read_head(env->root, env->arena, path, max_bytes, ret, ret_all);
}

const char *py_why(int rc)
{
    return rc == -ENOTSUP ? "not a regular file" : strerror(-rc);
}

bool py_name_version(const char *name, int *ret_major, int *ret_minor, bool *ret_free_threaded)
{
    uint64_t major = 0, minor = 0;
    if (!starts_with(name, "python")) {
        return false;
    }
    struct str rest = str_of(name + strlen("python"));
    bool t = rest.n && rest.s[rest.n - 1] == 't';
    rest.n -= t;
    struct str head = str_cut(&rest, '.');
    if (!str_u64(head, &major) || major > 99 ||
        (rest.s && (!str_u64(rest, &minor) || minor > 999))) {
        return false;
    }
    *ret_major = (int)major;
    *ret_minor = rest.s ? (int)minor : -1;
    *ret_free_threaded = t;
    return true;
}
