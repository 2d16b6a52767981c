#!/usr/bin/env python3
"""The C library as its users have it: installed into a prefix, found by pkg-config, used by programs.

    tests/api/run.py [--every-allocation] [BUILD]

Installs the build below a folder of its own; compiles the examples and tests/api/uses.c against what
lies there, with the shared and with the static library, as C and as C++; runs them over small
environments; and compares the names that both libraries show with src/api/gpumend.map. gm_check and
gm_explain_text fail at each of their allocations, the other functions at one in 31 of theirs, or
with --every-allocation at each, and nothing else is tested then.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "causes"))

import repairs                                                                      # noqa: E402
import tree                                                                         # noqa: E402


GLIBC = platform.libc_ver()[0] == "glibc"
HARMS = ("nulls", "cuts", "process", "threads", "deep", "memory")


class Suite:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, ok, detail=""):
        self.passed += bool(ok)
        self.failed += not ok
        if not ok:
            print("FAIL %s: %s" % (name, str(detail)[-1500:]))
        return ok


def run(*command, env=None, limit_s=120):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          errors="backslashreplace", env=env, timeout=limit_s)
    return done.returncode, done.stdout + done.stderr


def install(build, folder):
    prefix = folder / "prefix"
    for command in (["ninja", "-C", build, "installed"],
                    ["meson", "install", "-C", build, "--no-rebuild", "--quiet",
                     "--destdir", prefix]):
        status, text = run(*command, limit_s=600)
        if status:
            sys.exit("%s\n0 passed, 1 failed" % text)
    header = next(prefix.rglob("gpumend.h"))
    return header.parent.parent, next(prefix.rglob("libgpumend.so")).parent


def pkg_config(libdir, root, *options):
    """The flags, with the installed tree in place of the prefix it was configured for."""
    env = {**os.environ, "PKG_CONFIG_PATH": str(libdir / "pkgconfig")}
    status, text = run("pkg-config", "--define-variable=prefix=%s" % root, *options, "gpumend",
                       env=env)
    return text.split() if status == 0 else sys.exit(text)


def map_names():
    return set(re.findall(r"^\s+(gm_\w+);", (TOP / "src/api/gpumend.map").read_text(), re.M))


def header_names():
    text = re.sub(r"/\*.*?\*/", "", (TOP / "include/gpumend.h").read_text(), flags=re.S)
    return set(re.findall(r"GM_PUBLIC[^;]*?\b(gm_\w+)\(", text))


def shown(suite, libdir):
    names = map_names()
    suite.check("the map names what the header declares", names == header_names(),
                names ^ header_names())
    for name, options in (("libgpumend.so", ["-D"]), ("libgpumend.a", ["-g"])):
        _, text = run("nm", "--defined-only", *options, libdir / name)
        there = {w.split("@")[0] for w in re.findall(r" [A-Z] (\S+)", text)} - {"GPUMEND_0.1"}
        suite.check("names of %s" % name, there == names, there ^ names)
    _, text = run("readelf", "-V", libdir / "libgpumend.so")
    suite.check("symbols carry a version", "GPUMEND_0.1" in text, text)


def programs(suite, folder, root, libdir):
    """Compiles every program in every manner; returns {(name, manner): executable}."""
    cflags = pkg_config(libdir, root, "--cflags")
    shared = pkg_config(libdir, root, "--libs")
    private = [f for f in pkg_config(libdir, root, "--static", "--libs") if f != "-lgpumend"]
    manners = {
        "shared": ["cc", "-std=c99", [*shared, "-ldl", "-lpthread", "-Wl,-rpath,%s" % libdir]],
        "static": ["cc", "-std=c11", [libdir / "libgpumend.a", *private, "-ldl", "-lpthread"]],
        "C++": ["c++", "-std=c++17", [*shared, "-ldl", "-lpthread", "-Wl,-rpath,%s" % libdir]],
    }
    built = {}
    for source in (TOP / "examples/device.c", TOP / "examples/preload.c", HERE / "uses.c", HERE / "harm.c",
                   HERE / "repairs.c"):
        for manner, (compiler, standard, libraries) in manners.items():
            if manner == "C++" and source.parent.name == "examples":
                continue  # they are C; the header is what has to be both
            if source.name == "harm.c" and (manner != "shared" or not GLIBC):
                continue  # what it puts before libc's functions is written for glibc
            if not shutil.which(compiler):
                continue
            exe = folder / ("%s-%s" % (source.stem, manner))
            language = ["-x", "c++"] if manner == "C++" else ["-x", "c"]
            status, text = run(compiler, standard, "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic",
                               "-Werror", *cflags, *language, source, "-x", "none", "-o", exe,
                               *libraries)
            if suite.check("%s compiles, %s" % (source.name, manner), status == 0, text):
                built[source.stem, manner] = exe
    return built


def packages(env, found):
    """ctranslate2, and cuBLAS in a folder where nothing looks, or where everything does."""
    env.ctranslate2()
    if found:
        env.system_cublas()
    else:
        env.pip_cublas()


def worlds(folder):
    """A broken and a healthy captured tree, and a broken environment that can be loaded from."""
    for name in ("broken", "healthy"):
        packages(tree.Tree(folder / name).python(), name == "healthy")
    real = folder / "real"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", real], check=True)
    env = tree.Tree("/", str(real))
    env.site = str(next(real.glob("lib/python3*/site-packages")))
    env.cublas = env.site + "/nvidia/cublas/lib"
    packages(env, False)
    return [folder / "broken", folder / "healthy", real, env.cublas]


def main():
    every = "--every-allocation" in sys.argv
    words = [word for word in sys.argv[1:] if word != "--every-allocation"]
    build = Path(words[0] if words else TOP / "build").resolve()
    suite = Suite()
    with tempfile.TemporaryDirectory(prefix="gpumend-api.") as temporary:
        folder = Path(temporary)
        root, libdir = install(build, folder)
        (folder / "repairs").mkdir()
        shown(suite, libdir)
        arguments = worlds(folder)
        built = programs(suite, folder, root, libdir)
        for (name, manner), exe in sorted(built.items()):
            if every and name != "harm":
                continue
            if name == "device":
                status, text = run(exe, "whisper:tiny")
                suite.check("device, %s" % manner, status == 0 and "compute type" in text, text)
                status, text = run(exe, "whisper:nonsense")
                suite.check("device of no model, %s" % manner, status == 3, text)
            elif name == "preload":
                status, text = run(exe, folder / "nowhere")
                suite.check("preload of nothing, %s" % manner, status == 3 and text, text)
            elif name == "uses":
                status, text = run(exe, *arguments)
                suite.check("uses, %s" % manner, status == 0, text)
            elif name == "repairs" and manner == "shared":
                repairs.run_all(suite, exe, built.get(("harm", "shared")), build / "gpumend",
                                folder / "repairs")
            elif name == "harm":
                for part in ["memory"] if every else HARMS:
                    scratch = folder / ("harm-%s" % part)
                    shutil.copytree(folder / "broken", scratch, symlinks=True)
                    # gm_preload loads for good: in a real environment
                    more = [folder / "real", 1 if every else 31] if part == "memory" else []
                    status, text = run(exe, scratch, part, *more, limit_s=1500 if every else 300)
                    suite.check("harm, %s" % part, status == 0, "%d %s" % (status, text))
    print("%d passed, %d failed" % (suite.passed, suite.failed))
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
