#!/usr/bin/env python3
"""An image, mended as `gpumend container dockerfile` says: built by podman, and looked at again.

    tests/container/built.py GPUMEND

Two images of this machine's Python with pip, ctranslate2 and a user of their own. One has no cuBLAS;
the other has it where no loader looks. Each is broken, its printed Dockerfile is built without a
network (pip takes a stand-in for cuBLAS from a folder), and the result is ok, starts as the same user,
and its loader finds the library. Then the test protocol that is printed for podman runs in it against
a stand-in for the driver: nvidia-smi, gpumend's probe, ctranslate2's own call. Skips by name where
podman runs no container, or the wheels cannot be had.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "scenarios"))
sys.path.insert(0, str(HERE.parent / "probe"))
import cases  # noqa: E402
import lab  # noqa: E402
import store  # noqa: E402
from cdi import PODMAN, check, counts, skip, tree  # noqa: E402
from slim import SITE, copied, import_root, make_root, needed, podman  # noqa: E402

BUILD = ("--cgroup-manager=cgroupfs", "build", "--runtime", "runc", "--network=none",
         "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
OPENS = "import ctypes; ctypes.CDLL('libcublas.so.12'); print('found')"


# ---------------------------------------------------------------- the images

def stand_in(folder, package, version, libraries):
    """Stand-ins for libraries below a folder, as their wheel has them: path, source, linked with."""
    for path, source, others in libraries:
        lib = folder / path
        lib.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-std=gnu17", "-shared", "-fPIC", f"-Wl,-soname,{lib.name}",
                        "-Wl,-rpath,$ORIGIN", "-o", lib, lab.HERE / "fake" / source,
                        *(lib.parent / other for other in others)], check=True)
    info = folder / f"{package.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
                                "Tag: py3-none-any\n")
    files = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    (info / "RECORD").write_text("".join(f"{p},,\n" for p in files) + f"{info.name}/RECORD,,\n")


def cublas(folder):
    lib = "nvidia/cublas/lib/"
    stand_in(folder, "nvidia-cublas-cu12", "12.9.9.9",
             ((lib + "libcublasLt.so.12", "cublaslt.c", ()),
              (lib + "libcublas.so.12", "cublas.c", ("libcublasLt.so.12",))))


def nvrtc(folder):
    """cuBLAS of 12.8 and later opens it."""
    stand_in(folder, "nvidia-cuda-nvrtc-cu12", "12.9.9.9",
             (("nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "nvrtc.c", ()),))


def wheel_of(folder, wheels):
    wheels.mkdir(exist_ok=True)
    name = next(folder.glob("*.dist-info")).name.removesuffix(".dist-info")
    with zipfile.ZipFile(wheels / f"{name}-py3-none-any.whl", "w") as wheel:
        for path in sorted(folder.rglob("*")):
            wheel.write(path, path.relative_to(folder))


def add_pip(root):
    try:
        import pip
    except ImportError as error:
        raise store.Skip("this Python has no pip to put into an image") from error
    shutil.copytree(Path(pip.__file__).parent, root / SITE / "pip",
                    ignore=shutil.ignore_patterns("__pycache__"))
    info = root / SITE / f"pip-{pip.__version__}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: pip\nVersion: {pip.__version__}\n")
    (root / "etc/pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n"
                                       "disable-pip-version-check = true\n")


def make_image(root, wheels):
    make_root(root, wheels, cases.CT_485)
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/:/bin/sh\n")
    add_pip(root)
    for program in ("/bin/sh", "/usr/bin/env"):
        copied(program, root)
    for library in needed(["/bin/sh", "/usr/bin/env"]):
        copied(library, root)


# ---------------------------------------------------------------- mending one

def container(exe, *arguments):
    done = subprocess.run([str(exe), "container", *map(str, arguments)], capture_output=True,
                          text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def archive_of(image, path):
    path.unlink(missing_ok=True)
    done = podman("save", "-q", "-o", path, image)
    if done.returncode:
        raise store.Skip("podman save: " + done.stderr.strip()[-150:])
    return path


def built(where, text, folder, image, wheels):
    (folder / "Dockerfile").write_text(text)
    done = podman(*BUILD, "-q", "-v", f"{wheels}:/wheels:ro", "-t", image, "-f",
                  folder / "Dockerfile", folder)
    check(f"{where}: it builds", done.returncode == 0, text + done.stdout[-300:] + done.stderr[-500:])
    return done.returncode == 0


def mended(exe, folder, host, where, image, wheels, instructions):
    later = image + "-mended"
    path = archive_of(image, folder / "image.tar")
    status, said, error = container(exe, "check", path, "--host", host)
    check(f"{where}: it is broken", status == 1 and "libcublas.so.12" in said, said + error)
    status, text, error = container(exe, "dockerfile", path, "--host", host)
    first = [line.split(" ")[0] for line in text.splitlines() if line and line[0] != "#"]
    check(f"{where}: what is printed", status == 0 and first == instructions, text + error)
    try:
        if built(where, text, folder, later, wheels):
            status, said, error = container(exe, "check", archive_of(later, folder / "later.tar"),
                                            "--host", host)
            check(f"{where}: what was built is ok", status == 0, said + error)
            user = podman("inspect", "-f", "{{.Config.User}}", later).stdout.strip()
            check(f"{where}: it starts as its user", user == "app", user)
            opens = podman(*PODMAN[1:], later, "/usr/bin/python3", "-c", OPENS)
            check(f"{where}: its loader finds the library", opens.stdout.strip() == "found",
                  opens.stderr[-300:])
            again = container(exe, "dockerfile", folder / "later.tar", "--host", host)[1]
            check(f"{where}: nothing is left to mend", "has no error" in again and
                  "RUN" not in again, again)
            protocol(exe, folder, host, where, later)
    finally:
        podman("rmi", "-f", later)


# ---------------------------------------------------------------- the test protocol

def protocol(exe, folder, host, where, image):
    """Each printed line, with stand-ins for what the device would bring: the driver's libraries."""
    fakes = lab.Lab(exe, folder)
    said = json.loads(container(exe, "podman", folder / "later.tar", "--host", host, "--json")[1])
    smi = folder / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho GPU 0\n")
    smi.chmod(0o755)
    brings = ["-v", f"{smi}:/usr/bin/nvidia-smi:ro"]
    for name, at in (("libcuda.so.1", fakes.driver()), ("libnvidia-ml.so.1", fakes.nvml())):
        brings += ["-v", f"{os.path.realpath(at / name)}:/usr/lib/x86_64-linux-gnu/{name}:ro"]
    answers = []
    for trial in said["trials"]:
        words = shlex.split(trial["command"])
        device = words.index("--device")
        check(f"{where}: the line starts a container", words[:2] == ["podman", "run"], words)
        del words[device:device + 2]
        done = podman(*PODMAN[1:], *brings, *words[words.index("--rm") + 1:])
        answers.append((trial["command"], done.returncode, done.stdout, done.stderr))
    check(f"{where}: three lines", len(answers) == 3, answers)
    for (line, status, out, error), (program, wanted) in zip(answers, (
            ("nvidia-smi", "GPU 0"), ("/opt/gpumend/bin/gpumend", "NVIDIA Fake 1"),
            ("/usr/bin/python3", ""))):
        check(f"{where}: {program}: runs", f"--entrypoint {program}" in line and wanted in out and
              (status == 0 or not wanted), (line, status, out[-500:], error[-500:]))
    # ctranslate2 asks the real runtime, whose driver is the stand-in: that it was asked is what counts.
    check(f"{where}: ctranslate2 is asked", "ctranslate2" in answers[2][0]
          and "ModuleNotFoundError" not in answers[2][3] and (answers[2][2] or answers[2][3]),
          answers[2])


# ---------------------------------------------------------------- both images

def of_images(exe, folder, wheels):
    host = tree(folder, "geforce-desktop")
    cublas(folder / "cublas")
    nvrtc(folder / "nvrtc")
    for package in ("cublas", "nvrtc"):
        wheel_of(folder / package, folder / "wheels")
    make_image(folder / "root", wheels)
    name = f"localhost/gpumend-built-{os.getpid()}"
    for kind, instructions in (("lacks", ["FROM", "USER", "RUN", "ENV", "USER"]),
                               ("elsewhere", ["FROM", "USER", "ENV", "USER"])):
        if kind == "elsewhere":
            shutil.copytree(folder / "cublas", folder / "root" / SITE, dirs_exist_ok=True)
        image = f"{name}-{kind}:1"
        why = import_root(folder / "root", image, 'USER app', 'CMD ["/usr/bin/python3"]')
        if why:
            raise store.Skip("podman import: " + why)
        try:
            plain = podman(*PODMAN[1:], image, "/usr/bin/python3", "-m", "pip", "--version")
            if plain.returncode:
                raise store.Skip("podman runs no container here: " + plain.stderr.strip()[-150:])
            mended(exe, folder, host, kind, image, folder / "wheels", instructions)
        finally:
            podman("rmi", "-f", image)


def main():
    exe = Path(sys.argv[1]).resolve()
    wheels = store.Store(store.cache_folder(),
                         store.read_pins(HERE.parent / "scenarios/wheels.txt"),
                         lambda text: print("  " + text, flush=True))
    try:
        if not shutil.which("podman") or os.geteuid() != 0:
            raise store.Skip("there is no podman for root")
        store.usable_python()
        wheels.provide(list(cases.CT_485))
        # gpumend puts itself into a container only from a path that no engine takes apart.
        with tempfile.TemporaryDirectory(dir=wheels.cache) as temporary, \
                tempfile.TemporaryDirectory(prefix="gpumend-built-") as plain:
            of_images(Path(shutil.copy(exe, plain)), Path(temporary), wheels)
    except store.Skip as reason:
        skip("an image that is built", str(reason))
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
