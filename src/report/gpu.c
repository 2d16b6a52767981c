#include "report/gpu.h"

#include <string.h>

#include "base/str.h"

static void set(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new_nocheck(object, key, value); // running out shows in the dump
}

static json_t *arches_json(struct arena *a, const struct gpu_cuda_arch *arches, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, out_json_text(a, arches[i].name));
    }
    return list;
}

static const char *isa_text(struct arena *a, unsigned isa)
{
    return arena_printf(a, "%u.%u", isa / 10, isa % 10);
}

/* {"compute_86": ["8.2", "8.7"]}: the oldest and the newest ISA of the PTX of each name. */
static json_t *isas_json(struct arena *a, const struct gpu_cuda *cuda)
{
    json_t *o = json_object();
    for (size_t i = 0; i < cuda->n_ptx; i++) {
        const struct gpu_cuda_arch *x = &cuda->ptx[i];
        json_t *range = json_array();
        (void)json_array_append_new(range, out_json_text(a, isa_text(a, x->isa_min)));
        (void)json_array_append_new(range, out_json_text(a, isa_text(a, x->isa_max)));
        set(o, x->name, range);
    }
    return o;
}

static json_t *cuda_json(struct arena *a, const struct gpu_cuda *cuda)
{
    json_t *o = json_object();
    set(o, "native", arches_json(a, cuda->native, cuda->n_native));
    set(o, "ptx", arches_json(a, cuda->ptx, cuda->n_ptx));
    set(o, "ptx_isa", isas_json(a, cuda));
    set(o, "containers", json_integer((json_int_t)cuda->n_containers));
    return o;
}

static json_t *families_json(struct arena *a, const struct gpu_families *families)
{
    json_t *list = json_array();
    for (size_t i = 0; i < families->n; i++) {
        json_t *item = json_object();
        set(item, "name", out_json_text(a, families->items[i].name));
        set(item, "version", out_json_text(a, families->items[i].version));
        set(item, "source", out_json_text(a, families->items[i].source));
        (void)json_array_append_new(list, item);
    }
    return list;
}

static json_t *file_json(struct arena *a, const struct report_gpu_file *f)
{
    json_t *o = json_object();
    json_t *targets = json_array(), *hip = json_object(), *notes = json_array();
    for (size_t i = 0; i < f->code.n_targets; i++) {
        (void)json_array_append_new(targets, out_json_text(a, f->code.targets[i].name));
    }
    for (size_t i = 0; i < f->code.n_notes; i++) {
        (void)json_array_append_new(notes, out_json_text(a, f->code.notes[i]));
    }
    set(hip, "targets", targets);
    set(o, "path", out_json_text(a, f->path));
    set(o, "error", out_json_text(a, f->error));
    set(o, "cuda", cuda_json(a, &f->code.cuda));
    set(o, "embedded", cuda_json(a, &f->code.embedded));
    set(o, "relocatable", cuda_json(a, &f->code.relocatable));
    set(o, "hip", hip);
    set(o, "families", families_json(a, &f->families));
    set(o, "searched", json_boolean(f->code.searched));
    set(o, "incomplete", json_boolean(f->code.incomplete));
    set(o, "notes", notes);
    return o;
}

json_t *report_gpu_json(struct arena *a, const struct report_gpu_file *files, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, file_json(a, &files[i]));
    }
    json_t *doc = json_object();
    set(doc, "schema", json_integer(1));
    set(doc, "files", list);
    return doc;
}

static void line(const struct out *o, const char *label, const char *text)
{
    if (*text) {
        fprintf(o->file, "  %-12s", label);
        out_wrap(o, 14, text);
    }
}

static const char *arches_text(struct arena *a, const struct gpu_cuda *cuda)
{
    const char *text = "";
    for (size_t i = 0; i < cuda->n_native; i++) {
        text = arena_printf(a, "%s%s%s", text, i ? " " : "", cuda->native[i].name);
    }
    for (size_t i = 0; i < cuda->n_ptx; i++) {
        const struct gpu_cuda_arch *x = &cuda->ptx[i];
        text = arena_printf(a, "%s%s%s (PTX %s%s%s)", text, *text ? " " : "", x->name,
                            isa_text(a, x->isa_min), x->isa_min < x->isa_max ? " to " : "",
                            x->isa_min < x->isa_max ? isa_text(a, x->isa_max) : "");
    }
    return text;
}

static void file_text(const struct out *o, struct arena *a, const struct report_gpu_file *f)
{
    out_print(o, OUT_BOLD, "%s\n", str_printable(a, f->path));
    if (f->error) {
        out_print(o, OUT_RED, "  %s\n", str_printable(a, f->error));
        return;
    }
    const char *targets = "";
    for (size_t i = 0; i < f->code.n_targets; i++) {
        targets = arena_printf(a, "%s%s%s", targets, i ? " " : "",
                               str_printable(a, f->code.targets[i].name));
    }
    line(o, "CUDA", arches_text(a, &f->code.cuda));
    line(o, "in the data", arches_text(a, &f->code.embedded));
    line(o, "relocatable", arches_text(a, &f->code.relocatable));
    line(o, "HIP", targets);
    if (!f->code.cuda.n_containers && !f->code.embedded.n_containers &&
        !f->code.relocatable.n_containers && !f->code.n_targets) {
        line(o, "GPU code", f->code.incomplete ? "cannot tell"
                            : f->code.searched ? "none"
                                               : "none in its sections");
    }
    for (size_t i = 0; i < f->families.n; i++) {
        const struct gpu_family *x = &f->families.items[i];
        line(o, x->name, arena_printf(a, "%s (%s)", x->version ? x->version : "version not known",
                                      str_printable(a, x->source)));
    }
    for (size_t i = 0; i < f->code.n_notes; i++) {
        line(o, "note", str_printable(a, f->code.notes[i]));
    }
}

void report_gpu_text(const struct out *o, struct arena *a, const struct report_gpu_file *files,
                     size_t n)
{
    for (size_t i = 0; i < n; i++) {
        file_text(o, a, &files[i]);
    }
}
