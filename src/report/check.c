#include "report/check.h"

#include <string.h>

#include "report/devices.h"
#include "report/process.h"

static json_t *text(const struct model *m, const char *s)
{
    return out_json_text(m->arena, s);
}

static void set(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new_nocheck(object, key, value);
}

/* ------------------------------------------------------------------ JSON */

static json_t *target_json(const struct model *m, const struct report_target *t)
{
    json_t *o = json_object();
    set(o, "kind", text(m, t->kind));
    set(o, "path", text(m, t->path));
    set(o, "root", text(m, t->root));
    set(o, "pid", m->pid ? json_integer(m->pid) : json_null());
    if (m->pid) {
        set(o, "container",
            m->container_id ? json_pack("{s:o, s:o}", "engine", text(m, m->container_engine), "id",
                                        text(m, m->container_id))
                            : json_null());
    }
    if (t->snapshot) {
        set(o, "snapshot", text(m, t->snapshot));
        set(o, "made", text(m, t->made));
        set(o, "made_by", text(m, t->made_by));
    }
    return o;
}

static const struct ldso_process *first_process(const struct model *m)
{
    for (size_t i = 0; i < m->processes.n; i++) {
        if (m->processes.items[i]->ldso) {
            return m->processes.items[i]->ldso;
        }
    }
    return NULL;
}

static json_t *host_json(const struct model *m)
{
    json_t *o = json_object();
    const struct ldso_process *p = first_process(m);
    set(o, "machine", p ? text(m, p->machine_name) : json_null());
    set(o, "loader", p ? report_loader_json(p) : json_null());
    set(o, "cpu_level", p && p->cpu.level ? text(m, arena_printf(m->arena, "x86-64-v%d", p->cpu.level))
                                          : json_null());
    set(o, "cpu_level_why", text(m, p ? p->cpu.why : NULL));
    set(o, "devices", m->host ? report_devices_facts(m->arena, m->host) : json_null());
    set(o, "devices_why", text(m, m->host ? NULL : m->host_why));
    return o;
}

static json_t *python_json(const struct model *m)
{
    json_t *o = json_object();
    const struct py_env *e = m->env;
    if (!e) {
        return o;
    }
    set(o, "kind", text(m, py_env_kind_name(e->kind)));
    set(o, "chosen_by", text(m, e->chosen_by));
    set(o, "prefix", text(m, e->prefix));
    set(o, "base_prefix", text(m, e->base_prefix));
    set(o, "executable", text(m, e->executable));
    set(o, "version", e->major < 0 ? json_null()
                      : e->micro < 0
                          ? text(m, arena_printf(m->arena, "%d.%d", e->major, e->minor))
                          : text(m, arena_printf(m->arena, "%d.%d.%d", e->major, e->minor, e->micro)));
    json_t *packages = json_array();
    for (size_t i = 0; i < e->dists_n; i++) {
        if (e->dists[i].shadowed_by) {
            continue;
        }
        json_t *item = json_object();
        set(item, "name", text(m, e->dists[i].name));
        set(item, "version", text(m, e->dists[i].version));
        set(item, "site", text(m, e->dists[i].site));
        (void)json_array_append_new(packages, item);
    }
    set(o, "packages", packages);
    return o;
}

static json_t *attempts_json(const struct model *m, const struct model_process *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->attempts.n; i++) {
        const struct model_attempt *at = &p->attempts.items[i];
        json_t *item = json_object();
        json_t *names = json_array();
        for (size_t k = 0; k < at->n_names; k++) {
            (void)json_array_append_new(names, text(m, at->names[k]));
        }
        set(item, "names", names);
        set(item, "caller", text(m, at->caller->path));
        set(item, "source", text(m, model_source_name(at->source)));
        set(item, "row", text(m, at->row));
        set(item, "package", text(m, at->package));
        set(item, "phase", text(m, at->phase == MODEL_USE ? "use" : "import"));
        set(item, "required", json_boolean(at->required));
        set(item, "feature", text(m, at->feature));
        set(item, "family", text(m, at->family));
        set(item, "outcome", text(m, at->load ? ldso_outcome_name(at->load->outcome) : "not-tried"));
        set(item, "path", text(m, at->load ? at->load->path : NULL));
        set(item, "glibc_says", text(m, at->load ? at->load->glibc_says : NULL));
        (void)json_array_append_new(list, item);
    }
    return list;
}

static json_t *texts_json(const struct model *m, const char *const *items, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, text(m, items[i]));
    }
    return list;
}

static json_t *process_json(const struct model *m, const struct model_process *p)
{
    json_t *o = json_object();
    set(o, "script", texts_json(m, (const char *const *)p->script, p->n_script));
    set(o, "part_of", text(m, p->part_of));
    set(o, "objects", p->ldso ? report_objects_json(p->ldso) : json_array());
    set(o, "requests", p->ldso ? report_requests_json(p->ldso) : json_array());
    set(o, "loads", p->ldso ? report_loads_json(p->ldso) : json_array());
    set(o, "attempts", attempts_json(m, p));
    set(o, "defects", p->ldso ? report_defects_json(p->ldso) : json_array());
    set(o, "unknown_packages", texts_json(m, p->unknown.items, p->unknown.n));
    set(o, "error", text(m, p->error));
    return o;
}

static json_t *finding_json(const struct model *m, const struct diag_finding *f)
{
    json_t *o = json_object();
    set(o, "cause", text(m, diag_causes[f->cause].id));
    set(o, "class", text(m, f->class));
    set(o, "severity", text(m, diag_severity_name(f->severity)));
    set(o, "culprit", text(m, f->culprit));
    set(o, "summary", text(m, f->summary));
    set(o, "evidence", texts_json(m, f->evidence.items, f->evidence.n));
    set(o, "likewise", texts_json(m, f->likewise.items, f->likewise.n));
    set(o, "scripts", texts_json(m, f->scripts.items, f->scripts.n));
    json_t *repairs = json_array();
    for (size_t i = 0; i < f->repairs.n; i++) {
        json_t *item = json_object();
        set(item, "kind", text(m, diag_repair_kind_name(f->repairs.items[i].kind)));
        set(item, "text", text(m, f->repairs.items[i].text));
        set(item, "command", text(m, f->repairs.items[i].command));
        (void)json_array_append_new(repairs, item);
    }
    set(o, "repairs", repairs);
    return o;
}

static json_t *entries_json(const struct model *m, const struct diag_report *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->entries.n; i++) {
        const struct diag_entry *e = &r->entries.items[i];
        json_t *o = json_object();
        set(o, "module", text(m, e->module));
        set(o, "part_of", text(m, e->part_of));
        set(o, "verdict", text(m, diag_verdict_name(e->verdict)));
        (void)json_array_append_new(list, o);
    }
    return list;
}

json_t *report_check_json(const struct model *m, const struct diag_report *r,
                          const struct report_target *target)
{
    json_t *doc = json_object();
    set(doc, "schema", json_integer(1));
    set(doc, "target", target_json(m, target));
    set(doc, "host", host_json(m));
    set(doc, "python", python_json(m));
    json_t *processes = json_array();
    for (size_t i = 0; i < m->processes.n; i++) {
        (void)json_array_append_new(processes, process_json(m, m->processes.items[i]));
    }
    set(doc, "processes", processes);
    json_t *findings = json_array();
    for (size_t i = 0; i < r->findings.n; i++) {
        (void)json_array_append_new(findings, finding_json(m, r->findings.items[i]));
    }
    set(doc, "findings", findings);
    set(doc, "entries", entries_json(m, r));
    set(doc, "fine", texts_json(m, r->fine.items, r->fine.n));
    set(doc, "notes", texts_json(m, r->notes.items, r->notes.n));
    set(doc, "verdict", text(m, diag_verdict_name(r->verdict)));
    return doc;
}

/* ------------------------------------------------------------------ text */

/* Long folders are written in the head once and shortened below it; commands keep them whole. */
struct page {
    const struct out *o;
    const struct model *m;
    const char *site, *prefix; // "<site>" and "<env>"; NULL: not shortened
};

static void line(const struct page *p, const char *label, const char *value)
{
    fprintf(p->o->file, "%-12s", label);
    out_wrap(p->o, 12, str_printable(p->m->arena, value));
}

/* A folder stands for itself only at the end of a word or before a slash. */
static const char *shorten_one(struct arena *a, const char *text, const char *folder,
                               const char *name)
{
    const char *out = "";
    size_t n = folder ? strlen(folder) : 0;
    for (const char *at; n && (at = strstr(text, folder)) != NULL; text = at + n) {
        bool whole = !at[n] || strchr("/ :,;)'", at[n]);
        out = arena_printf(a, "%s%.*s%s", out, (int)(at - text), text, whole ? name : folder);
    }
    return arena_printf(a, "%s%s", out, text);
}

static const char *shorten(const struct page *p, const char *text)
{
    struct arena *a = p->m->arena;
    return str_printable(a, shorten_one(a, shorten_one(a, text, p->site, "<site>"), p->prefix,
                                        "<env>"));
}

static const char *shown_prefix(const struct model *m)
{
    const struct py_env *e = m->env;
    return e && e->kind != PY_ENV_SYSTEM && e->prefix && strlen(e->prefix) > 5 ? e->prefix : NULL;
}

static const char *shown_site(const struct model *m)
{
    for (size_t i = 0; m->env && i < m->env->paths_n; i++) {
        if (m->env->paths[i].is_dir && m->env->paths[i].origin == PY_PATH_SITE) {
            return m->env->paths[i].dir;
        }
    }
    return NULL;
}

const char *report_shorten(const struct model *m, const char *text)
{
    struct page p = {.m = m, .site = shown_site(m), .prefix = shown_prefix(m)};
    return shorten(&p, text);
}

static const char *known_packages(const struct model *m)
{
    const char *list = "";
    for (size_t i = 0; i < m->known.n; i++) {
        const struct py_dist *dist = m->known.items[i];
        list = arena_printf(m->arena, "%s%s%s %s", list, *list ? ", " : "", dist->name,
                            dist->version ? dist->version : "");
    }
    return list;
}

static const char *version_of(const struct model *m)
{
    const struct py_env *e = m->env;
    return e->major < 0   ? "of unknown version"
           : e->micro < 0 ? arena_printf(m->arena, "%d.%d", e->major, e->minor)
                          : arena_printf(m->arena, "%d.%d.%d", e->major, e->minor, e->micro);
}

static void head_python(struct page *p)
{
    const struct model *m = p->m;
    const struct py_env *e = m->env;
    line(p, "Python", arena_printf(m->arena, "%s (%s, %s)",
                                   e->executable ? e->executable : "no interpreter found",
                                   version_of(m), py_env_kind_name(e->kind)));
    p->prefix = shown_prefix(m);
    p->site = shown_site(m);
    if (p->prefix) {
        line(p, "<env>", p->prefix);
    }
    if (p->site) {
        line(p, "<site>", shorten_one(m->arena, p->site, p->prefix, "<env>"));
    }
    const char *known = known_packages(m);
    line(p, "packages", *known ? known
                               : "none that gpumend knows to use a GPU: only the interpreter was "
                                 "looked at");
}

static void head_loader(const struct page *p)
{
    const struct ldso_process *l = first_process(p->m);
    if (l && l->is_static) {
        line(p, "loader", "none: statically linked");
    } else if (l && l->loader.path) {
        line(p, "loader",
             arena_printf(p->m->arena, "%s (%s %s)", l->loader.path,
                          l->loader.kind == LDSO_MUSL ? "musl" : "glibc",
                          l->loader.version ? l->loader.version : "of unknown version"));
    }
}

static void head_devices(const struct page *p)
{
    enum { LINES_MAX = 3 };
    struct arena *a = p->m->arena;
    host_texts lines = {0};
    if (!p->m->host) {
        line(p, "GPU", arena_printf(a, "not looked at: %s", p->m->host_why));
        return;
    }
    report_devices_head(a, p->m->host, &lines);
    for (size_t i = 0; i < lines.n && i < LINES_MAX; i++) {
        bool more = i == LINES_MAX - 1 && lines.n > LINES_MAX;
        line(p, i ? "" : "GPU",
             more ? arena_printf(a, "%s; and %zu more", lines.items[i], lines.n - LINES_MAX)
                  : lines.items[i]);
    }
}

static void head_text(struct page *p, const struct report_target *t)
{
    if (p->m->env) {
        head_python(p);
    } else if (p->m->pid) {
        const struct ldso_process *l = first_process(p->m);
        line(p, "process", arena_printf(p->m->arena, "%d, %s", p->m->pid,
                                        l ? l->main->path : "of an unknown program"));
    } else if (t->path) {
        line(p, t->kind, t->path);
    } else {
        line(p, "Python", "none found: no package was looked at");
    }
    head_loader(p);
    head_devices(p);
    if (strcmp(t->root, "/") != 0) {
        line(p, "below", t->root);
    }
    if (t->snapshot) {
        line(p, "snapshot", arena_printf(p->m->arena, "%s, made %s by gpumend %s", t->snapshot,
                                         t->made ? t->made : "at an unknown time",
                                         t->made_by ? t->made_by : "of unknown version"));
    }
}

static const char *joined(const struct model *m, const char *const *items, size_t n)
{
    const char *text = "";
    for (size_t i = 0; i < n; i++) {
        text = arena_printf(m->arena, "%s%s%s", text, i ? ", " : "", items[i]);
    }
    return text;
}

static void item(const struct page *p, const char *label, const char *value)
{
    fprintf(p->o->file, "  %-10s", label);
    out_wrap(p->o, 12, value);
}

static void repairs_text(const struct page *p, const struct diag_finding *f)
{
    for (size_t i = 0; i < f->repairs.n; i++) {
        const struct diag_repair *r = &f->repairs.items[i];
        item(p, i ? "or" : "to do", shorten(p, r->text));
        if (r->command) {
            out_print(p->o, OUT_BOLD, "              %s\n", str_printable(p->m->arena, r->command));
        }
    }
}

static void finding_text(const struct page *p, const struct diag_finding *f)
{
    static const enum out_style styles[] = {
        [DIAG_NOTE] = OUT_DIM, [DIAG_WARNING] = OUT_YELLOW, [DIAG_ERROR] = OUT_RED};
    const char *severity = diag_severity_name(f->severity);
    fputc('\n', p->o->file);
    out_print(p->o, styles[f->severity], "%s", severity);
    fprintf(p->o->file, "%*s", (int)(9 - strlen(severity)), "");
    out_wrap(p->o, 9, shorten(p, f->summary));
    if (f->likewise.n) {
        item(p, "likewise", shorten(p, joined(p->m, f->likewise.items, f->likewise.n)));
    }
    repairs_text(p, f);
    for (size_t i = 0; i < f->evidence.n; i++) {
        item(p, i ? "" : "because", shorten(p, f->evidence.items[i]));
    }
    if (f->scripts.n && p->m->processes.n > 1) {
        item(p, "seen in",
             shorten(p, f->scripts.n > 1 ? arena_printf(p->m->arena, "%s (and %zu more)",
                                                        f->scripts.items[0], f->scripts.n - 1)
                                         : f->scripts.items[0]));
    }
    item(p, "more", arena_printf(p->m->arena, "gpumend explain %s", diag_causes[f->cause].id));
}

static void remarks_text(const struct page *p, const struct diag_report *r)
{
    if (r->fine.n || r->notes.n) {
        fputc('\n', p->o->file);
    }
    for (size_t i = 0; i < r->fine.n; i++) {
        out_print(p->o, OUT_GREEN, "fine");
        fprintf(p->o->file, "     ");
        out_wrap(p->o, 9, shorten(p, r->fine.items[i]));
    }
    for (size_t i = 0; i < r->notes.n; i++) {
        out_print(p->o, OUT_DIM, "note");
        fprintf(p->o->file, "     ");
        out_wrap(p->o, 9, shorten(p, r->notes.items[i]));
    }
}

/* "faster_whisper"; NULL where no entry, or each, has this verdict. */
static const char *entries_with(const struct page *p, const struct diag_report *r,
                                enum diag_verdict verdict)
{
    const char *list = "";
    size_t n = 0, all = 0;
    for (size_t i = 0; i < r->entries.n; i++) {
        const struct diag_entry *e = &r->entries.items[i];
        bool fits = !e->part_of && e->verdict == verdict;
        all += !e->part_of;
        n += fits;
        list = fits ? arena_printf(p->m->arena, "%s%s%s", list, *list ? ", " : "", e->module) : list;
    }
    return n && n < all ? str_printable(p->m->arena, list) : NULL;
}

static void broken_text(const struct page *p, const struct diag_report *r, size_t errors)
{
    const char *broken = entries_with(p, r, DIAG_BROKEN), *ok = entries_with(p, r, DIAG_OK);
    const char *text = errors > 1 ? "more than one error: begin with the first"
                                  : "see the error above";
    if (broken) {
        text = arena_printf(p->m->arena, "%s; affected: %s%s%s", text, broken,
                            ok ? "; not affected: " : "", ok ? ok : "");
    }
    out_print(p->o, OUT_RED, "broken");
    fprintf(p->o->file, "   ");
    out_wrap(p->o, 9, text);
}

static void verdict_text(const struct page *p, const struct diag_report *r)
{
    size_t errors = 0, warnings = 0;
    for (size_t i = 0; i < r->findings.n; i++) {
        errors += r->findings.items[i]->severity == DIAG_ERROR;
        warnings += r->findings.items[i]->severity == DIAG_WARNING;
    }
    fputc('\n', p->o->file);
    switch (r->verdict) {
    case DIAG_OK:
        out_print(p->o, OUT_GREEN, "ok");
        fprintf(p->o->file, "       no error in what was looked at%s\n",
                warnings ? "; see the warning above" : "");
        break;
    case DIAG_BROKEN:
        broken_text(p, r, errors);
        break;
    case DIAG_CANNOT_TELL:
        out_print(p->o, OUT_YELLOW, "unknown");
        fprintf(p->o->file, "  nothing could be judged; the notes say why\n");
        break;
    }
}

void report_check_text(const struct out *o, const struct model *m, const struct diag_report *r,
                       const struct report_target *target)
{
    struct page p = {.o = o, .m = m};
    head_text(&p, target);
    for (size_t i = 0; i < r->findings.n; i++) {
        finding_text(&p, r->findings.items[i]);
    }
    remarks_text(&p, r);
    verdict_text(&p, r);
}

void report_target_text(const struct out *o, const struct model *m,
                        const struct report_target *target)
{
    struct page p = {.o = o, .m = m};
    head_text(&p, target);
}

json_t *report_target_json(const struct model *m, const struct report_target *target)
{
    return target_json(m, target);
}

json_t *report_finding_json(const struct model *m, const struct diag_finding *f)
{
    return finding_json(m, f);
}
