/* Which GPUs are meant: numbers as nvidia-smi counts them (by PCI address), UUIDs, MIG instances.
 */
#include "container/internal.h"

#include <string.h>

/* ------------------------------------------------------------------ the host's GPUs */

/* The number that the vendor's tools give a GPU: its place among those of its vendor by address. */
static size_t gpu_index(const struct host *h, const struct host_gpu *gpu)
{
    size_t n = 0;
    for (size_t i = 0; i < h->gpus.n && &h->gpus.items[i] != gpu; i++) {
        n += h->gpus.items[i].vendor == gpu->vendor;
    }
    return n;
}

static const struct host_gpu *gpu_at(const struct host *h, enum host_vendor vendor, uint64_t index)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        if (h->gpus.items[i].vendor == vendor && index-- == 0) {
            return &h->gpus.items[i];
        }
    }
    return NULL;
}

static size_t vendor_count(const struct host *h, enum host_vendor vendor)
{
    size_t n = 0;
    for (size_t i = 0; i < h->gpus.n; i++) {
        n += h->gpus.items[i].vendor == vendor;
    }
    return n;
}

static const struct host_gpu *gpu_by_uuid(const struct host *h, const char *uuid, bool *ret_all)
{
    *ret_all = h->gpus.n > 0;
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_fact *own = &h->gpus.items[i].uuid;
        *ret_all &= h->gpus.items[i].vendor != HOST_NVIDIA || own->state == HOST_YES;
        if (own->state == HOST_YES && own->value && strcmp(own->value, uuid) == 0) {
            return &h->gpus.items[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ one word */

struct parsing {
    const struct host *h;
    struct arena *a;
    enum host_vendor vendor;
    enum container_format format;
    struct container_pick *pick;
    struct gm_err *err;
};

static bool word_is_plain(struct str word, const char *more)
{
    for (size_t i = 0; i < word.n; i++) {
        bool digit = word.s[i] >= '0' && word.s[i] <= '9';
        if (!digit && !str_is_letter(word.s[i]) && !strchr(more, word.s[i])) {
            return false;
        }
    }
    return word.n > 0 && word.n < 128;
}

static void pick_take(struct parsing *p, const char *id, const struct host_gpu *gpu, long instance)
{
    for (size_t i = 0; i < p->pick->devices.n; i++) {
        if (strcmp(p->pick->devices.items[i].id, id) == 0) {
            return;
        }
    }
    VEC_PUSH(p->a, &p->pick->devices, (struct container_device){id, gpu, instance});
}

/* "1", or "0:2" for a MIG instance. */
static int pick_take_number(struct parsing *p, struct str word)
{
    struct str rest = word, first = str_cut(&rest, ':');
    uint64_t index = 0, instance = 0;
    bool is_mig = rest.s != NULL;
    if (!str_u64(first, &index) || (is_mig && !str_u64(rest, &instance))) {
        return gm_err_set(
            p->err, GM_ERR_USAGE,
            "%.*s does not name a GPU: use all, best, a number, a UUID or GPU:INSTANCE",
            (int)word.n, word.s);
    }
    const struct host_gpu *gpu = gpu_at(p->h, p->vendor, index);
    if (!gpu) {
        return gm_err_set(p->err, GM_ERR_USAGE, "there is no GPU %llu here: of %s there are %zu",
                          (unsigned long long)index, host_vendor_name(p->vendor),
                          vendor_count(p->h, p->vendor));
    }
    if (is_mig && instance >= gpu->mig.n) {
        return gm_err_set(p->err, GM_ERR_USAGE, "GPU %llu has no MIG instance %llu: it has %zu",
                          (unsigned long long)index, (unsigned long long)instance, gpu->mig.n);
    }
    pick_take(p,
              is_mig ? arena_printf(p->a, "%llu:%llu", (unsigned long long)index,
                                    (unsigned long long)instance)
                     : arena_printf(p->a, "%llu", (unsigned long long)index),
              gpu, is_mig ? (long)instance : -1);
    return 0;
}

static int take_uuid(struct parsing *p, struct str word)
{
    const char *uuid = str_dup(p->a, word);
    bool all_known = false;
    const struct host_gpu *gpu = gpu_by_uuid(p->h, uuid, &all_known);
    if (!gpu && all_known && starts_with(uuid, "GPU-")) {
        return gm_err_set(p->err, GM_ERR_USAGE, "no GPU of this host has the UUID %s", uuid);
    }
    pick_take(p, uuid, gpu, -1);
    return 0;
}

static bool is_kubernetes(enum container_format format)
{
    return container_format_way(format) == CONTAINER_BY_PLUGIN ||
           container_format_way(format) == CONTAINER_BY_CLAIM;
}

static int pick_take_word(struct parsing *p, struct str word)
{
    bool mig = str_starts(word, "MIG-");
    if (!word_is_plain(word, "-_.:")) {
        return gm_err_set(p->err, GM_ERR_USAGE,
                          "--gpus takes all, best, or a comma-separated list of numbers, UUIDs and "
                          "GPU:INSTANCE");
    }
    if (str_starts(word, "mig-") && is_kubernetes(p->format)) {
        p->pick->profile = str_dup(p->a, (struct str){word.s + 4, word.n - 4});
        bool shape =
            strstr(p->pick->profile, "g.") && *p->pick->profile >= '1' && *p->pick->profile <= '9';
        return shape ? 0
                     : gm_err_set(p->err, GM_ERR_USAGE,
                                  "%.*s is not a MIG profile such as mig-1g.10gb", (int)word.n,
                                  word.s);
    }
    bool claimed = container_format_way(p->format) == CONTAINER_BY_CLAIM && mig;
    if (is_kubernetes(p->format) && !claimed && (mig || str_find_char(word, ':') < word.n)) {
        return gm_err_set(
            p->err, GM_ERR_USAGE,
            "%s selects MIG instances by their profile%s, which the driver's files do "
            "not name: --gpus mig-PROFILE, as nvidia-smi -L shows it",
            container_format_name(p->format),
            container_format_way(p->format) == CONTAINER_BY_CLAIM ? " or UUID" : "");
    }
    return mig || str_starts(word, "GPU-") ? take_uuid(p, word) : pick_take_number(p, word);
}

/* ------------------------------------------------------------------ all of them */

/* The first GPU of a vendor (HOST_OTHER: of any) that programs can use, else that they should be
 * able to use. */
static const struct host_gpu *first_of(const struct host *h, enum host_vendor vendor)
{
    const struct host_gpu *counts = NULL;
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        bool is = vendor == HOST_OTHER || g->vendor == vendor;
        if (is && g->usable == HOST_YES) {
            return g;
        }
        counts = !counts && is && host_gpu_counts(g) ? g : counts;
    }
    return counts;
}

const struct host_gpu *container_gpu_for(const struct host *h, struct model *m)
{
    const struct host_gpu *own = NULL;
    size_t n = 0;
    for (enum host_vendor v = HOST_NVIDIA; v < HOST_OTHER; v++) {
        const char *who = NULL;
        if (diag_asks_for_gpu(m, v, &who)) {
            own = first_of(h, v);
            n++;
        }
    }
    return n == 1 && own ? own : first_of(h, HOST_OTHER);
}

static enum host_vendor only_vendor(const struct host *h, struct model *m)
{
    const struct host_gpu *best = container_gpu_for(h, m);
    return best ? best->vendor : HOST_NVIDIA;
}

static void take_all(struct parsing *p)
{
    size_t n = vendor_count(p->h, p->vendor);
    p->pick->all = true;
    for (size_t i = 0; i < n; i++) {
        pick_take(p, arena_printf(p->a, "%zu", i), gpu_at(p->h, p->vendor, i), -1);
    }
}

int container_pick_parse(const struct host *h, struct model *m, enum container_format format,
                         const char *text, struct container_pick *ret, struct gm_err *err)
{
    struct parsing p = {h, m->arena, only_vendor(h, m), format, ret, err};
    int rc = 0;
    *ret = (struct container_pick){0};
    if (strcmp(text, "all") == 0) {
        take_all(&p);
        return 0;
    }
    for (struct str rest = str_of(text); rc == 0 && rest.s;) {
        rc = pick_take_word(&p, str_cut(&rest, ','));
    }
    size_t n_mig = 0;
    for (size_t i = 0; i < ret->devices.n; i++) {
        n_mig += starts_with(ret->devices.items[i].id, "MIG-");
    }
    if (rc == 0 && container_format_way(format) == CONTAINER_BY_CLAIM && n_mig &&
        n_mig < ret->devices.n) {
        rc = gm_err_set(err, GM_ERR_USAGE,
                        "a claim asks for GPUs or for MIG instances, not for both");
    }
    if (rc == 0 && ret->profile && ret->devices.n) {
        rc =
            gm_err_set(err, GM_ERR_USAGE, "--gpus takes a MIG profile or a list of GPUs, not both");
    }
    return rc;
}

void container_pick_one(const struct host *h, struct arena *a, const struct host_gpu *gpu,
                        const char *reason, struct container_pick *ret)
{
    *ret = (struct container_pick){.reason = reason, .none = !gpu};
    if (gpu) {
        bool uuid = gpu->uuid.state == HOST_YES && gpu->vendor == HOST_NVIDIA && gpu->uuid.value &&
                    word_is_plain(str_of(gpu->uuid.value), "-");
        const char *id = uuid ? gpu->uuid.value : arena_printf(a, "%zu", gpu_index(h, gpu));
        VEC_PUSH(a, &ret->devices, (struct container_device){id, gpu, -1});
    }
}
