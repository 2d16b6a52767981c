#include "report/check.h"

#include "model/live.h"
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

/* The processes that descend from the one that was looked at. */
static json_t *children_json(const struct model *m)
{
    json_t *list = json_array();
    for (size_t i = 0; m->live && i < m->live->children.n; i++) {
        const struct model_child *c = &m->live->children.items[i];
        json_t *o = json_object();
        set(o, "pid", json_integer(c->pid));
        set(o, "name", text(m, c->name));
        set(o, "exe", text(m, c->exe));
        set(o, "gpu", text(m, model_child_sign(m, c)));
        (void)json_array_append_new(list, o);
    }
    return list;
}

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
        set(o, "children", children_json(m));
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

json_t *report_target_json(const struct model *m, const struct report_target *target)
{
    return target_json(m, target);
}

json_t *report_finding_json(const struct model *m, const struct diag_finding *f)
{
    return finding_json(m, f);
}
