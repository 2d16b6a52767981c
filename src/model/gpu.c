#include "model/gpu.h"

#include <string.h>

#include "base/pages.h"
#include "model/package.h"

/* ------------------------------------------------------------------ GPU code */

static const char *file_key(struct model *m, const char *kind, const struct ldso_file *f)
{
    return arena_printf(m->arena, "%s %llx:%llx", kind, (unsigned long long)f->dev,
                        (unsigned long long)f->ino);
}

struct kept {
    const void *value; // NULL: it cannot be read
};

static const struct gpu_code *code_of_file(struct model *m, const struct ldso_file *f,
                                           const char *path, enum gpu_reading reading)
{
    const char *key = file_key(m, reading == GPU_READ_ALL ? "gpu code, all" : "gpu code", f);
    struct kept *kept = ldso_store_recall(m->store, key);
    if (!kept) {
        struct gm_err err;
        struct gpu_code *code = arena_alloc(m->arena, sizeof *code);
        kept = arena_alloc(m->arena, sizeof *kept);
        int rc = gpu_code_read_file(m->root, m->arena, path, reading, code, &err);
        kept->value = rc < 0 ? NULL : code;
        ldso_store_remember(m->store, key, kept);
    }
    return kept->value;
}

const struct gpu_code *model_gpu_code(struct model *m, const struct ldso_object *o,
                                      enum gpu_reading reading)
{
    return o->file ? code_of_file(m, o->file, model_absolute(m, o->path), reading) : NULL;
}

const struct gpu_data *model_gpu_data(struct model *m, const char *folder)
{
    const char *key = arena_printf(m->arena, "gpu data %s", folder);
    struct kept *kept = ldso_store_recall(m->store, key);
    if (!kept) {
        struct gm_err err;
        struct gpu_data *data = arena_alloc(m->arena, sizeof *data);
        kept = arena_alloc(m->arena, sizeof *kept);
        kept->value = gpu_data_read(m->root, m->arena, folder, data, &err) < 0 ? NULL : data;
        ldso_store_remember(m->store, key, kept);
    }
    return kept->value;
}

/* ------------------------------------------------------------------ builds */

enum { LISTED_MAX = 4096 };

static bool needs_any(const struct elf_image *e, const char *const *globs, size_t n)
{
    for (size_t i = 0; i < e->n_needs; i++) {
        for (size_t k = 0; k < n; k++) {
            if (str_glob(globs[k], e->needs[i].name)) {
                return true;
            }
        }
    }
    return false;
}

static bool has_section(const struct elf_image *e, const char *name)
{
    uint64_t offset = 0, size = 0;
    return elf_section(e, name, &offset, &size);
}

/* Bundled copies have names of their own: libamdhip64-0f8d2c3e.so.7. */
static enum model_build build_of_image(const struct elf_image *e)
{
    static const char *const hip[] = {"libamdhip64*.so*", "libhipblas*.so*", "librocblas*.so*",
                                      "libMIOpen*.so*"};
    static const char *const cuda[] = {"libcudart*.so*", "libcublas*.so*", "libcudnn*.so*",
                                       "libcuda.so*"};
    if (needs_any(e, hip, sizeof hip / sizeof *hip) || has_section(e, ".hip_fatbin")) {
        return MODEL_BUILD_HIP;
    }
    if (needs_any(e, cuda, sizeof cuda / sizeof *cuda) || has_section(e, ".nv_fatbin")) {
        return MODEL_BUILD_CUDA;
    }
    return has_section(e, ".text") ? MODEL_BUILD_CPU : MODEL_BUILD_UNKNOWN;
}

enum model_build model_build_of(const struct ldso_object *o)
{
    return o->file ? build_of_image(&o->file->image) : MODEL_BUILD_UNKNOWN;
}

/* Of the first file of a folder whose name fits and that says it. */
static enum model_build build_in(struct model *m, const char *folder, const char *glob)
{
    struct root_dir list;
    enum model_build found = MODEL_BUILD_UNKNOWN;
    const struct root_filter fitting = {root_fits_glob, (void *)(uintptr_t)glob};
    if (root_list(m->root, m->arena, folder, LISTED_MAX, &fitting, &list) < 0) {
        return MODEL_BUILD_UNKNOWN;
    }
    for (size_t i = 0; i < list.n && found == MODEL_BUILD_UNKNOWN; i++) {
        const struct ldso_entry *e =
            ldso_store_get(m->store, path_join(m->arena, folder, list.names[i]));
        bool read = e->open_errno == 0 && e->file && e->file->image.state == ELF_STATE_OK;
        found = read ? build_of_image(&e->file->image) : found;
    }
    return found;
}

/* Wheels have the library in the first folder, builds of one's own in either. */
static enum model_build ctranslate2_build(struct model *m, const struct py_dist *dist)
{
    static const char *const folders[] = {"ctranslate2.libs", "ctranslate2"};
    enum model_build found = MODEL_BUILD_UNKNOWN;
    for (size_t i = 0; i < 2 && dist->site && found == MODEL_BUILD_UNKNOWN; i++) {
        found = build_in(m, path_join(m->arena, dist->site, folders[i]), "libctranslate2*.so*");
    }
    return found;
}

static enum model_build torch_build(struct model *m)
{
    const struct model_torch *t = model_torch(m);
    return !t->known ? MODEL_BUILD_UNKNOWN
           : t->hip  ? MODEL_BUILD_HIP
           : t->cuda ? MODEL_BUILD_CUDA
                     : MODEL_BUILD_CPU;
}

enum model_build model_build_of_dist(struct model *m, const struct py_dist *dist)
{
    const char *key = arena_printf(m->arena, "build of %s", dist->info);
    enum model_build *kept = ldso_store_recall(m->store, key);
    if (!kept) {
        kept = arena_alloc(m->arena, sizeof *kept);
        *kept = strcmp(dist->name_normal, "ctranslate2") == 0 ? ctranslate2_build(m, dist)
                : strcmp(dist->name_normal, "torch") == 0     ? torch_build(m)
                                                              : MODEL_BUILD_UNKNOWN;
        ldso_store_remember(m->store, key, kept);
    }
    return *kept;
}

/* Of the first file of a folder whose name fits and that has code. */
static const struct gpu_code *code_in(struct model *m, const char *folder, const char *glob)
{
    struct root_dir list;
    const struct root_filter fitting = {root_fits_glob, (void *)(uintptr_t)glob};
    if (root_list(m->root, m->arena, folder, LISTED_MAX, &fitting, &list) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < list.n; i++) {
        const char *path = path_join(m->arena, folder, list.names[i]);
        const struct ldso_entry *e = ldso_store_get(m->store, path);
        const struct gpu_code *code = e->open_errno == 0 && e->file
                                          ? code_of_file(m, e->file, path, GPU_READ_SECTIONS)
                                          : NULL;
        if (code && (code->n_targets || code->cuda.n_containers)) {
            return code;
        }
    }
    return NULL;
}

const struct gpu_code *model_gpu_code_of_dist(struct model *m, const struct py_dist *dist)
{
    static const char *const places[][3] = {
        {"ctranslate2", "ctranslate2.libs", "libctranslate2*.so*"},
        {"ctranslate2", "ctranslate2", "libctranslate2*.so*"},
        {"torch", "torch/lib", "libtorch_hip.so"},
    };
    const struct gpu_code *found = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && dist->site && !found; i++) {
        if (strcmp(dist->name_normal, places[i][0]) == 0) {
            found = code_in(m, path_join(m->arena, dist->site, places[i][1]), places[i][2]);
        }
    }
    return found;
}

const char *model_build_name(enum model_build build)
{
    static const char *const names[] = {[MODEL_BUILD_UNKNOWN] = "",
                                        [MODEL_BUILD_CPU] = "cpu",
                                        [MODEL_BUILD_CUDA] = "cuda",
                                        [MODEL_BUILD_HIP] = "hip"};
    return names[build];
}

/* ------------------------------------------------------------------ numpy */

static const char old_module[] = "numpy.core._multiarray_umath";
static const char new_module[] = "numpy._core._multiarray_umath";
static const char target_mark[] = "NumPy C-API version 0x%x (NumPy ";

enum { WINDOW = 1 << 20, OVERLAP = 256 };

struct found {
    bool has_old, has_new;
    unsigned major, minor;
};

/* "1.20)" -> 1, 20 */
static void found_read_target(struct str s, struct found *ret)
{
    uint64_t major = 0, minor = 0;
    struct str number = str_cut(&s, ')');
    struct str head = str_cut(&number, '.');
    if (s.s && str_u64(head, &major) && str_u64(number, &minor) && major < 100 && minor < 1000) {
        ret->major = (unsigned)major;
        ret->minor = (unsigned)minor;
    }
}

/* The texts begin behind a NUL, or at the start of the section. */
static bool window_holds(struct str window, const char *text)
{
    return memmem(window.s, window.n, text, strlen(text) + 1) != NULL;
}

static void window_look(struct str window, struct found *ret)
{
    ret->has_old = ret->has_old || window_holds(window, old_module);
    ret->has_new = ret->has_new || window_holds(window, new_module);
    const char *mark = memmem(window.s, window.n, target_mark, sizeof target_mark - 1);
    if (mark) {
        const char *rest = mark + sizeof target_mark - 1;
        found_read_target((struct str){rest, (size_t)(window.s + window.n - rest)}, ret);
    }
}

/* Window by window, each given back before the next, so that memory stays small. */
static void found_search(const unsigned char *data, uint64_t size, struct found *ret)
{
    for (uint64_t at = 0; at < size; at += WINDOW) {
        uint64_t n = size - at < WINDOW + OVERLAP ? size - at : WINDOW + OVERLAP;
        window_look((struct str){(const char *)data + at, n}, ret);
        pages_give_back(data + at, n);
    }
}

const struct model_numpy *model_numpy_of(struct model *m, const struct ldso_object *o)
{
    const char *key = o->file ? file_key(m, "numpy", o->file) : NULL;
    struct model_numpy *known = key ? ldso_store_recall(m->store, key) : NULL;
    if (known) {
        return known;
    }
    struct model_numpy *ret = arena_alloc(m->arena, sizeof *ret);
    uint64_t offset = 0, size = 0;
    struct found found = {0};
    if (o->file && elf_section(&o->file->image, ".rodata", &offset, &size) &&
        elf_bytes(&o->file->image, offset, size)) {
        found_search(elf_bytes(&o->file->image, offset, size), size, &found);
    }
    ret->headers = found.has_new ? 2 : found.has_old ? 1 : 0;
    ret->target_major = found.has_new ? found.major : 0;
    ret->target_minor = found.has_new ? found.minor : 0;
    if (key) {
        ldso_store_remember(m->store, key, ret);
    }
    return ret;
}
