/* Whether the paths and devices of one CDI specification are those of this machine. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "cdi/files.h"
#include "cdi/judge.h"

void cdi_judge_add_problem(struct judge *j, enum cdi_fault_kind kind, enum cdi_severity severity,
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
    } gone, unseen, maybe, unbound, inside, start;
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

/* startContainer hooks are programs of the container, and the OCI runtime specification (config.md,
 * "POSIX-platform Hooks") wants their paths absolute, too: runc looks for others in the container's
 * working directory. Those of poststop are run when it has ended: runtimes only log that one is
 * missing. */
static void judge_hook(struct judge *j, const char *path, const json_t *hook, struct said *said)
{
    const char *name = text_at(hook, "hookName");
    const json_t *timeout = json_object_get(hook, "timeout");
    bool is_inside = strcmp(name, "startContainer") == 0;
    if (is_inside && *path != '/') {
        sort_say(j, &said->inside, "", path, "");
    }
    if (is_inside || strcmp(name, "poststop") == 0) {
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
        {&said.inside, CDI_NOT_STARTED, CDI_WARNING,
         "a container may not start with it: the path of the hook ",
         " is not absolute, so runc looks for it in the container's working directory",
         " more hooks have no absolute path"},
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
            cdi_judge_add_problem(
                j, sorts[i].kind, sorts[i].severity,
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

enum host_vendor cdi_kind_vendor(const char *kind)
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
    enum host_vendor vendor = cdi_kind_vendor(j->file->kind);
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
            cdi_judge_add_problem(j, CDI_GPU_LEFT_OUT, CDI_WARNING,
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
        cdi_judge_add_problem(j, CDI_OTHER_DRIVER, CDI_ERROR,
                              arena_printf(j->arena,
                                           "it was made for driver %s, and the loaded module is of "
                                           "%s",
                                           str_printable(j->arena, version), module->value));
    }
}

void cdi_judge_document(struct judge *j)
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
