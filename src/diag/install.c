/* Which packages to install, with which words, and where their libraries will lie. */
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "diag/internal.h"
#include "host/manager.h"
#include "kb/libver.h"
#include "py/dist.h"
#include "py/owner.h"

/* ------------------------------------------------------------------ pip */

static bool uses_uv(const struct model *m)
{
    struct py_env *env = m->env;
    return env && env->kind != PY_ENV_SYSTEM && !py_env_by_dist(env, "pip");
}

static const char *python_of(struct model *m)
{
    const struct py_env *env = m->env;
    return diag_shell_word(m->arena, env && env->executable ? env->executable : "python3");
}

const char *diag_copy_command(struct arena *a, const char *words, const char *file)
{
    const char *from = diag_shell_word(a, file);
    const char *copy = diag_shell_word(a, arena_printf(a, "%s.gpumend-new", file));
    return arena_printf(a, "cp -p %s %s && %s %s && mv -f %s %s", from, copy, words, copy, copy,
                        from);
}

static bool has_path(struct model *m, const char *path)
{
    struct stat st;
    return root_stat(m->root, path, &st) == 0;
}

bool diag_is_managed(struct model *m)
{
    const struct py_env *env = m->env;
    bool is_base = env && env->base_prefix && strcmp(env->prefix, env->base_prefix) == 0;
    return is_base && env->stdlib && env->executable &&
           has_path(m, path_join(m->arena, env->stdlib, "EXTERNALLY-MANAGED"));
}

bool diag_is_image(struct model *m)
{
    return has_path(m, "/.dockerenv") || has_path(m, "/run/.containerenv") || m->host_elsewhere ||
           (!m->root->is_host && !m->host);
}

/* What has to be installed first, by the distribution's own manager: "apt-get install -y X && ". */
static const char *first_install(struct model *m, bool venv)
{
    const struct host_manager_words *w = host_manager_words(host_manager(m->root, m->arena));
    const char *package = w ? venv ? w->venv : w->pip : NULL;
    return package ? arena_printf(m->arena, "%s %s && ", w->build, package) : "";
}

/* The distribution's own Python may have no pip, and pip may refuse it (PEP 668). What is thrown
 * away with an image is changed all the same; elsewhere an environment over it takes the packages.
 */
static const char *system_pip(struct model *m, const char *arguments)
{
    const char *python = python_of(m);
    bool managed = diag_is_managed(m), has_pip = py_env_by_dist(m->env, "pip") != NULL;
    if (!managed || diag_is_image(m)) {
        return arena_printf(m->arena, "%s%s -m pip install %s%s",
                            has_pip ? "" : first_install(m, false), python,
                            managed ? "--break-system-packages " : "", arguments);
    }
    bool can_make = has_path(m, path_join(m->arena, m->env->stdlib, "ensurepip"));
    return arena_printf(m->arena,
                        "%s%s -m venv --system-site-packages " DIAG_NEW_VENV " && " DIAG_NEW_VENV
                        "/bin/python -m pip install %s",
                        can_make ? "" : first_install(m, true), python, arguments);
}

/* Whether the commands make an environment over the distribution's own Python. */
static bool makes_environment(struct model *m)
{
    return m->env && m->env->kind == PY_ENV_SYSTEM && diag_is_managed(m) && !diag_is_image(m);
}

const char *diag_pip_folder(struct model *m, const char *beside)
{
    if (makes_environment(m)) {
        return m->env->purelib;
    }
    return m->env ? py_env_pip_folder(m->env, beside) : NULL;
}

const char *diag_prepend_folders(struct model *m, const char *folders)
{
    struct arena *a = m->arena;
    bool moved = makes_environment(m);
    const char *words = "";
    for (struct str rest = str_of(folders); rest.s;) {
        const char *folder = str_dup(a, str_cut(&rest, ':'));
        size_t n = moved && m->env->purelib && !has_path(m, folder) ? strlen(m->env->purelib) : 0;
        const char *below =
            n && strncmp(folder, m->env->purelib, n) == 0 && folder[n] == '/' ? folder + n : NULL;
        const char *word = below ? arena_printf(a, "\"$PWD\"/%s/lib/python%d.%d/site-packages%s",
                                                &DIAG_NEW_VENV[strlen("./")], m->env->major,
                                                m->env->minor, diag_shell_word(a, below))
                                 : diag_shell_word(a, folder);
        words = arena_printf(a, "%s%s%s", words, *words ? ":" : "", word);
    }
    return arena_printf(a, "export LD_LIBRARY_PATH=%s\"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\"",
                        words);
}

const char *diag_pip_command(struct model *m, const char *arguments)
{
    if (m->env && m->env->kind == PY_ENV_SYSTEM) {
        return system_pip(m, arguments);
    }
    return arena_printf(m->arena,
                        uses_uv(m) ? "uv pip install --python %s %s" : "%s -m pip install %s",
                        python_of(m), arguments);
}

/* uv knows where PyTorch serves each build from (its option --torch-backend; uv, "Using uv with
 * PyTorch"); pip would need the address. */
const char *diag_torch_command(struct diag *d, const char *release, const char *build)
{
    return arena_printf(d->a,
                        "uv pip install --python %s --reinstall-package torch "
                        "--torch-backend=%s torch==%s",
                        python_of(d->m), build, diag_quote(d, release));
}

const char *diag_pip(struct diag *d, const char *arguments)
{
    return diag_pip_command(d->m, arguments);
}

const char *diag_pip_remove(struct diag *d, const char *packages)
{
    return arena_printf(d->a,
                        uses_uv(d->m) ? "uv pip uninstall --python %s %s"
                        : diag_is_managed(d->m) && diag_is_image(d->m)
                            ? "%s -m pip uninstall --break-system-packages -y %s"
                            : "%s -m pip uninstall -y %s",
                        python_of(d->m), packages);
}

/* PyTorch's own builds ("2.5.1+cu124") are not in pip's index. */
static bool is_torch_build(const char *name, const char *build)
{
    static const char *const names[] = {"torch", "torchvision", "torchaudio"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && build; i++) {
        found = found || strcmp(name, names[i]) == 0;
    }
    return found;
}

const char *diag_reinstall_command(struct model *m, const char *owner, bool *ret_plain)
{
    struct arena *a = m->arena;
    struct str rest = str_of(owner);
    const char *name = str_dup(a, str_cut(&rest, ' ')), *version = rest.n ? rest.s : NULL;
    const struct py_dist *dist = m->env ? py_env_by_dist(m->env, name) : NULL;
    const char *build = version ? strchr(version, '+') : NULL;
    const char *pin = version ? arena_printf(a, "%s==%s", name, version) : name;
    *ret_plain = false;
    if (dist && dist->kind == PY_DIST_CONDA) {
        return arena_printf(
            a, "conda install -p %s --force-reinstall --no-deps %s",
            diag_shell_word(a, m->env->prefix),
            diag_shell_word(a, version ? arena_printf(a, "%s=%s", name, version) : name));
    }
    if (is_torch_build(name, build)) {
        return arena_printf(a,
                            "uv pip install --python %s --reinstall-package %s --no-deps "
                            "--torch-backend=%s %s",
                            python_of(m), name, diag_shell_word(a, build + 1),
                            diag_shell_word(a, pin));
    }
    *ret_plain = true;
    return diag_pip_command(
        m, arena_printf(a, "--force-reinstall --no-deps %s", diag_shell_word(a, pin)));
}

void diag_repair_reinstall(struct diag *d, struct diag_finding *f, const char *path)
{
    const char *owner = model_owner(d->m, path);
    if (!owner) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Replace or remove %s; no package of this environment records it.", path);
        return;
    }
    diag_evidence(d, f, "the file is recorded by %s", owner);
    for (size_t i = 0; i < f->repairs.n; i++) {
        const char *again = f->repairs.items[i].reinstall;
        if (again && strcmp(again, owner) == 0) {
            return; // its text may name a folder by now
        }
    }
    size_t before = f->repairs.n;
    bool plain = false;
    diag_repair(d, f, DIAG_REPAIR_PACKAGE, diag_reinstall_command(d->m, owner, &plain),
                "Install %s again.", owner);
    if (f->repairs.n > before) {
        f->repairs.items[before].reinstall = owner;
    }
}

/* ------------------------------------------------------------------ what a release was built for
 */

static const struct kb_compat *compat_of(struct diag *d, const char *package)
{
    struct kb_compats compats;
    struct gm_err err;
    const struct py_dist *dist = package && d->m->env ? py_env_by_dist(d->m->env, package) : NULL;
    if (!dist || kb_compats(d->m->kb, &compats, &err) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < compats.n; i++) {
        if (strcmp(compats.rows[i].package, dist->name_normal) == 0 &&
            model_version_fits(d->a, compats.rows[i].versions, dist->version)) {
            return &compats.rows[i];
        }
    }
    return NULL;
}

struct wanted {
    struct diag *d;
    const struct diag_failure *x;
    const struct kb_compat *compat; // of the asking package, or NULL
    struct kb_provides provides;
    int cuda_major; // -1: not known
    VEC(const char *) names;
    const char *beside; // folders that have to be searched as well, or NULL
};

/* What the asking package declares of the package that provides the name, where such a version can
 * provide it; or NULL. */
static const char *declared(const struct wanted *w, const struct kb_provider *v)
{
    struct diag *d = w->d;
    const char *name = NULL, *text = NULL;
    if (!w->x->attempt || !w->x->attempt->package ||
        !diag_requirement(d, w->x->attempt->package, v->package, &name, &text) || !*text) {
        return NULL;
    }
    bool one = starts_with(text, "==") && !strpbrk(text, ",*");
    return !v->versions ? text
           : !one       ? arena_printf(d->a, "%s,%s", v->versions, text)
           : model_version_fits(d->a, v->versions, text + strlen("==")) ? text
                                                                        : NULL;
}

/* The version to ask for: what a row of the asking package says, what its metadata declare, or
 * what provides the name. */
static const char *pinned(const struct wanted *w, const struct kb_provider *v)
{
    struct diag *d = w->d;
    const struct kb_compat *c = w->compat;
    const char *package = v->package;
    if (strstr(package, "cudnn") && c && c->cudnn && strchr(c->cudnn, '.')) {
        size_t dots = 0;
        for (const char *s = c->cudnn; *s; s++) {
            dots += *s == '.';
        }
        return arena_printf(d->a, dots >= 3 ? "%s==%s" : "%s==%s.*", package, c->cudnn);
    }
    for (size_t i = 0; c && i < c->n_needs; i++) {
        if (strcmp(c->needs[i].package, package) == 0 && c->needs[i].versions) {
            return arena_printf(d->a, "%s%s", package, c->needs[i].versions);
        }
    }
    const char *versions = declared(w, v);
    versions = versions ? versions : v->versions;
    return versions ? arena_printf(d->a, "%s%s", package, versions) : package;
}

/* ------------------------------------------------------------------ who provides a library */

/* The one CUDA major version of which the knowledge base knows the name; -1 if there are several
 * (libcurand.so.10 serves CUDA 11, 12 and 13) or none. */
static int major_by_name(const struct wanted *w, const char *name)
{
    int major = -1;
    for (size_t i = 0; i < w->provides.n; i++) {
        const struct kb_provide *row = &w->provides.rows[i];
        if (row->cuda_major > 0 && str_glob(row->soname, name)) {
            if (major > 0 && major != row->cuda_major) {
                return -1;
            }
            major = row->cuda_major;
        }
    }
    return major;
}

static bool wanted_add(struct diag *d, struct diag_finding *f, const struct diag_failure *x,
                       struct wanted *w)
{
    struct gm_err err;
    *w = (struct wanted){.d = d,
                         .x = x,
                         .cuda_major = -1,
                         .compat = compat_of(d, x->attempt ? x->attempt->package : NULL)};
    if (kb_provides(d->m->kb, &w->provides, &err) < 0) {
        return false;
    }
    VEC_PUSH(d->a, &w->names, f->culprit);
    for (size_t i = 0; i < f->likewise.n; i++) {
        VEC_PUSH(d->a, &w->names, f->likewise.items[i]);
    }
    w->cuda_major = w->compat ? w->compat->cuda_major : -1;
    for (size_t i = 0; i < w->names.n && w->cuda_major < 0; i++) {
        w->cuda_major = major_by_name(w, w->names.items[i]);
    }
    return true;
}

static const struct kb_provide *provide_of(const struct wanted *w, const char *name)
{
    const struct kb_provide *first = NULL;
    for (size_t i = 0; i < w->provides.n; i++) {
        const struct kb_provide *row = &w->provides.rows[i];
        if (str_glob(row->soname, name)) {
            if (row->cuda_major == w->cuda_major) {
                return row;
            }
            first = first ? first : row;
        }
    }
    return first;
}

const char *diag_library_title(struct diag *d, const char *name)
{
    struct gm_err err;
    struct wanted w = {.d = d, .cuda_major = -1};
    const struct kb_provide *row =
        kb_provides(d->m->kb, &w.provides, &err) < 0 ? NULL : provide_of(&w, name);
    return row ? row->library : NULL;
}

/* "nvidia-cudnn-cu12" does not serve CUDA 13. */
static bool for_this_cuda(const struct wanted *w, const char *package)
{
    const char *suffix = w->cuda_major == 11 ? "-cu11" : w->cuda_major == 12 ? "-cu12" : "-cu13";
    return w->cuda_major < 0 || !strstr(package, "-cu1") || ends_with(package, suffix);
}

/* Whether this system's own repositories have the package. A tree that does not say what it is may
 * be one that has. */
static bool is_of_this_system(const struct wanted *w, const struct kb_provider *v)
{
    const char *id = v->systems.n ? host_system(w->d->m->root, w->d->a).id : NULL;
    bool found = !id;
    for (size_t i = 0; i < v->systems.n && !found; i++) {
        found = strcmp(v->systems.items[i], id) == 0;
    }
    return found;
}

static const struct kb_provider *provider_of(const struct wanted *w, const struct kb_provide *row,
                                             enum kb_manager manager)
{
    for (size_t i = 0; row && i < row->n_providers; i++) {
        const struct kb_provider *v = &row->providers[i];
        if (v->manager == manager && is_of_this_system(w, v) &&
            (manager != KB_MANAGER_PIP || for_this_cuda(w, v->package))) {
            return v;
        }
    }
    for (size_t i = 0; row && manager == KB_MANAGER_ZYPPER && i < row->n_providers; i++) {
        const struct kb_provider *v = &row->providers[i];
        if (v->manager == KB_MANAGER_DNF && v->repository) {
            return v; // the same package, in the vendor's repository for SUSE
        }
    }
    return NULL;
}

/* The set of versions in a requirement: ">=9,<10" of "nvidia-cudnn-cu12>=9,<10"; NULL: any. */
static const char *versions_of(const char *spec)
{
    const char *set = spec + strcspn(spec, "<>=!~");
    return *set ? set : NULL;
}

/* Whether the asker's process has it, or finds it where the asker looked. */
static bool is_in_reach(const struct wanted *w, const char *name)
{
    struct diag *d = w->d;
    struct model_library *list = NULL;
    const struct model_process *p = w->x->process;
    if (p && p->ldso && ldso_find_object(p->ldso, name)) {
        return true;
    }
    for (size_t i = 0, n = model_libraries(d->m, name, &list); i < n; i++) {
        if (list[i].usable && diag_searched(d, w->x->request, path_dir(d->a, list[i].path))) {
            return true;
        }
    }
    return false;
}

static bool is_wanted(const struct wanted *w, const char *name)
{
    for (size_t i = 0; i < w->names.n; i++) {
        if (strcmp(w->names.items[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* What the packages to come open themselves: otherwise the repair leads to the next finding. */
static void wanted_follow(struct diag_finding *f, struct wanted *w)
{
    struct diag *d = w->d;
    for (size_t i = 0; d->m->env && i < w->names.n; i++) {
        const struct kb_provider *v =
            provider_of(w, provide_of(w, w->names.items[i]), KB_MANAGER_PIP);
        const struct kb_release *r =
            v ? diag_release_for(d, v->package, versions_of(pinned(w, v)), 0) : NULL;
        diag_opened_list opened = {0};
        if (r) {
            opened = diag_opened_by(d->m, v->package, r->version);
        }
        for (size_t k = 0; k < opened.n; k++) {
            const struct diag_opened *o = &opened.items[k];
            if (!is_wanted(w, o->name) && !is_in_reach(w, o->name)) {
                diag_evidence(d, f, "%s of %s %s opens %s (knowledge base, row %s)", o->by,
                              v->package, r->version, o->name, o->row);
                VEC_PUSH(d->a, &w->names, o->name);
            }
        }
    }
}

/* ------------------------------------------------------------------ the command */

/* Whose packages the system's own manager takes. */
static bool is_of_system(const struct diag *d, enum kb_manager manager)
{
    static const enum kb_manager own[HOST_MANAGERS] = {
        [HOST_APT] = KB_MANAGER_APT,       [HOST_DNF] = KB_MANAGER_DNF,
        [HOST_MICRODNF] = KB_MANAGER_DNF,  [HOST_YUM] = KB_MANAGER_DNF,
        [HOST_ZYPPER] = KB_MANAGER_ZYPPER, [HOST_PACMAN] = KB_MANAGER_PACMAN,
        [HOST_APK] = KB_MANAGER_DRIVER, // it has none of them
    };
    enum host_manager system = host_manager(d->m->root, d->a);
    if (system != HOST_MANAGER_NONE) {
        return own[system] == manager;
    }
    /* A system that os-release names and that has neither of them: NixOS, Void. */
    bool is_another = host_system(d->m->root, d->a).id != NULL;
    return !is_another && (manager == KB_MANAGER_APT || manager == KB_MANAGER_DNF);
}

static bool uses_manager(const struct diag *d, enum kb_manager manager)
{
    const struct py_env *env = d->m->env;
    return manager == KB_MANAGER_PIP     ? env != NULL
           : manager == KB_MANAGER_CONDA ? env && env->kind == PY_ENV_CONDA
                                         : manager != KB_MANAGER_DRIVER && is_of_system(d, manager);
}

/* Appends a word once. */
static const char *with_word(struct diag *d, const char *list, const char *separator,
                             const char *word)
{
    const char *fence = arena_printf(d->a, "%s%s%s", separator, list, separator);
    return strstr(fence, arena_printf(d->a, "%s%s%s", separator, word, separator))
               ? list
               : arena_printf(d->a, "%s%s%s", list, *list ? separator : "", word);
}

/* ------------------------------------------------------------------ a vendor's repository */

/* The row for this system; NULL: none is known. */
static const struct kb_repository *repository_of(struct diag *d, const char *vendor)
{
    struct kb_repositorys list;
    struct gm_err err;
    struct host_system s = host_system(d->m->root, d->a);
    if (!s.id || !s.version || kb_repositorys(d->m->kb, &list, &err) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < list.n; i++) {
        const struct kb_repository *row = &list.rows[i];
        size_t n = strlen(row->version);
        bool fits = strcmp(row->vendor, vendor) == 0 && starts_with(s.version, row->version) &&
                    (!s.version[n] || s.version[n] == '.');
        for (size_t k = 0; fits && k < row->systems.n; k++) {
            if (strcmp(row->systems.items[k], s.id) == 0) {
                return row;
            }
        }
    }
    return NULL;
}

/* Whether the system has a list of the vendor's already: they are called cuda-SYSTEM, and rocm and
 * amdgpu. */
static bool has_repository(struct diag *d, const char *vendor)
{
    bool amd = strcmp(vendor, "rocm") == 0;
    static const char *const folders[] = {"/etc/apt/sources.list.d", "/etc/yum.repos.d",
                                          "/etc/zypp/repos.d"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct root_dir files;
        if (root_list(d->m->root, d->a, folders[i], 4096, NULL, &files) < 0) {
            continue;
        }
        for (size_t k = 0; k < files.n; k++) {
            if (starts_with(files.names[k], vendor) ||
                (amd && starts_with(files.names[k], "amdgpu"))) {
                return true;
            }
        }
    }
    return false;
}

static bool is_arm(const struct diag *d)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct ldso_process *p = d->m->processes.items[i]->ldso;
        if (p && p->main) {
            return p->main->file->image.machine == EM_AARCH64;
        }
    }
    return false;
}

/* What makes it known before a package is installed, "COMMAND && "; "" where nothing is needed, or
 * nothing is known. microdnf and yum have no command for it, and dnf's has changed: a file is one
 * for all (yum.conf(5), [repository] OPTIONS). */
static const char *add_repository(struct diag *d, const char *vendor)
{
    const struct kb_repository *row = has_repository(d, vendor) ? NULL : repository_of(d, vendor);
    const struct host_manager_words *w = host_manager_words(host_manager(d->m->root, d->a));
    if (!row || !w) {
        return "";
    }
    const char *address = kb_fill(d->a, row->address, "{arch}", is_arm(d) ? "sbsa" : "x86_64"),
               *file = path_base(address);
    const char *curl = row->manager == KB_MANAGER_ZYPPER || has_path(d->m, "/usr/bin/curl")
                           ? ""
                           : arena_printf(d->a, "%s %s && ", w->build, w->curl);
    switch (row->manager) {
    case KB_MANAGER_APT:
        return arena_printf(d->a, "%scurl -fsSLO %s && dpkg -i %s && apt-get update && ", curl,
                            address, file);
    case KB_MANAGER_DNF:
        return arena_printf(d->a, "%scurl -fsSLo /etc/yum.repos.d/%s %s && ", curl, file, address);
    case KB_MANAGER_ZYPPER:
        return arena_printf(d->a,
                            "zypper --non-interactive addrepo %s && zypper "
                            "--gpg-auto-import-keys refresh && ",
                            address);
    case KB_MANAGER_PIP:
    case KB_MANAGER_CONDA:
    case KB_MANAGER_PACMAN:
    case KB_MANAGER_DRIVER: break;
    }
    return "";
}

/* By the manager that the system has: where none was seen, by the one that a package is for. */
static const char *system_command(struct diag *d, enum kb_manager manager, const char *packages,
                                  const char *vendor)
{
    enum host_manager system = host_manager(d->m->root, d->a);
    system = system != HOST_MANAGER_NONE ? system : manager == KB_MANAGER_DNF ? HOST_DNF : HOST_APT;
    return arena_printf(d->a, "%s%s %s", vendor ? add_repository(d, vendor) : "",
                        host_manager_words(system)->install, packages);
}

static const char *command_of(struct diag *d, enum kb_manager manager, const char *packages,
                              const char *vendor)
{
    switch (manager) {
    case KB_MANAGER_PIP: return diag_pip(d, packages);
    case KB_MANAGER_CONDA:
        return arena_printf(d->a, "conda install -p %s -c conda-forge %s",
                            diag_quote(d, d->m->env->prefix), packages);
    case KB_MANAGER_APT:
    case KB_MANAGER_DNF:
    case KB_MANAGER_PACMAN:
    case KB_MANAGER_ZYPPER: return system_command(d, manager, packages, vendor);
    case KB_MANAGER_DRIVER: break;
    }
    return NULL;
}

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
    for (size_t i = 0; row && i < row->n_steps; i++) {
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

/* The name that a package of CUDA has in the vendor's repository for this system: "libcublas-12-4"
 * is "libcublas-12-8" where NVIDIA built packages of 12.8 and none of 12.4. NULL: of that major
 * version none is known to be there. Without os-release nothing is known of the system. */
static const char *name_in_repository(struct diag *d, const struct kb_provider *v)
{
    const char *last = strrchr(v->package, '-'), *first = last;
    while (first && first > v->package && first[-1] != '-') {
        first--;
    }
    uint64_t major, minor;
    bool versioned = v->repository && strcmp(v->repository, "cuda") == 0 && last && first < last &&
                     str_u64(str_of(last + 1), &minor) &&
                     str_u64((struct str){first, (size_t)(last - first)}, &major);
    if (!versioned || !host_system(d->m->root, d->a).id) {
        return v->package;
    }
    const struct kb_repository *row = repository_of(d, v->repository);
    const char *best = NULL;
    for (size_t i = 0; row && i < row->releases.n; i++) {
        struct str rest = str_of(row->releases.items[i]), its = str_cut(&rest, '.');
        uint64_t number;
        if (str_u64(its, &number) && number == major) {
            best = arena_printf(d->a, "%.*s%u-" STR_FMT, (int)(first - v->package), v->package,
                                (unsigned)major, STR_ARG(rest));
            if (strcmp(best, v->package) == 0) {
                return best;
            }
        }
    }
    return best;
}

/* Whether the start-up hook loads the file once it is there. */
static bool hook_loads(const struct diag *d, const char *path)
{
    const struct model_hook *h = &d->m->hook;
    for (size_t i = 0; i < h->n_libraries; i++) {
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
    *ret_packages = *ret_folders = *ret_unknown = "";
    *ret_vendor = NULL;
    for (size_t i = 0; i < w->names.n; i++) {
        const struct kb_provide *row = provide_of(w, w->names.items[i]);
        const struct kb_provider *v = provider_of(w, row, manager);
        bool of_system = manager != KB_MANAGER_PIP && manager != KB_MANAGER_CONDA;
        if (!v || (of_system && row->major < 0 && is_there_otherwise(w, w->names.items[i]))) {
            *ret_unknown = with_word(d, *ret_unknown, " ", w->names.items[i]);
            continue;
        }
        const char *spec = manager == KB_MANAGER_PIP ? pinned(w, v) : name_in_repository(d, v);
        if (!spec) {
            *ret_unknown = with_word(d, *ret_unknown, " ", w->names.items[i]);
            continue;
        }
        *ret_packages = with_word(d, *ret_packages, " ", diag_quote(d, spec));
        *ret_vendor = v->repository ? v->repository : *ret_vendor;
        const char *folder = site && v->folder ? path_join(d->a, site, v->folder) : NULL;
        if (folder && !diag_searched(d, w->x->request, folder) &&
            !(strcmp(site, own) == 0 && opens_from(w, w->names.items[i], v->folder)) &&
            !hook_loads(d, path_join(d->a, folder, w->names.items[i]))) {
            *ret_folders = with_word(d, *ret_folders, ":", folder);
        }
    }
    for (struct str rest = str_of(**ret_folders ? w->beside : NULL); rest.s;) {
        *ret_folders = with_word(d, *ret_folders, ":", str_dup(d->a, str_cut(&rest, ':')));
    }
}

/* What has to be known of the vendor's repository, where the command does not add it. AMD's has a
 * folder for each release, and which one fits is decided by what the program was built with. */
static const char *repository_words(struct diag *d, const char *vendor)
{
    if (!vendor || !host_system(d->m->root, d->a).id || has_repository(d, vendor) ||
        repository_of(d, vendor)) {
        return "";
    }
    return strcmp(vendor, "rocm") == 0
               ? " The packages have these names in AMD's repository, which has a folder for each "
                 "release of ROCm: first add that of the release that the program was built for."
               : " The packages are in NVIDIA's repository; none is known for this system.";
}

static void repair_by_manager(struct diag_finding *f, const struct wanted *w,
                              enum kb_manager manager)
{
    struct diag *d = w->d;
    const char *packages = "", *folders = "", *unknown = "", *vendor = NULL;
    if (uses_manager(d, manager)) {
        wanted_of_manager(w, manager, &packages, &folders, &unknown, &vendor);
    }
    if (!*packages) {
        return;
    }
    if (*unknown) {
        diag_evidence(d, f, "the package that contains %s is unknown", unknown);
    }
    const char *words = repository_words(d, vendor);
    bool reachable = !*words || strcmp(vendor, "cuda") != 0;
    const char *command = reachable ? command_of(d, manager, packages, vendor) : NULL;
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
        diag_repair(d, f, DIAG_REPAIR_PACKAGE,
                    arena_printf(d->a, "%s && %s", command, diag_prepend_command(d, folders)),
                    "Install what is missing, and make %s findable before the program starts: %s "
                    "does not look where pip puts %s.",
                    them, package ? package : path_base(diag_caller(w->x)), them);
    } else {
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, command, "Install what is missing%s%s.%s",
                    command ? "" : ": ", command ? "" : packages, words);
    }
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
            r->text = arena_printf(d->a,
                                   "%.*s, and make it findable before the program starts: %s does "
                                   "not look in its folder.",
                                   (int)n - 1, r->text, diag_asker(d, x));
        }
        r->folders = with_word(d, r->folders ? r->folders : "", ":", folder);
        r->command = arena_printf(d->a, "%s && %s", r->bare, diag_prepend_command(d, r->folders));
    }
}

const char *diag_denied_place(struct diag *d, const struct diag_failure *x)
{
    struct gm_err err;
    struct wanted w = {.d = d, .x = x, .cuda_major = -1};
    const char *site = d->m->env ? site_of(d, x) : NULL;
    if (!site || kb_provides(d->m->kb, &w.provides, &err) < 0) {
        return NULL;
    }
    const struct kb_provide *row = provide_of(&w, x->name);
    for (size_t i = 0; row && i < row->n_providers; i++) {
        const struct kb_provider *v = &row->providers[i];
        const char *dir =
            v->manager == KB_MANAGER_PIP && v->folder ? path_join(d->a, site, v->folder) : NULL;
        const char *path = dir ? path_join(d->a, dir, x->name) : NULL;
        if (path && model_denied_at(d->m, path)) {
            return path;
        }
    }
    return NULL;
}

/* Who has it, where the system's own manager is not known to get it. */
static const char *who_has(const struct wanted *w, const struct kb_provide *row)
{
    const char *id = host_system(w->d->m->root, w->d->a).id;
    for (size_t i = 0; id && row && i < row->n_providers; i++) {
        const struct kb_provider *v = &row->providers[i];
        if (is_of_system(w->d, v->manager) && v->repository && strcmp(v->repository, "cuda") == 0) {
            return " NVIDIA publishes it, but gpumend knows no release of it for this system.";
        }
    }
    return id && row ? " gpumend does not know its name in this system's own repositories." : "";
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
    if (!wanted_add(d, f, x, &w)) {
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
        diag_repair_of_jetpack(d, f, provide_of(&w, x->name), x->name, asking)) {
        return;
    }
    wanted_follow(f, &w);
    static const enum kb_manager managers[] = {KB_MANAGER_CONDA,  KB_MANAGER_PIP,
                                               KB_MANAGER_APT,    KB_MANAGER_DNF,
                                               KB_MANAGER_PACMAN, KB_MANAGER_ZYPPER};
    for (size_t i = 0; i < sizeof managers / sizeof *managers; i++) {
        /* Into an environment goes what its own managers know; the system has the rest. */
        if (!d->m->env || i < 2 || f->repairs.n == before) {
            repair_by_manager(f, &w, managers[i]);
        }
    }
    if (provider_of(&w, provide_of(&w, x->name), KB_MANAGER_DRIVER)) {
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
    } else if (f->repairs.n == before) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Install the package that provides %s%s.%s",
                    x->name, title ? arena_printf(d->a, " (%s)", title) : "",
                    who_has(&w, provide_of(&w, x->name)));
    }
}

const char *diag_prepend_command(struct diag *d, const char *folders)
{
    return diag_prepend_folders(d->m, folders);
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
