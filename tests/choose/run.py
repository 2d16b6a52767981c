#!/usr/bin/python3
"""What `choose` answers on captured machines: cases.py, and tests/choose/golden for the words.

    tests/choose/run.py GPUMEND [--rewrite] [NAME...]

Each case is answered as text, as JSON and as shell lines. Checked: the status; the values that the
case names; the text against golden/NAME.txt, which was read and believed (--rewrite writes it, its
diff is to be read); that the document is what docs/json/choose.schema.json promises and that two
runs print the same; that a shell that evals the lines has exactly the document's `exports`; that
nothing which does not fit is claimed to; and that --require-gpu fails where the CPU is chosen.

`gpumend run --device` must agree: auto with what is chosen, cuda:N and rocm:N with how the devices
are numbered. Its variables are put into the environment and `choose` is asked again, which must then
count that device alone. (run has no --root: device.c, built beside the executable, is what it does.)
"""

import argparse
import difflib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from cases import CASES  # noqa: E402
from build import write  # noqa: E402  (tests/trees)
from tree import Tree  # noqa: E402  (tests/causes)

SCHEMA = HERE.parent.parent / "docs/json/choose.schema.json"


def run(exe, folder, *arguments):
    done = subprocess.run([str(exe), "choose", *arguments], cwd=folder, capture_output=True,
                          stdin=subprocess.DEVNULL, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def value_of(document, key):
    for part in key.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document


def document_faults(document, status, validator):
    if validator:
        for error in validator.iter_errors(document):
            yield f"schema: {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"
    if (status == 1) != (document["verdict"] == "broken"):
        yield f"status {status} with verdict {document['verdict']}"
    chosen = [c for c in document["candidates"] if c["chosen"]]
    if len(chosen) != (document["device"] is not None):
        yield f"{len(chosen)} candidates are chosen, the device is {document['device']}"
    for c in document["candidates"]:
        needs, has = c["required_bytes"], c["available_bytes"]
        if c["fits"] == "yes" and not (needs and has and needs <= has):
            yield f"{c['name']}: fits, with {needs} needed and {has} there"
        if not c["chosen"] and c["device"] != "cpu" and not c["why"] and len(chosen) and \
                not document["notes"]:
            yield f"{c['name']}: not chosen, and it does not say why"
    if chosen and chosen[0]["fits"] == "no":
        yield "what does not fit was chosen"
    if document["fallback"] and (document["device"] != "cpu" or not document["cause"]):
        yield "a fallback is to the CPU, and has a cause"


def shell_faults(exe, folder, arguments, document):
    """A shell that evals the lines has the variables that the document lists."""
    status, lines, errors = run(exe, folder, *arguments, "--export", "sh")
    if document["device"] is None:
        if status != 1 or lines or not errors:
            yield f"--export sh: status {status}, printed {lines!r}, on stderr {errors!r}"
        return
    script = lines + "env -0\n"
    got = subprocess.run(["/bin/sh", "-eu", "-c", script], env={"PATH": os.environ["PATH"]},
                         capture_output=True, text=True, timeout=30, check=False)
    told = dict(v.split("=", 1) for v in got.stdout.split("\0") if "=" in v)
    told = {k: v for k, v in told.items() if k not in ("PATH", "PWD", "OLDPWD", "SHLVL", "_")}
    if got.returncode != 0 or told != document["exports"]:
        yield f"a shell has {told}, the document {document['exports']}: {got.stderr}"


def faults_of(exe, folder, case, rewrite, validator):
    name, _, installed, extra, expected, values = case
    arguments = [*(["/opt/venv"] if installed else []), *extra, "--root", name]
    status, text, errors = run(exe, folder, *arguments)
    json_status, output, _ = run(exe, folder, *arguments, "--json")
    if status != expected or json_status != status:
        yield f"status {status} and {json_status} with --json, expected {expected}: {errors}"
    if (json_status, output) != run(exe, folder, *arguments, "--json")[:2]:
        yield "the same question gave another answer"
    document = json.loads(output)
    yield from document_faults(document, status, validator)
    for key, value in values.items():
        if value_of(document, key) != value:
            yield f"{key} is {value_of(document, key)!r} instead of {value!r}: {document['reason']}"
    if " ".join(document["reason"].split()) not in " ".join(text.split()):
        yield f"the text does not say: {document['reason']}"
    yield from shell_faults(exe, folder, arguments, document)
    strict = run(exe, folder, *arguments, "--require-gpu", "--json")[0]
    if strict != (0 if document["device"] in ("cuda", "rocm") else 1):
        yield f"--require-gpu: status {strict} where {document['device']} is chosen"
    path = HERE / "golden" / f"{name}.txt"
    if rewrite:
        path.write_text(text + errors)
    elif not path.exists():
        yield f"golden/{name}.txt is missing (--rewrite makes it)"
    elif path.read_text() != text + errors:
        yield "\n" + "".join(difflib.unified_diff(path.read_text().splitlines(True),
                                                  (text + errors).splitlines(True),
                                                  f"golden/{name}.txt", "now", n=1))


# ---- gpumend run --device ----------------------------------------------------------------------

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HIDDEN = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}


class Start:
    """A start of a program on the machine of a case, as `run` and as `choose` see it."""

    def __init__(self, exe, folder, case):
        self.exe, self.folder, self.name = exe, folder, case[0]
        self.env = {}
        extra = iter(case[3])
        for word in extra:
            if word == "--env":
                name, value = next(extra).split("=", 1)
                self.env[name] = value
        self.target = ["/opt/venv"] if case[2] else ["--app", "torch"]

    def choose(self, changes):
        words = [w for k, v in {**self.env, **changes}.items() for w in ("--env", f"{k}={v}")]
        return json.loads(run(self.exe, self.folder, *self.target, *words, "--root", self.name,
                              "--json")[1])

    def run(self, device):
        python = "/opt/venv/bin/python" if self.target[0] == "/opt/venv" else "-"
        app = self.choose({})["app"]
        done = subprocess.run([self.exe.parent / "tests/choose/device", self.name, device, python,
                               app, PATH, *(f"{k}={v}" for k, v in self.env.items())],
                              cwd=self.folder, capture_output=True, text=True, timeout=60,
                              check=True)
        return json.loads(done.stdout)


def counted(document):
    return [c for c in document["candidates"] if c["index"] is not None]


def shown_faults(start, device, told, wanted):
    """With the variables that were told, the device is the only one."""
    changes = {**told["mended"], **told["changes"]}
    same = [c for c in counted(start.choose(changes)) if c["device"] == wanted["device"]]
    override = told["changes"].get("HSA_OVERRIDE_GFX_VERSION")
    if {c["address"] for c in same} != {wanted["address"]} or len(same) != 1:
        yield (f"--device {device}: {told['changes']} shows {[c['address'] for c in same]} instead "
               f"of {wanted['address']}")
    if override and wanted["device"] != "rocm":
        yield f"--device {device}: an override of AMD's for another GPU"


def auto_faults(start, told, document):
    chosen = [c for c in document["candidates"] if c["chosen"]]
    gpu = chosen and chosen[0]["device"] in ("cuda", "rocm")
    if (told["usable"] == "yes") != bool(gpu):
        yield f"--device auto: usable is {told['usable']}, and choose takes {document['device']}"
    if not gpu:
        # --require-gpu stands beside it: nothing is chosen, and run does not start.
        return
    for name in ("CUDA_DEVICE_ORDER", "HSA_OVERRIDE_GFX_VERSION"):
        # What the repair of the launch has set already, choose does not export again.
        if told["changes"].get(name) != document["exports"].get(name, told["mended"].get(name)):
            yield f"--device auto: {name} is {told['changes'].get(name)}"
    indices = [c["index"] for c in counted(document) if c["device"] == chosen[0]["device"]]
    if len(set(indices)) == len(indices):   # else no file tells which card is which
        yield from shown_faults(start, "auto", told, chosen[0])


def device_faults(exe, folder, case):
    start = Start(exe, folder, case)
    if start.target[0] == "/opt/venv" and "--app" in case[3]:
        return      # run does not ask which application is meant
    told = start.run("auto")
    document = start.choose(told["mended"])
    yield from auto_faults(start, told, document)
    if (start.run("-")["usable"] == "yes") != (told["usable"] == "yes"):
        yield "--require-gpu alone says another thing than with --device auto"
    devices = counted(document)
    for c in devices:
        name = f"{c['device']}:{c['index']}"
        twice = [d for d in devices if (d["device"], d["index"]) == (c["device"], c["index"])]
        if len(twice) == 1:
            yield from shown_faults(start, name, start.run(name), c)
        elif c is twice[0]:     # which card it is stands in no file; the entry names it all the same
            for i, entry in enumerate(start.env["CUDA_VISIBLE_DEVICES"].split(",")):
                told = start.run(f"cuda:{i}")
                if {**start.env, **told["changes"]}["CUDA_VISIBLE_DEVICES"] != entry:
                    yield f"--device cuda:{i} of {start.env}: {told}"
    yield from absent_faults(start, devices)


def absent_faults(start, devices):
    """A number that no device has leaves the program none, and that is said."""
    for kind in "cuda", "rocm":
        n = len([c for c in devices if c["device"] == kind])
        for i in n, n + 1, 77:
            told = start.run(f"{kind}:{i}")
            if told["usable"] == "yes" or not any(f"{kind}:{i}" in r for r in told["remarks"]):
                yield f"--device {kind}:{i}: {told}"
            if any(c["device"] == kind for c in counted(start.choose(told["changes"]))):
                yield f"--device {kind}:{i} shows a GPU: {told['changes']}"


# Wrong usage, and what cannot be looked at: arguments and the status.
REFUSED = [
    (["--model", "whisper:enormous"], 2), (["--app", "tensorflow"], 2), (["--export", "fish"], 2),
    (["--memory-gib", "0"], 2), (["--memory-gib", "-1"], 2), (["--memory-gib", "1e9"], 2),
    (["--memory-gib", "99999999999999999999"], 2), (["--memory-gib", "4.1234567"], 2),
    (["--env", "nothing"], 2), (["--nonsense"], 2), (["one", "two"], 2),
    (["--root", "/nowhere/at/all"], 3), (["--kb", "/nowhere/at/all"], 3),
    (["/nowhere/at/all"], 3),
]


def refusal_faults(exe):
    for arguments, expected in REFUSED:
        status, output, errors = run(exe, "/", *arguments)
        if status != expected or output or not errors.startswith("gpumend: choose: "):
            yield f"{' '.join(arguments)}: status {status}, {output!r}, {errors!r}"


def windows_faults(exe, folder):
    """A TARGET in a Windows tree that choose cannot open: where to ask instead."""
    (folder / "Windows/System32").mkdir(parents=True)
    (folder / "Windows/System32/ntoskrnl.exe").touch()
    done = subprocess.run([exe, "choose", "--root", folder, r"C:\Users\a b\venv"], capture_output=True, text=True,
                          timeout=30, check=False)
    if done.returncode != 2 or "packages of a Windows tree are not looked at" not in done.stderr or \
            r"gpumend check --root" not in done.stderr or r"'C:\Users\a b\venv'" not in done.stderr:
        yield f"status {done.returncode}: {done.stdout!r} {done.stderr!r}"


def build(case, folder):
    name, machine, installed = case[:3]
    if installed:
        installed(Tree(folder / name))
    write(machine, folder / name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpumend", type=Path)
    parser.add_argument("--rewrite", action="store_true")
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
    unknown = set(args.names) - {case[0] for case in CASES}
    if unknown:
        sys.exit(f"no such case: {', '.join(sorted(unknown))}")
    subprocess.run(["ninja", "-C", str(exe.parent), "tests/choose/device"], check=True,
                   stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="gpumend-choose.") as temporary:
        for case in CASES:
            if args.names and case[0] not in args.names:
                continue
            build(case, Path(temporary))
            faults = list(faults_of(exe, Path(temporary), case, args.rewrite, validator))
            faults += device_faults(exe, Path(temporary), case)
            for fault in faults:
                print(f"FAIL {case[0]}: {fault}")
            failed += bool(faults)
            passed += not faults
    faults = list(refusal_faults(exe))
    with tempfile.TemporaryDirectory() as folder:
        faults += windows_faults(exe, Path(folder))
    for name in sorted({p.stem for p in (HERE / "golden").iterdir()} - {c[0] for c in CASES}):
        faults.append(f"golden/{name}: there is no such case")
    for fault in faults:
        print(f"FAIL {fault}")
    failed += bool(faults)
    passed += not faults
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
