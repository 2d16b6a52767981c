/*
 * Needs as Slurm matches jobs to nodes: over what node/slurm.c writes of a node.
 *
 * Both are alternatives of conjunctions, for two reasons: parentheses of --constraint may hold only
 * "and" (sbatch(1)), and one level of --extra only one operator (Slurm's page "Extra Constraints").
 */
#include <string.h>

#include "base/str.h"
#include "needs/internal.h"

static const char *joined_constraints(struct arena *a, const char *x, const char *y)
{
    return *x && *y ? arena_printf(a, "%s&%s", x, y) : *x ? x : y;
}

/* One alternative more, in parentheses. */
static const char *alternative(struct arena *a, const char *before, const char *one)
{
    return arena_printf(a, "%s%s(%s)", before, *before ? "|" : "", one);
}

/* Alternatives with what all of them need; one alone needs no parentheses. */
static const char *finished(struct arena *a, const char *text, const char *common, size_t n,
                            const char **ret_why)
{
    if (n == 0 && !*common) {
        *ret_why = "the target needs nothing of a node that Slurm can compare";
        return NULL;
    }
    return n == 0   ? arena_printf(a, "%s\n", common)
           : n == 1 ? arena_printf(a, "%.*s\n", (int)(str_of(text).n - 2), text + 1)
                    : arena_printf(a, "%s\n", text);
}

/* ------------------------------------------------------------------ --constraint */

static const char *common_features(struct arena *a, const struct needs *n)
{
    const char *text = n->glibc_minor ? arena_printf(a, "gpumend-glibc-2.%d", n->glibc_minor) : "";
    return n->cpu_level
               ? joined_constraints(a, text, arena_printf(a, "gpumend-x86-64-v%d", n->cpu_level))
               : text;
}

/* A feature for each compute capability of a range; from the next major version on, one for those
 * without an end. */
static const char *range_features(struct arena *a, const struct needs_range *r, const char *text,
                                  const char *needed, size_t *n)
{
    unsigned end = needs_range_is_open(r) ? (r->from + 9) / 10 * 10 - 1 : r->to;
    for (unsigned number = r->from; number <= end; number++, ++*n) {
        const char *one = arena_printf(a, "gpumend-compute-%s", needs_capability(a, number));
        text = alternative(a, text, joined_constraints(a, needed, one));
    }
    if (needs_range_is_open(r)) {
        const char *one = arena_printf(a, "gpumend-compute-from-%s", needs_capability(a, end + 1));
        text = alternative(a, text, joined_constraints(a, needed, one));
        ++*n;
    }
    return text;
}

/* The largest bound that is no more than what is needed; "": it is less than all. */
static const char *memory_feature(struct arena *a, const struct needs *n)
{
    unsigned bound = 0;
    for (size_t i = 0; i < CHOOSE_MEMORY_BOUNDS; i++) {
        if (choose_memory_bounds_gib[i] * 1024ULL <= needs_memory_mib(n)) {
            bound = choose_memory_bounds_gib[i];
        }
    }
    return bound ? arena_printf(a, "gpumend-memory-%u", bound) : "";
}

/* The alternatives with what each of them needs; counts them. */
static const char *constraint_for(struct arena *a, const struct needs *n, const char *common,
                                  const char *before, size_t *ret_n)
{
    const char *text = before;
    needs_ranges ranges = needs_ranges_for(a, n);
    size_t count = 0;
    for (size_t i = 0; n->nvidia && i < ranges.n; i++) {
        const struct needs_range *r = &ranges.items[i];
        const char *driver = needs_driver_for(n, r);
        const char *needed = joined_constraints(
            a, common, driver ? arena_printf(a, "gpumend-driver-%s", driver) : "gpumend-driver");
        text = r->from ? range_features(a, r, text, needed, &count) : alternative(a, text, needed);
        count += !r->from;
    }
    for (size_t i = 0; n->amd && i < n->gfx.n; i++, count++) {
        const char *one = arena_printf(a, "gpumend-%s", n->gfx.items[i]);
        text = alternative(a, text, joined_constraints(a, common, one));
    }
    text = n->nvidia ? alternative(a, text, joined_constraints(a, common, "gpumend-nvidia-open"))
                     : text;
    text = n->amd ? alternative(a, text, joined_constraints(a, common, "gpumend-amd-open")) : text;
    *ret_n += count + n->nvidia + n->amd;
    return text;
}

const char *needs_slurm_constraint(struct arena *a, const struct needs *n, const char **ret_why)
{
    const char *common = common_features(a, n), *text = "";
    const char *memory = memory_feature(a, n);
    size_t count = 0;
    if ((*ret_why = needs_no_expression(n))) {
        return NULL;
    }
    for (int i = 0; i < (*memory ? needs_memory_cases(n) : 1); i++) {
        const char *one = i == 0 ? memory : "gpumend-memory-open";
        text = constraint_for(a, n, joined_constraints(a, common, one), text, &count);
    }
    return finished(a, text, common, count, ret_why);
}

/* ------------------------------------------------------------------ of one cluster */

static bool has_feature(struct str features, struct str name)
{
    for (struct str rest = features; rest.n;) {
        size_t n = 0;
        while (n < rest.n && !strchr(", \t\n", rest.s[n])) {
            n++;
        }
        if (str_eq((struct str){rest.s, n}, name)) {
            return true;
        }
        n += n < rest.n;
        rest = (struct str){rest.s + n, rest.n - n};
    }
    return false;
}

static bool has_all_features(struct str features, struct str conjunction)
{
    bool good = true;
    while (good && conjunction.n) {
        good = has_feature(features, str_cut(&conjunction, '&'));
    }
    return good;
}

const char *needs_slurm_within(struct arena *a, const char *constraint, const char *features,
                               const char **ret_why)
{
    const char *text = "";
    for (struct str rest = str_trim(str_of(constraint)); rest.n;) {
        struct str one = str_cut(&rest, '|');
        if (one.n > 2 && one.s[0] == '(') {
            one = (struct str){one.s + 1, one.n - 2};
        }
        if (has_all_features(str_of(features), one)) {
            text = alternative(a, text, arena_strndup(a, one.s, one.n));
        }
    }
    *ret_why = *text ? NULL : "no node has the features that it needs";
    return *text ? arena_printf(a, "%s\n", text) : NULL;
}

/* ------------------------------------------------------------------ --extra */

static const char *common_extra(struct arena *a, const struct needs *n)
{
    const char *text =
        n->glibc_minor ? arena_printf(a, "gpumend_glibc_minor>=%d", n->glibc_minor) : "";
    return n->cpu_level
               ? joined_constraints(a, text, arena_printf(a, "gpumend_cpu_level>=%d", n->cpu_level))
               : text;
}

static const char *range_extra(struct arena *a, const struct needs *n, const struct needs_range *r)
{
    const char *driver = needs_driver_for(n, r);
    const char *text =
        arena_printf(a, "gpumend_driver>=%llu", driver ? needs_driver_number(driver) : 1);
    text = r->from ? joined_constraints(a, text, arena_printf(a, "gpumend_compute>=%u", r->from))
                   : text;
    return needs_range_is_open(r)
               ? text
               : joined_constraints(a, text, arena_printf(a, "gpumend_compute<=%u", r->to));
}

static const char *extra_for(struct arena *a, const struct needs *n, const char *common,
                             const char *before, size_t *ret_n)
{
    const char *text = before;
    needs_ranges ranges = needs_ranges_for(a, n);
    size_t count = 0;
    for (size_t i = 0; n->nvidia && i < ranges.n; i++, count++) {
        text = alternative(a, text,
                           joined_constraints(a, common, range_extra(a, n, &ranges.items[i])));
    }
    for (size_t i = 0; n->amd && i < n->gfx.n; i++, count++) {
        const char *one = arena_printf(a, "gpumend_%s=1", n->gfx.items[i]);
        text = alternative(a, text, joined_constraints(a, common, one));
    }
    text = n->nvidia ? alternative(a, text, joined_constraints(a, common, "gpumend_nvidia_open=1"))
                     : text;
    text =
        n->amd ? alternative(a, text, joined_constraints(a, common, "gpumend_amd_open=1")) : text;
    *ret_n += count + n->nvidia + n->amd;
    return text;
}

const char *needs_slurm_extra(struct arena *a, const struct needs *n, const char **ret_why)
{
    const char *common = common_extra(a, n), *text = "";
    unsigned long long mib = needs_memory_mib(n);
    size_t count = 0;
    if ((*ret_why = needs_no_expression(n))) {
        return NULL;
    }
    for (int i = 0; i < needs_memory_cases(n); i++) {
        const char *memory = !mib     ? ""
                             : i == 0 ? arena_printf(a, "gpumend_memory_mib>=%llu", mib)
                                      : "gpumend_memory_open=1";
        text = extra_for(a, n, joined_constraints(a, common, memory), text, &count);
    }
    return finished(a, text, common, count, ret_why);
}
