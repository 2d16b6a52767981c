#!/usr/bin/env python3
"""gpumend.exe run, enable and disable, with a real CPython for Windows under Wine.

    tests/windows/act.py GPUMEND GPUMEND.EXE [--words N] [--seed N]

What is true is asked of that Python: an import that fails without a repair and succeeds with it, the
words that a program gets, its exit status, and whether what it started ends with it. What the running
system's registry says is set there by the test, and read from a snapshot by the executable for Linux as well.
"""

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[1]))
import seeding  # noqa: E402
import wine  # noqa: E402
import winpython  # noqa: E402

TOP = Path(__file__).resolve().parent.parent.parent
# As CTranslate2's own __init__.py: its folder is searched, each of its DLLs loaded by its path.
INIT = """import ctypes, glob, os
folder = os.path.dirname(__file__)
os.add_dll_directory(folder)
for library in sorted(glob.glob(os.path.join(folder, "*.dll"))):
    ctypes.CDLL(library)
"""
# Runs each command of a list and writes how it ended, all 32 bits of it.
DRIVE = """import json, subprocess, sys
import os
commands = json.load(open(sys.argv[1], encoding="utf-8"))
done = [subprocess.run(words, capture_output=True, input=b"", env={**os.environ, **more}) for more, words in commands]
json.dump([[d.returncode & 0xffffffff, d.stdout.decode("utf-8", "replace"),
            d.stderr.decode("utf-8", "replace")] for d in done], open(sys.argv[2], "w", encoding="utf-8"))
"""
WORDS = "import json, sys; print(json.dumps(sys.argv[1:]))"
ALPHABET = ["\\", "\\\\", '"', " ", "\t", "&", "|", "<", ">", "^", "%", "%PATH%", "!", "'", "(", ")", "a", "-",
            "--", "=", ";", "ü", "日", "😀", "\n", "`", "$", "*", "?", "/", "@"]


class World:
    """A prefix with gpumend.exe and a Python whose ctranslate2 lacks a DLL that is installed elsewhere."""

    def __init__(self, folder, exe):
        self.wine = wine.Wine(folder)
        self.exe = exe
        self.python = winpython.install(self.wine.drive_c / "Python311")
        self.site = self.python / "Lib/site-packages"
        self.passed = self.failed = 0
        self.work = self.wine.drive_c / "work"
        self.work.mkdir()
        (self.work / "drive.py").write_text(DRIVE)
        (self.wine.drive_c / "temp").mkdir()
        self.wine.env.update(TEMP="C:\\temp", TMP="C:\\temp", LANG="C.UTF-8")

    def broken(self, init=INIT):
        package = self.site / "ctranslate2"
        package.mkdir()
        (package / "__init__.py").write_text(init)
        (package / "ctranslate2.dll").write_bytes(wine.dll(["libiomp5md.dll"]))
        (self.site / "nvidia/openmp/bin").mkdir(parents=True)
        (self.site / "nvidia/openmp/bin/libiomp5md.dll").write_bytes(wine.dll())

    def gpumend(self, *words, **variables):
        return self.start(self.exe, *words, **variables)

    def start(self, exe, *words, **variables):
        done = subprocess.run([wine.loader(), str(exe), *words], env={**self.wine.env, **variables}, input=b"",
                              cwd=self.work, capture_output=True, timeout=600, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def drive(self, commands):
        """Statuses and outputs of commands that are started from within the prefix; a command may be
        a pair of variables and its words."""
        commands = [c if isinstance(c, tuple) else ({}, c) for c in commands]
        (self.work / "in.json").write_text(json.dumps(commands), encoding="utf-8")
        done = self.start(self.python / "python.exe", "-B", "C:\\work\\drive.py", "C:\\work\\in.json",
                          "C:\\work\\out.json")
        assert done[0] == 0, done
        return json.loads((self.work / "out.json").read_text(encoding="utf-8"))

    def imports(self, **variables):
        """Whether the Python itself can import the package."""
        return self.drive([(variables, ["C:\\Python311\\python.exe", "-B", "-c", "import ctranslate2"])])[0][0] == 0

    def state(self):
        return {str(p.relative_to(self.python)): hashlib.sha256(p.read_bytes()).hexdigest()
                for p in sorted(self.python.rglob("*")) if p.is_file()}

    def count(self, name, right, shown=None):
        self.passed, self.failed = self.passed + bool(right), self.failed + (not right)
        if not right:
            print(f"FAIL {name}: {shown}")


def hook(w):
    w.count("nothing is to be done in an empty environment",
            (done := w.gpumend("enable", "C:\\Python311"))[0] == 0 and "Nothing is to be done" in done[1], done)
    w.broken()
    before = w.state()
    w.count("the import fails", not w.imports())
    done = w.gpumend("check", "C:\\Python311", "--json")
    found = [f["id"] for e in json.loads(done[1])["environments"] for f in e["findings"]]
    w.count("check says why", done[0] == 1 and found == ["library-not-on-path"], done)
    done = w.gpumend("enable", "C:\\Python311", "--json")
    answer = json.loads(done[1] or "{}")
    w.count("enable", done[0] == 0 and answer.get("result") == "verified" and answer.get("left") == []
            and answer["hook"]["searched"] == ["C:\\Python311\\Lib\\site-packages\\nvidia\\openmp\\bin"], done)
    w.count("the import succeeds", w.imports())
    w.count("GPUMEND_HOOK=0 switches the hook off",
            not w.imports(GPUMEND_HOOK="0") and w.imports(GPUMEND_HOOK="1"))
    done = w.gpumend("check", "C:\\Python311", "--json")
    found = [f["id"] for e in json.loads(done[1])["environments"] for f in e["findings"]]
    w.count("check sees the hook", done[0] == 3 and found == [], done)
    w.count("what is added are three files", sorted(set(w.state()) - set(before)) == sorted(
        "Lib/site-packages/" + name for name in ("_gpumend_hook.py", "gpumend-hook.pth", "gpumend-hook.start")),
        sorted(set(w.state()) - set(before)))
    done = w.gpumend("enable", "C:\\Python311")
    w.count("enable again", done[0] == 0 and w.imports(), done)
    done = w.gpumend("disable", "C:\\Python311", "--json")
    w.count("disable", done[0] == 0 and json.loads(done[1])["removed"] is True and w.state() == before, done)
    done = w.gpumend("disable", "C:\\Python311")
    w.count("disable again", done[0] == 0 and "there is no start-up hook" in done[1], done)
    w.count("the import fails again", not w.imports())


def refusals(w):
    before = w.state()
    module, pth = w.site / "_gpumend_hook.py", w.site / "gpumend-hook.pth"
    w.gpumend("enable", "C:\\Python311")
    whole = module.read_text()
    module.write_text(whole.replace("SEARCHED = (", "SEARCHED = (b\"C:\\x5cx\", "))
    changed = w.state()
    done = w.gpumend("disable", "C:\\Python311")
    w.count("a hook that was changed is left alone", done[0] == 3 and w.state() == changed
            and "not as gpumend wrote it" in done[2], done)
    module.write_text(whole)
    done = w.gpumend("disable", "C:\\Python311")
    w.count("and removed once it is whole", done[0] == 0 and w.state() == before, done)
    pth.write_text("import something_else\n")
    done = w.gpumend("enable", "C:\\Python311")
    w.count("a file of that name is left alone", done[0] == 3 and pth.read_text() == "import something_else\n"
            and not module.exists(), done)
    pth.unlink()
    init = w.site / "ctranslate2/__init__.py"
    init.write_text(INIT + "raise ImportError('no')\n")
    before = w.state()
    done = w.gpumend("enable", "C:\\Python311", "--json")
    w.count("a hook that does not help is taken back", done[0] == 1 and w.state() == before
            and json.loads(done[1])["result"] == "failed", done)
    init.write_text(INIT)
    done = w.gpumend("enable", "C:\\nowhere")
    w.count("no environment", done[0] == 3 and "holds no Python environment" in done[2], done)


def run(w, seed, n):
    exe, python = "Z:" + str(w.exe).replace("/", "\\"), "C:\\Python311\\python.exe"
    start = [exe, "run", "--", python, "-B"]
    (w.site / "sitecustomize.py").write_text("import builtins\nbuiltins.own = __name__\n")
    (w.work / "aside").mkdir()
    (w.work / "aside/beside.py").write_text("")
    before = w.state()
    child = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-B', '-c', 'import ctranslate2']).returncode)"
    statuses = [0, 1, 42, 259, 0xC0000005, 0xFFFFFFFF]
    words = [["".join(seed.choice(ALPHABET) for _ in range(seed.randrange(8))) for _ in range(seed.randrange(5))]
             for _ in range(n)]
    answers = w.drive([
        [*start, "-c", "import ctranslate2"], [*start, "-c", child],
        [*start, "-c", "assert own == 'sitecustomize'; import sys; assert not [p for p in sys.path if 'gpumend' in p]"],
        ({"PYTHONPATH": "C:\\work\\aside"}, [*start, "-c", "import beside, ctranslate2"]),
        [*start, "-I", "-c", "import sys"],
        [exe, "run", "--", "nothing-of-this-name"], [exe, "run", "--trace", "--", python],
        [exe, "run"], [exe, "run", "--json", "--", python],
        [exe, "run", "--", "C:\\work\\x.bat"],
        *([*start, "-c", f"import os; os._exit({code - (1 << 32) if code >> 31 else code})"] for code in statuses),
        *([*start, "-c", WORDS, *w_] for w_ in words)])
    for name, answer, right in (
            ("run: the import succeeds", answers[0], answers[0][0] == 0),
            ("run: in a child as well", answers[1], answers[1][0] == 0),
            ("run: the environment's own sitecustomize", answers[2], answers[2][0] == 0),
            ("run: PYTHONPATH is kept", answers[3], answers[3][0] == 0),
            ("run: -I is said", answers[4], answers[4][0] == 0 and "-I makes Python" in answers[4][2]),
            ("run: not found", answers[5], answers[5][0] == 127 and "not found" in answers[5][2]),
            ("run: --trace", answers[6], answers[6][0] == 3 and "available on Windows" in answers[6][2]),
            ("run: no command", answers[7], answers[7][0] == 2),
            ("run: --json", answers[8], answers[8][0] == 0 and json.loads(answers[8][1])["hook"]["searched"])):
        w.count(name, right, answer)
    w.count("run: a batch file", answers[9][0] in (126, 127), answers[9])
    rest = answers[10:]
    for code, answer in zip(statuses, rest):
        w.count(f"run: status {code:#x}", answer[0] == code, answer)
    for given, answer in zip(words, rest[len(statuses):]):
        try:
            got = json.loads(answer[1])
        except ValueError:
            got = answer
        w.count(f"run: words {given}", got == given, got)
    left = [p.name for p in (w.wine.drive_c / "temp").glob("gpumend*")]
    w.count("run leaves nothing behind", w.state() == before and not left, left)


BEAT = """import sys, time
for i in range(300):
    open(sys.argv[1], "w").write(str(i)); time.sleep(0.1)
"""
PARENT = """import subprocess, sys, time
subprocess.Popen([sys.executable, "C:\\\\work\\\\beat.py", "C:\\\\work\\\\beat"], creationflags=0x8,
                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
time.sleep(30 if len(sys.argv) > 1 else 2)
"""
KILL = """import subprocess, sys, time, os
p = subprocess.Popen([sys.argv[1], "run", "--", sys.executable, "-B", "C:\\\\work\\\\parent.py", "long"])
for _ in range(200):
    time.sleep(0.1)
    if os.path.exists("C:\\\\work\\\\beat"): break
time.sleep(1); p.kill(); p.wait()
"""


def job(w):
    """What the program starts ends with it, and with gpumend."""
    exe, beat = "Z:" + str(w.exe).replace("/", "\\"), w.work / "beat"
    for name, text in (("beat", BEAT), ("parent", PARENT), ("kill", KILL)):
        (w.work / f"{name}.py").write_text(text)
    for name, command in (
            ("what CMD starts ends with it", [exe, "run", "--", "C:\\Python311\\python.exe", "-B", "C:\\work\\parent.py"]),
            ("and with gpumend, when that is killed", ["C:\\Python311\\python.exe", "-B", "C:\\work\\kill.py", exe])):
        beat.unlink(missing_ok=True)
        w.drive([command])
        there = beat.exists()
        first = beat.read_text() if there else ""
        time.sleep(1.5)
        w.count(f"job: {name}", there and beat.read_text() == first, (there, first))
    beat.unlink(missing_ok=True)
    w.drive([["C:\\Python311\\python.exe", "-B", "C:\\work\\parent.py"]])
    first = beat.read_text()
    time.sleep(1.5)
    w.count("job: without gpumend it lives on", first == "299" or beat.read_text() != first)  # 299: to its end


SET = "HKEY_LOCAL_MACHINE\\SYSTEM\\CurrentControlSet\\"
CLASS = "{4d36e968-e325-11ce-bfc1-08002be10318}"
REGISTRY = f"""Windows Registry Editor Version 5.00

[{SET}Enum\\PCI\\VEN_10DE&DEV_2684&SUBSYS_16F110DE&REV_A1\\4&1&0&0008]
"ClassGUID"="{CLASS}"
"Driver"="{CLASS}\\\\0007"
"ConfigFlags"=dword:00000000
"LocationInformation"="@System32\\\\drivers\\\\pci.sys,#65536;PCI bus %1, device %2, function %3;(1,0,0)"

[{SET}Control\\Class\\{CLASS}\\0007]
"ProviderName"="NVIDIA"
"DriverVersion"="32.0.15.6614"

[{SET}Control\\Session Manager]
"SafeDllSearchMode"=dword:00000000

[{SET}Control\\Session Manager\\KnownDLLs]
"kernel32"="kernel32.dll"
"ünï"="Prüf.dll"

[{SET}Control\\Session Manager\\Environment]
"Path"=hex(2):{','.join(f"{b:02x}" for b in ("%SystemRoot%" + chr(92) + "system32;D:" + chr(92) + "x" + chr(0)).encode("utf-16-le"))}
"CUDA_PATH"="C:\\\\cuda"
"NUMBER_OF_PROCESSORS"="12"
"PROCESSOR_ARCHITECTURE"="AMD64"

[{SET}Control\\FileSystem]
"LongPathsEnabled"=dword:00000001

[HKEY_LOCAL_MACHINE\\SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion]
"CurrentBuild"="22631"
"ProductName"="Windows 10 Pro"
"DisplayVersion"="23H2"
"UBR"=dword:00001092
"""


def registry(w, linux):
    """What the registry of the running system says, in the prefix and in its snapshot."""
    done = w.gpumend("devices", "--json")
    empty = json.loads(done[1] or "{}")
    w.count("registry: without a GPU none is named", not [g for g in empty.get("gpus", []) if g["vendor"] == "NVIDIA"],
            done)
    (w.work / "set.reg").write_text(REGISTRY, encoding="utf-16")
    w.start(w.wine.system32 / "regedit.exe", "/S", "C:\\work\\set.reg")
    done = w.gpumend("devices", "--json")
    seen = json.loads(done[1] or "{}")
    card = next((g for g in seen.get("gpus", []) if g["vendor"] == "NVIDIA"), {})
    w.count("registry: the GPU and its driver", "4090" in str(card.get("name")) and "566.14" in json.dumps(card), done)
    windows = seen.get("windows") or {}
    text = json.dumps(windows)
    for what, wanted in (("the release", "Windows 11 Pro 23H2"), ("the build", "22631.4242"),
                         ("PATH", "C:\\\\Windows\\\\system32;D:\\\\x")):
        w.count(f"registry: {what}", wanted in text, text)
    w.count("registry: settings", windows.get("safe_search", {}).get("state") == "no"
            and windows.get("long_paths", {}).get("state") == "yes", windows)
    w.count("registry: variables", "C:\\\\cuda" in json.dumps(seen.get("variables")), seen.get("variables"))
    status, taken, err = w.gpumend("snapshot")
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(taken.encode()), file.flush()
        again = subprocess.run([linux, "check", "--snapshot", file.name, "--json"], capture_output=True, text=True,
                               check=False)
    held = json.loads(again.stdout or "{}").get("devices") or {}
    w.count("registry: the snapshot holds it", status == 0 and [g.get("name") for g in held.get("gpus", [])]
            == [g.get("name") for g in seen["gpus"]] and held.get("windows", {}).get("build") == windows.get("build"),
            (err, again.stderr, held))


API = """import json, gpumend
def failed(call):
    try: call()
    except gpumend.Error as error: return error.status
    return None
found = gpumend.check()
said = {"executable": gpumend.executable(), "verdict": found.verdict, "causes": [f.cause for f in found.findings],
        "classes": [f.cause_class for f in found.findings], "repairs": [r.text for f in found.findings for r in f.repairs],
        "page": gpumend.explain("dll-missing").cause,
        "log": gpumend.explain_log("OSError: [WinError 126] The specified module could not be found. Error loading "
                                   "\\"C:\\\\x\\\\torch\\\\lib\\\\fbgemm.dll\\" or one of its dependencies.").cause,
        "choose": gpumend.choose().device, "fix": failed(gpumend.fix), "undo": failed(gpumend.undo),
        "enabled": gpumend.enable().verified, "disabled": gpumend.disable(), "again": gpumend.disable()}
done = gpumend.preload()
said["preload"] = [done.ok, done.n_findings, done.error, done.left]
import ctranslate2
said["imported"] = True
print(json.dumps(said))
"""


def wheel(w):
    """The wheel for Windows: the same twice, what pip installs, and the package's calls."""
    with tempfile.TemporaryDirectory() as folder:
        made = []
        for name in ("one", "two"):
            done = subprocess.run([str(TOP / "scripts/wheel-windows"), str(w.exe), f"{folder}/{name}"],
                                  capture_output=True, text=True, check=True)
            made.append(Path(done.stdout.strip()))
        w.count("wheel: the same twice", made[0].read_bytes() == made[1].read_bytes())
        w.count("wheel: its tag", made[0].name.endswith("-py3-none-win_amd64.whl"), made[0].name)
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                               "--platform", "win_amd64", "--only-binary", ":all:", "--target", f"{folder}/there",
                               str(made[0])], capture_output=True, text=True, check=False)
        there = Path(folder) / "there"
        w.count("wheel: pip for another platform", done.returncode == 0
                and (there / "bin/gpumend.exe").read_bytes() == w.exe.read_bytes()
                and sorted(p.name for p in (there / "gpumend").glob("*.*")) == sorted(
                    [p.name for p in (TOP / "python/gpumend").glob("*.py")] + ["_version.py", "py.typed"]), done)
        (w.work / made[0].name).write_bytes(made[0].read_bytes())
    python = "C:\\Python311\\python.exe"
    (w.work / "api.py").write_text(API)
    pip, api, main_ = w.drive([
        [python, "-m", "pip", "install", "--no-index", "--no-compile", "C:\\work\\" + made[0].name],
        [python, "-B", "C:\\work\\api.py"], [python, "-B", "-m", "gpumend", "chekc"]])
    w.count("wheel: pip of Windows", pip[0] == 0 and (w.python / "Scripts/gpumend.exe").exists(), pip)
    said = json.loads(api[1] or "{}")
    wanted = {"executable": "C:\\Python311\\Scripts\\gpumend.exe", "verdict": "broken",
              "causes": ["library-not-on-path"], "page": "dll-missing", "choose": "cpu", "fix": 3, "undo": 3,
              "enabled": True, "disabled": 0, "again": None, "preload": [True, 1, None, []], "imported": True}
    for name, value in wanted.items():
        w.count(f"wheel: {name}", said.get(name, "absent") == value, (said.get(name), "" if said else api))
    w.count("wheel: explain_log", said.get("log"), said)
    w.count("wheel: python -m gpumend", main_[0] == 2 and "did you mean check" in main_[2], main_)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gpumend", type=Path)
    parser.add_argument("exe", type=Path)
    parser.add_argument("--words", type=int, default=40)
    parser.add_argument("--seed", type=int, default=seeding.fresh())
    args = parser.parse_args()
    why = wine.missing() or (winpython.unpacked() if isinstance(winpython.unpacked(), str) else None)
    if why:
        print(f"SKIP {why}\n0 passed, 0 failed, 1 skipped")
        return 0
    print(f"seed {args.seed}")
    with tempfile.TemporaryDirectory(prefix="gpumend-windows-") as folder:
        w = World(Path(folder), args.exe.resolve())
        try:
            subprocess.run(["wineserver", "-p"], env=w.wine.env, check=True)
            # What Wine starts with its first program would hold the pipes of that open.
            subprocess.run([wine.loader(), str(w.exe), "--version"], env=w.wine.env, check=True, timeout=120,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            hook(w)
            refusals(w)
            run(w, random.Random(args.seed), args.words)
            job(w)
            wheel(w)
            registry(w, args.gpumend.resolve())
        finally:
            subprocess.run(["wineserver", "-k"], env=w.wine.env, check=False)
            subprocess.run(["wineserver", "-w"], env=w.wine.env, check=False)
    print(f"{w.passed} passed, {w.failed} failed")
    return w.failed > 0


if __name__ == "__main__":
    sys.exit(main())
