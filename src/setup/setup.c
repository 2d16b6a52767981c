/* The verdict, and the plan that it leads to. */
#include <string.h>

#include "base/str.h"
#include "py/dist.h"
#include "setup/internal.h"

const char *setup_step_name(enum setup_step_kind kind)
{
    static const char *const names[SETUP_STEPS] = {
        [SETUP_DRIVER] = "driver",
        [SETUP_RUNTIME] = "runtime",
        [SETUP_ENVIRONMENT] = "environment",
        [SETUP_PACKAGES] = "packages",
        [SETUP_LIBRARIES] = "libraries",
        [SETUP_SETTINGS] = "settings",
        [SETUP_PROOF] = "proof",
    };
    return names[kind];
}

const char *setup_verdict_name(enum setup_verdict verdict)
{
    static const char *const names[] = {
        [SETUP_GPU] = "gpu", [SETUP_CPU] = "cpu", [SETUP_NOT] = "not", [SETUP_UNKNOWN] = "unknown"};
    return names[verdict];
}

/* ------------------------------------------------------------------ the verdict */

static bool has_releases(const struct planner *p, const char *package)
{
    for (size_t i = 0; i < p->releases.n; i++) {
        if (strcmp(p->releases.rows[i].package, package) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_text(struct kb_strs list, const char *text)
{
    for (size_t i = 0; i < list.n; i++) {
        if (strcmp(list.items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the knowledge base says for which GPUs of this kind the engine's builds have code; and
 * whether one of those is for the platform. */
static bool knows_code(const struct planner *p, struct str engine, enum host_state *ret_platform)
{
    bool cuda = p->m->gpu->vendor == HOST_NVIDIA, known = false;
    bool x86 = strcmp(p->m->platform, "linux-x86-64") == 0;
    for (size_t i = 0; i < p->builds.n; i++) {
        const struct kb_build *b = &p->builds.rows[i];
        bool code = cuda ? b->cuda && b->sm.n : b->rocm && b->gfx.n;
        if (!code || !str_eq(engine, str_of(b->package))) {
            continue;
        }
        known = true;
        if (has_text(b->index_platforms, p->m->platform) ||
            has_text(b->platforms, p->m->platform) || x86) {
            *ret_platform = HOST_YES;
        } else if (!b->index_platforms.n && *ret_platform == HOST_NO) {
            *ret_platform = HOST_UNKNOWN;
        }
    }
    return known && *ret_platform != HOST_UNKNOWN;
}

static bool is_engine(const struct planner *p, const char *package)
{
    struct str rest = str_of(p->plan->row->engines);
    while (rest.s && rest.n) {
        if (str_eq(str_cut(&rest, ' '), str_of(package))) {
            return true;
        }
    }
    return false;
}

/* A build for this GPU of AMD's of one of the engines, which no index has, the last in the list of
 * those for this platform; NULL: none is known. */
static const struct kb_build *rocm_build(const struct planner *p)
{
    const struct kb_build *found = NULL;
    for (size_t i = 0; i < p->builds.n; i++) {
        const struct kb_build *b = &p->builds.rows[i];
        bool here = !b->platforms.n || has_text(b->platforms, p->m->platform);
        if (b->rocm && here && is_engine(p, b->package) && has_text(b->gfx, p->m->gpu->gfx.value)) {
            found = b;
        }
    }
    return found;
}

/* Why no release serves the GPU, as a clause; NULL: that is not known. */
static const char *gpu_refusal(const struct planner *p)
{
    const struct host_gpu *g = p->m->gpu;
    bool toolkit = p->plan->row->code == SETUP_CODE_TOOLKIT;
    bool tegra = p->m->host->tegra.is_tegra.state == HOST_YES;
    // Of AMD's builds not all say for which GPUs they are, and some GPUs run code for others.
    // What an application that compiles by itself has for other GPUs was not read.
    if (g->vendor != HOST_NVIDIA || (toolkit && tegra)) {
        return NULL;
    }
    // From Thor on CUDA is that of Arm servers [NVIDIA, "What's New in CUDA Toolkit 13.0 for Jetson
    // Thor"], but its driver comes with JetPack, and no row of releases is for it.
    const struct host_fact *capability = &g->compute_capability;
    bool thor = tegra && capability->state == HOST_YES && strcmp(capability->value, "11.0") == 0;
    if (tegra && !thor) {
        return "the wheels of the package index have no code for the GPU of a Jetson, whose CUDA "
               "is a part of JetPack";
    }
    struct str rest = str_of(p->plan->row->engines);
    while (rest.s && rest.n) {
        struct str one = str_cut(&rest, ' ');
        enum host_state platform = HOST_NO;
        if (p->plan->row->code == SETUP_CODE_BUILDS && !knows_code(p, one, &platform)) {
            return NULL;
        }
        if (p->plan->row->code == SETUP_CODE_BUILDS && platform == HOST_NO) {
            return arena_printf(p->a, "no build of %s for GPUs is known for %s", str_dup(p->a, one),
                                p->m->platform);
        }
    }
    return thor ? "which releases work with the driver of JetPack 7 is not known here; wheels for "
                  "CUDA 13 on aarch64 that have code for sm_110 may"
                : "no release is known to have code for its GPU and to fit a driver that it can "
                  "have";
}

static int pins_for(struct planner *p, enum choose_device_kind device, struct gm_err *err)
{
    const struct setup_app *row;
    int policies = device == CHOOSE_DEVICE_CUDA ? SETUP_DRIVER_POLICIES : 1;
    p->plan->device = device;
    for (int k = 0; k < policies; k++) {
        for (size_t i = 0; (row = setup_app_find(p->plan->app, i)) != NULL; i++) {
            int rc = setup_pins_find(p->q, row, device, (enum setup_driver_policy)k, &p->plan->pins,
                                     err);
            if (rc < 0 || p->plan->pins.items.n) {
                p->plan->row = row;
                return rc;
            }
        }
    }
    return 0;
}

static void verdict_unknown(struct planner *p, const char *why)
{
    p->plan->verdict = SETUP_UNKNOWN;
    p->plan->device = CHOOSE_DEVICE_NONE;
    p->plan->pins.items.n = 0;
    p->plan->sentence = arena_printf(p->a, "cannot tell how %s works on %s: %s", p->plan->app,
                                     p->plan->machine, why);
}

static int verdict_cpu(struct planner *p, const char *why, struct gm_err *err)
{
    if (p->plan->row->gpu_only) {
        p->plan->verdict = SETUP_NOT;
        p->plan->device = CHOOSE_DEVICE_NONE;
        p->plan->sentence = arena_printf(p->a, "%s cannot work on %s: %s, and %s", p->plan->app,
                                         p->plan->machine, p->plan->row->gpu_only, why);
        return 0;
    }
    int rc = pins_for(p, CHOOSE_DEVICE_CPU, err);
    if (rc < 0) {
        return rc;
    }
    if (!p->plan->pins.items.n) {
        verdict_unknown(p, arena_printf(p->a, "%s, and no release for its CPU is known", why));
        return 0;
    }
    p->plan->verdict = SETUP_CPU;
    p->plan->gpu_lost = p->m->gpu != NULL;
    p->plan->sentence =
        arena_printf(p->a, "%s works on the CPU of %s: %s", p->plan->app, p->plan->machine, why);
    return 0;
}

static const char *after_driver(const struct planner *p)
{
    const struct host_problem *problem = setup_problem(p->m->gpu);
    bool later = p->plan->pins.driver_newer || (p->m->gpu->usable == HOST_NO && problem);
    return later ? p->m->named
                       ? arena_printf(p->a, ", with driver %s or later", p->plan->pins.driver_min)
                       : ", once step 1 is done"
                 : "";
}

static int gpu_verdict(struct planner *p, struct gm_err *err)
{
    const struct host_gpu *g = p->m->gpu;
    bool nvidia = g->vendor == HOST_NVIDIA;
    if ((nvidia && !g->compute_capability.value) || (g->vendor == HOST_AMD && !g->gfx.value)) {
        verdict_unknown(p, "which GPU it has cannot be seen; name it with --for, such as --for "
                           "rtx-3060-wsl");
        return 0;
    }
    bool tegra = p->m->host->tegra.is_tegra.state == HOST_YES;
    if (nvidia && !tegra) {
        int rc = pins_for(p, CHOOSE_DEVICE_CUDA, err);
        if (rc < 0) {
            return rc;
        }
    }
    if (g->vendor == HOST_AMD) {
        int rc = pins_for(p, CHOOSE_DEVICE_ROCM, err);
        if (rc < 0) {
            return rc;
        }
    }
    if (p->plan->pins.items.n) {
        p->plan->verdict = SETUP_GPU;
        p->plan->sentence = arena_printf(p->a, "%s works on the GPU of %s, %s%s", p->plan->app,
                                         p->plan->machine, setup_gpu_text(p), after_driver(p));
        return 0;
    }
    const char *why = gpu_refusal(p);
    if (why) {
        return verdict_cpu(p, arena_printf(p->a, "%s (%s)", why, setup_gpu_text(p)), err);
    }
    const struct kb_build *rocm = g->vendor == HOST_AMD ? rocm_build(p) : NULL;
    if (rocm) {
        verdict_unknown(p, arena_printf(p->a,
                                        "%s %s has a build for ROCm %s with code for this GPU "
                                        "(%s), which setup does not install%s%s",
                                        rocm->package, rocm->versions, rocm->rocm,
                                        setup_gpu_text(p), rocm->origin.note ? ". " : "",
                                        rocm->origin.note ? rocm->origin.note : ""));
        return 0;
    }
    verdict_unknown(p, arena_printf(p->a,
                                    "the knowledge base does not say for which GPUs its builds "
                                    "for %s have code (%s)",
                                    p->m->platform, setup_gpu_text(p)));
    return 0;
}

static int verdict_find(struct planner *p, struct gm_err *err)
{
    const char *cpu = p->plan->row->cpu;
    if (!has_releases(p, p->plan->row->package) && !(cpu && has_releases(p, cpu))) {
        verdict_unknown(p, "no release of it is in the knowledge base");
        return 0;
    }
    if (!p->m->platform) {
        verdict_unknown(p, "its processor is not known");
        return 0;
    }
    if (p->m->gpus_unknown) {
        verdict_unknown(p, "its GPUs cannot be seen; name the machine with --for, such as --for "
                           "rtx-3060-linux, or --for cpu-linux");
        return 0;
    }
    return p->m->gpu ? gpu_verdict(p, err)
                     : verdict_cpu(p, p->m->named ? "it has no GPU" : "no GPU was found", err);
}

static void steps_make(struct planner *p)
{
    p->plan->uv = !p->plan->pins.own_python && !p->q->python && !p->plan->windows;
    if (p->q->there) {
        setup_compare(p);
        p->plan->uv = !py_env_by_dist(p->q->there->env, "pip") && !p->plan->windows;
    }
    if (p->plan->device == CHOOSE_DEVICE_CUDA) {
        setup_driver_step_nvidia(p);
    } else if (p->plan->device == CHOOSE_DEVICE_ROCM) {
        setup_driver_step_amd(p);
    }
    setup_environment_step(p);
    setup_packages_step(p);
    setup_libraries_step(p);
    setup_settings_step(p);
    setup_proof_step(p);
}

int setup_plan_make(const struct setup_question *q, struct setup_plan *ret, struct gm_err *err)
{
    struct planner p = {.q = q, .a = q->a, .m = q->machine, .plan = ret};
    *ret =
        (struct setup_plan){.app = q->app,
                            .machine = q->machine->shown,
                            .row = setup_app_find(q->app, 0),
                            .folder = q->folder ? q->folder : arena_printf(q->a, "%s-env", q->app),
                            .windows = q->machine->windows};
    if (!ret->row) {
        const char *near = setup_app_near(q->app);
        return near ? gm_err_set(err, GM_ERR_USAGE, "unknown application %s; did you mean %s?",
                                 str_printable(q->a, q->app), near)
                    : gm_err_set(err, GM_ERR_USAGE, "unknown application %s",
                                 str_printable(q->a, q->app));
    }
    int rc = kb_models(q->kb, &p.models, err);
    rc = rc < 0 ? rc : kb_builds(q->kb, &p.builds, err);
    rc = rc < 0 ? rc : kb_releases(q->kb, &p.releases, err);
    if (rc == 0 && q->model && !choose_model_find(&p.models, q->model)) {
        return gm_err_set(err, GM_ERR_USAGE, "unknown model %s", str_printable(q->a, q->model));
    }
    rc = rc < 0 ? rc : verdict_find(&p, err);
    if (rc == 0 && ret->pins.items.n) {
        steps_make(&p);
    }
    return rc;
}
