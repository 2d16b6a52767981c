/* Libraries that are loaded before anything else, so that later requests find them by name. */
#include <string.h>

#include "plan/internal.h"

/* ------------------------------------------------------------------ which file */

static bool in_folder_of(struct plan_work *x, const char *path, const plan_texts *like)
{
    for (size_t i = 0; i < like->n; i++) {
        if (strcmp(path_dir(x->a, like->items[i]), path_dir(x->a, path)) == 0) {
            return true;
        }
    }
    return false;
}

const char *plan_file_for(struct plan_work *x, const char *name, const plan_texts *like)
{
    struct model_library *list = NULL;
    const char *first = NULL;
    size_t n = model_libraries(x->m, name, &list);
    for (size_t i = 0; i < n; i++) {
        if (!list[i].usable || strcmp(list[i].name, name) != 0 || strstr(list[i].path, "/stubs/") ||
            diag_serves_other_arm(x->m, list[i].path)) {
            continue;
        }
        if (in_folder_of(x, list[i].path, like)) {
            return list[i].path;
        }
        first = first ? first : list[i].path;
    }
    return first;
}

static bool paths_have_name(const plan_texts *paths, const char *name)
{
    for (size_t i = 0; i < paths->n; i++) {
        if (strcmp(path_base(paths->items[i]), name) == 0) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ order */

static const struct elf_image *image_of(struct plan_work *x, const char *path)
{
    const struct ldso_file *f = ldso_store_get(x->m->store, path)->file;
    return f ? &f->image : NULL;
}

static bool needs(struct plan_work *x, const char *path, const char *other)
{
    const struct elf_image *image = image_of(x, path), *o = image_of(x, other);
    const char *soname = o && o->soname ? o->soname : path_base(other);
    for (size_t i = 0; image && i < image->n_needs; i++) {
        if (strcmp(image->needs[i].name, soname) == 0) {
            return true;
        }
    }
    return false;
}

/* What a library needs goes before it, the rest stays in the order in which it was asked for. */
static void order_visit(struct plan_work *x, const plan_texts *paths, size_t i, bool *done,
                        plan_texts *out)
{
    if (done[i]) {
        return;
    }
    done[i] = true;
    for (size_t k = 0; k < paths->n; k++) {
        if (!done[k] && needs(x, paths->items[i], paths->items[k])) {
            order_visit(x, paths, k, done, out);
        }
    }
    VEC_PUSH(x->a, out, paths->items[i]);
}

static plan_texts in_order(struct plan_work *x, const plan_texts *paths)
{
    plan_texts out = {0};
    bool *done = arena_array(x->a, paths->n + 1, sizeof *done);
    for (size_t i = 0; i < paths->n; i++) {
        order_visit(x, paths, i, done, &out);
    }
    return out;
}

/* ------------------------------------------------------------------ the set */

/* LD_PRELOAD with the set first and what was there behind it; NULL if it cannot be written. */
static const char *preload_value(struct plan_work *x, const plan_texts *paths)
{
    const char *out = "", *old = plan_getenv(x, "LD_PRELOAD");
    for (size_t i = 0; i < paths->n; i++) {
        if (strpbrk(paths->items[i], " :$")) {
            return NULL;
        }
        out = arena_printf(x->a, "%s%s%s", out, i ? ":" : "", paths->items[i]);
    }
    for (struct str rest = str_of(old); rest.s;) {
        const char *blank = str_dup(x->a, str_cut(&rest, ' '));
        for (struct str part = str_of(blank); part.s;) {
            const char *path = str_dup(x->a, str_cut(&part, ':'));
            out = *path && !plan_has(paths, path) ? arena_printf(x->a, "%s:%s", out, path) : out;
        }
    }
    return out;
}

/* The set in the start environment, with the folder of its links first on the path. */
static bool start_with(struct plan_work *x, const struct plan_set *set, struct model_change *ret)
{
    const char *value = preload_value(x, &set->paths);
    plan_texts env = plan_env(x);
    if (!value) {
        return false;
    }
    plan_env_with(x, &env, "LD_PRELOAD", value, &env);
    if (set->links.n) {
        plan_env_with(x, &env, "LD_LIBRARY_PATH", plan_shadow_path(x), &env);
    }
    ret->env = env.items;
    ret->n_env = env.n;
    return true;
}

/* The change by which a set is searched for: in a process that has just started, since dlopen says
 * what each library lacks; a program that is no interpreter asks at its start already. */
static struct model_change change_of(struct plan_work *x, const struct plan_set *set)
{
    struct model_change c = {0};
    if (x->m->env || x->o->manner == PLAN_IN_PROCESS) {
        c.preloads = set->paths.items;
        c.n_preloads = set->paths.n;
    } else if (set->paths.n) {
        (void)start_with(x, set, &c); // not possible: the change is none, and mends nothing
    }
    if (set->links.n && !c.env) {
        plan_texts env = plan_env(x);
        plan_env_with(x, &env, "LD_LIBRARY_PATH", plan_shadow_path(x), &env);
        c.env = env.items;
        c.n_env = env.n;
    }
    if (set->links.n) {
        struct ldso_overlay *overlay = arena_alloc(x->a, sizeof *overlay);
        *overlay = plan_overlay_of(x, &set->links);
        c.overlay = overlay;
    }
    return c;
}

/* Adds what the failing processes still lack, and what the libraries of the set need themselves,
 * until nothing is added any more. */
static plan_texts paths_grow(struct plan_work *x, plan_texts paths)
{
    for (int tries = 0; tries < PLAN_TRIES_MAX && paths.n < PLAN_PRELOADS_MAX; tries++) {
        plan_lacks lacks = {0};
        struct model_replayed *replayed = NULL;
        size_t known = paths.n;
        paths = in_order(x, &paths);
        struct model_change c = change_of(x, &(struct plan_set){.paths = paths});
        if (!plan_still_lacks(x, &c, &lacks, &replayed)) {
            break;
        }
        for (size_t i = 0; i < lacks.n; i++) {
            const char *name = lacks.items[i].lack.name;
            const char *file =
                paths_have_name(&paths, name) ? NULL : plan_file_for(x, name, &paths);
            if (file) {
                VEC_PUSH(x->a, &paths, file);
            }
        }
        if (paths.n == known) {
            break;
        }
    }
    return in_order(x, &paths);
}

static bool path_is_library(struct plan_work *x, const char *path)
{
    const struct elf_image *image = image_of(x, path);
    return image && image->state == ELF_STATE_OK && image->type == ET_DYN && !image->dynamic_bad;
}

static void add_from(struct plan_work *x, const char *dir, const char *name, plan_texts *paths)
{
    const char *path = path_join(x->a, dir, name);
    if (!strchr(name, '/') && !paths_have_name(paths, name) && path_is_library(x, path)) {
        VEC_PUSH(x->a, paths, path);
    }
}

/* The libraries of one folder that the failing processes ask for and that must match the culprit:
 * its family's, or the culprit alone. */
static plan_texts seeds(struct plan_work *x, const struct diag_finding *f, const char *dir,
                        const char *name, const plan_texts *paths)
{
    plan_texts out = {0};
    const struct kb_family *family = kb_family_of(&x->m->families, name);
    for (size_t i = 0; i < paths->n; i++) {
        if (!family || !kb_family_has(family, path_base(paths->items[i]))) {
            VEC_PUSH(x->a, &out, paths->items[i]);
        }
    }
    add_from(x, dir, name, &out);
    for (size_t i = 0; family && i < x->m->processes.n; i++) {
        const struct model_process *p = x->m->processes.items[i];
        for (size_t k = 0; p->ldso && diag_shows_in(x->m, f, p) && k < p->ldso->requests.n; k++) {
            if (kb_family_has(family, p->ldso->requests.items[k]->name)) {
                add_from(x, dir, p->ldso->requests.items[k]->name, &out);
            }
        }
    }
    return out;
}

static bool finding_is_gone(const struct plan_verdict *v, const struct diag_finding *f)
{
    for (size_t i = 0; i < v->gone.n; i++) {
        if (v->gone.items[i] == f) {
            return true;
        }
    }
    return false;
}

static bool judge_set(struct plan_work *x, const struct plan_set *set, struct plan_verdict *ret)
{
    struct model_change c = change_of(x, set);
    return plan_judge(x, &c, ret);
}

enum { FOLDERS_MAX = 4 };

struct search {
    struct plan_set *best, *shadowed;
    struct plan_verdict found, found_shadowed; // what they come to
};

/* A set is kept if it mends more; where names with the full version are found before what it has
 * loaded, it is tried with links as well. */
static void try_set(struct plan_work *x, const plan_texts *paths, struct search *s)
{
    struct plan_verdict v;
    struct plan_set set = {.paths = *paths};
    if (!judge_set(x, &set, &v)) {
        return;
    }
    if (plan_is_better(&v, &s->found)) {
        *s->best = set;
        s->found = v;
        return;
    }
    set.links = plan_shadow_path(x) ? plan_shadow_links(x, paths) : (plan_links){0};
    if (set.links.n && judge_set(x, &set, &v) && plan_is_better(&v, &s->found) &&
        plan_is_better(&v, &s->found_shadowed)) {
        *s->shadowed = set;
        s->found_shadowed = v;
    }
}

static void add_copy(struct plan_work *x, const char *path, const char *soname, plan_copies *out)
{
    const char *dir = path_normal(x->a, path_dir(x->a, model_absolute(x->m, path)));
    for (size_t i = 0; i < out->n; i++) {
        if (strcmp(out->items[i].dir, dir) == 0) {
            return;
        }
    }
    if (!strstr(path, "/stubs/") && out->n < FOLDERS_MAX && !diag_serves_other_arm(x->m, path)) {
        VEC_PUSH(x->a, out, (struct plan_copy){dir, soname ? soname : path_base(path)});
    }
}

plan_copies plan_copies_of(struct plan_work *x, const char *name)
{
    plan_copies out = {0};
    struct model_library *list = NULL;
    size_t n = model_libraries(x->m, name, &list);
    for (size_t i = 0; i < n; i++) {
        if (list[i].usable) {
            add_copy(x, list[i].path, list[i].soname, &out);
        }
    }
    for (size_t i = 0; i < x->m->processes.n; i++) {
        const struct ldso_process *p = x->m->processes.items[i]->ldso;
        for (size_t k = 0; p && k < p->objects.n; k++) {
            const struct ldso_object *o = p->objects.items[k];
            if ((o->soname && strcmp(o->soname, name) == 0) ||
                strcmp(path_base(o->path), name) == 0) {
                add_copy(x, o->path, o->soname, &out);
            }
        }
    }
    return out;
}

/* The copies of what a finding blames, each with the likes of it from the same folder. */
static void try_copies(struct plan_work *x, const struct diag_finding *f, struct search *s)
{
    plan_copies copies = {0};
    if (!strchr(f->culprit, ' ')) {
        copies = plan_copies_of(x, path_base(f->culprit));
    }
    for (size_t i = 0; i < copies.n && !finding_is_gone(&s->found, f); i++) {
        plan_texts tried = paths_grow(
            x, seeds(x, f, copies.items[i].dir, copies.items[i].soname, &s->best->paths));
        if (tried.n) {
            try_set(x, &tried, s);
        }
    }
}

/* What a library of the set opens when it is used is its own to find: cuBLAS opens NVRTC. A repair
 * that leads to the next finding does not end, so that those libraries are loaded as well. */
static void cover_appeared(struct plan_work *x, struct search *s)
{
    for (int tries = 0; tries < PLAN_TRIES_MAX && s->found.appeared.n; tries++) {
        struct plan_set set = {.links = s->best->links};
        struct plan_verdict v;
        plan_texts names = plan_names_appeared(x, &s->found);
        for (size_t i = 0; i < s->best->paths.n; i++) {
            VEC_PUSH(x->a, &set.paths, s->best->paths.items[i]);
        }
        for (size_t i = 0; i < names.n && set.paths.n < PLAN_PRELOADS_MAX; i++) {
            const char *file = paths_have_name(&set.paths, names.items[i])
                                   ? NULL
                                   : plan_file_for(x, names.items[i], &set.paths);
            if (file) {
                VEC_PUSH(x->a, &set.paths, file);
            }
        }
        if (set.paths.n == s->best->paths.n || !judge_set(x, &set, &v) ||
            !plan_is_better(&v, &s->found)) {
            return;
        }
        *s->best = set;
        s->found = v;
    }
}

/* Libraries that are found can be the end of a program that goes on without them. */
static void say_what_it_breaks(struct plan_work *x, const struct plan_verdict *v)
{
    for (size_t i = 0; i < v->appeared.n; i++) {
        if (v->appeared.items[i]->severity == DIAG_ERROR) {
            plan_cannot(x, "Loading the libraries first is not a repair here: %s",
                        v->appeared.items[i]->summary);
        }
    }
}

void plan_find_preloads(struct plan_work *x, struct plan_set *ret, struct plan_set *ret_shadowed)
{
    struct search s = {0};
    struct plan_verdict refused = {0};
    *ret = (struct plan_set){.paths = paths_grow(x, (plan_texts){0})};
    *ret_shadowed = (struct plan_set){0};
    if (ret->paths.n == 0 || !judge_set(x, ret, &s.found) || s.found.worse) {
        *ret = (struct plan_set){0};
        refused = s.found;
        s.found = (struct plan_verdict){0};
    }
    s.best = ret;
    s.shadowed = ret_shadowed;
    for (size_t i = 0; i < x->report->findings.n; i++) {
        const struct diag_finding *f = x->report->findings.items[i];
        if (f->severity != DIAG_NOTE && f->scripts.n && !finding_is_gone(&s.found, f)) {
            try_copies(x, f, &s);
        }
    }
    cover_appeared(x, &s);
    if (ret->paths.n == 0 && x->o->manner == PLAN_IN_PROCESS) {
        say_what_it_breaks(x, &refused);
    }
}

/* ------------------------------------------------------------------ the way */

static struct plan_step preload_step(struct plan_work *x, const plan_texts *paths)
{
    const char *value = x->o->manner == PLAN_AT_START ? preload_value(x, paths) : NULL;
    return (struct plan_step){
        .kind = PLAN_PRELOAD,
        .text = arena_printf(x->a, "Load %zu %s before anything else, dependencies first.",
                             paths->n, paths->n == 1 ? "library" : "libraries"),
        .command =
            value ? arena_printf(x->a, "export LD_PRELOAD=%s", diag_shell_word(x->a, value)) : NULL,
        .paths = paths->items,
        .n_paths = paths->n};
}

void plan_add_preload(struct plan_work *x, const struct plan_set *set)
{
    struct plan_verdict v;
    struct model_change c = change_of(x, set);
    if (set->paths.n == 0 || (x->o->manner == PLAN_IN_PROCESS && set->links.n)) {
        return;
    }
    if (x->o->manner == PLAN_AT_START) {
        c.preloads = NULL;
        c.n_preloads = 0;
        if (!start_with(x, set, &c)) {
            plan_cannot(x,
                        "LD_PRELOAD: the path of a library contains a blank, a colon or a dollar "
                        "sign, which the loader does not read as part of a path.");
            return;
        }
    }
    if (!plan_judge(x, &c, &v)) {
        return;
    }
    struct plan_way *way = plan_way_new(
        x, PLAN_FOR_ONE_START,
        set->links.n ? "Load the right libraries before anything else, and answer their full names "
                       "from a folder of links."
                     : "Load the right libraries before anything else.");
    if (set->links.n) {
        plan_shadow_steps(x, &set->links, way);
    }
    VEC_PUSH(x->a, &way->steps, preload_step(x, &set->paths));
    if (plan_prove(x, &v, way)) {
        plan_way_add(x, way);
    }
}
