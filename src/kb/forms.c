#include "kb/forms.h"

#include <string.h>

#include "base/str.h"
#include "kb/query.h"

static int form_rows(struct ask *k, struct gm_err *err)
{
    struct kb_rows rows;
    size_t found = 0;
    for (int area = 0; area < KB_AREAS; area++) {
        if (strcmp(kb_area_name((enum kb_area)area), k->q->area) != 0) {
            continue;
        }
        int rc = kb_rows(k->kb, (enum kb_area)area, &rows, err);
        if (rc < 0) {
            return rc;
        }
        for (size_t i = 0; i < rows.n; i++) {
            const void *row = (const char *)rows.items + i * rows.size;
            if (k->q->globs.n == 0 || str_glob(k->q->globs.items[0], kb_row_id(row))) {
                VEC_PUSH(k->a, &k->answer->hits, ((struct kb_hit){(enum kb_area)area, row, NULL}));
                found++;
            }
        }
    }
    if (found) {
        ask_say(k, "%zu rows of %s.", found, k->q->area);
    }
    return found > 0;
}

/* ------------------------------------------------------------------ the forms */

#define DEVICE   (NAMED_SM | NAMED_GFX | NAMED_GPU | NAMED_PCI)
#define RUNTIMES (NAMED_CUDA | NAMED_CUDNN | NAMED_DRIVER | NAMED_ROCM)
#define PROPERTIES                                                                                 \
    (ASKED_DRIVER | ASKED_CUDA | ASKED_CUDNN | ASKED_ROCM | ASKED_PYTHON | ASKED_GLIBC |           \
     ASKED_ARCH | ASKED_PTX | ASKED_BUILD | ASKED_TARGET)

/* Tried from the top; the first one that answers wins. `gpumend kb arch FILE...` is not a
 * question: src/cli/kb.c takes it before it asks. */
static const struct form forms[] = {
    {"rows drivers", NAMED_AREA, 0, 0, 0, 0, 0, form_rows},
    {"CUDNN_STATUS_NOT_INITIALIZED", NAMED_ERROR, 0, NAMED_CUDNN, 0, ASKED_ERROR | ASKED_CUDNN, 0,
     form_error},
    {"cuda error 35", NAMED_CODE, 0, NAMED_PART | NAMED_CUDNN, ASKED_ERROR,
     ASKED_CUDA | ASKED_CUDNN | ASKED_DRIVER | ASKED_ROCM | ASKED_RELEASE,
     SAID_RUNTIME | SAID_FIRST, form_error},
    {"how is gfx_target_version built", 0, 0, 0, ASKED_KFD, 0, 0, form_encoding},
    {"how are the forward-compatibility packages named", NAMED_FEATURE, 0, NAMED_CUDA,
     ASKED_PACKAGE, 0, SAID_MANAGERS & ~(unsigned)SAID_PIP, form_packages},
    {"does faster-whisper need ffmpeg", NAMED_PACKAGE | NAMED_PART, 0, NAMED_VERSION, 0,
     ASKED_SYSTEM, SAID_DOES | SAID_README, form_program},
    {"which NCCL does torch 2.7.1 use", NAMED_PACKAGE | NAMED_PART, 0, NAMED_VERSION, 0,
     ASKED_RELEASE | ASKED_NEEDS | ASKED_PACKAGE, SAID_DOES | SAID_DEFAULT | SAID_HERE,
     form_part_need},
    {"does torch 2.5.1 bundle cuDNN", NAMED_PACKAGE, 0, NAMED_VERSION | NAMED_PART | NAMED_CUDNN, 0,
     ASKED_CUDNN | ASKED_PACKAGE, SAID_DOES | SAID_DEFAULT | SAID_WHEEL | SAID_HERE, form_contains},
    {"does ctranslate2 need AVX2", NAMED_PACKAGE | NAMED_FEATURE, 0, NAMED_VERSION, 0, ASKED_ARCH,
     SAID_DOES | SAID_CPU | SAID_WHEEL | SAID_HERE, form_instructions},
    {"which CPU instruction set is the floor of ctranslate2", NAMED_PACKAGE, 0, NAMED_VERSION,
     ASKED_ARCH, ASKED_RELEASE, SAID_CPU | SAID_FLOOR | SAID_FIRST | SAID_WHEEL | SAID_HERE,
     form_instructions},
    {"which ctranslate2 has flash attention", NAMED_PACKAGE | NAMED_FEATURE, 0, NAMED_VERSION, 0,
     ASKED_RELEASE | ASKED_PACKAGE | ASKED_PYTHON,
     SAID_DOES | SAID_ADDED | SAID_DROPPED | SAID_WHEEL, form_feature},
    {"which compute types does whisperx accept", NAMED_PACKAGE, 0, NAMED_VERSION, ASKED_COMPUTE, 0,
     0, form_choices},
    {"does whisperx accept int8_float32", NAMED_PACKAGE | NAMED_COMPUTE, 0, NAMED_VERSION, 0,
     ASKED_COMPUTE, SAID_DOES, form_choices},
    {"which toolkit does clang need for sm_90a", NAMED_PACKAGE | NAMED_FEATURE, 0,
     NAMED_VERSION | NAMED_GENERATION, ASKED_CUDA, ASKED_RELEASE | ASKED_TARGET | ASKED_ARCH,
     SAID_FIRST | SAID_DEFAULT | SAID_WHEEL, form_feature_cuda},
    {"which compute capability does cupy need", NAMED_PACKAGE, 0, NAMED_VERSION, ASKED_ARCH,
     ASKED_RELEASE | ASKED_GPU | ASKED_NEEDS, SAID_FIRST | SAID_FLOOR | SAID_WHEEL | SAID_HERE,
     form_capability},
    {"does cupy run on the CPU", NAMED_PACKAGE, 0, 0, 0, 0, SAID_DOES | SAID_CPU, form_gpu_alone},
    {"which environment variable makes ctranslate2 allow float16", NAMED_PACKAGE, 0,
     NAMED_COMPUTE | NAMED_VARIABLE, ASKED_VARIABLE, ASKED_GPU, SAID_WITHOUT | SAID_NATIVE,
     form_variable},
    {"what is CT2_USE_MKL", NAMED_VARIABLE, 0, NAMED_PACKAGE, 0, ASKED_VARIABLE, SAID_README,
     form_variable},
    {"what happens with float16 in ctranslate2 without efficient float16",
     NAMED_PACKAGE | NAMED_COMPUTE, 0, NAMED_VERSION, ASKED_ERROR, ASKED_GPU,
     SAID_WITHOUT | SAID_NATIVE, form_refusal},
    {"why does ldd miss cuBLAS in ctranslate2", NAMED_PACKAGE, NAMED_PART | NAMED_LIBRARY,
     NAMED_VERSION | NAMED_CUDNN, ASKED_OPENS, ASKED_NEEDS | ASKED_RELEASE | ASKED_FOLDER,
     SAID_DOES | SAID_WHEEL | SAID_HERE, form_opens},
    {"from which index does whisperx take torch", NAMED_PACKAGE | NAMED_OTHER, 0, NAMED_VERSION,
     ASKED_BUILD, 0, SAID_HERE | SAID_README | SAID_LATER | SAID_FIRST, form_index},
    {"in which folder do the pip packages of CUDA 13 put their libraries", NAMED_CUDA, 0,
     NAMED_PART, ASKED_FOLDER, ASKED_PACKAGE | ASKED_PARTS, SAID_PIP | SAID_ALL | SAID_HERE,
     form_folder},
    {"which architectures do the CUDA 11.8 wheels of torch 2.0 add against the 11.7 ones",
     NAMED_PACKAGE | NAMED_CUDA, 0, NAMED_VERSION, ASKED_ARCH, ASKED_BUILD,
     SAID_ADDED | SAID_DROPPED | SAID_WHEEL | SAID_HERE, form_arch_change},
    {"which gfx targets do the ROCm wheels of torch add from ROCm 7.0 on",
     NAMED_PACKAGE | NAMED_ROCM, 0, 0, ASKED_TARGET, ASKED_ROCM | ASKED_BUILD | ASKED_GPU,
     SAID_ADDED | SAID_DROPPED | SAID_WHEEL | SAID_LATER | SAID_HERE, form_target_change},
    {"which driver floor does jax give for CUDA 12", NAMED_PACKAGE | NAMED_CUDA, 0,
     NAMED_VERSION | NAMED_PART, ASKED_DRIVER | ASKED_CUDA | ASKED_CUDNN, ASKED_RELEASE,
     SAID_HERE | SAID_FLOOR | SAID_FIRST | SAID_WHEEL | SAID_README, form_floors},
    {"what provides libnvrtc.so.12", NAMED_LIBRARY, 0, NAMED_CUDA, 0,
     ASKED_PACKAGE | ASKED_FOLDER | ASKED_CUDNN | ASKED_CUDA | ASKED_RELEASE | ASKED_SONAME,
     SAID_MANAGERS | SAID_HERE | SAID_WINDOWS, form_provides},
    {"which libraries does libcusolver depend on", 0, NAMED_PART | NAMED_LIBRARY, NAMED_CUDA,
     ASKED_NEEDS | ASKED_PARTS, ASKED_SONAME | ASKED_PACKAGE, SAID_HERE | SAID_DOES, form_depends},
    {"which package has cuFFT of CUDA 13", 0, NAMED_PART, NAMED_CUDA | NAMED_CUDNN,
     ASKED_PACKAGE | ASKED_FOLDER | ASKED_SONAME | ASKED_PARTS, ASKED_CUDNN,
     SAID_MANAGERS | SAID_HERE | SAID_RUNTIME | SAID_WINDOWS | SAID_DEVELOPMENT | SAID_META,
     form_library},
    {"which apt package has the runtime library of CUDA 12.6", NAMED_CUDA, 0, 0,
     ASKED_PACKAGE | ASKED_FOLDER | ASKED_SONAME, 0,
     SAID_MANAGERS | SAID_HERE | SAID_RUNTIME | SAID_WINDOWS | SAID_DEVELOPMENT, form_library},
    {"what is the apt package with cuDNN 9 for CUDA 12", NAMED_CUDNN, 0, NAMED_CUDA,
     ASKED_PACKAGE | ASKED_FOLDER | ASKED_SONAME, 0,
     SAID_MANAGERS | SAID_HERE | SAID_RUNTIME | SAID_WINDOWS | SAID_DEVELOPMENT | SAID_META,
     form_library},
    {"which ctranslate2 does whisperx 3.8.6 need", NAMED_PACKAGE | NAMED_OTHER, 0,
     NAMED_VERSION | NAMED_PYTHON, 0, ASKED_RELEASE | ASKED_NEEDS, SAID_DOES | SAID_FLOOR,
     form_need},
    {"how much memory does whisper large-v3 need", NAMED_MODEL, 0,
     NAMED_PACKAGE | NAMED_COMPUTE | NAMED_BATCH,
     ASKED_MEMORY | ASKED_PARAMETERS | ASKED_ALIAS | ASKED_MODEL, ASKED_ALIAS | ASKED_GPU,
     SAID_WHISPER | SAID_README | SAID_CPU, form_model},
    {"does large-v3 fit in 4 GB with int8", NAMED_MODEL, NAMED_MEMORY | NAMED_GPU,
     NAMED_PACKAGE | NAMED_COMPUTE | NAMED_BATCH, 0, ASKED_GPU | ASKED_MEMORY | ASKED_MODEL,
     SAID_DOES | SAID_WHISPER, form_fit},
    {"which models fit in 8 GB", 0, NAMED_MEMORY | NAMED_GPU,
     NAMED_PACKAGE | NAMED_COMPUTE | NAMED_BATCH, ASKED_MODEL, ASKED_GPU | ASKED_MEMORY,
     SAID_WHISPER | SAID_ALL, form_models_fit},
    {"how much memory has an RTX 4090", 0, NAMED_GPU | NAMED_PCI, 0, ASKED_MEMORY, ASKED_GPU, 0,
     form_gpu_memory},
    {"which compute type does whisperx use by default", NAMED_PACKAGE, 0, 0,
     ASKED_COMPUTE | ASKED_MODEL, ASKED_CUDA, SAID_DEFAULT | SAID_CPU, form_default},
    {"which ctranslate2 added bfloat16", NAMED_COMPUTE | NAMED_PACKAGE, 0, 0, 0, ASKED_RELEASE,
     SAID_ADDED | SAID_FIRST, form_compute_types},
    {"which compute types for a GTX 1650", 0, NAMED_SM | NAMED_GPU | NAMED_PCI, NAMED_PACKAGE,
     ASKED_COMPUTE, ASKED_GPU, 0, form_compute_types},
    {"which compute types does the CPU run", 0, 0, NAMED_PACKAGE, ASKED_COMPUTE, 0, SAID_CPU,
     form_compute_types},
    {"int8_float16 on sm_61", NAMED_COMPUTE, 0, NAMED_SM | NAMED_GPU | NAMED_PCI | NAMED_PACKAGE, 0,
     ASKED_COMPUTE | ASKED_MODEL | ASKED_ARCH | ASKED_FOLDER | ASKED_GPU,
     SAID_CPU | SAID_DOES | SAID_NATIVE, form_compute},
    {"does torch 2.5.1 have wheels for Python 3.13", NAMED_PACKAGE | NAMED_PYTHON, 0, NAMED_VERSION,
     0, ASKED_RELEASE, SAID_WHEEL | SAID_DOES | SAID_HERE | SAID_ADDED | SAID_DROPPED | ORDER,
     form_python},
    {"does torch 2.5.1 run on glibc 2.17", NAMED_PACKAGE | NAMED_GLIBC, 0, NAMED_VERSION, 0, 0,
     SAID_DOES | SAID_WHEEL | SAID_HERE, form_release_glibc},
    {"does torch 2.2.0 work with numpy 2", NAMED_PACKAGE | NAMED_OTHER | NAMED_VERSION, 0,
     NAMED_OTHER_VERSION | NAMED_BUILD | NAMED_PYTHON, 0, ASKED_RELEASE | ASKED_NEEDS,
     SAID_DOES | SAID_FIRST | SAID_LAST, form_pair},
    {"does ctranslate2 4.6.0 have a wheel for aarch64", NAMED_PACKAGE, 0, NAMED_VERSION, 0,
     ASKED_RELEASE | ASKED_GPU | ASKED_PACKAGE | ASKED_BUILD | ASKED_CUDA,
     SAID_DOES | SAID_WHEEL | SAID_LINUX | SAID_WINDOWS | SAID_X86 | SAID_AARCH64 | SAID_PIP |
         SAID_FIRST | SAID_LAST | SAID_ALL,
     form_wheels},
    {"which platforms does torch 2.9 have wheels for", NAMED_PACKAGE, 0, NAMED_VERSION,
     ASKED_SYSTEM, ASKED_RELEASE | ASKED_PACKAGE, SAID_WHEEL | SAID_PIP, form_platforms},
    {"does torch 2.10 have kernels for gfx1101", NAMED_PACKAGE, DEVICE,
     NAMED_VERSION | RUNTIMES | NAMED_BUILD, ASKED_ARCH, ASKED_BUILD | ASKED_RELEASE,
     SAID_DOES | SAID_HERE | SAID_WHEEL | SAID_AARCH64 | SAID_NATIVE | SAID_DEFAULT, form_has_code},
    {"does ctranslate2 4.8.1 need cuDNN", NAMED_PACKAGE | NAMED_VERSION, 0, 0, ASKED_CUDNN, 0,
     SAID_DOES | SAID_WHEEL | SAID_HERE, form_needs_cudnn},
    {"which Python does ctranslate2 4.6.0 add", NAMED_PACKAGE | NAMED_VERSION, 0, 0, ASKED_PYTHON,
     ASKED_RELEASE, SAID_ADDED | SAID_DROPPED | SAID_WHEEL, form_python_change},
    {"does torch 2.6 have a ROCm build", NAMED_PACKAGE, 0, NAMED_VERSION, ASKED_ROCM,
     ASKED_BUILD | ASKED_RELEASE | ASKED_GPU,
     SAID_DOES | SAID_HERE | SAID_WHEEL | SAID_AARCH64 | SAID_WINDOWS | ORDER, form_rocm_builds},
    {"which is the newest ctranslate2 3.x", NAMED_PACKAGE, 0, NAMED_VERSION, 0, ASKED_RELEASE,
     SAID_FIRST | SAID_LAST, form_newest},
    {"which cuDNN does torch 2.5.1 use", NAMED_PACKAGE, 0,
     NAMED_VERSION | NAMED_CUDA | NAMED_ROCM | NAMED_BUILD, PROPERTIES, ASKED_RELEASE | ASKED_GPU,
     SAID_FIRST | SAID_LAST | SAID_HERE | SAID_WHEEL | SAID_DEFAULT | SAID_README |
         SAID_EXPERIMENTAL | SAID_FLOOR,
     form_property},
    {"which architectures does torch 2.12 have on aarch64", NAMED_PACKAGE, 0,
     NAMED_VERSION | NAMED_CUDA | NAMED_BUILD,
     ASKED_ARCH | ASKED_CUDA | ASKED_CUDNN | ASKED_PTX | ASKED_BUILD, ASKED_RELEASE | ASKED_GPU,
     SAID_WHEEL | SAID_LINUX | SAID_WINDOWS | SAID_AARCH64 | SAID_PIP | SAID_FIRST | SAID_LAST,
     form_platform},
    {"which torch runs on sm_61 with driver 535", NAMED_PACKAGE, DEVICE | RUNTIMES | NAMED_BUILD,
     NAMED_VERSION, 0, ASKED_BUILD | ASKED_RELEASE | ASKED_GPU | ASKED_ROCM,
     SAID_DOES | SAID_ADDED | SAID_DROPPED | SAID_HERE | SAID_WHEEL | SAID_AARCH64 | SAID_WINDOWS |
         SAID_NATIVE | SAID_DEFAULT | SAID_PIP | ORDER,
     form_builds},
    {"what does ctranslate2 4.5.0 need", NAMED_PACKAGE, 0, NAMED_VERSION, 0,
     ASKED_NEEDS | ASKED_RELEASE, 0, form_release},
    {"which architectures does CUDA 12.8 compile for", NAMED_CUDA, 0, 0, ASKED_ARCH | ASKED_PTX,
     ASKED_GPU | ASKED_TARGET | ASKED_RELEASE, SAID_FIRST | SAID_LAST | SAID_NATIVE, form_toolkit},
    {"does CUDA 12.9 compile for sm_61", NAMED_CUDA,
     NAMED_SM | NAMED_GPU | NAMED_PCI | NAMED_GENERATION, 0, 0, ASKED_GPU, SAID_DOES | SAID_NATIVE,
     form_toolkit},
    {"which CUDA does cuDNN 9.17 support", NAMED_CUDNN, 0,
     NAMED_CUDA | NAMED_SM | NAMED_GPU | NAMED_GENERATION, 0,
     ASKED_CUDA | ASKED_DRIVER | ASKED_ARCH | ASKED_GPU | ASKED_PARTS | ASKED_RELEASE,
     SAID_DOES | SAID_HERE | SAID_WINDOWS | SAID_FLOOR | SAID_FIRST, form_cudnn},
    {"which GPUs have compute capability 8.9", 0, NAMED_SM | NAMED_GFX, 0, ASKED_GPU, ASKED_ARCH,
     SAID_ALL, form_gpus_of},
    {"which cards are Turing", NAMED_GENERATION, 0, 0, ASKED_GPU, 0, SAID_ALL, form_gpus_of},
    {"is the RTX 4090 sm_89", NAMED_GPU, NAMED_SM | NAMED_GFX, 0, 0, ASKED_GPU, SAID_DOES,
     form_gpu_is_arch},
    {"is the RTX 3050 an Ampere card", NAMED_GPU | NAMED_GENERATION, 0, 0, 0, ASKED_GPU, SAID_DOES,
     form_gpu_does},
    {"which is the last driver branch for Pascal", 0,
     NAMED_SM | NAMED_GPU | NAMED_PCI | NAMED_GENERATION, 0, ASKED_DRIVER | ASKED_BRANCH,
     ASKED_RELEASE | ASKED_GPU, SAID_FIRST | SAID_LAST | SAID_LINUX, form_driver_of_gpu},
    {"does driver 550 support the RTX 5090", NAMED_DRIVER,
     NAMED_SM | NAMED_GPU | NAMED_PCI | NAMED_GENERATION, 0, 0, ASKED_GPU | ASKED_BRANCH,
     SAID_DOES | SAID_LINUX | SAID_FIRST | SAID_LAST, form_driver_of_gpu},
    {"which CUDA toolkit compiles for sm_90", 0,
     NAMED_SM | NAMED_GPU | NAMED_PCI | NAMED_GENERATION, 0, ASKED_CUDA | ASKED_PTX | ASKED_DRIVER,
     ASKED_RELEASE | ASKED_TARGET | ASKED_GPU,
     SAID_FIRST | SAID_LAST | SAID_ADDED | SAID_DROPPED | SAID_NATIVE, form_toolkits_of_sm},
    {"which CUDA has PTX ISA 8.5", NAMED_PTX, 0, 0, ASKED_CUDA, ASKED_RELEASE | ASKED_PTX,
     SAID_FIRST | SAID_LAST | SAID_ADDED, form_toolkits_of_ptx},
    {"sm_90", NAMED_SM, 0, 0, 0, 0, 0, form_toolkits_of_sm},
    {"does driver 535 run CUDA 12.4", NAMED_CUDA | NAMED_DRIVER, 0, 0, 0, ASKED_RELEASE,
     SAID_DOES | SAID_HERE | SAID_GA | SAID_WINDOWS | SAID_WSL, form_driver_runs},
    {"which cuDNN goes with CUDA 12.4", 0, NAMED_CUDA | NAMED_SM | NAMED_GPU, 0, ASKED_CUDNN,
     ASKED_RELEASE, SAID_FIRST | SAID_LAST, form_cudnn_of_cuda},
    {"which driver does CUDA 12.4 need", NAMED_CUDA, 0, 0, ASKED_DRIVER | ASKED_BRANCH,
     ASKED_RELEASE,
     SAID_HERE | SAID_WINDOWS | SAID_WSL | SAID_GA | SAID_FLOOR | SAID_NO_FLOOR | SAID_FIRST,
     form_driver},
    {"CUDA 12.4", NAMED_CUDA, 0, 0, 0, 0, SAID_HERE | SAID_WINDOWS | SAID_FLOOR, form_driver},
    {"which driver branches are LTS", 0, 0, 0, ASKED_BRANCH, ASKED_DRIVER | ASKED_END, SAID_ALL,
     form_branches},
    {"when does the driver branch 535 end", NAMED_DRIVER, 0, 0, ASKED_END | ASKED_BRANCH,
     ASKED_DRIVER, SAID_DOES, form_branch},
    {"which CUDA does driver 535 run", NAMED_DRIVER, 0, 0, 0, ASKED_CUDA | ASKED_RELEASE,
     SAID_LAST | SAID_HERE | SAID_WINDOWS | SAID_WSL, form_cuda_of_driver},
    {"which gfx target is gfx_target_version 100302", NAMED_CODE, 0, 0, ASKED_KFD, ASKED_TARGET, 0,
     form_kfd},
    {"which ROCm's hipFFT removed gfx940", NAMED_GFX | NAMED_PART, 0, 0, ASKED_ROCM, ASKED_RELEASE,
     SAID_DROPPED, form_rocm_part},
    {"gfx1010", NAMED_GFX, 0, NAMED_ROCM | NAMED_GPU, 0,
     ASKED_ROCM | ASKED_TARGET | ASKED_KFD | ASKED_GPU | ASKED_RELEASE | ASKED_OVERRIDE |
         ASKED_ERROR,
     SAID_DOES | SAID_OFFICIAL | SAID_FIRST | SAID_LAST | SAID_ADDED | SAID_DROPPED | SAID_README,
     form_gfx},
    {"which ROCm supports the RX 7900 XTX", 0, NAMED_GPU | NAMED_PCI, NAMED_ROCM, 0,
     ASKED_GPU | ASKED_ROCM | ASKED_OVERRIDE | ASKED_RELEASE,
     SAID_DOES | SAID_OFFICIAL | SAID_FIRST | SAID_LAST | SAID_ADDED | SAID_DROPPED, form_gfx},
    {"which gfx targets does ROCm 6.3 support", NAMED_ROCM, 0, 0, 0,
     ASKED_TARGET | ASKED_GPU | ASKED_ARCH, SAID_OFFICIAL, form_rocm},
    {"manylinux_2_28", 0, NAMED_TAG | NAMED_GLIBC, 0, 0,
     ASKED_GLIBC | ASKED_SYSTEM | ASKED_IMAGE | ASKED_RELEASE, SAID_PIP | SAID_WHEEL, form_glibc},
    {"compute capability of RTX 3060", 0, NAMED_GPU | NAMED_PCI, 0, 0,
     ASKED_ARCH | ASKED_PCI | ASKED_TARGET | ASKED_KFD | ASKED_GPU, 0, form_gpu},
};

const struct form *form_at(size_t i)
{
    return i < sizeof forms / sizeof *forms ? &forms[i] : NULL;
}

const char *kb_form_example(size_t i)
{
    const struct form *f = form_at(i);
    return f ? f->example : NULL;
}

struct form_rest form_rest(const struct form *f, const struct question *q)
{
    return (struct form_rest){q->named & ~(f->named | f->any | f->takes),
                              q->asked & ~(f->asked | f->asks), q->said & ~f->said};
}

bool form_concerns(const struct form *f, const struct question *q)
{
    return (q->named & f->named) == f->named && (!f->any || q->named & f->any) &&
           (!f->asked || q->asked & f->asked);
}

/* Whether something is needed is not whether it goes with something: of a question for yes or no
 * these forms tell the two apart. */
static bool form_knows_need(const struct form *f, const struct question *q)
{
    static int (*const forms_of_need[])(struct ask *, struct gm_err *) = {
        form_program, form_part_need,    form_instructions, form_need,
        form_pair,    form_needs_cudnn,  form_driver_runs,  form_opens,
        form_depends, form_feature_cuda, form_feature,      form_gpu_alone};
    bool device = q->named & (DEVICE | NAMED_GENERATION);
    if (f->answer == form_builds) {
        return question_needs(q) && !device;
    }
    for (size_t i = 0; i < sizeof forms_of_need / sizeof *forms_of_need; i++) {
        if (f->answer == forms_of_need[i]) {
            return true;
        }
    }
    return false;
}

bool form_fits(const struct form *f, const struct question *q)
{
    if (question_contains(q) != (f->answer == form_contains) ||
        (question_demands(q) && !form_knows_need(f, q))) {
        return false;
    }
    struct form_rest rest = form_rest(f, q);
    bool bare = !f->named && !f->any && !f->asked;
    return !bare && (!q->why || f->answer == form_opens) && form_concerns(f, q) && !rest.named &&
           !rest.asked && !rest.said;
}
