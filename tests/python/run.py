#!/usr/bin/env python3
"""The Python package: what each call does, in virtual environments made here.

    tests/python/run.py [--only PATTERN] [--no-pip] [GPUMEND]

The package is laid into the environments as an installer lays it: python/gpumend in site-packages, the
executable in bin. Their ctranslate2 is the small one of tests/mend/launcher.py, which opens
libcublas.so.12 as the real one does and does not find it. Every other Python of this machine that
the package is for runs the same tests. The last three fetch tools with pip: mypy looks at the types,
the sources are installed, and a wheel is built and used (skipped by name where the tools cannot be
had; --no-pip leaves them out).
"""

import argparse
import fnmatch
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path[:0] = [str(TOP / "tests/mend"), str(TOP / "tests/scenarios")]
import launcher                                                                     # noqa: E402
import state                                                                        # noqa: E402
import store                                                                        # noqa: E402
from launcher import Skip, Wrong, expect, expect_in                                 # noqa: E402

launcher.PYTHON = sys.executable
launcher.LIMIT_S = 300         # mypy and pip take their time on a busy machine
VERSIONS = range(9, 16)        # CPython 3.N: from requires-python on
TESTS = []
LIMIT_S = 600


def test(function):
    TESTS.append(function)
    return function


def version():
    return re.search(r"version : '([^']+)'", (TOP / "meson.build").read_text()).group(1)


def lay(exe, site, programs):
    """The package as an installer lays it."""
    package = pathlib.Path(site) / "gpumend"
    shutil.copytree(TOP / "python/gpumend", package, ignore=shutil.ignore_patterns("*.in", "__pycache__"))
    text = (TOP / "python/gpumend/_version.py.in").read_text()
    (package / "_version.py").write_text(text.replace("@VERSION@", version()))
    os.makedirs(programs, exist_ok=True)
    shutil.copy2(exe, pathlib.Path(programs) / "gpumend")


class Env(launcher.Env):
    """With the package laid into it, or without."""

    def __init__(self, w, with_cublas=True, laid=True):
        super().__init__(w, w.top / "venv", with_cublas)
        self.exe = self.dir / "bin/gpumend"
        if laid:
            lay(w.exe, self.site, self.dir / "bin")

    def python_runs(self, code, *words, python=(), **more):
        """Runs code in the environment; ret what it printed."""
        more.setdefault("cwd", self.w.top)
        env = {**self.w.env, "PYTHONDONTWRITEBYTECODE": "1", **more.pop("env", {})}
        done = subprocess.run([str(self.python), *python, "-c", code, *map(str, words)], env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=launcher.LIMIT_S, **more)
        expect((done.returncode, done.stderr), (0, ""), "status of %r" % code)
        return done.stdout

    def told(self, code, *words, **more):
        """The value that `code` leaves in `x`."""
        return json.loads(self.python_runs(
            "import gpumend, json\n%s\nprint(json.dumps(x))" % code, *words, **more))


# What preload() says, as a value that JSON can carry.
SAID = """
def said(p):
    return [[(l.path, l.state, l.says) for l in p.libraries], p.n_findings, list(p.left), p.error, p.ok]
"""
ONE = "libcublas.so.12"


# ---- preload ---------------------------------------------------------------------------------------

@test
def preload_mends(w):
    e = Env(w)
    expect(e.python_runs(launcher.PROGRAM), "not found\n", "plainly")
    expect(e.python_runs("import gpumend; gpumend.preload()\n" + launcher.PROGRAM), "found\n",
           "with preload()")
    expect(e.python_runs("import gpumend; gpumend.preload(['ctranslate2'], strict=True)\n"
                         + launcher.PROGRAM), "found\n", "with imports named")
    said = e.told(SAID + "x = said(gpumend.preload())")
    expect(said, [[[str(e.cublas / ONE), "loaded", None]], 1, [], None, True], "what it says")


@test
def second_call_finds_all_there(w):
    e = Env(w)
    said = e.told(SAID + "gpumend.preload()\nx = said(gpumend.preload(strict=True))")
    expect(said, [[[str(e.cublas / ONE), "was-loaded", None]], 1, [], None, True], "second call")
    said = e.told(SAID + "import threading\nx = []\n"
                  "t = [threading.Thread(target=lambda: x.append(said(gpumend.preload()))) for _ in '1234']\n"
                  "[a.start() for a in t]\n[a.join() for a in t]")
    expect(sorted(s[0][0][1] for s in said), ["loaded"] + 3 * ["was-loaded"], "four threads")


@test
def nothing_to_mend(w):
    e = Env(w)
    code = SAID + "x = said(gpumend.preload(strict=True))"
    healthy = e.told(code, env={"LD_LIBRARY_PATH": str(e.cublas)})
    expect(healthy, [[], 0, [], None, True], "where it is found already")
    shutil.rmtree(e.site / "ctranslate2-4.8.5.dist-info")
    shutil.rmtree(e.site / "ctranslate2")
    expect(e.told(code), [[], 0, [], None, True], "where no GPU package is installed")


@test
def too_late(w):
    e = Env(w)
    other = w.cc("int version = 99;", w.top / "other.so", "-shared", "-fPIC", "-Wl,-soname," + ONE)
    said = e.told(SAID + "import ctypes, sys\nctypes.CDLL(sys.argv[1])\nx = said(gpumend.preload())", other)
    expect(said, [[[str(e.cublas / ONE), "other-loaded", str(other)]], 1, [], None, False], "what it says")
    text = e.told("import ctypes, sys\nctypes.CDLL(sys.argv[1])\n"
                  "try:\n    gpumend.preload(strict=True)\nexcept gpumend.Error as error:\n    x = str(error)",
                  other)
    expect_in("%s was loaded before" % other, text, "strict")


@test
def refused_by_the_loader(w):
    """The file is another than when the plan was made."""
    e = Env(w)
    bad = w.top / "bad.so"
    bad.write_text("no library\n")
    said = e.told(SAID + "import sys\nfrom gpumend import _preload\nx = said(_preload._perform({"
                  "'findings': [], 'cannot': [], 'ways': [{'reach': 'start', 'mends': [], 'steps': [{"
                  "'kind': 'preload', 'paths': [sys.argv[1]], 'sonames': [None]}]}]}))", bad)
    expect([said[0][0][1], said[4]], ["not-loaded", False], "state")
    expect_in("bad.so", said[0][0][2], "the loader's words")


@test
def what_loading_cannot_mend(w):
    e = Env(w, with_cublas=False)
    libraries, findings, left, error, ok = e.told(SAID + "x = said(gpumend.preload())")
    expect((libraries, findings, error, ok), ([], 1, None, False), "what it says")
    expect_in(ONE, left[0], "what is left")
    expect(e.told("try:\n    gpumend.preload(strict=True)\nexcept gpumend.Error as error:\n    x = str(error)"),
           "; ".join(left), "strict")


@test
def variables_of_the_start_count(w):
    e = Env(w)
    code = SAID + "import os\n%s\nx = said(gpumend.preload())"
    later = e.told(code % "os.environ['LD_LIBRARY_PATH'] = %r" % str(e.cublas))
    expect(later[0][0][1], "loaded", "set after the start: the loader does not see it")
    gone = e.told(code % "del os.environ['LD_LIBRARY_PATH']", env={"LD_LIBRARY_PATH": str(e.cublas)})
    expect(gone[0], [], "taken away after the start: the loader has it all the same")
    titled = e.told(code % "import ctypes\nf = open('/proc/self/stat').read().rsplit(')', 1)[1].split()\n"
                    "ctypes.memmove(int(f[47]), b'a title' + bytes(200), 207)",
                    env={"LD_LIBRARY_PATH": str(e.cublas), "A": "x" * 300})
    expect(titled[0], [], "overwritten by a title: those of now count")


@test
def failure_does_not_stop_the_program(w):
    e = Env(w)
    e.exe.unlink()
    libraries, _, _, error, ok = e.told(SAID + "x = said(gpumend.preload())")
    expect((libraries, ok), ([], False), "without the executable")
    expect_in(str(e.exe), error, "where it was looked for")
    for call in ("preload(strict=True)", "check()", "choose()", "explain('library-missing')", "enable()",
                 "executable()"):
        text = e.told("try:\n    gpumend.%s\nexcept gpumend.Error as error:\n    x = str(error)" % call)
        expect_in("the executable gpumend is not there", text, call)
    for text in ("", "\x7fELF", "#!/bin/sh\necho not JSON\n", "#!/bin/sh\nkill -9 $$\n"):
        e.exe.write_text(text)
        e.exe.chmod(0o755)
        expect(bool(e.told(SAID + "x = said(gpumend.preload())")[3]), True, "as executable: %r" % text)


@test
def where_no_status_can_be_had(w):
    e = Env(w)
    expect(e.python_runs("import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
                         "import gpumend; gpumend.preload(strict=True)\n" + launcher.PROGRAM), "found\n",
           "SIGCHLD is ignored")


@test
def preload_imports_little(w):
    e = Env(w)
    heavy = e.told("import sys\ngpumend.preload()\nx = sorted(sys.modules)")
    found = {"dataclasses", "inspect", "typing", "asyncio", "logging", "importlib.metadata", "tempfile",
             "gpumend._ask"} & set(heavy) - set(json.loads(e.python_runs(
                 "import json, subprocess, sys; print(json.dumps(sorted(sys.modules)))")))
    expect(found, set(), "imported beyond json, subprocess and ctypes")


@test
def plan_for_a_process(w):
    """`fix --in-process`, from which preload() has what it loads: one step, the sonames beside the paths."""
    e = Env(w)
    done = w.plain(e.exe, "fix", e.python, "--in-process", "--json")
    document = json.loads(done.stdout)
    expect((done.returncode, len(document["ways"])), (1, 1), "status, ways")
    step, = document["ways"][0]["steps"]
    expect((step["kind"], step["paths"], step["sonames"]), ("preload", [str(e.cublas / ONE)], [ONE]), "step")
    for other in ("--apply", "--undo", "--list"):
        expect(w.plain(e.exe, "fix", e.python, "--in-process", other).returncode, 2, other)


# ---- the other calls -------------------------------------------------------------------------------

@test
def check_is_what_the_command_says(w):
    e = Env(w)
    done = w.plain(e.exe, "check", e.python, "--json")
    expect(e.told("x = gpumend.check().document"), json.loads(done.stdout), "the document")
    x = e.told("r = gpumend.check()\nf = r.findings[0]\nx = [r.verdict, r.ok, len(r.findings), f.cause, "
               "f.severity, f.cause_class, f.summary, f.repairs[0].command, list(f.evidence), f.scripts]")
    f = json.loads(done.stdout)["findings"][0]
    expect(x, ["broken", False, 1, "library-not-on-path", "error", f["class"], f["summary"],
               f["repairs"][0]["command"], f["evidence"], f["scripts"]], "the finding")
    expect(e.told("import os, sys\nx = [gpumend.check(target=sys.argv[1]).verdict, "
                  "gpumend.check(imports=['numpy']).verdict, gpumend.check(pid=os.getpid()).verdict, "
                  "gpumend.check(root='/').document['target']['root']]", e.dir)[0], "broken", "a target")
    for call, text in (("check('/nowhere')", "/nowhere"), ("check('-x')", "-x"),
                       ("check('a\\0b')", "null"), ("check(pid=2**22 + 1)", "4194305")):
        got = e.told("try:\n    gpumend.%s\nexcept gpumend.Error as error:\n    x = str(error)" % call)
        expect_in(text, got, call)


@test
def choose_is_what_the_command_says(w):
    e = Env(w)
    done = w.plain(e.exe, "choose", e.python, "--model", "whisper:tiny", "--json")
    d = json.loads(done.stdout)
    x = e.told("c = gpumend.choose('whisper:tiny')\nx = {k: getattr(c, k) for k in ("
               "'verdict', 'device', 'index', 'argument', 'compute_type', 'threads', 'fallback', 'reason', "
               "'exports', 'required_bytes')}")
    expect(x, {k: d[k] for k in x}, "the choice")
    needed = e.told("x = gpumend.choose(app='torch', memory_gib=1.5).required_bytes")
    expect(needed, 3 << 29, "memory_gib")
    gpu = e.told("c = gpumend.choose(require_gpu=True)\nx = [c.device, c.verdict]")
    if d["device"] == "cpu":
        expect(gpu, [None, "broken"], "require_gpu without a GPU")
    for call in ("choose('whisper:none')", "choose(app='nothing')"):
        got = e.told("try:\n    gpumend.%s\nexcept gpumend.Error as error:\n    x = error.status" % call)
        expect(got, 2, call)


@test
def explain_has_every_page(w):
    e = Env(w)
    causes = json.loads(w.plain(e.exe, "explain", "--list", "--json").stdout)["causes"]
    some = [causes[0]["cause"], causes[-1]["cause"], "library-not-on-path"]
    pages = e.told("import sys\nx = [[p.cause, p.cause_class, p.severity, p.title, p.page] "
                   "for p in map(gpumend.explain, sys.argv[1:])]", *some)
    by_cause = {c["cause"]: c for c in causes}
    expect(pages, [[by_cause[c][k] for k in ("cause", "class", "severity", "title", "page")] for c in some],
           "the pages")
    for text in ("", "--list", "Unable to load any of {libcudnn_cnn.so.9}", "a\0b", "-"):
        got = e.told("try:\n    gpumend.explain(%r)\nexcept gpumend.Error as error:\n    x = str(error)" % text)
        expect(("no cause is called" in got, "\n" in got), (True, False), "explain(%r): %s" % (text, got))


@test
def explain_log_says_what_the_command_says(w):
    e = Env(w)
    for text in ("Failed to initialize NVML: Driver/library version mismatch\n",
                 "OSError: [Errno 28] No space left on device\n", "all is well\n", "", "a\0b \udcff"):
        got = e.told("d = gpumend.explain_log(%r)\nx = [d.cause, d.cause_class, d.culprit, d.confidence, "
                     "d.summary, [[l.line, l.text] for l in d.evidence], [r.text for r in d.repairs], "
                     "d.decides]" % text)
        done = subprocess.run([e.exe, "explain", "-", "--json"], capture_output=True,
                              input=text.encode("utf-8", "surrogateescape"), timeout=60)
        d = json.loads(done.stdout)
        expect(got, [d["cause"], d["class"], d["culprit"], d["confidence"], d["summary"],
                     [[l["line"], l["text"]] for l in d["evidence"]],
                     [r["text"] for r in d["repairs"]], d["decides"]], "explain_log(%r)" % text)


@test
def enable_and_disable(w):
    e = Env(w)
    before = state.state(e.dir)
    x = e.told("d = gpumend.enable()\nx = [d.journal, d.verified, d.why]")
    expect(x[1:], [True, None], "enable()")
    expect(e.python_runs(launcher.PROGRAM), "found\n", "the program, unchanged")
    x = e.told("d = gpumend.enable()\nx = [d.journal, d.verified, d.why]")
    expect(x[1:], [True, None], "enable() again: the hook is made anew")
    expect(e.python_runs(launcher.PROGRAM), "found\n", "the program with the new hook")
    expect(e.told("x = gpumend.disable()"), x[0], "disable()")
    expect(state.differences(before, state.state(e.dir)), [], "the environment afterwards")
    expect(e.python_runs(launcher.PROGRAM), "not found\n", "the program afterwards")
    expect(e.told("x = gpumend.disable()"), None, "disable() where there is none")


FIXED = "x = [d.result, d.why, d.title is not None, d.journal, len(d.left), d.start]"


@test
def fix_and_undo(w):
    e = Env(w)
    before = state.state(e.dir)
    expect(e.told("d = gpumend.fix()\n" + FIXED), ["verified", None, True, 1, 0, {}], "fix()")
    expect(e.python_runs(launcher.PROGRAM), "found\n", "the program, unchanged")
    expect(e.told("d = gpumend.fix()\n" + FIXED), [None, None, False, None, 0, {}], "nothing is left")
    expect(e.told("x = gpumend.undo()"), 1, "undo()")
    expect(state.differences(before, state.state(e.dir)), [], "the environment afterwards")
    expect(e.python_runs(launcher.PROGRAM), "not found\n", "the program afterwards")
    expect(e.told("x = gpumend.undo()"), None, "undo() where there is nothing")
    for call, words in (("undo(journal=77)", ["fix", e.python, "--undo", 77]),
                        ("fix(select=77)", ["fix", e.python, "--apply", "--select", 77])):
        text = e.told("try:\n    gpumend.%s\nexcept gpumend.Error as error:\n"
                      "    x = [str(error), error.status]" % call)
        said = w.plain(e.exe, *map(str, words)).stderr.decode()
        expect(["gpumend: " + text[0] + "\n", text[1]], [said, 2], call)


@test
def fix_that_fails(w):
    """The library cannot be loaded, which no model sees: only the trial does."""
    e = Env(w)
    w.cc("__attribute__((constructor)) static void c(void) { __builtin_trap(); }", e.cublas / ONE,
         "-shared", "-fPIC", "-Wl,-soname," + ONE)
    before = state.state(e.dir)
    result, why, title, journal, left, start = e.told("d = gpumend.fix()\n" + FIXED)
    expect((result, title, journal, left > 0, start), ("failed", True, None, False, {}), "fix()")
    expect_in("signal", why, "why it failed")
    expect(state.differences(before, state.state(e.dir)), [], "the environment afterwards")
    expect(e.told("x = gpumend.undo()"), None, "nothing stays applied")


@test
def module_is_the_executable(w):
    e = Env(w)
    for words in (["--version"], ["check", "/nowhere"], ["explain", "library-missing", "--json"], []):
        plain = w.plain(e.exe, *words)
        module = w.plain(e.python, "-m", "gpumend", *words)
        expect((module.returncode, module.stdout, module.stderr),
               (plain.returncode, plain.stdout, plain.stderr), "python -m gpumend " + " ".join(words))
    expect_in(version(), w.plain(e.exe, "--version").stdout.decode(), "--version")
    expect(e.told("x = gpumend.__version__"), version(), "__version__")


@test
def executable_is_found_from_the_package(w):
    """Where installers put the two, with a program of the same name on PATH."""
    trap = w.top / "trap/gpumend"
    trap.parent.mkdir()
    trap.write_text("#!/bin/sh\nexit 9\n")
    trap.chmod(0o755)
    for site in ("", "lib/python", "lib/python3.9/site-packages", "lib64/python3.12/site-packages",
                 "local/lib/python3.11/dist-packages"):
        top = w.top / ("at" + site.replace("/", "-"))
        programs = top / ("local/bin" if site.startswith("local") else "bin")
        lay(w.exe, top / site, programs)
        done = w.plain(sys.executable, "-c", "import gpumend; print(gpumend.executable())",
                       env={"PYTHONPATH": str(top / site), "PATH": str(trap.parent)})
        expect((done.stdout.decode().strip(), done.stderr), (str(programs / "gpumend"), b""), site or "--target")


@test
def names_are_there_and_described(w):
    e = Env(w)
    x = e.told("x = [sorted(dir(gpumend)) == sorted(gpumend.__all__), "
               "[n for n in gpumend.__all__ if n[0] != '_' and not getattr(gpumend, n).__doc__], "
               "[n for n in gpumend.__all__ if n[0] != '_' and n != 'executable' and "
               "getattr(gpumend, n).__module__ != 'gpumend' and isinstance(getattr(gpumend, n), type)]]")
    expect(x, [True, [], []], "all names, their texts, their module")
    got = e.told("try:\n    gpumend.nothing\nexcept AttributeError as error:\n    x = str(error)")
    expect_in("nothing", got, "a name that is not there")
    text = e.told("try:\n    gpumend.preload('torch')\nexcept TypeError as error:\n    x = str(error)")
    expect_in("sequence", text, "imports as one text")


# ---- other Pythons, types, pip ---------------------------------------------------------------------

def other_pythons():
    """{minor: interpreter} of the CPythons here that the package is for, but for this one."""
    found = {}
    for minor in VERSIONS:
        name = "python3.%d" % minor
        places = [shutil.which(name), *glob.glob(os.path.expanduser("~/.pyenv/versions/3.%d.*/bin/%s"
                                                                    % (minor, name)))]
        for place in filter(None, places):
            if minor != sys.version_info[1] and subprocess.run(
                    [place, "-c", "import venv, ctypes, json"], capture_output=True).returncode == 0:
                found.setdefault(minor, place)
    return found


def tools(w):
    """The interpreter of a virtual environment with pip."""
    folder = w.top / "tools"
    if w.plain(sys.executable, "-m", "venv", folder).returncode:
        raise Skip("there is no pip (package python3-venv)")
    return folder / "bin/python"


def pip(python, *words, cwd=None):
    done = subprocess.run([str(python), "-m", "pip", "--disable-pip-version-check", *map(str, words)],
                          cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT_S, env=store.clean_environment())
    if done.returncode and (store.NO_CONNECTION.search(done.stderr)
                            or "No matching distribution" in done.stderr):
        said = [line for line in done.stderr.splitlines() if "ERROR" in line] or ["pip says nothing"]
        raise Skip("the package index has no answer: %s" % said[-1].strip())
    return done


def pip_types(w):
    """mypy --strict, over the package as it is installed."""
    e = Env(w)
    python = tools(w)
    done = pip(python, "install", "-q", "mypy")
    expect(done.returncode, 0, done.stderr)
    use = w.top / "use.py"
    use.write_text("import gpumend\nr: gpumend.Report = gpumend.check()\n"
                   "c: gpumend.Choice = gpumend.choose('whisper:tiny')\n"
                   "s: str = gpumend.preload().libraries[0].path + r.findings[0].repairs[0].text\n"
                   "n: int = gpumend.preload('torch', strict=1)  # wrong thrice\n")
    done = w.plain(python, "-m", "mypy", "--strict", "--python-executable", e.python, "-p", "gpumend")
    expect(done.returncode, 0, done.stdout.decode())
    done = w.plain(python, "-m", "mypy", "--strict", "--python-executable", e.python, use)
    said = done.stdout.decode()
    expect((said.count("error:"), said.count("use.py:5:")), (2, 2), "a program with wrong types: " + said)


def left_by_pip(before, folder):
    """What came or went below the folder; pip leaves the folders of a manual, which others may use."""
    lines = [line.rsplit(": ", 1) for line in state.differences(before, state.state(folder))]
    return [f"{name}: {what}" for name, what in lines
            if what in ("new", "gone") and "__pycache__" not in name and not (folder / name).is_dir()]


def pip_install(w):
    """`pip install .` from the sources, with build isolation; what comes, works and goes again."""
    python = tools(w)
    before = state.state(w.top / "tools")
    done = pip(python, "install", "--no-compile", ".", cwd=TOP)
    expect(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
    shown = pip(python, "show", "--files", "gpumend").stdout
    expect_in("Version: %s\n" % version(), shown, "pip show")
    expect_in("\nRequires: \n", shown, "no dependencies")
    expect_in("../../../bin/gpumend", shown, "the script")
    expect_in("gpumend/py.typed", shown, "the mark of types")
    exe = python.parent / "gpumend"
    expect("interp" in w.plain("readelf", "-lW", exe).stdout.decode().lower(), False,
           "the executable wants a loader")
    done = w.plain(exe, "--version")
    expect_in(version(), done.stdout.decode(), "gpumend --version")
    done = w.plain(python, "-B", "-c", "import gpumend; print(gpumend.preload(strict=True).ok, gpumend.__version__)")
    expect((done.stdout.decode(), done.stderr), ("True %s\n" % version(), b""), "preload()")
    expect(pip(python, "uninstall", "-y", "gpumend").returncode, 0, "uninstall")
    expect(left_by_pip(before, w.top / "tools"), [], "after pip uninstall")


def licenses_in(wheel):
    """The wheel has the licence of gpumend and every notice of LICENSES/, as license files (PEP 639)."""
    with zipfile.ZipFile(wheel) as archive:
        info = "gpumend-%s.dist-info/" % version()
        stated = re.findall("^License-File: (.*)$", archive.read(info + "METADATA").decode(), re.MULTILINE)
        wanted = ["LICENSE", *sorted("LICENSES/" + p.name for p in (TOP / "LICENSES").glob("*.txt"))]
        expect(sorted(stated), wanted, "License-File of METADATA")
        for name in wanted:
            expect(archive.read(info + "licenses/" + name) == (TOP / name).read_bytes(), True, name)


def pip_wheel(w):
    """scripts/wheel, and its wheel in a new environment that has no tool on PATH."""
    tools(w)
    pip(w.top / "tools/bin/python", "download", "-q", "--no-deps", "-d", w.top, "auditwheel")   # or Skip
    done = subprocess.run([str(TOP / "scripts/wheel"), str(w.top / "dist")], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT_S, env=store.clean_environment())
    expect(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
    wheel, = (w.top / "dist").iterdir()
    expect(done.stdout, "%s\n" % wheel, "what it prints")
    found = re.match(r"gpumend-%s-py3-none-([.\w]+)\.whl$" % re.escape(version()), wheel.name)
    expect(bool(found), True, wheel.name)
    expect_in("manylinux_2_17_" + os.uname().machine, found.group(1).split("."), "platform tags")
    licenses_in(wheel)
    e = Env(w, laid=False)
    before = state.state(e.dir)
    own = store.site_packages(w.top / "tools") / "pip"     # run by the interpreter that it is to serve
    words = ["install", "-q", "--no-compile", "--no-index", wheel]
    done = w.plain(e.python, "-B", own, *words)
    expect(done.returncode, 0, "pip install: " + done.stderr.decode())
    bare = {"PATH": "/nonexistent"}
    expect(e.python_runs("import gpumend; gpumend.preload(strict=True)\n" + launcher.PROGRAM, env=bare),
           "found\n", "preload()")
    expect(e.told("x = gpumend.check(imports=['ctranslate2']).findings[0].cause", env=bare),
           "library-not-on-path", "check()")
    expect(e.told("x = gpumend.explain('library-not-on-path').severity", env=bare), "error", "explain()")
    done = w.plain(e.exe, "--version", env=bare)
    expect_in(version(), done.stdout.decode(), "gpumend --version")
    expect(w.plain(e.python, "-B", own, "uninstall", "-y", "gpumend").returncode, 0, "uninstall")
    expect(left_by_pip(before, e.dir), [], "after pip uninstall")
    lacking = []
    for minor, interpreter in sorted(other_pythons().items()):
        venv = w.top / ("venv3.%d" % minor)
        if w.plain(interpreter, "-m", "venv", venv).returncode:
            lacking.append("3.%d" % minor)
            continue
        done = w.plain(venv / "bin/python", "-m", "pip", *words)
        expect(done.returncode, 0, "pip install with 3.%d: %s" % (minor, done.stderr.decode()))
        done = w.plain(venv / "bin/python", "-c", "import gpumend; print(gpumend.preload(strict=True).ok)",
                       env=bare)
        expect((done.stdout, done.stderr), (b"True\n", b""), "preload() with 3.%d" % minor)
    if lacking:
        raise Skip("there is no pip for Python %s; with the others it passed" % ", ".join(lacking))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*")
    parser.add_argument("--no-pip", action="store_true", help="nothing that the index is needed for")
    parser.add_argument("--no-others", action="store_true", help="with this Python alone")
    parser.add_argument("gpumend", nargs="?", default=str(TOP / "build/gpumend"))
    args = parser.parse_args()
    exe = os.path.abspath(args.gpumend)
    counts = {"passed": 0, "failed": 0, "skipped": 0}

    def count(state_, text):
        counts[state_] += 1
        if state_ != "passed":
            print("%s python%d.%d %s" % (state_[:4].upper(), *sys.version_info[:2], text), flush=True)

    for function in [*TESTS, *([] if args.no_pip else [pip_types, pip_install, pip_wheel])]:
        name = function.__name__.replace("_", "-")
        if not fnmatch.fnmatch(name, args.only):
            continue
        with tempfile.TemporaryDirectory(prefix="gpumend-python-") as top:
            try:
                function(launcher.World(exe, os.path.realpath(top)))
                count("passed", name)
            except Skip as reason:
                count("skipped", "%s: %s" % (name, reason))
            except (Wrong, OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
                count("failed", "%s: %s" % (name, error))
    if not args.no_others:
        for minor, python in sorted(other_pythons().items()):
            done = subprocess.run([python, __file__, "--no-others", "--no-pip", "--only", args.only, exe],
                                  capture_output=True, text=True, timeout=LIMIT_S)
            said = done.stdout.strip().splitlines() or ["nothing; " + done.stderr[-500:]]
            print("\n".join(said[:-1]) + ("\n" if said[1:] else ""), end="")
            found = re.match(r"(\d+) passed, (\d+) failed, (\d+) skipped$", said[-1])
            if not found:
                count("failed", "tests under %s: %s" % (python, said[-1]))
                continue
            print("with %s: %s" % (python, said[-1]))
            for key, number in zip(counts, found.groups()):
                counts[key] += int(number)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
