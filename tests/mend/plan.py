#!/usr/bin/env python3
"""What `gpumend fix` offers on the tree of every cause, carried out on a copy.

    tests/mend/plan.py [--only PATTERN] [--show] [GPUMEND]

The trees are those of tests/causes. For each, the kinds of steps offered are the ones of OFFERED
below (review a change of it; --show prints the plan). Every way that claims a proof is carried out
on a copy of the tree: variables are set, links made, paths in files edited (patchelf), and `check`
must then find none of what the way says it mends, nothing that is an error and was none before, and
each request of the proof must end where the proof says. A start-up hook cannot be looked at by
`check`; tests/mend/scenarios.py runs those. The healthy twin of a tree gets no plan.
"""

import argparse
import collections
import fnmatch
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path.insert(0, str(TOP / "tests/causes"))
import cases  # noqa: E402
import imports  # noqa: E402
from tree import Tree  # noqa: E402

# By its path: other folders have a run.py as well.
SPEC = importlib.util.spec_from_file_location("causes_run", TOP / "tests/causes/run.py")
causes = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(causes)

# What is offered, by case: kinds of steps of each way in their order. Ways by hand and by packages
# are left out. A case without a row gets no such way, or one that sets a variable.
OFFERED = {
    'driver-for-pci-on-a-jetson': ['preload'],
    'driver-for-pci-on-jetpack-7': ['preload'],
    'libcuda-of-l4t-on-a-server': ['preload'],
    'libcuda-of-l4t-unfound': ['env', 'preload'],
    'sbsa-copy-on-a-jetson': [],
    'tegra-copy-on-a-jetson': ['env', 'preload', 'edit'],
    'not-on-path': ['env', 'preload', 'link', 'hook', 'edit'],
    'part-of-a-working-application': ['env', 'preload', 'link', 'hook', 'edit'],
    'application-that-fails-with-its-part': ['env', 'preload', 'link', 'hook', 'edit'],
    'not-required-by-the-application': ['env', 'preload', 'link', 'hook', 'edit'],
    'not-on-path-with-blanks': ['env', 'link', 'hook', 'edit'],
    'not-on-path-and-what-it-asks-for': ['env', 'preload', 'hook', 'edit edit', 'link'],
    'not-on-path-and-others-missing': ['env', 'preload', 'hook', 'edit'],
    'not-on-path-before-what-is-missing': ['env', 'preload', 'link', 'hook', 'edit'],
    'missing-behind-not-on-path': ['env', 'preload', 'link', 'hook', 'edit'],
    'not-on-path-cudnn': ['env', 'preload', 'link', 'hook', 'edit'],
    'not-on-path-toolkit': ['env', 'preload', 'hook', 'edit'],
    'cufft-that-onnxruntime-opens-later': ['env', 'preload', 'hook'],
    'cupy-beside-the-next-cuda': ['env', 'preload', 'hook', 'edit'],
    'cupy-13-looks-in-no-wheel': ['env', 'preload', 'hook'],
    'ldconfig-not-run': ['env', 'preload', 'link', 'hook', 'edit'],
    'found-by-working-directory': ['preload', 'hook', 'edit'],
    'cudnn-part-of-another-release-first': ['env', 'preload', 'hook'],
    'full-version-name-beats-preload': ['env', 'shadow env preload'],
    'wrong-copy-by-library-path': ['env', 'preload', 'hook'],
    'wrong-copy-by-rpath': ['preload', 'hook', 'edit'],
    'wrong-copy-of-libstdcxx': ['env', 'preload', 'hook'],
    'ffmpeg-of-the-path-too-old': ['env', 'preload', 'hook'],
    'import-order': ['env', 'preload', 'hook', 'edit'],
    'import-order-of-lazy-imports': ['env', 'preload', 'hook', 'edit'],
    'stub-for-numba-cuda-alone': ['env', 'shadow env preload'],
    'stub-libcuda': ['env', 'preload', 'hook'],
    'stub-libcuda-by-rpath': ['env', 'preload', 'edit'],
    'preload-ignored': ['env'],
    'empty-element': ['env'],
    'relative-element': ['env'],
    'tilde-element': ['env'],
    'wsl-library-not-on-path': ['env', 'preload', 'hook'],
    'compat-on-geforce': ['env', 'preload', 'hook'],
    'compat-branch-not-listed': ['env', 'preload', 'hook'],
    'compat-older-than-driver': ['env', 'preload', 'hook'],
    'compat-beside-a-driver-with-the-note': ['env', 'preload', 'hook'],
}


PACKAGES = collections.Counter()  # what became of the ways that install packages


class Wrong(Exception):
    pass


class Elsewhere(Exception):
    """The case is judged on another machine (check --host); fix mends where it runs."""


def fix(exe, tree, wants):
    args = causes.arguments(tree, wants, {"HOME": "/root", **wants.get("env", {})})
    status, text = causes.gpumend(exe, ["fix", *args[1:], "--json"], wants.get("as_nobody"))
    document = json.loads(text)
    expected = 1 if document["ways"] or document["left"] else 3 if (
        document["verdict"] == "unknown") else 0
    if status != expected:
        raise Wrong("status %d with %d ways" % (status, len(document["ways"])))
    return document


def kinds(way):
    return " ".join(s["kind"] for s in way["steps"])


def shell_env(command, env):
    """The variables as a shell has them after the command."""
    done = subprocess.run(["sh", "-c", command + "\nenv -0"], env={"PATH": "/usr/bin:/bin", **env},
                          capture_output=True, text=True, check=True)
    after = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry)
    return {k: v for k, v in after.items() if k not in ("PATH", "PWD", "OLDPWD", "SHLVL", "_")}


def make_links(tree, links):
    for link in links:
        place = tree.real(link["path"])
        place.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(link["target"], place)


class Recorded(Tree):
    """A tree that remembers what its libraries were made of."""

    def __init__(self, *args):
        super().__init__(*args)
        self.specs = {}

    def lib(self, path, **spec):
        super().lib(path, **spec)
        self.specs[path] = dict(spec)
        return path

    def to_python_3_15(self):
        super().to_python_3_15()
        self.specs = {self.of_3_15(path): spec for path, spec in self.specs.items()}


def edit(tree, step):
    """The file written again with the path of the step: patchelf takes no file without sections,
    which is what these trees have (real files are edited in tests/mend/scenarios.py)."""
    spec = tree.specs.get(step["file"])
    tag = step["tag"].lower()
    if spec is None or spec.get(tag) != step["old_path"]:
        raise Wrong("%s has not the %s %r" % (step["file"], tag, step["old_path"]))
    spec = {k: v for k, v in spec.items() if k not in ("rpath", "runpath")}
    tree.lib(step["file"], **spec, **({tag: step["new_path"]} if step["new_path"] else {}))


def perform(tree, way, env):
    """Carries out the steps; returns the start environment. None: a hook."""
    for step in way["steps"]:
        if step["kind"] in ("env", "preload"):
            env = shell_env(step["command"], env)
            if step["kind"] == "env" and env.get(step["name"]) != step["value"]:
                raise Wrong("%s is %r after the command, not %r" % (
                    step["name"], env.get(step["name"]), step["value"]))
        elif step["kind"] in ("link", "shadow"):
            make_links(tree, step["links"])
        elif step["kind"] == "edit":
            edit(tree, step)
        elif step["kind"] == "hook":
            return None
        else:
            raise Wrong("a %s step claims a proof" % step["kind"])
    return env


def key(finding):
    return finding["cause"], finding["culprit"]


def ends(document):
    """Where the requests of every process end: (name, real caller) -> paths."""
    found = {}
    for process in document["processes"]:
        for r in process["requests"]:
            found.setdefault(os.path.basename(r["name"]), set()).add(r["path"])
        for a in process["attempts"]:
            for name in a["names"]:
                found.setdefault(os.path.basename(name), set()).add(a["path"])
    return found


def judge_way(way, plan, after):
    """What `check` says against, once the way was carried out."""
    gone = {key(plan["findings"][i]) for i in way["mends"]}
    before = {key(f) for f in plan["findings"]}
    leaves = {key(f) for f in way["leaves"]}
    for f in after["findings"]:
        if key(f) in gone and f["severity"] != "note":
            yield "still there: " + causes.told(f)
        elif f["severity"] == "error" and key(f) not in before:
            yield "new: " + causes.told(f)
        elif f["severity"] == "warning" and key(f) not in before | leaves:
            yield "new, and not told: " + causes.told(f)
    where = ends(after)
    for r in way["proof"]:
        if r["after"] not in where.get(os.path.basename(r["name"]), ()):
            yield "%s ends at %s, not at %s" % (
                r["name"], where.get(os.path.basename(r["name"])), r["after"])


def try_way(exe, case, way, plan, folder):
    """Builds the tree again, carries the way out in it, and looks."""
    tree = Recorded(folder, case.prefix)
    wants = case.build(tree, True) or {}
    env = perform(tree, way, wants.get("env", {}))
    if env is None:
        return []
    return list(judge_way(way, plan, causes.check(exe, tree, wants, env)))


def try_packages(exe, case, way, plan, folder):
    """The same for packages, which the model of pip in tests/causes/carried.py installs."""
    tree, twin = Tree(folder / "bad", case.prefix), Tree(folder / "good", case.prefix)
    wants = case.build(tree, True) or {}
    case.build(twin, False)
    env = wants.get("env", {})
    try:
        for step in way["steps"]:
            env = causes.carried.carried_out(tree, twin, step["command"] or "", env)
    except causes.carried.NotModelled as reason:
        PACKAGES[str(reason)] += 1
        return []
    PACKAGES["carried out"] += 1
    return list(judge_way(way, plan, causes.check(exe, tree, wants, env)))


def judge_shape(way):
    if way["unproved"] is None and way["reach"] in ("packages", "hand"):
        yield "no reason why it is not proved"
    if len(way["mends"]) != len(set(way["mends"])):
        yield "it mends one twice: %s" % way["mends"]
    if any(f["severity"] == "error" for f in way["leaves"]):
        yield "an error that is not mended is told as a warning that is left"
    for step in way["steps"]:
        if step["command"] and subprocess.run(["sh", "-n", "-c", step["command"]]).returncode:
            yield "no shell takes: " + step["command"]


# Of builds for AMD's GPUs: no package of NVIDIA's mends them.
FOR_AMD = ("rocm-ctranslate2", "bitsandbytes-for-rocm", "bitsandbytes-for-the-nearest-rocm",
           "onnxruntime-for-rocm", "jax-for-rocm")


def judge_vendor(case, plan):
    said = json.dumps(plan["ways"])
    if case.name in FOR_AMD and ("nvidia" in said or "cuda" in said):
        yield "packages of NVIDIA's are offered: " + said


def run_case(exe, case, folder, show):
    tree = Tree(folder / "bad", case.prefix)
    wants = case.build(tree, True) or {}
    if "--host" in wants.get("args", []):
        raise Elsewhere
    plan = fix(exe, tree, wants)
    ways = [w for w in plan["ways"] if w["reach"] in ("start", "files")]
    offered = [kinds(w) for w in ways]
    wrong = []
    if show:
        print("    %r: %r," % (case.name, offered))
    rows = [OFFERED[case.name]] if case.name in OFFERED else [[], ["env"]]
    if offered not in rows:
        wrong.append("offered are %r" % offered)
    wrong += judge_vendor(case, plan)
    for way in plan["ways"]:
        wrong += ["way %d: %s" % (way["number"], w) for w in judge_shape(way)]
    for i, way in enumerate(ways):
        if way["unproved"] is None:
            place = folder / ("way%d" % i)
            wrong += ["way %d (%s): %s" % (way["number"], kinds(way), w)
                      for w in try_way(exe, case, way, plan, place)]
    for way in [w for w in plan["ways"] if w["reach"] == "packages"]:
        wrong += ["way %d: %s" % (way["number"], w)
                  for w in try_packages(exe, case, way, plan, folder / ("p%d" % way["number"]))]
    twin = Tree(folder / "good", case.prefix)
    wants = case.build(twin, False) or {}
    plan = fix(exe, twin, wants)
    wrong += ["the healthy twin gets a way: " + w["title"] for w in plan["ways"]]
    return wrong


def two_kinds(exe, folder):
    """A library that nothing brings, asked for by one package, and a release of NumPy with which another
    is known to fail: a way mends both only with a package for each."""
    tree = Tree(folder, "")
    imports.numba_cuda(tree, False, "")
    tree.ctranslate2("4.8.5")
    tree.dist("numpy", "2.5.5", [])
    plan = fix(exe, tree, {})
    if sorted({f["cause"] for f in plan["findings"]}) != ["library-missing", "packages-conflict"]:
        yield "findings are %s" % [causes.told(f) for f in plan["findings"]]
    for way in plan["ways"]:
        said = " ".join(s["command"] or "" for s in way["steps"])
        for i in way["mends"]:
            conflict = plan["findings"][i]["cause"] == "packages-conflict"
            if not re.search(r"numpy(<2\.5|==2\.[0-4]\.)" if conflict else "cublas", said):
                yield "%r is said to mend: %s" % (said, causes.told(plan["findings"][i]))
    if plan["left"]:
        yield "no way for %s" % plan["left"]


def elsewhere_and_missing(tree):
    """One library of CTranslate2's is where nothing looks, in no package; another is not installed."""
    tree.python().ctranslate2(needed=["libcudnn.so.9"])
    tree.lib("/usr/local/cuda-12.4/lib64/libcudnn.so.9")


def packages_mend_their_own(exe, folder):
    """A way of packages mends what they bring, not what is found by a folder that it does not name."""
    tree = Tree(folder)
    elsewhere_and_missing(tree)
    plan = fix(exe, tree, {})
    ways = [way for way in plan["ways"] if way["reach"] == "packages"]
    for way in ways:
        mended = {plan["findings"][i]["culprit"] for i in way["mends"]}
        if mended != {"libcublas.so.12"}:
            yield "%s is said to mend %s" % (way["title"], sorted(mended))
    if not ways:
        yield "no way of packages: %s" % [causes.told(f) for f in plan["findings"]]


def in_process_sets_nothing_of_the_loaders(exe, folder):
    """A process that runs has read LD_LIBRARY_PATH and its likes already."""
    tree = Tree(folder)
    elsewhere_and_missing(tree)
    args = causes.arguments(tree, {}, {"HOME": "/root"})
    status, text = causes.gpumend(exe, ["fix", *args[1:], "--in-process", "--json"])
    kinds_of = [kinds(way) for way in json.loads(text)["ways"]]
    if status != 1 or kinds_of != ["preload"]:
        yield "status %d, offered are %r" % (status, kinds_of)


def family_is_preloaded_as_a_whole(exe, folder):
    """Libraries that must match one another are loaded together, also those that nothing is wrong with."""
    case = next(c for c in cases.CASES if c.name == "cudnn-part-of-another-release-first")
    tree = Tree(folder, case.prefix)
    plan = fix(exe, tree, case.build(tree, True))
    lists = [step["paths"] for way in plan["ways"] for step in way["steps"] if step["kind"] in ("preload", "hook")]
    parts = {"libcudnn_%s.so.9" % part for part in ("ops", "graph", "cnn", "adv")}
    for paths in lists:
        if not parts <= {os.path.basename(path) for path in paths}:
            yield "loaded are %s" % paths
    if not lists:
        yield "nothing is preloaded"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exe", nargs="?", default=str(TOP / "build/gpumend"), metavar="GPUMEND")
    parser.add_argument("--only", action="append", metavar="PATTERN")
    parser.add_argument("--show", action="store_true", help="print what is offered as well")
    args = parser.parse_args()
    counts = {"PASS": 0, "FAIL": 0}
    with tempfile.TemporaryDirectory(prefix="gpumend-plan-") as folder:
        os.chmod(folder, 0o755)
        for case in cases.CASES:
            if args.only and not any(fnmatch.fnmatch(case.name, p) for p in args.only):
                continue
            place = Path(folder) / case.name
            place.mkdir()
            try:
                wrong = run_case(os.path.abspath(args.exe), case, place, args.show)
                state = "FAIL" if wrong else "PASS"
            except (Elsewhere, cases.tree.Skip):
                continue
            except Exception as error:  # a broken test is a failure, the others go on
                state, wrong = "FAIL", ["%s: %s" % (type(error).__name__, error)]
            counts[state] += 1
            if state != "PASS":
                print("%s %s" % (state, case.name) + "".join("\n     " + w for w in wrong),
                      flush=True)
        for check in () if args.only else (two_kinds, packages_mend_their_own,
                                           family_is_preloaded_as_a_whole, in_process_sets_nothing_of_the_loaders):
            name = check.__name__.replace("_", "-")
            wrong = list(check(os.path.abspath(args.exe), Path(folder) / name))
            counts["FAIL" if wrong else "PASS"] += 1
            print("FAIL " + name + "".join("\n     " + w for w in wrong) + "\n" if wrong else "", end="")
    for reason, n in PACKAGES.most_common():
        print("ways of packages, %s: %d" % (reason, n))
    print("%d passed, %d failed" % tuple(counts.values()))
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
