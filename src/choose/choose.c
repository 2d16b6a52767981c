/* The ranking of the candidates, and the answer in words. */
#include "choose/choose.h"

#include <string.h>

#include "base/str.h"
#include "choose/chooser.h"
#include "py/dist.h"

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
    const char *provider =
        gpu ? chooser_provider(c, x->device == CHOOSE_DEVICE_ROCM ? BUILD_ROCM : BUILD_CUDA) : NULL;
    return provider ? provider : gpu ? "CUDAExecutionProvider" : "CPUExecutionProvider";
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
        return arena_printf(c->a, "%s; whether that fits cannot be determined: %s",
                            chooser_need_text(c, x), x->available_why);
    }
    return arena_printf(c->a, "%s, and it has %s", chooser_need_text(c, x),
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
            if (small && chooser_take_compute(c, &x, m) && x.fits == HOST_YES) {
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

static void chooser_decide(struct chooser *c)
{
    struct choose_result *r = c->choice;
    struct choose_candidate *cpu = &r->candidates.items[r->candidates.n - 1];
    struct choose_candidate *gpu = best_gpu(c);
    const struct diag_finding *f = chooser_first_error(c, NULL);
    if (import_fails(c) && f) {
        r->cause = diag_causes[f->cause].id;
        r->step = chooser_step_of(c, f);
        r->command = f->repairs.n ? f->repairs.items[0].command : NULL;
        nothing_works(c, arena_printf(c->a, "%s does not start here, on any device: %s.",
                                      chooser_app_text(c), chooser_clause(c->a, f->summary)));
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

/* Whether a device was put aside for this cause. */
static bool was_refused(const struct choose_result *r, const char *cause)
{
    for (size_t i = 0; i < r->candidates.n; i++) {
        const struct choose_candidate *x = &r->candidates.items[i];
        if (x->cause && strcmp(x->cause, cause) == 0) {
            return true;
        }
    }
    return false;
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
                              chooser_app_text(c)));
    }
    if (r->chosen && r->chosen->device == CHOOSE_DEVICE_CUDA && c->o->compute_given &&
        r->chosen->gpu->compute_capability.state != HOST_YES && !c->o->was_run) {
        VEC_PUSH(c->a, &r->notes,
                 arena_printf(c->a, "whether %s runs on it cannot be determined: %s",
                              choose_compute_name(c->o->compute),
                              r->chosen->gpu->compute_capability.why));
    }
    const struct choose_ran *ran =
        r->chosen && r->chosen->gpu ? chooser_ran_on(c, r->chosen) : NULL;
    if (c->o->was_run && ran && ran->products_absent) {
        VEC_PUSH(
            c->a, &r->notes,
            "the probe ran a kernel on it and no matrix product, whose stages are not available "
            "on Windows: whether the libraries work on it is unknown");
    }
    if (c->o->was_run && ran && !(ran->formats & CHOOSE_FORMAT_FLOAT16)) {
        VEC_PUSH(c->a, &r->notes,
                 "float16 is not offered: the probe has not seen a product in it "
                 "that was right");
    }
    if (c->m->host && c->m->host->windows.is_dirty) {
        VEC_PUSH(c->a, &r->notes,
                 "the registry " HOST_DIRTY_SHORT ", which may be those of a GPU or its driver");
    }
    if (!c->dist && c->m->host && c->m->host->windows.is_windows.state == HOST_YES) {
        VEC_PUSH(c->a, &r->notes,
                 "the Python packages of a Windows tree are not looked at here: whether a build of "
                 "one works was not judged");
    } else if (!c->dist && !was_refused(r, "no-build-serves")) {
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
    rc = rc < 0 ? rc : kb_drivers(kb, &c->drivers, err);
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
    c.build = chooser_build_of(&c);
    choose_visible_cuda(c.h, &o->variables, c.a, &c.cuda);
    choose_visible_rocm(c.h, &o->variables, c.a, &c.rocm);
    chooser_add_candidates(&c);
    chooser_decide(&c);
    chooser_say_notes(&c);
    *ret = choice;
    return 0;
}
