#!/usr/bin/env python3
"""A slim Python image with ctranslate2 and cuBLAS, and without NVRTC.

    tests/container/slim.py GPUMEND

The image is made of this machine's Python and of the real wheels, and goes through podman. What is
missing must be said in the same words of the archive that podman saves and of the root of the running
container (/proc/PID/root); and with NVRTC beside it nothing is missing in either. Of the process by
its number only what it has loaded is judged: that NVRTC came into a folder that was made after its
start is said. Skips by name where podman runs no container, or the wheels cannot be had.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "scenarios"))
import cases  # noqa: E402
import store  # noqa: E402
from cdi import PODMAN, check, counts, skip, tree  # noqa: E402

WHEELS = (*cases.CT_485, "nvidia-cublas-cu12==12.8.4.1")
NVRTC = "nvidia-cuda-nvrtc-cu12==12.4.127"
SITE = "usr/local/lib/python3.11/dist-packages"
LIBRARIES = [f"/{SITE}/nvidia/{part}/lib" for part in ("cublas", "cuda_nvrtc")]
PROGRAM = "import ctranslate2, time; print('ready', flush=True); time.sleep(600)"


def copied(path, root):
    """A file of this machine at its own place below the root."""
    to = root / str(path).lstrip("/")
    to.parent.mkdir(parents=True, exist_ok=True)
    if not to.exists():
        shutil.copy(os.path.realpath(path), to)


def needed(files):
    """The libraries that the loader of this machine finds for them."""
    found = set()
    for file in files:
        said = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
        found |= {word for word in said.split() if word.startswith("/")}
    return found


def make_root(root, wheels, requirements):
    root.mkdir()
    for name in ("bin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    shutil.copytree("/usr/lib/python3.11", root / "usr/lib/python3.11",
                    ignore=shutil.ignore_patterns("__pycache__", "test", "config-*"))
    copied("/usr/bin/python3.11", root)
    (root / "usr/bin/python3").symlink_to("python3.11")
    for requirement in requirements:
        store.link_tree(wheels.wheel_folder(requirement), root / SITE)
    extensions = [*root.glob("usr/lib/python3.11/lib-dynload/*.so"), *(root / SITE).glob("*/*.so")]
    for library in needed(["/usr/bin/python3.11", *extensions]):
        if not library.startswith(str(root)):
            copied(library, root)
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    for name in ("proc", "dev", "sys", "tmp", "run", "root"):
        (root / name).mkdir()


def podman(*arguments):
    return subprocess.run(["podman", *map(str, arguments)], capture_output=True, text=True,
                          check=False)


def import_root(root, image, *instructions):
    """None, or why podman does not take it."""
    changes = " ".join(f"-c {shlex.quote(one)}" for one in instructions)
    done = subprocess.run(
        f"tar -C {shlex.quote(str(root))} -c . | podman import -q {changes} - {image}",
        shell=True, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip()[-150:]


def started(image, name):
    """The process id of the program in a container that runs; or None and why not."""
    begun = subprocess.run([*PODMAN, "-d", "--name", name, image, "/usr/bin/python3", "-c", PROGRAM],
                           capture_output=True, text=True, check=False)
    if begun.returncode:
        return None, begun.stderr.strip()[-150:]
    for _ in range(300):
        if "ready" in podman("logs", name).stdout:
            return podman("inspect", "-f", "{{.State.Pid}}", name).stdout.strip(), ""
        time.sleep(0.1)
    return None, "it is not ready after 30 s: " + podman("logs", name).stderr[-300:]


def findings(exe, host, *arguments):
    """Errors and warnings: cause and summary."""
    done = subprocess.run([str(exe), *map(str, arguments), "--host", str(host), "--json"],
                          capture_output=True, text=True, timeout=120, check=False)
    try:
        said = json.loads(done.stdout)
    except ValueError:
        return [("no answer", done.stderr)]
    return [(f["cause"], f["summary"]) for f in said["findings"]
            if f["severity"] in ("error", "warning")]


def of_archive(exe, folder, host, image):
    archive = folder / "image.tar"
    done = podman("save", "-q", "-o", archive, image)
    if done.returncode:
        raise store.Skip("podman save: " + done.stderr.strip()[-150:])
    found = findings(exe, host, "container", "check", archive)
    archive.unlink()
    return found


def of_root(exe, host, process):
    return {"its root": findings(exe, host, "check", "--root", f"/proc/{process}/root", "--env",
                                 "LD_LIBRARY_PATH=" + ":".join(LIBRARIES))}


def of_process(exe, host, process, causes):
    found = findings(exe, host, "check", "--pid", process)
    check(f"the process by its number: {causes}", [f[0] for f in found] == causes, found)


def judge(name, answers, lacks):
    """Every form says the same; and what is wanted of NVRTC."""
    for form, found in answers.items():
        check(f"{name}: {form}", found == answers["archive"], (found, answers["archive"]))
        check(f"{name}: {form}: {'libnvrtc is missing' if lacks else 'nothing is missing'}",
              bool(found) == lacks and all("libnvrtc" in f[1] for f in found), found)


def of_image(exe, folder, host, image, nvrtc):
    """Without NVRTC; then it is copied into the running container, and that becomes an image."""
    container = f"gpumend-slim-{os.getpid()}"
    later = image + "-later"
    try:
        answers = {"archive": of_archive(exe, folder, host, image)}
        process, why = started(image, container)
        if not process:
            raise store.Skip(why)
        judge("without NVRTC", {**answers, **of_root(exe, host, process)}, True)
        of_process(exe, host, process, ["library-missing"])
        time.sleep(3)  # folders are known to be younger than the process from two seconds on
        done = podman("cp", f"{nvrtc}/.", f"{container}:/{SITE}/")
        check("NVRTC is copied in", done.returncode == 0, done.stderr)
        answers = of_root(exe, host, process)
        of_process(exe, host, process, ["folder-created-late"])
        done = podman("commit", "-q", container, later)
        check("the container becomes an image", done.returncode == 0, done.stderr)
        answers["archive"] = of_archive(exe, folder, host, later)
        judge("with NVRTC", answers, False)
    finally:
        podman("rm", "-f", "-t", "0", container)
        podman("rmi", "-f", later)


def main():
    exe = Path(sys.argv[1]).resolve()
    wheels = store.Store(store.cache_folder(),
                         store.read_pins(HERE.parent / "scenarios/wheels.txt"),
                         lambda text: print("  " + text, flush=True))
    try:
        if not shutil.which("podman") or os.geteuid() != 0:
            raise store.Skip("there is no podman for root")
        store.usable_python()
        wheels.provide([*WHEELS, NVRTC])
        with tempfile.TemporaryDirectory(dir=wheels.cache) as temporary:
            folder = Path(temporary)
            host = tree(folder, "geforce-desktop")
            image = f"localhost/gpumend-slim-{os.getpid()}:1"
            make_root(folder / "root", wheels, WHEELS)
            why = import_root(folder / "root", image, 'CMD ["/usr/bin/python3"]',
                              f"ENV LD_LIBRARY_PATH={':'.join(LIBRARIES)}")
            if why:
                raise store.Skip("podman import: " + why)
            try:
                of_image(exe, folder, host, image, wheels.wheel_folder(NVRTC))
            finally:
                podman("rmi", "-f", image)
    except store.Skip as reason:
        skip("slim image", str(reason))
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
