#!/usr/bin/python3
"""Each command for PowerShell that `explain`, `fix` and `setup` print is PowerShell, by its grammar.

    tests/explain/powershell.py GPUMEND

The commands of every log of a Windows machine (corpus/, threads.jsonl, the collected cases) that are
not said to be for the command prompt, those that kb/failures has for Windows, those that `fix
--json` prints for the trees of tests/windows/check.py, and the scripts of `setup` for Windows are parsed by tree-sitter's grammar of
PowerShell. It is not PowerShell itself: it says nothing about what a command does. Skipped without
the packages tree-sitter and tree-sitter-powershell, which a person installs.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "windows")]
import check  # noqa: E402
import corpus  # noqa: E402
import runnable  # noqa: E402

TOOL_S = 60
FOR_PROMPT = re.compile(r"command prompt|\bcmd\b")
FOR_POWERSHELL = re.compile(r"\(PowerShell\)|\bin PowerShell\b")
# A word that PowerShell passes on as it is, and the grammar does not know: it is parsed in quotes.
BARE_OPTION = re.compile(r'(?<![\w"])(--[\w-]+=[\w./:-]+)(?=\s|$)')
# What must be refused, so that the grammar is seen to refuse something.
WRONG = ["export A=$(ls)", "nvidia-smi --query-gpu=name,driver_version", "if (1 { x }", 'for /d %d in ("a") do b', 'echo "open']


def of_explain(exe):
    rows = corpus.own() + (corpus.collected() or []) + corpus.read(HERE / "threads.jsonl")
    with tempfile.TemporaryDirectory(prefix="gpumend-powershell-") as folder:
        for answer in runnable.answers(exe, Path(folder), [row["log"] for row in rows]):
            if answer["platform"] == "windows":
                for repair in answer["repairs"]:
                    if repair["command"] and repair["platform"] in ("any", "windows"):
                        yield repair["text"], repair["command"]


def of_base():
    for path in sorted((runnable.TOP / "kb/failures").glob("*.yaml")):
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CBaseLoader)
        for entry in document.get("failures", ()):
            for repair in entry.get("repairs", ()):
                if repair["platform"] == "windows" and repair.get("command"):
                    yield repair["says"], runnable.FIELD.sub("value", repair["command"])


def of_fix(exe):
    for _, make, *_ in check.CASES:
        with tempfile.TemporaryDirectory(prefix="gpumend-powershell-") as folder:
            make(Path(folder))
            done = subprocess.run([exe, "fix", "--json", "--root", folder], capture_output=True,
                                  check=False, timeout=TOOL_S)
            if done.stdout.startswith(b"{"):
                yield from found(json.loads(done.stdout))


def of_setup(exe):
    listed = subprocess.run([exe, "setup", "--help"], capture_output=True, text=True, check=True).stdout
    apps = re.search(r"APP is ([\w, \n-]+) or ([\w-]+)\.", listed)
    for app in [*re.split(r",\s*", apps[1]), apps[2]]:
        for machine in ("rtx-4070-windows", "rx-7900-xtx-windows", "rx-5700-xt-windows", "arc-a770-windows",
                        "cpu-windows"):
            done = subprocess.run([exe, "setup", app, "--for", machine, "--script", "powershell", "--into",
                                   "my env's"], capture_output=True, check=False, timeout=TOOL_S)
            if done.stdout:
                yield "", done.stdout.decode()


def found(document):
    """Every "powershell" of a document."""
    if isinstance(document, dict):
        if isinstance(document.get("powershell"), str):
            yield "", document["powershell"]
        document = list(document.values())
    for item in document if isinstance(document, list) else ():
        yield from found(item)


def main():
    try:
        import tree_sitter
        import tree_sitter_powershell
    except ImportError:
        print("SKIP tree-sitter and tree-sitter-powershell are not installed")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
    exe = str(Path(sys.argv[1]).resolve())
    commands = {}
    for origin, pairs in (("explain", of_explain(exe)), ("kb", of_base()), ("fix", of_fix(exe)),
                          ("setup", of_setup(exe))):
        n = len(commands)
        for says, command in pairs:
            if FOR_POWERSHELL.search(says) or not FOR_PROMPT.search(says):
                commands.setdefault(command, origin)
        print(f"{origin}: {len(commands) - n} different commands")
    failed = 0
    for command, origin in commands.items():
        quoted = BARE_OPTION.sub(r'"\1"', command)
        if parser.parse(quoted.encode()).root_node.has_error:
            failed += 1
            print(f"FAIL {origin}: not PowerShell: {command!r}")
    for command in WRONG:
        if not parser.parse(command.encode()).root_node.has_error:
            failed += 1
            print(f"FAIL the grammar takes {command!r}")
    print(f"{len(commands) + len(WRONG) - failed} passed, {failed} failed")
    return 1 if failed or not commands else 0


if __name__ == "__main__":
    sys.exit(main())
