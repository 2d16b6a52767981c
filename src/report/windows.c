#include "report/windows.h"

#include "base/str.h"

const char *report_windows_code(struct arena *a, enum winldr_code code)
{
    return arena_printf(a, "[WinError %d] %s", (int)code, winldr_code_text(code));
}

static const char *outcome_text(enum winldr_outcome outcome)
{
    static const char *const texts[] = {[WINLDR_LOADED] = "loaded",
                                        [WINLDR_REUSED] = "reused",
                                        [WINLDR_FAILED] = "failed",
                                        [WINLDR_UNKNOWN] = "unknown"};
    return texts[outcome];
}

/* "x.dll, which y.dll imports,"; without an importer the name alone. */
static const char *request_name(const struct winldr_process *p, const struct winldr_request *r)
{
    return r->importer ? arena_printf(p->arena, "%s, which %s imports,", r->name, r->importer->path)
                       : r->name;
}

const char *report_windows_cause(const struct winldr_process *p, const struct winldr_load *load)
{
    struct arena *a = p->arena;
    const struct winldr_request *r = p->requests.items[load->blame];
    const char *name = request_name(p, r);
    if (r->outcome == WINLDR_UNKNOWN) {
        return arena_printf(a, "%s depends on what was not looked at: %s", name, r->unseen);
    }
    switch (load->code) {
    case WINLDR_MOD_NOT_FOUND: return arena_printf(a, "%s was not found", name);
    case WINLDR_PROC_NOT_FOUND:
        return arena_printf(a, "%s is not exported by %s, which %s got as %s", r->symbol, r->path,
                            r->importer ? r->importer->path : "the program", r->name);
    case WINLDR_BAD_EXE_FORMAT:
        return arena_printf(a, "%s was found as %s, which is not a DLL for this process", name,
                            r->path);
    case WINLDR_ACCESS_DENIED:
        return arena_printf(a, "%s was found as %s, which cannot be opened", name, r->path);
    case WINLDR_INVALID_PARAMETER:
        return arena_printf(a, "flags 0x%x contradict each other, or need a full path",
                            load->flags);
    case WINLDR_DLL_INIT_FAILED: return "the start of a DLL says no";
    case WINLDR_OK: break;
    }
    return name;
}

static json_t *number_or_null(unsigned code)
{
    return code ? json_integer((json_int_t)code) : json_null();
}

static json_t *request_json(struct arena *a, const struct winldr_request *r)
{
    json_t *steps = json_array();
    for (size_t i = 0; i < r->steps.n; i++) {
        const struct winldr_step *s = &r->steps.items[i];
        (void)json_array_append_new(
            steps, json_pack("{s:o,s:s,s:s,s:o}", "path", out_json_text(a, s->path), "via",
                             winldr_via_text(s->via), "result", winldr_result_text(s->result),
                             "detail", out_json_text(a, s->detail)));
    }
    return json_pack("{s:o,s:o,s:s,s:o,s:o,s:o,s:o,s:i,s:o}", "name", out_json_text(a, r->name),
                     "importer", out_json_text(a, r->importer ? r->importer->path : NULL),
                     "outcome", outcome_text(r->outcome), "code", number_or_null(r->code), "path",
                     out_json_text(a, r->path), "symbol", out_json_text(a, r->symbol), "unseen",
                     out_json_text(a, r->unseen), "load", r->load, "steps", steps);
}

json_t *report_windows_json(const struct winldr_process *p)
{
    struct arena *a = p->arena;
    json_t *loads = json_array(), *requests = json_array(), *modules = json_array();
    for (size_t i = 0; i < p->loads.n; i++) {
        const struct winldr_load *l = &p->loads.items[i];
        bool good = l->outcome == WINLDR_LOADED || l->outcome == WINLDR_REUSED;
        const char *cause = good ? NULL : report_windows_cause(p, l);
        (void)json_array_append_new(
            loads, json_pack("{s:o,s:i,s:s,s:o,s:o,s:o}", "name", out_json_text(a, l->name),
                             "flags", (int)l->flags, "outcome", outcome_text(l->outcome), "code",
                             number_or_null(l->code), "path",
                             out_json_text(a, l->module ? l->module->path : NULL), "cause",
                             out_json_text(a, cause)));
    }
    for (size_t i = 0; i < p->requests.n; i++) {
        (void)json_array_append_new(requests, request_json(a, p->requests.items[i]));
    }
    for (size_t i = 0; i < p->modules.n; i++) {
        (void)json_array_append_new(modules, out_json_text(a, p->modules.items[i]->path));
    }
    return json_pack("{s:i,s:o,s:o,s:o}", "default_flags", (int)p->config.default_flags, "loads",
                     loads, "requests", requests, "modules", modules);
}

static void print_steps(const struct out *o, const struct winldr_process *p,
                        const struct winldr_request *r)
{
    for (size_t i = 0; i < r->steps.n; i++) {
        const struct winldr_step *s = &r->steps.items[i];
        fprintf(o->file, "  %-22s %s: %s%s%s\n", winldr_via_text(s->via),
                s->path ? str_printable(p->arena, s->path) : "?", winldr_result_text(s->result),
                s->detail ? ", " : "", s->detail ? str_printable(p->arena, s->detail) : "");
    }
}

void report_windows_load(const struct out *o, const struct winldr_process *p,
                         const struct winldr_load *load)
{
    struct arena *a = p->arena;
    const struct winldr_request *r = p->requests.items[load->blame];
    fprintf(o->file, "LoadLibraryEx(%s, 0x%x): ", str_printable(a, load->name), load->flags);
    if (load->outcome == WINLDR_FAILED) {
        out_print(o, OUT_RED, "%s\n", report_windows_code(a, load->code));
    } else if (load->outcome == WINLDR_UNKNOWN) {
        out_print(o, OUT_YELLOW, "cannot tell\n");
    } else {
        fprintf(o->file, "%s %s\n", outcome_text(load->outcome),
                str_printable(a, load->module->path));
        r = p->requests.items[load->request];
    }
    if (load->outcome == WINLDR_FAILED || load->outcome == WINLDR_UNKNOWN) {
        fprintf(o->file, "  %s\n", str_printable(a, report_windows_cause(p, load)));
    }
    print_steps(o, p, r);
    if (r->outcome == WINLDR_REUSED && !r->importer) {
        for (size_t i = 0; i < load->request; i++) {
            const struct winldr_request *first = p->requests.items[i];
            if (first->module == r->module && first->outcome == WINLDR_LOADED) {
                fprintf(o->file, "  it was loaded before, for %s:\n",
                        str_printable(a, request_name(p, first)));
                print_steps(o, p, first);
            }
        }
    }
}
