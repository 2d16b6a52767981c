"""What `run --trace-gpu` costs a program whose GPU calls succeed."""

import os
import pathlib
import subprocess
import tempfile

WATCH = pathlib.Path(__file__).resolve().parent.parent / "watch"
BUDGET_NS = 20.0


def build(folder):
    library, program = os.path.join(folder, "libcudart.so.12"), os.path.join(folder, "million")
    cc = ["cc", "-std=gnu17", "-O2"]
    subprocess.run([*cc, "-shared", "-fPIC", "-Wl,-soname,libcudart.so.12", "-o", library,
                    str(WATCH / "gpucall_swift.c")], check=True)
    subprocess.run([*cc, "-o", program, str(WATCH / "gpucall_million.c"), library,
                    "-Wl,-rpath," + folder], check=True)
    return program


def figures(command):
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(n) for n in done.stdout.split()]


def bench_gpucall(bench, runs):
    """Other work on the machine only adds, so the quickest turn of each counts."""
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        plain, watched = [], []
        for _ in range(max(runs, 5)):
            plain.append(figures([program]))
            watched.append(figures([bench.gpumend, "run", "--trace-gpu", "--", program]))
    print("\nrun --trace-gpu: a million calls that succeed and do nothing")
    for i, what in enumerate(("1 argument", "8 arguments, 2 on the stack")):
        before, after = (min(turn[i] for turn in turns) for turns in (plain, watched))
        print("  %-30s %6.2f ns a call, watched %6.2f ns: %.1f x, %.2f ns more" % (
            what, before, after, after / before, after - before))
        bench.budget("a call that succeeds, " + what.split(",")[0], "%.1f ns more" % (after - before),
                     "< %d ns" % BUDGET_NS, after - before < BUDGET_NS)
