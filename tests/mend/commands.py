#!/usr/bin/env python3
"""Every command that gpumend prints for a target, pasted into a shell.

    tests/mend/commands.py [--only PATTERN] GPUMEND

The environment lies in a folder whose name a shell takes apart (a quote, two blanks), and is named
by a path, by a relative one, or not at all. Whatever check, fix, enable, disable and run print as
"gpumend ..." has to name it so that it works in any folder, and stands on one line; each such
command is then run by `sh` in "/", with the status that belongs to it.
"""

import argparse
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import apply  # noqa: E402
from apply import World, expect  # noqa: E402

FOLDER = "it's  a \"b\" $c"
WITHOUT_TARGET = re.compile(r"gpumend (?:explain [a-z-]+|run -- COMMAND|kb\b|hook:)")
PRINTED = re.compile(r"gpumend (?:check|fix|enable|disable|probe|why)\b")


class User:
    """A world, and what a user types into it."""

    def __init__(self, exe, folder):
        self.world = World(exe, folder / FOLDER)
        self.prefix = str(self.world.prefix)
        self.word = "'" + self.prefix.replace("'", "'\\''") + "'"
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.bin / "gpumend").symlink_to(exe)
        self.home = folder / "home"
        self.home.mkdir()

    def paste(self, text, cwd="/", status=0, **env):
        done = subprocess.run(["sh", "-c", text], cwd=cwd, capture_output=True, text=True,
                              timeout=120, stdin=subprocess.DEVNULL,
                              env={"PATH": "%s:/usr/bin:/bin" % self.bin, "HOME": str(self.home),
                                   **env})
        said = done.stdout + done.stderr
        expect(done.returncode == status, "%s: status %d, not %d: %s" % (
            text, done.returncode, status, said))
        return said

    def printed(self, said):
        """The commands of an output; each names the environment."""
        found = []
        for line in said.splitlines():
            for at in re.finditer(r"gpumend (?=[a-z])", line):
                rest = line[at.start():]
                if WITHOUT_TARGET.match(rest) or not PRINTED.match(rest):
                    continue
                named = re.match(r"gpumend \w+(?: --(?:import|apply|packages)(?: [\w,]+)?)*? "
                                 + re.escape(self.word), rest)
                expect(named, "without its target, or over two lines: %r in %r" % (rest, line))
                more = re.match(r"(?: --[\w-]+(?: [\w,=']+)?)*", rest[named.end():])
                found.append(named.group() + more.group())
        return found


def one(found, pattern):
    match = [c for c in found if re.search(pattern, c)]
    expect(match, "no command like %r in %r" % (pattern, found))
    return match[0]


def broken(user):
    """What is printed about an environment that is broken, however it is named."""
    parent, name = os.path.split(user.prefix)
    said = ""
    for target, cwd, env in ((user.word, "/", {}), (name, parent, {}), (name + "/bin/python", parent, {}),
                             ("", "/", {"VIRTUAL_ENV": user.prefix})):
        for words in ("check %s", "check -v %s", "fix %s", "fix %s --import ctranslate2"):
            said += user.paste("gpumend " + words % target, cwd, 1, **env)
    found = user.printed(said)
    for wanted in (r"^gpumend enable ", r"^gpumend fix \S.* --apply$", r"--import ctranslate2 --apply$"):
        one(found, wanted)
    for command in sorted(set(found)):
        if "--apply" not in command and "enable" not in command:
            user.paste(command, status=1)


def applied_and_taken_back(user):
    """`fix --apply` as it is printed, and its way back."""
    command = one(user.printed(user.paste("gpumend fix " + user.word, status=1)), "--apply$")
    said = user.paste(command)
    user.paste("gpumend check " + user.word)
    user.paste(one(user.printed(said), "--undo$"))
    user.paste("gpumend check " + user.word, status=1)
    expect(not user.world.changed(), "not as before")


def enabled_and_disabled(user):
    """`enable` as check prints it; with the hook in, the way back is named, again and again."""
    command = one(user.printed(user.paste("gpumend check " + user.word, status=1)), "enable")
    first = user.paste(command)
    again = user.paste(command)
    looked = user.paste("gpumend check " + user.word)
    for said in (first, again, looked):
        one(user.printed(said), "^gpumend disable ")
    user.paste(one(user.printed(looked), "disable"))
    expect(not user.world.changed(), "not as before")


def hook_without_a_journal(user):
    """`.gpumend` was removed by hand: neither enable nor disable is a dead end."""
    user.paste("gpumend enable " + user.word)
    shutil.rmtree(user.prefix + "/.gpumend")
    user.paste("gpumend enable " + user.word)
    shutil.rmtree(user.prefix + "/.gpumend")
    user.paste(one(user.printed(user.paste("gpumend check " + user.word)), "disable"))
    user.paste("gpumend check " + user.word, status=1)


def hook_that_is_in_the_way(user):
    """A hook that would not be made now, and one beside which nothing else is to be made."""
    user.paste("gpumend enable " + user.word)
    for path in Path(user.prefix).rglob("libcublas*.so.12"):
        path.rename(str(path) + ".gone")
    said = user.paste("gpumend enable " + user.word, status=3)
    user.paste(one(user.printed(said), "disable"))


def interrupted(user):
    """A repair that has not ended: check and fix print the way back, and nothing else."""
    user.world.apply("link")
    log = Path(user.prefix) / ".gpumend/journal/1/log"
    log.write_text(re.sub(r"(?ms)^\S+ applied\b.*", "", log.read_text()))
    said = user.paste("gpumend check " + user.word, status=1)
    said += user.paste("gpumend check -v " + user.word, status=1)
    said += user.paste("gpumend fix " + user.word, status=1)
    user.paste(one(user.printed(said), "--undo$"))
    expect(not user.world.changed(), "not as before")


def below_a_root(user):
    """Another system's folder is named as well."""
    tree = apply.tree.Tree(Path(user.prefix).parents[2] / "root")
    tree.python().ctranslate2()
    tree.pip_cublas()
    before = apply.state.state(tree.real(tree.prefix))
    root = "'" + str(tree.top).replace("'", "'\\''") + "'"
    said = user.paste("gpumend fix %s --root %s" % (tree.prefix, root), status=1)
    commands = re.findall(r"gpumend fix .*--apply$", said, re.M)
    expect(commands == ["gpumend fix %s --root %s --apply" % (tree.prefix, root)],
           "not that root: %r" % commands)
    undo = re.search(r"gpumend fix .* --undo", user.paste(commands[0], status=3))
    expect(undo, "no way back")
    user.paste(undo.group())
    expect(not apply.state.differences(before, apply.state.state(tree.real(tree.prefix))),
           "not as before")


def no_way(user):
    """A hook where none helps: what else there is."""
    for path in Path(user.prefix).rglob("libcublas*.so.12"):
        path.rename(str(path) + ".gone")
    said = user.paste("gpumend enable %s --import ctranslate2" % user.word, status=3)
    user.paste(one(user.printed(said), "^gpumend fix .*--import ctranslate2$"), status=1)


def started(user):
    """What `run` cannot mend: check is named with the interpreter."""
    for path in Path(user.prefix).rglob("libcublas*.so.12"):
        path.rename(str(path) + ".gone")
    python = user.word[:-1] + "/bin/python'"
    said = user.paste("gpumend run -- %s -c 'import ctranslate2'" % python)
    user.word = python
    user.paste(one(user.printed(said), "check"), status=1)


TESTS = {"broken": broken, "applied": applied_and_taken_back, "enabled": enabled_and_disabled,
         "hook-without-a-journal": hook_without_a_journal, "hook-in-the-way": hook_that_is_in_the_way,
         "interrupted": interrupted, "below-a-root": below_a_root, "no-way": no_way,
         "started": started}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exe", metavar="GPUMEND")
    parser.add_argument("--only", action="append", metavar="PATTERN")
    args = parser.parse_args()
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    for name, test in TESTS.items():
        if args.only and not any(fnmatch.fnmatch(name, p) for p in args.only):
            continue
        with tempfile.TemporaryDirectory(prefix="gpumend-commands-") as folder:
            state, why = "PASS", apply.needs("")
            try:
                if why:
                    state = "SKIP"
                else:
                    test(User(os.path.abspath(args.exe), Path(folder)))
            except Exception as fault:  # a broken test is a failure, the others go on
                state, why = "FAIL", "%s: %s" % (type(fault).__name__, fault)
        counts[state] += 1
        if state != "PASS":
            print("%s %s: %s" % (state, name, why), flush=True)
    print("%d passed, %d failed, %d skipped" % tuple(counts.values()))
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
