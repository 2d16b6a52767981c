/* gfx targets and the ROCm releases that support them. */
#include "kb/ask.h"

#include <string.h>

#include "base/str.h"

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

/* The lists of the rows name Instinct and Radeon; of an APU they say nothing. */
#define APU_UNREAD "AMD lists Ryzen APUs apart, and that list was not read"

static bool is_apu(const struct kb_rocms *r, const char *gfx)
{
    for (size_t i = 0; i < r->n; i++) {
        if (r->rows[i].kind == KB_ROCM_TARGET && ask_has_text(r->rows[i].gfx, gfx)) {
            return r->rows[i].apu;
        }
    }
    return false;
}

static void say_support(struct ask *k, const struct kb_rocms *r, const char *gfx)
{
    const char *in = "", *from = "", *to = "";
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_rocm *row = &r->rows[i];
        if (row->kind != KB_ROCM_RELEASE) {
            continue;
        }
        to = row->rocm;
        from = from[0] ? from : row->rocm;
        if (!ask_has_text(row->gfx, gfx)) {
            continue;
        }
        HIT(k, KB_AREA_ROCMS, row);
        in = arena_printf(k->a, "%s%s%s", in, in[0] ? ", " : "", row->rocm);
    }
    bool does = k->q->said & SAID_DOES;
    if (in[0]) {
        ask_say(k, "%she official lists of ROCm %s have %s.", does ? "Yes: t" : "T", in, gfx);
    } else if (is_apu(r, gfx)) {
        ask_say(k,
                "No list of Instinct and Radeon of a ROCm release that was read (%s to %s) has "
                "%s; " APU_UNREAD ".",
                from, to, gfx);
    } else {
        ask_say(k, "%so official list of a ROCm release that was read (%s to %s) has %s.",
                does ? "No: n" : "N", from, to, gfx);
    }
}

static const struct kb_rocm *release_row(const struct kb_rocms *r, const char *rocm)
{
    for (size_t i = 0; i < r->n; i++) {
        if (r->rows[i].kind == KB_ROCM_RELEASE && ask_compare(rocm, r->rows[i].rocm) == 0) {
            return &r->rows[i];
        }
    }
    return NULL;
}

/* The lists that were read of the releases nearest to one. */
static const char *nearest_lists(struct ask *k, const struct kb_rocms *r, const char *rocm)
{
    const char *below = NULL, *above = NULL;
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_rocm *row = &r->rows[i];
        if (row->kind != KB_ROCM_RELEASE) {
            continue;
        }
        if (ask_compare(row->rocm, rocm) < 0) {
            below = !below || ask_compare(row->rocm, below) > 0 ? row->rocm : below;
        } else {
            above = !above || ask_compare(row->rocm, above) < 0 ? row->rocm : above;
        }
    }
    return arena_printf(k->a, "%s%s%s", below ? below : "", below && above ? " and " : "",
                        above ? above : "");
}

/* "what is the status of gfx906 in ROCm 6": what is noted about the target. */
static void say_status(struct ask *k, const struct kb_rocms *r, const char *gfx)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_rocm *row = &r->rows[i];
        if (row->kind == KB_ROCM_TARGET && ask_has_text(row->gfx, gfx) && row->origin.note) {
            HIT(k, KB_AREA_ROCMS, row);
            ask_say(k, "%s: %s", gfx, row->origin.note);
        }
    }
}

/* Whether a release's own list has a target; "6.4" are all of its releases that have a row. */
static int say_release_support(struct ask *k, const struct kb_rocms *r, const char *gfx)
{
    const char *rocm = ask_given(k, KEY_ROCM), *with = "", *without = "";
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_rocm *row = &r->rows[i];
        if (row->kind != KB_ROCM_RELEASE ||
            (ask_compare(rocm, row->rocm) != 0 && !ask_within(row->rocm, rocm))) {
            continue;
        }
        HIT(k, KB_AREA_ROCMS, row);
        const char **list = ask_has_text(row->gfx, gfx) ? &with : &without;
        *list = arena_printf(k->a, "%s%s%s", *list, (*list)[0] ? ", " : "", row->rocm);
    }
    if (!with[0] && !without[0]) {
        ask_missing(k, "the official list of ROCm %s was not read; the nearest that were: %s", rocm,
                    nearest_lists(k, r, rocm));
        return 0;
    }
    if (!with[0] && is_apu(r, gfx)) {
        ask_missing(k, "%s is not in the list of Instinct and Radeon of ROCm %s; " APU_UNREAD, gfx,
                    without);
        return 0;
    }
    if (with[0] && without[0]) {
        ask_say(k, "It depends: the official list of ROCm %s has %s, that of %s does not.", with,
                gfx, without);
        return 1;
    }
    bool card = with[0] && k->q->named & (NAMED_GPU | NAMED_PCI);
    if (k->q->asked & ASKED_ERROR) {
        say_status(k, r, gfx);
        ask_say(k, "The official list of ROCm %s %s %s.", with[0] ? with : without,
                with[0] ? "has" : "does not have", gfx);
        return 1;
    }
    ask_say(k, "%s: the official list of ROCm %s %s %s.",
            card      ? "Yes, by its target"
            : with[0] ? "Yes"
                      : "No",
            with[0] ? with : without, with[0] ? "has" : "does not have", gfx);
    if (card) {
        ask_say(k, "Of the cards with it AMD names some; whether this is one was not read.");
    }
    return 1;
}

/* Whether a list from one release to another has a target; without it the lists at both ends must
 * have been read. */
static int say_range_support(struct ask *k, const struct kb_rocms *r, const char *gfx)
{
    const char *range = ask_given(k, KEY_ROCM), *dots = strstr(range, "..");
    const char *from = arena_strndup(k->a, range, (size_t)(dots - range)), *to = dots + 2;
    const char *in = "", *read = "";
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_rocm *row = &r->rows[i];
        if (row->kind != KB_ROCM_RELEASE || ask_compare(row->rocm, from) < 0 ||
            ask_compare(row->rocm, to) > 0) {
            continue;
        }
        bool has = ask_has_text(row->gfx, gfx);
        HIT(k, KB_AREA_ROCMS, row);
        in = has ? arena_printf(k->a, "%s%s%s", in, in[0] ? ", " : "", row->rocm) : in;
        read = arena_printf(k->a, "%s%s%s", read, read[0] ? ", " : "", row->rocm);
    }
    bool does = k->q->said & SAID_DOES, ends = release_row(r, from) && release_row(r, to);
    if (in[0]) {
        ask_say(k, "%she official lists of ROCm %s have %s.", does ? "Yes: t" : "T", in, gfx);
    } else if (is_apu(r, gfx)) {
        ask_missing(k, "%s is in no list of Instinct and Radeon that was read; " APU_UNREAD, gfx);
        return 0;
    } else if (ends) {
        ask_say(k, "%so official list of ROCm %s has %s.", does ? "No: n" : "N", read, gfx);
    } else {
        ask_missing(k, "%s%s; that of ROCm %s was not read",
                    read[0] ? "it is not in the official lists of ROCm "
                            : "no official list was read",
                    read, release_row(r, from) ? to : from);
    }
    return in[0] || ends;
}

/* The first or the last release whose list has a target. */
static int say_extreme_rocm(struct ask *k, const struct kb_rocms *r, const char *gfx)
{
    const struct kb_rocm *best = NULL;
    bool first = k->q->said & SAID_FIRST;
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_rocm *row = &r->rows[i];
        if (row->kind == KB_ROCM_RELEASE && ask_has_text(row->gfx, gfx) &&
            (!best || (ask_compare(row->rocm, best->rocm) < 0) == first)) {
            best = row;
        }
    }
    if (!best) {
        say_support(k, r, gfx);
        return 1;
    }
    HIT(k, KB_AREA_ROCMS, best);
    ask_say(k, "Of the official lists that were read that of ROCm %s is the %s with %s.",
            best->rocm, first ? "first" : "last", gfx);
    return 1;
}

/* "which ROCm added gfx1201", "which dropped gfx906": the list that has it, or has it no longer,
 * unlike the one before it. */
static int say_rocm_change(struct ask *k, const struct kb_rocms *r, const char *gfx)
{
    const struct kb_rocm *before = NULL;
    bool added = k->q->said & SAID_ADDED;
    int found = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_rocm *row = &r->rows[i];
        if (row->kind != KB_ROCM_RELEASE) {
            continue;
        }
        bool has = ask_has_text(row->gfx, gfx);
        if (before && has == added && ask_has_text(before->gfx, gfx) != has) {
            HIT(k, KB_AREA_ROCMS, before);
            HIT(k, KB_AREA_ROCMS, row);
            ask_say(k, "The official list of ROCm %s %s %s, that of %s %s.", row->rocm,
                    has ? "has" : "does not have", gfx, before->rocm,
                    has ? "does not" : "still does");
            found = 1;
        }
        before = row;
    }
    if (!found) {
        ask_missing(k, "no official list that was read %s %s unlike the one before it",
                    added ? "has" : "lacks", gfx);
    }
    return found;
}

/* What HSA_OVERRIDE_GFX_VERSION does on a target. */
static bool say_overrides(struct ask *k, const struct kb_rocms *r, const char *gfx)
{
    bool found = false;
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_rocm *row = &r->rows[i];
        if (row->kind == KB_ROCM_OVERRIDE && ask_has_text(row->gfx, gfx)) {
            say_override(k, row);
            found = true;
        }
    }
    return found;
}

static int say_gfx(struct ask *k, const struct kb_rocms *r, const char *gfx)
{
    int found = 0;
    if (k->q->asked & ASKED_OVERRIDE &&
        !(k->q->asked & ~(unsigned)(ASKED_OVERRIDE | ASKED_RELEASE))) {
        found = say_overrides(k, r, gfx);
        if (!found) {
            ask_missing(k, "no row says what HSA_OVERRIDE_GFX_VERSION does on %s", gfx);
        }
        return found;
    }
    if (k->q->said & SAID_DOES) {
        say_support(k, r, gfx); // the answer comes first
    }
    for (size_t i = 0; i < r->n; i++) {
        const struct kb_rocm *row = &r->rows[i];
        if (row->kind == KB_ROCM_TARGET && ask_has_text(row->gfx, gfx)) {
            say_target(k, row);
            found = 1;
        }
    }
    if (found && k->q->asked & ASKED_KFD) {
        return 1;
    }
    if (found) {
        say_support(k, r, gfx);
        (void)say_overrides(k, r, gfx);
    }
    return found;
}

/* "gfx1010", "does ROCm 6.3 support gfx1031", "which ROCm supports the RX 7900 XTX" */
int form_gfx(struct ask *k, struct gm_err *err)
{
    struct kb_rocms r;
    struct ask_arch arch;
    int rc = kb_rocms(k->kb, &r, err);
    bool gpu = k->q->named & (NAMED_GPU | NAMED_PCI);
    bool asked = k->q->named & NAMED_ROCM || k->q->asked & (ASKED_ROCM | ASKED_OVERRIDE);
    if (rc < 0 || (gpu && !asked)) {
        return rc < 0 ? rc : 0;
    }
    rc = ask_arch_find(k, &arch, err);
    if (rc < 0 || k->missing || !arch.gfx) {
        return rc < 0 ? rc : 0;
    }
    if (ask_given(k, KEY_ROCM)) {
        if (k->q->said & (SAID_ADDED | SAID_DROPPED)) {
            return 0;
        }
        return strstr(ask_given(k, KEY_ROCM), "..") ? say_range_support(k, &r, arch.gfx)
                                                    : say_release_support(k, &r, arch.gfx);
    }
    if (k->q->said & (SAID_ADDED | SAID_DROPPED)) {
        return k->q->said & SAID_DOES ? 0 : say_rocm_change(k, &r, arch.gfx);
    }
    if (k->q->said & (SAID_FIRST | SAID_LAST)) {
        return say_extreme_rocm(k, &r, arch.gfx);
    }
    return say_gfx(k, &r, arch.gfx);
}

/* "which ROCm's hipFFT removed gfx940" */
int form_rocm_part(struct ask *k, struct gm_err *err)
{
    struct kb_rocms r;
    int rc = kb_rocms(k->kb, &r, err), found = 0;
    for (size_t i = 0; rc == 0 && i < r.n; i++) {
        const struct kb_rocm *row = &r.rows[i];
        if (row->kind == KB_ROCM_PART && k->q->said & SAID_DROPPED &&
            str_eq_nocase(str_of(row->part), str_of(ask_given(k, KEY_PART))) &&
            ask_has_text(row->gfx, ask_given(k, KEY_GFX))) {
            HIT(k, KB_AREA_ROCMS, row);
            ask_say(k, "ROCm %s: its %s (%s) no longer has %s.", row->rocm, row->part,
                    row->part_version, ask_joined(k->a, row->gfx));
            found = 1;
        }
    }
    return rc < 0 ? rc : found;
}

/* "which gfx target is gfx_target_version 100302" */
int form_kfd(struct ask *k, struct gm_err *err)
{
    struct kb_rocms r;
    int rc = kb_rocms(k->kb, &r, err), found = 0;
    for (size_t i = 0; rc == 0 && i < r.n; i++) {
        if (r.rows[i].kind == KB_ROCM_TARGET && ask_has_code(k->q, r.rows[i].kfd)) {
            say_target(k, &r.rows[i]);
            found = 1;
        }
    }
    return rc < 0 ? rc : found;
}

/* "which gfx targets does ROCm 6.3 support"; a release stands for the row that it is within. */
int form_rocm(struct ask *k, struct gm_err *err)
{
    struct kb_rocms r;
    const char *rocm = ask_given(k, KEY_ROCM);
    int rc = kb_rocms(k->kb, &r, err), found = 0;
    for (size_t i = 0; rc == 0 && i < r.n; i++) {
        const struct kb_rocm *row = &r.rows[i];
        bool same = ask_compare(row->rocm, rocm) == 0 || ask_within(row->rocm, rocm);
        if (row->kind == KB_ROCM_RELEASE && same) {
            HIT(k, KB_AREA_ROCMS, row);
            ask_say(k, "The official list of ROCm %s: %s.%s%s", row->rocm,
                    ask_joined(k->a, row->gfx), row->origin.note ? " " : "",
                    row->origin.note ? row->origin.note : "");
            found = 1;
        }
    }
    if (rc == 0 && !found) {
        ask_missing(k, "the official list of ROCm %s was not read", rocm);
    }
    return rc < 0 ? rc : found;
}
