#!/usr/bin/env python3
"""What site.py of Python 3.15 does with .pth and .start files (PEP 829), and what gpumend says it does.

    tests/python/startup.py GPUMEND [--root DIR] [--worlds N] [--seed S] [--make]

DIR is a root file system with Python 3.15 (default: roots/python3.15 in the cache; --make makes it,
with mmdebstrap, of Debian sid). Needs root, for chroot. Random worlds of such files are laid into an
environment there; the real interpreter says what is in sys.path and which files ran code, and
`gpumend check` says the same without running it. Then the start-up hook: `enable`, a program, and
`disable`, which leaves nothing.
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
import apply                                                                        # noqa: E402
import state                                                                        # noqa: E402
import store                                                                        # noqa: E402

ENV = "/env"
SITE = f"{ENV}/lib/python3.15/site-packages"
PACKAGES = ("torch", "ctranslate2", "onnxruntime", "faster-whisper")
STEMS = ("a", "b", "c", ".hidden")
RAN = "open('/ran','a').write"


def make(root):
    """A mirror may be behind: the date of its index does not matter here."""
    half = root.with_name(root.name + ".half")
    shutil.rmtree(half, ignore_errors=True)
    subprocess.run(["mmdebstrap", "--variant=extract", "--include=base-files,python3.15",
                    '--aptopt=Acquire::Check-Valid-Until "false"', "sid", str(half),
                    "http://deb.debian.org/debian"], check=True)
    half.rename(root)


def lay_env(root):
    shutil.rmtree(root / "env", ignore_errors=True)
    (root / SITE[1:]).mkdir(parents=True)
    (root / "env/bin").mkdir()
    (root / "env/bin/python3").symlink_to("/usr/bin/python3.15")
    (root / "env/pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.15.0\n")
    for package in PACKAGES:
        folder = root / SITE[1:] / f"dir-{package}"
        info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {package}\nVersion: 1.0\n")
    (root / SITE[1:] / "probe.py").write_text(
        "".join(f"def {s.strip('.')}(): {RAN}({s!r} '.start\\n')\n" for s in STEMS))


def world(chance, root):
    """Lays files; each is a list of lines, sometimes damaged."""
    site = root / SITE[1:]
    for stem in STEMS:
        lines = [chance.choice((f"dir-{chance.choice(PACKAGES)}", "absent", "# comment", "",
                                f"  dir-{chance.choice(PACKAGES)}  ",
                                f"import os; {RAN}('{stem}.pth\\n')",
                                f"  import os; {RAN}('{stem}.pth\\n')"))
                 for _ in range(chance.randrange(4))]
        starts = [chance.choice((f"probe:{stem.strip('.')}", "# comment", "", "  "))
                  for _ in range(chance.randrange(3))]
        for suffix, content in ((".pth", lines), (".start", starts)):
            form = chance.randrange(10)
            raw = ("\n".join(content) + "\n").encode()
            raw = b"\xef\xbb\xbf" + raw if form == 0 else raw
            raw = raw + b"# \xff\n" if form == 1 and suffix == ".start" else raw
            if form > 2:
                (site / (stem + suffix)).write_bytes(raw)
            elif form == 2 and suffix == ".start":
                (site / (stem + suffix)).mkdir()


def inside(root, *command):
    """Runs a command in the root, with /proc, which goes with the mount namespace."""
    script = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
    return subprocess.run(["unshare", "-m", "sh", "-c", script, str(root), *command], text=True,
                          capture_output=True, check=False,
                          env={"PATH": os.defpath + ":/usr/sbin:/sbin", "LC_ALL": "C.UTF-8"})


def truth(root):
    (root / "ran").unlink(missing_ok=True)
    done = inside(root, f"{ENV}/bin/python3", "-c", "import sys; print('\\n'.join(sys.path))")
    if done.returncode != 0:
        sys.exit("python3.15: " + done.stderr)
    dirs = {line.rsplit("/dir-", 1)[1] for line in done.stdout.splitlines() if "/dir-" in line}
    ran = set((root / "ran").read_text().split()) if (root / "ran").exists() else set()
    return dirs, ran


def said(exe, root):
    done = subprocess.run([exe, "check", "--root", str(root), ENV, "--json"], capture_output=True,
                          text=True, check=False)
    document = json.loads(done.stdout)
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpumend")
    parser.add_argument("--root", type=Path, default=store.cache_folder() / "roots/python3.15")
    parser.add_argument("--worlds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    if args.make and not args.root.exists():
        make(args.root)
    if os.geteuid() != 0 or not (args.root / "usr/bin/python3.15").exists():
        print(f"SKIP Python 3.15: {args.root} is absent (--make makes it), or not root")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    print(f"seed {args.seed}", flush=True)
    for folder in ("dev", "proc", "tmp"):
        (args.root / folder).mkdir(exist_ok=True)
    if not (args.root / "dev/null").exists():
        os.mknod(args.root / "dev/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    chance, failed = random.Random(args.seed), 0
    for number in range(args.worlds):
        lay_env(args.root)
        world(chance, args.root)
        real, model = truth(args.root), said(args.gpumend, args.root)
        if real != model:
            failed += 1
            print(f"FAIL world {number}: Python {real}, gpumend {model}")
    wrong = hook(args.gpumend, args.root)
    if wrong:
        failed += 1
        print("FAIL the hook:", wrong)
    shutil.rmtree(args.root / "env")
    (args.root / "gpumend").unlink()
    print(f"{args.worlds + 1 - failed} passed, {failed} failed, 0 skipped")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
