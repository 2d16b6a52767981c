#!/usr/bin/env python3
"""Real environments: what gpumend says of each against what really happens in it.

    tests/scenarios/run.py [--gpumend PATH] [--only NAME]... [--list] [--truth] [--verbose]

For every scenario of cases.py: build the environment, let a child process of its own interpreter
run the script (truth.py), ask `gpumend check ENV --import ... --json`, and compare

  * the verdict: gpumend's, the one expected, and what happened;
  * every script that gpumend models, up to ORDERS_MAX of them: in a child of its own, against its
    process in the model, as a whole and its first use alone;
  * every other order in which the imports may be used, between the imports as well, each in a child:
    none fails where gpumend says ok;
  * the files: the GPU libraries predicted for the process are those in /proc/self/maps;
  * the findings: every error is expected, every expected one is there, its repairs say what to do.

--truth leaves gpumend out and prints what happened. A scenario that cannot be built here (no
package index, no disk) is skipped by name. The last line is `N passed, N failed, N skipped`.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cases                                                                        # noqa: E402
import store                                                                        # noqa: E402
from truth import FAMILY                                                            # noqa: E402

TRUTH_LIMIT_S = 300
CHECK_LIMIT_S = 60
ORDERS_MAX = 8


def fill(text, env):
    return text.format(env=env, site=store.site_packages(env))


def apply_edits(scenario, env, wheels):
    for edit in scenario.edits:
        path = pathlib.Path(fill(edit[1], env))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=edit[0] == "take")
        if edit[0] == "take":
            os.link(wheels.wheel_folder(edit[2]) / edit[3], path)


def environment(scenario, env):
    variables = store.clean_environment()
    variables.update((name, fill(value, env)) for name, value in scenario.env)
    return variables


# ---- the truth ---------------------------------------------------------------------------------

class Truth:
    """What happened: verdict, the text of the first failure, files after import and at the end."""

    def __init__(self, steps, status, stderr):
        failed = [s for s in steps if s["outcome"] != "worked"]
        self.steps = steps
        self.aborted = any(s["outcome"] == "aborted" for s in steps)
        self.crashed = status < 0
        self.verdict = "broken" if failed or self.crashed else "ok"
        self.text = failed[0]["text"] or stderr if failed else stderr if self.crashed else ""
        imported = [s for s in steps if s["step"].startswith("import ")]
        self.maps_imported = real_paths(imported[-1]["maps"]) if imported else set()
        self.maps = real_paths(steps[-1]["maps"]) if steps else set()


def real_paths(paths):
    return {os.path.realpath(p) for p in paths}


def run_truth(scenario, env, script=None):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report")
        child = subprocess.run(
            [str(env / "bin/python"), "-B", str(HERE / "truth.py"), report, *(script or scenario.script())],
            cwd=folder, env=environment(scenario, env), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=TRUTH_LIMIT_S)
        with open(report, encoding="utf-8", errors="surrogateescape") as file:
            steps = [json.loads(line) for line in file]
    return Truth(steps, child.returncode, child.stderr.decode(errors="replace").strip())


# ---- gpumend -----------------------------------------------------------------------------------

class Failure(Exception):
    """gpumend's answer cannot be used at all."""


def run_check(gpumend, scenario, env, with_imports):
    command = [gpumend, "check", str(env), "--json"]
    if with_imports:
        command += ["--import", ",".join(scenario.imports)]
    child = subprocess.run(command, cwd="/", env=environment(scenario, env),
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=CHECK_LIMIT_S)
    try:
        document = json.loads(child.stdout)
    except ValueError:
        raise Failure("check printed no JSON (status %d): %s" % (
            child.returncode, child.stderr.decode(errors="replace").strip()[-300:])) from None
    expected = {"ok": 0, "broken": 1}.get(document.get("verdict"))
    if child.returncode != expected:
        raise Failure("status %d with verdict %s" % (child.returncode, document.get("verdict")))
    return document


def imports_of(process):
    found = (re.match(r"import (\S+)$", step) for step in process["script"])
    return [m.group(1) for m in found if m]


def process_of(scenario, document):
    """The process with these imports and these uses, in their order. Where the order makes no
    difference there is one only."""
    fitting = [p for p in document["processes"] if imports_of(p) == list(scenario.imports)]
    exact = [p for p in fitting if p["script"] == scenario.script()]
    if not exact and len(fitting) != 1:
        raise Failure("%d processes for %s, and none is it" % (len(fitting), scenario.script()))
    return (exact or fitting)[0]


def compare_files(scenario, document, truth):
    """The predicted GPU libraries against those really mapped."""
    process = process_of(scenario, document)
    used = any(step.startswith("use ") for step in process["script"])
    real = truth.maps if used else truth.maps_imported
    predicted = real_paths(o["path"] for o in process["objects"]
                           if FAMILY.match(os.path.basename(o["path"])))
    for path in sorted(real - predicted):
        yield "really mapped, not predicted: %s" % path
    if used and truth.aborted:              # the model may go on where the program died
        return
    for path in sorted(predicted - real - features(process)):
        yield "predicted, not really mapped: %s" % path


def failing_packages(process):
    """Packages that do not get what they require. The driver's library belongs to the machine."""
    return {a["package"] for a in process["attempts"]
            if a["required"] and a["outcome"] in ("not-found", "refused") and a["family"] != "driver"
            and not (a["glibc_says"] or "").startswith("libcuda.so.1: ")}


def fails(name, packages):
    """Whether a module is of one of the packages: onnxruntime is of onnxruntime-gpu."""
    return any(p.replace("_", "-").startswith(name) for p in packages)


def modelled_orders(scenario, document):
    """The scripts of the processes that the model has for these imports, the scenario's own first."""
    scripts = [p["script"] for p in document["processes"]
               if imports_of(p) == list(scenario.imports)]
    return sorted(scripts, key=lambda s: s != scenario.script())[:ORDERS_MAX]


def every_order(names, uses):
    """Every script with the imports in their order and each use somewhere behind its import."""
    if not names:
        return [[]]
    first, out = names[0], []
    for rest in every_order(names[1:], uses):
        spots = range(len(rest) + 1) if first in uses else [None]
        out += [["import " + first, *rest] if at is None else
                ["import " + first, *rest[:at], "use " + first, *rest[at:]] for at in spots]
    return out


def follow(scenario, script, env, truth):
    """What really happens with this script, less the uses that the scenario does not make."""
    uses = scenario.imports if scenario.uses is None else scenario.uses
    script = [s for s in script if not s.startswith("use ") or s[4:] in uses]
    return truth if script == scenario.script() else run_truth(scenario, env, script)


def compare_orders(scenario, env, document, truth):
    """What happens in the orders that are modelled, and in others; the verdict is that of the worst."""
    worst = truth.verdict
    for script in modelled_orders(scenario, document):
        name = ", ".join(script)
        really = follow(scenario, script, env, truth)
        process = next(p for p in document["processes"] if p["script"] == script)
        failing = failing_packages(process)
        if bool(failing) != (really.verdict == "broken"):
            yield "%s: it is %s, and in the model fails: %s" % (
                name, really.verdict, ", ".join(sorted(failing)) or "nothing")
        first = next((s for s in really.steps if s["step"].startswith("use ")), None)
        if first and (first["outcome"] != "worked") != fails(first["step"][4:], failing):
            yield "%s: its first use %s, and in the model fails: %s" % (
                name, first["outcome"], ", ".join(sorted(failing)) or "nothing")
        worst = "broken" if really.verdict == "broken" else worst
    uses = scenario.imports if scenario.uses is None else scenario.uses
    seen = modelled_orders(scenario, document)
    for script in every_order(list(scenario.imports), uses):
        if script in seen or follow(scenario, script, env, truth).verdict != "broken":
            continue
        worst = "broken"
        if document["verdict"] != "broken":
            yield "%s: it is broken, and gpumend says %s" % (", ".join(script), document["verdict"])
    if document["verdict"] != worst:
        yield "gpumend says %s, really it is %s" % (document["verdict"], worst)


def features(process):
    """What only the first use of some feature brings, with its dependencies: without a GPU the
    child cannot use every feature, so these may be absent from its maps."""
    brought = {a["path"] for a in process["attempts"] if a["phase"] == "use" and a["path"]}
    grew = True
    while grew:
        more = {o["path"] for o in process["objects"] if o["by"] in brought} - brought
        grew = bool(more)
        brought |= more
    return real_paths(brought)


def fits(finding, error):
    culprit = finding["culprit"] or ""
    names = [culprit, os.path.basename(culprit), *finding["likewise"]]
    return (finding["class"] in error.classes and finding["severity"] == error.severity
            and (not error.causes or finding["cause"] in error.causes)
            and any(fnmatch.fnmatch(n, c) for n in names for c in error.culprits))


def compare_findings(scenario, document):
    findings = document["findings"]
    for error in scenario.errors:
        match = [f for f in findings if fits(f, error)]
        if not match and not error.optional:
            yield "no %s of class %s about %s" % (
                error.severity, "|".join(error.classes), "|".join(error.culprits))
        said = json.dumps([f["repairs"] for f in match])
        for word in error.repairs if match else ():
            if word not in said:
                yield "no repair mentions %s" % word
    for finding in findings:
        if finding["severity"] == "error" and not any(fits(finding, e) for e in scenario.errors):
            yield "unexpected error %s (%s, %s): %s" % (
                finding["cause"], finding["class"], finding["culprit"], finding["summary"])


def compare_clean(document):
    for finding in document["findings"]:
        if finding["severity"] in ("error", "warning"):
            yield "%s in a healthy environment: %s: %s" % (
                finding["severity"], finding["cause"], finding["summary"])


def compare(gpumend, scenario, env, truth):
    document = run_check(gpumend, scenario, env, True)
    yield from compare_orders(scenario, env, document, truth)
    yield from compare_files(scenario, document, truth)
    yield from compare_findings(scenario, document)
    if scenario.clean or scenario.healthy:
        yield from compare_clean(document)
    if scenario.healthy:
        yield from compare_clean(run_check(gpumend, scenario, env, False))


# ---- one scenario ------------------------------------------------------------------------------

def check_truth(scenario, truth):
    """What happened against what the descriptor says of it."""
    if truth.verdict != scenario.verdict:
        yield "expected %s, really it is %s: %s" % (
            scenario.verdict, truth.verdict, truth.text[-300:])
    elif scenario.says and not re.search(scenario.says, truth.text):
        yield "it failed otherwise than expected: %s" % truth.text[-300:]


def print_truth(scenario, truth, env):
    shorten = str(store.site_packages(env)) + "/"
    for step in truth.steps:
        print("    %-20s %s %s" % (step["step"], step["outcome"], step["text"]))
    if truth.aborted or truth.crashed:
        print("    " + truth.text.replace("\n", "\n    "))
    for path in sorted(truth.maps):
        print("      " + path.replace(shorten, ""))


def run_one(scenario, wheels, args):
    """List of what is wrong; raises store.Skip."""
    for edit in scenario.edits:
        if edit[0] == "take":
            wheels.provide([edit[2]])
    env = wheels.build(scenario.name, list(dict.fromkeys(scenario.wheels)))
    try:
        apply_edits(scenario, env, wheels)
        truth = run_truth(scenario, env)
        wrong = list(check_truth(scenario, truth))
        if args.truth or args.verbose:
            print_truth(scenario, truth, env)
        if not args.truth:
            try:
                wrong += compare(args.gpumend, scenario, env, truth)
            except (Failure, subprocess.TimeoutExpired, KeyError, TypeError) as error:
                wrong.append("%s: %s" % (type(error).__name__, error))
        return wrong
    finally:
        if not args.keep:
            shutil.rmtree(env, ignore_errors=True)


def run_all(chosen, args):
    store_log = (lambda text: print("  " + text, flush=True)) if args.verbose else lambda _: None
    wheels = store.Store(store.cache_folder(), store.read_pins(HERE / "wheels.txt"), store_log)
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    for scenario in chosen:
        started = time.monotonic()
        try:
            store.usable_python()
            wrong = run_one(scenario, wheels, args)
            state = "FAIL" if wrong else "PASS"
        except store.Skip as reason:
            wrong, state = [str(reason)], "SKIP"
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            wrong, state = ["cannot run it: %s" % error], "FAIL"
        counts[state] += 1
        print("%s %s (%.1f s)" % (state, scenario.name, time.monotonic() - started)
              + "".join("\n     %s" % w for w in wrong), flush=True)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpumend", default=str(HERE.parent.parent / "build/gpumend"))
    parser.add_argument("--only", action="append", metavar="NAME", help="may be a pattern")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("--truth", action="store_true", help="only what really happens")
    parser.add_argument("--keep", action="store_true", help="leave the environments")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    chosen = [s for s in cases.SCENARIOS if not args.only
              or any(fnmatch.fnmatch(s.name, pattern) for pattern in args.only)]
    if args.list:
        print("\n".join(s.name for s in chosen))
        return 0
    if not chosen:
        parser.error("no scenario has such a name")
    if not args.truth and not os.access(args.gpumend, os.X_OK):
        parser.error("%s is not there: build it, or use --truth" % args.gpumend)
    args.gpumend = os.path.abspath(args.gpumend)
    counts = run_all(chosen, args)
    print("%d passed, %d failed, %d skipped" % (counts["PASS"], counts["FAIL"], counts["SKIP"]))
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
