/* A file with the right name that cannot be used. */
#include <string.h>

#include "diag/internal.h"

struct refusal {
    enum ldso_result result;
    enum diag_cause cause;
    const char *what;
};

static const struct refusal refusals[] = {
    {LDSO_INVALID, DIAG_LIBRARY_UNUSABLE_FILE, "is not a usable library"},
    {LDSO_UNREADABLE, DIAG_LIBRARY_UNUSABLE_FILE, "cannot be opened"},
    {LDSO_DENIED, DIAG_LIBRARY_UNREADABLE, "cannot be read by this user"},
    {LDSO_DANGLING, DIAG_LIBRARY_DANGLING_LINK, "is a link that leads nowhere"},
    {LDSO_WRONG_MACHINE, DIAG_LIBRARY_WRONG_ARCHITECTURE, "is built for another processor"},
    {LDSO_WRONG_CLASS, DIAG_LIBRARY_WRONG_ARCHITECTURE, "is built for another word size"},
};

static const struct refusal cut = {LDSO_TAKEN, DIAG_LIBRARY_UNUSABLE_FILE,
                                   "is not a usable library"};

static const struct refusal osabi = {LDSO_INVALID, DIAG_LIBRARY_WRONG_ARCHITECTURE,
                                     "is built for another operating system"};

static const struct refusal pages = {LDSO_INVALID, DIAG_PAGE_SIZE, "cannot be mapped"};

static const struct refusal *refusal_of(const struct ldso_step *s)
{
    if (s->result == LDSO_INVALID && s->detail && strstr(s->detail, "linked for pages of")) {
        return &pages;
    }
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
    const char *target =
        why->cause == DIAG_LIBRARY_DANGLING_LINK ? model_link_target(d->m, s->path) : NULL;
    return target      ? arena_printf(d->a, " (to %s)", target)
           : s->detail ? arena_printf(d->a, " (%s)", s->detail)
                       : "";
}

/* The folder at which the way to the file ends for this user, else the file itself. */
static const char *denied_at(struct diag *d, const char *path)
{
    const char *at = model_denied_at(d->m, path);
    return at ? at : path;
}

/* Of a folder all that is in it: an installer under a narrow umask closes each level. */
static void repair_permission(struct diag *d, struct diag_finding *f, const char *path)
{
    const char *at = denied_at(d, path);
    bool is_folder = strcmp(at, path) != 0;
    if (is_folder) {
        diag_evidence(d, f, "this user does not have search permission on %s", at);
    }
    diag_repair(d, f, DIAG_REPAIR_FILE,
                arena_printf(d->a, "chmod %sa+rX %s", is_folder ? "-R " : "", diag_quote(d, at)),
                "Grant everybody read permission to it, as its owner or as root.");
}

/* The system's libraries are not at fault where a program is built for another processor, and one
 * program is one cause. */
static bool is_foreign_program(struct diag *d, const struct diag_failure *x, const char *path,
                               const struct refusal *why)
{
    return why->result == LDSO_WRONG_MACHINE && x->process && x->process->ldso &&
           !model_owner(d->m, path);
}

static void add_foreign(struct diag *d, const struct diag_failure *x, const char *path,
                        const char *detail)
{
    const char *program = x->process->ldso->main->path;
    struct diag_finding *f =
        diag_add(d, DIAG_LIBRARY_WRONG_ARCHITECTURE, program, path_base(path),
                 arena_printf(d->a, "%s needs %s, and %s is built for another processor%s.",
                              path_base(program), path_base(path), path, detail));
    bool fresh = f->evidence.n == 0;
    diag_likewise(d, f, path_base(path));
    f->severity = !x->wish ? DIAG_ERROR : fresh ? DIAG_WARNING : f->severity;
    diag_failure_evidence(d, f, x);
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                "Use builds for one processor: the program and all libraries that it loads.");
}

/* Where a link leads that no package records, into another folder; NULL: it is none. */
static const char *own_link_target(struct diag *d, const struct refusal *why, const char *path)
{
    bool own = why->cause == DIAG_LIBRARY_DANGLING_LINK && !model_owner(d->m, path);
    const char *target = own ? model_link_target(d->m, path) : NULL;
    return target && strchr(target, '/') ? target : NULL;
}

/* What is one finding: a file; a folder that is closed, which hides several at once; or such links
 * of one folder into one other, which went as a whole with its package. */
static const char *file_key(struct diag *d, const struct refusal *why, const char *path)
{
    const char *target = own_link_target(d, why, path);
    return target ? arena_printf(d->a, "%s to %s", path_dir(d->a, path), path_dir(d->a, target))
           : why->cause == DIAG_LIBRARY_UNREADABLE ? denied_at(d, path)
                                                   : path;
}

/* To remove such a link gains nothing: what it led to is missing. */
static void repair_link(struct diag *d, struct diag_finding *f, const char *target,
                        const char *path)
{
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                "Install the package again that had %s, or remove the links in %s; no package of "
                "this environment records them.",
                path_base(target), path_dir(d->a, path));
}

static void repair_file(struct diag *d, struct diag_finding *f, const struct refusal *why,
                        const char *path)
{
    if (why->cause == DIAG_LIBRARY_UNREADABLE) {
        repair_permission(d, f, path);
    } else if (why->cause == DIAG_PAGE_SIZE) {
        diag_repair_page_size(d, f, path);
    } else if (own_link_target(d, why, path)) {
        repair_link(d, f, own_link_target(d, why, path), path);
    } else {
        diag_repair_reinstall(d, f, path);
    }
}

static void file_finding(struct diag *d, const struct diag_failure *x, const char *path,
                         const struct refusal *why, const char *detail)
{
    if (is_foreign_program(d, x, path, why)) {
        add_foreign(d, x, path, detail);
        return;
    }
    const char *end = model_link_end(d->m, path);
    struct diag_finding *f = diag_add(d, why->cause, file_key(d, why, end), path_base(path),
                                      arena_printf(d->a, "%s %s%s.", path, why->what, detail));
    bool fresh = f->evidence.n == 0;
    diag_likewise(d, f, path_base(path));
    f->severity = !x->wish ? DIAG_ERROR : fresh ? DIAG_WARNING : f->severity;
    diag_failure_evidence(d, f, x);
    if (strcmp(end, path) != 0) {
        diag_evidence(d, f, "%s is a link to %s", path, end);
    }
    if (fresh) {
        repair_file(d, f, why, end);
    }
    diag_repair_findable(d, f, x, path, 0);
}

/* What the loader says of the file itself, opened by its path in another start of the program. */
static const struct refusal *refusal_of_file(struct diag *d, const struct model_process *p,
                                             const char *path, const char **ret_detail)
{
    struct gm_err err;
    struct ldso_process *again = ldso_process_new(d->m->store, d->a, &p->ldso->config);
    if (ldso_start(again, p->ldso->main->path, &err) < 0 ||
        !ldso_dlopen(again, NULL, path, LDSO_NOW)) {
        return NULL; // nothing can be loaded into it
    }
    const struct ldso_load *load = &again->loads.items[0];
    const struct ldso_request *r = again->requests.items[load->request];
    for (size_t i = 0; i < r->steps.n; i++) {
        const struct refusal *why = refusal_of(&r->steps.items[i]);
        if (why) {
            *ret_detail = detail_of(d, &r->steps.items[i], why);
            return why;
        }
    }
    *ret_detail = " (it is cut off)";
    return load->crashed ? &cut : NULL;
}

void diag_damaged_library(struct diag *d, const char *path)
{
    const char *detail = "";
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        bool can_load = p->ldso && !p->ldso->is_static && !p->ldso->start_failed;
        const struct refusal *why = can_load ? refusal_of_file(d, p, path, &detail) : NULL;
        if (why && why->cause != DIAG_LIBRARY_WRONG_ARCHITECTURE) {
            struct diag_finding *f =
                diag_add(d, why->cause, file_key(d, why, model_link_end(d->m, path)),
                         path_base(path), arena_printf(d->a, "%s %s%s.", path, why->what, detail));
            if (f->evidence.n == 0) {
                f->severity = DIAG_WARNING;
                diag_evidence(d, f, "no import and no first use that was looked at loads it");
                diag_repair_reinstall(d, f, path);
            }
        }
        if (can_load) {
            return;
        }
    }
}

bool diag_bad_copy(struct diag *d, const struct diag_failure *x, const struct model_library *copy)
{
    const char *detail = "";
    const struct refusal *why = refusal_of_file(d, x->process, copy->path, &detail);
    bool is_own = strcmp(copy->where, "site-packages") == 0 || strcmp(copy->where, "conda") == 0;
    if (!why || (why->cause == DIAG_LIBRARY_WRONG_ARCHITECTURE && !is_own)) {
        return false; // a system may have libraries of several architectures
    }
    file_finding(d, x, copy->path, why, detail);
    return true;
}

bool diag_denied_copy(struct diag *d, const struct diag_failure *x)
{
    const char *path = diag_denied_place(d, x);
    const char *owner = path ? model_owner(d->m, path) : NULL;
    if (!path) {
        return false;
    }
    static const struct refusal why = {LDSO_DENIED, DIAG_LIBRARY_UNREADABLE,
                                       "cannot be read by this user"};
    file_finding(d, x, path, &why,
                 owner ? arena_printf(d->a, " (%s records it)", owner)
                       : ": gpumend cannot tell whether it exists");
    return true;
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
        file_finding(d, x, path, why, detail_of(d, s, why));
        return true;
    }
    return false;
}
