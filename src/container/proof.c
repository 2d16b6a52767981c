/* How to try a container out, and which CUDA of the image meets which driver of the host. The rules
 * are those of NVIDIA's "CUDA Compatibility": a driver runs every older CUDA, and of its own major
 * also newer ones down from a floor; the figures are those of kb/drivers.json. */
#include "container/internal.h"

#include <string.h>
#include <sys/stat.h>

#include "kb/serves.h"
#include "model/gpu.h"
#include "model/package.h"
#include "py/dist.h"
#include "py/env.h"

/* ------------------------------------------------------------------ the protocol */

static struct container_trial *add_trial(struct container_work *w, const char *expected)
{
    VEC_PUSH(w->a, &w->s->trials, (struct container_trial){.expected = expected});
    return &w->s->trials.items[w->s->trials.n - 1];
}

static void trial_add_word(struct container_work *w, struct container_trial *t, const char *word)
{
    VEC_PUSH(w->a, &t->words, word);
}

/* What each framework answers only where it reached a GPU; the first that is installed is asked. */
static const struct {
    const char *package, *code;
} frameworks[] = {
    {"torch", "import torch; print(torch.ones(2, device=\"cuda\").sum().item())"},
    {"ctranslate2", "import ctranslate2; print(ctranslate2.get_supported_compute_types(\"cuda\"))"},
    {"tensorflow", "import tensorflow as t; print(t.config.list_physical_devices(\"GPU\"))"},
    {"jax", "import jax; print(jax.devices(\"gpu\"))"},
    {"cupy-cuda12x", "import cupy; print(cupy.ones(2).sum())"},
    {"cupy-cuda13x", "import cupy; print(cupy.ones(2).sum())"},
    {"onnxruntime-gpu", "import onnxruntime as o; print(o.get_available_providers())"},
};

static void add_framework(struct container_work *w)
{
    struct py_env *env = w->q->model->env;
    for (size_t i = 0; env && env->executable && i < sizeof frameworks / sizeof *frameworks; i++) {
        if (!py_env_by_dist(env, frameworks[i].package)) {
            continue;
        }
        bool offers = strcmp(frameworks[i].package, "onnxruntime-gpu") == 0;
        struct container_trial *t = add_trial(
            w, offers ? "onnxruntime lists its CUDA provider (only a session shows that it works)"
                      : arena_printf(w->a, "%s uses the GPU: no error and no empty list",
                                     frameworks[i].package));
        trial_add_word(w, t, env->executable);
        trial_add_word(w, t, "-c");
        trial_add_word(w, t, arena_printf(w->a, PY_CODE_START "%s", frameworks[i].code));
        return;
    }
}

/* A Jetson may have none. */
static bool has_smi(const struct container_work *w)
{
    static const char *const paths[] = {"/usr/bin/nvidia-smi", "/usr/sbin/nvidia-smi"};
    bool found = w->q->host->tegra.is_tegra.state != HOST_YES;
    for (size_t i = 0; i < sizeof paths / sizeof *paths && !found; i++) {
        struct stat st;
        found = root_stat(w->q->host_root, paths[i], &st) == 0;
    }
    return found;
}

static void add_trials(struct container_work *w)
{
    if (w->s->gpu == CONTAINER_NO_GPU || w->s->gpu == CONTAINER_UNKNOWN_GPU) {
        return;
    }
    if ((w->s->gpu == CONTAINER_NVIDIA && has_smi(w)) || w->s->gpu == CONTAINER_WSL) {
        trial_add_word(w, add_trial(w, "lists each GPU that the container has"), "nvidia-smi");
    }
    if (w->s->program) {
        struct container_trial *t =
            add_trial(w, "tests each GPU in stages and names the first stage that fails");
        t->needs_gpumend = true;
        trial_add_word(w, t, CONTAINER_PROGRAM);
        trial_add_word(w, t, "probe");
    }
    add_framework(w);
}

/* ------------------------------------------------------------------ the inventory */

static const struct kb_driver *toolkit_row(const struct kb_drivers *d, const char *cuda)
{
    size_t n = strlen(cuda);
    for (size_t i = 0; i < d->n; i++) {
        const struct kb_driver *row = &d->rows[i];
        if (row->kind == KB_DRIVER_TOOLKIT && strncmp(row->cuda, cuda, n) == 0 &&
            (row->cuda[n] == '\0' || row->cuda[n] == '.')) {
            return row;
        }
    }
    return NULL;
}

/* "12.4" of "12.4.1", "12" of "12". */
static const char *minor_release(struct arena *a, const char *version)
{
    struct str rest = str_of(version), major = str_cut(&rest, '.');
    struct str minor = str_cut(&rest, '.');
    return minor.n ? arena_printf(a, "%.*s.%.*s", (int)major.n, major.s, (int)minor.n, minor.s)
                   : str_dup(a, major);
}

static void judge_fit(struct container_work *w, const struct kb_drivers *d, struct container_fit *f)
{
    const char *driver = w->s->driver;
    const struct kb_driver *own = strchr(f->cuda, '.') ? toolkit_row(d, f->cuda) : NULL;
    const struct kb_driver *floor = kb_driver_minor(d, f->cuda);
    f->fits = HOST_UNKNOWN;
    if (!driver) {
        f->rule = "the version of the driver is unknown";
    } else if (own && host_version_cmp(driver, own->linux_min) >= 0) {
        f->fits = HOST_YES;
        f->rule = arena_printf(w->a, "the driver is %s or newer, as %s needs", own->linux_min,
                               own->title);
    } else if (floor && host_version_cmp(driver, floor->linux_min) >= 0) {
        f->fits = HOST_YES;
        f->rule = arena_printf(w->a,
                               "minor-version compatibility: %s runs with driver %s or newer, "
                               "without features of a newer driver and without compiling newer PTX",
                               floor->title, floor->linux_min);
    } else if (floor) {
        f->fits = HOST_NO;
        f->rule =
            arena_printf(w->a,
                         "%s needs driver %s or newer (a forward-compatibility package in the "
                         "image helps only on data-center GPUs)",
                         floor->title, floor->linux_min);
    } else {
        f->rule = arena_printf(w->a, "the knowledge base has no CUDA %s", f->cuda);
    }
}

static void add_cuda(struct container_work *w, const struct kb_drivers *d, const char *version,
                     const char *from)
{
    if (!version || strspn(version, "0123456789.") != strlen(version) || !*version) {
        return;
    }
    struct container_fit f = {.cuda = minor_release(w->a, version), .from = from};
    for (size_t i = 0; i < w->s->fits.n; i++) {
        if (strcmp(w->s->fits.items[i].cuda, f.cuda) == 0) {
            return;
        }
    }
    judge_fit(w, d, &f);
    VEC_PUSH(w->a, &w->s->fits, f);
}

/* What a process loads, as far as a name tells: libcudart.so.12. */
static void add_loaded(struct container_work *w, const struct kb_drivers *d)
{
    static const char prefix[] = "libcudart.so.";
    const struct model *m = w->q->model;
    for (size_t i = 0; i < m->processes.n; i++) {
        const struct ldso_process *p = m->processes.items[i]->ldso;
        for (size_t k = 0; p && k < p->objects.n; k++) {
            const struct ldso_object *o = p->objects.items[k];
            const char *name = o->soname ? o->soname : path_base(o->path);
            if (starts_with(name, prefix) && w->s->fits.n == 0) {
                add_cuda(w, d, name + strlen(prefix), arena_printf(w->a, "%s is loaded", o->path));
            }
        }
    }
}

/* Packages of one build for CUDA; torch names its own, and others come with torch. */
static bool is_built_for_cuda(const char *package)
{
    static const char *const names[] = {"ctranslate2",    "cupy-cuda11x",      "cupy-cuda12x",
                                        "cupy-cuda13x",   "jax-cuda12-plugin", "jax-cuda13-plugin",
                                        "onnxruntime-gpu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], package) == 0) {
            return true;
        }
    }
    return false;
}

static void add_builds(struct container_work *w, const struct kb_drivers *d)
{
    const struct model *m = w->q->model;
    struct kb_compats compats;
    struct gm_err err;
    if (!m->env || kb_compats(m->kb, &compats, &err) < 0) {
        return;
    }
    for (size_t i = 0; i < compats.n; i++) {
        const struct kb_compat *c = &compats.rows[i];
        const struct py_dist *x =
            is_built_for_cuda(c->package) ? py_env_by_dist(m->env, c->package) : NULL;
        enum model_build build = x ? model_build_of_dist(w->q->model, x) : MODEL_BUILD_UNKNOWN;
        bool other = build == MODEL_BUILD_HIP || build == MODEL_BUILD_CPU;
        if (x && !other && c->cuda_major > 0 && model_version_fits(w->a, c->versions, x->version)) {
            add_cuda(w, d, arena_printf(w->a, "%d", c->cuda_major),
                     arena_printf(w->a, "%s %s was built for it", c->package, x->version));
        }
    }
}

static void add_inventory(struct container_work *w)
{
    static const char *const runtimes[] = {"nvidia-cuda-runtime-cu11", "nvidia-cuda-runtime-cu12",
                                           "nvidia-cuda-runtime"};
    const struct host_fact *module = &w->q->host->nvidia.module;
    struct kb_drivers drivers;
    struct gm_err err;
    if (kb_drivers(w->q->model->kb, &drivers, &err) < 0) {
        return;
    }
    w->s->driver = host_nvidia_release(w->q->host);
    const struct host_fact *tegra = &w->q->host->tegra.release;
    w->s->driver_from = w->s->driver ? module->where
                        : tegra->state == HOST_YES
                            ? arena_printf(w->a, "it is part of L4T %s", tegra->value)
                            : module->why;
    const struct kb_driver *newest = w->s->driver ? kb_newest_cuda(&drivers, w->s->driver) : NULL;
    w->s->driver_cuda = newest ? minor_release(w->a, newest->cuda) : NULL;
    w->s->driver_cuda_or_newer = newest && kb_driver_may_exceed(&drivers, w->s->driver, newest);
    if (w->q->model->processes.n) {
        add_cuda(w, &drivers, model_torch(w->q->model)->cuda, "torch was built for it");
    }
    for (size_t i = 0; w->q->model->env && i < sizeof runtimes / sizeof *runtimes; i++) {
        const struct py_dist *x = py_env_by_dist(w->q->model->env, runtimes[i]);
        add_cuda(w, &drivers, x ? x->version : NULL,
                 arena_printf(w->a, "%s is installed", runtimes[i]));
    }
    add_builds(w, &drivers);
    add_cuda(w, &drivers, container_own_value(w, "CUDA_VERSION"), "the image sets CUDA_VERSION");
    add_loaded(w, &drivers);
}

/* The forms that start a folder know nothing of the image's configuration. */
static void note_user(struct container_work *w)
{
    const char *user = w->s->user;
    bool folder = w->q->format == CONTAINER_LXC || w->q->format == CONTAINER_NSPAWN;
    if (folder && user && strcmp(user, "root") != 0 && strcmp(user, "0") != 0) {
        container_note(w, arena_printf(w->a,
                                       "The image sets USER %s, which is not kept here: the "
                                       "program starts as root.",
                                       str_printable(w->a, user)));
    }
}

void container_prove(struct container_work *w)
{
    const char *program = w->q->program;
    w->s->program = program && cdi_is_plain_path(program) ? program : NULL;
    if (program && !w->s->program && w->s->gpu != CONTAINER_NO_GPU &&
        w->s->gpu != CONTAINER_UNKNOWN_GPU) {
        container_note(
            w, arena_printf(w->a,
                            "The test with gpumend probe is left out: %s, where gpumend is, has "
                            "characters that not every form can mount. Copy it to "
                            "/usr/local/bin, and start it from there.",
                            str_printable(w->a, program)));
    }
    w->s->user = w->q->image ? w->q->image->user : NULL;
    note_user(w);
    add_trials(w);
    if (w->s->gpu == CONTAINER_NVIDIA) {
        add_inventory(w);
    }
}
