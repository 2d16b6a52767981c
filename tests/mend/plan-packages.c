/* Prints the package ways of one target as JSON: what mend_plan_packages() adds to a plan.
 *
 *     plan-packages [--root DIR] [--kb DIR] [--import A,B] [TARGET]
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mend/plan.h"
#include "model/target.h"

extern char **environ;

static json_t *packages_json(const struct mend_step *s)
{
    json_t *out = json_array();
    for (size_t i = 0; i < s->n_packages; i++) {
        const struct mend_package *p = &s->packages[i];
        json_array_append_new(out, json_pack("{s:s, s:s?, s:s?, s:s}", "name", p->name, "from",
                                             p->from, "to", p->to, "why", p->why));
    }
    return out;
}

static json_t *way_json(const struct mend_way *w)
{
    json_t *steps = json_array(), *mends = json_array();
    for (size_t i = 0; i < w->steps.n; i++) {
        const struct mend_step *s = &w->steps.items[i];
        json_array_append_new(
            steps, json_pack("{s:i, s:s?, s:s?, s:s?, s:s?, s:o}", "kind", (int)s->kind, "text",
                             s->text, "command", s->command, "name", s->name, "value", s->value,
                             "packages", packages_json(s)));
    }
    for (size_t i = 0; i < w->mends.n; i++) {
        json_array_append_new(mends, json_string(w->mends.items[i]->culprit));
    }
    return json_pack("{s:s, s:o, s:o}", "title", w->title, "steps", steps, "mends", mends);
}

static void print(const struct diag_report *report, const struct mend_plan *plan)
{
    json_t *ways = json_array(), *cannot = json_array(), *errors = json_array();
    for (size_t i = 0; i < plan->ways.n; i++) {
        json_array_append_new(ways, way_json(&plan->ways.items[i]));
    }
    for (size_t i = 0; i < plan->cannot.n; i++) {
        json_array_append_new(cannot, json_string(plan->cannot.items[i]));
    }
    for (size_t i = 0; i < report->findings.n; i++) {
        const struct diag_finding *f = report->findings.items[i];
        if (f->severity == DIAG_ERROR) {
            json_array_append_new(errors, json_pack("{s:s, s:s, s:s}", "class", f->class, "culprit",
                                                    f->culprit, "summary", f->summary));
        }
    }
    json_t *all = json_pack("{s:o, s:o, s:o}", "errors", errors, "ways", ways, "cannot", cannot);
    (void)json_dumpf(all, stdout, JSON_INDENT(1));
    json_decref(all);
}

int main(int argc, char **argv)
{
    struct arena a;
    struct gm_err err;
    struct model_target t;
    char cwd[4096];
    struct model_target_options o = {.cwd = getcwd(cwd, sizeof cwd), .uid = getuid()};
    arena_init(&a, ARENA_LIMIT_DEFAULT, NULL, NULL);
    for (int i = 1; i < argc; i++) {
        const char **option = strcmp(argv[i], "--root") == 0     ? &o.root_path
                              : strcmp(argv[i], "--kb") == 0     ? &o.kb_path
                              : strcmp(argv[i], "--import") == 0 ? &o.imports
                                                                 : NULL;
        if (option && i + 1 < argc) {
            *option = argv[++i];
        } else {
            o.target = argv[i];
        }
    }
    o.env = (const char *const *)(o.root_path ? NULL : environ);
    while (o.env && o.env[o.n_env]) {
        o.n_env++;
    }
    if (model_target_open(&t, &a, &o, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 3;
    }
    struct diag_report report;
    struct mend_plan plan = {0};
    diag_run(&t.model, &report);
    mend_plan_packages(&t.model, &report, &plan);
    print(&report, &plan);
    model_target_close(&t);
    arena_release(&a);
    return 0;
}
