/*
 * The causes gpumend can name: one row each, which drives the rules, `gpumend explain`, the
 * documentation and the tests.
 */
#ifndef GPUMEND_DIAG_CAUSE_H
#define GPUMEND_DIAG_CAUSE_H

#include <stdbool.h>
#include <stddef.h>

enum diag_cause {
    DIAG_REPAIR_INTERRUPTED,
    DIAG_PACKAGE_INCOMPLETE,
    DIAG_LIBRARY_UNUSABLE_FILE,
    DIAG_LIBRARY_DANGLING_LINK,
    DIAG_LIBRARY_UNREADABLE,
    DIAG_LIBRARY_WRONG_ARCHITECTURE,
    DIAG_CUDNN_SUBLIBRARY_MISSING,
    DIAG_CUDNN_MIXED_VERSIONS,
    DIAG_CUDNN_OLDER_SHIM,
    DIAG_FULL_VERSION_SHADOW,
    DIAG_LIBRARY_WRONG_COPY,
    DIAG_IMPORT_ORDER,
    DIAG_LDCONFIG_NOT_RUN,
    DIAG_LIBRARY_NOT_ON_PATH,
    DIAG_LIBRARY_WRONG_MAJOR,
    DIAG_LIBRARY_MISSING,
    DIAG_STUB_LIBCUDA,
    DIAG_GLIBC_TOO_OLD,
    DIAG_SYMBOL_VERSION_MISSING,
    DIAG_UNDEFINED_SYMBOL,
    DIAG_EXEC_STACK,
    DIAG_STATIC_TLS,
    DIAG_CPU_LEVEL,
    DIAG_PAGE_SIZE,
    DIAG_ARM_PLATFORM,
    DIAG_EXTENSION_OTHER_PYTHON,
    DIAG_SECURE_EXECUTION,
    DIAG_PRELOAD_IGNORED,
    DIAG_RELATIVE_SEARCH_PATH,
    DIAG_LIBRARY_PATH_ELEMENT,
    DIAG_FOLDER_CREATED_LATE,
    DIAG_MAPPED_FILE_DELETED,
    DIAG_ENTRY_MISSING,
    DIAG_IMAGE_REFUSED,
    DIAG_PROGRAM_OTHER_ARCHITECTURE,
    DIAG_MUSL,
    DIAG_LOADER_MISSING,
    DIAG_GPU_RESERVED,
    DIAG_NOUVEAU,
    DIAG_DRIVER_MISSING,
    DIAG_DRIVER_NOT_BUILT,
    DIAG_DRIVER_NOT_LOADED,
    DIAG_DRIVER_REFUSES_GPU,
    DIAG_KFD_MISSING,
    DIAG_GPU_EXCLUDED,
    DIAG_WSL_DRIVER_MISSING,
    DIAG_WSL_SHADOWED,
    DIAG_CONTAINER_NO_GPU,
    DIAG_CONTAINER_NO_LIBRARIES,
    DIAG_NODES_MISSING,
    DIAG_UVM_MISSING,
    DIAG_NODE_STALE,
    DIAG_DEVICE_CGROUP,
    DIAG_DEVICE_PERMISSION,
    DIAG_DRIVER_LIBRARIES_MISSING,
    DIAG_DRIVER_MISMATCH,
    DIAG_LEVEL_ZERO_MISSING,
    DIAG_FABRIC_MANAGER,
    DIAG_FORWARD_COMPAT,
    DIAG_DRIVER_LIBRARY_NOT_ON_PATH,
    DIAG_DRIVER_TOO_OLD,
    DIAG_GPU_HIDDEN,
    DIAG_MIG_INSTANCE_MISSING,
    DIAG_HSA_OVERRIDE,
    DIAG_AMD_KERNEL_OLD,
    DIAG_CONTAINER_RUNTIME,
    DIAG_CONTAINER_ENGINE,
    DIAG_CONTAINER_TOOLKIT,
    DIAG_CONTAINER_HOST_DRIVER,
    DIAG_CONTAINER_IMAGE_DRIVER,
    DIAG_CONTAINER_CDI,
    DIAG_CONTAINER_LINKS,
    DIAG_REQUIREMENT_MISSING,
    DIAG_PACKAGES_CONFLICT,
    DIAG_NUMPY_ABI,
    DIAG_ONNXRUNTIME_TWICE,
    DIAG_BUILD_OTHER_VENDOR,
    DIAG_BUILD_WITHOUT_GPU,
    DIAG_GPU_CODE_MISSING,
    DIAG_GFX_NOT_COVERED,
    DIAG_CUDNN_OLDER_THAN_BUILD,
    DIAG_COMPUTE_TYPE,
    DIAG_CPU_ISA_FORCED,
    DIAG_REQUIREMENT_UNMET,
    DIAG_CUDA_TWICE,
    DIAG_LIBRARY_DEFECT,
    /* From here on: what only a log shows, and a system at rest does not. */
    DIAG_DLL_MISSING,
    DIAG_FIRST_OF_LOGS = DIAG_DLL_MISSING,
    DIAG_PYTHON_NOT_FIRST,
    DIAG_CRASH_ON_UNLOAD,
    DIAG_VARIABLE_TOO_LATE,
    DIAG_DLOPEN_INTERPOSED,
    DIAG_LIBRARY_CHANGED,
    DIAG_BUNDLED_COPY,
    DIAG_TOOLKIT_MISSING,
    DIAG_TOOLKIT_MISMATCH,
    DIAG_LIBRARY_OLDER,
    DIAG_APPLICATION_DEFECT,
    DIAG_GPU_MEMORY_EXHAUSTED,
    DIAG_GPU_MEMORY_HELD,
    DIAG_GPU_EXCLUSIVE_MODE,
    DIAG_GPU_HARDWARE_FAULT,
    DIAG_DRIVER_FAULTY,
    DIAG_NCCL_SHARED_MEMORY,
    DIAG_NCCL_COMMUNICATION,
    DIAG_SECURE_BOOT,
    DIAG_NO_GPU_VISIBLE,
    DIAG_GPU_INDEX,
    DIAG_MIG_UUID,
    DIAG_FABRIC_NOT_NEEDED,
    DIAG_FABRIC_VERSION,
    DIAG_DRIVER_OLD_PTX,
    DIAG_DRIVER_OLD_ENCODER,
    DIAG_DRIVER_OLD_IMAGE,
    DIAG_UVM_SUSPEND,
    DIAG_WSL_LIBCUDA_PATH,
    DIAG_WSL_HSA,
    DIAG_JETSON_BUILD,
    DIAG_PLATFORM_NO_BUILD,
    DIAG_CAUSES,
};

enum diag_severity { DIAG_NOTE, DIAG_WARNING, DIAG_ERROR };

struct diag_cause_row {
    const char *id;    // stable, for people and programs
    const char *class; // root-cause class of the failure collection
    enum diag_severity severity;
    const char *title; // one sentence
};

/* What docs/causes/ID.md says of a cause, embedded by scripts/pages-embed. */
struct diag_page {
    const char *id;
    const char *text;  // headings at the margin, prose at 2 blanks, code at 6 or more; 80 columns
    const char *parts; // the same as a JSON object: examples, mechanism, see, ways_out, threads,
                       // classes
};

extern const struct diag_cause_row diag_causes[DIAG_CAUSES];
extern const struct diag_page diag_pages[];
extern const size_t diag_n_pages;

/* The row with this id, or NULL. */
const struct diag_cause_row *diag_cause_by_id(const char *id);
/* The page of this id, or NULL. */
const struct diag_page *diag_page_by_id(const char *id);
/* True for a cause that a log alone shows; `check` never names it. `row` is one of diag_causes. */
bool diag_cause_log_only(const struct diag_cause_row *row);
const char *diag_severity_name(enum diag_severity severity);

#endif
