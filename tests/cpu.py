#!/usr/bin/env python3
"""The processor that a tree is judged by is its own: of its /proc/cpuinfo, of the machine that is
named with --host, of the snapshot, or of --cpu; else it is not known, and nothing is guessed.

    tests/cpu.py GPUMEND

The same libraries lie in the usual folder and in folders for newer processors; which is taken, and
whether what it needs is there, must not depend on the processor that this test runs on.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent
sys.path.insert(0, str(TOP / "causes"))
import tree  # noqa: E402
from tree import elfgen  # noqa: E402

PROGRAM = "/opt/app/bin/app"
FOLDER = "/opt/app/lib"
V3, V4 = FOLDER + "/glibc-hwcaps/x86-64-v3", FOLDER + "/glibc-hwcaps/x86-64-v4"
FLAGS = ["cmov cx8 fpu fxsr mmx sse sse2", "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
         "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
         "avx512f avx512bw avx512cd avx512dq avx512vl"]
# Cut in the middle of the flags, binary, of no processor, of another architecture, two that differ.
DAMAGED = {"cut": "processor\t: 0\nflags\t\t: " + " ".join(FLAGS[:2]),
           "binary": "flags : \x7fELF\x02\x01\n" * 9, "empty": "",
           "no flags of a processor": "flags : vme\n",
           "Arm": "processor\t: 0\nFeatures\t: fp asimd evtstrm\n",
           "two that differ": "flags : %s\nflags : %s\n" % (FLAGS[0], " ".join(FLAGS))}

failures = passes = 0


def check(name, holds, detail=""):
    global failures, passes
    passes += bool(holds)
    failures += not holds
    if not holds:
        print(f"FAIL {name}: {str(detail)[-1500:]}")


def cpuinfo(level, vendor="AuthenticAMD"):
    flags = " ".join(FLAGS[:level])
    return "".join(f"processor\t: {n}\nvendor_id\t: {vendor}\nflags\t\t: {flags}\n\n"
                   for n in range(2))


def world(folder, info=None, fails_from=None):
    """A program and libx.so.1, of which there is one for v3; with `fails_from` that one needs what
    is nowhere."""
    t = tree.Tree(folder)
    t.loader()
    t.put(PROGRAM, tree.elf(None, interp=tree.LOADER, needed=["libx.so.1"], runpath=FOLDER))
    t.lib(FOLDER + "/libx.so.1")
    t.lib(V3 + "/libx.so.1", **({"needed": ["libnowhere.so.1"]} if fails_from else {}))
    if info is not None:
        t.put("/proc/cpuinfo", info)
    return t


def gpumend(exe, *arguments):
    done = subprocess.run([str(exe), *map(str, arguments)], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin"}, cwd="/", timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def taken(exe, t, *options):
    """(status, which libx.so.1, what depends on the processor)"""
    status, out, errors = gpumend(exe, "why", "--root", t.top, "--exe", PROGRAM, "--json", *options)
    document = json.loads(out) if out else {"objects": [], "depends_on_cpu": errors}
    paths = [o["path"] for o in document["objects"] if o["path"].endswith("libx.so.1")]
    return status, paths[0] if paths else None, document["depends_on_cpu"]


def judged(exe, *arguments):
    status, out, errors = gpumend(exe, "check", "--json", "--glibc", "2.38", *arguments)
    return status, json.loads(out) if out else {"errors": errors}


def of_cpuinfo(exe, top):
    for level, vendor in ((1, "AuthenticAMD"), (2, "GenuineIntel"), (3, "GenuineIntel"),
                          (4, "AuthenticAMD")):
        t = world(top / f"level {level}", cpuinfo(level, vendor))
        status, path, depends = taken(exe, t)
        expected = (V3 if level >= 3 else FOLDER) + "/libx.so.1"
        check(f"why: /proc/cpuinfo of level {level}", (status, path, depends) == (0, expected, []),
              (status, path, depends))
        status, document = judged(exe, "--root", t.top, PROGRAM)
        check(f"check: /proc/cpuinfo of level {level}", status == 0 and
              document["host"]["cpu_level"] == f"x86-64-v{level}", (status, document.get("host")))
        devices = json.loads(gpumend(exe, "devices", "--root", t.top, "--json")[1])
        check(f"devices: /proc/cpuinfo of level {level}",
              devices["cpu"]["isa"]["value"] == f"x86-64-v{level}", devices["cpu"])
        status, path, _ = taken(exe, t, "--cpu", "x86-64-v1")
        check(f"--cpu wins over level {level}", (status, path) == (0, FOLDER + "/libx.so.1"), path)


def of_nothing(exe, top):
    for name, info in (("absent", None), *DAMAGED.items()):
        t = world(top / f"info {name}", info)
        status, path, depends = taken(exe, t)
        check(f"why: {name}: both are named, and none is believed",
              status == 3 and depends == [f"libx.so.1 is {V3}/libx.so.1"], (status, path, depends))
        text = gpumend(exe, "why", "--root", t.top, "--exe", PROGRAM)[1]
        check(f"why: {name}: in words", "cannot tell" in text and "--cpu LEVEL" in text, text)
        devices = gpumend(exe, "devices", "--root", t.top, "--json")[1]
        check(f"devices: {name}: no level", "x86-64-v" not in devices, devices[-900:])
        status, document = judged(exe, "--root", t.top, PROGRAM)
        check(f"check: {name}: the same with every processor", status == 0 and
              document["host"]["cpu_level"] is None and document["host"]["cpu_level_why"] and
              "the same with every processor" in json.dumps(document["notes"]), document)
    t = world(top / "nothing", None)
    t.remove(V3 + "/libx.so.1")
    check("why: where nothing depends on it, nothing is said",
          taken(exe, t) == (0, FOLDER + "/libx.so.1", []), taken(exe, t))


def of_releases(exe, top):
    """glibc looks below glibc-hwcaps from 2.33 on."""
    t = world(top / "releases", cpuinfo(4))
    for release, folder in (("2.32", FOLDER), ("2.33", V3), ("2.34", V3)):
        status, path, _ = taken(exe, t, "--glibc", release)
        check(f"why: glibc {release}", (status, path) == (0, folder + "/libx.so.1"), (status, path))


def of_tunables(exe, top):
    """Which features are left is the loader's to say: not known, unless it is stated."""
    t = world(top / "tunables", cpuinfo(4))
    mask = ["--env", "GLIBC_TUNABLES=glibc.malloc.check=0:glibc.cpu.hwcaps=-AVX2"]
    status, _, depends = taken(exe, t, *mask)
    check("GLIBC_TUNABLES that masks features", status == 3 and depends, (status, depends))
    status, path, _ = taken(exe, t, *mask, "--cpu", "x86-64-v2")
    check("and --cpu", (status, path) == (0, FOLDER + "/libx.so.1"), (status, path))
    status, path, _ = taken(exe, t, "--env", "GLIBC_TUNABLES=glibc.malloc.check=0")
    check("other tunables", (status, path) == (0, V3 + "/libx.so.1"), (status, path))


def of_verdicts(exe, top):
    """The library for newer processors is broken: broken from v3 on, not before, else not known."""
    for level in (1, 2, 3, 4):
        t = world(top / f"verdict {level}", cpuinfo(level), fails_from=3)
        status, document = judged(exe, "--root", t.top, PROGRAM)
        check(f"check: broken from v3 on, at v{level}",
              (status, document["verdict"]) == ((1, "broken") if level >= 3 else (0, "ok")), document)
    t = world(top / "verdict unknown", None, fails_from=3)
    status, document = judged(exe, "--root", t.top, PROGRAM)
    notes = json.dumps(document["notes"])
    check("check: broken with some processors is neither ok nor broken",
          (status, document["verdict"], document["findings"]) == (3, "unknown", []) and
          "only with x86-64-v3" in notes and "--cpu LEVEL" in notes, document)
    text = gpumend(exe, "check", "--glibc", "2.38", "--root", t.top, PROGRAM)[1]
    text = " ".join(text.split())
    check("check: in words", "--cpu LEVEL" in text and "only with x86-64-v3" in text, text)
    for option, expected in (("x86-64-v2", 0), ("x86-64-v4", 1)):
        status, _ = judged(exe, "--root", t.top, "--cpu", option, PROGRAM)
        check(f"check: --cpu {option} settles it", status == expected, status)
    machine = world(top / "machine", cpuinfo(4))
    status, document = judged(exe, "--root", t.top, "--host", machine.top, PROGRAM)
    check("check: --host's processor", status == 1 and
          document["host"]["cpu_level"] == "x86-64-v4", document)
    t.put(FOLDER + "/libx.so.1", tree.elf("libx.so.1", needed=["libnowhere.so.1"]))
    status, document = judged(exe, "--root", t.top, PROGRAM)
    check("check: broken with every processor is broken", status == 1 and
          document["verdict"] == "broken", document)
    t.put(FOLDER + "/libx.so.1", tree.compiled("int here(void); int here(void) { return 1; }",
                                               "-Wl,-soname,libx.so.1", "-Wl,-z,x86-64-v3"))
    t.lib(V3 + "/libx.so.1")
    status, document = judged(exe, "--root", t.top, PROGRAM)
    check("check: a library that asks for v3: cannot tell", status == 3 and
          "asks for x86-64-v3" in json.dumps(document["notes"]), document)


def of_entries(exe, top):
    """A package whose library is broken for newer processors: whether it works cannot be determined."""
    t = tree.Tree(top / "entries").python().ctranslate2()
    t.system_cublas()
    t.put(tree.SYSTEM + "/glibc-hwcaps/x86-64-v3/libcublas.so.12", "no library")
    for options, expected in (([], "unknown"), (["--cpu", "x86-64-v2"], "ok"),
                              (["--cpu", "x86-64-v3"], "broken")):
        _, document = judged(exe, "--root", t.top, *options, t.prefix)
        found = [e["verdict"] for e in document["entries"] if e["module"] == "ctranslate2"]
        check(f"check: the entry, {options}", found == [expected] == [document["verdict"]], document)


def of_snapshots(exe, top):
    t = world(top / "taken", cpuinfo(2), fails_from=3)
    for name, options, level in (("of the tree", [], 2), ("stated", ["--cpu", "x86-64-v3"], 3)):
        status, out, errors = gpumend(exe, "snapshot", "--glibc", "2.38", "--root", t.top, *options,
                                      PROGRAM)
        check(f"snapshot, {name}: taken", status == 0, errors)
        file = top / f"{level}.json"
        file.write_text(out)
        check(f"snapshot, {name}: its level",
              json.loads(out)["host_facts"]["cpu"]["level"] == level, out[-500:])
        status, out, errors = gpumend(exe, "check", "--snapshot", file, "--json")
        check(f"snapshot, {name}: judged by it", status == (level >= 3) and
              json.loads(out)["host"]["cpu_level"] == f"x86-64-v{level}", (status, errors))
        status, out, errors = gpumend(exe, "check", "--snapshot", file, "--cpu", "x86-64-v4")
        check(f"snapshot, {name}: --cpu beside it: what it does not hold is said",
              status == (1 if level >= 3 else 3), (status, out, errors))
    bare = world(top / "bare", None, fails_from=3)
    file = top / "bare.json"
    file.write_text(gpumend(exe, "snapshot", "--glibc", "2.38", "--root", bare.top, PROGRAM)[1])
    status, out, _ = gpumend(exe, "check", "--snapshot", file, "--json")
    check("snapshot of an unknown processor: cannot tell", status == 3 and
          json.loads(out)["host"]["cpu_level_why"], (status, out[-500:]))


def of_images(exe, top):
    t = world(top / "image", None, fails_from=3)
    newer, older = world(top / "newer", cpuinfo(3)), world(top / "older", cpuinfo(2))
    for name, options, expected in (("--cpu v2", ["--cpu", "x86-64-v2"], 0),
                                    ("--cpu v3", ["--cpu", "x86-64-v3"], 1),
                                    ("the host's, older", ["--host", older.top], 0),
                                    ("the host's, newer", ["--host", newer.top], 1)):
        status, out, errors = gpumend(exe, "container", "check", t.top, PROGRAM, *options)
        check(f"container check: {name}", status == expected, (status, out, errors))


def of_this_machine(exe, top):
    """--root / is this machine, and so is a live process; another architecture has no levels."""
    own = json.loads(gpumend(exe, "check", "--json", "/bin/ls")[1])["host"]["cpu_level"]
    root = gpumend(exe, "check", "--json", "--root", "/", "/bin/ls")[1]
    root = json.loads(root)["host"]["cpu_level"]
    status, out, _ = gpumend(exe, "check", "--json", "--pid", os.getpid())
    check("this machine: --root / and --pid", own and own == root and
          json.loads(out)["host"]["cpu_level"] == own, (own, root, status))


ARM_LOADER = "/lib/ld-linux-aarch64.so.1"
ARM_CPU = "CPU implementer\t: 0x41\nCPU architecture: 8\n"


def arm_world(folder, shift=0x1000, info=DAMAGED["Arm"] + ARM_CPU, config="", release="6.8.0-arm64"):
    """A program of aarch64 and its libx.so.1, whose data lie `shift` further in memory than in the file."""
    t = tree.Tree(folder)
    machine = {"machine": tree.elfgen.AARCH64}
    t.put(ARM_LOADER, tree.elf("ld-linux-aarch64.so.1", verdef=["GLIBC_PRIVATE"], **machine))
    t.put(PROGRAM, tree.elf(None, interp=ARM_LOADER, needed=["libx.so.1"], runpath=FOLDER, **machine))
    t.put(FOLDER + "/libx.so.1", tree.elf("libx.so.1", shift=shift, **machine))
    if info is not None:
        t.put("/proc/cpuinfo", info)
    if release:
        t.put("/proc/sys/kernel/osrelease", release + "\n")
    if config:
        t.put(f"/boot/config-{release}", config)
    return t


def of_pages(exe, top):
    """The page size of aarch64 is the kernel's choice: it comes from the configuration of the kernel
    that runs, or from --page-size, or is not known and decides nothing that differs by it."""
    configs = {4: "# CONFIG_ARM64_64K_PAGES is not set\nCONFIG_ARM64_4K_PAGES=y\n",
               16: "CONFIG_ARM64_16K_PAGES=y\n", 64: "CONFIG_ARM64_64K_PAGES=y\n"}
    for shift, fits in ((0x1000, 4), (0x4000, 16), (0x10000, 64)):
        for size, config in configs.items():
            name = f"segments {shift >> 10} KiB apart, pages of {size} KiB"
            t = arm_world(top / f"pages-{shift}-{size}", shift, config=config)
            verdict = "ok" if size <= fits else "broken"
            status, document = judged(exe, "--root", t.top, PROGRAM)
            check(name, document["verdict"] == verdict and
                  document["host"]["page_size"] == size << 10, (status, document["verdict"]))
            u = arm_world(top / f"stated-{shift}-{size}", shift)
            _, document = judged(exe, "--root", u.top, "--page-size", str(size << 10), PROGRAM)
            check(name + ", stated", document["verdict"] == verdict, document["verdict"])
            file = t.top / "x.snapshot"
            file.write_text(gpumend(exe, "snapshot", "--root", t.top, PROGRAM)[1])
            document = json.loads(gpumend(exe, "check", "--json", "--snapshot", file)[1])
            check(name + ", from a snapshot", document["verdict"] == verdict, document["verdict"])
        unknown = arm_world(top / f"unknown-{shift}", shift, release=None)
        status, document = judged(exe, "--root", unknown.top, PROGRAM)
        expected = ("ok", 0) if fits == 64 else ("unknown", 3)
        check(f"segments {shift >> 10} KiB apart, pages not known",
              (document["verdict"], status) == expected and document["host"]["page_size"] is None,
              (status, document["verdict"], document["notes"]))
        if fits < 64:
            notes = " ".join(document["notes"])
            check("... and it says which decide", "--page-size BYTES" in notes and
                  "libx.so.1 cannot be loaded" in notes, notes)
            status, text, _ = gpumend(exe, "why", "--root", unknown.top, "--exe", PROGRAM,
                                      "--cpu", "armv8.1-a")
            check("why: cannot tell", status == 3 and "--page-size" in text, (status, text))
    for page in ("8192", "64K", "", "0", "-1"):
        status, _, errors = gpumend(exe, "check", "--root", unknown.top, "--page-size", page, PROGRAM)
        check(f"--page-size '{page}' is refused", status == 2 and "--page-size expects" in errors, errors)
    main = arm_world(top / "main", 0, config=configs[64])
    main.put(PROGRAM, tree.elf(None, interp=ARM_LOADER, shift=0x1000, machine=tree.elfgen.AARCH64))
    _, document = judged(exe, "--root", main.top, PROGRAM)
    check("a program that the kernel cannot map", document["verdict"] == "broken" and
          "pages of 64 KiB" in json.dumps(document["findings"]), document["findings"])
    for name, info, level in (("with atomics", "Features\t: fp atomics\n" * 2 + ARM_CPU, "armv8.1-a"),
                              ("one without", "Features : atomics\nFeatures : fp\n" + ARM_CPU, "armv8.0-a"),
                              ("cut", "Features : fp atomics", None), ("absent", None, None)):
        t = arm_world(top / ("level " + name), 0, info, configs[4])
        t.put(FOLDER + "/atomics/libx.so.1", tree.elf("libx.so.1", machine=tree.elfgen.AARCH64))
        status, document = judged(exe, "--root", t.top, "--glibc", "2.36", PROGRAM)
        path = FOLDER + ("/atomics" if level == "armv8.1-a" else "") + "/libx.so.1"
        check("level: " + name, document["host"]["cpu_level"] == level and
              document["processes"][0]["objects"][1]["path"] == path, document["processes"][0]["objects"])


def of_machines(exe, folder):
    """A tree that does not say what its machine is has that of its shell, else that of its program;
    never that of the machine that judges it."""
    arm = {"interp": "/lib/ld-linux-aarch64.so.1", "machine": elfgen.AARCH64}
    x86 = {"interp": tree.LOADER}
    for name, program, shell, fits in (
            ("aarch64", arm, None, True), ("x86-64", x86, None, True),
            ("aarch64 with its shell", arm, arm, True), ("x86-64 with its shell", x86, x86, True),
            ("aarch64 with a shell of x86-64", arm, x86, False),
            ("x86-64 with a shell of aarch64", x86, arm, False)):
        t = tree.Tree(folder / ("machine " + name))
        t.put(PROGRAM, tree.elf(None, **program))
        t.put("/proc/cpuinfo", "processor\t: 0\n")
        t.put("/sys/kernel/notes", "")
        if shell:
            t.put("/bin/sh", tree.elf(None, **shell))
        _, text, errors = gpumend(exe, "check", "--root", t.top, PROGRAM)
        check(f"program and machine: {name}", text and ("is built for" in text) != fits,
              (text, errors))


def of_values(exe, top):
    t = world(top / "values", cpuinfo(1))
    for command in (["check", "--root", t.top, PROGRAM], ["fix", "--root", t.top, PROGRAM],
                    ["why", "--root", t.top, "--exe", PROGRAM],
                    ["snapshot", "--root", t.top, PROGRAM], ["container", "check", t.top, PROGRAM]):
        for value in ("x86-64-v5", "x86-64", "", "v3", "native", "armv9-a"):
            status, _, errors = gpumend(exe, *command, "--cpu", value)
            check(f"{command[0]} --cpu '{value}' is refused",
                  status == 2 and "--cpu expects" in errors, (status, errors))


def main():
    exe = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="gpumend-cpu.") as folder:
        for part in (of_cpuinfo, of_nothing, of_releases, of_tunables, of_verdicts, of_entries, of_snapshots,
                     of_images, of_this_machine, of_pages,
                     of_machines, of_values):
            part(exe, Path(folder))
    print(f"{passes} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
