#!/usr/bin/env python3
"""What is built for aarch64 is whole, and runs: the executable and the C library, under qemu's user mode.

    tests/machines/aarch64.py GPUMEND BUILD

BUILD is the folder of the cross build, which is set up and built here (`make aarch64`); GPUMEND is the
executable of this machine. Every file is hardened as this machine's is, and its segments are aligned to
64 KiB, the largest page of an aarch64 kernel. The executable runs with pages of 4, 16 and 64 KiB, and says
of captured trees, byte for byte, what this machine's says: a verdict does not depend on the machine that
gives it. A program that is linked with either C library runs.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
for folder in ("tests/safety", "tests/trees", "tests/differential", "tests/causes"):
    sys.path.insert(0, str(TOP / folder))
import elfgen  # noqa: E402
import hardening  # noqa: E402
import tree  # noqa: E402
from build import write  # noqa: E402
from machines import MACHINES  # noqa: E402

CROSS, QEMU = "aarch64-linux-gnu-gcc", "qemu-aarch64-static"
SYSROOT = Path(os.environ.get("GPUMEND_CACHE", Path.home() / ".cache/gpumend")) / "roots/sysroot-arm64"
PAGES = (4096, 16384, 65536)
TREES = ("a100-mig", "mi210", "arc-a770", "jetson-orin", "wsl-good")
USES = """
#include <gpumend.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    (void)argc;
    gm_context *gm = gm_new();
    struct gm_target t;
    struct gm_check c;
    memset(&t, 0, sizeof t);
    t.size = sizeof t;
    t.root = argv[1];
    t.path = argv[2];
    int rc = gm_check(gm, &t, &c);
    printf("%d %d %s\\n", rc, rc < 0 ? -1 : (int)c.verdict, c.n_findings ? c.findings[0].cause : "none");
    gm_free(gm);
    return 0;
}
"""

counts = {"passed": 0, "failed": 0, "skipped": 0}


def check(name, holds, detail=""):
    counts["passed" if holds else "failed"] += 1
    if not holds:
        print(f"FAIL {name}: {str(detail)[-1500:]}")


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, timeout=600,
                          stdin=subprocess.DEVNULL, **options)


def built(exe, build):
    """Whether the cross build is there; what went wrong is a failure."""
    if not (build / "build.ninja").exists():
        done = run(TOP / "scripts/aarch64", exe.parent, build)
        if done.returncode != 0:
            check("the build folder is set up", False, done.stdout + done.stderr)
            return False
    done = run("ninja", "-C", build, "gpumend", "installed")
    check("it compiles, without a warning", done.returncode == 0 and "warning:" not in done.stdout,
          done.stdout + done.stderr)
    return done.returncode == 0


def of_files(_exe, build, _folder):
    library = next(p for p in (build / "src/api").glob("libgpumend.so.*.*.*") if p.is_file())
    for path in (build / "gpumend", library, *(build / name for name in hardening.HELPERS)):
        head = run("readelf", "-hW", path).stdout
        check(f"{path.name} is for aarch64", re.search(r"Machine: +AArch64", head), head)
        for name, holds in hardening.properties(path):
            check(f"{path.name}: {name}", holds)
        loads = re.findall(r"^ +LOAD .* (0x[0-9a-f]+)$", run("readelf", "-lW", path).stdout, re.M)
        check(f"{path.name}: segments fit pages of 64 KiB",
              loads and all(int(size, 16) >= 65536 for size in loads), loads)


def of_helpers(_exe, build, _folder):
    """What `run` puts into a program brings all that it calls: the loader refuses it otherwise."""
    for path in sorted((build / "src/inject").glob("gpumend-*.so")):
        missing = re.findall(r"^ +U (.*)$", run("aarch64-linux-gnu-nm", "-D", "--undefined-only", path).stdout, re.M)
        check(f"{path.name}: nothing is undefined", not missing, missing)
    check("three helpers", len(list((build / "src/inject").glob("gpumend-*.so"))) == 3)


def of_pages(exe, build, _folder):
    wanted = run(exe, "kb", "which driver does CUDA 12.4 need").stdout
    for size in PAGES:
        for command, answer in (("--version", run(exe, "--version").stdout),
                                ("kb which driver does CUDA 12.4 need", wanted)):
            done = run(QEMU, "-p", size, build / "gpumend", *command.split(" ", 1))
            check(f"pages of {size}: {command}", done.returncode == 0 and answer and done.stdout == answer,
                  (done.returncode, done.stdout, done.stderr))


def environment(folder, machine):
    """A tree with a program that finds its library, and one that does not; nothing in /proc says which
    processor the machine has."""
    t = tree.Tree(folder)
    interp, machine, loader = {
        "x86_64": (tree.LOADER, elfgen.X86_64, Path(tree.LOADER)),
        "aarch64": ("/lib/ld-linux-aarch64.so.1", elfgen.AARCH64, SYSROOT / "lib/ld-linux-aarch64.so.1")}[machine]
    t.put(interp, loader.resolve().read_bytes())
    t.put("/proc/cpuinfo", "processor\t: 0\n")
    t.put("/sys/kernel/notes", "")
    for name, needed in (("whole", "libx.so.1"), ("broken", "libnowhere.so.1")):
        t.put(f"/opt/app/bin/{name}", tree.elf(None, interp=interp, needed=[needed], runpath="/opt/app/lib",
                                               machine=machine))
    t.put("/opt/app/lib/libx.so.1", tree.elf("libx.so.1", machine=machine))
    t.put("/bin/sh", tree.elf(None, interp=interp, machine=machine))
    return t.top


def of_trees(exe, build, folder):
    def same(name, *arguments):
        answers = [run(*program, *arguments, cwd=folder)
                   for program in ([exe], [QEMU, build / "gpumend"])]
        here, there = ((a.returncode, a.stdout, a.stderr) for a in answers)
        check(f"{name}: the same as on this machine", here == there and here[1], (here, there))
        return answers[0]

    for name in TREES:
        write(MACHINES[name][1], folder / name)
        same(f"devices, {name}", "devices", "--root", name)
        same(f"devices --json, {name}", "devices", "--root", name, "--json")
    for machine in ("x86_64", "aarch64"):
        environment(folder / machine, machine)
        for program in ("whole", "broken"):
            done = same(f"check, {machine}, {program}", "check", "--root", machine, f"/opt/app/bin/{program}")
            check(f"check, {machine}, {program}: built for its machine", "is built for" not in done.stdout, done.stdout)
    log = folder / "log"
    log.write_text("Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops_infer.so.8: "
                   "cannot open shared object file: No such file or directory\n", encoding="utf-8")
    same("explain", "explain", "--json", "log")


def of_library(exe, build, folder):
    (folder / "uses.c").write_text(USES, encoding="utf-8")
    flags = [f"-I{TOP}/include", "-L", build / "src/api", "-o"]
    libraries = ["-ljansson", "-lpcre2-8", "-lzstd", "-lz", "-lm"]
    wanted = run(exe, "check", "--root", folder / "aarch64", "/opt/app/bin/broken")
    check("the tree is broken", wanted.returncode == 1, wanted.stdout)
    cross = [CROSS, f"--sysroot={SYSROOT}", folder / "uses.c"]
    for name, command in (("static", [*cross, *flags, folder / "static", "-static",
                                      build / "src/api/libgpumend.a", *libraries]),
                          ("shared", [*cross, *flags, folder / "shared", "-lgpumend",
                                      f"-Wl,-rpath,{build}/src/api", "-Wl,--allow-shlib-undefined"])):
        done = run(*command)
        check(f"{name}: linked", done.returncode == 0, done.stderr)
        for program in ("whole", "broken"):
            done = run(QEMU, "-L", SYSROOT, folder / name, folder / "aarch64", f"/opt/app/bin/{program}")
            words = done.stdout.split()
            check(f"{name}: gm_check() of a {program} program", done.returncode == 0 and len(words) == 3 and
                  words[0] == "0" and (words[2] == "none") == (program == "whole"), (done.stdout, done.stderr))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    exe, build = (Path(a).resolve() for a in sys.argv[1:])
    missing = [tool for tool in (CROSS, QEMU) if not shutil.which(tool)]
    if not SYSROOT.exists() and not shutil.which("mmdebstrap"):
        missing.append("mmdebstrap")
    if missing:
        print(f"SKIP aarch64: there is no {', '.join(missing)}")
        counts["skipped"] += 1
    elif built(exe, build):
        with tempfile.TemporaryDirectory(prefix="gpumend-aarch64.") as folder:
            for part in (of_files, of_helpers, of_pages, of_trees, of_library):
                part(exe, build, Path(folder))
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
