/* Questions about one path. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "model/model.h"

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

const char *model_denied_at(struct model *m, const char *path)
{
    const char *full = model_real_path(m, path);
    full = full ? full : model_absolute(m, path);
    for (const char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        const char *dir = arena_strndup(m->arena, full, (size_t)(slash - full));
        if (root_access(m->root, dir, X_OK) == -EACCES) {
            return dir;
        }
    }
    return root_access(m->root, full, R_OK) == -EACCES ? full : NULL;
}
