/* The RPATH or RUNPATH of a file in the environment: more folders for what it does not find, fewer
 * or others for what it finds wrongly. */
#include <string.h>

#include "plan/internal.h"

typedef VEC(struct ldso_overlay_edit) edit_list;

static struct ldso_overlay_edit *edit_of(struct plan_work *x, edit_list *edits,
                                         const struct ldso_object *o)
{
    const char *path = model_real_path(x->m, o->path);
    for (size_t i = 0; path && i < edits->n; i++) {
        if (strcmp(edits->items[i].file, path) == 0) {
            return &edits->items[i];
        }
    }
    const struct ldso_file *f = path ? ldso_store_get(x->m->store, path)->file : NULL;
    bool interpreter = o->via == LDSO_VIA_MAIN && x->m->env;
    if (!f || !plan_is_inside(x, path) || o->path[0] != '/' || interpreter) {
        return NULL;
    }
    VEC_PUSH(x->a, edits, (struct ldso_overlay_edit){path, f->image.rpath, f->image.runpath});
    return &edits->items[edits->n - 1];
}

/* The path that counts: DT_RUNPATH if there is one, else DT_RPATH; without either a RUNPATH. */
static const char **path_in_force(struct ldso_overlay_edit *e)
{
    return e->rpath && !e->runpath ? &e->rpath : &e->runpath;
}

static bool has_element(const char *path, const char *element)
{
    for (struct str rest = str_of(path); rest.s;) {
        if (str_is(str_cut(&rest, ':'), element)) {
            return true;
        }
    }
    return false;
}

/* "$ORIGIN/../nvidia/cudnn/lib", as seen from the file. */
static const char *element_for(struct plan_work *x, const char *file, const char *dir)
{
    const char *relative = plan_relative(x, path_dir(x->a, file), dir);
    return plan_is_inside(x, path_join(x->a, dir, "x"))
               ? *relative ? arena_printf(x->a, "$ORIGIN/%s", relative) : "$ORIGIN"
               : dir;
}

static bool edit_add_folder(struct plan_work *x, struct ldso_overlay_edit *e, const char *dir,
                            bool first)
{
    const char **path = path_in_force(e), *old = *path, *element = element_for(x, e->file, dir);
    const char *rest = starts_with(element, "$ORIGIN") ? element + 7 : element;
    if (has_element(old, element) || strpbrk(rest, ":$")) {
        return false;
    }
    *path = !old || !*old ? element
            : first       ? arena_printf(x->a, "%s:%s", element, old)
                          : arena_printf(x->a, "%s:%s", old, element);
    return true;
}

/* ------------------------------------------------------------------ what is not found */

static bool add_lacking(struct plan_work *x, const plan_lacks *lacks, edit_list *edits,
                        plan_texts *files)
{
    bool any = false;
    for (size_t i = 0; i < lacks->n; i++) {
        const struct ldso_request *r = lacks->items[i].lack.request;
        const char *file = r->caller ? plan_file_for(x, r->name, files) : NULL;
        struct ldso_overlay_edit *e = file ? edit_of(x, edits, r->caller) : NULL;
        if (e && edit_add_folder(x, e, path_dir(x->a, file), false)) {
            VEC_PUSH(x->a, files, file);
            any = true;
        }
    }
    return any;
}

static edit_list find_missing(struct plan_work *x)
{
    edit_list edits = {0};
    plan_texts files = {0};
    for (int tries = 0; tries < PLAN_TRIES_MAX; tries++) {
        plan_lacks lacks = {0};
        struct model_replayed *replayed = NULL;
        struct ldso_overlay overlay = {.edits = {edits.items, edits.n, edits.cap}};
        struct model_change c = {.overlay = &overlay};
        if (!plan_still_lacks(x, &c, &lacks, &replayed) ||
            !add_lacking(x, &lacks, &edits, &files)) {
            break;
        }
    }
    return edits;
}

/* ------------------------------------------------------------------ what is found wrongly */

/* The object that a finding blames, where an RPATH or a RUNPATH has led to it. */
static const struct ldso_object *blamed(const struct plan_work *x, const struct diag_finding *f)
{
    for (size_t i = 0; i < x->m->processes.n; i++) {
        const struct ldso_process *p = x->m->processes.items[i]->ldso;
        for (size_t k = 0; p && k < p->requests.n; k++) {
            const struct ldso_object *o = p->requests.items[k]->object;
            bool by_path = o && (o->via == LDSO_VIA_RPATH || o->via == LDSO_VIA_RUNPATH);
            if (by_path && o->via_object &&
                (strcmp(path_base(o->path), f->culprit) == 0 || strcmp(o->path, f->culprit) == 0 ||
                 (o->soname && strcmp(o->soname, f->culprit) == 0))) {
                return o;
            }
        }
    }
    return NULL;
}

static bool edits_judge(struct plan_work *x, const edit_list *edits, struct plan_verdict *ret)
{
    struct ldso_overlay *overlay = arena_alloc(x->a, sizeof *overlay);
    struct model_change c = {.overlay = overlay};
    for (size_t i = 0; i < edits->n; i++) {
        VEC_PUSH(x->a, &overlay->edits, edits->items[i]);
    }
    return plan_judge(x, &c, ret);
}

static edit_list copy_of(struct plan_work *x, const edit_list *edits)
{
    edit_list out = {0};
    for (size_t i = 0; i < edits->n; i++) {
        VEC_PUSH(x->a, &out, edits->items[i]);
    }
    return out;
}

/* The path without the element that leads to the folder. */
static bool edit_take_folder(struct plan_work *x, struct ldso_overlay_edit *e, const char *dir)
{
    const char **path = path_in_force(e), *out = "", *old = *path;
    const char *origin = path_dir(x->a, e->file);
    for (struct str rest = str_of(old); rest.s;) {
        const char *element = str_dup(x->a, str_cut(&rest, ':')), *full = element;
        if (starts_with(element, "$ORIGIN") || starts_with(element, "${ORIGIN}")) {
            full = arena_printf(x->a, "%s%s", origin, element + (element[1] == '{' ? 9 : 7));
        }
        if (strcmp(path_normal(x->a, model_absolute(x->m, full)), dir) != 0) {
            out = arena_printf(x->a, "%s%s%s", out, *out ? ":" : "", element);
        }
    }
    *path = *out ? out : NULL;
    return old && strcmp(out, old) != 0;
}

/* Another copy's folder first, or the wrong folder taken out: whichever mends more. */
static void replace_wrong(struct plan_work *x, const struct diag_finding *f, edit_list *best,
                          struct plan_verdict *found)
{
    const struct ldso_object *o = blamed(x, f);
    plan_copies copies = {0};
    if (!o) {
        return;
    }
    copies = plan_copies_of(x, o->soname ? o->soname : path_base(o->path));
    const char *dir = path_normal(x->a, path_dir(x->a, model_absolute(x->m, o->path)));
    for (size_t i = 0; i <= copies.n; i++) {
        struct plan_verdict v;
        edit_list tried = copy_of(x, best);
        struct ldso_overlay_edit *e = edit_of(x, &tried, o->via_object);
        bool changed = e && (i < copies.n ? edit_add_folder(x, e, copies.items[i].dir, true)
                                          : edit_take_folder(x, e, dir));
        if (changed && edits_judge(x, &tried, &v) && plan_is_better(&v, found)) {
            *best = tried;
            *found = v;
        }
    }
}

/* ------------------------------------------------------------------ what comes of it */

/* What the libraries that are found now open in their turn: the requests that fail. */
static plan_lacks lacks_appeared(struct plan_work *x, const struct plan_verdict *v)
{
    plan_lacks ret = {0};
    plan_texts names = plan_names_appeared(x, v);
    const struct model *m = &v->replayed->model;
    for (size_t i = 0; names.n && i < m->processes.n; i++) {
        const struct model_process *p = m->processes.items[i];
        for (size_t k = 0; p->ldso && k < p->ldso->requests.n; k++) {
            const struct ldso_request *r = p->ldso->requests.items[k];
            if (r->outcome == LDSO_NOT_FOUND && plan_has(&names, r->name)) {
                VEC_PUSH(x->a, &ret, (struct plan_lack){{r->name, r, NULL}, p});
            }
        }
    }
    return ret;
}

static void edit_appeared(struct plan_work *x, edit_list *best, struct plan_verdict *found)
{
    for (int tries = 0; tries < PLAN_TRIES_MAX && found->appeared.n; tries++) {
        struct plan_verdict v;
        plan_texts files = {0};
        edit_list tried = copy_of(x, best);
        plan_lacks lacks = lacks_appeared(x, found);
        if (!add_lacking(x, &lacks, &tried, &files) || !edits_judge(x, &tried, &v) ||
            !plan_is_better(&v, found)) {
            return;
        }
        *best = tried;
        *found = v;
    }
}

/* ------------------------------------------------------------------ the way */

static struct plan_step edit_step(struct plan_work *x, const struct ldso_overlay_edit *e)
{
    const struct elf_image *was = &ldso_store_get(x->m->store, e->file)->file->image;
    bool runpath = e->runpath || was->runpath;
    const char *now = runpath ? e->runpath : e->rpath, *old = runpath ? was->runpath : was->rpath;
    const char *words =
        now ? arena_printf(x->a, "patchelf %s--set-rpath %s", runpath ? "" : "--force-rpath ",
                           diag_shell_word(x->a, now))
            : "patchelf --remove-rpath";
    return (struct plan_step){
        .kind = PLAN_EDIT_ELF,
        .text = arena_printf(x->a, "%s the %s of %s (patchelf).", now ? "Set" : "Remove",
                             runpath ? "RUNPATH" : "RPATH", path_base(e->file)),
        .command = diag_copy_command(x->a, words, e->file),
        .file = e->file,
        .old_path = old,
        .new_path = now,
        .runpath = runpath};
}

void plan_add_edit(struct plan_work *x)
{
    struct plan_verdict found = {0}, v;
    edit_list edits = find_missing(x);
    if (edits.n && edits_judge(x, &edits, &v) && plan_is_better(&v, &found)) {
        found = v;
    } else {
        edits = (edit_list){0};
    }
    for (size_t i = 0; i < x->report->findings.n; i++) {
        if (x->report->findings.items[i]->severity != DIAG_NOTE) {
            replace_wrong(x, x->report->findings.items[i], &edits, &found);
        }
    }
    if (edits.n == 0) {
        return;
    }
    edit_appeared(x, &edits, &found);
    struct plan_way *way =
        plan_way_new(x, PLAN_FILES, "Change where files of the environment look for libraries.");
    for (size_t i = 0; i < edits.n; i++) {
        VEC_PUSH(x->a, &way->steps, edit_step(x, &edits.items[i]));
    }
    if (plan_prove(x, &found, way)) {
        plan_way_add(x, way);
    }
}
