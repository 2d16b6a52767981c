#!/usr/bin/env python3
"""Commands that run a program of the target run nothing that another user put there.

    tests/safety/acting.py GPUMEND

The folder that they are started in holds a module for each name that the interpreter, our scripts, pip or the package import,
a library that a relative RPATH would find, and a start-up module: each leaves a mark when it is run.
The folders of the user's cache are another's, or others may write above them: what `run` names to the
program in LD_AUDIT, LD_PRELOAD and LD_LIBRARY_PATH is then elsewhere. A tool of PATH, or an
interpreter, that others could replace is not started, nor is one that would import what they could
change, and an environment that they could swap is not changed.
"""
import grp
import itertools
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
TOP = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "mend"), str(HERE.parent / "causes")]
import cases                                                                          # noqa: E402
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


TOOL = '#!/bin/sh\necho "$0" >> "%s"\nexit 1\n'


def put_tool(folder, name, mark):
    folder.mkdir(parents=True, exist_ok=True)
    tool = folder / name
    tool.write_text(TOOL % mark)
    tool.chmod(0o755)
    return tool


def tool_folders(top, name, mark):
    """What it is called, an element of PATH with the tool, what others may change (None: nothing)."""
    for mode, case in ((0o777, "anyone"), (0o2777, "anyone, set-group-ID"), (0o755, None)):
        folder = top / f"{name}-{mode:o}"
        put_tool(folder / "bin", name, mark)
        folder.chmod(mode)
        yield case or "nobody", folder / "bin", folder if case else None
    folder = top / f"{name}-file"
    put_tool(folder, name, mark).chmod(0o777)
    yield "anyone, the file", folder, folder / name
    folder = top / f"{name}-link"
    folder.mkdir()
    (folder / name).symlink_to(top / f"{name}-777/bin/{name}")
    yield "anyone, where a link leads", folder, top / f"{name}-777"
    folder = top / f"{name}-open"
    folder.mkdir()
    (folder / name).symlink_to(put_tool(top / f"{name}-own", name, mark))
    folder.chmod(0o777)
    yield "anyone, the link", folder, folder
    if os.geteuid() == 0:
        folder = top / f"{name}-group"
        put_tool(folder, name, mark)
        os.chown(folder, -1, 12345)
        folder.chmod(0o2775)
        yield "a group", folder, folder
        folder = top / f"{name}-other"
        os.chown(put_tool(folder, name, mark), 12345, -1)
        yield "another user, the file", folder, folder / name
    sticky = top / f"{name}-sticky"
    put_tool(sticky / "bin", name, mark)
    sticky.chmod(0o1777)
    yield "nobody: sticky", sticky / "bin", None


def tool_faults(exe, w, top, name, kind):
    """A tool of PATH that others could replace is not started, and the folder is named."""
    mark = top / f"{name}-mark"
    for case, folder, named in tool_folders(top, name, mark):
        settings = ["--env", f"PATH={folder}:/usr/bin:/bin"]
        done = subprocess.run([exe, "fix", w.prefix, *settings, "--json"], cwd="/", capture_output=True,
                              text=True, timeout=60, check=False, env={"PATH": "/usr/bin:/bin"})
        number = next((str(i) for i, way in enumerate(json.loads(done.stdout)["ways"], 1)
                       if any(s["kind"] == kind for s in way["steps"])), None)
        if not number:
            yield f"{case}: no way with a step of kind {kind}: {done.stdout}{done.stderr}"
            return
        done = subprocess.run([exe, "fix", w.prefix, *settings, "--apply", "--packages", "--select",
                               number], cwd="/", capture_output=True, text=True, timeout=60,
                              check=False, env={"PATH": "/usr/bin:/bin"})
        run_it = mark.exists()
        mark.unlink(missing_ok=True)
        if run_it != (named is None):
            yield f"{case}: {'started' if run_it else 'not started'}: {done.stdout}{done.stderr}"
        said = f"could put something else there ({named}:" in done.stderr
        if named and not (said and done.returncode == 3):
            yield f"{case}: status {done.returncode}: {done.stdout}{done.stderr}"


def editor_faults(exe, w, top):
    yield from tool_faults(exe, World(exe, top / "editor"), top, "patchelf", "edit")


def installer_faults(exe, w, top):
    mine = World(exe, top / "installer")
    for path in mine.site.glob("nvidia*"):
        shutil.rmtree(path)
    yield from tool_faults(exe, mine, top, "uv", "packages")


def interpreter_faults(exe, w, top):
    """A repair is not tried out by an interpreter that others could replace."""
    mine = World(exe, top / "interpreter")
    folder = top / "interpreters"
    folder.mkdir()
    (folder / "python3.11").symlink_to(PYTHON)
    (mine.prefix / "bin/python").unlink()
    (mine.prefix / "bin/python").symlink_to(folder / "python3.11")
    folder.chmod(0o777)
    done = subprocess.run([exe, "enable", mine.prefix], cwd="/", capture_output=True, text=True,
                          timeout=60, check=False, env={"PATH": "/usr/bin:/bin"})
    said = " ".join(done.stdout.split())
    if "not verified" not in said or f"could put something else there ({folder}:" not in said:
        yield f"status {done.returncode}: {done.stdout}{done.stderr}"


def imported_cases(top):
    """What lies in an environment: its name, what makes it, and whether it is another user's."""
    def put(path, text="", mode=0o644, owner=None):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        if owner:
            os.chown(path, owner, -1)
        return path

    def named(w, mode):
        folder = top / f"named-{w.prefix.parents[2].name}"
        put(folder / "sitecustomize.py", MARKS % str(top / "imported-mark"))
        folder.chmod(mode)
        put(w.site / "names.pth", f"{folder}\n")

    def linked(w, mode):
        folder = top / f"linked-{w.prefix.parents[2].name}"
        put(folder / "away.py")
        folder.chmod(mode)
        (w.site / "away").symlink_to(folder)

    def home(w):
        folder = top / f"home-{w.prefix.parents[2].name}"
        library = folder / "lib/python3.11"
        library.mkdir(parents=True)
        for path in Path("/usr/lib/python3.11").iterdir():
            (library / path.name).symlink_to(path)
        (folder / "bin").mkdir()
        folder.chmod(0o777)
        put(w.prefix / "pyvenv.cfg", f"home = {folder}/bin\nversion = 3.11.2\n")

    code = MARKS % str(top / "imported-mark")
    line = "import os; " + code.replace("__name__", '"pth"')
    yield "a folder of one's own, by a .pth file", lambda w: named(w, 0o755), False
    yield "a folder of one's own, by a link", lambda w: linked(w, 0o755), False
    yield "a file without readers", lambda w: put(w.site / "closed.py", mode=0), False
    yield "sitecustomize.py that anyone may write", lambda w: put(w.site / "sitecustomize.py", code, 0o666), True
    yield "a module that anyone may write", lambda w: put(w.site / "ctranslate2/more.py", code, 0o666), True
    yield "a sticky folder of a package", lambda w: (w.site / "ctranslate2").chmod(0o1777), True
    yield "a folder anyone may write, by a .pth file", lambda w: named(w, 0o777), True
    yield "a folder anyone may write, by a link", lambda w: linked(w, 0o777), True
    yield "a home anyone may write", home, True
    if os.geteuid() == 0:
        yield "another's .pth file", lambda w: put(w.site / "a.pth", line, owner=12345), True
        yield "another's package", lambda w: os.chown(w.site / "ctranslate2", 12345, -1), True
        yield "another's pyvenv.cfg", lambda w: os.chown(w.prefix / "pyvenv.cfg", 12345, -1), True
        yield "a link to another's .pth file", lambda w: (w.site / "b.pth").symlink_to(
            put(top / "b.pth", line, owner=12345)), True
        yield "another's library", lambda w: os.chown(
            next(w.site.glob("ctranslate2.libs/*")), 12345, -1), True


def imported_faults(exe, w, top):
    """No interpreter is started that would import what another user could change: a repair is then
    not tried out, and packages and the plan of setup are not carried out."""
    mark = top / "imported-mark"
    for n, (case, make, is_others) in enumerate(imported_cases(top)):
        folder = top / f"imported{n}"
        folder.mkdir()
        mine = World(exe, folder)
        make(mine)
        for words in (["enable", mine.prefix], ["fix", mine.prefix, "--apply"],
                      ["setup", "ctranslate2", "--env", mine.prefix, "--apply"]):
            mark.unlink(missing_ok=True)
            if words[0] == "setup" and not is_others:
                continue  # would install packages
            done = subprocess.run([exe, *map(str, words)], cwd="/", capture_output=True, text=True,
                                  timeout=60, check=False, env={"PATH": "/usr/bin:/bin"})
            said = " ".join((done.stdout + done.stderr).split())
            refused = "is not started: another user could change what it imports (" in said
            if refused != is_others or (is_others and (done.returncode != 3 or mark.exists())):
                yield f"{case}: {words[0]}: status {done.returncode}, run {mark.exists()}: {said[-400:]}"
            if words[0] == "enable":
                mine.gpumend("disable", mine.prefix)


def package_faults(exe, w, top):
    """The Python package starts what was installed with it, and nothing of a folder above."""
    above = top / "package"
    for name, site, there in (("lib/python3.11", "env/lib/python3.11/site-packages", "env/bin"),
                              ("--home", "home/lib/python", "home/bin"),
                              ("--target", "target", "target/bin"),
                              ("a folder", "a/vendor", None), ("deeper", "a/b/vendor", None),
                              ("a checkout", "source/python", None)):
        shutil.rmtree(above, ignore_errors=True)
        shutil.copytree(TOP / "python/gpumend", above / site / "gpumend")
        (above / site / "gpumend/_version.py").write_text('__version__ = "0"\n')
        for folder in (".", "a", "source", "env", "home", "target", "env/lib", "home/lib"):
            put_tool(above / folder / "bin", "gpumend", top / "package-mark")
        done = subprocess.run([PYTHON, "-c", "import gpumend; print(gpumend.executable())"], cwd="/",
                              env={"PYTHONPATH": str(above / site), "PYTHONDONTWRITEBYTECODE": "1"},
                              capture_output=True, text=True, timeout=60, check=False)
        wanted = str(above / there / "gpumend") if there else "the executable gpumend is not there"
        if wanted not in (done.stdout if there else done.stderr):
            yield f"{name}: {done.stdout}{done.stderr.splitlines()[-1:]}"


def above_faults(exe, w, top):
    """An environment below a folder that others may write is not changed: they could swap it."""
    for mode, owner, group in ((0o777, -1, -1), (0o775, -1, 12345), (0o2775, -1, 12345),
                               (0o755, 12345, -1)):
        above = top / f"above-{mode:o}-{owner}"
        above.mkdir()
        mine = World(exe, above)
        if (owner, group) != (-1, -1):
            if os.geteuid() != 0:
                continue
            os.chown(above, owner, group)
        above.chmod(mode)
        for words in (["enable", mine.prefix], ["fix", mine.prefix, "--apply"]):
            done = subprocess.run([exe, *map(str, words)], cwd="/", capture_output=True, text=True,
                                  timeout=60, check=False, env={"PATH": "/usr/bin:/bin"})
            if done.returncode != 3 or f"another folder in its place ({above}:" not in done.stderr:
                yield f"{mode:o} {owner} {words[0]}: status {done.returncode}: {done.stderr}"
            if mine.changed():
                yield f"{mode:o} {owner} {words[0]}: changed {mine.changed()[:4]}"


def links_faults(exe, w, top):
    """`fix` prints no command that makes a folder of links, to be searched first, where another user could
    put other files."""
    folder = top / "links"
    folder.mkdir()
    built = tree.Tree(folder / "tree")
    settings = [word for name, value in cases.full_version_name_beats_preload(built, True)["env"].items()
                for word in ("--env", f"{name}={value}")]
    for name, cache, is_used in caches(folder):
        done = subprocess.run([exe, "fix", "--root", built.top, built.prefix, *settings, "--env",
                               f"XDG_CACHE_HOME={cache}"], cwd="/", text=True, capture_output=True,
                              timeout=60, check=False, env={"PATH": "/usr/bin:/bin"})
        made = re.findall(r"^ *mkdir -p (\S+)/shadow/\w+$", done.stdout, re.M)
        if made != ([str(cache.resolve() / "gpumend")] if is_used else []):
            yield f"{name}: {made}: status {done.returncode}: {done.stdout}{done.stderr}"


def setup_faults(exe, w, top):
    """`setup --apply` starts its programs in the root folder, whatever the folder of the user has: an
    interpreter with -m, and uv, take files of the folder they are started in."""
    tools, mark = top / "setup-tools", top / "setup-mark"
    for name in ("python3.11", "uv"):
        put_tool(tools, name, mark).write_text(f'#!/bin/sh\nprintf "%s\\n" "$PWD" "$@" >> "{mark}"\nexit 1\n')
    folder = top / "folder"
    for words, made in ((["--into", "new"], "new"), ([], "ctranslate2-env"), (["--into", "/proc/self/cwd/new"], "new")):
        done = subprocess.run([exe, "setup", "ctranslate2", "--python", "3.11", *words, "--apply"], cwd=folder,
                              env={"PATH": f"{tools}:/usr/bin:/bin"}, capture_output=True, text=True,
                              timeout=60, check=False)
        seen = mark.read_text(encoding="utf-8").splitlines() if mark.exists() else []
        mark.unlink(missing_ok=True)
        if seen[:1] != ["/"] or str(folder / made) not in seen:
            yield f"started with {seen}: status {done.returncode}: {done.stderr}"
        if (top / "mark").exists():
            yield f"run of the folder: {(top / 'mark').read_text()}"


def searched_faults(exe, w, top):
    """A program that looks for others itself, as uv does for interpreters, is told no folder where
    another user could put one."""
    tools, mark, own = top / "searched-tools", top / "searched-mark", top / "searched-own"
    for name in ("python3.11", "uv"):
        put_tool(tools, name, mark).write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$PATH" "$PYTHONPATH" > "{mark}"\nexit 1\n')
    own.mkdir()
    others = [top / "searched-anyone", top / "searched-sticky", top / "searched-below/bin"]
    for folder, mode in zip(others, (0o777, 0o1777, 0o755)):
        folder.mkdir(parents=True)
        folder.chmod(mode)
    others[2].parent.chmod(0o777)
    (own / "link").symlink_to(others[0])
    (top / "searched-link").symlink_to(own)
    if os.geteuid() == 0:
        others.append(top / "searched-other")
        others[-1].mkdir()
        os.chown(others[-1], 12345, -1)
    others += [own / "link", top / "not-there", "", ".", "bin"]
    value = ":".join(map(str, [*others[:3], top / "searched-link", *others[3:], tools, "/usr/bin"]))
    done = subprocess.run([exe, "setup", "ctranslate2", "--python", "3.11", "--into", top / "searched", "--apply"],
                          cwd=own, env={"PATH": value, "PYTHONPATH": value}, capture_output=True,
                          text=True, timeout=60, check=False)
    seen = mark.read_text(encoding="utf-8").splitlines() if mark.exists() else []
    if seen != [f"{own}:{tools}:/usr/bin"] * 2:
        yield f"{seen}: status {done.returncode}: {done.stderr}"


def output_faults(exe, w, top):
    """`check --sarif FILE` and `check --html FILE` write through a link of the user's own, and not
    through another's."""
    mine, folder = World(exe, top / "reported"), top / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    for option, owner in itertools.product(("--sarif", "--html"), (os.geteuid(), 12345)):
        kept, link = folder.parent / f"kept{option}-{owner}", folder / f"link{option}-{owner}"
        kept.write_text("mine", encoding="utf-8")
        link.symlink_to(kept)
        if owner != os.geteuid():
            if os.geteuid() != 0:
                continue
            os.chown(link, owner, -1, follow_symlinks=False)
        done = subprocess.run([exe, "check", option, link, mine.prefix], cwd="/", timeout=60,
                              capture_output=True, text=True, check=False)
        is_written = kept.read_text(encoding="utf-8") != "mine"
        if is_written != (owner == os.geteuid()) or (not is_written and done.returncode != 3):
            yield f"{option}, of {owner}: status {done.returncode}, written {is_written}: {done.stderr}"


def shared_faults(exe, w, top):
    """`--sarif` and `--html` leave alone what another user has put into a folder where anyone may, and
    replace the user's own file by a new one, with its mode."""
    mine, folder = World(exe, top / "shared-reports"), top / "sticky"
    folder.mkdir()
    folder.chmod(0o1777)
    mask = os.umask(0o022)
    os.umask(mask)
    for option, kind, owner in itertools.product(("--sarif", "--html"), ("file", "pipe", "new"),
                                                 (os.geteuid(), 12345)):
        path = folder / f"{kind}{option}-{owner}"
        if kind == "file":
            path.write_text("old", encoding="utf-8")
            path.chmod(0o604)
            os.link(path, folder.parent / f"second-{path.name}")
        elif kind == "pipe":
            os.mkfifo(path)
        if owner != os.geteuid():
            if os.geteuid() != 0 or kind == "new":
                continue
            os.chown(path, owner, -1)
        elif kind == "pipe":
            continue
        done = subprocess.run([exe, "check", option, path, mine.prefix], cwd="/", timeout=60,
                              capture_output=True, text=True, check=False)
        second = folder.parent / f"second-{path.name}"
        if second.exists() and second.read_text(encoding="utf-8") != "old":
            yield f"{path.name}: what another name leads to is written"
        if owner != os.geteuid() and (done.returncode != 3 or "another user" not in done.stderr):
            yield f"{path.name}: status {done.returncode}: {done.stderr}"
        if owner == os.geteuid() and path.stat().st_size < 10:
            yield f"{path.name}: not written, status {done.returncode}: {done.stderr}"
        if owner == os.geteuid() and path.stat().st_mode & 0o777 != (0o604 if kind == "file" else 0o666 & ~mask):
            yield f"{path.name}: mode {path.stat().st_mode:o}"
    if any(p.name.startswith(".") for p in folder.iterdir()):
        yield f"left over: {sorted(p.name for p in folder.iterdir())}"


def group_faults(exe, w, top):
    """What a group that is not this user's alone may write is refused, and why is said."""
    mine = World(exe, top / "groups")
    known = next(g for g in grp.getgrall() if g.gr_gid != 0)
    for group, said in ((known.gr_gid, f"group {known.gr_name} ({known.gr_gid}) may write to it, so"),
                        (54321, "group 54321 may write to it, and /etc/group does not say who is"),
                        (0, None)):
        if os.geteuid() != 0:
            return
        os.chown(mine.prefix, -1, group)
        mine.prefix.chmod(0o2775)
        done = subprocess.run([exe, "enable", mine.prefix], cwd="/", capture_output=True, text=True,
                              timeout=60, check=False, env={"PATH": "/usr/bin:/bin"})
        if done.returncode != (3 if said else 0) or (said or "") not in done.stderr:
            yield f"group {group}: status {done.returncode}: {done.stdout}{done.stderr}"
        if said and "chmod go-w" not in done.stderr:
            yield f"group {group}: what to do: {done.stderr}"


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
        for name, check in (("secrets", secret_faults), ("words", word_faults),
                            ("patchelf", editor_faults), ("uv", installer_faults),
                            ("interpreter", interpreter_faults),
                            ("imported", imported_faults), ("above", above_faults), ("setup", setup_faults),
                            ("searched", searched_faults), ("links", links_faults),
                            ("groups", group_faults), ("output", output_faults),
                            ("shared", shared_faults), ("package", package_faults)):
            faults = list(check(w.exe, w, Path(top)))
            for fault in faults:
                print(f"FAIL {name}: {fault}")
            passed, failed = passed + (not faults), failed + bool(faults)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
