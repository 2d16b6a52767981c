#include "winldr/search.h"

#include <string.h>

#include "winldr/path.h"

enum {
    SEARCH_FLAGS = WINLDR_DLL_LOAD_DIR | WINLDR_APPLICATION_DIR | WINLDR_USER_DIRS |
                   WINLDR_SYSTEM32 | WINLDR_DEFAULT_DIRS
};

/* As it was given: what is dropped from the end of a folder's name shows in the joined path. */
static void add_place(struct winldr_process *p, struct winldr_list *list, const char *folder,
                      enum winldr_via via)
{
    VEC_PUSH(p->arena, &list->places, (struct winldr_place){.folder = folder, .via = via});
}

static void add_system(struct winldr_process *p, struct winldr_list *list)
{
    add_place(p, list, p->system32, WINLDR_VIA_SYSTEM32);
    add_place(p, list, winldr_path_join(p->arena, p->config.windows, "System"), WINLDR_VIA_SYSTEM);
    add_place(p, list, p->config.windows, WINLDR_VIA_WINDOWS);
}

static void add_graph(struct winldr_process *p, struct winldr_list *list)
{
    for (size_t i = 0; i < p->config.n_graph; i++) {
        add_place(p, list, p->config.graph[i], WINLDR_VIA_PACKAGE);
    }
    if (p->config.graph_unseen) {
        add_place(p, list, NULL, WINLDR_VIA_PACKAGE);
    }
}

/* PATH: semicolons; an empty entry counts for nothing. Wine takes the quotes around an entry for a
 * part of its name; no document says what Windows does. */
static void add_path(struct winldr_process *p, struct winldr_list *list)
{
    if (!p->config.path) {
        VEC_PUSH(p->arena, &list->places, (struct winldr_place){.via = WINLDR_VIA_ENVIRONMENT});
        return;
    }
    struct str rest = str_of(p->config.path);
    while (rest.s) {
        struct str entry = str_cut(&rest, ';');
        bool is_quoted = entry.n >= 2 && entry.s[0] == '"' && entry.s[entry.n - 1] == '"';
        entry = is_quoted ? (struct str){entry.s + 1, entry.n - 2} : entry;
        if (entry.n) {
            VEC_PUSH(p->arena, &list->places,
                     ((struct winldr_place){str_dup(p->arena, entry), WINLDR_VIA_ENVIRONMENT,
                                            is_quoted}));
        }
    }
}

void winldr_search_flags(struct winldr_process *p, const char *importer, unsigned flags,
                         struct winldr_list *ret)
{
    if (flags & WINLDR_DEFAULT_DIRS) {
        flags |= WINLDR_APPLICATION_DIR | WINLDR_USER_DIRS | WINLDR_SYSTEM32;
    }
    add_graph(p, ret);
    if (flags & WINLDR_DLL_LOAD_DIR) {
        add_place(p, ret, winldr_path_folder(p->arena, importer), WINLDR_VIA_LOAD_DIR);
    }
    if (flags & WINLDR_APPLICATION_DIR) {
        add_place(p, ret, winldr_path_folder(p->arena, p->config.exe), WINLDR_VIA_APPLICATION);
    }
    for (size_t i = p->added.n; flags & WINLDR_USER_DIRS && i-- > 0;) { // last added first
        add_place(p, ret, p->added.items[i].full, WINLDR_VIA_ADDED);
    }
    if (flags & WINLDR_USER_DIRS && p->set_directory && *p->set_directory) {
        add_place(p, ret, p->set_directory, WINLDR_VIA_SET);
    }
    if (flags & WINLDR_SYSTEM32) {
        add_place(p, ret, p->system32, WINLDR_VIA_SYSTEM32);
    }
}

static void classic_list(struct winldr_process *p, const char *name, unsigned flags,
                         struct winldr_list *ret)
{
    bool altered = flags & WINLDR_ALTERED_SEARCH_PATH && strchr(name, '\\');
    add_graph(p, ret);
    add_place(p, ret, winldr_path_folder(p->arena, altered ? name : p->config.exe),
              altered ? WINLDR_VIA_LOAD_DIR : WINLDR_VIA_APPLICATION);
    if (p->config.is_packaged) {
        add_place(p, ret, p->system32, WINLDR_VIA_SYSTEM32);
        return;
    }
    if (p->set_directory && *p->set_directory) {
        add_place(p, ret, p->set_directory, WINLDR_VIA_SET);
    }
    bool cwd = !p->set_directory;
    if (cwd && p->config.unsafe_search) {
        add_place(p, ret, p->config.cwd, WINLDR_VIA_CWD);
    }
    add_system(p, ret);
    if (cwd && !p->config.unsafe_search) {
        add_place(p, ret, p->config.cwd, WINLDR_VIA_CWD);
    }
    add_path(p, ret);
}

/* Enough for DLL_LOAD_DIR. Wine refuses those of a server. */
static bool is_full_path(const char *name)
{
    enum winldr_path_kind kind = winldr_path_kind(name);
    return kind != WINLDR_PATH_RELATIVE && kind != WINLDR_PATH_OF_DRIVE;
}

bool winldr_search_list(struct winldr_process *p, const char *name, unsigned flags,
                        struct winldr_list *ret)
{
    *ret = (struct winldr_list){0};
    unsigned by_default = p->config.default_flags;
    if (flags & WINLDR_ALTERED_SEARCH_PATH) {
        if (flags & SEARCH_FLAGS) {
            return false;
        }
        flags |= by_default ? by_default | WINLDR_DLL_LOAD_DIR : 0;
    } else if (!(flags & SEARCH_FLAGS)) {
        flags |= by_default;
    }
    if (!(flags & SEARCH_FLAGS)) {
        classic_list(p, name, flags, ret);
        return true;
    }
    if (flags & WINLDR_DLL_LOAD_DIR && !is_full_path(name)) {
        return false;
    }
    winldr_search_flags(p, name, flags, ret);
    return true;
}
