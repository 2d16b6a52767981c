#include "kb/package.h"

#include <string.h>

enum kb_manager kb_manager_of(enum host_manager manager)
{
    static const enum kb_manager own[HOST_MANAGERS] = {
        [HOST_MANAGER_NONE] = KB_MANAGER_DRIVER,
        [HOST_APT] = KB_MANAGER_APT,
        [HOST_DNF] = KB_MANAGER_DNF,
        [HOST_MICRODNF] = KB_MANAGER_DNF,
        [HOST_YUM] = KB_MANAGER_DNF,
        [HOST_ZYPPER] = KB_MANAGER_ZYPPER,
        [HOST_PACMAN] = KB_MANAGER_PACMAN,
        [HOST_APK] = KB_MANAGER_APK,
    };
    return own[manager];
}

const struct kb_provider *kb_package_of(const struct kb_package *row, enum kb_manager manager)
{
    for (size_t i = 0; i < row->n_providers; i++) {
        if (row->providers[i].manager == manager) {
            return &row->providers[i];
        }
    }
    return NULL;
}

const struct kb_provider *kb_package_by_id(struct kb *kb, const char *id, enum kb_manager manager)
{
    struct kb_packages list;
    struct gm_err err;
    if (kb_packages(kb, &list, &err) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < list.n; i++) {
        if (strcmp(list.rows[i].id, id) == 0) {
            return kb_package_of(&list.rows[i], manager);
        }
    }
    return NULL;
}

bool kb_package_is_known(struct kb *kb, const char *name, enum kb_manager manager)
{
    struct kb_packages list;
    struct gm_err err;
    if (kb_packages(kb, &list, &err) < 0) {
        return false;
    }
    for (size_t i = 0; i < list.n; i++) {
        const struct kb_provider *v = kb_package_of(&list.rows[i], manager);
        if (v && strcmp(v->package, name) == 0) {
            return true;
        }
    }
    return false;
}
