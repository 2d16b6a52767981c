#include "apply/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "apply/hookfile.h"
#include "apply/step.h"

enum { HOOK_LINE_BYTES_MAX = 4096 };

/* ------------------------------------------------------------------ the target */

/* The folder that no change leaves: the environment's, or the one that holds the program. */
static const char *own_folder(struct model *m)
{
    return m->env           ? m->env->prefix
           : m->target_file ? path_dir(m->arena, model_absolute(m, m->target_file))
                            : NULL;
}

static int open_place(struct model *m, bool is_system, struct apply_place *ret, struct gm_err *err)
{
    const char *folder = own_folder(m);
    *ret = APPLY_PLACE_EMPTY;
    if (!folder && !is_system) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED, "the target has no folder of its own");
    }
    if (!is_system && m->env && m->env->kind == PY_ENV_SYSTEM) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "%s is the system's Python: its files are changed with --system only",
                          m->env->prefix);
    }
    return apply_place_open(ret, m->arena, m->root, folder, is_system, err);
}

/* Why nothing may be written beside the path; NULL: it may. */
static const char *folder_objection_of(struct model *m, struct apply_place *p, const char *path)
{
    const char *relative;
    struct gm_err err;
    bool may = apply_place_relative(p, m->root, path, &relative, &err) == 0 &&
               apply_place_may_change(p, apply_place_parent(p, relative), &err) == 0;
    return may ? NULL : arena_strdup(m->arena, err.text);
}

/* Why the folders that a step writes into may not be changed; NULL: they may. */
static const char *step_place_objection(struct model *m, struct apply_place *p,
                                        const struct plan_step *s)
{
    const char *site = s->kind == PLAN_HOOK                 ? apply_hook_site(m)
                       : s->kind == PLAN_PACKAGES && m->env ? m->env->purelib
                                                            : NULL;
    const char *file = site ? path_join(m->arena, site, MODEL_HOOK_MODULE) : s->file;
    const char *why = file ? folder_objection_of(m, p, file) : NULL;
    for (size_t i = 0; !why && s->kind == PLAN_LINK && i < s->n_links; i++) {
        why = folder_objection_of(m, p, s->links[i].path);
    }
    return why;
}

/* Why nothing can be changed in the target's place, or in a folder that the way writes into, by
 * this user; NULL: it can, as far as can be seen without trying. */
static const char *place_objection(struct model *m, const struct plan_way *way,
                                   const struct apply_options *o)
{
    struct apply_place p = APPLY_PLACE_EMPTY;
    struct gm_err err;
    const char *why = NULL;
    int fd = open_place(m, o->is_system, &p, &err) < 0 ? -1 : apply_place_folder(&p, ".", &err);
    if (fd < 0) {
        why = arena_strdup(m->arena, err.text);
    } else if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0) {
        why = arena_printf(m->arena, "nothing can be written into %s: %s", p.base_path,
                           strerror(errno));
    }
    for (size_t i = 0; !why && i < way->steps.n; i++) {
        why = step_place_objection(m, &p, &way->steps.items[i]);
    }
    if (fd >= 0) {
        (void)close(fd); // only looked at
    }
    apply_place_close(&p);
    return why;
}

/* Why the steps themselves cannot be carried out, wherever they are; NULL: they can. */
static const char *steps_objection(struct model *m, const struct plan_way *way,
                                   const struct apply_options *o)
{
    const char *why = m->pid          ? "a running process cannot be changed; name its environment"
                      : !way->steps.n ? "it has no steps"
                                      : NULL;
    for (size_t i = 0; !why && i < way->steps.n; i++) {
        const struct apply_doing d = {.m = m, .o = o, .step = &way->steps.items[i]};
        why = apply_step_is_left(way, d.step) ? NULL : apply_step_objection(&d);
    }
    return why;
}

const char *apply_objection(struct model *m, const struct plan_way *way,
                            const struct apply_options *o)
{
    const char *why = steps_objection(m, way, o);
    return why ? why : place_objection(m, way, o);
}

const struct plan_way *apply_best(struct model *m, const struct plan *plan,
                                  const struct apply_options *o, const char **ret_why)
{
    const struct plan_way *best = NULL;
    const char *first = NULL;
    // Whether `first` is about the place: what another option permits fails there, too.
    bool of_place = false;
    for (size_t i = 0; i < plan->ways.n; i++) {
        const struct plan_way *way = &plan->ways.items[i];
        const char *steps = steps_objection(m, way, o);
        const char *why = steps ? steps : place_objection(m, way, o);
        bool nearer = why && !of_place && (!first || !steps || way->reach == PLAN_PIP);
        first = nearer ? why : first;
        of_place |= nearer && !steps;
        if (!why && plan_way_is_better(plan, way, best)) {
            best = way;
        }
    }
    if (ret_why) {
        *ret_why = first;
    }
    return best;
}

static int way_carry_out(struct apply_doing *d, const struct plan_way *way, struct gm_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < way->steps.n; i++) {
        d->step = &way->steps.items[i];
        if (!apply_step_is_left(way, d->step)) {
            rc = apply_step_carry_out(d, err);
        }
    }
    return rc;
}

int apply_take_back(struct apply_session *applied, struct gm_err *err)
{
    unsigned id;
    apply_work_close(&applied->work);
    return apply_work_undo(&applied->place, applied->id, &id, err);
}

/* After a failure: as it was, or the user learns that it is not. */
static void roll_back(struct model *m, const struct apply_options *o, struct apply_session *applied,
                      struct gm_err *err)
{
    struct gm_err again;
    unsigned count;
    apply_work_close(&applied->work);
    if (apply_work_recover(&applied->place, &count, &again) < 0) {
        struct gm_err first = *err;
        if (applied->place.n_lost) {
            (void)gm_err_set(err, first.code, "%.250s; %.250s", first.text, again.text);
            return;
        }
        (void)gm_err_set(err, first.code,
                         "%.120s; taking back what was done so far failed too "
                         "(%.100s): it is finished by %s",
                         first.text, again.text,
                         model_command(m, "fix", o->is_system ? "--system --undo" : "--undo"));
    }
}

int apply_way(struct model *m, const struct plan_way *way, const struct apply_options *o,
              struct apply_session *ret, struct gm_err *err)
{
    *ret = (struct apply_session){.place = APPLY_PLACE_EMPTY, .work = APPLY_WORK_EMPTY};
    const char *why = apply_objection(m, way, o);
    if (why) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED, "%s", why);
    }
    int rc = open_place(m, o->is_system, &ret->place, err);
    rc = rc < 0 ? rc : apply_place_lock(&ret->place, err);
    unsigned recovered;
    rc = rc < 0 ? rc : apply_work_recover(&ret->place, &recovered, err);
    if (rc < 0 || recovered) { // the plan was made of another tree
        return rc < 0 ? rc : gm_err_set(err, GM_ERR_LOOK, "the files have changed; try again");
    }
    struct apply_doing d = {.m = m, .o = o, .w = &ret->work};
    rc = apply_work_begin(&ret->work, &ret->place, o->what, way->title, err);
    ret->id = ret->work.journal.id;
    rc = rc < 0 ? rc : way_carry_out(&d, way, err);
    rc = rc < 0 ? rc : apply_work_finish(&ret->work, err);
    if (rc < 0) {
        roll_back(m, o, ret, err);
    }
    return rc;
}

int apply_verified(struct apply_session *applied, const char *how, struct gm_err *err)
{
    return apply_work_verified(&applied->work, how, err);
}

void apply_close(struct apply_session *applied)
{
    apply_work_close(&applied->work);
    apply_place_close(&applied->place);
}

/* ------------------------------------------------------------------ taking back, listing */

/* The latest journal of a command; 0 if there is none. */
static int latest_of(struct apply_place *p, const char *what, unsigned *ret, struct gm_err *err)
{
    struct apply_list list;
    int rc = apply_work_list(p, &list, err);
    *ret = 0;
    for (size_t i = 0; rc == 0 && i < list.items.n; i++) {
        const struct apply_listed *l = &list.items.items[i];
        *ret = !l->error && l->journal.begun && strcmp(l->journal.what, what) == 0 ? l->id : *ret;
    }
    return rc;
}

int apply_undo(struct model *m, bool is_system, unsigned id, const char *what, unsigned *ret_id,
               struct gm_err *err)
{
    struct apply_place place;
    *ret_id = 0;
    int rc = open_place(m, is_system, &place, err);
    rc = rc < 0 ? rc : apply_place_lock(&place, err);
    rc = rc < 0 || !what ? rc : latest_of(&place, what, &id, err);
    bool none = what && id == 0;
    if (rc == 0) {
        rc = none ? apply_place_sweep(&place, err) : apply_work_undo(&place, id, ret_id, err);
    }
    apply_place_close(&place);
    return rc;
}

/* One file of the hook. */
static int remove_from(struct apply_place *p, struct root *root, const char *path,
                       struct gm_err *err)
{
    const char *relative;
    int rc = apply_place_relative(p, root, path, &relative, err);
    int dir = rc < 0 ? rc : apply_place_folder(p, apply_place_parent(p, relative), err);
    if (dir < 0) {
        return dir;
    }
    if (ends_with(relative, ".py")) {
        apply_place_remove_bytecode(p, dir, path_base(relative));
    }
    rc = apply_place_remove(dir, path_base(relative), err);
    (void)close(dir); // a folder
    return rc;
}

/* Whether one of the hook's two lines is absent or as gpumend writes it. */
static bool line_is_own(struct model *m, const char *path, struct str own)
{
    struct str line;
    bool all = false;
    int rc = root_read_head(m->root, m->arena, path, HOOK_LINE_BYTES_MAX, &line, &all);
    return rc == -ENOENT || (rc == 0 && all && str_eq(line, own));
}

int apply_remove_hook(struct model *m, const char **ret_site, struct gm_err *err)
{
    struct apply_place place;
    const char *site = apply_hook_site(m);
    *ret_site = NULL;
    if (!site || !model_hook_stands(m->root, m->arena, site)) {
        return 0;
    }
    const char *pth = path_join(m->arena, site, MODEL_HOOK_PTH);
    const char *start = path_join(m->arena, site, MODEL_HOOK_START);
    const char *module = path_join(m->arena, site, MODEL_HOOK_MODULE);
    const char *changed = !line_is_own(m, pth, apply_hook_pth())       ? pth
                          : !line_is_own(m, start, apply_hook_start()) ? start
                                                                       : NULL;
    if (changed) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "%s is not as gpumend writes it: remove it by "
                          "hand",
                          changed);
    }
    int rc = open_place(m, false, &place, err);
    rc = rc < 0 ? rc : apply_place_lock(&place, err);
    rc = rc < 0 ? rc : remove_from(&place, m->root, pth, err); // these must never stand alone
    rc = rc < 0 ? rc : remove_from(&place, m->root, start, err);
    rc = rc < 0 ? rc : remove_from(&place, m->root, module, err);
    apply_place_close(&place);
    *ret_site = rc < 0 ? NULL : site;
    return rc;
}

int apply_recover(struct model *m, bool is_system, unsigned *ret_count, struct gm_err *err)
{
    struct apply_place place;
    struct gm_err none; // said by apply_way(), should it come to that
    *ret_count = 0;
    if (open_place(m, is_system, &place, &none) < 0) {
        return 0;
    }
    int rc = apply_place_lock(&place, err);
    rc = rc < 0 ? rc : apply_work_recover(&place, ret_count, err);
    apply_place_close(&place);
    return rc;
}

int apply_list_journals(struct model *m, bool is_system, struct apply_list *ret, struct gm_err *err)
{
    struct apply_place place;
    *ret = (struct apply_list){0};
    int rc = open_place(m, is_system, &place, err);
    rc = rc < 0 ? rc : apply_work_list(&place, ret, err);
    apply_place_close(&place);
    return rc;
}
