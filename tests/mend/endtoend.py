#!/usr/bin/env python3
"""What a user does, from the crash to its end and back, in real environments.

    tests/mend/endtoend.py [--gpumend PATH] [--only NAME]... [--part PART]... [--verbose]

Every scenario of tests/scenarios whose script breaks, the crash that everyone knows, and an
environment without NVRTC. Each is a program that is started plainly and fails; then, in parts:

    run        `gpumend run -- python PROGRAM` works, and the link map changed only as planned; or,
               where no start can mend it, run says so and the program fails as before
    apply      each way by files: `gpumend fix --apply` says "repaired", the program works when it
               is started plainly, and after `--undo` it fails as before; a way that mends a part
               only says what is left
    enable     the same with `gpumend enable` and `disable`
    packages   the same with `gpumend fix --apply --packages`; what that leaves to the start of
               the program is then put into files by another `fix --apply`, and both are taken back

After each part the environment must be what it was: content, mode, owner, attributes, and times of
files and folders. The link map: what /proc/self/maps shows more than before is what the model
predicts for the mended process, and what it shows no more is what the proof says moves.

On a machine without the NVIDIA driver a program also works that misses nothing but libcuda.so.1.
A way by packages whose wheels are neither in the cache nor listed in wheels.txt is skipped by name.
The last line is `N passed, N failed, N skipped`; the parts are counted.
"""

import argparse
import dataclasses
import fnmatch
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
SCENARIOS = HERE.parent / "scenarios"
sys.path[:0] = [str(HERE), str(SCENARIOS)]

import cases                                                                        # noqa: E402
import crash                                                                        # noqa: E402
import state                                                                        # noqa: E402
import store                                                                        # noqa: E402

SPEC = importlib.util.spec_from_file_location("scenarios_run", SCENARIOS / "run.py")
scenarios = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(scenarios)

LIMIT_S = 600
# Without a driver this is as far as a program comes whose library is linked to the driver's.
DRIVER = "libcuda.so.1" in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True,
                                          text=True).stdout
LACKS_DRIVER = r"\blibcuda\.so\.1: cannot open shared object file"
PIP = "pip==25.3"

# The program of a scenario: its imports, and then the steps that truth.py takes and reports.
SCRIPT = """import re
import sys
%(imports)s
sys.path.insert(0, %(folder)r)
import truth
truth.Report.pattern = re.compile(r".*\\.so")
sys.exit(truth.main(%(report)r, %(steps)r))
"""

# torch's own library asks for NVRTC, as it does when it compiles a fused kernel; what torch then
# compiles needs a GPU, but NVRTC itself needs none.
NVRTC = """import ctypes
import os
import sys
import torch
sys.path.insert(0, %r)
import truth
truth.dlopen_as(truth.only(r"^libtorch_cpu\\.so"), "libnvrtc.so.12", os.RTLD_LAZY)
nvrtc = ctypes.CDLL(truth.only(r"^libnvrtc\\.so\\.12"))
program, size = ctypes.c_void_p(), ctypes.c_size_t()
source = b"extern \\"C\\" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }"
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"k.cu", 0, None, None) == 0
assert nvrtc.nvrtcCompileProgram(program, 0, None) == 0
assert nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)) == 0
ptx = ctypes.create_string_buffer(size.value)
assert nvrtc.nvrtcGetPTX(program, ptx) == 0
print("entry twice" if b".visible .entry twice(" in ptx.value else ptx.value)
""" % str(SCENARIOS)


class Wrong(Exception):
    pass


def import_lines(scenario):
    """The imports of the program; what comes behind a use is imported by that step alone, and written
    in a function, where gpumend reads it too."""
    script = scenario.script()
    n = next((i for i, step in enumerate(script) if step.startswith("use ")), len(script))
    later = [step for step in script[n:] if step.startswith("import ")]
    return "\n".join([*script[:n], *(["def later():"] if later else []),
                      *("    " + step for step in later)])


@dataclasses.dataclass(frozen=True)
class Subject:
    """A scenario with its program. `prints`: what the program prints when it works; None: it is a
    script of steps, which reports them."""
    scenario: cases.Scenario
    program: str = None
    prints: str = None
    status: int = None      # with which the program fails
    parts: tuple = ("run", "apply", "enable", "packages")


SUBJECTS = (
    Subject(cases.Scenario("the-crash", (*cases.CT_450, *cases.CUDNN12), ("ctranslate2",), "broken",
                           says=crash.SAYS),
            crash.PROGRAM, "status 0 handle True\n", -signal.SIGABRT,
            # By packages it needs no cuDNN: ctranslate2-4.5.0-cudnn-not-on-path tries that.
            ("run", "apply", "enable")),
    Subject(cases.Scenario("nvrtc-missing", tuple(w for w in cases.TORCH12
                                                  if not w.startswith("nvidia-cuda-nvrtc")),
                           ("torch",), "broken",
                           says=r"libnvrtc\.so\.12: cannot open shared object file"),
            NVRTC, "entry twice\n", 1),
    # Whose imports in the other order are a subject in all parts.
    *(Subject(s, parts=("run", "apply", "enable", "packages") if s.uses is None else ("run", "enable"))
      for s in cases.SCENARIOS if s.verdict == "broken"),
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    works: bool
    text: str       # what was said when it failed
    maps: set       # libraries in the process at its end; None: not told


class World:
    """An environment, its program, and a home of its own."""

    def __init__(self, subject, env, home, args):
        self.subject, self.env, self.home = subject, env, pathlib.Path(home)
        self.scenario, self.exe, self.verbose = subject.scenario, args.gpumend, args.verbose
        self.variables = {**scenarios.environment(self.scenario, env), "HOME": str(home)}
        self.report, self.program = self.home / "report", self.home / "program.py"
        self.program.write_text(subject.program or SCRIPT % {
            "imports": import_lines(self.scenario),
            "folder": str(SCENARIOS), "report": str(self.report),
            "steps": self.scenario.script()})
        self.before = self.now()

    # ---- the program ----

    def start(self, prefix=(), more=None):
        self.report.unlink(missing_ok=True)
        child = subprocess.run(
            [*prefix, str(self.env / "bin/python"), "-B", str(self.program)], cwd=self.home,
            env={**self.variables, **(more or {})}, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", timeout=LIMIT_S)
        if self.subject.prints:
            works = child.returncode == 0 and child.stdout == self.subject.prints
            fine = works or child.returncode == self.subject.status
            said = child.stderr if fine else "status %d: %s" % (child.returncode, child.stderr)
            return Outcome(works, said + child.stdout, None)
        steps = []
        if self.report.exists():
            steps = [json.loads(line) for line in self.report.read_text().splitlines()]
        truth = scenarios.Truth(steps, child.returncode, child.stderr.strip())
        works = truth.verdict == "ok" and child.returncode == 0
        works = works or (not DRIVER and bool(re.search(LACKS_DRIVER, truth.text)))
        return Outcome(works, "%s %s" % (truth.text, child.stderr), truth.maps)

    def fails(self, what):
        """Started plainly it fails as the scenario says."""
        outcome = self.start()
        if outcome.works:
            raise Wrong("%s it works" % what)
        if not re.search(self.scenario.says, outcome.text):
            raise Wrong("%s it fails otherwise: %s" % (what, outcome.text[-400:]))
        return outcome

    def works(self, what, **how):
        outcome = self.start(**how)
        if not outcome.works:
            raise Wrong("%s it does not work: %s" % (what, outcome.text[-400:]))
        return outcome

    def now(self):
        # The files are hard links to the store, of which any other environment makes more.
        return state.state(self.env, links=False)

    def as_before(self, what):
        lines = state.differences(self.before, self.now())
        if lines:
            raise Wrong("%s: %d paths differ: %s" % (what, len(lines), "; ".join(lines[:4])))

    # ---- gpumend ----

    def gpumend(self, command, *args, status=0, more=None):
        done = subprocess.run([self.exe, command, str(self.env), *args], cwd=self.home,
                              env={**self.variables, **(more or {})}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT_S)
        said = done.stdout if "--json" in args else done.stdout + done.stderr
        if self.verbose:
            print("  $ gpumend %s ENV %s\n    %s" % (
                command, " ".join(args), said.strip().replace("\n", "\n    ")
                if "--json" not in args else "(%d bytes)" % len(said)), flush=True)
        if status is not None and done.returncode != status:
            raise Wrong("%s %s: status %d, not %d: %s" % (command, " ".join(args), done.returncode,
                                                          status, said[-600:]))
        return said

    def asked(self, command, *args, **how):
        imports = ("--import", ",".join(self.scenario.imports))
        return self.gpumend(command, *imports, *args, **how)

    def predicted(self, variables):
        """Libraries of the process in the model, for a start with these variables; the document."""
        done = subprocess.run(
            [self.exe, "check", str(self.env), "--json", "--import",
             ",".join(self.scenario.imports)],
            cwd=self.home, env={**self.variables, **variables}, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=LIMIT_S)
        document = json.loads(done.stdout)
        fitting = [p for p in document["processes"]
                   if scenarios.imports_of(p) == list(self.scenario.imports)]
        return {os.path.realpath(o["path"]) for p in fitting for o in p["objects"]}, document


def compare_maps(before, after, predicted, proof):
    """What is not as planned in the link map."""
    if before is None or after is None:
        return
    named = {os.path.realpath(r["after"]) for r in proof if r["after"]}
    moved = {os.path.realpath(r["before"]) for r in proof if r["before"]}
    for path in sorted(after - before - predicted - named):
        raise Wrong("mapped, and neither before nor planned: %s" % path)
    for path in sorted(before - after - moved):
        raise Wrong("mapped before, and not any more: %s" % path)
    by_name = {}
    for path in after:
        by_name.setdefault(os.path.basename(path), set()).add(path)
    for r in proof:
        mapped = by_name.get(os.path.basename(os.path.realpath(r["after"])) if r["after"] else "")
        if mapped and os.path.realpath(r["after"]) not in mapped:
            raise Wrong("%s is %s, not %s" % (r["name"], sorted(mapped), r["after"]))


def is_whole(plan, way):
    """Whether the way mends every error: else the program fails on."""
    errors = {i for i, f in enumerate(plan["findings"]) if f["severity"] == "error"}
    return errors <= set(way["mends"])


def has_hook(way):
    return any(s["kind"] == "hook" for s in way["steps"])


# ---- the parts: each is given the world, the plan and how it failed, and says what it did --------

def cannot_run(world, ways):
    """No start mends it, or not all of it: run starts the program and says so."""
    outcome = world.start(prefix=(world.exe, "run", "--"))
    if outcome.works:
        raise Wrong("no start mends it, and under run it works")
    if not ways and not re.search(world.scenario.says, outcome.text):
        raise Wrong("under run it fails otherwise: %s" % outcome.text[-400:])
    if "gpumend: run: variables do not repair this" not in outcome.text:
        raise Wrong("run does not say that it cannot help: %s" % outcome.text[-400:])
    return "no start can mend %s, and it says so" % ("all of it" if ways else "it")


def run(world, plan, failed):
    ways = [w for w in plan["ways"] if w["reach"] == "start"]
    if not ways or not is_whole(plan, ways[0]):
        return cannot_run(world, ways)
    told = subprocess.run([world.exe, "run", "--json", "--", str(world.env / "bin/python"), "-B",
                           str(world.program)], cwd=world.home, env=world.variables,
                          capture_output=True, text=True, timeout=LIMIT_S)
    changes = json.loads(told.stdout)["changes"]
    for _ in range(2):      # the second with the kept plan
        outcome = world.works("under run", prefix=(world.exe, "run", "--"))
    predicted, document = world.predicted({k: v for k, v in changes.items() if v is not None})
    if document["verdict"] != "ok":
        raise Wrong("check says %s for the start of run" % document["verdict"])
    compare_maps(failed.maps, outcome.maps, predicted, ways[0]["proof"])
    return "works (%s)" % ", ".join(sorted(changes))


def check_applied(world, plan, way, said, failed):
    """After a repair in files: said to be tried, works in a plain start, and nothing else changed;
    of half a repair it is said what is left."""
    whole = is_whole(plan, way)
    if not re.search("^repaired " if whole else "^partly .*^still ", said, re.M | re.S):
        raise Wrong("it does not say what came of it: %s" % said)
    predicted, document = world.predicted({})
    if document["verdict"] != ("ok" if whole else "broken"):
        raise Wrong("check says %s after the repair" % document["verdict"])
    if whole:
        outcome = world.works("repaired")
        compare_maps(failed.maps, outcome.maps, predicted, way["proof"])
    elif world.start().works:
        raise Wrong("half repaired it works")


def apply(world, plan, failed):
    ways = [w for w in plan["ways"] if w["reach"] == "files"]
    if not ways:
        said = world.asked("fix", "--apply", status=3)
        world.as_before("nothing could be applied")
        if any(w["reach"] == "packages" for w in plan["ways"]) and "--packages" not in said:
            raise Wrong("it does not say that --packages would do it: %s" % said)
        return "no way by files, and it says so"
    for i, way in enumerate(ways):
        select = ("--select", str(way["number"])) if i else ()
        said = world.asked("fix", "--apply", *select, status=0 if is_whole(plan, way) else 1)
        check_applied(world, plan, way, said, failed)
        if "applied" not in world.gpumend("fix", "--list"):
            raise Wrong("it is not in the list")
        world.gpumend("fix", "--undo")
        world.as_before("way %d taken back" % way["number"])
    world.fails("taken back,")
    halves = sum(not is_whole(plan, w) for w in ways)
    return "%d way%s%s" % (len(ways), "" if len(ways) == 1 else "s",
                           ", %d of which mend a part and say so" % halves if halves else "")


def enable(world, plan, failed):
    ways = [w for w in plan["ways"] if has_hook(w)]
    if not ways:
        world.asked("enable", status=3)
        world.as_before("no hook helps")
        return "no hook helps, and it says so"
    said = world.asked("enable", status=0 if is_whole(plan, ways[0]) else 1)
    check_applied(world, plan, ways[0], said, failed)
    world.gpumend("disable")
    world.as_before("disabled")
    world.fails("disabled,")
    return "one hook"


def pins_of(way):
    return [p["requirement"] or "%s==%s" % (p["name"], p["to"])
            for s in way["steps"] for p in s.get("packages", ())]


def left_to_start(way):
    return {s["name"]: s["value"] for s in way["steps"] if s["kind"] == "env"}


def pip_variables(pins, wheels):
    """Where pip finds them: in the cache, else in the index if the list has them."""
    folder = wheels.cache / "wheels"
    there = {re.sub(r"[-_.]+", "-", "==".join(p.name.split("-")[:2])).lower()
             for p in folder.glob("*.whl")}
    lacking = [p for p in pins if re.sub(r"[-_.]+", "-", p).lower() not in there]
    for pin in lacking:
        if pin not in wheels.pins:
            raise store.Skip("%s is neither in the cache nor in wheels.txt" % pin)
    more = {"PIP_FIND_LINKS": str(folder), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return more if lacking else {**more, "PIP_NO_INDEX": "1"}


def by_packages(world, way, wheels):
    document = json.loads(world.asked(
        "fix", "--apply", "--packages", "--json", "--select", str(way["number"]), status=None,
        more=pip_variables(pins_of(way), wheels)))
    untried = not DRIVER and document["result"] == "not-verified"
    if not (document["result"] == "verified" or untried) or document["left"]:
        raise Wrong("with the packages: %s" % document)
    left = document["start"]
    if not set(left.items()) <= set(left_to_start(way).items()):
        raise Wrong("the program is to be started with %s, of which the plan knows nothing" % left)
    outcome = world.works("with the packages", more=left)
    predicted, document = world.predicted(left)
    if document["verdict"] != "ok":
        raise Wrong("check says %s with the packages" % document["verdict"])
    if outcome.maps is not None:
        for path in sorted(p for p in outcome.maps - predicted
                           if scenarios.FAMILY.match(os.path.basename(p))):
            raise Wrong("mapped, not predicted: %s" % path)
    if left:
        said = world.asked("fix", "--apply", status=None)
        if not re.search("^repaired" + ("" if DRIVER else "|^not verified.*libcuda"), said,
                         re.M | re.S):
            raise Wrong("fix --apply does not do what is left to the start: %s" % said)
        world.works("started plainly with the packages")
        world.gpumend("fix", "--undo")
    world.gpumend("fix", "--undo")
    world.as_before("packages taken back")
    world.fails("packages taken back,")


def packages(world, plan, failed, wheels):
    ways = [w for w in plan["ways"] if w["reach"] == "packages"]
    done, skipped = [], []
    for way in ways:
        try:
            by_packages(world, way, wheels)
            done.append(", ".join(pins_of(way)))
        except store.Skip as why:
            skipped.append(str(why))
    if skipped and not done:
        raise store.Skip("; ".join(skipped))
    return "; ".join(done + ["skipped: " + s for s in skipped]) or "no way by packages"


PARTS = {"run": run, "apply": apply, "enable": enable, "packages": packages}


# ---- the rounds ----------------------------------------------------------------------------------

def build(subject, wheels):
    scenario = subject.scenario
    for edit in scenario.edits:
        if edit[0] == "take":
            wheels.provide([edit[2]])
    env = wheels.build("e2e-" + scenario.name, list(dict.fromkeys((*scenario.wheels, PIP))))
    scenarios.apply_edits(scenario, env, wheels)
    return env


class Counts:
    def __init__(self):
        self.of = {"PASS": 0, "FAIL": 0, "SKIP": 0}

    def say(self, how, what, text, started):
        self.of[how] += 1
        print("%s %s (%.1f s)%s" % (how, what, time.monotonic() - started,
                                    ": " + text if text else ""), flush=True)


def run_part(world, part, plan, failed, wheels):
    more = (wheels,) if part == "packages" else ()
    text = PARTS[part](world, plan, failed, *more)
    world.as_before("after " + part)
    return text


def run_subject(subject, wheels, args, counts):
    name, started = subject.scenario.name, time.monotonic()
    try:
        env = build(subject, wheels)
    except store.Skip as why:
        counts.say("SKIP", name, str(why), started)
        return
    try:
        with tempfile.TemporaryDirectory(prefix="gpumend-e2e-") as home:
            world = World(subject, env, os.path.realpath(home), args)
            failed = world.fails("plainly")
            plan = json.loads(world.asked("fix", "--json", status=1))
            if not plan["ways"]:
                raise Wrong("no way is offered")
            for part in [p for p in subject.parts if p in (args.part or PARTS)]:
                started = time.monotonic()
                try:
                    text, how = run_part(world, part, plan, failed, wheels), "PASS"
                except store.Skip as why:
                    text, how = str(why), "SKIP"
                counts.say(how, "%s: %s" % (name, part), text, started)
    except (Wrong, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        counts.say("FAIL", name, "%s: %s" % (type(error).__name__, error), started)
    finally:
        shutil.rmtree(env, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpumend", default=str(HERE.parents[1] / "build/gpumend"))
    parser.add_argument("--only", action="append", metavar="NAME", help="may be a pattern")
    parser.add_argument("--part", action="append", choices=sorted(PARTS))
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    args.gpumend = os.path.abspath(args.gpumend)
    log = (lambda text: print("  " + text, flush=True)) if args.verbose else lambda _: None
    wheels = store.Store(store.cache_folder(), store.read_pins(SCENARIOS / "wheels.txt"), log)
    counts = Counts()
    for subject in SUBJECTS:
        name = subject.scenario.name
        if args.only and not any(fnmatch.fnmatch(name, p) for p in args.only):
            continue
        try:
            store.usable_python()
            run_subject(subject, wheels, args, counts)
        except store.Skip as why:
            counts.say("SKIP", name, str(why), time.monotonic())
    print("%d passed, %d failed, %d skipped" % tuple(counts.of.values()))
    return 1 if counts.of["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
