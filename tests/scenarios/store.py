"""The cache of the scenarios: wheels, unpacked once, and environments made of hard links.

    $GPUMEND_CACHE/wheels/     wheels that somebody put there; looked at first, never removed
    $GPUMEND_CACHE/store/      one folder a wheel, unpacked and byte-compiled; shared by all
    $GPUMEND_CACHE/envs/       one environment a scenario, built again for every run
    $GPUMEND_CACHE/incoming/   a download in progress, removed when it is unpacked

The cache folder is $GPUMEND_CACHE, else $XDG_CACHE_HOME/gpumend, else ~/.cache/gpumend. A file in
an environment is a hard link to the store, so an environment costs a few folders; whoever changes
a file in one must replace it, never write into it.
"""

import compileall
import fcntl
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import zipfile

MIB = 1 << 20
GIB = 1 << 30
LIMIT_BYTES = 20 * GIB       # what the whole cache may come to
MARGIN_BYTES = 1 * GIB       # what must stay free on the disk
NO_CONNECTION = re.compile("connection|timed out|resolve", re.IGNORECASE)


class Skip(Exception):
    """A scenario cannot be built here; the message says why."""


def cache_folder():
    given = os.environ.get("GPUMEND_CACHE")
    if given:
        return pathlib.Path(given).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "gpumend"


def read_pins(path):
    """wheels.txt: lines of `name==version  wheel-MiB  unpacked-MiB`; ret {requirement: sizes}."""
    pins = {}
    for line in pathlib.Path(path).read_text().splitlines():
        fields = line.split("#")[0].split()
        if fields:
            pins[fields[0]] = (int(fields[1]) * MIB, int(fields[2]) * MIB)
    return pins


def folder_bytes(path):
    """Disk taken below path; a file with several names counts once."""
    seen, total = set(), 0
    for base, _, names in os.walk(path):
        for name in names:
            st = os.lstat(os.path.join(base, name))
            if (st.st_dev, st.st_ino) not in seen:
                seen.add((st.st_dev, st.st_ino))
                total += st.st_blocks * 512
    return total


def usable_python():
    """The wheels are for CPython 3.11 on x86_64 glibc: anything else is a reason to skip."""
    have = (platform.python_implementation(), sys.version_info[:2], platform.machine())
    if have != ("CPython", (3, 11), "x86_64") or platform.libc_ver()[0] != "glibc":
        raise Skip("needs CPython 3.11 on x86_64 with glibc, and this is %s %d.%d on %s"
                   % (have[0], *have[1], have[2]))


class Store:
    def __init__(self, cache, pins, log):
        self.cache, self.pins, self.log = cache, pins, log
        self.store = cache / "store"
        self.envs = cache / "envs"
        self.pip = None
        self.locked = None
        self.unavailable = {}            # requirement -> why it could not be fetched
        self.offline = None              # why no further download is tried

    def wheel_folder(self, requirement):
        return self.store / requirement.replace("==", "-")

    def missing(self, requirements):
        return [r for r in requirements if not (self.wheel_folder(r) / ".complete").exists()]

    def provide(self, requirements):
        """Have every wheel unpacked in the store, or raise Skip with the reason."""
        self.lock()
        missing = self.missing(requirements)
        for requirement in missing:
            if requirement in self.unavailable:
                raise Skip(self.unavailable[requirement])
        self._check_disk(missing)
        for requirement in missing:
            self._unpack(requirement, self._wheel(requirement))

    def _check_disk(self, missing):
        if not missing:
            return
        self.cache.mkdir(parents=True, exist_ok=True)
        needed = sum(sum(self.pins[r]) for r in missing)
        free = shutil.disk_usage(self.cache).free - MARGIN_BYTES
        if needed > free:
            raise Skip("not enough disk: %d MiB needed, %d MiB free in %s"
                       % (needed // MIB, max(free, 0) // MIB, self.cache))
        own = sum(folder_bytes(self.cache / d) for d in ("store", "incoming", "pip"))
        if own + needed > LIMIT_BYTES:
            raise Skip("the cache would grow past %d GiB" % (LIMIT_BYTES // GIB))

    def _wheel(self, requirement):
        """A wheel file for the requirement: one that lies in wheels/, else a download."""
        name, version = requirement.split("==")
        stem = re.sub(r"[-.]+", "_", name).lower() + "-" + version + "-"
        for path in sorted((self.cache / "wheels").glob("*.whl")):
            if path.name.lower().startswith(stem) and self._fits(path.name):
                return path
        return self._download(requirement)

    @staticmethod
    def _fits(file_name):
        python, abi, _ = file_name[:-4].rsplit("-", 3)[1:]
        own = "cp%d%d" % sys.version_info[:2]
        return "none" in abi and "py3" in python.split(".")[-1] or own in abi.split(".") or "abi3" in abi

    def _download(self, requirement):
        if self.offline:
            raise Skip("cannot fetch %s: %s" % (requirement, self.offline))
        incoming = self.cache / "incoming"
        shutil.rmtree(incoming, ignore_errors=True)
        incoming.mkdir(parents=True)
        self.log("fetching %s" % requirement)
        run = subprocess.run(
            [*self._find_pip(), "download", "--quiet", "--no-cache-dir", "--no-deps",
             "--disable-pip-version-check", "--retries", "2", "--timeout", "30",
             "--only-binary=:all:", "--dest", str(incoming), requirement],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, env=clean_environment())
        wheels = list(incoming.glob("*.whl"))
        if run.returncode != 0 or len(wheels) != 1:
            said = (run.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            if NO_CONNECTION.search(run.stderr):
                self.offline = "the package index cannot be reached"
            self.unavailable[requirement] = "cannot fetch %s: %s" % (requirement, said)
            raise Skip(self.unavailable[requirement])
        return wheels[0]

    def _find_pip(self):
        """pip of this interpreter, else of a virtual environment kept in the cache."""
        if self.pip:
            return self.pip
        if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True,
                          env=clean_environment()).returncode == 0:
            self.pip = [sys.executable, "-m", "pip"]
            return self.pip
        own = self.cache / "pip"
        if subprocess.run([sys.executable, "-m", "venv", str(own)], capture_output=True,
                          env=clean_environment()).returncode != 0:
            raise Skip("there is no pip (package python3-pip or python3-venv)")
        self.pip = [str(own / "bin/python"), "-m", "pip"]
        return self.pip

    def _unpack(self, requirement, wheel):
        """Unpack as an installer would: *.data/purelib and platlib are moved to the top."""
        self.log("unpacking %s" % wheel.name)
        target = self.wheel_folder(requirement)
        shutil.rmtree(target, ignore_errors=True)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
        for scheme in [*target.glob("*.data/purelib"), *target.glob("*.data/platlib")]:
            shutil.copytree(scheme, target, dirs_exist_ok=True, copy_function=os.replace)
        for data in target.glob("*.data"):
            shutil.rmtree(data)
        for info in target.glob("*.dist-info"):
            (info / "INSTALLER").write_text("pip\n")
        compileall.compile_dir(target, quiet=2)
        (target / ".complete").touch()
        if wheel.parent.name == "incoming":
            wheel.unlink()

    def lock(self):
        """Wait until no other run works in this cache; held until this process ends."""
        if not self.locked:
            self.cache.mkdir(parents=True, exist_ok=True)
            self.locked = open(self.cache / "lock", "w")
            fcntl.flock(self.locked, fcntl.LOCK_EX)

    def build(self, name, requirements):
        """A fresh virtual environment with the wheels in it; ret its folder."""
        self.provide(requirements)
        env = self.envs / name
        shutil.rmtree(env, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True,
                       env=clean_environment())
        site = site_packages(env)
        for requirement in requirements:
            link_tree(self.wheel_folder(requirement), site)
        return env


def site_packages(env):
    return pathlib.Path(env) / "lib" / ("python%d.%d" % sys.version_info[:2]) / "site-packages"


def clean_environment():
    """This process's environment less what would lead the loader or Python astray."""
    drop = ("LD_", "PYTHON", "CUDA_", "CUDNN_", "VIRTUAL_ENV", "CONDA_")
    return {k: v for k, v in os.environ.items() if not k.startswith(drop)}


def link_tree(source, target):
    """Hard-link every file below source to the same place below target."""
    for base, _, names in os.walk(source):
        there = os.path.join(target, os.path.relpath(base, source))
        os.makedirs(there, exist_ok=True)
        for name in names:
            to = os.path.join(there, name)
            if name != ".complete" and not os.path.lexists(to):
                os.link(os.path.join(base, name), to)
