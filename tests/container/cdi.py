#!/usr/bin/env python3
"""CDI specifications: what `gpumend container cdi` writes, and what it says of those that are there.

    tests/container/cdi.py GPUMEND

The machines are the trees of tests/trees. Checked: each document by the format's published schema
where it is installed (Debian's golang-github-container-orchestrated-devices-container-device-
interface-dev); that it names what the machine has; that podman, where it runs, loads it and gives
the container its devices, mounts and variables (stand-ins for the nodes); writing in a root of its
own (chroot), never over another's file; and every fault that --check knows, with a healthy twin.
"""

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "trees"))
from build import Link, merged, write  # noqa: E402
from machines import MACHINES  # noqa: E402

SCHEMA = Path("/usr/share/gocode/src/github.com/container-orchestrated-devices/"
              "container-device-interface/schema/schema.json")
PODMAN = ["podman", "run", "--rm", "--runtime", "runc", "--cgroup-manager=cgroupfs",
          "--network=none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]

counts = {"passed": 0, "failed": 0, "skipped": 0}


def check(what, good, detail=""):
    counts["passed" if good else "failed"] += 1
    if not good:
        print(f"FAIL {what}: {detail}")


def skip(what, why):
    counts["skipped"] += 1
    print(f"SKIP {what}: {why}")


def run(exe, *arguments, **options):
    return subprocess.run([str(exe), "container", "cdi", *arguments], capture_output=True,
                          text=True, timeout=60, check=False, **options)


def documents(text):
    return [json.loads(part.split("\n", 1)[1]) for part in text.split("---\n") if part]


def tree(folder, name):
    top = folder / name
    shutil.rmtree(top, ignore_errors=True)
    write(MACHINES[name][1], top)
    return top


# ---------------------------------------------------------------- what is written

def validator():
    try:
        import jsonschema
    except ImportError:
        return None
    if not SCHEMA.is_file():
        return None
    resolver = jsonschema.RefResolver(SCHEMA.as_uri(), json.loads(SCHEMA.read_text()))
    return jsonschema.Draft7Validator(json.loads(SCHEMA.read_text()), resolver=resolver)


def edits_of(document):
    yield document.get("containerEdits", {})
    for device in document["devices"]:
        yield device["containerEdits"]


def nodes_of(document):
    return {n["path"] for e in edits_of(document) for n in e.get("deviceNodes", [])}


def of_machine(exe, folder, name, schema):
    top = tree(folder, name)
    done = run(exe, "--host", str(top))
    check(f"{name}: status", done.returncode in (0, 3), done.stderr)
    stated = top / ".gpumend-nodes"
    there = {line.split()[0] for line in stated.read_text().splitlines()} if stated.exists() else set()
    found = documents(done.stdout)
    check(f"{name}: says why where it writes none", found or done.stderr.strip(), "nothing said")
    for document in found:
        where = f"{name}: {document['kind']}"
        if schema:
            faults = [e.message for e in schema.iter_errors(document)]
            check(f"{where}: schema", not faults, faults)
        check(f"{where}: version", document["cdiVersion"] in ("0.3.0", "0.4.0", "0.5.0"),
              document["cdiVersion"])
        check(f"{where}: nodes", nodes_of(document) <= there, nodes_of(document) - there)
        names = [d["name"] for d in document["devices"]]
        check(f"{where}: names", len(set(names)) == len(names) and "all" in names, names)
        for edits in edits_of(document):
            for mount in edits.get("mounts", []):
                path = top / mount["hostPath"].lstrip("/")
                check(f"{where}: {mount['hostPath']}", path.exists(), "is not in the tree")
    return found


def expected(exe, folder):
    """What single machines must have."""
    mig, = documents(run(exe, "--host", str(tree(folder, "a100-mig"))).stdout)
    slices = [d for d in mig["devices"] if ":" in d["name"]]
    check("a100-mig: three slices", len(slices) == 3, slices)
    for one in slices:
        caps = [n for n in one["containerEdits"]["deviceNodes"] if "nvidia-cap" in n["path"]]
        check("a100-mig: two capabilities each, to be read", len(caps) == 2
              and all(n["permissions"] == "r" for n in caps), one)
    # nvidia-ctk gives those of profiles with the attribute "gfx" alone, which NVML alone knows.
    nodes = ["/dev/dri/card1 c 226 1 660 0 44 ok", "/dev/dri/renderD128 c 226 128 660 0 105 ok"]
    address = next(path for path in MACHINES["a100-mig"][1] if path.endswith("/vendor")
                   and path.startswith("/sys/bus/pci/devices/")).rsplit("/", 1)[0]
    (mig,), _ = made(exe, folder, {"nodes": nodes}, {f"{address}/drm/{name}/dev": ""
                                                     for name in ("card1", "renderD128")}, machine="a100-mig")
    drawing = {d["name"] for d in mig["devices"] for n in d["containerEdits"]["deviceNodes"]
               if n["path"].startswith("/dev/dri/")}
    check("a100-mig: a slice draws nothing", "0" in drawing and not any(":" in name for name in drawing), drawing)
    amd, = documents(run(exe, "--host", str(tree(folder, "rx6700xt"))).stdout)
    check("rx6700xt: kfd for all", {"path": "/dev/kfd", "gid": 105}
          in amd["containerEdits"]["deviceNodes"], amd)
    wsl, = documents(run(exe, "--host", str(tree(folder, "wsl-good"))).stdout)
    mounts = {m["containerPath"] for m in wsl["containerEdits"]["mounts"]}
    check("wsl-good: libcuda where loaders look", "/usr/lib64/libcuda.so.1" in mounts
          and "/usr/lib/wsl/drivers" in mounts, mounts)
    unknown = run(exe, "--host", str(tree(folder, "proc-without-sys")))
    check("a bus that cannot be read is no absence", unknown.returncode == 3
          and "cannot tell whether" in unknown.stderr, unknown.stderr)
    none = run(exe, "--host", str(tree(folder, "cpu-only")))
    check("cpu-only: no specification, and why", none.returncode == 3 and not none.stdout
          and "no GPU" in none.stderr, none.stderr)


# ---------------------------------------------------------------- all that belongs to a driver

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
DRIVER = "550.90.07"
# Each with where a container has it. What nvidia-ctk 1.19 names of the same tree is all here.
FILES = {
    "/usr/bin/nvidia-smi": None, "/usr/bin/nvidia-debugdump": None,
    "/usr/sbin/nvidia-persistenced": None, "/usr/bin/nvidia-cuda-mps-control": None,
    "/usr/bin/nvidia-cuda-mps-server": None, "/usr/bin/nvidia-imex": None,
    "/usr/bin/nvidia-xconfig": None,
    f"/lib/firmware/nvidia/{DRIVER}/gsp_ga10x.bin": None,
    f"/lib/firmware/nvidia/{DRIVER}/gsp_tu10x.bin": None,
    "/run/nvidia-persistenced/socket": None, "/run/nvidia-fabricmanager/socket": None,
    "/usr/share/vulkan/icd.d/nvidia_icd.json": "/etc/vulkan/icd.d/nvidia_icd.json",
    "/usr/share/glvnd/egl_vendor.d/10_nvidia.json": None,
    "/etc/OpenCL/vendors/nvidia.icd": None,
    "/usr/lib/xorg/modules/drivers/nvidia_drv.so": None,
    f"/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so.{DRIVER}": None,
    f"{LIBRARIES}/vdpau/libvdpau_nvidia.so.{DRIVER}": None,
    **{f"{LIBRARIES}/{name}": f"/opt/gpumend/driver/{name}" for name in (
        f"libGLX_nvidia.so.{DRIVER}", f"libEGL_nvidia.so.{DRIVER}", f"libnvidia-glcore.so.{DRIVER}",
        f"libnvidia-opticalflow.so.{DRIVER}", "libnvidia-egl-gbm.so.1.1.1",
        "libnvidia-nvvm70.so.4")},
}
NOT_THEIRS = {"/lib/firmware/nvidia/535.104.05/gsp_tu10x.bin": "", "/usr/bin/nvidia-settings": "",
              f"{LIBRARIES}/libcudnn.so.9.1.0": ""}
NODES = ["/dev/nvidia-modeset c 195 254 666 0 0 ok", "/dev/dri/card1 c 226 1 660 0 44 ok",
         "/dev/dri/renderD128 c 226 128 660 0 105 ok", "/dev/dri/card0 c 226 0 660 0 44 ok",
         "/dev/nvidia-caps-imex-channels/channel0 c 505 0 666 0 0 ok",
         "/dev/nvidia-caps-imex-channels/channel7 c 505 7 666 0 0 ok"]
SYSFS = "/sys/bus/pci/devices/0000:01:00.0/drm"


def package(name, version):
    return f"Package: {name}\nStatus: install ok installed\nVersion: {version}\n\n"


def with_hook(version=None, crun=None):
    status = package("nvidia-container-toolkit-base", version + "-1") if version else ""
    return {"/usr/bin/nvidia-cdi-hook": "", "/usr/bin/crun": "",
            "/var/lib/dpkg/status": status + (package("crun", crun) if crun else "")}


def made(exe, folder, *parts, machine="geforce-desktop"):
    top = folder / "made"
    shutil.rmtree(top, ignore_errors=True)
    write(merged(MACHINES[machine][1], *parts), top)
    done = run(exe, "--host", str(top))
    return documents(done.stdout), done.stderr


def targets(document):
    return {m["containerPath"] for m in document["containerEdits"]["mounts"]}


def hooks_of(edits):
    return {h["args"][1]: h["args"][2:] for h in edits.get("hooks", [])}


WHOLE = (dict.fromkeys(FILES, ""), NOT_THEIRS, {"nodes": NODES, "/tmp/nvidia-mps": None},
         {f"{SYSFS}/{name}/dev": "" for name in ("card1", "renderD128")})


def whole(exe, folder):
    """Everything of a driver that a host can have, and the two ways to let it come first."""
    found, said = made(exe, folder, *WHOLE)
    check("whole: GPUs and channels", [d["kind"] for d in found]
          == ["nvidia.com/gpu", "nvidia.com/imex-channel"], found)
    gpu, imex = found
    mounts = targets(gpu)
    wanted = {to or path for path, to in FILES.items()} | {"/tmp/nvidia-mps"}
    check("whole: files", wanted <= mounts, wanted - mounts)
    foreign = {m["hostPath"] for m in gpu["containerEdits"]["mounts"]} & set(NOT_THEIRS)
    check("whole: nothing else", not foreign, foreign)
    common = {n["path"] for n in gpu["containerEdits"]["deviceNodes"]}
    check("whole: nodes of all", common == {"/dev/nvidiactl", "/dev/nvidia-uvm",
                                            "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}, common)
    first = {n["path"] for n in gpu["devices"][0]["containerEdits"]["deviceNodes"]}
    check("whole: nodes of one, by its address", first == {"/dev/nvidia0", "/dev/dri/card1",
                                                           "/dev/dri/renderD128"}, first)
    check("whole: a name for each channel", [d["name"] for d in imex["devices"]]
          == ["0", "7", "all"], imex)
    check("whole: the price is said", "LD_LIBRARY_PATH" in said and "replaces" in said
          and "nvidia-container-toolkit-base" in said, said)
    sockets = {m["containerPath"]: m["options"] for m in gpu["containerEdits"]["mounts"]
               if "ro" not in m["options"]}
    check("whole: only sockets can be written to", set(sockets) == {
        "/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket", "/tmp/nvidia-mps"},
          sockets)


def hooks(exe, folder):
    """Which hooks are written: those that the host's release of the toolkit knows."""
    for version, names in ((None, set()), ("1.16.2", set()), ("1.17.5", {"enable-cuda-compat"}),
                           ("1.18.1", {"enable-cuda-compat", "disable-device-node-modification"})):
        (gpu,), said = made(exe, folder, with_hook(version), machine="a100-mig")
        edits = gpu["containerEdits"]
        found = hooks_of(edits)
        check(f"hooks of {version}", set(found) == {"create-symlinks", "update-ldcache"} | names,
              found)
        check(f"hooks of {version}: no variable, and nothing to pay",
              edits["env"] == ["NVIDIA_VISIBLE_DEVICES=void"] and not said, (edits["env"], said))
        check(f"hooks of {version}: the folder", found["update-ldcache"]
              == ["--folder", "/opt/gpumend/driver"], found)
        check(f"hooks of {version}: nothing twice, and in the usual folders as well",
              len(targets(gpu)) == len(edits["mounts"])
              and any(path.startswith("/usr/lib64/libcuda.so.") for path in targets(gpu)), targets(gpu))
    (gpu,), _ = made(exe, folder, with_hook("1.18.1"), machine="a100-mig")
    check("hooks: the driver's version", hooks_of(gpu["containerEdits"])["enable-cuda-compat"]
          == ["--host-driver-version=" + (folder / "made/sys/module/nvidia/version").read_text().strip()],
          gpu["containerEdits"]["hooks"])
    (gpu,), _ = made(exe, folder, with_hook("1.18.1"))
    check("hooks: no forward compatibility for a GeForce", "enable-cuda-compat"
          not in hooks_of(gpu["containerEdits"]), gpu["containerEdits"]["hooks"])
    for crun, wanted in (("1.6-1", True), ("1.8.1-1+deb12u1", False), (None, False)):
        (gpu,), _ = made(exe, folder, with_hook("1.17.8", crun), machine="a100-mig")
        slices = [d["containerEdits"] for d in gpu["devices"] if ":" in d["name"]]
        check(f"hooks: folders of nodes with crun {crun}", all(
            hooks_of(e).get("chmod") == (["--mode", "755", "--path", "/dev/nvidia-caps"]
                                         if wanted else None) for e in slices), slices)
    ctk = {path.replace("cdi-hook", "ctk"): text for path, text in with_hook("1.15.0").items()}
    (gpu,), _ = made(exe, folder, ctk)
    check("hooks: of an older toolkit by nvidia-ctk", gpu["containerEdits"]["hooks"][-1]["args"][:3]
          == ["nvidia-ctk", "hook", "update-ldcache"], gpu["containerEdits"]["hooks"])
    toml = {"/etc/nvidia-container-runtime/config.toml":
            '[nvidia-container-cli]\nldconfig = "@/usr/bin/ldconfig"\n'}
    (gpu,), _ = made(exe, folder, with_hook("1.17.8"), toml)
    check("hooks: ldconfig as the toolkit's settings have it", "--ldconfig-path /usr/bin/ldconfig"
          in " ".join(hooks_of(gpu["containerEdits"])["update-ldcache"]), gpu)
    links = {"/dev/dri/by-path/pci-0000:01:00.0-card": Link("../card1"),
             "/dev/dri/by-path/pci-0000:02:00.0-card": Link("../card0")}
    (gpu, _), _ = made(exe, folder, *WHOLE, links, with_hook("1.17.8"))
    linked = hooks_of(gpu["devices"][0]["containerEdits"]).get("create-symlinks")
    check("hooks: the links of its own nodes", linked
          == ["--link", "../card1::/dev/dri/by-path/pci-0000:01:00.0-card"], linked)


def layouts(exe, folder):
    """Debian's folders, those of another architecture, and files that are no libraries."""
    machine = MACHINES["geforce-desktop"][1]
    cuda = {path: text for path, text in machine.items() if "/libcuda.so" in path}
    others = {path: text for path, text in machine.items() if path not in cuda}
    current = LIBRARIES + "/nvidia/current"
    top = folder / "debian"
    write(merged(others, {f"{current}/libcuda.so.{DRIVER}": "", f"{LIBRARIES}/libcuda.so.1":
                          Link(f"nvidia/current/libcuda.so.{DRIVER}")}), top)
    gpu, = documents(run(exe, "--host", str(top)).stdout)
    sources = {m["hostPath"] for m in gpu["containerEdits"]["mounts"]}
    check("layouts: Debian's two folders", {f"{current}/libcuda.so.{DRIVER}",
                                            f"{LIBRARIES}/libnvidia-ml.so.{DRIVER}"} <= sources, sources)
    arm = "/usr/lib/aarch64-linux-gnu"
    moved = {path.replace(LIBRARIES, arm): text for path, text in machine.items()}
    moved["/proc/cpuinfo"] = "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
    top = folder / "arm"
    write(moved, top)
    gpu, = documents(run(exe, "--host", str(top)).stdout)
    check("layouts: the folders of the host's own architecture", f"{arm}/libcuda.so.{DRIVER}"
          in targets(gpu) and not any("x86_64" in path for path in targets(gpu)), targets(gpu))


def strange_names(exe, folder):
    """Names that no specification can hold are left out, and the others stay."""
    top = folder / "strange"
    write(merged(MACHINES["geforce-desktop"][1], *WHOLE), top)
    library = os.fsencode(top / LIBRARIES.lstrip("/"))
    for name in (b"lib\xff.so.550.90.07", b"lib a.so.550.90.07", b"lib\n.so.550.90.07",
                 b"lib::.so.550.90.07"):
        Path(os.fsdecode(library + b"/" + name)).write_text("")
    done = run(exe, "--host", str(top))
    gpu = documents(done.stdout)[0]
    strange = [path for path in targets(gpu) if path.strip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"
                                                           "OPQRSTUVWXYZ0123456789_.+-/")]
    check("strange names: left out", not strange and done.returncode == 0, strange)


# The lists of a Jetson: nvidia-l4t-init's drivers.csv and devices.csv, a few lines of them.
LISTS = {
    "/etc/nvidia-container-runtime/host-files-for-container.d/devices.csv":
        "dev, /dev/nvmap\ndev, /dev/nvgpu/igpu0/ctrl\ndev, /dev/nvhost-vic\n",
    "/etc/nvidia-container-runtime/host-files-for-container.d/drivers.csv":
        "lib, /usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1.1\n"
        "lib, /usr/lib/aarch64-linux-gnu/nvidia/libnvrm_*.so\n"
        "lib, /usr/lib/aarch64-linux-gnu/nvidia/libgone.so\n"
        "sym, /usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1\n"
        "dir, /lib/firmware/tegra23x\nlib\nthing, /etc/passwd\nlib, etc/shadow\n",
    "/usr/lib/aarch64-linux-gnu/nvidia/libnvrm_gpu.so": "",
    "/usr/lib/aarch64-linux-gnu/nvidia/libnvrm_mem.so": "",
    "/lib/firmware/tegra23x/x.bin": "", "/etc/passwd": "",
}


def jetson(exe, folder):
    top = "/usr/lib/aarch64-linux-gnu/nvidia"
    (gpu,), said = made(exe, folder, machine="jetson-orin")
    nodes = {n["path"] for n in gpu["devices"][0]["containerEdits"]["deviceNodes"]}
    check("jetson: without lists, the driver's folder", targets(gpu)
          == {top, "/etc/nv_tegra_release"} and gpu["devices"][0]["name"] == "0", gpu)
    check("jetson: its nodes", nodes == {"/dev/nvmap", "/dev/nvgpu/igpu0/ctrl"}, nodes)
    check("jetson: the folder comes first", f"LD_LIBRARY_PATH={top}:/opt/gpumend/lib"
          in gpu["containerEdits"]["env"] and "replaces" in said, gpu["containerEdits"])
    (gpu,), _ = made(exe, folder, LISTS, machine="jetson-orin")
    check("jetson: what its lists name and it has", targets(gpu) == {
        f"{top}/libcuda.so.1.1", f"{top}/libnvrm_gpu.so", f"{top}/libnvrm_mem.so",
        f"{top}/libcuda.so.1", "/lib/firmware/tegra23x", "/etc/nv_tegra_release"}, targets(gpu))
    stale = {"/etc/cdi/nvidia.yaml": GOOD.replace("/dev/nvidia0", "/dev/gone")}
    for machine, line in (("jetson-orin", "sudo nvidia-ctk cdi generate --mode=csv --output=/etc/cdi/nvidia.yaml"),
                          ("geforce-desktop", "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml")):
        made(exe, folder, stale, machine=machine)
        said = run(exe, "--check", "--host", str(folder / "made")).stdout
        check(f"{machine}: how nvidia-ctk writes its file again", f": {line}\n" in said, said)
    (gpu,), _ = made(exe, folder, LISTS, with_hook("1.17.8"), machine="jetson-orin")
    found = hooks_of(gpu["containerEdits"])
    check("jetson: with a hook", found["update-ldcache"] == ["--folder", top]
          and found["create-symlinks"] == ["--link", f"libcuda.so.1.1::{top}/libcuda.so.1"]
          and f"{top}/libcuda.so.1" not in targets(gpu), found)


# ---------------------------------------------------------------- podman

OPENS = """#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        void *l = dlopen(argv[i], RTLD_NOW);
        int (*f)(void) = l ? (int (*)(void))dlsym(l, "driver") : NULL;
        printf("%s %d\\n", argv[i], f ? f() : -1);
    }
    if (getenv("LD_LIBRARY_PATH")) {
        printf("LD_LIBRARY_PATH=%s\\n", getenv("LD_LIBRARY_PATH"));
    }
    return 0;
}
"""


def compiled(source, *options):
    subprocess.run(["cc", "-x", "c", "-", "-x", "none", *map(str, options)], input=source, text=True, check=True)


# Stands in for NVIDIA's hook: what its help says of the two hooks that libraries need, and no more.
HOOK = """#!{python}
import json, os, subprocess, sys
state = json.load(sys.stdin)
config = json.load(open(os.path.join(state["bundle"], "config.json")))
root = os.path.join(state["bundle"], config["root"]["path"])
name, options = sys.argv[1], sys.argv[2:]
pairs = list(zip(options[::2], options[1::2]))
if name == "create-symlinks" and all(o == "--link" for o, _ in pairs):
    for _, link in pairs:
        target, place = link.split("::")
        os.makedirs(os.path.dirname(root + place), exist_ok=True)
        os.symlink(target, root + place)
elif name == "update-ldcache" and not os.path.exists(root + "/etc/ld.so.cache"):
    pass    # as the releases before 1.18: "no ld.so.cache found, skipping update"
elif name == "update-ldcache" and all(o == "--folder" for o, _ in pairs):
    with open(root + "/etc/ld.so.conf.d/00-nvcr-test.conf", "w") as file:
        file.write("".join(folder + chr(10) for _, folder in pairs))
    subprocess.run(["{ldconfig}", "-r", root, "-f", "/etc/ld.so.conf"], check=True)
else:
    sys.exit("unknown: %s" % sys.argv)
"""


def driver_tree(folder, *parts):
    """A desktop whose driver's libraries a loader can load; driver() of each is 550."""
    top = folder / "driver"
    shutil.rmtree(top, ignore_errors=True)
    write(merged(MACHINES["geforce-desktop"][1], *parts), top)
    for file in (top / "usr/lib/x86_64-linux-gnu").glob("lib*.so.550.90.07"):
        soname = file.name.split(".so.")[0] + ".so.1"
        file.unlink()
        compiled("int driver(void) { return 550; }", "-shared", "-fPIC", f"-Wl,-soname,{soname}",
                 "-o", file)
    return top


def specification(exe, top):
    """What is printed for the tree, for a podman that runs outside it."""
    document = documents(run(exe, "--host", str(top)).stdout)[0]
    document["kind"] = "gpumend-test.example/gpu"
    for edits in edits_of(document):
        for node in edits.get("deviceNodes", []):   # /dev/null stands in for each
            node["hostPath"] = "/dev/null"
        for mount in edits.get("mounts", []):
            mount["hostPath"] = str(top) + mount["hostPath"]
        for hook in edits.get("hooks", []):
            hook["path"] = str(top) + hook["path"]
    return document


def image_tree(exe, top):
    """A program that opens libraries, and the loader's own files."""
    top.mkdir()
    shutil.copy(exe, top / "gpumend")
    compiled(OPENS, "-o", top / "opens")
    for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"):
        copy = top / path.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return top


def ldconfig():
    return shutil.which("ldconfig", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def with_own_driver(top):
    """As CUDA's images have it: a libcuda of their own, which the loader's cache names."""
    compat = top / "usr/local/cuda/compat"
    compat.mkdir(parents=True)
    compiled("int driver(void) { return 1; }", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1",
             "-o", compat / "libcuda.so.535.104.05")
    (top / "etc/ld.so.conf.d").mkdir(parents=True)
    (top / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
    (top / "etc/ld.so.conf.d/000_cuda.conf").write_text("/usr/local/cuda/compat\n")
    subprocess.run([ldconfig(), "-r", top], check=True)


def imported(top, name, *changes):
    options = " ".join(f"--change '{change}'" for change in changes)
    return subprocess.run(f"tar -C '{top}' -c . | podman import {options} - {name}", shell=True,
                          capture_output=True, text=True, check=False)


def in_podman(exe, folder):
    what = "podman loads it"
    if not shutil.which("podman") or os.uname().machine != "x86_64":
        return skip(what, "there is no podman on this machine, or it is not x86-64")
    top = driver_tree(folder)
    name = f"localhost/gpumend-cdi:{os.getpid()}"
    own = f"localhost/gpumend-cdi-own:{os.getpid()}"
    built = imported(image_tree(exe, folder / "image"), name)
    if built.returncode:
        return skip(what, built.stderr.strip().splitlines()[-1] if built.stderr else "import failed")
    try:
        plain = subprocess.run([*PODMAN, name, "/gpumend", "--version"], capture_output=True,
                               text=True, check=False)
        if plain.returncode:
            return skip(what, "podman runs no container here: " + plain.stderr.strip()[-120:])
        used_by_podman(exe, folder, specification(exe, top), name)
        if not ldconfig():
            return skip("the driver's libraries come first", "there is no ldconfig here")
        with_own_driver(image_tree(exe, folder / "own"))
        imported(folder / "own", own, "ENV LD_LIBRARY_PATH=/image/own")
        comes_first(exe, folder, own)
        check("an image without a cache, with hooks", opened(with_hooks(exe, folder), name)[0]
              == "libcuda.so.1 550", opened(with_hooks(exe, folder), name))
    finally:
        subprocess.run(["podman", "rmi", "-f", name, own], capture_output=True, check=False)


class NotInstalled(Exception):
    """The folder that podman reads cannot be written."""


@contextlib.contextmanager
def installed(document):
    """The specification where podman reads it."""
    place = Path("/etc/cdi/gpumend-test-%d.json" % os.getpid())
    made = not place.parent.exists()
    try:
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps(document))
    except OSError as error:
        raise NotInstalled(error) from error
    try:
        yield place
    finally:
        place.unlink()
        if made:
            place.parent.rmdir()


def opened(document, image, *options):
    """What libcuda.so.1 a container with the device loads, and its LD_LIBRARY_PATH."""
    try:
        with installed(document):
            done = subprocess.run([*PODMAN, *options, "--device", "gpumend-test.example/gpu=0", image,
                                   "/opens", "libcuda.so.1"], capture_output=True, text=True, check=False)
    except NotInstalled as error:
        return str(error), None
    lines = done.stdout.splitlines() or [done.stderr[-300:], ""]
    return lines[0], lines[-1]


def with_hooks(exe, folder):
    hook = HOOK.format(python=sys.executable, ldconfig=ldconfig())
    top = driver_tree(folder, {"/usr/bin/nvidia-cdi-hook": hook})
    (top / "usr/bin/nvidia-cdi-hook").chmod(0o755)
    return specification(exe, top)


def comes_first(exe, folder, image):
    """An image's own libcuda, and each way to come before it, with the real loader."""
    document = specification(exe, driver_tree(folder))
    value = document["containerEdits"]["env"][0]
    check("without a hook on the host: the variable", value == "LD_LIBRARY_PATH=/opt/gpumend/driver:"
          "/opt/gpumend/lib" and not document["containerEdits"].get("hooks"), document)
    check("with it the host's libcuda is loaded, and the image's own value is lost",
          opened(document, image) == ("libcuda.so.1 550", value), opened(document, image))
    check("and so is the caller's", opened(document, image, "-e", "LD_LIBRARY_PATH=/by/hand")
          == ("libcuda.so.1 550", value), opened(document, image, "-e", "LD_LIBRARY_PATH=/by/hand"))
    document["containerEdits"]["env"].remove(value)
    check("without the variable the image's own is loaded", opened(document, image)
          == ("libcuda.so.1 1", "LD_LIBRARY_PATH=/image/own"), opened(document, image))
    document = with_hooks(exe, folder)
    variables = [v for v in document["containerEdits"]["env"] if v.startswith("LD_")]
    check("with a hook on the host: no variable", not variables
          and document["containerEdits"]["hooks"], document)
    check("with hooks the host's libcuda is loaded, and the image's value stays",
          opened(document, image) == ("libcuda.so.1 550", "LD_LIBRARY_PATH=/image/own"),
          opened(document, image))
    own, driver = "/usr/local/cuda/compat", "/opt/gpumend/driver"
    check("with hooks, a folder of LD_LIBRARY_PATH comes before them", [
        opened(document, image, "-e", f"LD_LIBRARY_PATH={path}")[0] for path in (own, f"{driver}:{own}")]
          == ["libcuda.so.1 1", "libcuda.so.1 550"], "")
    del document["containerEdits"]["hooks"]
    check("without the hooks the image's own is loaded", opened(document, image)
          == ("libcuda.so.1 1", "LD_LIBRARY_PATH=/image/own"), opened(document, image))


def used_by_podman(exe, folder, document, image):
    try:
        with installed(document) as place:
            in_container(exe, document, image, place)
    except NotInstalled as error:
        skip("podman loads it", str(error))


def in_container(exe, document, image, place):
    device = "gpumend-test.example/gpu=0"
    done = subprocess.run([*PODMAN, "--device", device, image, "/gpumend", "devices", "--json"],
                          capture_output=True, text=True, check=False)
    check("podman starts it", done.returncode in (0, 1, 3) and done.stdout.startswith("{"),
          done.stderr[-300:])
    seen = json.loads(done.stdout or "{}")
    nvidia = seen.get("nvidia", {})
    nodes = {n["path"]: n["present"]["state"] for n in nvidia.get("nodes", [])}
    check("the container has the nodes", nodes.get("/dev/nvidiactl") == "yes"
          and nodes.get("/dev/nvidia-uvm") == "yes", nodes)
    libraries = {n["name"]: n["path"] for n in nvidia.get("libraries", [])}
    check("the container has the libraries",
          {"libcuda.so.1", "libnvidia-ml.so.1"} <= set(libraries), libraries)
    loaded = subprocess.run([*PODMAN, "--device", device, image, "/opens", "libcuda.so.1",
                             "libcuda.so", "libnvidia-ml.so.1"], capture_output=True,
                            text=True, check=False)
    check("the container's loader loads them", loaded.stdout.split() == [
        "libcuda.so.1", "550", "libcuda.so", "550", "libnvidia-ml.so.1", "550",
        "LD_LIBRARY_PATH=/opt/gpumend/driver:/opt/gpumend/lib"],
          loaded.stdout + loaded.stderr[-200:])
    check("the container has the variable",
          seen["variables"].get("NVIDIA_VISIBLE_DEVICES") == "void", seen["variables"])
    document["cdiVersion"] = "0.7.0"
    place.write_text(json.dumps(document))
    newer = subprocess.run([*PODMAN, "--device", device, image, "/gpumend", "--version"],
                           capture_output=True, text=True, check=False)
    said = json.loads(run(exe, "--check", "--json").stdout)
    mine = [f for f in said["files"] if f["path"] == str(place)]
    kinds = {p["kind"] for f in mine for p in f["problems"]}
    check("a specification that podman refuses is said to be too new",
          (newer.returncode != 0) == ("too-new" in kinds), (newer.stderr[-200:], kinds))


# ---------------------------------------------------------------- writing

def in_chroot(exe, top, *arguments, umask=0o022):
    def enter():
        os.chroot(top)
        os.chdir("/")
        os.umask(umask)
    return subprocess.run(["/gpumend", "container", "cdi", *arguments], capture_output=True,
                          text=True, timeout=60, check=False, preexec_fn=enter)


def real_nodes(top):
    """The stated nodes as real ones; False where that may not be."""
    try:
        for line in (top / ".gpumend-nodes").read_text().splitlines():
            path, kind, major, minor = line.split()[:4]
            if kind == "c":
                file = top / path.lstrip("/")
                file.parent.mkdir(parents=True, exist_ok=True)
                os.mknod(file, 0o666 | stat.S_IFCHR, os.makedev(int(major), int(minor)))
    except OSError:
        return False
    return True


def writing(exe, folder):
    top = tree(folder, "geforce-desktop")
    if os.geteuid() != 0 or not real_nodes(top):
        return skip("writing", "device nodes cannot be made here")
    shutil.copy(exe, top / "gpumend")
    done = in_chroot(exe, top, "--write", umask=0o077)
    file = top / "etc/cdi/gpumend-nvidia.yaml"
    check("write", done.returncode == 0 and file.is_file(), done.stderr)
    if not file.is_file():
        return
    check("write: mode 0644 whatever the umask", stat.S_IMODE(file.stat().st_mode) == 0o644,
          oct(file.stat().st_mode))
    check("write: nothing else is left", os.listdir(file.parent) == [file.name],
          os.listdir(file.parent))
    first = file.read_text()
    fine = in_chroot(exe, top, "--check")
    check("check: what was written is ok", fine.returncode == 0 and "ok" in fine.stdout, fine.stdout)
    (top / "sys/module/nvidia/version").write_text("555.42.02\n")
    stale = in_chroot(exe, top, "--check", "--json")
    kinds = {p["kind"] for f in json.loads(stale.stdout)["files"] for p in f["problems"]}
    check("check: another driver", stale.returncode == 1 and "other-driver" in kinds, kinds)
    (top / "sys/module/nvidia/version").write_text("550.90.07\n")
    os.unlink(top / "dev/nvidia-uvm-tools")
    gone = in_chroot(exe, top, "--check", "--json")
    texts = [p["text"] for f in json.loads(gone.stdout)["files"] for p in f["problems"]]
    check("check: a node that is gone", gone.returncode == 1
          and any("/dev/nvidia-uvm-tools" in t for t in texts), texts)
    again = in_chroot(exe, top, "--refresh")
    check("refresh", again.returncode == 0 and "uvm-tools" not in file.read_text(), again.stderr)
    check("refresh: then it is ok", in_chroot(exe, top, "--check").returncode == 0, "")
    file.write_text("# by hand\n" + first.split("\n", 1)[1])
    for option in ("--write", "--refresh"):
        refused = in_chroot(exe, top, option)
        check(f"{option}: another's file stays", refused.returncode == 3
              and file.read_text().startswith("# by hand"), refused.stderr)
    file.unlink()
    (file.parent / "nvidia.yaml").write_text(first.split("\n", 1)[1])
    refused = in_chroot(exe, top, "--write")
    check("write: not beside another of the same kind", refused.returncode == 3
          and not file.exists() and "nvidia.yaml" in refused.stderr, refused.stderr)
    os.rename(file.parent / "nvidia.yaml", file.parent / "nvidia.yaml.old")
    check("write: once the other has another name", in_chroot(exe, top, "--write").returncode == 0
          and file.is_file(), "")
    (top / "usr/bin/nvidia-cdi-hook").write_text("")
    (top / "usr/bin/nvidia-cdi-hook").chmod(0o755)
    hooked = in_chroot(exe, top, "--refresh")
    check("refresh: hooks, once there is one", hooked.returncode == 0 and "update-ldcache"
          in file.read_text() and "LD_LIBRARY_PATH" not in file.read_text(), hooked.stderr)
    check("refresh: with hooks it is ok", in_chroot(exe, top, "--check").returncode == 0, "")
    (top / "usr/bin/nvidia-cdi-hook").unlink()
    gone = in_chroot(exe, top, "--check", "--json")
    texts = [p["text"] for f in json.loads(gone.stdout)["files"] for p in f["problems"]]
    check("check: a hook that is gone", gone.returncode == 1
          and any("/usr/bin/nvidia-cdi-hook" in t for t in texts), texts)
    file.unlink()
    os.symlink("/etc/passwd", file)
    refused = in_chroot(exe, top, "--write")
    check("write: never through a link", refused.returncode == 3 and file.is_symlink(),
          refused.stderr)


# ---------------------------------------------------------------- faults

YAML = """---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
- name: all
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{driver}
    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{driver}
    options: [ro, nosuid, nodev, bind]
"""
PODMAN_431 = """Package: podman
Status: install ok installed
Version: 4.3.1+ds1-8+deb12u1
"""
DOCKER = """Package: docker-ce
Status: install ok installed
Version: 5:28.3.3-1~debian.12~bookworm

Package: containerd.io
Status: install ok installed
Version: 1.7.24-1
"""
LIBCUDA = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.90.07"  # is there, and no program
HOOK_OF_EDITS = """  hooks:
  - hookName: {name}
    path: {path}
"""
GOOD = YAML.format(driver="550.90.07")

# name -> machine, files, the kinds of problem that it must have
FAULTS = {
    "yaml-of-another": ("geforce-desktop", {"/etc/cdi/nvidia.yaml": GOOD}, set()),
    "json-in-run": ("geforce-desktop", {"/run/cdi/n.json": json.dumps(
        {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [
            {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}]})},
        set()),
    "older-driver": ("geforce-desktop",
                     {"/etc/cdi/nvidia.yaml": YAML.format(driver="535.104.05")},
                     {"path-gone", "other-driver"}),
    "unknown-field": ("geforce-desktop", {"/etc/cdi/nvidia.yaml": GOOD + "colour: red\n"},
                      {"refused"}),
    "version-too-low": ("geforce-desktop",
                        {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "0.3.0"),
                         "/var/lib/dpkg/status": PODMAN_431.replace("4.3.1", "5.4.2")}, {"refused"}),
    "version-too-low-for-some": ("geforce-desktop",
                                 {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "0.3.0")},
                                 {"refused"}),
    "version-too-low-for-others": ("geforce-desktop",
                                   {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "0.3.0"),
                                    "/var/lib/dpkg/status": PODMAN_431}, set()),
    "first-version-for-podman-4.3": ("geforce-desktop",
                                     {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "0.1.0"),
                                      "/var/lib/dpkg/status": PODMAN_431}, set()),
    "first-version-today": ("geforce-desktop",
                            {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "0.1.0"),
                             "/lib/apk/db/installed": "P:podman\nV:5.8.2-r0\n\n"}, {"refused"}),
    "newer-than-pacman's-podman": ("geforce-desktop",
                                   {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "1.1.0"),
                                    "/var/lib/pacman/local/podman-5.7.1-1/desc": "%NAME%\n"},
                                   {"too-new"}),
    "later-than-all-that-are-known": ("geforce-desktop",
                                      {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "1.1.0"),
                                       "/lib/apk/db/installed": "P:podman\nV:7.2.0-r0\n\n"}, set()),
    "a-podman-that-was-removed": ("geforce-desktop",
                                  {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "0.7.0"),
                                   "/var/lib/dpkg/status": PODMAN_431.replace(
                                       "ok installed", "ok config-files")}, set()),
    "docker-and-its-containerd": ("geforce-desktop",
                                  {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "0.8.0"),
                                   "/var/lib/dpkg/status": DOCKER}, set()),
    "yml": ("geforce-desktop", {"/etc/cdi/nvidia.yml": GOOD}, {"not-read"}),
    "capital-ending": ("geforce-desktop", {"/etc/cdi/nvidia.YAML": GOOD}, {"not-read"}),
    "yml-of-something-else": ("geforce-desktop", {"/etc/cdi/x.yml": "a: b\n"}, set()),
    "yml-beside-one-that-counts": ("geforce-desktop", {"/etc/cdi/nvidia.yml": GOOD,
                                                       "/etc/cdi/nvidia.yaml": GOOD}, {"not-read"}),
    "a-folder-of-that-name": ("geforce-desktop", {"/etc/cdi/x.yaml/y": "a"}, set()),
    "node-gone": ("geforce-desktop", {"/etc/cdi/nvidia.yaml": GOOD.replace("nvidiactl", "nvidia9")},
                  {"path-gone"}),
    "node-gone-but-stated": ("geforce-desktop", {"/etc/cdi/nvidia.yaml": GOOD.replace(
        "  - path: /dev/nvidiactl\n",
        "  - {path: /dev/nvidia9, type: c, major: 195, minor: 9}\n")}, {"path-gone"}),
    "node-of-another-type": ("geforce-desktop", {"/etc/cdi/nvidia.yaml": GOOD.replace(
        "  - path: /dev/nvidiactl\n", "  - {path: /dev/nvidiactl, type: b}\n")}, {"not-started"}),
    "node-that-is-a-file": ("geforce-desktop", {"/etc/cdi/nvidia.yaml": GOOD.replace(
        "/dev/nvidiactl", LIBCUDA)}, {"not-started"}),
    "hook-with-a-relative-path": ("geforce-desktop", {"/etc/cdi/nvidia.yaml": GOOD + HOOK_OF_EDITS.format(
        name="createContainer", path="nvidia-cdi-hook")}, {"not-started"}),
    "hook-that-is-no-program": ("geforce-desktop", {"/etc/cdi/nvidia.yaml": GOOD + HOOK_OF_EDITS.format(
        name="createContainer", path=LIBCUDA)}, {"not-started"}),
    "hook-gone": ("geforce-desktop", {"/etc/cdi/nvidia.yaml": GOOD + HOOK_OF_EDITS.format(
        name="createContainer", path="/usr/bin/nvidia-cdi-hook")}, {"path-gone"}),
    "hook-of-the-container": ("geforce-desktop", {"/etc/cdi/nvidia.yaml": GOOD + HOOK_OF_EDITS.format(
        name="startContainer", path="/sbin/ldconfig.of.the.image")}, set()),
    "hook-of-the-container-with-a-relative-path": ("geforce-desktop", {
        "/etc/cdi/nvidia.yaml": GOOD + HOOK_OF_EDITS.format(name="startContainer", path="ldconfig")}, {"not-started"}),
    "hook-without-time": ("geforce-desktop", {"/etc/cdi/nvidia.yaml": GOOD + HOOK_OF_EDITS.format(
        name="poststart", path=LIBCUDA) + "    timeout: 0\n"}, {"not-started"}),
    "mount-without-bind": ("geforce-desktop", {"/etc/cdi/nvidia.yaml": GOOD.replace(", bind]", "]")},
                           {"not-started"}),
    "mount-of-a-file-system": ("geforce-desktop", {"/etc/cdi/nvidia.yaml": GOOD.replace(
        "options: [ro,", "type: tmpfs\n    options: [ro,").replace(", bind]", "]").replace(
            "hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.90.07", "hostPath: tmpfs")}, set()),
    "keys-twice": ("geforce-desktop", {"/etc/cdi/n.yaml": GOOD + "kind: nvidia.com/gpu\n"},
                   {"unreadable"}),
    "numbers-as-names": ("geforce-desktop", {"/etc/cdi/n.yaml": GOOD.replace('"0"', "0")}, set()),
    "no-such-version": ("geforce-desktop",
                        {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "0.2.9")}, {"refused"}),
    "no-devices": ("geforce-desktop",
                   {"/etc/cdi/n.yaml": "cdiVersion: 0.5.0\nkind: a.b/c\ndevices: []\n"},
                   {"refused"}),
    "bad-kind": ("geforce-desktop", {"/etc/cdi/n.yaml": GOOD.replace("nvidia.com/gpu", "gpu")},
                 {"refused"}),
    "too-new-for-podman": ("geforce-desktop",
                           {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "0.7.0"),
                            "/var/lib/dpkg/status": PODMAN_431}, {"too-new"}),
    "new-enough-podman": ("geforce-desktop",
                          {"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "0.7.0"),
                           "/var/lib/dpkg/status": PODMAN_431.replace("4.3.1", "5.4.2")}, set()),
    "two-of-a-kind": ("geforce-desktop", {"/etc/cdi/a.yaml": GOOD, "/etc/cdi/b.yaml": GOOD},
                      {"conflict"}),
    "same-in-two-folders": ("geforce-desktop", {"/etc/cdi/a.yaml": GOOD, "/run/cdi/a.yaml": GOOD},
                            set()),
    "gpu-left-out": ("mixed-quadro-geforce", {"/etc/cdi/nvidia.yaml": GOOD}, {"gpu-left-out"}),
    "slices-made-later": ("a100-mig", {"/etc/cdi/nvidia.yaml": GOOD}, {"gpu-left-out"}),
    "not-yaml": ("geforce-desktop", {"/etc/cdi/n.yaml": "a: [b"}, {"unreadable"}),
    "empty": ("geforce-desktop", {"/etc/cdi/n.yaml": ""}, {"unreadable"}),
    "a-list": ("geforce-desktop", {"/etc/cdi/n.yaml": "- a\n"}, {"unreadable"}),
    "binary": ("geforce-desktop", {"/etc/cdi/n.json": "\x00\x01\x7fELF"}, {"unreadable"}),
    "deep": ("geforce-desktop", {"/etc/cdi/n.yaml": "[" * 20000}, {"unreadable"}),
    "alias-bomb": ("geforce-desktop", {"/etc/cdi/n.yaml": "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{n}: &a{n} [{','.join(['*a%d' % (n - 1)] * 10)}]\n" for n in range(1, 12))},
        {"unreadable"}),
    "five-megabytes": ("geforce-desktop", {"/etc/cdi/n.yaml": "#" * (5 << 20)}, {"unreadable"}),
    "hidden-file": ("geforce-desktop", {"/etc/cdi/.n.yaml": "a: [b"}, {"unreadable"}),
    "hidden-file-of-no-ending": ("geforce-desktop", {"/etc/cdi/.n.yaml.123": "a: [b"}, set()),
}


# of those whose severity is the point
SEVERITIES = {"version-too-low-for-some": {"unknown"}, "deep": {"unknown"},
              "alias-bomb": {"unknown"}, "five-megabytes": {"unknown"}, "yml": {"error"},
              "yml-beside-one-that-counts": {"warning"}, "node-gone": {"error"},
              "node-gone-but-stated": {"warning"}, "mount-without-bind": {"warning"},
              "hook-with-a-relative-path": {"error"}}


GO = "package main\nimport _ %s\nfunc main() {}\n"


def programs(exe, folder):
    """An engine that no package database names: its program says which library it was built with."""
    if not shutil.which("go"):
        return skip("programs of Go", "there is no Go here")
    old, new = "github.com/container-orchestrated-devices", "tags.cncf.io"
    for number, (name, engine, module, version, said) in enumerate((
            ("podman", "podman", old, "0.5.2", "0.5.2"), ("dockerd", "docker", new, "1.0.1", "1.0.1"),
            ("crio", "cri-o", new, "0.6.2", "0.6.2"), ("containerd", "containerd", new, "1.9.9", None),
            ("podman", "podman", new + "/other", "0.5.2", None))):
        place, module = folder / f"go{number}", f"{module}/container-device-interface"
        (place / "library/pkg").mkdir(parents=True)
        (place / "library/go.mod").write_text(f"module {module}\n")
        (place / "library/pkg/x.go").write_text("package pkg\n")
        (place / "main.go").write_text(GO % json.dumps(module + "/pkg"))
        (place / "go.mod").write_text(f"module example.com/engine\nrequire {module} v{version}\n")
        (place / "vendor" / module / "pkg").mkdir(parents=True)
        (place / "vendor" / module / "pkg/x.go").write_text("package pkg\n")
        (place / "vendor/modules.txt").write_text(f"# {module} v{version}\n## explicit\n{module}/pkg\n")
        built = subprocess.run(["go", "build", "-mod=vendor", "-ldflags=-s -w", "-o", "engine", "."], cwd=place,
                               env=dict(os.environ, GOFLAGS="", GOTOOLCHAIN="local", GOPROXY="off"),
                               capture_output=True, text=True, check=False)
        if built.returncode:
            return skip("programs of Go", built.stderr.strip()[-150:])
        top = tree(folder / f"of{number}", "geforce-desktop")
        write({"/etc/cdi/nvidia.yaml": GOOD.replace("0.5.0", "0.6.0")}, top)
        (top / "usr/bin").mkdir(parents=True, exist_ok=True)
        for cut in (False, True):
            data = (place / "engine").read_bytes()
            (top / "usr/bin" / name).write_bytes(data[:len(data) // 2] if cut else data)
            found = json.loads(run(exe, "--check", "--json", "--host", str(top)).stdout)["files"][0]["engines"]
            here = [(e["engine"], e["library"], e["installed"]) for e in found if e["installed"]]
            wanted = [] if cut or not said else [(engine, said, f"(with container-device-interface {said})")]
            check(f"a {name} with {module} {version}{', cut' if cut else ''}", here == wanted, here)
    top = tree(folder / "by-package", "geforce-desktop")
    write({"/etc/cdi/nvidia.yaml": GOOD, "/var/lib/dpkg/status": PODMAN_431}, top)
    shutil.copy(folder / "go1/engine", top / "usr/bin/podman")
    found = json.loads(run(exe, "--check", "--json", "--host", str(top)).stdout)["files"][0]["engines"]
    check("a package that is known comes first", [e["installed"] for e in found if e["installed"]] == ["4.3.1"], found)


def places(exe, folder):
    """Which folder is read, what cannot be, and what stdout is with --json."""
    top = tree(folder, "geforce-desktop")
    for path in ("etc/cdi/bad.yaml", "srv/specs/nvidia.yaml"):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text("a: [b" if "bad" in path else GOOD)
    given = ["--check", "--json", "--host", str(top)]
    one = json.loads(run(exe, *given, "--folder", "/srv/specs").stdout)
    check("--folder: it alone is read", one["folders"] == ["/srv/specs"] and one["verdict"] == "ok"
          and [f["path"] for f in one["files"]] == ["/srv/specs/nvidia.yaml"], one)
    other = run(exe, *given)
    check("without --folder: it is not", other.returncode == 1
          and json.loads(other.stdout)["folders"] == ["/etc/cdi"], other.stdout)
    none = run(exe, *given, "--folder", "/srv/none")
    said = json.loads(none.stdout)
    check("--folder of nothing: cannot tell", none.returncode == 3 and said["verdict"] == "unknown"
          and "/srv/none" in said["unread"][0], none.stdout)
    (top / "etc/cdi/bad.yaml").unlink()
    (top / "etc/cdi").chmod(0)
    if os.geteuid() == 0:
        (folder / "gpumend").unlink(missing_ok=True)
        shutil.copy(exe, folder / "gpumend")
        closed = run(folder / "gpumend", *given, user=65534, group=65534, extra_groups=[])
    else:
        closed = run(exe, *given)
    (top / "etc/cdi").chmod(0o755)
    check("a folder that may not be read: cannot tell", closed.returncode == 3
          and json.loads(closed.stdout)["unread"], closed.stdout + closed.stderr)
    (top / ".gpumend-nodes").unlink()
    unseen = run(exe, *given, "--folder", "/srv/specs")
    check("nodes that cannot be seen: cannot tell", unseen.returncode == 3
          and [p["kind"] for f in json.loads(unseen.stdout)["files"] for p in f["problems"]]
          == ["unseen"], unseen.stdout)
    for name in MACHINES:
        done = run(exe, "--json", "--host", str(tree(folder, name)))
        made = json.loads(done.stdout or "{}").get("specifications")
        check(f"{name}: --json is JSON, or nothing", (done.returncode == 0) == bool(made)
              and (done.stdout or ("cannot tell" in done.stderr or "cannot be determined" in done.stderr)), done.stderr)


def forms(exe, folder):
    """The forms of `container` name a device only where engines can resolve it."""
    for name, files, first in (
            ("read", {"nvidia.yaml": GOOD}, None), ("not read", {"nvidia.yml": GOOD}, "sudo mv"),
            ("read and refused", {"nvidia.yaml": GOOD.replace("/dev/nvidia0", ""), "nvidia.yml": GOOD},
             "sudo nvidia-ctk")):
        top = tree(folder, "geforce-desktop")
        (top / "etc/cdi").mkdir(parents=True)
        for file, text in files.items():
            (top / "etc/cdi" / file).write_text(text)
        done = subprocess.run([str(exe), "container", "podman", "--json", "--host", str(top), str(exe)],
                              capture_output=True, text=True, timeout=60, check=False)
        said = json.loads(done.stdout)["first"]
        check(f"form: a specification that is {name}", any(
            one["value"].startswith(first) for one in said) if first else not said, said)


def engines_named(exe, folder):
    """Where engines differ, the text says which do not load a file."""
    top = tree(folder, "geforce-desktop")
    (top / "etc/cdi").mkdir(parents=True)
    (top / "etc/cdi/nvidia.yaml").write_text(GOOD.replace("0.5.0", "0.6.0"))
    done = run(exe, "--check", "--host", str(top))
    said = " ".join(done.stdout.split())
    check("0.6.0 without a known engine: ok, and who passes over it", done.returncode == 0
          and "not loaded by containerd before 1.7.12, cri-o before 1.28, podman before 4.7: version 0.6.0" in said, said)
    (top / "etc/cdi/nvidia.yaml").write_text(GOOD.replace("0.5.0", "0.2.0"))
    done = run(exe, "--check", "--host", str(top))
    said = " ".join(done.stdout.split())
    check("0.2.0 without a known engine: it depends", done.returncode == 3
          and "podman 4.3 to before 4.5 load it, today's refuse it" in said, said)


def faults(exe, folder):
    for name, (machine, files, kinds) in FAULTS.items():
        top = tree(folder, machine)
        for path, text in files.items():
            file = top / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        done = run(exe, "--check", "--json", "--host", str(top))
        try:
            said = json.loads(done.stdout)
        except ValueError:
            check(f"fault {name}", False, done.stderr)
            continue
        found = {p["kind"] for f in said["files"] for p in f["problems"]}
        check(f"fault {name}", found == kinds, (found, said["files"]))
        worst = {p["severity"] for f in said["files"] for p in f["problems"]}
        status = 1 if "error" in worst else 3 if "unknown" in worst else 0
        check(f"fault {name}: status", done.returncode == status
              and said["verdict"] == ("ok", "broken", "", "unknown")[status], done.returncode)
        check(f"fault {name}: severity", worst == SEVERITIES.get(name, worst & {"error", "warning"})
              and "unknown" not in worst - SEVERITIES.get(name, set()), worst)
        text = run(exe, "--check", "--host", str(top)).stdout
        missing = [p["text"] for f in said["files"] for p in f["problems"]
                   if "".join(p["text"].split()) not in "".join(text.split())]
        check(f"fault {name}: text", not missing, (missing, text))
    top = tree(folder, "geforce-desktop")
    file = top / "etc/cdi/nvidia.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(GOOD)
    file.chmod(0o600)
    said = json.loads(run(exe, "--check", "--json", "--host", str(top)).stdout)
    check("fault not-for-all", [p["kind"] for p in said["files"][0]["problems"]] == ["not-for-all"],
          said)


def main():
    exe = Path(sys.argv[1]).resolve()
    schema = validator()
    if not schema:
        skip("schema", "the published schema is not installed")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        for name in MACHINES:
            of_machine(exe, folder, name, schema)
        expected(exe, folder)
        whole(exe, folder)
        hooks(exe, folder)
        layouts(exe, folder)
        strange_names(exe, folder)
        jetson(exe, folder)
        programs(exe, folder)
        faults(exe, folder)
        places(exe, folder)
        forms(exe, folder)
        engines_named(exe, folder)
        writing(exe, folder)
        in_podman(exe, folder)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
