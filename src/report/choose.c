#include "report/choose.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"

/* ------------------------------------------------------------------ text */

static void choose_paragraph(const struct out *o, struct arena *a, enum out_style style,
                             const char *label, const char *text)
{
    if (*label) {
        out_print(o, style, "    %s: ", label);
    }
    out_wrap(o, *label ? (unsigned)strlen(label) + 6 : 0, str_printable(a, text));
}

static const char *device_text(struct arena *a, const struct choose_candidate *x)
{
    return !x->gpu ? "cpu" : arena_printf(a, "%s %ld", choose_device_name(x->device), x->index);
}

static void chosen_text(const struct out *o, struct arena *a, const struct choose_result *c)
{
    const struct choose_candidate *x = c->chosen;
    out_print(o, x->gpu ? OUT_GREEN : OUT_YELLOW, "%s, %s, %u thread%s\n", device_text(a, x),
              choose_compute_name(x->compute), c->threads, c->threads == 1 ? "" : "s");
}

/* Whether two devices are told in one line. */
static bool candidates_are_alike(const struct choose_candidate *x, const struct choose_candidate *y)
{
    return x->gpu && y->gpu && x->why && y->why && strcmp(x->name, y->name) == 0 &&
           strcmp(x->why, y->why) == 0;
}

/* The devices that were not taken; what the reason says already is not said again. */
static void other_text(const struct out *o, struct arena *a, const struct choose_result *c,
                       size_t i)
{
    const struct choose_candidate *x = &c->candidates.items[i];
    if (x == c->chosen || !x->gpu || !x->why ||
        strstr(c->reason, arena_printf(a, "%s: %s", x->name, x->why)) ||
        (i > 0 && candidates_are_alike(x, x - 1))) {
        return;
    }
    const char *where = x->gpu->bdf ? arena_printf(a, " at %s", x->gpu->bdf) : "";
    for (size_t k = i + 1; k < c->candidates.n && candidates_are_alike(x, &c->candidates.items[k]);
         k++) {
        const char *bdf = c->candidates.items[k].gpu->bdf;
        where = bdf && !strstr(where, bdf) ? arena_printf(a, "%s, %s", where, bdf) : where;
    }
    choose_paragraph(o, a, OUT_DIM, "not", arena_printf(a, "%s%s: %s", x->name, where, x->why));
}

static void memory_text(const struct out *o, struct arena *a, const struct choose_result *c)
{
    const struct choose_candidate *x = c->chosen;
    const char *need = x->required.how == CHOOSE_MEMORY_UNKNOWN
                           ? c->model ? "the amount needed is unknown, " : ""
                           : arena_printf(a, "%s needed (%s), ", choose_gib(a, x->required.bytes),
                                          choose_memory_name(x->required.how));
    choose_paragraph(
        o, a, OUT_DIM, "memory",
        x->available_bytes
            ? arena_printf(a, "%s%s available (%s)", need, choose_gib(a, x->available_bytes),
                           x->available_why)
            : arena_printf(a, "%sthe amount available is unknown (%s)", need, x->available_why));
}

/* A command stays on its line, whatever its length: it is to be pasted. */
static void choose_step_text(const struct out *o, struct arena *a, const char *step,
                             const char *command)
{
    size_t n = step ? strlen(step) : 0, n_command = command ? strlen(command) : 0;
    bool ends = command && n >= n_command && strcmp(step + n - n_command, command) == 0;
    if (ends && n == n_command) {
        step = NULL;
    } else if (ends && n > n_command + 2) {
        step = arena_strndup(a, step, n - n_command - 2); // without ": "
    }
    if (step) {
        choose_paragraph(o, a, OUT_YELLOW, "next", step);
    }
    if (command) {
        out_print(o, OUT_YELLOW, "    run: ");
        out_print(o, OUT_BOLD, "%s\n", str_printable(a, command));
    }
}

void report_choose_text(const struct out *o, struct arena *a, const struct choose_result *c)
{
    if (c->chosen) {
        chosen_text(o, a, c);
    } else {
        out_print(o, OUT_RED, "nothing\n");
    }
    choose_paragraph(o, a, OUT_PLAIN, "", c->reason);
    choose_step_text(o, a, c->step, c->command);
    if (c->smaller) {
        choose_paragraph(o, a, OUT_YELLOW, "next", c->smaller);
    }
    for (size_t i = 0; i < c->candidates.n; i++) {
        other_text(o, a, c, i);
    }
    if (c->chosen) {
        memory_text(o, a, c);
        choose_paragraph(o, a, OUT_DIM, "threads", c->threads_why);
    }
    for (size_t i = 0; i < c->notes.n; i++) {
        choose_paragraph(o, a, OUT_DIM, "note", c->notes.items[i]);
    }
}

/* ------------------------------------------------------------------ shell */

/* One word of a POSIX shell, whatever the bytes; control characters are made visible first. */
static const char *quoted(struct arena *a, const char *text)
{
    text = str_printable(a, text);
    const char *out = "'";
    for (struct str rest = str_of(text); rest.s;) {
        struct str part = str_cut(&rest, '\'');
        out = arena_printf(a, "%s" STR_FMT "%s", out, STR_ARG(part), rest.s ? "'\\''" : "'");
    }
    return out;
}

void report_choose_shell(const struct out *o, struct arena *a, const struct choose_result *c)
{
    for (size_t i = 0; i < c->exports.n; i++) {
        out_print(o, OUT_PLAIN, "export %s=%s\n", c->exports.items[i].name,
                  quoted(a, c->exports.items[i].value));
    }
}

/* ------------------------------------------------------------------ JSON */

static json_t *bytes_json(uint64_t bytes)
{
    return bytes && bytes <= INT64_MAX ? json_integer((json_int_t)bytes) : json_null();
}

static json_t *candidate_json(struct arena *a, const struct choose_candidate *x)
{
    json_t *o = json_object();
    bool told = x->usable || (x->cause && strcmp(x->cause, "too-small") == 0);
    json_put(o, "device", out_json_text(a, choose_device_name(x->device)));
    json_put(o, "index", x->index < 0 ? json_null() : json_integer(x->index));
    json_put(o, "name", out_json_text(a, x->name));
    json_put(o, "address", out_json_text(a, x->gpu ? x->gpu->bdf : NULL));
    json_put(o, "chosen", json_boolean(x->chosen));
    json_put(o, "compute_type", out_json_text(a, told ? choose_compute_name(x->compute) : NULL));
    json_put(o, "required_bytes", told ? bytes_json(x->required.bytes) : json_null());
    json_put(o, "required_how",
             out_json_text(a, told ? choose_memory_name(x->required.how) : NULL));
    json_put(o, "required_row", out_json_text(a, told ? x->required.row : NULL));
    json_put(o, "available_bytes", bytes_json(x->available_bytes));
    json_put(o, "available_why", out_json_text(a, x->available_why));
    json_put(o, "fits", out_json_text(a, told ? host_state_name(x->fits) : "unknown"));
    json_put(o, "cause", out_json_text(a, x->cause));
    json_put(o, "why", out_json_text(a, x->why));
    json_put(o, "step", out_json_text(a, x->step));
    json_put(o, "command", out_json_text(a, x->command));
    return o;
}

json_t *report_choose_json(struct arena *a, const struct choose_result *c, const char *root)
{
    const struct choose_candidate *x = c->chosen;
    json_t *doc = json_object(), *list = json_array(), *exports = json_object();
    json_put(doc, "schema", json_integer(1));
    json_put(doc, "root", out_json_text(a, root));
    json_put(doc, "verdict", out_json_text(a, diag_verdict_name(c->verdict)));
    json_put(doc, "app", out_json_text(a, choose_app_name(c->app)));
    json_put(doc, "app_version", out_json_text(a, c->app_version));
    json_put(doc, "model", out_json_text(a, c->model));
    json_put(doc, "device", out_json_text(a, x ? choose_device_name(x->device) : NULL));
    json_put(doc, "index", x && x->gpu ? json_integer(x->index) : json_null());
    json_put(doc, "name", out_json_text(a, x ? x->name : NULL));
    json_put(doc, "argument", out_json_text(a, c->argument));
    json_put(doc, "compute_type", out_json_text(a, x ? choose_compute_name(x->compute) : NULL));
    json_put(doc, "threads", x ? json_integer(c->threads) : json_null());
    json_put(doc, "threads_why", out_json_text(a, c->threads_why));
    json_put(doc, "required_bytes", x ? bytes_json(x->required.bytes) : json_null());
    json_put(doc, "available_bytes", x ? bytes_json(x->available_bytes) : json_null());
    json_put(doc, "fits", out_json_text(a, x ? host_state_name(x->fits) : "no"));
    json_put(doc, "reason", out_json_text(a, c->reason));
    json_put(doc, "fallback", json_boolean(c->fallback));
    json_put(doc, "cause", out_json_text(a, c->cause));
    json_put(doc, "step", out_json_text(a, c->step));
    json_put(doc, "command", out_json_text(a, c->command));
    json_put(doc, "smaller", out_json_text(a, c->smaller));
    for (size_t i = 0; i < c->candidates.n; i++) {
        json_add(list, candidate_json(a, &c->candidates.items[i]));
    }
    for (size_t i = 0; i < c->exports.n; i++) {
        json_put(exports, c->exports.items[i].name, out_json_text(a, c->exports.items[i].value));
    }
    json_put(doc, "candidates", list);
    json_put(doc, "exports", exports);
    json_put(doc, "notes", out_json_texts(a, c->notes.items, c->notes.n));
    return doc;
}
