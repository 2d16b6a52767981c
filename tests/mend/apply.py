#!/usr/bin/env python3
"""`fix --apply`, `--undo`, `enable` and `disable` on environments that really run.

    tests/mend/apply.py [--only PATTERN] GPUMEND

The environment is a real one of /usr/bin/python3.11 with a package "ctranslate2" of our own, whose
library opens libcublas.so.12 when it is used, as the real one does. What is applied has to make the
program work, and what is taken back has to leave the tree as it was. The rest is what is refused.
"""

import argparse
import fcntl
import fnmatch
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "causes")]
import state  # noqa: E402
import tree  # noqa: E402

PYTHON = "/usr/bin/python3.11"
PROGRAM = "import ctranslate2; print(ctranslate2.use())"
# A build for CUDA, by its section of GPU code.
CODE = '__asm__(".section .nv_fatbin,\\"a\\"\\n.long 0\\n.previous"); '
ASKS = CODE + 'void *dlopen(const char *, int); int use(void); ' \
       'int use(void) { return dlopen("libcublas.so.12", 1) != 0; }'
INIT = """import ctypes, os
here = os.path.dirname(os.path.abspath(__file__))
ctypes.CDLL(here + "/_ext.%s.so")
library = ctypes.CDLL(here + "/../ctranslate2.libs/libctranslate2-01234567.so.4")
def use():
    return library.use()
""" % tree.TAG


class Wrong(Exception):
    pass


class World:
    def __init__(self, exe, folder):
        self.exe = exe
        t = self.tree = tree.Tree(folder / "world")
        self.prefix, self.site = t.real(t.prefix), t.real(t.site)
        self.site.mkdir(parents=True)
        (self.prefix / "bin").mkdir()
        (self.prefix / "bin/python").symlink_to(PYTHON)
        (self.prefix / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n"
                                                "include-system-site-packages = false\n")
        libs = t.site + "/ctranslate2.libs"
        asking = t.put(libs + "/libctranslate2-01234567.so.4", tree.compiled(
            ASKS, "-Wl,-soname,libctranslate2-01234567.so.4"))
        t.put(t.site + "/ctranslate2/_ext.%s.so" % tree.TAG, tree.compiled(
            "int use(void); int ext(void); int ext(void) { return use(); }",
            "-Wl,--no-as-needed", "-Wl,%s" % t.real(asking), "-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/../ctranslate2.libs"))
        t.put(t.site + "/ctranslate2/__init__.py", INIT)
        t.dist("ctranslate2", "4.8.5", ["ctranslate2/__init__.py"])
        for name in ("libcublas.so.12", "libcublasLt.so.12"):
            t.put(t.cublas + "/" + name, tree.compiled("int f(void); int f(void) { return 1; }",
                                                      "-Wl,-soname," + name))
        t.dist("nvidia-cublas-cu12", "12.4.5.8", ["nvidia/cublas/lib/libcublas.so.12"])
        self.before = state.state(self.prefix)

    def gpumend(self, *args, status=0):
        done = subprocess.run([self.exe, *map(str, args)], env={"PATH": "/usr/bin:/bin"}, cwd="/",
                              capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL)
        if done.returncode != status:
            raise Wrong("%s: status %d, not %d: %s%s" % (" ".join(map(str, args)), done.returncode,
                                                       status, done.stdout, done.stderr))
        return done.stdout + done.stderr

    def apply(self, kind, *more, status=0):
        document = json.loads(self.gpumend("fix", self.prefix, "--json", status=1))
        number = next(i for i, w in enumerate(document["ways"], 1)
                      if any(s["kind"] == kind for s in w["steps"]))
        return self.gpumend("fix", self.prefix, "--apply", "--select", number, *more,
                            status=status)

    def works(self, **env):
        done = subprocess.run([self.prefix / "bin/python", "-c", PROGRAM], capture_output=True,
                              text=True, env={"PYTHONDONTWRITEBYTECODE": "1", **env}, check=False)
        return done.stdout.strip() == "1"

    def changed(self):
        return state.differences(self.before, state.state(self.prefix))


def expect(holds, what):
    if not holds:
        raise Wrong(what)


def as_before(w, what="taken back"):
    expect(not w.changed(), "%s: %s" % (what, "; ".join(w.changed()[:4])))


def mends(kind):
    def test(w):
        expect(not w.works(), "it works without a repair")
        said = w.apply(kind)
        expect("repaired" in said, "not verified: " + said)
        expect(w.works(), "it does not work with the repair")
        expect("applied" in w.gpumend("fix", w.prefix, "--list"), "not listed")
        w.gpumend("fix", w.prefix, "--undo")
        as_before(w)
        expect(not w.works(), "it works though the repair is taken back")
    return test


def expect_short(w, text):
    """One broken environment is told in 12 lines. However long the folder's name is: lines that it
    broke count once, and a command is one line."""
    whole = re.sub(r"\n {9,}", " ", text).replace(str(w.prefix), "/srv/venv")
    lines = sum(1 if " && " in line else 1 + len(line) // 101 for line in whole.splitlines())
    expect(lines <= 12, "more than 12 lines: " + text)


def advice(w):
    """What check prints at its end repairs, as it is printed: for one start, and for good."""
    text = w.gpumend("check", w.prefix, status=1)
    ends = dict(re.findall(r"^(this start|for good) +gpumend (.*)$", text, re.M))
    program = f"  (your program, such as: {w.prefix}/bin/python app.py)"
    expect(ends.get("this start") == "run -- COMMAND" + program, "for one start: " + text)
    expect_short(w, text)
    expect("because" not in text and "looked in" not in text, "evidence: " + text)
    full = w.gpumend("check", "-v", w.prefix, status=1)
    expect("  because " in full and "looked in: " in full and "this start" not in full, full)
    python = str(w.prefix / "bin/python")
    expect(w.gpumend("run", "--", python, "-c", PROGRAM).strip() == "1", "run does not repair it")
    w.gpumend(*shlex.split(ends["for good"]))
    expect(w.works(), "it is not repaired for good")
    text = w.gpumend("check", w.prefix)
    expect("this start" not in text and "for good" not in text, "advice where all is well: " + text)


def imported_when_used(w):
    """What an application imports only when it is used is imported before a request is tried."""
    for name, version in (("faster_whisper", "1.2.1"), ("torch", "2.8.0"), ("av", "16.0.1"),
                          ("transformers", "4.57.1"), ("tokenizers", "0.22.1"),
                          ("onnxruntime", "1.23.2")):
        w.tree.put("%s/%s/__init__.py" % (w.tree.site, name), "")
        w.tree.dist(name, version, [name + "/__init__.py"])
    w.tree.put(w.tree.site + "/whisperx/__init__.py",
               "def use():\n    import ctranslate2\n    return ctranslate2.use()\n")
    w.tree.dist("whisperx", "3.8.6", ["whisperx/__init__.py"])
    before = state.state(w.prefix)
    program = [w.prefix / "bin/python", "-c", "import whisperx; print(whisperx.use())"]
    def works():
        return subprocess.run(program, capture_output=True, text=True, check=False,
                              env={"PYTHONDONTWRITEBYTECODE": "1"}).stdout.strip() == "1"
    expect(not works(), "it works without a repair")
    said = w.gpumend("enable", w.prefix, "--import", "whisperx")
    expect("repaired" in said, "not verified: " + said)
    expect(works(), "it does not work with the repair")
    w.gpumend("disable", w.prefix)
    left = state.differences(before, state.state(w.prefix))
    expect(not left, "taken back: %s" % left[:4])


def no_advice(w):
    """A command of this shell does not repair another start, or what may not be changed."""
    text = w.gpumend("check", w.prefix, "--env", "A=b", status=1)
    expect("this start" not in text and "to do now  " in text, "another start: " + text)
    text = w.gpumend("check", "--root", "/", w.prefix, status=1)
    expect("for good" not in text and "to do now  " in text, "another root: " + text)
    if os.geteuid() == 0:
        w.tree.top.parent.chmod(0o755)
        done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", str(w.exe), "check",
                               str(w.prefix)], capture_output=True, text=True, check=False,
                              env={"PATH": os.defpath, "HOME": "/nonexistent"})
        expect("for good" not in done.stdout, "not the user's to change: " + done.stdout)
        expect("this start  gpumend run" in done.stdout, "nothing is changed by run: " + done.stdout)


def hook(w):
    """The hook works, leaves no bytecode, can be switched off, and fails silently."""
    expect("broken" in w.gpumend("check", w.prefix, status=1), "nothing is broken before")
    expect("repaired" in w.gpumend("enable", w.prefix), "not verified")
    expect("start-up hook of gpumend loads" in w.gpumend("check", w.prefix), "check sees no hook")
    w.gpumend("check", w.prefix, "--env", "GPUMEND_HOOK=0", status=1)
    run = [str(w.prefix / "bin/python"), "-c", PROGRAM]
    done = subprocess.run(run, capture_output=True, text=True, env={}, check=False)
    expect(done.stdout.strip() == "1", "without: " + done.stderr)
    expect(not (w.site / "__pycache__").exists(), "bytecode of the hook was written")
    shutil.rmtree(w.site / "ctranslate2/__pycache__", ignore_errors=True)
    expect(not w.works(GPUMEND_HOOK="0"), "GPUMEND_HOOK=0 does not switch it off")
    for name in ("libcublas.so.12", "libcublasLt.so.12"):
        (w.tree.real(w.tree.cublas) / name).rename(w.prefix / name)
    done = subprocess.run(run, capture_output=True, text=True, check=False,
                          env={"PYTHONDONTWRITEBYTECODE": "1"})
    expect(done.stderr == "" and done.stdout.strip() == "0", "it says something: " + done.stderr)
    done = subprocess.run(run, capture_output=True, text=True, check=False,
                          env={"PYTHONDONTWRITEBYTECODE": "1", "GPUMEND_HOOK_VERBOSE": "1"})
    expect("libcublas" in done.stderr, "GPUMEND_HOOK_VERBOSE=1 says nothing")
    for name in ("libcublas.so.12", "libcublasLt.so.12"):
        (w.prefix / name).rename(w.tree.real(w.tree.cublas) / name)
    moved = w.prefix.with_name("moved")
    w.prefix.rename(moved)
    done = subprocess.run([str(moved / "bin/python"), "-c", PROGRAM], capture_output=True, text=True,
                          env={"PYTHONDONTWRITEBYTECODE": "1"}, check=False)
    moved.rename(w.prefix)
    expect(done.stdout.strip() == "1", "not in an environment that was moved: " + done.stderr)
    w.gpumend("disable", w.prefix)
    left = [d for d in w.changed() if not d.startswith((".: ", "lib/python3.11/site-packages/nvidia/",
                                                        "lib/python3.11/site-packages/ctranslate2: "))]
    expect(not left, "disabled: " + "; ".join(left[:4]))


def hook_again(w):
    """A hook is made anew where one is; without its journal it can be replaced and removed."""
    w.gpumend("enable", w.prefix)
    w.gpumend("enable", w.prefix)
    expect(w.works(), "not after the second enable")
    w.gpumend("disable", w.prefix)
    as_before(w)
    for command in ("enable", "disable"):
        w.gpumend("enable", w.prefix)
        shutil.rmtree(w.prefix / ".gpumend")
        said = w.gpumend(command, w.prefix)
        expect((w.site / "gpumend-hook.pth").exists() == (command == "enable"), said)
    w.gpumend("enable", w.prefix)
    shutil.rmtree(w.prefix / ".gpumend")
    pth = w.site / "gpumend-hook.pth"
    pth.write_text("import mine\n")
    expect("by hand" in w.gpumend("disable", w.prefix, status=3), "another's file was removed")
    expect(pth.read_text() == "import mine\n", "it was touched")


def newer_cublas(w):
    """The release whose cuBLASLt opens NVRTC."""
    t = w.tree
    t.put(t.cublas + "/libcublas.so.12", tree.compiled(
        "int f(void); int f(void) { return 1; }", "-Wl,-soname,libcublas.so.12",
        "-Wl,--no-as-needed", "-Wl,%s" % t.real(t.cublas + "/libcublasLt.so.12"),
        "-Wl,-rpath,$ORIGIN"))
    shutil.rmtree(next(w.site.glob("nvidia*cublas*.dist-info")))
    t.dist("nvidia-cublas-cu12", "12.8.4.1", ["nvidia/cublas/lib/libcublas.so.12"])
    return t


def hook_of_what_comes(w):
    """What cuBLAS opens is not installed: the hook loads it once it is, without another repair."""
    t = newer_cublas(w)
    t.dist("ctranslate2", "4.8.5", ["ctranslate2/__init__.py"], requires=("no-such-package",))
    said = w.gpumend("check", w.prefix, status=1)
    expect_short(w, said)
    expect("\n  then      libnvrtc.so.12" in said and "\nwarning" not in said, "not one cause: " + said)
    expect("1 error, 1 warning, 1 note" in said, "not all are counted: " + said)
    expect("nvidia-cuda-nvrtc-cu12 && gpumend enable %s\n" % w.prefix in said, "not in order: " + said)
    said = w.gpumend("check", "-v", w.prefix, status=1)
    expect("\nwarning  libnvrtc.so.12" in said and "\nnote     ctranslate2 4.8.5" in said, "-v leaves it out: " + said)
    t.dist("ctranslate2", "4.8.5", ["ctranslate2/__init__.py"])
    said = w.gpumend("enable", w.prefix)
    expect("left      libnvrtc.so.12" in said, "enable does not say what is left: " + said)
    expect(w.works(), "the hook does not work without it")
    hook = (w.site / "_gpumend_hook.py").read_text()
    expect("left      libnvrtc.so.12" in w.gpumend("enable", w.prefix), "again: it does not say what is left")
    expect((w.site / "_gpumend_hook.py").read_text() == hook, "made again, the hook is another one")
    w.gpumend("disable", w.prefix)
    w.gpumend("fix", w.prefix, "--apply")
    expect((w.site / "_gpumend_hook.py").exists(), "fix takes a repair that needs another one after pip")
    w.gpumend("fix", w.prefix, "--undo")
    shown = w.gpumend("fix", w.prefix, status=1)
    hook_number = re.search(r"^(\d+) +Put a start-up hook", shown, re.MULTILINE).group(1)
    expect("carries out repair %s " % hook_number in shown, "fix names another repair: " + shown)
    w.gpumend("enable", w.prefix)
    folder = "nvidia/cuda_nvrtc/lib"
    names = ["libnvrtc.so.12", "libnvrtc-builtins.so.12.8"]
    for name in names:
        t.put("%s/%s/%s" % (t.site, folder, name), tree.compiled(
            "int g(void); int g(void) { return 1; }", "-Wl,-soname," + name,
            "-Wl,-rpath,$ORIGIN"))
    t.dist("nvidia-cuda-nvrtc-cu12", "12.8.93", [folder + "/" + name for name in names])
    said = w.gpumend("check", w.prefix)
    expect("warning" not in said, "another repair is asked for: " + said)
    shown = "import ctranslate2; print('libnvrtc' in open('/proc/self/maps').read())"
    done = subprocess.run([w.prefix / "bin/python", "-c", shown], capture_output=True, text=True,
                          env={"PYTHONDONTWRITEBYTECODE": "1"}, check=False)
    expect(done.stdout.strip() == "True", "the hook does not load it: " + done.stderr)


def hook_made_before(w):
    """The hook was made for an older cuBLAS than there is now, and NVRTC is missing: what is printed
    installs it and makes the hook again, and then nothing is left."""
    w.gpumend("enable", w.prefix)
    t = newer_cublas(w)
    wanted = "nvidia-cuda-nvrtc-cu12 && gpumend enable %s\n" % w.prefix
    for said in w.gpumend("check", w.prefix), w.gpumend("fix", w.prefix, status=1):
        expect(wanted in said and "export " not in said, "not for a hook: " + said)
    names = ["nvidia/cuda_nvrtc/lib/" + name for name in ("libnvrtc.so.12", "libnvrtc-builtins.so.12.8")]
    for name in names:
        t.put(t.site + "/" + name, tree.compiled("int g(void); int g(void) { return 1; }",
                                                 "-Wl,-soname," + Path(name).name, "-Wl,-rpath,$ORIGIN"))
    t.dist("nvidia-cuda-nvrtc-cu12", "12.8.93", names)
    w.gpumend("enable", w.prefix)
    said = w.gpumend("check", w.prefix)
    expect("warning" not in said and "to do now" not in said, "it does not end: " + said)
    expect(w.works(), "it does not work")


def nvrtc_asked_for(w):
    """cuBLAS is found by a RPATH, and what it asks for, NVRTC, is not: worth a warning alone."""
    t = w.tree
    t.put(t.site + "/ctranslate2.libs/libctranslate2-01234567.so.4", tree.compiled(
        ASKS, "-Wl,-soname,libctranslate2-01234567.so.4", "-Wl,--disable-new-dtags",
        "-Wl,-rpath,$ORIGIN/../nvidia/cublas/lib"))
    t.put(t.cublas + "/libcublas.so.12", tree.compiled(
        "int f(void); int f(void) { return 1; }", "-Wl,-soname,libcublas.so.12",
        "-Wl,--no-as-needed", "-Wl,%s" % t.real(t.cublas + "/libcublasLt.so.12"),
        "-Wl,-rpath,$ORIGIN"))
    shutil.rmtree(next(w.site.glob("nvidia*cublas*.dist-info")))
    t.dist("nvidia-cublas-cu12", "12.8.4.1", ["nvidia/cublas/lib/libcublas.so.12"])


def warnings_alone(w):
    """Where warnings are all there is, check's end says what to do as well: what it prints for a
    start and for good is true, and without such a repair it is the warning's own."""
    nvrtc_asked_for(w)
    said = w.gpumend("check", w.prefix)
    expect("(1 warning)\nto do now   Install what is missing" in said and "nvidia-cuda-nvrtc-cu12 && export"
           in said, "nothing is installed: " + said)
    folder = "nvidia/cuda_nvrtc/lib"
    names = [folder + "/libnvrtc.so.12", folder + "/libnvrtc-builtins.so.12.8"]
    for name in names:
        w.tree.put("%s/%s" % (w.tree.site, name), tree.compiled(
            "int g(void); int g(void) { return 1; }", "-Wl,-soname," + Path(name).name,
            "-Wl,-rpath,$ORIGIN"))
    w.tree.dist("nvidia-cuda-nvrtc-cu12", "12.8.93", names)
    said = w.gpumend("check", w.prefix)
    expect("this start  gpumend run -- COMMAND" in said, "no repair of a start: " + said)
    expect("for good    gpumend enable %s\n" % w.prefix in said, "none for good: " + said)
    shown = "import ctranslate2, os; ctranslate2.use(); print(os.environ['LD_LIBRARY_PATH'])"
    said = w.gpumend("run", "--", w.prefix / "bin/python", "-c", shown)
    expect(said == str(w.site / folder) + "\n", "run does nothing: " + said)
    w.gpumend("enable", w.prefix)
    expect("warning" not in w.gpumend("check", w.prefix), "the hook leaves the warning")


def nothing_to_take_back(w):
    said = w.gpumend("fix", w.prefix, "--undo", status=3)
    expect(str(w.prefix) in said, "it does not name the target: " + said)
    said = w.gpumend("fix", w.prefix, "--undo", "7", status=2)
    expect("gpumend fix %s --list" % w.prefix in said, "no command with the target: " + said)


def printed_edit(w):
    """The printed line changes a copy: another name of the file keeps what it had."""
    document = json.loads(w.gpumend("fix", w.prefix, "--json", status=1))
    steps = [s for way in document["ways"] for s in way["steps"] if s["kind"] == "edit"]
    expect(steps, "no way edits a file")
    other = w.prefix.parent / "cache"
    os.link(steps[0]["file"], other)
    before = other.read_bytes()
    subprocess.run(["sh", "-ec", steps[0]["command"]], check=True)
    expect(other.read_bytes() == before, "the other name was written through")
    expect(Path(steps[0]["file"]).read_bytes() != before, "nothing was changed")
    expect(not list(Path(steps[0]["file"]).parent.glob("*.gpumend-new")), "the copy was left")


def does_not_help(w):
    """What does not help is taken back: here the library cannot be loaded, which no model sees."""
    library = w.tree.real(w.tree.cublas) / "libcublas.so.12"
    library.write_bytes(tree.compiled(
        "int g(void); __attribute__((constructor)) static void c(void) { __builtin_trap(); }"
        "int f(void); int f(void) { return 1; }", "-Wl,-soname,libcublas.so.12"))
    w.before = state.state(w.prefix)
    said = w.apply("link", status=1)
    expect("failed" in said and "as it was before" in said, said)
    as_before(w)


def own_knowledge(w):
    """Areas of --kb are read when a rule asks for them; one that cannot be used is named at once."""
    folder = w.prefix.parent / "kb"
    folder.mkdir()
    shutil.copy2(HERE.parent.parent / "kb/toolkits.json", folder)
    same = w.gpumend("fix", w.prefix, status=1)
    said = w.gpumend("fix", w.prefix, "--kb", folder, status=1)
    expect([line for line in said.splitlines() if "gpumend" not in line]
           == [line for line in same.splitlines() if "gpumend" not in line], said)
    (folder / "toolkits.json").write_text("{")
    for command in "fix", "check":
        said = w.gpumend(command, w.prefix, "--kb", folder, status=3)
        expect(str(folder / "toolkits.json") in said, said)


def children_are_ignored(w):
    """A parent may have left SIGCHLD ignored: a child then has no status to wait for."""
    ignoring = "trap '' CHLD; exec \"$@\""
    done = subprocess.run(["/bin/bash", "-c", ignoring, "sh", w.exe, "fix", w.prefix, "--apply"],
                          env={"PATH": "/usr/bin:/bin"}, cwd="/", capture_output=True, text=True,
                          timeout=60, stdin=subprocess.DEVNULL)
    expect(done.returncode == 0 and "repaired" in done.stdout, done.stdout + done.stderr)
    expect(w.works(), "it does not work")


def changed_by_others(w):
    w.apply("link")
    link = next(p for p in w.site.rglob("libcublas.so.12") if p.is_symlink())
    link.unlink()
    link.write_text("mine")
    said = w.gpumend("fix", w.prefix, "--undo", status=3)
    expect("changed by others" in said and "libcublas.so.12" in said, said)
    expect(link.read_text() == "mine", "it was touched")
    w.gpumend("fix", w.prefix, "--list")


def one_of_several_changed(w):
    """Whichever file is not ours any more, nothing is undone: not the others either."""
    w.gpumend("enable", w.prefix)
    ours = [p for p in w.site.iterdir() if "gpumend" in p.name and p.is_file()]
    expect(len(ours) > 1, "few files: %s" % ours)
    for path in ours:
        path.rename(w.prefix / "kept")
        path.write_text("mine")
        before = state.state(w.prefix)
        said = w.gpumend("fix", w.prefix, "--undo", status=3)
        expect("changed by others" in said and path.name in said, said)
        changed = state.differences(before, state.state(w.prefix))
        expect(not changed, "%s: it was touched: %s" % (path.name, "; ".join(changed[:4])))
        (w.prefix / "kept").rename(path)


def last_first(w):
    """Two repairs; the first cannot go before the second where both changed the same."""
    w.apply("link")
    w.gpumend("fix", w.prefix, "--undo", "1")
    as_before(w)
    w.gpumend("enable", w.prefix)
    w.gpumend("fix", w.prefix, "--undo", "7", status=2)
    w.gpumend("disable", w.prefix)
    as_before(w)
    expect("there is no start-up hook in" in w.gpumend("disable", w.prefix), "disabled twice")


def leaves_the_environment(w):
    """A folder of the environment that is a link to another place."""
    libs = w.site / "ctranslate2.libs"
    outside = w.prefix.parent / "outside"
    libs.rename(outside)
    libs.symlink_to(outside)
    before = state.state(outside)
    document = json.loads(w.gpumend("fix", w.prefix, "--json", status=1))
    for number, way in enumerate(document["ways"], 1):
        if any(s["kind"] in ("link", "edit") for s in way["steps"]):
            w.gpumend("fix", w.prefix, "--apply", "--select", number, status=3)
            expect(not state.differences(before, state.state(outside)), "it was written outside")


def world_writable(w):
    for folder in (w.site, w.site / "ctranslate2.libs"):
        folder.chmod(0o777)
    w.before = state.state(w.prefix)
    expect("anyone may write" in w.apply("link", status=3), "not refused")
    expect("anyone may write" in w.gpumend("enable", w.prefix, status=3), "not refused")
    said = w.gpumend("check", w.prefix, status=1)
    expect("gpumend run" in said and "for good" not in said, "check advises what is refused: " + said)
    expect("anyone may write" in w.gpumend("fix", w.prefix, "--apply", status=3), "another reason is named")
    said = re.sub(r"\s+", " ", w.gpumend("fix", w.prefix, status=1))
    expect("carries out nothing here" in said and "anyone may write" in said and "carries out repair" not in said,
           "fix names what --apply refuses: " + said)
    as_before(w, "refused")


def others_may_write(w):
    """A group, a sticky folder: refused, and nothing is written or removed."""
    for mode in (0o1777, 0o2777) + ((0o775,) if os.geteuid() == 0 else ()):
        w.site.chmod(mode & 0o7777)
        if mode == 0o775:
            os.chown(w.site, -1, 12345)
        w.before = state.state(w.prefix)
        said = w.gpumend("enable", w.prefix, status=3)
        expect("may write to it" in said and "chmod go-w" in said, "%o: %s" % (mode, said))
        as_before(w, "refused")


def others_by_acl(w):
    """Entries of version 2: the owner, user 12345, the group, the mask, others."""
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, perm, who) for tag, perm, who in (
        (1, 7, 0xffffffff), (2, 7, 12345), (4, 5, 0xffffffff), (16, 7, 0xffffffff),
        (32, 5, 0xffffffff)))
    try:
        os.setxattr(w.site, "system.posix_acl_access", acl)
    except OSError:
        return "SKIP"
    w.before = state.state(w.prefix)
    said = w.gpumend("enable", w.prefix, status=3)
    expect("lets user 12345 write" in said, said)
    as_before(w, "refused")
    return None


def left_by_another(w):
    """Nothing of another's folder is swept before its owner is known."""
    if os.geteuid() != 0:
        return "SKIP"
    top = w.prefix / ".gpumend"
    (top / "journal/gone-1").mkdir(parents=True)
    (top / "journal/gone-1/kept").write_text("x")
    for path in (top, top / "journal", top / "journal/gone-1"):
        os.chown(path, 12345, 12345)
    w.before = state.state(w.prefix)
    for command in (["enable", w.prefix], ["fix", "--undo", w.prefix], ["disable", w.prefix]):
        expect("belongs to user 12345" in w.gpumend(*command, status=3), "not refused")
        as_before(w, "refused")
    return None


def of_another(w):
    if os.geteuid() != 0:
        return "SKIP"
    os.chown(w.site, 12345, 12345)
    w.before = state.state(w.prefix)
    expect("belongs to user 12345" in w.gpumend("enable", w.prefix, status=3), "not refused")
    as_before(w, "refused")
    return None


def two_at_once(w):
    fd = os.open(w.prefix, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    expect("another gpumend" in w.gpumend("enable", w.prefix, status=3), "not refused")
    os.close(fd)
    as_before(w, "refused")


REWRITES = """#!/bin/sh
cd "$(dirname "$4")"
: > new
printf other >> small
printf other | dd of=large conv=notrunc bs=1 seek=100 2>/dev/null
cd ../lib/python*/site-packages
for file in own.pth ctranslate2-*.dist-info/RECORD; do
    printf other >> "$file"
done
%s
"""


def rewritten_in_place(w):
    """A large file has a second name in the journal and no copy: what an installer wrote into it is lost.
    That is said at once, and after a kill by the undo; the rest is as before, also what installers write
    into: scripts, .pth files, what is recorded of a package."""
    for path in w.site.glob("nvidia*"):
        shutil.rmtree(path)
    large, small = w.prefix / "bin/large", w.prefix / "bin/small"
    large.write_bytes(bytes(2 << 20))
    small.write_text("small")
    (w.site / "own.pth").write_text("# own\n")
    times = large.stat()
    uv = w.prefix.parent / "uv/uv"
    uv.parent.mkdir()
    env = "PATH=%s:/usr/bin:/bin" % uv.parent
    document = json.loads(w.gpumend("fix", w.prefix, "--env", env, "--json", status=1))
    number = next(i for i, way in enumerate(document["ways"], 1)
                  if any(s["kind"] == "packages" for s in way["steps"]))
    for end, status in ("exit 0", 3), ("exit 1", 3), ("kill -9 $PPID", -9):
        w.before = state.state(w.prefix)
        uv.write_text(REWRITES % end)
        uv.chmod(0o755)
        said = w.gpumend("fix", w.prefix, "--env", env, "--apply", "--packages", "--select", number,
                         status=status)
        said = w.gpumend("fix", w.prefix, "--undo", status=3) if status < 0 else said
        expect("except for bin/large: an installer had rewritten it in place" in said, end + ": " + said)
        expect(end != "exit 0" or "the installer rewrote bin/large in place" in said, said)
        lost = w.changed()
        expect(len(lost) == 1 and lost[0].startswith("bin/large: "), "%s: %s" % (end, lost))
        expect("nothing was applied" in w.gpumend("fix", w.prefix, "--undo", status=3), end)
        with open(large, "r+b") as file:
            file.write(bytes(200))
        os.utime(large, ns=(times.st_atime_ns, times.st_mtime_ns))


def damaged_journal(w):
    """Nothing is done with a journal that is damaged; cut at the end it is taken back."""
    w.apply("link")
    log = w.prefix / ".gpumend/journal/1/log"
    good, applied = log.read_bytes(), state.state(w.prefix)
    applied = {k: v for k, v in applied.items() if not k.startswith(".gpumend")}
    for at in range(0, len(good) - 200, 37):
        log.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1:])
        expect("damaged" in w.gpumend("fix", w.prefix, "--list"), "byte %d: not seen" % at)
        w.gpumend("fix", w.prefix, "--undo", status=3)
    now = {k: v for k, v in state.state(w.prefix).items() if not k.startswith(".gpumend")}
    expect(not state.differences(applied, now), "something was done")
    log.write_bytes(good[:-20])
    w.gpumend("fix", w.prefix, "--undo")
    as_before(w)


TESTS = {"advice": advice, "no-advice": no_advice, "links": mends("link"), "edit": mends("edit"), "hook": hook, "hook-again": hook_again,
         "hook-of-what-comes": hook_of_what_comes, "hook-made-before": hook_made_before,
         "warnings-alone": warnings_alone,
         "nothing-to-take-back": nothing_to_take_back, "edit-as-printed": printed_edit,
         "does-not-help": does_not_help, "children-are-ignored": children_are_ignored,
         "own-knowledge": own_knowledge,
         "changed-by-others": changed_by_others,
         "one-of-several-changed": one_of_several_changed,
         "last-first": last_first, "leaves-the-environment": leaves_the_environment,
         "world-writable": world_writable, "of-another": of_another,
         "others-may-write": others_may_write, "others-by-acl": others_by_acl,
         "left-by-another": left_by_another, "two-at-once": two_at_once,
         "damaged-journal": damaged_journal, "rewritten-in-place": rewritten_in_place, "imported-when-used": imported_when_used}


def needs(name):
    if not os.path.exists(PYTHON):
        return PYTHON + " is not there"
    if name.startswith("edit") and not shutil.which("patchelf"):
        return "patchelf is not installed"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exe", metavar="GPUMEND")
    parser.add_argument("--only", action="append", metavar="PATTERN")
    args = parser.parse_args()
    passed = failed = skipped = 0
    for name, test in TESTS.items():
        if args.only and not any(fnmatch.fnmatch(name, p) for p in args.only):
            continue
        why = needs(name)
        with tempfile.TemporaryDirectory(prefix="gpumend-apply-") as folder:
            try:
                if why or test(World(os.path.abspath(args.exe), Path(folder))) == "SKIP":
                    skipped += 1
                    print("SKIP %s: %s" % (name, why or "needs root"))
                    continue
                passed += 1
            except Exception as fault:  # a broken test is a failure, the others go on
                failed += 1
                print("FAIL %s: %s: %s" % (name, type(fault).__name__, fault), flush=True)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
