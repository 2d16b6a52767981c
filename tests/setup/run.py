#!/usr/bin/python3
"""What `setup` plans for captured and named machines; tests/setup/golden has the words.

    tests/setup/run.py GPUMEND [--rewrite] [NAME...]

Checked for each case: the status and the verdict; the text against golden/NAME.txt, which was read and
believed (--rewrite writes it, its diff is to be read); that the text's first line is the document's
sentence; that the document is what docs/json/setup.schema.json promises and that two runs print the
same. For every application on every machine: that each pin is a release of kb/releases.json that has a
wheel for the plan's Python; that pins meet what the releases declare; that a shell parses the commands;
that no command is offered where it cannot be told; that every plan ends with its proof; that a shell
parses the script; that docs/setup.md is current.
"""

import argparse
import difflib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "trees"), str(HERE.parent / "causes")]
import tree  # noqa: E402
from cases import APPS, CASES, NAMED, SCRIPTS, TREES  # noqa: E402
from build import write  # noqa: E402
from mapped import case_faults  # noqa: E402

SCHEMA = HERE.parent.parent / "docs/json/setup.schema.json"
ROWS = {(r["package"], r["version"]): r
        for r in json.loads((HERE.parent.parent / "kb/releases.json").read_text())["rows"]}
STATUS = {"gpu": (0,), "cpu": (0, 1), "not": (1,), "unknown": (3,)}


def run(exe, folder, *arguments):
    done = subprocess.run([str(exe), "setup", *arguments], cwd=folder, capture_output=True,
                          stdin=subprocess.DEVNULL, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def number(text):
    return [int(n) for n in re.findall(r"\d+", text)]


def admits(versions, version):
    """PEP 440 for what the rows have: digits and dots, and one `==X.*`."""
    have = number(version)
    for clause in filter(None, versions.split(",")):
        sign, want = re.match(r"([<>=!~]=?=?)(.*)", clause.strip()).groups()
        limit = number(want)
        size = max(len(have), len(limit))
        a, b = have + [0] * (size - len(have)), limit + [0] * (size - len(limit))
        if want.endswith(".*"):
            a, b = have[:len(limit)], limit
        holds = {"==": a == b, "!=": a != b, ">=": a >= b, "<=": a <= b, ">": a > b, "<": a < b,
                 "~=": a >= b and have[:len(limit) - 1] == limit[:-1]}[sign]
        if not holds:
            return False
    return True


def pin_faults(document):
    """What the plan pins exists, has a wheel, and meets what the other pins declare."""
    # A build of another index (+cu126) declares other libraries than the row of the plain one.
    labelled = {p["package"] for p in document["packages"] if "+" in p["version"]}
    pins = {p["package"]: p["version"].split("+")[0] for p in document["packages"]}
    for package, version in pins.items():
        row = ROWS.get((package, version))
        pinned = any(f"=={version}" in (n.get("versions") or "") for r in ROWS.values()
                     for n in r["needs"] if n["package"] == package)
        if not row:
            if not pinned:
                yield f"{package} {version} is no release that was read"
            continue
        if document["python"] not in row["pythons"]:
            yield f"{package} {version} has no wheel for Python {document['python']}"
        for need in row["needs"]:
            versions = need.get("versions") or ""
            ours = package in labelled and need["package"].startswith("nvidia-")
            if need["package"] in pins and not ours and not need.get("extra") and not need.get("when") and \
                    not admits(versions, pins[need["package"]]):
                yield f"{package} {version} needs {need['package']}{versions}, {pins[need['package']]} is pinned"


def document_faults(document, status, validator):
    if validator:
        for error in validator.iter_errors(document):
            yield f"schema: {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"
    verdict, steps = document["verdict"], document["steps"]
    if status not in STATUS[verdict]:
        yield f"status {status} with verdict {verdict}"
    if (verdict in ("gpu", "cpu")) != bool(steps) or bool(steps) != bool(document["packages"]):
        yield f"verdict {verdict} with {len(steps)} steps and {len(document['packages'])} packages"
    if steps and steps[-1]["kind"] != "proof":
        yield "the last step is no proof"
    for step in steps:
        for command in step["commands"]:
            if document["shell"] == "sh":
                done = subprocess.run(["/bin/sh", "-n", "-c", command], capture_output=True,
                                      check=False)
                if done.returncode:
                    yield f"a shell does not parse: {command}"
    yield from pin_faults(document)


def faults(exe, top, arguments, validator):
    """The document's faults; and the document."""
    status, text, _ = run(exe, top, *arguments)
    again, printed, errors = run(exe, top, *arguments, "--json")
    if again != status or printed != run(exe, top, *arguments, "--json")[1]:
        yield "two runs differ", None, text
        return
    if not printed:
        yield f"no document: {errors}", None, text
        return
    document = json.loads(printed)
    if text.split("\n")[0] != document["sentence"]:
        yield "the first line is not the document's sentence", document, text
    for fault in document_faults(document, status, validator):
        yield fault, document, text
    yield None, document, text


def schema_validator():
    try:
        import jsonschema
    except ImportError:
        print("note: without jsonschema the schema is not checked")
        return None
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))


def check_case(exe, top, case, validator, rewrite):
    name, arguments, verdict, words = case
    golden = HERE / f"golden/{name}.txt"
    for fault, document, text in faults(exe, top, arguments, validator):
        if fault:
            yield fault
    if not document or document["verdict"] != verdict:
        yield f"the verdict is {document and document['verdict']}, not {verdict}"
    for word in words:
        if word not in text:
            yield f"the text lacks {word!r}"
    if rewrite:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    elif not golden.exists() or golden.read_text() != text:
        old = golden.read_text() if golden.exists() else ""
        yield "\n" + "".join(difflib.unified_diff(old.splitlines(True), text.splitlines(True),
                                                  str(golden), "now"))


# The release of torch that an environment has, the machine, what of it the plan replaces (or keeps), and
# the command that does. For pip and uv 2.8.0+cpu satisfies ==2.8.0.
BUILDS = [
    ("2.8.0+cpu", "rtx3060", "change  torch 2.8.0+cpu -> 2.8.0", "--force-reinstall --no-deps torch==2.8.0\n"),
    ("2.8.0+cu128", "rtx3060", "keep    torch 2.8.0+cu128", None),
    ("2.8.0", "rtx3060", "keep    torch 2.8.0", None),
    ("2.9.1+cpu", "gtx1080-driver-580", "change  torch 2.9.1+cpu -> 2.9.1+cu126", None),
    ("2.8.0", "arc-a770", "change  torch 2.8.0 -> 2.8.0",
     "--force-reinstall --no-deps torch==2.8.0 --index-url https://download.pytorch.org/whl/xpu\n"),
    ("2.8.0+xpu", "arc-a770", "keep    torch 2.8.0+xpu", None),
    ("2.8.0+cpu", "cpu-only", "keep    torch 2.8.0+cpu", None),
]


def build_faults(exe, top, have, machine, said, command):
    env = tree.Tree(Path(top) / f"{machine}-{have}").python()
    env.machine(TREES[machine])
    env.dist("torch", have, [])
    out = run(exe, top, "torch", "--root", env.top, "--env", env.prefix)[1]
    if said not in out:
        yield f"the text lacks {said!r}: {out[:400]}"
    if command not in out if command else "--force-reinstall" in out:
        yield f"the command to replace it is not {command!r}: {out}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("gpumend", type=Path)
    parser.add_argument("--rewrite", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    exe, validator, bad, n = given.gpumend.resolve(), schema_validator(), 0, 0
    with tempfile.TemporaryDirectory() as top:
        for name, machine in TREES.items():
            write(machine, Path(top) / name)
        for case in CASES:
            if not given.names or case[0] in given.names:
                found = list(check_case(exe, top, case, validator, given.rewrite))
                bad, n = bad + bool(found), n + 1
                for fault in found:
                    print(f"{case[0]}: {fault}")
        for app in APPS:
            for machine in [] if given.names else NAMED:
                n += 1
                found = [f for f, _, _ in faults(exe, top, [app, "--for", machine], validator) if f]
                bad += bool(found)
                for fault in found:
                    print(f"{app} on {machine}: {fault}")
        for words, said in [(["faster-wisper"], "did you mean faster-whisper?"),
                            (["torch", "--for", "rtx-99999-linux"], "no machine is known as"),
                            (["faster-whisper", "--model", "huge-v9"], "unknown model")]:
            status, out, errors = run(exe, top, *words)
            n += 1
            if status != 2 or out or said not in errors:
                bad += 1
                print(f"{words}: status {status}, {errors!r}")
        for words, begins, has in SCRIPTS:
            status, out, errors = run(exe, top, *words)
            n += 1
            if status or not out.startswith(begins) or has not in out or \
                    (begins == "#!/bin/sh" and subprocess.run(["/bin/sh", "-n"], input=out, text=True,
                                                              check=False).returncode):
                bad += 1
                print(f"{words}: status {status}: {out}{errors}")
        for build in [] if given.names else BUILDS:
            n += 1
            found = list(build_faults(exe, top, *build))
            bad += bool(found)
            for fault in found:
                print(f"torch {build[0]} on {build[1]}: {fault}")
    n += 1
    for fault in case_faults():
        bad += 1
        print(fault)
    page = subprocess.run([HERE.parent.parent / "scripts/setup-pages", exe, "--check"],
                          capture_output=True, text=True, check=False)
    n += 1
    if page.returncode:
        bad += 1
        print(page.stderr)
    print(f"{n - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
