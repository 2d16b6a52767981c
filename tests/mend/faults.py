#!/usr/bin/env python3
"""Repairs that are killed, or fail, at every system call that changes something.

    tests/mend/faults.py [--show] GPUMEND

Each way of acting (links, the start-up hook, a RUNPATH, packages by an installer) is carried out on
a small environment once under strace, which counts the calls that change something. Then, once for
each of these calls: the process is killed there; the call fails from there on; it fails once, with
another error. After each the next `fix --undo`, or the next `--apply` and then `--undo`, has to
leave the tree as it was: content, mode, owner, times, links, attributes. The same for `--undo` that
is killed and called again. Needs strace.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "causes")]
import state  # noqa: E402
import tree  # noqa: E402

ALWAYS = ("mkdirat mkdir renameat renameat2 rename linkat link symlinkat symlink unlinkat unlink "
          "rmdir pwrite64 ftruncate fchmod fchmodat fchown fchownat utimensat fsync fdatasync syncfs "
          "fsetxattr copy_file_range flock clone fork vfork").split()
OPENS = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
CALL = re.compile(r"^(\w+)\((.*)$")
FAIL = {"pwrite64": ("ENOSPC", "EIO"), "write": ("ENOSPC", "EIO"), "openat": ("ENOSPC", "EROFS"),
        "mkdirat": ("ENOSPC", "EROFS"), "renameat": ("EIO", "EROFS"), "renameat2": ("EIO", "EROFS"),
        "linkat": ("ENOSPC", "EPERM"), "symlinkat": ("ENOSPC",), "unlinkat": ("EIO", "EROFS"),
        "fsync": ("EIO",), "fdatasync": ("EIO", "ENOSPC"), "syncfs": ("EIO",), "utimensat": ("EROFS",),
        "ftruncate": ("EIO",), "fchmod": ("EROFS",), "fchown": ("EPERM",),
        "copy_file_range": ("ENOSPC", "EXDEV"), "clone": ("EAGAIN",), "flock": ("EIO",)}
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
NEXT_APPLY_EVERY = 5
KINDS = ("packages", "edit", "hook", "link")

# An installer that does what they do: removes, replaces, rewrites in place, adds, leaves bytecode.
INSTALLER = """#!/bin/sh
set -e
[ "$1" = pip ]
cd "$(dirname "$4")/../lib/python3.11/site-packages"
rm -r ctranslate2-4.5.0.dist-info
mkdir -p ctranslate2-4.8.5.dist-info ctranslate2/__pycache__ added/deep
cp METADATA.new ctranslate2-4.8.5.dist-info/METADATA
: > ctranslate2-4.8.5.dist-info/RECORD
rm ctranslate2.libs/libcudnn*
echo replaced > ctranslate2/__init__.py.tmp
mv ctranslate2/__init__.py.tmp ctranslate2/__init__.py
echo more >> some.pth
rm gone
ln -s nowhere gone
echo x > added/deep/file
chmod 600 ctranslate2
: > ctranslate2/__pycache__/__init__.cpython-311.pyc
"""


class Wrong(Exception):
    pass


def run(command):
    return subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, errors="backslashreplace", timeout=120, env=ENVIRONMENT,
                          cwd="/")


class Scenario:
    """A tree, and the command that changes it."""

    def __init__(self, exe, folder, kind):
        self.exe, self.kind = exe, kind
        self.alone = kind in ("link", "hook")  # it starts no other process
        self.top = folder / kind
        t = tree.Tree(self.top)
        t.python().ctranslate2("4.5.0" if kind == "packages" else "4.8.5")
        if kind != "packages":
            t.pip_cublas()
        self.tree, self.settings = t, []
        self.prefix = t.real(t.prefix)
        self.target = [self.prefix] if kind == "packages" else ["--root", self.top, t.prefix]
        getattr(self, "prepare_" + kind)()
        for path in [self.prefix, *self.prefix.rglob("*")]:  # times of long ago, nanoseconds and all
            os.utime(path, ns=(1600000000123456789, 1500000000987654321), follow_symlinks=False)
        self.way = self.number_of_way()
        self.before = state.state(self.prefix)

    def prepare_link(self):
        """Nothing more is needed."""

    prepare_hook = prepare_link

    def prepare_edit(self):
        """patchelf wants an object that a linker wrote."""
        library = next(self.tree.real(self.tree.site).glob("ctranslate2.libs/libct*"))
        code = '__asm__(".section .nv_fatbin,\\"a\\"\\n.long 0\\n.previous"); '  # a build for CUDA
        library.write_bytes(tree.compiled(code + "int here(void); int here(void) { return 1; }",
                                          "-Wl,-soname," + library.name))

    def prepare_packages(self):
        site = self.tree.real(self.tree.site)
        shutil.rmtree(next(site.glob("pip-*")))
        (site / "some.pth").write_text("before\n")
        (site / "gone").write_text("a file\n")
        (site / "METADATA.new").write_text(
            "Metadata-Version: 2.1\nName: ctranslate2\nVersion: 4.8.5\n")
        uv = self.top / "uv/uv"
        uv.parent.mkdir()
        uv.write_text(INSTALLER)
        uv.chmod(0o755)
        self.settings = ["--env", "PATH=%s:/usr/bin:/bin" % uv.parent]

    def number_of_way(self):
        document = json.loads(run([self.exe, "fix", *self.target, *self.settings, "--json"]).stdout)
        for i, way in enumerate(document["ways"], 1):
            if any(s["kind"] == self.kind for s in way["steps"]):
                return str(i)
        raise Wrong("no way with a step of kind %s" % self.kind)

    def apply(self):
        if self.kind == "hook":
            return [self.exe, "enable", *self.target]
        return [self.exe, "fix", *self.target, *self.settings, "--apply", "--packages",
                "--select", self.way]

    def undo(self):
        return [self.exe, "fix", *self.target, "--undo"]

    def changed(self):
        return state.differences(self.before, state.state(self.prefix))

    def restore(self):
        """After a point that failed: as before, by other means."""
        shutil.rmtree(self.prefix)
        subprocess.run(["cp", "-a", str(self.top / "copy"), str(self.prefix)], check=True)
        self.before = state.state(self.prefix)

    def keep(self):
        subprocess.run(["cp", "-a", str(self.prefix), str(self.top / "copy")], check=True)


def changing_calls(command, trace):
    """[(name, n)]: the n-th call of that name changes something."""
    run(["strace", "-s", "0", "-o", trace, *command])
    counts, found = collections.Counter(), []
    for line in trace.read_text(errors="backslashreplace").splitlines():
        call = CALL.match(line)
        if not call:
            continue
        name, rest = call.groups()
        counts[name] += 1
        to_output = name == "write" and re.match(r"[12],", rest)
        if name in ALWAYS or (name == "write" and not to_output) or (
                name == "openat" and OPENS.search(rest)):
            found.append((name, counts[name]))
    return found


def injected(command, name, how, alone):
    fast = ["-f", "--seccomp-bpf"] if alone else []  # counts in child processes too
    return run(["strace", *fast, "-o", "/dev/null", "-e", "trace=" + name, "-e",
                "inject=%s:%s" % (name, how), *command])


def recover(scenario, i):
    """The next call: now and then a repair from the start, which is then taken back."""
    if i % NEXT_APPLY_EVERY == 1:
        done = run(scenario.apply())
        if done.returncode not in (0, 1, 3) or "another" in done.stderr:
            raise Wrong("the next --apply: %d %s" % (done.returncode, done.stderr))
    done = run(scenario.undo())
    nothing_left = done.returncode == 3 and "nothing was applied to" in done.stdout
    if done.returncode != 0 and not nothing_left:
        raise Wrong("--undo: status %d: %s" % (done.returncode, done.stderr.strip()))


def point(scenario, command, name, how, i, allowed=()):
    """Tries one point; returns what is wrong, or None."""
    wrong = None
    try:
        done = injected(command, name, how, scenario.alone)
        if "signal" not in how and done.returncode not in (0, 1, 2, 3):
            raise Wrong("ended with %d: %s" % (done.returncode, done.stderr[-300:]))
        mute = name == "write" and how.endswith("+")  # nor can anything be said
        said = done.stderr + done.stdout
        if "error" in how and not mute and done.returncode not in (0, 1) and not said:
            raise Wrong("status %d, and nothing was said" % done.returncode)
        recover(scenario, i)
        differences = [d for d in scenario.changed() if d not in allowed]
        if differences and not (allowed and only_time_of_prefix(differences)):
            raise Wrong("; ".join(differences[:4]))
    except Wrong as fault:
        wrong = str(fault)
    if wrong or scenario.changed():
        scenario.restore()
    return wrong


def only_time_of_prefix(differences):
    """The one gap (docs/mend.md): the folder of journals is gone, the time is not set back yet."""
    return len(differences) == 1 and re.fullmatch(r"\.: \d+ -> \d+", differences[0]) is not None


def faults(scenario, trace):
    """Yields (label, wrong) for each point of a scenario."""
    i = 0
    for name, n in changing_calls(scenario.apply(), trace):
        i += 1
        if i == 1:
            recover(scenario, 0)
            if scenario.changed():
                raise Wrong("without any fault: " + "; ".join(scenario.changed()[:4]))
            scenario.keep()
        yield "apply killed at %s %d" % (name, n), point(
            scenario, scenario.apply(), name, "signal=SIGKILL:when=%d" % n, i)
        for error, when in zip(FAIL.get(name, ()), ("%d+" % n, "%d" % n)):
            i += 1
            gap = ("gap",) if name == "utimensat" else ()
            yield "apply, %s %s fails with %s" % (name, when, error), point(
                scenario, scenario.apply(), name, "error=%s:when=%s" % (error, when), i, gap)
    run(scenario.apply())
    calls = changing_calls(scenario.undo(), trace)
    for at, (name, n) in enumerate(calls):
        run(scenario.apply())
        last = at == len(calls) - 1 and name == "utimensat"
        yield "undo killed at %s %d" % (name, n), point(
            scenario, scenario.undo(), name, "signal=SIGKILL:when=%d" % n, 0, ("gap",) * last)


def memory():
    """A folder on a file system without a disk, where syncing takes no time; None: there is none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None


def try_kind(exe, folder, kind, show):
    """Counts and the lines to print."""
    counts, lines = collections.Counter(), []
    if kind == "edit" and not shutil.which("patchelf"):
        return collections.Counter(skipped=1), ["SKIP edit: patchelf is not installed"]
    try:
        for label, wrong in faults(Scenario(exe, folder, kind), folder / (kind + ".trace")):
            counts["failed" if wrong else "passed"] += 1
            if wrong or show:
                lines.append("%s %s: %s%s" % ("FAIL" if wrong else "PASS", kind, label,
                                              ": " + wrong if wrong else ""))
    except Wrong as fault:
        counts["failed"] += 1
        lines.append("FAIL %s: %s" % (kind, fault))
    return counts, [*lines, "%s: %d points" % (kind, counts.total())]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exe", metavar="GPUMEND")
    parser.add_argument("--only", action="append", metavar="KIND")
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    exe = os.path.abspath(args.exe)
    total = collections.Counter()
    if not shutil.which("strace"):
        print("SKIP strace is not installed\n0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="gpumend-faults-", dir=memory()) as folder, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        os.chmod(folder, stat.S_IRWXU)
        for counts, lines in pool.map(
                lambda kind: try_kind(exe, Path(folder), kind, args.show), args.only or KINDS):
            total += counts
            print("\n".join(lines), flush=True)
    print("%d passed, %d failed, %d skipped" % (total["passed"], total["failed"],
                                                total["skipped"]))
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
