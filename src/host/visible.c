/*
 * The variables that choose GPUs. What each does:
 *
 *   CUDA_VISIBLE_DEVICES    numbers, GPU- or MIG- identifiers; the list ends at the first that is
 *                           not there (CUDA C++ Programming Guide, "CUDA Environment Variables")
 *   ROCR_VISIBLE_DEVICES    numbers or GPU- identifiers (ROCm, "GPU isolation techniques")
 *   HIP_VISIBLE_DEVICES     numbers; where it is empty CUDA_VISIBLE_DEVICES counts
 *                           (ROCm clr, rocclr/device/rocm/rocdevice.cpp, Device::init)
 *   GPU_DEVICE_ORDINAL      the same for programs of OpenCL alone (the same place)
 *   ZE_AFFINITY_MASK        numbers, with sub-devices as "0.1" (Level Zero, "Affinity Mask")
 *
 * A choice is only called wrong where what it names is known not to be there: a number above the
 * number of GPUs on the bus, an identifier where all are known, for CUDA a text that is neither
 * (the driver 580.159.04 showed no GPU for 0 within quotation marks; NoDevFiles is such a text). In
 * WSL, and with MIG instances, numbers count something else than what the bus shows.
 */
#include "host/internal.h"

#include <string.h>

struct choice {
    const struct host *h;
    struct arena *arena;
    struct host_gpu *g;
    const char *name, *value;
    struct str first; // entry of the list
};

static struct host_problem *hidden(const struct choice *c, const char *text)
{
    struct host_problem *p = host_add_problem(c->arena, c->g, "hidden", HOST_NO, text,
                                              arena_printf(c->arena, "unset %s", c->name));
    p->command = p->step;
    p->culprit = c->name;
    return p;
}

/* How many GPUs of this vendor a number may name; 0: it cannot be determined. */
static uint64_t choice_count(const struct choice *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < c->h->gpus.n; i++) {
        const struct host_gpu *g = &c->h->gpus.items[i];
        if (g->vendor != c->g->vendor) {
            continue;
        }
        if (strcmp(g->kind, "wsl") == 0 || g->mig.n) {
            return 0;
        }
        n += g->partitions.state == HOST_YES && g->partitions.number > 1 ? g->partitions.number : 1;
    }
    return n;
}

/* Whether no GPU can be the one with this identifier. Its beginning is enough for CUDA. */
static bool identifier_is_of_none(const struct choice *c)
{
    for (size_t i = 0; i < c->h->gpus.n; i++) {
        const struct host_gpu *g = &c->h->gpus.items[i];
        if (g->vendor == c->g->vendor &&
            (g->uuid.state != HOST_YES || strncmp(g->uuid.value, c->first.s, c->first.n) == 0)) {
            return false;
        }
    }
    return true;
}

/* Whether it can be seen that there is no MIG instance. Containers hide the capabilities. */
static bool has_no_instance(const struct host *h)
{
    bool told = h->container.inside.state == HOST_NO;
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        told = told && (g->vendor != HOST_NVIDIA ||
                        (strcmp(g->kind, "pci") == 0 && g->minor.state == HOST_YES && !g->mig.n));
    }
    return told;
}

static void judge_instance(const struct choice *c)
{
    if (!has_no_instance(c->h)) {
        return;
    }
    struct host_problem *p = host_add_problem(
        c->arena, c->g, "no-mig-instance", HOST_NO,
        arena_printf(c->arena, "%s=%s names a MIG instance, and no GPU here has one", c->name,
                     c->value),
        arena_printf(c->arena,
                     "unset %s, or make instances: sudo nvidia-smi mig -cgi PROFILE -C "
                     "(nvidia-smi mig -lgip lists the profiles)",
                     c->name));
    p->command = arena_printf(c->arena, "unset %s", c->name);
    p->culprit = c->name;
}

static bool hides_all(const struct choice *c)
{
    static const char *const nothing[] = {"", "-1", "NoDevFiles"};
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        if (strcmp(c->value, nothing[i]) == 0) {
            (void)hidden(c,
                         arena_printf(c->arena, "%s=%s hides every GPU from programs started here",
                                      c->name, *c->value ? c->value : "\"\""));
            return true;
        }
    }
    return false;
}

/* Neither a number nor an identifier, for CUDA: "all", or a number within quotation marks. */
static bool names_no_device(const struct choice *c)
{
    return strcmp(c->name, "CUDA_VISIBLE_DEVICES") == 0 && c->g->vendor == HOST_NVIDIA &&
           c->first.n && !strchr("+-0123456789", *c->first.s) && !str_starts(c->first, "GPU-");
}

/* Numbers and commas between the quotation marks of the value; NULL: it is something else. */
static const char *quoted_numbers(const struct choice *c)
{
    size_t n = strlen(c->value);
    char mark = *c->value;
    if (n < 3 || (mark != '"' && mark != '\'') || c->value[n - 1] != mark) {
        return NULL;
    }
    const char *inner = arena_strndup(c->arena, c->value + 1, n - 2);
    return strspn(inner, "0123456789,") == n - 2 ? inner : NULL;
}

static void judge_text(const struct choice *c)
{
    const char *numbers = quoted_numbers(c);
    struct host_problem *p = hidden(
        c, numbers ? arena_printf(c->arena,
                                  "the value of %s has quotation marks in it (%s), so it names no "
                                  "GPU: programs started here see none",
                                  c->name, c->value)
                   : arena_printf(c->arena,
                                  "%s=%s begins with neither the number of a GPU nor its "
                                  "identifier: programs started here see none",
                                  c->name, c->value));
    if (numbers) {
        p->step = arena_printf(c->arena, "unset %s, or set it without them: %s=%s", c->name,
                               c->name, numbers);
    }
}

static void judge_list(const struct choice *c)
{
    uint64_t index, count = choice_count(c);
    bool is_mig = c->g->vendor == HOST_NVIDIA && str_starts(c->first, "MIG-");
    size_t before = c->g->problems.n;
    if (is_mig) {
        judge_instance(c);
    } else if (str_u64(c->first, &index) && count && index >= count) {
        struct host_problem *p = hidden(
            c, arena_printf(c->arena,
                            "%s=%s begins with a GPU that does not exist (there %s %u, counted "
                            "from 0): programs started here see none",
                            c->name, c->value, count == 1 ? "is" : "are", (unsigned)count));
        p->step =
            arena_printf(c->arena, "unset %s, or name a GPU that exists: %s=0", c->name, c->name);
    } else if (names_no_device(c)) {
        judge_text(c);
    } else if (str_starts(c->first, "GPU-") && identifier_is_of_none(c)) {
        (void)hidden(c, arena_printf(c->arena,
                                     "%s=%s begins with a GPU that does not exist: "
                                     "programs started here see none",
                                     c->name, c->value));
    }
    if (c->g->problems.n == before) {
        (void)host_add_problem(c->arena, c->g, "filtered", HOST_YES,
                               arena_printf(c->arena,
                                            "%s=%s chooses the GPUs that programs started here see",
                                            c->name, c->value),
                               NULL);
    }
}

static struct choice gpu_choice(const struct host *h, struct arena *a, struct host_gpu *g,
                                const char *name)
{
    struct choice c = {.h = h, .arena = a, .g = g, .name = name, .value = host_variable(h, name)};
    struct str rest = str_of(c.value);
    c.first = str_trim(str_cut(&rest, ','));
    return c;
}

static void judge_variable(const struct host *h, struct arena *a, struct host_gpu *g,
                           const char *name)
{
    struct choice c = gpu_choice(h, a, g, name);
    if (c.value && !hides_all(&c)) {
        judge_list(&c);
    }
}

/* An empty mask masks nothing; "0.1" is a part of GPU 0. */
static void judge_mask(const struct host *h, struct arena *a, struct host_gpu *g)
{
    struct choice c = gpu_choice(h, a, g, "ZE_AFFINITY_MASK");
    if (c.value && *c.value) {
        c.first = str_cut(&c.first, '.');
        judge_list(&c);
    }
}

void host_judge_visible(const struct host *h, struct arena *a, struct host_gpu *g)
{
    const char *hip = host_variable(h, "HIP_VISIBLE_DEVICES");
    switch (g->vendor) {
    case HOST_NVIDIA: judge_variable(h, a, g, "CUDA_VISIBLE_DEVICES"); break;
    case HOST_AMD:
        judge_variable(h, a, g, "ROCR_VISIBLE_DEVICES");
        judge_variable(h, a, g, "HIP_VISIBLE_DEVICES");
        if (!hip || !*hip) {
            judge_variable(h, a, g, "CUDA_VISIBLE_DEVICES");
        }
        break;
    case HOST_INTEL: judge_mask(h, a, g); break;
    case HOST_OTHER: break;
    }
}
