#include "model/toolkit.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/json.h"
#include "base/snap.h"

enum { VERSION_BYTES_MAX = 1 << 16, FOLDERS_MAX = 10000 };

/* version.json (since 11.1): {"cuda": {"name": "CUDA SDK", "version": "12.4.1"}, ...}. */
static const char *version_of_json(struct arena *a, struct str text)
{
    json_t *doc = json_loadb(text.s, text.n, JSON_REJECT_DUPLICATES, NULL);
    const char *version = json_text(json_object_get(doc, "cuda"), "version");
    const char *copy = version ? arena_printf(a, "%s", version) : NULL;
    json_decref(doc);
    return copy;
}

/* version.txt (up to 11.0): "CUDA Version 10.2.89". */
static const char *version_of_text(struct arena *a, struct str text)
{
    static const char head[] = "CUDA Version ";
    struct str line;
    if (!str_line(&text, &line) || !str_starts(line, head)) {
        return NULL;
    }
    return str_dup(a, str_trim((struct str){line.s + strlen(head), line.n - strlen(head)}));
}

static const char *why_not(int rc)
{
    return rc == -SNAP_NOT_HELD ? "not in the snapshot" : strerror(-rc);
}

static void read_toolkit_version(struct model *m, struct model_toolkit *t)
{
    static const struct {
        const char *name;
        const char *(*read)(struct arena *a, struct str text);
    } files[] = {{"version.json", version_of_json}, {"version.txt", version_of_text}};
    t->why = "it has neither version.json nor version.txt";
    for (size_t i = 0; i < sizeof files / sizeof *files && !t->version; i++) {
        struct str text;
        const char *path = path_join(m->arena, t->dir, files[i].name);
        int rc = root_read(m->root, m->arena, path, VERSION_BYTES_MAX, &text);
        t->version = rc == 0 ? files[i].read(m->arena, text) : NULL;
        if (rc == 0) {
            t->why = arena_printf(m->arena, "%s does not state it", files[i].name);
        } else if (rc != -ENOENT && rc != -ENOTDIR) {
            t->why = arena_printf(m->arena, "%s: %s", files[i].name, why_not(rc));
        }
    }
    t->why = t->version ? NULL : t->why;
}

static void add_toolkit(struct model *m, const char *path, const char *from, model_toolkits *ret)
{
    struct model_toolkit t = {.dir = model_real_path(m, path), .from = from};
    struct stat st;
    if (!t.dir || !model_is_folder(m, t.dir)) {
        return;
    }
    for (size_t i = 0; i < ret->n; i++) {
        if (strcmp(ret->items[i].dir, t.dir) == 0) {
            return;
        }
    }
    t.nvcc = root_stat(m->root, path_join(m->arena, t.dir, "bin/nvcc"), &st) == 0;
    read_toolkit_version(m, &t);
    if (from || t.nvcc || t.version) { // an empty folder of that name is none
        VEC_PUSH(m->arena, ret, t);
    }
}

static void add_named(struct model *m, model_toolkits *ret)
{
    static const char *const names[] = {"CUDA_HOME=", "CUDA_PATH=", "CUDA_ROOT="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (size_t k = 0; k < m->config.n_env; k++) {
            const char *entry = m->config.env[k];
            if (starts_with(entry, names[i]) && entry[strlen(names[i])] == '/') {
                const char *name = arena_strndup(m->arena, names[i], strlen(names[i]) - 1);
                add_toolkit(m, entry + strlen(names[i]), name, ret);
            }
        }
    }
}

void model_find_toolkits(struct model *m, model_toolkits *ret, const char **ret_why)
{
    static const char *const parents[] = {"/usr/local", "/opt", "/usr/lib"};
    *ret = (model_toolkits){0};
    *ret_why = NULL;
    add_named(m, ret);
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++) {
        struct root_dir list;
        int rc = root_list(m->root, m->arena, parents[i], FOLDERS_MAX, NULL, &list);
        if (rc < 0 && rc != -ENOENT && rc != -ENOTDIR) {
            *ret_why = arena_printf(m->arena, "%s: %s", parents[i], why_not(rc));
        }
        for (size_t k = 0; rc == 0 && k < list.n; k++) {
            if (strcmp(list.names[k], "cuda") == 0 || starts_with(list.names[k], "cuda-")) {
                add_toolkit(m, path_join(m->arena, parents[i], list.names[k]), NULL, ret);
            }
        }
    }
    struct stat st;
    if (m->env && m->env->kind == PY_ENV_CONDA &&
        root_stat(m->root, path_join(m->arena, m->env->prefix, "bin/nvcc"), &st) == 0) {
        add_toolkit(m, m->env->prefix, NULL, ret);
    }
}
