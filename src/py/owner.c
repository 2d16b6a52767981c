#include "py/owner.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "py/internal.h"

/* What the path of every shared library holds, and hardly another one. */
#define LIBRARY_MARK ".so"

enum { CONDA_META_BYTES_MAX = 8 << 20, SCRATCH_BYTES_MAX = 1 << 20 };

/* One file: the row points into the text of a RECORD. */
struct owned {
    uint64_t hash;        // of the normalised absolute path
    struct py_dist *dist; // its site is what the row's path is relative to
    struct py_record_row row;
};

struct slot {
    uint64_t hash;
    const struct owned *file;
};

/* Of a RECORD's thousands of rows a check asks for a few libraries: libraries have an index of
 * their own, which is built without parsing the other rows. */
enum owned_kind { OWNED_LIBRARIES, OWNED_ALL };

struct py_owner_index {
    VEC(struct owned) files;
    struct slot *sorted; // by hash; of equal ones the earlier on sys.path first
    size_t bytes_left;   // of RECORD files that may still be read
};

/* Whether path_normal() would surely leave the text as it is. */
static bool path_is_plain(struct str path)
{
    bool at_start = true; // of a component
    for (size_t i = 0; i < path.n; i++) {
        if (at_start && (path.s[i] == '.' || path.s[i] == '/')) {
            return false;
        }
        at_start = path.s[i] == '/';
    }
    return !at_start;
}

static uint64_t hash_more(uint64_t h, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (unsigned char)s[i]) * 0x100000001b3u; // FNV-1a, as str_hash()
    }
    return h;
}

static char *row_path(struct arena *a, const char *base, struct str path)
{
    char *text = str_dup(a, path);
    return path_normal(a, text[0] == '/' ? text : path_join(a, base, text));
}

/* The hash of the row's absolute path; `base_hash` is that of "BASE/". */
static uint64_t row_hash(struct arena *scratch, const char *base, uint64_t base_hash,
                         struct str path)
{
    if (path_is_plain(path)) {
        return hash_more(base_hash, path.s, path.n);
    }
    char *normal = row_path(scratch, base, path);
    return str_hash(normal, strlen(normal));
}

/* The files of a conda package as rows without hashes, one a line. */
static int read_conda_files(struct py_env *env, const struct py_dist *dist, struct str *ret)
{
    struct str text;
    int rc = root_read(env->root, env->arena, dist->info, CONDA_META_BYTES_MAX, &text);
    if (rc < 0) {
        return rc;
    }
    json_t *doc = json_loadb(text.s, text.n, 0, NULL);
    json_t *files = json_object_get(doc, "files");
    size_t n = 0, i;
    json_t *file;
    char *out = arena_alloc(env->arena, text.n + 1); // a row is shorter than its JSON text
    json_array_foreach(files, i, file)
    {
        const char *path = json_string_value(file);
        size_t length = path ? json_string_length(file) : 0;
        if (length && !memchr(path, '\n', length) && path[0] != '"' && !strchr(path, ',')) {
            memcpy(out + n, path, length);
            n += length;
            out[n++] = '\n';
        }
    }
    json_decref(doc);
    *ret = (struct str){out, n};
    return doc ? 0 : -EINVAL;
}

static bool is_library_name(const char *path)
{
    return strstr(path_base(path), LIBRARY_MARK) != NULL;
}

/* The lines that name libraries. A quoted row may hold line ends: then all of them. */
static struct str library_lines(struct arena *a, struct str rows)
{
    if (memchr(rows.s, '"', rows.n)) {
        return (struct str){arena_strndup(a, rows.s, rows.n), rows.n};
    }
    char *out =
        arena_alloc(a, rows.n + 1); // as large as all rows: what is not written costs nothing
    size_t n = 0;
    struct str rest = rows;
    for (size_t at; (at = str_find(rest, LIBRARY_MARK)) < rest.n;) {
        const char *start = memrchr(rest.s, '\n', at);
        start = start ? start + 1 : rest.s;
        const char *limit = rest.s + rest.n;
        const char *end = memchr(rest.s + at, '\n', rest.n - at);
        end = end ? end + 1 : limit;
        memcpy(out + n, start, (size_t)(end - start));
        n += (size_t)(end - start);
        rest = (struct str){end, (size_t)(limit - end)};
    }
    return (struct str){out, n};
}

static int read_library_rows(struct py_env *env, const char *path, struct str *ret)
{
    const void *data = NULL;
    size_t size = 0;
    struct stat st;
    int rc = root_map(env->root, path, &data, &size, &st);
    if (rc < 0) {
        return rc;
    }
    if (size > PY_RECORD_BYTES_MAX) {
        rc = -EFBIG;
    } else if (size) {
        *ret = library_lines(env->arena, (struct str){data, size});
    }
    if (data) {
        (void)munmap((void *)(uintptr_t)data, size); // our own mapping
    }
    return rc;
}

static int read_rows(struct py_env *env, const struct py_dist *dist, enum owned_kind kind,
                     struct str *ret)
{
    if (dist->kind == PY_DIST_CONDA) {
        return read_conda_files(env, dist, ret);
    }
    const char *path = path_join(env->arena, dist->info, "RECORD");
    if (kind == OWNED_LIBRARIES) {
        return read_library_rows(env, path, ret);
    }
    return root_read(env->root, env->arena, path, PY_RECORD_BYTES_MAX, ret);
}

static bool rows_of(struct py_env *env, const struct py_dist *dist, enum owned_kind kind,
                    struct str *ret)
{
    *ret = (struct str){0};
    if (dist->kind == PY_DIST_EGG) {
        return false; // egg-info has no RECORD
    }
    int rc = read_rows(env, dist, kind, ret);
    if (rc < 0 && rc != -ENOENT) {
        py_note(env, "%s: list of files: %s", dist->info, py_why(rc));
        env->cut |= rc == -EFBIG;
    }
    return rc == 0;
}

static void index_rows(struct py_env *env, struct py_owner_index *index, struct py_dist *dist,
                       struct str rest)
{
    struct py_record_row row;
    struct arena scratch = {0};
    const char *slash = dist->site[1] ? "/" : "";
    uint64_t base_hash = str_hash(dist->site, strlen(dist->site));
    base_hash = hash_more(base_hash, slash, strlen(slash));
    arena_init(&scratch, 0, env->arena->oom, env->arena->oom_arg);
    while (index->files.n < PY_OWNED_FILES_MAX && py_record_next(env->arena, &rest, &row)) {
        uint64_t hash = row_hash(&scratch, dist->site, base_hash, row.path);
        VEC_PUSH(env->arena, &index->files, (struct owned){hash, dist, row});
        if (scratch.used_bytes > SCRATCH_BYTES_MAX) {
            arena_release(&scratch);
            arena_init(&scratch, 0, env->arena->oom, env->arena->oom_arg);
        }
    }
    arena_release(&scratch);
}

static int by_hash(const void *x, const void *y)
{
    const struct slot *a = x, *b = y;
    return a->hash != b->hash ? (a->hash > b->hash) - (a->hash < b->hash)
                              : (a->file > b->file) - (a->file < b->file);
}

static void index_sort(struct py_env *env, struct py_owner_index *index)
{
    index->sorted = arena_array(env->arena, index->files.n + 1, sizeof *index->sorted);
    for (size_t i = 0; i < index->files.n; i++) {
        index->sorted[i] = (struct slot){index->files.items[i].hash, &index->files.items[i]};
    }
    qsort(index->sorted, index->files.n, sizeof *index->sorted, by_hash);
}

/* Built when the first question of its kind comes. */
static struct py_owner_index *owner_index(struct py_env *env, enum owned_kind kind)
{
    if (env->owners[kind]) {
        return env->owners[kind];
    }
    struct py_owner_index *index = arena_alloc(env->arena, sizeof *index);
    index->bytes_left = PY_RECORDS_BYTES_MAX;
    for (size_t i = 0; i < env->n_dists; i++) {
        struct str rows;
        if (!rows_of(env, &env->dists[i], kind, &rows)) {
            continue;
        }
        bool too_large = rows.n > index->bytes_left;
        if (!too_large) {
            index->bytes_left -= rows.n;
            index_rows(env, index, &env->dists[i], rows);
        }
        if (too_large || index->files.n == PY_OWNED_FILES_MAX) {
            py_note(env, "too many files are recorded; from %s on they have no owner here",
                    env->dists[i].info);
            env->cut = true;
            break;
        }
    }
    index_sort(env, index);
    env->owners[kind] = index;
    return index;
}

/* The first of the sorted files whose hash is not below. */
static size_t lower_bound(const struct py_owner_index *index, uint64_t hash)
{
    size_t low = 0, high = index->files.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->sorted[middle].hash < hash) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static const struct owned *lookup(struct py_env *env, const char *normal)
{
    const struct py_owner_index *index =
        owner_index(env, is_library_name(normal) ? OWNED_LIBRARIES : OWNED_ALL);
    uint64_t hash = str_hash(normal, strlen(normal));
    for (size_t i = lower_bound(index, hash); i < index->files.n; i++) {
        const struct owned *o = index->sorted[i].file;
        if (o->hash != hash) {
            break;
        }
        if (strcmp(row_path(env->arena, o->dist->site, o->row.path), normal) == 0) {
            return o;
        }
    }
    return NULL;
}

/* Where the file is behind links, told by the names of the site folders: `real` below the real
 * place of a site becomes a path below that site. */
static const struct owned *lookup_behind_links(struct py_env *env, const char *path)
{
    struct arena *a = env->arena;
    char *real = NULL;
    if (root_realpath(env->root, a, path, &real) < 0) {
        return NULL;
    }
    const struct owned *found = lookup(env, real);
    for (size_t i = 0; !found && i < env->n_paths; i++) {
        char *site = NULL;
        const struct py_path *entry = &env->paths[i];
        if (!entry->is_dir || root_realpath(env->root, a, entry->dir, &site) < 0) {
            continue;
        }
        size_t n = strlen(site);
        if (strcmp(site, entry->dir) != 0 && starts_with(real, site) && real[n] == '/') {
            found = lookup(env, path_normal(a, path_join(a, entry->dir, real + n + 1)));
        }
    }
    return found;
}

struct py_owned_file py_owner(struct py_env *env, const char *path)
{
    const struct owned *o = lookup(env, path_normal(env->arena, path));
    if (!o) {
        o = lookup_behind_links(env, path);
    }
    if (!o) {
        return (struct py_owned_file){0};
    }
    return (struct py_owned_file){o->dist, o->row.size_bytes, o->row.has_size, o->row.hash};
}

const struct py_dist *py_overwritten_by(struct py_env *env, const struct py_dist *dist,
                                        const char *path, uint64_t size_bytes)
{
    const struct py_owner_index *index = owner_index(env, OWNED_LIBRARIES);
    const char *normal = path_normal(env->arena, path);
    uint64_t hash = str_hash(normal, strlen(normal));
    const struct py_dist *writer = NULL;
    bool lost = false;
    for (size_t i = lower_bound(index, hash); i < index->files.n; i++) {
        const struct owned *o = index->sorted[i].file;
        if (o->hash != hash) {
            break;
        }
        if (!o->row.has_size ||
            strcmp(row_path(env->arena, o->dist->site, o->row.path), normal) != 0) {
            continue;
        }
        bool fits = o->row.size_bytes == size_bytes;
        if (o->dist == dist) {
            lost = !fits;
        } else if (fits) {
            writer = o->dist;
        }
    }
    return lost ? writer : NULL;
}

size_t py_recorded_libraries(struct py_env *env, const char *name, const char ***ret)
{
    const struct py_owner_index *index = owner_index(env, OWNED_LIBRARIES);
    VEC(const char *) found = {0};
    struct str wanted = str_of(name);
    for (size_t i = 0; i < index->files.n; i++) {
        const struct owned *o = &index->files.items[i];
        struct str path = o->row.path;
        bool ends =
            path.n >= wanted.n && memcmp(path.s + path.n - wanted.n, wanted.s, wanted.n) == 0;
        if (ends && (path.n == wanted.n || path.s[path.n - wanted.n - 1] == '/')) {
            VEC_PUSH(env->arena, &found, row_path(env->arena, o->dist->site, path));
        }
    }
    *ret = found.items;
    return found.n;
}

static bool path_is_library_file(struct str path)
{
    return str_ends(path, LIBRARY_MARK) || str_find(path, LIBRARY_MARK ".") < path.n;
}

bool py_dist_libraries(struct py_env *env, const struct py_dist *dist, struct py_libraries *ret)
{
    struct str rest;
    struct py_record_row row;
    *ret = (struct py_libraries){0};
    if (dist->kind != PY_DIST_INFO || !rows_of(env, dist, OWNED_LIBRARIES, &rest)) {
        return false;
    }
    while (ret->rows.n < PY_OWNED_FILES_MAX && py_record_next(env->arena, &rest, &row)) {
        if (path_is_library_file(row.path)) {
            VEC_PUSH(env->arena, &ret->rows, row);
        }
    }
    return true;
}
