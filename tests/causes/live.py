"""Running processes, the targets in which there is nothing to find, and `explain`."""

import dataclasses
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mend"))
import launcher  # noqa: E402
from tree import MACHINES, Skip, Tree, closed, compiled, dlopen_note

CASES = []
ANSWERS = {}
START_LIMIT_S = 20


@dataclasses.dataclass(frozen=True)
class Live:
    name: str
    cause: str
    cls: str
    severity: str
    script: str      # of the process; prints a line when it is ready, then waits
    before: callable  # (folder): before the process starts
    after: callable   # (folder, bad): once it is ready
    culprit: str


def run(exe, args, env=None):
    done = subprocess.run([exe, *args], env={"PATH": "/usr/bin:/bin", **(env or {})}, cwd="/",
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def as_nobody(exe, folder):
    """A script that starts gpumend as a user who owns nothing."""
    if os.geteuid() != 0:
        return exe
    script = folder / "as-nobody"
    script.write_text('#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups "%s" "$@"\n'
                      % exe)
    script.chmod(0o755)
    return str(script)


# ---- a live process -------------------------------------------------------------------------

WAIT = "print('ready', flush=True)\nsys.stdin.read()\n"
LIBRARY = "int here(void); int here(void) { return 1; }"


def put_library(folder):
    (folder / "libused.so.1").write_bytes(compiled(LIBRARY, "-Wl,-soname,libused.so.1"))


def replace_library(folder, bad):
    if bad:
        (folder / "libused.so.1").unlink()
        put_library(folder)


CASES.append(Live(
    "live-library-replaced", "mapped-file-deleted", "python-dep-conflict", "warning",
    "import ctypes, sys\nctypes.CDLL(sys.argv[1] + '/libused.so.1')\n" + WAIT,
    put_library, replace_library, "libused.so.1"))


def make_late(folder, bad):
    born = subprocess.run(["stat", "-c", "%W", folder], capture_output=True, text=True, check=False)
    if born.stdout.strip() in ("", "0", "-"):
        raise Skip("this file system does not know when a folder was made")
    if bad:
        time.sleep(2.5)  # the start time of a process is known to the second
        (folder / "late").mkdir()
        put_library(folder / "late")


def nothing(folder):
    pass


CASES.append(Live(
    "live-folder-made-later", "folder-created-late", "env-set-too-late", "warning",
    "import ctypes, sys\n" + WAIT, nothing, make_late, "*/late"))


def start(case, folder):
    python = "/usr/bin/python3"
    if not os.path.exists(python):
        raise Skip("no /usr/bin/python3 to start")
    child = subprocess.Popen([python, "-c", case.script, str(folder)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, cwd="/",
                             env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": f"{folder}/late"})
    if child.stdout.readline() != "ready\n":
        child.kill()
        raise RuntimeError("the process did not start")
    return child


def look(exe, case, folder, bad, show):
    folder.mkdir()
    case.before(folder)
    child = start(case, folder)
    try:
        case.after(folder, bad)
        status, text, error = run(exe, ["check", "--pid", str(child.pid), "--json"])
        if show and bad:
            print(run(exe, ["check", "--pid", str(child.pid)])[1])
    finally:
        child.stdin.close()
        child.wait(START_LIMIT_S)
        child.stdout.close()
    if error or status != 3:  # it has loaded nothing for a GPU
        raise RuntimeError("status %d: %s" % (status, error))
    return [f for f in json.loads(text)["findings"] if f["severity"] != "note"]


def run_case(exe, case, folder, show):
    found = look(exe, case, folder / "bad", True, show)
    told = ["%s %s %s %s" % (f["cause"], f["class"], f["severity"], f["culprit"]) for f in found]
    wrong = []
    if len(found) != 1 or found[0]["cause"] != case.cause or found[0]["class"] != case.cls \
            or found[0]["severity"] != case.severity or not found[0]["repairs"] \
            or not fnmatch.fnmatch(found[0]["culprit"], case.culprit):
        wrong.append("found: %s" % told)
    healthy = look(exe, case, folder / "good", False, show)
    wrong += ["the healthy twin has: " + f["summary"] for f in healthy]
    return wrong


# ---- what a live process will do next -------------------------------------------------------

def next_use(exe, folder, show, env, first=""):
    """The status and the errors of a process that has imported ctranslate2 and not used it."""
    world = launcher.World(exe, folder)
    made = launcher.Env(world, folder / "venv")
    program = first.format(cublas=made.cublas) + "import ctranslate2, sys\n" + WAIT
    child = subprocess.Popen([made.python, "-c", program], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, cwd="/",
                             env={"PATH": "/usr/bin:/bin", **{k: v.format(cublas=made.cublas)
                                                              for k, v in env.items()}})
    try:
        if child.stdout.readline() != "ready\n":
            raise RuntimeError("the process did not start")
        status, text, _ = run(exe, ["check", "--pid", str(child.pid), "--json"])
    finally:
        child.stdin.close()
        child.wait(START_LIMIT_S)
        child.stdout.close()
    document = json.loads(text)
    if show:
        print(document["findings"])
    return status, [(f["cause"], f["culprit"]) for f in document["findings"]
                    if f["severity"] == "error"], document


def launched(folder, made, words):
    """A launcher whose last child imports ctranslate2 and waits: the two process ids."""
    pipe = folder / "wait"
    os.mkfifo(pipe)
    program = folder / "app.py"
    program.write_text("import ctranslate2, os, sys\nprint(os.getpid(), flush=True)\n"
                       "open(%r).read()\n" % str(pipe))
    script = folder / "start.sh"
    script.write_text("#!/bin/sh\nset -e\n%s %s\ntrue\n" % (made.python, program))
    script.chmod(0o755)
    words = [w.format(script=script, python=made.python, program=program) for w in words]
    launcher_process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd="/",
                                        env={"PATH": "/usr/bin:/bin"})
    return launcher_process, int(launcher_process.stdout.readline()), pipe


# ---- answers that are no findings -----------------------------------------------------------

def answer(function):
    ANSWERS[function.__name__.replace("_", "-")] = function
    return function


def expect(exe, args, status, *words, show=False, verdict=None, env=None):
    """What is wrong with the text, evidence and all, and the JSON of a check."""
    got, text, error = run(exe, [*args, "-v"], env)
    if show:
        print(text)
    if got != status:
        yield "status %d, not %d: %s" % (got, status, (text + error)[-400:])
    yield from ("the text does not say %r:\n%s" % (w, text) for w in words if w not in text)
    if verdict:
        document = json.loads(run(exe, args + ["--json"], env)[1])
        if document["verdict"] != verdict:
            yield "verdict %s, not %s" % (document["verdict"], verdict)
        yield from ("found: " + f["summary"] for f in document["findings"]
                    if f["severity"] != "note")


def order_faults(exe, tree, causes, show):
    """What is wrong with the order of the errors."""
    done = run(exe, ["check", "--root", str(tree.top), tree.prefix, "--json"])
    found = [f["cause"] for f in json.loads(done[1])["findings"] if f["severity"] == "error"]
    if show:
        print(found)
    if found != causes:
        yield "errors are %s, not %s" % (found, causes)


@answer
def process_that_will_fail_at_its_next_use(exe, folder, show):
    """What its packages will open is asked for, in the process as it is."""
    wrong = []
    for name, env, first, wanted in (
            ("bad", {}, "", (1, [("library-not-on-path", "libcublas.so.12")])),
            ("found", {"LD_LIBRARY_PATH": "{cublas}"}, "", (0, [])),
            ("loaded", {}, "import ctypes\nctypes.CDLL('{cublas}/libcublas.so.12')\n", (0, []))):
        (folder / name).mkdir(parents=True)
        status, errors, document = next_use(exe, folder / name, show, env, first)
        if (status, errors) != wanted or "container" not in document["target"]:
            wrong.append("%s: %s" % (name, (status, errors, document["target"])))
    return wrong


def waiting(made, code, lines=("ready",), **env):
    """A process of the environment that has said these lines, in any order, and waits."""
    child = subprocess.Popen([made.python, "-c", "import sys\n" + code + WAIT], cwd="/", text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env={"PATH": "/usr/bin:/bin", **env})
    said = sorted(child.stdout.readline().strip() for _ in lines)
    if said != sorted(lines):
        ended(child)
        raise RuntimeError("the process did not start, it said %s" % said)
    return child


def ended(child):
    child.stdin.close()
    child.wait(START_LIMIT_S)
    child.stdout.close()


@answer
def process_that_has_not_loaded_its_packages(exe, folder, show):
    """A server imports at its first request: until then nothing that matters can be judged."""
    made = launcher.Env(launcher.World(exe, folder), folder / "venv")
    words = f"gpumend check {made.dir} --env 'LD_LIBRARY_PATH=/opt/some where'"
    child = waiting(made, "", LD_LIBRARY_PATH="/opt/some where")
    try:
        wrong = list(expect(exe, ["check", "--pid", str(child.pid)], 3, show=show, verdict="unknown"))
        said = " ".join(run(exe, ["check", "--pid", str(child.pid)])[1].split())
        wrong += [] if words in said and "has not loaded ctranslate2" in said else [said]
        snapshot = run(exe, ["snapshot", "--pid", str(child.pid)])[1]
    finally:
        ended(child)
    (folder / "taken.json").write_text(snapshot)
    again = " ".join(run(exe, ["check", "--snapshot", str(folder / "taken.json")])[1].split())
    return wrong + ([] if words in again else ["from a snapshot: " + again])


@answer
def process_that_has_opened_a_library_for_all(exe, folder, show):
    """The next library takes its symbols from one that is open with RTLD_GLOBAL, as the providers of
    onnxruntime do; no DT_NEEDED says so, nor does /proc. Where nobody defines them it is an error."""
    world = launcher.World(exe, folder)
    wrong = []
    for name, symbol, status in (("defined", "Provider_GetHost", 0), ("nowhere", "Other", 1)):
        made = launcher.Env(world, folder / name)
        capi = made.site / "onnxruntime/capi"
        capi.mkdir(parents=True)
        (capi.parent / "__init__.py").write_text("")
        state = capi / ("onnxruntime_pybind11_state" + launcher.sysconfig.get_config_var("EXT_SUFFIX"))
        world.cc("int x;", state, "-shared", "-fPIC")
        shared, provider = (capi / f"libonnxruntime_providers_{n}.so" for n in ("shared", "cuda"))
        world.cc("int Provider_GetHost(void) { return 1; }", shared, "-shared", "-fPIC")
        world.cc(f'__asm__(".section .nv_fatbin,\\"a\\"\\n.long 0\\n.previous"); '
                 f"int {symbol}(void); int f(void) {{ return {symbol}(); }}", provider,
                 "-shared", "-fPIC", "-Wl,-z,now")
        made.dist("onnxruntime-gpu", "1.23.2")
        process = waiting(made, "import ctypes\nctypes.CDLL(%r)\nctypes.CDLL(%r, ctypes.RTLD_GLOBAL)\n"
                          % (str(state), str(shared)))
        try:
            wrong += ["%s: %s" % (name, w) for w in expect(
                exe, ["check", "--pid", str(process.pid)], status,
                *([] if not status else ["needs the symbol Other"]), show=show,
                verdict=None if status else "ok")]
        finally:
            ended(process)
    return wrong


@answer
def process_whose_program_is_elsewhere(exe, folder, show):
    """A client of an engine has no children and no libraries: it shows nothing of the program."""
    child = subprocess.Popen(["/bin/sleep", "60"], env={})
    try:
        time.sleep(0.2)  # until it is sleep
        return list(expect(exe, ["check", "--pid", str(child.pid)], 3, "has loaded nothing for a GPU",
                           show=show, verdict="unknown"))
    finally:
        child.kill()
        child.wait()


@answer
def process_whose_children_use_a_gpu(exe, folder, show):
    """What a fork has loaded is judged with its parent; another program, other variables, a library
    more are not, and then nothing is called fine."""
    world = launcher.World(exe, folder)
    made = launcher.Env(world, folder / "venv")
    more = world.cc("int more;", folder / "libmore.so", "-shared", "-fPIC")
    wait = "print('child', flush=True); sys.stdin.read(); os._exit(0)"
    first = "import ctranslate2, ctypes, os, subprocess\n"
    fork = first + "if os.fork() == 0: %s" + wait + "\n"
    child = "import sys, ctranslate2, ctypes, os\n" + wait
    start = first + "subprocess.Popen([sys.executable, '-c', %r], env=%s)\n"
    wrong = []
    for name, code, status in (
            ("a fork", fork % "", 0),
            ("a fork with one library more", fork % f"ctypes.CDLL({str(more)!r}); ", 3),
            ("the same program", start % (child, "None"), 0),
            ("the same program, other variables", start % (child, "{}"), 3)):
        process = waiting(made, code, ("ready", "child"), LD_LIBRARY_PATH=str(made.cublas))
        try:
            got, text, _ = run(exe, ["check", "--pid", str(process.pid)])
            text = " ".join(text.split())
            if show:
                print(text)
            if got != status or (f"that process {process.pid} started" in text) != (status == 3):
                wrong.append(f"{name}: status {got}, not {status}: {text}")
        finally:
            ended(process)
    return wrong


@answer
def process_with_packages_of_the_user(exe, folder, show):
    """The interpreter has no environment of its own where its packages are: the user site's count."""
    made = launcher.Env(launcher.World(exe, folder), folder / "venv")
    shutil.copytree(folder / "venv/lib", folder / "home/.local/lib")
    shutil.rmtree(folder / "venv")
    child = subprocess.Popen([launcher.PYTHON, "-c", "import ctranslate2, sys\n" + WAIT],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
                             env={"PATH": "/usr/bin:/bin", "HOME": str(folder / "home")})
    try:
        if child.stdout.readline() != "ready\n":
            return ["the process did not start from %s" % made.cublas]
        return list(expect(exe, ["check", "--pid", str(child.pid)], 1, "libcublas.so.12",
                           "ctranslate2", show=show))
    finally:
        child.stdin.close()
        child.wait(START_LIMIT_S)
        child.stdout.close()


@answer
def process_beside_containers(exe, folder, show):
    """A process of the host sees the mounts of every container, and is in none; one whose own files
    an engine has mounted is in that container."""
    identity = "5e" * 32
    place = folder / "overlay-containers" / identity / "userdata"
    place.mkdir(parents=True)
    (place / "hostname").write_text("x\n")
    (place / "shm").mkdir()
    wrong = []
    for mount, container in (("mount -t tmpfs none '%s/shm'" % place, None),
                             ("mount --bind '%s/hostname' /etc/hostname" % place,
                              {"engine": "podman", "id": identity})):
        child = subprocess.Popen(["unshare", "-m", "sh", "-c", mount + " && echo ready && exec cat"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.DEVNULL, cwd="/")
        try:
            if child.stdout.readline() != "ready\n":
                raise Skip("no mount namespace here")
            text = run(exe, ["check", "--pid", str(child.pid), "--json"])[1]
        finally:
            child.stdin.close()
            child.wait(START_LIMIT_S)
            child.stdout.close()
        told = json.loads(text)["target"]["container"]
        wrong += [] if told == container else ["%s: %s" % (mount, told)]
    return wrong


@answer
def process_that_only_starts_the_program(exe, folder, show):
    """The launcher is not judged as if it were the program: its child is named, and is judged."""
    wrong = []
    supervisor = ("import subprocess, sys; "
                  "subprocess.run([sys.argv[1], sys.argv[2]], stdin=subprocess.DEVNULL)")
    for name, words in (("script", ["/bin/sh", "{script}"]),
                        ("timeout", ["/usr/bin/timeout", "60", "{python}", "{program}"]),
                        ("both", ["/usr/bin/timeout", "60", "/bin/sh", "{script}"]),
                        ("supervisor", ["/usr/bin/python3", "-c", supervisor, "{python}", "{program}"])):
        place = folder / name
        place.mkdir(parents=True)
        made = launcher.Env(launcher.World(exe, place), place / "venv")
        parent, child, pipe = launched(place, made, words)
        try:
            command = "gpumend check --pid %d" % child
            wrong += expect(exe, ["check", "--pid", str(parent.pid)], 3, show=show)
            said = " ".join(run(exe, ["check", "--pid", str(parent.pid)])[1].split())
            wrong += [] if command in said else ["%s: %s" % (name, said)]
            document = json.loads(run(exe, ["check", "--pid", str(parent.pid), "--json"])[1])
            gpu = {c["pid"]: c["gpu"] for c in document["target"]["children"]}
            if document["verdict"] != "unknown" or gpu.get(child) != "ctranslate2":
                wrong.append("%s: %s, %s" % (name, document["verdict"], gpu))
            snapshot = run(exe, ["snapshot", "--pid", str(parent.pid)])[1]
            wrong += expect(exe, ["check", "--pid", str(child)], 1, "libcublas.so.12")
        finally:
            pipe.open("w").close()
            parent.wait(START_LIMIT_S)
            parent.stdout.close()
        (place / "taken.json").write_text(snapshot)
        again = " ".join(run(exe, ["check", "--snapshot", str(place / "taken.json")])[1].split())
        wrong += [] if command in again else ["%s, from a snapshot: %s" % (name, again)]
    return wrong


@answer
def process_with_children_that_use_no_gpu(exe, folder, show):
    """What is started without a sign of a GPU: any of them may be the program; without children, it
    is the process itself."""
    parent = subprocess.Popen(["/bin/sh", "-c", "cat; true"], cwd="/", stdin=subprocess.PIPE)
    try:
        time.sleep(0.3)  # until the child is there
        return list(expect(exe, ["check", "--pid", str(parent.pid)], 3, "(cat, ", show=show,
                           verdict="unknown"))
    finally:
        parent.stdin.close()
        parent.wait(START_LIMIT_S)


@answer
def machine_without_python(exe, folder, show):
    tree = Tree(folder / "root").machine(MACHINES["cpu-only"][1])
    return list(expect(exe, ["check", "--root", str(tree.top)], 0, "no package was looked at",
                       show=show, verdict="ok"))


@answer
def files_without_python(exe, folder, show):
    """Neither a program nor devices: nothing was judged."""
    tree = Tree(folder / "root")
    return list(expect(exe, ["check", "--root", str(tree.top)], 3, "not looked at", show=show,
                       verdict="unknown"))


@answer
def unknown_devices_are_no_fault(exe, folder, show):
    """The file system of an image holds no devices: its programs are judged all the same."""
    tree = Tree(folder / "root").python().torch_for("cuda", "12.4")
    return list(expect(exe, ["check", "--root", str(tree.top), tree.prefix], 0, "not looked at",
                       show=show, verdict="ok"))


@answer
def packages_that_may_not_be_seen(exe, folder, show):
    """Another user's folder is no environment without packages."""
    wrong = []
    for name in ("lib/python3.11/site-packages", "lib", "pyvenv.cfg"):
        tree = Tree(folder / name.replace("/", "-")).python().ctranslate2()
        tree.system_cublas()
        place = tree.real(tree.prefix) / name
        place.chmod(closed(0o600 if place.is_file() else 0o700))
        wrong += expect(as_nobody(exe, folder), ["check", "--root", str(tree.top), tree.prefix], 3,
                        "this user may not read it", show=show, verdict="unknown")
    return wrong


@answer
def path_element_that_may_not_be_seen(exe, folder, show):
    """A folder of LD_LIBRARY_PATH in one that is closed to this user is not said to be none."""
    tree = Tree(folder / "tree").python().ctranslate2()
    tree.pip_cublas()
    tree.real(tree.site + "/nvidia").chmod(closed(0o700))
    _, text, _ = run(as_nobody(exe, folder), ["check", "--root", str(tree.top), tree.prefix, "--env",
                                              "LD_LIBRARY_PATH=" + tree.cublas, "--json"])
    found = [f["cause"] for f in json.loads(text)["findings"]]
    return [] if found == ["library-unreadable"] else ["found: %s" % found]


@answer
def driver_comes_before_first_use(exe, folder, show):
    """What stops the import comes first, then the machine, then what only the use asks for."""
    tree = Tree(folder / "use").python().ctranslate2().machine(MACHINES["nouveau"][1])
    wrong = list(order_faults(exe, tree, ["nouveau-bound", "library-missing"], show))
    tree = Tree(folder / "import").python().torch_for("cuda", "12.4", needed=["libwanted.so.1"])
    tree.machine(MACHINES["nouveau"][1])
    return wrong + list(order_faults(exe, tree, ["library-missing", "nouveau-bound"], show))


@answer
def variables_are_those_of_the_start(exe, folder, show):
    """Of this machine: the start environment's, with --env and --unset; of a process: its own."""
    def seen(*args):
        done = run(exe, ["check", *args, "--json"], {"CUDA_VISIBLE_DEVICES": "3"})
        return json.loads(done[1])["host"]["devices"]["variables"].get("CUDA_VISIBLE_DEVICES")

    found = [seen(), seen("--env", "CUDA_VISIBLE_DEVICES=5"), seen("--unset", "CUDA_VISIBLE_DEVICES"),
             seen("--root", "/")]
    child = subprocess.Popen(["sleep", str(START_LIMIT_S)], env={"CUDA_VISIBLE_DEVICES": "7"})
    end = time.monotonic() + START_LIMIT_S  # Popen returns within the exec, before there is one
    while not Path(f"/proc/{child.pid}/environ").read_bytes() and time.monotonic() < end:
        time.sleep(0.01)
    try:
        found.append(seen("--pid", str(child.pid)))
    finally:
        child.kill()
        child.wait()
    return [] if found == ["3", "5", None, None, "7"] else ["variables: %s" % found]


@answer
def program_without_gpu_on_a_broken_machine(exe, folder, show):
    """The machine's problem is a note: this program does not use a GPU."""
    tree = Tree(folder / "root").python().machine(MACHINES["nouveau"][1])
    return list(expect(exe, ["check", "--root", str(tree.top), tree.prefix], 0,
                       "the nouveau driver is bound", show=show, verdict="ok"))


@answer
def environment_without_gpu_package(exe, folder, show):
    tree = Tree(folder / "root").python()
    return list(expect(exe, ["check", "--root", str(tree.top), tree.prefix], 0,
                       "only the interpreter was looked at", show=show, verdict="ok"))


@answer
def import_not_installed(exe, folder, show):
    tree = Tree(folder / "root").python()
    return list(expect(exe, ["check", "--root", str(tree.top), tree.prefix, "--import", "torch"], 3,
                       "torch is not installed", show=show, verdict="unknown"))


@answer
def import_not_known(exe, folder, show):
    tree = Tree(folder / "root").python()
    tree.lib(tree.site + "/other/core.so")
    tree.put(tree.site + "/other/__init__.py", "")
    tree.dist("other", "1.0", ["other/__init__.py", "other/core.so"])
    return list(expect(exe, ["check", "--root", str(tree.top), tree.prefix, "--import", "other"], 3,
                       "what its import loads is unknown", show=show, verdict="unknown"))


@answer
def import_of_pure_python(exe, folder, show):
    tree = Tree(folder / "root").python()
    tree.put(tree.site + "/plain/__init__.py", "")
    tree.dist("plain", "1.0", ["plain/__init__.py"], ["packaging"])
    return list(expect(exe, ["check", "--root", str(tree.top), tree.prefix, "--import", "plain"], 0,
                       show=show, verdict="ok"))


@answer
def import_of_an_application(exe, folder, show):
    """Pure Python that needs a GPU package: what it imports of it, and when, is not known."""
    tree = Tree(folder / "root").python()
    tree.ctranslate2()
    tree.put(tree.site + "/app/__init__.py", "")
    tree.dist("app", "1.0", ["app/__init__.py"], ["ctranslate2>=4"])
    base = ["check", "--root", str(tree.top), tree.prefix, "--import"]
    wrong = list(expect(exe, base + ["app"], 3, "what its import loads is unknown", show=show,
                        verdict="unknown"))
    tree.system_cublas()
    return wrong + list(expect(exe, base + ["app,ctranslate2"], 0, "is unknown",
                               verdict="ok"))


@answer
def suggested_and_guessed(exe, folder, show):
    """A suggestion and a name among the constants are never findings; both keep their source."""
    tree = Tree(folder / "root")
    tree.loader()
    tree.put("/opt/app/libapp.so", compiled(
        dlopen_note(("suggested", ["libwanted.so.3"]))
        + 'const char *guess(void); const char *guess(void) { return "libguessed.so.5"; }',
        "-Wl,-soname,libapp.so"))
    args = ["check", "--root", str(tree.top), "/opt/app/libapp.so"]
    wrong = list(expect(exe, args, 0, "libguessed.so.5", "guesses", show=show, verdict="ok"))
    process = json.loads(run(exe, args + ["--json"])[1])["processes"][0]
    sources = {(a["names"][0], a["source"]) for a in process["attempts"]}
    for want in (("libwanted.so.3", ".note.dlopen"), ("libguessed.so.5", "guess")):
        if want not in sources:
            wrong.append("no attempt %s in %s" % (want, sources))
    return wrong


@answer
def several_fault_free_orders(exe, folder, show):
    """A healthy pair: both orders are modelled and neither is complained of."""
    tree = Tree(folder / "root").python()
    tree.ctranslate2()
    tree.torch(needed=["libcublas.so.12"])
    tree.system_cublas()
    return list(expect(exe, ["check", "--root", str(tree.top), tree.prefix], 0,
                       "2 of 2 orders", show=show, verdict="ok"))


@answer
def commands_keep_whole_paths(exe, folder, show):
    """Text shortens the environment's folder, but not in what is pasted."""
    tree = Tree(folder / "root").python()
    tree.ctranslate2()
    tree.pip_cublas()
    status, text, _ = run(exe, ["check", "-v", "--root", str(tree.top), tree.prefix])
    commands = [l for l in text.splitlines() if "export LD_LIBRARY_PATH" in l]
    wrong = [] if commands and tree.cublas in commands[0] else ["no whole path: %s" % commands]
    if any("<env>" in c or "<site>" in c for c in commands):
        wrong.append("shortened: %s" % commands)
    if "<site>/nvidia/cublas/lib/libcublas.so.12" not in text:
        wrong.append("evidence is not shortened")
    if "\x1b" in text:
        wrong.append("colours without a terminal")
    return wrong


@answer
def explain_pages(exe, folder, show):
    """Every page says what to do; no cause and an unknown one are wrong usage, with help."""
    wrong = []
    for row in json.loads(run(exe, ["explain", "--list", "--json"])[1])["causes"]:
        status, text, error = run(exe, ["explain", row["cause"]])
        if status or error or row["title"] not in text or "\nWhat to do\n" not in text:
            wrong.append("page of %s: %s" % (row["cause"], text))
        wrong += ["%s: a line of %d columns" % (row["cause"], len(l))
                  for l in row["page"].splitlines() if len(l) > 80 and not l.startswith(" " * 6)]
    for args in (["explain"], ["explain", "no-such-cause"]):
        status, text, error = run(exe, args)
        if status != 2 or text or "--list" not in error:
            wrong.append("%s: status %d, %r" % (args, status, text + error))
    return wrong


@answer
def pip_refuses_a_managed_python(exe, folder, show):
    """The distribution's Python: a command that works there; an environment over it: plain pip."""
    wrong = []
    plain = "pip install nvidia-cublas-cu12"
    for name, own, image, pip, words in (
            ("venv", False, True, True, ["/opt/venv/bin/python -m " + plain]),
            ("image", True, True, True, [
                "/usr/bin/python3.11 -m pip install --break-system-packages nvidia-cublas-cu12",
                "these are the files of a container"]),
            ("no-pip", True, True, False, [
                "apt-get install -y python3-pip && /usr/bin/python3.11 -m pip install --break-sys"]),
            ("machine", True, False, False, [
                "apt-get install -y python3-venv && /usr/bin/python3.11 -m venv "
                "--system-site-packages ./.venv && ./.venv/bin/python -m " + plain,
                'export LD_LIBRARY_PATH="$PWD"/.venv/lib/python3.11/site-packages/nvidia/cublas/lib'
                ':"$PWD"/.venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib"',
                "pip refuses to install into it (EXTERNALLY-MANAGED)"])):
        tree = Tree(folder / name).python()
        tree.put("/usr/lib/python3.11/EXTERNALLY-MANAGED", "[externally-managed]\n")
        tree.put("/usr/bin/apt-get", "")
        if not image:
            tree.machine(MACHINES["cpu-only"][1])
        if own:
            tree.site = "/usr/lib/python3.11/site-packages"
        if pip:
            tree.dist("pip", "23.0.1", [])
        tree.ctranslate2()
        target = "/usr/bin/python3.11" if own else tree.prefix
        status, text, error = run(exe, ["check", "--root", str(tree.top), target])
        if show:
            print(text)
        said = " ".join(text.split())
        if status != 1 or ("--break-system-packages" in said) != (own and image):
            wrong.append("%s: status %d: %s" % (name, status, (text + error)[-400:]))
        wrong += ["%s: %r is not in %s" % (name, w, text) for w in words if w not in said]
    return wrong


@answer
def pip_installs_in_its_own_folder(exe, folder, show):
    """Not where the asking package is: what is exported is the folder that pip fills."""
    wrong = []
    purelib = "/lib/python3.11/site-packages"
    for name, site, target, variables, expected in (
            ("pythonpath", "/deps", "/usr/bin/python3.11", ["PYTHONPATH=/deps"], "/usr" + purelib),
            ("base", "/usr" + purelib, "/opt/venv", [], "/opt/venv" + purelib),
            ("debian", "/usr/lib/python3/dist-packages", "/usr/bin/python3.11", [],
             "/usr/local/lib/python3.11/dist-packages"),
            ("fedora", "/usr/local/lib64/python3.11/site-packages", "/usr/bin/python3.11", [],
             "/usr/local" + purelib)):
        tree = Tree(folder / name).python()
        tree.site = site
        if name == "base":
            tree.put("/opt/venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n"
                     "include-system-site-packages = true\n")
        if name == "debian":
            tree.put("/usr/lib/python3.11/site.py", "# dist-packages\n")
        if name == "fedora":
            shutil.rmtree(tree.real("/usr/lib/python3.11"))
            tree.put("/usr/lib64/python3.11/os.py", "")
        tree.ctranslate2()
        words = "export LD_LIBRARY_PATH=%s/nvidia/cublas/lib:" % expected
        for command in ("check", "fix"):
            _, text, error = run(exe, [command, "--root", str(tree.top), target,
                                       *("--env=" + one for one in variables)])
            if show:
                print(text)
            if words not in text:
                wrong.append("%s: %s: %r is not in %s" % (name, command, words, text + error))
    return wrong
