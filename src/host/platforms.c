/*
 * GPUs that are not on a PCI bus: through WSL (the kernel of WSL names itself "microsoft";
 * /dev/dxg; the driver's libraries are Windows' driver store, mounted below /usr/lib/wsl), and in
 * the Tegra processors of the Jetson boards (/etc/nv_tegra_release, the device tree).
 */
#include "host/internal.h"
#include "host/names.h"

#include <string.h>

/* ------------------------------------------------------------------ WSL */

static struct host_fact is_wsl(const struct host *h)
{
    if (h->kernel.state != HOST_YES) {
        return host_unknown("/proc/sys/kernel/osrelease", "the kernel is not known");
    }
    struct str release = str_of(h->kernel.value);
    bool yes =
        str_find(release, "microsoft") < release.n || str_find(release, "Microsoft") < release.n;
    return yes ? host_yes("/proc/sys/kernel/osrelease", NULL)
               : host_no("/proc/sys/kernel/osrelease", "the kernel is not WSL's");
}

/* A folder of the driver store with an NVIDIA driver. */
static struct host_fact store_driver(struct host_look *l)
{
    static const char store[] = "/usr/lib/wsl/drivers";
    struct root_dir folders = host_entries(l, store, "nv*");
    for (size_t i = 0; i < folders.n; i++) {
        const char *folder = path_join(l->arena, store, folders.names[i]);
        struct stat st;
        if (root_stat(l->root, path_join(l->arena, folder, "libcuda.so.1.1"), &st) == 0) {
            return host_yes(folder, folders.names[i]);
        }
    }
    struct host_fact fact = host_presence(l, store, "/usr/lib");
    return fact.state == HOST_YES ? host_no(store, "it contains no NVIDIA driver") : fact;
}

static void read_wsl_libraries(struct host_look *l)
{
    struct host_wsl *w = &l->host->wsl;
    struct host_nvidia *n = &l->host->nvidia;
    static const char path[] = "/usr/lib/wsl/lib/libcuda.so.1";
    char *real;
    if (root_realpath(l->root, l->arena, path, &real) == 0) {
        w->libcuda = (struct host_library){.name = "libcuda.so.1", .path = path, .real = real};
    }
    struct host_libraries dxcore;
    host_find_library(l, "libdxcore.so", &dxcore);
    w->dxcore = dxcore.found.n ? host_yes(dxcore.found.items[0].path, NULL)
                               : host_no("/usr/lib/wsl/lib", "it is in none of the usual folders");
    for (size_t i = 0; i < n->libraries.n; i++) {
        const struct host_library *lib = &n->libraries.items[i];
        if (strcmp(lib->name, "libcuda.so.1") == 0 && !starts_with(lib->real, "/usr/lib/wsl/")) {
            VEC_PUSH(l->arena, &w->shadows, lib->path);
        }
    }
    for (size_t i = 0; i < n->shadowed.n; i++) {
        if (!starts_with(n->shadowed.items[i].real, "/usr/lib/wsl/")) {
            VEC_PUSH(l->arena, &w->shadows, n->shadowed.items[i].path);
        }
    }
}

static struct host_gpu platform_gpu(enum host_vendor vendor, const char *kind, const char *name,
                                    const char *why)
{
    struct host_gpu g = {.vendor = vendor, .kind = kind, .name = name};
    g.driver = g.architecture = g.compute_capability = g.gfx = g.compute_units = g.memory = g.vram =
        g.gtt = g.numa_node = g.minor = g.uuid = g.model = g.partitions = host_unknown(NULL, why);
    return g;
}

static void collect_wsl(struct host_look *l)
{
    struct host *h = l->host;
    struct host_wsl *w = &h->wsl;
    w->is_wsl = is_wsl(h);
    w->dxg = w->driver = w->dxcore = host_unknown(NULL, "this is not WSL");
    if (w->is_wsl.state != HOST_YES) {
        return;
    }
    struct host_node dxg = host_node_at(l, "/dev/dxg");
    w->dxg = dxg.present;
    w->driver = store_driver(l);
    read_wsl_libraries(l);
    if (w->driver.state != HOST_YES && !w->libcuda.path) {
        bool inside = h->container.inside.state == HOST_YES;
        if (w->dxg.state != HOST_NO) {
            VEC_PUSH(l->arena, &h->notes,
                     inside ? "this container in WSL has /dev/dxg but no NVIDIA driver: no file "
                              "here shows which vendor's GPU it is"
                            : "WSL may have access to a GPU that is not NVIDIA's, which no file "
                              "here shows");
        } else if (inside) {
            VEC_PUSH(l->arena, &h->notes,
                     "this is a container in WSL without /dev/dxg: a GPU of Windows, if there is "
                     "one, was not given to it");
        }
        return;
    }
    struct host_gpu g = platform_gpu(HOST_NVIDIA, "wsl", "NVIDIA GPU through WSL",
                                     "only the libraries of the Windows driver can read it");
    g.driver = w->driver;
    VEC_PUSH(l->arena, &g.nodes, dxg);
    VEC_PUSH(l->arena, &h->gpus, g);
}

/* ------------------------------------------------------------------ Tegra */

/* NVIDIA, "CUDA GPU Compute Capability" (Jetson) and its legacy list. */
static const struct {
    const char *soc, *name, *architecture, *capability;
} socs[] = {
    {"tegra264", "NVIDIA Jetson Thor", "Blackwell", "11.0"},
    {"tegra234", "NVIDIA Jetson Orin", "Ampere", "8.7"},
    {"tegra194", "NVIDIA Jetson Xavier", "Volta", "7.2"},
    {"tegra186", "NVIDIA Jetson TX2", "Pascal", "6.2"},
    {"tegra210", "NVIDIA Jetson Nano or TX1", "Maxwell", "5.3"},
};

/* "# R36 (release), REVISION: 3.0, GCID: ..." -> "R36, REVISION: 3.0" */
static struct host_fact tegra_release(struct host_look *l)
{
    static const char path[] = "/etc/nv_tegra_release";
    struct host_fact fact = host_text_fact(l, path, "/etc");
    if (fact.state != HOST_YES) {
        return fact;
    }
    struct str text = str_of(fact.value), line = {0};
    (void)str_line(&text, &line); // an empty file has none: the value stays empty
    while (line.n && (line.s[0] == '#' || line.s[0] == ' ')) {
        line = (struct str){line.s + 1, line.n - 1};
    }
    struct str release = str_trim(str_cut(&line, ' '));
    (void)str_cut(&line, ',');
    struct str revision = str_trim(str_cut(&line, ','));
    return host_yes(
        path, arena_printf(l->arena, STR_FMT ", " STR_FMT, STR_ARG(release), STR_ARG(revision)));
}

/* The JetPack that came with a release of L4T. Sources: "JetPack 7.0 with Jetson Linux 38.2/38.2.1"
 * and "JetPack 7.1 with Jetson Linux 38.4" [developer.nvidia.com, archive-7.0.md, archive-7.1.md];
 * R39 [OE4T/meta-tegra#2281, #2339]; R36 [Astute-Systems/bsp v1.4.0;
 * framosimaging/framos-jetson-libsv], R36.5.0 [OE4T/meta-tegra, L4T-R36.5.0-Notes]; R35.5.0 to
 * R35.6.2 [the same, L4T-R35.5.0-Notes, -R35.6.1-Notes, -R35.6.2-Notes], R35 before, R34 and R32
 * [dusty-nv/jetson-containers, l4t_version.py]; R32.7.2 "is included as part of JetPack 4.6.2",
 * R32.5.1 of 4.5.1, R32.4.4 of 4.4.1, R32.4.3 of 4.4 [developer.nvidia.com, linux-tegra-r3272,
 * -r3251, -r3244, -r32.4.3]. */
static const struct {
    const char *release, *jetpack;
} jetpacks[] = {
    {"R39, REVISION: 2.1", "7.2.1"},  {"R39, REVISION: 2.0", "7.2"},
    {"R38, REVISION: 4.0", "7.1"},    {"R38, REVISION: 2.0", "7.0"},
    {"R38, REVISION: 2.1", "7.0"},    {"R36, REVISION: 5.0", "6.2.2"},
    {"R36, REVISION: 4.4", "6.2.1"},  {"R36, REVISION: 4.3", "6.2"},
    {"R36, REVISION: 4.0", "6.1"},    {"R36, REVISION: 3.0", "6.0"},
    {"R36, REVISION: 2.0", "6.0 DP"}, {"R35, REVISION: 6.2", "5.1.5"},
    {"R35, REVISION: 6.1", "5.1.5"},  {"R35, REVISION: 6.0", "5.1.4"},
    {"R35, REVISION: 5.0", "5.1.3"},  {"R35, REVISION: 4.1", "5.1.2"},
    {"R35, REVISION: 3.1", "5.1.1"},  {"R35, REVISION: 2.1", "5.1"},
    {"R35, REVISION: 1.0", "5.0.2"},  {"R34, REVISION: 1.1", "5.0.1 DP"},
    {"R32, REVISION: 7.5", "4.6.5"},  {"R32, REVISION: 7.4", "4.6.4"},
    {"R32, REVISION: 7.3", "4.6.3"},  {"R32, REVISION: 7.2", "4.6.2"},
    {"R32, REVISION: 7.1", "4.6.1"},  {"R32, REVISION: 6.1", "4.6"},
    {"R32, REVISION: 5.2", "4.5.1"},  {"R32, REVISION: 5.1", "4.5.1"},
    {"R32, REVISION: 5.0", "4.5"},    {"R32, REVISION: 4.4", "4.4.1"},
    {"R32, REVISION: 4.3", "4.4"},    {"R32, REVISION: 3.1", "4.3"},
};

static struct host_fact tegra_jetpack(const struct host_fact *release)
{
    if (release->state != HOST_YES) {
        return *release;
    }
    for (size_t i = 0; i < sizeof jetpacks / sizeof *jetpacks; i++) {
        if (strcmp(jetpacks[i].release, release->value) == 0) {
            return host_yes(release->where, jetpacks[i].jetpack);
        }
    }
    return host_unknown(release->where, "which JetPack this release of L4T came with is not known");
}

/* The device tree's "compatible": texts that end in NUL, the most exact one first. */
static size_t soc_index(struct host_look *l, struct host_fact *ret)
{
    static const char path[] = "/proc/device-tree/compatible";
    size_t n = sizeof socs / sizeof *socs;
    struct str text;
    int rc = host_read(l, path, &text);
    if (rc < 0) {
        *ret = host_unknown(path, host_why(l, rc));
        return n;
    }
    for (size_t i = 0; i < n; i++) {
        const char *wanted = arena_printf(l->arena, "nvidia,%s", socs[i].soc);
        struct str rest = text;
        while (rest.s) {
            if (str_is(str_cut(&rest, '\0'), wanted)) {
                *ret = host_yes(path, socs[i].soc);
                return i;
            }
        }
    }
    *ret = host_unknown(path, "it names no Tegra processor of the table");
    return n;
}

static void add_tegra_nodes(struct host_look *l, struct host_gpu *g)
{
    // JetPack 5 and before, then JetPack 6: the device list of NVIDIA's container runtime (csv).
    static const char *const paths[] = {"/dev/nvhost-gpu", "/dev/nvgpu/igpu0/ctrl", "/dev/nvmap"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct host_node node = host_node_at(l, paths[i]);
        if (node.present.state == HOST_YES) {
            VEC_PUSH(l->arena, &g->nodes, node);
        }
    }
}

/* What NVIDIA's package names for containers: "KIND, PATH" a line (nvidia-container-toolkit,
 * internal/platform-support/tegra/csv). A path may be a pattern; only its last part is taken as
 * one. */
static void read_tegra_list(struct host_look *l, const char *list)
{
    enum { LINES_MAX = 4096 };
    struct host_tegra *t = &l->host->tegra;
    struct str text, line;
    int rc = host_read(l, list, &text);
    while (rc == 0 && str_line(&text, &line)) {
        if (t->files.n + t->nodes.n >= LINES_MAX) {
            root_note_cut(l->root, "%s: more than %d files are named; the others were not taken",
                          list, LINES_MAX);
            return;
        }
        struct str kind = str_trim(str_cut(&line, ',')), path = str_trim(line);
        static const char *const kinds[] = {"dev", "dir", "lib", "sym"};
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            if (!str_is(kind, kinds[i]) || !str_starts(path, "/")) {
                continue;
            }
            struct host_tegra_file file = {kinds[i], str_dup(l->arena, path)};
            if (i > 0) {
                VEC_PUSH(l->arena, &t->files, file);
                continue;
            }
            host_texts found =
                host_nodes_in(l, path_dir(l->arena, file.path), path_base(file.path));
            for (size_t k = 0; k < found.n; k++) {
                VEC_PUSH(l->arena, &t->nodes, host_node_at(l, found.items[k]));
            }
        }
    }
}

/* Those that the lists of JetPack 5 and 6 name for programs that compute. */
static void find_tegra_nodes(struct host_look *l)
{
    static const struct {
        const char *folder, *pattern;
    } nodes[] = {{"/dev", "nvmap"},    {"/dev", "nvhost-*"},      {"/dev", "host1x-fence"},
                 {"/dev", "nvsciipc"}, {"/dev/nvgpu/igpu0", "*"}, {"/dev/dri", "renderD*"},
                 {"/dev/dri", "card*"}};
    struct host_tegra *t = &l->host->tegra;
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        host_texts found = host_nodes_in(l, nodes[i].folder, nodes[i].pattern);
        for (size_t k = 0; k < found.n; k++) {
            VEC_PUSH(l->arena, &t->nodes, host_node_at(l, found.items[k]));
        }
    }
}

static void read_tegra_lists(struct host_look *l)
{
    static const char folder[] = "/etc/nvidia-container-runtime/host-files-for-container.d";
    struct root_dir lists = host_entries(l, folder, "*.csv");
    for (size_t i = 0; i < lists.n; i++) {
        read_tegra_list(l, path_join(l->arena, folder, lists.names[i]));
    }
    if (l->host->tegra.nodes.n == 0) {
        find_tegra_nodes(l);
    }
}

/* From Thor on the GPU is a PCI device as well, and is then already in the list. */
static bool on_pci(const struct host *h)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        if (h->gpus.items[i].vendor == HOST_NVIDIA && h->gpus.items[i].chip &&
            starts_with(h->gpus.items[i].chip, "GB10B")) {
            return true;
        }
    }
    return false;
}

static void collect_tegra(struct host_look *l)
{
    struct host *h = l->host;
    struct host_tegra *t = &h->tegra;
    t->release = tegra_release(l);
    t->jetpack = tegra_jetpack(&t->release);
    size_t soc = soc_index(l, &t->soc);
    t->is_tegra = t->soc.state == HOST_YES       ? host_yes(t->soc.where, NULL)
                  : t->release.state == HOST_YES ? host_yes(t->release.where, NULL)
                  : t->release.state == HOST_NO
                      ? host_no(t->release.where, "no sign of a Tegra processor was found")
                      : host_unknown(t->release.where, t->release.why);
    if (t->is_tegra.state == HOST_YES) {
        read_tegra_lists(l);
    }
    if (t->is_tegra.state != HOST_YES || on_pci(h)) {
        return;
    }
    bool known = soc < sizeof socs / sizeof *socs;
    struct host_gpu g = platform_gpu(HOST_NVIDIA, "tegra", known ? socs[soc].name : "NVIDIA Tegra",
                                     "the driver of Tegra states it in no file");
    if (known) {
        g.architecture = host_yes(t->soc.where, socs[soc].architecture);
        g.compute_capability = host_yes(t->soc.where, socs[soc].capability);
        g.chip = socs[soc].soc;
    }
    g.integrated = true;
    g.driver = host_presence(l, "/sys/module/nvgpu", "/sys/module");
    g.driver.value = g.driver.state == HOST_YES ? "nvgpu" : NULL;
    add_tegra_nodes(l, &g);
    VEC_PUSH(l->arena, &h->gpus, g);
}

void host_collect_platforms(struct host_look *l)
{
    collect_wsl(l);
    collect_tegra(l);
}
