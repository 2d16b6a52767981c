/* The questions about files below a root, handed to what answers them. */
#include "base/root.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static const struct root_operations *operations(const struct root *r)
{
    return r->operations ? r->operations : &root_files;
}

bool root_is_here(const struct root *r)
{
    return r->is_host && operations(r)->is_here;
}

int root_stat(struct root *r, const char *path, struct stat *ret)
{
    return operations(r)->stat(r, path, true, ret);
}

int root_lstat(struct root *r, const char *path, struct stat *ret)
{
    return operations(r)->stat(r, path, false, ret);
}

int root_open_file(struct root *r, const char *path, struct stat *ret_st)
{
    return operations(r)->open_file(r, path, ret_st);
}

int root_open_seen(struct root *r, const char *path)
{
    return operations(r)->open_seen(r, path);
}

void root_note_cut(struct root *r, const char *fmt, ...)
{
    if (*r->cut) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(r->cut, sizeof r->cut, fmt, ap);
    va_end(ap);
}

int root_read(struct root *r, struct arena *a, const char *path, size_t max_bytes, struct str *ret)
{
    int rc = operations(r)->read(r, a, path, max_bytes, ret);
    if (rc == -EFBIG) {
        root_note_cut(r, "%s is larger than %zu bytes; it was not read", path, max_bytes);
    }
    return rc;
}

int root_read_head(struct root *r, struct arena *a, const char *path, size_t max_bytes,
                   struct str *ret, bool *ret_all)
{
    return operations(r)->read_head(r, a, path, max_bytes, ret, ret_all);
}

int root_map(struct root *r, const char *path, const void **ret_data, size_t *ret_size,
             struct stat *ret_st)
{
    return operations(r)->map(r, path, false, ret_data, ret_size, ret_st);
}

int root_map_gpu_code(struct root *r, const char *path, const void **ret_data, size_t *ret_size,
                      struct stat *ret_st)
{
    return operations(r)->map(r, path, true, ret_data, ret_size, ret_st);
}

bool root_fits_glob(const char *name, void *glob)
{
    return str_glob(glob, name);
}

int root_list(struct root *r, struct arena *a, const char *path, size_t max_entries,
              const struct root_filter *filter, struct root_dir *ret)
{
    int rc = operations(r)->list(r, a, path, max_entries, filter, ret);
    if (rc == 0 && ret->truncated) {
        root_note_cut(r, "%s has more than %zu entries; the others were not looked at", path,
                      max_entries);
    }
    return rc;
}

int root_readlink(struct root *r, struct arena *a, const char *path, char **ret)
{
    return operations(r)->readlink(r, a, path, ret);
}

int root_realpath(struct root *r, struct arena *a, const char *path, char **ret)
{
    return operations(r)->realpath(r, a, path, ret);
}

int root_has_capabilities(struct root *r, const char *path)
{
    return operations(r)->has_capabilities(r, path);
}

int root_access(struct root *r, const char *path, int mode)
{
    return operations(r)->access(r, path, mode);
}
