/* The rules that look at whole processes and at the start environment. */
#include <string.h>

#include "diag/internal.h"
#include "model/family.h"
#include "py/module.h"

void diag_rule_start(struct diag *d)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        if (!p->ldso || p->ldso->is_static) {
            continue;
        }
        const struct ldso_process *l = p->ldso;
        if (l->loader.missing) {
            struct diag_finding *f = diag_add(
                d, DIAG_LOADER_MISSING, l->loader.path, l->loader.path,
                arena_printf(d->a, "%s cannot start: its loader %s: %s.", l->main->path,
                             l->loader.path, l->loader.missing));
            diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                        "Install the C library that provides %s, or use a build for this system.",
                        l->loader.path);
        } else if (l->loader.kind == LDSO_MUSL && p->n_script > 0) {
            struct diag_finding *f =
                diag_add(d, DIAG_MUSL, l->loader.path, l->loader.path,
                         arena_printf(d->a, "%s uses musl (%s); the GPU packages installed for it are "
                                            "built for glibc.", l->main->path, l->loader.path));
            diag_seen_in(d, f, p);
            diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Use an image or a system with glibc.");
        }
    }
}

/* ------------------------------------------------------------------ families */

static bool is_sub_library(const char *name)
{
    return starts_with(name, "libcudnn_");
}

struct member {
    const struct ldso_object *object;
    const char *version; // NULL: cannot be told
    struct str stem;
    bool sub;
};

typedef VEC(struct member) member_list;

static member_list cudnn_members(struct diag *d, const struct ldso_process *p)
{
    member_list list = {0};
    for (size_t i = 0; i < p->objects.n; i++) {
        const struct ldso_object *o = p->objects.items[i];
        const char *name = path_base(o->path);
        if (starts_with(name, "libcudnn") && !starts_with(name, "libcudnn_frontend")) {
            VEC_PUSH(d->a, &list,
                     (struct member){o, model_object_version(d->m, o->file, o->path, KB_VERSION_CUDNN),
                                     model_stem(name), is_sub_library(name)});
        }
    }
    return list;
}

static void list_members(struct diag *d, struct diag_finding *f, const member_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct member *m = &list->items[i];
        diag_evidence(d, f, "%s is %s (found through %s)", m->object->path,
                      m->version ? m->version : "of unknown version", ldso_via_name(m->object->via));
    }
}

/* The member that a search path brought in between the others, for the culprit's name. */
static const struct member *odd_one(const member_list *list, const char *common)
{
    for (size_t i = 0; i < list->n; i++) {
        if (list->items[i].sub && list->items[i].version &&
            strcmp(list->items[i].version, common) != 0) {
            return &list->items[i];
        }
    }
    return &list->items[0];
}

/* The version that most sub-libraries have. */
static const char *common_version(const member_list *list)
{
    const char *best = NULL;
    size_t best_n = 0;
    for (size_t i = 0; i < list->n; i++) {
        size_t n = 0;
        for (size_t k = 0; k < list->n && list->items[i].sub && list->items[i].version; k++) {
            const struct member *m = &list->items[k];
            n += m->sub && m->version && strcmp(m->version, list->items[i].version) == 0;
        }
        if (n > best_n) {
            best_n = n;
            best = list->items[i].version;
        }
    }
    return best;
}

static void repair_mixed(struct diag *d, struct diag_finding *f, const struct ldso_object *odd)
{
    const char *owner = model_owner(d->m, odd->path);
    if (odd->via == LDSO_VIA_LIBRARY_PATH) {
        diag_repair(d, f, DIAG_REPAIR_ENV, NULL,
                    "Take %s off LD_LIBRARY_PATH, or put the folder of one complete release first.",
                    path_dir(d->a, odd->path));
    }
    const char *dir = path_dir(d->a, odd->path);
    struct model_library *list = NULL;
    size_t n = model_libraries(d->m, "libcudnn.so.9", &list);
    const char *spec = owner;
    for (size_t i = 0; i < n && !spec; i++) {
        spec = list[i].package;
    }
    if (spec) {
        char *pin = arena_strdup(d->a, spec);
        char *blank = strchr(pin, ' ');
        if (blank) {
            *blank = '\0';
        }
        const char *python =
            d->m->env && d->m->env->executable ? d->m->env->executable : "python3";
        diag_repair(d, f, DIAG_REPAIR_PACKAGE,
                    arena_printf(d->a, "%s -m pip install --force-reinstall --no-deps %s%s%s", python,
                                 pin, blank ? "==" : "", blank ? blank + 1 : ""),
                    "Install %s again, so that %s holds one release.", spec, dir);
    } else {
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL,
                    "Keep one cuDNN release: install one complete set, such as nvidia-cudnn-cu12.");
    }
}

/* Two files of one sub-library in a process: the second was asked for by its full version. */
static bool rule_twice(struct diag *d, const struct model_process *p, const member_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        for (size_t k = i + 1; k < list->n; k++) {
            const struct member *a = &list->items[i], *b = &list->items[k];
            if (!a->sub || !b->sub || !str_eq(a->stem, b->stem) ||
                (a->version && b->version && strcmp(a->version, b->version) == 0)) {
                continue;
            }
            struct diag_finding *f = diag_add(
                d, DIAG_FULL_VERSION_SHADOW, b->object->path, path_base(b->object->path),
                arena_printf(d->a, "%s is loaded although %s (%s) is there already: the name with the "
                                   "full version is asked for first.", b->object->path,
                             a->object->path, a->version ? a->version : "unknown version"));
            diag_seen_in(d, f, p);
            list_members(d, f, list);
            repair_mixed(d, f, b->object);
            return true;
        }
    }
    return false;
}

static void rule_cudnn(struct diag *d, const struct model_process *p)
{
    member_list list = cudnn_members(d, p->ldso);
    if (list.n < 2 || rule_twice(d, p, &list)) {
        return;
    }
    const char *common = common_version(&list);
    if (!common) {
        return; // no sub-library, or no version that can be read: nothing to compare
    }
    const struct member *odd = odd_one(&list, common);
    if (odd->sub && odd->version && strcmp(odd->version, common) != 0) {
        struct diag_finding *f = diag_add(
            d, DIAG_CUDNN_MIXED_VERSIONS, odd->object->path, path_base(odd->object->path),
            arena_printf(d->a, "%s is cuDNN %s, the other sub-libraries are %s.", odd->object->path,
                         odd->version, common));
        diag_seen_in(d, f, p);
        list_members(d, f, &list);
        repair_mixed(d, f, odd->object);
        return;
    }
    for (size_t i = 0; i < list.n; i++) {
        const struct member *m = &list.items[i];
        if (m->sub || !m->version || strcmp(m->version, common) == 0) {
            continue;
        }
        struct diag_finding *f = diag_add(
            d, DIAG_CUDNN_OLDER_SHIM, m->object->path, path_base(m->object->path),
            arena_printf(d->a, "%s is of cuDNN %s, the sub-libraries that serve it are of %s.",
                         path_base(m->object->path), m->version, common));
        diag_seen_in(d, f, p);
        list_members(d, f, &list);
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Nothing, unless cuDNN reports errors; then use one release for both.");
    }
}

void diag_rule_families(struct diag *d)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        if (p->ldso) {
            rule_cudnn(d, p);
        }
    }
}

/* ------------------------------------------------------------------ stub */

void diag_rule_stub(struct diag *d)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        for (size_t k = 0; p->ldso && k < p->ldso->objects.n; k++) {
            const struct ldso_object *o = p->ldso->objects.items[k];
            if (!o->soname || strcmp(o->soname, "libcuda.so.1") != 0 || !strstr(o->path, "/stubs/")) {
                continue;
            }
            const char *dir = path_dir(d->a, o->path);
            struct diag_finding *f =
                diag_add(d, DIAG_STUB_LIBCUDA, o->path, "libcuda.so.1",
                         arena_printf(d->a, "The stub %s is loaded as libcuda.so.1.", o->path));
            diag_seen_in(d, f, p);
            diag_evidence(d, f, "found through %s", ldso_via_name(o->via));
            f->class = o->via == LDSO_VIA_RPATH || o->via == LDSO_VIA_RUNPATH
                           ? "rpath-shadow" : "ld-library-path-shadow";
            diag_repair(d, f, DIAG_REPAIR_ENV, NULL, "Take %s off the search path.", dir);
        }
    }
}

/* ------------------------------------------------------------------ extension modules */

void diag_rule_extension(struct diag *d)
{
    struct py_env *env = d->m->env;
    for (size_t i = 0; env && i < d->m->foreign.n; i++) {
        const struct model_foreign *x = &d->m->foreign.items[i];
        struct diag_finding *f = diag_add(
            d, DIAG_EXTENSION_OTHER_PYTHON, x->file, x->package,
            arena_printf(d->a, "%s was built for another Python: %s has only %s, and this is Python "
                               "%d.%d.", x->package, x->module, path_base(x->file), env->major,
                         env->minor));
        diag_evidence(d, f, "the file is %s", x->file);
        diag_evidence(d, f, "this interpreter looks for %s%s", x->module, env->suffixes[0]);
        diag_repair(d, f, DIAG_REPAIR_PACKAGE,
                    arena_printf(d->a, "%s -m pip install --force-reinstall --no-deps %s",
                                 env->executable ? env->executable : "python3", x->package),
                    "Install %s with this interpreter's own pip.", x->package);
    }
}

/* ------------------------------------------------------------------ start environment */

static const char *get_env(const struct model *m, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < m->config.n_env; i++) {
        if (strncmp(m->config.env[i], name, n) == 0 && m->config.env[i][n] == '=') {
            return m->config.env[i] + n + 1;
        }
    }
    return NULL;
}

static void library_path_element(struct diag *d, const char *text, struct str element)
{
    const char *what = NULL;
    enum diag_severity severity = DIAG_WARNING;
    char *dir = str_dup(d->a, element);
    if (element.n == 0) {
        what = "has an empty element, which means the working directory";
    } else if (element.s[0] == '~') {
        what = "has an element with '~', which the loader does not expand";
    } else if (element.s[0] != '/' && element.s[0] != '$') {
        what = "has a relative element, which depends on the working directory";
    } else if (element.s[0] == '/' && !strchr(dir, '$') && d->m->root &&
               !ldso_store_get(d->m->store, path_normal(d->a, dir))->is_dir) {
        what = "names a folder that does not exist";
        severity = DIAG_NOTE;
    }
    if (!what) {
        return;
    }
    struct diag_finding *f =
        diag_add(d, DIAG_LIBRARY_PATH_ELEMENT, arena_printf(d->a, "%s|%s", what, dir),
                 "LD_LIBRARY_PATH",
                 arena_printf(d->a, "LD_LIBRARY_PATH %s%s%s.", what, element.n ? ": " : "", dir));
    f->severity = severity;
    diag_evidence(d, f, "LD_LIBRARY_PATH=%s", text);
    diag_repair(d, f, DIAG_REPAIR_ENV, NULL, element.n
                    ? "Write the absolute folder, or leave the element out."
                    : "Leave the colon out; to append, write "
                      "LD_LIBRARY_PATH=NEW${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}.");
}

static void rule_library_path(struct diag *d)
{
    const char *text = get_env(d->m, "LD_LIBRARY_PATH");
    if (!text || !*text) {
        return;
    }
    for (const char *s = text;; s++) {
        size_t n = strcspn(s, ":;");
        library_path_element(d, text, (struct str){s, n});
        s += n;
        if (!*s) {
            break;
        }
    }
}

static void rule_secure(struct diag *d, const struct model_process *p)
{
    const char *variable = get_env(d->m, "LD_LIBRARY_PATH") ? "LD_LIBRARY_PATH"
                           : get_env(d->m, "LD_PRELOAD")    ? "LD_PRELOAD"
                                                            : NULL;
    if (!p->ldso || !p->ldso->secure || !variable) {
        return;
    }
    struct diag_finding *f =
        diag_add(d, DIAG_SECURE_EXECUTION, p->ldso->main->path, path_base(p->ldso->main->path),
                 arena_printf(d->a, "%s is %s.", variable, p->ldso->secure_why));
    diag_evidence(d, f, "the program is %s", p->ldso->main->path);
    diag_repair(d, f, DIAG_REPAIR_FILE, arena_printf(d->a, "setcap -r %s", p->ldso->main->path),
                "Take the capabilities or the set-id bits off the program, or make the libraries "
                "known through ldconfig.");
}

static void rule_preload(struct diag *d, const struct model_process *p)
{
    for (size_t i = 0; p->ldso && i < p->ldso->requests.n; i++) {
        const struct ldso_request *r = p->ldso->requests.items[i];
        if (r->kind != LDSO_PRELOAD || r->outcome == LDSO_LOADED || r->outcome == LDSO_REUSED) {
            continue;
        }
        struct diag_finding *f = diag_add(
            d, DIAG_PRELOAD_IGNORED, r->name, r->name,
            arena_printf(d->a, "%s in LD_PRELOAD cannot be loaded and is ignored.", r->name));
        diag_evidence(d, f, "the loader says: %s", r->glibc_says);
        if (r->really) {
            diag_evidence(d, f, "%s", r->really);
        }
        diag_repair(d, f, DIAG_REPAIR_ENV, NULL, "Correct the path in LD_PRELOAD, or take it out.");
    }
}

void diag_rule_environment(struct diag *d)
{
    rule_library_path(d);
    for (size_t i = 0; i < d->m->processes.n; i++) {
        rule_secure(d, d->m->processes.items[i]);
        rule_preload(d, d->m->processes.items[i]);
    }
}

/* ------------------------------------------------------------------ a live process */

void diag_rule_live(struct diag *d)
{
    for (size_t i = 0; i < d->m->mappings.n; i++) {
        const struct model_mapping *x = &d->m->mappings.items[i];
        if (x->deleted) {
            struct diag_finding *f = diag_add(
                d, DIAG_MAPPED_FILE_DELETED, "deleted", path_base(x->path),
                arena_printf(d->a, "Process %d uses %s, whose file was replaced or removed since.",
                             d->m->pid, x->path));
            diag_evidence(d, f, "mapped and deleted: %s", x->path);
            diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Start the program again.");
        }
    }
    for (size_t i = 0; i < d->m->late_folders.n; i++) {
        const char *dir = d->m->late_folders.items[i];
        struct diag_finding *f =
            diag_add(d, DIAG_FOLDER_CREATED_LATE, dir, dir,
                     arena_printf(d->a, "%s was made after process %d had started; the loader does "
                                        "not look there any more.", dir, d->m->pid));
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Start the program again.");
    }
}
