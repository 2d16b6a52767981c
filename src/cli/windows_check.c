#include <string.h>

#include "cli/windows.h"
#include "report/windows.h"
#include "winldr/path.h"
#include "winldr/python.h"

/* What no file says, and what is not modelled yet: the verdict is never "ok" because of these. */
static const char *const not_looked_at[] = {
    "the registry, the driver and the GPU",
    "what the libraries load at run time (cuBLAS, cuDNN's parts, providers)",
    "packages other than torch, ctranslate2 and onnxruntime",
    "what the start of a DLL does",
};

struct finding {
    const char *cause, *severity, *title;
    const char *evidence;
    const char *repair; // or NULL: none is known
};

struct inspection {
    struct arena *arena;
    struct winldr_files *files;
    const struct winldr_python *py;
    VEC(struct finding) findings;
    VEC(const char *) unknown;
};

static bool is_known(const struct inspection *n, const char *evidence)
{
    for (size_t i = 0; i < n->findings.n; i++) {
        if (strcmp(n->findings.items[i].evidence, evidence) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < n->unknown.n; i++) {
        if (strcmp(n->unknown.items[i], evidence) == 0) {
            return true;
        }
    }
    return false;
}

/* The Visual C++ runtime has these; python.org's installer brings the first two alone. Source:
 * Microsoft, "Microsoft Visual C++ Redistributable latest supported downloads". */
static const char *runtime_repair(const char *dll)
{
    static const char *const names[] = {"vcruntime140.dll", "vcruntime140_1.dll", "msvcp140.dll",
                                        "msvcp140_1.dll",   "msvcp140_2.dll",     "vcomp140.dll",
                                        "concrt140.dll"};
    return winldr_name_in(dll, names, sizeof names / sizeof *names)
               ? "winget install --id Microsoft.VCRedist.2015+.x64 --exact"
               : NULL;
}

static const char *cause_of(enum winldr_code code)
{
    return code == WINLDR_PROC_NOT_FOUND   ? "undefined-symbol"
           : code == WINLDR_BAD_EXE_FORMAT ? "library-wrong-architecture"
           : code == WINLDR_ACCESS_DENIED  ? "library-unreadable"
                                           : "dll-missing";
}

/* What failed or is unknown of one import. A DLL that torch preloads of the runtime is only tried.
 */
static void judge_import(struct inspection *n, const struct winldr_process *p, const char *package)
{
    for (size_t i = 0; i < p->loads.n; i++) {
        const struct winldr_load *l = &p->loads.items[i];
        bool is_trial = !winldr_path_has_folder(l->name);
        if (is_trial || l->outcome == WINLDR_LOADED || l->outcome == WINLDR_REUSED) {
            continue;
        }
        const char *evidence = report_windows_cause(p, l);
        if (is_known(n, evidence)) {
            continue;
        }
        if (l->outcome == WINLDR_UNKNOWN) {
            VEC_PUSH(n->arena, &n->unknown, evidence);
            continue;
        }
        const struct winldr_request *r = p->requests.items[l->blame];
        VEC_PUSH(n->arena, &n->findings,
                 (struct finding){cause_of(l->code), "error",
                                  arena_printf(n->arena, "import %s fails: %s", package,
                                               report_windows_code(n->arena, l->code)),
                                  evidence, runtime_repair(r->name)});
    }
}

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strlen(path) > n && path[n] == '\\' &&
           winldr_name_part_is((struct str){path, n}, str_of(folder));
}

static const char *version_text(struct arena *a, const struct winldr_module *m)
{
    struct pe_version v = m->file ? pe_version_read(&m->file->image) : (struct pe_version){0};
    return v.found ? arena_printf(a, "%u.%u.%u.%u", v.file[0], v.file[1], v.file[2], v.file[3])
                   : "unknown version";
}

/* The process after importing one package and then another. */
static struct winldr_process *import_two(struct inspection *n, const char *first,
                                         const char *second)
{
    struct winldr_process *p = winldr_python_start(n->files, n->py);
    winldr_import_package(p, n->py, first);
    winldr_import_package(p, n->py, second);
    return p;
}

/* The cuDNN that a library of torch gets by its base name from a folder that is not torch's. */
static const struct winldr_request *foreign_cudnn(const struct winldr_process *p, const char *lib)
{
    for (size_t i = 0; i < p->requests.n; i++) {
        const struct winldr_request *r = p->requests.items[i];
        if (r->outcome == WINLDR_REUSED && r->importer && is_below(r->importer->path, lib) &&
            winldr_name_is(r->name, "cudnn64_9.dll") && !is_below(r->path, lib)) {
            return r;
        }
    }
    return NULL;
}

/* CTranslate2 preloads its cudnn64_9.dll, which opens its parts by name; torch's libraries then get
 * this one by base name, and the parts are torch's. */
static void judge_cudnn(struct inspection *n)
{
    struct arena *a = n->arena;
    const char *lib = winldr_path_join(a, n->py->site, "torch\\lib");
    const struct winldr_process *p = import_two(n, "ctranslate2", "torch");
    const struct winldr_request *r = foreign_cudnn(p, lib);
    const struct winldr_module *part = winldr_find_module(p, "cudnn_graph64_9.dll");
    if (!r || !part || !is_below(part->path, lib)) {
        return;
    }
    const char *mine = version_text(a, r->module), *theirs = version_text(a, part);
    if (strcmp(mine, theirs) == 0) {
        return;
    }
    const struct winldr_process *other = import_two(n, "torch", "ctranslate2");
    VEC_PUSH(a, &n->findings,
             (struct finding){
                 "cudnn-mixed-versions", "warning",
                 "importing ctranslate2 before torch mixes two releases of cuDNN",
                 arena_printf(a,
                              "%s imports cudnn64_9.dll and gets %s (%s), which is loaded under "
                              "this name; its parts are those of torch: %s (%s)",
                              r->importer->path, r->path, mine, part->path, theirs),
                 foreign_cudnn(other, lib) ? NULL : "import torch before ctranslate2"});
}

static void inspect_environment(struct inspection *n)
{
    bool has_torch = winldr_has_package(n->files, n->py, "torch");
    for (const char *const *name = winldr_packages; *name; name++) {
        if (winldr_has_package(n->files, n->py, *name)) {
            struct winldr_process *p = winldr_python_start(n->files, n->py);
            winldr_import_package(p, n->py, *name);
            judge_import(n, p, *name);
        }
    }
    if (has_torch && winldr_has_package(n->files, n->py, "ctranslate2")) {
        judge_cudnn(n);
    }
}

/* ------------------------------------------------------------------ output */

static json_t *inspection_json(const struct inspection *n)
{
    struct arena *a = n->arena;
    json_t *findings = json_array(), *unknown = json_array(), *packages = json_array();
    for (size_t i = 0; i < n->findings.n; i++) {
        const struct finding *f = &n->findings.items[i];
        (void)json_array_append_new(findings,
                                    json_pack("{s:s,s:s,s:o,s:o,s:o}", "id", f->cause, "severity",
                                              f->severity, "title", out_json_text(a, f->title),
                                              "evidence", out_json_text(a, f->evidence), "repair",
                                              out_json_text(a, f->repair)));
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

static void print_inspection(const struct out *o, const struct inspection *n)
{
    struct arena *a = n->arena;
    fprintf(o->file, "%s (%s)\n", str_printable(a, n->py->folder), n->py->kind);
    for (size_t i = 0; i < n->findings.n; i++) {
        const struct finding *f = &n->findings.items[i];
        out_print(o, strcmp(f->severity, "error") == 0 ? OUT_RED : OUT_YELLOW, "  %s: %s  [%s]\n",
                  f->severity, str_printable(a, f->title), f->cause);
        fprintf(o->file, "    %s\n", str_printable(a, f->evidence));
        if (f->repair) {
            fprintf(o->file, "    repair: %s\n", f->repair);
        }
    }
    for (size_t i = 0; i < n->unknown.n; i++) {
        out_print(o, OUT_YELLOW, "  cannot tell: %s\n", str_printable(a, n->unknown.items[i]));
    }
}

static int print_all(const struct inspection *all, size_t n, bool json)
{
    bool broken = false;
    json_t *environments = json_array(), *rest = json_array();
    struct out out;
    out_init(&out, stdout);
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
        json_pack("{s:i,s:s,s:o,s:o}", "schema", 1, "verdict", broken ? "broken" : "unknown",
                  "environments", environments, "not_looked_at", rest);
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

/* A target as it was given: of Windows, or below the root. */
static const char *target_path(const struct winldr_files *files, struct arena *a, const char *path)
{
    const char *name = path && path[0] == '/' ? winldr_files_name(files, a, path) : NULL;
    return name ? name : path;
}

bool cli_windows_check(struct arena *a, struct root *root, const char *target, bool json,
                       const char *refused, int *ret_status)
{
    struct winldr_files files;
    struct winldr_drive drive = {'C', "/"};
    struct winldr_pythons pythons;
    winldr_files_open(&files, root, a, &drive, 1);
    const char *folder = target_path(&files, a, target);
    bool is_tree = winldr_is_tree(&files, folder);
    if (is_tree && refused) {
        *ret_status =
            cli_fail(CLI_CANNOT, "check: %s is not available for a Windows tree", refused);
    } else if (is_tree) {
        winldr_find_pythons(&files, folder, &pythons);
        struct inspection *all = arena_array(a, pythons.items.n + 1, sizeof *all);
        for (size_t i = 0; i < pythons.items.n; i++) {
            all[i] = (struct inspection){a, &files, &pythons.items.items[i], {0}, {0}};
            if (strcmp(all[i].py->kind, "Store") == 0) {
                VEC_PUSH(a, &all[i].unknown, "the search of a packaged process is not modelled");
            } else {
                inspect_environment(&all[i]);
            }
        }
        *ret_status = print_all(all, pythons.items.n, json);
    }
    winldr_files_close(&files);
    return is_tree;
}
