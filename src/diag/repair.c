/* Repairs for a library that is not found. A search path is offered only after the same process was
 * replayed in the model with it and the request was served. */
#include <string.h>

#include "diag/internal.h"
#include "diag/wanted.h"

enum { TRIES_MAX = 12 };

/* ------------------------------------------------------------------ search path */

/* The folder of a usable file with this name, or NULL. A stub is no copy of a library. */
static const char *usable_folder(struct diag *d, const char *name)
{
    struct model_library *list = NULL;
    size_t n = model_libraries(d->m, name, &list);
    for (size_t i = 0; i < n; i++) {
        if (list[i].usable && strcmp(list[i].name, name) == 0 && !strstr(list[i].path, "/stubs/") &&
            !diag_is_for_other_arm(d, list[i].path)) {
            return path_dir(d->a, list[i].path);
        }
    }
    return NULL;
}

static const char *with_folder(struct diag *d, const char *path, const char *name)
{
    const char *dir = usable_folder(d, name);
    if (!dir || strstr(arena_printf(d->a, ":%s:", path), arena_printf(d->a, ":%s:", dir))) {
        return path;
    }
    return arena_printf(d->a, "%s%s%s", path, *path ? ":" : "", dir);
}

static bool finding_names_library(const struct diag_finding *f, const char *name)
{
    for (size_t i = 0; i < f->likewise.n; i++) {
        if (strcmp(f->likewise.items[i], name) == 0) {
            return true;
        }
    }
    return strcmp(f->culprit, name) == 0;
}

/* Whether the finding is gone, and nothing worse came in its place. */
static bool repair_serves(struct diag *d, const struct diag_finding *f,
                          const struct model_process *tried)
{
    struct diag_failure *left = NULL;
    size_t n = diag_failures(d, tried, &left);
    for (size_t i = 0; i < n; i++) {
        if (left[i].defect || finding_names_library(f, left[i].name)) {
            return false;
        }
    }
    n = diag_wishes(d, tried, &left);
    for (size_t i = 0; i < n; i++) {
        if (finding_names_library(f, left[i].name)) {
            return false;
        }
    }
    return !diag_cudnn_is_mixed(d, tried);
}

typedef size_t collector(struct diag *d, const struct model_process *p, struct diag_failure **ret);

/* The path with the folders of what is missing only once it is set; "" if it does not help then.
 * *ret_tried: the process with it. */
static const char *closed_path(struct diag *d, const struct diag_finding *f,
                               const struct model_process *p, const char *path, collector *lacking,
                               const struct model_process **ret_tried)
{
    const char *old = diag_getenv(d, "LD_LIBRARY_PATH");
    const struct model_process *tried = NULL;
    for (int tries = 0; tries < TRIES_MAX && *path; tries++) {
        struct diag_failure *left = NULL;
        tried = diag_replay(d, p, old && *old ? arena_printf(d->a, "%s:%s", path, old) : path);
        size_t n = tried ? lacking(d, tried, &left) : 0;
        const char *more = path;
        for (size_t i = 0; i < n; i++) {
            more = with_folder(d, more, left[i].name);
        }
        if (strcmp(more, path) == 0) {
            break;
        }
        path = more;
    }
    if (!tried || !repair_serves(d, f, tried)) {
        return "";
    }
    *ret_tried = tried;
    return path;
}

/* Folders that serve the finding's libraries, joined by colons, with what these ask for in turn:
 * what must be there, then what is worth a warning. "" if there are none, or if they do not help.
 */
static const char *path_that_serves(struct diag *d, const struct diag_finding *f,
                                    const struct model_process *p,
                                    const struct model_process **ret_tried)
{
    const char *path = with_folder(d, "", f->culprit);
    for (size_t i = 0; i < f->likewise.n; i++) {
        path = with_folder(d, path, f->likewise.items[i]);
    }
    path = closed_path(d, f, p, path, diag_failures, ret_tried);
    const char *more = *path ? closed_path(d, f, p, path, diag_wishes, ret_tried) : "";
    return *more ? more : path;
}

/* What the libraries that are found then ask for in their turn, and that is not installed: a repair
 * that leads to the next finding does not end, so that it is told now. */
static void foresee(struct diag *d, struct diag_finding *f, const struct model_process *tried)
{
    static collector *const collectors[] = {diag_failures, diag_wishes};
    for (size_t c = 0; c < sizeof collectors / sizeof *collectors; c++) {
        struct diag_failure *left = NULL;
        size_t n = collectors[c](d, tried, &left);
        for (size_t i = 0; i < n; i++) {
            size_t known = d->report->findings.n;
            if (left[i].request && !left[i].defect && !usable_folder(d, left[i].name) &&
                !diag_knows(d, left[i].name) && diag_rule_not_found(d, &left[i]) &&
                d->report->findings.n > known) {
                struct diag_finding *next = d->report->findings.items[known];
                next->behind = f;
                diag_evidence(d, next, "foreseen: it is asked for once %s is found (model)",
                              f->culprit);
            }
        }
    }
}

static void repair_by_path(struct diag *d, struct diag_finding *f, const struct model_process *p)
{
    const struct model_process *tried = NULL;
    const char *path = p->ldso->secure ? "" : path_that_serves(d, f, p, &tried);
    if (*path) {
        foresee(d, f, tried);
        diag_repair(d, f, DIAG_REPAIR_ENV, diag_prepend_command(d, path),
                    "Set LD_LIBRARY_PATH before the program starts (tried in the model: %s then "
                    "found).",
                    f->likewise.n ? "they are" : "it is");
    }
}

/* ------------------------------------------------------------------ order of imports */

static bool brings(const struct model_process *p, const char *package)
{
    for (size_t i = 0; i < p->imported.n; i++) {
        if (strcmp(p->imported.items[i], package) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether two imports in this order find what the failure is about, whichever is used and first. */
static bool order_serves(struct diag *d, const char *first, const char *second,
                         const struct diag_failure *x)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        if (model_n_imports(p) == 2 && strcmp(model_import(p, 0), first) == 0 &&
            strcmp(model_import(p, 1), second) == 0) {
            return diag_group_works(d, p->group, x);
        }
    }
    return false;
}

/* Of a pair, the import that fails alone: of the package, or of the application that brings it. */
static bool is_affected(const struct diag_failure *x, const char *import)
{
    const char *own =
        x->process->part_of ? x->process->part_of : x->process->script[0] + strlen("import ");
    return model_n_imports(x->process) == 1 && strcmp(import + strlen("import "), own) == 0;
}

/* A pair of imports that serves the name because of what importing another package loads. */
static void repair_by_order(struct diag *d, struct diag_finding *f, const struct diag_failure *x)
{
    const char *package = x->attempt ? x->attempt->package : NULL;
    for (size_t i = 0; package && i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        if (p->group == x->process->group || model_n_imports(p) != 2 || !brings(p, package) ||
            is_affected(x, p->script[0]) == is_affected(x, p->script[1]) ||
            !order_serves(d, p->script[0], p->script[1], x)) {
            continue;
        }
        bool is_first = is_affected(x, p->script[0]);
        if (order_serves(d, p->script[1], p->script[0], x)) {
            diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                        "A program that imports %s too, before it uses %s, is served by what that "
                        "import has loaded.",
                        p->script[is_first ? 1 : 0] + strlen("import "), package);
        } else {
            diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                        "Put \"%s\" before \"%s\": what importing it loads serves both.",
                        p->script[0], p->script[1]);
        }
        return;
    }
}

/* ------------------------------------------------------------------ what comes next */

static bool is_of_finding(const struct diag_finding *f, const char *name)
{
    bool found = strcmp(f->culprit, name) == 0;
    for (size_t i = 0; i < f->likewise.n && !found; i++) {
        found = strcmp(f->likewise.items[i], name) == 0;
    }
    return found;
}

/* Folders of what the asker needs besides, which is installed where it does not look: the loader
 * stops at what is missing, and would stop at these next. */
static const char *folders_beside(struct diag *d, const struct diag_finding *f,
                                  const struct diag_failure *x)
{
    const struct ldso_request *r = x->request;
    bool needed = r && r->kind == LDSO_NEEDED && r->caller;
    const struct elf_image *image = needed ? &r->caller->file->image : NULL;
    const char *folders = "";
    for (size_t i = 0; image && i < image->n_needs; i++) {
        struct model_library *list = NULL;
        const char *name = image->needs[i].name;
        bool found = strchr(name, '/') || is_of_finding(f, name) ||
                     diag_is_driver_library(d, name) || diag_is_loaded(x->process->ldso, name) ||
                     diag_is_findable(d, r, name);
        size_t n = found ? 0 : model_libraries(d->m, name, &list);
        for (size_t k = 0; k < n && !found; k++) {
            found = list[k].usable && strcmp(list[k].name, name) == 0 &&
                    strcmp(list[k].where, "site-packages") == 0;
            folders = found ? arena_printf(d->a, "%s%s%s", folders, *folders ? ":" : "",
                                           path_dir(d->a, list[k].path))
                            : folders;
        }
    }
    return folders;
}

void diag_repair_missing(struct diag *d, struct diag_finding *f, const struct diag_failure *x,
                         const struct model_library *elsewhere)
{
    if (!x->request || *x->request->name != '/') { // what is asked for by its path is nowhere else
        repair_by_path(d, f, x->process);
        repair_by_order(d, f, x);
    }
    if (elsewhere && x->attempt && x->attempt->in_program) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "%s", x->attempt->in_program);
    }
    if (!elsewhere && !diag_repair_overwritten(d, f, diag_caller(x))) {
        diag_repair_install(d, f, x, folders_beside(d, f, x));
    }
    if (f->repairs.n == 0) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Make %s findable at the start of the program: name its folder in "
                    "LD_LIBRARY_PATH, or in a file of /etc/ld.so.conf.d and run ldconfig.",
                    elsewhere ? elsewhere->path : x->name);
    }
}

/* The commands that install what is met only behind the finding; *ret_folders: where that is found
 * then. */
static const char *installs_behind(struct diag *d, const struct diag_finding *f,
                                   const char **ret_folders)
{
    const char *commands = "";
    *ret_folders = "";
    for (size_t i = 0; i < d->report->findings.n; i++) {
        const struct diag_finding *next = d->report->findings.items[i];
        const struct diag_repair *r = next->repairs.n ? &next->repairs.items[0] : NULL;
        if (next->behind != f || !r || !r->command) {
            continue;
        }
        commands = arena_printf(d->a, "%s%s && ", commands, r->command);
        for (struct str rest = str_of(r->folders); rest.s;) {
            const char *folder = str_dup(d->a, str_cut(&rest, ':'));
            *ret_folders = diag_with_word(d, *ret_folders, ":", folder);
        }
    }
    return commands;
}

void diag_join_foreseen(struct diag *d)
{
    for (size_t i = 0; i < d->report->findings.n; i++) {
        struct diag_finding *f = d->report->findings.items[i];
        struct diag_variable v;
        const char *folders, *commands = installs_behind(d, f, &folders);
        if (*commands && f->repairs.n && diag_repair_variable(d->a, &f->repairs.items[0], &v) &&
            v.prepend && strcmp(v.name, "LD_LIBRARY_PATH") == 0) {
            const char *all = *folders ? arena_printf(d->a, "%s:%s", v.value, folders) : v.value;
            f->at_once = arena_printf(d->a, "%s%s", commands, diag_prepend_command(d, all));
        }
    }
}
