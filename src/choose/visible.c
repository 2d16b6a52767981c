#include "choose/visible.h"

#include <string.h>

#include "base/env.h"
#include "base/str.h"

const char *choose_variable(const struct choose_variables *v, const char *name)
{
    const char *value = env_value(v->env, v->n_env, name);
    return value || !v->host ? value : host_variable(v->host, name);
}

enum host_state choose_gpu_state(const struct host_gpu *g, const struct host_problem **ret_problem)
{
    const struct host_problem *worst = NULL;
    for (size_t i = 0; i < g->problems.n; i++) {
        const struct host_problem *p = &g->problems.items[i];
        if (strcmp(p->id, "hidden") == 0 || p->state == HOST_YES) {
            continue;
        }
        if (!worst || (p->state == HOST_NO && worst->state != HOST_NO)) {
            worst = p;
        }
    }
    if (ret_problem) {
        *ret_problem = worst;
    }
    return worst ? worst->state : HOST_YES;
}

/* All devices of a vendor that a runtime counts, by PCI address. */
static void visible_count(const struct host *h, enum host_vendor vendor, struct arena *a,
                          struct choose_visible *ret)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        if (g->vendor != vendor || choose_gpu_state(g, NULL) == HOST_NO) {
            continue;
        }
        uint64_t parts =
            vendor == HOST_AMD && g->partitions.state == HOST_YES && g->partitions.number > 1
                ? g->partitions.number
                : 1;
        for (uint64_t p = 0; p < parts && p < 64; p++) {
            VEC_PUSH(a, &ret->gpus, g);
        }
    }
    ret->shown = ret->gpus.n;
}

static bool all_alike(const struct choose_visible *list)
{
    for (size_t i = 1; i < list->gpus.n; i++) {
        if (strcmp(list->gpus.items[i]->name, list->gpus.items[0]->name) != 0) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ filters */

enum entry { ENTRY_INVALID, ENTRY_INDEX, ENTRY_UUID, ENTRY_UNKNOWN };

/* What one entry of a list names; ENTRY_UNKNOWN: a device that files do not tell. */
static enum entry visible_entry(const struct choose_visible *all, struct str text, size_t *ret)
{
    uint64_t index;
    if (str_u64(text, &index)) {
        *ret = (size_t)index;
        return index < all->gpus.n ? ENTRY_INDEX : ENTRY_INVALID;
    }
    if (str_starts(text, "MIG-")) {
        return ENTRY_UNKNOWN;
    }
    if (!str_starts(text, "GPU-")) {
        return ENTRY_INVALID;
    }
    bool untold = false;
    for (size_t i = 0; i < all->gpus.n; i++) {
        const struct host_fact *uuid = &all->gpus.items[i]->uuid;
        if (uuid->state != HOST_YES || !uuid->value) {
            untold = true;
        } else if (strncmp(uuid->value, text.s, text.n) == 0) {
            *ret = i;
            return ENTRY_UUID;
        }
    }
    return untold ? ENTRY_UNKNOWN : ENTRY_INVALID;
}

/* Applies one list. With `indices_known` false, a number may mean any device. */
static void visible_filter(struct choose_visible *list, struct arena *a, const char *value,
                           bool indices_known)
{
    struct choose_visible all = *list;
    list->gpus.items = NULL;
    list->gpus.n = list->gpus.cap = 0;
    list->shown = 0;
    for (struct str rest = str_of(value); rest.s; list->shown++) {
        size_t index = 0;
        enum entry entry = visible_entry(&all, str_trim(str_cut(&rest, ',')), &index);
        if (entry == ENTRY_INVALID) {
            break;
        }
        if (entry == ENTRY_UNKNOWN || (entry == ENTRY_INDEX && !indices_known)) {
            list->sure = false;
        } else {
            VEC_PUSH(a, &list->gpus, all.gpus.items[index]);
        }
    }
    if (!list->sure) {
        list->gpus = all.gpus;
    }
}

/* "NAME=VALUE", as a shell would show it. */
static const char *shown(struct arena *a, const char *name, const char *value)
{
    return arena_printf(a, "%s=%s", name, *value ? value : "\"\"");
}

static void visible_apply(struct choose_visible *list, struct arena *a,
                          const struct choose_variables *v, const char *name, bool indices_known)
{
    const char *value = choose_variable(v, name);
    if (!value) {
        return;
    }
    bool some = list->gpus.n > 0;
    list->filter = shown(a, name, value);
    visible_filter(list, a, value, indices_known);
    if (some && list->gpus.n == 0) {
        list->hidden = list->filter;
    }
}

void choose_visible_cuda(const struct host *h, const struct choose_variables *v, struct arena *a,
                         struct choose_visible *ret)
{
    const char *order = choose_variable(v, "CUDA_DEVICE_ORDER");
    bool by_address = order && strcmp(order, "PCI_BUS_ID") == 0;
    *ret = (struct choose_visible){.sure = true};
    visible_count(h, HOST_NVIDIA, a, ret);
    bool alike = all_alike(ret);
    visible_apply(ret, a, v, "CUDA_VISIBLE_DEVICES", alike || by_address);
    // A list of UUIDs is an order of its own; one of numbers is left as the user counted.
    ret->set_order = !alike && !by_address && !ret->filter;
}

void choose_visible_rocm(const struct host *h, const struct choose_variables *v, struct arena *a,
                         struct choose_visible *ret)
{
    *ret = (struct choose_visible){.sure = true};
    visible_count(h, HOST_AMD, a, ret);
    visible_apply(ret, a, v, "ROCR_VISIBLE_DEVICES", true);
    bool hip = choose_variable(v, "HIP_VISIBLE_DEVICES") != NULL;
    visible_apply(ret, a, v, hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES", true);
}
