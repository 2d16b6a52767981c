/* What the pages about Windows' loader show, in the form that the page knows (report/html.h). */
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "report/devices.h"
#include "report/html.h"
#include "report/windows_check.h"
#include "winldr/words.h"

enum { LADDERS_MAX = 24 };

/* ------------------------------------------------------------------ processes */

static const char *outcome_word(const struct winldr_request *r)
{
    switch (r->outcome) {
    case WINLDR_LOADED: return "loaded";
    case WINLDR_REUSED: return "reused";
    case WINLDR_UNKNOWN: return "unknown";
    case WINLDR_FAILED: break;
    }
    return r->code == WINLDR_MOD_NOT_FOUND ? "not-found" : "refused";
}

/* The page knows these words; the others of winldr_result_text() it shows as they are. */
static const char *result_word(enum winldr_result result)
{
    bool taken = result == WINLDR_STEP_FOUND || result == WINLDR_STEP_SAME_FILE ||
                 result == WINLDR_STEP_ASSUMED || result == WINLDR_STEP_ARM64X;
    return taken ? "taken" : result == WINLDR_STEP_MISSING ? "absent" : winldr_result_text(result);
}

static json_t *ladder_steps_json(struct arena *a, const struct winldr_request *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->steps.n; i++) {
        const struct winldr_step *s = &r->steps.items[i];
        json_t *item = json_object();
        json_put(item, "path", out_json_text(a, s->path));
        json_put(item, "via", json_string(winldr_via_text(s->via)));
        json_put(item, "result", json_string(result_word(s->result)));
        json_put(item, "detail", out_json_text(a, s->detail));
        json_add(list, item);
    }
    return list;
}

/* Why a request failed, or what it depends on. */
static const char *request_reason(const struct winldr_process *p, const struct winldr_request *r)
{
    if (r->outcome == WINLDR_FAILED) {
        return r->symbol ? arena_printf(p->arena, "%s is not exported by %s", r->symbol, r->path)
                         : winldr_error_text(p->arena, r->code);
    }
    return r->outcome == WINLDR_UNKNOWN ? r->unseen : NULL;
}

static json_t *page_request_json(const struct winldr_process *p, const struct winldr_request *r)
{
    struct arena *a = p->arena;
    bool found = r->outcome == WINLDR_LOADED || r->outcome == WINLDR_REUSED;
    json_t *item = json_object();
    json_put(item, "name", out_json_text(a, r->name));
    json_put(item, "caller", out_json_text(a, r->importer ? r->importer->path : p->config.exe));
    json_put(item, "kind", json_string(r->importer ? "import" : "dlopen"));
    json_put(item, "outcome", json_string(outcome_word(r)));
    json_put(item, "path", out_json_text(a, r->path));
    json_put(item, "via", found ? json_string(winldr_via_text(r->via)) : json_null());
    json_put(item, "really", out_json_text(a, request_reason(p, r)));
    json_put(item, "load", r->load < 0 ? json_null() : json_integer(r->load));
    json_put(item, "steps", ladder_steps_json(a, r));
    return item;
}

static json_t *page_load_json(const struct winldr_process *p, const struct winldr_load *l)
{
    struct arena *a = p->arena;
    json_t *item = json_object();
    const char *fails =
        winldr_is_loaded(l) ? NULL
        : l->outcome == WINLDR_FAILED
            ? arena_printf(a, "%s: %s", winldr_error_text(a, l->code), winldr_load_cause(p, l))
            : winldr_load_cause(p, l);
    json_put(item, "name", out_json_text(a, l->name));
    json_put(item, "caller", out_json_text(a, p->config.exe));
    json_put(item, "glibc_says", out_json_text(a, fails));
    return item;
}

static const struct winldr_request *first_of(const struct winldr_process *p,
                                             const struct winldr_module *m)
{
    for (size_t i = 0; i < p->requests.n; i++) {
        const struct winldr_request *r = p->requests.items[i];
        if (r->module == m && r->outcome == WINLDR_LOADED) {
            return r;
        }
    }
    return NULL;
}

static json_t *page_objects_json(const struct winldr_process *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->modules.n; i++) {
        const struct winldr_module *m = p->modules.items[i];
        const struct winldr_request *r = first_of(p, m);
        const char *by = r && r->importer ? r->importer->path : i ? p->config.exe : NULL;
        json_t *item = json_object();
        json_put(item, "path", out_json_text(p->arena, m->path));
        json_put(item, "by", out_json_text(p->arena, by));
        json_put(item, "via", json_string(r ? winldr_via_text(r->via) : "the program"));
        json_add(list, item);
    }
    return list;
}

static json_t *page_process_json(const struct winldr_process *p, const char *script)
{
    json_t *item = json_object(), *requests = json_array(), *loads = json_array();
    for (size_t i = 0; i < p->requests.n; i++) {
        json_add(requests, page_request_json(p, p->requests.items[i]));
    }
    for (size_t i = 0; i < p->loads.n; i++) {
        json_add(loads, page_load_json(p, &p->loads.items[i]));
    }
    json_put(item, "script", json_pack("[o]", out_json_text(p->arena, script)));
    json_put(item, "objects", page_objects_json(p));
    json_put(item, "requests", requests);
    json_put(item, "loads", loads);
    return item;
}

/* ------------------------------------------------------------------ ladders */

struct windows_ladders {
    json_t *list;
    size_t left;
};

static void add_ladder(struct windows_ladders *l, const struct winldr_process *p,
                       const struct winldr_request *r, const char *script)
{
    if (json_array_size(l->list) == LADDERS_MAX) {
        l->left++;
        return;
    }
    json_t *item = json_object();
    json_put(item, "name", out_json_text(p->arena, r->name));
    json_put(item, "caller",
             out_json_text(p->arena, r->importer ? r->importer->path : p->config.exe));
    json_put(item, "script", out_json_text(p->arena, script));
    json_put(item, "before", page_request_json(p, r));
    json_add(l->list, item);
}

/* The requests that the loads of a process fail by; with `own` that of the last load, too. */
static void add_ladders(struct windows_ladders *l, const struct winldr_process *p,
                        const char *script, bool own)
{
    for (size_t i = 0; i < p->loads.n; i++) {
        const struct winldr_load *load = &p->loads.items[i];
        if (!winldr_is_loaded(load)) {
            add_ladder(l, p, p->requests.items[load->blame], script);
        } else if (own && i + 1 == p->loads.n) {
            add_ladder(l, p, p->requests.items[load->request], script);
        }
    }
}

/* ------------------------------------------------------------------ why */

json_t *report_html_windows_why(const struct winldr_process *const *models, size_t n,
                                json_t *document)
{
    static const char *const scripts[] = {"without SetDefaultDllDirectories()",
                                          "SetDefaultDllDirectories(0x1000)"};
    const struct winldr_process *p = models[0];
    struct arena *a = p->arena;
    const struct winldr_load *last = p->loads.n ? &p->loads.items[p->loads.n - 1] : NULL;
    struct windows_ladders ladders = {json_array(), 0};
    json_t *page = json_object(), *shown = json_object(), *processes = json_array();
    for (size_t i = 0; i < n; i++) {
        const char *script = n > 1 ? scripts[i] : p->config.exe;
        add_ladders(&ladders, models[i], n > 1 ? script : NULL, true);
        json_add(processes, page_process_json(models[i], script));
    }
    bool is_sure = n == 1 && last && last->outcome != WINLDR_UNKNOWN;
    bool loads = last && winldr_is_loaded(last);
    const char *sentence = !last   ? "no load was asked for"
                           : n > 1 ? "the answer depends on whether the program calls "
                                     "SetDefaultDllDirectories(), which no file says"
                           : loads ? last->module->path
                                   : winldr_load_cause(p, last);
    json_put(page, "command", json_string("gpumend why"));
    json_put(page, "system", json_string("windows"));
    json_put(page, "target", out_json_text(a, last ? last->name : p->config.exe));
    json_put(page, "head",
             out_json_text(a, arena_printf(a,
                                           "%s\nWine-tested; not yet run on "
                                           "Windows",
                                           p->config.exe)));
    json_put(page, "verdict", json_string(!is_sure ? "unknown" : loads ? "loads" : "fails"));
    json_put(page, "sentence", out_json_text(a, sentence));
    json_put(page, "ladders", ladders.list);
    json_put(page, "ladders_left", json_integer((json_int_t)ladders.left));
    json_put(shown, "processes", processes);
    json_put(page, "shown", shown);
    json_put(page, "document", document);
    return page;
}

/* ------------------------------------------------------------------ check */

static void add_command(struct arena *a, json_t *list, const char *text, const char *shell,
                        const char *command)
{
    if (command) {
        json_t *item = json_object();
        json_put(item, "text", out_json_text(a, arena_printf(a, "%s (%s)", text, shell)));
        json_put(item, "command", out_json_text(a, command));
        json_add(list, item);
    }
}

static json_t *page_repairs_json(struct arena *a, const struct diag_windows_finding *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < f->repairs.n; i++) {
        const struct diag_windows_repair *r = &f->repairs.items[i];
        bool same = r->powershell && r->cmd && strcmp(r->powershell, r->cmd) == 0;
        add_command(a, list, r->says, same ? "PowerShell or cmd" : "PowerShell", r->powershell);
        add_command(a, list, r->says, "cmd", same ? NULL : r->cmd);
        add_command(a, list, r->says, "in Python", r->python);
        if (!r->powershell && !r->cmd && !r->python) {
            json_add(list, json_pack("{s:o}", "text", out_json_text(a, r->says)));
        }
    }
    return list;
}

static void add_findings(struct arena *a, json_t *list, const struct diag_windows *n)
{
    for (size_t i = 0; i < n->findings.n; i++) {
        const struct diag_windows_finding *f = &n->findings.items[i];
        json_t *item = json_object(), *evidence = json_array();
        json_add(evidence,
                 out_json_text(a, arena_printf(a, "%s (%s)", n->py->folder, n->py->kind)));
        json_add(evidence, out_json_text(a, f->evidence));
        json_put(item, "cause", json_string(f->cause));
        json_put(item, "severity", json_string(f->severity));
        json_put(item, "summary", out_json_text(a, f->title));
        json_put(item, "evidence", evidence);
        json_put(item, "repairs", page_repairs_json(a, f));
        json_add(list, item);
    }
}

static const char *windows_head(const struct report_windows *r)
{
    struct arena *a = r->arena;
    host_texts lines = {0};
    const char *head = "Wine-tested; not yet run on Windows";
    if (r->host) {
        report_devices_head(a, r->host, &lines);
    }
    for (size_t i = 0; i < lines.n; i++) {
        head = arena_printf(a, "%s\nGPU: %s", head, lines.items[i]);
    }
    for (size_t i = 0; i < r->n; i++) {
        head = arena_printf(a, "%s\n%s (%s)", head, r->all[i].py->folder, r->all[i].py->kind);
    }
    return head;
}

json_t *report_html_windows_check(const struct report_windows *r)
{
    struct arena *a = r->arena;
    struct windows_ladders ladders = {json_array(), 0};
    json_t *page = json_object(), *shown = json_object(), *processes = json_array();
    json_t *findings = json_array(), *notes = json_array(),
           *document = report_windows_check_json(r);
    for (size_t i = 0; i < r->n; i++) {
        const struct diag_windows *n = &r->all[i];
        add_findings(a, findings, n);
        for (size_t k = 0; k < n->unknown.n; k++) {
            json_add(notes,
                     out_json_text(a, arena_printf(a, "cannot tell: %s", n->unknown.items[k])));
        }
        for (size_t k = 0; k < n->processes.n; k++) {
            const struct diag_windows_process *p = &n->processes.items[k];
            add_ladders(&ladders, p->process, p->script, false);
            json_add(processes, page_process_json(p->process, p->script));
        }
    }
    const json_t *rest = json_object_get(document, "not_looked_at");
    for (size_t i = 0; i < json_array_size(rest); i++) {
        const char *text = json_string_value(json_array_get(rest, i));
        json_add(notes, out_json_text(a, arena_printf(a, "not looked at: %s", text ? text : "")));
    }
    bool broken = report_windows_is_broken(r);
    json_put(page, "command", json_string("gpumend check"));
    json_put(page, "system", json_string("windows"));
    json_put(page, "target", out_json_text(a, r->root));
    json_put(page, "head", out_json_text(a, windows_head(r)));
    json_put(page, "verdict", json_string(broken ? "broken" : "unknown"));
    json_put(page, "sentence",
             json_string(broken ? "something does not load or run, see below"
                                : "no error was found in what could be looked at"));
    json_put(page, "ladders", ladders.list);
    json_put(page, "ladders_left", json_integer((json_int_t)ladders.left));
    json_put(shown, "findings", findings);
    json_put(shown, "notes", notes);
    json_put(shown, "processes", processes);
    json_put(page, "shown", shown);
    json_put(page, "document", document);
    return page;
}
