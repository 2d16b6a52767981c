/*
 * A driver whose libcuda is in none of the usual places, and which the target's programs find all
 * the same: by LD_LIBRARY_PATH, or in a folder of their own. host_judge() knows the machine alone,
 * so that it calls such a GPU unusable.
 */
#include <string.h>

#include "diag/internal.h"
#include "host/parse.h"

/* Whether dlopen("libcuda.so.1") by the program ends at the library of the loaded module. */
static bool finds_own(struct diag *d, const struct model_process *p, const char *driver)
{
    struct gm_err err;
    struct ldso_process *again = ldso_process_new(d->m->store, d->a, &p->ldso->config);
    struct str version;
    if (ldso_start(again, p->ldso->main->path, &err) < 0 ||
        !ldso_dlopen(again, NULL, "libcuda.so.1", LDSO_NOW)) {
        return false;
    }
    const struct ldso_object *o = ldso_find_object(again, "libcuda.so.1");
    const char *real = o ? model_real_path(d->m, o->path) : NULL;
    return real && host_parse_so_version(str_of(path_base(real)), &version) &&
           str_is(version, driver);
}

static bool all_find_own(struct diag *d)
{
    const char *driver = diag_driver(d);
    size_t n = 0;
    for (size_t i = 0; driver && i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        bool starts = p->ldso && !p->ldso->is_static && !p->ldso->start_failed;
        if (!starts) {
            continue;
        }
        if (i > 0 && d->m->processes.items[i - 1]->ldso && n > 0 &&
            strcmp(d->m->processes.items[i - 1]->ldso->main->path, p->ldso->main->path) == 0) {
            continue; // the same program in the same environment
        }
        if (!finds_own(d, p, driver)) {
            return false;
        }
        n++;
    }
    return n > 0;
}

static bool is_libcuda_problem(const struct host_problem *p)
{
    return strcmp(p->id, "no-libraries") == 0 && p->state == HOST_NO;
}

static bool has_libcuda_problem(const struct host *h)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        for (size_t k = 0; k < g->problems.n && strcmp(g->kind, "pci") == 0; k++) {
            if (is_libcuda_problem(&g->problems.items[k])) {
                return true;
            }
        }
    }
    return false;
}

static void without_problem(struct diag *d, struct host_gpu *g)
{
    const struct host_gpu was = *g;
    memset(&g->problems, 0, sizeof g->problems);
    for (size_t i = 0; i < was.problems.n; i++) {
        if (!is_libcuda_problem(&was.problems.items[i])) {
            VEC_PUSH(d->a, &g->problems, was.problems.items[i]);
        }
    }
    g->usable = g->problems.n ? g->problems.items[0].state : HOST_YES; // as host_judge() does
}

void diag_see_own_libcuda(struct diag *d)
{
    const struct host *h = d->m->host;
    if (!h || d->m->host_elsewhere || !has_libcuda_problem(h) || !all_find_own(d)) {
        return;
    }
    struct host *seen = host_copy(h, d->a);
    for (size_t i = 0; i < seen->gpus.n; i++) {
        without_problem(d, &seen->gpus.items[i]);
    }
    d->m->host = seen;
}
