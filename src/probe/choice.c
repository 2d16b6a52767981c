#include "probe/choice.h"

#include <string.h>

#include "base/str.h"
#include "probe/here.h"

/* A matrix product shows one format; those that no application is offered are listed too. */
static const struct {
    const char *format;
    unsigned bit; // 0: choose_best() does not ask for it
} formats[] = {{"-float32", CHOOSE_FORMAT_FLOAT32},
               {"-float16", CHOOSE_FORMAT_FLOAT16},
               {"-int8", CHOOSE_FORMAT_INT8},
               {"-bfloat16", CHOOSE_FORMAT_BFLOAT16},
               {"-tf32", 0}};

/* "cublas-float16", "cublaslt-int8", "hipblas-float32" */
static bool is_product(const struct probe_stage *s, unsigned *ret_bit)
{
    const char *dash = strchr(s->name, '-');
    if (!dash || (!starts_with(s->name, "cublas") && !starts_with(s->name, "hipblas"))) {
        return false;
    }
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(dash, formats[i].format) == 0) {
            *ret_bit = formats[i].bit;
            return true;
        }
    }
    return false;
}

static bool run_is_of(const struct probe_run *run, enum probe_vendor vendor, int device)
{
    return run->stage->vendor == vendor && (run->device < 0 || run->device == device);
}

/* Not run as there is nothing to run it with is nothing against a device. */
static bool is_bad(const struct probe_run *run)
{
    return run->outcome != PROBE_PASSED && !(run->outcome == PROBE_NOT_RUN && !run->because);
}

static void take_product(const struct probe_run *run, unsigned bit, unsigned *passed,
                         unsigned *failed)
{
    *passed |= run->outcome == PROBE_PASSED ? bit : 0;
    *failed |= is_bad(run) ? bit : 0;
}

/* Where it is, as the runtime counts it with the start environment, and how much of it is free. */
static void take_facts(struct arena *a, const struct probe_run *run, int device,
                       struct choose_ran *ran)
{
    uint64_t mib = 0;
    const char *pci = probe_fact(&run->facts, arena_printf(a, "device.%d.pci", device));
    const char *unused = probe_fact(&run->facts, "memory.free.mib");
    if (pci && !run->stage->all_devices) {
        ran->bdf = pci;
    }
    if (unused && run->device == device && str_u64(str_of(unused), &mib) &&
        mib < UINT64_MAX >> 20) {
        ran->free_bytes = mib << 20;
    }
}

static struct choose_ran choice_device(struct arena *a, const struct probe_report *r,
                                       enum probe_vendor vendor, int device)
{
    struct choose_ran ran = {.device =
                                 vendor == PROBE_AMD ? CHOOSE_DEVICE_ROCM : CHOOSE_DEVICE_CUDA,
                             .index = device,
                             .passed = true};
    unsigned bit = 0, right = 0, wrong = 0;
    for (size_t i = 0; i < r->runs.n; i++) {
        const struct probe_run *run = &r->runs.items[i];
        if (!run_is_of(run, vendor, device)) {
            continue;
        }
        take_facts(a, run, device, &ran);
        if (is_product(run->stage, &bit)) {
            ran.products_absent |= probe_stage_absence(run->stage) != NULL;
            take_product(run, bit, &right, &wrong);
        } else if (is_bad(run)) {
            ran.passed = false;
        }
        ran.why = !ran.why && is_bad(run) ? run->says : ran.why;
    }
    ran.formats = ran.products_absent ? (unsigned)CHOOSE_FORMATS_ALL : right & ~wrong;
    return ran;
}

static void add_vendor(struct arena *a, const struct probe_report *r, enum probe_vendor vendor,
                       struct probe_choice *ret)
{
    int last = -1;
    for (size_t i = 0; i < r->runs.n; i++) {
        const struct probe_run *run = &r->runs.items[i];
        if (run->stage->vendor == vendor && run->device > last) {
            last = run->device;
            VEC_PUSH(a, &ret->items, choice_device(a, r, vendor, last));
        }
    }
    if (last < 0) {
        VEC_PUSH(a, &ret->items, choice_device(a, r, vendor, -1));
    }
}

void probe_choice(struct arena *a, const struct probe_report *r, struct probe_choice *ret)
{
    *ret = (struct probe_choice){0};
    add_vendor(a, r, PROBE_NVIDIA, ret);
    add_vendor(a, r, PROBE_AMD, ret);
}

/* ------------------------------------------------------------------ what ran */

static const struct probe_run *choice_run_of(const struct probe_report *r, const char *name,
                                             int device)
{
    for (size_t i = 0; i < r->runs.n; i++) {
        const struct probe_run *run = &r->runs.items[i];
        if (strcmp(run->stage->name, name) == 0 && (device < 0 || run->device == device)) {
            return run;
        }
    }
    return NULL;
}

bool probe_believe(const struct probe_report *r, struct model *m)
{
    VEC(const char *) bdfs = {0};
    const struct probe_run *seen = choice_run_of(r, "visible-devices", -1);
    const struct probe_run *opened = choice_run_of(r, "driver-opens", -1);
    for (size_t i = 0; seen && m->host && i < r->runs.n; i++) {
        const struct probe_run *run = &r->runs.items[i];
        const char *bdf =
            probe_fact(&seen->facts, arena_printf(m->arena, "device.%d.pci", run->device));
        if (strcmp(run->stage->name, "kernel") == 0 && run->outcome == PROBE_PASSED && bdf) {
            VEC_PUSH(m->arena, &bdfs, bdf);
        }
    }
    if (!bdfs.n) {
        return false;
    }
    const struct host *now = host_after_run(m->host, m->arena, bdfs.items, bdfs.n,
                                            opened ? probe_fact(&opened->facts, "library") : NULL);
    bool changed = now != m->host;
    m->host = now;
    return changed;
}
