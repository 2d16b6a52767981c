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
