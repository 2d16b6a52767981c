"""Cases of container engines: a machine whose containers do not get the GPU, and its healthy twin.

The machine is looked at alone: its own programs can use the GPU in both.
"""

import json
import sys
from pathlib import Path

from cases import case

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
        merged(ENGINES, {"/etc/docker/daemon.json": "\n"}), evidence="no JSON", repair="correct|Correct")
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
        docker_with("1.18.1", no_cgroups="true"), severity="note", evidence="cannot be told")
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
machine("container-cdi-unresolved", "container-no-gpu", "/run/cdi/other.json", "specification-twice",
        merged(GEFORCE, {"/run/cdi/nvidia.yaml": specification(), "/run/cdi/other.json": specification()}),
        merged(GEFORCE, {"/run/cdi/nvidia.yaml": specification(), SPEC: specification()}),
        evidence="resolve neither")
