#include "report/container.h"

#include <stdlib.h>
#include <string.h>

#include "report/yaml_text.h"
#include "report/container_forms.h"

/* ------------------------------------------------------------------ text */

/* One line of a remark, which shells, YAML and units pass over: what is foreign in it stays in it.
 */
static void container_remark(const struct out *o, struct arena *a, enum out_style style,
                             const char *before, const char *text)
{
    out_print(o, style, "#%s%s\n", before, str_printable(a, text));
}

static void print_reasons(const struct out *o, struct arena *a, const report_options *list)
{
    for (size_t i = 0; i < list->n; i++) {
        container_remark(o, a, OUT_DIM, " ", report_option_text(a, &list->items[i]));
        container_remark(o, a, OUT_DIM, "     ", list->items[i].reason);
    }
    if (list->n) {
        out_print(o, OUT_PLAIN, "\n");
    }
}

static void print_command(const struct out *o, struct arena *a, const struct container_settings *s,
                          enum container_format format, const report_options *list)
{
    out_print(o, OUT_BOLD, "%s%s", report_form_before(a, s, format), report_form_start(format));
    for (size_t i = 0; i < list->n; i++) {
        out_print(o, OUT_BOLD, " \\\n    %s", report_option_text(a, &list->items[i]));
    }
    out_print(o, OUT_BOLD, "%s%s\n", list->n ? " \\\n    " : " ", report_form_end(a, s, format));
}

static void print_form(const struct out *o, struct arena *a, const struct container_settings *s,
                       enum container_format format, const report_options *list)
{
    json_t *documents = report_form_documents(a, s, format);
    const char *lines = report_form_lines(a, s, format);
    if (documents && format == CONTAINER_DEVCONTAINER) {
        if (out_json_write(o->file, json_array_get(documents, 0), JSON_INDENT(4)) == 0) {
            out_print(o, OUT_PLAIN, "\n");
        }
    } else if (documents) {
        const char *text = report_yaml_text(a, documents);
        out_print(o, OUT_PLAIN, "%s", text ? text : "");
    } else if (lines) {
        out_print(o, OUT_PLAIN, "%s", lines);
    } else {
        print_command(o, a, s, format, list);
    }
    json_decref(documents);
}

static void print_steps(const struct out *o, struct arena *a, const container_items *items)
{
    for (size_t i = 0; i < items->n; i++) {
        container_remark(o, a, OUT_DIM, "   ", items->items[i].reason);
        container_remark(o, a, OUT_PLAIN, "   ", items->items[i].value);
    }
}

static void print_before(const struct out *o, struct arena *a, const struct container_settings *s,
                         enum container_format format)
{
    if (s->gpu == CONTAINER_UNKNOWN_GPU && format != CONTAINER_DOCKERFILE) {
        container_remark(o, a, OUT_DIM, " ",
                         "Whether this host has a GPU cannot be determined: the bus could not be "
                         "read, so no GPU is requested.");
    }
    if (s->gpu == CONTAINER_NO_GPU) {
        container_remark(
            o, a, OUT_DIM, " ",
            s->pick->none ? "The CPU was chosen, so no GPU is requested."
                          : "This host has no GPU that a container could use: it runs on the CPU.");
    }
    if (s->first.n) {
        container_remark(o, a, OUT_DIM, " ", "First, on the host:");
        print_steps(o, a, &s->first);
        out_print(o, OUT_PLAIN, "\n");
    }
}

static void print_trials(const struct out *o, struct arena *a, const struct container_settings *s,
                         enum container_format format)
{
    bool any = false;
    for (size_t i = 0; i < s->trials.n; i++) {
        const struct container_trial *t = &s->trials.items[i];
        const char *line = report_form_trial(a, s, format, t);
        if (line && !any) {
            out_print(o, OUT_PLAIN, "\n");
            container_remark(o, a, OUT_DIM, " ", "To test it:");
        }
        if (line) {
            any = true;
            container_remark(o, a, OUT_PLAIN, "   ", line);
            container_remark(o, a, OUT_DIM, "       ", t->expected);
        }
    }
}

static void print_inventory(const struct out *o, struct arena *a,
                            const struct container_settings *s)
{
    static const char *const words[] = {"cannot tell", "does not fit", "fits"};
    if (s->gpu != CONTAINER_NVIDIA) {
        return;
    }
    out_print(o, OUT_PLAIN, "\n");
    container_remark(o, a, OUT_DIM, " ",
                     s->driver
                         ? arena_printf(a,
                                        "Driver of the host: %s (%s); the newest CUDA it supports: "
                                        "%s%s",
                                        s->driver, s->driver_from ? s->driver_from : "",
                                        s->driver_cuda ? s->driver_cuda : "unknown",
                                        s->driver_cuda_or_newer ? " or newer" : "")
                         : arena_printf(a, "Driver of the host: unknown (%s)",
                                        s->driver_from ? s->driver_from : "no file names it"));
    for (size_t i = 0; i < s->fits.n; i++) {
        const struct container_fit *f = &s->fits.items[i];
        container_remark(o, a, OUT_DIM, " ",
                         arena_printf(a, "CUDA of the image: %s (%s): %s: %s", f->cuda, f->from,
                                      words[f->fits], f->rule));
    }
    if (s->fits.n == 0) {
        container_remark(o, a, OUT_DIM, " ",
                         "CUDA of the image: unknown (nothing in it names a version)");
    }
}

static void print_undo(const struct out *o, struct arena *a, const struct container_settings *s,
                       enum container_format format)
{
    struct container_item use, undo;
    report_form_use(a, s, format, &use, &undo);
    out_print(o, OUT_PLAIN, "\n");
    if (use.value) {
        container_remark(o, a, OUT_DIM, " ", "To use it:");
        container_remark(o, a, OUT_PLAIN, "   ", use.value);
        container_remark(o, a, OUT_DIM, " ", "To undo it:");
        container_remark(o, a, OUT_PLAIN, "   ", undo.value);
    } else {
        container_remark(o, a, OUT_DIM, " ",
                         "To undo it, start the container without these settings; they "
                         "change nothing else.");
    }
    print_steps(o, a, &s->undo);
}

void report_container_text(const struct out *o, const struct out *r, struct arena *a,
                           const struct container_settings *s, enum container_format format)
{
    report_options list = report_form_options(a, s, format);
    print_before(r, a, s, format);
    print_reasons(r, a, &list);
    if (format == CONTAINER_DOCKERFILE && s->image.n) {
        print_steps(r, a, &s->image);
        out_print(r, OUT_PLAIN, "\n");
    } else if (format == CONTAINER_DOCKERFILE) {
        container_remark(r, a, OUT_DIM, " ",
                         s->unsure ? "No error is known that a Dockerfile can repair."
                                   : "The image has no error that a Dockerfile can repair.");
    }
    print_form(o, a, s, format, &list);
    if (s->image.n && format != CONTAINER_DOCKERFILE) {
        out_print(r, OUT_PLAIN, "\n");
        container_remark(r, a, OUT_DIM, " ",
                         "Lines for the Dockerfile, for what neither the image nor this "
                         "host has:");
        print_steps(r, a, &s->image);
    }
    print_trials(r, a, s, format);
    print_inventory(r, a, s);
    print_undo(r, a, s, format);
    for (size_t i = 0; i < s->notes.n; i++) {
        out_print(r, OUT_PLAIN, "%s", i ? "" : "\n");
        container_remark(r, a, OUT_PLAIN, " ", s->notes.items[i]);
    }
}

/* ------------------------------------------------------------------ JSON */

static json_t *items_json(struct arena *a, const container_items *items)
{
    json_t *list = json_array();
    for (size_t i = 0; i < items->n; i++) {
        (void)json_array_append_new(
            list, json_pack("{s:o, s:o}", "value", out_json_text(a, items->items[i].value),
                            "reason", out_json_text(a, items->items[i].reason)));
    }
    return list;
}

static json_t *item_json(struct arena *a, const struct container_item *item)
{
    container_items one = {0};
    if (item->value) {
        VEC_PUSH(a, &one, *item);
    }
    return items_json(a, &one);
}

/* The documents, the protocol and the inventory. */
static void set_proof(json_t *doc, struct arena *a, const struct container_settings *s,
                      enum container_format format)
{
    static const char *const states[] = {"unknown", "no", "yes"};
    json_t *trials = json_array(), *fits = json_array();
    json_t *documents = report_form_documents(a, s, format);
    const char *lines = report_form_lines(a, s, format);
    for (size_t i = 0; i < s->trials.n; i++) {
        const char *line = report_form_trial(a, s, format, &s->trials.items[i]);
        if (line) {
            (void)json_array_append_new(
                trials, json_pack("{s:o, s:o}", "command", out_json_text(a, line), "expected",
                                  out_json_text(a, s->trials.items[i].expected)));
        }
    }
    for (size_t i = 0; i < s->fits.n; i++) {
        const struct container_fit *f = &s->fits.items[i];
        (void)json_array_append_new(
            fits, json_pack("{s:o, s:o, s:s, s:o}", "cuda", out_json_text(a, f->cuda), "from",
                            out_json_text(a, f->from), "fits", states[f->fits], "rule",
                            out_json_text(a, f->rule)));
    }
    (void)json_object_set_new(doc, "documents", documents ? documents : json_array());
    (void)json_object_set_new(doc, "lines", out_json_text(a, lines));
    (void)json_object_set_new(doc, "trials", trials);
    (void)json_object_set_new(doc, "inventory",
                              json_pack("{s:o, s:o, s:b, s:o}", "driver",
                                        out_json_text(a, s->driver), "driver_cuda",
                                        out_json_text(a, s->driver_cuda), "driver_cuda_or_newer",
                                        s->driver_cuda_or_newer, "image", fits));
}

json_t *report_container_json(struct arena *a, const struct container_settings *s,
                              enum container_format format)
{
    static const char *const gpus[] = {
        [CONTAINER_UNKNOWN_GPU] = "unknown", [CONTAINER_NO_GPU] = "none",
        [CONTAINER_NVIDIA] = "nvidia",       [CONTAINER_AMD] = "amd",
        [CONTAINER_INTEL] = "intel",         [CONTAINER_WSL] = "wsl"};
    json_t *doc =
        json_pack("{s:i, s:s, s:o, s:s}", "schema", 1, "format", container_format_name(format),
                  "name", out_json_text(a, s->subject), "gpu", gpus[s->gpu]);
    const struct {
        const char *key;
        json_t *value;
    } rows[] = {
        {"first", items_json(a, &s->first)},
        {"gpus", items_json(a, &s->gpus)},
        {"runtime", item_json(a, &s->runtime)},
        {"devices", items_json(a, &s->devices)},
        {"groups", items_json(a, &s->groups)},
        {"environment", items_json(a, &s->env)},
        {"mounts", items_json(a, &s->mounts)},
        {"security", items_json(a, &s->security)},
        {"shared_memory", item_json(a, &s->shm)},
        {"resource", item_json(a, &s->resource)},
        {"runtime_class", item_json(a, &s->runtime_class)},
        {"image", items_json(a, &s->image)},
        {"undo", items_json(a, &s->undo)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        (void)json_object_set_new(doc, rows[i].key, rows[i].value);
    }
    json_t *arguments = json_array(), *notes = json_array();
    report_options list =
        report_form_start(format) ? report_form_options(a, s, format) : (report_options){0};
    for (size_t i = 0; i < list.n; i++) {
        const struct report_option *option = &list.items[i];
        bool one_word = option->flag && option->flag[strlen(option->flag) - 1] == '=';
        if (option->flag && !one_word) {
            (void)json_array_append_new(arguments, json_string(option->flag));
        }
        (void)json_array_append_new(
            arguments,
            out_json_text(a, one_word ? arena_printf(a, "%s%s", option->flag, option->value)
                                      : option->value));
    }
    for (size_t i = 0; i < s->notes.n; i++) {
        (void)json_array_append_new(notes, out_json_text(a, s->notes.items[i]));
    }
    (void)json_object_set_new(doc, "arguments", arguments);
    (void)json_object_set_new(doc, "notes", notes);
    set_proof(doc, a, s, format);
    return doc;
}
