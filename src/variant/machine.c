#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "kb/serves.h"
#include "variant/variant.h"

/* Ranges of nvidia-variant-provider (UMD_MAJOR_RANGE, UMD_MINOR_RANGE). */
enum { MAJOR_FIRST = 11, MAJOR_LAST = 15, MINOR_LAST = 20, LEVEL_LAST = 4, SM_MAJOR_FIRST = 5 };

/* ------------------------------------------------------------------ nvidia */

static void push_minors(struct arena *a, unsigned major, unsigned from, unsigned to,
                        variant_texts *ret)
{
    for (unsigned minor = from + 1; minor-- > to;) {
        VEC_PUSH(a, ret, arena_printf(a, "%u.%u", major, minor));
    }
}

void variant_nvidia(struct arena *a, unsigned cuda_major, unsigned cuda_minor, unsigned sm_major,
                    unsigned sm_minor, variant_features *ret)
{
    struct variant_feature lower = {.ns = "nvidia", .name = "cuda_version_lower_bound"};
    struct variant_feature upper = {.ns = "nvidia", .name = "cuda_version_upper_bound"};
    struct variant_feature sm = {.ns = "nvidia", .name = "sm_arch"};
    for (unsigned major = cuda_major; major >= MAJOR_FIRST; major--) {
        push_minors(a, major, major == cuda_major ? cuda_minor : MINOR_LAST, 0, &lower.values);
        VEC_PUSH(a, &lower.values, arena_printf(a, "%u", major));
    }
    // Bounds are exclusive: the driver's own major version alone is none of them.
    for (unsigned major = MAJOR_LAST; major >= cuda_major && major; major--) {
        if (major > cuda_major) {
            push_minors(a, major, MINOR_LAST, 0, &upper.values);
            VEC_PUSH(a, &upper.values, arena_printf(a, "%u", major));
        } else if (cuda_minor < MINOR_LAST) {
            push_minors(a, major, MINOR_LAST, cuda_minor + 1, &upper.values);
        }
    }
    for (unsigned minor = sm_minor + 1; sm_major >= SM_MAJOR_FIRST && minor-- > 0;) {
        VEC_PUSH(a, &sm.values, arena_printf(a, "%u%u_real", sm_major, minor));
    }
    if (sm.values.n) {
        VEC_PUSH(a, &sm.values, arena_printf(a, "%u0_virtual", sm_major));
    }
    const struct variant_feature *const all[] = {&lower, &upper, &sm};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i]->values.n) {
            VEC_PUSH(a, ret, *all[i]);
        }
    }
}

/* "12.4" and "12.4.1" */
static bool two_numbers(const char *text, unsigned *ret_major, unsigned *ret_minor)
{
    uint64_t major = 0, minor = 0;
    struct str rest = str_of(text ? text : ""), head = str_cut(&rest, '.');
    if (!rest.s || !str_u64(head, &major) || !str_u64(str_cut(&rest, '.'), &minor) || major > 99 ||
        minor > 99) {
        return false;
    }
    *ret_major = (unsigned)major;
    *ret_minor = (unsigned)minor;
    return true;
}

/* The version that the driver's libcuda is of: what it says itself, else that of the newest toolkit
 * that came with such a driver. */
static const char *cuda_of(struct arena *a, const struct host *h, struct kb *kb,
                           const char **ret_why)
{
    struct kb_drivers drivers;
    struct gm_err err;
    if (h->nvidia.libcuda_compat.has_note && h->nvidia.libcuda_compat.cuda) {
        return h->nvidia.libcuda_compat.cuda;
    }
    const char *version =
        h->nvidia.versions_match.value ? h->nvidia.versions_match.value : h->nvidia.module.value;
    if (!version || host_has_tegra_alone(h)) {
        *ret_why = "the version of the NVIDIA driver is unknown";
        return NULL;
    }
    if (kb_drivers(kb, &drivers, &err) < 0) {
        *ret_why = arena_strdup(a, err.text);
        return NULL;
    }
    const struct kb_driver *toolkit = kb_newest_cuda(&drivers, version);
    if (!toolkit || kb_driver_may_exceed(&drivers, version, toolkit)) {
        *ret_why = arena_printf(a, "the CUDA of driver %s is unknown", version);
        return NULL;
    }
    return toolkit->cuda;
}

/* The highest or the lowest of the NVIDIA GPUs; false where one is not known. */
static bool extreme(const struct host *h, bool lowest, unsigned *ret_major, unsigned *ret_minor)
{
    *ret_major = *ret_minor = 0;
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        unsigned major = 0, minor = 0;
        if (g->vendor != HOST_NVIDIA) {
            continue;
        }
        if (!two_numbers(g->compute_capability.value, &major, &minor)) {
            return false;
        }
        bool above = major > *ret_major || (major == *ret_major && minor > *ret_minor);
        if (!*ret_major || above != lowest) {
            *ret_major = major;
            *ret_minor = minor;
        }
    }
    return *ret_major > 0;
}

static bool has_nvidia(const struct host *h)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        if (h->gpus.items[i].vendor == HOST_NVIDIA) {
            return true;
        }
    }
    return false;
}

static bool has_library(const struct host *h, const char *name)
{
    for (size_t i = 0; i < h->nvidia.libraries.n; i++) {
        if (strcmp(h->nvidia.libraries.items[i].name, name) == 0 &&
            h->nvidia.libraries.items[i].path) {
            return true;
        }
    }
    return h->wsl.is_wsl.state == HOST_YES && h->wsl.driver.state == HOST_YES;
}

/* Why the provider, which asks NVML, finds nothing; NULL: it finds something. */
static const char *nothing_of(const struct host *h)
{
    return !has_nvidia(h)                         ? "there is no NVIDIA GPU"
           : !has_library(h, "libnvidia-ml.so.1") ? "libnvidia-ml.so.1 is missing, and the "
                                                    "provider finds GPUs through it"
           : h->nvidia.versions_match.state == HOST_NO
               ? "the NVIDIA driver's library and its module differ in version, and NVML does not "
                 "answer"
               : NULL;
}

static struct variant_namespace nvidia_of(struct arena *a, const struct host *h, struct kb *kb)
{
    struct variant_namespace ret = {.name = "nvidia", .state = HOST_NO, .why = nothing_of(h)};
    unsigned major = 0, minor = 0, sm_major = 0, sm_minor = 0;
    if (!has_nvidia(h) && (h->pci.state == HOST_UNKNOWN || h->wsl.is_wsl.state == HOST_YES)) {
        ret.state = HOST_UNKNOWN;
        ret.why = "whether there is an NVIDIA GPU is unknown";
        return ret;
    }
    if (ret.why) {
        return ret;
    }
    if (!two_numbers(cuda_of(a, h, kb, &ret.why), &major, &minor)) {
        ret.state = HOST_UNKNOWN;
        ret.why = ret.why ? ret.why : "the CUDA of the NVIDIA driver is unknown";
        return ret;
    }
    ret.state = HOST_YES;
    if (extreme(h, false, &sm_major, &sm_minor)) {
        variant_nvidia(a, major, minor, sm_major, sm_minor, &ret.features);
        return ret;
    }
    variant_nvidia(a, major, minor, 0, 0, &ret.features);
    VEC_PUSH(a, &ret.features,
             (struct variant_feature){.ns = "nvidia",
                                      .name = "sm_arch",
                                      .why = "the compute capability of a GPU is unknown"});
    return ret;
}

void variant_conda(struct arena *a, const struct host *h, struct kb *kb, struct variant_conda *ret)
{
    unsigned major = 0, minor = 0;
    *ret = (struct variant_conda){0};
    if (!has_nvidia(h)) {
        ret->cuda_why = h->pci.state == HOST_UNKNOWN || h->wsl.is_wsl.state == HOST_YES
                            ? "whether there is an NVIDIA GPU is unknown"
                            : NULL;
        ret->arch_why = ret->cuda_why;
        return;
    }
    if (two_numbers(cuda_of(a, h, kb, &ret->cuda_why), &major, &minor)) {
        ret->cuda = arena_printf(a, "%u.%u", major, minor);
    }
    if (extreme(h, true, &major, &minor)) {
        ret->arch = arena_printf(a, "%u.%u", major, minor);
    } else {
        ret->arch_why = "the compute capability of a GPU is unknown";
    }
}

/* ------------------------------------------------------------------ processors */

/* "level" is all of its features that is known. */
static struct variant_namespace x86_of(struct arena *a, const struct host *h)
{
    struct variant_namespace ret = {.name = "x86_64", .state = HOST_YES};
    struct variant_feature level = {.ns = "x86_64", .name = "level"};
    const struct host_fact *isa = &h->cpu.isa;
    if (isa->state != HOST_YES || !isa->value) {
        ret.state = HOST_UNKNOWN;
        ret.why = "the level of the processor is unknown";
        return ret;
    }
    if (!starts_with(isa->value, "x86-64")) {
        ret.state = HOST_NO;
        ret.why = "the processor is not an x86-64";
        return ret;
    }
    for (uint64_t n = isa->number < LEVEL_LAST ? isa->number : LEVEL_LAST; n > 0; n--) {
        VEC_PUSH(a, &level.values, arena_printf(a, "v%llu", (unsigned long long)n));
    }
    VEC_PUSH(a, &ret.features, level);
    return ret;
}

void variant_machine(struct arena *a, const struct host *h, struct kb *kb,
                     struct variant_machine *ret)
{
    *ret = (struct variant_machine){0};
    VEC_PUSH(a, &ret->namespaces, nvidia_of(a, h, kb));
    VEC_PUSH(a, &ret->namespaces, x86_of(a, h));
}

/* ------------------------------------------------------------------ several machines */

const struct variant_namespace *variant_namespace_of(const struct variant_machine *m,
                                                     const char *name)
{
    for (size_t i = 0; i < m->namespaces.n; i++) {
        if (strcmp(m->namespaces.items[i].name, name) == 0) {
            return &m->namespaces.items[i];
        }
    }
    return NULL;
}

static const struct variant_feature *feature_of(const variant_features *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i].name, name) == 0) {
            return &list->items[i];
        }
    }
    return NULL;
}

static bool has_text(const variant_texts *list, const char *text)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static void keep_common(struct arena *a, struct variant_feature *f,
                        const struct variant_feature *other, const char *machine)
{
    variant_texts kept = {0};
    if (other && other->why && !f->why) {
        f->why = arena_printf(a, "%s: %s", machine, other->why);
    }
    for (size_t i = 0; i < f->values.n; i++) {
        if (other && has_text(&other->values, f->values.items[i])) {
            VEC_PUSH(a, &kept, f->values.items[i]);
        }
    }
    f->values = kept;
}

/* Nothing where one machine has nothing; unknown where one is unknown and none has nothing. */
static void keep_namespace(struct arena *a, struct variant_namespace *ns,
                           const struct variant_namespace *other, const char *machine)
{
    variant_features kept = {0};
    if (!other || other->state == HOST_NO ||
        (other->state == HOST_UNKNOWN && ns->state != HOST_NO)) {
        ns->state = other ? other->state : HOST_NO;
        ns->why = arena_printf(a, "%s: %s", machine, other ? other->why : "it has none");
        ns->features = (variant_features){0};
    }
    if (ns->state != HOST_YES) {
        return;
    }
    for (size_t i = 0; i < ns->features.n; i++) {
        struct variant_feature f = ns->features.items[i];
        keep_common(a, &f, feature_of(&other->features, f.name), machine);
        if (f.values.n || f.why) {
            VEC_PUSH(a, &kept, f);
        }
    }
    ns->features = kept;
}

static const char *named(struct arena *a, const char *machine, const char *why)
{
    return why ? arena_printf(a, "%s: %s", machine, why) : NULL;
}

void variant_least(struct arena *a, const struct variant_machine *machines,
                   const char *const *names, size_t n, struct variant_machine *ret)
{
    *ret = (struct variant_machine){0};
    for (size_t k = 0; n && k < machines[0].namespaces.n; k++) {
        struct variant_namespace ns = machines[0].namespaces.items[k];
        variant_features own = {0};
        ns.why = named(a, names[0], ns.why);
        for (size_t i = 0; i < ns.features.n; i++) {
            struct variant_feature f = ns.features.items[i];
            f.why = named(a, names[0], f.why);
            VEC_PUSH(a, &own, f);
        }
        ns.features = own;
        for (size_t i = 1; i < n; i++) {
            keep_namespace(a, &ns, variant_namespace_of(&machines[i], ns.name), names[i]);
        }
        VEC_PUSH(a, &ret->namespaces, ns);
    }
}

/* ------------------------------------------------------------------ as static lists */

/* The draft that uv 0.13 reads (its preview feature wheel-variants). */
#define SCHEMA "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"

static json_t *texts_json(const variant_texts *list)
{
    json_t *array = json_array();
    for (size_t i = 0; i < list->n; i++) {
        json_add(array, json_string(list->items[i]));
    }
    return array;
}

json_t *variant_static(const struct variant_machine *m)
{
    json_t *doc = json_object(), *priorities = json_object(), *providers = json_object();
    json_t *namespaces = json_array();
    for (size_t i = 0; i < m->namespaces.n; i++) {
        const struct variant_namespace *ns = &m->namespaces.items[i];
        json_t *features = json_object(), *names = json_array(), *provider = json_object();
        for (size_t k = 0; k < ns->features.n; k++) {
            const struct variant_feature *f = &ns->features.items[k];
            if (!f->why) {
                json_put(features, f->name, texts_json(&f->values));
                json_add(names, json_string(f->name));
            }
        }
        if (json_array_size(names) == 0) { // a provider must have features
            json_decref(names);
            json_decref(features);
            json_decref(provider);
            continue;
        }
        json_add(namespaces, json_string(ns->name));
        json_put(provider, "feature-order", names); // features in JSON have no order
        json_put(provider, "static-properties", features);
        json_put(providers, ns->name, provider);
    }
    json_put(priorities, "namespace", namespaces);
    json_put(doc, "$schema", json_string(SCHEMA));
    json_put(doc, "default-priorities", priorities);
    json_put(doc, "providers", providers);
    json_put(doc, "variants", json_object());
    return doc;
}
