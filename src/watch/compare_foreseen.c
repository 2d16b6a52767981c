/* The lookups that were foreseen before the start, compared with those that were made. */
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

#include "watch/compare.h"
#include "watch/compared.h"

static bool same_file(const char *a, const char *b)
{
    struct stat one, other;
    return strcmp(a, b) == 0 || (stat(a, &one) == 0 && stat(b, &other) == 0 &&
                                 one.st_dev == other.st_dev && one.st_ino == other.st_ino);
}

/* The same request as the program made it: the program itself is known by its file, without links.
 */
static const struct watch_load *made_by(const struct watch_process *p, const struct ldso_process *m,
                                        const struct ldso_load *load)
{
    const char *caller = load->caller == m->main ? p->exe : load->caller->path;
    for (size_t k = 0; k < p->loads.n && k < LOADS_MAX; k++) {
        const struct watch_load *l = &p->loads.items[k];
        const char *from = l->caller ? l->caller : l->loader_caller;
        if (watch_load_is_compared(l) && from && strcmp(l->name, load->name) == 0 &&
            same_file(from, caller)) {
            return l;
        }
    }
    return NULL;
}

static const struct watch_load *made_load(const struct watch_trace *t, const struct ldso_process *m,
                                          const struct ldso_load *load,
                                          const struct watch_process **ret)
{
    const struct watch_load *found = NULL;
    for (size_t i = 0; i < t->processes.n && i < PROCESSES_MAX && !found; i++) {
        const struct watch_process *p = t->processes.items[i];
        if (p->exe && same_file(p->exe, m->main->path)) {
            found = made_by(p, m, load);
            *ret = p;
        }
    }
    return found;
}

/* Whether one of the scripts has this request end as seen. */
static bool foreseen_so(const struct model *m, const struct ldso_load *load,
                        const struct watch_load *l)
{
    const struct watch_answer seen = watch_load_seen(l);
    for (size_t i = 0; i < m->processes.n; i++) {
        const struct ldso_process *p = m->processes.items[i]->ldso;
        for (size_t k = 0; p && k < p->loads.n; k++) {
            const struct ldso_load *other = &p->loads.items[k];
            const struct watch_answer answer = watch_model_answer(other);
            if (strcmp(other->name, load->name) == 0 &&
                strcmp(other->caller->path, load->caller->path) == 0 &&
                watch_answer_is_same(&answer, &seen)) {
                return true;
            }
        }
    }
    return false;
}

static bool name_is_told(const struct watch_comparison *c, const struct watch_process *p,
                         const char *name)
{
    for (size_t i = 0; i < c->differences.n; i++) {
        const struct watch_difference *d = &c->differences.items[i];
        if (d->process == p &&
            (strcmp(d->name, name) == 0 ||
             watch_compare_list_has_path(d->likewise.items, d->likewise.n, name))) {
            return true;
        }
    }
    return false;
}

/* The same dlopens in the order that was seen end in the model as they did (else there is a
 * difference already): what the program had loaded before decides. */
static void tell_order(struct compared *c, const struct watch_process *p,
                       const struct watch_load *l, const struct watch_answer *model)
{
    struct watch_difference d = {.process = p,
                                 .name = l->name,
                                 .time_us = l->time_us,
                                 .caller = l->caller ? l->caller : l->loader_caller,
                                 .seen = watch_load_seen(l),
                                 .model = *model};
    d.only_told = d.seen.found;
    d.cause = d.seen.found && !model->found ? "import-order" : NULL;
    d.summary =
        arena_printf(c->a,
                     "check foresees of %s that %s; %s, because of what this "
                     "program had "
                     "loaded before.",
                     l->name, watch_compare_ends_at(c, model), watch_compare_ends_at(c, &d.seen));
    SAY(c, &d, "the dlopens in the order that was seen end in the model as they did");
    watch_compare_add_difference(c, &d);
}

static void judge_foreseen(struct compared *c, const struct watch_trace *t, const struct model *m,
                           const struct ldso_process *model, const struct ldso_load *load)
{
    const struct watch_process *p = NULL;
    const struct watch_load *l = made_load(t, model, load, &p);
    const struct watch_answer answer = watch_model_answer(load);
    if (!l) {
        c->ret->n_not_made++;
        return;
    }
    c->ret->n_foreseen++;
    if (foreseen_so(m, load, l)) {
        c->ret->n_as_foreseen++;
    } else if (!name_is_told(c->ret, p, l->name)) {
        tell_order(c, p, l, &answer);
    }
}

/* Whether an earlier script, or an earlier load of this one, has the same request. */
static bool seen_before(const struct model *m, size_t process, size_t at,
                        const struct ldso_load *load)
{
    for (size_t i = 0; i <= process; i++) {
        const struct ldso_process *p = m->processes.items[i]->ldso;
        for (size_t k = 0; p && k < (i == process ? at : p->loads.n); k++) {
            const struct ldso_load *other = &p->loads.items[k];
            if (strcmp(other->name, load->name) == 0 &&
                strcmp(other->caller->path, load->caller->path) == 0) {
                return true;
            }
        }
    }
    return false;
}

void watch_compare_foreseen(const struct watch_trace *t, struct arena *a, const struct model *m,
                            struct watch_comparison *ret)
{
    struct compared c = {.a = a, .ret = ret};
    for (size_t i = 0; i < m->processes.n && !ret->n_lost; i++) {
        const struct ldso_process *p = m->processes.items[i]->ldso;
        for (size_t k = 0; p && k < p->loads.n; k++) {
            if (!seen_before(m, i, k, &p->loads.items[k])) {
                judge_foreseen(&c, t, m, p, &p->loads.items[k]);
            }
        }
    }
}
