/* Questions about one path. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "model/model.h"

enum { LINKS_MAX = 40 }; // of a path, as in the kernel

const char *model_absolute(struct model *m, const char *path)
{
    return path[0] == '/' ? path : path_join(m->arena, m->config.cwd, path);
}

bool model_is_folder(struct model *m, const char *path)
{
    return ldso_store_get(m->store, path_normal(m->arena, model_absolute(m, path)))->is_dir;
}

const char *model_real_path(struct model *m, const char *path)
{
    char *real = NULL;
    return root_realpath(m->root, m->arena, model_absolute(m, path), &real) == 0 ? real : NULL;
}

void model_compat_note(struct model *m, const char *path, struct host_compat *ret)
{
    host_compat_read(m->root, m->arena, path, ret);
}

const char *model_link_target(struct model *m, const char *path)
{
    char *target = NULL;
    return root_readlink(m->root, m->arena, model_absolute(m, path), &target) == 0 ? target : NULL;
}

const char *model_link_end(struct model *m, const char *path)
{
    const char *at = model_absolute(m, path), *real = model_real_path(m, path);
    if (!model_link_target(m, at)) {
        return path;
    }
    for (int i = 0; !real && i < LINKS_MAX; i++) {
        const char *target = model_link_target(m, at);
        const char *beside = target && target[0] != '/' ? path_dir(m->arena, at) : "";
        const char *next =
            target ? path_normal(m->arena, path_join(m->arena, beside, target)) : NULL;
        struct stat st;
        if (!next || root_lstat(m->root, next, &st) < 0) {
            return at;
        }
        at = next;
    }
    return real ? real : path; // a loop has no end
}

/* Follows links itself: behind a closed folder nothing else does. */
const char *model_denied_at(struct model *m, const char *path)
{
    const char *rest = model_absolute(m, path), *at = "/";
    char *target = NULL;
    for (int links = 0; *rest && links < LINKS_MAX;) {
        size_t n = strcspn(rest, "/");
        const char *name = arena_strndup(m->arena, rest, n);
        rest += n + (rest[n] == '/');
        if (!n || strcmp(name, ".") == 0) {
            continue;
        }
        if (root_access(m->root, at, X_OK) == -EACCES) {
            return at;
        }
        const char *next = path_join(m->arena, at, name);
        if (strcmp(name, "..") == 0) {
            at = path_dir(m->arena, at);
        } else if (root_readlink(m->root, m->arena, next, &target) < 0) {
            at = next;
        } else {
            rest = path_join(m->arena, target, rest);
            at = target[0] == '/' ? "/" : at;
            links++;
        }
    }
    return root_access(m->root, at, R_OK) == -EACCES ? at : NULL;
}
