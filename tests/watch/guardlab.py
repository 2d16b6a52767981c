"""What restart.py and guard.py share: programs built here, and the counting of checks."""

import os
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE = int(os.environ.get("GPUMEND_TEST_PATIENCE", "1"))   # how much slower this machine may be
CLEARED = ("LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "GPUMEND_GUARD", "GPUMEND_END",
           "GPUMEND_TRACE_FILE", "GPUMEND_RESTART_DELAY")


class Lab:
    """A folder, the programs in it, and starts of them."""

    def __init__(self, exe, folder):
        self.exe = Path(exe).resolve()
        self.folder = Path(folder)
        self.home = self.folder / "home"
        self.home.mkdir(mode=0o700)
        self.passed, self.failed, self.skipped = 0, 0, 0

    def compile(self, target, *arguments, compiler="g++", source=None):
        """Builds FOLDER/target from tests/watch/source; None if the compiler is not there."""
        out = self.folder / target
        command = [compiler, "-O1", "-Wall", "-Wextra", HERE / source, *arguments, "-o", out,
                   "-pthread", "-Wl,--as-needed", "-ldl"]  # libraries of their own before glibc 2.34
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            return None
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"{source}: {error.stderr}") from error
        return out

    def library(self, target, source, *arguments):
        return self.compile(target, "-shared", "-fPIC", f"-Wl,-soname,{target}", *arguments,
                            source=source)

    def environment(self, **variables):
        env = {k: v for k, v in os.environ.items() if k not in CLEARED}
        env.update(HOME=str(self.home), XDG_CACHE_HOME=str(self.home / "cache"), **variables)
        return env

    def run(self, options, command, timeout=40, env=None, **more):
        """gpumend run OPTIONS -- COMMAND"""
        command = [str(c) for c in (self.exe, "run", *options, "--", *command)]
        try:
            return subprocess.run(command, env=env or self.environment(), timeout=timeout * PATIENCE,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  errors="backslashreplace", check=False, **more)
        except subprocess.TimeoutExpired as late:
            return subprocess.CompletedProcess(command, None, "", f"took longer than {late.timeout} s")

    def check(self, name, wrong):
        """Counts; `wrong` is empty, or what differs."""
        if wrong:
            self.failed += 1
            print(f"FAIL {name}: {wrong}", flush=True)
        else:
            self.passed += 1

    def skip(self, name, why):
        self.skipped += 1
        print(f"SKIP {name}: {why}", flush=True)

    def sum(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed or not self.passed else 0


def main(run, arguments):
    """Calls run(lab) with a lab in a folder that goes away."""
    exe = arguments[1] if len(arguments) > 1 else HERE.parent.parent / "build/gpumend"
    with tempfile.TemporaryDirectory(prefix="gpumend-watch-") as folder:
        lab = Lab(exe, folder)
        run(lab)
        return lab.sum()


def differs(expected, got):
    return "" if expected == got else f"{got!r}, not {expected!r}"


def lacks(part, text):
    return "" if part in text else f"\"{part}\" is not in: {text.strip()[-600:]}"
