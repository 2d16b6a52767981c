/* Releases of packages: what they need, and what of them serves what. */
#include "kb/ask.h"

#include <string.h>

/* The release that the question names, or the newest one that fits; NULL if none. */
static const struct kb_release *release_of(struct ask *k, const struct kb_releases *r)
{
    const struct question *q = k->q;
    const struct kb_release *best = NULL;
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_release *row = &r->rows[i];
        if (strcmp(row->package, q->package) != 0 ||
            (q->version && !ask_within(row->version, q->version))) {
            continue;
        }
        if (q->version && strcmp(row->version, q->version) == 0) {
            return row;
        }
        best = !best || ask_compare(row->version, best->version) > 0 ? row : best;
    }
    return best;
}

/* Everything known of one release: its own row, the builds and the compat row of its version. */
struct release {
    const char *name;               // "torch 2.5.1"
    const char *version;            // as precise as known, or NULL
    const struct kb_release *row;   // or NULL
    const struct kb_compat *compat; // or NULL
    const struct kb_build *build;   // the default one, or NULL
    struct kb_builds builds;
};

static void release_rest(struct ask *k, const struct kb_compats *c, struct release *ret)
{
    const char *package = k->q->package;
    for (size_t i = 0; ret->version && i < ret->builds.n; i++) {
        const struct kb_build *b = &ret->builds.rows[i];
        if (strcmp(b->package, package) == 0 && b->is_default &&
            ask_admits(k, b->versions, ret->version)) {
            ret->build = b;
        }
    }
    for (size_t i = 0; ret->version && i < c->n; i++) {
        if (strcmp(c->rows[i].package, package) == 0 &&
            ask_admits(k, c->rows[i].versions, ret->version)) {
            ret->compat = &c->rows[i];
        }
    }
}

static int release_find(struct ask *k, struct release *ret, struct gm_err *err)
{
    struct kb_releases r;
    struct kb_compats c;
    *ret = (struct release){.name = NULL};
    int rc = kb_releases(k->kb, &r, err);
    rc = rc < 0 ? rc : kb_compats(k->kb, &c, err);
    rc = rc < 0 ? rc : kb_builds(k->kb, &ret->builds, err);
    if (rc < 0) {
        return rc;
    }
    ret->row = release_of(k, &r);
    ret->version = ret->row ? ret->row->version : k->q->version;
    ret->name = arena_printf(k->a, "%s %s", k->q->package, ret->version ? ret->version : "");
    release_rest(k, &c, ret);
    return 0;
}

static void release_hits(struct ask *k, const struct release *r)
{
    if (r->row) {
        HIT(k, KB_AREA_RELEASES, r->row);
    }
    if (r->build) {
        HIT(k, KB_AREA_BUILDS, r->build);
    }
    if (r->compat) {
        HIT(k, KB_AREA_COMPATS, r->compat);
    }
}

static const char *cuda_of(struct ask *k, const struct release *r)
{
    if (r->row && r->row->cuda && strchr(r->row->cuda, '.')) {
        return r->row->cuda;
    }
    if (r->build && r->build->cuda) {
        return r->build->cuda;
    }
    if (r->row && r->row->cuda) {
        return r->row->cuda;
    }
    return r->compat && r->compat->cuda_major > 0 ? arena_printf(k->a, "%d", r->compat->cuda_major)
                                                  : NULL;
}

static const char *cudnn_of(const struct release *r)
{
    if (r->row && r->row->cudnn) {
        return r->row->cudnn;
    }
    if (r->build && r->build->cudnn) {
        return r->build->cudnn;
    }
    return r->compat ? r->compat->cudnn : NULL;
}

/* The builds of a release, filtered by the CUDA or ROCm of the question. */
static bool build_asked(struct ask *k, const struct release *r, const struct kb_build *b)
{
    const struct question *q = k->q;
    return r->version && strcmp(b->package, q->package) == 0 &&
           ask_admits(k, b->versions, r->version) && (!q->cuda || ask_within(b->cuda, q->cuda)) &&
           (!q->rocm || ask_within(b->rocm, q->rocm));
}

static void say_build(struct ask *k, const struct release *r, const struct kb_build *b)
{
    HIT(k, KB_AREA_BUILDS, b);
    ask_say(k, "%s, build %s%s%s%s%s.", r->name, b->build, b->is_default ? " (default)" : "",
            b->status == KB_STATUS_EXPERIMENTAL ? " (experimental)" : "",
            b->cudnn ? ": cuDNN " : "", b->cudnn ? b->cudnn : "");
}

/* Every build but the default one; for CUDA (rocm false) or for ROCm. */
static void say_builds_of(struct ask *k, const struct release *r, bool rocm, bool with_default)
{
    for (size_t i = 0; i < r->builds.n; i++) {
        const struct kb_build *b = &r->builds.rows[i];
        if (build_asked(k, r, b) && (b->rocm != NULL) == rocm && (with_default || !b->is_default)) {
            say_build(k, r, b);
        }
    }
}

static int say_cudnn(struct ask *k, const struct release *r)
{
    const char *cudnn = cudnn_of(r);
    if (k->q->cuda) {
        say_builds_of(k, r, false, true);
        return k->answer->known;
    }
    if (cudnn) {
        ask_say(k, "%s goes with cuDNN %s.", r->name, cudnn);
        say_builds_of(k, r, false, false);
    } else if (r->build && r->build->origin.note) {
        ask_say(k, "%s: %s", r->name, r->build->origin.note); // a row without cuDNN says why
    }
    return k->answer->known;
}

static int say_cuda(struct ask *k, const struct release *r)
{
    const char *cuda = cuda_of(k, r);
    if (cuda) {
        ask_say(k, "%s goes with CUDA %s.", r->name, cuda);
    }
    say_builds_of(k, r, false, false);
    return k->answer->known;
}

static int say_rocm(struct ask *k, const struct release *r)
{
    say_builds_of(k, r, true, true);
    return k->answer->known;
}

static int say_python(struct ask *k, const struct release *r)
{
    if (r->row) {
        ask_say(k, "%s has wheels for Python %s%s%s.", r->name, ask_joined(k->a, r->row->pythons),
                r->row->python ? " and declares " : "", r->row->python ? r->row->python : "");
    } else if (r->build && r->build->python) {
        ask_say(k, "%s supports Python %s.", r->name, r->build->python);
    }
    return k->answer->known;
}

static int say_glibc(struct ask *k, const struct release *r)
{
    if (r->row && r->row->glibc) {
        ask_say(k, "The wheel of %s is tagged for glibc %s or later.", r->name, r->row->glibc);
    } else if (r->row) {
        ask_say(k, "The wheel of %s is for any platform.", r->name);
    }
    return k->answer->known;
}

static int say_driver(struct ask *k, const struct release *r, struct gm_err *err)
{
    struct kb_drivers d;
    const char *cuda = cuda_of(k, r);
    int rc = cuda ? kb_drivers(k->kb, &d, err) : 0;
    const struct kb_driver *floor = cuda && rc == 0 ? ask_floor(k, &d, cuda) : NULL;
    if (rc < 0 || !floor) {
        return rc;
    }
    ask_say(k, "%s goes with CUDA %s.", r->name, cuda);
    ask_say_floor(k, floor);
    return 1;
}

static const char *platform_text(struct ask *k, const struct kb_build *b)
{
    const char *text = ask_joined(k->a, b->sm);
    text = b->ptx.n ? arena_printf(k->a, "%s and PTX %s", text, ask_joined(k->a, b->ptx)) : text;
    return b->ptx_isa ? arena_printf(k->a, "%s (ISA %s)", text, b->ptx_isa) : text;
}

static int say_architectures(struct ask *k, const struct release *r)
{
    for (size_t i = 0; r->version && i < r->builds.n; i++) {
        const struct kb_build *b = &r->builds.rows[i];
        if (!build_asked(k, r, b) || (b->sm.n == 0 && b->gfx.n == 0)) {
            continue;
        }
        HIT(k, KB_AREA_BUILDS, b);
        ask_say(k, "%s, build %s%s: %s.", r->name, b->build, b->is_default ? " (default)" : "",
                b->gfx.n ? ask_joined(k->a, b->gfx) : platform_text(k, b));
    }
    return k->answer->known;
}

/* One property of a release: "which cuDNN does torch 2.5.1 use". */
int form_property(struct ask *k, struct gm_err *err)
{
    struct release r;
    int rc = release_find(k, &r, err);
    if (rc < 0) {
        return rc;
    }
    const struct question *q = k->q;
    int answered = 0;
    if (question_has(q, "rocm")) {
        answered = say_rocm(k, &r);
    } else if (question_has(q, "cudnn")) {
        answered = question_has(q, "builds build") ? say_cuda(k, &r) : say_cudnn(k, &r);
    } else if (question_has(q, "driver")) {
        answered = say_driver(k, &r, err);
    } else if (question_has(q, "architecture architectures arch archs sm kernels gpus")) {
        answered = say_architectures(k, &r);
    } else if (question_has(q, "cuda toolkit builds build")) {
        answered = say_cuda(k, &r);
    } else if (question_has(q, "python pythons")) {
        answered = say_python(k, &r);
    } else if (question_has(q, "glibc manylinux")) {
        answered = say_glibc(k, &r);
    }
    if (answered > 0) {
        release_hits(k, &r);
    }
    return answered;
}

static const char *need_text(struct ask *k, const struct kb_release_need *n)
{
    const char *text = arena_printf(k->a, "%s%s%s", n->package, n->versions ? " " : "",
                                    n->versions ? n->versions : "");
    text = n->extra ? arena_printf(k->a, "%s (with the extra %s)", text, n->extra) : text;
    return n->when ? arena_printf(k->a, "%s (if %s)", text, n->when) : text;
}

/* "what does ctranslate2 4.5.0 need" */
int form_release(struct ask *k, struct gm_err *err)
{
    struct release r;
    if (k->q->n_rest > 0 &&
        !question_has(k->q, "need needs require requires requirements dependencies")) {
        return 0; // something else is wanted than what a release needs
    }
    int rc = release_find(k, &r, err);
    if (rc < 0 || (!r.row && !r.compat && !r.build)) {
        return rc;
    }
    release_hits(k, &r);
    (void)say_python(k, &r);
    (void)say_glibc(k, &r);
    const char *cuda = cuda_of(k, &r);
    if (cuda) {
        ask_say(k, "It goes with CUDA %s.", cuda);
    }
    (void)say_cudnn(k, &r);
    const char *needs = "";
    for (size_t i = 0; r.row && i < r.row->n_needs; i++) {
        needs = arena_printf(k->a, "%s%s%s", needs, i ? "; " : "", need_text(k, &r.row->needs[i]));
    }
    if (needs[0]) {
        ask_say(k, "It requires %s.", needs);
    }
    for (size_t i = 0; r.compat && i < r.compat->n_needs && !needs[0]; i++) {
        ask_say(k, "It needs %s%s%s.", r.compat->needs[i].package,
                r.compat->needs[i].versions ? " " : "",
                r.compat->needs[i].versions ? r.compat->needs[i].versions : "");
    }
    if (r.compat && r.compat->origin.note) {
        ask_say(k, "%s", r.compat->origin.note);
    }
    return 1;
}

static bool say_need(struct ask *k, const struct release *r, const char *other)
{
    bool found = false;
    for (size_t i = 0; i < r->row->n_needs; i++) {
        if (strcmp(r->row->needs[i].package, other) == 0) {
            ask_say(k, "%s requires %s.", r->name, need_text(k, &r->row->needs[i]));
            found = true;
        }
    }
    return found;
}

/* The other way round: which releases of `other` admit this one. */
static bool say_needed_by(struct ask *k, const struct kb_releases *all, const struct release *r,
                          const char *other)
{
    enum { SHOWN = 6 };
    size_t found = 0;
    for (size_t i = all->n; i-- > 0;) {
        const struct kb_release *row = &all->rows[i];
        for (size_t n = 0; strcmp(row->package, other) == 0 && n < row->n_needs; n++) {
            const struct kb_release_need *need = &row->needs[n];
            if (strcmp(need->package, k->q->package) == 0 && need->versions &&
                ask_admits(k, need->versions, r->version) && found++ < SHOWN) {
                HIT(k, KB_AREA_RELEASES, row);
                ask_say(k, "%s %s requires %s.", other, row->version, need_text(k, need));
            }
        }
    }
    if (found > SHOWN) {
        ask_say(k, "So do %zu more releases of %s.", found - SHOWN, other);
    }
    return found > 0;
}

/* "which ctranslate2 does whisperx 3.8.6 need", "which torchvision goes with torch 2.5.1" */
int form_need(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    struct release r;
    int rc = kb_releases(k->kb, &all, err);
    rc = rc < 0 ? rc : release_find(k, &r, err);
    if (rc < 0 || !r.row) {
        return rc;
    }
    bool asked = k->q->version || strcmp(k->q->words[0], "does") == 0;
    for (size_t o = 0; asked && o < k->q->n_others; o++) {
        if (!say_need(k, &r, k->q->others[o]) && !say_needed_by(k, &all, &r, k->q->others[o])) {
            ask_say(k, "%s does not declare %s among what is gathered here.", r.name,
                    k->q->others[o]);
        }
    }
    if (k->answer->known) {
        release_hits(k, &r);
    }
    return k->answer->known;
}

/* "which is the last ctranslate2 3.x" */
int form_newest(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    int rc = kb_releases(k->kb, &all, err);
    const struct kb_release *row = rc < 0 ? NULL : release_of(k, &all);
    if (!row) {
        return rc;
    }
    HIT(k, KB_AREA_RELEASES, row);
    ask_say(k, "%s %s is the newest%s%s gathered here.", row->package, row->version,
            k->q->version ? " of " : "", k->q->version ? k->q->version : "");
    return 1;
}

/* "does torch 2.5.1 have wheels for Python 3.13", "which torch for Python 3.8" */
int form_python(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    struct release r;
    int rc = kb_releases(k->kb, &all, err);
    rc = rc < 0 ? rc : release_find(k, &r, err);
    if (rc < 0) {
        return rc;
    }
    const struct question *q = k->q;
    if (q->version && r.row) {
        HIT(k, KB_AREA_RELEASES, r.row);
        ask_say(k, "%s %s a wheel for Python %s.", r.name,
                ask_has_text(r.row->pythons, q->python) ? "has" : "has not", q->python);
        return 1;
    }
    const struct kb_release *first = NULL, *last = NULL;
    for (size_t i = 0; i < all.n; i++) {
        const struct kb_release *row = &all.rows[i];
        if (strcmp(row->package, q->package) == 0 && ask_has_text(row->pythons, q->python)) {
            first = !first || ask_compare(row->version, first->version) < 0 ? row : first;
            last = !last || ask_compare(row->version, last->version) > 0 ? row : last;
        }
    }
    if (!first) {
        return 0;
    }
    HIT(k, KB_AREA_RELEASES, first);
    HIT(k, KB_AREA_RELEASES, last);
    ask_say(k, "%s has wheels for Python %s from %s to %s, as far as gathered here.", q->package,
            q->python, first->version, last->version);
    return 1;
}
