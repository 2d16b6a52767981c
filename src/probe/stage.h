/*
 * The stages of a probe: what each is called, what it needs, how long it may take, and what is
 * known when it passes or fails. Data only; the code of a stage is in inject/probe/, the children
 * are run by probe/runner.h, in the order of this table by probe/probe.h.
 *
 * A new stage is a row here, a row in the table of inject/probe/helper.c, and a function.
 */
#ifndef GPUMEND_PROBE_STAGE_H
#define GPUMEND_PROBE_STAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "kb/kb.h"

enum probe_vendor { PROBE_ANY, PROBE_NVIDIA, PROBE_AMD, PROBE_CPU, PROBE_VENDORS };
const char *probe_vendor_name(enum probe_vendor vendor); // "nvidia", "amd", "cpu"

/* Whose error codes a stage answers with; those of others the stage names itself. */
enum probe_api {
    PROBE_API_NONE = 0,
    PROBE_API_CUDA_RUNTIME = KB_API_CUDA_RUNTIME + 1,
    PROBE_API_CUDA_DRIVER = KB_API_CUDA_DRIVER + 1,
    PROBE_API_CUDNN = KB_API_CUDNN + 1,
    PROBE_API_CUBLAS = KB_API_CUBLAS + 1,
    PROBE_API_NVRTC = KB_API_NVRTC + 1,
    PROBE_API_NCCL = KB_API_NCCL + 1,
    PROBE_API_NVML = KB_API_NVML + 1,
    PROBE_API_HIP = KB_API_HIP + 1,
    PROBE_API_HSA = KB_API_HSA + 1,
    PROBE_API_HIPRTC = KB_API_HIPRTC + 1,
    PROBE_API_HIPBLAS = KB_API_HIPBLAS + 1,
    PROBE_API_MIOPEN = KB_API_MIOPEN + 1,
};

struct probe_stage {
    const char *name; // "cublas-float16": what --stage and the JSON call it
    enum probe_vendor vendor;
    const char *needs; // the stage without which it is not run (the same device's, or one that is
                       // for all), or NULL
    const char *needs_too; // another one, or NULL
    bool per_device;
    bool quick;           // part of --quick
    bool all_devices;     // run with the variables cleared that hide devices
    unsigned deadline_ms; // 0: the vendor's
    const char *stem;     // of the target's library that it uses ("libcublas.so"), or NULL
    const char
        *module; // of Python: run by the target's interpreter, where it is asked for; or NULL
    enum probe_api api;
    const char *title; // while it runs: "cuInit"
    const char *shows; // when it passed: "the driver starts", a clause for "GPU 0: ... works up to"
    const char *means; // when it did not: one sentence, what that rules out and what it leaves
};

extern const struct probe_stage probe_stages[];
extern const size_t probe_n_stages;

/* NULL if there is none of this name. */
const struct probe_stage *probe_stage_find(const char *name);

/* 15 s for NVIDIA's and the CPU's, 30 s for AMD's, unless the row says otherwise. */
unsigned probe_stage_deadline_ms(const struct probe_stage *s);

#endif
