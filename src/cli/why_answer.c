/* One request of `gpumend why`: the process in the model, and what is printed of it. */
#include "cli/why.h"

#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/html.h"
#include "report/html.h"
#include "report/process.h"
#include "report/tree.h"

static const char *find_program(struct cli_why *w, const char *name)
{
    struct arena *a = &w->arena;
    struct stat st;
    if (strchr(name, '/') || root_stat(&w->root, path_join(a, w->cwd, name), &st) == 0) {
        return name;
    }
    struct str path = str_of(cli_env_get(&w->env, "PATH"));
    while (path.s) {
        struct str dir = str_cut(&path, ':');
        char *candidate = path_join(a, dir.n ? str_dup(a, dir) : ".", name);
        const char *absolute = candidate[0] == '/' ? candidate : path_join(a, w->cwd, candidate);
        if (root_stat(&w->root, absolute, &st) == 0 && S_ISREG(st.st_mode) && st.st_mode & 0111) {
            return candidate;
        }
    }
    return name;
}

struct ldso_process *cli_why_process(struct cli_why *w)
{
    w->config.cwd = w->cwd;
    w->config.env = w->env.vars.items;
    w->config.n_env = w->env.vars.n;
    w->config.cpu = w->has_cpu ? &w->cpu : NULL;
    w->config.uid = getuid();
    return ldso_process_new(&w->store, &w->arena, &w->config);
}

/* What the loader said when it was asked for `text`, and did not load it; NULL: it was not asked.
 */
static const char *refusal_of(const struct ldso_process *p, const char *text)
{
    for (size_t i = 0; i < p->loads.n; i++) {
        const struct ldso_load *l = &p->loads.items[i];
        bool same = strcmp(l->name, text) == 0 || strcmp(path_base(l->name), text) == 0;
        if (same && !l->object) {
            return l->glibc_says ? l->glibc_says : ldso_outcome_name(l->outcome);
        }
    }
    return NULL;
}

/* The object a --load or NAME is asked from. One that is not loaded yet is loaded first. */
static int find_caller(struct ldso_process *p, const char *text, struct ldso_object **ret)
{
    *ret = p->main;
    if (!text || strcmp(text, p->main->path) == 0) {
        return CLI_OK;
    }
    *ret = ldso_find_object(p, text);
    if (*ret) {
        return CLI_OK;
    }
    const char *said = refusal_of(p, text);
    return said ? cli_fail(CLI_CANNOT, "why: %s could not be loaded: %s", text, said)
                : cli_fail(CLI_CANNOT,
                           "why: %s is not among the loaded objects (load it first: --load %s)",
                           text, text);
}

/* The '@' of "NAME@CALLER": the last one behind which a loaded object is named, since a path may
 * hold others. Without such an object the last one of all, unless the text is the path of a file.
 */
static const char *find_at(struct ldso_process *p, const char *spec)
{
    for (size_t i = strlen(spec); i-- > 1;) {
        if (spec[i] == '@' && spec[i + 1] && ldso_find_object(p, spec + i + 1)) {
            return spec + i;
        }
    }
    const char *last = strrchr(spec, '@');
    const char *path = spec[0] == '/' ? spec : path_join(p->arena, p->config.cwd, spec);
    struct stat st;
    bool is_file = strchr(spec, '/') && root_stat(p->store->root, path, &st) == 0;
    return last && last != spec && last[1] && !is_file ? last : NULL;
}

static int perform_load(struct ldso_process *p, const char *spec)
{
    const char *at = find_at(p, spec);
    struct ldso_object *caller = p->main;
    const char *name = spec;
    if (at) {
        int rc = find_caller(p, at + 1, &caller);
        if (rc != CLI_OK) {
            return rc;
        }
        name = arena_strndup(p->arena, spec, (size_t)(at - spec));
    }
    (void)ldso_dlopen(p, caller, name, LDSO_NOW); // kept in p->loads
    return CLI_OK;
}

json_t *cli_why_document(struct ldso_process *p, size_t n_loads)
{
    json_t *doc = json_object();
    (void)json_object_set_new(doc, "schema", json_integer(1));
    (void)json_object_set_new(doc, "objects", report_objects_json(p));
    json_t *loads = report_loads_json(p);
    while (json_array_size(loads) > n_loads) { // NAME itself is answered in requests
        (void)json_array_remove(loads, json_array_size(loads) - 1);
    }
    (void)json_object_set_new(doc, "loads", loads);
    (void)json_object_set_new(doc, "requests", report_requests_json(p));
    (void)json_object_set_new(doc, "defects", report_defects_json(p));
    (void)json_object_set_new(doc, "loader", report_loader_json(p));
    (void)json_object_set_new(doc, "start_error", out_json_text(p->arena, p->start_error));
    json_t *by_cpu = json_array();
    for (size_t i = 0; i < p->by_cpu.n; i++) {
        (void)json_array_append_new(by_cpu, out_json_text(p->arena, p->by_cpu.items[i]));
    }
    (void)json_object_set_new(doc, "depends_on_cpu", by_cpu);
    return doc;
}

static void print_head(const struct cli_why *w, const struct ldso_process *p)
{
    const struct out *o = &w->out;
    if (p->is_static) {
        fprintf(o->file, "%s is statically linked: it asks the loader for nothing\n",
                str_printable(p->arena, p->main->path));
        return;
    }
    fprintf(o->file, "program %s, loader %s (%s %s)\n", str_printable(p->arena, p->main->path),
            p->loader.path, p->loader.kind == LDSO_MUSL ? "musl" : "glibc",
            p->loader.version ? p->loader.version : "of unknown version");
    if (p->explicit_loader) {
        fprintf(o->file, "(not a program: treated as one, as `%s FILE` would do)\n",
                p->loader.path);
    }
    if (p->loader.dirs_assumed) {
        fprintf(o->file, "(its system directories could not be read; assumed: %s ...)\n",
                p->loader.dirs[0]);
    }
    if (p->start_failed) {
        out_print(o, OUT_RED, "it does not start: %s\n", str_printable(p->arena, p->start_error));
    }
    fputc('\n', o->file);
}

static bool why_request_failed(const struct ldso_request *r)
{
    return r->outcome == LDSO_NOT_FOUND || r->outcome == LDSO_REFUSED;
}

static void print_loads(const struct cli_why *w, const struct ldso_process *p, size_t n_loads)
{
    for (size_t i = 0; i < n_loads && i < p->loads.n; i++) {
        const struct ldso_load *l = &p->loads.items[i];
        fprintf(w->out.file, "dlopen %s from %s: %s%s%s\n", str_printable(p->arena, l->name),
                str_printable(p->arena, l->caller->path), ldso_outcome_name(l->outcome),
                l->glibc_says ? ": "
                : l->path     ? " "
                              : "",
                l->glibc_says ? str_printable(p->arena, l->glibc_says)
                : l->path     ? str_printable(p->arena, l->path)
                              : "");
    }
    if (n_loads) {
        fputc('\n', w->out.file);
    }
}

static void print_notes(const struct cli_why *w, const struct ldso_process *p)
{
    for (size_t i = 0; i < p->defects.n; i++) {
        const struct ldso_defect *d = &p->defects.items[i];
        out_print(&w->out, d->fatal ? OUT_RED : OUT_YELLOW, "\n%s: %s\n",
                  d->fatal ? "fails" : "note", str_printable(p->arena, d->text));
    }
    for (size_t i = 0; i < p->by_cpu.n; i++) {
        out_print(
            &w->out, OUT_YELLOW,
            "\ncannot tell: on some machines %s; which one it is, is not known (%s): state it "
            "with %s\n",
            str_printable(p->arena, p->by_cpu.items[i]), p->cpu.why,
            p->cpu.level ? "--page-size BYTES" : "--cpu LEVEL");
    }
}

/* With a NAME: its own request, the earlier one that decided if it was reused, and what failed
 * below it. Without: the closure, and what failed. */
static void why_print_text(const struct cli_why *w, struct ldso_process *p, size_t n_loads)
{
    print_head(w, p);
    if (p->is_static) {
        return;
    }
    print_loads(w, p, n_loads);
    struct ldso_request *own = NULL;
    if (w->name && p->loads.n > n_loads) {
        own = p->requests.items[p->loads.items[n_loads].request];
        for (size_t i = 0; i < p->requests.n && own->outcome == LDSO_REUSED; i++) {
            struct ldso_request *r = p->requests.items[i];
            if (r->object == own->object && r->outcome == LDSO_LOADED) {
                report_request_text(&w->out, p, r);
                fputc('\n', w->out.file);
            }
        }
        report_request_text(&w->out, p, own);
        const char *says = p->loads.items[n_loads].glibc_says;
        if (says && !own->glibc_says) {
            out_print(&w->out, OUT_RED, "  but the load fails: %s\n",
                      str_printable(p->arena, says));
        }
    } else {
        report_objects_text(&w->out, p);
    }
    for (size_t i = 0; i < p->requests.n; i++) {
        struct ldso_request *r = p->requests.items[i];
        if (why_request_failed(r) && r != own &&
            (!w->name || r->load >= (int)n_loads || r->load < 0)) {
            fputc('\n', w->out.file);
            report_request_text(&w->out, p, r);
        }
    }
    print_notes(w, p);
}

/* Returns false where nothing answers to the name of --invert. */
static bool print_tree(const struct cli_why *w, struct ldso_process *p)
{
    if (w->invert) {
        return report_tree_inverted(&w->out, p, w->invert);
    }
    report_tree(&w->out, p);
    print_notes(w, p);
    return true;
}

static bool any_failed(const struct ldso_process *p)
{
    if (p->start_failed) {
        return true;
    }
    for (size_t i = 0; i < p->loads.n; i++) {
        if (p->loads.items[i].glibc_says) {
            return true;
        }
    }
    return false;
}

/* What was asked for and is not in the snapshot, once each; true: there is such a thing, and
 * nothing that depends on it is known. */
bool cli_why_say_misses(struct cli_why *w)
{
    struct snap *files = &w->snapshot.files;
    snap_note_pages(files);
    for (size_t i = 0; i < files->misses.n; i++) {
        (void)cli_fail(CLI_CANNOT,
                       "why: not in the snapshot, so the answer cannot be determined: %s",
                       str_printable(&w->arena, files->misses.items[i]));
    }
    bool any = files->misses.n > 0;
    files->misses.n = 0;
    return any;
}

int cli_why_answer(struct cli_why *w)
{
    struct gm_err err;
    const char *exe = w->exe ? w->exe : w->caller;
    struct ldso_process *p = cli_why_process(w);
    if (ldso_start(p, find_program(w, exe), &err) < 0) {
        return cli_fail(CLI_CANNOT, "why: %s", str_printable(&w->arena, err.text));
    }
    for (size_t i = 0; i < w->loads.n && !p->start_failed && !p->is_static && !p->limit; i++) {
        int rc = perform_load(p, w->loads.items[i]);
        if (rc != CLI_OK) {
            return rc;
        }
    }
    size_t n_loads = p->loads.n;
    if (w->name && !p->start_failed && !p->is_static && !p->limit) {
        struct ldso_object *caller = NULL;
        if (w->exe && w->caller && !ldso_find_object(p, w->caller) && strchr(w->caller, '/')) {
            (void)cli_fail(CLI_OK, "%s is not loaded by the program; loaded first", w->caller);
            (void)ldso_dlopen(p, p->main, w->caller, LDSO_NOW); // found below, or said there
            n_loads = p->loads.n;
        }
        int rc = find_caller(p, w->caller, &caller);
        if (rc != CLI_OK) {
            return rc;
        }
        (void)ldso_dlopen(p, caller, w->name, LDSO_NOW); // kept in p->loads
    }
    if (p->limit) {
        return cli_fail(CLI_CANNOT, "why: %s", str_printable(&w->arena, p->limit));
    }
    if (w->snapshot_file && cli_why_say_misses(w)) {
        return CLI_CANNOT;
    }
    if (w->html_file) {
        json_t *page =
            report_html_why(p, cli_why_document(p, w->loads.n), w->name ? n_loads : SIZE_MAX);
        int rc = cli_html_write("why", w->html_file, &w->arena, page);
        if (rc != CLI_OK) {
            return rc;
        }
    } else if (w->json) {
        if (out_json_dump(stdout, cli_why_document(p, w->loads.n)) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else if (!w->tree || p->is_static) {
        why_print_text(w, p, n_loads);
    } else if (!print_tree(w, p)) {
        return cli_fail(CLI_CANNOT, "why: nothing in this process asks for %s",
                        str_printable(&w->arena, w->invert));
    }
    if (p->is_static && (w->name || w->loads.n)) {
        return cli_fail(CLI_CANNOT, "why: %s is statically linked; nothing can be loaded into it",
                        str_printable(&w->arena, exe));
    }
    return p->by_cpu.n ? CLI_CANNOT : any_failed(p) ? CLI_FINDINGS : CLI_OK;
}
