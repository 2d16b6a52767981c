/* Requests that nobody could serve, and sets that do not fit: from symptom to cause. */
#include <string.h>

#include "diag/internal.h"

/* ------------------------------------------------------------------ collecting */

typedef VEC(struct diag_failure) failure_list;

static bool request_failed(const struct ldso_request *r)
{
    return r->outcome == LDSO_NOT_FOUND || r->outcome == LDSO_REFUSED;
}

/* "libcudnn_ops.so.9" rather than "libcudnn_ops.so.9.1.0" or "libcudnn_ops.so": one number. */
static bool has_one_number(const char *name)
{
    const char *so = strstr(name, ".so.");
    return so && so[4] && !strchr(so + 4, '.');
}

static const char *representative(const struct model_attempt *at)
{
    for (size_t i = 0; i < at->n_names; i++) {
        if (has_one_number(at->names[i])) {
            return at->names[i];
        }
    }
    return at->names[0];
}

/* The defect that ended a load, or the start (-1). */
static const struct ldso_defect *fatal_defect(const struct ldso_process *p, int load)
{
    for (size_t i = 0; i < p->defects.n; i++) {
        if (p->defects.items[i].load == load && p->defects.items[i].fatal) {
            return &p->defects.items[i];
        }
    }
    return NULL;
}

/* What really ended one load: a dependency that was not found, a defect, or the name itself. */
static void failure_of_load(struct diag *d, struct diag_failure f, size_t index, failure_list *out)
{
    const struct ldso_process *p = f.process->ldso;
    const struct ldso_load *load = &p->loads.items[index];
    const struct ldso_request *own = p->requests.items[load->request];
    f.says = load->glibc_says;
    f.defect = fatal_defect(p, (int)index);
    f.request = request_failed(own) ? own : NULL;
    for (size_t i = load->request + 1; i < p->requests.n && !f.request && !f.defect; i++) {
        const struct ldso_request *r = p->requests.items[i];
        if (r->load == (int)index && request_failed(r)) {
            f.request = r;
            f.name = r->name;
        }
    }
    if (f.defect && !f.request) {
        f.name = path_base(f.defect->object->path);
    }
    VEC_PUSH(d->a, out, f);
}

/* The load that tells most of an attempt whose candidates all failed: one whose file was found
 * and refused, else the candidate with one version number. */
static size_t telling_load(const struct ldso_process *p, const struct model_attempt *at)
{
    size_t best = at->first_load;
    for (size_t i = at->first_load; i < at->first_load + at->n_loads; i++) {
        const struct ldso_load *load = &p->loads.items[i];
        if (load->outcome == LDSO_REFUSED) {
            return i;
        }
        if (strcmp(load->name, representative(at)) == 0) {
            best = i;
        }
    }
    return best;
}

/* The driver's own libraries come with the driver: where none is installed that is a fact about
 * the machine, and no fault of the environment. */
static bool is_driver_library(struct diag *d, const char *name)
{
    const struct kb_families *families = &d->m->families;
    for (size_t i = 0; i < families->n; i++) {
        const struct kb_family *f = &families->rows[i];
        for (size_t k = 0; k < f->members.n && strcmp(f->id, "driver") == 0; k++) {
            if (str_glob(f->members.items[k], name)) {
                return true;
            }
        }
    }
    return false;
}

static void keep_unless_driver(struct diag *d, failure_list *out)
{
    const struct diag_failure *last = out->n ? &out->items[out->n - 1] : NULL;
    if (last && last->request && last->request->outcome == LDSO_NOT_FOUND &&
        is_driver_library(d, last->request->name)) {
        out->n--;
    }
}

size_t diag_failures(struct diag *d, const struct model_process *p, struct diag_failure **ret)
{
    failure_list out = {0};
    if (!p->ldso) {
        return 0;
    }
    for (size_t i = 0; p->ldso->start_failed && i < p->ldso->requests.n; i++) {
        const struct ldso_request *r = p->ldso->requests.items[i];
        if (r->load < 0 && r->kind == LDSO_NEEDED && request_failed(r)) {
            VEC_PUSH(d->a, &out, (struct diag_failure){.process = p, .request = r, .name = r->name,
                                                       .says = r->glibc_says});
            keep_unless_driver(d, &out);
        }
    }
    const struct ldso_defect *defect = fatal_defect(p->ldso, -1);
    if (p->ldso->start_failed && out.n == 0 && defect) {
        VEC_PUSH(d->a, &out, (struct diag_failure){.process = p, .defect = defect,
                                                   .name = path_base(defect->object->path),
                                                   .says = defect->text});
    }
    for (size_t i = 0; i < p->attempts.n; i++) {
        const struct model_attempt *at = &p->attempts.items[i];
        if (!at->failed || !at->required || at->source == MODEL_FROM_GUESS || at->n_loads == 0) {
            continue;
        }
        struct diag_failure f = {.process = p, .attempt = at, .name = representative(at)};
        failure_of_load(d, f, telling_load(p->ldso, at), &out);
        keep_unless_driver(d, &out);
    }
    *ret = out.items;
    return out.n;
}

/* ------------------------------------------------------------------ words */

static const char *caller_of(const struct diag_failure *f)
{
    return f->request && f->request->caller ? f->request->caller->path
           : f->defect                      ? f->defect->object->path
                                            : f->process->ldso->main->path;
}

static const char *who_asks(struct diag *d, const struct diag_failure *f)
{
    const char *object = path_base(caller_of(f));
    const char *package = f->attempt ? f->attempt->package : NULL;
    return package ? arena_printf(d->a, "%s (%s)", package, object) : object;
}

static bool is_cudnn(const char *name)
{
    return starts_with(path_base(name), "libcudnn");
}

/* The family of a failure: that of the table, else that of the library's own name. */
static bool in_cudnn(const struct diag_failure *f)
{
    return is_cudnn(f->name) && !(f->request && !is_cudnn(f->request->name) && !f->defect);
}

static void common_evidence(struct diag *d, struct diag_finding *f, const struct diag_failure *x)
{
    diag_seen_in(d, f, x->process);
    if (x->request) {
        diag_evidence(d, f, "%s is asked for by %s", x->request->name, caller_of(x));
    }
    if (x->says) {
        diag_evidence(d, f, "the loader says: %s", x->says);
    }
    if (x->attempt && x->attempt->says && *x->attempt->says) {
        diag_evidence(d, f, "the program then says: %s", x->attempt->says);
    }
    if (x->attempt && x->attempt->row) {
        diag_evidence(d, f, "that it is asked for is known from knowledge base row %s",
                      x->attempt->row);
    } else if (x->attempt && x->attempt->source == MODEL_FROM_NOTE) {
        diag_evidence(d, f, "known from: the object's .note.dlopen");
    }
}

/* Where the loader looked, one line for each place. */
static void steps_evidence(struct diag *d, struct diag_finding *f, const struct ldso_request *r)
{
    const char *places = "";
    enum ldso_via last = LDSO_VIA_NONE;
    for (size_t i = 0; r && i < r->steps.n; i++) {
        const struct ldso_step *s = &r->steps.items[i];
        if (s->via == LDSO_VIA_CACHE && !s->path) {
            places = arena_printf(d->a, "%s%sld.so.cache (not listed)", places, *places ? ", " : "");
        } else if (s->path && (s->via != last || s->via == LDSO_VIA_RPATH)) {
            const char *name = s->via == LDSO_VIA_RPATH     ? "RPATH"
                               : s->via == LDSO_VIA_RUNPATH ? "RUNPATH"
                               : s->via == LDSO_VIA_DEFAULT ? "system directories"
                               : s->via == LDSO_VIA_CACHE   ? "ld.so.cache"
                                                            : ldso_via_name(s->via);
            if (s->via != last) {
                places = arena_printf(d->a, "%s%s%s", places, *places ? ", " : "", name);
            }
        }
        last = s->via;
    }
    if (*places) {
        diag_evidence(d, f, "looked in: %s", places);
    }
}

/* ------------------------------------------------------------------ a file that cannot be used */

static bool rule_bad_file(struct diag *d, const struct diag_failure *x)
{
    for (size_t i = 0; x->request && i < x->request->steps.n; i++) {
        const struct ldso_step *s = &x->request->steps.items[i];
        static const struct {
            enum ldso_result result;
            enum diag_cause cause;
            const char *what;
        } table[] = {
            {LDSO_INVALID, DIAG_LIBRARY_UNUSABLE_FILE, "is no usable library"},
            {LDSO_UNREADABLE, DIAG_LIBRARY_UNUSABLE_FILE, "cannot be opened"},
            {LDSO_DENIED, DIAG_LIBRARY_UNREADABLE, "may not be read by this user"},
            {LDSO_DANGLING, DIAG_LIBRARY_DANGLING_LINK, "is a link that leads nowhere"},
            {LDSO_WRONG_MACHINE, DIAG_LIBRARY_WRONG_ARCHITECTURE, "is built for another processor"},
            {LDSO_WRONG_CLASS, DIAG_LIBRARY_WRONG_ARCHITECTURE, "is built for another word size"},
        };
        for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
            if (s->result != table[k].result || !s->path) {
                continue;
            }
            struct diag_finding *f =
                diag_add(d, table[k].cause, s->path, path_base(s->path),
                         arena_printf(d->a, "%s %s%s%s%s.", s->path, table[k].what,
                                      s->detail ? " (" : "", s->detail ? s->detail : "",
                                      s->detail ? ")" : ""));
            common_evidence(d, f, x);
            const char *owner = model_owner(d->m, s->path);
            if (owner) {
                diag_evidence(d, f, "the file belongs to %s", owner);
                const char *spec = arena_strdup(d->a, owner);
                char *blank = strchr(spec, ' ');
                if (blank) {
                    *blank = '\0';
                }
                diag_repair(d, f, DIAG_REPAIR_PACKAGE,
                            arena_printf(d->a, "%s -m pip install --force-reinstall --no-deps %s%s%s",
                                         d->m->env && d->m->env->executable ? d->m->env->executable
                                                                           : "python3",
                                         spec, blank ? "==" : "", blank ? blank + 1 : ""),
                            "Install %s again: its file is damaged.", owner);
            } else if (table[k].cause == DIAG_LIBRARY_UNREADABLE) {
                diag_repair(d, f, DIAG_REPAIR_FILE, arena_printf(d->a, "chmod a+rX %s", s->path),
                            "Give read permission to %s and to the folders above it.", s->path);
            } else {
                diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                            "Replace or remove %s.", s->path);
            }
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ versions and symbols */

static bool is_runtime_version(const char *version)
{
    return version && (starts_with(version, "GLIBC_") || starts_with(version, "GLIBCXX_") ||
                       starts_with(version, "CXXABI_") || starts_with(version, "GCC_"));
}

/* A provider that a search path brought in, not the system. */
static bool brought_in(const struct ldso_object *provider)
{
    return provider && (provider->via == LDSO_VIA_LIBRARY_PATH || provider->via == LDSO_VIA_RPATH ||
                        provider->via == LDSO_VIA_RUNPATH || provider->via == LDSO_VIA_PRELOAD);
}

static const char *shadow_class(const struct ldso_object *provider)
{
    bool path = provider->via == LDSO_VIA_RPATH || provider->via == LDSO_VIA_RUNPATH;
    return path ? "rpath-shadow" : "ld-library-path-shadow";
}

static void shadow_repair(struct diag *d, struct diag_finding *f, const struct ldso_object *provider)
{
    const char *dir = path_dir(d->a, provider->path);
    if (provider->via == LDSO_VIA_LIBRARY_PATH) {
        diag_repair(d, f, DIAG_REPAIR_ENV, "unset LD_LIBRARY_PATH",
                    "Start the program without %s in LD_LIBRARY_PATH.", dir);
    } else {
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL,
                    "Update the package that owns %s, or install releases that belong together.",
                    provider->path);
    }
}

static void rule_defect(struct diag *d, const struct diag_failure *x)
{
    const struct ldso_defect *e = x->defect;
    const char *object = path_base(e->object->path);
    struct diag_finding *f = NULL;
    switch (e->kind) {
    case LDSO_EXEC_STACK:
        f = diag_add(d, DIAG_EXEC_STACK, e->object->path, object,
                     arena_printf(d->a, "%s asks for an executable stack, which this glibc (%s) "
                                        "refuses.", object, x->process->ldso->loader.version));
        diag_repair(d, f, DIAG_REPAIR_FILE,
                    arena_printf(d->a, "patchelf --clear-execstack %s", e->object->path),
                    "Clear the mark in the file, or install a release without it.");
        break;
    case LDSO_ISA_LEVEL:
        f = diag_add(d, DIAG_CPU_LEVEL, e->object->path, object,
                     arena_printf(d->a, "%s is built for a newer processor than this one.", object));
        break;
    case LDSO_FILE_CUT:
        f = diag_add(d, DIAG_LIBRARY_UNUSABLE_FILE, e->object->path, object,
                     arena_printf(d->a, "%s is cut off: the process dies when it is loaded.",
                                  e->object->path));
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL, "Install the package that owns %s again.",
                    e->object->path);
        break;
    case LDSO_VERSION_MISSING:
    case LDSO_SYMBOL_MISSING:
    case LDSO_SYMBOL_MISSING_LAZY:
    case LDSO_NO_VERSIONS: {
        bool runtime = is_runtime_version(e->version);
        bool shadow = brought_in(e->provider);
        enum diag_cause cause = shadow && !runtime ? DIAG_LIBRARY_WRONG_COPY
                                : shadow           ? DIAG_LIBRARY_WRONG_COPY
                                : runtime          ? DIAG_GLIBC_TOO_OLD
                                : e->kind == LDSO_VERSION_MISSING ? DIAG_SYMBOL_VERSION_MISSING
                                                                  : DIAG_UNDEFINED_SYMBOL;
        const char *key = arena_printf(d->a, "%s|%s", e->provider ? e->provider->path : "",
                                       e->object->path);
        const char *culprit = e->provider ? path_base(e->provider->path) : object;
        f = diag_add(d, cause, key, culprit,
                     e->provider
                         ? arena_printf(d->a, "%s needs %s%s from %s, and the copy that is loaded (%s) "
                                              "does not have it.", object,
                                        e->version ? e->version : e->symbol,
                                        e->version && e->symbol ? arena_printf(d->a, " (%s)", e->symbol)
                                                                : "",
                                        culprit, e->provider->path)
                         : arena_printf(d->a, "%s needs the symbol %s, and no loaded library defines it.",
                                        object, e->symbol));
        if (shadow) {
            f->class = shadow_class(e->provider);
            diag_evidence(d, f, "%s was found through %s", e->provider->path,
                          ldso_via_name(e->provider->via));
            shadow_repair(d, f, e->provider);
        } else if (runtime) {
            diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL,
                        "Install a build of %s for older systems, or use a newer system or container.",
                        object);
        } else {
            const char *owner = model_owner(d->m, e->object->path);
            const char *other = e->provider ? model_owner(d->m, e->provider->path) : NULL;
            if (other) {
                diag_evidence(d, f, "%s belongs to %s", e->provider->path, other);
            }
            diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL,
                        "Install releases that belong together: %s was built against another release.",
                        owner ? owner : object);
        }
        break;
    }
    }
    if (f) {
        common_evidence(d, f, x);
    }
}

/* ------------------------------------------------------------------ a library that is not found */

struct places {
    const struct model_library *exact; // usable, with the very name
    const struct model_library *other; // another major version
    size_t n_sub;                      // members of the same cuDNN in one folder
    const char *sub_dir;
};

/* The major version in a library's file name, "" without one. */
static struct str major_of(const char *name)
{
    const char *so = strstr(name, ".so.");
    struct str s = so ? str_of(so + 4) : STR("");
    s.n = str_find_char(s, '.');
    return s;
}

static struct places find_places(struct diag *d, const char *name)
{
    struct places p = {0};
    struct model_library *list = NULL;
    size_t n = model_libraries(d->m, name, &list);
    for (size_t i = 0; i < n; i++) {
        if (!list[i].usable) {
            continue;
        }
        bool same = strcmp(list[i].name, name) == 0;
        if (same && !p.exact) {
            p.exact = &list[i];
        } else if (!same && !p.other && major_of(list[i].name).n && major_of(name).n &&
                   !str_eq(major_of(list[i].name), major_of(name))) {
            p.other = &list[i];
        }
    }
    return p;
}

/* For a cuDNN sub-library: a folder that holds the others. */
static void find_rest_of_cudnn(struct diag *d, const char *name, struct places *p)
{
    struct str major = major_of(name);
    for (size_t i = 0; i < d->m->folders.n; i++) {
        const struct model_folder *f = &d->m->folders.items[i];
        size_t n = 0;
        for (size_t k = 0; k < f->n; k++) {
            n += starts_with(f->names[k], "libcudnn_") && str_eq(major_of(f->names[k]), major);
        }
        if (n > p->n_sub) {
            p->n_sub = n;
            p->sub_dir = f->dir;
        }
    }
}

static void rule_not_found(struct diag *d, const struct diag_failure *x)
{
    bool cudnn = in_cudnn(x) && strchr(x->name, '_');
    struct places p = find_places(d, x->name);
    const char *who = who_asks(d, x);
    const char *key = arena_printf(d->a, "%s|%s", cudnn ? "cudnn" : x->name, caller_of(x));
    struct diag_finding *f;
    size_t known = d->report->findings.n;
    if (p.exact) {
        const char *owner = p.exact->package ? p.exact->package : p.exact->where;
        f = diag_add(d, DIAG_LIBRARY_NOT_ON_PATH, key, x->name,
                     arena_printf(d->a, "%s is installed (%s), in a folder where %s does not look.",
                                  x->name, owner, who));
    } else if (cudnn) {
        find_rest_of_cudnn(d, x->name, &p);
        f = diag_add(d, DIAG_CUDNN_SUBLIBRARY_MISSING, key, x->name,
                     p.n_sub ? arena_printf(d->a, "%s is missing from the cuDNN in %s.", x->name,
                                            p.sub_dir)
                             : arena_printf(d->a, "%s brings the main cuDNN library alone; %s and the "
                                                  "other sub-libraries are not installed.", who,
                                            x->name));
    } else if (p.other) {
        f = diag_add(d, DIAG_LIBRARY_WRONG_MAJOR, key, x->name,
                     arena_printf(d->a, "%s needs %s; installed is %s (%s).", who, x->name,
                                  p.other->name,
                                  p.other->package ? p.other->package : p.other->path));
    } else {
        f = diag_add(d, DIAG_LIBRARY_MISSING, key, x->name,
                     arena_printf(d->a, "%s, which %s needs, is not installed.", x->name, who));
    }
    if (d->report->findings.n == known) { // one more symptom of a cause that is known already
        diag_seen_in(d, f, x->process);
        diag_likewise(d, f, x->name);
        return;
    }
    common_evidence(d, f, x);
    steps_evidence(d, f, x->request);
    if (p.exact) {
        diag_evidence(d, f, "%s is at %s%s%s", x->name, p.exact->path,
                      p.exact->package ? ", of the package " : "",
                      p.exact->package ? p.exact->package : "");
    } else if (p.other) {
        diag_evidence(d, f, "the other major version is at %s", p.other->path);
    }
    diag_repair_missing(d, f, x, p.exact);
}

/* ------------------------------------------------------------------ the rule */

static bool works_elsewhere(struct diag *d, const struct diag_failure *x,
                            const struct model_process **ret);

static bool same_packages(const struct model_process *a, const struct model_process *b)
{
    if (a->n_script != b->n_script) {
        return false;
    }
    for (size_t i = 0; i < a->n_script; i++) {
        bool found = false;
        for (size_t k = 0; k < b->n_script && !found; k++) {
            found = strcmp(a->script[i], b->script[k]) == 0;
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

/* A script with the same packages in another order that has no failure. */
static bool works_elsewhere(struct diag *d, const struct diag_failure *x,
                            const struct model_process **ret)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        struct diag_failure *none = NULL;
        if (p != x->process && p->n_script > 2 && same_packages(p, x->process) &&
            diag_failures(d, p, &none) == 0) {
            *ret = p;
            return true;
        }
    }
    return false;
}

/* Whether one of the packages of a script fails in the same way on its own. */
static bool fails_alone(struct diag *d, const struct diag_failure *x)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        struct diag_failure *list = NULL;
        size_t n = p->n_script <= 2 ? diag_failures(d, p, &list) : 0;
        for (size_t k = 0; k < n; k++) {
            if (strcmp(list[k].name, x->name) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* A failure of an order of imports only: neither package alone has it, the other order neither. */
static bool rule_import_order(struct diag *d, const struct diag_failure *x)
{
    const struct model_process *works = NULL;
    if (x->process->n_script <= 2 || fails_alone(d, x) || !works_elsewhere(d, x, &works)) {
        return false;
    }
    struct diag_finding *f = diag_add(
        d, DIAG_IMPORT_ORDER, diag_script_text(d, x->process), x->name,
        arena_printf(d->a, "\"%s\" fails, \"%s\" works.", diag_script_text(d, x->process),
                     diag_script_text(d, works)));
    f->class = x->defect ? "sublib-version-mismatch" : "lib-not-on-path";
    common_evidence(d, f, x);
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Import in this order: %s.",
                diag_script_text(d, works));
    return true;
}

void diag_rule_failures(struct diag *d)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        struct diag_failure *list = NULL;
        size_t n = diag_failures(d, d->m->processes.items[i], &list);
        for (size_t k = 0; k < n; k++) {
            const struct diag_failure *x = &list[k];
            if (rule_import_order(d, x) || rule_bad_file(d, x)) {
                continue;
            }
            if (x->defect && !x->request) {
                rule_defect(d, x);
            } else if (x->request) {
                rule_not_found(d, x);
            }
        }
    }
}
