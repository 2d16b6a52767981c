/* Commands for the distribution that a text names: entries are written with Debian's package
 * manager, and elsewhere the packages and their manager have other names. */
#include <string.h>

#include "kb/package.h"
#include "log/internal.h"

/* ------------------------------------------------------------------ the distribution */

/* The fields that name a distribution (dev-distribution, dev-distribution-family), and the manager
 * of its packages. */
static const struct {
    const char *field;
    enum kb_manager manager;
} named_by[] = {{"arch_linux", KB_MANAGER_PACMAN},
                {"fedora", KB_MANAGER_DNF},
                {"rhel", KB_MANAGER_DNF},
                {"suse", KB_MANAGER_ZYPPER},
                {"debian_like", KB_MANAGER_APT}};

enum kb_manager log_manager(const struct log_matched *m)
{
    bool seen = false;
    enum kb_manager manager = KB_MANAGER_APT;
    for (size_t i = 0; i < m->n_facts; i++) {
        for (size_t k = 0; k < sizeof named_by / sizeof *named_by; k++) {
            if (!log_fact_field(m->facts[i], named_by[k].field)) {
                continue;
            }
            if (seen && manager != named_by[k].manager) {
                return KB_MANAGER_APT; // a host and its container, or a comparison
            }
            seen = true;
            manager = named_by[k].manager;
        }
    }
    return manager;
}

/* ------------------------------------------------------------------ commands */

/* Whether the distribution that the text names has the package in its own repositories. */
static bool is_of_system(const struct log_matched *m, const struct kb_provider *v)
{
    bool has = v->systems.n == 0;
    for (size_t i = 0; i < m->n_facts; i++) {
        for (size_t k = 0; k < v->systems.n && !has; k++) {
            has = log_fact_field(m->facts[i], v->systems.items[k]) != NULL;
        }
    }
    return has;
}

/* Cuts a package off the list; whether it was there. */
static bool package_cut(struct str *list, const char *package)
{
    size_t n = strlen(package);
    if (!str_starts(*list, package) || (list->n > n && list->s[n] != ' ')) {
        return false;
    }
    *list = (struct str){list->s + n, list->n - n};
    return true;
}

/* Cuts a package by its name in Debian off the list, and what it is called elsewhere; NULL: not
 * known. */
static const char *package_take(const struct log_matched *m, struct str *list,
                                enum kb_manager manager)
{
    static const char by_manager[] = "{apt}"; // which provided_field() fills
    struct kb_packages known;
    struct gm_err err;
    if (package_cut(list, by_manager)) {
        return by_manager;
    }
    if (kb_packages(m->rules->kb, &known, &err) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < known.n; i++) {
        const struct kb_provider *debian = kb_package_of(&known.rows[i], KB_MANAGER_APT);
        if (debian && package_cut(list, debian->package)) {
            const struct kb_provider *v = kb_package_of(&known.rows[i], manager);
            return v && is_of_system(m, v) ? v->package : NULL;
        }
    }
    return NULL;
}

/* The end of a list of packages: the next command, or the comment. */
static size_t packages_end(struct str rest)
{
    static const char *const ends[] = {" && ", "   #", " | ", ";"};
    size_t end = rest.n;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t at = str_find(rest, ends[i]);
        end = at < end ? at : end;
    }
    return end;
}

/* yum: RHEL 7 has no dnf, and later releases have yum as another name of it. */
static const char *installer(const struct log_matched *m, enum kb_manager manager)
{
    for (size_t i = 0; i < m->n_facts && manager == KB_MANAGER_DNF; i++) {
        if (log_fact_field(m->facts[i], "rhel")) {
            return "sudo yum install -y";
        }
    }
    return manager == KB_MANAGER_DNF      ? "sudo dnf install -y"
           : manager == KB_MANAGER_PACMAN ? "sudo pacman -S --needed"
                                          : "sudo zypper install -y";
}

static const char *installs(const struct log_matched *m, struct str list, enum kb_manager manager)
{
    const char *done = installer(m, manager);
    for (list = str_trim(list); list.n; list = str_trim(list)) {
        if (str_starts(list, "-y ")) {
            list = (struct str){list.s + 3, list.n - 3};
            continue;
        }
        const char *name = package_take(m, &list, manager);
        if (!name) {
            return NULL;
        }
        done = arena_printf(m->a, "%s %s", done, name);
    }
    return done;
}

/* How the initial RAM disk is made: update-initramfs is Debian's; dracut(8) of Fedora, RHEL and
 * openSUSE; mkinitcpio(8) of Arch Linux. The comment behind it names what the others have. */
static const char *with_ram_disk(const struct log_matched *m, const char *command,
                                 enum kb_manager manager)
{
    static const char debian[] = "sudo update-initramfs -u";
    const char *at = strstr(command, debian);
    if (!at) {
        return command;
    }
    const char *rest = at + sizeof debian - 1, *comment = strstr(rest, "   #");
    return arena_printf(m->a, "%.*s%s%.*s", (int)(at - command), command,
                        manager == KB_MANAGER_PACMAN ? "sudo mkinitcpio -P" : "sudo dracut --force",
                        (int)(comment ? (size_t)(comment - rest) : strlen(rest)), rest);
}

/* What only Debian and its kin have. */
static bool is_of_debian(const char *command)
{
    static const char *const tools[] = {"apt-get",          "apt ",          "dpkg", "apt-key",
                                        "update-initramfs", "ubuntu-drivers"};
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        if (strstr(command, tools[i])) {
            return true;
        }
    }
    return false;
}

/* How many bytes of a command are before the word pip, if pip is what it runs. */
static bool runs_pip(const char *command, size_t *before)
{
    static const char *const pips[] = {"python -m pip ", "pip "};
    for (size_t i = 0; i < sizeof pips / sizeof *pips; i++) {
        if (str_starts(str_of(command), pips[i])) {
            *before = strlen(pips[i]) - strlen("pip ");
            return true;
        }
    }
    return false;
}

/* pip of the Python that the text's program brings along: any other installs beside it. */
static const char *with_portable_python(const struct log_matched *m, const char *command)
{
    static const char portable[] = ".\\python_embeded\\python.exe -m ", and[] = "&& ";
    bool is_portable = false;
    for (size_t i = 0; i < m->n_facts; i++) {
        is_portable = is_portable || log_fact_field(m->facts[i], "portable");
    }
    const char *here = is_portable ? "" : command;
    for (const char *rest = command; is_portable && *rest;) {
        size_t before = 0;
        const char *with = runs_pip(rest, &before) ? portable : "";
        const char *next = strstr(rest, and);
        next = next ? next + strlen(and) : rest + strlen(rest);
        here = arena_printf(m->a, "%s%s%.*s", here, with, (int)(next - rest - (ptrdiff_t)before),
                            rest + before);
        rest = next;
    }
    return here;
}

const char *log_command_here(const struct log_matched *m, const char *command)
{
    static const char install[] = "sudo apt-get install ";
    enum kb_manager manager = command ? log_manager(m) : KB_MANAGER_APT;
    if (manager == KB_MANAGER_APT) {
        return command ? with_portable_python(m, command) : NULL;
    }
    command = with_ram_disk(m, command, manager);
    const char *at = strstr(command, install);
    if (at) {
        struct str rest = str_of(at + sizeof install - 1);
        struct str list = {rest.s, packages_end(rest)};
        const char *here = installs(m, list, manager);
        if (!here) {
            return NULL;
        }
        command =
            arena_printf(m->a, "%.*s%s%s", (int)(at - command), command, here, rest.s + list.n);
    }
    return is_of_debian(command) ? NULL : command;
}
