#include "winldr/script.h"

#include <string.h>

#include "winldr/path.h"

enum { TEXT_MAX = 1 << 18 };

const char *winldr_below(struct winldr_files *f, const char *folder, const char *name)
{
    return winldr_path_join(f->arena, folder, name);
}

enum winldr_entry_kind winldr_kind(struct winldr_files *f, const char *path)
{
    return winldr_files_get(f, winldr_path_full(f->arena, "C:\\", path))->kind;
}

bool winldr_is_file(struct winldr_files *f, const char *path)
{
    return winldr_kind(f, path) == WINLDR_ENTRY_FILE;
}

bool winldr_is_folder(struct winldr_files *f, const char *path)
{
    return winldr_kind(f, path) == WINLDR_ENTRY_FOLDER;
}

bool winldr_name_ends(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);
    return n >= m && winldr_name_is(name + n - m, suffix);
}

bool winldr_read_text(struct winldr_files *f, const char *path, struct str *ret)
{
    const struct winldr_entry *e = winldr_files_place(f, path);
    return e->place && root_read(f->root, f->arena, e->place, TEXT_MAX, ret) == 0;
}

void winldr_load_files(struct winldr_process *p, const char *folder, const char *prefix,
                       const char *suffix)
{
    struct winldr_names names = winldr_files_list(p->files, folder);
    for (size_t i = 0; i < names.n; i++) {
        if (strncmp(names.items[i], prefix, strlen(prefix)) == 0 &&
            winldr_name_ends(names.items[i], suffix)) {
            /* Kept in p->loads. */
            (void)winldr_load(p, winldr_below(p->files, folder, names.items[i]),
                              WINLDR_IMPORT_FLAGS);
        }
    }
}

bool winldr_is_unseen(struct winldr_process *p, const struct winldr_python *py, const char *value,
                      const char *name)
{
    if (value || !py->variables_unseen) {
        return false;
    }
    p->cut = p->cut ? p->cut
                    : arena_printf(p->arena,
                                   "whether %s is set, by which this import finds DLLs, is "
                                   "not known: %s",
                                   name, py->variables_unseen);
    return true;
}

bool winldr_add_existing(struct winldr_process *p, const char *folder)
{
    return winldr_is_folder(p->files, folder) && winldr_add_directory(p, folder);
}
