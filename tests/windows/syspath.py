#!/usr/bin/python3
"""Where a Python for Windows finds a package, against a real CPython under Wine, on random worlds.

    tests/windows/syspath.py GPUMEND [--count N] [--seed S]

A world has a package torch in some of the places that sys.path may have: PYTHONPATH, the registry's
PythonPath of the user and of all, the user's site-packages, the installation's, those of a virtual
environment, and folders that .pth and ._pth files name. In each, a DLL imports another one that is
nowhere, by whose name `gpumend check` shows which torch it has taken. The seed is fresh, and printed.

A virtual environment is started as its launcher does it: by the installation's program, with
__PYVENV_LAUNCHER__.
"""

import getpass
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check  # noqa: E402
import hives  # noqa: E402
import wine  # noqa: E402
import winpython  # noqa: E402

USER = "users/" + getpass.getuser()  # Wine sets APPDATA by it
USER_SITE = USER + "/AppData/Roaming/Python/Python311/site-packages"
PYTHON, VENV, PORTABLE = "Python311", "app/.venv", "portable"
FOLDERS = ["one", "two words", "Three", "reg/user", "reg/all"]
MADE = ("one", "two words", "Three", "reg", "app", USER + "/AppData/Roaming/Python", "base")

# Sets the registry in a start of its own, or says where torch is found.
SET = """import winreg
for root, value in ((winreg.HKEY_CURRENT_USER, {0!r}), (winreg.HKEY_LOCAL_MACHINE, {1!r})):
    path = "Software\\\\Python\\\\PythonCore\\\\3.11\\\\PythonPath\\\\more"
    with winreg.CreateKey(root, path) as key:
        winreg.SetValue(key, None, winreg.REG_SZ, value)
"""
ASK = """import importlib.util, os, sys
spec = importlib.util.find_spec("torch")
print("found", os.path.dirname(os.path.dirname(spec.origin)) if spec and spec.origin else "none")
"""


def windows(path):
    return "C:\\" + path.replace("/", "\\")


class World:
    """The same files in two trees: the prefix's drive, and the one that gpumend looks at."""

    def __init__(self, rng, drive, tree):
        self.rng, self.drive, self.tree = rng, drive, tree
        self.places, self.variables, self.registry = [], {}, ["", ""]
        self.kind = rng.choice(["plain", "venv", "venv", "embedded"])
        for folder in MADE:
            shutil.rmtree(drive / folder, ignore_errors=True)
        for name in ("python311._pth", "python._pth"):
            (drive / PORTABLE / name).unlink(missing_ok=True)
        for site in (PYTHON, PORTABLE):
            shutil.rmtree(drive / site / "torch", ignore_errors=True)
            shutil.rmtree(drive / site / "Lib/site-packages", ignore_errors=True)
            (drive / site / "Lib/site-packages").mkdir()
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir()
        check.windows(tree)
        for folder in (PYTHON, PORTABLE):
            check.put(tree, f"{folder}/python.exe", ["python311.dll"])
            check.put(tree, f"{folder}/python311.dll")
        self.make()

    def text(self, path, contents):
        for top in (self.drive, self.tree):
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).write_text(contents)

    def torch(self, folder):
        """As a regular package, or as a folder without __init__.py, which hides nothing."""
        self.places.append(folder)
        if self.rng.random() < 0.15:
            self.text(f"{folder}/torch/nothing.txt", "")
            return
        self.text(f"{folder}/torch/__init__.py", "")
        check.put(self.tree, f"{folder}/torch/lib/torch_cuda.dll", [f"nowhere_{len(self.places) - 1}.dll"])

    def named(self, site):
        """What a line of a .pth file may be."""
        rng = self.rng
        folder = rng.choice(FOLDERS)
        up = "..\\" * (site.count("/") + 1)
        return rng.choice([windows(folder), windows(folder).replace("\\", "/"), up + folder.replace("/", "\\"),
                           "# " + windows(folder), "import sys", "C:\\not there", windows(folder) + "  ", ""])

    def site(self, folder):
        if self.rng.random() < 0.5:
            self.torch(folder)
        if self.rng.random() < 0.4:
            lines = [self.named(folder) for _ in range(self.rng.randint(1, 4))]
            self.text(f"{folder}/{self.rng.choice('azB')}.pth", "\n".join(lines) + self.rng.choice(["", "\n"]))

    def make(self):
        rng = self.rng
        for folder in FOLDERS:
            if rng.random() < 0.5:
                self.torch(folder)
        for folder in (USER_SITE, f"{PYTHON}/Lib/site-packages"):
            if rng.random() < 0.7:
                self.site(folder)
        if rng.random() < 0.1:
            self.torch(PYTHON)
        if rng.random() < 0.15:
            self.variables["PYTHONUSERBASE"] = "C:\\base"
            self.site("base/Python311/site-packages")
        if rng.random() < 0.4:
            self.variables["PYTHONPATH"] = ";".join(rng.sample([windows(f) for f in FOLDERS[:3]] +
                                                               ["C:\\not there"], rng.randint(1, 2)))
        if rng.random() < 0.15:
            self.variables["PYTHONNOUSERSITE"] = "1"
        if rng.random() < 0.3:
            self.registry = [rng.choice(["", windows("reg/user"), windows("reg/user") + ";" + windows("one")]),
                             rng.choice(["", windows("reg/all")])]
        if self.kind == "venv":
            self.site(f"{VENV}/Lib/site-packages")
            line = rng.choice(["include-system-site-packages = false", "include-system-site-packages = true",
                               "Include-System-Site-Packages=TRUE", "prompt = x"])
            self.text(f"{VENV}/pyvenv.cfg", f"home = {windows(PYTHON)}\n{line}\nversion = 3.11.3\n")
        elif self.kind == "embedded":
            self.site(f"{PORTABLE}/Lib/site-packages")
            lines = ["Lib", ".", rng.choice(["#import site", "import site", "import site # yes", ""]),
                     rng.choice(["", "..\\one", "Lib\\site-packages", windows("Three"), "# one"])]
            rng.shuffle(lines)
            self.text(f"{PORTABLE}/{rng.choice(['python311._pth', 'python._pth'])}", "\n".join(lines) + "\n")

    def write_registry(self):
        def paths(value):
            return {"Python": {"PythonCore": {"3.11": {"PythonPath": {"more": {"": value}}}}}}
        config = self.tree / "Windows/System32/config"
        config.mkdir(parents=True)
        (config / "SOFTWARE").write_bytes(hives.write(paths(self.registry[1])))
        (self.tree / USER).mkdir(parents=True, exist_ok=True)
        (self.tree / USER / "NTUSER.DAT").write_bytes(hives.write(
            {"Environment": self.variables, "Software": paths(self.registry[0])}))

    def target(self):
        return {"plain": PYTHON, "venv": VENV, "embedded": PORTABLE}[self.kind]


def really(prefix, world):
    env = {**prefix.env, **world.variables}
    program = windows((PORTABLE if world.kind == "embedded" else PYTHON) + "/python.exe")
    for name, contents in (("set.py", SET.format(*world.registry)), ("ask.py", ASK)):
        (prefix.drive_c / "scripts").mkdir(exist_ok=True)
        (prefix.drive_c / "scripts" / name).write_text(contents)
    run = wine.Wine.run
    held, prefix.env = prefix.env, env
    try:
        run(prefix, windows(PYTHON + "/python.exe"), "-I", "-S", "C:\\scripts\\set.py", timeout=120)
        if world.kind == "venv":
            prefix.env = {**env, "__PYVENV_LAUNCHER__": windows(VENV + "/Scripts/python.exe")}
        said = run(prefix, program, "C:\\scripts\\ask.py", timeout=120)
    finally:
        prefix.env = held
    found = re.search(r"^found (.*)$", said, re.MULTILINE)
    return found.group(1).lower() if found else f"nothing: {said!r}"


def modelled(gpumend, world):
    # The registry of a world has no PATH, and what is nowhere else could be there.
    done = subprocess.run([gpumend, "check", windows(world.target()), "--root", world.tree, "--json",
                           "--env", "PATH=C:\\Windows"],
                          capture_output=True, text=True, check=False)
    environment = json.loads(done.stdout)["environments"][0]
    if "torch" not in environment["packages"]:
        return "none"
    seen = re.findall(r"nowhere_(\d+)\.dll", json.dumps(environment["findings"]))
    return windows(world.places[int(seen[0])]).lower() if len(set(seen)) == 1 else f"findings: {seen}"


def world_faults(args, rng, prefix, scratch):
    world = World(rng, prefix.drive_c, scratch / "tree")
    world.write_registry()
    real, model = really(prefix, world), modelled(args.gpumend.resolve(), world)
    if real != model:
        yield (f"{world.kind}, {world.variables}, {world.registry}, {world.places}: really {real}, "
               f"the model {model}")


if __name__ == "__main__":
    sys.exit(winpython.compare_worlds((PYTHON, PORTABLE), world_faults))
