/*
 * Which libcuda a process ends at: a forward-compatibility library that must not be used here, or
 * none although the driver has one.
 */
#include <string.h>

#include "diag/internal.h"
#include "host/parse.h"

const struct ldso_object *diag_libcuda_of(const struct model_process *p)
{
    for (size_t i = 0; p->ldso && i < p->ldso->objects.n; i++) {
        const struct ldso_object *o = p->ldso->objects.items[i];
        if (strcmp(o->soname ? o->soname : path_base(o->path), "libcuda.so.1") == 0) {
            return o;
        }
    }
    return NULL;
}

bool diag_compat_of(struct diag *d, const struct ldso_object *o, struct diag_compat *ret)
{
    const char *real = o ? model_real_path(d->m, o->path) : NULL;
    struct str version;
    if (!real) {
        return false;
    }
    *ret = (struct diag_compat){.path = real};
    model_compat_note(d->m, real, &ret->note);
    if (host_parse_so_version(str_of(path_base(real)), &version)) {
        ret->version = str_dup(d->a, version);
    }
    return host_compat_is(d->m->host, d->a, real, &ret->note);
}

/* ------------------------------------------------------------------ forward compatibility */

/* Whether a kernel ran through this very libcuda. */
static bool has_run(struct diag *d, const char *real)
{
    const char *with = d->m->host ? d->m->host->nvidia.ran_with : NULL;
    const char *found = with ? model_real_path(d->m, with) : NULL;
    return found && strcmp(found, real) == 0;
}

void diag_judge_compat(struct diag *d, const struct model_process *p)
{
    const struct ldso_object *o = diag_libcuda_of(p);
    const struct host_injection *in;
    enum diag_whose whose = diag_whose_libcuda(d, o, &in);
    struct diag_compat c;
    const char *why = NULL;
    if (whose == DIAG_WHOSE_HOST || !diag_compat_of(d, o, &c) || has_run(d, c.path) ||
        host_compat_fits(d->m->host, d->a, c.version, &c.note, &why) != HOST_NO) {
        return;
    }
    struct diag_finding *f = diag_add(
        d, DIAG_FORWARD_COMPAT, c.path, c.path,
        arena_printf(d->a, "%s is a forward-compatibility library that must not be used here: %s.",
                     c.path, why));
    f->stage = DIAG_STAGE_MACHINE;
    diag_seen_in(d, f, p);
    diag_evidence(d, f, "found through %s", diag_via(d, o->via, o->via_object));
    if (c.note.has_note) {
        diag_evidence(d, f, "its note says that it is for CUDA %s",
                      c.note.cuda ? c.note.cuda : "(not stated)");
    }
    if (whose != DIAG_WHOSE_NOT_ASKED) {
        diag_say_precedence(d, f, o, in);
    }
    const char *dir = path_normal(d->a, path_dir(d->a, o->path));
    if (o->via == LDSO_VIA_LIBRARY_PATH && diag_repair_without(d, f, p, dir)) {
        return;
    }
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                "Remove %s from the loader's path (LD_LIBRARY_PATH; /etc/ld.so.conf.d, then "
                "ldconfig), "
                "or remove the package cuda-compat.",
                dir);
}

/* ------------------------------------------------------------------ libcuda is not found */

static bool library_failed(const struct model_process *p, const char *name)
{
    for (size_t i = 0; p->ldso && i < p->ldso->requests.n; i++) {
        const struct ldso_request *r = p->ldso->requests.items[i];
        if (r->outcome == LDSO_NOT_FOUND && strcmp(r->name, name) == 0) {
            return true;
        }
    }
    return false;
}

static const struct host_library *driver_library(const struct host *h)
{
    const struct host_library *own = host_own_libcuda(h);
    return own ? own : h->wsl.libcuda.path ? &h->wsl.libcuda : NULL;
}

/* Whether there is a GPU of NVIDIA of which nothing says that it cannot be used. */
static bool may_be_used(const struct host *h)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        if (h->gpus.items[i].vendor == HOST_NVIDIA && h->gpus.items[i].usable != HOST_NO) {
            return true;
        }
    }
    return false;
}

/* The driver is in order, and its library is where this program does not look. In an image it is
 * where the engine will put it. */
void diag_judge_not_on_path(struct diag *d, const struct model_process *p)
{
    const struct host *h = d->m->host;
    const struct host_library *lib = d->m->host_elsewhere ? NULL : driver_library(h);
    if (!lib || !may_be_used(h) || diag_libcuda_of(p) || !library_failed(p, "libcuda.so.1")) {
        return;
    }
    const char *dir = path_dir(d->a, lib->path);
    struct diag_finding *f =
        diag_add(d, DIAG_DRIVER_LIBRARY_NOT_ON_PATH, dir, "libcuda.so.1",
                 arena_printf(d->a,
                              "The driver's libcuda.so.1 is in %s, which the loader does "
                              "not search.",
                              dir));
    bool wsl = h->wsl.is_wsl.state == HOST_YES;
    f->class = wsl ? "wsl-specific" : f->class;
    f->stage = DIAG_STAGE_MACHINE;
    diag_seen_in(d, f, p);
    diag_evidence(d, f, "the driver's library is %s", lib->path);
    const char *old = diag_getenv(d, "LD_LIBRARY_PATH");
    const struct model_process *tried =
        diag_replay(d, p, old && *old ? arena_printf(d->a, "%s:%s", dir, old) : dir);
    if (tried && diag_libcuda_of(tried)) {
        diag_repair(d, f, DIAG_REPAIR_ENV, diag_prepend_command(d, dir),
                    "Set LD_LIBRARY_PATH before the program starts (tried in the model: it is then "
                    "found).");
    }
    diag_repair(d, f, DIAG_REPAIR_FILE,
                arena_printf(d->a,
                             "echo %s | sudo tee /etc/ld.so.conf.d/nvidia-driver.conf && "
                             "sudo "
                             "ldconfig",
                             diag_quote(d, dir)),
                "Name the folder to the loader for all programs.");
}
