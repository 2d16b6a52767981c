/* A failure of an order of imports only: neither package alone has it, the other order neither. */
#include <string.h>

#include "diag/internal.h"
#include "model/lazy.h"

static bool has_import(const struct model_process *p, const char *line)
{
    for (size_t i = 0; i < model_n_imports(p); i++) {
        if (strcmp(model_import(p, i), line) == 0) {
            return true;
        }
    }
    return false;
}

static bool same_imports(const struct model_process *a, const struct model_process *b)
{
    size_t n = model_n_imports(a);
    bool same = n == model_n_imports(b);
    for (size_t i = 0; i < n && same; i++) {
        same = has_import(b, model_import(a, i));
    }
    return same;
}

const struct model_process *diag_first_of(struct diag *d, size_t group)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        if (d->m->processes.items[i]->group == group) {
            return d->m->processes.items[i];
        }
    }
    return NULL;
}

bool diag_group_works(struct diag *d, size_t group, const struct diag_failure *x)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        struct diag_failure *none = NULL;
        if (p->group == group &&
            (!p->ldso || diag_failures(d, p, &none) || diag_fails_likewise(d, p, x))) {
            return false;
        }
    }
    return true;
}

/* The same imports in another order, after which every order of uses works. */
static const struct model_process *works_elsewhere(struct diag *d, const struct diag_failure *x)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        if (p->group != x->process->group && p == diag_first_of(d, p->group) &&
            same_imports(p, x->process) && diag_group_works(d, p->group, x)) {
            return p;
        }
    }
    return NULL;
}

/* Whether one of the packages of a script fails in the same way on its own. */
static bool fails_alone(struct diag *d, const struct diag_failure *x)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        if (model_n_imports(p) == 1 && diag_fails_likewise(d, p, x)) {
            return true;
        }
    }
    return false;
}

static const struct model_process *named(struct diag *d, const char *script)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        if (strcmp(diag_script_text(d, d->m->processes.items[i]), script) == 0) {
            return d->m->processes.items[i];
        }
    }
    return NULL;
}

static bool imports_may_wait(const struct diag *d)
{
    const struct py_env *env = d->m->env;
    return env && env->major == 3 && env->minor >= 15;
}

/* PEP 810: whether an import at the top of a module waits until the module is used. */
static bool imports_wait(const struct diag *d)
{
    const char *mode = diag_getenv(d, "PYTHON_LAZY_IMPORTS");
    return imports_may_wait(d) && mode && strcmp(mode, "all") == 0;
}

/* CPython 3.15, config_init_lazy_imports: "invalid value; expected 'all' or 'normal'", and Python
 * ends; an empty one counts as unset. */
static void note_invalid_mode(struct diag *d)
{
    const char *mode = diag_getenv(d, "PYTHON_LAZY_IMPORTS");
    if (imports_may_wait(d) && mode && *mode && strcmp(mode, "all") != 0 &&
        strcmp(mode, "normal") != 0) {
        VEC_PUSH(d->a, &d->report->notes,
                 arena_printf(d->a,
                              "Python 3.%d does not start with PYTHON_LAZY_IMPORTS=%s: it takes "
                              "\"all\" or \"normal\"",
                              d->m->env->minor, mode));
        d->unsure = true;
    }
}

/* The first import that waits in a package of these scripts. */
static const char *waiting_import(struct diag *d, const struct diag_finding *f)
{
    static const char import[] = "import ";
    const char *found = NULL;
    for (size_t i = 0; i < f->scripts.n && !found; i++) {
        const struct model_process *p = named(d, f->scripts.items[i]);
        for (size_t k = 0; p && k < model_n_imports(p) && !found; k++) {
            const char *line = model_import(p, k);
            const char *name = starts_with(line, import) ? line + sizeof import - 1 : line;
            found = model_lazy_import(d->m, arena_strndup(d->a, name, strcspn(name, " ,")));
        }
    }
    return found;
}

static bool is_of_imports(struct diag *d, const struct diag_finding *f)
{
    bool all = f->scripts.n && f->severity != DIAG_NOTE;
    for (size_t i = 0; i < f->scripts.n && all; i++) {
        const struct model_process *p = named(d, f->scripts.items[i]);
        all = p && model_n_imports(p) > 0;
    }
    return all;
}

void diag_say_lazy(struct diag *d)
{
    note_invalid_mode(d);
    for (size_t i = 0; i < d->report->findings.n && imports_may_wait(d); i++) {
        struct diag_finding *f = d->report->findings.items[i];
        const char *waiting = NULL;
        if (!is_of_imports(d, f)) {
            continue;
        }
        if (imports_wait(d)) {
            f->summary = arena_printf(d->a,
                                      "%s PYTHON_LAZY_IMPORTS=all (or -X lazy_imports=all): the "
                                      "program meets it where it first uses the package, not at "
                                      "the import statement.",
                                      f->summary);
        } else if ((waiting = waiting_import(d, f))) {
            f->summary = arena_printf(d->a,
                                      "%s The package has imports that wait (%s): the program may "
                                      "meet it only where it first uses the package.",
                                      f->summary, waiting);
        }
    }
}

void diag_say_mixed(struct diag *d)
{
    for (size_t i = 0; i < d->report->findings.n; i++) {
        struct diag_finding *f = d->report->findings.items[i];
        bool mixed = f->scripts.n && f->severity != DIAG_NOTE;
        for (size_t k = 0; k < f->scripts.n && mixed; k++) {
            const struct model_process *p = named(d, f->scripts.items[k]);
            mixed = p && model_is_mixed(p);
        }
        if (mixed) {
            f->summary = arena_printf(d->a,
                                      "%s It affects only programs that use one of the "
                                      "packages "
                                      "before they import the next (\"%s\").",
                                      f->summary, f->scripts.items[0]);
        }
    }
}

/* Where imports wait, the order of the import statements decides nothing. */
static void repair_order(struct diag *d, struct diag_finding *f, const char *imports)
{
    if (imports_wait(d)) {
        diag_evidence(d, f,
                      "PYTHON_LAZY_IMPORTS=all: a module is loaded when it is first used, not "
                      "at its import statement");
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Use the modules for the first time in this order, or set "
                    "PYTHON_LAZY_IMPORTS=normal and import in it: %s.",
                    imports);
    } else {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Import in this order%s: %s.",
                    imports_may_wait(d) ? ", not by \"lazy import\"" : "", imports);
    }
}

bool diag_rule_order(struct diag *d, const struct diag_failure *x)
{
    if (x->defect && x->defect->kind == LDSO_STATIC_TLS) {
        return false; // more room helps in every order
    }
    const struct model_process *works =
        model_n_imports(x->process) > 1 && !fails_alone(d, x) ? works_elsewhere(d, x) : NULL;
    if (!works) {
        return false;
    }
    const char *fails = diag_script_text(d, x->process), *imports = diag_imports_text(d, works);
    const struct ldso_object *provider = x->defect ? x->defect->provider : NULL;
    struct diag_finding *f =
        diag_add(d, DIAG_IMPORT_ORDER, diag_imports_text(d, x->process),
                 provider ? path_base(provider->path) : x->name,
                 arena_printf(d->a, "\"%s\" fails, \"%s\" works%s.", fails, imports,
                              works->n_order > 1 ? " whichever is used first" : ""));
    f->severity = x->wish ? DIAG_WARNING : f->severity;
    f->class = x->defect ? "sublib-version-mismatch" : "lib-not-on-path";
    if (provider) {
        diag_evidence(d, f, "%s was loaded first, through %s, and does not match %s",
                      provider->path, diag_via(d, provider->via, provider->via_object),
                      path_base(x->defect->object->path));
    }
    diag_failure_evidence(d, f, x);
    repair_order(d, f, imports);
    return true;
}
