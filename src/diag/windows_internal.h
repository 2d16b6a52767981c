/* What the files diag/windows*.c share. */
#ifndef GPUMEND_DIAG_WINDOWS_INTERNAL_H
#define GPUMEND_DIAG_WINDOWS_INTERNAL_H

#include "diag/windows.h"

typedef VEC(const char *) diag_windows_folders;

/* Where packages and installers put the DLLs of CUDA, cuDNN and ROCm. */
void diag_windows_find_folders(struct diag_windows *n, diag_windows_folders *list);

/* What `conda activate` puts before PATH (conda/activate.py, _get_path_dirs()); NULL: another kind
 * of environment. */
const char *diag_windows_activated_path(const struct diag_windows *n);

/* The environment with these folders before PATH, if PATH is known; NULL: none. */
struct winldr_python diag_windows_with_path(const struct diag_windows *n, const char *added);

bool diag_windows_has_dll(struct diag_windows *n, const char *folder, const char *dll);

/* NULL: the command prompt has no way to write it. */
const char *diag_windows_quote_cmd(struct arena *a, const char *text);

void diag_windows_add_repair(struct diag_windows *n, struct diag_windows_finding *f,
                             struct diag_windows_repair repair);
struct diag_windows_repair diag_windows_plain(const char *says, const char *command);
struct diag_windows_repair diag_windows_pip(const struct diag_windows *n, const char *says,
                                            const char *arguments);

/* The same, and then a folder that it makes on PATH: one line for each shell, which goes on only if
 * pip succeeded. */
struct diag_windows_repair diag_windows_pip_on_path(const struct diag_windows *n, const char *says,
                                                    const char *arguments, const char *folder);

struct diag_windows_repair diag_windows_directories(const struct diag_windows *n,
                                                    const diag_windows_folders *folders);
struct diag_windows_repair diag_windows_preload(const struct diag_windows *n, const char *path);
struct diag_windows_repair diag_windows_on_path(const struct diag_windows *n, const char *folder);

/* Sets a variable, or with NULL removes it, in the window that starts the program. */
struct diag_windows_repair diag_windows_variable(const struct diag_windows *n, const char *name,
                                                 const char *value);

/* windows_machine.c: what depends on the GPUs, drivers and toolkits of the machine. */
const struct host_gpu *diag_windows_gpu(const struct diag_windows *n, enum host_vendor vendor);
void diag_windows_judge_build(struct diag_windows *n);
void diag_windows_judge_driver(struct diag_windows *n);
void diag_windows_judge_hip(struct diag_windows *n);

/* windows_repair.c: the build that serves an AMD GPU. */
void diag_windows_add_amd_repair(struct diag_windows *n, struct diag_windows_finding *f,
                                 const struct host_gpu *g, const char *package);

/* windows_command.c: packages of another Python than the one that the command `python` starts. */
void diag_windows_judge_command(struct diag_windows *n);

/* windows_use.c */
void diag_windows_judge_first_use(struct diag_windows *n);
bool diag_windows_is_cuda_build(struct diag_windows *n); // ctranslate2's

/* windows_cudnn.c */
void diag_windows_judge_cudnn(struct diag_windows *n);

/* windows_gfx.c */
void diag_windows_judge_gfx(struct diag_windows *n);

#endif
