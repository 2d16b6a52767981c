#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "gpu/code.h"
#include "kb/serves.h"
#include "ldso/store.h"
#include "model/gpu.h"
#include "needs/needs.h"

/* ------------------------------------------------------------------ objects */

typedef VEC(const struct ldso_object *) object_list;

/* The objects of all processes, each file once. */
static object_list objects_of(const struct model *m)
{
    object_list list = {0};
    for (size_t i = 0; i < m->processes.n; i++) {
        const struct model_process *p = m->processes.items[i];
        for (size_t k = 0; p->ldso && k < p->ldso->objects.n; k++) {
            const struct ldso_object *o = p->ldso->objects.items[k];
            bool known = !o->file;
            for (size_t j = 0; j < list.n && !known; j++) {
                known = list.items[j]->file == o->file;
            }
            if (!known) {
                VEC_PUSH(m->arena, &list, o);
            }
        }
    }
    return list;
}

/* Not the machine's: what comes with the target. Libraries of the system do not, each node has its
 * own; a program brings what is in its own folder. */
static bool comes_along(struct model *m, const struct ldso_object *o, bool is_image)
{
    const char *file = m->target_file ? model_absolute(m, m->target_file) : NULL;
    const char *prefix = m->env ? m->env->prefix : file ? path_dir(m->arena, file) : NULL;
    bool system = !prefix || starts_with(prefix, "/usr/lib") || starts_with(prefix, "/lib") ||
                  strcmp(prefix, "/usr") == 0 || strcmp(prefix, "/") == 0;
    bool below = !system && starts_with(o->path, prefix) && o->path[strlen(prefix)] == '/';
    return is_image || below || (file && strcmp(o->path, file) == 0);
}

/* ------------------------------------------------------------------ CUDA */

/* How one compute capability is served: by machine code, by PTX of an ISA, or not. */
struct served {
    enum gpu_serves by;
    unsigned isa; // with GPU_SERVES_JIT: the least that the driver has to know
};

static enum gpu_serves serves(const struct gpu_code *code, unsigned number, unsigned isa)
{
    struct gpu_answer answer;
    gpu_code_serves_cuda(code, number / 10, number % 10, isa, &answer);
    return answer.serves;
}

static struct served how_served(const struct gpu_code *code, unsigned number)
{
    struct served s = {serves(code, number, UINT_MAX), 0};
    if (s.by != GPU_SERVES_JIT) {
        return s;
    }
    for (size_t i = 0; i < code->cuda.n_ptx + code->embedded.n_ptx; i++) {
        const struct gpu_cuda_arch *x =
            i < code->cuda.n_ptx ? &code->cuda.ptx[i] : &code->embedded.ptx[i - code->cuda.n_ptx];
        if ((!s.isa || x->isa_max < s.isa) && serves(code, number, x->isa_max) == GPU_SERVES_JIT) {
            s.isa = x->isa_max;
        }
    }
    return s;
}

/* What two libraries need of one device: the worse of both. */
static struct served both(struct served x, struct served y)
{
    if (x.by == GPU_SERVES_NONE || y.by == GPU_SERVES_NONE) {
        return (struct served){GPU_SERVES_NONE, 0};
    }
    if (x.by == GPU_SERVES_NATIVE || y.by == GPU_SERVES_NATIVE) {
        return x.by == GPU_SERVES_NATIVE ? y : x;
    }
    if (x.by == GPU_SERVES_JIT && y.by == GPU_SERVES_JIT) {
        return x.isa > y.isa ? x : y;
    }
    return (struct served){GPU_SERVES_UNKNOWN, 0};
}

static void put_ranges(struct model *m, const struct served *table, struct needs *ret)
{
    for (unsigned n = NEEDS_CAPABILITY_MIN; n <= NEEDS_CAPABILITY_MAX; n++) {
        struct served s = table[n];
        if (s.by == GPU_SERVES_NONE || s.by == GPU_SERVES_ABSENT) {
            continue;
        }
        struct needs_range *last = ret->cuda.n ? &ret->cuda.items[ret->cuda.n - 1] : NULL;
        if (last && last->to + 1 == n && table[n - 1].by == s.by && table[n - 1].isa == s.isa) {
            last->to = n;
            continue;
        }
        const struct kb_driver *row = s.isa ? kb_driver_of_isa(m->kb, s.isa) : NULL;
        VEC_PUSH(m->arena, &ret->cuda,
                 (struct needs_range){.from = n,
                                      .to = n,
                                      .by = s.by,
                                      .driver_min = row ? row->linux_min : NULL,
                                      .cuda_min = row ? row->cuda : NULL});
    }
}

/* Whether it is the file of a program that holds its GPU code. */
static bool is_own_code(struct model *m, const struct ldso_object *o)
{
    const struct gpu_code *code;
    for (size_t i = 0; i < m->processes.n; i++) {
        if (diag_own_code(m, m->processes.items[i], &code) == o) {
            return true;
        }
    }
    return false;
}

/* The frameworks' libraries, by the rule of `check`: what the sections do not serve may lie among
 * the data, so that those are read too. */
static void find_cuda(struct model *m, const object_list *objects, struct needs *ret)
{
    struct served *table = arena_array(m->arena, NEEDS_CAPABILITY_MAX + 1, sizeof *table);
    size_t n_libraries = 0;
    ret->cuda_known = true;
    for (size_t i = 0; i < objects->n; i++) {
        const struct ldso_object *o = objects->items[i];
        bool own = is_own_code(m, o);
        if (!own && !diag_cuda_library_package(o->path)) {
            continue;
        }
        const struct gpu_code *code = model_gpu_code(m, o, GPU_READ_SECTIONS);
        bool has = code && code->cuda.n_native + code->cuda.n_ptx > 0;
        if (own && !has) { // its code is for AMD
            continue;
        }
        if (code && !has && code->n_targets) { // the build for AMD of a library that has both
            continue;
        }
        code = has ? model_gpu_code(m, o, GPU_READ_ALL) : NULL;
        if (!code || code->incomplete) {
            ret->cuda_known = false;
            VEC_PUSH(m->arena, &ret->unknown,
                     arena_printf(m->arena, "which NVIDIA GPUs %s has code for", o->path));
            continue;
        }
        for (unsigned n = NEEDS_CAPABILITY_MIN; n <= NEEDS_CAPABILITY_MAX; n++) {
            struct served s = how_served(code, n);
            table[n] = n_libraries ? both(table[n], s) : s;
        }
        n_libraries++;
    }
    ret->cuda_known = ret->cuda_known && n_libraries > 0;
    if (ret->cuda_known) {
        put_ranges(m, table, ret);
    }
}

/* ------------------------------------------------------------------ HIP */

static void put_once(struct arena *a, diag_texts *list, const char *text)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i], text) == 0) {
            return;
        }
    }
    VEC_PUSH(a, list, text);
}

/* Targets that are known to exist, and those that the code names itself. */
static diag_texts known_targets(struct model *m, const struct gpu_code *code)
{
    struct kb_rocms rows;
    struct gm_err err;
    diag_texts list = {0};
    size_t n = kb_rocms(m->kb, &rows, &err) == 0 ? rows.n : 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < rows.rows[i].gfx.n; k++) {
            put_once(m->arena, &list, rows.rows[i].gfx.items[k]);
        }
    }
    for (size_t i = 0; i < code->n_targets; i++) {
        struct str rest = str_of(code->targets[i].name);
        const char *name = str_dup(m->arena, str_cut(&rest, ':'));
        if (!strstr(name, "generic") && starts_with(name, "gfx")) {
            put_once(m->arena, &list, name);
        }
    }
    if (list.n) {
        qsort(list.items, list.n, sizeof *list.items, str_by_bytes);
    }
    return list;
}

static void find_gfx(struct model *m, const object_list *objects, struct needs *ret)
{
    bool first = true;
    ret->gfx_known = true;
    for (size_t i = 0; i < objects->n; i++) {
        const struct ldso_object *o = objects->items[i];
        bool own = is_own_code(m, o);
        if (!own && !diag_hip_library_package(o->path)) {
            continue;
        }
        const struct gpu_code *code = model_gpu_code(m, o, GPU_READ_SECTIONS);
        if (own && !code->n_targets) { // its code is for NVIDIA
            continue;
        }
        if (code && !code->n_targets && code->cuda.n_containers) { // the build for NVIDIA
            continue;
        }
        if (!code || code->incomplete || !code->n_targets) {
            ret->gfx_known = false;
            VEC_PUSH(m->arena, &ret->unknown,
                     arena_printf(m->arena, "which AMD GPUs %s has code for", o->path));
            continue;
        }
        diag_texts known = first ? known_targets(m, code) : ret->gfx, kept = {0};
        for (size_t k = 0; k < known.n; k++) {
            struct gpu_answer answer;
            gpu_code_serves_amd(code, known.items[k], &answer);
            if (answer.serves != GPU_SERVES_NONE) {
                VEC_PUSH(m->arena, &kept, known.items[k]);
            }
        }
        ret->gfx = kept;
        first = false;
    }
    ret->gfx_known = ret->gfx_known && !first;
}

/* ------------------------------------------------------------------ C library, processor, pages */

static bool is_of_glibc(const struct elf_versions *v)
{
    for (size_t i = 0; i < v->n_defs; i++) {
        if (starts_with(v->defs[i].name, "GLIBC_2.")) {
            return true;
        }
    }
    return false;
}

static void raise_glibc(struct model *m, const struct ldso_object *o, struct needs *ret)
{
    const struct elf_versions *v = ldso_file_versions(m->store, o->file);
    for (size_t i = 0; v && i < v->n_needs && !is_of_glibc(v); i++) {
        uint64_t minor = 0;
        if (starts_with(v->needs[i].name, "GLIBC_2.")) {
            struct str rest = str_of(v->needs[i].name + strlen("GLIBC_2."));
            if (str_u64(str_cut(&rest, '.'), &minor) && minor < 1000 &&
                (int)minor > ret->glibc_minor) {
                ret->glibc_minor = (int)minor;
                ret->glibc_from = o->path;
            }
        }
    }
}

/* GNU_PROPERTY_X86_ISA_1_BASELINE and V2 to V4 (x86-64 psABI, "Program Property"). */
static void raise_level(const struct ldso_object *o, struct needs *ret)
{
    for (int level = 4; level > 1; level--) {
        if (o->file->image.machine == EM_X86_64 &&
            o->file->image.x86_isa_needed >> (level - 1) & 1 && level > ret->cpu_level) {
            ret->cpu_level = level;
            ret->cpu_from = o->path;
        }
    }
}

/* The largest page on which each segment can be mapped: address and offset agree in it, and glibc
 * asks for the alignment that the header states (elf/dl-load.c). */
static void lower_pages(const struct ldso_object *o, struct needs *ret)
{
    const struct elf_image *e = &o->file->image;
    uint32_t pages[LDSO_PAGE_SIZES], most = 0;
    size_t n = ldso_page_sizes(e->machine, pages);
    for (size_t i = 0; i < n; i++) {
        bool fits = true;
        for (size_t k = 0; k < e->n_segments; k++) {
            const struct elf_segment *s = &e->segments[k];
            fits = fits && (s->type != PT_LOAD ||
                            (s->align >= pages[i] && (s->vaddr - s->offset) % pages[i] == 0));
        }
        most = fits ? pages[i] : most;
    }
    if (n > 1 && most < pages[n - 1] && (!ret->page_size_max || most < ret->page_size_max)) {
        ret->page_size_max = most;
        ret->page_from = o->path;
    }
}

/* ------------------------------------------------------------------ a GPU */

static bool cuda_serves(const struct needs *n, const struct host_gpu *g)
{
    const char *text = g->compute_capability.value;
    uint64_t major = 0, minor = 0;
    struct str rest = str_of(text), head = str_cut(&rest, '.');
    if (!n->cuda_known || g->compute_capability.state != HOST_YES || !rest.s ||
        !str_u64(head, &major) || !str_u64(rest, &minor)) {
        return true;
    }
    for (size_t i = 0; i < n->cuda.n; i++) {
        const struct needs_range *r = &n->cuda.items[i];
        if (major * 10 + minor >= r->from && major * 10 + minor <= r->to) {
            return true;
        }
    }
    return false;
}

static bool hip_serves(const struct needs *n, const struct host_gpu *g)
{
    bool found = !n->gfx_known || g->gfx.state != HOST_YES || !g->gfx.value;
    for (size_t i = 0; i < n->gfx.n && !found; i++) {
        found = strcmp(n->gfx.items[i], g->gfx.value) == 0;
    }
    return found;
}

bool needs_gpu_serves(const struct needs *n, const struct host_gpu *g)
{
    return g->usable != HOST_NO && ((n->nvidia && g->vendor == HOST_NVIDIA && cuda_serves(n, g)) ||
                                    (n->amd && g->vendor == HOST_AMD && hip_serves(n, g)));
}

/* ------------------------------------------------------------------ all of it */

/* What a library needs that is not loaded here is not seen. */
static void add_failed_imports(struct model *m, struct needs *ret)
{
    for (size_t i = 0; i < m->processes.n; i++) {
        const struct model_process *p = m->processes.items[i];
        for (size_t k = 0; k < p->attempts.n; k++) {
            const struct model_attempt *at = &p->attempts.items[k];
            if (at->failed && at->required && at->phase == MODEL_IMPORT && at->package) {
                put_once(m->arena, &ret->unknown,
                         arena_printf(m->arena,
                                      "what else %s needs: it cannot be imported here (gpumend "
                                      "check says why)",
                                      at->package));
            }
        }
    }
}

void needs_find(struct model *m, bool is_image, struct needs *ret)
{
    bool unknown = false;
    object_list objects = objects_of(m);
    *ret = (struct needs){0};
    ret->nvidia = diag_asks_for_gpu(m, HOST_NVIDIA, &ret->nvidia_who);
    ret->amd = diag_asks_for_gpu(m, HOST_AMD, &ret->amd_who);
    ret->driver = diag_driver_least(m, &ret->driver_from, &unknown, &ret->own_libcuda);
    if (unknown) {
        VEC_PUSH(m->arena, &ret->unknown,
                 "which driver one of the CUDA runtimes that it loads needs");
    }
    if (ret->nvidia && !ret->driver && !unknown) {
        VEC_PUSH(
            m->arena, &ret->unknown,
            "which driver it needs: it loads no CUDA library that says so (gpumend check reports "
            "a missing one)");
    }
    if (ret->own_libcuda) {
        VEC_PUSH(m->arena, &ret->unknown,
                 "whether a node's GPU may use the target's own libcuda (forward compatibility is "
                 "for data-centre GPUs)");
    }
    add_failed_imports(m, ret);
    find_cuda(m, &objects, ret);
    find_gfx(m, &objects, ret);
    for (size_t i = 0; i < objects.n; i++) {
        const struct ldso_object *o = objects.items[i];
        ret->machine = ret->machine || !m->processes.items[0]->ldso
                           ? ret->machine
                           : m->processes.items[0]->ldso->machine_name;
        if (comes_along(m, o, is_image)) {
            if (!is_image) {
                raise_glibc(m, o, ret);
            }
            raise_level(o, ret);
            lower_pages(o, ret);
        }
    }
}
