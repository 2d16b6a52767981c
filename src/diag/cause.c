#include "diag/cause.h"

#include <string.h>

const struct diag_cause_row diag_causes[DIAG_CAUSES] = {
    [DIAG_REPAIR_INTERRUPTED] = {"repair-interrupted", "python-dep-conflict", DIAG_ERROR,
                                 "A gpumend repair was interrupted here."},
    [DIAG_PACKAGE_INCOMPLETE] =
        {"package-incomplete", "python-dep-conflict", DIAG_ERROR,
         "Files that an installed package lists in its RECORD are missing."},
    [DIAG_LIBRARY_UNUSABLE_FILE] = {"library-unusable-file", "lib-missing", DIAG_ERROR,
                                    "The file has the right name but is not a usable library."},
    [DIAG_LIBRARY_DANGLING_LINK] = {"library-dangling-link", "lib-missing", DIAG_ERROR,
                                    "A link with the library's name leads nowhere."},
    [DIAG_LIBRARY_UNREADABLE] = {"library-unreadable", "permission", DIAG_ERROR,
                                 "The library exists, but this user cannot read it."},
    [DIAG_LIBRARY_WRONG_ARCHITECTURE] =
        {"library-wrong-architecture", "lib-missing", DIAG_ERROR,
         "The library is built for another processor, word size or operating system."},
    [DIAG_CUDNN_SUBLIBRARY_MISSING] =
        {"cudnn-sublibrary-missing", "partial-cudnn", DIAG_ERROR,
         "The main cuDNN library is present, but a sub-library that it loads is missing."},
    [DIAG_CUDNN_MIXED_VERSIONS] = {"cudnn-mixed-versions", "sublib-version-mismatch", DIAG_ERROR,
                                   "Sub-libraries of one cuDNN come from different releases."},
    [DIAG_CUDNN_OLDER_SHIM] =
        {"cudnn-older-main-library", "sublib-version-mismatch", DIAG_WARNING,
         "The main cuDNN library and its sub-libraries come from different releases."},
    [DIAG_FULL_VERSION_SHADOW] =
        {"full-version-shadow", "sublib-version-mismatch", DIAG_ERROR,
         "A file with the full version in its name wins over the copy that is already loaded."},
    [DIAG_LIBRARY_WRONG_COPY] =
        {"library-wrong-copy", "ld-library-path-shadow", DIAG_ERROR,
         "The search path picks a copy of a library that does not match the others."},
    [DIAG_IMPORT_ORDER] = {"import-order", "lib-not-on-path", DIAG_ERROR,
                           "The package works only if another package is imported first."},
    [DIAG_LDCONFIG_NOT_RUN] =
        {"ldconfig-not-run", "lib-not-on-path", DIAG_ERROR,
         "The library is in a folder listed in ld.so.conf but missing from ld.so.cache."},
    [DIAG_LIBRARY_NOT_ON_PATH] =
        {"library-not-on-path", "lib-not-on-path", DIAG_ERROR,
         "The library is installed in a folder that the loader does not search."},
    [DIAG_LIBRARY_WRONG_MAJOR] =
        {"library-wrong-major", "wrong-major", DIAG_ERROR,
         "The installed library has a different major version than the one that is needed."},
    [DIAG_LIBRARY_MISSING] = {"library-missing", "lib-missing", DIAG_ERROR,
                              "A required library is not installed."},
    [DIAG_STUB_LIBCUDA] =
        {"stub-libcuda", "ld-library-path-shadow", DIAG_ERROR,
         "The toolkit's stub of libcuda is loaded instead of the driver's library."},
    [DIAG_GLIBC_TOO_OLD] = {"glibc-too-old", "glibc-too-old", DIAG_ERROR,
                            "The system's C or C++ library is older than the binary needs."},
    [DIAG_SYMBOL_VERSION_MISSING] =
        {"symbol-version-missing", "symbol-missing", DIAG_ERROR,
         "The loaded library lacks a symbol version that another library needs."},
    [DIAG_UNDEFINED_SYMBOL] = {"undefined-symbol", "symbol-missing", DIAG_ERROR,
                               "No loaded library defines a symbol that another library needs."},
    [DIAG_EXEC_STACK] = {"exec-stack", "exec-stack", DIAG_ERROR,
                         "A library requires an executable stack, which this glibc refuses."},
    [DIAG_STATIC_TLS] =
        {"static-tls-exhausted", "not-gpu-runtime", DIAG_ERROR,
         "A library's thread-local variables do not fit into the static TLS block."},
    [DIAG_CPU_LEVEL] = {"cpu-level", "not-gpu-runtime", DIAG_ERROR,
                        "A library is built for a newer processor than this one."},
    [DIAG_PAGE_SIZE] = {"page-size", "not-gpu-runtime", DIAG_ERROR,
                        "A file is linked for smaller memory pages than this kernel's."},
    [DIAG_ARM_PLATFORM] = {"cuda-for-other-arm", "jetson", DIAG_WARNING,
                           "A CUDA library is built for the other kind of Arm machine."},
    [DIAG_EXTENSION_OTHER_PYTHON] =
        {"extension-other-python", "python-dep-conflict", DIAG_ERROR,
         "A package's compiled module was built for another Python version."},
    [DIAG_SECURE_EXECUTION] = {"secure-execution", "env-set-too-late", DIAG_WARNING,
                               "The program runs in secure-execution mode, in which "
                               "LD_LIBRARY_PATH and LD_PRELOAD are ignored."},
    [DIAG_PRELOAD_IGNORED] = {"preload-ignored", "env-set-too-late", DIAG_WARNING,
                              "A library in LD_PRELOAD cannot be loaded and is ignored."},
    [DIAG_RELATIVE_SEARCH_PATH] =
        {"relative-search-path", "lib-not-on-path", DIAG_WARNING,
         "A library is found only because the program starts in a certain working directory."},
    [DIAG_LIBRARY_PATH_ELEMENT] =
        {"library-path-element", "ld-library-path-shadow", DIAG_WARNING,
         "LD_LIBRARY_PATH has an element that does not mean what it seems to."},
    [DIAG_FOLDER_CREATED_LATE] =
        {"folder-created-late", "env-set-too-late", DIAG_WARNING,
         "A folder of the search path was created after the program had started."},
    [DIAG_MAPPED_FILE_DELETED] =
        {"mapped-file-deleted", "python-dep-conflict", DIAG_WARNING,
         "The running program uses libraries whose files were replaced or removed."},
    [DIAG_ENTRY_MISSING] = {"container-entry-missing", "not-gpu-runtime", DIAG_ERROR,
                            "The image does not contain the program that it starts."},
    [DIAG_IMAGE_REFUSED] =
        {"container-image-refused", "not-gpu-runtime", DIAG_ERROR,
         "A layer of the image has an entry that container engines cannot unpack."},
    [DIAG_PROGRAM_OTHER_ARCHITECTURE] =
        {"program-other-architecture", "not-gpu-runtime", DIAG_ERROR,
         "The program is built for another processor than the host's."},
    [DIAG_MUSL] = {"musl", "platform-unsupported", DIAG_ERROR,
                   "The program uses musl; NVIDIA's and AMD's libraries are built for glibc."},
    [DIAG_LOADER_MISSING] = {"loader-missing", "lib-missing", DIAG_ERROR,
                             "The program's loader (PT_INTERP) does not exist."},
    [DIAG_GPU_RESERVED] = {"gpu-reserved-for-vm", "driver-not-loaded", DIAG_ERROR,
                           "The GPU is reserved for a virtual machine."},
    [DIAG_NOUVEAU] = {"nouveau-bound", "driver-not-loaded", DIAG_ERROR,
                      "The GPU is bound to nouveau, which does not support CUDA."},
    [DIAG_DRIVER_MISSING] = {"driver-missing", "driver-not-loaded", DIAG_ERROR,
                             "No driver is installed for the GPU."},
    [DIAG_DRIVER_NOT_BUILT] = {"driver-module-not-built", "driver-not-loaded", DIAG_ERROR,
                               "The driver's module was not built for the running kernel."},
    [DIAG_DRIVER_NOT_LOADED] = {"driver-not-loaded", "driver-not-loaded", DIAG_ERROR,
                                "The driver is installed, but its kernel module is not loaded."},
    [DIAG_DRIVER_REFUSES_GPU] = {"driver-does-not-serve-gpu", "driver-not-loaded", DIAG_ERROR,
                                 "The driver is loaded but does not support this GPU."},
    [DIAG_KFD_MISSING] = {"kfd-missing", "driver-not-loaded", DIAG_ERROR,
                          "The kernel's AMD compute driver (KFD) does not offer the GPU."},
    [DIAG_GPU_EXCLUDED] = {"gpu-excluded", "no-device", DIAG_ERROR,
                           "The driver is configured to exclude the GPU."},
    [DIAG_WSL_DRIVER_MISSING] = {"wsl-driver-missing", "wsl-specific", DIAG_ERROR,
                                 "WSL cannot access the Windows NVIDIA driver."},
    [DIAG_WSL_SHADOWED] = {"wsl-libcuda-shadowed", "wsl-specific", DIAG_ERROR,
                           "A Linux driver's libcuda hides WSL's own."},
    [DIAG_CONTAINER_NO_GPU] = {"container-without-gpu", "container-no-gpu", DIAG_ERROR,
                               "The container was started without the GPU."},
    [DIAG_CONTAINER_NO_LIBRARIES] =
        {"container-without-driver-libraries", "container-lib-missing", DIAG_ERROR,
         "The container has the devices but not the driver's libraries."},
    [DIAG_NODES_MISSING] = {"device-nodes-missing", "driver-not-loaded", DIAG_ERROR,
                            "The device nodes of the GPU are missing."},
    [DIAG_UVM_MISSING] = {"uvm-missing", "uvm-not-loaded", DIAG_ERROR,
                          "nvidia_uvm is not loaded, or its device node is missing."},
    [DIAG_NODE_STALE] = {"device-node-stale", "uvm-not-loaded", DIAG_ERROR,
                         "A device node has the major number of another driver."},
    [DIAG_DEVICE_CGROUP] = {"device-cgroup-lost", "cgroup-lost", DIAG_ERROR,
                            "The device cgroup denies access to a device that exists."},
    [DIAG_DEVICE_PERMISSION] = {"device-permission", "permission", DIAG_ERROR,
                                "This user does not have permission to use the device node."},
    [DIAG_DRIVER_LIBRARIES_MISSING] =
        {"driver-libraries-missing", "lib-missing", DIAG_ERROR,
         "The driver's kernel module is loaded, but its libraries are not installed."},
    [DIAG_DRIVER_MISMATCH] =
        {"driver-version-mismatch", "driver-lib-mismatch", DIAG_ERROR,
         "The driver's kernel module and its libraries have different versions."},
    [DIAG_LEVEL_ZERO_MISSING] = {"level-zero-missing", "lib-missing", DIAG_ERROR,
                                 "A component of Intel's Level Zero is not installed."},
    [DIAG_FABRIC_MANAGER] = {"fabric-manager-not-running", "fabric-manager", DIAG_ERROR,
                             "The GPUs use NVSwitch, but the fabric manager is not running."},
    [DIAG_FORWARD_COMPAT] = {"forward-compat-wrong", "forward-compat", DIAG_ERROR,
                             "A forward-compatibility libcuda is used where it must not be."},
    [DIAG_DRIVER_LIBRARY_NOT_ON_PATH] =
        {"driver-library-not-on-path", "lib-not-on-path", DIAG_ERROR,
         "The driver's libcuda is in a folder that the loader does not search."},
    [DIAG_DRIVER_TOO_OLD] = {"driver-too-old", "driver-too-old", DIAG_ERROR,
                             "The NVIDIA driver is too old for the loaded CUDA runtime."},
    [DIAG_GPU_HIDDEN] = {"gpu-hidden", "no-device", DIAG_ERROR,
                         "A variable hides the GPUs from programs."},
    [DIAG_MIG_INSTANCE_MISSING] = {"mig-instance-missing", "mig-config", DIAG_ERROR,
                                   "A MIG instance was requested, but none exists."},
    [DIAG_HSA_OVERRIDE] =
        {"hsa-override-wrong", "gfx-unsupported", DIAG_WARNING,
         "HSA_OVERRIDE_GFX_VERSION makes ROCm treat the GPU as another architecture."},
    [DIAG_AMD_KERNEL_OLD] = {"amd-kernel-old", "driver-too-old", DIAG_WARNING,
                             "The kernel is too old to report the architecture of an AMD GPU."},
    [DIAG_CONTAINER_RUNTIME] =
        {"container-runtime-missing", "container-no-gpu", DIAG_ERROR,
         "The container runtime for GPUs is not installed or not registered."},
    [DIAG_CONTAINER_ENGINE] =
        {"container-engine-elsewhere", "container-no-gpu", DIAG_WARNING,
         "The container engine in use is not the one that was configured for GPUs."},
    [DIAG_CONTAINER_TOOLKIT] = {"container-toolkit-config", "container-no-gpu", DIAG_WARNING,
                                "The NVIDIA Container Toolkit's settings do not fit this host."},
    [DIAG_CONTAINER_HOST_DRIVER] = {"container-cannot-see-host-driver", "container-lib-missing",
                                    DIAG_ERROR,
                                    "The container engine cannot see the host driver's libraries."},
    [DIAG_CONTAINER_IMAGE_DRIVER] = {"container-image-has-driver", "container-lib-missing",
                                     DIAG_ERROR, "The image contains its own driver libraries."},
    [DIAG_CONTAINER_CDI] =
        {"container-cdi-unresolved", "container-no-gpu", DIAG_ERROR,
         "The engine finds no CDI specification for the GPU, or an outdated one."},
    [DIAG_CONTAINER_LINKS] = {"container-may-lose-gpu", "cgroup-lost", DIAG_NOTE,
                              "A systemd reload may take the GPU away from running containers."},
    [DIAG_REQUIREMENT_MISSING] =
        {"requirement-missing", "python-dep-conflict", DIAG_ERROR,
         "A package that another one needs at import or first use is not installed."},
    [DIAG_PACKAGES_CONFLICT] = {"packages-conflict", "python-dep-conflict", DIAG_ERROR,
                                "Packages exclude or overwrite one another, or one was replaced."},
    [DIAG_NUMPY_ABI] =
        {"numpy-abi", "numpy-abi", DIAG_ERROR,
         "An extension module was built for a different NumPy than the installed one."},
    [DIAG_ONNXRUNTIME_TWICE] = {"onnxruntime-twice", "python-dep-conflict", DIAG_ERROR,
                                "onnxruntime and onnxruntime-gpu are installed over one another."},
    [DIAG_BUILD_OTHER_VENDOR] =
        {"build-for-other-vendor", "cpu-only-build", DIAG_WARNING,
         "A package is built for CUDA but the GPU is AMD's, or the reverse."},
    [DIAG_BUILD_WITHOUT_GPU] =
        {"build-without-gpu", "cpu-only-build", DIAG_WARNING,
         "The installed build of a package is for the CPU only, but there is a GPU."},
    [DIAG_GPU_CODE_MISSING] =
        {"gpu-code-missing", "arch-unsupported", DIAG_ERROR,
         "A library has neither native code nor usable PTX for this NVIDIA GPU."},
    [DIAG_GFX_NOT_COVERED] =
        {"gfx-not-covered", "gfx-unsupported", DIAG_ERROR,
         "A library has no code for this AMD GPU, or rocBLAS has no kernels for it."},
    [DIAG_CUDNN_OLDER_THAN_BUILD] =
        {"cudnn-older-than-build", "header-runtime-mismatch", DIAG_ERROR,
         "torch loads an older cuDNN than it was built with, and rejects it."},
    [DIAG_COMPUTE_TYPE] = {"compute-type-unsupported", "compute-type-unsupported", DIAG_WARNING,
                           "The program's default compute type is not efficient on this GPU."},
    [DIAG_CPU_ISA_FORCED] =
        {"cpu-isa-forced", "not-gpu-runtime", DIAG_ERROR,
         "CT2_FORCE_CPU_ISA names an instruction set that is unknown or that the processor lacks."},
    [DIAG_REQUIREMENT_UNMET] =
        {"requirement-unmet", "python-dep-conflict", DIAG_NOTE,
         "The installed packages do not meet the requirements that a package declares."},
    [DIAG_CUDA_TWICE] = {"cuda-releases-mixed", "wrong-major", DIAG_NOTE,
                         "The image contains the libraries of two CUDA releases."},
    [DIAG_LIBRARY_DEFECT] =
        {"library-defect", "lib-bug", DIAG_ERROR,
         "There is a defect in the library that loads or uses the GPU; the system is fine."},
    [DIAG_DLL_MISSING] = {"dll-missing", "windows-dll", DIAG_ERROR,
                          "A DLL, or a DLL that it depends on, is not found on Windows."},
    [DIAG_PYTHON_NOT_FIRST] =
        {"python-not-first", "python-dep-conflict", DIAG_NOTE,
         "The command python starts another Python than the one that has the packages."},
    [DIAG_CRASH_ON_UNLOAD] =
        {"crash-on-unload", "crash-on-unload", DIAG_ERROR,
         "The process crashes or hangs when a model is destroyed or the process exits."},
    [DIAG_VARIABLE_TOO_LATE] =
        {"variable-set-too-late", "env-set-too-late", DIAG_ERROR,
         "An environment variable is set after the library has already read it."},
    [DIAG_DLOPEN_INTERPOSED] = {"dlopen-interposed", "lib-not-on-path", DIAG_ERROR,
                                "Another library intercepts dlopen, so the loader searches on "
                                "behalf of the wrong caller."},
    [DIAG_LIBRARY_CHANGED] =
        {"library-changed-while-running", "python-dep-conflict", DIAG_WARNING,
         "A library was created, changed or removed while the program was running."},
    [DIAG_BUNDLED_COPY] = {"bundled-copy-wins", "rpath-shadow", DIAG_ERROR,
                           "A copy bundled with a package wins over the right one."},
    [DIAG_TOOLKIT_MISSING] =
        {"toolkit-missing", "toolkit-missing", DIAG_ERROR,
         "The CUDA toolkit (compiler, headers) is required but was not found."},
    [DIAG_TOOLKIT_MISMATCH] =
        {"toolkit-mismatch", "header-runtime-mismatch", DIAG_ERROR,
         "The CUDA compiler has a different release than the one the package was built with."},
    [DIAG_LIBRARY_OLDER] =
        {"library-older-than-build", "header-runtime-mismatch", DIAG_ERROR,
         "A program loads a different release of a library than the one it was built with."},
    [DIAG_APPLICATION_DEFECT] = {"application-defect", "app-bug", DIAG_ERROR,
                                 "There is a defect in the application; the GPU runtime is fine."},
    [DIAG_GPU_MEMORY_EXHAUSTED] = {"gpu-memory-exhausted", "out-of-memory", DIAG_ERROR,
                                   "The GPU does not have enough memory for the request."},
    [DIAG_GPU_MEMORY_HELD] = {"gpu-memory-held", "out-of-memory", DIAG_ERROR,
                              "Another process holds the GPU's memory."},
    [DIAG_GPU_EXCLUSIVE_MODE] =
        {"gpu-exclusive-mode", "device-busy", DIAG_ERROR,
         "The GPU is held by another process in an exclusive compute mode."},
    [DIAG_GPU_HARDWARE_FAULT] = {"gpu-hardware-fault", "xid-hardware", DIAG_ERROR,
                                 "The GPU fails or falls off the bus."},
    [DIAG_DRIVER_FAULTY] = {"driver-faulty", "driver-bug", DIAG_ERROR,
                            "The driver release itself is at fault."},
    [DIAG_NCCL_SHARED_MEMORY] = {"nccl-shared-memory", "nccl-error", DIAG_ERROR,
                                 "NCCL cannot create its segment in /dev/shm."},
    [DIAG_NCCL_COMMUNICATION] = {"nccl-communication", "nccl-error", DIAG_ERROR,
                                 "Communication between GPUs or processes fails."},
    [DIAG_SECURE_BOOT] = {"secure-boot-refuses-module", "secure-boot", DIAG_ERROR,
                          "The kernel rejects the driver's module because of its signature."},
    [DIAG_NO_GPU_VISIBLE] = {"no-gpu-visible", "no-device", DIAG_ERROR,
                             "No GPU is visible to the program."},
    [DIAG_GPU_INDEX] = {"gpu-index-out-of-range", "no-device", DIAG_ERROR,
                        "The program selects a GPU by an index that does not exist."},
    [DIAG_MIG_UUID] = {"mig-uuid-not-understood", "mig-config", DIAG_ERROR,
                       "The program does not understand the UUID of a MIG slice."},
    [DIAG_FABRIC_NOT_NEEDED] = {"fabric-manager-not-needed", "fabric-manager", DIAG_ERROR,
                                "The fabric manager is started on a machine without NVSwitch."},
    [DIAG_FABRIC_VERSION] = {"fabric-manager-version", "fabric-manager", DIAG_ERROR,
                             "The fabric manager and the driver have different versions."},
    [DIAG_DRIVER_OLD_PTX] = {"driver-too-old-for-ptx", "driver-too-old", DIAG_ERROR,
                             "The driver is too old for the PTX that the program contains."},
    [DIAG_DRIVER_OLD_ENCODER] =
        {"driver-too-old-for-encoder", "driver-too-old", DIAG_ERROR,
         "The driver's video interface is older than the program requires."},
    [DIAG_DRIVER_OLD_IMAGE] = {"driver-too-old-for-image", "driver-too-old", DIAG_ERROR,
                               "The image requires a newer driver than the host has."},
    [DIAG_UVM_SUSPEND] = {"uvm-stale-after-suspend", "uvm-not-loaded", DIAG_ERROR,
                          "nvidia_uvm lost its state when the machine was suspended."},
    [DIAG_WSL_LIBCUDA_PATH] =
        {"wsl-libcuda-not-on-path", "wsl-specific", DIAG_ERROR,
         "In WSL, the program does not search the folder of the driver's library."},
    [DIAG_WSL_HSA] = {"rocm-runtime-without-wsl", "rpath-shadow", DIAG_ERROR,
                      "The ROCm wheel contains an HSA runtime that does not support WSL."},
    [DIAG_JETSON_BUILD] = {"jetson-generic-build", "jetson", DIAG_ERROR,
                           "The build is not made for this Jetson."},
    [DIAG_PLATFORM_NO_BUILD] =
        {"no-gpu-build-for-platform", "platform-unsupported", DIAG_ERROR,
         "The package has no GPU support on this operating system or processor."},
};

const struct diag_cause_row *diag_cause_by_id(const char *id)
{
    for (size_t i = 0; i < DIAG_CAUSES; i++) {
        if (strcmp(diag_causes[i].id, id) == 0) {
            return &diag_causes[i];
        }
    }
    return NULL;
}

const struct diag_page *diag_page_by_id(const char *id)
{
    for (size_t i = 0; i < diag_n_pages; i++) {
        if (strcmp(diag_pages[i].id, id) == 0) {
            return &diag_pages[i];
        }
    }
    return NULL;
}

bool diag_cause_log_only(const struct diag_cause_row *row)
{
    return row - diag_causes >= DIAG_FIRST_OF_LOGS;
}

const char *diag_severity_name(enum diag_severity severity)
{
    static const char *const names[] = {
        [DIAG_NOTE] = "note", [DIAG_WARNING] = "warning", [DIAG_ERROR] = "error"};
    return names[severity];
}
