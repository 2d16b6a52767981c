#include "report/plan.h"

#include <string.h>

#include "base/json.h"

static json_t *plan_text(const struct model *m, const char *s)
{
    return out_json_text(m->arena, s);
}

const char *report_plan_verdict(const struct diag_report *r)
{
    for (size_t i = 0; i < r->findings.n; i++) {
        if (r->findings.items[i]->severity == DIAG_ERROR) {
            return "broken";
        }
    }
    return diag_verdict_name(r->verdict);
}

/* ------------------------------------------------------------------ JSON */

static json_t *plan_texts_json(const struct model *m, const char *const *items, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_add(list, plan_text(m, items[i]));
    }
    return list;
}

static json_t *plan_links_json(const struct model *m, const struct plan_step *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_links; i++) {
        json_t *o = json_object();
        json_put(o, "path", plan_text(m, s->links[i].path));
        json_put(o, "target", plan_text(m, s->links[i].target));
        json_add(list, o);
    }
    return list;
}

static json_t *packages_json(const struct model *m, const struct plan_step *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_packages; i++) {
        json_t *o = json_object();
        json_put(o, "name", plan_text(m, s->packages[i].name));
        json_put(o, "from", plan_text(m, s->packages[i].from));
        json_put(o, "to", plan_text(m, s->packages[i].to));
        json_put(o, "why", plan_text(m, s->packages[i].why));
        json_put(o, "requirement", plan_text(m, s->packages[i].requirement));
        json_add(list, o);
    }
    return list;
}

/* By which names later requests find the libraries. */
static json_t *sonames_json(const struct model *m, const struct plan_step *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_paths; i++) {
        const struct ldso_file *f = ldso_store_get(m->store, s->paths[i])->file;
        json_add(list, plan_text(m, f ? f->image.soname : NULL));
    }
    return list;
}

/* The keys that its kind has, and no others. */
static json_t *step_json(const struct model *m, const struct plan_step *s)
{
    json_t *o = json_object();
    json_put(o, "kind", plan_text(m, plan_step_name(s->kind)));
    json_put(o, "text", plan_text(m, s->text));
    json_put(o, "command", plan_text(m, s->command));
    switch (s->kind) {
    case PLAN_SET_ENV:
        json_put(o, "name", plan_text(m, s->name));
        json_put(o, "value", plan_text(m, s->value));
        break;
    case PLAN_HOOK:
        json_put(o, "modules", plan_texts_json(m, s->modules, s->n_modules));
        json_put(o, "paths", plan_texts_json(m, s->paths, s->n_paths));
        break;
    case PLAN_PRELOAD:
        json_put(o, "paths", plan_texts_json(m, s->paths, s->n_paths));
        json_put(o, "sonames", sonames_json(m, s));
        break;
    case PLAN_SHADOW:
        json_put(o, "folder", plan_text(m, s->folder));
        json_put(o, "links", plan_links_json(m, s));
        break;
    case PLAN_LINK: json_put(o, "links", plan_links_json(m, s)); break;
    case PLAN_EDIT_ELF:
        json_put(o, "file", plan_text(m, s->file));
        json_put(o, "tag", plan_text(m, s->runpath ? "RUNPATH" : "RPATH"));
        json_put(o, "old_path", plan_text(m, s->old_path));
        json_put(o, "new_path", plan_text(m, s->new_path));
        break;
    case PLAN_PACKAGES: json_put(o, "packages", packages_json(m, s)); break;
    case PLAN_TEXT: break;
    }
    return o;
}

/* Findings by their place in the report. */
static json_t *indexes_json(const struct diag_report *r, const struct diag_finding *const *items,
                            size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < r->findings.n; k++) {
            if (r->findings.items[k] == items[i]) {
                json_add(list, json_integer((json_int_t)k));
            }
        }
    }
    return list;
}

static json_t *proof_json(const struct model *m, const struct plan_way *way)
{
    json_t *list = json_array();
    for (size_t i = 0; i < way->proof.n; i++) {
        const struct plan_request *r = &way->proof.items[i];
        json_t *o = json_object();
        json_put(o, "script", plan_text(m, r->script));
        json_put(o, "name", plan_text(m, r->name));
        json_put(o, "caller", plan_text(m, r->caller));
        json_put(o, "before", plan_text(m, r->before));
        json_put(o, "after", plan_text(m, r->after));
        json_add(list, o);
    }
    return list;
}

static json_t *way_json(const struct model *m, const struct diag_report *r,
                        const struct plan_way *way, size_t number)
{
    json_t *o = json_object(), *steps = json_array(), *leaves = json_array();
    json_put(o, "number", json_integer((json_int_t)number));
    json_put(o, "reach", plan_text(m, plan_reach_name(way->reach)));
    json_put(o, "title", plan_text(m, way->title));
    for (size_t i = 0; i < way->steps.n; i++) {
        json_add(steps, step_json(m, &way->steps.items[i]));
    }
    json_put(o, "steps", steps);
    json_put(o, "mends", indexes_json(r, way->mends.items, way->mends.n));
    for (size_t i = 0; i < way->leaves.n; i++) {
        json_add(leaves, report_finding_json(m, way->leaves.items[i]));
    }
    json_put(o, "leaves", leaves);
    json_put(o, "proof", proof_json(m, way));
    json_put(o, "kept", json_integer((json_int_t)way->n_kept));
    json_put(o, "moved", json_integer((json_int_t)way->n_moved));
    json_put(o, "unproved", plan_text(m, way->unproved));
    return o;
}

json_t *report_plan_json(const struct model *m, const struct diag_report *r,
                         const struct plan *plan, const struct report_target *target)
{
    json_t *doc = json_object(), *findings = json_array(), *ways = json_array();
    json_put(doc, "schema", json_integer(1));
    json_put(doc, "target", report_target_json(m, target));
    for (size_t i = 0; i < r->findings.n; i++) {
        json_add(findings, report_finding_json(m, r->findings.items[i]));
    }
    json_put(doc, "findings", findings);
    for (size_t i = 0; i < plan->ways.n; i++) {
        json_add(ways, way_json(m, r, &plan->ways.items[i], i + 1));
    }
    json_put(doc, "ways", ways);
    json_put(doc, "left", indexes_json(r, plan->left.items, plan->left.n));
    json_put(doc, "cannot", plan_texts_json(m, plan->cannot.items, plan->cannot.n));
    json_put(doc, "verdict", plan_text(m, report_plan_verdict(r)));
    return doc;
}

/* ------------------------------------------------------------------ text */

static void plan_item(const struct out *o, const char *label, const char *value)
{
    fprintf(o->file, "  %-10s", label);
    out_wrap(o, 12, value);
}

static const char *const reaches[] = {
    [PLAN_FOR_ONE_START] = "the start of the program only, nothing on disk",
    [PLAN_FILES] = "files in the environment",
    [PLAN_PIP] = "packages of the environment",
    [PLAN_BY_HAND] = "what it says; gpumend does not do it by itself",
};

static void mends_text(const struct out *o, const struct model *m, const struct diag_report *r,
                       const struct plan_way *way)
{
    const char *list = "";
    for (size_t i = 0; i < way->mends.n; i++) {
        list = arena_printf(m->arena, "%s%s%s", list, i ? ", " : "", way->mends.items[i]->culprit);
    }
    plan_item(o, "repairs", report_shorten(m, list));
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *f = r->findings.items[i];
        if (f->severity == DIAG_ERROR && !plan_way_mends(way, f)) {
            plan_item(o, "leaves", report_shorten(m, f->summary));
        }
    }
    for (size_t i = 0; i < way->leaves.n; i++) {
        plan_item(o, "leaves", report_shorten(m, way->leaves.items[i]->summary));
    }
}

static bool commands_are_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_proof(const struct plan_way *a, const struct plan_way *b)
{
    bool same = a->proof.n && a->proof.n == b->proof.n && a->n_kept == b->n_kept && !b->unproved;
    for (size_t i = 0; same && i < a->proof.n; i++) {
        const struct plan_request *x = &a->proof.items[i], *y = &b->proof.items[i];
        same = strcmp(x->name, y->name) == 0 && commands_are_same(x->before, y->before) &&
               commands_are_same(x->after, y->after);
    }
    return same;
}

/* "libcudnn_ops.so.9: not found -> <site>/nvidia/cudnn/lib/libcudnn_ops.so.9" */
static void proof_text(const struct out *o, const struct model *m, const struct plan *plan,
                       size_t index)
{
    struct arena *a = m->arena;
    const char *label = "proof";
    const struct plan_way *way = &plan->ways.items[index];
    for (size_t i = 0; i < index && !way->unproved; i++) {
        if (same_proof(way, &plan->ways.items[i])) {
            plan_item(o, label, arena_printf(a, "the same as that of repair %zu", i + 1));
            return;
        }
    }
    for (size_t i = 0; i < way->proof.n; i++) {
        const struct plan_request *r = &way->proof.items[i];
        plan_item(
            o, label,
            report_shorten(m, arena_printf(a, "%s: %s -> %s", path_base(r->name),
                                           r->before ? path_normal(a, r->before) : "not found",
                                           r->after ? path_normal(a, r->after) : "not found")));
        label = "";
    }
    if (way->unproved) {
        plan_item(o, label, arena_printf(a, "none: %s", way->unproved));
    } else {
        plan_item(o, label,
                  arena_printf(a, "%zu other request%s where %s did", way->n_kept,
                               way->n_kept == 1 ? " ends" : "s end",
                               way->n_kept == 1 ? "it" : "they"));
    }
}

/* Each line of the command alone, unbroken, so that it can be pasted. */
static void command_text(const struct out *o, const struct model *m, const char *command)
{
    struct str rest = str_of(command), line;
    while (str_line(&rest, &line)) {
        out_print(o, OUT_BOLD, "              %s\n",
                  str_printable(m->arena, str_dup(m->arena, line)));
    }
}

static void packages_text(const struct out *o, const struct model *m, const struct plan_step *s)
{
    for (size_t i = 0; i < s->n_packages; i++) {
        const struct plan_package *p = &s->packages[i];
        bool again = !p->requirement && commands_are_same(p->from, p->to);
        bool moves = p->from && !again;
        plan_item(o, "",
                  arena_printf(m->arena, "%s%s%s%s%s%s: %s", p->name, p->from || p->to ? " " : "",
                               p->from ? p->from : "", moves ? " -> " : "",
                               p->to && !(p->from && again) ? p->to : "", again ? " again" : "",
                               report_shorten(m, p->why)));
    }
}

static void way_text(const struct out *o, const struct model *m, const struct diag_report *r,
                     const struct plan *plan, size_t index)
{
    size_t number = index + 1;
    const struct plan_way *way = &plan->ways.items[index];
    fputc('\n', o->file);
    out_print(o, OUT_GREEN, "%zu", number);
    fprintf(o->file, "%*s", number < 10 ? 11 : 10, "");
    out_wrap(o, 12, report_shorten(m, way->title));
    plan_item(o, "changes", reaches[way->reach]);
    mends_text(o, m, r, way);
    for (size_t i = 0; i < way->steps.n; i++) {
        const struct plan_step *s = &way->steps.items[i];
        if (strcmp(s->text, way->title) != 0) {
            plan_item(o, i ? "then" : "to do", report_shorten(m, s->text));
        }
        packages_text(o, m, s);
        if (s->command) {
            command_text(o, m, s->command);
        }
    }
    proof_text(o, m, plan, index);
}

static void findings_text(const struct out *o, const struct model *m, const struct diag_report *r)
{
    static const enum out_style styles[] = {
        [DIAG_NOTE] = OUT_DIM, [DIAG_WARNING] = OUT_YELLOW, [DIAG_ERROR] = OUT_RED};
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *f = r->findings.items[i];
        const char *severity = diag_severity_name(f->severity);
        out_print(o, styles[f->severity], "%s", severity);
        fprintf(o->file, "%*s", (int)(12 - strlen(severity)), "");
        out_wrap(o, 12, report_shorten(m, f->summary));
    }
}

static void rest_text(const struct out *o, const struct model *m, const struct plan *plan)
{
    if (plan->left.n || plan->cannot.n) {
        fputc('\n', o->file);
    }
    for (size_t i = 0; i < plan->left.n; i++) {
        out_print(o, OUT_RED, "left");
        fprintf(o->file, "        ");
        out_wrap(o, 12, report_shorten(m, plan->left.items[i]->summary));
    }
    for (size_t i = 0; i < plan->cannot.n; i++) {
        out_print(o, OUT_YELLOW, "cannot");
        fprintf(o->file, "      ");
        out_wrap(o, 12, report_shorten(m, plan->cannot.items[i]));
    }
}

static size_t number_of(const struct plan *plan, const struct plan_way *way)
{
    return (size_t)(way - plan->ways.items) + 1;
}

/* "gpumend fix /opt/v --import torch --apply" */
static const char *again(const struct model *m, const struct report_target *target,
                         const char *command, const char *option)
{
    const char *options = target->options ? target->options : "";
    return str_printable(m->arena,
                         model_command(m, command,
                                       arena_printf(m->arena, "%s%s%s", options,
                                                    *options && *option ? " " : "", option)));
}

static void applied_text(const struct out *o, const struct plan *plan, const char *command,
                         const struct plan_way *way)
{
    fprintf(o->file,
            "  %s\n      carries out repair %zu (--select N: another one); --undo takes it back\n",
            command, number_of(plan, way));
}

static void next_text(const struct out *o, const struct model *m, const struct plan *plan,
                      const struct report_target *target, const struct report_applied *applied)
{
    const struct plan_way *start = plan_best(plan, PLAN_FOR_ONE_START);
    if (start) {
        fprintf(o->file, "  gpumend run -- COMMAND\n      starts a program with repair %zu\n",
                number_of(plan, start));
    }
    if (applied->files) {
        applied_text(o, plan, again(m, target, "fix", "--apply"), applied->files);
    }
    if (applied->packages && applied->packages != applied->files) {
        applied_text(o, plan, again(m, target, "fix", "--apply --packages"), applied->packages);
    }
    if (!applied->files && !applied->packages && applied->why &&
        (plan_best(plan, PLAN_FILES) || plan_best(plan, PLAN_PIP))) {
        fprintf(o->file, "  %s\n", again(m, target, "fix", "--apply"));
        fprintf(o->file, "      ");
        out_wrap(o, 6, arena_printf(m->arena, "carries out nothing here: %s", applied->why));
    }
}

void report_plan_text(const struct out *o, const struct model *m, const struct diag_report *r,
                      const struct plan *plan, const struct report_target *target,
                      const struct report_applied *applied)
{
    report_target_text(o, m, target);
    if (r->findings.n) {
        fputc('\n', o->file);
    }
    findings_text(o, m, r);
    for (size_t i = 0; i < plan->ways.n; i++) {
        way_text(o, m, r, plan, i);
    }
    rest_text(o, m, plan);
    fputc('\n', o->file);
    const char *verdict = report_plan_verdict(r);
    if (strcmp(verdict, "unknown") == 0) {
        fprintf(o->file, "unknown     gpumend cannot tell whether this works; %s says why\n",
                again(m, target, "check", ""));
    } else if (plan->ways.n == 0) {
        fprintf(o->file, strcmp(verdict, "ok") == 0 ? "ok          nothing to repair\n"
                                                    : "broken      no repair was found\n");
    } else {
        fprintf(o->file, "%zu repair%s, the least invasive first; nothing was changed\n",
                plan->ways.n, plan->ways.n == 1 ? "" : "s");
        next_text(o, m, plan, target, applied);
    }
}
