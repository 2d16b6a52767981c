/* Two releases of cuDNN in one process, by the order of the imports. */
#include <string.h>

#include "diag/windows_internal.h"
#include "winldr/package.h"
#include "winldr/path.h"
#include "winldr/syspath.h"

/* NULL: the file does not say its version. */
static const char *file_version(struct arena *a, const struct winldr_file *file)
{
    struct pe_version v = file ? pe_version_read(&file->image) : (struct pe_version){0};
    return v.found ? arena_printf(a, "%u.%u.%u.%u", v.file[0], v.file[1], v.file[2], v.file[3])
                   : NULL;
}

/* The release of the cuDNN beside a part: some parts (cudnn_graph64_9.dll of 9.28.0.42) do not say
 * it, and all files of a folder are of one wheel. */
static const char *release_beside(struct diag_windows *n, const struct winldr_module *part)
{
    static const char *const names[] = {"cudnn64_9.dll", "cudnn_ops64_9.dll", "cudnn_cnn64_9.dll"};
    const char *folder = winldr_path_folder(n->arena, part->path);
    const char *version = file_version(n->arena, part->file);
    for (size_t i = 0; !version && i < sizeof names / sizeof *names; i++) {
        const struct winldr_entry *e =
            winldr_files_get(n->files, winldr_path_join(n->arena, folder, names[i]));
        bool readable = e->kind == WINLDR_ENTRY_FILE && e->file->image.state == PE_STATE_OK;
        version = readable ? file_version(n->arena, e->file) : NULL;
    }
    return version;
}

/* The process after importing one package and then another. */
static struct winldr_process *import_two(struct diag_windows *n, const char *first,
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
        if (r->outcome == WINLDR_REUSED && r->importer &&
            winldr_path_is_below(r->importer->path, lib) &&
            winldr_name_is(r->name, "cudnn64_9.dll") && !winldr_path_is_below(r->path, lib)) {
            return r;
        }
    }
    return NULL;
}

/* CTranslate2 preloads its cudnn64_9.dll, which opens its parts by name; torch's libraries then get
 * this one by base name, and the parts are torch's. */
void diag_windows_judge_cudnn(struct diag_windows *n)
{
    struct arena *a = n->arena;
    const char *lib = winldr_python_path(n->files, n->py, "torch\\lib");
    const struct winldr_process *p = import_two(n, "ctranslate2", "torch");
    const struct winldr_request *r = foreign_cudnn(p, lib);
    const struct winldr_module *part = winldr_find_module(p, "cudnn_graph64_9.dll");
    if (!r || !part || !winldr_path_is_below(part->path, lib)) {
        return;
    }
    const char *mine = file_version(a, r->module->file), *theirs = release_beside(n, part);
    if (mine && theirs && strcmp(mine, theirs) == 0) {
        return;
    }
    if (!mine || !theirs) {
        VEC_PUSH(a, &n->unknown,
                 arena_printf(a,
                              "after an import of ctranslate2, %s gets %s, and the parts are those "
                              "of torch; %s does not say its version, so whether the two are of "
                              "one release is not known",
                              r->importer->path, r->path, mine ? part->path : r->path));
        return;
    }
    struct diag_windows_finding f = {
        .cause = "cudnn-mixed-versions",
        .severity = "warning",
        .title = "importing ctranslate2 before torch mixes two releases of cuDNN",
        .evidence = arena_printf(a,
                                 "%s imports cudnn64_9.dll and gets %s (%s), which is loaded under "
                                 "this name; its parts are those of torch: %s (%s)",
                                 r->importer->path, r->path, mine, part->path, theirs),
    };
    if (!foreign_cudnn(import_two(n, "torch", "ctranslate2"), lib)) {
        diag_windows_add_repair(
            n, &f,
            (struct diag_windows_repair){.says = "import torch before ctranslate2",
                                         .python = "import torch  # before ctranslate2",
                                         .is_inside = true});
    }
    VEC_PUSH(a, &n->findings, f);
}
