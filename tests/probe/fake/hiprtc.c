/* libhiprtc.so: "compiles" the probe's kernel into an object that names the target it was asked
 * for. `hiprtcCompileProgram return 6` fails with a log. */
#include "amd.h"
#include "table.h"

struct program {
    char object[64], log[256];
};

int hiprtcCreateProgram(void **ret, const char *source, const char *name, int n_headers,
                        const char **headers, const char **names);
int hiprtcCompileProgram(void *program, int n, const char **options);
int hiprtcGetProgramLogSize(void *program, size_t *ret);
int hiprtcGetProgramLog(void *program, char *ret);
int hiprtcGetCodeSize(void *program, size_t *ret);
int hiprtcGetCode(void *program, char *ret);
int hiprtcDestroyProgram(void **program);
const char *hiprtcGetErrorString(int code);

int hiprtcCreateProgram(void **ret, const char *source, const char *name, int n_headers,
                        const char **headers, const char **names)
{
    (void)source, (void)name, (void)n_headers, (void)headers, (void)names;
    FAKE(hiprtcCreateProgram);
    *ret = calloc(1, sizeof(struct program));
    return *ret ? 0 : 1;
}

int hiprtcCompileProgram(void *program, int n, const char **options)
{
    struct program *p = program;
    const char *arch =
        n == 1 && strncmp(options[0], "--offload-arch=", 15) == 0 ? options[0] + 15 : "none";
    snprintf(p->log, sizeof p->log,
             "In file included from gpumend.hip:1:\nerror: unknown target CPU '%s'\nnote: valid\n",
             arch);
    FAKE(hiprtcCompileProgram);
    snprintf(p->object, sizeof p->object, FAKE_OBJECT "%s", fake_word(&fake_now, arch));
    return 0;
}

int hiprtcGetProgramLogSize(void *program, size_t *ret)
{
    FAKE(hiprtcGetProgramLogSize);
    *ret = strlen(((struct program *)program)->log) + 1;
    return 0;
}

int hiprtcGetProgramLog(void *program, char *ret)
{
    FAKE(hiprtcGetProgramLog);
    strcpy(ret, ((struct program *)program)->log);
    return 0;
}

int hiprtcGetCodeSize(void *program, size_t *ret)
{
    FAKE(hiprtcGetCodeSize);
    *ret = (size_t)fake_number(&fake_now, (long)strlen(((struct program *)program)->object) + 1);
    return 0;
}

int hiprtcGetCode(void *program, char *ret)
{
    FAKE(hiprtcGetCode);
    strcpy(ret, ((struct program *)program)->object);
    return 0;
}

int hiprtcDestroyProgram(void **program)
{
    FAKE(hiprtcDestroyProgram);
    free(*program);
    *program = NULL;
    return 0;
}

const char *hiprtcGetErrorString(int code)
{
    return code == 6 ? "HIPRTC_ERROR_COMPILATION" : "HIPRTC_ERROR_INTERNAL_ERROR";
}

#ifdef UNDEFINED
int gone(void);
int hiprtcVersion(void);

int hiprtcVersion(void)
{
    return gone(); // defined nowhere: the library does not open when all is bound at once
}
#endif
