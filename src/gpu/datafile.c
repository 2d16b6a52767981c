#include "gpu/datafile.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "gpu/internal.h"

enum { FILES_MAX = 1 << 16, FOLDERS_MAX = 64 };

/* The longest processor name that `text` begins with, or NULL. "gfx90a68" is gfx90a with 0x68. */
static const char *processor_of(const char *text)
{
    const char *best = NULL, *name;
    for (size_t i = 0; (name = gpu_amdgpu_name(i)) != NULL; i++) {
        if (starts_with(text, name) && (!best || strlen(name) > strlen(best))) {
            best = name;
        }
    }
    return best;
}

static enum gpu_data_kind data_kind(const char *name)
{
    static const struct {
        const char *end;
        enum gpu_data_kind kind;
    } ends[] = {
        {".dat", GPU_DATA_INDEX},     {".yaml", GPU_DATA_INDEX},    {".co", GPU_DATA_KERNELS},
        {".hsaco", GPU_DATA_KERNELS}, {".db.txt", GPU_DATA_TUNING}, {".fdb.txt", GPU_DATA_TUNING},
        {".db", GPU_DATA_TUNING},     {".kdb", GPU_DATA_TUNING},    {".model", GPU_DATA_TUNING},
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (ends_with(name, ends[i].end)) {
            return ends[i].kind;
        }
    }
    return GPU_DATA_OTHER;
}

/* Behind the processor only MIOpen's number of compute units may stand, and only there. */
static bool rest_fits(const char *rest, enum gpu_data_kind kind)
{
    if (kind != GPU_DATA_TUNING) {
        return !isalnum((unsigned char)*rest);
    }
    size_t n = 0;
    while (isxdigit((unsigned char)rest[n])) {
        n++;
    }
    return (n == 0 || (n >= 2 && n <= 3)) && !isalnum((unsigned char)rest[n]);
}

bool gpu_data_name(const char *name, struct gpu_data_name *ret)
{
    const char *at = strstr(name, "gfx");
    const char *processor =
        at && (at == name || !isalnum((unsigned char)at[-1])) ? processor_of(at) : NULL;
    enum gpu_data_kind kind = data_kind(name);
    if (!processor || strlen(processor) > 15 || !rest_fits(at + strlen(processor), kind)) {
        return false;
    }
    const char *rest = at + strlen(processor);
    const char *xnack = starts_with(rest, "-xnack-")   ? ":xnack-"
                        : starts_with(rest, "-xnack+") ? ":xnack+"
                                                       : "";
    *ret = (struct gpu_data_name){.kind = kind};
    (void)snprintf(ret->target, sizeof ret->target, "%s%s", processor, xnack);
    ret->lazy = kind == GPU_DATA_INDEX && starts_with(name, "TensileLibrary_lazy_");
    return true;
}

struct listing {
    struct arena *arena;
    VEC(struct gpu_data_row) rows;
};

static struct gpu_data_row *target_row(struct listing *l, const char *target)
{
    for (size_t i = 0; i < l->rows.n; i++) {
        if (strcmp(l->rows.items[i].target, target) == 0) {
            return &l->rows.items[i];
        }
    }
    struct gpu_data_row row = {.target = arena_strdup(l->arena, target)};
    VEC_PUSH(l->arena, &l->rows, row);
    return &l->rows.items[l->rows.n - 1];
}

static void listing_take(struct listing *l, const char *name)
{
    struct gpu_data_name n;
    if (!gpu_data_name(name, &n)) {
        return;
    }
    struct gpu_data_row *row = target_row(l, n.target);
    row->n_index += n.kind == GPU_DATA_INDEX;
    row->n_kernels += n.kind == GPU_DATA_KERNELS;
    row->n_tuning += n.kind == GPU_DATA_TUNING;
    row->n_other += n.kind == GPU_DATA_OTHER;
    row->lazy_index = row->lazy_index || n.lazy;
}

static bool names_processor(const char *name, void *arg)
{
    (void)arg;
    return strstr(name, "gfx") != NULL;
}

static int data_by_target(const void *x, const void *y)
{
    const struct gpu_data_row *a = x, *b = y;
    return strcmp(a->target, b->target);
}

/* Folders called after a processor, as newer hipBLASLt has them. */
static void listing_take_folder(struct listing *l, struct root *r, const char *path,
                                bool *truncated)
{
    struct root_dir inner;
    if (root_list(r, l->arena, path, FILES_MAX, &(struct root_filter){.keep = names_processor},
                  &inner) < 0) {
        return;
    }
    *truncated = *truncated || inner.truncated;
    for (size_t i = 0; i < inner.n; i++) {
        listing_take(l, inner.names[i]);
    }
}

int gpu_data_read(struct root *r, struct arena *a, const char *folder, struct gpu_data *ret,
                  struct gm_err *err)
{
    struct root_dir dir;
    int rc =
        root_list(r, a, folder, FILES_MAX, &(struct root_filter){.keep = names_processor}, &dir);
    if (rc < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", folder, strerror(-rc));
    }
    struct listing l = {.arena = a};
    bool truncated = dir.truncated;
    size_t folders = 0;
    for (size_t i = 0; i < dir.n; i++) {
        const char *path = path_join(a, folder, dir.names[i]);
        struct stat st;
        bool is_folder =
            starts_with(dir.names[i], "gfx") && root_stat(r, path, &st) == 0 && S_ISDIR(st.st_mode);
        if (!is_folder) {
            listing_take(&l, dir.names[i]);
        } else if (folders++ < FOLDERS_MAX) {
            listing_take_folder(&l, r, path, &truncated);
        }
    }
    if (l.rows.n) {
        qsort(l.rows.items, l.rows.n, sizeof *l.rows.items, data_by_target);
    }
    *ret = (struct gpu_data){l.rows.items, l.rows.n, truncated || folders > FOLDERS_MAX};
    return 0;
}

const struct gpu_data_row *gpu_data_find(const struct gpu_data *d, const char *processor)
{
    for (size_t i = 0; i < d->n; i++) {
        struct str target = str_of(d->rows[i].target);
        if (str_is(str_cut(&target, ':'), processor)) {
            return &d->rows[i];
        }
    }
    return NULL;
}
