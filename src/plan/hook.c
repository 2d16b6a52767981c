/* The start-up hook of an environment: the preload of a program that is started as ever. */
#include <string.h>

#include "plan/internal.h"
#include "py/requirement.h"

static const char *module_of(const struct plan_work *x, const char *package)
{
    for (size_t i = 0; i < x->m->imports.n; i++) {
        if (py_name_eq(str_of(x->m->imports.rows[i].package), str_of(package))) {
            const char *module = x->m->imports.rows[i].module;
            return arena_strndup(x->a, module, strcspn(module, "."));
        }
    }
    return NULL;
}

static void modules_add(struct plan_work *x, const char *package, plan_texts *modules)
{
    const char *module = package ? module_of(x, package) : NULL;
    if (module && !plan_has(modules, module)) {
        VEC_PUSH(x->a, modules, module);
    }
}

/* The packages whose own requests fail. */
static plan_texts askers(struct plan_work *x)
{
    plan_texts modules = {0};
    for (size_t i = 0; i < x->m->processes.n; i++) {
        struct diag_lack *list = NULL;
        size_t n = x->failing[i] ? diag_lacks(x->m, x->m->processes.items[i], &list) : 0;
        for (size_t k = 0; k < n; k++) {
            modules_add(x, list[k].attempt ? list[k].attempt->package : NULL, &modules);
        }
    }
    return modules;
}

/* All packages that the failing processes import. */
static plan_texts imported(struct plan_work *x)
{
    plan_texts modules = {0};
    for (size_t i = 0; i < x->m->processes.n; i++) {
        const struct model_process *p = x->m->processes.items[i];
        for (size_t k = 0; x->failing[i] && k < p->imported.n; k++) {
            modules_add(x, p->imported.items[k], &modules);
        }
    }
    return modules;
}

static const char *joined_texts(struct plan_work *x, const plan_texts *list)
{
    const char *out = "";
    for (size_t i = 0; i < list->n; i++) {
        const char *between = i == 0 ? "" : i + 1 == list->n ? " or " : ", ";
        out = arena_printf(x->a, "%s%s%s", out, between, list->items[i]);
    }
    return out;
}

/* The libraries of the hook, and behind them those that are not installed yet and that these ask
 * for: once they are, nothing else has to be done. */
static plan_texts with_foreseen(struct plan_work *x, const plan_texts *paths)
{
    plan_texts all = {0};
    for (size_t i = 0; i < paths->n; i++) {
        VEC_PUSH(x->a, &all, paths->items[i]);
    }
    for (size_t i = 0; i < x->report->findings.n; i++) {
        const struct diag_finding *f = x->report->findings.items[i];
        for (size_t k = 0; f->behind && k < f->repairs.n; k++) {
            for (struct str rest = str_of(f->repairs.items[k].folders); rest.s;) {
                const char *folder = str_dup(x->a, str_cut(&rest, ':'));
                if (strcmp(path_base(f->culprit), f->culprit) == 0 && *folder) {
                    VEC_PUSH(x->a, &all, path_join(x->a, folder, f->culprit));
                }
            }
        }
    }
    return all;
}

static bool plan_before(struct plan_work *x, const plan_texts *paths, const plan_texts *modules)
{
    struct plan_verdict v;
    struct model_change c = {.preloads = paths->items,
                             .n_preloads = paths->n,
                             .modules = modules->items,
                             .n_modules = modules->n};
    if (modules->n == 0 || !plan_judge(x, &c, &v)) {
        return false;
    }
    plan_texts all = with_foreseen(x, paths);
    struct plan_way *way = plan_way_new(
        x, PLAN_FILES, "Put a start-up hook into the environment that loads the right libraries.");
    way->n_coming = all.n - paths->n;
    VEC_PUSH(x->a, &way->steps,
             (struct plan_step){
                 .kind = PLAN_HOOK,
                 .text = arena_printf(
                     x->a,
                     "A hook that loads %zu %s right before the first import "
                     "of %s%s.",
                     paths->n, paths->n == 1 ? "library" : "libraries", joined_texts(x, modules),
                     all.n > paths->n ? ", and what these open, once it is installed" : ""),
                 .paths = all.items,
                 .n_paths = all.n,
                 .modules = modules->items,
                 .n_modules = modules->n});
    if (!plan_prove(x, &v, way)) {
        return false;
    }
    plan_way_add(x, way);
    return true;
}

void plan_add_hook(struct plan_work *x, const plan_texts *paths)
{
    if (!x->m->env || paths->n == 0) {
        return;
    }
    plan_texts own = askers(x), all = imported(x);
    if (!plan_before(x, paths, &own) && all.n != own.n) {
        (void)plan_before(x, paths, &all); // nothing else is left to try
    }
}
