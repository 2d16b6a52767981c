#!/usr/bin/env python3
"""What `run` puts into programs, and the probe's helper, on aarch64: their suites under qemu's user mode.

    tests/machines/emulated.py BUILD [--suite SUITE]... [--page-size SIZE]

BUILD is the folder of the cross build (`make aarch64`). The suites run in a root file system of Debian's arm64,
which mmdebstrap unpacks once into the cache of the tests, with that system's Python; programs are compiled by the
cross compiler, which runs as it is. The kernel starts programs of aarch64 with qemu by a binfmt_misc of this test's
own, in a namespace of users, so that nothing of the machine is changed.

What qemu's user mode cannot do is listed in EMULATOR, with the reason: a failure that is listed is skipped, and
one that is listed and does not come is a failure, but for those of SOMETIMES. LeakSanitizer, which traces the program's threads, is off.
"""
import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/differential"))

import common  # noqa: E402

CACHE = Path(os.environ.get("GPUMEND_CACHE", Path.home() / ".cache/gpumend"))
CONF, CROSS, QEMU = Path("/usr/lib/binfmt.d/qemu-aarch64.conf"), "aarch64-linux-gnu-g++", "qemu-aarch64-static"
PACKAGES = ("base-files,bash,dash,coreutils,grep,sed,util-linux,libc-bin,python3,python3-venv,python3-jsonschema,"
            "libc6-dev,libstdc++6,libgcc-s1,mawk,findutils,libasan8,libubsan1,passwd")
LOADER = "lib/aarch64-linux-gnu/ld-linux-aarch64.so.1"
# What the cross compiler is made of, and the libraries that it runs with.
COMPILER = ("/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib/gcc-cross", "/usr/aarch64-linux-gnu")
SUITES = {"trace": "tests/watch/trace.py", "guard": "tests/watch/guard.py", "restart": "tests/watch/restart.py",
          "gpucall": "tests/watch/gpucall.py", "probe": "tests/probe/run.py"}
# (suite, pattern of the failure, why)
EMULATOR = (
    ("guard", r"first-leaves[^:]*", "a thread of qemu's own stands in /proc/self/task, so that no process is ever alone"),
    ("guard", r"lib(model|code)\.so: memory", "what qemu has translated of each library counts as the program's memory"),
    ("gpucall", r"system calls are filtered", "qemu has no seccomp, which filters them"),
    ("restart", r"fork with libcudart\.so\.12", "qemu writes a line of its own where a program dies of a signal"),
    ("restart", r"SIGTERM in the delay", "qemu writes a line of its own where a program dies of a signal"),
    ("probe", r"driver: limited", "qemu takes no limit of a program's addresses, which would be its own"),
    ("probe", r"children: without glibc", "qemu has no execveat(), and the root of this case no /proc in its place"),
)
# With pages of 16 and 64 KiB as well.
LARGE_PAGES = (
    ("gpucall", r"ASan, \w+", "the stack is not in qemu's /proc/self/maps, where AddressSanitizer looks for it"),
    ("guard", r"ASan of g\+\+: \w+", "the stack is not in qemu's /proc/self/maps, where AddressSanitizer looks for it"),
)
# What it can do only sometimes.
SOMETIMES = (
    ("guard", r"meet-fork of 64", "the child of a fork waits for a lock of qemu's own that another thread had held"),
)
# What no suite asks there: process_vm_readv, process_vm_writev and seccomp's filters, which qemu does not have.
SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")


def run(*command, **options):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, stdin=subprocess.DEVNULL, errors="backslashreplace", **options)


def made():
    base = CACHE / f"roots/machines-arm64-{hashlib.sha256(PACKAGES.encode()).hexdigest()[:8]}"
    if not base.exists():
        base.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="new-", dir=base.parent) as new:
            done = run("mmdebstrap", "--quiet", "--variant=extract", "--architectures=arm64",
                       "--aptopt=Apt::Install-Recommends \"false\"", "--dpkgopt=force-unsafe-io",
                       f"--include={PACKAGES}", "bookworm", f"{new}/root")
            if done.returncode:
                raise OSError(done.stdout.strip()[-300:])
            Path(new, "root").rename(base)
    return base


def fill(root, exe):
    """The compiler, the tests and the executable; a shell, and folders of every user."""
    for name in ("tests", "docs"):
        shutil.copytree(TOP / name, root / "project" / name, symlinks=True)
    shutil.copy(exe, root / "project/gpumend")
    helper = "src/inject/probe/gpumend-probe-helper"
    (root / "project" / helper).parent.mkdir(parents=True)
    shutil.copy(Path(exe).parent / helper, root / "project" / helper)
    for path in Path("/usr/bin").glob("aarch64-linux-gnu-*"):
        if path.name.endswith(("gcc", "g++", "cpp", "as", "ld", "ld.bfd", "ar", "nm", "ranlib", "collect2")):
            shutil.copy(path, root / "usr/bin" / path.name)
    for name, target in (("gcc", "gcc"), ("g++", "g++"), ("cc", "gcc")):
        (root / "usr/bin" / name).unlink(missing_ok=True)
        (root / "usr/bin" / name).symlink_to(f"aarch64-linux-gnu-{target}")
    for name, target in (("usr/bin/sh", "dash"), ("usr/bin/awk", "mawk")):
        if not (root / name).exists():
            (root / name).symlink_to(target)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n", encoding="utf-8")


def whole_pages(root, size):
    """The system's libraries as qemu knows of them with larger pages: common.whole_last_page, and as long as
    their pages, since it does not map what is behind the end of a file."""
    loader = root / LOADER
    loader.write_bytes(common.whole_last_page(loader.read_bytes(), size))
    for folder in ("lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu"):
        for path in (root / folder).glob("*.so*"):
            if path.is_file() and not path.is_symlink():
                os.truncate(path, -(-path.stat().st_size // size) * size)


def inside(arguments):
    """Within the namespace: mounts, and then the suites."""
    base, folder, exe, pages, *suites = arguments
    root, folder = Path(folder, "root"), Path(folder)
    for part in ("upper", "work", "root"):
        (folder / part).mkdir()

    def mount(at, *words):
        at.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", *words, at], check=True)

    mount(Path("/proc/sys/fs/binfmt_misc"), "-t", "binfmt_misc", "binfmt_misc")
    Path("/proc/sys/fs/binfmt_misc/register").write_bytes(CONF.read_text().strip().encode("ascii"))
    mount(root, "-t", "overlay", "overlay", "-o",
          f"userxattr,lowerdir={base},upperdir={folder}/upper,workdir={folder}/work")
    for name in ("/proc", "/sys", "/dev", *COMPILER):
        mount(root / name[1:], "--rbind", name)
    fill(root, exe)
    if int(pages) > 4096:
        whole_pages(root, int(pages))
    for suite in suites:
        began = time.monotonic()
        try:
            done = run(shutil.which("chroot"), root, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                       "LC_ALL=C.UTF-8", "HOME=/root", "PYTHONDONTWRITEBYTECODE=1", "GPUMEND_TEST_PATIENCE=10",
                       f"QEMU_PAGESIZE={pages}",
                       "ASAN_OPTIONS=detect_leaks=0", "sh", "-c",
                       f"cd /project && exec python3 {SUITES[suite]} /project/gpumend", timeout=7200)
        except subprocess.TimeoutExpired as late:
            done = subprocess.CompletedProcess("", 1, f"{(late.stdout or b'')[-4000:]}\n{late}")
        (folder / f"{suite}.log").write_text(f"{done.stdout}", encoding="utf-8", errors="surrogateescape")
        print(f"{suite}: {time.monotonic() - began:.0f} s", flush=True)
    return 0


def sums(suite, text, pages):
    """(passed, failed, skipped) of a suite, after what qemu cannot do has been taken from its failures."""
    lines = text.splitlines() or [""]
    found = SUMMARY.match(lines[-1])
    if not found:
        print(f"FAIL {suite}: no sum: {text[-600:]}")
        return 0, 1, 0
    passed, failed, skipped = (int(n or 0) for n in found.groups())
    always = {pattern: why for name, pattern, why in EMULATOR + (LARGE_PAGES if pages > 4096 else ())
              if name == suite}
    listed = {**always, **{pattern: why for name, pattern, why in SOMETIMES if name == suite}}
    faults = {}  # by case: a suite counts a case once, however many lines it has for it
    for line in lines:
        if line.startswith("SKIP "):
            print(f"{line} [{suite}]")
        if line.startswith("FAIL "):
            found = next((m for m in (re.search(p, line) for p in listed) if m), None)
            faults.setdefault((found.re.pattern, found[0]) if found else None, []).append(line)
    for line in faults.pop(None, []):
        print(f"{line[:700]} [{suite}]")
    for pattern, case in faults:
        failed, skipped = failed - 1, skipped + 1
        print(f"SKIP {case}: {listed[pattern]} [{suite}]")
    for pattern in always.keys() - {pattern for pattern, _ in faults}:
        failed += 1
        print(f"FAIL {suite}: what qemu cannot do it does: {pattern}")
    if failed < 0:
        print(f"FAIL {suite}: more cases are listed than failed")
        failed = 1
    return passed, failed, skipped


def main():
    if sys.argv[1:2] == ["--inside"]:
        return inside(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--suite", action="append", choices=list(SUITES))
    parser.add_argument("--page-size", type=int, default=4096, choices=(4096, 16384, 65536))
    args = parser.parse_args()
    missing = [what for what, have in (
        ("mmdebstrap", shutil.which("mmdebstrap")), (CROSS, shutil.which(CROSS)), (QEMU, shutil.which(QEMU)),
        (str(CONF), CONF.exists()), (f"{args.build}/gpumend (make aarch64)", (args.build / "gpumend").exists()),
        ("a namespace of users with a binfmt_misc of its own", run(
            "unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "binfmt_misc", "binfmt_misc",
            "/proc/sys/fs/binfmt_misc").returncode == 0)) if not have]
    if missing:
        print(f"SKIP emulated: there is no {', no '.join(missing)}\n0 passed, 0 failed, 1 skipped")
        return 0
    totals = (0, 0, 0)
    base = made()
    with tempfile.TemporaryDirectory(prefix="gpumend-emulated.", dir=base.parent) as folder:
        suites = args.suite or list(SUITES)
        done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", sys.executable, __file__, "--inside",
                               base, folder, (args.build / "gpumend").resolve(), str(args.page_size), *suites],
                              check=False)
        if done.returncode:
            print("FAIL the namespace")
            totals = (0, 1, 0)
        for suite in suites:
            log = Path(folder, f"{suite}.log")
            counts = sums(suite, log.read_text(encoding="utf-8", errors="replace") if log.exists() else "",
                          args.page_size)
            print(f"aarch64, {suite}: {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped")
            totals = tuple(a + b for a, b in zip(totals, counts))
            kept = args.build / "test-logs"
            kept.mkdir(exist_ok=True)
            if log.exists():
                shutil.copy(log, kept / f"emulated-{suite}.log")
        for name in ("upper", "work"):
            subprocess.run(["chmod", "-R", "u+rwx", Path(folder, name)], check=False)
    print("{} passed, {} failed, {} skipped".format(*totals))
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
