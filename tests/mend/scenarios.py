#!/usr/bin/env python3
"""Real environments: every way of `gpumend fix` carried out, and what then really happens.

    tests/mend/scenarios.py [--gpumend PATH] [--only NAME]... [--verbose]

The environments are those of tests/scenarios whose script breaks. For each way that claims a proof
the steps are carried out for real: variables set by the shell, links made, paths in files edited by
patchelf, a start-up hook of a few lines put into site-packages. A child process of the environment's
own interpreter then runs the script (tests/scenarios/truth.py): it must work, and the libraries of
the proof that it maps must be the files that the proof names. Afterwards the environment is built
again, so that each way is tried alone. A way that says it leaves an error is not run.

The last line is `N passed, N failed, N skipped`.
"""

import argparse
import fnmatch
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
SCENARIOS = HERE.parent / "scenarios"
sys.path.insert(0, str(SCENARIOS))

import cases                                                                        # noqa: E402
import store                                                                        # noqa: E402

SPEC = importlib.util.spec_from_file_location("scenarios_run", SCENARIOS / "run.py")
scenarios = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(scenarios)

# Broken by the loader and mended by it; what lacks a package is the package planner's.
CHOSEN = {
    "ctranslate2-4.5.0-cudnn-not-on-path": ["env", "preload", "link", "hook", "edit edit"],
    "ctranslate2-4.5.0-newer-cudnn-on-path": ["env", "preload", "hook"],
    "ctranslate2-4.5.0-part-of-newer-cudnn-first": ["env", "preload", "hook"],
    "ctranslate2-4.6.3-cublas-not-on-path": ["env", "preload", "link", "hook", "edit"],
    "ctranslate2-4.5.0-then-torch-2.5.1": ["env", "preload", "link", "hook", "edit"],
    "ctranslate2-4.8.5-beside-torch-2.5.1": ["env", "preload", "link", "hook", "edit"],
    "onnxruntime-1.23.2-without-torch-imported": ["env", "preload", "hook", "edit"],
}

# A name with the full version on the path: cuDNN asks for it first, so that a second copy, of another
# release, is mapped although the right one was loaded before. Nothing dies of it at once.
SHADOW = cases.Scenario(
    "ctranslate2-4.5.0-full-version-name-on-path", (*cases.CT_450, *cases.CUDNN12),
    ("ctranslate2",), "ok",
    edits=(cases.take("{env}/full/libcudnn_graph.so.9.1.0", cases.CUDNN_NEW,
                      "nvidia/cudnn/lib/libcudnn_graph.so.9"),),
    env=(("LD_LIBRARY_PATH", "{env}/full:" + cases.CUBLAS),
         ("LD_PRELOAD", " ".join(cases.CUDNN + "/libcudnn_%s.so.9" % part for part in (
             "graph", "ops", "cnn", "adv")))))
CHOSEN[SHADOW.name] = ["env", "shadow env preload"]

HOOK = '''import ctypes, sys
class Hook:
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            sys.meta_path.remove(self)
            for library in PATHS:
                ctypes.CDLL(library)
sys.meta_path.insert(0, Hook())
'''


class Wrong(Exception):
    pass


def fix(gpumend, scenario, env, home):
    command = [gpumend, "fix", str(env), "--json", "--import", ",".join(scenario.imports)]
    child = subprocess.run(command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True,
                           timeout=60, env={**scenarios.environment(scenario, env), "HOME": home})
    document = json.loads(child.stdout)
    if child.returncode != (1 if document["ways"] or document["left"] else 0):
        raise Wrong("status %d" % child.returncode)
    return document


def kinds(way):
    return " ".join(s["kind"] for s in way["steps"])


def shell(command, env):
    """Runs the command; returns the variables as the shell then has them."""
    done = subprocess.run(["sh", "-ec", command + "\nenv -0"], env=env, capture_output=True,
                          text=True)
    if done.returncode:
        raise Wrong("%s: %s" % (command, done.stderr.strip()))
    return dict(e.split("=", 1) for e in done.stdout.split("\0") if "=" in e)


def put_apart(path):
    """A file of the environment is a hard link to the store: a copy of its own before it changes."""
    shutil.copy2(path, path + ".apart")
    os.replace(path + ".apart", path)


def perform(way, env, variables):
    for step in way["steps"]:
        if step["kind"] == "hook":
            site = store.site_packages(env)
            text = HOOK.replace("MODULES", repr(step["modules"])).replace("PATHS",
                                                                         repr(step["paths"]))
            (site / "mended_hook.py").write_text(text)
            (site / "mended_hook.pth").write_text("import mended_hook\n")
            continue
        if step["kind"] == "edit":
            put_apart(step["file"])
        variables = shell(step["command"], variables)
    return variables


def run_truth(scenario, env, variables):
    kept = scenarios.environment
    scenarios.environment = lambda *_: variables
    try:
        return scenarios.run_truth(scenario, env)
    finally:
        scenarios.environment = kept


def judge(way, truth):
    if truth.verdict != "ok":
        yield "it does not work: %s" % truth.text[-400:]
    by_name = {}
    for path in truth.maps:
        by_name.setdefault(os.path.basename(path), set()).add(path)
    for r in way["proof"]:
        if r["after"] is None:
            continue
        real = os.path.realpath(r["after"])
        mapped = by_name.get(os.path.basename(real), set())
        if mapped and mapped != {real}:
            yield "%s is %s, not %s" % (r["name"], sorted(mapped), real)


def build(scenario, wheels):
    for edit in scenario.edits:
        if edit[0] == "take":
            wheels.provide([edit[2]])
    env = wheels.build("mend-" + scenario.name, list(dict.fromkeys(scenario.wheels)))
    scenarios.apply_edits(scenario, env, wheels)
    return env


def run_scenario(scenario, wheels, args):
    env = build(scenario, wheels)
    home = str(env / "home")
    wrong = []
    try:
        before = run_truth(scenario, env, scenarios.environment(scenario, env))
        if before.verdict != scenario.verdict:
            wrong.append("before, it is %s: %s" % (before.verdict, before.text[-300:]))
        ways = [w for w in fix(args.gpumend, scenario, env, home)["ways"]
                if w["reach"] in ("start", "files") and w["unproved"] is None]
        offered = [kinds(w) for w in ways]
        if offered != CHOSEN[scenario.name]:
            wrong.append("offered are %r" % offered)
        for way in ways:
            variables = {**scenarios.environment(scenario, env), "HOME": home}
            truth = run_truth(scenario, env, perform(way, env, variables))
            found = list(judge(way, truth))
            wrong += ["way %d (%s): %s" % (way["number"], kinds(way), w) for w in found]
            if args.verbose:
                print("  way %d (%s): %s" % (way["number"], kinds(way), truth.verdict), flush=True)
            env = build(scenario, wheels)
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
    log = (lambda text: print("  " + text, flush=True)) if args.verbose else lambda _: None
    wheels = store.Store(store.cache_folder(), store.read_pins(SCENARIOS / "wheels.txt"), log)
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    for scenario in [s for s in (*cases.SCENARIOS, SHADOW) if s.name in CHOSEN]:
        if args.only and not any(fnmatch.fnmatch(scenario.name, p) for p in args.only):
            continue
        try:
            store.usable_python()
            if not shutil.which("patchelf"):
                raise store.Skip("patchelf is not installed")
            wrong = run_scenario(scenario, wheels, args)
            state = "FAIL" if wrong else "PASS"
        except store.Skip as reason:
            wrong, state = [str(reason)], "SKIP"
        except (OSError, subprocess.SubprocessError, ValueError, Wrong) as error:
            wrong, state = ["%s: %s" % (type(error).__name__, error)], "FAIL"
        counts[state] += 1
        print("%s %s" % (state, scenario.name) + "".join("\n     " + w for w in wrong), flush=True)
    print("%d passed, %d failed, %d skipped" % tuple(counts.values()))
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
