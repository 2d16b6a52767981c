#include "report/process.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"

static json_t *process_text(const struct ldso_process *p, const char *s)
{
    return out_json_text(p->arena, s);
}

json_t *report_objects_json(const struct ldso_process *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->objects.n; i++) {
        const struct ldso_object *o = p->objects.items[i];
        json_t *item = json_object();
        json_put(item, "path", process_text(p, o->path));
        json_put(item, "soname", process_text(p, o->soname));
        json_put(item, "by", process_text(p, o->by ? o->by->path : NULL));
        json_put(item, "via", process_text(p, ldso_via_name(o->via)));
        json_add(list, item);
    }
    return list;
}

json_t *report_loads_json(const struct ldso_process *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->loads.n; i++) {
        const struct ldso_load *l = &p->loads.items[i];
        json_t *item = json_object();
        json_put(item, "name", process_text(p, l->name));
        json_put(item, "caller", process_text(p, l->caller->path));
        json_put(item, "outcome", process_text(p, ldso_outcome_name(l->outcome)));
        json_put(item, "path", process_text(p, l->path));
        json_put(item, "glibc_says", process_text(p, l->glibc_says));
        json_add(list, item);
    }
    return list;
}

static json_t *steps_json(const struct ldso_process *p, const struct ldso_request *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->steps.n; i++) {
        const struct ldso_step *s = &r->steps.items[i];
        json_t *item = json_object();
        json_put(item, "path", process_text(p, s->path));
        json_put(item, "via", process_text(p, ldso_via_name(s->via)));
        json_put(item, "via_object", process_text(p, s->via_object ? s->via_object->path : NULL));
        json_put(item, "result", process_text(p, ldso_result_name(s->result)));
        json_put(item, "fatal", json_boolean(s->fatal));
        json_put(item, "detail", process_text(p, s->detail));
        json_add(list, item);
    }
    return list;
}

json_t *report_request_json(struct ldso_process *p, struct ldso_request *r)
{
    json_t *item = json_object();
    json_put(item, "name", process_text(p, r->name));
    json_put(item, "caller", process_text(p, r->caller ? r->caller->path : NULL));
    json_put(item, "kind", process_text(p, ldso_request_kind_name(r->kind)));
    json_put(item, "outcome", process_text(p, ldso_outcome_name(r->outcome)));
    json_put(item, "path", process_text(p, r->path));
    json_put(item, "via", r->object ? process_text(p, ldso_via_name(r->via)) : json_null());
    json_put(item, "via_object", process_text(p, r->via_object ? r->via_object->path : NULL));
    json_put(item, "glibc_says", process_text(p, r->glibc_says));
    json_put(item, "really", process_text(p, r->really));
    json_put(item, "load", r->load < 0 ? json_null() : json_integer(r->load));
    json_put(item, "steps", steps_json(p, r));
    const struct ldso_instead *instead = ldso_instead(p, r);
    if (instead) {
        json_t *of = json_object();
        json_put(of, "path", process_text(p, instead->path));
        json_put(of, "via", process_text(p, ldso_via_name(instead->via)));
        const struct ldso_object *object = instead->via_object;
        json_put(of, "via_object", process_text(p, object ? object->path : NULL));
        json_put(item, "instead_of", of);
    }
    return item;
}

json_t *report_requests_json(struct ldso_process *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->requests.n; i++) {
        json_add(list, report_request_json(p, p->requests.items[i]));
    }
    return list;
}

static const char *const defect_names[] = {
    [LDSO_VERSION_MISSING] = "version-missing",
    [LDSO_SYMBOL_MISSING] = "symbol-missing",
    [LDSO_SYMBOL_MISSING_LAZY] = "symbol-missing-lazy",
    [LDSO_NO_VERSIONS] = "no-versions",
    [LDSO_EXEC_STACK] = "exec-stack",
    [LDSO_ISA_LEVEL] = "isa-level",
    [LDSO_PAGE_SIZE] = "page-size",
    [LDSO_STATIC_TLS] = "static-tls",
    [LDSO_FILE_CUT] = "file-cut",
};

json_t *report_defects_json(const struct ldso_process *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->defects.n; i++) {
        const struct ldso_defect *d = &p->defects.items[i];
        json_t *item = json_object();
        json_put(item, "kind", process_text(p, defect_names[d->kind]));
        json_put(item, "object", process_text(p, d->object->path));
        json_put(item, "provider", process_text(p, d->provider ? d->provider->path : NULL));
        json_put(item, "symbol", process_text(p, d->symbol));
        json_put(item, "version", process_text(p, d->version));
        json_put(item, "glibc_says", process_text(p, d->text));
        json_put(item, "fatal", json_boolean(d->fatal));
        json_put(item, "load", d->load < 0 ? json_null() : json_integer(d->load));
        json_add(list, item);
    }
    return list;
}

json_t *report_loader_json(const struct ldso_process *p)
{
    static const char *const kinds[] = {
        [LDSO_GLIBC] = "glibc", [LDSO_MUSL] = "musl", [LDSO_OTHER] = "other"};
    json_t *item = json_object();
    json_put(item, "kind",
             p->is_static ? process_text(p, "none") : process_text(p, kinds[p->loader.kind]));
    json_put(item, "path", process_text(p, p->loader.path));
    json_put(item, "version", process_text(p, p->loader.version));
    json_put(item, "cache",
             process_text(p, p->loader.kind == LDSO_GLIBC ? p->loader.cache_path : NULL));
    json_t *dirs = json_array();
    for (size_t i = 0; i < p->loader.n_dirs; i++) {
        json_add(dirs, process_text(p, p->loader.dirs[i]));
    }
    json_put(item, "system_dirs", dirs);
    json_put(item, "system_dirs_assumed", json_boolean(p->loader.dirs_assumed));
    json_put(item, "secure_execution", json_boolean(p->secure));
    return item;
}

/* ------------------------------------------------------------------ text */

const char *report_via_text(struct arena *a, enum ldso_via via, const struct ldso_object *object)
{
    const char *who = object ? str_printable(a, path_base(object->path)) : "the program";
    switch (via) {
    case LDSO_VIA_RPATH: return arena_printf(a, "RPATH of %s", who);
    case LDSO_VIA_RUNPATH: return arena_printf(a, "RUNPATH of %s", who);
    case LDSO_VIA_LIBRARY_PATH: return "LD_LIBRARY_PATH";
    case LDSO_VIA_CACHE: return "ld.so.cache";
    case LDSO_VIA_DEFAULT: return "system directories";
    case LDSO_VIA_LOADED: return "already loaded";
    case LDSO_VIA_PATH: return "path as given";
    case LDSO_VIA_PRELOAD: return "LD_PRELOAD";
    case LDSO_VIA_MAIN: return "the program";
    case LDSO_VIA_INTERP: return "the loader, by the kernel";
    case LDSO_VIA_NONE: break;
    }
    return "";
}

void report_objects_text(const struct out *o, const struct ldso_process *p)
{
    for (size_t i = 0; i < p->objects.n; i++) {
        const struct ldso_object *x = p->objects.items[i];
        fputs(str_printable(p->arena, x->path), o->file);
        if (x->via != LDSO_VIA_MAIN) {
            bool asked = x->by && x->via != LDSO_VIA_INTERP && x->via != LDSO_VIA_PRELOAD;
            out_begin(o, OUT_DIM);
            fputs("  (", o->file);
            fputs(report_via_text(p->arena, x->via, x->via_object), o->file);
            fputs(asked ? ", for " : "", o->file);
            fputs(asked ? str_printable(p->arena, path_base(x->by->path)) : "", o->file);
            fputc(')', o->file);
            out_end(o, OUT_DIM);
        }
        fputc('\n', o->file);
    }
}

static const char *const result_words[] = {
    [LDSO_TAKEN] = "taken",
    [LDSO_ABSENT] = "absent",
    [LDSO_DANGLING] = "dangling link",
    [LDSO_DENIED] = "permission denied",
    [LDSO_WRONG_CLASS] = "wrong ELF class, passed over",
    [LDSO_WRONG_MACHINE] = "wrong architecture, passed over",
    [LDSO_INVALID] = "refused",
    [LDSO_UNREADABLE] = "cannot be opened",
    [LDSO_NOT_USED] = "not used",
};

static void process_step_text(const struct out *o, const struct ldso_process *p,
                              const struct ldso_step *s)
{
    const char *path = s->path ? str_printable(p->arena, s->path) : "";
    fprintf(o->file, "    %s%s", path, *path ? "  " : "");
    enum out_style style = s->result == LDSO_TAKEN                                  ? OUT_GREEN
                           : s->result == LDSO_ABSENT || s->result == LDSO_NOT_USED ? OUT_DIM
                                                                                    : OUT_RED;
    out_print(o, style, "%s", result_words[s->result]);
    if (s->detail) {
        out_print(o, style, ": %s", str_printable(p->arena, s->detail));
    }
    if (s->fatal) {
        out_print(o, OUT_RED, " (the search ends here)");
    }
    fputc('\n', o->file);
}

/* The file that an earlier load keeps out. */
static void print_instead(const struct out *o, struct ldso_process *p, struct ldso_request *r)
{
    const struct ldso_instead *instead = ldso_instead(p, r);
    if (instead) {
        fprintf(o->file, "  first wins: its own search would find %s (%s)\n",
                str_printable(p->arena, instead->path),
                report_via_text(p->arena, instead->via, instead->via_object));
    }
}

void report_request_text(const struct out *o, struct ldso_process *p, struct ldso_request *r)
{
    struct arena *a = p->arena;
    static const char *const kinds[] = {[LDSO_NEEDED] = "needed by",
                                        [LDSO_DLOPEN] = "dlopen from",
                                        [LDSO_PRELOAD] = "preloaded for"};
    out_print(o, OUT_BOLD, "%s", str_printable(a, r->name));
    fprintf(o->file, "  %s %s\n", kinds[r->kind],
            r->caller ? str_printable(a, r->caller->path) : "the program");
    const struct ldso_object *last_object = NULL;
    enum ldso_via last = LDSO_VIA_NONE;
    for (size_t i = 0; i < r->steps.n; i++) {
        const struct ldso_step *s = &r->steps.items[i];
        if (s->via != last || s->via_object != last_object) {
            fprintf(o->file, "  %s\n", report_via_text(a, s->via, s->via_object));
        }
        last = s->via;
        last_object = s->via_object;
        process_step_text(o, p, s);
    }
    switch (r->outcome) {
    case LDSO_LOADED:
        out_print(o, OUT_GREEN, "  => %s", str_printable(a, r->path));
        fprintf(o->file, "  (%s)\n", report_via_text(a, r->via, r->via_object));
        break;
    case LDSO_REUSED:
        out_print(o, OUT_GREEN, "  => %s", str_printable(a, r->path));
        fprintf(o->file, "  (%s)\n",
                r->via == LDSO_VIA_LOADED ? "already loaded under this name"
                                          : "the same file is already loaded");
        print_instead(o, p, r);
        break;
    case LDSO_NOT_FOUND:
    case LDSO_REFUSED:
        out_print(o, OUT_RED, "  => %s\n", r->outcome == LDSO_NOT_FOUND ? "not found" : "refused");
        break;
    }
    if (r->glibc_says) {
        fprintf(o->file, "  the loader says: %s\n", str_printable(a, r->glibc_says));
    }
    if (r->really) {
        fprintf(o->file, "  what is wrong:   %s\n", str_printable(a, r->really));
    }
}
