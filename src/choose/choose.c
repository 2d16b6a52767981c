/*
 * Each device is a candidate. Questions are put to it in order (tables below); the first that
 * speaks against it settles it. Then memory, then the ranking.
 */
#include "choose/choose.h"

#include <string.h>

#include "base/str.h"
#include "host/names.h"
#include "model/gpu.h"
#include "py/dist.h"

enum build { BUILD_UNKNOWN, BUILD_CPU, BUILD_CUDA, BUILD_ROCM };

struct chooser {
    struct model *m;
    struct arena *a;
    const struct host *h;
    const struct diag_report *report;
    const struct choose_options *o;
    struct choose_result *choice;
    struct kb_models models;
    struct kb_gpus gpus;
    struct kb_rocms rocms;
    struct kb_builds builds;
    const struct kb_model *model; // or NULL
    const struct py_dist *dist;   // of the application, or NULL
    enum build build;
    struct choose_visible cuda, rocm;
};

/* ------------------------------------------------------------------ the application */

/* Distributions that give an application, the best first, and what their plain wheels are built
 * for. Sources: kb/builds.json; for ONNX Runtime the names of its packages. */
static const struct {
    enum choose_app app;
    const char *package, *provider;
    enum build build;
} packages[] = {
    {CHOOSE_APP_CTRANSLATE2, "ctranslate2", NULL, BUILD_CUDA},
    {CHOOSE_APP_TORCH, "torch", NULL, BUILD_CUDA},
    {CHOOSE_APP_ONNXRUNTIME, "onnxruntime-gpu", "CUDAExecutionProvider", BUILD_CUDA},
    {CHOOSE_APP_ONNXRUNTIME, "onnxruntime-migraphx", "MIGraphXExecutionProvider", BUILD_ROCM},
    {CHOOSE_APP_ONNXRUNTIME, "onnxruntime-rocm", "ROCMExecutionProvider", BUILD_ROCM},
    {CHOOSE_APP_ONNXRUNTIME, "onnxruntime", NULL, BUILD_CPU},
};

const char *choose_app_module(enum choose_app app)
{
    return choose_app_name(app);
}

const struct py_dist *choose_app_of(struct model *m, const struct choose_options *o,
                                    enum choose_app *ret_app)
{
    *ret_app = o->app_given ? o->app : CHOOSE_APP_CTRANSLATE2;
    for (size_t i = 0; m->env && i < sizeof packages / sizeof *packages; i++) {
        const struct py_dist *d = !o->app_given || packages[i].app == o->app
                                      ? py_env_by_dist(m->env, packages[i].package)
                                      : NULL;
        if (d) {
            *ret_app = packages[i].app;
            return d;
        }
    }
    return NULL;
}

static bool on_arm(const struct chooser *c)
{
    const char *machine = c->m->env && c->m->env->machine   ? c->m->env->machine
                          : c->h->cpu.isa.state == HOST_YES ? c->h->cpu.isa.value
                                                            : "";
    return strcmp(machine, "aarch64") == 0;
}

static enum build build_of_files(const struct chooser *c)
{
    enum model_build found = c->dist ? model_build_of_dist(c->m, c->dist) : MODEL_BUILD_UNKNOWN;
    switch (found) {
    case MODEL_BUILD_CPU: return BUILD_CPU;
    case MODEL_BUILD_CUDA: return BUILD_CUDA;
    case MODEL_BUILD_HIP: return BUILD_ROCM;
    case MODEL_BUILD_UNKNOWN: break;
    }
    return BUILD_UNKNOWN;
}

/* What the installed build serves, by its files, its local version label ("2.5.1+cpu"), else by its
 * package. CTranslate2's wheels for aarch64 are for the CPU (docs/hardware_support.md); of torch's
 * and of what conda built the name does not tell. */
static enum build build_of(const struct chooser *c)
{
    enum build files = build_of_files(c);
    if (files != BUILD_UNKNOWN) {
        return files;
    }
    const char *version = c->dist && c->dist->version ? c->dist->version : "";
    const char *local = strchr(version, '+');
    if (local) {
        return starts_with(local, "+cpu")    ? BUILD_CPU
               : starts_with(local, "+rocm") ? BUILD_ROCM
               : starts_with(local, "+cu")   ? BUILD_CUDA
                                             : BUILD_UNKNOWN;
    }
    if (c->dist && c->dist->kind == PY_DIST_CONDA) {
        return BUILD_UNKNOWN;
    }
    if (on_arm(c)) {
        return c->choice->app == CHOOSE_APP_CTRANSLATE2 ? BUILD_CPU : BUILD_UNKNOWN;
    }
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
        bool is = c->dist ? strcmp(c->dist->name_normal, packages[i].package) == 0
                          : packages[i].app == c->choice->app;
        if (is) { // torch has builds for both: without one installed, either may be meant
            return !c->dist && c->choice->app == CHOOSE_APP_TORCH ? BUILD_UNKNOWN
                                                                  : packages[i].build;
        }
    }
    return BUILD_UNKNOWN;
}

static const char *app_text(const struct chooser *c)
{
    return c->dist && c->dist->version
               ? arena_printf(c->a, "%s %s", c->dist->name_normal, c->dist->version)
               : choose_app_name(c->choice->app);
}

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

/* What was run on it, by its address where that was told; NULL: nothing. */
static const struct choose_ran *ran_on(const struct chooser *c, const struct choose_candidate *x)
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
    const struct choose_ran *r = ran_on(c, x);
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
        ctranslate2 && on_arm(c) ? "build %s for %s from its source"
        : ctranslate2 && !nvidia
            ? "install a build of %s for %s: a wheel from its releases on GitHub (since 4.7.0)"
            : "install a build of %s for %s",
        choose_app_name(c->choice->app), needs);
    if (c->build == BUILD_CPU) {
        return against(x, "cpu-only-build",
                       arena_printf(c->a, "%s is built for the CPU alone%s", app_text(c),
                                    on_arm(c) ? " on aarch64" : ""),
                       step);
    }
    return against(x, "other-build",
                   arena_printf(c->a, "%s is built for %s, and this GPU needs %s", app_text(c),
                                nvidia ? "ROCm" : "CUDA", needs),
                   step);
}

/* ------------------------------------------------------------------ gfx targets */

/* A build that is installed, by its label; NULL: it has none, or no row. */
static const struct kb_build *installed_row(const struct chooser *c)
{
    const char *version = c->dist && c->dist->version ? c->dist->version : NULL;
    const char *label = version ? strchr(version, '+') : NULL;
    for (size_t i = 0; label && i < c->builds.n; i++) {
        const struct kb_build *b = &c->builds.rows[i];
        if (strcmp(b->package, c->dist->name_normal) == 0 && strcmp(b->build, label + 1) == 0 &&
            model_version_fits(c->a, b->versions,
                               arena_strndup(c->a, version, (size_t)(label - version)))) {
            return b;
        }
    }
    return NULL;
}

/* The newest official build of the package with kernels for the target; NULL: none is known. */
static const struct kb_build *official_build(const struct chooser *c, const char *package,
                                             const char *gfx)
{
    const struct kb_build *found = NULL;
    for (size_t i = 0; i < c->builds.n; i++) {
        const struct kb_build *b = &c->builds.rows[i];
        bool official = b->status != KB_STATUS_EXPERIMENTAL; // one's own build for others is not
        if (official && strcmp(b->package, package) == 0 && b->rocm &&
            choose_strs_list(&b->gfx, gfx) &&
            (!found || host_version_cmp(b->rocm, found->rocm) > 0)) {
            found = b;
        }
    }
    return found;
}

static bool in_a_release(const struct chooser *c, const char *gfx, const char *rocm)
{
    for (size_t i = 0; i < c->rocms.n; i++) {
        const struct kb_rocm *r = &c->rocms.rows[i];
        if (r->kind == KB_ROCM_RELEASE && choose_strs_list(&r->gfx, gfx) &&
            (!rocm || strcmp(r->rocm, rocm) == 0)) {
            return true;
        }
    }
    return false;
}

/* Of one with the same ROCm, where the row of the installed build has no list. */
static const struct kb_build *same_rocm(const struct chooser *c, const struct kb_build *own)
{
    for (size_t i = 0; own && own->rocm && i < c->builds.n; i++) {
        const struct kb_build *b = &c->builds.rows[i];
        if (b->gfx.n && b->rocm && b->status != KB_STATUS_EXPERIMENTAL &&
            strcmp(b->package, own->package) == 0 && strcmp(b->rocm, own->rocm) == 0) {
            return b;
        }
    }
    return NULL;
}

/*
 * Whether what runs has kernels for the target: the installed library's own code, where it can be
 * read; else the list of its row, or of a build for the same ROCm; else, where nothing is
 * installed, any official build. A build that none of this tells is one's own perhaps: unknown.
 */
static enum host_state chooser_has_kernels(const struct chooser *c, const char *gfx)
{
    const struct gpu_code *code = c->dist ? model_gpu_code_of_dist(c->m, c->dist) : NULL;
    if (code && code->n_targets) {
        struct gpu_answer answer;
        gpu_code_serves_amd(code, gfx, &answer);
        return answer.serves == GPU_SERVES_NATIVE || answer.serves == GPU_SERVES_JIT ? HOST_YES
               : answer.serves == GPU_SERVES_UNKNOWN || code->incomplete             ? HOST_UNKNOWN
                                                                                     : HOST_NO;
    }
    const struct kb_build *own = installed_row(c);
    const struct kb_build *row = own && own->gfx.n ? own : same_rocm(c, own);
    if (row) {
        return choose_strs_list(&row->gfx, gfx) ? HOST_YES : HOST_NO;
    }
    if (own && own->rocm) {
        return in_a_release(c, gfx, own->rocm) ? HOST_YES : HOST_UNKNOWN;
    }
    if (c->dist) {
        return HOST_UNKNOWN;
    }
    return official_build(c, choose_app_name(c->choice->app), gfx) || in_a_release(c, gfx, NULL)
               ? HOST_YES
               : HOST_NO;
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
    const struct kb_build *b = official_build(c, app, gfx);
    return b ? arena_printf(c->a, "install %s %s for ROCm %s, which has kernels for %s", app,
                            b->versions, b->rocm, gfx)
             : NULL;
}

/* No kernels: for another target with the same instruction set there may be. */
static bool ask_override(struct chooser *c, struct choose_candidate *x, const char *gfx)
{
    const char *who = c->dist ? app_text(c) : "official ROCm builds";
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
                              app_text(c), gfx));
    }
    return state == HOST_NO && ask_override(c, x, gfx);
}

/* ------------------------------------------------------------------ findings */

/* The first error in the application's own process. What has no script is about the machine, and
 * host_judge() tells of each GPU apart. With an override that ask_gfx() chose, missing kernels are
 * none. */
static const struct diag_finding *first_error(const struct chooser *c, const char *override)
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

/* Whether the import itself fails, on whatever device. */
static bool import_fails(const struct chooser *c)
{
    for (size_t i = 0; c->dist && i < c->m->processes.n; i++) {
        const struct model_process *p = c->m->processes.items[i];
        if (p->fatal || (p->ldso && p->ldso->start_failed)) {
            return true;
        }
    }
    return false;
}

/* A sentence as a part of another: without its stop. */
static const char *clause(struct arena *a, const char *sentence)
{
    size_t n = strlen(sentence);
    return n && sentence[n - 1] == '.' ? arena_strndup(a, sentence, n - 1) : sentence;
}

static const char *step_of(const struct chooser *c, const struct diag_finding *f)
{
    return f->repairs.n == 0 ? NULL
           : f->repairs.items[0].command
               ? arena_printf(c->a, "%s: %s", clause(c->a, f->repairs.items[0].text),
                              f->repairs.items[0].command)
               : f->repairs.items[0].text;
}

static bool ask_findings(struct chooser *c, struct choose_candidate *x)
{
    const struct diag_finding *f = first_error(c, x->override);
    if (c->o->standing) {
        return against(x, c->o->standing_cause, clause(c->a, c->o->standing), NULL);
    }
    return f && against_by(x, diag_causes[f->cause].id, clause(c->a, f->summary), step_of(c, f),
                           f->repairs.n ? f->repairs.items[0].command : NULL);
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
    const struct choose_ran *r = ran_on(c, x);
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
    const struct choose_ran *r = ran_on(c, x);
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

/* The best type that fits. On a GPU whose memory is not known, the smallest; of an unknown need,
 * the best. */
static bool take_compute(struct chooser *c, struct choose_candidate *x,
                         const struct kb_model *model)
{
    enum choose_compute list[CHOOSE_COMPUTES];
    const char *capability = x->gpu && x->gpu->compute_capability.state == HOST_YES
                                 ? x->gpu->compute_capability.value
                                 : NULL;
    const struct choose_ran *r = x->gpu && c->o->was_run ? ran_on(c, x) : NULL;
    const struct choose_computes_for f = {.app = c->choice->app,
                                          .device = x->device,
                                          .capability = capability,
                                          .machine = on_arm(c) ? "aarch64" : "x86_64",
                                          .given = c->o->compute_given,
                                          .compute = c->o->compute,
                                          .formats = r ? r->formats : CHOOSE_FORMATS_ALL};
    size_t n = choose_computes(&c->models, c->a, &f, list);
    bool memory_unknown = x->gpu && !x->available_bytes;
    for (size_t i = 0; i < n; i++) {
        struct choose_memory need = required(c, model, x->device, list[i]);
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

static const char *need_text(struct chooser *c, const struct choose_candidate *x)
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
    if (!take_compute(c, x, c->model)) {
        return against(x, "no-compute-type",
                       c->o->compute_given
                           ? arena_printf(c->a, "%s does not run well on it with %s",
                                          choose_compute_name(c->o->compute),
                                          choose_app_name(c->choice->app))
                           : "no compute type is known to run on it",
                       NULL);
    }
    if (x->fits != HOST_NO) {
        return false;
    }
    return against(x, "too-small",
                   arena_printf(c->a, "%s, and it has %s", need_text(c, x),
                                choose_gib(c->a, x->available_bytes)),
                   NULL);
}

/* ------------------------------------------------------------------ candidates */

typedef bool question(struct chooser *c, struct choose_candidate *x);

static void candidate_judge(struct chooser *c, struct choose_candidate *x)
{
    static question *const questions[] = {ask_state, ask_vendor,   ask_hidden, ask_build,
                                          ask_gfx,   ask_findings, ask_ran};
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

static void candidates_add(struct chooser *c)
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

/* Positive when x is the better one. What fits comes before what may fit, a card before integrated
 * graphics, which have more memory and are slower; then the more precise type, the larger memory;
 * at last the lower index. */
static int candidate_compare(const struct choose_candidate *x, const struct choose_candidate *y)
{
    if (x->fits != y->fits) {
        return x->fits == HOST_YES ? 1 : -1;
    }
    if (x->gpu && y->gpu && x->gpu->integrated != y->gpu->integrated) {
        return x->gpu->integrated ? -1 : 1;
    }
    if (x->compute != y->compute) {
        return x->compute < y->compute ? 1 : -1;
    }
    if (x->available_bytes != y->available_bytes) {
        return x->available_bytes > y->available_bytes ? 1 : -1;
    }
    return x->index == y->index ? 0 : x->index < y->index ? 1 : -1;
}

static bool is_explicit(const struct chooser *c)
{
    return c->o->device.kind == CHOOSE_DEVICE_CUDA || c->o->device.kind == CHOOSE_DEVICE_ROCM;
}

static bool is_sure(const struct chooser *c, enum choose_device_kind device)
{
    return device == CHOOSE_DEVICE_ROCM ? c->rocm.sure : c->cuda.sure;
}

/* Which card a number means is not known where the list is not sure; then all of them count. */
static bool is_asked_for(const struct chooser *c, const struct choose_candidate *x)
{
    const struct choose_device *d = &c->o->device;
    const struct choose_visible *list = d->kind == CHOOSE_DEVICE_ROCM ? &c->rocm : &c->cuda;
    return !is_explicit(c) ||
           (x->device == d->kind && (d->index < 0 || x->index == d->index ||
                                     (!list->sure && (size_t)d->index < list->shown)));
}

/* Of cards of which any may be the device 0, the least counts: what it can do, all can. */
static struct choose_candidate *candidate_least(struct choose_result *choice,
                                                enum choose_device_kind device)
{
    struct choose_candidate *worst = NULL;
    for (size_t i = 0; i < choice->candidates.n; i++) {
        struct choose_candidate *x = &choice->candidates.items[i];
        if (x->device != device || x->index < 0) {
            continue;
        }
        if (!x->usable) {
            return NULL;
        }
        worst = !worst || candidate_compare(x, worst) < 0 ? x : worst;
    }
    return worst;
}

static struct choose_candidate *best_gpu(struct chooser *c)
{
    struct choose_candidate *best = NULL;
    for (size_t i = 0; i < c->choice->candidates.n; i++) {
        struct choose_candidate *x = &c->choice->candidates.items[i];
        if (!x->gpu || !x->usable || !is_asked_for(c, x) ||
            (!is_sure(c, x->device) && x != candidate_least(c->choice, x->device))) {
            continue;
        }
        best = !best || candidate_compare(x, best) > 0 ? x : best;
    }
    return best;
}

/* What is said of the GPU when none is taken: of a card that the user has and lost rather than of
 * integrated graphics; of the first. */
static const struct choose_candidate *spokesman(const struct chooser *c)
{
    const struct choose_candidate *found = NULL;
    for (size_t i = 0; i < c->choice->candidates.n; i++) {
        const struct choose_candidate *x = &c->choice->candidates.items[i];
        if (x->gpu && !x->usable && is_asked_for(c, x) &&
            (!found || (found->gpu->integrated && !x->gpu->integrated) ||
             (strcmp(found->cause, "vendor-not-served") == 0 &&
              strcmp(x->cause, "vendor-not-served") != 0 && !x->gpu->integrated))) {
            found = x;
        }
    }
    return found;
}

/* ------------------------------------------------------------------ threads */

/* CTranslate2's default number of threads (docs/parallel.md): enough for what the CPU does beside a
 * GPU. */
enum { THREADS_BESIDE_GPU = 4 };

static void take_threads(struct chooser *c, bool gpu)
{
    const struct host_cpu *cpu = &c->h->cpu;
    struct choose_result *r = c->choice;
    if (cpu->cores.state != HOST_YES || cpu->cores.number == 0) {
        r->threads = THREADS_BESIDE_GPU;
        r->threads_why = arena_printf(c->a, "the number of cores is not known (%s)",
                                      cpu->cores.why ? cpu->cores.why : "none");
        return;
    }
    unsigned cores = cpu->cores.number > 4096 ? 4096 : (unsigned)cpu->cores.number;
    r->threads = gpu && cores > THREADS_BESIDE_GPU ? THREADS_BESIDE_GPU : cores;
    const char *limits = cpu->quota.state == HOST_YES && cpu->cores_online.state == HOST_YES &&
                                 cores < cpu->cores_online.number
                             ? " within the quota of the control group"
                             : "";
    r->threads_why =
        arena_printf(c->a, "%u %s usable%s; which of them share a physical core is not looked at",
                     cores, cores == 1 ? "processor is" : "processors are", limits);
}

/* ------------------------------------------------------------------ the answer */

static const char *argument(const struct chooser *c, const struct choose_candidate *x)
{
    bool gpu = x->gpu != NULL;
    switch (c->choice->app) {
    case CHOOSE_APP_CTRANSLATE2: return gpu ? "cuda" : "cpu";
    case CHOOSE_APP_TORCH: // torch calls ROCm's devices cuda as well
        return gpu ? arena_printf(c->a, "cuda:%ld", x->index) : "cpu";
    case CHOOSE_APP_ONNXRUNTIME:
    case CHOOSE_APPS: break;
    }
    for (size_t i = 0; gpu && i < sizeof packages / sizeof *packages; i++) {
        bool is = c->dist ? strcmp(c->dist->name_normal, packages[i].package) == 0
                          : packages[i].build ==
                                (x->device == CHOOSE_DEVICE_ROCM ? BUILD_ROCM : BUILD_CUDA);
        if (is && packages[i].provider) {
            return packages[i].provider;
        }
    }
    return gpu ? "CUDAExecutionProvider" : "CPUExecutionProvider";
}

static void export(struct chooser *c, const char *name, const char *value)
{
    VEC_PUSH(c->a, &c->choice->exports, (struct choose_export){name, value});
}

static void take_exports(struct chooser *c, const struct choose_candidate *x)
{
    struct choose_result *r = c->choice;
    const char *threads = arena_printf(c->a, "%u", r->threads);
    export(c, "GPUMEND_DEVICE", choose_device_name(x->device));
    export(c, "GPUMEND_DEVICE_INDEX", arena_printf(c->a, "%ld", x->gpu ? x->index : 0));
    export(c, "GPUMEND_APP_DEVICE", r->argument);
    export(c, "GPUMEND_COMPUTE_TYPE", choose_compute_name(x->compute));
    export(c, "GPUMEND_THREADS", threads);
    export(c, "GPUMEND_REASON", r->reason);
    export(c, "OMP_NUM_THREADS", threads);
    if (x->device == CHOOSE_DEVICE_CUDA && c->cuda.set_order) {
        export(c, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    }
    if (x->override) {
        export(c, "HSA_OVERRIDE_GFX_VERSION", x->override);
    }
}

static const char *memory_text(struct chooser *c, const struct choose_candidate *x)
{
    if (x->required.how == CHOOSE_MEMORY_UNKNOWN) {
        return c->model ? arena_printf(c->a, "how much memory %s takes with %s is not known",
                                       c->choice->model, choose_app_name(c->choice->app))
                        : "no model was named, so memory is not checked";
    }
    if (x->fits == HOST_UNKNOWN) {
        return arena_printf(c->a, "%s; whether that fits cannot be determined: %s", need_text(c, x),
                            x->available_why);
    }
    return arena_printf(c->a, "%s, and it has %s", need_text(c, x),
                        choose_gib(c->a, x->available_bytes));
}

static const char *gpu_sentence(struct chooser *c, const struct choose_candidate *x)
{
    const char *which =
        is_sure(c, x->device)
            ? x->name
            : arena_printf(c->a, "One of several GPUs, treated as the smallest of them (%s),",
                           x->name);
    return arena_printf(c->a, "%s is used as %s %ld: %s.", which, choose_device_name(x->device),
                        x->index, memory_text(c, x));
}

static const char *counted_text(struct chooser *c, const char *runtime,
                                const struct choose_visible *list)
{
    size_t n = list->gpus.n;
    return arena_printf(c->a, "%s counts %s here", runtime,
                        n == 0   ? "no GPU"
                        : n == 1 ? "one GPU"
                                 : arena_printf(c->a, "%zu GPUs", n));
}

/* Why there is no GPU to use. */
static const char *no_gpu_why(struct chooser *c, const struct choose_candidate *x)
{
    struct choose_result *r = c->choice;
    if (x) {
        r->cause = x->cause;
        r->step = x->step;
        r->command = x->command;
        return arena_printf(c->a, "%s: %s", x->name, x->why);
    }
    if (c->h->pci.state == HOST_UNKNOWN) {
        r->cause = "gpus-unknown";
        return arena_printf(c->a, "which GPUs there are cannot be determined (%s: %s)",
                            c->h->pci.where, c->h->pci.why);
    }
    if (is_explicit(c) ? !is_sure(c, c->o->device.kind) : !c->cuda.sure || !c->rocm.sure) {
        r->cause = "device-unknown";
        return "which GPU the device 0 is cannot be determined, and not all of them would do";
    }
    r->cause = "no-gpu";
    return !is_explicit(c)                           ? "there is no supported GPU"
           : c->o->device.kind == CHOOSE_DEVICE_CUDA ? counted_text(c, "CUDA", &c->cuda)
                                                     : counted_text(c, "ROCm", &c->rocm);
}

/* What was asked for and cannot be had. */
static const char *refusal(struct chooser *c, const char *why)
{
    const struct choose_device *d = &c->o->device;
    const char *name = choose_device_name(d->kind);
    return !is_explicit(c) ? arena_printf(c->a, "A GPU is required, and none can be used: %s.", why)
           : d->index < 0  ? arena_printf(c->a, "No %s device can be used: %s.", name, why)
                           : arena_printf(c->a, "%s:%d cannot be used: %s.", name, d->index, why);
}

/* The largest model of Whisper that fits a device which is usable but for its memory. */
static void suggest_smaller(struct chooser *c)
{
    const struct kb_model *best = NULL;
    for (size_t i = 0; c->model && !c->o->memory_bytes && i < c->models.n; i++) {
        const struct kb_model *m = &c->models.rows[i];
        bool larger = m->kind == KB_MODEL_MODEL && m->parameters_m < c->model->parameters_m &&
                      (!best || m->parameters_m > best->parameters_m) &&
                      strcmp(m->engine, "openai-whisper") == 0;
        for (size_t k = 0; larger && k < c->choice->candidates.n; k++) {
            struct choose_candidate x = c->choice->candidates.items[k];
            bool small =
                x.cause && strcmp(x.cause, "too-small") == 0 && (x.gpu || !c->o->require_gpu);
            if (small && take_compute(c, &x, m) && x.fits == HOST_YES) {
                best = m;
                c->choice->smaller = arena_printf(
                    c->a, "%s would fit (%s, %s, %s)", m->model, x.gpu ? x.name : "on the CPU",
                    choose_compute_name(x.compute), choose_gib(c->a, x.required.bytes));
                break;
            }
        }
    }
}

static void nothing_works(struct chooser *c, const char *reason)
{
    c->choice->reason = reason;
    c->choice->verdict = DIAG_BROKEN;
    suggest_smaller(c);
}

/* What would tell the memory that no file does. */
static const char *probe_step(struct chooser *c)
{
    const char *model = c->choice->model;
    const char *options =
        arena_printf(c->a, "%s%s%s%s%s%s--probe", model ? "--model " : "",
                     model ? str_shell_word(c->a, model) : "", model ? " " : "",
                     c->o->compute_given ? "--compute-type " : "",
                     c->o->compute_given ? choose_compute_name(c->o->compute) : "",
                     c->o->compute_given ? " " : "");
    return c->m->root->is_host ? model_command(c->m, "choose", options)
                               : arena_printf(c->a, "gpumend choose %s (on that machine)", options);
}

static void candidate_settle(struct chooser *c, struct choose_candidate *x, const char *reason)
{
    struct choose_result *r = c->choice;
    if (x->gpu && !x->available_bytes && !c->o->was_run) {
        r->step = probe_step(c);
        r->command = c->m->root->is_host ? r->step : NULL;
    }
    x->chosen = true;
    r->chosen = x;
    r->reason = reason;
    r->verdict =
        x->fits == HOST_UNKNOWN && (c->model || c->o->memory_bytes) ? DIAG_CANNOT_TELL : DIAG_OK;
    take_threads(c, x->gpu != NULL);
    r->argument = argument(c, x);
    take_exports(c, x);
}

static void say_not_chosen(struct chooser *c, const struct choose_candidate *best)
{
    for (size_t i = 0; i < c->choice->candidates.n; i++) {
        struct choose_candidate *x = &c->choice->candidates.items[i];
        if (x == best || x->why || !x->gpu || !is_sure(c, x->device)) {
            continue;
        }
        bool alike = x->device == best->device && strcmp(x->name, best->name) == 0;
        x->why = alike                   ? "it is of the same kind"
                 : best->fits != x->fits ? "whether the model fits is not known of it"
                 : x->gpu->integrated && !best->gpu->integrated
                     ? "it is integrated graphics, and slower than a card"
                 : best->compute != x->compute
                     ? arena_printf(c->a, "it would run in %s", choose_compute_name(x->compute))
                     : "it has less memory";
    }
}

static void chooser_decide(struct chooser *c)
{
    struct choose_result *r = c->choice;
    struct choose_candidate *cpu = &r->candidates.items[r->candidates.n - 1];
    struct choose_candidate *gpu = best_gpu(c);
    const struct diag_finding *f = first_error(c, NULL);
    if (import_fails(c) && f) {
        r->cause = diag_causes[f->cause].id;
        r->step = step_of(c, f);
        r->command = f->repairs.n ? f->repairs.items[0].command : NULL;
        nothing_works(c, arena_printf(c->a, "%s does not start here, on any device: %s.",
                                      app_text(c), clause(c->a, f->summary)));
        return;
    }
    if (gpu) {
        candidate_settle(c, gpu, gpu_sentence(c, gpu));
        say_not_chosen(c, gpu);
        return;
    }
    const char *why = no_gpu_why(c, spokesman(c));
    if (c->o->require_gpu || is_explicit(c)) {
        nothing_works(c, refusal(c, why));
    } else if (!cpu->usable) {
        nothing_works(c, arena_printf(c->a, "Nothing fits: %s; the CPU: %s.", why, cpu->why));
    } else {
        r->fallback = true;
        candidate_settle(c, cpu, arena_printf(c->a, "The CPU is used: %s.", why));
    }
}

/* An installed whisperx has another list of types than the CTranslate2 below it. */
static void say_whisperx(struct chooser *c)
{
    const struct choose_candidate *x = c->choice->chosen;
    bool mixed = x && (x->compute == CHOOSE_INT8_FLOAT16 || x->compute == CHOOSE_INT8_FLOAT32);
    if (mixed && !c->o->whisperx && c->choice->app == CHOOSE_APP_CTRANSLATE2 && c->m->env &&
        py_env_by_dist(c->m->env, "whisperx")) {
        VEC_PUSH(c->a, &c->choice->notes,
                 arena_printf(c->a,
                              "whisperx has no --compute_type %s: with int8, CTranslate2 takes "
                              "that here (gpumend choose --app whisperx)",
                              choose_compute_name(x->compute)));
    }
}

static void chooser_say_notes(struct chooser *c)
{
    struct choose_result *r = c->choice;
    say_whisperx(c);
    if (r->chosen && r->chosen->device == CHOOSE_DEVICE_CUDA && c->cuda.set_order) {
        VEC_PUSH(c->a, &r->notes,
                 "the GPUs differ: the index is right only with CUDA_DEVICE_ORDER=PCI_BUS_ID, "
                 "because CUDA otherwise orders the fastest first");
    }
    if (r->chosen && r->chosen->device == CHOOSE_DEVICE_CUDA && !c->cuda.sure) {
        VEC_PUSH(c->a, &r->notes,
                 arena_printf(c->a,
                              "which card %s names is not in any file; the UUID of a card says it, "
                              "or CUDA_DEVICE_ORDER=PCI_BUS_ID with indices in that order",
                              c->cuda.filter));
    }
    if (r->chosen && r->chosen->gpu && r->chosen->gpu->mig.n) {
        VEC_PUSH(c->a, &r->notes,
                 "a program uses one MIG instance; which one, "
                 "CUDA_VISIBLE_DEVICES=MIG-UUID chooses");
    }
    if (r->chosen && r->chosen->gpu && c->build == BUILD_UNKNOWN && c->dist) {
        VEC_PUSH(c->a, &r->notes,
                 arena_printf(c->a, "whether %s was built for this GPU its version does not say",
                              app_text(c)));
    }
    if (r->chosen && r->chosen->device == CHOOSE_DEVICE_CUDA && c->o->compute_given &&
        r->chosen->gpu->compute_capability.state != HOST_YES && !c->o->was_run) {
        VEC_PUSH(c->a, &r->notes,
                 arena_printf(c->a, "whether %s runs on it cannot be determined: %s",
                              choose_compute_name(c->o->compute),
                              r->chosen->gpu->compute_capability.why));
    }
    const struct choose_ran *ran = r->chosen && r->chosen->gpu ? ran_on(c, r->chosen) : NULL;
    if (c->o->was_run && ran && !(ran->formats & CHOOSE_FORMAT_FLOAT16)) {
        VEC_PUSH(c->a, &r->notes,
                 "float16 is not offered: the probe has not seen a product in it "
                 "that was right");
    }
    if (!c->dist && c->m->host && c->m->host->windows.is_windows.state == HOST_YES) {
        VEC_PUSH(c->a, &r->notes,
                 "the Python packages of a Windows tree are not looked at here: whether a build of "
                 "one works was not judged");
    } else if (!c->dist) {
        const char *where = c->m->env ? arena_printf(c->a, "in %s", c->m->env->prefix) : "here";
        VEC_PUSH(c->a, &r->notes,
                 arena_printf(c->a,
                              "%s is not installed %s: whether a build of it works was not "
                              "judged",
                              choose_app_name(r->app), where));
    }
}

static int chooser_load(struct chooser *c, struct gm_err *err)
{
    struct kb *kb = c->m->kb;
    int rc = kb_models(kb, &c->models, err);
    rc = rc < 0 ? rc : kb_gpus(kb, &c->gpus, err);
    rc = rc < 0 ? rc : kb_rocms(kb, &c->rocms, err);
    return rc < 0 ? rc : kb_builds(kb, &c->builds, err);
}

/* The running machine, of which neither /proc nor /sys can be seen: all is unknown. */
static const struct host *unseen_host(struct model *m)
{
    struct host *h = arena_alloc(m->arena, sizeof *h);
    *h = (struct host){.pci = {.where = "/sys", .why = "neither /sys nor /proc can be seen"}};
    h->cpu.cores.why = h->cpu.memory_total.why = h->pci.why;
    return h;
}

int choose_best(struct model *m, const struct diag_report *report, const struct choose_options *o,
                struct choose_result *ret, struct gm_err *err)
{
    struct choose_result choice = {0};
    struct chooser c = {
        .m = m, .a = m->arena, .h = m->host, .report = report, .o = o, .choice = &choice};
    if (!m->host && !m->root->is_host) {
        return gm_err_set(err, GM_ERR_LOOK, "%s", m->host_why);
    }
    c.h = m->host ? m->host : unseen_host(m);
    int rc = chooser_load(&c, err);
    if (rc < 0) {
        return rc;
    }
    c.model = o->model ? choose_model_find(&c.models, o->model) : NULL;
    if (o->model && !c.model) {
        return choose_model_unknown(&c.models, c.a, o->model, err);
    }
    choice.model = c.model ? o->model : NULL;
    c.dist = choose_app_of(m, o, &choice.app);
    choice.app_version = c.dist ? c.dist->version : NULL;
    c.build = build_of(&c);
    choose_visible_cuda(c.h, &o->variables, c.a, &c.cuda);
    choose_visible_rocm(c.h, &o->variables, c.a, &c.rocm);
    candidates_add(&c);
    chooser_decide(&c);
    chooser_say_notes(&c);
    *ret = choice;
    return 0;
}
