#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pages.h"
#include "base/str.h"
#include "cli/html.h"
#include "cli/limit.h"
#include "cli/replace.h"
#include "cli/replayed.h"
#include "cli/target.h"
#include "cli/windows.h"
#include "ldso/process.h"
#include "report/html.h"
#include "report/process.h"
#include "report/tree.h"

enum { LINE_MAX_BYTES = 64 << 10 };
enum { O_EXE = 1, O_CALLER, O_LOAD, O_CWD, O_BATCH, O_TREE, O_INVERT, O_HTML, O_SNAPSHOT };

static const struct cli_option options[] = {
    {"exe", "FILE", "the program that is started (default: the caller)", O_EXE},
    {"caller", "FILE", "the object that asks: soname or path (default: the program)", O_CALLER},
    {"load", "NAME[@CALLER]", "dlopen NAME from CALLER first; may be given again", O_LOAD},
    CLI_OPTION_ENV,
    CLI_OPTION_UNSET,
    {"cwd", "DIR", "working directory of the program", O_CWD},
    {"root", "DIR", "look at the file system below DIR", CLI_ROOT},
    CLI_OPTION_GLIBC,
    CLI_OPTION_CPU,
    CLI_OPTION_PAGE_SIZE,
    {"batch", "FILE", "one object a line ('-': stdin): the closure of each", O_BATCH},
    {"tree", NULL, "show who needs whom", O_TREE},
    {"invert", "NAME", "with --tree: who needs NAME", O_INVERT},
    {"html", "FILE", "write a page to FILE (-: standard output)", O_HTML},
    {"snapshot", "FILE", "look at what gpumend snapshot wrote, or - for standard input",
     O_SNAPSHOT},
    CLI_OPTION_LIMIT,
    CLI_OPTION_JSON,
};

struct why {
    struct arena arena;
    struct root root;
    struct ldso_store store;
    struct cli_env env;
    struct out out;
    const char *name, *exe, *caller, *cwd, *root_path, *batch, *invert, *html_file, *snapshot_file;
    struct snapshot snapshot;
    VEC(const char *) loads;
    struct ldso_cpu cpu;
    struct ldso_config config;
    bool has_cpu, json, tree, env_given;
    bool unknown; // of a list: something depends on an unknown processor, or reached a bound
};

static int why_take_option(struct why *w, int id, const char *value)
{
    switch (id) {
    case O_EXE: w->exe = value; return CLI_OK;
    case O_CALLER: w->caller = value; return CLI_OK;
    case O_LOAD: VEC_PUSH(&w->arena, &w->loads, value); return CLI_OK;
    case CLI_UNSET:
        w->env_given = true;
        cli_env_unset(&w->env, value);
        return CLI_OK;
    case O_CWD: w->cwd = value; return CLI_OK;
    case CLI_ROOT: w->root_path = value; return CLI_OK;
    case O_BATCH: w->batch = value; return CLI_OK;
    case O_TREE: w->tree = true; return CLI_OK;
    case O_HTML: w->html_file = value; return CLI_OK;
    case O_SNAPSHOT: w->snapshot_file = value; return CLI_OK;
    case O_INVERT: w->invert = value; return CLI_OK;
    case CLI_JSON: w->json = true; return CLI_OK;
    case CLI_ENV: w->env_given = true; return cli_take_env("why", &w->env, &w->arena, value);
    case CLI_GLIBC: return cli_take_glibc("why", value, &w->config.glibc_minor);
    case CLI_PAGE_SIZE: return cli_take_page_size("why", value, &w->config.page_size);
    case CLI_CPU: w->has_cpu = true; return cli_take_cpu("why", value, &w->cpu);
    case CLI_ARGUMENT:
        if (w->name) {
            return cli_fail(CLI_USAGE, "why: one NAME at a time (%s, %s)", w->name, value);
        }
        w->name = value;
        return CLI_OK;
    default: return CLI_USAGE;
    }
}

/* A program named without a slash is looked up in PATH, as a shell would. */
static const char *find_program(struct why *w, const char *name)
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

static struct ldso_process *why_new_process(struct why *w)
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

static json_t *document(struct ldso_process *p, size_t n_loads)
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

static void print_head(const struct why *w, const struct ldso_process *p)
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

static void print_loads(const struct why *w, const struct ldso_process *p, size_t n_loads)
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

static void print_notes(const struct why *w, const struct ldso_process *p)
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
static void why_print_text(const struct why *w, struct ldso_process *p, size_t n_loads)
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
static bool print_tree(const struct why *w, struct ldso_process *p)
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
static bool say_misses(struct why *w)
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

static int why_answer(struct why *w)
{
    struct gm_err err;
    const char *exe = w->exe ? w->exe : w->caller;
    struct ldso_process *p = why_new_process(w);
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
    if (w->snapshot_file && say_misses(w)) {
        return CLI_CANNOT;
    }
    if (w->html_file) {
        json_t *page = report_html_why(p, document(p, w->loads.n), w->name ? n_loads : SIZE_MAX);
        int rc = cli_html_write("why", w->html_file, &w->arena, page);
        if (rc != CLI_OK) {
            return rc;
        }
    } else if (w->json) {
        if (out_json_dump(stdout, document(p, w->loads.n)) < 0) {
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

/* ------------------------------------------------------------------ many objects */

/* Returns false if the object, or one that it needs, was not found. */
static bool batch_one(struct why *w, const char *path)
{
    struct gm_err err = {.code = GM_ERR_NONE};
    struct arena scratch;
    cli_arena_init(&scratch);
    w->config.cwd = w->cwd;
    struct ldso_process *p = why_new_process(w);
    p->arena = &scratch;
    int rc = ldso_start(p, w->exe ? w->exe : path, &err);
    if (rc == 0 && w->exe) {
        (void)ldso_dlopen(p, p->main, path, LDSO_NOW); // kept in p->loads
    }
    const char *wrong = rc < 0            ? err.text
                        : p->limit        ? p->limit
                        : p->start_failed ? p->start_error
                        : p->loads.n      ? p->loads.items[0].glibc_says
                                          : NULL;
    if (w->json) {
        const char *error = rc < 0 ? err.text : p->limit;
        json_t *doc = error ? json_pack("{s:i}", "schema", 1) : document(p, p->loads.n);
        (void)json_object_set_new(doc, "file", out_json_text(&scratch, path));
        (void)json_object_set_new(doc, "error", out_json_text(&scratch, error));
        (void)!out_json_write(stdout, doc,
                              JSON_COMPACT); // checked once at the end, by cli_finish()
        json_decref(doc);
        putchar('\n');
    } else {
        printf("%s: ", str_printable(&scratch, path));
        if (wrong) {
            printf("%s\n", str_printable(&scratch, wrong));
        } else {
            printf("%zu objects%s%s\n", p->objects.n, p->by_cpu.n ? "; on some machines " : "",
                   p->by_cpu.n ? str_printable(&scratch, p->by_cpu.items[0]) : "");
        }
    }
    bool limit = p->limit != NULL;
    w->unknown |= p->by_cpu.n > 0 || limit;
    arena_release(&scratch);
    return !wrong || limit;
}

/* The next line, at most LINE_MAX_BYTES long: 1 got one, 0 at the end, -1 too long or unreadable.
 */
static int next_line(FILE *list, char *line)
{
    size_t n = 0;
    int c;
    while ((c = getc_unlocked(list)) != EOF && c != '\n') {
        if (n == LINE_MAX_BYTES || c == '\0') {
            return -1;
        }
        line[n++] = (char)c;
    }
    line[n] = '\0';
    return ferror(list) ? -1 : c == EOF && n == 0 ? 0 : 1;
}

/* Opens the list: a regular file, or what stands on standard input. */
static FILE *open_list(const char *path)
{
    struct stat st;
    if (strcmp(path, "-") == 0) {
        return stdin;
    }
    FILE *list = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "re") : NULL;
    return list;
}

static int batch(struct why *w)
{
    FILE *list = open_list(w->batch);
    if (!list) {
        return cli_fail(CLI_CANNOT, "why: %s cannot be opened, or is not a regular file", w->batch);
    }
    char line[LINE_MAX_BYTES + 1];
    bool any_wrong = false;
    int rc;
    while ((rc = next_line(list, line)) > 0) {
        if (*line) {
            any_wrong |= !batch_one(w, line);
        }
    }
    if (list != stdin) {
        (void)fclose(list); // only read from
    }
    if (rc < 0) {
        return cli_fail(CLI_CANNOT, "why: %s is not a list of paths, one a line", w->batch);
    }
    return any_wrong ? CLI_FINDINGS : w->unknown ? CLI_CANNOT : CLI_OK;
}

/* The root, the start environment and the machine are those that the snapshot was taken of. */
static int open_replayed(struct why *w)
{
    if (cli_read_snapshot("why", w->snapshot_file, &w->arena, &w->snapshot) != CLI_OK) {
        return CLI_CANNOT;
    }
    struct model_target_options o = snapshot_options(&w->snapshot, false);
    w->env = (struct cli_env){0};
    for (size_t i = 0; i < o.n_env; i++) {
        VEC_PUSH(&w->arena, &w->env.vars, o.env[i]);
    }
    bool windows = strcmp(w->snapshot.kind, SNAPSHOT_WINDOWS) == 0;
    w->cwd = windows ? NULL : o.cwd ? o.cwd : "/";
    w->config.glibc_minor = w->config.glibc_minor ? w->config.glibc_minor : o.glibc_minor;
    w->config.page_size = w->config.page_size ? w->config.page_size : o.page_size;
    if (!w->has_cpu && o.cpu) {
        w->has_cpu = true;
        w->cpu = *o.cpu;
    }
    root_replay(&w->root, o.replay, o.root_path ? o.root_path : "/");
    return CLI_OK;
}

/* A DLL of another root: the loader of Windows decides. PATH is what --env says, as this shell's
 * means nothing there, unless it is the running Windows. */
static int answer_windows(struct why *w)
{
    const char *path = cli_env_get(&w->env, "PATH"), *own = getenv("PATH");
    bool is_own = path && own && strcmp(path, own) == 0 && (w->root_path || !cli_is_windows());
    struct cli_windows_why asked = {
        .arena = &w->arena,
        .root = &w->root,
        .html = w->html_file,
        .name = w->name,
        .exe = w->exe ? w->exe : w->caller,
        .cwd = w->cwd,
        .path = is_own ? NULL : path,
        .loads = w->loads.items,
        .n_loads = w->loads.n,
        .json = w->json,
    };
    int rc = cli_windows_why(&asked);
    root_close(&w->root);
    return rc;
}

static int run_windows(struct why *w)
{
    struct gm_err err;
    if (w->html_file && w->json) {
        return cli_fail(CLI_USAGE, "why: --html cannot be combined with --json");
    }
    if (w->html_file && cli_redirect_output("why", w->html_file) != CLI_OK) {
        return CLI_CANNOT;
    }
    cli_only_look((struct sandbox){0});
    if (root_open(&w->root, w->root_path ? w->root_path : "/", &err) < 0) {
        return cli_fail(CLI_CANNOT, "why: %s", err.text);
    }
    return answer_windows(w);
}

static int answer_in_root(struct why *w)
{
    ldso_store_open(&w->store, &w->root, &w->arena);
    w->store.one_process = !w->batch;
    int rc = w->batch ? batch(w) : why_answer(w);
    if (w->snapshot_file && say_misses(w)) { // before a program could be started
        rc = CLI_CANNOT;
    }
    ldso_store_leave(&w->store);
    root_close(&w->root);
    return rc;
}

static int why_run_with(struct why *w)
{
    struct gm_err err;
    out_init(&w->out, stdout);
    bool elsewhere = w->root_path || cli_is_windows();
    if (elsewhere && !w->batch && !w->snapshot_file && cli_windows_is_asked(w->name, w->exe)) {
        return run_windows(w);
    }
    bool own_cwd = !w->cwd;
    if (w->snapshot_file && (w->root_path || w->batch || w->env_given || w->cwd)) {
        return cli_fail(CLI_USAGE, "why: --snapshot brings its root, its environment and its "
                                   "folder along: not with --root, --batch, --env, --unset or "
                                   "--cwd");
    }
    if (own_cwd) {
        w->cwd = cli_cwd(&w->arena);
    }
    if (w->cwd[0] != '/') {
        w->cwd = path_join(&w->arena, cli_cwd(&w->arena), w->cwd);
    }
    if (!w->exe && !w->caller && !w->batch) {
        return cli_fail(
            CLI_USAGE,
            "why: say which program asks: --exe FILE, or --caller FILE (the library that "
            "wants it); gpumend check -v shows the requests of an environment");
    }
    if ((w->invert && !w->tree) || (w->tree && (w->json || w->batch))) {
        return cli_fail(CLI_USAGE, "why: %s",
                        w->tree ? "--tree cannot be combined with --json or --batch"
                                : "--invert belongs to --tree");
    }
    if (w->html_file && (w->batch || w->json || w->tree)) {
        return cli_fail(CLI_USAGE, "why: --html cannot be combined with --batch, --json or --tree");
    }
    if (w->html_file && cli_redirect_output("why", w->html_file) != CLI_OK) {
        return CLI_CANNOT;
    }
    if (w->snapshot_file) { // which asks nothing of this machine
        sandbox_enter(&(struct sandbox){0});
        int rc = open_replayed(w);
        bool windows = rc == CLI_OK && strcmp(w->snapshot.kind, SNAPSHOT_WINDOWS) == 0;
        rc = rc != CLI_OK ? rc : windows ? answer_windows(w) : answer_in_root(w);
        pages_stop();
        return rc;
    }
    cli_only_look((struct sandbox){0});
    if (root_open(&w->root, w->root_path ? w->root_path : "/", &err) < 0) {
        return cli_fail(CLI_CANNOT, "why: %s", err.text);
    }
    struct root_folder folder;
    root_keep_folder(&w->root, &folder);
    char *cwd =
        NULL; // a process knows its working directory without links, dots and doubled slashes
    if (!(own_cwd && w->root.is_host) && root_realpath(&w->root, &w->arena, w->cwd, &cwd) == 0) {
        w->cwd = cwd;
    }
    return answer_in_root(w);
}

static int why_run(const struct cli_command *self, int argc, char **argv)
{
    struct why w = {.root = ROOT_EMPTY};
    cli_arena_init(&w.arena);
    cli_env_init(&w.env, &w.arena);
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    int rc = CLI_OK;
    for (int id; rc == CLI_OK && (id = cli_next(&args)) != CLI_END;) {
        if (id == CLI_HELP || id == CLI_WRONG) {
            arena_release(&w.arena);
            return id == CLI_HELP ? CLI_OK : CLI_USAGE;
        }
        rc = why_take_option(&w, id, args.value);
    }
    if (rc == CLI_OK) {
        rc = why_run_with(&w);
    }
    arena_leave(&w.arena);
    return rc;
}

const struct cli_command cli_why = {
    .name = "why",
    .arguments = "[NAME] [options]",
    .summary = "shows how one library request is resolved, search step by search step",
    .text = "Starts a program in the model, performs the loads in order, and resolves NAME for "
            "the\n"
            "caller exactly as the program's own loader would: every place it searches, where "
            "that\n"
            "place comes from, and why the file there is accepted or rejected. Without NAME, why\n"
            "prints the closure alone. The environment is the one that gpumend was started with.\n"
            "Below --root, a NAME.dll or NAME.pyd is resolved as Windows does (NAME@FLAGS for the\n"
            "flags of LoadLibraryEx; --load dir:FOLDER is os.add_dll_directory).",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = why_run,
};
