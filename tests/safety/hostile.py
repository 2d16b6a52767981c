#!/usr/bin/env python3
"""Hostile files in every place where gpumend reads one: a clear line each, never a hang.

Each case runs gpumend on files that are empty, sparse and huge, FIFOs, device nodes, loops of
links, unreadable, misnamed, or too many. It passes when gpumend ends by itself within
5 seconds of processor time, whatever else the machine does, and 60 of the clock
(a crash is a signal, or status 139 and its like), with one of the documented statuses, with
memory below 256 MiB, and with output that a person can read: not empty, no control characters,
UTF-8; as JSON where JSON was asked for. Where the hostile file is what the question was about, the
output must name it, and the status must not be 0 ("nothing wrong").

    tests/safety/hostile.py [--files N] [--many] GPUMEND

N is the size of the folder of many files (200000; a million takes some minutes to create). --many:
only names, deep folders and the folder of many files.
"""

import argparse
import json
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tree

SECONDS = 5  # of processor time
CLOCK_SECONDS = 60
MEMORY_KIB = 256 << 10
NOBODY = 65534
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
SPARSE_BYTES = 10 << 30


def empty(path):
    path.touch()


def sparse(path):
    """10 GB of nothing behind an ELF header, so that a reader is tempted to go on."""
    with open(path, "wb") as f:
        f.write(Path("/bin/true").read_bytes()[:64])
        f.truncate(SPARSE_BYTES)


def zeros(path):
    with open(path, "wb") as f:
        f.truncate(SPARSE_BYTES)


def fifo(path):
    os.mkfifo(path)


def device(path):
    """A device that never ends: the node itself where root may make one, else a link to it."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:
        os.symlink("/dev/zero", path)


def link_loop(path):
    os.symlink(path.name, path)


def dangling(path):
    os.symlink("/nowhere/at/all", path)


def unreadable(path):
    shutil.copy("/bin/true", path)
    os.chmod(path, 0)


def folder(path):
    path.mkdir()


def closed_folder(path):
    path.mkdir()
    (path / "inside").touch()
    os.chmod(path, 0)


def text(path):
    path.write_text("/* GNU ld script */\nGROUP ( /lib/libfoo.so.1 )\n" * 200)


def half(path):
    data = Path("/bin/true").read_bytes()
    path.write_bytes(data[:len(data) // 2])


def long_line(path):
    path.write_bytes(b"A" * (8 << 20))


def socket_file(path):
    with socket.socket(socket.AF_UNIX) as s:
        here = os.getcwd()
        os.chdir(path.parent)  # the address has 108 bytes
        try:
            s.bind(path.name)
        finally:
            os.chdir(here)


KINDS = [empty, sparse, zeros, fifo, device, link_loop, dangling, unreadable, folder,
         closed_folder, text, half, long_line, socket_file]


class Tester:
    """Runs gpumend as a user without rights, and counts."""

    def __init__(self, exe, top):
        self.exe, self.top = exe, top
        self.passed = self.failed = 0
        self.slowest = (0.0, "nothing")
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(top), "LC_ALL": "C.UTF-8"}

    def start(self, arguments, env, cwd):
        def limits():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.setsid()
            if os.getuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
        out = open(self.top / "output", "wb+")
        child = subprocess.Popen([str(self.exe), *arguments], env={**self.env, **env}, cwd=cwd,
                                 stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                 preexec_fn=limits)
        return child, out

    def wait(self, child):
        """Returns the wait status, the seconds taken and the peak memory in KiB."""
        started = time.monotonic()
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            took = time.monotonic() - started
            if pid:
                child.returncode = 0  # reaped here
                return status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss
            if took > CLOCK_SECONDS:
                os.kill(child.pid, signal.SIGKILL)
                os.wait4(child.pid, 0)
                child.returncode = 0
                return None, took, 0
            time.sleep(0.002)

    def run(self, name, arguments, statuses=(0, 1, 2, 3), names=None, env=None, cwd=None):
        """One case. `names`: what the output must mention."""
        arguments = [a if isinstance(a, bytes) else os.fsencode(str(a)) for a in arguments]
        child, out = self.start(arguments, env or {}, cwd)
        status, took, memory = self.wait(child)
        out.seek(0)
        output = out.read()
        out.close()
        if took > self.slowest[0]:
            self.slowest = (took, name)
        fault = self.fault(status, took, memory, output, arguments, statuses, names)
        if fault:
            self.failed += 1
            shown = b" ".join(arguments).decode(errors="backslashreplace")
            print(f"FAIL {name}: {fault}\n     gpumend {shown}\n     "
                  + output[-600:].decode(errors="backslashreplace").replace("\n", "\n     "))
        else:
            self.passed += 1

    @staticmethod
    def fault(status, took, memory, output, arguments, statuses, names):
        if status is None:
            return f"still running after {CLOCK_SECONDS} s"
        if took > SECONDS:
            return f"took {took:.1f} s of processor time"
        if os.WIFSIGNALED(status):
            return f"killed by signal {os.WTERMSIG(status)}"
        code = os.WEXITSTATUS(status)
        if code not in statuses:
            return f"status {code} instead of {' or '.join(map(str, statuses))}"
        if memory > MEMORY_KIB:
            return f"took {memory >> 10} MiB of memory"
        if not output.strip():
            return "said nothing"
        plain = COLOUR.sub(b"", output)
        if b"--json" in arguments:
            plain = plain.replace(b"\x7f", b"")  # DEL may stand in JSON as it is (RFC 8259, 7)
        if CONTROL.search(plain):
            return "control characters in the output"
        try:
            said = plain.decode("utf-8")
        except UnicodeDecodeError:
            return "the output is not UTF-8"
        if b"--json" in arguments and code in (0, 1):
            try:
                json.loads(said)
            except ValueError as e:
                return f"not JSON: {e}"
        if names and names not in said:
            return f"does not mention {names}"
        return None


def as_argument(t):
    """The hostile file is the thing asked about."""
    for kind in KINDS:
        path = t.top / f"given-{kind.__name__}"
        kind(path)
        name = kind.__name__
        t.run(f"check {name}", ["check", path], (1, 3), path.name)
        t.run(f"check {name} --json", ["check", path, "--json"], (1, 3))
        t.run(f"fix {name}", ["fix", path], (1, 3))
        t.run(f"why --exe {name}, closure", ["why", "--exe", path], (1, 3), path.name)
        t.run(f"why --exe {name}", ["why", "libc.so.6", "--exe", path], (1, 3), path.name)
        t.run(f"why --caller {name}", ["why", "libc.so.6", "--caller", path], (1, 3), path.name)
        t.run(f"why --load {name}", ["why", "libc.so.6", "--exe", "/bin/true", "--load", path],
              (0, 1, 3), path.name)
        t.run(f"why --root {name}", ["why", "libc.so.6", "--exe", "/bin/true", "--root", path],
              (1, 3))
        t.run(f"check --root {name}", ["check", "--root", path], (0, 1, 3))
        t.run(f"why, LD_PRELOAD {name}", ["why", "--exe", "/bin/true", "--env",
                                          f"LD_PRELOAD={path}"])
        t.run(f"why, LD_LIBRARY_PATH {name}",
              ["why", "libfoo.so", "--exe", "/bin/true", "--env", f"LD_LIBRARY_PATH={path}:a:~"],
              (1,))
        t.run(f"why --cwd {name}", ["why", "./libfoo.so", "--exe", "/bin/true", "--cwd", path],
              (1, 3))
        # A list is read like standard input: an empty one has no answer, a pipe is waited for.
        if kind not in (empty, fifo):
            t.run(f"why --batch {name}", ["why", "--batch", path, "--exe", "/bin/true"])
        remove(path)


def remove(path):
    if path.is_dir() and not path.is_symlink():
        os.chmod(path, 0o755)
        shutil.rmtree(path)
    else:
        path.unlink()


def as_piece(t, env):
    """The hostile file stands in an environment, in the place of one that is read there."""
    site = "lib/python3.11/site-packages"
    pieces = ["pyvenv.cfg", "bin/python", f"{site}/links.pth", f"{site}/ctranslate2",
              f"{site}/ctranslate2-4.5.0.dist-info", f"{site}/ctranslate2-4.5.0.dist-info/METADATA",
              f"{site}/ctranslate2-4.5.0.dist-info/RECORD",
              f"{site}/ctranslate2-4.5.0.dist-info/WHEEL",
              f"{site}/ctranslate2/{tree.EXTENSION}",
              f"{site}/ctranslate2.libs/libctranslate2-01234567.so.4",
              f"{site}/nvidia/cudnn/lib/libcudnn.so.9", f"{site}/nvidia/cudnn/lib", site, "lib"]
    for piece in pieces:
        path, aside = env / piece, t.top / "aside"
        for kind in KINDS:
            os.rename(path, aside)
            kind(path)
            t.run(f"check ENV with {kind.__name__} as {piece}", ["check", env], (0, 1, 3))
            t.run(f"fix ENV with {kind.__name__} as {piece}", ["fix", env], (0, 1, 3))
            t.run(f"check ENV --json with {kind.__name__} as {piece}", ["check", env, "--json"],
                  (0, 1, 3))
            remove(path)
            os.rename(aside, path)


def as_system_file(t):
    """The hostile file is the cache or the configuration of a root."""
    root = t.top / "root"
    for part in ("etc/ld.so.conf.d", "usr/lib", "bin", "lib64"):
        (root / part).mkdir(parents=True)
    shutil.copy("/bin/true", root / "bin/true")
    loader = os.path.realpath("/lib64/ld-linux-x86-64.so.2")
    if os.path.exists(loader):
        shutil.copy(loader, root / "lib64/ld-linux-x86-64.so.2")
    for piece in ("etc/ld.so.cache", "etc/ld.so.conf", "etc/ld.so.preload",
                  "etc/ld.so.conf.d/x.conf", "usr/lib/libc.so.6", "bin/true",
                  "lib64/ld-linux-x86-64.so.2", "etc/os-release", "etc"):
        path, aside = root / piece, t.top / "aside"
        for kind in KINDS:
            if path.exists():
                os.rename(path, aside)
            kind(path)
            where = f"{kind.__name__} as {piece}"
            t.run(f"why --root with {where}", ["why", "libc.so.6", "--exe", "/bin/true", "--root",
                                               root], (0, 1, 3))
            t.run(f"check --root with {where}", ["check", "--root", root], (0, 1, 3))
            remove(path)
            if aside.exists():
                os.rename(aside, path)


def as_device_file(t):
    """The hostile file stands where the kernel would describe a GPU, its driver, or the CPU."""
    root = t.top / "devices"
    pieces = {"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
              "sys/bus/pci/devices/0000:01:00.0/device": "0x2684\n",
              "sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n",
              "sys/module/nvidia/version": "550.90.07\n",
              "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module 550.90\n",
              "proc/cpuinfo": "model name : a CPU\nflags : fpu avx2\n",
              "proc/self/environ": "HOME=/x\0", "proc/self/status": "Uid: 1 1 1 1\n",
              ".gpumend-nodes": "/dev/nvidia0 c 195 0 0666 0 0 ok\n"}
    for piece, content in pieces.items():
        (root / piece).parent.mkdir(parents=True, exist_ok=True)
        (root / piece).write_text(content)
    t.run("devices of a tree", ["devices", "--root", root], (0, 1))
    for piece in [*pieces, "sys/bus/pci/devices", "proc"]:
        path, aside = root / piece, t.top / "aside"
        for kind in KINDS:
            os.rename(path, aside)
            kind(path)
            t.run(f"devices with {kind.__name__} as {piece}", ["devices", "--root", root])
            t.run(f"choose with {kind.__name__} as {piece}",
                  ["choose", "--root", root, "--model", "turbo"])
            t.run(f"devices --json with {kind.__name__} as {piece}",
                  ["devices", "--root", root, "--json"])
            remove(path)
            os.rename(aside, path)


def names_and_depth(t, env, files):
    """Names that are not text, folders within folders, and a folder of very many files."""
    site = env / "lib/python3.11/site-packages"
    odd = [b"not-utf8-\xff\xfe.so", b"line\nend.so", b"escape\x1b[31m.so", b"dash -- $(touch x).so",
           b"A" * 255]
    for name in odd:
        path = os.fsencode(t.top) + b"/" + name
        shutil.copy("/bin/true", path)
        shown = name[:12].decode(errors="backslashreplace")
        t.run(f"check {shown!r}", [b"check", path], (0, 1, 3))
        t.run(f"check {shown!r} --json", [b"check", path, b"--json"], (0, 1, 3))
        t.run(f"why {shown!r}", [b"why", path, b"--exe", b"/bin/true"], (0, 1, 3))
        t.run(f"why {shown!r} --json", [b"why", path, b"--exe", b"/bin/true", b"--json"], (0, 1, 3))
        os.unlink(path)
        shutil.copy("/bin/true", os.fsencode(site) + b"/" + name)
    (site / "odd.pth").write_bytes(b"/\xff\xfe\n" + b"x" * 5000 + b"\n\x1b[31m\nimport os\n")
    t.run("check ENV with odd names", ["check", env])
    t.run("check ENV with odd names --json", ["check", env, "--json"])
    t.run("fix ENV with odd names --json", ["fix", env, "--json"])
    t.run("fix ENV with a .pth that stops Python", ["fix", env], (3,))
    os.unlink(site / "odd.pth")

    t.run("a name of 64 KiB", ["why", "x" * (1 << 16), "--exe", "/bin/true"], (1, 2, 3))
    t.run("fix, a path of 100 kB", ["fix", "/" + "x/" * 50000], (2, 3))
    t.run("a path of 100 kB", ["check", "/" + "x/" * 50000], (2, 3))
    t.run("10000 search directories", ["why", "libx.so", "--exe", "/bin/true"], (1,), "libx.so",
          env={"LD_LIBRARY_PATH": ":".join(f"/d{i}" for i in range(10000))})

    here = os.open(site, os.O_RDONLY)  # deeper than a path may be long
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        down = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = down
    os.close(here)
    t.run("check ENV with 3000 folders within folders", ["check", env])
    t.run("fix ENV with 3000 folders within folders", ["fix", env], (0, 1))

    for where, name in ((site / "many", "check ENV"), (site, "check ENV, in site-packages")):
        where.mkdir(exist_ok=True)
        at = os.open(where, os.O_RDONLY)
        for i in range(files // 2):
            os.close(os.open(f"f{i:07}.so", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=at))
        os.close(at)
        t.run(f"{name} with a folder of {files // 2} files", ["check", env])
    t.run("check a folder of many files", ["check", site / "many"], (0, 1, 3))
    t.run("many files on the search path", ["why", "libx.so", "--exe", "/bin/true", "--env",
                                            f"LD_LIBRARY_PATH={site / 'many'}"], (1,), "libx.so")
    t.run("many files as root", ["check", "--root", site / "many"], (0, 1, 3))


def arguments_themselves(t):
    """What is no file at all."""
    for pid in ("0", "-1", "999999999", "99999999999999999999", "x", ""):
        t.run(f"check --pid {pid!r}", ["check", "--pid", pid], (2, 3))
    t.run("check --pid 1", ["check", "--pid", "1"], (0, 1, 3))
    t.run("check, empty name", ["check", ""], (2, 3))
    t.run("why, empty name", ["why", "", "--exe", "/bin/true"], (1, 2, 3))
    t.run("an unknown option", ["check", "--no-such-option"], (2,), "--no-such-option")
    t.run("an unknown command", ["chekc"], (2,), "chekc")
    t.run("explain, unknown cause", ["explain", "no-such-cause"], (2, 3), "no-such-cause")
    t.run("no arguments", [], (2,))


def logs(t):
    """What a log can hold: explain ends, says something, and takes neither all time nor all memory."""
    log = t.top / "log"

    def explain(name, data, statuses=(0, 1, 3), shown=None):
        log.write_bytes(data)
        t.run(f"explain, {name}", ["explain", log], statuses, shown)
        t.run(f"explain --json, {name}", ["explain", log, "--json"], statuses, shown)

    crash = b"Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9}"
    explain("empty", b"", (3,))
    explain("a byte", b"\xff", (3,))
    explain("zeros", bytes(1 << 20), (3,))
    explain("64 MiB in one line", crash + b"x" * (64 << 20), (1,), "libcudnn_ops")
    explain("64 MiB of one letter before it", b"x" * (64 << 20) + crash, (1,), "libcudnn_ops")
    explain("the same in one line, again and again", crash * (1 << 18), (0, 1, 3))
    explain("escapes within escapes", b"\x1b[\x1b]0;\x1b[1;" * (1 << 20) + crash)
    explain("an escape without end", b"\x1b]0;" + b"a" * (8 << 20) + crash)
    explain("carriage returns", b"10%\r" * (1 << 20) + crash + b"\n", (1,), "libcudnn_ops")
    explain("UTF-16 cut in the middle", (b"\xff\xfe" + crash.decode().encode("utf-16-le"))[:-1], (1, 3))
    explain("a surrogate alone", b"\xff\xfe\x00\xd8\x00\xd8a\x00" * 1000)
    explain("JSON within JSON", b"{" + b'"a":{' * 5000 + b"}" * 5001 + b"\n" + crash)
    explain("JSON that is none", (b'{"log": "' + b"\\\\u00" * 4000 + b"\n") * 200 + crash)
    explain("a list of packages without end", b"Package Version\n" + b"torch 2.1.0\n" * 300000)
    explain("braces", b"Unable to load any of {" * 100000)
    explain("words that make expressions try again and again",
            (b"error " + b"lib" * 600 + b".so" * 600 + b" version `GLIBC_" + b"2." * 900
             + b" not found cannot open shared object file: CUDA error: " + b"a-" * 900 + b"\n") * 300)
    t.run("explain, 20000 files that are not there", ["explain", *["/nowhere/x"] * 20000], (3,))
    t.run("explain a folder", ["explain", t.top], (3,))
    t.run("explain, a text of 100 kB", ["explain", "--", "x" * 100000], (3,))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=200000)
    parser.add_argument("--many", action="store_true")
    parser.add_argument("gpumend", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpumend-hostile.", ignore_cleanup_errors=True) as top:
        os.chmod(top, 0o777)
        exe = Path(top) / "gpumend"  # where a user without rights can reach it
        shutil.copy(args.gpumend, exe)
        exe.chmod(0o755)
        t = Tester(exe, Path(top))
        env = tree.environment(t.top / "env")
        os.chmod(env, 0o755)
        if not args.many:
            arguments_themselves(t)
            logs(t)
            as_argument(t)
            as_piece(t, env)
            as_system_file(t)
            as_device_file(t)
        names_and_depth(t, env, args.files)
        subprocess.run(["rm", "-rf", "--", str(env)], check=False)
    print(f"slowest: {t.slowest[0]:.2f} s, {t.slowest[1]}")
    print(f"{t.passed} passed, {t.failed} failed")
    return 1 if t.failed else 0


if __name__ == "__main__":
    sys.exit(main())
