#include "model/replay.h"

#include "model/orders.h"

struct model_process *model_try(struct model *m, const struct model_process *p,
                                const char *const *env, size_t n_env)
{
    struct model other = *m;
    other.config.env = env;
    other.config.n_env = n_env;
    return model_again(&other, p);
}

bool model_replay(const struct model *m, const struct model_change *change, const bool *only,
                  struct model_replayed *ret)
{
    if (m->pid) {
        return false;
    }
    ret->model = *m;
    struct model *other = &ret->model;
    other->processes.items = NULL;
    other->processes.n = other->processes.cap = 0;
    other->change = change;
    if (change->env) {
        other->config.env = change->env;
        other->config.n_env = change->n_env;
    }
    if (change->cpu) {
        other->config.cpu = change->cpu;
    }
    if (change->overlay) {
        ldso_store_layer(&ret->store, m->store, change->overlay);
        other->store = &ret->store;
    }
    for (size_t i = 0; i < m->processes.n; i++) {
        struct model_process *p =
            only && !only[i] ? NULL : model_again(other, m->processes.items[i]);
        if (p) {
            VEC_PUSH(other->arena, &other->processes, p);
        }
    }
    return true;
}

struct model_process *model_again(struct model *m, const struct model_process *p)
{
    if (m->pid || !p->ldso) {
        return NULL;
    }
    struct model_process *out = model_new_process(m, (const char *const *)p->script, p->n_script);
    out->again_of = p;
    out->group = p->group;
    out->order = p->order;
    out->n_order = p->n_order;
    out->part_of = p->part_of;
    if (m->env) {
        model_run_script(m, out, &m->config);
    } else {
        model_run_file(m, out, &m->config);
    }
    return out->ldso ? out : NULL;
}
