#!/usr/bin/env python3
"""Every cause: a captured tree that has it, and a twin that differs in the fault alone.

    tests/causes/run.py [--only PATTERN] [--show] [GPUMEND]

The faulty tree must give exactly the finding of the case (identifier, class, culprit, severity, a
repair), and no other of severity error or warning; the twin must give none. Each command that a repair prints is carried
out in the tree as far as it can be modelled (carried.py): the finding must then be gone, and no
other come. How many were, and why the others were not, is printed at the end. --show prints the
text output. A repair that moves a package to another release asks for what that one needs as well
(releases.py).
"""

import argparse
import collections
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path.insert(0, str(HERE))
import arm  # noqa: E402,F401  (adds its cases)
import cases  # noqa: E402
import codec  # noqa: E402  (adds its cases)
import devices  # noqa: E402,F401  (adds its cases)
import engines  # noqa: E402,F401  (adds its cases)
import entries  # noqa: E402  (adds its cases)
import gpucode  # noqa: E402,F401  (adds its cases)
import healthy  # noqa: E402
import imports  # noqa: E402  (adds its cases)
import rocm  # noqa: E402,F401  (adds its cases)
import live  # noqa: E402
import orders  # noqa: E402,F401  (adds its answers)
import releases  # noqa: E402
import carried  # noqa: E402
import xpu  # noqa: E402,F401  (adds its cases)
from tree import MACHINES, SYSTEM, Tree, closed, cudnn_library  # noqa: E402
from build import system  # noqa: E402

REPAIRS = collections.Counter()  # what became of the commands that repairs print
EXPECTED_STATUS = {"ok": 0, "broken": 1, "unknown": 3}


class Wrong(Exception):
    pass


def gpumend(exe, args, as_nobody=False):
    """Status and output of a run, with an environment that holds nothing of ours."""
    command = [exe, *args]
    if as_nobody and os.geteuid() == 0:
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, cwd="/", timeout=60,
                          stdin=subprocess.DEVNULL, capture_output=True)
    if done.stderr or done.returncode not in (0, 1, 3):
        raise Wrong("status %d: %s" % (done.returncode, done.stderr.decode(errors="replace")))
    return done.returncode, done.stdout.decode()


def arguments(tree, wants, env):
    target = wants.get("target", tree.prefix)
    args = ["check", "--root", str(tree.top)] + ([target] if target else [])
    for name, value in env.items():
        args += ["--env", "%s=%s" % (name, value)]
    return args + wants.get("args", [])


def check(exe, tree, wants, env=None):
    env = wants.get("env", {}) if env is None else env
    status, text = gpumend(exe, arguments(tree, wants, env) + ["--json"], wants.get("as_nobody"))
    document = json.loads(text)
    if EXPECTED_STATUS[document["verdict"]] != status:
        raise Wrong("status %d with verdict %s" % (status, document["verdict"]))
    return document


def serious(document):
    return [f for f in document["findings"] if f["severity"] != "note"]


def told(finding):
    return " ".join([finding["cause"], finding["severity"], finding["summary"]])


def judge(case, document):
    """What is wrong with the findings of a faulty tree."""
    found = [f for f in document["findings"] if f["cause"] == case.cause]
    others = [f for f in serious(document) if f["cause"] not in (case.cause, *case.beside)]
    if case.severity == "note":
        others = [f for f in document["findings"] if f["cause"] != case.cause]
    yield from ("also found: " + told(f) for f in others)
    if len(found) != 1:
        yield "found %d times: %s" % (len(found), [told(f) for f in document["findings"]])
        return
    f = found[0]
    for key, want in (("class", case.cls), ("severity", case.severity)):
        if f[key] != want:
            yield "%s is %s, not %s" % (key, f[key], want)
    if not fnmatch.fnmatch(f["culprit"], case.culprit):
        yield "culprit is %s, not %s" % (f["culprit"], case.culprit)
    repairs = "\n".join("%s\n%s" % (r["text"], r["command"] or "") for r in f["repairs"])
    if not f["repairs"] or not re.search(case.repair, repairs, re.M):
        yield "no repair says %r: %s" % (case.repair, repairs)
    evidence = "\n".join([f["summary"], *f["evidence"], *f["likewise"]])
    if not re.search(case.evidence, evidence, re.S):
        yield "no evidence says %r: %s" % (case.evidence, evidence)
    for repair in f["repairs"]:
        if repair["command"] and subprocess.run(["sh", "-n", "-c", repair["command"]]).returncode:
            yield "no shell takes: " + repair["command"]


def key(finding):
    return finding["cause"], finding["culprit"]


def after_repair(exe, case, tree, wants, command, folder):
    """The findings after a repair; where it changes files, of the tree built again."""
    twin = None
    if carried.changes_files(command):
        tree, twin = Tree(folder / "bad", case.prefix), Tree(folder / "good", case.prefix)
        wants = case.build(tree, True) or {}
        case.build(twin, False)
    given = wants.get("env", {})
    env = carried.carried_out(tree, twin, command, given)
    of_tree = set(re.findall(r"^unset (\w+)$", command, re.M)) - set(given)
    unset = [word for name in sorted(of_tree) for word in ("--unset", name)]
    return check(exe, tree, {**wants, "args": wants.get("args", []) + unset}, env)


def repaired(exe, case, tree, wants, document, folder):
    """Carries out the repairs of a tree's findings; yields what they leave, and what they bring."""
    before = {key(f) for f in serious(document)}
    printed = [(f, r["command"]) for f in document["findings"] for r in f["repairs"]]
    for n, (finding, command) in enumerate(printed):
        if not command:
            continue
        try:
            after = after_repair(exe, case, tree, wants, command, folder / ("repair%d" % n))
        except carried.NotModelled as reason:
            REPAIRS[str(reason)] += 1
            continue
        REPAIRS["carried out"] += 1
        for f in after["findings"]:
            if key(f) == key(finding):
                yield "still there after %s: %s" % (command, told(f))
            elif f["severity"] != "note" and key(f) not in before and f["cause"] not in case.hides:
                yield "new after %s: %s" % (command, told(f))


ALL_AT_ONCE = "to do now   Install what is missing, then set LD_LIBRARY_PATH"


def ended(exe, case, tree, wants, document, folder):
    """Where something is met only behind an error, the command at the end of check repairs both."""
    if not any(e.startswith("foreseen: ") for f in document["findings"] for e in f["evidence"]):
        return
    args = arguments(tree, wants, wants.get("env", {}))
    text = gpumend(exe, args, wants.get("as_nobody"))[1]
    if ALL_AT_ONCE not in text:
        return
    after = after_repair(exe, case, tree, wants, text.splitlines()[-1].strip(), folder)
    yield from ("left by the end of check: " + told(f) for f in serious(after))


def run_case(exe, case, folder, show):
    tree = Tree(folder / "bad" , case.prefix)
    wants = case.build(tree, True) or {}
    document = check(exe, tree, wants)
    if show:
        args = arguments(tree, wants, wants.get("env", {}))
        print(gpumend(exe, args, wants.get("as_nobody"))[1])
    wrong = list(judge(case, document))
    wrong += repaired(exe, case, tree, wants, document, folder)
    wrong += ended(exe, case, tree, wants, document, folder / "ended")
    wrong += [w for f in document["findings"] for r in f["repairs"]
              for w in releases.lacking(tree, r["command"] or "")]
    twin = Tree(folder / "good", case.prefix)
    wants = case.build(twin, False) or {}
    after = check(exe, twin, wants)
    wrong += ["the healthy twin has: " + told(f) for f in after["findings"]
              if f["severity"] != "note" or f["cause"] == case.cause]
    return wrong


def entries_of(exe, folder, build, expected, verdict=None):
    """Differences between the entries that check tells of a tree and those expected."""
    tree = Tree(folder / "tree")
    build(tree)
    document = check(exe, tree, {})
    told_entries = {e["module"]: (e["part_of"], e["verdict"]) for e in document["entries"]}
    for name in sorted(set(told_entries) | set(expected)):
        if told_entries.get(name) != expected.get(name):
            yield "%s is %s, not %s" % (name, told_entries.get(name), expected.get(name))
    if verdict and document["verdict"] != verdict:
        yield "verdict is %s, not %s" % (document["verdict"], verdict)
    pairs = [p["script"] for p in document["processes"] if len(p["script"]) > 2]
    parts = {m for m, (part_of, _) in told_entries.items() if part_of}
    yield from ("a pair holds a part: %s" % p for p in pairs
                if parts & {s.split()[1] for s in p})


def nothing_found(exe, folder, build, verdict):
    """Findings of a tree in which nothing is known to be wrong."""
    tree = Tree(folder / "tree")
    document = check(exe, tree, build(tree) or {})
    yield from ("found: " + told(f) for f in document["findings"])
    if document["verdict"] != verdict:
        yield "verdict is %s, not %s: %s" % (document["verdict"], verdict, document["notes"])


# A machine, whether the import of torch fails as well, and whether the sentence is told.
WITHOUT_GPU = {"no-gpu": (system(), False, True), "no-gpu-and-no-import": (system(), True, False),
               "with-a-gpu": (MACHINES["geforce-desktop"][1], False, False),
               "no-machine-is-seen": ({}, False, False)}


def told_without_gpu(exe, folder, machine, no_import, wanted):
    """On a machine without a GPU, the sentence of what only the use of one asks for says so."""
    tree = Tree(folder / "tree").python()
    tree.machine(machine).ctranslate2("4.8.5")
    if no_import:
        tree.torch("2.5.1", needed=["libcudart.so.12"])
    status, text = gpumend(exe, ["check", "--root", str(tree.top), tree.prefix])
    said = "which is not affected (see --device cpu)" in text
    if status != 1 or said != wanted:
        yield "status %d, said: %s\n%s" % (status, said, text)


def an_error_of_the_machine_is_everyones(exe, folder):
    """Where every GPU is hidden, no package is called not affected."""
    for variable, wanted in (("", "every program that uses the GPU is affected"),
                             ("0", "affected: ctranslate2; not affected: torch")):
        tree = Tree(folder / ("tree" + variable)).python()
        tree.machine(MACHINES["geforce-desktop"][1]).ctranslate2("4.6.0").cudart()
        tree.torch("2.5.1", needed=["libcudart.so.12"])
        status, text = gpumend(exe, ["check", "--root", str(tree.top), tree.prefix, "--env",
                                     "CUDA_VISIBLE_DEVICES=" + variable])
        text = " ".join(text.split())
        if status != 1 or wanted not in text:
            yield "%r: status %d\n%s" % (variable, status, text)


def one_package_is_one_finding(exe, folder):
    """cuBLAS is not installed: that is one finding, though cuDNN asks for it only once it is found."""
    tree = Tree(folder / "tree").python()
    tree.machine(MACHINES["geforce-desktop"][1]).ctranslate2("4.6.0")
    tree.pip_cudnn("9.1.0.70")
    tree.put(tree.cudnn + "/libcudnn_adv.so.9", cudnn_library(
        "libcudnn_adv.so.9", "9.1.0", needed=["libcublasLt.so.12"], runpath="$ORIGIN"))
    status, text = gpumend(exe, ["check", "--json", "--root", str(tree.top), tree.prefix])
    found = [f for f in json.loads(text)["findings"] if f["cause"] == "library-missing"]
    if status != 1 or len(found) != 1 or found[0]["likewise"] != ["libcublasLt.so.12"]:
        yield "status %d\n%s" % (status, [(f["summary"], f["likewise"]) for f in found])


def one_package_is_one_command(exe, folder):
    """CuPy without its libraries: two errors and a warning, and the first command ends them all."""
    tree = Tree(folder / "tree")
    imports.cupy_alone(tree)
    tree.machine(MACHINES["geforce-desktop"][1])
    status, text = gpumend(exe, ["check", "--json", "--root", str(tree.top), tree.prefix])
    found = [f for f in json.loads(text)["findings"] if f["cause"] == "library-missing"]
    wanted = ["nvidia-%s-cu12" % name for name in (
        "cuda-nvrtc", "cublas", "cufft", "curand", "cusolver", "cusparse")]
    command = found[0]["repairs"][0]["command"].split() if found else []
    if status != 1 or len(found) < 2 or sorted(command[-6:]) != sorted(wanted):
        yield "status %d: %s" % (status, [(f["severity"], f["repairs"][0]["command"]) for f in found])


CUDA_13 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")  # none for a GTX 1080


def library_that_nothing_asks_for(exe, folder):
    """JAX for CUDA 12 opens cuBLAS of CUDA 13 as well, if it is there, and uses its own: only where
    that is the one in use does it matter that it has no code for the GPU."""
    for name, in_use in (("beside its own", False), ("in place of its own", True)):
        tree = Tree(folder / ("tree" + name.split()[0]))
        entries.jax(tree, without=["cublas"] if in_use else [])
        path = tree.site + "/nvidia/cu13/lib/libcublas.so.13"
        tree.put(path, gpucode.cuda_library("libcublas.so.13", CUDA_13))
        tree.machine(gpucode.GTX1080)
        status, text = gpumend(exe, ["check", "--json", "--root", str(tree.top), tree.prefix,
                                     "--import", "jax"])
        document = json.loads(text)
        loaded = any(o["path"] == path for p in document["processes"] for o in p["objects"])
        told = any(f["cause"] == "gpu-code-missing" for f in document["findings"])
        if not loaded or told != in_use:
            yield "%s: loaded %s, told %s" % (name, loaded, told)


def removed_behind_links(exe, folder):
    """Links to the libraries of a package that was removed: one finding, whose repair is the package."""
    tree = Tree(folder / "tree").python()
    tree.machine(MACHINES["geforce-desktop"][1]).ctranslate2("4.6.0")
    tree.system_cublas()
    for name in ("graph", "ops", "cnn", "adv"):
        path = tree.real("%s/ctranslate2.libs/libcudnn_%s.so.9" % (tree.site, name))
        path.symlink_to("../nvidia/cudnn/lib/" + path.name)
    status, text = gpumend(exe, ["check", "--json", "--root", str(tree.top), tree.prefix])
    found = json.loads(text)["findings"]
    if status != 1 or [f["cause"] for f in found] != ["library-dangling-link"] or found[0]["likewise"] != [
            "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_adv.so.9"] or (
            "Install the package again that had libcudnn_graph.so.9" not in found[0]["repairs"][0]["text"]):
        yield "status %d\n%s" % (status, [(f["summary"], f["likewise"], f["repairs"]) for f in found])


def import_of_cublas(tree):
    tree.python().torch("2.5.1", needed=["libcublas.so.12"])


def without_cublas(tree):
    tree.python().ctranslate2("4.8.5")


def provider_without_cufft(tree):
    """What the provider lacks is of no family; without it a session goes on, on the CPU."""
    tree.python().onnxruntime(needed=["libcufft.so.11"])


def mixed_at_import(tree):
    """The extension opens libcublas.so.12 at import, and the file is cut short."""
    import_of_cublas(tree)
    tree.lib(SYSTEM + "/libcublas.so.12")
    tree.damage(SYSTEM + "/libcublas.so.12", "truncate:300")


def driver_at_import(tree):
    tree.python().ctranslate2("4.8.5", needed=["libcuda.so.1"])
    tree.lib(SYSTEM + "/libcublas.so.12")


def cupy_at_use(tree):
    imports.cupy(tree, "14.2.0")
    imports.toolkit(tree, without=["cublas"])


def cupy_whole(tree):
    imports.cupy(tree, "14.2.0")
    imports.toolkit(tree)


# What is built, the verdict as it is and with --device cpu, the severities of the latter.
FOR_CPU = {"cpu-use": (without_cublas, "broken", "ok", {"note"}),
           "cpu-use-of-cufft": (provider_without_cufft, "broken", "ok", {"note"}),
           "cpu-import": (import_of_cublas, "broken", "broken", {"error"}),
           "cpu-import-of-a-cut-file": (mixed_at_import, "broken", "broken", {"error"}),
           "cpu-import-of-the-driver": (driver_at_import, "broken", "broken", {"error"}),
           "cpu-paddle": (imports.paddle_without_cublas, "broken", "ok", {"note"}),
           "cpu-cupy": (cupy_at_use, "broken", "broken", {"error"}),
           "cpu-cupy-whole": (cupy_whole, "ok", "unknown", set())}


def told_for_cpu(exe, folder, build, plain, verdict, severities):
    """With --device cpu what only the use of a GPU meets is a note, and nothing else is."""
    tree = Tree(folder / "tree")
    build(tree)
    tree.machine(system())
    for args, wanted in (([], plain), (["--device", "cpu"], verdict)):
        document = check(exe, tree, {"args": args})
        if document["verdict"] != wanted or document.get("device") != (args[1:] or [None])[0]:
            yield "%s: %s: %s" % (args, document["verdict"], [told(f) for f in document["findings"]])
    if not severities <= {f["severity"] for f in document["findings"]}:
        yield "severities: %s" % [told(f) for f in document["findings"]]


def of_an_image(exe, folder):
    """An image whose import needs the driver, on a host without a GPU: neither ok nor its fault."""
    tree, host = Tree(folder / "tree"), Tree(folder / "host")
    driver_at_import(tree)
    host.machine(system())
    document = check(exe, tree, {"args": ["--host", str(host.top)]})
    if document["verdict"] != "unknown" or document["fine"] or serious(document):
        yield "%s: %s" % (document["verdict"], document["fine"])
    if not any("libcuda.so.1 of NVIDIA's driver" in note for note in document["notes"]):
        yield "not told: %s" % document["notes"]


def driver_before_libraries(exe, folder):
    """Without a GPU of NVIDIA the import ends at the driver: no library that is installed mends that."""
    for name, machine in (("none", system()), ("amd", gpucode.RX7900XTX)):
        tree = Tree(folder / name)
        imports.cupy_12(tree, [])
        tree.machine(machine)
        found = check(exe, tree, {})["findings"]
        if [f["culprit"] for f in serious({"findings": found})] != ["libcuda.so.1", "libcudart.so.12"]:
            yield "%s: %s" % (name, [told(f) for f in found])


def warnings_beside_an_error(exe, folder):
    """One broken environment stays short: beside its error the warnings of a cause are one, and what
    is met only behind it is repaired at the end with it."""
    tree = Tree(folder / "tree").python().ctranslate2("4.8.5")
    tree.machine(MACHINES["geforce-desktop"][1])
    tree.pip_cublas("12.8.4.1")
    tree.lib(tree.cublas + "/libcublas.so.12", needed=["libcublasLt.so.12"], runpath="$ORIGIN")
    text = gpumend(exe, ["check", "--root", str(tree.top), "--env", "LD_LIBRARY_PATH=/nowhere::~/lib",
                         "--env", "LD_PRELOAD=/none.so:/other.so", tree.prefix])[1]
    lines = [line for line in text.splitlines() if line.startswith("warning")]
    if len(text.splitlines()) > 18 or len(lines) != 2 or ALL_AT_ONCE not in text or any(
            "explain " + cause not in text for cause in ("preload-ignored", "library-path-element")):
        yield text


def below_windows(exe, folder):
    """In WSL the GPU is Windows's: what is not shown may be there."""
    for name in ("wsl-without-windows-driver", "wsl-container-without-gpu"):
        tree = Tree(folder / name)
        driver_at_import(tree)
        tree.machine(devices.MACHINES[name][1])
        said = " ".join(f["summary"] for f in check(exe, tree, {})["findings"])
        if "WSL shows neither" not in said or "there is no GPU" in said:
            yield "%s: %s" % (name, said)


def behind_a_closed_folder(exe, folder):
    """The interpreter is of another Python than the system's, in a folder closed to this user: neither
    is the link broken nor is the system's Python taken for it."""
    tree = Tree(folder / "tree").python().ctranslate2()
    tree.put("/home/a/python/bin/python3.12", tree.real("/usr/bin/python3.11").read_bytes())
    tree.put("/home/a/python/lib/python3.12/os.py", "")
    tree.put("/lib/python3.11/os.py", "")
    tree.put(tree.prefix + "/pyvenv.cfg", "home = /home/a/python/bin\nversion = 3.12.1\n")
    tree.remove(tree.prefix + "/bin/python")
    tree.link(tree.prefix + "/bin/python", "/home/a/python/bin/python3.12")
    tree.real(tree.prefix + "/lib/python3.11").rename(tree.real(tree.prefix + "/lib/python3.12"))
    tree.real("/home/a").chmod(closed(0o700))
    document = check(exe, tree, {"as_nobody": True})
    notes, python = document["notes"], document["python"]["version"]
    if document["verdict"] != "unknown" or not python.startswith("3.12"):
        yield "%s: %s" % (document["verdict"], python)
    if any(w in n for n in notes for w in ("leads to no file", "is now 3.11", "is not used")) or not any(
            "may not look into /home/a/python/bin" in n for n in notes) or len(notes) != len(set(notes)):
        yield "notes: %s" % notes


def every_cause(exe):
    """Each cause has a case, save those that only a log shows (tests/pages.py sees to the pages)."""
    listed = json.loads(gpumend(exe, ["explain", "--list", "--json"])[1])["causes"]
    tested = {"container-entry-missing",  # of an archive: tests/container/findings.py
              "container-image-refused", "program-other-architecture"}
    tested |= {c.cause for c in cases.CASES} | {c.cause for c in live.CASES}
    for row in listed:
        if row["log_only"] == (row["cause"] in tested):
            yield ("a tree shows what a log alone should: " if row["log_only"] else
                   "no case for ") + row["cause"]


def tests(exe, show):
    """(name, function of a folder that returns what is wrong)."""
    yield "every-cause", lambda folder: list(every_cause(exe))
    for case in cases.CASES:
        yield case.name, lambda folder, c=case: run_case(exe, c, folder, show)
    for name, row in {**entries.ENTRIES, **codec.ENTRIES}.items():
        yield name, lambda folder, r=row: list(entries_of(exe, folder, *r))
    for name, row in healthy.HEALTHY.items():
        yield name, lambda folder, r=row: list(nothing_found(exe, folder, *r))
    for name, row in WITHOUT_GPU.items():
        yield name, lambda folder, r=row: list(told_without_gpu(exe, folder, *r))
    for name, row in FOR_CPU.items():
        yield name, lambda folder, r=row: list(told_for_cpu(exe, folder, *r))
    yield "machine-error-and-packages", lambda folder: list(
        an_error_of_the_machine_is_everyones(exe, folder))
    yield "removed-behind-links", lambda folder: list(removed_behind_links(exe, folder))
    yield "library-that-nothing-asks-for", lambda folder: list(
        library_that_nothing_asks_for(exe, folder))
    yield "one-package-is-one-command", lambda folder: list(one_package_is_one_command(exe, folder))
    yield "one-package-is-one-finding", lambda folder: list(one_package_is_one_finding(exe, folder))
    yield "image-that-imports-the-driver", lambda folder: list(of_an_image(exe, folder))
    yield "import-of-the-driver-below-windows", lambda folder: list(below_windows(exe, folder))
    yield "driver-before-libraries", lambda folder: list(driver_before_libraries(exe, folder))
    yield "warnings-beside-an-error", lambda folder: list(warnings_beside_an_error(exe, folder))
    yield "behind-a-closed-folder", lambda folder: list(behind_a_closed_folder(exe, folder))
    for case in live.CASES:
        yield case.name, lambda folder, c=case: live.run_case(exe, c, folder, show)
    for name, test in live.ANSWERS.items():
        yield name, lambda folder, f=test: list(f(exe, folder, show))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exe", nargs="?", default=str(TOP / "build/gpumend"), metavar="GPUMEND")
    parser.add_argument("--only", action="append", metavar="PATTERN")
    parser.add_argument("--show", action="store_true", help="print the text output as well")
    args = parser.parse_args()
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    with tempfile.TemporaryDirectory(prefix="gpumend-causes-") as folder:
        os.chmod(folder, 0o755)
        for name, test in tests(os.path.abspath(args.exe), args.show):
            if args.only and not any(fnmatch.fnmatch(name, p) for p in args.only):
                continue
            if args.show:
                print("=" * 20, name, flush=True)
            place = Path(folder) / name
            place.mkdir()
            try:
                wrong = test(place)
                state = "FAIL" if wrong else "PASS"
            except live.Skip as reason:
                state, wrong = "SKIP", [str(reason)]
            except Exception as error:  # a broken test is a failure, the others go on
                state, wrong = "FAIL", ["%s: %s" % (type(error).__name__, error)]
            counts[state] += 1
            if state != "PASS" or args.show:
                print("%s %s" % (state, name) + "".join("\n     " + w for w in wrong), flush=True)
    for reason, n in REPAIRS.most_common():
        print("repairs, %s: %d" % (reason, n))
    print("%d passed, %d failed, %d skipped" % tuple(counts.values()))
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
