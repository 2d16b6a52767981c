/*
 * Libraries that the system's package manager installs, and the repository of a vendor that it has
 * to know first.
 */
#include <elf.h>
#include <string.h>

#include "diag/internal.h"
#include "diag/wanted.h"
#include "host/manager.h"
#include "kb/libver.h"
#include "kb/package.h"

bool diag_is_of_system(const struct diag *d, enum kb_manager manager)
{
    enum host_manager system = host_manager(d->m->root, d->a);
    if (system != HOST_MANAGER_NONE) {
        return kb_manager_of(system) == manager;
    }
    /* A system that os-release names and that has neither of them: NixOS, Void. */
    bool is_another = host_system(d->m->root, d->a).id != NULL;
    return !is_another && (manager == KB_MANAGER_APT || manager == KB_MANAGER_DNF);
}

bool diag_uses_manager(const struct diag *d, enum kb_manager manager)
{
    const struct py_env *env = d->m->env;
    return manager == KB_MANAGER_PIP ? env != NULL
           : manager == KB_MANAGER_CONDA
               ? env && env->kind == PY_ENV_CONDA
               : manager != KB_MANAGER_DRIVER && diag_is_of_system(d, manager);
}

const char *diag_with_word(struct diag *d, const char *list, const char *separator,
                           const char *word)
{
    const char *fence = arena_printf(d->a, "%s%s%s", separator, list, separator);
    return strstr(fence, arena_printf(d->a, "%s%s%s", separator, word, separator))
               ? list
               : arena_printf(d->a, "%s%s%s", list, *list ? separator : "", word);
}

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
    const struct kb_provider *has_curl =
        row->manager == KB_MANAGER_ZYPPER || diag_has_path(d->m, "/usr/bin/curl")
            ? NULL
            : kb_package_by_id(d->m->kb, "curl", row->manager);
    const char *curl = has_curl ? arena_printf(d->a, "%s %s && ", w->build, has_curl->package) : "";
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
    case KB_MANAGER_APK:
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

const char *diag_command_of(struct diag *d, enum kb_manager manager, const char *packages,
                            const char *vendor)
{
    switch (manager) {
    case KB_MANAGER_PIP: return diag_pip(d, packages);
    case KB_MANAGER_CONDA:
        if (strcmp(d->m->env->manager, "pixi") == 0) {
            return diag_pixi_command(d->m, packages);
        }
        return arena_printf(d->a, "conda install -p %s -c conda-forge %s",
                            diag_quote(d, d->m->env->prefix), packages);
    case KB_MANAGER_APT:
    case KB_MANAGER_DNF:
    case KB_MANAGER_PACMAN:
    case KB_MANAGER_APK:
    case KB_MANAGER_ZYPPER: return system_command(d, manager, packages, vendor);
    case KB_MANAGER_DRIVER: break;
    }
    return NULL;
}

const char *diag_name_in_repository(struct diag *d, const struct kb_provider *v)
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

const char *diag_repository_words(struct diag *d, const char *vendor)
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
