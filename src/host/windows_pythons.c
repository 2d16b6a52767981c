/*
 * The Pythons that the registry of a Windows names (PEP 514):
 *
 *   SOFTWARE    Python\COMPANY\TAG\InstallPath                     for all users
 *   NTUSER.DAT  Software\Python\COMPANY\TAG\InstallPath            of one
 *                              TAG\PythonPath\ANY                  folders of sys.path
 *
 * The texts are the keys' default values. Those for x86 are below WOW6432Node.
 */
#include <string.h>

#include "host/windows_look.h"

enum { PYTHONS_MAX = 256 };

/* The default values of the subkeys, in their order. */
static void read_paths(struct windows_look *w, const struct hive *h, struct hive_key tag,
                       struct host_windows_python *ret)
{
    struct arena *a = w->l->arena;
    struct hive_key key;
    struct gm_err err;
    hive_subkeys_list subkeys;
    if (!host_windows_key(h, tag, "PythonPath", &key) || hive_subkeys(h, a, key, &subkeys, &err)) {
        return;
    }
    for (size_t i = 0; i < subkeys.n; i++) {
        const char *text = host_windows_text(w, h, subkeys.items[i].key, "");
        if (text) {
            VEC_PUSH(a, &ret->paths, text);
        }
    }
}

static void read_tag(struct windows_look *w, const struct hive *h, struct hive_key tag,
                     struct host_windows_python *python)
{
    struct hive_key key;
    python->install =
        host_windows_key(h, tag, "InstallPath", &key) ? host_windows_text(w, h, key, "") : NULL;
    read_paths(w, h, tag, python);
    if (w->l->host->windows.pythons.n == PYTHONS_MAX) {
        root_note_cut(w->l->root,
                      "the registry names more than %d Pythons; the others were not "
                      "looked at",
                      PYTHONS_MAX);
        return;
    }
    VEC_PUSH(w->l->arena, &w->l->host->windows.pythons, *python);
}

void host_windows_read_pythons(struct windows_look *w, const struct hive *h, const char *path,
                               const char *user, const char *where)
{
    struct arena *a = w->l->arena;
    struct hive_key key;
    struct gm_err err;
    hive_subkeys_list companies, tags;
    if (!host_windows_key(h, hive_root(h), path, &key)) {
        return;
    }
    if (hive_subkeys(h, a, key, &companies, &err) < 0) {
        host_windows_note(w, arena_printf(a, "%s: %s", where, err.text));
        return;
    }
    for (size_t i = 0; i < companies.n; i++) {
        if (hive_subkeys(h, a, companies.items[i].key, &tags, &err) < 0) {
            host_windows_note(w, arena_printf(a, "%s: %s", where, err.text));
            continue;
        }
        for (size_t k = 0; k < tags.n; k++) {
            struct host_windows_python python = {
                .company = companies.items[i].name, .tag = tags.items[k].name, .user = user};
            read_tag(w, h, tags.items[k].key, &python);
        }
    }
}
