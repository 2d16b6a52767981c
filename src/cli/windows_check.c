#include <string.h>

#include "cli/windows.h"
#include "diag/windows.h"
#include "report/devices.h"
#include "winldr/path.h"

/* What no file says, and what is not modelled: the verdict is never "ok" because of these. */
static const char *const not_looked_at[] = {
    "what the driver does with the GPU",
    "what the libraries load at run time, but for ctranslate2's cuBLAS (cuDNN's parts, providers)",
    ("packages other than torch, ctranslate2, onnxruntime, faster-whisper, whisperx, cupy, "
     "llvmlite and bitsandbytes"),
    "what the start of a DLL does",
};

/* ------------------------------------------------------------------ output */

static json_t *finding_json(struct arena *a, const struct diag_windows_finding *f)
{
    json_t *repairs = json_array();
    for (size_t i = 0; i < f->repairs.n; i++) {
        const struct diag_windows_repair *r = &f->repairs.items[i];
        (void)json_array_append_new(
            repairs, json_pack("{s:o,s:o,s:o,s:o}", "says", out_json_text(a, r->says), "powershell",
                               out_json_text(a, r->powershell), "cmd", out_json_text(a, r->cmd),
                               "python", out_json_text(a, r->python)));
    }
    return json_pack("{s:s,s:s,s:o,s:o,s:o,s:o}", "id", f->cause, "severity", f->severity, "title",
                     out_json_text(a, f->title), "evidence", out_json_text(a, f->evidence),
                     "repair", out_json_text(a, f->repairs.n ? f->repairs.items[0].says : NULL),
                     "repairs", repairs);
}

static json_t *inspection_json(const struct diag_windows *n)
{
    struct arena *a = n->arena;
    json_t *findings = json_array(), *unknown = json_array(), *packages = json_array();
    for (size_t i = 0; i < n->findings.n; i++) {
        (void)json_array_append_new(findings, finding_json(a, &n->findings.items[i]));
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

/* The same command is printed once for both shells. */
static void print_repair(const struct out *o, struct arena *a, const struct diag_windows_repair *r)
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
            print_repair(o, a, &f->repairs.items[k]);
        }
    }
    for (size_t i = 0; i < n->unknown.n; i++) {
        out_print(o, OUT_YELLOW, "  cannot tell: %s\n", str_printable(a, n->unknown.items[i]));
    }
}

/* The GPUs of the machine, or that they are not known. */
static void print_machine(const struct out *o, struct arena *a, const struct host *h)
{
    host_texts lines = {0};
    if (h) {
        report_devices_head(a, h, &lines);
    }
    for (size_t i = 0; i < lines.n; i++) {
        fprintf(o->file, "GPU: %s\n", str_printable(a, lines.items[i]));
    }
}

static int print_all(struct arena *a, const struct host *host, const struct diag_windows *all,
                     size_t n, bool json)
{
    bool broken = false;
    json_t *environments = json_array(), *rest = json_array();
    struct out out;
    out_init(&out, stdout);
    if (!json) {
        print_machine(&out, a, host);
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < all[i].findings.n; k++) {
            broken |= strcmp(all[i].findings.items[k].severity, "error") == 0;
        }
        if (json) {
            (void)json_array_append_new(environments, inspection_json(&all[i]));
        } else {
            print_inspection(&out, &all[i]);
        }
    }
    size_t n_rest = sizeof not_looked_at / sizeof *not_looked_at;
    for (size_t i = 0; i < n_rest; i++) {
        (void)json_array_append_new(rest, json_string(not_looked_at[i]));
    }
    json_t *doc =
        json_pack("{s:i,s:s,s:o,s:o,s:o}", "schema", 1, "verdict", broken ? "broken" : "unknown",
                  "devices", host ? report_devices_facts(a, host) : json_null(), "environments",
                  environments, "not_looked_at", rest);
    if (json) {
        if (out_json_dump(stdout, doc) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
        return broken ? CLI_FINDINGS : CLI_CANNOT;
    }
    json_decref(doc);
    fprintf(out.file, "%s (Wine-tested; not yet run on Windows). Not looked at:\n",
            broken   ? "Broken"
            : n == 0 ? "Cannot tell: no Python was found"
                     : "Cannot tell");
    for (size_t i = 0; i < n_rest; i++) {
        fprintf(out.file, "  %s\n", not_looked_at[i]);
    }
    return broken ? CLI_FINDINGS : CLI_CANNOT;
}

/* The findings with their repairs; what has none is left to check. */
static int print_plan(const struct diag_windows *all, size_t n)
{
    size_t n_findings = 0, n_repairs = 0;
    struct out out;
    out_init(&out, stdout);
    for (size_t i = 0; i < n; i++) {
        if (all[i].findings.n) {
            print_inspection(&out, &all[i]);
        }
        for (size_t k = 0; k < all[i].findings.n; k++) {
            n_findings++;
            n_repairs += all[i].findings.items[k].repairs.n;
        }
    }
    if (n_findings) {
        fprintf(out.file, "%zu findings, %zu repairs. Nothing was changed: run them in Windows.\n",
                n_findings, n_repairs);
    } else {
        fprintf(out.file,
                "Nothing to repair was found (gpumend check says what was not looked at).\n");
    }
    return n_findings ? CLI_FINDINGS : CLI_CANNOT;
}

/* A target as it was given: of Windows, or below the root. */
static const char *target_path(const struct winldr_files *files, struct arena *a, const char *path)
{
    const char *name = path && path[0] == '/' ? winldr_files_name(files, a, path) : NULL;
    return name ? name : path;
}

/* The machine of the tree, or NULL. */
static const struct host *machine_of(struct arena *a, struct root *root)
{
    struct host *host = arena_alloc(a, sizeof *host);
    struct gm_err err;
    if (host_collect(root, a, host, &err) < 0 || host->windows.is_windows.state != HOST_YES) {
        return NULL;
    }
    host_judge(host, a);
    return host;
}

/* PATH of the environment's process: the system's, then that of the user whose folder it is in; of
 * another folder only if there is one user. NULL: not known. */
static const char *path_of(struct arena *a, const struct host_windows *w, const char *folder)
{
    const struct host_windows_user *user = w->users.n == 1 ? &w->users.items[0] : NULL;
    for (size_t i = 0; i < w->users.n; i++) {
        const char *home = winldr_path_join(a, "C:\\Users", w->users.items[i].name);
        if (winldr_path_is_below(folder, home)) {
            user = &w->users.items[i];
        }
    }
    if (w->path.state != HOST_YES || (w->users.n && !user) ||
        (user && user->path.state == HOST_UNKNOWN)) {
        return NULL;
    }
    return user && user->path.state == HOST_YES
               ? arena_printf(a, "%s;%s", w->path.value, user->path.value)
               : w->path.value;
}

static void set_environment(struct arena *a, const struct host *host, struct winldr_python *py)
{
    if (host) {
        py->path = path_of(a, &host->windows, py->folder);
        py->cuda_path = host_variable(host, "CUDA_PATH");
        py->hip_path = host_variable(host, "HIP_PATH");
        py->unsafe_search = host->windows.safe_search.state == HOST_NO;
        py->known_dlls = host->windows.known_dlls.items; // NULL where there are none
        py->n_known_dlls = host->windows.known_dlls.n;
    }
}

static int check_tree(struct arena *a, struct root *root, struct winldr_files *files,
                      const char *folder, const struct cli_windows_check *check)
{
    const struct host *host = machine_of(a, root);
    struct winldr_pythons pythons;
    struct kb kb;
    struct gm_err err;
    if (kb_open(&kb, a, root, NULL, &err) < 0) {
        return cli_fail(CLI_CANNOT, "%s", err.text);
    }
    winldr_find_pythons(files, folder, &pythons);
    struct diag_windows *all = arena_array(a, pythons.items.n + 1, sizeof *all);
    for (size_t i = 0; i < pythons.items.n; i++) {
        struct winldr_python *py = &pythons.items.items[i];
        set_environment(a, host, py);
        all[i] =
            (struct diag_windows){.arena = a, .files = files, .py = py, .kb = &kb, .host = host};
        diag_windows_judge(&all[i]);
    }
    return check->is_fix && !check->json ? print_plan(all, pythons.items.n)
                                         : print_all(a, host, all, pythons.items.n, check->json);
}

bool cli_windows_check(struct arena *a, struct root *root, const struct cli_windows_check *check,
                       int *ret_status)
{
    struct winldr_files files;
    struct winldr_drive drive = {'C', "/"};
    winldr_files_open(&files, root, a, &drive, 1);
    const char *folder = target_path(&files, a, check->target);
    bool is_tree = winldr_is_tree(&files, folder);
    if (is_tree && check->refused) {
        *ret_status = cli_fail(CLI_CANNOT, "%s: %s is not available for a Windows tree",
                               check->is_fix ? "fix" : "check", check->refused);
    } else if (is_tree) {
        *ret_status = check_tree(a, root, &files, folder, check);
    }
    winldr_files_close(&files);
    return is_tree;
}
