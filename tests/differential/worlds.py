#!/usr/bin/env python3
"""Random worlds: what `gpumend why` predicts against what the real dynamic loader does.

Each world (see worldgen.py) is built in a temporary folder. A compiled host program, or a program
rewritten from it, is started by the kernel or by the loader and performs a sequence of dlopen calls
from chosen callers; its link map, the path or error text of every load, and the text of a start
that fails must equal the prediction. Worlds with a cache of their own run in a private mount
namespace with that file in the place of /etc/ld.so.cache.

With --machine aarch64 the worlds are those of another architecture: their programs are started by
qemu's user mode in a root folder that holds the cross compiler's C library, with pages of 4, 16 and
64 KiB, and every world has its own /etc/ld.so.cache there.

First the hand-written worlds of seeds/, then those of kept/ (once failed, minimised), then
--count random ones. A failing random world is minimised and written to --keep.
"""

import argparse
import collections
import ctypes
import glob
import hashlib
import json
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import common
import seeding
import worldgen

CACHE = "/etc/ld.so.cache"
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 4096, 16384, 1 << 18, 2
# What clearing one CPU feature leaves of the x86-64 levels (glibc 2.33 sysdeps/x86/get-isa-level.h).
# Each level is without the features of those above as well, from which the loader takes the names of the
# older folders ("haswell", "avx512_1") one by one. Before 2.33 it asks for "usable" bits with names of their
# own (sysdeps/x86/cpu-features.c).
USABLE = "_Usable" if common.GLIBC_MINOR < 33 else ""
NO_V4 = f"-AVX512F{USABLE},-AVX512CD,-AVX512BW,-AVX512DQ,-AVX512VL"
TUNABLES = {"x86-64-v3": NO_V4, "x86-64-v2": f"-AVX2{USABLE},{NO_V4}", "x86-64-v1": f"-SSE4_2,-AVX2{USABLE},{NO_V4}"}
TIMEOUT = 20
QEMU = "/usr/bin/qemu-aarch64-static"
CROSS_LIBRARIES = "/usr/aarch64-linux-gnu/lib"
CROSS_COMPILER = "aarch64-linux-gnu-gcc"
CROSS_CPUS = {None: "max", "armv8.1-a": "max", "armv8.0-a": "cortex-a53"}



def not_to_be_forced():
    """The level that this processor cannot be made to have: Intel's is "haswell" by the same features."""
    with open("/proc/cpuinfo") as source:
        return ("x86-64-v3",) if "GenuineIntel" in source.read() else ()


libc = ctypes.CDLL(None, use_errno=True)


def enter_namespace():
    """A mount namespace of this process's own; False where the system does not allow it."""
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWNS | (CLONE_NEWUSER if uid else 0)
    if not hasattr(libc, "unshare") or libc.unshare(flags) != 0:
        return False
    if uid:
        with open("/proc/self/setgroups", "w") as out:
            out.write("deny")
        for name, number in (("uid_map", uid), ("gid_map", gid)):
            with open("/proc/self/" + name, "w") as out:
                out.write(f"0 {number} 1")
    if libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return False
    return os.path.exists(CACHE)


class Bench:
    """The folder, host and command that one worker process uses."""

    def __init__(self, gpumend, host, folder, namespace):
        self.gpumend, self.folder, self.number = gpumend, folder, 0
        with open(host, "rb") as source:
            self.host = source.read()
        self.namespace = namespace and enter_namespace()

    def judge(self, world):
        """Builds, runs and compares. Returns (differences, real, predicted); None: skipped, why."""
        if world.get("cache") is not None and not self.namespace:
            return None, "no private mount namespace", None
        if world.get("user") is not None and os.getuid() != 0:
            return None, "only root can run as another user", None
        if world.get("cpu") in not_to_be_forced():
            return None, f"an Intel processor of {world['cpu']} is of another platform", None
        self.number += 1
        root = os.path.join(self.folder, f"w{self.number}")
        os.mkdir(root, 0o755)
        mounted = False
        try:
            try:
                worldgen.build(world, root, self.host)
            except (OSError, AssertionError) as error:
                return None, f"cannot be built: {error}", None
            if world.get("cache") is not None:
                mounted = self.mount_cache(worldgen.substitute(world["cache"], root), root)
            early = predict(self.gpumend, world, root, {}) if changes_files(world) else None
            real = run_real(world, root)
            return judged(world, root, real, early or predict(self.gpumend, world, root, real))
        finally:
            if mounted:
                libc.umount2(CACHE.encode(), MNT_DETACH)
            shutil.rmtree(root, ignore_errors=True)

    def mount_cache(self, spec, root):
        path = os.path.join(root, "the-cache")
        if "ldconfig" in spec:
            conf = os.path.join(root, "the-conf")
            with open(conf, "w") as out:
                out.write("\n".join(spec["ldconfig"]) + "\n")
            common.run(["ldconfig", "-X", "-C", path, "-f", conf], 60)
        else:
            with open(path, "wb") as out:
                out.write(worldgen.elfgen.cache(spec))
        os.chmod(path, 0o644)
        return libc.mount(path.encode(), CACHE.encode(), None, MS_BIND, None) == 0


def judged(world, root, real, predicted):
    if "unusable" in real:
        return None, real["unusable"], None
    differ = compare(world, root, real, predicted)
    return differ + compare_expected(world, root, real), real, predicted


class CrossBench:
    """The same for another architecture: a root folder of its own, entered with chroot."""

    def __init__(self, gpumend, host, folder, namespace):
        self.gpumend, self.top, self.number = gpumend, folder, 0
        with open(host, "rb") as source:
            self.host = source.read()
        if os.getuid() != 0:
            enter_namespace()
        self.libraries()
        shutil.copy(QEMU, os.path.join(folder, "qemu"))

    def libraries(self):
        """The cross compiler's C library where the target's own system has it."""
        libdir = os.path.join(self.top, worldgen.MACHINES["aarch64"]["libdir"])
        os.makedirs(libdir)
        os.makedirs(os.path.join(self.top, "etc"))
        os.makedirs(os.path.join(self.top, "usr"))
        os.symlink("../lib", os.path.join(self.top, "usr/lib"))
        for name in os.listdir(CROSS_LIBRARIES):
            path = os.path.join(CROSS_LIBRARIES, name)
            if ".so." in name and os.path.isfile(path):
                shutil.copy(path, libdir)
        loader = worldgen.MACHINES["aarch64"]["loader"]
        os.symlink(os.path.basename(libdir) + "/" + os.path.basename(loader), self.top + loader)
        os.chmod(self.top, 0o755)
        with open(self.top + loader, "rb") as file:
            self.loader = file.read()

    def place_loader(self, page):
        """The loader for pages of that size; a new file, as the last one may be mapped still."""
        path = self.top + worldgen.MACHINES["aarch64"]["loader"]
        new = os.path.realpath(path) + ".new"
        with open(new, "wb") as out:
            out.write(common.whole_last_page(self.loader, page) if page > 4096 else self.loader)
        os.chmod(new, 0o755)
        os.rename(new, os.path.realpath(path))

    def judge(self, world):
        self.number += 1
        root = f"/w{self.number}"
        real_root = self.top + root
        os.mkdir(real_root, 0o755)
        try:
            try:
                worldgen.build(world, real_root, self.host, root)
                self.write_cache(worldgen.substitute(world["cache"], root))
                self.place_loader(world["page"])
            except (OSError, AssertionError) as error:
                return None, f"cannot be built: {error}", None
            early = predict(self.gpumend, world, root, {}, self.top) if changes_files(world) else None
            real = run_real(world, root, self.top)
            predicted = early or predict(self.gpumend, world, root, real, self.top)
            judgement = judged(world, root, real, predicted)
            why = emulator_fault(world, root, self.top, real) if judgement[0] else None
            return (None, why, None) if why else judgement
        finally:
            shutil.rmtree(real_root, ignore_errors=True)

    def write_cache(self, spec):
        path = self.top + CACHE
        if os.path.exists(path):
            os.unlink(path)
        if spec is not None:
            with open(path, "wb") as out:
                out.write(worldgen.elfgen.cache(spec))
            os.chmod(path, 0o644)


def changes_files(world):
    return any("symlink" in load.get("before", {}) for load in world["loads"])


# The real loader ------------------------------------------------------------------------------


def run_real(world, root, top=None):
    """What happens: {"map", "loads", "failed", "preloads"}, or {"unusable": why}. With `top`, `root`
    is a path inside that root folder of another architecture."""
    at = worldgen.substitute(world, root)
    status, out, err = start(at, root, top)
    if status is None:
        return {"unusable": "the real loader does not come to an end"}
    return read_start(at, status, out, err)


def emulator_fault(world, root, top, real):
    """What qemu does otherwise than a kernel with pages larger than the host's own, or None: it does not map
    what is behind the end of a file."""
    if world["page"] == 4096:
        return None
    _, _, err = start(worldgen.substitute(world, root), root, top, "-strace")
    if (any("failed to map segment" in load[2] for load in real["loads"])
            or re.search(r"mmap\([^\n]*MAP_FIXED,\d+,0x[0-9a-f]+\) = -1 errno=12 ", err)):
        return "the emulator does not map what lies behind the end of a file"
    return None


def start(at, root, top, *options):
    env = dict(at["env"])
    if at.get("cpu") and not top:
        env["GLIBC_TUNABLES"] = "glibc.cpu.hwcaps=" + TUNABLES[at["cpu"]]
    arguments = [load_argument(load) for load in at["loads"]]
    command = [at["exe"]] + arguments
    if at["start"] == "musl":
        command[:0] = [common.MUSL_LOADER, "--list"]
    elif at["start"] != "kernel":
        command.insert(0, worldgen.MACHINES[at["machine"]]["loader"])
    if at["start"] == "trace":
        env.update(LD_TRACE_LOADED_OBJECTS="1", LD_WARN="1")  # LD_WARN: and relocate
    cwd = os.path.join(root, at["cwd"] or ".")
    if top:
        command[:0] = ["/qemu", "-cpu", CROSS_CPUS[at.get("cpu")], "-p", str(at["page"]), *options]
        status, out, err = common.run(command, TIMEOUT, env, inside=(top, cwd, at.get("user")))
    else:
        status, out, err = common.run(command, TIMEOUT, env, cwd, user=at.get("user"))
    return status, common.decode(out), common.decode(err)


def read_start(at, status, out, err):
    if "Inconsistency detected by ld.so" in err or "Assertion" in err:
        return {"unusable": "the real loader stops with an assertion"}
    if status < 0:
        return {"unusable": f"killed by signal {-status}"}
    preloads = re.findall(r"^ERROR: ld\.so: object '(.*)' from LD_PRELOAD cannot be preloaded \((.*)\): "
                          r"ignored\.$", err, re.M)
    real = {"preloads": preloads, "loads": [], "map": [], "failed": None}
    if at["start"] == "trace":
        return read_trace(status, out, err, real)
    if at["start"] == "musl":
        return read_musl(status, out, err, real)
    if not out.startswith("S\n"):
        real["failed"] = start_error(err)
        if real["failed"] is None:
            return {"unusable": f"no start, status {status}: {err.strip()[:200]}"}
        return real
    for line in out.splitlines()[1:]:
        kind, *rest = line.split("\t")
        if kind == "L":
            real["loads"].append(tuple(rest))
        else:
            real["map"].append(rest[0])
    if status != 0 or len(real["loads"]) != len(at["loads"]):
        return {"unusable": f"ended in a load with status {status}: {err.strip()[:200]}"}
    real["map"] = [m for m in real["map"][1:] if m != "linux-vdso.so.1"]
    return real


def load_argument(load):
    before = load.get("before", {})
    text = load["name"] + "\t" + load.get("caller", "")
    if "setenv" in before:
        text += "\tsetenv\t" + "\t".join(before["setenv"].split("=", 1))
    if "symlink" in before:
        text += "\tsymlink\t" + "\t".join(before["symlink"])
    return text


def start_error(err):
    """The loader's text about a start that failed, less the program's name; None if it has none."""
    lines = [l for l in err.splitlines() if not l.startswith("ERROR: ld.so: object ")]
    for line in lines:
        for mark in (": error while loading shared libraries: ", ": symbol lookup error: "):
            if mark in line:
                return line.split(mark, 1)[1]
    for line in lines:
        found = re.match(r"[^:]*: (.*: version `.*' not found \(required by .*\))$", line)
        if found:
            return found.group(1)
    return None


def read_trace(status, out, err, real):
    if "statically linked" in out:
        return {"unusable": "a program without DT_NEEDED lists nothing"}
    for line in out.splitlines():
        if not line.startswith("\t"):
            continue
        name, arrow, path = line.strip().partition(" => ")
        if path == "not found" and not real["failed"]:
            real["failed"] = real["missing"] = f"{name}: "  # the trace does not say why
        real["map"].append(re.sub(r" \(0x[0-9a-f]+\)$", "", path if arrow else name))
    real["map"] = [m for m in real["map"] if m != "linux-vdso.so.1"]
    symbol = re.search(r"^(undefined symbol: .*)\t\((.*)\)$", err, re.M)
    real["failed"] = real["failed"] or start_error(err) or start_error(out) or (
        symbol and f"{symbol.group(2)}: {symbol.group(1)}")
    if status != 0 and not real["failed"]:
        return {"unusable": f"trace ended with status {status}: {err.strip()[:200]}"}
    return real


def read_musl(status, out, err, real):
    paths = [re.sub(r" \((0x[0-9a-f]+|0)\)$", "", l.strip().split(" => ")[-1]) for l in out.splitlines()]
    # The first line is the loader itself; a name that stands for it is listed where it is first needed.
    real["map"] = list(dict.fromkeys(paths[1:]))
    real["failed"] = next((l for l in err.splitlines() if l.startswith("Error ")), None)
    if real["failed"] and real["failed"].startswith("Error relocating"):
        return {"unusable": "musl's relocation is not compared"}
    if status != 0 and not real["failed"]:
        return {"unusable": f"musl ended with status {status}: {err.strip()[:200]}"}
    return real


# The prediction -------------------------------------------------------------------------------


def predict(gpumend, world, root, real, top=None):
    """The document of `gpumend why --json`, or {"broken": what went wrong}."""
    at = worldgen.substitute(world, root)
    cwd = os.path.join(root, at["cwd"] or ".")
    command = [gpumend, "why", "--json", "--exe", at["exe"]]
    if top:
        command += ["--root", top, "--page-size", str(at["page"]), "--cpu", at.get("cpu") or "armv8.1-a"]
    env = {"PATH": "/usr/bin:/bin"}
    if at.get("direct"):
        env = dict(at["env"])
    else:
        command += ["--cwd", cwd]
        for key, value in at["env"].items():
            command += ["--env", f"{key}={value}"]
    if at.get("cpu") and not top:
        command += ["--cpu", at["cpu"]]
    done = real.get("loads") or []
    for i, load in enumerate(at["loads"]):
        caller = done[i][0] if i < len(done) else ""
        command += ["--load", load["name"] + ("@" + caller if caller else "")]
    status, out, err = common.run(command, TIMEOUT, env, (top or "") + cwd, user=at.get("user"))
    document = common.parse_json(out)
    if status is None or status < 0 or not isinstance(document, dict) or "objects" not in document:
        return {"status": status, "broken": f"status {status}: {common.decode(err).strip()[:300] or out[:200]}",
                "command": command}
    document["command"] = command
    return document


def failing(document):
    """The first request that fails, as the loader would name it; None if none does."""
    for request in document.get("requests") or []:
        if request.get("kind") == "needed" and request.get("outcome") not in ("loaded", "reused"):
            return request.get("glibc_says") or ""
    return None


def compare(world, root, real, predicted):
    """A list of (category, text) of all that differs."""
    if "broken" in predicted:
        # A program that cannot be started at all may be refused with a reason of gpumend's own.
        refused = real["failed"] is not None and predicted["status"] == 3
        return [] if refused else [("gpumend", predicted["broken"])]
    at = worldgen.substitute(world, root)
    differ = []
    if real["failed"] is not None:
        says = start_failure(predicted)
        if says is None:
            differ.append(("start", f"real: {real['failed']}\n      ours: starts"))
        elif not same_text(says, real["failed"]) and not also_fails(world, real, predicted, says):
            differ.append(("start-text", f"real: {real['failed']}\n      ours: {says}"))
        return differ
    says = start_failure(predicted)
    if says is not None:
        return [("start", f"real: starts\n      ours: {says}")]
    if world["start"] != "musl":  # musl says nothing of a preload that fails
        differ += compare_preloads(real, predicted)
    differ += compare_loads(at, real, predicted)
    objects = [o.get("path") for o in predicted["objects"]]
    if objects[:1] != [at["exe"]]:
        differ.append(("main", f"real: {at['exe']}\n      ours: {objects[:1]}"))
    if objects[1:] != real["map"]:
        differ.append(("map", f"real: {real['map']}\n      ours: {objects[1:]}"))
    return differ


def also_fails(world, real, predicted, says):
    """Whether a trace, which names or hides what a start would stop at, agrees all the same: it says
    of a missing library only its name, and goes on after it until a file is refused."""
    if world["start"] != "trace":
        return False
    texts = [r.get("glibc_says") for r in predicted.get("requests") or []]
    return real["failed"] in texts or ("missing" in real and says.startswith(real["missing"]))


def compare_expected(world, root, real):
    """Whether a hand-written world still shows the rule that it was written for."""
    at = worldgen.substitute(world, root)
    differ = []
    first, before = at.get("glibc", [None, None])
    if (first and common.GLIBC_MINOR < first) or (before and common.GLIBC_MINOR >= before):
        return differ
    if "expect" in at:
        did = [f"{outcome} {value}" for _, outcome, value in real["loads"]]
        if did != at["expect"]:
            differ.append(("expected", f"real: {did}\n      told: {at['expect']}"))
    if "expect_failed" in at and real["failed"] != at["expect_failed"]:
        differ.append(("expected", f"real: {real['failed']}\n      told: {at['expect_failed']}"))
    return differ


def start_failure(predicted):
    """How the start fails by the prediction (the loader's text), or None."""
    says = predicted.get("start_error")
    named = failing(predicted) if says is not None else None
    return f"{named} (and start_error: {says})" if named not in (None, says) else says


def compare_preloads(real, predicted):
    ours = [r.get("glibc_says") for r in predicted.get("requests") or []
            if r.get("kind") == "preload" and r.get("outcome") not in ("loaded", "reused")]
    says = [f"ERROR: ld.so: object '{name}' from LD_PRELOAD cannot be preloaded ({why}): ignored."
            for name, why in real["preloads"]]
    if ours != says:
        return [("preload", f"real: {says}\n      ours: {ours}")]
    return []


OPEN = ": cannot open shared object file"


def same_text(ours, real):
    """The words behind OPEN are those of errno; after a search that opened no file it is what some
    earlier call left there, which is not modelled (docs/loader.md)."""
    if ours == real or not ours or not real:
        return ours == real
    heads = [text.partition(OPEN) for text in (ours, real)]
    return all(h[1] for h in heads) and heads[0][0] == heads[1][0] and not all(h[2] for h in heads)


def compare_loads(at, real, predicted):
    differ = []
    ours = predicted.get("loads") or []
    if len(ours) != len(real["loads"]):
        return [("loads", f"real: {len(real['loads'])} loads\n      ours: {len(ours)}")]
    for i, ((_, outcome, value), own) in enumerate(zip(real["loads"], ours)):
        if outcome == "err":
            if own.get("outcome") in ("loaded", "reused"):
                differ.append(("load", f"#{i} real: {value}\n      ours: {own.get('outcome')} {own.get('path')}"))
            elif not same_text(own.get("glibc_says"), value):
                differ.append(("load-text", f"#{i} real: {value}\n      ours: {own.get('glibc_says')}"))
            continue
        wanted = ("loaded" if outcome == "new" else "reused", value or at["exe"])
        if (own.get("outcome"), own.get("path")) != wanted:
            differ.append(("load", f"#{i} real: {wanted}\n      ours: {own.get('outcome')} "
                                   f"{own.get('path')} {own.get('glibc_says') or ''}"))
    return differ


# Minimising -----------------------------------------------------------------------------------


def smaller(world):
    """Every world that is one step simpler."""
    for key in ("cache", "user", "cpu"):
        if world.get(key) is not None:
            yield dict(world, **{key: None})
    for key in list(world["env"]):
        yield dict(world, env={k: v for k, v in world["env"].items() if k != key})
    if world.get("direct"):
        yield dict(world, direct=False)
    if world["cwd"] != ".":
        yield dict(world, cwd=".")
    for i in range(len(world["loads"])):
        yield dict(world, loads=world["loads"][:i] + world["loads"][i + 1:])
    for i in range(len(world["files"])):
        if world["files"][i]["type"] != "program":
            yield dict(world, files=world["files"][:i] + world["files"][i + 1:])
    if world.get("cache") and world["cache"].get("entries"):
        rows = world["cache"]["entries"]
        for i in range(len(rows)):
            yield dict(world, cache=dict(world["cache"], entries=rows[:i] + rows[i + 1:]))
    for i, spec in enumerate(world["files"]):
        for new in smaller_file(spec):
            yield dict(world, files=world["files"][:i] + [new] + world["files"][i + 1:])
    for key, value in world["env"].items():
        for text in shorter_list(value):
            yield dict(world, env=dict(world["env"], **{key: text}))
    for i, load in enumerate(world["loads"]):
        if load.get("caller"):
            new = dict(load, caller="")
            yield dict(world, loads=world["loads"][:i] + [new] + world["loads"][i + 1:])


def smaller_file(spec):
    for key in ("rpath", "runpath", "rpath_before", "flags", "flags1", "stack", "align", "undef", "defs",
                "verneed", "verdef", "mode", "tls_refs"):
        if key in spec:
            yield {k: v for k, v in spec.items() if k != key}
    for key in ("needed", "undef", "defs", "verneed", "verdef", "tls_refs"):
        for i in range(len(spec.get(key) or [])):
            if spec[key][i] != "libc.so.6":
                yield dict(spec, **{key: spec[key][:i] + spec[key][i + 1:]})
    for key in ("rpath", "runpath"):
        for text in shorter_list(spec.get(key) or ""):
            yield dict(spec, **{key: text})


def shorter_list(text):
    parts = text.split(":")
    for i in range(len(parts) if len(parts) > 1 else 0):
        yield ":".join(parts[:i] + parts[i + 1:])


def minimise(bench, world, categories, deadline):
    """The smallest world found that still differs in one of `categories`."""
    changed = True
    while changed and time.monotonic() < deadline:
        changed = False
        for candidate in smaller(world):
            if time.monotonic() > deadline:
                break
            differ, _, _ = bench.judge(candidate)
            if differ and categories & {c for c, _ in differ}:
                world, changed = candidate, True
                break
    return world


# Running --------------------------------------------------------------------------------------

bench = None


def start_worker(kind, gpumend, host, folder, namespace):
    global bench
    own = tempfile.mkdtemp(dir=folder)
    os.chmod(own, 0o755)
    bench = kind(gpumend, host, own, namespace)


def draw(seed, number, abilities, machine, start=None):
    return worldgen.Generator(random.Random(f"{seed}:{number}"), abilities, machine).world(start)


def work(job):
    """One world: a path of a stored one, or (seed, number). Returns its name and what came of it."""
    if isinstance(job, str):
        with open(job) as source:
            world = dict(worldgen.DEFAULTS, **json.load(source))
        name = os.path.relpath(job, common.HERE)
    else:
        seed, number, abilities, machine, begun = job
        world, name = draw(seed, number, abilities, machine, begun), f"{seed}:{number}"
    try:
        differ, real, predicted = bench.judge(world)
    except Exception as error:  # a fault of the test itself must name its world
        return name, world, [("test", f"{type(error).__name__}: {error}")], None, None
    return name, world, differ, real, predicted


def work_minimise(job):
    world, categories, seconds = job
    return minimise(bench, world, set(categories), time.monotonic() + seconds)


def show(name, differ, predicted):
    print(f"FAIL {name}")
    for category, text in differ:
        print(f"  {category}: {text}")
    if predicted and predicted.get("command"):
        print("  " + " ".join(repr(c) if re.search(r"[^\w@%+=:,./-]", c) else c
                              for c in predicted["command"][1:]))


def keep(world, differ, name, folder):
    os.makedirs(folder, exist_ok=True)
    text = json.dumps(dict(world, found=sorted({c for c, _ in differ}), from_seed=name), indent=1,
                      sort_keys=True)
    path = os.path.join(folder, hashlib.sha256(text.encode()).hexdigest()[:12] + ".json")
    with open(path, "w") as out:
        out.write(text + "\n")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="random worlds (default 2000)")
    parser.add_argument("--seed", type=int, help="default: a fresh one, which is printed")
    parser.add_argument("--only", type=int, help="run this one random world of the seed and show it")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--machine", choices=list(worldgen.MACHINES), default="x86-64")
    parser.add_argument("--start", choices=["musl"], help="only worlds that are started so")
    parser.add_argument("--gpumend")
    parser.add_argument("--keep", default=os.path.join(common.HERE, "kept"), help="where failing worlds go")
    parser.add_argument("--minimise", type=int, default=8, help="how many failing worlds to minimise")
    parser.add_argument("--world", action="append", help="run only this stored world")
    parser.add_argument("--selftest", action="store_true",
                        help="only run the real loader and count what it did; needs no gpumend")
    options = parser.parse_args()
    why = why_not(options.machine)
    if why:
        print(f"worlds: {why}")
        return common.closing_line(0, 0, 1)
    seed = options.seed if options.seed is not None else seeding.fresh()
    folder = tempfile.mkdtemp(prefix="gpumend-worlds-")
    os.chmod(folder, 0o755)
    try:
        return campaign(options, seed, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def why_not(machine):
    """Why this system cannot run the worlds of a machine, or None."""
    if machine == "x86-64" and (os.uname().machine != "x86_64" or not os.path.exists(common.LOADER)):
        return "the worlds are x86-64 programs for glibc, which this system cannot run"
    if machine == "aarch64":
        missing = [what for what, have in (
            ("qemu-user-static", os.path.exists(QEMU)), (CROSS_COMPILER, shutil.which(CROSS_COMPILER)),
            ("root or a namespace of users", os.getuid() == 0 or namespace_works())) if not have]
        return f"worlds of aarch64 need {', '.join(missing)}" if missing else None
    return None


def abilities_of(machine):
    if machine != "x86-64":
        return {"cache", "cpu", "pages"} | ({"user"} if os.getuid() == 0 else set())
    able = set()
    if namespace_works():
        able.add("cache")
    else:
        print("worlds: no private mount namespace here, so no world has an ld.so.cache of its own")
    if os.getuid() == 0:
        able.add("user")
    else:
        print("worlds: not root, so no world runs as another user")
    if os.path.exists(common.MUSL_LOADER):
        able.add("musl")
    else:
        print("worlds: no musl here, so no world is listed by its loader")
    able.add("cpu")
    able.update("not " + level for level in not_to_be_forced())
    return able


def namespace_works():
    child = os.fork()
    if child == 0:
        os._exit(0 if enter_namespace() else 1)
    return os.waitpid(child, 0)[1] == 0


def stored_for(machine):
    """The stored worlds of a machine: the hand-written ones, and those that failed once."""
    worlds = [path for folder in ("seeds", "kept")
              for path in sorted(glob.glob(os.path.join(common.HERE, folder, "*.json")))]
    def is_of(path):
        with open(path) as source:
            return json.load(source).get("machine", worldgen.DEFAULTS["machine"]) == machine
    return list(filter(is_of, worlds))


def campaign(options, seed, folder):
    gpumend = "/bin/true" if options.selftest else common.private_copy(
        common.find_gpumend(options.gpumend), folder)
    cross = options.machine != "x86-64"
    host = common.compile_host("host.c", os.path.join(folder, "host"), "-Wl,-z,lazy",
                               compiler=CROSS_COMPILER if cross else "gcc")
    if not host:
        print("worlds: no working gcc")
        return common.closing_line(0, 0, 1)
    able = abilities_of(options.machine)
    stored = options.world or stored_for(options.machine)
    numbers = [] if options.world else range(options.count)
    if options.start == "musl":
        if "musl" not in able:
            return common.closing_line(0, 0, 1)
        stored = []
    if options.only is not None:
        stored, numbers = [], [options.only]
    print(f"worlds: seed {seed}, {len(stored)} stored and {len(numbers)} random worlds")
    jobs = stored + [(seed, n, able, options.machine, options.start) for n in numbers]
    if options.only is not None:
        print(json.dumps(draw(seed, options.only, able, options.machine, options.start), indent=1))
    passed, failed, skipped = 0, [], collections.Counter()
    seen = collections.Counter()
    began = time.monotonic()
    with multiprocessing.Pool(options.jobs, start_worker,
                              (CrossBench if cross else Bench, gpumend, host, folder, "cache" in able)) as pool:
        for name, world, differ, real, predicted in pool.imap_unordered(work, jobs, 8):
            if differ is None:
                skipped[re.sub(r"['\"]?/\S+", "PATH", str(real))] += 1
                continue
            count(seen, real)
            if options.selftest:
                differ = [d for d in differ if d[0] == "expected"]
            if differ:
                failed.append((name, world, differ))
                show(name, differ, predicted)
            else:
                passed += 1
        print_counts(seen, skipped, time.monotonic() - began)
        fresh = [f for f in failed if ":" in f[0]][:options.minimise]
        small = pool.map(work_minimise, [(w, [c for c, _ in d], 30) for _, w, d in fresh], 1)
        again = pool.map(judge_again, small, 1)
    for (name, _, _), world, (differ, predicted) in zip(fresh, small, again):
        path = keep(world, differ or [], name, options.keep)
        print(f"kept {os.path.relpath(path)} (from {name})")
        show(path, differ or [], predicted)
    return common.closing_line(passed, len(failed), sum(skipped.values()))


def judge_again(world):
    differ, _, predicted = bench.judge(world)
    return differ, predicted


def count(seen, real):
    """How much the worlds exercised: a suite whose starts all fail would prove little."""
    if not real:
        return
    if real["failed"] is not None:
        seen["failed starts"] += 1
        return
    seen["starts"] += 1
    seen["objects"] += len(real["map"]) + 1
    seen["failed preloads"] += len(real["preloads"])
    for _, outcome, _ in real["loads"]:
        seen[{"new": "loaded", "old": "reused", "err": "failed loads"}[outcome]] += 1


def print_counts(seen, skipped, seconds):
    print("worlds: " + ", ".join(f"{n} {what}" for what, n in sorted(seen.items())) +
          f"; {seconds:.0f} s")
    for why, n in skipped.most_common():
        print(f"worlds: {n} skipped: {why}")


if __name__ == "__main__":
    sys.exit(main())
