/* What packages need and do besides libraries and versions. */
#include "kb/ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "kb/serves.h"

/* Whether a row is about one of the releases that the question names; without any it is. */
static bool of_releases(struct ask *k, const struct kb_trait *t)
{
    for (size_t i = 0; t->versions && i < k->q->n_spans; i++) {
        const struct question_span *s = &k->q->spans[i];
        const char *one = s->from ? s->from : s->to;
        bool outside = s->above_from || s->below_to; // what is next to it is not known
        if (!outside && ask_admits(k, t->versions, one)) {
            return true;
        }
    }
    return !t->versions || k->q->n_spans == 0;
}

static bool is_about(struct ask *k, const struct kb_trait *t, enum kb_trait_kind kind)
{
    return t->kind == kind && k->q->package && strcmp(t->package, k->q->package) == 0 &&
           of_releases(k, t);
}

/* "faster-whisper >=1.0: ", where the question names no release and the row is not about all. */
static const char *whose(struct ask *k, const struct kb_trait *t)
{
    return t->versions && k->q->n_spans == 0
               ? arena_printf(k->a, "%s %s: ", t->package, t->versions)
               : "";
}

static void say_trait(struct ask *k, const struct kb_trait *t)
{
    HIT(k, KB_AREA_TRAITS, t);
    const char *before = arena_printf(
        k->a, "%s%s", k->q->said & SAID_DOES ? (t->has ? "Yes: " : "No: ") : "", whose(k, t));
    char *says = arena_strdup(k->a, t->says);
    bool small = !before[0] && says[0] >= 'a' && says[0] <= 'z' && !starts_with(says, "lib");
    says[0] = small ? (char)(says[0] - 'a' + 'A') : says[0];
    ask_say(k, "%s%s", before, says);
}

/* The rows of a kind with a name; NULL: with any. */
static int say_named(struct ask *k, enum kb_trait_kind kind, const char *name, struct gm_err *err)
{
    struct kb_traits traits;
    int rc = kb_traits(k->kb, &traits, err), found = 0;
    for (size_t i = 0; rc == 0 && i < traits.n; i++) {
        const struct kb_trait *t = &traits.rows[i];
        bool named = !name || str_eq_nocase(str_of(t->name), str_of(name));
        if (is_about(k, t, kind) && named) {
            say_trait(k, t);
            found = 1;
        }
    }
    return rc < 0 ? rc : found;
}

/* "does faster-whisper need ffmpeg" */
int form_program(struct ask *k, struct gm_err *err)
{
    return say_named(k, KB_TRAIT_PROGRAM, ask_given(k, KEY_PART), err);
}

/* "which ctranslate2 has flash attention" */
int form_feature(struct ask *k, struct gm_err *err)
{
    const char *feature = ask_given(k, KEY_FEATURE);
    size_t rank;
    if (question_instruction_set(feature, &rank)) {
        return 0; // of form_instructions()
    }
    int rc = say_named(k, KB_TRAIT_FEATURE, feature, err);
    if (rc == 0) {
        ask_missing(k, "whether %s has %s was not read", k->q->package, feature);
    }
    return rc;
}

/* "which toolkit does clang need for sm_90a", "which CUDA does the release RFC of torch 2.14 name":
 * features whose rows are about CUDA. */
int form_feature_cuda(struct ask *k, struct gm_err *err)
{
    const char *feature = ask_given(k, KEY_FEATURE);
    bool about = starts_with(feature, "sm_") || strcmp(feature, "release-rfc") == 0;
    return about ? say_named(k, KB_TRAIT_FEATURE, feature, err) : 0;
}

/* "which compute capability does cupy need" */
int form_capability(struct ask *k, struct gm_err *err)
{
    return say_named(k, KB_TRAIT_NEEDS, "capability", err);
}

/* "does cupy run on the CPU" */
int form_gpu_alone(struct ask *k, struct gm_err *err)
{
    struct kb_traits traits;
    int rc = kb_traits(k->kb, &traits, err);
    const struct kb_trait *t = rc == 0 ? kb_gpu_alone(&traits, k->q->package) : NULL;
    if (!t || !(k->q->said & SAID_CPU)) {
        return rc;
    }
    HIT(k, KB_AREA_TRAITS, t);
    ask_say(k, "%s%s: %s.", k->q->said & SAID_DOES ? "No: " : "", k->q->package, t->says);
    return 1;
}

/* "does ctranslate2 need AVX2", "which CPU instruction set is the floor of ctranslate2" */
int form_instructions(struct ask *k, struct gm_err *err)
{
    struct kb_traits traits;
    const char *feature = ask_given(k, KEY_FEATURE);
    int rc = kb_traits(k->kb, &traits, err), found = 0;
    size_t asked = 0, floor = 0;
    if (rc < 0 || (feature && !question_instruction_set(feature, &asked)) ||
        (!feature && !(k->q->said & SAID_CPU)) || (k->q->said & SAID_DOES && !feature)) {
        return rc < 0 ? rc : 0;
    }
    for (size_t i = 0; i < traits.n; i++) {
        const struct kb_trait *t = &traits.rows[i];
        if (!is_about(k, t, KB_TRAIT_CPU) || !question_instruction_set(t->name, &floor)) {
            continue;
        }
        HIT(k, KB_AREA_TRAITS, t);
        ask_say(k, "%s%s", !feature ? "" : asked <= floor ? "Yes: " : "No: ", t->says);
        found = 1;
    }
    if (!found) {
        ask_missing(k, "which instruction set %s needs was not read", k->q->package);
    }
    return found;
}

/* "what does CT2_USE_MKL do", "which environment variable lets ctranslate2 use float16" */
int form_variable(struct ask *k, struct gm_err *err)
{
    struct kb_traits traits;
    const char *name = ask_given(k, KEY_VARIABLE), *compute = ask_given(k, KEY_COMPUTE);
    int rc = kb_traits(k->kb, &traits, err), found = 0;
    for (size_t i = 0; rc == 0 && i < traits.n; i++) {
        const struct kb_trait *t = &traits.rows[i];
        bool package = !k->q->package || is_about(k, t, KB_TRAIT_VARIABLE);
        bool about = !compute || (t->compute && strcmp(t->compute, compute) == 0);
        if (t->kind == KB_TRAIT_VARIABLE && package && about &&
            (!name || strcmp(t->name, name) == 0)) {
            HIT(k, KB_AREA_TRAITS, t);
            ask_say(k, "%s", t->says);
            found = 1;
        }
    }
    return rc < 0 ? rc : found;
}

/* "what happens when ctranslate2 is asked for float16 without efficient float16" */
int form_refusal(struct ask *k, struct gm_err *err)
{
    struct kb_traits traits;
    const char *compute = ask_given(k, KEY_COMPUTE);
    int rc = kb_traits(k->kb, &traits, err), found = 0;
    if (rc < 0 || !(k->q->said & SAID_WITHOUT) || !(k->q->said & SAID_NATIVE)) {
        return rc < 0 ? rc : 0;
    }
    for (size_t i = 0; i < traits.n; i++) {
        const struct kb_trait *t = &traits.rows[i];
        if (is_about(k, t, KB_TRAIT_REFUSAL) && t->compute && strcmp(t->compute, compute) == 0) {
            say_trait(k, t);
            found = 1;
        }
    }
    return found;
}

/* Whether a row is about the library that the question names: as a file, or by what people call
 * it. */
static bool opens_it(struct ask *k, const struct kb_trait *t)
{
    const char *library = ask_given(k, KEY_LIBRARY), *part = ask_given(k, KEY_PART);
    struct str stem = {t->name, strcspn(t->name, ".")};
    struct str bare = str_starts(stem, "lib") ? (struct str){stem.s + 3, stem.n - 3} : stem;
    if (library) {
        return starts_with(library, t->name);
    }
    size_t n = strlen(part);
    bool family = (str_starts(stem, part) && stem.s[n] == '_') ||
                  (str_starts(bare, part) && bare.s[n] == '_'); // "cudnn"
    return family || str_eq_nocase(stem, str_of(part)) || str_eq_nocase(bare, str_of(part));
}

/* "why does ldd not show cuBLAS in ctranslate2", "which ctranslate2 opens libcudnn_ops.so.9" */
int form_opens(struct ask *k, struct gm_err *err)
{
    struct kb_traits traits;
    int rc = kb_traits(k->kb, &traits, err), found = 0;
    const char *cudnn = ask_given(k, KEY_CUDNN);
    for (size_t i = 0; rc == 0 && i < traits.n; i++) {
        const struct kb_trait *t = &traits.rows[i];
        bool major = !cudnn || ends_with(t->name, arena_printf(k->a, ".so.%s", cudnn));
        if (is_about(k, t, KB_TRAIT_OPENS) && major && opens_it(k, t)) {
            say_trait(k, t);
            found = 1;
        }
    }
    return rc < 0 ? rc : found;
}

/* "from which index does whisperx take torch" */
int form_index(struct ask *k, struct gm_err *err)
{
    return k->q->others.n == 1 ? say_named(k, KB_TRAIT_INDEX, k->q->others.items[0], err) : 0;
}

/* "how are the forward-compatibility packages named"; with a CUDA the name for it. */
int form_packages(struct ask *k, struct gm_err *err)
{
    struct kb_traits traits;
    const char *feature = ask_given(k, KEY_FEATURE), *cuda = ask_given(k, KEY_CUDA);
    const char *dot = cuda ? strchr(cuda, '.') : NULL;
    int rc = kb_traits(k->kb, &traits, err), found = 0;
    for (size_t i = 0; rc == 0 && i < traits.n; i++) {
        const struct kb_trait *t = &traits.rows[i];
        if (t->kind != KB_TRAIT_PACKAGE || strcmp(t->name, feature) != 0 || (cuda && !dot)) {
            continue;
        }
        HIT(k, KB_AREA_TRAITS, t);
        if (dot) {
            ask_say(k, "%s-%.*s-%.*s for CUDA %s.", t->package, (int)(dot - cuda), cuda,
                    (int)strcspn(dot + 1, "."), dot + 1, cuda);
        }
        ask_say(k, "%s", t->says);
        found = 1;
    }
    return rc < 0 ? rc : found;
}

/* "how is gfx_target_version built" */
int form_encoding(struct ask *k, struct gm_err *err)
{
    struct kb_traits traits;
    int rc = kb_traits(k->kb, &traits, err), found = 0;
    for (size_t i = 0; rc == 0 && i < traits.n; i++) {
        const struct kb_trait *t = &traits.rows[i];
        if (t->kind == KB_TRAIT_ENCODING && question_has(k->q, t->name)) {
            HIT(k, KB_AREA_TRAITS, t);
            ask_say(k, "%s", t->says);
            found = 1;
        }
    }
    return rc < 0 ? rc : found;
}

/* "which driver does jax need for CUDA 12": what its makers state for wheels of a CUDA major. */
int form_floors(struct ask *k, struct gm_err *err)
{
    const char *cuda = ask_given(k, KEY_CUDA);
    return cuda ? say_named(k, KB_TRAIT_NEEDS, ask_major(k, cuda), err) : 0;
}

static bool name_is_listed(const char *list, const char *name)
{
    struct str rest = str_of(list);
    while (rest.s) {
        if (str_is(str_trim(str_cut(&rest, ',')), name)) {
            return true;
        }
    }
    return false;
}

/* "which compute types does whisperx accept": the values of an option; of the newest release where
 * none is named. */
int form_choices(struct ask *k, struct gm_err *err)
{
    struct kb_traits traits;
    struct ask_releases mine;
    const char *compute = ask_given(k, KEY_COMPUTE);
    bool does = k->q->said & SAID_DOES;
    int rc = kb_traits(k->kb, &traits, err), found = 0;
    rc = rc < 0 ? rc : ask_releases_find(k, &mine, err);
    if (rc < 0 || k->missing || does != (compute != NULL) || k->q->said & SAID_DEFAULT) {
        return rc < 0 ? rc : 0;
    }
    for (size_t i = 0; i < traits.n; i++) {
        const struct kb_trait *t = &traits.rows[i];
        bool admits = mine.items.n > 0 && t->versions &&
                      ask_admits(k, t->versions, mine.items.items[mine.items.n - 1].version);
        if (t->kind != KB_TRAIT_CHOICES || strcmp(t->package, k->q->package) != 0 || !admits) {
            continue;
        }
        HIT(k, KB_AREA_TRAITS, t);
        ask_say(k, "%s%s %s: %s",
                !does                              ? ""
                : name_is_listed(t->name, compute) ? "Yes: "
                                                   : "No: ",
                t->package, t->versions, t->says);
        found = 1;
    }
    return found;
}

/* ------------------------------------------------------------------ more of other areas */

/* "in which folder do the CUDA 13 pip packages put their libraries" */
int form_folder(struct ask *k, struct gm_err *err)
{
    struct kb_provides provides;
    struct question_values folders = {.n = 0};
    const char *cuda = ask_given(k, KEY_CUDA), *list = "";
    size_t libraries = 0;
    int rc = kb_provides(k->kb, &provides, err);
    if (rc < 0 || !(k->q->said & SAID_PIP)) {
        return rc < 0 ? rc : 0;
    }
    for (size_t i = 0; i < provides.n; i++) {
        const struct kb_provide *p = &provides.rows[i];
        for (size_t v = 0; v < p->n_providers && p->cuda_major == atoi(cuda); v++) {
            const struct kb_provider *by = &p->providers[v];
            bool known = by->manager != KB_MANAGER_PIP || !by->folder;
            libraries += !known;
            if (!known) {
                HIT(k, KB_AREA_PROVIDES, p);
            }
            for (size_t f = 0; f < folders.n && !known; f++) {
                known = strcmp(folders.items[f], by->folder) == 0;
            }
            if (!known && folders.n < QUESTION_LIST_MAX) {
                folders.items[folders.n++] = by->folder;
                list = arena_printf(k->a, "%s%s%s", list, list[0] ? ", " : "", by->folder);
            }
        }
    }
    if (folders.n == 0 || folders.n == QUESTION_LIST_MAX) {
        return 0; // a folder for each: one library must be asked for
    }
    ask_say(k,
            "The pip packages for CUDA %s have their libraries in %s (%zu libraries that were "
            "read).",
            ask_major(k, cuda), list, libraries);
    return 1;
}

static const struct kb_build *build_of(struct ask *k, const struct kb_builds *b,
                                       const char *version, const char *cuda)
{
    for (size_t i = 0; i < b->n; i++) {
        const struct kb_build *row = &b->rows[i];
        if (strcmp(row->package, k->q->package) == 0 && row->cuda && ask_within(row->cuda, cuda) &&
            row->sm.n > 0 && ask_admits(k, row->versions, version)) {
            return row;
        }
    }
    return NULL;
}

static const char *not_among(struct ask *k, struct kb_strs these, struct kb_strs among)
{
    const char *list = "";
    for (size_t i = 0; i < these.n; i++) {
        if (!ask_has_text(among, these.items[i])) {
            list = arena_printf(k->a, "%s%s%s", list, list[0] ? ", " : "", these.items[i]);
        }
    }
    return list[0] ? list : "none";
}

/* The newest build with GPU code for targets whose ROCm is before one; `from`: the oldest from
 * there on. */
static const struct kb_build *rocm_build(struct ask *k, const struct kb_builds *b, const char *rocm,
                                         bool from)
{
    const struct kb_build *best = NULL;
    for (size_t i = 0; i < b->n; i++) {
        const struct kb_build *row = &b->rows[i];
        if (strcmp(row->package, k->q->package) != 0 || !row->rocm || row->gfx.n == 0 ||
            row->status == KB_STATUS_EXPERIMENTAL || (ask_compare(row->rocm, rocm) >= 0) != from) {
            continue;
        }
        int order = best ? ask_compare(row->rocm, best->rocm) : 0;
        best = !best || (from ? order < 0 : order > 0) ? row : best;
    }
    return best;
}

/* "which gfx targets do the ROCm wheels of torch add from ROCm 7.0 on" */
int form_target_change(struct ask *k, struct gm_err *err)
{
    struct kb_builds builds;
    const char *rocm = ask_given(k, KEY_ROCM);
    int rc = kb_builds(k->kb, &builds, err);
    if (rc < 0 || !(k->q->said & (SAID_ADDED | SAID_DROPPED))) {
        return rc < 0 ? rc : 0;
    }
    const struct kb_build *new = rocm_build(k, &builds, rocm, true),
                          *old = rocm_build(k, &builds, rocm, false);
    bool other = new && !(k->q->said & SAID_LATER) && !ask_within(new->rocm, rocm);
    if (!new || !old || other) {
        ask_missing(k, "the targets of the builds of %s %s ROCm %s were not read", k->q->package,
                    !new || other ? "with" : "before", rocm);
        return 0;
    }
    HIT(k, KB_AREA_BUILDS, new);
    HIT(k, KB_AREA_BUILDS, old);
    ask_say(k,
            "Against the build %s of %s (%s) the build %s (%s) has more: %s; less: %s. The older "
            "one has %s.",
            old->build, k->q->package, old->versions, new->build, new->versions,
            not_among(k, new->gfx, old->gfx), not_among(k, old->gfx, new->gfx),
            ask_joined(k->a, old->gfx));
    return 1;
}

/* "which architectures do the CUDA 11.8 wheels of torch 2.0 add over the 11.7 ones" */
int form_arch_change(struct ask *k, struct gm_err *err)
{
    struct ask_releases all;
    const struct question_values *cudas = &k->q->values[KEY_CUDA];
    int rc = ask_releases_find(k, &all, err);
    if (rc < 0 || k->missing || cudas->n != 2 || all.items.n != 1 ||
        !(k->q->said & (SAID_ADDED | SAID_DROPPED))) {
        return rc < 0 ? rc : 0;
    }
    if (k->q->one[KEY_CUDA] == cudas->items[1]) {
        return k->answer->known; // said at the first of the two
    }
    const struct ask_release *r = &all.items.items[0];
    const struct kb_build *one = build_of(k, &all.builds, r->version, cudas->items[0]);
    const struct kb_build *two = build_of(k, &all.builds, r->version, cudas->items[1]);
    if (!one || !two) {
        ask_missing(k, "the architectures of the CUDA %s build of %s were not read",
                    cudas->items[one ? 1 : 0], r->name);
        return 0;
    }
    HIT(k, KB_AREA_BUILDS, one);
    HIT(k, KB_AREA_BUILDS, two);
    ask_say(k, "Against the build %s the build %s of %s has more: %s; less: %s.", two->build,
            one->build, r->name, not_among(k, one->sm, two->sm), not_among(k, two->sm, one->sm));
    return 1;
}
