/* What the model says of the lookups of a traced process, asked in the order of the trace. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "watch/compare.h"
#include "watch/compared.h"

enum { REPLAYED_MAX = 200000 };

static const char *const *environment(struct compared *c, const struct watch_process *p,
                                      const struct circumstances *how, size_t *ret_n)
{
    const char **env = arena_array(c->a, p->env.n + 1, sizeof *env);
    size_t n = 0;
    for (size_t i = 0; i < p->env.n; i++) {
        bool path = starts_with(p->env.items[i], "LD_LIBRARY_PATH=");
        if (!path || !(how->path_set || how->path_unset)) {
            env[n++] = p->env.items[i];
        }
    }
    if (how->path_set) {
        env[n++] = arena_printf(c->a, "LD_LIBRARY_PATH=%s", how->path_set);
    }
    *ret_n = n;
    return env;
}

static int by_order(const void *a, const void *b)
{
    const struct watch_load *const *one = a, *const *other = b;
    return ((*one)->at > (*other)->at) - ((*one)->at < (*other)->at);
}

/* Those of a process that were done before, after what it had at its fork. */
static void gather_before(struct compared *c, const struct watch_process *p, uint64_t before,
                          unsigned depth, load_list *ret)
{
    if (p->fork_of && depth < PROCESSES_MAX) {
        gather_before(c, p->fork_of, before < p->fork_at ? before : p->fork_at, depth + 1, ret);
    }
    for (size_t i = 0; i < p->loads.n; i++) {
        if (p->loads.items[i].at <= before) {
            VEC_PUSH(c->a, ret, &p->loads.items[i]);
        }
    }
}

/* In the order in which the loader worked on them. */
static void gather(struct compared *c, const struct watch_process *p, struct replayed *r)
{
    if (p->fork_of) {
        gather_before(c, p->fork_of, p->fork_at, 0, &r->loads);
    }
    r->n_inherited = r->loads.n;
    for (size_t i = 0; i < p->loads.n; i++) {
        VEC_PUSH(c->a, &r->loads, &p->loads.items[i]);
    }
    if (r->loads.n) {
        qsort(r->loads.items, r->loads.n, sizeof *r->loads.items, by_order);
    }
    r->loads.n = r->loads.n < LOADS_MAX ? r->loads.n : LOADS_MAX;
}

bool watch_compare_closed_before(const struct watch_process *p, uint64_t before, const char *path)
{
    for (size_t i = 0; path && i < p->closes.n && p->closes.items[i].at < before; i++) {
        const char *closed = p->closes.items[i].path;
        if (!closed || strcmp(closed, path) == 0) {
            return true;
        }
    }
    return path && p->fork_of &&
           watch_compare_closed_before(p->fork_of, before < p->fork_at ? before : p->fork_at, path);
}

bool watch_compare_any_closed_before(const struct watch_process *p, uint64_t before)
{
    for (; p; before = before < p->fork_at ? before : p->fork_at, p = p->fork_of) {
        if (p->closes.n && p->closes.items[0].at < before) {
            return true;
        }
    }
    return false;
}

bool watch_load_is_compared(const struct watch_load *l)
{
    return !l->unknown && l->name && l->name[0] && l->space == 0 && !(l->flags & WATCH_NOLOAD);
}

struct watch_answer watch_model_answer(const struct ldso_load *l)
{
    struct watch_answer answer = {.known = l != NULL};
    if (l && (l->outcome == LDSO_LOADED || l->outcome == LDSO_REUSED)) {
        answer.found = true;
        answer.path = l->object ? l->object->path : l->path;
    }
    return answer;
}

static struct watch_answer replayed_ask(struct replayed *r, const struct watch_load *l,
                                        const struct circumstances *how)
{
    const char *from = how->as_the_loader || !l->caller ? l->loader_caller : l->caller;
    struct ldso_object *caller = from ? ldso_find_object(r->model, from) : NULL;
    unsigned mode =
        (l->flags & RTLD_NOW ? LDSO_NOW : 0u) | (l->flags & RTLD_GLOBAL ? LDSO_GLOBAL_SCOPE : 0u);
    if (!watch_load_is_compared(l) || !caller) {
        return (struct watch_answer){.known = false};
    }
    return watch_model_answer(ldso_dlopen(r->model, caller, l->name, mode));
}

bool watch_compare_replay(struct compared *c, const struct watch_process *p,
                          const struct circumstances *how, size_t n, struct replayed *ret,
                          struct gm_err *err)
{
    struct ldso_config config = {.cwd = p->cwd, .uid = getuid()};
    if (c->n_replayed > REPLAYED_MAX) {
        return gm_err_set(err, GM_ERR_LIMIT, "there are too many dlopens"), false;
    }
    *ret = (struct replayed){.model = NULL};
    config.env = environment(c, p, how, &config.n_env);
    struct ldso_process *model = ldso_process_new(&c->store, c->a, &config);
    if (!p->exe || !p->cwd || ldso_start(model, p->exe, err) < 0) {
        return false;
    }
    ret->model = model;
    gather(c, p, ret);
    n = n < ret->loads.n ? n : ret->loads.n;
    c->n_replayed += n;
    ret->answers = arena_array(c->a, n + 1, sizeof *ret->answers);
    ret->objects_before = arena_array(c->a, n + 2, sizeof *ret->objects_before);
    for (size_t i = 0; i < n; i++) {
        ret->objects_before[i] = model->objects.n;
        ret->answers[i] = replayed_ask(ret, ret->loads.items[i], how);
    }
    ret->objects_before[n] = model->objects.n;
    return true;
}
