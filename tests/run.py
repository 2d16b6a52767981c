#!/usr/bin/env python3
"""Runs the suites of one or more groups and prints the sum of their counts.

    tests/run.py [--build DIR] [--only SUITE]... GROUP...

A suite is a command. Its last line says `N passed, N failed[, N skipped]` (or its output holds
meson's summary); lines that start with FAIL or SKIP, and those that name a seed, are shown as they
come. The whole output of a suite is kept in DIR/test-logs/SUITE.log. A suite counts as one failure
more when it ends with a status other than 0 without having counted a failure, when it says nothing
that can be counted, when it counted nothing at all, and when it takes longer than its limit.

The last line is `N passed, N failed, N skipped`; the exit status is 0 only when nothing failed.
"""

import argparse
import collections
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
PY = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

Suite = collections.namedtuple("Suite", "group name limit_s command")
Counts = collections.namedtuple("Counts", "passed failed skipped")

# `{exe}` is the executable under test, `{build}` its build folder, `{py}` Python.
# Build folders of other kinds stand beside `build`, so that a second run builds only what changed.
SUITES = [
    Suite("test", "unit", 600,
          "tests/meson-suite {build}-gcc --werror"),
    # Without --werror: gcc's warnings are not reliable with sanitizers (its manual says so).
    Suite("test", "unit-sanitized", 900,
          "tests/meson-suite {build}-asan -Dbuildtype=debugoptimized "
          "-Db_sanitize=address,undefined"),
    Suite("test", "unit-clang", 900,
          "CC=clang tests/meson-suite {build}-clang --werror"),
    Suite("test", "valgrind", 900, "{py} tests/valgrind.py {build}-valgrind"),
    Suite("test", "include-order", 60, "{py} tests/include-order.py"),
    Suite("test", "early-code", 60, "{py} scripts/early-code {build} --check"),
    Suite("test", "kb-data", 60, "{py} tests/kb-check.py"),
    Suite("test", "kb-queries", 120, "{py} tests/kb/run.py {exe}"),
    Suite("test", "documents", 120, "{py} tests/documents.py {exe}"),
    Suite("test", "pages", 120, "{py} tests/pages.py {exe}"),
    Suite("test", "explain", 900, "{py} tests/explain/run.py {exe}"),
    Suite("test", "explain-generality", 300, "{py} tests/explain/generality.py"),
    Suite("test", "json-schema", 300, "{py} tests/json-schema.py {exe}"),
    Suite("test", "causes", 300, "{py} tests/causes/run.py {exe}"),
    Suite("test", "explain-words", 300, "{py} tests/explain/words.py {exe}"),
    Suite("test", "cli", 120, "{py} tests/cli.py {exe}"),
    Suite("test", "explain-command", 120, "{py} tests/explain/command.py {exe}"),
    Suite("test", "why", 60, "{py} tests/why.py {exe}"),
    Suite("test", "launcher", 300, "{py} tests/mend/launcher.py {exe}"),
    Suite("test", "plan", 300, "{py} tests/mend/plan.py {exe}"),
    Suite("test", "api", 600, "{py} tests/api/run.py {build}"),
    Suite("test", "mend-apply", 300, "{py} tests/mend/apply.py {exe}"),
    Suite("test", "mend-faults", 600, "{py} tests/mend/faults.py {exe}"),
    Suite("test", "python", 1200, "{py} tests/python/run.py {exe}"),
    Suite("test", "looking-only", 300, "{py} tests/safety/looking_only.py {exe}"),
    Suite("test", "hostile-files", 600, "{py} tests/safety/hostile.py {exe}"),
    Suite("test", "container", 300, "tests/container/alone.sh {exe}"),
    Suite("test", "cdi", 300, "{py} tests/container/cdi.py {exe}"),
    Suite("test", "images", 600, "{py} tests/container/image.py {exe}"),
    Suite("test", "hostile-images", 600, "{py} tests/container/hostile.py {exe}"),
    Suite("test", "image-findings", 300, "{py} tests/container/findings.py {exe}"),
    Suite("test", "slim-image", 600, "{py} tests/container/slim.py {exe}"),
    Suite("test", "container-settings", 600, "{py} tests/container/settings.py {exe}"),
    Suite("test", "trees", 120, "{py} tests/trees/run.py {exe}"),
    Suite("test", "tree-causes", 120, "{py} tests/trees/causes.py {exe}"),
    Suite("test", "probe", 900, "{py} tests/probe/run.py {exe}"),
    Suite("test", "watch-gpucall", 300, "{py} tests/watch/gpucall.py {exe}"),
    Suite("test", "watch-restart", 300, "{py} tests/watch/restart.py {exe}"),
    Suite("test", "watch-guard", 300, "{py} tests/watch/guard.py {exe}"),
    Suite("test", "choose", 300, "{py} tests/choose/run.py {exe}"),
    Suite("test", "snapshot", 600, "{py} tests/snapshot/run.py {exe}"),
    Suite("test", "watch-trace", 600, "{py} tests/watch/trace.py {exe}"),
    Suite("test", "trees-check", 300, "{py} tests/trees/check.py {exe}"),
    Suite("test", "machine", 600,
          "{py} tests/differential/machine.py --gpumend {exe} --limit 600"),
    Suite("test", "worlds", 900,
          "{py} tests/differential/worlds.py --gpumend {exe} --count 2000"),
    Suite("test-scenarios", "scenarios", 1800,
          "{py} tests/scenarios/run.py --gpumend {exe}"),
    # After the scenarios, whose wheels it reads.
    Suite("test-scenarios", "gpu-code", 900,
          "{py} tests/gpu/compare.py --build {build}"),
    Suite("test-scenarios", "plan-scenarios", 1800,
          "{py} tests/mend/scenarios.py --gpumend {exe}"),
    Suite("test-scenarios", "watch-trace-scenarios", 1800,
          "{py} tests/watch/scenarios.py --gpumend {exe}"),
    # From the crash to its end and back, by every way that the plan has.
    Suite("test-scenarios", "end-to-end", 1800,
          "{py} tests/mend/endtoend.py --gpumend {exe}"),
    Suite("test-scenarios", "packages", 1800,
          "{py} tests/mend/packages.py --gpumend {exe}"),
    Suite("test-scenarios", "uvicorn", 1800,
          "{py} tests/mend/uvicorn.py --gpumend {exe}"),
    Suite("bench", "bench", 3600, "{py} tests/bench/run.py --gpumend {exe} --strict"),
    Suite("differential", "machine-all", 3600,
          "{py} tests/differential/machine.py --gpumend {exe}"),
    Suite("differential", "worlds-all", 3600,
          "{py} tests/differential/worlds.py --gpumend {exe} --count 5000"),
    Suite("test", "fuzz", 900, "tests/fuzz/run --seconds 5"),
]

SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\.?$")
MESON = re.compile(r"^(Ok|Expected Fail|Fail|Unexpected Pass|Skipped|Timeout):\s+(\d+)\s*$")
SHOWN = re.compile(r"^(FAIL|SKIP)\b|\bseed \d+")


def counts_of(lines):
    """The counts that a suite's output states, or None."""
    for line in reversed(lines):
        if line.strip():
            found = SUMMARY.match(line.strip())
            if found:
                return Counts(*(int(n or 0) for n in found.groups()))
            break
    meson = {m.group(1): int(m.group(2)) for m in map(MESON.match, lines) if m}
    if meson:
        return Counts(meson.get("Ok", 0) + meson.get("Expected Fail", 0),
                      meson.get("Fail", 0) + meson.get("Unexpected Pass", 0)
                      + meson.get("Timeout", 0),
                      meson.get("Skipped", 0))
    return None


def judged(counts, status, timed_out):
    """The counts, with one failure more where the suite itself went wrong, and why."""
    if timed_out:
        return (counts or Counts(0, 0, 0))._replace(
            failed=(counts.failed if counts else 0) + 1), "took longer than its limit"
    if counts is None:
        return Counts(0, 1, 0), f"status {status}, and no counts in its last line"
    if status != 0 and counts.failed == 0:
        return counts._replace(failed=1), f"status {status} though it counted no failure"
    if sum(counts) == 0:
        return Counts(0, 1, 0), "ran nothing"
    return counts, None


def run_one(suite, args, log_path, loud):
    """Runs a suite in its own process group; returns its lines, status and whether it was ended."""
    command = suite.command.format(exe=args.build / "gpumend", build=args.build, py=PY)
    child = subprocess.Popen(["/bin/sh", "-c", command], cwd=TOP, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             errors="backslashreplace", start_new_session=True)
    ended = threading.Event()

    def end():
        ended.set()
        os.killpg(child.pid, signal.SIGKILL)

    timer = threading.Timer(suite.limit_s, end)
    timer.start()
    lines = []
    with open(log_path, "w", encoding="utf-8") as log:
        log.write(f"$ {command}\n")
        for line in child.stdout:
            log.write(line)
            lines.append(line.rstrip("\n"))
            if loud or SHOWN.search(line):
                print("  " + line, end="", flush=True)
    status = child.wait()
    timer.cancel()
    return lines, status, ended.is_set()


def main():
    parser = argparse.ArgumentParser(description="Runs the test suites of gpumend.")
    parser.add_argument("--build", type=Path, default=TOP / "build")
    parser.add_argument("--only", action="append", metavar="SUITE")
    parser.add_argument("groups", nargs="+", metavar="GROUP",
                        choices=sorted({s.group for s in SUITES}))
    # In the background of a shell it is ignored, and so would be what suites start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    args = parser.parse_args()
    args.build = args.build.resolve()
    logs = args.build / "test-logs"
    logs.mkdir(parents=True, exist_ok=True)

    total = Counts(0, 0, 0)
    for suite in SUITES:
        if suite.group not in args.groups or (args.only and suite.name not in args.only):
            continue
        print(f"{suite.name} ...", flush=True)
        started = time.monotonic()
        log_path = logs / f"{suite.name}.log"
        lines, status, timed_out = run_one(suite, args, log_path, suite.group != "test")
        counts, problem = judged(counts_of(lines), status, timed_out)
        if counts.failed and suite.group == "test":
            print("  | " + "\n  | ".join(lines[-40:]))
        print(f"{suite.name}: {counts.passed} passed, {counts.failed} failed, "
              f"{counts.skipped} skipped ({time.monotonic() - started:.1f} s)"
              + (f": {problem}" if problem else "")
              + (f"; see {log_path}" if counts.failed else ""), flush=True)
        total = Counts(*(a + b for a, b in zip(total, counts)))
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or not sum(total) else 0


if __name__ == "__main__":
    sys.exit(main())
