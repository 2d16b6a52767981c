/* The platforms of a release's wheels. */
#include "kb/ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "py/version.h"

/* The builds of a release that are for a platform (PY_YES), or of which that is not known. */
static const char *builds_for(struct ask *k, const struct ask_releases *all, const char *version,
                              const char *platform, enum py_answer wanted)
{
    const char *list = "";
    for (size_t i = 0; i < all->builds.n; i++) {
        const struct kb_build *b = &all->builds.rows[i];
        // "platforms" are those that a page or a script names, which need not be all.
        // Its release scripts build for ROCm on x86-64 alone (generate_binary_build_matrix.py).
        bool of_rocm = b->rocm && strcmp(platform, "linux-aarch64") == 0;
        enum py_answer is = ask_has_text(b->platforms, platform) ? PY_YES
                            : of_rocm                            ? PY_NO
                                                                 : PY_UNKNOWN;
        bool elsewhere = is == PY_YES || (!b->is_default && b->index_platforms.n == 0);
        if (strcmp(b->package, k->q->package) == 0 && is == wanted && elsewhere &&
            ask_admits(k, b->versions, version)) {
            list = arena_printf(k->a, "%s%s%s", list, list[0] ? ", " : "", b->build);
            HIT(k, KB_AREA_BUILDS, b);
        }
    }
    return list;
}

/* The build that the package index serves for a platform; the default one where it is none for it;
 * NULL: not known. */
static const struct kb_build *index_build(struct ask *k, const struct kb_builds *builds,
                                          const char *version, const char *platform)
{
    const struct kb_build *other = NULL;
    for (size_t i = 0; i < builds->n; i++) {
        const struct kb_build *b = &builds->rows[i];
        if (strcmp(b->package, k->q->package) != 0 || b->index_platforms.n == 0 ||
            !ask_admits(k, b->versions, version)) {
            continue;
        }
        if (ask_has_text(b->index_platforms, platform)) {
            return b;
        }
        other = !other && b->is_default ? b : other;
    }
    return other;
}

/* ", cuda121": the other builds that the same wheel of the package index has; "": there are none.
 */
static const char *index_builds_beside(struct ask *k, const struct kb_builds *builds,
                                       const char *version, const char *platform,
                                       const struct kb_build *beside)
{
    const char *list = "";
    for (size_t i = 0; i < builds->n; i++) {
        const struct kb_build *b = &builds->rows[i];
        if (b != beside && strcmp(b->package, beside->package) == 0 &&
            ask_has_text(b->index_platforms, platform) && ask_admits(k, b->versions, version)) {
            list = arena_printf(k->a, "%s, %s", list, b->build);
            HIT(k, KB_AREA_BUILDS, b);
        }
    }
    return list;
}

/* What is known of the GPU code of a release's wheel for a platform. */
static void say_gpu_code(struct ask *k, const struct ask_releases *all, const char *version,
                         const char *platform)
{
    const char *elsewhere = builds_for(k, all, version, platform, PY_YES);
    const char *unread = builds_for(k, all, version, platform, PY_UNKNOWN);
    const struct kb_build *b = index_build(k, &all->builds, version, platform);
    if (b) {
        bool has = ask_has_text(b->index_platforms, platform);
        const char *more = has ? index_builds_beside(k, &all->builds, version, platform, b) : "";
        HIT(k, KB_AREA_BUILDS, b);
        if (more[0]) { // one wheel with a library for each
            ask_say(k, "It has the builds %s%s, for the GPU.", b->build, more);
        } else if (has) {
            ask_say(k, "It is the build %s, for the GPU.", b->build);
        } else {
            ask_say(k, "That wheel has no GPU code: the build %s is for %s.", b->build,
                    ask_joined(k->a, b->index_platforms));
        }
        if (elsewhere[0]) {
            ask_say(k, "Builds for it in the index of the project: %s.", elsewhere);
        }
        if (unread[0] && !has) {
            ask_say(k, "Whether the builds %s are for it was not read.", unread);
        }
        return;
    }
    ask_say(k, "Whether that wheel has GPU code was not read.");
}

/* Whether the wheel of a release in the package index is known to have GPU code on a platform. */
static enum py_answer gpu_code_of(struct ask *k, const struct kb_builds *builds,
                                  const char *version, const char *platform)
{
    const struct kb_build *b = index_build(k, builds, version, platform);
    return !b ? PY_UNKNOWN : ask_has_text(b->index_platforms, platform) ? PY_YES : PY_NO;
}

static int say_wheels_of(struct ask *k, const struct ask_releases *all,
                         const struct kb_release *row, const char *platform)
{
    bool gpu = k->q->asked & (ASKED_GPU | ASKED_CUDA);
    if (row->platforms.n == 0) {
        ask_missing(k, "for which platforms %s %s has wheels was not read", row->package,
                    row->version);
        return 0;
    }
    bool has = ask_has_text(row->platforms, platform);
    enum py_answer code = has ? gpu_code_of(k, &all->builds, row->version, platform) : PY_NO;
    bool index_alone = k->q->said & SAID_PIP; // "on PyPI"
    const char *elsewhere = builds_for(k, all, row->version, platform, PY_YES);
    const char *unread = index_alone ? "" : builds_for(k, all, row->version, platform, PY_UNKNOWN);
    bool known = code == PY_YES || (elsewhere[0] && !index_alone);
    if (gpu && !known && (code == PY_UNKNOWN || unread[0])) {
        ask_missing(
            k, "the wheel of %s %s for %s in the package index %s%s%s", row->package, row->version,
            platform, code == PY_NO ? "has no GPU code" : "was not read for GPU code",
            unread[0] ? "; whether the builds elsewhere are for it was not read: " : "", unread);
        return 0;
    }
    HIT(k, KB_AREA_RELEASES, row);
    const char *word = !(k->q->said & SAID_DOES) ? "" : (gpu ? known : has) ? "Yes: " : "No: ";
    ask_say(k, "%s%s %s %s a wheel for %s in the package index.", word, row->package, row->version,
            has ? "has" : "does not have", platform);
    if (has) {
        say_gpu_code(k, all, row->version, platform);
    }
    return 1;
}

/* "which architectures does torch 2.5.1 have on aarch64": of the builds for the platform.
 * Properties that rows have for x86-64 alone are not asked of it (kb/query.c). */
int form_platform(struct ask *k, struct gm_err *err)
{
    struct ask_releases mine;
    const char *platform = ask_platform(k);
    int rc = ask_releases_find(k, &mine, err);
    bool first = k->q->said & SAID_FIRST && k->q->n_spans == 0; // of no release but the newest
    if (rc < 0 || k->missing || !platform || first || mine.items.n != 1 ||
        !mine.items.items[0].row) {
        return rc < 0 ? rc : 0;
    }
    struct ask_table t = ask_property_table(k->q);
    const struct ask_release *r = &mine.items.items[0];
    bool has = ask_has_text(r->row->platforms, platform), code_unread = false;
    for (size_t i = 0; i < mine.builds.n; i++) {
        const struct kb_build *b = &mine.builds.rows[i];
        bool serves =
            ask_has_text(b->index_platforms, platform) || ask_has_text(b->platforms, platform);
        bool of_linux =
            k->q->asked & (ASKED_ARCH | ASKED_PTX) && !ask_has_text(b->index_platforms, platform);
        if (serves && ask_property_build(k, r, b)) {
            if (of_linux) {
                code_unread = true;
            } else {
                ask_property_line(k, &t, r, b);
            }
        }
    }
    const char *unread = builds_for(k, &mine, r->version, platform, PY_UNKNOWN);
    enum py_answer code = has ? gpu_code_of(k, &mine.builds, r->version, platform) : PY_NO;
    if (t.lines.n == 0 && (code != PY_NO || code_unread)) {
        ask_missing(k, "what the wheel of %s for %s has was not read", r->name, platform);
        return 0;
    }
    if (t.lines.n == 0 && unread[0]) {
        ask_missing(k,
                    "the wheel of %s for %s in the package index has no GPU code; whether the "
                    "builds %s of other indexes are for it was not read",
                    r->name, platform, unread);
        return 0;
    }
    if (t.lines.n > 0) {
        ask_say_table(k, arena_printf(k->a, "%s on %s", r->name, platform), &t);
    } else {
        HIT(k, KB_AREA_RELEASES, r->row);
        ask_say(k, "None: %s has %s for %s in the package index.", r->name,
                has ? "a wheel without GPU code, for the CPU alone," : "no wheel", platform);
    }
    if (unread[0]) {
        ask_say(k, "Whether the builds %s of other indexes are for it was not read.", unread);
    }
    return 1;
}

static int older_row_first(const void *one, const void *two)
{
    const struct kb_release *const *a = one, *const *b = two;
    return ask_compare((*a)->version, (*b)->version);
}

/* Of all releases: the ranges with a wheel, or the first or last. */
static int say_wheel_ranges(struct ask *k, const struct kb_releases *all, const char *platform)
{
    VEC(const struct kb_release *) rows = {0};
    const char *ranges = "", *first = NULL, *last = NULL;
    for (size_t i = 0; i < all->n; i++) {
        if (strcmp(all->rows[i].package, k->q->package) == 0 && all->rows[i].platforms.n > 0) {
            VEC_PUSH(k->a, &rows, &all->rows[i]);
        }
    }
    if (rows.n == 0) {
        ask_missing(k, "for which platforms %s has wheels was not read", k->q->package);
        return 0;
    }
    qsort(rows.items, rows.n, sizeof *rows.items, older_row_first);
    for (size_t i = 0; i < rows.n;) {
        size_t end = i;
        while (end < rows.n && ask_has_text(rows.items[end]->platforms, platform)) {
            end++;
        }
        if (end == i) {
            i++;
            continue;
        }
        const char *from = rows.items[i]->version, *to = rows.items[end - 1]->version;
        first = first ? first : from;
        last = to;
        ranges = arena_printf(k->a, "%s%s%s%s%s", ranges, ranges[0] ? ", " : "", from,
                              end - i > 1 ? " to " : "", end - i > 1 ? to : "");
        i = end;
    }
    HIT(k, KB_AREA_RELEASES, rows.items[rows.n - 1]);
    bool does = k->q->said & SAID_DOES;
    if (!first) {
        ask_say(k,
                "%s: no release of %s that was read (%s to %s) has a wheel for %s in the package "
                "index.",
                does ? "No" : "None", k->q->package, rows.items[0]->version,
                rows.items[rows.n - 1]->version, platform);
    } else if (k->q->said & (SAID_FIRST | SAID_LAST)) {
        ask_say(k, "%s %s is the %s of the releases that were read with a wheel for %s.",
                k->q->package, k->q->said & SAID_FIRST ? first : last,
                k->q->said & SAID_FIRST ? "first" : "newest", platform);
    } else {
        ask_say(k,
                "%s%s has wheels for %s in the package index: %s, of the releases that were "
                "read (%s to %s).",
                does ? "Yes: " : "", k->q->package, platform, ranges, rows.items[0]->version,
                rows.items[rows.n - 1]->version);
    }
    return 1;
}

/* "2.11.0 to 2.15.0" and the like: the releases, oldest first, whose wheel in the package index is
 * known to have GPU code (PY_YES), to have none, or of which that was not read. */
static const char *gpu_ranges(struct ask *k, const struct kb_builds *builds,
                              const struct kb_release *const *rows, size_t n, const char *platform,
                              enum py_answer wanted)
{
    const char *ranges = "";
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && gpu_code_of(k, builds, rows[end]->version, platform) == wanted) {
            end++;
        }
        if (end > i) {
            ranges =
                arena_printf(k->a, "%s%s%s%s%s", ranges, ranges[0] ? ", " : "", rows[i]->version,
                             end - i > 1 ? " to " : "", end - i > 1 ? rows[end - 1]->version : "");
            HIT(k, KB_AREA_RELEASES, rows[end - 1]);
        }
        i = end > i ? end : i + 1;
    }
    return ranges;
}

/* The first or the newest of the releases whose wheel is known to have GPU code; there is one. */
static const char *gpu_end(struct ask *k, const struct kb_builds *builds,
                           const struct kb_release *const *rows, size_t n, const char *platform,
                           bool first)
{
    size_t at = first ? 0 : n - 1;
    while (gpu_code_of(k, builds, rows[at]->version, platform) != PY_YES) {
        at = first ? at + 1 : at - 1;
    }
    return rows[at]->version;
}

/* "which torch versions have GPU support on aarch64": of all releases with a wheel for it. */
static int say_gpu_wheels(struct ask *k, const struct kb_releases *all,
                          const struct kb_builds *builds, const char *platform)
{
    VEC(const struct kb_release *) rows = {0};
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        if (strcmp(row->package, k->q->package) == 0 && ask_has_text(row->platforms, platform)) {
            VEC_PUSH(k->a, &rows, row);
        }
    }
    if (rows.n == 0) {
        return 0;
    }
    qsort(rows.items, rows.n, sizeof *rows.items, older_row_first);
    const char *with = gpu_ranges(k, builds, rows.items, rows.n, platform, PY_YES);
    const char *without = gpu_ranges(k, builds, rows.items, rows.n, platform, PY_NO);
    const char *unread = gpu_ranges(k, builds, rows.items, rows.n, platform, PY_UNKNOWN);
    unsigned order = k->q->said & (SAID_FIRST | SAID_LAST);
    if (!with[0] && unread[0]) {
        ask_missing(k, "whether the wheels of %s for %s have GPU code was not read", k->q->package,
                    platform);
        return 0;
    }
    if (order && with[0]) {
        ask_say(k,
                "%s %s is the %s whose wheel for %s in the package index is known to have GPU "
                "code.",
                k->q->package,
                gpu_end(k, builds, rows.items, rows.n, platform, order == SAID_FIRST),
                order == SAID_FIRST ? "first" : "newest", platform);
    } else if (with[0]) {
        ask_say(k, "%s%s wheels for %s in the package index with GPU code: %s.",
                k->q->said & SAID_DOES ? "Yes: " : "", k->q->package, platform, with);
    } else {
        ask_say(k, "%s: no wheel of %s for %s in the package index has GPU code.",
                k->q->said & SAID_DOES ? "No" : "None", k->q->package, platform);
    }
    if (without[0] && with[0]) {
        ask_say(k, "Without: %s.", without);
    }
    if (unread[0]) {
        ask_say(k, "Not read: %s.", unread);
    }
    return 1;
}

/* "does ctranslate2 4.6.0 have wheels for aarch64", "which torch has wheels for Windows" */
int form_wheels(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    struct ask_releases mine;
    const char *platform = ask_platform(k);
    int rc = kb_releases(k->kb, &all, err);
    rc = rc < 0 ? rc : ask_releases_find(k, &mine, err);
    bool which_cuda = k->q->asked & ASKED_CUDA && !(k->q->said & SAID_DOES);
    if (rc < 0 || !platform || which_cuda || (k->missing && k->q->n_spans > 0)) {
        return rc < 0 ? rc : 0;
    }
    if (k->q->n_spans == 1 && mine.items.n == 1 && mine.items.items[0].row) {
        return say_wheels_of(k, &mine, mine.items.items[0].row, platform);
    }
    if (k->q->n_spans > 0) {
        return 0; // what a range of wheels contains was not read
    }
    if (k->q->asked & (ASKED_GPU | ASKED_CUDA) &&
        (k->q->asked & ASKED_RELEASE || k->q->said & ORDER || !(k->q->said & SAID_DOES))) {
        return say_gpu_wheels(k, &all, &mine.builds, platform);
    }
    if (k->q->asked & (ASKED_GPU | ASKED_CUDA)) { // of the newest alone
        return mine.items.n == 1 && mine.items.items[0].row && !(k->q->said & ORDER)
                   ? say_wheels_of(k, &mine, mine.items.items[0].row, platform)
                   : 0;
    }
    rc = say_wheel_ranges(k, &all, platform);
    if (rc == 1 && mine.items.n == 1) {
        const struct kb_release *row = mine.items.items[0].row;
        enum py_answer code = row && ask_has_text(row->platforms, platform)
                                  ? gpu_code_of(k, &mine.builds, row->version, platform)
                                  : PY_UNKNOWN;
        if (code != PY_UNKNOWN) {
            ask_say(k, "The one of %s %s has %sGPU code.", row->package, row->version,
                    code == PY_YES ? "" : "no ");
        }
    }
    return rc;
}

/* "which platforms does torch 2.9 have wheels for" */
int form_platforms(struct ask *k, struct gm_err *err)
{
    struct ask_releases mine;
    int rc = ask_releases_find(k, &mine, err), found = 0;
    for (size_t i = 0; rc == 0 && !k->missing && i < mine.items.n; i++) {
        const struct ask_release *r = &mine.items.items[i];
        if (!r->row || r->row->platforms.n == 0) {
            ask_missing(k, "for which platforms %s has wheels was not read", r->name);
            return 0;
        }
        HIT(k, KB_AREA_RELEASES, r->row);
        ask_say(k, "%s has wheels for %s in the package index.", r->name,
                ask_joined(k->a, r->row->platforms));
        found = 1;
    }
    return rc < 0 ? rc : found;
}
