/* What releases require of other packages, and which releases admit one. */
#include "kb/ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "py/requirement.h"

bool ask_need_holds(struct ask *k, const struct kb_release_need *n)
{
    const char *python = ask_given(k, KEY_PYTHON);
    const struct py_marker *marker;
    if (!python || !n->when || py_marker_parse(k->a, str_of(n->when), &marker, NULL) < 0) {
        return true;
    }
    struct py_marker_env env = {.python_version = python};
    return py_marker_eval(k->a, marker, &env) != PY_NO;
}

/* Whether a release can be installed for the Python that the question gives, if it gives one. */
static bool python_fits(struct ask *k, const struct ask_release *r)
{
    const char *python = ask_given(k, KEY_PYTHON);
    if (!python || (r->row && ask_has_text(r->row->pythons, python))) {
        return true;
    }
    ask_missing(k, "%s has no wheel for Python %s", r->name, python);
    return false;
}

/* Whether the version that the other package has is asked for is one the need admits. */
static bool say_need(struct ask *k, const struct ask_release *r, const char *other)
{
    bool found = false;
    for (size_t i = 0; r->row && i < r->row->n_needs; i++) {
        if (strcmp(r->row->needs[i].package, other) == 0 && ask_need_holds(k, &r->row->needs[i])) {
            ask_say(k, "%s%s requires %s.", k->q->said & SAID_DOES && !found ? "Yes: " : "",
                    r->name, ask_need_text(k, &r->row->needs[i]));
            found = true;
        }
    }
    for (size_t i = 0; !r->row && r->compat && i < r->compat->n_needs; i++) {
        const struct kb_need *n = &r->compat->needs[i];
        if (strcmp(n->package, other) == 0) {
            ask_say(k, "%s%s requires %s%s%s.", k->q->said & SAID_DOES ? "Yes: " : "", r->name,
                    other, n->versions ? " " : "", n->versions ? n->versions : "");
            found = true;
        }
    }
    return found;
}

/* Which NumPy a release was compiled against, where it declares none. */
static bool say_numpy(struct ask *k, const struct ask_release *r, const char *other)
{
    if (strcmp(other, "numpy") != 0 || !r->row || !r->row->numpy_abi) {
        return false;
    }
    bool any = strcmp(r->row->numpy_abi, "2") == 0;
    bool does = k->q->said & SAID_DOES;
    ask_say(k, "%s%s does not declare numpy; it was compiled against NumPy %s and %s.",
            does ? "No: " : "", r->name, r->row->numpy_abi,
            any ? "runs with numpy 1 and 2" : "needs numpy <2 where numpy is used");
    return true;
}

static int older_partner_first(const void *one, const void *two)
{
    const struct kb_release *const *a = one, *const *b = two;
    return ask_compare((*a)->version, (*b)->version);
}

/* Why a release goes with a version of a package, or NULL. */
static const char *admits_text(struct ask *k, const struct kb_release *row, const char *package,
                               const char *version)
{
    for (size_t n = 0; n < row->n_needs; n++) {
        const struct kb_release_need *need = &row->needs[n];
        if (strcmp(need->package, package) == 0) {
            bool admits =
                need->versions && ask_admits(k, need->versions, version) &&
                !(strcmp(package, "numpy") == 0 && ask_numpy_is_open(k, row, need, version));
            return admits ? arena_printf(k->a, "requires %s", ask_need_text(k, need)) : NULL;
        }
    }
    bool numpy = strcmp(package, "numpy") == 0 && row->numpy_abi &&
                 (strcmp(row->numpy_abi, "2") == 0 || strcmp(ask_major(k, version), "1") == 0);
    return numpy ? arena_printf(k->a, "was compiled against NumPy %s%s", row->numpy_abi,
                                strcmp(row->numpy_abi, "2") == 0 ? ", which runs with 1 and 2" : "")
                 : NULL;
}

/* The other way round: which releases of `other` admit this one. Neighbours with one reason are one
 * line. */
static bool say_needed_by(struct ask *k, const struct kb_releases *all,
                          const struct kb_builds *builds, const struct ask_release *r,
                          const char *other)
{
    struct ask_table t = {.heads = {"release", ""}, .columns = 2, .named = 1};
    VEC(const struct kb_release *) rows = {0};
    for (size_t i = 0; i < all->n; i++) {
        if (strcmp(all->rows[i].package, other) == 0) {
            VEC_PUSH(k->a, &rows, &all->rows[i]);
        }
    }
    if (rows.n > 0) {
        qsort(rows.items, rows.n, sizeof *rows.items, older_partner_first);
    }
    const char *last = NULL, *first = NULL;
    const char *asked = k->q->n_spans == 1 ? k->q->spans[0].from : NULL;
    bool just = false;
    for (size_t i = 0; i < rows.n; i++) {
        const struct kb_release *row = rows.items[i];
        const char *why = admits_text(k, row, k->q->package, r->version);
        just |= why && ask_needs_just(row, k->q->package, asked ? asked : r->version);
        if (why && strcmp(k->q->package, "torch") == 0 &&
            ask_two_cudnns(k, all, builds, row, r->version)) {
            why = arena_printf(k->a, "%s, but on an NVIDIA GPU two majors of cuDNN meet", why);
        }
        if (why && last && strcmp(why, last) == 0) {
            HIT(k, KB_AREA_RELEASES, row);
            t.lines.items[t.lines.n - 1].cells[0] =
                arena_printf(k->a, "%s %s to %s", other, first, row->version);
            continue;
        }
        last = why;
        first = row->version;
        if (why) {
            struct ask_line line = {.cells = {arena_printf(k->a, "%s %s", other, first), why}};
            HIT(k, KB_AREA_RELEASES, row);
            VEC_PUSH(k->a, &t.lines, line);
        }
    }
    if (t.lines.n > 0 && k->q->said & SAID_DOES) {
        ask_say(k, just ? "Yes, but not every release." : "No, but it goes with some releases.");
    }
    if (t.lines.n > 0) {
        ask_say_table(k, arena_printf(k->a, "Releases of %s that admit %s", other, r->name), &t);
    }
    return t.lines.n > 0;
}

/* torch and CTranslate2 declare nothing about each other, but load CUDA and cuDNN into one process:
 * the releases whose default builds want the same majors, or no cuDNN at all. */
static int say_same_libraries(struct ask *k, const struct kb_releases *all,
                              const struct ask_release *r, const char *other, struct gm_err *err)
{
    struct kb_builds builds;
    const struct kb_build *mine = r->build;
    bool pair = (strcmp(k->q->package, "torch") == 0 && strcmp(other, "ctranslate2") == 0) ||
                (strcmp(k->q->package, "ctranslate2") == 0 && strcmp(other, "torch") == 0);
    if (!pair || !mine || !mine->cuda || (!mine->cudnn && mine->sm.n == 0) ||
        kb_builds(k->kb, &builds, err) < 0) {
        return 0;
    }
    const char *list = NULL, *first, *last;
    for (size_t i = 0; i < builds.n; i++) {
        const struct kb_build *b = &builds.rows[i];
        if (strcmp(b->package, other) != 0 || !b->is_default || !b->cuda ||
            (!b->cudnn && b->sm.n == 0) || // not read: that it names no cuDNN says nothing
            strcmp(ask_major(k, b->cuda), ask_major(k, mine->cuda)) != 0 ||
            (b->cudnn && mine->cudnn &&
             strcmp(ask_major(k, b->cudnn), ask_major(k, mine->cudnn)) != 0)) {
            continue;
        }
        const char *range = ask_read_range(k, all, other, b->versions, &first, &last);
        if (range) {
            HIT(k, KB_AREA_BUILDS, b);
            list = arena_printf(k->a, "%s%s%s (CUDA %s, %s%s)", list ? list : "", list ? ", " : "",
                                range, b->cuda, b->cudnn ? "cuDNN " : "no cuDNN",
                                b->cudnn ? b->cudnn : "");
        }
    }
    if (list) {
        HIT(k, KB_AREA_BUILDS, mine);
        ask_say(k,
                "%s declares nothing about %s. By the majors of CUDA and cuDNN of the default "
                "builds (%s: CUDA %s, %s%s) these go with it: %s %s.",
                r->name, other, r->name, mine->cuda, mine->cudnn ? "cuDNN " : "no cuDNN",
                mine->cudnn ? mine->cudnn : "", other, list);
    }
    return list != NULL;
}

/* Where a package with rows is not among what a release declares, that is an answer. */
static void say_no_need(struct ask *k, const struct ask_release *r, const char *other)
{
    ask_say(k, "No: %s does not declare %s among its requirements.", r->name, other);
}

/* "which ctranslate2 does whisperx 3.8.6 need", "which torchvision goes with torch 2.5.1" */
int form_need(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    struct ask_releases mine;
    size_t before = k->answer->hits.n;
    int rc = kb_releases(k->kb, &all, err);
    rc = rc < 0 ? rc : ask_releases_find(k, &mine, err);
    bool asked = k->q->n_spans > 0 || k->q->said & SAID_DOES || k->q->others.n == 1;
    if (rc < 0 || k->missing || !asked) {
        return rc < 0 ? rc : 0;
    }
    for (size_t i = 0; i < mine.items.n; i++) {
        const struct ask_release *r = &mine.items.items[i];
        if (!python_fits(k, r)) {
            return 0;
        }
        for (size_t o = 0; (r->row || r->compat) && o < k->q->others.n; o++) {
            const char *other = k->q->others.items[o];
            bool said = say_need(k, r, other) || say_numpy(k, r, other) ||
                        say_needed_by(k, &all, &mine.builds, r, other) ||
                        (!(k->q->said & SAID_DOES) && say_same_libraries(k, &all, r, other, err));
            if (!said && (!r->row || !(k->q->said & SAID_DOES))) {
                ask_missing(k,
                            r->row ? "%s does not declare %s among its requirements"
                                   : "what %s requires of %s was not read",
                            r->name, other);
                return 0;
            }
            if (!said) {
                say_no_need(k, r, other);
            }
            ask_release_hits(k, r);
        }
    }
    return k->answer->hits.n > before;
}

/* ------------------------------------------------------------------ libraries as packages */

/* "nccl" of "nvidia-nccl-cu12", "nvrtc" of "nvidia-cuda-nvrtc". */
static struct str part_of_package(const char *package)
{
    if (!starts_with(package, "nvidia-")) {
        return (struct str){0};
    }
    package += strlen("nvidia-");
    package += starts_with(package, "cuda-") ? strlen("cuda-") : 0;
    const char *cu = strstr(package, "-cu1");
    return (struct str){package, cu ? (size_t)(cu - package) : strlen(package)};
}

static bool is_part(const char *package, const char *part)
{
    bool runtime = strcmp(part, "cudart") == 0;
    return str_is(part_of_package(package), runtime ? "runtime" : part);
}

/* "does torch 2.5.1 bundle cuDNN": what a wheel has in itself was read of none, but one that
 * declares the library's own package relies on that. */
int form_contains(struct ask *k, struct gm_err *err)
{
    struct ask_releases mine;
    const char *part = ask_given(k, KEY_PART);
    int rc = ask_releases_find(k, &mine, err), found = 0;
    part = part ? part : "cudnn";
    for (size_t i = 0; rc == 0 && !k->missing && i < mine.items.n; i++) {
        const struct ask_release *r = &mine.items.items[i];
        const struct kb_release_need *need = NULL;
        for (size_t n = 0; r->row && n < r->row->n_needs; n++) {
            const struct kb_release_need *one = &r->row->needs[n];
            need = !one->extra && is_part(one->package, part) ? one : need;
        }
        if (!need) {
            ask_missing(k, "whether the wheel of %s contains %s was not read", r->name, part);
            return 0;
        }
        HIT(k, KB_AREA_RELEASES, r->row);
        ask_say(k, "No: %s requires %s, which contains it.", r->name, ask_need_text(k, need));
        found = 1;
    }
    return rc < 0 ? rc : found;
}

/* "which NCCL does torch 2.7.1 use": the package of the library that a release requires. */
int form_part_need(struct ask *k, struct gm_err *err)
{
    struct ask_releases mine;
    const char *part = ask_given(k, KEY_PART);
    int rc = ask_releases_find(k, &mine, err), found = 0;
    for (size_t i = 0; rc == 0 && !k->missing && i < mine.items.n; i++) {
        const struct ask_release *r = &mine.items.items[i];
        const char *toolkit = NULL;
        bool said = false;
        for (size_t n = 0; r->row && n < r->row->n_needs; n++) {
            const struct kb_release_need *need = &r->row->needs[n];
            toolkit = strcmp(need->package, "cuda-toolkit") == 0 ? need->versions : toolkit;
            if (is_part(need->package, part)) {
                HIT(k, KB_AREA_RELEASES, r->row);
                ask_say(k, "%s%s requires %s.", k->q->said & SAID_DOES && !said ? "Yes: " : "",
                        r->name, ask_need_text(k, need));
                said = true;
            }
        }
        if (!said && toolkit) {
            ask_missing(k,
                        "%s requires cuda-toolkit %s; which release of %s that brings was not read",
                        r->name, toolkit, part);
            return 0;
        }
        if (!said && form_opens(k, err) > 0) {
            return 1; // "which cuDNN does ctranslate2 4.3 load"
        }
        if (!said) {
            ask_missing(k, "%s does not declare a package of %s among its requirements", r->name,
                        part);
            return 0;
        }
        found = 1;
    }
    return rc < 0 ? rc : found;
}
