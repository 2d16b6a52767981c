/*
 * The modules of a process of Windows and the folders it has added, and what is unloaded with one.
 */
#include <string.h>

#include "winldr/internal.h"
#include "winldr/path.h"
#include "winldr/process.h"

void winldr_open_apiset(struct winldr_process *p)
{
    struct gm_err err;
    const char *path = winldr_path_join(p->arena, p->system32, "apisetschema.dll");
    struct winldr_entry *e = winldr_files_get(p->files, path);
    if (e->kind == WINLDR_ENTRY_FILE &&
        pe_apiset_open(&e->file->image, &p->apiset_storage, &err) == 0) {
        p->apiset = &p->apiset_storage;
    }
}

struct winldr_module *winldr_add_module(struct winldr_process *p, const char *path,
                                        const struct winldr_file *file, int load)
{
    struct winldr_module *m = arena_alloc(p->arena, sizeof *m);
    m->path = path;
    m->name = winldr_path_base(path);
    m->file = file;
    m->load = load;
    m->is_pinned = !file;
    VEC_PUSH(p->arena, &p->modules, m);
    return m;
}

bool winldr_add_directory(struct winldr_process *p, const char *path)
{
    enum winldr_path_kind kind = winldr_path_kind(path);
    if (kind == WINLDR_PATH_RELATIVE || kind == WINLDR_PATH_OF_DRIVE) {
        return false;
    }
    bool is_unsure = kind == WINLDR_PATH_DEVICE || kind == WINLDR_PATH_VERBATIM;
    const char *full = winldr_path_full(p->arena, p->config.cwd, path);
    if (winldr_files_get(p->files, full)->kind == WINLDR_ENTRY_MISSING) {
        return false;
    }
    VEC_PUSH(p->arena, &p->added,
             (struct winldr_added){arena_strdup(p->arena, path), is_unsure ? NULL : full});
    return true;
}

void winldr_remove_directory(struct winldr_process *p, const char *path)
{
    for (size_t i = p->added.n; i-- > 0;) {
        if (strcmp(p->added.items[i].given, path) == 0) {
            memmove(p->added.items + i, p->added.items + i + 1,
                    (p->added.n - i - 1) * sizeof *p->added.items);
            p->added.n--;
            return;
        }
    }
}

void winldr_set_directory(struct winldr_process *p, const char *path)
{
    if (path && strchr(path, ';')) {
        return;
    }
    p->set_directory = path ? arena_strdup(p->arena, path) : NULL;
}

bool winldr_set_default_flags(struct winldr_process *p, unsigned flags)
{
    const unsigned allowed =
        WINLDR_APPLICATION_DIR | WINLDR_USER_DIRS | WINLDR_SYSTEM32 | WINLDR_DEFAULT_DIRS;
    if (!flags || flags & ~allowed) {
        return false;
    }
    p->config.default_flags = flags;
    return true;
}

void winldr_set_path(struct winldr_process *p, const char *path)
{
    p->config.path = arena_strdup(p->arena, path);
}

void winldr_set_cwd(struct winldr_process *p, const char *path)
{
    const char *full = winldr_path_full(p->arena, p->config.cwd, path);
    enum winldr_entry_kind kind = winldr_files_get(p->files, full)->kind;
    if (kind != WINLDR_ENTRY_MISSING && kind != WINLDR_ENTRY_FILE) {
        p->config.cwd = full;
    }
}

struct winldr_module *winldr_find_module(const struct winldr_process *p, const char *name)
{
    for (size_t i = 0; i < p->modules.n; i++) {
        if (winldr_name_is(p->modules.items[i]->name, name)) {
            return p->modules.items[i];
        }
    }
    return NULL;
}

struct winldr_module *winldr_module_of_file(const struct winldr_process *p,
                                            const struct winldr_file *file)
{
    for (size_t i = 0; i < p->modules.n; i++) {
        if (p->modules.items[i]->file == file) {
            return p->modules.items[i];
        }
    }
    return NULL;
}

static void mark_module(struct winldr_module *m)
{
    if (!m->is_marked) {
        m->is_marked = true;
        for (size_t i = 0; i < m->imports.n; i++) {
            mark_module(m->imports.items[i]);
        }
    }
}

void winldr_sweep_modules(struct winldr_process *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->modules.n; i++) {
        p->modules.items[i]->is_marked = false;
    }
    for (size_t i = 0; i < p->modules.n; i++) {
        struct winldr_module *m = p->modules.items[i];
        if (m->is_pinned || m->refs) {
            mark_module(m);
        }
    }
    for (size_t i = 0; i < p->modules.n; i++) {
        struct winldr_module *m = p->modules.items[i];
        if (m->is_marked) {
            p->modules.items[kept++] = m;
        }
    }
    p->modules.n = kept;
}

void winldr_free(struct winldr_process *p, struct winldr_module *m)
{
    if (m->refs && --m->refs == 0 && !m->is_pinned) {
        winldr_sweep_modules(p);
    }
}
