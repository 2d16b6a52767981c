#!/usr/bin/env python3
"""The bounds of the model of Windows' loader: each that is reached is said, and never "ok".

    tests/safety/windows_bounds.py GPUMEND

A tree has as much as is read, and then one thing more: only then does `gpumend check` say what it did
not look at. What lies behind the bound is a DLL that is nowhere, so that a check that went on would
end with an error and one that stopped in silence with nothing.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "windows")]
import check                                                                        # noqa: E402
import wine                                                                         # noqa: E402

SITE = check.SITE
LIB = SITE + "torch/lib/"
HEAD = "# Written for a test\n"


def base(tree, imports=()):
    check.windows(tree), check.python(tree), check.torch(tree, imports=imports)


def hook(tree, libraries, more=""):
    base(tree)
    (tree / SITE / "gpumend-hook.pth").write_text("import _gpumend_hook\n")
    items = "".join(f'b"x{i}.dll", ' for i in range(libraries))
    (tree / SITE / "_gpumend_hook.py").write_text(
        f'{HEAD}MODULES = ("torch", )\nSEARCHED = ()\nON_PATH = ()\nLIBRARIES = ({items})\n{more}')


def long_hook(tree, size):
    hook(tree, 1)
    path = tree / SITE / "_gpumend_hook.py"
    path.write_text(path.read_text() + "#" * (size - path.stat().st_size))


def modules(tree, count):
    """So many modules in one process, 4,000 of each of those that torch_cuda.dll needs."""
    groups = [range(at, min(at + 4000, count)) for at in range(0, count, 4000)]
    base(tree, imports=[f"group{g}.dll" for g in range(len(groups))])
    for number, members in enumerate(groups):
        check.put(tree, f"{LIB}group{number}.dll", [f"m{i}.dll" for i in members])
        for i in members:
            (tree / LIB / f"m{i}.dll").write_bytes(wine.dll())


def chain(tree, depth):
    base(tree, imports=["d0.dll"])
    for i in range(depth):
        check.put(tree, f"{LIB}d{i}.dll", [f"d{i + 1}.dll"] if i + 1 < depth else [])


def forwarders(tree, count):
    """An export that leads on so often."""
    base(tree, imports=["f0.dll"])
    for i in range(count + 1):
        (tree / LIB / f"f{i}.dll").write_bytes(wine.dll(forward=f"f{i + 1}.f" if i < count else None))


def pythons(tree, count):
    base(tree)
    for i in range(count - 1):
        check.put(tree, f"Users/u{i}/AppData/Local/Programs/Python/Python312/python.exe", ["python312.dll"])
        check.put(tree, f"Users/u{i}/AppData/Local/Programs/Python/Python312/python312.dll")


def places(tree, count):
    """Folders of a .pth file, with those that the installation has."""
    base(tree)
    for i in range(count):
        (tree / f"p{i}").mkdir()
    (tree / SITE / "many.pth").write_text("".join(f"C:\\p{i}\n" for i in range(count)))


def long_pth(tree, size):
    base(tree)
    (tree / SITE / "long.pth").write_text("#" * size)


def long_venv(tree, size):
    base(tree)
    check.put(tree, "venv/Scripts/python.exe", ["python312.dll"])
    start = "home = C:\\Python312\nversion = 3.12.1\n"
    (tree / "venv/pyvenv.cfg").write_text(start + "#" * (size - len(start)))


def manifest(tree, text):
    """A manifest in a file of its own beside the program."""
    check.machine(tree), check.ctranslate2(tree)
    (tree / "Python312/python.exe.manifest").write_text(text)


def long_manifest(tree, size):
    start = "<assembly>\n</assembly>\n"
    manifest(tree, start + " " * (size - len(start)))


def assemblies(tree, count):
    """Assemblies of Windows, which are in WinSxS or not there."""
    manifest(tree, "<assembly>\n" + "".join(
        f'<dependentAssembly><assemblyIdentity name="Microsoft.Windows.X{i}" version="1.0.0.0"/>'
        "</dependentAssembly>\n" for i in range(count)) + "</assembly>\n")


STORE_APP = "Program Files/WindowsApps/PythonSoftwareFoundation.Python.3.12_3.12.2800.0_x64__qbz5n2kfra8p0/"


def long_app_manifest(tree, size):
    check.store_with_graph(tree)
    path = tree / STORE_APP / "AppxManifest.xml"
    path.write_text(path.read_text() + " " * (size - path.stat().st_size))


def graph(tree, count):
    """Packages of the graph, the program's own among them; the library is of the last."""
    check.store_with_graph(tree)
    names = [*(f"More{i}" for i in range(count - 2)), "Any.Runtime"]
    (tree / STORE_APP / "AppxManifest.xml").write_text("<Package>" + "".join(
        f'<PackageDependency Name="{name}" MinVersion="1.0.0.0" Publisher="CN=x"/>' for name in names)
        + "</Package>")
    for name in names[:-1]:
        (tree / f"Program Files/WindowsApps/{name}_1.2.0.0_x64__8wekyb3d8bbwe").mkdir()


def names(tree, count):
    """Files of the folder of the program, where a library is looked for that is not there."""
    base(tree, imports=["nowhere.dll"])
    folder = tree / "Python312"
    for i in range(count - len(list(folder.iterdir()))):
        (folder / f"x{i}").touch()


def record(tree, size):
    check.without_a_file(tree)
    path = tree / SITE / "ctranslate2-4.6.0.dist-info/RECORD"
    path.write_text(path.read_text() + "#" * (size - path.stat().st_size))


# What is made, the most that is read, and what is said of one more.
CASES = (
    ("libraries of a start-up hook", hook, 1024, "a start-up hook lists more than 1024 items"),
    ("bytes of a start-up hook", long_hook, 1 << 20, "_gpumend_hook.py"),
    ("depth of imports", chain, 257, "more modules than are modelled"),
    ("modules of a process", modules, 19986, "more modules than are modelled"),
    ("exports that lead on", forwarders, 16, "more often than is followed"),
    ("Pythons", pythons, 64, "there are more than 64 Pythons"),
    ("folders of sys.path", places, 253, "sys.path has more than 256 folders"),
    ("bytes of a .pth file", long_pth, 1 << 18, "long.pth, which may name more folders, is not read"),
    ("bytes of pyvenv.cfg", long_venv, 1 << 18, "pyvenv.cfg is larger than 262144 bytes"),
    ("bytes of a manifest", long_manifest, 1 << 16, "python.exe.manifest cannot be read, or is larger than 65536"),
    ("assemblies of a manifest", assemblies, 64, "python.exe names more than 64 assemblies"),
    ("bytes of a package's manifest", long_app_manifest, 1 << 18, "what was not looked at: the package graph"),
    ("packages of a graph", graph, 32, "what was not looked at: the package graph"),
    ("files of a folder", names, 1 << 17, "/Python312 has more than 131072 entries; the others were not looked at"),
    ("bytes of a RECORD", record, 16 << 20, "RECORD is larger than 16777216 bytes; it was not read"),
)


def shown(exe, make, count):
    with tempfile.TemporaryDirectory(prefix="gpumend-bounds.") as folder:
        make(Path(folder), count)
        done = subprocess.run([exe, "check", "-v", "--root", folder, *(["/venv"] if make is long_venv else [])], capture_output=True, text=True,
                              timeout=300, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def main():
    exe = str(Path(sys.argv[1]).resolve())
    failed = 0
    for name, make, most, text in CASES:
        few = 1000 if make is names else most  # to make that many files takes long
        before, after = shown(exe, make, few), shown(exe, make, most + 1)
        if text in before[1] or text not in after[1] or after[0] not in (1, 3):
            failed += 1
            print(f"FAIL {name}: status {before[0]}, then {after[0]}\n  {before[1][-700:]}\n  {after[1][-700:]}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
