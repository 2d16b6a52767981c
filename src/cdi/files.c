/* The folders of CDI specifications: which file an engine reads, and which it passes over. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "cdi/files.h"
#include "cdi/judge.h"
#include "diag/finding.h"

enum {
    FILE_MAX = 4 << 20,
    FILES_MAX = 256,
};

/* The reference library's default folders; podman's, docker's and CRI-O's are the same. /run is
 * where /var/run leads to. */
const char *const cdi_folders[CDI_FOLDERS] = {"/etc/cdi", "/run/cdi", "/var/run/cdi"};

const char *cdi_fault_name(enum cdi_fault_kind kind)
{
    static const char *const names[] = {
        [CDI_UNREADABLE] = "unreadable",
        [CDI_REFUSED] = "refused",
        [CDI_TOO_NEW] = "too-new",
        [CDI_PATH_GONE] = "path-gone",
        [CDI_OTHER_DRIVER] = "other-driver",
        [CDI_GPU_LEFT_OUT] = "gpu-left-out",
        [CDI_NOT_FOR_ALL] = "not-for-all",
        [CDI_CONFLICT] = "conflict",
        [CDI_NOT_READ] = "not-read",
        [CDI_NOT_STARTED] = "not-started",
        [CDI_UNSEEN] = "unseen",
    };
    return names[kind];
}

/* False: it is not a mapping, or cannot be read; this is said. */
static bool read_document(struct judge *j)
{
    struct cdi_file *f = j->file;
    struct str text;
    const char *why = NULL;
    int rc = root_read(j->root, j->arena, f->path, FILE_MAX, &text);
    if (rc < 0) {
        cdi_judge_add_problem(j, CDI_UNREADABLE,
                              rc == -EACCES || rc == -EPERM || rc == -EFBIG ? CDI_OPEN : CDI_ERROR,
                              arena_printf(j->arena, "it cannot be read: %s", strerror(-rc)));
        return false;
    }
    f->ours = cdi_is_ours(text);
    f->document = cdi_parse(j->arena, text, &why);
    if (!json_is_object(f->document)) {
        cdi_judge_add_problem(j, CDI_UNREADABLE, why == cdi_too_large ? CDI_OPEN : CDI_ERROR,
                              why ? why : "it is not a mapping");
        json_decref(f->document);
        f->document = NULL;
        return false;
    }
    cdi_tidy(f->document);
    f->version = json_text(f->document, "cdiVersion");
    return true;
}

static void judge_read(struct judge *j)
{
    struct stat st;
    if (!read_document(j)) {
        return;
    }
    cdi_judge_document(j);
    if (root_stat(j->root, j->file->path, &st) == 0 && !(st.st_mode & 0004)) {
        cdi_judge_add_problem(j, CDI_NOT_FOR_ALL, CDI_WARNING,
                              arena_printf(j->arena,
                                           "its mode is %04o: engines of other users (rootless "
                                           "ones) cannot read it",
                                           (unsigned)st.st_mode & 07777));
    }
}

/* Engines read these two endings alone, in this spelling, and hidden files as well. */
static bool is_read(const char *name)
{
    return ends_with(name, ".json") || ends_with(name, ".yaml");
}

static bool is_spec_file(const char *name, void *arg)
{
    size_t n = strlen(name);
    (void)arg;
    return (n >= 4 && strcasecmp(name + n - 4, ".yml") == 0) ||
           (n >= 5 &&
            (strcasecmp(name + n - 5, ".yaml") == 0 || strcasecmp(name + n - 5, ".json") == 0));
}

/* Whether a specification that engines read is of this kind. */
static bool has_kind(const struct cdi_files *files, const char *kind)
{
    for (size_t i = 0; i < files->files.n; i++) {
        const struct cdi_file *f = &files->files.items[i];
        if (f->kind && strcmp(f->kind, kind) == 0 && is_read(f->path)) {
            return true;
        }
    }
    return false;
}

/* A specification of another ending; what is none is left out of the list. */
static void judge_unread(struct judge *j)
{
    struct cdi_file *f = j->file;
    bool is_spec = read_document(j) && json_object_get(f->document, "cdiVersion");
    f->problems.n = 0;
    if (!is_spec) {
        json_decref(f->document);
        j->files->files.n--;
        return;
    }
    cdi_fold(f->document);
    f->kind = json_text(f->document, "kind");
    f->n_devices = json_array_size(json_object_get(f->document, "devices"));
    cdi_judge_add_problem(
        j, CDI_NOT_READ, f->kind && has_kind(j->files, f->kind) ? CDI_WARNING : CDI_ERROR,
        "engines read only files that end in .yaml or .json: this one is passed over");
}

static bool shares_device(const struct cdi_file *f, const struct cdi_file *g, const char **ret)
{
    json_t *x, *y;
    size_t i, k;
    json_array_foreach(json_object_get(f->document, "devices"), i, x)
    {
        const char *name = json_text(x, "name");
        json_array_foreach(json_object_get(g->document, "devices"), k, y)
        {
            const char *other = json_text(y, "name");
            if (name && other && strcmp(name, other) == 0) {
                *ret = name;
                return true;
            }
        }
    }
    return false;
}

/* Whether engines that load it can be asked about its devices. */
static bool file_counts(const struct cdi_file *f)
{
    bool good = f->kind && is_read(f->path);
    for (size_t i = 0; i < f->problems.n; i++) {
        enum cdi_fault_kind kind = f->problems.items[i].kind;
        good &= kind != CDI_REFUSED && kind != CDI_TOO_NEW;
    }
    return good;
}

/* Two files of one folder that define the same device: engines resolve neither. */
static void judge_conflicts(struct judge *j)
{
    struct cdi_files *files = j->files;
    for (size_t i = 0; i < files->files.n; i++) {
        for (size_t k = i + 1; k < files->files.n; k++) {
            struct cdi_file *f = &files->files.items[i], *g = &files->files.items[k];
            const char *name = NULL;
            if (file_counts(f) && file_counts(g) && strcmp(f->kind, g->kind) == 0 &&
                strcmp(path_dir(j->arena, f->path), path_dir(j->arena, g->path)) == 0 &&
                shares_device(f, g, &name)) {
                j->file = g;
                cdi_judge_add_problem(j, CDI_CONFLICT, CDI_ERROR,
                                      arena_printf(j->arena,
                                                   "%s defines the device %s=%s as well: engines "
                                                   "resolve neither",
                                                   f->path, str_printable(j->arena, f->kind),
                                                   str_printable(j->arena, name)));
            }
        }
    }
}

static void judge_read_file(struct judge *j, const char *path, bool read)
{
    struct stat st;
    if (root_stat(j->root, path, &st) == 0 && S_ISDIR(st.st_mode)) {
        return; // engines pass over folders
    }
    VEC_PUSH(j->arena, &j->files->files, (struct cdi_file){.path = path});
    j->file = &j->files->files.items[j->files->files.n - 1];
    if (read) {
        judge_read(j);
    } else {
        judge_unread(j);
    }
}

/* A folder that is not there is none that matters, but for the one that was asked for. */
static void cannot_read(struct judge *j, const char *folder, int rc, bool asked)
{
    if (rc != -ENOENT || asked) {
        VEC_PUSH(j->arena, &j->files->unread,
                 arena_printf(j->arena, "%s cannot be read: %s", str_printable(j->arena, folder),
                              strerror(-rc)));
    }
}

static void read_folder(struct judge *j, const char *folder, bool asked)
{
    struct root_dir names;
    char *real;
    int rc = root_realpath(j->root, j->arena, folder, &real);
    for (size_t i = 0; rc == 0 && i < j->files->folders.n; i++) {
        if (strcmp(j->files->folders.items[i], real) == 0) {
            return; // /var/run leads to /run
        }
    }
    rc = rc == 0 ? root_list(j->root, j->arena, real, FILES_MAX,
                             &(struct root_filter){.keep = is_spec_file}, &names)
                 : rc;
    if (rc < 0) {
        cannot_read(j, folder, rc, asked);
        return;
    }
    VEC_PUSH(j->arena, &j->files->folders, real);
    if (names.truncated) {
        VEC_PUSH(j->arena, &j->files->unread,
                 arena_printf(j->arena,
                              "%s has more than %d specifications: the others were not read",
                              str_printable(j->arena, folder), FILES_MAX));
    }
    for (unsigned pass = 0; pass < 2; pass++) { // those that engines read first
        for (size_t i = 0; i < names.n; i++) {
            if (is_read(names.names[i]) == (pass == 0)) {
                judge_read_file(j, path_join(j->arena, real, names.names[i]), pass == 0);
            }
        }
    }
}

static bool has_problem(const struct cdi_file *f, enum cdi_fault_kind kind)
{
    for (size_t i = 0; i < f->problems.n; i++) {
        if (f->problems.items[i].kind == kind) {
            return true;
        }
    }
    return false;
}

/* A Jetson's files are listed by JetPack, where nvidia-ctk's csv mode reads them. */
static const char *nvidia_command(struct judge *j, const char *path)
{
    return arena_printf(j->arena, "sudo nvidia-ctk cdi generate %s--output=%s",
                        j->host->tegra.is_tegra.state == HOST_YES ? "--mode=csv " : "", path);
}

/* What mends a file's errors. */
static void set_step(struct judge *j, struct cdi_file *f)
{
    const char *path = diag_shell_word(j->arena, f->path), *folder = path_dir(j->arena, f->path);
    if (has_problem(f, CDI_NOT_READ)) {
        size_t dot = strlen(f->path) - strlen(strrchr(f->path, '.'));
        const char *stem = arena_strndup(j->arena, f->path, dot);
        const char *name = arena_printf(j->arena, "%s.yaml", stem);
        f->step = "rename it";
        f->command = arena_printf(j->arena, "sudo mv %s %s", path, diag_shell_word(j->arena, name));
    } else if (has_problem(f, CDI_CONFLICT)) {
        f->step = "remove one of the two files";
    } else if (f->ours) {
        f->step = "write it again";
        f->command =
            strcmp(folder, cdi_folders[0]) == 0
                ? "sudo gpumend container cdi --refresh"
                : arena_printf(j->arena, "sudo gpumend container cdi --refresh --folder %s",
                               diag_shell_word(j->arena, folder));
    } else {
        f->step = "write it again with the program that made it, as after each update of the "
                  "driver";
        f->command =
            cdi_kind_vendor(f->kind ? f->kind : "") == HOST_NVIDIA ? nvidia_command(j, path) : NULL;
    }
}

void cdi_files_read(struct root *r, struct arena *a, const struct host *h, const char *folder,
                    bool engine, struct cdi_files *ret)
{
    struct judge j = {.root = r, .arena = a, .host = h, .files = ret, .engine = engine};
    *ret = (struct cdi_files){0};
    for (size_t i = 0; i < CDI_FOLDERS && !folder; i++) {
        read_folder(&j, cdi_folders[i], false);
    }
    if (folder) {
        read_folder(&j, folder, true);
    }
    ret->looked_in =
        folder ? folder
               : arena_printf(a, "%s, %s or %s", cdi_folders[0], cdi_folders[1], cdi_folders[2]);
    judge_conflicts(&j);
    for (size_t i = 0; i < ret->files.n; i++) {
        set_step(&j, &ret->files.items[i]);
    }
}

void cdi_files_release(struct cdi_files *f)
{
    for (size_t i = 0; i < f->files.n; i++) {
        json_decref(f->files.items[i].document);
        f->files.items[i].document = NULL;
    }
}

void cdi_files_note(struct root *r, struct arena *a, struct host *h)
{
    struct cdi_files files;
    if (h->container.inside.state != HOST_NO) {
        return;
    }
    cdi_files_read(r, a, h, NULL, false, &files);
    for (size_t i = 0; i < files.files.n; i++) {
        const struct cdi_file *f = &files.files.items[i];
        bool gpus = f->kind ? cdi_kind_vendor(f->kind) != HOST_OTHER : h->gpus.n > 0;
        if (file_counts(f) && cdi_kind_vendor(f->kind) == HOST_NVIDIA) {
            cdi_note_injected(r, a, f, h);
        }
        for (size_t k = 0; k < f->problems.n && gpus; k++) {
            if (f->problems.items[k].severity == CDI_ERROR) {
                VEC_PUSH(a, &h->problems,
                         (struct host_problem){
                             .id = "cdi",
                             .state = HOST_NO,
                             .culprit = f->path,
                             .text = arena_printf(a, "%s: %s", f->path, f->problems.items[k].text),
                             .step = f->step,
                             .command = f->command});
            }
        }
    }
    cdi_files_release(&files);
}
