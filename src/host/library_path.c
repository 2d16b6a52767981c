/*
 * LD_LIBRARY_PATH and the driver's library: the loader takes the first libcuda.so.1 of its folders,
 * before those of ld.so.cache. A toolkit's stub fails with error 34, and a libcuda of another
 * driver with error 803 (both seen on an H200, with the toolkit's folders "stubs" and "compat" in
 * front).
 */
#include <string.h>

#include "host/internal.h"
#include "host/judge.h"

struct front {
    struct host *h;
    struct arena *a;
    const char *folder, *path, *real;
    struct host_compat note;
};

static bool front_find(struct root *r, const char *library_path, struct front *f)
{
    for (struct str rest = str_of(library_path); rest.s;) {
        struct stat st;
        char *real;
        f->folder = str_dup(f->a, str_cut(&rest, ':'));
        f->path = path_join(f->a, f->folder, "libcuda.so.1");
        if (*f->folder == '/' && root_stat(r, f->path, &st) == 0 && S_ISREG(st.st_mode) &&
            root_realpath(r, f->a, f->path, &real) == 0 && !host_is_32bit(r, real)) {
            f->real = real;
            return true;
        }
    }
    return false;
}

static bool is_the_drivers(const struct front *f)
{
    const struct host_library *own = host_own_libcuda(f->h);
    return own && strcmp(own->real, f->real) == 0;
}

/* Why programs cannot use the GPU through it; NULL: nothing is known against it. */
static const char *front_fault(const struct front *f)
{
    const struct host_fact *module = &f->h->nvidia.module;
    const char *why = NULL;
    struct str version;
    bool stated = host_parse_so_version(str_of(path_base(f->real)), &version);
    const char *own = stated ? str_dup(f->a, version) : NULL;
    if (strstr(f->real, "/stubs/")) {
        return "the stub of a toolkit (error 34)";
    }
    if (host_compat_is(f->h, f->a, f->real, &f->note)) {
        return host_compat_fits(f->h, f->a, own, &f->note, &why) != HOST_NO
                   ? NULL
                   : arena_printf(f->a, "a forward-compatibility library: %s", why);
    }
    if (!own || module->state != HOST_YES || !module->value || strcmp(own, module->value) == 0) {
        return NULL;
    }
    return arena_printf(f->a, "of driver %s, and the kernel module is %s (error 803)", own,
                        module->value);
}

void host_judge_library_path(struct root *r, struct arena *a, struct host *h,
                             const char *library_path)
{
    struct front f = {.h = h, .a = a};
    if (!library_path || !front_find(r, library_path, &f) || is_the_drivers(&f)) {
        return;
    }
    host_compat_read(r, a, f.real, &f.note);
    const char *fault = front_fault(&f);
    for (size_t i = 0; i < h->gpus.n && fault; i++) {
        if (host_gpu_is_bound(&h->gpus.items[i], "nvidia")) {
            struct host_problem *p = host_add_problem(
                a, &h->gpus.items[i], "library-path", HOST_NO,
                arena_printf(a,
                             "LD_LIBRARY_PATH gives programs started here %s in place of the "
                             "driver's library; it is %s",
                             f.path, fault),
                arena_printf(a, "unset LD_LIBRARY_PATH, or take %s out of it", f.folder));
            p->command = "unset LD_LIBRARY_PATH";
            p->culprit = f.path;
        }
    }
}
