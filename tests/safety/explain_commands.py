#!/usr/bin/env python3
"""What a log says is never a part of a command unless it is a plain name.

    tests/safety/explain_commands.py GPUMEND

Each of our logs is explained, and each word of it that comes back in a command is written again with
something behind it (or before it) that a shell would run, or that a program would take for an option.
No command of the answer may hold that: the words with the mark are plain, and quotes are closed.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "explain"))
import corpus                                                                         # noqa: E402

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
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
