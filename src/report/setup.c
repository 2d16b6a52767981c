#include "report/setup.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"

/* ------------------------------------------------------------------ text */

static void setup_paragraph(const struct out *o, struct arena *a, const char *label,
                            const char *text)
{
    out_print(o, OUT_DIM, "   %-5s ", label);
    out_wrap(o, 9, str_printable(a, text));
}

/* Lines that are to be pasted keep their length. */
static void setup_lines(const struct out *o, struct arena *a, const char *text)
{
    struct str rest = str_of(text);
    while (rest.s && rest.n) {
        struct str line = str_cut(&rest, '\n');
        out_print(o, OUT_BOLD, "      %s\n", str_printable(a, str_dup(a, line)));
    }
}

static void setup_step_text(const struct out *o, struct arena *a, const struct setup_step *s,
                            size_t number)
{
    out_print(o, OUT_PLAIN, "\n%zu. ", number);
    out_print(o, OUT_BOLD, "%s\n", str_printable(a, s->title));
    for (size_t i = 0; i < s->commands.n; i++) {
        setup_lines(o, a, s->commands.items[i]);
    }
    if (s->code) {
        setup_lines(o, a, s->code);
    }
    setup_paragraph(o, a, "why", s->why);
    setup_paragraph(o, a, "seen", s->seen);
    if (s->cost) {
        setup_paragraph(o, a, "cost", s->cost);
    }
}

/* ------------------------------------------------------------------ an environment that exists */

static void difference_text(const struct out *o, struct arena *a, const struct setup_difference *d)
{
    static const char *const labels[] = {"add", "change", "keep"};
    const char *label = labels[d->is_kept ? 2 : d->have != NULL];
    out_print(
        o, d->is_kept ? OUT_DIM : OUT_PLAIN, "   %-7s %s %s", label,
        str_printable(a, d->pin->package),
        str_printable(a, d->is_kept || !d->have ? (d->have ? d->have : d->pin->version) : d->have));
    out_print(o, OUT_PLAIN, "%s%s\n", d->have && !d->is_kept ? " -> " : "",
              d->have && !d->is_kept ? str_printable(a, d->pin->version) : "");
}

static void compared_text(const struct out *o, struct arena *a, const struct setup_plan *plan)
{
    out_print(o, OUT_PLAIN, "\n%s beside the plan:\n", str_printable(a, plan->there));
    for (size_t i = 0; i < plan->differences.n; i++) {
        difference_text(o, a, &plan->differences.items[i]);
    }
    out_print(o, OUT_DIM, "   keep    %zu other distribution%s\n", plan->n_others,
              plan->n_others == 1 ? "" : "s");
    for (size_t i = 0; i < plan->broken.n; i++) {
        out_print(o, OUT_RED, "   breaks  ");
        out_wrap(o, 11, str_printable(a, plan->broken.items[i]));
    }
    if (plan->n_more_broken) {
        out_print(o, OUT_RED, "   breaks  %zu more\n", plan->n_more_broken);
    }
}

void report_setup_text(const struct out *o, struct arena *a, const struct setup_plan *plan)
{
    static const enum out_style styles[] = {[SETUP_GPU] = OUT_GREEN,
                                            [SETUP_CPU] = OUT_YELLOW,
                                            [SETUP_NOT] = OUT_RED,
                                            [SETUP_UNKNOWN] = OUT_YELLOW};
    // One line, whatever its length: scripts read the first.
    out_print(o, styles[plan->verdict], "%s\n", str_printable(a, plan->sentence));
    if (plan->there) {
        compared_text(o, a, plan);
    }
    for (size_t i = 0; i < plan->steps.n; i++) {
        setup_step_text(o, a, &plan->steps.items[i], i + 1);
    }
    for (size_t i = 0; i < plan->notes.n; i++) {
        out_print(o, OUT_PLAIN, "%s", i ? "" : "\n");
        out_print(o, OUT_DIM, "note  ");
        out_wrap(o, 6, str_printable(a, plan->notes.items[i]));
    }
}

/* ------------------------------------------------------------------ scripts */

static void script_comment(const struct out *o, struct arena *a, const char *text)
{
    struct str rest = str_of(text);
    while (rest.s && rest.n) {
        const char *line = str_dup(a, str_cut(&rest, '\n'));
        out_print(o, OUT_PLAIN, "# %s\n", str_printable(a, line));
    }
}

/* $ErrorActionPreference ends a script at errors of PowerShell's own commands; a program's status
 * is in $LASTEXITCODE (about_Preference_Variables, about_Automatic_Variables). */
static bool powershell_is_program(const char *command)
{
    return strncmp(command, "$env:", 5) != 0 && strncmp(command, "Expand-Archive ", 15) != 0;
}

static void script_step(const struct out *o, struct arena *a, const struct setup_step *s,
                        enum report_setup_form form)
{
    bool docker = form == REPORT_SETUP_DOCKERFILE;
    bool runs = s->kind == SETUP_ENVIRONMENT || s->kind == SETUP_PACKAGES ||
                s->kind == SETUP_LIBRARIES || (s->kind == SETUP_PROOF && !docker);
    out_print(o, OUT_PLAIN, "\n");
    script_comment(o, a, arena_printf(a, "%s. %s", s->title, s->why));
    if (docker && s->image) {
        out_print(o, OUT_PLAIN, "RUN %s\n", s->image);
        return;
    }
    if (docker && s->kind == SETUP_LIBRARIES) {
        out_print(o, OUT_PLAIN,
                  "# The executable of gpumend lies beside this file.\n"
                  "COPY gpumend /usr/local/bin/gpumend\n");
    }
    for (size_t i = 0; i < s->commands.n; i++) {
        if (!runs) {
            script_comment(o, a, s->commands.items[i]);
        } else {
            /* enable ends with 3 where it cannot try the hook: where an image is built, for one,
             * there is no driver. */
            bool tries = s->kind == SETUP_LIBRARIES && form != REPORT_SETUP_POWERSHELL;
            out_print(o, OUT_PLAIN, "%s%s%s\n", docker ? "RUN " : "", s->commands.items[i],
                      tries ? " || [ $? -eq 3 ]" : "");
            if (form == REPORT_SETUP_POWERSHELL && powershell_is_program(s->commands.items[i])) {
                out_print(o, OUT_PLAIN, "if ($LASTEXITCODE) { exit $LASTEXITCODE }\n");
            }
        }
    }
    if (s->code) {
        script_comment(o, a, s->code);
    }
}

void report_setup_script(const struct out *o, struct arena *a, const struct setup_plan *plan,
                         enum report_setup_form form)
{
    static const char *const heads[] = {[REPORT_SETUP_SH] = "#!/bin/sh\n",
                                        [REPORT_SETUP_POWERSHELL] = "",
                                        [REPORT_SETUP_DOCKERFILE] = ""};
    static const char *const begins[] = {[REPORT_SETUP_SH] = "set -eu\n",
                                         [REPORT_SETUP_POWERSHELL] =
                                             "$ErrorActionPreference = 'Stop'\n",
                                         [REPORT_SETUP_DOCKERFILE] = ""};
    out_print(o, OUT_PLAIN, "%s", heads[form]);
    script_comment(o, a, plan->sentence);
    if (form == REPORT_SETUP_DOCKERFILE) {
        out_print(o, OUT_PLAIN, "FROM python:%s-slim\n", plan->pins.python);
    }
    out_print(o, OUT_PLAIN, "%s", begins[form]);
    for (size_t i = 0; i < plan->steps.n; i++) {
        script_step(o, a, &plan->steps.items[i], form);
    }
    if (form == REPORT_SETUP_DOCKERFILE && plan->verdict == SETUP_GPU) {
        out_print(o, OUT_PLAIN,
                  "\n# The image gets its GPU and the driver from the engine: gpumend "
                  "container docker prints the command.\n");
    }
}

/* ------------------------------------------------------------------ JSON */

static json_t *pin_json(struct arena *a, const struct setup_pin *pin)
{
    json_t *o = json_object();
    json_put(o, "package", out_json_text(a, pin->package));
    json_put(o, "version", out_json_text(a, pin->version));
    json_put(o, "extras", out_json_text(a, pin->extras));
    json_put(o, "why", out_json_text(a, pin->why));
    json_put(o, "row", out_json_text(a, pin->row));
    return o;
}

static json_t *step_json(struct arena *a, const struct setup_step *s, size_t number)
{
    json_t *o = json_object();
    json_put(o, "number", json_integer((json_int_t)number));
    json_put(o, "kind", out_json_text(a, setup_step_name(s->kind)));
    json_put(o, "title", out_json_text(a, s->title));
    json_put(o, "why", out_json_text(a, s->why));
    json_put(o, "commands", out_json_texts(a, s->commands.items, s->commands.n));
    json_put(o, "code", out_json_text(a, s->code));
    json_put(o, "seen", out_json_text(a, s->seen));
    json_put(o, "cost", out_json_text(a, s->cost));
    json_put(o, "download_bytes",
             s->download_bytes ? json_integer((json_int_t)s->download_bytes) : json_null());
    json_put(o, "reboot", json_boolean(s->reboot));
    return o;
}

static json_t *there_json(struct arena *a, const struct setup_plan *plan)
{
    json_t *o = json_object(), *packages = json_array();
    if (!plan->there) {
        json_decref(packages);
        json_decref(o);
        return json_null();
    }
    for (size_t i = 0; i < plan->differences.n; i++) {
        const struct setup_difference *d = &plan->differences.items[i];
        json_t *one = json_object();
        json_put(one, "package", out_json_text(a, d->pin->package));
        json_put(one, "have", out_json_text(a, d->have));
        json_put(one, "plan", out_json_text(a, d->pin->version));
        json_put(one, "change", json_string(d->is_kept ? "keep" : d->have ? "change" : "add"));
        json_add(packages, one);
    }
    json_put(o, "path", out_json_text(a, plan->there));
    json_put(o, "packages", packages);
    json_put(o, "others", json_integer((json_int_t)plan->n_others));
    json_put(o, "breaks", out_json_texts(a, plan->broken.items, plan->broken.n));
    json_put(o, "breaks_more", json_integer((json_int_t)plan->n_more_broken));
    return o;
}

json_t *report_setup_json(struct arena *a, const struct setup_plan *plan)
{
    const struct setup_pins *pins = &plan->pins;
    json_t *doc = json_object(), *packages = json_array(), *steps = json_array();
    bool gpu = plan->verdict == SETUP_GPU;
    json_put(doc, "schema", json_integer(1));
    json_put(doc, "app", out_json_text(a, plan->app));
    json_put(doc, "machine", out_json_text(a, plan->machine));
    json_put(doc, "verdict", out_json_text(a, setup_verdict_name(plan->verdict)));
    json_put(doc, "sentence", out_json_text(a, plan->sentence));
    json_put(doc, "device", out_json_text(a, setup_device_name(plan)));
    json_put(doc, "compute_type",
             out_json_text(a, plan->computes ? choose_compute_name(plan->compute) : NULL));
    json_put(doc, "shell", out_json_text(a, plan->windows ? "powershell" : "sh"));
    json_put(doc, "folder", out_json_text(a, plan->folder));
    json_put(doc, "python", out_json_text(a, pins->python));
    json_put(doc, "cuda", out_json_text(a, gpu ? pins->cuda : NULL));
    json_put(doc, "driver_min", out_json_text(a, gpu ? pins->driver_min : NULL));
    json_put(doc, "index", out_json_text(a, pins->index));
    for (size_t i = 0; i < pins->items.n; i++) {
        json_add(packages, pin_json(a, &pins->items.items[i]));
    }
    for (size_t i = 0; i < plan->steps.n; i++) {
        json_add(steps, step_json(a, &plan->steps.items[i], i + 1));
    }
    json_put(doc, "packages", packages);
    json_put(doc, "environment", there_json(a, plan));
    json_put(doc, "steps", steps);
    json_put(doc, "notes", out_json_texts(a, plan->notes.items, plan->notes.n));
    return doc;
}
