/* Which releases of a package a question is about: one, a range, or the newest of a series. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "kb/ask.h"

/* "2.8" and "2.8.0" are a series and its first release; "2.8.1" is neither. */
static bool is_series_start(const char *version)
{
    const char *dot = strchr(version, '.');
    dot = dot ? strchr(dot + 1, '.') : NULL;
    return !dot || strspn(dot, ".0") == strlen(dot);
}

static const char *series_of(struct ask *k, const char *version)
{
    size_t n = strcspn(version, ".");
    return version[n] ? arena_strndup(k->a, version, n + 1 + strcspn(version + n + 1, "."))
                      : version;
}

/* Order of two versions, of which the second may be a series that the first is in. */
static int compare_within(const char *version, const char *part)
{
    return ask_within(version, part) ? 0 : ask_compare(version, part);
}

bool ask_in_span(const char *version, const struct question_span *s)
{
    int low = s->from ? compare_within(version, s->from) : 1;
    int high = s->to ? compare_within(version, s->to) : -1;
    return (low > 0 || (low == 0 && !s->above_from)) && (high < 0 || (high == 0 && !s->below_to));
}

static bool span_is_one(const struct question_span *s)
{
    return s->from && s->to && strcmp(s->from, s->to) == 0;
}

static int older_first(const void *one, const void *two)
{
    const struct ask_release *a = one, *b = two;
    return ask_compare(a->version, b->version);
}

static void release_add(struct ask *k, struct ask_releases *all, const char *version,
                        const struct kb_release *row)
{
    for (size_t i = 0; i < all->items.n; i++) {
        if (strcmp(all->items.items[i].version, version) == 0) {
            return;
        }
    }
    struct ask_release r = {.name = arena_printf(k->a, "%s %s", k->q->package, version),
                            .version = version,
                            .row = row};
    VEC_PUSH(k->a, &all->items, r);
}

/* The newest release that was read of a series, or of all; an exact one comes first. */
static const struct kb_release *read_release(struct ask *k, const struct kb_releases *all,
                                             const char *version)
{
    const struct kb_release *best = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        if (strcmp(row->package, k->q->package) != 0 ||
            (version && !ask_within(row->version, version) &&
             ask_compare(row->version, version) != 0)) {
            continue;
        }
        bool series = version && strchr(version, '.') == strrchr(version, '.');
        if (version && !series && ask_compare(row->version, version) == 0) {
            return row;
        }
        best = !best || ask_compare(row->version, best->version) > 0 ? row : best;
    }
    return best;
}

/* "3.3.1 and 3.3.3": the nearest releases on either side of one that was not read. */
static void say_not_read(struct ask *k, const struct kb_releases *all, const char *version)
{
    const struct kb_release *below = NULL, *above = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        if (strcmp(row->package, k->q->package) != 0) {
            continue;
        }
        if (ask_compare(row->version, version) < 0) {
            below = !below || ask_compare(row->version, below->version) > 0 ? row : below;
        } else {
            above = !above || ask_compare(row->version, above->version) < 0 ? row : above;
        }
    }
    const char *near = below && above
                           ? arena_printf(k->a, "%s and %s", below->version, above->version)
                       : below ? below->version
                       : above ? above->version
                               : NULL;
    ask_missing(k, "%s %s was not read%s%s", k->q->package, version,
                near ? "; the nearest that were: " : "", near ? near : "");
}

/* A row about this one version: "==3.1.1". */
static bool names_version(const char *set, const char *version)
{
    return starts_with(set, "==") && strcmp(set + strlen("=="), version) == 0;
}

/* Whether builds are described for a version, and no release of its series was read, which would
 * show that this one is none. */
static bool is_described(struct ask *k, const struct kb_builds *b, const struct kb_compats *c,
                         const char *version)
{
    for (size_t i = 0; i < b->n; i++) {
        if (strcmp(b->rows[i].package, k->q->package) == 0 &&
            ask_admits(k, b->rows[i].versions, version)) {
            return is_series_start(version) || names_version(b->rows[i].versions, version);
        }
    }
    for (size_t i = 0; i < c->n; i++) {
        if (strcmp(c->rows[i].package, k->q->package) == 0 &&
            ask_admits(k, c->rows[i].versions, version)) {
            return is_series_start(version) || names_version(c->rows[i].versions, version);
        }
    }
    return false;
}

static void add_span(struct ask *k, const struct kb_releases *all, const struct kb_compats *c,
                     const struct question_span *span, struct ask_releases *ret)
{
    if (span_is_one(span)) {
        const struct kb_release *row = read_release(k, all, span->from);
        bool series_read = read_release(k, all, series_of(k, span->from)) != NULL;
        if (row) {
            release_add(k, ret, row->version, row);
        } else if (!series_read && is_described(k, &ret->builds, c, span->from)) {
            release_add(k, ret, span->from, NULL);
        } else {
            say_not_read(k, all, span->from);
        }
        return;
    }
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        if (strcmp(row->package, k->q->package) == 0 && ask_in_span(row->version, span)) {
            release_add(k, ret, row->version, row);
        }
    }
    const char *const ends[] = {span->from, span->to};
    for (size_t i = 0; i < 2; i++) {
        bool there = ends[i] && read_release(k, all, series_of(k, ends[i]));
        bool outside = i == 0 ? span->above_from : span->below_to;
        if (ends[i] && !outside && !there && is_described(k, &ret->builds, c, ends[i])) {
            release_add(k, ret, ends[i], NULL);
        }
    }
}

static void release_rest(struct ask *k, const struct kb_compats *c, const struct kb_builds *builds,
                         struct ask_release *ret)
{
    const char *package = k->q->package;
    for (size_t i = 0; i < builds->n; i++) {
        const struct kb_build *b = &builds->rows[i];
        if (strcmp(b->package, package) == 0 && b->is_default &&
            ask_admits(k, b->versions, ret->version)) {
            ret->build = b;
        }
    }
    for (size_t i = 0; i < c->n; i++) {
        if (strcmp(c->rows[i].package, package) == 0 &&
            ask_admits(k, c->rows[i].versions, ret->version)) {
            ret->compat = &c->rows[i];
        }
    }
}

int ask_releases_find(struct ask *k, struct ask_releases *ret, struct gm_err *err)
{
    struct kb_releases r;
    struct kb_compats c;
    *ret = (struct ask_releases){0};
    int rc = kb_releases(k->kb, &r, err);
    rc = rc < 0 ? rc : kb_compats(k->kb, &c, err);
    rc = rc < 0 ? rc : kb_builds(k->kb, &ret->builds, err);
    if (rc < 0) {
        return rc;
    }
    const struct kb_release *newest = k->q->n_spans ? NULL : read_release(k, &r, NULL);
    if (newest) {
        release_add(k, ret, newest->version, newest);
    }
    for (size_t i = 0; i < k->q->n_spans; i++) {
        add_span(k, &r, &c, &k->q->spans[i], ret);
    }
    if (ret->items.n > 0) {
        qsort(ret->items.items, ret->items.n, sizeof *ret->items.items, older_first);
    }
    for (size_t i = 0; i < ret->items.n; i++) {
        release_rest(k, &c, &ret->builds, &ret->items.items[i]);
    }
    return 0;
}

void ask_release_hits(struct ask *k, const struct ask_release *r)
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

void ask_range_add(struct ask_range *r, const char *first, const char *last)
{
    r->first = !r->first || ask_compare(first, r->first) < 0 ? first : r->first;
    r->last = !r->last || ask_compare(last, r->last) > 0 ? last : r->last;
}

const char *ask_range_text(struct ask *k, const struct ask_range *r)
{
    bool one = !r->first || strcmp(r->first, r->last) == 0;
    return one ? r->first : arena_printf(k->a, "%s to %s", r->first, r->last);
}

const char *ask_read_range(struct ask *k, const struct kb_releases *all, const char *package,
                           const char *set, const char **ret_first, const char **ret_last)
{
    struct ask_range range = {0};
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        if (strcmp(row->package, package) == 0 && ask_admits(k, set, row->version)) {
            ask_range_add(&range, row->version, row->version);
        }
    }
    *ret_first = range.first;
    *ret_last = range.last;
    return ask_range_text(k, &range);
}
