#!/usr/bin/env python3
"""The scenarios that need few wheels, with the Python and the C library of the system that this runs in.

    tests/machines/small.py [--list | --wheels] GPUMEND

tests/scenarios has CPython 3.11 and its wheels; here the releases of PINS take the place of those that the
system's Python cannot have. Each scenario is compared as tests/scenarios/run.py and tests/watch/scenarios.py
do it: what a child process really does, what `check` says, and what `run --trace` shows. --wheels prints
what has to be in the folder wheels/ of the cache.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
TESTS = pathlib.Path(__file__).resolve().parents[1]
for part in ("scenarios", "watch"):
    sys.path.insert(0, str(TESTS / part))
import cases  # noqa: E402
import run as checked  # noqa: E402
import store  # noqa: E402

sys.path.remove(str(TESTS / "watch"))
import importlib.util  # noqa: E402

SPEC = importlib.util.spec_from_file_location("watch_scenarios", TESTS / "watch/scenarios.py")
traced = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(traced)

MIB = store.MIB
# The last releases for CPython 3.9, the Python of Debian 11.
PINS = {(3, 9): {"numpy": "2.0.2", "requests": "2.32.5", "urllib3": "2.6.3"}}
CT_485 = cases.Scenario("ctranslate2-4.8.5-cublas-missing", cases.CT_485, ("ctranslate2",), "broken",
                        (cases.CUBLAS_MISSING,), cases.NO_CUBLAS12)
NAMES = ("no-gpu-package", "ctranslate2-4.5.0-alone", "ctranslate2-4.6.3-cublas-missing")
# The last CPython that a release has wheels for.
LAST = {"ctranslate2==4.5.0": (3, 12), "ctranslate2==4.6.3": (3, 13)}


def own(scenario):
    """The scenario with the releases that this Python can have."""
    pins = PINS.get(sys.version_info[:2], {})
    wheels = (w.split("==") for w in dict.fromkeys(scenario.wheels))
    wheels = tuple("%s==%s" % (name, pins.get(name, version)) for name, version in wheels)
    return cases.dataclasses.replace(scenario, wheels=wheels)


def chosen():
    """(scenario, why it cannot be here or None)"""
    for scenario in (*(s for s in cases.SCENARIOS if s.name in NAMES), CT_485):
        late = [w for w in scenario.wheels if w in LAST and sys.version_info[:2] > LAST[w]]
        yield own(scenario), late and "%s has no wheel for CPython %d.%d" % (late[0], *sys.version_info[:2])


class Wheels(store.Store):
    def _download(self, requirement):
        raise store.Skip("%s is not in %s" % (requirement, self.cache / "wheels"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gpumend", nargs="?")
    parser.add_argument("--wheels", action="store_true")
    args = parser.parse_args()
    scenarios = list(chosen())
    if args.wheels:
        print("\n".join(sorted({w for s, why in scenarios if not why for w in s.wheels})))
        return 0
    args.gpumend, args.truth, args.keep, args.verbose = os.path.abspath(args.gpumend), False, False, False
    pins = store.read_pins(TESTS / "scenarios/wheels.txt")
    pins.update((w, (20 * MIB, 70 * MIB)) for s, _ in scenarios for w in s.wheels if w not in pins)
    wheels = Wheels(store.cache_folder(), pins, lambda _: None)
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    for scenario, why in scenarios:
        for what, module in (("check", checked), ("trace", traced)):
            try:
                if why:
                    raise store.Skip(why)
                wrong = module.run_one(scenario, wheels, args)
                state = "FAIL" if wrong else "PASS"
            except store.Skip as reason:
                wrong, state = [str(reason)], "SKIP"
            except (OSError, subprocess.SubprocessError, ValueError, KeyError, IndexError,
                    checked.Failure, traced.scenarios.Failure) as error:
                wrong, state = ["%s: %s" % (type(error).__name__, error)], "FAIL"
            counts[state] += 1
            print("%s %s, %s%s" % (state, scenario.name, what, "".join(": %s" % re.sub(r"\s+", " ", w) for w in wrong)),
                  flush=True)
    print("%d passed, %d failed, %d skipped" % (counts["PASS"], counts["FAIL"], counts["SKIP"]))
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
