/* libnvrtc.so.12: its "PTX" is a text that the fake driver takes for a kernel that adds vectors. */
#include "table.h"

static const char ptx[] = "//\n.version 8.4\n.target sm_52\n.visible .entry add_vectors()\n{ }\n";
static const char log[] = "probe.cu(3): error: identifier \"x\" is undefined\n1 error\n";

int nvrtcVersion(int *major, int *minor)
{
    FAKE(nvrtcVersion);
    *major = (int)fake_number(&fake_now, 12);
    *minor = 4;
    return 0;
}

const char *nvrtcGetErrorString(int code)
{
    static const char *const names[] = {"NVRTC_SUCCESS",
                                        "NVRTC_ERROR_OUT_OF_MEMORY",
                                        "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                        "NVRTC_ERROR_INVALID_INPUT",
                                        "NVRTC_ERROR_INVALID_PROGRAM",
                                        "NVRTC_ERROR_INVALID_OPTION",
                                        "NVRTC_ERROR_COMPILATION",
                                        "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"};
    return code >= 0 && code < 8 ? names[code] : "NVRTC_ERROR unknown";
}

int nvrtcCreateProgram(void **program, const char *source, const char *name, int headers,
                       const char *const *header, const char *const *include)
{
    FAKE(nvrtcCreateProgram);
    *program = (void *)(size_t)source;
    return !source || !name || headers || header || include ? 3 : 0;
}

#ifndef WITHOUT_nvrtcCompileProgram
int nvrtcCompileProgram(void *program, int count, const char *const *options)
{
    FAKE(nvrtcCompileProgram);
    for (int i = 0; i < count; i++) {
        if (strncmp(options[i], "--gpu-architecture=compute_", 27) != 0) {
            return 5;
        }
    }
    return program ? 0 : 4;
}
#endif

int nvrtcGetProgramLogSize(void *program, size_t *size)
{
    FAKE(nvrtcGetProgramLogSize);
    *size = program ? sizeof log : 0;
    return 0;
}

int nvrtcGetProgramLog(void *program, char *to)
{
    FAKE(nvrtcGetProgramLog);
    memcpy(to, log, sizeof log);
    return program ? 0 : 4;
}

int nvrtcGetPTXSize(void *program, size_t *size)
{
    FAKE(nvrtcGetPTXSize);
    *size = program ? sizeof ptx : 0;
    return 0;
}

int nvrtcGetPTX(void *program, char *to)
{
    FAKE(nvrtcGetPTX);
    memcpy(to, ptx, sizeof ptx);
    if (fake_now.wrong) {
        memset(to, 'x', sizeof ptx - 1);
    }
    return program ? 0 : 4;
}
