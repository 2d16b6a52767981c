#!/usr/bin/env python3
"""`run --guard-teardown`: destructors that crash at a thread's end run elsewhere, and nothing else changes.

    tests/watch/guard.py [GPUMEND]
"""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

try:
    import jsonschema
except ImportError:
    jsonschema = None

sys.dont_write_bytecode = True
import guardlab  # noqa: E402
from guardlab import differs, lacks  # noqa: E402

SWITCHES = 1000
GROWN_PAGES_MAX = 256   # 1 MiB over nine tenths of them
GUARD = ["--guard-teardown"]


def make(lab):
    """The runtime, and models that need it in each way by which one is known."""
    here = ("-Wl,-rpath,$ORIGIN",)
    lab.library("libcudart.so.12", "guard_runtime.cc")
    lab.library("libhidden.so", "guard_runtime.cc")   # a runtime that no name tells
    gpu, hidden = lab.folder / "libcudart.so.12", lab.folder / "libhidden.so"
    lab.library("libmodel.so", "guard_model.cc", gpu, *here)
    lab.library("libcode.so", "guard_model.cc", "-DWITH_CODE", hidden, *here)
    lab.library("libplain.so", "guard_model.cc", hidden, *here)
    lab.library("libprobe.so", "guard_probe.cc", "-DWITH_CODE", "-pthread")
    lab.library("libnone.so", "guard_probe.cc", "-pthread")
    lab.compile("switch", source="guard_switch.cc")
    lab.compile("cases", "-pthread", source="guard_cases.cc")
    for keepers in (0, 3):
        lab.compile(f"denied{keepers}", "-pthread", f"-DDENY_KEEPER={keepers}", source="guard_cases.cc")
    lab.library("libexits.so", "guard_exits.c")


def switches(lab):
    model, switch = lab.folder / "libmodel.so", lab.folder / "switch"
    done = lab.run(["--no-guard-teardown"], [switch, model, 1])
    lab.check("unguarded, one switch leaves memory taken",
              lacks("switched 1 device 1048576", done.stdout))
    done = lab.run(["--no-guard-teardown"], [switch, model, 2])
    lab.check("unguarded, the second switch crashes", differs(-signal.SIGSEGV, done.returncode))
    for name in ("libmodel.so", "libcode.so"):
        done = lab.run(GUARD, [switch, lab.folder / name, SWITCHES])
        said = re.match(rf"switched {SWITCHES} device 0 grown (-?\d+)\n", done.stdout)
        lab.check(f"{name}: {SWITCHES} switches", differs(0, done.returncode)
                  or lacks(f"switched {SWITCHES} device 0", done.stdout)
                  or differs("", done.stderr))
        lab.check(f"{name}: memory", "" if said and int(said.group(1)) <= GROWN_PAGES_MAX
                  else f"grown: {done.stdout}")
    done = lab.run(GUARD, [switch, lab.folder / "libplain.so", 2])
    lab.check("a library without a GPU is left alone", differs(-signal.SIGSEGV, done.returncode))
    library = placed(lab)
    env = lab.environment(LD_PRELOAD=library)
    done = subprocess.run([switch, model, "2"], env=env, capture_output=True, check=False)
    lab.check("without its variable it does nothing", differs(-signal.SIGSEGV, done.returncode))
    env["GPUMEND_GUARD"] = "1"
    done = subprocess.run([switch, model, "2"], env=env, capture_output=True, check=False)
    lab.check("with it alone it does", differs(0, done.returncode))


def placed(lab):
    """The library's path, out of --print."""
    done = lab.run([*GUARD, "--print"], ["true"])
    found = re.search(r"LD_PRELOAD='?([^'\n]*gpumend-guard\.so)", done.stdout)
    lab.check("--print names the library", lacks("GPUMEND_GUARD", done.stdout)
              or ("" if found else done.stdout))
    return found.group(1)


def order(lab):
    """Destructors run in the order they would, the program's own in their own thread."""
    plain = subprocess.run([lab.folder / "cases", "order", lab.folder / "libprobe.so"],
                           env=lab.environment(), capture_output=True, text=True, check=True)
    lab.check("order: all are told", differs(10, len(plain.stdout.split("\n")) - 1)
              or differs(0, plain.stdout.count("elsewhere")))
    for library in ("libprobe.so", "libnone.so"):
        done = lab.run(GUARD, [lab.folder / "cases", "order", lab.folder / library])
        expected = plain.stdout
        if library == "libprobe.so":
            expected = "".join(line if line.startswith("own") else line.replace("here", "elsewhere")
                               for line in expected.splitlines(True))
        lab.check(f"order with {library}", differs(expected, done.stdout))


def cases(lab):
    # exit() does not wait for the destructor of "exit-while-waiting", which sleeps longer than a run may take.
    for mode, status, out in (
            ("first-thread", 0, ""),
            ("exit-in-thread", 6, ""),
            ("many", 0, "600 destroyed, few threads: yes\n"),
            ("nested", 0, "joined\n"),
            ("fork", 0, "6 of 9 elsewhere\nchild 3\n"),
            ("first-leaves", 0, ""),
            ("exit-while-waiting", 4, "leaving\n"),
            ("close-all", 0, "3 destroyed\n"),
            ("unload", 0, "6 destroyed\n")):
        for again in ((), ("--restart", "on-crash:1")):
            done = lab.run([*GUARD, *again], [lab.folder / "cases", mode, lab.folder / "libprobe.so"])
            out_now = "".join(line for line in done.stdout.splitlines(True)
                              if not line.startswith("own"))
            lab.check(f"{mode} {' '.join(again)}".strip(), differs((status, out), (done.returncode, out_now)))
    done = lab.run(GUARD, [lab.folder / "cases", "exec", lab.folder / "libprobe.so"])
    lab.check("exec", differs((0, 6), (done.returncode, done.stdout.count("elsewhere"))))
    done = lab.run(GUARD, [lab.folder / "denied0", "order", lab.folder / "libprobe.so"])
    lab.check("no thread for a keeper: destroyed in place",
              differs((0, 10), (done.returncode, done.stdout.count("here\n"))))
    done = lab.run(GUARD, [sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])",
                           lab.folder / "libexits.so"], timeout=30)
    lab.check("exit() in a constructor", differs(8, done.returncode))


# Program, mode, how many threads, status, what is printed: where keepers do not suffice, and do.
GIVEN_BACK = (
    ("cases", "meet", 33, 0, "33 met\n"), ("cases", "meet", 64, 0, "64 met\n"),
    ("cases", "meet", 500, 0, "500 met\n"), ("cases", "chain", 500, 0, "joined\n"),
    ("cases", "meet-fork", 64, 0, "child 3, 64 met\n"), ("cases", "meet-exit", 64, 4, "leaving\n"),
    ("cases", "never", 1, 5, "3 of 3 elsewhere\n40 met\n"),
    ("cases", "never", 32, 5, "0 of 3 elsewhere\n40 met\n"),
    ("denied3", "meet", 5, 0, "5 met\n"),
)
PLENTY = (("cases", "meet", 32, 0, "32 met\n"), ("cases", "chain", 31, 0, "joined\n"))


def given_back(lab):
    """Threads that wait for one another, more than there can be keepers: they end, all of them."""
    def start(case):
        program, mode, n, *_ = case
        trace = lab.folder / f"trace-{program}-{mode}-{n}"
        done = lab.run([*GUARD, "--trace", "--trace-file", trace],
                       [lab.folder / program, mode, lab.folder / "libprobe.so", n])
        return case, done, trace.read_text()
    with ThreadPoolExecutor() as pool:
        for (program, mode, n, status, out), done, trace in pool.map(start, GIVEN_BACK + PLENTY):
            name = f"{program}: {mode} of {n}"
            lab.check(name, differs((status, out), (done.returncode, done.stdout)))
            if mode != "meet-exit":
                lab.check(f"{name}: told", differs((program, mode, n, status, out) in GIVEN_BACK,
                                                   "was run in place: no keeper was free" in trace))


def traced(lab):
    """What was moved and left out is told."""
    trace = lab.folder / "trace"
    began = time.monotonic_ns()
    done = lab.run([*GUARD, "--trace", "--trace-file", trace],
                   [lab.folder / "switch", lab.folder / "libmodel.so", 3])
    took_ns = time.monotonic_ns() - began
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    moved = [e for e in events if e.get("event") == "teardown"]
    lab.check("trace: three moved", differs(0, done.returncode) or differs(["moved"] * 3, [e["did"] for e in moved])
              or differs({str(lab.folder / "libmodel.so")}, {e["object"] for e in moved}))
    done = lab.run([*GUARD, "--trace"], [lab.folder / "switch", lab.folder / "libmodel.so", 2])
    lab.check("trace: in words", lacks("a thread-local destructor of libmodel.so was run by a keeper",
                                       done.stderr))
    schema = json.loads((guardlab.HERE.parent.parent / "docs/json/trace.schema.json").read_text())
    draft = getattr(jsonschema, "Draft202012Validator", None)
    if draft:
        faults = [f"{e}: {f.message[:200]}" for e in moved for f in draft(schema).iter_errors(e)]
        lab.check("trace: schema", faults[:1])
    else:
        lab.skip("trace: schema", "no jsonschema of version 4 or later")
    lab.check("trace: how long", differs(True, all(0 < e["ns"] < took_ns for e in moved)))
    trace.unlink()
    lab.run([*GUARD, "--trace", "--trace-file", trace],
            [lab.folder / "cases", "first-thread", lab.folder / "libprobe.so"])
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    lab.check("trace: left out at the end", differs(
        ["left-out"] * 6, [e["did"] for e in events if e.get("event") == "teardown"]))


def by_itself(lab):
    """On without an option where the program loads a library whose fault is known."""
    here, code = "-Wl,-rpath,$ORIGIN", lab.folder / "libcode.so"
    hidden = lab.folder / "libhidden.so"
    for folder, flags in (("known", ["-DWITH_CODE"]), ("cpu", [])):
        (lab.folder / folder).mkdir()
        shutil.copy(hidden, lab.folder / folder)
        library = lab.compile(f"{folder}/libctranslate2.so.4", "-shared", "-fPIC",
                              "-Wl,-soname,libctranslate2.so.4", *flags, here,
                              lab.folder / folder / "libhidden.so", source="guard_model.cc")
        program = lab.compile(f"{folder}/switch", "-Wl,--no-as-needed", here, library,
                              source="guard_switch.cc")
        done = lab.run(["--json"], [program, library, 10])
        document = json.loads(done.stdout)
        lab.check(f"{folder}: the plan", differs(folder == "known", "GPUMEND_GUARD" in document["changes"])
                  or differs(["crash-on-unload"] if folder == "known" else [],
                             [m["cause"] for m in document["mends"]]))
        for options in ([], [], ["--no-guard-teardown"], ["--no-preload"]):
            done = lab.run(options, [program, library, 10])
            guarded = folder == "known" and not options
            lab.check(f"{folder} {' '.join(options)}".strip(),
                      differs(0 if guarded else -signal.SIGSEGV, done.returncode))
        done = lab.run(["--no-guard-teardown", "--json"], [program, library, 10])
        lab.check(f"{folder}: not with --no-guard-teardown",
                  differs(({}, []), tuple(json.loads(done.stdout)[k] for k in ("changes", "mends"))))
    done = lab.run(["--json"], [lab.folder / "switch", code, 10])
    lab.check("another library: not by itself", differs({}, json.loads(done.stdout)["changes"]))


# The loader's own strncmp reads eight bytes at a time, behind the end of some RPATHs.
LOADER_READS_WORDS = "{\n  dst\n  Memcheck:Addr8\n  fun:strncmp\n  fun:is_dst\n}\n"


def tools(lab):
    """Under valgrind and with ASan programs stay clean."""
    model = lab.folder / "libmodel.so"
    if shutil.which("valgrind"):
        known = lab.folder / "known.supp"
        known.write_text(LOADER_READS_WORDS)
        done = lab.run([*GUARD, "--restart", "on-crash:1"],
                       ["valgrind", "--error-exitcode=77", f"--suppressions={known}",
                        lab.folder / "switch", model, 3], timeout=300)
        lab.check("valgrind", differs(0, done.returncode) or lacks("ERROR SUMMARY: 0 errors", done.stderr)
                  or lacks("switched 3 device 0", done.stdout))
    else:
        lab.skip("valgrind", "not installed")
    for compiler in ("g++", "clang++"):
        flags = ("-fsanitize=address", "-pthread")
        program = lab.compile(f"asan-{compiler}", *flags, compiler=compiler, source="guard_cases.cc")
        if not program:
            lab.skip(f"ASan of {compiler}", "not installed")
            continue
        library = lab.compile(f"libprobe-{compiler}.so", *flags, "-shared", "-fPIC", "-DWITH_CODE",
                              compiler=compiler, source="guard_probe.cc")
        for mode, out in (("order", "elsewhere"), ("nested", "joined"), ("many", "600 destroyed")):
            done = lab.run([*GUARD, "--restart", "on-crash:1"], [program, mode, library], timeout=120)
            lab.check(f"ASan of {compiler}: {mode}", differs((0, ""), (done.returncode, done.stderr))
                      or lacks(out, done.stdout))


def refusals(lab):
    musl = lab.compile("musl_plain", source="restart_plain.c", compiler="musl-gcc")
    if musl:
        done = lab.run(GUARD, [musl, "fine"])
        lab.check("musl", differs((0, "at work\n"), (done.returncode, done.stdout))
                  or lacks("is a musl program: what --guard-teardown needs cannot be loaded", done.stderr))
        done = lab.run(GUARD, ["sh", "-c", shlex.quote(str(musl)) + " fine; true"])
        lab.check("musl behind a shell", differs((0, "at work\n"), (done.returncode, done.stdout))
                  or lacks("which sh starts, is a musl program: what --guard-teardown needs", done.stderr))
    else:
        lab.skip("musl", "no musl-gcc")
    many = lab.folder / "many"
    many.mkdir()
    for i in range(65):
        shutil.copy(shutil.which("true"), many / f"program{i}")
    done = lab.run(GUARD, ["sh", "-c", "; ".join(shlex.quote(str(p)) for p in sorted(many.iterdir()))])
    lab.check("a shell that starts 65 programs", differs(0, done.returncode)
              or lacks("sh starts more than 64 programs", done.stderr))
    done = lab.run([*GUARD, "--no-guard-teardown"], ["true"])
    lab.check("both options", differs(2, done.returncode))
    for command in ([sys.executable, "-c", "import threading; t = threading.Thread(target=print, "
                     "args=('x',)); t.start(); t.join()"], ["sh", "-c", "echo x"]):
        done = lab.run(GUARD, command)
        lab.check(f"{Path(command[0]).name}: undisturbed",
                  differs((0, "x\n", ""), (done.returncode, done.stdout, done.stderr)))


def run(lab):
    make(lab)
    switches(lab)
    order(lab)
    cases(lab)
    given_back(lab)
    traced(lab)
    by_itself(lab)
    tools(lab)
    refusals(lab)


if __name__ == "__main__":
    sys.exit(guardlab.main(run, sys.argv))
