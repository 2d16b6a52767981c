/*
 * NVIDIA: no code for this GPU in the library that is loaded.
 *
 * A library is judged by the best code in all of its containers: where even that does not serve
 * the GPU, nothing in the library can run. Less is no fault by itself: libraries keep some kernels
 * for a few architectures only, and choose others at run time (docs/causes.md has the figures).
 * cuDNN counts only where the framework above it has code, cuBLAS only where there is no framework:
 * that one comes with the same toolkit, and walking cuBLAS's thousands of containers costs memory.
 * A program that nvcc made is judged by its own code in the same way.
 */
#include <string.h>

#include "diag/internal.h"
#include "kb/serves.h"
#include "model/gpu.h"

static const struct diag_library own = {NULL, NULL, "every kernel of its own", DIAG_ERROR};
static const struct diag_library cublas[] = {
    {"libcublas.so.*", NULL, "every matrix product by cuBLAS", DIAG_ERROR},
};
static const struct diag_library cudnn[] = {
    {"libcudnn_ops.so.*", NULL, "what is computed by cuDNN", DIAG_WARNING},
    {"libcudnn_ops_infer.so.*", NULL, "what is computed by cuDNN", DIAG_WARNING},
};

static const struct diag_library *library_of(const struct ldso_object *o,
                                             const struct diag_library *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (str_glob(rows[i].name, path_base(o->path))) {
            return &rows[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ against the GPUs */

struct verdict {
    size_t n_served, n_unknown;
    bool uncertain;                       // which GPUs the program is shown cannot be determined
    VEC(const struct host_gpu *) without; // GPUs that nothing in the library serves
    VEC(struct diag_target) targets;      // the same, as targets
    unsigned isa;                         // of PTX that only a newer driver compiles; 0: none
};

static enum gpu_serves code_serves_isa(const struct gpu_code *code, unsigned major, unsigned minor,
                                       unsigned isa)
{
    struct gpu_answer answer;
    gpu_code_serves_cuda(code, major, minor, isa, &answer);
    return answer.serves;
}

/* The sections first; the data only where nothing in the sections serves the GPU. */
static enum gpu_serves kernels_ask(struct diag *d, const struct model_process *p,
                                   const struct ldso_object *o, unsigned major, unsigned minor)
{
    unsigned isa = diag_ptx_isa_of(d, p);
    const struct gpu_code *code = model_gpu_code(d->m, o, GPU_READ_SECTIONS);
    if (!code || (code->cuda.n_native == 0 && code->cuda.n_ptx == 0)) {
        return GPU_SERVES_UNKNOWN; // nothing is registered at load: not a library as it is known
    }
    enum gpu_serves s = code_serves_isa(code, major, minor, isa);
    if (s != GPU_SERVES_UNKNOWN || code->searched) {
        return s;
    }
    struct gpu_code all = *code;
    all.searched = true; // what would be said if the data held nothing
    if (code_serves_isa(&all, major, minor, isa) != GPU_SERVES_NONE) {
        return s;
    }
    code = model_gpu_code(d->m, o, GPU_READ_ALL);
    return code ? code_serves_isa(code, major, minor, isa) : GPU_SERVES_UNKNOWN;
}

/* The oldest ISA of PTX that would serve the GPU under a newer driver. */
static unsigned newer_isa(const struct gpu_code *code, unsigned number)
{
    unsigned isa = 0;
    for (size_t i = 0; code && i < code->cuda.n_ptx; i++) {
        const struct gpu_cuda_arch *x = &code->cuda.ptx[i];
        if (!x->suffix && x->number <= number && (!isa || x->isa_max < isa)) {
            isa = x->isa_max;
        }
    }
    return isa;
}

/* The place of a GPU among NVIDIA's by PCI address, and their number. */
static size_t gpu_place(const struct diag *d, const struct host_gpu *g, size_t *ret_n)
{
    const struct host *h = d->m->host;
    size_t place = 0;
    *ret_n = 0;
    for (size_t i = 0; i < h->gpus.n; i++) {
        place = &h->gpus.items[i] == g ? *ret_n : place;
        *ret_n += h->gpus.items[i].vendor == HOST_NVIDIA;
    }
    return place;
}

/* Whether one entry of CUDA_VISIBLE_DEVICES means the GPU. Numbers count the fastest first unless
 * CUDA_DEVICE_ORDER says otherwise, and which one is the fastest is in no file. */
static enum py_answer means(const struct diag *d, struct str entry, const struct host_gpu *g)
{
    uint64_t number = 0;
    size_t n = 0, place = gpu_place(d, g, &n);
    const char *order = diag_variable(d, "CUDA_DEVICE_ORDER");
    if (str_u64(entry, &number)) {
        bool told = n == 1 || (order && strcmp(order, "PCI_BUS_ID") == 0);
        return !told ? PY_UNKNOWN : number == place ? PY_YES : PY_NO;
    }
    if (!str_starts(entry, "GPU-") || g->uuid.state != HOST_YES || !g->uuid.value) {
        return str_starts(entry, "GPU-") || str_starts(entry, "MIG-") ? PY_UNKNOWN : PY_NO;
    }
    return strncmp(g->uuid.value, entry.s, entry.n) == 0 ? PY_YES : PY_NO;
}

static enum py_answer gpu_is_shown(const struct diag *d, const struct host_gpu *g)
{
    enum py_answer shown = PY_NO;
    const char *value = diag_variable(d, "CUDA_VISIBLE_DEVICES");
    for (struct str rest = str_of(value); rest.s && shown != PY_YES;) {
        enum py_answer one = means(d, str_trim(str_cut(&rest, ',')), g);
        shown = one == PY_NO ? shown : one;
    }
    return value ? shown : PY_YES;
}

static struct verdict kernels_judge(struct diag *d, const struct model_process *p,
                                    const struct ldso_object *o)
{
    struct verdict v = {0};
    const struct host_gpu *g = NULL;
    while ((g = diag_next_gpu(d, HOST_NVIDIA, g)) != NULL) {
        unsigned major = 0, minor = 0;
        enum py_answer shown = gpu_is_shown(d, g);
        if (shown == PY_NO) {
            continue; // the user has taken it away
        }
        v.uncertain = v.uncertain || shown == PY_UNKNOWN;
        enum gpu_serves s = diag_capability(g, &major, &minor) ? kernels_ask(d, p, o, major, minor)
                                                               : GPU_SERVES_UNKNOWN;
        v.n_served += s == GPU_SERVES_NATIVE || s == GPU_SERVES_JIT;
        v.n_unknown += s == GPU_SERVES_UNKNOWN || s == GPU_SERVES_ABSENT;
        if (s == GPU_SERVES_NONE) {
            unsigned number = major * 10 + minor;
            VEC_PUSH(d->a, &v.without, g);
            VEC_PUSH(d->a, &v.targets, (struct diag_target){.number = number});
            unsigned isa = newer_isa(model_gpu_code(d->m, o, GPU_READ_SECTIONS), number);
            v.isa = isa > v.isa ? isa : v.isa;
        }
    }
    return v;
}

/* ------------------------------------------------------------------ the finding */

static const char *arches_list(struct diag *d, const struct gpu_cuda_arch *items, size_t n)
{
    const char *text = "";
    for (size_t i = 0; i < n; i++) {
        text = arena_printf(d->a, "%s%s%s", text, i ? " " : "", items[i].name);
    }
    return text;
}

static const char *gpu_text(struct diag *d, const struct host_gpu *g)
{
    return arena_printf(d->a, "%s (compute capability %s)", g->name ? g->name : "the GPU",
                        g->compute_capability.value);
}

static const char *gpus_text(struct diag *d, const struct verdict *v)
{
    const char *text = "";
    for (size_t i = 0; i < v->without.n; i++) {
        const char *one = gpu_text(d, v->without.items[i]);
        if (!strstr(text, one)) {
            text = arena_printf(d->a, "%s%s%s", text, *text ? ", " : "", one);
        }
    }
    return text;
}

static void code_evidence(struct diag *d, struct diag_finding *f, const struct model_process *p,
                          const struct ldso_object *o, const struct verdict *v)
{
    const struct gpu_code *code = model_gpu_code(d->m, o, GPU_READ_ALL);
    if (!code) {
        return;
    }
    diag_evidence(d, f, "%s has machine code for %s, PTX for %s", path_normal(d->a, o->path),
                  code->cuda.n_native ? arches_list(d, code->cuda.native, code->cuda.n_native)
                                      : "none",
                  code->cuda.n_ptx ? arches_list(d, code->cuda.ptx, code->cuda.n_ptx) : "none");
    if (v->isa) {
        const char *driver = diag_driver_of(d, p);
        unsigned known = diag_ptx_isa_of(d, p);
        diag_evidence(d, f, "the PTX is of ISA %u.%u, %s %s knows ISAs up to %u.%u", v->isa / 10,
                      v->isa % 10, driver ? "driver" : "the driver of L4T",
                      driver ? driver : d->m->host->tegra.release.value, known / 10, known % 10);
    }
    diag_evidence(d, f, "the program then says: CUDA error: %s",
                  v->isa ? "the provided PTX was compiled with an unsupported toolchain"
                         : "no kernel image is available for execution on the device");
}

/* Where other GPUs are served: the choice of those. UUIDs do not depend on the order of devices. */
static void repair_by_choice(struct diag *d, struct diag_finding *f, const struct verdict *v)
{
    const char *list = "";
    const struct host_gpu *g = NULL;
    while ((g = diag_next_gpu(d, HOST_NVIDIA, g)) != NULL) {
        bool without = false;
        for (size_t i = 0; i < v->without.n; i++) {
            without = without || v->without.items[i] == g;
        }
        bool told = g->uuid.state == HOST_YES && g->uuid.value && !strchr(g->uuid.value, '?');
        list = without        ? list
               : told && list ? arena_printf(d->a, "%s%s%s", list, *list ? "," : "", g->uuid.value)
                              : NULL;
    }
    diag_repair(d, f, DIAG_REPAIR_ENV,
                list && *list
                    ? arena_printf(d->a, "export CUDA_VISIBLE_DEVICES=%s", diag_quote(d, list))
                    : NULL,
                "Let the program see the other GPUs alone (CUDA_VISIBLE_DEVICES).");
}

/* Of a library that NVIDIA distributes for one CUDA, whose later releases leave GPUs out. */
static bool repair_by_other_cuda(struct diag *d, struct diag_finding *f,
                                 const struct ldso_object *o)
{
    const char *version = o->soname ? strstr(o->soname, ".so.") : NULL;
    unsigned cuda = version ? (unsigned)strtoul(version + strlen(".so."), NULL, 10) : 0;
    return diag_repair_other_cuda(d, f, cuda, "has code for this GPU");
}

static void kernels_repair(struct diag *d, struct diag_finding *f, const struct ldso_object *o,
                           const struct diag_library *row, const struct verdict *v)
{
    if (v->n_served) {
        repair_by_choice(d, f, v);
    }
    const struct kb_driver *driver = v->isa ? kb_driver_of_isa(d->m->kb, v->isa) : NULL;
    if (driver && !host_has_tegra_alone(d->m->host)) { // L4T's comes with a JetPack
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Update the driver to %s or later: it compiles the PTX of this library.",
                    driver->linux_min);
    }
    if (row == &own) {
        unsigned sm = v->targets.items[0].number;
        diag_repair(
            d, f, DIAG_REPAIR_PACKAGE, NULL,
            "Build it with code for this GPU (nvcc -gencode arch=compute_%u,code=sm_%u), or "
            "install a release that has it (gpumend kb arch FILE shows what a file has).",
            sm, sm);
        return;
    }
    if (!row->package && repair_by_other_cuda(d, f, o)) { // NVIDIA's own
        return;
    }
    if (!row->package || !diag_repair_build(d, f, row->package, v->targets.items, v->targets.n)) {
        const char *owner = row->package ? row->package : "the program that contains the library";
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL,
                    "Install a release of %s with code for sm_%u, or build it for that (gpumend kb "
                    "arch FILE shows what a file has).",
                    owner, v->targets.items[0].number);
    }
}

static struct diag_finding *kernels_finding(struct diag *d, const struct model_process *p,
                                            const struct ldso_object *o,
                                            const struct diag_library *row, const struct verdict *v)
{
    const char *owner = model_owner(d->m, o->path), *name = path_base(o->path);
    const char *who = owner ? arena_printf(d->a, "%s (%s)", owner, name) : name;
    struct diag_finding *f = diag_add(
        d, DIAG_GPU_CODE_MISSING, path_normal(d->a, model_absolute(d->m, o->path)), name,
        arena_printf(d->a, "%s has no code for %s%s: %s fails there.", who, gpus_text(d, v),
                     v->isa ? ", and its PTX is too new for the driver" : "", row->what));
    f->stage = DIAG_STAGE_USE;
    diag_seen_in(d, f, p);
    if (f->evidence.n) {
        return f; // told for another process
    }
    f->severity = v->n_served + v->n_unknown == 0 ? row->severity
                  : v->n_served && !v->uncertain  ? DIAG_WARNING
                                                  : DIAG_NOTE;
    code_evidence(d, f, p, o, v);
    kernels_repair(d, f, o, row, v);
    return f;
}

enum outcome { NOTHING_JUDGED, ALL_IN_ORDER, SOMETHING_MISSING };

static enum outcome rule_process(struct diag *d, const struct model_process *p,
                                 const struct diag_library *rows, size_t n)
{
    enum outcome outcome = NOTHING_JUDGED;
    for (size_t i = 0; i < p->ldso->objects.n; i++) {
        const struct ldso_object *o = p->ldso->objects.items[i];
        const struct diag_library *row = library_of(o, rows, n);
        row = row && diag_is_idle_twin(d, p, o) ? NULL : row;
        struct verdict v = row ? kernels_judge(d, p, o) : (struct verdict){0};
        if (v.without.n) {
            (void)kernels_finding(d, p, o, row, &v); // it is in the report
            outcome = SOMETHING_MISSING;
        } else if (row && outcome == NOTHING_JUDGED) {
            outcome = ALL_IN_ORDER;
        }
    }
    return outcome;
}

/* The program's libraries with CUDA code, and what becomes of each on the GPUs. */
struct own_libraries {
    VEC(const struct ldso_object *) objects;
    VEC(struct verdict) verdicts;
    size_t n_lacking; // that have nothing for a GPU
};

static struct own_libraries own_libraries(struct diag *d, const struct model_process *p)
{
    struct own_libraries ret = {0};
    diag_own_code_list all = diag_own_codes(d->m, p);
    for (size_t i = 0; i < all.n; i++) {
        const struct ldso_object *o = all.items[i].object;
        const struct gpu_cuda *cuda = &all.items[i].code->cuda;
        if ((cuda->n_native || cuda->n_ptx) && !diag_cuda_library_package(o->path)) {
            struct verdict v = kernels_judge(d, p, o);
            ret.n_lacking += v.without.n > 0;
            VEC_PUSH(d->a, &ret.objects, o);
            VEC_PUSH(d->a, &ret.verdicts, v);
        }
    }
    return ret;
}

/* Which of them the program uses is not known: nothing is called fine, and nothing broken. */
static void own_unsure(struct diag *d, const struct own_libraries *x)
{
    const char *with = "", *without = "", *gpus = "";
    for (size_t i = 0; i < x->objects.n; i++) {
        const struct verdict *v = &x->verdicts.items[i];
        const char **to = v->without.n ? &without : &with;
        *to = arena_printf(d->a, "%s%s%s", *to, **to ? ", " : "",
                           path_base(x->objects.items[i]->path));
        gpus = v->without.n && !*gpus ? gpus_text(d, v) : gpus;
    }
    d->unsure = true;
    VEC_PUSH(d->a, &d->report->notes,
             arena_printf(d->a,
                          "the program has GPU code in several libraries: %s has none for %s, %s "
                          "is not affected; gpumend cannot tell which of them the program uses",
                          without, gpus, with));
}

/* What the program itself holds. Of several libraries, none of which serves the GPU, whichever is
 * used fails. */
static void rule_own(struct diag *d, const struct model_process *p)
{
    struct own_libraries x = own_libraries(d, p);
    if (x.n_lacking && x.n_lacking < x.objects.n) {
        own_unsure(d, &x);
        return;
    }
    struct diag_finding *f =
        x.n_lacking ? kernels_finding(d, p, x.objects.items[0], &own, &x.verdicts.items[0]) : NULL;
    for (size_t i = 1; i < x.n_lacking; i++) {
        diag_likewise(d, f, path_base(x.objects.items[i]->path));
        code_evidence(d, f, p, x.objects.items[i], &x.verdicts.items[i]);
    }
}

#define LIST(rows) rows, sizeof(rows) / sizeof *(rows)

static void judge_process(struct diag *d, const struct model_process *p)
{
    size_t n = 0;
    const struct diag_library *rows = diag_frameworks(&n);
    enum outcome outcome = rule_process(d, p, rows, n);
    if (outcome == NOTHING_JUDGED) {
        outcome = rule_process(d, p, LIST(cublas));
    }
    if (outcome != SOMETHING_MISSING) {
        (void)rule_process(d, p, LIST(cudnn)); // the finding is in the report
    }
}

void diag_rule_kernels(struct diag *d)
{
    if (!diag_next_gpu(d, HOST_NVIDIA, NULL)) {
        return;
    }
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        if (p->ldso) {
            judge_process(d, p);
            rule_own(d, p);
        }
    }
}
