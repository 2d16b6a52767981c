#!/usr/bin/env python3
"""A repair by packages that is killed, with the environment's own pip at work.

    tests/mend/killed.py [--moments N] [--show] GPUMEND

A virtual environment has a package (made here, of a few hundred files) one file of which is gone.
`fix --apply --packages` has pip install it again from a local folder, and is killed (SIGKILL) at N
moments that are spread over the time that this takes: the whole session, or gpumend alone, so
that pip goes on. Afterwards either nothing has begun, or it has ended, or `check` and `fix` name the
journal first and neither calls anything fine; `fix --undo` then makes the environment what it was.

Without the journal (somebody removed .gpumend), and for packages whose metadata went without their
files or the reverse, `check` must not say "ok" either.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "causes")]
import state  # noqa: E402
import tree  # noqa: E402
from apply import ASKS, INIT, Wrong, expect  # noqa: E402

FILLERS = 300
TAG = "cpython-%d%d-x86_64-linux-gnu" % sys.version_info[:2]
LIBRARY = "ctranslate2.libs/libctranslate2-01234567.so.4"
SITE = "lib/python%d.%d/site-packages" % sys.version_info[:2]


def files_of_ctranslate2(folder):
    """{path in the wheel: bytes}"""
    library = folder / Path(LIBRARY).name
    library.write_bytes(tree.compiled(ASKS, "-Wl,-soname,libctranslate2-01234567.so.4",
                                      "-Wl,-rpath,$ORIGIN/../nvidia/cublas/lib"))
    extension = tree.compiled("int use(void); int ext(void); int ext(void) { return use(); }",
                              "-Wl,--no-as-needed", "-Wl,%s" % library, "-Wl,--disable-new-dtags",
                              "-Wl,-rpath,$ORIGIN/../ctranslate2.libs")
    files = {"ctranslate2/specs/part%03d.py" % i: b"value = %d\n" % i for i in range(FILLERS)}
    return {**files, LIBRARY: library.read_bytes(), "ctranslate2/_ext.%s.so" % TAG: extension,
            "ctranslate2/__init__.py": INIT.replace(tree.TAG, TAG).encode()}


def files_of_cublas():
    return {"nvidia/cublas/lib/" + name: tree.compiled("int f(void); int f(void) { return 1; }",
                                                       "-Wl,-soname," + name)
            for name in ("libcublas.so.12", "libcublasLt.so.12")}


def make_wheel(folder, name, version, files):
    stem = "%s-%s" % (name.replace("-", "_"), version)
    info = stem + ".dist-info/"
    files = {**files, info + "METADATA": b"Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (
        name.encode(), version.encode()),
        info + "WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = "".join("%s,,%d\n" % (p, len(d)) for p, d in files.items()) + info + "RECORD,,\n"
    with zipfile.ZipFile(folder / (stem + "-py3-none-any.whl"), "w") as wheel:
        for path, data in {**files, info + "RECORD": record.encode()}.items():
            wheel.writestr(path, data)


class Stage:
    """An environment that is broken, and the wheels that mend it."""

    def __init__(self, exe, folder):
        self.exe, self.folder = exe, folder
        self.wheels, self.env = folder / "wheels", folder / "env"
        self.wheels.mkdir()
        make_wheel(self.wheels, "ctranslate2", "4.8.5", files_of_ctranslate2(folder))
        make_wheel(self.wheels, "nvidia-cublas-cu12", "12.4.5.8", files_of_cublas())
        self.variables = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PIP_NO_INDEX": "1",
                          "PIP_FIND_LINKS": str(self.wheels), "PIP_NO_CACHE_DIR": "1"}
        subprocess.run([sys.executable, "-m", "venv", str(self.env)], check=True,
                       capture_output=True, env=self.variables)
        self.site = self.env / SITE
        self.pip("install", "ctranslate2", "nvidia-cublas-cu12")
        (self.site / "ctranslate2/__init__.py").unlink()
        self.before = self.now()

    def pip(self, *words):
        subprocess.run([str(self.env / "bin/python"), "-m", "pip", *words], check=True,
                       capture_output=True, env=self.variables)

    def now(self):
        return {k: v for k, v in state.state(self.env).items() if not k.startswith(".gpumend")}

    def gpumend(self, *words):
        done = subprocess.run([self.exe, *words], capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, env=self.variables, cwd="/")
        return done.returncode, done.stdout + done.stderr

    def document(self, command):
        status, said = self.gpumend(command, str(self.env), "--json")
        return status, json.loads(said)

    def start(self):
        return subprocess.Popen([self.exe, "fix", str(self.env), "--apply", "--packages"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, env=self.variables, cwd="/",
                                start_new_session=True)

    def works(self):
        done = subprocess.run([str(self.env / "bin/python"), "-c", "import ctranslate2; "
                               "print(ctranslate2.use())"], capture_output=True, text=True,
                              env={"PYTHONDONTWRITEBYTECODE": "1"})
        return done.stdout.strip() == "1"

    def journal(self):
        """The kinds of records of the journal; empty: there is none."""
        logs = sorted(self.env.glob(".gpumend*/journal/*/log"))
        return [line.split()[1] for line in logs[0].read_text().splitlines()
                if len(line.split()) > 1] if logs else []


def end_of(pid):
    """Waits until no process of the session is left."""
    for _ in range(600):
        left = [p for p in Path("/proc").glob("[0-9]*/stat")
                if re.search(r"\) [^Z] \d+ \d+ %d " % pid, read(p))]
        if not left:
            return
        time.sleep(0.1)
    raise Wrong("its children do not end")


def read(path):
    try:
        return path.read_text()
    except OSError:
        return ""


def kill(stage, after_s, alone):
    """Starts the repair and kills it; returns the records of the journal that is then there."""
    child = stage.start()
    time.sleep(after_s)
    if alone:
        child.kill()
    else:
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    end_of(child.pid)
    return stage.journal()


def judge_begun(stage):
    """A journal that has not ended: it is named first, and nothing is called fine."""
    status, document = stage.document("check")
    first = document["findings"][0] if document["findings"] else {"cause": None}
    expect((status, document["verdict"], first["cause"]) == (1, "broken", "repair-interrupted"),
           "check: status %d, %s, first %s" % (status, document["verdict"], first["cause"]))
    status, text = stage.gpumend("check", str(stage.env))
    errors = re.findall(r"^error +(.*)", text, re.M)
    expect(errors and "was begun" in errors[0] and not re.search(r"^(ok|fine)\b", text, re.M), text)
    status, document = stage.document("fix")
    commands = [s["command"] for w in document["ways"] for s in w["steps"]]
    expect(status == 1 and commands and commands[0].endswith("--undo"),
           "fix: status %d, %r" % (status, commands))
    status, text = stage.gpumend("fix", str(stage.env))
    expect("was begun" in text.split("error", 1)[-1][:200] and "\nok" not in text, text)


def judge_without_journal(stage):
    """The same files, with .gpumend gone: a package that is half there is not fine."""
    shutil.rmtree(stage.env / ".gpumend")
    status, document = stage.document("check")
    expect((status, document["verdict"]) != (0, "ok") or stage.works(),
           "without the journal it is ok, and it does not work")


def moment(stage, after_s, alone):
    """One kill; returns what was met."""
    records = kill(stage, after_s, alone)
    begun = bool(records) and "applied" not in records
    if begun:
        judge_begun(stage)
        copy = stage.folder / "copy"
        shutil.copytree(stage.env, copy, symlinks=True)
        kept, stage.env = stage.env, copy
        judge_without_journal(stage)
        stage.env = kept
        shutil.rmtree(copy)
    elif not records:
        expect(stage.document("check")[1]["verdict"] == "broken", "not begun, and it is fine")
    else:
        expect(stage.works() and stage.document("check")[1]["verdict"] == "ok", "applied, not fine")
    if records or list(stage.env.glob(".gpumend*")):  # the folder comes before its first record
        status, text = stage.gpumend("fix", str(stage.env), "--undo")
        expect(status == (0 if records else 3), "--undo: status %d: %s" % (status, text))
    changed = state.differences(stage.before, stage.now())
    expect(not changed, "not as before: " + "; ".join(changed[:4]))
    expect(not (stage.env / ".gpumend").exists(), ".gpumend is left")
    return "begun" if begun else "applied" if records else "not begun"


def measure(stage):
    """How long the whole repair takes, in seconds; it is taken back again."""
    started = time.monotonic()
    child = stage.start()
    child.wait()
    took = time.monotonic() - started
    expect(child.returncode == 0 and stage.works(), "the repair itself fails")
    expect(stage.gpumend("fix", str(stage.env), "--undo")[0] == 0, "cannot be taken back")
    return took


def moments(stage, n, show):
    took = measure(stage)
    for i in range(n):
        after_s, alone = took * (i + 0.5) / n, i % 3 == 2
        name = "killed after %.2f s of %.2f%s" % (after_s, took, ", gpumend alone" if alone else "")
        try:
            met, why = moment(stage, after_s, alone), None
        except Wrong as error:
            met, why = None, str(error)
            stage = fresh(stage)
        if show:
            print("  %s: %s" % (name, met), flush=True)
        yield name, why


def fresh(stage):
    shutil.rmtree(stage.folder)
    stage.folder.mkdir()
    return Stage(stage.exe, stage.folder)


# ---- halves of packages, without a journal -------------------------------------------------------

def metadata_gone(stage):
    for info in stage.site.glob("ctranslate2-*.dist-info"):
        shutil.rmtree(info)


def metadata_empty(stage):
    for info in stage.site.glob("ctranslate2-*.dist-info"):
        for path in info.iterdir():
            path.unlink()


def files_gone(stage):
    for name in ("ctranslate2", "ctranslate2.libs"):
        shutil.rmtree(stage.site / name)


def library_gone(stage):
    metadata_gone(stage)
    (stage.site / LIBRARY).unlink()


def module_gone(stage):
    shutil.rmtree(stage.site / "ctranslate2")


def record_gone(stage):
    for info in stage.site.glob("ctranslate2-*.dist-info"):
        (info / "RECORD").unlink()
    (stage.site / LIBRARY).unlink()


HALVES = {"metadata-gone": (metadata_gone, {"unknown", "broken"}),
          "metadata-empty": (metadata_empty, {"unknown", "broken"}),
          "metadata-and-library-gone": (library_gone, {"unknown", "broken"}),
          "files-gone": (files_gone, {"broken"}), "module-gone": (module_gone, {"broken"}),
          "record-and-library-gone": (record_gone, {"broken"})}


def husk(stage):
    """A .dist-info of which an uninstaller left a file is no release beside the one that is there."""
    stage.pip("install", "--force-reinstall", "--no-deps", "ctranslate2")
    left = stage.site / "ctranslate2-4.5.0.dist-info"
    left.mkdir()
    (left / "INSTALLER").write_text("pip\n")
    status, document = stage.document("check")
    expect((status, document["verdict"]) == (0, "ok"), document["verdict"])
    known = {p["name"]: p["version"] for p in document["python"]["packages"]}
    expect(known.get("ctranslate2") == "4.8.5", "it is %r" % known)
    shutil.rmtree(left)


def half(stage, change, verdicts):
    stage.pip("install", "--force-reinstall", "--no-deps", "ctranslate2")
    expect(stage.document("check")[1]["verdict"] == "ok", "whole, and not ok")
    change(stage)
    status, document = stage.document("check")
    expect(document["verdict"] in verdicts and status != 0,
           "verdict %s, status %d" % (document["verdict"], status))
    text = json.dumps(document["findings"] + document["notes"])
    expect("ctranslate2" in text, "it is not named: " + text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exe", metavar="GPUMEND")
    parser.add_argument("--moments", type=int, default=6)
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="gpumend-killed-") as folder:
        place = Path(folder) / "stage"
        place.mkdir()
        try:
            stage = Stage(os.path.abspath(args.exe), place)
        except (subprocess.SubprocessError, OSError) as error:
            print("SKIP: no virtual environment with pip can be made: %s" % error)
            print("0 passed, 0 failed, 1 skipped")
            return 0
        for name, why in moments(stage, args.moments, args.show):
            results.append((name, why))
        stage = fresh(stage)
        tests = {name: lambda w=wants: half(stage, *w) for name, wants in HALVES.items()}
        for name, test in {"husk": lambda: husk(stage), **tests}.items():
            try:
                test()
                results.append((name, None))
            except Wrong as error:
                results.append((name, str(error)))
    failed = [(name, why) for name, why in results if why]
    for name, why in failed:
        print("FAIL %s: %s" % (name, why))
    print("%d passed, %d failed, 0 skipped" % (len(results) - len(failed), len(failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
