/* The GPUs and the processor of the machine, in words. */
#include <string.h>

#include "diag/finding.h"
#include "report/devices.h"
#include "report/devices_probe.h"

/* ------------------------------------------------------------------ words */

enum host_state report_devices_verdict(const struct host *h)
{
    enum host_state verdict =
        h->pci.state == HOST_UNKNOWN && h->gpus.n == 0 ? HOST_UNKNOWN : HOST_YES;
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        if (host_gpu_counts(g) && g->usable == HOST_NO) {
            return HOST_NO;
        }
        if (host_gpu_counts(g) && g->usable == HOST_UNKNOWN) {
            verdict = HOST_UNKNOWN;
        }
    }
    return verdict;
}

static const char *gib(struct arena *a, uint64_t bytes)
{
    double value = (double)bytes / (1024.0 * 1024 * 1024);
    uint64_t tenths = (uint64_t)(value * 10 + 0.5);
    return value >= 10 || tenths % 10 == 0 ? arena_printf(a, "%.0f GiB", value)
                                           : arena_printf(a, "%.1f GiB", value);
}

/* "gfx1030, RDNA 2", "Ampere, compute capability 8.6", "integrated" */
static const char *nature(struct arena *a, const struct host_gpu *g)
{
    const char *parts[4];
    size_t n = 0;
    if (g->gfx.state == HOST_YES) {
        parts[n++] = g->gfx.value;
    }
    if (g->architecture.state == HOST_YES) {
        parts[n++] = g->architecture.value;
    }
    if (g->compute_capability.state == HOST_YES) {
        parts[n++] = arena_printf(a, "compute capability %s", g->compute_capability.value);
    }
    if (g->integrated) {
        parts[n++] = "integrated";
    }
    const char *text = "";
    for (size_t i = 0; i < n; i++) {
        text = arena_printf(a, "%s%s%s", text, i ? ", " : "", parts[i]);
    }
    return n ? arena_printf(a, " (%s)", text) : "";
}

static const char *amounts(struct arena *a, const struct host_gpu *g)
{
    const char *text = "";
    if (g->memory.state == HOST_YES) {
        bool shared = g->integrated && g->gtt.state == HOST_YES && g->memory.where &&
                      g->gtt.where && strcmp(g->memory.where, g->gtt.where) == 0;
        text = arena_printf(a, ", %s%s", gib(a, g->memory.number),
                            shared ? " of the machine's memory" : "");
    } else if (g->model_memory_gib) {
        text = arena_printf(a, ", at least %u GB (by its model)", g->model_memory_gib);
    }
    if (g->partitions.state == HOST_YES && g->partitions.number > 1) {
        text = arena_printf(a, "%s in %u partitions%s%s%s", text, (unsigned)g->partitions.number,
                            g->partitions.value ? " (" : "",
                            g->partitions.value ? g->partitions.value : "",
                            g->partitions.value ? ")" : "");
    }
    if (g->mig.n) {
        text =
            arena_printf(a, "%s with %zu MIG instance%s", text, g->mig.n, g->mig.n > 1 ? "s" : "");
    }
    return text;
}

/* NULL: not known. */
static const char *driver_version(const struct host *h, const struct host_gpu *g)
{
    return g->driver_version                                         ? g->driver_version
           : g->vendor == HOST_NVIDIA && strcmp(g->kind, "pci") == 0 ? h->nvidia.module.value
           : g->vendor == HOST_AMD                                   ? h->amd.module.value
                                                                     : NULL;
}

static const char *ready(struct arena *a, const struct host *h, const struct host_gpu *g)
{
    const char *version = driver_version(h, g);
    const char *word = strcmp(g->kind, "windows") == 0 ? "installed" : "ready";
    const char *text = version ? arena_printf(a, "driver %s %s", version, word)
                               : arena_printf(a, "driver %s", word);
    for (size_t i = 0; i < g->problems.n; i++) {
        text = arena_printf(a, "%s; %s", text, g->problems.items[i].text);
    }
    return text;
}

static const char *state_text(struct arena *a, const struct host *h, const struct host_gpu *g)
{
    switch (g->usable) {
    case HOST_YES: return ready(a, h, g);
    case HOST_NO: return arena_printf(a, "cannot be used: %s", g->problems.items[0].text);
    case HOST_UNKNOWN: break;
    }
    return arena_printf(a, "cannot tell whether it can be used: %s", g->problems.items[0].text);
}

static const char *place(struct arena *a, const struct host_gpu *g)
{
    return g->bdf ? arena_printf(a, " at %s", g->bdf) : "";
}

const char *report_device_sentence(struct arena *a, const struct host *h, const struct host_gpu *g)
{
    return arena_printf(a, "%s%s%s%s: %s", g->name, nature(a, g), amounts(a, g), place(a, g),
                        state_text(a, h, g));
}

static const char *with_vectors(struct arena *a, const struct host_cpu *c, const char *cores)
{
    return c->vectors.state == HOST_YES ? arena_printf(a, "%s, %s", cores, c->vectors.value)
                                        : cores;
}

static const char *cores_text(struct arena *a, const struct host_cpu *c)
{
    return with_vectors(a, c,
                        c->cores.state != HOST_YES
                            ? "an unknown number of cores"
                            : arena_printf(a, "%u core%s", (unsigned)c->cores.number,
                                           c->cores.number == 1 ? "" : "s"));
}

/* ------------------------------------------------------------------ text */

static void devices_paragraph(const struct out *o, struct arena *a, enum out_style style,
                              const char *label, const char *text)
{
    if (*label) {
        out_print(o, style, "    %s: ", label);
    }
    out_wrap(o, *label ? (unsigned)strlen(label) + 6 : 0, str_printable(a, text));
}

/* Devices that differ in their address alone are told in one sentence. */
static bool gpus_are_alike(struct arena *a, const struct host *h, const struct host_gpu *x,
                           const struct host_gpu *y)
{
    return strcmp(x->kind, y->kind) == 0 && x->usable == y->usable &&
           strcmp(x->name, y->name) == 0 && strcmp(nature(a, x), nature(a, y)) == 0 &&
           strcmp(amounts(a, x), amounts(a, y)) == 0 &&
           strcmp(state_text(a, h, x), state_text(a, h, y)) == 0;
}

static void host_device_text(const struct out *o, struct arena *a, const struct host *h,
                             const struct host_gpu *const *gpus, size_t n)
{
    static const enum out_style styles[] = {
        [HOST_YES] = OUT_GREEN, [HOST_NO] = OUT_RED, [HOST_UNKNOWN] = OUT_YELLOW};
    const struct host_gpu *g = gpus[0];
    const char *count = n > 1 ? arena_printf(a, "%zu x ", n) : "";
    const char *where = place(a, g);
    for (size_t i = 1; i < n; i++) {
        where = arena_printf(a, "%s, %s", where, gpus[i]->bdf ? gpus[i]->bdf : "-");
    }
    devices_paragraph(o, a, OUT_PLAIN, "",
                      arena_printf(a, "%s%s%s%s%s: %s.", count, g->name, nature(a, g),
                                   amounts(a, g), where, state_text(a, h, g)));
    for (size_t i = 0; i < g->problems.n; i++) {
        const struct host_problem *p = &g->problems.items[i];
        if (i > 0 && g->usable != HOST_YES) {
            devices_paragraph(o, a, OUT_DIM, "also", p->text);
        }
        if (p->step) {
            devices_paragraph(o, a, styles[p->state], "next", p->step);
        }
        if (p->command && !(p->step && strstr(p->step, p->command))) {
            out_print(o, styles[p->state], "    run: "); // on one line, to be pasted
            out_print(o, OUT_BOLD, "%s\n", str_printable(a, p->command));
        }
    }
}

/* "sm_86", "gfx1030"; NULL: not known */
static const char *device_target(struct arena *a, const struct host_gpu *g)
{
    if (g->gfx.state == HOST_YES) {
        return g->gfx.value;
    }
    const char *capability =
        g->compute_capability.state == HOST_YES ? g->compute_capability.value : NULL;
    const char *dot = capability ? strchr(capability, '.') : NULL;
    return dot ? arena_printf(a, "sm_%.*s%s", (int)(dot - capability), capability, dot + 1) : NULL;
}

static const char *head_of(struct arena *a, const struct host *h, const struct host_gpu *g)
{
    const char *target = device_target(a, g);
    const char *name = target ? arena_printf(a, "%s (%s)", g->name, target) : g->name;
    const char *version = driver_version(h, g);
    name = version ? arena_printf(a, "%s, driver %s", name, version) : name;
    return g->usable == HOST_YES  ? name
           : g->usable == HOST_NO ? arena_printf(a, "%s: cannot be used", name)
                                  : arena_printf(a, "%s: cannot tell whether it can be used", name);
}

void report_devices_head(struct arena *a, const struct host *h, host_texts *ret)
{
    for (size_t i = 0; i < h->gpus.n;) {
        const char *text = head_of(a, h, &h->gpus.items[i]);
        size_t n = 1;
        while (i + n < h->gpus.n && strcmp(text, head_of(a, h, &h->gpus.items[i + n])) == 0) {
            n++;
        }
        VEC_PUSH(a, ret, n > 1 ? arena_printf(a, "%zu x %s", n, text) : text);
        i += n;
    }
    if (h->gpus.n == 0) {
        VEC_PUSH(a, ret,
                 h->pci.state == HOST_UNKNOWN
                     ? arena_printf(a, "cannot tell: %s: %s", h->pci.where, h->pci.why)
                     : "none found: programs use the CPU");
    }
}

const char *report_cpu_text(struct arena *a, const struct host_cpu *c)
{
    const char *text = cores_text(a, c);
    if (c->cores.state == HOST_YES && c->cores_online.state == HOST_YES &&
        c->cores.number < c->cores_online.number) {
        text = arena_printf(a, "%u of %u cores", (unsigned)c->cores.number,
                            (unsigned)c->cores_online.number);
        if (c->quota.state == HOST_YES) {
            text = arena_printf(a, "%s (the cgroup allows the time of %.1f)", text,
                                (double)c->quota.number / 1000);
        }
        text = with_vectors(a, c, text);
    }
    if (c->memory_total.state == HOST_YES) {
        text = arena_printf(a, "%s, %s of memory", text, gib(a, c->memory_total.number));
    }
    if (c->memory_limit.state == HOST_YES &&
        (c->memory_total.state != HOST_YES || c->memory_limit.number < c->memory_total.number)) {
        text = arena_printf(a, "%s (limit %s)", text, gib(a, c->memory_limit.number));
    }
    if (c->model.state == HOST_YES) {
        text = arena_printf(a, "%s: %s", c->model.value, text);
    }
    return text;
}

static void devices_summary(const struct out *o, struct arena *a, const struct host *h)
{
    bool perhaps = false;
    for (size_t i = 0; i < h->gpus.n; i++) {
        perhaps |= h->gpus.items[i].usable == HOST_UNKNOWN;
    }
    const char *cpu = cores_text(a, &h->cpu);
    const char *text = NULL;
    if (h->gpus.n == 0 && h->pci.state == HOST_UNKNOWN) {
        text = arena_printf(a, "Cannot tell which GPUs this machine has: %s: %s.", h->pci.where,
                            h->pci.why);
    } else if (h->gpus.n == 0) {
        text = arena_printf(a, "No supported GPU found: programs will use the CPU (%s).", cpu);
    } else if (!host_usable_gpu(h) && !perhaps) {
        text = arena_printf(a, "No GPU can be used as things are: programs will use the CPU (%s).",
                            cpu);
    }
    if (text) {
        devices_paragraph(o, a, OUT_PLAIN, "", text);
    }
}

/* What can be used comes first: 0 without reservation, then with one, then unknown, then not. */
static int rank_of(const struct host_gpu *g)
{
    static const int ranks[] = {[HOST_YES] = 0, [HOST_UNKNOWN] = 2, [HOST_NO] = 3};
    return ranks[g->usable] + (g->usable == HOST_YES && g->problems.n);
}

/* All GPUs by rank; those of one rank stay in the order of the bus. */
static const struct host_gpu **in_order(struct arena *a, const struct host *h)
{
    enum { RANKS = 4 };
    const struct host_gpu **list = arena_alloc(a, (h->gpus.n + 1) * sizeof *list);
    size_t n = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        for (size_t i = 0; i < h->gpus.n; i++) {
            if (rank_of(&h->gpus.items[i]) == rank) {
                list[n++] = &h->gpus.items[i];
            }
        }
    }
    return list;
}

/* The first command that one of its problems names; NULL: none does. */
static const char *problem_command(const struct host_gpu *g)
{
    for (size_t i = 0; i < g->problems.n; i++) {
        if (g->problems.items[i].command) {
            return g->problems.items[i].command;
        }
    }
    return NULL;
}

/* What to run next, by the GPU that comes first: try it out, or remove what is in its way. */
static const char *next_command(struct arena *a, const struct host *h,
                                const struct host_gpu *const *gpus, const char *root)
{
    if (strcmp(root, "/") != 0) {
        return arena_printf(a, "gpumend check --root %s", diag_shell_word(a, root));
    }
    if (h->gpus.n == 0) {
        return "gpumend check";
    }
    const char *repair = gpus[0]->usable == HOST_YES ? NULL : problem_command(gpus[0]);
    return repair ? repair : gpus[0]->usable == HOST_NO ? "gpumend check" : "gpumend probe";
}

/* The release, and the folders of toolkits. */
static void windows_text(const struct out *o, struct arena *a, const struct host_windows *w)
{
    if (w->is_windows.state != HOST_YES) {
        return;
    }
    devices_paragraph(o, a, OUT_PLAIN, "",
                      w->name.state == HOST_YES
                          ? arena_printf(a, "System: %s%s%s%s.", w->name.value,
                                         w->build.state == HOST_YES ? " (build " : "",
                                         w->build.state == HOST_YES ? w->build.value : "",
                                         w->build.state == HOST_YES ? ")" : "")
                          : arena_printf(a, "System: Windows; which release is not known: %s: %s.",
                                         w->name.where, w->name.why));
    for (size_t i = 0; i < w->toolkits.n; i++) {
        const struct host_windows_toolkit *t = &w->toolkits.items[i];
        devices_paragraph(o, a, OUT_PLAIN, "",
                          arena_printf(a, "%s %s: %s.", t->kind, t->version, t->path));
    }
}

void report_devices_text(const struct out *o, struct arena *a, const struct host *h,
                         const char *root, const struct probe_report *probed)
{
    const struct host_gpu **gpus = in_order(a, h);
    for (size_t i = 0; i < h->gpus.n;) {
        size_t n = 1;
        while (i + n < h->gpus.n && gpus_are_alike(a, h, gpus[i], gpus[i + n])) {
            n++;
        }
        host_device_text(o, a, h, gpus + i, n);
        i += n;
    }
    if (!probed || report_devices_probe_count(probed) == 0) {
        devices_summary(o, a, h);
    }
    if (probed) {
        report_devices_probe_text(o, a, probed);
    }
    for (size_t i = 0; i < h->other_displays.n; i++) {
        devices_paragraph(o, a, OUT_PLAIN, "",
                          arena_printf(a, "%s: a display adapter, which computes nothing.",
                                       h->other_displays.items[i]));
    }
    if (h->container.inside.state == HOST_YES) {
        devices_paragraph(
            o, a, OUT_PLAIN, "",
            arena_printf(a, "Container: %s%s.", h->container.inside.value,
                         h->container.rootless.state == HOST_YES ? ", rootless" : ""));
    }
    for (size_t i = 0; i < h->problems.n; i++) {
        const struct host_problem *p = &h->problems.items[i];
        devices_paragraph(o, a, OUT_PLAIN, "",
                          arena_printf(a, "Containers of this machine: %s.", p->text));
        if (p->step) {
            devices_paragraph(o, a, OUT_DIM, "next", p->step);
        }
    }
    windows_text(o, a, &h->windows);
    if (h->tegra.release.state == HOST_YES) {
        const char *jetpack = h->tegra.jetpack.value;
        devices_paragraph(o, a, OUT_PLAIN, "",
                          arena_printf(a, "System: L4T %s%s%s.", h->tegra.release.value,
                                       jetpack ? ", of JetPack " : ", of an unknown JetPack",
                                       jetpack ? jetpack : ""));
    }
    devices_paragraph(o, a, OUT_PLAIN, "",
                      arena_printf(a, "CPU: %s.", report_cpu_text(a, &h->cpu)));
    for (size_t i = 0; i < h->notes.n; i++) {
        devices_paragraph(o, a, OUT_PLAIN, "", arena_printf(a, "Note: %s.", h->notes.items[i]));
    }
    fputs("\nRun next: ", o->file);
    out_print(o, OUT_BOLD, "%s\n", str_printable(a, next_command(a, h, gpus, root)));
}
