#!/usr/bin/env python3
"""Every program and shared object of this machine: `gpumend why --batch` against the real loader.

Programs are listed by their own loader (LD_TRACE_LOADED_OBJECTS=1; musl's with --list), which does
not run them. Shared objects are opened by objhost.c, each in a child of its own and without their
constructors. Order and paths of the link map must equal the prediction, and so must the text of a
start or a dlopen that fails. Folders besides /usr, /lib, /opt and ~/.pyenv can be given.

Not compared: kernel modules and other relocatable files, static programs, and files of an
architecture whose loader is not here. Files whose oracle dies of a signal or runs out of time are
skipped and named.
"""

import argparse
import collections
import concurrent.futures
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import common
import seeding

ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent", "LC_ALL": "C"}
VDSO = ("linux-vdso.so.1", "linux-gate.so.1")
ET_EXEC, ET_DYN = 2, 3
MACHINES = {(2, 62): "x86-64", (1, 3): "i386"}
DF_1_PIE = 0x08000000


class Elf:
    """What decides how a file is compared; `kind` is program, object, or why it is not compared."""

    def __init__(self, path):
        self.path, self.interp, self.kind, self.arch = path, None, None, None
        with open(path, "rb") as source:
            head = source.read(64)
            if len(head) < 52 or head[:4] != b"\x7fELF":
                return
            self.read(source, head)

    def read(self, source, head):
        is64 = head[4] == 2
        if head[5] != 1:
            self.kind = "another architecture"
            return
        etype, machine = struct.unpack_from("<HH", head, 16)
        self.arch = MACHINES.get((head[4], machine))
        if etype not in (ET_EXEC, ET_DYN):
            self.kind = "relocatable"
            return
        if not self.arch:
            self.kind = "another architecture"
            return
        phoff, = struct.unpack_from("<Q" if is64 else "<I", head, 32 if is64 else 28)
        phentsize, phnum = struct.unpack_from("<HH", head, 54 if is64 else 42)
        source.seek(phoff)
        table = source.read(phentsize * phnum)
        dynamic = None
        for at in range(0, len(table) - phentsize + 1, phentsize):
            kind, = struct.unpack_from("<I", table, at)
            offset, size = struct.unpack_from("<8xQ16xQ" if is64 else "<4xI8xI", table, at)
            if kind == 3 and size < 4096:
                source.seek(offset)
                self.interp = source.read(size).split(b"\0")[0].decode(errors="replace")
            elif kind == 2:
                dynamic = offset, size
        if dynamic is None:
            self.kind = "static"
            return
        self.classify(source, is64, etype, dynamic)

    def classify(self, source, is64, etype, dynamic):
        source.seek(dynamic[0])
        raw = source.read(min(dynamic[1], 1 << 20))
        form = "<qQ" if is64 else "<iI"
        tags = dict(struct.iter_unpack(form, raw[:len(raw) // struct.calcsize(form) * struct.calcsize(form)]))
        is_pie = tags.get(0x6FFFFFFB, 0) & DF_1_PIE or 14 not in tags
        self.kind = "program" if self.interp and (etype == ET_EXEC or is_pie) else "object"


def walk(folders, note):
    """Every regular ELF file below the folders once, in a stable order."""
    seen = set()
    for top in folders:
        for folder, subfolders, names in os.walk(os.path.realpath(top)):
            subfolders.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                try:
                    status = os.lstat(path)
                    if (status.st_mode & 0o170000) != 0o100000 or status.st_size < 52:
                        continue
                    if (status.st_dev, status.st_ino) in seen or "\n" in path:
                        continue
                    seen.add((status.st_dev, status.st_ino))
                    elf = Elf(path)
                except (OSError, struct.error) as error:
                    note(f"{path}: not read: {error}")
                    continue
                if elf.kind:
                    yield elf


# Oracles. Each gives {"map": [...]} or {"failed": text} or {"unusable": why}. ----------------------


def list_program(elf):
    """What the program's own loader lists. Only loaders that are known to list are used."""
    base = os.path.basename(elf.interp)
    if not os.path.exists(elf.interp):
        return {"unusable": "its loader is not here"}
    if base.startswith("ld-musl"):
        return read_musl(*common.run([elf.interp, "--list", elf.path], 10, ENV))
    if not re.fullmatch(r"ld-linux(-x86-64)?\.so\.2|ld-[0-9.]+\.so", base):
        return {"unusable": f"{base}: not a loader that is known to list"}
    # A setuid program, or one that this user may not execute, is listed through its loader.
    mode = os.stat(elf.path).st_mode
    command = [elf.interp, elf.path] if mode & 0o6000 or not os.access(elf.path, os.X_OK) else [elf.path]
    return read_list(*common.run(command, 10, dict(ENV, LD_TRACE_LOADED_OBJECTS="1")))


def read_list(status, out, err):
    if status is None:
        return {"unusable": "no answer in 10 s"}
    out, err = common.decode(out), common.decode(err)
    found = {"map": [], "failed": None}
    if "statically linked" in out:
        return {"unusable": "a program without DT_NEEDED lists nothing"}
    for line in out.splitlines():
        line = line.strip()
        bad = re.match(r"[^:]*: (.*: version `.*' not found \(required by .*\))$", line)
        if bad:
            found["failed"] = found["failed"] or bad.group(1)
            continue
        name, arrow, path = line.partition(" => ")
        if path == "not found" and not found["failed"]:
            found["failed"] = found["missing"] = f"{name}: "  # the list does not say why
        found["map"].append(re.sub(r" \(0x[0-9a-f]+\)$", "", path if arrow else name))
    for line in err.splitlines():
        bad = re.match(r"[^:]*: (?:error while loading shared libraries: )?(.*)$", line)
        if bad and not found["failed"]:
            found["failed"] = bad.group(1)
    found["map"] = [m for m in found["map"] if m not in VDSO]
    if status != 0 and not found["failed"]:
        return {"unusable": f"status {status}: {err.strip()[:200]}"}
    return found


def read_musl(status, out, err):
    if status is None:
        return {"unusable": "no answer in 10 s"}
    out, err = common.decode(out), common.decode(err)
    failed = next((l for l in err.splitlines() if l.startswith("Error ")), None)
    paths = [re.sub(r" \((0x[0-9a-f]+|0)\)$", "", line.strip().split(" => ")[-1]) for line in out.splitlines()]
    if status != 0 and not failed:
        return {"unusable": f"status {status}: {err.strip()[:200]}"}
    # The first line is the loader itself; a name that stands for it is listed where it is first needed.
    return {"map": list(dict.fromkeys(paths[1:])), "failed": failed}


def open_objects(host, paths):
    """What dlopen does with each path, by objhost; a dictionary."""
    text = "".join(p + "\n" for p in paths).encode("utf-8", "surrogateescape")
    done = subprocess.run([host], input=text, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENV,
                          cwd="/", check=False)
    found, current = {}, None
    for line in common.decode(done.stdout).splitlines():
        kind, _, value = line.partition("\t")
        if kind == "F":
            current = found[value] = {"map": [], "failed": None}
        elif current is None:
            continue
        elif kind == "M":
            current["map"].append(value)
        elif kind == "E":
            current["failed"] = value
        elif kind == "X":
            current["unusable"] = "no answer in 10 s" if value == "14" else f"the host dies of signal {value}"
    for answer in found.values():
        answer["map"] = [m for m in answer["map"][1:] if m not in VDSO]
    return found


# The prediction ----------------------------------------------------------------------------------


def predict(gpumend, paths, folder, host=None):
    """The documents of one batch by file, and how long they took."""
    names = os.path.join(folder, f"batch-{os.getpid()}-{abs(hash((host, tuple(paths)))) % 10**9}")
    with open(names, "wb") as out:
        out.write("".join(p + "\n" for p in paths).encode("utf-8", "surrogateescape"))
    command = [gpumend, "why", "--json", "--batch", names] + (["--exe", host] if host else [])
    began = time.monotonic()
    done = subprocess.run(command, env=ENV, cwd="/", capture_output=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode < 0 or done.returncode > 1:
        print(f"machine: gpumend ended with status {done.returncode}: {common.decode(done.stderr)[:500]}")
    found = {}
    for line in done.stdout.splitlines():
        document = common.parse_json(line)
        if document is not None:
            found[document.get("file")] = document
    return found, seconds


def start_failure(document):
    """The loader's text of a start that fails by the prediction, or None."""
    return document.get("start_error")


def compare(real, document, is_object):
    """None if equal, else a text."""
    if document is None:
        return "no document"
    if is_object:
        loads = document.get("loads") or []
        says = loads[0].get("glibc_says") if loads and loads[0].get("outcome") not in ("loaded", "reused") else None
        if not loads:
            return "no load in the document: " + str(start_failure(document))
    else:
        says = start_failure(document)
    if says and real.get("missing") and says.startswith(real["missing"]):
        return None
    if (says or None) != (real["failed"] or None):
        return f"real: {real['failed'] or 'starts' if not is_object else real['failed'] or 'loads'}\n      ours: {says}"
    if real["failed"]:
        return None
    ours = [o.get("path") for o in document.get("objects") or []][1:]
    if ours != real["map"]:
        at = next((i for i, (a, b) in enumerate(zip(ours, real["map"])) if a != b), min(len(ours), len(real["map"])))
        return (f"real: {len(real['map'])} objects, at {at}: {real['map'][at:at + 3]}\n"
                f"      ours: {len(ours)} objects, at {at}: {ours[at:at + 3]}")
    return None


# Programs for musl, built here ------------------------------------------------------------------


def build_musl(folder):
    """Programs and libraries compiled with musl-gcc, one for each search rule of musl; their paths."""
    if not shutil.which("musl-gcc"):
        print("machine: no musl-gcc, so no program for musl is compared")
        return []
    top = os.path.join(folder, "musl")
    os.makedirs(os.path.join(top, "lib"))
    os.makedirs(os.path.join(top, "far"))
    source = os.path.join(top, "a.c")
    with open(source, "w") as out:
        out.write("int f(void);\nint main(void) { return f(); }\n")
    with open(os.path.join(top, "f.c"), "w") as out:
        out.write("int g(void);\nint f(void) { return g(); }\n")
    with open(os.path.join(top, "g.c"), "w") as out:
        out.write("int g(void) { return 0; }\n")

    def cc(*arguments):
        return subprocess.run(["musl-gcc", *arguments], cwd=top, capture_output=True).returncode == 0

    shared = ["-shared", "-fPIC"]
    made = []
    steps = [
        # A library whose own RUNPATH leads to the second one, and one that relies on its caller's.
        (None, [*shared, "-Wl,-soname,libg.so.1", "g.c", "-o", "far/libg.so.1"]),
        (None, [*shared, "-Wl,-soname,libf.so", "f.c", "far/libg.so.1", "-Wl,-rpath,$ORIGIN/../far",
                "-o", "lib/libf.so"]),
        (None, [*shared, "-Wl,-soname,libf2.so", "f.c", "far/libg.so.1", "-o", "lib/libf2.so"]),
    ]
    for name, tag in (("runpath", "--enable-new-dtags"), ("rpath", "--disable-new-dtags")):
        steps += [
            (name, ["a.c", "lib/libf.so", f"-Wl,{tag},-rpath,$ORIGIN/lib", "-o", name]),
            (name + "-inherited", ["a.c", "lib/libf2.so", f"-Wl,{tag},-rpath,$ORIGIN/lib:$ORIGIN/far", "-o",
                                   name + "-inherited"]),
            (name + "-missing", ["a.c", "lib/libf2.so", f"-Wl,{tag},-rpath,$ORIGIN/lib",
                                 "-Wl,--allow-shlib-undefined", "-o", name + "-missing"]),
        ]
    steps += [("plain", ["g.c", "-include", "a.c", "-Df=g", "-o", "plain"]),
              ("none", ["a.c", "lib/libf.so", "-o", "none"]),
              ("bad-token", ["a.c", "lib/libf.so", "-Wl,-rpath,$BOGUS/lib:$ORIGIN/lib", "-o", "bad-token"])]
    for name, command in steps:
        if not cc(*command, "-Wl,--unresolved-symbols=ignore-all"):
            print(f"machine: musl-gcc cannot build {command[-1]}")
        elif name:
            made.append(os.path.join(top, name))
    return made


# Running -----------------------------------------------------------------------------------------


def chunks(items, size):
    return [items[i:i + size] for i in range(0, len(items), size)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", help="folders besides the usual ones")
    parser.add_argument("--only", action="store_true", help="the given folders only")
    parser.add_argument("--limit", type=int, help="compare a random sample of this many files")
    parser.add_argument("--seed", type=int, help="of the sample; default: a fresh one, which is printed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--gpumend")
    parser.add_argument("--show", type=int, default=40, help="how many failures to print in full")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="gpumend-machine-")
    os.chmod(folder, 0o755)
    try:
        return survey(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def gather(options, folder, skipped):
    given = [os.path.abspath(f) for f in options.folders]
    usual = [] if options.only else [f for f in ("/usr", "/lib", "/opt", os.path.expanduser("~/.pyenv"))
                                     if os.path.isdir(f)]
    elves = list(walk(usual + given, lambda text: print("machine: " + text)))
    if not options.only:
        elves += [Elf(p) for p in build_musl(folder)]
    if options.limit is not None and options.limit < len(elves):
        seed = options.seed if options.seed is not None else seeding.fresh()
        print(f"machine: a sample of {options.limit} of {len(elves)} ELF files, seed {seed}")
        elves = random.Random(seed).sample(elves, options.limit)
    kinds = collections.Counter(e.kind for e in elves if e.kind not in ("program", "object"))
    if kinds:
        print("machine: not compared: " + ", ".join(f"{n} {k}" for k, n in sorted(kinds.items())))
    skipped.update({f"{k} (not compared)": n for k, n in kinds.items() if k == "another architecture"})
    return [e for e in elves if e.kind in ("program", "object")]


def survey(options, folder):
    gpumend = common.private_copy(common.find_gpumend(options.gpumend), folder)
    skipped = collections.Counter()
    hosts = {"x86-64": common.compile_host("objhost.c", os.path.join(folder, "host64")),
             "i386": common.compile_host("objhost.c", os.path.join(folder, "host32"), "-m32")}
    elves = gather(options, folder, skipped)
    programs = [e for e in elves if e.kind == "program"]
    objects = {arch: [e.path for e in elves if e.kind == "object" and e.arch == arch] for arch in hosts}
    print(f"machine: {len(programs)} programs, " +
          ", ".join(f"{len(paths)} shared objects for {arch}" for arch, paths in objects.items()))
    truth, ours, seconds = {}, {}, [0.0, 0.0]
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        truth.update(zip((e.path for e in programs), pool.map(list_program, programs)))
        for arch, paths in objects.items():
            if paths and not hosts[arch]:
                skipped[f"no compiler for {arch}"] += len(paths)
                paths.clear()
            for found in pool.map(lambda part, h=hosts[arch]: open_objects(h, part), chunks(paths, 200)):
                truth.update(found)
    seconds[0] = time.monotonic() - began
    batches = [([e.path for e in programs], None)] + [(objects[a], hosts[a]) for a in hosts if objects[a]]
    is_object = {}
    for paths, host in batches:
        documents, took = predict(gpumend, paths, folder, host)
        ours.update(documents)
        seconds[1] += took
        is_object.update({p: host is not None for p in paths})
    return judge(options, truth, ours, is_object, skipped, seconds)


def judge(options, truth, ours, is_object, skipped, seconds):
    passed = failed = starts = 0
    for path in sorted(is_object):
        real = truth.get(path)
        if real is None or "unusable" in real:
            skipped[real["unusable"] if real else "the host gave no answer"] += 1
            if real and ("signal" in real["unusable"] or "10 s" in real["unusable"]):
                print(f"skip {path}: {real['unusable']}")
            continue
        text = compare(real, ours.get(path), is_object[path])
        starts += not real["failed"]
        if text is None:
            passed += 1
            continue
        failed += 1
        if failed <= options.show:
            print(f"FAIL {path}\n  {text}")
    print(f"machine: {starts} of {passed + failed} load; the real loader took {seconds[0]:.1f} s, "
          f"gpumend {seconds[1]:.1f} s")
    for why, n in skipped.most_common():
        print(f"machine: {n} skipped: {why}")
    return common.closing_line(passed, failed, sum(skipped.values()))


if __name__ == "__main__":
    sys.exit(main())
