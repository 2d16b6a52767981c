"""Builds a small Python environment whose files have the shape of real GPU packages.

A package `ctranslate2` with an extension module and a bundled library, and NVIDIA's cuDNN wheel
with one sub-library; nothing in them does anything. The libraries are compiled here with cc.
"""

import os
import subprocess
from pathlib import Path

EXTENSION = "_ext.cpython-311-x86_64-linux-gnu.so"


def library(path, soname=None, needed=(), rpath=None):
    """Compiles a shared object that needs the given files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-o", str(path),
               "-Wl,--no-as-needed"]
    if soname:
        command.append(f"-Wl,-soname,{soname}")
    if rpath:
        command.append(f"-Wl,-rpath,{rpath}")
    command += ["-x", "none", *map(str, needed)]
    subprocess.run(command, input=b"int here(void); int here(void) { return 1; }\n", check=True)


def dist_info(site, name, version, files):
    """Writes dist-info for the files (paths relative to site-packages)."""
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n")
    (folder / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: test\n"
                                  "Root-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n")
    own = [f"{folder.name}/{n}" for n in ("METADATA", "WHEEL", "RECORD")]
    (folder / "RECORD").write_text("".join(f"{f},,\n" for f in [*files, *own]))
    return folder


def environment(top):
    """Builds the environment in the folder `top`, which must not exist, and returns it."""
    top = Path(top)
    site = top / "lib/python3.11/site-packages"
    site.mkdir(parents=True)
    (top / "bin").mkdir()
    os.symlink("/usr/bin/python3", top / "bin/python")
    os.symlink("python", top / "bin/python3")
    (top / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n"
                                    "version = 3.11.2\n")
    (site / "links.pth").write_text("# a comment\n/nowhere/at/all\n")

    cudnn = site / "nvidia/cudnn/lib"
    library(cudnn / "libcudnn.so.9", "libcudnn.so.9")
    library(cudnn / "libcudnn_ops.so.9", "libcudnn_ops.so.9", rpath="$ORIGIN")
    dist_info(site, "nvidia_cudnn_cu12", "9.1.0.70",
              ["nvidia/cudnn/lib/libcudnn.so.9", "nvidia/cudnn/lib/libcudnn_ops.so.9"])

    bundled = site / "ctranslate2.libs/libctranslate2-01234567.so.4"
    library(bundled, bundled.name)
    extension = site / "ctranslate2" / EXTENSION
    library(extension, None, [bundled], "$ORIGIN/../ctranslate2.libs")
    (site / "ctranslate2/__init__.py").write_text("")
    dist_info(site, "ctranslate2", "4.5.0",
              ["ctranslate2/__init__.py", f"ctranslate2/{EXTENSION}",
               f"ctranslate2.libs/{bundled.name}"])
    return top
