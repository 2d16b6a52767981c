#!/usr/bin/env python3
"""What another user swaps for a file or folder that was just made is neither run nor filled.

    tests/safety/swapped.py GPUMEND

The command runs under strace, which makes it wait after the call that makes the thing, in a folder
that anyone may write; meanwhile it is moved away, and a link or a program takes its name. Landlock,
where the kernel has it, is answered with ENOSYS, as it would hide the fault.
"""
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tree

DELAY_US = 400000
SECONDS_MAX = 60
PROGRAM = """#include <fcntl.h>
int main(void) { return open("%s", O_CREAT | O_WRONLY, 0600) < 0; }
"""


def start(command, injections, folder, env):
    options = [word for i in injections for word in ("-e", f"inject={i}")]
    return subprocess.Popen(["strace", "-f", "-o", folder / "trace", *options, *map(str, command)],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env={"PATH": "/usr/bin:/bin", **env}, cwd="/")


def swapped(process, found, swap):
    """Swaps what `found` gives as soon as it is there; the output, and whether it was swapped."""
    end = time.monotonic() + SECONDS_MAX
    done = False
    while process.poll() is None and not done and time.monotonic() < end:
        path = found()
        if path:
            swap(path)
            done = True
        time.sleep(0.005)
    said = process.communicate(timeout=SECONDS_MAX)[0].decode(errors="backslashreplace")
    return done, said


def tree_faults(exe, folder):
    """snapshot --tree, into a folder that anyone may write."""
    env = tree.environment(folder / "root/env")
    into, outside = folder / "into", folder / "outside"
    into.mkdir()
    into.chmod(0o777)
    outside.mkdir(mode=0o700)

    def swap(path):
        path.rename(into / "moved")
        path.symlink_to(outside)

    process = start([exe, "snapshot", "--root", folder / "root", "/env", "--tree", into],
                    [f"mkdirat:delay_exit={DELAY_US}", "landlock_create_ruleset:error=ENOSYS"],
                    folder, {})
    done, said = swapped(process, lambda: next(into.glob("env"), None), swap)
    if not done:
        yield f"no folder {env.name} was seen: {said}"
    if any(outside.iterdir()):
        yield f"made outside: {sorted(p.name for p in outside.iterdir())}"
    if outside.stat().st_mode & 0o777 != 0o700:
        yield f"the mode outside is {outside.stat().st_mode:o}"


def helper_faults(exe, folder):
    """The helper of probe, where the kernel has no memory files."""
    place, mark = folder / "place", folder / "mark"
    place.mkdir()
    place.chmod(0o777)

    theirs = folder / "theirs"
    subprocess.run(["cc", "-x", "c", "-", "-o", theirs], input=PROGRAM % str(mark), text=True,
                   check=True)

    def swap(path):
        path.rename(place / "moved")
        shutil.copy(theirs, path)

    process = start([exe, "probe"], ["memfd_create:error=ENOSYS", f"fchmod:delay_exit={DELAY_US}"],
                    folder, {"TMPDIR": str(place)})
    done, said = swapped(process, lambda: next(place.glob("gpumend-probe-*"), None), swap)
    if not done:
        yield f"no helper was seen: {said}"
    if mark.exists():
        yield "another user's program was run"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    exe = Path(sys.argv[1]).resolve()
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="gpumend-swapped.") as name:
        works = subprocess.run(["strace", "-f", "-o", "/dev/null", "-e",
                                "inject=getppid:error=ENOSYS", "true"], capture_output=True,
                               check=False)
        if works.returncode != 0:
            print("SKIP swapped: strace may not trace here\n0 passed, 0 failed, 1 skipped")
            return 0
        for case, check in (("snapshot --tree", tree_faults), ("probe", helper_faults)):
            folder = Path(name) / case.replace(" ", "")
            folder.mkdir()
            faults = list(check(exe, folder))
            for fault in faults:
                print(f"FAIL {case}: {fault}")
            passed, failed = passed + (not faults), failed + bool(faults)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
