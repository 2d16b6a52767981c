#include "container/cdi_files.h"

#include <errno.h>
#include <string.h>

#include "kb/kb.h"

enum { FILE_MAX = 4 << 20, FILES_MAX = 256, STATUS_MAX = 64 << 20 };

/* The reference library's default folders; podman's, docker's and CRI-O's are the same. /run is
 * where /var/run leads to. */
const char *const cdi_folders[CDI_FOLDERS] = {"/etc/cdi", "/run/cdi", "/var/run/cdi"};

const char *cdi_fault_name(enum cdi_fault_kind kind)
{
    static const char *const names[] = {
        [CDI_UNREADABLE] = "unreadable",     [CDI_REFUSED] = "refused",
        [CDI_TOO_NEW] = "too-new",           [CDI_PATH_GONE] = "path-gone",
        [CDI_OTHER_DRIVER] = "other-driver", [CDI_GPU_LEFT_OUT] = "gpu-left-out",
        [CDI_NOT_FOR_ALL] = "not-for-all",   [CDI_CONFLICT] = "conflict",
    };
    return names[kind];
}

struct judge {
    struct root *root;
    struct arena *arena;
    const struct host *host;
    struct cdi_files *files;
    struct cdi_file *file; // in hand
};

static void add_problem(struct judge *j, enum cdi_fault_kind kind, bool is_error, const char *text)
{
    VEC_PUSH(j->arena, &j->file->problems, (struct cdi_problem){kind, is_error, text});
}

/* ------------------------------------------------------------------ engines */

/* "4.3.1+ds1-8+deb12u1" -> "4.3.1" */
static const char *release_of(struct arena *a, struct str version)
{
    size_t colon = str_find_char(version, ':');
    if (colon < version.n) {
        (void)str_cut(&version, ':'); // an epoch
    }
    size_t n = 0;
    while (n < version.n && strchr("0123456789.", version.s[n])) {
        n++;
    }
    return arena_strndup(a, version.s, n);
}

/* The release of a package that dpkg has installed, or NULL. */
static const char *installed(struct judge *j, struct str status, const char *package)
{
    const char *start = arena_printf(j->arena, "Package: %s\n", package);
    bool is_first = str_starts(status, start);
    size_t at = is_first ? 0 : str_find(status, arena_printf(j->arena, "\n%s", start)) + 1;
    struct str line, rest;
    if (at >= status.n) {
        return NULL;
    }
    rest = (struct str){status.s + at, status.n - at};
    while (str_line(&rest, &line) && line.n) {
        struct str key = str_cut(&line, ':');
        if (str_is(key, "Status") && !str_ends(str_trim(line), " installed")) {
            return NULL;
        }
        if (str_is(key, "Version")) {
            return release_of(j->arena, str_trim(line));
        }
    }
    return NULL;
}

/* The installed engine that loads the least. Systems without dpkg: not known. */
static void find_engine(struct judge *j)
{
    static const char *const packages[] = {"podman", "containerd"};
    struct gm_err err;
    struct kb_engines engines;
    struct str status;
    struct kb kb;
    if (kb_open(&kb, j->arena, j->root, NULL, &err) < 0 || kb_engines(&kb, &engines, &err) < 0 ||
        root_read(j->root, j->arena, "/var/lib/dpkg/status", STATUS_MAX, &status) < 0) {
        return;
    }
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
        const char *release = installed(j, status, packages[i]), *max = NULL;
        for (size_t k = 0; release && k < engines.n; k++) {
            const struct kb_engine *e = &engines.rows[k];
            if (strcmp(e->engine, packages[i]) == 0 && host_version_cmp(e->from, release) <= 0 &&
                (!max || host_version_cmp(e->cdi, max) > 0)) {
                max = e->cdi;
            }
        }
        struct cdi_files *f = j->files;
        if (max && (!f->engine_max || host_version_cmp(max, f->engine_max) < 0)) {
            f->engine = arena_printf(j->arena, "%s %s", packages[i], release);
            f->engine_max = max;
        }
    }
}

/* ------------------------------------------------------------------ paths */

/* Calls `visit` for the edits of the document and of each device. */
static void each_edits(struct judge *j, void (*visit)(struct judge *, json_t *edits, void *),
                       void *arg)
{
    json_t *device;
    size_t i;
    visit(j, json_object_get(j->file->document, "containerEdits"), arg);
    json_array_foreach(json_object_get(j->file->document, "devices"), i, device)
    {
        visit(j, json_object_get(device, "containerEdits"), arg);
    }
}

/* Calls `visit` for each path of the host that the edits name. */
struct paths {
    void (*visit)(struct judge *, const char *path, const char *what, void *arg);
    void *arg;
};

static void visit_paths(struct judge *j, json_t *edits, void *arg)
{
    static const struct {
        const char *list, *key, *else_key, *what;
    } kinds[] = {
        {"deviceNodes", "hostPath", "path", "device node"},
        {"mounts", "hostPath", NULL, "file"},
        {"hooks", "path", NULL, "hook"},
    };
    const struct paths *p = arg;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        json_t *item;
        size_t k;
        json_array_foreach(json_object_get(edits, kinds[i].list), k, item)
        {
            const char *path = json_string_value(json_object_get(item, kinds[i].key));
            if (!path && kinds[i].else_key) {
                path = json_string_value(json_object_get(item, kinds[i].else_key));
            }
            if (path && *path == '/') {
                p->visit(j, path, kinds[i].what, p->arg);
            }
        }
    }
}

struct gone {
    size_t n;
    const char *first, *what;
};

static void note_gone(struct judge *j, const char *path, const char *what, void *arg)
{
    struct gone *g = arg;
    struct stat st;
    int rc = root_lstat(j->root, path, &st);
    /* Captured trees state their device nodes apart (host/host.h): those are asked of the host. */
    bool is_node = starts_with(path, "/dev/");
    if (rc == -ENOENT && !(is_node && !j->root->is_host)) {
        g->first = g->n++ ? g->first : path;
        g->what = g->n == 1 ? what : g->what;
    }
}

/* "libcuda.so.550.90.07" -> "550.90.07" */
static void note_driver(struct judge *j, const char *path, const char *what, void *arg)
{
    static const char name[] = "libcuda.so.";
    const char **version = arg, *base = path_base(path);
    (void)j;
    (void)what;
    if (starts_with(base, name) && strchr(base + sizeof name - 1, '.')) {
        *version = base + sizeof name - 1;
    }
}

struct wanted {
    const char *path;
    bool found;
};

static void note_wanted(struct judge *j, const char *path, const char *what, void *arg)
{
    struct wanted *w = arg;
    (void)j;
    (void)what;
    w->found |= strcmp(path, w->path) == 0;
}

static void each_path(struct judge *j,
                      void (*visit)(struct judge *, const char *, const char *, void *), void *arg)
{
    struct paths p = {visit, arg};
    each_edits(j, visit_paths, &p);
}

/* ------------------------------------------------------------------ judging */

static enum host_vendor vendor_of(const char *kind)
{
    return strcmp(kind, "nvidia.com/gpu") == 0  ? HOST_NVIDIA
           : strcmp(kind, "amd.com/gpu") == 0   ? HOST_AMD
           : strcmp(kind, "intel.com/gpu") == 0 ? HOST_INTEL
                                                : HOST_OTHER;
}

/* GPUs, partitions of AMD's and MIG instances of NVIDIA's that are here and not in the file. */
static void judge_coverage(struct judge *j)
{
    struct cdi_specs now;
    enum host_vendor vendor = vendor_of(j->file->kind);
    cdi_build(j->root, j->arena, j->host, CDI_FOR_ENGINES, &now);
    for (size_t i = 0; i < now.specs.n && vendor != HOST_OTHER; i++) {
        json_t *device, *node;
        size_t k, n, missing = 0;
        const char *first = NULL;
        if (strcmp(now.specs.items[i].kind, j->file->kind) != 0) {
            continue;
        }
        json_array_foreach(json_object_get(now.specs.items[i].document, "devices"), k, device)
        {
            json_t *nodes =
                json_object_get(json_object_get(device, "containerEdits"), "deviceNodes");
            if (strcmp(json_string_value(json_object_get(device, "name")), "all") != 0) {
                continue;
            }
            json_array_foreach(nodes, n, node)
            {
                struct wanted w = {json_string_value(json_object_get(node, "path")), false};
                bool draws = vendor == HOST_NVIDIA && starts_with(w.path, "/dev/dri/");
                each_path(j, note_wanted, &w);
                if (!w.found && !draws) {
                    first = missing++ ? first : arena_strdup(j->arena, w.path);
                }
            }
        }
        if (missing) {
            add_problem(j, CDI_GPU_LEFT_OUT, false,
                        arena_printf(j->arena,
                                     missing == 1 ? "%s is here and not in it"
                                                  : "%s and %zu more nodes are here and "
                                                    "not in it",
                                     first, missing - 1));
        }
    }
    cdi_specs_release(&now);
}

static void judge_driver(struct judge *j)
{
    const char *version = NULL;
    const struct host_fact *module = &j->host->nvidia.module;
    each_path(j, note_driver, &version);
    if (version && module->state == HOST_YES && module->value &&
        host_version_cmp(version, module->value) != 0) {
        add_problem(j, CDI_OTHER_DRIVER, true,
                    arena_printf(j->arena,
                                 "it was made for driver %s, and the loaded module is of "
                                 "%s",
                                 str_printable(j->arena, version), module->value));
    }
}

static void judge_document(struct judge *j)
{
    struct cdi_file *f = j->file;
    struct gone gone = {0};
    const char *fault = cdi_fault(j->arena, f->document);
    if (fault) {
        add_problem(j, CDI_REFUSED, true, fault);
    } else if (j->files->engine_max && host_version_cmp(f->version, j->files->engine_max) > 0) {
        add_problem(j, CDI_TOO_NEW, true,
                    arena_printf(j->arena,
                                 "it is of version %s, and %s loads specifications up to "
                                 "%s: it passes over this file, and its devices cannot be resolved",
                                 f->version, j->files->engine, j->files->engine_max));
    }
    each_path(j, note_gone, &gone);
    if (gone.n) {
        add_problem(j, CDI_PATH_GONE, true,
                    gone.n == 1
                        ? arena_printf(j->arena, "the %s %s is not here", gone.what,
                                       str_printable(j->arena, gone.first))
                        : arena_printf(j->arena, "the %s %s and %zu more paths are not here",
                                       gone.what, str_printable(j->arena, gone.first), gone.n - 1));
    }
    judge_driver(j);
    if (f->kind) {
        judge_coverage(j);
    }
}

static void read_document(struct judge *j)
{
    struct cdi_file *f = j->file;
    struct str text;
    const char *why = NULL;
    struct stat st;
    int rc = root_read(j->root, j->arena, f->path, FILE_MAX, &text);
    if (rc < 0) {
        add_problem(j, CDI_UNREADABLE, true,
                    arena_printf(j->arena, "it cannot be read: %s", strerror(-rc)));
        return;
    }
    f->ours = cdi_is_ours(text);
    f->document = cdi_parse(j->arena, text, &why);
    if (!f->document || !json_is_object(f->document)) {
        add_problem(j, CDI_UNREADABLE, true, why ? why : "it is no mapping");
        json_decref(f->document);
        f->document = NULL;
        return;
    }
    f->kind = json_string_value(json_object_get(f->document, "kind"));
    f->version = json_string_value(json_object_get(f->document, "cdiVersion"));
    f->n_devices = json_array_size(json_object_get(f->document, "devices"));
    judge_document(j);
    if (root_stat(j->root, f->path, &st) == 0 && !(st.st_mode & 0004)) {
        add_problem(j, CDI_NOT_FOR_ALL, false,
                    arena_printf(j->arena,
                                 "its mode is %04o: engines of other users (rootless "
                                 "ones) cannot read it",
                                 (unsigned)st.st_mode & 07777));
    }
}

static bool is_spec_file(const char *name, void *arg)
{
    (void)arg;
    return name[0] != '.' &&
           (ends_with(name, ".json") || ends_with(name, ".yaml") || ends_with(name, ".yml"));
}

static bool shares_device(const struct cdi_file *f, const struct cdi_file *g, const char **ret)
{
    json_t *x, *y;
    size_t i, k;
    json_array_foreach(json_object_get(f->document, "devices"), i, x)
    {
        const char *name = json_string_value(json_object_get(x, "name"));
        json_array_foreach(json_object_get(g->document, "devices"), k, y)
        {
            const char *other = json_string_value(json_object_get(y, "name"));
            if (name && other && strcmp(name, other) == 0) {
                *ret = name;
                return true;
            }
        }
    }
    return false;
}

/* Two files of one folder that define the same device: engines resolve neither. */
static void judge_conflicts(struct judge *j)
{
    struct cdi_files *files = j->files;
    for (size_t i = 0; i < files->files.n; i++) {
        for (size_t k = i + 1; k < files->files.n; k++) {
            struct cdi_file *f = &files->files.items[i], *g = &files->files.items[k];
            const char *name = NULL;
            if (f->kind && g->kind && strcmp(f->kind, g->kind) == 0 &&
                strcmp(path_dir(j->arena, f->path), path_dir(j->arena, g->path)) == 0 &&
                shares_device(f, g, &name)) {
                j->file = g;
                add_problem(j, CDI_CONFLICT, true,
                            arena_printf(j->arena,
                                         "%s defines the device %s=%s as well: engines "
                                         "resolve neither",
                                         f->path, f->kind, str_printable(j->arena, name)));
            }
        }
    }
}

static void read_folder(struct judge *j, const char *folder, const char *const *seen, size_t n)
{
    struct root_dir names;
    char *real;
    if (root_realpath(j->root, j->arena, folder, &real) < 0) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (seen[i] && strcmp(seen[i], real) == 0) {
            return; // /var/run leads to /run
        }
    }
    if (root_list(j->root, j->arena, real, FILES_MAX, is_spec_file, NULL, &names) < 0) {
        return;
    }
    VEC_PUSH(j->arena, &j->files->folders, real);
    for (size_t i = 0; i < names.n; i++) {
        VEC_PUSH(j->arena, &j->files->files,
                 (struct cdi_file){.path = path_join(j->arena, real, names.names[i])});
        j->file = &j->files->files.items[j->files->files.n - 1];
        read_document(j);
    }
}

void cdi_files_read(struct root *r, struct arena *a, const struct host *h, bool engine,
                    struct cdi_files *ret)
{
    struct judge j = {r, a, h, ret, NULL};
    *ret = (struct cdi_files){0};
    if (engine) {
        find_engine(&j);
    }
    for (size_t i = 0; i < CDI_FOLDERS; i++) {
        read_folder(&j, cdi_folders[i], ret->folders.items, ret->folders.n);
    }
    judge_conflicts(&j);
}

void cdi_files_release(struct cdi_files *f)
{
    for (size_t i = 0; i < f->files.n; i++) {
        json_decref(f->files.items[i].document);
        f->files.items[i].document = NULL;
    }
}

static const char *step_of(struct arena *a, const struct cdi_file *f, const char **ret_command)
{
    bool nvidia = vendor_of(f->kind ? f->kind : "") == HOST_NVIDIA;
    *ret_command = f->ours   ? "sudo gpumend container cdi --refresh"
                   : nvidia ? arena_printf(a, "sudo nvidia-ctk cdi generate --output=%s",
                                           str_printable(a, f->path))
                            : NULL;
    return f->ours ? "write it again"
                   : "write it again with the program that made it, as after each update of the "
                     "driver";
}

void cdi_files_note(struct root *r, struct arena *a, struct host *h)
{
    struct cdi_files files;
    if (h->container.inside.state != HOST_NO) {
        return;
    }
    cdi_files_read(r, a, h, false, &files);
    for (size_t i = 0; i < files.files.n; i++) {
        const struct cdi_file *f = &files.files.items[i];
        bool gpus = f->kind ? vendor_of(f->kind) != HOST_OTHER : h->gpus.n > 0;
        if (f->kind && vendor_of(f->kind) == HOST_NVIDIA && !cdi_fault(a, f->document)) {
            cdi_note_injected(a, f, h);
        }
        for (size_t k = 0; k < f->problems.n && gpus; k++) {
            const char *command, *step = step_of(a, f, &command);
            if (f->problems.items[k].is_error) {
                VEC_PUSH(a, &h->problems,
                         (struct host_problem){.id = "cdi",
                                               .state = HOST_NO,
                                               .culprit = f->path,
                                               .text = arena_printf(a, "%s: %s", f->path,
                                                                    f->problems.items[k].text),
                                               .step = step,
                                               .command = command});
            }
        }
    }
    cdi_files_release(&files);
}
