/* Where the trace and the model differ, and which circumstance explains it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "watch/compare.h"
#include "watch/compared.h"

enum { US = 1000000 };

/* ------------------------------------------------------------------ times */

static int64_t us_of(int64_t seconds, int64_t nanoseconds)
{
    return seconds * US + nanoseconds / 1000;
}

/* When the file or folder was made or changed last; 0: not known. */
static int64_t changed_us(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? us_of(st.st_ctim.tv_sec, st.st_ctim.tv_nsec) : 0;
}

/* When the folder was made; 0: the file system does not say. */
static int64_t made_us(const char *path)
{
    struct statx st;
    if (statx(AT_FDCWD, path, 0, STATX_BTIME, &st) < 0 || !(st.stx_mask & STATX_BTIME)) {
        return 0;
    }
    return us_of(st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
}

static const char *seconds_after(struct compared *c, const struct watch_process *p, int64_t time_us)
{
    return arena_printf(c->a, "%.3f s", (double)(time_us - p->time_us) / (double)US);
}

/* ------------------------------------------------------------------ words */

const char *watch_compare_ends_at(struct compared *c, const struct watch_answer *answer)
{
    return !answer->found ? "nothing is found"
           : answer->path ? arena_printf(c->a, "%s is taken", answer->path)
                          : "what is loaded under that name already is taken";
}

bool watch_answer_is_same(const struct watch_answer *a, const struct watch_answer *b)
{
    return a->found == b->found &&
           (!a->found || !a->path || !b->path || strcmp(a->path, b->path) == 0);
}

struct watch_answer watch_load_seen(const struct watch_load *l)
{
    return (struct watch_answer){
        .known = true, .found = !l->failed, .path = l->failed ? NULL : l->path};
}

/* ------------------------------------------------------------------ why: another caller */

static bool by_interposer(struct compared *c, const struct watch_process *p,
                          const struct watch_load *l, size_t i, struct watch_difference *d)
{
    struct replayed again;
    struct gm_err err;
    const struct circumstances how = {.as_the_loader = true};
    if (!l->caller || !l->loader_caller || strcmp(l->caller, l->loader_caller) == 0 ||
        !watch_compare_replay(c, p, &how, i + 1, &again, &err) ||
        !watch_answer_is_same(&again.answers[i], &d->seen)) {
        return false;
    }
    d->cause = "dlopen-interposed";
    d->summary = arena_printf(c->a,
                              "%s intercepts dlopen: the loader searches for %s on its "
                              "behalf, not on behalf of %s, where %s.",
                              path_base(l->loader_caller), l->name, path_base(l->caller),
                              watch_compare_ends_at(c, &d->model));
    SAY(c, d, "the loader treats %s as the caller, by the return address of dlopen",
        l->loader_caller);
    SAY(c, d, "with %s as the caller, the model finds what was seen: %s",
        path_base(l->loader_caller), watch_compare_ends_at(c, &d->seen));
    d->to_do = arena_printf(c->a,
                            "Start the program without %s, or set LD_LIBRARY_PATH to what "
                            "the "
                            "RUNPATH of %s names.",
                            path_base(l->loader_caller), path_base(l->caller));
    return true;
}

/* ------------------------------------------------------------------ why: files that came or went
 */

/* When a file in the folder was first asked for; 0: never. */
static int64_t first_look(struct compared *c, const struct watch_process *p, const char *folder)
{
    for (size_t i = 0; i < p->requests.n; i++) {
        const struct watch_request *r = &p->requests.items[i];
        for (size_t k = 0; k < r->candidates.n; k++) {
            const char *path = r->candidates.items[k].path;
            if (path && strcmp(path_dir(c->a, path), folder) == 0) {
                return r->time_us;
            }
        }
    }
    return p->fork_of ? first_look(c, p->fork_of, folder) : 0;
}

static bool by_late_folder(struct compared *c, const struct watch_process *p,
                           const struct watch_load *l, struct watch_difference *d)
{
    if (!d->model.found || !d->model.path || d->model.path[0] != '/') {
        return false;
    }
    const char *folder = path_dir(c->a, d->model.path);
    int64_t made = made_us(folder), looked = first_look(c, p, folder);
    made = made ? made : changed_us(folder);
    if (made <= p->time_us || (looked && looked >= made)) {
        return false;
    }
    d->cause = "folder-created-late";
    d->summary = arena_printf(c->a,
                              "%s was made when the program was running already, and the "
                              "loader "
                              "does not look there any more: %s is not seen.",
                              folder, path_base(d->model.path));
    SAY(c, d, "the folder was made %s after the start", seconds_after(c, p, made));
    if (looked) {
        SAY(c, d, "the loader found no such folder %s after the start, and remembers that",
            seconds_after(c, p, looked));
    }
    SAY(c, d, "%s was asked for %s after the start", l->name, seconds_after(c, p, l->time_us));
    d->to_do = "Make the folder before the program starts, or start it again.";
    return true;
}

static bool by_changed_file(struct compared *c, const struct watch_process *p,
                            const struct watch_load *l, struct watch_difference *d)
{
    const char *const paths[] = {d->model.path, d->seen.path};
    for (size_t i = 0; i < 2; i++) {
        struct stat st;
        if (!paths[i] || paths[i][0] != '/') {
            continue;
        }
        bool gone = lstat(paths[i], &st) < 0;
        int64_t changed = gone ? changed_us(path_dir(c->a, paths[i])) : changed_us(paths[i]);
        if (changed <= l->time_us) {
            continue;
        }
        d->cause = "library-changed-while-running";
        d->summary = arena_printf(c->a,
                                  "%s is not what it was when %s was asked for: the file %s "
                                  "since.",
                                  paths[i], l->name, gone ? "was removed" : "was made or changed");
        SAY(c, d, "it was asked for %s after the start, and %s %s after the start",
            seconds_after(c, p, l->time_us), gone ? "its folder changed" : "the file changed",
            seconds_after(c, p, changed));
        d->to_do = "Start the program again, and change its libraries only while it does not run.";
        return true;
    }
    return false;
}

/* ------------------------------------------------------------------ why: a variable set in vain */

/* The last LD_LIBRARY_PATH that the process set for itself before the load, or NULL. */
static const struct watch_edit *edit_before(const struct watch_process *p, size_t n)
{
    for (size_t i = n; i > 0; i--) {
        if (strcmp(p->edits.items[i - 1].name, "LD_LIBRARY_PATH") == 0) {
            return p->edits.items[i - 1].cut ? NULL : &p->edits.items[i - 1];
        }
    }
    return p->fork_of ? edit_before(p->fork_of, p->fork_edits) : NULL;
}

static bool results_are_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* The same cause in the same process; without a cause, the same request with the same answers. */
static struct watch_difference *known_difference(struct compared *c,
                                                 const struct watch_difference *d)
{
    for (size_t i = 0; i < c->ret->differences.n; i++) {
        struct watch_difference *known = &c->ret->differences.items[i];
        if (known->process == d->process && results_are_same(known->cause, d->cause) &&
            (d->cause ||
             (strcmp(known->name, d->name) == 0 && results_are_same(known->caller, d->caller) &&
              watch_answer_is_same(&known->seen, &d->seen) &&
              watch_answer_is_same(&known->model, &d->model)))) {
            return known;
        }
    }
    return NULL;
}

static void difference_add_name(struct compared *c, struct watch_difference *d, const char *name)
{
    bool known = strcmp(d->name, name) == 0;
    for (size_t i = 0; i < d->likewise.n && !known; i++) {
        known = strcmp(d->likewise.items[i], name) == 0;
    }
    if (!known) {
        VEC_PUSH(c->a, &d->likewise, name);
    }
}

static const char *kept_text(struct compared *c, const char *text)
{
    return text ? arena_strdup(c->a, text) : NULL;
}

void watch_compare_add_difference(struct compared *c, const struct watch_difference *d)
{
    struct watch_difference *known = known_difference(c, d);
    struct watch_difference new = *d;
    new.name = kept_text(c, d->name);
    new.caller = kept_text(c, d->caller);
    new.seen.path = kept_text(c, d->seen.path);
    new.model.path = kept_text(c, d->model.path);
    if (known) {
        difference_add_name(c, known, new.name);
    } else {
        VEC_PUSH(c->a, &c->ret->differences, new);
    }
}

/* Had the variable been set before the start, would this dlopen have ended elsewhere? */
static void judge_edit(struct compared *c, const struct watch_process *p, const struct replayed *r,
                       size_t i, struct replayed *again)
{
    const struct watch_load *l = r->loads.items[i];
    const struct watch_edit *e = edit_before(p, l->n_edits);
    struct gm_err err;
    if (!e || strchr(l->name, '/') || !r->answers[i].known) {
        return;
    }
    const struct circumstances how = {.path_set = e->value, .path_unset = !e->value};
    struct watch_answer seen = watch_load_seen(l);
    if (!watch_answer_is_same(&r->answers[i], &seen)) {
        return; // what the variable would change cannot be determined
    }
    if (c->edit != e) { // all dlopens at once: later ones have it as well
        c->edit = e;
        if (!watch_compare_replay(c, p, &how, SIZE_MAX, again, &err)) {
            again->answers = NULL;
        }
    }
    if (!again->answers || !again->answers[i].known ||
        watch_answer_is_same(&again->answers[i], &seen)) {
        return;
    }
    struct watch_difference d = {.process = p,
                                 .name = l->name,
                                 .caller = l->caller ? l->caller : l->loader_caller,
                                 .time_us = l->time_us,
                                 .seen = seen,
                                 .model = again->answers[i],
                                 .cause = "variable-set-too-late"};
    d.summary = arena_printf(c->a,
                             "The program set LD_LIBRARY_PATH itself; the loader had read it "
                             "before, so %s was looked for without it.",
                             l->name);
    SAY(c, &d, "set by %s %s after the start to %s",
        e->caller ? path_base(e->caller)
                  : "the "
                    "program",
        seconds_after(c, p, e->time_us), e->value ? e->value : "nothing");
    SAY(c, &d, "seen: %s; with the variable set before the start, the model says: %s",
        watch_compare_ends_at(c, &seen), watch_compare_ends_at(c, &again->answers[i]));
    d.to_do = e->value ? arena_printf(c->a,
                                      "Set it before the program starts: export "
                                      "LD_LIBRARY_PATH=%s",
                                      e->value)
                       : "Unset it before the program starts.";
    watch_compare_add_difference(c, &d);
}

/* ------------------------------------------------------------------ one dlopen */

/* False if the difference may come of what the model does not do: it keeps what was closed, so a
 * name or a dependency may end there at a library that the process no longer has. */
static bool explain_difference(struct compared *c, const struct watch_process *p,
                               const struct replayed *r, size_t i, struct watch_difference *d)
{
    const struct watch_load *l = r->loads.items[i];
    if (by_interposer(c, p, l, i, d) || by_late_folder(c, p, l, d) || by_changed_file(c, p, l, d)) {
        return true;
    }
    if (watch_compare_any_closed_before(p, l->at)) {
        return false;
    }
    d->summary =
        arena_printf(c->a, "%s: %s, and the model says that %s; the cause is unknown.", l->name,
                     watch_compare_ends_at(c, &d->seen), watch_compare_ends_at(c, &d->model));
    if (l->says) {
        SAY(c, d, "the loader says: %s", l->says);
    }
    return true;
}

bool watch_compare_list_has_path(const char *const *list, size_t n, const char *path)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i], path) == 0) {
            return true;
        }
    }
    return false;
}

/* Among the first n objects. */
static bool in_model(const struct ldso_process *m, size_t n, const char *path)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(m->objects.items[i]->path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* A dependency that the one side has and the other has not; NULL: the same are there. */
static const char *other_dependency(const struct replayed *r, size_t i)
{
    const struct watch_load *l = r->loads.items[i];
    for (size_t k = 0; k < l->opened.n; k++) {
        if (!in_model(r->model, r->objects_before[i + 1], l->opened.items[k])) {
            return l->opened.items[k];
        }
    }
    for (size_t k = r->objects_before[i]; k < r->objects_before[i + 1]; k++) {
        const char *path = r->model->objects.items[k]->path;
        if (!watch_compare_list_has_path(l->opened.items, l->opened.n, path)) {
            return path;
        }
    }
    return NULL;
}

static void compared_load(struct compared *c, const struct watch_process *p,
                          const struct replayed *r, size_t i)
{
    const struct watch_load *l = r->loads.items[i];
    struct watch_answer seen = watch_load_seen(l);
    const struct watch_answer *model = &r->answers[i];
    bool again =
        model->known && watch_compare_closed_before(p, l->at, l->path ? l->path : model->path);
    if (!model->known || again) {
        c->ret->n_not_compared++;
        return;
    }
    c->ret->n_requests++;
    struct watch_difference d = {.process = p,
                                 .name = l->name,
                                 .caller = l->caller ? l->caller : l->loader_caller,
                                 .time_us = l->time_us,
                                 .seen = seen,
                                 .model = *model};
    if (watch_answer_is_same(&seen, model)) {
        const char *other = seen.found ? other_dependency(r, i) : NULL;
        if (!other || watch_compare_closed_before(p, l->at, other)) {
            c->ret->n_same++;
            return;
        }
        d.name = path_base(other);
        d.caller = l->path;
        bool opened = watch_compare_list_has_path(l->opened.items, l->opened.n, other);
        d.seen =
            (struct watch_answer){.known = true, .found = opened, .path = opened ? other : NULL};
        d.model =
            (struct watch_answer){.known = true, .found = !opened, .path = opened ? NULL : other};
    }
    if (explain_difference(c, p, r, i, &d)) {
        watch_compare_add_difference(c, &d);
    } else {
        c->ret->n_requests--;
        c->ret->n_not_compared++;
    }
}

/* ------------------------------------------------------------------ the start */

static bool is_kernels(const char *path)
{
    return strchr(path, '/') == NULL; // linux-vdso.so.1, linux-gate.so.1
}

static void judge_start(struct compared *c, const struct watch_process *p, const struct replayed *r)
{
    const struct ldso_process *m = r->model;
    struct watch_difference d = {.process = p, .name = path_base(p->exe), .time_us = p->time_us};
    c->ret->n_requests++;
    const char *other = NULL;
    for (size_t i = 0; p->started && i < p->opened.n && !other; i++) {
        const char *path = p->opened.items[i];
        other = is_kernels(path) || in_model(m, r->objects_before[0], path) ? NULL : path;
    }
    for (size_t i = 0; p->started && i < r->objects_before[0] && !other; i++) {
        const char *path = m->objects.items[i]->path;
        other = watch_compare_list_has_path(p->opened.items, p->opened.n, path) ? NULL : path;
    }
    if (m->start_failed == !p->started && !other) {
        c->ret->n_same++;
        return;
    }
    bool opened = other && watch_compare_list_has_path(p->opened.items, p->opened.n, other);
    d.name = other ? path_base(other) : d.name;
    d.seen = (struct watch_answer){
        .known = true, .found = other ? opened : p->started, .path = opened ? other : NULL};
    d.model = (struct watch_answer){.known = true,
                                    .found = other ? !opened : !m->start_failed,
                                    .path = other && !opened ? other : NULL};
    const struct watch_load start = {.name = d.name, .time_us = p->time_us};
    if (by_late_folder(c, p, &start, &d) || by_changed_file(c, p, &start, &d)) {
        watch_compare_add_difference(c, &d);
        return;
    }
    d.summary =
        other
            ? arena_printf(c->a, "%s is loaded at the start %s; the cause is unknown.", other,
                           opened ? "and the model does not have it" : "by the model, and was not")
            : arena_printf(c->a, "%s %s, and the model says that it %s; the cause is unknown.",
                           p->exe, p->started ? "starts" : "did not start",
                           m->start_failed ? "does not" : "starts");
    if (p->start_says || m->start_error) {
        SAY(c, &d, "%s", p->start_says ? p->start_says : m->start_error);
    }
    watch_compare_add_difference(c, &d);
}

/* ------------------------------------------------------------------ one process */

static void note_process(struct compared *c, const struct watch_process *p, const char *why)
{
    VEC_PUSH(c->a, &c->ret->notes,
             arena_printf(c->a, "process %d (%s) is not compared: %s", p->pid,
                          p->exe ? p->exe : "?", why));
}

static void compared_process(struct compared *c, const struct watch_process *p)
{
    struct replayed r, with_edit;
    struct gm_err err = {.text = "its folder or its program is not known"};
    const struct circumstances as_it_was = {.as_the_loader = false};
    if (p->env_cut) {
        note_process(c, p, "its variables for the loader are too long for a line of the trace");
        return;
    }
    if (!watch_compare_replay(c, p, &as_it_was, SIZE_MAX, &r, &err)) {
        note_process(c, p, err.text);
        return;
    }
    if (r.n_inherited + p->loads.n > r.loads.n) {
        note_process(c, p, arena_printf(c->a, "its dlopens after the first %d", LOADS_MAX));
    }
    c->ret->n_processes++;
    c->edit = NULL;
    if (!p->fork_of) {
        judge_start(c, p, &r);
    }
    for (size_t i = r.n_inherited; i < r.loads.n; i++) {
        compared_load(c, p, &r, i);
        if (watch_load_is_compared(r.loads.items[i]) && r.loads.items[i]->n_edits + p->fork_edits) {
            judge_edit(c, p, &r, i, &with_edit);
        }
    }
}

static void compare_processes(struct compared *c, const struct watch_trace *t)
{
    for (size_t i = 0; i < t->processes.n; i++) {
        if (i >= PROCESSES_MAX) {
            VEC_PUSH(c->a, &c->ret->notes,
                     arena_printf(c->a, "%zu more process%s not compared", t->processes.n - i,
                                  t->processes.n - i == 1 ? " is" : "es are"));
            break;
        }
        compared_process(c, t->processes.items[i]);
    }
    if (t->full) {
        VEC_PUSH(c->a, &c->ret->notes,
                 "the trace is longer than what is kept of it; its end is "
                 "neither shown nor compared");
    }
}

/* Without a line a library that was opened looks as if it was not: nothing is compared then. */
static void tell_loss(struct compared *c, const struct watch_trace *t)
{
    int error = t->losses ? t->losses->error : 0;
    const char *why = error ? strerror(error) : NULL;
    VEC_PUSH(c->a, &c->ret->notes,
             arena_printf(c->a,
                          "%llu line%s of the trace %s lost%s%s%s: what it shows is not all, "
                          "and nothing is compared with the model",
                          (unsigned long long)c->ret->n_lost, c->ret->n_lost == 1 ? "" : "s",
                          c->ret->n_lost == 1 ? "was" : "were", why ? " (" : "", why ? why : "",
                          why ? ")" : ""));
}

void watch_compare(const struct watch_trace *t, struct arena *a, struct root *root,
                   struct watch_comparison *ret)
{
    struct compared c = {.a = a, .ret = ret};
    *ret = (struct watch_comparison){.n_lost = watch_trace_lost(t)};
    ret->complete = !ret->n_lost && !t->full && t->processes.n;
    ldso_store_open(&c.store, root, a);
    if (ret->n_lost) {
        tell_loss(&c, t);
    } else {
        compare_processes(&c, t);
    }
    ldso_store_close(&c.store);
}
