/* Layers that are folders, as overlay file systems keep them. */
#include <archive_entry.h>
#include <string.h>
#include <sys/stat.h>

#include "image/entries.h"
#include "image/nodes.h"

/* Whether the folder hides what earlier layers have in it. Where attributes cannot be read it
 * counts as not hiding, as it does for an engine without the right to. */
static bool is_opaque(const struct image_layer_place *place, const char *path,
                      struct arena *scratch)
{
    static const char *const names[] = {"trusted.overlay.opaque", "user.overlay.opaque"};
    const char *full = arena_printf(scratch, "%s/%s", place->folder, path);
    char value[2];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (root_attribute(place->root, full, names[i], value, sizeof value) == 1 &&
            value[0] == 'y') {
            return true;
        }
    }
    return false;
}

static struct image_layer_file *file_of_folder(struct walk *w, const char *path, uint64_t size)
{
    struct image_layer_file *f = arena_alloc(w->l->arena, sizeof *f);
    *f = (struct image_layer_file){
        .size = size, .layer = w->layer, .in_place = true, .path = arena_strdup(w->l->arena, path)};
    return f;
}

/* One name of a layer's folder as the entry of an archive would be. Its whiteouts come as what they
 * are: character devices without a number. */
static void walk_take_name(struct walk *w, const struct image_layer_place *place, const char *path,
                           const struct stat *st, struct archive_entry *e)
{
    char *link = NULL;
    (void)archive_entry_clear(e);
    archive_entry_copy_stat(e, st);
    archive_entry_set_pathname(e, path);
    if (S_ISLNK(st->st_mode) &&
        root_readlink(place->root, &w->scratch, path_join(&w->scratch, place->folder, path),
                      &link) == 0) {
        archive_entry_set_symlink(e, link);
    }
    walk_take_entry(w, e,
                    S_ISREG(st->st_mode) ? file_of_folder(w, path, (uint64_t)st->st_size) : NULL);
    struct image_layer_node *n =
        S_ISDIR(st->st_mode) ? layers_find_below(w->l, w->top, path) : NULL;
    if (n) {
        n->opaque = is_opaque(place, path, &w->scratch);
    }
}

struct folder_walk {
    struct walk walk;
    const struct image_layer_place *place;
    struct archive_entry *entry;
    uint32_t n;
    struct gm_err *err;
};

static int walk_folder(struct folder_walk *f, const char *path, unsigned depth)
{
    struct image_layers *l = f->walk.l;
    struct arena names_arena;
    struct root_dir names;
    int rc = 0;
    arena_init(&names_arena, 0, NULL, NULL);
    const char *folder = *path ? path_join(&names_arena, f->place->folder, path) : f->place->folder;
    int got = root_list(f->place->root, &names_arena, folder, ENTRIES_MAX, NULL, &names);
    if (got < 0) {
        rc = gm_err_set(f->err, GM_ERR_LOOK, "%s: %s", folder, strerror(-got));
    }
    for (size_t i = 0; rc == 0 && i < names.n; i++) {
        const char *child_path =
            *path ? path_join(&names_arena, path, names.names[i]) : names.names[i];
        struct stat st;
        if (++f->n > ENTRIES_MAX || l->n > ENTRIES_MAX || depth > ENTRY_DEPTH_MAX) {
            rc = gm_err_set(f->err, GM_ERR_LIMIT, "the image has more than %d files", ENTRIES_MAX);
        } else if (root_lstat(f->place->root, path_join(&names_arena, f->place->folder, child_path),
                              &st) == 0) {
            arena_init(&f->walk.scratch, 0, NULL, NULL);
            walk_take_name(&f->walk, f->place, child_path, &st, f->entry);
            arena_release(&f->walk.scratch);
            rc = S_ISDIR(st.st_mode) ? walk_folder(f, child_path, depth + 1) : 0;
        }
    }
    arena_release(&names_arena);
    return rc;
}

int layers_read_folder(struct image_layers *l, struct root *r, const char *folder,
                       struct image_layer_node *ret_top, struct gm_err *err)
{
    VEC_PUSH(l->arena, &l->places,
             (struct image_layer_place){.root = r, .folder = folder, .fd = -1});
    *ret_top = (struct image_layer_node){.name = "", .type = SNAP_DIR};
    struct folder_walk f = {.walk = {.l = l, .top = ret_top, .layer = (uint16_t)(l->places.n - 1)},
                            .place = &l->places.items[l->places.n - 1],
                            .entry = archive_entry_new(),
                            .err = err};
    if (!f.entry) {
        return gm_err_set(err, GM_ERR_LIMIT, "out of memory");
    }
    int rc = walk_folder(&f, "", 0);
    archive_entry_free(f.entry);
    return rc;
}

int image_layers_add_folder(struct image_layers *l, struct root *r, const char *folder,
                            struct gm_err *err)
{
    struct image_layer_node top;
    int rc = layers_read_folder(l, r, folder, &top, err);
    if (rc == 0) {
        layers_lay_over(l, l->root, &top);
    }
    return rc;
}
