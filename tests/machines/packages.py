#!/usr/bin/env python3
"""Every package of a release is installed in a fresh root file system, and used there.

    tests/machines/packages.py BUILD CROSS [--windows GPUMEND.EXE] [--quick]

BUILD and CROSS are the build folders of this machine and of aarch64. scripts/dist is run twice, in other
time zones and umasks, and has to write the same bytes. --quick stops there, but for what each package has
to contain. The rest needs root, mmdebstrap's root file systems (made once, in the cache of the tests) and, for
the Python package, a package index with uv and pipx:

- the source archive is unpacked and built in Debian 12 and 13, with what scripts/setup says that a build needs
  and nothing else, and the executable is used there.
- Debian 12 and 13: dpkg installs the packages; the executable, the manual, a program that is compiled with
  the header and either library; lintian reports no error.
- rpm: installed by rpm into an empty root, and into Debian's with the C library; rpmlint reports no error.
- the tarball in a root with nothing but itself; on aarch64 under qemu's user mode, as every package of it.
- pip install, uvx and pipx run from a local index; pip takes the wheel for glibc, musl, aarch64 and Windows.
- the image is loaded and run by podman; the recipe is built by rattler-build.
"""
import argparse
import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
ROOTS = Path(os.environ.get("GPUMEND_CACHE", Path.home() / ".cache/gpumend")) / "roots"
QEMU = "qemu-aarch64-static"
SUITES = {"bookworm": "Debian 12", "trixie": "Debian 13"}
# What a build needs, by scripts/setup, and what the tests of the packages use besides.
PACKAGES = ",".join([*re.findall(r"^build\|\w+\|([^|]+)", (TOP / "scripts/setup").read_text(encoding="utf-8"), re.M),
                     "python3-venv", "man-db", "bash-completion"])
ENGINE = ("podman", "--runtime", "runc", "--cgroup-manager=cgroupfs")
USES = """
#include <gpumend.h>
#include <stdio.h>
int main(void)
{
    gm_context *gm = gm_new();
    printf("%s\\n", gm ? gm_version() : "none");
    gm_free(gm);
    return 0;
}
"""
counts = {"passed": 0, "failed": 0, "skipped": 0}


def check(name, holds, detail=""):
    counts["passed" if holds else "failed"] += 1
    if not holds:
        print(f"FAIL {name}: {str(detail)[-1200:]}")


def skip(name, why):
    counts["skipped"] += 1
    print(f"SKIP {name}: {why}")


def run(*command, timeout=1800, **options):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=timeout, stdin=subprocess.DEVNULL, **options)


def works(name, wanted, *command, status=0, **options):
    """Whether a command ends so and prints that; what it prints first is shown."""
    done = run(*command, **options)
    check(name, done.returncode == status and wanted in done.stdout, (done.returncode, done.stdout))
    print(f"{name}: {done.stdout.strip().splitlines()[0] if done.stdout.strip() else '(nothing)'}")
    return done.stdout


def builds(build, cross, folder, options):
    """Two runs of scripts/dist, which differ in all that must not matter."""
    epoch = run("git", "-C", TOP, "log", "-1", "--format=%ct").stdout.strip() or "1767225600"
    out = []
    for number, (zone, mask) in enumerate((("UTC", 0o022), ("Asia/Kathmandu", 0o077))):
        out.append(folder / f"dist-{'x' * number}{number}")
        done = run(TOP / "scripts/dist", out[-1], build, cross, *options, umask=mask,
                   env={**os.environ, "TZ": zone, "SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": str(number)})
        check("scripts/dist", done.returncode == 0, done.stdout)
    sums = [{p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in o.iterdir()} for o in out]
    for name in sorted(set(sums[0]) | set(sums[1])):
        check(f"{name}: the same twice", sums[0].get(name) == sums[1].get(name), sums)
    return out[0]


def has(name, names, *wanted):
    """A package has its licence, changelog, manual and so on."""
    for one in wanted:
        check(f"{name} has {one}", any(one in n for n in names), names)


def of_contents(dist, version):
    for machine, debian in (("x86_64", "amd64"), ("aarch64", "arm64")):
        name = f"gpumend-{version}-linux-{machine}.tar.gz"
        with tarfile.open(dist / name) as archive:
            has(name, archive.getnames(), "bin/gpumend", "man1/gpumend.1.gz", "doc/gpumend/LICENSE",
                "LICENSES/GPL-3.0.txt", "CHANGELOG.md", "completions/gpumend", "_gpumend", "gpumend.fish")
        name = f"gpumend_{version}-1_{debian}.deb"
        has(name, run("dpkg-deb", "--contents", dist / name).stdout.split(), "usr/bin/gpumend", "man1/gpumend.1.gz",
            "doc/gpumend/copyright", "doc/gpumend/changelog.gz", "changelog.Debian.gz", "vendor-completions/_gpumend")
        if shutil.which("rpm"):
            name = f"gpumend-{version}-1.{machine}.rpm"
            has(name, run("rpm", "-qlp", dist / name).stdout.split(), "/usr/bin/gpumend", "man1/gpumend.1.gz",
                "LICENSES/GPL-3.0.txt", "CHANGELOG.md", "site-functions/_gpumend")
    with tarfile.open(dist / f"gpumend-{version}.tar.gz") as archive:
        has("source archive", archive.getnames(), "meson.build", "LICENSES/glibc.txt", "CHANGELOG.md", "man/gpumend.1")
    for path in dist.glob("*.whl"):
        program, licence = ("gpumend.exe", "LICENSE") if "win" in path.name else ("gpumend", "LICENSES/GPL-3.0.txt")
        has(path.name, zipfile.ZipFile(path).namelist(), f"data/scripts/{program}", "licenses/LICENSE",
            f"licenses/{licence}", "METADATA", "man1/gpumend.1", "CHANGELOG.md")


@contextlib.contextmanager
def root_of(suite):
    """A root file system of a Debian, to write into: an overlay upon the one in the cache."""
    base = ROOTS / f"packages-{suite}"
    if not base.exists():
        base.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix="new-", dir=base.parent))
        done = run("mmdebstrap", "--quiet", "--variant=minbase", "--aptopt=Apt::Install-Recommends \"false\"",
                   "--dpkgopt=force-unsafe-io", f"--include={PACKAGES}", suite, new / "root", timeout=7200)
        if done.returncode:
            raise OSError(done.stdout[-400:])
        (new / "root").rename(base)
        new.rmdir()
    with tempfile.TemporaryDirectory(prefix="gpumend-root.", dir=base.parent) as folder:
        for name in ("upper", "work", "root"):
            Path(folder, name).mkdir()
        root = Path(folder, "root")
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                        f"lowerdir={base},upperdir={folder}/upper,workdir={folder}/work", root], check=True)
        try:
            yield root
        finally:
            subprocess.run(["umount", "--lazy", root], check=True)


def inside(root, *command):
    return ["chroot", root, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=/root",
            *command]


def of_program(name, root, version):
    works(f"{name}: gpumend --version", f"gpumend {version}", *inside(root, "gpumend", "--version"))
    works(f"{name}: gpumend check", "ok", *inside(root, "gpumend", "check", "/bin/true"))
    check(f"{name}: the licences", "GNU GENERAL PUBLIC" in run(*inside(root, "gpumend", "--licenses")).stdout.upper())


def of_library(name, root, version):
    (root / "uses.c").write_text(USES, encoding="utf-8")
    for kind, flags in (("shared", "--cflags --libs"), ("static", "--static --cflags --libs")):
        link = "-static" if kind == "static" else ""
        done = run(*inside(root, "sh", "-c", f"cc {link} /uses.c -o /uses $(pkgconf {flags} gpumend) && /uses"))
        check(f"{name}: a program with the {kind} library", done.returncode == 0 and version in done.stdout,
              done.stdout)


def of_source(dist, version):
    for suite, name in SUITES.items():
        with root_of(suite) as root:
            with tarfile.open(dist / f"gpumend-{version}.tar.gz") as archive:
                archive.extractall(root)
            done = run(*inside(root, "sh", "-ec", f"cd /gpumend-{version}; scripts/setup --check build; "
                               "meson setup --prefix=/usr build; ninja -C build installed; "
                               "meson install -C build --no-rebuild"))
            warnings = "\n".join(line for line in done.stdout.splitlines() if "warning:" in line)
            check(f"{name}: the source archive is built", done.returncode == 0, done.stdout)
            check(f"{name}: without a warning", not warnings, warnings)
            of_program(f"{name}, source archive", root, version)


def of_debian(dist, version):
    for suite, name in SUITES.items():
        with root_of(suite) as root:
            files = sorted([*dist.glob("*_amd64.deb"), *dist.glob("*_all.deb")])
            for path in files:
                shutil.copy(path, root / path.name)
            done = run(*inside(root, "dpkg", "--install", *(f"/{p.name}" for p in files)))
            check(f"{name}: dpkg --install", done.returncode == 0, done.stdout)
            of_program(name, root, version)
            of_library(name, root, version)
            check(f"{name}: the manual", "GPUMEND" in run(*inside(root, "man", "-P", "cat", "gpumend")).stdout)
            done = run(*inside(root, "dpkg", "--remove", "gpumend", "gpumend-doc", "libgpumend-dev", "libgpumend0"))
            check(f"{name}: dpkg --remove", done.returncode == 0 and not (root / "usr/bin/gpumend").exists(),
                  done.stdout)
    if not shutil.which("lintian"):
        return skip("lintian", "it is not installed")
    for path in sorted(dist.glob("*.deb")):
        done = run("lintian", "--fail-on", "error", "--allow-root", path)
        check(f"lintian {path.name}", done.returncode == 0, done.stdout)
    return None


def of_rpm(dist, version):
    if not shutil.which("rpm"):
        return skip("rpm", "it is not installed")
    with tempfile.TemporaryDirectory(prefix="gpumend-rpm.") as folder:
        done = run("rpm", "--root", folder, "--install", dist / f"gpumend-{version}-1.x86_64.rpm")
        check("rpm --install into an empty root", done.returncode == 0, done.stdout)
        works("rpm: gpumend --version", f"gpumend {version}", "chroot", folder, "/usr/bin/gpumend", "--version")
        done = run("rpm", "--root", folder, "--verify", "gpumend")
        check("rpm --verify", done.returncode == 0, done.stdout)
    with root_of("bookworm") as root:
        # What Debian installed is not in the database of rpm; where its programs look is not /usr/lib64.
        files = [dist / f"gpumend{p}-{version}-1.{a}.rpm" for p, a in (("-libs", "x86_64"), ("-devel", "x86_64"))]
        done = run("rpm", "--root", root, "--install", "--nodeps", *files)
        check("rpm --install of the library", done.returncode == 0, done.stdout)
        (root / "etc/ld.so.conf.d/lib64.conf").write_text("/usr/lib64\n", encoding="utf-8")
        run(*inside(root, "ldconfig"))
        (root / "usr/lib/pkgconfig").mkdir(exist_ok=True)
        shutil.copy(root / "usr/lib64/pkgconfig/gpumend.pc", root / "usr/lib/pkgconfig/gpumend.pc")
        of_library("rpm", root, version)
    if not shutil.which("rpmlint"):
        return skip("rpmlint", "it is not installed")
    done = run("rpmlint", "--config", TOP / "packaging/rpmlint.toml", *sorted(dist.glob("*.rpm")))
    check("rpmlint", done.returncode == 0 and " 0 errors" in done.stdout, done.stdout)
    return None


def of_tarball(dist, version):
    with tempfile.TemporaryDirectory(prefix="gpumend-tarball.") as folder:
        for machine in ("x86_64", "aarch64"):
            with tarfile.open(dist / f"gpumend-{version}-linux-{machine}.tar.gz") as archive:
                archive.extractall(folder)
        root = Path(folder) / f"gpumend-{version}-linux-x86_64"
        works("tarball: gpumend --version", f"gpumend {version}", "chroot", root, "/bin/gpumend", "--version")
        if shutil.which(QEMU):
            works("tarball, aarch64: gpumend --version", f"gpumend {version}", QEMU,
                  Path(folder) / f"gpumend-{version}-linux-aarch64/bin/gpumend", "--version")


def of_aarch64(dist, version):
    """The packages for aarch64, unpacked by their own tools into a root, without its programs."""
    if not shutil.which(QEMU):
        return skip("aarch64", f"there is no {QEMU}")
    with tempfile.TemporaryDirectory(prefix="gpumend-arm64.") as folder:
        root = Path(folder)
        for part in ("dpkg/info", "dpkg/updates"):
            (root / "deb/var/lib" / part).mkdir(parents=True)
        (root / "deb/var/lib/dpkg/status").touch()
        done = run("dpkg", "--root", root / "deb", "--force-architecture", "--install",
                   dist / f"gpumend_{version}-1_arm64.deb")
        check("dpkg --install for arm64", done.returncode == 0, done.stdout)
        done = run("rpm", "--root", root / "rpm", "--ignorearch", "--install",
                   dist / f"gpumend-{version}-1.aarch64.rpm")
        check("rpm --install for aarch64", done.returncode == 0, done.stdout)
        for kind in ("deb", "rpm"):
            works(f"{kind}, aarch64: gpumend --version", f"gpumend {version}", QEMU, root / kind / "usr/bin/gpumend",
                  "--version")
    return None


def of_wheels(dist, version, folder):
    index = folder / "simple/gpumend"
    index.mkdir(parents=True)
    for path in dist.glob("*.whl"):
        shutil.copy(path, index / path.name)
    (index / "index.html").write_text("".join(f'<a href="{p.name}">{p.name}</a>\n' for p in index.glob("*.whl")),
                                      encoding="utf-8")
    here = f"file://{index.parent}"
    tools = folder / "tools"
    run(sys.executable, "-m", "venv", tools)
    done = run(tools / "bin/pip", "install", "--quiet", "uv", "pipx")
    if done.returncode:
        return skip("pip, uvx and pipx", done.stdout.strip()[-200:])
    own = {**{k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}, "HOME": str(folder),
           "UV_CACHE_DIR": str(folder / "uv"), "PIPX_HOME": str(folder / "pipx"), "PIP_CACHE_DIR": str(folder / "pip")}
    run(sys.executable, "-m", "venv", folder / "venv")
    done = run(folder / "venv/bin/pip", "install", "--index-url", here, "gpumend", env=own)
    check("pip install gpumend", done.returncode == 0, done.stdout)
    works("pip: gpumend --version", f"gpumend {version}", folder / "venv/bin/gpumend", "--version")
    works("pip: gpumend.check()", "ok", folder / "venv/bin/python", "-c",
          "import gpumend; print(gpumend.check().verdict)")
    works("uvx gpumend check", "ok", tools / "bin/uvx", "--index-url", here, "gpumend", "check", "/bin/true", env=own)
    works("pipx run gpumend", f"gpumend {version}", tools / "bin/pipx", "run", "--index-url", here, "gpumend",
          "--version", env={**own, "PATH": f"{tools}/bin:{os.environ['PATH']}"})
    windows = list(dist.glob("*win_amd64.whl"))
    if not windows:
        skip("wheel for Windows", "there is no gpumend.exe (make windows)")
    for platform in ("manylinux_2_17_x86_64", "musllinux_1_1_x86_64", "musllinux_1_2_x86_64", "manylinux_2_17_aarch64",
                     "manylinux2014_aarch64", "musllinux_1_2_aarch64", *(["win_amd64"] if windows else [])):
        machine = next(m for m in ("x86_64", "aarch64", "win_amd64") if platform.endswith(m))
        more = ["--platform", "musllinux_1_1_" + machine] if platform.startswith("musllinux_1_2") else []
        out = folder / platform
        done = run(tools / "bin/pip", "download", "--index-url", here, "--only-binary=:all:", "--no-deps",
                   "--dest", out, "--platform", platform, *more, "gpumend", env=own)
        found = [p.name for p in out.glob("*.whl")] if out.exists() else []
        check(f"pip takes a wheel for {platform}", done.returncode == 0 and len(found) == 1 and machine in found[0],
              done.stdout)
    for path in dist.glob("*aarch64.whl"):
        with zipfile.ZipFile(path) as archive:
            name = next(n for n in archive.namelist() if n.endswith("scripts/gpumend"))
            archive.extract(name, folder / "aarch64")
            (folder / "aarch64" / name).chmod(0o755)
        if shutil.which(QEMU):
            works("wheel, aarch64: gpumend --version", f"gpumend {version}", QEMU, folder / "aarch64" / name,
                  "--version")
    done = run(tools / "bin/pip", "install", "--quiet", "py-rattler-build")
    if done.returncode:
        return skip("conda recipe", done.stdout.strip()[-200:])
    code = ("import sys, rattler_build as r\n"
            "r.build_recipes([sys.argv[1]], output_dir=sys.argv[2], channel=[], target_platform='linux-64')\n")
    done = run(tools / "bin/python", "-c", code, dist / "recipe.yaml", folder / "conda", env=own)
    made = list((folder / "conda").rglob("gpumend-*.conda")) + list((folder / "conda").rglob("gpumend-*.tar.bz2"))
    check("rattler-build makes a package, and its tests pass", done.returncode == 0 and made, done.stdout)
    return None


def of_image(dist, version, folder):
    if not shutil.which("podman") or not shutil.which("runc"):
        return skip("image", "there is no podman with runc")
    store = [*ENGINE, "--root", folder / "images", "--runroot", folder / "images-run"]
    done = run(*store, "load", "--input", dist / f"gpumend-{version}-oci.tar")
    check("podman load", done.returncode == 0, done.stdout)
    name = done.stdout.strip().rpartition(" ")[2]
    limits = ["--rm", "--network=none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
    works("podman run", f"gpumend {version}", *store, "run", *limits, name, "--version")
    works("podman run: gpumend check", "ok", *store, "run", *limits, name, "check", "/gpumend")
    run(*store, "system", "reset", "--force")
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("cross", type=Path)
    parser.add_argument("--windows", type=Path, help="gpumend.exe, if it is built")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--wheel", type=Path, help="what scripts/wheel wrote (default: it is run)")
    parser.add_argument("--dist", type=Path, help="test the packages of this folder, as scripts/dist wrote them")
    args = parser.parse_args()
    build, cross = args.build.resolve(), args.cross.resolve()
    version = run(build / "gpumend", "--version").stdout.split()[1]
    if not (cross / "gpumend").exists():
        skip("packages", f"there is no build for aarch64 in {cross} (make aarch64)")
        print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
        return 0
    with tempfile.TemporaryDirectory(prefix="gpumend-packages.") as name:
        folder, wheel = Path(name), args.wheel
        if not wheel and not args.dist and not args.quick:
            done = run(TOP / "scripts/wheel", folder / "wheel")
            wheel = next((folder / "wheel").glob("*.whl"), None)
            if not wheel:
                skip("wheels", done.stdout.strip()[-300:])
        options = ["--wheel", wheel] if wheel else []
        if args.windows and args.windows.exists():
            options += ["--windows", args.windows.resolve()]
        dist = args.dist or builds(build, cross, folder, options)
        of_contents(dist, version)
        if not args.quick:
            of_tarball(dist, version)
            of_aarch64(dist, version)
            if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
                skip("roots", "they need root and mmdebstrap")
            else:
                of_source(dist, version)
                of_debian(dist, version)
                of_rpm(dist, version)
                of_image(dist, version, folder)
            if list(dist.glob("*.whl")):
                of_wheels(dist, version, folder)
        for path in sorted(dist.iterdir()) if not args.quick else ():
            print(f"{path.stat().st_size:>10}  {path.name}")
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
