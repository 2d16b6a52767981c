/* What a rule may ask about the machine: which GPUs count, the driver, what it can compile, and
 * which build of a package has code for a GPU. Unknown facts are never turned into answers. */
#include <stdlib.h>
#include <string.h>

#include "diag/internal.h"
#include "kb/serves.h"
#include "py/dist.h"

/* ------------------------------------------------------------------ GPUs */

/* A GPU that programs cannot use has a finding of its own; a small one beside the processor is
 * not what the user has in mind. */
static bool gpu_counts(const struct host_gpu *g, enum host_vendor vendor)
{
    return g->vendor == vendor && g->usable != HOST_NO && !(g->integrated && vendor == HOST_AMD);
}

bool diag_has_gpu_of(const struct host *h, enum host_vendor vendor)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        if (h->gpus.items[i].vendor == vendor) {
            return true;
        }
    }
    return false;
}

const struct host_gpu *diag_next_gpu(const struct diag *d, enum host_vendor vendor,
                                     const struct host_gpu *after)
{
    const struct host *h = d->m->host;
    for (size_t i = 0; h && i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        if (gpu_counts(g, vendor) && (!after || g > after)) {
            return g;
        }
    }
    return NULL;
}

bool diag_capability(const struct host_gpu *g, unsigned *ret_major, unsigned *ret_minor)
{
    uint64_t major = 0, minor = 0;
    if (g->compute_capability.state != HOST_YES || !g->compute_capability.value) {
        return false;
    }
    struct str rest = str_of(g->compute_capability.value);
    struct str head = str_cut(&rest, '.');
    if (!rest.s || !str_u64(head, &major) || !str_u64(rest, &minor) || major > 99 || minor > 9) {
        return false;
    }
    *ret_major = (unsigned)major;
    *ret_minor = (unsigned)minor;
    return true;
}

const char *diag_variable(const struct diag *d, const char *name)
{
    const char *value = diag_getenv(d, name);
    bool captured = !d->m->root->is_host && !d->m->pid && d->m->host;
    return value || !captured ? value : host_variable(d->m->host, name);
}

/* ------------------------------------------------------------------ NVIDIA's driver */

const char *diag_driver(const struct diag *d)
{
    const struct host *h = d->m->host;
    return h ? host_nvidia_release(h) : NULL;
}

static int version_compare(const char *a, const char *b)
{
    struct py_version x, y;
    if (!a || !b || !py_version_parse(str_of(a), &x) || !py_version_parse(str_of(b), &y)) {
        return -2; // not to be compared: never reached
    }
    return py_version_cmp(&x, &y) < 0 ? -1 : py_version_cmp(&x, &y) > 0;
}

unsigned diag_ptx_isa(struct diag *d, const char *driver)
{
    struct kb_isa known = kb_isa_of_driver(d->m->kb, driver);
    return known.more ? 0 : known.isa;
}

/* ------------------------------------------------------------------ builds of a package */

static bool build_has_text(struct kb_strs list, const char *text)
{
    for (size_t i = 0; i < list.n; i++) {
        if (strcmp(list.items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* Without a known driver PTX does not count: it may be too new. */
static bool has_code(const struct kb_build *b, const struct diag_target *t, struct kb_isa isa)
{
    if (t->gfx) {
        return b->rocm && build_has_text(b->gfx, t->gfx);
    }
    enum gpu_serves serves = b->cuda ? kb_build_serves(b, t->number, isa) : GPU_SERVES_NONE;
    return serves == GPU_SERVES_NATIVE || serves == GPU_SERVES_JIT;
}

static bool build_covers(const struct kb_build *b, const struct diag_target *targets, size_t n,
                         struct kb_isa isa)
{
    for (size_t i = 0; i < n; i++) {
        if (!has_code(b, &targets[i], isa)) {
            return false;
        }
    }
    return true;
}

/* "3.9-3.13" holds 3.11. */
static bool fits_python(struct diag *d, const char *range)
{
    const struct py_env *env = d->m->env;
    struct str rest = str_of(range);
    struct str low = str_cut(&rest, '-');
    if (!range || !env || env->major < 0 || !rest.s) {
        return true;
    }
    const char *own = arena_printf(d->a, "%d.%d", env->major, env->minor);
    return version_compare(own, str_dup(d->a, low)) >= 0 &&
           version_compare(str_dup(d->a, rest), own) >= 0;
}

/* The floor of minor-version compatibility; without a known driver every build may fit. */
static bool fits_driver(struct diag *d, const struct kb_build *b)
{
    struct kb_drivers rows;
    struct gm_err err;
    const char *driver = diag_driver(d);
    if (!b->cuda || !driver || kb_drivers(d->m->kb, &rows, &err) < 0) {
        return true;
    }
    const struct kb_driver *least = kb_driver_minor(&rows, b->cuda);
    return !least || version_compare(driver, least->linux_min) >= 0;
}

/* Where the wheels of the environment run. */
static const char *platform_of(const struct diag *d)
{
    const char *machine = d->m->env ? d->m->env->machine : NULL;
    return machine && strcmp(machine, "aarch64") == 0 ? "linux-aarch64" : "linux-x86-64";
}

/* Whether pip takes this build from the package index, or it is one of another index, for x86-64
 * where its row names no platform. */
static bool fits_source(const struct kb_build *b, const char *platform, bool is_default)
{
    bool x86 = strcmp(platform, "linux-x86-64") == 0;
    bool in_index =
        b->index_platforms.n ? build_has_text(b->index_platforms, platform) : b->is_default && x86;
    bool elsewhere =
        b->platforms.n ? build_has_text(b->platforms, platform) : b->index_platforms.n == 0 && x86;
    return is_default ? in_index : !in_index && elsewhere;
}

const char *diag_series(struct diag *d, const struct kb_build *b)
{
    return kb_build_first(d->a, b);
}

const struct kb_build *diag_build_for(struct diag *d, const char *package, const char *version,
                                      bool is_default, const struct diag_target *targets, size_t n)
{
    struct kb_builds rows;
    struct gm_err err;
    const struct kb_build *best = NULL;
    struct kb_isa isa = kb_isa_of_driver(d->m->kb, diag_driver(d));
    if (kb_builds(d->m->kb, &rows, &err) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < rows.n; i++) {
        const struct kb_build *b = &rows.rows[i];
        if (strcmp(b->package, package) == 0 && fits_source(b, platform_of(d), is_default) &&
            b->status == KB_STATUS_STABLE && build_covers(b, targets, n, isa) &&
            fits_python(d, b->python) && fits_driver(d, b) &&
            diag_can_install(d, package, b->versions) &&
            (!version || model_version_fits(d->a, b->versions, version)) &&
            (!best || version_compare(diag_series(d, b), diag_series(d, best)) > 0 ||
             (version_compare(diag_series(d, b), diag_series(d, best)) == 0 &&
              version_compare(b->cuda ? b->cuda : b->rocm, best->cuda ? best->cuda : best->rocm) >
                  0))) {
            best = b;
        }
    }
    return best;
}

const struct kb_build *diag_build_here(struct diag *d, const char *package, const char *version,
                                       bool is_default)
{
    VEC(struct diag_target) targets = {0};
    const struct host_gpu *g = NULL;
    while ((g = diag_next_gpu(d, HOST_NVIDIA, g)) != NULL) {
        unsigned major = 0, minor = 0;
        if (diag_capability(g, &major, &minor)) {
            VEC_PUSH(d->a, &targets, (struct diag_target){.number = major * 10 + minor});
        }
    }
    return diag_build_for(d, package, version, is_default, targets.items, targets.n);
}

bool diag_build_is_known(struct diag *d, const char *package, const char *version)
{
    struct kb_builds rows;
    struct gm_err err;
    bool known = false;
    if (!version || kb_builds(d->m->kb, &rows, &err) < 0) {
        return false;
    }
    for (size_t i = 0; i < rows.n && !known; i++) {
        const struct kb_build *b = &rows.rows[i];
        known = strcmp(b->package, package) == 0 && fits_source(b, platform_of(d), true) &&
                model_version_fits(d->a, b->versions, version);
    }
    return known;
}

const char *diag_pinned_text(struct diag *d, const char *package, const char *release)
{
    const char *specifiers = "";
    const struct py_dist *dist = diag_pinned_by(d, package, release, &specifiers);
    return dist ? arena_printf(d->a, "; %s declares %s%s, which that release does not meet",
                               dist->name_normal, package, specifiers)
                : "";
}

/* Where another package asks for the release that is installed: its build for ROCm, of which the
 * knowledge base does not say what GPUs it has code for. */
static void repair_unread(struct diag *d, struct diag_finding *f, const char *version,
                          const struct diag_target *target)
{
    struct kb_builds rows;
    struct gm_err err;
    const struct kb_build *best = NULL;
    if (kb_builds(d->m->kb, &rows, &err) < 0) {
        return;
    }
    for (size_t i = 0; i < rows.n; i++) {
        const struct kb_build *b = &rows.rows[i];
        if (strcmp(b->package, "torch") == 0 && b->rocm && !b->gfx.n &&
            fits_source(b, platform_of(d), false) && fits_python(d, b->python) &&
            model_version_fits(d->a, b->versions, version) &&
            (!best || version_compare(b->rocm, best->rocm) > 0)) {
            best = b;
        }
    }
    if (best) {
        struct str rest = str_of(version);
        const char *release = str_dup(d->a, str_cut(&rest, '+'));
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, diag_torch_command(d, release, best->build),
                    "Install the %s build of torch %s (by uv, which knows PyTorch's builds); "
                    "gpumend does not know whether it has code for %s.",
                    best->build, release, target->gfx);
    }
}

/* From the index that pip uses. */
static void repair_plain(struct diag *d, struct diag_finding *f, const struct kb_build *plain,
                         const char *version, const struct diag_target *targets, size_t n)
{
    /* What is installed may be of the same version, in another build. */
    bool again = version && model_version_fits(d->a, plain->versions, version);
    bool native = build_covers(plain, targets, n, (struct kb_isa){0});
    const char *package = plain->package, *series = diag_series(d, plain);
    diag_repair(
        d, f, DIAG_REPAIR_PACKAGE,
        diag_release_command(d, false, again ? "--force-reinstall " : "", package, plain->versions),
        "Install %s %s, whose build for %s (%s) has %s for it%s.", package, series,
        plain->cuda ? "CUDA" : "ROCm", plain->cuda ? plain->cuda : plain->rocm,
        native ? "code" : "PTX that this driver compiles",
        again ? "" : diag_pinned_text(d, package, series));
}

/* From elsewhere. `version`: the one that is installed, where the build is of it; or NULL. */
static void repair_other(struct diag *d, struct diag_finding *f, const struct kb_build *other,
                         const char *version, const char *pinned)
{
    struct str rest = str_of(version ? version : diag_series(d, other));
    const char *release = str_dup(d->a, str_cut(&rest, '+'));
    if (strcmp(other->package, "torch") == 0) {
        /* A series without its last number: the newest of it. */
        const char *wanted = version ? release : arena_printf(d->a, "%s.*", release);
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, diag_torch_command(d, wanted, other->build),
                    "Install the %s build of torch %s (by uv, which knows PyTorch's builds)%s.",
                    other->build, release, pinned);
        return;
    }
    diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL,
                "Install the build of %s %s for %s %s (%s), which its project publishes "
                "outside pip's default index.",
                other->package, release, other->cuda ? "CUDA" : "ROCm",
                other->cuda ? other->cuda : other->rocm, other->build);
}

/* Another build of the installed release or, from pip's index or elsewhere, of the newest. */
bool diag_repair_build(struct diag *d, struct diag_finding *f, const char *package,
                       const struct diag_target *targets, size_t n)
{
    struct py_dist *dist = d->m->env ? py_env_by_dist(d->m->env, package) : NULL;
    const char *version = dist ? dist->version : NULL;
    const struct kb_build *plain = diag_build_for(d, package, NULL, true, targets, n);
    const struct kb_build *same =
        version ? diag_build_for(d, package, version, false, targets, n) : NULL;
    const struct kb_build *other =
        same ? same : diag_build_for(d, package, NULL, false, targets, n);
    bool is_torch = strcmp(package, "torch") == 0;
    if (is_torch && same) { // what is built for this release stays
        repair_other(d, f, same, version, "");
    }
    if (plain) {
        repair_plain(d, f, plain, version, targets, n);
    }
    if (other && !(is_torch && same)) {
        const char *pinned = same ? "" : diag_pinned_text(d, package, diag_series(d, other));
        if (is_torch && *pinned && version && targets->gfx) {
            repair_unread(d, f, version, targets);
        }
        repair_other(d, f, other, same ? version : NULL, pinned);
    }
    return plain || other;
}
