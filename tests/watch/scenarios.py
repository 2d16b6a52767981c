#!/usr/bin/env python3
"""`gpumend run --trace` in real environments: the trace and the model tell the same story.

    tests/watch/scenarios.py [--gpumend PATH] [--only NAME]... [--verbose]

For every scenario of tests/scenarios/cases.py its script of imports and first uses runs as it is
(from a shell that computes its name, which `run` does not read, so that nothing is repaired) and is traced. Then

  * what the trace names as different from the model is nothing, or has a cause;
  * the libraries that the trace shows as opened are those in /proc/self/maps at the end;
  * what `gpumend check` predicts of a load, and the trace shows too, ended as predicted.

Then the script runs with what `run` mends, and what check foresees of that is held against it by the
trace itself.

A scenario that cannot be built here is skipped by name. The last line is `N passed, N failed, N
skipped`.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
SCENARIOS = HERE.parent / "scenarios"
sys.path.insert(0, str(SCENARIOS))

import cases                                                                        # noqa: E402
import store                                                                        # noqa: E402
from truth import FAMILY                                                            # noqa: E402
sys.path.insert(0, str(HERE.parent / "mend"))
from endtoend import scenarios                                                      # noqa: E402

LIMIT_S = 600


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def traced(gpumend, scenario, env, folder, mend=False):
    """The lines of the trace, and the steps of the script with what was mapped."""
    report, record = folder / f"report-{mend}", folder / f"trace-{mend}.jsonl"
    shell = () if mend else ("/bin/sh", "-c", 'p=$(printf %s "$0"); exec "$p" "$@"')
    variables = {**scenarios.environment(scenario, env), "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(
        [gpumend, "run", "--trace", "--trace-file", str(record), "--", *shell,
         str(env / "bin/python"), "-B", str(SCENARIOS / "truth.py"), str(report),
         *scenario.script()],
        cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, timeout=LIMIT_S)
    with open(report, encoding="utf-8", errors="surrogateescape") as file:
        steps = [json.loads(line) for line in file]
    return lines_of(record), scenarios.Truth(steps, done.returncode,
                                             done.stderr.decode(errors="replace").strip())


def python_of(lines):
    """The pid whose program is Python's last start."""
    starts = [line for line in lines if line["event"] == "start" and "python" in line["exe"]]
    return starts[-1]["pid"] if starts else None


def answers(lines, pid):
    """{(caller, name): path, or None where it failed} of the dlopens that were searched. What is
    opened and closed again, with a text of dlerror for it, has failed."""
    found, closed, now = {}, set(), None
    for line in lines:
        if line.get("pid") != pid:
            continue
        if line["event"] == "request":
            now = (line["caller"], line["name"]) if line["kind"] == "dlopen" else None
            if now:
                found.setdefault(now, None)
        elif line["event"] == "open" and now:
            found[now], now = line["path"], None
        elif line["event"] == "close":
            closed.add(line["path"])
        elif line["event"] == "dlerror":
            found.update((key, None) for key, path in found.items() if path in closed)
        elif line["event"] == "dlopen":
            closed.clear()
    return found


def story_faults(lines, pid):
    for line in lines:
        if line["event"] == "difference":
            yield "%s %s: %s" % (line["cause"] or "NOT EXPLAINED", line["name"], line["summary"])
    sums = [line for line in lines if line["event"] == "sum"]
    if len(sums) != 1:
        yield "%d sums" % len(sums)
    elif sums[0]["requests"] < 2 or sums[0]["requests"] != sums[0]["as_predicted"]:
        yield "of %(requests)d requests %(as_predicted)d are as the model says" % sums[0]
    elif sums[0]["notes"]:
        yield "not compared: %s" % sums[0]["notes"]
    if pid is None:
        yield "no Python was started"


def map_faults(lines, pid, truth):
    opened = set()
    for line in lines:
        if line.get("pid") == pid and line["event"] in ("open", "close"):
            (opened.add if line["event"] == "open" else opened.discard)(line["path"])
    opened = scenarios.real_paths(p for p in opened if FAMILY.match(os.path.basename(p)))
    if not truth.crashed:
        for path in sorted(opened ^ truth.maps):
            yield "%s: %s" % ("opened, not mapped" if path in opened else "mapped, not opened", path)


def prediction_faults(gpumend, scenario, env, lines, pid):
    """What check says of this script's loads, where the trace has the same request."""
    document = scenarios.run_check(gpumend, scenario, env, True)
    process = scenarios.process_of(scenario, document)
    seen = {(os.path.realpath(c or ""), n): p for (c, n), p in answers(lines, pid).items()}
    both = 0
    for load in process["loads"]:
        key = (os.path.realpath(load["caller"]), load["name"])
        if key in seen and load["outcome"] != "reused":
            both += 1
            predicted = load["path"] if load["outcome"] == "loaded" else None
            if (predicted and os.path.realpath(predicted)) != (
                    seen[key] and os.path.realpath(seen[key])):
                yield "%s from %s: check says %s, really %s" % (
                    load["name"], os.path.basename(load["caller"]), predicted, seen[key])
    if not both and scenario.name != "no-gpu-package":
        yield "no load of check is in the trace"


def mended_faults(gpumend, scenario, env, folder):
    """The same with what `run` mends: what check then foresees is what happens."""
    lines, _ = traced(gpumend, scenario, env, folder, mend=True)
    yield from story_faults(lines, python_of(lines))
    found = lines[-1]
    if found.get("foreseen", 0) != found.get("as_foreseen") or not found.get("foreseen"):
        yield "of %(foreseen)d foreseen loads %(as_foreseen)d are as foreseen" % found


def run_one(scenario, wheels, args):
    for edit in scenario.edits:
        if edit[0] == "take":
            wheels.provide([edit[2]])
    env = wheels.build("trace-" + scenario.name, list(dict.fromkeys(scenario.wheels)))
    try:
        scenarios.apply_edits(scenario, env, wheels)
        with tempfile.TemporaryDirectory(prefix="gpumend-trace.") as folder:
            lines, truth = traced(args.gpumend, scenario, env, pathlib.Path(folder))
            mended = [] if scenario.name == "no-gpu-package" else [
                "mended: " + fault for fault in
                mended_faults(args.gpumend, scenario, env, pathlib.Path(folder))]
        pid = python_of(lines)
        wrong = mended + list(story_faults(lines, pid)) + list(map_faults(lines, pid, truth))
        if truth.verdict != scenario.verdict:
            wrong.append("traced it is %s, expected %s: %s" % (truth.verdict, scenario.verdict,
                                                               truth.text[-300:]))
        wrong += prediction_faults(args.gpumend, scenario, env, lines, pid)
        if args.verbose:
            print("  %d lines" % len(lines))
        return wrong
    finally:
        shutil.rmtree(env, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpumend", default=str(HERE.parent.parent / "build/gpumend"))
    parser.add_argument("--only", action="append", metavar="NAME", help="may be a pattern")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    args.gpumend = os.path.abspath(args.gpumend)
    wheels = store.Store(store.cache_folder(), store.read_pins(SCENARIOS / "wheels.txt"),
                         lambda _: None)
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    for scenario in cases.SCENARIOS:
        if args.only and not any(fnmatch.fnmatch(scenario.name, p) for p in args.only):
            continue
        started = time.monotonic()
        try:
            store.usable_python()
            wrong = run_one(scenario, wheels, args)
            state = "FAIL" if wrong else "PASS"
        except store.Skip as reason:
            wrong, state = [str(reason)], "SKIP"
        except (OSError, subprocess.SubprocessError, ValueError, KeyError, IndexError,
                scenarios.Failure) as error:
            wrong, state = ["%s: %s" % (type(error).__name__, error)], "FAIL"
        counts[state] += 1
        print("%s %s (%.1f s)" % (state, scenario.name, time.monotonic() - started)
              + "".join("\n     %s" % w for w in wrong), flush=True)
    print("%d passed, %d failed, %d skipped" % (counts["PASS"], counts["FAIL"], counts["SKIP"]))
    return 1 if counts["FAIL"] or not counts["PASS"] + counts["SKIP"] else 0


if __name__ == "__main__":
    sys.exit(main())
