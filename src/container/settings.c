#include "container/settings.h"

#include <string.h>

#include "container/subject.h"

/* ------------------------------------------------------------------ words */

static const char *const format_names[CTR_FORMATS] = {"docker", "podman", "compose", "kubernetes",
                                                      "apptainer"};

const char *ctr_format_name(enum ctr_format format)
{
    return format_names[format];
}

bool ctr_format_find(const char *name, enum ctr_format *ret)
{
    for (enum ctr_format i = 0; i < CTR_FORMATS; i++) {
        if (strcmp(format_names[i], name) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

struct work {
    const struct ctr_question *q;
    struct arena *a;
    struct ctr_settings *s;
    ctr_items path; // folders of LD_LIBRARY_PATH
};

static void add(struct work *w, ctr_items *list, const char *value, const char *reason)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i].value, value) == 0) {
            return;
        }
    }
    VEC_PUSH(w->a, list, (struct ctr_item){value, reason});
}

static void note(struct work *w, const char *text)
{
    VEC_PUSH(w->a, &w->s->notes, text);
}

static bool is_there(struct work *w, const char *path)
{
    struct stat st;
    return root_stat(w->q->host_root, path, &st) == 0;
}

/* ------------------------------------------------------------------ NVIDIA */

/* Docker Desktop on Windows brings it along. */
static bool has_toolkit(const struct work *w)
{
    const struct host_engines *x = &w->q->host->engines;
    return x->toolkit.program.state == HOST_YES || x->desktop_of_windows.state == HOST_YES;
}

/* What is wrong with the engine's own settings on this host. */
static void mend_engine(struct work *w)
{
    static const struct {
        enum ctr_format format;
        const char *problems; // glob
    } rows[] = {
        {CTR_DOCKER, "engine-*"},  {CTR_DOCKER, "runtime-*"},     {CTR_DOCKER, "toolkit-[clrw]*"},
        {CTR_COMPOSE, "engine-*"}, {CTR_COMPOSE, "runtime-*"},    {CTR_COMPOSE, "toolkit-[clrw]*"},
        {CTR_PODMAN, "cdi"},       {CTR_KUBERNETES, "runtime-*"}, {CTR_KUBERNETES, "toolkit-[lrw]*"},
    };
    const struct host *h = w->q->host;
    for (size_t i = 0; i < h->problems.n; i++) {
        const struct host_problem *p = &h->problems.items[i];
        const char *step = p->command ? p->command : p->step;
        for (size_t k = 0; step && k < sizeof rows / sizeof *rows; k++) {
            if (rows[k].format == w->q->format && str_glob(rows[k].problems, p->id)) {
                add(w, &w->s->first, step, p->text);
            }
        }
    }
}

/* Whether engines can resolve the vendor's devices here. */
static bool has_specification(struct work *w, const char *kind)
{
    struct cdi_files files;
    bool found = false;
    cdi_files_read(w->q->host_root, w->a, w->q->host, true, &files);
    for (size_t i = 0; i < files.files.n; i++) {
        const struct cdi_file *f = &files.files.items[i];
        bool good = f->kind && strcmp(f->kind, kind) == 0;
        for (size_t k = 0; k < f->problems.n; k++) {
            good &= !f->problems.items[k].is_error;
        }
        found |= good;
    }
    cdi_files_release(&files);
    return found;
}

static bool uses_package(const struct model *m, const char *const *names, size_t n,
                         const char **ret)
{
    for (size_t i = 0; m->env && i < m->env->dists_n; i++) {
        for (size_t k = 0; k < n; k++) {
            if (strcmp(m->env->dists[i].name, names[k]) == 0) {
                *ret = names[k];
                return true;
            }
        }
    }
    return false;
}

/* NVIDIA_DRIVER_CAPABILITIES says which of the driver's libraries the toolkit injects. */
static void add_capabilities(struct work *w)
{
    const char *asked, *asker = NULL;
    asked = diag_driver_capabilities(w->q->model, &asker);
    if (asked) {
        add(w, &w->s->env, arena_printf(w->a, "NVIDIA_DRIVER_CAPABILITIES=compute,utility%s", asked),
            arena_printf(w->a,
                         "libcuda (compute), nvidia-smi and NVML (utility), and what %s asks for "
                         "beside them: without it they are not injected",
                         asker));
        return;
    }
    static const char *const video[] = {"torchcodec", "PyNvVideoCodec",      "pynvvideocodec",
                                        "decord",     "nvidia-dali-cuda120", "nvidia-dali-cuda130",
                                        "VPF"};
    const char *who = NULL;
    if (uses_package(w->q->model, video, sizeof video / sizeof *video, &who)) {
        add(w, &w->s->env, "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video",
            arena_printf(w->a,
                         "libcuda (compute), nvidia-smi and NVML (utility), and the video "
                         "codecs that %s uses: without it they are not injected",
                         who));
    } else {
        add(w, &w->s->env, "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
            "libcuda (compute), and nvidia-smi and NVML (utility): an image that sets less gets "
            "less of the driver");
    }
}

static void use_toolkit(struct work *w)
{
    if (w->q->host->tegra.is_tegra.state == HOST_YES) {
        w->s->runtime = (struct ctr_item){
            "nvidia", "the toolkit's runtime gives a container of a Jetson the nodes and the "
                      "driver's libraries, which --gpus alone does not"};
        add(w, &w->s->env, "NVIDIA_VISIBLE_DEVICES=all", "the runtime gives nothing without it");
    } else {
        w->s->by_toolkit = true;
        add(w, &w->s->gpus, "all",
            "the NVIDIA Container Toolkit gives the container the nodes and the "
            "driver's libraries");
    }
    add_capabilities(w);
    if (!has_toolkit(w)) {
        add(w, &w->s->first,
            "sudo apt-get install nvidia-container-toolkit && sudo nvidia-ctk "
            "runtime configure --runtime=docker && sudo systemctl restart docker",
            "the NVIDIA Container Toolkit is not installed here: docker answers \"could not select "
            "device driver\" without it (its packages come from NVIDIA's own repository)");
        add(w, &w->s->undo,
            "sudo apt-get remove nvidia-container-toolkit && sudo systemctl restart "
            "docker",
            "takes the toolkit back, if it was installed for this");
    }
    mend_engine(w);
}

static void use_names(struct work *w, const char *kind, const char *what)
{
    add(w, &w->s->gpus, arena_printf(w->a, "%s=all", kind),
        arena_printf(w->a, "%s: device nodes and libraries come from the CDI specification", what));
    size_t before = w->s->first.n;
    mend_engine(w);
    if (w->s->first.n == before && !has_specification(w, kind)) {
        add(w, &w->s->first, "sudo gpumend container cdi --write",
            arena_printf(w->a,
                         "no valid specification of %s is in /etc/cdi or /run/cdi, and the "
                         "engine cannot resolve the name without one",
                         kind));
        add(w, &w->s->undo, "sudo rm /etc/cdi/gpumend-*.yaml", "removes the specification");
    }
}

static void add_selinux(struct work *w)
{
    const struct host_engines *x = &w->q->host->engines;
    if (x->selinux.state == HOST_YES && x->selinux_devices.state != HOST_YES) {
        add(w, &w->s->security, "label=disable",
            "SELinux is enforced here and keeps containers from device nodes; setsebool -P "
            "container_use_devices on is the narrower way");
    }
}

/* ------------------------------------------------------------------ by device nodes */

static void add_node(struct work *w, const struct host_node *n, const char *reason)
{
    if (n->present.state != HOST_YES) {
        return;
    }
    add(w, &w->s->devices, n->path, reason);
    if (n->gid && (n->mode & 0006) != 0006) {
        bool keep = w->q->format == CTR_PODMAN && w->q->rootless;
        add(w, &w->s->groups,
            keep ? "keep-groups" : arena_printf(w->a, "%llu", (unsigned long long)n->gid),
            keep ? "without root the engine can pass on only the groups that you have (this needs "
                   "the runtime crun)"
                 : arena_printf(w->a,
                                "the group of %s%s%s%s here, by number: a name may stand for "
                                "another number in the image",
                                n->path, n->group ? " (" : "", n->group ? n->group : "",
                                n->group ? ")" : ""));
    }
}

/* Integrated graphics only where nothing else of the vendor is there: programs take it for one more
 * device to compute with. */
static void add_nodes(struct work *w, enum host_vendor vendor, const char *reason)
{
    const struct host *h = w->q->host;
    bool any = false;
    for (size_t i = 0; i < h->gpus.n; i++) {
        any |= h->gpus.items[i].vendor == vendor && host_gpu_counts(&h->gpus.items[i]);
    }
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        bool counts = g->vendor == vendor && (!any || host_gpu_counts(g));
        for (size_t k = 0; counts && k < g->nodes.n; k++) {
            add_node(w, &g->nodes.items[k], reason);
        }
    }
}

static void use_wsl(struct work *w)
{
    static const char libraries[] = "/usr/lib/wsl";
    add(w, &w->s->devices, "/dev/dxg", "the GPU of Windows");
    add(w, &w->s->mounts, arena_printf(w->a, "%s:%s", libraries, libraries),
        "Windows' driver libraries and its driver store");
    add(w, &w->path, "/usr/lib/wsl/lib", "libcuda.so.1 of WSL is found there");
}

/* ------------------------------------------------------------------ which GPU */

static enum ctr_gpu gpu_of(const struct host *h)
{
    const struct host_gpu *best = host_usable_gpu(h);
    for (size_t i = 0; !best && i < h->gpus.n; i++) {
        best = host_gpu_counts(&h->gpus.items[i]) ? &h->gpus.items[i] : NULL;
    }
    if (h->wsl.is_wsl.state == HOST_YES && h->wsl.dxg.state == HOST_YES) {
        return CTR_WSL;
    }
    switch (best ? best->vendor : HOST_OTHER) {
    case HOST_NVIDIA:
        return CTR_NVIDIA;
    case HOST_AMD:
        return CTR_AMD;
    case HOST_INTEL:
        return CTR_INTEL;
    case HOST_OTHER:
        break;
    }
    return h->gpus.n == 0 && h->pci.state == HOST_UNKNOWN ? CTR_UNKNOWN_GPU : CTR_NO_GPU;
}

static void use_plugin(struct work *w)
{
    static const struct ctr_item resources[] = {
        [CTR_UNKNOWN_GPU] = {NULL, NULL},
        [CTR_NO_GPU] = {NULL, NULL},
        [CTR_NVIDIA] = {"nvidia.com/gpu",
                        "NVIDIA's device plugin hands out whole GPUs by this name"},
        [CTR_AMD] = {"amd.com/gpu", "AMD's device plugin hands out whole GPUs by this name"},
        [CTR_INTEL] = {"gpu.intel.com/i915", "Intel's device plugin hands out GPUs by this name"},
        [CTR_WSL] = {"nvidia.com/gpu", "NVIDIA's device plugin hands out the GPU by this name"},
    };
    w->s->resource = resources[w->s->gpu];
    const struct host *h = w->q->host;
    for (size_t i = 0; w->s->gpu == CTR_INTEL && i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        bool xe = g->vendor == HOST_INTEL && host_gpu_counts(g) && g->driver.state == HOST_YES &&
                  g->driver.value && strcmp(g->driver.value, "xe") == 0;
        if (xe) {
            w->s->resource.value = "gpu.intel.com/xe"; // the name has the kernel's driver in it
        }
    }
    mend_engine(w);
    if (w->s->gpu == CTR_NVIDIA || w->s->gpu == CTR_WSL) {
        add_capabilities(w);
        w->s->runtime_class = (struct ctr_item){
            "nvidia", "the node's engine runs the pod with the NVIDIA runtime; leave it out where "
                      "that is its default"};
    } else if (w->s->gpu == CTR_AMD || w->s->gpu == CTR_INTEL) {
        add_nodes(w, w->s->gpu == CTR_AMD ? HOST_AMD : HOST_INTEL, "");
        w->s->devices.n = 0; // the plugin's part; the groups are what is wanted of them
    }
}

static void use_nvidia(struct work *w)
{
    switch (w->q->format) {
    case CTR_DOCKER:
    case CTR_COMPOSE:
        use_toolkit(w);
        break;
    case CTR_PODMAN:
        use_names(w, "nvidia.com/gpu", "every NVIDIA GPU");
        break;
    case CTR_APPTAINER:
        add(w, &w->s->gpus, "--nv", "binds the driver's nodes and libraries into the container");
        break;
    case CTR_KUBERNETES:
    case CTR_FORMATS:
        break;
    }
}

static void use_amd(struct work *w)
{
    if (w->q->format == CTR_APPTAINER) {
        add(w, &w->s->gpus, "--rocm", "binds AMD's nodes into the container");
        return;
    }
    add_node(w, &w->q->host->amd.kfd_node, "AMD's compute driver, one node for all GPUs");
    add_nodes(w, HOST_AMD, "the GPU's render node, which ROCm maps memory through");
}

/* What only this user, this shell or the host's own libraries have to do with. */
static bool is_hosts_own(const struct work *w, const struct host_problem *p)
{
    return strcmp(p->id, "hidden") == 0 || strcmp(p->id, "level-zero") == 0 ||
           starts_with(p->id, "override-") || (strcmp(p->id, "permission") == 0 && !w->q->rootless);
}

/* What keeps programs of the host itself from the GPU keeps containers from it, too. */
static void mend_host(struct work *w)
{
    const struct host *h = w->q->host;
    for (size_t i = 0; i < h->gpus.n && !host_usable_gpu(h); i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        for (size_t k = 0; host_gpu_counts(g) && k < g->problems.n; k++) {
            const struct host_problem *p = &g->problems.items[k];
            const char *step = p->command ? p->command : p->step;
            if (p->state == HOST_NO && step && !is_hosts_own(w, p)) {
                add(w, &w->s->first, step, arena_printf(w->a, "%s: %s", g->name, p->text));
            }
        }
    }
}

static void use_gpu(struct work *w)
{
    w->s->gpu = gpu_of(w->q->host);
    mend_host(w);
    if (w->q->format == CTR_KUBERNETES) {
        use_plugin(w);
        return;
    }
    switch (w->s->gpu) {
    case CTR_NVIDIA:
        use_nvidia(w);
        break;
    case CTR_WSL:
        if (w->q->format == CTR_DOCKER || w->q->format == CTR_COMPOSE ||
            w->q->format == CTR_APPTAINER) {
            use_nvidia(w);
        } else {
            use_wsl(w);
        }
        break;
    case CTR_AMD:
        use_amd(w);
        break;
    case CTR_INTEL:
        add_nodes(w, HOST_INTEL, "the GPU's render node");
        break;
    case CTR_UNKNOWN_GPU:
    case CTR_NO_GPU:
        return;
    }
    if (w->q->format != CTR_APPTAINER) {
        add_selinux(w);
    }
}

/* ------------------------------------------------------------------ the application */

static void add_shared_memory(struct work *w)
{
    static const char *const many[] = {"vllm", "deepspeed", "sglang"};
    static const char *const some[] = {"torch"};
    const char *who = NULL;
    if (uses_package(w->q->model, many, sizeof many / sizeof *many, &who)) {
        w->s->shm = (struct ctr_item){"8g", arena_printf(w->a,
                                                         "%s passes tensors between processes "
                                                         "through /dev/shm, which has 64 MiB by "
                                                         "default",
                                                         who)};
    } else if (uses_package(w->q->model, some, sizeof some / sizeof *some, &who)) {
        w->s->shm =
            (struct ctr_item){"1g", "torch's DataLoader passes batches through /dev/shm, "
                                    "which has 64 MiB by default (\"bus error\" when full)"};
    }
}

static const char library_folder[] = "/opt/gpumend/lib";

/* The host's copy of a library, of the machine's own processor; NULL: it has none. */
static const char *on_host(struct work *w, const char *name)
{
    static const char *const folders[] = {
        "/usr/local/cuda/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/opt/rocm/lib",
    };
    VEC(const char *) all = {0};
    struct root_dir toolkits;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        VEC_PUSH(w->a, &all, folders[i]);
    }
    if (root_list(w->q->host_root, w->a, "/usr/local", 4096, NULL, NULL, &toolkits) == 0) {
        for (size_t i = toolkits.n; i-- > 0;) { // the newest first
            if (starts_with(toolkits.names[i], "cuda-")) {
                VEC_PUSH(w->a, &all, arena_printf(w->a, "/usr/local/%s/lib64", toolkits.names[i]));
            }
        }
    }
    for (size_t i = 0; i < all.n; i++) {
        char *real;
        const char *path = path_join(w->a, all.items[i], name);
        if (root_realpath(w->q->host_root, w->a, path, &real) == 0 && is_there(w, real)) {
            return real;
        }
    }
    return NULL;
}

static bool is_driver_library(const char *name)
{
    return starts_with(name, "libcuda.so") || starts_with(name, "libnvidia-");
}

static void mount_library(struct work *w, const char *real, const char *name, const char *why,
                          unsigned depth);

/* What the library needs from its own folder: DT_NEEDED, and the others of its family, which it
 * opens by itself. */
static void mount_companions(struct work *w, const char *real, const char *name, unsigned depth)
{
    const struct model *m = w->q->model;
    const char *folder = path_dir(w->a, real);
    const char *why = arena_printf(w->a, "%s needs it", name);
    struct root_dir files;
    if (depth > 4 || root_list(w->q->host_root, w->a, folder, 65536, NULL, NULL, &files) < 0) {
        return;
    }
    for (size_t i = 0; i < m->families.n; i++) {
        const struct kb_family *f = &m->families.rows[i];
        bool member = false;
        for (size_t k = 0; k < f->members.n; k++) {
            member |= str_glob(f->members.items[k], name);
        }
        for (size_t n = 0; member && n < files.n; n++) {
            for (size_t k = 0; k < f->members.n; k++) {
                if (str_glob(f->members.items[k], files.names[n]) &&
                    !ends_with(files.names[n], ".so")) {
                    mount_library(w, path_join(w->a, folder, files.names[n]), files.names[n], why,
                                  depth + 1);
                }
            }
        }
    }
}

static void mount_library(struct work *w, const char *real, const char *name, const char *why,
                          unsigned depth)
{
    const char *end = arena_printf(w->a, ":%s/%s", library_folder, name);
    for (size_t i = 0; i < w->s->mounts.n; i++) {
        if (ends_with(w->s->mounts.items[i].value, end)) {
            return;
        }
    }
    add(w, &w->s->mounts, arena_printf(w->a, "%s%s", real, end), why);
    mount_companions(w, real, name, depth);
}

/* Mounts what the image lacks and the host has; returns how many names stay without. */
static size_t mount_lacks(struct work *w)
{
    struct model *m = w->q->model;
    size_t left = 0, before = w->s->mounts.n;
    for (size_t i = 0; i < m->processes.n; i++) {
        struct diag_lack *lacks = NULL;
        size_t n = diag_lacks(m, m->processes.items[i], &lacks);
        for (size_t k = 0; k < n; k++) {
            const char *real = is_driver_library(lacks[k].name) ? NULL : on_host(w, lacks[k].name);
            if (real) {
                mount_library(
                    w, real, lacks[k].name,
                    arena_printf(w->a, "the image lacks %s, and the host has it", lacks[k].name),
                    0);
            } else {
                left++;
            }
        }
    }
    if (w->s->mounts.n > before) {
        add(w, &w->path, library_folder, "the mounted libraries are found there");
    }
    return left;
}

/* What the image's own environment holds, or "". */
static const char *own_value(struct work *w, const char *name)
{
    const struct model *m = w->q->model;
    size_t n = strlen(name);
    for (size_t i = 0; i < m->config.n_env; i++) {
        if (strncmp(m->config.env[i], name, n) == 0 && m->config.env[i][n] == '=') {
            return m->config.env[i] + n + 1;
        }
    }
    return "";
}

static void add_variable(struct work *w, const struct diag_variable *v, const char *reason)
{
    if (strcmp(v->name, "LD_LIBRARY_PATH") == 0) {
        add(w, &w->path, v->value, reason);
        return;
    }
    const char *old = v->prepend ? own_value(w, v->name) : "";
    add(w, &w->s->env, arena_printf(w->a, "%s=%s%s%s", v->name, v->value, *old ? ":" : "", old),
        reason);
}

/* One LD_LIBRARY_PATH of all folders, before what the image sets itself. */
static void set_path(struct work *w)
{
    const char *value = "", *reason = "", *own = own_value(w, "LD_LIBRARY_PATH");
    for (size_t i = 0; i < w->path.n; i++) {
        value = arena_printf(w->a, "%s%s%s", value, i ? ":" : "", w->path.items[i].value);
        reason = arena_printf(w->a, "%s%s%s", reason, i ? "; " : "", w->path.items[i].reason);
    }
    if (w->path.n) {
        add(w, &w->s->env,
            arena_printf(w->a, "LD_LIBRARY_PATH=%s%s%s", value, *own ? ":" : "", own), reason);
    }
}

/* Lines of a Dockerfile for a command of a shell: what it exports is a variable of the image. */
static void add_lines(struct work *w, const char *command, const char *reason)
{
    struct str rest = str_of(command);
    size_t at = str_find(rest, " && export ");
    struct diag_variable v;
    add(w, &w->s->image, arena_printf(w->a, "RUN %.*s", (int)at, command), reason);
    if (at < rest.n) {
        struct diag_repair tail = {.kind = DIAG_REPAIR_ENV, .command = command + at + 4};
        if (diag_repair_variable(w->a, &tail, &v) && v.value) {
            add(w, &w->s->image, arena_printf(w->a, "ENV %s=%s", v.name, v.value),
                "the loader does not look there by itself");
        }
    }
}

/* The repairs of what is wrong with the image itself. */
static void mend_image(struct work *w)
{
    const struct diag_report *r = w->q->report;
    size_t left = mount_lacks(w);
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *f = r->findings.items[i];
        struct diag_variable v;
        bool done = false;
        if (f->severity != DIAG_ERROR || f->stage == DIAG_STAGE_MACHINE) {
            continue;
        }
        for (size_t k = 0; k < f->repairs.n && !done; k++) {
            const struct diag_repair *repair = &f->repairs.items[k];
            if (repair->kind == DIAG_REPAIR_ENV && diag_repair_variable(w->a, repair, &v) &&
                v.value) {
                add_variable(w, &v, f->summary);
                done = true;
            } else if (repair->kind == DIAG_REPAIR_PACKAGE && repair->command && left) {
                add_lines(w, repair->command, f->summary);
                done = true;
            }
        }
        if (!done && w->s->mounts.n == 0) {
            note(w, arena_printf(w->a, "Not settled by settings of the container: %s", f->summary));
        }
    }
}

static void name_subject(struct work *w)
{
    struct ctr_subject subject;
    ctr_subject(w->q, &subject);
    w->s->subject = subject.name;
    if (subject.first.value) {
        add(w, &w->s->first, subject.first.value, subject.first.reason);
    }
    if (subject.undo.value) {
        add(w, &w->s->undo, subject.undo.value, subject.undo.reason);
    }
}

void ctr_settings(const struct ctr_question *q, struct ctr_settings *ret)
{
    struct work w = {.q = q, .a = q->model->arena, .s = ret};
    *ret = (struct ctr_settings){0};
    name_subject(&w);
    use_gpu(&w);
    add_shared_memory(&w);
    mend_image(&w);
    set_path(&w);
}
