"""gm_fix, gm_enable, gm_undo and gm_disable in environments that really run.

tests/mend/apply.py makes them. What is applied works, what does not help is taken back, and what is
refused is refused with the sentence of the command.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "mend"))

import apply as mend                                                                # noqa: E402
import state                                                                        # noqa: E402
import tree                                                                         # noqa: E402

NOTHING_DONE, VERIFIED, _, TAKEN_BACK = "0", "1", "2", "3"
UNSUPPORTED, USAGE = "-5", "-1"


class Caller:
    """A program that uses the library, in a world of its own."""

    def __init__(self, program, exe, folder):
        folder.mkdir()
        self.program, self.world = program, mend.World(exe, folder)

    def call(self, function, *more, target=None):
        done = subprocess.run([self.program, function, target or self.world.prefix,
                               *map(str, more)], capture_output=True, text=True, timeout=120,
                              check=False, env={"PATH": "/usr/bin:/bin"})
        if done.returncode:
            raise mend.Wrong("status %d: %s%s" % (done.returncode, done.stdout, done.stderr))
        told = {"left": [], "start": []}
        for key, value in (line.split(" ", 1) for line in done.stdout.splitlines()):
            told[key] = [*told[key], value] if isinstance(told.get(key), list) else value
        return told

    def number_of(self, kind):
        """Of the way with such a step."""
        document = json.loads(self.world.gpumend("fix", self.world.prefix, "--json", status=1))
        return next(i for i, way in enumerate(document["ways"], 1)
                    if any(step["kind"] == kind for step in way["steps"]))

    def refused(self, status, words, function, *more, target=None):
        """The sentence is that of the command."""
        said = self.world.gpumend(*words, status={UNSUPPORTED: 3, USAGE: 2}[status])
        told = self.call(function, *more, target=target)
        expected = "gpumend: %s: %s\n" % (words[0], told["error"])
        mend.expect(told["status"] == status and said == expected,
                    "%s: the command says %r" % (told, said))
        mend.as_before(self.world, "refused")


def broken_library(w):
    """Its constructor traps, which no model sees."""
    library = w.tree.real(w.tree.cublas) / "libcublas.so.12"
    library.write_bytes(tree.compiled(
        "int g(void); __attribute__((constructor)) static void c(void) { __builtin_trap(); }"
        "int f(void); int f(void) { return 1; }", "-Wl,-soname,libcublas.so.12"))
    w.before = state.state(w.prefix)


def fixes(c):
    mend.expect(not c.world.works(), "it works without a repair")
    told = c.call("fix")
    mend.expect((told["status"], told["result"], told["journal"]) == ("0", VERIFIED, "1"), told)
    mend.expect(c.world.works() and not told["left"] and told["requests"] != "0", told)
    again = c.call("fix")
    mend.expect((again["result"], again["journal"]) == (NOTHING_DONE, "0"), again)
    mend.expect(c.call("undo")["journal"] == "1", "the journal that is taken back")
    mend.as_before(c.world)
    mend.expect(c.call("undo")["journal"] == "0", "nothing is left to take back")


def fails_and_is_taken_back(c):
    broken_library(c.world)
    number = c.number_of("link")
    document = json.loads(c.world.gpumend("fix", c.world.prefix, "--apply", "--select", number,
                                          "--json", status=1))
    for more in ((), ("ignored",)):
        told = c.call("fix", number, *more)
        mend.expect((told["status"], told["result"], told["journal"]) == ("0", TAKEN_BACK, "0"), told)
        mend.expect(told["why"] == document["why"] and told["title"] == document["title"],
                    "%s; the command: %s" % (told, document))
        mend.expect(told["left"], "the error is there as before")
        mend.as_before(c.world)


def hook(c):
    told = c.call("enable", "ignored")
    mend.expect((told["result"], told["journal"]) == (VERIFIED, "1") and c.world.works(), told)
    told = c.call("enable")
    mend.expect(told["result"] == VERIFIED and c.world.works(), "a new hook: %s" % told)
    mend.expect(c.call("disable")["journal"] != "0", "the hook's journal")
    mend.as_before(c.world)
    told = c.call("disable")
    mend.expect((told["journal"], told["hook_removed"]) == ("0", "0"), told)


def hook_that_does_not_help(c):
    broken_library(c.world)
    told = c.call("enable")
    mend.expect((told["result"], told["journal"]) == (TAKEN_BACK, "0") and told["why"] != "-", told)
    mend.as_before(c.world)


def refusals(c):
    w = c.world
    system = os.path.realpath("/usr/bin/python3")
    c.refused(USAGE, ["fix", w.prefix, "--apply", "--select", "77"], "fix", 77)
    c.refused(USAGE, ["fix", w.prefix, "--undo", "77"], "undo", 77)
    number = c.number_of("env")
    c.refused(UNSUPPORTED, ["fix", w.prefix, "--apply", "--select", number], "fix", number)
    c.refused(UNSUPPORTED, ["enable", system], "enable", target=system)


def without_memory(c, harm):
    """However far it comes: the next undo has everything as it was, and the next fix repairs."""
    w = c.world

    def fix_without(n):
        done = subprocess.run([harm, "/nowhere", "fix", w.prefix, str(n)], capture_output=True,
                              text=True, timeout=120, check=False, env={"PATH": "/usr/bin:/bin"})
        mend.expect(done.returncode == 0, "allocation %d: %d %s" % (n, done.returncode, done.stdout))
        words = done.stdout.split()
        return int(words[1]), int(words[3])

    total, status = fix_without(-1)
    mend.expect(status == 0 and w.works() and total >= 31,
                "with memory: %d, %d allocations" % (status, total))
    c.call("undo")
    mend.as_before(w)
    failed, tried = 0, sorted({1 + (total - 1) * k // 30 for k in range(31)})
    for n in tried:
        failed += fix_without(n)[1] != 0
        c.call("undo")
        mend.as_before(w, "without allocation %d of %d" % (n, total))
    # The others do without: what finds no room for the heads of files maps each file, for one.
    mend.expect(3 * failed > len(tried), "only %d of %d calls had no memory" % (failed, len(tried)))
    mend.expect(c.call("fix")["result"] == VERIFIED and w.works(), "a fix after these")


TESTS = (fixes, fails_and_is_taken_back, hook, hook_that_does_not_help, refusals)


def run_all(suite, program, harm, exe, folder):
    if not os.path.exists(mend.PYTHON):
        print("SKIP repairs: %s is not there" % mend.PYTHON)
        return
    for test in (*TESTS, *([without_memory] if harm else ())):
        more = (harm,) if test is without_memory else ()
        try:
            test(Caller(program, exe, folder / test.__name__), *more)
            wrong = ""
        except mend.Wrong as error:
            wrong = str(error)
        suite.check("repairs: %s" % test.__name__.replace("_", " "), not wrong, wrong)
