/* The machine in the report for issues: system, GPUs, and the two halves of their drivers. */
#include <string.h>

#include "base/str.h"
#include "elf/image.h"
#include "kb/serves.h"
#include "report/devices.h"
#include "report/paste_internal.h"

enum { GPUS_MAX = 8 };

/* ------------------------------------------------------------------ system */

static const char *loader_text(struct paste *p)
{
    const struct ldso_process *l = model_first_process(p->m);
    if (!l || l->is_static || !l->loader.path) {
        return l && l->is_static ? "none: the program is statically linked"
                                 : paste_unknown(p, "no program was found");
    }
    return arena_printf(p->a, "%s %s (%s)",
                        l->loader.kind == LDSO_MUSL    ? "musl"
                        : l->loader.kind == LDSO_GLIBC ? "glibc"
                                                       : "another C library",
                        l->loader.version ? l->loader.version : "of unknown version",
                        l->loader.path);
}

static void container_line(struct paste *p, const struct host *h)
{
    const struct host_container *c = &h->container;
    if (c->inside.state == HOST_NO) {
        paste_line(p, "container", "no sign of one");
        return;
    }
    paste_fact(p, "container", &c->inside,
               arena_printf(p->a, "%s%s", c->inside.value ? c->inside.value : "yes",
                            c->rootless.state == HOST_YES ? ", rootless" : ""));
}

static void level_line(struct paste *p)
{
    const struct ldso_process *l = model_first_process(p->m);
    const struct ldso_cpu *cpu = l ? &l->cpu : p->m->config.cpu;
    const char *level = cpu ? ldso_cpu_level_name(cpu) : NULL;
    if (level && !ldso_cpu_is_unknown(cpu)) {
        paste_line(p, "CPU level", level);
    } else if (cpu && ldso_cpu_is_unknown(cpu)) {
        paste_line(p, "CPU level", paste_unknown(p, cpu->why ? cpu->why : "not stated"));
    }
}

/* Where the kernel decides it. */
static void page_line(struct paste *p)
{
    const struct ldso_process *l = model_first_process(p->m);
    if (l && l->cpu.page_size) {
        paste_line(p, "page size", arena_printf(p->a, "%u KiB", l->cpu.page_size >> 10));
    }
}

static void system_of_host(struct paste *p, const struct host *h)
{
    const struct ldso_process *l = model_first_process(p->m);
    const char *machine = h->machine ? elf_machine_name(p->a, h->machine)
                          : l        ? l->machine_name
                                     : "of an unknown processor";
    const struct host_fact *os = h->os_name.state == HOST_YES ? &h->os_name : &h->os;
    paste_fact(p, "OS", os, os->value);
    paste_fact(p, "kernel", &h->kernel,
               arena_printf(p->a, "%s, %s", h->kernel.value ? h->kernel.value : "", machine));
    paste_line(p, "C library", loader_text(p));
    container_line(p, h);
    if (h->wsl.is_wsl.state != HOST_NO) {
        paste_fact(p, "WSL", &h->wsl.is_wsl, NULL);
    }
    paste_line(p, "CPU", report_cpu_text(p->a, &h->cpu));
    level_line(p);
    page_line(p);
}

/* ------------------------------------------------------------------ GPUs */

static bool has_vendor(const struct host *h, enum host_vendor vendor)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        if (h->gpus.items[i].vendor == vendor) {
            return true;
        }
    }
    return false;
}

static void gpus(struct paste *p, const struct host *h)
{
    paste_section(p, "GPUs");
    for (size_t i = 0; i < h->gpus.n && i < GPUS_MAX; i++) {
        paste_line(p, arena_printf(p->a, "%zu", i),
                   report_device_sentence(p->a, h, &h->gpus.items[i]));
    }
    if (h->gpus.n > GPUS_MAX) {
        paste_line(p, "more", arena_printf(p->a, "%zu", h->gpus.n - GPUS_MAX));
    }
    if (h->gpus.n == 0) {
        paste_fact(p, "GPUs", &h->pci, "none found");
    }
    if (has_vendor(h, HOST_NVIDIA)) {
        paste_line(p, "ECC, MIG mode",
                   paste_unknown(p, "only the driver's library reports them, and nothing was run"));
    }
    for (size_t i = 0; i < h->other_displays.n; i++) {
        paste_line(p, "display only", h->other_displays.items[i]);
    }
}

/* ------------------------------------------------------------------ drivers */

static const struct host_library *library_named(const struct host_library *list, size_t n,
                                                const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, name) == 0 && list[i].path) {
            return &list[i];
        }
    }
    return NULL;
}

static const char *library_text(struct paste *p, const struct host_library *l)
{
    if (!l) {
        return "not found";
    }
    return arena_printf(p->a, "%s (%s)", l->version ? l->version : "of unknown version",
                        l->real ? l->real : l->path);
}

/* "up to 12.4 Update 1": by the release notes of the toolkits. */
static void cuda_line(struct paste *p, const char *driver)
{
    struct kb_drivers d;
    struct gm_err err;
    if (!driver || kb_drivers(p->m->kb, &d, &err) < 0) {
        return;
    }
    const struct kb_driver *best = kb_newest_cuda(&d, driver);
    paste_line(p, "CUDA of driver",
               best
                   ? arena_printf(p->a, "up to %s%s (driver %s)", best->title,
                                  kb_driver_may_exceed(&d, driver, best) ? " or newer" : "", driver)
                   : paste_unknown(p, "no release notes name this driver"));
}

static void nvidia(struct paste *p, const struct host *h)
{
    const struct host_nvidia *n = &h->nvidia;
    const struct host_library *cuda =
        library_named(n->libraries.items, n->libraries.n, "libcuda.so.1");
    paste_fact(p, "nvidia module", &n->module,
               arena_printf(p->a, "%s%s%s", n->module.value ? n->module.value : "loaded",
                            n->flavour.value ? ", " : "",
                            n->flavour.value ? n->flavour.value : ""));
    paste_line(p, "libcuda.so.1", library_text(p, cuda));
    paste_fact(p, "both agree", &n->versions_match, "yes");
    cuda_line(p, host_has_tegra_alone(h) ? NULL
                 : n->module.value       ? n->module.value
                 : cuda                  ? cuda->version
                                         : NULL);
    for (size_t i = 0; i < n->shadowed.n; i++) {
        paste_line(p, "further libcuda", library_text(p, &n->shadowed.items[i]));
    }
    for (size_t i = 0; i < n->compat.n; i++) {
        paste_line(p, "cuda-compat", library_text(p, &n->compat.items[i]));
    }
}

static void amd(struct paste *p, const struct host *h)
{
    const struct host_amd *amd = &h->amd;
    paste_fact(p, "amdgpu module", &amd->module,
               amd->module.value ? amd->module.value : "loaded, of the kernel");
    paste_fact(p, "/dev/kfd", &amd->kfd_node.usable, "usable");
    for (size_t i = 0; i < amd->rocm.n; i++) {
        const struct host_rocm *r = &amd->rocm.items[i];
        paste_line(p, "ROCm",
                   arena_printf(p->a, "%s (%s)", r->version ? r->version : "of unknown version",
                                r->prefix));
    }
    if (amd->rocm.n == 0) {
        paste_line(p, "ROCm", "not found");
    }
}

static bool is_seen(const struct host_fact *f)
{
    return f->state == HOST_YES;
}

static void drivers(struct paste *p, const struct host *h)
{
    bool nv = has_vendor(h, HOST_NVIDIA) || is_seen(&h->nvidia.module) || h->nvidia.libraries.n;
    bool radeon = has_vendor(h, HOST_AMD) || is_seen(&h->amd.module) || h->amd.rocm.n;
    if (!nv && !radeon) {
        return;
    }
    paste_section(p, "Drivers");
    if (nv) {
        nvidia(p, h);
    }
    if (radeon) {
        amd(p, h);
    }
}

void paste_system(struct paste *p)
{
    const struct host *h = p->m->host;
    paste_section(p, p->m->host_elsewhere ? "System (the host)" : "System");
    if (!h) {
        paste_line(p, "machine", paste_unknown(p, p->m->host_why));
        paste_line(p, "C library", loader_text(p));
        return;
    }
    system_of_host(p, h);
    gpus(p, h);
    drivers(p, h);
}
