#include "cdi/files.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "diag/finding.h"

enum { FILE_MAX = 4 << 20, FILES_MAX = 256 };

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

struct judge {
    struct root *root;
    struct arena *arena;
    const struct host *host;
    struct cdi_files *files;
    struct cdi_file *file; // in hand
    bool engine;           // ask which are installed
};

static void judge_add_problem(struct judge *j, enum cdi_fault_kind kind, enum cdi_severity severity,
                              const char *text)
{
    VEC_PUSH(j->arena, &j->file->problems, (struct cdi_problem){kind, severity, text});
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

/* Calls `visit` for each path of the host that the edits name, with the entry that names it. */
enum entry { NODE, MOUNT, HOOK };

typedef void visit_path(struct judge *, const char *path, enum entry, const json_t *item,
                        void *arg);

struct paths {
    visit_path *visit;
    void *arg;
};

static void visit_paths(struct judge *j, json_t *edits, void *arg)
{
    static const struct {
        const char *list, *key, *else_key;
    } kinds[] = {
        [NODE] = {"deviceNodes", "hostPath", "path"},
        [MOUNT] = {"mounts", "hostPath", NULL},
        [HOOK] = {"hooks", "path", NULL},
    };
    const struct paths *p = arg;
    for (enum entry e = NODE; e <= HOOK; e++) {
        json_t *item;
        size_t k;
        json_array_foreach(json_object_get(edits, kinds[e].list), k, item)
        {
            const char *path = json_text(item, kinds[e].key);
            if ((!path || !*path) && kinds[e].else_key) {
                path = json_text(item, kinds[e].else_key);
            }
            if (path && *path) {
                p->visit(j, path, e, item, p->arg);
            }
        }
    }
}

static void each_path(struct judge *j, visit_path *visit, void *arg)
{
    struct paths p = {visit, arg};
    each_edits(j, visit_paths, &p);
}

static const char *text_at(const json_t *item, const char *key)
{
    const char *text = json_text(item, key);
    return text ? text : "";
}

/* What was said of paths, kept to one sentence of each sort. */
struct said {
    struct sort {
        size_t n;
        const char *first;
    } gone, unseen, maybe, unbound, start;
};

static void sort_say(struct judge *j, struct sort *s, const char *before, const char *path,
                     const char *after)
{
    if (s->n++ == 0) {
        s->first = arena_printf(j->arena, "%s%s%s", before, str_printable(j->arena, path), after);
    }
}

/* An engine asks the host for what a node leaves open; one that states its type and number, or is a
 * FIFO, it makes without (fillMissingInfo of pkg/cdi/container-edits_unix.go). */
static bool is_stated(const json_t *node)
{
    const char *type = text_at(node, "type");
    double major = json_number_value(json_object_get(node, "major"));
    return *type && (strcmp(type, "p") == 0 || major != 0);
}

static void judge_node(struct judge *j, const char *path, const json_t *node, struct said *said)
{
    char type = '\0';
    const char *stated = text_at(node, "type");
    if (*path != '/') {
        sort_say(j, &said->start, "the path ", path, " of a device node is not absolute");
        return;
    }
    struct host_fact there = host_device(j->root, j->arena, path, &type);
    if (there.state == HOST_UNKNOWN) {
        sort_say(j, &said->unseen, "the device node ", path, "");
    } else if (there.state == HOST_NO) {
        sort_say(j, is_stated(node) ? &said->maybe : &said->gone, "the device node ", path, "");
    } else if (!is_stated(node) && !type) {
        sort_say(j, &said->start, "", path, " is not a device node");
    } else if (!is_stated(node) && *stated && *stated != type) {
        sort_say(
            j, &said->start, "", path,
            arena_printf(j->arena, " is of type %c, and the specification says %c", type, *stated));
    }
}

static void judge_file(struct judge *j, const char *path, const char *what, struct said *said)
{
    struct stat st;
    int rc = root_stat(j->root, path, &st);
    if (rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP) {
        sort_say(j, &said->gone, what, path, "");
    } else if (rc < 0) {
        sort_say(j, &said->unseen, what, path, "");
    } else if (starts_with(what, "the hook") && (!S_ISREG(st.st_mode) || !(st.st_mode & 0111))) {
        sort_say(j, &said->start, what, path, " is not an executable file");
    }
}

/* A mount without the option is one of a file system, for whose name runc takes the type. */
static void judge_mount(struct judge *j, const char *path, const json_t *mount, struct said *said)
{
    const char *type = text_at(mount, "type");
    const json_t *option;
    bool binds = false;
    size_t i;
    json_array_foreach(json_object_get(mount, "options"), i, option)
    {
        const char *text = json_string_value(option);
        binds |= text && (strcmp(text, "bind") == 0 || strcmp(text, "rbind") == 0);
    }
    if (!binds && *type && strcmp(type, "bind") != 0 && strcmp(type, "none") != 0) {
        return; // of a file system such as tmpfs: the path is only its name
    }
    if (*path != '/') {
        sort_say(j, &said->start, "the path ", path, " of a mount is not absolute");
        return;
    }
    judge_file(j, path, "the file ", said);
    if (!binds) {
        sort_say(j, &said->unbound, "the mount of ", path, " does not have the option bind");
    }
}

/* startContainer hooks are programs of the container. Those of poststop are run when it has ended:
 * runtimes only log that one is missing. */
static void judge_hook(struct judge *j, const char *path, const json_t *hook, struct said *said)
{
    const char *name = text_at(hook, "hookName");
    const json_t *timeout = json_object_get(hook, "timeout");
    if (strcmp(name, "startContainer") == 0 || strcmp(name, "poststop") == 0) {
        return;
    }
    if (*path != '/') {
        sort_say(j, &said->start, "the path ", path, " of a hook is not absolute");
    } else {
        judge_file(j, path, "the hook ", said);
    }
    if (json_is_integer(timeout) && json_integer_value(timeout) <= 0) {
        sort_say(j, &said->start, "the timeout of the hook ", path, " is not above 0");
    }
}

static void judge_path(struct judge *j, const char *path, enum entry e, const json_t *item,
                       void *arg)
{
    static void (*const judges[])(struct judge *, const char *, const json_t *, struct said *) = {
        [NODE] = judge_node, [MOUNT] = judge_mount, [HOOK] = judge_hook};
    judges[e](j, path, item, arg);
}

static void judge_paths(struct judge *j)
{
    struct said said = {0};
    each_path(j, judge_path, &said);
    const struct {
        const struct sort *sort;
        enum cdi_fault_kind kind;
        enum cdi_severity severity;
        const char *before, *one, *more; // `more`: behind the number of the others
    } sorts[] = {
        {&said.gone, CDI_PATH_GONE, CDI_ERROR, "", " is not here", " more paths are not here"},
        {&said.start, CDI_NOT_STARTED, CDI_ERROR, "engines do not start a container with it: ", "",
         " more entries are wrong"},
        {&said.unbound, CDI_NOT_STARTED, CDI_WARNING,
         "runc does not start a container with it: ", "", " more mounts do not have it"},
        {&said.maybe, CDI_PATH_GONE, CDI_WARNING, "",
         " is not here; engines make it, for a device that may be missing",
         " more nodes are not here; engines make them, for devices that may be missing"},
        {&said.unseen, CDI_UNSEEN, CDI_OPEN, "", " cannot be seen here: it may be missing",
         " more paths cannot be seen here: they may be missing"},
    };
    for (size_t i = 0; i < sizeof sorts / sizeof *sorts; i++) {
        const struct sort *s = sorts[i].sort;
        const char *rest =
            s->n > 1 ? arena_printf(j->arena, " and %zu%s", s->n - 1, sorts[i].more) : sorts[i].one;
        if (s->n) {
            judge_add_problem(j, sorts[i].kind, sorts[i].severity,
                              arena_printf(j->arena, "%s%s%s", sorts[i].before, s->first, rest));
        }
    }
}

/* "libcuda.so.550.90.07" -> "550.90.07" */
static void note_driver(struct judge *j, const char *path, enum entry e, const json_t *item,
                        void *arg)
{
    static const char name[] = "libcuda.so.";
    const char **version = arg, *base = path_base(path);
    (void)j;
    (void)e;
    (void)item;
    if (starts_with(base, name) && strchr(base + sizeof name - 1, '.')) {
        *version = base + sizeof name - 1;
    }
}

struct wanted {
    const char *path;
    bool found;
};

static void note_wanted(struct judge *j, const char *path, enum entry e, const json_t *item,
                        void *arg)
{
    struct wanted *w = arg;
    (void)j;
    (void)e;
    (void)item;
    w->found |= strcmp(path, w->path) == 0;
}

/* ------------------------------------------------------------------ judging */

static enum host_vendor kind_vendor(const char *kind)
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
    enum host_vendor vendor = kind_vendor(j->file->kind);
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
            if (strcmp(json_text(device, "name"), "all") != 0) {
                continue;
            }
            json_array_foreach(nodes, n, node)
            {
                struct wanted w = {json_text(node, "path"), false};
                bool draws = vendor == HOST_NVIDIA && starts_with(w.path, "/dev/dri/");
                each_path(j, note_wanted, &w);
                if (!w.found && !draws) {
                    first = missing++ ? first : arena_strdup(j->arena, w.path);
                }
            }
        }
        if (missing) {
            judge_add_problem(j, CDI_GPU_LEFT_OUT, CDI_WARNING,
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
        judge_add_problem(j, CDI_OTHER_DRIVER, CDI_ERROR,
                          arena_printf(j->arena,
                                       "it was made for driver %s, and the loaded module is of "
                                       "%s",
                                       str_printable(j->arena, version), module->value));
    }
}

static void judge_document(struct judge *j)
{
    struct cdi_file *f = j->file;
    if (j->files->engines.n == 0) {
        cdi_engines_find(j->root, j->arena, j->engine, j->files);
    }
    cdi_engines_judge(j->arena, j->files, f);
    cdi_fold(f->document);
    f->kind = json_text(f->document, "kind");
    f->n_devices = json_array_size(json_object_get(f->document, "devices"));
    judge_paths(j);
    judge_driver(j);
    if (f->kind) {
        judge_coverage(j);
    }
}

/* False: it is not a mapping, or cannot be read; this is said. */
static bool read_document(struct judge *j)
{
    struct cdi_file *f = j->file;
    struct str text;
    const char *why = NULL;
    int rc = root_read(j->root, j->arena, f->path, FILE_MAX, &text);
    if (rc < 0) {
        judge_add_problem(j, CDI_UNREADABLE,
                          rc == -EACCES || rc == -EPERM || rc == -EFBIG ? CDI_OPEN : CDI_ERROR,
                          arena_printf(j->arena, "it cannot be read: %s", strerror(-rc)));
        return false;
    }
    f->ours = cdi_is_ours(text);
    f->document = cdi_parse(j->arena, text, &why);
    if (!json_is_object(f->document)) {
        judge_add_problem(j, CDI_UNREADABLE, why == cdi_too_large ? CDI_OPEN : CDI_ERROR,
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
    judge_document(j);
    if (root_stat(j->root, j->file->path, &st) == 0 && !(st.st_mode & 0004)) {
        judge_add_problem(j, CDI_NOT_FOR_ALL, CDI_WARNING,
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
    judge_add_problem(
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
                judge_add_problem(j, CDI_CONFLICT, CDI_ERROR,
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
            kind_vendor(f->kind ? f->kind : "") == HOST_NVIDIA ? nvidia_command(j, path) : NULL;
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
        bool gpus = f->kind ? kind_vendor(f->kind) != HOST_OTHER : h->gpus.n > 0;
        if (file_counts(f) && kind_vendor(f->kind) == HOST_NVIDIA) {
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
