#!/usr/bin/python3
"""`setup --apply` and `--undo`, without network: the environment's pip is one that writes a package.

    tests/setup/apply.py GPUMEND

`python3.N -m venv` is a wrapper that makes a real environment, whose pip installs each `NAME==VERSION`
as a module of that name. Checked: the new environment, its journal and document; that undo leaves
nothing; a failing pip; a kill in the middle, which check tells and the next --apply takes back; a
folder with other content; an environment that is named, and its tree before and after.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCHEMA = HERE.parent.parent / "docs/json/act.schema.json"
VERSION = f"3.{sys.version_info[1]}"
PIP = """import glob, os, shutil, sys, time
if os.environ.get("FAKE_PIP") == "fails":
    sys.exit("ERROR: no such release")
site = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for word in sys.argv[2:]:
    if "==" not in word:
        continue
    name, version = word.split("[")[0].split("==")[0], word.split("==")[1]
    module = name.replace("-", "_")
    for old in glob.glob(os.path.join(site, module)) + glob.glob(os.path.join(site, module + "-*")):
        shutil.rmtree(old)  # as pip: nothing is written in place
    for folder, file, text in ((module, "__init__.py", os.environ.get("FAKE_MODULE", "")),
                               (f"{module}-{version}.dist-info", "METADATA",
                                f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")):
        os.makedirs(os.path.join(site, folder), exist_ok=True)
        with open(os.path.join(site, folder, file), "w", encoding="utf-8") as out:
            out.write(text)
    if os.environ.get("FAKE_PIP") == "hangs":
        time.sleep(60)
"""
WRAPPER = """#!/bin/sh
# As `python -m venv FOLDER`, with a pip of the test's own.
"{python}" -m venv --without-pip "$3" || exit
mkdir -p "$3/lib/python{version}/site-packages/pip-1.dist-info"
cp -r "{pip}" "$3/lib/python{version}/site-packages/pip"
printf 'Metadata-Version: 2.1\\nName: pip\\nVersion: 1\\n' \\
    > "$3/lib/python{version}/site-packages/pip-1.dist-info/METADATA"
"""


class World:
    def __init__(self, exe, top):
        self.exe, self.top, self.folder = exe, top, top / "a b" / "here"
        self.folder.mkdir(parents=True)
        for path, text in (("pip/__main__.py", PIP), ("pip/__init__.py", ""),
                           (f"bin/python{VERSION}", WRAPPER.format(
                               python=sys._base_executable, version=VERSION, pip=top / "pip"))):
            (top / path).parent.mkdir(exist_ok=True)
            (top / path).write_text(text)
        (top / f"bin/python{VERSION}").chmod(0o755)
        (top / "bin/python3").symlink_to(sys._base_executable)
        self.env = {"PATH": f"{top / 'bin'}:/usr/bin:/bin", "HOME": str(top),
                    "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self, *words, **env):
        return subprocess.Popen([str(self.exe), *map(str, words)], cwd=self.folder,
                                env={**self.env, **env}, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *words, **env):
        process = self.start(*words, **env)
        out, errors = process.communicate(timeout=120)
        return process.returncode, out, errors


def changes(before, after):
    return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))


def tree(folder):
    return {str(p.relative_to(folder)): (p.lstat().st_mode, p.lstat().st_mtime_ns,
                                         p.read_bytes() if p.is_file() and not p.is_symlink() else None)
            for p in sorted(folder.rglob("*"))}


def expect(what, have, want):
    if have != want:
        yield f"{what}: {have!r} instead of {want!r}"


def made(w):
    status, out, errors = w.run("setup", "ctranslate2", "--apply", "--json", "--into", "new env")
    try:
        document = json.loads(out)
    except ValueError:
        yield f"no document: {out}{errors}"
        return
    try:
        import jsonschema
        schema = json.loads(SCHEMA.read_text())
        schema["oneOf"][0]["properties"]["probe"] = {"type": "null"}  # else in another file
        yield from (e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(document))
    except ImportError:
        print("note: without jsonschema the schema is not checked")
    yield from expect("status", status, 0)
    for key, value in (("did", "apply"), ("result", "verified"), ("taken_back", False),
                       ("left", []), ("folder", str(w.folder / "new env"))):
        yield from expect(key, document[key], value)
    env = w.folder / "new env"
    done = subprocess.run([env / "bin/python", "-c", "import ctranslate2"], check=False)
    yield from expect("the real import", done.returncode, 0)
    status, out, errors = w.run("setup", "ctranslate2", "--env", "new env", "--json")
    document = json.loads(out)
    yield from expect("what changes", {p["change"] for p in document["environment"]["packages"]}, {"keep"})
    yield from expect("others", document["environment"]["others"], 1)
    status, out, errors = w.run("setup", "ctranslate2", "--apply", "--into", "new env")
    if status != 3 or "not empty" not in errors:
        yield f"a second time: status {status}: {errors}"
    yield from expect("undo", w.run("setup", "ctranslate2", "--undo", "--into", "new env")[0], 0)
    yield from expect("what undo leaves", list(w.folder.iterdir()), [])


def failing(w):
    status, out, errors = w.run("setup", "ctranslate2", "--apply", "--json", FAKE_PIP="fails")
    if status != 3 or "no such release" not in errors or out:
        yield f"status {status}: {out}{errors}"
    yield from expect("what is left", list(w.folder.iterdir()), [])
    status, out, errors = w.run("setup", "ctranslate2", "--apply", FAKE_MODULE="import os; os.abort()")
    if status != 1 or "It was undone" not in out:
        yield f"an import that crashes: status {status}: {out}{errors}"
    yield from expect("what a crash leaves", list(w.folder.iterdir()), [])


def killed(w):
    env = w.folder / "ctranslate2-env"
    process = w.start("setup", "ctranslate2", "--apply", FAKE_PIP="hangs")
    deadline = time.monotonic() + 60
    while not list(env.glob("lib/*/site-packages/ctranslate2")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    status, out, _ = w.run("check", env, "--json")
    causes = [f["cause"] for f in json.loads(out)["findings"]]
    yield from expect("what check finds", (status, "repair-interrupted" in causes), (1, True))
    # Before the environment can be looked at as one.
    (env / "pyvenv.cfg").unlink()
    shutil.rmtree(env / "bin")
    status, _, errors = w.run("check", env)
    if status != 3 or "setup --apply began" not in errors:
        yield f"check of half an environment: status {status}: {errors}"
    status, out, errors = w.run("setup", "ctranslate2", "--apply")
    yield from expect("again", (status, errors[-300:] if status else ""), (0, ""))
    yield from expect("undo", w.run("setup", "ctranslate2", "--undo")[0], 0)
    yield from expect("what is left", list(w.folder.iterdir()), [])


def other_content(w):
    folder = w.folder / "ctranslate2-env"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    before = tree(w.folder)
    status, _, errors = w.run("setup", "ctranslate2", "--apply")
    if status != 3 or "not empty" not in errors:
        yield f"a folder with other content: status {status}: {errors}"
    yield from expect("the folder", changes(before, tree(w.folder)), [])


def named(w):
    env = w.folder / ".venv"
    subprocess.run([w.top / f"bin/python{VERSION}", "-m", "venv", env], check=True)
    subprocess.run([env / "bin/python", "-m", "pip", "install", "ctranslate2==1.0"], check=True,
                   env=w.env)
    before = tree(env)
    status, _, errors = w.run("setup", "ctranslate2", "--apply")
    if status != 2 or "--env" not in errors:
        yield f"an environment that was only found: status {status}: {errors}"
    yield from expect("its tree", changes(before, tree(env)), [])
    status, out, errors = w.run("setup", "ctranslate2", "--apply", "--env", ".venv")
    if status or "changed" not in out:
        yield f"an environment that is named: status {status}: {out}{errors}"
    yield from expect("undo", w.run("setup", "ctranslate2", "--undo", "--env", ".venv")[0], 0)
    yield from expect("the tree after undo", changes(before, tree(env)), [])


def compared(w):
    env = w.folder / ".venv"
    subprocess.run([w.top / f"bin/python{VERSION}", "-m", "venv", env], check=True)
    subprocess.run([env / "bin/python", "-m", "pip", "install", "faster-whisper==1.2.1",
                    "ctranslate2==4.6.0", "numpy==1.2"], check=True, env=w.env)
    site = next(env.glob("lib/*/site-packages"))
    (site / "mine-1.0.dist-info").mkdir()
    (site / "mine-1.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\nRequires-Dist: numpy<1.3\n")
    status, out, errors = w.run("setup", "faster-whisper", "--for", "cpu-linux", "--env", ".venv", "--json")
    document = json.loads(out or "{}")
    there = document.get("environment") or {}
    changes = {p["package"]: p["change"] for p in there.get("packages", [])}
    yield from expect("changes", (status, changes), (0, {
        "faster-whisper": "keep", "ctranslate2": "keep", "onnxruntime": "add", "numpy": "change"}))
    yield from expect("what breaks", (len(there.get("breaks", [])), there.get("breaks_more")), (1, 0))
    for i in range(21):
        (site / f"mine{i}-1.0.dist-info").mkdir()
        (site / f"mine{i}-1.0.dist-info/METADATA").write_text(
            f"Metadata-Version: 2.1\nName: mine{i}\nVersion: 1.0\nRequires-Dist: numpy<1.3\n")
    more = ("setup", "faster-whisper", "--for", "cpu-linux", "--env", ".venv")
    many = json.loads(w.run(*more, "--json")[1] or "{}").get("environment") or {}
    yield from expect("that more breaks", (len(many.get("breaks", [])), many.get("breaks_more")), (20, 2))
    yield from expect("the same in the text", "breaks  2 more" in w.run(*more)[1], True)
    commands = [c for s in document.get("steps", []) if s["kind"] == "packages" for c in s["commands"]]
    if len(commands) != 1 or "numpy==" not in commands[0] or "ctranslate2" in commands[0]:
        yield f"commands: {commands}"
    for words, found in ((["--env", ".venv"], True), (["--into", "other"], False)):
        status, out, _ = w.run("setup", "faster-whisper", *words, "--for", "cpu-linux")
        yield from expect(f"{words} has the comparison", "beside the plan" in out, found)
    status, out, _ = w.run("setup", "ctranslate2", "--script", "sh")
    yield from expect("a script for an environment that is only found", ".venv" in out, False)
    yield from expect("the text", ".venv" in w.run("setup", "ctranslate2")[1], True)
    status, out, _ = w.run("snapshot")
    (w.folder / "machine.json").write_text(out)
    status, out, errors = w.run("setup", "faster-whisper", "--snapshot", "machine.json")
    if "the machine of machine.json" not in out:
        yield f"from a snapshot: status {status}: {out[:200]}{errors}"


def main():
    exe, bad = Path(sys.argv[1]).resolve(), 0
    tests = (made, failing, killed, other_content, named, compared)
    for test in tests:
        with tempfile.TemporaryDirectory(prefix="gpumend setup ") as top:
            faults = list(test(World(exe, Path(top).resolve())))
        bad += bool(faults)
        for fault in faults:
            print(f"{test.__name__}: {fault}")
    print(f"{len(tests) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
