#!/usr/bin/env python3
"""The third-party notices are complete: LICENSES/ against what the linker really took.

    tests/licenses.py BUILD

Each static library of which a member is in the executable, in the C library or in what is put into
programs belongs to a component of LICENSES/components.json, by a link map of each. Each component has a
licence, an address and its texts; each text belongs to a component. `gpumend --licenses` prints the
table and every text. The list of the wheel (pyproject.toml) takes every text. The bill of materials
(scripts/sbom) names each of these libraries with its version and hash, and is the same twice.
"""
import glob
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
FOLDER = TOP / "LICENSES"
EXPRESSION = re.compile(r"[A-Za-z0-9.-]+( (AND|WITH|OR) [A-Za-z0-9.-]+)*")


def load_script(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(TOP / "scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def archive_name(path):
    """The name in a map as components.json has it: glibc's libm.a is a script that names libm-2.36.a."""
    return re.sub(r"^(libm)-[0-9.]+(\.a)$", r"\1\2", Path(path).name)


def linked_faults(build, components):
    named = {archive: c["name"] for c in components for archive in c.get("archives", [])}
    targets = ["gpumend", "src/inject/probe/gpumend-probe-helper",
               *(f"src/inject/gpumend-{name}.so" for name in ("trace", "guard", "gpucall")),
               *(str(p.relative_to(build)) for p in (build / "src/api").glob("libgpumend.so.*.*.*")
                 if p.is_file())]
    script, all_archives = load_script("linked"), set()
    for target in targets:
        archives = script.linked(build, target)
        print(f"{target}: " + (", ".join(f"{Path(a).name} ({n})" for a, n in archives.items()) or "none"))
        all_archives |= {archive_name(a) for a in archives}
        for path in archives:
            if archive_name(path) not in named:
                yield f"{target} contains members of {path}, which LICENSES/components.json does not name"
    if not {"libc.a", "libz.a"} <= all_archives:
        yield f"the maps name only {sorted(all_archives)}"


def table_faults(components):
    texts = [name for c in components for name in c["texts"]]
    for c in components:
        if not EXPRESSION.fullmatch(c["license"]) or not c["url"].startswith("https://"):
            yield f"{c['name']}: licence {c['license']!r}, address {c['url']!r}"
        if not (c.get("archives") or c.get("data")) or not c["texts"]:
            yield f"{c['name']}: names neither archives nor data, or no text"
    if [c["name"] for c in components] != sorted((c["name"] for c in components), key=str.lower):
        yield "the components are not in order"
    present = {str(p.relative_to(FOLDER)) for p in FOLDER.rglob("*.txt")}
    if present != set(texts):
        yield f"without a component, or without a file: {sorted(present ^ set(texts))}"


def printed_faults(exe, components):
    done = subprocess.run([exe, "--licenses"], capture_output=True, check=False)
    printed = done.stdout.decode()
    if done.returncode != 0 or done.stderr:
        yield f"--licenses: status {done.returncode}: {done.stderr[:200]}"
    for c in components:
        if not re.search(rf"^    {re.escape(c['name'])} +{re.escape(c['license'])} +{re.escape(c['url'])}$",
                         printed, re.MULTILINE):
            yield f"--licenses does not list {c['name']}"
    for path in [TOP / "LICENSE", *sorted(FOLDER.glob("*.txt"))]:
        if printed.count(path.read_text(encoding="utf-8").strip("\n")) != 1:
            yield f"--licenses does not print {path.name} once"


def wheel_faults(components):
    project = (TOP / "pyproject.toml").read_text(encoding="utf-8")
    patterns = json.loads(re.search(r"^license-files = (\[.*\])$", project, re.MULTILINE).group(1))
    taken = {Path(p) for pattern in patterns for p in glob.glob(str(TOP / pattern))}
    for path in {TOP / "LICENSE", *FOLDER.glob("*.txt")} - taken:
        yield f"pyproject.toml: license-files takes no {path.name}"
    parts = {part for c in components for part in c["license"].split(" AND ")} | {"MIT"}
    stated = re.search(r'^license = "(.*)"$', project, re.MULTILINE).group(1)
    if set(stated.split(" AND ")) != parts:
        yield f"pyproject.toml: license lacks or adds {sorted(set(stated.split(' AND ')) ^ parts)}"


def bill_faults(build, components):
    texts = [subprocess.run([TOP / "scripts/sbom", build], capture_output=True, text=True, check=False,
                            env={**os.environ, "SOURCE_DATE_EPOCH": "86400", "PYTHONHASHSEED": seed})
             for seed in ("1", "2")]
    if texts[0].returncode != 0:
        yield f"scripts/sbom: {texts[0].stderr[-400:]}"
        return
    if texts[0].stdout != texts[1].stdout or "1970-01-02T00:00:00Z" not in texts[0].stdout:
        yield "scripts/sbom: two documents differ, or their time is not SOURCE_DATE_EPOCH"
    bill = json.loads(texts[0].stdout)
    packages = {p["name"]: p for p in bill["packages"]}
    for c in components:
        row = packages.get(c["name"], {})
        if not row.get("versionInfo") and c["name"] != "pci.ids" or row.get("licenseConcluded") != c["license"]:
            yield f"scripts/sbom: {c['name']} has version {row.get('versionInfo')!r} and its licence is " \
                  f"{row.get('licenseConcluded')!r}"
    for archive in load_script("linked").linked(build, "gpumend"):
        if hashlib.sha256(Path(archive).read_bytes()).hexdigest() not in texts[0].stdout:
            yield f"scripts/sbom: the hash of {archive} is missing"
    exe = hashlib.sha256((build / "gpumend").read_bytes()).hexdigest()
    if not any(f["fileName"] == "./gpumend" and exe in json.dumps(f) for f in bill["files"]):
        yield "scripts/sbom: the hash of the executable is not its own"
    known = [bill["SPDXID"], *(e["SPDXID"] for e in bill["packages"] + bill["files"])]
    ends = {r[key] for r in bill["relationships"] for key in ("spdxElementId", "relatedSpdxElement")}
    if len(known) != len(set(known)) or ends != set(known):
        yield f"scripts/sbom: relationships and elements differ: {sorted(ends ^ set(known))}"


def main():
    build = Path(sys.argv[1]).resolve()
    subprocess.run(["ninja", "-C", build, "gpumend", "installed"], check=True, stdout=subprocess.DEVNULL)
    every = json.loads((FOLDER / "components.json").read_text(encoding="utf-8"))["components"]
    components = [c for c in every if c.get("system") != "windows"]
    passed = failed = 0
    for faults in (linked_faults(build, components), table_faults(every),
                   printed_faults(build / "gpumend", components), wheel_faults(components),
                   bill_faults(build, components)):
        found = list(faults)
        for fault in found:
            print(f"FAIL {fault}")
        failed += bool(found)
        passed += not found
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
