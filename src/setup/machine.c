/* The facts that a plan depends on: of a machine that was read, or of one that is only named. */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/manager.h"
#include "kb/gpu_name.h"
#include "ldso/loader.h"
#include "py/env.h"
#include "py/version.h"
#include "setup/setup.h"

/* ------------------------------------------------------------------ read */

static bool gpu_is_better(const struct host_gpu *g, const struct host_gpu *best)
{
    if (!best || (g->usable == HOST_YES) != (best->usable == HOST_YES)) {
        return !best || g->usable == HOST_YES;
    }
    if ((g->vendor == HOST_INTEL) != (best->vendor == HOST_INTEL)) {
        return best->vendor == HOST_INTEL;
    }
    if (g->integrated != best->integrated) {
        return best->integrated;
    }
    uint64_t own = g->memory.number ? g->memory.number : (uint64_t)g->model_memory_gib << 30;
    uint64_t its =
        best->memory.number ? best->memory.number : (uint64_t)best->model_memory_gib << 30;
    return own > its;
}

static const struct host_gpu *gpu_of(const struct host *h)
{
    const struct host_gpu *best = NULL;
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        if ((host_gpu_counts(g) || g->vendor == HOST_INTEL) && gpu_is_better(g, best)) {
            best = g;
        }
    }
    return best;
}

static const char *machine_driver(const struct host *h, const struct host_gpu *g)
{
    struct py_version v;
    const char *texts[] = {h->nvidia.module.value, h->nvidia.versions_match.value,
                           g ? g->driver_version : NULL};
    for (size_t i = 0; i < sizeof texts / sizeof *texts && !host_has_tegra_alone(h); i++) {
        if (texts[i] && py_version_parse(str_of(texts[i]), &v)) {
            return texts[i];
        }
    }
    // Installed, and its module not loaded.
    for (size_t i = 0; i < h->nvidia.libraries.n; i++) {
        const struct host_library *l = &h->nvidia.libraries.items[i];
        if (strcmp(l->name, "libcuda.so.1") == 0 && l->version &&
            py_version_parse(str_of(l->version), &v)) {
            return l->version;
        }
    }
    return NULL;
}

/* Where /proc/cpuinfo does not say so in one word, the instructions do. */
static uint16_t machine_of(const struct host *h)
{
    const char *level = h->cpu.isa.value;
    return h->machine                                  ? h->machine
           : h->tegra.is_tegra.state == HOST_YES       ? EM_AARCH64
           : level && strncmp(level, "x86-64", 6) == 0 ? EM_X86_64
                                                       : EM_NONE;
}

static void take_host(const struct host *h, struct setup_machine *ret)
{
    uint16_t machine = machine_of(h);
    ret->host = h;
    ret->gpu = gpu_of(h);
    // WSL has the GPUs of Windows as one device, which a distribution may lack.
    ret->gpus_unknown =
        !ret->gpu && (h->pci.state == HOST_UNKNOWN || h->wsl.is_wsl.state == HOST_YES);
    ret->windows = h->windows.is_windows.state == HOST_YES;
    // The knowledge base has no wheels for Windows on ARM64.
    ret->platform = ret->windows            ? machine == EM_AARCH64 ? NULL : "windows-x86-64"
                    : machine == EM_X86_64  ? "linux-x86-64"
                    : machine == EM_AARCH64 ? "linux-aarch64"
                                            : NULL;
    ret->driver = ret->gpu && ret->gpu->vendor == HOST_NVIDIA ? machine_driver(h, ret->gpu) : NULL;
}

/* Alpine's, for one: its loader is there, and that of glibc is not. */
static bool is_musl(struct model *m, const char *glibc, uint16_t machine)
{
    struct stat st;
    const char *musl =
        machine == EM_AARCH64 ? "/lib/ld-musl-aarch64.so.1" : "/lib/ld-musl-x86_64.so.1";
    return root_stat(m->root, glibc, &st) == -ENOENT && root_stat(m->root, musl, &st) == 0;
}

void setup_machine_read(struct model *m, const char *shown, struct setup_machine *ret)
{
    struct ldso_loader loader = {0};
    *ret = (struct setup_machine){.shown = shown, .gpus_unknown = true, .root = m->root};
    if (m->host) {
        take_host(m->host, ret);
    }
    uint16_t machine = m->host ? machine_of(m->host) : EM_NONE;
    const char *interp = ret->windows ? NULL : ldso_loader_default(machine, true);
    if (interp) {
        ldso_loader_read(m->store, interp, machine, true, &loader);
    }
    ret->glibc_minor = loader.kind == LDSO_GLIBC ? loader.glibc_minor : 0;
    ret->musl = interp && is_musl(m, interp, machine);
    if (m->env && m->env->major > 0 && !m->env->free_threaded) {
        ret->python = arena_printf(m->arena, "%d.%d", m->env->major, m->env->minor);
    }
}

/* ------------------------------------------------------------------ named */

/* Systems of a name, and what they are by os-release(5). */
static const struct setup_system {
    const char *name, *os;
    enum host_manager manager;
    bool windows, wsl, container;
} systems[] = {
    {.name = "linux"},
    {.name = "ubuntu", .os = "ubuntu", .manager = HOST_APT},
    {.name = "debian", .os = "debian", .manager = HOST_APT},
    {.name = "fedora", .os = "fedora", .manager = HOST_DNF},
    {.name = "arch", .os = "arch", .manager = HOST_PACMAN},
    {.name = "wsl", .os = "ubuntu", .manager = HOST_APT, .wsl = true},
    {.name = "container", .container = true},
    {.name = "windows", .windows = true},
};

static const struct setup_system *system_of(const char *name, size_t *ret_length)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        size_t k = strlen(systems[i].name);
        if (n > k + 1 && name[n - k - 1] == '-' && strcmp(name + n - k, systems[i].name) == 0) {
            *ret_length = n - k - 1;
            return &systems[i];
        }
    }
    *ret_length = n;
    return &systems[0];
}

static struct host_fact named_fact(const char *value)
{
    return value ? (struct host_fact){.state = HOST_YES, .value = value}
                 : (struct host_fact){.state = HOST_UNKNOWN, .why = "only the name is known"};
}

/* Products whose name is not that of their GPU: Arm's learning path for DGX Spark (learn.arm.com,
 * dgx_spark_llamacpp) names its GB10. */
static const char *gpu_of_product(const char *name)
{
    return strcmp(name, "dgx-spark") == 0 ? "gb10" : name;
}

/* GPUs that are sold with an Arm processor of NVIDIA's: Grace, Tegra, the GB10's own. */
static bool is_of_arm(const char *name)
{
    return strstr(name, "jetson") || strstr(name, "gb10") || strstr(name, "gh200") ||
           strstr(name, "gb200") || strstr(name, "gb300");
}

/* Intel's graphics cards, by pci.ids (DG2, Battlemage). */
static const char *arc_of(struct arena *a, const char *name)
{
    static const char *const cards[] = {"a310", "a380", "a580", "a750", "a770", "b570", "b580"};
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        const char *rest = strncmp(name, "intel-", 6) == 0 ? name + 6 : name;
        if (strncmp(rest, "arc-", 4) == 0 && strcmp(rest + 4, cards[i]) == 0) {
            return arena_printf(a, "Intel Arc %c%s", cards[i][0] - 'a' + 'A', cards[i] + 1);
        }
    }
    return NULL;
}

static void fill_gpu(const struct kb_gpu *g, bool tegra, struct arena *a, struct host_gpu *ret)
{
    bool amd = g->vendor == KB_VENDOR_AMD;
    *ret = (struct host_gpu){
        .vendor = amd ? HOST_AMD : HOST_NVIDIA,
        .kind = tegra ? "tegra" : "pci",
        .name = arena_printf(a, "%s %s", amd ? "AMD" : "NVIDIA", g->name),
        .chip = g->chips.n ? g->chips.items[0] : NULL,
        .integrated = tegra,
        .driver = named_fact(NULL),
        .architecture = named_fact(g->generation),
        .compute_capability = named_fact(g->capability),
        .gfx = named_fact(g->gfx),
        .model_memory_gib = (unsigned)g->memory_gib,
        .usable = HOST_UNKNOWN,
    };
}

int setup_machine_named(struct kb *kb, struct arena *a, const char *name, struct setup_machine *ret,
                        struct gm_err *err)
{
    size_t n = 0;
    const struct setup_system *system = system_of(name, &n);
    const char *gpu = gpu_of_product(arena_strndup(a, name, n));
    struct kb_gpu_list list = {0};
    struct kb_gpus gpus;
    const char *arc = arc_of(a, gpu);
    bool cpu = strcmp(gpu, "cpu") == 0, tegra = strncmp(gpu, "jetson", 6) == 0, by_gfx = false;
    int rc = kb_gpus(kb, &gpus, err);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < gpus.n && !cpu && !arc; i++) {
        const char *gfx = gpus.rows[i].gfx;
        bool has_gfx = gfx && strcmp(gfx, gpu) == 0;
        by_gfx = by_gfx || has_gfx;
        if (has_gfx || strcmp(gpus.rows[i].id, gpu) == 0) {
            VEC_PUSH(a, &list.items, &gpus.rows[i]);
        }
    }
    if (!list.items.n && !cpu && !arc) {
        kb_gpus_named(a, &gpus, gpu, &list);
    }
    if (!cpu && !arc && !kb_gpus_alike(&list)) {
        return gm_err_set(err, GM_ERR_USAGE,
                          list.items.n ? "%s stands for GPUs of several kinds: give the whole name"
                                       : "no machine is known as %s: give a GPU and a system, such "
                                         "as rtx-3060-linux, or the folder of a captured tree",
                          str_printable(a, name));
    }
    struct host *h = arena_alloc(a, sizeof *h);
    *h = (struct host){.machine = is_of_arm(gpu) ? EM_AARCH64 : EM_X86_64};
    h->os = named_fact(system->os);
    h->manager = system->manager;
    h->windows.is_windows.state = system->windows ? HOST_YES : HOST_NO;
    h->wsl.is_wsl.state = system->wsl ? HOST_YES : HOST_NO;
    h->tegra.is_tegra.state = tegra ? HOST_YES : HOST_NO;
    h->container.inside.state = system->container ? HOST_YES : HOST_NO;
    h->pci.state = HOST_YES;
    if (!cpu) {
        struct host_gpu one = {.vendor = HOST_INTEL, .kind = "pci", .name = arc};
        one.driver = one.compute_capability = one.gfx = named_fact(NULL);
        if (!arc) {
            fill_gpu(list.items.items[0], tegra, a, &one);
        }
        if (by_gfx) { // one of several cards
            one.name = "AMD GPU";
            one.chip = NULL;
            one.model_memory_gib = 0;
        }
        VEC_PUSH(a, &h->gpus, one);
    }
    *ret = (struct setup_machine){.shown = name, .named = true};
    take_host(h, ret);
    ret->gpu = cpu ? NULL : &h->gpus.items[0];
    return 0;
}
