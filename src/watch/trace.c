#include "watch/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/str.h"

enum { PIECE_BYTES = 64 << 10, LINE_BYTES_MAX = 64 << 10, KEPT_BYTES_MAX = 512 << 20 };

/* ------------------------------------------------------------------ members of a line */

static const char *event_text(struct watch_trace *t, json_t *line, const char *key)
{
    const char *text = json_text(line, key);
    return text ? arena_strdup(t->a, text) : NULL;
}

static int64_t line_number(json_t *line, const char *key)
{
    return json_integer_value(json_object_get(line, key)); // 0 where it is none
}

/* A text in it did not fit. */
static bool is_cut(json_t *line)
{
    return json_is_true(json_object_get(line, "cut"));
}

static void trace_show(struct watch_trace *t, const struct watch_event *event)
{
    if (t->show) {
        t->show(t->show_arg, event);
    }
}

/* ------------------------------------------------------------------ what comes of things */

static size_t thread_place(const struct watch_process *p, int tid)
{
    size_t low = 0, high = p->threads.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->threads.items[middle].tid < tid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The thread of the line; valid until the next call. */
static struct watch_thread *thread_of(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    int tid = (int)line_number(line, "tid");
    size_t at = thread_place(p, tid);
    if (at == p->threads.n || p->threads.items[at].tid != tid) {
        const struct watch_thread new = {.tid = tid, .request = -1, .load = -1, .last = -1};
        VEC_PUSH(t->a, &p->threads, new);
        memmove(p->threads.items + at + 1, p->threads.items + at,
                (p->threads.n - 1 - at) * sizeof new);
        p->threads.items[at] = new;
    }
    return &p->threads.items[at];
}

static struct watch_load *load_now(struct watch_process *p, const struct watch_thread *thread)
{
    return thread->load < 0 ? NULL : &p->loads.items[thread->load];
}

/* The place of a request in the order of the record; that of a return is right before a line. */
static uint64_t at_line(const struct watch_trace *t)
{
    return t->n_lines * 2;
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
    VEC_PUSH(t->a, &p->files,
             (struct watch_file){
                 .path = path, .dev = known ? st.st_dev : 0, .ino = known ? st.st_ino : 0});
}

static bool candidate_is_of(const struct watch_candidate *c, const char *result)
{
    return c->result && strcmp(c->result, result) == 0;
}

/* Nothing was opened for it. */
static void settle_unopened(const struct watch_process *p, struct watch_request *r)
{
    const struct watch_candidate *last =
        r->candidates.n ? &r->candidates.items[r->candidates.n - 1] : NULL;
    r->outcome = LDSO_NOT_FOUND;
    if (!last || !(candidate_is_of(last, "taken") || candidate_is_of(last, "invalid") ||
                   candidate_is_of(last, "unreadable") || !last->result)) {
        return;
    }
    struct stat st;
    const char *loaded = candidate_is_of(last, "taken") && last->path && stat(last->path, &st) == 0
                             ? loaded_as(p, &st)
                             : NULL;
    r->outcome = loaded ? LDSO_REUSED : last->result ? LDSO_REFUSED : LDSO_NOT_FOUND;
    r->path = loaded ? loaded : last->result ? last->path : NULL;
}

/* No more lines of this thread will come, and what it was doing may never have ended. */
static void abandon(struct watch_trace *t, struct watch_process *p, struct watch_thread *thread)
{
    const struct watch_request *r =
        thread->request < 0 ? NULL : &p->requests.items[thread->request];
    struct watch_load *l = load_now(p, thread);
    if (l && (r || l->reused)) {
        l->unknown = true;
        l->at = UINT64_MAX;
    }
    thread->request = thread->load = -1;
    if (r) {
        trace_show(t, &(struct watch_event){.kind = WATCH_REQUEST, .process = p, .request = r});
    }
}

uint64_t watch_trace_lost(const struct watch_trace *t)
{
    return t->n_bad + (t->losses ? __atomic_load_n(&t->losses->lines, __ATOMIC_ACQUIRE) : 0);
}

static void trace_settle(struct watch_trace *t, struct watch_process *p,
                         struct watch_thread *thread, const char *opened)
{
    struct watch_request *r = thread->request < 0 ? NULL : &p->requests.items[thread->request];
    if (!r) {
        return;
    }
    if (!opened && watch_trace_lost(t)) {
        abandon(t, p, thread); // the line that says what was opened may be among them
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
    if (l && thread->request == (long)l->first_request) {
        l->path = r->path;
    }
    if (l) {
        l->failed |= !found;
    } else if (!found && r->kind != LDSO_PRELOAD && !p->started) {
        p->start_says = arena_printf(t->a, "%s was not found", r->name);
    }
    thread->request = -1;
    trace_show(t, &(struct watch_event){.kind = WATCH_REQUEST, .process = p, .request = r});
}

/* The thread does something else: its dlopen has returned. */
static void end_load(struct watch_trace *t, struct watch_process *p, struct watch_thread *thread)
{
    trace_settle(t, p, thread, NULL);
    struct watch_load *l = load_now(p, thread);
    if (l && l->reused) {
        l->at = at_line(t) - 1;
    }
    if (l && l->reused && l->name) {
        trace_show(t, &(struct watch_event){.kind = WATCH_REUSED, .process = p, .load = l});
    }
    thread->load = -1;
}

static void abandon_all(struct watch_trace *t, struct watch_process *p)
{
    for (size_t i = 0; i < p->threads.n; i++) {
        abandon(t, p, &p->threads.items[i]);
    }
}

/* ------------------------------------------------------------------ processes */

static struct watch_process *process_by_pid(struct watch_trace *t, int pid)
{
    for (size_t i = t->processes.n; i > 0; i--) {
        if (t->processes.items[i - 1]->pid == pid) {
            return t->processes.items[i - 1];
        }
    }
    return NULL;
}

static struct watch_process *trace_new_process(struct watch_trace *t, json_t *line)
{
    struct watch_process *p = arena_alloc(t->a, sizeof *p);
    p->pid = (int)line_number(line, "pid");
    p->ppid = (int)line_number(line, "ppid");
    p->time_us = line_number(line, "time_us");
    VEC_PUSH(t->a, &t->processes, p);
    return p;
}

static void trace_on_start(struct watch_trace *t, struct watch_process *before, json_t *line)
{
    const char *key;
    json_t *value;
    if (before) {
        if (before->threads.n == 1) { // it is the one that called exec
            end_load(t, before, before->threads.items);
        }
        abandon_all(t, before);
        before->replaced = true;
    }
    struct watch_process *p = trace_new_process(t, line);
    p->exe = event_text(t, line, "exe");
    p->cwd = event_text(t, line, "cwd");
    p->env_cut = is_cut(line);
    json_object_foreach(json_object_get(line, "env"), key, value)
    {
        if (json_is_string(value)) {
            VEC_PUSH(t->a, &p->env, arena_printf(t->a, "%s=%s", key, json_string_value(value)));
        }
    }
    trace_show(t, &(struct watch_event){.kind = WATCH_START, .process = p});
}

static void on_fork(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    struct watch_process *parent = process_by_pid(t, (int)line_number(line, "ppid"));
    (void)p;
    if (!parent) {
        return;
    }
    struct watch_process *child = trace_new_process(t, line);
    child->fork_of = parent;
    child->fork_at = at_line(t);
    child->fork_edits = parent->edits.n;
    child->exe = parent->exe;
    child->cwd = parent->cwd;
    child->started = true;
    child->env.items = parent->env.items;
    child->env.n = child->env.cap = parent->env.n;
}

/* ------------------------------------------------------------------ the loader */

static enum ldso_request_kind request_kind(const char *word)
{
    return !word                          ? LDSO_NEEDED
           : strcmp(word, "dlopen") == 0  ? LDSO_DLOPEN
           : strcmp(word, "preload") == 0 ? LDSO_PRELOAD
                                          : LDSO_NEEDED;
}

static struct watch_load *new_load(struct watch_trace *t, struct watch_process *p,
                                   struct watch_thread *thread, json_t *line)
{
    end_load(t, p, thread);
    VEC_PUSH(t->a, &p->loads,
             (struct watch_load){.name = event_text(t, line, "name"),
                                 .caller = event_text(t, line, "caller"),
                                 .reused = true,
                                 .tid = thread->tid,
                                 .time_us = line_number(line, "time_us"),
                                 .at = at_line(t),
                                 .first_request = p->requests.n,
                                 .n_edits = p->edits.n});
    thread->load = thread->last = (long)p->loads.n - 1;
    return &p->loads.items[p->loads.n - 1];
}

static bool results_match(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* The call that a dlopen which stands in front of the loader's makes itself. */
static bool goes_on(const struct watch_load *l, const char *name, const char *caller)
{
    return l && l->interposed_by && l->reused && results_match(l->name, name) &&
           results_match(l->interposed_by, caller);
}

static void on_dlopen(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    struct watch_thread *thread = thread_of(t, p, line);
    struct watch_load *l = load_now(p, thread);
    if (!goes_on(l, event_text(t, line, "name"), event_text(t, line, "caller"))) {
        l = new_load(t, p, thread, line);
        l->interposed_by = event_text(t, line, "interposed_by");
    }
    l->flags = (unsigned)line_number(line, "flags");
    l->space = line_number(line, "namespace");
    l->loader_caller = event_text(t, line, "caller");
    l->unknown |= is_cut(line);
}

static void on_request(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    const char *name = event_text(t, line, "name");
    const char *caller = event_text(t, line, "caller");
    enum ldso_request_kind kind = request_kind(json_text(line, "kind"));
    struct watch_thread *thread = thread_of(t, p, line);
    trace_settle(t, p, thread, NULL);
    struct watch_load *l = load_now(p, thread);
    if (kind == LDSO_DLOPEN) {
        /* A call that was not seen: only the loader's view of it is known. */
        if (!l || !l->reused || !results_match(l->name, name)) {
            l = new_load(t, p, thread, line);
            l->caller = NULL;
        }
        l->loader_caller = caller;
        l->unknown |= is_cut(line);
        l->reused = false;
        l->first_request = p->requests.n;
        l->at = at_line(t);
    }
    VEC_PUSH(t->a, &p->requests,
             (struct watch_request){.name = name ? name : "",
                                    .caller = caller,
                                    .kind = kind,
                                    .time_us = line_number(line, "time_us"),
                                    .load = p->started ? thread->load : -1});
    thread->request = (long)p->requests.n - 1;
    if (l) {
        l->n_requests = p->requests.n - l->first_request;
    }
}

static void on_candidate(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    const struct watch_thread *thread = thread_of(t, p, line);
    struct watch_request *r = thread->request < 0 ? NULL : &p->requests.items[thread->request];
    if (r) {
        VEC_PUSH(t->a, &r->candidates,
                 (struct watch_candidate){.path = event_text(t, line, "path"),
                                          .via = event_text(t, line, "via"),
                                          .result = event_text(t, line, "result")});
    }
}

static void on_open(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    const char *path = event_text(t, line, "path");
    struct watch_thread *thread = thread_of(t, p, line);
    struct watch_load *l = load_now(p, thread);
    trace_settle(t, p, thread, path);
    if (!path || line_number(line, "namespace") != 0) {
        return;
    }
    remember_file(t, p, path);
    if (!p->started) {
        VEC_PUSH(t->a, &p->opened, path);
    } else if (l) {
        VEC_PUSH(t->a, &l->opened, path);
    }
}

/* By dlclose, or by a dlopen that fails: dlerror's text tells them apart. */
static void on_close(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    struct watch_thread *thread = thread_of(t, p, line);
    const char *path = event_text(t, line, "path");
    trace_settle(t, p, thread, NULL);
    VEC_PUSH(t->a, &p->closes, (struct watch_close){.path = path, .at = at_line(t)});
    if (thread->last >= 0 && path) {
        VEC_PUSH(t->a, &p->loads.items[thread->last].closed, path);
    }
}

/* Whether its own object is gone again, and the text names one that went with it. */
static bool failed_by(const struct watch_load *l, const char *text)
{
    bool gone = false, named = false;
    for (size_t i = 0; i < l->closed.n; i++) {
        gone = gone || results_match(l->closed.items[i], l->path);
        named = named || strstr(text, l->closed.items[i]);
    }
    return gone && named;
}

/* The text belongs to the last dlopen of its thread, if that may have failed: dlsym's texts come
 * by dlerror as well. */
static void on_dlerror(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    const char *text = event_text(t, line, "text");
    struct watch_thread *thread = thread_of(t, p, line);
    end_load(t, p, thread);
    struct watch_load *l = thread->last < 0 ? NULL : &p->loads.items[thread->last];
    if (l && text) {
        l->failed |= failed_by(l, text);
        l->says = l->failed && !l->says ? text : l->says;
    }
    if (text) {
        trace_show(t, &(struct watch_event){.kind = WATCH_DLERROR, .process = p, .text = text});
    }
}

static void on_setenv(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    end_load(t, p, thread_of(t, p, line));
    const char *name = event_text(t, line, "name");
    if (name) {
        VEC_PUSH(t->a, &p->edits,
                 (struct watch_edit){.name = name,
                                     .value = event_text(t, line, "value"),
                                     .cut = is_cut(line),
                                     .caller = event_text(t, line, "caller"),
                                     .time_us = line_number(line, "time_us")});
        trace_show(t, &(struct watch_event){.kind = WATCH_EDIT,
                                            .process = p,
                                            .edit = &p->edits.items[p->edits.n - 1]});
    }
}

static void on_started(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    trace_settle(t, p, thread_of(t, p, line), NULL);
    p->started = true;
    p->start_says = NULL;
}

static void trace_on_end(struct watch_trace *t, struct watch_process *p, json_t *line)
{
    end_load(t, p, thread_of(t, p, line));
    p->ended = true;
}

/* ------------------------------------------------------------------ lines */

static const struct event_row {
    const char *name;
    bool alone; // means something for a process that is not known
    bool whole; // says nothing that can be used where a text in it was cut
    void (*take)(struct watch_trace *t, struct watch_process *p, json_t *line);
} rows[] = {
    {"start", true, false, trace_on_start}, {"fork", true, true, on_fork},
    {"request", false, false, on_request},  {"candidate", false, false, on_candidate},
    {"open", false, true, on_open},         {"close", false, true, on_close},
    {"dlopen", false, false, on_dlopen},    {"dlerror", false, false, on_dlerror},
    {"setenv", false, false, on_setenv},    {"started", false, true, on_started},
    {"end", false, true, trace_on_end},
};

static void take_event(struct watch_trace *t, json_t *line, const char *event)
{
    struct watch_process *p = process_by_pid(t, (int)line_number(line, "pid"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, event) == 0) {
            t->n_bad += rows[i].whole && is_cut(line);
            if (p || rows[i].alone) {
                rows[i].take(t, p, line);
            }
            return;
        }
    }
    /* Of another helper library: its own words. */
    const char *text = event_text(t, line, "text");
    if (text) {
        trace_show(t, &(struct watch_event){.kind = WATCH_OTHER, .text = text});
    }
}

static void trace_take_line(struct watch_trace *t, const char *s, size_t n)
{
    if (t->full || t->a->used_bytes > KEPT_BYTES_MAX) {
        t->full = true;
        return;
    }
    t->n_lines++;
    json_t *line = json_loadb(s, n, 0, NULL);
    const char *event = json_text(line, "event");
    if (event) {
        take_event(t, line, event);
    } else {
        t->n_bad++;
    }
    json_decref(line);
}

static void trace_take_piece(struct watch_trace *t, const char *s, size_t n)
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
        if (end && t->n_rest) { // an empty one ends a torn one
            if (t->n_rest <= LINE_BYTES_MAX) {
                trace_take_line(t, t->rest, t->n_rest);
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
    *t = (struct watch_trace){
        .a = a, .fd = fd, .at = st.st_size, .rest = arena_alloc(a, LINE_BYTES_MAX + 2)};
    return 0;
}

void watch_trace_read(struct watch_trace *t)
{
    char piece[PIECE_BYTES];
    ssize_t got;
    while (t->fd >= 0 && (got = pread(t->fd, piece, sizeof piece, t->at)) > 0) {
        t->at += got;
        trace_take_piece(t, piece, (size_t)got);
    }
}

void watch_trace_end(struct watch_trace *t)
{
    watch_trace_read(t);
    t->n_bad += t->n_rest > 0; // its end was not written
    t->n_rest = 0;
    for (size_t i = 0; i < t->processes.n; i++) {
        abandon_all(t, t->processes.items[i]);
    }
    if (t->fd >= 0) {
        (void)close(t->fd); // only read
        t->fd = -1;
    }
}
