#include "diag/cause.h"

#include <string.h>

const struct diag_cause_row diag_causes[DIAG_CAUSES] = {
    [DIAG_LIBRARY_UNUSABLE_FILE] = {
        "library-unusable-file", "lib-missing", DIAG_ERROR,
        "A file with the right name is no usable library.",
        "The loader takes the first file with the name it looks for. If that file is empty, cut off,\n"
        "a text file (a linker script, a Git LFS pointer, an HTML page saved by a download) or no\n"
        "shared library, the search ends there with an error, even if a good copy comes later.\n"
        "A file that is cut off behind its headers is mapped, and the process dies later (SIGBUS).\n\n"
        "To do: install the package that owns the file again, or remove the file."},
    [DIAG_LIBRARY_DANGLING_LINK] = {
        "library-dangling-link", "lib-missing", DIAG_ERROR,
        "A link with the library's name leads nowhere.",
        "The loader reports \"No such file or directory\" for a symbolic link whose target is gone,\n"
        "as if the link were not there. It happens when a package was removed or updated by hand, or\n"
        "when an image was copied without the links' targets.\n\n"
        "To do: install the package again, or make the link point at the file that is there."},
    [DIAG_LIBRARY_UNREADABLE] = {
        "library-unreadable", "permission", DIAG_ERROR,
        "The library is there and may not be read.",
        "A file or folder without read permission looks to the loader's error text as if it were not\n"
        "there (\"No such file or directory\"). It happens with environments made by root, or with\n"
        "a umask of 077.\n\n"
        "To do: give read permission to files, read and search permission to folders."},
    [DIAG_LIBRARY_WRONG_ARCHITECTURE] = {
        "library-wrong-architecture", "lib-missing", DIAG_ERROR,
        "The library that is there is built for another processor, word size or operating system.",
        "The loader passes over files of another architecture silently and over files of the other\n"
        "word size with \"wrong ELF class\"; if nothing else is found it says that the library is\n"
        "missing. At a file for another operating system (\"ELF file OS ABI invalid\") it stops.\n\n"
        "To see it: file PATH, or readelf -h PATH.\n\n"
        "To do: install the build for this machine."},
    [DIAG_CUDNN_SUBLIBRARY_MISSING] = {
        "cudnn-sublibrary-missing", "partial-cudnn", DIAG_ERROR,
        "The main cuDNN library is there, a sub-library that it opens is not.",
        "cuDNN is a small main library that opens its sub-libraries (ops, cnn, graph, engines ...)\n"
        "by name when they are first needed. If one cannot be opened the program aborts with \"Unable\n"
        "to load any of {libcudnn_ops.so.9.1.0, ...}\" (cuDNN 9) or \"Could not load library\n"
        "libcudnn_ops_infer.so.8\" (cuDNN 8). The version in the braces is that of the main library\n"
        "that asks; packages that bundle the main library alone are the most common case:\n"
        "CTranslate2 4.5.0 to 4.6.2 bundle that of cuDNN 9.1.0.\n\n"
        "To do: one of (1) ctranslate2 4.6.3 or later, which needs no cuDNN; (2) install the complete\n"
        "cuDNN of that version and put its folder in LD_LIBRARY_PATH before the program starts; (3) load\n"
        "the complete set by absolute path before the first use (as `import torch` does)."},
    [DIAG_CUDNN_MIXED_VERSIONS] = {
        "cudnn-mixed-versions", "sublib-version-mismatch", DIAG_ERROR,
        "Sub-libraries of one cuDNN come from different releases.",
        "cuDNN's sub-libraries check one another when they are loaded: parts of different releases end\n"
        "in CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH, in undefined symbols, or in an abort. It happens\n"
        "when a folder holds files of two installations, or when a folder that comes first on the\n"
        "search path holds only some of the sub-libraries.\n\n"
        "To do: keep one release. Install the package again, and take other copies off\n"
        "LD_LIBRARY_PATH."},
    [DIAG_CUDNN_OLDER_SHIM] = {
        "cudnn-older-main-library", "sublib-version-mismatch", DIAG_WARNING,
        "The main cuDNN library and its sub-libraries come from different releases.",
        "The main library only passes calls on; a newer complete set of sub-libraries usually serves\n"
        "an older main library of the same major version, and this is not what the vendor tests.\n\n"
        "To do: if there is trouble, install the release that the main library belongs to."},
    [DIAG_FULL_VERSION_SHADOW] = {
        "full-version-shadow", "sublib-version-mismatch", DIAG_ERROR,
        "A file with the full version in its name wins over the copy that is already loaded.",
        "cuDNN asks for libcudnn_ops.so.9.1.0 before libcudnn_ops.so.9. Packages from PyPI carry only\n"
        "the second name, so a library that was loaded first (by torch, or by LD_PRELOAD) does not\n"
        "answer to the first one, and a distribution's file with that full name is loaded as a second\n"
        "copy, of another release.\n\n"
        "To do: take the folder with the full-version files off the search path, or put a folder of\n"
        "full-version links to the right files first."},
    [DIAG_LIBRARY_WRONG_COPY] = {
        "library-wrong-copy", "ld-library-path-shadow", DIAG_ERROR,
        "The search path brings in a copy of a library that does not fit.",
        "LD_LIBRARY_PATH beats the program's own RUNPATH, and RPATH beats both. A folder put there for\n"
        "another program (a CUDA toolkit, a conda environment) then replaces the library that a\n"
        "package brings along, and versions or symbols do not match.\n\n"
        "To do: unset LD_LIBRARY_PATH for this program, or put the package's own folder first."},
    [DIAG_IMPORT_ORDER] = {
        "import-order", "lib-not-on-path", DIAG_ERROR,
        "It works only if another package is imported first.",
        "A library that is loaded already answers for its name, wherever it lies. So a package that\n"
        "cannot find a library works when another package has loaded it before, and fails in the other\n"
        "order: with a change of one import line, or of the tool that sorts them.\n\n"
        "To do: import the package that brings the library first, or make the library findable\n"
        "(LD_LIBRARY_PATH), which does not depend on the order."},
    [DIAG_LDCONFIG_NOT_RUN] = {
        "ldconfig-not-run", "lib-not-on-path", DIAG_ERROR,
        "The library is in a folder that ld.so.conf names, and not in ld.so.cache.",
        "The loader never reads /etc/ld.so.conf: it reads ld.so.cache, which ldconfig makes from it.\n"
        "A library that was copied into such a folder, or a file added to /etc/ld.so.conf.d, counts\n"
        "only after ldconfig has run. In an image built in steps the cache may be older than both.\n\n"
        "To see it: ldconfig -p | grep NAME\n\n"
        "To do: run ldconfig as root; in a Dockerfile, in the step that installs the library."},
    [DIAG_LIBRARY_NOT_ON_PATH] = {
        "library-not-on-path", "lib-not-on-path", DIAG_ERROR,
        "The library is installed in a folder that the loader does not search.",
        "pip puts NVIDIA's libraries into site-packages/nvidia/*/lib. The loader knows nothing of\n"
        "that: it looks in the asking library's RPATH or RUNPATH, in LD_LIBRARY_PATH, in\n"
        "ld.so.cache, and in the system's folders. Setting LD_LIBRARY_PATH inside the program\n"
        "(os.environ) has no effect: the loader reads it once, at start.\n\n"
        "To do: set LD_LIBRARY_PATH before the program starts."},
    [DIAG_LIBRARY_WRONG_MAJOR] = {
        "library-wrong-major", "wrong-major", DIAG_ERROR,
        "Another major version of the library is installed than the one that is needed.",
        "The number at the end of a library's name is its binary interface: libcublas.so.13 cannot\n"
        "stand in for libcublas.so.12, and a link with the other name does not make it fit. Programs\n"
        "are built for one major version of CUDA and of cuDNN; two of them can be installed side by\n"
        "side.\n\n"
        "To do: install the major version that is asked for, or the build of the program for the one\n"
        "that is there."},
    [DIAG_LIBRARY_MISSING] = {
        "library-missing", "lib-missing", DIAG_ERROR,
        "A library that is needed is not installed.",
        "No file of that name lies in any folder that the loader searches, nor in the usual folders\n"
        "of packages and toolkits. nvidia-smi's \"CUDA Version\" is what the driver supports, not an\n"
        "installed toolkit.\n\n"
        "To do: install the package that provides it."},
    [DIAG_STUB_LIBCUDA] = {
        "stub-libcuda", "ld-library-path-shadow", DIAG_ERROR,
        "The toolkit's stub of libcuda is loaded instead of the driver's library.",
        "CUDA toolkits carry a stub of libcuda in lib64/stubs, for linking only. Its soname is that of\n"
        "the real one; with that folder on LD_LIBRARY_PATH or in an RPATH the stub is loaded and every\n"
        "call fails (\"CUDA driver is a stub library\", error 34).\n\n"
        "To do: take the stubs folder off the search path."},
    [DIAG_GLIBC_TOO_OLD] = {
        "glibc-too-old", "glibc-too-old", DIAG_ERROR,
        "The system's C or C++ library is older than the binary needs.",
        "A binary records the versions of glibc (GLIBC_2.38) and libstdc++ (GLIBCXX_3.4.30) that it\n"
        "needs; an older library does not have them, and it cannot be replaced alone.\n\n"
        "To do: a build for older systems (a manylinux wheel with a lower tag), a newer system or\n"
        "container; for libstdc++, conda's libstdcxx-ng."},
    [DIAG_SYMBOL_VERSION_MISSING] = {
        "symbol-version-missing", "symbol-missing", DIAG_ERROR,
        "The library that is loaded lacks a version that another one needs from it.",
        "Two libraries that belong together come from different releases: the loader found the right\n"
        "name and the wrong file.\n\n"
        "To do: make both come from one release; look at which search path brought the wrong one."},
    [DIAG_UNDEFINED_SYMBOL] = {
        "undefined-symbol", "symbol-missing", DIAG_ERROR,
        "No loaded library defines a function that another one needs.",
        "A library was built against another release of a library than the one that is loaded\n"
        "(an extension for another torch, cusparse with an older nvJitLink).\n\n"
        "To do: install releases that belong together."},
    [DIAG_EXEC_STACK] = {
        "exec-stack", "exec-stack", DIAG_ERROR,
        "A library asks for an executable stack, which this glibc refuses.",
        "Since glibc 2.41 dlopen no longer makes the stack executable, so a library with that mark\n"
        "(CTranslate2 up to 4.5.0) cannot be imported: \"cannot enable executable stack as shared\n"
        "object requires\".\n\n"
        "To do: a release without the mark, or clear it: patchelf --clear-execstack FILE. With glibc\n"
        "2.42 GLIBC_TUNABLES=glibc.rtld.execstack=2 at start allows it."},
    [DIAG_STATIC_TLS] = {
        "static-tls-exhausted", "not-gpu-runtime", DIAG_ERROR,
        "A library's thread-local variables do not fit into the memory that the start set aside.",
        "glibc lays out the thread-local variables of all libraries of a start in one block for each\n"
        "thread, with 1664 bytes to spare. A library that is opened later and wants a fixed place in\n"
        "it (libgomp, libraries built with -ftls-model=initial-exec; on aarch64 others take some of it\n"
        "as well) must fit into what is left: \"cannot allocate memory in static TLS block\". So it\n"
        "can depend on what was imported before.\n\n"
        "To see it: readelf -lW FILE shows the size (MemSiz of the TLS segment), readelf -dW FILE the\n"
        "flag STATIC_TLS; LD_DEBUG=files the order of loading.\n\n"
        "To do: import the package that fails first, or start the program with more room\n"
        "(GLIBC_TUNABLES=glibc.rtld.optional_static_tls=BYTES, glibc 2.32 and later), or with the\n"
        "library itself in LD_PRELOAD, which gives it a place in the block of the start."},
    [DIAG_CPU_LEVEL] = {
        "cpu-level", "not-gpu-runtime", DIAG_ERROR,
        "A library is built for a newer processor than this one.",
        "The file's note asks for an x86-64 level (v3: AVX2, v4: AVX-512) that the processor does not\n"
        "have: \"CPU ISA level is lower than required\".\n\n"
        "To do: install a build for the baseline."},
    [DIAG_EXTENSION_OTHER_PYTHON] = {
        "extension-other-python", "python-dep-conflict", DIAG_ERROR,
        "A package's compiled module was built for another Python.",
        "An extension module carries the Python it was built for in its name\n"
        "(_C.cpython-310-x86_64-linux-gnu.so); another Python does not see it: \"No module named\n"
        "torch._C\". It happens when a folder of packages is copied, or put on PYTHONPATH, for another\n"
        "interpreter.\n\n"
        "To do: install the package with this interpreter's own pip."},
    [DIAG_SECURE_EXECUTION] = {
        "secure-execution", "env-set-too-late", DIAG_WARNING,
        "The program runs in secure-execution mode, in which LD_LIBRARY_PATH and LD_PRELOAD are ignored.",
        "A program with set-user-ID, set-group-ID or file capabilities (setcap on a Python\n"
        "interpreter, for low ports or ping) is started with the loader's variables removed.\n\n"
        "To do: take the capabilities off the interpreter (setcap -r), or make the libraries known\n"
        "through ld.so.conf.d and ldconfig."},
    [DIAG_PRELOAD_IGNORED] = {
        "preload-ignored", "env-set-too-late", DIAG_WARNING,
        "A library in LD_PRELOAD cannot be loaded and is ignored.",
        "The loader prints \"cannot be preloaded: ignored\" and goes on without it.\n\n"
        "To do: correct the path."},
    [DIAG_RELATIVE_SEARCH_PATH] = {
        "relative-search-path", "lib-not-on-path", DIAG_WARNING,
        "A library is found only because the program starts in a certain folder.",
        "An RPATH or RUNPATH without $ORIGIN and without a leading '/' counts from the working\n"
        "directory. Started from elsewhere, the program does not find the library, or finds another\n"
        "file of that name: whoever can write to the working directory decides what is loaded.\n\n"
        "To see it: readelf -d FILE | grep -E 'RPATH|RUNPATH'\n\n"
        "To do: put the folder's absolute path in LD_LIBRARY_PATH, or correct the file:\n"
        "patchelf --set-rpath '$ORIGIN/...' FILE."},
    [DIAG_LIBRARY_PATH_ELEMENT] = {
        "library-path-element", "ld-library-path-shadow", DIAG_WARNING,
        "LD_LIBRARY_PATH has an element that does not mean what it seems to.",
        "An empty element (a colon at an end, or two together) and a relative one mean the working\n"
        "directory, which changes from start to start; '~' is not expanded by the loader.\n\n"
        "To do: write absolute folders; append with ${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}."},
    [DIAG_FOLDER_CREATED_LATE] = {
        "folder-created-late", "env-set-too-late", DIAG_WARNING,
        "A folder of the search path was made after the program had started.",
        "The loader remembers a folder that was not there when it first looked and never looks\n"
        "again in that process.\n\n"
        "To do: start the program again."},
    [DIAG_MAPPED_FILE_DELETED] = {
        "mapped-file-deleted", "python-dep-conflict", DIAG_WARNING,
        "The running program uses libraries whose files were replaced or removed.",
        "A package was updated while the program ran. What is loaded later comes from the new files\n"
        "and is mixed with the old ones.\n\n"
        "To do: start the program again."},
    [DIAG_MUSL] = {
        "musl", "platform-unsupported", DIAG_ERROR,
        "The program uses musl; NVIDIA's and AMD's libraries are built for glibc.",
        "On Alpine and other musl systems the vendor's libraries cannot be loaded, whatever the search\n"
        "path.\n\n"
        "To do: use an image with glibc (Debian, Ubuntu, Rocky)."},
    [DIAG_LOADER_MISSING] = {
        "loader-missing", "lib-missing", DIAG_ERROR,
        "The program's own loader is not there.",
        "Every dynamic program names its loader (/lib64/ld-linux-x86-64.so.2). If that file is missing\n"
        "the shell says \"No such file or directory\" of the program itself. It happens with programs\n"
        "for glibc on Alpine, with 32-bit programs on a 64-bit system, and in minimal containers.\n\n"
        "To do: install the C library the program was built for."},
    [DIAG_GPU_RESERVED] = {
        "gpu-reserved-for-vm", "driver-not-loaded", DIAG_ERROR,
        "The GPU is set aside for a virtual machine.",
        "A GPU that is bound to vfio-pci or pci-stub belongs to a virtual machine, running or not. No\n"
        "driver of this system serves it until it is given back.\n\n"
        "To see it: lspci -k, \"Kernel driver in use\".\n\n"
        "To do: if no virtual machine should have it, take its id out of vfio-pci's options (kernel command\n"
        "line, /etc/modprobe.d) and reboot."},
    [DIAG_NOUVEAU] = {
        "nouveau-bound", "driver-not-loaded", DIAG_ERROR,
        "The nouveau driver has the GPU, which cannot run CUDA.",
        "nouveau is the kernel's own driver for NVIDIA GPUs. It draws, and knows no CUDA; NVIDIA's module\n"
        "cannot take a GPU that nouveau has.\n\n"
        "To see it: lspci -k, \"Kernel driver in use: nouveau\".\n\n"
        "To do: install NVIDIA's driver from the distribution, which switches nouveau off, and reboot. If it\n"
        "is installed: nouveau must be on a blacklist and out of the initial RAM disk."},
    [DIAG_DRIVER_MISSING] = {
        "driver-missing", "driver-not-loaded", DIAG_ERROR,
        "There is no driver for the GPU.",
        "The GPU is on the PCI bus and no driver has it, or one that cannot compute. Programs then run on\n"
        "the CPU, most of them without a word.\n\n"
        "To see it: lspci -k; gpumend devices.\n\n"
        "To do: install the vendor's driver from the distribution. For AMD and Intel the driver is part of\n"
        "the kernel: sudo modprobe amdgpu, or a kernel that is new enough for the GPU; the firmware packages\n"
        "belong to it."},
    [DIAG_DRIVER_NOT_BUILT] = {
        "driver-module-not-built", "driver-not-loaded", DIAG_ERROR,
        "The driver's module was not built for the running kernel.",
        "NVIDIA's libraries are installed, and /lib/modules of the running kernel has no nvidia.ko. After\n"
        "an update of the kernel the module has to be built anew; DKMS does that only where the headers of\n"
        "the new kernel are installed.\n\n"
        "To see it: dkms status; uname -r.\n\n"
        "To do: install the headers of this kernel and rebuild, or boot the kernel the module was built for."},
    [DIAG_DRIVER_NOT_LOADED] = {
        "driver-not-loaded", "driver-not-loaded", DIAG_ERROR,
        "The driver is installed and its module is not loaded.",
        "The module lies on the disk, and the kernel has not loaded it: \"Failed to initialize NVML: Driver\n"
        "Not Loaded\", \"CUDA unknown error\". With Secure Boot the kernel refuses a module whose signature it\n"
        "does not trust (\"Key was rejected by service\").\n\n"
        "To see it: lsmod | grep nvidia; sudo dmesg | grep -i nvidia.\n\n"
        "To do: sudo modprobe nvidia. Where the signature is refused: enrol the key that signs the module\n"
        "(sudo mokutil --import FILE, then reboot and confirm), or switch Secure Boot off."},
    [DIAG_DRIVER_REFUSES_GPU] = {
        "driver-does-not-serve-gpu", "driver-not-loaded", DIAG_ERROR,
        "The driver is loaded and does not serve this GPU.",
        "The module serves other GPUs or none: this one is too old or too new for its branch, needs the\n"
        "open or the proprietary flavour, or has failed.\n\n"
        "To see it: sudo dmesg | grep NVRM (\"requires use of the NVIDIA open kernel modules\", \"is not\n"
        "supported by this driver\", \"fallen off the bus\").\n\n"
        "To do: a driver branch that serves it. R470 is the last for Kepler, R580 the last for Maxwell,\n"
        "Pascal and Volta; Blackwell needs the open modules."},
    [DIAG_KFD_MISSING] = {
        "kfd-missing", "driver-not-loaded", DIAG_ERROR,
        "The kernel's compute driver for AMD does not serve the GPU.",
        "ROCm reaches AMD GPUs through KFD, a part of amdgpu. A kernel built without it, or a GPU that KFD\n"
        "does not know, gives pictures and no computing.\n\n"
        "To see it: ls /sys/class/kfd/kfd/topology/nodes; sudo dmesg | grep kfd.\n\n"
        "To do: a kernel of the distribution, new enough for the GPU."},
    [DIAG_GPU_EXCLUDED] = {
        "gpu-excluded", "no-device", DIAG_ERROR,
        "The driver was told to leave the GPU out.",
        "\"GPU Excluded: Yes\" in /proc/driver/nvidia/gpus/*/information: the module's option\n"
        "NVreg_ExcludedGpus names it.\n\n"
        "To do: take it off that option (/etc/modprobe.d) and load the module anew."},
    [DIAG_WSL_DRIVER_MISSING] = {
        "wsl-driver-missing", "wsl-specific", DIAG_ERROR,
        "WSL does not reach Windows' NVIDIA driver.",
        "In WSL 2 the driver is Windows' own: /dev/dxg leads to it, and its libraries are mounted at\n"
        "/usr/lib/wsl. No Linux driver has to be installed, or may be.\n\n"
        "To see it: ls -l /dev/dxg /usr/lib/wsl/lib.\n\n"
        "To do: install NVIDIA's driver in Windows; wsl --update and wsl --shutdown in Windows, then start\n"
        "again."},
    [DIAG_WSL_SHADOWED] = {
        "wsl-libcuda-shadowed", "wsl-specific", DIAG_ERROR,
        "A Linux driver's libcuda hides the one of WSL.",
        "A package of the Linux driver inside WSL (libnvidia-compute-*, libcuda1, or as a dependency of\n"
        "cuda-drivers) puts a libcuda.so.1 into the system's folders. It is found first and finds no GPU:\n"
        "\"no CUDA-capable device is detected\".\n\n"
        "To see it: ldconfig -p | grep libcuda.\n\n"
        "To do: remove these packages; toolkits without a driver are fine (cuda-toolkit-*). Until then\n"
        "/usr/lib/wsl/lib in front of LD_LIBRARY_PATH."},
    [DIAG_CONTAINER_NO_GPU] = {
        "container-without-gpu", "container-no-gpu", DIAG_ERROR,
        "The container was started without the GPU.",
        "The host has a GPU, as the PCI bus shows, and the container has no node of it in /dev. Images with\n"
        "NVIDIA_VISIBLE_DEVICES=all get it only where the container runtime of NVIDIA is the one in use.\n\n"
        "To do: docker run --gpus all, podman run --device nvidia.com/gpu=all, a pod that asks for\n"
        "nvidia.com/gpu; AMD: --device /dev/kfd --device /dev/dri and --group-add; Intel: --device /dev/dri.\n"
        "The host needs NVIDIA's Container Toolkit (nvidia-ctk runtime configure, then restart the engine)."},
    [DIAG_CONTAINER_NO_LIBRARIES] = {
        "container-without-driver-libraries", "container-lib-missing", DIAG_ERROR,
        "The container has the devices and not the driver's libraries.",
        "libcuda.so.1 belongs to the host's driver and is mounted into a container by NVIDIA's Container\n"
        "Toolkit. With --device /dev/nvidia0 alone, with --privileged, or with NVIDIA_DRIVER_CAPABILITIES\n"
        "without \"compute\" it is not there. Installing it in the image is no way out: its version has to be\n"
        "that of the host's module.\n\n"
        "To do: --gpus all with NVIDIA_DRIVER_CAPABILITIES=compute,utility, or a CDI device."},
    [DIAG_NODES_MISSING] = {
        "device-nodes-missing", "driver-not-loaded", DIAG_ERROR,
        "The device nodes of the GPU are missing.",
        "The driver is loaded, and /dev has no node for it. NVIDIA's nodes are made by nvidia-modprobe or by\n"
        "the first program of root; AMD's and Intel's by udev.\n\n"
        "To see it: ls -l /dev/nvidia* /dev/kfd /dev/dri.\n\n"
        "To do: install nvidia-modprobe, or run nvidia-smi once as root; AMD: sudo udevadm trigger."},
    [DIAG_UVM_MISSING] = {
        "uvm-missing", "uvm-not-loaded", DIAG_ERROR,
        "nvidia_uvm is not loaded, or its node is not there.",
        "CUDA needs the module nvidia_uvm and /dev/nvidia-uvm; nvidia-smi does not, and works without:\n"
        "\"CUDA unknown error\" (999), \"no CUDA-capable device\". After a suspend the module has to be loaded\n"
        "anew.\n\n"
        "To do: sudo modprobe nvidia_uvm, or sudo nvidia-modprobe -u -c=0; after a suspend sudo rmmod\n"
        "nvidia_uvm && sudo modprobe nvidia_uvm. In a container: pass /dev/nvidia-uvm."},
    [DIAG_NODE_STALE] = {
        "device-node-stale", "uvm-not-loaded", DIAG_ERROR,
        "A device node has the number of another driver.",
        "The kernel gives nvidia-uvm a new number with each loading of the module. A node that was made\n"
        "before, or a container that was started before, keeps the old one.\n\n"
        "To see it: ls -l /dev/nvidia-uvm; grep nvidia /proc/devices.\n\n"
        "To do: make the node anew; start the container again."},
    [DIAG_DEVICE_CGROUP] = {
        "device-cgroup-lost", "cgroup-lost", DIAG_ERROR,
        "The device cgroup forbids a device that is there.",
        "The node is in /dev and opening it gives EPERM: \"Failed to initialize NVML: Unknown Error\" in a\n"
        "container that worked before. systemctl daemon-reload on the host makes systemd write the\n"
        "container's list of devices anew, without those that the container runtime had added.\n\n"
        "To do: start the container again. To keep it from happening: sudo nvidia-ctk system\n"
        "create-dev-char-symlinks --create-all on the host, CDI, or --device for each node."},
    [DIAG_DEVICE_PERMISSION] = {
        "device-permission", "permission", DIAG_ERROR,
        "This user may not use the device node.",
        "The node's mode, owner and group do not let this user in: \"Unable to open /dev/kfd read-write:\n"
        "Permission denied\", or a GPU that only root sees. /dev/kfd and /dev/dri/renderD* belong to the group\n"
        "render, or video on older systems.\n\n"
        "To see it: ls -l /dev/kfd /dev/dri /dev/nvidia*; id.\n\n"
        "To do: add the user to the node's group, and log in again (a running session keeps its groups); in a\n"
        "container --group-add with the group's number, rootless podman --group-add keep-groups."},
    [DIAG_DRIVER_LIBRARIES_MISSING] = {
        "driver-libraries-missing", "lib-missing", DIAG_ERROR,
        "The driver's module is loaded, and its libraries are not installed.",
        "libcuda.so.1 is part of the driver, and a package of its own in most distributions (Debian\n"
        "libcuda1, Ubuntu libnvidia-compute-NNN). A server install may leave it out.\n\n"
        "To do: install it in the version of the module."},
    [DIAG_DRIVER_MISMATCH] = {
        "driver-version-mismatch", "driver-lib-mismatch", DIAG_ERROR,
        "The driver's module and its libraries are of different versions.",
        "The libraries were updated while the old module stayed loaded: \"Driver/library version mismatch\",\n"
        "error 803. Unattended upgrades do that. In a container the libraries are those of the time it was\n"
        "started.\n\n"
        "To see it: cat /proc/driver/nvidia/version; ls -l /usr/lib/*/libcuda.so.1.\n\n"
        "To do: reboot, or stop what uses the GPU and load the modules anew; start containers again."},
    [DIAG_LEVEL_ZERO_MISSING] = {
        "level-zero-missing", "lib-missing", DIAG_ERROR,
        "A part of Intel's Level Zero is not installed.",
        "SYCL and PyTorch reach Intel GPUs through a chain: libze_loader.so.1, libze_intel_gpu.so.1,\n"
        "libigc.so, libigdgmm.so. Where one is missing there is no GPU, and no message says which:\n"
        "ZE_ENABLE_LOADER_DEBUG_TRACE=1 makes the loader speak.\n\n"
        "To do: install the package of the missing part."},
    [DIAG_FABRIC_MANAGER] = {
        "fabric-manager-not-running", "fabric-manager", DIAG_ERROR,
        "The GPUs hang on NVSwitch and the fabric manager does not run.",
        "On HGX and DGX boards CUDA waits until the fabric manager has set up NVSwitch: \"system not yet\n"
        "initialized\" (802). Its version has to be the driver's. Cards without NVSwitch do not need it.\n\n"
        "To see it: systemctl status nvidia-fabricmanager.\n\n"
        "To do: sudo systemctl enable --now nvidia-fabricmanager."},
    [DIAG_FORWARD_COMPAT] = {
        "forward-compat-wrong", "forward-compat", DIAG_ERROR,
        "A forward-compatibility libcuda is used where it must not be.",
        "The packages cuda-compat-* bring a libcuda newer than the driver, for data-centre GPUs and for\n"
        "certain driver branches; a note in the file lists them. On a GeForce it fails with error 804\n"
        "(\"forward compatibility was attempted on non supported HW\"), with a driver that is as new or newer\n"
        "with error 803. Images of NVIDIA carry it in /usr/local/cuda/compat; LD_LIBRARY_PATH or\n"
        "ld.so.conf.d can bring it in.\n\n"
        "To see it: readelf --notes FILE; ldconfig -p | grep libcuda.\n\n"
        "To do: take its folder off the search path, or update the driver and do without it."},
    [DIAG_DRIVER_LIBRARY_NOT_ON_PATH] = {
        "driver-library-not-on-path", "lib-not-on-path", DIAG_ERROR,
        "The driver's libcuda is in a folder where the loader does not look.",
        "The driver is in order, and the program does not find libcuda.so.1: in WSL it is in\n"
        "/usr/lib/wsl/lib, on NixOS in /run/opengl-driver/lib, on Jetson in a folder of its own. Usually a\n"
        "file of ld.so.conf.d names it; in slim images and with another loader nothing does.\n\n"
        "To do: LD_LIBRARY_PATH with that folder before the program starts, or a file in ld.so.conf.d and\n"
        "ldconfig."},
    [DIAG_DRIVER_TOO_OLD] = {
        "driver-too-old", "driver-too-old", DIAG_ERROR,
        "The NVIDIA driver is too old for the CUDA that is loaded.",
        "Each major version of CUDA has a floor: 525.60.13 for 12.x, 580.65.06 for 13.x, 450.80.02 for 11.x\n"
        "(`gpumend kb which driver does CUDA 12.4 need`). Below it every call fails: \"CUDA driver version is\n"
        "insufficient for CUDA runtime version\" (35). nvidia-smi's \"CUDA Version\" is the newest that the\n"
        "driver serves.\n\n"
        "To do: a build of the program for an older CUDA, or a newer driver. For data-centre GPUs there are\n"
        "forward-compatibility packages."},
    [DIAG_GPU_HIDDEN] = {
        "gpu-hidden", "no-device", DIAG_ERROR,
        "A variable hides the GPUs from programs.",
        "CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ZE_AFFINITY_MASK name the GPUs\n"
        "that programs see, counted from 0. An empty value or -1 hides all; the list ends at the first entry\n"
        "that does not exist, so \"2\" on a machine with one GPU leaves none.\n\n"
        "To see it: env | grep -E 'VISIBLE_DEVICES|AFFINITY'.\n\n"
        "To do: unset it, or name a GPU that is there."},
    [DIAG_MIG_INSTANCE_MISSING] = {
        "mig-instance-missing", "mig-config", DIAG_ERROR,
        "A MIG instance is asked for, and there is none.",
        "CUDA_VISIBLE_DEVICES names an instance (MIG-...), and no GPU has instances: they are lost with a\n"
        "reset of the GPU or a reboot. With MIG mode on and no instance CUDA sees no device at all.\n\n"
        "To see it: nvidia-smi -L.\n\n"
        "To do: make them again (sudo nvidia-smi mig -cgi PROFILE -C), or switch MIG off (sudo nvidia-smi\n"
        "-mig 0)."},
    [DIAG_HSA_OVERRIDE] = {
        "hsa-override-wrong", "gfx-unsupported", DIAG_WARNING,
        "HSA_OVERRIDE_GFX_VERSION makes ROCm take the GPU for another kind.",
        "ROCm then loads code for that kind. It works where both have the same instruction set (gfx1031\n"
        "to gfx1036 as 10.3.0, gfx1101 to gfx1103 as 11.0.0) and gives wrong results, hangs or crashes\n"
        "where they have not: gfx1010 is RDNA 1, 10.3.0 is RDNA 2. The value is three numbers with\n"
        "dots. It holds for every GPU of the machine, the integrated one too.\n\n"
        "To do: unset it, or use a build for the GPU's own target."},
    [DIAG_AMD_KERNEL_OLD] = {
        "amd-kernel-old", "driver-too-old", DIAG_WARNING,
        "The kernel is too old to tell what an AMD GPU is.",
        "KFD of this kernel does not state gfx_target_version. Newer releases of ROCm read it, and may not\n"
        "find the GPU, or wait for ever.\n\n"
        "To do: a newer kernel, or the amdgpu driver of AMD's repository (amdgpu-dkms)."},
    [DIAG_REQUIREMENT_MISSING] = {
        "requirement-missing", "python-dep-conflict", DIAG_ERROR,
        "A package needs another one at import or first use, and it is not installed.",
        "Packages installed with --no-deps, or by hand, or after a failed update, lack what they\n"
        "import: \"ModuleNotFoundError: No module named ...\". Only imports that are known to happen\n"
        "count here; what is merely declared is another note (requirement-unmet).\n\n"
        "To do: install it."},
    [DIAG_NUMPY_ABI] = {
        "numpy-abi", "numpy-abi", DIAG_ERROR,
        "An extension module was built for another numpy than the one installed.",
        "numpy 2 changed the binary interface: a module built with the headers of numpy 1 stops with\n"
        "\"A module that was compiled using NumPy 1.x cannot be run in NumPy 2\" or \"_ARRAY_API not\n"
        "found\". torch is imported all the same, and tensor.numpy() fails (\"Numpy is not available\").\n"
        "A module built with the headers of numpy 2 works with both, unless it was told to need a\n"
        "newer one.\n\n"
        "To see it: strings MODULE | grep _multiarray_umath shows numpy._core for headers of numpy 2,\n"
        "and numpy.core alone for those of numpy 1. Modules that reach numpy in another way (pybind11)\n"
        "do not tell, and nothing is said of them.\n\n"
        "To do: a release of the package built for numpy 2, or numpy<2."},
    [DIAG_ONNXRUNTIME_TWICE] = {
        "onnxruntime-twice", "python-dep-conflict", DIAG_ERROR,
        "onnxruntime and onnxruntime-gpu are installed over one another.",
        "Both packages bring the folder onnxruntime, and the one installed last wins: if that is the\n"
        "CPU's, CUDAExecutionProvider is gone although onnxruntime-gpu is installed. Packages that\n"
        "require onnxruntime (faster-whisper) bring it in. If the GPU's came last it works, until\n"
        "either is updated.\n\n"
        "To see it: python -c 'import onnxruntime; print(onnxruntime.get_available_providers())'\n\n"
        "To do: remove both, install onnxruntime-gpu alone."},
    [DIAG_BUILD_OTHER_VENDOR] = {
        "build-for-other-vendor", "cpu-only-build", DIAG_WARNING,
        "A package is built for CUDA and the GPU is AMD's, or the reverse.",
        "The package index serves builds for CUDA by default; on a machine with an AMD GPU they run on\n"
        "the CPU. A build for ROCm does not use an NVIDIA GPU.\n\n"
        "To do: install the build for the vendor of the GPU."},
    [DIAG_BUILD_WITHOUT_GPU] = {
        "build-without-gpu", "cpu-only-build", DIAG_WARNING,
        "A package is a build for the CPU alone, and there is a GPU that it could use.",
        "A build without GPU code (torch 2.5.1+cpu, tensorflow-cpu, onnxruntime) finds no GPU whatever\n"
        "the driver: torch.cuda.is_available() is False, \"Torch not compiled with CUDA enabled\".\n"
        "Sometimes that is what is wanted; then there is nothing to do.\n\n"
        "To see it: python -c 'import torch; print(torch.version.cuda, torch.version.hip)'\n\n"
        "To do: install the build for the GPU."},
    [DIAG_GPU_CODE_MISSING] = {
        "gpu-code-missing", "arch-unsupported", DIAG_ERROR,
        "A library has no code for this NVIDIA GPU, and none that the driver could compile for it.",
        "A library carries machine code for some architectures (sm_86) and perhaps PTX, which the\n"
        "driver compiles for newer GPUs if it knows the version of the PTX. Machine code runs on GPUs\n"
        "of the same major compute capability and the same or a higher minor one. Where nothing fits:\n"
        "\"no kernel image is available for execution on the device\", or \"the provided PTX was compiled\n"
        "with an unsupported toolchain\". It happens with a GPU that is newer than the build (RTX 50\n"
        "with CUDA 12.1), with one that new builds gave up (GTX 10 with CUDA 13), and with PTX of a\n"
        "toolkit newer than the driver (ctranslate2 from 4.6.3 on has none but PTX of CUDA 12.8 for an\n"
        "H100: driver 550 refuses it). That CUDA 12 runs on every driver for CUDA 12 does not hold for\n"
        "PTX. A forward-compatibility libcuda compiles what its own version knows.\n\n"
        "To see it: gpumend kb arch FILE; gpumend kb 'which ctranslate2 runs on an H100 with driver 550'\n\n"
        "To do: a build with code for the GPU, or a newer driver where PTX is there. Where other GPUs of\n"
        "the machine are served, choose them with CUDA_VISIBLE_DEVICES."},
    [DIAG_GFX_NOT_COVERED] = {
        "gfx-not-covered", "gfx-unsupported", DIAG_ERROR,
        "A library has no code, or rocBLAS no kernels, for this AMD GPU.",
        "ROCm's code is for exact processors (gfx1030); PyTorch's builds carry some of them. Without:\n"
        "\"invalid device function\", or \"rocBLAS error: Cannot read TensileLibrary.dat ... for GPU arch :\n"
        "gfx1031\". HSA_OVERRIDE_GFX_VERSION makes the runtime take the GPU for another: safe only where\n"
        "both have the same instruction set (gfx1031 to gfx1036 for gfx1030, 10.3.0), and wrong results\n"
        "or hangs otherwise (gfx1010).\n\n"
        "To see it: gpumend kb arch FILE; ls rocblas/library beside librocblas.so\n\n"
        "To do: the override where it is safe, else a build with code for the GPU."},
    [DIAG_CUDNN_OLDER_THAN_BUILD] = {
        "cudnn-older-than-build", "header-runtime-mismatch", DIAG_ERROR,
        "torch gets an older cuDNN than it was built with, and refuses it.",
        "torch compares the cuDNN that it was built with and the one it meets: an older minor version\n"
        "ends in \"cuDNN version incompatibility: PyTorch was compiled against (9, 1, 0) but found runtime\n"
        "version (9, 0, 0)\". A newer one of the same major version is fine. What it was built with is\n"
        "taken from what the package pins. It happens when LD_LIBRARY_PATH or another package brings\n"
        "an older cuDNN first.\n\n"
        "To do: take the older one off the search path, or install the one that torch pins."},
    [DIAG_COMPUTE_TYPE] = {
        "compute-type-unsupported", "compute-type-unsupported", DIAG_WARNING,
        "A program asks by default for a number format that the GPU does not do efficiently.",
        "CTranslate2 refuses a format asked for by name that the GPU is slow in: \"Requested float16\n"
        "compute type, but the target device or backend do not support efficient float16 computation\".\n"
        "GPUs before compute capability 7.0 (GTX 10) do no fast float16, those before 8.0 no bfloat16.\n"
        "Seen here are only defaults of programs; what a program passes itself is in no file.\n\n"
        "To do: another compute type (int8, float32); gpumend choose names the best."},
    [DIAG_CPU_ISA_FORCED] = {
        "cpu-isa-forced", "not-gpu-runtime", DIAG_ERROR,
        "CT2_FORCE_CPU_ISA asks for instructions that the processor does not have, or is no name of any.",
        "CTranslate2 stops at its start: \"The CPU does not support AVX512\", \"Invalid CPU ISA\". The\n"
        "names are GENERIC, AVX, AVX2 and AVX512, in capitals.\n\n"
        "To do: leave the variable out."},
    [DIAG_REQUIREMENT_UNMET] = {
        "requirement-unmet", "python-dep-conflict", DIAG_NOTE,
        "A package declares requirements that what is installed does not meet.",
        "A declaration is often stricter than what is needed: libraries are found elsewhere, a newer\n"
        "release works as well. Where it does break something, the finding of that failure says so.\n\n"
        "To see it: python -m pip check\n\n"
        "To do: nothing while it works; else install what is declared."},
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

const char *diag_severity_name(enum diag_severity severity)
{
    static const char *const names[] = {
        [DIAG_NOTE] = "note", [DIAG_WARNING] = "warning", [DIAG_ERROR] = "error"};
    return names[severity];
}
