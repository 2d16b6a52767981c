/* Which Python the command `python` starts: packages are installed for one, and a program that is
 * started by the name alone may run in another. */
#include <string.h>

#include "diag/windows_internal.h"
#include "winldr/script.h"
#include "winldr/package.h"
#include "winldr/path.h"
#include "winldr/syspath.h"
#include "winldr/words.h"

/* What the command starts, by PATH. */
struct started {
    const char *exe;               // the first python.exe; NULL: none, or what it starts is unknown
    bool is_alias;                 // of the Store
    bool is_behind;                // this Python is further back on PATH
    struct winldr_pythons pythons; // the one that it is; empty: none that is in the tree
};

static bool is_there(struct diag_windows *n, const char *folder, const char *name)
{
    const struct winldr_entry *e =
        winldr_files_get(n->files, winldr_path_join(n->arena, folder, name));
    return e->place && e->kind != WINLDR_ENTRY_FOLDER;
}

/* A script of that name is found in the same folder, and what it starts is not known (PATHEXT). */
static bool has_script(struct diag_windows *n, const char *folder)
{
    return is_there(n, folder, "python.com") || is_there(n, folder, "python.bat") ||
           is_there(n, folder, "python.cmd");
}

/* The folder of the program; of the Store's, that of the aliases of its user; NULL: not known. */
static const char *command_folder(const struct diag_windows *n)
{
    static const char packages[] = "\\Packages";
    if (strcmp(n->py->kind, "Store") != 0) {
        return n->py->folder;
    }
    const char *parent = winldr_path_folder(n->arena, n->py->folder);
    return winldr_name_ends(parent, packages)
               ? arena_printf(n->arena, "%.*s\\Microsoft\\WindowsApps",
                              (int)(strlen(parent) - strlen(packages)), parent)
               : NULL;
}

/* The Python install manager has the same alias, and starts one of its own. */
static bool has_manager(struct diag_windows *n, const char *folder)
{
    struct winldr_names names = winldr_files_list(n->files, folder);
    for (size_t i = 0; i < names.n; i++) {
        if (starts_with(names.items[i], "PythonSoftwareFoundation.PythonManager")) {
            return true;
        }
    }
    return false;
}

static void take_started(struct diag_windows *n, const char *folder, struct started *ret)
{
    ret->exe = winldr_path_join(n->arena, folder, "python.exe");
    ret->is_alias = winldr_package_is_alias(folder);
    winldr_find_pythons(n->files, ret->exe, &ret->pythons);
    if (ret->is_alias && ret->pythons.items.n &&
        winldr_package_is_alias(ret->pythons.items.items[0].folder)) {
        ret->pythons.items.n = 0; // the alias itself: none of the Store's is there
    }
    if (ret->pythons.items.n > 1 || (ret->is_alias && has_manager(n, folder))) {
        ret->exe = NULL;
    }
}

static struct started find_started(struct diag_windows *n, const char *own)
{
    struct started s = {0};
    struct str rest = str_of(n->py->path);
    while (rest.s && rest.n) {
        const char *folder = str_dup(n->arena, str_cut(&rest, ';'));
        if (!*folder) {
            continue;
        }
        bool is_seen =
            folder[0] && folder[1] == ':' && !strchr(folder, '%') && !strchr(folder, '"');
        folder = is_seen ? winldr_path_full(n->arena, "C:\\", folder) : folder;
        if (!s.exe && (!is_seen || has_script(n, folder))) {
            break;
        }
        if (is_seen && winldr_name_is(folder, own)) {
            s.is_behind = s.exe != NULL;
            break;
        }
        if (!s.exe && is_there(n, folder, "python.exe")) {
            take_started(n, folder, &s);
            if (!s.exe) {
                break;
            }
        }
    }
    return s;
}

/* For every Python of this release, a user's pip may have installed it here. */
static bool is_of_user(struct diag_windows *n, const char *package)
{
    struct winldr_names users = winldr_files_list(n->files, "C:\\Users");
    for (size_t i = 0; i < users.n; i++) {
        const char *parent =
            arena_printf(n->arena, "C:\\Users\\%s\\AppData\\Roaming\\Python", users.items[i]);
        struct winldr_names all = winldr_files_list(n->files, parent);
        for (size_t k = 0; k < all.n; k++) {
            const char *init = arena_printf(n->arena, "%s\\%s\\site-packages\\%s\\__init__.py",
                                            parent, all.items[k], package);
            if (winldr_files_place(n->files, init)->place) {
                return true;
            }
        }
    }
    return false;
}

/* "torch, ctranslate2": what is in this Python's own site-packages, and not the other's; NULL:
 * there is none, or the other has one of them. */
static const char *only_here(struct diag_windows *n, const struct started *s)
{
    const char *list = NULL;
    for (const char *const *name = winldr_packages; *name; name++) {
        const char *init = arena_printf(n->arena, "%s\\%s\\__init__.py", n->py->site, *name);
        if (!winldr_files_place(n->files, init)->place) {
            continue;
        }
        if (is_of_user(n, *name) ||
            (s->pythons.items.n &&
             winldr_has_package(n->files, &s->pythons.items.items[0], *name))) {
            return NULL;
        }
        list = list ? arena_printf(n->arena, "%s, %s", list, *name) : *name;
    }
    return list;
}

/* By the path of the program; of the Store's, of the alias that is its own. */
static void add_path_repair(struct diag_windows *n, struct diag_windows_finding *f, const char *own)
{
    const char *exe = strcmp(n->py->kind, "Store") == 0
                          ? winldr_path_join(n->arena, own, winldr_path_base(n->py->folder))
                          : own;
    exe = winldr_path_join(n->arena, exe, "python.exe");
    const char *power = str_powershell_word(n->arena, exe);
    const char *cmd = diag_windows_quote_cmd(n->arena, exe);
    diag_windows_add_repair(
        n, f,
        (struct diag_windows_repair){
            .says = "start programs, and pip (-m pip), by the path of this Python",
            .powershell = power ? arena_printf(n->arena, "& %s -m pip list", power) : NULL,
            .cmd = cmd ? arena_printf(n->arena, "%s -m pip list", cmd) : NULL,
        });
}

void diag_windows_judge_command(struct diag_windows *n)
{
    bool is_store = strcmp(n->py->kind, "Store") == 0;
    const char *own = is_store || strcmp(n->py->kind, "python.org") == 0 ? command_folder(n) : NULL;
    struct started s = own && n->py->path ? find_started(n, own) : (struct started){0};
    bool is_other = s.exe && (s.is_alias || is_store); // of two others which is meant, nothing says
    const char *list = is_other ? only_here(n, &s) : NULL;
    if (!list) {
        return;
    }
    const char *what = s.is_alias ? s.pythons.items.n ? "the Store's Python"
                                                      : "an alias of the Store, behind which "
                                                        "no Python was found"
                                  : s.exe;
    struct diag_windows_finding f = {
        .cause = "python-not-first",
        .severity = "note",
        .title =
            arena_printf(n->arena, "the command python starts %s, which has no %s", what, list),
        .evidence = arena_printf(
            n->arena, "%s: installed in %s; the first python.exe on PATH is %s, and %s is %s", list,
            n->py->site, s.exe, own, s.is_behind ? "behind it" : "not on PATH"),
    };
    add_path_repair(n, &f, own);
    if (s.is_alias && s.is_behind) {
        diag_windows_add_repair(
            n, &f,
            (struct diag_windows_repair){
                .says = "switch the alias python.exe off: Settings, Apps, Advanced app settings, "
                        "App execution aliases"});
    }
    VEC_PUSH(n->arena, &n->findings, f);
}
