/* GPUs by name and PCI id. */
#include "kb/ask.h"

#include <string.h>

#include "base/str.h"

static void gpus_by_pci(struct ask *k, const struct kb_gpus *gpus, struct kb_gpu_list *ret)
{
    const char *pci = ask_given(k, KEY_PCI);
    for (size_t i = 0; i < gpus->n; i++) {
        const struct kb_gpu *g = &gpus->rows[i];
        const char *vendor = g->vendor == KB_VENDOR_AMD ? "1002:" : "10de:";
        if (starts_with(pci, vendor) && ask_has_text(g->pci, pci + strlen(vendor))) {
            VEC_PUSH(k->a, &ret->items, g);
        }
    }
}

int ask_gpus_find(struct ask *k, struct kb_gpu_list *ret, struct gm_err *err)
{
    struct kb_gpus gpus;
    const char *name = ask_given(k, KEY_GPU);
    int rc = name || ask_given(k, KEY_PCI) ? kb_gpus(k->kb, &gpus, err) : 1;
    if (rc) {
        return rc < 0 ? rc : 0;
    }
    if (name) {
        kb_gpus_named(k->a, &gpus, name, ret);
    } else {
        gpus_by_pci(k, &gpus, ret);
    }
    return 0;
}

/* "sm_30 and sm_50" */
static const char *architectures_of(struct ask *k, const struct kb_gpu_list *list)
{
    struct question_values seen = {.n = 0};
    const char *text = "";
    for (size_t i = 0; i < list->items.n && seen.n < QUESTION_LIST_MAX; i++) {
        const struct kb_gpu *g = list->items.items[i];
        const char *arch =
            g->capability ? arena_printf(k->a, "sm_%d", ask_arch_number(g->capability)) : g->gfx;
        bool had = !arch;
        for (size_t s = 0; s < seen.n && !had; s++) {
            had = strcmp(seen.items[s], arch) == 0;
        }
        if (!had) {
            seen.items[seen.n++] = arch;
            text = arena_printf(k->a, "%s%s%s", text, text[0] ? " and " : "", arch);
        }
    }
    return text;
}

int ask_arch_find(struct ask *k, struct ask_arch *ret, struct gm_err *err)
{
    struct kb_gpu_list found = {{0}};
    int rc = ask_gpus_find(k, &found, err);
    *ret = (struct ask_arch){.sm = ask_given(k, KEY_SM), .gfx = ask_given(k, KEY_GFX)};
    if (rc < 0 || !(k->q->named & (NAMED_GPU | NAMED_PCI))) {
        return rc;
    }
    if (!kb_gpus_alike(&found)) {
        const char *name = ask_given(k, KEY_GPU) ? ask_given(k, KEY_GPU) : ask_given(k, KEY_PCI);
        if (found.items.n) {
            ask_missing(k,
                        "\"%s\" stands for GPUs of different architectures: %s; ask for one of "
                        "these",
                        name, architectures_of(k, &found));
        } else {
            ask_missing(k, "no row has \"%s\"", name);
        }
        return 0;
    }
    ret->gpu = found.items.items[0];
    if ((ret->sm && ret->gpu->capability && strcmp(ret->sm, ret->gpu->capability) != 0) ||
        (ret->sm && ret->gpu->gfx) || (ret->gfx && ret->gpu->capability)) {
        ask_missing(k, "%s is not of the architecture that is named with it", ret->gpu->name);
        return 0;
    }
    ret->sm = ret->gpu->capability ? ret->gpu->capability : ret->sm;
    ret->gfx = ret->gpu->gfx ? ret->gpu->gfx : ret->gfx;
    HIT(k, KB_AREA_GPUS, ret->gpu);
    return 0;
}

static const char *gpu_words(struct ask *k, const struct kb_gpu *g)
{
    return g->capability ? arena_printf(k->a, "compute capability %s (sm_%d)", g->capability,
                                        ask_arch_number(g->capability))
                         : arena_printf(k->a, "gfx target %s", g->gfx);
}

/* How the kernel reports a target. */
static int say_kfd(struct ask *k, const char *gfx, struct gm_err *err)
{
    struct kb_rocms r;
    int rc = kb_rocms(k->kb, &r, err);
    for (size_t i = 0; rc == 0 && i < r.n; i++) {
        if (r.rows[i].kind == KB_ROCM_TARGET && ask_has_text(r.rows[i].gfx, gfx)) {
            HIT(k, KB_AREA_ROCMS, &r.rows[i]);
            ask_say(k, "KFD reports it as gfx_target_version %d.", r.rows[i].kfd);
        }
    }
    return rc < 0 ? rc : 1;
}

/* "10de:2504, 10de:2544" */
static const char *pci_text(struct ask *k, const struct kb_gpu *g)
{
    const char *text = "";
    for (size_t i = 0; i < g->pci.n; i++) {
        text = arena_printf(k->a, "%s%s%s:%s", text, i ? ", " : "",
                            g->vendor == KB_VENDOR_AMD ? "1002" : "10de", g->pci.items[i]);
    }
    return g->pci.n ? text : NULL;
}

/* The PCI ids are those of all cards that fit; where their rows have none, of those whose names say
 * more than the question does, which are shown. */
static int say_pci(struct ask *k, struct kb_gpu_list *found, struct gm_err *err)
{
    struct kb_gpus gpus;
    const char *list = "";
    bool any = false;
    for (size_t i = 0; i < found->items.n; i++) {
        any = any || found->items.items[i]->pci.n > 0;
    }
    int rc = any ? 0 : kb_gpus(k->kb, &gpus, err);
    if (rc == 0 && !any && ask_given(k, KEY_GPU)) {
        kb_gpus_containing(k->a, &gpus, ask_given(k, KEY_GPU), found);
    }
    for (size_t i = 0; i < found->items.n; i++) {
        const struct kb_gpu *g = found->items.items[i];
        const char *ids = pci_text(k, g);
        if (ids) {
            HIT(k, KB_AREA_GPUS, g);
            list = arena_printf(k->a, "%s%s%s (%s)", list, list[0] ? ", " : "", ids, g->name);
        }
    }
    if (list[0]) {
        ask_say(k, "PCI id: %s.", list);
    } else {
        ask_say(k, "Its PCI id was not read.");
    }
    return rc;
}

/* "is the RTX 3050 an Ampere card" */
int form_gpu_does(struct ask *k, struct gm_err *err)
{
    struct kb_gpu_list found = {{0}};
    const char *generation = ask_given(k, KEY_GENERATION);
    int rc = ask_gpus_find(k, &found, err);
    if (rc < 0 || !kb_gpus_alike(&found) || !(k->q->said & SAID_DOES)) {
        return rc;
    }
    const struct kb_gpu *g = found.items.items[0];
    bool is = strcmp(g->generation, generation) == 0;
    HIT(k, KB_AREA_GPUS, g);
    ask_say(k, "%s: %s is of the generation %s, %s.", is ? "Yes" : "No", g->name, g->generation,
            gpu_words(k, g));
    return 1;
}

/* "is the RTX 4090 sm_89" */
int form_gpu_is_arch(struct ask *k, struct gm_err *err)
{
    struct kb_gpu_list found = {{0}};
    const char *sm = ask_given(k, KEY_SM), *gfx = ask_given(k, KEY_GFX);
    int rc = ask_gpus_find(k, &found, err);
    if (rc < 0 || !found.items.n || !kb_gpus_alike(&found) || !(k->q->said & SAID_DOES)) {
        return rc;
    }
    const struct kb_gpu *g = found.items.items[0];
    HIT(k, KB_AREA_GPUS, g);
    ask_say(k, "%s: %s has %s.", strcmp(kb_gpu_value(g), sm ? sm : gfx) == 0 ? "Yes" : "No",
            g->name, gpu_words(k, g));
    return 1;
}

/* A module and its GPU may each have a row ("DGX Spark", "GB10"): a list counts the GPU only. */
static bool has_listed_card(const struct kb_gpus *gpus, const struct kb_gpu *module)
{
    bool is = module->kind == KB_GPU_MODULE && module->chips.n;
    const char *chip = is ? module->chips.items[0] : NULL;
    for (size_t i = 0; chip && i < gpus->n; i++) {
        if (gpus->rows[i].kind == KB_GPU_CARD && ask_has_text(gpus->rows[i].chips, chip)) {
            return true;
        }
    }
    return false;
}

/* "which GPUs have compute capability 8.9", "which cards are Turing" */
int form_gpus_of(struct ask *k, struct gm_err *err)
{
    struct kb_gpus gpus;
    const char *sm = ask_given(k, KEY_SM), *gfx = ask_given(k, KEY_GFX), *list = "";
    const char *generation = ask_given(k, KEY_GENERATION);
    size_t n = 0;
    int rc = kb_gpus(k->kb, &gpus, err);
    for (size_t i = 0; rc == 0 && i < gpus.n; i++) {
        const struct kb_gpu *g = &gpus.rows[i];
        if (g->kind != KB_GPU_CHIP && !has_listed_card(&gpus, g) &&
            (generation ? strcmp(g->generation, generation) == 0
                        : strcmp(kb_gpu_value(g), sm ? sm : gfx) == 0)) {
            HIT(k, KB_AREA_GPUS, g);
            list = arena_printf(k->a, "%s%s%s", list, n++ ? "; " : "", g->name);
        }
    }
    if (n > 0) {
        ask_say(k, "%zu that %s read: %s.", n, n == 1 ? "was" : "were", list);
    }
    return rc < 0 ? rc : n > 0;
}

/* "compute capability of RTX 3060", "10de:2504"; cards that differ are named one by one. */
int form_gpu(struct ask *k, struct gm_err *err)
{
    enum { SHOWN = 24 };
    struct kb_gpu_list found = {{0}};
    int rc = ask_gpus_find(k, &found, err);
    if (rc < 0 || found.items.n == 0) {
        return rc;
    }
    const struct kb_gpu *first = found.items.items[0];
    bool alike = kb_gpus_alike(&found);
    struct ask_table t = {.heads = {"GPU", "", "generation"}, .columns = 3, .named = 1};
    for (size_t i = 0; i < found.items.n; i++) {
        const struct kb_gpu *g = found.items.items[i];
        HIT(k, KB_AREA_GPUS, g);
        if (!alike && i < SHOWN) {
            struct ask_line line = {.cells = {g->name, gpu_words(k, g), g->generation}};
            VEC_PUSH(k->a, &t.lines, line);
        }
    }
    if (!alike) {
        ask_say_table(k,
                      arena_printf(k->a, "%zu GPUs have these words in their names%s",
                                   found.items.n, found.items.n > SHOWN ? ", the first" : ""),
                      &t);
    } else {
        ask_say(k, "%s%s: %s, %s.", first->name, found.items.n > 1 ? " and its variants" : "",
                gpu_words(k, first), first->generation);
    }
    if (k->q->asked & ASKED_PCI && alike) {
        rc = say_pci(k, &found, err);
    }
    return rc < 0 ? rc : alike && first->gfx ? say_kfd(k, first->gfx, err) : 1;
}
