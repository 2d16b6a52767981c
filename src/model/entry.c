/*
 * Entries: which of the installed GPU packages a program would import by itself, and so which
 * scripts a check models.
 *
 * The rows of kb/imports say what a package is (enum kb_role) and what its import brings; the
 * metadata of the installed distributions say what it requires.
 *
 *   entry      all others. Modelled alone; those that share a library family also in pairs,
 *              in both orders
 *   component  an application requires it, directly or through others, whether it imports it
 *              (torch of whisperx) or not (torchvision). Modelled alone, as a process with part_of:
 *              a program may import it, but what it alone lacks is not a fault of the application
 *   inner      a part of a framework (jaxlib, JAX's plugins) while that is installed: never
 *              modelled alone. At most 64 packages.
 */
#include <string.h>

#include "base/pages.h"
#include "elf/image.h"
#include "gpu/code.h"
#include "model/imports.h"
#include "model/requires.h"
#include "py/dist.h"
#include "py/owner.h"

enum { ENTRIES_MAX = 64, DISTS_MAX = 1024 };

/* An installed package whose imports kb/ knows. Sets of packages are bits of their index. */
struct candidate {
    const struct kb_import *row;
    struct py_dist *dist;
    uint64_t brings;   // whose imports are part of importing or using this one
    uint64_t requires; // of an application: which its requirements install
    uint64_t families; // that its own process touches
    const struct candidate *part_of;
    bool inner; // a part of a framework that nobody imports by itself
};

struct candidates {
    struct model *m;
    struct candidate items[ENTRIES_MAX];
    size_t n;
};

static uint64_t entry_bit(size_t i)
{
    return (uint64_t)1 << i;
}

/* ------------------------------------------------------------------ who imports whom */

static bool row_imports(const struct kb_import *row, const char *package)
{
    for (size_t i = 0; i < row->n_steps; i++) {
        const struct kb_step *s = &row->steps[i];
        if (s->kind == KB_STEP_IMPORT && strcmp(s->package, package) == 0) {
            return true;
        }
    }
    return false;
}

static void find_brought(struct candidates *c)
{
    for (size_t i = 0; i < c->n; i++) {
        for (size_t k = 0; k < c->n; k++) {
            c->items[i].brings |=
                row_imports(c->items[i].row, c->items[k].row->package) ? entry_bit(k) : 0;
        }
    }
    for (size_t via = 0; via < c->n; via++) {
        for (size_t i = 0; i < c->n; i++) {
            c->items[i].brings |= c->items[i].brings & entry_bit(via) ? c->items[via].brings : 0;
        }
    }
}

/* ------------------------------------------------------------------ who requires whom */

typedef VEC(struct py_dist *) dist_list;

static void push_once(struct model *m, dist_list *list, struct py_dist *dist)
{
    for (size_t i = 0; i < list->n; i++) {
        if (list->items[i] == dist) {
            return;
        }
    }
    if (dist && list->n < DISTS_MAX) {
        VEC_PUSH(m->arena, list, dist);
    } else if (dist && !m->unsure) {
        m->unsure = arena_printf(m->arena,
                                 "%s requires more than %d packages; which of them belong "
                                 "to it was not judged",
                                 list->items[0]->name, DISTS_MAX);
    }
}

static void push_required(struct model *m, dist_list *list, struct py_dist *dist,
                          const struct py_marker_env *markers)
{
    const struct py_metadata *meta = py_dist_metadata(m->env, dist);
    struct py_requirement q;
    struct gm_err err;
    for (size_t i = 0; meta && i < meta->n_requires_dist; i++) {
        if (py_requirement_parse(m->arena, meta->requires_dist[i], &q, &err) == 0 &&
            py_marker_eval(m->arena, q.marker, markers) == PY_YES) {
            push_once(m, list, py_env_by_dist(m->env, str_dup(m->arena, q.name)));
        }
    }
}

/* Which candidates its requirements install, directly or through others. */
static void find_required(struct candidates *c, struct candidate *x,
                          const struct py_marker_env *markers)
{
    dist_list list = {0};
    uint64_t all = c->n < ENTRIES_MAX ? entry_bit(c->n) - 1 : UINT64_MAX;
    uint64_t others = all & ~entry_bit((size_t)(x - c->items));
    push_once(c->m, &list, x->dist);
    for (size_t i = 0; i < list.n && x->requires != others; i++) {
        push_required(c->m, &list, list.items[i], markers);
        for (size_t k = 0; k < c->n; k++) {
            for (size_t j = 1; j < list.n; j++) {
                x->requires |= list.items[j] == c->items[k].dist ? entry_bit(k) : 0;
            }
        }
    }
}

/* ------------------------------------------------------------------ entries and parts */

/* The application that requires candidate `i` and is no part of another itself. */
static const struct candidate *application_of(const struct candidates *c, size_t i)
{
    const struct candidate *found = NULL;
    for (size_t k = 0; k < c->n; k++) {
        const struct candidate *x = &c->items[k];
        bool whole = k != i && x->row->role == KB_ROLE_APPLICATION &&
                     (x->requires & entry_bit(i)) && !(c->items[i].requires & entry_bit(k));
        if (whole && (!found || (x->requires & entry_bit((size_t)(found - c->items))))) {
            found = x;
        }
    }
    return found;
}

static bool is_inner(const struct candidates *c, size_t i)
{
    for (size_t k = 0; k < c->n && c->items[i].row->role == KB_ROLE_PART; k++) {
        if (c->items[k].row->role != KB_ROLE_PART && (c->items[k].brings & entry_bit(i))) {
            return true;
        }
    }
    return false;
}

static void sort_out(struct candidates *c)
{
    struct py_marker_env markers = model_markers(c->m);
    find_brought(c);
    for (size_t i = 0; i < c->n; i++) {
        if (c->items[i].row->role == KB_ROLE_APPLICATION) {
            find_required(c, &c->items[i], &markers);
        }
    }
    for (size_t i = 0; i < c->n; i++) {
        c->items[i].inner = is_inner(c, i);
        c->items[i].part_of = application_of(c, i);
    }
}

/* ------------------------------------------------------------------ the scripts */

/* Whether importing a package loads libraries of its own, and not only through other packages. */
static bool loads_itself(const struct kb_import *row)
{
    for (size_t i = 0; i < row->n_steps; i++) {
        if (row->steps[i].kind != KB_STEP_IMPORT) {
            return true;
        }
    }
    return false;
}

static bool in_family(const struct kb_family *f, const struct ldso_object *o)
{
    return kb_family_has(f, path_base(o->path)) || (o->soname && kb_family_has(f, o->soname));
}

/* The families a process touches, as bits of the family table; the driver's is left out, since
 * every GPU program shares it. */
static uint64_t families_of(const struct model *m, const struct model_process *p)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < m->families.n && i < 64; i++) {
        const struct kb_family *f = &m->families.rows[i];
        bool hit = false;
        for (size_t k = 0; k < p->attempts.n && !hit; k++) {
            const char *family = p->attempts.items[k].family;
            hit = family && strcmp(family, f->id) == 0;
        }
        for (size_t k = 0; p->ldso && k < p->ldso->objects.n && !hit; k++) {
            hit = in_family(f, p->ldso->objects.items[k]);
        }
        if (hit && strcmp(f->id, "driver") != 0) {
            bits |= entry_bit(i);
        }
    }
    return bits;
}

static bool is_entry(const struct candidate *x)
{
    return !x->inner && !x->part_of;
}

/* A component alone: the application in all of its processes. */
static void add_component(struct model *m, const struct candidate *x)
{
    size_t first = m->processes.n;
    (void)model_add_imports(m, &x->row->module, 1); // kept in the model
    for (size_t i = first; i < m->processes.n; i++) {
        m->processes.items[i]->part_of = x->part_of->row->module;
    }
}

static void add_alone(struct candidates *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct candidate *x = &c->items[i];
        if (is_entry(x)) {
            x->families = families_of(c->m, model_add_imports(c->m, &x->row->module, 1));
        }
    }
    for (size_t i = 0; i < c->n; i++) {
        const struct candidate *x = &c->items[i];
        if (!x->inner && x->part_of) {
            add_component(c->m, x);
        }
    }
}

/* Whether an entry loads something that no other entry stands for: itself, or by a part. */
static bool is_of_its_own(const struct candidates *c, const struct candidate *x)
{
    bool own = loads_itself(x->row);
    for (size_t k = 0; k < c->n && !own; k++) {
        own =
            (x->brings & entry_bit(k)) && !is_entry(&c->items[k]) && loads_itself(c->items[k].row);
    }
    return own && is_entry(x);
}

static void add_pairs(struct candidates *c)
{
    for (size_t i = 0; i < c->n; i++) {
        for (size_t k = 0; k < c->n && is_of_its_own(c, &c->items[i]); k++) {
            const struct candidate *x = &c->items[i], *y = &c->items[k];
            const char *pair[2] = {x->row->module, y->row->module};
            if (i != k && (x->families & y->families) && is_of_its_own(c, y)) {
                (void)model_add_imports(c->m, pair, 2); // kept in the model
            }
        }
    }
}

static void find_candidates(struct candidates *c)
{
    struct model *m = c->m;
    for (size_t i = 0; i < m->imports.n; i++) {
        const struct kb_import *row = &m->imports.rows[i];
        struct py_dist *dist = py_env_by_dist(m->env, row->package);
        if (!dist || !model_version_fits(m->arena, row->versions, dist->version)) {
            continue;
        }
        VEC_PUSH(m->arena, &m->known, dist);
        const struct kb_import *present;
        (void)model_find_import(m, row->module, &present); // of two packages the one that is there
        bool is_gone = present && present != row && strcmp(present->module, row->module) == 0 &&
                       py_env_by_dist(m->env, present->package) != dist;
        if (!is_gone && c->n < ENTRIES_MAX) {
            c->items[c->n++] = (struct candidate){.row = row, .dist = dist};
        } else if (!is_gone && !m->unsure) {
            m->unsure = arena_printf(m->arena,
                                     "more than %d packages whose imports are known are "
                                     "installed; %s and those behind it were not judged",
                                     ENTRIES_MAX, dist->name);
        }
    }
}

/* ------------------------------------------------------------------ what is not known */

enum {
    LARGE_BYTES = 1 << 20,
    WINDOW = 1 << 20 // of a library's constants that are mapped at once
};

/* Whether a library lies where NVIDIA's wheels put those that are only there for others. */
static bool is_for_others(struct model *m, const struct py_dist *dist, const char *path)
{
    const char *folder = path_base(path_dir(m->arena, path));
    return starts_with(dist->name_normal, "nvidia-") &&
           (strcmp(folder, "lib") == 0 || strcmp(folder, "lib64") == 0);
}

/* A package that only brings libraries for others: NVIDIA's wheels. */
static bool only_provides(const struct kb_provides *rows, const struct py_dist *dist)
{
    for (size_t i = 0; i < rows->n; i++) {
        for (size_t k = 0; k < rows->rows[i].n_providers; k++) {
            const struct kb_provider *v = &rows->rows[i].providers[k];
            if (v->manager == KB_MANAGER_PIP && strcmp(v->package, dist->name_normal) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool is_known_dist(const struct model *m, const struct py_dist *dist)
{
    for (size_t i = 0; i < m->known.n; i++) {
        if (m->known.items[i] == dist) {
            return true;
        }
    }
    return false;
}

/* A library that is linked with one of a GPU's: of any vendor, the driver's as well. */
static bool needs_family(const struct model *m, const struct ldso_entry *e)
{
    for (size_t i = 0; e->file && i < e->file->image.n_needs; i++) {
        if (kb_family_of(&m->families, e->file->image.needs[i].name)) {
            return true;
        }
    }
    return false;
}

/* Whether one of the texts in n bytes is this one; each ends with a NUL. */
static bool holds_text(const char *data, size_t n, const char *text)
{
    size_t length = strlen(text) + 1;
    for (const char *p = data; (p = memmem(p, n - (size_t)(p - data), text, length)); p++) {
        if (p == data || p[-1] == '\0') {
            return true;
        }
    }
    return false;
}

static bool calls_dlopen(const struct elf_image *e)
{
    uint32_t n = elf_symbol_undef_count(e);
    struct elf_symbol symbol;
    for (uint32_t i = 1; i < n; i++) {
        if (elf_symbol_at(e, i, &symbol) && symbol.shndx == SHN_UNDEF &&
            strcmp(symbol.name, "dlopen") == 0) {
            return true;
        }
    }
    return false;
}

/* From the first to the last byte of the sections for constants: some linkers, as mold, keep those
 * for texts apart. */
static struct str elf_constants(const struct elf_image *e)
{
    static const char *const names[] = {".rodata", ".rodata.str1.1", ".rodata.str1.8",
                                        ".rodata.str1.16"};
    uint64_t first = UINT64_MAX, end = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint64_t offset, size;
        if (elf_section(e, names[i], &offset, &size)) {
            first = offset < first ? offset : first;
            end = offset + size > end ? offset + size : end;
        }
    }
    const char *data = end ? (const char *)elf_bytes(e, first, end - first) : NULL;
    return (struct str){.s = data, .n = data ? (size_t)(end - first) : 0};
}

/* Whether a library calls dlopen and holds the file name of a driver's library as a text of its
 * own, which it then passes to dlopen. */
static bool names_driver(const struct ldso_entry *e)
{
    static const char *const names[] = {"libcuda.so", "libcuda.so.1", "libamdhip64.so",
                                        "libze_loader.so.1"};
    if (!e->file || !calls_dlopen(&e->file->image)) {
        return false;
    }
    struct str all = elf_constants(&e->file->image);
    bool found = false;
    for (size_t at = 0; at < all.n && !found; at += WINDOW) {
        size_t n = all.n - at < WINDOW + 32 ? all.n - at : WINDOW + 32; // a name may span two
        for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++) {
            found = holds_text(all.s + at, n, names[i]);
        }
        pages_give_back(all.s + at, n);
    }
    return found;
}

static bool path_has_gpu_code(struct model *m, const char *path)
{
    struct gpu_code code;
    struct gm_err err;
    return gpu_code_read_file(m->root, m->arena, path, GPU_READ_SECTIONS, &code, &err) == 0 &&
           (code.cuda.n_containers || code.n_targets);
}

/* Whether the wheel brings a library of another project, as auditwheel places it: FFmpeg's open the
 * driver's where the program asks them to, which says nothing of the package (PyAV). */
static bool is_bundled(struct model *m, const char *path)
{
    return ends_with(path_base(path_dir(m->arena, path)), ".libs");
}

/* Whether a distribution uses a GPU, by its libraries: what any of them is linked with, the code in
 * the large ones and, with `by_name`, which library of a driver they open themselves. */
static bool uses_gpu(struct model *m, const struct py_dist *dist, bool by_name)
{
    struct py_libraries list;
    (void)py_dist_libraries(m->env, dist, &list); // empty without a RECORD
    for (size_t i = 0; i < list.rows.n; i++) {
        const struct py_record_row *row = &list.rows.items[i];
        const char *path = path_join(m->arena, dist->site, str_dup(m->arena, row->path));
        if (is_for_others(m, dist, path)) {
            continue;
        }
        const struct ldso_entry *e = ldso_store_get(m->store, path);
        bool large = row->has_size && row->size_bytes > LARGE_BYTES;
        if (needs_family(m, e) || (large && path_has_gpu_code(m, path)) ||
            (by_name && !is_bundled(m, path) && names_driver(e))) {
            return true;
        }
    }
    return false;
}

/* Whether other releases of it are known to open libraries: this one may do so in its Python code,
 * as numba-cuda does, which has no library of its own. */
static bool is_known_otherwise(const struct model *m, const struct py_dist *dist)
{
    for (size_t i = 0; i < m->imports.n; i++) {
        const struct kb_import *row = &m->imports.rows[i];
        bool it = strcmp(row->package, dist->name_normal) == 0;
        for (size_t k = 0; it && k < row->n_steps; k++) {
            if (row->steps[k].kind != KB_STEP_IMPORT) {
                return true;
            }
        }
    }
    return false;
}

/* Whether its files are those of a package that was installed over it and is looked at. */
static bool is_judged_as_other(struct model *m, const struct py_dist *dist)
{
    const struct py_dist *by = model_overwriter(m, dist);
    return by && is_known_dist(m, by);
}

typedef VEC(const char *) text_list;

/* Installed packages that use a GPU, and of whose imports no row speaks: they were not looked at.
 * Names inside libraries are only searched where they decide the verdict: triton alone has 500 MB.
 */
static void find_unknown(struct model *m, bool by_name, text_list *ret)
{
    struct kb_provides rows;
    struct gm_err err;
    if (!m->env || kb_provides(m->kb, &rows, &err) < 0) {
        return;
    }
    for (size_t i = 0; i < m->env->n_dists; i++) {
        const struct py_dist *dist = &m->env->dists[i];
        if (!dist->shadowed_by && !is_known_dist(m, dist) && !only_provides(&rows, dist) &&
            (is_known_otherwise(m, dist) || uses_gpu(m, dist, by_name)) &&
            !is_judged_as_other(m, dist)) {
            VEC_PUSH(m->arena, ret,
                     arena_printf(m->arena,
                                  "%s %s uses a GPU, but gpumend does not know what its import "
                                  "loads: it was not looked at",
                                  dist->name_normal, dist->version ? dist->version : ""));
        }
    }
}

/* Whether importing the known packages loads nothing: bindings (cuda-bindings), whose libraries
 * depend on what another package calls. */
static bool are_bindings(const struct candidates *c)
{
    for (size_t i = 0; i < c->n; i++) {
        for (size_t k = 0; k < c->items[i].row->n_steps; k++) {
            if (c->items[i].row->steps[k].kind != KB_STEP_IMPORT) {
                return false;
            }
        }
    }
    return true;
}

/* Where no package is known, or only bindings are, they are all that matters. */
static void note_unknown(const struct candidates *c)
{
    struct model *m = c->m;
    bool decides = m->processes.n == 0 || are_bindings(c);
    text_list list = {0};
    find_unknown(m, decides, &list);
    bool alone = m->processes.n == 0 || (decides && list.n);
    struct model_process *p = alone ? model_add_script(m, NULL, 0) : NULL;
    for (size_t i = 0; i < list.n; i++) {
        if (p) { // the interpreter alone
            VEC_PUSH(m->arena, &p->unknown, list.items[i]);
            p->unsure = true;
        } else {
            VEC_PUSH(m->arena, &m->notes, list.items[i]);
        }
    }
}

void model_add_default_scripts(struct model *m, const char *const *names, size_t n)
{
    struct candidates c = {.m = m};
    find_candidates(&c);
    m->imports_named = n > 0;
    if (n) {
        (void)model_add_imports(m, names, n); // kept in the model
    } else {
        sort_out(&c);
        add_alone(&c);
        add_pairs(&c);
        note_unknown(&c);
    }
    if (m->processes.n == 0) {
        (void)model_add_script(m, NULL, 0); // the interpreter alone, kept in the model
    }
}
