#include "report/gpu.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"

static json_t *arches_json(struct arena *a, const struct gpu_cuda_arch *arches, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_add(list, out_json_text(a, arches[i].name));
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
        json_add(range, out_json_text(a, isa_text(a, x->isa_min)));
        json_add(range, out_json_text(a, isa_text(a, x->isa_max)));
        json_put(o, x->name, range);
    }
    return o;
}

static json_t *cuda_json(struct arena *a, const struct gpu_cuda *cuda)
{
    json_t *o = json_object();
    json_put(o, "native", arches_json(a, cuda->native, cuda->n_native));
    json_put(o, "ptx", arches_json(a, cuda->ptx, cuda->n_ptx));
    json_put(o, "ptx_isa", isas_json(a, cuda));
    json_put(o, "containers", json_integer((json_int_t)cuda->n_containers));
    return o;
}

static json_t *families_json(struct arena *a, const struct gpu_families *families)
{
    json_t *list = json_array();
    for (size_t i = 0; i < families->n; i++) {
        json_t *item = json_object();
        json_put(item, "name", out_json_text(a, families->items[i].name));
        json_put(item, "version", out_json_text(a, families->items[i].version));
        json_put(item, "source", out_json_text(a, families->items[i].source));
        json_add(list, item);
    }
    return list;
}

static json_t *file_json(struct arena *a, const struct report_gpu_file *f)
{
    json_t *o = json_object();
    json_t *targets = json_array(), *hip = json_object();
    for (size_t i = 0; i < f->code.n_targets; i++) {
        json_add(targets, out_json_text(a, f->code.targets[i].name));
    }
    json_put(hip, "targets", targets);
    json_put(o, "path", out_json_text(a, f->path));
    json_put(o, "error", out_json_text(a, f->error));
    json_put(o, "cuda", cuda_json(a, &f->code.cuda));
    json_put(o, "embedded", cuda_json(a, &f->code.embedded));
    json_put(o, "relocatable", cuda_json(a, &f->code.relocatable));
    json_put(o, "hip", hip);
    json_put(o, "families", families_json(a, &f->families));
    json_put(o, "searched", json_boolean(f->code.searched));
    json_put(o, "incomplete", json_boolean(f->code.incomplete));
    json_put(o, "notes", out_json_texts(a, f->code.notes, f->code.n_notes));
    return o;
}

json_t *report_gpu_json(struct arena *a, const struct report_gpu_file *files, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_add(list, file_json(a, &files[i]));
    }
    json_t *doc = json_object();
    json_put(doc, "schema", json_integer(1));
    json_put(doc, "files", list);
    return doc;
}

static void gpu_line(const struct out *o, const char *label, const char *text)
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
    gpu_line(o, "CUDA", arches_text(a, &f->code.cuda));
    gpu_line(o, "in the data", arches_text(a, &f->code.embedded));
    gpu_line(o, "relocatable", arches_text(a, &f->code.relocatable));
    gpu_line(o, "HIP", targets);
    if (!f->code.cuda.n_containers && !f->code.embedded.n_containers &&
        !f->code.relocatable.n_containers && !f->code.n_targets) {
        gpu_line(o, "GPU code",
                 f->code.incomplete ? "cannot tell"
                 : f->code.searched ? "none"
                                    : "none in its sections");
    }
    for (size_t i = 0; i < f->families.n; i++) {
        const struct gpu_family *x = &f->families.items[i];
        gpu_line(o, x->name,
                 arena_printf(a, "%s (%s)", x->version ? x->version : "version not known",
                              str_printable(a, x->source)));
    }
    for (size_t i = 0; i < f->code.n_notes; i++) {
        gpu_line(o, "note", str_printable(a, f->code.notes[i]));
    }
}

void report_gpu_text(const struct out *o, struct arena *a, const struct report_gpu_file *files,
                     size_t n)
{
    for (size_t i = 0; i < n; i++) {
        file_text(o, a, &files[i]);
    }
}
