/*
 * Builds that cannot use the GPU that is here: for the CPU alone, for the other vendor, or two
 * builds of onnxruntime in one folder. Without a GPU that programs can use nothing is said, except
 * that onnxruntime-gpu, which was asked for, is gone.
 */
#include <string.h>

#include "diag/internal.h"
#include "diag/wanted.h"
#include "model/gpu.h"
#include "model/package.h"

/* NULL too where the program does not import it. */
static struct py_dist *built_dist(struct diag *d, const char *name)
{
    struct py_dist *dist = d->m->env ? py_env_by_dist(d->m->env, name) : NULL;
    return dist && diag_may_be_imported(d, dist) ? dist : NULL;
}

static const char *title(struct diag *d, const struct py_dist *dist)
{
    return arena_printf(d->a, "%s %s", dist->name_normal, dist->version ? dist->version : "");
}

static bool target_of(const struct host_gpu *g, struct diag_target *ret)
{
    unsigned major = 0, minor = 0;
    if (g->vendor == HOST_NVIDIA) {
        bool known = diag_capability(g, &major, &minor);
        *ret = (struct diag_target){.number = major * 10 + minor};
        return known;
    }
    *ret = (struct diag_target){.gfx = g->gfx.state == HOST_YES ? g->gfx.value : NULL};
    return ret->gfx != NULL;
}

/* The newest series whose CUDA the driver serves, with code for the GPUs here if there is one, and
 * with what it needs. */
static const char *install_for(struct diag *d, const char *gpu, bool here)
{
    const struct kb_build *b = diag_build_here(d, gpu, NULL, true);
    b = b ? b : diag_build_for(d, gpu, NULL, true, NULL, 0);
    return b      ? diag_release_command(d, here, "", gpu, b->versions)
           : here ? diag_pip_here(d, diag_quote(d, gpu))
                  : diag_pip(d, diag_quote(d, gpu));
}

/* ONNX Runtime has a package for each vendor, all in one folder. */
static void repair_onnxruntime(struct diag *d, struct diag_finding *f, const char *package,
                               const struct host_gpu *g)
{
    if (g->vendor == HOST_NVIDIA) {
        diag_repair(d, f, DIAG_REPAIR_PACKAGE,
                    arena_printf(d->a, "%s && %s", diag_pip_remove(d, package),
                                 install_for(d, "onnxruntime-gpu", true)),
                    "Install onnxruntime-gpu, the build for CUDA, instead of %s.", package);
    } else {
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL,
                    "Install onnxruntime-migraphx, the build for AMD GPUs, instead of %s: it needs "
                    "ROCm with MIGraphX.",
                    package);
    }
}

static void repair_for(struct diag *d, struct diag_finding *f, const char *package,
                       const struct host_gpu *g)
{
    struct diag_target target;
    bool ort = starts_with(package, "onnxruntime");
    if (!ort && target_of(g, &target) && diag_repair_build(d, f, package, &target, 1)) {
        return;
    }
    if (diag_is_jetson(d)) {
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL,
                    "Use a build of %s for JetPack, such as NVIDIA's, if there is one: the wheels "
                    "of the package index have no code for the GPU of a Jetson.",
                    package);
    } else if (ort) {
        repair_onnxruntime(d, f, package, g);
    } else {
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL, "Install a build of %s for %s.", package,
                    g->vendor == HOST_NVIDIA ? "CUDA" : "ROCm");
    }
}

/* ------------------------------------------------------------------ torch */

static struct diag_finding *add_build(struct diag *d, enum diag_cause cause,
                                      const struct py_dist *dist, const struct host_gpu *g,
                                      const char *what)
{
    struct diag_finding *f =
        diag_add(d, cause, dist->name_normal, dist->name_normal,
                 arena_printf(d->a, "%s is a build for %s; it does not use the %s.", title(d, dist),
                              what, g->name ? g->name : "GPU"));
    f->stage = DIAG_STAGE_USE;
    diag_seen_where_imported(d, f, dist->name);
    return f;
}

/* Which releases exist for XPU is not in the knowledge base: its series, or the newest. The builds
 * before 2.6 need more of Intel's than a driver (pytorch, get_start_xpu.rst of 2.5 and of 2.6). */
static void repair_for_xpu(struct diag *d, struct diag_finding *f, const struct py_dist *dist)
{
    struct str rest = str_of(dist->version ? dist->version : "");
    struct str major = str_cut(&rest, '.'), minor = str_cut(&rest, '.');
    bool same = minor.n && model_version_fits(d->a, ">=2.6", dist->version);
    const char *release =
        same ? arena_printf(d->a, STR_FMT "." STR_FMT ".*", STR_ARG(major), STR_ARG(minor)) : "2.*";
    diag_repair(d, f, DIAG_REPAIR_PACKAGE, diag_torch_command(d, release, "xpu"),
                "Install a build of torch for Intel GPUs (by uv, which knows PyTorch's builds).");
}

/* What conda has installed, it replaces: pip would put another one into the files that it keeps.
 * Its name for torch is pytorch, and the name of a build says whether it is for CUDA
 * (conda-forge/pytorch-cpu-feedstock#164, pytorch/test-infra#4567). False: it is not conda's. */
static bool repair_by_conda(struct diag *d, struct diag_finding *f, const struct host_gpu *g)
{
    struct py_env *env = d->m->env;
    const struct py_dist *dist = py_env_by_dist(env, "pytorch");
    if (!dist || dist->kind != PY_DIST_CONDA) {
        return false;
    }
    bool nvidia = g->vendor == HOST_NVIDIA;
    bool is_forge = nvidia && py_dist_is_conda_forge(env, dist);
    bool is_pixi = env->manager && strcmp(env->manager, "pixi") == 0; // its own manifest decides
    diag_repair(d, f, DIAG_REPAIR_PACKAGE,
                is_forge && !is_pixi
                    ? diag_command_of(d, KB_MANAGER_CONDA, "'pytorch=*=*cuda*'", NULL)
                    : NULL,
                "Install %s, as conda has installed this torch%s.",
                is_forge ? "conda-forge's build for CUDA"
                : nvidia ? "a build for CUDA by conda"
                         : arena_printf(d->a, "a build for %s in another environment",
                                        g->vendor == HOST_AMD ? "ROCm" : "Intel GPUs"),
                is_forge ? ""
                : nvidia ? ", from a channel that has one"
                         : "");
    return true;
}

static void repair_torch(struct diag *d, struct diag_finding *f, const struct py_dist *dist,
                         const struct host_gpu *g)
{
    if (repair_by_conda(d, f, g)) {
        f->severity = g->vendor == HOST_INTEL && g->integrated ? DIAG_NOTE : f->severity;
        return;
    }
    if (g->vendor == HOST_INTEL) {
        f->severity = g->integrated ? DIAG_NOTE : f->severity;
        repair_for_xpu(d, f, dist);
    } else {
        repair_for(d, f, "torch", g);
    }
}

static const char *or_none(const char *text)
{
    return text ? text : "None";
}

static void rule_torch(struct diag *d, const struct diag_machine *x)
{
    const struct py_dist *dist = built_dist(d, "torch");
    const struct model_torch *t = dist ? model_torch(d->m) : NULL;
    const struct host_gpu *any = x->nvidia ? x->nvidia : x->amd ? x->amd : x->intel;
    const struct host_gpu *but_nvidia = x->amd ? x->amd : x->intel;
    struct diag_finding *f = NULL;
    if (!t || (!t->known && !t->xpu)) {
        return;
    }
    if (!t->cuda && !t->hip && !t->xpu && any) {
        f = add_build(d, DIAG_BUILD_WITHOUT_GPU, dist, any, "the CPU alone");
    } else if (t->cuda && !t->hip && x->no_nvidia && but_nvidia) {
        any = but_nvidia;
        f = add_build(d, DIAG_BUILD_OTHER_VENDOR, dist, any, "CUDA");
    } else if (t->hip && x->no_amd && (x->nvidia || x->intel)) {
        f = add_build(d, DIAG_BUILD_OTHER_VENDOR, dist, any, "ROCm");
    } else if (t->xpu && diag_gpu_is_absent(d->m->host, HOST_INTEL) && any) {
        f = add_build(d, DIAG_BUILD_OTHER_VENDOR, dist, any, "Intel GPUs");
    }
    if (f) {
        diag_evidence(d, f, "torch/version.py: cuda = %s, hip = %s, xpu = %s", or_none(t->cuda),
                      or_none(t->hip), or_none(t->xpu));
        repair_torch(d, f, dist, any);
    }
}

/* ------------------------------------------------------------------ ctranslate2 */

/* For aarch64 the package index has no other build (CTranslate2, docs/hardware_support.md: the
 * wheels for AArch64 are for the CPU; read in 4.8.1, which has no code for GPUs). */
static void rule_ctranslate2(struct diag *d, const struct diag_machine *x)
{
    const struct py_dist *dist = built_dist(d, "ctranslate2");
    const struct host_gpu *g = x->nvidia ? x->nvidia : x->amd;
    if (!dist || !g || model_build_of_dist(d->m, dist) != MODEL_BUILD_CPU) {
        return;
    }
    struct diag_finding *f = add_build(d, DIAG_BUILD_WITHOUT_GPU, dist, g, "the CPU alone");
    diag_evidence(
        d, f, "libctranslate2 in %s requires no library of CUDA or ROCm and has no code for GPUs",
        dist->site);
    const char *machine = d->m->env->machine;
    if (machine && strcmp(machine, "aarch64") == 0) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Build ctranslate2 for %s from its source: its wheels for aarch64 are for the "
                    "CPU alone.",
                    g->vendor == HOST_NVIDIA ? "CUDA" : "ROCm");
    } else {
        repair_for(d, f, "ctranslate2", g);
    }
}

/* ------------------------------------------------------------------ llama-cpp-python */

/* Of the libraries beside libllama.so each backend has one of its own, libggml-BACKEND.so, which
 * libggml.so needs (ggml/src/CMakeLists.txt: ggml_add_backend_library). These compute on the CPU;
 * rpc sends work to another machine. */
static bool is_ggml_of_gpu(const char *name)
{
    return str_glob("libggml-*", name) && !str_glob("libggml-base.*", name) &&
           !str_glob("libggml-cpu*", name) && !str_glob("libggml-blas.*", name);
}

/* Whether one process has loaded ggml with its backend for the CPU and no other. */
static bool is_ggml_for_cpu(const struct diag *d)
{
    bool cpu = false;
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct ldso_process *p = d->m->processes.items[i]->ldso;
        for (size_t k = 0; p && k < p->objects.n; k++) {
            const char *name = path_base(p->objects.items[k]->path);
            if (is_ggml_of_gpu(name)) {
                return false;
            }
            cpu = cpu || str_glob("libggml-cpu.*", name);
        }
    }
    return cpu;
}

static void rule_llama(struct diag *d, const struct diag_machine *x)
{
    const struct py_dist *dist = built_dist(d, "llama-cpp-python");
    const struct host_gpu *g = x->nvidia ? x->nvidia : x->amd ? x->amd : x->intel;
    if (!dist || !g || !is_ggml_for_cpu(d)) {
        return;
    }
    struct diag_finding *f = add_build(d, DIAG_BUILD_WITHOUT_GPU, dist, g, "the CPU alone");
    diag_evidence(d, f, "libggml.so in %s needs libggml-cpu.so and no other backend", dist->site);
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                "Compile llama-cpp-python for the GPU: gpumend setup llama-cpp-python prints the "
                "steps.");
}

/* ------------------------------------------------------------------ by the code in the library */

static const struct {
    const char *name, *package;
} libraries[] = {
    {"libctranslate2*.so*", "ctranslate2"},
    {"libonnxruntime_providers_cuda.so", "onnxruntime-gpu"},
    {"libonnxruntime_providers_rocm.so", "onnxruntime-rocm"},
};

static const char *built_package(const struct ldso_object *o)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        if (str_glob(libraries[i].name, path_base(o->path))) {
            return libraries[i].package;
        }
    }
    return NULL;
}

static void build_judge(struct diag *d, const struct ldso_object *o, const struct diag_machine *x)
{
    const char *package = built_package(o);
    const struct py_dist *dist = package ? built_dist(d, package) : NULL;
    const struct gpu_code *code = dist ? model_gpu_code(d->m, o, GPU_READ_SECTIONS) : NULL;
    bool cuda = code && code->cuda.n_containers > 0, hip = code && code->n_targets > 0;
    const struct host_gpu *g = cuda && !hip && x->no_nvidia ? x->amd
                               : hip && !cuda && x->no_amd  ? x->nvidia
                                                            : NULL;
    if (g) {
        struct diag_finding *f =
            add_build(d, DIAG_BUILD_OTHER_VENDOR, dist, g, cuda ? "CUDA" : "ROCm");
        diag_evidence(d, f, "%s holds code for %s only", path_normal(d->a, o->path),
                      cuda ? "CUDA" : "ROCm");
        repair_for(d, f, package, g);
    }
}

static void rule_objects(struct diag *d, const struct diag_machine *x)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        for (size_t k = 0; p->ldso && k < p->ldso->objects.n; k++) {
            build_judge(d, p->ldso->objects.items[k], x);
        }
    }
}

/* ------------------------------------------------------------------ a build that does not load */

/* The package of which the file is a part, of those whose builds are known. */
static const char *package_of_file(const struct ldso_object *o)
{
    const char *package = built_package(o);
    return package ? package : strstr(o->path, "/site-packages/torch/") ? "torch" : NULL;
}

static bool needs_missing_of(const struct diag_failure *x)
{
    return x->request && x->request->kind == LDSO_NEEDED && x->request->caller &&
           x->request->outcome == LDSO_NOT_FOUND;
}

bool diag_rule_other_vendor(struct diag *d, const struct diag_failure *x)
{
    if (!needs_missing_of(x) || !d->m->host || !d->m->env) {
        return false;
    }
    struct diag_machine here = diag_machine_of(d);
    const struct ldso_object *o = x->request->caller;
    const struct py_dist *dist = package_of_file(o) ? built_dist(d, package_of_file(o)) : NULL;
    enum model_build build = dist ? model_build_of(o) : MODEL_BUILD_UNKNOWN;
    bool cuda = build == MODEL_BUILD_CUDA, hip = build == MODEL_BUILD_HIP;
    const struct host_gpu *g = cuda && here.no_nvidia ? here.amd
                               : hip && here.no_amd   ? here.nvidia
                                                      : NULL;
    if (!g) {
        return false;
    }
    bool fails = !x->wish && x->attempt && x->attempt->phase != MODEL_USE;
    struct diag_finding *f = add_build(d, DIAG_BUILD_OTHER_VENDOR, dist, g, cuda ? "CUDA" : "ROCm");
    if (fails) {
        f->severity = DIAG_ERROR;
        f->summary = arena_printf(
            d->a, "%s is a build for %s: it cannot be imported, and it does not use the %s.",
            title(d, dist), cuda ? "CUDA" : "ROCm", g->name ? g->name : "GPU");
    }
    diag_failure_evidence(d, f, x);
    repair_for(d, f, package_of_file(o), g);
    return true;
}

/* ------------------------------------------------------------------ packages of their own */

/* Packages whose build for the GPU has a name of its own. There are builds with CUDA that have the
 * name of the other all the same: conda-forge's (onnxruntime-feedstock, variants with
 * cuda_compiler), and jaxlib's before it had plugins (jax, jaxlib/tools/build_wheel.py). */
static const struct {
    const char *cpu, *gpu; // gpu: what is installed for NVIDIA, as pip takes it
    const char *with[4];   // any of these installed: the GPU build is there as well
    const char *part;      // a file below site-packages of builds for CUDA under the CPU's name
    bool beside;           // the GPU's part comes beside what is there
    enum diag_severity severity;
} pairs[] = {
    {"tensorflow-cpu", "tensorflow[and-cuda]", {"tensorflow"}, NULL, false, DIAG_WARNING},
    {"onnxruntime",
     "onnxruntime-gpu",
     {"onnxruntime-gpu", "onnxruntime-rocm", "onnxruntime-migraphx"},
     "onnxruntime/capi/libonnxruntime_providers_cuda.so",
     false,
     DIAG_NOTE},
    {"jaxlib",
     "jax[cuda12]",
     {"jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm7-plugin"},
     "jaxlib/cuda/_solver.so",
     true,
     DIAG_NOTE},
};

static bool has_any(struct diag *d, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n && names[i]; i++) {
        if (built_dist(d, names[i])) {
            return true;
        }
    }
    return false;
}

/* What such a build loads when it is used is not in the knowledge base. */
static bool is_for_cuda(struct diag *d, const struct py_dist *dist, const char *part)
{
    const char *path = part ? path_join(d->a, dist->site, part) : NULL;
    return path && model_real_path(d->m, path);
}

static void rule_other_builds(struct diag *d)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const struct py_dist *dist = built_dist(d, pairs[i].cpu);
        if (dist && !has_any(d, pairs[i].with, 4) && is_for_cuda(d, dist, pairs[i].part)) {
            d->unsure = true;
            VEC_PUSH(d->a, &d->report->notes,
                     arena_printf(d->a,
                                  "%s is a build with CUDA (%s): what it loads when it uses the "
                                  "GPU was not looked at",
                                  title(d, dist), path_join(d->a, dist->site, pairs[i].part)));
        }
    }
}

/* A package that another one brought for small models on the CPU is nobody's mistake. */
static void rule_pairs(struct diag *d, const struct diag_machine *x)
{
    for (size_t i = 0; x->nvidia && i < sizeof pairs / sizeof *pairs; i++) {
        const struct py_dist *dist = built_dist(d, pairs[i].cpu);
        if (!dist || has_any(d, pairs[i].with, 4) || is_for_cuda(d, dist, pairs[i].part) ||
            (!pairs[i].beside && diag_required_by(d, pairs[i].cpu))) {
            continue;
        }
        struct diag_finding *f =
            add_build(d, DIAG_BUILD_WITHOUT_GPU, dist, x->nvidia, "the CPU alone");
        f->severity = pairs[i].severity;
        diag_evidence(d, f, "installed in %s", dist->info);
        const char *install = install_for(d, pairs[i].gpu, !pairs[i].beside);
        diag_repair(d, f, DIAG_REPAIR_PACKAGE,
                    pairs[i].beside
                        ? install
                        : arena_printf(d->a, "%s && %s", diag_pip_remove(d, pairs[i].cpu), install),
                    "If it should use the GPU, install %s.", pairs[i].gpu);
    }
}

/* ------------------------------------------------------------------ onnxruntime twice */

/* The path that both packages bring. */
static const char *ort_module(struct diag *d)
{
    const struct py_env *env = d->m->env;
    return env->n_suffixes ? arena_printf(d->a, "onnxruntime/capi/onnxruntime_pybind11_state%s",
                                          env->suffixes[0])
                           : NULL;
}

static const char *remove_both(struct diag *d)
{
    return diag_pip_remove(d, "onnxruntime onnxruntime-gpu");
}

static void repair_by_cpu(struct diag *d, struct diag_finding *f, const struct py_dist *cpu)
{
    const char *spec =
        cpu->version ? arena_printf(d->a, "onnxruntime==%s", cpu->version) : "onnxruntime";
    diag_repair(
        d, f, DIAG_REPAIR_PACKAGE,
        arena_printf(d->a, "%s && %s", remove_both(d), diag_pip_here(d, diag_quote(d, spec))),
        "Uninstall both, then install onnxruntime alone: the other is for NVIDIA's GPUs.");
}

/* The release that is installed, with what it needs, unless it is for a CUDA that the driver does
 * not serve, or has no code for a GPU here. */
static void repair_by_gpu(struct diag *d, struct diag_finding *f, const struct py_dist *gpu)
{
    const char *name = gpu->name_normal, *version = gpu->version;
    const char *same = version ? arena_printf(d->a, "==%s", version) : "";
    bool serves = !diag_build_is_known(d, name, version) || diag_build_here(d, name, version, true);
    const char *which = serves ? ""
                        : diag_build_here(d, name, NULL, true)
                            ? ", a release for this driver and GPU"
                            : ", a release for this driver";
    diag_repair(d, f, DIAG_REPAIR_PACKAGE,
                arena_printf(d->a, "%s && %s", remove_both(d),
                             serves ? diag_release_command(d, true, "", name, same)
                                    : install_for(d, name, true)),
                "Uninstall both, then install the one for the GPU%s; it also works for packages "
                "that require onnxruntime.",
                which);
}

static void rule_ort(struct diag *d, const struct diag_machine *x)
{
    const struct py_dist *cpu = built_dist(d, "onnxruntime"),
                         *gpu = built_dist(d, "onnxruntime-gpu");
    const char *module = cpu && gpu ? ort_module(d) : NULL;
    if (!module || strcmp(cpu->site, gpu->site) != 0) {
        return;
    }
    enum py_answer of_cpu = model_is_own_file(d->m, cpu, module);
    enum py_answer of_gpu = model_is_own_file(d->m, gpu, module);
    bool cpu_won = of_cpu == PY_YES && of_gpu == PY_NO;
    bool gpu_won = of_gpu == PY_YES && of_cpu == PY_NO;
    if (!cpu_won && !x->nvidia) {
        return;
    }
    struct diag_finding *f = diag_add(
        d, DIAG_ONNXRUNTIME_TWICE, "onnxruntime", "onnxruntime",
        cpu_won
            ? arena_printf(d->a, "%s was installed over %s: the CUDA provider is gone.",
                           title(d, cpu), title(d, gpu))
            : arena_printf(
                  d->a, "%s and %s are installed over one another%s.", title(d, cpu), title(d, gpu),
                  gpu_won ? "; the one for the GPU came last, until either is updated" : ""));
    f->stage = DIAG_STAGE_USE;
    bool useless = x->amd && x->no_nvidia; // the CUDA provider is
    f->severity = !cpu_won || useless ? DIAG_NOTE : x->nvidia ? DIAG_ERROR : DIAG_WARNING;
    diag_seen_where_imported(d, f, cpu->name);
    diag_seen_where_imported(d, f, gpu->name);
    diag_evidence(d, f, "%s has the size that the RECORD of %s has",
                  path_join(d->a, cpu->site, module),
                  cpu_won   ? cpu->name_normal
                  : gpu_won ? gpu->name_normal
                            : "neither, or of both");
    if (useless) {
        repair_by_cpu(d, f, cpu);
    } else {
        repair_by_gpu(d, f, gpu);
    }
}

void diag_rule_builds(struct diag *d)
{
    if (d->m->env) {
        rule_other_builds(d);
    }
    if (!d->m->host || !d->m->env) {
        return;
    }
    struct diag_machine x = diag_machine_of(d);
    if (x.nvidia || x.amd || x.intel) {
        rule_torch(d, &x);
        rule_ctranslate2(d, &x);
        rule_llama(d, &x);
        rule_objects(d, &x);
        rule_pairs(d, &x);
    }
    rule_ort(d, &x);
}
