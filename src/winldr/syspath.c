#include "winldr/syspath.h"

#include <string.h>

#include "winldr/path.h"
#include "winldr/script.h"

enum { SYSPATH_PLACES_MAX = 256 };

struct builder {
    struct winldr_files *files;
    struct winldr_python *py;
    VEC(const char *) places;
};

static void say_unsure(struct builder *b, const char *text)
{
    b->py->unsure = b->py->unsure ? b->py->unsure : text;
}

/* False: it is listed, or there is no room. */
static bool add_place(struct builder *b, const char *path)
{
    struct arena *a = b->files->arena;
    const char *full = winldr_path_full(a, "C:\\", path);
    if (winldr_name_in(full, b->places.items, b->places.n)) {
        return false;
    }
    if (b->places.n == SYSPATH_PLACES_MAX) {
        say_unsure(b, arena_printf(a,
                                   "sys.path has more than %d folders; the others were not "
                                   "looked at",
                                   SYSPATH_PLACES_MAX));
        return false;
    }
    VEC_PUSH(a, &b->places, full);
    return true;
}

/* ------------------------------------------------------------------ site.py */

/* addpackage(): a line that names what is there. */
static void add_pth_file(struct builder *b, const char *site, const char *name)
{
    struct winldr_files *f = b->files;
    struct str text, line;
    const char *path = winldr_below(f, site, name);
    if (!winldr_read_text(f, path, &text)) {
        say_unsure(b, arena_printf(f->arena, "%s, which may name more folders, is not read", path));
        return;
    }
    text = str_starts(text, "\xef\xbb\xbf") ? (struct str){text.s + 3, text.n - 3} : text;
    while (str_line(&text, &line)) {
        bool is_code = str_starts(line, "import ") || str_starts(line, "import\t");
        line = str_trim(line);
        if (!line.n || line.s[0] == '#' || is_code) {
            continue;
        }
        const char *named = str_dup(f->arena, line);
        bool is_full = winldr_path_kind(named) == WINLDR_PATH_DRIVE;
        const char *full =
            winldr_path_full(f->arena, site, is_full ? named : winldr_below(f, site, named));
        if (winldr_files_place(f, full)->place) {
            (void)add_place(b, full); // listed once
        }
    }
}

/* addsitedir() */
static void add_site(struct builder *b, const char *site)
{
    if (!winldr_is_folder(b->files, site)) {
        return;
    }
    (void)add_place(b, site); // listed once
    struct winldr_names names = winldr_files_list(b->files, site);
    for (size_t i = 0; i < names.n; i++) {
        if (winldr_name_ends(names.items[i], ".pth") && names.items[i][0] != '.') {
            add_pth_file(b, site, names.items[i]);
        }
    }
}

static void add_prefix(struct builder *b, const char *prefix)
{
    add_site(b, prefix);
    add_site(b, winldr_below(b->files, prefix, "Lib\\site-packages"));
}

/* Whether pyvenv.cfg lets the installation's packages be seen, which it does where it says
 * nothing. */
static bool has_system_site(struct winldr_files *f, const char *folder)
{
    struct str text, line;
    bool has = true;
    if (!winldr_read_text(f, winldr_below(f, folder, "pyvenv.cfg"), &text)) {
        return true;
    }
    while (str_line(&text, &line)) {
        struct str key = str_trim(str_cut(&line, '='));
        if (winldr_name_part_is(key, str_of("include-system-site-packages")) && line.s) {
            has = winldr_name_part_is(str_trim(line), str_of("true"));
        }
    }
    return has;
}

/* "312" and "313t" of "python312.dll" and "python313t.dll". False: another name. */
static bool dll_release(const char *name, struct str *ret)
{
    struct str head = {name, 7};
    size_t digits = strlen(name) > 7 ? strspn(name + 7, "0123456789") : 0;
    size_t end = 7 + digits + (digits && (name[7 + digits] | 0x20) == 't');
    *ret = (struct str){name + 6, end - 6};
    return digits && winldr_name_part_is(head, str_of("python3")) &&
           winldr_name_is(name + end, ".dll");
}

bool winldr_has_python_dll(struct winldr_files *f, const char *folder)
{
    struct winldr_names names = winldr_files_list(f, folder);
    struct str release;
    bool any = false;
    for (size_t i = 0; i < names.n; i++) {
        any |= dll_release(names.items[i], &release);
    }
    return any;
}

const char *winldr_winver(struct winldr_files *f, const struct winldr_python *py)
{
    const struct winldr_entry *exe = winldr_files_get(f, py->exe);
    bool is_read = exe->kind == WINLDR_ENTRY_FILE && exe->file->image.state == PE_STATE_OK;
    uint16_t machine = is_read ? exe->file->image.machine : PE_MACHINE_AMD64;
    const char *suffix = machine == PE_MACHINE_I386    ? "-32"
                         : machine == PE_MACHINE_ARM64 ? "-arm64"
                                                       : "";
    struct winldr_names names = winldr_files_list(f, winldr_path_folder(f->arena, py->exe));
    for (size_t i = 0; i < names.n; i++) {
        struct str release;
        if (dll_release(names.items[i], &release)) {
            return arena_printf(f->arena, STR_FMT "%s", STR_ARG(release), suffix);
        }
    }
    return NULL;
}

/* The user's site-packages, of one home folder; NULL: the release is not known. */
static const char *user_site(struct winldr_files *f, const struct winldr_syspath_hints *hints,
                             const struct winldr_python *py, const char *home)
{
    const char *winver = winldr_winver(f, py);
    const char *data = hints->app_data ? hints->app_data
                       : home          ? winldr_below(f, home, "AppData\\Roaming")
                                       : NULL;
    const char *base = hints->user_base ? hints->user_base
                       : data           ? winldr_below(f, data, "Python")
                                        : NULL;
    return base && winver
               ? winldr_below(f, base, arena_printf(f->arena, "Python%s\\site-packages", winver))
               : NULL;
}

/* Where it is not known who starts it, another user's packages may come first. */
static void add_user_site(struct builder *b, const struct winldr_syspath_hints *hints)
{
    struct winldr_files *f = b->files;
    if (b->py->is_packaged && strcmp(b->py->kind, "Store") == 0) {
        add_site(b, b->py->site);
        return;
    }
    const char *own = user_site(f, hints, b->py, hints->home);
    if (own || !winldr_winver(f, b->py)) {
        if (own) {
            add_site(b, own);
        }
        return;
    }
    struct winldr_names users = winldr_files_list(f, "C:\\Users");
    for (size_t i = 0; i < users.n; i++) {
        const char *site = user_site(f, hints, b->py, winldr_below(f, "C:\\Users", users.items[i]));
        if (site && winldr_is_folder(f, site)) {
            say_unsure(b, arena_printf(f->arena,
                                       "who starts this Python is not known: for one user the "
                                       "packages of %s come first, which were not looked at",
                                       site));
        }
    }
}

/* main() of site.py. A ._pth file makes Python isolated only after it has decided about the user's
 * packages, which therefore count. */
static void add_sites(struct builder *b, const struct winldr_syspath_hints *hints)
{
    const char *base = winldr_path_folder(b->files->arena, b->py->exe);
    bool is_venv = strcmp(b->py->kind, "venv") == 0;
    if (is_venv) {
        add_prefix(b, b->py->folder);
        if (!has_system_site(b->files, b->py->folder)) {
            return;
        }
    }
    if (!hints->no_user_site) {
        add_user_site(b, hints);
    }
    add_prefix(b, base);
}

/* ------------------------------------------------------------------ getpath.py */

/* Each of a list that semicolons separate. A relative one is below a working directory that nobody
 * knows. */
static void add_list(struct builder *b, const char *list)
{
    struct str rest = str_of(list);
    while (rest.s) {
        const char *folder = str_dup(b->files->arena, str_cut(&rest, ';'));
        if (winldr_path_kind(folder) == WINLDR_PATH_DRIVE) {
            (void)add_place(b, folder); // listed once
        }
    }
}

/* The ._pth file that counts: of the DLL, otherwise of the program. */
static const char *find_pth(struct winldr_files *f, const struct winldr_python *py)
{
    const char *folder = winldr_path_folder(f->arena, py->exe), *winver = winldr_winver(f, py);
    const char *of_dll = winver ? winldr_below(f, folder,
                                               arena_printf(f->arena, "python%.*s._pth",
                                                            (int)strcspn(winver, "-"), winver))
                                : NULL;
    const char *of_exe = winldr_below(f, folder, "python._pth");
    return of_dll && winldr_files_place(f, of_dll)->place ? of_dll
           : winldr_files_place(f, of_exe)->place         ? of_exe
                                                          : NULL;
}

static void add_pth_lines(struct builder *b, const struct winldr_syspath_hints *hints,
                          const char *pth)
{
    struct winldr_files *f = b->files;
    const char *folder = winldr_path_folder(f->arena, pth);
    struct str text, line;
    bool has_site = false;
    if (!winldr_read_text(f, pth, &text)) {
        say_unsure(b, arena_printf(f->arena, "%s, which has all of sys.path, is not read", pth));
        return;
    }
    text = str_starts(text, "\xef\xbb\xbf") ? (struct str){text.s + 3, text.n - 3} : text;
    while (str_line(&text, &line)) {
        line = str_trim(str_cut(&line, '#'));
        if (str_is(line, "import site")) {
            has_site = true;
        } else if (line.n && !str_starts(line, "import ")) {
            const char *named = str_dup(f->arena, line);
            (void)add_place(b, winldr_path_kind(named) == WINLDR_PATH_DRIVE
                                   ? named
                                   : winldr_below(f, folder, named)); // listed once
        }
    }
    if (has_site) {
        add_sites(b, hints);
    }
}

void winldr_syspath_set(struct winldr_files *f, const struct winldr_syspath_hints *hints,
                        struct winldr_python *py)
{
    struct builder b = {.files = f, .py = py};
    const char *base = winldr_path_folder(f->arena, py->exe);
    if (py->is_frozen) {
        return;
    }
    py->pth = find_pth(f, py);
    if (py->pth) {
        add_pth_lines(&b, hints, py->pth);
    } else {
        if (hints->pythonpath) {
            add_list(&b, hints->pythonpath);
        }
        for (size_t i = 0; i < hints->n_registered; i++) {
            add_list(&b, hints->registered[i]);
        }
        bool has_dlls = winldr_is_folder(f, winldr_below(f, base, "DLLs"));
        (void)add_place(&b, has_dlls ? winldr_below(f, base, "DLLs") : base); // each is listed once
        (void)add_place(&b, winldr_below(f, base, "Lib"));
        (void)add_place(&b, base);
        add_sites(&b, hints);
    }
    py->places = b.places.items;
    py->n_places = b.places.n;
}

/* ------------------------------------------------------------------ what is in it */

const char *winldr_python_place(struct winldr_files *f, const struct winldr_python *py,
                                const char *path)
{
    for (size_t i = 0; i < py->n_places; i++) {
        if (winldr_files_place(f, winldr_below(f, py->places[i], path))->place) {
            return py->places[i];
        }
    }
    return NULL;
}

const char *winldr_python_path(struct winldr_files *f, const struct winldr_python *py,
                               const char *path)
{
    struct str rest = str_of(path);
    const char *package = str_dup(f->arena, str_cut(&rest, '\\'));
    const char *place = winldr_python_place(f, py, winldr_below(f, package, "__init__.py"));
    place = place ? place : winldr_python_place(f, py, path);
    return winldr_below(f, place ? place : py->site, path);
}

struct winldr_installed_list winldr_python_list(struct winldr_files *f,
                                                const struct winldr_python *py)
{
    struct winldr_installed_list list = {0};
    for (size_t i = 0; i < py->n_places; i++) {
        struct winldr_names names = winldr_files_list(f, py->places[i]);
        for (size_t k = 0; k < names.n; k++) {
            VEC_PUSH(f->arena, &list.items,
                     ((struct winldr_installed){py->places[i], names.items[k]}));
        }
    }
    return list;
}
