/* The verdict, and the plan that it leads to. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "kb/serves.h"
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

static bool strs_have_text(struct kb_strs list, const char *text)
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
        if (strs_have_text(b->index_platforms, p->m->platform) ||
            strs_have_text(b->platforms, p->m->platform) || x86) {
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

/* The target of AMD's whose code the GPU runs. */
static const char *gfx_run(const struct planner *p)
{
    return p->plan->pins.gfx ? p->plan->pins.gfx : p->m->gpu->gfx.value;
}

/* A build for this GPU of AMD's of one of the engines, which no index has: of those for this
 * platform and the newest major of ROCm the last in the list; NULL: none is known. */
static const struct kb_build *rocm_build(const struct planner *p)
{
    const struct kb_build *found = NULL;
    for (size_t i = 0; i < p->builds.n; i++) {
        const struct kb_build *b = &p->builds.rows[i];
        bool here = b->platforms.n ? strs_have_text(b->platforms, p->m->platform)
                                   : strcmp(p->m->platform, "linux-x86-64") == 0;
        if (b->rocm && here && is_engine(p, b->package) && strs_have_text(b->gfx, gfx_run(p)) &&
            (!found || atoi(b->rocm) >= atoi(found->rocm))) {
            found = b;
        }
    }
    return found;
}

/* The engine as its users call it: the plugin of jax is jax. */
static const char *engine_shown(const struct planner *p, struct str engine)
{
    return strncmp(p->plan->app, "jax", 3) == 0 ? p->plan->app : str_dup(p->a, engine);
}

/* Why no build of an engine serves a GPU of AMD's, as a clause; NULL: there may be one. `local`: it
 * uses the ROCm of the system. */
static const char *amd_refusal(const struct planner *p, struct str engine, bool local)
{
    bool known = false, any = false, here = false, serves = false;
    for (size_t i = 0; i < p->builds.n; i++) {
        const struct kb_build *b = &p->builds.rows[i];
        if (!str_eq(engine, str_of(b->package))) {
            continue;
        }
        // Of torch's builds for Windows only those of AMD itself are for ROCm.
        known = known || b->sm.n || b->gfx.n;
        any = any || b->rocm;
        bool fits = b->rocm && (b->platforms.n ? strs_have_text(b->platforms, p->m->platform)
                                               : strcmp(p->m->platform, "linux-x86-64") == 0);
        serves = serves || (fits && strs_have_text(b->gfx, gfx_run(p)));
        here = here || fits;
    }
    const char *name = engine_shown(p, engine);
    // CuPy for CUDA compiles with CUDA's compiler: what it has for GPUs is CUDA's alone.
    return !any && !known && p->plan->row->code != SETUP_CODE_TOOLKIT ? NULL
           : !any  ? arena_printf(p->a, "%s in the package index is built for GPUs of NVIDIA", name)
           : !here ? arena_printf(p->a, "no build of %s for ROCm is known for %s%s", name,
                                  p->m->platform,
                                  p->m->windows && str_eq(engine, str_of("torch"))
                                      ? " but AMD's own, which setup does not install (ROCm on "
                                        "Radeon and Ryzen, \"PyTorch via PIP installation\")"
                                      : "")
           : serves && local ? "ROCm, whose libraries it uses, is not known to support its GPU"
           : serves          ? NULL // but beside what else the application needs
                             : arena_printf(
                                   p->a, "no build of %s for ROCm is known to have code for its GPU", name);
}

/* Why no release serves a GPU that is not NVIDIA's, as a clause; NULL: that is not known. */
static const char *other_refusal(const struct planner *p)
{
    const struct setup_app *row = p->plan->row;
    for (size_t i = 0; p->m->gpu->vendor == HOST_AMD && row; i++) {
        const struct setup_app *one = setup_app_find(p->plan->app, i);
        if (!one || one->rocm) {
            row = one ? one : row;
            break;
        }
    }
    struct str rest = str_of(row->engines), last = rest;
    const char *why = NULL;
    while (rest.s && rest.n && !why) {
        last = str_cut(&rest, ' ');
        why = p->m->gpu->vendor == HOST_AMD ? amd_refusal(p, last, row->rocm) : NULL;
    }
    return p->m->gpu->vendor == HOST_INTEL
               ? arena_printf(p->a, "%s in the package index has no code for GPUs of Intel",
                              engine_shown(p, last))
               : why;
}

/* From Thor on CUDA is that of Arm servers [NVIDIA, "What's New in CUDA Toolkit 13.0 for Jetson
 * Thor"], but its driver comes with JetPack, and no row of releases is for it. */
static bool is_thor(const struct planner *p)
{
    const struct host_fact *capability = &p->m->gpu->compute_capability;
    return p->m->host->tegra.is_tegra.state == HOST_YES && capability->state == HOST_YES &&
           strcmp(capability->value, "11.0") == 0;
}

static unsigned capability_major(const struct planner *p)
{
    const char *text = p->m->gpu->compute_capability.value;
    return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

/* "CUDA on WSL User Guide", "WSL 2 System Requirements": Pascal and later. */
static bool is_before_wsl(const struct planner *p)
{
    return p->m->gpu->vendor == HOST_NVIDIA && capability_major(p) < 6;
}

/* On Windows, of what has builds for Linux alone: the machine as it is to be asked for. */
static const char *in_wsl(const struct planner *p)
{
    static const char end[] = "-windows";
    const char *name = p->m->shown;
    size_t n = strlen(name), k = sizeof end - 1;
    if (!p->m->windows || p->m->gpu->vendor != HOST_NVIDIA || is_before_wsl(p)) {
        return "";
    }
    bool named = p->m->named && n > k && strcmp(name + n - k, end) == 0;
    return arena_printf(p->a, "; in WSL it is as on Linux (%s-wsl)",
                        named ? arena_printf(p->a, "--for %.*s", (int)(n - k), name)
                              : "such as --for rtx-4070");
}

/* Why no release serves the GPU, as a clause; NULL: that is not known. */
static const char *gpu_refusal(const struct planner *p)
{
    const struct host_gpu *g = p->m->gpu;
    bool toolkit = p->plan->row->code == SETUP_CODE_TOOLKIT;
    if (g->vendor != HOST_NVIDIA) {
        return other_refusal(p);
    }
    bool tegra = p->m->host->tegra.is_tegra.state == HOST_YES;
    // What an application that compiles by itself has for other GPUs was not read.
    if (toolkit && tegra) {
        return NULL;
    }
    bool thor = is_thor(p);
    if (tegra && !thor) {
        return "the wheels of the package index have no code for the GPU of a Jetson, whose CUDA "
               "is a part of JetPack; builds for JetPack, such as NVIDIA's of PyTorch, are not in "
               "the knowledge base";
    }
    struct str rest = str_of(p->plan->row->engines);
    while (rest.s && rest.n) {
        struct str one = str_cut(&rest, ' ');
        enum host_state platform = HOST_NO;
        if (p->plan->row->code == SETUP_CODE_BUILDS && !knows_code(p, one, &platform)) {
            return NULL;
        }
        if (p->plan->row->code == SETUP_CODE_BUILDS && platform == HOST_NO) {
            return arena_printf(p->a, "no build of %s for GPUs is known for %s%s",
                                str_dup(p->a, one), p->m->platform, in_wsl(p));
        }
    }
    return thor ? "which releases work with the driver of JetPack 7 is not known here; wheels for "
                  "CUDA 13 on aarch64 that have code for sm_110 may"
                : "no release is known to have code for its GPU and to fit a driver that it can "
                  "have";
}

/* Whether a row is for a device: where the application has rows for ROCm, those alone are. */
static bool row_is_for(const struct setup_app *row, enum choose_device_kind device)
{
    bool has_rocm = false;
    const struct setup_app *one;
    for (size_t i = 0; (one = setup_app_find(row->name, i)) != NULL; i++) {
        has_rocm = has_rocm || one->rocm;
    }
    return device == CHOOSE_DEVICE_ROCM ? row->rocm || !has_rocm : !row->rocm;
}

static int pins_for(struct planner *p, enum choose_device_kind device, struct gm_err *err)
{
    const struct setup_app *row;
    int policies = device == CHOOSE_DEVICE_CUDA ? SETUP_DRIVER_POLICIES : 1;
    p->plan->device = device;
    for (int k = 0; k < policies; k++) {
        for (size_t i = 0; (row = setup_app_find(p->plan->app, i)) != NULL; i++) {
            if (!row_is_for(row, device)) {
                continue;
            }
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

/* The Python for which there are releases for the GPU, where there are none for the one that was
 * asked for, or that an environment has; NULL: there are none for any. */
static int other_python(const struct planner *p, const char **ret, struct gm_err *err)
{
    const struct setup_app *row;
    struct setup_question any = *p->q;
    bool cuda = p->m->gpu->vendor == HOST_NVIDIA;
    enum choose_device_kind device = cuda ? CHOOSE_DEVICE_CUDA : CHOOSE_DEVICE_ROCM;
    int rc = 0;
    any.python = NULL;
    any.there = NULL;
    *ret = NULL;
    for (size_t i = 0; p->q->python && (row = setup_app_find(p->plan->app, i)) != NULL; i++) {
        for (int k = 0; !*ret && rc == 0 && k < (cuda ? SETUP_DRIVER_POLICIES : 1); k++) {
            struct setup_pins pins = {0};
            rc = row_is_for(row, device)
                     ? setup_pins_find(&any, row, device, (enum setup_driver_policy)k, &pins, err)
                     : 0;
            *ret = pins.items.n ? pins.python : NULL;
        }
    }
    return rc;
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
    // Of another vendor's GPU the first half says it all.
    const struct kb_trait *alone = kb_gpu_alone(&p->traits, p->plan->row->package);
    const char *only = alone ? alone->says : NULL, *others = p->plan->row->others;
    bool nvidia = p->m->gpu && p->m->gpu->vendor == HOST_NVIDIA;
    if (only && others && !nvidia) {
        verdict_unknown(p, arena_printf(p->a, "%s, and %s (%s)", only, others,
                                        p->m->gpu ? setup_gpu_text(p) : why));
        return 0;
    }
    if (only) {
        p->plan->verdict = SETUP_NOT;
        p->plan->device = CHOOSE_DEVICE_NONE;
        p->plan->sentence = arena_printf(p->a, "%s cannot work on %s: %s, and %s", p->plan->app,
                                         p->plan->machine, only, why);
        return 0;
    }
    int rc = pins_for(p, CHOOSE_DEVICE_CPU, err);
    if (rc < 0) {
        return rc;
    }
    if (!p->plan->pins.items.n) {
        verdict_unknown(p, arena_printf(p->a, "%s, and no release for its CPU%s%s is known", why,
                                        p->q->python ? " and Python " : "",
                                        p->q->python ? p->q->python : ""));
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

/* PyTorch has builds for Intel's GPUs ("Getting Started on Intel GPU": Arc, and what else has Arc
 * graphics, on Linux and Windows); llama.cpp computes through Vulkan on any GPU that has a driver
 * for it (docs/build.md, "Vulkan"); AMD's compute cards have no graphics driver, so there it is
 * ROCm. */
static enum setup_other other_of(const struct planner *p)
{
    bool intel = p->m->gpu->vendor == HOST_INTEL, amd = p->m->gpu->vendor == HOST_AMD;
    bool arc = intel && p->m->gpu->name && strstr(p->m->gpu->name, "Arc");
    bool cdna = amd && strncmp(p->m->gpu->gfx.value, "gfx9", 4) == 0;
    return p->plan->row->code == SETUP_CODE_SOURCE && cdna             ? SETUP_OTHER_HIP
           : p->plan->row->code == SETUP_CODE_SOURCE && (intel || amd) ? SETUP_OTHER_VULKAN
           : strcmp(p->plan->app, "torch") == 0 && arc                 ? SETUP_OTHER_XPU
                                                                       : SETUP_OTHER_NONE;
}

/* Why it is not known what its GPU is, as a clause. */
static const char *unseen_gpu(const struct planner *p)
{
    const struct host_gpu *g = p->m->gpu;
    if (setup_is_wsl(p)) {
        return "which GPU it has cannot be seen; name it with --for, such as --for rtx-3060-wsl";
    }
    return g->bdf ? arena_printf(p->a,
                                 "its GPU is not in the knowledge base (%s, PCI device %04x:%04x)",
                                 g->name ? g->name : "no name", g->vendor_id, g->device_id)
                  : "which GPU it has cannot be seen; name it with --for, such as --for "
                    "rtx-3060-linux";
}

static const char *under_override(const struct planner *p)
{
    const char *as = p->plan->pins.override;
    return as ? arena_printf(p->a, " under HSA_OVERRIDE_GFX_VERSION=%s", as) : "";
}

/* There are no releases for the GPU: why, and what there is in their place. */
static int verdict_refused(struct planner *p, struct gm_err *err)
{
    const struct host_gpu *g = p->m->gpu;
    bool tegra = p->m->host->tegra.is_tegra.state == HOST_YES, alone, elsewhere = tegra;
    const char *why = NULL, *python = NULL;
    int rc = tegra || g->vendor == HOST_INTEL ? 0 : other_python(p, &python, err);
    if (rc < 0) {
        return rc;
    }
    if (python) {
        why = arena_printf(p->a,
                           "no release for Python %s is known to fit its GPU, and for Python %s "
                           "one is",
                           p->q->python, python);
        elsewhere = true;
    } else {
        why = gpu_refusal(p);
    }
    alone = kb_gpu_alone(&p->traits, p->plan->row->package) != NULL;
    if (why && alone && elsewhere) {
        verdict_unknown(p, arena_printf(p->a, "%s (%s)", why, setup_gpu_text(p)));
        return 0;
    }
    if (why) {
        return verdict_cpu(p, arena_printf(p->a, "%s (%s)", why, setup_gpu_text(p)), err);
    }
    const struct kb_build *rocm = g->vendor == HOST_AMD ? rocm_build(p) : NULL;
    if (rocm) {
        verdict_unknown(p, arena_printf(p->a,
                                        "%s %s has a build for ROCm %s with code for this GPU%s "
                                        "(%s), %s",
                                        rocm->package, rocm->versions, rocm->rocm,
                                        under_override(p), setup_gpu_text(p),
                                        p->plan->row->git
                                            ? "which its uv.lock does not install"
                                            : "and no release is known to fit that build"));
        return 0;
    }
    verdict_unknown(p, arena_printf(p->a,
                                    "the knowledge base does not say for which GPUs its builds "
                                    "for %s have code (%s)",
                                    p->m->platform, setup_gpu_text(p)));
    return 0;
}

static int gpu_verdict(struct planner *p, struct gm_err *err)
{
    const struct host_gpu *g = p->m->gpu;
    bool nvidia = g->vendor == HOST_NVIDIA;
    if ((nvidia && !g->compute_capability.value) || (g->vendor == HOST_AMD && !g->gfx.value)) {
        verdict_unknown(p, unseen_gpu(p));
        return 0;
    }
    if (setup_is_wsl(p) && is_before_wsl(p)) {
        return verdict_cpu(p,
                           arena_printf(p->a,
                                        "WSL supports NVIDIA GPUs from Pascal on "
                                        "(\"CUDA on WSL User Guide\"; %s)",
                                        setup_gpu_text(p)),
                           err);
    }
    // The CUDA of a Jetson is a part of JetPack: what is compiled there has code for its GPU.
    bool tegra = p->m->host->tegra.is_tegra.state == HOST_YES;
    if (nvidia && (!tegra || p->plan->row->code == SETUP_CODE_SOURCE)) {
        int rc = pins_for(p, CHOOSE_DEVICE_CUDA, err);
        if (rc < 0) {
            return rc;
        }
    }
    enum setup_other other = other_of(p);
    if (other != SETUP_OTHER_NONE || g->vendor == HOST_AMD) {
        int rc =
            pins_for(p, other != SETUP_OTHER_NONE ? CHOOSE_DEVICE_CPU : CHOOSE_DEVICE_ROCM, err);
        if (rc < 0) {
            return rc;
        }
        p->plan->other = other;
        p->plan->pins.index = other == SETUP_OTHER_XPU ? "xpu" : p->plan->pins.index;
        for (size_t i = 0; other == SETUP_OTHER_XPU && i < p->plan->pins.items.n; i++) {
            struct setup_pin *pin = &p->plan->pins.items.items[i];
            struct str rest = str_of(pin->version);
            pin->version = str_dup(p->a, str_cut(&rest, '+')); // that index has one build of each
        }
    }
    if (p->plan->pins.items.n && setup_is_wsl(p) && !nvidia && other != SETUP_OTHER_XPU) {
        // ROCm/librocdxg, README: there is no /dev/kfd in WSL.
        verdict_unknown(p, other == SETUP_OTHER_VULKAN
                               ? "which Vulkan driver serves this GPU in WSL is not known here"
                               : "in WSL, ROCm reaches the GPU through AMD's librocdxg and the "
                                 "driver of Windows, which setup does not install");
        return 0;
    }
    if (p->plan->pins.items.n) {
        p->plan->verdict = SETUP_GPU;
        p->plan->sentence = arena_printf(p->a, "%s works on the GPU of %s, %s%s", p->plan->app,
                                         p->plan->machine, setup_gpu_text(p), after_driver(p));
        return 0;
    }
    return verdict_refused(p, err);
}

/* Why there is no GPU to compute on, as a clause. */
static const char *no_gpu(const struct planner *p)
{
    const struct host *h = p->m->host;
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        if (g->integrated && g->name) {
            return arena_printf(p->a,
                                "its graphics are integrated and not among those that ROCm "
                                "supports (%s%s%s)",
                                g->name, g->gfx.value ? ", " : "",
                                g->gfx.value ? g->gfx.value : "");
        }
    }
    return p->m->named ? "it has no GPU" : "no GPU was found";
}

static int verdict_find(struct planner *p, struct gm_err *err)
{
    const char *cpu = p->plan->row->cpu;
    if (!has_releases(p, p->plan->row->package) && !(cpu && has_releases(p, cpu))) {
        verdict_unknown(p, "no release of it is in the knowledge base");
        return 0;
    }
    if (p->plan->row->git && p->m->windows) {
        verdict_unknown(p,
                        str_concat(p->a, "what its uv.lock installs on Windows is not known here",
                                   p->m->gpu ? in_wsl(p) : "", ""));
        return 0;
    }
    if (!p->m->platform) {
        verdict_unknown(p, p->m->windows ? "it is Windows for ARM64, for which the knowledge base "
                                           "has no wheels"
                                         : "its processor is not known");
        return 0;
    }
    if (p->m->musl && !p->q->image) { // PEP 656
        verdict_unknown(p, "its C library is musl, and the releases in the knowledge base are "
                           "wheels for glibc: a system or an image with glibc runs them");
        return 0;
    }
    if (p->m->gpus_unknown) {
        verdict_unknown(p, arena_printf(p->a,
                                        "its GPUs cannot be seen; name the machine with --for, "
                                        "such as --for rtx-3060-%s, or --for cpu-linux",
                                        setup_is_wsl(p) ? "wsl" : "linux"));
        return 0;
    }
    return p->m->gpu ? gpu_verdict(p, err) : verdict_cpu(p, no_gpu(p), err);
}

static void steps_make(struct planner *p)
{
    p->plan->uv =
        p->plan->source || (!p->plan->pins.own_python && !p->q->python && !p->plan->windows);
    if (p->q->there) {
        setup_compare(p);
        p->plan->uv = !py_env_by_dist(p->q->there->env, "pip") && !p->plan->windows;
    }
    if (p->plan->device == CHOOSE_DEVICE_CUDA) {
        setup_driver_step_nvidia(p);
    } else if (p->plan->device == CHOOSE_DEVICE_ROCM) {
        setup_driver_step_amd(p);
    } else if (p->plan->other != SETUP_OTHER_NONE) {
        setup_driver_step_other(p);
    }
    setup_runtime_step(p);
    setup_program_step(p);
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
    if (ret->windows && !str_is_seen(ret->folder)) { // no word of PowerShell names it
        return gm_err_set(err, GM_ERR_USAGE,
                          "the environment %s has a character in its path that cannot be seen",
                          str_printable(q->a, ret->folder));
    }
    struct setup_question own = *q;
    if (ret->row->git) {
        // Its environment is made from its lock file: none that exists is changed for it.
        own.folder = q->there ? NULL : q->folder;
        own.there = NULL;
        p.q = &own;
        ret->source = own.folder ? own.folder : ret->app;
        ret->folder = arena_printf(q->a, "%s/.venv", ret->source);
    }
    int rc = kb_models(q->kb, &p.models, err);
    rc = rc < 0 ? rc : kb_builds(q->kb, &p.builds, err);
    rc = rc < 0 ? rc : kb_releases(q->kb, &p.releases, err);
    rc = rc < 0 ? rc : kb_sizes(q->kb, &p.sizes, err);
    rc = rc < 0 ? rc : kb_traits(q->kb, &p.traits, err);
    if (rc == 0 && q->model && !choose_model_find(&p.models, q->model)) {
        return gm_err_set(err, GM_ERR_USAGE, "unknown model %s", str_printable(q->a, q->model));
    }
    rc = rc < 0 ? rc : verdict_find(&p, err);
    if (rc == 0 && ret->pins.items.n) {
        steps_make(&p);
    }
    return rc;
}
