/* Windows: the stages that need only nvcuda.dll or amdhip64, which the drivers put into System32.
 */
#include "probe/here.h"

#include <string.h>

#include "base/windows/api.h"

/* By the code in inject/probe/windows/helper.c; a stage that is not named does not exist here. */
static const char *const here[] = {
    "driver-found", "driver-opens",    "driver-symbols", "driver-version", "driver-init",
    "device-count", "visible-devices", "context",        "attributes",     "memory-free",
    "memory",       "kernel",          "hip-init",       "hip-device",     "hip-memory"};

const char *probe_stage_absence(const struct probe_stage *s)
{
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        if (strcmp(here[i], s->name) == 0) {
            return NULL;
        }
    }
    return "this stage is not available on Windows";
}

const char *probe_stage_stem(const struct probe_stage *s)
{
    (void)s; // the stages of HIP look for amdhip64 where the driver puts it
    return NULL;
}

static bool system32_has(const wchar_t *name)
{
    wchar_t path[MAX_PATH + 1];
    UINT n = GetSystemDirectoryW(path, MAX_PATH);
    size_t length = wcslen(name);
    if (n == 0 || n + length + 2 > MAX_PATH) {
        return false;
    }
    path[n] = L'\\';
    memcpy(path + n + 1, name, (length + 1) * sizeof *name);
    return GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES;
}

bool probe_sees_driver(enum probe_vendor vendor)
{
    static const struct {
        enum probe_vendor vendor;
        const wchar_t *name;
    } files[] = {{PROBE_NVIDIA, L"nvcuda.dll"},
                 {PROBE_AMD, L"amdhip64_7.dll"},
                 {PROBE_AMD, L"amdhip64_6.dll"},
                 {PROBE_AMD, L"amdhip64.dll"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (files[i].vendor == vendor && system32_has(files[i].name)) {
            return true;
        }
    }
    return false;
}

const char *probe_slow_start_step(void)
{
    return NULL;
}
