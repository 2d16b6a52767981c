/* The repairs of the findings as one start-up hook, tried in the model. */
#include <string.h>

#include "diag/windows_internal.h"
#include "winldr/path.h"

size_t diag_windows_errors(const struct diag_windows *n)
{
    size_t errors = 0;
    for (size_t i = 0; i < n->findings.n; i++) {
        errors += strcmp(n->findings.items[i].severity, "error") == 0;
    }
    return errors;
}

static void add_path(struct arena *a, winldr_texts *list, const char *path)
{
    if (!winldr_name_in(path, list->items, list->n)) {
        VEC_PUSH(a, list, path);
    }
}

static void add_paths(struct arena *a, winldr_texts *list, const winldr_texts *more)
{
    for (size_t i = 0; i < more->n; i++) {
        add_path(a, list, more->items[i]);
    }
}

static bool can_be_done(const struct diag_windows_repair *r)
{
    return r->preload || r->searched.n || r->on_path.n;
}

/* Adds the first repair of a finding that a hook can do. */
static bool take_finding(struct arena *a, struct winldr_hook *hook,
                         const struct diag_windows_finding *f)
{
    for (size_t i = 0; i < f->repairs.n; i++) {
        const struct diag_windows_repair *r = &f->repairs.items[i];
        if (can_be_done(r)) {
            add_paths(a, &hook->searched, &r->searched);
            add_paths(a, &hook->on_path, &r->on_path);
            if (r->preload) {
                add_path(a, &hook->libraries, r->preload);
            }
            return true;
        }
    }
    return false;
}

static void judge_with(struct diag_windows *n, const struct winldr_hook *hook,
                       struct diag_windows *ret)
{
    struct winldr_python *py = arena_alloc(n->arena, sizeof *py);
    *py = *n->py;
    py->hook = hook;
    *ret = (struct diag_windows){
        .arena = n->arena, .files = n->files, .py = py, .kb = n->kb, .host = n->host};
    diag_windows_judge(ret);
}

/* A hook that already stands is kept, and added to. A repair may show the next thing that is
 * missing: the sum is tried until nothing more comes to it. */
bool diag_windows_plan_hook(struct diag_windows *n, struct winldr_hook *ret,
                            struct diag_windows *ret_after)
{
    enum { ROUNDS_MAX = 8 };
    struct winldr_hook *hook = arena_alloc(n->arena, sizeof *hook);
    const struct diag_windows *now = n;
    *hook = (struct winldr_hook){0};
    if (n->py->hook) {
        add_paths(n->arena, &hook->searched, &n->py->hook->searched);
        add_paths(n->arena, &hook->on_path, &n->py->hook->on_path);
        add_paths(n->arena, &hook->libraries, &n->py->hook->libraries);
    }
    for (const char *const *name = winldr_packages; *name; name++) {
        if (winldr_has_package(n->files, n->py, *name)) {
            VEC_PUSH(n->arena, &hook->modules, *name);
        }
    }
    bool found = false;
    for (int i = 0; i < ROUNDS_MAX; i++) {
        size_t before = hook->searched.n + hook->on_path.n + hook->libraries.n;
        for (size_t k = 0; k < now->findings.n; k++) {
            (void)take_finding(n->arena, hook, &now->findings.items[k]);
        }
        if (hook->searched.n + hook->on_path.n + hook->libraries.n == before) {
            break;
        }
        found = true;
        judge_with(n, hook, ret_after);
        now = ret_after;
    }
    *ret = *hook;
    return found;
}
