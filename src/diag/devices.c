/*
 * What stands between the programs and the GPUs. host_judge() has judged (src/host); here its
 * problems become findings, so that `devices` and `check` say the same.
 *
 * Only what is known is a finding. That there is no GPU is none. A GPU that cannot be used is an
 * error where the target has a program that would use a GPU of that vendor and no other of them is
 * usable; without a target, for every GPU that counts.
 */
#include <string.h>

#include "diag/internal.h"
#include "model/package.h"
#include "py/dist.h"

/* ------------------------------------------------------------------ who wants a GPU */

struct asked {
    enum host_vendor vendor;
    const char *name; // glob
};

static const struct asked asked_for[] = {
    {HOST_NVIDIA, "libcuda.so*"},   {HOST_NVIDIA, "libcudart*.so*"},
    {HOST_NVIDIA, "libcublas.so*"}, {HOST_NVIDIA, "libcublasLt.so*"},
    {HOST_NVIDIA, "libcudnn*.so*"}, {HOST_NVIDIA, "libnvrtc.so*"},
    {HOST_AMD, "libamdhip64*.so*"}, {HOST_AMD, "libhsa-runtime64*.so*"},
    {HOST_AMD, "librocblas*.so*"},  {HOST_INTEL, "libze_loader.so*"},
    {HOST_INTEL, "libsycl.so*"},
};

static bool gpu_is_asked(enum host_vendor vendor, const char *name)
{
    for (size_t i = 0; i < sizeof asked_for / sizeof *asked_for; i++) {
        if (asked_for[i].vendor == vendor && str_glob(asked_for[i].name, path_base(name))) {
            return true;
        }
    }
    return false;
}

/* What a package opens at will counts only where it cannot do without. */
static const char *wanted_by_attempt(const struct model_process *p, enum host_vendor vendor)
{
    for (size_t i = 0; i < p->attempts.n; i++) {
        const struct model_attempt *at = &p->attempts.items[i];
        bool counts = at->required || at->source == MODEL_FROM_MAPS;
        for (size_t k = 0; k < at->n_names && counts; k++) {
            if (gpu_is_asked(vendor, at->names[k])) {
                return at->package ? at->package : path_base(at->caller->path);
            }
        }
    }
    return NULL;
}

/* The loader stops at the first library that is missing: what else the file needs is not asked for
 * then. */
static bool needs_gpu_library(const struct ldso_request *r, enum host_vendor vendor)
{
    const struct ldso_file *f = r->caller && r->outcome == LDSO_NOT_FOUND ? r->caller->file : NULL;
    bool asked = gpu_is_asked(vendor, r->name);
    for (size_t i = 0; f && i < f->image.n_needs && !asked; i++) {
        asked = gpu_is_asked(vendor, f->image.needs[i].name);
    }
    return asked;
}

static const char *wanted_by_request(const struct model_process *p, enum host_vendor vendor)
{
    for (size_t i = 0; p->ldso && i < p->ldso->requests.n; i++) {
        const struct ldso_request *r = p->ldso->requests.items[i];
        if (r->kind == LDSO_NEEDED && needs_gpu_library(r, vendor)) {
            return r->caller ? path_base(r->caller->path) : r->name;
        }
    }
    return NULL;
}

/* A program with kernels of its own: the runtime that opens the driver is often linked into it. */
static const char *wanted_by_code(struct diag *d, const struct model_process *p,
                                  enum host_vendor vendor)
{
    diag_own_code_list own = diag_own_codes(d->m, p);
    for (size_t i = 0; i < own.n; i++) {
        const struct gpu_code *code = own.items[i].code;
        if (vendor == HOST_NVIDIA ? code->cuda.n_native || code->cuda.n_ptx
                                  : vendor == HOST_AMD && code->n_targets) {
            return path_base(own.items[i].object->path);
        }
    }
    return NULL;
}

static const char *wanted_by_torch(struct diag *d, enum host_vendor vendor)
{
    const struct model_torch *t = model_torch(d->m);
    const char *built_for = vendor == HOST_NVIDIA  ? t->cuda
                            : vendor == HOST_AMD   ? t->hip
                            : vendor == HOST_INTEL ? t->xpu
                                                   : NULL;
    return built_for ? "torch" : NULL;
}

bool diag_wants(struct diag *d, enum host_vendor vendor, const char **ret_who)
{
    *ret_who = NULL;
    for (size_t i = 0; i < d->m->processes.n && !*ret_who; i++) {
        const struct model_process *p = d->m->processes.items[i];
        const char *who = wanted_by_attempt(p, vendor);
        *ret_who = who ? who : wanted_by_request(p, vendor);
        *ret_who = *ret_who ? *ret_who : wanted_by_code(d, p, vendor);
    }
    if (!*ret_who) {
        *ret_who = wanted_by_torch(d, vendor);
    }
    return *ret_who || d->m->processes.n == 0;
}

bool diag_asks_for_gpu(struct model *m, enum host_vendor vendor, const char **ret_who)
{
    struct diag d = {.m = m, .a = m->arena};
    *ret_who = NULL;
    return m->processes.n && diag_wants(&d, vendor, ret_who);
}

/* ------------------------------------------------------------------ problems and causes */

/* A problem as a cause: outside a container, inside one, in WSL. */
struct problem_row {
    const char *id;
    enum diag_cause plain, inside, wsl;
    const char *culprit; // NULL: the problem's own, or the GPU
};
#define ALWAYS(cause) (cause), (cause), (cause)

static const struct problem_row rows[] = {
    {"reserved-for-vm", ALWAYS(DIAG_GPU_RESERVED), NULL},
    {"nouveau", ALWAYS(DIAG_NOUVEAU), "nouveau"},
    {"other-driver", ALWAYS(DIAG_DRIVER_MISSING), NULL},
    {"no-driver", ALWAYS(DIAG_DRIVER_MISSING), NULL},
    {"no-module", ALWAYS(DIAG_DRIVER_NOT_BUILT), "nvidia"},
    {"not-loaded", ALWAYS(DIAG_DRIVER_NOT_LOADED), "nvidia"},
    {"not-bound", ALWAYS(DIAG_DRIVER_REFUSES_GPU), NULL},
    {"driver-too-old", ALWAYS(DIAG_DRIVER_REFUSES_GPU), NULL},
    {"driver-too-new", ALWAYS(DIAG_DRIVER_REFUSES_GPU), NULL},
    {"wrong-module", ALWAYS(DIAG_DRIVER_REFUSES_GPU), NULL},
    {"switched-off", ALWAYS(DIAG_DRIVER_NOT_LOADED), "nvidia"},
    {"secure-boot", ALWAYS(DIAG_DRIVER_NOT_LOADED), "nvidia"},
    {"build-failed", ALWAYS(DIAG_DRIVER_NOT_BUILT), "nvidia"},
    {"no-kfd", ALWAYS(DIAG_KFD_MISSING), "amdgpu"},
    {"not-in-kfd", ALWAYS(DIAG_KFD_MISSING), "amdgpu"},
    {"excluded", ALWAYS(DIAG_GPU_EXCLUDED), NULL},
    {"not-injected", ALWAYS(DIAG_CONTAINER_NO_GPU), NULL},
    {"uvm-not-injected", ALWAYS(DIAG_UVM_MISSING), "/dev/nvidia-uvm"},
    {"nodes-missing", ALWAYS(DIAG_NODES_MISSING), NULL},
    {"stale-node", ALWAYS(DIAG_NODE_STALE), NULL},
    {"uvm-not-loaded", ALWAYS(DIAG_UVM_MISSING), "nvidia_uvm"},
    {"device-cgroup", ALWAYS(DIAG_DEVICE_CGROUP), NULL},
    {"permission", ALWAYS(DIAG_DEVICE_PERMISSION), NULL},
    {"version-mismatch", ALWAYS(DIAG_DRIVER_MISMATCH), "libcuda.so.1"},
    {"no-libraries", DIAG_DRIVER_LIBRARIES_MISSING, DIAG_CONTAINER_NO_LIBRARIES,
     DIAG_WSL_DRIVER_MISSING, "libcuda.so.1"},
    {"not-mounted", ALWAYS(DIAG_CONTAINER_NO_LIBRARIES), "libdxcore.so"},
    {"level-zero", ALWAYS(DIAG_LEVEL_ZERO_MISSING), NULL},
    {"fabric-manager", ALWAYS(DIAG_FABRIC_MANAGER), "nvidia-fabricmanager"},
    {"forward-compatibility-wrong", ALWAYS(DIAG_FORWARD_COMPAT), NULL},
    {"hidden", ALWAYS(DIAG_GPU_HIDDEN), NULL},
    {"no-mig-instance", ALWAYS(DIAG_MIG_INSTANCE_MISSING), NULL},
    {"no-dxg", ALWAYS(DIAG_WSL_DRIVER_MISSING), "/dev/dxg"},
    {"no-windows-driver", ALWAYS(DIAG_WSL_DRIVER_MISSING), NULL},
    {"wsl-shadowed", ALWAYS(DIAG_WSL_SHADOWED), NULL},
    {"override-wrong", ALWAYS(DIAG_HSA_OVERRIDE), "HSA_OVERRIDE_GFX_VERSION"},
    {"override-unreadable", ALWAYS(DIAG_HSA_OVERRIDE), "HSA_OVERRIDE_GFX_VERSION"},
    {"old-kernel", ALWAYS(DIAG_AMD_KERNEL_OLD), "amdgpu"},
};

static const struct problem_row *problem_row_of(const struct host_problem *p)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].id, p->id) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

static enum diag_cause gpu_cause(const struct host *h, const struct host_gpu *g,
                                 const struct problem_row *row)
{
    return strcmp(g->kind, "wsl") == 0             ? row->wsl
           : h->container.inside.state == HOST_YES ? row->inside
                                                   : row->plain;
}

/* ------------------------------------------------------------------ how much it matters */

/* Another GPU of the vendor that programs can use. */
static bool another_serves(const struct host *h, const struct host_gpu *g)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *x = &h->gpus.items[i];
        if (x != g && x->vendor == g->vendor && x->usable == HOST_YES) {
            return true;
        }
    }
    return false;
}

static bool another_counts(const struct host *h, const struct host_gpu *g)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *x = &h->gpus.items[i];
        if (x != g && x->vendor == g->vendor && host_gpu_counts(x)) {
            return true;
        }
    }
    return false;
}

/* The severity of a problem of a GPU; false: it is not worth a word. */
static bool gpu_severity(struct diag *d, const struct host_gpu *g, const struct host_problem *p,
                         enum diag_cause cause, enum diag_severity *ret)
{
    const char *who = NULL;
    bool wanted = diag_wants(d, g->vendor, &who);
    if (!host_gpu_counts(g) && (!who || another_counts(d->m->host, g))) {
        return false;
    }
    bool spare = who && (another_serves(d->m->host, g) || !host_gpu_counts(g));
    *ret = diag_causes[cause].severity;
    if (!wanted) {
        *ret = DIAG_NOTE;
    } else if (*ret == DIAG_ERROR && (spare || p->state != HOST_NO)) {
        *ret = DIAG_WARNING;
    }
    return true;
}

/* ------------------------------------------------------------------ words */

static const char *placed(struct diag *d, const struct host_gpu *g)
{
    return g->bdf ? arena_printf(d->a, "%s at %s", g->name, g->bdf) : g->name;
}

static const struct host_problem *problem_of(const struct host_gpu *g, const char *id)
{
    for (size_t i = 0; i < g->problems.n; i++) {
        if (strcmp(g->problems.items[i].id, id) == 0) {
            return &g->problems.items[i];
        }
    }
    return NULL;
}

/* GPUs of the vendor with this problem. */
static size_t sharing(const struct host *h, const struct host_gpu *g, const char *id)
{
    size_t n = 0;
    for (size_t i = 0; i < h->gpus.n; i++) {
        n += h->gpus.items[i].vendor == g->vendor && problem_of(&h->gpus.items[i], id);
    }
    return n;
}

static const char *summary_of(struct diag *d, const struct host_gpu *g,
                              const struct host_problem *p)
{
    size_t n = sharing(d->m->host, g, p->id);
    const char *who = n > 1 ? arena_printf(d->a, "%s (and %zu more)", g->name, n - 1) : g->name;
    return p->state == HOST_NO ? arena_printf(d->a, "%s cannot be used: %s.", who, p->text)
                               : arena_printf(d->a, "%s: %s.", who, p->text);
}

/* The GPUs with the same words in one line; the words themselves where the summary has others. */
static void gpu_evidence(struct diag *d, struct diag_finding *f, const struct host_gpu *g,
                         const struct host_problem *p)
{
    const struct host *h = d->m->host;
    const char *text = "";
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *x = &h->gpus.items[i];
        const struct host_problem *own = problem_of(x, p->id);
        if (x->vendor == g->vendor && own && strcmp(own->text, p->text) == 0) {
            bool again = *text && x->bdf && strcmp(x->name, g->name) == 0;
            text = arena_printf(d->a, "%s%s%s", text, *text ? ", " : "",
                                again ? x->bdf : placed(d, x));
        }
    }
    const char *driver = g->driver.state == HOST_YES && g->driver.value
                             ? arena_printf(d->a, "; driver: %s", g->driver.value)
                         : g->driver.state == HOST_NO ? "; driver: none"
                                                      : "";
    bool other = !strstr(f->summary, p->text);
    diag_evidence(d, f, "%s%s%s%s", text, driver, other ? ": " : "", other ? p->text : "");
}

/* What the container was given, and what its environment says. */
static void container_evidence(struct diag *d, struct diag_finding *f)
{
    static const char *const names[] = {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"};
    const struct host *h = d->m->host;
    if (f->cause != DIAG_CONTAINER_NO_GPU && f->cause != DIAG_CONTAINER_NO_LIBRARIES) {
        return;
    }
    diag_evidence(d, f, "this is a container (%s)", h->container.inside.value);
    if (h->container.injected_libraries.n && f->cause == DIAG_CONTAINER_NO_GPU) {
        diag_evidence(d, f, "the driver's libraries were mounted, and no device: %s",
                      h->container.injected_libraries.items[0]);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = host_variable(h, names[i]);
        if (value) {
            diag_evidence(d, f, "%s=%s", names[i], value);
        }
    }
    if (h->environment.state == HOST_YES && !host_variable(h, names[0]) &&
        f->cause == DIAG_CONTAINER_NO_GPU && h->nvidia.module.state == HOST_YES) {
        diag_evidence(d, f,
                      "%s is not set: with NVIDIA's runtime alone, most images then get no "
                      "GPU",
                      names[0]);
    }
}

/* The variable that keeps NVIDIA's runtime from giving the container a GPU. */
static void container_repair(struct diag *d, struct diag_finding *f)
{
    const char *value = host_variable(d->m->host, "NVIDIA_VISIBLE_DEVICES");
    if (f->cause == DIAG_CONTAINER_NO_GPU && value &&
        (!*value || strcmp(value, "void") == 0 || strcmp(value, "none") == 0)) {
        diag_repair(d, f, DIAG_REPAIR_TEXT,
                    "docker run --gpus all -e NVIDIA_VISIBLE_DEVICES=all "
                    "IMAGE",
                    "Start it with NVIDIA_VISIBLE_DEVICES=all: \"%s\" requests no GPU.", value);
    }
}

/* A step as a sentence: a command at its beginning keeps its small letter. */
static const char *step_sentence(struct diag *d, const struct host_problem *p)
{
    static const char *const commands[] = {"sudo ",   "docker ", "unset ",
                                           "export ", "wsl ",    "nvidia-"};
    if (p->command && strcmp(p->step, p->command) == 0) {
        return "Run this, and look again.";
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (starts_with(p->step, commands[i])) {
            return arena_printf(d->a, "%s.", p->step);
        }
    }
    char *text = arena_printf(d->a, "%s.", p->step);
    text[0] = (char)(text[0] >= 'a' && text[0] <= 'z' ? text[0] - 'a' + 'A' : text[0]);
    return text;
}

/* The less invasive way first: in WSL a folder at the front of the search is enough. */
static void repairs(struct diag *d, struct diag_finding *f, const struct host_problem *p)
{
    bool is_setting = p->command && starts_with(p->command, "unset ");
    if (f->cause == DIAG_WSL_SHADOWED) {
        diag_repair(d, f, DIAG_REPAIR_ENV, diag_prepend_command(d, "/usr/lib/wsl/lib"),
                    "Let WSL's own libcuda come first.");
    }
    if (p->step) {
        diag_repair(d, f, is_setting ? DIAG_REPAIR_ENV : DIAG_REPAIR_TEXT, p->command, "%s",
                    step_sentence(d, p));
    }
}

/* ------------------------------------------------------------------ the override of the gfx target
 */

/* The row of the knowledge base on this override of this target, or NULL. */
static const struct kb_rocm *override_row(struct diag *d, const char *gfx, const char *value)
{
    struct kb_rocms rocms;
    struct gm_err err;
    if (!gfx || !value || kb_rocms(d->m->kb, &rocms, &err) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < rocms.n; i++) {
        const struct kb_rocm *row = &rocms.rows[i];
        if (row->kind == KB_ROCM_OVERRIDE && row->gfx.n && strcmp(row->gfx.items[0], gfx) == 0 &&
            strcmp(row->override, value) == 0) {
            return row;
        }
    }
    return NULL;
}

static void judge_override(struct diag *d, struct diag_finding *f, const struct host_gpu *g)
{
    const struct kb_rocm *row =
        override_row(d, g->gfx.value, host_variable(d->m->host, "HSA_OVERRIDE_GFX_VERSION"));
    const char *who = NULL;
    if (f->cause != DIAG_HSA_OVERRIDE || !row || row->verdict != KB_VERDICT_UNSAFE) {
        return;
    }
    if (diag_wants(d, HOST_AMD, &who) && who) {
        f->severity = DIAG_ERROR;
    }
    diag_evidence(d, f, "known from: knowledge base, row %s: %s", row->id,
                  row->origin.note ? row->origin.note : "wrong results or hangs");
}

/* ------------------------------------------------------------------ the rule */

/* The machine's search ends at the wrong libcuda; that of these programs may still be right, by
 * LD_LIBRARY_PATH. */
static bool finds_libcuda_of_wsl(struct diag *d)
{
    size_t n = 0;
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        const struct ldso_object *o = p->ldso ? ldso_find_object(p->ldso, "libcuda.so.1") : NULL;
        const char *real = o ? model_real_path(d->m, o->path) : NULL;
        if (real && !starts_with(real, "/usr/lib/wsl/")) {
            return false;
        }
        n += real != NULL;
    }
    return n > 0;
}

static struct diag_finding *gpu_problem_add(struct diag *d, const struct host_gpu *g,
                                            const struct host_problem *p)
{
    const struct problem_row *row = problem_row_of(p);
    enum diag_severity severity;
    if (!row) {
        return NULL; // a remark, or not known
    }
    enum diag_cause cause = gpu_cause(d->m->host, g, row);
    if (cause == DIAG_WSL_SHADOWED && finds_libcuda_of_wsl(d)) {
        return NULL;
    }
    if (!gpu_severity(d, g, p, cause, &severity)) {
        return NULL;
    }
    const char *culprit = row->culprit ? row->culprit : p->culprit ? p->culprit : g->name;
    const char *key =
        cause == DIAG_FORWARD_COMPAT ? culprit : arena_printf(d->a, "%d %s", (int)g->vendor, p->id);
    struct diag_finding *f = diag_add(d, cause, key, culprit, summary_of(d, g, p));
    bool is_new = f->evidence.n == 0;
    f->stage = DIAG_STAGE_MACHINE;
    f->severity = is_new || severity > f->severity ? severity : f->severity;
    gpu_evidence(d, f, g, p);
    container_evidence(d, f);
    judge_override(d, f, g);
    const char *who = NULL;
    if (diag_wants(d, g->vendor, &who) && who) {
        diag_evidence(d, f, "%s would use it", who);
    }
    if (is_new) {
        container_repair(d, f);
        repairs(d, f, p);
    }
    return f;
}

/* The first problem that says no is the root of those behind it. Remarks stand for themselves. */
static void judge_gpu(struct diag *d, const struct host_gpu *g)
{
    struct diag_finding *root = NULL;
    for (size_t i = 0; i < g->problems.n; i++) {
        const struct host_problem *p = &g->problems.items[i];
        if (root && p->state == HOST_NO) {
            diag_evidence(d, root, "also: %s%s%s", p->text, p->step ? "; then: " : "",
                          p->step ? p->step : "");
        } else if (p->state == HOST_NO || (p->state == HOST_YES && !root)) {
            struct diag_finding *f = gpu_problem_add(d, g, p);
            root = p->state == HOST_NO ? f : root;
        }
    }
}

/* What cannot be determined is a note where somebody asks. */
static void gpu_note_unknown(struct diag *d, const struct host_gpu *g)
{
    const char *who;
    if (g->usable == HOST_UNKNOWN && host_gpu_counts(g) && diag_wants(d, g->vendor, &who)) {
        VEC_PUSH(d->a, &d->report->notes,
                 arena_printf(d->a, "whether programs can use %s cannot be determined: %s",
                              placed(d, g), g->problems.items[0].text));
    }
}

/* Of a machine alone. */
static void note_unseen(struct diag *d)
{
    const struct host *h = d->m->host;
    const char *why = !h                                               ? d->m->host_why
                      : h->gpus.n == 0 && h->pci.state == HOST_UNKNOWN ? h->pci.why
                                                                       : NULL;
    if (why && d->m->processes.n == 0) {
        VEC_PUSH(d->a, &d->report->notes,
                 arena_printf(d->a, "which GPUs the machine has cannot be determined: %s", why));
    }
}

static void note_ran(struct diag *d, const struct host_gpu *g)
{
    const struct host_problem *p = problem_of(g, HOST_PROBLEM_RAN);
    if (p) {
        VEC_PUSH(d->a, &d->report->notes,
                 arena_printf(d->a,
                              "%s: %s. gpumend misread the files: please report it with what "
                              "gpumend check --report prints",
                              g->name, p->text));
    }
}

void diag_rule_devices(struct diag *d)
{
    const struct host *h = d->m->host;
    note_unseen(d);
    for (size_t i = 0; h && i < h->gpus.n; i++) {
        judge_gpu(d, &h->gpus.items[i]);
        gpu_note_unknown(d, &h->gpus.items[i]);
        note_ran(d, &h->gpus.items[i]);
    }
}
