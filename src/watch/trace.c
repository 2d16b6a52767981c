#include "watch/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

enum { PIECE_BYTES = 64 << 10, LINE_BYTES_MAX = 64 << 10, KEPT_BYTES_MAX = 512 << 20 };

/* ------------------------------------------------------------------ members of a line */

static const char *text_of(struct watch_trace *t, json_t *line, const char *key)
{
    const char *text = json_string_value(json_object_get(line, key));
    return text ? arena_strdup(t->a, text) : NULL;
}

static int64_t number_of(json_t *line, const char *key)
{
    return json_integer_value(json_object_get(line, key)); // 0 where it is none
}

static void show(struct watch_trace *t, const struct watch_event *event)
{
    if (t->show) {
        t->show(t->show_arg, event);
    }
}

/* ------------------------------------------------------------------ what comes of things */

static struct watch_request *request_now(struct watch_process *p)
{
    return p->request < 0 ? NULL : &p->requests.items[p->request];
}

static struct watch_load *load_now(struct watch_process *p)
{
    return p->load < 0 ? NULL : &p->loads.items[p->load];
}

/* The path under which the file is loaded already, or NULL. */
static const char *loaded_as(const struct watch_process *p, const struct stat *st)
{
    for (size_t i = 0; i < p->files.n; i++) {
        const struct watch_file *f = &p->files.items[i];
        if (f->ino && f->dev == st->st_dev && f->ino == st->st_ino) {
            return f->path;
        }
    }
    return p->fork_of ? loaded_as(p->fork_of, st) : NULL;
}

static void remember_file(struct watch_trace *t, struct watch_process *p, const char *path)
{
    struct stat st;
    bool known = stat(path, &st) == 0;
    VEC_PUSH(t->a, &p->files, (struct watch_file){.path = path, .dev = known ? st.st_dev : 0,
                                                  .ino = known ? st.st_ino : 0});
}

static bool is_of(const struct watch_candidate *c, const char *result)
{
    return c->result && strcmp(c->result, result) == 0;
}

/* Nothing was opened for it. */
static void settle_unopened(const struct watch_process *p, struct watch_request *r)
{
    const struct watch_candidate *last = r->candidates.n ? &r->candidates.items[r->candidates.n - 1]
                                                         : NULL;
    r->outcome = LDSO_NOT_FOUND;
    if (!last || !(is_of(last, "taken") || is_of(last, "invalid") || is_of(last, "unreadable") ||
                   !last->result)) {
        return;
    }
    struct stat st;
    const char *loaded = is_of(last, "taken") && last->path && stat(last->path, &st) == 0
                             ? loaded_as(p, &st) : NULL;
    r->outcome = loaded ? LDSO_REUSED : last->result ? LDSO_REFUSED : LDSO_NOT_FOUND;
    r->path = loaded ? loaded : last->result ? last->path : NULL;
}

static void settle(struct watch_trace *t, struct watch_process *p, const char *opened)
{
    struct watch_request *r = request_now(p);
    if (!r) {
        return;
    }
    if (opened) {
        r->outcome = LDSO_LOADED;
        r->path = opened;
    } else {
        settle_unopened(p, r);
    }
    r->settled = true;
    struct watch_load *l = r->load < 0 ? NULL : &p->loads.items[r->load];
    bool found = r->outcome == LDSO_LOADED || r->outcome == LDSO_REUSED;
    if (l && p->request == (long)l->first_request) {
        l->path = r->path;
    }
    if (l) {
        l->failed |= !found;
    } else if (!found && r->kind != LDSO_PRELOAD) {
        p->start_says = arena_printf(t->a, "%s was not found", r->name);
    }
    p->request = -1;
    show(t, &(struct watch_event){.kind = WATCH_REQUEST, .process = p, .request = r});
}

/* No more events of this dlopen will come. */
static void end_load(struct watch_trace *t, struct watch_process *p)
{
    settle(t, p, NULL);
    const struct watch_load *l = load_now(p);
    if (l && l->reused && l->name) {
        show(t, &(struct watch_event){.kind = WATCH_REUSED, .process = p, .load = l});
    }
    p->load = -1;
}

/* ------------------------------------------------------------------ processes */

static struct watch_process *process_of(struct watch_trace *t, int pid)
{
    for (size_t i = t->processes.n; i > 0; i--) {
        if (t->processes.items[i - 1]->pid == pid) {
            return t->processes.items[i - 1];
        }
    }
    return NULL;
}

static struct watch_process *new_process(struct watch_trace *t, json_t *line)
{
    struct watch_process *p = arena_alloc(t->a, sizeof *p);
    p->pid = (int)number_of(line, "pid");
    p->ppid = (int)number_of(line, "ppid");
    p->time_us = number_of(line, "time_us");
    p->request = p->load = -1;
    VEC_PUSH(t->a, &t->processes, p);
    return p;
}

static void on_start(struct watch_trace *t, struct watch_process *before, json_t *line)
{
    const char *key;
    json_t *value;
    if (before) {
        end_load(t, before);
        before->replaced = true;
    }
    struct watch_process *p = new_process(t, line);
    p->exe = text_of(t, line, "exe");
    p->cwd = text_of(t, line, "cwd");
    json_object_foreach(json_object_get(line, "env"), key, value) {
        if (json_is_string(value)) {
            VEC_PUSH(t->a, &p->env, arena_printf(t->a, "%s=%s", key, json_string_value(value)));
        }
    }
    show(t, &(struct watch_event){.kind = WATCH_START, .process = p});
}

static void on_fork(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    struct watch_process *parent = process_of(t, (int)number_of(line, "ppid"));
    (void)p;
    if (!parent) {
        return;
    }
    struct watch_process *child = new_process(t, line);
    child->fork_of = parent;
    child->fork_loads = parent->loads.n;
    child->fork_edits = parent->edits.n;
    child->exe = parent->exe;
    child->cwd = parent->cwd;
    child->started = true;
    child->env.items = parent->env.items;
    child->env.n = child->env.cap = parent->env.n;
}

/* ------------------------------------------------------------------ the loader */

static enum ldso_request_kind kind_of(const char *word)
{
    return !word ? LDSO_NEEDED : strcmp(word, "dlopen") == 0 ? LDSO_DLOPEN
           : strcmp(word, "preload") == 0 ? LDSO_PRELOAD : LDSO_NEEDED;
}

/* Whether another thread is in the loader, in the middle of a request: what this one does before it
 * waits for the loader's lock, or outside of it, ends nothing there. */
static bool is_elsewhere(const struct watch_process *p, int tid)
{
    return p->request >= 0 && p->load >= 0 && p->loads.items[p->load].tid != tid;
}

/* Makes the last dlopen of the thread that is in the loader the current one, if it is among the last:
 * only threads that wait for the loader's lock come between. */
static void switch_to(struct watch_process *p, int tid)
{
    enum { WAITING_MAX = 1024 };
    size_t first = p->loads.n > WAITING_MAX ? p->loads.n - WAITING_MAX : 0;
    for (size_t i = p->loads.n; i > first && p->started; i--) {
        if (p->loads.items[i - 1].tid == tid) {
            p->load = (long)i - 1;
            return;
        }
    }
}

static struct watch_load *new_load(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    bool elsewhere = is_elsewhere(p, (int)number_of(line, "tid"));
    if (!elsewhere) {
        end_load(t, p);
    }
    VEC_PUSH(t->a, &p->loads, (struct watch_load){
        .name = text_of(t, line, "name"), .caller = text_of(t, line, "caller"), .reused = true,
        .tid = (int)number_of(line, "tid"), .time_us = number_of(line, "time_us"),
        .first_request = p->requests.n, .n_edits = p->edits.n});
    if (!elsewhere) {
        p->load = (long)p->loads.n - 1;
    }
    return &p->loads.items[p->loads.n - 1];
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* The call that a dlopen which stands in front of the loader's makes itself. */
static bool goes_on(const struct watch_load *l, const char *name, const char *caller, int tid)
{
    return l && l->interposed_by && l->reused && l->tid == tid && same_text(l->name, name) &&
           same_text(l->interposed_by, caller);
}

static void on_dlopen(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    struct watch_load *l = load_now(p);
    if (!goes_on(l, text_of(t, line, "name"), text_of(t, line, "caller"),
                 (int)number_of(line, "tid"))) {
        l = new_load(t, p, line);
        l->interposed_by = text_of(t, line, "interposed_by");
    }
    l->flags = (unsigned)number_of(line, "flags");
    l->space = number_of(line, "namespace");
    l->loader_caller = text_of(t, line, "caller");
}

static void on_request(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    const char *name = text_of(t, line, "name");
    const char *caller = text_of(t, line, "caller");
    enum ldso_request_kind kind = kind_of(json_string_value(json_object_get(line, "kind")));
    settle(t, p, NULL);
    switch_to(p, (int)number_of(line, "tid"));
    if (kind == LDSO_DLOPEN) {
        struct watch_load *l = load_now(p);
        /* A call that was not seen: only the loader's view of it is known. */
        if (!l || !l->reused || l->tid != (int)number_of(line, "tid") || !same_text(l->name, name)) {
            l = new_load(t, p, line);
            l->caller = NULL;
        }
        l->loader_caller = caller;
        l->reused = false;
        l->first_request = p->requests.n;
    }
    struct watch_load *l = load_now(p);
    VEC_PUSH(t->a, &p->requests, (struct watch_request){
        .name = name ? name : "", .caller = caller, .kind = kind,
        .time_us = number_of(line, "time_us"), .load = p->started ? p->load : -1});
    p->request = (long)p->requests.n - 1;
    if (l) {
        l->n_requests = p->requests.n - l->first_request;
    }
}

static void on_candidate(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    struct watch_request *r = request_now(p);
    if (r) {
        VEC_PUSH(t->a, &r->candidates, (struct watch_candidate){
            .path = text_of(t, line, "path"), .via = text_of(t, line, "via"),
            .result = text_of(t, line, "result")});
    }
}

static void on_open(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    const char *path = text_of(t, line, "path");
    struct watch_load *l = load_now(p);
    settle(t, p, path);
    if (!path || number_of(line, "namespace") != 0) {
        return;
    }
    remember_file(t, p, path);
    if (!p->started) {
        VEC_PUSH(t->a, &p->opened, path);
    } else if (l) {
        VEC_PUSH(t->a, &l->opened, path);
    }
}

static void on_close(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    struct watch_load *l = load_now(p);
    settle(t, p, NULL);
    if (l) {
        VEC_PUSH(t->a, &l->closed, text_of(t, line, "path"));
    } else {
        /* dlclose after something else: it belongs to the last dlopen all the same. */
        l = p->loads.n ? &p->loads.items[p->loads.n - 1] : NULL;
        if (l) {
            VEC_PUSH(t->a, &l->closed, text_of(t, line, "path"));
        }
    }
}

static bool closed_again(const struct watch_load *l)
{
    for (size_t i = 0; i < l->closed.n; i++) {
        if (same_text(l->closed.items[i], l->path)) {
            return true;
        }
    }
    return false;
}

/* The text belongs to the last dlopen of its thread, if that may have failed: dlsym's texts come
 * by dlerror as well. */
static void on_dlerror(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    const char *text = text_of(t, line, "text");
    int tid = (int)number_of(line, "tid");
    if (!is_elsewhere(p, tid)) {
        end_load(t, p);
    }
    for (size_t i = p->loads.n; text && i > 0; i--) {
        struct watch_load *l = &p->loads.items[i - 1];
        if (l->tid == tid) {
            l->failed |= l->path && closed_again(l);
            l->says = l->failed && !l->says ? text : l->says;
            break;
        }
    }
    if (text) {
        show(t, &(struct watch_event){.kind = WATCH_DLERROR, .process = p, .text = text});
    }
}

static void on_setenv(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    if (!is_elsewhere(p, (int)number_of(line, "tid"))) {
        end_load(t, p);
    }
    const char *name = text_of(t, line, "name");
    if (name) {
        VEC_PUSH(t->a, &p->edits, (struct watch_edit){
            .name = name, .value = text_of(t, line, "value"), .caller = text_of(t, line, "caller"),
            .time_us = number_of(line, "time_us")});
        show(t, &(struct watch_event){.kind = WATCH_EDIT, .process = p,
                                      .edit = &p->edits.items[p->edits.n - 1]});
    }
}

static void on_started(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    (void)line;
    settle(t, p, NULL);
    p->started = true;
    p->start_says = NULL;
}

static void on_end(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    (void)line;
    end_load(t, p);
    p->ended = true;
}

/* ------------------------------------------------------------------ lines */

static const struct event_row {
    const char *name;
    bool alone; // means something for a process that is not known
    void (*take)(struct watch_trace *t, struct watch_process *p, json_t *line);
} rows[] = {
    {"start", true, on_start},         {"fork", true, on_fork},
    {"request", false, on_request},    {"candidate", false, on_candidate},
    {"open", false, on_open},          {"close", false, on_close},
    {"dlopen", false, on_dlopen},      {"dlerror", false, on_dlerror},
    {"setenv", false, on_setenv},      {"started", false, on_started},
    {"end", false, on_end},
};

static void take_event(struct watch_trace *t, json_t *line, const char *event)
{
    struct watch_process *p = process_of(t, (int)number_of(line, "pid"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, event) == 0) {
            if (p || rows[i].alone) {
                rows[i].take(t, p, line);
            }
            return;
        }
    }
    /* Of another helper library: its own words. */
    const char *text = text_of(t, line, "text");
    if (text) {
        show(t, &(struct watch_event){.kind = WATCH_OTHER, .text = text});
    }
}

static void take_line(struct watch_trace *t, const char *s, size_t n)
{
    if (t->full || t->a->used_bytes > KEPT_BYTES_MAX) {
        t->full = true;
        return;
    }
    t->n_lines++;
    json_t *line = json_loadb(s, n, 0, NULL);
    const char *event = json_string_value(json_object_get(line, "event"));
    if (event) {
        take_event(t, line, event);
    } else {
        t->n_bad++;
    }
    json_decref(line);
}

static void take_piece(struct watch_trace *t, const char *s, size_t n)
{
    while (n) {
        const char *end = memchr(s, '\n', n);
        size_t part = end ? (size_t)(end - s) : n;
        if (t->n_rest + part <= LINE_BYTES_MAX) {
            memcpy(t->rest + t->n_rest, s, part);
            t->n_rest += part;
        } else {
            t->n_rest = LINE_BYTES_MAX + 1; // left out as a whole
        }
        if (end) {
            if (t->n_rest <= LINE_BYTES_MAX) {
                take_line(t, t->rest, t->n_rest);
            } else {
                t->n_bad++;
            }
            t->n_rest = 0;
        }
        part += end != NULL;
        s += part;
        n -= part;
    }
}

int watch_trace_open(struct watch_trace *t, struct arena *a, const char *path, struct gm_err *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        const char *why = fd < 0 ? strerror(errno) : "not a file that can be read again";
        if (fd >= 0) {
            (void)close(fd); // only read
        }
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, why);
    }
    *t = (struct watch_trace){.a = a, .fd = fd, .at = st.st_size,
                              .rest = arena_alloc(a, LINE_BYTES_MAX + 2)};
    return 0;
}

void watch_trace_read(struct watch_trace *t)
{
    char piece[PIECE_BYTES];
    ssize_t got;
    while (t->fd >= 0 && (got = pread(t->fd, piece, sizeof piece, t->at)) > 0) {
        t->at += got;
        take_piece(t, piece, (size_t)got);
    }
}

void watch_trace_end(struct watch_trace *t)
{
    watch_trace_read(t);
    for (size_t i = 0; i < t->processes.n; i++) {
        end_load(t, t->processes.items[i]);
    }
    if (t->fd >= 0) {
        (void)close(t->fd); // only read
        t->fd = -1;
    }
}
