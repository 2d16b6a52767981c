#include "apply/windows/hook.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/windows/api.h"
#include "base/windows/sys.h"
#include "winldr/path.h"

enum { FILE_BYTES_MAX = 1 << 20 };

/* In the order in which they are written. */
static const char *const names[] = {WINLDR_HOOK_MODULE, WINLDR_HOOK_START, WINLDR_HOOK_PTH};
enum { N_NAMES = sizeof names / sizeof *names };

static int fail(struct gm_err *err, const char *path)
{
    int number = sys_errno();
    return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(number));
}

/* 1: it is there and read, 0: it is not there, or a negative error. */
static int read_file(struct arena *a, const char *path, struct str *ret, struct gm_err *err)
{
    wchar_t *wide = sys_wide_path(path);
    HANDLE file =
        wide ? CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL)
             : INVALID_HANDLE_VALUE;
    bool is_missing =
        wide && file == INVALID_HANDLE_VALUE && (GetLastError() == ERROR_FILE_NOT_FOUND);
    char *text = arena_alloc(a, FILE_BYTES_MAX + 1);
    DWORD n = 0;
    int rc = is_missing ? 0
             : file != INVALID_HANDLE_VALUE && ReadFile(file, text, FILE_BYTES_MAX, &n, NULL)
                 ? 1
                 : fail(err, path);
    if (file != INVALID_HANDLE_VALUE) {
        (void)CloseHandle(file);
    }
    free(wide);
    text[n] = '\0';
    *ret = (struct str){text, n};
    return rc;
}

/* Whether each of the files that are there is as gpumend writes it. */
static int check_ours(struct arena *a, const char *site, unsigned *ret_there, struct gm_err *err)
{
    *ret_there = 0;
    for (size_t i = 0; i < N_NAMES; i++) {
        const char *path = winldr_path_join(a, site, names[i]);
        struct str text;
        int rc = read_file(a, path, &text, err);
        if (rc < 0) {
            return rc;
        }
        bool ours = strcmp(names[i], WINLDR_HOOK_MODULE) == 0 ? winldr_hook_is_whole(text)
                    : strcmp(names[i], WINLDR_HOOK_PTH) == 0  ? str_is(text, winldr_hook_pth)
                                                              : str_is(text, winldr_hook_start);
        if (rc > 0 && !ours) {
            return gm_err_set(err, GM_ERR_UNSUPPORTED,
                              "%s is not as gpumend wrote it, and is left alone", path);
        }
        *ret_there |= rc > 0 ? 1u << i : 0;
    }
    return 0;
}

int apply_windows_file(struct arena *a, const char *folder, const char *name, struct str text,
                       struct gm_err *err)
{
    const char *path = winldr_path_join(a, folder, name);
    const char *temporary = arena_printf(a, "%s.gpumend-%lu", path, GetCurrentProcessId());
    wchar_t *to = sys_wide_path(path), *from = sys_wide_path(temporary);
    HANDLE file = to && from ? CreateFileW(from, GENERIC_WRITE, 0, NULL, CREATE_NEW,
                                           FILE_ATTRIBUTE_NORMAL, NULL)
                             : INVALID_HANDLE_VALUE;
    DWORD n = 0;
    bool made = file != INVALID_HANDLE_VALUE;
    bool done = made && WriteFile(file, text.s, (DWORD)text.n, &n, NULL) && n == text.n &&
                FlushFileBuffers(file);
    int rc = done ? 0 : fail(err, temporary);
    if (made) {
        (void)CloseHandle(file);
    }
    if (done && !MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) {
        rc = fail(err, path);
    }
    if (made && rc < 0) {
        (void)DeleteFileW(from);
    }
    free(from);
    free(to);
    return rc;
}

static int remove_file(struct arena *a, const char *site, const char *name, struct gm_err *err)
{
    const char *path = winldr_path_join(a, site, name);
    wchar_t *wide = sys_wide_path(path);
    int rc = wide && DeleteFileW(wide) ? 0 : fail(err, path);
    free(wide);
    return rc;
}

int apply_windows_hook_remove(struct arena *a, const char *site, bool *ret, struct gm_err *err)
{
    unsigned there;
    int rc = check_ours(a, site, &there, err);
    for (size_t i = N_NAMES; rc == 0 && i-- > 0;) {
        rc = there & 1u << i ? remove_file(a, site, names[i], err) : 0;
    }
    *ret = there != 0;
    return rc;
}

int apply_windows_hook_write(struct arena *a, const char *site, struct str module,
                             struct gm_err *err)
{
    const struct str texts[N_NAMES] = {module, str_of(winldr_hook_start), str_of(winldr_hook_pth)};
    unsigned there;
    int rc = check_ours(a, site, &there, err);
    for (size_t i = 0; rc == 0 && i < N_NAMES; i++) {
        rc = apply_windows_file(a, site, names[i], texts[i], err);
        if (rc < 0 && !there) { // nothing stays of a hook that was not written to its end
            struct gm_err second;
            while (i-- > 0) {
                (void)!remove_file(a, site, names[i], &second); // the first error is told
            }
            return rc;
        }
    }
    return rc;
}
