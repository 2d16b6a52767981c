#!/usr/bin/env python3
"""run --trace-gpu: failing GPU calls of programs that look at no result, against fake libraries.

    tests/watch/gpucall.py GPUMEND

The driver and HIP are those of the probe's tests, the runtime one that finds the driver as NVIDIA's
static one does; the real runtimes stand in where their wheels are at hand. What was expected of a
backtrace is what libgcc's unwinder found at the same place. The last line is `N passed, N failed,
N skipped`."""

import glob
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

try:
    import jsonschema
except ImportError:
    jsonschema = None

HERE = Path(__file__).resolve().parent
FAKE = HERE.parent / "probe/fake"
CACHE = Path(os.environ.get("GPUMEND_CACHE", Path.home() / ".cache/gpumend-tests"))
CLEARED = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT",
           "FAKE_GPU_TABLE", "GPUMEND_TRACE_GPU", "GPUMEND_TRACE_FILE", "CUDA_INJECTION64_PATH")
WHEELS = (("nvidia_cuda_runtime_cu12-12.9.79-*.whl", "12"), ("nvidia_cuda_runtime-13.5.37-*.whl", "13"))


class Bench:
    """Fakes and programs, built once, and what came of the cases."""

    def __init__(self, exe, folder):
        self.exe, self.folder = Path(exe).resolve(), folder
        self.passed, self.failed, self.skipped, self.traces = 0, 0, 0, 0
        self.driver = self.library("driver/libcuda.so.1", HERE / "gpucall_driver.c")
        self.cudart = self.library("runtime/libcudart.so.12", HERE / "gpucall_static.c")
        self.hsa = self.library("hip/libhsa-runtime64.so.1", FAKE / "hsa-runtime64.c")
        self.hip = self.library("hip/libamdhip64.so.6", FAKE / "amdhip64.c", self.hsa)
        schema = json.loads((HERE.parent.parent / "docs/json/trace.schema.json").read_text())
        self.validator = jsonschema and jsonschema.Draft202012Validator(schema)
        self.schema_faults, self.lines = [], 0
        self.static = self.program("static", "gpucall_program.c", HERE / "gpucall_static.c")
        self.dynamic = self.program("dynamic", "gpucall_program.c", self.cudart)
        self.cupti = self.library("cupti/libcupti.so.12", HERE / "gpucall_cupti.c")
        self.helper = None

    def compile(self, out, *arguments, compiler="gcc"):
        out = self.folder / out
        out.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([compiler, "-std=gnu17", "-O2", "-fomit-frame-pointer", "-w", f"-I{HERE}",
                        "-o", out, *arguments], check=True)
        return out

    def library(self, name, *sources):
        return self.compile(name, "-shared", "-fPIC", f"-Wl,-soname,{Path(name).name}", *sources)

    def program(self, name, source, *more, compiler="gcc"):
        return self.compile(name, HERE / source, *more, "-pthread", "-ldl", compiler=compiler)

    def environment(self, table="", **more):
        env = {k: v for k, v in os.environ.items() if k not in CLEARED}
        path = self.folder / f"table-{abs(hash(table)):x}"
        path.write_text(table)
        env.update(FAKE_GPU_TABLE=str(path), XDG_CACHE_HOME=str(self.folder / "cache"),
                   LD_LIBRARY_PATH=":".join(str(p.parent) for p in (self.driver, self.cudart, self.hip)))
        env.update(more)
        return env

    def run(self, *command, table="", **more):
        """CMD under `run --trace-gpu`: status, standard output, what was told."""
        done = subprocess.run([self.exe, "run", "--trace-gpu", "--", *map(str, command)],
                              env=self.environment(table, **more), capture_output=True, text=True,
                              timeout=120, stdin=subprocess.DEVNULL, errors="replace", check=False)
        return done.returncode, done.stdout, done.stderr

    def events(self, *command, table="", **more):
        """The same with a file of JSON lines."""
        self.traces += 1
        path = self.folder / f"trace-{self.traces}.jsonl"
        done = subprocess.run([self.exe, "run", "--trace-gpu", "--trace-file", path, "--",
                               *map(str, command)], env=self.environment(table, **more),
                              capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, check=False)
        events = [json.loads(l) for l in path.read_text().splitlines()] if path.exists() else []
        self.lines += len(events)
        for event in events if self.validator else ():
            self.schema_faults += [f"{event['event']}: {error.message[:300]}"
                                   for error in self.validator.iter_errors(event)]
        return events, done

    def raw(self, *command, **more):
        """A program with the helper's library in its environment, without `run`."""
        if not self.helper:
            out = subprocess.run([self.exe, "run", "--trace-gpu", "--print", "--", "/bin/true"],
                                 env=self.environment(), capture_output=True, text=True, check=True)
            self.helper = re.search(r"LD_AUDIT=(\S+)", out.stdout).group(1)
        env = self.environment(LD_AUDIT=self.helper, **more)
        return subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True,
                              timeout=300, stdin=subprocess.DEVNULL, check=False)

    def nothing(self):
        """An injected library that does nothing."""
        (self.folder / "nothing.c").write_text("int InitializeInjection(void) { return 1; }\n")
        return self.library("nothing.so", self.folder / "nothing.c")

    def case(self, name, faults):
        faults = [f for f in faults if f]
        self.failed += bool(faults)
        self.passed += not faults
        for fault in faults:
            print(f"FAIL {name}: {fault}")

    def skip(self, name, why):
        self.skipped += 1
        print(f"SKIP {name}: {why}")


def failures(events):
    return [e for e in events if e["event"] == "gpu-call-failed"]


def symbols(event):
    return [f["symbol"] for f in event["frames"]]


def unless(condition, fault):
    return None if condition else fault


def differs(what, found, expected):
    return unless(found == expected, f"{what}: {found!r}, not {expected!r}")


# ------------------------------------------------------------------ one call out of a thousand

def thousand(bench):
    """The runtime's or the driver's 500th copy fails; the program goes on."""
    for name, program, call in (("static", bench.static, "cuMemcpyHtoD_v2"),
                                ("dynamic", bench.dynamic, "cudaMemcpy")):
        table = "cuMemcpyHtoD_v2#5 return 700\n"
        events, done = bench.events(program, "thousand", table=table)
        told = failures(events)
        first = told[0] if told else {}
        inner = (first.get("because") or {}).get("call")
        error = "CUDA_ERROR_ILLEGAL_ADDRESS" if name == "static" else "cudaErrorIllegalAddress"
        size = first.get("arguments", {}).get("ByteCount" if name == "static" else "count")
        chain = [s for s in symbols(first) if s in ("deepest", "middle", "thousand", "main")] if first else []
        bench.case(f"thousand, {name}", [
            differs("status", done.returncode, 0), differs("told", len(told), 1),
            differs("call", first.get("call"), call), differs("error", first.get("error"), error),
            differs("code", first.get("code"), 700), differs("first", first.get("first"), True),
            differs("size", size, 257), differs("because", inner, None if name == "static" else "cuMemcpyHtoD_v2"),
            differs("chain", [s for s in chain if s != "thousand"], ["deepest", "middle", "main"])])
        status, _, errors = bench.run(program, "thousand", table=table)
        lines = [l for l in errors.splitlines() if l.startswith("gpumend: ")]
        bench.case(f"thousand as text, {name}", [
            differs("status", status, 0),
            unless(lines and re.fullmatch(
                rf"gpumend: the first failing GPU call: {call}\(.*257.*\) = 700 \({error}\), in process \d+",
                lines[0]), f"first line: {lines[:1]}"),
            unless(any(re.fullmatch(r"gpumend:   #\d .*/(static|dynamic)\+0x[0-9a-f]+ \(deepest\)", l)
                       for l in lines), f"no frame of deepest: {lines}"),
            differs("other lines", [l for l in lines[1:] if not re.match(r"gpumend:   (#\d+ |because of )", l)], [])])


def every_one(bench):
    """The same failure again is counted: not one line each."""
    events, _ = bench.events(bench.dynamic, "thousand", table="cuMemcpyHtoD_v2 return 1\n")
    told, end = failures(events), events[-1] if events else {}
    times = {c["call"]: c["times"] for c in end.get("calls", ())}
    bench.case("a thousand failures", [
        differs("told", len(told), 1), differs("event", end.get("event"), "gpu-calls"),
        differs("cudaMemcpy", times.get("cudaMemcpy"), 1000)])
    _, _, errors = bench.run(bench.static, "thousand", table="cuMemcpyHtoD_v2 return 1\n")
    bench.case("a thousand failures as text", [
        unless(re.search(r"^gpumend:   cuMemcpyHtoD_v2 = 1 \(CUDA_ERROR_INVALID_VALUE\), 1000 times, at ",
                         errors, re.M), errors[-500:])])


# ------------------------------------------------------------------ threads, fork, exec

def parallel(bench):
    for name, program in (("static", bench.static), ("dynamic", bench.dynamic)):
        table = "cuMemAlloc_v2#2 return 2\ncuMemAlloc_v2#3 return 2\n"
        events, done = bench.events(program, "threads", table=table)
        told = failures(events)
        sizes = sorted(v for e in told for k, v in e["arguments"].items() if k in ("bytesize", "size"))
        ends = [c for e in events if e["event"] == "gpu-calls" for c in e["calls"]]
        calls = sum(c["times"] for c in ends if c["call"] == ("cuMemAlloc_v2" if name == "static" else "cudaMalloc"))
        bench.case(f"two threads, {name}", [
            differs("status", done.returncode, 0), differs("failures", calls, 2),
            differs("firsts", [e["first"] for e in told].count(True), 1),
            unless(sizes and set(sizes) <= {1 << 40, 1 << 41}, f"sizes {sizes}"),
            unless(all(e["tid"] != e["pid"] for e in told), "not told of a thread")])


def forked(bench):
    for name, program in (("static", bench.static), ("dynamic", bench.dynamic)):
        events, done = bench.events(program, "fork", table="cuMemAlloc_v2 return 2\n")
        parent, child = map(int, done.stdout.split())
        told = failures(events)
        bench.case(f"fork, {name}", [
            differs("firsts", sorted(e["pid"] for e in told if e["first"]), sorted([parent, child])),
            differs("of the child", sum(e["pid"] == child for e in told), 1),
            differs("times", [c["times"] for e in events if e["event"] == "gpu-calls" and e["pid"] == child
                              for c in e["calls"] if "Alloc" in c["call"] and not c["inside_success"]][-1:], [2]),
            differs("frames of main", all("main" in symbols(e) for e in told), True)])
    events, _ = bench.events(bench.static, "exec", table="cuMemAlloc_v2 return 2\n")
    bench.case("exec", [differs("told", [e["first"] for e in failures(events)], [True, True])])


# ------------------------------------------------------------------ backtraces

def unwound(bench):
    """Frames are those of libgcc's unwinder: without frame pointers, with arrays, through libc."""
    # What marks the targets of jumps, and on aarch64 signs return addresses as well.
    guarded = "-mbranch-protection=standard" if platform.machine() == "aarch64" else "-fcf-protection=full"
    for name, flags in (("-O2", ()), ("-O0", ("-O0",)), (f"-O2 {guarded}", (guarded,)),
                        ("-Os", ("-Os", "-fno-optimize-sibling-calls"))):
        program = bench.program("unwind" + name.replace(" ", ""), "gpucall_program.c",
                                HERE / "gpucall_static.c", *flags)
        events, done = bench.events(program, "unwind", table="cuMemAlloc_v2 return 2\n")
        expected = re.findall(r"^(\S+?)\([^)]*\) \[0x|^(\S+)\[0x", done.stdout, re.M)
        lines = [l for l in done.stdout.splitlines() if "[0x" in l]
        objects = [os.path.realpath(l.split("(")[0]) for l in lines]
        told = failures(events)
        frames = told[0]["frames"] if told else []
        # The runtime's own frames, then by_unwinder's, whose address differs from that of its backtrace().
        ours = [f for f in frames if f["symbol"] not in ("cudaMalloc", "start")]
        bench.case(f"backtrace, {name}", [
            unless(expected and "errno 77" in done.stdout, f"the program said {done.stdout!r}"),
            differs("objects", [os.path.realpath(f["object"]) for f in ours][1:], objects),
            unless(len(ours) > 8, f"only {len(ours)} frames"),
            *offsets(lines, ours[1:])])


def offsets(lines, frames):
    """The offsets where the unwinder's text has one relative to the object: prog(+0x1234)."""
    for line, frame in zip(lines, frames):
        found = re.search(r"\(\+(0x[0-9a-f]+)\)", line)
        if found:
            yield differs("offset", frame["offset"], found.group(1))


# ------------------------------------------------------------------ what is passed on and left out

def design(bench):
    table = "cuDeviceGetAttribute return 1\n"
    for name, program in (("static", bench.static), ("dynamic", bench.dynamic)):
        status, out, errors = bench.run(program, "design", table=table)
        bench.case(f"by design, {name}", [
            differs("results", (status, out), (0, "600 1 201 1 1\n")),
            differs("told", [l for l in errors.splitlines() if "GPU call" in l], [])])
    events, _ = bench.events(bench.static, "design", table="cuDeviceGetAttribute return 700\n")
    bench.case("the same call, another error", [
        differs("told", [(e["call"], e["code"]) for e in failures(events)], [("cuDeviceGetAttribute", 700)])])


def kernels(bench):
    """NCCL's question for its own kernels is none of the failures, another's is."""
    events, done = bench.events(bench.static, "kernels")
    bench.case("kernels that were not built", [
        differs("results", done.stdout, "209 209\n"),
        differs("told", [(e["call"], e["arguments"].get("name")) for e in failures(events)],
                [("cuLibraryGetKernel", "_Z1fv")])])


def arguments(bench):
    events, done = bench.events(bench.static, "many")
    told = failures(events)
    bench.case("eight arguments", [
        differs("result", done.stdout, "1\n"), differs("told", len(told), 1),
        *(differs("arguments", [e["arguments"].get(k) for k in ("count", "numAttrs", "hStream")], [4, 7, "0x8"])
          for e in told)])


def passes(bench):
    """A thread that is cancelled inside a call; a driver that comes and goes more often than there are stubs."""
    _, out, _ = bench.run(bench.dynamic, "cancel", table="cuMemcpyHtoD_v2 slow 3000\n")
    bench.case("cancelled", [differs("said", out, "cleaned up\ncancelled\n")])
    other = bench.environment("cuDeviceGetAttribute return 719\n")["FAKE_GPU_TABLE"]
    events, done = bench.events(bench.static, "reopens", "5000", OTHER_TABLE=other)
    bench.case("comes and goes", [
        differs("said", done.stdout, "0 719\n"),
        differs("told", [(e["call"], e["error"]) for e in failures(events)],
                [("cuDeviceGetAttribute", "CUDA_ERROR_LAUNCH_FAILED")])])


def python(bench):
    """By ctypes, in a thread: the backtrace goes through the interpreter."""
    code = ("import ctypes, threading\nc = ctypes.CDLL('libcuda.so.1')\nc.cuInit(0)\n"
            "p = ctypes.c_uint64()\n"
            "t = threading.Thread(target=lambda: c.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 44)))\n"
            "t.start()\nt.join()\n")
    events, done = bench.events(sys.executable, "-c", code, table="cuMemAlloc_v2 return 2\n")
    told = failures(events)
    bench.case("ctypes", [
        differs("status", done.returncode, 0),
        differs("told", [(e["call"], e["arguments"]) for e in told], [("cuMemAlloc_v2", {"bytesize": 1 << 44})]),
        unless(told and len(told[0]["frames"]) > 10, f"{[len(e['frames']) for e in told]} frames")])


def interpreters():
    """One Python of each minor version that is read, this one among them."""
    found = {sys.version_info[1]: sys.executable}
    for minor in range(9, 15):
        places = [shutil.which(f"python3.{minor}"),
                  *glob.glob(os.path.expanduser(f"~/.pyenv/versions/3.{minor}.*/bin/python3.{minor}"))]
        for place in [p for p in places if p and minor not in found]:
            done = subprocess.run([place, "-c", "import ctypes"], capture_output=True, check=False)
            if done.returncode == 0:
                found[minor] = place
    return sorted(found.items())


PYTHON = """import ctypes, sys, threading
c = ctypes.CDLL('libcuda.so.1')
held = ctypes.PyDLL('libcuda.so.1')
p = ctypes.byref(ctypes.c_uint64())
c.cuInit(0)
class Modelé:
    def grow(self, n):
        return c.cuMemAlloc_v2(p, ctypes.c_size_t(n))
def work():
    Modelé().grow(1)
    for i in range(3):
        c.cuMemAlloc_v2(p, ctypes.c_size_t(i))
    held.cuMemAlloc_v2(p, ctypes.c_size_t(9))
    list(c.cuMemAlloc_v2(p, ctypes.c_size_t(9)) for _ in 'x')
    exec(compile('\\n\\n' + 'c.cuMemAlloc_v2(p, 9)', '/not/there.py', 'exec'))
t = threading.Thread(target=work)
t.start()
t.join()
if len(sys.argv) > 1:
    sys.path.insert(0, sys.argv[1])
    import extension
    extension.released()
    extension.held()
"""

EXTENSION = """#include <Python.h>
int cuMemAlloc_v2(unsigned long long *, size_t);
static PyObject *held(PyObject *self, PyObject *none)
{ unsigned long long at; cuMemAlloc_v2(&at, 11); Py_RETURN_NONE; }
static PyObject *released(PyObject *self, PyObject *none)
{
    unsigned long long at;
    Py_BEGIN_ALLOW_THREADS cuMemAlloc_v2(&at, 10); Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
static PyMethodDef methods[] = {{"held", held, METH_NOARGS, ""}, {"released", released, METH_NOARGS, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "extension", "", -1, methods};
PyMODINIT_FUNC PyInit_extension(void) { return PyModule_Create(&module); }
"""


BESIDES = """\
#include <pthread.h>
int cuMemAlloc_v2(unsigned long long *, unsigned long);
static void *call(void *n) { unsigned long long at; cuMemAlloc_v2(&at, (unsigned long)n); return n; }
void of_its_own(void) { pthread_t t; pthread_create(&t, 0, call, (void *)1); pthread_join(t, 0); }
void here(void) { call((void *)2); }
__attribute__((destructor)) static void late(void) { call((void *)3); }
"""

DELETED = """\
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.of_its_own()
class Deleted:
    def __del__(self):
        library.here()
kept = Deleted()
"""


def besides_python(bench):
    """In a thread that no Python runs in, and when the interpreter is gone, no line is told."""
    (bench.folder / "besides.c").write_text(BESIDES)
    library = bench.compile("besides.so", "-shared", "-fPIC", bench.folder / "besides.c", bench.driver,
                            "-pthread")
    for minor, interpreter in interpreters():
        events, done = bench.events(interpreter, "-c", DELETED, library, table="cuMemAlloc_v2 return 2\n")
        told = {e["arguments"]["bytesize"]: [f["line"] for f in e["python"]] for e in failures(events)}
        bench.case(f"besides Python 3.{minor}", [
            differs("status", (done.returncode, done.stderr), (0, "")),
            differs("lines", told, {1: [], 2: [6] if 9 <= minor <= 14 else [], 3: []})])


def make_extension(bench, interpreter, folder):
    """Its folder; None: the interpreter has no headers."""
    code = "import sysconfig; print(sysconfig.get_path('include'))"
    include = subprocess.run([interpreter, "-c", code], capture_output=True, text=True,
                             check=True).stdout.strip()
    if not Path(include, "Python.h").exists():
        return None
    folder.mkdir()
    (folder / "extension.c").write_text(EXTENSION)
    bench.compile(folder / "extension.so", "-shared", "-fPIC", f"-I{include}", folder / "extension.c",
                  bench.driver)
    return folder


def python_lines(bench):
    """The lines of Python that led to a call, whether the GIL is held or not."""
    script = bench.folder / "Modèle train.py"
    script.write_text(PYTHON)
    for minor, interpreter in interpreters():
        folder = make_extension(bench, interpreter, bench.folder / f"extension-{minor}")
        events, done = bench.events(interpreter, script, *([folder] if folder else []),
                                    table="cuMemAlloc_v2 return 2\n")
        qualified = minor >= 11
        expected = [(script, 8, "Modelé.grow" if qualified else "grow"), (script, 12, "work"),
                    (script, 13, "work"), (script, 14, "work.<locals>.<genexpr>" if qualified else "<genexpr>"),
                    ("/not/there.py", 3, "<module>")]
        expected += [(script, 22, "<module>"), (script, 23, "<module>")] if folder else []
        told = [e["python"] for e in failures(events)]
        chains = [[f["function"].rsplit(".", 1)[-1] for f in e] for e in told]
        ends = {c["python"]["line"]: c["times"] for c in (events[-1].get("calls", ()) if events else ())}
        if not 9 <= minor <= 14:
            bench.case(f"Python 3.{minor}", [differs("status", done.returncode, 0), differs("lines", told, [[]])])
            continue
        bench.case(f"Python 3.{minor}", [
            differs("status", (done.returncode, done.stderr), (0, "")),
            differs("innermost", [tuple(e[0].values()) if e else None for e in told],
                    [(str(file), line, function) for file, line, function in expected]),
            differs("chain", chains[:1], [["grow", "work", "run", "_bootstrap_inner", "_bootstrap"]]),
            differs("times", (ends.get(8), ends.get(12)), (1, 3))])
        if not folder:
            bench.skip(f"an extension for Python 3.{minor}", "no headers")
    _, _, errors = bench.run(sys.executable, script, table="cuMemAlloc_v2 return 2\n")
    bench.case("Python in words", [unless(
        re.search(r"^gpumend:   called by \S*/Modèle train\.py:8 \(.*grow\)\n"
                  r"gpumend:   called by \S*/Modèle train\.py:10 \(work\)$", errors, re.M)
        and re.search(r"at \S+, called by \S*/Modèle train\.py:13 \(work\)$", errors, re.M), errors)])


def hip(bench):
    for name, flags in (("PLT", ()), ("no PLT", ("-fno-plt",)),
                        ("no PLT, nothing exported", ("-fno-plt", "-no-pie")), ("bound at once", ("-Wl,-z,now",)),
                        ("bound late", ("-Wl,-z,lazy",))):
        program = bench.program("hip-" + name.replace(" ", "-"), "gpucall_hip.c", bench.hip, *flags,
                                f"-Wl,-rpath-link,{bench.hip.parent}")
        events, done = bench.events(program)
        told = failures(events)
        end = {(c["call"], c["at"]["symbol"]): c["times"] for c in (events[-1].get("calls", ()) if events else ())}
        bench.case(f"HIP, {name}", [
            differs("status", done.returncode, 0),
            differs("first", [(e["call"], e["error"], e["arguments"]) for e in told][:1],
                    [("hipSetDevice", "hipErrorInvalidDevice", {"deviceId": 7})]),
            differs("chain", [s for s in symbols(told[0]) if s in ("chooses", "main")] if told else None,
                    ["chooses", "main"]),
            differs("again", end.get(("hipSetDevice", "main")), 5)])


def alone(bench):
    return {"LD_LIBRARY_PATH": str(bench.driver.parent)}


def real(bench):
    """NVIDIA's runtimes against the fake driver, as far as they go: they fail, and it is told."""
    for pattern, major in WHEELS:
        wheels = sorted((CACHE / "wheels").glob(pattern))
        if not wheels:
            bench.skip(f"runtime {major}", "no wheel in the store")
            continue
        with zipfile.ZipFile(wheels[-1]) as wheel:
            names = [n for n in wheel.namelist() if n.endswith(f"/libcudart.so.{major}") or
                     n.endswith("/libcudart_static.a")]
            found = {Path(n).name: Path(wheel.extract(n, bench.folder / f"wheel-{major}")) for n in names}
        shared = found[f"libcudart.so.{major}"]
        program = bench.program(f"real-{major}", "gpucall_program.c", shared, f"-Wl,-rpath,{shared.parent}")
        events, done = bench.events(program, "thousand", **alone(bench))
        told = failures(events)
        calls = [e["call"] for e in told]
        bench.case(f"runtime {major}, shared", [
            differs("status", done.returncode, 0), unless("cudaMemcpy" in calls, f"told {calls}"),
            differs("names", [e["call"] for e in told if not e["error"]], []),
            differs("main", all("main" in symbols(e) for e in told), True)])
        if "libcudart_static.a" in found:
            program = bench.program(f"real-static-{major}", "gpucall_program.c",
                                    found["libcudart_static.a"], "-lrt")
            events, done = bench.events(program, "thousand", **alone(bench),
                                        table="cuInit return 999\ncuDriverGetVersion value 13050\n")
            told = failures(events)
            bench.case(f"runtime {major}, static", [
                differs("status", done.returncode, 0),
                differs("first", [(e["call"], e["error"]) for e in told][:1], [("cuInit", "CUDA_ERROR_UNKNOWN")]),
                differs("main", all("main" in symbols(e) for e in told), True)])


def cupti(bench):
    """By CUPTI the static runtime's call is seen as well; without it, or where it is the program's, the
    driver's call is."""
    fails = "cuMemAlloc_v2 return 2\n"
    known = bench.environment()["LD_LIBRARY_PATH"]
    beside = {"LD_LIBRARY_PATH": f"{known}:{bench.cupti.parent}"}
    by_driver, by_runtime = ("cuMemAlloc_v2", None), ("cudaMalloc", "cuMemAlloc_v2")
    rows = (("not there", fails, {}, by_driver), ("there", fails, beside, by_runtime),
            ("refuses", fails + "cuptiSubscribe return 39\n", beside, by_driver),
            ("refuses a domain", fails + "cuptiEnableDomain return 1\n", beside, by_driver),
            ("is the program's", fails, dict(beside, LD_PRELOAD=str(bench.cupti)), by_driver),
            ("of another injected library", fails, dict(beside, CUDA_INJECTION64_PATH=str(bench.nothing())), by_driver))
    for name, table, more, expected in rows:
        events, done = bench.events(bench.static, "fork", table=table, **more)
        told = failures(events)
        mine = [e for e in told if e["pid"] == int(done.stdout.split()[0])]
        bench.case(f"CUPTI {name}", [
            differs("status", done.returncode, 0),
            differs("calls", [(e["call"], (e["because"] or {}).get("call")) for e in mine], [expected]),
            differs("arguments", [e["arguments"] for e in mine],
                    [{"size" if expected[1] else "bytesize": 1 << 42}]),
            differs("chain", [[s for s in symbols(e) if s in ("too_much", "main")] for e in told],
                    [["too_much", "main"]] * 2),
            unless(len({e["pid"] for e in told}) == 2, "the child did not tell")])


def real_cupti(bench):
    """NVIDIA's own finds no driver that it could work with, and nobody is the worse for it."""
    wheels = sorted((CACHE / "wheels").glob("nvidia_cuda_cupti_cu12-*.whl"))
    if not wheels:
        bench.skip("NVIDIA's CUPTI", "no wheel in the store")
        return
    with zipfile.ZipFile(wheels[-1]) as wheel:
        path = Path(wheel.extract("nvidia/cuda_cupti/lib/libcupti.so.12", bench.folder / "wheel-cupti"))
    known = bench.environment()["LD_LIBRARY_PATH"]
    events, done = bench.events(bench.static, "once", table="cuMemAlloc_v2 return 2\n",
                                LD_LIBRARY_PATH=f"{known}:{path.parent}")
    bench.case("NVIDIA's CUPTI", [
        differs("status", done.returncode, 0),
        differs("told", [e["call"] for e in failures(events)], ["cuMemAlloc_v2"])])


# ------------------------------------------------------------------ no harm

def quiet(bench):
    table = "cuMemAlloc_v2 return 2\n"
    env = {"FAKE_GPU_TABLE": bench.environment(table)["FAKE_GPU_TABLE"]}
    done = bench.raw(bench.static, "once", **env)
    bench.case("without its variable", [differs("answer", (done.returncode, done.stdout, done.stderr), (0, "", ""))])

    mine = bench.folder / "mine"
    done = bench.raw(bench.static, "closes", mine, GPUMEND_TRACE_GPU="-", **env)
    bench.case("closes all descriptors", [differs("status", done.returncode, 0),
                                          differs("its file", mine.read_text() if mine.exists() else None, "mine")])
    trace = bench.folder / "closed.jsonl"
    done = bench.raw(bench.static, "closes", mine, GPUMEND_TRACE_GPU=str(trace), **env)
    bench.case("closes all descriptors, to a file", [
        differs("status", done.returncode, 0), differs("its file", mine.read_text(), "mine"),
        differs("told", len(trace.read_text().splitlines()), 1)])

    done = subprocess.run(["sh", "-c", '"$1" once 2>&1 >/dev/null | true; echo ok', "sh", bench.static],
                          env=bench.environment(table, LD_AUDIT=bench.helper, GPUMEND_TRACE_GPU="-"),
                          capture_output=True, text=True, check=False)
    bench.case("nobody reads its errors", [differs("answer", done.stdout, "ok\n")])
    elsewhere(bench, env)


def elsewhere(bench, env):
    """Programs of another libc, with another user's rights, and under tools of their own."""
    if shutil.which("musl-gcc"):
        (bench.folder / "musl.c").write_text("int main(void) { return 7; }\n")
        musl = bench.compile("musl", bench.folder / "musl.c", compiler="musl-gcc")
        done = bench.raw(musl, GPUMEND_TRACE_GPU="-")
        bench.case("musl", [differs("answer", (done.returncode, done.stderr), (7, ""))])
    else:
        bench.skip("musl", "no musl-gcc")
    if os.geteuid() == 0:
        secret = bench.folder / "setuid"
        shutil.copy(bench.static, secret)
        os.chmod(bench.folder, 0o755)
        os.chmod(secret, 0o4755)
        try:
            done = subprocess.run([secret, "once"], env=bench.environment("cuMemAlloc_v2 return 2\n",
                                  LD_AUDIT=bench.helper, GPUMEND_TRACE_GPU="-"), user=65534, group=65534,
                                  capture_output=True, text=True, check=False)
            bench.case("setuid", [differs("told", "gpumend: " in done.stderr, False),
                                  differs("status", done.returncode, 0)])
        except OSError as why:  # a namespace that maps root alone
            bench.skip("setuid", f"takes a second user: {why.strerror}")
    else:
        bench.skip("setuid", "not root")
    if shutil.which("valgrind"):
        _, _, errors = bench.run("valgrind", "-q", bench.dynamic, "thousand",
                                 table="cuMemcpyHtoD_v2#5 return 700\n")
        bench.case("valgrind", [unless("==" not in errors, errors[-800:]),
                                unless("cudaErrorIllegalAddress" in errors, "nothing told")])
    else:
        bench.skip("valgrind", "not installed")
    filtered = bench.compile("filter", HERE / "gpucall_filter.c")
    told = []
    written = bench.program("written", "gpucall_written.c", bench.hip, f"-Wl,-rpath-link,{bench.hip.parent}")
    for program in (bench.static, bench.folder / "hip-no-PLT", written):
        path = bench.folder / f"filtered-{len(told)}.jsonl"
        done = bench.raw(filtered, program, "once", GPUMEND_TRACE_GPU=str(path), **env)
        told += [(e["call"], "main" in symbols(e)) for e in
                 failures(map(json.loads, path.read_text().splitlines() if path.exists() else ()))[:1]]
    bench.case("system calls are filtered", [
        differs("status", done.returncode, 0),
        differs("told", told, [("cuMemAlloc_v2", True), ("hipSetDevice", True), ("hipSetDevice", True)])])
    asan = bench.program("asan", "gpucall_program.c", HERE / "gpucall_static.c", "-fsanitize=address,undefined")
    for mode in ("once", "threads", "fork"):
        done = bench.raw(asan, mode, GPUMEND_TRACE_GPU="-", ASAN_OPTIONS="detect_leaks=0", **env)
        bench.case(f"ASan, {mode}", [differs("status", done.returncode, 0),
                                     unless("Sanitizer" not in done.stderr and "runtime error" not in done.stderr,
                                            done.stderr[-800:]),
                                     unless("CUDA_ERROR_OUT_OF_MEMORY" in done.stderr, "nothing told")])


def losses(bench):
    """A full disk, a limit on the size of files, a pipe without a reader: said, listed, no harm."""
    table = "cuMemcpyHtoD_v2#5 return 700\n"
    for name, path, limit in (("full disk", Path("/dev/full"), None),
                              ("size of files", bench.folder / "limited.jsonl", 1 << 10)):
        bench.raw(bench.dynamic, "once", GPUMEND_TRACE_GPU="-")
        done = subprocess.run([bench.dynamic, "thousand"], text=True, check=False,
                              env=bench.environment(table, LD_AUDIT=bench.helper, GPUMEND_TRACE_GPU=str(path)),
                              preexec_fn=limit and (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))),
                              capture_output=True, timeout=120)
        bench.case(f"losses: {name}", [
            differs("status", done.returncode, 0),
            differs("said", done.stderr.count(f"cannot be written to {path}\n"), 1),
            unless(re.search(r"GPU calls that failed in process \d+: \d+:\n", done.stderr), done.stderr[-600:]),
            unless(re.search(r"cudaMemcpy = 700 \(cudaErrorIllegalAddress\), \d+ times?, at", done.stderr),
                   done.stderr[-600:])])


def options(bench):
    """What --print shows is what the program gets."""
    out = subprocess.run([bench.exe, "run", "--trace-gpu", "--trace-file", "t.jsonl", "--print", "--", "/bin/true"],
                         env=bench.environment(LD_AUDIT="/other.so"), cwd=bench.folder,
                         capture_output=True, text=True, check=False).stdout
    bench.case("--print", [
        unless(re.search(r"^export LD_AUDIT=\S+/gpumend-gpucall\.so:/other\.so$", out, re.M), out),
        unless(f"export GPUMEND_TRACE_GPU={bench.folder}/t.jsonl\n" in out, out)])


def main():
    with tempfile.TemporaryDirectory(prefix="gpumend-gpucall-") as folder:
        bench = Bench(sys.argv[1], Path(folder).resolve())
        for part in (thousand, every_one, parallel, forked, unwound, design, kernels, arguments, passes, python,
                     python_lines, besides_python, hip, real,
                     cupti, real_cupti, quiet, losses, options):
            part(bench)
        if bench.validator:
            bench.case("schema", [unless(bench.lines, "no line"), *sorted(set(bench.schema_faults))])
        else:
            bench.skip("schema", "no jsonschema")
        print(f"{bench.passed} passed, {bench.failed} failed, {bench.skipped} skipped")
        return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
