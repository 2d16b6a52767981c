/* The rules one after the other, and what becomes of their findings: merged, put in order, with
 * notes and with what is fine. */
#include <stdlib.h>
#include <string.h>

#include "diag/internal.h"

/* Errors before warnings before notes; then by stage; then in the order of the causes, which is
 * that of what has to be mended first. */
static int by_weight(const void *x, const void *y)
{
    const struct diag_finding *a = *(struct diag_finding *const *)x;
    const struct diag_finding *b = *(struct diag_finding *const *)y;
    if (a->severity != b->severity) {
        return (int)b->severity - (int)a->severity;
    }
    if (a->stage != b->stage) {
        return (int)a->stage - (int)b->stage;
    }
    if (a->cause != b->cause) {
        return (int)a->cause - (int)b->cause;
    }
    size_t x_order = ((const struct diag_keyed *)a)->order,
           y_order = ((const struct diag_keyed *)b)->order;
    return (x_order > y_order) - (x_order < y_order);
}

/* Whether each folder of the one list is in the other. */
static bool folders_within(struct arena *a, const char *some, const char *all)
{
    bool within = true;
    const char *framed = arena_printf(a, ":%s:", all);
    for (struct str rest = str_of(some); rest.s && within;) {
        struct str folder = str_cut(&rest, ':');
        within = strstr(framed, arena_printf(a, ":" STR_FMT ":", STR_ARG(folder))) != NULL;
    }
    return within;
}

/* Whether the first repair of both is one setting of one variable, in whatever order of folders. */
static bool same_repair(struct arena *a, const struct diag_finding *x, const struct diag_finding *y)
{
    struct diag_variable v, w;
    return x->repairs.n && y->repairs.n && diag_repair_variable(a, &x->repairs.items[0], &v) &&
           diag_repair_variable(a, &y->repairs.items[0], &w) && strcmp(v.name, w.name) == 0 &&
           v.value && w.value && v.prepend == w.prepend && folders_within(a, v.value, w.value) &&
           folders_within(a, w.value, v.value);
}

/* Whether y's first repair begins with all that x asks for, which is met only once another finding
 * is repaired: the same packages are to be installed. */
static bool covers_foreseen(const struct diag_finding *y, const struct diag_finding *x)
{
    const char *first = x->behind && x->repairs.n ? x->repairs.items[0].command : NULL;
    const char *whole = !y->behind && y->repairs.n ? y->repairs.items[0].command : NULL;
    return first && whole && starts_with(whole, first) &&
           (!whole[strlen(first)] || starts_with(whole + strlen(first), " && "));
}

static void texts_add(struct arena *a, diag_texts *to, const char *text)
{
    for (size_t i = 0; i < to->n; i++) {
        if (strcmp(to->items[i], text) == 0) {
            return;
        }
    }
    VEC_PUSH(a, to, text);
}

static void texts_unite(struct arena *a, diag_texts *to, const diag_texts *from)
{
    for (size_t i = 0; i < from->n; i++) {
        texts_add(a, to, from->items[i]);
    }
}

/* A repair that covers one of the two only is none of both. The first is the same. */
static void keep_common_repairs(struct diag_finding *to, const struct diag_finding *from)
{
    size_t kept = 1;
    for (size_t i = 1; i < to->repairs.n; i++) {
        bool common = false;
        for (size_t k = 1; k < from->repairs.n; k++) {
            common |= strcmp(to->repairs.items[i].text, from->repairs.items[k].text) == 0;
        }
        if (common) {
            to->repairs.items[kept++] = to->repairs.items[i];
        }
    }
    to->repairs.n = kept;
}

static void finding_merge(struct diag *d, struct diag_finding *to, const struct diag_finding *from)
{
    diag_likewise(d, to, from->culprit);
    for (size_t i = 0; i < from->likewise.n; i++) {
        diag_likewise(d, to, from->likewise.items[i]);
    }
    texts_unite(d->a, &to->evidence, &from->evidence);
    texts_unite(d->a, &to->scripts, &from->scripts);
    texts_unite(d->a, &to->askers, &from->askers);
    keep_common_repairs(to, from);
    for (size_t i = 0; i < d->report->findings.n; i++) {
        struct diag_finding *f = d->report->findings.items[i];
        f->behind = f->behind == from ? to : f->behind;
    }
    to->stage = from->stage < to->stage ? from->stage : to->stage;
}

/* Two findings of one cause that one repair covers are one: cuBLAS and cuDNN in folders that the
 * same LD_LIBRARY_PATH brings in; a library that is not installed, and one of the same package that
 * is asked for later. */
static bool is_alike(struct diag *d, const struct diag_finding *f, const struct diag_finding *g)
{
    return g->cause == f->cause && g->severity == f->severity &&
           ((!g->behind == !f->behind && strcmp(g->class, f->class) == 0 &&
             same_repair(d->a, g, f)) ||
            covers_foreseen(g, f));
}

static void merge_alike(struct diag *d)
{
    struct diag_report *r = d->report;
    size_t kept = 0;
    for (size_t i = 0; i < r->findings.n; i++) {
        struct diag_finding *f = r->findings.items[i], *first = NULL;
        for (size_t k = 0; k < r->findings.n && !first; k++) {
            struct diag_finding *g = r->findings.items[k];
            bool stays = k < kept || (k > i && f->behind); // what comes later may cover it
            first = stays && is_alike(d, f, g) ? g : NULL;
        }
        if (first) {
            finding_merge(d, first, f);
        } else {
            r->findings.items[kept++] = f;
        }
    }
    r->findings.n = kept;
}

static bool has_error(struct diag *d, const struct model_process *p)
{
    const char *text = diag_script_text(d, p);
    for (size_t i = 0; i < d->report->findings.n; i++) {
        const struct diag_finding *f = d->report->findings.items[i];
        for (size_t k = 0; k < f->scripts.n && f->severity == DIAG_ERROR; k++) {
            if (strcmp(f->scripts.items[k], text) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool is_fine(struct diag *d, const struct model_process *p)
{
    struct diag_failure *failures = NULL;
    return p->ldso && !p->error && !p->unknown.n && !p->ldso->start_failed &&
           !p->ldso->loader.missing && diag_failures(d, p, &failures) == 0 && !has_error(d, p) &&
           !diag_is_driverless(d, p);
}

static bool group_is_fine(struct diag *d, size_t group, size_t *ret_orders)
{
    bool fine = true;
    *ret_orders = 0;
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        if (p->group == group) {
            *ret_orders += 1;
            fine = fine && is_fine(d, p);
        }
    }
    return fine;
}

static void say_fine(struct diag *d, const struct model_process *p, size_t orders)
{
    const char *name = p->n_script ? diag_imports_text(d, p) : path_base(p->ldso->main->path);
    const char *use = orders > 1 && model_n_imports(p) == 1 ? ", then use its parts"
                      : orders > 1                          ? ", then use them"
                      : !p->n_script                        ? ""
                                                            : diag_script_text(d, p) + strlen(name);
    VEC_PUSH(d->a, &d->report->fine,
             arena_printf(d->a, "%s%s%s: every library that it requires is found (%zu loaded)",
                          name, use, orders > 1 ? " in any order" : "", p->ldso->objects.n));
}

/* One sentence for each package or file, and one for all pairs. */
static void say_what_is_fine(struct diag *d)
{
    size_t pairs = 0, fine_pairs = 0, first_group = 0;
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        if (p != diag_first_of(d, p->group)) {
            continue;
        }
        size_t orders = 0;
        first_group = i ? first_group : p->group;
        bool fine = group_is_fine(d, p->group, &orders);
        bool pair = model_n_imports(p) > 1 && p->group != first_group;
        pairs += pair;
        fine_pairs += pair && fine;
        if (fine && !pair && (p->n_script || d->m->target_file || d->m->pid)) {
            say_fine(d, p, orders);
        }
    }
    if (fine_pairs) {
        VEC_PUSH(d->a, &d->report->fine,
                 arena_printf(d->a,
                              "packages that share libraries: %zu of %zu orders of two imports "
                              "find every library",
                              fine_pairs, pairs));
    }
}

/* Names in the constants of a file that nothing answers: worth a line, never a finding. */
static void note_guesses(struct diag *d, const struct model_process *p)
{
    const char *names = "";
    for (size_t i = 0; i < p->attempts.n; i++) {
        const struct model_attempt *at = &p->attempts.items[i];
        if (at->source == MODEL_FROM_GUESS && at->failed) {
            names = arena_printf(d->a, "%s%s%s", names, *names ? ", " : "", at->names[0]);
        }
    }
    if (*names) {
        VEC_PUSH(d->a, &d->report->notes,
                 arena_printf(d->a,
                              "names in its constants that the loader would not find (guesses: "
                              "it may never ask for them): %s",
                              names));
    }
}

static bool asks_for_pip(const struct diag_report *r)
{
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *f = r->findings.items[i];
        for (size_t k = 0; k < f->repairs.n; k++) {
            const struct diag_repair *repair = &f->repairs.items[k];
            if (repair->kind == DIAG_REPAIR_PACKAGE && repair->command) {
                return true;
            }
        }
    }
    return false;
}

/* PEP 668: pip refuses to change the Python of a distribution that is marked so. */
static void note_managed(struct diag *d)
{
    const struct py_env *env = d->m->env;
    if (!diag_is_managed(d->m) || !asks_for_pip(d->report)) {
        return;
    }
    VEC_PUSH(d->a, &d->report->notes,
             diag_is_image(d->m)
                 ? arena_printf(d->a,
                                "%s belongs to the distribution (EXTERNALLY-MANAGED); these are "
                                "the files of a container, so the commands install into it with "
                                "--break-system-packages",
                                env->executable)
                 : arena_printf(d->a,
                                "%s belongs to the distribution, and pip refuses to install into "
                                "it (EXTERNALLY-MANAGED): the commands make an environment over "
                                "it in " DIAG_NEW_VENV "; start programs with its bin/python",
                                env->executable));
}

static void note_once(struct diag *d, const char *text)
{
    for (size_t i = 0; i < d->report->notes.n; i++) {
        if (strcmp(d->report->notes.items[i], text) == 0) {
            return;
        }
    }
    VEC_PUSH(d->a, &d->report->notes, text);
}

static void notes_say(struct diag *d)
{
    note_managed(d);
    if (d->m->unsure) {
        VEC_PUSH(d->a, &d->report->notes, d->m->unsure);
    }
    const struct root *root = d->m->root;
    if (root && *root->cut && !(d->m->env && d->m->env->cut)) { // which says it in its own words
        VEC_PUSH(d->a, &d->report->notes, arena_strdup(d->a, root->cut));
    }
    if (d->m->processes.n == 0 && d->m->host_elsewhere) {
        VEC_PUSH(
            d->a, &d->report->notes,
            "neither a Python environment nor a program to judge was found; if this is the root "
            "file system of a program, name its environment or the program as TARGET");
    }
    for (size_t i = 0; i < d->m->notes.n; i++) {
        VEC_PUSH(d->a, &d->report->notes, d->m->notes.items[i]);
    }
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        for (size_t k = 0; k < p->unknown.n; k++) {
            note_once(d, p->unknown.items[k]);
        }
        if (p->error) {
            note_once(d, p->error);
        }
        note_guesses(d, p);
    }
}

/* Of a machine alone: whether its GPUs are known, and of each whether it can be used. */
static bool devices_are_known(const struct model *m)
{
    const struct host *h = m->host;
    bool known = h && (h->pci.state != HOST_UNKNOWN || h->gpus.n);
    for (size_t i = 0; known && i < h->gpus.n; i++) {
        known = !host_gpu_counts(&h->gpus.items[i]) || h->gpus.items[i].usable != HOST_UNKNOWN;
    }
    return known;
}

/* Whether there was something to judge: a process, and in it one import that is known; without a
 * program the machine itself. Packages that this user may not see, or beyond a bound, are not
 * judged, and an interpreter without a standard library does not start. */
static bool looked(const struct model *m)
{
    if ((m->env && (m->env->denied || m->env->cut || !m->env->base_prefix)) || m->unsure ||
        (m->root && *m->root->cut)) {
        return false;
    }
    /* The devices of the machine on which an image will run say nothing of the image. */
    bool looked = m->processes.n == 0 && !m->host_elsewhere && devices_are_known(m);
    for (size_t i = 0; i < m->processes.n; i++) {
        const struct model_process *p = m->processes.items[i];
        if (p->unsure) {
            return false;
        }
        looked |= p->ldso && !p->error && (p->unknown.n == 0 || p->imported.n);
    }
    return looked;
}

void diag_judge(struct model *m, struct diag_report *ret)
{
    static void (*const rules[])(struct diag *) = {
        diag_rule_journal,      diag_rule_start,
        diag_rule_driverless, // before what can be installed, which is no help there
        diag_rule_failures,     diag_rule_halves,      diag_rule_families,    diag_rule_stub,
        diag_rule_relative,     diag_rule_extension,   diag_rule_environment, diag_rule_live,
        diag_rule_devices,      diag_rule_drivers,     diag_rule_precedence,  diag_rule_injected,
        diag_rule_engines,      diag_rule_builds,      diag_rule_kernels,     diag_rule_arm,
        diag_rule_gfx,          diag_rule_built_with,  diag_rule_companions,  diag_rule_compute,
        diag_rule_requirements, diag_rule_overwritten,
    };
    struct diag_report report = {0};
    struct diag d = {.m = m, .a = m->arena, .report = &report};
    diag_see_own_libcuda(&d);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        rules[i](&d);
    }
    diag_soften_parts(&d);
    merge_alike(&d);
    diag_judge_ends(&d);
    diag_soften_gpu(&d);
    diag_say_mixed(&d);
    diag_say_lazy(&d);
    diag_judge_entries(&d);
    if (report.findings.n) {
        qsort(report.findings.items, report.findings.n, sizeof *report.findings.items, by_weight);
    }
    say_what_is_fine(&d);
    notes_say(&d);
    report.verdict = report.findings.n && report.findings.items[0]->severity == DIAG_ERROR
                         ? DIAG_BROKEN
                     : looked(m) && !d.unsure ? DIAG_OK
                                              : DIAG_CANNOT_TELL;
    *ret = report;
}
