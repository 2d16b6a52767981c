#!/usr/bin/python3
"""Side-by-side assemblies in the model against Wine's loader.

    tests/windows/assemblies.py BUILD

A program and DLLs with manifests, built by MinGW: private assemblies beside them, in folders of their
own, one whose DLL is not there, and one that only a DLL's manifest names, in UTF-8 and UTF-16, with a
prefix and with comments; loads by bare names and paths, with flags, before and after a copy of the same name. Compared are codes, paths and modules, as
in tests/windows/worlds.py.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import wine  # noqa: E402
import worlds  # noqa: E402

HERE = Path(__file__).resolve().parent
FLAGS = [0, 8, 0x1000, 0x1100, 0x800, 0x500]
# How a manifest may be written; all but the first with a few of the sets.
FORMS = {"UTF-8": lambda text: text.encode(), "a mark": lambda text: text.encode("utf-8-sig"),
         "UTF-16": lambda text: b"\xff\xfe" + utf16(text).encode("utf-16-le"),
         "UTF-16, other order": lambda text: b"\xfe\xff" + utf16(text).encode("utf-16-be"),
         "UTF-16, no mark": lambda text: utf16(text).encode("utf-16-le"),
         "a prefix": lambda text: re.sub("<(/?)(?=[a-z])", r"<\1asm:", text).replace("xmlns=", "xmlns:asm=").encode(),
         "comments": lambda text: re.sub("<(assemblyIdentity|file)", r"<!-- <file name='x.dll'/>\n --><\1",
                                         text).encode()}
# Names of one world have its number behind "tw"; @ stands for both.
SETS = [["@a.dll"], ["@A"], ["@b"], ["@gone.dll"], ["C:\\x\\@a.dll"], ["C:\\x\\@top.dll"], ["C:\\x\\@deep.dll"],
        ["C:\\y\\@man.dll"], ["C:\\z\\@own.dll"], ["C:\\x\\@a.dll", "@a.dll", "C:\\x\\@top.dll"],
        ["C:\\x\\@e.dll", "C:\\z\\@own.dll", "@e.dll"], ["C:\\y\\@man.dll", "@c.dll", "@d.dll"]]


def identity(name):
    return f'<assemblyIdentity type="win32" name="{name}" version="1.0.0.0" processorArchitecture="amd64"/>'


def manifest(name, needs=(), files=()):
    parts = [identity(name)]
    parts += [f"<dependency><dependentAssembly>{identity(n)}</dependentAssembly></dependency>" for n in needs]
    parts += [f'<file name="{f}"></file>' for f in files]
    return ('<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<assembly xmlns="urn:schemas-microsoft-com:'
            'asm.v1" manifestVersion="1.0">\n' + "\n".join(parts) + "\n</assembly>\n")


def utf16(text):
    return text.replace('"UTF-8"', '"UTF-16"')


class Builder:
    def __init__(self, folder, form):
        self.folder, self.form = folder, form

    def run(self, *words):
        subprocess.run(words, cwd=self.folder, check=True)

    def resource(self, number, text):
        (self.folder / "m.manifest").write_bytes(self.form(text))
        (self.folder / "m.rc").write_text(f'{number} 24 "m.manifest"\n')
        self.run(wine.CC.replace("gcc", "windres"), "m.rc", "-O", "coff", "-o", "m.o")

    def program(self, path, text):
        self.resource(1, text)
        self.run(wine.CC, "-O1", "-o", str(path), str(HERE / "driver.c"), "m.o")

    def dll(self, path, text, wanted):
        self.resource(2, text)
        (self.folder / "i.def").write_text(f"LIBRARY {wanted}\nEXPORTS\n f\n")
        self.run(wine.CC.replace("gcc", "dlltool"), "-d", "i.def", "-l", "libi.a")
        (self.folder / "d.c").write_text(
            "__declspec(dllimport) int f(void);\n__declspec(dllexport) int g(void) { return f(); }\n")
        path.parent.mkdir(parents=True, exist_ok=True)
        self.run(wine.CC, "-shared", "-nostdlib", "-Wl,--entry=0", "-o", str(path), "d.c", "m.o", "libi.a")


def files_of(world, drive, builder, names):
    def name(text):
        return text.replace("@", f"tw{world}")

    def put(path, *imports):
        path = drive / name(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wine.dll([name(i) for i in imports]))

    for path in ("app/one/@a.dll", "app/@b.dll", "x/@a.dll", "x/@b.dll", "x/@gone.dll", "x/@c.dll", "x/@d.dll",
                 "x/@e.dll", "x/@f.dll", "z/@own/@f.dll", "z/@f.dll"):
        put(path)
    put("x/@top.dll", "@a.dll"), put("x/@deep.dll", "@top.dll", "@b.dll")
    put("y/@c.dll", "@d.dll"), put("z/@own/@e.dll", "@f.dll")
    if "C:\\y\\@man.dll" in names:
        builder.dll(drive / name("y/@man.dll"), manifest("man", [name("@c")]), name("@c.dll"))
    if "C:\\z\\@own.dll" in names:
        builder.dll(drive / name("z/@own.dll"), manifest("own", [name("@own")]), name("@e.dll"))
    for path, needed, files in (("y/@c.manifest", "@c", ["@C.DLL"]), ("z/@own/@own.manifest", "@own", ["@e.dll", "@f.dll"])):
        text = manifest(name(needed), files=[name(f) for f in files])
        (drive / name(path)).write_bytes(builder.form(text))
    return name


def compare(folder, build, how, cases):
    """Performs the cases with manifests of one form; returns how many failed."""
    prefix, builder = wine.Wine(folder / "prefix"), Builder(folder, FORMS[how])
    drive, failed = prefix.drive_c, 0
    (drive / "app/one").mkdir(parents=True)
    lines = []
    for world, (flags, names) in enumerate(cases):
        name = files_of(world, drive, builder, names)
        lines += [f"world\t{world}", "path\tC:\\x", "add\tC:\\x"]
        lines += [f"load\t{flags:#x}\t{name(text)}" for text in names]
    every = range(len(cases))
    one = manifest("one", files=[f"tw{n}{c}.dll" for n in every for c in ("a", "gone")])
    (drive / "app/one/one.manifest").write_bytes(builder.form(one))
    two = manifest("two", files=[f"TW{n}B.dll" for n in every])
    (drive / "app/two.manifest").write_bytes(builder.form(two))
    builder.program(drive / "app/program.exe", manifest("program", ["one", "two"]))
    script = folder / "script"
    script.write_text("\n".join(lines) + "\n")
    exe = "C:\\app\\program.exe"
    real = worlds.answers(prefix.run(exe, wine.windows_path(script), "C:\\"))
    done = subprocess.run([wine.built(build, "modeldriver"), script, "C:\\", exe, f"C:{drive}", "Z:/"],
                          capture_output=True, check=True, text=True)
    model = worlds.answers(done.stdout)
    for world, (flags, names) in enumerate(cases):
        n, odd = worlds.compare(real.get(world, []), model.get(world, []))
        if odd is not None or n == 0:
            failed += 1
            print(f"FAIL {how}, {names} {flags:#x}: Wine {real.get(world)}, the model {model.get(world)}")
    return failed


def main():
    if reason := wine.missing():
        print(f"SKIP {reason} (scripts/setup test installs it)")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    failed = count = 0
    for how in FORMS:
        first = how == "UTF-8"
        cases = [(flags, names) for names in (SETS if first else SETS[:5:2] + SETS[-1:])
                 for flags in (FLAGS if first else FLAGS[:1])]
        with tempfile.TemporaryDirectory() as scratch:
            failed += compare(Path(scratch), Path(sys.argv[1]).resolve(), how, cases)
        count += len(cases)
    print(f"{count - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
