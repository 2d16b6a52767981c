/* The software in the report for issues: Python, packages, toolkits, libraries, variables. */
#include <string.h>

#include "base/env.h"
#include "base/str.h"
#include "model/family.h"
#include "model/package.h"
#include "model/toolkit.h"
#include "py/dist.h"
#include "report/paste_internal.h"

enum { COPIES_MAX = 4, VARIABLES_MAX = 40, PACKAGES_MAX = 40 };

/* ------------------------------------------------------------------ Python */

/* The first site folder is what <site> stands for. */
static void paste_site(struct paste *p, const struct py_path *path)
{
    bool is_site = strcmp(report_shorten(p->m, path->dir), "<site>") == 0;
    if (is_site) {
        paste_whole(p, "<site>", path->dir);
    } else {
        paste_line(p, py_path_origin_name(path->origin), path->dir);
    }
}

static void python(struct paste *p)
{
    struct py_env *e = p->m->env;
    paste_section(p, "Python");
    if (!e) {
        paste_line(p, "environment",
                   paste_unknown(p, p->m->target_file ? "a program or library was looked at"
                                    : p->m->pid       ? "the process has mapped none"
                                                      : "none was found"));
        return;
    }
    paste_whole(p, "<env>", e->prefix ? e->prefix : "unknown");
    paste_line(p, "interpreter",
               arena_printf(p->a, "%s%s (%s %s%s%s)", e->executable ? e->executable : "none found",
                            e->free_threaded ? ", free-threaded" : "",
                            e->implementation ? e->implementation : "unknown implementation",
                            py_env_version(p->a, e), e->machine ? ", " : "",
                            e->machine ? e->machine : ""));
    paste_line(p, "environment",
               arena_printf(p->a, "%s%s (by %s)%s%s", py_env_kind_name(e->kind),
                            e->made_by_uv ? ", made by uv" : "",
                            e->chosen_by ? e->chosen_by : "its mapped files",
                            e->base_prefix ? ", base " : "", e->base_prefix ? e->base_prefix : ""));
    for (size_t i = 0; i < e->n_paths; i++) {
        if (e->paths[i].is_dir && e->paths[i].origin != PY_PATH_STDLIB &&
            e->paths[i].origin != PY_PATH_DYNLOAD) {
            paste_site(p, &e->paths[i]);
        }
    }
}

/* ------------------------------------------------------------------ packages */

/* Beside those that the knowledge base has rows for: what people are asked about in issues. */
static const char *const packages_that_matter[] = {
    "accelerate",   "bitsandbytes", "ctranslate2*",   "cuda-*",
    "cudatoolkit",  "cudf*",        "cudnn*",         "cuml*",
    "cupy*",        "deepspeed",    "diffusers",      "faster-whisper",
    "flash-attn*",  "flashinfer*",  "gpumend",        "intel-extension-*",
    "jax*",         "keras",        "lightning",      "llama-cpp-python",
    "mkl",          "nccl",         "nemo-toolkit",   "numba*",
    "numpy",        "onnxruntime*", "openai-whisper", "openvino*",
    "paddle*",      "pyannote*",    "pytorch*",       "rocm*",
    "sglang*",      "tensorflow*",  "tensorrt*",      "torch*",
    "transformers", "triton*",      "vllm*",          "whisperx",
    "xformers",
};

static bool matters(const struct model *m, const struct py_dist *d)
{
    for (size_t i = 0; i < m->known.n; i++) {
        if (m->known.items[i] == d) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof packages_that_matter / sizeof *packages_that_matter; i++) {
        if (str_glob(packages_that_matter[i], d->name_normal)) {
            return true;
        }
    }
    return false;
}

/* "pytorch-2.4.0-py3.11_cuda12.4_cudnn9.1.0_0.json" -> "py3.11_cuda12.4_cudnn9.1.0_0" */
static const char *conda_build(struct paste *p, const struct py_dist *d)
{
    const char *name = d->kind == PY_DIST_CONDA && d->info ? path_base(d->info) : "";
    const char *dash = strrchr(name, '-');
    return dash && ends_with(dash, ".json")
               ? arena_printf(p->a, ", build %.*s", (int)(strlen(dash) - strlen("-.json")),
                              dash + 1)
               : "";
}

/* What torch says of its own build, where its version does not. */
static const char *torch_build(struct paste *p, const struct py_dist *d)
{
    const struct model_torch *t = model_torch(p->m);
    if (strcmp(d->name_normal, "torch") != 0 || (!t->known && !t->xpu)) {
        return "";
    }
    return t->xpu    ? ", built for Intel GPUs"
           : t->cuda ? arena_printf(p->a, ", built for CUDA %s", t->cuda)
           : t->hip  ? arena_printf(p->a, ", built for ROCm %s", t->hip)
                     : ", built for the CPU";
}

static bool is_nvidia_wheel(const struct py_dist *d)
{
    return starts_with(d->name_normal, "nvidia-");
}

static void nvidia_wheels(struct paste *p)
{
    const struct py_env *e = p->m->env;
    const char *list = "";
    for (size_t i = 0; i < e->n_dists; i++) {
        const struct py_dist *d = &e->dists[i];
        if (is_nvidia_wheel(d) && !d->shadowed_by) {
            list = arena_printf(p->a, "%s%s%s %s", list, *list ? ", " : "",
                                d->name_normal + strlen("nvidia-"), d->version ? d->version : "?");
        }
    }
    if (*list) {
        paste_line(p, "nvidia-*", list);
    }
}

static void packages(struct paste *p)
{
    struct py_env *e = p->m->env;
    size_t n = 0;
    if (!e) {
        return;
    }
    paste_section(p, "Packages");
    if (e->denied) {
        paste_line(p, "packages",
                   paste_unknown(p, arena_printf(p->a, "%s may not be read", e->denied)));
    }
    for (size_t i = 0; i < e->n_dists; i++) {
        struct py_dist *d = &e->dists[i];
        if (d->shadowed_by || is_nvidia_wheel(d) || !matters(p->m, d) || ++n > PACKAGES_MAX) {
            continue;
        }
        const char *by = py_dist_install(e, d)->installer;
        paste_line(p, d->name_normal,
                   arena_printf(p->a, "%s%s%s%s%s", d->version ? d->version : "of unknown version",
                                torch_build(p, d), conda_build(p, d), by ? ", by " : "",
                                by ? by : ""));
    }
    nvidia_wheels(p);
    paste_line(p, "installed",
               arena_printf(p->a, "%zu packages in all%s", e->n_dists,
                            n > PACKAGES_MAX ? ", of these more than are listed" : ""));
}

/* ------------------------------------------------------------------ toolkits */

static void toolkits(struct paste *p)
{
    model_toolkits list;
    const char *why;
    model_find_toolkits(p->m, &list, &why);
    paste_section(p, "CUDA toolkits");
    for (size_t i = 0; i < list.n; i++) {
        const struct model_toolkit *t = &list.items[i];
        paste_line(p, t->version ? t->version : "?",
                   arena_printf(p->a, "%s%s%s%s%s%s", t->dir, t->from ? ", by " : "",
                                t->from ? t->from : "", t->nvcc ? "" : ", without nvcc",
                                t->why ? ", version unknown: " : "", t->why ? t->why : ""));
    }
    if (why) {
        paste_line(p, "toolkits", paste_unknown(p, why));
    } else if (list.n == 0) {
        paste_line(p, "toolkits", "none found");
    }
}

/* ------------------------------------------------------------------ libraries */

static const char *const libraries_that_matter[] = {
    "libcudart.so",  "libcublas.so",   "libcudnn.so",   "libnvrtc.so",  "libnccl.so",
    "libnvinfer.so", "libamdhip64.so", "librocblas.so", "libMIOpen.so", "librccl.so",
};

static enum kb_version_from recipe_of(const struct model *m, const char *name)
{
    const struct kb_family *f = kb_family_of(&m->families, name);
    return f ? f->version_from : KB_VERSION_NONE;
}

/* By its bytes or its package; else what the name of the file itself ends in. */
static const char *library_version(struct paste *p, const struct model_library *l, const char *real)
{
    struct ldso_entry *e = ldso_store_get(p->m->store, l->path);
    const char *version =
        e->file ? model_object_version(p->m, e->file, real, recipe_of(p->m, l->name)) : NULL;
    const char *tail = strstr(path_base(real), ".so.");
    if (version || !tail || !strchr(tail + 4, '.')) {
        return version ? version : "of unknown version";
    }
    return arena_printf(p->a, "%s by its name", tail + 4);
}

static void library_line(struct paste *p, const struct model_library *l, const char *real)
{
    const char *name = l->soname ? l->soname : l->name;
    paste_line(p, name,
               arena_printf(p->a, "%s, %s%s%s%s", library_version(p, l, real), l->path,
                            l->package ? ", of " : ", ", l->package ? l->package : l->where,
                            l->usable ? "" : ", which this program cannot load"));
}

/* The copies of one library, each file once; returns how many there are. */
static size_t copies(struct paste *p, const char *name)
{
    struct model_library *list;
    VEC(const char *) seen = {0};
    size_t n = model_libraries(p->m, name, &list);
    for (size_t i = 0; i < n; i++) {
        const char *real = model_real_path(p->m, list[i].path);
        bool known = false;
        real = real ? real : list[i].path;
        for (size_t k = 0; k < seen.n && !known; k++) {
            known = strcmp(seen.items[k], real) == 0;
        }
        if (known) {
            continue;
        }
        VEC_PUSH(p->a, &seen, real);
        if (seen.n <= COPIES_MAX) {
            library_line(p, &list[i], real);
        }
    }
    if (seen.n > COPIES_MAX) {
        paste_line(p, name, arena_printf(p->a, "and %zu more", seen.n - COPIES_MAX));
    }
    return seen.n;
}

static void libraries(struct paste *p)
{
    size_t n = 0;
    paste_section(p, "Libraries");
    for (size_t i = 0; i < sizeof libraries_that_matter / sizeof *libraries_that_matter; i++) {
        n += copies(p, libraries_that_matter[i]);
    }
    if (n == 0) {
        paste_line(p, "libraries",
                   "none of CUDA, cuDNN, NCCL, TensorRT or ROCm in the usual folders");
    }
}

/* ------------------------------------------------------------------ variables */

/* PATH and HOME say more of a person than of a fault. */
static bool is_shown(const char *entry)
{
    return snapshot_keeps_variable(entry) && !starts_with(entry, "PATH=") &&
           !starts_with(entry, "HOME=");
}

static size_t paste_variable(struct paste *p, const char *entry)
{
    size_t n = strcspn(entry, "=");
    if (!entry[n] || !is_shown(entry)) {
        return 0;
    }
    const char *value = entry + n + 1;
    paste_line(p, arena_strndup(p->a, entry, n), *value ? value : "(empty)");
    return 1;
}

static void variables(struct paste *p)
{
    const struct model *m = p->m;
    size_t n = 0;
    paste_section(p, "Variables");
    for (size_t i = 0; i < m->config.n_env && n < VARIABLES_MAX; i++) {
        n += paste_variable(p, m->config.env[i]);
    }
    for (size_t i = 0; m->host && i < m->host->variables.n && n < VARIABLES_MAX; i++) {
        const struct host_setting *s = &m->host->variables.items[i];
        if (s->value && !env_value(m->config.env, m->config.n_env, s->name)) {
            n += paste_variable(p, arena_printf(p->a, "%s=%s", s->name, s->value));
        }
    }
    if (n == 0) {
        paste_line(p, "variables", "none of those that matter to a GPU program is set");
    }
}

void paste_stack(struct paste *p)
{
    python(p);
    packages(p);
    toolkits(p);
    libraries(p);
    variables(p);
}
