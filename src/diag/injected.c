/*
 * The parts of NVIDIA's driver that a program asks for beside libcuda: which of them a container is
 * given is said by NVIDIA_DRIVER_CAPABILITIES (the Container Toolkit's manual, "Driver
 * Capabilities"; which library is of which: libnvidia-container, src/nvc_info.c). A specification
 * of CDI brings all of them, and sets NVIDIA_VISIBLE_DEVICES=void.
 */
#include <stdlib.h>
#include <string.h>

#include "diag/internal.h"

static const struct part {
    const char *soname, *capability;
} parts[] = {
    {"libcuda.so.1", "compute"},
    {"libnvidia-opencl.so.1", "compute"},
    {"libnvidia-ml.so.1", "utility"},
    {"libnvidia-cfg.so.1", "utility"},
    {"libnvcuvid.so.1", "video"},
    {"libnvidia-encode.so.1", "video"},
    {"libnvidia-opticalflow.so.1", "video"},
    {"libvdpau_nvidia.so.1", "video"},
    {"libnvoptix.so.1", "graphics"},
    {"libEGL_nvidia.so.0", "graphics"},
    {"libGLX_nvidia.so.0", "graphics"},
    {"libnvidia-ngx.so.1", "ngx"},
};

bool diag_is_driver_part(const char *name)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(parts[i].soname, name) == 0) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ what is asked for */

/* One that its own problems leave: what keeps all of the GPU away is said of it. */
static bool host_has_gpu(const struct host *h)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        if (g->vendor == HOST_NVIDIA && strcmp(g->kind, "pci") == 0 && g->usable != HOST_NO &&
            g->driver.state == HOST_YES && g->driver.value &&
            strcmp(g->driver.value, "nvidia") == 0) {
            return true;
        }
    }
    return false;
}

static const char *by_need(const struct model_process *p, const char *library)
{
    for (size_t i = 0; p->ldso && i < p->ldso->objects.n; i++) {
        const struct ldso_object *o = p->ldso->objects.items[i];
        for (size_t k = 0; o->file && k < o->file->image.n_needs; k++) {
            if (strcmp(o->file->image.needs[k].name, library) == 0) {
                return path_base(o->path);
            }
        }
    }
    return NULL;
}

/* The attempt that a load belongs to; NULL: it is of the start itself. */
static const struct model_attempt *attempt_of(const struct model_process *p, long load)
{
    for (size_t i = 0; i < p->attempts.n; i++) {
        const struct model_attempt *at = &p->attempts.items[i];
        if (load >= 0 && (size_t)load >= at->first_load &&
            (size_t)load < at->first_load + at->n_loads) {
            return at;
        }
    }
    return NULL;
}

/* What could not be loaded for want of it is no object. */
static const char *by_request(const struct model_process *p, const char *library,
                              bool *ret_required)
{
    for (size_t i = 0; p->ldso && i < p->ldso->requests.n; i++) {
        const struct ldso_request *r = p->ldso->requests.items[i];
        if (r->kind != LDSO_NEEDED || r->outcome != LDSO_NOT_FOUND || !r->caller ||
            strcmp(r->name, library) != 0) {
            continue;
        }
        const struct model_attempt *at = attempt_of(p, r->load);
        if (!at || at->required || at->recommended) {
            *ret_required = !at || at->required;
            return path_base(r->caller->path);
        }
    }
    return NULL;
}

static const char *by_attempt(const struct model_process *p, const char *library,
                              bool *ret_required)
{
    for (size_t i = 0; i < p->attempts.n; i++) {
        const struct model_attempt *at = &p->attempts.items[i];
        bool counts = at->required || at->recommended;
        for (size_t k = 0; k < at->n_names && counts; k++) {
            if (strcmp(path_base(at->names[k]), library) == 0) {
                *ret_required = at->required;
                return at->package ? at->package : path_base(at->caller->path);
            }
        }
    }
    return NULL;
}

struct asker {
    const struct model_process *process;
    const char *who;
    bool required; // else it can do without
};

/* Who asks for the library and does not find it. */
static bool find_asker(struct diag *d, const char *library, struct asker *ret)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        bool required = true;
        if (p->ldso && ldso_find_object(p->ldso, library)) {
            continue;
        }
        const char *who = by_need(p, library);
        who = who ? who : by_request(p, library, &required);
        who = who ? who : by_attempt(p, library, &required);
        if (who) {
            *ret = (struct asker){p, who, required};
            return true;
        }
    }
    return false;
}

const char *diag_driver_capabilities(struct model *m, const char **ret_who)
{
    const char *list = NULL, *last = "";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *capability = parts[i].capability, *who = NULL;
        bool base = strcmp(capability, "compute") == 0 || strcmp(capability, "utility") == 0;
        bool required;
        for (size_t k = 0; k < m->processes.n && !who; k++) {
            const struct model_process *p = m->processes.items[k];
            who = by_need(p, parts[i].soname);
            who = who ? who : by_request(p, parts[i].soname, &required);
            who = who ? who : by_attempt(p, parts[i].soname, &required);
        }
        if (who && !base && strcmp(capability, last) != 0) {
            *ret_who = list ? *ret_who : who;
            list = arena_printf(m->arena, "%s,%s", list ? list : "", capability);
            last = capability;
        }
    }
    return list;
}

static bool lies_somewhere(struct diag *d, const char *library)
{
    struct model_library *list = NULL;
    size_t n = model_libraries(d->m, library, &list);
    for (size_t i = 0; i < n; i++) {
        if (list[i].usable && strcmp(list[i].name, library) == 0) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ what was requested */

static const char capabilities[] = "NVIDIA_DRIVER_CAPABILITIES";
static const char visible[] = "NVIDIA_VISIBLE_DEVICES";

/* Images of CUDA before there was NVIDIA_REQUIRE_CUDA get all. */
static bool is_legacy(const struct diag *d)
{
    return diag_getenv(d, "CUDA_VERSION") && !diag_getenv(d, "NVIDIA_REQUIRE_CUDA");
}

static bool is_requested(struct diag *d, const char *capability)
{
    const char *stated = host_variable(d->m->host, capabilities);
    struct str rest = str_of(stated && *stated ? stated : is_legacy(d) ? "all" : "utility,compute");
    while (rest.s && rest.n) {
        struct str word = str_trim(str_cut(&rest, ','));
        if (str_is(word, capability) || str_is(word, "all")) {
            return true;
        }
    }
    return false;
}

/* "compute,utility,video": what is stated, and all that is asked for and missing. */
static const char *complete(struct diag *d)
{
    const char *stated = host_variable(d->m->host, capabilities), *last = "";
    const char *list = stated && *stated ? stated : "compute,utility";
    struct asker who;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *capability = parts[i].capability;
        if (strcmp(capability, last) != 0 && !is_requested(d, capability) &&
            find_asker(d, parts[i].soname, &who)) {
            list = arena_printf(d->a, "%s,%s", list, capability);
            last = capability; // those of one capability stand together
        }
    }
    return list;
}

static void say_request(struct diag *d, struct diag_finding *f)
{
    const char *list = complete(d);
    const char *stated = host_variable(d->m->host, capabilities);
    if (stated && *stated) {
        diag_evidence(d, f, "%s=%s", capabilities, stated);
    } else {
        diag_evidence(d, f, "%s is not set, which means compute,utility", capabilities);
    }
    diag_repair(d, f, DIAG_REPAIR_TEXT,
                arena_printf(d->a, "docker run --gpus all -e %s=%s IMAGE", capabilities, list),
                "Start the container with %s=%s, or set it in the image (ENV).", capabilities,
                list);
}

/* ------------------------------------------------------------------ the parts */

static struct diag_finding *injected_finding(struct diag *d, enum diag_cause cause,
                                             const struct part *x, const struct asker *who,
                                             const char *summary)
{
    struct diag_finding *f = diag_add(d, cause, "driver parts", x->soname, summary);
    f->stage = DIAG_STAGE_MACHINE;
    f->severity = who->required ? DIAG_ERROR : DIAG_WARNING;
    diag_likewise(d, f, x->soname);
    diag_seen_in(d, f, who->process);
    diag_evidence(d, f, "%s asks for %s", who->who, x->soname);
    return f;
}

static void in_container(struct diag *d, const struct part *x, const struct asker *who)
{
    const struct host *h = d->m->host;
    const char *devices = host_variable(h, visible);
    bool by_cdi = devices && strcmp(devices, "void") == 0;
    bool by_toolkit = !by_cdi && strcmp(h->container.inside.value, "podman") != 0;
    bool masked = by_toolkit && h->environment.state == HOST_YES && !is_requested(d, x->capability);
    struct diag_finding *f = injected_finding(
        d, DIAG_CONTAINER_NO_LIBRARIES, x, who,
        masked ? arena_printf(d->a,
                              "The container was not given %s: the capability %s was not "
                              "asked for.",
                              x->soname, x->capability)
               : arena_printf(d->a, "The container was not given %s of the host's driver.",
                              x->soname));
    diag_evidence(d, f, "this is a container (%s)", h->container.inside.value);
    if (masked) {
        say_request(d, f);
        return;
    }
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                "See whether the host has %s: what it lacks no container is given.%s", x->soname,
                by_cdi ? " If it does, write the CDI specification again." : "");
}

static void on_machine(struct diag *d, const struct part *x, const struct asker *who)
{
    const char *version = d->m->host->nvidia.module.value;
    struct diag_finding *f = injected_finding(
        d, DIAG_DRIVER_LIBRARIES_MISSING, x, who,
        arena_printf(d->a, "%s of the NVIDIA driver is not installed.", x->soname));
    diag_repair(
        d, f, DIAG_REPAIR_TEXT, NULL,
        "Install this part of the driver in version %s (Debian and Ubuntu have a package for "
        "each).",
        version ? version : "of the module");
}

/* The toolkit would bring it, if it were asked to; specifications of CDI bring it anyway. */
static void in_image(struct diag *d, const struct part *x, const struct asker *who)
{
    if (is_requested(d, x->capability) || lies_somewhere(d, x->soname)) {
        return;
    }
    struct diag_finding *f = injected_finding(
        d, DIAG_CONTAINER_NO_LIBRARIES, x, who,
        arena_printf(d->a,
                     "A container of this image is not given %s: the capability %s is not "
                     "asked for.",
                     x->soname, x->capability));
    f->severity = DIAG_WARNING;
    say_request(d, f);
}

/* The finding about a file of that name that cannot be used; NULL: there is none. */
static struct diag_finding *damaged_part(struct diag *d, const char *library)
{
    struct model_library *list = NULL;
    struct diag_finding *f = NULL;
    size_t n = model_libraries(d->m, library, &list);
    for (size_t i = 0; i < n && !f; i++) {
        bool same = !list[i].usable && strcmp(list[i].name, library) == 0;
        f = same ? diag_find(d, DIAG_LIBRARY_UNUSABLE_FILE, path_base(list[i].path)) : NULL;
    }
    return f;
}

/* Engines mount the host's file over the one of that name, which an image that was made of such a
 * container (docker commit) keeps as an empty one. */
static void is_placeholder(struct diag *d, struct diag_finding *f, const struct part *x)
{
    diag_evidence(d, f,
                  "this is a container (%s), which gets the driver's libraries from the host: what "
                  "is mounted hides such a file",
                  d->m->host->container.inside.value);
    f->repairs.n = 0;
    if (is_requested(d, x->capability)) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Start the container with its GPU (--gpus, or by CDI), and see whether the "
                    "host has %s.",
                    x->soname);
    } else {
        say_request(d, f);
    }
}

static void judge_part(struct diag *d, const struct part *x)
{
    const struct host *h = d->m->host;
    struct asker who;
    bool cuda = strcmp(x->soname, "libcuda.so.1") == 0; // elsewhere a problem of the GPU
    if ((cuda && !d->m->host_elsewhere) || !find_asker(d, x->soname, &who)) {
        return;
    }
    struct diag_finding *damaged = damaged_part(d, x->soname);
    if (d->m->host_elsewhere) {
        in_image(d, x, &who);
    } else if (damaged && h->container.inside.state == HOST_YES) {
        is_placeholder(d, damaged, x);
    } else if (damaged || lies_somewhere(d, x->soname)) {
        return; // another fault
    } else if (h->container.inside.state == HOST_YES) {
        in_container(d, x, &who);
    } else if (h->container.inside.state == HOST_NO) {
        on_machine(d, x, &who);
    }
}

/* ------------------------------------------------------------------ what an image says and brings
 */

static void asks_for_none(struct diag *d)
{
    const char *value = host_variable(d->m->host, visible), *who = NULL;
    if (!value || (strcmp(value, "void") != 0 && strcmp(value, "none") != 0 && *value) ||
        !diag_wants(d, HOST_NVIDIA, &who) || !who) {
        return;
    }
    struct diag_finding *f =
        diag_add(d, DIAG_CONTAINER_NO_GPU, visible, visible,
                 arena_printf(d->a,
                              "The image sets %s=%s: NVIDIA's runtime gives it no GPU unless the "
                              "container's start overrides that.",
                              visible, value));
    f->severity = DIAG_NOTE;
    f->stage = DIAG_STAGE_MACHINE;
    diag_evidence(d, f, "%s would use it", who);
    diag_repair(d, f, DIAG_REPAIR_TEXT, "docker run --gpus all IMAGE",
                "Start it with --gpus, or with -e %s=all where NVIDIA's runtime is the one in use.",
                visible);
}

/* Files of the driver in the image. A root in which processes run has them from the host. */
static void has_driver(struct diag *d)
{
    static const char *const names[] = {"libcuda.so.1", "libnvidia-ml.so.1"};
    struct model_library *list = NULL;
    if (model_real_path(d->m, "/proc/version")) {
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = model_libraries(d->m, names[i], &list);
        for (size_t k = 0; k < n; k++) {
            const char *real = model_real_path(d->m, list[k].path);
            bool other = !real || strstr(real, "/compat/") || strstr(real, "/stubs/") ||
                         strcmp(list[k].name, names[i]) != 0 ||
                         strcmp(list[k].where, "system") != 0;
            if (other || diag_find(d, DIAG_CONTAINER_IMAGE_DRIVER, real)) {
                continue;
            }
            struct diag_finding *f = diag_add(
                d, DIAG_CONTAINER_IMAGE_DRIVER, "image", real,
                "The image contains libraries of NVIDIA's driver; they must be those of the host.");
            f->severity = DIAG_WARNING;
            f->stage = DIAG_STAGE_MACHINE;
            diag_evidence(d, f, "%s is in the image", list[k].path);
            diag_repair(d, f, DIAG_REPAIR_FILE, NULL,
                        "Build the image without the driver's packages, or remove the files.");
        }
    }
}

/* Files of two releases of CUDA in one image: each program may find its own, and the image is the
 * larger by one of them. */
static void two_releases(struct diag *d)
{
    struct model_library *list = NULL;
    const struct model_library *first = NULL, *other = NULL;
    size_t n = model_libraries(d->m, "libcublas.so.12", &list);
    for (size_t i = 0; i < n; i++) {
        const char *major = strstr(list[i].name, ".so.");
        if (!major || !list[i].usable || strstr(list[i].path, "/stubs/")) {
            continue;
        }
        first = first ? first : &list[i];
        other = atoi(major + 4) != atoi(strstr(first->name, ".so.") + 4) ? &list[i] : other;
    }
    if (!other) {
        return;
    }
    struct diag_finding *f = diag_add(
        d, DIAG_CUDA_TWICE, "image", other->path,
        arena_printf(d->a, "The image has the libraries of two releases of CUDA: %s and %s.",
                     first->name, other->name));
    diag_evidence(d, f, "%s%s%s", first->path, first->package ? ", of the package " : "",
                  first->package ? first->package : "");
    diag_evidence(d, f, "%s%s%s", other->path, other->package ? ", of the package " : "",
                  other->package ? other->package : "");
    diag_repair(
        d, f, DIAG_REPAIR_TEXT, NULL,
        "Use builds of all packages for one release of CUDA, where they exist, and leave the "
        "libraries of the other out of the image.");
}

void diag_rule_injected(struct diag *d)
{
    if (d->m->host_elsewhere) {
        two_releases(d);
    }
    if (!d->m->host || !host_has_gpu(d->m->host)) {
        return;
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        judge_part(d, &parts[i]);
    }
    if (d->m->host_elsewhere) {
        asks_for_none(d);
        diag_image_requires(d);
        has_driver(d);
    }
}
