#!/usr/bin/env python3
"""The suites in which the loader decides, in root file systems of other systems with other C libraries.

    tests/machines/roots.py GPUMEND [--only SYSTEM]... [--suite SUITE]... [--worlds N]

Each system of SYSTEMS is a root file system that mmdebstrap makes once, in the cache of the tests; its
suites run in an overlay upon it, with the executable as it is:

- worlds: random worlds, and the stored ones, against the system's own loader (tests/differential);
- machine: programs and libraries of the system itself;
- musl: worlds of programs for musl, listed by the system's musl;
- trace, guard: `run --trace` and `run --guard-teardown` on programs that the system's compiler makes;
- scenarios: Python environments with few wheels, for the system's Python;
- alone: a root with nothing but musl's loader, programs for it, and the executable.

Then a table, with the reason of everything that was skipped. It needs root, mmdebstrap, and for the scenarios
a package index.
"""
import argparse
import collections
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("GPUMEND_CACHE", Path.home() / ".cache/gpumend"))
SYSTEMS = {"bullseye": "Debian 11", "bookworm": "Debian 12", "trixie": "Debian 13", "sid": "Debian sid"}
PACKAGES = "python3,python3-venv,python3-jsonschema,gcc,g++,libc6-dev,musl-tools,strace"
SUITES = {
    "worlds": "tests/differential/worlds.py --gpumend {exe} --count {worlds} --keep /kept",
    "machine": "tests/differential/machine.py --gpumend {exe} --limit 300",
    "musl": "tests/differential/worlds.py --gpumend {exe} --start musl --count {worlds} --keep /kept",
    "trace": "tests/watch/trace.py {exe}",
    "guard": "tests/watch/guard.py {exe}",
    "scenarios": "tests/machines/small.py {exe}",
}
SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
REASON = re.compile(r"^SKIP (.*)$|^worlds: (\d+ skipped: .*)$")
INSIDE = ("/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=/root",
          "GPUMEND_CACHE=/cache", "PYTHONDONTWRITEBYTECODE=1")
PLATFORMS = ("manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_28_x86_64")

Row = collections.namedtuple("Row", "system library suite passed failed skipped reasons")


def run(*command, **options):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, stdin=subprocess.DEVNULL, errors="backslashreplace", **options)


def made(name, packages=PACKAGES, kind="machines"):
    """The folder of a system with these packages, which is made where it is not there."""
    base = CACHE / "roots" / f"{kind}-{name}"
    if not base.exists():
        base.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="new-", dir=base.parent) as new:
            done = run("mmdebstrap", "--quiet", "--variant=minbase", "--aptopt=Apt::Install-Recommends \"false\"",
                       "--dpkgopt=force-unsafe-io",
                       "--aptopt=Acquire::Check-Valid-Until \"false\"",    # sid, of a mirror that is behind
                       "--dpkgopt=path-exclude=/usr/share/doc/*", f"--include={packages}", name, f"{new}/root")
            if done.returncode:
                raise OSError(done.stdout.strip()[-300:])
            Path(new, "root").rename(base)
    return base


@contextlib.contextmanager
def system(name, exe, *made_of, parts=("tests", "docs/json")):
    """A root of the system to write into, with parts of the project, the executable and /proc, /sys and /dev."""
    base, cache = made(name, *made_of), CACHE / f"machines-{name}"
    cache.mkdir(parents=True, exist_ok=True)
    mounted = []

    def mount(at, *arguments):
        at.mkdir(exist_ok=True)
        subprocess.run(["mount", *arguments, at], check=True)
        mounted.append(at)

    with tempfile.TemporaryDirectory(prefix="gpumend-root.", dir=base.parent) as folder:
        for part in ("upper", "work"):
            Path(folder, part).mkdir()
        root = Path(folder, "root")
        try:
            mount(root, "-t", "overlay", "overlay", "-o", f"lowerdir={base},upperdir={folder}/upper,workdir={folder}/work")
            mount(root / "proc", "-t", "proc", "proc")
            mount(root / "sys", "--bind", "/sys")
            mount(root / "dev", "--bind", "/dev")
            mount(root / "cache", "--bind", cache)
            for part in parts:
                shutil.copytree(TOP / part, root / "project" / part, symlinks=True)
            shutil.copy(exe, root / "project/gpumend")
            yield root
        finally:
            for at in reversed(mounted):
                subprocess.run(["umount", "--lazy", at], check=False)


def inside(root, *command, **options):
    return run("chroot", root, *INSIDE, "sh", "-c", 'cd /project && exec "$@"', "sh", *command, **options)


def of_output(done):
    """(passed, failed, skipped, reasons) of a suite's output."""
    lines = done.stdout.splitlines() or [""]
    found = SUMMARY.match(lines[-1])
    if not found:
        return 0, 1, 0, [f"no sum: {done.stdout[-300:]}"]
    counts = [int(n or 0) for n in found.groups()]
    if done.returncode and not counts[1]:
        counts[1] = 1
    return *counts, [m.group(1) or m.group(2) for m in map(REASON.match, lines) if m]


def fetch_wheels(name, root):
    """What the scenarios of the system's Python need, into its cache; what cannot be had is skipped there."""
    version = inside(root, "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").stdout.strip()
    into = CACHE / f"machines-{name}/wheels"
    into.mkdir(exist_ok=True)
    for wanted in inside(root, "python3", "tests/machines/small.py", "--wheels").stdout.split():
        stem = re.sub(r"[-.]+", "_", wanted.split("==")[0]).lower() + "-" + wanted.split("==")[1]
        if any(p.name.lower().startswith(stem) for p in into.glob("*.whl")):
            continue
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", into,
            "--python-version", version, *(f"--platform={p}" for p in PLATFORMS), wanted)


def alone(root):
    """Programs for musl in a root with its loader and nothing else: what they do, and what is said of it."""
    top = root / "musl"
    for part in ("lib", "bin", "proc", "dev", "tmp"):
        (top / part).mkdir(parents=True)
    loader = "lib/ld-musl-x86_64.so.1"
    shutil.copy(root / loader, top / loader)
    shutil.copy(root / "project/gpumend", top / "gpumend")
    (top / "x.c").write_text("int x(void) { return 7; }\n", encoding="utf-8")
    (top / "main.c").write_text("int x(void); int main(void) { return x(); }\n", encoding="utf-8")
    made_here = inside(root, "sh", "-ec",
                       "cd /musl; musl-gcc -shared -fPIC -Wl,-soname,libx.so.1 x.c -o lib/libx.so.1;"
                       "mkdir app; mv lib/libx.so.1 app;"
                       "musl-gcc main.c app/libx.so.1 -Wl,-rpath,/app -o bin/whole;"
                       "musl-gcc main.c app/libx.so.1 -o bin/broken")
    counts, wrong = [0, 0], []

    def check(name, holds, detail):
        counts[0 if holds else 1] += 1
        if not holds:
            wrong.append(f"FAIL alone, {name}: {detail}")

    check("musl-gcc", made_here.returncode == 0, made_here.stdout)
    for name, path, status, verdict in (("whole", "", 7, 0), ("broken", "", 127, 1), ("broken", "/app", 7, 0)):
        env = {"env": {"LD_LIBRARY_PATH": path} if path else {}}
        what = f"{name} with LD_LIBRARY_PATH={path}"
        start = run(shutil.which("chroot"), top, f"/bin/{name}", **env)
        check(f"{what}: its end", start.returncode == status, start)
        said = run(shutil.which("chroot"), top, "/gpumend", "check", f"/bin/{name}", **env)
        check(f"{what}: check", said.returncode == verdict, said)
        why = run(shutil.which("chroot"), top, "/gpumend", "why", "libx.so.1", "--exe", f"/bin/{name}", **env)
        check(f"{what}: why", ("/app/libx.so.1" in why.stdout) == (verdict == 0), why)
        for option in ("--trace", "--guard-teardown"):
            done = run(shutil.which("chroot"), top, "/gpumend", "run", option, "--", f"/bin/{name}", **env)
            check(f"{what}: run {option}", done.returncode == status and "is a musl program" in done.stdout, done)
    return counts[0], counts[1], 0, wrong


def versions(root):
    glibc = inside(root, "python3", "-c", "import os; print(os.confstr('CS_GNU_LIBC_VERSION'))").stdout.strip()
    musl = re.search(r"^Version (\S+)", run("chroot", root, "/lib/ld-musl-x86_64.so.1").stdout, re.M)
    return glibc, f"musl {musl.group(1)}" if musl else "musl"


def rows_of(name, exe, suites, worlds, logs):
    with system(name, exe) as root:
        glibc, musl = versions(root)
        if "scenarios" in suites:
            fetch_wheels(name, root)
        for suite in suites:
            began = time.monotonic()
            if suite == "alone":
                passed, failed, skipped, reasons = alone(root)
                text = "\n".join(reasons)
            else:
                command = SUITES[suite].format(exe="/project/gpumend", worlds=worlds)
                try:
                    done = inside(root, "python3", *command.split(), timeout=1800)
                except subprocess.TimeoutExpired as late:
                    done = subprocess.CompletedProcess(command, 1, str(late))
                passed, failed, skipped, reasons = of_output(done)
                text = done.stdout
            (logs / f"machines-{name}-{suite}.log").write_text(text, encoding="utf-8")
            if (root / "kept").exists():
                shutil.copytree(root / "kept", logs / f"machines-{name}-kept", dirs_exist_ok=True)
            for line in text.splitlines():
                if re.match(r"FAIL|  (start|load|map|preload|main|gpumend|test|expected)|      ours|worlds: seed", line):
                    print(f"{line[:600]} [{SYSTEMS[name]}, {suite}]", flush=True)
            print(f"{SYSTEMS[name]}, {suite}: {passed} passed, {failed} failed, {skipped} skipped "
                  f"({time.monotonic() - began:.0f} s)", flush=True)
            yield Row(SYSTEMS[name], musl if suite in ("musl", "alone") else glibc, suite, passed, failed, skipped,
                      reasons if suite != "alone" else [])


def table(rows):
    print("machine     C library   suite      passed  failed  skipped")
    for row in rows:
        print(f"{row.system:<11} {row.library:<11} {row.suite:<10} {row.passed:>6} {row.failed:>7} {row.skipped:>8}")
        for reason in row.reasons:
            print(f"            skipped: {reason[:150]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("gpumend", type=Path)
    parser.add_argument("--only", action="append", choices=list(SYSTEMS))
    parser.add_argument("--suite", action="append", choices=[*SUITES, "alone"])
    parser.add_argument("--worlds", type=int, default=1000)
    args = parser.parse_args()
    missing = [what for what, have in (("root", os.geteuid() == 0), ("mmdebstrap", shutil.which("mmdebstrap")),
                                       ("an x86-64 processor", os.uname().machine == "x86_64")) if not have]
    if missing:
        print(f"SKIP machines: they need {' and '.join(missing)}\n0 passed, 0 failed, 1 skipped")
        return 0
    logs = args.gpumend.resolve().parent / "test-logs"
    logs.mkdir(exist_ok=True)
    rows, absent = [], 0
    for name in args.only or SYSTEMS:
        try:
            rows += rows_of(name, args.gpumend, args.suite or [*SUITES, "alone"], args.worlds, logs)
        except (OSError, subprocess.SubprocessError) as error:
            absent += 1
            print(f"FAIL {SYSTEMS[name]}: {error}")
    table(rows)
    passed, failed, skipped = (sum(getattr(r, part) for r in rows) for part in ("passed", "failed", "skipped"))
    print(f"{passed} passed, {failed + absent} failed, {skipped} skipped")
    return 1 if failed + absent else 0


if __name__ == "__main__":
    sys.exit(main())
