"""What the differential tests share: finding the command, compiling hosts, running with limits."""

import json
import os
import shutil
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
GLIBC_MINOR = int(os.confstr("CS_GNU_LIBC_VERSION").split(".")[1])
LOADER = "/lib64/ld-linux-x86-64.so.2"
MUSL_LOADER = "/lib/ld-musl-x86_64.so.1"


def find_gpumend(given):
    """The executable under test: --gpumend, $GPUMEND, or the one in the build folder."""
    path = given or os.environ.get("GPUMEND") or os.path.join(PROJECT, "build", "gpumend")
    if not os.access(path, os.X_OK):
        sys.exit(f"{path}: no executable to test; build it, or name one with --gpumend")
    return os.path.abspath(path)


def private_copy(path, folder):
    """A copy that a rebuild during the run does not replace and that any user may run."""
    copy = os.path.join(folder, "gpumend")
    shutil.copy(path, copy)
    os.chmod(copy, 0o755)
    return copy


def compile_host(source, out, *options, compiler="gcc"):
    """Compiles one of the small C helpers; None when this compiler cannot (no 32-bit libraries)."""
    command = [compiler, "-O1", "-Wall", "-Wextra", "-o", out, os.path.join(HERE, source), *options,
               "-ldl"]     # glibc before 2.34
    done = subprocess.run(command, capture_output=True, text=True)
    return out if done.returncode == 0 else None


def run(command, timeout, env=None, cwd=None, text_input=None, user=None, inside=None):
    """Runs a command and returns (exit status, stdout, stderr); the status is None on time-out.
    `inside`: (root folder, folder below it, user) of a command that runs in another root."""
    options = {"user": user, "group": user, "extra_groups": []} if user is not None else {}
    if inside:
        options["preexec_fn"] = lambda: _enter(*inside)
    try:
        done = subprocess.run(command, env=env, cwd=cwd, timeout=timeout, capture_output=True,
                              stdin=subprocess.DEVNULL if text_input is None else None,
                              input=text_input, **options)
    except subprocess.TimeoutExpired:
        return None, b"", b""
    except OSError as error:
        return 126, b"", str(error).encode()
    return done.returncode, done.stdout, done.stderr


def _enter(top, cwd, user):
    os.chroot(top)
    os.chdir(cwd)
    if user is not None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)


def whole_last_page(raw, page):
    """The loader `raw` with a last segment that ends where its last page ends. A kernel maps that page whole, and the
    loader keeps texts in the rest of it. qemu's user mode maps it as well, but knows of it only up to the
    next 4 KiB, and refuses a system call that names an address behind them (EFAULT; docs/machines.md)."""
    raw, at, load = bytearray(raw), 0, 1
    start, size, count = struct.unpack_from("<Q", raw, 32)[0], *struct.unpack_from("<HH", raw, 54)
    for header in range(start, start + size * count, size):
        at = header if struct.unpack_from("<I", raw, header)[0] == load else at
    address, memory = struct.unpack_from("<Q", raw, at + 16)[0], struct.unpack_from("<Q", raw, at + 40)[0]
    struct.pack_into("<Q", raw, at + 40, -(-(address + memory) // page) * page - address)
    return bytes(raw)


def decode(raw):
    return raw.decode("utf-8", "surrogateescape")


def parse_json(raw):
    try:
        return json.loads(decode(raw))
    except ValueError:
        return None


def closing_line(passed, failed, skipped):
    """Prints the line that the test runner reads and returns the exit status."""
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0
