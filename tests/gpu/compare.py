#!/usr/bin/env python3
"""What the room gpu reads from real libraries, against independent readings of the same files.

    tests/gpu/compare.py [--build DIR] [--cache DIR] [--cuobjdump EXE] [--all] [--time]

The files are looked for in the cache folder: unpacked wheels in CACHE/store/<name>-<version>, and
wheels in CACHE/wheels and Debian packages in CACHE/debs, whose libraries are unpacked for the time
of the run. A file that is not there is skipped by name. With --all, every library of the store is
compared, not only those of the list.

Readings: the small reader in this file (which looks for the containers' magic in the whole file,
and requires that each wrapper in .nvFatBinSegment points to one that it found; and inflates whole
bundles with the zstd program, where the program inflates a block); cuobjdump (the package nvidia-cuda-cuobjdump), whose counts are
compared for each architecture; and the versions in the wheels' names for the families.
With --time, reading is timed, warm and (where the page cache can be dropped for a file) cold.
"""

import argparse
import glob
import json
import mmap
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent

# Folder or archive in the cache, pattern of files in it, version of the family to be found.
FILES = [
    ("store/torch-2.5.1", "torch/lib/libtorch_cuda.so", None),
    ("store/torch-2.5.1", "torch/lib/libtorch_cuda_linalg.so", None),
    ("store/torch-2.15.0", "torch/lib/libtorch_cuda.so", None),
    ("store/torch-2.15.0", "torch/lib/libtorch_cuda_linalg.so", None),
    ("store/nvidia-cudnn-cu12-9.1.0.70", "nvidia/cudnn/lib/libcudnn_*.so.9", None),
    ("store/nvidia-cudnn-cu13-9.26.0.51", "nvidia/cudnn/lib/libcudnn_*.so.9", None),
    ("store/nvidia-cublas-cu12-12.4.5.8", "nvidia/cublas/lib/libcublas.so.12", None),
    ("store/nvidia-cublas-cu12-12.4.5.8", "nvidia/cublas/lib/libcublasLt.so.12", "cublasLt 12.4.5"),
    ("store/nvidia-cublas-13.4.1.3", "nvidia/cu13/lib/libcublas.so.13", "cublas 13.4.1"),
    ("store/nvidia-cublas-13.4.1.3", "nvidia/cu13/lib/libcublasLt.so.13", "cublasLt 13.4.1"),
    ("store/nvidia-cuda-runtime-cu12-12.4.127", "nvidia/*/lib/libcudart.so.12", "cudart 12.4"),
    ("store/nvidia-cuda-runtime-13.2.86", "nvidia/cu13/lib/libcudart.so.13", "cudart 13.2"),
    ("store/nvidia-cufft-cu12-11.2.1.3", "nvidia/cufft/lib/libcufft.so.11", "cufft 11.2.1"),
    ("store/nvidia-cufft-12.2.0.57", "nvidia/cu13/lib/libcufft.so.12", "cufft 12.2.0"),
    ("store/nvidia-curand-cu12-10.3.5.147", "nvidia/curand/lib/libcurand.so.10", "curand 10.3.5"),
    ("store/nvidia-cusolver-cu12-11.6.1.9", "nvidia/cusolver/lib/libcusolver.so.11",
     "cusolver 11.6.1"),
    ("store/nvidia-cusolver-12.2.0.11", "nvidia/cu13/lib/libcusolver.so.12", "cusolver 12.2.0"),
    ("store/nvidia-cusparse-cu12-12.3.1.170", "nvidia/cusparse/lib/libcusparse.so.12",
     "cusparse 12.3.1"),
    ("store/nvidia-cusparse-12.7.10.12", "nvidia/cu13/lib/libcusparse.so.12", "cusparse 12.7.10"),
    ("store/nvidia-nccl-cu12-2.21.5", "nvidia/nccl/lib/libnccl.so.2", "nccl 2.21.5"),
    ("store/nvidia-nccl-cu13-2.30.7", "nvidia/nccl/lib/libnccl.so.2", "nccl 2.30.7"),
    ("store/nvidia-nvjitlink-cu12-12.4.127", "nvidia/*/lib/libnvJitLink.so.12",
     "nvjitlink 12.4.127"),
    ("store/nvidia-nvjitlink-13.5.37", "nvidia/cu13/lib/libnvJitLink.so.13", "nvjitlink 13.5.37"),
    ("store/onnxruntime-gpu-1.23.2", "onnxruntime/capi/libonnxruntime_providers_cuda.so", None),
    ("store/onnxruntime-gpu-1.23.2", "onnxruntime/capi/libonnxruntime.so.*", "onnxruntime 1.23.2"),
    ("store/onnxruntime-gpu-1.31.1", "onnxruntime/capi/libonnxruntime_providers_cuda.so", None),
    ("store/onnxruntime-gpu-1.31.1", "onnxruntime/capi/libonnxruntime.so.*", "onnxruntime 1.31.1"),
    ("store/ctranslate2-4.5.0", "ctranslate2.libs/libctranslate2-*.so.*", "ctranslate2 4.5.0"),
    ("store/ctranslate2-4.8.5", "ctranslate2.libs/libctranslate2-*.so.*", "ctranslate2 4.8.5"),
    ("wheels/bitsandbytes-0.50.2-*.whl", "bitsandbytes/libbitsandbytes_*.so", None),
    ("wheels/jax_rocm7_plugin-*.whl", "jax_rocm7_plugin/*.so", None),
    ("debs/librocsparse0_5.3.0*.deb", "usr/lib/*/librocsparse.so.0.1", "rocsparse 2.3.3"),
    ("debs/libamdhip64-5_5.2.3*.deb", "usr/lib/*/libamdhip64.so.5.*", "hip 5.2.21153"),
]


class Missing(Exception):
    """A reading that this machine cannot make."""


# ------------------------------------------------------------------ the small reader

def sections(data):
    """Name, address, offset, size and flags of each section of a 64-bit little-endian ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        return []
    offset, = struct.unpack_from("<Q", data, 0x28)
    each, count, names = struct.unpack_from("<HHH", data, 0x3a)
    rows = [struct.unpack_from("<IIQQQQ", data, offset + i * each) for i in range(count)]
    found = []
    for name, kind, flags, address, at, size in rows:
        start = rows[names][4] + name
        if kind != 8:  # SHT_NOBITS
            found.append((data[start:data.find(b"\0", start)].decode(), address, at, size, flags))
    return found


def suffix(flags):
    return "a" if flags & 0x100000 else "f" if flags & 0x200000 else ""


def entries(data, at, end):
    """Kind, architecture and suffix of the entries of a container."""
    while at < end:
        kind, _, header, size = struct.unpack_from("<HHIQ", data, at)
        arch, = struct.unpack_from("<I", data, at + 28)
        flags, = struct.unpack_from("<Q", data, at + 40)
        assert kind in (1, 2, 8), "kind %d at 0x%x" % (kind, at)
        yield kind, "%d%s" % (arch, suffix(flags))
        at += header + size
    assert at == end, "entries end at 0x%x, the container at 0x%x" % (at, end)


def containers(data):
    """Offset and end of the entries of each container of the file, wherever it lies."""
    magic = struct.pack("<IHH", 0xBA55ED50, 1, 16)
    at = data.find(magic)
    while at >= 0:
        size, = struct.unpack_from("<Q", data, at + 8)
        first = data[at + 16:at + 20]
        if at % 8 == 0 and first[2:] == b"\1\1" and at + 16 + size <= len(data):
            yield at + 16, at + 16 + size
            at = data.find(magic, at + 16 + size)
        else:
            at = data.find(magic, at + 1)


def wrapped(data, found):
    """Offsets of the containers that the wrappers (magic, version, address, 0) point to."""
    for name, _, at, size, _ in found:
        if name != ".nvFatBinSegment":
            continue
        for wrapper in range(at, at + size, 24):
            magic, version, address = struct.unpack_from("<IIQ", data, wrapper)
            assert magic == 0x466243B1 and version in (1, 2)
            for _, start, offset, length, _ in found:
                if start and start <= address < start + length:
                    yield offset + address - start


def read_cuda(data):
    """Counts of the architectures: registered, among the data, and input of a device link."""
    found = sections(data)
    sets = {key: {"native": Counter(), "ptx": Counter()}
            for key in ("cuda", "embedded", "relocatable")}
    seen = set()
    for at, end in containers(data):
        name, _, _, _, flags = next((s for s in found if s[2] <= at < s[2] + s[3]),
                                    ("", 0, 0, 0, 4))
        if flags & 4:  # code of the host, where the magic is a constant
            continue
        seen.add(at - 16)
        key = {".nv_fatbin": "cuda", "__nv_relfatbin": "relocatable"}.get(name, "embedded")
        for kind, arch in entries(data, at, end):
            if kind != 8:
                form = "ptx" if kind == 1 else "native"
                sets[key][form][("compute_" if kind == 1 else "sm_") + arch] += 1
    lost = set(wrapped(data, found)) - seen
    assert not lost, "wrappers point to 0x%x, where no container was found" % min(lost)
    return {key: {form: dict(n) for form, n in both.items()} for key, both in sets.items()}


def inflate(frame):
    done = subprocess.run(["zstd", "-dcq", "--memory=2048MB"], input=frame, capture_output=True,
                          check=True)
    return done.stdout


def bundle_targets(data, start):
    """Targets and size of the plain bundle at an offset."""
    count, = struct.unpack_from("<Q", data, start + 24)
    at = start + 32
    end = 0
    names = []
    for _ in range(count):
        offset, size, length = struct.unpack_from("<QQQ", data, at)
        name = data[at + 24:at + 24 + length].decode()
        if size:
            names.append(re.sub(r"^.*?-(?=gfx)", "", name))
            # The payload itself is an AMDGPU ELF image: its flags must say the same processor.
            image = data[start + offset:start + offset + 64]
            assert image[:4] == b"\x7fELF" and struct.unpack_from("<H", image, 18)[0] == 224
        end = max(end, offset + size)
        at += 24 + length
    return names, max(end, at - start)


def read_hip(data):
    """Targets of the bundles in .hip_fatbin, found by their magic."""
    targets = Counter()
    for name, _, start, size, _ in sections(data):
        at = start
        while name == ".hip_fatbin" and at < start + size:
            if data[at:at + 4] == b"CCOB":
                version, method = struct.unpack_from("<HH", data, at + 4)
                assert version in (2, 3) and method == 1
                length, = struct.unpack_from("<I" if version == 2 else "<Q", data, at + 8)
                header = 24 if version == 2 else 32
                names, _ = bundle_targets(inflate(data[at + header:at + length]), 0)
            elif data[at:at + 24] == b"__CLANG_OFFLOAD_BUNDLE__":
                names, length = bundle_targets(data, at)
            else:
                at += 4096
                continue
            targets.update(names)
            at = (at + length + 4095) // 4096 * 4096
    return dict(targets)


# ------------------------------------------------------------------ cuobjdump

# The first release seen to list the suffix a of every machine code; 12.4 and 13.1 leave it off
# where the code is compressed.
LISTS_SUFFIX_A = (13, 5)


def release_of(exe):
    """The release of a cuobjdump, as (major, minor)."""
    done = subprocess.run([exe, "--version"], capture_output=True, text=True, check=True)
    return tuple(int(n) for n in re.search(r"release (\d+)\.(\d+)", done.stdout).groups())


def read_cuobjdump(exe, path):
    """
    Architectures as cuobjdump lists them. It leaves the suffix f off machine code, and before
    LISTS_SUFFIX_A the suffix a of compressed code. It takes the suffix a from the inflated machine code, where the
    assembler of some of cuBLAS 12's kernels for sm_50 to sm_61 set that flag, years before it got
    its meaning.
    """
    counts = []
    for option, end in (("--list-elf", "cubin"), ("--list-ptx", "ptx")):
        done = subprocess.run([exe, option, str(path)], capture_output=True, text=True, check=False)
        if "fatal" in done.stderr + done.stdout:
            raise Missing(done.stderr.strip() or done.stdout.strip().splitlines()[-1])
        found = re.findall(r"\.sm_([0-9]+)([af]?)\.%s$" % end, done.stdout, re.MULTILINE)
        counts.append(dict(Counter(n + (s if int(n) >= 90 else "") for n, s in found)))
    return counts


def without(prefix, counts, suffixes):
    """The counts by bare architecture: without the prefix and without any of the suffixes."""
    result = Counter()
    for name, n in counts.items():
        result[name[len(prefix):].rstrip(suffixes)] += n
    return dict(result)


# ------------------------------------------------------------------ the comparison

def compile_reader(build, folder):
    """dump.c against the rooms of the build folder."""
    exe = folder / "dump"
    subprocess.run(["ninja", "-C", str(build), "src/libgpumend-rooms.a"], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-O2", "-std=gnu17", "-D_GNU_SOURCE",
                    "-I", str(TOP / "src"), str(TOP / "tests/gpu/dump.c"),
                    str(build / "src/libgpumend-rooms.a"), "-ljansson", "-lzstd", "-lz",
                    "-o", str(exe)], check=True)
    return exe


def unpack(archive, folder):
    """The shared libraries of a wheel or a Debian package."""
    target = folder / archive.name
    if target.exists():
        return target
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(target, [n for n in wheel.namelist() if ".so" in n])
    else:
        subprocess.run(["dpkg", "-x", str(archive), str(target)], check=True)
    return target


def places(cache, folder, everything):
    """Path, the family that it must say, and its short name; path None where it is absent."""
    for place, pattern, family in FILES:
        sources = sorted(glob.glob(str(cache / place)))
        if not sources:
            yield None, family, "%s: %s" % (place, pattern)
            continue
        source = Path(sources[-1])
        root = source if source.is_dir() else unpack(source, folder)
        paths = sorted(p for p in glob.glob(str(root / pattern)) if not os.path.islink(p))
        for path in paths or [None]:
            yield path, family, "%s: %s" % (source.name, os.path.basename(path or pattern))
    if everything:
        for path in sorted(glob.glob(str(cache / "store/*/**/*.so*"), recursive=True)):
            if not os.path.islink(path):
                yield path, None, os.path.relpath(path, cache)


class Comparison:
    def __init__(self, exe, cuobjdump):
        self.exe, self.cuobjdump = exe, cuobjdump
        self.passed = self.failed = self.skipped = 0

    def skip(self, what, why):
        self.skipped += 1
        print("SKIP %s: %s" % (what, why))

    def check(self, what, ours, theirs):
        if ours == theirs:
            self.passed += 1
        else:
            self.failed += 1
            print("FAIL %s: read %s, should be %s" % (what, ours, theirs))

    def one(self, path, family, name):
        done = subprocess.run([str(self.exe), path], capture_output=True, text=True, check=False)
        if done.returncode:
            self.failed += 1
            print("FAIL %s: the reader ended with %d: %s" % (name, done.returncode, done.stderr))
            return
        ours = json.loads(done.stdout)
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return
            data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        sets = read_cuda(data)
        for key, both in sets.items():
            self.check("%s: %s: machine code" % (name, key), ours[key]["native"], both["native"])
            self.check("%s: %s: PTX" % (name, key), ours[key]["ptx"], both["ptx"])
        self.check(name + ": read whole", ours["notes"], [])
        self.hip(name, ours, data)
        if sets["cuda"]["native"] or sets["cuda"]["ptx"]:
            self.against_cuobjdump(name, ours, path)
        if family:
            wanted = family.split()
            found = [[f["name"], f["version"]] for f in ours["families"] if f["name"] == wanted[0]]
            version = re.match(re.escape(wanted[1]) + r"(?![0-9])", found[0][1] or "") \
                if found else None
            self.check(name + ": version", bool(version) and wanted, wanted)
        self.show(name, ours)

    def hip(self, name, ours, data):
        try:
            targets = read_hip(data)
        except FileNotFoundError:
            self.skip(name + ": HIP targets", "no zstd program")
            return
        self.check(name + ": HIP targets", ours["hip"]["targets"], targets)

    def against_cuobjdump(self, name, ours, path):
        if not self.cuobjdump:
            self.skip(name + ": cuobjdump", "not there")
            return
        why = ""
        for exe in self.cuobjdump:
            try:
                native, ptx = read_cuobjdump(exe, path)
            except Missing as error:
                why = str(error)
                continue
            unlisted = "f" if release_of(exe) >= LISTS_SUFFIX_A else "af"
            self.check(name + ": cuobjdump, machine code",
                       without("sm_", ours["cuda"]["native"], unlisted),
                       without("", native, unlisted))
            self.check(name + ": cuobjdump, PTX",
                       without("compute_", ours["cuda"]["ptx"], ""), ptx)
            return
        self.skip(name + ": cuobjdump", why)

    @staticmethod
    def show(name, ours):
        inner = ours["embedded"]
        rows = [" ".join(ours["cuda"]["native"]), " ".join(ours["cuda"]["ptx"]),
                " ".join(["data:", *inner["native"], *inner["ptx"]] if inner["containers"] else []),
                " ".join(ours["hip"]["targets"]),
                " ".join("%s=%s" % (f["name"], f["version"]) for f in ours["families"])]
        print("%s: %s" % (name, "; ".join(r for r in rows if r) or "no GPU code"))


def show_times(exe, path, name):
    """Milliseconds of reading one file: cold, the best of five warm runs, and with its data."""
    def run(option="--time"):
        done = subprocess.run([str(exe), option, path], capture_output=True, text=True,
                              check=True)
        return float(done.stdout.split()[0])
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    cold = run()
    warm = min(run() for _ in range(5))
    print("%8.2f ms cold %8.2f ms warm %8.2f ms with the data  %5d MiB  %s" % (
        cold, warm, min(run("--time-all") for _ in range(3)), os.path.getsize(path) >> 20, name))


def find_cuobjdump(cache, folder, given):
    """The given one; else that of the wheel in the cache, and Triton's, which read what it does
    not."""
    if given:
        return [given]
    found = sorted(glob.glob(str(cache / "store/triton-*/triton/backends/nvidia/bin/cuobjdump")))
    for wheel in sorted(glob.glob(str(cache / "wheels/nvidia_cuda_cuobjdump-*.whl"))):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if member.endswith("/bin/cuobjdump"):
                    found.insert(0, archive.extract(member, folder))
    copies = []
    for i, path in enumerate(found):
        copy = folder / ("cuobjdump-%d" % i)
        shutil.copy(path, copy)
        copy.chmod(0o755)
        copies.append(str(copy))
    on_path = shutil.which("cuobjdump")
    return copies + ([on_path] if on_path else [])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, default=TOP / "build")
    parser.add_argument("--cache", type=Path, default=os.environ.get(
        "GPUMEND_CACHE", os.path.expanduser("~/.cache/gpumend")))
    parser.add_argument("--cuobjdump")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--time", action="store_true")
    args = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        exe = compile_reader(args.build.resolve(), folder)
        comparison = Comparison(exe, find_cuobjdump(args.cache, folder, args.cuobjdump))
        for path, family, name in places(args.cache, folder, args.all):
            if path is None:
                comparison.skip(name, "not in the cache")
            elif args.time:
                show_times(exe, path, name)
                comparison.passed += 1
            else:
                comparison.one(path, family, name)
    print("%d passed, %d failed, %d skipped" % (comparison.passed, comparison.failed,
                                                comparison.skipped))
    return 1 if comparison.failed else 0


if __name__ == "__main__":
    sys.exit(main())
