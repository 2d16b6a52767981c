#!/usr/bin/env python3
"""`gpumend container check` of archives that mean harm: what is said of each, in what time, with what
memory, and that no file of the host is read through them.

    tests/container/hostile.py GPUMEND

Bombs of 50 GiB by gzip and by zstd, ten million entries, sizes that are negative or absurd, archives
and layers that end at every boundary of their structure, links to files of the host; and the progress
on a terminal while a large archive is read.
"""

import gzip
import io
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import several  # noqa: E402
from image import CONFIG, Layer, Parts, header, layout, run, saved, zstd  # noqa: E402
from cdi import check, counts, skip  # noqa: E402

MIB = 1 << 20
GIB = 1 << 30
LIB = "usr/lib/x86_64-linux-gnu"
DAMAGED = "a layer is damaged: "

# The peak counts what the starting process takes until the exec, so a small one starts it.
PEAK = """
import os, sys, time
began = time.monotonic()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(pid, 0)
with open(os.environ["FIGURES"], "w") as file:
    print(os.waitstatus_to_exitcode(status), time.monotonic() - began, used.ru_maxrss, file=file)
"""


def figures(exe, folder, path, target="/app"):
    """Status, seconds, MiB and what was said."""
    place = folder / "figures"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PEAK, str(exe), "container", "check", str(path), target],
        capture_output=True, text=True, errors="replace", timeout=300, check=True,
        env=dict(os.environ, FIGURES=str(place)))
    status, seconds, kib = place.read_text().split()
    return int(status), float(seconds), int(kib) / 1024, done.stdout + done.stderr


def one_sentence(name, status, said, wanted):
    check(f"{name}: cannot tell, in one sentence", status == 3 and said.count("\n") == 1
          and said.startswith("gpumend: container: ") and wanted in said, (status, said[-300:]))


def saved_file(path, layer):
    """The same as saved(), of a layer in a file."""
    manifest = [{"Config": "config.json", "RepoTags": ["app:1"], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        tar.add(layer, "layer.tar")
        for name, document in (("config.json", CONFIG), ("manifest.json", manifest)):
            data = json.dumps(document).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


# ---------------------------------------------------------------- bombs

BOMB_GIB = 50


def bomb_header(name):
    return header(name, raw_size=b"\x80\0\0\0" + (BOMB_GIB << 30).to_bytes(8, "big"))


def gzip_bomb(path, head):
    """The head, and zeros: one block of 64 MiB, which refers to nothing before it, again and again."""
    pack = zlib.compressobj(6, wbits=-15)
    first = pack.compress(head) + pack.flush(zlib.Z_FULL_FLUSH)
    pack = zlib.compressobj(6, wbits=-15)
    zeros = b"".join(pack.compress(bytes(MIB)) for _ in range(64)) + pack.flush(zlib.Z_FULL_FLUSH)
    with open(path, "wb") as file:
        file.write(b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + first)
        for _ in range(BOMB_GIB * 16):
            file.write(zeros)
        file.write(b"\x03\0" + bytes(8))


def zstd_bomb(path, head, window=17):
    """The same, with a window of 2^`window` bytes, in blocks that say one byte and how often (RFC
    8878, 3.1.1.2)."""
    def block(kind, size, last=0):
        return (size << 3 | kind << 1 | last).to_bytes(3, "little")
    zeros = (block(1, 128 << 10) + b"\0") * 8192
    with open(path, "wb") as file:
        file.write(b"\x28\xb5\x2f\xfd\x00" + bytes([(window - 10) << 3]) + block(0, len(head)) + head)
        for _ in range(BOMB_GIB):
            file.write(zeros)
        file.write(block(0, 0, last=1))


def of_bombs(exe, folder, parts):
    plain, program = bomb_header(b"zeros"), bomb_header(b"opt/lib.so") + parts.library[:4096]
    layer, archive = folder / "layer", folder / "image.tar"
    for name, write, head, whole in (
            ("gzip", gzip_bomb, plain, False), ("zstd", zstd_bomb, plain, False),
            ("zstd, as a library", zstd_bomb, program, False),
            ("zstd, as a whole", zstd_bomb, plain, True)):
        write(layer, head)
        if not whole:
            saved_file(archive, layer)
        status, seconds, mib, said = figures(exe, folder, layer if whole else archive)
        one_sentence(f"a bomb by {name}", status, said, "unpacks to more than 4 GiB and 50 times")
        check(f"a bomb by {name}: time and memory", seconds < 60 and mib < 100, (seconds, mib))
    index = folder / "layout"
    layout(index, [Layer().add("a", b"x").bytes()])
    for blob in (index / "blobs/sha256").iterdir():
        if tarfile.is_tarfile(blob):
            shutil.copy(layer, blob)
    status, seconds, mib, said = figures(exe, folder, index)
    one_sentence("a bomb in a layout", status, said, "unpacks to more than 4 GiB and 50 times")


def of_windows(exe, folder, parts):
    """What a frame of zstd wants of memory, it gets up to 128 MiB."""
    for window, most, wanted in ((27, 160, "unpacks to more than"), (28, 32, "too much memory"),
                                 (41, 32, "too much memory")):
        zstd_bomb(folder / "layer", bomb_header(b"zeros"), window)
        saved_file(folder / "image.tar", folder / "layer")
        status, _, mib, said = figures(exe, folder, folder / "image.tar")
        one_sentence(f"a window of 2^{window} bytes", status, said, wanted)
        check(f"a window of 2^{window} bytes: memory", mib < most, mib)


def of_honest_zeros(exe, folder, parts):
    """What is only well compressible is read: 3 GiB of zeros before the application's library."""
    zeros = 3 * GIB
    with subprocess.Popen(["zstd", "-q", "-1", "-o", str(folder / "layer")],
                          stdin=subprocess.PIPE) as pack:
        pack.stdin.write(header(b"zeros", size=zeros))
        for _ in range(zeros // MIB):
            pack.stdin.write(bytes(MIB))
        pack.stdin.write(parts.good().bytes())
        pack.stdin.close()
    saved_file(folder / "image.tar", folder / "layer")
    status, _, mib, said = figures(exe, folder, folder / "image.tar")
    check("zeros that an image may have", status == 0 and mib < 100, (status, mib, said[-300:]))


# ---------------------------------------------------------------- ten million entries

ENTRIES = 10_000_000
DIFFERENT = 520_000


def headers(names):
    """What header() makes of files of no bytes, quickly."""
    base = bytearray(header(b""))
    base[148:156] = b" " * 8
    zero = sum(base)
    for name in names:
        one = bytearray(base)
        one[0:len(name)] = name
        one[148:156] = b"%06o\0 " % (zero + sum(name))
        yield bytes(one)


def many_entries(path):
    same = next(headers([b"usr/share/again"])) * 20000
    repeats = (ENTRIES - DIFFERENT) // 20000
    packed = zstd(same)
    with open(path, "wb") as file, subprocess.Popen(
            ["zstd", "-q", "-1", "-c"], stdin=subprocess.PIPE, stdout=file) as pack:
        block = []
        for one in headers(b"usr/lib/python3/dist-packages/p%04d/__init__%06d.py" % (n // 200, n)
                           for n in range(DIFFERENT)):
            block.append(one)
            if len(block) == 4096:
                pack.stdin.write(b"".join(block))
                block.clear()
        pack.stdin.write(b"".join(block))
        pack.stdin.close()
        pack.wait()
        file.seek(0, os.SEEK_END)
        for _ in range(repeats):
            file.write(packed)
        file.write(zstd(bytes(1024)))


def of_many(exe, folder, parts):
    layer, archive = folder / "layer", folder / "image.tar"
    many_entries(layer)
    saved_file(archive, layer)
    status, seconds, mib, said = figures(exe, folder, archive)
    one_sentence("ten million entries", status, said, "the image has more than 500000 files")
    check("ten million entries: time and memory", seconds < 30 and mib < 256, (seconds, mib))
    status, seconds, mib, said = figures(exe, folder, layer)
    one_sentence("an archive of ten million members", status, said,
                 "its archive has too many members")
    check("an archive of ten million members: time and memory", seconds < 30 and mib < 100,
          (seconds, mib))


# ---------------------------------------------------------------- sizes

SIZES = (
    ("minus one", b"\xff" * 12), ("the least of 64 bits", b"\xff" * 4 + b"\x80" + bytes(7)),
    ("the least there is", b"\xc0" + bytes(11)), ("2^62", b"\x80\0\0\0\x40" + bytes(7)),
    ("2^63 - 1", b"\x80\0\0\0\x7f" + b"\xff" * 7), ("2^64 - 1", b"\x80\0\0\0" + b"\xff" * 8),
    ("2^95 - 1", b"\x80" + b"\xff" * 11), ("8 GiB - 1", b"77777777777\0"),
    ("more digits", b"777777777777"), ("more than is there", b"00000004001\0"))


def open_ended(layer):
    """A layer without its end."""
    end = layer.tar.offset
    return layer.bytes()[:end]


def of_sizes(exe, folder, parts):
    archive = folder / "image.tar"
    body = open_ended(parts.good())
    saved(archive, [body + bytes(1024)])
    good, status = archive.read_bytes(), run(exe, archive, "/app")[0]
    check("sizes: without them it is an image", status == 0, status)
    for name, size in SIZES:
        entry = header(b"a", raw_size=size)
        for form, pack in (("plain", bytes), ("gzip", lambda d: gzip.compress(d, 1)),
                           ("zstd", zstd)):
            saved(archive, [pack(body + entry + bytes(1024))])
            status, out, said = run(exe, archive, "/app")
            one_sentence(f"size {name}, in a layer, {form}", status, out + said, DAMAGED)
            check(f"size {name}, in a layer, {form}: in time", run.seconds < 5, run.seconds)
        for form, pack in (("plain", bytes), ("gzip", lambda d: gzip.compress(d, 1))):
            archive.write_bytes(pack(entry + good))
            status, out, said = run(exe, archive, "/app")
            one_sentence(f"size {name}, before all, {form}", status, out + said, ": ")
            check(f"size {name}, before all, {form}: in time", run.seconds < 5, run.seconds)


# ---------------------------------------------------------------- what ends too early

def boundaries(data):
    """Every place where a part of a tar archive begins or ends, and others in its parts."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar.getmembers():
            for at in (0, 1, 100, 257, 511, 512, 513):
                yield member.offset + at
            end = member.offset_data + member.size
            for at in (end - member.size // 2, end - 1, end, (end + 511) // 512 * 512):
                yield at


def of_saved_cuts(exe, folder):
    """An archive is good once its last member is there; before it lacks what its manifest names."""
    path = folder / "cut.tar"
    for form in ("plain", "gzip", "zstd"):
        data = (folder / f"{form}.tar").read_bytes()
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            last = tar.getmembers()[-1]
        for at in sorted(set(boundaries(data))):
            path.write_bytes(data[:at])
            status, out, said = run(exe, path, "/app")
            if at >= (last.offset_data + last.size + 511) // 512 * 512:
                check(f"{form}, saved, {at} of {len(data)} bytes: all is there", status == 0,
                      (status, said))
            else:
                one_sentence(f"{form}, saved, {at} of {len(data)} bytes", status, out + said, ": ")


def of_layer_cuts(exe, folder, parts):
    """A tar archive of a layer that ends between two entries is one with fewer entries; elsewhere,
    and where its compression does not end, it is damaged."""
    path, data = folder / "cut.tar", parts.good().bytes()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = tar.getmembers()
    library, app = (next(m for m in members if m.name.endswith(n)) for n in ("cublas.so.12", "app"))
    whole = {0} | {(m.offset_data + m.size + 511) // 512 * 512 for m in members}
    for at in sorted(set(boundaries(data))):
        saved(path, [data[:at]])
        status, out, said = run(exe, path, "/app")
        name = f"a layer of {at} bytes"
        if at not in whole:
            # The padding may lack, and of what is not compressed the content is not read here.
            check(name, status == 3 and DAMAGED in said or library.offset_data + library.size <= at
                  and status == 0, (status, said))
        elif at > library.offset:
            check(name, status == 0, (status, said))
        elif at > app.offset:
            check(name, status == 1 and "libcublas.so.12" in out, (status, said))
        else:
            one_sentence(name, status, out + said, "/app" if at else DAMAGED)
    for form, pack in (("gzip", lambda d: gzip.compress(d, 1)), ("zstd", zstd)):
        packed = pack(data)
        places = {1, 2, 3, 4, 5, 6, 9, 10, 11, 18, *(len(packed) * n // 16 for n in range(1, 16)),
                  *(len(packed) - n for n in (1, 4, 8, 9))}
        for at in sorted(places):
            saved(path, [packed[:at]])
            status, out, said = run(exe, path, "/app")
            one_sentence(f"a layer of {at} of {len(packed)} bytes, {form}", status, out + said,
                         DAMAGED)


def of_cuts(exe, folder, parts):
    for form, pack in (("plain", bytes), ("gzip", lambda d: gzip.compress(d, 1)), ("zstd", zstd)):
        saved(folder / f"{form}.tar", [pack(parts.good().bytes())])
    of_saved_cuts(exe, folder)
    of_layer_cuts(exe, folder, parts)


# ---------------------------------------------------------------- links to the host

SECRET = "content-that-only-the-host-has"


def escapes(place):
    """Links that would find the folder `place` of the host, were they followed there: name, kind
    and target of what stands for `name`."""
    up = "../" * 40 + place.lstrip("/")
    for kind in ("symlink", "hardlink"):
        for name, target in (("absolute", place), ("climbing", up),
                             ("through /proc", f"/proc/self/root{place}"),
                             ("through a folder of the image", f"usr/../{up}")):
            yield f"{name} {kind}", kind, target


def traced(exe, folder, archive, *arguments):
    """Status, output and the paths that were asked of the kernel; None without strace."""
    log = folder / "trace"
    command = [str(exe), "container", "check", str(archive), *arguments]
    strace = shutil.which("strace")
    if strace:
        command = [strace, "-f", "-qq", "-e", "trace=%file", "-s", "4096", "-o", str(log), *command]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120,
                          check=False)
    return done.returncode, done.stdout + done.stderr, log.read_text() if strace else None


def of_links(exe, folder, parts):
    outside = folder / "outside-of-the-image"
    outside.mkdir()
    (outside / "libcublas.so.12").write_bytes(parts.library)
    (outside / "text").write_text(SECRET + "\n")
    os.chmod(outside / "libcublas.so.12", 0o755)
    if not shutil.which("strace"):
        skip("links to the host: the kernel's record of what is opened", "there is no strace")
    for name, kind, target in escapes(str(outside)):
        for form, pack in (("plain", bytes), ("gzip", lambda d: gzip.compress(d, 1))):
            one_escape(exe, folder, parts, f"{name}, {form}", kind, target, pack)
    inside = f"{outside}/libcublas.so.12"
    saved(folder / "image.tar", [parts.base().bytes(), Layer().add(inside.lstrip("/"), parts.library)
                                 .symlink(f"{LIB}/libcublas.so.12", inside).bytes()])
    status, said, record = traced(exe, folder, folder / "image.tar", "/app")
    check("the same link, and the image has such a file", status == 0 and "outside-of" not in
          (record or ""), (status, said[-300:]))


def one_escape(exe, folder, parts, name, kind, target, pack):
    archive = folder / "image.tar"
    layer = Layer()
    for place, file in ((f"{LIB}/libcublas.so.12", "libcublas.so.12"), ("etc/ld.so.conf", "text"),
                        ("etc/os-release", "text"), ("opt/venv/pyvenv.cfg", "text"),
                        ("opt/app", "libcublas.so.12")):
        getattr(layer, kind)(place, f"{target}/{file}")
    getattr(layer, kind)("opt/passwd", target.replace(str(folder / "outside-of-the-image"),
                                                      "/etc/passwd"))
    saved(archive, [pack(parts.base().bytes()), pack(layer.bytes())])
    status, said, record = traced(exe, folder, archive, "/app")
    check(f"{name}: the library is missing", status == 1 and "libcublas.so.12" in said,
          (status, said[-300:]))
    for asked in ("/opt/app", "/opt/passwd", "/opt/venv"):
        status, more, opened = traced(exe, folder, archive, asked)
        said, record = said + more, record and record + opened
        check(f"{name}: {asked} cannot be read", status in (1, 3), (status, more[-300:]))
    check(f"{name}: nothing of the host is said", SECRET not in said and "root:x:" not in said,
          said[-300:])
    paths = [line for line in (record or "").splitlines()
             if '"/etc/passwd' in line or "outside-of-the-image" in line]
    check(f"{name}: nothing of the host is opened", not paths and str(archive) in
          (record or str(archive)), paths[:3])


# ---------------------------------------------------------------- progress

def on_terminal(command, output=None, halts=0):
    """What a terminal shows, with standard error on it, and output too or in a file. The process is
    halted so many times, so that it takes its time on every machine."""
    master, slave = pty.openpty()
    with open(output or os.devnull, "wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=slave,
                                   stdout=file if output else slave)
    os.close(slave)
    shown = b""
    for _ in range(halts):
        time.sleep(0.04)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.15)
        process.send_signal(signal.SIGCONT)
    while True:
        try:
            shown += os.read(master, 65536)
        except OSError:     # the other end is closed
            break
    os.close(master)
    return process.wait(), shown.decode(errors="replace")


def slow_layer(path, head):
    """A layer of 192 MiB, gzip, of letters by chance: little can be made of them, and that slowly."""
    letters = os.urandom(32 * MIB).translate(bytes(n & 63 for n in range(256)))
    sum_of, size = 0, 0
    with open(path, "wb") as file:
        file.write(b"\x1f\x8b\x08\0\0\0\0\0\0\xff")
        for data, times in ((head + header(b"letters", size=6 * len(letters)), 1), (letters, 6),
                            (bytes(1024), 1)):
            pack = zlib.compressobj(1, wbits=-15, strategy=zlib.Z_HUFFMAN_ONLY)
            packed = pack.compress(data) + pack.flush(zlib.Z_FULL_FLUSH)
            for _ in range(times):
                file.write(packed)
                sum_of, size = zlib.crc32(data, sum_of), size + len(data)
        file.write(b"\x03\0" + sum_of.to_bytes(4, "little") + size.to_bytes(4, "little"))


def percents(shown):
    return [int(p.split("%")[0]) for p in shown.split("reading the image:")[1:]]


def of_progress(exe, folder, parts):
    large, small = folder / "large.tar", folder / "small.tar"
    slow_layer(folder / "layer", open_ended(parts.base()))
    saved_file(large, folder / "layer")
    saved(small, [parts.base().bytes()])
    command = [str(exe), "container", "check", str(large), "/app"]
    for name, extra, output in (("with text", [], None), ("output in a file", [], folder / "text"),
                                 ("JSON on the terminal", ["--json"], None)):
        began = time.monotonic()
        status, shown = on_terminal(command + extra, output, halts=12)
        took, told = time.monotonic() - began, percents(shown)
        check(f"progress, {name}: in percent, rising", status == 1 and len(told) > 2 and
              told == sorted(told) and told[0] < 80 and 50 < told[-1] <= 100 and
              len(told) <= took * 10 + 1, (status, took, told))
        after = shown.rpartition("reading the image:")[2].partition("%\x1b[K")[2]
        check(f"progress, {name}: erased before anything else", after.startswith("\r\x1b[K"),
              shown[-300:])
    status, shown = on_terminal([*command, "--json"], folder / "json")
    check("progress: none beside JSON in a file", status == 1 and shown == "" and
          json.loads((folder / "json").read_text())["verdict"] == "broken", (status, shown))
    status, shown = on_terminal([str(exe), "container", "check", str(small), "/app"])
    check("progress: none of a small archive", status == 1 and "reading" not in shown, shown)
    status, _, said = run(exe, large, "/app")
    check("progress: none without a terminal", status == 1 and "reading" not in said, said)


def main():
    exe = Path(sys.argv[1]).resolve()
    if os.uname().machine != "x86_64":
        skip("hostile images", "the stand-ins are for x86-64")
    elif not shutil.which("zstd"):
        skip("hostile images", "there is no zstd")
    else:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            parts = Parts(folder)
            for name, part in (("bombs", of_bombs), ("windows", of_windows),
                               ("zeros", of_honest_zeros), ("many", of_many), ("sizes", of_sizes),
                               ("cuts", of_cuts), ("links", of_links), ("progress", of_progress),
                               ("digests", several.of_hostile_digests),
                               ("names", several.of_hostile_names)):
                (folder / name).mkdir()
                part(exe, folder / name, parts)
                shutil.rmtree(folder / name)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
