/* Which packages to install, with which words, and where their libraries will lie. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "diag/internal.h"
#include "diag/wanted.h"
#include "host/manager.h"
#include "py/dist.h"
#include "py/owner.h"

/* ------------------------------------------------------------------ the command */

/* The site folder of the asking package, otherwise the one that pip uses. */
static const char *site_of(const struct diag *d, const struct diag_failure *x)
{
    const struct py_dist *dist = d->m->env && x->attempt && x->attempt->package
                                     ? py_env_by_dist(d->m->env, x->attempt->package)
                                     : NULL;
    return dist ? dist->site : diag_pip_folder(d->m, NULL);
}

static bool list_has_text(const struct kb_strs *list, const char *text)
{
    for (size_t i = 0; text && i < list->n; i++) {
        if (strcmp(list->items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the asking package itself opens the library from that folder below a site folder. */
static bool opens_from(const struct wanted *w, const char *name, const char *folder)
{
    const struct model *m = w->d->m;
    const char *package = w->x->attempt ? w->x->attempt->package : NULL;
    const struct py_dist *dist = package ? py_env_by_dist(m->env, package) : NULL;
    const struct kb_import *row = dist ? diag_import_row(w->d, dist) : NULL;
    const char *path = arena_printf(w->d->a, "{site}/%s/%s", folder, name);
    for (size_t i = 0; row && i < row->n_steps; i++) {
        if (list_has_text(&row->steps[i].names, path)) {
            return true;
        }
        for (size_t k = 0; k < row->steps[i].n_libs; k++) {
            const struct kb_preload *lib = &row->steps[i].libs[k];
            bool named =
                (lib->glob && str_glob(lib->glob, name)) || list_has_text(&lib->names, name);
            if (named && list_has_text(&lib->folders, folder)) {
                return true;
            }
        }
    }
    return false;
}

/* Whether the system has the library in another major version: of what it brings in one release at
 * a time, its package manager has installed the one that it has. */
static bool is_there_otherwise(const struct wanted *w, const char *name)
{
    struct model_library *list = NULL;
    size_t n = model_libraries(w->d->m, name, &list);
    bool found = false;
    for (size_t i = 0; i < n && !found; i++) {
        struct str stem = model_stem(list[i].name);
        bool packaged =
            strcmp(list[i].where, "ROCm") == 0 ||
            (strcmp(list[i].where, "system") == 0 && !starts_with(list[i].path, "/usr/local/"));
        found = list[i].usable && packaged && starts_with(list[i].name + stem.n, ".so.") &&
                strcmp(list[i].name, name) != 0;
    }
    return found;
}

/* Whether the start-up hook loads the file once it is there. */
static bool hook_loads(const struct diag *d, const char *path)
{
    const struct model_hook *h = &d->m->hook;
    bool off = model_hook_is_off(diag_variable(d, "GPUMEND_HOOK"));
    for (size_t i = 0; !off && i < h->n_libraries; i++) {
        if (strcmp(h->libraries[i], path) == 0) {
            return true;
        }
    }
    return false;
}

/* Packages of one manager for the names; those that none is known for go into ret_unknown. */
static void wanted_of_manager(const struct wanted *w, enum kb_manager manager,
                              const char **ret_packages, const char **ret_folders,
                              const char **ret_unknown, const char **ret_vendor)
{
    struct diag *d = w->d;
    const char *own = site_of(d, w->x);
    const char *site = manager == KB_MANAGER_PIP ? diag_pip_folder(d->m, own) : NULL;
    const char *cuda = NULL;
    *ret_packages = *ret_folders = *ret_unknown = "";
    *ret_vendor = NULL;
    for (size_t i = 0; i < w->names.n; i++) {
        const struct kb_provide *row = diag_wanted_provide(w, w->names.items[i]);
        const struct kb_provider *v = diag_wanted_provider(w, row, manager);
        bool of_system = manager != KB_MANAGER_PIP && manager != KB_MANAGER_CONDA;
        if (!v || (of_system && row->major < 0 && is_there_otherwise(w, w->names.items[i]))) {
            *ret_unknown = diag_with_word(d, *ret_unknown, " ", w->names.items[i]);
            continue;
        }
        const char *spec = manager == KB_MANAGER_PIP     ? diag_wanted_pinned(w, v)
                           : manager == KB_MANAGER_CONDA ? diag_wanted_conda(w, row, v)
                                                         : diag_name_in_repository(d, v);
        if (!spec) {
            *ret_unknown = diag_with_word(d, *ret_unknown, " ", w->names.items[i]);
            continue;
        }
        *ret_packages = diag_with_word(d, *ret_packages, " ", diag_quote(d, spec));
        const char *its = manager == KB_MANAGER_CONDA ? diag_wanted_cuda_version(w, row) : NULL;
        cuda = its ? its : cuda;
        *ret_vendor = v->repository ? v->repository : *ret_vendor;
        const char *folder = site && v->folder ? path_join(d->a, site, v->folder) : NULL;
        if (folder && !diag_searched(d, w->x->request, folder) &&
            !(strcmp(site, own) == 0 && opens_from(w, w->names.items[i], v->folder)) &&
            !hook_loads(d, path_join(d->a, folder, w->names.items[i]))) {
            *ret_folders = diag_with_word(d, *ret_folders, ":", folder);
        }
    }
    if (cuda) {
        *ret_packages = diag_with_word(d, *ret_packages, " ", cuda);
    }
    for (struct str rest = str_of(**ret_folders ? w->beside : NULL); rest.s;) {
        *ret_folders = diag_with_word(d, *ret_folders, ":", str_dup(d->a, str_cut(&rest, ':')));
    }
}

/* With `whole`, only where each of the names has a package. */
static void repair_by_manager(struct diag_finding *f, const struct wanted *w,
                              enum kb_manager manager, bool whole)
{
    struct diag *d = w->d;
    const char *packages = "", *folders = "", *unknown = "", *vendor = NULL;
    if (diag_uses_manager(d, manager)) {
        wanted_of_manager(w, manager, &packages, &folders, &unknown, &vendor);
    }
    if (!*packages || (whole && *unknown)) {
        return;
    }
    if (*unknown) {
        diag_evidence(d, f, "the package that contains %s is unknown", unknown);
    }
    const char *words = diag_repository_words(d, vendor);
    bool reachable = !*words || strcmp(vendor, "cuda") != 0;
    const char *command = reachable ? diag_command_of(d, manager, packages, vendor) : NULL;
    const char *them = strchr(packages, ' ') ? "them" : "it";
    const char *package = w->x->attempt ? w->x->attempt->package : NULL;
    if (*folders && f->behind) {
        size_t before = f->repairs.n;
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, command,
                    "Install what is missing before %s is repaired: that repair makes %s findable "
                    "too.",
                    f->behind->culprit, them);
        if (f->repairs.n > before) {
            f->repairs.items[before].folders = folders;
        }
    } else if (*folders) {
        const char *hook = diag_hook_again(d->m);
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, diag_findable_command(d, command, folders),
                    "Install what is missing, and make %s%s: %s does not look where pip puts %s.",
                    hook ? "the start-up hook again, which loads " : them,
                    hook ? them : " findable before the program starts",
                    package ? package : path_base(diag_caller(w->x)), them);
    } else {
        size_t before = f->repairs.n;
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, command, "Install what is missing%s%s.%s",
                    command ? "" : ": ", command ? "" : packages, words);
        if (f->repairs.n > before && *words) {
            f->repairs.items[before].before = words + 1;
        }
    }
}

/* Whether a requirement brings one of the libraries: a package that is known to provide it, or an
 * extra of NVIDIA's cuda-toolkit, which are called as the libraries are (its metadata: cublas,
 * cudart, nvjitlink). */
static bool requirement_brings(const struct wanted *w, const struct diag_unmet *q)
{
    const char *extras = strcmp(q->name, "cuda-toolkit") == 0 ? strchr(q->declared, '[') : NULL;
    for (size_t i = 0; i < w->names.n; i++) {
        const char *name = w->names.items[i];
        const struct kb_provide *row = diag_wanted_provide(w, name);
        for (size_t k = 0; row && k < row->n_providers; k++) {
            if (strcmp(row->providers[k].package, q->name) == 0) {
                return true;
            }
        }
        for (struct str rest = str_of(extras ? extras + 1 : NULL); rest.s;) {
            struct str extra = str_cut(&rest, ',');
            size_t n = strcspn(str_dup(w->d->a, extra), "]");
            if (n && strncasecmp(name, "lib", 3) == 0 && strncasecmp(name + 3, extra.s, n) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* What the asking package declares itself brings the library: then all that it declares and that is
 * not there is installed at once, as the loader stops at the first that is missing, and Python at
 * the next. */
static bool repair_declared(struct diag *d, struct diag_finding *f, const struct wanted *w)
{
    const char *package = w->x->attempt ? w->x->attempt->package : NULL;
    const struct py_dist *dist = package && d->m->env ? py_env_by_dist(d->m->env, package) : NULL;
    diag_unmet_list list = dist && !f->behind ? diag_unmet(d, package) : (diag_unmet_list){0};
    const char *specs = "", *packages, *folders = "", *unknown, *vendor;
    bool serves = false;
    for (size_t i = 0; i < list.n; i++) {
        bool brings = requirement_brings(w, &list.items[i]);
        if (brings || list.items[i].absent) {
            specs = diag_with_word(d, specs, " ", diag_quote(d, list.items[i].declared));
            VEC_PUSH(d->a, &f->declared, list.items[i].declared);
        }
        serves = serves || brings;
    }
    if (!serves) {
        f->declared.n = 0;
        return false;
    }
    f->declaring = dist->name_normal;
    wanted_of_manager(w, KB_MANAGER_PIP, &packages, &folders, &unknown, &vendor);
    const char *command = diag_pip(d, specs);
    size_t before = f->repairs.n;
    diag_repair(d, f, DIAG_REPAIR_PACKAGE,
                *folders ? diag_findable_command(d, command, folders) : command,
                "Install the requirements of %s %s that are not installed%s.", dist->name_normal,
                dist->version ? dist->version : "",
                *folders ? ", and make them findable before the program starts" : "");
    if (*folders && f->repairs.n > before) {
        f->repairs.items[before].folders = folders;
        f->repairs.items[before].bare = command;
    }
    return true;
}

/* The row of a library that is asked for without its version, of the asker's CUDA: libcublas.so. */
static const struct kb_provide *row_of_link(const struct wanted *w, const char *name)
{
    const char *pattern = arena_printf(w->d->a, "%s.*", name);
    for (size_t i = 0; w->cuda_major > 0 && i < w->provides.n; i++) {
        const struct kb_provide *row = &w->provides.rows[i];
        if (row->cuda_major == w->cuda_major && str_glob(pattern, row->soname)) {
            return row;
        }
    }
    return NULL;
}

/* The name without a version is a link for developers, which no wheel brings: pip's library gets
 * one beside it. False: a name has a version, or no wheel that is known. */
static bool repair_by_link(struct diag *d, struct diag_finding *f, const struct wanted *w)
{
    const char *site = d->m->env ? diag_pip_folder(d->m, site_of(d, w->x)) : NULL;
    const char *packages = "", *links = "", *folders = "";
    for (size_t i = 0; i < w->names.n; i++) {
        const char *name = w->names.items[i];
        const struct kb_provide *row = ends_with(name, ".so") ? row_of_link(w, name) : NULL;
        const struct kb_provider *v = row ? diag_wanted_provider(w, row, KB_MANAGER_PIP) : NULL;
        if (!site || !v || !v->folder || !diag_uses_manager(d, KB_MANAGER_PIP)) {
            return false;
        }
        const char *folder = path_join(d->a, site, v->folder);
        const char *real = arena_strndup(d->a, row->soname, strcspn(row->soname, "*"));
        packages = diag_with_word(d, packages, " ", diag_quote(d, diag_wanted_pinned(w, v)));
        folders = diag_with_word(d, folders, ":", folder);
        links = arena_printf(d->a, "%s && ln -sf %s %s", links, real,
                             diag_quote(d, path_join(d->a, folder, name)));
    }
    const char *install = arena_printf(d->a, "%s%s", diag_pip(d, packages), links);
    diag_repair(d, f, DIAG_REPAIR_PACKAGE, diag_findable_command(d, install, folders),
                "Install the library, link it to the name without a version that %s asks for, and "
                "make it findable before the program starts.",
                w->x->attempt && w->x->attempt->package ? w->x->attempt->package
                                                        : path_base(diag_caller(w->x)));
    return true;
}

/* Where an installed package lists the library and no file is: installing that package as if it
 * were missing would change nothing. Of several places one where the asker looks. */
static const char *deleted_place(struct diag *d, const struct diag_failure *x)
{
    const char **paths = NULL, *found = NULL;
    size_t n = d->m->env ? py_recorded_libraries(d->m->env, x->name, &paths) : 0;
    for (size_t i = 0; i < n; i++) {
        bool looks = diag_searched(d, x->request, path_dir(d->a, paths[i]));
        struct stat st;
        int rc = root_lstat(d->m->root, paths[i], &st);
        if ((rc == -ENOENT || rc == -ENOTDIR) && (!found || looks)) {
            found = paths[i];
            if (looks) {
                break;
            }
        }
    }
    return found;
}

/* The folder of a file in which the asker does not look; NULL if it does. */
static const char *unsearched_folder(struct diag *d, const struct diag_failure *x, const char *path)
{
    const struct wanted w = {.d = d, .x = x};
    const char *folder = path_dir(d->a, path), *site = d->m->env ? site_of(d, x) : NULL;
    size_t n = site ? strlen(site) : 0;
    bool below = n && strncmp(folder, site, n) == 0 && folder[n] == '/';
    bool looks = !x->request || diag_searched(d, x->request, folder) ||
                 (below && opens_from(&w, x->name, folder + n + 1));
    return looks ? NULL : folder;
}

void diag_repair_findable(struct diag *d, struct diag_finding *f, const struct diag_failure *x,
                          const char *path, size_t first)
{
    const char *folder = unsearched_folder(d, x, path);
    for (size_t i = first; folder && i < f->repairs.n; i++) {
        struct diag_repair *r = &f->repairs.items[i];
        size_t n = strlen(r->text);
        if (!r->command || (!r->folders && (!n || r->text[n - 1] != '.'))) {
            continue;
        }
        if (!r->folders) {
            r->bare = r->command;
            r->text = arena_printf(
                d->a, "%.*s, and %s: %s does not look in its folder.", (int)n - 1, r->text,
                diag_hook_again(d->m) ? "make the start-up hook again, which loads it"
                                      : "make it findable before the program starts",
                diag_asker(d, x));
        }
        r->folders = diag_with_word(d, r->folders ? r->folders : "", ":", folder);
        r->command = diag_findable_command(d, r->bare, r->folders);
    }
}

/* Where pip puts a library for the asking package, of which `fits` is true; NULL: nowhere. */
static const char *place_of_wheel(struct diag *d, const struct diag_failure *x, const char *name,
                                  bool (*fits)(struct diag *d, const struct diag_failure *x,
                                               const char *path))
{
    struct gm_err err;
    struct wanted w = {.d = d, .x = x, .cuda_major = -1};
    const char *site = d->m->env ? site_of(d, x) : NULL;
    if (!site || kb_provides(d->m->kb, &w.provides, &err) < 0) {
        return NULL;
    }
    const struct kb_provide *row = diag_wanted_provide(&w, name);
    for (size_t i = 0; row && i < row->n_providers; i++) {
        const struct kb_provider *v = &row->providers[i];
        const char *dir =
            v->manager == KB_MANAGER_PIP && v->folder ? path_join(d->a, site, v->folder) : NULL;
        const char *path = dir ? path_join(d->a, dir, name) : NULL;
        if (path && fits(d, x, path)) {
            return path;
        }
    }
    return NULL;
}

static bool is_denied_there(struct diag *d, const struct diag_failure *x, const char *path)
{
    (void)x;
    return model_denied_at(d->m, path);
}

const char *diag_denied_place(struct diag *d, const struct diag_failure *x)
{
    return place_of_wheel(d, x, x->name, is_denied_there);
}

static bool is_asked_for_there(struct diag *d, const struct diag_failure *x, const char *path)
{
    (void)d;
    return strcmp(path, x->name) == 0;
}

const char *diag_library_of_wheel(struct diag *d, const struct diag_failure *x)
{
    const char *base = path_base(x->name);
    return *x->name == '/' && place_of_wheel(d, x, base, is_asked_for_there) ? base : NULL;
}

/* Who has it, where the system's own manager is not known to get it. */
static const char *who_has(const struct wanted *w, const struct kb_provide *row)
{
    const char *id = host_system(w->d->m->root, w->d->a).id;
    for (size_t i = 0; id && row && i < row->n_providers; i++) {
        const struct kb_provider *v = &row->providers[i];
        if (diag_is_of_system(w->d, v->manager) && v->repository &&
            strcmp(v->repository, "cuda") == 0) {
            return " NVIDIA publishes it, but gpumend knows no release of it for this system.";
        }
    }
    return id && row ? " gpumend does not know its name in this system's own repositories." : "";
}

static void other_add(struct wanted *w, const char *name)
{
    const struct kb_provide *row = diag_wanted_provide(w, name);
    bool wanted = !row || !diag_wanted_provider(w, row, KB_MANAGER_PIP);
    for (size_t i = 0; i < w->names.n && !wanted; i++) {
        wanted = strcmp(w->names.items[i], name) == 0;
    }
    if (!wanted) {
        VEC_PUSH(w->d->a, &w->names, name);
    }
}

/* What else of the same package is missing, though it is another finding or only a warning by
 * itself: one command installs it along, as the next check would ask for it. */
static void follow_others(const struct diag_finding *f, struct wanted *w)
{
    const char *package = w->x->attempt ? w->x->attempt->package : NULL;
    for (size_t i = 0; package && f->severity == DIAG_ERROR && i < w->d->pending.n; i++) {
        const struct diag_pending *o = &w->d->pending.items[i];
        const char *other = o->failure.attempt ? o->failure.attempt->package : NULL;
        if (o->elsewhere || o->finding == f || o->finding->severity == DIAG_NOTE ||
            o->finding->cause != f->cause || !other || strcmp(other, package) != 0) {
            continue;
        }
        other_add(w, o->finding->culprit);
        for (size_t k = 0; k < o->finding->likewise.n; k++) {
            other_add(w, o->finding->likewise.items[k]);
        }
    }
}

void diag_repair_install(struct diag *d, struct diag_finding *f, const struct diag_failure *x,
                         const char *beside)
{
    struct wanted w;
    size_t before = f->repairs.n;
    if (*x->name == '/' && x->attempt && x->attempt->package) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Install a release of %s that brings this file.",
                    x->attempt->package);
        return;
    }
    if (!diag_wanted_add(d, f, x, &w)) {
        return;
    }
    w.beside = *beside ? beside : NULL;
    const char *place = deleted_place(d, x);
    if (place) {
        diag_repair_reinstall(d, f, place);
        diag_repair_findable(d, f, x, place, 0);
        return;
    }
    if (host_manager(d->m->root, d->a) == HOST_APK) {
        diag_repair(
            d, f, DIAG_REPAIR_TEXT, NULL,
            "Use a system with glibc (Debian, Ubuntu, Fedora, UBI): Alpine has musl, for which "
            "neither GPU vendors' libraries nor CUDA wheels are built.");
        return;
    }
    const char *asking =
        x->attempt && x->attempt->package ? x->attempt->package : path_base(diag_caller(x));
    if (diag_repair_of_l4t(d, f, x->name, diag_is_image(d->m)) ||
        diag_repair_of_jetpack(d, f, diag_wanted_provide(&w, x->name), x->name, asking)) {
        return;
    }
    if (repair_declared(d, f, &w)) {
        return;
    }
    follow_others(f, &w);
    diag_wanted_follow(f, &w);
    static const enum kb_manager managers[] = {KB_MANAGER_CONDA,  KB_MANAGER_PIP,
                                               KB_MANAGER_APT,    KB_MANAGER_DNF,
                                               KB_MANAGER_PACMAN, KB_MANAGER_ZYPPER};
    enum { N_MANAGERS = sizeof managers / sizeof *managers };
    /* What leaves a library missing is said only where nothing brings them all. */
    for (size_t k = 0; k < 2 && f->repairs.n == before; k++) {
        for (size_t i = 0; i < N_MANAGERS; i++) {
            /* Into an environment goes what its own managers know; the system has the rest. */
            if (!d->m->env || i < 2 || f->repairs.n == before) {
                repair_by_manager(f, &w, managers[i], k == 0);
            }
        }
    }
    if (diag_wanted_provider(&w, diag_wanted_provide(&w, x->name), KB_MANAGER_DRIVER)) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "%s comes with the driver: install that.",
                    x->name);
    }
    const char *title = diag_library_title(d, x->name);
    if (f->repairs.n == before && title && is_there_otherwise(&w, x->name)) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Install a release of %s that can use the %s of this system, or, where the "
                    "program finds it, a release of %s that contains %s: the system's package "
                    "manager has installed the one that it has.",
                    asking, title, title, x->name);
    } else if (f->repairs.n == before && !repair_by_link(d, f, &w)) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Install the package that provides %s%s.%s",
                    x->name, title ? arena_printf(d->a, " (%s)", title) : "",
                    who_has(&w, diag_wanted_provide(&w, x->name)));
    }
}

const struct kb_import *diag_import_row(struct diag *d, const struct py_dist *dist)
{
    for (size_t i = 0; i < d->m->imports.n; i++) {
        const struct kb_import *row = &d->m->imports.rows[i];
        if (strcmp(row->package, dist->name_normal) == 0 &&
            model_version_fits(d->a, row->versions, dist->version)) {
            return row;
        }
    }
    return NULL;
}
