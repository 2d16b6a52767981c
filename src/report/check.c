#include "report/check.h"

#include "base/json.h"
#include "model/live.h"
#include "report/devices.h"
#include "report/process.h"
#include "variant/variant.h"

static json_t *check_text(const struct model *m, const char *s)
{
    return out_json_text(m->arena, s);
}

/* ------------------------------------------------------------------ JSON */

/* The processes that descend from the one that was looked at. */
static json_t *check_children_json(const struct model *m)
{
    json_t *list = json_array();
    for (size_t i = 0; m->live && i < m->live->children.n; i++) {
        const struct model_child *c = &m->live->children.items[i];
        json_t *o = json_object();
        json_put(o, "pid", json_integer(c->pid));
        json_put(o, "name", check_text(m, c->name));
        json_put(o, "exe", check_text(m, c->exe));
        json_put(o, "gpu", check_text(m, model_child_sign(m, c)));
        json_add(list, o);
    }
    return list;
}

static json_t *check_target_json(const struct model *m, const struct report_target *t)
{
    json_t *o = json_object();
    json_put(o, "kind", check_text(m, t->kind));
    json_put(o, "path", check_text(m, t->path));
    json_put(o, "root", check_text(m, t->root));
    json_put(o, "pid", m->pid ? json_integer(m->pid) : json_null());
    if (m->pid) {
        json_put(o, "container",
                 m->container_id
                     ? json_pack("{s:o, s:o}", "engine", check_text(m, m->container_engine), "id",
                                 check_text(m, m->container_id))
                     : json_null());
        json_put(o, "children", check_children_json(m));
    }
    if (t->snapshot) {
        json_put(o, "snapshot", check_text(m, t->snapshot));
        json_put(o, "made", check_text(m, t->made));
        json_put(o, "made_by", check_text(m, t->made_by));
    }
    return o;
}

/* Bytes; 0: not known. */
static uint32_t page_size(const struct ldso_process *p)
{
    uint32_t sizes[LDSO_PAGE_SIZES];
    size_t n = ldso_page_sizes(p->cpu.machine, sizes);
    return n == 1 ? sizes[0] : p->cpu.page_size;
}

static json_t *host_json(const struct model *m)
{
    json_t *o = json_object();
    const struct ldso_process *p = model_first_process(m);
    json_put(o, "machine", p ? check_text(m, p->machine_name) : json_null());
    json_put(o, "loader", p ? report_loader_json(p) : json_null());
    json_put(o, "cpu_level", check_text(m, p ? ldso_cpu_level_name(&p->cpu) : NULL));
    json_put(o, "page_size", p && page_size(p) ? json_integer(page_size(p)) : json_null());
    json_put(o, "cpu_level_why", check_text(m, p ? p->cpu.why : NULL));
    json_put(o, "devices", m->host ? report_devices_facts(m->arena, m->host) : json_null());
    json_put(o, "devices_why", check_text(m, m->host ? NULL : m->host_why));
    return o;
}

static json_t *conda_json(const struct model *m)
{
    struct variant_conda here;
    json_t *o = json_object();
    if (m->env->kind != PY_ENV_CONDA || !m->host) {
        json_decref(o);
        return json_null();
    }
    variant_conda(m->arena, m->host, m->kb, &here);
    json_put(o, "__cuda", check_text(m, here.cuda));
    json_put(o, "__cuda_why", check_text(m, here.cuda_why));
    json_put(o, "__cuda_arch", check_text(m, here.arch));
    json_put(o, "__cuda_arch_why", check_text(m, here.arch_why));
    return o;
}

static json_t *python_json(const struct model *m)
{
    json_t *o = json_object();
    const struct py_env *e = m->env;
    if (!e) {
        return o;
    }
    json_put(o, "kind", check_text(m, py_env_kind_name(e->kind)));
    json_put(o, "manager", check_text(m, e->manager));
    json_put(o, "conda", conda_json(m));
    json_put(o, "chosen_by", check_text(m, e->chosen_by));
    json_put(o, "prefix", check_text(m, e->prefix));
    json_put(o, "base_prefix", check_text(m, e->base_prefix));
    json_put(o, "executable", check_text(m, e->executable));
    json_put(o, "version",
             e->major < 0 ? json_null()
             : e->micro < 0
                 ? check_text(m, arena_printf(m->arena, "%d.%d", e->major, e->minor))
                 : check_text(m, arena_printf(m->arena, "%d.%d.%d", e->major, e->minor, e->micro)));
    json_t *packages = json_array();
    for (size_t i = 0; i < e->n_dists; i++) {
        if (e->dists[i].shadowed_by) {
            continue;
        }
        json_t *item = json_object();
        json_put(item, "name", check_text(m, e->dists[i].name));
        json_put(item, "version", check_text(m, e->dists[i].version));
        json_put(item, "site", check_text(m, e->dists[i].site));
        json_add(packages, item);
    }
    json_put(o, "packages", packages);
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
            json_add(names, check_text(m, at->names[k]));
        }
        json_put(item, "names", names);
        json_put(item, "caller", check_text(m, at->caller->path));
        json_put(item, "source", check_text(m, model_source_name(at->source)));
        json_put(item, "row", check_text(m, at->row));
        json_put(item, "package", check_text(m, at->package));
        json_put(item, "phase", check_text(m, at->phase == MODEL_USE ? "use" : "import"));
        json_put(item, "required", json_boolean(at->required));
        json_put(item, "feature", check_text(m, at->feature));
        json_put(item, "family", check_text(m, at->family));
        json_put(item, "outcome",
                 check_text(m, at->load ? ldso_outcome_name(at->load->outcome) : "not-tried"));
        json_put(item, "path", check_text(m, at->load ? at->load->path : NULL));
        json_put(item, "glibc_says", check_text(m, at->load ? at->load->glibc_says : NULL));
        json_put(item, "first_load",
                 at->n_loads ? json_integer((json_int_t)at->first_load) : json_null());
        json_put(item, "n_loads", json_integer((json_int_t)at->n_loads));
        json_add(list, item);
    }
    return list;
}

static json_t *check_texts_json(const struct model *m, const char *const *items, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_add(list, check_text(m, items[i]));
    }
    return list;
}

static json_t *process_json(const struct model *m, const struct model_process *p)
{
    json_t *o = json_object();
    json_put(o, "script", check_texts_json(m, (const char *const *)p->script, p->n_script));
    json_put(o, "part_of", check_text(m, p->part_of));
    json_put(o, "objects", p->ldso ? report_objects_json(p->ldso) : json_array());
    json_put(o, "requests", p->ldso ? report_requests_json(p->ldso) : json_array());
    json_put(o, "loads", p->ldso ? report_loads_json(p->ldso) : json_array());
    json_put(o, "attempts", attempts_json(m, p));
    json_put(o, "defects", p->ldso ? report_defects_json(p->ldso) : json_array());
    json_put(o, "unknown_packages", check_texts_json(m, p->unknown.items, p->unknown.n));
    json_put(o, "error", check_text(m, p->error));
    return o;
}

static json_t *check_finding_json(const struct model *m, const struct diag_finding *f)
{
    json_t *o = json_object();
    json_put(o, "cause", check_text(m, diag_causes[f->cause].id));
    json_put(o, "class", check_text(m, f->class));
    json_put(o, "severity", check_text(m, diag_severity_name(f->severity)));
    json_put(o, "culprit", check_text(m, f->culprit));
    json_put(o, "summary", check_text(m, f->summary));
    json_put(o, "evidence", check_texts_json(m, f->evidence.items, f->evidence.n));
    json_put(o, "likewise", check_texts_json(m, f->likewise.items, f->likewise.n));
    json_put(o, "scripts", check_texts_json(m, f->scripts.items, f->scripts.n));
    json_t *repairs = json_array();
    for (size_t i = 0; i < f->repairs.n; i++) {
        json_t *item = json_object();
        json_put(item, "kind", check_text(m, diag_repair_kind_name(f->repairs.items[i].kind)));
        json_put(item, "text", check_text(m, f->repairs.items[i].text));
        json_put(item, "command", check_text(m, f->repairs.items[i].command));
        json_add(repairs, item);
    }
    json_put(o, "repairs", repairs);
    return o;
}

static json_t *entries_json(const struct model *m, const struct diag_report *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->entries.n; i++) {
        const struct diag_entry *e = &r->entries.items[i];
        json_t *o = json_object();
        json_put(o, "module", check_text(m, e->module));
        json_put(o, "part_of", check_text(m, e->part_of));
        json_put(o, "verdict", check_text(m, diag_verdict_name(e->verdict)));
        json_add(list, o);
    }
    return list;
}

json_t *report_check_json(const struct model *m, const struct diag_report *r,
                          const struct report_target *target)
{
    json_t *doc = json_object();
    json_put(doc, "schema", json_integer(1));
    json_put(doc, "target", check_target_json(m, target));
    if (m->for_cpu) {
        json_put(doc, "device", json_string("cpu"));
    }
    json_put(doc, "host", host_json(m));
    json_put(doc, "python", python_json(m));
    json_t *processes = json_array();
    for (size_t i = 0; i < m->processes.n; i++) {
        json_add(processes, process_json(m, m->processes.items[i]));
    }
    json_put(doc, "processes", processes);
    json_t *findings = json_array();
    for (size_t i = 0; i < r->findings.n; i++) {
        json_add(findings, check_finding_json(m, r->findings.items[i]));
    }
    json_put(doc, "findings", findings);
    json_put(doc, "entries", entries_json(m, r));
    json_put(doc, "fine", check_texts_json(m, r->fine.items, r->fine.n));
    json_put(doc, "notes", check_texts_json(m, r->notes.items, r->notes.n));
    json_put(doc, "verdict", check_text(m, diag_verdict_name(r->verdict)));
    return doc;
}

json_t *report_target_json(const struct model *m, const struct report_target *target)
{
    return check_target_json(m, target);
}

json_t *report_finding_json(const struct model *m, const struct diag_finding *f)
{
    return check_finding_json(m, f);
}
