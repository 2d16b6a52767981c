/* A folder of links whose names are asked for before those of the libraries that are loaded first:
 * "libcudnn_ops.so.9.1.0" -> ".../libcudnn_ops.so.9". A name that is found as another file would be
 * mapped as a second copy; the link leads to the one that is there (by inode). */
#include <string.h>

#include "plan/internal.h"

static void add_link(struct plan_work *x, plan_links *links, const char *name, const char *target)
{
    const char *path = path_join(x->a, x->o->shadow_folder, name);
    for (size_t i = 0; i < links->n; i++) {
        if (strcmp(links->items[i].path, path) == 0) {
            return;
        }
    }
    VEC_PUSH(x->a, links, (struct plan_link){path, target});
}

static const char *image_soname(struct plan_work *x, const char *path)
{
    const struct ldso_file *f = ldso_store_get(x->m->store, path)->file;
    return f && f->image.soname ? f->image.soname : path_base(path);
}

/* The candidates of one request that come before the soname of a library of the set. */
static void links_of(struct plan_work *x, const struct model_attempt *at, const plan_texts *paths,
                     plan_links *links)
{
    for (size_t i = 0; i < paths->n; i++) {
        const char *soname = image_soname(x, paths->items[i]);
        size_t k = 0;
        while (k < at->n_names && strcmp(at->names[k], soname) != 0) {
            k++;
        }
        for (size_t j = 0; k < at->n_names && j < k; j++) {
            if (!strchr(at->names[j], '/')) {
                add_link(x, links, at->names[j], paths->items[i]);
            }
        }
    }
}

plan_links plan_shadow_links(struct plan_work *x, const plan_texts *paths)
{
    plan_links links = {0};
    for (size_t i = 0; i < x->m->processes.n; i++) {
        const struct model_process *p = x->m->processes.items[i];
        for (size_t k = 0; x->failing[i] && k < p->attempts.n; k++) {
            links_of(x, &p->attempts.items[k], paths, &links);
        }
    }
    return links;
}

const char *plan_shadow_path(struct plan_work *x)
{
    plan_texts folder = {0};
    if (!x->o->shadow_folder) {
        return NULL;
    }
    VEC_PUSH(x->a, &folder, x->o->shadow_folder);
    return plan_path_with(x, &folder);
}

struct ldso_overlay plan_overlay_of(struct plan_work *x, const plan_links *links)
{
    struct ldso_overlay out = {0};
    for (size_t i = 0; i < links->n; i++) {
        VEC_PUSH(x->a, &out.links,
                 (struct ldso_overlay_link){links->items[i].path, links->items[i].target});
    }
    return out;
}

void plan_shadow_steps(struct plan_work *x, const plan_links *links, struct plan_way *way)
{
    const char *folder = diag_shell_word(x->a, x->o->shadow_folder);
    VEC_PUSH(
        x->a, &way->steps,
        (struct plan_step){
            .kind = PLAN_SHADOW,
            .text = "Create a folder of links with the full names, which is searched first.",
            .command = arena_printf(x->a, "mkdir -p %s\n%s", folder, plan_link_command(x, links)),
            .folder = x->o->shadow_folder,
            .links = links->items,
            .n_links = links->n});
    VEC_PUSH(x->a, &way->steps,
             (struct plan_step){
                 .kind = PLAN_SET_ENV,
                 .name = "LD_LIBRARY_PATH",
                 .value = plan_shadow_path(x),
                 .text = "Put that folder first in LD_LIBRARY_PATH, before the program starts.",
                 .command = arena_printf(x->a,
                                         "export LD_LIBRARY_PATH=%s"
                                         "\"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\"",
                                         folder)});
}

/* Whether the link is of the same name as what it leads to, so that ln can name it. */
static bool keeps_name(const struct plan_link *l)
{
    return strcmp(path_base(l->path), path_base(l->target)) == 0;
}

static bool is_same_folder(struct plan_work *x, const struct plan_link *a,
                           const struct plan_link *b)
{
    return strcmp(path_dir(x->a, a->path), path_dir(x->a, b->path)) == 0;
}

/* One line for the links of a folder, at the place of the first of them. */
static const char *folder_command(struct plan_work *x, const plan_links *links, size_t first)
{
    const struct plan_link *l = &links->items[first];
    const char *out = "ln -s";
    for (size_t i = 0; i < links->n; i++) {
        const struct plan_link *o = &links->items[i];
        if (keeps_name(o) && is_same_folder(x, o, l)) {
            if (i < first) {
                return "";
            }
            out = arena_printf(x->a, "%s %s", out, diag_shell_word(x->a, o->target));
        }
    }
    return arena_printf(x->a, "%s %s", out,
                        diag_shell_word(x->a, arena_printf(x->a, "%s/", path_dir(x->a, l->path))));
}

const char *plan_link_command(struct plan_work *x, const plan_links *links)
{
    const char *out = "";
    for (size_t i = 0; i < links->n; i++) {
        const struct plan_link *l = &links->items[i];
        const char *line = keeps_name(l)
                               ? folder_command(x, links, i)
                               : arena_printf(x->a, "ln -s %s %s", diag_shell_word(x->a, l->target),
                                              diag_shell_word(x->a, l->path));
        out = *line ? arena_printf(x->a, "%s%s%s", out, *out ? "\n" : "", line) : out;
    }
    return out;
}
