/* Releases of cuDNN: their packages, the CUDA and the GPUs that they serve. */
#include <stdlib.h>
#include <string.h>

#include "kb/ask.h"
#include "py/version.h"

static void say_cudnn_packages(struct ask *k, const struct kb_releases *r)
{
    const char *cudnn = ask_given(k, KEY_CUDNN);
    const struct kb_release *newest[3] = {NULL, NULL, NULL};
    static const char *const packages[] = {"nvidia-cudnn-cu11", "nvidia-cudnn-cu12",
                                           "nvidia-cudnn-cu13"};
    bool any = false;
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_release *row = &r->rows[i];
        for (size_t p = 0; p < 3; p++) {
            if (strcmp(row->package, packages[p]) == 0 && ask_within(row->version, cudnn) &&
                (!newest[p] || ask_compare(row->version, newest[p]->version) > 0)) {
                newest[p] = row;
            }
        }
    }
    for (size_t p = 0; p < 3; p++) {
        if (newest[p]) {
            HIT(k, KB_AREA_RELEASES, newest[p]);
            ask_say(k, "cuDNN %s is published for CUDA %s as %s %s.", cudnn, packages[p] + 15,
                    packages[p], newest[p]->version);
            any = true;
        }
    }
    if (any) {
        ask_say(k, "Its support matrix was not read: it may support other CUDA releases as well.");
    }
}

static void say_cudnn_members(struct ask *k, const struct kb_families *f)
{
    const char *id = arena_printf(k->a, "cudnn-%s", ask_major(k, ask_given(k, KEY_CUDNN)));
    for (size_t i = 0; i < f->n; i++) {
        const struct kb_family *row = &f->rows[i];
        if (strcmp(row->id, id) == 0) {
            HIT(k, KB_AREA_FAMILIES, row);
            ask_say(k, "%s consists of %s.", row->title, ask_joined(k->a, row->members));
        }
    }
}

/* Whether a matrix has the GPUs of the question: a capability, or all of a generation. */
static enum py_answer cudnn_has_gpu(struct ask *k, const struct kb_cudnn *row, const char *sm,
                                    const struct kb_gpus *gpus)
{
    const char *generation = ask_given(k, KEY_GENERATION);
    if (sm) {
        return ask_has_text(row->sm, sm) ? PY_YES : PY_NO;
    }
    for (size_t i = 0; generation && i < gpus->n; i++) {
        const struct kb_gpu *g = &gpus->rows[i];
        if (strcmp(g->generation, generation) == 0 && g->kind == KB_GPU_CARD && g->capability &&
            ask_has_text(row->sm, g->capability)) {
            return PY_YES;
        }
    }
    return generation ? PY_NO : PY_YES;
}

static bool cudnn_named(struct ask *k, const struct kb_cudnn *row)
{
    const char *cuda = ask_given(k, KEY_CUDA);
    return ask_within(row->cudnn, ask_given(k, KEY_CUDNN)) &&
           (!cuda ||
            (strchr(cuda, '.') ? ask_has_text(row->cuda, cuda) : atoi(cuda) == row->cuda_major));
}

/* Names the nearest that were read. */
static void say_matrix_not_read(struct ask *k, const struct kb_cudnns *c)
{
    const char *given = ask_given(k, KEY_CUDNN), *below = NULL, *above = NULL;
    for (size_t i = 0; i < c->n; i++) {
        const char *cudnn = c->rows[i].cudnn;
        if (ask_compare(cudnn, given) < 0) {
            below = !below || ask_compare(cudnn, below) > 0 ? cudnn : below;
        } else {
            above = !above || ask_compare(cudnn, above) < 0 ? cudnn : above;
        }
    }
    ask_missing(k, "the support matrix of cuDNN %s was not read; the nearest that were: %s%s%s",
                given, below ? below : "", below && above ? " and " : "", above ? above : "");
}

/* "does cuDNN 9.10.2 still list Pascal" */
static int say_cudnn_does(struct ask *k, const struct kb_cudnns *c, const char *sm,
                          const struct kb_gpus *gpus)
{
    const struct kb_cudnn *seen = NULL, *with = NULL;
    const char *cuda = ask_given(k, KEY_CUDA), *generation = ask_given(k, KEY_GENERATION);
    for (size_t i = 0; i < c->n; i++) {
        const struct kb_cudnn *row = &c->rows[i];
        if (!ask_within(row->cudnn, ask_given(k, KEY_CUDNN))) {
            continue;
        }
        seen = row;
        with =
            cudnn_named(k, row) && cudnn_has_gpu(k, row, sm, gpus) == PY_YES && !with ? row : with;
    }
    const char *given = ask_given(k, KEY_CUDNN);
    if (!seen) {
        say_matrix_not_read(k, c);
        return 0;
    }
    if (!with && !strchr(given, '.')) { // releases of a major differ in this
        ask_missing(k, "no support matrix of cuDNN %s that was read says so", given);
        return 0;
    }
    const struct kb_cudnn *row = with ? with : seen;
    HIT(k, KB_AREA_CUDNNS, row);
    ask_say(k, "%s: the support matrix of cuDNN %s %s%s%s%s%s.%s%s", with ? "Yes" : "No",
            row->cudnn, with ? "lists " : "does not list ",
            sm           ? arena_printf(k->a, "compute capability %s", sm)
            : generation ? generation
                         : "",
            (sm || generation) && cuda ? " with " : "", cuda ? "CUDA " : "", cuda ? cuda : "",
            with && row->origin.note ? " " : "", with && row->origin.note ? row->origin.note : "");
    return 1;
}

static void add_cudnn(struct ask *k, struct ask_table *t, const struct kb_cudnn *row)
{
    HIT(k, KB_AREA_CUDNNS, row);
    struct ask_line line = {
        .cells = {arena_printf(k->a, "cuDNN %s for CUDA %d", row->cudnn, row->cuda_major),
                  ask_joined(k->a, row->cuda), row->linux_min, row->windows_min,
                  ask_joined(k->a, row->sm)}};
    VEC_PUSH(k->a, &t->lines, line);
}

/* "which CUDA does cuDNN 9.17 support", "what does cuDNN 9.10.2 need for sm_120" */
int form_cudnn(struct ask *k, struct gm_err *err)
{
    struct kb_cudnns c;
    struct kb_releases r;
    struct kb_families f;
    struct kb_gpus gpus;
    struct ask_arch arch;
    struct ask_table t = {.heads = {"cuDNN", "CUDA", "Linux driver from", "Windows driver from",
                                    "compute capability"},
                          .columns = 5,
                          .named = 1};
    int rc = kb_cudnns(k->kb, &c, err);
    rc = rc < 0 ? rc : kb_releases(k->kb, &r, err);
    rc = rc < 0 ? rc : kb_families(k->kb, &f, err);
    rc = rc < 0 ? rc : kb_gpus(k->kb, &gpus, err);
    rc = rc < 0 ? rc : ask_arch_find(k, &arch, err);
    if (rc < 0 || k->missing || arch.gfx) {
        return rc < 0 ? rc : 0;
    }
    bool gpu = arch.sm || ask_given(k, KEY_GENERATION);
    if (k->q->asked & ASKED_PARTS) {
        size_t before = k->answer->hits.n;
        say_cudnn_members(k, &f);
        return k->answer->hits.n > before;
    }
    if (k->q->said & SAID_DOES) {
        return gpu || ask_given(k, KEY_CUDA) ? say_cudnn_does(k, &c, arch.sm, &gpus) : 0;
    }
    for (size_t i = 0; i < c.n; i++) {
        if (cudnn_named(k, &c.rows[i]) && cudnn_has_gpu(k, &c.rows[i], arch.sm, &gpus) == PY_YES) {
            add_cudnn(k, &t, &c.rows[i]);
        }
    }
    size_t before = k->answer->hits.n;
    if (t.lines.n > 0) {
        ask_say_table(
            k, arena_printf(k->a, "Support matrices of cuDNN %s", ask_given(k, KEY_CUDNN)), &t);
    }
    if (!(k->q->asked & (ASKED_DRIVER | ASKED_ARCH)) && !gpu) {
        say_cudnn_packages(k, &r);
    }
    if (t.lines.n == 0 && k->answer->hits.n == before) {
        say_matrix_not_read(k, &c);
    }
    return t.lines.n > 0 || k->answer->hits.n > before;
}

static int older_cudnn_first(const void *one, const void *two)
{
    const struct kb_cudnn *const *a = one, *const *b = two;
    return ask_compare((*a)->cudnn, (*b)->cudnn);
}

/* "which cuDNN goes with CUDA 12.4": of the support matrices that were read. */
int form_cudnn_of_cuda(struct ask *k, struct gm_err *err)
{
    struct kb_cudnns c;
    struct ask_arch arch;
    const char *cuda = ask_given(k, KEY_CUDA), *list = "", *first = NULL, *last = NULL;
    int rc = kb_cudnns(k->kb, &c, err);
    rc = rc < 0 ? rc : ask_arch_find(k, &arch, err);
    if (rc < 0 || k->missing || arch.gfx) {
        return rc < 0 ? rc : 0;
    }
    VEC(const struct kb_cudnn *) rows = {0};
    for (size_t i = 0; i < c.n; i++) {
        const struct kb_cudnn *row = &c.rows[i];
        bool has = true;
        if (cuda) {
            has = strchr(cuda, '.') ? ask_has_text(row->cuda, cuda) : atoi(cuda) == row->cuda_major;
        }
        if (has && (!arch.sm || ask_has_text(row->sm, arch.sm))) {
            VEC_PUSH(k->a, &rows, row);
        }
    }
    if (rows.n > 0) {
        qsort(rows.items, rows.n, sizeof *rows.items, older_cudnn_first);
    }
    for (size_t i = 0; i < rows.n; i++) {
        const char *version = rows.items[i]->cudnn;
        HIT(k, KB_AREA_CUDNNS, rows.items[i]);
        if (!last || strcmp(version, last) != 0) {
            list = arena_printf(k->a, "%s%s%s", list, list[0] ? ", " : "", version);
        }
        first = first ? first : version;
        last = version;
    }
    if (!first) {
        return 0;
    }
    const char *what = cuda ? arena_printf(k->a, "CUDA %s", cuda) : "";
    what = arch.sm
               ? arena_printf(k->a, "%s%scompute capability %s", what, cuda ? " for " : "", arch.sm)
               : what;
    if (k->q->said & (SAID_FIRST | SAID_LAST)) {
        ask_say(k,
                "Of the support matrices that were read that of cuDNN %s is the %s that lists %s.",
                k->q->said & SAID_FIRST ? first : last,
                k->q->said & SAID_FIRST ? "first" : "newest", what);
    } else {
        ask_say(k, "Of the support matrices that were read those of cuDNN %s list %s.", list, what);
    }
    return 1;
}
