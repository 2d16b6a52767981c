/* Needs as JSON, as sentences and as the expressions of those who decide. */
#include <string.h>

#include "base/json.h"
#include "base/out.h"
#include "base/str.h"
#include "needs/internal.h"

#define LABEL "feature.node.kubernetes.io/gpumend-"

/* ------------------------------------------------------------------ JSON */

static json_t *amount(struct arena *a, json_t *value, const char *from)
{
    json_t *o = json_object();
    json_put(o, "value", value);
    json_put(o, "from", out_json_text(a, from));
    return o;
}

static const char *const by_names[] = {[GPU_SERVES_ABSENT] = "none",
                                       [GPU_SERVES_NATIVE] = "native",
                                       [GPU_SERVES_JIT] = "ptx",
                                       [GPU_SERVES_NONE] = "none",
                                       [GPU_SERVES_UNKNOWN] = "unknown"};

static json_t *ranges_json(struct arena *a, const struct needs *n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n->cuda.n; i++) {
        const struct needs_range *r = &n->cuda.items[i];
        json_t *o = json_object();
        json_put(o, "from", out_json_text(a, needs_capability(a, r->from)));
        json_put(o, "to",
                 needs_range_is_open(r) ? json_null()
                                        : out_json_text(a, needs_capability(a, r->to)));
        json_put(o, "by", json_string(by_names[r->by]));
        json_put(o, "driver_min", out_json_text(a, r->driver_min));
        json_add(list, o);
    }
    return list;
}

static json_t *driver_json(struct arena *a, const struct needs *n)
{
    if (!n->driver) {
        return json_null();
    }
    json_t *o = json_object();
    json_put(o, "min", out_json_text(a, n->driver->linux_min));
    json_put(o, "rule",
             json_string(n->driver->kind == KB_DRIVER_MINOR ? "minor-version-compatibility"
                                                            : "toolkit-driver"));
    json_put(o, "row", out_json_text(a, n->driver->id));
    json_put(o, "from", out_json_text(a, n->driver_from));
    json_put(o, "own_libcuda", json_boolean(n->own_libcuda));
    return o;
}

static json_t *memory_json(struct arena *a, const struct needs_memory *m)
{
    if (!m->model) {
        return json_null();
    }
    bool known = m->need.bytes > 0;
    json_t *o = json_object();
    json_put(o, "model", out_json_text(a, m->model));
    json_put(o, "with", out_json_text(a, m->app));
    json_put(o, "bytes", known ? json_integer((json_int_t)m->need.bytes) : json_null());
    json_put(o, "compute", out_json_text(a, known ? choose_compute_name(m->compute) : NULL));
    json_put(o, "how", json_string(choose_memory_name(m->need.how)));
    json_put(o, "row", out_json_text(a, m->need.row));
    return o;
}

json_t *needs_json(struct arena *a, const struct needs *n)
{
    json_t *doc = json_object();
    json_put(doc, "nvidia", out_json_text(a, n->nvidia ? n->nvidia_who : NULL));
    json_put(doc, "amd", out_json_text(a, n->amd ? n->amd_who : NULL));
    json_put(doc, "driver", driver_json(a, n));
    json_put(doc, "compute_capabilities", n->cuda_known ? ranges_json(a, n) : json_null());
    json_put(doc, "gfx", n->gfx_known ? out_json_texts(a, n->gfx.items, n->gfx.n) : json_null());
    json_put(doc, "glibc",
             n->glibc_minor ? amount(a, out_json_text(a, arena_printf(a, "2.%d", n->glibc_minor)),
                                     n->glibc_from)
                            : json_null());
    json_put(doc, "cpu_level",
             n->cpu_level ? amount(a, out_json_text(a, arena_printf(a, "x86-64-v%d", n->cpu_level)),
                                   n->cpu_from)
                          : json_null());
    json_put(doc, "page_size_max",
             n->page_size_max ? amount(a, json_integer(n->page_size_max), n->page_from)
                              : json_null());
    json_put(doc, "machine", out_json_text(a, n->machine));
    json_put(doc, "memory", memory_json(a, &n->memory));
    json_put(doc, "unknown", out_json_texts(a, n->unknown.items, n->unknown.n));
    return doc;
}

/* ------------------------------------------------------------------ sentences */

static const char *range_text(struct arena *a, const struct needs_range *r)
{
    const char *from = needs_capability(a, r->from), *to = needs_capability(a, r->to);
    const char *span = r->from == r->to         ? from
                       : needs_range_is_open(r) ? arena_printf(a, "%s and newer", from)
                                                : arena_printf(a, "%s to %s", from, to);
    return r->by == GPU_SERVES_NATIVE    ? span
           : r->by == GPU_SERVES_UNKNOWN ? arena_printf(a, "%s (not promised)", span)
           : r->driver_min ? arena_printf(a, "%s (PTX, driver %s)", span, r->driver_min)
                           : arena_printf(a, "%s (PTX)", span);
}

void needs_sentences(struct arena *a, const struct needs *n, diag_texts *ret)
{
    const char *text = "";
    if (n->nvidia) {
        VEC_PUSH(a, ret, arena_printf(a, "GPU       NVIDIA (asked for by %s)", n->nvidia_who));
    }
    if (n->amd) {
        VEC_PUSH(a, ret, arena_printf(a, "GPU       AMD (asked for by %s)", n->amd_who));
    }
    if (n->driver) {
        VEC_PUSH(a, ret,
                 arena_printf(a, "driver    %s or newer (%s; %s)", n->driver->linux_min,
                              n->driver->title, n->driver_from));
    }
    for (size_t i = 0; n->cuda_known && i < n->cuda.n; i++) {
        text = arena_printf(a, "%s%s%s", text, i ? ", " : "", range_text(a, &n->cuda.items[i]));
    }
    if (n->cuda_known) {
        VEC_PUSH(a, ret, arena_printf(a, "compute   %s", n->cuda.n ? text : "no GPU is served"));
    }
    text = "";
    for (size_t i = 0; n->gfx_known && i < n->gfx.n; i++) {
        text = arena_printf(a, "%s%s%s", text, i ? " " : "", n->gfx.items[i]);
    }
    if (n->gfx_known) {
        VEC_PUSH(a, ret, arena_printf(a, "gfx       %s", n->gfx.n ? text : "no GPU is served"));
    }
    if (n->glibc_minor) {
        VEC_PUSH(a, ret,
                 arena_printf(a, "glibc     2.%d or newer (%s)", n->glibc_minor, n->glibc_from));
    }
    if (n->cpu_level) {
        VEC_PUSH(a, ret, arena_printf(a, "CPU       x86-64-v%d (%s)", n->cpu_level, n->cpu_from));
    }
    if (n->page_size_max) {
        VEC_PUSH(
            a, ret,
            arena_printf(a, "pages     of at most %u bytes (%s)", n->page_size_max, n->page_from));
    }
    if (n->memory.need.bytes) {
        VEC_PUSH(a, ret,
                 arena_printf(a, "memory    %s of a GPU (%s with %s in %s, %s)",
                              choose_gib(a, n->memory.need.bytes), n->memory.model, n->memory.app,
                              choose_compute_name(n->memory.compute),
                              choose_memory_name(n->memory.need.how)));
    }
    for (size_t i = 0; i < n->unknown.n; i++) {
        VEC_PUSH(a, ret, arena_printf(a, "unknown   %s", n->unknown.items[i]));
    }
}

/* ------------------------------------------------------------------ forms */

static const char *const form_names[] = {[NEEDS_NFD] = "nfd",
                                         [NEEDS_CEL] = "cel",
                                         [NEEDS_REQUIRE_CUDA] = "require-cuda",
                                         [NEEDS_SLURM] = "slurm",
                                         [NEEDS_SLURM_EXTRA] = "slurm-extra",
                                         [NEEDS_WHEEL_VARIANT] = "wheel-variant"};

enum needs_form needs_form_of(const char *name)
{
    for (int i = 0; i < NEEDS_FORMS; i++) {
        if (strcmp(form_names[i], name) == 0) {
            return (enum needs_form)i;
        }
    }
    return NEEDS_FORMS;
}

const char *needs_form_name(enum needs_form form)
{
    return form_names[form];
}

static const char *expression(struct arena *a, const char *key, const char *op, const char *values)
{
    return arena_printf(a, "  - {key: " LABEL "%s, operator: %s%s}\n", key, op,
                        *values ? arena_printf(a, ", values: [%s]", values) : "");
}

static const char *above(struct arena *a, const char *key, unsigned long long least)
{
    return expression(a, key, "Gt", arena_printf(a, "\"%llu\"", least - 1));
}

/* What every term has: of the processor and the C library. */
static const char *common_nfd(struct arena *a, const struct needs *n)
{
    const char *text = n->glibc_minor ? above(a, "glibc-minor", (unsigned)n->glibc_minor) : "";
    const char *levels = "";
    for (int level = n->cpu_level; n->cpu_level && level <= 4; level++) {
        levels = arena_printf(a, "%s%sx86-64-v%d", levels, *levels ? ", " : "", level);
    }
    return *levels ? arena_printf(a, "%s%s", text, expression(a, "cpu-level", "In", levels)) : text;
}

static const char *term(struct arena *a, const char *expressions)
{
    return arena_printf(a, "- matchExpressions:\n%s", expressions);
}

/* Nodes about which the labels cannot decide: node/formats.c. */
static const char *open_term(struct arena *a, const char *key, const char *common)
{
    return term(a, arena_printf(a, "%s%s", common, expression(a, key, "Exists", "")));
}

static const char *nvidia_nfd(struct arena *a, const struct needs *n, const char *common)
{
    const char *text = "";
    needs_ranges ranges = needs_ranges_for(a, n);
    for (size_t i = 0; i < ranges.n; i++) {
        const struct needs_range *r = &ranges.items[i];
        const char *driver = needs_driver_for(n, r), *one = common;
        one = arena_printf(a, "%s%s", one,
                           driver ? above(a, "driver-number", needs_driver_number(driver))
                                  : expression(a, "driver", "Exists", ""));
        if (r->from) {
            one = arena_printf(a, "%s%s", one, above(a, "compute", r->from));
        }
        if (!needs_range_is_open(r)) {
            one =
                arena_printf(a, "%s%s", one,
                             expression(a, "compute", "Lt", arena_printf(a, "\"%u\"", r->to + 1)));
        }
        text = arena_printf(a, "%s%s", text, term(a, one));
    }
    return arena_printf(a, "%s%s", text, open_term(a, "nvidia-open", common));
}

static const char *amd_nfd(struct arena *a, const struct needs *n, const char *common)
{
    const char *text = "";
    for (size_t i = 0; i < n->gfx.n; i++) {
        const char *key = arena_printf(a, "gfx.%s", n->gfx.items[i]);
        text = arena_printf(
            a, "%s%s", text,
            term(a, arena_printf(a, "%s%s", common, expression(a, key, "Exists", ""))));
    }
    return arena_printf(a, "%s%s", text, open_term(a, "amd-open", common));
}

/* Terms are alternatives, the expressions of one hold together (Kubernetes, NodeSelectorTerm). */
static const char *nfd_form(struct arena *a, const struct needs *n, const char **ret_why)
{
    const char *common = common_nfd(a, n), *text = "";
    if ((*ret_why = needs_no_expression(n))) {
        return NULL;
    }
    for (int i = 0; i < needs_memory_cases(n); i++) {
        const char *memory = !needs_memory_mib(n) ? ""
                             : i == 0             ? above(a, "memory-mib", needs_memory_mib(n))
                                                  : expression(a, "memory-open", "Exists", "");
        const char *all = arena_printf(a, "%s%s", common, memory);
        text = arena_printf(a, "%s%s%s", text, n->nvidia ? nvidia_nfd(a, n, all) : "",
                            n->amd ? amd_nfd(a, n, all) : "");
    }
    text = *text ? text : *common ? term(a, common) : "";
    if (!*text) {
        *ret_why = "the target needs nothing of a node that labels tell";
        return NULL;
    }
    return text;
}

/* "525.60.13" as a semantic version, which has three numbers without leading zeros: as NVIDIA's
 * driver publishes 580.105.08, 580.105.8. */
static const char *semver(struct arena *a, const char *version)
{
    uint64_t part[3] = {0};
    size_t n = 0;
    for (struct str rest = str_of(version); rest.s && n < 3; n++) {
        (void)str_u64(str_cut(&rest, '.'), &part[n]); // rows of the knowledge base are numbers
    }
    return arena_printf(a, "semver(\"%llu.%llu.%llu\")", (unsigned long long)part[0],
                        (unsigned long long)part[1], (unsigned long long)part[2]);
}

#define ATTRIBUTE "device.attributes[\"gpu.nvidia.com\"]."
/* kubernetes-sigs/dra-driver-nvidia-gpu publishes the memory of a GPU, and of a MIG device, in
 * bytes (cmd/gpu-kubelet-plugin/deviceinfo.go). */
#define CAPACITY "device.capacity[\"gpu.nvidia.com\"]."

static const char *cel_range(struct arena *a, const struct needs *n, const struct needs_range *r)
{
    const char *text = "", *driver = needs_driver_for(n, r);
    if (driver) {
        text = arena_printf(a, ATTRIBUTE "driverVersion.compareTo(%s) >= 0", semver(a, driver));
    }
    if (r) {
        text = arena_printf(a,
                            "%s%s" ATTRIBUTE "cudaComputeCapability.compareTo(semver(\"%s.0\")) "
                            ">= 0",
                            text, *text ? " && " : "", needs_capability(a, r->from));
    }
    if (r && !needs_range_is_open(r)) {
        text = arena_printf(a,
                            "%s && " ATTRIBUTE "cudaComputeCapability.compareTo(semver(\"%s.0\"))"
                            " <= 0",
                            text, needs_capability(a, r->to));
    }
    return text;
}

static const char *only_nvidia(const struct needs *n)
{
    return !n->nvidia                        ? "the target does not ask for a GPU of NVIDIA's"
           : n->cuda_known && n->cuda.n == 0 ? "the target has code for no GPU"
                                             : NULL;
}

static const char *cel_form(struct arena *a, const struct needs *n, const char **ret_why)
{
    const char *text = "";
    needs_ranges ranges = needs_ranges_for(a, n);
    *ret_why = only_nvidia(n);
    for (size_t i = 0; i < ranges.n && !*ret_why; i++) {
        const char *one = cel_range(a, n, &ranges.items[i]);
        if (*one) {
            text = arena_printf(a, "%s%s(%s)", text, *text ? " || " : "", one);
        }
    }
    const char *memory =
        needs_memory_mib(n)
            ? arena_printf(a, " && " CAPACITY "memory.compareTo(quantity(\"%lluMi\")) >= 0",
                           needs_memory_mib(n))
            : "";
    return *ret_why ? NULL
           : *text
               ? arena_printf(a, "device.driver == \"gpu.nvidia.com\"%s && (%s)\n", memory, text)
               : arena_printf(a, "device.driver == \"gpu.nvidia.com\"%s\n", memory);
}

/* Blanks are "or", commas "and" (libnvidia-container, src/dsl.c). */
static const char *require_form(struct arena *a, const struct needs *n, const char **ret_why)
{
    const char *text = "";
    needs_ranges ranges = needs_ranges_for(a, n);
    *ret_why = only_nvidia(n);
    for (size_t i = 0; i < ranges.n && !*ret_why; i++) {
        const struct needs_range *r = &ranges.items[i];
        const char *driver = needs_driver_for(n, r), *one = "";
        one = driver ? arena_printf(a, "driver>=%s", driver) : one;
        one =
            r ? arena_printf(a, "%s%sarch>=%s", one, *one ? "," : "", needs_capability(a, r->from))
              : one;
        one = !needs_range_is_open(r)
                  ? arena_printf(a, "%s,arch<=%s", one, needs_capability(a, r->to))
                  : one;
        text = arena_printf(a, "%s%s%s", text, *text ? " " : "", one);
    }
    if (!*ret_why && !*text) {
        *ret_why = "the target needs nothing of a node that this variable can say";
    }
    return *ret_why ? NULL : arena_printf(a, "%s\n", text);
}

const char *needs_expression(struct arena *a, const struct needs *n, enum needs_form form,
                             const char **ret_why)
{
    switch (form) {
    case NEEDS_NFD: return nfd_form(a, n, ret_why);
    case NEEDS_CEL: return cel_form(a, n, ret_why);
    case NEEDS_REQUIRE_CUDA: return require_form(a, n, ret_why);
    case NEEDS_SLURM: return needs_slurm_constraint(a, n, ret_why);
    case NEEDS_SLURM_EXTRA: return needs_slurm_extra(a, n, ret_why);
    case NEEDS_WHEEL_VARIANT: return needs_wheel_variant(a, n, ret_why);
    case NEEDS_FORMS: break;
    }
    *ret_why = "there is no such form";
    return NULL;
}
