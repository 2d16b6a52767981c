"""Cases of container engines: a machine whose containers do not get the GPU, and its healthy twin.

The machine is looked at alone: its own programs can use the GPU in both.
"""

import json
import sys
from pathlib import Path

from cases import case
from tree import LOADER

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "trees"))
from build import (DOCKERD, docker, merged, nvidia, system, toolkit, without)  # noqa: E402
from machines import ENGINES, MACHINES, RTX4090, RX7900XTX  # noqa: E402

GEFORCE = merged(system(), nvidia("550.90.07", RTX4090))
RUNTIME = {"nvidia": {"path": "nvidia-container-runtime", "args": []}}
USER = "/run/user/1000/docker.sock"
OWN = "/home/alice/.config/docker/daemon.json"
AT_HOME = {"/proc/self/environ": "PATH=/usr/bin\0HOME=/home/alice\0"}


def machine(cause, cls, culprit, name, bad, good=ENGINES, severity="warning", **more):
    def build(t, is_bad):
        t.machine(bad if is_bad else good)
        return {"target": None}
    case(cause, cls, culprit, name=name, severity=severity, **more)(build)


# ---- not installed, not registered -----------------------------------------------------------

machine("container-runtime-missing", "container-no-gpu", "nvidia-container-toolkit",
        "docker-without-toolkit", merged(GEFORCE, docker()), severity="note",
        repair="nvidia-ctk runtime configure --runtime=docker")
machine("container-runtime-missing", "container-no-gpu", "nvidia-container-toolkit",
        "containerd-of-kubernetes-without-toolkit",
        merged(GEFORCE, {"/usr/bin/containerd": "", "/usr/bin/kubelet": ""}),
        merged(GEFORCE, {"/usr/bin/containerd": ""}), severity="note",
        repair="--runtime=containerd")
machine("container-runtime-missing", "container-no-gpu", "nvidia", "registered-and-removed",
        without(ENGINES, "/usr/bin/nvidia-container"), severity="warning",
        evidence="daemon.json registers the runtime nvidia as nvidia-container-runtime")
machine("container-runtime-missing", "container-no-gpu", "nvidia", "default-that-is-none",
        merged(GEFORCE, docker(**{"default-runtime": "nvidia"}), toolkit()),
        merged(GEFORCE, docker(runtimes=RUNTIME, **{"default-runtime": "nvidia"}), toolkit()),
        repair="^sudo nvidia-ctk runtime configure --runtime=docker")
machine("container-runtime-missing", "container-no-gpu", "/etc/docker/daemon.json",
        "settings-that-are-no-json",
        merged(ENGINES, {"/etc/docker/daemon.json": '{"runtimes": {}},\n'}),
        merged(ENGINES, {"/etc/docker/daemon.json": "\n"}), evidence="not a JSON object", repair="correct|Correct")
machine("container-runtime-missing", "container-no-gpu", "nvidia", "program-or-type-of-a-shim",
        merged(ENGINES, docker(runtimes={"nvidia": {"path": "/opt/gone"}})),
        merged(ENGINES, docker(runtimes={"nvidia": {"runtimeType": "io.containerd.runc.v2"}})))
CRI = """version = 2
[plugins."io.containerd.grpc.v1.cri".containerd]
  default_runtime_name = "nvidia" # for all pods
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.%s.options]
  BinaryName = "%s"
  SystemdCgroup = true
"""
CONTAINERD = merged(GEFORCE, toolkit(), {"/usr/bin/containerd": "", "/usr/bin/kubelet": ""})
machine("container-runtime-missing", "container-no-gpu", "nvidia", "containerd-default-that-is-none",
        merged(CONTAINERD, {"/etc/containerd/config.toml": CRI % ("runc", "/usr/bin/runc")}),
        merged(CONTAINERD, {"/etc/containerd/config.toml":
                            CRI % ("nvidia", "/usr/bin/nvidia-container-runtime")}),
        repair="^sudo nvidia-ctk runtime configure --runtime=containerd")
machine("container-runtime-missing", "container-no-gpu", "nvidia", "containerd-program-gone",
        merged(CONTAINERD, {"/etc/containerd/config.toml":
                            CRI % ("nvidia", "/usr/local/nvidia/toolkit/nvidia-container-runtime")}),
        merged(CONTAINERD, {"/usr/local/nvidia/toolkit/nvidia-container-runtime": "",
                            "/etc/containerd/config.toml":
                            CRI % ("nvidia", "/usr/local/nvidia/toolkit/nvidia-container-runtime")}))
# The default stands in the file, what it names in one that is imported.
machine("container-runtime-missing", "container-no-gpu", "nvidia", "crio-program-gone",
        merged(GEFORCE, toolkit(), {"/usr/bin/crio": "", "/etc/crio/crio.conf":
               '[crio.runtime]\ndefault_runtime = "nvidia"\n', "/etc/crio/crio.conf.d/99-nvidia.conf":
               "[crio.runtime.runtimes.nvidia]\nruntime_path = '/opt/gone/nvidia-container-runtime'\n"}),
        merged(GEFORCE, toolkit(), {"/usr/bin/crio": "", "/etc/crio/crio.conf":
               '[crio.runtime]\ndefault_runtime = "nvidia"\n', "/etc/crio/crio.conf.d/99-nvidia.conf":
               "[crio.runtime.runtimes.nvidia]\nruntime_path = '/usr/bin/nvidia-container-runtime'\n"}),
        evidence="/opt/gone/nvidia-container-runtime")

# ---- another engine than the one that was set up ---------------------------------------------

SNAP = {"/snap/docker/current/meta/snap.yaml": "name: docker\n"}
SNAPS = "/var/snap/docker/current/config/daemon.json"
machine("container-engine-elsewhere", "container-no-gpu", "/etc/docker/daemon.json",
        "snap-with-settings-of-the-package",
        merged(without(ENGINES, DOCKERD), SNAP, {SNAPS: '{"log-level": "error"}\n'}),
        merged(without(ENGINES, DOCKERD), SNAP, {SNAPS: json.dumps({"runtimes": RUNTIME})}),
        repair="in the place of the snap", evidence="/var/snap/docker/current/config/daemon.json")
machine("container-engine-elsewhere", "container-no-gpu", "/etc/docker/daemon.json",
        "rootless-with-settings-of-root",
        merged(without(ENGINES, DOCKERD), AT_HOME, {USER: "", OWN: "{}\n"}, toolkit("1.18.0")),
        merged(without(ENGINES, DOCKERD), AT_HOME, {USER: "", OWN: json.dumps({"runtimes": RUNTIME})},
               toolkit("1.18.0")),
        repair="--config=.HOME/.config/docker/daemon.json")
machine("container-engine-elsewhere", "container-no-gpu", "docker-desktop", "desktop-alone",
        merged(without(ENGINES, DOCKERD, "/etc/docker"), {"/opt/docker-desktop/bin/com.docker.backend": ""}),
        repair="install Docker Engine|Install Docker Engine")
DESKTOP = {"/opt/docker-desktop/bin/com.docker.backend": ""}
machine("container-engine-elsewhere", "container-no-gpu", "docker-desktop", "desktop-chosen",
        merged(ENGINES, DESKTOP, AT_HOME,
               {"/home/alice/.docker/config.json": '{"currentContext": "desktop-linux"}\n'}),
        merged(ENGINES, DESKTOP, AT_HOME,
               {"/home/alice/.docker/config.json": '{"currentContext": "default"}\n'}),
        repair="^docker context use default")
machine("container-engine-elsewhere", "container-no-gpu", "docker-desktop", "desktop-with-amd",
        merged(RX7900XTX, DESKTOP), merged(RX7900XTX, {DOCKERD: ""}))

# ---- the toolkit's settings ------------------------------------------------------------------

CONFIG = "/etc/nvidia-container-runtime/config.toml"


def docker_with(version="1.17.8", **settings):
    return merged(ENGINES, toolkit(version, **settings))


machine("container-toolkit-config", "container-no-gpu", CONFIG, "no-cgroups-with-root",
        docker_with(no_cgroups="true"), docker_with(no_cgroups="false"),
        repair="no-cgroups=false --in-place && sudo systemctl restart docker")
machine("container-toolkit-config", "container-no-gpu", CONFIG, "cgroups-without-root",
        merged(without(ENGINES, DOCKERD, "/etc/docker"), AT_HOME, {USER: "", OWN: "{}\n"}),
        merged(without(ENGINES, DOCKERD, "/etc/docker"), AT_HOME, {USER: "", OWN: "{}\n"},
               toolkit(no_cgroups="true")),
        repair="no-cgroups=true --in-place")
machine("container-toolkit-config", "container-no-gpu", CONFIG, "no-cgroups-of-unknown-version",
        without(docker_with(no_cgroups="true"), "/var/lib/dpkg"),
        docker_with("1.18.1", no_cgroups="true"), severity="note", evidence="cannot be determined")
machine("container-toolkit-config", "container-no-gpu", CONFIG, "ldconfig-of-ubuntu",
        docker_with("1.13.5", ldconfig='"@/sbin/ldconfig.real"'), docker_with(
            "1.14.0", ldconfig='"@/sbin/ldconfig.real"'),
        repair="ldconfig=@/sbin/ldconfig --in-place")
machine("container-toolkit-config", "container-no-gpu", CONFIG, "ldconfig-nowhere",
        docker_with(ldconfig='"@/opt/bin/ldconfig"'), docker_with(ldconfig='"/opt/bin/ldconfig"'),
        evidence="/opt/bin/ldconfig")
machine("container-cannot-see-host-driver", "container-lib-missing", CONFIG, "driver-root-gone",
        docker_with(root='"/run/nvidia/driver"'),
        merged(docker_with(root='"/run/nvidia/driver"'),
               {"/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": ""}),
        repair="nvidia-container-cli.root=/")
machine("container-cannot-see-host-driver", "container-lib-missing", "libnvidia-ml.so.1",
        "driver-without-nvml", without(ENGINES, "/usr/lib/x86_64-linux-gnu/libnvidia-ml"),
        repair="550.90.07")

# ---- what a reload of systemd takes, CDI -----------------------------------------------------

machine("container-may-lose-gpu", "cgroup-lost", "/dev/char", "links-missing",
        merged(docker_with(), {"/dev/char": None}),
        merged(docker_with(), {"/dev/char/195:0": "", "/dev/char/195:255": ""}), severity="note",
        repair="^sudo nvidia-ctk system create-dev-char-symlinks")
machine("container-may-lose-gpu", "cgroup-lost", "/dev/char", "links-missing-as-stated",
        merged(docker_with(), {"/dev/char": None}, docker(
            runtimes=RUNTIME, **{"exec-opts": ["native.cgroupdriver=systemd"]})),
        merged(docker_with(), {"/dev/char": None}, docker(
            runtimes=RUNTIME, **{"exec-opts": ["native.cgroupdriver=cgroupfs"]})), severity="note")


def specification(driver="550.90.07", node="/dev/nvidia0"):
    library = f"/usr/lib/x86_64-linux-gnu/libcuda.so.{driver}"
    return json.dumps({"cdiVersion": "0.3.0", "kind": "nvidia.com/gpu", "devices": [
        {"name": "all", "containerEdits": {"deviceNodes": [{"path": node}]}}],
        "containerEdits": {"mounts": [{"hostPath": library, "containerPath": library}]}})


SPEC = "/etc/cdi/nvidia.yaml"
machine("container-cdi-unresolved", "container-no-gpu", SPEC, "specification-of-another-driver",
        merged(GEFORCE, {SPEC: specification("535.183.01"),
                         "/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01": ""}),
        merged(GEFORCE, {SPEC: specification()}), evidence="made for driver 535.183.01",
        repair="^sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml")
machine("container-cdi-unresolved", "container-no-gpu", SPEC, "specification-of-no-format",
        merged(GEFORCE, {SPEC: specification().replace('"0.3.0"', '"0.9.9.9"')}),
        merged(GEFORCE, {SPEC: specification()}))
machine("container-cdi-unresolved", "container-no-gpu", SPEC, "specification-with-empty-edits",
        merged(GEFORCE, {SPEC: specification().replace('{"deviceNodes": [{"path": "/dev/nvidia0"}]}',
                                                       '{}')}),
        merged(GEFORCE, {SPEC: specification()}), evidence="has no containerEdits, or empty ones")
machine("container-cdi-unresolved", "container-no-gpu", "/etc/cdi/nvidia.yml",
        "specification-of-an-ending-that-is-not-read",
        merged(GEFORCE, {"/etc/cdi/nvidia.yml": specification()}),
        merged(GEFORCE, {SPEC: specification()}), evidence="passed over",
        repair="^sudo mv /etc/cdi/nvidia.yml /etc/cdi/nvidia.yaml")
machine("container-runtime-missing", "container-no-gpu", "nvidia-container-toolkit",
        "no-toolkit-and-a-copy-of-a-specification",
        merged(GEFORCE, docker(), {SPEC + ".bak": specification()}),
        merged(GEFORCE, docker(), {SPEC: specification()}), severity="note")
machine("container-cdi-unresolved", "container-no-gpu", "/run/cdi/other.json", "specification-twice",
        merged(GEFORCE, {"/run/cdi/nvidia.yaml": specification(), "/run/cdi/other.json": specification()}),
        merged(GEFORCE, {"/run/cdi/nvidia.yaml": specification(), SPEC: specification()}),
        evidence="resolve neither")

# ---- what a container is given of the driver, what an image asks for -------------------------

DOCKER = MACHINES["docker-good"][1]
CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
FOLDER = "/usr/lib/x86_64-linux-gnu"


def program(t, *needed):
    t.loader()
    t.lib("/opt/app/app", soname=None, interp=LOADER, needed=list(needed))


def part(name, library, cause, cls, bad, good, bad_env, good_env, machine=None, **more):
    """A program that needs a part of the driver; `bad` and `good` say whether it is there."""
    def build(t, is_bad):
        program(t, "libcuda.so.1", library)
        t.machine(machine or without(DOCKER, f"{FOLDER}/{library}"))
        if not (bad if is_bad else good):
            return {"target": "/opt/app/app", "env": bad_env if is_bad else good_env}
        t.lib(f"{FOLDER}/{library}")
        return {"target": "/opt/app/app", "env": bad_env if is_bad else good_env}
    case(cause, cls, library, name=name, **more)(build)


LIBRARIES = ("container-without-driver-libraries", "container-lib-missing")
part("capability-video", "libnvcuvid.so.1", *LIBRARIES, False, True, {},
     {CAPABILITIES: "compute,utility,video"}, repair="compute,utility,video",
     evidence="is not set, which means compute,utility")
part("capability-utility", "libnvidia-ml.so.1", *LIBRARIES, False, True,
     {CAPABILITIES: "compute"}, {CAPABILITIES: "compute,utility"}, repair="compute,utility IMAGE")
part("asked-for-and-not-there", "libnvidia-encode.so.1", *LIBRARIES, False, True,
     {CAPABILITIES: "all"}, {CAPABILITIES: "all"}, repair="what it lacks no container is given")
part("given-by-cdi-and-not-there", "libnvidia-encode.so.1", *LIBRARIES, False, True,
     {"NVIDIA_VISIBLE_DEVICES": "void"}, {"NVIDIA_VISIBLE_DEVICES": "void"},
     repair="write the CDI specification again")
part("host-without-nvml", "libnvidia-ml.so.1", "driver-libraries-missing", "lib-missing", False, True,
     {}, {}, without(GEFORCE, FOLDER + "/libnvidia-ml"), repair="version 550.90.07")


def empty_part(name, env, repair):
    """An image that was made of a container keeps what an engine mounted over as an empty file."""
    def build(t, is_bad):
        library = FOLDER + "/libnvidia-ml.so.1"
        program(t, "libcuda.so.1", "libnvidia-ml.so.1")
        t.machine(without(DOCKER, library))
        if is_bad:
            t.put(library, b"")
        else:
            t.lib(library)
        return {"target": "/opt/app/app", "env": env}
    case("library-unusable-file", "lib-missing", "libnvidia-ml.so.1", name=name, repair=repair,
         evidence="gets the driver's libraries from the host")(build)


empty_part("empty-in-a-container", {CAPABILITIES: "all"}, "Start the container with its GPU")
empty_part("empty-and-not-asked-for", {CAPABILITIES: "compute"}, "compute,utility IMAGE")


def image(name, cause, cls, culprit, bad_env, good_env, needed, host=ENGINES, good_host=None,
          severity="warning", fill=None, **more):
    """An image without a machine, judged on a host."""
    def build(t, is_bad):
        program(t, *needed)
        if fill:
            fill(t, is_bad)
        other = type(t)(t.top.parent / (t.top.name + "-host"), "/opt/venv")
        other.machine(host if is_bad else good_host or host)
        return {"target": "/opt/app/app", "args": ["--host", str(other.top)],
                "env": bad_env if is_bad else good_env}
    case(cause, cls, culprit, name=name, severity=severity, **more)(build)


image("image-asks-for-utility", *LIBRARIES, "libcuda.so.1", {CAPABILITIES: "utility"},
      {CAPABILITIES: "all"}, ["libcuda.so.1", "libnvcuvid.so.1"],
      repair=CAPABILITIES + "=utility,compute,video IMAGE", evidence="libnvcuvid.so.1")
image("image-does-not-ask-for-video", *LIBRARIES, "libnvcuvid.so.1", {},
      {"CUDA_VERSION": "10.2"}, ["libnvcuvid.so.1"])
image("image-wants-no-gpu", "container-without-gpu", "container-no-gpu", "NVIDIA_VISIBLE_DEVICES",
      {"NVIDIA_VISIBLE_DEVICES": "void"}, {"NVIDIA_VISIBLE_DEVICES": "all"}, ["libcuda.so.1"],
      severity="note", repair="--gpus")
image("image-on-a-host-without-toolkit", "container-runtime-missing", "container-no-gpu",
      "nvidia-container-toolkit", {}, {}, ["libcuda.so.1"],
      host=merged(GEFORCE, docker()), good_host=ENGINES)


def cublas_of(t, is_bad):
    for name in ("libcublas.so.12", "libcublas.so.11" if is_bad else "libcublasLt.so.12"):
        t.lib("/usr/local/cuda/lib64/" + name)


image("image-with-two-releases-of-cuda", "cuda-releases-mixed", "wrong-major",
      "/usr/local/cuda/lib64/libcublas.so.12", {}, {}, [], fill=cublas_of, severity="note",
      evidence="libcublas.so.11", repair="one release")


def with_driver(t, is_bad):
    if is_bad:
        t.lib(FOLDER + "/libcuda.so.1", soname="libcuda.so.1")
    else:
        t.lib("/usr/local/cuda/compat/libcuda.so.1", soname="libcuda.so.1")


image("image-with-a-driver", "container-image-has-driver", "container-lib-missing",
      FOLDER + "/libcuda.so.1", {}, {}, ["libcuda.so.1"], fill=with_driver)
