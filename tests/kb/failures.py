#!/usr/bin/python3
"""The rule base of `explain`: kb/failures, files that --kb adds, and how CONTRIBUTING.md says to add one.

    tests/kb/failures.py GPUMEND

- kb/failures has no problem that `kb lint` knows: every entry matches its examples and not its near misses.
- Every cause of a file has a page in docs/causes.
- A file that is spoiled is refused with its name and line, by `kb lint` and by `explain --kb`.
- An entry that is added takes part, one with the id of a built-in one replaces it, the rest stays.
- The steps of "Add a failure in five minutes" are taken from the document, run, and print what it says.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
FAILURES = TOP / "kb/failures"
LOG = "cannot open frobnicator libfrob.so.3\n"
ENTRY = """\
cause: library-missing

failures:
- id: frobnicator
  lines:
  - literal: 'cannot open frobnicator'
    regex: 'cannot open frobnicator (?P<library>lib[\\w.]+)'
  confidence: likely
  culprit: '{library}'
  says: The frobnicator is missing.
  repairs:
  - {says: With podman., engine: podman}
  - {says: With any engine.}
  examples:
  - {log: 'cannot open frobnicator libfrob.so.3', format: frob.c}
  - {log: 'E: cannot open frobnicator libfrob.so.4', format: frob.c}
  near_misses:
  - {log: 'cannot open frobnicator', format: frob.c}
"""

ENGINE = """\
lines:
- id: frob-engine
  fact: frob-engine
  literal: 'run by engine'
  regex: 'run by engine (?P<engine>\\w+)'
"""

# What is spoiled: (what stands there, what takes its place, how the message begins and what it says).
SPOILED = [
    ("confidence: likely", "confidence: sure", 8, "not a value"),
    ("  culprit:", "  colour:", 9, "unknown key"),
    ("[\\w.]+)'", "[\\w.]+'", 7, "missing closing parenthesis"),
    ("  confidence:", "  overrides: [nobody]\n  confidence:", 8, "nobody"),
    ("  confidence:", "  all: [no-such-fact]\n  confidence:", 4, "no-such-fact"),
    ("cause: library-missing", "cause: [library-missing", 3, "not YAML"),
    ("- id: frobnicator", "- id: &a frobnicator", 4, "anchors"),
]
# What only `kb lint` looks at.
LINTED = [
    ("libfrob.so.4'", "nothing'", 16, "does not match its example"),
    ("  - {log: 'cannot open frobnicator', format: frob.c}\n",
     "  - {log: 'cannot open frobnicator liba', format: frob.c}\n", 18, "matches its near miss"),
    ("  - {log: 'E: cannot open frobnicator libfrob.so.4', format: frob.c}\n", "", 15, "2 items"),
    ("  near_misses:\n  - {log: 'cannot open frobnicator', format: frob.c}\n", "", 4, "near_misses"),
    ("'E: cannot open frobnicator libfrob.so.4'", "'cannot open frobnicator libfrob.so.3'", 16, "twice"),
    (", format: frob.c}\n  near", "}\n  near", 16, '"seen" or "format"'),
]


def run(exe, *words, text=None, **options):
    return subprocess.run([exe, *map(str, words)], input=text, capture_output=True, text=True,
                          timeout=120, check=False, **options)


def base_faults(exe):
    done = run(exe, "kb", "lint", FAILURES)
    if done.returncode or "no problems" not in done.stdout:
        yield from done.stdout.splitlines()[:40]
        yield done.stderr
    done = run(exe, "kb", "lint")
    if done.returncode or "no problems" not in done.stdout:
        yield f"what is built in: {done.stdout}{done.stderr}"


def causes_faults(_exe):
    pages = {path.stem for path in (TOP / "docs/causes").glob("*.md")}
    for path in sorted(FAILURES.glob("*.yaml")):
        named = re.search(r"^cause: (\S+)$", path.read_text(encoding="utf-8"), re.M)
        cause = named[1] if named else None
        if cause is None and path.name != "shared.yaml":
            yield f"{path.name}: no cause"
        if cause and cause != path.stem:
            yield f"{path.name}: its cause is {cause}"
        if cause not in pages | {"none", None}:
            yield f"{path.name}: docs/causes has no page {cause}"


def refused_faults(exe, folder, file, line, why, lints):
    """The file is refused by name and line."""
    done = run(exe, "kb", "lint", folder)
    begin = f"{file}:{line}: "
    if done.returncode != 1 or not any(t.startswith(begin) and why in t
                                       for t in done.stdout.splitlines()):
        yield f"kb lint: status {done.returncode}, {done.stdout!r}, not {begin!r} and {why!r}"
    done = run(exe, "explain", "--kb", folder, "-", text=LOG)
    if lints and done.returncode != 1:
        yield f"explain refuses what only lint looks at: {done.stderr}"
    if not lints and (done.returncode != 3 or begin not in done.stderr or why not in done.stderr
                      or done.stdout):
        yield f"explain --kb: status {done.returncode}, {done.stderr!r}, not {begin!r} and {why!r}"


def spoiled_faults(exe):
    with tempfile.TemporaryDirectory() as top:
        file = Path(top, "mine.yaml")
        for rows, lints in ((SPOILED, False), (LINTED, True)):
            for old, new, line, why in rows:
                if old not in ENTRY:
                    yield f"{old!r} is not in the entry"
                file.write_text(ENTRY.replace(old, new, 1), encoding="utf-8")
                for fault in refused_faults(exe, top, file, line, why, lints):
                    yield f"{new!r}: {fault}"
        file.unlink()
        for name in ("mine.yml", "signatures.json", "verdicts_dev.json"):
            Path(top, name).write_text("{}", encoding="utf-8")
            done = run(exe, "explain", "--kb", top, "-", text=LOG)
            if done.returncode != 3 or name not in done.stderr:
                yield f"{name}: status {done.returncode}, {done.stderr!r}"
            Path(top, name).unlink()
        done = run(exe, "kb", "lint", top)
        if done.returncode != 3:
            yield f"a folder without files: status {done.returncode}"


def explained(exe, text, *words):
    done = run(exe, "explain", "--json", *words, "-", text=text)
    return json.loads(done.stdout) if done.stdout else {"stderr": done.stderr}


def added_faults(exe):
    with tempfile.TemporaryDirectory() as top:
        Path(top, "failures").mkdir()
        file = Path(top, "failures/mine.yaml")
        file.write_text(ENTRY, encoding="utf-8")
        done = run(exe, "kb", "lint", top)
        if done.returncode:
            yield f"kb lint: {done.stdout}{done.stderr}"
        answer = explained(exe, LOG, "--kb", top)
        if (answer.get("entry"), answer.get("culprit")) != ("frobnicator", "libfrob.so.3"):
            yield f"an added entry is not used: {answer}"
        said = [r["text"] for r in answer.get("repairs", ())]
        if said != ["With podman.", "With any engine."]:
            yield f"repairs without a named engine: {said}"
        file.write_text(ENTRY.replace("failures:", ENGINE + "failures:"), encoding="utf-8")
        for engine, wanted in (("Podman", ["With podman.", "With any engine."]),
                               ("docker", ["With any engine."])):
            answer = explained(exe, f"{LOG}run by engine {engine}\n", "--kb", top)
            said = [r["text"] for r in answer.get("repairs", ())]
            if said != wanted:
                yield f"repairs where the log names {engine}: {said}"
        other = "CUDA driver version is insufficient for CUDA runtime version\n"
        mine, theirs = explained(exe, other, "--kb", top), explained(exe, other)
        if mine != theirs or not theirs.get("entry"):
            yield f"an added file changes another answer: {mine} and {theirs}"
        file.write_text(f"""\
cause: library-missing
failures:
- id: {theirs["entry"]}
  lines: [{{literal: 'driver version is insufficient'}}]
  shows: reason
  confidence: certain
  culprit: replaced
  says: Replaced.
""", encoding="utf-8")
        answer = explained(exe, other, "--kb", top)
        if answer.get("culprit") != "replaced":
            yield f"an entry with the id of a built-in one does not replace it: {answer}"


def document_faults(exe):
    text = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.search(r"^## Add a failure in five minutes\n(.*?)^## ", text, re.M | re.S)[1]
    blocks = re.findall(r"^```(sh|text)\n(.*?)^```", section, re.M | re.S)
    if [kind for kind, _ in blocks] != ["sh", "sh", "text", "sh", "text"]:
        yield f"the section has the blocks {[kind for kind, _ in blocks]}"
    with tempfile.TemporaryDirectory() as top:
        Path(top, "bin").mkdir()
        Path(top, "bin/gpumend").symlink_to(exe)
        env = {"PATH": f"{top}/bin:{os.environ.get('PATH', '/usr/bin:/bin')}", "LC_ALL": "C.UTF-8"}
        printed = ""
        for kind, block in blocks:
            if kind == "text":
                if printed != block:
                    yield f"the document says {block!r}, printed was {printed!r}"
                continue
            done = subprocess.run(["sh", "-e", "-c", block], cwd=top, env=env, capture_output=True,
                                  text=True, timeout=60, check=False)
            printed = done.stdout
            if done.returncode or done.stderr:
                yield f"status {done.returncode}, {done.stderr!r} of {block[:80]!r}"


def main():
    exe = str(Path(sys.argv[1]).resolve())
    checks = [("kb/failures", base_faults), ("causes", causes_faults),
              ("spoiled files", spoiled_faults), ("added files", added_faults),
              ("CONTRIBUTING.md, five minutes", document_faults)]
    failed = 0
    for name, check in checks:
        faults = list(check(exe))
        failed += bool(faults)
        for fault in faults:
            print(f"FAIL {name}: {fault}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
