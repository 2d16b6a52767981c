#!/usr/bin/env python3
"""The messages of the commits since SINCE.

    tests/commits.py [SINCE]

A subject is `room: what`, with one room in lower case, and has 60 characters at most. A commit that changes
more than 50 lines has a body, which says why. There are no merges. Skipped where the history is not here
(an archive, a shallow clone, another repository).
"""
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
SINCE = "ef8a528132be3faff458a7a4f8ee1cf13b0fd848"  # build: rooms with one idea each
SUBJECT = re.compile(r"[a-z0-9][a-z0-9-]*: \S.*")
SUBJECT_CHARACTERS, LINES_WITHOUT_BODY = 60, 50


def git(*words):
    """What git prints, or None."""
    try:
        done = subprocess.run(["git", *words], cwd=TOP, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def faults_of(subject, body, lines, parents):
    if len(subject) > SUBJECT_CHARACTERS:
        yield f"the subject has {len(subject)} characters"
    if not SUBJECT.fullmatch(subject):
        yield "the subject is not `room: what` with one room"
    if lines > LINES_WITHOUT_BODY and not body.strip():
        yield f"{lines} lines change, and no body says why"
    if parents > 1:
        yield "it is a merge"


def self_check():
    """The rule itself, on messages made up."""
    for message, good in (((f"elf: {'x' * 55}", "", 50, 1), True), ((f"elf: {'x' * 56}", "", 1, 1), False),
                          (("elf, ldso: two", "", 1, 1), False), (("no room", "", 1, 1), False),
                          (("elf: large", "", 51, 1), False), (("elf: large", "why", 51, 1), True),
                          (("elf: joined", "", 1, 2), False)):
        if (not list(faults_of(*message))) != good:
            yield f"the check of {message} is wrong"


def main():
    since = sys.argv[1] if len(sys.argv) > 1 else SINCE
    for fault in (wrong := list(self_check())):
        print(f"FAIL {fault}")
    passed, failed = int(not wrong), int(bool(wrong))
    own = git("rev-parse", "--show-toplevel")
    if not own or Path(own.strip()).resolve() != TOP or git("merge-base", "--is-ancestor", since, "HEAD") is None:
        print(f"SKIP the history since {since[:12]} is not here")
        print(f"{passed} passed, {failed} failed, 1 skipped")
        return 1 if failed else 0
    for commit in git("rev-list", f"{since}..HEAD").split():
        parents, subject, body = git("show", "-s", "--format=%P%x00%s%x00%b", commit).split("\0")
        lines = sum(int(number) for row in git("show", "--numstat", "--format=", commit).splitlines()
                    for number in row.split("\t")[:2] if number.isdigit())
        faults = list(faults_of(subject, body, lines, len(parents.split())))
        for fault in faults:
            print(f"FAIL {commit[:12]} {subject}: {fault}")
        failed += bool(faults)
        passed += not faults
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
