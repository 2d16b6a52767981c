#!/usr/bin/env python3
"""`check --github` and `check --sarif` say what `check --json` says, in forms that a name cannot break.

    tests/report/ci.py GPUMEND
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "causes"))
import tree  # noqa: E402

PROGRAM = "/opt/app/bin/app"
HOSTILE = "libx%0A::error title=forged::no,:\r\n::warning::forged \x1b[31m.so.1"
LEVELS = {"error": ("error", "error"), "warning": ("warning", "warning"), "note": ("notice", "note")}
failures = passes = 0


def check(name, holds, detail=""):
    global failures, passes
    passes += bool(holds)
    failures += not holds
    if not holds:
        print(f"FAIL {name}: {str(detail)[-1200:]}")


def run(exe, t, *options):
    done = subprocess.run([exe, "check", "--root", str(t.top), *options], capture_output=True, timeout=60,
                          check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def world(folder, *needed, damaged=False):
    t = tree.Tree(folder)
    t.loader()
    t.put(PROGRAM, tree.elf(None, interp=tree.LOADER, runpath="/opt/app/lib", needed=list(needed)))
    t.put("/proc/cpuinfo", "flags\t: cmov cx8 fpu fxsr mmx sse sse2\n")
    if damaged:
        t.put("/opt/app/lib/libfoo, bar%.so.1", "no library")
    return t


def unescaped(text):
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%3A", ":").replace("%2C", ",").replace("%25", "%")


def of_github(name, text, document):
    lines = text.splitlines()
    commands = [re.fullmatch(r"::(error|warning|notice) title=([^:,]*)::(.*)", line) for line in lines[:-1]]
    check(name + ": every line but the last is one command", all(commands), text)
    check(name + ": the verdict is the last line", lines[-1] == "gpumend: " + document["verdict"], lines[-1])
    told = [(c.group(1), unescaped(c.group(2)), unescaped(c.group(3)).split("\n")[0]) for c in commands if c]
    findings = [(LEVELS[f["severity"]][0], "gpumend: " + f["cause"]) for f in document["findings"]]
    check(name + ": the findings in their order", [t[:2] for t in told][:len(findings)] == findings, told)
    notes = document["notes"] if document["verdict"] == "unknown" else []
    check(name + ": why there is no verdict", len(told) == len(findings) + len(notes), told)
    check(name + ": nothing that a terminal acts on", "\x1b" not in text and "\r" not in text, text)


def of_sarif(name, log, document):
    run_ = log["runs"][0]
    check(name + ": SARIF 2.1.0", log["version"] == "2.1.0" and len(log["runs"]) == 1, log)
    check(name + ": results are the findings",
          [(r["ruleId"], r["level"]) for r in run_["results"]] ==
          [(f["cause"], LEVELS[f["severity"]][1]) for f in document["findings"]], run_["results"])
    check(name + ": each says what the finding says",
          all(r["message"]["text"].startswith(f["summary"])
              for r, f in zip(run_["results"], document["findings"])), run_["results"])
    rules = [r["id"] for r in run_["tool"]["driver"]["rules"]]
    check(name + ": a rule for each cause, once",
          sorted(rules) == sorted({f["cause"] for f in document["findings"]}), rules)
    check(name + ": a rule has what GitHub shows",
          all(r[key]["text"] for r in run_["tool"]["driver"]["rules"] for key in
              ("shortDescription", "fullDescription", "help")), run_["tool"]["driver"]["rules"])
    check(name + ": each result has its place, without which GitHub refuses the log",
          all(len(r["locations"]) == 1 and r["locations"][0]["physicalLocation"]["region"]["startLine"] == 1
              for r in run_["results"]), run_["results"])
    places = [p["physicalLocation"]["artifactLocation"]["uri"] for r in run_["results"] for p in r["locations"]]
    files = [f["culprit"] if f["culprit"].startswith("/") else PROGRAM for f in document["findings"]]
    check(name + ": a file is a URI", [unquote(u.removeprefix("file://")) for u in places] == files and
          all(re.fullmatch(r"file:///[\w.~/+@%-]*", u) for u in places), places)
    invocation = run_["invocations"][0]
    check(name + ": cannot tell is no success",
          invocation["executionSuccessful"] == (document["verdict"] != "unknown"), invocation)
    check(name + ": the notes", [n["message"]["text"] for n in invocation["toolExecutionNotifications"]] ==
          document["notes"], invocation)


def main():
    exe = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="gpumend-ci-") as folder:
        top = Path(folder)
        v3 = world(top / "unknown", "libx.so.1")
        v3.lib("/opt/app/lib/libx.so.1")
        v3.lib("/opt/app/lib/glibc-hwcaps/x86-64-v3/libx.so.1", needed=["libnowhere.so.1"])
        v3.put("/proc/cpuinfo", "")
        worlds = {"in order": (world(top / "ok"), 0), "missing": (world(top / "missing", "libnowhere.so.1"), 1),
                  "a hostile name": (world(top / "hostile", HOSTILE), 1),
                  "a damaged file": (world(top / "damaged", "libfoo, bar%.so.1", damaged=True), 1),
                  "cannot tell": (v3, 3)}
        for name, (t, status) in worlds.items():
            document = json.loads(run(exe, t, "--json", PROGRAM)[1])
            github = run(exe, t, "--github", PROGRAM)
            file = top / "log.sarif"
            sarif = run(exe, t, "--sarif", str(file), PROGRAM)
            plain = run(exe, t, "--sarif", "-", PROGRAM)
            check(name + ": the statuses", github[0] == sarif[0] == plain[0] == status,
                  (github[0], sarif[0], plain[0], status))
            check(name + ": the same log in a file and on standard output",
                  file.read_text() == plain[1] and sarif[1] == "", sarif)
            of_github(name, github[1], document)
            of_sarif(name, json.loads(plain[1]), document)
        ok = worlds["in order"][0]
        for options in (["--github", "--json"], ["--sarif", "-", "--report"], ["--github", "--sarif", "-"],
                        ["--github", "--probe"]):
            check("refused: " + " ".join(options), run(exe, ok, *options, PROGRAM)[0] == 2)
        (top / "windows/Windows/System32").mkdir(parents=True)
        for options in (["--github"], ["--sarif", "-"], ["--report"], ["--host", "/"]):
            done = subprocess.run([exe, "check", "--root", str(top / "windows"), *options],
                                  capture_output=True, text=True, timeout=60, check=False)
            check(f"a Windows tree: {options[0]} is refused", done.returncode == 3 and not done.stdout and
                  f"{options[0]} is not available for a Windows tree" in done.stderr, (done.stdout, done.stderr))
        check("a file that cannot be made", run(exe, ok, "--sarif", str(top / "no/x"), PROGRAM)[0] == 3)
    print(f"{passes} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
