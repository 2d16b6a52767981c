/* Libraries that an image lacks and the host has. The names come from the image's files and are
 * believed nothing: what is mounted is a library below the host's own folders, under a plain name. */
#include "container/internal.h"

#include <string.h>
#include <sys/mman.h>

#include "elf/image.h"

static const char library_folder[] = "/opt/gpumend/lib";

/* ------------------------------------------------------------------ what may be mounted */

/* A name or a path that no engine, shell or document takes apart: "FROM:TO" is split at colons and
 * commas, and what a DT_NEEDED says is anything. */
static bool is_plain(const char *text, bool slashes)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-/";
    enum { LENGTH_MAX = 4095 };
    size_t n = strspn(text, plain);
    bool starts = slashes ? *text == '/' : str_is_letter(*text);
    return starts && !text[n] && n <= LENGTH_MAX && (slashes || !strchr(text, '/'));
}

bool ctr_is_plain_path(const char *path)
{
    return is_plain(path, true);
}

/* Where a host keeps libraries: nothing else of it is given to a container. */
static bool is_library_folder(const char *path)
{
    static const char *const folders[] = {"/usr/lib/",        "/usr/lib64/",       "/usr/lib32/",
                                          "/lib/",            "/lib64/",           "/usr/local/lib/",
                                          "/usr/local/cuda/", "/usr/local/cuda-*", "/opt/rocm/",
                                          "/opt/rocm-*"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (starts_with(path, folders[i]) || str_glob(folders[i], path)) {
            return true;
        }
    }
    return false;
}

/* The machine that the application's own file is for; EM_NONE: not known. */
static uint16_t machine_of(const struct ctr_work *w)
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

/* Whether a path of the host, without links, is a shared library for the image's processor. */
static bool is_library(struct ctr_work *w, const char *real)
{
    const void *data = NULL;
    size_t size = 0;
    struct stat st;
    struct elf_image e;
    bool is = false;
    if (is_plain(real, true) && is_library_folder(real) &&
        root_map(w->q->host_root, real, &data, &size, &st) == 0 && size) {
        uint16_t machine = machine_of(w);
        elf_image_parse(w->a, data, size, &e);
        is = e.state == ELF_STATE_OK && e.type == ET_DYN &&
             (machine == EM_NONE ? e.native : e.machine == machine);
        (void)munmap((void *)(uintptr_t)data, size); // our own mapping
    }
    return is;
}

/* ------------------------------------------------------------------ where it lies */

/* The host's copy of a library, for the image's processor; NULL: it has none. */
static const char *on_host(struct ctr_work *w, const char *name)
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
    if (!is_plain(name, false)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        VEC_PUSH(w->a, &all, folders[i]);
    }
    if (root_list(w->q->host_root, w->a, "/usr/local", 4096, NULL, NULL, &toolkits) == 0) {
        for (size_t i = toolkits.n; i-- > 0;) { // the newest first
            if (starts_with(toolkits.names[i], "cuda-")) {
                VEC_PUSH(w->a, &all, arena_printf(w->a, "/usr/local/%s/lib64", toolkits.names[i]));
            }
        }
    }
    for (size_t i = 0; i < all.n; i++) {
        char *real;
        const char *path = path_join(w->a, all.items[i], name);
        if (root_realpath(w->q->host_root, w->a, path, &real) == 0 && is_library(w, real)) {
            return real;
        }
    }
    return NULL;
}

static bool is_driver_library(const char *name)
{
    return starts_with(name, "libcuda.so") || starts_with(name, "libnvidia-");
}

static void mount_library(struct ctr_work *w, const char *real, const char *name, const char *why,
                          unsigned depth);

/* What the library needs from its own folder: DT_NEEDED, and the others of its family, which it
 * opens by itself. */
static void mount_companions(struct ctr_work *w, const char *real, const char *name, unsigned depth)
{
    const struct model *m = w->q->model;
    const char *folder = path_dir(w->a, real);
    const char *why = arena_printf(w->a, "%s needs it", name);
    struct root_dir files;
    if (depth > 4 || root_list(w->q->host_root, w->a, folder, 65536, NULL, NULL, &files) < 0) {
        return;
    }
    for (size_t i = 0; i < m->families.n; i++) {
        const struct kb_family *f = &m->families.rows[i];
        bool member = false;
        for (size_t k = 0; k < f->members.n; k++) {
            member |= str_glob(f->members.items[k], name);
        }
        for (size_t n = 0; member && n < files.n; n++) {
            for (size_t k = 0; k < f->members.n; k++) {
                if (str_glob(f->members.items[k], files.names[n]) &&
                    !ends_with(files.names[n], ".so")) {
                    mount_library(w, path_join(w->a, folder, files.names[n]), files.names[n], why,
                                  depth + 1);
                }
            }
        }
    }
}

static void mount_library(struct ctr_work *w, const char *real, const char *name, const char *why,
                          unsigned depth)
{
    const char *end = arena_printf(w->a, ":%s/%s", library_folder, name);
    char *file;
    if (!is_plain(name, false) ||
        root_realpath(w->q->host_root, w->a, real, &file) < 0 || !is_library(w, file)) {
        return;
    }
    for (size_t i = 0; i < w->s->mounts.n; i++) {
        if (ends_with(w->s->mounts.items[i].value, end)) {
            return;
        }
    }
    ctr_add(w, &w->s->mounts, arena_printf(w->a, "%s%s", file, end), why);
    mount_companions(w, real, name, depth);
}

/* Mounts what the image lacks and the host has; returns how many names stay without. */
size_t ctr_mount_lacks(struct ctr_work *w)
{
    struct model *m = w->q->model;
    size_t left = 0, before = w->s->mounts.n;
    for (size_t i = 0; i < m->processes.n; i++) {
        struct diag_lack *lacks = NULL;
        size_t n = diag_lacks(m, m->processes.items[i], &lacks);
        for (size_t k = 0; k < n; k++) {
            const char *real = is_driver_library(lacks[k].name) ? NULL : on_host(w, lacks[k].name);
            if (real) {
                mount_library(
                    w, real, lacks[k].name,
                    arena_printf(w->a, "the image lacks %s, and the host has it", lacks[k].name),
                    0);
            } else {
                left++;
            }
        }
    }
    if (w->s->mounts.n > before) {
        ctr_add(w, &w->path, library_folder, "the mounted libraries are found there");
    }
    return left;
}
