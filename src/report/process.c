#include "report/process.h"

#include <string.h>

#include "base/str.h"

static json_t *text(const struct ldso_process *p, const char *s)
{
    return out_json_text(p->arena, s);
}

/* Sets a member and drops the reference; running out of memory shows when the document is
 * written. */
static void set(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new_nocheck(object, key, value);
}

json_t *report_objects_json(const struct ldso_process *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->objects.n; i++) {
        const struct ldso_object *o = p->objects.items[i];
        json_t *item = json_object();
        set(item, "path", text(p, o->path));
        set(item, "soname", text(p, o->soname));
        set(item, "by", text(p, o->by ? o->by->path : NULL));
        set(item, "via", text(p, ldso_via_name(o->via)));
        (void)json_array_append_new(list, item);
    }
    return list;
}

json_t *report_loads_json(const struct ldso_process *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->loads.n; i++) {
        const struct ldso_load *l = &p->loads.items[i];
        json_t *item = json_object();
        set(item, "name", text(p, l->name));
        set(item, "caller", text(p, l->caller->path));
        set(item, "outcome", text(p, ldso_outcome_name(l->outcome)));
        set(item, "path", text(p, l->path));
        set(item, "glibc_says", text(p, l->glibc_says));
        (void)json_array_append_new(list, item);
    }
    return list;
}

static json_t *steps_json(const struct ldso_process *p, const struct ldso_request *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->steps.n; i++) {
        const struct ldso_step *s = &r->steps.items[i];
        json_t *item = json_object();
        set(item, "path", text(p, s->path));
        set(item, "via", text(p, ldso_via_name(s->via)));
        set(item, "via_object", text(p, s->via_object ? s->via_object->path : NULL));
        set(item, "result", text(p, ldso_result_name(s->result)));
        set(item, "fatal", json_boolean(s->fatal));
        set(item, "detail", text(p, s->detail));
        (void)json_array_append_new(list, item);
    }
    return list;
}

json_t *report_requests_json(const struct ldso_process *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->requests.n; i++) {
        const struct ldso_request *r = p->requests.items[i];
        json_t *item = json_object();
        set(item, "name", text(p, r->name));
        set(item, "caller", text(p, r->caller ? r->caller->path : NULL));
        set(item, "kind", text(p, ldso_request_kind_name(r->kind)));
        set(item, "outcome", text(p, ldso_outcome_name(r->outcome)));
        set(item, "path", text(p, r->path));
        set(item, "via", r->object ? text(p, ldso_via_name(r->via)) : json_null());
        set(item, "via_object", text(p, r->via_object ? r->via_object->path : NULL));
        set(item, "glibc_says", text(p, r->glibc_says));
        set(item, "really", text(p, r->really));
        set(item, "load", r->load < 0 ? json_null() : json_integer(r->load));
        set(item, "steps", steps_json(p, r));
        (void)json_array_append_new(list, item);
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
    [LDSO_STATIC_TLS] = "static-tls",
    [LDSO_FILE_CUT] = "file-cut",
};

json_t *report_defects_json(const struct ldso_process *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->defects.n; i++) {
        const struct ldso_defect *d = &p->defects.items[i];
        json_t *item = json_object();
        set(item, "kind", text(p, defect_names[d->kind]));
        set(item, "object", text(p, d->object->path));
        set(item, "provider", text(p, d->provider ? d->provider->path : NULL));
        set(item, "symbol", text(p, d->symbol));
        set(item, "version", text(p, d->version));
        set(item, "glibc_says", text(p, d->text));
        set(item, "fatal", json_boolean(d->fatal));
        set(item, "load", d->load < 0 ? json_null() : json_integer(d->load));
        (void)json_array_append_new(list, item);
    }
    return list;
}

json_t *report_loader_json(const struct ldso_process *p)
{
    static const char *const kinds[] = {
        [LDSO_GLIBC] = "glibc", [LDSO_MUSL] = "musl", [LDSO_OTHER] = "other"};
    json_t *item = json_object();
    set(item, "kind", p->is_static ? text(p, "none") : text(p, kinds[p->loader.kind]));
    set(item, "path", text(p, p->loader.path));
    set(item, "version", text(p, p->loader.version));
    set(item, "cache", text(p, p->loader.kind == LDSO_GLIBC ? p->loader.cache_path : NULL));
    json_t *dirs = json_array();
    for (size_t i = 0; i < p->loader.n_dirs; i++) {
        (void)json_array_append_new(dirs, text(p, p->loader.dirs[i]));
    }
    set(item, "system_dirs", dirs);
    set(item, "system_dirs_assumed", json_boolean(p->loader.dirs_assumed));
    set(item, "secure_execution", json_boolean(p->secure));
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

static void step_text(const struct out *o, const struct ldso_process *p, const struct ldso_step *s)
{
    const char *path = s->path ? str_printable(p->arena, s->path) : "";
    fprintf(o->file, "    %s%s", path, *path ? "  " : "");
    enum out_style style = s->result == LDSO_TAKEN                               ? OUT_GREEN
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

void report_request_text(const struct out *o, const struct ldso_process *p,
                         const struct ldso_request *r)
{
    struct arena *a = p->arena;
    static const char *const kinds[] = {
        [LDSO_NEEDED] = "needed by", [LDSO_DLOPEN] = "dlopen from", [LDSO_PRELOAD] = "preloaded for"};
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
        step_text(o, p, s);
    }
    switch (r->outcome) {
    case LDSO_LOADED:
        out_print(o, OUT_GREEN, "  => %s", str_printable(a, r->path));
        fprintf(o->file, "  (%s)\n", report_via_text(a, r->via, r->via_object));
        break;
    case LDSO_REUSED:
        out_print(o, OUT_GREEN, "  => %s", str_printable(a, r->path));
        fprintf(o->file, "  (%s)\n", r->via == LDSO_VIA_LOADED
                                         ? "already loaded under this name"
                                         : "the same file is already loaded");
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
