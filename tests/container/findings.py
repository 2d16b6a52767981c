#!/usr/bin/env python3
"""What `gpumend container check` finds in an image, alone and on a host, and does not in its twin.

    tests/container/findings.py GPUMEND

Images are saved archives made of the trees of tests/causes, hosts are machines of tests/trees. Each
story has a faulty image or host, and a twin that differs in the fault alone and has no finding of
that cause, and no error at all.
"""

import io
import json
import shlex
import struct
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "causes"))
sys.path.insert(0, str(HERE.parent / "trees"))
from build import docker, merged, nvidia, system, toolkit  # noqa: E402
from cdi import check, counts, documents, ldconfig, run, skip  # noqa: E402
from devices import COMPAT, compat_library  # noqa: E402
from gpucode import CU121, CU130, cuda_library  # noqa: E402
from image import Layer, saved  # noqa: E402
from machines import A100S, MACHINES, RTX4090  # noqa: E402
from tree import LOADER, TAG, Tree, elf  # noqa: E402



def host(driver, gpu, **more):
    return merged(system(), docker(runtimes={"nvidia": {"path": "nvidia-container-runtime"}}),
                  toolkit(), nvidia(driver, gpu, **more))


GEFORCE = host("550.90.07", RTX4090)
A100 = host("550.90.07", A100S[0], pci_class=0x030200)
OLD_DRIVER = host("470.256.02", RTX4090, is_open=False)
BLACKWELL = host("580.95.05", ("0000:01:00.0", 0x2b85, "NVIDIA GeForce RTX 5090"))
PYTHON = {"Env": ["PATH=/opt/venv/bin:/usr/bin:/bin"], "Cmd": ["python", "app.py"]}


def archive(folder, name, tree, config):
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(tree.top, ".")
        if getattr(tree, "twice", None):
            tar.addfile(tarfile.TarInfo("./" + tree.twice))
    path = folder / f"{name}.tar"
    saved(path, [layer.getvalue()], {"architecture": "amd64", "os": "linux", "config": config})
    return path


def look(exe, image, host, *arguments):
    done = subprocess.run([str(exe), "container", "check", str(image), "--host", str(host), "--json",
                           *arguments], capture_output=True, text=True, timeout=60, check=False)
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        return done.returncode, {"findings": [], "error": done.stderr}


def shown(document):
    return [(f["severity"], f["cause"], f["culprit"]) for f in document["findings"]] + [
        document.get("error")]


class Story:
    """`fill(tree, bad)` makes the image and returns its configuration."""

    def __init__(self, name, cause, severity, fill, host=GEFORCE, good_host=None, repair=""):
        self.name, self.cause, self.severity, self.fill = name, cause, severity, fill
        self.hosts = {True: host, False: good_host or host}
        self.repair = repair

    def documents(self, exe, folder):
        for bad in (True, False):
            place = folder / self.name / ("bad" if bad else "good")
            image, host = Tree(place / "image"), Tree(place / "host")
            config = self.fill(image, bad)
            host.machine(self.hosts[bad])
            path = archive(place, "image", image, config)
            yield bad, look(exe, path, host.top)

    def tell(self, exe, folder):
        for bad, (status, document) in self.documents(exe, folder):
            found = [f for f in document["findings"] if f["cause"] == self.cause]
            errors = [f for f in document["findings"] if f["severity"] == "error"]
            if not bad:
                check(f"{self.name}: the twin is silent", not found and not errors and status == 0,
                      shown(document))
                continue
            check(f"{self.name}: found once, with its severity", len(found) == 1
                  and found[0]["severity"] == self.severity, shown(document))
            check(f"{self.name}: status", status == (1 if errors else 0), (status, shown(document)))
            for f in found:
                told = "\n".join(f"{r['text']}\n{r['command']}" for r in f["repairs"])
                check(f"{self.name}: a repair", f["repairs"] and self.repair in told, told)


# ---------------------------------------------------------------- the image alone

def cpu_only(t, bad):
    t.python().torch_for("cuda", "12.4", "2.5.1+cpu" if bad else "2.5.1")
    if bad:
        t.put(t.site + "/torch/version.py", "cuda: Optional[str] = None\nhip: Optional[str] = None\n")
    return PYTHON


def two_releases(t, bad):
    """torch for CUDA 12 and an onnxruntime for CUDA 11: each finds its own."""
    t.python().torch_for("cuda", "12.4", needed=["libcublas.so.12"])
    t.system_cublas()
    major = 11 if bad else 12
    for name in (f"libcublas.so.{major}", f"libcublasLt.so.{major}"):
        t.lib("/usr/local/cuda/lib64/" + name)
    t.onnxruntime(version="1.17.1", needed=[f"libcublasLt.so.{major}", f"libcublas.so.{major}"])
    return {"Env": [*PYTHON["Env"], "LD_LIBRARY_PATH=/usr/local/cuda/lib64"], "Cmd": PYTHON["Cmd"]}


def other_python(t, bad):
    """The environment that ENTRYPOINT names, and not the first of PATH, is what starts."""
    t.python().ctranslate2()
    if not bad:
        t.system_cublas()
    return {"Env": ["PATH=/usr/bin"], "Entrypoint": ["/opt/venv/bin/python"], "Cmd": ["app.py"]}


def program(t, bad):
    t.loader()
    t.lib("/app/llama-server", soname=None, interp=LOADER, needed=["libcublas.so.12"],
          runpath="$ORIGIN")
    if not bad:
        t.lib("/app/libcublas.so.12")
    return {"Env": ["PATH=/app"], "Entrypoint": ["llama-server"], "WorkingDir": "/app"}


def below_the_folder(t, bad):
    config = program(t, bad)
    return {**config, "Entrypoint": ["./llama-server", "--port", "80"]}


def entry_missing(t, bad):
    t.python().ctranslate2()
    t.system_cublas()
    return {"Env": PYTHON["Env"], "Cmd": ["python3.12" if bad else "python", "app.py"]}


def interpreter_missing(t, bad):
    config = entry_missing(t, False)
    t.put("/entry.sh", "#!/opt/venv/bin/%s\nimport ctranslate2\n" % ("python3.99" if bad else "python"))
    return {**config, "Entrypoint": ["/entry.sh"]}


def windows_lines(t, bad):
    config = entry_missing(t, False)
    end = "\r\n" if bad else "\n"
    t.put("/entry.sh", f"#!/opt/venv/bin/python{end}import ctranslate2{end}")
    return {**config, "Entrypoint": ["/entry.sh"]}


def folder_of_the_environment(t, bad):
    """LD_LIBRARY_PATH of the configuration names a folder that has a stub of the driver."""
    t.python().ctranslate2()
    t.system_cublas()
    t.lib("/usr/local/cuda/lib64/stubs/libcuda.so.1")
    t.lib(t.site + "/app/_ext.so", soname=None, needed=["libcuda.so.1"])
    t.torch_for("cuda", "12.4", needed=["libcuda.so.1"])
    return {"Env": [*PYTHON["Env"], *(["LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs"] if bad else [])],
            "Cmd": PYTHON["Cmd"]}


def refused(t, bad):
    """archive() writes what the tree has; the second entry of a name comes with it."""
    cuda_12(t, bad)
    t.twice = "opt/venv/pyvenv.cfg" if bad else None
    return PYTHON


# ---------------------------------------------------------------- programs of other processors

REGISTERED = ("enabled\ninterpreter /usr/bin/qemu-aarch64-static\nflags: %s\noffset 0\n"
              "magic 7f454c460201010000000000000000000200b700\n"
              "mask ffffffffffffff00fffffffffffffffffeffffff\n")


def header(machine):
    """An ELF program of 64 bits that is nothing but its headers."""
    return (b"\x7fELF\2\1\1" + bytes(9)
            + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0x400000, 64, 0, 0, 64, 56, 1, 64, 0, 0)
            + struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, 200, 200, 4096) + bytes(200))


# (what the image starts, flags of what the host has registered, its interpreter is in the image,
# severity or None, exit status, what it says). Without flags: what the host's /proc shows of the format.
QEMU, BOX = "/usr/bin/qemu-aarch64-static", "/usr/bin/box64"
STARTS = (
    ("program", "absent", False, "error", 1, "exec format error"),
    ("script", "absent", False, "error", 1, "exec format error"),
    ("program", "not mounted", False, "warning", 3, "unless the kernel has an interpreter"),
    ("program", "not captured", False, "warning", 3, "unless the kernel has an interpreter"),
    ("program", "no list", False, "warning", 3, "unless the kernel has an interpreter"),
    ("program", "OCF", False, "warning", 3, "slowly and without a GPU"),
    ("script", "OCF", False, "warning", 3, "slowly and without a GPU"),
    ("program", "OCF box", False, "warning", 3, "runs it with box64."),
    ("program", "OC", False, "error", 1, "not in the image"),
    ("program", "OC", True, "warning", 3, "slowly and without a GPU"),
    ("native", "not mounted", False, None, None, ""), ("native", "OCF", False, None, None, ""),
)


MAGIC_X86 = ("magic 7f454c4602010100000000000000000002003e00\n"
             "mask fffffffffffefe00fffffffffffffffffeffffff\n")

# What an Arm machine with a GPU has registered for an image with torch for CUDA.
WITH_GPU = (("absent", "error", 1, "exec format error"),
            ("not mounted", "warning", 3, "unless the kernel has an interpreter"),
            ("OCF", "error", 1, "slowly and without a GPU"),
            ("OCF box", "warning", 3, "runs it with box64."))


def of_gpu_programs(exe, folder):
    """QEMU passes no calls of a GPU's driver on; of other interpreters that is not known."""
    for shows, severity, wanted, words in WITH_GPU:
        place = folder / f"gpu-{shows.replace(' ', '-')}"
        host_of_formats(place / "host", shows)
        (place / "host/proc/cpuinfo").write_text("processor\t: 0\nCPU architecture: 8\n")
        registered = place / "host/proc/sys/fs/binfmt_misc/some-name"
        if registered.exists():
            text = registered.read_text()
            registered.write_text(text[:text.index("magic")] + MAGIC_X86)
        t = Tree(place / "image")
        image = archive(place, "image", t, cuda_12(t, False))
        status, document = look(exe, image, place / "host")
        found = [f for f in document["findings"] if f["cause"] == "program-other-architecture"]
        check(f"torch for CUDA on Arm, {shows}", status == wanted and found
              and {f["severity"] for f in found} == {severity}
              and all(words in f["summary"] for f in found), (status, shown(document)))
        check(f"torch for CUDA on Arm, {shows}: QEMU and the driver", (shows == "OCF") == any(
            "QEMU does not pass" in line for f in found for line in f["evidence"]), found)


def host_of_formats(host, kind):
    """A machine of this processor whose /proc shows so much of binfmt_misc."""
    formats = host / "proc/sys/fs/binfmt_misc"
    for folder in (formats.parent, host / "sys/bus/pci/devices"):
        folder.mkdir(parents=True)
    (host / "proc/cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu lm sse sse2\n")
    if kind != "no list":
        (host / "proc/filesystems").write_text(
            "nodev\tproc\n\text4\n" + ("" if kind == "absent" else "nodev\tbinfmt_misc\n"))
    if kind not in ("absent", "not captured"):
        formats.mkdir()
    if kind.startswith("OC"):
        flags, _, box = kind.partition(" ")
        (formats / "status").write_text("enabled\n")
        (formats / "some-name").write_text((REGISTERED % flags).replace(QEMU, BOX if box else QEMU))


def of_processors(exe, folder):
    for number, (kind, shows, has, severity, wanted, words) in enumerate(STARTS):
        place = folder / f"start-{number}"
        host, image = place / "host", place / "image.tar"
        host_of_formats(host, shows)
        program = header(62 if kind == "native" else 183)
        layer = Layer().add("bin/sh", program)
        layer.add("start.sh", b"#!/bin/sh\nexec sleep 1\n")
        if has:
            layer.add(QEMU[1:], header(62))
        start = "/start.sh" if kind == "script" else "/bin/sh"
        saved(image, [layer.bytes()], {"architecture": "arm64", "os": "linux",
                                       "config": {"Env": ["PATH=/bin"], "Cmd": [start]}})
        status, document = look(exe, image, host)
        found = [f for f in document["findings"] if f["cause"] == "program-other-architecture"]
        what = f"processor: {kind}, {shows}, {has}"
        check(what, [f["severity"] for f in found] == ([severity] if severity else []),
              shown(document))
        check(f"{what}: status", wanted is None or status == wanted, (status, shown(document)))
        said = " ".join(f["summary"] for f in found)
        check(f"{what}: what happens is said", words in said and
              ("exec format error" in said) == (words.startswith(("exec", "unless"))), shown(document))


# ---------------------------------------------------------------- the image on a host

def cuda_12(t, bad):
    t.python().torch_for("cuda", "12.4", needed=["libcudart.so.12"])
    t.cudart()
    return PYTHON


def forward_compatibility(t, bad):
    cuda_12(t, bad)
    t.put(COMPAT + "/libcuda.so.575.57.08", compat_library([535, 550]))
    t.link(COMPAT + "/libcuda.so.1", "libcuda.so.575.57.08")
    return {"Env": [*PYTHON["Env"], "LD_LIBRARY_PATH=" + COMPAT], "Cmd": PYTHON["Cmd"]}


def architectures(t, bad):
    t.python()
    t.put(t.site + "/torch/lib/libtorch_cuda.so",
          cuda_library("libtorch_cuda.so", CU121 if bad else CU130))
    t.torch_for("cuda", "12.1" if bad else "13.0", "2.5.1" if bad else "2.9.0",
                needed=["libtorch_cuda.so"], rpath="$ORIGIN/lib")
    t.dist("torch", "2.5.1" if bad else "2.9.0",
           ["torch/lib/libtorch_cuda.so", f"torch/_C.{TAG}.so"])
    return PYTHON


def video(t, bad):
    t.python().torch_for("cuda", "12.4", needed=["libnvcuvid.so.1"])
    variables = ["NVIDIA_DRIVER_CAPABILITIES=compute,utility" + ("" if bad else ",video")]
    return {"Env": [*PYTHON["Env"], *variables], "Cmd": PYTHON["Cmd"]}


# What an image requires, and whether driver 550.90.07 is refused: libnvidia-container's src/cli/dsl.c.
REQUIRED = (
    ("cuda>=12.4", False), ("cuda>=12.6", True), ("cuda>=13.0", True), ("driver>=560", True),
    ("driver>=550,driver<551", False), ("driver!=550.90.07", True), ("driver=550.90.07", False),
    ("cuda>=12.6 driver>=550,driver<551", False),
    ("cuda>=12.6 brand=tesla,driver>=470,driver<471", True),
    # Which brand the driver reports is unknown, and so is a CUDA that no toolkit has.
    ("cuda>=12.6 brand=tesla,driver>=550,driver<551", False), ("cuda>=99.0", False),
    ("", False), ("no condition", False))


def requirements(exe, folder):
    """A container whose NVIDIA_REQUIRE_* its host's driver does not meet is not started."""
    place = folder / "requirements"
    image, host = Tree(place / "image"), Tree(place / "host")
    config = cuda_12(image, False)
    host.machine(GEFORCE)
    path = archive(place, "image", image, config)
    for value, refused in REQUIRED:
        for more in ((), ("--env", "NVIDIA_DISABLE_REQUIRE=true")):
            status, document = look(exe, path, host.top, "--env", f"NVIDIA_REQUIRE_CUDA={value}", *more)
            found = [f for f in document["findings"] if f["cause"] == "driver-too-old-for-image"]
            check(f"{value} {more}: refused", len(found) == (refused and not more) and status == 0,
                  (status, shown(document)))
    for form in ("docker", "compose", "kubernetes", "podman"):
        done = subprocess.run([str(exe), "container", form, str(path), "--host", str(host.top), "--env",
                               "NVIDIA_REQUIRE_CUDA=cuda>=12.6"], capture_output=True, text=True,
                              timeout=60, check=False)
        told = done.stdout + done.stderr
        check(f"{form}: what the requirement means is said",
              ("NVIDIA_DISABLE_REQUIRE=true" in told) == (form != "podman"), told)


def other_user(exe, folder):
    """LXC and systemd-nspawn start a folder as root, whatever USER the image sets."""
    for user, told in (("1001:1001", True), ("app", True), ("0", False), ("root", False), (None, False)):
        place = folder / f"user-{user}"
        image, host = Tree(place / "image"), Tree(place / "host")
        config = cuda_12(image, False)
        host.machine(GEFORCE)
        path = archive(place, "image", image, {**config, **({"User": user} if user else {})})
        for form in ("nspawn", "lxc", "docker"):
            done = subprocess.run([str(exe), "container", form, str(path), "--host", str(host.top)],
                                  capture_output=True, text=True, timeout=60, check=False)
            check(f"{form}: USER {user}", done.returncode == 0
                  and (f"USER {user}, which is not kept" in done.stdout) == (told and form != "docker"),
                  done.stdout[-600:] + done.stderr)


def other_folder(exe, folder):
    """A folder has no working directory: what starts one is told that of the image."""
    for where in ("/app", "/with blank", None):
        place = folder / f"folder-{where}".replace("/", "")
        image, host = Tree(place / "image"), Tree(place / "host")
        config = cuda_12(image, False)
        host.machine(GEFORCE)
        path = archive(place, "image", image, {**config, **({"WorkingDir": where} if where else {})})
        for form, line in (("nspawn", "--chdir=%s"), ("lxc", "lxc.init.cwd = %s")):
            done = subprocess.run([str(exe), "container", form, str(path), "--host", str(host.top)],
                                  capture_output=True, text=True, timeout=60, check=False)
            named = where and (shlex.quote(where) if form == "nspawn" else where)
            said = line % (named or "") in done.stdout
            check(f"{form}: WORKDIR {where}", said == bool(where), done.stdout[-600:] + done.stderr)


def variables(exe, folder):
    """--env and --unset change the variable that they name, and no other of the image."""
    place = folder / "variables"
    image, host = Tree(place / "image"), Tree(place / "host")
    config = cuda_12(image, False)
    host.machine(GEFORCE)
    path = archive(place, "image", image,
                   {**config, "Env": [*config["Env"], "NVIDIA_REQUIRE_CUDA=cuda>=13.0"]})
    for arguments, errors, refused in (
            ((), 0, 1), (("--env", "OTHER=1"), 0, 1), (("--unset", "OTHER"), 0, 1),
            (("--env", "PATH=/nowhere"), 1, 1), (("--env", "NVIDIA_REQUIRE_CUDA="), 0, 0),
            (("--unset", "NVIDIA_REQUIRE_CUDA"), 0, 0)):
        _, document = look(exe, path, host.top, *arguments)
        found = [(f["severity"], f["cause"]) for f in document["findings"]]
        check(f"{arguments}: the image's other variables stay",
              [len([f for f in found if f[0] == "error"]),
               len([f for f in found if f[1] == "driver-too-old-for-image"])] == [errors, refused],
              shown(document))


# ---------------------------------------------------------------- whose libcuda

OWN = "/opt/old"     # where the image has one of its own
USUAL = "/usr/lib/x86_64-linux-gnu"


def own_driver(version="535.104.05", conf="cuda.conf", path="", library=None, place=OWN):
    """A libcuda in a folder that a file of ld.so.conf.d names, or LD_LIBRARY_PATH (`path`)."""
    def fill(t):
        cuda_12(t, True)
        t.put(f"{place}/libcuda.so.{version}", library or elf("libcuda.so.1"))
        t.link(f"{place}/libcuda.so.1", f"libcuda.so.{version}")
        cached(t, {conf: place} if conf else {})
        return ["LD_LIBRARY_PATH=" + path] if path else []
    return fill


def own_path(t):
    """libcudart in a folder that only the image's LD_LIBRARY_PATH names."""
    t.python().torch_for("cuda", "12.4", needed=["libcudart.so.12"])
    t.put("/opt/app/lib/libcudart.so.12", elf("libcudart.so.12"))
    cached(t, {})
    return ["LD_LIBRARY_PATH=/opt/app/lib"]


def cached(t, confs):
    t.put("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
    for name, folder in confs.items():
        t.put("/etc/ld.so.conf.d/" + name, folder + "\n")
    subprocess.run([ldconfig(), "-r", t.top], check=True, capture_output=True)


def by_hand(name, *hooks, folder=USUAL):
    """A specification that mounts the driver's libcuda in a folder of the loader's."""
    source = f"{USUAL}/libcuda.so.550.90.07"
    return {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [
        {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}],
        "containerEdits": {"mounts": [{"hostPath": source, "containerPath": f"{folder}/{name}"}],
                           **({"hooks": list(hooks)} if hooks else {})}}


def hook(name, *options):
    return {"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook",
            "args": ["nvidia-cdi-hook", name, *options]}


DESKTOP = merged(system(), nvidia("550.90.07", RTX4090))
OLD_CENTRE = merged(system(), nvidia("470.256.02", A100S[0], pci_class=0x030200, is_open=False))
CENTRE = merged(system(), nvidia("550.90.07", A100S[0], pci_class=0x030200))


def host_with(version, machine):
    """The host, with this release of NVIDIA's toolkit, or without one."""
    machine = dict(machine)
    if version:
        machine.update({"/usr/bin/nvidia-cdi-hook": "", "/var/lib/dpkg/status":
                        "Package: nvidia-container-toolkit-base\nStatus: install ok installed\n"
                        + ("" if version == "unknown" else f"Version: {version}-1\n") + "\n"})
    return machine


WITHOUT_HOOKS = by_hand("libcuda.so.1")
# As nvidia-ctk writes it, which leaves the soname to ldconfig.
BY_CTK = by_hand("libcuda.so.550.90.07", hook("update-ldcache", "--folder", USUAL))
WITH_COMPAT = by_hand("libcuda.so.550.90.07", hook("enable-cuda-compat"),
                      hook("update-ldcache", "--folder", "/opt/driver"), folder="/opt/driver")
HAS, COMPAT_WRONG, LOST = ("container-image-has-driver", "forward-compat-wrong", "library-not-on-path")
TOO_OLD = "driver-too-old"
FITTING = compat_library([535, 550])
NEEDED = compat_library([470, 535])     # on a driver that is too old without it
CUDA_COMPAT = "/usr/local/cuda/compat"

# image, what the host's engine reads (None: nothing; True: what gpumend prints there), release of
# the host's toolkit, GPU -> what is found and the status. Each was seen with podman and runc, and
# nvidia-cdi-hook 1.17.8 and 1.19.0, for a libcuda in an image's cache.
WHOSE = {
    "cache, no hooks": (own_driver(), WITHOUT_HOOKS, None, DESKTOP, [("error", HAS)], 1),
    "cache, no specification": (own_driver(), None, None, DESKTOP, [], 0),
    "cache, ours": (own_driver(), True, None, DESKTOP, [], 0),
    "cache, ours with hooks": (own_driver(), True, "1.17.8", DESKTOP, [], 0),
    "cache, ours with newer hooks": (own_driver(), True, "1.19.0", DESKTOP, [], 0),
    "cache, by nvidia-ctk 1.17": (own_driver(), BY_CTK, "1.17.8", DESKTOP, [], 0),
    "cache, by nvidia-ctk 1.19": (own_driver(), BY_CTK, "1.19.0", DESKTOP, [("error", HAS)], 1),
    "cache, by some nvidia-ctk": (own_driver(), BY_CTK, "unknown", DESKTOP, [("warning", HAS)], 3),
    "early file, ours with hooks": (own_driver(conf="00-cuda.conf"), True, "1.17.8", DESKTOP,
                                    [("error", HAS)], 1),
    "early file, ours": (own_driver(conf="00-cuda.conf"), True, None, DESKTOP, [], 0),
    "the same driver": (own_driver("550.90.07"), WITHOUT_HOOKS, None, DESKTOP, [], 0),
    "no version": (own_driver("1.0"), WITHOUT_HOOKS, None, DESKTOP, [("error", HAS)], 1),
    "path, no hooks": (own_driver(conf=None, path=OWN), WITHOUT_HOOKS, None, DESKTOP,
                       [("error", HAS)], 1),
    "path, ours": (own_driver(conf=None, path=OWN), True, None, DESKTOP, [], 0),
    "path, ours with hooks": (own_driver(conf=None, path=OWN), True, "1.17.8", DESKTOP,
                              [("error", HAS)], 1),
    "path with the mount before it": (own_driver(conf=None, path=USUAL + ":" + OWN), WITHOUT_HOOKS,
                                      None, DESKTOP, [], 0),
    "mounted over": (own_driver(conf=None, place=USUAL), WITHOUT_HOOKS, None, DESKTOP,
                     [("warning", HAS)], 0),
    "compat, no hooks": (own_driver("575.57.08", library=FITTING, place=CUDA_COMPAT),
                         WITHOUT_HOOKS, None, DESKTOP, [("error", COMPAT_WRONG)], 1),
    "compat, ours": (own_driver("575.57.08", library=FITTING, place=CUDA_COMPAT), True, None,
                     DESKTOP, [], 0),
    "compat, ours with hooks": (own_driver("575.57.08", library=FITTING, place=CUDA_COMPAT), True,
                                "1.18.0", DESKTOP, [], 0),
    "compat, its hook on a GeForce": (own_driver("575.57.08", library=FITTING, place=CUDA_COMPAT),
                                      WITH_COMPAT, "1.18.0", DESKTOP, [("error", COMPAT_WRONG)], 1),
    "compat that fits": (own_driver("575.57.08", library=FITTING, place=CUDA_COMPAT), WITHOUT_HOOKS,
                         None, CENTRE, [], 0),
    "compat that is needed": (own_driver("575.57.08", library=NEEDED, place=CUDA_COMPAT), None, None,
                              OLD_CENTRE, [], 0),
    "compat that is needed, ours": (own_driver("575.57.08", library=NEEDED, place=CUDA_COMPAT),
                                    True, None, OLD_CENTRE, [("error", TOO_OLD)], 1),
    "compat that is needed, ours with its hook": (
        own_driver("575.57.08", library=NEEDED, place=CUDA_COMPAT), True, "1.18.0", OLD_CENTRE, [], 0),
    "compat that is needed, hooks without its own": (
        own_driver("575.57.08", library=NEEDED, place=CUDA_COMPAT), True, "1.16.2", OLD_CENTRE,
        [("error", TOO_OLD)], 1),
    "own path, ours": (own_path, True, None, DESKTOP, [("error", LOST)], 1),
    "own path, ours with hooks": (own_path, True, "1.17.8", DESKTOP, [], 0),
    "own path, no hooks": (own_path, WITHOUT_HOOKS, None, DESKTOP, [], 0),
}


# Where another specification would not help.
BY_START = "podman run --device nvidia.com/gpu=all -e LD_LIBRARY_PATH="
CURES = {
    "early file, ours with hooks": BY_START + "/opt/gpumend/driver IMAGE",
    "path, ours with hooks": BY_START + "/opt/gpumend/driver:/opt/old IMAGE",
    "own path, ours": "RUN printf '%s\\n' /opt/app/lib | tr ':' '\\n' > "
                      "/etc/ld.so.conf.d/image.conf && ldconfig",
}


def whose_libcuda(exe, folder):
    if not ldconfig():
        return skip("whose libcuda", "there is no ldconfig here")
    for name, (fill, document, version, machine, wanted, status) in WHOSE.items():
        place = folder / ("whose " + name)
        image, host = Tree(place / "image"), Tree(place / "host")
        variables = fill(image)
        host.machine(host_with(version, machine))
        if document is True:
            document = documents(run(exe, "--host", host.top).stdout)[0]
        if document:
            host.put("/etc/cdi/nvidia.json", json.dumps(document))
        path = archive(place, "image", image, {**PYTHON, "Env": [*PYTHON["Env"], *variables]})
        rc, said = look(exe, path, host.top)
        found = [(f["severity"], f["cause"]) for f in said["findings"] if f["severity"] != "note"]
        check(f"whose libcuda, {name}", found == wanted and rc == status, (rc, shown(said)))
        for f in said["findings"]:
            told = [r["command"] or "" for r in f["repairs"]]
            check(f"whose libcuda, {name}: told where", f["cause"] == COMPAT_WRONG or f["severity"]
                  != "error" or "/etc/cdi/nvidia.json" in json.dumps(f["evidence"]), f)
            command = CURES.get(name, "sudo mv /etc/cdi/nvidia.json /etc/cdi/nvidia.json.old && "
                                      "sudo gpumend container cdi --write")
            toolkit_base = "nvidia-container-toolkit-base, 1.17.5" in json.dumps(f["repairs"])
            check(f"whose libcuda, {name}: what to do", f["severity"] != "error" or command in told
                  or (f["cause"] == TOO_OLD and toolkit_base), told)
            check(f"whose libcuda, {name}: what does not help is not offered", name not in CURES
                  or not any("container cdi" in c for c in told), told)
        options = [word for v in variables for word in ("--env", v)]
        done = subprocess.run([str(exe), "check", "--root", str(image.top), "--host", str(host.top),
                               "--json", "/opt/venv", *options], capture_output=True, text=True,
                              timeout=60, check=False)
        same = [(f["severity"], f["cause"]) for f in json.loads(done.stdout)["findings"]
                if f["severity"] != "note"] if done.stdout else done.stderr
        check(f"whose libcuda, {name}: a folder", same == wanted, same)


STORIES = [
    Story("two-releases-of-cuda", "cuda-releases-mixed", "note", two_releases),
    Story("cpu-only", "build-without-gpu", "warning", cpu_only),
    Story("python-of-the-entry-point", "library-missing", "error", other_python,
          repair="nvidia-cublas-cu12"),
    Story("program-of-the-entry-point", "library-missing", "error", program),
    Story("program-in-the-working-folder", "library-missing", "error", below_the_folder),
    Story("entry-point-missing", "container-entry-missing", "error", entry_missing),
    Story("interpreter-missing", "container-entry-missing", "error", interpreter_missing,
          repair="install the interpreter"),
    Story("windows-lines", "container-entry-missing", "error", windows_lines, repair="line endings"),
    Story("refused", "container-image-refused", "error", refused),
    Story("environment", "stub-libcuda", "error", folder_of_the_environment,
          repair="LD_LIBRARY_PATH"),
    Story("driver-floor", "driver-too-old", "error", cuda_12, OLD_DRIVER, GEFORCE),
    Story("forward-compatibility", "forward-compat-wrong", "error", forward_compatibility, GEFORCE,
          A100),
    Story("architectures", "gpu-code-missing", "error", architectures, BLACKWELL),
    Story("capabilities", "container-without-driver-libraries", "warning", video),
]


# ---------------------------------------------------------------- what is judged

def application(t, bad, site="/app/.venv"):
    """ctranslate2 in an environment that PATH does not lead to; `bad`: without its cuBLAS."""
    t.prefix, t.site = site, site + "/lib/python3.11/site-packages"
    t.cublas = t.site + "/nvidia/cublas/lib"
    t.python().ctranslate2()
    if not bad:
        t.system_cublas()
    for name in ("/bin/sh", "/usr/bin/uv", "/usr/bin/tini", "/tini", "/command/s6-setuidgid"):
        t.put(name, elf(None, interp=LOADER))
    t.put("/app/app.py", "import ctranslate2\n")
    t.put("/app/pyproject.toml", "")
    t.put("/entry.sh", "#!/bin/sh\nset -e\nexec /app/.venv/bin/python /app/app.py \"$@\"\n")
    t.put("/docker-entrypoint.sh", "#!/bin/sh\nexec \"$@\"\n")
    t.put("/odd.sh", "#!/bin/sh\nexec $(cat /run/command)\n")


ENTRIES = ({"Cmd": ["uv", "run", "app.py"], "WorkingDir": "/app"}, {"Entrypoint": ["/entry.sh"]},
           {"Cmd": ["sh", "-c", ".venv/bin/python app.py"], "WorkingDir": "/app"},
           {"Entrypoint": ["tini", "--", "/docker-entrypoint.sh"], "Cmd": ["/app/.venv/bin/python", "-m", "app"]},
           {"Entrypoint": ["/tini", "--", "/command/s6-setuidgid", "app"],
            "Cmd": ["/app/.venv/bin/python", "-m", "app"]},
           {"Cmd": ["sh", "-c", ". /app/.venv/bin/activate && exec python /app/app.py"]},
           {"Entrypoint": ["/odd.sh"]}, {})


def look_at(exe, folder, fill, config):
    place = Path(tempfile.mkdtemp(dir=folder))
    image, host = Tree(place / "image"), Tree(place / "host")
    fill(image)
    host.machine(GEFORCE)
    config = {"Env": ["PATH=/usr/bin:/bin"], **config}
    status, document = look(exe, archive(place, "image", image, config), host.top)
    return status, document, place / "image"


def applications_elsewhere(exe, folder):
    """The environment that the image starts is judged, or the only one that it has."""
    for config in ENTRIES:
        for bad in (True, False):
            status, document, _ = look_at(exe, folder, lambda t, bad=bad: application(t, bad), config)
            target = {k: v for k, v in document.items() if k not in ("notes", "findings", "host")}
            check(f"{config}, {bad}: judged", status == int(bad) and "/app/.venv" in json.dumps(target),
                  (status, shown(document), target))


FAR_AWAY = ("/opt/a/e", "/home/u/b", "/data/a/env3", "/var/lib/thing/e", "/srv/w/x/y/z")


def on_the_cpu(exe, folder):
    """What only a use of the GPU meets is a note for a program that is to compute on the CPU."""
    place = Path(tempfile.mkdtemp(dir=folder))
    image, host = Tree(place / "image"), Tree(place / "host")
    application(image, True)
    host.machine(MACHINES["cpu-only"][1])
    path = archive(place, "image", image, {"Env": ["PATH=/usr/bin:/bin"], **ENTRIES[0]})
    for arguments, status, severity in (((), 1, "error"), (("--device", "cpu"), 0, "note")):
        got, document = look(exe, path, host.top, *arguments)
        check(f"{arguments}: {severity}", (got, [f["severity"] for f in document["findings"]]) == (status, [severity]),
              (got, shown(document)))
    refused = subprocess.run([str(exe), "container", "docker", str(path), "--device", "cpu"], capture_output=True,
                             timeout=60, check=False)
    check("a form takes no --device", refused.returncode == 2, refused)


def applications_far_away(exe, folder):
    """What starts is unknown, and the environment is in no conventional place: it is found."""
    for site in FAR_AWAY:
        status, document, _ = look_at(exe, folder, lambda t, site=site: application(t, True, site),
                                      {"Entrypoint": ["/odd.sh"]})
        check(f"{site}: judged", status == 1 and any(site in note for note in document["notes"]),
              (status, shown(document)))


def cannot_tell(exe, folder):
    """No verdict where packages lie that no known program uses, or nothing was found."""
    def lost(t):
        application(t, True)
        for name in ("/app/.venv/bin/python", "/usr/bin/python3", "/usr/bin/python3.11"):
            t.remove(name)

    def put_beside(t):
        t.python()
        t.site = "/srv/deps"
        t.ctranslate2()

    def bundle(t):
        t.python()
        t.site = "/opt/prog/_internal"
        t.ctranslate2()
        t.put("/opt/prog/prog", elf(None, interp=LOADER))

    def crowded(t):
        for i in range(8200):
            (Path(t.top) / f"many/{i}").mkdir(parents=True)
        t.python()

    def alone(t):
        t.python()
        for name in ("/bin/sh", "/usr/bin/tini"):
            t.put(name, elf(None, interp=LOADER))
        t.put("/entry.sh", "#!/bin/sh\nexec absent-program \"$@\"\n")
        t.put("/notes.txt", "no program\n")
        t.real("/notes.txt").chmod(0o644)

    def without_library(t):
        alone(t)
        t.remove("/usr/lib/python3.11/os.py")

    for name, fill, config in (
            ("a script starts what is not there", alone, {"Entrypoint": ["/entry.sh"]}),
            ("a launcher starts what is not there", alone, {"Cmd": ["tini", "--", "absent-program"]}),
            ("a script that is not in the image", lambda t: t.python(), {"Cmd": ["python3", "/x.py"]}),
            ("not executable", alone, {"Cmd": ["/notes.txt"]}),
            ("no standard library", without_library, {"Cmd": ["python3"]}),
            ("another Python starts", lambda t: application(t, False), {"Cmd": ["python3", "/app/app.py"]}),
            ("no interpreter", lost, {}), ("a folder of packages", put_beside, {"Cmd": ["python3", "-c", "0"]}),
            ("a bundle", bundle, {"Cmd": ["/opt/prog/prog"]}),
            ("more folders than are searched", crowded, {}),
            ("no program", lambda t: t.put("/etc/os-release", "ID=x\n"), {})):
        status, document, root = look_at(exe, folder, fill, config)
        check(f"{name}: cannot tell", status == 3 and document.get("verdict") == "unknown"
              and document["notes"], (status, shown(document)))
    empty = Path(folder) / "empty"
    empty.mkdir()
    for arguments in (["container", "check", str(empty)], ["check", "--root", str(empty)]):
        done = subprocess.run([str(exe), *arguments], capture_output=True, text=True, timeout=60,
                              check=False)
        check(f"an empty folder, {arguments[0]}", done.returncode == 3, done.stdout)


def unpacked(exe, folder):
    """An archive of docker save that was unpacked into a folder is the image that it was."""
    status, document, root = look_at(exe, folder, lambda t: application(t, True), ENTRIES[0])
    place = Path(folder) / "unpacked"
    with tarfile.open(root.parent / "image.tar") as tar:
        tar.extractall(place)
    host = Tree(Path(folder) / "unpacked-host")
    host.machine(GEFORCE)
    again, same = look(exe, place, host.top)
    check("an unpacked archive", (again, shown(same)) == (status, shown(document)), (again, shown(same)))


def main():
    exe = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        applications_elsewhere(exe, temporary)
        applications_far_away(exe, temporary)
        cannot_tell(exe, temporary)
        unpacked(exe, temporary)
        for story in STORIES:
            story.tell(exe, Path(temporary))
        of_processors(exe, Path(temporary))
        requirements(exe, Path(temporary))
        variables(exe, Path(temporary))
        other_user(exe, Path(temporary))
        other_folder(exe, Path(temporary))
        on_the_cpu(exe, Path(temporary))
        whose_libcuda(exe, Path(temporary))
        of_gpu_programs(exe, Path(temporary))
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
