#include "report/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "diag/cause.h"

/* ------------------------------------------------------------------ a request */

static const char *via_text(struct arena *a, const struct watch_request *r,
                            const struct watch_candidate *c)
{
    const char *who = r->caller ? str_printable(a, path_base(r->caller)) : "the program";
    static const char *const words[][2] = {
        {"cache", "ld.so.cache"}, {"default", "system directories"}, {"path", "path as given"}};
    if (!c->via) {
        return "?";
    }
    if (strcmp(c->via, "runpath") == 0) {
        return arena_printf(a, "RUNPATH of %s", who);
    }
    if (strcmp(c->via, "rpath") == 0) {
        return arena_printf(a, "RPATH of %s, or of what loaded it", who);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(c->via, words[i][0]) == 0) {
            return words[i][1];
        }
    }
    return c->via;
}

/* The words of report/process.c. */
static const struct {
    const char *result, *words;
    enum out_style style;
} results[] = {
    {"taken", "taken", OUT_GREEN},
    {"absent", "absent", OUT_DIM},
    {"dangling", "dangling link", OUT_RED},
    {"denied", "permission denied", OUT_RED},
    {"wrong-class", "wrong ELF class, passed over", OUT_RED},
    {"wrong-machine", "wrong architecture, passed over", OUT_RED},
    {"invalid", "refused", OUT_RED},
    {"unreadable", "cannot be opened", OUT_RED},
};

static void candidate_text(const struct out *o, struct arena *a, const struct watch_candidate *c,
                           const char *otherwise)
{
    fprintf(o->file, "    %s  ", c->path ? str_printable(a, c->path) : "?");
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        const char *result = otherwise ? otherwise : c->result;
        if (result && strcmp(results[i].result, result) == 0) {
            out_print(o, results[i].style, "%s\n", results[i].words);
            return;
        }
    }
    fputs("not known\n", o->file);
}

/* Whether a path between two slashes is made of folders for CPU levels and platforms alone. */
static bool is_level(struct str folders)
{
    static const char *const names[] = {"tls",      "x86_64",  "haswell", "xeon_phi",
                                        "avx512_1", "aarch64", "atomics"};
    if (str_starts(folders, "glibc-hwcaps/")) {
        return true;
    }
    while (folders.s) {
        struct str one = str_cut(&folders, '/');
        bool known = false;
        for (size_t i = 0; i < sizeof names / sizeof *names && !known; i++) {
            known = str_is(one, names[i]);
        }
        if (!known) {
            return false;
        }
    }
    return true;
}

enum { LEVELS_MAX = 64 }; // folders for levels in one folder

/* A folder for a CPU level inside a folder that is searched right after: nothing is there on most
 * systems, and `why` names the folder alone. */
static bool is_detail(struct arena *a, const struct watch_request *r, size_t i)
{
    const struct watch_candidate *c = &r->candidates.items[i];
    if (!c->path || !c->result || strcmp(c->result, "absent") != 0) {
        return false;
    }
    struct str here = str_of(path_dir(a, c->path));
    for (size_t k = i + 1; k < r->candidates.n && k - i < LEVELS_MAX && r->candidates.items[k].path;
         k++) {
        const char *folder = path_dir(a, r->candidates.items[k].path);
        size_t n = strlen(folder);
        if (here.n > n + 1 && str_starts(here, folder) && here.s[n] == '/' &&
            is_level((struct str){here.s + n + 1, here.n - n - 1})) {
            return true;
        }
    }
    return false;
}

static void candidates_text(const struct out *o, struct arena *a, const struct watch_request *r)
{
    const char *last = NULL;
    for (size_t i = 0; i < r->candidates.n; i++) {
        const struct watch_candidate *c = &r->candidates.items[i];
        if (is_detail(a, r, i)) {
            continue;
        }
        const char *via = via_text(a, r, c);
        if (!last || strcmp(last, via) != 0) {
            fprintf(o->file, "  %s\n", via);
        }
        last = via;
        bool refused = i + 1 == r->candidates.n && r->outcome == LDSO_REFUSED;
        candidate_text(o, a, c, refused ? "invalid" : NULL);
    }
}

static void request_text(const struct out *o, struct arena *a, const struct watch_process *p,
                         const struct watch_request *r)
{
    static const char *const kinds[] = {[LDSO_NEEDED] = "needed by",
                                        [LDSO_DLOPEN] = "dlopen from",
                                        [LDSO_PRELOAD] = "preloaded for"};
    const struct watch_load *l = r->load < 0 ? NULL : &p->loads.items[r->load];
    out_print(o, OUT_DIM, "[%d] ", p->pid);
    out_print(o, OUT_BOLD, "%s", str_printable(a, r->name));
    fprintf(o->file, "  %s %s", kinds[r->kind],
            r->caller ? str_printable(a, r->caller) : "the program");
    if (r->kind == LDSO_DLOPEN && l && l->caller && r->caller &&
        strcmp(l->caller, r->caller) != 0) {
        fprintf(o->file, ", which intercepts dlopen; requested by %s", str_printable(a, l->caller));
    }
    fputc('\n', o->file);
    if (l && (l->flags & WATCH_NOLOAD) && r->settled && r->outcome != LDSO_REUSED) {
        fputs("  asks only whether it is loaded (RTLD_NOLOAD)\n  => not loaded\n", o->file);
        return;
    }
    candidates_text(o, a, r);
    if (!r->settled) {
        out_print(o, OUT_YELLOW, "  => not known: the trace ends here, or a line of it was lost\n");
        return;
    }
    switch (r->outcome) {
    case LDSO_LOADED: out_print(o, OUT_GREEN, "  => %s\n", str_printable(a, r->path)); break;
    case LDSO_REUSED:
        out_print(o, OUT_GREEN, "  => %s", str_printable(a, r->path));
        fputs("  (the same file is already loaded)\n", o->file);
        break;
    case LDSO_NOT_FOUND: out_print(o, OUT_RED, "  => not found\n"); break;
    case LDSO_REFUSED: out_print(o, OUT_RED, "  => refused\n"); break;
    }
}

/* ------------------------------------------------------------------ other events */

static void start_text(const struct out *o, struct arena *a, const struct watch_process *p)
{
    out_print(o, OUT_DIM, "[%d] ", p->pid);
    fprintf(o->file, "starts %s\n", p->exe ? str_printable(a, p->exe) : "a program");
    for (size_t i = 0; i < p->env.n; i++) {
        if (!starts_with(p->env.items[i], "LD_AUDIT=")) {
            fprintf(o->file, "  %s\n", str_printable(a, p->env.items[i]));
        }
    }
}

static void trace_edit_text(const struct out *o, struct arena *a, const struct watch_process *p,
                            const struct watch_edit *e)
{
    out_print(o, OUT_DIM, "[%d] ", p->pid);
    fprintf(o->file, "%s %s %s%s",
            e->caller ? str_printable(a, path_base(e->caller))
                      : "the "
                        "program",
            e->value ? "sets" : "unsets", str_printable(a, e->name), e->value ? " to " : "");
    fputs(e->value ? str_printable(a, e->value) : "", o->file);
    out_print(o, OUT_YELLOW, "  (the loader has read it before)\n");
}

static void event_text(const struct out *o, struct arena *a, const struct watch_event *e)
{
    switch (e->kind) {
    case WATCH_START: start_text(o, a, e->process); return;
    case WATCH_REQUEST: request_text(o, a, e->process, e->request); return;
    case WATCH_REUSED:
        out_print(o, OUT_DIM, "[%d] ", e->process->pid);
        out_print(o, OUT_BOLD, "%s", str_printable(a, e->load->name));
        fprintf(o->file, "  dlopen from %s\n",
                e->load->caller ? str_printable(a, e->load->caller) : "the program");
        out_print(o, OUT_GREEN, "  => already loaded under this name\n");
        return;
    case WATCH_DLERROR:
        out_print(o, OUT_DIM, "[%d] ", e->process->pid);
        out_print(o, OUT_RED, "the loader says: %s\n", str_printable(a, e->text));
        return;
    case WATCH_EDIT: trace_edit_text(o, a, e->process, e->edit); return;
    case WATCH_OTHER: fprintf(o->file, "%s\n", str_printable(a, e->text)); return;
    }
}

void report_trace_event(const struct out *o, const struct watch_event *e)
{
    struct arena scratch; // a program may be watched for weeks
    arena_init(&scratch, 0, NULL, NULL);
    event_text(o, &scratch, e);
    arena_release(&scratch);
}

/* ------------------------------------------------------------------ differences */

static enum diag_severity difference_severity(const struct watch_difference *d)
{
    const struct diag_cause_row *row = d->cause ? diag_cause_by_id(d->cause) : NULL;
    return d->only_told ? DIAG_NOTE : row ? row->severity : DIAG_WARNING;
}

static void trace_item(const struct out *o, struct arena *a, const char *label, const char *text)
{
    fprintf(o->file, "  %-9s ", label);
    out_wrap(o, 12, str_printable(a, text));
}

static void difference_text(const struct out *o, struct arena *a, const struct watch_difference *d)
{
    static const enum out_style styles[] = {
        [DIAG_NOTE] = OUT_DIM, [DIAG_WARNING] = OUT_YELLOW, [DIAG_ERROR] = OUT_RED};
    enum diag_severity severity = difference_severity(d);
    const char *name = diag_severity_name(severity);
    fputc('\n', o->file);
    out_print(o, styles[severity], "%s", name);
    fprintf(o->file, "%*s", (int)(9 - strlen(name)), "");
    out_wrap(o, 9, str_printable(a, d->summary));
    for (size_t i = 0; i < d->likewise.n; i++) {
        trace_item(o, a, i ? "" : "likewise", d->likewise.items[i]);
    }
    if (d->to_do) {
        trace_item(o, a, "to do", d->to_do);
    }
    trace_item(o, a, "because",
               arena_printf(a, "process %d, %s%s%s", d->process->pid, d->name,
                            d->caller ? ", asked for by " : " at the start",
                            d->caller ? d->caller : ""));
    for (size_t i = 0; i < d->evidence.n; i++) {
        trace_item(o, a, "", d->evidence.items[i]);
    }
    if (d->cause) {
        trace_item(o, a, "more", arena_printf(a, "gpumend explain %s", d->cause));
    }
}

static const char *plural(size_t n, const char *one, const char *many)
{
    return n == 1 ? one : many;
}

void report_trace_text(const struct out *o, struct arena *a, const struct watch_comparison *c)
{
    for (size_t i = 0; i < c->differences.n; i++) {
        difference_text(o, a, &c->differences.items[i]);
    }
    fputc('\n', o->file);
    if (c->n_processes) {
        fprintf(o->file, "%zu %s in %zu %s: %zu as the model says, %zu not", c->n_requests,
                plural(c->n_requests, "start or dlopen", "starts and dlopens"), c->n_processes,
                plural(c->n_processes, "process", "processes"), c->n_same,
                c->n_requests - c->n_same);
        fprintf(o->file, c->n_not_compared ? "; %zu not compared\n" : "\n", c->n_not_compared);
    }
    if (!c->complete) {
        out_print(o, OUT_YELLOW, "the trace is not complete\n");
    }
    if (c->n_foreseen + c->n_not_made) {
        fprintf(o->file,
                "of %zu %s that check predicts for this program, %zu %s seen, %zu as "
                "predicted\n",
                c->n_foreseen + c->n_not_made,
                plural(c->n_foreseen + c->n_not_made, "load", "loads"), c->n_foreseen,
                plural(c->n_foreseen, "was", "were"), c->n_as_foreseen);
    }
    for (size_t i = 0; i < c->notes.n; i++) {
        out_print(o, OUT_DIM, "note     ");
        out_wrap(o, 9, str_printable(a, c->notes.items[i]));
    }
}

/* ------------------------------------------------------------------ JSON */

static json_t *answer_json(struct arena *a, const struct watch_answer *answer)
{
    json_t *object = json_object();
    json_put(object, "found", json_boolean(answer->found));
    json_put(object, "path", out_json_text(a, answer->path));
    return object;
}

static json_t *difference_json(struct arena *a, const struct watch_difference *d)
{
    json_t *line = json_object();
    json_put(line, "event", json_string("difference"));
    json_put(line, "pid", json_integer(d->process->pid));
    json_put(line, "name", out_json_text(a, d->name));
    json_put(line, "caller", out_json_text(a, d->caller));
    json_put(line, "seen", answer_json(a, &d->seen));
    json_put(line, "model", answer_json(a, &d->model));
    json_put(line, "cause", out_json_text(a, d->cause));
    json_put(line, "severity", json_string(diag_severity_name(difference_severity(d))));
    json_put(line, "summary", out_json_text(a, d->summary));
    json_put(line, "evidence", out_json_texts(a, d->evidence.items, d->evidence.n));
    json_put(line, "likewise", out_json_texts(a, d->likewise.items, d->likewise.n));
    json_put(line, "to_do", out_json_text(a, d->to_do));
    return line;
}

static json_t *sum_json(struct arena *a, const struct watch_comparison *c)
{
    json_t *line = json_object();
    json_put(line, "event", json_string("sum"));
    json_put(line, "complete", json_boolean(c->complete));
    json_put(line, "lost", json_integer((json_int_t)c->n_lost));
    json_put(line, "processes", json_integer((json_int_t)c->n_processes));
    json_put(line, "requests", json_integer((json_int_t)c->n_requests));
    json_put(line, "as_predicted", json_integer((json_int_t)c->n_same));
    json_put(line, "not_compared", json_integer((json_int_t)c->n_not_compared));
    json_put(line, "foreseen", json_integer((json_int_t)c->n_foreseen));
    json_put(line, "as_foreseen", json_integer((json_int_t)c->n_as_foreseen));
    json_put(line, "not_made", json_integer((json_int_t)c->n_not_made));
    json_put(line, "notes", out_json_texts(a, c->notes.items, c->notes.n));
    return line;
}

static void write_line(json_t *line, void (*write)(void *arg, const char *line, size_t n),
                       void *arg)
{
    char *text = json_dumps(line, JSON_ENSURE_ASCII);
    json_decref(line);
    if (text) {
        size_t n = strlen(text);
        text[n] = '\n'; // in place of the end
        write(arg, text, n + 1);
        free(text);
    }
}

void report_trace_json(struct arena *a, const struct watch_comparison *c,
                       void (*write)(void *arg, const char *line, size_t n), void *arg)
{
    for (size_t i = 0; i < c->differences.n; i++) {
        write_line(difference_json(a, &c->differences.items[i]), write, arg);
    }
    write_line(sum_json(a, c), write, arg);
}
