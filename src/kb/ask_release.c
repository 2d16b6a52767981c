/*
 * Which release of a package is the newest or the oldest that serves a Python, a glibc or a cuDNN.
 */
#include <string.h>

#include "kb/ask.h"

/* ------------------------------------------------------------------ needs */

static void say_compat(struct ask *k, const struct kb_compat *compat, bool needs)
{
    for (size_t i = 0; needs && i < compat->n_needs; i++) {
        const struct kb_need *n = &compat->needs[i];
        ask_say(k, "It needs %s%s%s.", n->package, n->versions ? " " : "",
                n->versions ? n->versions : "");
    }
    if (compat->origin.note) {
        ask_say(k, "%s", compat->origin.note);
    }
}

static void say_release(struct ask *k, const struct ask_release *r)
{
    const char *cuda = ask_build_cuda(k, r), *cudnn = ask_build_cudnn(r), *needs = "";
    if (r->row) {
        ask_say(k, "%s has wheels for Python %s%s%s.", r->name, ask_joined(k->a, r->row->pythons),
                r->row->python ? " and declares " : "", r->row->python ? r->row->python : "");
        bool any = !r->row->glibc && !ask_libraries_glibc(r);
        ask_say(k,
                any                      ? "Its wheel is for %s platform."
                : ask_tag_is_doubtful(r) ? "Its glibc is %s."
                                         : "It needs glibc %s.",
                ask_glibc_text(k, r));
    }
    if (cuda) {
        ask_say(k, "%s goes with CUDA %s.", r->name, cuda);
    }
    if (cudnn) {
        ask_say(k, "%s goes with cuDNN %s.", r->name, cudnn);
    } else if (r->build && r->build->origin.note) {
        ask_say(k, "%s: %s", r->name, r->build->origin.note);
    }
    for (size_t i = 0; r->row && i < r->row->n_needs; i++) {
        needs =
            arena_printf(k->a, "%s%s%s", needs, i ? "; " : "", ask_need_text(k, &r->row->needs[i]));
    }
    if (needs[0]) {
        ask_say(k, "It requires %s.", needs);
    }
    if (r->compat) {
        say_compat(k, r->compat, !needs[0]);
    }
}

/* "what does ctranslate2 4.5.0 need" */
int form_release(struct ask *k, struct gm_err *err)
{
    struct ask_releases all;
    int found = 0;
    int rc = ask_releases_find(k, &all, err);
    if (rc < 0 || k->missing) {
        return rc < 0 ? rc : 0;
    }
    for (size_t i = 0; i < all.items.n; i++) {
        const struct ask_release *r = &all.items.items[i];
        if (r->row || r->compat || r->build) {
            ask_release_hits(k, r);
            say_release(k, r);
            found = 1;
        }
    }
    return found;
}

/* ------------------------------------------------------------------ the newest, Python */

static const struct kb_release *extreme_release(struct ask *k, const struct kb_releases *all,
                                                bool first)
{
    const struct kb_release *best = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        const char *python = ask_given(k, KEY_PYTHON);
        bool in = k->q->n_spans == 0 || ask_in_span(row->version, &k->q->spans[0]);
        if (strcmp(row->package, k->q->package) == 0 && in &&
            (!python || ask_has_text(row->pythons, python)) &&
            (!best || (ask_compare(row->version, best->version) < 0) == first)) {
            best = row;
        }
    }
    return best;
}

/* "which is the last ctranslate2 3.x" */
int form_newest(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    int rc = kb_releases(k->kb, &all, err);
    bool first = k->q->said & SAID_FIRST;
    if (rc < 0 || !(k->q->said & (SAID_FIRST | SAID_LAST))) {
        return rc < 0 ? rc : 0;
    }
    const struct kb_release *row = extreme_release(k, &all, first);
    if (!row) {
        return 0;
    }
    HIT(k, KB_AREA_RELEASES, row);
    ask_say(k, "%s %s is the %s%s%s that was read.", row->package, row->version,
            first ? "oldest" : "newest", k->q->version ? " of " : "",
            k->q->version ? k->q->version : "");
    return 1;
}

static int say_python_of(struct ask *k, const struct ask_releases *all, const char *python)
{
    for (size_t i = 0; i < all->items.n; i++) {
        const struct ask_release *r = &all->items.items[i];
        if (!r->row) {
            return 0;
        }
        bool has = ask_has_text(r->row->pythons, python);
        HIT(k, KB_AREA_RELEASES, r->row);
        ask_say(k, "%s: %s %s a wheel for Python %s.", has ? "Yes" : "No", r->name,
                has ? "has" : "does not have", python);
    }
    return 1;
}

/* "does torch 2.5.1 have wheels for Python 3.13", "which torch for Python 3.8" */
int form_python(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    struct ask_releases mine;
    const char *python = ask_given(k, KEY_PYTHON);
    int rc = kb_releases(k->kb, &all, err);
    rc = rc < 0 ? rc : ask_releases_find(k, &mine, err);
    bool quantified = k->q->said & (SAID_FIRST | SAID_LAST);
    if (rc < 0 || (k->missing && !quantified)) {
        return rc < 0 ? rc : 0;
    }
    if (k->q->n_spans > 0 && !quantified) {
        return say_python_of(k, &mine, python);
    }
    const struct kb_release *first = extreme_release(k, &all, true);
    const struct kb_release *last = extreme_release(k, &all, false);
    if (!first) {
        ask_missing(k, "no release of %s that was read has a wheel for Python %s", k->q->package,
                    python);
        return 0;
    }
    HIT(k, KB_AREA_RELEASES, first);
    HIT(k, KB_AREA_RELEASES, last);
    if (quantified && (k->q->said & (SAID_FIRST | SAID_LAST)) != (SAID_FIRST | SAID_LAST)) {
        ask_say(k, "%s %s is the %s of the releases that were read with a wheel for Python %s.",
                k->q->package, k->q->said & SAID_FIRST ? first->version : last->version,
                k->q->said & SAID_FIRST ? "first" : "newest", python);
        return 1;
    }
    const struct kb_release *newest = mine.items.n ? mine.items.items[0].row : NULL;
    bool has = newest && ask_has_text(newest->pythons, python);
    if (k->q->said & SAID_DOES && newest) { // what is installed without a version
        HIT(k, KB_AREA_RELEASES, newest);
        ask_say(k, "%s: %s %s, the newest that was read, %s a wheel for Python %s.",
                has ? "Yes" : "No", k->q->package, newest->version, has ? "has" : "does not have",
                python);
    }
    ask_say(k, "%s has wheels for Python %s from %s to %s, of the releases that were read.",
            k->q->package, python, first->version, last->version);
    return 1;
}

static const char *texts_missing(struct ask *k, struct kb_strs these, struct kb_strs among)
{
    const char *list = "";
    for (size_t i = 0; i < these.n; i++) {
        if (!ask_has_text(among, these.items[i])) {
            list = arena_printf(k->a, "%s%s%s", list, list[0] ? ", " : "", these.items[i]);
        }
    }
    return list;
}

/* "which Python does ctranslate2 4.6.0 add": against the release before it. */
int form_python_change(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    struct ask_releases mine;
    int rc = kb_releases(k->kb, &all, err);
    rc = rc < 0 ? rc : ask_releases_find(k, &mine, err);
    unsigned said = k->q->said & (SAID_ADDED | SAID_DROPPED);
    if (rc < 0 || k->missing || !said || mine.items.n != 1 || !mine.items.items[0].row) {
        return rc < 0 ? rc : 0;
    }
    const struct kb_release *row = mine.items.items[0].row, *before = NULL;
    for (size_t i = 0; i < all.n; i++) {
        const struct kb_release *r = &all.rows[i];
        if (strcmp(r->package, row->package) == 0 && ask_compare(r->version, row->version) < 0 &&
            (!before || ask_compare(r->version, before->version) > 0)) {
            before = r;
        }
    }
    if (!before) {
        return 0;
    }
    const char *more = texts_missing(k, row->pythons, before->pythons);
    const char *less = texts_missing(k, before->pythons, row->pythons);
    HIT(k, KB_AREA_RELEASES, row);
    HIT(k, KB_AREA_RELEASES, before);
    ask_say(k, "Against %s, the release before it that was read, %s %s has wheels", before->version,
            row->package, row->version);
    ask_say(k, "%s%s%s%s%s.",
            !(said & SAID_ADDED) ? ""
            : more[0]            ? "for Python "
                                 : "for no further Python",
            said & SAID_ADDED ? more : "", said == (SAID_ADDED | SAID_DROPPED) ? ", and " : "",
            !(said & SAID_DROPPED) ? ""
            : less[0]              ? "none any more for "
                                   : "none less",
            said & SAID_DROPPED ? less : "");
    return 1;
}

/* "which torch runs on glibc 2.17": the newest whose wheel is tagged for it. */
static int say_newest_for_glibc(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    struct kb_builds builds;
    struct ask_release best = {.row = NULL};
    const char *glibc = ask_given(k, KEY_GLIBC);
    int rc = kb_releases(k->kb, &all, err);
    rc = rc < 0 ? rc : kb_builds(k->kb, &builds, err);
    for (size_t i = 0; rc == 0 && i < all.n; i++) {
        struct ask_release r = {.row = &all.rows[i]};
        if (strcmp(r.row->package, k->q->package) != 0 ||
            (best.row && ask_compare(r.row->version, best.row->version) <= 0)) {
            continue;
        }
        for (size_t b = 0; b < builds.n && !r.build; b++) {
            const struct kb_build *row = &builds.rows[b];
            bool its = strcmp(row->package, r.row->package) == 0 && row->is_default &&
                       ask_admits(k, row->versions, r.row->version);
            r.build = its ? row : NULL;
        }
        const char *needs = ask_libraries_glibc(&r) ? ask_libraries_glibc(&r) : r.row->glibc;
        if (!needs || (!ask_tag_is_doubtful(&r) && ask_compare(glibc, needs) >= 0)) {
            best = r;
        }
    }
    if (rc < 0 || !best.row) {
        return rc;
    }
    HIT(k, KB_AREA_RELEASES, best.row);
    if (best.build) {
        HIT(k, KB_AREA_BUILDS, best.build);
    }
    const char *needs = ask_libraries_glibc(&best) ? ask_libraries_glibc(&best) : best.row->glibc;
    ask_say(k, "%s %s is the newest of those that were read whose wheel runs on glibc %s: %s%s.",
            k->q->package, best.row->version, glibc, needs ? "it needs " : "it is for any platform",
            needs ? needs : "");
    return 1;
}

/* "does torch 2.5.1 run on glibc 2.17": by what its libraries need, or the tag of its wheel. */
int form_release_glibc(struct ask *k, struct gm_err *err)
{
    struct ask_releases mine;
    const char *glibc = ask_given(k, KEY_GLIBC);
    if (!(k->q->said & SAID_DOES) && k->q->n_spans == 0) {
        return say_newest_for_glibc(k, err);
    }
    int rc = ask_releases_find(k, &mine, err);
    if (rc < 0 || k->missing || mine.items.n != 1 || !mine.items.items[0].row) {
        return rc < 0 ? rc : 0;
    }
    const struct ask_release *r = &mine.items.items[0];
    const char *needs = ask_libraries_glibc(r);
    if (needs) {
        HIT(k, KB_AREA_BUILDS, r->build);
        ask_say(k, "%s: the libraries of %s need glibc %s.",
                ask_compare(glibc, needs) >= 0 ? "Yes" : "No", r->name, needs);
        return 1;
    }
    bool runs = !r->row->glibc || ask_compare(glibc, r->row->glibc) >= 0;
    if (runs && ask_tag_is_doubtful(r)) {
        ask_missing(k,
                    "the wheel of %s is tagged for glibc %s, and what its libraries need was "
                    "not read",
                    r->name, r->row->glibc);
        return 0;
    }
    HIT(k, KB_AREA_RELEASES, r->row);
    ask_say(k, "%s: the wheel of %s is %s%s%s.", runs ? "Yes" : "No", r->name,
            r->row->glibc ? "tagged for glibc " : "for any platform",
            r->row->glibc ? r->row->glibc : "", r->row->glibc ? " or later" : "");
    return 1;
}

/* "does ctranslate2 4.8.1 need cuDNN": of the default build; one without cuDNN says so in its note.
 */
int form_needs_cudnn(struct ask *k, struct gm_err *err)
{
    struct ask_releases mine;
    int rc = ask_releases_find(k, &mine, err);
    if (rc < 0 || k->missing || mine.items.n != 1 || !(k->q->said & SAID_DOES)) {
        return rc < 0 ? rc : 0;
    }
    const struct ask_release *r = &mine.items.items[0];
    const char *cudnn = ask_build_cudnn(r), *note = r->build ? r->build->origin.note : NULL;
    if (cudnn) {
        ask_release_hits(k, r);
        ask_say(k, "Yes: %s goes with cuDNN %s.", r->name, cudnn);
        return 1;
    }
    if (note && strstr(note, "cuDNN is no")) {
        HIT(k, KB_AREA_BUILDS, r->build);
        ask_say(k, "No: %s", note);
        return 1;
    }
    ask_missing(k, "whether %s needs cuDNN was not read", r->name);
    return 0;
}
