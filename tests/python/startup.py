#!/usr/bin/env python3
"""What site.py does with .pth and .start files (PEP 829), and what gpumend says it does.

    tests/python/startup.py GPUMEND [--root DIR] [--python EXE]... [--worlds N] [--seed S] [--make]

DIR is a root file system with Python 3.15 (default: roots/python3.15 in the cache; --make makes it,
with mmdebstrap, of Debian sid), which needs root, for chroot. Each EXE is an interpreter of this machine
(default: the one that runs this, and /usr/bin/python3). Random worlds of such files are laid into an
environment: line ends, blanks, byte order marks, bytes that are not UTF-8, hidden files, entry points
that are none. The real interpreter says what is in sys.path and which files ran code, and
`gpumend check` says the same without running it. Then, with 3.15, the start-up hook: `enable`, a
program, and `disable`, which leaves nothing.
"""

import argparse
import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "scenarios"), str(HERE.parent / "mend")]
sys.path.append(str(HERE.parent))
import apply                                                                        # noqa: E402
import seeding                                                                      # noqa: E402
import state                                                                        # noqa: E402
import store                                                                        # noqa: E402

ENV = "/env"
SITE = f"{ENV}/lib/python3.15/site-packages"
PACKAGES = ("torch", "ctranslate2", "onnxruntime", "faster-whisper")
STEMS = ("a", "b", "c", ".hidden")
ENDS = ("\n", "\n", "\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x1e", "\x85", "\u2028", "\u2029")
BLANKS = ("", "", "", " ", "\t", "\x1f", "\xa0", "\u2003", "\u3000")
NO_ENTRY_POINTS = ("probe", "probe:", ":{0}", "probe:{0} x", "1probe:{0}", "probe.:{0}", "probe:{0}:{0}", "probe:.{0}")


class Place:
    """An environment, and how what is in it is run: below a root by chroot, or as it is."""

    def __init__(self, version, exe, root=None, folder=None):
        self.version, self.exe, self.root = version, exe, root
        self.env = ENV if root else f"{folder}/env"
        self.ran = "/ran" if root else f"{folder}/ran"
        self.site = f"{self.env}/lib/python{version}/site-packages"

    def real(self, path):
        return self.root / path[1:] if self.root else Path(path)

    def run(self, *command):
        if self.root:
            return inside(self.root, *command)
        env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": self.env}
        return subprocess.run(command, text=True, capture_output=True, check=False, env=env)

    def lay(self):
        shutil.rmtree(self.real(self.env), ignore_errors=True)
        self.real(self.site).mkdir(parents=True)
        self.real(f"{self.env}/bin").mkdir()
        self.real(f"{self.env}/bin/python3").symlink_to(self.exe)
        self.real(f"{self.env}/pyvenv.cfg").write_text(f"home = {os.path.dirname(self.exe)}\nversion = {self.version}.0\n")
        for package in PACKAGES:
            folder = self.real(self.site) / f"dir-{package}"
            info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
            info.mkdir(parents=True)
            (info / "METADATA").write_text(f"Name: {package}\nVersion: 1.0\n")
        (self.real(self.site) / "probe.py").write_text(
            "".join(f"def {s.strip('.')}(): {self.writes(s + '.start')}\n" for s in STEMS))

    def writes(self, name):
        return f"open({self.ran!r},'a').write({name + chr(10)!r})"


def make(root):
    """A mirror may be behind: the date of its index does not matter here."""
    half = root.with_name(root.name + ".half")
    shutil.rmtree(half, ignore_errors=True)
    subprocess.run(["mmdebstrap", "--variant=extract", "--include=base-files,python3.15",
                    '--aptopt=Acquire::Check-Valid-Until "false"', "sid", str(half),
                    "http://deb.debian.org/debian"], check=True)
    half.rename(root)


def world(chance, place):
    """Lays files; each is a list of lines, sometimes damaged."""
    site = place.real(place.site)

    def blank():
        return chance.choice(BLANKS)

    for stem in STEMS:
        code = f"import os; {place.writes(stem + '.pth')} # "   # what follows on the line is a comment
        entry = f"probe:{stem.strip('.')}"
        lines = [chance.choice((f"dir-{chance.choice(PACKAGES)}", "absent", "# comment", "",
                                f"{blank()}dir-{chance.choice(PACKAGES)}{blank()}",
                                code, code.replace("import ", "import\t", 1), f"  {code}"))
                 for _ in range(chance.randrange(4))]
        starts = [chance.choice((entry, "# comment", "", "  ", f"{blank()}{entry}{blank()}", f"{entry}.__call__",
                                 chance.choice(NO_ENTRY_POINTS).format(stem.strip("."))))
                  for _ in range(chance.randrange(3))]
        for suffix, content in ((".pth", lines), (".start", starts)):
            form = chance.randrange(20)
            raw = "".join(line + chance.choice(ENDS) for line in content).encode()
            raw = b"\xef\xbb\xbf" + raw if form < 3 else raw
            raw = raw + b"# \xff\n" if form == 3 or (form == 4 and suffix == ".start") else raw
            if form > 5:
                (site / (stem + suffix)).write_bytes(raw)
            elif form == 5 and suffix == ".start":
                (site / (stem + suffix)).mkdir()
            elif form != 5:
                (site / (stem + suffix)).write_bytes(raw)


def inside(root, *command):
    """Runs a command in the root, with /proc, which goes with the mount namespace."""
    script = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
    return subprocess.run(["unshare", "-m", "sh", "-c", script, str(root), *command], text=True,
                          capture_output=True, check=False,
                          env={"PATH": os.defpath + ":/usr/sbin:/sbin", "LC_ALL": "C.UTF-8"})


def truth(place):
    """(packages in sys.path, files that ran code); None: it does not start."""
    place.real(place.ran).unlink(missing_ok=True)
    done = place.run(f"{place.env}/bin/python3", "-c", "import sys; print('\\n'.join(sys.path))")
    if done.returncode != 0:
        if "UnicodeDecodeError" not in done.stderr:
            sys.exit(f"python{place.version}: {done.stderr}")
        return None
    dirs = {line.rsplit("/dir-", 1)[1] for line in done.stdout.splitlines() if "/dir-" in line}
    ran = place.real(place.ran)
    return dirs, set(ran.read_text().split()) if ran.exists() else set()


def said(exe, place):
    done = subprocess.run([exe, "check", *(("--root", str(place.root)) if place.root else ()), place.env, "--json"],
                          capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    if any(".pth is not UTF-8" in note for note in document["notes"]):
        return None if done.returncode else "ok, of what does not start"
    dirs = {p["name"].replace("_", "-") for p in document["python"]["packages"]}
    ran = {name for note in document["notes"] if " code when Python starts" in note
           for name in re.findall(r"[^\s/,]+\.(?:pth|start)\b", note)}
    return dirs, ran


def lay_broken(root):
    """The environment of tests/mend/apply.py, made for Python 3.15."""
    with tempfile.TemporaryDirectory() as folder:
        made = apply.World("gpumend", Path(folder))
        shutil.rmtree(root / "env", ignore_errors=True)
        shutil.copytree(made.prefix, root / "env", symlinks=True)
    (root / "env/lib/python3.11").rename(root / "env/lib/python3.15")
    (root / "env/bin/python").unlink()
    (root / "env/bin/python3").symlink_to("/usr/bin/python3.15")
    package = root / SITE[1:] / "ctranslate2"
    extension = next(package.glob("_ext.*"))
    extension.rename(package / extension.name.replace("311", "315"))
    init = package / "__init__.py"
    init.write_text(init.read_text().replace("cpython-311", "cpython-315"))
    (root / "env/pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.15.0\n")


def hook(exe, root):
    """What goes wrong with the start-up hook under 3.15, or None."""
    lay_broken(root)
    shutil.copy2(exe, root / "gpumend")
    program = (f"{ENV}/bin/python3", "-c", apply.PROGRAM)
    before = inside(root, *program).stdout.strip()
    shutil.rmtree(root / SITE[1:] / "ctranslate2/__pycache__")
    tree = state.state(root / "env")
    done = inside(root, "/gpumend", "enable", ENV)
    with_hook = inside(root, *program)
    line = root / SITE[1:] / "gpumend-hook.pth"
    if before != "0" or done.returncode != 0 or with_hook.stdout.strip() != "1" or not line.exists():
        return f"{before!r} before; enable: {done.stdout}{done.stderr}; with it {with_hook}"
    if not list((root / SITE[1:] / "__pycache__").glob("_gpumend_hook.*")):
        return "3.15 was to import it by the .start file, which leaves bytecode"
    done = inside(root, "/gpumend", "disable", ENV)
    shutil.rmtree(root / SITE[1:] / "ctranslate2/__pycache__")
    left = [d for d in state.differences(tree, state.state(root / "env"))
            if not d.startswith((".: ", "lib/python3.15/site-packages: ",
                                 "lib/python3.15/site-packages/ctranslate2: "))]
    return f"disable: {done.stdout}{done.stderr}; left: {left}" if left or done.returncode else None


def waits(exe, root):
    """What `run` does not say as it is of imports that wait by an option of its command (PEP 810), or None."""
    lay_broken(root)
    shutil.copy2(exe, root / "gpumend")
    shutil.rmtree(root / SITE[1:] / "nvidia")
    for options, waiting in ((("-uX", "lazy_imports=all"), True), ((), False), (("-X", "lazy_imports=normal"), False),
                             (("-X", "lazy_imports=all", "-Xlazy_imports=normal"), False)):
        done = inside(root, "/gpumend", "run", "--", f"{ENV}/bin/python3", *options, "-c", "import ctranslate2")
        if "is not installed" not in done.stderr or ("where it first uses the package" in done.stderr) != waiting:
            return f"{options}: {done}"
    return None


def worlds(exe, place, chance, count):
    """How many of the worlds are told as they are."""
    passed = 0
    for number in range(count):
        place.lay()
        world(chance, place)
        real, model = truth(place), said(exe, place)
        if real == model:
            passed += 1
            continue
        print(f"FAIL Python {place.version}, world {number}: Python {real}, gpumend {model}")
        for path in sorted(p for p in place.real(place.site).iterdir() if p.suffix in (".pth", ".start") and p.is_file()):
            print(f"  {path.name}: {path.read_bytes()}")
    return passed


def of_root(args, chance):
    """(passed, failed, skipped) with Python 3.15 in its root."""
    if args.make and not args.root.exists():
        make(args.root)
    if os.geteuid() != 0 or not (args.root / "usr/bin/python3.15").exists():
        print(f"SKIP Python 3.15: {args.root} is absent (--make makes it), or not root")
        return 0, 0, 1
    for folder in ("dev", "proc", "tmp"):
        (args.root / folder).mkdir(exist_ok=True)
    if not (args.root / "dev/null").exists():
        os.mknod(args.root / "dev/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    passed = worlds(args.gpumend, Place("3.15", "/usr/bin/python3.15", args.root), chance, args.worlds)
    wrong = [w for w in (hook(args.gpumend, args.root), waits(args.gpumend, args.root)) if w]
    for what in wrong:
        print("FAIL the hook, or imports that wait:", what)
    shutil.rmtree(args.root / "env")
    (args.root / "gpumend").unlink()
    return passed + 2 - len(wrong), args.worlds - passed + len(wrong), 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpumend")
    parser.add_argument("--root", type=Path, default=store.cache_folder() / "roots/python3.15")
    parser.add_argument("--python", action="append")
    parser.add_argument("--worlds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=seeding.fresh())
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    chance = random.Random(args.seed)
    passed, failed, skipped = of_root(args, chance)
    here = args.python or [sys.executable, *(p for p in ("/usr/bin/python3",) if os.path.exists(p))]
    for exe in sorted({os.path.realpath(e) for e in here}):
        version = subprocess.run([exe, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], text=True,
                                 capture_output=True, check=True).stdout.strip()
        with tempfile.TemporaryDirectory(prefix="gpumend-startup.") as folder:
            good = worlds(args.gpumend, Place(version, exe, folder=folder), chance, args.worlds)
        passed, failed = passed + good, failed + args.worlds - good
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
