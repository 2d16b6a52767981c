#!/usr/bin/python3
"""The model of Windows' loader against Wine's, on real wheels for Windows.

    tests/windows/real.py BUILD

Downloads win_amd64 wheels from the package index into $GPUMEND_CACHE/windows (kept), unpacks them into a
tree with the layout of Windows, and does in it what programs do: import an extension module, load cuBLAS
by its bare name, preload a package's DLLs. The truth of each scenario is what Wine really loads; the
model must give the same error code, the same file and the same loaded modules.

Stand-ins: the program is the driver, not python.exe; the torch_cuda.dll of one tree is made here, as the
package index has torch for Windows without CUDA; Wine's own DLLs are those of Windows, with its
vcruntime140.dll and msvcp140.dll, which lack functions, for which Wine has stubs, so that the model
does not look for functions; there is no NVIDIA driver, no python312.dll.

`check --root` of the tree with a registry and all of Wine's DLLs keeps to 64 MiB and, where valgrind is
installed, to a number of instructions that take less than 100 ms.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check  # noqa: E402
import wine  # noqa: E402
import worlds  # noqa: E402

CACHE = Path(os.environ.get("GPUMEND_CACHE") or Path.home() / ".cache/gpumend") / "windows"
WHEELS = {"new": ["ctranslate2==4.8.1", "onnxruntime-gpu==1.31.1", "nvidia-cudnn-cu12==9.10.2.21",
                  "nvidia-cublas-cu12==12.9.2.10", "torch==2.4.0", "llvmlite==0.50.0",
                  "bitsandbytes==0.50.2", "cupy-cuda12x==13.6.0"],
          "old": ["ctranslate2==4.5.0", "nvidia-cudnn-cu12==8.9.7.29", "llvmlite==0.44.0"],
          "now": ["ctranslate2==4.8.5", "onnxruntime-gpu==1.22.0"]}
SP, OLD = "C:\\Python312\\Lib\\site-packages", "C:\\Old\\Lib\\site-packages"
NOW = "C:\\Now\\Lib\\site-packages"
CUDNN_8, CUPY = OLD + "\\nvidia\\cudnn\\bin", SP + "\\cupy_backends\\cuda\\libs"
TORCH, LIBS = SP + "\\torch\\lib", SP + "\\llvmlite.libs"
CT2, ORT = SP + "\\ctranslate2", SP + "\\onnxruntime\\capi"
CUBLAS, CUDNN = SP + "\\nvidia\\cublas\\bin", SP + "\\nvidia\\cudnn\\bin"
ALTERED, DEFAULT, IMPORT = "0x8", "0x1000", "0x1100"


def load(flags, name):
    return f"load\t{flags}\t{name}"


MADE = NOW + "\\torch\\lib"  # a torch_cuda.dll that is made here, and cuDNN's DLLs of NVIDIA's wheel

# Name, lines; an expected code where the reference has one, and the path of the last load.
SCENARIOS = [
    ("ctranslate2.dll by its path, without its folder", [load(DEFAULT, CT2 + "\\ctranslate2.dll")], 126),
    ("ctranslate2.dll by its path, as an import does", [load(IMPORT, CT2 + "\\ctranslate2.dll")], 0),
    ("its folder is added first", ["add\t" + CT2, load(DEFAULT, CT2 + "\\ctranslate2.dll")], 0),
    ("its folder is added, bare name", ["add\t" + CT2, load(DEFAULT, "ctranslate2.dll")], 0),
    ("bare name, PATH, a plain call", ["path\t" + CT2, load("0", "ctranslate2")], 0),
    ("bare name, PATH, ctypes", ["path\t" + CT2, load(DEFAULT, "ctranslate2")], 126),
    ("altered search path", [load(ALTERED, CT2 + "\\ctranslate2.dll")], 0),
    ("altered search path with slashes", [load(ALTERED, CT2.replace("\\", "/") + "/ctranslate2.dll")],
     None),
    ("preload of the package's DLLs", ["add\t" + CT2, load(IMPORT, CT2 + "\\ctranslate2.dll"),
                                       load(IMPORT, CT2 + "\\cudnn64_9.dll"),
                                       load(IMPORT, CT2 + "\\libiomp5md.dll")], 0),
    ("the old release's DLL", [load(IMPORT, OLD + "\\ctranslate2\\ctranslate2.dll")], None),
    ("both releases", [load(IMPORT, OLD + "\\ctranslate2\\ctranslate2.dll"),
                       load(IMPORT, CT2 + "\\ctranslate2.dll")], None),
    ("cuBLAS, nothing added", [load("0", "cublas64_12.dll")], 126),
    ("cuBLAS on PATH, a plain call", ["path\t" + CUBLAS, load("0", "cublas64_12.dll")], 0),
    ("cuBLAS on PATH, ctypes", ["path\t" + CUBLAS, load(DEFAULT, "cublas64_12.dll")], 126),
    ("cuBLAS added, ctypes", ["add\t" + CUBLAS, load(DEFAULT, "cublas64_12.dll")], 0),
    ("cuBLAS added, a plain call", ["add\t" + CUBLAS, load("0", "cublas64_12.dll")], 126),
    ("CTranslate2's own way: SetDllDirectory", ["setdir\t" + CUBLAS, load("0", "cublas64_12.dll")], 0),
    ("CUDA 13: the DLLs are in bin\\x64", ["setdir\tC:\\CUDA\\v13.0\\bin", load("0", "cublas64_12.dll")],
     126),
    ("CUDA 13, bin\\x64", ["setdir\tC:\\CUDA\\v13.0\\bin\\x64", load("0", "cublas64_12.dll")], 0),
    ("cuBLAS by its path, cuBLASLt beside it", [load(IMPORT, CUBLAS + "\\cublas64_12.dll")], 0),
    ("cuBLAS by its path, without its folder", [load(DEFAULT, CUBLAS + "\\cublas64_12.dll")], 126),
    ("CTranslate2's cuDNN first, then by name", [load(IMPORT, CT2 + "\\cudnn64_9.dll"), "add\t" + CUDNN,
                                                 load(DEFAULT, "cudnn64_9.dll")], 0),
    ("CTranslate2's cuDNN, then the other by its path", [load(IMPORT, CT2 + "\\cudnn64_9.dll"),
                                                         load(IMPORT, CUDNN + "\\cudnn64_9.dll"),
                                                         load(DEFAULT, "cudnn64_9.dll")], 0),
    ("the other cuDNN first", ["add\t" + CUDNN, load(DEFAULT, "cudnn64_9.dll"),
                               load(IMPORT, CT2 + "\\cudnn64_9.dll"), load("0", "CUDNN64_9")], 0),
    ("cuDNN's sub-library", [load(IMPORT, CUDNN + "\\cudnn_ops64_9.dll")], None),
    ("onnxruntime.dll", [load(IMPORT, ORT + "\\onnxruntime.dll")], None),
    ("onnxruntime's extension module", [load(IMPORT, ORT + "\\onnxruntime_pybind11_state.pyd")], 126),
    ("onnxruntime's CUDA provider, nothing added",
     [load(IMPORT, ORT + "\\onnxruntime_providers_shared.dll"),
      load(IMPORT, ORT + "\\onnxruntime_providers_cuda.dll")], None),
    ("onnxruntime's CUDA provider, cuBLAS and cuDNN added",
     ["add\t" + CUBLAS, "add\t" + CUDNN, load(IMPORT, ORT + "\\onnxruntime_providers_cuda.dll")], 126),
    ("torch 2.4.0: fbgemm.dll, behind which libomp140.x86_64.dll is missing",
     ["add\t" + TORCH, load(IMPORT, TORCH + "\\fbgemm.dll")], 126),
    ("torch's second try, by PATH", ["add\t" + TORCH, load(IMPORT, TORCH + "\\fbgemm.dll"),
                                     "path\t" + TORCH, load("0", TORCH + "\\fbgemm.dll")], 126),
    ("torch: c10.dll", ["add\t" + TORCH, load(IMPORT, TORCH + "\\c10.dll")], None),
    ("torch: its OpenMP runtime, then ctranslate2's", ["add\t" + TORCH,
                                                       load(IMPORT, TORCH + "\\libiomp5md.dll"),
                                                       load(IMPORT, CT2 + "\\ctranslate2.dll")], None),
    ("ctranslate2's OpenMP runtime, then torch's",
     ["add\t" + CT2, load(IMPORT, CT2 + "\\libiomp5md.dll"), "add\t" + TORCH,
      load(IMPORT, TORCH + "\\libiomp5md.dll"), load(DEFAULT, "libiomp5md.dll")], None),
    ("llvmlite, the folder of its runtime not added",
     [load(IMPORT, SP + "\\llvmlite\\binding\\llvmlite.dll")], 126),
    ("llvmlite, the folder of its runtime added",
     ["add\t" + LIBS, load(IMPORT, SP + "\\llvmlite\\binding\\llvmlite.dll")], None),
    ("bitsandbytes without cudart", ["add\t" + CUBLAS,
                                     load(IMPORT, SP + "\\bitsandbytes\\libbitsandbytes_cuda126.dll")],
     126),
    ("cuDNN's main DLL, then a part by a plain call as it makes it", [load(IMPORT, CT2 + "\\cudnn64_9.dll"),
                                                                      load("0", "cudnn_ops64_9.dll")], 126),
    ("the same with its folder on PATH", ["path\t" + CUDNN, load(IMPORT, CT2 + "\\cudnn64_9.dll"),
                                          load("0", "cudnn_ops64_9.dll")], None),
    ("the same with its folder added", ["add\t" + CUDNN, load(IMPORT, CT2 + "\\cudnn64_9.dll"),
                                        load("0", "cudnn_ops64_9.dll")], 126),
    ("a part that was loaded by its path", [load(IMPORT, CUDNN + "\\cudnn_graph64_9.dll"),
                                            load("0", "cudnn_graph64_9.dll")], None),
    ("cuDNN 8 on PATH", ["path\t" + CUDNN_8, load("0", "cudnn_cnn_infer64_8.dll")], 0),
    ("cuDNN 8 and zlibwapi.dll, which it opens later", ["path\t" + CUDNN_8, load("0", "cudnn_cnn_infer64_8.dll"),
                                                        load("0", "zlibwapi.dll")], 126),
    ("ctranslate2 4.8.5 as its import does", ["add\t" + NOW + "\\ctranslate2",
                                              load(IMPORT, NOW + "\\ctranslate2\\ctranslate2.dll"),
                                              load(IMPORT, NOW + "\\ctranslate2\\cudnn64_9.dll"),
                                              load(IMPORT, NOW + "\\ctranslate2\\libiomp5md.dll")], 0),
    ("onnxruntime's provider as it is loaded, nothing on PATH",
     [load(ALTERED, ORT + "\\onnxruntime_providers_cuda.dll")], 126),
    ("onnxruntime's provider, cuBLAS and cuDNN on PATH",
     ["path\t" + CUBLAS + ";" + CUDNN, load(ALTERED, ORT + "\\onnxruntime_providers_cuda.dll")], None),
    ("onnxruntime 1.22's provider, cuBLAS and cuDNN on PATH",
     ["path\t" + CUBLAS + ";" + CUDNN,
      load(ALTERED, NOW + "\\onnxruntime\\capi\\onnxruntime_providers_cuda.dll")], None),
    ("onnxruntime's shared provider", [load(ALTERED, ORT + "\\onnxruntime_providers_shared.dll")], 0),
    ("llvmlite 0.44", [load(IMPORT, OLD + "\\llvmlite\\binding\\llvmlite.dll")], None),
    ("bitsandbytes for the CPU", [load(IMPORT, SP + "\\bitsandbytes\\libbitsandbytes_cpu.dll")], None),
    ("bitsandbytes, cuBLAS added and torch's cudart missing",
     ["add\t" + CUBLAS, load(IMPORT, SP + "\\bitsandbytes\\libbitsandbytes_cuda128.dll")], 126),
    ("cupy's cuBLAS module without python312.dll", ["add\t" + CUBLAS, load(IMPORT, CUPY + "\\cublas.cp312-win_amd64.pyd")],
     126),
    ("cupy's cuBLAS module, nothing added", [load(IMPORT, CUPY + "\\cublas.cp312-win_amd64.pyd")], 126),
    ("ctranslate2's cuDNN before torch's: torch gets it by its base name",
     ["add\t" + NOW + "\\ctranslate2", load(IMPORT, NOW + "\\ctranslate2\\ctranslate2.dll"),
      load(IMPORT, NOW + "\\ctranslate2\\cudnn64_9.dll"), "add\t" + MADE,
      load(IMPORT, MADE + "\\torch_cuda.dll"), load(DEFAULT, "cudnn64_9.dll")], 0,
     NOW + "\\ctranslate2\\cudnn64_9.dll"),
    ("the same, and a part of cuDNN that torch loads by its path",
     ["add\t" + NOW + "\\ctranslate2", load(IMPORT, NOW + "\\ctranslate2\\cudnn64_9.dll"), "add\t" + MADE,
      load(IMPORT, MADE + "\\torch_cuda.dll"), load(IMPORT, MADE + "\\cudnn_graph64_9.dll"),
      load("0", "cudnn_graph64_9.dll")], 0, MADE + "\\cudnn_graph64_9.dll"),
    ("torch's cuDNN before ctranslate2's",
     ["add\t" + MADE, load(IMPORT, MADE + "\\torch_cuda.dll"), "add\t" + NOW + "\\ctranslate2",
      load(IMPORT, NOW + "\\ctranslate2\\ctranslate2.dll"),
      load(IMPORT, NOW + "\\ctranslate2\\cudnn64_9.dll"), load(DEFAULT, "cudnn64_9.dll")], 0,
     MADE + "\\cudnn64_9.dll"),
    ("loaded, freed, loaded from elsewhere", ["add\t" + CT2, load(DEFAULT, "libiomp5md.dll"), "free\t0",
                                              "add\t" + OLD + "\\ctranslate2",
                                              load(DEFAULT, "libiomp5md.dll")], None),
]


def wheels():
    """The wheels as files, downloaded where they are not there yet."""
    folder = CACHE / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for place, names in WHEELS.items():
        for name in names:
            package, _, version = name.partition("==")
            pattern = f"{package.replace('-', '_')}-{version}-*.whl"
            if not list(folder.glob(pattern)):
                subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps",
                                "--platform", "win_amd64", "--python-version", "3.12",
                                "--only-binary=:all:", "-d", str(folder), name], check=True)
            found.setdefault(place, []).append(next(folder.glob(pattern)))
    return found


def unpacked(drive, files):
    """Unpacks the DLLs of the wheels into the layout of Windows."""
    for place, folder in (("new", "Python312"), ("old", "Old"), ("now", "Now")):
        site = drive / folder / "Lib/site-packages"
        site.mkdir(parents=True)
        for wheel in files[place]:
            with zipfile.ZipFile(wheel) as z:
                for name in z.namelist():
                    if name.lower().endswith((".dll", ".pyd", ".py", "/record", "_wheel.json")):
                        z.extract(name, site)
    made = drive / "Now/Lib/site-packages/torch/lib"
    made.mkdir(parents=True)
    (made / "torch_cuda.dll").write_bytes(wine.dll(["cudnn64_9.dll"]))
    for dll in (drive / "Python312/Lib/site-packages/nvidia/cudnn/bin").iterdir():
        os.link(dll, made / dll.name)
    x64 = drive / "CUDA/v13.0/bin/x64"
    x64.mkdir(parents=True)
    for dll in (drive / "Python312/Lib/site-packages/nvidia/cublas/bin").iterdir():
        os.link(dll, x64 / dll.name)


def exceeded(gpumend, tree, site):
    """What a check of the whole tree takes too much of: 670 million instructions, 50 ms and 32 MiB when this
    was written."""
    tree.mkdir()
    check.machine(tree)
    for dll in glob.glob(wine.DLLS[0] + "/*.dll") + glob.glob(wine.DLLS[1] + "/*.dll"):
        shutil.copy(dll, tree / "Windows/System32")
    shutil.copytree(site, tree / check.SITE, copy_function=os.link)
    command = [gpumend, "check", "--root", str(tree)]
    done = subprocess.run(["/usr/bin/env", "time", "-f", "%M", *command], capture_output=True, text=True, check=False)
    kib = int(done.stderr.split()[-1])
    if kib > 64 << 10:
        yield f"{kib} KiB"
    if "nvidia\\cublas\\bin" not in done.stdout:
        yield f"what it finds: {done.stdout}"
    if shutil.which("valgrind"):
        counted = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={tree}/counts", *command],
                                 capture_output=True, text=True, check=False)
        count = int(re.search(r"refs: +([\d,]+)", counted.stderr)[1].replace(",", ""))
        print(f"check of the tree: {kib} KiB, {count} instructions")
        if count > 900_000_000:
            yield f"{count} instructions"


def main():
    build = Path(sys.argv[1]).resolve()
    if reason := wine.missing():
        print(f"SKIP {reason} (scripts/setup test installs it)")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    files = wheels()
    failed = 0
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        folder = Path(scratch)
        prefix = wine.Wine(folder / "prefix")
        unpacked(prefix.drive_c, files)
        exe = prefix.drive_c / "Python312/driver.exe"
        os.link(wine.driver(folder), exe)
        for number, (name, lines, code, *path) in enumerate(SCENARIOS):
            script = folder / "script"
            script.write_text("\n".join(["functions\t0", f"world\t{number}", *lines]) + "\n")
            real = worlds.answers(prefix.run(exe, wine.windows_path(script), "C:\\"))
            done = subprocess.run([wine.built(build, "modeldriver"), script, "C:\\",
                                   "C:\\Python312\\driver.exe", f"C:{prefix.drive_c}", "Z:/"],
                                  capture_output=True, check=True, text=True)
            model = worlds.answers(done.stdout)
            n, odd = worlds.compare(real.get(number, []), model.get(number, []))
            last, *got = real.get(number, [["nothing"]])[-1][:2]
            if (odd is not None or n == 0 or (code is not None and last != str(code))
                    or (path and got != [path[0].lower()])):
                failed += 1
                print(f"FAIL {name}: Wine {real.get(number)}, the model {model.get(number)}")
            else:
                print(f"{name}: {last}, as under Wine")
        over = list(exceeded(build / "gpumend", folder / "tree", prefix.drive_c / "Python312/Lib/site-packages"))
        failed += bool(over)
        print(*(f"FAIL check of the tree: {what}" for what in over), sep="\n", end="")
    print(f"{len(SCENARIOS) + 1 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
