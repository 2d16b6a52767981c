"""A machine with GPUs to probe on: a captured tree (tests/trees, tests/causes) that is the root of the
child, with device nodes, this machine's C library, and fake drivers in the places of the real ones.

Making device nodes and changing the root is root's, outside of namespaces of users: elsewhere the cases are
skipped, as they are on another processor than that of the captured trees.
"""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "trees"), str(TESTS / "causes"), str(TESTS / "differential")]
import build  # noqa: E402
import tree  # noqa: E402

RUNTIME = ("ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0")
DRIVER = "550.54.15"
SYSTEM = tree.SYSTEM
SHOW = """#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    const char *cuda = getenv("CUDA_VISIBLE_DEVICES"), *hip = getenv("HIP_VISIBLE_DEVICES");
    printf("cuda=%s hip=%s\\n", cuda ? cuda : "unset", hip ? hip : "unset");
    return 0;
}
"""


def why_not(folder):
    """Why no machine can be made here, or None."""
    if os.uname().machine != "x86_64":
        return "the captured machines are of x86-64"
    node = Path(folder) / "node"
    try:
        os.mknod(node, stat.S_IFCHR, os.makedev(1, 3))
    except OSError as error:
        return f"machines with GPUs are made of device nodes, by root: {error.strerror}"
    node.unlink()
    return None


def system():
    """As many processors as the stage of the CPU will find."""
    return build.system(cores=len(os.sched_getaffinity(0)), flags=build.V2)


def nvidia(count=1):
    """A machine with cards at the addresses that the fake driver gives its own."""
    return build.merged(system(), build.nvidia(DRIVER, *(
        (f"0000:{n + 1:02x}:00.0", 0x2684, "NVIDIA GeForce RTX 4090") for n in range(count))))


def amd():
    node = build.kfd_node(0x300, 0x744c, 110000, 384, 128, 24)
    return build.merged(system(), build.amdgpu(), build.kfd(node),
                        build.amd_gpu("0000:03:00.0", 0x744c, 0xc8, 128, 24), build.amd_nodes(),
                        build.rocm("6.4.0", "gfx1100"))


class Machine:
    def __init__(self, lab, name, parts, install=None):
        self.lab, self.top = lab, lab.folder / "machines" / name
        self.tree = tree.Tree(self.top)
        self.tree.machine(parts)
        if install:
            install(self.tree)
        self.nodes()
        self.runtime()

    def nodes(self):
        listed = self.top / ".gpumend-nodes"
        for line in listed.read_text().splitlines():
            path, _, major, minor, mode, uid, gid, _ = line.split()
            node = self.top / path.lstrip("/")
            node.parent.mkdir(parents=True, exist_ok=True)
            os.mknod(node, stat.S_IFCHR | int(mode, 8), os.makedev(int(major), int(minor)))
            os.chmod(node, int(mode, 8))
            os.chown(node, int(uid), int(gid))
        listed.unlink()

    def runtime(self):
        """The C library of this machine, the executable, a program to start."""
        self.tree.loader()
        for name in RUNTIME:
            target = self.top / SYSTEM.lstrip("/") / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(f"{SYSTEM}/{name}"), target)
        shutil.copy(self.lab.exe, self.top / "gpumend")
        (self.top / "show.c").write_text(SHOW)
        subprocess.run(["cc", "-o", self.top / "show", self.top / "show.c"], check=True)
        (self.top / "tmp").mkdir(exist_ok=True)

    def put_fake(self, path, made):
        """A fake library in the place of a file of the tree."""
        target = self.top / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink() or target.exists():
            target.unlink()
        shutil.copy(os.path.realpath(made), target)

    def drivers(self):
        folder = "/usr/lib/x86_64-linux-gnu"
        self.put_fake(f"{folder}/libcuda.so.{DRIVER}", self.lab.driver() / "libcuda.so.1")
        self.put_fake(f"{folder}/libnvidia-ml.so.{DRIVER}", self.lab.nvml() / "libnvidia-ml.so.1")
        return self

    def run(self, *arguments, table="", **variables):
        (self.top / "table").write_text(table + "\n")
        env = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "FAKE_GPU_TABLE": "/table", **variables}
        return subprocess.run(["/gpumend", *arguments], env=env, timeout=180, check=False,
                              preexec_fn=lambda: (os.chroot(self.top), os.chdir("/")), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              errors="backslashreplace")
