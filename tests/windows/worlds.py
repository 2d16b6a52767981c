#!/usr/bin/python3
"""The model of Windows' loader against Wine's, on random worlds.

    tests/windows/worlds.py BUILD [--count N] [--seed S] [--keep DIR]

A world is a few folders with copies of a few DLLs (with other imports, for another machine, text
files, folders with a DLL's name, hard links, links, names that differ in case), and lines that change
what the loader searches (added folders, SetDllDirectory, SetDefaultDllDirectories, PATH, the working
directory), load and free. One in four is dense: most of its DLLs are found, and it has more exports that
lead on, loads by a path, and frees. tests/windows/driver.c does them under Wine, tests/windows/modeldriver.c in
the model; each load is compared by its error code, the path of its module, and all modules that are
loaded then, in their order. The seed is fresh, and printed.

Wine is not Windows: a failure below the top (an import) is 126 whatever it is, and leaves behind what
was loaded before it, so that a world ends there; so does one in which an export leads on to a DLL that
is nowhere, or whose start says no (or that of a DLL it imports): Wine has a stub for it. What an export has
led to is never unloaded under Wine, so that a world ends where the model unloads it, as does one with a
free while DLLs import one another. What Wine does not have is in docs/windows.md.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[1]))
import seeding  # noqa: E402
import wine  # noqa: E402

FOLDERS = ["a", "b", "c d", "Sub", "Sub/deep"]
LETTERS = "abcdef"
FLAGS = [0, 0, 0, 0, 8, 8, 0x1000, 0x1000, 0x1100, 0x1100, 0x100, 0x200, 0x400, 0x800, 0x300, 0x500,
         0x900, 0xC00, 0x1008, 0x108, 0x1900, 0x1, 0x9, 0x1001, 0x1101, 0x10]
DEFAULTS = [0x1000, 0x1000, 0x200, 0x400, 0x800, 0xC00, 0x600, 0, 0x100, 0x1100, 8]


def any_case(rng, text):
    how = rng.randrange(4)
    return text if how < 2 else text.upper() if how == 2 else text.swapcase()


class World:
    """One world: its files, made at once, and its lines."""

    def __init__(self, rng, number, top, system, with_default):
        self.rng, self.number, self.top = rng, number, top
        self.folder = top / str(number)
        self.names = [f"tw{number}{c}.dll" for c in LETTERS[:rng.randint(2, 6)]]
        self.is_dense = rng.random() < 0.25
        self.folders = FOLDERS[:2] if self.is_dense else FOLDERS
        if rng.random() < 0.2:
            self.names.append(f"tw{number}bad.dll")
        self.shared = [top / "app", system, system.parent, system.parent / "system"]
        self.lines = [f"world\t{number}"]
        self.files = []
        for folder in FOLDERS:
            (self.folder / folder).mkdir(parents=True, exist_ok=True)
        for _ in range(rng.randint(8, 24) if self.is_dense else rng.randint(2, 12)):
            self.make_file()
        if with_default:
            self.lines.append(f"default\t{rng.choice(DEFAULTS):#x}")
        for _ in range(rng.randint(3, 14)):
            self.make_line(with_default)

    def some_folder(self):
        if self.rng.random() < 0.12:
            return self.rng.choice(self.shared)
        return self.folder / self.rng.choice(self.folders)

    def make_file(self):
        rng = self.rng
        index = rng.randrange(len(self.names))
        name = any_case(rng, self.names[index]) if rng.random() < 0.3 else self.names[index]
        folder = self.some_folder()
        path = folder / name
        if any(entry.lower() == name.lower() for entry in os.listdir(folder)
               if entry.lower().startswith(f"tw{self.number}")):
            return
        kind = rng.choice([0, 0.1, 0.5, 0.5, 0.5, 0.5]) if self.is_dense else rng.random()
        if kind < 0.08 and self.files:
            os.link(rng.choice(self.files), path)
        elif kind < 0.12 and self.files:
            path.symlink_to(rng.choice(self.files))
        elif kind < 0.16:
            path.write_text("not a DLL\n" * rng.choice([0, 1, 50]))
        elif kind < 0.19:
            path.mkdir()
            return
        else:
            machine = 0x8664 if kind < 0.85 else 0x14C
            later = self.names[index + 1:]
            wanted = [any_case(rng, n) for n in later if rng.random() < 0.4]
            # By no link: Wine has no end of a circle.
            leads = any_case(rng, rng.choice(later)) if later and rng.random() < (0.4 if self.is_dense else 0.15) else None
            path.write_bytes(wine.dll(wanted, machine, refuses="bad" in name.lower(),
                                      forward=leads and leads[:-4] + rng.choice([".f", ".f", leads[-4:] + ".f"])))
            if leads:
                return
        self.files.append(path)

    def windows_folder(self):
        rng = self.rng
        if rng.random() < 0.05:
            return wine.windows_path(self.folder / "not there")
        text = wine.windows_path(self.folder / rng.choice(FOLDERS))
        how = rng.random()
        if how < 0.1:
            text = text.replace("\\", "/")
        elif how < 0.2:
            text += "\\"
        elif how < 0.3:
            text = any_case(rng, text)
        elif how < 0.35:
            text += "\\..\\" + rng.choice(["a", "b"])
        elif how < 0.38:
            text += rng.choice([" ", ".", "..", "\\."])
        return text

    def request(self):
        rng = self.rng
        name = rng.choice(self.names)
        how = rng.uniform(0.4 if self.is_dense else 0, 1)
        if how < 0.5:
            name = any_case(rng, name)
            return name[:-4] if rng.random() < 0.2 else name
        if how < 0.53:
            return "Z:" + rng.choice(["", "Sub\\", "..\\a\\"]) + name
        if how < 0.6:
            return rng.choice(["sub", "Sub\\deep", "..\\a", "Sub/deep", "."]) + "\\" + name
        if self.files and how < 0.8:
            path = rng.choice(self.files)
            if path.parent.parent == self.folder or path.parent == self.folder:
                text = wine.windows_path(path)
                if rng.random() < 0.2:
                    return rng.choice(["\\\\?\\", "\\\\.\\", "\\??\\", "//?/"]) + text
                return text[:-4] if rng.random() < 0.1 else any_case(rng, text)
        return self.windows_folder().rstrip("\\/") + rng.choice("\\\\\\/") + name

    def make_line(self, with_default):
        rng = self.rng
        how = rng.random()
        if how < 0.5:
            flags = rng.choice([0, 8, 8, 0x1100] if self.is_dense else FLAGS)
            self.lines.append(f"load\t{flags:#x}\t{self.request()}")
        elif how < 0.62:
            self.lines.append("add\t" + ("Sub" if rng.random() < 0.05 else self.windows_folder()))
        elif how < 0.66:
            added = [line[4:] for line in self.lines if line.startswith("add\t")]
            if added:
                self.lines.append(f"remove\t{rng.choice(added)}")
        elif how < 0.72:
            self.lines.append("unset" if rng.random() < 0.3 else
                              "setdir\t" + rng.choice([self.windows_folder(), self.windows_folder(),
                                                       "Sub"]))
        elif how < 0.8:
            folders = [self.windows_folder() for _ in range(rng.randint(0, 3))]
            if rng.random() < 0.1:
                folders.append("Sub")
            self.lines.append("path\t" + ";".join(folders))
        elif how < 0.86:
            self.lines.append("cd\t" + wine.windows_path(self.folder / rng.choice(["", *FOLDERS])))
        elif how < (0.99 if self.is_dense else 0.93):
            loads = sum(line.startswith("load\t") for line in self.lines)
            if loads:
                self.lines.append(f"free\t{rng.randrange(loads)}")
        elif with_default:
            self.lines.append(f"default\t{rng.choice(DEFAULTS):#x}")


def answers(text):
    """Lines of each world: [code, path, its modules...], in lower case."""
    worlds = {}
    for line in text.splitlines():
        fields = line.lower().split("\t")
        if len(fields) >= 3:
            number = int(fields[0].split(".")[0])
            other = re.compile(rf"\\tw(?!{number}[a-z])") # what an earlier world has left behind
            worlds.setdefault(number, []).append(
                fields[1:3] + [path for path in fields[3:] if not other.search(path)])
    return worlds


def compare(real, model):
    """The number of lines that were compared, and the first that differs, or None."""
    for i in range(max(len(real), len(model))):
        if i >= len(real) or i >= len(model):
            return i, i
        if model[i][0].endswith("~"):
            return i, None
        below = model[i][0].endswith("*")
        if below and real[i][0] == "126":
            return i + 1, None
        if real[i] != model[i]:
            return i, i
    return len(real), None


def run_batch(rng, numbers, with_default, folder, prefix, build):
    """Makes worlds, runs both, returns (worlds that differ, lines compared, worlds)."""
    top = folder / ("default" if with_default else "classic")
    (top / "app").mkdir(parents=True, exist_ok=True)
    exe = top / "app/driver.exe"
    if not exe.exists():
        os.link(folder / "driver.exe", exe)
    worlds = {n: World(rng, n, top, prefix.system32, with_default) for n in numbers}
    script = folder / "script"
    script.write_text("".join(line + "\n" for w in worlds.values() for line in w.lines))
    started = time.monotonic()
    real = answers(prefix.run(exe, wine.windows_path(script), wine.windows_path(top)))
    took = time.monotonic() - started
    done = subprocess.run([wine.built(build, "modeldriver"), script, wine.windows_path(top),
                           wine.windows_path(exe), f"C:{prefix.drive_c}", "Z:/"],
                          capture_output=True, check=True)
    model = answers(done.stdout.decode(errors="replace"))
    bad, compared = [], 0
    for number, world in worlds.items():
        n, odd = compare(real.get(number, []), model.get(number, []))
        compared += n
        if odd is not None:
            bad.append((world, odd, real.get(number, []), model.get(number, [])))
    return bad, compared, took


def describe(world, odd, real, model):
    print(f"FAIL world {world.number}, load {odd}:")
    print("  " + "\n  ".join(world.lines))
    for name, rows in (("wine ", real), ("model", model)):
        print(f"  {name}: {rows[odd] if odd < len(rows) else 'nothing'}")
    for path in sorted(world.folder.rglob("*")):
        kind = "folder" if path.is_dir() else "link" if path.is_symlink() else path.stat().st_nlink
        print(f"    {path.relative_to(world.folder)} ({kind})")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    if reason := wine.missing():
        print(f"SKIP {reason} (scripts/setup test installs it)")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    seed = seeding.fresh() if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    rng = random.Random(seed)
    scratch = tempfile.TemporaryDirectory() if not args.keep else None
    folder = Path(scratch.name if scratch else args.keep).resolve()
    folder.mkdir(exist_ok=True)
    prefix = wine.Wine(folder / "prefix")
    wine.driver(folder)
    failed, compared, seconds, done = 0, 0, 0.0, 0
    while done < args.count:
        for with_default in (False, True):
            batch = range(done, min(done + 500, args.count))
            if not batch:
                break
            bad, n, took = run_batch(rng, batch, with_default, folder, prefix, args.build.resolve())
            done, compared, seconds = batch.stop, compared + n, seconds + took
            for world, odd, real, model in bad[:max(0, 5 - failed)]:
                describe(world, odd, real, model)
            failed += len(bad)
    print(f"{compared} loads compared, {args.count / seconds:.0f} worlds a second under Wine")
    if scratch:
        scratch.cleanup()
    print(f"{args.count - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
