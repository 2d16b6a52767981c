"""What `run --trace` costs the program, beside LD_DEBUG=libs, which tells less and in no form.

The same program, one way after the other: plainly; with the loader's own trace into a file; with the
audit library alone, as `run --trace --print` names it, into a file; and the whole of `run --trace`, which
plans before and compares with the model after.
"""

import pathlib
import re
import shutil
import subprocess
import tempfile

import cases
import store

OPENER = """
import ctypes
for i in range(2000):
    try:
        ctypes.CDLL("libnothing%d.so" % i)
    except OSError:
        pass
"""


def variables(gpumend, record, cache, clean):
    """Those that load the library."""
    done = subprocess.run([gpumend, "run", "--trace", "--trace-file", record, "--print", "--",
                           "/bin/true"], env=dict(clean, XDG_CACHE_HOME=str(cache)), check=True,
                          capture_output=True, text=True)
    return dict(re.findall(r"^export (\w+)=(.*)$", done.stdout, re.M))


def bench_one(bench, what, command, top, runs, in_turns, print_table):
    clean = store.clean_environment()
    record = str(top / "trace.jsonl")
    pathlib.Path(record).write_text("")
    debug = dict(clean, LD_DEBUG="libs", LD_DEBUG_OUTPUT=str(top / "debug"))
    audit = dict(clean, **variables(bench.gpumend, record, top / "cache", clean))
    whole = [bench.gpumend, "run", "--trace", "--trace-file", str(top / "whole.jsonl"), "--",
             *command]
    measured = in_turns({"plainly": (command, clean), "LD_DEBUG=libs": (command, debug),
                         "the audit library": (command, audit),
                         "run --trace": (whole, dict(clean, XDG_CACHE_HOME=str(top / "cache")))},
                        runs)
    plain, theirs, ours = (measured[n].seconds for n in ("plainly", "LD_DEBUG=libs",
                                                         "the audit library"))
    lines = sum(1 for _ in open(record, "rb")) / (measured["plainly"].turns + 1)
    print_table("trace: %s" % what, measured, (
        "the library adds %.2f ms for %d lines, LD_DEBUG=libs %.2f ms: %.2f x; whole process %.2f x" % (
            (ours - plain) * 1e3, lines, (theirs - plain) * 1e3,
            (ours - plain) / max(theirs - plain, 1e-6), ours / theirs),))
    bench.budget("trace: whole process beside LD_DEBUG=libs", "%.2f x" % (ours / theirs), "< 2 x",
                 lines > 10 and ours / theirs < 2)


def bench_trace(bench, runs, in_turns, print_table):
    wheels = store.Store(store.cache_folder(),
                         store.read_pins(pathlib.Path(store.__file__).parent / "wheels.txt"),
                         lambda text: print("  " + text, flush=True))
    env = None
    with tempfile.TemporaryDirectory(prefix="gpumend-bench-") as top:
        top = pathlib.Path(top)
        bench_one(bench, "2000 libraries that are not there", ["/usr/bin/python3", "-c", OPENER], top,
                  runs, in_turns, print_table)
        try:
            store.usable_python()
            env = wheels.build("bench-trace", list(dict.fromkeys(cases.TORCH12)))
            bench_one(bench, "import torch 2.5.1", [str(env / "bin/python"), "-c", "import torch"], top,
                      min(runs, 7), in_turns, print_table)
        except store.Skip as reason:
            bench.skip("trace of torch", str(reason))
        finally:
            if env:
                shutil.rmtree(env, ignore_errors=True)
