#!/usr/bin/env python3
"""Suites do not depend on where they run: they are run elsewhere, and must say the same.

    tests/portable.py GPUMEND [--each] [--only CONDITION]... [--suites A,B,...]

What a suite needs is copied into a folder with spaces in its name and run from there by
tests/run.py, under conditions that other machines have. By default they are put together to a few
places (PLACES), which are entered at the same time, and the suites are QUICK. An emulated processor takes
many times as long, so one place has it. --each takes one condition after the other, --only those that are
named, and so tells which one a suite does not bear.
A condition that cannot be had here is skipped with the reason.

The clock is set an hour off by the times of all files of the copy: an hour into the future.
"""

import argparse
import os
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

TOP = Path(__file__).resolve().parent.parent
PY = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
NOBODY = 65534
LIMIT_S = 600
PROCESSORS = {"x86-64-v1": "qemu64", "x86-64-v2": "Nehalem", "x86-64-v3": "Haswell"}
# Of what gpumend judges, for the most part: trees, the loader, findings, repairs, snapshots.
QUICK = ["include-order", "kb-data", "documents", "cli", "why", "cpu", "json-schema", "trees-check",
         "tree-causes", "mend-apply"]
PLACES = {
    "another processor, locale and clock": ["x86-64-v2", "locale", "time zone", "clock"],
    "the same user, at the same time": ["locale", "time zone", "clock"],
    "another user, without much": ["user", "no network", "descriptors", "no attributes"],
}
# What is not copied: builds, and what a version control keeps.
LEFT_OUT = re.compile(r"build(-[a-z]+)?|dist|__pycache__|\.git|\.[a-z]*_cache")


class Missing(Exception):
    """A condition that cannot be had here."""


def left_out(folder, names):
    """What was built, and the sources that a build for another system unpacked."""
    unpacked = {n for n in names if Path(folder) == TOP / "subprojects" and n != "packagefiles"
                and Path(folder, n).is_dir()}
    return [n for n in names if n in unpacked or LEFT_OUT.fullmatch(n)]


class Place:
    """A copy of the sources with the executable, and how a command is run in it."""

    def __init__(self, top, exe):
        self.top = top
        self.copy = top / "a folder with spaces" / "gpumend"
        self.build = self.copy / "build"
        self.env = {**os.environ, "HOME": str(top / "home"), "TMPDIR": str(top / "tmp"),
                    "PYTHONDONTWRITEBYTECODE": "1"}
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
            self.env.pop(name, None)
        self.before = []   # words before the command
        self.script = []   # lines of a shell, run right before it
        self.own = []      # run once all is there
        self.exe = exe

    def fill(self):
        for folder in (self.build, self.top / "home", self.top / "tmp"):
            folder.mkdir(parents=True)
        for path in TOP.iterdir():
            if LEFT_OUT.fullmatch(path.name):
                continue
            if path.is_dir():
                shutil.copytree(path, self.copy / path.name, symlinks=True, ignore=left_out)
            else:
                shutil.copy2(path, self.copy / path.name)
        shutil.copy2(self.exe, self.build / "gpumend")

    def command(self, suites):
        run = [PY, str(self.copy / "tests/run.py"), "--build", str(self.build), "--jobs", "1",
               *[w for suite in suites for w in ("--only", suite)], "test"]
        return [*self.before, "/bin/sh", "-c",
                "".join(line + "\n" for line in self.script) + "exec " + shlex.join(run)]


# ---- conditions: each changes a place, or raises Missing -------------------------------------

def processor(level):
    def change(place):
        emulator = shutil.which("qemu-x86_64-static") or shutil.which("qemu-x86_64")
        if not emulator:
            raise Missing("there is no qemu-x86_64 (package qemu-user)")

        def wrap():
            real = place.build / "gpumend-itself"
            (place.build / "gpumend").rename(real)
            start = shlex.join([emulator, "-cpu", PROCESSORS[level], str(real)])
            (place.build / "gpumend").write_text(f'#!/bin/sh\nexec {start} "$@"\n')
            (place.build / "gpumend").chmod(0o755)
        place.own.append(wrap)
    return change


def locale(place):
    """ASCII, and Python kept from taking UTF-8 instead."""
    for name in [n for n in place.env if n.startswith("LC_") or n in ("LANG", "LANGUAGE")]:
        del place.env[name]
    place.env.update(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")


def time_zone(place):
    place.env["TZ"] = "FAR-13:45"


def clock(place):
    def shift():
        then = time.time() + 3600
        for folder, _, names in os.walk(place.top):
            for name in ["", *names]:
                os.utime(os.path.join(folder, name), (then, then), follow_symlinks=False)
    place.own.append(shift)


def user(place):
    if os.geteuid() != 0:
        raise Missing("this user is not root already")

    def give():
        for folder, _, names in os.walk(place.top):
            for name in ["", *names]:
                os.chown(os.path.join(folder, name), NOBODY, NOBODY, follow_symlinks=False)
    place.own.append(give)
    place.before = [*place.before, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
                    "--clear-groups", "--"]
    place.env.update(USER="nobody", LOGNAME="nobody")


def works(*command):
    done = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    return done.returncode == 0


def unshared(place, option, what):
    """A namespace of its own, made before the user is changed."""
    command = ["unshare", option] if os.geteuid() == 0 else ["unshare", "--map-root-user", option]
    if not works(*command):
        raise Missing(f"no namespace for {what} can be made here")
    place.before = [*command, "--", *place.before]


def no_network(place):
    unshared(place, "--net", "the network")


def descriptors(place):
    place.script.append("ulimit -n 1024")


def no_attributes(place):
    """Temporary files in a ramfs, which has no extended attributes; else in a tmpfs."""
    if os.geteuid() != 0:
        if not os.access("/dev/shm", os.W_OK):
            raise Missing("there is no tmpfs that this user may write into")
        place.env["TMPDIR"] = "/dev/shm"
        return
    trial = 'mount -t ramfs none /mnt && exec "$@"'
    if not works("unshare", "--mount", "--", "/bin/sh", "-c", trial, "sh"):
        raise Missing("no file system may be mounted here")
    mount = 'mount -t ramfs none "$TMPDIR" && chmod 1777 "$TMPDIR" && exec "$@"'
    place.before = ["unshare", "--mount", "--", "/bin/sh", "-c", mount, "sh", *place.before]


CONDITIONS = {
    **{level: processor(level) for level in PROCESSORS},
    "locale": locale, "time zone": time_zone, "clock": clock, "user": user,
    "no network": no_network, "descriptors": descriptors, "no attributes": no_attributes,
}


# ---- running them ----------------------------------------------------------------------------

def prepared(exe, folder, conditions):
    """A place under these conditions, and why some of them are left out."""
    place, reasons = Place(folder, exe), []
    place.fill()
    for name in sorted(conditions, key=list(CONDITIONS).index):
        try:
            CONDITIONS[name](place)
        except Missing as reason:
            reasons.append(f"{name}: {reason}")
    for step in place.own:
        step()
    return place, reasons


def run_in(place, suites, ret):
    child = subprocess.Popen(place.command(suites), env=place.env, cwd=place.copy,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="backslashreplace")
    try:
        ret.append(child.communicate(timeout=LIMIT_S)[0])
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)  # it ends its suites
        child.communicate()


def judge(name, outcome, suites):
    """Prints what a place said; (passed, failed, skipped), counted in suites."""
    if not outcome:
        print(f"FAIL {name}: it took longer than {LIMIT_S} s")
        return 0, 1, 0
    output = outcome[0]
    found = dict(re.findall(r"^([a-z-]+): (?:\d+ passed, )(\d+) failed", output, re.M))
    good = [s for s in suites if found.get(s) == "0"]
    for suite in suites:
        if suite not in good:
            lines = [x for x in output.splitlines() if x.strip().startswith(f"{suite}")]
            print(f"FAIL {name}: {suite}\n" + "\n".join(lines[-60:] or output.splitlines()[-20:]))
    return len(good), len(suites) - len(good), 0


def run_together(exe, top, places, suites):
    """All places at the same time; the sum of their counts."""
    total, started = [0, 0, 0], []
    for number, (name, conditions) in enumerate(places.items()):
        place, reasons = prepared(exe, top / f"place-{number}", conditions)
        for reason in reasons:
            print(f"SKIP {name}: {reason}")
        total[2] += len(reasons)
        outcome = []
        thread = threading.Thread(target=run_in, args=(place, suites, outcome))
        thread.start()
        started.append((name, thread, outcome))
    for name, thread, outcome in started:
        thread.join()
        total = [a + b for a, b in zip(total, judge(name, outcome, suites))]
    return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpumend", type=Path)
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--only", action="append", metavar="CONDITION", choices=sorted(CONDITIONS))
    parser.add_argument("--suites", default=",".join(QUICK))
    args = parser.parse_args()
    suites, exe = args.suites.split(","), args.gpumend.resolve()
    rounds = [PLACES]
    if args.each or args.only:
        rounds = [{name: [name]} for name in args.only or CONDITIONS]
    total = [0, 0, 0]
    for places in rounds:
        with tempfile.TemporaryDirectory(prefix="gpumend-portable.") as folder:
            os.chmod(folder, 0o755)
            began = time.monotonic()
            counts = run_together(exe, Path(folder), places, suites)
            total = [a + b for a, b in zip(total, counts)]
            print(f"{', '.join(places)}: {time.monotonic() - began:.0f} s", flush=True)
    print("%d passed, %d failed, %d skipped" % tuple(total))
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main())
