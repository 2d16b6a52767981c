"""Makes captured trees of machines out of short descriptions.

A machine is a dict of paths: text is a file, Link a symbolic link, None an empty folder. Device
nodes, which a tree of regular files cannot hold, are listed in /.gpumend-nodes (src/host/host.h).
The helpers below write what the kernel and the drivers write; each names the source of its format.
"""

import json
import os
from pathlib import Path


class Link(str):
    """Target of a symbolic link."""


def merged(*parts):
    """One machine out of several parts; a node list of several parts is one list."""
    machine, nodes = {}, []
    for part in parts:
        part = dict(part)
        nodes += part.pop("nodes", [])
        machine.update(part)
    if nodes:
        machine["nodes"] = nodes
    return machine


def without(machine, *prefixes):
    return {path: text for path, text in machine.items()
            if not any(path.startswith(prefix) for prefix in prefixes)}


def write(machine, top):
    """Writes the tree below `top`."""
    machine = dict(machine)
    nodes = machine.pop("nodes", None)
    if nodes is not None:
        machine["/.gpumend-nodes"] = "".join(line + "\n" for line in nodes)
    for path, text in machine.items():
        file = Path(str(top) + path)
        if text is None:
            file.mkdir(parents=True, exist_ok=True)
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, Link):
            os.symlink(text, file)
        else:
            file.write_text(text)


# ------------------------------------------------------------------ the system

V3 = ("fpu cx8 cmov mmx fxsr sse sse2 lahf_lm pni ssse3 cx16 sse4_1 sse4_2 movbe popcnt xsave avx "
      "f16c rdrand abm fma bmi1 avx2 bmi2")
V4 = V3 + " avx512f avx512dq avx512cd avx512bw avx512vl"
V2 = "fpu cx8 cmov mmx fxsr sse sse2 lahf_lm pni ssse3 cx16 sse4_1 sse4_2 popcnt"

GROUPS = """root:x:0:
video:x:44:alice
render:x:105:alice
alice:x:1000:
"""

# proc_pid_mountinfo(5)
HOST_MOUNTS = """22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
23 22 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
24 22 0:22 / /sys rw,nosuid,nodev,noexec,relatime shared:2 - sysfs sysfs rw
25 22 0:5 / /dev rw,nosuid,relatime shared:8 - devtmpfs udev rw,size=16384k,mode=755
"""


def status(uid=1000, gid=1000, groups=(44, 105, 1000), caps=0, cpus="0-7"):
    """/proc/self/status, proc_pid_status(5), the lines that are read."""
    return (f"Name:\tgpumend\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{gid}\t{gid}\t{gid}\t{gid}\n"
            f"Groups:\t{' '.join(map(str, groups))} \nCapEff:\t{caps:016x}\n"
            f"Cpus_allowed_list:\t{cpus}\n")


def system(kernel="6.8.0-45-generic", model="AMD Ryzen 7 7700X 8-Core Processor", flags=V3,
           cores=8, memory_gib=32, environ=(), **user):
    """What every machine has: a kernel, a CPU, memory, a user, version 2 of cgroups."""
    return {
        "/proc/sys/kernel/osrelease": kernel + "\n",
        "/proc/cpuinfo": "".join(f"processor\t: {n}\nmodel name\t: {model}\nflags\t\t: {flags}\n\n"
                                 for n in range(min(cores, 2))),
        "/proc/meminfo": f"MemTotal:       {memory_gib << 20} kB\nMemFree:         1048576 kB\n",
        "/proc/self/status": status(cpus=f"0-{cores - 1}", **user),
        "/proc/self/environ": "".join(v + "\0" for v in ("PATH=/usr/bin", *environ)),
        "/proc/self/cgroup": "0::/user.slice/user-1000.slice/session-2.scope\n",
        "/proc/self/mountinfo": HOST_MOUNTS,
        "/proc/self/uid_map": "         0          0 4294967295\n",
        "/proc/1/comm": "systemd\n",
        "/proc/1/cgroup": "0::/init.scope\n",
        "/proc/devices": "Character devices:\n  1 mem\n 10 misc\n226 drm\n\nBlock devices:\n259 blkext\n",
        "/sys/devices/system/cpu/online": f"0-{cores - 1}\n",
        "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
        "/sys/module/ext4/initstate": "live\n",
        "/sys/bus/pci/devices": None,
        "/sys/class/drm": None,
        "/etc/group": GROUPS,
        "/usr/bin/env": "",
        "/usr/lib/os-release": "ID=debian\n",
        "nodes": ["/dev/null c 1 3 666 0 0 ok"],
    }


OVERLAY = ("600 500 0:60 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/{engine}/overlay2/l/A,"
           "upperdir=/var/lib/{engine}/overlay2/B/diff,workdir=/var/lib/{engine}/overlay2/B/work\n"
           "601 600 0:61 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw\n"
           "602 600 0:62 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755\n")


def container(engine="docker", mounts=(), rootless=False, **user):
    """What differs inside a container: the root's mount, the marks of the engine, the user."""
    root = OVERLAY.format(engine="docker" if engine == "docker" else "containers/storage")
    lines = "".join(f"{700 + n} 602 0:5 {m} {m} rw,nosuid - devtmpfs udev rw\n"
                    for n, m in enumerate(mounts))
    marks = {"docker": {"/.dockerenv": ""}, "podman": {"/run/.containerenv": ""},
             "kubernetes": {"/run/secrets/kubernetes.io/serviceaccount/namespace": "default"}}
    user = {"uid": 0, "gid": 0, "groups": (0,), "caps": 0xa80425fb, **user}
    return merged({
        "/proc/self/mountinfo": root + lines,
        "/proc/self/status": status(**user),
        "/proc/1/comm": "python3\n",
        "/proc/1/cgroup": "0::/\n",
        "/proc/self/cgroup": "0::/\n",
        "/etc/group": "root:x:0:\n",
        **({"/proc/self/uid_map": "         0       1000          1\n"} if rootless else {}),
    }, marks[engine])


# ------------------------------------------------------------------ container engines

DOCKERD = "/usr/bin/dockerd"


def docker(**settings):
    """Docker Engine of a package; without settings there is no file of them."""
    return {DOCKERD: "", **({"/etc/docker/daemon.json": json.dumps(settings)} if settings else {})}


def toolkit(version="1.17.8", **settings):
    """NVIDIA's Container Toolkit, its settings in the form of `nvidia-ctk config`."""
    settings = {"ldconfig": '"@/sbin/ldconfig"', **settings}
    lines = "".join(f"{k.replace('_', '-')} = {v}\n" for k, v in settings.items())
    return {
        **{f"/usr/bin/nvidia-{name}": "" for name in ("container-runtime", "container-cli", "ctk",
                                                      "container-runtime-hook")},
        "/sbin/ldconfig": "",
        "/etc/nvidia-container-runtime/config.toml":
            '#accept-nvidia-visible-devices-as-volume-mounts = false\ndisable-require = false\n\n'
            f'[nvidia-container-cli]\n{lines}\n[nvidia-container-runtime]\nmode = "auto"\n',
        "/var/lib/dpkg/status": "Package: nvidia-container-toolkit\nStatus: install ok installed\n"
                                f"Version: {version}-1\n\n",
    }


# ------------------------------------------------------------------ PCI

def pci(bdf, vendor, device, pci_class, driver=None, revision=0xa1, subsystem=(0x10de, 0x0001),
        numa=0, more=None):
    """A function of the bus: Documentation/ABI/testing/sysfs-bus-pci of Linux."""
    top = f"/sys/bus/pci/devices/{bdf}"
    machine = {
        f"{top}/vendor": f"0x{vendor:04x}\n", f"{top}/device": f"0x{device:04x}\n",
        f"{top}/class": f"0x{pci_class:06x}\n", f"{top}/revision": f"0x{revision:02x}\n",
        f"{top}/subsystem_vendor": f"0x{subsystem[0]:04x}\n",
        f"{top}/subsystem_device": f"0x{subsystem[1]:04x}\n",
        f"{top}/numa_node": f"{numa}\n",
    }
    if driver:
        machine[f"{top}/driver"] = Link(f"../../../bus/pci/drivers/{driver}")
    for name, text in (more or {}).items():
        machine[f"{top}/{name}"] = text
    return machine


# ------------------------------------------------------------------ NVIDIA

def information(model, bdf, minor, excluded="No"):
    """kernel-open/nvidia/nv-procfs.c of open-gpu-kernel-modules."""
    return (f"Model: \t\t {model}\nIRQ:   \t\t {100 + minor}\n"
            f"GPU UUID: \t GPU-00000000-0000-0000-0000-{minor:012d}\nVideo BIOS: \t 95.02.3c.00.01\n"
            f"Bus Type: \t PCIe\nDMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\n"
            f"Bus Location: \t {bdf}\nDevice Minor: \t {minor}\nGPU Excluded:\t {excluded}\n")


def nvidia_module(version, is_open=True, uvm=True):
    middle = "Open Kernel Module for x86_64" if is_open else "x86_64 Kernel Module"
    return {
        "/proc/driver/nvidia/version":
            f"NVRM version: NVIDIA UNIX {middle}  {version}  Release Build  (builder@host)\n"
            "GCC version:  gcc version 12.2.0\n",
        "/proc/driver/nvidia/params": "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\n"
                                      "DeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n",
        "/proc/devices": "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n226 drm\n"
                         "508 nvidia-uvm\n511 nvidia-caps\n\nBlock devices:\n259 blkext\n",
        "/sys/module/nvidia/version": version + "\n",
        **({"/sys/module/nvidia_uvm/initstate": "live\n"} if uvm else {}),
    }


def nvidia_libraries(version, folder="/usr/lib/x86_64-linux-gnu"):
    """The links that the driver's packages make: soname to the file of the version."""
    machine = {}
    for name in ("libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so"):
        machine[f"{folder}/{name}.{version}"] = ""
        machine[f"{folder}/{name}.1"] = Link(f"{name}.{version}")
    machine[f"{folder}/libnvidia-nvvm.so.{version}"] = ""
    machine[f"{folder}/libnvidia-nvvm.so.4"] = Link(f"libnvidia-nvvm.so.{version}")
    return machine


def nvidia_nodes(minors, access="ok", mode="666", group=0, uvm=True):
    nodes = [f"/dev/nvidia{n} c 195 {n} {mode} 0 {group} {access}" for n in minors]
    nodes.append(f"/dev/nvidiactl c 195 255 {mode} 0 {group} {access}")
    if uvm:
        nodes += [f"/dev/nvidia-uvm c 508 0 {mode} 0 {group} {access}",
                  f"/dev/nvidia-uvm-tools c 508 1 {mode} 0 {group} {access}"]
    return {"nodes": nodes}


def nvidia_gpus(*gpus, driver="nvidia", pci_class=0x030000, served=True):
    """gpus: (bdf, PCI device id, model). The driver numbers them in order of the bus."""
    parts = []
    for minor, (bdf, device, model) in enumerate(gpus):
        parts.append(pci(bdf, 0x10de, device, pci_class, driver))
        if served and driver == "nvidia":
            parts.append({f"/proc/driver/nvidia/gpus/{bdf}/information":
                          information(model, bdf, minor)})
    return merged(*parts)


def nvidia(version, *gpus, is_open=True, pci_class=0x030000, **nodes):
    """A machine part where everything of the NVIDIA driver is in order."""
    return merged(nvidia_module(version, is_open), nvidia_libraries(version),
                  nvidia_gpus(*gpus, pci_class=pci_class),
                  nvidia_nodes(range(len(gpus)), **nodes),
                  {"/usr/bin/nvidia-modprobe": "",
                   "/proc/812/comm": "nvidia-persistenced\n"[:15] + "\n"})


def mig(minor, *instances):
    """NVIDIA Multi-Instance GPU User Guide, "Device Nodes and Capabilities"."""
    top = f"/proc/driver/nvidia/capabilities/gpu{minor}/mig"
    machine, nodes = {}, []
    for n, (gi, ci) in enumerate(instances):
        for path, cap in ((f"{top}/gi{gi}/access", 3 + 9 * n),
                          (f"{top}/gi{gi}/ci{ci}/access", 4 + 9 * n)):
            machine[path] = f"DeviceFileMinor: {cap}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
            nodes.append(f"/dev/nvidia-caps/nvidia-cap{cap} c 511 {cap} 444 0 0 ok")
    return {**machine, "nodes": nodes}


def nvswitches(*bdfs, device=0x1af1):
    return merged(*(pci(bdf, 0x10de, device, 0x068000, "nvidia-nvswitch") for bdf in bdfs))


# ------------------------------------------------------------------ AMD

def kfd_node(location, device, gfx, simds, minor, vram_gib, per_cu=4, cpus=0, domain=0, unique=0):
    """drivers/gpu/drm/amd/amdkfd/kfd_topology.c of Linux, node_show()."""
    lines = [("cpu_cores_count", cpus), ("simd_count", simds), ("mem_banks_count", 1),
             ("caches_count", 0), ("io_links_count", 1), ("cpu_core_id_base", 0),
             ("simd_id_base", 2147487744), ("max_waves_per_simd", 16), ("lds_size_in_kb", 64),
             ("wave_front_size", 32), ("array_count", 4), ("simd_per_cu", per_cu)]
    if gfx:
        lines.append(("gfx_target_version", gfx))
    lines += [("vendor_id", 4098), ("device_id", device), ("location_id", location),
              ("domain", domain), ("drm_render_minor", minor), ("hive_id", 0),
              ("local_mem_size", 0), ("unique_id", unique)]
    return ("".join(f"{k} {v}\n" for k, v in lines),
            f"heap_type 1\nsize_in_bytes {vram_gib << 30}\nflags 0\nwidth 256\nmem_clk_max 875\n")


def kfd(*nodes):
    """The first node is the CPU's."""
    top = "/sys/class/kfd/kfd/topology/nodes"
    machine = {f"{top}/0/properties": "cpu_cores_count 16\nsimd_count 0\nmem_banks_count 1\n"
                                      "gfx_target_version 0\nlocation_id 0\n"}
    for n, (properties, bank) in enumerate(nodes, 1):
        machine[f"{top}/{n}/properties"] = properties
        machine[f"{top}/{n}/mem_banks/0/properties"] = bank
    return machine


def amdgpu(version=None):
    return {"/sys/module/amdgpu/initstate": "live\n",
            "/sys/module/amdgpu/srcversion": "533BB7E5866E52F63B9ACCB\n",
            **({"/sys/module/amdgpu/version": version + "\n"} if version else {})}


def amd_gpu(bdf, device, revision, render, vram_gib=None, pci_class=0x030000, driver="amdgpu",
            more=None):
    files = {f"drm/renderD{render}/dev": f"226:{render}\n", "drm/card0/dev": "226:0\n"} \
        if driver == "amdgpu" else {}
    if vram_gib and driver == "amdgpu":
        files["mem_info_vram_total"] = f"{vram_gib << 30}\n"
    return pci(bdf, 0x1002, device, pci_class, driver, revision, (0x1002, 0x0e36),
               more={**files, **(more or {})})


def amd_nodes(renders=(128,), access="ok", group=105, mode="660", owner=0):
    return {"nodes": [f"/dev/kfd c 234 0 {mode} {owner} {group} {access}",
                      *(f"/dev/dri/renderD{n} c 226 {n} {mode} {owner} {group} {access}"
                        for n in renders)]}


def rocm(version, *gfx, prefix=None):
    """An installation of ROCm; rocBLAS names its kernel files after their target."""
    prefix = prefix or f"/opt/rocm-{version}"
    machine = {f"{prefix}/.info/version": f"{version}-16\n",
               f"{prefix}/lib/libhsa-runtime64.so.1.15.0": "",
               "/opt/rocm": Link(os.path.basename(prefix))}
    for target in gfx:
        machine[f"{prefix}/lib/rocblas/library/TensileLibrary_lazy_{target}.dat"] = ""
        machine[f"{prefix}/lib/rocblas/library/Kernels.so-000-{target}.hsaco"] = ""
    return machine


ROCM7 = ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1102",
         "gfx1151", "gfx1200", "gfx1201")

# ------------------------------------------------------------------ Intel

LEVEL_ZERO = {"libze_loader.so": ("1", "1.17.6"), "libze_intel_gpu.so": ("1", "1.3.29735"),
              "libigc.so": ("2", "2.1.12"), "libigdgmm.so": ("12", "12.5.0")}


def intel_gpu(bdf, device, driver="i915", render=128, access="ok"):
    return merged(pci(bdf, 0x8086, device, 0x030000, driver, 0x08, (0x8086, 0x1020),
                      more={f"drm/renderD{render}/dev": f"226:{render}\n"}),
                  {f"/sys/module/{driver}/initstate": "live\n",
                   "nodes": [f"/dev/dri/renderD{render} c 226 {render} 660 0 105 {access}"]})


def level_zero(*names):
    folder, machine = "/usr/lib/x86_64-linux-gnu", {}
    for name in names or LEVEL_ZERO:
        major, version = LEVEL_ZERO[name]
        machine[f"{folder}/{name}.{version}"] = ""
        machine[f"{folder}/{name}.{major}"] = Link(f"{name}.{version}")
    return machine
