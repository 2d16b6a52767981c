/* What the files of setup share; not for other rooms. */
#ifndef GPUMEND_SETUP_INTERNAL_H
#define GPUMEND_SETUP_INTERNAL_H

#include "setup/setup.h"

/* The version that the environment that exists has of a package; NULL: it is not installed, or
 * there is no such environment. "2.9.1+cu128". */
const char *setup_version_there(const struct setup_question *q, const char *package);

struct planner {
    const struct setup_question *q;
    struct arena *a;
    const struct setup_machine *m;
    struct setup_plan *plan;
    struct kb_models models;
    struct kb_builds builds;
    struct kb_releases releases;
    struct kb_sizes sizes;
    struct kb_traits traits;
};

bool setup_is_wsl(const struct planner *p);
bool setup_is_container(const struct planner *p);
const char *setup_gpu_text(const struct planner *p); // "NVIDIA H100, compute capability 9.0"
const char *setup_word(const struct planner *p, const char *text); // for the machine's shell
const char *setup_python_word(const struct planner *p);            // the environment's interpreter
const char *setup_python_code(const struct planner *p, const char *code); // a command that runs it
/* What keeps programs from the GPU, the first of them; NULL: nothing is known to. */
const struct host_problem *setup_problem(const struct host_gpu *g);

struct setup_step *setup_step_new(struct planner *p, enum setup_step_kind kind, const char *title);
void setup_command_add(struct planner *p, struct setup_step *s, const char *command);

/* What the environment that exists has of the plan (compare.c). */
void setup_compare(struct planner *p);
bool setup_is_kept(const struct planner *p, const struct setup_pin *pin);
/* Whether another build of the pinned release is there: "2.8.0+cpu" for 2.8.0, which an installer
 * takes for the same. */
bool setup_is_other_build(const struct planner *p, const struct setup_pin *pin);

/* Each adds its step, if the plan has one. */
void setup_driver_step_nvidia(struct planner *p);
void setup_driver_step_amd(struct planner *p);
void setup_environment_step(struct planner *p);
void setup_packages_step(struct planner *p);
void setup_libraries_step(struct planner *p);
void setup_settings_step(struct planner *p); // settings.c

/* Whether the program itself loads the libraries, by onnxruntime.preload_dlls(), which 1.21 is the
 * first to have. On Linux up to 1.27 the start-up hook loads all of them: what is opened later is
 * not in DT_NEEDED (kb/dlopen.json, onnxruntime-1.28-cuda-optional). */
bool setup_preloads(const struct planner *p); // settings.c
void setup_proof_step(struct planner *p);

/* The system's own packages (system.c). */
void setup_compiler_add(struct planner *p, struct setup_step *s); // its command
const char *setup_uv_text(const struct planner *p); // where uv comes from, as a sentence, or ""
void setup_program_step(struct planner *p);         // that the application starts
/* A ROCm of the release `wanted` ("7", "7.2"; "": any) that the machine has; NULL: none was seen.
 */
const struct host_rocm *setup_rocm_there(const struct planner *p, const char *wanted);

/* `counts`: for each pin, whether the step installs it (cost.c). */
void setup_packages_cost(struct planner *p, struct setup_step *s, const bool *counts);

/* What is not from the package index (outside.c). */
void setup_driver_step_other(struct planner *p);
void setup_runtime_step(struct planner *p);
void setup_clone_step(struct planner *p);
void setup_sync_add(struct planner *p, struct setup_step *s);
void setup_attached_add(struct planner *p, struct setup_step *s);
bool setup_is_attached(const struct planner *p);
bool setup_is_attached_pin(const struct planner *p, const struct setup_pin *pin);
/* Whether the plan takes it from another place than the package index. */
bool setup_is_elsewhere(const struct planner *p, const struct setup_pin *pin);
const char *setup_cmake_args(const struct planner *p); // "-DGGML_CUDA=on", or NULL
const char *setup_installer(const struct planner *p);  // "uv pip install --python x-env"

#endif
