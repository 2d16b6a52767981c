#include "report/cdi.h"

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

static void print_file(const struct out *o, struct arena *a, const struct cdi_file *f)
{
    bool error = false;
    for (size_t i = 0; i < f->problems.n; i++) {
        error |= f->problems.items[i].is_error;
    }
    out_print(o,
              f->problems.n == 0 ? OUT_GREEN
              : error            ? OUT_RED
                                 : OUT_YELLOW,
              "%s",
              f->problems.n == 0 ? "ok"
              : error            ? "stale"
                                 : "look");
    out_print(o, OUT_PLAIN, "  %s%s\n", str_printable(a, f->path), described(a, f));
    for (size_t i = 0; i < f->problems.n; i++) {
        const struct cdi_problem *p = &f->problems.items[i];
        out_print(o, OUT_PLAIN, "    %s: ", p->is_error ? "error" : "warning");
        out_wrap(o, 6, p->text);
    }
    if (error) {
        out_print(o, OUT_PLAIN, "    %s\n",
                  f->ours ? "gpumend container cdi --refresh"
                          : "write it anew with what wrote it, such as: nvidia-ctk cdi generate");
    }
}

void report_cdi_text(const struct out *o, struct arena *a, const struct cdi_files *f)
{
    if (f->engine) {
        out_print(o, OUT_PLAIN, "%s loads specifications up to version %s.\n", f->engine,
                  f->engine_max);
    }
    if (f->files.n == 0) {
        out_print(o, OUT_PLAIN, "There is no specification in %s, %s or %s.\n", cdi_folders[0],
                  cdi_folders[1], cdi_folders[2]);
    }
    for (size_t i = 0; i < f->files.n; i++) {
        print_file(o, a, &f->files.items[i]);
    }
}

static json_t *problems_json(struct arena *a, const struct cdi_file *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < f->problems.n; i++) {
        const struct cdi_problem *p = &f->problems.items[i];
        json_t *one =
            json_pack("{s:s, s:s, s:o}", "kind", cdi_fault_name(p->kind), "severity",
                      p->is_error ? "error" : "warning", "text", out_json_text(a, p->text));
        (void)json_array_append_new(list, one);
    }
    return list;
}

json_t *report_cdi_json(struct arena *a, const struct cdi_files *f)
{
    json_t *files = json_array(), *folders = json_array();
    for (size_t i = 0; i < f->folders.n; i++) {
        (void)json_array_append_new(folders, out_json_text(a, f->folders.items[i]));
    }
    for (size_t i = 0; i < f->files.n; i++) {
        const struct cdi_file *one = &f->files.items[i];
        json_t *file = json_pack(
            "{s:o, s:o, s:o, s:I, s:b, s:o}", "path", out_json_text(a, one->path), "kind",
            out_json_text(a, one->kind), "version", out_json_text(a, one->version), "devices",
            (json_int_t)one->n_devices, "ours", one->ours, "problems", problems_json(a, one));
        (void)json_array_append_new(files, file);
    }
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:s}", "schema", 1, "engine",
                     out_json_text(a, f->engine), "engine_max", out_json_text(a, f->engine_max),
                     "folders", folders, "files", files, "verdict",
                     report_cdi_errors(f) ? "broken" : "ok");
}

size_t report_cdi_errors(const struct cdi_files *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->files.n; i++) {
        for (size_t k = 0; k < f->files.items[i].problems.n; k++) {
            n += f->files.items[i].problems.items[k].is_error;
        }
    }
    return n;
}
