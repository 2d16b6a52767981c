#include "launch/windows/start.h"

#include <stdlib.h>
#include <string.h>

#include "base/windows/api.h"
#include "base/windows/sys.h"
#include "launch/command_line.h"

static const char *kept_utf8(struct arena *a, const wchar_t *wide)
{
    char *bytes = sys_narrow(wide);
    const char *text = bytes ? arena_strdup(a, bytes) : NULL;
    free(bytes);
    return text;
}

const char *launch_windows_find(struct arena *a, const char *name)
{
    enum { LENGTH_MAX = 32767 };
    bool has_folder = strpbrk(name, "\\/:") != NULL;
    wchar_t *wide = sys_wide(name), *found = calloc(LENGTH_MAX + 1, sizeof *found);
    wchar_t *path = _wgetenv(L"PATH");
    DWORD n = 0;
    if (wide && found && has_folder) {
        n = GetFullPathNameW(wide, LENGTH_MAX, found, NULL);
        DWORD attributes = n ? GetFileAttributesW(found) : INVALID_FILE_ATTRIBUTES;
        if (attributes == INVALID_FILE_ATTRIBUTES && n && n + 4 < LENGTH_MAX) {
            memcpy(found + n, L".exe", 5 * sizeof *found);
            attributes = GetFileAttributesW(found);
        }
        n = attributes == INVALID_FILE_ATTRIBUTES || attributes & FILE_ATTRIBUTE_DIRECTORY ? 0 : n;
    } else if (wide && found && path) {
        n = SearchPathW(path, wide, L".exe", LENGTH_MAX, found, NULL);
    }
    const char *ret = n && n < LENGTH_MAX ? kept_utf8(a, found) : NULL;
    free(found);
    free(wide);
    return ret;
}

bool launch_windows_set(const char *name, const char *value)
{
    wchar_t *wide = sys_wide(name), *to = value ? sys_wide(value) : NULL;
    bool done = wide && (to || !value) && SetEnvironmentVariableW(wide, to);
    free(to);
    free(wide);
    return done;
}

const char *launch_windows_folder(struct arena *a)
{
    wchar_t base[MAX_PATH + 1];
    DWORD n = GetTempPathW(MAX_PATH, base);
    const char *temp = n && n < MAX_PATH ? kept_utf8(a, base) : NULL;
    for (unsigned i = 0; temp && i < 100; i++) {
        const char *folder =
            arena_printf(a, "%sgpumend-%lu-%lu", temp, GetCurrentProcessId(), GetTickCount() + i);
        wchar_t *wide = sys_wide(folder);
        bool made = wide && CreateDirectoryW(wide, NULL);
        free(wide);
        if (made) {
            return folder;
        }
    }
    return NULL;
}

/* A folder without folders in it: gpumend's own files. */
void launch_windows_remove_folder(struct arena *a, const char *folder)
{
    WIN32_FIND_DATAW data;
    wchar_t *wide = sys_wide(folder), *all = sys_wide(arena_printf(a, "%s\\*", folder));
    HANDLE list = all ? FindFirstFileW(all, &data) : INVALID_HANDLE_VALUE;
    for (bool more = list != INVALID_HANDLE_VALUE; more; more = FindNextFileW(list, &data)) {
        const char *name = kept_utf8(a, data.cFileName);
        wchar_t *file = name ? sys_wide(arena_printf(a, "%s\\%s", folder, name)) : NULL;
        if (file) {
            (void)DeleteFileW(file); // "." and ".." are no files
        }
        free(file);
    }
    if (list != INVALID_HANDLE_VALUE) {
        (void)FindClose(list);
    }
    if (wide) {
        (void)RemoveDirectoryW(wide); // what is in use stays in the folder for temporary files
    }
    free(all);
    free(wide);
}

/* The program of the console gets the end key too; what it makes of it is how this one ends. */
static BOOL WINAPI leave_to_program(DWORD event)
{
    return event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT;
}

static HANDLE new_job(void)
{
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {
        .BasicLimitInformation = {.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE}};
    HANDLE job = CreateJobObjectW(NULL, NULL);
    if (job &&
        !SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits)) {
        (void)CloseHandle(job);
        job = NULL;
    }
    return job;
}

static HANDLE nowhere(void)
{
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    return CreateFileW(L"NUL", GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE,
                       &inherited, OPEN_EXISTING, 0, NULL);
}

static bool start_suspended(const struct launch_windows *l, struct arena *a, HANDLE job,
                            PROCESS_INFORMATION *ret)
{
    STARTUPINFOW info = {.cb = sizeof info};
    const char *line = launch_command_line(a, l->words, l->n_words);
    wchar_t *program = sys_wide(l->program), *words = line ? sys_wide(line) : NULL;
    HANDLE null = l->quiet ? nowhere() : INVALID_HANDLE_VALUE;
    if (l->quiet) {
        info.dwFlags = STARTF_USESTDHANDLES;
        info.hStdInput = info.hStdOutput = info.hStdError = null;
    }
    bool started =
        program && words &&
        CreateProcessW(program, words, NULL, NULL, TRUE, CREATE_SUSPENDED, NULL, NULL, &info, ret);
    DWORD error = GetLastError();
    if (started && !AssignProcessToJobObject(job, ret->hProcess)) {
        error = GetLastError();
        (void)TerminateProcess(ret->hProcess, 1);
        (void)CloseHandle(ret->hThread);
        (void)CloseHandle(ret->hProcess);
        started = false;
    }
    if (null != INVALID_HANDLE_VALUE) {
        (void)CloseHandle(null);
    }
    free(words);
    free(program);
    SetLastError(error);
    return started;
}

int launch_windows_run(struct launch_windows *l, struct arena *a, struct gm_err *err)
{
    PROCESS_INFORMATION child;
    HANDLE job = new_job();
    if (!job || !SetConsoleCtrlHandler(leave_to_program, TRUE) ||
        !start_suspended(l, a, job, &child)) {
        int rc = gm_err_set(err, GM_ERR_LOOK, "%s does not start (error %lu)", l->program,
                            GetLastError());
        if (job) {
            (void)CloseHandle(job);
        }
        return rc;
    }
    (void)ResumeThread(child.hThread);
    DWORD waited = WaitForSingleObject(child.hProcess, l->limit_s ? l->limit_s * 1000 : INFINITE);
    l->is_late = waited == WAIT_TIMEOUT;
    DWORD code = 1;
    if (!l->is_late) {
        (void)GetExitCodeProcess(child.hProcess, &code);
    }
    l->code = code;
    (void)CloseHandle(child.hThread);
    (void)CloseHandle(child.hProcess);
    (void)CloseHandle(job); // ends what is left of it
    (void)SetConsoleCtrlHandler(leave_to_program, FALSE);
    return 0;
}
