/* Packages and their releases. */
#include "kb/reading.h"

#include <string.h>

#include "base/str.h"
#include "py/version.h"

/* Other spellings of packages. */
static const char *const aliases[][2] = {
    {"ct2", "ctranslate2"},
    {"cupy", "cupy-cuda12x"},
    {"fasterwhisper", "faster-whisper"},
    {"onnxruntime", "onnxruntime-gpu"},
    {"ort", "onnxruntime-gpu"},
    {"pytorch", "torch"},
    {"pyannote", "pyannote-audio"},
    {"pyav", "av"},
    {"tf", "tensorflow"},
};

bool reading_package_known(const struct reading *r, const char *name)
{
    if (starts_with(name, "cuda-")) {
        return false; // "cuda toolkit" is not the package of that name
    }
    for (size_t i = 0; i < r->compats.n; i++) {
        if (strcmp(r->compats.rows[i].package, name) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < r->builds.n; i++) {
        if (strcmp(r->builds.rows[i].package, name) == 0) {
            return true; // of JetPack there are no wheels
        }
    }
    for (size_t i = 0; i < r->traits.n; i++) {
        if (r->traits.rows[i].kind == KB_TRAIT_FEATURE &&
            strcmp(r->traits.rows[i].package, name) == 0) {
            return true; // neither of clang
        }
    }
    for (size_t i = 0; i < r->releases.n; i++) {
        const struct kb_release *row = &r->releases.rows[i];
        bool found = strcmp(row->package, name) == 0;
        for (size_t n = 0; n < row->n_needs && !found; n++) {
            found = strcmp(row->needs[n].package, name) == 0;
        }
        if (found) {
            return true;
        }
    }
    return false;
}

const char *reading_package_name(struct arena *a, const char *word)
{
    char *name = arena_strdup(a, word);
    for (char *c = strchr(name, '_'); c; c = strchr(c, '_')) {
        *c = '-';
    }
    return reading_listed_as(aliases, COUNT(aliases), name);
}

void reading_range_add(struct question *q, const struct question_span *span)
{
    if (q->n_spans < QUESTION_LIST_MAX) {
        q->spans[q->n_spans++] = *span;
    } else {
        q->too_many = true;
    }
    q->version = q->version ? q->version : span->from ? span->from : span->to;
    q->named |= NAMED_VERSION;
}

void reading_span_add(struct question *q, const char *from, const char *to)
{
    reading_range_add(q, &(struct question_span){.from = from, .to = to});
}

void reading_package_add(struct question *q, const char *name, bool with_version)
{
    q->named |= NAMED_PACKAGE;
    if (!q->package || strcmp(q->package, name) == 0) {
        q->package = name;
    } else if (with_version && q->n_spans == 0) {
        reading_value_add(&q->others, q->package);
        q->package = name;
    } else {
        reading_value_add(&q->others, name);
    }
    q->named |= q->others.n ? NAMED_OTHER : 0;
}

void reading_other_version_add(struct question *q, const char *name, const char *version)
{
    for (size_t i = 0; i < q->others.n; i++) {
        if (strcmp(q->others.items[i], name) == 0) {
            q->other_versions[i] = version;
            q->named |= NAMED_OTHER_VERSION;
        }
    }
}

const char *reading_release_of(struct arena *a, struct question *q, const char *version)
{
    size_t n = strcspn(version, "+");
    if (version[n]) {
        reading_key_add(q, KEY_BUILD, version + n + 1);
    }
    return arena_strndup(a, version, n);
}

size_t reading_bounds(const char *const *words, size_t n, struct question_span *ret)
{
    size_t i = 0;
    *ret = (struct question_span){.from = NULL};
    for (; i + 1 < n && reading_is_version(words[i + 1]); i += 2) {
        bool low = words[i][0] == '>', equal = words[i][0] && words[i][1] == '=';
        const char **end = low ? &ret->from : &ret->to;
        if ((!low && words[i][0] != '<') || *end) {
            break;
        }
        *end = words[i + 1];
        ret->above_from = low ? !equal : ret->above_from;
        ret->below_to = low ? ret->below_to : !equal;
    }
    return i;
}

size_t reading_span(struct reading *r, size_t i)
{
    struct question *q = r->q;
    const char *from = reading_release_of(r->a, q, q->words[i]), *to = from;
    size_t end = i + 1;
    if (i > 0 && reading_is_word(q, i - 1, "between") && reading_is_word(q, end, "and") &&
        end + 1 < q->n && reading_is_version(q->words[end + 1])) {
        to = q->words[end + 1];
        end += 2;
        r->claims[i - 1] = CLAIM_DONE;
    } else if (reading_is_word(q, end, "to until through -") && end + 1 < q->n &&
               reading_is_version(q->words[end + 1])) {
        to = q->words[end + 1];
        end += 2;
    } else if (reading_is_word(q, end, "and or") &&
               reading_is_word(q, end + 1, "later newer up higher above")) {
        to = NULL;
        end += 2;
    } else if (reading_is_word(q, end, "later onwards on upwards") &&
               !reading_is_word(q, end, "on")) {
        to = NULL;
        end += 1;
    }
    if (i > 0 && reading_is_word(q, i - 1, "until to") && to == from) {
        from = NULL;
        r->claims[i - 1] = CLAIM_DONE;
        if (i > 1 && reading_is_word(q, i - 2, "up")) {
            r->claims[i - 2] = CLAIM_DONE;
        }
    }
    for (size_t k = i; k < end; k++) {
        r->claims[k] = CLAIM_DONE;
    }
    reading_span_add(q, from, to);
    return end;
}

/* The versions behind a package: "1.5 and 1.6", "1.13 / 2.0", "4.6.1, 4.6.2". */
static void read_versions(struct reading *r, size_t i)
{
    const struct question *q = r->q;
    struct question_span bounds;
    size_t used = reading_bounds(q->words + i, q->n - i, &bounds);
    if (used > 0) {
        reading_range_add(r->q, &bounds);
        for (size_t k = i; k < i + used; k++) {
            r->claims[k] = CLAIM_DONE;
        }
        return;
    }
    while (i < q->n && reading_is_version(q->words[i])) {
        i = reading_span(r, i);
        bool link = reading_is_word(q, i, "and or /") && i + 1 < q->n &&
                    reading_is_version(q->words[i + 1]);
        if (link) {
            r->claims[i] = CLAIM_DONE;
        }
        i += link;
    }
}

static const char *newest_release(const struct reading *r, const char *package)
{
    struct py_version v, best;
    const char *newest = NULL;
    for (size_t i = 0; i < r->releases.n; i++) {
        const struct kb_release *row = &r->releases.rows[i];
        if (strcmp(row->package, package) == 0 && py_version_parse(str_of(row->version), &v) &&
            (!newest || py_version_cmp(&v, &best) > 0)) {
            newest = row->version;
            best = v;
        }
    }
    return newest;
}

/* Whether the question asks for something other than this package: "which torch ...", "does ...".
 */
static bool asks_for_other(const struct reading *r, const char *package)
{
    const struct question *q = r->q;
    size_t used;
    const struct word *means = q->n > 1 ? words_find(q->words + 1, q->n - 1, &used) : NULL;
    if (reading_is_word(q, 0, "does do can will is are")) {
        return true;
    }
    return reading_is_word(q, 0, "which what") && q->n > 1 &&
           ((means && means->asked & ~(unsigned)(ASKED_RELEASE | ASKED_BUILD)) ||
            (q->package && strcmp(q->package, package) != 0 && r->claims[1] == CLAIM_DONE));
}

/* "which torch does the newest vllm need", "does the latest release of torch support Python 3.9":
 * the newest that was read is given here, and not what is asked for. Returns its version, or NULL.
 */
static const char *newest_given(struct reading *r, size_t i, const char *package)
{
    size_t at = i;
    if (at > 1 && reading_is_word(r->q, at - 1, "of") &&
        reading_is_word(r->q, at - 2, "version release")) {
        at -= 2;
    }
    bool given = at > 0 && reading_is_word(r->q, at - 1, "newest latest") &&
                 (!r->q->package || strcmp(r->q->package, package) != 0) &&
                 asks_for_other(r, package);
    const char *version = given ? newest_release(r, package) : NULL;
    for (size_t k = at - given; version && k < i; k++) {
        r->claims[k] = CLAIM_DONE;
    }
    return version;
}

static bool package_is_plain_word(const char *word)
{
    size_t used;
    return words_find(&word, 1, &used) != NULL;
}

bool reading_package(struct reading *r, size_t i)
{
    const struct question *q = r->q;
    const char *word = q->words[i];
    bool pair = i + 1 < q->n && !reading_is_version(q->words[i + 1]);
    const char *two =
        pair ? reading_package_name(r->a, arena_printf(r->a, "%s-%s", word, q->words[i + 1]))
             : word;
    size_t dash = strlen(word);
    while (dash > 0 && word[dash - 1] != '-') {
        dash--;
    }
    const char *behind = dash > 0 && reading_is_version(word + dash) ? word + dash : NULL;
    const char *name =
        reading_package_name(r->a, behind ? arena_strndup(r->a, word, dash - 1) : word);
    pair = pair && reading_package_known(r, two);
    if (!pair && (package_is_plain_word(word) || !reading_package_known(r, name))) {
        return false;
    }
    name = pair ? two : name;
    size_t next = i + 1 + pair;
    struct question_span bounds;
    size_t n_bounds = next < q->n ? reading_bounds(q->words + next, q->n - next, &bounds) : 0;
    bool versions = !behind && next < q->n && (n_bounds > 0 || reading_is_version(q->words[next]));
    bool first = !q->package || q->n_spans == 0 || strcmp(q->package, name) == 0;
    behind = versions || behind ? behind : newest_given(r, i, name);
    reading_package_add(r->q, name, versions || behind);
    r->claims[i] = r->claims[next - 1] = CLAIM_DONE;
    r->owner[i] = OWNER_PACKAGE;
    if (first && versions) {
        read_versions(r, next);
    } else if (first && behind) {
        behind = reading_release_of(r->a, r->q, behind);
        reading_span_add(r->q, behind, behind);
    } else if (versions || behind) {
        const char *set = n_bounds > 0 ? question_span_set(r->a, &bounds) : NULL;
        reading_other_version_add(r->q, name, behind ? behind : set ? set : q->words[next]);
        for (size_t k = next; versions && k < next + (n_bounds > 0 ? n_bounds : 1); k++) {
            r->claims[k] = CLAIM_DONE;
        }
    }
    return true;
}
