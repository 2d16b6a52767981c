#!/usr/bin/python3
"""What `check` finds on the machines of machines.py: the right cause, or no error.

    tests/trees/causes.py GPUMEND [NAME...]

No Python is in these trees, so that only the machine is judged. A machine that is in order has no
finding of severity error, and a warning only where CAUSES names it; one that is not has exactly the
cause that CAUSES names. What `check` says of the machine agrees with `devices`: status, verdict, and
the same problem behind the finding. The document is what docs/json/check.schema.json promises.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from build import write  # noqa: E402
from machines import MACHINES  # noqa: E402

DOCS = HERE.parent.parent / "docs/json"

# machine: (severity, cause). Machines that are not named here have no finding.
CAUSES = {
    "nvswitch-without-fabric-manager": ("error", "fabric-manager-not-running"),
    "mismatched-driver": ("error", "driver-version-mismatch"),
    "nouveau": ("error", "nouveau-bound"),
    "no-driver": ("error", "driver-missing"),
    "no-module-for-this-kernel": ("error", "driver-module-not-built"),
    "module-not-loaded": ("error", "driver-not-loaded"),
    "too-old-for-this-driver": ("error", "driver-does-not-serve-gpu"),
    "rtx5090-driver-550": ("error", "driver-does-not-serve-gpu"),
    "rtx5090-driver-550-fedora": ("error", "driver-does-not-serve-gpu"),
    "rtx5090-driver-550-debian": ("error", "driver-does-not-serve-gpu"),
    "rtx5090-bound-to-550": ("error", "driver-does-not-serve-gpu"),
    "rtx5090-no-driver-debian": ("error", "driver-missing"),
    "gtx1080-no-driver-arch": ("error", "driver-missing"),
    "gtx1080-bound-to-open-module": ("error", "driver-does-not-serve-gpu"),
    "rtx5090-beside-4090": ("error", "driver-does-not-serve-gpu"),
    "rtx5090-beside-1080": ("error", "driver-does-not-serve-gpu"),
    "rtx5090-proprietary-module": ("error", "driver-does-not-serve-gpu"),
    "rtx5090-proprietary-module-ubuntu-on-disk": ("error", "driver-does-not-serve-gpu"),
    "gtx1080-open-module": ("error", "driver-does-not-serve-gpu"),
    "gtx1080-open-module-debian-on-disk": ("error", "driver-does-not-serve-gpu"),
    "gtx1080-open-module-ubuntu-on-disk": ("error", "driver-does-not-serve-gpu"),
    "gtx1080-open-module-arch-on-disk": ("error", "driver-does-not-serve-gpu"),
    "gtx1080-open-module-fedora": ("error", "driver-does-not-serve-gpu"),
    "gtx1080-driver-590": ("error", "driver-does-not-serve-gpu"),
    "prime-select-intel": ("error", "driver-not-loaded"),
    "nvidia-blacklisted": ("error", "driver-not-loaded"),
    "prime-select-on-demand": ("error", "driver-not-loaded"),
    "secure-boot-key-not-enrolled": ("error", "driver-not-loaded"),
    "secure-boot-key-enrolled": ("error", "driver-not-loaded"),
    "secure-boot-off": ("error", "driver-not-loaded"),
    "akmods-key-not-enrolled": ("error", "driver-not-loaded"),
    "akmods-key-enrolled": ("error", "driver-not-loaded"),
    "arch-kernel-replaced": ("error", "driver-not-loaded"),
    "suse-prime-intel": ("error", "driver-not-loaded"),
    "suse-prime-offload": ("error", "driver-not-loaded"),
    "suse-key-not-enrolled": ("error", "driver-not-loaded"),
    "suse-key-enrolled": ("error", "driver-not-loaded"),
    "no-driver-rocky-9": ("error", "driver-missing"),
    "no-driver-rhel-10": ("error", "driver-missing"),
    "no-driver-centos-7": ("error", "driver-missing"),
    "gtx1080-no-driver-rocky-9": ("error", "driver-missing"),
    "no-driver-manjaro": ("error", "driver-missing"),
    "no-driver-mint": ("error", "driver-missing"),
    "no-driver-lmde": ("error", "driver-missing"),
    "no-driver-endeavouros": ("error", "driver-missing"),
    "no-driver-leap": ("error", "driver-missing"),
    "no-driver-oracle-9": ("error", "driver-missing"),
    "no-driver-amazon-2023": ("error", "driver-missing"),
    "no-driver-nobara": ("error", "driver-missing"),
    "dkms-failed-mint": ("error", "driver-module-not-built"),
    "akmods-failed-nobara": ("error", "driver-module-not-built"),
    "no-driver-tumbleweed": ("error", "driver-missing"),
    "dkms-failed-arch": ("error", "driver-module-not-built"),
    "dkms-failed-without-headers": ("error", "driver-module-not-built"),
    "dkms-failed": ("error", "driver-module-not-built"),
    "akmods-failed-fedora": ("error", "driver-module-not-built"),
    "akmods-failed-for-another-kernel": ("error", "driver-module-not-built"),
    "dkms-failed-suse": ("error", "driver-module-not-built"),
    "vfio": ("error", "gpu-reserved-for-vm"),
    "uvm-missing": ("error", "uvm-missing"),
    "podman-with-selinux": ("error", "device-permission"),
    "docker-stale-uvm-node": ("error", "device-node-stale"),
    "no-libraries": ("error", "driver-libraries-missing"),
    "node-without-rights": ("error", "device-permission"),
    "hidden-by-environment": ("error", "gpu-hidden"),
    "docker-without-gpu": ("error", "container-without-gpu"),
    "docker-devices-without-libraries": ("error", "container-without-driver-libraries"),
    "docker-libraries-without-devices": ("error", "container-without-gpu"),
    "lost-device-cgroup": ("error", "device-cgroup-lost"),
    "lost-device-cgroup-v1": ("error", "device-cgroup-lost"),
    "host-without-toolkit": ("note", "container-runtime-missing"),
    "host-with-desktop": ("warning", "container-engine-elsewhere"),
    "wsl-container-without-libdxcore": ("error", "container-without-driver-libraries"),
    "wsl-shadowed": ("error", "wsl-libcuda-shadowed"),
    "rx5700xt-wrong-override": ("warning", "hsa-override-wrong"),
    "rx7900xtx-without-rights": ("error", "device-permission"),
    "rx7900xtx-mode-alone": ("error", "device-permission"),
    "rx7900xtx-no-amdgpu": ("error", "driver-missing"),
    "vega-old-kernel": ("warning", "amd-kernel-old"),
    "rootless-podman": ("error", "device-permission"),
    "rootless-podman-mode-alone": ("error", "device-permission"),
    "docker-amd-without-kfd": ("error", "container-without-gpu"),
    "arc-half-chain": ("error", "level-zero-missing"),
    "arc-without-compiler": ("error", "level-zero-missing"),
}
VERDICTS = {0: "ok", 1: "broken", 3: "unknown"}


def run(exe, command, folder):
    done = subprocess.run([str(exe), command, "--root", str(folder), "--json"], timeout=30,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else None


def validator():
    """A function of a document that yields what is wrong with it."""
    try:
        import jsonschema
    except ImportError:
        print("SKIP schema: python3-jsonschema is not installed")
        return lambda document: ()
    schemas = {p.name: json.loads(p.read_text()) for p in DOCS.glob("*.schema.json")}
    store = {s["$id"]: s for s in schemas.values()}
    schema = schemas["check.schema.json"]
    made = jsonschema.Draft202012Validator(
        schema, resolver=jsonschema.RefResolver.from_schema(schema, store=store))
    return lambda document: ("schema: " + e.message[:200] for e in made.iter_errors(document))


def faults_of(exe, name, folder, schema_faults):
    status, document = run(exe, "check", folder)
    devices_status, devices = run(exe, "devices", folder)
    yield from schema_faults(document)
    if status != MACHINES[name][0] or status != devices_status:
        yield f"status {status}; of devices {devices_status}; of the table {MACHINES[name][0]}"
    if document["verdict"] != VERDICTS[status]:
        yield f"verdict {document['verdict']} with status {status}"
    found = [(f["severity"], f["cause"]) for f in document["findings"]]
    expected = [CAUSES[name]] if name in CAUSES else []
    if found != expected:
        yield f"found {found}, not {expected}"
    if not devices:
        if document["host"]["devices"] is not None or not document["host"]["devices_why"]:
            yield "devices says nothing, and check does"
        return
    told = document["host"]["devices"]
    if told != {k: v for k, v in devices.items() if k not in ("schema", "root")}:
        yield "host.devices is not what devices prints"
    problems = [p["text"] for g in [devices, *devices["gpus"]] for p in g["problems"]]
    for f in document["findings"]:
        if not any(text.lower() in f["summary"].lower() for text in problems):
            yield f"devices does not say: {f['summary']}"
        if not f["repairs"]:
            yield f"no repair: {f['summary']}"


def main():
    exe, names = Path(sys.argv[1]).resolve(), sys.argv[2:] or list(MACHINES)
    schema_faults = validator()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="gpumend-trees.") as temporary:
        for name in names:
            folder = Path(temporary) / name
            write(MACHINES[name][1], folder)
            faults = list(faults_of(exe, name, folder, schema_faults))
            for fault in faults:
                print(f"FAIL {name}: {fault}")
            failed += bool(faults)
    for name in set(CAUSES) - set(MACHINES):
        print(f"FAIL {name}: there is no such machine")
        failed += 1
    print(f"{len(names) - min(failed, len(names))} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
