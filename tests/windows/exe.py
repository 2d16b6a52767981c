#!/usr/bin/python3
"""gpumend.exe under Wine prints, byte for byte, what gpumend for Linux prints.

    tests/windows/exe.py GPUMEND GPUMEND_EXE [--count N]

Compares status, standard output and standard error of the commands that need nothing of the system:
--version, help, the knowledge base, the pages of causes, N logs of tests/explain/corpus
(by a fresh seed, which is printed), names and texts beyond ASCII, wrong usage, and of the trees of
check.py. Then what only Windows
has: its own paths, no DLLs but the system's, the notices of what it contains (--licenses), and one
plain sentence for each absent command.
"""

import argparse
import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[1]))
import check  # noqa: E402
import seeding  # noqa: E402

TOP = Path(__file__).resolve().parent.parent.parent
SYSTEM = {"ADVAPI32.dll", "KERNEL32.dll", "SHELL32.dll", "msvcrt.dll"}
# What Wine says itself, now and then, whatever WINEDEBUG is; gpumend's own lines begin otherwise.
WINES_OWN = re.compile(rb"^(?:wine(?:server)?:|wine client error:|[0-9a-f]{4}:[a-z]+:).*\n", re.M)
ABSENT = ["container", "export", "fleet", "needs", "mcp"]


class Two:
    """The two executables, in one folder and with one environment."""

    def __init__(self, linux, windows, folder):
        self.commands = {"linux": [linux], "windows": ["wine", windows]}
        self.folder, self.counts = folder, {"passed": 0, "failed": 0}
        self.env = {**os.environ, "WINEPREFIX": str(folder / "prefix"), "WINEDEBUG": "-all",
                    "WINEDLLOVERRIDES": "mscoree,mshtml=", "LC_ALL": "C.UTF-8"}

    def run(self, which, *words, text=None):
        """Into files: services of Wine that were started meanwhile would hold a pipe open."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, \
                tempfile.TemporaryFile() as given:
            given.write(text or b"")
            given.seek(0)
            status = subprocess.run([*self.commands[which], *words], cwd=self.folder, stdin=given,
                                    stdout=out, stderr=err, timeout=300, check=False,
                                    env=self.env).returncode
            out.seek(0)
            err.seek(0)
            errors = err.read()
            return status, out.read(), WINES_OWN.sub(b"", errors) if which == "windows" else errors

    def count(self, name, fault):
        self.counts["failed" if fault else "passed"] += 1
        if fault:
            print(f"FAIL {name}: {fault}")

    def same(self, *words, text=None, status=None):
        one, two = (self.run(which, *words, text=text) for which in ("linux", "windows"))
        fault = next((f"{part}: {a!r:.600} on Linux, {b!r:.600} on Windows" for part, a, b in
                      zip(("status", "output", "errors"), one, two) if a != b), None)
        if not fault and status is not None and one[0] != status:
            fault = f"status {one[0]} on both, and not {status}"
        self.count(" ".join(words), fault)


def the_same(two, count, seed):
    for words in (["--version"], ["kb", "--help"], ["explain", "--help"],
                  ["kb", "--forms"], ["kb", "--forms", "--json"], ["kb", "--keys"], ["kb", "lint"],
                  ["explain", "--list"], ["explain", "--list", "--json"]):
        two.same(*words, status=0)
    for words in (["chekc"], ["kb"], ["kb", "--jsn"], ["explain", "dll-mising"],
                  ["explain", "--limit", "x", "-"], ["kb", "x", "--with", "y"]):
        two.same(*words, status=2)
    # Not compared: `explain` alone, which asks what standard input is. Wine does not say so of a file that
    # it was given by another system (GetFileInformationByHandle(): invalid handle).
    forms = two.run("linux", "kb", "--forms")[1].decode().splitlines()
    causes = [c["cause"] for c in json.loads(two.run("linux", "explain", "--list", "--json")[1])["causes"]]
    for form in forms[::4]:
        two.same("kb", *form.split())
        two.same("kb", form, "--json")
    for cause in seed.sample(causes, 5):
        two.same("explain", cause, status=0)
    logs = [json.loads(line) for path in sorted(glob.glob(str(TOP / "tests/explain/corpus/*.jsonl")))
            for line in Path(path).read_text(encoding="utf-8").splitlines()]
    for log in seed.sample(logs, count):
        two.same("explain", "-", "--all", text=log["log"].encode())
        two.same("explain", "-", "--json", text=log["log"].encode())


def beyond_ascii(two):
    text = "OSError: [WinError 126] Das Modul „ctranslate2.dll“ wurde nicht gefunden: C:\\Ünï\\日本\\😀"
    for name in ("log.txt", "Prüfung ü.txt", "日本語 😀.log"):
        (two.folder / name).write_bytes(text.encode() + b"\r\nCUDA error: out of memory\r\n")
        two.same("explain", name)
        two.same("explain", "./" + name, "--json")
    two.same("explain", "log.txt", "日本語 😀.log")
    two.same("explain", "--", text)
    two.same("kb", "frage nach cuBLAS für ☃", status=3)
    two.same("explain", "./nicht da 日本", status=3)


def own_notices(two):
    """The works in this executable, and none that only the other one has."""
    components = json.loads((TOP / "LICENSES/components.json").read_text(encoding="utf-8"))["components"]
    status, text, _ = two.run("windows", "--licenses")
    listed = set(re.findall(r"^    (\S+) +\S.* https://", text.decode(), re.MULTILINE))
    wanted = {c["name"] for c in components if c.get("system") != "linux"}
    two.count("--licenses", None if status == 0 and listed == wanted and b"ZPL-2.1" in text
              else f"status {status}, lists {sorted(listed)}, and not {sorted(wanted)}")


def trees(two, seed):
    """check, fix, why and explain of Windows trees, and snapshots that the other executable reads."""
    sample = seed.sample(check.CASES, 12)
    for number, (name, make, target, status, *_) in enumerate(check.CASES):
        if make is check.unreadable_program:
            continue  # a dangling link, which Wine does not list
        tree = two.folder / f"tree {number}"
        tree.mkdir()
        make(tree)
        if any(p.is_symlink() and (os.readlink(p).startswith("/") or p.is_dir()) for p in tree.rglob("*")):
            continue  # Wine follows a link to a folder itself, and does not say that it is one
        words = [*([target] if target else []), "--root", tree.name]
        two.same("check", *words, "--json", status=status)
        if (name, make) not in [(c[0], c[1]) for c in sample]:
            continue
        two.same("check", *words, status=status)
        two.same("fix", *words)
        two.same("fix", *words, "--json")
        two.same("check", *words, "--html", "-")
        two.same("explain", "--root", tree.name, "--", "Library cublas64_12.dll is not found or cannot be loaded")
        real = two.run("linux", "check", *words, "--json")
        for one, other in (("windows", "linux"), ("linux", "windows")):
            taken = two.run(one, "snapshot", *words)
            again = two.run(other, "check", "--snapshot", "-", "--json", text=taken[1])
            two.count(f"{name}: a snapshot of {one} for {other}",
                      None if taken[0] == 0 and again[:2] == real[:2] else (taken[2], again[0], again[2]))


def of_this_machine(two):
    """Without --root the drives are those of the running system, and variables the process's."""
    python = Path(two.env["WINEPREFIX"]) / "drive_c/Python312"
    check.python(python.parent)
    check.ctranslate2(python.parent)
    status, out, err = two.run("windows", "check", "--json")
    found = [e["path"] for e in json.loads(out or b"{}").get("environments", [])]
    two.count("check of this machine", None if status == 3 and found == ["C:\\Python312"]
              else (status, found, err))
    (python / "Lib/site-packages/ctranslate2/libiomp5md.dll").unlink()
    status, out, err = two.run("windows", "check", "C:\\Python312")
    two.count("check of a folder", None if status == 1 and b"libiomp5md.dll, which" in out else (status, out, err))
    status, out, err = two.run("windows", "why", str(Path("C:/Python312/Lib/site-packages/ctranslate2/ctranslate2.dll")),
                               "--exe", "C:\\Python312\\python.exe")
    two.count("why of this machine", None if status == 1 and b"libiomp5md.dll" in out else (status, out, err))
    text = "ImportError: DLL load failed while importing _ext: The specified module could not be found."
    status, out, err = two.run("windows", "explain", "--here", "--", text)
    two.count("explain --here", None if status == 1 and b"libiomp5md.dll, which" in out else (status, out, err))


def windows_alone(two, exe):
    for absent in ABSENT:
        status, out, err = two.run("windows", absent)
        wanted = f"gpumend: {absent} is not available on Windows; gpumend for Linux has it\n"
        two.count(absent, None if (status, out, err.decode()) == (3, b"", wanted)
                  else (status, out, err))
    drive = "Z:" + str(two.folder / "日本語 😀.log").replace("/", "\\")
    same = two.run("linux", "explain", "日本語 😀.log")
    two.count("a path with a drive", None if two.run("windows", "explain", drive) == same else drive)
    dump = subprocess.run(["x86_64-w64-mingw32-objdump", "-p", exe], capture_output=True, text=True,
                          check=True).stdout
    found = set(re.findall(r"DLL Name: (\S+)", dump))
    two.count("imported DLLs", None if found and found <= SYSTEM else sorted(found - SYSTEM))
    header = exe.read_bytes()[:4096]
    stamp = header[int.from_bytes(header[60:64], "little") + 8:][:4]
    two.count("the time of the link, which no two builds share", None if stamp == bytes(4) else stamp)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gpumend", type=Path)
    parser.add_argument("exe", type=Path)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=seeding.fresh())
    args = parser.parse_args()
    if not shutil.which("wine"):
        print("SKIP no Wine\n0 passed, 0 failed, 1 skipped")
        return 0
    print(f"seed {args.seed}")
    with tempfile.TemporaryDirectory(prefix="gpumend-windows-") as folder:
        two = Two(args.gpumend.resolve(), args.exe.resolve(), Path(folder))
        try:
            Path(two.env["WINEPREFIX"]).mkdir()
            subprocess.run(["wineserver", "-p"], env=two.env, check=True)
            two.run("windows", "--version")  # makes the prefix, and says so
            the_same(two, args.count, random.Random(args.seed))
            beyond_ascii(two)
            own_notices(two)
            windows_alone(two, args.exe)
            of_this_machine(two)
            trees(two, random.Random(args.seed))
        finally:
            subprocess.run(["wineserver", "-k"], env=two.env, check=False)
            subprocess.run(["wineserver", "-w"], env=two.env, check=False)
    print(f"{two.counts['passed']} passed, {two.counts['failed']} failed")
    return two.counts["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
