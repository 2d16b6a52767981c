/* The hives of a Windows tree, or of the running Windows, and texts of their values. */
#include <errno.h>
#include <string.h>

#include "base/snap.h"
#include "hive/live.h"
#include "host/windows_look.h"
#include "winldr/path.h"

void host_windows_note(struct windows_look *w, const char *text)
{
    VEC_PUSH(w->l->arena, &w->l->host->notes, text);
}

/* A snapshot holds them here, a folder that no drive has. */
#define LIVE_FOLDER "/registry"

/* The hive of the running Windows, or of that one which a snapshot was taken in. */
static bool live_hive(struct windows_look *w, const char *path, struct str *ret)
{
    struct root *root = w->l->root;
    struct arena *a = w->l->arena;
    const char *profile = hive_live_profile(a), *base = winldr_path_base(path);
    bool is_user = winldr_name_is(base, "NTUSER.DAT");
    const char *place =
        path_join(a, LIVE_FOLDER, is_user ? winldr_path_base(winldr_path_folder(a, path)) : base);
    if (!root_is_here(root)) {
        const struct snap_node *held = root->snap ? snap_find(root->snap, place) : NULL;
        *ret = held && held->whole ? held->data : (struct str){NULL, 0};
        return ret->s != NULL;
    }
    if (is_user && (!profile || !winldr_name_is(winldr_path_folder(a, path), profile))) {
        return false; // another user's
    }
    if (!hive_live(a, is_user ? "USER" : base, ret)) {
        return false;
    }
    if (root->snap) {
        snap_hold(root->snap, LIVE_FOLDER, place, *ret);
    }
    return true;
}

struct host_fact host_windows_open(struct windows_look *w, const char *path, struct hive *ret)
{
    struct arena *a = w->l->arena;
    const struct winldr_entry *e = winldr_files_place(&w->files, path);
    const void *data;
    size_t size;
    struct stat st;
    struct gm_err err;
    struct str live;
    if (live_hive(w, path, &live)) {
        return hive_open(ret, live.s, live.n, &err) < 0
                   ? host_unknown(path, arena_strdup(a, err.text))
                   : host_yes(path, NULL);
    }
    if (!e->place) {
        return e->kind == WINLDR_ENTRY_MISSING ? host_no(path, "it is not there")
                                               : host_unknown(path, e->detail);
    }
    int rc = root_map(w->l->root, e->place, &data, &size, &st);
    if (rc < 0) {
        return host_unknown(e->place,
                            rc == -EACCES || rc == -EBUSY || rc == -EPERM
                                ? arena_printf(a,
                                               "cannot be read: %s (a running Windows keeps its "
                                               "registry to itself)",
                                               strerror(-rc))
                                : host_why(w->l, rc));
    }
    if (size) {
        VEC_PUSH(a, &w->maps, (struct winldr_map){data, size});
    }
    if (hive_open(ret, data, size, &err) < 0) {
        return host_unknown(e->place, arena_strdup(a, err.text));
    }
    if (ret->dirty) {
        host_windows_note(w, arena_printf(a, "%s " HOST_DIRTY_HIVE, e->place));
    }
    return host_yes(e->place, NULL);
}

bool host_windows_key(const struct hive *h, struct hive_key from, const char *path,
                      struct hive_key *ret)
{
    struct gm_err err;
    return h->bins && hive_find(h, from, path, ret, &err) == 1;
}

struct host_fact host_windows_value(struct windows_look *w, const struct hive *h,
                                    struct hive_key key, const char *name, const char *where)
{
    struct arena *a = w->l->arena;
    struct hive_value v;
    struct gm_err err;
    int rc = hive_value(h, a, key, name, &v, &err);
    if (rc <= 0) {
        return rc == 0 ? host_no(where, arena_printf(a, "%s is not set", name))
                       : host_unknown(where, arena_strdup(a, err.text));
    }
    const char *text = hive_text(a, &v);
    return text ? host_yes(where, text)
                : host_unknown(where, arena_printf(a, "%s is not a text, or is too long", name));
}

const char *host_windows_text(struct windows_look *w, const struct hive *h, struct hive_key key,
                              const char *name)
{
    struct host_fact text = host_windows_value(w, h, key, name, NULL);
    return text.state == HOST_YES ? text.value : NULL;
}
