/* Libraries that an image lacks and the host has. The names come from the image's files and are
 * believed nothing: what is mounted is a library below the host's own folders, under a plain name.
 */
#include "container/internal.h"

#include <string.h>
#include <sys/mman.h>

#include "elf/image.h"
#include "kb/libver.h"

static const char library_folder[] = CDI_LIBRARY_FOLDER;

/* ------------------------------------------------------------------ what may be mounted */

/* Where a host keeps libraries: nothing else of it is given to a container. */
static bool is_library_folder(const char *path)
{
    static const char *const folders[] = {
        "/usr/lib/",       "/usr/lib64/",      "/usr/lib32/",       "/lib/",      "/lib64/",
        "/usr/local/lib/", "/usr/local/cuda/", "/usr/local/cuda-*", "/opt/rocm/", "/opt/rocm-*"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (starts_with(path, folders[i]) || str_glob(folders[i], path)) {
            return true;
        }
    }
    return false;
}

/* The machine that the application's own file is for; EM_NONE: not known. */
static uint16_t work_machine(const struct container_work *w)
{
    const struct model *m = w->q->model;
    for (size_t i = 0; i < m->processes.n; i++) {
        const struct ldso_process *p = m->processes.items[i]->ldso;
        if (p && p->objects.n && p->objects.items[0]->file) {
            return p->objects.items[0]->file->image.machine;
        }
    }
    return EM_NONE;
}

/* A library of the host, mapped. */
struct opened {
    void *data;
    size_t size;
    struct elf_image elf;
};

static void close_library(struct opened *l)
{
    if (l->data) {
        (void)munmap(l->data, l->size); // our own mapping
    }
    l->data = NULL;
}

/* False: the path, without links, is no shared library for the image's processor that may be
 * mounted. */
static bool open_library(struct container_work *w, const char *real, struct opened *ret)
{
    const void *data = NULL;
    struct stat st;
    *ret = (struct opened){0};
    if (!cdi_is_plain_path(real) || !is_library_folder(real) ||
        root_map(w->q->host_root, real, &data, &ret->size, &st) < 0 || !ret->size) {
        return false;
    }
    ret->data = (void *)(uintptr_t)data;
    uint16_t machine = work_machine(w);
    elf_image_parse(w->a, data, ret->size, &ret->elf);
    bool is = ret->elf.state == ELF_STATE_OK && ret->elf.type == ET_DYN &&
              (machine == EM_NONE ? ret->elf.native : ret->elf.machine == machine);
    if (!is) {
        close_library(ret);
    }
    return is;
}

static bool path_is_elf_library(struct container_work *w, const char *real)
{
    struct opened l;
    bool is = open_library(w, real, &l);
    close_library(&l);
    return is;
}

/* ------------------------------------------------------------------ where it lies */

/* Where the host has a library for the image's processor; NULL: nowhere. */
static const char *on_host(struct container_work *w, const char *name)
{
    static const char *const folders[] = {
        "/usr/local/cuda/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/opt/rocm/lib",
    };
    VEC(const char *) all = {0};
    struct root_dir toolkits;
    if (!cdi_is_plain_name(name)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        VEC_PUSH(w->a, &all, folders[i]);
    }
    if (root_list(w->q->host_root, w->a, "/usr/local", 4096, NULL, &toolkits) == 0) {
        for (size_t i = toolkits.n; i-- > 0;) { // the newest first
            if (starts_with(toolkits.names[i], "cuda-")) {
                VEC_PUSH(w->a, &all, arena_printf(w->a, "/usr/local/%s/lib64", toolkits.names[i]));
            }
        }
    }
    for (size_t i = 0; i < all.n; i++) {
        char *real;
        const char *path = path_join(w->a, all.items[i], name);
        if (root_realpath(w->q->host_root, w->a, path, &real) == 0 &&
            path_is_elf_library(w, real)) {
            return path;
        }
    }
    return NULL;
}

static bool is_driver_library(const char *name)
{
    return starts_with(name, "libcuda.so") || starts_with(name, "libnvidia-");
}

/* ------------------------------------------------------------------ what goes with it */

/* Whether the image's own copy answers the name: it is loaded, or one of the system's. With
 * `anywhere` a copy that the loader does not find counts too. */
static bool image_has(struct container_work *w, const char *name, bool anywhere)
{
    struct model *m = w->q->model;
    struct model_library *list = NULL;
    size_t n = model_libraries(m, name, &list);
    for (size_t i = 0; i < n; i++) {
        if (list[i].usable && strcmp(list[i].name, name) == 0 &&
            (anywhere || strcmp(list[i].where, "system") == 0)) {
            return true;
        }
    }
    for (size_t i = 0; i < m->processes.n; i++) {
        struct ldso_process *p = m->processes.items[i]->ldso;
        if (p && ldso_find_object(p, name)) {
            return true;
        }
    }
    return false;
}

/* A library on its way into the container. */
struct mounted {
    const char *folder, *name;
    const struct elf_image *elf;
    unsigned depth;
};

static void mount_library(struct container_work *w, const char *path, const char *name,
                          const char *why, unsigned depth);

/* One that lies beside it on the host, where the image has none. False: there is none. */
static bool mount_beside(struct container_work *w, const struct mounted *by, const char *name,
                         const char *verb)
{
    enum { DEPTH = 6 };
    const char *path = path_join(w->a, by->folder, name);
    char *real;
    if (!cdi_is_plain_name(name) || by->depth > DEPTH || is_driver_library(name) ||
        root_realpath(w->q->host_root, w->a, path, &real) < 0) {
        return false;
    }
    if (!image_has(w, name, false)) {
        mount_library(w, path, name, arena_printf(w->a, "%s %s it", by->name, verb), by->depth + 1);
    }
    return true;
}

/* "12.8" or "9.1.0", as the file itself says it, or NULL. */
static const char *mounted_version(struct container_work *w, const struct mounted *by,
                                   enum kb_version_from from)
{
    struct kb_libver v;
    if (!kb_library_version(by->elf, by->name, from, &v)) {
        return NULL;
    }
    return v.has_pat ? arena_printf(w->a, "%u.%u.%u", v.maj, v.min, v.pat)
                     : arena_printf(w->a, "%u.%u", v.maj, v.min);
}

/* Whether the row is of this library, whoever brought it. */
static bool library_is_of(struct container_work *w, const struct kb_dlopen *row,
                          const struct mounted *by, const char *version)
{
    bool named = false;
    for (size_t i = 0; i < row->objects.n; i++) {
        named |= str_glob(row->objects.items[i], by->name);
    }
    return named && !row->package && !row->beside.n &&
           (!row->object_version || model_version_fits(w->a, row->object_version, version));
}

/* What it cannot do without, of what the knowledge base says that it opens. */
static void mount_opened(struct container_work *w, const struct mounted *by)
{
    const struct kb_dlopens *rows = &w->q->model->dlopens;
    for (size_t i = 0; i < rows->n; i++) {
        const struct kb_dlopen *row = &rows->rows[i];
        const char *version = mounted_version(w, by, row->version_from);
        for (size_t k = 0; library_is_of(w, row, by, version) && k < row->n_requests; k++) {
            const struct kb_request *q = &row->requests[k];
            const char **names = arena_array(w->a, q->names.n, sizeof *names);
            size_t n = q->required ? kb_request_names(w->a, q, version, by->folder, names) : 0;
            for (size_t at = 0; at < n && !mount_beside(w, by, names[at], "opens"); at++) {
            }
        }
    }
}

static void mount_library(struct container_work *w, const char *path, const char *name,
                          const char *why, unsigned depth)
{
    const char *end = arena_printf(w->a, ":%s/%s", library_folder, name);
    struct opened l;
    char *real;
    for (size_t i = 0; i < w->s->mounts.n; i++) {
        if (ends_with(w->s->mounts.items[i].value, end)) {
            return;
        }
    }
    if (!cdi_is_plain_name(name) || root_realpath(w->q->host_root, w->a, path, &real) < 0 ||
        !open_library(w, real, &l)) {
        return;
    }
    struct mounted by = {path_dir(w->a, path), name, &l.elf, depth};
    container_add(w, &w->s->mounts, arena_printf(w->a, "%s%s", real, end), why);
    for (size_t i = 0; i < l.elf.n_needs; i++) {
        (void)mount_beside(w, &by, l.elf.needs[i].name, "needs"); // elsewhere: not of its release
    }
    mount_opened(w, &by);
    close_library(&l);
}

static bool finding_is_named(const struct diag_finding *f, const char *name)
{
    bool named = f->culprit && strcmp(f->culprit, name) == 0;
    for (size_t i = 0; i < f->likewise.n; i++) {
        named |= strcmp(f->likewise.items[i], name) == 0;
    }
    return named;
}

/* Whether the host has all that the finding of this name asks for: a part of it alone would be
 * mounted and be in the line for the Dockerfile too. */
static bool host_has_all(struct container_work *w, const char *name)
{
    const struct diag_report *r = w->q->report;
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct diag_finding *f = r->findings.items[i];
        bool all = true;
        for (size_t k = 0; finding_is_named(f, name) && k <= f->likewise.n; k++) {
            all = all && on_host(w, k ? f->likewise.items[k - 1] : f->culprit);
        }
        if (!all) {
            return false;
        }
    }
    return true;
}

void container_mount_lacks(struct container_work *w)
{
    struct model *m = w->q->model;
    size_t before = w->s->mounts.n;
    for (size_t i = 0; i < m->processes.n; i++) {
        struct diag_lack *lacks = NULL;
        size_t n = diag_lacks(m, m->processes.items[i], &lacks);
        for (size_t k = 0; k < n; k++) {
            const char *name = lacks[k].name;
            bool ours = !is_driver_library(name) && !image_has(w, name, true);
            const char *path = ours && host_has_all(w, name) ? on_host(w, name) : NULL;
            if (path) {
                mount_library(w, path, name,
                              arena_printf(w->a, "the image lacks %s, but the host has it", name),
                              0);
            }
        }
    }
    if (w->s->mounts.n > before) {
        container_add(w, &w->path, library_folder, "the mounted libraries are found there");
    }
}
