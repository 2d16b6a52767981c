/* Errors by name and number, and what a library or package name stands for. */
#include "kb/ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* ------------------------------------------------------------------ errors */

static const char *const api_titles[] = {
    [KB_API_CUDA_RUNTIME] = "CUDA runtime",
    [KB_API_CUDA_DRIVER] = "CUDA driver API",
    [KB_API_CUDNN] = "cuDNN",
    [KB_API_CUBLAS] = "cuBLAS",
    [KB_API_NVRTC] = "NVRTC",
    [KB_API_NVML] = "NVML",
    [KB_API_HIP] = "HIP",
    [KB_API_HSA] = "the HSA runtime",
    [KB_API_HIPRTC] = "hipRTC",
    [KB_API_HIPBLAS] = "hipBLAS",
    [KB_API_MIOPEN] = "MIOpen",
    [KB_API_NCCL] = "NCCL",
};

/* Words that choose a library, by enum kb_api. "driver" alone says little. */
static const char *const api_words[] = {
    [KB_API_CUDA_RUNTIME] = "cuda runtime cudart",
    [KB_API_CUDA_DRIVER] = "cuda cuda-driver driver",
    [KB_API_CUDNN] = "cudnn",
    [KB_API_CUBLAS] = "cublas",
    [KB_API_NVRTC] = "nvrtc",
    [KB_API_NVML] = "nvml nvidia-smi",
    [KB_API_HIP] = "hip rocm",
    [KB_API_HSA] = "hsa rocr",
    [KB_API_HIPRTC] = "hiprtc",
    [KB_API_HIPBLAS] = "hipblas",
    [KB_API_MIOPEN] = "miopen",
    [KB_API_NCCL] = "nccl",
};

static bool api_wanted(const struct question *q, enum kb_api api)
{
    bool any = false;
    for (size_t i = 0; i < sizeof api_words / sizeof *api_words; i++) {
        any = any || question_has(q, api_words[i]);
    }
    return !any || question_has(q, api_words[api]);
}

static void say_error(struct ask *k, const struct kb_error *e)
{
    HIT(k, KB_AREA_ERRORS, e);
    ask_say(k, "%s%s%s %d is %s%s%s.", api_titles[e->api], e->versions ? " " : "",
            e->versions ? e->versions : "", e->code, e->name, e->meaning ? ": " : "",
            e->meaning ? e->meaning : "");
}

/* By name, or by number where the question names a library or says that it is an error. */
int form_error(struct ask *k, struct gm_err *err)
{
    struct kb_errors errors;
    int rc = kb_errors(k->kb, &errors, err);
    if (rc < 0) {
        return rc;
    }
    const struct question *q = k->q;
    for (size_t i = 0; i < errors.n; i++) {
        const struct kb_error *e = &errors.rows[i];
        bool by_name = q->error && str_eq_nocase(str_of(q->error), str_of(e->name));
        bool by_code = !q->error && ask_has_code(q, e->code) && api_wanted(q, e->api);
        if (by_name || by_code) {
            say_error(k, e);
        }
    }
    return k->answer->known;
}

/* ------------------------------------------------------------------ provides */

static const char *const manager_titles[] = {
    [KB_MANAGER_PIP] = "pip",       [KB_MANAGER_APT] = "apt",       [KB_MANAGER_DNF] = "dnf",
    [KB_MANAGER_CONDA] = "conda",   [KB_MANAGER_DRIVER] = "driver", [KB_MANAGER_PACMAN] = "pacman",
    [KB_MANAGER_ZYPPER] = "zypper",
};

static void say_providers(struct ask *k, const struct kb_provide *p)
{
    const char *list = "";
    for (size_t i = 0; i < p->n_providers; i++) {
        const struct kb_provider *v = &p->providers[i];
        list =
            arena_printf(k->a, "%s%s%s %s%s%s%s%s", list, i ? "; " : "", manager_titles[v->manager],
                         v->package, v->versions ? " " : "", v->versions ? v->versions : "",
                         v->folder ? ", in " : "", v->folder ? v->folder : "");
    }
    HIT(k, KB_AREA_PROVIDES, p);
    ask_say(k, "%s (%s): %s.", k->q->library ? k->q->library : p->soname, p->library, list);
}

int form_provides(struct ask *k, struct gm_err *err)
{
    struct kb_provides provides;
    int rc = kb_provides(k->kb, &provides, err);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < provides.n; i++) {
        const struct kb_provide *p = &provides.rows[i];
        bool stem = ends_with(k->q->library, ".so") && starts_with(p->soname, k->q->library);
        if (str_glob(p->soname, k->q->library) || stem) {
            say_providers(k, p);
        }
    }
    return k->answer->known;
}

/* "which package has cuFFT of CUDA 13": a library by what people call it. */
int form_library(struct ask *k, struct gm_err *err)
{
    struct kb_provides provides;
    int rc = kb_provides(k->kb, &provides, err);
    for (size_t i = 0; rc == 0 && i < provides.n; i++) {
        const struct kb_provide *p = &provides.rows[i];
        size_t n = strcspn(p->library, " ,");
        for (size_t w = 0; w < k->q->n; w++) {
            bool named = str_eq_nocase(str_of(k->q->words[w]), (struct str){p->library, n});
            if (named && strcmp(k->q->words[w], "cuda") != 0 &&
                (!k->q->cuda || atoi(k->q->cuda) == p->cuda_major)) {
                say_providers(k, p);
            }
        }
    }
    return rc < 0 ? rc : k->answer->known;
}
