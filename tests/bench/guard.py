"""What `run --guard-teardown` adds to the end of a thread."""

import os
import pathlib
import statistics
import subprocess
import tempfile

WATCH = pathlib.Path(__file__).resolve().parent.parent / "watch"
HERE = pathlib.Path(__file__).resolve().parent
THREADS = 2000
DESTRUCTORS = 5          # of guard_probe.cc, a thread
LIMIT_NS = 50000         # for one destructor


def nanoseconds(command, env):
    """One thread's life in the program, in ns."""
    return int(subprocess.run([str(c) for c in command], env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=True).stdout)


def build(top):
    def compile_it(target, *arguments):
        subprocess.run(["g++", "-O2", *arguments, "-o", top / target, "-pthread"], check=True)
    compile_it("libgpu.so", "-shared", "-fPIC", "-DWITH_CODE", WATCH / "guard_probe.cc")
    compile_it("libnone.so", "-shared", "-fPIC", WATCH / "guard_probe.cc")
    compile_it("ends", HERE / "guard_ends.cc")


def bench_guard(bench, runs):
    """Other work on the machine only adds, most of all to a change of threads, so that the quickest
    turn of each counts; the medians stand beside it."""
    with tempfile.TemporaryDirectory(prefix="gpumend-bench-") as folder:
        top = pathlib.Path(folder)
        try:
            build(top)
        except (OSError, subprocess.CalledProcessError):
            return bench.skip("guard", "g++ is needed")
        env = dict(os.environ, HOME=folder, XDG_CACHE_HOME=folder)
        guarded = [bench.gpumend, "run", "--guard-teardown", "--"]
        ways = {"plain": [top / "ends", top / "libgpu.so", THREADS],
                "guarded, no GPU's library": [*guarded, top / "ends", top / "libnone.so", THREADS],
                "guarded, moved": [*guarded, top / "ends", top / "libgpu.so", THREADS]}
        times = {name: [] for name in ways}
        for _ in range(min(runs, 7)):
            for name, command in ways.items():
                times[name].append(nanoseconds(command, env))
    plain = min(times["plain"])
    print(f"\nguard: the life of a thread with {DESTRUCTORS} thread-local destructors")
    for name, taken in times.items():
        print("  %-28s %8d ns  %.2f x  (median %.0f, slowest %d)" % (
            name, min(taken), min(taken) / plain, statistics.median(taken), max(taken)))
    one = (min(times["guarded, moved"]) - plain) / DESTRUCTORS
    print("  a moved destructor: %.0f ns more" % one)
    bench.budget("a moved destructor", "%.0f ns" % one, f"< {LIMIT_NS} ns", one < LIMIT_NS)
    return None
