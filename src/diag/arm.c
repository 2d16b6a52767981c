/*
 * Which of the two CUDA platforms for Arm a library is built for.
 *
 * Until CUDA 12 NVIDIA builds it twice for aarch64: for Arm servers (sbsa) and for Tegra, Jetson's
 * processors. "The CUDA compiler toolchain treats Tegra ARM (aarch64) and SBSA ARM (sbsa) as
 * separate compilation targets, and device code compiled for one is not interchangeable with the
 * other [...] Starting with CUDA 13.0 and Jetpack 7, new Tegra devices are SBSA-compliant"
 * [conda-forge, "How to build for ARM Tegra devices"]; "loading the sbsa cuda libraries on a jetson
 * system [...] results in crashes" [ollama, commit "distinct sbsa variant for linux arm64"].
 *
 * What shows it:
 *   - the toolkit's folder: targets/sbsa-linux or targets/aarch64-linux;
 *   - conda: the build of arm-variant, "sbsa" or "tegra", on which CUDA's packages depend
 *     [anaconda.org, arm-variant; nvidia::libcusparse-static for linux-aarch64, "depends"];
 *   - pip: nvidia-*-cu11 and nvidia-*-cu12 are made of the packages for servers (jetson.c).
 *
 * The driver has two kinds as well. L4T's libcuda.so.1.1 is part of Jetson Linux, reaches the GPU
 * by nvgpu and needs libnvrm_gpu.so [NVIDIA, "Simplifying CUDA Upgrades for NVIDIA Jetson Users";
 * nixpkgs, cuda_compat.nix]; that of the driver for PCI devices is named for its release and needs
 * the module nvidia. A board with a card as well has both, and nothing is said of it.
 */
#include <elf.h>
#include <string.h>

#include "diag/internal.h"
#include "host/parse.h"
#include "py/owner.h"

enum platform { NEITHER, SERVER, TEGRA };

static const char *const platform_names[] = {"", "Arm servers (sbsa)", "Tegra (Jetson)"};

/* What the GPU of this machine needs; NEITHER: it is not known, or both. */
static enum platform machine_platform(const struct diag *d)
{
    const struct host *h = d->m->host;
    if (!h || h->tegra.is_tegra.state == HOST_UNKNOWN) {
        return NEITHER;
    }
    if (diag_is_jetson(d)) {
        return host_has_nvidia_card(h) ? NEITHER : TEGRA;
    }
    return h->tegra.is_tegra.state == HOST_YES || host_has_nvidia_card(h) ? SERVER : NEITHER;
}

static enum platform by_folder(const char *path)
{
    return !path                                     ? NEITHER
           : strstr(path, "/targets/sbsa-linux/")    ? SERVER
           : strstr(path, "/targets/aarch64-linux/") ? TEGRA
                                                     : NEITHER;
}

/* conda-meta/arm-variant-1.2.0-sbsa.json */
static enum platform by_conda(const struct py_env *env)
{
    for (size_t i = 0; i < env->n_dists; i++) {
        const struct py_dist *one = &env->dists[i];
        if (one->kind == PY_DIST_CONDA && strcmp(one->name_normal, "arm-variant") == 0) {
            return ends_with(one->info, "-sbsa.json")    ? SERVER
                   : ends_with(one->info, "-tegra.json") ? TEGRA
                                                         : NEITHER;
        }
    }
    return NEITHER;
}

/* A name that CUDA's own libraries have. */
static bool is_of_cuda(struct diag *d, const char *name)
{
    struct kb_provides rows;
    struct gm_err err;
    if (kb_provides(d->m->kb, &rows, &err) < 0) {
        return false;
    }
    for (size_t i = 0; i < rows.n; i++) {
        if (str_glob(rows.rows[i].soname, name) && diag_is_of_nvidia(&rows.rows[i])) {
            return true;
        }
    }
    return false;
}

/* *ret_by: what shows it, "it is in ..." */
static enum platform library_platform(struct diag *d, const char *path, const char **ret_by)
{
    const char *real = model_real_path(d->m, path);
    enum platform found = by_folder(real);
    if (found != NEITHER) {
        *ret_by =
            arena_printf(d->a, "%s is in a folder of CUDA for %s", real, platform_names[found]);
        return found;
    }
    const struct py_dist *owner =
        d->m->env ? py_owner(d->m->env, model_absolute(d->m, path)).dist : NULL;
    if (!owner) {
        return NEITHER;
    }
    if (owner->kind == PY_DIST_CONDA) {
        found = is_of_cuda(d, path_base(path)) ? by_conda(d->m->env) : NEITHER;
        *ret_by = arena_printf(d->a, "arm-variant of the conda environment is for %s",
                               platform_names[found]);
        return found;
    }
    if (str_glob("nvidia-*-cu1[12]", owner->name_normal)) {
        *ret_by = arena_printf(d->a, "%s is of the wheel %s, which is built for %s", path,
                               owner->name_normal, platform_names[SERVER]);
        return SERVER;
    }
    return NEITHER;
}

static bool needs_nvrm(const struct elf_image *e)
{
    for (size_t i = 0; i < e->n_needs; i++) {
        if (str_glob("libnvrm*.so*", e->needs[i].name)) {
            return true;
        }
    }
    return false;
}

/* A libcuda that does not reach the GPU of this machine: which GPU it is for. */
static enum platform other_libcuda(struct diag *d, const char *path)
{
    const struct ldso_file *file = ldso_store_get(d->m->store, path)->file;
    const char *real = model_real_path(d->m, path);
    if (!d->m->host || !real || !file || file->image.state != ELF_STATE_OK ||
        file->image.machine != EM_AARCH64) {
        return NEITHER;
    }
    if (needs_nvrm(&file->image)) {
        return d->m->host->tegra.is_tegra.state == HOST_NO ? TEGRA : NEITHER;
    }
    return host_is_libcuda_for_pci(d->m->host, real) ? SERVER : NEITHER;
}

bool diag_is_for_other_arm(struct diag *d, const char *path)
{
    const char *by;
    enum platform machine = machine_platform(d);
    if (str_glob("libcuda.so*", path_base(path))) {
        return other_libcuda(d, path) != NEITHER;
    }
    if (machine == NEITHER) {
        return false;
    }
    if (machine == SERVER && d->m->host->tegra.is_tegra.state == HOST_NO &&
        str_glob("libnvrm*.so*", path_base(path))) {
        return true;
    }
    enum platform library = library_platform(d, path, &by);
    return library != NEITHER && library != machine;
}

bool diag_serves_other_arm(struct model *m, const char *path)
{
    struct diag d = {.m = m, .a = m->arena};
    return diag_is_for_other_arm(&d, path);
}

static bool is_aarch64(const struct ldso_object *o)
{
    return o->file && o->file->image.state == ELF_STATE_OK && o->file->image.machine == EM_AARCH64;
}

/* ------------------------------------------------------------------ libraries of the toolkit */

static void repair_toolkit(struct diag *d, struct diag_finding *f, const char *path,
                           enum platform machine)
{
    bool conda = d->m->env && by_conda(d->m->env) != NEITHER && by_folder(path) == NEITHER;
    const char *variant = machine == TEGRA ? "tegra" : "sbsa";
    if (conda) {
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL,
                    "Create the environment with the package arm-variant=*=%s: conda then installs "
                    "CUDA's packages for %s, where they exist.",
                    variant, platform_names[machine]);
    } else if (machine == TEGRA) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Use JetPack's own CUDA libraries (apt-get install nvidia-jetpack; "
                    "targets/aarch64-linux below /usr/local/cuda), and builds for JetPack of what "
                    "uses them.");
    } else {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Install the CUDA toolkit for Arm servers (arm64-sbsa), and let the program "
                    "find its targets/sbsa-linux/lib.");
    }
}

static void rule_toolkit(struct diag *d, const struct model_process *p, enum platform machine)
{
    for (size_t i = 0; i < p->ldso->objects.n; i++) {
        const struct ldso_object *o = p->ldso->objects.items[i];
        const char *by = NULL, *name = path_base(o->path);
        enum platform library = is_aarch64(o) ? library_platform(d, o->path, &by) : NEITHER;
        if (library == NEITHER || library == machine) {
            continue;
        }
        struct diag_finding *f = diag_find(d, DIAG_ARM_PLATFORM, name);
        if (f) {
            diag_seen_in(d, f, p);
            continue;
        }
        f = diag_add(d, DIAG_ARM_PLATFORM, platform_names[library], name,
                     arena_printf(d->a,
                                  "%s is CUDA's for %s, and this machine needs the one for %s: "
                                  "code for the GPU is built for one of the two alone.",
                                  name, platform_names[library], platform_names[machine]));
        f->stage = DIAG_STAGE_USE;
        diag_seen_in(d, f, p);
        diag_evidence(d, f, "%s", by);
        if (strcmp(f->culprit, name) != 0) {
            diag_likewise(d, f, name);
        } else {
            repair_toolkit(d, f, o->path, machine);
        }
        d->unsure = true; // some of it may run all the same
    }
}

/* ------------------------------------------------------------------ libcuda */

static void rule_libcuda(struct diag *d, const struct model_process *p)
{
    const struct ldso_object *o = ldso_find_object(p->ldso, "libcuda.so.1");
    const char *real = o ? model_real_path(d->m, o->path) : NULL;
    enum platform libcuda = o ? other_libcuda(d, o->path) : NEITHER;
    if (libcuda == NEITHER) {
        return;
    }
    if (!host_own_libcuda(d->m->host)) {
        return; // that it is missing is a problem of the GPU (devices.c)
    }
    static const struct {
        const char *says, *evidence, *repair;
    } texts[] = {
        [SERVER] = {"%s is the driver's for GPUs on PCI; the GPU of this Jetson is part of the "
                    "processor, and L4T's libcuda.so.1.1 alone reaches it.",
                    "the loader finds it before L4T's; no GPU of NVIDIA on PCI was found",
                    "Remove the packages of that driver: the one of Jetson Linux is in "
                    "nvidia-l4t-cuda."},
        [TEGRA] = {"%s is the libcuda of Jetson Linux (L4T), which reaches no GPU of this "
                   "machine: those are on PCI.",
                   "it needs libnvrm_gpu.so, but this is not a Tegra processor",
                   "Use an image or a build for Arm servers, not one for L4T, and let the "
                   "program find the libcuda.so.1 of this machine's driver."},
    };
    struct diag_finding *f = diag_add(d, DIAG_ARM_PLATFORM, real, path_base(real),
                                      arena_printf(d->a, texts[libcuda].says, real));
    diag_evidence(d, f, "%s", texts[libcuda].evidence);
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "%s", texts[libcuda].repair);
    f->severity = DIAG_ERROR;
    f->stage = DIAG_STAGE_MACHINE;
    diag_seen_in(d, f, p);
}

/* "These libraries are included in the OS [...] and need to be mounted" [NVIDIA's forum, 268191, of
 * /usr/lib/aarch64-linux-gnu/tegra]. */
bool diag_repair_of_l4t(struct diag *d, struct diag_finding *f, const char *name, bool image)
{
    const struct host *h = d->m->host;
    if (!str_glob("libnvrm*.so*", name)) {
        return false;
    }
    if (h && h->tegra.is_tegra.state == HOST_NO) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Use an image or a build for this machine: %s is part of Jetson Linux (L4T), "
                    "but this is not a Tegra processor.",
                    name);
    } else if (image) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Start the container with --runtime nvidia: %s is part of Jetson Linux (L4T) "
                    "and comes from the host.",
                    name);
    } else {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Install the packages nvidia-l4t-* of this release again: %s is part of Jetson "
                    "Linux (L4T).",
                    name);
    }
    return true;
}

void diag_rule_arm(struct diag *d)
{
    enum platform machine = machine_platform(d);
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        if (!p->ldso || p->ldso->is_static) {
            continue;
        }
        if (machine != NEITHER) {
            rule_toolkit(d, p, machine);
        }
        rule_libcuda(d, p);
    }
}
