/* Links inside the environment, where the failed searches have looked. */
#include <errno.h>
#include <string.h>

#include "plan/internal.h"
#include "py/dist.h"

/* ------------------------------------------------------------------ places */

static const char *own_folder(struct plan_work *x)
{
    const struct model *m = x->m;
    return m->env           ? m->env->prefix
           : m->target_file ? path_dir(x->a, model_absolute(x->m, m->target_file))
                            : NULL;
}

bool plan_is_inside(struct plan_work *x, const char *path)
{
    const char *top = own_folder(x), *real = top ? model_real_path(x->m, top) : NULL;
    const char *dir = model_real_path(x->m, path_dir(x->a, path));
    size_t n = real ? strlen(real) : 0;
    bool system = n == 0 || strcmp(real, "/") == 0 || strcmp(real, "/usr") == 0;
    return !system && dir && strncmp(dir, real, n) == 0 && (dir[n] == '\0' || dir[n] == '/');
}

const char *plan_relative(struct plan_work *x, const char *folder, const char *path)
{
    const char *real = model_real_path(x->m, folder);
    const char *from = real ? real : path_normal(x->a, folder), *to = path_normal(x->a, path);
    size_t same = 0, i = 0;
    for (; from[i] && from[i] == to[i]; i++) {
        same = from[i] == '/' ? i : same;
    }
    if (from[i] == '\0' && to[i] == '/') {
        return to + i + 1;
    }
    if (to[i] == '\0' && from[i] == '/') {
        same = i;
    }
    const char *out = "";
    for (const char *s = from + same; *s; s++) {
        out = *s == '/' ? arena_printf(x->a, "%s../", out) : out;
    }
    const char *rest = to[same] == '/' ? to + same + 1 : to + same;
    size_t n = strlen(out);
    return *rest || n == 0 ? arena_printf(x->a, "%s%s", out, rest)
                           : arena_strndup(x->a, out, n - 1);
}

/* Where a link would answer the request: a folder that its search passed by RPATH or RUNPATH, that
 * is there, and that holds nothing of the name. NULL: there is none in the environment. */
static const char *place_for(struct plan_work *x, const struct ldso_request *r)
{
    for (size_t i = 0; i < r->steps.n; i++) {
        const struct ldso_step *s = &r->steps.items[i];
        struct stat st;
        bool by_path = s->via == LDSO_VIA_RPATH || s->via == LDSO_VIA_RUNPATH;
        if (s->path && s->path[0] == '/' && by_path && s->result == LDSO_ABSENT &&
            plan_is_inside(x, s->path) && root_lstat(x->m->root, s->path, &st) == -ENOENT) {
            return path_join(x->a, model_real_path(x->m, path_dir(x->a, s->path)),
                             path_base(s->path));
        }
    }
    return NULL;
}

static bool has_link(const plan_links *links, const char *path)
{
    for (size_t i = 0; i < links->n; i++) {
        if (strcmp(links->items[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ the set */

static void add_links(struct plan_work *x, const plan_lacks *lacks, plan_links *links,
                      plan_texts *files)
{
    for (size_t i = 0; i < lacks->n; i++) {
        const struct ldso_request *r = lacks->items[i].lack.request;
        const char *path = place_for(x, r);
        const char *file = path && !has_link(links, path) ? plan_file_for(x, r->name, files) : NULL;
        if (!file) {
            continue;
        }
        bool inside = plan_is_inside(x, file);
        const char *target = inside ? plan_relative(x, path_dir(x->a, path), file) : file;
        VEC_PUSH(x->a, files, file);
        VEC_PUSH(x->a, links, (struct plan_link){path, target});
    }
}

/* One round after the other, since what a link leads to asks for more: its $ORIGIN is the folder of
 * the link. */
static plan_links find_links(struct plan_work *x, plan_texts *files)
{
    plan_links links = {0};
    for (int tries = 0; tries < PLAN_TRIES_MAX; tries++) {
        plan_lacks lacks = {0};
        struct model_replayed *replayed = NULL;
        struct ldso_overlay overlay = plan_overlay_of(x, &links);
        struct model_change c = {.overlay = &overlay};
        size_t known = links.n;
        if (!plan_still_lacks(x, &c, &lacks, &replayed)) {
            break;
        }
        add_links(x, &lacks, &links, files);
        if (links.n == known) {
            break;
        }
    }
    return links;
}

/* ------------------------------------------------------------------ what features open */

/* All libraries beside the file, since they belong together and $ORIGIN is the folder of the links:
 * NVRTC asks for its builtins. */
static void link_folder(struct plan_work *x, const char *file, const char *into, plan_links *links)
{
    const char *dir = path_dir(x->a, file);
    for (size_t i = 0; i < x->m->folders.n; i++) {
        const struct model_folder *f = &x->m->folders.items[i];
        for (size_t k = 0; strcmp(f->dir, dir) == 0 && k < f->n; k++) {
            const char *path = path_join(x->a, into, f->names[k]);
            struct stat st;
            if (!has_link(links, path) && root_lstat(x->m->root, path, &st) == -ENOENT &&
                strstr(f->names[k], ".so")) {
                const char *target = path_join(x->a, dir, f->names[k]);
                bool inside = plan_is_inside(x, target);
                VEC_PUSH(
                    x->a, links,
                    (struct plan_link){path, inside ? plan_relative(x, into, target) : target});
            }
        }
    }
}

static bool opens(const struct kb_dlopen *row, const char *name)
{
    for (size_t i = 0; i < row->objects.n; i++) {
        if (str_glob(row->objects.items[i], name)) {
            return true;
        }
    }
    return false;
}

/* What the linked libraries open for some feature only is not replayed; from their own folder they
 * would find it through their RUNPATH, so it is linked as well. */
static void add_wishes(struct plan_work *x, const plan_texts *files, plan_links *links)
{
    size_t n = links->n;
    for (size_t i = 0; i < n; i++) {
        const char *into = path_dir(x->a, links->items[i].path);
        for (size_t r = 0; r < x->m->dlopens.n; r++) {
            const struct kb_dlopen *row = &x->m->dlopens.rows[r];
            bool installed =
                !row->package || (x->m->env && py_env_by_dist(x->m->env, row->package));
            bool asks = installed && opens(row, path_base(links->items[i].path));
            for (size_t q = 0; asks && q < row->n_requests; q++) {
                const struct kb_strs *names = &row->requests[q].names;
                const char *file = names->n ? plan_file_for(x, names->items[0], files) : NULL;
                if (file && plan_is_inside(x, file)) {
                    link_folder(x, file, into, links);
                }
            }
        }
    }
}

void plan_add_links(struct plan_work *x)
{
    struct plan_verdict v;
    plan_texts files = {0};
    plan_links links = find_links(x, &files);
    add_wishes(x, &files, &links);
    struct ldso_overlay overlay = plan_overlay_of(x, &links);
    struct model_change c = {.overlay = &overlay};
    if (links.n == 0 || !plan_judge(x, &c, &v)) {
        return;
    }
    struct plan_way *way =
        plan_way_new(x, PLAN_FILES, "Put links to the libraries where the program looks for them.");
    VEC_PUSH(
        x->a, &way->steps,
        (struct plan_step){.kind = PLAN_LINK,
                           .text = arena_printf(x->a, "Make %zu link%s inside the environment.",
                                                links.n, links.n == 1 ? "" : "s"),
                           .command = plan_link_command(x, &links),
                           .links = links.items,
                           .n_links = links.n});
    if (plan_prove(x, &v, way)) {
        plan_way_add(x, way);
    }
}
