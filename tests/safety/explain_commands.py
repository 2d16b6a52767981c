#!/usr/bin/env python3
"""What a log says is never a part of a command unless it is a plain name.

    tests/safety/explain_commands.py GPUMEND

Each of our logs is explained, and each word of it that comes back in a command is written again with
something behind it (or before it) that a shell would run, or that a program would take for an option.
No command of the answer may hold that: the words with the mark are plain, and quotes are closed.

Plain names can do harm as well. What a log names is not opened in a firewall, made readable by root,
preloaded from a folder of everybody's, installed, or started as an image, unless it is known. And of
kb/failures, a command with sudo has fields of a log only where they were read one by one.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "explain"))
import yaml                                                                           # noqa: E402
import corpus                                                                         # noqa: E402

TOP = HERE.parent.parent

BATCH = 100
PLAIN = re.compile(r"[\w/][\w.+:=@,/*-]*", re.ASCII)
WORD = re.compile(r"[A-Za-z0-9_./+-]{4,}")
MARKS = (lambda w: w + ";touch${IFS}PWN;", lambda w: w + "$(touch${IFS}PWN)", lambda w: w + "`PWN`",
         lambda w: w + "'PWN", lambda w: w + '"PWN', lambda w: w + "|PWN", lambda w: w + "&PWN",
         lambda w: w + "\\PWN", lambda w: w + "%PWN%", lambda w: w + "\u202ePWN",
         lambda w: "--PWN=" + w)


def commands_of(answer):
    texts = [r["command"] for r in answer["repairs"]] + [answer["decides"]]
    return [text for text in texts if text]


def explain(exe, folder, logs):
    """The answers to the logs, in their order."""
    answers = []
    for start in range(0, len(logs), BATCH):
        files = []
        for n, log in enumerate(logs[start:start + BATCH]):
            files.append(folder / f"{n}.log")
            files[-1].write_text(log, encoding="utf-8", errors="surrogateescape")
        done = subprocess.run([exe, "explain", "--json", *files], capture_output=True, check=False,
                              timeout=300, env={"PATH": "/usr/bin:/bin"}, cwd=folder)
        document = json.loads(done.stdout)
        answers += document["logs"] if len(files) > 1 else [document]
    return answers


def attacks(logs, answers):
    """Log, mark: each with one word of its answer's commands made hostile."""
    for log, answer in zip(logs, answers):
        said = set(WORD.findall(" ".join(commands_of(answer))))
        for n, word in enumerate(sorted(w for w in said if w in log)):
            mark = MARKS[(n + len(log)) % len(MARKS)]
            yield log.replace(word, mark(word))
            yield log.replace(word, MARKS[0](word))


def is_bad(command):
    words = [w for w in re.split(r"[ '\"]+", command) if "PWN" in w or "touch$" in w]
    is_open = "PWN" in command and (command.count("'") % 2 or command.count('"') % 2)
    return is_open or any(not PLAIN.fullmatch(w) for w in words) or \
        "not named in the text" in command


# A log, and what no command may hold of it.
NAMED = (
    ("node1:21501:21590 [0] include/socket.h:390 NCCL WARN Connect to 203.0.113.66<41425> failed : "
     "Connection timed out", r"(?:firewall|ufw).*203\.0\.113\.66"),
    ("ImportError: /home/evil/libcublas.so.12: cannot open shared object file: Permission denied",
     r"chmod.*evil"),
    ("ModuleNotFoundError: No module named 'evilpkg'", "evilpkg"),
    ("importlib.metadata.PackageNotFoundError: No package metadata was found for evilpkg", "evilpkg"),
    ("The 'evilpkg==1.0' distribution was not found and is required by this application", "evilpkg"),
    ("xformers 0.0.22 has requirement evilpkg==6.6, but you have evilpkg 1.0", "evilpkg==6.6"),
    ("evilpkg was requested, but nvcc was not found\nModuleNotFoundError: No module named 'torch'\n"
     "Getting requirements to build wheel did not run successfully", "evilpkg"),
    ("$ docker run --runtime=runc evil.example/x:1 python3 -c 'import torch; torch.cuda.init()'\n"
     "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
     "evil.example"),
    ("OSError: /tmp/evil/libgomp.so.1: cannot allocate memory in static TLS block", "evil"),
    ("OSError: /usr/lib/../../home/evil/libgomp.so.1: cannot allocate memory in static TLS block", "evil"),
    ("ImportError: /home/evil/ext/foo/_C.cpython-310-x86_64-linux-gnu.so: undefined symbol: "
     "_ZN3c104cuda9SetDeviceEi", r"cd /home/evil"),
    ("OSError: libnvfoo.so.9: cannot open shared object file: No such file or directory",
     r"find /(?! ?\S* -path /proc -prune -o -name \S+ \\\( -user 0 -o -user \$\(id -u\) \\\)|usr /opt"
     r" -name \S+ -user 0).*(?:export|tee)"),
)
# A log, and what one command must hold all the same.
KNOWN = (
    ("ModuleNotFoundError: No module named 'faster_whisper'", "pip install faster_whisper"),
    ("$ docker run --runtime=runc nvcr.io/nvidia/pytorch:24.01-py3 python3 -c 'import torch'\n"
     "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
     "docker run --gpus all nvcr.io/nvidia/pytorch:24.01-py3"),
    ("OSError: /usr/lib/aarch64-linux-gnu/libgomp.so.1: cannot allocate memory in static TLS block",
     "LD_PRELOAD=/usr/lib/aarch64-linux-gnu/libgomp.so.1"),
)
# Fields of a log that a command with sudo may hold: a name of a table or of a list in the pattern, a number,
# or a word that is only looked for. A folder gets nothing but a link to the file beside it.
OF_SUDO = {"apt", "library", "kernel_gcc", "compiler_max", "service", "unit", "repository", "iommu_group",
           "gfx_override", "element", "package", "file", "folder", "device", "image"}
SUDO_PATHS = {
    "sudo ln -s {file} /usr/local/lib/lib{package}.so && sudo ldconfig",
    "sudo ln -s libcuda.so.1 {folder}/libcuda.so",
}


def commands_in(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "command":
                yield inner
            else:
                yield from commands_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from commands_in(inner)


def sudo_faults():
    """Commands with sudo and a field that nobody has allowed."""
    for path in sorted((TOP / "kb/failures").glob("*.yaml")):
        for command in commands_in(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)):
            fields = set(re.findall(r"\{(\w+)\}", command)) - {"Package"}
            paths = fields & {"file", "folder"}
            if "sudo " in command and (fields - OF_SUDO or paths and command not in SUDO_PATHS):
                yield f"FAIL {path.name}: sudo with {', '.join(sorted(fields))} of a log: {command[:120]}"


def named_faults(exe, folder):
    """What a hostile log names and a command has, and what one should have."""
    logs = [log for log, _ in NAMED + KNOWN]
    answers = explain(exe, folder, logs)
    for (log, bad), answer in zip(NAMED, answers):
        for command in answer["repairs"]:
            if re.search(bad, command["command"] or ""):
                yield f"FAIL {log[:90]!r} decides: {command['command']}"
    for (log, good), answer in zip(KNOWN, answers[len(NAMED):]):
        if not any(good in c for c in commands_of(answer)):
            yield f"FAIL {log[:90]!r}: no command has {good!r}: {commands_of(answer)}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    exe = str(Path(sys.argv[1]).resolve())
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="gpumend-explain.") as folder:
        logs = [row["log"] for row in corpus.own()]
        hostile = list(attacks(logs, explain(exe, Path(folder), logs)))
        for log, answer in zip(hostile, explain(exe, Path(folder), hostile)):
            bad = [c for c in commands_of(answer) if is_bad(c)]
            passed, failed = passed + (not bad), failed + bool(bad)
            if bad:
                print(f"FAIL {log[:200]!r}: {bad}")
        faults = [*named_faults(exe, Path(folder)), *sudo_faults()]
        print(*faults, sep="\n", end="\n" * bool(faults))
        failed += len(faults)
        passed += len(NAMED) + len(KNOWN) + 1 - min(len(faults), len(NAMED) + len(KNOWN) + 1)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
