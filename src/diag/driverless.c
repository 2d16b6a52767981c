/*
 * A machine without a GPU of NVIDIA: most builds for CUDA are imported there all the same, as they
 * open the driver's library by its name. One with libcuda.so.1 among its DT_NEEDED is not. Releases
 * that crash when they find no driver have a file of their own (ends.c).
 */
#include <string.h>

#include "diag/internal.h"

/* The import that a load belongs to; NULL: it is none's, or one that may fail. */
static const struct model_attempt *import_of(const struct model_process *p, int load)
{
    for (size_t i = 0; i < p->attempts.n; i++) {
        const struct model_attempt *at = &p->attempts.items[i];
        if (at->failed && at->required && at->phase == MODEL_IMPORT &&
            at->source != MODEL_FROM_GUESS && (size_t)load >= at->first_load &&
            (size_t)load < at->first_load + at->n_loads) {
            return at;
        }
    }
    return NULL;
}

const struct ldso_request *diag_driver_at_import(struct diag *d, const struct model_process *p,
                                                 const struct model_attempt **ret_attempt)
{
    for (size_t i = 0; p->ldso && i < p->ldso->requests.n; i++) {
        const struct ldso_request *r = p->ldso->requests.items[i];
        if (r->kind != LDSO_NEEDED || r->outcome != LDSO_NOT_FOUND ||
            !diag_is_driver_library(d, r->name)) {
            continue;
        }
        *ret_attempt = r->load < 0 ? NULL : import_of(p, r->load);
        if (r->load < 0 || *ret_attempt) {
            return r;
        }
    }
    return NULL;
}

/* What a GPU that is there lacks is said of the GPU. */
static bool has_no_gpu(const struct model *m)
{
    const struct host *h = m->pid ? NULL : m->host;
    return h && h->pci.state != HOST_UNKNOWN && !diag_has_gpu_of(h, HOST_NVIDIA);
}

static void add_repairs(struct diag *d, struct diag_finding *f, const char *package)
{
    if (d->m->host->wsl.is_wsl.state == HOST_YES) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "If Windows has a GPU of NVIDIA, install its driver there, and start the "
                    "container, if this is one, with the GPU.");
    } else if (d->m->host->container.inside.state == HOST_YES) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Start the container with the GPU, on a host that has one.");
    } else {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Start it on a machine that has a GPU of NVIDIA and its driver.");
    }
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Install a build of %s for the CPU here.",
                package ? package : "the program");
}

static void add_finding(struct diag *d, const struct model_process *p, const struct ldso_request *r,
                        const struct model_attempt *at)
{
    const struct diag_failure x = {
        .process = p, .attempt = at, .request = r, .name = r->name, .says = r->glibc_says};
    struct diag_finding *f = diag_add(
        d, DIAG_LIBRARY_MISSING, arena_printf(d->a, "driverless|%s", diag_caller(&x)), r->name, "");
    if (!f->repairs.n) {
        const struct host *h = d->m->host;
        bool inside = h->container.inside.state == HOST_YES;
        f->summary = arena_printf(
            d->a, "%s cannot be %s %s: it needs %s, and %s.", diag_asker(d, &x),
            at ? "imported" : "started", inside ? "in this container" : "on this machine", r->name,
            h->wsl.is_wsl.state == HOST_YES
                ? "WSL shows neither a GPU of NVIDIA nor a driver" // Windows may have one
                : "there is no GPU of NVIDIA and no driver");
        diag_failure_evidence(d, f, &x);
        add_repairs(d, f, at ? at->package : NULL);
    }
    diag_seen_in(d, f, p);
    diag_stops(d, f, &x);
}

/* ------------------------------------------------------------------ the rule */

/* An image may be meant for another host than the one that it is judged on. */
static void note_host(struct diag *d, const struct ldso_request *r)
{
    if (!d->unsure) {
        VEC_PUSH(
            d->a, &d->report->notes,
            arena_printf(d->a,
                         "%s needs %s of NVIDIA's driver as soon as it is loaded, and a "
                         "container gets that only from a host with the GPU: this one has none",
                         path_base(r->caller->path), r->name));
    }
    d->unsure = true;
}

bool diag_is_driverless(struct diag *d, const struct model_process *p)
{
    const struct model_attempt *at;
    return has_no_gpu(d->m) && diag_driver_at_import(d, p, &at);
}

void diag_rule_driverless(struct diag *d)
{
    for (size_t i = 0; has_no_gpu(d->m) && i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        const struct model_attempt *at = NULL;
        const struct ldso_request *r = diag_driver_at_import(d, p, &at);
        if (r && d->m->host_elsewhere) {
            note_host(d, r);
        } else if (r) {
            add_finding(d, p, r, at);
        }
    }
}
