/* What the judges ask of the facts: variables, and GPUs that count. */
#include "host/internal.h"

#include <string.h>

#include "base/env.h"
#include "host/names.h"

const char *host_variable(const struct host *h, const char *name)
{
    for (size_t i = 0; i < h->variables.n; i++) {
        if (strcmp(h->variables.items[i].name, name) == 0) {
            return h->variables.items[i].value;
        }
    }
    return NULL;
}

void host_set_variable(struct host *h, struct arena *a, struct host_setting x)
{
    for (size_t i = 0; i < h->variables.n; i++) {
        if (strcmp(h->variables.items[i].name, x.name) == 0) {
            h->variables.items[i].value = x.value;
            return;
        }
    }
    VEC_PUSH(a, &h->variables, x);
}

void host_set_environment(struct host *h, struct arena *a, const char *const *env, size_t n,
                          bool whole)
{
    if (whole) {
        h->variables.n = 0;
        h->environment = host_yes("the start environment", NULL);
    }
    for (const char *const *name = host_variables; *name; name++) {
        for (size_t i = 0; i < n; i++) {
            const char *value = env_value_of(env[i], *name);
            if (value) {
                host_set_variable(h, a, (struct host_setting){*name, value});
            }
        }
    }
}

static bool is_among(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

void host_unset(struct host *h, const char *const *names, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < h->variables.n; i++) {
        if (!is_among(names, n, h->variables.items[i].name)) {
            h->variables.items[kept++] = h->variables.items[i];
        }
    }
    h->variables.n = kept;
}

/* Graphics that are part of the processor are there whether anybody computes with them or not. */
bool host_gpu_counts(const struct host_gpu *g)
{
    const struct host_gfx *target = g->gfx.state == HOST_YES ? host_gfx(g->gfx.value) : NULL;
    return !g->integrated || strcmp(g->kind, "pci") != 0 || (target && target->official);
}
