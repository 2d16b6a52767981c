/* GPUs by name and PCI id, gfx targets and ROCm. */
#include "kb/ask.h"

#include <string.h>

#include "base/str.h"

/* ------------------------------------------------------------------ GPUs by name */

/* Words of a question that say nothing about which GPU is meant. */
static const char no_gpu[] = " nvidia amd gpu gpus card cards graphics capability compute target "
                             "targets architecture llvm pci id device ati arch memory vram driver "
                             "cuda rocm gfx sm version kfd report integrated generation ";
/* Words of a name that people leave out. */
static const char brands[] = " geforce radeon instinct tesla nvidia amd generation ";

struct tokens {
    struct str items[24];
    size_t n;
};

static bool word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool listed(const char *list, struct str word)
{
    for (const char *at = list; *at; at++) {
        if (*at == ' ' && str_eq_nocase((struct str){at + 1, strcspn(at + 1, " ")}, word)) {
            return true;
        }
    }
    return false;
}

/* Runs of letters and runs of digits, so that "RTX3060" and "6 GB" are what "RTX 3060" and "6GB"
 * are; words of `without` are left out. */
static void tokens_add(struct tokens *t, const char *text, const char *without)
{
    while (*text && t->n < sizeof t->items / sizeof *t->items) {
        size_t whole = 0;
        while (word_char(text[whole])) {
            whole++;
        }
        bool skip = whole == 0 || listed(without, (struct str){text, whole});
        size_t n = skip ? whole + (whole == 0) : 1;
        while (!skip && n < whole && str_is_digit(text[n]) == str_is_digit(text[n - 1])) {
            n++;
        }
        if (!skip && !listed(without, (struct str){text, n})) {
            t->items[t->n++] = (struct str){text, n};
        }
        text += n;
    }
}

static bool tokens_has(const struct tokens *t, struct str word)
{
    for (size_t i = 0; i < t->n; i++) {
        if (str_eq_nocase(t->items[i], word)) {
            return true;
        }
    }
    return false;
}

static bool tokens_within(const struct tokens *part, const struct tokens *whole)
{
    for (size_t i = 0; i < part->n; i++) {
        if (!tokens_has(whole, part->items[i])) {
            return false;
        }
    }
    return part->n > 0;
}

static bool has_digit(const struct tokens *t)
{
    for (size_t i = 0; i < t->n; i++) {
        for (size_t c = 0; c < t->items[i].n; c++) {
            if (str_is_digit(t->items[i].s[c])) {
                return true;
            }
        }
    }
    return false;
}

static const char *gpu_value(const struct kb_gpu *g)
{
    return g->capability ? g->capability : g->gfx;
}

/* Cards whose name has every word asked for; if some have no other words, only those. Without a
 * digit among the words ("TITAN V") nothing less will do. */
static void gpus_named(struct ask *k, const struct kb_gpus *gpus, const struct tokens *asked,
                       const struct tokens *bare, struct ask_gpus *ret)
{
    bool exact = !has_digit(asked);
    size_t before = ret->items.n;
    for (size_t i = 0; i < gpus->n; i++) {
        const struct kb_gpu *g = &gpus->rows[i];
        struct tokens all = {.n = 0}, name = {.n = 0};
        tokens_add(&all, g->name, "");
        tokens_add(&all, g->vendor == KB_VENDOR_AMD ? "amd radeon" : "nvidia", "");
        tokens_add(&name, g->name, brands);
        bool same = bare->n == name.n && tokens_within(&name, bare);
        if (!tokens_within(asked, &all) || (exact && !same)) {
            continue;
        }
        ret->items.n = same && !exact ? before : ret->items.n;
        exact = exact || same;
        VEC_PUSH(k->a, &ret->items, g);
    }
}

/* Whether a word is part of any GPU's name. */
static bool in_a_name(const struct kb_gpus *gpus, const char *word)
{
    struct tokens wanted = {.n = 0};
    tokens_add(&wanted, word, "");
    for (size_t i = 0; i < gpus->n; i++) {
        struct tokens name = {.n = 0};
        tokens_add(&name, gpus->rows[i].name, "");
        if (tokens_within(&wanted, &name)) {
            return true;
        }
    }
    return false;
}

/* The words of the question that name nothing else, in pieces between "/". Where the question is
 * about more than the GPU (`loose`), words that occur in no name are passed over. */
static void gpus_by_name(struct ask *k, const struct kb_gpus *gpus, bool loose,
                         struct ask_gpus *ret)
{
    const struct question *q = k->q;
    const char *without = arena_printf(k->a, "%s%s", no_gpu, brands);
    for (size_t from = 0, to; from < q->n_rest; from = to + 1) {
        struct tokens asked = {.n = 0}, bare = {.n = 0};
        for (to = from; to < q->n_rest && strcmp(q->rest[to], "/") != 0; to++) {
            if (!loose || (!strchr(q->rest[to], '.') && in_a_name(gpus, q->rest[to]))) {
                tokens_add(&asked, q->rest[to], no_gpu);
                tokens_add(&bare, q->rest[to], without);
            }
        }
        gpus_named(k, gpus, &asked, &bare, ret);
    }
}

static void gpus_by_pci(struct ask *k, const struct kb_gpus *gpus, struct ask_gpus *ret)
{
    const struct question *q = k->q;
    for (size_t i = 0; i < gpus->n; i++) {
        const struct kb_gpu *g = &gpus->rows[i];
        const char *vendor = g->vendor == KB_VENDOR_AMD ? "1002" : "10de";
        if (strcmp(vendor, q->pci_vendor) == 0 && ask_has_text(g->pci, q->pci_device)) {
            VEC_PUSH(k->a, &ret->items, g);
        }
    }
}

int ask_gpus_find(struct ask *k, bool loose, struct ask_gpus *ret, struct gm_err *err)
{
    struct kb_gpus gpus;
    int rc = kb_gpus(k->kb, &gpus, err);
    if (rc < 0) {
        return rc;
    }
    if (k->q->pci_vendor) {
        gpus_by_pci(k, &gpus, ret);
    } else {
        gpus_by_name(k, &gpus, loose, ret);
    }
    return 0;
}

bool ask_gpus_alike(const struct ask_gpus *found)
{
    for (size_t i = 1; i < found->items.n; i++) {
        if (strcmp(gpu_value(found->items.items[0]), gpu_value(found->items.items[i])) != 0) {
            return false;
        }
    }
    return found->items.n > 0;
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

/* "compute capability of RTX 3060", "10de:2504"; cards that differ are named one by one. */
int form_gpu(struct ask *k, struct gm_err *err)
{
    struct ask_gpus found = {{0}};
    int rc = ask_gpus_find(k, false, &found, err);
    if (rc < 0 || found.items.n == 0) {
        return rc;
    }
    const struct kb_gpu *first = found.items.items[0];
    bool alike = ask_gpus_alike(&found);
    for (size_t i = 0; i < found.items.n; i++) {
        const struct kb_gpu *g = found.items.items[i];
        HIT(k, KB_AREA_GPUS, g);
        if (!alike && i < 12) {
            ask_say(k, "%s: %s, %s.", g->name, gpu_words(k, g), g->generation);
        }
    }
    if (alike) {
        ask_say(k, "%s%s: %s, %s.", first->name, found.items.n > 1 ? " and its variants" : "",
                gpu_words(k, first), first->generation);
    }
    return alike && first->gfx ? say_kfd(k, first->gfx, err) : 1;
}

/* ------------------------------------------------------------------ ROCm */

static void say_target(struct ask *k, const struct kb_rocm *row)
{
    HIT(k, KB_AREA_ROCMS, row);
    ask_say(k, "%s (%s): %s. KFD reports it as %d.%s%s", row->id, row->generation, row->products,
            row->kfd, row->origin.note ? " " : "", row->origin.note ? row->origin.note : "");
}

static void say_override(struct ask *k, const struct kb_rocm *row)
{
    HIT(k, KB_AREA_ROCMS, row);
    ask_say(k, "HSA_OVERRIDE_GFX_VERSION=%s is %s: %s", row->override,
            row->verdict == KB_VERDICT_UNSAFE ? "wrong here"
                                              : "an override to the same instruction set",
            row->origin.note);
}

static void say_support(struct ask *k, const struct kb_rocms *r)
{
    const char *in = "", *gfx = k->q->gfx;
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_rocm *row = &r->rows[i];
        if (row->kind != KB_ROCM_RELEASE || !ask_has_text(row->gfx, gfx)) {
            continue;
        }
        HIT(k, KB_AREA_ROCMS, row);
        in = arena_printf(k->a, "%s%s%s", in, in[0] ? ", " : "", row->rocm);
    }
    if (in[0]) {
        ask_say(k, "The official lists of ROCm %s have it.", in);
    } else {
        ask_say(k, "No official list of a ROCm release known here has it.");
    }
}

/* Whether a release's own list has a target; only for releases that have a row. */
static int say_release_support(struct ask *k, const struct kb_rocms *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_rocm *row = &r->rows[i];
        if (row->kind == KB_ROCM_RELEASE && ask_within(k->q->rocm, row->rocm)) {
            HIT(k, KB_AREA_ROCMS, row);
            ask_say(k, "The official list of ROCm %s %s %s.", row->rocm,
                    ask_has_text(row->gfx, k->q->gfx) ? "has" : "does not have", k->q->gfx);
        }
    }
    return k->answer->known;
}

/* "gfx1010", "does ROCm 6.3 support gfx1031" */
int form_gfx(struct ask *k, struct gm_err *err)
{
    struct kb_rocms r;
    int rc = kb_rocms(k->kb, &r, err);
    if (rc < 0 || (k->q->rocm && !k->q->package)) {
        return rc < 0 ? rc : say_release_support(k, &r);
    }
    for (size_t i = 0; i < r.n; i++) {
        const struct kb_rocm *row = &r.rows[i];
        if (row->kind == KB_ROCM_TARGET && ask_has_text(row->gfx, k->q->gfx)) {
            say_target(k, row);
            say_support(k, &r);
        }
    }
    for (size_t i = 0; k->answer->known && i < r.n; i++) {
        const struct kb_rocm *row = &r.rows[i];
        if (row->kind == KB_ROCM_OVERRIDE && ask_has_text(row->gfx, k->q->gfx)) {
            say_override(k, row);
        }
    }
    return k->answer->known;
}

/* "which gfx target is gfx_target_version 100302" */
int form_kfd(struct ask *k, struct gm_err *err)
{
    struct kb_rocms r;
    int rc = kb_rocms(k->kb, &r, err);
    for (size_t i = 0; rc == 0 && i < r.n; i++) {
        if (r.rows[i].kind == KB_ROCM_TARGET && ask_has_code(k->q, r.rows[i].kfd)) {
            say_target(k, &r.rows[i]);
        }
    }
    return rc < 0 ? rc : k->answer->known;
}

int form_rocm(struct ask *k, struct gm_err *err)
{
    struct kb_rocms r;
    int rc = kb_rocms(k->kb, &r, err);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < r.n; i++) {
        const struct kb_rocm *row = &r.rows[i];
        if (row->kind == KB_ROCM_RELEASE &&
            (ask_within(row->rocm, k->q->rocm) || ask_within(k->q->rocm, row->rocm))) {
            HIT(k, KB_AREA_ROCMS, row);
            ask_say(k, "The official list of ROCm %s: %s.%s%s", row->rocm,
                    ask_joined(k->a, row->gfx), row->origin.note ? " " : "",
                    row->origin.note ? row->origin.note : "");
        }
    }
    return k->answer->known;
}
