/* The libraries of a stage and its start on Windows. */
#include "inject/probe/windows/stage.h"

#include <fcntl.h>
#include <io.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIN32_LEAN_AND_MEAN
#define __STRALIGN_H_ // its macros name banned functions
#include <windows.h>

#include "inject/probe/cuda.h"
#include "inject/probe/windows/system.h"

/* ------------------------------------------------------------------ texts */

static wchar_t *wide(const char *text)
{
    int n = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    wchar_t *ret = n > 0 ? calloc((size_t)n, sizeof *ret) : NULL;
    if (ret) {
        (void)MultiByteToWideChar(CP_UTF8, 0, text, -1, ret, n); // as many as it asked for
    }
    return ret;
}

static char *narrow(const wchar_t *text)
{
    int n = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *ret = n > 0 ? calloc((size_t)n, 1) : NULL;
    if (ret) {
        (void)WideCharToMultiByte(CP_UTF8, 0, text, -1, ret, n, NULL, NULL);
    }
    return ret;
}

const char *system_file(const char *name)
{
    wchar_t folder[MAX_PATH + 1];
    char path[MAX_PATH * 4];
    UINT n = GetSystemDirectoryW(folder, MAX_PATH);
    char *text = n && n < MAX_PATH ? narrow(folder) : NULL;
    (void)snprintf(path, sizeof path, "%s\\%s", text ? text : "", name);
    free(text);
    wchar_t *file = wide(path);
    bool there = file && GetFileAttributesW(file) != INVALID_FILE_ATTRIBUTES;
    free(file);
    return there ? strdup(path) : NULL; // lives as long as the process
}

/* ------------------------------------------------------------------ libraries */

static DWORD last_error; // of the load that failed last

const char *load_error_name(long code)
{
    switch (code) {
    case ERROR_ACCESS_DENIED: return "ERROR_ACCESS_DENIED";
    case ERROR_MOD_NOT_FOUND: return "ERROR_MOD_NOT_FOUND";
    case ERROR_PROC_NOT_FOUND: return "ERROR_PROC_NOT_FOUND";
    case ERROR_BAD_EXE_FORMAT: return "ERROR_BAD_EXE_FORMAT";
    case ERROR_DLL_INIT_FAILED: return "ERROR_DLL_INIT_FAILED";
    default: return NULL;
    }
}

long load_error(void)
{
    return (long)last_error;
}

const char *library_error(void)
{
    static char text[64];
    const char *name = load_error_name(load_error());
    (void)snprintf(text, sizeof text, "%s%serror %lu", name ? name : "", name ? ", " : "",
                   last_error);
    return text;
}

/* A name means System32's file, where the drivers put theirs; a path its own folder as well. */
void *open_optional(const char *path)
{
    say_call("LoadLibraryExW");
    wchar_t *name = path ? wide(path) : NULL;
    bool has_folder = path && strpbrk(path, "\\/");
    DWORD flags = has_folder ? LOAD_LIBRARY_SEARCH_DEFAULT_DIRS | LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR
                             : LOAD_LIBRARY_SEARCH_SYSTEM32;
    HMODULE library = name ? LoadLibraryExW(name, NULL, flags) : NULL;
    last_error = library ? 0 : GetLastError();
    free(name);
    return library;
}

void *open_library(const char *path)
{
    if (!path) {
        say_unknown("no library was named to the helper");
    }
    void *library = open_optional(path);
    if (!library) {
        say_failed(load_error(), load_error_name(load_error()), "%s does not load", path);
    }
    return library;
}

void *symbol_optional(void *library, const char *name)
{
    void *ret = NULL;
    FARPROC found = GetProcAddress(library, name);
    memcpy(&ret, &found, sizeof ret);
    return ret;
}

void *symbol(void *library, const char *name)
{
    void *found = symbol_optional(library, name);
    if (!found) {
        const char *path = library_path(library);
        say_failed(0, NULL, "%s has no function %s", path ? path : "the library", name);
    }
    return found;
}

/* The text lives as long as the process. */
const char *library_path(void *library)
{
    enum { LENGTH_MAX = 32767 };
    wchar_t *path = calloc(LENGTH_MAX + 1, sizeof *path);
    DWORD n = path ? GetModuleFileNameW(library, path, LENGTH_MAX) : 0;
    const char *text = n && n < LENGTH_MAX ? narrow(path) : NULL;
    free(path);
    return text;
}

/* ------------------------------------------------------------------ the process */

unsigned long long address_limit_mib(void)
{
    return 0;
}

void set_variable(const char *name, const char *value)
{
    wchar_t *key = wide(name), *to = wide(value);
    if (key && to) {
        (void)SetEnvironmentVariableW(key, to); // without memory for it nothing is set
    }
    free(key);
    free(to);
}

void unset_variable(const char *name)
{
    (void)SetEnvironmentVariableA(name, NULL);
}

/* No window of Windows' error reporting, for which somebody would have to be there. */
static LONG WINAPI end_by_exception(EXCEPTION_POINTERS *e)
{
    (void)TerminateProcess(GetCurrentProcess(), e->ExceptionRecord->ExceptionCode);
    return EXCEPTION_EXECUTE_HANDLER;
}

void stage_main(char *const *arguments)
{
    struct job j;
    job_read(&j, arguments);
    const char *number = job_value(&j, "report");
    intptr_t handle = number ? (intptr_t)strtoull(number, NULL, 10) : 0;
    int fd = handle ? _open_osfhandle(handle, _O_BINARY) : -1;
    if (fd < 0 || (fd != REPORT_FD && _dup2(fd, REPORT_FD) < 0)) {
        return;
    }
    (void)SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
    (void)SetUnhandledExceptionFilter(end_by_exception);
    stage_run(&j, NULL, 0);
}
