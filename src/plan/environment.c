/* Ways by variables of the start environment. */
#include <string.h>

#include "base/env.h"
#include "plan/internal.h"

/* ------------------------------------------------------------------ the environment as a value */

const char *plan_getenv(const struct plan_work *x, const char *name)
{
    return env_value(x->m->config.env, x->m->config.n_env, name);
}

plan_texts plan_env(struct plan_work *x)
{
    plan_texts out = {0};
    for (size_t i = 0; i < x->m->config.n_env; i++) {
        VEC_PUSH(x->a, &out, x->m->config.env[i]);
    }
    return out;
}

void plan_env_with(struct plan_work *x, const plan_texts *from, const char *name, const char *value,
                   plan_texts *ret)
{
    plan_texts out = {0};
    for (size_t i = 0; i < from->n; i++) {
        if (!env_value_of(from->items[i], name)) {
            VEC_PUSH(x->a, &out, from->items[i]);
        }
    }
    if (value) {
        VEC_PUSH(x->a, &out, arena_printf(x->a, "%s=%s", name, value));
    }
    *ret = out;
}

static plan_texts elements(struct plan_work *x, const char *path)
{
    plan_texts out = {0};
    for (struct str rest = str_of(path && *path ? path : NULL); rest.s;) {
        VEC_PUSH(x->a, &out, str_dup(x->a, str_cut(&rest, ':')));
    }
    return out;
}

static const char *join_folders(struct plan_work *x, const plan_texts *list)
{
    const char *out = "";
    for (size_t i = 0; i < list->n; i++) {
        out = arena_printf(x->a, "%s%s%s", out, i ? ":" : "", list->items[i]);
    }
    return out;
}

const char *plan_path_with(struct plan_work *x, const plan_texts *folders)
{
    plan_texts out = {0}, old = elements(x, plan_getenv(x, "LD_LIBRARY_PATH"));
    for (size_t i = 0; i < folders->n; i++) {
        if (strpbrk(folders->items[i], ":;$")) {
            return NULL;
        }
        VEC_PUSH(x->a, &out, folders->items[i]);
    }
    for (size_t i = 0; i < old.n; i++) {
        if (!plan_has(&out, old.items[i])) {
            VEC_PUSH(x->a, &out, old.items[i]);
        }
    }
    return join_folders(x, &out);
}

/* ------------------------------------------------------------------ what findings ask for */

/* A variable with the value that is tried. The search path is put together of several findings'
 * wishes: folders to go first, and what is left of the old value. */
struct setting {
    const char *name, *value;
    bool takes_away; // something of the old value is gone, so that a shell must set all of it
};
typedef VEC(struct setting) setting_list;

static const struct setting *find_setting(const setting_list *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i].name, name) == 0) {
            return &list->items[i];
        }
    }
    return NULL;
}

static setting_list with_setting(struct plan_work *x, const setting_list *list, struct setting s)
{
    setting_list out = {0};
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i].name, s.name) != 0) {
            VEC_PUSH(x->a, &out, list->items[i]);
        }
    }
    VEC_PUSH(x->a, &out, s);
    return out;
}

/* What of `now` is also in `wish`, which was made for `old`; what is new in it goes first. */
static const char *merge_path(struct plan_work *x, const char *old, const char *now,
                              const char *wish)
{
    plan_texts was = elements(x, old), is = elements(x, now), want = elements(x, wish), out = {0};
    for (size_t i = 0; i < want.n; i++) {
        if (!plan_has(&was, want.items[i]) && !plan_has(&is, want.items[i])) {
            VEC_PUSH(x->a, &out, want.items[i]);
        }
    }
    for (size_t i = 0; i < is.n; i++) {
        bool unwanted = plan_has(&was, is.items[i]) && !plan_has(&want, is.items[i]);
        if (!unwanted && !plan_has(&out, is.items[i])) {
            VEC_PUSH(x->a, &out, is.items[i]);
        }
    }
    return join_folders(x, &out);
}

static struct setting setting_wanted(struct plan_work *x, const setting_list *have,
                                     const struct diag_variable *v)
{
    const struct setting *s = find_setting(have, v->name);
    const char *old = plan_getenv(x, v->name);
    if (strcmp(v->name, "LD_LIBRARY_PATH") != 0) {
        const char *value =
            v->prepend && old && *old ? arena_printf(x->a, "%s:%s", v->value, old) : v->value;
        return (struct setting){v->name, value, !v->prepend};
    }
    const char *now = s ? s->value : old;
    const char *wish =
        v->prepend && old && *old ? arena_printf(x->a, "%s:%s", v->value, old) : v->value;
    const char *path = merge_path(x, old, now, wish);
    return (struct setting){v->name, *path ? path : NULL, (s && s->takes_away) || !v->prepend};
}

static plan_texts settings_env(struct plan_work *x, const setting_list *list)
{
    plan_texts env = plan_env(x);
    for (size_t i = 0; i < list->n; i++) {
        plan_env_with(x, &env, list->items[i].name, list->items[i].value, &env);
    }
    return env;
}

static bool settings_judge(struct plan_work *x, const setting_list *list, struct plan_verdict *ret)
{
    plan_texts env = settings_env(x, list);
    struct model_change c = {.env = env.items, .n_env = env.n};
    return plan_judge(x, &c, ret);
}

/* ------------------------------------------------------------------ steps */

static bool is_loaders(const char *name)
{
    return starts_with(name, "LD_") || strcmp(name, "GLIBC_TUNABLES") == 0;
}

/* The folders that were put before the old value, which a shell can then keep as it is. */
static const char *put_before(struct plan_work *x, const char *value, const char *old)
{
    size_t n = strlen(value), o = old ? strlen(old) : 0;
    if (o == 0) {
        return value;
    }
    return n > o + 1 && value[n - o - 1] == ':' && strcmp(value + n - o, old) == 0
               ? arena_strndup(x->a, value, n - o - 1)
               : NULL;
}

static struct plan_step setting_step(struct plan_work *x, const struct setting *s)
{
    const char *front = s->value && !s->takes_away && strcmp(s->name, "LD_LIBRARY_PATH") == 0
                            ? put_before(x, s->value, plan_getenv(x, s->name))
                            : NULL;
    struct plan_step step = {.kind = PLAN_SET_ENV, .name = s->name, .value = s->value};
    if (!s->value) {
        step.text = arena_printf(x->a, "Remove %s from the start environment.", s->name);
        step.command = arena_printf(x->a, "unset %s", s->name);
    } else if (front) {
        step.text = arena_printf(x->a,
                                 "Put the folders of the libraries first in %s, before the "
                                 "program starts.",
                                 s->name);
        step.command = arena_printf(x->a, "export %s=%s\"${%s:+:$%s}\"", s->name,
                                    diag_shell_word(x->a, front), s->name, s->name);
    } else {
        step.text = arena_printf(x->a, "Set %s before the program starts.", s->name);
        step.command = arena_printf(x->a, "export %s=%s", s->name, diag_shell_word(x->a, s->value));
    }
    return step;
}

static void settings_add_way(struct plan_work *x, const setting_list *list,
                             const struct plan_verdict *v)
{
    const char *names = "";
    for (size_t i = 0; i < list->n; i++) {
        names = arena_printf(x->a, "%s%s%s", names, i ? ", " : "", list->items[i].name);
    }
    struct plan_way *way =
        plan_way_new(x, PLAN_FOR_ONE_START,
                     arena_printf(x->a, "Start the program with another environment (%s).", names));
    for (size_t i = 0; i < list->n; i++) {
        VEC_PUSH(x->a, &way->steps, setting_step(x, &list->items[i]));
    }
    if (plan_prove(x, v, way)) {
        plan_way_add(x, way);
    }
}

/* ------------------------------------------------------------------ the search */

/* LD_PRELOAD without the entry that cannot be loaded. */
static bool without_preload(struct plan_work *x, const struct diag_finding *f,
                            struct diag_variable *ret)
{
    const char *out = "", *old = plan_getenv(x, "LD_PRELOAD");
    if (f->cause != DIAG_PRELOAD_IGNORED || !old) {
        return false;
    }
    for (struct str rest = str_of(old); rest.s;) {
        const char *blank = str_dup(x->a, str_cut(&rest, ' '));
        for (struct str part = str_of(blank); part.s;) {
            const char *path = str_dup(x->a, str_cut(&part, ':'));
            bool stays = *path && strcmp(path, f->culprit) != 0;
            out = stays ? arena_printf(x->a, "%s%s%s", out, *out ? ":" : "", path) : out;
        }
    }
    *ret = (struct diag_variable){.name = "LD_PRELOAD", .value = *out ? out : NULL};
    return true;
}

/* The variable that a repair of a finding sets, if it sets one. */
static bool wish_of(struct plan_work *x, const struct diag_finding *f, const struct diag_repair *r,
                    struct diag_variable *ret)
{
    return diag_repair_variable(x->a, r, ret) ||
           (r->kind == DIAG_REPAIR_ENV && without_preload(x, f, ret));
}

/* The wishes of the findings, one after the other, each kept if it mends more. */
static setting_list by_repairs(struct plan_work *x, struct plan_verdict *ret)
{
    setting_list best = {0};
    for (size_t i = 0; i < x->report->findings.n && !plan_is_best(x, ret); i++) {
        const struct diag_finding *f = x->report->findings.items[i];
        for (size_t k = 0; k < f->repairs.n; k++) {
            struct diag_variable v;
            struct plan_verdict verdict;
            if (!wish_of(x, f, &f->repairs.items[k], &v) ||
                (x->o->manner == PLAN_IN_PROCESS && is_loaders(v.name))) {
                continue;
            }
            setting_list tried = with_setting(x, &best, setting_wanted(x, &best, &v));
            if (settings_judge(x, &tried, &verdict) && plan_is_better(&verdict, ret)) {
                best = tried;
                *ret = verdict;
                break;
            }
        }
    }
    return best;
}

/* The folders of libraries that would be loaded first, as search path instead. */
static setting_list by_folders(struct plan_work *x, const plan_texts *preloads,
                               struct plan_verdict *ret)
{
    setting_list list = {0};
    plan_texts folders = {0};
    struct plan_verdict verdict;
    for (size_t i = 0; i < preloads->n; i++) {
        const char *dir = path_dir(x->a, preloads->items[i]);
        if (!plan_has(&folders, dir)) {
            VEC_PUSH(x->a, &folders, dir);
        }
    }
    const char *path = folders.n && !plan_is_best(x, ret) ? plan_path_with(x, &folders) : NULL;
    if (!path) {
        return list;
    }
    VEC_PUSH(x->a, &list, (struct setting){"LD_LIBRARY_PATH", path, false});
    if (settings_judge(x, &list, &verdict) && plan_is_better(&verdict, ret)) {
        *ret = verdict;
        return list;
    }
    return (setting_list){0};
}

/* A variable that the model cannot try, since no library depends on it: which GPUs are seen, what
 * a GPU is taken for. Offered if it does no harm to the libraries. */
static void plan_untried(struct plan_work *x, const struct diag_finding *f,
                         const struct diag_variable *v)
{
    struct plan_verdict verdict;
    setting_list none = {0};
    struct setting s = setting_wanted(x, &none, v);
    setting_list list = with_setting(x, &none, s);
    if (starts_with(v->name, "LD_") || !settings_judge(x, &list, &verdict) || verdict.worse ||
        verdict.gone.n) {
        return;
    }
    struct plan_way *way = plan_way_new(
        x, PLAN_FOR_ONE_START,
        arena_printf(x->a, "Start the program with another environment (%s).", v->name));
    VEC_PUSH(x->a, &way->steps, setting_step(x, &s));
    VEC_PUSH(x->a, &way->mends, f);
    way->unproved = is_loaders(v->name)
                        ? "the model does not follow the loader's tunables"
                        : "which GPUs a program sees, and what it makes of them, is decided by the "
                          "driver, which the model does not run";
    plan_way_add(x, way);
}

void plan_add_environment(struct plan_work *x, const plan_texts *preloads)
{
    struct plan_verdict best = {0};
    setting_list list = by_repairs(x, &best);
    if (x->o->manner == PLAN_AT_START) {
        setting_list folders = by_folders(x, preloads, &best);
        list = folders.n ? folders : list;
    }
    if (list.n) {
        settings_add_way(x, &list, &best);
    }
    for (size_t i = 0; i < x->report->findings.n; i++) {
        const struct diag_finding *f = x->report->findings.items[i];
        for (size_t k = 0; k < f->repairs.n; k++) {
            struct diag_variable v;
            if (diag_repair_variable(x->a, &f->repairs.items[k], &v) &&
                !find_setting(&list, v.name)) {
                plan_untried(x, f, &v);
            }
        }
    }
}
