/* A failure of an order of imports only: neither package alone has it, the other order neither. */
#include <string.h>

#include "diag/internal.h"

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
static const struct model_process *works_elsewhere(struct diag *d, const struct diag_failure *x)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        struct diag_failure *none = NULL;
        if (p != x->process && p->n_script > 2 && same_packages(p, x->process) &&
            diag_failures(d, p, &none) == 0) {
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

bool diag_rule_order(struct diag *d, const struct diag_failure *x)
{
    if (x->defect && x->defect->kind == LDSO_STATIC_TLS) {
        return false; // more room helps in every order
    }
    const struct model_process *works =
        x->process->n_script > 2 && !fails_alone(d, x) ? works_elsewhere(d, x) : NULL;
    if (!works) {
        return false;
    }
    const struct ldso_object *provider = x->defect ? x->defect->provider : NULL;
    struct diag_finding *f = diag_add(
        d, DIAG_IMPORT_ORDER, diag_script_text(d, x->process),
        provider ? path_base(provider->path) : x->name,
        arena_printf(d->a, "\"%s\" fails, \"%s\" works.", diag_script_text(d, x->process),
                     diag_script_text(d, works)));
    f->class = x->defect ? "sublib-version-mismatch" : "lib-not-on-path";
    if (provider) {
        diag_evidence(d, f, "%s was loaded first, through %s, and does not fit %s", provider->path,
                      diag_via(d, provider->via, provider->via_object),
                      path_base(x->defect->object->path));
    }
    diag_failure_evidence(d, f, x);
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Import in this order: %s.",
                diag_script_text(d, works));
    return true;
}
