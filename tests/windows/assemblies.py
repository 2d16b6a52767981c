#!/usr/bin/python3
"""Side-by-side assemblies in the model against Wine's loader.

    tests/windows/assemblies.py BUILD

A program and DLLs with manifests, built by MinGW: private assemblies beside them, in folders of their
own, one whose DLL is not there, and one that only a DLL's manifest names; loads by bare names and
paths, with flags, before and after a copy of the same name. Compared are codes, paths and modules, as
in tests/windows/worlds.py.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import wine  # noqa: E402
import worlds  # noqa: E402

HERE = Path(__file__).resolve().parent
FLAGS = [0, 8, 0x1000, 0x1100, 0x800, 0x500]
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


class Builder:
    def __init__(self, folder):
        self.folder = folder

    def run(self, *words):
        subprocess.run(words, cwd=self.folder, check=True)

    def resource(self, number, text):
        (self.folder / "m.manifest").write_text(text)
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
    (drive / name("y/@c.manifest")).write_text(manifest(name("@c"), files=[name("@C.DLL")]))
    (drive / name("z/@own/@own.manifest")).write_text(manifest(name("@own"), files=[name("@e.dll"), name("@f.dll")]))
    return name


def main():
    if reason := wine.missing():
        print(f"SKIP {reason} (scripts/setup test installs it)")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prefix, builder = wine.Wine(folder / "prefix"), Builder(folder)
        (prefix.drive_c / "app/one").mkdir(parents=True)
        lines, cases = [], [(flags, names) for names in SETS for flags in FLAGS]
        for world, (flags, names) in enumerate(cases):
            name = files_of(world, prefix.drive_c, builder, names)
            lines += [f"world\t{world}", "path\tC:\\x", "add\tC:\\x"]
            lines += [f"load\t{flags:#x}\t{name(text)}" for text in names]
        every = range(len(cases))
        (prefix.drive_c / "app/one/one.manifest").write_text(
            manifest("one", files=[f"tw{n}{c}.dll" for n in every for c in ("a", "gone")]))
        (prefix.drive_c / "app/two.manifest").write_text(manifest("two", files=[f"TW{n}B.dll" for n in every]))
        builder.program(prefix.drive_c / "app/program.exe", manifest("program", ["one", "two"]))
        script = folder / "script"
        script.write_text("\n".join(lines) + "\n")
        exe = "C:\\app\\program.exe"
        real = worlds.answers(prefix.run(exe, wine.windows_path(script), "C:\\"))
        done = subprocess.run([wine.built(Path(sys.argv[1]).resolve(), "modeldriver"), script, "C:\\", exe,
                               f"C:{prefix.drive_c}", "Z:/"], capture_output=True, check=True, text=True)
        model = worlds.answers(done.stdout)
        for world, (flags, names) in enumerate(cases):
            n, odd = worlds.compare(real.get(world, []), model.get(world, []))
            if odd is not None or n == 0:
                failed += 1
                print(f"FAIL {names} {flags:#x}: Wine {real.get(world)}, the model {model.get(world)}")
    print(f"{len(cases) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
