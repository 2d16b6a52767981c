#!/usr/bin/env python3
"""Sets of package versions that gpumend proposes, in real environments.

    tests/mend/packages.py [--gpumend PATH] [--only NAME]... [--verbose]

For each case: build the environment from wheels, let a child process of its own interpreter run the
script and see it fail, ask `gpumend fix ENV --json` for the ways by packages, and for each way that
is expected:

  * pip agrees: with every package at the version it would have, pip's own resolver finds these and
    no other versions (`pip install --dry-run`, metadata only);
  * the environment with the versions proposed, in the start environment proposed, has no error for
    `gpumend check`, and the script works.

A case whose wheels cannot be had, or for which there is no pip, is skipped by name. The last line is
`N passed, N failed, N skipped`.
"""

import argparse
import dataclasses
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "scenarios"))

import cases                                                                        # noqa: E402
import run                                                                          # noqa: E402
import store                                                                        # noqa: E402

PIP_LIMIT_S = 300
PIP = "pip==25.3"


@dataclasses.dataclass(frozen=True)
class Case:
    """`ways`: what each is to change, as patterns on NAME==VERSION, in the order of the plan.
    Patterns, since releases that come out later may be chosen one day."""
    name: str
    wheels: tuple
    imports: tuple
    ways: tuple
    program: str = None         # what fails and is to work, in place of the script


# torch opens NVRTC where its own RPATH leads, through a library that needs the driver too; NVRTC
# alone compiles without driver and GPU.
NVRTC = """
import ctypes, os, torch
folder = os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), "nvidia/cuda_nvrtc/lib")
nvrtc = ctypes.CDLL(os.path.join(folder, "libnvrtc.so.12"))
program, size = ctypes.c_void_p(), ctypes.c_size_t()
source = b"extern \\"C\\" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }"
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"k.cu", 0, None, None) == 0
assert nvrtc.nvrtcCompileProgram(program, 0, None) == 0
assert nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)) == 0 and size.value > 100
"""

CASES = (
    Case("cudnn-missing", cases.CT_450, ("ctranslate2",),
         (("ctranslate2==4.[6-9]*", "nvidia-cublas-cu12==12.*", "nvidia-cuda-nvrtc-cu12==12.*"),
          ("nvidia-cublas-cu12==12.*", "nvidia-cuda-nvrtc-cu12==12.*",
           "nvidia-cudnn-cu12==9.1.0.70"))),
    Case("cublas-missing", cases.CT_463, ("ctranslate2",),
         (("nvidia-cublas-cu12==12.*", "nvidia-cuda-nvrtc-cu12==12.*"),)),
    # The releases that import torch by themselves find torch's cuBLAS, the newest do not.
    Case("cudnn-of-torch", (*cases.TORCH12, *cases.CT_450), ("ctranslate2", "torch"),
         (("ctranslate2==4.[678].[0-9]",),)),
    Case("nvrtc-missing",
         tuple(w for w in cases.TORCH12 if not w.startswith("nvidia-cuda-nvrtc")), ("torch",),
         (("nvidia-cuda-nvrtc-cu12==12.4.127",),), NVRTC),
)


class Wrong(Exception):
    """gpumend's answer is not right; the message says how."""


def plan(gpumend, env):
    child = subprocess.run([gpumend, "fix", str(env), "--json"], cwd="/",
                           env=store.clean_environment(), stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=run.CHECK_LIMIT_S)
    try:
        document = json.loads(child.stdout)
    except ValueError:
        raise Wrong("fix printed no JSON (status %d): %s" % (
            child.returncode, child.stderr.decode(errors="replace").strip()[-300:])) from None
    return [w for w in document["ways"] if w["reach"] == "packages"]


def version_of(package):
    """The version it gets: its own, or the one that the requirement pins."""
    return package["to"] or package["requirement"].partition("==")[2]


def changes_of(way):
    return {p["name"]: version_of(p) for step in way["steps"] if step["kind"] == "packages"
            for p in step["packages"]}


def variables_of(way):
    return {step["name"]: step["value"] for step in way["steps"] if step["kind"] == "env"}


def expected_ways(case, ways):
    """The ways in the order expected; a way of the plan that none of these is, is wrong."""
    for number, (patterns, way) in enumerate(zip(case.ways, ways), 1):
        changes = ["%s==%s" % item for item in sorted(changes_of(way).items())]
        if len(changes) != len(patterns) or not all(map(fnmatch.fnmatch, changes, patterns)):
            raise Wrong("way %d changes %s" % (number, ", ".join(changes)))
        for step in way["steps"]:
            for package in step.get("packages", ()):
                if "%s==%s" % (package["name"], version_of(package)) not in step["command"].split():
                    raise Wrong("way %d does not install %s" % (number, package["name"]))
    if len(ways) != len(case.ways):
        raise Wrong("%d ways by packages, expected %d" % (len(ways), len(case.ways)))


def after(wheels, changes):
    """The requirements with the changes made."""
    pins = dict(w.split("==") for w in wheels)
    pins.update(changes)
    return tuple("%s==%s" % item for item in pins.items())


# ---- pip's opinion -----------------------------------------------------------------------------

class Pip:
    """A pip that answers from metadata alone (23.2 or later): the system's, or one from a wheel."""

    def __init__(self, wheels):
        self.command = [sys.executable, "-m", "pip"]
        if self._version() < (23, 2):
            wheels.provide((PIP,))
            self.command = [sys.executable, str(wheels.wheel_folder(PIP) / "pip")]

    def _version(self):
        child = subprocess.run([*self.command, "--version"], capture_output=True, text=True,
                               env=store.clean_environment())
        words = child.stdout.split()
        return tuple(int(n) for n in words[1].split(".")[:2]) if len(words) > 1 else (0, 0)

    def resolve(self, requirements):
        """NAME -> version as the resolver finds them for all of the requirements together."""
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            child = subprocess.run(
                [*self.command, "install", "--dry-run", "--ignore-installed", "--quiet",
                 "--disable-pip-version-check", "--no-cache-dir", "--use-feature=fast-deps",
                 "--only-binary=:all:", "--target", os.path.join(folder, "none"),
                 "--report", report, *requirements],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PIP_LIMIT_S,
                env=store.clean_environment())
            if child.returncode != 0 and store.NO_CONNECTION.search(child.stderr):
                raise store.Skip("the package index cannot be reached")
            if child.returncode != 0:
                raise Wrong("pip refuses the set: %s" % child.stderr.strip()[-600:])
            with open(report, encoding="utf-8") as file:
                items = json.load(file)["install"]
        return {i["metadata"]["name"].lower().replace("_", "-"): i["metadata"]["version"]
                for i in items}


def check_pip(pip, requirements):
    found = pip.resolve(requirements)
    for requirement in requirements:
        name, version = requirement.split("==")
        if found.get(name) != version:
            raise Wrong("pip would have %s %s" % (requirement, found.get(name)))
    more = set(found) - {r.split("==")[0] for r in requirements}
    if more:
        raise Wrong("the set needs more than it names: %s" % ", ".join(sorted(more)))


# ---- the environment afterwards ----------------------------------------------------------------

def scenario_of(case, wheels, variables, verdict):
    return cases.Scenario("packages-" + case.name, wheels, case.imports, verdict,
                          env=tuple(variables.items()))


def works(case, scenario, env):
    """Whether the program or the script works, and what is said when it does not."""
    if not case.program:
        truth = run.run_truth(scenario, env)
        return truth.verdict == "ok", truth.text.strip()
    child = subprocess.run([str(env / "bin/python"), "-B", "-c", case.program], cwd="/",
                           env=run.environment(scenario, env), stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=run.TRUTH_LIMIT_S)
    return child.returncode == 0, child.stderr.strip()


def check_mended(gpumend, wheels, case, way):
    """Builds the environment at the same place, so that the paths of the plan hold."""
    requirements = after(case.wheels, changes_of(way))
    scenario = scenario_of(case, requirements, variables_of(way), "ok")
    env = wheels.build(scenario.name, requirements)
    fine, text = works(case, scenario, env)
    if not fine:
        raise Wrong("it still fails: %s" % text[-300:])
    document = run.run_check(gpumend, scenario, env, False)
    errors = [f["summary"] for f in document["findings"] if f["severity"] == "error"]
    if document["verdict"] != "ok" or errors:
        raise Wrong("check says %s: %s" % (document["verdict"], "; ".join(errors)))


def sized(wheels, requirements):
    """Wheels that nobody gave a size: what is proposed may be newer than the list."""
    for requirement in requirements:
        if requirement not in wheels.pins:
            wheels.pins[requirement] = (700 * store.MIB, 1100 * store.MIB)


def run_case(case, gpumend, wheels, pip, verbose):
    sized(wheels, case.wheels)
    broken = scenario_of(case, case.wheels, {}, "broken")
    env = wheels.build(broken.name, case.wheels)
    try:
        if works(case, broken, env)[0]:
            raise Wrong("the script works before anything is changed")
        ways = plan(gpumend, env)
        expected_ways(case, ways)
        for way in ways:
            requirements = after(case.wheels, changes_of(way))
            if verbose:
                print("  " + way["title"], flush=True)
            sized(wheels, requirements)
            check_pip(pip, requirements)
            check_mended(gpumend, wheels, case, way)
    finally:
        shutil.rmtree(env, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description="Package versions that gpumend proposes.")
    parser.add_argument("--gpumend", default=str(HERE.parents[1] / "build/gpumend"))
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    gpumend = os.path.abspath(options.gpumend)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    try:
        store.usable_python()
        pins = store.read_pins(HERE.parent / "scenarios/wheels.txt")
        wheels = store.Store(store.cache_folder(), pins,
                             lambda text: options.verbose and print("  " + text, flush=True))
        pip = Pip(wheels)
    except store.Skip as why:
        print("SKIP all: %s\n0 passed, 0 failed, %d skipped" % (why, len(CASES)))
        return 0
    for case in CASES:
        if options.only and case.name not in options.only:
            continue
        try:
            run_case(case, gpumend, wheels, pip, options.verbose)
            outcome, text = "passed", ""
        except store.Skip as why:
            outcome, text = "skipped", "SKIP %s: %s" % (case.name, why)
        except (Wrong, run.Failure) as why:
            outcome, text = "failed", "FAIL %s: %s" % (case.name, why)
        counts[outcome] += 1
        print(text or "ok   %s" % case.name, flush=True)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
