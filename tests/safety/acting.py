#!/usr/bin/env python3
"""Commands that run a program of the target run nothing that another user put there.

    tests/safety/acting.py GPUMEND

The folder that they are started in holds a module for each name that the interpreter, our scripts, pip or the package import,
a library that a relative RPATH would find, and a start-up module: each leaves a mark when it is run.
The folders of the user's cache are another's, or others may write above them: what `run` names to the
program in LD_AUDIT, LD_PRELOAD and LD_LIBRARY_PATH is then elsewhere.
"""
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "mend"), str(HERE.parent / "causes")]
import tree                                                                           # noqa: E402
from apply import PYTHON, World                                                       # noqa: E402

MODULES = ("json", "os", "re", "fnmatch", "ctypes", "mmap", "ctranslate2", "numpy", "pip",
           "sitecustomize", "usercustomize", "encodings", "site")
MARKS = 'open(%r, "a").write(__name__ + "\\n")\n'
LIBRARY = ('#include <fcntl.h>\n#include <unistd.h>\n__attribute__((constructor)) static void run(void)'
           '{int fd = open("%s", O_CREAT | O_WRONLY | O_APPEND, 0644);'
           ' if (write(fd, "library\\n", 8) < 0) _exit(3);}')


def hostile_folder(folder, mark):
    folder.mkdir()
    for name in MODULES:
        (folder / f"{name}.py").write_text(MARKS % str(mark))
    libraries = folder / "ctranslate2.libs"
    libraries.mkdir()
    (libraries / "libcublas.so.12").write_bytes(
        tree.compiled(LIBRARY % mark, "-Wl,-soname,libcublas.so.12"))
    return folder


def commands(w):
    yield "enable", [w.prefix], 0
    yield "disable", [w.prefix], 0
    yield "fix", ["--apply", w.prefix], 0
    yield "fix", ["--undo", w.prefix], 0
    yield "probe", [w.prefix, "--python", "all"], None
    yield "check", [w.prefix, "--probe"], None
    yield "choose", [w.prefix], None


def run(exe, w, words, status, folder, mark):
    done = subprocess.run([exe, *map(str, words)], cwd=folder, env={"PATH": "/usr/bin:/bin"},
                          capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                          check=False)
    if status is not None and done.returncode != status:
        yield f"status {done.returncode}: {done.stdout}{done.stderr}"
    if mark.exists():
        yield f"run of the folder: {sorted(set(mark.read_text().split()))}"
        mark.unlink()


def others_may_replace(path):
    """The folder on the way to the file by which another user could put something else there."""
    for folder in [path, *path.parents]:
        st = folder.lstat()
        if stat.S_ISLNK(st.st_mode) or st.st_uid not in (0, os.geteuid()):
            return folder
        if folder != path and st.st_mode & 0o022 and not st.st_mode & stat.S_ISVTX:
            return folder
    return None


def caches(top):
    """Name, XDG_CACHE_HOME, whether it is to be used."""
    anyone, group, own = top / "anyone", top / "group", top / "own"
    for folder, mode in ((anyone, 0o777), (group, 0o775), (own, 0o755)):
        folder.mkdir()
        folder.chmod(mode)
    (anyone / "mine").mkdir(mode=0o700)
    (anyone / "link").symlink_to(own)
    (own / "link").symlink_to(top / "own2")
    (top / "own2").mkdir(mode=0o700)
    yield "own", own, True
    yield "own, by a link of one's own", own / "link", True
    yield "in a folder anyone may write", anyone, False
    yield "below one anyone may write", anyone / "mine", False
    yield "missing below one anyone may write", anyone / "new/er", False
    yield "own now, by a link that others may change: by its own name", anyone / "link", True
    if os.geteuid() == 0:  # a group that is this user's alone is none of others
        os.chown(group, -1, 12345)
        yield "in a folder of a group", group, False
        other = top / "other"
        other.mkdir(mode=0o755)
        os.chown(other, 12345, 12345)
        yield "another user's", other, False


PRINT = ("import json, os; "
         "print(json.dumps([os.environ.get('LD_' + n, '') for n in ('AUDIT', 'PRELOAD', 'LIBRARY_PATH')]))")


def cache_faults(exe, w, cache, is_used):
    done = subprocess.run([exe, "run", "--trace", "--",
                           w.prefix / "bin/python", "-c", PRINT], cwd="/", capture_output=True,
                          text=True, timeout=60, check=False,
                          env={"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(cache)})
    if done.returncode or not done.stdout.startswith("["):
        yield f"status {done.returncode}: {done.stdout}{done.stderr}"
        return
    audit, *others = json.loads(done.stdout.splitlines()[0])
    if not audit:
        yield f"no helper: {done.stderr}"
    for path in ":".join([audit, *others]).split(":"):
        bad = path and not path.startswith(str(w.prefix)) and others_may_replace(Path(path))
        if bad:
            yield f"{path}: {bad} is another's to change"
    if audit.startswith(str(cache.resolve())) != is_used:
        yield f"the helper is {audit}"
    if ("another user could change" in done.stderr) == is_used:
        yield f"said: {done.stderr}"
    if not is_used and any(p.name == "gpumend" for p in cache.rglob("*")):
        yield "something was made there"


SECRET = "nvapi-0123456789abcdef"


def secret_faults(exe, w, top):
    """What is kept of a start holds no variable but those of a list of names."""
    cache = top / "secret-cache"
    cache.mkdir(mode=0o700)
    names = ("NVIDIA_API_KEY", "CUDA_TOKEN", "PYTHONSECRET", "CONDA_AUTH", "HF_TOKEN", "LD_KEY")
    for hook, expected in (("", "1"), ("0", "1")):
        done = subprocess.run([exe, "run", "--", w.prefix / "bin/python", "-c",
                               "import ctranslate2; print(ctranslate2.use())"], cwd="/",
                              capture_output=True, text=True, timeout=60, check=False,
                              env={"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(cache),
                                   "GPUMEND_HOOK": hook, **{name: SECRET for name in names}})
        if done.stdout.strip() != expected:
            yield f"GPUMEND_HOOK={hook}: {done.stdout}{done.stderr}"
    plans = [p for p in cache.rglob("*") if p.is_file() and "plans" in p.parts]
    if not plans:
        yield "no plan was kept"
    for path in plans:
        if SECRET.encode() in path.read_bytes():
            yield f"{path.name} holds a secret"


def word_faults(exe, w, top):
    """A path in a printed command is one word in bash, and in a sh without $'...' does nothing."""
    prefix = top / "x\x1b'; touch PWN; #\u202e"
    prefix.mkdir(mode=0o755)
    w.prefix.rename(prefix / "env")
    folder = top / "words"
    folder.mkdir()
    done = subprocess.run([exe, "check", prefix / "env"], capture_output=True, text=True, cwd=folder,
                          env={"PATH": "/usr/bin:/bin"}, timeout=60, check=False)
    found = re.search(r"^for good +gpumend enable (.*)$", done.stdout, re.M)
    if not found:
        yield f"no command: {done.stdout}{done.stderr}"
        return
    for shell in ("bash", "dash", "sh"):
        if shutil.which(shell):
            got = subprocess.run([shell, "-c", "printf %s " + found[1]], cwd=folder, check=False,
                                 capture_output=True, text=True, timeout=60)
            if shell == "bash" and got.stdout != str(prefix / "env"):
                yield f"{shell}: {got.stdout!r}{got.stderr}"
            if any(folder.iterdir()):
                yield f"{shell}: run: {list(folder.iterdir())}"
                return


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if not Path(PYTHON).exists():
        print(f"SKIP {PYTHON} is not there\n0 passed, 0 failed, 1 skipped")
        return 0
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="gpumend-acting.") as top:
        mark = Path(top) / "mark"
        folder = hostile_folder(Path(top) / "folder", mark)
        w = World(str(Path(sys.argv[1]).resolve()), Path(top))
        for command, words, status in commands(w):
            faults = list(run(w.exe, w, [command, *words], status, folder, mark))
            for fault in faults:
                print(f"FAIL {command}: {fault}")
            passed, failed = passed + (not faults), failed + bool(faults)
        os.umask(0o022)
        time.sleep(2.5)  # what has just changed is not kept
        for name, cache, is_used in caches(Path(top)):
            faults = list(cache_faults(w.exe, w, cache, is_used))
            for fault in faults:
                print(f"FAIL a cache {name}: {fault}")
            passed, failed = passed + (not faults), failed + bool(faults)
        for name, check in (("secrets", secret_faults), ("words", word_faults)):
            faults = list(check(w.exe, w, Path(top)))
            for fault in faults:
                print(f"FAIL {name}: {fault}")
            passed, failed = passed + (not faults), failed + bool(faults)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
