/*
 * Each device is a candidate. Questions are put to it in order (the table in candidate_judge());
 * the first that speaks against it settles it. Then memory.
 */
#include "choose/chooser.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "host/names.h"
#include "model/gpu.h"

/* ------------------------------------------------------------------ questions to a GPU */

static bool against(struct choose_candidate *x, const char *cause, const char *why,
                    const char *step)
{
    x->cause = cause;
    x->why = why;
    x->step = step;
    return true;
}

/* The step is a command, or ends in it. */
static bool against_by(struct choose_candidate *x, const char *cause, const char *why,
                       const char *step, const char *command)
{
    x->command = command;
    return against(x, cause, why, step);
}

const struct choose_ran *chooser_ran_on(const struct chooser *c, const struct choose_candidate *x)
{
    for (size_t i = 0; i < c->o->n_ran; i++) {
        const struct choose_ran *r = &c->o->ran[i];
        bool told = r->bdf && x->gpu && x->gpu->bdf;
        bool same = told ? strcasecmp(r->bdf, x->gpu->bdf) == 0 : r->index == x->index;
        if (r->device == x->device && same) {
            return r;
        }
    }
    return NULL;
}

static bool has_passed(const struct chooser *c, const struct choose_candidate *x)
{
    const struct choose_ran *r = chooser_ran_on(c, x);
    return r && r->passed;
}

/* What files cannot tell counts no more where it has run. */
static bool ask_state(struct chooser *c, struct choose_candidate *x)
{
    const struct host_problem *p;
    enum host_state state = choose_gpu_state(x->gpu, &p);
    if (state == HOST_YES || (state == HOST_UNKNOWN && has_passed(c, x))) {
        return false;
    }
    return against_by(
        x, p->id,
        state == HOST_NO
            ? p->text
            : arena_printf(c->a, "whether it can be used cannot be determined: %s", p->text),
        p->step, p->command);
}

static bool ask_vendor(struct chooser *c, struct choose_candidate *x)
{
    if (x->gpu->vendor == HOST_NVIDIA || x->gpu->vendor == HOST_AMD) {
        return false;
    }
    if (x->gpu->vendor == HOST_INTEL && c->choice->app == CHOOSE_APP_TORCH) {
        return against(x, "vendor-not-served",
                       "only torch's builds for Intel GPUs (\"+xpu\") use it, as the device "
                       "\"xpu\"; gpumend does not choose that device",
                       NULL);
    }
    return against(x, "vendor-not-served",
                   arena_printf(c->a, "%s has no build for this kind of GPU that gpumend knows",
                                choose_app_name(c->choice->app)),
                   NULL);
}

static bool ask_hidden(struct chooser *c, struct choose_candidate *x)
{
    bool nvidia = x->gpu->vendor == HOST_NVIDIA;
    const struct choose_visible *list = nvidia ? &c->cuda : &c->rocm;
    if (x->index >= 0) {
        return false;
    }
    const char *what = list->hidden ? list->hidden : list->filter ? list->filter : "a variable";
    const char *command = arena_printf(c->a, "unset %.*s", (int)strcspn(what, "="), what);
    return against_by(x, "hidden", arena_printf(c->a, "%s hides it", what), command, command);
}

/* "gfx1031" with "10.3.0" is taken for gfx1030: the last digits are the minor version and the
 * stepping, in hexadecimal. */
static const char *gfx_of(struct arena *a, const char *override)
{
    uint64_t part[3];
    struct str rest = str_of(override);
    for (size_t i = 0; i < 3; i++) {
        if (!str_u64(str_cut(&rest, '.'), &part[i]) || part[i] > 15) {
            return NULL;
        }
    }
    return arena_printf(a, "gfx%u%x%x", (unsigned)part[0], (unsigned)part[1], (unsigned)part[2]);
}

static const struct kb_rocm *override_row(const struct chooser *c, const char *gfx,
                                          const char *value)
{
    for (size_t i = 0; i < c->rocms.n; i++) {
        const struct kb_rocm *r = &c->rocms.rows[i];
        if (r->kind == KB_ROCM_OVERRIDE && choose_strs_list(&r->gfx, gfx) &&
            (value ? strcmp(r->override, value) == 0 : r->verdict == KB_VERDICT_SAME_ISA)) {
            return r;
        }
    }
    return NULL;
}

/* What to do where the official ROCm builds have no kernels for the GPU, also not by an override to
 * the same instruction set; NULL: they have, or that is not known. */
static const char *own_build_step(struct chooser *c, const struct choose_candidate *x)
{
    const char *app = choose_app_name(c->choice->app);
    const char *gfx = x->gpu->gfx.state == HOST_YES ? x->gpu->gfx.value : NULL;
    const struct kb_rocm *row = gfx ? override_row(c, gfx, NULL) : NULL;
    const char *as = row ? gfx_of(c->a, row->override) : NULL;
    bool listed = false;
    for (size_t i = 0; i < c->builds.n; i++) {
        const struct kb_build *b = &c->builds.rows[i];
        listed = listed || (b->rocm && b->gfx.n && strcmp(b->package, app) == 0);
    }
    if (!gfx || !listed || chooser_official_build(c, app, gfx)) {
        return NULL;
    }
    return as && chooser_official_build(c, app, as)
               ? arena_printf(c->a,
                              "install a build of %s for ROCm and set HSA_OVERRIDE_GFX_VERSION=%s: "
                              "the official ones have no kernels for %s, but for %s, whose "
                              "instructions are the same",
                              app, row->override, gfx, as)
               : arena_printf(c->a,
                              "build %s for ROCm with code for %s: the official builds have none",
                              app, gfx);
}

static bool ask_build(struct chooser *c, struct choose_candidate *x)
{
    bool nvidia = x->gpu->vendor == HOST_NVIDIA;
    if (c->build == BUILD_UNKNOWN || c->build == (nvidia ? BUILD_CUDA : BUILD_ROCM)) {
        return false;
    }
    const char *needs = nvidia ? "CUDA" : "ROCm";
    bool ctranslate2 = c->choice->app == CHOOSE_APP_CTRANSLATE2;
    const char *step = arena_printf(
        c->a,
        ctranslate2 && chooser_is_on_arm(c) ? "build %s for %s from its source"
        : ctranslate2 && !nvidia
            ? "install a build of %s for %s: a wheel from its releases on GitHub (since 4.7.0)"
            : "install a build of %s for %s",
        choose_app_name(c->choice->app), needs);
    const char *own = nvidia ? NULL : own_build_step(c, x);
    step = own ? own : step;
    if (c->build == BUILD_CPU) {
        return against(x, "cpu-only-build",
                       arena_printf(c->a, "%s is built for the CPU alone%s", chooser_app_text(c),
                                    chooser_is_on_arm(c) ? " on aarch64" : ""),
                       step);
    }
    return against(x, "other-build",
                   arena_printf(c->a, "%s is built for %s, and this GPU needs %s",
                                chooser_app_text(c), nvidia ? "ROCm" : "CUDA", needs),
                   step);
}

/* Of an application that is not installed: a GPU or driver that no build of it serves. */
static bool ask_known_builds(struct chooser *c, struct choose_candidate *x)
{
    const struct kb_build *build;
    const char *driver, *app = choose_app_name(c->choice->app);
    bool windows = c->m->host && c->m->host->windows.is_windows.state == HOST_YES;
    if (x->gpu->vendor != HOST_NVIDIA || c->dist || windows || has_passed(c, x)) {
        return false;
    }
    enum host_state state = chooser_known_builds(c, x->gpu, &build, &driver);
    if (state == HOST_YES) {
        if (build) {
            VEC_PUSH(
                c->a, &c->choice->notes,
                arena_printf(c->a,
                             "%s: the newest %s that is known to serve it here is %s %s, build %s",
                             x->name, app, build->package, build->versions, build->build));
        }
        return false;
    }
    if (state == HOST_UNKNOWN) {
        return false;
    }
    if (!driver) {
        return against(x, "no-build-serves",
                       arena_printf(c->a,
                                    "no build of %s that is known has code for compute capability "
                                    "%s",
                                    app, x->gpu->compute_capability.value),
                       NULL);
    }
    const char *last = chooser_last_driver(c, x->gpu);
    bool none = last && strtoul(last, NULL, 10) < strtoul(driver, NULL, 10);
    const char *step =
        none   ? NULL
        : last ? arena_printf(c->a,
                              "install NVIDIA's driver %s, the last branch that knows this "
                              "GPU, then reboot",
                              last)
               : arena_printf(c->a,
                              "install NVIDIA's driver %s or later, if one knows this GPU, "
                              "then reboot",
                              driver);
    return against(x, "no-build-serves",
                   arena_printf(c->a,
                                "no build of %s that is known runs with driver %s: the least that "
                                "one of them needs is %s%s%s",
                                app, host_nvidia_release(c->h), driver,
                                none ? ", and the last driver branch for this GPU is " : "",
                                none ? last : ""),
                   step);
}

/* ------------------------------------------------------------------ gfx targets */

/* What HSA_OVERRIDE_GFX_VERSION that is set already makes of it. */
static bool ask_set_override(struct chooser *c, struct choose_candidate *x, const char *gfx,
                             const char *set)
{
    const char *as = gfx_of(c->a, set);
    const struct kb_rocm *row = override_row(c, gfx, set);
    bool same = as && strcmp(as, gfx) == 0;
    if (as && (same || (row && row->verdict == KB_VERDICT_SAME_ISA)) &&
        chooser_has_kernels(c, as) != HOST_NO) {
        return false;
    }
    static const char command[] = "unset HSA_OVERRIDE_GFX_VERSION";
    return against_by(
        x, "wrong-override",
        arena_printf(c->a,
                     "HSA_OVERRIDE_GFX_VERSION=%s does not make a %s run code that it "
                     "can execute",
                     set, gfx),
        command, command);
}

/* The official build that would serve it, in words; NULL: none is known. */
static const char *build_step(struct chooser *c, const char *gfx)
{
    const char *app = choose_app_name(c->choice->app);
    const struct kb_build *b = chooser_official_build(c, app, gfx);
    return b ? arena_printf(c->a, "install %s %s for ROCm %s, which has kernels for %s", app,
                            b->versions, b->rocm, gfx)
             : NULL;
}

/* No kernels: for another target with the same instruction set there may be. */
static bool ask_override(struct chooser *c, struct choose_candidate *x, const char *gfx)
{
    const char *who = c->dist ? chooser_app_text(c) : "official ROCm builds";
    const struct kb_rocm *row = override_row(c, gfx, NULL);
    const char *as = row ? gfx_of(c->a, row->override) : NULL;
    if (as && chooser_has_kernels(c, as) == HOST_YES) {
        x->override = row->override;
        VEC_PUSH(c->a, &c->choice->notes,
                 arena_printf(c->a,
                              "%s: %s %s no kernels for %s; HSA_OVERRIDE_GFX_VERSION=%s makes it "
                              "run those for %s, which only a run can confirm",
                              x->name, who, c->dist ? "has" : "have", gfx, row->override, as));
        return false;
    }
    const char *step = build_step(c, gfx);
    return against(
        x, "gfx-not-covered",
        arena_printf(c->a, "%s %s no kernels for %s", who, c->dist ? "has" : "have", gfx),
        step ? step : "use a build made for it (a distribution's, or one of your own)");
}

static bool ask_gfx(struct chooser *c, struct choose_candidate *x)
{
    if (x->gpu->vendor != HOST_AMD) {
        return false;
    }
    if (x->gpu->gfx.state != HOST_YES) {
        return against(x, "gfx-unknown", "its gfx target is not known", NULL);
    }
    const char *gfx = x->gpu->gfx.value;
    const char *set = choose_variable(&c->o->variables, "HSA_OVERRIDE_GFX_VERSION");
    if (set) {
        return ask_set_override(c, x, gfx, set);
    }
    enum host_state state = chooser_has_kernels(c, gfx);
    if (state == HOST_UNKNOWN) {
        VEC_PUSH(c->a, &c->choice->notes,
                 arena_printf(c->a, "%s: whether %s has kernels for %s could not be read", x->name,
                              chooser_app_text(c), gfx));
    }
    return state == HOST_NO && ask_override(c, x, gfx);
}

/* ------------------------------------------------------------------ findings */

const struct diag_finding *chooser_first_error(const struct chooser *c, const char *override)
{
    for (size_t i = 0; c->dist && i < c->report->findings.n; i++) {
        const struct diag_finding *f = c->report->findings.items[i];
        if (f->severity == DIAG_ERROR && f->scripts.n &&
            !(override && f->cause == DIAG_GFX_NOT_COVERED)) {
            return f;
        }
    }
    return NULL;
}

const char *chooser_clause(struct arena *a, const char *sentence)
{
    size_t n = strlen(sentence);
    return n && sentence[n - 1] == '.' ? arena_strndup(a, sentence, n - 1) : sentence;
}

const char *chooser_step_of(const struct chooser *c, const struct diag_finding *f)
{
    return f->repairs.n == 0 ? NULL
           : f->repairs.items[0].command
               ? arena_printf(c->a, "%s: %s", chooser_clause(c->a, f->repairs.items[0].text),
                              f->repairs.items[0].command)
               : f->repairs.items[0].text;
}

static bool ask_findings(struct chooser *c, struct choose_candidate *x)
{
    const struct diag_finding *f = chooser_first_error(c, x->override);
    if (c->o->standing) {
        return against(x, c->o->standing_cause, chooser_clause(c->a, c->o->standing), NULL);
    }
    return f &&
           against_by(x, diag_causes[f->cause].id, chooser_clause(c->a, f->summary),
                      chooser_step_of(c, f), f->repairs.n ? f->repairs.items[0].command : NULL);
}

/* Why the runtime counted no device, or not this one. */
static const char *not_reached(const struct chooser *c, const struct choose_candidate *x)
{
    for (size_t i = 0; i < c->o->n_ran; i++) {
        const struct choose_ran *r = &c->o->ran[i];
        if (r->device == x->device && r->index < 0 && r->why) {
            return arena_printf(c->a, "the probe did not come as far as this GPU: %s", r->why);
        }
    }
    return "the probe did not come as far as this GPU";
}

static bool ask_ran(struct chooser *c, struct choose_candidate *x)
{
    const struct choose_ran *r = chooser_ran_on(c, x);
    if (!c->o->was_run || (r && r->passed && r->formats)) {
        return false;
    }
    const char *why = !r       ? not_reached(c, x)
                      : r->why ? arena_printf(c->a, "the probe failed on it: %s", r->why)
                               : "no library of the environment has multiplied on it";
    const char *command = model_command(c->m, "probe", "");
    return against_by(x, "probe-failed", why, command, command);
}

/* ------------------------------------------------------------------ memory */

static void gpu_memory(struct chooser *c, struct choose_candidate *x)
{
    const struct choose_ran *r = chooser_ran_on(c, x);
    if (r && r->free_bytes) {
        x->available_bytes = r->free_bytes;
        x->available_why = "free when it was probed";
    } else {
        x->available_bytes = choose_gpu_memory(c->a, &c->gpus, x->gpu, &x->available_why);
    }
}

static void cpu_memory(struct chooser *c, struct choose_candidate *x)
{
    const struct host_cpu *cpu = &c->h->cpu;
    const struct host_fact *total = &cpu->memory_total, *limit = &cpu->memory_limit;
    bool limited =
        limit->state == HOST_YES && (total->state != HOST_YES || limit->number < total->number);
    if (limited || total->state == HOST_YES) {
        x->available_bytes = limited ? limit->number : total->number;
        x->available_why = limited ? "the limit of the control group" : total->where;
    } else {
        x->available_why = total->why;
    }
}

static struct choose_memory required(const struct chooser *c, const struct kb_model *model,
                                     enum choose_device_kind device, enum choose_compute compute)
{
    if (c->o->memory_bytes) {
        return (struct choose_memory){CHOOSE_MEMORY_GIVEN, c->o->memory_bytes, NULL};
    }
    return model ? choose_model_memory(&c->models, model, c->choice->app, device, compute)
                 : (struct choose_memory){CHOOSE_MEMORY_UNKNOWN, 0, NULL};
}

static enum host_state candidate_fits(const struct choose_candidate *x,
                                      const struct choose_memory *need)
{
    return !x->available_bytes || need->how == CHOOSE_MEMORY_UNKNOWN ? HOST_UNKNOWN
           : need->bytes <= x->available_bytes                       ? HOST_YES
                                                                     : HOST_NO;
}

bool chooser_take_compute(struct chooser *c, struct choose_candidate *x,
                          const struct kb_model *model)
{
    enum choose_compute list[CHOOSE_COMPUTES];
    const char *capability = x->gpu && x->gpu->compute_capability.state == HOST_YES
                                 ? x->gpu->compute_capability.value
                                 : NULL;
    const struct choose_ran *r = x->gpu && c->o->was_run ? chooser_ran_on(c, x) : NULL;
    const struct choose_computes_for f = {.app = c->choice->app,
                                          .device = x->device,
                                          .capability = capability,
                                          .version = c->choice->app_version,
                                          .machine = chooser_is_on_arm(c) ? "aarch64" : "x86_64",
                                          .given = c->o->compute_given,
                                          .compute = c->o->compute,
                                          .formats = r ? r->formats : CHOOSE_FORMATS_ALL};
    size_t n = choose_computes(&c->models, c->a, &f, list);
    bool memory_unknown = x->gpu && !x->available_bytes;
    for (size_t i = 0; i < n; i++) {
        enum choose_compute as = choose_runs_as(&c->models, c->a, &f, list[i]);
        struct choose_memory need = required(c, model, x->device, as);
        enum host_state state = candidate_fits(x, &need);
        bool given = need.how == CHOOSE_MEMORY_UNKNOWN || need.how == CHOOSE_MEMORY_GIVEN;
        bool smaller = i == 0 || need.bytes < x->required.bytes || (given && memory_unknown);
        if (smaller || state == HOST_YES) {
            x->compute = list[i];
            x->required = need;
            x->fits = state;
        }
        if (state == HOST_YES || (need.how == CHOOSE_MEMORY_UNKNOWN && !memory_unknown)) {
            break;
        }
    }
    // CTranslate2 makes of int8 what the device runs of the two (its src/types.cc).
    bool mixed = x->compute == CHOOSE_INT8_FLOAT16 || x->compute == CHOOSE_INT8_FLOAT32;
    x->compute = c->o->whisperx && mixed ? CHOOSE_INT8 : x->compute;
    return n > 0;
}

const char *chooser_need_text(struct chooser *c, const struct choose_candidate *x)
{
    const char *name = c->model ? c->choice->model : "the model";
    if (x->required.how == CHOOSE_MEMORY_GIVEN) {
        return arena_printf(c->a, "%s needs %s", name, choose_gib(c->a, x->required.bytes));
    }
    return arena_printf(c->a, "%s needs about %s in %s (%s)", name,
                        choose_gib(c->a, x->required.bytes), choose_compute_name(x->compute),
                        choose_memory_name(x->required.how));
}

static bool ask_memory(struct chooser *c, struct choose_candidate *x)
{
    if (!chooser_take_compute(c, x, c->model)) {
        return against(x, "no-compute-type",
                       c->o->compute_given
                           ? arena_printf(c->a,
                                          x->device == CHOOSE_DEVICE_ROCM
                                              ? "whether %s runs well on it with %s is not known"
                                              : "%s does not run well on it with %s",
                                          choose_compute_name(c->o->compute),
                                          choose_app_name(c->choice->app))
                           : "no compute type is known to run on it",
                       NULL);
    }
    if (x->fits != HOST_NO) {
        return false;
    }
    return against(x, "too-small",
                   arena_printf(c->a, "%s, and it has %s", chooser_need_text(c, x),
                                choose_gib(c->a, x->available_bytes)),
                   NULL);
}

/* ------------------------------------------------------------------ candidates */

typedef bool question(struct chooser *c, struct choose_candidate *x);

static void candidate_judge(struct chooser *c, struct choose_candidate *x)
{
    static question *const questions[] = {ask_vendor,       ask_state, ask_hidden,   ask_build,
                                          ask_known_builds, ask_gfx,   ask_findings, ask_ran};
    for (size_t i = 0; x->gpu && i < sizeof questions / sizeof *questions; i++) {
        if (questions[i](c, x)) {
            return;
        }
    }
    x->usable = !ask_memory(c, x);
}

static void add_candidate(struct chooser *c, const struct host_gpu *g,
                          enum choose_device_kind device, long index)
{
    struct choose_candidate x = {.device = device, .gpu = g, .index = index, .name = g->name};
    gpu_memory(c, &x);
    candidate_judge(c, &x);
    VEC_PUSH(c->a, &c->choice->candidates, x);
}

static void add_visible(struct chooser *c, const struct choose_visible *list,
                        enum choose_device_kind device)
{
    for (size_t i = 0; i < list->gpus.n; i++) {
        add_candidate(c, list->gpus.items[i], device, list->sure ? (long)i : 0);
    }
}

static bool counted(const struct choose_visible *list, const struct host_gpu *g)
{
    for (size_t i = 0; i < list->gpus.n; i++) {
        if (list->gpus.items[i] == g) {
            return true;
        }
    }
    return false;
}

void chooser_add_candidates(struct chooser *c)
{
    add_visible(c, &c->cuda, CHOOSE_DEVICE_CUDA);
    add_visible(c, &c->rocm, CHOOSE_DEVICE_ROCM);
    for (size_t i = 0; i < c->h->gpus.n; i++) {
        const struct host_gpu *g = &c->h->gpus.items[i];
        if (!counted(&c->cuda, g) && !counted(&c->rocm, g)) {
            add_candidate(c, g,
                          g->vendor == HOST_NVIDIA ? CHOOSE_DEVICE_CUDA
                          : g->vendor == HOST_AMD  ? CHOOSE_DEVICE_ROCM
                                                   : CHOOSE_DEVICE_NONE,
                          -1);
        }
    }
    struct choose_candidate cpu = {.device = CHOOSE_DEVICE_CPU, .index = -1, .name = "the CPU"};
    cpu_memory(c, &cpu);
    candidate_judge(c, &cpu);
    VEC_PUSH(c->a, &c->choice->candidates, cpu);
}
