#include "winldr/pathfinder.h"

#include <string.h>

#include "winldr/path.h"
#include "winldr/script.h"
#include "winldr/syspath.h"

enum { DLLS = 3, ANCHORS = 2 };

struct library {
    const char *name;
    const char *dlls[DLLS]; // newest first
    const char *wheel_12;   // below site-packages
    const char *anchors[ANCHORS];
    bool adds_folder;
    bool has_canary;
    bool checks_machine; // from 1.7 on a DLL for another processor is passed over
};

static const struct library libraries[] = {
    {"cudart",
     {"cudart64_13.dll", "cudart64_12.dll"},
     "nvidia\\cuda_runtime\\bin",
     {"bin\\x64", "bin"},
     false,
     false,
     false},
    {"nvrtc",
     {"nvrtc64_130_0.dll", "nvrtc64_120_0.dll"},
     "nvidia\\cuda_nvrtc\\bin",
     {"bin\\x64", "bin"},
     true,
     false,
     false},
    {"nvJitLink",
     {"nvJitLink_130_0.dll", "nvJitLink_120_0.dll"},
     "nvidia\\nvjitlink\\bin",
     {"bin\\x64", "bin"},
     false,
     false,
     false},
    {"nvvm",
     {"nvvm70.dll", "nvvm64_40_0.dll", "nvvm64.dll"},
     "nvidia\\cuda_nvcc\\nvvm\\bin",
     {"nvvm\\bin\\x64", "nvvm\\bin"},
     false,
     true,
     true},
};

struct finder {
    struct winldr_process *process;
    const struct winldr_python *py;
    const struct library *library;
    uint64_t release; // 1.9.1: 109
    struct winldr_pathfinder answer;
};

/* By the line "__version__ = version = '1.9.1'"; earlier lines have the name without a value. 0:
 * there is no such line. */
static uint64_t release_of(struct winldr_files *f, const struct winldr_python *py)
{
    struct str text, line;
    const char *path = winldr_python_path(f, py, "cuda\\pathfinder\\_version.py");
    if (!winldr_read_text(f, path, &text)) {
        return 0;
    }
    while (str_line(&text, &line)) {
        uint64_t major = 0, minor = 0;
        if (!str_starts(line, "__version__ =")) {
            continue;
        }
        while (line.n && *line.s != '\'' && *line.s != '"') {
            line = (struct str){line.s + 1, line.n - 1};
        }
        line = line.n ? (struct str){line.s + 1, line.n - 1} : line;
        bool good =
            str_u64(str_cut(&line, '.'), &major) && line.s && str_u64(str_cut(&line, '.'), &minor);
        return good && minor < 100 ? major * 100 + minor : 0;
    }
    return 0;
}

static bool is_usable(struct finder *q, const char *path)
{
    const struct winldr_entry *e = winldr_files_get(q->process->files, path);
    bool checks = q->library->checks_machine && q->release >= 107;
    return e->kind == WINLDR_ENTRY_FILE &&
           (!checks || (e->file->image.state == PE_STATE_OK &&
                        e->file->image.machine == q->process->config.machine));
}

/* The DLL of a folder, or NULL. */
static const char *file_in(struct finder *q, const char *folder)
{
    struct winldr_files *f = q->process->files;
    const char *looked = q->answer.looked;
    q->answer.looked = looked ? arena_printf(f->arena, "%s, %s", looked, folder) : folder;
    for (size_t i = 0; i < DLLS; i++) {
        const char *name = q->library->dlls[q->release < 107 ? DLLS - 1 - i : i];
        const char *path = name ? winldr_below(f, folder, name) : NULL;
        if (path && is_usable(q, path)) {
            return path;
        }
    }
    return NULL;
}

/* Below a toolkit's folder, or that of conda; NULL for one that is not known. */
static const char *file_below(struct finder *q, const char *toolkit)
{
    struct winldr_files *f = q->process->files;
    for (size_t i = 0; toolkit && i < ANCHORS; i++) {
        const char *folder = winldr_below(f, toolkit, q->library->anchors[i]);
        if (winldr_is_folder(f, folder)) {
            const char *path = file_in(q, folder);
            if (path || q->release < 107) {
                return path;
            }
        }
    }
    return NULL;
}

static const char *find_early(struct finder *q)
{
    struct winldr_files *f = q->process->files;
    const char *const wheels[] = {"nvidia\\cu13\\bin\\x86_64", q->library->wheel_12};
    for (size_t i = 0; i < sizeof wheels / sizeof *wheels; i++) {
        const char *path = file_in(q, winldr_python_path(f, q->py, wheels[i]));
        if (path) {
            return path;
        }
    }
    const char *conda = q->py->variables[WINLDR_VARIABLE_CONDA_PREFIX];
    conda = !conda && strcmp(q->py->kind, "conda") == 0 ? q->py->folder : conda;
    return conda && q->release >= 103 ? file_below(q, winldr_below(f, conda, "Library")) : NULL;
}

static const char *find_late(struct finder *q)
{
    const char *home = q->py->variables[WINLDR_VARIABLE_CUDA_HOME], *path = q->py->cuda_path;
    const char *first = q->release < 105 ? home : path, *second = q->release < 105 ? path : home;
    return file_below(q, first && *first ? first : second);
}

/* By a plain call of LoadLibraryExW(); NULL: it has none. */
static const struct winldr_module *load_by_name(struct finder *q, struct winldr_process *p,
                                                const struct library *library)
{
    for (size_t i = 0; i < DLLS && library->dlls[i]; i++) {
        const struct winldr_load *l = winldr_load(p, library->dlls[i], 0);
        q->answer.is_unsure |= l->outcome == WINLDR_UNKNOWN;
        if (winldr_is_loaded(l)) {
            return l->module;
        }
        if (q->answer.is_unsure) {
            break;
        }
    }
    return NULL;
}

/* The toolkit that a plain call's cudart is of, "TOOLKIT\\bin\\x64\\cudart64_13.dll". */
static const char *find_by_canary(struct finder *q)
{
    struct arena *a = q->process->files->arena;
    struct winldr_process *child = winldr_python_start(q->process->files, q->py);
    const struct winldr_module *m = load_by_name(q, child, &libraries[0]);
    const char *folder = m ? winldr_path_folder(a, m->path) : "";
    if (winldr_name_is(winldr_path_base(folder), "x64")) {
        folder = winldr_path_folder(a, folder);
    }
    return winldr_name_is(winldr_path_base(folder), "bin")
               ? file_below(q, winldr_path_folder(a, folder))
               : NULL;
}

static void load_path(struct finder *q, const char *path)
{
    struct winldr_process *p = q->process;
    const char *folder = winldr_path_folder(p->files->arena, path);
    if (q->library->adds_folder) {
        (void)winldr_add_directory(p, folder); // the file is in it
        if (p->config.path) {
            winldr_set_path(p, arena_printf(p->arena, "%s;%s", p->config.path, folder));
        }
    }
    const struct winldr_load *l = winldr_load(p, path, WINLDR_IMPORT_FLAGS);
    q->answer.found = path;
    q->answer.module = winldr_is_loaded(l) ? l->module : NULL;
    q->answer.is_unsure = l->outcome == WINLDR_UNKNOWN;
}

static void find_library(struct finder *q)
{
    struct winldr_process *p = q->process;
    const char *early = find_early(q);
    for (size_t i = 0; i < DLLS && q->library->dlls[i]; i++) {
        q->answer.module = winldr_find_module(p, q->library->dlls[i]);
        if (q->answer.module) {
            return;
        }
    }
    if (early) {
        load_path(q, early);
        return;
    }
    q->answer.module = load_by_name(q, p, q->library);
    if (q->answer.module || q->answer.is_unsure) {
        return;
    }
    const char *late = find_late(q);
    late = !late && q->library->has_canary && q->release >= 104 ? find_by_canary(q) : late;
    if (late && !q->answer.is_unsure) {
        load_path(q, late);
    }
}

struct winldr_pathfinder winldr_pathfinder_load(struct winldr_process *p,
                                                const struct winldr_python *py, const char *library)
{
    struct finder q = {.process = p, .py = py, .release = release_of(p->files, py)};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        if (strcmp(libraries[i].name, library) == 0) {
            q.library = &libraries[i];
        }
    }
    if (q.release < 102) {
        p->cut = "cuda.pathfinder is not there, or of a release (before 1.2) whose search is not "
                 "modelled";
        q.answer.is_unsure = true;
    } else if (q.library) {
        find_library(&q);
    }
    return q.answer;
}
