/* How each form of a container is asked to give it a GPU, on this host. */
#include "container/internal.h"

#include <string.h>

#include "base/json.h"

/* Docker Desktop on Windows brings it along. */
static bool has_toolkit(const struct container_work *w)
{
    const struct host_engines *x = &w->q->host->engines;
    return x->toolkit.program.state == HOST_YES || x->desktop_of_windows.state == HOST_YES;
}

/* What is wrong with the engine's own settings on this host. */
static void repair_engine(struct container_work *w)
{
    static const struct {
        enum container_way way;
        const char *problems; // glob
    } rows[] = {
        {CONTAINER_BY_TOOLKIT, "engine-*"},        {CONTAINER_BY_TOOLKIT, "runtime-*"},
        {CONTAINER_BY_TOOLKIT, "toolkit-[clrw]*"}, {CONTAINER_BY_NAME, "cdi"},
        {CONTAINER_BY_PLUGIN, "runtime-*"},        {CONTAINER_BY_PLUGIN, "toolkit-[lrw]*"},
    };
    const struct host *h = w->q->host;
    for (size_t i = 0; i < h->problems.n; i++) {
        const struct host_problem *p = &h->problems.items[i];
        const char *step = p->command ? p->command : p->step;
        for (size_t k = 0; step && k < sizeof rows / sizeof *rows; k++) {
            if (rows[k].way == container_format_way(w->q->format) &&
                str_glob(rows[k].problems, p->id)) {
                container_add(w, &w->s->first, step, p->text);
            }
        }
    }
}

/* ------------------------------------------------------------------ the GPUs that were selected */

static bool is_picked(const struct container_work *w, const struct host_gpu *g)
{
    const struct container_pick *p = w->s->pick;
    bool is = p->all;
    for (size_t i = 0; i < p->devices.n && !is; i++) {
        is = p->devices.items[i].gpu == g;
    }
    return is;
}

/* "0,GPU-1234": what was selected, between commas; "all" */
static const char *picked_list(const struct container_work *w)
{
    const struct container_pick *p = w->s->pick;
    const char *list = NULL;
    for (size_t i = 0; i < p->devices.n && !p->all; i++) {
        const char *id = p->devices.items[i].id;
        list = list ? arena_printf(w->a, "%s,%s", list, id) : id;
    }
    return list ? list : "all";
}

/* What was selected and is in no file of the host, so that it may be right or wrong. */
static void work_note_unknown(struct container_work *w)
{
    const struct container_pick *p = w->s->pick;
    for (size_t i = 0; i < p->devices.n; i++) {
        if (!p->devices.items[i].gpu) {
            container_note(
                w, arena_printf(w->a,
                                "Whether %s is here cannot be determined: %s (nvidia-smi -L lists "
                                "it).",
                                p->devices.items[i].id,
                                starts_with(p->devices.items[i].id, "MIG-")
                                    ? "the UUIDs of MIG instances are in no file"
                                    : "the driver's files do not name every GPU's UUID"));
        }
    }
    if (p->reason) {
        container_note(w, p->reason);
    }
}

/* The container counts the GPUs that it is given from 0: what the image says of another count would
 * hide them. */
static void count_from_zero(struct container_work *w)
{
    const struct container_pick *p = w->s->pick;
    const char *own = container_own_value(w, "CUDA_VISIBLE_DEVICES"), *list = "0";
    if (p->all || p->devices.n == 0 || !own || strspn(own, "0123456789,") != strlen(own) || !*own) {
        return;
    }
    for (size_t i = 1; i < p->devices.n; i++) {
        list = arena_printf(w->a, "%s,%zu", list, i);
    }
    if (strcmp(own, list) != 0) {
        container_set(
            w, "CUDA_VISIBLE_DEVICES", list,
            arena_printf(w->a,
                         "the image sets %s, and inside the container the GPUs that it is "
                         "given are counted from 0",
                         own));
    }
}

/* Whether a valid specification of engines has the vendor's device of this name. */
static bool is_specified(struct container_work *w, const char *kind, const char *name)
{
    struct cdi_files files;
    bool found = false;
    cdi_files_read(w->q->host_root, w->a, w->q->host, NULL, true, &files);
    for (size_t i = 0; i < files.files.n; i++) {
        const struct cdi_file *f = &files.files.items[i];
        bool good = f->kind && strcmp(f->kind, kind) == 0 && f->answers.n, has = false;
        for (size_t k = 0; k < f->problems.n; k++) {
            good &= f->problems.items[k].severity != CDI_ERROR;
        }
        const json_t *devices = json_object_get(f->document, "devices"), *device;
        size_t n;
        json_array_foreach(devices, n, device)
        {
            const char *own = json_text(device, "name");
            has |= own && strcmp(own, name) == 0;
        }
        found |= good && has;
    }
    cdi_files_release(&files);
    return found;
}

/* ------------------------------------------------------------------ NVIDIA */

/* Whether a list such as "compute,utility" has the word, or has all. */
static bool list_has_word(const char *list, struct str word)
{
    for (struct str rest = str_of(list); rest.s;) {
        struct str one = str_trim(str_cut(&rest, ','));
        if (str_eq(one, word) || str_is(one, "all")) {
            return true;
        }
    }
    return false;
}

/* The words that the toolkit knows; it starts no container for another one (NVIDIA/
 * nvidia-container-toolkit, internal/config/image/capabilities.go). */
static bool is_capability(struct str word)
{
    static const char *const known[] = {"all",      "compute", "compat32", "display",
                                        "graphics", "ngx",     "utility",  "video"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (str_is(word, known[i])) {
            return true;
        }
    }
    return false;
}

/* What the image states, with the words that it lacks; NULL: it lacks none. */
static const char *with_capabilities(struct container_work *w, const char *needed)
{
    const char *own = container_own_value(w, "NVIDIA_DRIVER_CAPABILITIES"), *list = NULL;
    const char *all = own && *own ? arena_printf(w->a, "%s,%s", own, needed) : needed;
    for (struct str rest = str_of(all); rest.s;) {
        struct str word = str_trim(str_cut(&rest, ','));
        if (is_capability(word) && !(list && list_has_word(list, word))) {
            list = arena_printf(w->a, "%s%s%.*s", list ? list : "", list ? "," : "", (int)word.n,
                                word.s);
        }
    }
    return own && strcmp(own, list) == 0 ? NULL : list;
}

/* NVIDIA_DRIVER_CAPABILITIES says which of the driver's libraries the toolkit injects. What the
 * image states itself stays. */
static void add_capabilities(struct container_work *w)
{
    static const char *const video[] = {"torchcodec", "PyNvVideoCodec",      "pynvvideocodec",
                                        "decord",     "nvidia-dali-cuda120", "nvidia-dali-cuda130",
                                        "VPF"};
    const char *who = NULL, *asked = diag_driver_capabilities(w->q->model, &who);
    if (!asked && container_uses_package(w->q->model, video, sizeof video / sizeof *video, &who)) {
        asked = ",video";
    }
    const char *value =
        with_capabilities(w, arena_printf(w->a, "compute,utility%s", asked ? asked : ""));
    if (value) {
        container_set(
            w, "NVIDIA_DRIVER_CAPABILITIES", value,
            asked ? arena_printf(w->a,
                                 "libcuda (compute), nvidia-smi and NVML (utility), and what "
                                 "%s asks for beside them: without it they are not injected",
                                 who)
                  : "libcuda (compute), and nvidia-smi and NVML (utility): an image that sets "
                    "less gets less of the driver");
    }
}

static void ask_toolkit(struct container_work *w)
{
    const char *list = picked_list(w);
    w->s->by_toolkit = true;
    container_add(
        w, &w->s->gpus, strcmp(list, "all") == 0 ? list : arena_printf(w->a, "device=%s", list),
        "the NVIDIA Container Toolkit gives the container the nodes and the driver's libraries");
    count_from_zero(w);
}

static const struct host_manager_words *manager_words(const struct container_work *w)
{
    enum host_manager m = w->q->host->manager;
    return host_manager_words(m == HOST_MANAGER_NONE ? HOST_APT : m);
}

/* What of NVIDIA's container tools has to be installed on the host, and what follows it. */
static void install_tools(struct container_work *w, const char *package, const char *then,
                          const char *reason)
{
    const char *install = host_install_container_tools(w->q->host, w->a, package);
    if (install) {
        container_add(w, &w->s->first, arena_printf(w->a, "%s%s", install, then), reason);
    } else {
        container_note(w, arena_printf(w->a, "NVIDIA has no package of %s for this host: %s",
                                       package, reason));
    }
}

static void use_toolkit(struct container_work *w)
{
    if (w->q->host->tegra.is_tegra.state == HOST_YES) {
        w->s->runtime = (struct container_item){
            "nvidia", "the toolkit's runtime gives a container of a Jetson the nodes and the "
                      "driver's libraries, which --gpus alone does not"};
        container_set(w, "NVIDIA_VISIBLE_DEVICES", "all", "the runtime gives nothing without it");
    } else {
        ask_toolkit(w);
    }
    add_capabilities(w);
    if (!has_toolkit(w)) {
        install_tools(
            w, "nvidia-container-toolkit",
            " && sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart "
            "docker",
            "the NVIDIA Container Toolkit is not installed here: docker answers \"could not "
            "select device driver\" without it (its packages come from NVIDIA's own "
            "repository)");
        const struct host_manager_words *words = manager_words(w);
        container_add(
            w, &w->s->undo,
            arena_printf(w->a, "sudo %s nvidia-container-toolkit && sudo systemctl restart docker",
                         words->remove),
            "takes the toolkit back, if it was installed for this");
    }
    repair_engine(w);
}

static void use_names(struct container_work *w, const char *kind)
{
    const char *list = picked_list(w);
    bool specified = true;
    for (struct str rest = str_of(list); rest.s;) {
        const char *name = str_dup(w->a, str_cut(&rest, ','));
        specified &= is_specified(w, kind, name);
        container_add(
            w, &w->s->gpus, arena_printf(w->a, "%s=%s", kind, name),
            strcmp(name, "all") == 0
                ? "every NVIDIA GPU: device nodes and libraries come from the CDI specification"
                : "this GPU: its device nodes and the libraries come from the CDI "
                  "specification");
    }
    count_from_zero(w);
    size_t before = w->s->first.n;
    repair_engine(w);
    if (w->s->first.n == before && !specified) {
        container_add(
            w, &w->s->first, "sudo gpumend container cdi --write",
            arena_printf(w->a,
                         "no valid specification of %s with %s is in /etc/cdi or /run/cdi, and "
                         "the engine cannot resolve the name without one",
                         kind, list));
        container_add(w, &w->s->undo, "sudo rm /etc/cdi/gpumend-*.yaml",
                      "removes the specification");
    }
}

/* enroot's hook reads what docker's runtime reads, and gives no libcuda without "compute". */
static void use_hook(struct container_work *w)
{
    container_set(
        w, "NVIDIA_VISIBLE_DEVICES", picked_list(w),
        "enroot's hook for NVIDIA gives the container these GPUs, and nothing without it");
    add_capabilities(w);
    count_from_zero(w);
    const struct host_engines *x = &w->q->host->engines;
    if (x->toolkit.program.state != HOST_YES) {
        install_tools(
            w, "libnvidia-container-tools", "",
            "enroot's hook runs nvidia-container-cli, which was not found here (its packages come "
            "from NVIDIA's own repository)");
    }
}

/* CUDA's own variable: --nv passes on every GPU. */
static void use_flag(struct container_work *w)
{
    const struct container_pick *p = w->s->pick;
    const char *list = NULL;
    container_add(w, &w->s->gpus, "--nv",
                  "binds the driver's nodes and libraries into the container");
    for (size_t i = 0; i < p->devices.n && !p->all; i++) {
        const struct container_device *d = &p->devices.items[i];
        bool uuid = d->instance < 0 && d->gpu && d->gpu->uuid.state == HOST_YES;
        const char *id = uuid ? d->gpu->uuid.value : d->id;
        list = list ? arena_printf(w->a, "%s,%s", list, id) : id;
    }
    if (list && strchr(list, ':')) {
        container_note(
            w, "--nv passes on every GPU, and CUDA takes a MIG instance by its UUID alone: give "
               "the one that nvidia-smi -L shows (--gpus MIG-...).");
    } else if (list) {
        container_set(w, "CUDA_VISIBLE_DEVICES", list,
                      "--nv passes on every GPU: CUDA counts these alone");
        container_set(w, "CUDA_DEVICE_ORDER", "PCI_BUS_ID", "numbers are then those of nvidia-smi");
    }
}

/* ------------------------------------------------------------------ node by node, library by
 * library */

static const struct host_node *node_named(const struct host *h, const char *path)
{
    for (size_t i = 0; i < h->nvidia.nodes.n; i++) {
        if (strcmp(h->nvidia.nodes.items[i].path, path) == 0) {
            return &h->nvidia.nodes.items[i];
        }
    }
    for (size_t i = 0; i < h->nvidia.cap_nodes.n; i++) {
        if (strcmp(h->nvidia.cap_nodes.items[i].path, path) == 0) {
            return &h->nvidia.cap_nodes.items[i];
        }
    }
    for (size_t i = 0; i < h->gpus.n; i++) {
        for (size_t k = 0; k < h->gpus.items[i].nodes.n; k++) {
            if (strcmp(h->gpus.items[i].nodes.items[k].path, path) == 0) {
                return &h->gpus.items[i].nodes.items[k];
            }
        }
    }
    return h->amd.kfd_node.path && strcmp(h->amd.kfd_node.path, path) == 0 ? &h->amd.kfd_node
                                                                           : NULL;
}

/* The device cgroup of a container is a list of numbers. */
static void allow(struct container_work *w, const char *path)
{
    const struct host_node *n = node_named(w->q->host, path);
    if (n && n->present.state == HOST_YES) {
        container_add(w, &w->s->allow,
                      arena_printf(w->a, "c %llu:%llu rwm", (unsigned long long)n->major,
                                   (unsigned long long)n->minor),
                      arena_printf(w->a, "%s may be opened", path));
    } else {
        container_note(
            w, arena_printf(w->a, "The numbers of %s could not be read: allow it by hand.", path));
    }
}

static void add_edits(struct container_work *w, const json_t *edits)
{
    const json_t *item;
    size_t i;
    json_array_foreach(json_object_get(edits, "deviceNodes"), i, item)
    {
        const char *path = json_text(item, "path");
        if (path && cdi_is_plain_path(path)) {
            container_add(w, &w->s->devices, arena_strdup(w->a, path),
                          "a node of the GPU or of its driver");
        }
    }
    json_array_foreach(json_object_get(edits, "mounts"), i, item)
    {
        const char *from = json_text(item, "hostPath");
        const char *to = json_text(item, "containerPath");
        if (from && to && cdi_is_plain_path(from) && cdi_is_plain_path(to)) {
            container_add(w, &w->s->mounts, arena_printf(w->a, "%s:%s", from, to),
                          "a part of the driver, where the image's loader looks");
        }
    }
    json_array_foreach(json_object_get(edits, "env"), i, item)
    {
        struct str value = str_of(json_string_value(item)), name = str_cut(&value, '=');
        if (value.s && str_is(name, "LD_LIBRARY_PATH")) {
            container_add(w, &w->path, str_dup(w->a, value),
                          "the driver's libraries come first there");
        } else if (value.s) {
            container_set(w, str_dup(w->a, name), str_dup(w->a, value),
                          "as the CDI specification sets it");
        }
    }
}

static bool add_device(struct container_work *w, const json_t *document, const char *name)
{
    const json_t *device;
    size_t i;
    json_array_foreach(json_object_get(document, "devices"), i, device)
    {
        const char *own = json_text(device, "name");
        if (own && strcmp(own, name) == 0) {
            add_edits(w, json_object_get(device, "containerEdits"));
            return true;
        }
    }
    return false;
}

/* What a CDI specification for this host would hold, put in by hand: nothing here reads one. */
static void use_parts(struct container_work *w, const char *kind)
{
    struct cdi_specs specs;
    bool found = false;
    cdi_build(w->q->host_root, w->a, w->q->host, CDI_BY_HAND, &specs);
    for (size_t i = 0; i < specs.specs.n; i++) {
        const json_t *document = specs.specs.items[i].document;
        if (strcmp(specs.specs.items[i].kind, kind) != 0) {
            continue;
        }
        found = true;
        for (struct str rest = str_of(picked_list(w)); rest.s;) {
            found &= add_device(w, document, str_dup(w->a, str_cut(&rest, ',')));
        }
        add_edits(w, json_object_get(document, "containerEdits"));
    }
    if (!found) {
        container_note(
            w, "Not every GPU that was asked for can be passed on: its nodes, or the driver's "
               "libraries, were not found here (gpumend devices says why).");
    }
    cdi_specs_release(&specs);
    count_from_zero(w);
}

/* ------------------------------------------------------------------ incus */

static void use_device(struct container_work *w)
{
    if (w->s->gpu == CONTAINER_NVIDIA && !has_toolkit(w)) {
        install_tools(
            w, "libnvidia-container-tools", "",
            "nvidia.runtime needs nvidia-container-cli, which was not found here (its packages "
            "come from NVIDIA's own repository)");
    }
    if (w->s->gpu == CONTAINER_NVIDIA) {
        w->s->runtime = (struct container_item){
            "true", "nvidia.runtime gives the container the driver's libraries, which its gpu "
                    "devices do not"};
        add_capabilities(w);
        count_from_zero(w);
    }
}

static void add_selinux(struct container_work *w)
{
    const struct host_engines *x = &w->q->host->engines;
    if (x->selinux.state == HOST_YES && x->selinux_devices.state != HOST_YES) {
        container_add(
            w, &w->s->security, "label=disable",
            "SELinux is enforced here and keeps containers from device nodes; setsebool -P "
            "container_use_devices on is the narrower way");
    }
}

/* ------------------------------------------------------------------ by device nodes */

static void work_add_node(struct container_work *w, const struct host_node *n, const char *reason)
{
    if (n->present.state != HOST_YES) {
        return;
    }
    container_add(w, &w->s->devices, n->path, reason);
    if (n->gid && (n->mode & 0006) != 0006) {
        bool keep = container_format_way(w->q->format) == CONTAINER_BY_NAME && w->q->rootless;
        container_add(
            w, &w->s->groups,
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
static void add_nodes(struct container_work *w, enum host_vendor vendor, const char *reason)
{
    const struct host *h = w->q->host;
    bool any = false;
    for (size_t i = 0; i < h->gpus.n; i++) {
        any |= h->gpus.items[i].vendor == vendor && host_gpu_counts(&h->gpus.items[i]);
    }
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        bool counts = g->vendor == vendor && (!any || host_gpu_counts(g)) && is_picked(w, g);
        for (size_t k = 0; counts && k < g->nodes.n; k++) {
            work_add_node(w, &g->nodes.items[k], reason);
        }
    }
}

static void use_wsl(struct container_work *w)
{
    static const char libraries[] = "/usr/lib/wsl";
    container_add(w, &w->s->devices, "/dev/dxg", "the GPU of Windows");
    container_add(w, &w->s->mounts, arena_printf(w->a, "%s:%s", libraries, libraries),
                  "Windows' driver libraries and its driver store");
    container_add(w, &w->path, "/usr/lib/wsl/lib", "libcuda.so.1 of WSL is found there");
}

/* ------------------------------------------------------------------ which GPU */

static enum container_gpu host_container_gpu(const struct host *h)
{
    const struct host_gpu *best = host_usable_gpu(h);
    for (size_t i = 0; !best && i < h->gpus.n; i++) {
        best = host_gpu_counts(&h->gpus.items[i]) ? &h->gpus.items[i] : NULL;
    }
    if (h->wsl.is_wsl.state == HOST_YES && h->wsl.dxg.state == HOST_YES) {
        return CONTAINER_WSL;
    }
    switch (best ? best->vendor : HOST_OTHER) {
    case HOST_NVIDIA: return CONTAINER_NVIDIA;
    case HOST_AMD: return CONTAINER_AMD;
    case HOST_INTEL: return CONTAINER_INTEL;
    case HOST_OTHER: break;
    }
    return h->gpus.n == 0 && h->pci.state == HOST_UNKNOWN ? CONTAINER_UNKNOWN_GPU
                                                          : CONTAINER_NO_GPU;
}

/* The plugin chooses, and it counts MIG instances apart. */
static void note_plugin(struct container_work *w)
{
    const struct container_pick *p = w->s->pick;
    if (!p->all && p->devices.n) {
        container_note(
            w, "A device plugin hands out as many GPUs as are asked for and chooses them itself: "
               "a particular one is asked for by a claim (gpumend container kubernetes-claim).");
    }
    for (size_t i = 0; i < p->devices.n && p->all; i++) {
        const struct host_gpu *g = p->devices.items[i].gpu;
        if (g && g->mig.n) {
            container_note(
                w, arena_printf(w->a,
                                "GPU %s is in %zu MIG instances. With the plugin's MIG strategy "
                                "\"mixed\" each is a resource nvidia.com/mig-PROFILE: --gpus "
                                "mig-PROFILE (the profile is in no file; nvidia-smi -L shows "
                                "it).",
                                p->devices.items[i].id, g->mig.n));
        }
    }
}

/* ------------------------------------------------------------------ a claim */

/* The attribute that names a device, as its driver publishes it; NULL: not known here. */
static const char *published(const struct container_work *w, const struct container_device *d)
{
    const char *id = w->s->gpu == CONTAINER_AMD ? d->gpu ? d->gpu->bdf : NULL
                     : d->instance >= 0         ? NULL
                     : starts_with(d->id, "GPU-") || starts_with(d->id, "MIG-") ? d->id
                     : d->gpu && d->gpu->uuid.state == HOST_YES                 ? d->gpu->uuid.value
                                                                                : NULL;
    return id && str_is_seen(id) && !strpbrk(id, "\"\\") ? id : NULL;
}

/* An expression of CEL over what the drivers publish: kubernetes-sigs/dra-driver-nvidia-gpu,
 * cmd/gpu-kubelet-plugin/deviceinfo.go and mig.go (uuid, profile); ROCm/k8s-gpu-dra-driver,
 * cmd/gpu-kubeletplugin/deviceinfo.go (type, pciAddr: partitions have none). */
static void select_devices(struct container_work *w)
{
    const struct container_pick *p = w->s->pick;
    const char *list = NULL;
    for (size_t i = 0; i < p->devices.n && !p->all; i++) {
        const char *id = published(w, &p->devices.items[i]);
        if (!id) {
            container_note(
                w, arena_printf(w->a,
                                "A claim cannot ask for GPU %s: what its driver publishes of it "
                                "is unknown here. The claim asks for the number of GPUs.",
                                p->devices.items[i].id));
            return;
        }
        list = arena_printf(w->a, "%s%s\"%s\"", list ? list : "", list ? ", " : "", id);
    }
    if (list && w->s->gpu == CONTAINER_AMD) {
        w->s->selector = (struct container_item){
            arena_printf(w->a,
                         "device.attributes[\"gpu.amd.com\"].type == \"amdgpu\" && "
                         "device.attributes[\"gpu.amd.com\"].pciAddr in [%s]",
                         list),
            "these PCI addresses, on whichever node has a GPU there: nodeSelector names the node"};
    } else if (list) {
        w->s->selector = (struct container_item){
            arena_printf(w->a, "device.attributes[\"gpu.nvidia.com\"].uuid in [%s]", list),
            "only these devices, on the node that has them"};
    }
}

static bool is_mig(const struct container_pick *p)
{
    return p->profile || (p->devices.n && starts_with(p->devices.items[0].id, "MIG-"));
}

static void use_claim(struct container_work *w)
{
    if (w->s->gpu == CONTAINER_NVIDIA) {
        w->s->resource =
            (struct container_item){is_mig(w->s->pick) ? "mig.nvidia.com" : "gpu.nvidia.com",
                                    "the device class of NVIDIA's DRA driver for GPUs, which must "
                                    "be installed in the cluster "
                                    "(Kubernetes 1.34 or newer)"};
        if (w->s->pick->profile) {
            w->s->selector = (struct container_item){
                arena_printf(w->a, "device.attributes[\"gpu.nvidia.com\"].profile == \"%s\"",
                             w->s->pick->profile),
                "a MIG instance of this profile"};
        } else {
            select_devices(w);
        }
        add_capabilities(w);
    } else if (w->s->gpu == CONTAINER_AMD) {
        w->s->resource = (struct container_item){
            "gpu.amd.com", "the device class of AMD's DRA driver for GPUs, which must be installed "
                           "in the cluster (Kubernetes 1.34 or newer)"};
        select_devices(w);
    } else if (w->s->gpu == CONTAINER_INTEL || w->s->gpu == CONTAINER_WSL) {
        container_note(
            w, "No device class of a DRA driver is known for this GPU: nothing is claimed.");
    }
}

static void use_plugin(struct container_work *w)
{
    static const struct container_item resources[] = {
        [CONTAINER_UNKNOWN_GPU] = {NULL, NULL},
        [CONTAINER_NO_GPU] = {NULL, NULL},
        [CONTAINER_NVIDIA] = {"nvidia.com/gpu",
                              "NVIDIA's device plugin hands out whole GPUs by this name"},
        [CONTAINER_AMD] = {"amd.com/gpu", "AMD's device plugin hands out whole GPUs by this name"},
        [CONTAINER_INTEL] = {"gpu.intel.com/i915",
                             "Intel's device plugin hands out GPUs by this name"},
        [CONTAINER_WSL] = {"nvidia.com/gpu",
                           "NVIDIA's device plugin hands out the GPU by this name"},
    };
    w->s->resource = resources[w->s->gpu];
    if (w->s->pick->profile) {
        w->s->resource.value = arena_printf(w->a, "nvidia.com/mig-%s", w->s->pick->profile);
        w->s->resource.reason = "NVIDIA's device plugin hands out MIG instances of this profile by "
                                "this name where its MIG strategy is mixed";
    }
    note_plugin(w);
    const struct host *h = w->q->host;
    for (size_t i = 0; w->s->gpu == CONTAINER_INTEL && i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        bool xe = g->vendor == HOST_INTEL && host_gpu_counts(g) && g->driver.state == HOST_YES &&
                  g->driver.value && strcmp(g->driver.value, "xe") == 0;
        if (xe) {
            w->s->resource.value = "gpu.intel.com/xe"; // the name has the kernel's driver in it
        }
    }
    repair_engine(w);
    if (w->s->gpu == CONTAINER_NVIDIA || w->s->gpu == CONTAINER_WSL) {
        add_capabilities(w);
        w->s->runtime_class = (struct container_item){
            "nvidia", "the node's engine runs the pod with the NVIDIA runtime; leave it out where "
                      "that is its default"};
    } else if (w->s->gpu == CONTAINER_AMD || w->s->gpu == CONTAINER_INTEL) {
        add_nodes(w, w->s->gpu == CONTAINER_AMD ? HOST_AMD : HOST_INTEL, "");
        w->s->devices.n = 0; // the plugin's part; the groups are what is wanted of them
    }
}

static void use_nvidia(struct container_work *w)
{
    switch (container_format_way(w->q->format)) {
    case CONTAINER_BY_TOOLKIT: use_toolkit(w); break;
    case CONTAINER_BY_NAME: use_names(w, "nvidia.com/gpu"); break;
    case CONTAINER_BY_FLAG: use_flag(w); break;
    case CONTAINER_BY_HOOK: use_hook(w); break;
    case CONTAINER_BY_DEVICE: use_device(w); break;
    case CONTAINER_BY_PARTS: use_parts(w, "nvidia.com/gpu"); break;
    case CONTAINER_BY_PLUGIN:
    case CONTAINER_BY_CLAIM:
    case CONTAINER_BY_NONE: break;
    }
}

static void note_every(struct container_work *w, const char *option)
{
    if (!w->s->pick->all) {
        container_note(
            w,
            arena_printf(w->a, "%s passes on every GPU: what was selected is not kept.", option));
    }
}

static void use_amd(struct container_work *w)
{
    enum container_way way = container_format_way(w->q->format);
    if (way == CONTAINER_BY_FLAG) {
        container_add(w, &w->s->gpus, "--rocm", "binds AMD's nodes into the container");
        note_every(w, "--rocm");
        return;
    }
    if (way == CONTAINER_BY_HOOK) {
        note_every(w, "enroot, whose containers have the host's /dev,");
        return;
    }
    work_add_node(w, &w->q->host->amd.kfd_node, "AMD's compute driver, one node for all GPUs");
    if (way != CONTAINER_BY_DEVICE) { // its gpu devices bring the render nodes
        add_nodes(w, HOST_AMD, "the GPU's render node, which ROCm maps memory through");
    }
}

static void use_intel(struct container_work *w)
{
    enum container_way way = container_format_way(w->q->format);
    if (way == CONTAINER_BY_HOOK) {
        note_every(w, "enroot, whose containers have the host's /dev,");
    } else if (way != CONTAINER_BY_DEVICE) {
        add_nodes(w, HOST_INTEL, "the GPU's render node");
    }
}

/* What only this user, this shell or the host's own libraries have to do with. */
static bool is_hosts_own(const struct container_work *w, const struct host_problem *p)
{
    return strcmp(p->id, "hidden") == 0 || strcmp(p->id, "level-zero") == 0 ||
           starts_with(p->id, "override-") || (strcmp(p->id, "permission") == 0 && !w->q->rootless);
}

/* What keeps programs of the host itself from the GPU keeps containers from it, too. */
static void repair_host(struct container_work *w)
{
    const struct host *h = w->q->host;
    for (size_t i = 0; i < h->gpus.n && !host_usable_gpu(h); i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        for (size_t k = 0; host_gpu_counts(g) && k < g->problems.n; k++) {
            const struct host_problem *p = &g->problems.items[k];
            const char *step = p->command ? p->command : p->step;
            if (p->state == HOST_NO && step && !is_hosts_own(w, p)) {
                container_add(w, &w->s->first, step,
                              arena_printf(w->a, "%s: %s", g->name, p->text));
            }
        }
    }
}

static void work_pass_on(struct container_work *w)
{
    enum container_way way = container_format_way(w->q->format);
    switch (w->s->gpu) {
    case CONTAINER_NVIDIA: use_nvidia(w); break;
    case CONTAINER_WSL:
        if (way == CONTAINER_BY_TOOLKIT || way == CONTAINER_BY_FLAG) {
            use_nvidia(w);
        } else {
            use_wsl(w);
        }
        break;
    case CONTAINER_AMD: use_amd(w); break;
    case CONTAINER_INTEL: use_intel(w); break;
    case CONTAINER_UNKNOWN_GPU:
    case CONTAINER_NO_GPU: return;
    }
    for (size_t i = 0; i < w->s->devices.n && w->q->format == CONTAINER_LXC; i++) {
        allow(w, w->s->devices.items[i].value);
    }
    if (way == CONTAINER_BY_TOOLKIT || way == CONTAINER_BY_NAME) {
        add_selinux(w);
    }
}

/* What was selected, or all; the settings' own where the question has none. */
static void take_pick(struct container_work *w)
{
    struct container_pick *all = arena_alloc(w->a, sizeof *all);
    struct gm_err err;
    w->s->pick = w->q->pick;
    if (!w->s->pick &&
        container_pick_parse(w->q->host, w->a, w->q->format, "all", all, &err) == 0) {
        w->s->pick = all;
    }
}

void container_ask(struct container_work *w)
{
    enum container_way way = container_format_way(w->q->format);
    take_pick(w);
    if (way == CONTAINER_BY_NONE) {
        return;
    }
    w->s->gpu = w->s->pick->none ? CONTAINER_NO_GPU : host_container_gpu(w->q->host);
    work_note_unknown(w);
    if (!w->s->pick->none) {
        repair_host(w);
    }
    if (way == CONTAINER_BY_PLUGIN) {
        use_plugin(w);
    } else if (way == CONTAINER_BY_CLAIM) {
        use_claim(w);
    } else {
        work_pass_on(w);
    }
}
