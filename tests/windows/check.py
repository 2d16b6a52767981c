#!/usr/bin/python3
"""`gpumend check --root TREE` of a Windows tree, from Linux.

    tests/windows/check.py GPUMEND

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

NEW, OLD = (9, 10, 2, 21), (9, 1, 0, 70)


def put(tree, path, imports=(), version=None, machine=0x8664):
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(wine.dll(imports, machine, version=version))


def windows(tree):
    put(tree, "Windows/System32/kernel32.dll")
    for name in ("msvcp140.dll", "vcruntime140.dll", "vcruntime140_1.dll"):
        put(tree, f"Windows/System32/{name}")


def python(tree, folder="Python312"):
    put(tree, f"{folder}/python.exe", ["python312.dll"])
    put(tree, f"{folder}/python312.dll", ["vcruntime140.dll"])
    put(tree, f"{folder}/vcruntime140.dll")


def torch(tree, folder="Python312", version=OLD, imports=()):
    site = f"{folder}/Lib/site-packages/torch/"
    (tree / site).mkdir(parents=True)
    (tree / site / "__init__.py").write_text("")
    put(tree, site + "lib/cudnn64_9.dll", version=version)
    put(tree, site + "lib/cudnn_graph64_9.dll", version=version)
    put(tree, site + "lib/torch_cuda.dll", ["cudnn64_9.dll", "msvcp140.dll", *imports])
    put(tree, site + "_C.cp312-win_amd64.pyd", ["python312.dll", "torch_cuda.dll"])


def ctranslate2(tree, folder="Python312", version=NEW):
    site = f"{folder}/Lib/site-packages/ctranslate2/"
    (tree / site).mkdir(parents=True)
    (tree / site / "__init__.py").write_text("")
    put(tree, site + "cudnn64_9.dll", version=version)
    put(tree, site + "libiomp5md.dll")
    put(tree, site + "ctranslate2.dll", ["libiomp5md.dll"])
    put(tree, site + "_ext.cp312-win_amd64.pyd", ["python312.dll", "ctranslate2.dll"])


def healthy(tree):
    windows(tree), python(tree), torch(tree), ctranslate2(tree, version=OLD)


def mixed(tree):
    windows(tree), python(tree), torch(tree), ctranslate2(tree)


def alone(tree):
    windows(tree), python(tree), ctranslate2(tree)


def no_runtime(tree):
    mixed(tree)
    (tree / "Windows/System32/msvcp140.dll").unlink()


def hidden(tree):
    windows(tree), python(tree), torch(tree, imports=["libomp140.x86_64.dll"])


def no_system(tree):
    python(tree), torch(tree)


def venv(tree):
    windows(tree), python(tree), torch(tree, "app/.venv"), ctranslate2(tree, "app/.venv")
    put(tree, "app/.venv/Scripts/python.exe")
    (tree / "app/.venv/pyvenv.cfg").write_text("home = C:\\Python312\nversion = 3.12.1\n")


def homeless(tree):
    venv(tree)
    for name in ("python.exe", "python312.dll", "vcruntime140.dll"):
        (tree / "Python312" / name).unlink()


def wrong_machine(tree):
    alone(tree)
    put(tree, "Python312/Lib/site-packages/ctranslate2/libiomp5md.dll", machine=0x14C)


# Name, tree, TARGET, status, findings as (id, severity), texts that the answer has, and how many
# environments.
MIXED = ("cudnn-mixed-versions", "warning")
CASES = [
    ("nothing is wrong, and the verdict is not ok", healthy, None, 3, [], ["Cannot tell"], 1),
    ("CTranslate2's cuDNN serves torch", mixed, None, 3, [MIXED],
     ["torch_cuda.dll imports cudnn64_9.dll and gets C:\\Python312\\Lib\\site-packages\\ctranslate2"
      "\\cudnn64_9.dll (9.10.2.21)", "(9.1.0.70)", "repair: import torch before ctranslate2"], 1),
    ("CTranslate2 without torch", alone, None, 3, [], [], 1),
    ("msvcp140.dll is missing", no_runtime, None, 1, [("dll-missing", "error"), MIXED],
     ["import torch fails: [WinError 126]", "msvcp140.dll, which", "torch_cuda.dll imports",
      "winget install --id Microsoft.VCRedist.2015+.x64 --exact"], 1),
    ("the DLL that 126 hides", hidden, None, 1, [("dll-missing", "error")],
     ["libomp140.x86_64.dll, which C:\\Python312\\Lib\\site-packages\\torch\\lib\\torch_cuda.dll"], 1),
    ("System32 is not in the tree", no_system, "C:\\Python312", 3, [], ["cannot tell: msvcp140"], 1),
    ("a virtual environment, by its path below the root", venv, "/app/.venv", 3, [MIXED], ["(venv)"],
     1),
    ("the Python of a virtual environment is not in the tree", homeless, "C:\\app\\.venv", 3, [MIXED],
     ["cannot tell: python312.dll", "C:\\Python312\\python.exe"], 1),
    ("a DLL for another machine", wrong_machine, None, 1, [("library-wrong-architecture", "error")],
     ["[WinError 193]", "libiomp5md.dll"], 1),
    ("no Python", windows, None, 3, [], ["no Python was found"], 0),
]


def main():
    gpumend = os.path.abspath(sys.argv[1])
    failed = 0
    for name, make, target, status, findings, texts, environments in CASES:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder))
            command = [gpumend, "check", *([target] if target else []), "--root", folder]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            shown = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
        document = json.loads(shown.stdout or "{}")
        all_ = document.get("environments", [])
        seen = sorted({(f["id"], f["severity"]) for e in all_ for f in e["findings"]})
        missing = [text for text in texts if text not in done.stdout]
        if (done.returncode != status or shown.returncode != status or missing
                or seen != sorted(findings) or len(all_) != environments):
            failed += 1
            print(f"FAIL {name}: status {done.returncode}, findings {seen}, not found: {missing}\n"
                  f"{done.stdout}{done.stderr}")
    print(f"{len(CASES) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
