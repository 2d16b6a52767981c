#include "report/windows.h"

#include "base/str.h"
#include "winldr/words.h"

static const char *outcome_text(enum winldr_outcome outcome)
{
    static const char *const texts[] = {[WINLDR_LOADED] = "loaded",
                                        [WINLDR_REUSED] = "reused",
                                        [WINLDR_FAILED] = "failed",
                                        [WINLDR_UNKNOWN] = "unknown"};
    return texts[outcome];
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
        bool good = winldr_is_loaded(l);
        const char *cause = good ? NULL : winldr_load_cause(p, l);
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
        out_print(o, OUT_RED, "%s\n", winldr_error_text(a, load->code));
    } else if (load->outcome == WINLDR_UNKNOWN) {
        out_print(o, OUT_YELLOW, "cannot tell\n");
    } else {
        fprintf(o->file, "%s %s\n", outcome_text(load->outcome),
                str_printable(a, load->module->path));
        r = p->requests.items[load->request];
    }
    if (load->outcome == WINLDR_FAILED || load->outcome == WINLDR_UNKNOWN) {
        fprintf(o->file, "  %s\n", str_printable(a, winldr_load_cause(p, load)));
    }
    print_steps(o, p, r);
    if (r->outcome == WINLDR_REUSED && !r->importer) {
        for (size_t i = 0; i < load->request; i++) {
            const struct winldr_request *first = p->requests.items[i];
            if (first->module == r->module && first->outcome == WINLDR_LOADED) {
                fprintf(o->file, "  it was loaded before, for %s:\n",
                        str_printable(a, winldr_request_text(p, first)));
                print_steps(o, p, first);
            }
        }
    }
}
