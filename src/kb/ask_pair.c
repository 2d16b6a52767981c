/* Two packages with a release of each. */
#include "kb/ask.h"

#include <string.h>

#include "base/str.h"
#include "py/version.h"

/* ------------------------------------------------------------------ pairs */

/* Whether a set admits a version; one that names a series ("2") or a set stands for its releases
 * that were read. */
static enum py_answer set_admits(struct ask *k, const struct kb_releases *all, const char *set,
                                 const char *package, const char *version)
{
    bool series = false, admitted = false;
    for (size_t i = 0; i < all->n && !admitted; i++) {
        const struct kb_release *row = &all->rows[i];
        if (strcmp(row->package, package) == 0 && ask_version_means(k, version, row->version)) {
            series = true;
            admitted = ask_admits(k, set, row->version);
        }
    }
    if (!series && ask_is_set(version)) {
        return PY_UNKNOWN;
    }
    if (!series) {
        return ask_admits(k, set, version) ? PY_YES : PY_NO;
    }
    return admitted ? PY_YES : PY_NO;
}

struct pair {
    enum py_answer fits;
    const char *why; // "requires ctranslate2 <4.5.0"; NULL if not known
};

/* Code that was compiled against NumPy 1 does not run with 2; the other way round it does. */
static struct pair numpy_pair(struct ask *k, const struct kb_releases *all,
                              const struct kb_release *row, const char *version)
{
    if (!row->numpy_abi) {
        return (struct pair){PY_UNKNOWN, NULL};
    }
    bool any = strcmp(row->numpy_abi, "2") == 0;
    return (struct pair){any ? PY_YES : set_admits(k, all, "<2", "numpy", version),
                         arena_printf(k->a, "was compiled against NumPy %s%s", row->numpy_abi,
                                      any ? ", which runs with 1 and 2" : " and needs numpy <2")};
}

/* Whether what a release declares of a package under conditions (for some Pythons) has one answer
 * for a version whatever holds. */
static bool conditions_agree(struct ask *k, const struct kb_releases *all,
                             const struct kb_release *row, const char *package, const char *version)
{
    unsigned answers = 0;
    for (size_t i = 0; i < row->n_needs; i++) {
        const struct kb_release_need *need = &row->needs[i];
        if (strcmp(need->package, package) == 0 && !need->extra && ask_need_holds(k, need)) {
            answers |= 1U << (need->versions ? set_admits(k, all, need->versions, package, version)
                                             : PY_YES);
        }
    }
    return (answers & (answers - 1)) == 0;
}

/* Whether a release goes with a version of another package, by what it declares. */
static struct pair pair_of(struct ask *k, const struct kb_releases *all,
                           const struct kb_release *row, const char *package, const char *version)
{
    for (size_t i = 0; i < row->n_needs; i++) {
        const struct kb_release_need *need = &row->needs[i];
        if (strcmp(need->package, package) != 0 || need->extra || !ask_need_holds(k, need) ||
            (need->when && !conditions_agree(k, all, row, package, version))) {
            continue;
        }
        enum py_answer fits =
            need->versions ? set_admits(k, all, need->versions, package, version) : PY_YES;
        if (fits == PY_YES && strcmp(package, "numpy") == 0 &&
            ask_numpy_is_open(k, row, need, version)) {
            break;
        }
        return (struct pair){fits, arena_printf(k->a, "requires %s%s%s", package,
                                                need->versions ? " " : "",
                                                need->versions ? need->versions : "")};
    }
    return strcmp(package, "numpy") == 0 ? numpy_pair(k, all, row, version)
                                         : (struct pair){PY_UNKNOWN, NULL};
}

/* "does whisperx 3.4.2 work with ctranslate2 4.5.0": asked of either package. */
static bool say_pair(struct ask *k, const struct kb_releases *all, const struct kb_builds *builds,
                     const struct kb_release *row, const char *package, const char *version)
{
    struct pair p = pair_of(k, all, row, package, version);
    if (p.fits == PY_UNKNOWN) {
        return false;
    }
    const char *two = p.fits == PY_YES && k->q->said & SAID_DOES && strcmp(package, "torch") == 0
                          ? ask_two_cudnns(k, all, builds, row, version)
                          : NULL;
    if (two) {
        HIT(k, KB_AREA_RELEASES, row);
        ask_say(k,
                "No, not on an NVIDIA GPU: %s; that of ctranslate2 must be installed besides. What "
                "%s declares admits it.",
                two, row->package);
        return true;
    }
    bool needed =
        question_has(k->q, "need needs require requires") && !ask_needs_just(row, package, version);
    HIT(k, KB_AREA_RELEASES, row);
    ask_say(k, "%s: %s %s %s.",
            p.fits != PY_YES ? "No"
            : needed         ? "No, but it goes with it"
                             : "Yes",
            row->package, row->version, p.why);
    return true;
}

/* "which whisperx first required torch 2.7.1": the first release whose requirement names the
 * version as its bound. */
static int say_first_to_require(struct ask *k, const struct kb_releases *all, const char *other,
                                const char *version)
{
    const struct kb_release *first = NULL;
    const struct kb_release_need *with = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        for (size_t n = 0; strcmp(row->package, other) == 0 && n < row->n_needs; n++) {
            const struct kb_release_need *need = &row->needs[n];
            if (strcmp(need->package, k->q->package) == 0 && need->versions && !need->extra &&
                ask_needs_from(need->versions, version) &&
                (!first || ask_compare(row->version, first->version) < 0)) {
                first = row;
                with = need;
            }
        }
    }
    if (!first) {
        ask_missing(k, "no release of %s that was read requires %s %s or from it on", other,
                    k->q->package, version);
        return 0;
    }
    HIT(k, KB_AREA_RELEASES, first);
    ask_say(k,
            "%s %s is the first of the releases that were read with such a requirement: it "
            "requires %s.",
            other, first->version, ask_need_text(k, with));
    return 1;
}

/* The releases of `other` that go with a version of the package, or the first or last of them. */
static int say_partners(struct ask *k, const struct kb_releases *all, const char *other,
                        const char *version)
{
    const struct kb_release *first = NULL, *last = NULL;
    size_t unknown = 0;
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        if (strcmp(row->package, other) != 0) {
            continue;
        }
        enum py_answer fits = pair_of(k, all, row, k->q->package, version).fits;
        unknown += fits == PY_UNKNOWN;
        if (fits == PY_YES) {
            first = !first || ask_compare(row->version, first->version) < 0 ? row : first;
            last = !last || ask_compare(row->version, last->version) > 0 ? row : last;
        }
    }
    if (!first || unknown > 0) {
        ask_missing(k,
                    first ? "what some releases of %s need of %s %s was not read"
                          : "no release of %s that was read is known to go with %s %s",
                    other, k->q->package, version);
        return 0;
    }
    const struct kb_release *row = k->q->said & SAID_FIRST ? first : last;
    const char *why = pair_of(k, all, row, k->q->package, version).why;
    HIT(k, KB_AREA_RELEASES, row);
    ask_say(k, "%s %s is the %s of the releases that were read that goes with %s %s: it %s.", other,
            row->version, k->q->said & SAID_FIRST ? "first" : "newest", k->q->package, version,
            why);
    return 1;
}

/* "does torch 2.2.0 work with numpy 2", "from which torch version is numpy 2 supported" */
int form_pair(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    struct ask_releases mine;
    const struct question *q = k->q;
    int rc = kb_releases(k->kb, &all, err);
    if (rc < 0 || q->others.n != 1 || q->n_spans != 1) {
        return rc < 0 ? rc : 0;
    }
    const char *other = q->others.items[0], *version = q->other_versions[0];
    if (ask_given(k, KEY_BUILD) && strcmp(other, "numpy") != 0) {
        return 0; // builds of a release differ in what they require, but not in NumPy
    }
    if (!version) {
        const char *one = q->spans[0].from && q->spans[0].to ? q->spans[0].from : NULL;
        return !one || !(q->said & (SAID_FIRST | SAID_LAST)) ? 0
               : question_required_first(q) ? say_first_to_require(k, &all, other, one)
                                            : say_partners(k, &all, other, one);
    }
    rc = ask_releases_find(k, &mine, err);
    if (rc < 0 || k->missing || mine.items.n != 1 || !mine.items.items[0].row) {
        return rc < 0 ? rc : 0;
    }
    const struct kb_release *row = mine.items.items[0].row,
                            *partner = ask_row_of(k, &all, other, version);
    bool said = say_pair(k, &all, &mine.builds, row, other, version) ||
                (partner && say_pair(k, &all, &mine.builds, partner, q->package, row->version));
    if (!said && strcmp(other, "numpy") == 0) {
        ask_missing(k, "which NumPy %s %s was compiled against was not read", q->package,
                    row->version);
    } else if (!said) {
        ask_missing(k, "%s %s declares nothing about %s", q->package, row->version, other);
    }
    return said;
}
