#include "report/windows_check.h"

#include <string.h>

#include "base/str.h"
#include "diag/cause.h"
#include "report/devices.h"

/* What no file says, and what is not modelled: the verdict is never "ok" because of these. */
static const char *const not_looked_at[] = {
    "what the driver does with the GPU",
    ("what the libraries load at run time, but for ctranslate2's cuBLAS and cuDNN, onnxruntime's "
     "CUDA provider and numba-cuda's NVVM"),
    ("packages other than torch, ctranslate2, onnxruntime, faster-whisper, whisperx, cupy, "
     "llvmlite, bitsandbytes, tensorflow, paddle and numba-cuda"),
    "what the start of a DLL does",
};
enum { N_REST = sizeof not_looked_at / sizeof *not_looked_at };

bool report_windows_is_broken(const struct report_windows *r)
{
    bool broken = false;
    for (size_t i = 0; i < r->n; i++) {
        for (size_t k = 0; k < r->all[i].findings.n; k++) {
            broken |= strcmp(r->all[i].findings.items[k].severity, "error") == 0;
        }
    }
    return broken;
}

/* ------------------------------------------------------------------ JSON */

json_t *report_windows_repair_json(struct arena *a, const struct diag_windows_repair *r)
{
    return json_pack("{s:o,s:o,s:o,s:o}", "says", out_json_text(a, r->says), "powershell",
                     out_json_text(a, r->powershell), "cmd", out_json_text(a, r->cmd), "python",
                     out_json_text(a, r->python));
}

static json_t *windows_finding_json(struct arena *a, const struct diag_windows_finding *f)
{
    json_t *repairs = json_array();
    for (size_t i = 0; i < f->repairs.n; i++) {
        (void)json_array_append_new(repairs, report_windows_repair_json(a, &f->repairs.items[i]));
    }
    const struct diag_cause_row *row = diag_cause_by_id(f->cause);
    return json_pack("{s:s,s:o,s:s,s:o,s:o,s:o,s:o}", "id", f->cause, "class",
                     row ? json_string(row->class) : json_null(), "severity", f->severity, "title",
                     out_json_text(a, f->title), "evidence", out_json_text(a, f->evidence),
                     "repair", out_json_text(a, f->repairs.n ? f->repairs.items[0].says : NULL),
                     "repairs", repairs);
}

static json_t *inspection_json(const struct diag_windows *n)
{
    struct arena *a = n->arena;
    json_t *findings = json_array(), *unknown = json_array(), *packages = json_array();
    for (size_t i = 0; i < n->findings.n; i++) {
        (void)json_array_append_new(findings, windows_finding_json(a, &n->findings.items[i]));
    }
    for (size_t i = 0; i < n->unknown.n; i++) {
        (void)json_array_append_new(unknown, out_json_text(a, n->unknown.items[i]));
    }
    for (const char *const *name = winldr_packages; *name; name++) {
        if (winldr_has_package(n->files, n->py, *name)) {
            (void)json_array_append_new(packages, json_string(*name));
        }
    }
    return json_pack("{s:o,s:s,s:o,s:o,s:o,s:o}", "path", out_json_text(a, n->py->folder), "kind",
                     n->py->kind, "program", out_json_text(a, n->py->exe), "packages", packages,
                     "findings", findings, "unknown", unknown);
}

json_t *report_windows_check_json(const struct report_windows *r)
{
    json_t *environments = json_array(), *rest = json_array();
    for (size_t i = 0; i < r->n; i++) {
        (void)json_array_append_new(environments, inspection_json(&r->all[i]));
    }
    for (size_t i = 0; i < N_REST; i++) {
        (void)json_array_append_new(rest, json_string(not_looked_at[i]));
    }
    for (size_t i = 0; i < r->n_unheld; i++) {
        (void)json_array_append_new(rest, out_json_text(r->arena, r->unheld[i]));
    }
    return json_pack("{s:i,s:s,s:o,s:o,s:o}", "schema", 1, "verdict",
                     report_windows_is_broken(r) ? "broken" : "unknown", "devices",
                     r->host ? report_devices_facts(r->arena, r->host) : json_null(),
                     "environments", environments, "not_looked_at", rest);
}

/* ------------------------------------------------------------------ text */

/* The same command is printed once for both shells. */
void report_windows_repair_text(const struct out *o, struct arena *a,
                                const struct diag_windows_repair *r)
{
    fprintf(o->file, "    repair: %s\n", str_printable(a, r->says));
    if (r->powershell && r->cmd && strcmp(r->powershell, r->cmd) == 0) {
        fprintf(o->file, "      run:        %s\n", r->cmd);
        return;
    }
    const char *const lines[][2] = {
        {"PowerShell: ", r->powershell}, {"cmd:        ", r->cmd}, {"in Python:  ", r->python}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (lines[i][1]) {
            fprintf(o->file, "      %s%s\n", lines[i][0], lines[i][1]);
        }
    }
}

static void print_inspection(const struct out *o, const struct diag_windows *n)
{
    struct arena *a = n->arena;
    fprintf(o->file, "%s (%s)\n", str_printable(a, n->py->folder), n->py->kind);
    for (size_t i = 0; i < n->findings.n; i++) {
        const struct diag_windows_finding *f = &n->findings.items[i];
        out_print(o, strcmp(f->severity, "error") == 0 ? OUT_RED : OUT_YELLOW, "  %s: %s  [%s]\n",
                  f->severity, str_printable(a, f->title), f->cause);
        fprintf(o->file, "    %s\n", str_printable(a, f->evidence));
        for (size_t k = 0; k < f->repairs.n; k++) {
            report_windows_repair_text(o, a, &f->repairs.items[k]);
        }
    }
    for (size_t i = 0; i < n->unknown.n; i++) {
        out_print(o, OUT_YELLOW, "  cannot tell: %s\n", str_printable(a, n->unknown.items[i]));
    }
}

/* The GPUs of the machine, or that they are not known. */
static void print_machine(const struct out *o, const struct report_windows *r)
{
    host_texts lines = {0};
    if (r->host) {
        report_devices_head(r->arena, r->host, &lines);
    }
    for (size_t i = 0; i < lines.n; i++) {
        fprintf(o->file, "GPU: %s\n", str_printable(r->arena, lines.items[i]));
    }
}

void report_windows_check_text(const struct out *o, const struct report_windows *r)
{
    print_machine(o, r);
    for (size_t i = 0; i < r->n; i++) {
        print_inspection(o, &r->all[i]);
    }
    fprintf(o->file, "%s (Wine-tested; not yet run on Windows). Not looked at:\n",
            report_windows_is_broken(r) ? "Broken"
            : r->n == 0                 ? "Cannot tell: no Python was found"
                                        : "Cannot tell");
    for (size_t i = 0; i < N_REST; i++) {
        fprintf(o->file, "  %s\n", not_looked_at[i]);
    }
    for (size_t i = 0; i < r->n_unheld; i++) {
        fprintf(o->file, "  %s\n", str_printable(r->arena, r->unheld[i]));
    }
}

size_t report_windows_plan_text(const struct out *o, const struct report_windows *r)
{
    size_t n_findings = 0, n_repairs = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct diag_windows *n = &r->all[i];
        if (n->findings.n) {
            print_inspection(o, n);
        }
        for (size_t k = 0; k < n->findings.n; k++) {
            n_findings++;
            n_repairs += n->findings.items[k].repairs.n;
        }
    }
    if (n_findings) {
        fprintf(o->file, "%zu findings, %zu repairs. Nothing was changed: run them in Windows.\n",
                n_findings, n_repairs);
    } else {
        fprintf(o->file, "Nothing to repair was found (gpumend check says what was not looked "
                         "at).\n");
    }
    return n_findings;
}
