#!/usr/bin/python3
"""`gpumend why NAME.dll --root TREE`: the loader of Windows, from Linux.

    tests/windows/why.py GPUMEND

The trees are made here, of DLLs of a few hundred bytes; neither Wine nor a compiler is needed.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import wine  # noqa: E402

EXE = ["--exe", "C:\\Python312\\python.exe"]
SP = "C:\\Python312\\Lib\\site-packages"


def put(tree, path, imports=(), exports=("f",), machine=0x8664):
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(wine.dll(imports, machine, exports=exports))


def make_tree(tree):
    put(tree, "Windows/System32/kernel32.dll")
    put(tree, "Python312/python.exe")
    site = "Python312/Lib/site-packages/"
    put(tree, site + "torch/lib/fbgemm.dll", ["libomp140.x86_64.dll"])
    put(tree, site + "torch/lib/torch_cuda.dll", ["cudnn64_9.dll"])
    put(tree, site + "torch/lib/cudnn64_9.dll")
    put(tree, site + "ctranslate2/cudnn64_9.dll")
    put(tree, site + "old/user.dll", ["part.dll"])
    put(tree, site + "old/part.dll", exports=("g",))
    put(tree, site + "narrow/x.dll", machine=0x14C)
    put(tree, "cublas/cublas64_12.dll")
    put(tree, "broken/part.dll")
    (tree / "broken/python.exe").write_bytes(b"")
    make_aliases(tree)


ALIASES = "Users/{}/AppData/Local/Microsoft/WindowsApps/"
STORE = "PythonSoftwareFoundation.Python.3.12_qbz5n2kfra8p0"


def alias(user):
    return ["--exe", "C:\\" + ALIASES.format(user).replace("/", "\\") + "python.exe"]


def make_aliases(tree):
    """The Store's Python of ann, whose program is in the tree; bob has an alias of nothing."""
    for user, contents in (("ann", b"MZ"), ("bob", b"")):
        (tree / ALIASES.format(user)).mkdir(parents=True)
        (tree / ALIASES.format(user) / "python.exe").write_bytes(contents)
    (tree / f"Users/ann/AppData/Local/Packages/{STORE}").mkdir(parents=True)
    program = "Program Files/WindowsApps/PythonSoftwareFoundation.Python.3.12_3.12.2800.0_x64__qbz5n2kfra8p0/"
    put(tree, program + "python.exe"), put(tree, program + "part.dll")
    (tree / program / "AppxManifest.xml").write_text("<Package></Package>")


CASES = [  # name, arguments, status, texts that the answer has
    ("126 names the DLL and its importer", [SP + "\\torch\\lib\\fbgemm.dll"], 1,
     ["[WinError 126] The specified module could not be found",
      f"libomp140.x86_64.dll, which {SP}\\torch\\lib\\fbgemm.dll imports, was not found",
      f"{SP}\\torch\\lib\\libomp140.x86_64.dll: not there",
      "C:\\Windows\\System32\\libomp140.x86_64.dll: not there"]),
    ("the base name decides", ["cudnn64_9.dll", "--load", SP + "\\ctranslate2\\cudnn64_9.dll",
                               "--load", SP + "\\torch\\lib\\torch_cuda.dll"], 0,
     [f"reused {SP}\\ctranslate2\\cudnn64_9.dll", "loaded under this name"]),
    ("127 names the function and the copy", [SP + "\\old\\user.dll"], 1,
     ["[WinError 127]", f"f is not exported by {SP}\\old\\part.dll"]),
    ("193 names the file", [SP + "\\narrow\\x.dll"], 1, ["[WinError 193]", "for another machine, passed over, x86"]),
    ("a path below the root, in another case",
     ["/Python312/LIB/Site-Packages/torch/lib/CUDNN64_9.DLL"], 0, ["loaded C:\\Python312\\LIB"]),
    ("an added folder", ["cublas64_12.dll", "--load", "dir:C:\\cublas"], 0,
     ["add_dll_directory      C:\\cublas\\cublas64_12.dll: found"]),
    ("a plain call: two answers, and what decides",
     ["cublas64_12.dll@0x0", "--env", "PATH=C:\\cublas"], 3,
     ["If the program does not call SetDefaultDllDirectories():", "loaded C:\\cublas",
      "If it calls SetDefaultDllDirectories(0x1000):", "[WinError 126]"]),
    ("PATH is not known", ["cublas64_12.dll@0"], 3, ["PATH is not known"]),
    ("contradicting flags", ["cublas64_12.dll@0x100"], 1, ["[WinError 87]"]),
    ("an alias of the Store's Python", ["part.dll", *alias("ann")], 0,
     ["loaded C:\\Program Files\\WindowsApps\\PythonSoftwareFoundation.Python.3.12_3.12.2800.0_x64__qbz5n2kfra8p0\\"]),
    ("an alias of nothing", ["part.dll", *alias("bob")], 3, ["cannot tell", "not all packages are in the tree"]),
    ("a program that cannot be read", ["none.dll", "--exe", "C:\\broken\\python.exe"], 3,
     ["the program is not in the tree, or cannot be read there"]),
    ("a drive that is not there", ["D:\\x.dll"], 3, ["cannot tell", "D:\\x.dll"]),
]


def main():
    gpumend = os.path.abspath(sys.argv[1])
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        make_tree(Path(folder))
        for name, args, status, texts in CASES:
            exe = [] if "--exe" in args else EXE
            command = [gpumend, "why", *args, "--root", folder, *exe]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            missing = [text for text in texts if text not in done.stdout]
            if done.returncode != status or missing:
                failed += 1
                print(f"FAIL {name}: status {done.returncode}, not found: {missing}\n"
                      f"{done.stdout}{done.stderr}")
            shown = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
            models = json.loads(shown.stdout)["windows"]
            if shown.returncode != status or len(models) != 1 + ("two" in name or "PATH is" in name):
                failed += 1
                print(f"FAIL {name}, as JSON: status {shown.returncode}, {len(models)} models")
    print(f"{2 * len(CASES) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
