/*
 * A node's facts for Slurm's own matching of jobs to nodes (src/needs/slurm.c has the expressions).
 *
 *   features  --constraint knows "this feature", "and", "or": no numbers and no "not"
 *             (sbatch(1)). So what grows is one feature for each bound that the node reaches.
 *   extra     --extra compares the members of a JSON object (Slurm's page "Extra Constraints", with
 *             SchedulerParameters=extra_constraints, since 23.11): one number for each fact.
 */
#include <string.h>

#include "base/json.h"
#include "base/out.h"
#include "base/str.h"
#include "choose/need.h"
#include "kb/serves.h"
#include "node/internal.h"
#include "node/node.h"

enum { GLIBC_MINOR_MAX = 99, CPU_LEVEL_MAX = 4 };

static const char *node_driver(const json_t *doc)
{
    const char *driver = json_string_value(node_fact(doc, "driver"));
    return driver && node_driver_number(driver) ? driver : NULL;
}

/* Ten times the compute capability that all NVIDIA GPUs here have; 0: several, none, unknown. */
static long long compute_of(const json_t *doc)
{
    const json_t *list = node_fact(doc, "compute_capabilities");
    return json_array_size(list) == 1
               ? node_capability_number(json_string_value(json_array_get(list, 0)))
               : 0;
}

/* 3 for "x86-64-v3"; 0: unknown, or another machine's. */
static int cpu_level_of(const json_t *doc)
{
    const char *level = json_string_value(node_fact(doc, "cpu_level"));
    bool known = level && starts_with(level, "x86-64-v") && level[8] >= '1' && level[8] <= '4';
    return known && !level[9] ? level[8] - '0' : 0;
}

/* ------------------------------------------------------------------ features */

static bool has_minimum_before(const struct kb_drivers *d, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (d->rows[i].linux_min && strcmp(d->rows[i].linux_min, d->rows[n].linux_min) == 0) {
            return true;
        }
    }
    return false;
}

/* The driver, and each bound of the knowledge base that it reaches: needs name no other. */
static const char *driver_features(struct arena *a, const char *driver, const struct kb_drivers *d)
{
    const char *text = "gpumend-driver";
    for (size_t i = 0; i < d->n; i++) {
        const char *least = d->rows[i].linux_min;
        if (least && !has_minimum_before(d, i) && kb_driver_reaches(driver, least)) {
            text = arena_printf(a, "%s,gpumend-driver-%s", text, least);
        }
    }
    return text;
}

/* "gpumend-compute-8.6", and each major version from 3 to its own. */
static const char *compute_features(struct arena *a, long long compute)
{
    const char *text = arena_printf(a, "gpumend-compute-%lld.%lld", compute / 10, compute % 10);
    for (long long major = 3; major <= compute / 10; major++) {
        text = arena_printf(a, "%s,gpumend-compute-from-%lld.0", text, major);
    }
    return text;
}

/* A feature for each bound in GiB that the GPU with most memory reaches: src/needs/slurm.c names
 * the largest one that is no more than what a model takes. */
static const char *memory_features(struct arena *a, const json_t *doc)
{
    const char *text = node_memory_is_open(doc) ? ",gpumend-memory-open" : "";
    for (size_t i = 0; i < CHOOSE_MEMORY_BOUNDS; i++) {
        if ((long long)choose_memory_bounds_gib[i] * 1024 <= node_memory_mib(doc)) {
            text = arena_printf(a, "%s,gpumend-memory-%u", text, choose_memory_bounds_gib[i]);
        }
    }
    return text;
}

const char *node_slurm_features(struct arena *a, const json_t *doc, const struct kb_drivers *d)
{
    const char *driver = node_driver(doc), *text = "gpumend";
    const json_t *gfx = node_fact(doc, "gfx");
    text = driver ? arena_printf(a, "%s,%s", text, driver_features(a, driver, d)) : text;
    text = compute_of(doc) ? arena_printf(a, "%s,%s", text, compute_features(a, compute_of(doc)))
                           : text;
    for (size_t i = 0; i < json_array_size(gfx); i++) {
        text = arena_printf(a, "%s,gpumend-%s", text,
                            node_label_value(a, json_string_value(json_array_get(gfx, i))));
    }
    for (long long minor = 2; minor <= node_glibc_minor(doc) && minor <= GLIBC_MINOR_MAX; minor++) {
        text = arena_printf(a, "%s,gpumend-glibc-2.%lld", text, minor);
    }
    for (int level = 1; level <= cpu_level_of(doc); level++) {
        text = arena_printf(a, "%s,gpumend-x86-64-v%d", text, level);
    }
    return arena_printf(a, "%s%s%s%s", text, memory_features(a, doc),
                        node_nvidia_is_open(doc) ? ",gpumend-nvidia-open" : "",
                        json_is_array(gfx) ? "" : ",gpumend-amd-open");
}

/* ------------------------------------------------------------------ extra */

static void extra_put_number(json_t *o, const char *key, long long value)
{
    if (value) {
        json_put(o, key, json_integer(value));
    }
}

const char *node_slurm_extra(struct arena *a, const json_t *doc)
{
    json_t *o = json_object();
    const char *driver = node_driver(doc);
    const json_t *gfx = node_fact(doc, "gfx");
    extra_put_number(o, "gpumend_driver", driver ? node_driver_number(driver) : 0);
    extra_put_number(o, "gpumend_compute", compute_of(doc));
    extra_put_number(o, "gpumend_glibc_minor", node_glibc_minor(doc));
    extra_put_number(o, "gpumend_cpu_level", cpu_level_of(doc));
    for (size_t i = 0; i < json_array_size(gfx); i++) {
        const char *name = node_label_value(a, json_string_value(json_array_get(gfx, i)));
        json_put(o, arena_printf(a, "gpumend_%s", name), json_integer(1));
    }
    extra_put_number(o, "gpumend_memory_mib", node_memory_mib(doc));
    extra_put_number(o, "gpumend_memory_open", node_memory_is_open(doc));
    extra_put_number(o, "gpumend_nvidia_open", node_nvidia_is_open(doc));
    extra_put_number(o, "gpumend_amd_open", !json_is_array(gfx));
    json_put(o, "gpumend_verdict", out_json_text(a, node_verdict(doc)));
    const char *line = node_line(a, o);
    json_decref(o);
    return line;
}
