/* A file with the right name that cannot be used. */
#include <string.h>

#include "diag/internal.h"

struct refusal {
    enum ldso_result result;
    enum diag_cause cause;
    const char *what;
};

static const struct refusal refusals[] = {
    {LDSO_INVALID, DIAG_LIBRARY_UNUSABLE_FILE, "is no usable library"},
    {LDSO_UNREADABLE, DIAG_LIBRARY_UNUSABLE_FILE, "cannot be opened"},
    {LDSO_DENIED, DIAG_LIBRARY_UNREADABLE, "may not be read by this user"},
    {LDSO_DANGLING, DIAG_LIBRARY_DANGLING_LINK, "is a link that leads nowhere"},
    {LDSO_WRONG_MACHINE, DIAG_LIBRARY_WRONG_ARCHITECTURE, "is built for another processor"},
    {LDSO_WRONG_CLASS, DIAG_LIBRARY_WRONG_ARCHITECTURE, "is built for another word size"},
};

static const struct refusal osabi = {LDSO_INVALID, DIAG_LIBRARY_WRONG_ARCHITECTURE,
                                     "is built for another operating system"};

static const struct refusal *refusal_of(const struct ldso_step *s)
{
    if (s->result == LDSO_INVALID && s->detail && strstr(s->detail, "OS ABI")) {
        return &osabi;
    }
    for (size_t i = 0; s->path && i < sizeof refusals / sizeof *refusals; i++) {
        if (refusals[i].result == s->result) {
            return &refusals[i];
        }
    }
    return NULL;
}

/* Where a link says that it leads, or why a file was refused; "" if there is nothing to add. */
static const char *detail_of(struct diag *d, const struct ldso_step *s, const struct refusal *why)
{
    const char *target = why->cause == DIAG_LIBRARY_DANGLING_LINK
                             ? model_link_target(d->m, s->path) : NULL;
    return target      ? arena_printf(d->a, " (to %s)", target)
           : s->detail ? arena_printf(d->a, " (%s)", s->detail)
                       : "";
}

static void repair_permission(struct diag *d, struct diag_finding *f, const char *path)
{
    const char *at = model_denied_at(d->m, path);
    at = at ? at : path;
    if (strcmp(at, path) != 0) {
        diag_evidence(d, f, "this user may not pass through %s", at);
    }
    diag_repair(d, f, DIAG_REPAIR_FILE, arena_printf(d->a, "chmod a+rX %s", diag_quote(d, at)),
                "Give everybody read permission to it, as its owner or as root.");
}

bool diag_rule_bad_file(struct diag *d, const struct diag_failure *x)
{
    for (size_t i = 0; x->request && i < x->request->steps.n; i++) {
        const struct ldso_step *s = &x->request->steps.items[i];
        const struct refusal *why = refusal_of(s);
        if (!why) {
            continue;
        }
        const char *path = path_normal(d->a, model_absolute(d->m, s->path));
        struct diag_finding *f =
            diag_add(d, why->cause, path, path_base(path),
                     arena_printf(d->a, "%s %s%s.", path, why->what, detail_of(d, s, why)));
        bool fresh = f->evidence.n == 0;
        f->severity = !x->wish ? DIAG_ERROR : fresh ? DIAG_WARNING : f->severity;
        diag_failure_evidence(d, f, x);
        if (why->cause == DIAG_LIBRARY_UNREADABLE) {
            repair_permission(d, f, path);
        } else {
            diag_repair_reinstall(d, f, path);
        }
        return true;
    }
    return false;
}
