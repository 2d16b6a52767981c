#!/usr/bin/env python3
"""The printed install lines, run by the package managers themselves.

    tests/container/managers.py GPUMEND

In a root file system with Debian's dnf, zypper and pacman, and with local repositories that have empty
packages of the names in the lines. What each line does is left as it is printed; only the vendor's
address is a local one (zypper), or a curl that stands in for it writes the list that it would fetch. The
root file system is made once, as root (300 MiB):

    mmdebstrap --variant=extract --aptopt='Apt::Install-Recommends "false"' --include=base-files,bash,coreutils,\
dash,grep,sed,findutils,dnf,zypper,pacman-package-manager,rpm,createrepo-c bookworm ~/.cache/gpumend/managers

Without it, or without the right to chroot, the suite skips by name.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "trees"))
from cdi import check, counts, skip  # noqa: E402
from settings import HOSTS, SYSTEMS  # noqa: E402

ROOT = Path(os.environ.get("GPUMEND_CACHE", Path.home() / ".cache/gpumend")) / "managers"
SPEC = "Name: %s\nVersion: 1\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: x86_64\n%%description\nx\n%%files\n"
LIST = "[cuda]\nname=cuda\nbaseurl=file:///repository\nenabled=1\ngpgcheck=0\n"
CURL = """#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in -fsSLo) to=$2; shift;; esac; shift; done
cat /list.repo > "$to"
"""
SUDO = '#!/bin/sh\nexec "$@"\n'


def inside(top, line, answer=""):
    return subprocess.run(["chroot", str(top), "/bin/bash", "-c", line], input=answer, capture_output=True,
                          text=True, timeout=120, check=False, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"})


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def rpm_repository(top, *names):
    for name in names:
        write(top / "tmp/x.spec", SPEC % name)
        inside(top, "rpmbuild -bb --define '_rpmdir /repository' --define '_topdir /tmp/rpm' /tmp/x.spec")
    return inside(top, "createrepo_c -q /repository")


def pacman_repository(top, name):
    """A package and a database of pacman's, as repo-add writes them."""
    folder = top / "repository"
    folder.mkdir(exist_ok=True)

    def packed(path, member, text):
        with tarfile.open(path, "w:gz") as tar:
            info = tarfile.TarInfo(member)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    file = f"{name}-1-1-x86_64.pkg.tar.gz"
    packed(folder / file, ".PKGINFO", f"pkgname = {name}\npkgver = 1-1\npkgdesc = x\nbuilddate = 1\npackager = x\n"
                                      "size = 0\narch = x86_64\n")
    packed(folder / "extra.db", f"{name}-1-1/desc", f"%FILENAME%\n{file}\n\n%NAME%\n{name}\n\n%VERSION%\n1-1\n\n"
           f"%CSIZE%\n{(folder / file).stat().st_size}\n\n%ISIZE%\n0\n\n%ARCH%\nx86_64\n")
    write(top / "etc/pacman.conf", "[options]\nArchitecture = auto\nSigLevel = Never\n[extra]\nServer = file:///repository\n")
    (top / "var/lib/pacman").mkdir(parents=True, exist_ok=True)
    return inside(top, "pacman -Sy --noconfirm")


def of_lines(top):
    made = rpm_repository(top, "libcublas-12-4", "nvidia-container-toolkit")
    check("the repository of rpm", made.returncode == 0, made.stderr[-300:])
    write(top / "list.repo", LIST)
    write(top / "usr/bin/curl", CURL, 0o755)
    write(top / "usr/bin/sudo", SUDO, 0o755)
    for program, release, files, line in SYSTEMS:
        if program not in ("/usr/bin/dnf", "/usr/bin/zypper") or not line or "addrepo" not in line and "curl" not in line:
            continue
        for folder in ("etc/yum.repos.d", "etc/zypp/repos.d"):
            shutil.rmtree(top / folder, ignore_errors=True)
            (top / folder).mkdir(parents=True)
        write(top / "etc/os-release", release)
        # A list's own file name stays: zypper takes a .repo file by its address.
        local = re.sub(r"addrepo https://\S+", "addrepo file:///list.repo", line)
        done = inside(top, local)
        check(f"{program}, {release.split()[0]}: {line}", done.returncode == 0 and re.search(
            r"Installing\W.*libcublas-12-4|already installed", done.stdout), (done.stdout + done.stderr)[-500:])
        inside(top, program.rsplit("/", 1)[-1] + (" remove -y" if "dnf" in program else " --non-interactive remove")
               + " libcublas-12-4")
    made = pacman_repository(top, "nvidia-container-toolkit")
    check("the repository of pacman", made.returncode == 0, (made.stdout + made.stderr)[-300:])
    line = next(wanted for program, wanted, _ in HOSTS if program == "/usr/bin/pacman")
    done = inside(top, line, "y\n")
    check(f"pacman: {line}", done.returncode == 0 and "nvidia-container-toolkit" in inside(top, "pacman -Q").stdout,
          (done.stdout + done.stderr)[-500:])
    done = inside(top, "sudo pacman -R nvidia-container-toolkit", "y\n")
    check("pacman: the way back", done.returncode == 0, (done.stdout + done.stderr)[-500:])


def main():
    if os.geteuid() != 0:
        skip("package managers", "chroot is root's")
    elif not (ROOT / "usr/bin/zypper").exists():
        skip("package managers", f"there is no root file system {ROOT} (the head of this file says how it is made)")
    else:
        with tempfile.TemporaryDirectory() as folder:
            top = Path(folder) / "root"
            subprocess.run(["cp", "-a", str(ROOT), str(top)], check=True)
            (top / "tmp").mkdir(exist_ok=True)
            for name, minor in (("null", 3), ("urandom", 9)):
                if not (top / "dev" / name).exists():
                    (top / "dev").mkdir(exist_ok=True)
                    os.mknod(top / "dev" / name, 0o666 | 0o020000, os.makedev(1, minor))
            of_lines(top)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
