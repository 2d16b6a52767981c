#!/usr/bin/python3
"""Each command that `explain` prints can be run as it is printed.

    tests/explain/runnable.py GPUMEND

No command of kb/failures has a word that the reader has to replace (PROGRAM, FOLDER, <name>, ...): a
{field} is filled from the text or the knowledge base, and a command whose fields are not known is
left out. Then every log of corpus/ and threads.jsonl and every collected case is explained, and each
command that a shell reads must be one for `bash -n`, without a field that was left open; the answer
says which `fish -n` does not read. A command for
Windows must mean the same to the command prompt and to PowerShell, or its sentence names the one that
is meant. filled.jsonl has a log for
each rule of what fills a command, puts one first, or decides by evidence: the first repair's command
must contain `has` (null: it has none), its sentence `says`, `entry` is what was chosen (null: there
is no verdict), `also` are the causes of the other failures that must be told, by line, and `not_also`
those that would contradict the verdict.
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent))
import corpus  # noqa: E402

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
BATCH = 100
TOOL_S = 300
FIELD = re.compile(r"\{[a-z_|]+\}")
COMMENT = re.compile(r"\s+#.*$")
VARIABLES = re.compile(r"(?i:\benv:)[A-Z_]+|\bunset(?: [A-Z_]+)+|(?<= -u )[A-Z_]+|\bsetx [A-Z_]+|"
                       r"environ\['[A-Z_]+'\]")
# In capitals, or in angle brackets: a word for something else. Not $NAME, %NAME%, NAME=, -DNAME, a.NAME.
PLACEHOLDER = re.compile(r"(?<![\w$%{.])[A-Z][A-Z_]*[A-Z](?![\w=}%.\[(])|<[a-z]\w*>|(?<!\.)\.\.\.(?!\w)")
# Words that are written in capitals: options of tools, instructions of a Dockerfile, names of folders and
# of packages.
CAPITALS = set("""
    ALL CLOCK COMPUTE CUDA CUDNN CUPTI DEFAULT ECC FROM GPU HKLM INFO IPC_LOCK MOK MSVC NVIDIA NVSMI ON
    PAGE_RETIREMENT PIDS POWER PTX REG_DWORD ROW_REMAPPER RUN SYSTEM SYS_ADMIN TEMPERATURE VC
    VISIBLE_DEVICES
""".split())
# What a shell of Windows does not read, or reads as something else: "where" is Where-Object in
# PowerShell, "set" its Set-Variable, %NAME% a text. The sentence may name the shell that is meant.
NOT_WINDOWS = re.compile(r"^(?:where|setx?|dir /|export|unset|sudo|for /d|call|Remove-Item)\b(?!\.exe)|"
                         r"^[\[$]|%\w+%|; |&& |"
                         r"'[^']*[<>]|\$\(")
SHELL_NAMED = re.compile(r"command prompt|\bcmd\b|PowerShell")
QUOTED = re.compile(r'"[^"]*"')
WINDOWS = re.compile(r"^(?:setx?|dir|copy|mkdir|where|Remove-Item|winget|for /d|wsl|nvidia-smi\.exe|del|rmdir|reg|sc|\$)\b|"
                     r"%\w+%|[A-Z]:\\|^\[Environment\]|\$env:", re.I)


def placeholders(command):
    bare = VARIABLES.sub("", COMMENT.sub("", FIELD.sub("", command)))
    return [word for word in PLACEHOLDER.findall(bare) if word not in CAPITALS] + \
        (["gpumend kb"] if command.startswith("gpumend kb ") else [])


def base_faults():
    """What is left open in the commands as the knowledge base has them."""
    for path in sorted((TOP / "kb/failures").glob("*.yaml")):
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CBaseLoader)
        for entry in document.get("failures", ()):
            for repair in entry.get("repairs", ()):
                words = placeholders(repair.get("command") or "")
                if words:
                    yield f"{path.name}: {entry['id']}: {words} in {repair['command']!r}"


def edited_in_place(folder):
    """Commands that write through a file's other names, as those in an installer's cache: each that
    edits with patchelf is run on such a file, in a folder with a blank."""
    site, tools, source = folder / "my site", folder / "tools", shutil.which("true")
    for place in (site, tools):
        place.mkdir()
    (tools / "python").write_text(f"#!/bin/sh\necho '{site}'\n")
    (tools / "python").chmod(0o755)
    for path in sorted((TOP / "kb/failures").glob("*.yaml")):
        for command in sorted(set(re.findall(r"^ *command: '(.*patchelf --(?!print).*)'$",
                                             path.read_text(encoding="utf-8"), re.M))):
            library, cache = site / "libx.so", folder / "cache.so"
            for place in (library, cache):
                place.unlink(missing_ok=True)
            shutil.copy(source, cache)
            before = cache.read_bytes()
            os.link(cache, library)
            ready = command.replace("''", "'").replace("{file}", shlex.quote(str(library)))
            done = subprocess.run(
                ["sh", "-c", ready.replace("{library}", "libx.so").replace(
                    "patchelf --clear-execstack", "patchelf --set-rpath /x")],
                env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}, check=False)
            if done.returncode or cache.read_bytes() != before or library.samefile(cache):
                yield f"{path.name}: the file is not changed in a copy: {command!r}"


def answers(exe, folder, logs):
    for start in range(0, len(logs), BATCH):
        files = []
        for n, log in enumerate(logs[start:start + BATCH]):
            files.append(folder / f"{n}.log")
            files[-1].write_text(log, encoding="utf-8", errors="surrogateescape")
        done = subprocess.run([exe, "explain", "--json", *files], capture_output=True, check=False,
                              timeout=TOOL_S)
        document = json.loads(done.stdout)
        yield from document["logs"] if len(files) > 1 else [document]


def printed_faults(commands):
    """What is wrong with commands as they were printed: command -> the log that had it."""
    for command, name in sorted(commands.items()):
        if FIELD.search(COMMENT.sub("", command)):
            yield f"{name}: a field is left open in {command!r}"
        if WINDOWS.search(command):
            continue
        done = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            yield f"{name}: bash does not read {command!r}: {done.stderr.strip()}"


def fish_faults(exe, folder, commands):
    """A command that fish does not read is printed with a line that says so."""
    script = folder / "command.fish"
    for command, (name, log) in sorted(commands.items()):
        if WINDOWS.search(command):
            continue
        script.write_text(command + "\n", encoding="utf-8")
        reads = subprocess.run(["fish", "-n", str(script)], capture_output=True, check=False)
        if not reads.returncode:
            continue
        done = subprocess.run([exe, "explain", "--all", "-"], input=log.encode(errors="replace"),
                              capture_output=True, check=False, timeout=TOOL_S)
        if b"\n  in fish   " not in done.stdout:
            yield f"{name}: fish does not read {command!r}, and nothing says so"


def windows_faults(repairs):
    """Commands that one of the shells of Windows does not read: command -> (sentence, log)."""
    for command, (says, name) in sorted(repairs.items()):
        bare = QUOTED.sub("", command)
        wrong = NOT_WINDOWS.search(bare) or "$(" in command or "   # " in command
        if wrong and not SHELL_NAMED.search(says):
            yield f"{name}: not for each shell of Windows: {command!r}"


def is_filled(row, answer):
    first = answer["repairs"][0] if answer["repairs"] else {"command": "", "text": ""}
    command, wanted = first["command"], row.get("has", "")
    if "entry" in row and answer["entry"] != row["entry"] or row.get("says", "") not in first["text"]:
        return False
    others = [(min(e["line"] for e in item["evidence"]), item["cause"]) for item in answer["also"]
              if item["evidence"]]
    if [line for line, _ in others] != sorted(line for line, _ in others) or \
            not set(row.get("also", ())) <= {cause for _, cause in others} or \
            set(row.get("not_also", ())) & {item["cause"] for item in answer["also"]}:
        return False
    return command is wanted if wanted is None or command is None else wanted in command


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    exe = str(Path(sys.argv[1]).resolve())
    rows = corpus.own() + (corpus.collected() or []) + corpus.read(HERE / "threads.jsonl")
    commands, of_windows, logs = {}, {}, {}
    with tempfile.TemporaryDirectory(prefix="gpumend-explain-") as folder:
        for row, answer in zip(rows, answers(exe, Path(folder), [row["log"] for row in rows])):
            for repair in answer["repairs"]:
                if repair["command"]:
                    commands.setdefault(repair["command"], row["id"])
                    logs.setdefault(repair["command"], (row["id"], row["log"]))
                    if answer["platform"] == "windows" and repair["platform"] in ("any", "windows"):
                        of_windows.setdefault(repair["command"], (repair["text"], row["id"]))
        filled = corpus.read(HERE / "filled.jsonl")
        told = answers(exe, Path(folder), [row["log"] for row in filled])
        wrong = [f"{row['rule']}: {answer['entry']}: {answer['repairs'][:1]}"
                 for row, answer in zip(filled, told) if not is_filled(row, answer)]
        if shutil.which("fish"):
            wrong += fish_faults(exe, Path(folder), logs)
        else:
            print("SKIP commands in fish: it is not installed")
        if shutil.which("patchelf"):
            wrong += edited_in_place(Path(folder))
        else:
            print("SKIP the commands with patchelf: it is not installed")
    faults = [*base_faults(), *printed_faults(commands), *windows_faults(of_windows), *wrong]
    for fault in faults:
        print(f"FAIL {fault}")
    print(f"{len(commands)} different commands for {len(rows)} logs")
    n = len(commands) + len(filled) + 1
    print(f"{n - min(len(faults), n)} passed, {len(faults)} failed")
    return 1 if faults or not commands else 0


if __name__ == "__main__":
    sys.exit(main())
