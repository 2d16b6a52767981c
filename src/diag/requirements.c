/*
 * What GPU packages declare (Requires-Dist of their metadata) against what is installed.
 *
 * A declaration is no proof: a package often pins more strictly than it needs, and its libraries
 * are found elsewhere (a toolkit, another package). So the process model decides:
 *
 *   a module that the package's import needs (kb/, rows of imports) is not there   an error
 *   a package with whose release this one was seen to fail (kb/, rows of compat)   an error
 *   a library that a declared package would bring fails in the model               told with that
 *                                                                                  finding
 *   anything else                                                                  one note
 */
#include <string.h>

#include "diag/internal.h"
#include "model/imports.h"
#include "model/requires.h"
#include "py/dist.h"

/* ------------------------------------------------------------------ what an import needs */

static bool is_imported(const struct model_process *p, const char *dist)
{
    for (size_t i = 0; i < p->imported.n; i++) {
        if (strcmp(p->imported.items[i], dist) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether an import that could not be modelled may bring it: one whose distribution is not known
 * brings whatever there is, one that is not installed nothing. */
static bool may_bring(const struct diag *d, const struct model_process *p,
                      const struct py_dist *dist)
{
    bool may = p->unknown.n > p->untold.n + p->n_not_installed;
    for (size_t i = 0; i < p->untold.n && !may; i++) {
        may = model_leads_to(d->m, p->untold.items[i], dist);
    }
    return may;
}

bool diag_may_be_imported(const struct diag *d, const struct py_dist *dist)
{
    bool may = !d->m->imports_named && !d->m->pid;
    for (size_t i = 0; i < d->m->processes.n && !may; i++) {
        const struct model_process *p = d->m->processes.items[i];
        may = is_imported(p, dist->name) || may_bring(d, p, dist);
    }
    return may;
}

void diag_seen_where_imported(struct diag *d, struct diag_finding *f, const char *dist)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        if (is_imported(p, dist)) {
            diag_seen_in(d, f, p);
        }
    }
}

/* All that a package lacks is one finding, so that one command installs it. */
static void step_missing(struct diag *d, const struct py_dist *dist, const struct kb_import *row,
                         const struct kb_step *step)
{
    const char *name = NULL, *specifiers = "", *need = step->package;
    struct diag_finding *f = diag_find(d, DIAG_REQUIREMENT_MISSING, need);
    bool told = f != NULL;
    f = f ? f
          : diag_add(d, DIAG_REQUIREMENT_MISSING, dist->name_normal, need,
                     arena_printf(d->a, "%s %s needs %s to %s, but it is not installed.",
                                  dist->name_normal, dist->version ? dist->version : "", need,
                                  step->phase == KB_PHASE_USE ? "work" : "be imported"));
    bool is_new = f->evidence.n == 0;
    enum diag_stage stage = step->phase == KB_PHASE_USE ? DIAG_STAGE_USE : DIAG_STAGE_START;
    f->stage = is_new || stage < f->stage ? stage : f->stage;
    diag_likewise(d, f, need);
    diag_seen_where_imported(d, f, dist->name);
    diag_evidence(d, f, "%s imports %s: knowledge base, row %s", dist->name_normal, need, row->id);
    if (diag_requirement(d, dist->name, need, &name, &specifiers)) {
        diag_evidence(d, f, "the metadata of %s declare %s%s", dist->name_normal, need, specifiers);
    }
    diag_evidence(d, f, "the program then says: ModuleNotFoundError: No module named '%s'",
                  diag_module_of(d, need));
    const char *spec = diag_quote(d, arena_printf(d->a, "%s%s", need, specifiers));
    if (is_new) {
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, diag_pip(d, spec), "Install what is missing.");
    } else if (!told) {
        struct diag_repair *r = &f->repairs.items[0];
        r->command = arena_printf(d->a, "%s %s", r->command, spec);
    }
}

static void rule_imports(struct diag *d, const struct py_dist *dist)
{
    const struct kb_import *row = diag_import_row(d, dist);
    for (size_t i = 0; row && i < row->n_steps; i++) {
        const struct kb_step *s = &row->steps[i];
        if (s->kind == KB_STEP_IMPORT && !s->optional && s->when == KB_WHEN_ALWAYS &&
            !diag_package_is_there(d, s->package)) {
            step_missing(d, dist, row, s);
        }
    }
}

/* ------------------------------------------------------------------ what is known to fail */

static void need_fails(struct diag *d, const struct py_dist *dist, const struct kb_compat *row,
                       const struct kb_need *need)
{
    const struct py_dist *have = py_env_by_dist(d->m->env, need->package);
    if (!need->fails || !have || !have->version || !need->versions ||
        model_version_fits(d->a, need->versions, have->version)) {
        return;
    }
    struct diag_finding *f =
        diag_add(d, DIAG_PACKAGES_CONFLICT, dist->name_normal, have->name_normal,
                 arena_printf(d->a, "%s %s does not work with %s %s: its %s fails.",
                              dist->name_normal, dist->version, have->name_normal, have->version,
                              need->at_import ? "import" : "first use"));
    f->stage = need->at_import ? DIAG_STAGE_START : DIAG_STAGE_USE;
    if (f->askers.n == 0) { // the finding is that of the distribution
        VEC_PUSH(d->a, &f->askers, dist->name_normal);
    }
    diag_seen_where_imported(d, f, dist->name);
    diag_evidence(d, f, "it works with %s%s: knowledge base, row %s", need->package, need->versions,
                  row->id);
    diag_evidence(d, f, "the program then says: %s", need->fails);
    diag_repair(
        d, f, DIAG_REPAIR_PACKAGE,
        diag_pip(d, diag_quote(d, arena_printf(d->a, "%s%s", need->package, need->versions))),
        "Install a %s that it works with.", need->package);
}

/* Pairs that were seen to fail though nobody declares it. */
static void rule_known_to_fail(struct diag *d, const struct py_dist *dist)
{
    struct kb_compats rows;
    struct gm_err err;
    if (!dist->version || kb_compats(d->m->kb, &rows, &err) < 0) {
        return;
    }
    for (size_t i = 0; i < rows.n; i++) {
        const struct kb_compat *row = &rows.rows[i];
        bool it = strcmp(row->package, dist->name_normal) == 0 &&
                  model_version_fits(d->a, row->versions, dist->version);
        for (size_t k = 0; it && k < row->n_needs; k++) {
            need_fails(d, dist, row, &row->needs[k]);
        }
    }
}

/* ------------------------------------------------------------------ what is only declared */

static bool is_about(const struct diag_finding *f, const char *soname)
{
    bool found = str_glob(soname, f->culprit);
    for (size_t i = 0; i < f->likewise.n && !found; i++) {
        found = str_glob(soname, f->likewise.items[i]);
    }
    return found;
}

/* The finding about a library that the declared package would bring, or NULL. */
static struct diag_finding *requirement_finding(struct diag *d, const char *package)
{
    struct kb_provides rows;
    struct gm_err err;
    if (kb_provides(d->m->kb, &rows, &err) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < d->report->findings.n; i++) {
        struct diag_finding *f = d->report->findings.items[i];
        for (size_t k = 0; k < rows.n; k++) {
            const struct kb_provide *r = &rows.rows[k];
            for (size_t n = 0; n < r->n_providers; n++) {
                if (strcmp(r->providers[n].package, package) == 0 && is_about(f, r->soname)) {
                    return f;
                }
            }
        }
    }
    return NULL;
}

/* The finding whose repair installs what the package declares, this among it; or NULL. */
static struct diag_finding *installing_finding(struct diag *d, const struct py_dist *dist,
                                               const char *declared)
{
    for (size_t i = 0; i < d->report->findings.n; i++) {
        struct diag_finding *f = d->report->findings.items[i];
        bool its = f->declaring && strcmp(f->declaring, dist->name_normal) == 0;
        for (size_t k = 0; its && k < f->declared.n; k++) {
            if (strcmp(f->declared.items[k], declared) == 0) {
                return f;
            }
        }
    }
    return NULL;
}

static void requirement_tell(struct diag *d, const struct py_dist *dist, const struct diag_unmet *q)
{
    const char *text = arena_printf(d->a, "%s: %s", q->declared, q->why);
    struct diag_finding *f = installing_finding(d, dist, q->declared);
    f = f ? f : diag_find(d, DIAG_NUMPY_ABI, q->name);
    f = f ? f : requirement_finding(d, q->name);
    if (diag_find(d, DIAG_REQUIREMENT_MISSING, q->name)) {
        return; // told with that finding
    }
    if (f) {
        diag_evidence(d, f, "%s %s declares %s", dist->name_normal,
                      dist->version ? dist->version : "", text);
        return;
    }
    f = diag_add(d, DIAG_REQUIREMENT_UNMET, dist->name_normal, dist->name_normal,
                 arena_printf(d->a,
                              "%s %s declares requirements that are not met; every library "
                              "that it loads is judged apart from that.",
                              dist->name_normal, dist->version ? dist->version : ""));
    diag_evidence(d, f, "%s", text);
    const char *spec = diag_quote(d, q->declared);
    if (f->repairs.n == 0) {
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, diag_pip(d, spec),
                    "Nothing while it works; this installs what is declared.");
    } else {
        struct diag_repair *r = &f->repairs.items[0];
        r->command = arena_printf(d->a, "%s %s", r->command, spec);
    }
}

static void rule_declared(struct diag *d, const struct py_dist *dist)
{
    diag_unmet_list list = diag_unmet(d, dist->name);
    for (size_t i = 0; i < list.n; i++) {
        requirement_tell(d, dist, &list.items[i]);
    }
}

void diag_rule_requirements(struct diag *d)
{
    if (!d->m->env) {
        return;
    }
    for (size_t i = 0; i < d->m->known.n; i++) {
        const struct py_dist *dist = d->m->known.items[i];
        if (diag_may_be_imported(d, dist)) {
            rule_imports(d, dist);
            rule_known_to_fail(d, dist);
        }
    }
    for (size_t i = 0; i < d->m->known.n; i++) {
        rule_declared(d, d->m->known.items[i]);
    }
}
