#!/usr/bin/python3
"""`gpumend explain LOG --root TREE` of Windows texts: the DLL that an error hides.

    tests/windows/explain.py GPUMEND

The trees are those of check.py.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check  # noqa: E402

SP = "C:\\Python312\\Lib\\site-packages"
NOT_FOUND = "The specified module could not be found."
TORCH_126 = (f'OSError: [WinError 126] {NOT_FOUND} Error loading "{SP}\\torch\\lib\\torch_cuda.dll" or '
             "one of its dependencies.")
ELSEWHERE = TORCH_126.replace("C:\\Python312", "D:\\a b\\.venv")
EXT_126 = f"ImportError: DLL load failed while importing _ext: {NOT_FOUND}"
EXT_193 = "ImportError: DLL load failed while importing _ext: %1 is not a valid Win32 application."
CUBLAS = "RuntimeError: Library cublas64_12.dll is not found or cannot be loaded"
CTYPES = (f"FileNotFoundError: Could not find module '{SP}\\ctranslate2\\ctranslate2.dll' (or one of its "
          "dependencies). Try using the full path with constructor syntax.").replace("\\", "\\\\")
CUDNN_8 = "Could not load library cudnn_cnn_infer64_8.dll. Error code 126"
OTHER = "RuntimeError: CUDA error: out of memory"
HIDDEN = "libomp140.x86_64.dll, which " + SP + "\\torch\\lib\\torch_cuda.dll imports, was not found"


def zlib(tree):
    """cuDNN 8, whose part imports zlibwapi.dll, on PATH."""
    check.machine(tree, path=";C:\\cudnn")
    check.put(tree, "cudnn/cudnn_cnn_infer64_8.dll", ["zlibwapi.dll"])


def with_zlib(tree):
    zlib(tree)
    check.put(tree, "cudnn/zlibwapi.dll")


def no_openmp(tree):
    check.alone(tree)
    (tree / check.SITE / "ctranslate2/libiomp5md.dll").unlink()


def other_parts(tree):
    """torch imports a function that the copy it gets does not export."""
    check.windows(tree), check.python(tree), check.torch(tree)
    (tree / check.SITE / "torch/lib/cudnn64_9.dll").write_bytes(check.wine.dll(exports=("g",)))


def linux(tree):
    (tree / "etc").mkdir()
    (tree / "etc/os-release").write_text("ID=debian\n")


def added_by_cupy(tree):
    check.cupy_of_conda(tree)
    check.put(tree, "conda/Library/cuda/other.dll")


FROZEN = CTYPES.replace("C:\\\\Python312\\\\Lib\\\\site-packages", "C:\\\\prog\\\\_internal")
TORCH_FROZEN = TORCH_126.replace(SP, "D:\\apps\\talk\\_internal")


BOOTLOADER = f"Failed to load Python DLL 'C:\\prog\\_internal\\python312.dll'.\nLoadLibrary: {NOT_FOUND}"


def frozen_without_its_runtime(tree):
    check.frozen(tree)
    for folder in ("prog/_internal", "Windows/System32"):
        (tree / folder / "vcruntime140.dll").unlink()


def frozen_torch(tree):
    check.frozen(tree)
    check.put(tree, "prog/_internal/torch/lib/torch_cuda.dll", ["libomp140.x86_64.dll"])


def two_pythons(tree):
    """The log is of the one that works."""
    check.placed(tree, "Users/ann/.pyenv/pyenv-win/versions/3.12.4")
    check.python(tree), check.ctranslate2(tree)


def store(tree):
    check.store_with_program(tree)


STORE = EXT_126 + (
    ' Error loading "C:\\Users\\ann\\AppData\\Local\\Packages\\PythonSoftwareFoundation.Python.3.12_qbz5n2kfra8p0'
    '\\LocalCache\\local-packages\\Python312\\site-packages\\ctranslate2\\ctranslate2.dll" or one of its dependencies.')

# Name, tree, log, status, outcomes by environment, texts of the answer.
CASES = [
    ("126 of torch names what is missing and who imports it", check.hidden, TORCH_126, 1, ["fails"], [HIDDEN]),
    ("the same log of another machine", check.hidden, ELSEWHERE, 1, ["fails"], [HIDDEN]),
    ("a tree without the fault", check.healthy, TORCH_126, 1, ["loads"], ["the fault is gone"]),
    ("a tree without the file", check.alone, TORCH_126, 1, ["absent"], ["no Python of this tree has"]),
    ("126 of an extension module", no_openmp, EXT_126, 1, ["fails"],
     ["libiomp5md.dll, which", "ctranslate2.dll imports, was not found"]),
    ("193 names the file", check.wrong_machine, EXT_193, 1, ["fails"],
     ["import ctranslate2 fails: [WinError 193]", "libiomp5md.dll", "pip install --force-reinstall"]),
    ("ctypes prints doubled separators", no_openmp, CTYPES, 1, ["fails"], ["libiomp5md.dll, which"]),
    ("127 names the function", other_parts, TORCH_126.replace("126", "127").replace("module", "procedure"), 1,
     ["fails"], ["[WinError 127]", "f is not exported by " + SP + "\\torch\\lib\\cudnn64_9.dll"]),
    ("cuBLAS that is installed elsewhere", check.cublas_of_wheel, CUBLAS, 1, ["fails"],
     ["nvidia\\cublas\\bin, which this call does not search", "set \"PATH=C:\\Python312"]),
    ("cuBLAS that is found by PATH", check.cublas_by_path, CUBLAS, 1, ["unknown"],
     ["unless the program calls"]),
    ("cuBLAS of a conda environment", check.conda_with_cublas, CUBLAS, 1, ["unknown"],
     ["finds it if the environment is activated (conda activate)"]),
    ("a DLL in a folder that cupy adds", added_by_cupy, CUBLAS.replace("cublas64_12", "other"), 1, ["unknown"],
     ["finds it only if the program calls SetDefaultDllDirectories()"]),
    ("zlibwapi.dll behind a part of cuDNN 8", zlib, CUDNN_8, 1, ["fails"],
     ["zlibwapi.dll, which C:\\cudnn\\cudnn_cnn_infer64_8.dll imports, was not found"]),
    ("the same with it", with_zlib, CUDNN_8, 1, ["unknown"], ["unless the program calls"]),
    ("a DLL of a frozen program", check.frozen_broken, FROZEN, 1, ["fails"],
     ["beside.dll, which C:\\prog\\_internal\\ctranslate2\\ctranslate2.dll imports, was not found"]),
    ("PyInstaller's own text", frozen_without_its_runtime, BOOTLOADER, 1, ["fails"],
     ["vcruntime140.dll, which C:\\prog\\_internal\\python312.dll imports, was not found"]),
    ("a frozen program that works is not judged by another Python", check.frozen, FROZEN, 1, ["loads"],
     ["the fault is gone"]),
    ("a frozen program of another machine", frozen_torch, TORCH_FROZEN, 1, ["fails"],
     ["libomp140.x86_64.dll, which C:\\prog\\_internal\\torch\\lib\\torch_cuda.dll imports"]),
    ("the Python that the path names, and no other", two_pythons, CTYPES, 1, ["loads"], ["the fault is gone"]),
    ("a file of the Store's Python", store, STORE, 1, ["unknown"], ["no load of one is performed"]),
    ("a log of something else", check.hidden, OTHER, 1, [], ["names no load of a DLL"]),
    ("a tree of Linux is checked as --here does", linux, TORCH_126, 1, None,
     ["the check of the machine below --root"]),
]


def failed_usage(gpumend):
    done = subprocess.run([gpumend, "explain", "--here", "--root", "/", "--", CUBLAS],
                          capture_output=True, text=True, check=False)
    good = done.returncode == 2 and "either --here or --root" in done.stderr
    if not good:
        print(f"FAIL --here and --root: {done.returncode} {done.stderr}")
    return int(not good)


def main():
    gpumend = os.path.abspath(sys.argv[1])
    failed = failed_usage(gpumend)
    for name, make, log, status, outcomes, texts in CASES:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder))
            command = [gpumend, "explain", "--root", folder]
            done = subprocess.run([*command, "--", log], capture_output=True, text=True, check=False)
            shown = subprocess.run([*command, "--json", "--", log], capture_output=True, text=True,
                                   check=False)
        document = json.loads(shown.stdout or "{}")
        words = " ".join(done.stdout.split())
        missing = [text for text in texts if " ".join(text.split()) not in words]
        seen = document.get("windows")
        seen = seen if seen is None else [w["outcome"] for w in seen]
        if done.returncode != status or shown.returncode != status or missing or seen != outcomes:
            failed += 1
            print(f"FAIL {name}: status {done.returncode}, {seen}, not found: {missing}\n"
                  f"{done.stdout}{done.stderr}")
    print(f"{len(CASES) + 1 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
