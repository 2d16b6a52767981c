/* A library that is not found: nowhere, elsewhere, in another major version, or not in the cache.
 */
#include <string.h>

#include "diag/internal.h"

struct places {
    const struct model_library *exact; // usable, with the very name
    const struct model_library *other; // another major version
    const char *conf;                  // ld.so.conf file that names the folder of `exact`, or NULL
};

/* The major version in a library's file name, "" without one. */
static struct str soname_major(const char *name)
{
    const char *so = strstr(name, ".so.");
    struct str s = so ? str_of(so + 4) : STR("");
    s.n = str_find_char(s, '.');
    return s;
}

/* A bundled copy has a name of its own (libavutil-5809ad29.so.60), which answers nobody else. */
static bool name_is_plain(const char *name)
{
    struct str stem = model_stem(name);
    return starts_with(name + stem.n, ".so");
}

static struct places find_places(struct diag *d, const char *name)
{
    struct places p = {0};
    struct model_library *list = NULL;
    size_t n = model_libraries(d->m, name, &list);
    for (size_t i = 0; i < n; i++) {
        struct str major = soname_major(list[i].name);
        if (!list[i].usable || diag_is_for_other_arm(d, list[i].path)) {
            continue;
        }
        if (strcmp(list[i].name, name) == 0) {
            const char *conf = model_conf_naming(d->m, path_dir(d->a, list[i].path));
            if (!p.exact || (conf && !p.conf)) {
                p.exact = &list[i];
                p.conf = conf;
            }
        } else if (!p.other && name_is_plain(list[i].name) && major.n && soname_major(name).n &&
                   !str_eq(major, soname_major(name))) {
            p.other = &list[i];
        }
    }
    return p;
}

/* No copy can be used, and the reason is a file that is there, or a folder that this user may not
 * see. */
static bool is_spoilt(struct diag *d, const struct diag_failure *x)
{
    struct model_library *list = NULL;
    size_t n = model_libraries(d->m, x->name, &list);
    for (size_t i = 0; i < n; i++) {
        if (!list[i].usable && strcmp(list[i].name, x->name) == 0 &&
            diag_bad_copy(d, x, &list[i])) {
            return true;
        }
    }
    return diag_denied_copy(d, x);
}

/* ------------------------------------------------------------------ what else is missing */

/* The loader stops at the first library that is missing. The asker's DT_NEEDED names the others:
 * those of which no copy is where the loader looks have the same cause. */
static void other_needs(struct diag *d, struct diag_finding *f, const struct diag_failure *x,
                        bool installed)
{
    const struct ldso_request *r = x->request;
    if (r->kind != LDSO_NEEDED || !r->caller) {
        return;
    }
    const struct elf_image *image = &r->caller->file->image;
    for (size_t i = 0; i < image->n_needs; i++) {
        const char *name = image->needs[i].name;
        if (strchr(name, '/') || diag_is_driver_library(d, name) ||
            diag_is_loaded(x->process->ldso, name) || diag_is_findable(d, r, name) ||
            (find_places(d, name).exact != NULL) != installed) {
            continue;
        }
        diag_likewise(d, f, name);
    }
}

/* ------------------------------------------------------------------ where the loader looked */

static void relative_evidence(struct diag *d, struct diag_finding *f, const struct ldso_step *s)
{
    bool path = s->via == LDSO_VIA_RPATH || s->via == LDSO_VIA_RUNPATH;
    if (path && s->path && s->path[0] != '/') {
        diag_evidence(d, f,
                      "%s names %s, which is relative to the working directory, "
                      "here %s",
                      diag_via(d, s->via, s->via_object), path_dir(d->a, s->path),
                      d->m->config.cwd);
    }
}

/* One clause for each place. */
static void steps_evidence(struct diag *d, struct diag_finding *f, const struct ldso_request *r)
{
    const char *places = "", *last = "";
    for (size_t i = 0; i < r->steps.n; i++) {
        const struct ldso_step *s = &r->steps.items[i];
        bool cache = s->via == LDSO_VIA_CACHE && !s->path;
        const char *place = cache     ? "ld.so.cache (not listed)"
                            : s->path ? diag_via(d, s->via, s->via_object)
                                      : last;
        if (strcmp(place, last) != 0) {
            places = arena_printf(d->a, "%s%s%s", places, *places ? ", " : "", place);
        }
        last = place;
        relative_evidence(d, f, s);
    }
    if (*places) {
        diag_evidence(d, f, "looked in: %s", places);
    }
}

/* ------------------------------------------------------------------ the cause */

static bool is_cudnn_part(const char *name)
{
    return starts_with(name, "libcudnn_");
}

static enum diag_cause failure_cause(const struct diag_failure *x, const struct places *p)
{
    return p->conf                  ? DIAG_LDCONFIG_NOT_RUN
           : p->exact               ? DIAG_LIBRARY_NOT_ON_PATH
           : is_cudnn_part(x->name) ? DIAG_CUDNN_SUBLIBRARY_MISSING
           : p->other               ? DIAG_LIBRARY_WRONG_MAJOR
                                    : DIAG_LIBRARY_MISSING;
}

static const char *cudnn_summary(struct diag *d, const struct diag_failure *x)
{
    size_t n = 0;
    const char *pattern =
        arena_printf(d->a, "libcudnn_*.so." STR_FMT "*", STR_ARG(soname_major(x->name)));
    const char *dir = model_folder_with(d->m, pattern, &n);
    return n ? arena_printf(d->a, "%s is missing from the cuDNN in %s.", x->name, dir)
             : arena_printf(d->a,
                            "%s has only the main cuDNN library; %s, which that one opens, "
                            "is "
                            "not installed.",
                            diag_asker(d, x), x->name);
}

static bool list_names_library(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether a library is of the same product as another, or another version of it. */
static bool is_of_product(struct diag *d, const char *name, const char *other, const char *product)
{
    const char *title = product ? diag_library_title(d, name) : NULL;
    return title ? strcmp(title, product) == 0 : str_eq(model_stem(name), model_stem(other));
}

/* What each candidate of an attempt lacks first: "libavutil.so.59 or libavutil.so.58"; NULL where
 * there is no choice. What candidates lack of other products has another reason. */
static const char *lacking_choice(struct diag *d, const struct diag_failure *x, const char *product)
{
    const struct model_attempt *at = x->attempt;
    const struct ldso_process *p = x->process->ldso;
    VEC(const char *) names = {0};
    for (size_t i = 0; at && *at->names[0] == '/' && i < p->requests.n; i++) {
        const struct ldso_request *r = p->requests.items[i];
        bool here = r->load >= (int)at->first_load && r->load < (int)(at->first_load + at->n_loads);
        if (here && r->kind == LDSO_NEEDED && r->outcome == LDSO_NOT_FOUND &&
            is_of_product(d, r->name, x->name, product) &&
            !list_names_library(names.items, names.n, r->name)) {
            VEC_PUSH(d->a, &names, r->name);
        }
    }
    const char *text = names.n ? names.items[0] : "";
    for (size_t i = 1; i < names.n; i++) {
        text = arena_printf(d->a, "%s%s%s", text, i + 1 < names.n ? ", " : " or ", names.items[i]);
    }
    return names.n > 1 ? text : NULL;
}

static const char *missing_summary(struct diag *d, const struct diag_failure *x)
{
    const char *product = diag_library_title(d, x->name), *choice = lacking_choice(d, x, product);
    if (choice) {
        return arena_printf(d->a,
                            "%s is not installed in a version that %s can use: it looks for "
                            "%s.",
                            product ? product : x->name,
                            x->attempt->package ? x->attempt->package : diag_asker(d, x), choice);
    }
    return arena_printf(d->a, "%s, which %s %s, is not installed.", x->name, diag_asker(d, x),
                        x->wish ? "would use" : "needs");
}

static const char *summary_of(struct diag *d, const struct diag_failure *x, enum diag_cause cause,
                              const struct places *p)
{
    const char *who = diag_asker(d, x);
    if (cause == DIAG_LDCONFIG_NOT_RUN) {
        return arena_printf(d->a,
                            "%s is in %s, which %s names, but not in ld.so.cache: ldconfig "
                            "was "
                            "not run.",
                            x->name, path_dir(d->a, p->exact->path), p->conf);
    }
    if (cause == DIAG_LIBRARY_NOT_ON_PATH) {
        return arena_printf(d->a, "%s is installed (%s), in a folder where %s does not look.",
                            x->name, p->exact->package ? p->exact->package : p->exact->where, who);
    }
    if (cause == DIAG_CUDNN_SUBLIBRARY_MISSING) {
        return cudnn_summary(d, x);
    }
    if (cause == DIAG_LIBRARY_WRONG_MAJOR) {
        return arena_printf(d->a, "%s needs %s; installed is %s (%s).", who, x->name,
                            p->other->name, p->other->package ? p->other->package : p->other->path);
    }
    return missing_summary(d, x);
}

static void place_evidence(struct diag *d, struct diag_finding *f, const struct diag_failure *x,
                           const struct places *p)
{
    if (p->exact) {
        diag_evidence(d, f, "%s is at %s%s%s", x->name, p->exact->path,
                      p->exact->package ? ", of the package " : "",
                      p->exact->package ? p->exact->package : "");
    } else if (p->other) {
        diag_evidence(d, f, "the other major version is at %s", p->other->path);
    }
}

/* One more symptom of a cause that is known already: another library of the same asker, or the
 * same library for another asker. */
static bool failure_is_known(struct diag *d, const struct diag_failure *x, enum diag_cause cause,
                             const char *key, const struct places *p)
{
    struct diag_finding *f = diag_find(d, cause, x->name);
    size_t known = d->report->findings.n;
    f = f ? f : diag_add(d, cause, key, x->name, "");
    bool found = d->report->findings.n == known;
    bool is_error = f->severity == diag_causes[cause].severity, raised = !is_error && !x->wish;
    if (found) {
        if (raised) { // who only wishes for it works without it
            f->scripts.n = f->askers.n = 0;
            f->summary = strcmp(f->culprit, x->name) == 0 ? summary_of(d, x, cause, p) : f->summary;
        }
        if (!is_error || !x->wish) {
            diag_seen_in(d, f, x->process);
            diag_stops(d, f, x);
        }
        diag_likewise(d, f, x->name);
        if (x->attempt && x->attempt->feature && x->attempt->source == MODEL_FROM_IMPORT) {
            diag_source_evidence(d, f, x->attempt);
        }
        f->severity = x->wish ? f->severity : diag_causes[cause].severity;
    }
    return found;
}

/* What is one finding: the libraries of one asker; what a package asks for by its own code, in
 * Python or in modules that it imports for a feature, all of it, wishes apart. */
static const char *missing_key(struct diag *d, const struct diag_failure *x)
{
    const char *package = x->attempt ? x->attempt->package : NULL;
    bool extension = package && (x->attempt->source == MODEL_FROM_IMPORT ||
                                 starts_with(path_base(diag_caller(x)), "_ctypes."));
    return is_cudnn_part(x->name) ? arena_printf(d->a, "cudnn|%s", diag_caller(x))
           : extension && x->wish ? package
           : extension            ? arena_printf(d->a, "needs|%s", package)
                                  : diag_caller(x);
}

bool diag_rule_not_found(struct diag *d, const struct diag_failure *x)
{
    if (!x->request) {
        return false;
    }
    if (diag_incomplete(d, x)) {
        return true;
    }
    struct places p = find_places(d, x->name);
    if (!p.exact && is_spoilt(d, x)) {
        return true;
    }
    enum diag_cause cause = failure_cause(x, &p);
    const char *key = missing_key(d, x), *of_wheel = diag_library_of_wheel(d, x);
    struct diag_failure by_name = *x;
    if (of_wheel) { // which is what there is to install
        by_name.name = of_wheel;
        x = &by_name;
    }
    if (failure_is_known(d, x, cause, key, &p)) {
        return true;
    }
    struct diag_finding *f = diag_add(d, cause, key, x->name, "");
    f->summary = summary_of(d, x, cause, &p);
    f->severity = x->wish ? DIAG_WARNING : f->severity;
    place_evidence(d, f, x, &p);
    diag_failure_evidence(d, f, x);
    steps_evidence(d, f, x->request);
    if (cause == DIAG_LIBRARY_MISSING || cause == DIAG_LIBRARY_NOT_ON_PATH ||
        cause == DIAG_LIBRARY_WRONG_MAJOR) {
        other_needs(d, f, x, cause == DIAG_LIBRARY_NOT_ON_PATH);
    }
    const char *variable = x->attempt ? x->attempt->variable : NULL;
    if (variable) {
        diag_repair(d, f, DIAG_REPAIR_ENV, arena_printf(d->a, "unset %s", variable),
                    "Remove %s: without it, %s selects the file for the installed torch.", variable,
                    x->attempt->package);
    }
    if (cause == DIAG_LDCONFIG_NOT_RUN) {
        diag_repair(d, f, DIAG_REPAIR_FILE, "ldconfig", "Write the cache again, as root.");
    } else {
        VEC_PUSH(d->a, &d->pending, (struct diag_pending){f, *x, p.exact});
    }
    return true;
}
