/* Two packages that one process has both of, and that want different libraries. */
#include "kb/ask.h"

#include <string.h>

#include "base/str.h"
#include "py/version.h"

/* A set of versions, "<2", where a question names one instead of a release. */
bool ask_needs_from(const char *set, const char *version)
{
    struct str rest = str_of(set);
    while (rest.s) {
        struct str bound = str_trim(str_cut(&rest, ','));
        size_t n = strspn(bound.s, "=~>");
        bool lower = n == 2 && bound.s[1] == '=';
        struct py_version one, two;
        if (lower && py_version_parse((struct str){bound.s + n, bound.n - n}, &one) &&
            py_version_parse(str_of(version), &two) && py_version_cmp(&one, &two) == 0) {
            return true;
        }
    }
    return false;
}

bool ask_is_set(const char *version)
{
    return version[0] == '<' || version[0] == '>';
}

bool ask_version_means(struct ask *k, const char *version, const char *release)
{
    return ask_is_set(version) ? ask_admits(k, version, release) : ask_within(release, version);
}

const struct kb_release *ask_row_of(struct ask *k, const struct kb_releases *all,
                                    const char *package, const char *version)
{
    const struct kb_release *best = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        if (strcmp(row->package, package) == 0 && ask_version_means(k, version, row->version) &&
            (!best || ask_compare(row->version, best->version) > 0)) {
            best = row;
        }
    }
    return best;
}

/* The newest release of a package that a set admits. */
static const struct kb_release *newest_admitted(struct ask *k, const struct kb_releases *all,
                                                const char *package, const char *set)
{
    const struct kb_release *best = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        if (strcmp(row->package, package) == 0 && (!set || ask_admits(k, set, row->version)) &&
            (!best || ask_compare(row->version, best->version) > 0)) {
            best = row;
        }
    }
    return best;
}

/* The major of cuDNN that the builds of a release want, if it is one; `defaults`: of the default
 * builds. NULL: none, several, or not known. */
static const char *cudnn_major(struct ask *k, const struct kb_builds *builds, const char *package,
                               const char *version, bool defaults)
{
    const char *major = NULL;
    for (size_t i = 0; i < builds->n; i++) {
        const struct kb_build *b = &builds->rows[i];
        if (strcmp(b->package, package) != 0 || !b->cuda || (defaults && !b->is_default) ||
            !ask_admits(k, b->versions, version)) {
            continue;
        }
        const char *has = b->cudnn ? ask_major(k, b->cudnn) : NULL;
        if (!has || (major && strcmp(major, has) != 0)) {
            return NULL;
        }
        major = has;
    }
    return major;
}

/* An application that requires ctranslate2 and torch has both in one process. Where they want
 * different cuDNN, what it declares can be installed and fails on the GPU. */
const char *ask_two_cudnns(struct ask *k, const struct kb_releases *all,
                           const struct kb_builds *builds, const struct kb_release *app,
                           const char *torch_version)
{
    const struct kb_release_need *need = NULL;
    for (size_t i = 0; i < app->n_needs; i++) {
        need = strcmp(app->needs[i].package, "ctranslate2") == 0 ? &app->needs[i] : need;
    }
    const struct kb_release *engine =
        need ? newest_admitted(k, all, "ctranslate2", need->versions) : NULL;
    const struct kb_release *torch = engine ? ask_row_of(k, all, "torch", torch_version) : NULL;
    const char *one = torch ? cudnn_major(k, builds, "ctranslate2", engine->version, true) : NULL;
    const char *two = one ? cudnn_major(k, builds, "torch", torch->version, false) : NULL;
    return !two || strcmp(one, two) == 0
               ? NULL
               : arena_printf(k->a,
                              "ctranslate2 %s, the newest that %s %s admits, loads cuDNN %s, and "
                              "every build of torch %s brings cuDNN %s",
                              engine->version, app->package, app->version, one, torch->version,
                              two);
}

bool ask_numpy_is_open(struct ask *k, const struct kb_release *row,
                       const struct kb_release_need *need, const char *version)
{
    const char *set = need->versions ? need->versions : "";
    return ask_compare(ask_major(k, version + strspn(version, "<>=!~")), "2") >= 0 &&
           !strchr(set, '<') && !strchr(set, '~') && !strstr(set, "==") &&
           ask_admits(k, set, "1.26.4") && !(row->numpy_abi && strcmp(row->numpy_abi, "2") == 0);
}
