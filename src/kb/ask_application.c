/* Which build of an application fits, through the engine that it computes with. */
#include <stdlib.h>
#include <string.h>

#include "kb/ask.h"
#include "kb/build_fits.h"
#include "py/version.h"

static const struct kb_release_need *release_need(const struct kb_release *row, const char *package)
{
    for (size_t i = 0; i < row->n_needs; i++) {
        if (strcmp(row->needs[i].package, package) == 0 && !row->needs[i].extra) {
            return &row->needs[i];
        }
    }
    return NULL;
}

/* Whether a release takes this ctranslate2 as far as the faster-whisper decides that it requires as
 * well: "<4.5.0" of whisperx and ">=4.0" of every faster-whisper that it admits. */
static bool admits_through(struct ask *k, const struct data *d, const struct kb_release *app,
                           const char *engine)
{
    const struct kb_release_need *through = release_need(app, "faster-whisper");
    bool known = false;
    for (size_t i = 0; through && i < d->releases.n; i++) {
        const struct kb_release *row = &d->releases.rows[i];
        const struct kb_release_need *need = release_need(row, "ctranslate2");
        if (strcmp(row->package, "faster-whisper") != 0 || !need ||
            (through->versions && !ask_admits(k, through->versions, row->version))) {
            continue;
        }
        if (!need->versions || ask_admits(k, need->versions, engine)) {
            return true;
        }
        known = true;
    }
    return !known;
}

/* Whether a release of ctranslate2 that it admits has a build that fits (PY_YES), or a default one
 * that does not (PY_NO). */
static bool engine_fits(struct ask *k, const struct data *d, const struct wanted *w,
                        const struct kb_release *app, const char *versions, enum py_answer fits)
{
    for (size_t i = 0; i < d->releases.n; i++) {
        const struct kb_release *row = &d->releases.rows[i];
        if (strcmp(row->package, "ctranslate2") != 0 ||
            (versions && !ask_admits(k, versions, row->version)) ||
            !admits_through(k, d, app, row->version)) {
            continue;
        }
        for (size_t b = 0; b < d->builds.n; b++) {
            const struct kb_build *build = &d->builds.rows[b];
            if (strcmp(build->package, "ctranslate2") == 0 &&
                ask_admits(k, build->versions, row->version) &&
                (fits == PY_YES || build->is_default) && ask_build_fits(k, d, build, w) == fits) {
                HIT(k, KB_AREA_BUILDS, build);
                return true;
            }
        }
    }
    return false;
}

static const char *engine_need(const struct kb_release *row, bool *ret_needs)
{
    for (size_t i = 0; i < row->n_needs; i++) {
        if (strcmp(row->needs[i].package, "ctranslate2") == 0) {
            *ret_needs = true;
            return row->needs[i].versions;
        }
    }
    *ret_needs = false;
    return NULL;
}

/* The set of torch that a release requires, if none of its builds has the cuDNN that is given: the
 * two then want different ones in one process. NULL: there is one, or it is not known. */
static const char *torch_against_cudnn(struct ask *k, const struct data *d,
                                       const struct kb_release *row, const char *cudnn)
{
    const char *set = NULL;
    bool known = false;
    for (size_t i = 0; cudnn && i < row->n_needs; i++) {
        const struct kb_release_need *need = &row->needs[i];
        set = strcmp(need->package, "torch") == 0 && !need->extra ? need->versions : set;
    }
    for (size_t i = 0; set && i < d->releases.n; i++) {
        const struct kb_release *torch = &d->releases.rows[i];
        if (strcmp(torch->package, "torch") != 0 || !ask_admits(k, set, torch->version)) {
            continue;
        }
        for (size_t b = 0; b < d->builds.n; b++) {
            const struct kb_build *build = &d->builds.rows[b];
            if (strcmp(build->package, "torch") == 0 && build->cudnn &&
                ask_admits(k, build->versions, torch->version)) {
                known = true;
                if (strcmp(ask_major(k, build->cudnn), ask_major(k, cudnn)) == 0) {
                    return NULL;
                }
            }
        }
    }
    return known ? set : NULL;
}

/* Which builds of ctranslate2 these are, where they are not those of the package index. */
static void say_engines(struct ask *k)
{
    for (size_t i = 0; i < k->answer->hits.n; i++) {
        const struct kb_hit *hit = &k->answer->hits.items[i];
        const struct kb_build *b = hit->area == KB_AREA_BUILDS ? hit->row : NULL;
        if (b && !b->is_default && b->origin.note) {
            ask_say(k, "%s %s, build %s: %s", b->package, b->versions, b->build, b->origin.note);
        }
    }
}

static int older_release_first(const void *one, const void *two)
{
    const struct kb_release *const *a = one, *const *b = two;
    return ask_compare((*a)->version, (*b)->version);
}

int ask_say_application(struct ask *k, const struct data *d, const struct wanted *w)
{
    VEC(const struct kb_release *) mine = {0};
    struct ask_table t = {.heads = {"releases", "requires"}, .columns = 2, .named = 1};
    bool needs, any = false, without = false;
    for (size_t i = 0; i < d->releases.n; i++) {
        const struct kb_release *row = &d->releases.rows[i];
        bool in = k->q->n_spans == 0 ||
                  (k->q->n_spans == 1 && ask_in_span(row->version, &k->q->spans[0]));
        (void)engine_need(row, &needs);
        if (strcmp(row->package, k->q->package) == 0 && needs && in) {
            VEC_PUSH(k->a, &mine, row);
        }
    }
    if (mine.n == 0) {
        return 0;
    }
    qsort(mine.items, mine.n, sizeof *mine.items, older_release_first);
    const char *last_need = NULL, *first = NULL, *against = NULL;
    const struct kb_release *against_row = NULL;
    for (size_t i = 0; i < mine.n; i++) {
        const struct kb_release *row = mine.items[i];
        const char *need = engine_need(row, &needs);
        if (!engine_fits(k, d, w, row, need, PY_YES)) {
            last_need = NULL;
            continue;
        }
        const char *torch = torch_against_cudnn(k, d, row, w->cudnn);
        if (torch) {
            against = torch;
            against_row = row;
            last_need = NULL;
            continue;
        }
        any = true;
        without = without || (question_needs(k->q) && engine_fits(k, d, w, row, need, PY_NO));
        HIT(k, KB_AREA_RELEASES, row);
        const char *text = need ? need : "any";
        if (last_need && strcmp(last_need, text) == 0) {
            t.lines.items[t.lines.n - 1].cells[0] =
                arena_printf(k->a, "%s %s to %s", k->q->package, first, row->version);
            continue;
        }
        last_need = text;
        first = row->version;
        struct ask_line line = {.cells = {arena_printf(k->a, "%s %s", k->q->package, first),
                                          arena_printf(k->a, "ctranslate2 %s", text)}};
        VEC_PUSH(k->a, &t.lines, line);
    }
    if (!any && against) {
        HIT(k, KB_AREA_RELEASES, against_row);
        ask_say(k,
                "%s: %s %s admits a ctranslate2%s, but no torch %s, which it requires as well, has "
                "a build%s.",
                k->q->said & SAID_DOES ? "No" : "None", against_row->package, against_row->version,
                ask_wanted_text(k, w), against, ask_wanted_text(k, w));
        return 1;
    }
    if (!any && w->platform && strcmp(w->platform, ARM) == 0) {
        HIT(k, KB_AREA_RELEASES, mine.items[mine.n - 1]);
        ask_say(k, "%s: no build of ctranslate2 that was read has GPU code for linux-aarch64.",
                k->q->said & SAID_DOES ? "No" : "None");
        return 1;
    }
    if (!any) {
        HIT(k, KB_AREA_RELEASES, mine.items[mine.n - 1]);
        ask_say(k, "%s: no release of %s%s that was read admits a ctranslate2%s.",
                k->q->said & SAID_DOES ? "No" : "None", k->q->package, ask_version_asked(k),
                ask_wanted_text(k, w));
        return 1;
    }
    if (k->q->said & SAID_DOES && without) {
        ask_say(k, "No, it does not have to be: it admits a ctranslate2%s, and others.",
                ask_wanted_text(k, w));
    } else if (k->q->said & SAID_DOES) {
        ask_say(k, "Yes, with a ctranslate2%s that it admits.", ask_wanted_text(k, w));
    }
    ask_say_table(k,
                  arena_printf(k->a, "Releases of %s that admit a ctranslate2%s", k->q->package,
                               ask_wanted_text(k, w)),
                  &t);
    say_engines(k);
    return 1;
}
