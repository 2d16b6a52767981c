/*
 * What a process makes of the NVIDIA driver: which CUDA runtime it loads, and whether the driver
 * serves it.
 */
#include <stdlib.h>
#include <string.h>

#include "diag/internal.h"
#include "host/parse.h"
#include "kb/serves.h"
#include "model/gpu.h"
#include "model/package.h"
#include "py/dist.h"

/* ------------------------------------------------------------------ which runtime */

/* A library of the CUDA toolkit tells the major version by its name. */
static const char *const runtime_libraries[] = {"libcudart.so.", "libcublas.so.", "libcublasLt.so.",
                                                "libnvrtc.so."};

struct runtime {
    const char *version; // "12", "11.0", "12.4"
    uint64_t major;
    const char *from; // a clause: where the version was read
    const struct model_process *process;
};

static bool driver_major(const char *version, uint64_t *ret)
{
    struct str rest = str_of(version);
    return str_u64(str_cut(&rest, '.'), ret);
}

static bool runtime_of_name(const struct model_process *p, const char *name, struct runtime *ret)
{
    for (size_t i = 0; i < sizeof runtime_libraries / sizeof *runtime_libraries; i++) {
        if (starts_with(name, runtime_libraries[i])) {
            const char *version = name + strlen(runtime_libraries[i]);
            *ret = (struct runtime){.version = version, .process = p};
            return driver_major(version, &ret->major);
        }
    }
    return false;
}

static bool runtime_of(struct diag *d, const struct model_process *p, const struct ldso_object *o,
                       struct runtime *ret)
{
    if (!runtime_of_name(p, o->soname ? o->soname : path_base(o->path), ret)) {
        return false;
    }
    ret->from = arena_printf(d->a, "%s is loaded", o->path);
    return true;
}

/* Whether it asks for the runtime, which may be missing. */
static bool needs_runtime(const struct ldso_object *o)
{
    for (size_t i = 0; o->file && i < o->file->image.n_needs; i++) {
        if (starts_with(o->file->image.needs[i].name, "libcudart")) {
            return true;
        }
    }
    return false;
}

/* A framework's library that has the CUDA runtime within itself. nvcc writes PTX of its own
 * release's ISA (its manual, "PTX generation"; PTX ISA, "Release Notes"), and its runtime is linked
 * in: the newest PTX tells the least CUDA that this may be. */
static bool runtime_within(struct diag *d, const struct model_process *p,
                           const struct ldso_object *o, struct runtime *ret)
{
    const struct gpu_code *code = diag_cuda_library_package(o->path) && !needs_runtime(o)
                                      ? model_gpu_code(d->m, o, GPU_READ_SECTIONS)
                                      : NULL;
    unsigned isa = 0;
    for (size_t i = 0; code && i < code->cuda.n_ptx; i++) {
        isa = code->cuda.ptx[i].isa_max > isa ? code->cuda.ptx[i].isa_max : isa;
    }
    const struct kb_driver *toolkit = isa ? kb_driver_of_isa(d->m->kb, isa) : NULL;
    if (!toolkit) {
        return false;
    }
    struct str rest = str_of(toolkit->cuda);
    *ret = (struct runtime){.version = str_dup(d->a, str_cut(&rest, '.')), .process = p};
    ret->from = arena_printf(d->a,
                             "%s has the CUDA runtime within itself, and PTX of ISA %u.%u, that of "
                             "CUDA %s",
                             path_normal(d->a, o->path), isa / 10, isa % 10, toolkit->cuda);
    return driver_major(ret->version, &ret->major);
}

/* ------------------------------------------------------------------ the driver's floor */

/* The oldest driver for this CUDA; NULL: not known, as for a release before 11 without its minor
 * number. */
static const struct kb_driver *floor_of(struct diag *d, const struct runtime *x)
{
    struct kb_drivers drivers;
    struct gm_err err;
    bool named = x->major >= 11 || strchr(x->version, '.');
    return named && kb_drivers(d->m->kb, &drivers, &err) == 0
               ? kb_driver_floor(&drivers, x->version)
               : NULL;
}

const char *diag_driver_of(struct diag *d, const struct model_process *p)
{
    const char *driver = diag_driver(d), *why;
    const struct host_injection *in;
    struct diag_compat c;
    if (!driver || diag_whose_libcuda(d, diag_libcuda_of(p), &in) == DIAG_WHOSE_HOST ||
        !diag_compat_of(d, diag_libcuda_of(p), &c)) {
        return driver;
    }
    switch (host_compat_fits(d->m->host, d->a, c.version, &c.note, &why)) {
    case HOST_YES: return c.version;
    case HOST_NO: return driver; // a finding of its own
    case HOST_UNKNOWN: break;
    }
    return NULL;
}

unsigned diag_ptx_isa_of(struct diag *d, const struct model_process *p)
{
    const struct host *h = d->m->host;
    const char *driver = diag_driver_of(d, p);
    struct diag_compat c;
    if (driver || !h || !host_has_tegra_alone(h) || diag_compat_of(d, diag_libcuda_of(p), &c)) {
        return diag_ptx_isa(d, driver);
    }
    return kb_isa_of_cuda(d->m->kb, host_l4t_cuda(h));
}

/* ------------------------------------------------------------------ too old */

static bool serves_last(struct diag *d, const struct kb_driver *row, const struct host_gpu *g)
{
    const struct host_fact *capability = &g->compute_capability;
    if (row->kind != KB_DRIVER_LAST || g->vendor != HOST_NVIDIA || capability->state != HOST_YES) {
        return false;
    }
    struct str minor = str_of(capability->value), major = str_cut(&minor, '.');
    const char *sm =
        arena_printf(d->a, "sm_%.*s%.*s", (int)major.n, major.s, (int)minor.n, minor.s);
    for (size_t i = 0; i < row->sm.n; i++) {
        if (strcmp(row->sm.items[i], sm) == 0) {
            return true;
        }
    }
    return false;
}

/* The last branch for a GPU here that is older than the driver asked for, or NULL. */
static const struct kb_driver *ends_before(struct diag *d, const char *driver_min)
{
    const struct host *h = d->m->host;
    struct kb_drivers drivers;
    struct gm_err err;
    if (kb_drivers(d->m->kb, &drivers, &err) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < h->gpus.n; i++) {
        for (size_t k = 0; k < drivers.n; k++) {
            const struct kb_driver *row = &drivers.rows[k];
            if (serves_last(d, row, &h->gpus.items[i]) && atoi(driver_min) > atoi(row->linux_min)) {
                return row;
            }
        }
    }
    return NULL;
}

/* The newest build of torch for a CUDA that the driver serves, with code for the GPUs here: of this
 * release, or of any that is not on pip's index (version NULL); or NULL. */
static const struct kb_build *older_build(struct diag *d, const char *version)
{
    const struct kb_build *own = diag_build_here(d, "torch", version, false);
    const struct kb_build *plain = version ? diag_build_here(d, "torch", version, true) : NULL;
    return !own || (plain && plain->cuda && host_version_cmp(plain->cuda, own->cuda) > 0) ? plain
                                                                                          : own;
}

static bool imports_torch(const struct model_process *p)
{
    for (size_t i = 0; i < p->imported.n; i++) {
        if (strcmp(p->imported.items[i], "torch") == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the process has loaded a library of this CUDA. */
static bool has_runtime(struct diag *d, const struct model_process *p, uint64_t major)
{
    struct runtime x;
    bool has = false;
    for (size_t i = 0; p->ldso && i < p->ldso->objects.n && !has; i++) {
        has = runtime_of(d, p, p->ldso->objects.items[i], &x) && x.major == major;
    }
    return has;
}

/* Whether another package is built for this CUDA, or a program uses it without torch: an older
 * build of torch would leave that as it is. */
static bool others_use_cuda(struct diag *d, uint64_t major)
{
    bool others = false;
    for (size_t i = 0; i < d->m->processes.n && !others; i++) {
        const struct model_process *p = d->m->processes.items[i];
        others = !imports_torch(p) && has_runtime(d, p, major);
    }
    for (size_t i = 0; i < d->m->known.n && !others; i++) {
        const struct py_dist *dist = d->m->known.items[i];
        others = !diag_is_torch_family(dist->name_normal) &&
                 model_build_of_dist(d->m, dist) == MODEL_BUILD_CUDA;
    }
    return others;
}

static void repair_by_torch(struct diag *d, struct diag_finding *f, const struct runtime *x)
{
    const struct py_dist *torch = d->m->env ? py_env_by_dist(d->m->env, "torch") : NULL;
    if (!torch || !torch->version || !model_torch(d->m)->cuda || others_use_cuda(d, x->major)) {
        return;
    }
    struct str rest = str_of(torch->version);
    const char *release = str_dup(d->a, str_cut(&rest, '+'));
    const struct kb_build *build = older_build(d, release);
    const char *wanted = release, *pinned = "";
    if (!build && (build = older_build(d, NULL)) != NULL) {
        release = diag_series(d, build);
        wanted = arena_printf(d->a, "%s.*", release);
        pinned = diag_pinned_text(d, "torch", release);
    }
    if (build) {
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, diag_torch_command(d, wanted, build->build),
                    "Install torch %s built for CUDA %s, which this driver supports (with uv, "
                    "which knows PyTorch's builds)%s.",
                    release, build->cuda, pinned);
    }
}

/* Whether a package other than onnxruntime-gpu may need this CUDA. */
static bool others_need(struct diag *d, const struct runtime *x)
{
    const char *torch = model_torch(d->m)->cuda;
    uint64_t major = 0;
    bool others = torch && driver_major(torch, &major) && major == x->major;
    for (size_t i = 0; i < d->m->known.n && !others; i++) {
        const struct py_dist *dist = d->m->known.items[i];
        others = !diag_is_torch_family(dist->name_normal) &&
                 strcmp(dist->name_normal, "onnxruntime-gpu") != 0 &&
                 model_build_of_dist(d->m, dist) == MODEL_BUILD_CUDA;
    }
    return others;
}

/* A release of onnxruntime-gpu for a CUDA that the driver serves. */
static void repair_by_onnxruntime(struct diag *d, struct diag_finding *f, const struct runtime *x)
{
    static const char name[] = "onnxruntime-gpu";
    const struct py_dist *ort = d->m->env ? py_env_by_dist(d->m->env, name) : NULL;
    if (!ort || !ort->version || !diag_build_is_known(d, name, ort->version) ||
        diag_build_here(d, name, ort->version, true) || others_need(d, x)) {
        return;
    }
    const struct kb_build *build = diag_build_here(d, name, NULL, true);
    if (build) {
        diag_repair(
            d, f, DIAG_REPAIR_PACKAGE, diag_release_command(d, true, "", name, build->versions),
            "Install %s %s, built for CUDA %s, which this driver supports%s.", name,
            diag_series(d, build), build->cuda, diag_pinned_text(d, name, diag_series(d, build)));
    }
}

/* Where no torch needs the same: CuPy and JAX have packages for an older CUDA. */
static void repair_by_name(struct diag *d, struct diag_finding *f, const struct runtime *x)
{
    const char *built = model_torch(d->m)->cuda;
    uint64_t major = 0;
    bool same = built && driver_major(built, &major) && major == x->major, torch = false;
    for (size_t i = 0; i < d->m->processes.n && !torch; i++) {
        const struct model_process *p = d->m->processes.items[i];
        torch = imports_torch(p) && (same || has_runtime(d, p, x->major));
    }
    if (!torch) {
        (void)diag_repair_other_cuda(d, f, (unsigned)x->major, "is served by this driver");
    }
}

static void repair_by_driver(struct diag *d, struct diag_finding *f, const char *driver_min)
{
    const struct host *h = d->m->host;
    const struct kb_driver *end = ends_before(d, driver_min);
    if (end) {
        diag_evidence(d, f, "known from: knowledge base, row %s: %s", end->id, end->title);
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Use programs built for an older CUDA: R%s is the last driver branch that "
                    "supports this GPU.",
                    end->linux_min);
        return;
    }
    unsigned branch = (unsigned)strtoul(driver_min, NULL, 10);
    diag_repair(d, f, DIAG_REPAIR_TEXT, host_install_nvidia(h, d->a, NULL, branch),
                "Update the NVIDIA driver to %s or "
                "newer%s.",
                driver_min,
                h->container.inside.state == HOST_YES ? ", on the host of this container" : "");
}

/* A library of the image would serve it, and a specification of the host comes before that one. */
static void say_passed_over(struct diag *d, struct diag_finding *f, const struct model_process *p)
{
    const struct host_injection *in;
    const char *why;
    struct diag_compat c;
    if (diag_whose_libcuda(d, diag_libcuda_of(p), &in) != DIAG_WHOSE_HOST ||
        !diag_compat_of(d, diag_libcuda_of(p), &c) ||
        host_compat_fits(d->m->host, d->a, c.version, &c.note, &why) != HOST_YES) {
        return;
    }
    diag_evidence(d, f,
                  "the image's %s (forward compatibility) is passed over: on the host, %s "
                  "puts the "
                  "driver's libcuda before it",
                  c.path, in->file);
    diag_repair(d, f, DIAG_REPAIR_TEXT, in->ours ? "sudo gpumend container cdi --refresh" : NULL,
                "On the host, install NVIDIA's nvidia-container-toolkit-base, 1.17.5 or newer, "
                "and write "
                "the specification again: its hook lets a newer libcuda of /usr/local/cuda/compat "
                "come "
                "first.");
}

/* The oldest driver for this CUDA, where the process has an older one, *ret_driver; or NULL. */
static const struct kb_driver *unmet_floor(struct diag *d, const struct runtime *x,
                                           const char **ret_driver)
{
    const struct kb_driver *least = floor_of(d, x);
    const char *loaded = diag_driver(d);
    if (!least || !loaded || host_version_cmp(loaded, least->linux_min) >= 0) {
        return NULL;
    }
    *ret_driver = diag_driver_of(d, x->process);
    bool older = *ret_driver && host_version_cmp(*ret_driver, least->linux_min) < 0;
    return older ? least : NULL;
}

static void say_too_old(struct diag *d, struct diag_finding *f, const struct runtime *x,
                        const struct kb_driver *least, const char *driver)
{
    f->stage = DIAG_STAGE_MACHINE;
    diag_seen_in(d, f, x->process);
    diag_evidence(d, f, "%s", x->from);
    diag_evidence(d, f, "the driver is %s (%s)", driver, d->m->host->nvidia.module.where);
    diag_evidence(d, f, "known from: knowledge base, row %s: %s needs %s", least->id, least->title,
                  least->linux_min);
}

static void judge_runtime(struct diag *d, const struct runtime *x)
{
    const char *driver;
    const struct kb_driver *least = unmet_floor(d, x, &driver);
    if (!least) {
        return;
    }
    struct diag_finding *f = diag_add(
        d, DIAG_DRIVER_TOO_OLD, arena_printf(d->a, "%u", (unsigned)x->major),
        arena_printf(d->a, "NVIDIA driver %s", driver),
        arena_printf(d->a, "The NVIDIA driver %s is too old for CUDA %s: it needs %s or newer.",
                     driver, x->version, least->linux_min));
    say_too_old(d, f, x, least, driver);
    say_passed_over(d, f, x->process);
    repair_by_torch(d, f, x);
    repair_by_onnxruntime(d, f, x);
    repair_by_name(d, f, x);
    repair_by_driver(d, f, least->linux_min);
}

/* ------------------------------------------------------------------ a runtime of its own */

static bool is_too_old_already(const struct diag *d)
{
    for (size_t i = 0; i < d->report->findings.n; i++) {
        const struct diag_finding *f = d->report->findings.items[i];
        if (f->cause == DIAG_DRIVER_TOO_OLD && f->severity == DIAG_ERROR) {
            return true;
        }
    }
    return false;
}

/* Of bindings that have the runtime of their own release within, only a program that calls that
 * runtime is affected; where the driver is too old for something else, no more is said. */
static void judge_bindings(struct diag *d, const struct model_process *p)
{
    const char *name = p->imported.n ? p->imported.items[0] : NULL;
    const struct py_dist *dist = name && d->m->env ? py_env_by_dist(d->m->env, name) : NULL;
    const struct kb_import *row = dist && dist->version ? diag_import_row(d, dist) : NULL;
    struct runtime x = {.process = p};
    const char *driver;
    if (!row || !row->own_runtime || !driver_major(dist->version, &x.major)) {
        return;
    }
    x.version = arena_printf(d->a, "%u", (unsigned)x.major);
    x.from = arena_printf(d->a,
                          "known from: knowledge base, row %s: %s %s has the CUDA runtime of "
                          "its own release within",
                          row->id, dist->name_normal, dist->version);
    const struct kb_driver *least = unmet_floor(d, &x, &driver);
    if (!least || is_too_old_already(d)) {
        return;
    }
    struct diag_finding *f = diag_add(
        d, DIAG_DRIVER_TOO_OLD, row->module, arena_printf(d->a, "NVIDIA driver %s", driver),
        arena_printf(d->a,
                     "The NVIDIA driver %s is too old for the CUDA %s runtime in %s: "
                     "calls to that runtime fail with error 35; calls to the driver work.",
                     driver, x.version, row->module));
    f->severity = DIAG_WARNING;
    say_too_old(d, f, &x, least, driver);
    repair_by_driver(d, f, least->linux_min);
}

/* torch says in a file which CUDA it was built for; the others by what they load. */
static void judge_torch(struct diag *d, const struct model_process *p, const char *cuda)
{
    struct runtime x = {.version = cuda, .process = p};
    if (cuda && imports_torch(p) && driver_major(cuda, &x.major)) {
        x.from = arena_printf(d->a, "torch was built for CUDA %s (torch/version.py)", cuda);
        judge_runtime(d, &x);
    }
}

/* What is not found yet will be asked of the driver as well, once it is. */
static void judge_lacking(struct diag *d, const struct model_process *p)
{
    struct diag_lack *lacks = NULL;
    size_t n = diag_lacks(d->m, p, &lacks);
    for (size_t i = 0; i < n; i++) {
        struct runtime x;
        bool one = strcmp(lacks[i].name, lacks[i].request->name) == 0; // no choice of releases
        if (one && runtime_of_name(p, lacks[i].name, &x)) {
            x.from = arena_printf(d->a, "%s is asked for", lacks[i].name);
            judge_runtime(d, &x);
        }
    }
}

/* ------------------------------------------------------------------ the rule */

/* A GPU of NVIDIA on the bus or in WSL; a Jetson's driver has versions of its own. */
static bool driver_has_gpu(const struct host *h)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        if (h->gpus.items[i].vendor == HOST_NVIDIA && strcmp(h->gpus.items[i].kind, "tegra") != 0) {
            return true;
        }
    }
    return false;
}

void diag_rule_drivers(struct diag *d)
{
    for (size_t i = 0; d->m->host && i < d->m->processes.n; i++) {
        diag_judge_not_on_path(d, d->m->processes.items[i]);
    }
    if (!d->m->host || !driver_has_gpu(d->m->host)) {
        return;
    }
    const char *torch_cuda = d->m->processes.n ? model_torch(d->m)->cuda : NULL;
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        struct runtime x;
        judge_torch(d, p, torch_cuda);
        for (size_t k = 0; p->ldso && k < p->ldso->objects.n; k++) {
            const struct ldso_object *o = p->ldso->objects.items[k];
            if (!diag_is_idle_twin(d, p, o) &&
                (runtime_of(d, p, o, &x) || runtime_within(d, p, o, &x))) {
                judge_runtime(d, &x);
            }
        }
        judge_lacking(d, p);
        diag_judge_compat(d, p);
    }
    for (size_t i = 0; i < d->m->processes.n; i++) {
        judge_bindings(d, d->m->processes.items[i]);
    }
}

/* ------------------------------------------------------------------ whatever the host */

struct least {
    const struct kb_driver *row;
    const char *from;
    bool unknown;
};

static void raise_least(struct diag *d, const struct runtime *x, struct least *ret)
{
    const struct kb_driver *row = floor_of(d, x);
    ret->unknown = ret->unknown || !row;
    if (row && (!ret->row || host_version_cmp(row->linux_min, ret->row->linux_min) > 0)) {
        ret->row = row;
        ret->from = x->from;
    }
}

const struct kb_driver *diag_driver_least(struct model *m, const char **ret_from, bool *ret_unknown,
                                          bool *ret_own)
{
    struct diag d = {.m = m, .a = m->arena};
    struct least least = {0};
    const char *torch_cuda = m->processes.n ? model_torch(m)->cuda : NULL;
    *ret_own = false;
    for (size_t i = 0; i < m->processes.n; i++) {
        const struct model_process *p = m->processes.items[i];
        struct runtime x = {.version = torch_cuda, .process = p};
        struct diag_compat c;
        if (torch_cuda && imports_torch(p) && driver_major(torch_cuda, &x.major)) {
            x.from =
                arena_printf(d.a, "torch was built for CUDA %s (torch/version.py)", torch_cuda);
            raise_least(&d, &x, &least);
        }
        for (size_t k = 0; p->ldso && k < p->ldso->objects.n; k++) {
            const struct ldso_object *o = p->ldso->objects.items[k];
            if (runtime_of(&d, p, o, &x) || runtime_within(&d, p, o, &x)) {
                raise_least(&d, &x, &least);
            }
        }
        *ret_own = *ret_own || diag_compat_of(&d, diag_libcuda_of(p), &c);
    }
    *ret_from = least.from;
    *ret_unknown = least.unknown;
    return least.row;
}
