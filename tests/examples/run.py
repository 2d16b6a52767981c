#!/usr/bin/env python3
"""Every program below examples/ is run, with real packages and models of random weights.

    tests/examples/run.py [--gpumend PATH] [--only PATTERN] [--verbose]

An environment with uvicorn, gunicorn, ctranslate2 and the package gpumend. The service answers below
both servers, from each of two workers, by the very commands that its unit and its configuration hold;
`systemd-analyze verify` reads the unit. The desktop program runs on the CPU, and on a machine that shows
a GPU by its files (tests/trees) where ctranslate2 finds no driver, finds one of tests/probe/fake, or is
a stand-in that aborts as cuDNN does. Skipped where the wheels cannot be had.
"""

import argparse
import concurrent.futures
import contextlib
import fnmatch
import http.client
import importlib.util
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
EXAMPLES = TOP / "examples"
sys.path[:0] = [str(HERE), str(TOP / "tests/scenarios"), str(TOP / "tests/mend"), str(TOP / "tests/trees"),
                str(TOP / "tests/probe")]

import build                                                                        # noqa: E402
import cases                                                                        # noqa: E402
import lab                                                                          # noqa: E402
import machines                                                                     # noqa: E402
import store                                                                        # noqa: E402



def module(name, path):
    """A module that shares its name with one of another folder."""
    spec = importlib.util.spec_from_file_location(name, TOP / path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


python_package = module("python_run", "tests/python/run.py")
examples_image = module("examples_image", "tests/examples/image.py")
choice = module("choose_cases", "tests/choose/cases.py")
import tree                                                                         # noqa: E402  (tests/causes)

LIMIT_S = 90
SERVER = ("uvicorn==0.54.0", "click==8.5.1", "h11==0.16.0", "gunicorn==27.0.1", "uvicorn-worker==0.4.0",
          "packaging==26.3")
# As installers write it; without the condition, a worker that imports it would start the server anew.
SCRIPT = "#!%s\nimport sys\nfrom %s import %s\nif __name__ == '__main__':\n    sys.exit(%s())\n"
COMPOSE = "docker-compose==1.29.2"
CUDNN = "Unable to load any of {libcudnn_cnn.so.9.1.0, libcudnn_cnn.so.9.1, libcudnn_cnn.so.9, libcudnn_cnn.so}"


class Wrong(Exception):
    pass


def expect(holds, detail):
    if not holds:
        raise Wrong(str(detail)[-1500:])


class World:
    def __init__(self, env, home, args, wheels):
        self.env, self.home, self.verbose, self.wheels = env, pathlib.Path(home), args.verbose, wheels
        self.variables = {**store.clean_environment(), "HOME": str(home), "XDG_CACHE_HOME": str(home),
                          "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        for kind in ("translation", "whisper"):
            subprocess.run([env / "bin/python", HERE / "tiny.py", kind, self.home / kind], check=True,
                           env=self.variables, timeout=LIMIT_S)
        self.variables["MODEL"] = str(self.home / "translation")
        self.lab = lab.Lab(args.gpumend, self.home / "lab")


# ---------------------------------------------------------------- a service on CTranslate2

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(port, body=None):
    """Status and document, or None where nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET" if body is None else "POST", "/", body, {"Connection": "close"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


@contextlib.contextmanager
def serving(w, words, folder=EXAMPLES / "uvicorn"):
    """The server, and what it says in a file."""
    with open(w.home / "server.log", "w+", encoding="utf-8") as log:
        child = subprocess.Popen(words, cwd=folder, env=w.variables, stdin=subprocess.DEVNULL, stdout=log,
                                 stderr=subprocess.STDOUT, start_new_session=True)
        try:
            yield child, pathlib.Path(log.name)
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            if w.verbose:
                print("    | " + pathlib.Path(log.name).read_text().replace("\n", "\n    | "), flush=True)


def answers_of(w, words, port):
    """Two workers answer, on the CPU, with the reason; each translates; what is wrong is refused."""
    with serving(w, words) as (child, log):
        pids, end = set(), time.monotonic() + LIMIT_S
        while len(pids) < 2:
            expect(child.poll() is None and time.monotonic() < end, log.read_text())
            # Several at once, so that not one worker takes them all.
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                states = [a for a in pool.map(lambda _: ask(port), range(4)) if a]
            expect(all(s == 200 and d["device"] == "cpu" and "GPU" in d["reason"] for s, d in states), states)
            pids |= {d["pid"] for _, d in states}
            time.sleep(0.05)
        expect(child.pid not in pids, "the parent answers")
        for _ in range(4):
            status, said = ask(port, json.dumps({"tokens": ["one", "two"]}))
            expect(status == 200 and said["tokens"] and all(isinstance(t, str) for t in said["tokens"]), said)
        for body, status in (("no document", 400), ('{"tokens": 1}', 400), ("[]", 400), ('{"tokens": [1]}', 400),
                             (b"\xff", 400), ('{"tokens": []}', 200), ("x" * (2 << 20), 413)):
            expect(ask(port, body)[0] == status, (body[:40], ask(port, body)))
        said = log.read_text()
        # preload() has looked: this environment has no cuBLAS, which the log of the server says.
        expect("gpumend: libcublas.so.12" in said and "Traceback" not in said, said)
    expect(child.returncode in (0, -signal.SIGTERM), (child.returncode, log.read_text()))


def unit(w):
    """The unit's lines as they stand, with the place of the environment and of the service in them."""
    text = (EXAMPLES / "uvicorn/service.service").read_text()
    return text.replace("/opt/service/venv", str(w.env)).replace("/opt/service", str(w.home / "service"))


def value_of(text, key):
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(key + "=")]


def uvicorn_by_its_unit(w):
    port = free_port()
    start, = value_of(unit(w), "ExecStart")
    before, = value_of(unit(w), "ExecStartPre")
    done = subprocess.run(shlex.split(before.lstrip("-")), env=w.variables, capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)
    expect(done.returncode in (0, 1) and "libcublas.so.12" in done.stdout, done)
    words = shlex.split(start)
    words[words.index("--port") + 1] = str(port)
    answers_of(w, words, port)


def gunicorn_by_its_configuration(w):
    port = free_port()
    answers_of(w, [w.env / "bin/gunicorn", "-c", "gunicorn.conf.py", "-b", "127.0.0.1:%d" % port,
                   "service:create_app()"], port)


def unit_is_valid(w):
    tool = shutil.which("systemd-analyze")
    if not tool:
        raise store.Skip("there is no systemd-analyze")
    folder = w.home / "unit"
    folder.mkdir()
    file = folder / "service.service"
    for text, right in ((unit(w), True), (unit(w).replace("Restart=", "Restarts="), False)):
        file.write_text(text)
        done = subprocess.run([tool, "verify", "--recursive-errors=no", "--man=no", file], capture_output=True,
                              text=True, timeout=LIMIT_S, check=False)
        said = [line for line in (done.stdout + done.stderr).splitlines() if "service.service" in line]
        expect((done.returncode == 0 and not said) == right, (right, done.returncode, said))


def requirements(_):
    """What the test installs is what the example's list names."""
    named = {line.strip() for line in (EXAMPLES / "uvicorn/requirements.txt").read_text().splitlines()}
    have = {r.split("==")[0] for r in (*SERVER, *cases.CT_485)}
    expect(named <= have, named - have)


# ---------------------------------------------------------------- a desktop program

class Desktop:
    """The program, with lines of its input given one by one."""

    def __init__(self, w, variables=()):
        self.child = subprocess.Popen(
            [w.env / "bin/python", EXAMPLES / "desktop/desktop.py", w.home / "whisper"],
            env={**w.variables, **dict(variables)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.w, self.lines = w, []

    def until(self, pattern):
        """Lines up to one that matches; ret that one."""
        for line in self.child.stdout:
            self.lines.append(line.rstrip("\n"))
            if re.search(pattern, line):
                return line
        raise Wrong("%r never came: %s %s" % (pattern, self.lines, self.child.stderr.read()[-800:]))

    def say(self, text):
        self.child.stdin.write(text + "\n")
        self.child.stdin.flush()

    def worker(self):
        """The model's process: the child that is no helper of multiprocessing's."""
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                line = (path.parent / "cmdline").read_bytes()
                if int(fields[1]) == self.child.pid and b"resource_tracker" not in line:
                    return int(path.parent.name)
        raise Wrong("there is no model's process")

    def close(self):
        self.say("quit")
        rest, errors = self.child.communicate(timeout=LIMIT_S)
        expect(self.child.returncode == 0 and not rest and not errors, (self.child.returncode, rest, errors))
        left = list(self.w.home.glob("model-*"))
        expect(not left, left)


@contextlib.contextmanager
def desktop(w, variables=()):
    d = Desktop(w, variables)
    timer = threading.Timer(LIMIT_S, d.child.kill)  # ends what waits for its lines
    timer.start()
    try:
        yield d
        d.close()
    finally:
        timer.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(d.child.pid, signal.SIGKILL)
        d.child.wait()
        if w.verbose:
            print("    | " + "\n    | ".join(d.lines), flush=True)


# `choose` asks about an environment of that machine, everything else about the real one.
ELSEWHERE = """#!/bin/sh
if [ "$1" = choose ]; then
    for word do
        shift
        case $word in */python*) word=/opt/venv ;; esac
        set -- "$@" "$word"
    done
    set -- "$@" --root %s
fi
exec %s "$@"
"""


@contextlib.contextmanager
def on_machine(w, machine):
    """`choose` looks at a captured machine, which has an environment with ctranslate2 and cuBLAS."""
    with tempfile.TemporaryDirectory(dir=w.home) as folder:
        top = os.path.join(folder, "root")
        choice.ct2(tree.Tree(pathlib.Path(top)))
        build.write(machine, pathlib.Path(top))
        program, real = w.env / "bin/gpumend", w.env / "bin/gpumend.real"
        os.replace(program, real)
        program.write_text(ELSEWHERE % (shlex.quote(top), shlex.quote(str(real))))
        program.chmod(0o755)
        try:
            yield
        finally:
            os.replace(real, program)


GPU = machines.merged(machines.system(), machines.nvidia("570.124.06", machines.RTX4090))

# What ctranslate2 is for the program, on a machine whose GPU this one lacks.
STAND_IN = '''import os, sys
from numpy import asarray


class StorageView:
    @staticmethod
    def from_array(array):
        return asarray(array)


class models:
    class Whisper:
        n_mels = 80

        def __init__(self, folder, device, device_index, compute_type, intra_threads):
            self.device = device
            if device == "cuda" and os.path.exists(os.path.join(folder, "too-large")):
                raise RuntimeError("CUDA failed with error out of memory")
            if os.path.exists(os.path.join(folder, "damaged")):
                raise RuntimeError("File model.bin is incomplete: failed to read a buffer of size 4")

        def encode(self, sound):
            if self.device == "cuda" and "ABORTS" in os.environ:
                sys.stderr.write("%s\\n")
                sys.stderr.flush()
                os.abort()
''' % CUDNN


def stand_in(w):
    folder = w.home / "stand-in"
    if not folder.exists():
        (folder / "ctranslate2").mkdir(parents=True)
        (folder / "ctranslate2/__init__.py").write_text(STAND_IN)
    return {"PYTHONPATH": str(folder)}


def model(w, name, mark=None):
    folder = w.home / name
    if not folder.exists():
        shutil.copytree(w.home / "whisper", folder)
        if mark:
            (folder / mark).touch()
    return folder


def desktop_on_the_cpu(w):
    """And the switch, to a model that exists, to none, and to one that is damaged."""
    other, damaged = model(w, "other"), model(w, "short")
    (damaged / "model.bin").unlink()  # it may be a link
    (damaged / "model.bin").write_bytes((w.home / "whisper/model.bin").read_bytes()[:3000])
    with desktop(w) as d:
        d.until("whisper: ready on cpu")
        d.say("hear")
        d.until("heard 1 s of silence on cpu")
        first = d.worker()
        d.say("use %s" % other)
        d.until("other: ready on cpu")
        expect(d.worker() != first and not os.path.exists("/proc/%d" % first), "the old process lives")
        d.say("use /nowhere")
        d.until("No such file")
        d.say("use %s" % damaged)
        d.until("short: not on cpu: .+")
        d.until("other: ready on cpu")
        d.until("short runs on no device")
        d.say("hear")
        d.until("heard 1 s of silence on cpu")


def desktop_without_driver(w):
    """The files show a GPU; the runtime in ctranslate2 finds no driver, and says so."""
    with on_machine(w, GPU), desktop(w) as d:
        d.until("RTX 4090")
        d.until("whisper: not on cuda: .+")
        d.until("whisper: ready on cpu")
        d.say("hear")
        d.until("heard 1 s of silence on cpu")


def desktop_with_a_fake_driver(w):
    """The real ctranslate2 opens a libcuda that is none: whatever becomes of it, the window lives."""
    fake = w.lab.environment([w.lab.driver()], "cards value 1\n")
    variables = {k: fake[k] for k in ("LD_LIBRARY_PATH", "FAKE_GPU_TABLE")}
    with on_machine(w, GPU), desktop(w, variables) as d:
        d.until("whisper: not on cuda: .+")
        d.until("whisper: ready on cpu")
        d.say("hear")
        d.until("heard 1 s of silence on cpu")


def desktop_on_a_gpu(w):
    """It takes the GPU; a larger model goes to the CPU; the next one has the GPU again."""
    large, damaged = model(w, "large", "too-large"), model(w, "damaged", "damaged")
    with on_machine(w, GPU), desktop(w, stand_in(w)) as d:
        d.until("whisper: ready on cuda")
        d.say("use %s" % large)
        d.until("large: not on cuda: .*memory")
        d.until("large: ready on cpu")
        d.say("use %s" % (w.home / "whisper"))
        d.until("whisper: ready on cuda")
        d.say("use %s" % damaged)
        d.until("damaged: not on cuda")
        d.until("damaged: not on cpu")
        d.until("whisper: ready on cuda")
        d.until("damaged runs on no device")
        os.kill(d.worker(), signal.SIGKILL)
        d.say("hear")
        d.until("the model stopped: ")
        d.until("whisper: ready on cpu")
        d.until("heard 1 s of silence on cpu")


def desktop_that_aborts(w):
    """As in a library that calls abort(): the window names the cause, and goes on."""
    with on_machine(w, GPU), desktop(w, {**stand_in(w), "ABORTS": "1"}) as d:
        d.until("whisper: not on cuda: .*cudnn_cnn")
        d.until("whisper: ready on cpu")
        d.say("hear")
        d.until("heard 1 s of silence on cpu")


# ---------------------------------------------------------------- WhisperX in a container

# Takes what whisperx 3.8.6 takes (its __main__.py), and shows it.
WHISPERX = """#!%s
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("audio", nargs="+")
parser.add_argument("--model")
parser.add_argument("--device")
parser.add_argument("--device_index", type=int)
parser.add_argument("--compute_type", choices=["default", "float16", "float32", "int8"])
parser.add_argument("--threads", type=int)
a = parser.parse_args()
print(*a.audio, a.model, a.device, a.compute_type)
"""


def whisperx_options(w):
    """transcribe.py gives whisperx what works on the machine, and what the user says wins."""
    program = w.env / "bin/whisperx"
    program.write_text(WHISPERX % (w.env / "bin/python"))
    program.chmod(0o755)

    def said(*words, **variables):
        done = subprocess.run([w.env / "bin/python", EXAMPLES / "whisperx/transcribe.py", *words],
                              env={**w.variables, **variables}, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=LIMIT_S, check=False)
        expect(done.returncode == 0, done)
        return done.stdout.strip()

    expect(said("a.wav") == "a.wav small cpu int8", said("a.wav"))
    with on_machine(w, GPU):
        expect(said("a.wav") == "a.wav small cuda float16", said("a.wav"))
        expect(said("a.wav", "--device", "cpu") == "a.wav small cpu float16", said("a.wav", "--device", "cpu"))
    with on_machine(w, machines.MACHINES["gtx1080-driver-580"][1]):  # chosen is int8_float32, which whisperx does not take
        text = said("a.wav", WHISPERX_MODEL="large-v3")
        expect(text == "a.wav large-v3 cuda int8", text)


def whisperx_compose_file(w):
    """It is valid by the schema of Docker's program, and only the service for a GPU asks for one."""
    try:
        import jsonschema
        import yaml
    except ImportError as why:
        raise store.Skip(str(why)) from why
    w.wheels.provide([COMPOSE])
    schema = json.loads((w.wheels.wheel_folder(COMPOSE) / "compose/config/compose_spec.json").read_text())
    valid = jsonschema.Draft7Validator(schema)
    document = yaml.safe_load((EXAMPLES / "whisperx/compose.yaml").read_text())
    faults = [e.message for e in valid.iter_errors(document)]
    expect(not faults, faults)
    services = document["services"]
    expect(list(valid.iter_errors({"services": {"gpu": {**services["gpu"], "profile": []}}})), "it refuses nothing")
    devices = {n: s.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices")
               for n, s in services.items()}
    expect(devices == {"cpu": None, "gpu": [{"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}]}, devices)


# ---------------------------------------------------------------- a job of continuous integration

def made_wheel(folder, name, version, files):
    """Of files by their place in site-packages, one of them its METADATA."""
    info = "%s-%s.dist-info" % (name, version)
    with zipfile.ZipFile(folder / ("%s-%s-py3-none-any.whl" % (name, version)), "w") as archive:
        for place, content in files.items():
            if isinstance(content, pathlib.Path):
                archive.write(content, place)
            else:
                archive.writestr(place, content)
        archive.writestr(info + "/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
                         "Tag: py3-none-any\n")
        archive.writestr(info + "/RECORD", "".join(n + ",,\n" for n in archive.namelist()) + info + "/RECORD,,\n")


def ctranslate2_wheel(folder):
    """One that names libcublas.so.12 as the real one does, in a few kilobytes."""
    t = tree.Tree(folder / "tree")
    t.python().ctranslate2("4.8.1")
    site = pathlib.Path(str(t.top) + t.site)
    made_wheel(folder / "wheels", "ctranslate2", "4.8.1",
               {str(p.relative_to(site)): p for p in site.glob("ctranslate2*/**/*")
                if p.is_file() and p.name not in ("RECORD", "WHEEL")})


def steps(w, workspace, failed=False):
    """What the runner does with each `run`, by its shell; ret {name: (status, output)}."""
    import yaml
    job, = yaml.safe_load((EXAMPLES / "ci/gpumend.yml").read_text())["jobs"].values()
    said = {}
    for step in job["steps"]:
        if "run" in step and (not failed or step.get("if") == "always()"):
            done = subprocess.run(
                ["bash", "-e", "-c", step["run"]], cwd=workspace, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=LIMIT_S, check=False,
                env={**w.variables, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(workspace / "wheels")})
            said[step["name"]] = (done.returncode, done.stdout + done.stderr)
            failed |= done.returncode != 0
    log = json.loads((workspace / "gpumend.sarif").read_text())
    return said, [r["ruleId"] for r in log["runs"][0]["results"]]


def ci_job(w):
    """It fails where a library is missing, with annotations and a log; and not where all is there."""
    workspace = w.home / "job"
    (workspace / "wheels").mkdir(parents=True)
    examples_image.gpumend_wheel(w.env / "bin/gpumend", workspace / "wheels")
    ctranslate2_wheel(workspace)
    (workspace / "requirements.txt").write_text("ctranslate2\n")
    said, rules = steps(w, workspace)
    expect({name: status for name, (status, _) in said.items()} == {"Install": 0, "Annotate": 1, "Log": 0}, said)
    expect("::error title=gpumend%3A library-missing::libcublas.so.12" in said["Annotate"][1], said)
    expect("library-missing" in rules, rules)
    shutil.rmtree(next((workspace / ".venv").glob("lib/*/site-packages/ctranslate2")))
    shutil.rmtree(next((workspace / ".venv").glob("lib/*/site-packages/ctranslate2-4.8.1.dist-info")))
    (workspace / "requirements.txt").write_text("")
    (workspace / "gpumend.sarif").unlink()
    said, rules = steps(w, workspace)
    expect([status for status, _ in said.values()] == [0, 0, 0], said)
    expect("gpumend: ok" in said["Annotate"][1] and not rules, (said, rules))


PARTS = [requirements, unit_is_valid, uvicorn_by_its_unit, gunicorn_by_its_configuration, desktop_on_the_cpu,
         desktop_without_driver, desktop_with_a_fake_driver, desktop_on_a_gpu, desktop_that_aborts,
         whisperx_options, whisperx_compose_file, ci_job]


def make_environment(wheels, exe):
    env = wheels.build("examples", (*SERVER, *cases.CT_485))
    for name, module, function in (("uvicorn", "uvicorn.main", "main"), ("gunicorn", "gunicorn.app.wsgiapp", "run")):
        script = env / "bin" / name
        script.write_text(SCRIPT % (env / "bin/python", module, function, function))
        script.chmod(0o755)
    python_package.lay(exe, store.site_packages(env), env / "bin")
    return env


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpumend", default=str(TOP / "build/gpumend"))
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    args.gpumend = os.path.abspath(args.gpumend)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    parts = [p for p in PARTS if fnmatch.fnmatch(p.__name__, args.only)]
    wheels = store.Store(store.cache_folder(), store.read_pins(TOP / "tests/scenarios/wheels.txt"),
                         lambda text: args.verbose and print("  " + text, flush=True))
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    try:
        store.usable_python()
        env = make_environment(wheels, args.gpumend)
    except store.Skip as why:
        print("SKIP all: %s\n0 passed, 0 failed, %d skipped" % (why, len(parts)))
        return 0
    try:
        with tempfile.TemporaryDirectory(prefix="gpumend-examples-") as home:
            w = World(env, os.path.realpath(home), args, wheels)
            for part in parts:
                name, started, kind = part.__name__.replace("_", "-"), time.monotonic(), "failed"
                try:
                    part(w)
                    kind, text = "passed", "ok   %s" % name
                except store.Skip as why:
                    kind, text = "skipped", "SKIP %s: %s" % (name, why)
                except (Wrong, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
                    text = "FAIL %s: %s: %s" % (name, type(error).__name__, error)
                counts[kind] += 1
                print("%s (%.1f s)" % (text, time.monotonic() - started), flush=True)
    finally:
        shutil.rmtree(env, ignore_errors=True)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
