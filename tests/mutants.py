#!/usr/bin/env python3
"""Would the tests notice? Changes one operator or constant at a time and runs the suites.

    tests/mutants.py [--count N] [--seed S] [--rooms A,B,...] [--folder DIR]

A copy of the sources is made in DIR (build-mutants) and built once. Each mutant is one change of one
line of C: an operator (< <=, == !=, && ||, + -), a negated condition, a number one larger, or a
`return` of success that fails. It is built; what does not compile, or compiles to the same bytes, is
no mutant and another one is drawn. Then the suites of its room run, the quickest first, until one
prints its first failure: the mutant is killed by it. One that no suite notices has survived: it is
printed as a diff, to be judged.

The suites are those of `make test` that ask the room, with its commands and the seed of the commit.

The last line is `N passed, N failed`: killed and survived. The status is 0 when nine in ten were
killed. A seed gives the same mutants for the same sources.
"""

import argparse
import difflib
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import run
import seeding

TOP = Path(__file__).resolve().parent.parent
NOT_COPIED = shutil.ignore_patterns(".git", "__pycache__", ".*_cache")
BUILT = shutil.ignore_patterns("build", "build-*", "dist")    # at the top: kb/failures has a build-...
WANTED = 0.9
BUILD_LIMIT_S = 900
ENDS_WITHIN_S = 20
PATIENCE = 2  # times the limit of a suite, which is for a machine with nothing else to do

ROOMS = ["ldso", "elf", "diag", "plan", "apply", "log", "image"]

# Each room's suites after the unit tests, by the time they take; all of them are in `make test`.
LOADER = ["why", "cpu", "worlds-few", "image-findings", "trees", "tree-causes", "container-settings",
          "unseen", "trees-check", "causes", "hostile-files", "cdi", "bounded", "snapshot"]
VERDICT = ["report", "commands", "json-schema", "tree-causes", "cli", "image-findings", "unseen",
           "trees-check", "causes", "plan", "setup", "choose"]
SUITES = {
    "elf": LOADER,
    "ldso": LOADER,
    "diag": ["windows-host", "windows-check", "fleet-report", *VERDICT, "windows-replay"],
    "plan": ["commands", "json-schema", "windows-check", "mend-apply", "api", "plan", "causes",
             "setup", "launcher", "choose"],
    "apply": ["setup-apply", "swapped", "commands", "mend-apply", "acting", "api", "variants",
              "launcher", "killed"],
    "log": ["explain-command", "printed-python", "windows-explain", "kb-failures",
            "explain-commands", "explain-words", "explain-documents", "explain-generality",
            "explain-runnable", "explain", "explain-noise", "explain-repairs", "explain-dressed"],
    "image": ["managers", "image-layers", "image-findings", "container-settings",
              "hostile-forms", "unseen"],
}
OF_SUITES = {suite.name: suite for suite in run.SUITES}

OPERATORS = [
    (r"(?<![<>=!+\-*/&|^%-])<(?![<=])(?=\s)", "<="),
    (r"(?<![<>-])>(?![>=])(?=\s)", ">="),
    (r"<=", "<"),
    (r"(?<!>)>=", ">"),
    (r"==", "!="),
    (r"!=", "=="),
    (r"&&", "||"),
    (r"\|\|", "&&"),
    (r"(?<=\s)\+(?=\s)", "-"),
    (r"(?<=\s)-(?=\s)", "+"),
    (r"(?<=\bif \()(?=[^;]*\) \{$)", "!("),   # closed below
    (r"\b\d+\b(?!\w)", None),                 # one larger
    (r"(?<=\breturn )(true|false|0)(?=;)", None),
]


def is_code(line):
    text = line.strip()
    return bool(text) and not text.startswith(("#", "//", "/*", "*"))


def masked(line):
    """The line with texts, characters and comments blanked, so that nothing in them is changed."""
    blank = lambda m: "\0" * len(m.group(0))
    return re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//.*|/\*.*?(\*/|$)', blank, line)


def changed(line, pattern, new, at):
    """The line with one change at a place, or None."""
    old = at.group(0)
    before, after = line[:at.start()], line[at.end():]
    if new == "!(":
        if not after.endswith(") {"):
            return None
        return f"{before}!({after[:-3]})) {{"
    if new is not None:
        return before + new + after
    other = {"true": "false", "false": "true"}.get(old)
    if other is None:
        other = "-1" if before.endswith("return ") else str(int(old, 10) + 1)
    return before + other + after


def bodies(lines):
    """Which lines lie in a function: from a line that ends with `{` at the margin to its `}`."""
    inside, comment, found = False, False, []
    for number, line in enumerate(lines):
        if comment or line.lstrip().startswith("/*"):
            comment = "*/" not in line
            continue
        if re.match(r"^\w.*\)\s*\{$|^\{$|^\s+.*\)\s*\{$", line) and not inside:
            inside = True
        elif line.startswith("}"):
            inside = False
        elif inside and is_code(line):
            found.append(number)
    return found


def candidates(folder, rooms):
    """(path, line, new text) of every change that could be made, sorted."""
    found = []
    for room in rooms:
        for path in sorted((folder / "src" / room).rglob("*.c")):
            lines = path.read_text(encoding="utf-8").split("\n")
            for number in bodies(lines):
                hidden = masked(lines[number])
                for pattern, new in OPERATORS:
                    for at in re.finditer(pattern, hidden):
                        text = changed(lines[number], pattern, new, at)
                        if text is not None and text != lines[number]:
                            found.append((path.relative_to(folder), number, text))
    return found


def done(command, folder):
    """Whether it succeeds, and what it says."""
    child = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=BUILD_LIMIT_S)
    return child.returncode == 0, child.stdout


def suite_command(suite, build):
    if suite == "unit":
        return f"meson test -C {build} --no-rebuild --no-stdsplit --maxfail 1 -t 4"
    return OF_SUITES[suite].command.format(exe=f"{build}/gpumend", build=build,
                                           py=shlex.quote(run.PY))


def failure_of(suite, folder):
    """The first failure of a suite, which ends it, or None. What it then leaves behind is removed."""
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as scratch:
        os.chmod(scratch, 0o755)  # some suites act as another user
        return failure_in(scratch, suite, folder)


def failure_in(scratch, suite, folder):
    env = {"GPUMEND_SEED": str(seeding.of_commit()), **os.environ, "PYTHONUTF8": "1",
           "PYTHONUNBUFFERED": "1", "TMPDIR": scratch}
    command = suite_command(suite, shlex.quote(str(folder / "build")))
    child = subprocess.Popen(["/bin/sh", "-c", command], cwd=folder, text=True,
                             env=env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             errors="backslashreplace", start_new_session=True)
    late = threading.Event()

    def end(how=signal.SIGINT):
        late.set()
        os.killpg(child.pid, how)

    timer = threading.Timer(PATIENCE * OF_SUITES[suite].limit_s, end, [signal.SIGKILL])
    timer.start()
    lines = []
    try:
        for line in child.stdout:
            lines.append(line.rstrip("\n"))
            if run.FAILURE.search(line):
                return line.strip()
        counts, problem = run.judged(run.counts_of(lines), child.wait(), late.is_set())
        return problem or (f"{counts.failed} failed" if counts.failed else None)
    finally:
        timer.cancel()
        if child.poll() is None:
            end()  # as by Ctrl-C: it undoes mounts and ends what it has started
        try:
            child.communicate(timeout=ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            end(signal.SIGKILL)
            child.wait()


def killer(folder, room):
    """The suite that notices and what it says, or None."""
    for suite in ["unit", *SUITES.get(room, VERDICT)]:
        failure = failure_of(suite, folder)
        if failure:
            return suite, failure
    return None


def left_out(folder, names):
    return NOT_COPIED(folder, names) | (BUILT(folder, names) if Path(folder) == TOP else set())


def prepared(folder):
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(TOP, folder, symlinks=True, ignore=left_out)
    for command in (["meson", "setup", "build"], ["ninja", "-C", "build"]):
        passed, output = done(command, folder)
        if not passed:
            sys.exit(f"{' '.join(command)} failed:\n{output.decode(errors='replace')[-2000:]}")


def unmutated_pass(folder, rooms):
    """Suites that fail without any change would kill every mutant."""
    wrong = [s for s in dict.fromkeys(["unit", *(s for r in rooms for s in SUITES.get(r, VERDICT))])
             if failure_of(s, folder)]
    if wrong:
        sys.exit("these fail without any change: " + ", ".join(wrong))


def main():
    parser = argparse.ArgumentParser(description="Mutation run over the rooms that judge.")
    parser.add_argument("--count", type=int, default=60, metavar="N")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--rooms", default=",".join(ROOMS))
    parser.add_argument("--folder", type=Path, default=TOP / "build-mutants")
    parser.add_argument("--skip-check", action="store_true",
                        help="the suites are known to pass; only the unit tests are checked")
    args = parser.parse_args()
    # In the background of a shell it is ignored, and so would be what suites start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rooms = args.rooms.split(",")
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    folder = args.folder.resolve()
    prepared(folder)
    unmutated_pass(folder, [] if args.skip_check else rooms)
    exe = folder / "build/gpumend"
    original = exe.read_bytes()
    drawn = random.Random(seed)
    by_room = {room: candidates(folder, [room]) for room in rooms}
    empty = [room for room, found in by_room.items() if not found]
    if empty:
        sys.exit("nothing can be changed in: " + ", ".join(empty))
    killed = survived = 0
    while killed + survived < args.count:
        room = rooms[(killed + survived) % len(rooms)]   # rooms in turn, whatever their size
        path, number, text = drawn.choice(by_room[room])
        source = (folder / path).read_text(encoding="utf-8")
        lines = source.split("\n")
        mutant = [*lines[:number], text, *lines[number + 1:]]
        (folder / path).write_text("\n".join(mutant), encoding="utf-8")
        try:
            built, _ = done(["ninja", "-C", "build", "gpumend"], folder)
            if not built or exe.read_bytes() == original:
                continue
            started = time.monotonic()
            built, _ = done(["ninja", "-C", "build"], folder)
            found = killer(folder, room) if built else ("the build", "it fails")
            what = f"{path}:{number + 1}: {lines[number].strip()}  ->  {text.strip()}"
            if found:
                killed += 1
                print(f"killed by {found[0]} ({time.monotonic() - started:.0f} s): {what}\n"
                      f"    {found[1][:200]}", flush=True)
            else:
                survived += 1
                print(f"SURVIVED ({time.monotonic() - started:.0f} s): {what}\n"
                      + "\n".join(difflib.unified_diff(lines, mutant, str(path), str(path), n=4,
                                                       lineterm="")), flush=True)
        finally:
            (folder / path).write_text(source, encoding="utf-8")
    print(f"{killed} passed, {survived} failed")
    return 0 if killed >= WANTED * args.count else 1


if __name__ == "__main__":
    sys.exit(main())
