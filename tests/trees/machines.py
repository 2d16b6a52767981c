"""The machines: name -> (exit status, description). Each is what its comment says and no more."""

from build import (LEVEL_ZERO, Link, ROCM7, V2, V3, V4, amd_gpu, amd_nodes, amdgpu, container, docker,
                   intel_gpu, kfd, kfd_node, level_zero, merged, mig, nvidia, nvidia_gpus, nvidia_libraries,
                   nvidia_module, nvidia_nodes, nvswitches, pci, rocm, system, toolkit, without)

RTX4090 = ("0000:01:00.0", 0x2684, "NVIDIA GeForce RTX 4090")
SERVER = {"model": "AMD EPYC 7742 64-Core Processor", "cores": 128, "memory_gib": 1024}
A100S = [(f"0000:{bus:02x}:00.0", 0x20b2, "NVIDIA A100-SXM4-80GB")
         for bus in (0x07, 0x0f, 0x47, 0x4e, 0x87, 0x90, 0xb7, 0xbd)]
SWITCHES = [f"0000:{bus:02x}:00.0" for bus in (0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9)]

# A GPU given to a container, as the container toolkit does it.
INJECTED = ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"]
INJECTED_LIBRARIES = ["/usr/lib/x86_64-linux-gnu/libcuda.so.550.90.07",
                      "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.90.07"]


def in_docker(*parts, mounts=(), **user):
    """The container masks /proc/driver/nvidia but for the version and the GPUs it was given."""
    return merged(system(), *parts, container("docker", mounts, **user),
                  {"/proc/driver/nvidia/params": "ModifyDeviceFiles: 0\n"})


def rx(device, revision, gfx, simds, vram, *parts, environ=(), **user):
    return merged(system(environ=environ, **user), amdgpu(),
                  amd_gpu("0000:03:00.0", device, revision, 128, vram),
                  kfd(kfd_node(0x300, device, gfx, simds, 128, vram, per_cu=2)), *parts)


RX6700XT = rx(0x73df, 0xc1, 100301, 80, 12, amd_nodes(), rocm("7.0.2", *ROCM7))
RX7900XTX = rx(0x744c, 0xc8, 110000, 192, 24, amd_nodes(), rocm("7.0.2", *ROCM7))
DOCKER = in_docker(nvidia_module("550.90.07"), nvidia_gpus(RTX4090), nvidia_nodes([0]),
                   nvidia_libraries("550.90.07"), mounts=INJECTED + INJECTED_LIBRARIES)
# Docker and the toolkit as their packages and `nvidia-ctk runtime configure` leave them.
ENGINES = merged(system(), nvidia("550.90.07", RTX4090), docker(
    runtimes={"nvidia": {"args": [], "path": "nvidia-container-runtime"}}), toolkit())
WSL_STORE = "/usr/lib/wsl/drivers/nv_dispi.inf_amd64_0a1b2c3d4e5f6071"


def wsl():
    """The list of files is the container toolkit's (driver-wsl.go); the three libcuda are copies."""
    store = ("libcuda.so.1.1", "libcuda_loader.so", "libnvidia-ptxjitcompiler.so.1",
             "libnvidia-ml.so.1", "libnvidia-ml_loader.so", "libnvdxgdmal.so.1", "nvcubins.bin")
    lib = ("libcuda.so", "libcuda.so.1", "libcuda.so.1.1", "libnvidia-ml.so.1", "libdxcore.so")
    return merged(system(kernel="5.15.153.1-microsoft-standard-WSL2"),
                  {f"{WSL_STORE}/{name}": "" for name in store},
                  {f"/usr/lib/wsl/lib/{name}": name for name in lib},
                  {"nodes": ["/dev/dxg c 10 125 666 0 0 ok"]})


def wsl_container(*without_files):
    """As the container toolkit mounts it (libnvidia-container, src/nvc_info.c, lookup_wsl_libraries):
    the store's files where they are, links in the system's folder, libdxcore.so beside them."""
    folder = "/usr/lib/x86_64-linux-gnu"
    return without(merged(
        system(kernel="5.15.153.1-microsoft-standard-WSL2"), container("docker", ["/dev/dxg"]),
        {f"{WSL_STORE}/libcuda.so.1.1": "", f"{WSL_STORE}/libnvidia-ml.so.1": "",
         f"{folder}/libcuda.so.1": Link(f"{WSL_STORE}/libcuda.so.1.1"),
         f"{folder}/libnvidia-ml.so.1": Link(f"{WSL_STORE}/libnvidia-ml.so.1"),
         f"{folder}/libdxcore.so": "",
         "nodes": ["/dev/dxg c 10 125 666 0 0 ok"]}), *without_files)


def jetson():
    folder = "/usr/lib/aarch64-linux-gnu/nvidia"
    return merged(
        system(kernel="5.15.136-tegra", cores=12),
        {"/proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 62.50\nFeatures\t: fp asimd evtstrm aes "
                          "pmull sha1 sha2 crc32 atomics fphp asimdhp\nCPU implementer\t: 0x41\n",
         "/etc/nv_tegra_release": "# R36 (release), REVISION: 3.0, GCID: 36923193, BOARD: generic, "
                                  "EABI: aarch64, DATE: Fri Jul 19 23:24:25 UTC 2024\n",
         "/proc/device-tree/compatible": "nvidia,p3737-0000+p3701-0000\0nvidia,tegra234\0",
         "/sys/module/nvgpu/initstate": "live\n",
         f"{folder}/libcuda.so.1.1": "", f"{folder}/libcuda.so.1": Link("libcuda.so.1.1"),
         "nodes": ["/dev/nvgpu/igpu0/ctrl c 501 1 660 0 44 ok", "/dev/nvmap c 10 121 660 0 44 ok"]})


def mi300_cpx():
    """One card in eight partitions; each is a KFD node with a render node of its own."""
    nodes = [kfd_node(0xc100, 0x74a1, 90402, 152, 128 + n, 24, unique=7) for n in range(8)]
    return merged(system(**SERVER), amdgpu("6.12.12"),
                  amd_gpu("0000:c1:00.0", 0x74a1, 0, 128, 192, 0x120000,
                          more={"current_compute_partition": "CPX\n",
                                "current_memory_partition": "NPS1\n"}),
                  kfd(*nodes), amd_nodes(range(128, 136)), rocm("7.0.2", *ROCM7))


def igpu_dgpu():
    """The integrated graphics may have more memory than the card, on this kernel."""
    return merged(system(kernel="6.12.0-1-amd64", memory_gib=62), amdgpu(),
                  amd_gpu("0000:03:00.0", 0x744c, 0xc8, 128, 24),
                  amd_gpu("0000:0c:00.0", 0x164e, 0xc6, 129,
                          more={"mem_info_vram_total": f"{512 << 20}\n",
                                "mem_info_gtt_total": f"{31 << 30}\n"}),
                  kfd(kfd_node(0x300, 0x744c, 110000, 192, 128, 24, per_cu=2),
                      kfd_node(0xc00, 0x164e, 100306, 4, 129, 0, per_cu=2)),
                  amd_nodes((128, 129)), rocm("7.0.2", *ROCM7))


def vega_old_kernel():
    """Old kernels write no gfx_target_version."""
    return merged(system(kernel="5.4.0-190-generic"), amdgpu(),
                  amd_gpu("0000:0a:00.0", 0x687f, 0xc1, 128, 8),
                  kfd(kfd_node(0xa00, 0x687f, None, 256, 128, 8)), amd_nodes())


def strix_halo(kernel):
    """The firmware reserves 512 MiB; the driver may map 124 GiB of the machine's 128."""
    return merged(system(kernel=kernel, model="AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", cores=32,
                         memory_gib=125), amdgpu(),
                  amd_gpu("0000:c4:00.0", 0x1586, 0xc1, 128,
                          more={"mem_info_vram_total": f"{512 << 20}\n",
                                "mem_info_gtt_total": f"{124 << 30}\n"}),
                  kfd(kfd_node(0xc400, 0x1586, 110501, 80, 128, 0, per_cu=2)),
                  amd_nodes(), rocm("7.0.2", *ROCM7))


def rootless_podman(access):
    """Owner and group of the nodes have no number in the container's user namespace."""
    return merged(rx(0x744c, 0xc8, 110000, 192, 24),
                  container("podman", ["/dev/kfd", "/dev/dri/renderD128"], rootless=True),
                  amd_nodes(access=access, group=65534, owner=65534))


EFIVARS = "/sys/firmware/efi/efivars/"
MOK = "0" + "certificate of this machine " * 8
MOK_LIST = EFIVARS + "MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"
DEPENDENCIES = "/lib/modules/6.8.0-45-generic/modules.dep"


def not_loaded(gpu, *parts, version="550.90.07", module="updates/dkms/nvidia.ko"):
    """The driver's packages are there, and its module is not loaded."""
    return merged(system(), nvidia_gpus(gpu, driver=None), nvidia_libraries(version),
                  {DEPENDENCIES: f"{module}:\n" if module else "kernel/fs/ext4/ext4.ko:\n"}, *parts)


def secure_boot(*, on=True, enrolled=False):
    """UEFI's variable behind four bytes of attributes; the key that DKMS signs with; shim's list."""
    return {EFIVARS + "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "\6\0\0\0" + ("\1" if on else "\0"),
            "/var/lib/shim-signed/mok/MOK.der": MOK,
            MOK_LIST: "\6\0\0\0header" + (MOK if enrolled else "of another machine") + "end"}


def akmods_key(*, enrolled=False):
    """The key of akmods beside one of DKMS, which did not sign the module."""
    return {EFIVARS + "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "\6\0\0\0\1",
            "/var/lib/dkms/mok.pub": MOK.replace("this", "that"), "/etc/pki/akmods/certs/public_key.der": MOK,
            MOK_LIST: "\6\0\0\0header" + (MOK if enrolled else MOK.replace("this", "that")) + "end"}


def no_driver(release, gpu=RTX4090):
    return merged(system(flags=V3 + " lm"), nvidia_gpus(gpu, driver=None), {
        "/usr/lib/os-release": release, DEPENDENCIES: "kernel/fs/ext4/ext4.ko:\n"})


UBUNTU = {"/usr/lib/os-release": "ID=ubuntu\nID_LIKE=debian\n"}
RTX5090 = ("0000:01:00.0", 0x2b85, "NVIDIA GeForce RTX 5090")
FAILED_BUILD = {"/var/lib/dkms/nvidia/550.90.07/build/make.log": "make: *** [Makefile:85] Error 2\n"}

GTX1080 = ("0000:01:00.0", 0x1b80, "NVIDIA GeForce GTX 1080")
FEDORA = {"/usr/lib/os-release": "ID=fedora\nVERSION_ID=41\n"}
ARCH = {"/usr/lib/os-release": "ID=arch\n"}
TUMBLEWEED = {"/usr/lib/os-release": "ID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"\n"}


def suse_keys(*, enrolled=False):
    """openSUSE's packages make a key for each release of the driver."""
    keys = "/usr/share/nvidia-pubkeys/MOK-nvidia-driver-G06-"
    return {EFIVARS + "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "\6\0\0\0\1",
            keys + "550.90.07-12.1-default.der": MOK, keys + "535.1-1.1-default.der": MOK.replace("this", "that"),
            MOK_LIST: "\6\0\0\0header" + (MOK if enrolled else MOK.replace("this", "that")) + "end"}


MACHINES = {
    # NVIDIA, in order
    "geforce-desktop": (0, merged(system(), nvidia("550.90.07", RTX4090))),
    "geforce-proprietary-module": (0, merged(system(), nvidia("550.90.07", RTX4090, is_open=False))),
    "a100-mig": (0, merged(system(**SERVER), nvidia("550.90.07", A100S[0], pci_class=0x030200),
                           mig(0, (1, 0), (2, 0), (5, 0)))),
    "h100-mig-container": (0, in_docker(
        nvidia_module("570.124.06"), nvidia_gpus(("0000:18:00.0", 0x2330, "NVIDIA H100 80GB HBM3"),
                                                 pci_class=0x030200),
        nvidia_nodes([0]), nvidia_libraries("570.124.06"), mig(0, (1, 0)), mounts=INJECTED)),
    "nvswitch-with-fabric-manager": (0, merged(
        system(**SERVER), nvidia("550.90.07", *A100S, pci_class=0x030200), nvswitches(*SWITCHES),
        {"/usr/bin/nv-fabricmanager": "", "/proc/1402/comm": "nv-fabricmanage\n"})),
    "mixed-quadro-geforce": (0, merged(system(), nvidia(
        "550.90.07", ("0000:17:00.0", 0x1eb1, "Quadro RTX 4000"),
        ("0000:65:00.0", 0x2503, "NVIDIA GeForce RTX 3060"),
        ("0000:b3:00.0", 0x2503, "NVIDIA GeForce RTX 3060")))),
    "gtx1080-driver-580": (0, merged(system(), nvidia(
        "580.95.05", ("0000:01:00.0", 0x1b80, "NVIDIA GeForce GTX 1080"), is_open=False))),
    "rtx5090": (0, merged(system(flags=V4), nvidia(
        "570.124.06", ("0000:01:00.0", 0x2b85, "NVIDIA GeForce RTX 5090")))),
    "driver-470": (0, merged(system(kernel="5.15.0-94-generic"), nvidia(
        "470.256.02", ("0000:05:00.0", 0x102d, "Tesla K80"), ("0000:06:00.0", 0x102d, "Tesla K80"),
        is_open=False, pci_class=0x030200))),
    "nodes-on-demand": (0, {**merged(system(), nvidia("550.90.07", RTX4090)),
                            "nodes": ["/dev/null c 1 3 666 0 0 ok"]}),
    "laptop-intel-nvidia": (0, merged(
        system(model="Intel(R) Core(TM) i7-12700H"), intel_gpu("0000:00:02.0", 0x46a6),
        nvidia("550.90.07", ("0000:01:00.0", 0x28a0, "NVIDIA GeForce RTX 4060 Laptop GPU")))),
    "docker-good": (0, DOCKER),
    "host-of-containers": (0, ENGINES),
    "host-without-toolkit": (0, merged(system(), nvidia("550.90.07", RTX4090), docker())),
    "host-with-desktop": (0, merged(system(), nvidia("550.90.07", RTX4090),
                                    {"/opt/docker-desktop/bin/com.docker.backend": ""})),
    "docker-slim-without-nvrtc": (0, merged(DOCKER, {
        "/usr/local/lib/python3.11/site-packages/torch/version.py": "cuda = '12.4'\n"})),
    "wsl-good": (0, wsl()),
    "wsl-container": (0, wsl_container()),
    "wsl-container-without-libdxcore": (1, wsl_container(
        "/usr/lib/x86_64-linux-gnu/libdxcore")),
    "wsl-container-without-gpu": (0, merged(
        system(kernel="5.15.153.1-microsoft-standard-WSL2"), container("docker"))),
    "jetson-orin": (0, jetson()),

    # NVIDIA, not in order
    "nvswitch-without-fabric-manager": (1, merged(
        system(**SERVER), nvidia("550.90.07", *A100S, pci_class=0x030200), nvswitches(*SWITCHES),
        {"/usr/bin/nv-fabricmanager": ""})),
    "mismatched-driver": (1, merged(system(), nvidia("550.90.07", RTX4090),
                                    without(nvidia_module("535.183.01"), "/proc/devices"))),
    "nouveau": (1, merged(system(), nvidia_gpus(RTX4090, driver="nouveau"),
                          {"/sys/module/nouveau/initstate": "live\n"})),
    "no-driver": (1, merged(system(), nvidia_gpus(RTX4090, driver=None),
                            {"/lib/modules/6.8.0-45-generic/modules.dep":
                             "kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko\n"})),
    "no-module-for-this-kernel": (1, merged(
        system(), nvidia_gpus(RTX4090, driver=None), nvidia_libraries("550.90.07"),
        {"/lib/modules/6.8.0-45-generic/modules.dep": "kernel/fs/ext4/ext4.ko:\n"})),
    "module-not-loaded": (1, merged(
        system(), nvidia_gpus(RTX4090, driver=None), nvidia_libraries("550.90.07"),
        {"/lib/modules/6.8.0-45-generic/modules.dep": "updates/dkms/nvidia.ko: \n"})),
    "rtx5090-driver-550": (1, not_loaded(RTX5090, UBUNTU)),
    "rtx5090-bound-to-550": (1, merged(system(), UBUNTU, nvidia("550.90.07", RTX5090))),
    "rtx5090-no-driver-debian": (1, merged(system(), nvidia_gpus(RTX5090, driver=None))),
    "gtx1080-no-driver-arch": (1, merged(
        system(), {"/usr/lib/os-release": "ID=arch\n"},
        nvidia_gpus(("0000:01:00.0", 0x1b80, "NVIDIA GeForce GTX 1080"), driver=None))),
    "gtx1080-bound-to-open-module": (1, merged(system(), nvidia(
        "550.90.07", ("0000:01:00.0", 0x1b80, "NVIDIA GeForce GTX 1080")))),
    "rtx5090-beside-4090": (1, merged(
        system(), nvidia("550.90.07", RTX4090),
        nvidia_gpus(("0000:02:00.0", 0x2b85, "NVIDIA GeForce RTX 5090"), driver=None))),
    "rtx5090-beside-1080": (1, merged(
        system(), nvidia("550.90.07", ("0000:01:00.0", 0x1b80, "NVIDIA GeForce GTX 1080"), is_open=False),
        nvidia_gpus(("0000:02:00.0", 0x2b85, "NVIDIA GeForce RTX 5090"), driver=None))),
    "rtx5090-proprietary-module": (1, merged(
        system(), nvidia_module("570.124.06", is_open=False), nvidia_libraries("570.124.06"),
        nvidia_gpus(RTX5090, driver=None))),
    "gtx1080-open-module": (1, merged(
        system(), nvidia_module("550.90.07"), nvidia_libraries("550.90.07"),
        nvidia_gpus(("0000:01:00.0", 0x1b80, "NVIDIA GeForce GTX 1080"), driver=None))),
    "gtx1080-open-module-debian-on-disk": (1, not_loaded(
        GTX1080, module="updates/dkms/nvidia-current-open.ko.xz")),
    "gtx1080-open-module-ubuntu-on-disk": (1, not_loaded(
        GTX1080, UBUNTU, {"/usr/share/doc/nvidia-dkms-550-open/copyright": "MIT"})),
    "gtx1080-open-module-arch-on-disk": (1, not_loaded(
        GTX1080, ARCH, {"/var/lib/pacman/local/nvidia-open-dkms-550.90.07-1/desc": ""})),
    "gtx1080-open-module-fedora": (1, merged(
        system(), FEDORA, nvidia_module("550.90.07"), nvidia_libraries("550.90.07"),
        nvidia_gpus(GTX1080, driver=None))),
    "rtx5090-proprietary-module-ubuntu-on-disk": (1, not_loaded(
        RTX5090, UBUNTU, {"/usr/share/doc/nvidia-dkms-570-server/copyright": "NVIDIA"},
        version="570.133.07")),
    "rtx5090-driver-550-fedora": (1, not_loaded(RTX5090, FEDORA, module="extra/nvidia/nvidia.ko.xz")),
    "rtx5090-driver-550-debian": (1, not_loaded(RTX5090)),
    "akmods-failed-fedora": (1, not_loaded(RTX4090, FEDORA, {
        "/var/cache/akmods/nvidia/550.90.07-1-for-6.8.0-45-generic.failed.log": "error\n"}, module=None)),
    "akmods-failed-for-another-kernel": (1, not_loaded(RTX4090, FEDORA, {
        "/var/cache/akmods/nvidia/550.90.07-1-for-6.7.0-1.failed.log": "error\n"}, module=None)),
    "arch-kernel-replaced": (1, merged(
        system(), ARCH, nvidia_gpus(RTX4090, driver=None), nvidia_libraries("550.90.07"),
        {"/lib/modules/6.9.1-arch1-1/modules.dep": "updates/dkms/nvidia.ko:\n"})),
    "suse-prime-intel": (1, not_loaded(RTX4090, TUMBLEWEED, {"/etc/prime/current_type": "intel2\n"},
                                       module="updates/nvidia.ko.zst")),
    "suse-prime-offload": (1, not_loaded(RTX4090, TUMBLEWEED, {"/etc/prime/current_type": "offload\n"},
                                         module="updates/nvidia.ko.zst")),
    "suse-key-not-enrolled": (1, not_loaded(RTX4090, TUMBLEWEED, suse_keys(), module="updates/nvidia.ko.zst")),
    "suse-key-enrolled": (1, not_loaded(RTX4090, TUMBLEWEED, suse_keys(enrolled=True),
                                        module="updates/nvidia.ko.zst")),
    "dkms-failed-suse": (1, not_loaded(RTX4090, TUMBLEWEED, FAILED_BUILD, module=None)),
    "gtx1080-driver-590": (1, not_loaded(("0000:01:00.0", 0x1b80, "NVIDIA GeForce GTX 1080"),
                                         UBUNTU, version="590.48.01")),
    "prime-select-intel": (1, not_loaded(RTX4090, UBUNTU, {"/etc/prime-discrete": "off\n"})),
    "nvidia-blacklisted": (1, not_loaded(RTX4090, {"/etc/modprobe.d/no.conf": "# mine\nblacklist nvidia\n"})),
    "prime-select-on-demand": (1, not_loaded(RTX4090, {"/etc/prime-discrete": "on-demand\n"})),
    "secure-boot-key-not-enrolled": (1, not_loaded(RTX4090, secure_boot())),
    "secure-boot-key-enrolled": (1, not_loaded(RTX4090, secure_boot(enrolled=True))),
    "secure-boot-off": (1, not_loaded(RTX4090, secure_boot(on=False))),
    "akmods-key-not-enrolled": (1, not_loaded(RTX4090, {"/usr/lib/os-release": "ID=fedora\n"}, akmods_key(),
                                              module="extra/nvidia/nvidia.ko.xz")),
    "akmods-key-enrolled": (1, not_loaded(RTX4090, {"/usr/lib/os-release": "ID=fedora\n"},
                                          akmods_key(enrolled=True), module="extra/nvidia/nvidia.ko.xz")),
    "no-driver-rocky-9": (1, no_driver("ID=\"rocky\"\nVERSION_ID=\"9.6\"\n")),
    "no-driver-rhel-10": (1, no_driver("ID=\"rhel\"\nVERSION_ID=\"10.1\"\n")),
    "no-driver-centos-7": (1, no_driver("ID=\"centos\"\nVERSION_ID=\"7\"\n")),
    "gtx1080-no-driver-rocky-9": (1, no_driver(
        "ID=\"rocky\"\nVERSION_ID=\"9.6\"\n", ("0000:01:00.0", 0x1b80, "NVIDIA GeForce GTX 1080"))),
    "no-driver-manjaro": (1, no_driver("ID=manjaro\nID_LIKE=arch\n")),
    # What is built from a distribution has its packages: ID_LIKE of os-release(5).
    "no-driver-mint": (1, no_driver("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_ID=\"22\"\n")),
    "no-driver-lmde": (1, no_driver("ID=linuxmint\nID_LIKE=debian\nVERSION_ID=\"6\"\n")),
    "no-driver-endeavouros": (1, no_driver("ID=\"endeavouros\"\nID_LIKE=\"arch\"\n")),
    "no-driver-leap": (1, no_driver("ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\nVERSION_ID=\"15.6\"\n")),
    "no-driver-oracle-9": (1, no_driver(
        "ID=\"ol\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.4\"\nPLATFORM_ID=\"platform:el9\"\n")),
    "no-driver-amazon-2023": (1, no_driver(
        "ID=\"amzn\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"2023\"\nPLATFORM_ID=\"platform:al2023\"\n")),
    "no-driver-nobara": (1, no_driver(
        "ID=nobara\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=41\nPLATFORM_ID=\"platform:f41\"\n")),
    "dkms-failed-mint": (1, not_loaded(RTX4090, {
        "/usr/lib/os-release": "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"}, FAILED_BUILD, module=None)),
    "akmods-failed-nobara": (1, not_loaded(RTX4090, {
        "/usr/lib/os-release": "ID=nobara\nID_LIKE=\"rhel centos fedora\"\nPLATFORM_ID=\"platform:f41\"\n",
        "/var/cache/akmods/nvidia/550.90.07-1-for-6.8.0-45-generic.failed.log": "error\n"}, module=None)),
    "no-driver-tumbleweed": (1, no_driver("ID=\"opensuse-tumbleweed\"\n")),
    "dkms-failed-arch": (1, not_loaded(RTX4090, {"/usr/lib/os-release": "ID=arch\n"}, FAILED_BUILD,
                                       module=None)),
    "nodes-not-seen": (3, {path: text for path, text in merged(
        system(), nvidia("550.90.07", RTX4090)).items() if path != "nodes"}),
    "dkms-failed-without-headers": (1, not_loaded(RTX4090, FAILED_BUILD, module=None)),
    "dkms-failed": (1, not_loaded(RTX4090, FAILED_BUILD, {
        "/lib/modules/6.8.0-45-generic/build/Makefile": ""}, module=None)),
    "too-old-for-this-driver": (1, merged(
        system(), nvidia("550.90.07", RTX4090),
        nvidia_gpus(("0000:02:00.0", 0x102d, "Tesla K80"), driver=None, pci_class=0x030200))),
    "vfio": (1, merged(system(), nvidia_gpus(RTX4090, driver="vfio-pci"))),
    "uvm-missing": (1, without(merged(system(), nvidia("550.90.07", RTX4090, uvm=False)),
                               "/sys/module/nvidia_uvm", "/usr/bin/nvidia-modprobe")),
    # The module was loaded anew under a container, and has another number now.
    "podman-with-selinux": (1, merged(in_docker(
        nvidia_module("550.90.07"), nvidia_gpus(RTX4090), nvidia_nodes([0], access="EACCES"),
        nvidia_libraries("550.90.07"), mounts=INJECTED + INJECTED_LIBRARIES),
        {"/proc/self/attr/current": "system_u:system_r:container_t:s0:c120,c877\0"})),
    "docker-stale-uvm-node": (1, merged(DOCKER, {
        "/proc/devices": "Character devices:\n195 nvidia\n195 nvidiactl\n511 nvidia-uvm\n"})),
    "no-libraries": (1, without(merged(system(), nvidia("550.90.07", RTX4090)),
                                "/usr/lib/x86_64-linux-gnu/lib")),
    "node-without-rights": (1, merged(system(groups=(1000,)), nvidia(
        "550.90.07", RTX4090, mode="660", group=44, access="EACCES"))),
    "hidden-by-environment": (1, merged(system(environ=["CUDA_VISIBLE_DEVICES="]),
                                        nvidia("550.90.07", RTX4090))),
    "docker-without-gpu": (1, in_docker(nvidia_module("550.90.07"),
                                        nvidia_gpus(RTX4090, served=False))),
    "docker-devices-without-libraries": (1, without(DOCKER, "/usr/lib/x86_64-linux-gnu/lib")),
    "docker-libraries-without-devices": (1, in_docker(
        nvidia_module("550.90.07"), nvidia_gpus(RTX4090, served=False),
        nvidia_libraries("550.90.07"), mounts=INJECTED_LIBRARIES)),
    "lost-device-cgroup": (1, in_docker(
        nvidia_module("550.90.07"), nvidia_gpus(RTX4090), nvidia_nodes([0], access="EPERM"),
        nvidia_libraries("550.90.07"), mounts=INJECTED + INJECTED_LIBRARIES)),
    # Version 1 states its list: the nodes' modes alone would let one in.
    "lost-device-cgroup-v1": (1, merged(without(in_docker(
        nvidia_module("550.90.07"), nvidia_gpus(RTX4090), nvidia_nodes([0], access="-"),
        nvidia_libraries("550.90.07"), mounts=INJECTED + INJECTED_LIBRARIES),
        "/sys/fs/cgroup/"), {
            "/sys/fs/cgroup/devices/devices.list": "c 1:3 rwm\nc 1:5 rwm\nc 136:* rwm\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"})),
    "wsl-shadowed": (1, merged(wsl(), nvidia_libraries("550.90.07"))),
    "wsl-without-windows-driver": (0, merged(
        system(kernel="5.15.153.1-microsoft-standard-WSL2"),
        {"/usr/lib/wsl/lib/libdxcore.so": "", "/usr/lib/wsl/drivers": None,
         "nodes": ["/dev/dxg c 10 125 666 0 0 ok"]})),

    # AMD
    "rx5700xt": (0, rx(0x731f, 0xc1, 100100, 80, 8, amd_nodes(), rocm("7.0.2", *ROCM7))),
    "rx5700xt-wrong-override": (0, rx(0x731f, 0xc1, 100100, 80, 8, amd_nodes(),
                                      environ=["HSA_OVERRIDE_GFX_VERSION=10.3.0"])),
    "rx6700xt": (0, RX6700XT),
    "rx6700xt-override": (0, rx(0x73df, 0xc1, 100301, 80, 12, amd_nodes(), rocm("7.0.2", *ROCM7),
                                environ=["HSA_OVERRIDE_GFX_VERSION=10.3.0"])),
    "rx7900xtx": (0, RX7900XTX),
    "rx7900xtx-without-rights": (1, rx(0x744c, 0xc8, 110000, 192, 24, amd_nodes(access="EACCES"),
                                       rocm("7.0.2", *ROCM7), groups=(1000,))),
    "rx7900xtx-mode-alone": (1, rx(0x744c, 0xc8, 110000, 192, 24, amd_nodes(access="-"),
                                   rocm("7.0.2", *ROCM7), groups=(1000,))),
    "rx7900xtx-no-amdgpu": (1, merged(system(), amd_gpu("0000:03:00.0", 0x744c, 0xc8, 128, 24,
                                                        driver=None))),
    "mi210": (0, merged(system(**SERVER), amdgpu("6.12.12"),
                        amd_gpu("0000:63:00.0", 0x740f, 0x02, 128, 64, 0x038000),
                        kfd(kfd_node(0x6300, 0x740f, 90010, 416, 128, 64)), amd_nodes(),
                        rocm("7.0.2", *ROCM7))),
    "mi300x-partitioned": (0, mi300_cpx()),
    "igpu-and-dgpu": (0, igpu_dgpu()),
    "strix-halo": (0, strix_halo("6.14.0-24-generic")),
    "strix-halo-old-kernel": (0, strix_halo("6.8.0-45-generic")),
    "vega-old-kernel": (0, vega_old_kernel()),
    "rootless-podman": (1, rootless_podman("EACCES")),
    "rootless-podman-mode-alone": (1, rootless_podman("-")),
    "rootless-podman-keep-groups": (0, rootless_podman("ok")),
    "docker-amd-without-kfd": (1, merged(rx(0x744c, 0xc8, 110000, 192, 24), container("docker"))),

    # Intel
    "arc-a770": (0, merged(system(), intel_gpu("0000:03:00.0", 0x56a0), level_zero())),
    "arc-half-chain": (1, merged(system(), intel_gpu("0000:03:00.0", 0x56a0, "xe"),
                                 level_zero("libze_loader.so"))),
    "arc-without-compiler": (1, merged(system(), intel_gpu("0000:03:00.0", 0x56a0), level_zero(
        *[name for name in LEVEL_ZERO if name != "libigc.so"]))),
    "intel-laptop": (0, merged(system(model="Intel(R) Core(TM) i7-12700"),
                               intel_gpu("0000:00:02.0", 0x4680))),

    # No GPU, and machines of which little can be seen
    "cpu-only": (0, merged(system(flags=V4, cores=16, memory_gib=64),
                           pci("0000:05:00.0", 0x1a03, 0x2000, 0x030000, "ast"))),
    "old-cpu": (0, merged(system(model="Intel(R) Xeon(R) CPU X5650", flags=V2, cores=4,
                                 memory_gib=12))),
    "pod-with-limits": (0, merged(
        system(flags=V4, cores=64, memory_gib=256), container("kubernetes", cpus="0-63"),
        {"/sys/fs/cgroup/cpu.max": "250000 100000\n", "/sys/fs/cgroup/memory.max": "8589934592\n"})),
    "affinity": (0, merged(system(cores=16), {"/proc/self/status":
                                              "Uid:\t0\t0\t0\t0\nCpus_allowed_list:\t2-3,8\n"})),
    "proc-without-sys": (3, without(merged(system(), nvidia_libraries("550.90.07")), "/sys")),
    "files-of-an-image": (3, {"/usr/lib/x86_64-linux-gnu/libcuda.so.1": "", "/etc/group": "",
                              "/proc": None, "/sys": None}),
}
