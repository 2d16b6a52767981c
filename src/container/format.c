/* The forms of a container: their names, and how each asks for a GPU. */
#include "container/settings.h"

#include <string.h>

static const struct {
    const char *name;
    enum container_way way;
    const char *engine;
} formats[CONTAINER_FORMATS] = {
    [CONTAINER_DOCKER] = {"docker", CONTAINER_BY_TOOLKIT, "docker"},
    [CONTAINER_PODMAN] = {"podman", CONTAINER_BY_NAME, "podman"},
    [CONTAINER_COMPOSE] = {"compose", CONTAINER_BY_TOOLKIT, "docker"},
    [CONTAINER_KUBERNETES] = {"kubernetes", CONTAINER_BY_PLUGIN, NULL},
    [CONTAINER_APPTAINER] = {"apptainer", CONTAINER_BY_FLAG, NULL},
    [CONTAINER_DEPLOYMENT] = {"kubernetes-deployment", CONTAINER_BY_PLUGIN, NULL},
    [CONTAINER_CLAIM] = {"kubernetes-claim", CONTAINER_BY_CLAIM, NULL},
    [CONTAINER_QUADLET] = {"quadlet", CONTAINER_BY_NAME, "podman"},
    [CONTAINER_DEVCONTAINER] = {"devcontainer", CONTAINER_BY_TOOLKIT, "docker"},
    [CONTAINER_ENROOT] = {"enroot", CONTAINER_BY_HOOK, "docker"},
    [CONTAINER_PYXIS] = {"pyxis", CONTAINER_BY_HOOK, "docker"},
    [CONTAINER_INCUS] = {"incus", CONTAINER_BY_DEVICE, NULL},
    [CONTAINER_LXC] = {"lxc", CONTAINER_BY_PARTS, NULL},
    [CONTAINER_NSPAWN] = {"nspawn", CONTAINER_BY_PARTS, NULL},
    [CONTAINER_DOCKERFILE] = {"dockerfile", CONTAINER_BY_NONE, "docker"},
};

const char *container_format_name(enum container_format format)
{
    return formats[format].name;
}

enum container_way container_format_way(enum container_format format)
{
    return formats[format].way;
}

const char *container_format_engine(enum container_format format)
{
    return formats[format].engine;
}

const char *container_format_names(struct arena *a)
{
    const char *list = formats[0].name;
    for (enum container_format i = 1; i < CONTAINER_FORMATS; i++) {
        list = arena_printf(a, "%s, %s", list, formats[i].name);
    }
    return list;
}

bool container_format_find(const char *name, enum container_format *ret)
{
    for (enum container_format i = 0; i < CONTAINER_FORMATS; i++) {
        if (strcmp(formats[i].name, name) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}
