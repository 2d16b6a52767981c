#include "cli/windows.h"

#include <stdlib.h>
#include <string.h>

#include "cli/html.h"
#include "report/windows.h"
#include "report/windows_check.h"
#include "winldr/package.h"
#include "winldr/path.h"
#include "winldr/python.h"

static bool ends_in(const char *name, const char *suffix)
{
    size_t n = name ? strlen(name) : 0, m = strlen(suffix);
    return n >= m && winldr_name_is(name + n - m, suffix);
}

/* "NAME@0x1100": the flags behind the last '@', which are a hexadecimal number. Without them a path
 * is made full first, as ctypes does (Lib/ctypes/__init__.py). */
static const char *split_flags(struct arena *a, const char *text, const char *cwd,
                               unsigned *ret_flags)
{
    const char *at = strrchr(text, '@');
    char *end = NULL;
    unsigned long flags = at && at[1] ? strtoul(at + 1, &end, 16) : 0;
    if (at && end && !*end && flags <= UINT32_MAX) {
        *ret_flags = (unsigned)flags;
        return arena_strndup(a, text, (size_t)(at - text));
    }
    /* What Python does: ctypes and imports, by a path or a bare name. */
    bool is_path = winldr_path_has_folder(text);
    *ret_flags = WINLDR_DEFAULT_DIRS | (is_path ? WINLDR_DLL_LOAD_DIR : 0);
    return is_path ? winldr_path_full(a, cwd, text) : text;
}

bool cli_windows_is_asked(const char *name, const char *exe)
{
    struct arena a;
    unsigned flags;
    arena_init(&a, 0, NULL, NULL);
    const char *plain = name ? split_flags(&a, name, "C:\\", &flags) : NULL;
    bool asked = ends_in(plain, ".dll") || ends_in(plain, ".pyd") || ends_in(exe, ".exe");
    arena_release(&a);
    return asked;
}

/* A path as it was given: of Windows, or below the root. */
static const char *windows_path(const struct winldr_files *files, struct arena *a, const char *path)
{
    const char *name = path[0] == '/' ? winldr_files_name(files, a, path) : NULL;
    return name ? name : path;
}

struct asked {
    const struct cli_windows_why *why;
    struct winldr_files files;
};

static struct winldr_process *run_loads(struct asked *q, unsigned default_flags)
{
    const struct cli_windows_why *w = q->why;
    struct winldr_config config = {
        .exe = w->exe ? windows_path(&q->files, w->arena, w->exe) : "C:\\python.exe",
        .cwd = w->cwd ? windows_path(&q->files, w->arena, w->cwd) : "C:\\",
        .path = w->path,
        .default_flags = default_flags,
    };
    config.exe = winldr_python_behind(&q->files, config.exe);
    if (winldr_package_has(config.exe)) {
        winldr_package_set(&q->files, config.exe, &config);
    }
    struct winldr_process *p = winldr_process_new(&q->files, w->arena, &config);
    for (size_t i = 0; i < w->n_loads + (w->name != NULL); i++) {
        const char *text = i < w->n_loads ? w->loads[i] : w->name;
        unsigned flags = 0;
        if (strncmp(text, "dir:", 4) == 0) {
            (void)winldr_add_directory(p, windows_path(&q->files, w->arena, text + 4));
            continue; // a relative one is refused by Windows as well
        }
        const char *name =
            split_flags(w->arena, windows_path(&q->files, w->arena, text), config.cwd, &flags);
        (void)winldr_load(p, name, flags); // kept in p->loads
    }
    return p;
}

/* Whether two models gave every load the same result, and loaded the same modules. */
static bool processes_are_same(const struct winldr_process *x, const struct winldr_process *y)
{
    for (size_t i = 0; i < x->loads.n; i++) {
        const struct winldr_load *a = &x->loads.items[i], *b = &y->loads.items[i];
        const char *path_a = a->module ? a->module->path : "",
                   *path_b = b->module ? b->module->path : "";
        if (a->outcome != b->outcome || a->code != b->code || strcmp(path_a, path_b) != 0) {
            return false;
        }
    }
    bool same = x->modules.n == y->modules.n;
    for (size_t i = 0; same && i < x->modules.n; i++) {
        same = strcmp(x->modules.items[i]->path, y->modules.items[i]->path) == 0;
    }
    return same;
}

static int windows_status(const struct winldr_process *p)
{
    int status = CLI_OK;
    for (size_t i = 0; i < p->loads.n; i++) {
        enum winldr_outcome outcome = p->loads.items[i].outcome;
        status = outcome == WINLDR_FAILED                        ? CLI_FINDINGS
                 : outcome == WINLDR_UNKNOWN && status == CLI_OK ? CLI_CANNOT
                                                                 : status;
    }
    return status;
}

static void print_process(const struct out *o, const struct winldr_process *p)
{
    for (size_t i = 0; i < p->loads.n; i++) {
        report_windows_load(o, p, &p->loads.items[i]);
    }
}

static json_t *why_document(const struct winldr_process *plain, const struct winldr_process *strict,
                            bool same)
{
    json_t *models = json_array();
    (void)json_array_append_new(models, report_windows_json(plain));
    if (!same) {
        (void)json_array_append_new(models, report_windows_json(strict));
    }
    return json_pack("{s:i,s:o}", "schema", 1, "windows", models);
}

/* Whether a process calls SetDefaultDllDirectories() cannot be seen in files: both are tried. */
int cli_windows_why(const struct cli_windows_why *w)
{
    struct asked q = {.why = w};
    winldr_files_open_root(&q.files, w->root, w->arena);
    struct winldr_process *plain = run_loads(&q, 0);
    struct winldr_process *strict = run_loads(&q, WINLDR_DEFAULT_DIRS);
    bool same = processes_are_same(plain, strict);
    int rc = CLI_OK;
    if (w->html) {
        const struct winldr_process *const models[] = {plain, strict};
        rc = cli_html_write(
            "why", w->html, w->arena,
            report_html_windows_why(models, same ? 1 : 2, why_document(plain, strict, same)));
    } else if (w->json) {
        rc = out_json_dump(stdout, why_document(plain, strict, same)) < 0
                 ? cli_fail(CLI_CANNOT, "cannot write the output")
                 : CLI_OK;
    } else {
        struct out out;
        out_init(&out, stdout);
        if (!same) {
            fprintf(out.file, "If the program does not call SetDefaultDllDirectories():\n");
        }
        print_process(&out, plain);
        if (!same) {
            fprintf(out.file, "\nIf it calls SetDefaultDllDirectories(0x1000):\n");
            print_process(&out, strict);
        }
    }
    int status = rc != CLI_OK ? rc : same ? windows_status(plain) : CLI_CANNOT;
    winldr_files_close(&q.files);
    return status;
}
