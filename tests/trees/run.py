#!/usr/bin/python3
"""What `devices` says of captured trees is what was read and believed: tests/trees/golden.

    tests/trees/run.py GPUMEND [--rewrite] [--keep DIR] [NAME...]

Builds every machine of machines.py below a folder, runs `gpumend devices --root`, and compares
status, text and JSON with golden/NAME.txt and golden/NAME.json. --rewrite writes the golden files;
its diff is to be read. --keep leaves the trees in DIR.

Also checked of every tree: its models are named in src/host/newer.ids; the document is what
docs/json/devices.schema.json promises; the status agrees with the verdict; a fact that is not yes
says why; text and JSON tell the same sentences.
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
sys.path.insert(0, str(HERE))
from build import write  # noqa: E402
from machines import MACHINES  # noqa: E402

NAMES = HERE.parent.parent / "src/host/newer.ids"
SCHEMA = HERE.parent.parent / "docs/json/devices.schema.json"
LINE = 160


def laid_out(value, indent=""):
    """JSON with what fits into a line on one line, so that golden files can be read."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(flat) <= LINE or not isinstance(value, (dict, list)) or not value:
        return flat
    inner = indent + " "
    if isinstance(value, dict):
        items = [f"{json.dumps(k)}: {laid_out(v, inner)}" for k, v in value.items()]
    else:
        items = [laid_out(v, inner) for v in value]
    opened, closed = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return f"{opened}\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}{closed}"


def run(exe, folder, name, *options):
    done = subprocess.run([str(exe), "devices", "--root", name, *options], cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def facts_of(value, where=""):
    """Every fact of a document with its place."""
    if isinstance(value, dict):
        if {"state", "where", "why"} <= set(value):
            yield where, value
        for key, item in value.items():
            yield from facts_of(item, f"{where}/{key}")
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from facts_of(item, f"{where}/{n}")


def document_faults(document, status, validator):
    if validator:
        for error in validator.iter_errors(document):
            yield f"schema: {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"
    expected = {"ok": (0,), "broken": (1,), "unknown": (3,)}[document["verdict"]]
    if status not in expected:
        yield f"status {status} with verdict {document['verdict']}"
    for where, fact in facts_of(document):
        if fact["state"] != "yes" and not fact["why"]:
            yield f"{where}: {fact['state']}, and it does not say why"
        if fact["state"] == "yes" and fact["why"]:
            yield f"{where}: yes, and it says why not"
    for gpu in document["gpus"]:
        if gpu["usable"] != "yes" and (not gpu["problems"]
                                       or gpu["problems"][0]["usable"] != gpu["usable"]):
            yield f"{gpu['name']}: usable is {gpu['usable']}, and its first problem is another"


def difference(name, expected, got):
    return "".join(difflib.unified_diff(expected.splitlines(True), got.splitlines(True),
                                        f"golden/{name}", "now", n=1))


def faults_of(exe, folder, name, expected_status, rewrite, validator):
    status, text, errors = run(exe, folder, name)
    json_status, output, _ = run(exe, folder, name, "--json")
    if status != expected_status or json_status != status:
        yield f"status {status} and {json_status} with --json, expected {expected_status}: {errors}"
    if (status, text) != run(exe, folder, name)[:2]:
        yield "the same question gave another answer"
    golden = {f"{name}.txt": text + errors}
    if output:
        document = json.loads(output)
        yield from document_faults(document, status, validator)
        told = " ".join(text.split())
        for gpu in document["gpus"]:
            sentence = " ".join(gpu["sentence"].split())
            head, _, state = sentence.partition(": ")
            if state not in told or head.split(" at ")[0] not in told:
                yield f"the text does not say: {sentence}"
        golden[f"{name}.json"] = laid_out(document) + "\n"
    elif (HERE / f"golden/{name}.json").exists() and not rewrite:
        yield "no document was printed"
    for file, got in golden.items():
        path = HERE / "golden" / file
        if rewrite:
            path.write_text(got)
        elif not path.exists():
            yield f"golden/{file} is missing (--rewrite makes it)"
        elif path.read_text() != got:
            yield "\n" + difference(file, path.read_text(), got)


def models_by_copy():
    """Models whose name comes from the pci.ids of whoever builds: what is said of them may differ."""
    rows, vendor = set(), None
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        if re.match(r"[0-9a-f]{4}  ", line):
            vendor = line[:4]
        elif found := re.match(r"\t([0-9a-f]{4})  ", line):
            rows.add((vendor, found.group(1)))
    for name, (_, machine) in sorted(MACHINES.items()):
        for path, text in machine.items():
            if path.endswith("/device") and isinstance(text, str):
                vendor = machine[path[:-len("device")] + "vendor"]
                pair = vendor.strip()[2:], text.strip()[2:]
                if pair[0] in ("10de", "1002", "8086", "1a03") and pair not in rows:
                    yield f"{name}: {':'.join(pair)} is not in {NAMES.name}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpumend", type=Path)
    parser.add_argument("--rewrite", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    exe = args.gpumend.resolve()
    passed = failed = skipped = 0
    validator = None
    try:
        import jsonschema
        validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    except ImportError:
        print("SKIP schema: python3-jsonschema is not installed")
        skipped += 1
    unknown = set(args.names) - set(MACHINES)
    if unknown:
        sys.exit(f"no such machine: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="gpumend-trees.") as temporary:
        folder = args.keep or Path(temporary)
        for name, (status, machine) in MACHINES.items():
            if args.names and name not in args.names:
                continue
            write(machine, folder / name)
            faults = list(faults_of(exe, folder, name, status, args.rewrite, validator))
            for fault in faults:
                print(f"FAIL {name}: {fault}")
            failed += bool(faults)
            passed += not faults
    stale = {p.stem for p in (HERE / "golden").iterdir()} - set(MACHINES)
    for name in sorted(stale):
        print(f"FAIL golden/{name}: there is no such machine")
    unnamed = list(models_by_copy())
    for fault in unnamed:
        print(f"FAIL {fault}")
    failed += len(stale) + len(unnamed)
    passed += not unnamed
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
