/* What a page about one check shows (gpumend check --html). */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "model/family.h"
#include "model/package.h"
#include "model/toolkit.h"
#include "report/html.h"
#include "report/process.h"

enum { LADDERS_MAX = 12, FILES_MAX = 12 };

static json_t *page_text(const struct model *m, const char *s)
{
    return out_json_text(m->arena, s);
}

/* ------------------------------------------------------------------ ladders */

/* A lookup to show, and the same one after the repair. */
struct ladder {
    const struct model_process *process;
    struct ldso_request *before, *after; // after NULL: no repair was tried
};
typedef VEC(struct ladder) ladder_list;

static struct ldso_request *find_request(const struct model_process *p, const char *caller,
                                         const char *name)
{
    struct ldso_request *same_stem = NULL;
    struct str stem = model_stem(name);
    for (size_t i = p->ldso ? p->ldso->requests.n : 0; i-- > 0;) {
        struct ldso_request *r = p->ldso->requests.items[i];
        if (!r->caller || strcmp(r->caller->path, caller) != 0) {
            continue;
        }
        if (strcmp(r->name, name) == 0) {
            return r;
        }
        same_stem = !same_stem && str_eq(model_stem(r->name), stem) ? r : same_stem;
    }
    return same_stem;
}

/* The process of the repaired model that replays `p`. */
static const struct model_process *replay_of(const struct model *after,
                                             const struct model_process *p)
{
    for (size_t i = 0; after && i < after->processes.n; i++) {
        if (after->processes.items[i]->again_of == p) {
            return after->processes.items[i];
        }
    }
    return NULL;
}

static bool ladder_is_listed(const ladder_list *list, const struct ldso_request *r)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct ldso_request *o = list->items[i].before;
        if (strcmp(o->name, r->name) == 0 && o->outcome == r->outcome &&
            strcmp(o->caller ? o->caller->path : "", r->caller ? r->caller->path : "") == 0) {
            return true;
        }
    }
    return false;
}

/* What the model's proof of a repair names. */
static void add_proved(struct model *m, const struct plan_way *way, ladder_list *out)
{
    for (size_t i = 0; i < way->proof.n; i++) {
        const struct plan_request *q = &way->proof.items[i];
        for (size_t k = 0; k < m->processes.n; k++) {
            const struct model_process *p = m->processes.items[k];
            const struct model_process *again = replay_of(way->after, p);
            struct ldso_request *before = strcmp(diag_script_words(m, p), q->script) == 0
                                              ? find_request(p, q->caller, q->name)
                                              : NULL;
            if (before && !ladder_is_listed(out, before)) {
                VEC_PUSH(m->arena, out,
                         ((struct ladder){p, before,
                                          again ? find_request(again, q->caller, q->name) : NULL}));
            }
        }
    }
}

static bool request_failed(const struct ldso_request *r)
{
    return r->outcome == LDSO_NOT_FOUND || r->outcome == LDSO_REFUSED;
}

/* What stops a process: failed needs, and loads without which a feature fails. */
static void add_failed(const struct model *m, const struct model_process *p, ladder_list *out)
{
    for (size_t i = 0; p->ldso && i < p->ldso->requests.n; i++) {
        struct ldso_request *r = p->ldso->requests.items[i];
        if (r->kind == LDSO_NEEDED && request_failed(r) && !ladder_is_listed(out, r)) {
            VEC_PUSH(m->arena, out, ((struct ladder){p, r, NULL}));
        }
    }
    for (size_t i = 0; p->ldso && i < p->attempts.n; i++) {
        const struct model_attempt *at = &p->attempts.items[i];
        if (!at->failed || !at->required || !at->load) {
            continue;
        }
        struct ldso_request *r = p->ldso->requests.items[at->load->request];
        if (request_failed(r) && !ladder_is_listed(out, r)) {
            VEC_PUSH(m->arena, out, ((struct ladder){p, r, NULL}));
        }
    }
}

/* Where the first file of a library family keeps another one out. */
static void add_first_wins(const struct model *m, const struct model_process *p, ladder_list *out)
{
    for (size_t i = 0; p->ldso && i < p->ldso->requests.n; i++) {
        struct ldso_request *r = p->ldso->requests.items[i];
        if (kb_family_of(&m->families, r->name) && ldso_instead(p->ldso, r) &&
            !ladder_is_listed(out, r)) {
            VEC_PUSH(m->arena, out, ((struct ladder){p, r, NULL}));
        }
    }
}

static json_t *ladder_json(struct model *m, const struct ladder *l)
{
    json_t *o = json_object();
    json_put(o, "name", page_text(m, l->before->name));
    json_put(o, "caller",
             page_text(m, l->before->caller ? l->before->caller->path : "the program"));
    json_put(o, "script", page_text(m, diag_script_words(m, l->process)));
    json_put(o, "before", report_request_json(l->process->ldso, l->before));
    if (l->after) {
        json_put(o, "after", report_request_json(l->process->ldso, l->after));
    }
    return o;
}

static void put_ladders(struct model *m, const struct diag_report *r, const struct plan_way *way,
                        json_t *page)
{
    ladder_list found = {0};
    json_t *list = json_array();
    if (way) {
        add_proved(m, way, &found);
    }
    for (size_t i = 0; i < m->processes.n && r->verdict != DIAG_OK; i++) {
        add_failed(m, m->processes.items[i], &found);
    }
    for (size_t i = 0; i < m->processes.n; i++) {
        add_first_wins(m, m->processes.items[i], &found);
    }
    for (size_t i = 0; i < found.n && i < LADDERS_MAX; i++) {
        json_add(list, ladder_json(m, &found.items[i]));
    }
    size_t left = found.n > LADDERS_MAX ? found.n - LADDERS_MAX : 0;
    json_put(page, "ladders", list);
    json_put(page, "ladders_left", json_integer((json_int_t)left));
}

/* ------------------------------------------------------------------ families */

/* A file of a library family that some process loads. */
struct member {
    const struct kb_family *family;
    const char *origin, *version, *path;
};
typedef VEC(struct member) member_list;

static bool is_below(const char *path, const char *folder)
{
    size_t n = folder ? strlen(folder) : 0;
    return n && strncmp(path, folder, n) == 0 && path[n] == '/';
}

static bool is_in_toolkit(const model_toolkits *toolkits, const char *path, const char *real)
{
    for (size_t i = 0; i < toolkits->n; i++) {
        if (is_below(path, toolkits->items[i].dir) || is_below(real, toolkits->items[i].dir)) {
            return true;
        }
    }
    return false;
}

static bool is_in_system_dir(const struct ldso_process *p, const char *path)
{
    for (size_t i = 0; i < p->loader.n_dirs; i++) {
        if (is_below(path, p->loader.dirs[i])) {
            return true;
        }
    }
    return is_below(path, "/usr/lib") || is_below(path, "/usr/lib64") || is_below(path, "/lib") ||
           is_below(path, "/lib64");
}

static const char *origin_of(struct model *m, const struct ldso_process *p,
                             const model_toolkits *toolkits, const struct kb_family *family,
                             const char *path)
{
    const char *real = model_real_path(m, path);
    bool conda = m->env && m->env->kind == PY_ENV_CONDA && is_below(path, m->env->prefix);
    if (strcmp(family->id, "driver") == 0) {
        return "driver";
    }
    if (conda && !strstr(path, "/site-packages/")) {
        return "conda";
    }
    if (model_owner(m, path) || strstr(path, "/site-packages/")) {
        return "wheel";
    }
    if (is_in_toolkit(toolkits, path, real ? real : path)) {
        return "CUDA toolkit";
    }
    return is_in_system_dir(p, path) ? "system" : "other";
}

static int compare_members(const void *left, const void *right)
{
    const struct member *a = left, *b = right;
    int c = strcmp(a->family->id, b->family->id);
    c = c ? c : strcmp(a->origin, b->origin);
    c = c ? c : strcmp(a->version, b->version);
    return c ? c : strcmp(a->path, b->path);
}

static member_list members_of(struct model *m)
{
    member_list out = {0};
    model_toolkits toolkits;
    const char *why;
    model_find_toolkits(m, &toolkits, &why);
    for (size_t i = 0; i < m->processes.n; i++) {
        const struct ldso_process *p = m->processes.items[i]->ldso;
        for (size_t k = 0; p && k < p->objects.n; k++) {
            const struct ldso_object *o = p->objects.items[k];
            const struct kb_family *f = kb_family_of(&m->families, path_base(o->path));
            const char *version =
                f && o->file
                    ? model_object_version(m, o->file, model_absolute(m, o->path), f->version_from)
                    : NULL;
            if (f) {
                VEC_PUSH(m->arena, &out,
                         ((struct member){f, origin_of(m, p, &toolkits, f, o->path),
                                          version ? version : "version not known", o->path}));
            }
        }
    }
    if (out.n) {
        qsort(out.items, out.n, sizeof *out.items, compare_members);
    }
    return out;
}

/* Whether two members of a family are of releases that differ. "12.4" is what some files say of
 * 12.4.127; and where the one may be newer than the other, each has a numbering of its own. */
static bool releases_differ(const struct member *x, const struct member *y)
{
    size_t n = strlen(x->version), k = strlen(y->version), shorter = n < k ? n : k;
    const char *longer = n < k ? y->version : x->version;
    bool begins = strncmp(x->version, y->version, shorter) == 0 &&
                  (longer[shorter] == '.' || !longer[shorter]);
    bool own_numbers = x->family->rule == KB_RULE_NOT_OLDER &&
                       !str_eq(model_stem(path_base(x->path)), model_stem(path_base(y->path)));
    return !begins && !own_numbers;
}

/* Members first <= i < last are of one family, sorted. */
static json_t *family_json(const struct model *m, const member_list *all, size_t first, size_t last)
{
    json_t *o = json_object(), *cells = json_array(), *files = NULL;
    json_int_t n_origins = 0, n_versions = 0;
    for (size_t i = first; i < last; i++) {
        const struct member *x = &all->items[i], *before = i > first ? x - 1 : NULL;
        bool new_origin = !before || strcmp(before->origin, x->origin) != 0;
        bool new_version = !before || strcmp(before->version, x->version) != 0;
        if (new_origin || new_version) {
            json_t *cell = json_object();
            files = json_array();
            json_put(cell, "origin", page_text(m, x->origin));
            json_put(cell, "version", page_text(m, x->version));
            json_put(cell, "files", files);
            json_add(cells, cell);
            n_origins += new_origin;
        }
        if ((new_origin || new_version || strcmp(before->path, x->path) != 0) &&
            json_array_size(files) < FILES_MAX) {
            json_add(files, page_text(m, x->path));
        }
    }
    for (size_t i = first; i < last; i++) { // each version once, whatever its origin
        bool seen = false;
        for (size_t k = first; k < i && !seen; k++) {
            seen = !releases_differ(&all->items[k], &all->items[i]);
        }
        n_versions += !seen;
    }
    json_put(o, "title", page_text(m, all->items[first].family->title));
    json_put(o, "n_origins", json_integer(n_origins));
    json_put(o, "n_versions", json_integer(n_versions));
    json_put(o, "cells", cells);
    return o;
}

static json_t *families_json(struct model *m)
{
    json_t *list = json_array();
    member_list all = members_of(m);
    for (size_t i = 0; i < all.n;) {
        size_t last = i;
        while (last < all.n && all.items[last].family == all.items[i].family) {
            last++;
        }
        json_add(list, family_json(m, &all, i, last));
        i = last;
    }
    return list;
}

/* ------------------------------------------------------------------ head and commands */

/* The lines that `check` prints about what it looked at. */
static const char *head_of(const struct model *m, const struct report_target *target)
{
    char *buffer = NULL;
    size_t n = 0;
    struct out out = {.file = open_memstream(&buffer, &n), .width = 1000};
    if (!out.file) {
        return "";
    }
    report_target_text(&out, m, target);
    const char *head = fclose(out.file) == 0 ? arena_strndup(m->arena, buffer, n) : "";
    free(buffer);
    return head;
}

static void add_command(const struct model *m, const char *label,
                        const struct report_repair *repair, json_t *list)
{
    if (repair->way) {
        json_t *o = json_object();
        json_put(o, "label", page_text(m, label));
        json_put(o, "title", page_text(m, repair->way->title));
        json_put(o, "command", page_text(m, repair->command));
        json_put(o, "remark", page_text(m, repair->remark));
        json_add(list, o);
    }
}

static const struct plan_way *best_way(const struct report_advice *advice, const struct plan *plan)
{
    const struct plan_way *way = advice->start.way ? advice->start.way : advice->good.way;
    for (size_t i = 0; plan && i < plan->ways.n && (!way || !way->after); i++) {
        way = plan->ways.items[i].after ? &plan->ways.items[i] : way;
    }
    return way;
}

json_t *report_html_check(struct model *m, const struct diag_report *r,
                          const struct report_target *target, const struct report_advice *advice,
                          const struct plan *plan)
{
    json_t *page = json_object(), *commands = json_array();
    const char *what = target->path ? target->path
                       : m->env     ? m->env->prefix
                       : m->pid     ? arena_printf(m->arena, "process %d", m->pid)
                                    : "this machine";
    json_put(page, "command", json_string("gpumend check"));
    json_put(page, "target", page_text(m, what));
    json_put(page, "head", page_text(m, head_of(m, target)));
    json_put(page, "verdict", page_text(m, diag_verdict_name(r->verdict)));
    json_put(page, "sentence", page_text(m, report_verdict_sentence(m, r, target)));
    add_command(m, "for this start", &advice->start, commands);
    add_command(m, "for good", &advice->good, commands);
    json_put(page, "commands", commands);
    put_ladders(m, r, best_way(advice, plan), page);
    json_put(page, "families", families_json(m));
    json_put(page, "document", report_check_json(m, r, target));
    return page;
}
