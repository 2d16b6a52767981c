#include "model/package.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ torch */

/* "cuda: Optional[str] = '12.4'" with the name "cuda": true, and '12.4' or NULL for None. */
static bool assigned(struct arena *a, struct str line, const char *name, const char **ret)
{
    struct str rest = line;
    struct str head = str_cut(&rest, '=');
    head = str_trim(str_cut(&head, ':'));
    struct str value = str_trim(rest);
    if (!rest.s || !str_is(head, name)) {
        return false;
    }
    if (value.n >= 2 && (value.s[0] == '\'' || value.s[0] == '"')) {
        struct str inner = {value.s + 1, value.n - 1};
        *ret = str_dup(a, str_cut(&inner, value.s[0]));
        return inner.s != NULL;
    }
    return str_is(value, "None");
}

static void read_version(struct arena *a, struct str text, struct model_torch *ret)
{
    struct str line;
    while (str_line(&text, &line)) {
        ret->known = assigned(a, line, "cuda", &ret->cuda) || ret->known;
        (void)(assigned(a, line, "hip", &ret->hip) ||
               assigned(a, line, "xpu", &ret->xpu)); // optional
    }
    ret->known = ret->known && !ret->xpu;
}

const struct model_torch *model_torch(struct model *m)
{
    static const struct model_torch none;
    const struct py_dist *torch = m->env ? py_env_by_dist(m->env, "torch") : NULL;
    if (!torch) {
        return &none;
    }
    const char *path = path_join(m->arena, torch->site, "torch/version.py");
    struct model_torch *ret = ldso_store_recall(m->store, path);
    if (!ret) {
        struct str text;
        ret = arena_alloc(m->arena, sizeof *ret);
        if (root_read(m->root, m->arena, path, 1 << 20, &text) == 0) {
            read_version(m->arena, text, ret);
        }
        ldso_store_remember(m->store, path, ret);
    }
    return ret;
}

const char *model_torchaudio_pair(struct arena *a, const char *version)
{
    const char *dot = strchr(version, '.');
    int major = atoi(version), minor = dot ? atoi(dot + 1) : 0;
    return major > 2 || minor >= 11 ? ">=2.11" : arena_printf(a, "==%d.%d.*", major, minor);
}

/* ------------------------------------------------------------------ whose file */

enum { RECORD_BYTES_MAX = 32 << 20 };

enum py_answer model_is_own_file(struct model *m, const struct py_dist *dist, const char *path)
{
    struct stat st;
    struct str text;
    struct py_record_row row;
    if (dist->kind != PY_DIST_INFO ||
        root_stat(m->root, path_join(m->arena, dist->site, path), &st) < 0 ||
        root_read(m->root, m->arena, path_join(m->arena, dist->info, "RECORD"), RECORD_BYTES_MAX,
                  &text) < 0) {
        return PY_UNKNOWN;
    }
    while (py_record_next(m->arena, &text, &row)) {
        if (str_is(row.path, path) && row.has_size) {
            return row.size_bytes == (uint64_t)st.st_size ? PY_YES : PY_NO;
        }
    }
    return PY_UNKNOWN;
}
