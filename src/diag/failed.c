/* Each failure by the rule for its kind. */
#include "diag/internal.h"

/* A program whose loader does not exist is for another system, which has its libraries as well:
 * one cause. */
static bool rule_without_loader(struct diag *d, const struct diag_failure *x)
{
    const struct ldso_process *l = x->process->ldso;
    struct diag_finding *f = !x->attempt && x->request && l->loader.missing
                                 ? diag_find(d, DIAG_LOADER_MISSING, l->loader.path)
                                 : NULL;
    if (f) {
        diag_evidence(d, f, "%s, which it needs, is not found either", x->name);
    }
    return f != NULL;
}

static void failure_judge(struct diag *d, const struct diag_failure *x)
{
    static bool (*const rules[])(struct diag *, const struct diag_failure *) = {
        rule_without_loader, diag_rule_order,        diag_rule_bad_file,
        diag_rule_defect,    diag_rule_other_vendor, diag_rule_not_found};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i](d, x)) {
            return;
        }
    }
}

void diag_rule_failures(struct diag *d)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        struct diag_failure *list = NULL;
        size_t n = diag_failures(d, p, &list);
        for (size_t k = 0; k < n; k++) {
            failure_judge(d, &list[k]);
        }
        n = diag_wishes(d, p, &list);
        for (size_t k = 0; k < n; k++) {
            failure_judge(d, &list[k]);
        }
    }
    for (size_t i = 0; i < d->pending.n; i++) {
        const struct diag_pending *x = &d->pending.items[i];
        diag_repair_missing(d, x->finding, &x->failure, x->elsewhere);
    }
}
