/* The words for how a module was searched, what came of it, and the error code. */
#include "winldr/process.h"

const char *winldr_via_text(enum winldr_via via)
{
    static const char *const texts[] = {
        [WINLDR_VIA_PATH_GIVEN] = "the path that was given",
        [WINLDR_VIA_API_SET] = "API set",
        [WINLDR_VIA_ASSEMBLY] = "assembly of a manifest",
        [WINLDR_VIA_LOADED] = "loaded under this name",
        [WINLDR_VIA_KNOWN_DLL] = "known DLL",
        [WINLDR_VIA_PACKAGE] = "package graph",
        [WINLDR_VIA_LOAD_DIR] = "folder of the DLL that was asked for",
        [WINLDR_VIA_APPLICATION] = "folder of the program",
        [WINLDR_VIA_ADDED] = "add_dll_directory",
        [WINLDR_VIA_SET] = "SetDllDirectory",
        [WINLDR_VIA_SYSTEM32] = "System32",
        [WINLDR_VIA_SYSTEM] = "System",
        [WINLDR_VIA_WINDOWS] = "Windows folder",
        [WINLDR_VIA_CWD] = "working directory",
        [WINLDR_VIA_ENVIRONMENT] = "PATH",
    };
    return texts[via];
}

const char *winldr_result_text(enum winldr_result result)
{
    static const char *const texts[] = {
        [WINLDR_STEP_FOUND] = "found",
        [WINLDR_STEP_SAME_FILE] = "the same file is loaded",
        [WINLDR_STEP_MISSING] = "not there",
        [WINLDR_STEP_OTHER_MACHINE] = "for another machine, passed over",
        [WINLDR_STEP_NOT_PE] = "refused",
        [WINLDR_STEP_DENIED] = "cannot be opened",
        [WINLDR_STEP_UNSEEN] = "not looked at",
        [WINLDR_STEP_ASSUMED] = "part of Windows",
        [WINLDR_STEP_ARM64X] = "found, for x64 and ARM64",
    };
    return texts[result];
}

const char *winldr_code_text(enum winldr_code code)
{
    switch (code) {
    case WINLDR_OK: return "";
    case WINLDR_ACCESS_DENIED: return "Access is denied";
    case WINLDR_INVALID_PARAMETER: return "The parameter is incorrect";
    case WINLDR_MOD_NOT_FOUND: return "The specified module could not be found";
    case WINLDR_PROC_NOT_FOUND: return "The specified procedure could not be found";
    case WINLDR_BAD_EXE_FORMAT: return "%1 is not a valid Win32 application";
    case WINLDR_DLL_INIT_FAILED:
        return "A dynamic link library (DLL) initialization routine failed";
    }
    return "";
}
