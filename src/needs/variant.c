/*
 * Needs as wheel variant properties: a preview, as the drafts are. "namespace :: feature :: value",
 * in the JSON of PEP 825 (Wheel Variants: Package Format), whose version its $schema names. Each
 * variant is an alternative; a variant fits a machine where, for each of its features, one of the
 * values is among those that the namespace's provider reports there (PEP 825, and
 * variantlib/resolver/filtering.py).
 *
 * What the providers report, by their code of 2026-01 (wheelnext/nvidia-variant-provider,
 * nvidia_variant_provider/plugin.py), 2025-10 (wheelnext/amd-variant-provider) and 2025-06
 * (wheelnext/provider-variant-x86-64):
 *
 *   nvidia :: cuda_version_lower_bound   each CUDA version from 11 up to that of the driver
 *   nvidia :: sm_arch                    of the GPU 8.9: 89_real, 88_real, ... 80_real, and
 *                                        80_virtual; of the largest compute capability alone,
 *                                        and nothing below 5.0
 *   amd    :: gfx_arch                   the targets of the GPUs
 *   x86_64 :: level                      v1 up to that of the processor
 *
 * The drafts have no word for code of one architecture alone (sm_90a, sm_100f), for a range of PTX
 * that begins inside a major version, for the C library, page size and memory: these exclude
 * nothing here.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/out.h"
#include "base/str.h"
#include "needs/internal.h"

#define SCHEMA "https://variants-schema.wheelnext.dev/peps/825/v0.1.0.json"

enum { CUDA_MAJOR_MIN = 11 }; // the provider reports none below

/* "12.8" of "12.8.0"; "12" of "12"; "11" for what is older. */
static const char *lower_bound(struct arena *a, const char *cuda)
{
    struct str rest = str_of(cuda ? cuda : ""), major = str_cut(&rest, '.');
    struct str minor = rest.s ? str_cut(&rest, '.') : (struct str){0};
    uint64_t number = 0, part = 0;
    if (!str_u64(major, &number) || number < CUDA_MAJOR_MIN) {
        return arena_printf(a, "%d", CUDA_MAJOR_MIN);
    }
    return minor.n && str_u64(minor, &part)
               ? arena_printf(a, "%llu.%llu", (unsigned long long)number, (unsigned long long)part)
               : arena_printf(a, "%llu", (unsigned long long)number);
}

/* The CUDA whose driver a range needs: the runtime's, or that of its PTX. */
static const char *cuda_for(const struct needs *n, const struct needs_range *r)
{
    const char *driver = needs_driver_for(n, r);
    return !driver                                       ? NULL
           : r && driver == r->driver_min                ? r->cuda_min
           : n->driver && driver == n->driver->linux_min ? n->driver->cuda
                                                         : NULL;
}

/* Whether the list has code of this major version: it is for every later minor version, too. */
static bool has_major(struct arena *a, const json_t *list, unsigned major, const char *kind)
{
    for (unsigned minor = 0; minor < 10; minor++) {
        const char *text = arena_printf(a, "%u%u_%s", major, minor, kind);
        for (size_t i = 0; i < json_array_size(list); i++) {
            if (strcmp(json_string_value(json_array_get(list, i)), text) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* One value for each major version of the range: where its code begins. */
static void add_archs(struct arena *a, json_t *list, const struct needs_range *r)
{
    const char *kind = r->by == GPU_SERVES_JIT ? "virtual" : "real";
    for (unsigned major = r->from / 10; major <= r->to / 10; major++) {
        bool is_first = major == r->from / 10 && r->by != GPU_SERVES_JIT;
        if (!has_major(a, list, major, kind)) {
            json_add(list, json_string(arena_printf(a, "%u%u_%s", major,
                                                    is_first ? r->from % 10 : 0, kind)));
        }
    }
}

static json_t *list_of_one(const char *text)
{
    json_t *list = json_array();
    json_add(list, json_string(text));
    return list;
}

/* What every variant has. */
static json_t *variant_for(struct arena *a, const struct needs *n)
{
    json_t *variant = json_object(), *cpu = json_object();
    bool x86 = n->cpu_level && n->machine && strcmp(n->machine, "x86-64") == 0;
    if (x86) {
        json_put(cpu, "level", list_of_one(arena_printf(a, "v%d", n->cpu_level)));
        json_put(variant, "x86_64", cpu);
    } else {
        json_decref(cpu);
    }
    return variant;
}

/* A variant for each driver that ranges need: "cuda12.8" has what is served from that on. */
static void put_nvidia(struct arena *a, const struct needs *n, json_t *variants)
{
    for (size_t i = 0; i < (n->cuda_known ? n->cuda.n : 1); i++) {
        const struct needs_range *r = n->cuda_known ? &n->cuda.items[i] : NULL;
        const char *bound = lower_bound(a, cuda_for(n, r));
        const char *label = arena_printf(a, "cuda%s", bound);
        json_t *there = json_object_get(variants, label);
        if (!there) {
            json_t *nvidia = json_object();
            json_put(nvidia, "cuda_version_lower_bound", list_of_one(bound));
            there = variant_for(a, n);
            json_put(there, "nvidia", nvidia);
            json_put(variants, label, there);
        }
        if (r) {
            json_t *nvidia = json_object_get(there, "nvidia");
            if (!json_object_get(nvidia, "sm_arch")) {
                json_put(nvidia, "sm_arch", json_array());
            }
            add_archs(a, json_object_get(nvidia, "sm_arch"), r);
        }
    }
}

static void put_amd(struct arena *a, const struct needs *n, json_t *variants)
{
    json_t *variant = variant_for(a, n), *amd = json_object(), *list = json_array();
    for (size_t i = 0; i < n->gfx.n; i++) {
        json_add(list, json_string(n->gfx.items[i]));
    }
    json_put(amd, "gfx_arch", list);
    json_put(variant, "amd", amd);
    json_put(variants, "rocm", variant);
}

static json_t *priorities(json_t *variants)
{
    static const char *const names[] = {"nvidia", "amd", "x86_64"};
    json_t *o = json_object(), *list = json_array();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *label;
        json_t *variant;
        bool used = false;
        json_object_foreach(variants, label, variant)
        {
            used |= json_object_get(variant, names[i]) != NULL;
        }
        if (used) {
            json_add(list, json_string(names[i]));
        }
    }
    json_put(o, "namespace", list);
    return o;
}

const char *needs_wheel_variant(struct arena *a, const struct needs *n, const char **ret_why)
{
    *ret_why = needs_no_expression(n);
    if (!*ret_why && !n->nvidia && !n->amd && !n->cpu_level) {
        *ret_why = "the target needs nothing of a node that wheel variants tell";
    }
    if (*ret_why) {
        return NULL;
    }
    json_t *doc = json_object(), *variants = json_object();
    if (n->nvidia) {
        put_nvidia(a, n, variants);
    }
    if (n->amd) {
        put_amd(a, n, variants);
    }
    if (!n->nvidia && !n->amd) {
        json_put(variants, "cpu", variant_for(a, n));
    }
    json_put(doc, "$schema", json_string(SCHEMA));
    json_put(doc, "default-priorities", priorities(variants));
    json_put(doc, "variants", variants);
    char *text = json_dumps(doc, JSON_INDENT(2));
    const char *kept = text ? arena_printf(a, "%s\n", text) : NULL;
    free(text);
    json_decref(doc);
    *ret_why = kept ? NULL : "out of memory";
    return kept;
}
