/* Other start environments, tried in the model, and the words of a shell that make them. */
#include <string.h>

#include "diag/internal.h"

const struct model_process *diag_replay(struct diag *d, const struct model_process *p,
                                        const char *library_path)
{
    VEC(const char *) env = {0};
    for (size_t i = 0; i < d->m->config.n_env; i++) {
        if (!starts_with(d->m->config.env[i], "LD_LIBRARY_PATH=")) {
            VEC_PUSH(d->a, &env, d->m->config.env[i]);
        }
    }
    if (*library_path) {
        VEC_PUSH(d->a, &env, arena_printf(d->a, "LD_LIBRARY_PATH=%s", library_path));
    }
    return model_try(d->m, p, env.items, env.n);
}

const char *diag_path_without(struct diag *d, const char *dir)
{
    const char *out = "";
    for (struct str rest = str_of(diag_getenv(d, "LD_LIBRARY_PATH")); rest.s;) {
        const char *element = str_dup(d->a, str_cut(&rest, ':'));
        if (*element && strcmp(path_normal(d->a, model_absolute(d->m, element)), dir) != 0) {
            out = arena_printf(d->a, "%s%s%s", out, *out ? ":" : "", element);
        }
    }
    return out;
}

/* ------------------------------------------------------------------ a folder too many */

static bool loads_stub(const struct model_process *p)
{
    for (size_t i = 0; i < p->ldso->objects.n; i++) {
        if (strstr(p->ldso->objects.items[i]->path, "/stubs/")) {
            return true;
        }
    }
    return false;
}

bool diag_repair_without(struct diag *d, struct diag_finding *f, const struct model_process *p,
                         const char *dir)
{
    struct diag_failure *left = NULL;
    const char *path = diag_path_without(d, dir);
    const struct model_process *tried = diag_replay(d, p, path);
    if (!tried || diag_failures(d, tried, &left) || diag_cudnn_is_mixed(d, tried) ||
        loads_stub(tried)) {
        return false;
    }
    diag_repair(d, f, DIAG_REPAIR_ENV, diag_path_command(d, path),
                "Start the program without %s in LD_LIBRARY_PATH (tried in the model).", dir);
    return true;
}
