#include "winldr/package.h"

#include <string.h>

#include "winldr/path.h"
#include "winldr/tag.h"

enum { APPX_MANIFEST_MAX = 1 << 18, GRAPH_MAX = 32 };

static const char packages[] = "C:\\Program Files\\WindowsApps";

/* "3.12.2800.0" as a number, by which versions are ordered. */
static uint64_t version_number(struct str text)
{
    uint64_t number = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t part = 0;
        (void)(text.s && str_u64(str_cut(&text, '.'), &part)); // what is not a number counts as 0
        number = number << 16 | (part & 0xffff);
    }
    return number;
}

/* A folder is NAME_VERSION_ARCHITECTURE_RESOURCE_PUBLISHER. An empty publisher: any. */
static bool folder_fits(const char *folder, struct str name, struct str publisher,
                        uint64_t *ret_version)
{
    struct str rest = str_of(folder);
    bool good = winldr_name_part_is(str_cut(&rest, '_'), name) && rest.s;
    *ret_version = good ? version_number(str_cut(&rest, '_')) : 0;
    good = good && rest.s && str_is(str_cut(&rest, '_'), "x64") && rest.s;
    if (good) {
        (void)str_cut(&rest, '_'); // the resources' language, which is empty
    }
    return good && rest.s && (!publisher.n || winldr_name_part_is(rest, publisher));
}

static const char *newest_folder(struct winldr_files *f, struct str name, struct str publisher)
{
    struct winldr_names names = winldr_files_list(f, packages);
    const char *found = NULL;
    uint64_t newest = 0, version = 0;
    for (size_t i = 0; i < names.n; i++) {
        if (folder_fits(names.items[i], name, publisher, &version) &&
            (!found || version >= newest)) {
            found = winldr_path_join(f->arena, packages, names.items[i]);
            newest = version;
        }
    }
    return found;
}

const char *winldr_package_folder(struct winldr_files *f, const char *family)
{
    struct str publisher = str_of(family), name = str_cut(&publisher, '_');
    return publisher.s ? newest_folder(f, name, publisher) : NULL;
}

bool winldr_package_is_alias(const char *path)
{
    static const char folder[] = "\\AppData\\Local\\Microsoft\\WindowsApps";
    const size_t n = sizeof folder - 1;
    for (const char *s = strchr(path, '\\'); s; s = strchr(s + 1, '\\')) {
        bool fits = strlen(s) >= n && (s[n] == '\\' || !s[n]);
        if (fits && winldr_name_part_is((struct str){s, n}, str_of(folder))) {
            return true;
        }
    }
    return false;
}

bool winldr_package_has(const char *exe)
{
    return winldr_path_is_below(exe, packages) || winldr_package_is_alias(exe);
}

void winldr_package_set(struct winldr_files *f, const char *exe, struct winldr_config *config)
{
    const char *folder = winldr_path_folder(f->arena, exe);
    const char **graph = arena_array(f->arena, GRAPH_MAX, sizeof *graph);
    const struct winldr_entry *e =
        winldr_files_get(f, winldr_path_join(f->arena, folder, "AppxManifest.xml"));
    struct str text = {"", 0}, tag;
    config->is_packaged = true;
    config->graph = graph;
    graph[config->n_graph++] = folder;
    config->graph_unseen =
        !e->place || root_read(f->root, f->arena, e->place, APPX_MANIFEST_MAX, &text) < 0;
    text = winldr_tag_text(f->arena, text);
    while (winldr_tag_next(&text, "PackageDependency", &tag)) {
        const char *found = newest_folder(f, winldr_tag_value(tag, "Name"), (struct str){"", 0});
        if (found && config->n_graph < GRAPH_MAX) {
            graph[config->n_graph++] = found;
        } else {
            config->graph_unseen = true;
        }
    }
}
