"""`gpumend fleet report` on 10,000 nodes, beside jq and DuckDB on the same lines, and `export` on this machine.

The nodes are those of tests/fleet/report.py: lines of captured machines with planted differences, so that each tool's answer to
"who differs from the nodes with the same GPUs, and in what" is compared with what was planted. DuckDB gets the statement of
`fleet query`, by the module of the Python that runs this (skipped without). Stores of snapshots are measured by
tests/fleet/store_size.py, which takes some minutes for 10,000.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
NODES, REPORT_MIB, EXPORT_MS = 10000, 1024, 50
FORMATS = ("prometheus", "nfd", "npd", "slurm", "slurm-features", "slurm-extra", "ndjson")
JQ = """
def value($k): if $k | startswith("target ") then [.targets[] | select("target " + .target == $k) | .environment][0]
               else .facts[$k] end;
group_by(.node) | map(max_by(.time)) | group_by(.facts.gpu_names)[] | select(length >= 3) | . as $group |
([$group[] | (.facts | keys[]), (.targets[] | "target " + .target)] | unique[]) as $k |
($group | group_by(value($k))) as $values | ($values | max_by(length)) as $most |
select(($most | length) * 2 > ($group | length)) | $values[] | select(. != $most)[] | [.node, $k]
"""
DUCKDB = """
import sys, duckdb, json
duckdb.sql("SET enable_progress_bar = false")
for row in duckdb.sql(sys.stdin.read()).fetchall():
    print(json.dumps(row[:2]))
"""


def load_report():
    """The makers of nodes; the module's name is one of the library's own here."""
    sys.path.insert(0, str(TESTS / "fleet"))
    try:
        import report
    finally:
        sys.path.pop(0)
    return report


def timed(command, given=None):
    begin = time.perf_counter()
    done = subprocess.run([str(c) for c in command], input=given, capture_output=True, text=True, check=False)
    return time.perf_counter() - begin, done.stdout


def answers(bench, file):
    """name: (command, standard input, what makes pairs of its output)"""
    def lines(out):
        return {tuple(json.loads(x)) for x in out.splitlines()}
    ways = {"gpumend": ([bench.gpumend, "fleet", "report", file, "--json"], None,
                        lambda out: {(d["node"], d["fact"]) for d in json.loads(out)["differs"]})}
    if shutil.which("jq"):
        ways["jq"] = (["jq", "--slurp", "--compact-output", JQ, file], None, lines)
    else:
        bench.skip("fleet: jq", "is not installed")
    if subprocess.run([sys.executable, "-c", "import duckdb"], capture_output=True, check=False).returncode == 0:
        _, statement = timed([bench.gpumend, "fleet", "query", "differs", file])
        ways["DuckDB"] = ([sys.executable, "-c", DUCKDB], statement, lines)
    else:
        bench.skip("fleet: DuckDB", f"{sys.executable} has no module duckdb")
    return ways


def bench_fleet(bench, runs, peak_memory):
    report = load_report()
    with tempfile.TemporaryDirectory(prefix="gpumend-bench-") as folder:
        top = pathlib.Path(folder)
        lines, planted = report.synthetic(pathlib.Path(bench.gpumend), top, NODES)
        file = top / "nodes.ndjson"
        report.dump(file, lines)
        ways = answers(bench, file)
        times, found = {name: [] for name in ways}, {}
        for _ in range(min(runs, 5)):
            for name, (command, given, pairs) in ways.items():
                seconds, out = timed(command, given)
                times[name].append(seconds)
                found[name] = pairs(out)
        print(f"\nfleet: who of {NODES} nodes ({file.stat().st_size / 1e6:.1f} MB of lines) differs, and in what; "
              f"{len(planted)} planted")
        best = {name: min(taken) for name, taken in times.items()}
        for name, seconds in best.items():
            right = len(found[name] & planted)
            print("  %-10s %7.2f s %6.1f x   precision %.4f, recall %.4f" % (
                name, seconds, seconds / best["gpumend"], right / max(1, len(found[name])), right / len(planted)))
        bench.budget("precision and recall of a report", f"{len(found['gpumend'] ^ planted)} wrong", "0 wrong",
                     found["gpumend"] == planted)
        mib = peak_memory([str(bench.gpumend), "fleet", "report", str(file), "--json"]) / 2**20
        bench.budget("memory of a report", "%.0f MiB" % mib, f"< {REPORT_MIB} MiB", mib < REPORT_MIB)
        for name, seconds in best.items():
            if name != "gpumend":
                bench.budget(f"a report beside {name}", "%.1f x" % (seconds / best["gpumend"]), "faster",
                             seconds > best["gpumend"])
    print("\nexport: this machine")
    for name in FORMATS:
        milliseconds = 1000 * min(timed([bench.gpumend, "export", name])[0] for _ in range(min(runs, 15)))
        bench.budget(f"export {name}", "%.1f ms" % milliseconds, f"< {EXPORT_MS} ms", milliseconds < EXPORT_MS)
