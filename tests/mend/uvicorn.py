#!/usr/bin/env python3
"""A server that crashes in each of its workers, and each way to mend it.

    tests/mend/uvicorn.py [--gpumend PATH] [--only PATTERN] [--verbose]

An environment with uvicorn, ctranslate2 4.5.0 and nvidia-cudnn-cu12 9.1.0.70, and an application whose
factory calls cudnnCreateConvolutionDescriptor in the library that ctranslate2 brings along: a server
that is started plainly aborts there. Three shapes of server: one worker, which is uvicorn's own
process; two workers, which Python's multiprocessing starts; and one that is started anew whenever its
source changes (--reload). Four repairs: `gpumend run`, `gpumend fix --apply`, `gpumend.preload()` as first
line of the application's module, `gpumend enable`. With each, in each shape, the server has to answer
with a handle: both of the two workers, and the one that comes after the source was changed as well.

After `fix --undo` and `disable` the server aborts again, and after every round the environment is what
it was: content, mode, owner, attributes, and times of files and folders. Skipped where the
wheels cannot be had.
"""

import argparse
import contextlib
import fnmatch
import http.client
import importlib.util
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
SCENARIOS = HERE.parent / "scenarios"
sys.path[:0] = [str(HERE), str(SCENARIOS)]

import cases                                                                        # noqa: E402
import crash                                                                        # noqa: E402
import state                                                                        # noqa: E402
import store                                                                        # noqa: E402

SPEC = importlib.util.spec_from_file_location("python_run", HERE.parent / "python/run.py")
python_package = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(python_package)

LIMIT_S = 120
WHEELS = ("uvicorn==0.54.0", "click==8.5.1", "h11==0.16.0", *cases.CT_450, *cases.CUDNN12)

# As installers write it for the entry point that uvicorn declares.
CONSOLE_SCRIPT = """#!%s
import re
import sys
from uvicorn.main import main
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])
    sys.exit(main())
"""

APPLICATION = """import ctypes
import json
import os

EDITION = %d


def mapped(part):
    with open("/proc/self/maps") as maps:
        return sorted({line.split(None, 5)[5].rstrip("\\n") for line in maps if part in line})


def create_app():
    import ctranslate2
    shim, = [path for path in mapped("/libcudnn-") if "ctranslate2.libs" in path]
    handle = ctypes.c_void_p()
    status = ctypes.CDLL(shim).cudnnCreateConvolutionDescriptor(ctypes.byref(handle))
    answer = {"pid": os.getpid(), "edition": EDITION, "status": status, "handle": bool(handle.value),
              "libraries": mapped("/libcudnn_")}

    async def application(scope, receive, send):
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 200,
                    "headers": [(b"content-type", b"application/json"), (b"connection", b"close")]})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    return application
"""
FIRST_LINE = "import gpumend; gpumend.preload()\n"

CRASH = re.compile(crash.SAYS)
RUNNING = re.compile(r"Uvicorn running on http://127\.0\.0\.1:(\d+)")

SHAPES = {"one-worker": (), "two-workers": ("--workers", "2"), "reload": ("--reload",)}


class Wrong(Exception):
    pass


class World:
    """The environment, and a folder with the application."""

    def __init__(self, env, home, args):
        self.env, self.home = env, pathlib.Path(home)
        self.exe, self.verbose = args.gpumend, args.verbose
        self.variables = {**store.clean_environment(), "HOME": str(home), "XDG_CACHE_HOME": str(home),
                          "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        self.application = self.home / "app/service.py"
        self.application.parent.mkdir()
        self.before = state.state(env)

    def gpumend(self, *words):
        done = subprocess.run([self.exe, *words], cwd=self.home, env=self.variables,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
        if self.verbose:
            print("  $ gpumend %s\n    %s" % (" ".join(words), (done.stdout + done.stderr).strip()
                                              .replace("\n", "\n    ")), flush=True)
        if done.returncode != 0:
            raise Wrong("gpumend %s: status %d: %s" % (" ".join(words), done.returncode, done.stderr[-500:]))
        return done.stdout

    def as_before(self, when):
        lines = state.differences(self.before, state.state(self.env))
        if lines:
            raise Wrong("%s %d paths differ: %s" % (when, len(lines), "; ".join(lines[:4])))

    def write_application(self, first_line, edition):
        """In one step, so that a server which watches it never sees half of it."""
        new = self.application.with_suffix(".new")
        new.write_text(first_line + APPLICATION % edition)
        os.replace(new, self.application)


class Server:
    """A uvicorn, in a session of its own, with its words in a file."""

    def __init__(self, world, options, prefix, log):
        self.log = log
        self.child = subprocess.Popen(
            [*prefix, str(world.env / "bin/uvicorn"), "--factory", "service:create_app", "--port", "0",
             "--no-access-log", "--no-use-colors", *options], cwd=world.application.parent, env=world.variables,
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def said(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def wait(self, what, happened):
        """What happened() says as soon as it is true."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            result = happened()
            if result:
                return result
            time.sleep(0.05)
        raise Wrong("%s: not within %d s; it said: %s" % (what, LIMIT_S, self.said()[-800:]))

    def answer(self):
        """What a worker answers; None: nobody does."""
        port = RUNNING.search(self.said())
        if not port:
            return None
        connection = http.client.HTTPConnection("127.0.0.1", int(port.group(1)), timeout=1)
        try:
            connection.request("GET", "/")
            return json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def stop(self):
        """As a user does, by ctrl-C; ret the status."""
        if self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGINT)
        try:
            return self.child.wait(20)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGKILL)


@contextlib.contextmanager
def serving(world, shape, prefix=()):
    with tempfile.NamedTemporaryFile("w", dir=world.home, prefix="log-") as log:
        server = Server(world, SHAPES[shape], prefix, log)
        try:
            yield server
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.stop()
            if world.verbose:
                print("    | " + server.said().strip().replace("\n", "\n    | "), flush=True)


# ---- what a server does ----------------------------------------------------------------------------

def crashed(server, times):
    return server.wait("the crash, %d times" % times, lambda: len(CRASH.findall(server.said())) >= times)


def change_source(world, server, first_line):
    """Until it is noticed: a change before uvicorn's first look, 0.25 s after the start, never is."""
    def noticed():
        world.write_application(first_line, 2)
        time.sleep(0.5)
        return "detected changes in 'service.py'" in server.said()

    server.wait("notice of the change", noticed)


def aborts(world, shape, when):
    """It aborts as everybody knows it, and serves nobody."""
    world.write_application("", 1)
    with serving(world, shape) as server:
        crashed(server, 2 if shape == "two-workers" else 1)
        if shape == "one-worker":
            status = server.child.wait(LIMIT_S)
            if status != -signal.SIGABRT:
                raise Wrong("%s it ends with status %d" % (when, status))
        if shape == "reload":
            change_source(world, server, "")
            crashed(server, 2)
        if server.answer() or "Application startup complete" in server.said():
            raise Wrong("%s it serves" % when)


def check_answer(world, answer):
    if (answer["status"], answer["handle"]) != (0, True):
        raise Wrong("the answer is %r" % answer)
    folder = str(store.site_packages(world.env) / "nvidia/cudnn/lib") + "/"
    elsewhere = [path for path in answer["libraries"] if not path.startswith(folder)]
    if elsewhere or not answer["libraries"]:
        raise Wrong("cuDNN is %s" % answer["libraries"])


def serves(world, shape, prefix=(), first_line=""):
    """Every worker answers with a handle; ret how many different ones did."""
    world.write_application(first_line, 1)
    pids = set()

    def answers(edition, number):
        answer = server.answer()
        if answer and answer["edition"] == edition:
            check_answer(world, answer)
            pids.add(answer["pid"])
        return len(pids) >= number

    with serving(world, shape, prefix) as server:
        number = 2 if shape == "two-workers" else 1
        server.wait("answers of %d workers" % number, lambda: answers(1, number))
        if shape == "one-worker" and pids != {server.child.pid}:
            raise Wrong("not the process that was started answers")
        if shape == "reload":
            change_source(world, server, first_line)
            server.wait("an answer after the source was changed", lambda: answers(2, 2))
        status = server.stop()
        if CRASH.search(server.said()) or "died" in server.said():
            raise Wrong("a worker died: %s" % server.said()[-600:])
        # A single server ends by the signal that it was given, once it has cleaned up.
        if status not in (0, -signal.SIGINT):
            raise Wrong("stopped, it ends with status %d" % status)
    return len(pids)


# ---- the repairs -----------------------------------------------------------------------------------

def run(world, shape):
    return serves(world, shape, prefix=(world.exe, "run", "--"))


def fix_apply(world, shape):
    said = world.gpumend("fix", str(world.env), "--apply")
    if "repaired" not in said:
        raise Wrong("fix --apply says: %s" % said)
    pids = serves(world, shape)
    world.gpumend("fix", str(world.env), "--undo")
    world.as_before("after --undo")
    aborts(world, shape, "after --undo")
    return pids


def preload(world, shape):
    return serves(world, shape, first_line=FIRST_LINE)


def enable(world, shape):
    world.gpumend("enable", str(world.env))
    pids = serves(world, shape)
    world.gpumend("disable", str(world.env))
    world.as_before("after disable")
    aborts(world, shape, "after disable")
    return pids


def plainly(world, shape):
    aborts(world, shape, "started plainly")
    return 0


ROUNDS = {"plainly": plainly, "run": run, "fix-apply": fix_apply, "preload": preload, "enable": enable}


def build(wheels, exe):
    env = wheels.build("uvicorn", WHEELS)
    script = env / "bin/uvicorn"
    script.write_text(CONSOLE_SCRIPT % (env / "bin/python"))
    script.chmod(0o755)
    python_package.lay(exe, store.site_packages(env), env / "bin")
    return env


def rounds(world, only):
    counts = {"passed": 0, "failed": 0}
    for shape in SHAPES:
        for name, function in ROUNDS.items():
            what, started = "%s: %s" % (shape, name), time.monotonic()
            if not fnmatch.fnmatch("%s-%s" % (shape, name), only):
                continue
            try:
                pids = function(world, shape)
                world.as_before("after the round")
                text = "ok   %s: %s" % (what, "%d processes answered" % pids if pids else "aborts")
                counts["passed"] += 1
            except (Wrong, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
                text = "FAIL %s: %s: %s" % (what, type(error).__name__, error)
                counts["failed"] += 1
            print("%s (%.1f s)" % (text, time.monotonic() - started), flush=True)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpumend", default=str(HERE.parents[1] / "build/gpumend"))
    parser.add_argument("--only", default="*", metavar="PATTERN", help="SHAPE-REPAIR")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    args.gpumend = os.path.abspath(args.gpumend)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    log = (lambda text: print("  " + text, flush=True)) if args.verbose else lambda _: None
    wheels = store.Store(store.cache_folder(), store.read_pins(SCENARIOS / "wheels.txt"), log)
    try:
        store.usable_python()
        env = build(wheels, args.gpumend)
    except store.Skip as why:
        number = len(SHAPES) * len(ROUNDS)
        print("SKIP all: %s\n0 passed, 0 failed, %d skipped" % (why, number))
        return 0
    try:
        with tempfile.TemporaryDirectory(prefix="gpumend-uvicorn-") as home:
            counts = rounds(World(env, os.path.realpath(home), args), args.only)
    finally:
        shutil.rmtree(env, ignore_errors=True)
    print("%(passed)d passed, %(failed)d failed, 0 skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
