/*
 * Takes lines from a file and does what they say, under Wine or Windows;
 * tests/windows/modeldriver.c does the same in the model. Lines, their fields separated by tabs:
 *
 *   world N          everything as at the start
 *   add P, remove P  AddDllDirectory(), RemoveDllDirectory()
 *   setdir P, unset  SetDllDirectory(P), SetDllDirectory(NULL)
 *   default F        SetDefaultDllDirectories()
 *   path V, cd P     PATH, the working directory
 *   load F NAME      LoadLibraryEx(): prints a line
 *   free K           FreeLibrary() of what the K-th load of this world gave
 *
 * A line is "WORLD.LOAD CODE PATH", and then the paths of what is loaded from elsewhere than the
 * Windows folder, or begins with "tw".
 */
#define UNICODE
#include <windows.h>
#include <winternl.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOADS_MAX = 256, TEXT = 16384 };

static HMODULE loads[LOADS_MAX];
static DLL_DIRECTORY_COOKIE cookies[LOADS_MAX];
static char *cookie_paths[LOADS_MAX];
static int n_loads, n_cookies, world;
static const char *top; // the working directory at the start of a world

static wchar_t *wide(const char *text)
{
    static wchar_t out[TEXT];
    MultiByteToWideChar(CP_UTF8, 0, text, -1, out, TEXT);
    return out;
}

static const char *narrow(const wchar_t *text)
{
    static char out[TEXT];
    WideCharToMultiByte(CP_UTF8, 0, text, -1, out, TEXT, NULL, NULL);
    return out;
}

static void print_modules(void)
{
    const LIST_ENTRY *head = &NtCurrentTeb()->ProcessEnvironmentBlock->Ldr->InMemoryOrderModuleList;
    for (const LIST_ENTRY *e = head->Flink; e != head; e = e->Flink) {
        const LDR_DATA_TABLE_ENTRY *m =
            CONTAINING_RECORD(e, LDR_DATA_TABLE_ENTRY, InMemoryOrderLinks);
        const char *path = narrow(m->FullDllName.Buffer);
        const char *base = strrchr(path, '\\');
        bool ours = base && _strnicmp(base + 1, "tw", 2) == 0;
        if (ours || (e != head->Flink && _strnicmp(path, "C:\\windows\\", 11) != 0)) {
            printf("\t%s", path);
        }
    }
    putchar('\n');
}

static void print_result(HMODULE module, DWORD error)
{
    wchar_t path[TEXT] = L"-";
    if (module) {
        GetModuleFileNameW(module, path, TEXT);
    }
    printf("%d.%d\t%lu\t%s", world, n_loads, module ? 0 : error, narrow(path));
    print_modules();
}

static void begin_world(int n)
{
    for (int i = n_loads; i-- > 0;) {
        if (loads[i]) {
            FreeLibrary(loads[i]);
        }
    }
    for (int i = 0; i < n_cookies; i++) {
        if (cookies[i]) {
            RemoveDllDirectory(cookies[i]);
        }
        free(cookie_paths[i]);
    }
    n_loads = n_cookies = 0;
    world = n;
    SetDllDirectoryW(NULL);
    SetEnvironmentVariableW(L"PATH", L"");
    SetCurrentDirectoryW(wide(top));
}

static void add_directory(const char *path)
{
    cookies[n_cookies] = AddDllDirectory(wide(path));
    cookie_paths[n_cookies++] = strdup(path);
}

static void remove_directory(const char *path)
{
    for (int i = n_cookies; i-- > 0;) {
        if (cookies[i] && strcmp(cookie_paths[i], path) == 0) {
            RemoveDllDirectory(cookies[i]);
            cookies[i] = NULL;
            return;
        }
    }
}

static void obey(char *line)
{
    char *verb = strtok(line, "\t"), *value = strtok(NULL, "\t"), *more = strtok(NULL, "\t");
    value = value ? value : (char *)"";
    if (strcmp(verb, "world") == 0) {
        begin_world(atoi(value));
    } else if (strcmp(verb, "add") == 0) {
        add_directory(value);
    } else if (strcmp(verb, "remove") == 0) {
        remove_directory(value);
    } else if (strcmp(verb, "setdir") == 0) {
        SetDllDirectoryW(wide(value));
    } else if (strcmp(verb, "unset") == 0) {
        SetDllDirectoryW(NULL);
    } else if (strcmp(verb, "default") == 0) {
        SetDefaultDllDirectories((DWORD)strtoul(value, NULL, 0));
    } else if (strcmp(verb, "path") == 0) {
        SetEnvironmentVariableW(L"PATH", wide(value));
    } else if (strcmp(verb, "cd") == 0) {
        SetCurrentDirectoryW(wide(value));
    } else if (strcmp(verb, "load") == 0 && more) {
        SetLastError(0);
        HMODULE m = LoadLibraryExW(wide(more), NULL, (DWORD)strtoul(value, NULL, 0));
        DWORD error = GetLastError();
        loads[n_loads] = m;
        print_result(m, error);
        n_loads++;
    } else if (strcmp(verb, "free") == 0) {
        int k = atoi(value);
        if (k < n_loads && loads[k]) {
            FreeLibrary(loads[k]);
            loads[k] = NULL;
        }
    }
    GetModuleHandleW(L"kernel32.dll"); // Wine remembers the last module that was asked about
}

int main(int argc, char **argv)
{
    static char line[TEXT];
    FILE *script = argc == 3 ? fopen(argv[1], "rb") : NULL;
    if (!script) {
        return 2;
    }
    top = argv[2];
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOOPENFILEERRORBOX);
    while (fgets(line, sizeof line, script)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (*line) {
            obey(line);
        }
    }
    return 0;
}
