#include "report/cdi.h"

#include <string.h>

static const char *described(struct arena *a, const struct cdi_file *f)
{
    if (!f->kind) {
        return "";
    }
    return arena_printf(a, ": %s, %zu device%s%s%s%s", str_printable(a, f->kind), f->n_devices,
                        f->n_devices == 1 ? "" : "s", f->version ? ", version " : "",
                        f->version ? str_printable(a, f->version) : "",
                        f->ours ? ", written by gpumend" : "");
}

static const char *const severities[] = {
    [CDI_WARNING] = "warning", [CDI_OPEN] = "unknown", [CDI_ERROR] = "error"};

static enum cdi_severity worst_of(const struct cdi_file *f)
{
    enum cdi_severity worst = CDI_WARNING;
    for (size_t i = 0; i < f->problems.n; i++) {
        worst = f->problems.items[i].severity > worst ? f->problems.items[i].severity : worst;
    }
    return worst;
}

/* Which of the known engines pass over it, once for each reason, where others load it; none is
 * known to be here. */
static void print_engines(const struct out *o, struct arena *a, const struct cdi_files *files,
                          const struct cdi_file *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->answers.n; i++) {
        n += f->answers.items[i].why != NULL;
    }
    for (size_t i = 0; i < f->answers.n && n < f->answers.n && !files->engine; i++) {
        const char *why = f->answers.items[i].why;
        bool told = !why;
        for (size_t k = 0; k < i && !told; k++) {
            told = f->answers.items[k].why && strcmp(f->answers.items[k].why, why) == 0;
        }
        if (!told) {
            out_print(o, OUT_PLAIN, "    not loaded by ");
            out_wrap(o, 6, arena_printf(a, "%s: %s", cdi_engines_text(a, files, f, why), why));
        }
    }
}

static void print_file(const struct out *o, struct arena *a, const struct cdi_files *files,
                       const struct cdi_file *f)
{
    enum cdi_severity worst = worst_of(f);
    out_print(o,
              f->problems.n == 0   ? OUT_GREEN
              : worst == CDI_ERROR ? OUT_RED
                                   : OUT_YELLOW,
              "%s",
              f->problems.n == 0   ? "ok"
              : worst == CDI_ERROR ? "wrong"
              : worst == CDI_OPEN  ? "unknown"
                                   : "look");
    out_print(o, OUT_PLAIN, "  %s%s\n", str_printable(a, f->path), described(a, f));
    for (size_t i = 0; i < f->problems.n; i++) {
        const struct cdi_problem *p = &f->problems.items[i];
        out_print(o, OUT_PLAIN, "    %s: ", severities[p->severity]);
        out_wrap(o, 6, p->text);
    }
    print_engines(o, a, files, f);
    if (f->command && worst == CDI_ERROR) {
        out_print(o, OUT_PLAIN, "    %s: %s\n", f->step, f->command);
    } else if (f->step && worst == CDI_ERROR) {
        out_print(o, OUT_PLAIN, "    %s\n", f->step);
    }
}

void report_cdi_text(const struct out *o, struct arena *a, const struct cdi_files *f)
{
    if (f->engine) {
        out_print(o, OUT_PLAIN, "%s loads specifications up to version %s.\n", f->engine,
                  f->engine_max);
    }
    for (size_t i = 0; i < f->files.n; i++) {
        print_file(o, a, f, &f->files.items[i]);
    }
    for (size_t i = 0; i < f->unread.n; i++) {
        out_print(o, OUT_YELLOW, "unknown");
        out_print(o, OUT_PLAIN, "  %s\n", f->unread.items[i]);
    }
    if (f->files.n == 0 && f->unread.n == 0) {
        out_print(o, OUT_PLAIN, "There is no specification in %s.\n",
                  str_printable(a, f->looked_in));
    }
}

static json_t *cdi_problems_json(struct arena *a, const struct cdi_file *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < f->problems.n; i++) {
        const struct cdi_problem *p = &f->problems.items[i];
        json_t *one = json_pack("{s:s, s:s, s:o}", "kind", cdi_fault_name(p->kind), "severity",
                                severities[p->severity], "text", out_json_text(a, p->text));
        (void)json_array_append_new(list, one);
    }
    return list;
}

static json_t *cdi_engines_json(struct arena *a, const struct cdi_files *files,
                                const struct cdi_file *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < f->answers.n; i++) {
        const struct cdi_engine *e = &files->engines.items[i];
        const char *why = f->answers.items[i].why;
        json_t *one = json_pack("{s:s, s:s, s:o, s:s, s:o, s:b, s:o}", "engine", e->engine, "from",
                                e->from, "until", out_json_text(a, e->until), "library", e->library,
                                "installed", out_json_text(a, e->installed), "loads", why == NULL,
                                "why", out_json_text(a, why));
        (void)json_array_append_new(list, one);
    }
    return list;
}

json_t *report_cdi_json(struct arena *a, const struct cdi_files *f)
{
    static const char *const verdicts[] = {
        [CDI_WARNING] = "ok", [CDI_OPEN] = "unknown", [CDI_ERROR] = "broken"};
    json_t *files = json_array();
    for (size_t i = 0; i < f->files.n; i++) {
        const struct cdi_file *one = &f->files.items[i];
        json_t *file = json_pack("{s:o, s:o, s:o, s:I, s:b, s:o, s:o}", "path",
                                 out_json_text(a, one->path), "kind", out_json_text(a, one->kind),
                                 "version", out_json_text(a, one->version), "devices",
                                 (json_int_t)one->n_devices, "ours", one->ours, "problems",
                                 cdi_problems_json(a, one), "engines", cdi_engines_json(a, f, one));
        (void)json_array_append_new(files, file);
    }
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:s}", "schema", 1, "engine",
                     out_json_text(a, f->engine), "engine_max", out_json_text(a, f->engine_max),
                     "folders", out_json_texts(a, f->folders.items, f->folders.n), "unread",
                     out_json_texts(a, f->unread.items, f->unread.n), "files", files, "verdict",
                     verdicts[report_cdi_worst(f)]);
}

json_t *report_cdi_specs_json(struct arena *a, const struct cdi_specs *specs, json_t *wrote)
{
    json_t *list = json_array();
    for (size_t i = 0; i < specs->specs.n; i++) {
        const struct cdi_spec *s = &specs->specs.items[i];
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:O}", "kind", s->kind, "file",
                                                    s->file, "note", out_json_text(a, s->note),
                                                    "document", s->document));
    }
    return json_pack("{s:i, s:o, s:o, s:o, s:o}", "schema", 1, "specifications", list, "left_out",
                     out_json_texts(a, specs->left_out.items, specs->left_out.n), "notes",
                     out_json_texts(a, specs->notes.items, specs->notes.n), "wrote", wrote);
}

enum cdi_severity report_cdi_worst(const struct cdi_files *f)
{
    enum cdi_severity worst = f->unread.n ? CDI_OPEN : CDI_WARNING;
    for (size_t i = 0; i < f->files.n; i++) {
        enum cdi_severity one = worst_of(&f->files.items[i]);
        worst = one > worst ? one : worst;
    }
    return worst;
}
