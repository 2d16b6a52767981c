/*
 * AMD: the KFD topology (Linux drivers/gpu/drm/amd/amdkfd/kfd_topology.c), the amdgpu module, the
 * render nodes, and the ROCm installations by their ".info/version" and their rocBLAS kernels.
 */
#include "host/internal.h"
#include "host/names.h"

#include <errno.h>
#include <string.h>

static const char topology[] = "/sys/class/kfd/kfd/topology/nodes";

enum { NODES_MAX = 512, BANKS_MAX = 16, HEAP_PUBLIC = 1, HEAP_PRIVATE = 2 };

/* Sizes of the banks in the GPU's own memory: HSA_MEM_HEAP_TYPE_FB_PUBLIC, _PRIVATE. */
static uint64_t bank_bytes(struct host_look *l, const char *node)
{
    uint64_t sum = 0;
    for (int bank = 0;; bank++) {
        struct str text;
        uint64_t heap, size;
        if (host_read(l, arena_printf(l->arena, "%s/mem_banks/%d/properties", node, bank), &text) <
            0) {
            break;
        }
        if (bank == BANKS_MAX) {
            root_note_cut(l->root, "%s has more than %d banks of memory; the others do not count",
                          node, BANKS_MAX);
            break;
        }
        if (host_parse_property(text, "heap_type", &heap) &&
            host_parse_property(text, "size_in_bytes", &size) &&
            (heap == HEAP_PUBLIC || heap == HEAP_PRIVATE) && size < UINT64_MAX / BANKS_MAX) {
            sum += size;
        }
    }
    return sum;
}

/* The GPU a KFD node belongs to: domain, and bus, device, function out of location_id. */
static struct host_gpu *amd_gpu(struct host *h, struct str text)
{
    uint64_t location, domain = 0;
    if (!host_parse_property(text, "location_id", &location)) {
        return NULL;
    }
    (void)host_parse_property(text, "domain", &domain); // absent on old kernels: 0
    for (size_t i = 0; i < h->gpus.n; i++) {
        struct host_gpu *g = &h->gpus.items[i];
        struct host_bdf b;
        // Partitions of one card differ in the function only (kfd_topology.c, kfd_fill_location).
        if (g->vendor == HOST_AMD && host_parse_bdf(str_of(g->bdf), &b) && b.domain == domain &&
            b.bus == (location >> 8 & 0xff) && b.device == (location >> 3 & 0x1f)) {
            return g;
        }
    }
    return NULL;
}

static void add_render_node(struct host_look *l, struct host_gpu *g, struct str text)
{
    uint64_t minor;
    if (!host_parse_property(text, "drm_render_minor", &minor) || minor == 0 ||
        minor > UINT16_MAX) {
        return;
    }
    const char *path = arena_printf(l->arena, "/dev/dri/renderD%u", (unsigned)minor);
    struct host_node node = host_node_at(l, path);
    if (g->nodes.n == 0) {
        g->minor = host_amount(topology, minor);
    }
    VEC_PUSH(l->arena, &g->nodes, node);
}

static void read_node(struct host_look *l, const char *node)
{
    struct str text;
    uint64_t simds = 0, per_cu = 0, version = 0, cpus = 0;
    const char *path = path_join(l->arena, node, "properties");
    if (host_read(l, path, &text) < 0) {
        return;
    }
    (void)host_parse_property(text, "simd_count", &simds); // each may be missing: 0
    (void)host_parse_property(text, "simd_per_cu", &per_cu);
    (void)host_parse_property(text, "gfx_target_version", &version);
    (void)host_parse_property(text, "cpu_cores_count", &cpus);
    struct host_gpu *g = simds || version ? amd_gpu(l->host, text) : NULL;
    if (!g) {
        return;
    }
    const char *gfx = host_parse_gfx(l->arena, version);
    const struct host_gfx *target = host_gfx(gfx);
    if (gfx) {
        g->gfx = host_yes(path, gfx);
        g->architecture = target ? host_yes(path, target->architecture)
                                 : host_unknown(path, "this gfx target is not in the table");
    }
    g->integrated = cpus > 0 || (target && target->apu);
    if (per_cu) {
        uint64_t before = g->compute_units.state == HOST_YES ? g->compute_units.number : 0;
        g->compute_units = host_amount(path, before + simds / per_cu);
    }
    uint64_t bytes = bank_bytes(l, node);
    if (bytes) {
        uint64_t before = g->memory.state == HOST_YES ? g->memory.number : 0;
        g->memory = host_amount(path, before + bytes);
    }
    uint64_t parts = g->partitions.state == HOST_YES ? g->partitions.number : 0;
    g->partitions = host_amount(path, parts + 1);
    add_render_node(l, g, text);
}

static void read_topology(struct host_look *l)
{
    struct host_amd *amd = &l->host->amd;
    struct root_dir dir;
    int rc = root_list(l->root, l->arena, topology, NODES_MAX, NULL, &dir);
    amd->kfd = rc == 0 ? host_yes(topology, NULL) : host_presence(l, topology, "/sys/class");
    for (size_t i = 0; rc == 0 && i < dir.n; i++) {
        read_node(l, path_join(l->arena, topology, dir.names[i]));
    }
}

static struct host_fact amd_read_bytes(struct host_look *l, const char *path)
{
    struct str text;
    uint64_t bytes;
    int rc = host_read(l, path, &text);
    return rc < 0                            ? host_unknown(path, host_why(l, rc))
           : str_u64(str_trim(text), &bytes) ? host_amount(path, bytes)
                                             : host_unknown(path, "it holds no number");
}

/* Integrated graphics have the little that the firmware reserves, and map the machine's memory
 * (GTT). Since Linux 6.10 compute programs get it from the larger of the two: Linux
 * drivers/gpu/drm/amd/amdgpu/amdgpu_ttm.c, apu_prefer_gtt. A kernel that does so tells KFD. */
static void take_shared_memory(struct host_look *l, struct host_gpu *g)
{
    const struct host_fact *kernel = &l->host->kernel;
    bool larger = g->gtt.state == HOST_YES && g->gtt.number > g->memory.number;
    if (!g->integrated || !larger) {
        return;
    }
    if (kernel->state == HOST_YES && host_version_cmp(kernel->value, "6.10") >= 0) {
        g->memory = g->gtt;
    } else {
        VEC_PUSH(l->arena, &g->problems,
                 (struct host_problem){
                     .id = "gtt-not-used",
                     .text =
                         "this kernel gives programs only the memory that the firmware reserves "
                         "for it",
                     .step = "use Linux 6.10 or later, which gives them the machine's memory as "
                             "well, or reserve more in the firmware's settings",
                     .state = HOST_YES});
    }
}

/* What amdgpu itself tells: memory, partitions, the render node of a GPU that KFD does not serve.
 */
static void read_sysfs(struct host_look *l, struct host_gpu *g)
{
    const char *dir = arena_printf(l->arena, "/sys/bus/pci/devices/%s", g->bdf);
    struct str text;
    g->vram = amd_read_bytes(l, path_join(l->arena, dir, "mem_info_vram_total"));
    g->gtt = amd_read_bytes(l, path_join(l->arena, dir, "mem_info_gtt_total"));
    uint64_t banks = g->memory.state == HOST_YES ? g->memory.number : 0;
    // With partitions the banks of KFD share what this file counts once.
    if (g->vram.state == HOST_YES && g->vram.number && !(g->integrated && banks > g->vram.number)) {
        g->memory = g->vram;
    }
    take_shared_memory(l, g);
    const char *path = path_join(l->arena, dir, "current_compute_partition");
    if (g->partitions.state == HOST_YES && host_read(l, path, &text) == 0 && str_trim(text).n) {
        g->partitions.value = str_dup(l->arena, str_trim(text));
    }
    struct root_dir drm = host_entries(l, path_join(l->arena, dir, "drm"), "renderD*");
    if (g->nodes.n == 0 && drm.n) {
        path = path_join(l->arena, "/dev/dri", drm.names[0]);
        struct host_node node = host_node_at(l, path);
        VEC_PUSH(l->arena, &g->nodes, node);
    }
}

/* ------------------------------------------------------------------ ROCm */

static void add_gfx(struct host_look *l, struct host_rocm *rocm, struct str gfx)
{
    for (size_t i = 0; i < rocm->gfx.n; i++) {
        if (str_is(gfx, rocm->gfx.items[i])) {
            return;
        }
    }
    VEC_PUSH(l->arena, &rocm->gfx, str_dup(l->arena, gfx));
}

/* "TensileLibrary_lazy_gfx1030.dat": rocBLAS library/src/tensile_host.cpp looks for this name. */
static void read_kernels(struct host_look *l, struct host_rocm *rocm)
{
    const char *folder = path_join(l->arena, rocm->prefix, "lib/rocblas/library");
    struct root_dir files = host_entries(l, folder, "TensileLibrary*gfx*");
    for (size_t i = 0; i < files.n; i++) {
        struct str name = str_of(files.names[i]);
        size_t at = str_find(name, "gfx"), n = at + 3;
        while (n < name.n &&
               ((name.s[n] >= '0' && name.s[n] <= '9') || (name.s[n] >= 'a' && name.s[n] <= 'f'))) {
            n++;
        }
        if (n > at + 5) {
            add_gfx(l, rocm, (struct str){name.s + at, n - at});
        }
    }
}

static void read_rocm(struct host_look *l)
{
    struct root_dir dir = host_entries(l, "/opt", "rocm*");
    VEC(const char *) seen = {0};
    for (size_t i = 0; i < dir.n; i++) {
        char *real;
        const char *path = path_join(l->arena, "/opt", dir.names[i]);
        if (root_realpath(l->root, l->arena, path, &real) < 0) {
            continue;
        }
        bool again = false;
        for (size_t k = 0; k < seen.n; k++) {
            again |= strcmp(seen.items[k], real) == 0; // /opt/rocm is a link to one of them
        }
        struct host_rocm rocm = {.prefix = real};
        struct str text;
        if (again || host_entries(l, real, "*").n == 0) {
            continue;
        }
        VEC_PUSH(l->arena, &seen, real);
        if (host_read(l, path_join(l->arena, real, ".info/version"), &text) == 0) {
            rocm.version = str_dup(l->arena, str_trim(text));
        }
        read_kernels(l, &rocm);
        VEC_PUSH(l->arena, &l->host->amd.rocm, rocm);
    }
}

/* ROCm from wheels, by the names of their folders. */
static void read_pip_rocm(struct host_look *l)
{
    static const char *const libs[] = {"/usr/lib", "/usr/local/lib", "/opt/venv/lib", "/venv/lib"};
    static const char *const sites[] = {"site-packages", "dist-packages"};
    for (size_t i = 0; i < sizeof libs / sizeof *libs; i++) {
        struct root_dir pythons = host_entries(l, libs[i], "python3*");
        for (size_t k = 0; k < pythons.n * 2; k++) {
            const char *site =
                arena_printf(l->arena, "%s/%s/%s", libs[i], pythons.names[k / 2], sites[k % 2]);
            struct root_dir found = host_entries(l, site, "*rocm_sdk*");
            for (size_t n = 0; n < found.n; n++) {
                VEC_PUSH(l->arena, &l->host->amd.pip_rocm,
                         path_join(l->arena, site, found.names[n]));
            }
        }
    }
}

void host_collect_amd(struct host_look *l)
{
    static const char *const names[] = {"libhsa-runtime64.so.1", "libamdhip64.so.7",
                                        "libamdhip64.so.6", "libamdhip64.so.5"};
    struct host *h = l->host;
    h->amd.module = host_presence(l, "/sys/module/amdgpu", "/sys/module");
    struct str state;
    if (h->amd.module.state == HOST_YES) {
        if (host_read(l, "/sys/module/amdgpu/initstate", &state) == 0 &&
            !str_is(str_trim(state), "live")) {
            h->amd.module = host_no("/sys/module/amdgpu/initstate", "the module is not live");
        }
        struct host_fact version = host_text_fact(l, "/sys/module/amdgpu/version", "/sys/module");
        h->amd.module.value = version.state == HOST_YES ? version.value : NULL;
    }
    read_topology(l);
    h->amd.kfd_node = host_node_at(l, "/dev/kfd");
    for (size_t i = 0; i < h->gpus.n; i++) {
        if (h->gpus.items[i].vendor == HOST_AMD) {
            read_sysfs(l, &h->gpus.items[i]);
        }
    }
    read_rocm(l);
    read_pip_rocm(l);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct host_libraries libs;
        host_find_library(l, names[i], &libs);
        if (libs.found.n) {
            VEC_PUSH(l->arena, &h->amd.libraries, libs.found.items[0]);
        }
    }
}
