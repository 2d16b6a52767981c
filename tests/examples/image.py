#!/usr/bin/env python3
"""examples/whisperx: podman builds the Dockerfile and starts the image.

    tests/examples/image.py GPUMEND

Everything is real: the Dockerfile as it stands, on a slim Debian that mmdebstrap makes once, with
Debian's ffmpeg, and WhisperX with torch from the package index. Several GiB and some minutes: not part
of CI.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path[:0] = [str(TOP / "tests/container"), str(TOP / "tests/scenarios")]
import store  # noqa: E402
from cdi import PODMAN, check, counts, skip  # noqa: E402
from slim import podman  # noqa: E402

EXAMPLE = TOP / "examples/whisperx"
BUILD = ("--cgroup-manager=cgroupfs", "build", "--runtime", "runc", "--network=host", "--layers=false", "--ulimit",
         "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
SUITE, INCLUDE = "bookworm", "python3,python3-venv,ca-certificates"


def gpumend_wheel(exe, folder):
    """What `make wheel` makes, around this executable."""
    info, source = "gpumend-0.1.0.dist-info", TOP / "python/gpumend"
    with zipfile.ZipFile(folder / "gpumend-0.1.0-py3-none-any.whl", "w") as archive:
        for path in sorted(source.glob("*.py")) + [source / "py.typed"]:
            archive.write(path, f"gpumend/{path.name}")
        archive.writestr("gpumend/_version.py",
                         (source / "_version.py.in").read_text().replace("@VERSION@", "0.1.0"))
        archive.write(exe, "gpumend-0.1.0.data/scripts/gpumend")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: gpumend\nVersion: 0.1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
                         "Tag: py3-none-any\n")
        names = archive.namelist()
        archive.writestr(f"{info}/RECORD", "".join(f"{n},,\n" for n in names) + f"{info}/RECORD,,\n")


def base_archive(cache):
    """A Debian with Python, as slim as python:3-slim: that one is on no registry of packages."""
    archive = cache / "roots" / f"{SUITE}-python.tar"
    if not archive.exists():
        if not shutil.which("mmdebstrap"):
            raise store.Skip("there is no mmdebstrap, which makes the base image")
        archive.parent.mkdir(parents=True, exist_ok=True)
        new = archive.with_suffix(".new.tar")
        done = subprocess.run(["mmdebstrap", "--variant=minbase", f"--include={INCLUDE}", SUITE, new],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise store.Skip("mmdebstrap: " + done.stderr.strip()[-200:])
        os.replace(new, archive)
    return archive


def certificate(folder):
    """Where this machine's pip is told which authority signs for its index, that of the image needs it too."""
    given = os.environ.get("PIP_CERT")
    if not given:
        return []
    (folder / "pip.conf").write_text("[global]\ncert = /etc/index.crt\n")
    return ["-v", f"{given}:/etc/index.crt:ro", "-v", f"{folder}/pip.conf:/etc/pip.conf:ro"]


def of_image(exe, folder, archive, base, image):
    done = podman("import", "-q", archive, base)
    if done.returncode or podman(*PODMAN[1:], base, "/bin/true").returncode:
        raise store.Skip("podman runs no container here: " + done.stderr.strip()[-150:])
    shutil.copytree(EXAMPLE, folder / "context")
    gpumend_wheel(exe, folder / "context")
    done = podman(*BUILD, *certificate(folder), "--build-arg", f"BASE={base}", "-t", image, folder / "context")
    check("the Dockerfile is built", done.returncode == 0, done.stdout[-2500:] + done.stderr[-1500:])
    if done.returncode:
        return
    said = podman(*PODMAN[1:], image, "--help")
    check("whisperx starts, with a device", said.returncode == 0 and "--diarize" in said.stdout
          and "The CPU is used" in said.stderr, said.stdout[-500:] + said.stderr[-1000:])
    said = podman(*PODMAN[1:], image, "/nowhere.wav")
    check("whisperx takes what transcribe.py gives it", "unrecognized" not in said.stderr
          and "invalid choice" not in said.stderr, said.stderr[-1000:])
    said = podman(*PODMAN[1:], "--entrypoint", "/opt/venv/bin/gpumend", image, "check", "/opt/venv",
                  "--import", "whisperx", "--json")
    report = json.loads(said.stdout)
    print("check in the image:", report["verdict"], *(f["cause"] for f in report["findings"]))
    check("no error is left", said.returncode in (0, 3), said.stdout[-1500:])
    check("ffmpeg is there", podman(*PODMAN[1:], "--entrypoint", "/usr/bin/ffmpeg", image,
                                    "-version").returncode == 0)
    user = podman("inspect", "-f", "{{.Config.User}}", image).stdout.strip()
    check("its user is not root", user == "app", user)


def main():
    exe = Path(sys.argv[1]).resolve()
    base, image = (f"localhost/gpumend-example-{kind}-{os.getpid()}" for kind in ("base", "whisperx"))
    try:
        if not shutil.which("podman") or os.geteuid() != 0:
            raise store.Skip("there is no podman for root")
        with tempfile.TemporaryDirectory(dir=store.cache_folder()) as folder:
            of_image(exe, Path(folder), base_archive(store.cache_folder()), base, image)
    except store.Skip as reason:
        skip("the image", str(reason))
    finally:
        if shutil.which("podman"):
            podman("rmi", "-f", image, base)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
