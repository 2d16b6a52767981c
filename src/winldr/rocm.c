#include "winldr/rocm.h"

#include <string.h>

#include "winldr/path.h"
#include "winldr/script.h"
#include "winldr/syspath.h"

enum { NAMES_MAX = 64, DEPTH_MAX = 8, FIELDS = 4 };

struct rocm_entry {
    struct str fields[FIELDS]; // short name, wheel, pattern for Linux, pattern for Windows
    struct str deps;           // "'a', 'b'"
};

struct rocm {
    struct winldr_process *process;
    const struct winldr_python *py;
    VEC(struct rocm_entry) entries;
    VEC(struct str) done;      // short names
    VEC(const char *) to_load; // in this order, once all are found
    const char *variable;      // which names the libraries, or NULL: torch does
};

/* The next text in quotes; false: there is none. */
static bool next_quoted(struct str *rest, struct str *ret)
{
    size_t at = 0;
    while (at < rest->n && rest->s[at] != '"' && rest->s[at] != '\'') {
        at++;
    }
    if (at == rest->n) {
        return false;
    }
    struct str inside = {rest->s + at + 1, rest->n - at - 1};
    size_t end = str_find_char(inside, rest->s[at]);
    *ret = (struct str){inside.s, end};
    size_t used = end < inside.n ? end + 1 : end;
    *rest = (struct str){inside.s + used, inside.n - used};
    return end < inside.n;
}

/* What stands between `from` and the next `end` behind it; empty: nothing does. */
static struct str between_words(struct str text, const char *from, char end)
{
    size_t at = str_find(text, from);
    if (at == text.n) {
        return (struct str){"", 0};
    }
    struct str rest = {text.s + at + strlen(from), text.n - at - strlen(from)};
    return (struct str){rest.s, str_find_char(rest, end)};
}

static void read_entries(struct rocm *r, struct str text)
{
    static const char word[] = "LibraryEntry(";
    for (size_t at; (at = str_find(text, word)) < text.n;) {
        if (r->entries.n == NAMES_MAX) {
            r->process->cut =
                arena_printf(r->process->arena,
                             "rocm_sdk\\_dist_info.py names more than %d libraries, of "
                             "which the others were not looked at",
                             NAMES_MAX);
            return;
        }
        struct rocm_entry e = {0};
        struct str rest = {text.s + at + sizeof word - 1, text.n - at - (sizeof word - 1)};
        struct str call = {rest.s, str_find_char(rest, ')')};
        e.deps = between_words(call, "deps=[", ']');
        size_t n = 0;
        while (n < FIELDS && next_quoted(&call, &e.fields[n])) {
            n++;
        }
        if (n == FIELDS) {
            VEC_PUSH(r->process->arena, &r->entries, e);
        }
        text = rest;
    }
}

static void say_raised(struct rocm *r, const char *what)
{
    if (!r->process->raised) {
        r->process->raised_title = "a library that it loads first is not there";
        r->process->raised_variable = r->variable;
        r->process->raised = what;
    }
}

/* The folder that a wheel of ROCm has its DLLs in; NULL: it is not installed. */
static const char *wheel_folder(struct rocm *r, struct str wheel)
{
    struct winldr_files *f = r->process->files;
    struct winldr_installed_list list = winldr_python_list(f, r->py);
    const char *found = NULL;
    bool core = str_is(wheel, "core");
    for (size_t i = 0; i < list.items.n; i++) {
        const struct winldr_installed *x = &list.items.items[i];
        const char *folder = winldr_path_join(f->arena, x->place, x->name);
        if (core ? !winldr_name_is(x->name, "_rocm_sdk_core")
                 : !starts_with(x->name, "_rocm_sdk_libraries")) {
            continue;
        }
        if (found && winldr_files_get(f, folder)->kind == WINLDR_ENTRY_FOLDER) {
            r->process->cut = "ROCm's libraries are installed for several families of GPUs, and "
                              "which of them is loaded offload-arch decides when it runs";
        }
        found = found ? found : winldr_path_join(f->arena, folder, "bin");
    }
    return found;
}

/* The first file that fits, as rocm_sdk.find_libraries() takes it, which raises without one. */
static void find_entry(struct rocm *r, const struct rocm_entry *e)
{
    struct winldr_files *f = r->process->files;
    const char *folder = wheel_folder(r, e->fields[1]);
    const char *pattern = str_dup(f->arena, e->fields[3]);
    struct winldr_names names =
        folder ? winldr_files_list(f, folder) : (struct winldr_names){NULL, 0};
    if (!*pattern) {
        return; // there is none for Windows
    }
    for (size_t i = 0; i < names.n; i++) {
        if (str_glob(pattern, names.items[i])) {
            VEC_PUSH(r->process->arena, &r->to_load,
                     winldr_path_join(f->arena, folder, names.items[i]));
            return;
        }
    }
    say_raised(r, folder ? arena_printf(r->process->arena,
                                        "rocm_sdk looks for %s in %s, and no file there has such a "
                                        "name",
                                        pattern, folder)
                         : arena_printf(r->process->arena,
                                        "rocm_sdk looks for %s in the wheel rocm-sdk-" STR_FMT
                                        ", which is not installed: python -m pip install "
                                        "\"rocm[" STR_FMT "]\" installs it",
                                        pattern, STR_ARG(e->fields[1]), STR_ARG(e->fields[1])));
}

static bool is_done(struct rocm *r, struct str name)
{
    for (size_t i = 0; i < r->done.n; i++) {
        if (str_eq(r->done.items[i], name)) {
            return true;
        }
    }
    return false;
}

/* A library, behind those that it depends on. */
static void find_name(struct rocm *r, struct str name, unsigned depth)
{
    if (is_done(r, name)) {
        return;
    }
    if (depth == DEPTH_MAX) {
        r->process->cut = arena_printf(r->process->arena,
                                       "libraries of ROCm's wheels need one another more than %d "
                                       "deep, and those below were not looked at",
                                       DEPTH_MAX);
        return;
    }
    VEC_PUSH(r->process->arena, &r->done, name);
    bool is_known = false;
    for (size_t i = 0; i < r->entries.n; i++) {
        struct str deps = r->entries.items[i].deps, dep;
        if (!str_eq(r->entries.items[i].fields[0], name)) {
            continue;
        }
        is_known = true;
        while (next_quoted(&deps, &dep)) {
            find_name(r, dep, depth + 1);
        }
        find_entry(r, &r->entries.items[i]);
    }
    if (!is_known && !r->process->cut) {
        say_raised(r, arena_printf(
                          r->process->arena,
                          "rocm_sdk\\_dist_info.py knows no library " STR_FMT ", which %s names%s",
                          STR_ARG(name), r->variable ? r->variable : "torch\\_rocm_init.py",
                          r->variable ? "" : ": the two are of different releases"));
    }
}

static void load_found(struct rocm *r)
{
    for (size_t i = 0; !r->process->raised && i < r->to_load.n; i++) {
        (void)winldr_load(r->process, r->to_load.items[i], WINLDR_IMPORT_FLAGS); // in p->loads
    }
    r->to_load.n = 0;
}

/* Those of the variable come after torch's; commas and semicolons separate them. */
static void load_named(struct rocm *r)
{
    const enum winldr_variable variable = WINLDR_VARIABLE_ROCM_SDK_PRELOAD_LIBRARIES;
    struct str rest = str_of(r->py->variables[variable] ? r->py->variables[variable] : "");
    r->variable = winldr_variable_names[variable];
    while (rest.n && !r->process->raised) {
        size_t comma = str_find_char(rest, ','), semicolon = str_find_char(rest, ';');
        struct str name = str_trim(str_cut(&rest, comma < semicolon ? ',' : ';'));
        if (name.n) {
            find_name(r, name, 0);
        }
    }
    load_found(r);
}

void winldr_rocm_initialize(struct winldr_process *p, const struct winldr_python *py,
                            const char *package)
{
    struct rocm r = {.process = p, .py = py};
    struct arena *a = p->files->arena;
    struct str init, info, name;
    if (!winldr_read_text(p->files, winldr_path_join(a, package, "_rocm_init.py"), &init) ||
        !winldr_read_text(p->files, winldr_python_path(p->files, py, "rocm_sdk\\_dist_info.py"),
                          &info)) {
        return;
    }
    read_entries(&r, info);
    struct str names = between_words(init, "preload_shortnames=[", ']');
    while (next_quoted(&names, &name)) {
        find_name(&r, name, 0);
    }
    load_found(&r);
    load_named(&r);
}
