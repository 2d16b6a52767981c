/*
 * The questions of base/root.h, answered by Windows' files.
 *
 * Below "/", the running system, a path begins with a drive: "/C:/Windows". There Windows follows
 * links itself. Below another root none is followed, as it could lead outside: what is behind it is
 * -ELOOP, "not known". ".." is resolved in the text, as Windows does it.
 */
#include "base/root.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#include "base/windows/api.h"
#include "base/windows/sys.h"

enum { PATH_BYTES_MAX = 64 << 10 };

int root_open(struct root *r, const char *path, struct gm_err *err)
{
    struct stat st = {.st_mode = S_IFDIR};
    bool host = strcmp(path, "/") == 0;
    *r = ROOT_EMPTY;
    if (!host && sys_stat(path, &st) < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode)) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(ENOTDIR));
    }
    r->path = path;
    r->is_host = host;
    return 0;
}

void root_close(struct root *r)
{
    r->folder = NULL;
}

/* Windows opens a folder as quickly by its path. */
void root_keep_folder(struct root *r, struct root_folder *folder)
{
    *folder = (struct root_folder){.fd = -1};
    r->folder = folder;
}

/* Nothing is given up that would be needed to open it later. */
void root_open_early(const char *path)
{
    (void)path;
}

/* ------------------------------------------------------------------ paths */

/* Names that open a device in every folder ("Naming Files, Paths, and Namespaces"). */
static bool is_device(struct str name)
{
    static const char *const devices[] = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"};
    struct str stem = {name.s, str_find_char(name, '.')};
    while (stem.n && stem.s[stem.n - 1] == ' ') {
        stem.n--;
    }
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        if (stem.n == strlen(devices[i]) && _strnicmp(stem.s, devices[i], stem.n) == 0) {
            return true;
        }
    }
    return stem.n == 4 && isdigit((unsigned char)stem.s[3]) &&
           (_strnicmp(stem.s, "COM", 3) == 0 || _strnicmp(stem.s, "LPT", 3) == 0);
}

static bool is_drive(struct str name)
{
    return name.n == 2 && isalpha((unsigned char)name.s[0]) && name.s[1] == ':';
}

/* Whether Windows finds under a name what has that name, and nothing else. */
static bool is_plain(struct str name)
{
    return !is_device(name) && name.s[name.n - 1] != '.' && name.s[name.n - 1] != ' ' &&
           str_find_char(name, ':') == name.n && str_find_char(name, '\\') == name.n;
}

struct walk {
    VEC(char) text;   // of the path, for the system
    VEC(size_t) ends; // of the text, before each component
    const struct root *root;
};

static void append(struct arena *a, struct walk *w, struct str part)
{
    for (size_t i = 0; i < part.n; i++) {
        VEC_PUSH(a, &w->text, part.s[i]);
    }
}

static const char *walk_text(struct arena *a, struct walk *w)
{
    VEC_PUSH(a, &w->text, '\0');
    w->text.n--;
    return w->text.items;
}

static int enter(struct arena *a, struct walk *w, struct str part)
{
    bool drive = w->root->is_host && w->ends.n == 0;
    if (drive ? !is_drive(part) : !is_plain(part)) {
        return -ENOENT;
    }
    VEC_PUSH(a, &w->ends, w->text.n);
    if (w->text.n) {
        append(a, w, str_of("\\"));
    }
    append(a, w, part);
    return 0;
}

/* -ELOOP if what is at the path is a link; what is absent is none. */
static int check_no_link(const char *path)
{
    struct stat st;
    return sys_lstat(path, &st) == 0 && S_ISLNK(st.st_mode) ? -ELOOP : 0;
}

/* The system's path of one below the root. With follow_last false a link at the end stays. *ret is
 * NULL for "/" of the running system, which has no path. */
static int path_in(const struct root *r, struct arena *a, const char *path, bool follow_last,
                   const char **ret)
{
    struct walk w = {.root = r};
    struct str rest = str_of(path);
    int rc = !*path ? -ENOENT : rest.n > PATH_BYTES_MAX ? -ENAMETOOLONG : 0;
    if (!r->is_host) {
        append(a, &w, str_of(r->path));
    }
    while (rc == 0 && rest.s) {
        struct str part = str_cut(&rest, '/');
        if (str_is(part, "..")) {
            w.text.n = w.ends.n ? w.ends.items[--w.ends.n] : w.text.n;
        } else if (part.n && !str_is(part, ".")) {
            rc = enter(a, &w, part);
            bool last = !rest.s || strspn(rest.s, "/") == rest.n;
            if (rc == 0 && !r->is_host && (!last || follow_last)) {
                rc = check_no_link(walk_text(a, &w));
            }
        }
    }
    if (rc == 0 && r->is_host && w.ends.n == 1) {
        append(a, &w, str_of("\\")); // "C:" alone is the drive's working directory
    }
    *ret = rc == 0 && w.text.n ? walk_text(a, &w) : NULL;
    return rc;
}

static void tell(const struct root *r, const char *path)
{
    if (r->on_look) {
        r->on_look(r->on_look_arg, path);
    }
}

/* path_in() for a function that has no arena; ret_path is to be freed. */
static int path_alone(const struct root *r, const char *path, bool follow_last, char **ret)
{
    struct arena scratch;
    const char *native = NULL;
    tell(r, path);
    arena_init(&scratch, 0, NULL, NULL);
    int rc = path_in(r, &scratch, path, follow_last, &native);
    *ret = rc == 0 && native ? _strdup(native) : NULL;
    rc = rc == 0 && native && !*ret ? -ENOMEM : rc;
    arena_release(&scratch);
    return rc;
}

/* ------------------------------------------------------------------ answers */

static int files_stat(struct root *r, const char *path, bool follow, struct stat *ret)
{
    char *native = NULL;
    int rc = path_alone(r, path, follow, &native);
    if (rc == 0 && !native) {
        *ret = (struct stat){.st_mode = S_IFDIR | 0755, .st_nlink = 1};
    } else if (rc == 0) {
        rc = (follow ? sys_stat(native, ret) : sys_lstat(native, ret)) < 0 ? -errno : 0;
    }
    free(native);
    return rc;
}

static int files_open_seen(struct root *r, const char *path)
{
    char *native = NULL;
    int rc = path_alone(r, path, true, &native);
    rc = rc < 0 ? rc : native ? sys_open(native, O_RDONLY) : -EISDIR;
    rc = rc == -1 && native ? -errno : rc;
    free(native);
    return rc;
}

static int files_open_file(struct root *r, const char *path, struct stat *ret_st)
{
    struct stat st;
    int rc = files_stat(r, path, true, &st);
    if (rc < 0) {
        return rc;
    }
    if (!S_ISREG(st.st_mode)) {
        return S_ISDIR(st.st_mode) ? -EISDIR : -ENOTSUP;
    }
    int fd = files_open_seen(r, path);
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) { // exchanged under our hands
        (void)close(fd);
        return -ENOTSUP;
    }
    if (fd >= 0 && ret_st) {
        *ret_st = st;
    }
    return fd;
}

static int files_read_head(struct root *r, struct arena *a, const char *path, size_t max_bytes,
                           struct str *ret, bool *ret_all)
{
    struct stat st;
    int fd = files_open_file(r, path, &st);
    if (fd < 0) {
        return fd;
    }
    size_t want = (uint64_t)st.st_size < max_bytes ? (size_t)st.st_size : max_bytes;
    char *data = arena_alloc(a, want + 1);
    size_t n = 0;
    ssize_t got = 1;
    while (n < want && got > 0) {
        got = pread(fd, data + n, want - n, (long long)n);
        n += got > 0 ? (size_t)got : 0;
    }
    int rc = got < 0 ? -errno : 0;
    (void)close(fd); // was only read
    if (rc == 0) {
        *ret = (struct str){data, n};
    }
    if (rc == 0 && ret_all) {
        *ret_all = (uint64_t)st.st_size <= n;
    }
    return rc;
}

static int files_read(struct root *r, struct arena *a, const char *path, size_t max_bytes,
                      struct str *ret)
{
    bool all = false;
    struct str text;
    int rc = files_read_head(r, a, path, max_bytes, &text, &all);
    if (rc == 0 && !all) {
        return -EFBIG;
    }
    if (rc == 0) {
        *ret = text;
    }
    return rc;
}

static int files_map(struct root *r, const char *path, bool gpu_code, const void **ret_data,
                     size_t *ret_size, struct stat *ret_st)
{
    (void)gpu_code; // all of it costs no more
    int fd = files_open_file(r, path, ret_st);
    if (fd < 0) {
        return fd;
    }
    size_t size = (size_t)ret_st->st_size;
    void *data = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    int rc = data == MAP_FAILED ? -errno : 0;
    (void)close(fd); // the mapping keeps it
    if (rc == 0) {
        *ret_data = data;
        *ret_size = size;
    }
    return rc;
}

/* ------------------------------------------------------------------ folders */

struct listing {
    VEC(char *) names;
    size_t max_entries;
    bool truncated;
    const struct root_filter *filter;
};

/* false: it is full. */
static bool add_name(struct arena *a, struct listing *l, const char *name)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        (l->filter && !l->filter->keep(name, l->filter->arg))) {
        return true;
    }
    if (l->names.n == l->max_entries) {
        l->truncated = true;
        return false;
    }
    VEC_PUSH(a, &l->names, arena_strdup(a, name));
    return true;
}

static void list_drives(struct arena *a, struct listing *l)
{
    DWORD drives = GetLogicalDrives();
    for (unsigned i = 0; i < 26; i++) {
        if (drives >> i & 1 && !add_name(a, l, (char[]){(char)('A' + i), ':', '\0'})) {
            return;
        }
    }
}

static int list_folder(struct arena *a, const char *path, struct listing *l)
{
    WIN32_FIND_DATAW entry;
    wchar_t *pattern = sys_wide_path(arena_printf(a, "%s\\*", path));
    if (!pattern) {
        return -errno;
    }
    HANDLE folder = FindFirstFileExW(pattern, FindExInfoBasic, &entry, FindExSearchNameMatch, NULL,
                                     FIND_FIRST_EX_LARGE_FETCH);
    int rc = folder == INVALID_HANDLE_VALUE ? -sys_errno() : 0;
    free(pattern);
    if (rc < 0) {
        return GetLastError() == ERROR_FILE_NOT_FOUND ? 0 : rc; // an empty drive has not even "."
    }
    bool more = true;
    while (more) {
        char *name = sys_narrow(entry.cFileName);
        if (!name) {
            (void)FindClose(folder); // nothing was written
            arena_no_memory(a);
        }
        more = add_name(a, l, name) && FindNextFileW(folder, &entry);
        free(name);
    }
    rc = l->truncated || GetLastError() == ERROR_NO_MORE_FILES ? 0 : -sys_errno();
    (void)FindClose(folder); // nothing was written
    return rc;
}

static int files_list(struct root *r, struct arena *a, const char *path, size_t max_entries,
                      const struct root_filter *filter, struct root_dir *ret)
{
    struct listing l = {.max_entries = max_entries, .filter = filter};
    const char *native = NULL;
    struct stat st;
    int rc = files_stat(r, path, true, &st);
    rc = rc == 0 && !S_ISDIR(st.st_mode) ? -ENOTDIR : rc;
    rc = rc < 0 ? rc : path_in(r, a, path, true, &native);
    if (rc == 0 && !native) {
        list_drives(a, &l);
    } else if (rc == 0) {
        rc = list_folder(a, native, &l);
    }
    if (rc < 0) {
        return rc;
    }
    if (l.names.n) {
        qsort(l.names.items, l.names.n, sizeof *l.names.items, str_by_bytes);
    }
    *ret = (struct root_dir){l.names.items, l.names.n, l.truncated};
    return 0;
}

/* ------------------------------------------------------------------ links and rights */

static int files_readlink(struct root *r, struct arena *a, const char *path, char **ret)
{
    struct stat st;
    (void)a, (void)ret;
    int rc = files_stat(r, path, false, &st);
    return rc < 0 ? rc : S_ISLNK(st.st_mode) ? -ENOTSUP : -EINVAL;
}

/* "\\?\C:\x" as "/C:/x". */
static char *path_below_root(struct arena *a, const wchar_t *final)
{
    char *text = sys_narrow(wcsncmp(final, L"\\\\?\\", 4) == 0 ? final + 4 : final);
    if (!text) {
        arena_no_memory(a);
    }
    char *path = arena_printf(a, "/%s", text);
    free(text);
    for (char *at = path; *at; at++) {
        *at = *at == '\\' ? '/' : *at;
    }
    size_t n = strlen(path);
    path[n - 1] = n > 1 && path[n - 1] == '/' ? '\0' : path[n - 1];
    return path;
}

/* The path that Windows ends at, in the letters that the folders have. */
static int final_path(struct arena *a, const char *native, char **ret)
{
    wchar_t *wide = sys_wide_path(native);
    HANDLE file = wide ? CreateFileW(wide, FILE_READ_ATTRIBUTES,
                                     FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                     OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL)
                       : INVALID_HANDLE_VALUE;
    int rc = file != INVALID_HANDLE_VALUE ? 0 : wide ? -sys_errno() : -errno;
    free(wide);
    if (rc < 0) {
        return rc;
    }
    DWORD n = GetFinalPathNameByHandleW(file, NULL, 0, VOLUME_NAME_DOS);
    wchar_t *text = n ? arena_array(a, n + 1, sizeof *text) : NULL;
    DWORD got = n ? GetFinalPathNameByHandleW(file, text, n + 1, VOLUME_NAME_DOS) : 0;
    rc = got == 0 || got > n ? -sys_errno() : 0;
    (void)CloseHandle(file); // only looked at
    *ret = rc == 0 ? path_below_root(a, text) : *ret;
    return rc;
}

static int files_realpath(struct root *r, struct arena *a, const char *path, char **ret)
{
    const char *native = NULL;
    struct stat st;
    int rc = files_stat(r, path, true, &st);
    rc = rc < 0 ? rc : path_in(r, a, path, true, &native);
    if (rc < 0) {
        return rc;
    }
    if (r->is_host && native) {
        return final_path(a, native, ret);
    }
    *ret = path_normal(a, path); // there are no links in it
    return 0;
}

static int files_has_capabilities(struct root *r, const char *path)
{
    struct stat st;
    int rc = files_stat(r, path, true, &st);
    return rc < 0 ? rc : 0; // no file of Windows has any
}

static int files_access(struct root *r, const char *path, int mode)
{
    char *native = NULL;
    int rc = path_alone(r, path, true, &native);
    rc = rc == 0 && native && access(native, mode) < 0 ? -errno : rc;
    free(native);
    return rc;
}

const struct root_operations root_files = {
    .is_here = true,
    .stat = files_stat,
    .open_file = files_open_file,
    .open_seen = files_open_seen,
    .read = files_read,
    .read_head = files_read_head,
    .map = files_map,
    .list = files_list,
    .readlink = files_readlink,
    .realpath = files_realpath,
    .has_capabilities = files_has_capabilities,
    .access = files_access,
};
