/* How a thing gets into the settings that are being made. */
#include "container/internal.h"

#include <string.h>

#include "base/env.h"

void container_add(struct container_work *w, container_items *list, const char *value,
                   const char *reason)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i].value, value) == 0) {
            return;
        }
    }
    VEC_PUSH(w->a, list, (struct container_item){value, reason});
}

void container_note(struct container_work *w, const char *text)
{
    for (size_t i = 0; i < w->s->notes.n; i++) {
        if (strcmp(w->s->notes.items[i], text) == 0) {
            return;
        }
    }
    VEC_PUSH(w->a, &w->s->notes, text);
}

/* What a form can hold as a value: devcontainer.json replaces variables and knows no way to write
 * "${" itself. */
static bool can_hold(const struct container_work *w, const char *value)
{
    return str_is_seen(value) && !(w->q->format == CONTAINER_DEVCONTAINER && strstr(value, "${"));
}

const char *container_own_value(struct container_work *w, const char *name)
{
    const struct model *m = w->q->model;
    const char *value = env_value(m->config.env, m->config.n_env, name);
    if (value && !can_hold(w, value)) {
        container_note(w, arena_printf(w->a,
                                       "The image sets %s to a value that %s cannot hold: the "
                                       "value is left out.",
                                       name, container_format_name(w->q->format)));
        return NULL;
    }
    return value;
}

void container_set(struct container_work *w, const char *name, const char *value,
                   const char *reason)
{
    if (!can_hold(w, value)) {
        container_note(
            w, arena_printf(w->a,
                            "%s is left out: a path in the image has characters that %s cannot "
                            "hold.",
                            name, container_format_name(w->q->format)));
        return;
    }
    container_add(w, &w->s->env, arena_printf(w->a, "%s=%s", name, value), reason);
}

bool container_uses_package(const struct model *m, const char *const *names, size_t n,
                            const char **ret)
{
    for (size_t i = 0; m->env && i < m->env->n_dists; i++) {
        for (size_t k = 0; k < n; k++) {
            if (strcmp(m->env->dists[i].name, names[k]) == 0) {
                *ret = names[k];
                return true;
            }
        }
    }
    return false;
}
