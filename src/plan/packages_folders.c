/*
 * Whether the libraries of a set of versions are found once they are installed, and which folders
 * LD_LIBRARY_PATH needs for those that are not.
 */
#include <string.h>

#include "base/env.h"
#include "plan/knowledge.h"
#include "plan/packages.h"

enum searched { NOT_ASKED, SEARCHED, PASSED_BY };

static bool step_is_in(struct planner *p, const struct ldso_request *r, const char *folder)
{
    for (size_t s = 0; s < r->steps.n; s++) {
        const char *path = r->steps.items[s].path;
        if (path &&
            strcmp(path_normal(p->a, path_dir(p->a, model_absolute(p->m, path))), folder) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the requests for libraries of the package that failed looked into the folder. */
static enum searched how_searched(struct planner *p, const char *package, const char *folder)
{
    enum searched how = NOT_ASKED;
    for (size_t i = 0; i < p->m->processes.n; i++) {
        const struct ldso_process *l = p->m->processes.items[i]->ldso;
        for (size_t n = 0; l && n < l->requests.n; n++) {
            const struct ldso_request *r = l->requests.items[n];
            const struct kb_provide *row = NULL;
            const struct kb_provider *v = r->outcome == LDSO_NOT_FOUND
                                              ? plan_knowledge_provider(&p->k, r->name, -1, &row)
                                              : NULL;
            if (v && strcmp(v->package, package) == 0) {
                if (!step_is_in(p, r, folder)) {
                    return PASSED_BY;
                }
                how = SEARCHED;
            }
        }
    }
    return how;
}

/* The site folder that pip will use. */
const char *plan_packages_site_folder(const struct planner *p)
{
    const char *beside = NULL;
    for (size_t i = 0; i < p->askers.n && !beside; i++) {
        beside = p->askers.items[i].p->dist ? p->askers.items[i].p->dist->site : NULL;
    }
    return diag_pip_folder(p->m, beside);
}

/* Whether LD_LIBRARY_PATH of the start names the folder. */
static bool is_on_path(struct planner *p, const char *folder)
{
    for (struct str rest =
             str_of(env_value(p->m->config.env, p->m->config.n_env, "LD_LIBRARY_PATH"));
         rest.s;) {
        const char *element = str_dup(p->a, str_cut(&rest, ':'));
        if (*element && strcmp(path_normal(p->a, model_absolute(p->m, element)), folder) == 0) {
            return true;
        }
    }
    return false;
}

/* A folder that no request looked into; where none asked, that of a package that is new, or that
 * another release will ask for. */
static const char *with_folder(struct planner *p, const char *list, const char *package, bool new)
{
    const char *site = plan_packages_site_folder(p), *below = plan_knowledge_folder(&p->k, package);
    const char *folder = site && below ? path_normal(p->a, path_join(p->a, site, below)) : NULL;
    const char *fence = arena_printf(p->a, ":%s:", list);
    enum searched how = folder ? how_searched(p, package, folder) : SEARCHED;
    if (how == SEARCHED || (how == NOT_ASKED && (!new || is_on_path(p, folder))) ||
        strstr(fence, arena_printf(p->a, ":%s:", folder))) {
        return list;
    }
    return arena_printf(p->a, "%s%s%s", list, *list ? ":" : "", folder);
}

const struct plan_solve_release *plan_packages_after(const struct found *f,
                                                     const struct plan_solve_package *s)
{
    for (size_t i = 0; i < f->answer.changes.n; i++) {
        if (f->answer.changes.items[i].package == s) {
            return f->answer.changes.items[i].release;
        }
    }
    return s->installed;
}

static bool plan_packages_is_changed(const struct found *f, const char *package)
{
    for (size_t i = 0; i < f->answer.changes.n; i++) {
        if (strcmp(f->answer.changes.items[i].package->name, package) == 0) {
            return true;
        }
    }
    return false;
}

/* A library in a folder of LD_LIBRARY_PATH finds there alone what it opens by name itself. */
static const char *with_folders_opened(struct planner *p, const struct found *f, const char *list)
{
    for (size_t i = 0; i < f->answer.changes.n; i++) {
        const struct plan_solve_change *c = &f->answer.changes.items[i];
        const char *site = plan_packages_site_folder(p),
                   *below = plan_knowledge_folder(&p->k, c->package->name);
        const char *own = site && below ? path_join(p->a, site, below) : "";
        if (!*own || !strstr(arena_printf(p->a, ":%s:", list), arena_printf(p->a, ":%s:", own))) {
            continue;
        }
        diag_opened_list opened = diag_opened_by(p->m, c->package->name, c->release->version);
        bool again = false;
        for (size_t n = 0; n < opened.n; n++) {
            const char *package = opened.items[n].package;
            const char *longer =
                plan_packages_is_changed(f, package) ? with_folder(p, list, package, true) : list;
            again = again || longer != list;
            list = longer;
        }
        if (again) {
            i = (size_t)-1; // its own may be among the packages before
        }
    }
    return list;
}

/* Folders of the libraries that the askers ask the loader for by name; "" if there are none. */
const char *plan_packages_folders_of(struct planner *p, const struct found *f)
{
    const char *list = "";
    for (size_t i = 0; i < p->askers.n; i++) {
        const struct asker *x = &p->askers.items[i];
        const struct plan_solve_release *r = plan_packages_after(f, &x->p->solve);
        bool moves = r != x->p->solve.installed;
        for (size_t n = 0; n < r->n_needs; n++) {
            const char *library = r->needs[n].package;
            if (r->needs[n].strict &&
                !plan_packages_imports_a_server(p, x->name, r->version, library)) {
                list = with_folder(p, list, library, moves || plan_packages_is_changed(f, library));
            }
        }
    }
    for (size_t i = 0; i < p->needs.n; i++) {
        list = with_folder(p, list, p->needs.items[i].package,
                           plan_packages_is_changed(f, p->needs.items[i].package));
    }
    return with_folders_opened(p, f, list);
}

static const char *with_folders(struct planner *p, const char *list, const char *folders)
{
    for (struct str rest = str_of(folders); rest.s;) {
        const char *folder = str_dup(p->a, str_cut(&rest, ':'));
        const char *fence = arena_printf(p->a, ":%s:", list);
        if (*folder && !strstr(fence, arena_printf(p->a, ":%s:", folder))) {
            list = arena_printf(p->a, "%s%s%s", list, *list ? ":" : "", folder);
        }
    }
    return list;
}

/* ... and those of libraries that come back or are declared, in which their askers do not look. */
const char *plan_packages_with_folders_of_again(struct planner *p, const char *list)
{
    for (size_t i = 0; i < p->again.n; i++) {
        list = with_folders(p, list, plan_packages_reinstall_of(p->again.items[i])->folders);
    }
    for (size_t i = 0; i < p->declared.n; i++) {
        list = with_folders(p, list, p->declared.items[i]->repairs.items[0].folders);
    }
    return list;
}
