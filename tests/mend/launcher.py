#!/usr/bin/env python3
"""`gpumend run`: the program is what it was, and finds its libraries.

    tests/mend/launcher.py [--only PATTERN] [GPUMEND]

The first part starts small programs plainly and under `gpumend run` and compares what they see:
arguments, status, signals, descriptors, terminal, limits. The second has a virtual environment with
a small package made here by cc, which bears the names of ctranslate2 and opens libcublas.so.12 as
that does; without help it does not find it, and each way to start Python must. The last is the real
crash: ctranslate2 4.5.0 beside nvidia-cudnn-cu12 9.1.0.70, whose wheels come from the cache of the
scenarios (skipped by name where they cannot be had).
"""

import argparse
import fnmatch
import json
import os
import pathlib
import pty
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path.insert(0, str(TOP / "tests/scenarios"))
import crash  # noqa: E402
import store  # noqa: E402

try:
    import jsonschema
except ImportError:
    jsonschema = None   # json-schema.py needs it as well, and says so

SCHEMA = json.loads((TOP / "docs/json/run.schema.json").read_text())
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
LIMIT_S = 60
# A plan is kept only if nothing it looked at is younger than this (src/launch/cache.c).
SETTLED_S = 0.2
# What is younger than this when the plan is begun counts as still changing (the same place).
YOUNG_S = 0.05
TESTS = []


class Wrong(Exception):
    pass


class Skip(Exception):
    pass


def test(function):
    TESTS.append(function)
    return function


def expect(got, wanted, what):
    if got != wanted:
        raise Wrong("%s: got %r, wanted %r" % (what, got, wanted))


def expect_in(part, whole, what):
    if part not in whole:
        raise Wrong("%s: %r is not in %r" % (what, part, whole))


class World:
    """The executable under test, and a home of its own."""

    def __init__(self, exe, top):
        self.exe, self.top = exe, pathlib.Path(top)
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(self.top / "home"),
                    "XDG_CACHE_HOME": str(self.top / "cache"), "LC_ALL": "C.UTF-8"}
        (self.top / "home").mkdir()

    def run(self, *command, options=(), env=None, **more):
        return self.plain(self.exe, "run", *options, "--", *command, env=env, **more)

    def plain(self, *command, env=None, **more):
        more.setdefault("stdin", subprocess.DEVNULL if "input" not in more else None)
        if more["stdin"] is None:
            del more["stdin"]
        more.setdefault("cwd", self.top)
        return subprocess.run([os.fspath(c) for c in command], env={**self.env, **(env or {})},
                              capture_output=True, timeout=LIMIT_S, **more)

    def told(self, *command, options=(), **more):
        done = self.run(*command, options=("--json", *options), **more)
        expect(done.returncode, 0, "status of --json: " + done.stderr.decode())
        document = json.loads(done.stdout)
        if jsonschema:
            jsonschema.validate(document, SCHEMA)
        return document

    def cc(self, source, out, *options):
        subprocess.run(["cc", "-x", "c", "-", "-x", "none", "-o", str(out), *options], input=source.encode(),
                       check=True)
        return out


# ---- the program is what it was ------------------------------------------------------------------

@test
def exit_status(w):
    for status in (0, 1, 2, 3, 7, 125, 126, 127, 255):
        done = w.run("sh", "-c", "exit %d" % status)
        expect((done.returncode, done.stdout, done.stderr), (status, b"", b""), "exit %d" % status)


@test
def not_found_and_not_executable(w):
    plain = w.top / "plain"
    plain.write_text("no program\n")
    bad = w.top / "bad-interpreter"
    bad.write_text("#!/nowhere/python\n")
    bad.chmod(0o755)
    for command, status in (("no-such-command-here", 127), ("./no-such-file", 127), ("", 127),
                            (plain, 126), ("/", 126), (bad, 127), ("/dev/null", 126),
                            (str(plain) + "/x", 126)):
        done = w.run(command)
        expect((done.returncode, done.stdout), (status, b""), repr(command))
        expect(done.stderr.count(b"\n"), 1, "lines on stderr for %r" % command)
        expect(w.run(command, options=("--print",)).returncode, status, "--print %r" % command)


@test
def wrong_usage(w):
    for options in ((), ("--device", "gpu"), ("--device=cuda:x",), ("--device=cpu:1",), ("--nope",),
                    ("--preload-only", "--no-preload"), ("--require-gpu", "--device", "cpu")):
        words = ("true",) if options else ()
        done = w.plain(w.exe, "run", *options, "--", *words)
        expect((done.returncode, done.stdout), (2, b""), "run %s" % (options,))


@test
def script_without_a_line(w):
    """execvp() gives such a file to /bin/sh."""
    script = w.top / "no-line"
    script.write_text('echo "$1"; exit 9\n')
    script.chmod(0o755)
    done = w.run(script, "word")
    expect((done.returncode, done.stdout), (9, b"word\n"), "script without #!")


@test
def command_keeps_its_options(w):
    done = w.plain(w.exe, "run", "sh", "-c", 'echo "$@"', "x", "--print", "--", "--help", "-h")
    expect(done.stdout, b"--print -- --help -h\n", "words after CMD")


@test
def arguments_byte_for_byte(w):
    words = [b"", b" ", b"two words", b"new\nline", b"\xff\xfe\x80", b"'\"\\$x", b"--", b"-c", b"*"]
    show = "import os,sys; os.write(1, open('/proc/self/cmdline','rb').read())"
    plain = w.plain(PYTHON, "-c", show, *map(os.fsdecode, words))
    done = w.run(PYTHON, "-c", show, *map(os.fsdecode, words))
    expect(done.stdout, plain.stdout, "/proc/self/cmdline")
    expect_in(b"\0".join(words), done.stdout, "the words")
    name = os.path.basename(PYTHON)
    expect(w.run(name, "-c", show).stdout.split(b"\0")[0], name.encode(), "argv[0]")


@test
def same_process(w):
    child = subprocess.Popen([w.exe, "run", "--", "sh", "-c", "echo $$ $PPID"], env=w.env,
                             stdout=subprocess.PIPE, cwd=w.top)
    out = child.communicate(timeout=LIMIT_S)[0]
    expect(out.split(), [b"%d" % child.pid, b"%d" % os.getpid()], "pid and parent")


@test
def signals_end_it(w):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGUSR1, signal.SIGABRT):
        expect(w.run("sh", "-c", "kill -%d $$" % number).returncode, -number, "kill itself")
        child = subprocess.Popen([w.exe, "run", "--", "sh", "-c", "echo up; exec sleep 60"],
                                 env=w.env, stdout=subprocess.PIPE, cwd=w.top)
        child.stdout.readline()
        child.send_signal(number)
        expect(child.wait(LIMIT_S), -number, "signal %d from outside" % number)
        child.stdout.close()


@test
def signals_are_inherited(w):
    """What the kernel says of blocked, ignored and caught signals, plainly and under run."""
    show = ("/bin/grep", "-E", "^(Sig(Blk|Ign|Cgt)|ShdPnd)", "/proc/self/status")
    chosen = (signal.SIGINT, signal.SIGBUS, signal.SIGPIPE, signal.SIGHUP)

    def prepare():
        for number in chosen:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR2,))

    for before in (None, prepare):
        expect(w.run(*show, preexec_fn=before, restore_signals=False).stdout,
               w.plain(*show, preexec_fn=before, restore_signals=False).stdout, "signals")


@test
def standard_streams(w):
    data = os.urandom(1 << 20)
    done = w.run("cat", input=data)
    expect((done.stdout == data, done.stderr), (True, b""), "cat of 1 MiB")
    done = w.run("sh", "-c", "cat >&2; echo out", input=b"err")
    expect((done.stdout, done.stderr), (b"out\n", b"err"), "both streams")


@test
def descriptors(w):
    """No descriptor more, none less; standard input may be closed."""
    show = (PYTHON, "-I", "-S", "-c",
            "import os; print(sorted(os.listdir('/proc/self/fd'), key=int)[:-1])")
    read, write = os.pipe()
    try:
        for fds in ((), (read, write)):
            expect(w.run(*show, pass_fds=fds).stdout, w.plain(*show, pass_fds=fds).stdout,
                   "open descriptors")
    finally:
        os.close(read)
        os.close(write)
    expect(w.run(*show, preexec_fn=lambda: os.close(0)).stdout,
           w.plain(*show, preexec_fn=lambda: os.close(0)).stdout, "without standard input")


@test
def limits_and_mask(w):
    def prepare():
        os.umask(0o027)
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
        os.nice(3)

    show = ("sh", "-c", "umask; cat /proc/self/limits; nice; pwd; cat /proc/self/cgroup")
    expect(w.run(*show, preexec_fn=prepare).stdout, w.plain(*show, preexec_fn=prepare).stdout,
           "what the process inherits")


@test
def terminal(w):
    """The same terminal, and its signals reach the program."""
    def talk(command, typed):
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(w.top)
            os.execve(command[0], command, {**w.env, "TERM": "dumb"})
        out = b""
        try:
            while chunk := os.read(fd, 4096):
                out += chunk
                if b"ready" in out and typed:
                    os.write(fd, typed)
                    typed = b""
        except OSError:
            pass        # the other side is closed
        os.close(fd)
        return out, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    show = ["/bin/sh", "-c", "test -t 0 && test -t 1 && test -t 2 && tty >/dev/null && stty size && "
            "echo ready && read x && echo got $x; exit 5"]
    under = [w.exe, "run", "--"]
    expect(talk(under + show, b"word\n"), talk(show, b"word\n"), "a talk")
    wait = ["/bin/sh", "-c", "echo ready; exec sleep 60"]
    expect(talk(under + wait, b"\x03")[1], -signal.SIGINT, "control-C")


@test
def environment_is_kept(w):
    """Odd entries too, in their order."""
    env = {"A": "", "B": "a=b", "C": "new\nline", "D": os.fsdecode(b"\xff\xfe")}
    expect(w.run("env", "-0", env=env).stdout, w.plain("env", "-0", env=env).stdout, "env")


@test
def static_program(w):
    done = w.run(w.exe, "--version")
    expect((done.returncode, done.stdout.startswith(b"gpumend ")), (0, True), "it runs")
    expect((done.stderr.count(b"\n"), b"statically" in done.stderr), (1, True), "one line")


@test
def secure_mode(w):
    if os.geteuid() != 0:
        raise Skip("needs root, to make a file that is setuid to another user")
    program = w.cc("int main(void) { return 4; }", w.top / "setuid")
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    done = w.run(program)
    expect((done.returncode, done.stderr.count(b"\n")), (4, 1), "it runs, and one line says why")
    expect_in(b"secure mode", done.stderr, "the line")


@test
def works_without_a_cache(w):
    for env in ({"XDG_CACHE_HOME": "/proc/nowhere"}, {"XDG_CACHE_HOME": "relative", "HOME": ""},
                {"XDG_CACHE_HOME": "/dev/null/x"}):
        done = w.run("sh", "-c", "exit 6", env=env)
        expect((done.returncode, done.stderr), (6, b""), "%s" % env)


@test
def device_variables(w):
    """Which GPU is taken on other machines than this one, tests/choose/run.py compares."""
    def told(*options, **env):
        return w.told("true", options=options, env=env)

    def chosen(*options, **env):
        return told(*options, **env)["changes"]

    hidden = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}
    expect(chosen("--device", "cpu"), hidden, "cpu")
    expect(chosen("--device", "cpu", CUDA_VISIBLE_DEVICES="3"), hidden, "cpu, one set")
    expect(chosen("--device", "cpu", "--keep-env", CUDA_VISIBLE_DEVICES="3"),
           {"HIP_VISIBLE_DEVICES": "-1"}, "cpu with --keep-env")
    expect(chosen("--device=rocm:9")["HIP_VISIBLE_DEVICES"], "9", "rocm:9")
    expect(chosen("--device=cuda:9", "--keep-env", CUDA_VISIBLE_DEVICES="3"), {},
           "cuda:9 with --keep-env")
    expect(any("cuda:99" in r for r in told("--device=cuda:99")["remarks"]), True,
           "a device that is not there is said")
    done = w.run("sh", "-c", "echo $CUDA_VISIBLE_DEVICES", options=("--device", "cpu"))
    expect(done.stdout, b"-1\n", "in the program")


@test
def require_gpu(w):
    status = w.plain(w.exe, "devices", "--json")
    usable = [g["usable"] for g in json.loads(status.stdout)["gpus"]]
    mark = w.top / "started"
    done = w.run("touch", mark, options=("--require-gpu",))
    if "yes" in usable:
        expect((done.returncode, mark.exists()), (0, True), "with a usable GPU")
        return
    if done.returncode not in (1, 3):
        raise Wrong("status %d without a usable GPU" % done.returncode)
    expect((mark.exists(), done.stdout, done.stderr.count(b"\n")), (False, b"", 1), "not started")


# ---- a package that does not find its library ----------------------------------------------------

SHIM = r"""
#include <dlfcn.h>
#include <stdlib.h>
__asm__(".section .nv_fatbin,\"a\"\n.long 0\n.previous"); // a build for CUDA
const char *look(void);
const char *look(void)
{
    if (getenv("ASKS_FIRST")) dlopen("libcublas.so.12", RTLD_NOW | RTLD_NOLOAD);
    void *h = dlopen("libcublas.so.12", RTLD_NOW);
    int *version = h ? dlsym(h, "version") : 0;
    return version ? *version == 12 ? "found" : "found another" : "not found";
}
"""
MODULE = """import ctypes
import os
_shim = ctypes.CDLL(os.path.join(os.path.dirname(__file__),
                                 "../ctranslate2.libs/libctranslate2-01234567.so.4"))
_shim.look.restype = ctypes.c_char_p
def look():
    return _shim.look().decode()
"""
PROGRAM = "import ctranslate2\nprint(ctranslate2.look())\n"


class Env:
    """A virtual environment with a ctranslate2 of our own, and with or without cuBLAS."""

    def __init__(self, w, folder, with_cublas=True):
        self.w, self.dir = w, pathlib.Path(folder)
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", str(self.dir)], check=True,
                       env=store.clean_environment())
        self.python = self.dir / "bin/python"
        self.site = store.site_packages(self.dir)
        package, libs = self.site / "ctranslate2", self.site / "ctranslate2.libs"
        package.mkdir()
        libs.mkdir()
        shim = w.cc(SHIM, libs / "libctranslate2-01234567.so.4", "-shared", "-fPIC",
                    "-Wl,-soname,libctranslate2-01234567.so.4")
        w.cc("int x;", package / ("_ext" + sysconfig.get_config_var("EXT_SUFFIX")), "-shared",
             "-fPIC", "-Wl,--no-as-needed", str(shim), "-Wl,-rpath,$ORIGIN/../ctranslate2.libs")
        (package / "__init__.py").write_text(MODULE)
        self.dist("ctranslate2", "4.8.5")
        self.cublas = self.site / "nvidia/cublas/lib"
        if with_cublas:
            self.add_cublas()
        self.program = self.dir / "program.py"
        self.program.write_text(PROGRAM)
        self.settle()

    def dist(self, name, version):
        info = self.site / ("%s-%s.dist-info" % (name.replace("-", "_"), version))
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: %s\nVersion: %s\n\n"
                                       % (name, version))
        (info / "RECORD").write_text("")

    def add_cublas(self, version=12):
        self.cublas.mkdir(parents=True)
        for name in ("libcublas.so.12", "libcublasLt.so.12"):
            self.w.cc("int version = %d;" % version, self.cublas / name, "-shared", "-fPIC",
                      "-Wl,-soname," + name)
        self.dist("nvidia-cublas-cu12", "12.4.5.8")

    @staticmethod
    def settle():
        time.sleep(SETTLED_S)

    def path(self, name, text):
        path = self.dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path


def expect_found(w, *command, what=None, **more):
    """Not found when started plainly, found under run, with nothing else said."""
    what = what or " ".join(map(str, command))
    expect(w.plain(*command, **more).stdout, b"not found\n", "plainly: " + what)
    done = w.run(*command, **more)
    expect((done.returncode, done.stdout, done.stderr), (0, b"found\n", b""), what)


@test
def python_program(w):
    e = Env(w, w.top / "venv")
    expect_found(w, e.python, e.program)
    expect_found(w, e.python, "-c", PROGRAM, what="-c")
    expect_found(w, e.python, "-Bc", PROGRAM.replace("\n", ";"), what="-Bc")
    expect_found(w, e.python, "-X", "dev", "-W", "ignore", "-u", e.program)
    expect_found(w, e.python, "-m", "program", cwd=e.dir)
    expect_found(w, e.python, "-I", e.program)
    expect_found(w, e.python, "-", input=PROGRAM.encode())
    expect_found(w, "python", e.program, env={"PATH": "%s/bin:/usr/bin:/bin" % e.dir})
    expect_found(w, "env", "X=1", e.python, e.program)
    package = e.path("package/__main__.py", "from helper import *\n")
    (package.parent / "helper.py").write_text("def f():\n    pass\n\n" + PROGRAM)
    expect_found(w, e.python, package.parent, what="a folder")


@test
def scripts_with_a_line(w):
    e = Env(w, w.top / "venv")
    active = {"PATH": "%s/bin:/usr/bin:/bin" % e.dir}
    console = "import sys\nfrom ctranslate2 import look\nif __name__ == '__main__':\n    print(look())\n"
    expect_found(w, e.path("app.py", "#!%s -u\n%s" % (e.python, PROGRAM)))
    expect_found(w, e.path("bin/console", "#!%s\n%s" % (e.python, console)))
    expect_found(w, "console", env=active)
    expect_found(w, e.path("by-env", "#!/usr/bin/env python3\n" + PROGRAM), env=active)
    expect_found(w, e.path("by-env-s", "#!/usr/bin/env -S python3 -u -B\n" + PROGRAM), env=active)
    for name, how in (("plain", str(e.python)), ("quoted", '"%s"' % e.python)):
        expect_found(w, e.path("long-" + name, "#!/bin/sh\n'''exec' %s \"$0\" \"$@\"\n' '''\n%s"
                               % (how, PROGRAM)))
    expect_found(w, e.path("bin/relocatable", "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- "
                           "\"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''\n" + PROGRAM))


@test
def scripts_of_a_shell(w):
    """The Python that a script starts is found in its text."""
    e = Env(w, w.top / "venv")
    python, program = e.python, e.program
    texts = {
        "exec": "exec %s %s" % (python, program),
        "last line": "set -e\necho begin >/dev/null\n%s %s" % (python, program),
        "relative": "cd %s\nexec bin/python program.py" % e.dir,
        "beside the script": 'exec "$(dirname "$0")/bin/python" "$(dirname "$0")/program.py"',
        "own folder": 'cd "$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")" && pwd)"\nexec ./bin/python program.py',
        "activated": ". %s/bin/activate\nexec python %s" % (e.dir, program),
        "in a condition": "if [ -d %s ]; then\n  . %s/bin/activate\nfi\npython %s" % (e.dir, e.dir, program),
        "variables": "HERE=%s\nPY=${PY:-$HERE/bin/python}\nexec \"$PY\" \"${HERE}/program.py\" \"$@\"" % e.dir,
        "path": "export PATH=%s/bin:$PATH\nexec python %s" % (e.dir, program),
        "continued": "exec \\\n  %s \\\n  %s # last" % (python, program),
        "here-document": "cat <<END >/dev/null\nexec /nowhere/python\nEND\nexec %s - <<'END'\n%sEND"
                         % (python, PROGRAM),
        "function": "run() {\n  %s %s\n}\nrun" % (python, program),
        "sourced": ". %s\nexec $SERVER" % e.path("env.sh", 'SERVER="%s"\nexport X=1\n' % e.path(
            "served", "#!%s\n%s" % (python, PROGRAM))),
        "appended": "export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/opt/x\nexec %s %s" % (python, program),
    }
    for name, text in texts.items():
        for line in ("#!/bin/sh\n", "#!/usr/bin/env bash\n"):
            if "BASH" in text and "bash" not in line:
                continue
            script = e.path("start.sh", line + text + "\n")
            expect_found(w, script, what=name + " " + line)
    script = e.path("start.sh", "#!/bin/sh\nexec %s %s\n" % (python, program))
    for command in (("sh", "-c", "%s %s" % (python, program)), ("bash", "-euo", "pipefail", "-c", str(script)),
                    ("sh", script), ("sh", "-c", 'exec "$0" "$@"', script), ("bash", "-c", 'exec "$@"', "x", script),
                    ("sh", "-c", "exec venv/bin/python venv/program.py")):
        expect_found(w, *command)
    expect_found(w, e.path("all.sh", '#!/bin/sh\nexec "$@"\n'), python, program)


@test
def scripts_that_find_their_folder(w):
    """No environment lies where one would be assumed."""
    e = Env(w, w.top / "envs/prod")
    python, program = e.python, e.program
    texts = {
        "above": 'DIR="$( cd "$( dirname "${BASH_SOURCE[0]}" )/.." >/dev/null 2>&1 && pwd )"\n'
                 'exec "$DIR/bin/python" "$DIR/program.py"',
        "posix": 'here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd -P)\n"$here"/../bin/python $here/../program.py',
        "resolved": 'exec "$(dirname "$(dirname "$(readlink -f "$0")")")/bin/python" %s' % program,
        "realpath": 'exec "$(realpath "$(dirname "$0")/..")/bin/python" %s' % program,
        "backquotes": 'exec `dirname "$0"`/../bin/python %s' % program,
        "local": 'main() {\n  local py=%s\n  "$py" "$@"\n}\nmain %s' % (python, program),
        "declared": 'declare -r PY=%s\n$PY %s' % (python, program),
        "login": "bash -lc '. %s/bin/activate && python %s'" % (e.dir, program),
        "login-path": "bash -lc 'PATH=%s/bin:$PATH; python %s'" % (e.dir, program),
    }
    for name, text in texts.items():
        expect_found(w, e.path("tools/start.sh", "#!/bin/bash\n%s\n" % text), what=name)
    line = "%s %s" % (python, program)
    for words in (("flock", "/tmp", "-c", line), ("runuser", "root", "-c", line),
                  ("runuser", "root", "--command=" + line)):
        if shutil.which(words[0], path=w.env["PATH"]) and not subprocess.run(
                words, env=w.env, capture_output=True, check=False).returncode:
            expect_found(w, *words)
    told = w.told("script", "-qec", line, "/dev/null")
    expect((told["program"]["python"], told["remarks"]), (str(python), []), "script -c")
    for other in ('$(cat "$(dirname "$0")/python.txt")', '$(dirname "$0" | sed s,x,y,)/../bin/python'):
        told = w.told(e.path("tools/start.sh", "#!/bin/bash\n%s %s\n" % (other, program)))
        expect((told["program"]["python"], len(told["remarks"])), (None, 1), other)


@test
def tasks_of_a_project(w):
    """A task may bear the name of a program that lies elsewhere."""
    e = Env(w, w.top / "proj/.venv")
    (w.top / "proj/pyproject.toml").write_text("")
    tools = w.top / "tools/bin"
    tools.mkdir(parents=True)
    for name in ("pdm", "pipenv", "poetry", "uv", "serve"):
        shutil.copy("/bin/true", tools / name)
    shutil.copy("/bin/true", e.dir / "bin/ruff")

    def told(*words):
        return w.told(*words, cwd=w.top / "proj", env={"PATH": "%s:/usr/bin:/bin" % tools})["program"]

    for tool in ("pdm", "pipenv", "poetry"):
        expect(told(tool, "run", "serve")["python"], str(e.python), tool)
        expect(told(tool, "run", "ruff")["python"], None, tool + ", a program of the environment")
    expect(told("uv", "run", "serve")["python"], None, "uv has no tasks")


# The words before the command; those that start nothing here are skipped (a program that is not
# installed, a busybox without that applet, a container without the right).
LAUNCHERS = (
    ("nohup",), ("nice",), ("nice", "-n", "5"), ("nice", "-5"), ("timeout", "60"),
    ("timeout", "-k", "5", "--signal=INT", "60"), ("stdbuf", "-oL", "-e", "0"), ("setsid", "-w"),
    ("ionice", "-c2", "-n7"), ("taskset", "-c", "0"), ("taskset", "1"), ("chrt", "-o", "0"),
    ("env", "X=1", "Y=2"), ("env", "-u", "X"), ("env", "-C", "/"), ("env", "-S", "X=1 nice -n 1"),
    ("xvfb-run", "-a", "-s", "-screen 0 640x480x24"), ("numactl", "--localalloc"), ("/usr/bin/time", "-o", "/dev/null"),
    ("timeout", "60", "nice", "setsid", "-w"), ("flock", "/tmp"), ("setpriv", "--no-new-privs"),
    ("tini", "-s", "--"), ("dumb-init", "--"), ("busybox", "timeout", "60"), ("busybox", "nice"))


@test
def launchers(w):
    e = Env(w, w.top / "venv")
    script = e.path("start.sh", "#!/bin/sh\nexec nice %s %s\n" % (e.python, e.program))
    tried = 0
    for words in LAUNCHERS:
        if not shutil.which(words[0], path=w.env["PATH"]) or subprocess.run(
                [*words, "true"], env=w.env, capture_output=True, stdin=subprocess.DEVNULL, check=False).returncode:
            continue
        expect_found(w, *words, e.python, e.program)
        expect_found(w, *words, script)
        tried += 1
    if tried < 10:
        raise Skip("only %d of the launchers are installed" % tried)


@test
def launchers_that_are_not_here(w):
    """Their words alone: an empty program of their name stands where they would."""
    e = Env(w, w.top / "proj/.venv")
    top = e.dir.parent
    (top / "pyproject.toml").write_text("")
    (top / "app.py").write_text(PROGRAM)
    own = top / "own.py"
    own.write_text("# /// script\n# dependencies = []\n# ///\n" + PROGRAM)
    conda = w.top / "conda"
    other = Env(w, conda / "envs/gpu")
    (other.dir / "conda-meta").mkdir()
    pixi = Env(w, w.top / "pix/.pixi/envs/default")
    (w.top / "pix/pixi.toml").write_text("")
    torchrun = e.path("bin/torchrun", "#!%s\nimport torch.distributed.run\n" % e.python)
    accelerate = e.path("bin/accelerate", "#!%s\nimport accelerate\n" % e.python)
    for folder, names in ((conda / "bin", "conda"), (w.top / "tools/bin", "uv poetry pipenv pdm pixi hatch "
                                                     "docker gdb srun uvx make")):
        folder.mkdir(parents=True)
        for name in names.split():
            shutil.copy("/bin/true", folder / name)

    def seen(cwd, *command, python=None, **env):
        told = w.told(*command, cwd=cwd, env={"PATH": "%s/bin:%s/tools/bin:/usr/bin:/bin" % (conda, w.top), **env})
        expect(told["program"]["python"], str(python) if python else None, "%s" % (command,))
        expect((bool(told["changes"]), bool(told["remarks"])), (bool(python), not python), "%s" % (command,))
        return told

    for command in (("uv", "run", "app.py"), ("uv", "run", "python", "-m", "app"), ("uv", "run", "-m", "app"),
                    ("uv", "run", "--no-sync", "--extra", "gpu", "--", "python", "app.py"),
                    ("uv", "-q", "run", "--env-file", "x", "torchrun", "--nproc-per-node", "2", "app.py"),
                    ("poetry", "run", "python", "app.py"), ("pipenv", "run", "torchrun", "app.py"),
                    ("pdm", "run", "start"), ("timeout", "9", "uv", "run", "app.py"),
                    ("sh", "-c", "uv run app.py"), (torchrun, "app.py"), (accelerate, "launch", "app.py"),
                    (e.python, "-m", "torch.distributed.run", "--standalone", "app.py"),
                    ("gdb", "-ex", "run", "--args", e.python, "app.py"), ("srun", "-n1", e.python, "app.py")):
        seen(top, *command, python=e.python)
    (top / "deep/er").mkdir(parents=True)
    seen(top / "deep/er", "uv", "run", "../../app.py", python=e.python)
    seen(w.top, "uv", "run", "--project", "proj", "proj/app.py", python=e.python)
    seen(w.top, "uv", "--directory", "proj", "run", "app.py", python=e.python)
    seen(w.top, "conda", "run", "-n", "gpu", "--no-capture-output", "python", "x.py", python=other.python)
    seen(w.top, "conda", "run", "-p", other.dir, "python", "x.py", python=other.python)
    seen(w.top, "sh", "-c", "conda activate gpu && python x.py", python=other.python)
    seen(w.top / "pix", "pixi", "run", "start", python=pixi.python)
    expect(seen(top, torchrun, "--nproc-per-node=2", "app.py", python=e.python)["program"]["script"],
           str(top / "app.py"), "what torchrun runs")
    uv_workspaces(w, seen)
    for command in (("uv", "run", "app.py"), ("poetry", "run", "x"), ("conda", "run", "-n", "none", "x"),
                    ("docker", "run", "image"), ("uvx", "tool"), ("hatch", "run", "x"),
                    ("sh", "-c", '"$NOBODY_SETS_THIS" app.py'), ("make", "run"), ("sh",),
                    ("timeout", "--no-such-option", "9", e.python), ("sh", "-c", "$(cat command)")):
        seen(w.top, *command)


# [tool.uv.workspace] above a project in FOLDER, and whose environment uv uses then: that of the
# workspace (True), the project's own (False), or not known (None). Each was run with uv 0.13.9.
WORKSPACES = (
    ("members", "packages/x", 'members = ["packages/*"]', True),
    ("excluded", "packages/x", 'members = ["packages/*"]\nexclude = ["packages/x/"]', False),
    ("lines", "packages/x", "members = [\n  # a comment ]\n  'libs/*', \"./packages/*\",\n]", True),
    ("deeper", "packages/x/y", 'members = ["packages/*"]', False),
    ("elsewhere", "other/x", 'members = ["packages/*"]', False),
    ("no-members", "packages/x", "", False),
    ("double-stars", "packages/x", 'members = ["packages/**"]', None),
)


def uv_workspaces(w, seen):
    for name, folder, table, whose in WORKSPACES:
        root = w.top / "workspaces" / name
        project = root / folder
        project.mkdir(parents=True)
        (root / "pyproject.toml").write_text('[project]\nname = "root"\n[tool.uv.sources]\n'
                                             f"m = {{ workspace = true }}\n[tool.uv.workspace]\n{table}\n")
        (project / "pyproject.toml").write_text('[project]\nname = "m"\n')
        above, own = Env(w, root / ".venv"), Env(w, project / ".venv")
        if whose is None:
            told = w.told("uv", "run", "-m", "app", cwd=project,
                          env={"PATH": "%s/tools/bin:/usr/bin:/bin" % w.top})
            expect(["is not known" in r for r in told["remarks"]], [True], name)
            continue
        python = above.python if whose else own.python
        seen(project, "uv", "run", "python", "-m", "app", python=python)
        seen(w.top, "uv", "--directory", project, "run", "-m", "app", python=python)
        seen(w.top, "uv", "run", "-m", "app", python=python, UV_PROJECT=str(project))
        seen(w.top, "uv", "run", "-m", "app", python=python, UV_WORKING_DIR=str(project))
    alone = w.told("uv", "run", "-m", "app", cwd=w.top / "workspaces/members",
                   env={"PATH": "%s/tools/bin:/usr/bin:/bin" % w.top, "UV_ISOLATED": "1"})
    expect(["UV_ISOLATED" in r for r in alone["remarks"]], [True], "UV_ISOLATED")


# Words before "python app.py"; an empty program of each name stands where it would.
BEFORE = (
    "nohup", "stdbuf -oL", "chrt -b 0", "chrt --batch 0", "ionice -c 3", "taskset -c 0-1", "taskset ff",
    "numactl --cpunodebind=0 --membind=0", "numactl -N 0 -m 0", "setsid --wait", "tini --", "tini -g --",
    "/sbin/tini -v --", "dumb-init --", "dumb-init -r 15:2", "catatonit -P --", "gosu app", "gosu 1000:1000",
    "su-exec app:app", "s6-setuidgid app", "setuidgid app", "s6-envuidgid app", "chpst -u app",
    "s6-softlimit -m 1", "s6-notifyoncheck -d", "mpirun -np 2", "mpirun --allow-run-as-root -x NCCL_DEBUG=INFO -n 2",
    "mpiexec -n 2", "orterun -n 2", "srun --gres=gpu:1 -N 1", "horovodrun -np 2", "runuser -u app --",
    "nice -n 5 ionice -c 3 taskset -c 0", "timeout -k 5 60 numactl -l", "poetry run", "pipenv run", "pdm run",
    "pdm run -s", "rye run", "uv run", "conda run -p .venv", "micromamba run -p .venv", "mamba run -p .venv",
    "tini -- dumb-init -- uv run", "find . -maxdepth 0 -exec")
# Launchers that are Python programs, with what they are told.
PYTHON_LAUNCHERS = (
    "deepspeed --num_gpus 2 app.py", "torchrun --nproc-per-node gpu app.py", "accelerate launch --multi_gpu app.py",
    "accelerate-launch app.py", "python -m accelerate.commands.launch --num_processes 2 app.py",
    "python -m deepspeed.launcher.runner app.py", "python -m torch.distributed.launch --use_env app.py",
    "mpirun -np 2 deepspeed app.py", "srun torchrun --nnodes 2 app.py", "timeout 60 accelerate launch app.py")
# What cannot be known, and a word of the line that says so.
UNSEEN = (
    ("chroot / python app.py", "in another root"), ("perl start.pl", "files of its own"),
    ("fish -c x", "files of its own"), ("find . -name x", "not among its words"),
    ("hatch run x", "hatch uses is not found"), ("conda run -n none x", "no folder of conda"),
    ("micromamba run x", "no environment is named"), ("s6-svscan /run/service", "files of its own"),
    ("s6-supervise x", "files of its own"), ("runsvdir /service", "files of its own"),
    ("supervisord -n", "files of its own"), ("mpirun -np 2 ./nothing", "not among its words"),
    ("su app -c x", "not among its words"), ("chrt --no-such 1 python app.py", "is not known here"),
    ("numactl --no-such python app.py", "is not known here"), ("hatch run python app.py", "is not found"))


@test
def each_launcher_is_followed_or_says_why_not(w):
    e = Env(w, w.top / "proj/.venv")
    top = e.dir.parent
    (top / "pyproject.toml").write_text("")
    (top / "app.py").write_text(PROGRAM)
    (e.dir / "conda-meta").mkdir()
    for name in ("deepspeed", "torchrun", "accelerate", "accelerate-launch"):
        e.path("bin/" + name, "#!%s\nimport sys\n" % e.python)
    tools = w.top / "tools/bin"
    tools.mkdir(parents=True)
    every = [*BEFORE, *PYTHON_LAUNCHERS, *(words for words, _ in UNSEEN)]
    names = {name for words in every for name in words.split() if not (e.dir / "bin" / name).exists()}
    for name in names:
        if "/" not in name and name[0].isalpha() and not name.endswith(".py") and name not in ("x", "app"):
            shutil.copy("/bin/true", tools / name)
    path = "%s:/usr/bin:/bin" % tools

    def told(words, with_venv):
        words = [word.replace("/sbin/tini", str(tools / "tini")) for word in words.split()]
        return w.told(*words, cwd=top,
                      env={"PATH": "%s/bin:%s" % (e.dir, path) if with_venv else path})

    for words in BEFORE:
        inside = " run" in words.replace("runuser", "")
        for command in ("python app.py", "python -m app"):
            seen = told("%s %s" % (words, command), not inside)
            expect((seen["program"]["python"], bool(seen["changes"]), seen["remarks"]),
                   (str(e.python), True, []), "%s %s" % (words, command))
    for words in PYTHON_LAUNCHERS:
        seen = told(words, True)
        expect((seen["program"]["python"], seen["program"]["script"], bool(seen["changes"])),
               (str(e.python), str(top / "app.py"), True), words)
    e.dir.rename(w.top / "away")
    for words, reason in UNSEEN:
        seen = told(words, False)
        expect((seen["program"]["python"], seen["changes"], len(seen["remarks"])), (None, {}, 1), words)
        expect_in(reason, seen["remarks"][0], words)
    (w.top / "away").rename(e.dir)
    for words in ("doas -n", "doas -u app", "sudo -E", "pkexec", "with-contenv", "env -i"):
        if not shutil.which(words.split()[0], path="/usr/bin:/bin"):
            shutil.copy("/bin/true", tools / words.split()[0])
        seen = told("%s %s app.py" % (words, e.python), True)
        expect((seen["changes"], len(seen["remarks"])), ({}, 1), words)


@test
def wrappers_of_any_name_are_followed(w):
    """A program that is no known launcher, or lies where none is expected, starts the Python program
    among its operands."""
    e = Env(w, w.top / "proj/.venv")
    top = e.dir.parent
    (top / "app.py").write_text(PROGRAM)
    (top / "pyproject.toml").write_text("")
    (top / "tools").mkdir()
    for name in ("nice", "timeout", "mywrapper", "uv"):
        shutil.copy("/bin/true", top / "tools" / name)

    def told(*words):
        seen = w.told(*words, cwd=top, env={"PATH": "/usr/bin:/bin"})
        return seen["program"]["python"], bool(seen["changes"]), seen["remarks"]

    for words in (("tools/nice", e.python), ("tools/timeout", "9", e.python), ("tools/mywrapper", "-v", "x", e.python),
                  ("tools/mywrapper", "-v", "--", e.python), ("sh", "-c", "exec tools/mywrapper %s app.py" % e.python),
                  ("tools/uv", "run"), ("tools/uv", "run", "python")):
        expect(told(*words, *([] if words[0] == "sh" else ["app.py"])), (str(e.python), True, []), "%s" % (words,))
    expect(told("tools/mywrapper", "--python", e.python), (None, False, []), "the value of an option")


@test
def what_is_out_of_reach_is_said(w):
    """An environment that lies here is not taken for that of a container."""
    Env(w, w.top / ".venv")
    (w.top / "bin").mkdir()
    for name, reason in (("docker", "in a container"), ("podman", "in a container"), ("ssh", "own command there")):
        shutil.copy("/bin/true", w.top / "bin" / name)
        seen = w.told(name, "run", "x", cwd=w.top, env={"PATH": "%s/bin:/usr/bin:/bin" % w.top})
        expect((seen["program"]["python"], seen["changes"], len(seen["remarks"])), (None, {}, 1), name)
        expect_in(reason, seen["remarks"][0], name)
        expect("assumed" in seen["remarks"][0], False, name)
        script = w.top / ("by-" + name)
        script.write_text("#!/bin/sh\nset -e\n%s pull x\nexec %s run x \"$@\"\n" % (name, name))
        script.chmod(0o755)
        for words in (("sh", "-c", name + " run x"), ("bash", "-c", "cd / && timeout 9 %s run x" % name), (script,),
                      ("sh", "-c", "if true; then %s; fi" % script)):
            by_shell = w.told(*words, cwd=w.top, env={"PATH": "%s/bin:/usr/bin:/bin" % w.top})
            expect((by_shell["changes"], by_shell["remarks"]), ({}, seen["remarks"]), "%s: %s" % (name, words))
    more = "docker run x; ./unknown.awk"
    (w.top / "unknown.awk").write_text("#!/usr/bin/awk -f\nBEGIN {}\n")
    (w.top / "unknown.awk").chmod(0o755)
    seen = w.told("sh", "-c", more, cwd=w.top, env={"PATH": "%s/bin:/usr/bin:/bin" % w.top})
    expect("is assumed" in seen["remarks"][0], True, "another program that is not known: %s" % seen["remarks"])


@test
def sudo_drops_them(w):
    """What the loader and sudo remove from the environment is said, where something is missing."""
    e = Env(w, w.top / "venv")
    (w.top / "bin").mkdir()
    shutil.copy("/bin/true", w.top / "bin/sudo")
    active = {"PATH": "%s/bin:%s/bin:/usr/bin:/bin" % (w.top, e.dir)}
    done = w.run("sudo", "-E", "-u", "nobody", e.python, e.program, env=active)
    expect((done.returncode, b"gpumend run -- COMMAND" in done.stderr, b"libcublas" in done.stderr),
           (0, True, True), "sudo -E: %r" % done.stderr)
    done = w.run("sudo", "-E", "python", e.program, env=active)
    expect_in(b"secure_path", done.stderr, "a name behind sudo")
    fine = w.run("sudo", PYTHON, "-c", "print(1)", env=active)
    expect(fine.stderr, b"", "nothing is missing")


@test
def scripts_that_set_the_path_themselves(w):
    e = Env(w, w.top / "venv")
    for text, word in (("export LD_LIBRARY_PATH=/opt/x:$LD_LIBRARY_PATH", b"sets LD_LIBRARY_PATH itself"),
                       ("export LD_LIBRARY_PATH=`cat folders`", b"known only by running it")):
        done = w.run(e.path("start.sh", "#!/bin/sh\n%s\nexec %s %s\n" % (text, e.python, e.program)))
        expect((done.stdout, word in done.stderr), (b"not found\n", True), text + ": %r" % done.stderr)
    script = e.path("start.sh", "#!/bin/sh\nexport LD_LIBRARY_PATH=%s\nexec %s %s\n"
                    % (e.cublas, e.python, e.program))
    done = w.run(script)
    expect((done.stdout, done.stderr), (b"found\n", b""), "it has set the right folder itself")


@test
def environment_beside(w):
    """Where the program is not seen, the environment in the folder is assumed, and that is said."""
    e = Env(w, w.top / ".venv")
    script = e.path("../server", "#!/usr/bin/awk -f\nBEGIN {}\n")
    told = w.told(script, env={"PATH": "/usr/bin:/bin"})
    expect((list(told["changes"]), [r for r in told["remarks"] if "is assumed" in r] != []),
           (["LD_LIBRARY_PATH"], True), "beside the script: %s" % told["remarks"])
    again = w.told(script, cwd="/")
    expect(again["changes"], told["changes"], "from elsewhere")


@test
def evaluated_texts(w):
    """The text of an eval is read where it is known, and else it is said."""
    e = Env(w, w.top / "venv")
    for text in ("eval 'exec \"$0\" \"$@\"'", "eval exec '\"$0\"' '\"$@\"'",
                 "c='exec \"$0\" \"$@\"'; eval \"$c\""):
        told = w.told("/bin/sh", "-c", text, e.python, e.program)
        expect((bool(told["changes"]), told["remarks"]), (True, []), text)
    told = w.told("/bin/sh", "-c", 'eval "$(cat app)"', cwd="/")
    expect((told["changes"], len(told["remarks"])), ({}, 1), "known only by running it")
    expect_in("known only by running it", told["remarks"][0], "the remark")


@test
def hostile_scripts(w):
    """They end at once, and are no reason not to start."""
    texts = ["A=x\n" + "A=$A$A$A$A\n" * 2000 + "exec $A", ". $0\n" * 3000, "exec $0 $0 $0\n", "$(" * 60000,
             "'" + "x" * 60000, "exec " + "a " * 30000, "if " * 20000, "<<" * 30000, "${a:-" * 12000,
             '"$(' * 20000, "`" * 60001, "export LD_PRELOAD=${LD_PRELOAD:-" * 1000, "\\", "\\\n" * 30000,
             "set -- " + '"$@" "$@" x\n' * 4000, 'set -- "$@" "$@" x\n' * 4000, "x" * 70000, "\0exec python",
             "uv run " * 8000, "nice " * 8000 + "python", "eval " * 8000, "env -S 'env -S x' " * 3000]
    for text in texts:
        script = w.top / "hostile.sh"
        script.write_text("#!/bin/sh\n" + text)
        script.chmod(0o755)
        began = time.monotonic()
        told = w.told(script)
        expect((told["changes"], time.monotonic() - began < 5), ({}, True), "%r" % text[:40])


@test
def factory_is_not_seen(w):
    """A program that imports no GPU package itself is mended for all that are installed."""
    e = Env(w, w.top / "venv")
    server = e.path("server.py", "import importlib\nprint(importlib.import_module('ctranslate2').look())\n")
    expect_found(w, e.python, server)


@test
def values_are_kept_behind_ours(w):
    e = Env(w, w.top / "venv")
    changes = w.told(e.python, e.program, env={"LD_LIBRARY_PATH": "/opt/a:/opt/b"})["changes"]
    expect(changes, {"LD_LIBRARY_PATH": "%s:/opt/a:/opt/b" % e.cublas}, "LD_LIBRARY_PATH")
    changes = w.told(e.python, e.program, env={"LD_LIBRARY_PATH": ""})["changes"]
    expect(changes, {"LD_LIBRARY_PATH": str(e.cublas)}, "an empty LD_LIBRARY_PATH")
    old = w.cc("int old;", w.top / "old.so", "-shared", "-fPIC")
    changes = w.told(e.python, e.program, options=("--preload-only",),
                     env={"LD_PRELOAD": str(old)})["changes"]
    expect(list(changes), ["LD_PRELOAD"], "--preload-only")
    first, last = changes["LD_PRELOAD"].split(":")[0], changes["LD_PRELOAD"].split(":")[-1]
    expect((os.path.dirname(first), last), (str(e.cublas), str(old)), "LD_PRELOAD")


@test
def ways_can_be_chosen(w):
    e = Env(w, w.top / "venv")

    def out(*options, **env):
        done = w.run(e.python, e.program, options=options, env=env)
        return done.stdout.decode().strip(), done.stderr.count(b"\n")

    expect(out("--preload-only"), ("found", 0), "--preload-only")
    expect(out("--no-preload"), ("found", 0), "--no-preload")
    expect(list(w.told(e.python, e.program, options=("--no-preload",))["changes"]),
           ["LD_LIBRARY_PATH"], "--no-preload")
    expect(out("--keep-env"), ("found", 0), "--keep-env, nothing set")
    expect(list(w.told(e.python, e.program, options=("--keep-env",),
                       env={"LD_LIBRARY_PATH": "/opt/a"})["changes"]),
           ["LD_PRELOAD"], "--keep-env, the search path set")
    word, lines = out("--keep-env", LD_LIBRARY_PATH="/opt/a", LD_PRELOAD="libc.so.6")
    expect((word, lines > 0), ("not found", True), "--keep-env, both set: it says so")


@test
def printed_lines_make_the_same_environment(w):
    e = Env(w, w.top / "ve nv'$x\"")
    for value in ("/opt/it's $HOME\n\"x\":/b\\n", "/a\x1b[2J%s\\'; touch PWN; '\n\n", "/\u202eb"):
        same_environment(w, e, {"LD_LIBRARY_PATH": value})


def same_environment(w, e, env):
    options = ("--device", "cpu")
    show = (e.python, "-c", "import ctranslate2, os; "
            "print({k: os.environ.get(k) for k in ('LD_LIBRARY_PATH', 'LD_PRELOAD', "
            "'HIP_VISIBLE_DEVICES', 'CUDA_VISIBLE_DEVICES')}, ctranslate2.look())")
    lines = w.run(*show, options=("--print", *options), env=env)
    expect((lines.returncode, lines.stderr), (0, b""), "--print")
    evaluated = w.plain("sh", "-c", 'eval "$LINES_"; unset LINES_; exec "$@"', "sh", *show,
                        env={**env, "LINES_": lines.stdout.decode()})
    started = w.run(*show, options=options, env=env)
    expect(evaluated.stdout, started.stdout, "eval of --print")
    expect_in(b" found\n", started.stdout, "mended")


@test
def what_cannot_be_mended_is_said(w):
    e = Env(w, w.top / "venv", with_cublas=False)
    done = w.run(e.python, e.program)
    expect((done.returncode, done.stdout, done.stderr.count(b"\n")), (0, b"not found\n", 1),
           "started all the same, and one line")
    expect_in(b"libcublas.so.12", done.stderr, "the line")
    again = w.run(e.python, e.program)
    expect(again.stderr, done.stderr, "the line of a cached plan")
    done = w.run("env", "-i", e.python, e.program)
    expect((done.stdout, b"env -i" in done.stderr), (b"not found\n", True), "env -i")


# ---- plans that are kept -------------------------------------------------------------------------

@test
def second_start_uses_the_cache(w):
    e = Env(w, w.top / "venv")
    command = (e.python, e.program)
    expect([w.told(*command)["cached"] for _ in range(3)], [False, True, True], "cached")
    plans = list((w.top / "cache/gpumend/plans").iterdir())
    expect([p.stat().st_mode & 0o777 for p in plans], [0o600], "one file, for its owner")
    expect((w.top / "cache/gpumend/plans").stat().st_mode & 0o777, 0o700, "the folder")
    first, second = w.told(*command), w.told(*command)
    expect(first, second, "the same answer")
    for more in ({"options": ("--no-preload",)}, {"env": {"LD_LIBRARY_PATH": "/x"}}, {"cwd": "/"},
                 {"env": {"CUDA_VISIBLE_DEVICES": "0"}}):
        expect(w.told(*command, **more)["cached"], False, "another question: %s" % more)
    expect(w.told(e.python, "-c", PROGRAM)["cached"], False, "another program")
    expect(w.told(*command)["cached"], True, "the first one is still known")


@test
def changes_end_a_kept_plan(w):
    e = Env(w, w.top / "venv")

    def change(what, action):
        w.told(e.python, e.program)
        expect(w.told(e.python, e.program)["cached"], True, "before: " + what)
        action()
        e.settle()
        told = w.told(e.python, e.program)
        expect(told["cached"], False, "after: " + what)
        return told

    change("a package is installed", lambda: e.dist("other", "1.0"))
    change("a package is another version", lambda: (
        e.site / "ctranslate2-4.8.5.dist-info").rename(e.site / "ctranslate2-4.8.4.dist-info"))
    change("the program changes", lambda: e.program.write_text(PROGRAM + "\n"))
    change("a module appears beside it",
           lambda: (e.program.parent / "ctranslate2.py").write_text(""))
    (e.program.parent / "ctranslate2.py").unlink()
    e.settle()
    w.told(e.python, e.program)
    (e.program.parent / "output.log").write_text("")
    expect(w.told(e.python, e.program)["cached"], True, "files that the program writes")
    change("a library is replaced", lambda: w.cc("int version = 13;", e.cublas / "new.so",
           "-shared", "-fPIC", "-Wl,-soname,libcublas.so.12").rename(e.cublas / "libcublas.so.12"))
    change("pyvenv.cfg changes", lambda: os.utime(e.dir / "pyvenv.cfg"))
    told = change("the library is deleted", lambda: shutil.rmtree(e.cublas))
    expect((told["changes"], [x["cause"] for x in told["left"]]), ({}, ["library-missing"]),
           "without the library")
    shutil.rmtree(e.site / "nvidia_cublas_cu12-12.4.5.8.dist-info")
    e.add_cublas()
    e.settle()
    expect(list(w.told(e.python, e.program)["changes"]), ["LD_LIBRARY_PATH"], "it is back")


@test
def fresh_changes_are_not_kept(w):
    """What changed while the plan was made could have been missed."""
    e = Env(w, w.top / "venv")
    young = 0
    for _ in range(12):     # on a busy machine a start may come too late to find it young
        began = time.monotonic()
        os.utime(e.cublas / "libcublas.so.12")
        w.told(e.python, e.program)
        if time.monotonic() - began < YOUNG_S:
            expect(w.told(e.python, e.program)["cached"], False, "a library as young as the plan")
            young += 1
    if not young:
        raise Skip("no start was made within %g s" % YOUNG_S)


@test
def spoilt_plans_do_no_harm(w):
    e = Env(w, w.top / "venv")
    w.told(e.python, e.program)
    plan = next((w.top / "cache/gpumend/plans").iterdir())
    good = plan.read_bytes()
    for at in (*range(0, len(good), max(1, len(good) // 40)), len(good) - 1):
        for bad in (good[:at], good[:at] + bytes([good[at] ^ 1]) + good[at + 1:]):
            plan.write_bytes(bad)
            told = w.told(e.python, e.program)
            expect((told["cached"], list(told["changes"])), (False, ["LD_LIBRARY_PATH"]),
                   "spoilt at %d" % at)
    expect(w.told(e.python, e.program)["cached"], True, "written anew")
    plan.unlink()
    plan.mkdir()
    expect(list(w.told(e.python, e.program)["changes"]), ["LD_LIBRARY_PATH"], "a folder")


@test
def plans_of_others_do_not_count(w):
    e = Env(w, w.top / "venv")
    w.told(e.python, e.program)
    folder = w.top / "cache/gpumend/plans"
    plan = next(folder.iterdir())

    def cached():
        return w.told(e.python, e.program)["cached"]

    expect(cached(), True, "at first")
    plan.chmod(0o622)
    expect((cached(), cached()), (False, True), "others may write it: made anew")
    os.rename(plan, w.top / "elsewhere")
    plan.symlink_to(w.top / "elsewhere")
    expect((cached(), cached()), (False, True), "a link: made anew")
    folder.chmod(0o777)
    expect((cached(), cached()), (False, False), "others may write the folder")
    folder.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(plan, 65534, 65534)
        expect((cached(), cached()), (False, True), "another owner: made anew")
        os.chown(folder, 65534, 65534)
        expect((cached(), cached()), (False, False), "the folder of another")


# ---- the real crash ------------------------------------------------------------------------------

@test
def the_crash_and_its_end(w):
    try:
        store.usable_python()
        wheels = store.Store(store.cache_folder(),
                             store.read_pins(TOP / "tests/scenarios/wheels.txt"), lambda text: None)
        env = wheels.build("launcher-%d" % os.getpid(), (
            "ctranslate2==4.5.0", "numpy==2.4.6", "pyyaml==6.0.3", "setuptools==80.10.2",
            "nvidia-cudnn-cu12==9.1.0.70", "nvidia-cublas-cu12==12.4.5.8",
            "nvidia-cuda-nvrtc-cu12==12.4.127"))
    except store.Skip as reason:
        raise Skip("ctranslate2 4.5.0 with nvidia-cudnn-cu12 9.1.0.70: %s" % reason)
    try:
        program = w.top / "crash.py"
        program.write_text(crash.PROGRAM)
        before = w.plain(env / "bin/python", program)
        expect(before.returncode, -signal.SIGABRT, "plainly: " + before.stderr.decode())
        expect_in(b"Unable to load any of {libcudnn_", before.stderr, "first line")
        expect_in(b"Invalid handle. Cannot load symbol cudnnCreateConvolutionDescriptor",
                  before.stderr, "second line")
        for options in ((), ("--no-preload",), ("--preload-only",)):
            for _ in range(2):
                done = w.run(env / "bin/python", program, options=options)
                expect((done.returncode, done.stdout, done.stderr),
                       (0, b"status 0 handle True\n", b""), "run %s" % (options,))
    finally:
        shutil.rmtree(env, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*")
    parser.add_argument("gpumend", nargs="?", default=str(TOP / "build/gpumend"))
    args = parser.parse_args()
    exe = os.path.abspath(args.gpumend)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for function in TESTS:
        name = function.__name__.replace("_", "-")
        if not fnmatch.fnmatch(name, args.only):
            continue
        with tempfile.TemporaryDirectory(prefix="gpumend-launcher-") as top:
            try:
                function(World(exe, os.path.realpath(top)))
                counts["passed"] += 1
            except Skip as reason:
                counts["skipped"] += 1
                print("SKIP %s: %s" % (name, reason), flush=True)
            except Wrong as wrong:
                counts["failed"] += 1
                print("FAIL %s: %s" % (name, wrong), flush=True)
            except (subprocess.SubprocessError, OSError, ValueError) as late:
                counts["failed"] += 1
                print("FAIL %s: %s" % (name, late), flush=True)
    print("%d passed, %d failed, %d skipped" % tuple(counts.values()))
    return 1 if counts["failed"] or not sum(counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
