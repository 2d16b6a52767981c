/*
 * How each form of a container is asked for an NVIDIA GPU: toolkit, CDI, hook, flags, or its parts.
 */
#include <string.h>

#include "base/json.h"
#include "container/ask.h"
#include "container/internal.h"

/* Docker Desktop on Windows brings it along. */
static bool has_toolkit(const struct container_work *w)
{
    const struct host_engines *x = &w->q->host->engines;
    return x->toolkit.program.state == HOST_YES || x->desktop_of_windows.state == HOST_YES;
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

void container_work_note_unknown(struct container_work *w)
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
    container_add_capabilities(w);
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
    container_repair_engine(w);
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
    container_repair_engine(w);
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
    container_add_capabilities(w);
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

void container_allow(struct container_work *w, const char *path)
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
        container_add_capabilities(w);
        count_from_zero(w);
    }
}

void container_use_nvidia(struct container_work *w)
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
